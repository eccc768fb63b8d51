"""Every weight type: what the engine reads out of a file's blocks, and out of its own panels, is to the
bit what an independent decoder makes of them; and one file may mix them all."""
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from quire import BIN, TOOLS, Server, isa_levels, make_model

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "reference"))
import quants  # noqa: E402


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


def random_blocks(name, rng):
    elems, size = quants.BLOCKS[name]
    n = {1: 65536, 32: 4096, 256: 2048}[elems]
    if name in ("F16", "BF16"):
        return np.arange(65536).astype("<u2").tobytes()
    blocks = rng.integers(0, 256, (n, size), dtype=np.uint8)
    put_scales(name, blocks, rng)
    return blocks.tobytes()


def same_bits(got, want):
    """Bit for bit; any NaN for a NaN (there are some among all halves)."""
    return (got.view(np.uint32) == want.view(np.uint32)) | (np.isnan(got) & np.isnan(want))


@pytest.mark.parametrize("name", quants.BLOCKS)
def test_decodes_like_the_reference(name):
    data = random_blocks(name, np.random.default_rng(20240229))
    run = subprocess.run([f"{TOOLS}/decode", name], input=data, capture_output=True, timeout=120)
    assert run.returncode == 0, run.stderr
    want = quants.decode32(name, data)
    file, panel = np.frombuffer(run.stdout, np.float32).reshape(2, -1)
    assert len(file) == len(want)
    for what, got in ("block_decode", file), ("kern_unpack_row", panel):
        bad = np.flatnonzero(~same_bits(got, want))
        assert not len(bad), f"{what}: {len(bad)} numbers, first {bad[0]}: {got[bad[0]]!r}, not {want[bad[0]]!r}"
    if quants.codes(name, data) is not None:
        found, n = quants.codes(name, data)
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
    """A model whose 28 matrices take turns at all the types."""
    return make_model(tmp_path_factory.mktemp("quants") / "mixed.gguf", "--arch", "qwen2", "--embd", "256",
                      "--layers", "4", "--heads", "4", "--kv-heads", "2", "--head-dim", "64", "--ff", "512", "--vocab",
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
