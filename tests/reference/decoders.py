"""This year's decoders: attention, then a feed-forward net or experts, in an order that all of them share; what tells them
apart are arguments. See forward.py."""
import numpy as np

import rope
from layers import (experts, gated, gelu_tanh, linear, queries_keys_values, rms_norm, sigmoid, silu, soft_cap, softmax,
                    split_heads, swiglu)
from parts import Shape, choose, norm, output, windows


# ---- queries and keys ----

def temperature(m, positions, offset=0, scale=0.0, length=None):
    """What queries are multiplied by: they grow with the logarithm of the pieces of `length` tokens before them."""
    scale = m.key("attention.temperature_scale", scale)
    if scale == 0:
        return np.ones(len(positions))
    length = length or m.key("rope.scaling.original_context_length", m.key("context_length"))
    return 1 + scale * np.log(1 + np.floor((positions + offset) / m.key("attention.temperature_length", length)))


def normed_heads(b, x, s, over):
    """over: "head", or "all" heads at once."""
    if "attn_q_norm.weight" not in b:
        return x
    q, k = x
    if over == "all":
        return [split_heads(rms_norm(y.reshape(len(y), -1), b[f"attn_{p}_norm.weight"], s.eps), s.head)
                for p, y in zip("qk", (q, k))]
    return [rms_norm(y, b[f"attn_{p}_norm.weight"], s.eps) for p, y in zip("qk", (q, k))]


def unit(x, eps):
    """An RMS norm without weights."""
    return rms_norm(x, 1.0, eps)


def attend(m, b, x, s, turn, warmth, over="head", late=False, units=False, **more):
    """late: norms come behind the rotation. units: where there is one, norms without weights do, but in the model of
    128 experts."""
    units = units and m.key("expert_count", 0) != 128
    q, k, v = (split_heads(y, s.head) for y in queries_keys_values(b, x, s.n_q, s.n_kv))
    q, k = (q, k) if late else normed_heads(b, (q, k), s, over)
    q, k = (turn(q), turn(k)) if turn else (q, k)
    q, k = normed_heads(b, (q, k), s, over) if late else (q, k)
    q, k = (unit(q, s.eps), unit(k, s.eps)) if units and turn else (q, k)
    y = s.attention(q * warmth[:, None, None], k, v, m.key("attention.output_scale", 0.0),
                    cap=m.key("attn_logit_softcapping", 0.0), **more)
    y = rms_norm(y, b["attn_sub_norm.weight"], s.eps) if "attn_sub_norm.weight" in b else y
    return linear(y, b["attn_output.weight"], b.get("attn_output.bias"))


# ---- experts ----

def mixer_weights(m, scores, chosen):
    """SparseMixer's, for use: of those that are left when an expert is chosen, the ones that are all but as good share."""
    weights, left = np.zeros(chosen.shape), scores.copy()
    tokens = np.arange(len(scores))
    for j in range(chosen.shape[1]):
        best = left.max(axis=1, keepdims=True)
        size = np.maximum(np.abs(scores), best)
        behind = best - left - 2 * 0.01 * size
        others = np.isfinite(left) & (left < best)
        m.edge = np.minimum(m.edge, np.abs(np.where(others, behind, np.inf)).min(axis=1))
        weights[:, j] = 1 / np.where(behind <= 0, np.exp(left - best), 0).sum(axis=1)
        left[tokens, chosen[:, j]] = -np.inf
    return weights


def routed(m, b, x, gate="softmax", normed=True, act=swiglu):
    """gate: "softmax", "sigmoid", "mixer", or None: what the file says."""
    gate = gate or ("sigmoid" if m.key("expert_gating_func", 1) == 2 else "softmax")
    scores = linear(x, b["ffn_gate_inp.weight"])
    p = sigmoid(scores) if gate == "sigmoid" else softmax(scores)
    bias = b.get("exp_probs_b.bias")
    chosen = choose(m, scores if bias is None else p + bias, m.key("expert_used_count"))
    weights = mixer_weights(m, scores, chosen) if gate == "mixer" else np.take_along_axis(p, chosen, axis=1)
    if m.key("expert_weights_norm", normed):
        weights = weights / weights.sum(axis=1, keepdims=True)
    y = experts(x, b, chosen, weights * m.key("expert_weights_scale", 1.0), act)
    return y + gated(x, b, silu, "_shexp") if "ffn_up_shexp.weight" in b else y


def weighed_inputs(m, b, x):
    """Llama 4's: what experts take is multiplied by the sigmoids of those chosen."""
    scores = linear(x, b["ffn_gate_inp.weight"])
    chosen = choose(m, scores, m.key("expert_used_count"))
    weights = np.take_along_axis(sigmoid(scores), chosen, axis=1)
    y = gated(x, b, silu, "_shexp")
    for j in range(chosen.shape[1]):
        y = y + experts(x * weights[:, j:j + 1], b, chosen[:, j:j + 1], np.ones((len(x), 1)), swiglu)
    return y


