"""Random model files of this year's decoders; see fixtures.py."""
import math

from fixture import SHORT_CTX


def layer_parts(f, i, before=("attn_norm", "ffn_norm"), behind=False, norms=None, norm_bias=False, **attention):
    """Norms and attention of a layer. norms: of each head ("head") or of all heads ("all")."""
    b = f"blk.{i}."
    for name in before:
        f.norm(b + name, bias=norm_bias)
    if behind:
        f.norm(b + "post_attention_norm", mean=0.8)
        f.norm(b + "post_ffw_norm", mean=0.8)
    f.attention(i, **attention)
    if norms:
        f.norm(b + "attn_q_norm", f.head * (f.n_head if norms == "all" else 1))
        f.norm(b + "attn_k_norm", f.head * (f.n_kv_head if norms == "all" else 1))


def ends(f, n_rot=None, **more):
    f.sizes()
    f.rope(n_rot)
    f.ends(**more)


def nextn(f, i, has_ends):
    """What makes layer i, which is as others are, one that guesses the token after the next. has_ends:
    it has an embedding, a norm and an output of its own."""
    b = f"blk.{i}.nextn."
    f.key("block_count", i + 1)
    f.key("nextn_predict_layers", 1)
    f.matrix(b + "eh_proj", f.n_embd, 2 * f.n_embd)
    for name in ("enorm", "hnorm", *(["shared_head_norm"] if has_ends else [])):
        f.norm(b + name)
    if has_ends:
        f.matrix(b + "embed_tokens", f.n_vocab, f.n_embd, gain=f.n_embd ** 0.5)
        f.matrix(b + "shared_head_head", f.n_vocab, f.n_embd, gain=1.5)


