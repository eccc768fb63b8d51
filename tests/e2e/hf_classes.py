"""Folders of other classes of transformers, from the keys and tensors of a random GGUF file.

make(cls, folder, keys, tensors) writes what transformers would save of the model, and gives the keys and tensors of
the GGUF file that must answer with the same bits. What each class calls its parts and how it lays out their rows is
written down here once more, from its modeling code, so that the reader is not held against itself.
"""
import json
import re

import numpy as np

import hf_folder

LLAMA = {**hf_folder.WHOLE, **{f".{a}": f"model.layers.#.{b}" for a, b in hf_folder.LAYER.items()}}
GEMMA2 = {**LLAMA, ".ffn_norm": "model.layers.#.pre_feedforward_layernorm",
          ".post_attention_norm": "model.layers.#.post_attention_layernorm",
          ".post_ffw_norm": "model.layers.#.post_feedforward_layernorm"}
MLP_EXPERTS = {".ffn_gate_inp": "model.layers.#.mlp.gate",
               **{f".ffn_{p}_exps": f"model.layers.#.mlp.experts.*.{p}_proj" for p in ("gate", "up", "down")}}
SPARSE = "model.layers.#.block_sparse_moe."
GPT = {"token_embd.weight": "transformer.wte.weight", "position_embd.weight": "transformer.wpe.weight",
       "output_norm.weight": "transformer.ln_f.weight", "output_norm.bias": "transformer.ln_f.bias",
       "output.weight": "lm_head.weight", ".attn_norm": "transformer.h.#.ln_1", ".ffn_norm": "transformer.h.#.ln_2",
       ".attn_qkv": "transformer.h.#.attn.c_attn", ".attn_output": "transformer.h.#.attn.c_proj",
       ".ffn_up": "transformer.h.#.mlp.c_fc", ".ffn_down": "transformer.h.#.mlp.c_proj"}