def grok_experts(m, b, x):
    """Capped scores, shares among all, and the half of the square of what a dense net beside them adds."""
    scores = soft_cap(linear(x, b["ffn_gate_inp.weight"]), m.key("router_logit_softcapping", 30.0))
    chosen = choose(m, scores, m.key("expert_used_count"))
    y = experts(x, b, chosen, np.take_along_axis(softmax(scores), chosen, axis=1), lambda gate, up: gelu_tanh(gate) * up)
    return (y + gated(x, b, gelu_tanh)) * np.sqrt(0.5) if "ffn_up.weight" in b else y


def fed(m, b, x, eps, router):
    if "ffn_gate_inp.weight" in b:
        return router(m, b, x)
    if "ffn_sub_norm.weight" in b:
        y = silu(linear(x, b["ffn_gate.weight"])) * linear(x, b["ffn_up.weight"])
        return linear(rms_norm(y, b["ffn_sub_norm.weight"], eps), b["ffn_down.weight"])
    if "ffn_gate.weight" not in b:  # both in one matrix, the gate first
        gate, up = np.split(linear(x, b["ffn_up.weight"]), 2, axis=1)
        return linear(silu(gate) * up, b["ffn_down.weight"])
    return gated(x, b, silu)


# ---- the layers ----

def decoder(m, ids, n_ctx, pairs="neox", before=("attn_norm", "ffn_norm"), behind=(None, None), every=0, chunk=0,
            router=routed, warm=None, all_dims=False, **attention):
    """before, behind: names of the norms of what attention and feed-forward take, and add; None for none. every: of so
    many layers all but the last have a window, or chunks, of this size if the file says none, and only they have
    positions, if there is one. warm: "all" layers have a temperature, or only those "unturned"."""
    s = Shape(m)
    sections = m.key("rope.dimension_sections", [0])
    pairs = pairs if pairs != "sections" else "neox" if any(sections) else "norm"
    rotation = rope.make(m, pairs, n_ctx, s.n_rot, all_dims=all_dims)
    positions = np.arange(len(ids))
    cool = np.ones(len(ids))
    warmth = {None: cool, "all": temperature(m, positions), "unturned": temperature(m, positions, 1, 0.1, 8192)}[warm]
    seen = windows(m, every, chunk) if every else [0] * m.n_layer
    x = m["token_embd.weight"][ids] * m.key("embedding_scale", 1.0)

    def part(name, b, y):
        return y if name is None else norm_of(b, name, y, s.eps)

    def turn(y):
        return rotation.turn(y, positions)
    for i in range(m.n_layer):
        b = m.block(i)
        is_turned = bool(seen[i] or not any(seen))
        y = attend(m, b, part(before[0], b, x), s, turn if is_turned else None,
                   cool if warm == "unturned" and is_turned else warmth,
                   **{"chunk" if chunk else "window": seen[i]}, **attention)
        x = x + part(behind[0], b, y)
        y = fed(m, b, part(before[1], b, x), s.eps, router)
        x = x + part(behind[1], b, y)
    y = output(m, norm_of(m.tensors, "output_norm", x, s.eps)) * m.key("logit_scale", 1.0)
    return soft_cap(y, m.key("final_logit_softcapping", 0.0))


def grok(m, ids, n_ctx):
    """Where files are silent they mean Grok 1."""
    usual = {"embedding_scale": 78.38367176906169, "logit_scale": 0.5773502691896257, "attn_logit_softcapping": 30.0,
             "attention.output_scale": 0.08838834764831845}
    m.keys = {**{f"{m.arch}.{k}": v for k, v in usual.items()}, **m.keys}
    last = "layer_output_norm" if m.get("blk.0.layer_output_norm.weight") is not None else "post_ffw_norm"
    return decoder(m, ids, n_ctx, behind=("attn_output_norm", last), router=grok_experts)


def norm_of(b, name, x, eps):
    """With a bias it is a layer norm."""
    return norm(x, b, name, eps) if f"{name}.bias" in b else rms_norm(x, b[f"{name}.weight"], eps)


def router(gate="softmax", normed=True):
    return lambda m, b, x: routed(m, b, x, gate, normed)


BEHIND = ("post_attention_norm", "post_ffw_norm")
# ---- Gemma 4: heads of two sizes, shared keys and values, a row for each layer ----

