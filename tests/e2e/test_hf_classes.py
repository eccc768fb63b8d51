"""Folders of every class that is read: the same bits as the GGUF file of the same model; and what is refused."""
import json
import pathlib
import re
import struct
import sys

import numpy as np
import pytest

import hf_classes
import hf_folder
import hf_recurrent
from test_architectures import engine, random_ids
from test_safetensors import quire
from test_split import serve

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "reference"))

import fixtures  # noqa: E402
import gguf_file  # noqa: E402

CASES = [("MistralForCausalLM", "llama", "plain"), ("MixtralForCausalLM", "llama", "moe"),
         ("Qwen2MoeForCausalLM", "qwen2moe", "plain"), ("Qwen3MoeForCausalLM", "qwen3moe", "plain"),
         ("Qwen3MoeForCausalLM", "qwen3moe", "many"), ("GemmaForCausalLM", "gemma", "plain"),
         ("Gemma2ForCausalLM", "gemma2", "plain"), ("Gemma2ForCausalLM", "gemma2", "defaults"),
         ("Gemma2ForCausalLM", "gemma2", "27b"), ("Gemma3ForCausalLM", "gemma3", "plain"),
         ("Gemma3ForCausalLM", "gemma3", "keys"), ("Gemma3ForCausalLM", "gemma3", "27b"),
         ("Phi3ForCausalLM", "phi3", "plain"), ("Phi3ForCausalLM", "phi3", "window"),
         ("SmolLM3ForCausalLM", "smollm3", "plain"), ("GraniteForCausalLM", "granite", "plain"),
         ("GraniteForCausalLM", "granite", "biases"), ("GraniteMoeForCausalLM", "granitemoe", "plain"),
         ("CohereForCausalLM", "command-r", "plain"), ("CohereForCausalLM", "command-r", "norms"),
         ("Cohere2ForCausalLM", "cohere2", "plain"), ("Olmo2ForCausalLM", "olmo2", "plain"),
         ("Olmo3ForCausalLM", "olmo2", "window"), ("InternLM2ForCausalLM", "internlm2", "plain"),
         ("Glm4ForCausalLM", "glm4", "plain"), ("SeedOssForCausalLM", "seed_oss", "plain"),
         ("Exaone4ForCausalLM", "exaone4", "global"), ("Ernie4_5ForCausalLM", "ernie4_5", "plain"),
         ("ExaoneForCausalLM", "exaone", "plain"), ("StableLmForCausalLM", "stablelm", "plain"),
         ("StableLmForCausalLM", "stablelm", "biases"), ("StableLmForCausalLM", "stablelm", "12b"),
         ("Starcoder2ForCausalLM", "starcoder2", "plain"), ("Starcoder2ForCausalLM", "starcoder2", "tied"),
         ("PhiForCausalLM", "phi2", "plain"), ("GPTNeoXForCausalLM", "gptneox", "parallel"),
         ("GPTNeoXForCausalLM", "gptneox", "sequential"), ("GPT2LMHeadModel", "gpt2", "plain"),
         ("GPT2LMHeadModel", "gpt2", "tied"), ("GPTBigCodeForCausalLM", "starcoder", "plain"),
         ("FalconForCausalLM", "falcon", "7b"), ("FalconForCausalLM", "falcon", "40b"),
         ("DeepseekV2ForCausalLM", "deepseek2", "old"), ("DeepseekV2ForCausalLM", "deepseek2", "yarn-old"),
         ("DeepseekV2ForCausalLM", "deepseek2", "q-lora"), ("DeepseekV2ForCausalLM", "deepseek2", "groups"),
         ("DeepseekV3ForCausalLM", "deepseek2", "v3"), ("DeepseekV3ForCausalLM", "deepseek2", "v3-groups")]
NAMES = ["-".join((c[0].removesuffix("ForCausalLM"), c[2])) for c in CASES]


def parts(arch, variant, kind="F32"):
    return gguf_file.read_parts(fixtures.make(arch, variant, kind))


def pair(tmp_path, cls, keys, tensors, **changes):
    """The GGUF file and the folder, which are to answer alike."""
    folder, path = tmp_path / "hf", tmp_path / "m.gguf"
    keys, tensors = hf_classes.make(cls, folder, keys, tensors, **changes)
    path.write_bytes(gguf_file.write(keys, tensors))
    return path, folder


