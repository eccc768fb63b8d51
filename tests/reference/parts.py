"""What several families share: their sizes, queries, keys and values, windows, and routers of experts."""
import math

import numpy as np

from layers import (attention, best, experts, layer_norm, linear, queries_keys_values, rms_norm, sigmoid, softmax, split_heads,
                    swiglu)


class Shape:
    """The sizes that every family has, with what their absence in the file means."""

    def __init__(self, m):
        self.n_embd = m.key("embedding_length")
        self.n_head = m.key("attention.head_count")
        n_kv_head = m.key("attention.head_count_kv", self.n_head)
        self.n_kv_head = max(n_kv_head) if isinstance(n_kv_head, list) else n_kv_head  # 0: recurrent layers
        self.head = m.key("attention.key_length", self.n_embd // self.n_head)
        self.n_rot = m.key("rope.dimension_count", self.head)
        self.n_q, self.n_kv = self.n_head * self.head, self.n_kv_head * self.head
        self.eps = m.key("attention.layer_norm_rms_epsilon", m.key("attention.layer_norm_epsilon", None))
        self.cache = m.cache
        self.is_causal = m.key("attention.causal", True)

    def kept(self, x):
        """As the cache keeps it."""
        return self.cache(x)

    def attention(self, q, k, v, scale=None, **more):
        more.setdefault("causal", self.is_causal)
        return attention(q, self.kept(k), self.kept(v), scale or 1 / math.sqrt(self.head), **more)


def norm(x, b, name, eps):
    """A layer norm; which of its vectors there are, the file says."""
    return layer_norm(x, b[f"{name}.weight"], b.get(f"{name}.bias"), eps)


def windows(m, every, window=0):
    """The window of each layer, 0 for none: of `every` layers all but the last have one. window: its
    size where the file does not say."""
    window = m.key("attention.sliding_window", window)
    pattern = m.key("attention.sliding_window_pattern", every)
    if isinstance(pattern, int):
        pattern = [pattern == 0 or i % pattern < pattern - 1 for i in range(m.n_layer)]
    return [window if has else 0 for has in pattern]


def output(m, x):
    w = m.get("output.weight")
    return linear(x, m["token_embd.weight"] if w is None else w, m.get("output.bias"))


def heads(b, x, s):
    """Queries, keys and values of each head; where the layer has norms for them, an RMS norm over
    each head's numbers."""
    q, k, v = (split_heads(y, s.head) for y in queries_keys_values(b, x, s.n_q, s.n_kv))
    if "attn_q_norm.weight" in b:
        q = rms_norm(q, b["attn_q_norm.weight"], s.eps)
        k = rms_norm(k, b["attn_k_norm.weight"], s.eps)
    return q, k, v


# ---- experts ----

def choose(m, scores, n):
    """The n best experts of each token. m.edge remembers by how little the last of them won."""
    chosen = best(scores, n + 1)
    last = np.take_along_axis(scores, chosen[:, n - 1:n + 1], axis=1)
    m.edge = np.minimum(m.edge, last[:, 0] - last[:, 1])
    return chosen[:, :n]


def of_best_groups(m, scores):
    """Experts lie in groups, and only those of the best groups count: a group is worth its best
    expert (V2), or with weights that are sigmoids its two best ones together (V3)."""
    n_groups = m.key("expert_group_count", 1)
    if n_groups <= 1:
        return scores
    groups = scores.reshape(len(scores), n_groups, -1)
    n_counted = 2 if m.key("expert_gating_func", 1) == 2 else 1
    worth = np.sort(groups, axis=2)[..., -n_counted:].sum(axis=2)
    kept = np.zeros(worth.shape, bool)
    n_used = m.key("expert_group_used_count")
    if n_used < n_groups:
        np.put_along_axis(kept, choose(m, worth, n_used), True, axis=1)
    else:
        kept[:] = True
    return np.where(kept[..., None], groups, -np.inf).reshape(scores.shape)


def deepseek_experts(m, b, x):
    scores = linear(x, b["ffn_gate_inp.weight"])
    sigmoids = m.key("expert_gating_func", 2 if "exp_probs_b.bias" in b else 1) == 2
    p = sigmoid(scores) if sigmoids else softmax(scores)
    if "exp_probs_b.bias" in b:
        scores = p + b["exp_probs_b.bias"]
    scores = of_best_groups(m, p if sigmoids and "exp_probs_b.bias" not in b else scores)
    chosen = choose(m, scores, m.key("expert_used_count"))
    weights = np.take_along_axis(p, chosen, axis=1)
    if m.key("expert_weights_norm", False):
        weights = weights / weights.sum(axis=1, keepdims=True)
    return experts(x, b, chosen, weights * m.key("expert_weights_scale", 1.0), swiglu)
