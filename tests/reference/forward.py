"""What each family of models computes, in float64, token by token over the whole text at once.

logits(model, ids) gives [tokens][vocabulary]; hidden(model, ids), for models that make embeddings,
[tokens][n_embd]. FAMILIES says which function a file's architecture is for, and how it differs
from its relatives; families with recurrent layers stand in hybrid.py. n_ctx is the context that is served: it chooses between the short and the long
factors of models that have both.
"""
import math

import numpy as np

import decoders
import hybrid
import rope
from layers import (attention, experts, gated, gelu, gelu_tanh, layer_norm, linear, plain, queries_keys_values, relu_squared,
                    rms_norm, sigmoid, silu, soft_cap, softmax, split_heads, swiglu)
from parts import Shape, choose, deepseek_experts, heads, norm, output, windows


# ---- Llama and its many relatives ----

def mixture(m, b, x, renormalised):
    """Each token goes to its best experts, and to the shared one where there is one."""
    scores = linear(x, b["ffn_gate_inp.weight"])
    chosen = choose(m, scores, m.key("expert_used_count"))
    weights = np.take_along_axis(softmax(scores), chosen, axis=1)
    if renormalised:
        weights = weights / weights.sum(axis=1, keepdims=True)
    y = experts(x, b, chosen, weights * m.key("expert_weights_scale", 1.0), swiglu)
    if "ffn_up_shexp.weight" in b:
        shared = gated(x, b, silu, "_shexp")
        if "ffn_gate_inp_shexp.weight" in b:
            shared = shared * sigmoid(x @ b["ffn_gate_inp_shexp.weight"].reshape(-1, 1))
        y = y + shared
    return y


def feed_forward(m, b, x, act, renormalised):
    if "ffn_gate_inp.weight" in b:
        return mixture(m, b, x, renormalised)
    if "ffn_gate.weight" not in b:  # both in one matrix, the gate first
        both = linear(x, b["ffn_up.weight"])
        n = both.shape[1] // 2
        return linear(act(both[:, :n]) * both[:, n:], b["ffn_down.weight"])
    return gated(x, b, act)


def llama(m, ids, n_ctx, pairs="norm", act=silu, embedding=None, unroped_every=0, all_windowed=False,
          renormalised=True):
    """RMS norm, attention, RMS norm, gated feed-forward. embedding: what multiplies embeddings,
    unless the file says. unroped_every: each of so many layers has no positions at all. Granite's files
    may say that none has."""
    s = Shape(m)
    is_turned = m.arch not in ("granite", "granitemoe") or m.key("rope.scaling.finetuned", True)
    turn = rope.make(m, pairs, n_ctx, s.n_rot).turn
    positions = np.arange(len(ids))
    residual = m.key("residual_scale", 1.0)
    scale = m.key("attention.scale", 0.0)
    window = m.key("attention.sliding_window", 0) if all_windowed else 0
    x = m["token_embd.weight"][ids] * m.key("embedding_scale", embedding(s) if embedding else 1.0)
    for i in range(m.n_layer):
        b = m.block(i)
        q, k, v = heads(b, rms_norm(x, b["attn_norm.weight"], s.eps), s)
        if is_turned and (not unroped_every or (i + 1) % unroped_every):
            q, k = turn(q, positions), turn(k, positions)
        y = s.attention(q, k, v, scale, window=window)
        x = x + linear(y, b["attn_output.weight"], b.get("attn_output.bias")) * residual
        y = rms_norm(x, b["ffn_norm.weight"], s.eps)
        x = x + feed_forward(m, b, y, act, renormalised) * residual
    x = rms_norm(x, m["output_norm.weight"], s.eps)
    return output(m, x) / m.key("logit_scale", 1.0)


# ---- Gemma 2 and 3: norms before and behind, windows, caps ----

