"""Every weight type: what the engine reads out of a file's blocks, and out of its own panels, is to the
bit what an independent decoder makes of them; and one file may mix them all."""
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from quire import BIN, TOOLS, Server, isa_levels, make_model

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "reference"))
import fixtures  # noqa: E402
import gguf_file  # noqa: E402
import quants  # noqa: E402
import rounding  # noqa: E402
from test_architectures import engine, random_ids  # noqa: E402


# Finite halves at the edges: zeros, subnormals, the least normal numbers, ones, the largest.
HALVES = [0x0000, 0x8000, 0x0001, 0x8001, 0x03ff, 0x83ff, 0x0400, 0x8400, 0x3c00, 0xbc00, 0x7bff, 0xfbff]


def put_scales(name, blocks, rng):
    """Finite scales instead of random bytes; extreme ones in the first third of the blocks."""
    n = len(blocks)
    half = (rng.integers(0, 31, (n, 2)) << 10 | rng.integers(0, 1024, (n, 2)) | rng.integers(0, 2, (n, 2)) << 15)
    extreme = rng.choice(HALVES, (n, 2))
    half[:n // 3] = extreme[:n // 3]
    for i, at in enumerate(quants.SCALES.get(name, [])):
        blocks[:, at] = half[:, i] & 255
        blocks[:, at + 1] = half[:, i] >> 8
    if name == "MXFP4":
        blocks[:, 0] = np.arange(n) % 253  # from the least number to the greatest that is one
    if name == "IQ1_M":
        for i in range(4):
            blocks[:, 49 + 2 * i] = blocks[:, 49 + 2 * i] & 15 | (half[:, 0] >> 4 * i & 15) << 4


# Scales of rows: zeros, the least normal number, the greatest that a model may hold.
ROW_SCALES = np.array([0.0, -0.0, 2.0 ** -126, 2.0 ** 114, -2.0 ** 114, 1.0, -1.0], "<f4")
N_ROWS = 16  # what the tool decodes


def columns_of(name, data):
    elems, size = quants.BLOCKS[name]
    return (len(data) // N_ROWS - quants.HEADS.get(name, 0)) // size * elems


def with_heads(name, blocks, rng):
    """Rows of these blocks, each with a scale of its own."""
    scales = (rng.uniform(0.5, 1, N_ROWS) * 2.0 ** rng.integers(-60, 60, N_ROWS) * rng.choice([-1, 1], N_ROWS)).astype("<f4")
    scales[:len(ROW_SCALES)] = ROW_SCALES
    return np.concatenate([scales.view("u1").reshape(N_ROWS, 4), blocks.reshape(N_ROWS, -1)], axis=1)


def random_blocks(name, rng):
    elems, size = quants.BLOCKS[name]
    n = {1: 65536, 256: 2048}.get(elems, 4096)
    if name in ("F16", "BF16"):
        return np.arange(65536).astype("<u2").tobytes()
    blocks = rng.integers(0, 256, (n, size), dtype=np.uint8)
    put_scales(name, blocks, rng)
    if name in quants.HEADS:
        blocks = with_heads(name, blocks, rng)
    return blocks.tobytes()


def same_bits(got, want):
    """Bit for bit; any NaN for a NaN (there are some among all halves)."""
    return (got.view(np.uint32) == want.view(np.uint32)) | (np.isnan(got) & np.isnan(want))


@pytest.mark.parametrize("name", quants.BLOCKS)
def test_decodes_like_the_reference(name):
    data = random_blocks(name, np.random.default_rng(20240229))
    run = subprocess.run([f"{TOOLS}/decode", name], input=data, capture_output=True, timeout=120)
    assert run.returncode == 0, run.stderr
    columns = columns_of(name, data)
    want = quants.decode32(name, data, columns)
    file, panel = np.frombuffer(run.stdout, np.float32).reshape(2, -1)
    assert len(file) == len(want)
    for what, got in ("block_decode", file), ("kern_unpack_row", panel):
        bad = np.flatnonzero(~same_bits(got, want))
        assert not len(bad), f"{what}: {len(bad)} numbers, first {bad[0]}: {got[bad[0]]!r}, not {want[bad[0]]!r}"
    if quants.codes(name, data, columns) is not None:
        found, n = quants.codes(name, data, columns)
        assert set(np.unique(found)) == set(range(n)), "some codes were not tried"


def test_double_precision_agrees():
    """decode() and decode32() differ by the one rounding that decode32() names."""
    rng = np.random.default_rng(3)
    for name in quants.SCALES:
        data = random_blocks(name, rng)
        exact, single = quants.decode(name, data), quants.decode32(name, data).astype(np.float64)
        assert np.all(np.abs(exact - single) <= np.abs(exact) * 2.0 ** -24), name


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    """A model whose 35 matrices take turns at all the types."""
    return make_model(tmp_path_factory.mktemp("quants") / "mixed.gguf", "--arch", "qwen2", "--embd", "256",
                      "--layers", "5", "--heads", "4", "--kv-heads", "2", "--head-dim", "64", "--ff", "512", "--vocab",
                      "600", "--context", "256", "--type",
                      ",".join(["Q8_0", *(t for t in quants.BLOCKS if t != "Q8_0")]))


def test_inspect_names_the_types(mixed):
    run = subprocess.run([BIN, "inspect", mixed], capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    words = run.stdout.split()
    assert [t for t in quants.BLOCKS if t not in words] == []


def test_a_mixed_file_answers_the_same_on_every_isa(mixed):
    def answer(isa):
        server = Server("--isa", isa, model=mixed)
        try:
            choice = server.complete([5, 6, 7, 8, 9], max_tokens=8, temperature=0, logprobs=5,
                                     ignore_eos=True).json["choices"][0]
        finally:
            server.stop()
        return choice["text"], choice["logprobs"]
    answers = [answer(isa) for isa in isa_levels()]
    assert all(a == answers[0] for a in answers)
    assert len(answers[0][1]["token_logprobs"]) == 8
    assert len(set(answers[0][1]["token_logprobs"])) > 1, "not all the same number"


# ---- load_type ----

def small_type(kind, name, n_in, has_output):
    """What a matrix becomes, as quire.conf says."""
    if kind == "Q4_0" and name == ("output.weight" if has_output else "token_embd.weight"):
        kind = "Q6_K"
    return kind if n_in % quants.BLOCKS[kind][0] == 0 else "Q8_0"


@pytest.mark.parametrize("source", ["F32", "F16", "BF16"])
@pytest.mark.parametrize("kind", ["Q8_0", "Q6_K", "Q4_0"])
def test_quantised_at_load(tmp_path, kind, source):
    """The bits of the file whose matrices are quantised, with rows that are no whole blocks of 256 among them."""
    whole = make_model(tmp_path / "whole.gguf", "--arch", "qwen2", "--embd", "256", "--layers", "2", "--heads", "4", "--kv-heads", "2",
                       "--head-dim", "64", "--ff", "480", "--vocab", "600", "--context", "256", "--type", source)
    keys, tensors = gguf_file.read_parts(whole.read_bytes())
    small, kinds = {}, set()
    for name, (t, shape, data) in tensors.items():
        wanted = small_type(kind, name, shape[-1], "output.weight" in tensors) if len(shape) > 1 else t
        x = gguf_file.to_array(t, shape, data)
        small[name] = (wanted, shape, rounding.encode(wanted, x)) if wanted != t else (t, shape, data)
        kinds |= {wanted} if len(shape) > 1 else set()
    assert kinds == {"Q8_0": {"Q8_0"}, "Q6_K": {"Q6_K", "Q8_0"}, "Q4_0": {"Q4_0", "Q6_K"}}[kind]
    path = tmp_path / "small.gguf"
    path.write_bytes(gguf_file.write(keys, small))
    ids = random_ids({"token_embd.weight": np.empty((600, 1))}, 40)
    expected, = engine([path], ids, 0, False)
    found, = engine([whole], ids, 0, False, "--load-type", kind.lower())
    assert found.tobytes() == expected.tobytes()
    assert engine([whole], ids, 0, False)[0].tobytes() != expected.tobytes()


# ---- X.scale beside X.weight ----

def with_scales(tensors, rng):
    """Weights divided by powers of two, which stand beside them: one for a matrix, or one for each expert."""
    out = dict(tensors)
    for name, (kind, shape, data) in tensors.items():
        if len(shape) < 2 or not name.startswith("blk.") or not name.endswith(".weight"):
            continue
        n = shape[0] if len(shape) == 3 else 1
        scale = 2.0 ** rng.integers(-3, 4, n)
        x = gguf_file.to_array(kind, shape, data) / scale.reshape(-1, *[1] * (len(shape) - 1))
        out[name] = kind, shape, x.astype("<f4").tobytes()
        out[name.replace(".weight", ".scale")] = "F32", (n,), scale.astype("<f4").tobytes()
        out[name.replace(".weight", ".input_scale")] = "F32", (1,), np.array([0.3], "<f4").tobytes()
    return out


@pytest.mark.parametrize("arch,variant", [("qwen2", "plain"), ("llama", "moe"), ("phi3", "plain"), ("deepseek2", "old"), ("gpt2", "plain")])
def test_scales_of_matrices(tmp_path, arch, variant):
    """As files of NVFP4 have them, of any type: the bits of the weights that they make."""
    keys, tensors = gguf_file.read_parts(fixtures.make(arch, variant, "F32"))
    scaled = with_scales(tensors, np.random.default_rng(5))
    assert len(scaled) > len(tensors) + 10
    files = tmp_path / "plain.gguf", tmp_path / "scaled.gguf"
    for path, t in zip(files, (tensors, scaled)):
        path.write_bytes(gguf_file.write(keys, t))
    ids = random_ids({"token_embd.weight": np.empty((tensors["token_embd.weight"][1][0], 1))}, 40)
    a, b = engine(files, ids, 0, False)
    assert a.tobytes() == b.tobytes()
    one = next(n for n in scaled if n.endswith("attn_output.scale"))
    scaled[one] = "F32", (1,), np.array([1.7], "<f4").tobytes()  # is felt
    files[1].write_bytes(gguf_file.write(keys, scaled))
    assert engine(files[1:], ids, 0, False)[0].tobytes() != a.tobytes()


@pytest.mark.parametrize("name,shape,value,words", [("blk.0.attn_q.scale", (2,), 1, "blk.0.attn_q.scale': has dimensions 2"),
                                                    ("blk.0.attn_q.scale", (1,), np.nan, "blk.0.attn_q.scale"),
                                                    ("token_embd.scale", (1,), 1, "token_embd.scale' is not supported"),
                                                    ("blk.0.attn_norm.scale", (1,), 1, "blk.0.attn_norm.scale' is not supported")])
def test_scales_that_are_refused(tmp_path, name, shape, value, words):
    keys, tensors = gguf_file.read_parts(fixtures.make("qwen2", "plain", "F32"))
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf_file.write(keys, {**tensors, name: ("F32", shape, np.full(shape, value, "<f4").tobytes())}))
    with pytest.raises(AssertionError) as e:
        engine([path], [1, 2, 3], 0, False)
    assert words in str(e.value)