def answers(files, keys, n=60, *settings):
    ids = random_ids({"token_embd.weight": np.empty((len(hf_folder.tokens_of(keys)), 1))}, n)
    return engine(files, ids, 0, False, *settings)


@pytest.mark.parametrize("kind", ["F32", "F16"])
@pytest.mark.parametrize("cls,arch,variant", CASES, ids=NAMES)
def test_same_bits(tmp_path, cls, arch, variant, kind):
    keys, tensors = parts(arch, variant, kind)
    a, b = answers(pair(tmp_path, cls, keys, tensors), keys)
    assert a.tobytes() == b.tobytes()


def test_gpt_oss(tmp_path):
    """Blocks of MXFP4 as they are published, whose rows of gates and ups stand in turn."""
    keys, tensors = parts("gpt-oss", "fused", "Q8_0")
    codes = np.random.default_rng(3)
    for n, t in list(tensors.items()):
        if "_exps.weight" in n:
            blocks = codes.integers(0, 256, (*t[1][:2], t[1][2] // 32, 17), "u1")
            blocks[..., 0] = codes.integers(120, 125, blocks.shape[:-1])
            tensors[n] = ("MXFP4", t[1], blocks.tobytes())
        elif t[0] == "Q8_0":
            tensors[n] = hf_classes.tensor("F32", gguf_file.to_array(*t).astype("f4"))
    a, b = answers(pair(tmp_path, "GptOssForCausalLM", keys, tensors), keys)
    assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("kind", ["F32", "F16"])
def test_gpt_oss_that_is_not_quantised(tmp_path, kind):
    """Experts as [inputs][outputs], whose columns of gates and ups stand in turn."""
    keys, tensors = parts("gpt-oss", "fused", kind)
    a, b = answers(pair(tmp_path, "GptOssForCausalLM", keys, tensors, quantization_config=None), keys)
    assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("n_ctx", [fixtures.SHORT_CTX, fixtures.N_CTX])
def test_longrope(tmp_path, n_ctx):
    """The factors for the context that is served; the magnitude follows from both contexts."""
    keys, tensors = parts("phi3", "longrope")
    long, short = keys["phi3.context_length"], keys["phi3.rope.scaling.original_context_length"]
    keys["phi3.rope.scaling.attn_factor"] = float(np.float32(np.sqrt(1 + np.log(long / short) / np.log(short))))
    files = pair(tmp_path, "Phi3ForCausalLM", keys, tensors)
    ids = random_ids({"token_embd.weight": np.empty((37, 1))}, 30)
    a, b = engine(files, ids, n_ctx, False)
    assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("cls,arch,variant", [("MixtralForCausalLM", "llama", "moe"), ("GPT2LMHeadModel", "gpt2", "plain"),
                                              ("GPTNeoXForCausalLM", "gptneox", "parallel")])
def test_made_rows_are_quantised(tmp_path, cls, arch, variant):
    """load_type q8_0, of rows that are made: what it gives of the GGUF file's."""
    keys, tensors = parts(arch, variant, "F16")
    files = pair(tmp_path, cls, keys, tensors)
    plain, _ = answers(files, keys)
    a, b = answers(files, keys, 60, "--load-type", "q8_0")
    assert a.tobytes() == b.tobytes() != plain.tobytes()


def test_deepseek_without_groups(tmp_path):
    """V2 Lite's way to choose experts, whatever the file says of groups."""
    keys, tensors = parts("deepseek2", "old")
    a, b = answers(pair(tmp_path, "DeepseekV2ForCausalLM", keys, tensors, topk_method="greedy", n_group=7, topk_group=2), keys)
    assert a.tobytes() == b.tobytes()


def test_window_of_mistral(tmp_path):
    keys, tensors = parts("llama", "plain")
    files = pair(tmp_path, "MistralForCausalLM", {**keys, "llama.attention.sliding_window": 8}, tensors)
    a, b = answers(files, keys)
    (tmp_path / "wide").mkdir()
    wide, _ = answers(pair(tmp_path / "wide", "MistralForCausalLM", keys, tensors), keys)
    assert a.tobytes() == b.tobytes() != wide.tobytes()


@pytest.mark.parametrize("pattern,types", [
    ("LLLG", None), ("LLLG", "full"), (4, None), ("LG", None), ("LGGL", None), ("L", None), (None, None), ("LLLG", "no window")])
def test_pattern_of_exaone(tmp_path, pattern, types):
    """A text of L and G, or a number of layers; layer_types says it instead, and without a window there is none."""
    keys, tensors = parts("exaone4", "window")
    n = keys["exaone4.block_count"]
    local = [(pattern or "LLLG")[i % len(pattern or "LLLG")] == "L" and i != n - 1 if isinstance(pattern or "", str) else (i + 1) % pattern != 0
             for i in range(n)]
    has_window = types != "no window"
    said = {"sliding_window": 8 if has_window else None, "sliding_window_pattern": pattern, "layer_types": None}
    if types == "full":
        said["layer_types"], local = ["full_attention"] * n, [False] * n
    told = {"sliding_window": 8, "sliding_window_pattern": None,
            "layer_types": ["sliding_attention" if yes and has_window else "full_attention" for yes in local]}
    if not has_window:
        told["sliding_window"] = None
    (tmp_path / "told").mkdir()
    files = [pair(d, "Exaone4ForCausalLM", keys, tensors, **s)[1] for d, s in ((tmp_path, said), (tmp_path / "told", told))]
    a, b = answers(files, keys)
    assert a.tobytes() == b.tobytes()


def test_pattern_that_is_none(tmp_path):
    keys, tensors = parts("exaone4", "window")
    _, folder = pair(tmp_path, "Exaone4ForCausalLM", keys, tensors, sliding_window=8, sliding_window_pattern="LLXG", layer_types=None)
    assert "'sliding_window_pattern' is 'LLXG', but only a number and a text of L and G are supported" in quire("inspect", folder, status=1)[1]


@pytest.mark.parametrize("window,wanted", [("absent", 4096), (None, 0), (5, 5)])
def test_window_that_is_not_said(tmp_path, window, wanted):
    """An absent sliding_window is what the class has by default, null is none."""
    keys, tensors = parts("llama", "plain")
    _, folder = pair(tmp_path, "MistralForCausalLM", keys, tensors)
    data = json.loads((folder / "config.json").read_text())
    data.pop("sliding_window")
    (folder / "config.json").write_text(json.dumps(data if window == "absent" else {**data, "sliding_window": window}))
    assert re.search(rf"llama\.attention\.sliding_window\s+.*\b{wanted}\b", quire("inspect", folder)[0])


def test_weight_cache(tmp_path):
    """A folder whose numbers stay and whose making differs is packed again."""
    keys, tensors = parts("gptneox", "parallel")
    _, folder = pair(tmp_path, "GPTNeoXForCausalLM", keys, tensors)
    first, log = serve(folder)
    assert "weights=packed" in log
    second, log = serve(folder)
    assert first == second and "weights=cached" in log
    data = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**data, "rotary_emb_base": 500}))
    _, log = serve(folder)
    assert "weights=packed" in log


