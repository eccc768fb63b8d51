"""Folders of classes whose layers keep a state, as hf_classes.py makes those of others.

What transformers saves is written down from its modeling_lfm2.py, modeling_lfm2_moe.py, modeling_qwen3_next.py and
modeling_qwen3_5.py.
"""
import json
import re

import numpy as np

import hf_folder
from hf_classes import array, tensor

SELF, LINEAR, MLP = ".self_attn.", ".linear_attn.", ".mlp."
LFM2 = {"attn_norm": ".operator_norm", "ffn_norm": ".ffn_norm", "attn_output": SELF + "out_proj",
        **{f"attn_{p}": f"{SELF}{p}_proj" for p in "qkv"}, **{f"attn_{p}_norm": f"{SELF}{p}_layernorm" for p in "qk"},
        "shortconv.in_proj": ".conv.in_proj", "shortconv.conv": ".conv.conv", "shortconv.out_proj": ".conv.out_proj",
        **{f"ffn_{p}": f".feed_forward.{w}" for p, w in (("gate", "w1"), ("down", "w2"), ("up", "w3"))},
        **{f"ffn_{p}_exps": f".feed_forward.experts.*.{w}" for p, w in (("gate", "w1"), ("down", "w2"), ("up", "w3"))},
        "ffn_gate_inp": ".feed_forward.gate", "exp_probs_b.bias": ".feed_forward.expert_bias"}
QWEN = {"attn_norm": ".input_layernorm", "post_attention_norm": ".post_attention_layernorm", "attn_output": SELF + "o_proj",
        **{f"attn_{p}": f"{SELF}{p}_proj" for p in "qkv"}, **{f"attn_{p}_norm": f"{SELF}{p}_norm" for p in "qk"},
        "ssm_in": LINEAR + "in_proj_qkvz", "ssm_ba": LINEAR + "in_proj_ba", "attn_qkv": LINEAR + "in_proj_qkv",
        "attn_gate": LINEAR + "in_proj_z", "ssm_beta": LINEAR + "in_proj_b", "ssm_alpha": LINEAR + "in_proj_a",
        "ssm_conv1d": LINEAR + "conv1d", "ssm_dt.bias": LINEAR + "dt_bias", "ssm_a": LINEAR + "A_log",
        "ssm_norm": LINEAR + "norm", "ssm_out": LINEAR + "out_proj",
        **{f"ffn_{p}": f"{MLP}{p}_proj" for p in ("gate", "up", "down")},
        **{f"ffn_{p}_exps": f"{MLP}experts.*.{p}_proj" for p in ("gate", "up", "down")},
        **{f"ffn_{p}_shexp": f"{MLP}shared_expert.{p}_proj" for p in ("gate", "up", "down")},
        "ffn_gate_inp": MLP + "gate", "ffn_gate_inp_shexp": MLP + "shared_expert_gate"}
FUSED = {**QWEN, "ffn_gate_up_exps": MLP + "experts.gate_up_proj#", "ffn_down_exps": MLP + "experts.down_proj#"}
NAMES = {"Lfm2ForCausalLM": LFM2, "Lfm2MoeForCausalLM": LFM2, "Qwen3NextForCausalLM": QWEN, "Qwen3_5ForCausalLM": QWEN,
         "Qwen3_5ForConditionalGeneration": QWEN, "Qwen3_5MoeForConditionalGeneration": FUSED}
ENDS = {"token_embd.weight": "embed_tokens.weight", "output_norm.weight": "norm.weight", "token_embd_norm.weight": "embedding_norm.weight"}


def is_image_class(cls):
    return cls.endswith("ForConditionalGeneration")


