"""Families whose layers keep a state, alone or beside attention; forward.py runs them.

A layer's mixer takes normed rows and gives what is added to the residual. Which layers are recurrent
the file says: by heads of keys that are 0, by a list, or by a period.
"""
import math

import numpy as np

import forward
import rope
from layers import attention, gated, linear, rms_norm, sigmoid, silu, split_heads
from recurrent import convolution, delta_rule, l2_norm, mamba1_scan, mamba2_scan, rms_norm_groups, softplus


def per_layer(m, suffix, default=None):
    """A number for each layer, where the file has one for all too."""
    value = m.key(suffix) if default is None else m.key(suffix, default)
    return value if isinstance(value, list) else [value] * m.n_layer


def eps_of(m):
    return m.key("attention.layer_norm_rms_epsilon")


def attend(m, b, x, s, turn=None):
    """Attention with heads that may have norms, and with positions where turn is given."""
    q, k, v = forward.heads(b, x, s)
    if turn is not None:
        positions = np.arange(len(x))
        q, k = turn(q, positions), turn(k, positions)
    y = s.attention(q, k, v, m.key("attention.scale", 0.0))
    return linear(y, b["attn_output.weight"], b.get("attn_output.bias"))


def logits(m, x):
    return forward.output(m, rms_norm(x, m["output_norm.weight"], eps_of(m)))


# ---- gated delta nets: Qwen3-Next, Qwen3.5 ----

def delta_layers(m, n_layer):
    if "attention.recurrent_layers" in {k.removeprefix(m.arch + ".") for k in m.keys}:
        return m.key("attention.recurrent_layers")[:n_layer]
    period = m.key("full_attention_interval", 4)
    return [(i + 1) % period != 0 for i in range(n_layer)]


def by_key_head(x, n_key, sizes):
    """Rows that hold for one key head after the other parts of these sizes: the parts, each of all
    heads."""
    parts = np.split(x.reshape(len(x), n_key, -1), np.cumsum(sizes)[:-1], axis=2)
    return [p.reshape(len(x), -1) for p in parts]


def delta_inputs(m, b, x, n_key, r, key_size, value_size):
    """qkv, z, and what becomes beta and the gate. r: value heads of a key head."""
    if "ssm_in.weight" in b:
        sizes = [key_size, key_size, r * value_size, r * value_size]
        *qkv, z = by_key_head(linear(x, b["ssm_in.weight"]), n_key, sizes)
        qkv = np.concatenate(qkv, axis=1)
    else:
        qkv, z = linear(x, b["attn_qkv.weight"]), linear(x, b["attn_gate.weight"])
    if "ssm_ba.weight" in b:
        return qkv, z, *by_key_head(linear(x, b["ssm_ba.weight"]), n_key, [r, r])
    return qkv, z, linear(x, b["ssm_beta.weight"]), linear(x, b["ssm_alpha.weight"])


