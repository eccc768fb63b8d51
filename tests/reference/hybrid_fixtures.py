"""Random model files of families whose layers keep a state: several recurrent layers and, where a
family has them, several with attention. See fixtures.py.

SERVED names those that the engine serves: fixtures.py has these, and with them the tests.
"""
import numpy as np

SERVED = ("qwen3next", "qwen35", "qwen35moe", "lfm2", "lfm2moe", "kimi-linear", "mamba", "mamba2", "jamba", "granitehybrid",
          "nemotron_h", "nemotron_h_moe", "falcon-h1")


def odd(f):
    return f.kind == "F32"


def heads(f):
    """Attention that does not add up to the embedding."""
    f.n_head, f.n_kv_head, f.head = (3, 1, 24) if odd(f) else (4, 2, 32)


def kv_heads(f, pattern):
    """Of each layer; 0 where the pattern has another mixer than attention."""
    f.key("attention.head_count_kv", [f.n_kv_head if mixer == "a" else 0 for mixer in pattern])


def rates(f, name, *shape):
    """-exp(A_log), as files have it."""
    f.add(name, "F32", -np.abs(f.rng.normal(-1.0, 0.25, shape)))


def convolution(f, name, channels, taps, bias=False):
    f.vector(name + ".weight", channels, taps, mean=0.2, std=0.5)
    if bias:
        f.vector(name + ".bias", channels)


def sigmoid_experts(f, i):
    """Scores that are not all but 0 or 1, and the bias that only the choice heeds. An expert adds less
    than in other fixtures: in six layers more tokens are on an edge between two."""
    f.experts(i)
    f.matrix(f"blk.{i}.ffn_down_exps", f.n_expert, f.n_embd, f.n_ff_exp, gain=0.3)
    router(f, i)


def router(f, i):
    f.matrix(f"blk.{i}.ffn_gate_inp", f.n_expert, f.n_embd, gain=1.5, kind="F32")
    f.vector(f"blk.{i}.exp_probs_b.bias", f.n_expert)


def shared_expert(f, i, gate=False):
    f.gated(i, f.n_ff_shared, "_shexp")
    if gate:
        f.vector(f"blk.{i}.ffn_gate_inp_shexp.weight", f.n_embd, std=0.2)


# ---- gated delta nets ----

def delta_net(f, i, n_key, r, size):
    b, n_value = f"blk.{i}.", n_key * r
    keys, values = n_key * size, n_value * size
    if f.variant == "grouped":  # as the first files of Qwen3-Next
        f.matrix(b + "ssm_in", 2 * keys + 2 * values, f.n_embd)
    else:
        f.matrix(b + "attn_qkv", 2 * keys + values, f.n_embd)
        f.matrix(b + "attn_gate", values, f.n_embd)
    convolution(f, b + "ssm_conv1d", 2 * keys + values, 4)
    if f.arch == "qwen3next":
        f.matrix(b + "ssm_ba", 2 * n_value, f.n_embd)
    else:
        f.matrix(b + "ssm_beta", n_value, f.n_embd)
        f.matrix(b + "ssm_alpha", n_value, f.n_embd)
    f.vector(b + "ssm_dt.bias", n_value, mean=-1.0)
    rates(f, b + "ssm_a", n_value)
    f.norm(b + "ssm_norm", size)
    f.matrix(b + "ssm_out", f.n_embd, values)


def gated_attention(f, i):
    b, n_q, n_kv = f"blk.{i}.", f.n_head * f.head, f.n_kv_head * f.head
    if f.variant == "grouped":
        f.matrix(b + "attn_qkv", 2 * n_q + 2 * n_kv, f.n_embd, gain=1.1)
    else:
        f.matrix(b + "attn_q", 2 * n_q, f.n_embd, gain=1.1)
        f.matrix(b + "attn_k", n_kv, f.n_embd, gain=1.1)
        f.matrix(b + "attn_v", n_kv, f.n_embd)
    f.matrix(b + "attn_output", f.n_embd, n_q)
    f.norm(b + "attn_q_norm", f.head)
    f.norm(b + "attn_k_norm", f.head)


def delta_keys(f, n_key, r, size):
    for suffix, value in [("conv_kernel", 4), ("state_size", size), ("group_count", n_key),
                          ("time_step_rank", n_key * r), ("inner_size", n_key * r * size)]:
        f.key("ssm." + suffix, value)