def head_of(keys):
    arch = keys["general.architecture"]
    return keys.get(f"{arch}.attention.key_length", keys[f"{arch}.embedding_length"] // keys[f"{arch}.attention.head_count"])


def split(tensors, name, sizes, parts):
    """Rows of a tensor as several."""
    out = {n: t for n, t in tensors.items() if n != name}
    kind, data = tensors[name][0], array(tensors[name])
    for part, rows in zip(parts, np.split(data, np.cumsum(sizes)[:-1], axis=-2)):
        out[part] = tensor(kind, rows)
    return out


def apart(cls, keys, tensors):
    """What fixtures have in one tensor and the class in several, or the other way round."""
    arch = keys["general.architecture"]
    head = head_of(keys)
    for n in list(tensors):
        b = n.rsplit(".", 2)[0]
        if n.endswith("attn_qkv.weight") and f"{b}.ssm_a" not in tensors:
            n_q, n_kv = (head * keys[f"{arch}.attention.head_count" + end] for end in ("", "_kv"))
            tensors = split(tensors, n, [2 * n_q, n_kv, n_kv], [f"{b}.attn_{p}.weight" for p in "qkv"])
        if n.endswith("ffn_gate_up_exps.weight") and "Moe" not in cls:
            half = tensors[n][1][1] // 2
            tensors = split(tensors, n, [half, half], [f"{b}.ffn_{p}_exps.weight" for p in ("gate", "up")])
        if n.endswith("ffn_gate_exps.weight") and cls.startswith("Qwen3_5Moe"):
            both = [array(tensors[n.replace("gate", p)]) for p in ("gate", "up")]
            tensors = {k: t for k, t in tensors.items() if k not in (n, n.replace("gate", "up"))}
            tensors[f"{b}.ffn_gate_up_exps.weight"] = tensor(tensors[f"{b}.ffn_down_exps.weight"][0], np.concatenate(both, axis=1))
    return tensors


def published(cls, tensors):
    """Norms less 1 and logarithms of rates, and what the reader must make of them."""
    theirs, ours = dict(tensors), dict(tensors)
    for n, t in tensors.items():
        if cls.startswith("Qwen") and "norm" in n and "ssm_norm" not in n:
            less = array(t) - np.float32(1)
            theirs[n], ours[n] = tensor("F32", less), tensor("F32", less + np.float32(1))
        if n.endswith(".ssm_a"):
            log = np.log(-array(t))
            theirs[n], ours[n] = tensor("F32", log), tensor("F32", -np.exp(log.astype("f8")))
        if n.endswith(("ssm_conv1d.weight", "shortconv.conv.weight")):
            theirs[n] = t[0], (t[1][0], 1, t[1][1]), t[2]
        if n.endswith("ffn_gate_inp_shexp.weight"):
            theirs[n] = t[0], (1, t[1][-1]), t[2]
    return theirs, ours


def named(cls, tensors):
    root = "model.language_model." if is_image_class(cls) else "model."
    out = {}
    for n, t in tensors.items():
        if n == "output.weight":
            out["lm_head.weight"] = t
            continue
        if n in ENDS:
            out[root + ENDS[n]] = t
            continue
        _, layer, part = n.split(".", 2)
        stem, end = (part, "") if part in NAMES[cls] else part.rsplit(".", 1)
        name = f"{root}layers.{layer}{NAMES[cls][stem]}" + (f".{end}" if end else "")
        if "*" in name:
            for e, row in enumerate(array(t)):
                out[name.replace("*", str(e))] = tensor(t[0], row)
        else:
            out[name.replace("#.weight", "")] = t
    return out


def recurrent_layers(keys, arch, n_layer):
    kinds = keys.get(f"{arch}.attention.recurrent_layers")
    period = keys.get(f"{arch}.full_attention_interval", 4)
    return kinds or [(i + 1) % period != 0 for i in range(n_layer)]


def config(cls, keys, tensors):
    arch = keys["general.architecture"]

    def key(suffix, default=None):
        return keys.get(f"{arch}.{suffix}", default)

    n_layer, n_head, eps = key("block_count"), key("attention.head_count"), key("attention.layer_norm_rms_epsilon")
    c = {"architectures": [cls], "hidden_size": key("embedding_length"), "num_hidden_layers": n_layer, "num_attention_heads": n_head,
         "max_position_embeddings": key("context_length"), "vocab_size": len(hf_folder.tokens_of(keys))}
    experts = {"num_experts": key("expert_count"), "num_experts_per_tok": key("expert_used_count"),
               "moe_intermediate_size": key("expert_feed_forward_length"), "norm_topk_prob": True}
    if arch.startswith("lfm2"):
        kv = key("attention.head_count_kv")
        c.update(num_key_value_heads=max(kv), norm_eps=eps, conv_L_cache=key("shortconv.l_cache"), conv_bias=False,
                 tie_embedding="output.weight" not in tensors, rope_theta=key("rope.freq_base"))
        if arch == "lfm2moe":
            return {**c, **experts, "intermediate_size": key("feed_forward_length"), "use_expert_bias": True,
                    "num_dense_layers": key("leading_dense_block_count"), "routed_scaling_factor": 1.0,
                    "layer_types": ["full_attention" if n else "conv" for n in kv]}
        if c["conv_L_cache"] == 3:
            return {**c, "full_attn_idxs": [i for i, n in enumerate(kv) if n], "block_ff_dim": key("feed_forward_length") * 3 // 2,
                    "block_auto_adjust_ff_dim": True, "block_multiple_of": 8, "block_ffn_dim_multiplier": 1.0}
        return {**c, "layer_types": ["full_attention" if n else "conv" for n in kv], "block_auto_adjust_ff_dim": False,
                "intermediate_size": key("feed_forward_length")}
    head = head_of(keys)
    c.update(num_key_value_heads=key("attention.head_count_kv"), head_dim=head, rms_norm_eps=eps, hidden_act="silu",
             tie_word_embeddings="output.weight" not in tensors, intermediate_size=key("feed_forward_length"),
             linear_conv_kernel_dim=key("ssm.conv_kernel"), linear_key_head_dim=key("ssm.state_size"),
             linear_value_head_dim=key("ssm.inner_size") // key("ssm.time_step_rank"), linear_num_key_heads=key("ssm.group_count"),
             linear_num_value_heads=key("ssm.time_step_rank"), attn_output_gate=True,
             rope_parameters={"rope_type": "default", "rope_theta": key("rope.freq_base"), "mrope_interleaved": True,
                              "partial_rotary_factor": key("rope.dimension_count") / head})
    kinds = recurrent_layers(keys, arch, n_layer)
    if key("full_attention_interval"):
        c["full_attention_interval"] = key("full_attention_interval")
    else:
        c["layer_types"] = ["linear_attention" if k else "full_attention" for k in kinds]
    if arch != "qwen35":
        c.update(experts, decoder_sparse_step=1, mlp_only_layers=[],
                 shared_expert_intermediate_size=key("expert_shared_feed_forward_length"))
    if not is_image_class(cls):
        return c
    tied, classes = c.pop("tie_word_embeddings"), c.pop("architectures")
    return {"architectures": classes, "tie_word_embeddings": tied, "hidden_size": 7, "text_config": c,
            "vision_config": {"depth": 1, "hidden_size": 64}}


def make(cls, folder, keys, tensors, **changes):
    """Writes the folder; the keys and tensors of the GGUF file that must answer with the same bits."""
    arch = keys["general.architecture"]
    theirs, ours = published(cls, apart(cls, keys, tensors))
    written = named(cls, theirs)
    if cls.startswith("Qwen"):
        written["mtp.fc.weight"] = "F32", (2, 2), bytes(16)
    if is_image_class(cls):
        written["model.visual.patch_embed.proj.weight"] = "F32", (2, 2), bytes(16)
    content = config(cls, keys, tensors)
    inner = content.get("text_config", content)
    inner.update(changes)
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(content))
    (folder / "tokenizer.json").write_text(json.dumps(hf_folder.plain_tokenizer(keys)))
    (folder / "model.safetensors").write_bytes(hf_folder.safetensors(written))
    keys = {n: v for n, v in keys.items() if not re.search(r"rope\.dimension_sections", n)}
    return {**keys, f"{arch}.ssm.grouped_heads": True}, ours