def delta_net(m, b, x):
    """transformers' Qwen3NextGatedDeltaNet. Value heads that share a key head follow each other, but
    in files of Qwen3.5 they are as many apart as there are key heads."""
    n_key, n_value, size = (m.key("ssm." + k) for k in ("group_count", "time_step_rank", "state_size"))
    value_size = m.key("ssm.inner_size") // n_value
    qkv, z, beta, alpha = delta_inputs(m, b, x, n_key, n_value // n_key, size, value_size)
    qkv = silu(convolution(qkv, b["ssm_conv1d.weight"]))
    q, k, v = np.split(qkv, [n_key * size, 2 * n_key * size], axis=1)
    head = np.arange(n_value)
    share = head * n_key // n_value if m.arch == "qwen3next" else head % n_key
    q = l2_norm(split_heads(q, size))[:, share] / math.sqrt(size)
    k = l2_norm(split_heads(k, size))[:, share]
    kept = np.exp(b["ssm_a"] * softplus(alpha + b["ssm_dt.bias"]))
    y, _ = delta_rule(q, k, split_heads(v, value_size), kept, sigmoid(beta))
    y = rms_norm(y, b["ssm_norm.weight"], eps_of(m)) * silu(split_heads(z, value_size))
    return linear(y.reshape(len(x), -1), b["ssm_out.weight"])


def gated_attention(m, b, x, s, turn):
    """Each head's query is followed by the gate of its output."""
    if "attn_qkv.weight" in b:
        both, k, v = np.split(linear(x, b["attn_qkv.weight"]), [2 * s.n_q, 2 * s.n_q + s.n_kv], axis=1)
    else:
        both, k, v = (linear(x, b[f"attn_{p}.weight"]) for p in "qkv")
    q, gate = np.split(split_heads(both, 2 * s.head), 2, axis=2)
    q = rms_norm(q, b["attn_q_norm.weight"], s.eps)
    k = rms_norm(split_heads(k, s.head), b["attn_k_norm.weight"], s.eps)
    positions = np.arange(len(x))
    y = s.attention(turn(q, positions), turn(k, positions), split_heads(v, s.head), m.key("attention.scale", 0.0))
    return linear(y * sigmoid(gate.reshape(len(x), -1)), b["attn_output.weight"])


def qwen_next(m, ids, n_ctx):
    """All positions of a text's token are the same, so rope of several parts is rope."""
    s = forward.Shape(m)
    n_layer = m.n_layer
    turn = rope.make(m, "neox", n_ctx, s.n_rot).turn
    x = m["token_embd.weight"][ids]
    for i, is_recurrent in enumerate(delta_layers(m, n_layer)):
        b = m.block(i)
        y = rms_norm(x, b["attn_norm.weight"], s.eps)
        x = x + (delta_net(m, b, y) if is_recurrent else gated_attention(m, b, y, s, turn))
        y = rms_norm(x, b["post_attention_norm.weight"], s.eps)
        x = x + forward.feed_forward(m, b, y, silu, True)
    return logits(m, x)


# ---- short convolutions: LFM2 ----

def short_convolution(b, x):
    """transformers' Lfm2ShortConv."""
    gate_in, gate_out, y = np.split(linear(x, b["shortconv.in_proj.weight"]), 3, axis=1)
    y = gate_out * convolution(gate_in * y, b["shortconv.conv.weight"])
    return linear(y, b["shortconv.out_proj.weight"])


def sigmoid_choice(m, b, x, is_normed):
    """The chosen experts by sigmoid and bias, and their weights, which the bias is no part of."""
    p = sigmoid(linear(x, b["ffn_gate_inp.weight"]))
    chosen = forward.choose(m, p + b["exp_probs_b.bias"], m.key("expert_used_count"))
    weights = np.take_along_axis(p, chosen, axis=1)
    if is_normed:
        weights = weights / weights.sum(axis=1, keepdims=True)
    return chosen, weights * (m.key("expert_weights_scale", 0.0) or 1.0)


def lfm2(m, ids, n_ctx):
    """The norm before the output has the name that elsewhere is the embedding's."""
    s = forward.Shape(m)
    turn = rope.make(m, "neox", n_ctx, s.n_rot).turn
    n_dense = m.key("leading_dense_block_count", 0) if m.arch == "lfm2moe" else m.n_layer
    x = m["token_embd.weight"][ids]
    for i, n_kv in enumerate(per_layer(m, "attention.head_count_kv")):
        b = m.block(i)
        y = rms_norm(x, b["attn_norm.weight"], s.eps)
        x = x + (attend(m, b, y, s, turn) if n_kv else short_convolution(b, y))
        y = rms_norm(x, b["ffn_norm.weight"], s.eps)
        if i < n_dense:
            x = x + gated(y, b, silu)
        else:
            x = x + forward.experts(y, b, *sigmoid_choice(m, b, y, True), forward.swiglu)
    return forward.output(m, rms_norm(x, m["token_embd_norm.weight"], s.eps))


# ---- Mamba ----

def mamba1(m, b, x):
    """transformers' MambaMixer and JambaMambaMixer."""
    size, rank = m.key("ssm.state_size"), m.key("ssm.time_step_rank")
    y, z = np.split(linear(x, b["ssm_in.weight"]), 2, axis=1)
    y = silu(convolution(y, b["ssm_conv1d.weight"], b["ssm_conv1d.bias"]))
    parts = np.split(linear(y, b["ssm_x.weight"]), [rank, rank + size], axis=1)
    if "ssm_dt_norm.weight" in b or m.key("ssm.dt_b_c_rms", False):
        parts = [rms_norm(p, b.get(f"ssm_{n}_norm.weight", 1.0), eps_of(m)) for p, n in zip(parts, ("dt", "b", "c"))]
    dt = softplus(linear(parts[0], b["ssm_dt.weight"], b["ssm_dt.bias"]))
    y, _ = mamba1_scan(y, dt, b["ssm_a"], parts[1], parts[2], b["ssm_d"])
    return linear(y * silu(z), b["ssm_out.weight"])


def mamba2(m, b, x):
    """transformers' Mamba2Mixer and its relatives: the gate comes before the norm."""
    inner, size = m.key("ssm.inner_size"), m.key("ssm.state_size")
    n_head, n_group = m.key("ssm.time_step_rank"), m.key("ssm.group_count")
    shared = n_group * size
    z, y, dt = np.split(linear(x, b["ssm_in.weight"]), [inner, 2 * inner + 2 * shared], axis=1)
    y = silu(convolution(y, b["ssm_conv1d.weight"], b.get("ssm_conv1d.bias")))
    y, in_, out = np.split(y, [inner, inner + shared], axis=1)
    y, _ = mamba2_scan(split_heads(y, inner // n_head), softplus(dt + b["ssm_dt.bias"]), b["ssm_a"].ravel(),
                       split_heads(in_, size), split_heads(out, size), b["ssm_d"].ravel())
    y = y.reshape(len(x), -1) * silu(z)
    if "ssm_norm.weight" in b:
        y = rms_norm_groups(y, b["ssm_norm.weight"], eps_of(m))
    return linear(y, b["ssm_out.weight"])


def mamba(m, ids, n_ctx, mixer=mamba1):
    x = m["token_embd.weight"][ids]
    for i in range(m.n_layer):
        b = m.block(i)
        x = x + mixer(m, b, rms_norm(x, b["attn_norm.weight"], eps_of(m)))
    return logits(m, x)


def jamba(m, ids, n_ctx):
    """No positions: the recurrent layers have them. Which layers have experts their tensors say."""
    s = forward.Shape(m)
    x = m["token_embd.weight"][ids]
    for i, n_kv in enumerate(per_layer(m, "attention.head_count_kv")):
        b = m.block(i)
        y = rms_norm(x, b["attn_norm.weight"], s.eps)
        x = x + (attend(m, b, y, s) if n_kv else mamba1(m, b, y))
        x = x + forward.feed_forward(m, b, rms_norm(x, b["ffn_norm.weight"], s.eps), silu, False)
    return logits(m, x)


def granite_hybrid(m, ids, n_ctx):
    """Granite with layers of Mamba-2."""
    s = forward.Shape(m)
    turn = rope.make(m, "norm", n_ctx, s.n_rot).turn if m.key("rope.scaling.finetuned", True) else None
    residual = m.key("residual_scale", 1.0)
    x = m["token_embd.weight"][ids] * m.key("embedding_scale", 1.0)
    for i, n_kv in enumerate(per_layer(m, "attention.head_count_kv")):
        b = m.block(i)
        y = rms_norm(x, b["attn_norm.weight"], s.eps)
        x = x + (attend(m, b, y, s, turn) if n_kv else mamba2(m, b, y)) * residual
        x = x + forward.feed_forward(m, b, rms_norm(x, b["ffn_norm.weight"], s.eps), silu, True) * residual
    return logits(m, x) / m.key("logit_scale", 1.0)


# ---- Nemotron-H: a layer is one mixer, and the feed-forward is one too ----

def relu_sqr(x):
    return np.maximum(x, 0) ** 2


def ungated(x, b, suffix=""):
    up = linear(x, b[f"ffn_up{suffix}.weight"], b.get(f"ffn_up{suffix}.bias"))
    return linear(relu_sqr(up), b[f"ffn_down{suffix}.weight"], b.get(f"ffn_down{suffix}.bias"))


def ungated_experts(m, b, x):
    """They may work on fewer numbers than the router and the shared expert see."""
    chosen, weights = sigmoid_choice(m, b, x, m.key("expert_weights_norm", False))
    short = linear(x, b["ffn_latent_down.weight"]) if "ffn_latent_down.weight" in b else x
    y = np.zeros_like(short)
    for t, place in np.ndindex(chosen.shape):
        e = chosen[t, place]
        y[t] += weights[t, place] * linear(relu_sqr(linear(short[t], b["ffn_up_exps.weight"][e])),
                                           b["ffn_down_exps.weight"][e])
    if "ffn_latent_up.weight" in b:
        y = linear(y, b["ffn_latent_up.weight"])
    return y + ungated(x, b, "_shexp")


def nemotron_h(m, ids, n_ctx):
    s = forward.Shape(m)
    kinds = list(zip(per_layer(m, "attention.head_count_kv"), per_layer(m, "feed_forward_length")))
    x = m["token_embd.weight"][ids]
    for i, (n_kv, n_ff) in enumerate(kinds[:m.n_layer]):
        b = m.block(i)
        y = rms_norm(x, b["attn_norm.weight"], s.eps)
        if n_ff:
            x = x + (ungated_experts(m, b, y) if "ffn_gate_inp.weight" in b else ungated(y, b))
        else:
            x = x + (attend(m, b, y, s) if n_kv else mamba2(m, b, y))
    return logits(m, x)


# ---- Falcon-H1: both, side by side ----

def falcon_h1(m, ids, n_ctx):
    """The multipliers of its configuration are in the weights. One norm's name has no ending."""
    s = forward.Shape(m)
    turn = rope.make(m, "neox", n_ctx, s.n_rot).turn
    x = m["token_embd.weight"][ids]
    for i in range(m.n_layer):
        b = m.block(i)
        y = rms_norm(x, b["attn_norm.weight"], s.eps)
        x = x + mamba2(m, b, y) + attend(m, b, y, s, turn)
        x = x + gated(rms_norm(x, b["ffn_norm"], s.eps), b, silu)
    return logits(m, x)


# ---- Kimi Linear: a gate for each key dimension; and short vectors without positions ----

def kimi_delta(m, b, x):
    """transformers' KimiLinearDeltaAttention: the gate of the output is a sigmoid."""
    size = m.key("kda.head_dim")
    q, k, v = (split_heads(silu(convolution(linear(x, b[f"attn_{p}.weight"]),
                                            b[f"ssm_conv1d_{p}.weight"].reshape(-1, m.key("ssm.conv_kernel")))), size)
               for p in "qkv")
    wide = linear(linear(x, b["ssm_f_a.weight"]), b["ssm_f_b.weight"])
    rate = split_heads(softplus(wide + b["ssm_dt.bias"]), size)
    kept = np.exp(b["ssm_a"].reshape(-1, 1) * rate)
    y, _ = delta_rule(l2_norm(q) / math.sqrt(size), l2_norm(k), v, kept, sigmoid(linear(x, b["ssm_beta.weight"])))
    gate = split_heads(linear(linear(x, b["ssm_g_a.weight"]), b["ssm_g_b.weight"]), size)
    y = rms_norm(y, b["ssm_norm.weight"], eps_of(m)) * sigmoid(gate)
    return linear(y.reshape(len(x), -1), b["attn_output.weight"])


def kimi_attention(m, b, x, s):
    q, k, v = forward.latent_heads(m, b, x, s, s.n_rot, m.key("attention.kv_lora_rank"))
    shared = np.repeat(s.kept(k[1]), s.n_head, axis=1)
    y = attention(np.concatenate(q, axis=2), np.concatenate([k[0], shared], axis=2), v,
                  1 / math.sqrt(m.key("attention.key_length_mla")))
    return linear(y, b["attn_output.weight"])


def kimi_linear(m, ids, n_ctx):
    s = forward.Shape(m)
    x = m["token_embd.weight"][ids]
    for i, n_kv in enumerate(per_layer(m, "attention.head_count_kv")):
        b = m.block(i)
        y = rms_norm(x, b["attn_norm.weight"], s.eps)
        x = x + (kimi_attention(m, b, y, s) if n_kv else kimi_delta(m, b, y))
        y = rms_norm(x, b["ffn_norm.weight"], s.eps)
        if i < m.key("leading_dense_block_count", 0):
            x = x + gated(y, b, silu)
        else:
            x = x + forward.experts(y, b, *sigmoid_choice(m, b, y, True), forward.swiglu) + gated(y, b, silu, "_shexp")
    return logits(m, x)


FAMILIES = {
    "qwen3next": (qwen_next, {}),
    "qwen35": (qwen_next, {}),
    "qwen35moe": (qwen_next, {}),
    "lfm2": (lfm2, {}),
    "lfm2moe": (lfm2, {}),
    "mamba": (mamba, {}),
    "mamba2": (mamba, {"mixer": mamba2}),
    "jamba": (jamba, {}),
    "granitehybrid": (granite_hybrid, {}),
    "nemotron_h": (nemotron_h, {}),
    "nemotron_h_moe": (nemotron_h, {}),
    "falcon-h1": (falcon_h1, {}),
    "kimi-linear": (kimi_linear, {}),
}