NAMES = {
    "MixtralForCausalLM": {**LLAMA, ".ffn_gate_inp": SPARSE + "gate", ".ffn_gate_exps": SPARSE + "experts.*.w1",
                           ".ffn_down_exps": SPARSE + "experts.*.w2", ".ffn_up_exps": SPARSE + "experts.*.w3"},
    "Qwen2MoeForCausalLM": {**LLAMA, **MLP_EXPERTS, ".ffn_gate_inp_shexp": "model.layers.#.mlp.shared_expert_gate",
                            **{f".ffn_{p}_shexp": f"model.layers.#.mlp.shared_expert.{p}_proj"
                               for p in ("gate", "up", "down")}},
    "Qwen3MoeForCausalLM": {**LLAMA, **MLP_EXPERTS},
    "GptOssForCausalLM": {**LLAMA, ".post_attention_norm": "model.layers.#.post_attention_layernorm",
                          ".attn_sinks": "model.layers.#.self_attn.sinks", ".ffn_gate_inp": "model.layers.#.mlp.router"},
    "Gemma2ForCausalLM": GEMMA2, "Gemma3ForCausalLM": GEMMA2,
    "Phi3ForCausalLM": {**LLAMA, ".attn_qkv": "model.layers.#.self_attn.qkv_proj",
                        ".ffn_up": "model.layers.#.mlp.gate_up_proj"},
    "GraniteMoeForCausalLM": {**LLAMA, ".ffn_gate_inp": SPARSE + "router.layer",
                              ".ffn_gate_up_exps": SPARSE + "input_linear", ".ffn_down_exps": SPARSE + "output_linear"},
    "Olmo2ForCausalLM": {**LLAMA, ".post_attention_norm": "model.layers.#.post_attention_layernorm",
                         ".post_ffw_norm": "model.layers.#.post_feedforward_layernorm"},
    "Glm4ForCausalLM": {**LLAMA, ".post_attention_norm": "model.layers.#.post_self_attn_layernorm",
                        ".post_ffw_norm": "model.layers.#.post_mlp_layernorm", ".ffn_up": "model.layers.#.mlp.gate_up_proj"},
    "SeedOssForCausalLM": {**LLAMA, ".post_attention_norm": "model.layers.#.post_attention_layernorm"},
    "InternLM2ForCausalLM": {"token_embd.weight": "model.tok_embeddings.weight", "output_norm.weight": "model.norm.weight",
                             "output.weight": "output.weight", ".attn_norm": "model.layers.#.attention_norm",
                             ".ffn_norm": "model.layers.#.ffn_norm", ".attn_qkv": "model.layers.#.attention.wqkv",
                             ".attn_output": "model.layers.#.attention.wo", ".ffn_gate": "model.layers.#.feed_forward.w1",
                             ".ffn_down": "model.layers.#.feed_forward.w2", ".ffn_up": "model.layers.#.feed_forward.w3"},
    "ExaoneForCausalLM": {**GPT, **{f".attn_{a}": f"transformer.h.#.attn.attention.{a}_proj" for a in "qkv"},
                          ".attn_output": "transformer.h.#.attn.attention.out_proj",
                          ".ffn_gate": "transformer.h.#.mlp.c_fc_0", ".ffn_up": "transformer.h.#.mlp.c_fc_1"},
    "StableLmForCausalLM": {**LLAMA, "output_norm.bias": "model.norm.bias"},
    "Starcoder2ForCausalLM": {**LLAMA, "output_norm.bias": "model.norm.bias", ".ffn_up": "model.layers.#.mlp.c_fc",
                              ".ffn_down": "model.layers.#.mlp.c_proj"},
    "PhiForCausalLM": {**LLAMA, "output_norm.weight": "model.final_layernorm.weight",
                       "output_norm.bias": "model.final_layernorm.bias", "output.bias": "lm_head.bias",
                       ".attn_output": "model.layers.#.self_attn.dense", ".ffn_up": "model.layers.#.mlp.fc1",
                       ".ffn_down": "model.layers.#.mlp.fc2"},
    "GPTNeoXForCausalLM": {"token_embd.weight": "gpt_neox.embed_in.weight", "output.weight": "embed_out.weight",
                           "output_norm.weight": "gpt_neox.final_layer_norm.weight",
                           "output_norm.bias": "gpt_neox.final_layer_norm.bias",
                           ".attn_norm": "gpt_neox.layers.#.input_layernorm",
                           ".ffn_norm": "gpt_neox.layers.#.post_attention_layernorm",
                           ".attn_qkv": "gpt_neox.layers.#.attention.query_key_value",
                           ".attn_output": "gpt_neox.layers.#.attention.dense",
                           ".ffn_up": "gpt_neox.layers.#.mlp.dense_h_to_4h",
                           ".ffn_down": "gpt_neox.layers.#.mlp.dense_4h_to_h"},
    "GPT2LMHeadModel": GPT, "GPTBigCodeForCausalLM": GPT,
    "FalconForCausalLM": {"token_embd.weight": "transformer.word_embeddings.weight",
                          "output_norm.weight": "transformer.ln_f.weight", "output_norm.bias": "transformer.ln_f.bias",
                          "output.weight": "lm_head.weight", ".attn_norm": "transformer.h.#.input_layernorm",
                          ".attn_norm_2": "transformer.h.#.ln_attn",
                          ".attn_qkv": "transformer.h.#.self_attention.query_key_value",
                          ".attn_output": "transformer.h.#.self_attention.dense",
                          ".ffn_up": "transformer.h.#.mlp.dense_h_to_4h", ".ffn_down": "transformer.h.#.mlp.dense_4h_to_h"},
    "DeepseekV2ForCausalLM": {**LLAMA, **MLP_EXPERTS, ".exp_probs_b": "model.layers.#.mlp.gate",
                              ".attn_q_a": "model.layers.#.self_attn.q_a_proj",
                              ".attn_q_a_norm": "model.layers.#.self_attn.q_a_layernorm",
                              ".attn_q_b": "model.layers.#.self_attn.q_b_proj",
                              ".attn_kv_a_mqa": "model.layers.#.self_attn.kv_a_proj_with_mqa",
                              ".attn_kv_a_norm": "model.layers.#.self_attn.kv_a_layernorm",
                              ".attn_kv_b": "model.layers.#.self_attn.kv_b_proj",
                              **{f".ffn_{p}_shexp": f"model.layers.#.mlp.shared_experts.{p}_proj"
                                 for p in ("gate", "up", "down")}},
}
NAMES["DeepseekV3ForCausalLM"] = NAMES["DeepseekV2ForCausalLM"]
NAMES["Exaone4ForCausalLM"] = NAMES["Olmo2ForCausalLM"]
NAMES["Olmo3ForCausalLM"] = NAMES["Olmo2ForCausalLM"]
UNTURNED = ("CohereForCausalLM", "Cohere2ForCausalLM", "DeepseekV2ForCausalLM", "DeepseekV3ForCausalLM", "Glm4ForCausalLM",
            "Ernie4_5ForCausalLM")
