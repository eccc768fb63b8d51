"""Folders with quantised weights, as fp8, GPTQ, AWQ, compressed-tensors and MXFP4 are published.

Each is answered as the GGUF file with the numbers that the format's own description makes of its codes (in numpy,
here), in the type that core/formats/hf/recipe.h promises: bit for bit. And these numbers are those that a plain F32
folder would hold, to within what BF16 rounds.
"""
import json
import pathlib
import struct
import sys

import numpy as np
import pytest

import hf_classes
import hf_folder
from test_architectures import distance, engine, random_ids
from test_hf_classes import change_head, refused

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "reference"))

import fixtures  # noqa: E402
import gguf_file  # noqa: E402
from rounding import as_bf16  # noqa: E402

MATRICES = ("attn_q.", "attn_k.", "attn_v.", "attn_output.", "attn_kv_b.", "ffn_gate", "ffn_up", "ffn_down")
N = 32      # columns of a block
GROUP = 64


def model(arch="llama", variant="plain"):
    """A model whose rows are whole blocks, and whose matrices are as wide as words are."""
    class Wide(fixtures.Fixture):
        def __init__(self, *args):
            super().__init__(*args)
            self.n_embd, self.n_ff, self.n_ff_exp, self.n_head, self.n_kv_head, self.head = 128, 192, 64, 4, 2, 32

        def free_heads(self):
            pass

    f = Wide(arch, variant, "F32", 1, 512)
    fixtures.BUILDERS[arch][0](f)
    return gguf_file.read_parts(f.bytes())


# ---- the formats: numbers -> tensors as published, and the numbers that they stand for ----

def fp8_values():
    codes = np.arange(256)
    exponent, fraction = codes >> 3 & 15, codes & 7
    v = np.where(exponent > 0, (1 + fraction / 8) * 2.0 ** (exponent - 7), fraction / 8 * 2.0 ** -6)
    v[codes & 0x7f == 0x7f] = np.nan
    return np.where(codes & 128, -v, v).astype("f4")


FP8 = fp8_values()


def to_fp8(x):
    """The nearest code of each number."""
    order = np.argsort(np.where(np.isnan(FP8), np.inf, FP8))[:254]
    sorted_values = FP8[order]
    at = np.clip(np.searchsorted(sorted_values, x), 1, 253)
    below = x - sorted_values[at - 1] < sorted_values[at] - x
    return order[at - below].astype("u1")


def spread(scales, rows, cols, by):
    return np.repeat(np.repeat(scales, by[0], 0), by[1], 1)[:rows, :cols]