def test_inspect(tmp_path):
    keys, tensors = parts("llama", "moe", "F16")
    _, folder = pair(tmp_path, "MixtralForCausalLM", keys, tensors)
    out, _ = quire("inspect", folder)
    assert re.search(r"blk\.1\.ffn_down_exps\.weight\s+F16\s+160 x 96 x 5", out), out


# ---- what is refused ----

def refused(folder):
    _, err = quire("generate", "--model", folder, "--prompt", "a", "--max-tokens", 1, "--log-level", "off", status=1)
    assert err.count("\n") == 1 and str(folder) in err
    return err


def test_another_class(tmp_path):
    keys, tensors = parts("llama", "plain")
    _, folder = pair(tmp_path, "MistralForCausalLM", keys, tensors, architectures=["OtherForCausalLM"])
    assert "architecture 'OtherForCausalLM' is not supported" in refused(folder)


def test_every_class_is_tested():
    """core/model/README.md lists those that are read, and all of them are here or beside."""
    root = pathlib.Path(__file__).parent.parent.parent
    table = set(re.findall(r'^    \{"(\w+)", "[\w-]+", (?:MODEL|TEXT|GPT|\.root)', (root / "core/formats/hf/classes.c").read_text(), re.M))
    beside = {"LlamaForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM", "BertModel", "GptOssForCausalLM",
              *hf_recurrent.NAMES, "BertForSequenceClassification", "XLMRobertaModel", "XLMRobertaForSequenceClassification", "NomicBertModel", "ModernBertModel",
              "BertForTokenClassification", "RobertaForTokenClassification", "XLMRobertaForTokenClassification",
              "ModernBertForTokenClassification", "HF_ColBERT"}
    assert table == {c[0] for c in CASES} | beside
    page = (root / "core/model/README.md").read_text()
    assert {c for c in table if f"`{c}`" in page} == table