def spread(keys, tensors):
    """Tensors of a delta net whose value heads stand as those of GGUF files of Qwen3.5, from heads that stand as published:
    those that share a key head are as many apart as there are key heads."""
    arch = keys["general.architecture"]
    n_key, n_value, size = (keys[f"{arch}.ssm.{k}"] for k in ("group_count", "time_step_rank", "state_size"))
    heads = np.arange(n_value).reshape(n_key, -1).T.ravel()
    numbers = (heads[:, None] * size + np.arange(size)).ravel()
    first = 2 * n_key * size
    out = dict(tensors)
    for n, t in tensors.items():
        b = n.rsplit(".", 2)[0]
        part = n.split(".", 2)[-1]
        x = array(t)
        if part in ("ssm_a", "ssm_dt.bias", "ssm_beta.weight", "ssm_alpha.weight"):
            out[n] = tensor(t[0], x[heads])
        elif part == "attn_gate.weight":
            out[n] = tensor(t[0], x[numbers])
        elif part == "ssm_out.weight":
            out[n] = tensor(t[0], x[:, numbers])
        elif part == "ssm_conv1d.weight" or (part == "attn_qkv.weight" and f"{b}.ssm_a" in tensors):
            out[n] = tensor(t[0], np.concatenate([x[:first], x[first:][numbers]]))
    return out
