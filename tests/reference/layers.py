"""The parts that layers are made of. Rows are tokens: x is [tokens][n]."""
import math

import numpy as np

erf = np.vectorize(math.erf, otypes=[np.float64])


# ---- functions of single numbers ----

def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def silu(x):
    return x * sigmoid(x)


def relu_squared(x):
    return np.maximum(x, 0) ** 2


def gelu(x):
    """The exact one."""
    return x * 0.5 * (1 + erf(x / math.sqrt(2)))


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))


def soft_cap(x, cap):
    return cap * np.tanh(x / cap) if cap else x


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


# ---- norms and products ----

def rms_norm(x, weight, eps):
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps) * weight


def layer_norm(x, weight, bias, eps):
    centred = x - x.mean(axis=-1, keepdims=True)
    y = centred / np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + eps) * weight
    return y if bias is None else y + bias


def linear(x, weight, bias=None):
    y = x @ weight.T
    return y if bias is None else y + bias


# ---- attention ----

def attention(q, k, v, scale, causal=True, window=0, cap=0.0, sinks=None, reach=None, slopes=None,
              chunk=0):
    """q: [tokens][heads][size]; k, v: [tokens][groups][size]; heads share the keys of their group.

    window: a token sees itself and the window - 1 tokens before it; 0: all before it. reach: it sees
    so many tokens before it and behind it. sinks: one score for each head that takes its share of the
    softmax and has no value. slopes: of ALiBi, what a head takes off a score for each token between.
    chunk: a token sees those of its own chunk of so many only."""
    n, n_head = q.shape[:2]
    # From here on [heads][tokens][size].
    q = q.transpose(1, 0, 2)
    k, v = (np.repeat(y.transpose(1, 0, 2), n_head // y.shape[1], axis=0) for y in (k, v))
    scores = q @ k.transpose(0, 2, 1) * scale
    scores = soft_cap(scores, cap)
    behind = np.arange(n)[:, None] - np.arange(n)
    if slopes is not None:
        scores = scores - np.asarray(slopes)[:, None, None] * np.abs(behind)
    hidden = np.zeros((n, n), dtype=bool)
    if causal:
        hidden |= behind < 0
    if window:
        hidden |= behind >= window
    if chunk:
        hidden |= np.arange(n)[:, None] // chunk != np.arange(n) // chunk
    if reach is not None:
        hidden |= np.abs(behind) > reach
    scores = np.where(hidden, -np.inf, scores)
    if sinks is not None:
        scores = np.concatenate([scores, np.broadcast_to(sinks[:, None, None], (n_head, n, 1))], axis=2)
    return (softmax(scores)[:, :, :n] @ v).transpose(1, 0, 2).reshape(n, -1)


def split_heads(x, size):
    return x.reshape(len(x), -1, size)


def queries_keys_values(b, x, n_q, n_kv):
    """The three products, from one matrix or from three, before they are cut into heads."""
    if "attn_qkv.weight" in b:
        y = linear(x, b["attn_qkv.weight"], b.get("attn_qkv.bias"))
        return y[:, :n_q], y[:, n_q:n_q + n_kv], y[:, n_q + n_kv:]
    return [linear(x, b[f"attn_{p}.weight"], b.get(f"attn_{p}.bias")) for p in "qkv"]


# ---- feed-forward ----

def gated(x, b, act, suffix=""):
    """act(gate) * up, down again; suffix names another set of matrices, as _shexp."""
    gate = linear(x, b[f"ffn_gate{suffix}.weight"], b.get(f"ffn_gate{suffix}.bias"))
    up = linear(x, b[f"ffn_up{suffix}.weight"], b.get(f"ffn_up{suffix}.bias"))
    return linear(act(gate) * up, b[f"ffn_down{suffix}.weight"], b.get(f"ffn_down{suffix}.bias"))


def plain(x, b, act):
    up = linear(x, b["ffn_up.weight"], b.get("ffn_up.bias"))
    return linear(act(up), b["ffn_down.weight"], b.get("ffn_down.bias"))


def best(scores, n):
    """The n best of each row, best first; of equals the lower index."""
    return np.argsort(-scores, axis=-1, kind="stable")[:, :n]


def expert_product(x, b, part, e):
    bias = b.get(f"ffn_{part}_exps.bias")
    return linear(x, b[f"ffn_{part}_exps.weight"][e], None if bias is None else bias[e])


def experts(x, b, chosen, weights, act):
    """For each token the weighted sum of what its chosen experts answer. act: of gate and up, which
    may be one matrix, the gate first."""
    y = np.zeros_like(x)
    for e in np.unique(chosen):
        tokens, place = np.nonzero(chosen == e)
        rows = x[tokens]
        if "ffn_gate_up_exps.weight" in b:
            gate, up = np.split(expert_product(rows, b, "gate_up", e), 2, axis=1)
        else:
            gate, up = expert_product(rows, b, "gate", e), expert_product(rows, b, "up", e)
        y[tokens] += weights[tokens, place, None] * expert_product(act(gate, up), b, "down", e)
    return y


def swiglu(gate, up):
    return silu(gate) * up
