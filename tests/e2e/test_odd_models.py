"""Files that are nearly a model: what they would make the engine leave out or read beyond is refused by name."""
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from quire import BIN

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "reference"))

import fixtures  # noqa: E402
import gguf_file  # noqa: E402


def zeros(*shape):
    """Shape as in numpy: the longest row last."""
    return "F32", shape, np.zeros(shape, np.float32).tobytes()


def latent_in_the_wrong_shape(keys, tensors):
    """Keys apart, but values with the keys in one tensor of the keys' width."""
    heads, rank, plain = tensors["blk.0.attn_k_b.weight"][1]
    n_value = tensors["blk.0.attn_v_b.weight"][1][1]
    del tensors["blk.0.attn_v_b.weight"]
    tensors["blk.0.attn_kv_b.weight"] = zeros(heads, rank + n_value, plain)


def latent_bias(keys, tensors):
    tensors["blk.0.attn_q.bias"] = zeros(tensors["blk.0.attn_q.weight"][1][0])


def gate_bias_without_a_gate(keys, tensors):
    tensors["blk.0.ffn_gate.bias"] = zeros(keys["gpt2.feed_forward_length"])


def doubled_bias_without_a_gate(keys, tensors):
    tensors["blk.1.ffn_up.bias"] = zeros(2 * keys["gpt2.feed_forward_length"])


def many_positions(keys, tensors):
    keys["gpt2.context_length"] = 0xFFFFFFFF


def half_a_gate(keys, tensors):
    """A gate of its own beside a tensor that has one too."""
    n_ff, n_embd = tensors["blk.0.ffn_up.weight"][1]
    tensors["blk.0.ffn_up.weight"] = zeros(2 * n_ff, n_embd)


def norms_in_one_layer(keys, tensors):
    for name in [n for n in tensors if n.startswith("blk.1.ffn_norm")]:
        del tensors[name]


def norm_bias_alone(keys, tensors):
    for name in [n for n in tensors if n.endswith("ffn_norm.weight")]:
        del tensors[name]


def groups_of_no_size(keys, tensors):
    keys["deepseek2.expert_group_count"] = 5


def groups_too_few(keys, tensors):
    """One group has three experts, and a token goes to four."""
    keys["deepseek2.expert_group_used_count"] = 1


def groups_unsaid(keys, tensors):
    del keys["deepseek2.expert_group_used_count"]


def groups_too_many(keys, tensors):
    keys["deepseek2.expert_group_count"] = 65


def ranking_without_labels(keys, tensors):
    keys["bert.pooling_type"] = 4


def names_for_other_labels(keys, tensors):
    keys["bert.classifier.output_labels"] = ["yes", "no"]


def labels_without_a_name_each(keys, tensors):
    keys["bert.classifier.output_labels"] = 3


def a_layer_of_another_width(keys, tensors):
    tensors["cls.weight"] = zeros(8, keys["bert.embedding_length"])


CASES = [
    ("bert", "plain", ranking_without_labels, "cls.output.weight"),
    ("bert", "labels", names_for_other_labels, "bert.classifier.output_labels"),
    ("bert", "labels", labels_without_a_name_each, "bert.classifier.output_labels"),
    ("bert", "rank", a_layer_of_another_width, "cls.weight"),
    ("deepseek2", "groups", groups_of_no_size, "deepseek2.expert_group_count"),
    ("deepseek2", "v3-groups", groups_too_few, "deepseek2.expert_group_count"),
    ("deepseek2", "groups", groups_unsaid, "deepseek2.expert_group_used_count"),
    ("deepseek2", "groups", groups_too_many, "deepseek2.expert_group_count"),
    ("deepseek2", "new", latent_in_the_wrong_shape, "blk.0.attn_v_b.weight"),
    ("deepseek2", "new", latent_bias, "blk.0.attn_q.bias"),
    ("gpt2", "plain", gate_bias_without_a_gate, "blk.0.ffn_gate.bias"),
    ("gpt2", "plain", doubled_bias_without_a_gate, "blk.1.ffn_up.bias"),
    ("gpt2", "plain", many_positions, "gpt2.context_length"),
    ("llama", "plain", half_a_gate, "blk.0.ffn_up.weight"),
    ("stablelm", "plain", norms_in_one_layer, "layer 1"),
    ("stablelm", "plain", norm_bias_alone, "layer 0"),
]