def next_token(f, i):
    """The layers behind the last one guess further tokens, and are no part of the model."""
    b = f"blk.{i}."
    f.matrix(b + "nextn.eh_proj", f.n_embd, 2 * f.n_embd)
    for name in ("enorm", "hnorm", "shared_head_norm"):
        f.norm(b + "nextn." + name)


def delta_layer(f, i, is_recurrent, sizes):
    f.norm(f"blk.{i}.attn_norm")
    if is_recurrent:
        delta_net(f, i, *sizes)
    else:
        gated_attention(f, i)
    f.norm(f"blk.{i}.post_attention_norm")
    if f.arch == "qwen35":
        f.gated(i)
    else:
        f.experts(i, fused=f.variant == "grouped")
        shared_expert(f, i, gate=True)


def qwen_next(f):
    heads(f)
    is_moe, n_rot = f.arch != "qwen35", f.head // 2
    sizes = (2, 3 if f.arch == "qwen3next" else 2, 12 if odd(f) else 32)
    recurrent = [True, True, False] * 2 if f.variant != "layers" else [False, True, True, True, False, True]
    f.n_layer = len(recurrent)
    f.sizes()
    f.rope(n_rot)
    delta_keys(f, *sizes)
    if f.arch != "qwen3next" and f.variant != "layers":
        f.key("rope.dimension_sections", [n_rot // 2 - 2 * (n_rot // 6), n_rot // 6, n_rot // 6, 0])
    if f.variant == "layers":
        f.key("attention.recurrent_layers", recurrent)
        f.key("attention.scale", 0.3)
    else:
        f.key("full_attention_interval", 3)
    if is_moe:
        f.expert_keys()
        f.key("expert_feed_forward_length", f.n_ff_exp)
        f.key("expert_shared_feed_forward_length", f.n_ff_shared)
    f.ends(tied=f.variant == "plain" and not is_moe)
    for i, is_recurrent in enumerate(recurrent):
        delta_layer(f, i, is_recurrent, sizes)
    if f.variant == "mtp":
        f.key("nextn_predict_layers", 1)
        f.key("block_count", f.n_layer + 1)
        delta_layer(f, f.n_layer, False, sizes)
        next_token(f, f.n_layer)


# ---- short convolutions ----

def lfm2(f):
    pattern = "ccacac"
    f.n_layer = len(pattern)
    f.sizes()
    f.rope()
    kv_heads(f, pattern)
    taps = 3 if f.variant == "plain" else 4
    f.key("shortconv.l_cache", taps)
    n_dense = f.n_layer
    if f.arch == "lfm2moe":
        n_dense = 2
        f.expert_keys()
        f.key("leading_dense_block_count", n_dense)
        f.key("expert_feed_forward_length", f.n_ff_exp)
        f.key("expert_gating_func", 2)
    f.ends(tied=f.variant == "plain")
    del f.tensors["output_norm.weight"]
    f.norm("token_embd_norm")
    for i, mixer in enumerate(pattern):
        b = f"blk.{i}."
        f.norm(b + "attn_norm")
        if mixer == "a":
            f.attention(i)
            f.norm(b + "attn_q_norm", f.head)
            f.norm(b + "attn_k_norm", f.head)
        else:
            f.matrix(b + "shortconv.in_proj", 3 * f.n_embd, f.n_embd)
            convolution(f, b + "shortconv.conv", f.n_embd, taps)
            f.matrix(b + "shortconv.out_proj", f.n_embd, f.n_embd)
        f.norm(b + "ffn_norm")
        if i < n_dense:
            f.gated(i)
        else:
            sigmoid_experts(f, i)


# ---- Mamba ----

def mamba1_keys(f):
    """Returns numbers of a channel's state, and of the short vector that its steps are made of."""
    size, rank = (5, 7) if odd(f) else (16, 32)
    for suffix, value in [("conv_kernel", 4), ("inner_size", 2 * f.n_embd), ("state_size", size),
                          ("time_step_rank", rank)]:
        f.key("ssm." + suffix, value)
    return size, rank


def mamba1(f, i, size, rank):
    b, inner = f"blk.{i}.", 2 * f.n_embd
    f.matrix(b + "ssm_in", 2 * inner, f.n_embd)
    convolution(f, b + "ssm_conv1d", inner, 4, bias=True)
    f.matrix(b + "ssm_x", rank + 2 * size, inner, gain=1.5)
    f.matrix(b + "ssm_dt", inner, rank)
    f.vector(b + "ssm_dt.bias", inner, mean=-1.0)
    rates(f, b + "ssm_a", inner, size)
    f.vector(b + "ssm_d", inner, mean=1.0)
    f.matrix(b + "ssm_out", f.n_embd, inner, gain=1.5)
    if f.arch == "jamba":
        for name, n in (("dt", rank), ("b", size), ("c", size)):
            f.norm(f"{b}ssm_{name}_norm", n)


def mamba2_keys(f):
    """Returns heads, numbers of one, groups of heads, numbers of a state's row."""
    n_head, head, n_group, size = (6, 10, 3, 13) if odd(f) else (6, 32, 2, 16)
    for suffix, value in [("conv_kernel", 4), ("inner_size", n_head * head), ("state_size", size),
                          ("time_step_rank", n_head), ("group_count", n_group)]:
        f.key("ssm." + suffix, value)
    return n_head, head, n_group, size


def mamba2(f, i, sizes, bias=True, normed=True):
    b, (n_head, head, n_group, size) = f"blk.{i}.", sizes
    inner, shared = n_head * head, 2 * n_group * size
    f.matrix(b + "ssm_in", 2 * inner + shared + n_head, f.n_embd)
    convolution(f, b + "ssm_conv1d", inner + shared, 4, bias)
    f.vector(b + "ssm_dt.bias", n_head, mean=-1.0)
    rates(f, b + "ssm_a", n_head, 1)
    f.vector(b + "ssm_d", n_head, 1, mean=1.0)
    if normed:
        f.norm(b + "ssm_norm", n_group, inner // n_group)
    f.matrix(b + "ssm_out", f.n_embd, inner)


def mamba(f):
    """Such files have heads and a feed-forward of size 0."""
    f.n_layer = 4
    f.sizes()
    del f.keys[f"{f.arch}.attention.head_count_kv"]
    for suffix in ("attention.head_count", "feed_forward_length"):
        f.key(suffix, 0)
    sizes = mamba2_keys(f) if f.arch == "mamba2" else mamba1_keys(f)
    if f.arch == "mamba":
        f.key("ssm.dt_b_c_rms", f.variant == "falcon")
    f.ends(tied=f.variant == "plain")
    for i in range(f.n_layer):
        f.norm(f"blk.{i}.attn_norm")
        if f.arch == "mamba2":
            mamba2(f, i, sizes)
        else:
            mamba1(f, i, *sizes)


def jamba(f):
    pattern = "mmammam"
    f.n_layer, f.n_ff_exp = len(pattern), f.n_ff
    f.sizes()
    kv_heads(f, pattern)
    sizes = mamba1_keys(f)
    f.expert_keys()
    f.ends()
    for i, mixer in enumerate(pattern):
        f.norm(f"blk.{i}.attn_norm")
        if mixer == "a":
            f.attention(i)
        else:
            mamba1(f, i, *sizes)
        f.norm(f"blk.{i}.ffn_norm")
        if i % 2:
            f.experts(i)
        else:
            f.gated(i)


def granite_hybrid(f):
    pattern, biases = "mmamma", f.variant == "biases"
    f.n_layer = len(pattern)
    f.sizes()
    if f.variant == "plain":
        f.key("rope.scaling.finetuned", False)  # no positions
    else:
        f.rope()
    kv_heads(f, pattern)
    sizes = mamba2_keys(f)
    for suffix, value in [("embedding_scale", 2.5), ("residual_scale", 0.7), ("attention.scale", 0.4),
                          ("logit_scale", 1.5)]:
        f.key(suffix, value)
    if f.variant == "moe":
        f.n_ff_exp = f.n_ff
        f.expert_keys()
        f.key("expert_shared_feed_forward_length", f.n_ff_shared)
    f.ends(tied=f.variant != "biases")
    for i, mixer in enumerate(pattern):
        f.norm(f"blk.{i}.attn_norm")
        if mixer == "a":
            f.attention(i, bias=biases, out_bias=biases)
        else:
            mamba2(f, i, sizes, bias=not biases)
        f.norm(f"blk.{i}.ffn_norm")
        if f.variant == "moe":
            f.experts(i)
            shared_expert(f, i)
        else:
            f.gated(i, bias=biases)


# ---- Nemotron-H ----

def ungated(f, i, n_ff, suffix="", bias=False):
    f.biased(f"blk.{i}.ffn_up{suffix}", n_ff, f.n_embd, bias, gain=1.3)
    f.biased(f"blk.{i}.ffn_down{suffix}", f.n_embd, n_ff, bias, gain=0.7)


def ungated_experts(f, i, n_short):
    b = f"blk.{i}."
    router(f, i)
    f.matrix(b + "ffn_up_exps", f.n_expert, f.n_ff_exp, n_short, gain=1.3)
    f.matrix(b + "ffn_down_exps", f.n_expert, n_short, f.n_ff_exp, gain=0.5)
    if n_short != f.n_embd:
        f.matrix(b + "ffn_latent_down", n_short, f.n_embd)
        f.matrix(b + "ffn_latent_up", f.n_embd, n_short)
    ungated(f, i, f.n_ff_shared, "_shexp")


def nemotron_h(f):
    """m: Mamba, a: attention, f: feed-forward or experts."""
    heads(f)
    pattern, is_moe, biases = "mfmafmaf", f.arch == "nemotron_h_moe", f.variant == "biases"
    f.n_layer = len(pattern)
    f.sizes()
    sizes = mamba2_keys(f)
    n_short = f.n_embd if f.variant == "plain" else 40 if odd(f) else 64
    n_mtp = 1 if is_moe and f.variant == "latent" else 0
    f.key("attention.head_count_kv", [f.n_kv_head * (x == "a") for x in pattern] + [f.n_kv_head] * n_mtp)
    n_ff = f.n_ff_exp if is_moe else f.n_ff
    f.key("feed_forward_length", [n_ff * (x == "f") for x in pattern] + [n_ff] * n_mtp)
    f.key("block_count", f.n_layer + n_mtp)
    if is_moe:
        f.expert_keys()
        for suffix, value in [("expert_feed_forward_length", f.n_ff_exp), ("expert_shared_count", 1),
                              ("expert_shared_feed_forward_length", f.n_ff_shared), ("expert_group_count", 1),
                              ("expert_weights_norm", f.variant == "plain"), ("expert_weights_scale", 1.7)]:
            f.key(suffix, value)
    if n_short != f.n_embd and is_moe:
        f.key("moe_latent_size", n_short)
    f.ends()
    for i, mixer in enumerate(pattern):
        f.norm(f"blk.{i}.attn_norm")
        if mixer == "m":
            mamba2(f, i, sizes, bias=f.variant == "plain")
        elif mixer == "a":
            f.attention(i, bias=biases, out_bias=biases)
        elif is_moe:
            ungated_experts(f, i, n_short)
        else:
            ungated(f, i, f.n_ff, bias=biases)
    if n_mtp:
        f.key("nextn_predict_layers", 1)
        f.norm(f"blk.{f.n_layer}.attn_norm")
        f.attention(f.n_layer)
        ungated_experts(f, f.n_layer, n_short)
        next_token(f, f.n_layer)


# ---- Falcon-H1 ----

def falcon_h1(f):
    f.n_layer, biases = 4, f.variant == "biases"
    heads(f)
    f.sizes()
    f.key("rope.freq_base", 1000.0)
    sizes = mamba2_keys(f)
    f.ends(tied=f.variant == "plain")
    for i in range(f.n_layer):
        f.norm(f"blk.{i}.attn_norm")
        mamba2(f, i, sizes, bias=not biases, normed=biases)
        f.attention(i, bias=biases, out_bias=biases)
        f.vector(f"blk.{i}.ffn_norm", f.n_embd, mean=1.0, std=0.2)  # its name has no ending
        f.gated(i, bias=biases)


# ---- Kimi Linear ----

def kimi_delta(f, i, size):
    b, n = f"blk.{i}.", f.n_head * size
    for part in "qkv":
        f.matrix(f"{b}attn_{part}", n, f.n_embd)
    for part in "qkv":  # four dimensions in some files, three in others
        f.vector(f"{b}ssm_conv1d_{part}.weight", *([1, n, 1, 4] if f.variant == "plain" else [n, 1, 4]), mean=0.2, std=0.5)
    f.matrix(b + "ssm_f_a", size, f.n_embd)
    f.matrix(b + "ssm_f_b", n, size)
    f.vector(b + "ssm_dt.bias", n, mean=-1.0)
    rates(f, b + "ssm_a", *([1, 1, f.n_head, 1] if f.variant == "plain" else [f.n_head, 1]))
    f.matrix(b + "ssm_beta", f.n_head, f.n_embd)
    f.matrix(b + "ssm_g_a", size, f.n_embd)
    f.matrix(b + "ssm_g_b", n, size, gain=1.5)
    f.norm(b + "ssm_norm", size)
    f.matrix(b + "attn_output", f.n_embd, n)


def kimi_attention(f, i, part, shared, n_value, rank):
    b, n_q = f"blk.{i}.", f.n_head * (part + shared)
    if f.variant == "q-lora":
        f.matrix(b + "attn_q_a", rank, f.n_embd)
        f.norm(b + "attn_q_a_norm", rank)
        f.matrix(b + "attn_q_b", n_q, rank, gain=1.1)
    else:
        f.matrix(b + "attn_q", n_q, f.n_embd, gain=1.1)
    f.matrix(b + "attn_kv_a_mqa", rank + shared, f.n_embd, gain=1.1)
    f.norm(b + "attn_kv_a_norm", rank)
    if f.variant == "old":
        f.matrix(b + "attn_kv_b", f.n_head * (part + n_value), rank, gain=1.1)
    else:
        f.matrix(b + "attn_k_b", f.n_head, rank, part, gain=1.1 * (part / rank) ** 0.5)
        f.matrix(b + "attn_v_b", f.n_head, n_value, rank)
    f.matrix(b + "attn_output", f.n_embd, f.n_head * n_value)


def kimi_linear(f):
    pattern, n_dense = "kkakka", 3
    f.n_layer, f.n_head = len(pattern), 3
    size = 12 if odd(f) else 32
    part, shared, n_value, rank = (24, 8, 16, 48) if odd(f) else (32, 32, 32, 64)
    f.n_kv_head = f.n_head if f.variant == "old" else 1
    f.sizes()
    kv_heads(f, pattern)
    f.n_ff_shared = f.n_ff_exp
    for suffix, value in [
            ("attention.key_length", part + shared if f.variant == "old" else rank + shared),
            ("attention.value_length", n_value if f.variant == "old" else rank),
            ("attention.key_length_mla", part + shared), ("attention.value_length_mla", n_value),
            ("attention.kv_lora_rank", rank), ("rope.dimension_count", shared), ("kda.head_dim", size),
            ("ssm.conv_kernel", 4), ("expert_feed_forward_length", f.n_ff_exp), ("expert_shared_count", 1),
            ("expert_gating_func", 2), ("expert_weights_scale", 1.7), ("leading_dense_block_count", n_dense)]:
        f.key(suffix, value)
    if f.variant == "q-lora":
        f.key("attention.q_lora_rank", rank)
    f.expert_keys()
    f.ends()
    for i, mixer in enumerate(pattern):
        f.norm(f"blk.{i}.attn_norm")
        if mixer == "a":
            kimi_attention(f, i, part, shared, n_value, rank)
        else:
            kimi_delta(f, i, size)
        f.norm(f"blk.{i}.ffn_norm")
        if i < n_dense:
            f.gated(i)
        else:
            sigmoid_experts(f, i)
            shared_expert(f, i)


BUILDERS = {
    "qwen3next": (qwen_next, ("plain", "grouped", "layers")),
    "qwen35": (qwen_next, ("plain", "layers", "mtp")),
    "qwen35moe": (qwen_next, ("plain", "mtp")),
    "lfm2": (lfm2, ("plain", "taps")),
    "lfm2moe": (lfm2, ("plain",)),
    "mamba": (mamba, ("plain", "falcon")),
    "mamba2": (mamba, ("plain", "untied")),
    "jamba": (jamba, ("plain",)),
    "granitehybrid": (granite_hybrid, ("plain", "moe", "biases")),
    "nemotron_h": (nemotron_h, ("plain", "biases")),
    "nemotron_h_moe": (nemotron_h, ("plain", "latent")),
    "falcon-h1": (falcon_h1, ("plain", "biases")),
    "kimi-linear": (kimi_linear, ("plain", "q-lora", "old")),
}
