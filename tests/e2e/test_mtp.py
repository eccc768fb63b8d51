"""Layers that guess tokens (multi-token prediction, "nextn" in files): what they guess is what the
reference in float64 guesses, and no answer depends on it.
"""
import os
import pathlib
import struct
import subprocess
import sys

import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "reference"))

import fixtures  # noqa: E402
import gguf_file  # noqa: E402
import mtp  # noqa: E402
from rounding import as_f16  # noqa: E402

TOOL = pathlib.Path(os.environ.get("QUIRE_TOOLS", "build/tools")) / "logits"
CASES = [("glm4moe", "nextn"), ("deepseek2", "flash")]
NAMES = [c[0] for c in CASES]
CLOSE = 1e-3          # of the largest number of a row
FELT = 5 * CLOSE
EDGE = 1e-3           # between two experts' scores
N_TOKENS, CHUNK, N_GUESSES = 60, 7, 3


# ---- what is guessed ----

def guesses(paths, ids, chunk, n, *settings):
    args = [TOOL, "--ids", ",".join(map(str, ids)), "--threads", 1, "--kv-memory", "64m", "--chunk", chunk,
            "--guesses", n, "--log-level", "error", *settings, "--", *paths]
    done = subprocess.run(list(map(str, args)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300)
    assert done.returncode == 0, done.stderr.decode()
    out, at, found = done.stdout, 0, []
    while at < len(out):
        rows, columns = struct.unpack_from("<ii", out, at)
        at += 8
        assert rows >= 0, out[at:at + columns].decode()
        found.append(np.frombuffer(out, "<f4", rows * columns, at).reshape(rows, columns))
        at += 4 * rows * columns
    return found


def random_ids(m, n):
    return np.random.default_rng(7).integers(0, m["token_embd.weight"].shape[0], n).tolist()


def expected_of(m, ids, chunk=CHUNK, n=N_GUESSES):
    return mtp.guesses(m, ids, range(chunk, len(ids), chunk), n, cache=as_f16)


def distances(a, b):
    return np.abs(a - b).max(axis=1) / np.abs(b).max(axis=1)


def distance_to(m, found, expected):
    """But for those that were all but at one with other experts: rounding decides for them."""
    clear = m.edge > EDGE
    assert clear.mean() > 0.5
    return float(distances(found, expected)[clear].max())


@pytest.mark.parametrize("arch,variant", CASES, ids=NAMES)
def test_guesses(tmp_path, arch, variant):
    data = fixtures.make(arch, variant, "F32")
    path = tmp_path / "model.gguf"
    path.write_bytes(data)
    m = gguf_file.read(data)
    ids = random_ids(m, N_TOKENS)
    found, = guesses([path], ids, CHUNK, N_GUESSES)
    expected = expected_of(m, ids)
    assert found.shape == expected.shape
    assert distance_to(m, found, expected) < CLOSE


@pytest.mark.parametrize("arch,variant", CASES, ids=NAMES)
def test_nothing_is_ignored(tmp_path, arch, variant):
    """Each tensor of the layer."""
    keys, tensors = gguf_file.read_parts(fixtures.make(arch, variant, "F32"))
    plain = gguf_file.Model(keys, {n: gguf_file.to_array(*t) for n, t in tensors.items()})
    ids, rng = random_ids(plain, 30), np.random.default_rng(3)
    before = expected_of(plain, ids)
    names = [n for n in tensors if n.startswith(f"blk.{plain.n_layer}.")]
    paths, models = [], []
    for i, name in enumerate(names):
        kind, shape, data = tensors[name]
        x = gguf_file.to_array(kind, shape, data)
        y = (x * rng.uniform(0.5, 1.5, shape) + rng.normal(0, 0.3 * np.abs(x).mean(), shape)).astype("<f4")
        paths.append(tmp_path / f"{i}.gguf")
        paths[-1].write_bytes(gguf_file.write(keys, {**tensors, name: ("F32", shape, y.tobytes())}))
        models.append(gguf_file.Model(keys, {**plain.tensors, name: y.astype(np.float64)}))
    assert len(names) > 15
    for name, m, found in zip(names, models, guesses(paths, ids, CHUNK, N_GUESSES)):
        expected = expected_of(m, ids)
        assert distances(expected, before).max() > FELT, name
        assert distance_to(m, found, expected) < CLOSE, name


@pytest.mark.parametrize("arch,variant", CASES, ids=NAMES)
def test_same_bits(tmp_path, arch, variant):
    """With more threads, by the definitions of the kernels, and with another sequence beside it."""
    path = tmp_path / "model.gguf"
    for kind in ("F32", "Q8_0"):
        data = fixtures.make(arch, variant, kind)
        path.write_bytes(data)
        ids = random_ids(gguf_file.read(data), N_TOKENS)
        rows = [guesses([path], ids, CHUNK, N_GUESSES, *settings)[0].tobytes()
                for settings in ([], ["--threads", 3], ["--isa", "scalar"], ["--beside", "--threads", 2])]
        assert len(set(rows)) == 1, [r == rows[0] for r in rows]