@pytest.mark.parametrize("arch, variant, change, named", CASES, ids=[c[2].__name__ for c in CASES])
def test_refused(tmp_path, arch, variant, change, named):
    keys, tensors = gguf_file.read_parts(fixtures.make(arch, variant, "F32"))
    change(keys, tensors)
    path = tmp_path / "odd.gguf"
    path.write_bytes(gguf_file.write(keys, tensors))
    for command, said in ((["plan", "--model", path], "quire: "), (["inspect", path], "quire: cannot be served: ")):
        run = subprocess.run([BIN, *command], capture_output=True, text=True, timeout=60, check=False)
        assert run.returncode == 1, run.stdout + run.stderr
        assert run.stderr.startswith(said) and run.stderr.count("\n") == 1 and named in run.stderr


def without_norm(keys, tensors):
    del tensors["blk.1.ffn_norm.weight"]


def other_shape(keys, tensors):
    kind, shape, data = tensors["blk.1.attn_q.weight"]
    tensors["blk.1.attn_q.weight"] = kind, (shape[0] // 2, shape[1]), data[:len(data) // 2]


def other_architecture(keys, tensors):
    keys["general.architecture"] = "mamba"


def no_layers(keys, tensors):
    del keys["llama.block_count"]


def tokens_too_few(keys, tensors):
    keys["tokenizer.ggml.tokens"] = keys["tokenizer.ggml.tokens"][:-1]


def other_tokenizer(keys, tensors):
    keys["tokenizer.ggml.model"] = "rwkv"


def one_more(keys, tensors):
    tensors["blk.0.ssm_a"] = tensors["blk.0.attn_norm.weight"]


def heads_that_do_not_share(keys, tensors):
    keys["llama.attention.head_count"] = 5


NOT_SERVED = [(without_norm, "tensor 'blk.1.ffn_norm.weight' is missing"), (other_shape, "tensor 'blk.1.attn_q.weight': has dimensions"),
              (other_architecture, "mamba"), (no_layers, "llama.block_count"), (tokens_too_few, "token"), (other_tokenizer, "rwkv"),
              (one_more, "blk.0.ssm_a"), (heads_that_do_not_share, "5 heads cannot share 2 KV heads")]


@pytest.mark.parametrize("change, said", NOT_SERVED, ids=[c[0].__name__ for c in NOT_SERVED])
def test_inspect_says_why_not(tmp_path, change, said):
    """What is in the file is printed all the same, then one line, which a load would say too."""
    keys, tensors = gguf_file.read_parts(fixtures.make("llama", "plain", "F16"))
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf_file.write(keys, tensors))
    good = subprocess.run([BIN, "inspect", path], capture_output=True, text=True, timeout=60, check=False)
    assert good.returncode == 0 and good.stdout.endswith("parameters\ncan be served\n") and good.stderr == ""
    change(keys, tensors)
    path.write_bytes(gguf_file.write(keys, tensors))
    run = subprocess.run([BIN, "inspect", path], capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 1 and run.stdout.endswith("parameters\n") and run.stderr.count("\n") == 1
    assert run.stderr.startswith(f"quire: cannot be served: {path}: ") and said in run.stderr
    load = subprocess.run([BIN, "generate", "--model", path, "--prompt", "a", "--log-level", "off"], capture_output=True, text=True,
                          timeout=60, check=False)
    assert load.returncode == 1 and load.stderr == run.stderr.replace("cannot be served: ", "")
