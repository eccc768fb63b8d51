"""LoRA adapters with random numbers: as GGUF files, as folders of PEFT, and merged into a model in float64.

An adapter is a dict: the name of a matrix in the model's GGUF file -> (A, B), float64 arrays of the
shapes (rank, n_in) and (n_out, rank), whose numbers are exact in the type that they are written in.
"""
import json
import zlib

import numpy as np

import gguf_file
import hf_folder
from rounding import encode

MODULES = {"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
           "attn_output": "self_attn.o_proj", "attn_qkv": "self_attn.qkv_proj", "ffn_gate": "mlp.gate_proj",
           "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
SUFFIXES = ("attn_q", "attn_k", "attn_v", "attn_output", "attn_qkv", "ffn_gate", "ffn_up", "ffn_down",
            "ffn_gate_shexp", "ffn_up_shexp", "ffn_down_shexp")


def rounded(x, kind):
    """Numbers that the type holds exactly."""
    if kind == "F16":
        return x.astype("<f2").astype(np.float64)
    if kind == "BF16":
        return (x.astype("<f4").view("<u4") & 0xffff0000).view("<f4").astype(np.float64)
    if kind == "Q8_0":
        blocks = np.frombuffer(encode(kind, x), np.uint8).reshape(-1, 34)
        return (blocks[:, :2].copy().view("<f2").astype(np.float64) * blocks[:, 2:].view(np.int8)).reshape(x.shape)
    return x.astype("<f4").astype(np.float64)


def type_of_b(kind):
    """The Bs' beside As of a type: their rows are too short for blocks of 32."""
    return "F16" if kind == "Q8_0" else kind


def targets(m):
    """The matrices of a model that adapters may change."""
    return [n for n in m.tensors if n.endswith(".weight") and n.split(".")[-2] in SUFFIXES]


def make(m, rank, kind="F32", seed=1, only=None):
    """A random adapter for all the targets of a model, or for those whose names have `only` in them."""
    found = {}
    for name in targets(m):
        if only is not None and only not in name:
            continue
        n_out, n_in = m.tensors[name].shape
        rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
        found[name] = (rounded(rng.normal(0, n_in ** -0.5, (rank, n_in)), kind),
                       rounded(rng.normal(0, 0.5 * rank ** -0.5, (n_out, rank)), type_of_b(kind)))
    return found


def merged(m, adapter, alpha, scale=1.0):
    """The model with W + scale * alpha / rank * B A."""
    tensors = dict(m.tensors)
    for name, (a, b) in adapter.items():
        tensors[name] = tensors[name] + scale * (alpha / len(a) if alpha else 1.0) * (b @ a)
    return gguf_file.Model(m.keys, tensors)


def raw(kind, x):
    if kind == "BF16":
        return kind, x.shape, (x.astype("<f4").view("<u4") >> 16).astype("<u2").tobytes()
    return kind, x.shape, encode(kind, x)


def gguf(arch, adapter, alpha, kind="F32", **keys):
    """The bytes of a file."""
    tensors = {}
    for name, (a, b) in adapter.items():
        tensors[name + ".lora_a"], tensors[name + ".lora_b"] = raw(kind, a), raw(type_of_b(kind), b)
    return gguf_file.write({"general.type": "adapter", "general.architecture": arch, "adapter.type": "lora",
                            "adapter.lora.alpha": float(alpha), **keys}, tensors)


def in_halves(b, head):
    """Rows of q or k in the order of published weights, from that of GGUF files."""
    pairs = b.reshape(-1, head // 2, 2, b.shape[1])
    return np.swapaxes(pairs, 1, 2).reshape(b.shape)


def llama_module(name):
    """Which of its modules a matrix of a model's GGUF file is."""
    _, layer, part, _ = name.split(".")
    return f"model.layers.{layer}.{MODULES[part]}"


def peft(folder, adapter, alpha, kind="F32", head=0, module=llama_module, **config):
    """A folder as PEFT saves it. head: the length of heads whose rows GGUF files have in pairs; 0:
    they have them as they are published. module: as llama_module, of another class."""
    tensors = {}
    for name, (a, b) in adapter.items():
        if head and name.split(".")[2] in ("attn_q", "attn_k"):
            b = in_halves(b, head)
        begin = f"base_model.model.{module(name)}"
        tensors[f"{begin}.lora_A.weight"], tensors[f"{begin}.lora_B.weight"] = raw(kind, a), raw(kind, b)
    folder.mkdir()
    rank = max(len(a) for a, _ in adapter.values())
    (folder / "adapter_config.json").write_text(json.dumps(
        {"peft_type": "LORA", "r": rank, "lora_alpha": alpha, "bias": "none", "use_dora": False,
         "fan_in_fan_out": False, "modules_to_save": None, "init_lora_weights": True, "rank_pattern": {},
         "alpha_pattern": {}, "task_type": "CAUSAL_LM", **config}))
    (folder / "adapter_model.safetensors").write_bytes(hf_folder.safetensors(tensors))
    return folder