def per_layer_rows(m, ids, x, n, eps):
    """[layers][tokens][n]: what each layer is told of its token once more."""
    rows = m["per_layer_token_embd.weight"][ids] * np.sqrt(n)
    made = split_heads(linear(x, m["per_layer_model_proj.weight"]) / np.sqrt(x.shape[1]), n)
    made = rms_norm(made, m["per_layer_proj_norm.weight"], eps)
    return ((made + split_heads(rows, n)) * np.sqrt(0.5)).transpose(1, 0, 2)


def gemma4_experts(m, b, x, eps):
    """The dense net and the experts beside it: each has its norms, and the router one of its own."""
    y = gated(rms_norm(x, b["ffn_norm.weight"], eps), b, gelu_tanh)
    if "ffn_gate_inp.weight" not in b:
        return y
    scores = linear(unit(x, eps) * b["ffn_gate_inp.scale"] / np.sqrt(x.shape[1]), b["ffn_gate_inp.weight"])
    chosen = choose(m, scores, m.key("expert_used_count"))
    weights = softmax(np.take_along_axis(scores, chosen, axis=1))
    weights = weights * b["ffn_down_exps.scale"][chosen] if "ffn_down_exps.scale" in b else weights
    of_experts = experts(rms_norm(x, b["pre_ffw_norm_2.weight"], eps), b, chosen, weights,
                         lambda gate, up: gelu_tanh(gate) * up)
    return rms_norm(y, b["post_ffw_norm_1.weight"], eps) + rms_norm(of_experts, b["post_ffw_norm_2.weight"], eps)


def at_layer(value, i):
    return value[i] if isinstance(value, list) else value


def gemma4(m, ids, n_ctx):
    s = Shape(m)
    everywhere = rope.make(m, "neox", n_ctx, s.n_rot)
    nearby = rope.make(m, "neox", n_ctx, m.key("rope.dimension_count_swa"), m.key("rope.freq_base_swa", 10000.0), scaled=False)
    positions = np.arange(len(ids))
    n_own = m.n_layer - m.key("attention.shared_kv_layers", 0)
    n_rows = m.key("embedding_length_per_layer_input", 0)
    x = m["token_embd.weight"][ids] * np.sqrt(s.n_embd)
    rows = per_layer_rows(m, ids, x, n_rows, s.eps) if n_rows else None
    kept = {}
    for i, window in enumerate(windows(m, 6)):
        b = m.block(i)
        head = m.key("attention.key_length_swa", s.head) if window else s.head
        turn = (nearby if window else everywhere).turn
        y = rms_norm(x, b["attn_norm.weight"], s.eps)
        q = turn(rms_norm(split_heads(linear(y, b["attn_q.weight"]), head), b["attn_q_norm.weight"], s.eps), positions)
        if i < n_own:
            k = split_heads(linear(y, b["attn_k.weight"]), head)
            assert k.shape[1] == at_layer(m.key("attention.head_count_kv"), i)
            v = split_heads(linear(y, b["attn_v.weight"]), head) if "attn_v.weight" in b else k
            kept[bool(window)] = turn(rms_norm(k, b["attn_k_norm.weight"], s.eps), positions), unit(v, s.eps)
        y = s.attention(q, *kept[bool(window)], 1.0, window=window)
        x = x + rms_norm(linear(y, b["attn_output.weight"]), b["post_attention_norm.weight"], s.eps)
        x = x + rms_norm(gemma4_experts(m, b, x, s.eps), b["post_ffw_norm.weight"], s.eps)
        if n_rows:
            y = linear(gelu_tanh(linear(x, b["inp_gate.weight"])) * rows[i], b["proj.weight"])
            x = x + rms_norm(y, b["post_norm.weight"], s.eps)
        x = x * b.get("layer_output_scale.weight", 1.0)
    y = output(m, rms_norm(x, m["output_norm.weight"], s.eps))
    return soft_cap(y, m.key("final_logit_softcapping", 0.0))


# ---- Gemma 3n: four streams, of which layers run the first, and a low-rank net beside attention ----

def modalities(b, x, eps):
    return np.tanh(linear(rms_norm(x, b["altup_router_norm.weight"], eps) / x.shape[1], b["altup_router.weight"]))


def matched(x, like):
    """x, as long as `like`."""
    return x * np.sqrt((like ** 2).mean(axis=1, keepdims=True) / np.maximum((x ** 2).mean(axis=1, keepdims=True), 1e-5))


def sparse(gate, deviations):
    if deviations == -np.inf:
        return gate
    bound = gate.mean(axis=1, keepdims=True) + gate.std(axis=1, keepdims=True) * deviations
    return np.maximum(gate - bound, 0)