SETTINGS = [
    ("GptOssForCausalLM", "gpt-oss", "fused", {"rope_scaling": None, "quantization_config": None}, "'rope_scaling' is missing"),
    ("GptOssForCausalLM", "gpt-oss", "fused", {"swiglu_alpha": 1.5, "quantization_config": None}, "'swiglu_alpha' is 1.5"),
    ("MistralForCausalLM", "llama", "plain", {"hidden_act": "gelu"}, "'hidden_act' is 'gelu'"),
    ("MistralForCausalLM", "llama", "plain", {"sliding_window": -1}, "'sliding_window' is not a whole number"),
    ("MixtralForCausalLM", "llama", "moe", {"num_local_experts": None}, "'num_local_experts' is missing"),
    ("MixtralForCausalLM", "llama", "moe", {"num_local_experts": 4}, "ffn_gate_inp.weight': has dimensions"),
    ("Qwen3MoeForCausalLM", "qwen3moe", "plain", {"mlp_only_layers": [1]}, "'mlp_only_layers' names layers"),
    ("Qwen3MoeForCausalLM", "qwen3moe", "plain", {"decoder_sparse_step": 2}, "'decoder_sparse_step' is 2"),
    ("GemmaForCausalLM", "gemma", "plain", {"hidden_activation": "gelu"}, "'hidden_activation' is 'gelu'"),
    ("Gemma2ForCausalLM", "gemma2", "plain", {"hidden_activation": "gelu"}, "'hidden_activation' is 'gelu'"),
    ("Gemma3ForCausalLM", "gemma3", "plain", {"use_bidirectional_attention": True}, "'use_bidirectional_attention' is true"),
    ("Gemma3ForCausalLM", "gemma3", "keys", {"layer_types": ["full_attention"]}, "'layer_types' has 1 elements for 7 layers"),
    ("Gemma3ForCausalLM", "gemma3", "keys", {"layer_types": ["chunked_attention"] * 7}, "'layer_types' has 'chunked_attention'"),
    ("SmolLM3ForCausalLM", "smollm3", "plain", {"no_rope_layers": [1] * 5}, "'no_rope_layers' must be 0 for every fourth"),
    ("Phi3ForCausalLM", "phi3", "longrope", {"rope_scaling": {"type": "longrope", "long_factor": [1.0], "short_factor": []}},
     "'long_factor' of rope is not a list of 4 numbers"),
    ("Phi3ForCausalLM", "phi3", "plain", {"partial_rotary_factor": 0.01}, "numbers of a head turn"),
    ("CohereForCausalLM", "command-r", "plain", {"use_parallel_block": False}, "'use_parallel_block' is false"),
    ("StableLmForCausalLM", "stablelm", "plain", {"use_parallel_residual": True},
     "post_attention_layernorm.bias': is not supported for this model"),
    ("StableLmForCausalLM", "stablelm", "12b", {"use_parallel_residual": False}, "'use_parallel_residual' is not true, but there is no 'post_attention_layernorm'"),
    ("PhiForCausalLM", "phi2", "plain", {"qk_layernorm": True}, "'qk_layernorm' is true"),
    ("GPTNeoXForCausalLM", "gptneox", "parallel", {"hidden_act": "gelu_fast"}, "'hidden_act' is 'gelu_fast'"),
    ("GPTNeoXForCausalLM", "gptneox", "parallel", {"num_attention_heads": 4}, "does not fit the heads"),
    ("GPT2LMHeadModel", "gpt2", "plain", {"scale_attn_by_inverse_layer_idx": True}, "'scale_attn_by_inverse_layer_idx' is true"),
    ("GPTBigCodeForCausalLM", "starcoder", "plain", {"multi_query": False}, "'multi_query' is false"),
    ("FalconForCausalLM", "falcon", "40b", {"num_kv_heads": 0}, "'num_kv_heads' is not a whole number from 1"),
    ("FalconForCausalLM", "falcon", "7b", {"alibi": True}, "'alibi' is true"),
    ("DeepseekV2ForCausalLM", "deepseek2", "old", {"topk_method": "noaux_tc"}, "'topk_method' is 'noaux_tc'"),
    ("DeepseekV3ForCausalLM", "deepseek2", "v3", {"scoring_func": "softmax"}, "'scoring_func' is 'softmax'"),
    ("DeepseekV2ForCausalLM", "deepseek2", "old", {"qk_rope_head_dim": None}, "'qk_rope_head_dim' is missing"),
    ("DeepseekV2ForCausalLM", "deepseek2", "old", {"rope_scaling": {"type": "yarn", "factor": 2, "mscale": 1.0,
                                                                    "mscale_all_dim": 0.5}}, "'mscale' of rope is 1"),
    ("Olmo2ForCausalLM", "olmo2", "plain", {"rope_scaling": {"type": "yarn", "factor": 2, "truncate": False}},
     "'truncate' of rope is false"),
]


