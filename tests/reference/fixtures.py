"""Model files with random weights: small, of every family, with everything that a family may have.

make(arch, variant, kind) gives the bytes of a file whose matrices are of the type `kind`. cases()
are all the architectures with their variants.
"""
import decoder_fixtures
import hybrid_fixtures
from fixture import N_CTX, SHORT_CTX, Fixture, token_name


# ---- Llama and its many relatives ----

def llama(f, fused=False, bias=False, out_bias=False, ffn_bias=False, tied=False, head_norms=False, factors=False):
    f.sizes()
    f.rope()
    f.ends(tied)
    if factors:
        f.vector("rope_freqs.weight", f.head // 2, mean=4.0, std=1.0)
    for i in range(f.n_layer):
        f.norm(f"blk.{i}.attn_norm")
        f.attention(i, fused, bias, out_bias)
        if head_norms:
            f.norm(f"blk.{i}.attn_q_norm", f.head)
            f.norm(f"blk.{i}.attn_k_norm", f.head)
        f.norm(f"blk.{i}.ffn_norm")
        f.gated(i, bias=ffn_bias)


def llama_variants(f):
    if f.variant == "plain":
        f.free_heads()
        llama(f)
    elif f.variant == "biases":
        llama(f, bias=True, out_bias=True, ffn_bias=True, tied=True)
    elif f.variant == "factors":
        llama(f, factors=True)
    elif f.variant == "fused":
        llama(f, fused=True, bias=True)
    elif f.variant == "moe":
        mixture(f)
    elif f.variant == "old-linear":
        llama(f)
        f.key("rope.scale_linear", 4.0)
    else:
        llama(f)
        f.scaling(f.variant)


def smollm3(f):
    f.n_layer = 5
    llama(f, tied=True)


def qwen2(f):
    llama(f, bias=True, tied=f.variant == "tied")
    if f.variant == "yarn":
        f.scaling("yarn")


def qwen3(f):
    f.free_heads()
    llama(f, head_norms=True, tied=f.variant == "tied")


def mixture(f, bias=False, head_norms=False, shared=False, shared_gate=False):
    f.sizes()
    f.rope()
    f.expert_keys()
    f.ends()
    if f.arch in ("llama", "granitemoe"):
        f.n_ff_exp = f.n_ff
    else:
        f.key("expert_feed_forward_length", f.n_ff_exp)
    if shared:
        f.key("expert_shared_feed_forward_length", f.n_ff_shared)
    for i in range(f.n_layer):
        f.norm(f"blk.{i}.attn_norm")
        f.attention(i, bias=bias)
        if head_norms:
            f.norm(f"blk.{i}.attn_q_norm", f.head)
            f.norm(f"blk.{i}.attn_k_norm", f.head)
        f.norm(f"blk.{i}.ffn_norm")
        f.experts(i, fused=f.variant == "fused")
        if shared:
            f.gated(i, f.n_ff_shared, "_shexp")
        if shared_gate:
            f.vector(f"blk.{i}.ffn_gate_inp_shexp.weight", 1, f.n_embd, std=0.2)


def qwen2moe(f):
    mixture(f, bias=True, shared=True, shared_gate=True)


def qwen3moe(f):
    f.free_heads()
    f.n_expert, f.n_used = 7, 3
    if f.variant == "many":
        f.n_expert, f.n_used, f.n_ff_exp = 128, 8, 32
    mixture(f, head_norms=True)


def granite(f):
    if f.arch == "granitemoe":
        mixture(f, shared=f.variant == "shared")
    else:
        llama(f, tied=True, bias=f.variant == "biases", out_bias=f.variant == "biases")
    f.key("embedding_scale", 2.5)
    f.key("residual_scale", 0.7)
    f.key("attention.scale", 0.4)
    f.key("logit_scale", 1.5)
    if f.variant in ("unturned", "biases"):  # such files say that there is no rope, or that there is
        f.key("rope.scaling.finetuned", f.variant == "biases")


def exaone(f):
    llama(f, factors=f.variant == "factors")


def internlm2(f):
    llama(f)


def phi3(f):
    """Factors for short or long contexts, by the context that is served. Such files name no kind of
    scaling: that the factors are there says it."""
    f.sizes()
    f.rope()
    f.key("rope.scaling.original_context_length", SHORT_CTX if f.variant == "longrope" else f.n_ctx)
    f.key("attention.sliding_window", 24 if f.variant == "window" else 0)
    f.ends()
    if f.variant == "longrope":
        f.key("rope.scaling.attn_factor", 1.19)
        f.vector("rope_factors_long.weight", f.head // 2, mean=6.0, std=1.5)
        f.vector("rope_factors_short.weight", f.head // 2, mean=1.3, std=0.1)
    for i in range(f.n_layer):
        f.norm(f"blk.{i}.attn_norm")
        f.attention(i, fused=True)
        f.norm(f"blk.{i}.ffn_norm")
        f.matrix(f"blk.{i}.ffn_up", 2 * f.n_ff, f.n_embd, gain=1.5)
        f.matrix(f"blk.{i}.ffn_down", f.n_embd, f.n_ff)


# ---- Gemma ----

def gemma(f):
    f.free_heads()
    f.sizes()
    f.ends(tied=True)
    for i in range(f.n_layer):
        f.norm(f"blk.{i}.attn_norm")
        f.attention(i)
        f.norm(f"blk.{i}.ffn_norm")
        f.gated(i)


def gemma_layers(f, head_norms, part=1.0):
    """Many layers add little each, so that the error of rounded numbers does not grow with them."""
    for i in range(f.n_layer):
        b = f"blk.{i}."
        f.norm(b + "attn_norm")
        f.attention(i)
        if head_norms:
            f.norm(b + "attn_q_norm", f.head)
            f.norm(b + "attn_k_norm", f.head)
        f.norm(b + "ffn_norm")
        for name in ("post_attention_norm", "post_ffw_norm"):
            f.norm(b + name, mean=part if f.n_layer < 40 else 0.3)
        f.gated(i)


def big(f, n_layer):
    """The biggest of a family is known by its number of layers, and scales otherwise."""
    f.n_layer = n_layer
    f.n_embd, f.n_ff, f.n_head, f.n_kv_head, f.head = 64, 32, 2, 1, 16


def gemma2(f):
    f.free_heads()
    f.n_layer = 3
    if f.variant == "27b":
        big(f, 46)
    f.sizes()
    if f.variant != "defaults":
        f.key("attention.sliding_window", 24 if f.variant == "wide" else 5)
        f.key("attn_logit_softcapping", 4.0)
        f.key("final_logit_softcapping", 4.0)
    f.ends(tied=True)
    gemma_layers(f, head_norms=False)


def gemma3(f):
    f.free_heads()
    f.n_layer = 7
    if f.variant == "27b":
        big(f, 62)
    f.sizes()
    f.key("rope.freq_base", 2000.0)
    if f.variant != "global":
        f.key("attention.sliding_window", 9)
    if f.variant == "keys":
        f.key("attention.sliding_window_pattern", [True, False, True, True, False, True, True])
        f.key("rope.freq_base_swa", 500.0)
        f.key("final_logit_softcapping", 3.5)
    if f.variant in ("plain", "27b"):
        f.scaling("linear", 2.0)
    f.ends(tied=f.variant != "global")
    gemma_layers(f, head_norms=True)


def gemma_embedding(f):
    f.free_heads()
    f.n_layer = 7
    f.sizes()
    f.key("attention.causal", False)
    f.key("pooling_type", 1)
    f.key("rope.freq_base", 2000.0)
    f.key("attention.sliding_window", 9)
    if f.variant == "keys":
        f.key("attention.sliding_window_pattern", [True, False, True, True, False, True, True])
        f.key("rope.freq_base_swa", 500.0)
    f.ends(tied=True)
    gemma_layers(f, head_norms=True, part=0.4)
    if f.variant != "plain":
        return
    for name, n_out, n_in in (("dense_2", 2 * f.n_embd, f.n_embd), ("dense_3", f.n_embd, 2 * f.n_embd)):
        f.matrix(name, n_out, n_in)
        f.key(f"{name}_feat_in", n_in)
        f.key(f"{name}_feat_out", n_out)


def olmo2(f):
    f.sizes()
    f.rope()
    if f.variant == "window":
        f.n_layer = 5
        f.key("block_count", f.n_layer)
        f.key("attention.sliding_window", 11)
        f.scaling("yarn")
    f.ends()
    for i in range(f.n_layer):
        b = f"blk.{i}."
        f.attention(i)
        f.norm(b + "attn_q_norm", f.n_head * f.head)
        f.norm(b + "attn_k_norm", f.n_kv_head * f.head)
        f.norm(b + "post_attention_norm")
        f.norm(b + "post_ffw_norm")
        f.gated(i)


# ---- layer norms ----

LAYER_EPS = "attention.layer_norm_epsilon"


def gpt2(f):
    """starcoder has one KV head for all; starcoder2 has rope."""
    f.n_kv_head = {"gpt2": f.n_head, "starcoder": 1, "starcoder2": f.n_kv_head}[f.arch]
    f.sizes(LAYER_EPS)
    f.ends(tied=f.variant == "tied", norm_bias=True)
    if f.arch == "starcoder2":
        f.rope(base=999.0)
    else:
        f.vector("position_embd.weight", f.n_ctx, f.n_embd, std=0.5)
    for i in range(f.n_layer):
        f.norm(f"blk.{i}.attn_norm", bias=True)
        f.attention(i, fused=f.arch != "starcoder2", bias=True, out_bias=True)
        f.norm(f"blk.{i}.ffn_norm", bias=True)
        f.plain(i)


def wide_heads(f, n_kv_head):
    """Heads wide enough for a part of them to be turned."""
    f.n_head, f.n_kv_head, f.head = (3, 1, 24) if f.kind == "F32" else (4, 2, 24)
    f.n_kv_head = n_kv_head or f.n_head


def gptneox(f):
    wide_heads(f, None)
    f.sizes(LAYER_EPS)
    f.rope(n_rot=6)
    f.key("use_parallel_residual", f.variant == "parallel")
    f.ends(norm_bias=True)
    for i in range(f.n_layer):
        f.norm(f"blk.{i}.attn_norm", bias=True)
        f.attention(i, fused=True, bias=True, out_bias=True)
        f.norm(f"blk.{i}.ffn_norm", bias=True)
        f.plain(i)


def falcon(f):
    f.n_kv_head = 1 if f.variant == "7b" else f.n_kv_head
    f.key("tensor_data_layout", "jploski")
    f.sizes(LAYER_EPS)
    f.ends(tied=f.variant == "7b", norm_bias=True)
    for i in range(f.n_layer):
        f.norm(f"blk.{i}.attn_norm", bias=True)
        if f.variant == "40b":
            f.norm(f"blk.{i}.attn_norm_2", bias=True)
        f.attention(i, fused=True)
        f.plain(i, bias=False)


def phi2(f):
    wide_heads(f, None)
    f.sizes(LAYER_EPS)
    f.rope(n_rot=10)
    f.ends(norm_bias=True, output_bias=True)
    for i in range(f.n_layer):
        f.norm(f"blk.{i}.attn_norm", bias=True)
        f.attention(i, fused=f.variant == "fused", bias=True, out_bias=True)
        f.plain(i)


def stablelm(f):
    wide_heads(f, 1 if f.kind == "F32" else 2)
    f.sizes(LAYER_EPS)
    f.rope(n_rot=6)
    f.ends(norm_bias=True)
    for i in range(f.n_layer):
        b = f"blk.{i}."
        f.norm(b + "attn_norm", bias=True)
        f.attention(i, bias=f.variant == "biases")
        if f.variant == "12b":
            f.norm(b + "attn_q_norm", f.n_head, f.head)
            f.norm(b + "attn_k_norm", f.n_kv_head, f.head)
        else:
            f.norm(b + "ffn_norm", bias=True)
        f.gated(i)
    f.key("use_parallel_residual", f.variant == "12b")


def command_r(f):
    f.n_layer = 5 if f.arch == "cohere2" else 2
    f.sizes(LAYER_EPS)
    f.rope()
    f.key("rope.scaling.type", "none")
    f.key("logit_scale", 0.6)
    if f.arch == "cohere2":
        f.key("attention.sliding_window", 7)
    f.ends(tied=True)
    for i in range(f.n_layer):
        f.norm(f"blk.{i}.attn_norm")
        f.attention(i)
        if f.variant == "norms":
            f.norm(f"blk.{i}.attn_q_norm", f.n_head, f.head)
            f.norm(f"blk.{i}.attn_k_norm", f.n_kv_head, f.head)
        f.gated(i)


# ---- DeepSeek 2, gpt-oss ----

def deepseek2(f):
    """old: keys and values in one matrix; new: apart, and one KV head of the short vector."""
    if f.variant in ("groups", "v3-groups"):
        f.n_expert, f.n_used = 12, 4
    f.n_layer, f.n_head = 3, 3
    is_flash = f.variant == "flash"  # GLM-4.7-Flash's: V3's form, a layer that predicts more, and nothing said of the gate
    v3 = f.variant in ("v3", "v3-groups", "flash")
    part, n_rot, n_value, rank = (24, 8, 16, 48) if f.kind == "F32" else (32, 32, 32, 64)
    old = f.variant in ("old", "yarn-old")
    f.n_kv_head = f.n_head if old else 1
    f.sizes()
    f.key("attention.key_length", part + n_rot if old else rank + n_rot)
    f.key("attention.value_length", n_value if old else rank)
    if not old:
        f.key("attention.key_length_mla", part + n_rot)
        f.key("attention.value_length_mla", n_value)
    f.rope(n_rot)
    f.key("attention.kv_lora_rank", rank)
    f.expert_keys()
    f.key("expert_feed_forward_length", f.n_ff_exp)
    f.key("expert_shared_count", 2)
    f.key("expert_weights_scale", 1.7)
    f.key("leading_dense_block_count", 1)
    if f.variant in ("groups", "v3-groups"):
        f.key("expert_group_count", 4)
        f.key("expert_group_used_count", 2)
    elif not old:
        f.key("expert_group_count", 1)
        f.key("expert_group_used_count", 1)
    if f.variant.startswith("yarn"):
        f.scaling("yarn")
        f.key("rope.scaling.yarn_log_multiplier", 0.0707)
    if f.variant == "q-lora" or v3:
        f.key("attention.q_lora_rank", rank)
    if v3:
        f.key("expert_weights_norm", True)
        if not is_flash:
            f.key("expert_gating_func", 2)
    if is_flash:
        f.key("attention.temperature_scale", 0.1)  # Mistral Large 3's, of the same form
        f.key("attention.temperature_length", 12)
    f.ends()
    for i in range(f.n_layer + is_flash):
        latent_attention(f, f"blk.{i}.", part, n_rot, n_value, rank, old)
        f.norm(f"blk.{i}.ffn_norm")
        if i == 0:
            f.gated(i)
        else:
            f.experts(i)
            f.gated(i, 2 * f.n_ff_exp, "_shexp")
            if v3:
                f.vector(f"blk.{i}.exp_probs_b.bias", f.n_expert)
    if is_flash:
        decoder_fixtures.nextn(f, f.n_layer, False)


def latent_attention(f, b, part, n_rot, n_value, rank, old):
    n_q = f.n_head * (part + n_rot)
    f.norm(b + "attn_norm")
    if f.variant in ("q-lora", "v3", "v3-groups", "flash"):
        f.matrix(b + "attn_q_a", rank, f.n_embd)
        f.norm(b + "attn_q_a_norm", rank)
        f.matrix(b + "attn_q_b", n_q, rank, gain=1.1)
    else:
        f.matrix(b + "attn_q", n_q, f.n_embd, gain=1.1)
    f.matrix(b + "attn_kv_a_mqa", rank + n_rot, f.n_embd, gain=1.1)
    f.norm(b + "attn_kv_a_norm", rank)
    if old:
        f.matrix(b + "attn_kv_b", f.n_head * (part + n_value), rank, gain=1.1)
    else:
        # A key is the short vector times this matrix turned around: its spread goes by the rank.
        f.matrix(b + "attn_k_b", f.n_head, rank, part, gain=1.1 * (part / rank) ** 0.5)
        f.matrix(b + "attn_v_b", f.n_head, n_value, rank)
    f.matrix(b + "attn_output", f.n_embd, f.n_head * n_value)


def gpt_oss(f):
    f.free_heads()
    f.n_layer = 3
    f.n_ff_exp = f.n_ff
    f.sizes()
    f.rope(base=15000.0)
    f.scaling("yarn")
    f.key("rope.scaling.yarn_beta_fast", 6.0)
    f.key("rope.scaling.yarn_beta_slow", 0.8)
    f.expert_keys()
    f.key("expert_feed_forward_length", f.n_ff_exp)
    f.key("attention.sliding_window", 6)
    f.ends()
    for i in range(f.n_layer):
        f.norm(f"blk.{i}.attn_norm")
        f.attention(i, bias=True, out_bias=True)
        f.vector(f"blk.{i}.attn_sinks.weight", f.n_head, std=1.5)
        f.norm(f"blk.{i}.post_attention_norm")
        f.experts(i, bias=True, fused=f.variant == "fused",
                  kind="MXFP4" if f.variant == "mxfp4" and f.kind == "Q8_0" else None)


# ---- embeddings ----

def bert(f):
    f.n_kv_head = f.n_head
    f.sizes(LAYER_EPS)
    f.key("attention.causal", False)
    f.key("pooling_type", 1)
    n_types = 1 if f.variant in XLM_ROBERTA else 2
    f.keys["tokenizer.ggml.token_type_count"] = n_types
    by_rows = f.arch == "bert"
    is_plain_nomic = f.arch == "nomic-bert"
    is_fused = f.arch in ("nomic-bert", "nomic-bert-moe", "jina-bert-v3") or f.variant == "fused"
    f.matrix("token_embd", f.n_vocab, f.n_embd, gain=f.n_embd ** 0.5)
    if f.variant != "fused":
        f.vector("token_types.weight", n_types, f.n_embd)
    f.norm("token_embd_norm", bias=True)
    if by_rows:
        f.vector("position_embd.weight", f.n_ctx, f.n_embd, std=0.5)
    elif f.arch != "jina-bert-v2":
        f.key("rope.freq_base", 1000.0)
    if f.arch == "nomic-bert-moe":
        f.n_layer, f.n_ff_exp = 4, f.n_ff
        f.key("block_count", f.n_layer)
        f.expert_keys()
        f.key("moe_every_n_layers", 2)
    for i in range(f.n_layer):
        b = f"blk.{i}."
        f.attention(i, fused=is_fused, bias=not is_plain_nomic, out_bias=not is_plain_nomic)
        f.norm(b + "attn_output_norm", bias=True)
        if f.arch == "jina-bert-v2":
            jina_bert_v2(f, i, b)
        elif is_plain_nomic:
            f.gated(i)
        elif f.arch == "nomic-bert-moe" and i % 2 == 1:
            f.matrix(b + "ffn_gate_inp", f.n_expert, f.n_embd, gain=3.5, kind="F32")
            f.matrix(b + "ffn_up_exps", f.n_expert, f.n_ff, f.n_embd, gain=1.5)
            f.matrix(b + "ffn_down_exps", f.n_expert, f.n_embd, f.n_ff)
        else:
            f.plain(i)
        f.norm(b + "layer_output_norm", bias=True)

    if f.variant in HEADS:
        classifier(f, *HEADS[f.variant])
    if f.variant == "single":
        del f.keys[f"{f.arch}.pooling_type"]  # its files do not say it
        f.biased("cls", 1, f.n_embd, True, gain=1.5)
        f.tokenizer = lambda: word_pieces(f)
    if f.variant in XLM_ROBERTA:
        f.tokenizer = lambda: unigram(f)


def jina_bert_v2(f, i, b):
    """Files for texts have a gate, apart or in one matrix with what it gates; those for code have norms
    of queries and keys, and one behind the sum with what attention took."""
    if f.variant == "plain":
        f.gated(i)
        f.vector(b + "ffn_down.bias", f.n_embd)
    elif f.variant == "ungated":
        f.plain(i)
        f.key("attention.max_alibi_bias", 5.0)
    else:
        f.biased(b + "ffn_up", 2 * f.n_ff, f.n_embd, True, gain=1.5)
        f.biased(b + "ffn_down", f.n_embd, f.n_ff, True)
    if f.variant == "code":
        f.norm(b + "attn_q_norm", f.n_embd, bias=True)
        f.norm(b + "attn_k_norm", f.n_embd, bias=True)
        f.norm(b + "attn_norm_2", bias=True)


# XLM-RoBERTa in bert's files: one type of token, and a vocabulary of SentencePiece's unigram model. The rows of positions that
# it never uses are cut when a file is made.
XLM_ROBERTA = ("xlm-roberta", "xlm-rank")

def modern_bert(f):
    """Its layers add little each, so that the error of rounded numbers does not grow with them."""
    f.n_kv_head = f.n_head
    f.n_layer = 4
    biases = f.variant == "biases"
    f.sizes(LAYER_EPS)
    f.key("attention.causal", False)
    f.key("pooling_type", 1)
    f.key("rope.freq_base", 2000.0)
    f.key("rope.scaling.type", "none")
    f.key("attention.sliding_window", 9)
    f.key("attention.sliding_window_pattern", [True, False, True, True] if biases else 3)
    if f.variant == "silu":
        f.key("rope.freq_base_swa", 500.0)
        f.key("hidden_activation", "silu")
    else:
        f.key("hidden_activation", "gelu")
    f.matrix("token_embd", f.n_vocab, f.n_embd, gain=f.n_embd ** 0.5)
    f.norm("token_embd_norm", bias=biases)
    f.norm("output_norm", bias=biases)
    for i in range(f.n_layer):
        b = f"blk.{i}."
        if i > 0 or biases:
            f.norm(b + "attn_norm", bias=biases)
        f.attention(i, fused=True, bias=biases, out_bias=biases)
        f.norm(b + "ffn_norm", bias=biases)
        f.biased(b + "ffn_up", 2 * f.n_ff, f.n_embd, biases, gain=1.5)
        f.biased(b + "ffn_down", f.n_embd, f.n_ff, biases, gain=0.6)
    if f.variant == "rank":
        classifier(f, 1, None, True)
        f.norm("cls.norm", bias=True)
        f.tokenizer = lambda: letters(f, "[CLS]", "[SEP]")


def eurobert(f):
    biases = f.variant == "biases"
    llama(f, bias=biases, out_bias=biases, ffn_bias=biases, tied=True)
    f.matrix("token_embd", f.n_vocab, f.n_embd, gain=f.n_embd ** 0.5)  # it has no output to share it with
    f.key("rope.freq_base", 2500.0)
    f.key("rope.scaling.type", "none")
    f.key("attention.causal", False)
    f.key("pooling_type", 3)


def letters(f, begin, end):
    """GPT-2's, with a token before each text and one behind it."""
    n = f.n_vocab
    Fixture.tokenizer(f)
    f.keys["tokenizer.ggml.tokens"][n - 2:] = [begin, end]
    f.keys["tokenizer.ggml.token_type"][n - 2:] = [3, 3]
    for role, i in (("bos", n - 2), ("cls", n - 2), ("eos", n - 1), ("seperator", n - 1)):
        f.keys[f"tokenizer.ggml.{role}_token_id"] = i
    for role in ("bos", "eos", "sep"):
        f.keys[f"tokenizer.ggml.add_{role}_token"] = True


# Of classifiers, which are no architecture's variants: labels, their names, whether there is a layer before them.
HEADS = {"rank": (1, None, True), "flat": (1, None, False), "labels": (3, ["good", "bad", "so-so"], True),
         "unnamed": (2, None, False), "yes": (2, ["no", "yes"], True), "xlm-rank": (1, None, True)}


def classifier(f, n, names, is_deep):
    f.key("pooling_type", 4)
    if is_deep:
        f.biased("cls", f.n_embd, f.n_embd, True)
    f.biased("cls.output", n, f.n_embd, True, gain=2.0)
    if names is not None:
        f.key("classifier.output_labels", names)
    if f.arch == "bert":
        f.tokenizer = lambda: word_pieces(f)


def word_pieces(f):
    """BERT's: words of one piece."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    f.keys.update({
        "tokenizer.ggml.model": "bert", "tokenizer.ggml.tokens": special + [
            "\u2581" + token_name(i) for i in range(f.n_vocab - 5)],
        "tokenizer.ggml.token_type": [3, 2, 3, 3, 3] + [1] * (f.n_vocab - 5), "tokenizer.ggml.unknown_token_id": 1,
        "tokenizer.ggml.cls_token_id": 2, "tokenizer.ggml.seperator_token_id": 3})


def unigram(f):
    """XLM-RoBERTa's, with words of one piece."""
    n = f.n_vocab - 4
    f.keys.update({
        "tokenizer.ggml.model": "t5", "tokenizer.ggml.pre": "default",
        "tokenizer.ggml.tokens": ["<s>", "<pad>", "</s>", "<unk>"] + ["\u2581" + token_name(i) for i in range(n)],
        "tokenizer.ggml.scores": [0.0] * 4 + [-2.0 - i / 8 for i in range(n)],
        "tokenizer.ggml.token_type": [3, 3, 3, 2] + [1] * n, "tokenizer.ggml.bos_token_id": 0,
        "tokenizer.ggml.eos_token_id": 2, "tokenizer.ggml.unknown_token_id": 3, "tokenizer.ggml.padding_token_id": 1,
        "tokenizer.ggml.seperator_token_id": 2, "tokenizer.ggml.cls_token_id": 0,
        "tokenizer.ggml.add_bos_token": True, "tokenizer.ggml.add_eos_token": True,
        "tokenizer.ggml.add_space_prefix": True, "tokenizer.ggml.remove_extra_whitespaces": True})


BUILDERS = {
    "llama": (llama_variants, ("plain", "biases", "fused", "factors", "linear", "old-linear", "yarn", "moe")),
    "smollm3": (smollm3, ("plain",)),
    "qwen2": (qwen2, ("plain", "tied", "yarn")),
    "qwen3": (qwen3, ("plain", "tied")),
    "qwen2moe": (qwen2moe, ("plain",)),
    "qwen3moe": (qwen3moe, ("plain", "fused", "many")),
    "gemma": (gemma, ("plain",)),
    "gemma2": (gemma2, ("plain", "wide", "defaults", "27b")),
    "gemma3": (gemma3, ("plain", "keys", "global", "27b")),
    "phi2": (phi2, ("plain", "fused")),
    "phi3": (phi3, ("plain", "longrope", "window")),
    "granite": (granite, ("plain", "biases", "unturned")),
    "granitemoe": (granite, ("plain", "shared", "unturned")),
    "olmo2": (olmo2, ("plain", "window")),
    "starcoder2": (gpt2, ("plain", "tied")),
    "starcoder": (gpt2, ("plain", "tied")),
    "stablelm": (stablelm, ("plain", "biases", "12b")),
    "gptneox": (gptneox, ("parallel", "sequential")),
    "gpt2": (gpt2, ("plain", "tied")),
    "falcon": (falcon, ("7b", "40b")),
    "internlm2": (internlm2, ("plain",)),
    "exaone": (exaone, ("plain", "factors")),
    "command-r": (command_r, ("plain", "norms")),
    "cohere2": (command_r, ("plain",)),
    "deepseek2": (deepseek2, ("old", "new", "yarn-old", "yarn", "q-lora", "v3", "groups", "v3-groups", "flash")),
    "gpt-oss": (gpt_oss, ("plain", "fused", "mxfp4")),
    "bert": (bert, ("plain", "fused", "xlm-roberta")),
    "nomic-bert": (bert, ("plain",)),
    "nomic-bert-moe": (bert, ("plain",)),
    "jina-bert-v2": (bert, ("plain", "code", "ungated")),
    "jina-bert-v3": (bert, ("plain",)),
    "modern-bert": (modern_bert, ("plain", "biases", "silu")),
    "eurobert": (eurobert, ("plain", "biases")),
    "gemma-embedding": (gemma_embedding, ("plain", "keys")),
    **{arch: hybrid_fixtures.BUILDERS[arch] for arch in hybrid_fixtures.SERVED},
    **decoder_fixtures.BUILDERS,
}


def make(arch, variant, kind, seed=1, n_ctx=N_CTX, **sizes):
    """sizes: other ones than the fixture's, where the builder lets them be."""
    f = Fixture(arch, variant, kind, seed, n_ctx)
    for name, n in sizes.items():
        setattr(f, name, n)
    BUILDERS[arch][0](f)
    return f.bytes()


def cases():
    """All pairs of an architecture and a variant."""
    return [(arch, variant) for arch, (_, variants) in BUILDERS.items() for variant in variants]