def gemma3n(m, ids, n_ctx):
    s = Shape(m)
    everywhere = rope.make(m, "neox", n_ctx, s.n_rot)
    nearby = rope.make(m, "neox", n_ctx, s.n_rot, m.key("rope.freq_base_swa", 10000.0), scaled=False)
    positions = np.arange(len(ids))
    n_own = m.n_layer - m.key("attention.shared_kv_layers")
    cuts = m.key("activation_sparsity_scale")
    x = m["token_embd.weight"][ids] * np.sqrt(s.n_embd)
    rows = per_layer_rows(m, ids, x, m.key("embedding_length_per_layer_input"), s.eps)
    streams = np.stack([x, *(matched(linear(x, w), x) for w in m["altup_proj.weight"])])
    n, kept = len(streams), {}
    for i, window in enumerate(windows(m, 5)):
        b = m.block(i)
        turn = (nearby if window else everywhere).turn
        c = linear(modalities(b, streams[0], s.eps), b["altup_predict_coef.weight"]).reshape(-1, n, n)
        predicted = streams + np.einsum("tij,jtd->itd", c, streams)
        y = rms_norm(predicted[0], b["attn_norm.weight"], s.eps)
        low = linear(linear(y, b["laurel_l.weight"]), b["laurel_r.weight"])
        laurel = y + rms_norm(low, b["laurel_post_norm.weight"], s.eps)
        q = turn(rms_norm(split_heads(linear(y, b["attn_q.weight"]), s.head), b["attn_q_norm.weight"], s.eps), positions)
        if i < n_own:
            k, v = (split_heads(linear(y, b[f"attn_{p}.weight"]), s.head) for p in "kv")
            kept[bool(window)] = turn(rms_norm(k, b["attn_k_norm.weight"], s.eps), positions), unit(v, s.eps)
        y = linear(s.attention(q, *kept[bool(window)], 1.0, window=window), b["attn_output.weight"])
        x = (predicted[0] + rms_norm(y, b["post_attention_norm.weight"], s.eps) + laurel) * np.sqrt(0.5)
        y = rms_norm(x, b["ffn_norm.weight"], s.eps)
        gate = gelu_tanh(sparse(linear(y, b["ffn_gate.weight"]), cuts[i]))
        y = linear(gate * linear(y, b["ffn_up.weight"]), b["ffn_down.weight"])
        x = x + rms_norm(y, b["post_ffw_norm.weight"], s.eps)
        c = linear(modalities(b, x, s.eps), b["altup_correct_coef.weight"]) + 1
        streams = predicted + c.T[:, :, None] * (x - predicted[0])
        y = gelu_tanh(linear(streams[0] * b["altup_correct_scale.weight"], b["inp_gate.weight"])) * rows[i]
        streams[1:] += rms_norm(linear(y, b["proj.weight"]), b["post_norm.weight"], s.eps)
    others = [matched(linear(x, w), streams[0]) for w, x in zip(m["altup_unembd_proj.weight"], streams[1:])]
    x = (streams[0] + sum(others)) / n
    y = output(m, rms_norm(x, m["output_norm.weight"], s.eps))
    return soft_cap(y, m.key("final_logit_softcapping", 0.0))


AS_FFN = ("attn_norm", "post_attention_norm")  # files call the norm before the feed-forward so

FAMILIES = {
    "glm4": (decoder, {"pairs": "sections", "behind": BEHIND}),
    "glm4moe": (decoder, {"before": AS_FFN, "router": lambda m, b, x: routed(
        m, b, x, None if m.key("expert_gating_func", 0) else "sigmoid", False)}),
    "ernie4_5": (decoder, {"pairs": "norm"}),
    "ernie4_5-moe": (decoder, {"pairs": "norm"}),
    "hunyuan-dense": (decoder, {"late": True}),
    "hunyuan-moe": (decoder, {"late": True}),
    "seed_oss": (decoder, {"before": AS_FFN}),
    "exaone4": (decoder, {"before": (None, None), "behind": BEHIND, "every": 4}),
    "olmoe": (decoder, {"over": "all", "router": router(normed=False)}),
    "phimoe": (decoder, {"router": router("mixer", False)}),
    "dots1": (decoder, {"router": router(None, False)}),
    "minimax-m2": (decoder, {"over": "all", "router": router(None)}),
    "mistral3": (decoder, {"pairs": "norm", "warm": "all", "all_dims": True}),
    "qwen2vl": (decoder, {}),
    "qwen3vl": (decoder, {}),
    "qwen3vlmoe": (decoder, {}),
    "llama4": (decoder, {"pairs": "norm", "every": 4, "chunk": 8192, "warm": "unturned", "units": True,
                         "router": weighed_inputs}),
    "bitnet": (decoder, {}),
    "grok": (grok, {}),
    "gemma4": (gemma4, {}),
    "gemma3n": (gemma3n, {}),
}
