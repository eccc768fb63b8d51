"""Folders of classes whose layers keep a state: the same bits as the GGUF file of the same model; and what is refused."""
import numpy as np
import pytest

import hf_recurrent
from test_architectures import CLOSE, distance
from test_hf_classes import answers, parts, refused

import gguf_file

CASES = [("Lfm2ForCausalLM", "lfm2", "plain"), ("Lfm2ForCausalLM", "lfm2", "taps"), ("Lfm2MoeForCausalLM", "lfm2moe", "plain"),
         ("Qwen3NextForCausalLM", "qwen3next", "grouped"), ("Qwen3_5ForCausalLM", "qwen35", "plain"),
         ("Qwen3_5ForConditionalGeneration", "qwen35", "layers"), ("Qwen3_5MoeForConditionalGeneration", "qwen35moe", "plain")]
NAMES = ["-".join(c[::2]) for c in CASES]


def pair(tmp_path, cls, keys, tensors, **changes):
    """The GGUF file and the folder, which are to answer alike."""
    folder, path = tmp_path / "hf", tmp_path / "m.gguf"
    keys, tensors = hf_recurrent.make(cls, folder, keys, tensors, **changes)
    path.write_bytes(gguf_file.write(keys, tensors))
    return path, folder


@pytest.mark.parametrize("kind", ["F32", "F16"])
@pytest.mark.parametrize("cls,arch,variant", CASES, ids=NAMES)
def test_same_bits(tmp_path, cls, arch, variant, kind):
    keys, tensors = parts(arch, variant, kind)
    if any(n.endswith("attention.scale") for n in keys):  # which no config has
        keys = {n: v for n, v in keys.items() if not n.endswith("attention.scale")}
    a, b = answers(pair(tmp_path, cls, keys, tensors), keys)
    assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("arch", ["qwen35", "qwen35moe"])
def test_value_heads(tmp_path, arch):
    """Those that share a key head stand together as published, and apart in GGUF files."""
    keys, tensors = parts(arch, "plain")
    paths = []
    for name, some, more in (("apart", hf_recurrent.spread(keys, tensors), {}),
                             ("together", tensors, {f"{arch}.ssm.grouped_heads": True}), ("wrong", tensors, {})):
        paths.append(tmp_path / f"{name}.gguf")
        paths[-1].write_bytes(gguf_file.write({**keys, **more}, some))
    apart, together, wrong = (x.astype(np.float64) for x in answers(paths, keys))
    assert distance(together, apart) < CLOSE < distance(wrong, apart)


SETTINGS = [
    ("Lfm2ForCausalLM", "lfm2", "plain", {"conv_bias": True}, "'conv_bias' is true"),
    ("Lfm2ForCausalLM", "lfm2", "plain", {"full_attn_idxs": [6]}, "'full_attn_idxs' has an element that is not a layer's number"),
    ("Lfm2ForCausalLM", "lfm2", "taps", {"layer_types": ["conv"]}, "'layer_types' has 1 elements for 6 layers"),
    ("Lfm2ForCausalLM", "lfm2", "taps", {"layer_types": ["conv", "mamba"] * 3}, "'layer_types' has 'mamba'"),
    ("Lfm2ForCausalLM", "lfm2", "plain", {"block_multiple_of": 96}, "ffn_gate.weight': has dimensions"),
    ("Lfm2MoeForCausalLM", "lfm2moe", "plain", {"num_experts": None}, "'num_experts' is missing"),
    ("Qwen3NextForCausalLM", "qwen3next", "grouped", {"linear_value_head_dim": 24}, "ssm.inner_size': is 144, but only 72"),
    ("Qwen3NextForCausalLM", "qwen3next", "grouped", {"attn_output_gate": False}, "'attn_output_gate' is false"),
    ("Qwen3_5ForConditionalGeneration", "qwen35", "plain", {"linear_num_key_heads": 3}, "must be a multiple of 'ssm.group_count', 3"),
]


@pytest.mark.parametrize("cls,arch,variant,change,expected", SETTINGS, ids=[f"{s[0]}-{next(iter(s[3]))}" for s in SETTINGS])
def test_settings_that_are_refused(tmp_path, cls, arch, variant, change, expected):
    keys, tensors = parts(arch, variant)
    _, folder = pair(tmp_path, cls, keys, tensors, **change)
    assert expected in refused(folder)


def test_text_part_that_is_missing(tmp_path):
    keys, tensors = parts("qwen35", "plain")
    _, folder = pair(tmp_path, "Qwen3_5ForConditionalGeneration", keys, tensors)
    path = folder / "config.json"
    path.write_text(path.read_text().replace("text_config", "other_config"))
    assert "'text_config' is missing" in refused(folder)
