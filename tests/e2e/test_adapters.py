"""LoRA adapters beside the float64 reference of the merged weights; files that are no adapters."""
import json
import pathlib
import sys

import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "reference"))

import adapter_files  # noqa: E402
import fixtures  # noqa: E402
import forward  # noqa: E402
import gguf_file  # noqa: E402
import hf_classes  # noqa: E402
import hf_folder  # noqa: E402
from rounding import as_f16  # noqa: E402
from test_architectures import CLOSE, CLOSE_NLL, distance, distance_to, engine, random_ids  # noqa: E402

N_TOKENS = 40
TAKES = ("--adapters", "any=/dev/null")  # settings that make room for adapters; the file is named apart
CASES = [("llama", "plain"), ("llama", "fused"), ("llama", "biases"), ("qwen2", "plain"), ("qwen3", "plain"),
         ("gemma3", "plain"), ("phi3", "plain"), ("gpt2", "plain"), ("qwen2moe", "plain"), ("bert", "plain"),
         ("nomic-bert", "plain")]


def base(tmp_path, arch, variant="plain", kind="F32"):
    data = fixtures.make(arch, variant, kind)
    path = tmp_path / "model.gguf"
    path.write_bytes(data)
    return path, gguf_file.read(data)


def run(path, ids, adapter, *settings, hidden=False):
    return engine([path], ids, 0, hidden, *TAKES, "--adapter", adapter, *settings)[0]


@pytest.mark.parametrize("rank", [3, 16, 40])
@pytest.mark.parametrize("arch,variant", CASES, ids=["-".join(c) for c in CASES])
def test_like_merged(tmp_path, arch, variant, rank):
    path, m = base(tmp_path, arch, variant)
    hidden = arch in forward.EMBEDDERS
    adapter = adapter_files.make(m, rank)
    file = tmp_path / "a.gguf"
    file.write_bytes(adapter_files.gguf(arch, adapter, alpha=1.5 * rank))
    ids = random_ids(m, N_TOKENS)
    for permille in (1000, -700):
        wanted = adapter_files.merged(m, adapter, 1.5 * rank, permille / 1000)
        expected = forward.forward(wanted, ids, 0, as_f16)
        found = run(path, ids, file, "--adapter-permille", permille, hidden=hidden)
        assert distance_to(wanted, found, expected) < CLOSE
        assert distance_to(m, found, forward.forward(m, ids, 0, as_f16)) > 20 * CLOSE  # it is felt