def glm4(f):
    """GLM-4-0414: half of each head turns. GLM-4.1V's text part: rope in sections, its pairs as halves."""
    f.n_head, f.n_kv_head, f.head = (3, 1, 24) if f.kind == "F32" else (4, 2, 24)
    ends(f, f.head // 2)
    if f.variant == "sections":
        f.key("rope.dimension_sections", [2, 2, 2, 0])
    for i in range(f.n_layer):
        layer_parts(f, i, behind=True, bias=f.variant == "sections")
        f.matrix(f"blk.{i}.ffn_up", 2 * f.n_ff, f.n_embd, gain=1.5)
        f.matrix(f"blk.{i}.ffn_down", f.n_embd, f.n_ff)


def expert_keys(f, norm=None, scale=None, gate=None, lead=0, shared=0):
    f.expert_keys()
    f.key("expert_feed_forward_length", f.n_ff_exp)
    for name, value in (("weights_norm", norm), ("weights_scale", scale), ("gating_func", gate),
                        ("shared_count", shared or None)):
        if value is not None:
            f.key("expert_" + name, value)
    if lead:
        f.key("leading_dense_block_count", lead)


def expert_layer(f, i, choice=False, shared=0):
    f.experts(i)
    if choice:
        f.vector(f"blk.{i}.exp_probs_b.bias", f.n_expert, std=choice)
    if shared:
        f.gated(i, shared, "_shexp")


def glm4moe(f):
    """new: as newer files have it, with the layer behind the last that predicts a token more."""
    new = f.variant == "nextn"
    f.free_heads()
    ends(f, f.head // 2)
    expert_keys(f, True, 1.4, 2 if new else None, 1, 1)
    for i in range(f.n_layer + new):
        layer_parts(f, i, ("attn_norm", "post_attention_norm"), norms="head" if new else None, bias=True)
        f.gated(i) if i == 0 else expert_layer(f, i, 0.3, f.n_ff_exp)
    if new:
        nextn(f, f.n_layer, True)


def ernie(f):
    ends(f, tied=f.arch == "ernie4_5")
    if f.arch == "ernie4_5-moe":
        f.n_layer = 4
        f.key("block_count", f.n_layer)
        expert_keys(f, lead=1)
        f.key("interleave_moe_layer_step", 2)
        f.key("expert_shared_feed_forward_length", f.n_ff_shared)
    for i in range(f.n_layer):
        layer_parts(f, i, bias=f.variant == "biases", out_bias=f.variant == "biases")
        if f.arch == "ernie4_5-moe" and i % 2 == 1:
            expert_layer(f, i, 0.1, f.n_ff_shared)
        else:
            f.gated(i)


def hunyuan(f):
    f.free_heads()
    ends(f)
    if f.arch == "hunyuan-moe":
        f.expert_keys()
        f.n_ff_exp = f.n_ff
    for i in range(f.n_layer):
        layer_parts(f, i, norms="head")
        expert_layer(f, i, shared=f.n_ff) if f.arch == "hunyuan-moe" else f.gated(i)


def seed_oss(f):
    f.free_heads()
    ends(f)
    for i in range(f.n_layer):
        layer_parts(f, i, ("attn_norm", "post_attention_norm"), bias=True)
        f.gated(i)


def exaone4(f):
    f.n_layer = 2 if f.variant == "global" else 4
    ends(f)
    if f.variant == "window":
        f.key("attention.sliding_window", 9)
    for i in range(f.n_layer):
        layer_parts(f, i, (), behind=True, norms="head")
        f.gated(i)
    if f.variant == "window":
        f.vector("rope_freqs.weight", f.head // 2, mean=4.0, std=1.0)


def olmoe(f):
    ends(f)
    f.expert_keys()
    f.n_ff_exp = f.n_ff
    for i in range(f.n_layer):
        layer_parts(f, i, norms="all")
        expert_layer(f, i)


def phimoe(f):
    f.sizes()
    f.rope()
    f.ends(norm_bias=True, output_bias=True)
    f.expert_keys()
    f.n_ff_exp = f.n_ff
    for i in range(f.n_layer):
        layer_parts(f, i, norm_bias=True, bias=True, out_bias=True)
        expert_layer(f, i)


def dots1(f):
    f.n_kv_head = f.n_head
    ends(f)
    expert_keys(f, True, 1.4, 2, 1, 2)
    for i in range(f.n_layer):
        layer_parts(f, i, norms="head")
        f.gated(i) if i == 0 else expert_layer(f, i, 0.3, 2 * f.n_ff_exp)


def minimax_m2(f):
    f.free_heads()
    ends(f, 16)
    f.n_ff_exp = f.n_ff
    expert_keys(f, gate=2)
    for i in range(f.n_layer):
        layer_parts(f, i, norms="all")
        expert_layer(f, i, 0.8)


def mistral3(f):
    f.free_heads()
    ends(f, tied=True)
    f.scaling("yarn")
    f.key("rope.scaling.yarn_log_multiplier", 1.0)
    f.key("rope.scaling.original_context_length", SHORT_CTX // 2)
    f.key("attention.temperature_scale", 0.3)
    for i in range(f.n_layer):
        layer_parts(f, i)
        f.gated(i)


def qwen_vl(f):
    """Text parts of models that see: rope in sections, whose positions are all the same number in a text."""
    has_experts = f.arch == "qwen3vlmoe"
    if f.arch != "qwen2vl":
        f.free_heads()
        f.key("n_deepstack_layers", 3)
    ends(f, tied=f.arch == "qwen3vl")
    f.key("rope.dimension_sections", [4, 4, 4, 0])
    if has_experts:
        expert_keys(f)
    for i in range(f.n_layer):
        layer_parts(f, i, norms=None if f.arch == "qwen2vl" else "head", bias=f.arch == "qwen2vl")
        expert_layer(f, i) if has_experts else f.gated(i)


def llama4(f):
    """plain: chunks, and layers between them without positions; unchunked: neither; 128 experts: no norms."""
    f.free_heads()
    f.n_layer = 4
    if f.variant == "128":
        f.n_layer, f.n_expert, f.n_ff_exp = 2, 128, 32
    ends(f)
    f.expert_keys()
    f.key("expert_feed_forward_length", f.n_ff_exp)
    f.key("interleave_moe_layer_step", 1 if f.variant == "128" else 2)
    if f.variant == "plain":
        f.key("attention.sliding_window", 256)
        f.key("attention.temperature_length", 32)
        f.key("attention.temperature_scale", 0.4)
    elif f.variant == "128":
        f.key("attention.sliding_window", 0)
    for i in range(f.n_layer):
        layer_parts(f, i)
        if i % 2 == 1 or f.variant == "128":
            expert_layer(f, i, shared=f.n_ff_exp)
        else:
            f.gated(i)


def bitnet(f):
    ends(f, tied=True)
    for i in range(f.n_layer):
        layer_parts(f, i)
        f.norm(f"blk.{i}.attn_sub_norm", f.n_head * f.head)
        f.gated(i)
        f.norm(f"blk.{i}.ffn_sub_norm", f.n_ff)


def grok(f):
    """plain: Grok 2's, a dense net beside the experts; old: Grok 1's."""
    ends(f, scaled_by=3.0 if f.variant == "plain" else 78.38)
    f.expert_keys()
    if f.variant == "plain":
        f.key("expert_feed_forward_length", f.n_ff_exp)
        for name, value in (("embedding_scale", 3.0), ("logit_scale", 1.4), ("attention.output_scale", 0.4),
                            ("attn_logit_softcapping", 4.0), ("router_logit_softcapping", 3.0),
                            ("final_logit_softcapping", 5.0)):
            f.key(name, value)
    else:
        f.n_ff_exp = f.n_ff
    for i in range(f.n_layer):
        layer_parts(f, i)
        f.norm(f"blk.{i}.attn_output_norm")
        f.norm(f"blk.{i}." + ("post_ffw_norm" if f.variant == "plain" else "layer_output_norm"))
        f.experts(i)
        if f.variant == "plain":
            f.gated(i)


def gemma4_heads(f, i, head, n_kv, own, alike):
    b = f"blk.{i}."
    for name in ("attn_norm", "ffn_norm"):
        f.norm(b + name)
    for name in ("post_attention_norm", "post_ffw_norm"):
        f.norm(b + name, mean=0.6)
    # Scores are not divided by anything: norms of queries and keys keep them small.
    f.matrix(b + "attn_q", f.n_head * head, f.n_embd)
    f.norm(b + "attn_q_norm", head, mean=0.6)
    if own:
        f.matrix(b + "attn_k", n_kv * head, f.n_embd)
        f.norm(b + "attn_k_norm", head, mean=0.6)
        if not alike:
            f.matrix(b + "attn_v", n_kv * head, f.n_embd)
    f.matrix(b + "attn_output", f.n_embd, f.n_head * head)


def gemma4(f):
    """rows: E2B's form, rows for each layer, layers that share keys and values, and are wider. experts: 26B's, whose
    layers without a window have other heads, and no values of their own."""
    rows = f.variant == "rows"
    f.n_layer = 4 if rows else 3
    f.n_head = 4
    small, big = (16, 24) if f.kind == "F32" else (32, 64)
    f.head = big
    seen = [True, False, True, False] if rows else [True, True, False]
    n_own = 2 if rows else f.n_layer
    f.sizes()
    for name in ("key_length", "value_length"):
        f.key(f"attention.{name}", big)
        f.key(f"attention.{name}_swa", small)
    n_kv = [2] * f.n_layer if rows else [4, 4, 1]
    f.key("attention.head_count_kv", n_kv)
    n_ff = [f.n_ff if i < n_own else 2 * f.n_ff for i in range(f.n_layer)]
    f.key("feed_forward_length", n_ff)
    f.key("attention.shared_kv_layers", f.n_layer - n_own)
    f.key("attention.sliding_window", 9)
    f.key("attention.sliding_window_pattern", seen)
    f.key("rope.dimension_count", big)
    f.key("rope.dimension_count_swa", small)
    f.key("rope.freq_base", 2000.0)
    f.key("rope.freq_base_swa", 500.0)
    f.key("final_logit_softcapping", 4.0)
    f.key("embedding_length_per_layer_input", 32 if rows else 0)
    f.vector("rope_freqs.weight", big // 2, mean=4.0, std=1.0)
    f.ends(tied=True)
    if rows:
        f.matrix("per_layer_token_embd", f.n_vocab, 32 * f.n_layer, gain=(32 * f.n_layer) ** 0.5 * 0.2)
        f.matrix("per_layer_model_proj", 32 * f.n_layer, f.n_embd)
        f.norm("per_layer_proj_norm", 32)
    else:
        f.expert_keys()
        f.key("expert_feed_forward_length", f.n_ff_exp)
    for i in range(f.n_layer):
        b = f"blk.{i}."
        gemma4_heads(f, i, small if seen[i] else big, n_kv[i], i < n_own, not rows and not seen[i])
        f.gated(i, n_ff[i])
        if i < f.n_layer - 1:  # behind the last comes a norm
            f.vector(b + "layer_output_scale.weight", 1, mean=0.8, std=0.1)
        if rows:
            f.matrix(b + "inp_gate", 32, f.n_embd)
            f.matrix(b + "proj", f.n_embd, 32)
            f.norm(b + "post_norm", mean=0.6)
            continue
        f.experts(i, fused=True)
        f.vector(b + "ffn_gate_inp.scale", f.n_embd, mean=f.n_embd ** 0.5, std=1.5)
        for name in ("pre_ffw_norm_2", "post_ffw_norm_1", "post_ffw_norm_2"):
            f.norm(b + name)
        f.vector(b + "ffn_down_exps.scale", f.n_expert, mean=1.0, std=0.3)


def gemma3n(f):
    f.free_heads()
    f.n_layer, n, rank, n_rows = 4, 4, 32, 32
    f.sizes()
    f.rope(base=2000.0)
    f.key("rope.freq_base_swa", 500.0)
    f.key("attention.sliding_window", 9)
    f.key("attention.sliding_window_pattern", [True, False, True, False])
    f.key("attention.shared_kv_layers", 2)
    f.key("altup.num_inputs", n)
    f.key("altup.active_idx", 0)
    f.key("embedding_length_per_layer_input", n_rows)
    f.key("activation_sparsity_scale", [0.5, -math.inf, -math.inf, 0.8])
    f.key("final_logit_softcapping", 4.0)
    f.ends(tied=True)
    f.matrix("altup_proj", n - 1, f.n_embd, f.n_embd)
    f.matrix("altup_unembd_proj", n - 1, f.n_embd, f.n_embd)
    f.matrix("per_layer_token_embd", f.n_vocab, n_rows * f.n_layer, gain=(n_rows * f.n_layer) ** 0.5 * 0.2)
    f.matrix("per_layer_model_proj", n_rows * f.n_layer, f.n_embd)
    f.norm("per_layer_proj_norm", n_rows)
    for i in range(f.n_layer):
        b = f"blk.{i}."
        gemma4_heads(f, i, f.head, f.n_kv_head, i < 2, False)
        f.gated(i)
        f.matrix(b + "inp_gate", n_rows, f.n_embd)
        f.matrix(b + "proj", f.n_embd, n_rows)
        f.norm(b + "post_norm", mean=0.6)
        f.norm(b + "altup_router_norm", mean=f.n_embd ** 0.5)
        f.matrix(b + "altup_router", n, f.n_embd, gain=f.n_embd ** 0.5, kind="F32")
        f.matrix(b + "altup_predict_coef", n * n, n, gain=0.3, kind="F32")
        f.matrix(b + "altup_correct_coef", n, n, gain=0.5, kind="F32")
        f.norm(b + "altup_correct_scale")
        f.matrix(b + "laurel_l", rank, f.n_embd)
        f.matrix(b + "laurel_r", f.n_embd, rank)
        f.norm(b + "laurel_post_norm", mean=0.6)


def plm(f):
    """Latent attention in older files' form, a feed-forward without a gate, one embedding for both ends."""
    f.n_head = f.n_kv_head = 3
    part, n_rot, n_value, rank = (24, 8, 16, 48) if f.kind == "F32" else (32, 32, 32, 64)
    f.sizes()
    f.key("attention.key_length", part + n_rot)
    f.key("attention.value_length", n_value)
    f.key("attention.kv_lora_rank", rank)
    f.rope(n_rot)
    f.ends(tied=True)
    for i in range(f.n_layer):
        b = f"blk.{i}."
        f.norm(b + "attn_norm")
        f.matrix(b + "attn_q", f.n_head * (part + n_rot), f.n_embd, gain=1.1)
        f.matrix(b + "attn_kv_a_mqa", rank + n_rot, f.n_embd, gain=1.1)
        f.norm(b + "attn_kv_a_norm", rank)
        f.matrix(b + "attn_kv_b", f.n_head * (part + n_value), rank, gain=1.1)
        f.matrix(b + "attn_output", f.n_embd, f.n_head * n_value)
        f.norm(b + "ffn_norm")
        f.matrix(b + "ffn_up", f.n_ff, f.n_embd)
        f.matrix(b + "ffn_down", f.n_embd, f.n_ff, gain=0.7)


BUILDERS = {
    "glm4": (glm4, ("plain", "sections")),
    "glm4moe": (glm4moe, ("plain", "nextn")),
    "ernie4_5": (ernie, ("plain", "biases")),
    "ernie4_5-moe": (ernie, ("plain",)),
    "hunyuan-dense": (hunyuan, ("plain",)),
    "hunyuan-moe": (hunyuan, ("plain",)),
    "seed_oss": (seed_oss, ("plain",)),
    "exaone4": (exaone4, ("window", "global")),
    "olmoe": (olmoe, ("plain",)),
    "phimoe": (phimoe, ("plain",)),
    "dots1": (dots1, ("plain",)),
    "minimax-m2": (minimax_m2, ("plain",)),
    "mistral3": (mistral3, ("plain",)),
    "qwen2vl": (qwen_vl, ("plain",)),
    "qwen3vl": (qwen_vl, ("plain",)),
    "qwen3vlmoe": (qwen_vl, ("plain",)),
    "llama4": (llama4, ("plain", "128")),
    "bitnet": (bitnet, ("plain",)),
    "plm": (plm, ("plain",)),
    "grok": (grok, ("plain", "old")),
    "gemma3n": (gemma3n, ("plain",)),
    "gemma4": (gemma4, ("rows", "experts")),
}