def gemma(m, ids, n_ctx, every, big, local_base=None, window=0, caps=(0.0, 0.0)):
    """every: of so many layers only the last sees everything. big: the number of layers of the one
    model that scales by the width of a head's share of the embedding instead of by its head size.
    local_base: of the rope of windowed layers, to which no scaling applies; None where all layers
    turn alike. window, and the caps of scores and logits: where the file does not say."""
    s = Shape(m)
    everywhere = rope.make(m, "neox", n_ctx, s.n_rot)
    nearby = everywhere
    if local_base:
        nearby = rope.make(m, "neox", n_ctx, s.n_rot, m.key("rope.freq_base_swa", local_base), scaled=False)
    positions = np.arange(len(ids))
    scale = 1 / math.sqrt(s.n_embd // s.n_head if m.n_layer == big else s.head)
    x = m["token_embd.weight"][ids] * math.sqrt(s.n_embd)
    for i, seen in enumerate(windows(m, every, window)):
        b = m.block(i)
        q, k, v = heads(b, rms_norm(x, b["attn_norm.weight"], s.eps), s)
        turn = (nearby if seen else everywhere).turn
        y = s.attention(turn(q, positions), turn(k, positions), v, scale, window=seen,
                        cap=m.key("attn_logit_softcapping", caps[0]))
        y = linear(y, b["attn_output.weight"])
        x = x + rms_norm(y, b["post_attention_norm.weight"], s.eps)
        y = gated(rms_norm(x, b["ffn_norm.weight"], s.eps), b, gelu_tanh)
        x = x + rms_norm(y, b["post_ffw_norm.weight"], s.eps)
    x = rms_norm(x, m["output_norm.weight"], s.eps)
    return soft_cap(output(m, x), m.key("final_logit_softcapping", caps[1]))


# ---- OLMo 2 and 3: norms behind only, and over all queries and keys at once ----

def olmo2(m, ids, n_ctx):
    s = Shape(m)
    everywhere = rope.make(m, "neox", n_ctx, s.n_rot)
    nearby = rope.make(m, "neox", n_ctx, s.n_rot, scaled=False)
    positions = np.arange(len(ids))
    x = m["token_embd.weight"][ids]
    for i, window in enumerate(windows(m, 4)):
        b = m.block(i)
        q, k, v = queries_keys_values(b, x, s.n_q, s.n_kv)
        q = split_heads(rms_norm(q, b["attn_q_norm.weight"], s.eps), s.head)
        k = split_heads(rms_norm(k, b["attn_k_norm.weight"], s.eps), s.head)
        turn = (nearby if window else everywhere).turn
        y = s.attention(turn(q, positions), turn(k, positions), split_heads(v, s.head), window=window)
        x = x + rms_norm(linear(y, b["attn_output.weight"]), b["post_attention_norm.weight"], s.eps)
        x = x + rms_norm(gated(x, b, silu), b["post_ffw_norm.weight"], s.eps)
    return output(m, rms_norm(x, m["output_norm.weight"], s.eps))


# ---- GPT-2 and what follows it: layer norms, and a feed-forward without a gate ----

def gpt2(m, ids, n_ctx, act=gelu_tanh, pairs=None):
    """One part after the other. pairs: with rope; None: with a learned vector for each position."""
    s = Shape(m)
    positions = np.arange(len(ids))
    x = m["token_embd.weight"][ids]
    turn = rope.make(m, pairs, n_ctx, s.n_rot).turn if pairs else lambda y, _: y
    if not pairs:
        x = x + m["position_embd.weight"][positions]
    for i in range(m.n_layer):
        b = m.block(i)
        q, k, v = heads(b, norm(x, b, "attn_norm", s.eps), s)
        y = s.attention(turn(q, positions), turn(k, positions), v)
        x = x + linear(y, b["attn_output.weight"], b.get("attn_output.bias"))
        x = x + plain(norm(x, b, "ffn_norm", s.eps), b, act)
    return output(m, norm(x, m.tensors, "output_norm", s.eps))


def gptneox(m, ids, n_ctx):
    """Attention and feed-forward side by side, each behind a norm of its own, or as GPT-2."""
    if not m.key("use_parallel_residual", True):
        return gpt2(m, ids, n_ctx, act=gelu, pairs="neox")
    s = Shape(m)
    turn = rope.make(m, "neox", n_ctx, s.n_rot).turn
    positions = np.arange(len(ids))
    x = m["token_embd.weight"][ids]
    for i in range(m.n_layer):
        b = m.block(i)
        q, k, v = heads(b, norm(x, b, "attn_norm", s.eps), s)
        y = s.attention(turn(q, positions), turn(k, positions), v)
        y = linear(y, b["attn_output.weight"], b.get("attn_output.bias"))
        x = x + y + plain(norm(x, b, "ffn_norm", s.eps), b, gelu)
    return output(m, norm(x, m.tensors, "output_norm", s.eps))


def falcon(m, ids, n_ctx, act=gelu):
    """Side by side behind one norm; the bigger ones have a second norm, for the attention."""
    s = Shape(m)
    turn = rope.make(m, "neox", n_ctx, s.n_rot).turn
    positions = np.arange(len(ids))
    x = m["token_embd.weight"][ids]
    for i in range(m.n_layer):
        b = m.block(i)
        for_ffn = norm(x, b, "attn_norm", s.eps)
        for_attention = norm(x, b, "attn_norm_2", s.eps) if "attn_norm_2.weight" in b else for_ffn
        q, k, v = heads(b, for_attention, s)
        y = s.attention(turn(q, positions), turn(k, positions), v)
        y = linear(y, b["attn_output.weight"], b.get("attn_output.bias"))
        x = x + y + plain(for_ffn, b, act)
    return output(m, norm(x, m.tensors, "output_norm", s.eps))


def phi2(m, ids, n_ctx):
    return falcon(m, ids, n_ctx, act=gelu_tanh)


# ---- StableLM and Command R: layer norms, and a gated feed-forward ----

def head_norms(b, x, s):
    """As heads(), with a layer norm whose weights differ from head to head."""
    q, k, v = (split_heads(y, s.head) for y in queries_keys_values(b, x, s.n_q, s.n_kv))
    if "attn_q_norm.weight" in b:
        q = layer_norm(q, b["attn_q_norm.weight"], None, s.eps)
        k = layer_norm(k, b["attn_k_norm.weight"], None, s.eps)
    return q, k, v


def stablelm(m, ids, n_ctx):
    """Without a norm of its own the feed-forward stands beside the attention."""
    s = Shape(m)
    turn = rope.make(m, "neox", n_ctx, s.n_rot).turn
    positions = np.arange(len(ids))
    x = m["token_embd.weight"][ids]
    for i in range(m.n_layer):
        b = m.block(i)
        normed = norm(x, b, "attn_norm", s.eps)
        q, k, v = head_norms(b, normed, s)
        y = s.attention(turn(q, positions), turn(k, positions), v)
        x = x + linear(y, b["attn_output.weight"])
        x = x + gated(norm(x, b, "ffn_norm", s.eps) if "ffn_norm.weight" in b else normed, b, silu)
    return output(m, norm(x, m.tensors, "output_norm", s.eps))


def command_r(m, ids, n_ctx, every=1):
    """Side by side behind one norm. every: of so many layers all but the last have a window, and
    only they have positions; 1: no window, and all have."""
    s = Shape(m)
    turn = rope.make(m, "norm", n_ctx, s.n_rot).turn
    positions = np.arange(len(ids))
    x = m["token_embd.weight"][ids]
    for i, window in enumerate(windows(m, every)):
        b = m.block(i)
        normed = norm(x, b, "attn_norm", s.eps)
        q, k, v = head_norms(b, normed, s)
        if window or every == 1:
            q, k = turn(q, positions), turn(k, positions)
        y = s.attention(q, k, v, window=window)
        x = x + linear(y, b["attn_output.weight"]) + gated(normed, b, silu)
    return output(m, norm(x, m.tensors, "output_norm", s.eps)) * m.key("logit_scale", 1.0)


# ---- DeepSeek 2: keys and values out of one short vector ----

def latent_heads(m, b, x, s, n_rot, rank):
    """q and k: the part without positions, then the part to be turned, which all heads share in k.
    rank: numbers of the short vector, which is what the cache keeps, beside the turned part."""
    if "attn_q_a.weight" in b:
        q = rms_norm(linear(x, b["attn_q_a.weight"]), b["attn_q_a_norm.weight"], s.eps)
        q = linear(q, b["attn_q_b.weight"])
    else:
        q = linear(x, b["attn_q.weight"])
    q = q.reshape(len(x), s.n_head, -1)
    plain_size = q.shape[2] - n_rot
    short = linear(x, b["attn_kv_a_mqa.weight"])
    turned_k = short[:, None, rank:]
    short = s.kept(rms_norm(short[:, :rank], b["attn_kv_a_norm.weight"], s.eps))
    if "attn_kv_b.weight" in b:
        both = linear(short, b["attn_kv_b.weight"]).reshape(len(x), s.n_head, -1)
        k, v = both[..., :plain_size], both[..., plain_size:]
    else:  # [heads][rank][numbers of a key], [heads][numbers of a value][rank]
        k = np.einsum("tr,hrd->thd", short, b["attn_k_b.weight"])
        v = np.einsum("tr,hdr->thd", short, b["attn_v_b.weight"])
    return (q[..., :plain_size], q[..., plain_size:]), (k, turned_k), v


def deepseek2(m, ids, n_ctx):
    s = Shape(m)
    turn = rope.make(m, "norm", n_ctx, s.n_rot).turn
    positions = np.arange(len(ids))
    size = m.key("attention.key_length_mla", s.head)
    # Yarn's correction of the softmax; the key holds a tenth of the weight.
    weight = m.key("rope.scaling.yarn_log_multiplier", 0.0) * 10
    scale = rope.yarn_length(rope.scaling_factor(m), weight) ** 2 / math.sqrt(size)
    warmth = decoders.temperature(m, positions)
    x = m["token_embd.weight"][ids]
    for i in range(m.n_layer):
        b = m.block(i)
        y = rms_norm(x, b["attn_norm.weight"], s.eps)
        q, k, v = latent_heads(m, b, y, s, s.n_rot, m.key("attention.kv_lora_rank"))
        turned = np.repeat(s.kept(turn(k[1], positions)), s.n_head, axis=1)
        y = attention(np.concatenate([q[0], turn(q[1], positions)], axis=2) * warmth[:, None, None],
                      np.concatenate([k[0], turned], axis=2), v, scale)
        x = x + linear(y, b["attn_output.weight"])
        y = rms_norm(x, b["ffn_norm.weight"], s.eps)
        if "ffn_gate_inp.weight" not in b:
            x = x + (gated(y, b, silu) if "ffn_gate.weight" in b else plain(y, b, relu_squared))
        else:
            x = x + deepseek_experts(m, b, y) + gated(y, b, silu, "_shexp")
    return output(m, rms_norm(x, m["output_norm.weight"], s.eps))


# ---- gpt-oss ----

def clamped_swiglu(gate, up):
    gate, up = np.minimum(gate, 7), np.clip(up, -7, 7)
    return gate * sigmoid(1.702 * gate) * (up + 1)


def gpt_oss(m, ids, n_ctx):
    """A window in every other layer, a sink in every head, and experts with biases. Its yarn bounds
    are not rounded to whole pairs."""
    s = Shape(m)
    turn = rope.make(m, "neox", n_ctx, s.n_rot, whole=False).turn
    positions = np.arange(len(ids))
    x = m["token_embd.weight"][ids]
    for i, window in enumerate(windows(m, 2)):
        b = m.block(i)
        q, k, v = heads(b, rms_norm(x, b["attn_norm.weight"], s.eps), s)
        y = s.attention(turn(q, positions), turn(k, positions), v, window=window,
                        sinks=b["attn_sinks.weight"])
        x = x + linear(y, b["attn_output.weight"], b["attn_output.bias"])
        y = rms_norm(x, b["post_attention_norm.weight"], s.eps)
        scores = linear(y, b["ffn_gate_inp.weight"], b["ffn_gate_inp.bias"])
        chosen = choose(m, scores, m.key("expert_used_count"))
        weights = softmax(np.take_along_axis(scores, chosen, axis=1))
        x = x + experts(y, b, chosen, weights, clamped_swiglu)
    return output(m, rms_norm(x, m["output_norm.weight"], s.eps))


# ---- BERT: every token sees every other; what it makes is embeddings ----

def alibi_slopes(n_head, most):
    """A row of powers for as many heads as there is a power of two, and for the others every other
    one of the row for twice as many."""
    def row(n):
        return [2 ** (-most * (i + 1) / n) for i in range(n)]
    n = 2 ** int(math.log2(n_head))
    return row(n) + row(2 * n)[0::2][:n_head - n]


def row_heads(b, x, s):
    """Queries, keys and values; norms of the first two are taken over all heads at once."""
    q, k, v = queries_keys_values(b, x, s.n_q, s.n_kv)
    if "attn_q_norm.weight" in b:
        q = norm(q, b, "attn_q_norm", s.eps)
    if "attn_k_norm.weight" in b:
        k = norm(k, b, "attn_k_norm", s.eps)
    return (split_heads(y, s.head) for y in (q, k, v))


def ungated_experts(m, b, x):
    """The chosen ones' answers by their shares among all."""
    scores = linear(x, b["ffn_gate_inp.weight"])
    chosen = choose(m, scores, m.key("expert_used_count"))
    weights = np.take_along_axis(softmax(scores), chosen, axis=1)
    y = np.zeros_like(x)
    for t, place in np.ndindex(chosen.shape):
        e = chosen[t, place]
        y[t] += weights[t, place] * linear(gelu(linear(x[t], b["ffn_up_exps.weight"][e])), b["ffn_down_exps.weight"][e])
    return y


def bert_feed_forward(m, b, x):
    if "ffn_gate_inp.weight" in b:
        return ungated_experts(m, b, x)
    if m.arch == "jina-bert-v2" and len(b["ffn_up.weight"]) == 2 * b["ffn_down.weight"].shape[1]:
        gate, up = np.split(linear(x, b["ffn_up.weight"], b.get("ffn_up.bias")), 2, axis=1)
        return linear(gelu(gate) * up, b["ffn_down.weight"], b.get("ffn_down.bias"))
    if "ffn_gate.weight" in b:
        return gated(x, b, gelu if m.arch == "jina-bert-v2" else silu)
    return plain(x, b, gelu)


def bert(m, ids, n_ctx, positions_by="rows", second_at=None):
    """positions_by: rows of a matrix, rope, or alibi."""
    with_rope = positions_by == "rope"
    s = Shape(m)
    positions = np.arange(len(ids))
    turn = rope.make(m, "neox", n_ctx, s.n_rot).turn if with_rope else lambda y, _: y
    x = m["token_embd.weight"][ids]
    if m.get("token_types.weight") is not None:
        kinds = np.zeros(len(ids), int)
        kinds[len(ids) if second_at is None else second_at:] = 1
        x = x + m["token_types.weight"][kinds]
    if positions_by == "rows":
        x = x + m["position_embd.weight"][positions]
    slopes = alibi_slopes(s.n_head, m.key("attention.max_alibi_bias", 8.0)) if positions_by == "alibi" else None
    x = norm(x, m.tensors, "token_embd_norm", s.eps)
    for i in range(m.n_layer):
        b = m.block(i)
        q, k, v = row_heads(b, x, s)
        y = s.attention(turn(q, positions), turn(k, positions), v, causal=False, slopes=slopes)
        y = linear(y, b["attn_output.weight"], b.get("attn_output.bias"))
        y = norm(x + y, b, "attn_output_norm", s.eps)
        x = norm(x + y, b, "attn_norm_2", s.eps) if "attn_norm_2.weight" in b else y
        x = norm(x + bert_feed_forward(m, b, x), b, "layer_output_norm", s.eps)
    return x


# ---- ModernBERT: norms before each part, and windows that reach both ways ----

ACTIVATIONS = {"gelu": gelu, "silu": silu}


def modern_bert(m, ids, n_ctx, second_at=None):
    """The first of three layers sees everything, the others half a window before them and behind. Both
    halves of the feed-forward are one matrix, the one that is activated first."""
    s = Shape(m)
    everywhere = rope.make(m, "neox", n_ctx, s.n_rot)
    nearby = rope.make(m, "neox", n_ctx, s.n_rot, m.key("rope.freq_base_swa", 10000.0), scaled=False)
    positions = np.arange(len(ids))
    act = ACTIVATIONS[m.key("hidden_activation", "gelu")]
    window, pattern = m.key("attention.sliding_window", 0), m.key("attention.sliding_window_pattern", 3)
    x = norm(m["token_embd.weight"][ids], m.tensors, "token_embd_norm", s.eps)
    for i in range(m.n_layer):
        b = m.block(i)
        is_local = window > 0 and (pattern[i] if isinstance(pattern, list) else i % pattern > 0)
        turn = (nearby if is_local else everywhere).turn
        q, k, v = heads(b, norm(x, b, "attn_norm", s.eps) if "attn_norm.weight" in b else x, s)
        y = s.attention(turn(q, positions), turn(k, positions), v, causal=False,
                        reach=window // 2 if is_local else None)
        x = x + linear(y, b["attn_output.weight"], b.get("attn_output.bias"))
        both = linear(norm(x, b, "ffn_norm", s.eps), b["ffn_up.weight"], b.get("ffn_up.bias"))
        gate, up = np.split(both, 2, axis=1)
        x = x + linear(act(gate) * up, b["ffn_down.weight"], b.get("ffn_down.bias"))
    return norm(x, m.tensors, "output_norm", s.eps)


def eurobert(m, ids, n_ctx, second_at=None):
    """Llama's layers, and tokens that see both ways."""
    s = Shape(m)
    turn = rope.make(m, "neox", n_ctx, s.n_rot).turn
    positions = np.arange(len(ids))
    x = m["token_embd.weight"][ids]
    for i in range(m.n_layer):
        b = m.block(i)
        q, k, v = heads(b, rms_norm(x, b["attn_norm.weight"], s.eps), s)
        y = s.attention(turn(q, positions), turn(k, positions), v, causal=False)
        x = x + linear(y, b["attn_output.weight"], b.get("attn_output.bias"))
        x = x + gated(rms_norm(x, b["ffn_norm.weight"], s.eps), b, silu)
    return rms_norm(x, m["output_norm.weight"], s.eps)


def gemma_embedding(m, ids, n_ctx, second_at=None):
    """Gemma 3 whose tokens see both ways, and what comes behind its pooling, which is the same for a
    row as for a mean of rows."""
    s = Shape(m)
    everywhere = rope.make(m, "neox", n_ctx, s.n_rot)
    nearby = rope.make(m, "neox", n_ctx, s.n_rot, m.key("rope.freq_base_swa", 10000.0), scaled=False)
    positions = np.arange(len(ids))
    x = m["token_embd.weight"][ids] * math.sqrt(s.n_embd)
    for i, window in enumerate(windows(m, 6)):
        b = m.block(i)
        q, k, v = heads(b, rms_norm(x, b["attn_norm.weight"], s.eps), s)
        turn = (nearby if window else everywhere).turn
        y = s.attention(turn(q, positions), turn(k, positions), v, causal=False,
                        reach=window // 2 if window else None)
        x = x + rms_norm(linear(y, b["attn_output.weight"]), b["post_attention_norm.weight"], s.eps)
        y = gated(rms_norm(x, b["ffn_norm.weight"], s.eps), b, gelu_tanh)
        x = x + rms_norm(y, b["post_ffw_norm.weight"], s.eps)
    x = rms_norm(x, m["output_norm.weight"], s.eps)
    for name in ("dense_2.weight", "dense_3.weight"):
        x = x if m.get(name) is None else linear(x, m[name])
    return x


FAMILIES = {
    "llama": (llama, {}),
    "smollm3": (llama, {"unroped_every": 4}),
    "internlm2": (llama, {}),
    "granite": (llama, {}),
    "granitemoe": (llama, {}),
    "exaone": (llama, {"pairs": "neox"}),
    "qwen2": (llama, {"pairs": "neox"}),
    "qwen3": (llama, {"pairs": "neox"}),
    "qwen2moe": (llama, {"pairs": "neox", "renormalised": False}),
    "qwen3moe": (llama, {"pairs": "neox"}),
    "phi3": (llama, {"pairs": "neox", "all_windowed": True}),
    "gemma": (llama, {"pairs": "neox", "act": gelu_tanh, "embedding": lambda s: math.sqrt(s.n_embd)}),
    "gemma2": (gemma, {"every": 2, "big": 46, "window": 4096, "caps": (50.0, 30.0)}),
    "gemma3": (gemma, {"every": 6, "big": 62, "local_base": 10000.0}),
    "olmo2": (olmo2, {}),
    "gpt2": (gpt2, {}),
    "starcoder": (gpt2, {}),
    "starcoder2": (gpt2, {"pairs": "neox"}),
    "gptneox": (gptneox, {}),
    "falcon": (falcon, {}),
    "phi2": (phi2, {}),
    "stablelm": (stablelm, {}),
    "command-r": (command_r, {}),
    "cohere2": (command_r, {"every": 4}),
    "deepseek2": (deepseek2, {}),
    "plm": (deepseek2, {}),
    "gpt-oss": (gpt_oss, {}),
    "bert": (bert, {}),
    "nomic-bert": (bert, {"positions_by": "rope"}),
    "nomic-bert-moe": (bert, {"positions_by": "rope"}),
    "jina-bert-v2": (bert, {"positions_by": "alibi"}),
    "jina-bert-v3": (bert, {"positions_by": "rope"}),
    "modern-bert": (modern_bert, {}),
    "eurobert": (eurobert, {}),
    "gemma-embedding": (gemma_embedding, {}),
    **decoders.FAMILIES,
}
EMBEDDERS = ("bert", "nomic-bert", "nomic-bert-moe", "jina-bert-v2", "jina-bert-v3", "modern-bert", "eurobert",
             "gemma-embedding")


def forward(m, ids, n_ctx=None, cache=np.asarray, **more):
    """The rows that a model makes of ids: logits, or hidden rows of an embedder. cache: how keys and
    values are rounded. m.edge tells afterwards how near each token was to going to
    other experts."""
    function, traits = FAMILIES[m.arch] if m.arch in FAMILIES else hybrid.FAMILIES[m.arch]
    m.cache, m.edge = cache, np.full(len(ids), np.inf)
    return function(m, np.asarray(ids), n_ctx or m.key("context_length"), **traits, **more)


def labels(m, row):
    """The numbers that a classifier makes of a pooled row."""
    if m.arch == "modern-bert" and m.get("cls.weight") is not None:
        row = gelu(linear(row, m["cls.weight"], m.get("cls.bias")))
        row = norm(row, m.tensors, "cls.norm", m.key("attention.layer_norm_epsilon"))
    elif m.get("cls.output.weight") is None:
        return np.tanh(linear(row, m["cls.weight"], m["cls.bias"]))
    elif m.get("cls.weight") is not None:
        row = np.tanh(linear(row, m["cls.weight"], m.get("cls.bias")))
    return linear(row, m["cls.output.weight"], m.get("cls.output.bias"))


def mean_nll(rows, ids):
    """Mean negative log-likelihood of ids[1:], row t telling of ids[t + 1]."""
    rows = rows[:-1]
    top = rows.max(axis=1)
    total = top + np.log(np.exp(rows - top[:, None]).sum(axis=1))
    return float((total - rows[np.arange(len(rows)), ids[1:]]).mean())