@pytest.mark.parametrize("part", ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"])
def test_each_target_alone(tmp_path, part):
    path, m = base(tmp_path, "llama")
    adapter = adapter_files.make(m, 8, only=f"blk.1.{part}.")
    assert len(adapter) == 1
    file = tmp_path / "a.gguf"
    file.write_bytes(adapter_files.gguf("llama", adapter, alpha=64))
    ids = random_ids(m, N_TOKENS)
    wanted = adapter_files.merged(m, adapter, 64)
    found = run(path, ids, file)
    assert distance_to(wanted, found, forward.forward(wanted, ids, 0, as_f16)) < CLOSE
    assert distance_to(m, found, forward.forward(m, ids, 0, as_f16)) > 5 * CLOSE


@pytest.mark.parametrize("kind", ["F32", "F16", "BF16", "Q8_0"])
def test_same_bits(tmp_path, kind):
    """However the text is cut, with more threads, and by the definitions of the kernels. As of Q8_0
    take floats of the one model, and 8-bit rows of the other."""
    for weights in ("F16" if kind == "Q8_0" else "F32", "Q8_0"):  # F32 ones have rows that are no whole blocks
        path, m = base(tmp_path, "llama", kind=weights)
        file = tmp_path / "a.gguf"
        file.write_bytes(adapter_files.gguf("llama", adapter_files.make(m, 20, kind), 32, kind))
        ids = random_ids(m, 100)
        rows = [run(path, ids, file, *settings).tobytes() for settings in
                (["--chunk", 32], ["--chunk", 7], ["--chunk", 100, "--threads", 3], ["--chunk", 32, "--isa", "scalar"])]
        assert len(set(rows)) == 1, [r == rows[0] for r in rows]


@pytest.mark.parametrize("arch", ["llama", "phi3", "qwen2moe"])
def test_as_of_8_bits(tmp_path, arch):
    """A file whose As are Q8_0: their numbers exactly where the model takes floats, and where it takes
    8-bit rows the same rows. A model that is quantised as it is loaded makes such As itself."""
    path, m = base(tmp_path, arch, kind="F16")
    adapter = adapter_files.make(m, 8, "Q8_0")
    quantised, in_floats, half = (tmp_path / f"{kind}.gguf" for kind in ("Q8_0", "F32", "F16"))
    for file in (quantised, in_floats, half):
        file.write_bytes(adapter_files.gguf(arch, adapter, 12, file.stem))
    ids = random_ids(m, N_TOKENS)
    assert run(path, ids, quantised).tobytes() == run(path, ids, in_floats).tobytes()
    path, m = base(tmp_path, arch, kind="Q8_0")
    ids = random_ids(m, 300)
    expected = forward.mean_nll(forward.forward(adapter_files.merged(m, adapter, 12), ids, 0, as_f16), ids)
    without, = engine([path], ids, 0, False, *TAKES)
    rows = {}
    for name, file, settings in (("file", quantised, ()), ("floats", in_floats, ()), ("half", half, ()),
                                 ("loaded", half, ("--load-type", "q8_0"))):
        found = run(path, ids, file, *settings)
        assert abs(forward.mean_nll(found.astype(np.float64), ids) - expected) < CLOSE_NLL, name
        assert distance(found, without) > 0.1  # it is felt
        rows[name] = found.tobytes()
    assert rows["file"] != rows["floats"] and rows["loaded"] != rows["half"]  # floats stay floats


def test_alpha_of_zero_is_no_factor(tmp_path):
    path, m = base(tmp_path, "llama")
    adapter = adapter_files.make(m, 8)
    ids = random_ids(m, N_TOKENS)
    rows = []
    for alpha in (0, 8):
        file = tmp_path / f"{alpha}.gguf"
        file.write_bytes(adapter_files.gguf("llama", adapter, alpha))
        rows.append(run(path, ids, file).tobytes())
    assert rows[0] == rows[1]


# ---- PEFT ----

@pytest.mark.parametrize("arch,paired", [("llama", True), ("qwen2", False), ("phi3", False)])
def test_peft_like_gguf(tmp_path, arch, paired):
    path, m = base(tmp_path, arch)
    adapter = adapter_files.make(m, 8)
    file = tmp_path / "a.gguf"
    file.write_bytes(adapter_files.gguf(arch, adapter, 16))
    head = m.key("attention.key_length", m.key("embedding_length") // m.key("attention.head_count"))
    folder = adapter_files.peft(tmp_path / "peft", adapter, 16,
                                head=head if paired else 0)
    ids = random_ids(m, N_TOKENS)
    assert run(path, ids, folder).tobytes() == run(path, ids, file).tobytes()


NOMIC = {"attn_qkv": "attn.Wqkv", "attn_output": "attn.out_proj", "ffn_up": "mlp.fc11", "ffn_gate": "mlp.fc12", "ffn_down": "mlp.fc2"}
MODERN_BERT = {"attn_qkv": "attn.Wqkv", "attn_output": "attn.Wo", "ffn_up": "mlp.Wi", "ffn_down": "mlp.Wo"}
CLASSES = [("GPT2LMHeadModel", "gpt2"), ("GPTBigCodeForCausalLM", "starcoder"), ("ExaoneForCausalLM", "exaone"),
           ("StableLmForCausalLM", "stablelm"), ("Starcoder2ForCausalLM", "starcoder2"), ("PhiForCausalLM", "phi2"),
           ("CohereForCausalLM", "command-r"), ("Olmo2ForCausalLM", "olmo2"), ("Gemma2ForCausalLM", "gemma2"),
           ("GraniteForCausalLM", "granite"), ("Qwen2MoeForCausalLM", "qwen2moe"), ("Phi3ForCausalLM", "phi3"),
           ("InternLM2ForCausalLM", "internlm2"), ("GPTNeoXForCausalLM", "gptneox"), ("FalconForCausalLM", "falcon"),
           (NOMIC, "nomic-bert"), (MODERN_BERT, "modern-bert")]
TURNED = ("granite",)  # rows of q and k are in pairs in GGUF files
INTERLEAVED = ("internlm2", "gptneox", "falcon")  # q, k and v of each head together
VARIANTS = {"gptneox": "parallel", "falcon": "7b"}


def module_of(cls):
    """The name of a matrix in a class's checkpoint."""
    def module(name):
        _, layer, part, _ = name.split(".")
        if isinstance(cls, dict):
            return f"{'encoder.layers' if cls is NOMIC else 'layers'}.{layer}.{cls[part]}"
        return hf_classes.rename(hf_classes.NAMES.get(cls, hf_classes.LLAMA), name).removesuffix(".weight")
    return module


@pytest.mark.parametrize("cls,arch", CLASSES, ids=[c[1] for c in CLASSES])
def test_modules_of_each_class(tmp_path, cls, arch):
    """The same adapter by the names of its class and by those of GGUF files."""
    path, m = base(tmp_path, arch, VARIANTS.get(arch, "plain"))
    hidden = arch in forward.EMBEDDERS
    adapter = adapter_files.make(m, 8)
    if arch in INTERLEAVED:
        adapter = {n: pair for n, pair in adapter.items() if n.split(".")[2] not in ("attn_q", "attn_k", "attn_v", "attn_qkv")}
    assert len(adapter) >= 3
    file = tmp_path / "a.gguf"
    file.write_bytes(adapter_files.gguf(arch, adapter, 16))
    head = m.key("attention.key_length", m.key("embedding_length") // m.key("attention.head_count"))
    folder = adapter_files.peft(tmp_path / "peft", adapter, 16, head=head if arch in TURNED else 0, module=module_of(cls),
                                fan_in_fan_out=arch == "gpt2")
    ids = random_ids(m, N_TOKENS)
    assert run(path, ids, folder, hidden=hidden).tobytes() == run(path, ids, file, hidden=hidden).tobytes()


@pytest.mark.parametrize("module", ["gpt_neox.layers.0.attention.query_key_value", "transformer.h.0.self_attention.query_key_value",
                                    "model.layers.0.attention.wqkv", "model.layers.0.mlp.experts.3.up_proj",
                                    "model.layers.0.self_attn.other_proj", "model.layers.123456.self_attn.q_proj", "model.layers.x.self_attn.q_proj"])
def test_modules_that_are_no_rename(tmp_path, module):
    path, m = base(tmp_path, "qwen2")
    folder = adapter_files.peft(tmp_path / "peft", adapter_files.make(m, 4, only="blk.0.attn_q."), 8, module=lambda _: module)
    assert f"{module}.lora_A.weight': is not a LoRA pair of a layer's projections" in refusal(path, m, folder)


def test_both_on_a_folder_of_safetensors(tmp_path):
    """Its rows are in the order that they are published in, those of a GGUF adapter are not."""
    keys, tensors = gguf_file.read_parts(fixtures.make("llama", "plain", "F32"))
    m = gguf_file.read(gguf_file.write(keys, tensors))
    head = m.key("attention.key_length")
    published = dict(tensors)
    for name, (kind, shape, data) in tensors.items():
        if name.endswith(("attn_q.weight", "attn_k.weight")):
            x = adapter_files.in_halves(np.frombuffer(data, "<f4").reshape(shape), head)
            published[name] = kind, shape, x.tobytes()
    folder = hf_folder.write(tmp_path / "hf", keys, published, tie_word_embeddings="output.weight" not in tensors)
    path = tmp_path / "model.gguf"
    path.write_bytes(gguf_file.write(keys, tensors))
    adapter = adapter_files.make(m, 8)
    file = tmp_path / "a.gguf"
    file.write_bytes(adapter_files.gguf("llama", adapter, 16))
    peft = adapter_files.peft(tmp_path / "peft", adapter, 16, head=head)
    ids = random_ids(m, N_TOKENS)
    rows = {run(model, ids, a).tobytes() for model in (path, folder) for a in (file, peft)}
    # Scores sum a head's products in another order where its rows are in another order.
    on_gguf, on_folder = (run(model, ids, file) for model in (path, folder))
    assert len(rows) == 2 and np.abs(on_gguf - on_folder).max() < 1e-4 * np.abs(on_gguf).max()
    assert run(folder, ids, peft).tobytes() == on_folder.tobytes()


def test_rank_stabilised(tmp_path):
    """alpha / sqrt(rank) in place of alpha / rank."""
    path, m = base(tmp_path, "qwen2")
    adapter = adapter_files.make(m, 16)
    ids = random_ids(m, N_TOKENS)
    plain = adapter_files.peft(tmp_path / "plain", adapter, 32)
    stabilised = adapter_files.peft(tmp_path / "rs", adapter, 8, use_rslora=True)
    assert run(path, ids, plain).tobytes() == run(path, ids, stabilised).tobytes()


@pytest.mark.parametrize("config,named", [
    ({"peft_type": "IA3"}, "'peft_type' is 'IA3'"), ({"use_dora": True}, "'use_dora' is true"),
    ({"bias": "all"}, "'bias' is 'all'"), ({"lora_bias": True}, "'lora_bias' is true"),
    ({"modules_to_save": ["lm_head"]}, "'modules_to_save' is not empty"),
    ({"alpha_pattern": {"q_proj": 4}}, "'alpha_pattern' is not empty"),
    ({"init_lora_weights": "pissa_niter_4"}, "'init_lora_weights' is 'pissa_niter_4'"),
    ({"use_rslora": True, "rank_pattern": {"q_proj": 4}}, "'use_rslora' with a 'rank_pattern'"),
    ({"r": 0}, "'r' "), ({"lora_alpha": "x"}, "'lora_alpha' ")])
def test_peft_that_would_be_something_else(tmp_path, config, named):
    path, m = base(tmp_path, "qwen2")
    folder = adapter_files.peft(tmp_path / "peft", adapter_files.make(m, 4), 8, **config)
    assert named in refusal(path, m, folder)


def test_peft_tensor_without_a_place(tmp_path):
    path, m = base(tmp_path, "qwen2")
    folder = adapter_files.peft(tmp_path / "peft", adapter_files.make(m, 4), 8)
    tensors = {"base_model.model.lm_head.lora_A.weight": adapter_files.raw("F32", np.zeros((4, m.key("embedding_length"))))}
    (folder / "adapter_model.safetensors").write_bytes(hf_folder.safetensors(tensors))
    assert "lm_head.lora_A.weight': is not a LoRA pair of a layer's projections" in refusal(path, m, folder)


# ---- files that are refused ----

def refusal(path, m, adapter):
    with pytest.raises(AssertionError) as e:
        run(path, random_ids(m, 4), adapter)
    return str(e.value)


def changed(path, m, tmp_path, change=None, **keys):
    adapter = adapter_files.make(m, 4)
    data = adapter_files.gguf("llama", adapter, 8, **{k.replace("__", "."): v for k, v in keys.items()})
    if change is not None:
        head, tensors = gguf_file.read_parts(data)
        change(tensors)
        data = gguf_file.write(head, tensors)
    file = tmp_path / "a.gguf"
    file.write_bytes(data)
    return refusal(path, m, file)


def test_refused_by_name(tmp_path):
    path, m = base(tmp_path, "llama")
    q = "blk.0.attn_q.weight"
    n = m.key("embedding_length")

    def put(name, shape, value=0.5):
        return lambda t: t.__setitem__(name, adapter_files.raw("F32", np.full(shape, value)))

    def both(a, b):
        return lambda t: (a(t), b(t))

    assert "key 'general.type': is 'model', but 'adapter' is expected" in changed(path, m, tmp_path, general__type="model")
    assert "key 'adapter.type': is 'x', but 'lora' is expected" in changed(path, m, tmp_path, adapter__type="x")
    assert "key 'general.architecture': is 'qwen2', but 'llama' is expected" in changed(
        path, m, tmp_path, general__architecture="qwen2")
    assert "'adapter.lora.alpha': inf is not a finite" in changed(path, m, tmp_path, **{"adapter__lora__alpha": float("inf")})
    assert f"'{q}.lora_a': has no counterpart" in changed(path, m, tmp_path, lambda t: t.pop(q + ".lora_b"))
    assert f"'{q}.lora_a': has dimensions {n + 1} x 4" in changed(path, m, tmp_path, put(q + ".lora_a", (4, n + 1)))
    assert f"'{q}.lora_b': has 3 rows" in changed(path, m, tmp_path, put(q + ".lora_b", (3, 4)))
    assert f"'{q}.lora_a': has rank 257, but ranks of 1 to 256" in changed(
        path, m, tmp_path, both(put(q + ".lora_a", (257, n)), put(q + ".lora_b", (m.tensors[q].shape[0], 257))))
    assert "'output.weight.lora_a': is not supported in an adapter" in changed(
        path, m, tmp_path, both(put("output.weight.lora_a", (4, n)), put("output.weight.lora_b", (9, 4))))
    assert f"'{q}.lora_a': contains a number that is not finite" in changed(
        path, m, tmp_path, put(q + ".lora_a", (4, n), np.nan))
    assert "has no tensors" in changed(path, m, tmp_path, lambda t: t.clear())


def test_models_that_take_none(tmp_path):
    path, m = base(tmp_path, "deepseek2", "new")
    file = tmp_path / "a.gguf"
    file.write_bytes(adapter_files.gguf("deepseek2", {}, 8))
    assert "adapters for models with latent attention (deepseek2) are not supported" in refusal(path, m, file)


def test_model_is_no_adapter(tmp_path):
    path, m = base(tmp_path, "llama")
    assert "key 'general.type': is ''" in refusal(path, m, path)
    (tmp_path / "hf").mkdir()
    (tmp_path / "hf" / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA"}))
    assert "adapter_model.safetensors" in refusal(path, m, tmp_path / "hf")