PLUS_ONE = ("GemmaForCausalLM", "Gemma2ForCausalLM", "Gemma3ForCausalLM")
TYPES = {"F32": "<f4", "F16": "<f2", "BF16": "<u2"}


def array(t):
    return np.frombuffer(t[2], TYPES[t[0]]).reshape(t[1])


def tensor(kind, values):
    return kind, values.shape, np.ascontiguousarray(values).astype(TYPES[kind]).tobytes()


def rename(names, ours):
    """Their name of a tensor; "*" stands for an expert's number."""
    if ours in names:
        return names[ours]
    _, layer, part, end = ours.split(".")
    return f"{names['.' + part].replace('#', layer)}.{end}"


# ---- rows ----

def per_head(x, n_head, n_kv, head):
    """All q, all k, all v -> of each KV head: its q's, k, v."""
    n = n_head // n_kv
    q, k, v = np.split(x, [n_head * head, (n_head + n_kv) * head])
    parts = [q.reshape(n_kv, n * head, *x.shape[1:]), k.reshape(n_kv, head, *x.shape[1:]),
             v.reshape(n_kv, head, *x.shape[1:])]
    return np.concatenate(parts, axis=1).reshape(x.shape)


def join_qkv(tensors):
    """attn_q, attn_k and attn_v as one."""
    out = {n: t for n, t in tensors.items() if not re.search(r"attn_[qkv]\.", n)}
    for n, t in tensors.items():
        if ".attn_q." in n:
            rows = [array(tensors[n.replace("attn_q.", f"attn_{p}.")]) for p in "qkv"]
            out[n.replace("attn_q.", "attn_qkv.")] = tensor(t[0], np.concatenate(rows))
    return out


def join_gate_up(tensors):
    out = {n: t for n, t in tensors.items() if "_gate_exps." not in n and "_up_exps." not in n}
    for n, t in tensors.items():
        if "ffn_gate_exps." in n:
            pair = [array(tensors[n.replace("gate", p)]) for p in ("gate", "up")]
            out[n.replace("gate", "gate_up")] = tensor(t[0], np.concatenate(pair, axis=1))
    return out


def short_of_one(cls, tensors):
    """Norms less 1, and the GGUF file's that come of adding it again."""
    theirs, ours = dict(tensors), dict(tensors)
    if cls not in PLUS_ONE:
        return theirs, ours
    for n, t in tensors.items():
        if "norm" in n:
            less = array(t) - np.float32(1)
            theirs[n] = tensor("F32", less)
            ours[n] = tensor("F32", less + np.float32(1))
    return theirs, ours