@pytest.mark.parametrize("cls,arch,variant,change,expected", SETTINGS, ids=[f"{s[0]}-{next(iter(s[3]))}" for s in SETTINGS])
def test_settings_that_are_refused(tmp_path, cls, arch, variant, change, expected):
    keys, tensors = parts(arch, variant)
    _, folder = pair(tmp_path, cls, keys, tensors, **change)
    assert expected in refused(folder)


def change_head(folder, change):
    path = folder / "model.safetensors"
    data = path.read_bytes()
    n, = struct.unpack_from("<Q", data)
    head = json.loads(data[8:8 + n])
    change(head)
    path.write_bytes(hf_folder.with_head(head, data[8 + n:]))


EXPERT = "model.layers.1.block_sparse_moe.experts.{}.w2.weight"
HEADS = {
    "missing": (lambda h: h.pop(EXPERT.format(1)), EXPERT.format(2) + "': of the experts before it one is missing"),
    "last": (lambda h: h.pop(EXPERT.format(4)), "blk.1.ffn_down_exps.weight': has dimensions"),
    "more": (lambda h: h.update({EXPERT.format(7): h.pop(EXPERT.format(4))}), "of the experts before it one is missing"),
    "type": (lambda h: h[EXPERT.format(3)].update(dtype="F16", shape=[72, 176]), "has not the shape and type of the first"),
    "name": (lambda h: h.update({EXPERT.format("03"): h.pop(EXPERT.format(4))}), "occurs twice"),
    "word": (lambda h: h.update({EXPERT.format("x"): h.pop(EXPERT.format(4))}), "is not supported for this model"),
    "number": (lambda h: h.update({EXPERT.format("999999"): h.pop(EXPERT.format(4))}), "is not supported for this model"),
    "overlap": (lambda h: h[EXPERT.format(3)].update(data_offsets=h[EXPERT.format(2)]["data_offsets"]), "overlaps tensor"),
    "outside": (lambda h: h[EXPERT.format(3)].update(data_offsets=[2 ** 40, 2 ** 40 + 72 * 88 * 4]), "past the end"),
}


@pytest.mark.parametrize("name", list(HEADS))
def test_experts_that_do_not_fit(tmp_path, name):
    keys, tensors = parts("llama", "moe")
    _, folder = pair(tmp_path, "MixtralForCausalLM", keys, tensors)
    change, expected = HEADS[name]
    change_head(folder, change)
    assert expected in refused(folder)


def test_layers_behind_the_last(tmp_path):
    """DeepSeek 3's layers that predict further tokens take no part; another class has none."""
    keys, tensors = parts("deepseek2", "v3")
    path, folder = pair(tmp_path, "DeepseekV3ForCausalLM", keys, tensors)
    change_head(folder, lambda h: h.update({"model.layers.3.shared_head.norm.weight": h.pop("model.norm.weight")}))
    assert "'output_norm.weight' is missing" in refused(folder)


def test_numbers_that_are_not_finite(tmp_path):
    keys, tensors = parts("llama", "moe")
    kind, shape, data = tensors["blk.1.ffn_up_exps.weight"]
    tensors["blk.1.ffn_up_exps.weight"] = (kind, shape, data[:-4] + np.array([np.inf], "<f4").tobytes())
    _, folder = pair(tmp_path, "MixtralForCausalLM", keys, tensors)
    assert "tensor 'blk.1.ffn_up_exps.weight': contains a number that is not finite" in refused(folder)