def fp8(x, by, scale_type, name, shape=None):
    rows, cols = x.shape
    by = (by[0] or rows, by[1] or cols)
    n = (-(-rows // by[0]), -(-cols // by[1]))
    scales = (np.random.default_rng(rows).uniform(0.5, 2, n) / 400).astype("f4")
    if scale_type == "BF16":
        scales = as_bf16(scales).astype("f4")
    full = spread(scales, rows, cols, by)
    codes = to_fp8(x / full)
    stored = scales if scale_type == "F32" else (scales.view("u4") >> 16).astype("u2")
    tensors = {".weight": ("F8_E4M3", x.shape, codes.tobytes()),
               name: (scale_type, shape if shape is not None else n, stored.tobytes()), ".input_scale": ("F32", (), b"\0" * 4)}
    return tensors, as_bf16(FP8[codes] * full), "BF16"


def halves(rng, shape):
    return rng.uniform(0.005, 0.02, shape).astype("f2")


def words(codes, bits, axis):
    """Codes along an axis, 32 / bits of them in a word."""
    n = 32 // bits
    codes = np.moveaxis(codes.astype("u4"), axis, -1)
    codes = codes.reshape(*codes.shape[:-1], -1, n)
    packed = (codes << (np.arange(n, dtype="u4") * bits)).sum(axis=-1, dtype="u4")
    return np.ascontiguousarray(np.moveaxis(packed, -1, axis))


def quantise(x, bits, group, zeros, scales):
    """Codes [out][in] for scales and zeros [out][groups]."""
    s, z = (np.repeat(a.astype("f4"), group, 1) for a in (scales, zeros))
    return np.clip(np.rint(x / s) + z, 0, 2 ** bits - 1).astype("i8"), s, z


def gptq(x, bits, symmetric, version, order=None):
    rng = np.random.default_rng(x.shape[0])
    n_out, n_in = x.shape
    group = GROUP
    scales = halves(rng, (n_out, n_in // group)) * (1 if bits == 4 else np.float16(1 / 16))
    middle = 2 ** (bits - 1)
    zeros = np.full(scales.shape, middle) if symmetric else rng.integers(0, 2 ** bits, scales.shape)
    place = np.arange(n_in) // group if order is None else rng.permutation(np.arange(n_in) // group)
    s, z = scales.astype("f4")[:, place], zeros[:, place]
    codes = np.clip(np.rint(x / s) + z, 0, 2 ** bits - 1).astype("i8")
    values = ((codes - z).astype("f4") * s)
    stored = (zeros - (0 if version == "gptq_v2" else 1)) % 2 ** bits
    tensors = {".qweight": ("I32", (n_in * bits // 32, n_out), words(codes.T, bits, 0).tobytes()),
               ".qzeros": ("I32", (n_in // group, n_out * bits // 32), words(stored.T, bits, 1).tobytes()),
               ".scales": ("F16", (n_in // group, n_out), np.ascontiguousarray(scales.T).tobytes()),
               ".g_idx": ("I32", (n_in,), place.astype("<i4").tobytes())}
    if order is not None or (bits == 8 and not symmetric):
        return tensors, as_bf16(values), "BF16"
    kind = "Q4_0" if bits == 4 and symmetric else "Q8_0"
    return tensors, blocks(kind, codes - z, scales, group), kind


def awq(x, symmetric):
    rng = np.random.default_rng(x.shape[0])
    n_out, n_in = x.shape
    scales = halves(rng, (n_out, n_in // GROUP))
    zeros = np.full(scales.shape, 8) if symmetric else rng.integers(0, 16, scales.shape)
    codes, _, z = quantise(x, 4, GROUP, zeros, scales)
    order = np.array([0, 2, 4, 6, 1, 3, 5, 7])

    def packed(a):  # [groups or in][out]
        return words(a.reshape(len(a), -1, 8)[:, :, order].reshape(a.shape), 4, 1).tobytes()

    tensors = {".qweight": ("I32", (n_in, n_out // 8), packed(codes.T)),
               ".qzeros": ("I32", (n_in // GROUP, n_out // 8), packed(zeros.T)),
               ".scales": ("F16", (n_in // GROUP, n_out), np.ascontiguousarray(scales.T).tobytes())}
    kind = "Q4_0" if symmetric else "Q8_0"
    return tensors, blocks(kind, codes - z.astype(int), scales, GROUP), kind


def packed_int(x, bits, symmetric, group, scale_type="BF16"):
    rng = np.random.default_rng(x.shape[0])
    n_out, n_in = x.shape
    group = group or n_in
    scales = as_bf16(halves(rng, (n_out, n_in // group)).astype("f4") * (1 if bits == 4 else 1 / 16)).astype("f4")
    if scale_type == "F32":
        scales = (scales * 1.001).astype("f4")
    middle = 2 ** (bits - 1)
    zeros = np.full(scales.shape, middle) if symmetric else rng.integers(0, 2 ** bits, scales.shape)
    codes, s, z = quantise(x, bits, group, zeros, scales)
    stored = scales if scale_type == "F32" else (scales.view("u4") >> 16).astype("u2")
    tensors = {".weight_packed": ("I32", (n_out, n_in * bits // 32), words(codes, bits, 1).tobytes()),
               ".weight_scale": (scale_type, scales.shape, stored.tobytes()),
               ".weight_shape": ("I64", (2,), np.array(x.shape, "<i8").tobytes())}
    if not symmetric:
        tensors[".weight_zero_point"] = ("I32", (n_out * bits // 32, n_in // group), words(zeros, bits, 0).tobytes())
    if scale_type == "F32" or (bits == 8 and not symmetric):
        return tensors, as_bf16((codes - z).astype("f4") * s), "BF16"
    kind = "Q4_0" if bits == 4 and symmetric else "Q8_0"
    return tensors, blocks(kind, codes - z.astype(int), scales.astype("f2"), group), kind


def int8(x, scale_type):
    rng = np.random.default_rng(x.shape[0])
    scales = as_bf16(rng.uniform(0.0005, 0.002, (len(x), 1)).astype("f4")).astype("f4")
    if scale_type == "F32":
        scales = (scales * 1.001).astype("f4")
    codes = np.clip(np.rint(x / scales), -128, 127).astype("i1")
    stored = scales if scale_type == "F32" else (scales.view("u4") >> 16).astype("u2")
    tensors = {".weight": ("I8", x.shape, codes.tobytes()), ".weight_scale": (scale_type, scales.shape, stored.tobytes())}
    if scale_type == "F32":
        return tensors, as_bf16(codes.astype("f4") * scales), "BF16"
    return tensors, blocks("Q8_0", codes.astype(int), scales.astype("f2"), x.shape[1]), "Q8_0"


def blocks(kind, codes, scales, group):
    """Bytes of GGUF's Q4_0 or Q8_0: each block of 32 behind its scale."""
    rows, cols = codes.shape
    d = np.repeat(scales.astype("<f2"), group // N, 1)[:, :cols // N, None].view("u1")
    c = codes.reshape(rows, cols // N, N)
    body = (c + 8)[..., :16] | (c + 8)[..., 16:] << 4 if kind == "Q4_0" else c
    return np.concatenate([d, body.astype("i2").astype("u1")], axis=2).tobytes()


def groups(bits, kind, group, symmetric=True, strategy=None, form="pack-quantized"):
    weights = {"num_bits": bits, "type": kind, "symmetric": symmetric, "group_size": group,
               "strategy": strategy or ("group" if group else "channel")}
    return {"quant_method": "compressed-tensors", "format": form, "ignore": ["lm_head"], "kv_cache_scheme": None,
            "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights,
                                          "input_activations": {"num_bits": 8, "dynamic": True} if form[0] != "p" else None}}}


def gptq_config(bits, version="gptq", desc=False):
    return {"quant_method": "gptq", "bits": bits, "group_size": GROUP, "desc_act": desc, "sym": True,
            "checkpoint_format": version}


FORMATS = {
    "fp8-blocks": (lambda x: fp8(x, (48, 40), "F32", ".weight_scale_inv"),
                   {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [48, 40]}),
    "fp8-tensor": (lambda x: fp8(x, (0, 0), "BF16", ".weight_scale", ()), {"quant_method": "fp8", "activation_scheme": "static"}),
    "ct-fp8-rows": (lambda x: fp8(x, (1, 0), "BF16", ".weight_scale"), groups(8, "float", None, form="float-quantized")),
    "gptq": (lambda x: gptq(x, 4, True, "gptq"), gptq_config(4)),
    "gptq-zeros": (lambda x: gptq(x, 4, False, "gptq"), gptq_config(4)),
    "gptq-v2": (lambda x: gptq(x, 4, False, "gptq_v2"), gptq_config(4, "gptq_v2")),
    "gptq-8": (lambda x: gptq(x, 8, True, "gptq"), gptq_config(8)),
    "gptq-8-zeros": (lambda x: gptq(x, 8, False, "gptq"), gptq_config(8)),
    "gptq-order": (lambda x: gptq(x, 4, True, "gptq", "any"), gptq_config(4, desc=True)),
    "awq": (lambda x: awq(x, False), {"quant_method": "awq", "bits": 4, "group_size": GROUP, "version": "gemm", "zero_point": True}),
    "awq-middle": (lambda x: awq(x, True), {"quant_method": "awq", "bits": 4, "group_size": GROUP, "version": "gemm"}),
    "ct-int4": (lambda x: packed_int(x, 4, True, GROUP), groups(4, "int", GROUP)),
    "ct-int4-zeros": (lambda x: packed_int(x, 4, False, GROUP), groups(4, "int", GROUP, False)),
    "ct-int4-rows": (lambda x: packed_int(x, 4, True, None), groups(4, "int", None)),
    "ct-int4-f32": (lambda x: packed_int(x, 4, True, GROUP, "F32"), groups(4, "int", GROUP)),
    "ct-int8": (lambda x: packed_int(x, 8, True, GROUP), groups(8, "int", GROUP)),
    "ct-int8-zeros": (lambda x: packed_int(x, 8, False, GROUP), groups(8, "int", GROUP, False)),
    "ct-w8a8": (lambda x: int8(x, "BF16"), groups(8, "int", None, form="int-quantized")),
    "ct-w8a8-f32": (lambda x: int8(x, "F32"), groups(8, "int", None, form="int-quantized")),
}


def as_tensor(kind, shape, numbers):
    if kind != "BF16":
        return kind, shape, numbers
    return kind, shape, (np.asarray(numbers, "f4").view("u4") >> 16).astype("u2").tobytes()


def write(tmp_path, name, cls="MistralForCausalLM", arch="llama", variant="plain", **more):
    """The quantised folder, the GGUF file of the same numbers, and an F32 folder of them."""
    change, config = FORMATS[name]
    keys, tensors = model(arch, variant)
    folder, plain, path = tmp_path / "hf", tmp_path / "plain", tmp_path / "m.gguf"
    keys, tensors = hf_classes.make(cls, folder, keys, tensors, quantization_config=config, **more)
    theirs, ours, exact = {}, {}, {}
    for n, t in tensors.items():
        if not (n.startswith("blk.") and n.endswith(".weight") and any(m in n for m in MATRICES) and len(t[1]) > 1
                and "ffn_gate_inp" not in n):
            ours[n] = exact[n] = t
            theirs.update(hf_classes.named(cls, {n: t}))
            continue
        rows = [change(x) for x in hf_classes.array(t).reshape(-1, *t[1][-2:])]
        kinds = {r[2] for r in rows}
        assert len(kinds) == 1
        kind = kinds.pop()
        parts = [as_tensor(kind, t[1], r[1])[2] for r in rows]
        ours[n] = (kind, t[1], b"".join(parts))
        exact[n] = hf_classes.tensor("F32", gguf_file.to_array(*ours[n]).astype("f4").reshape(t[1]))
        for e, (parts, *_) in enumerate(rows):
            their = hf_classes.rename(hf_classes.NAMES.get(cls, hf_classes.LLAMA), n).removesuffix(".weight").replace("*", str(e))
            theirs.update({their + end: p for end, p in parts.items()})
    (folder / "model.safetensors").write_bytes(hf_folder.safetensors(theirs))
    path.write_bytes(gguf_file.write(keys, ours))
    hf_classes.make(cls, plain, {k: v for k, v in keys.items() if "halves" not in k}, exact, **more)
    return folder, path, plain


def answers(files, *settings):
    return engine(files, random_ids({"token_embd.weight": np.empty((37, 1))}, 60), 0, False, *settings)


@pytest.mark.parametrize("name", list(FORMATS))
def test_same_bits(tmp_path, name):
    folder, path, plain = write(tmp_path, name)
    a, b, c = answers([folder, path, plain])
    assert np.isfinite(a).all() and a.tobytes() == b.tobytes()
    # Products of quantised rows quantise the activations too; rows that are rounded to BF16 do not.
    assert distance(a, c) < (1e-4 if name.startswith("fp8") else 0.1)


@pytest.mark.parametrize("name", ["fp8-blocks", "gptq", "awq", "ct-int4"])
def test_experts(tmp_path, name):
    folder, path, _ = write(tmp_path, name, "MixtralForCausalLM", "llama", "moe")
    a, b = answers([folder, path])
    assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("name", ["fp8-blocks", "fp8-tensor"])
def test_latent_attention(tmp_path, name):
    """A matrix of made rows, a part of which is turned when it is packed."""
    folder, path, _ = write(tmp_path, name, "DeepseekV2ForCausalLM", "deepseek2", "old")
    a, b = answers([folder, path])
    assert a.tobytes() == b.tobytes()


def test_load_type(tmp_path):
    """load_type q8_0 makes Q8_0 of rows that are rounded to BF16, as of a file's."""
    folder, path, _ = write(tmp_path, "fp8-blocks")
    (plain,), (a, b) = answers([folder]), answers([folder, path], "--load-type", "q8_0")
    assert a.tobytes() == b.tobytes() != plain.tobytes()


# ---- what is refused ----

Q = "model.layers.1.self_attn.q_proj"
CONFIGS = [
    ("fp8-blocks", {"quant_method": "bitsandbytes"}, "'quant_method' of 'quantization_config' is 'bitsandbytes'"),
    ("fp8-blocks", {"fmt": "e5m2"}, "'fmt' of 'quantization_config' is 'e5m2'"),
    ("fp8-blocks", {"weight_block_size": [0, 1]}, "'weight_block_size' is not a pair"),
    ("fp8-blocks", {"weight_block_size": [64, 64]}, "weight_scale_inv': its shape does not fit the weights"),
    ("gptq", {"bits": 3}, "'bits' of 'quantization_config' is 3"),
    ("gptq", {"bits": 8}, "its shape does not fit the weights"),
    ("gptq", {"group_size": 32}, "scales': its shape does not fit the weights"),
    ("gptq", {"checkpoint_format": "marlin"}, "'checkpoint_format' of 'quantization_config' is 'marlin'"),
    ("awq", {"version": "gemv"}, "'version' of 'quantization_config' is 'gemv'"),
    ("awq", {"bits": 8}, "only 4 is supported for awq"),
    ("ct-int4", {"format": "marlin-24"}, "'format' of 'quantization_config' is 'marlin-24'"),
    ("ct-int4", {"kv_cache_scheme": {"num_bits": 8}}, "'kv_cache_scheme' of 'quantization_config' is 'set'"),
    ("ct-int4", {"config_groups": {}}, "'config_groups' has no groups"),
    ("ct-int4", {"sparsity_config": {"format": "sparse-24-bitmask"}}, "'sparsity_config' of 'quantization_config'"),
]


@pytest.mark.parametrize("name,change,expected", CONFIGS, ids=[f"{c[0]}-{next(iter(c[1]))}" for c in CONFIGS])
def test_settings_that_are_refused(tmp_path, name, change, expected):
    folder, *_ = write(tmp_path, name)
    data = json.loads((folder / "config.json").read_text())
    data["quantization_config"].update(change)
    (folder / "config.json").write_text(json.dumps(data))
    assert expected in refused(folder)


HEADS = [
    ("gptq", lambda h: h.pop(f"{Q}.scales"), f"'{Q}.qweight': has no scales beside it"),
    ("gptq", lambda h: h.pop(f"{Q}.qweight"), f"'{Q}.scales': has no weights beside it"),
    ("gptq", lambda h: h[f"{Q}.qweight"].update(dtype="U32"), "has a scale, but not the type"),
    ("gptq", lambda h: h[f"{Q}.scales"].update(dtype="I16"), "is not F32, F16 or BF16"),
    ("gptq", lambda h: h[f"{Q}.qzeros"].update(shape=[4, 8]), f"'{Q}.qzeros': its shape does not fit"),
    ("fp8-tensor", lambda h: h.pop(f"{Q}.weight_scale"), f"'{Q}.weight': is not F32, F16 or BF16"),
    ("ct-int4", lambda h: h[f"{Q}.weight_packed"].update(shape=[2048]), "has no shape of 2 dimensions"),
]


@pytest.mark.parametrize("name,change,expected", HEADS, ids=[str(i) for i in range(len(HEADS))])
def test_tensors_that_do_not_fit(tmp_path, name, change, expected):
    folder, *_ = write(tmp_path, name)
    change_head(folder, change)
    assert expected in refused(folder)


def test_group_that_is_none(tmp_path):
    """A list of groups that names one beyond the last."""
    folder, *_ = write(tmp_path, "gptq-order")
    path = folder / "model.safetensors"
    data = bytearray(path.read_bytes())
    n, = struct.unpack_from("<Q", data)
    at = 8 + n + json.loads(data[8:8 + n])[f"{Q}.g_idx"]["data_offsets"][0]
    struct.pack_into("<i", data, at + 4, 2)
    path.write_bytes(data)
    assert f"'{Q}.g_idx': names a group that is none" in refused(folder)