def one_latent(keys, tensors):
    """DeepSeek's keys and values out of one matrix, as older GGUF files have them."""
    keys, out = dict(keys), {n: t for n, t in tensors.items() if not re.search(r"attn_[kv]_b\.", n)}
    if not any("attn_k_b" in n for n in tensors):
        return keys, out
    for n, t in tensors.items():
        if "attn_k_b" in n:
            k, v = array(t).swapaxes(1, 2), array(tensors[n.replace("k_b", "v_b")])
            both = np.concatenate([k, v], axis=1)
            out[n.replace("k_b", "kv_b")] = tensor(t[0], both.reshape(-1, both.shape[2]))
    for a, b in [("key_length", "key_length_mla"), ("value_length", "value_length_mla")]:
        keys["deepseek2.attention." + a] = keys.pop("deepseek2.attention." + b)
    keys["deepseek2.attention.head_count_kv"] = keys["deepseek2.attention.head_count"]
    return keys, out


# ---- gpt-oss ----

def mxfp4(t):
    """GGUF's blocks as published: numbers 2i and 2i + 1 in a byte, scales apart."""
    n, rows, cols = t[1]
    blocks = np.frombuffer(t[2], "u1").reshape(n, rows, cols // 32, 17)
    numbers = np.concatenate([blocks[..., 1:] & 15, blocks[..., 1:] >> 4], axis=3)
    return (("U8", (n, rows, cols // 32, 16), np.ascontiguousarray(numbers[..., 0::2] | numbers[..., 1::2] << 4).tobytes()),
            ("U8", (n, rows, cols // 32), np.ascontiguousarray(blocks[..., 0]).tobytes()))


def interleaved(x):
    """Rows g g u u of each expert -> g u g u."""
    half = x.shape[1] // 2
    return np.stack([x[:, :half], x[:, half:]], axis=2).reshape(x.shape)


def gpt_oss_experts(tensors):
    out, base = {}, "model.layers.{}.mlp.experts."
    for n, t in tensors.items():
        if "_exps" not in n:
            continue
        _, layer, part, end = n.split(".")
        name = base.format(layer) + {"ffn_gate_up_exps": "gate_up_proj", "ffn_down_exps": "down_proj"}[part]
        if end == "weight" and t[0] != "MXFP4":
            out[name] = tensor(t[0], (interleaved(array(t)) if "gate_up" in part else array(t)).swapaxes(1, 2))
        elif end == "bias":
            out[f"{name}_bias"] = tensor(t[0], interleaved(array(t)) if "gate_up" in part else array(t))
        else:
            blocks, scales = mxfp4(t)
            if "gate_up" in part:
                blocks, scales = ((k, s, np.ascontiguousarray(interleaved(np.frombuffer(d, "u1").reshape(s))).tobytes())
                                  for k, s, d in (blocks, scales))
            out[f"{name}_blocks"], out[f"{name}_scales"] = blocks, scales
    return out


# ---- config.json ----

def rope_scaling(key):
    kind = key("rope.scaling.type")
    if kind in (None, "none"):
        return None
    out = {"rope_type": kind, "factor": key("rope.scaling.factor")}
    for theirs, ours in [("original_max_position_embeddings", "original_context_length"), ("beta_fast", "yarn_beta_fast"),
                         ("beta_slow", "yarn_beta_slow")]:
        if key(f"rope.scaling.{ours}") is not None:
            out[theirs] = key(f"rope.scaling.{ours}")
    if key("rope.scaling.yarn_log_multiplier"):
        out["mscale"] = out["mscale_all_dim"] = 10 * key("rope.scaling.yarn_log_multiplier")
    return out


def longrope(tensors, n_ctx, orig):
    if "rope_factors_long.weight" not in tensors:
        return None
    long, short = (array(tensors[f"rope_factors_{n}.weight"]).tolist() for n in ("long", "short"))
    return {"type": "longrope", "long_factor": long, "short_factor": short}


def layer_types(windowed):
    return ["sliding_attention" if w else "full_attention" for w in windowed]


def config(cls, keys, tensors):
    arch = keys["general.architecture"]

    def key(suffix, default=None):
        return keys.get(f"{arch}.{suffix}", default)

    n_embd, n_head, n_layer = key("embedding_length"), key("attention.head_count"), key("block_count")
    head = key("attention.key_length", n_embd // n_head)
    eps = key("attention.layer_norm_rms_epsilon", key("attention.layer_norm_epsilon"))
    c = {"architectures": [cls], "hidden_size": n_embd, "intermediate_size": key("feed_forward_length"),
         "num_hidden_layers": n_layer, "num_attention_heads": n_head, "hidden_act": "silu",
         "num_key_value_heads": key("attention.head_count_kv", n_head), "head_dim": head,
         "max_position_embeddings": key("context_length"), "rope_theta": key("rope.freq_base", 10000.0),
         "rms_norm_eps": eps, "vocab_size": len(hf_folder.tokens_of(keys)), "rope_scaling": rope_scaling(key),
         "tie_word_embeddings": "output.weight" not in tensors}
    windowed = key("attention.sliding_window", None)
    experts = {"num_experts_per_tok": key("expert_used_count"), "moe_intermediate_size": key("expert_feed_forward_length"),
               "norm_topk_prob": key("expert_weights_norm", arch == "qwen3moe")}
    layer_norm = {"layer_norm_eps": eps}
    turned = {"partial_rotary_factor": key("rope.dimension_count", head) / head}
    gpt = {"n_embd": n_embd, "n_layer": n_layer, "n_head": n_head, "n_positions": key("context_length"),
           "n_inner": key("feed_forward_length"), "activation_function": "gelu_new", "layer_norm_epsilon": eps,
           "vocab_size": c["vocab_size"], "architectures": [cls], "tie_word_embeddings": c["tie_word_embeddings"]}
    tanh = {"hidden_act": "gelu_pytorch_tanh"}
    more = {
        "MistralForCausalLM": lambda: {"sliding_window": windowed},
        "MixtralForCausalLM": lambda: {"num_local_experts": key("expert_count"), "num_experts_per_tok": key("expert_used_count")},
        "Qwen2MoeForCausalLM": lambda: {**experts, "num_experts": key("expert_count"), "decoder_sparse_step": 1,
                                        "mlp_only_layers": [],
                                        "shared_expert_intermediate_size": key("expert_shared_feed_forward_length")},
        "Qwen3MoeForCausalLM": lambda: {**experts, "num_experts": key("expert_count")},
        "GptOssForCausalLM": lambda: {"num_local_experts": key("expert_count"), "num_experts_per_tok": key("expert_used_count"),
                                      "sliding_window": windowed, "swiglu_limit": 7.0,
                                      "layer_types": layer_types([i % 2 == 0 for i in range(n_layer)]),
                                      "quantization_config": {"quant_method": "mxfp4"},
                                      "rope_scaling": {**rope_scaling(key), "truncate": False}},
        "GemmaForCausalLM": lambda: {"hidden_act": "gelu", "hidden_activation": None},
        "Gemma2ForCausalLM": lambda: {"hidden_activation": "gelu_pytorch_tanh",
                                      "query_pre_attn_scalar": n_embd // n_head if n_layer == 46 else head,
                                      "sliding_window": key("attention.sliding_window", 4096),
                                      "attn_logit_softcapping": key("attn_logit_softcapping", 50.0),
                                      "final_logit_softcapping": key("final_logit_softcapping", 30.0)},
        "Gemma3ForCausalLM": lambda: {"hidden_activation": "gelu_pytorch_tanh",
                                      "query_pre_attn_scalar": n_embd // n_head if n_layer == 62 else head,
                                      "sliding_window": windowed, "rope_theta": key("rope.freq_base", 10000.0),
                                      "rope_local_base_freq": key("rope.freq_base_swa", 10000.0),
                                      "final_logit_softcapping": key("final_logit_softcapping"),
                                      **({"layer_types": layer_types(key("attention.sliding_window_pattern"))}
                                         if key("attention.sliding_window_pattern") else {"sliding_window_pattern": 6})},
        "Phi3ForCausalLM": lambda: {"sliding_window": windowed or None, "original_max_position_embeddings":
                                    key("rope.scaling.original_context_length"),
                                    "rope_scaling": longrope(tensors, key("context_length"), None)},
        "SmolLM3ForCausalLM": lambda: {"no_rope_layers": [int((i + 1) % 4 != 0) for i in range(n_layer)],
                                       "no_rope_layer_interval": 4, "layer_types": ["full_attention"] * n_layer},
        "GraniteForCausalLM": lambda: {"embedding_multiplier": key("embedding_scale"), "logits_scaling": key("logit_scale"),
                                       "residual_multiplier": key("residual_scale"),
                                       "attention_multiplier": key("attention.scale")},
        "CohereForCausalLM": lambda: {**layer_norm, "logit_scale": key("logit_scale"), "use_qk_norm": "blk.0.attn_q_norm.weight" in tensors},
        "Cohere2ForCausalLM": lambda: {**layer_norm, "logit_scale": key("logit_scale"), "sliding_window": windowed,
                                       "layer_types": layer_types([i % 4 != 3 for i in range(n_layer)])},
        "Olmo3ForCausalLM": lambda: {"sliding_window": windowed,
                                     "layer_types": layer_types([i % 4 != 3 for i in range(n_layer)])},
        "Glm4ForCausalLM": lambda: turned,
        "SeedOssForCausalLM": lambda: {},
        "Exaone4ForCausalLM": lambda: {"sliding_window": windowed, "layer_types": ["full_attention"] * n_layer},
        "Ernie4_5ForCausalLM": lambda: {},
        "InternLM2ForCausalLM": lambda: {"rope_scaling": {"type": "dynamic", "factor": 2.0}},
        "ExaoneForCausalLM": lambda: {"num_layers": n_layer, "layer_norm_epsilon": eps, "activation_function": "silu"},
        "StableLmForCausalLM": lambda: {**layer_norm, **turned, "use_parallel_residual": "blk.0.ffn_norm.weight" not in tensors},
        "Starcoder2ForCausalLM": lambda: {**tanh, "norm_epsilon": eps, "sliding_window": None},
        "PhiForCausalLM": lambda: {"hidden_act": "gelu_new", **layer_norm, **turned},
        "GPTNeoXForCausalLM": lambda: {"hidden_act": "gelu", **layer_norm, "rope_theta": None, "rotary_emb_base": key("rope.freq_base"),
                                       "rotary_pct": turned["partial_rotary_factor"],
                                       "use_parallel_residual": key("use_parallel_residual")},
        "FalconForCausalLM": lambda: {"hidden_act": None, "layer_norm_epsilon": eps, "num_kv_heads": key("attention.head_count_kv"),
                                      "new_decoder_architecture": "blk.0.attn_norm_2.weight" in tensors, "multi_query": True,
                                      "parallel_attn": True, "alibi": False, "ffn_hidden_size": key("feed_forward_length"),
                                      "num_key_value_heads": None},
        "DeepseekV2ForCausalLM": lambda: {**experts, "n_routed_experts": key("expert_count"), "norm_topk_prob": False,
                                          "n_shared_experts": key("expert_shared_count"), "moe_layer_freq": 1,
                                          "first_k_dense_replace": key("leading_dense_block_count"), "head_dim": None,
                                          "routed_scaling_factor": key("expert_weights_scale"), "scoring_func": "softmax",
                                          "n_group": key("expert_group_count", 1), "topk_group": key("expert_group_used_count", 1),
                                          "topk_method": "group_limited_greedy", "kv_lora_rank": key("attention.kv_lora_rank"),
                                          "q_lora_rank": key("attention.q_lora_rank"), "v_head_dim": key("attention.value_length"),
                                          "qk_rope_head_dim": key("rope.dimension_count"),
                                          "qk_nope_head_dim": key("attention.key_length") - key("rope.dimension_count")},
    }
    more["Olmo2ForCausalLM"] = lambda: {}
    more["GraniteMoeForCausalLM"] = lambda: {**more["GraniteForCausalLM"](), **more["MixtralForCausalLM"]()}
    more["DeepseekV3ForCausalLM"] = lambda: {**more["DeepseekV2ForCausalLM"](), "topk_method": "noaux_tc",
                                             "scoring_func": "sigmoid", "norm_topk_prob": True, "num_nextn_predict_layers": 1}
    if cls == "GPT2LMHeadModel":
        return gpt
    if cls == "GPTBigCodeForCausalLM":
        return {**gpt, "multi_query": True, "activation_function": "gelu_pytorch_tanh"}
    out = {**c, **more[cls]()}
    if "num_layers" in out:
        out.pop("num_hidden_layers")
    return out


# ---- all of it ----

def arrange(cls, keys, tensors):
    """Tensors in the order of the class, under names as GGUF's."""
    arch = keys["general.architecture"]
    n_head, n_kv = keys[f"{arch}.attention.head_count"], keys.get(f"{arch}.attention.head_count_kv")
    head = keys.get(f"{arch}.attention.key_length", keys[f"{arch}.embedding_length"] // n_head)
    if cls == "InternLM2ForCausalLM":
        tensors = join_qkv(tensors)
    if cls == "GraniteMoeForCausalLM":
        tensors = join_gate_up(tensors)
    out = {}
    for n, t in tensors.items():
        if "attn_qkv" in n and cls in ("InternLM2ForCausalLM", "FalconForCausalLM", "GPTNeoXForCausalLM"):
            t = tensor(t[0], per_head(array(t), n_head, n_kv or n_head, head))
        if cls == "GPT2LMHeadModel" and len(t[1]) == 2 and n.startswith("blk."):
            t = tensor(t[0], array(t).T)
        out[n] = t
    return out


def named(cls, tensors):
    """Their names; experts apart."""
    names, out = NAMES.get(cls, LLAMA), {}
    for n, t in tensors.items():
        if n.startswith("rope_"):
            continue
        if cls == "StableLmForCausalLM" and re.search(r"attn_[qk]_norm", n):
            layer, which = n.split(".")[1], n.split(".")[2][5]
            their = f"model.layers.{layer}.self_attn.{which}_layernorm.norms.*.weight"
        elif ".exp_probs_b" in n:
            their = rename(names, n).replace(".bias", ".e_score_correction_bias")
        else:
            their = rename(names, n)
        if cls == "FalconForCausalLM" and "input_layernorm" in their and "blk.0.attn_norm_2.weight" in tensors:
            their = their.replace("input_layernorm", "ln_mlp")
        if "sinks" in their:
            their = their.removesuffix(".weight")
        if "shared_expert_gate" in their:
            t = t[0], (1, t[1][-1]), t[2]
        if "*" not in their:
            out[their] = t
            continue
        for e, row in enumerate(array(t)):
            out[their.replace("*", str(e))] = tensor(t[0], row)
    return out


def make(cls, folder, keys, tensors, **changes):
    if cls.startswith("Deepseek"):
        keys, tensors = one_latent(keys, tensors)
    theirs, ours = short_of_one(cls, tensors)
    content = config(cls, keys, tensors)
    experts = {}
    if cls == "GptOssForCausalLM":
        experts = gpt_oss_experts(theirs)
        theirs = {n: t for n, t in theirs.items() if "_exps" not in n}
    written = {**named(cls, arrange(cls, keys, theirs)), **experts}
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps({**content, **changes}))
    (folder / "tokenizer.json").write_text(json.dumps(hf_folder.plain_tokenizer(keys)))
    (folder / "model.safetensors").write_bytes(hf_folder.safetensors(written))
    arch = keys["general.architecture"]
    return (keys if cls in UNTURNED else {**keys, f"{arch}.rope.halves": True}), ours
