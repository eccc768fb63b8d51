"""Layers that guess tokens (multi-token prediction, "nextn" in files): what they guess is what the
reference in float64 guesses, and no answer depends on it.

Models that count: of each token the next id is the likeliest to follow, and so is it guessed. Debug
servers compute every guess, whatever it costs (QUIRE_DEBUG_DRAFTS)."""
import json
import os
import pathlib
import random
import re
import struct
import subprocess
import sys

import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "reference"))

import fixtures  # noqa: E402
import gguf_file  # noqa: E402
import mtp  # noqa: E402
import mtp_fixtures  # noqa: E402
from quire import DEBUG_BIN, SLOW, Server, crowd, preemptions, serve_in_vain  # noqa: E402
from rounding import as_f16  # noqa: E402
from test_cli import quire  # noqa: E402
from test_speculation import REPORTS, SAMPLERS, answers  # noqa: E402

TOOL = pathlib.Path(os.environ.get("QUIRE_TOOLS", "build/tools")) / "logits"
CASES = [("glm4moe", "nextn"), ("deepseek2", "flash"), ("qwen35", "mtp"), ("qwen35moe", "mtp")]
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
    assert len(names) > 12
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


# ---- answers ----

N_VOCAB = 600
N = 800 if SLOW else 80
FLAGS = ("--context", "512", "--max-sequences", "8", "--prefill-chunk", "48", "--speculation-history", "0",
         "--state-interval", "16")


@pytest.fixture(scope="module", params=CASES, ids=NAMES)
def model(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("counting") / "model.gguf"
    path.write_bytes(mtp_fixtures.counting(*request.param, "Q8_0", n_vocab=N_VOCAB))
    return path


@pytest.fixture(scope="module")
def plain(model):
    s = Server(*FLAGS, "--speculation", "off", model=model)
    yield s
    assert s.stop() == 0


def drafting(model, drafts, *flags):
    return Server(*FLAGS, *map(str, flags), model=model, binary=DEBUG_BIN, env={"QUIRE_DEBUG_DRAFTS": drafts})


@pytest.fixture(scope="module")
def always(model):
    s = drafting(model, "always")
    yield s
    assert s.stop() == 0


def drafts_of(server):
    """Guesses, their tokens, and those that were right."""
    m = server.metrics()
    return np.array([m[f'quire_spec_{what}_total{{source="mtp"}}'] for what in ("drafts", "draft_tokens", "accepted_tokens")])


def body_of(r):
    first = r.randrange(N_VOCAB)
    body = {"prompt": [(first + i) % N_VOCAB for i in range(r.choice([1, 15, 16, 17, 60, 100]))],
            "max_tokens": r.randint(1, 60), "seed": r.randint(0, 99), "ignore_eos": r.random() < 0.8}
    changes = [{}, {}, {"frequency_penalty": 0.5, "presence_penalty": 0.3}, {"repetition_penalty": 1.2}, {"min_tokens": 12},
               {"logit_bias": {"5": 4, "9": -100}}, {"stop_token_ids": [5, 17, 40, 300]}, {"dry_multiplier": 0.8}]
    constraints = [{}, {}, {}, {"guided_regex": "[a-z]{9,60}"}, {"guided_regex": "([a-m]{2}[n-z]){3,9}"}]
    for kind in (SAMPLERS, changes, constraints, REPORTS):
        body.update(r.choice(kind))
    return body


def test_accepted(plain, always):
    """Most guesses of a model that counts are right, at any temperature; without speculation there are none."""
    for t in (0, 0.5, 1):
        body = {"prompt": list(range(20)), "max_tokens": 120, "temperature": t, "seed": 2, "ignore_eos": True}
        before, n = drafts_of(always), always.metrics()["quire_iterations_total"]
        assert always.post("/v1/completions", body).text == plain.post("/v1/completions", body).text
        runs, drafted, accepted = drafts_of(always) - before
        assert runs > 5 and accepted > 0.6 * drafted and accepted > 60, t
        assert always.metrics()["quire_iterations_total"] - n < 60
    assert drafts_of(plain).sum() == 0


def test_same_answers(plain, always, model):
    r = random.Random(3)
    bodies = [body_of(r) for _ in range(N)]
    expected = answers(plain, bodies)
    assert answers(always, bodies) == expected
    assert sum(a[0] != 400 for a in expected) > N * 0.9
    wrong = drafting(model, "7:400")
    assert answers(wrong, bodies) == expected
    assert drafts_of(wrong)[2] > 0 and wrong.stop() == 0


@pytest.mark.parametrize("flags", [("--preemption", "recompute"), ("--swap-ram", "8m")], ids=["recompute", "swap"])
def test_under_preemption(plain, model, flags):
    """Blocks are short; behind a preemption there are guesses again."""
    r = random.Random(5)
    bodies = [{**body_of(r), "max_tokens": 150, "ignore_eos": True, "min_tokens": 0} for _ in range(24)]
    for b in bodies:
        b["prompt"] = (b["prompt"] * 150)[:150]
    expected = answers(plain, bodies)
    s = drafting(model, "always", "--kv-memory", "1m", *flags)
    assert answers(s, bodies) == expected
    assert crowd(s) == crowd(plain) and preemptions(s.metrics()) > 0
    assert drafts_of(s)[2] > 0 and s.stop() == 0


def test_behind_a_prefix(plain, always):
    """That was found in the cache: what the layer needs of it is there, but for one token."""
    prompt = [3 * i % N_VOCAB for i in range(100)]
    for more in ([], [7], [7, 8]):
        body = {"prompt": prompt + more, "max_tokens": 60, "temperature": 0, "ignore_eos": True}
        before = drafts_of(always)
        r = always.post("/v1/completions", body).json
        assert r["choices"][0]["text"] == plain.post("/v1/completions", body).text
        assert drafts_of(always)[2] > before[2] + 20
    assert r["usage"]["prompt_tokens_details"]["cached_tokens"] >= 96


def test_off(model, always, plain):
    """By request, and by setting: then nothing of the layer is loaded."""
    before = drafts_of(always)
    always.post("/v1/completions", {"prompt": [1, 2, 3], "max_tokens": 40, "temperature": 0, "speculation": False})
    assert (drafts_of(always) == before).all()
    on, off = (json.loads(quire("plan", "--json", "--model", model, *FLAGS, "--speculation", v).out) for v in ("auto", "off"))
    assert on["token_bytes"] > off["token_bytes"] and on["activation_bytes"] > off["activation_bytes"]


def test_replay(model, tmp_path):
    path = tmp_path / "journal"
    s = drafting(model, "always", "--journal", path, "--kv-memory", "1m")
    r = random.Random(9)
    answers(s, [body_of(r) for _ in range(20)])
    s.wait_idle()
    assert drafts_of(s)[2] > 0 and s.stop() == 0
    assert quire("replay", path).returncode == 0


# ---- files that lack something ----

BROKEN = [
    ("glm4moe", "nextn", "blk.2.nextn.enorm.weight", None, "tensor 'blk.2.nextn.enorm.weight' is missing"),
    ("glm4moe", "nextn", "blk.2.nextn.hnorm.weight", (36,), "'blk.2.nextn.hnorm.weight': has dimensions 36 x"),
    ("glm4moe", "nextn", "blk.2.nextn.eh_proj.weight", (72, 72), "'blk.2.nextn.eh_proj.weight': .* but 144 x 72 is expected"),
    ("glm4moe", "nextn", "blk.2.nextn.embed_tokens.weight", (36, 72), "'blk.2.nextn.embed_tokens.weight': .* but 72 x 37 is"),
    ("glm4moe", "nextn", "blk.2.attn_k.weight", None, "tensor 'blk.2.attn_k.weight' is missing"),
    ("glm4moe", "nextn", "blk.2.nextn.other.weight", (72,), "'blk.2.nextn.other.weight' is not supported"),
    ("deepseek2", "flash", "blk.3.ffn_gate_inp.weight", None, "tensor 'blk.3.ffn_gate_inp.weight' is missing"),
]


@pytest.mark.parametrize("arch,variant,name,shape,sentence", BROKEN)
def test_broken(tmp_path, arch, variant, name, shape, sentence):
    """Refused, but where nothing of the layer is wanted."""
    keys, tensors = gguf_file.read_parts(fixtures.make(arch, variant, "F32"))
    tensors[name] = ("F32", shape, bytes(4 * int(np.prod(shape)))) if shape else None
    path = tmp_path / "model.gguf"
    path.write_bytes(gguf_file.write(keys, {k: v for k, v in tensors.items() if v is not None}))
    run = serve_in_vain("--model", path)
    assert run.returncode == 1 and re.search(sentence, run.stderr), run.stderr
    assert quire("plan", "--model", path, "--speculation", "off").returncode == 0


def test_left_out(tmp_path):
    """By whoever quantised the file, while its keys still tell of the layer: then there are no guesses of it."""
    keys, tensors = gguf_file.read_parts(fixtures.make("glm4moe", "nextn", "F32"))
    path = tmp_path / "model.gguf"
    path.write_bytes(gguf_file.write(keys, {k: v for k, v in tensors.items() if not k.startswith("blk.2.")}))
    s = Server(*FLAGS, model=path)
    assert s.post("/v1/completions", {"prompt": [1, 2, 3], "max_tokens": 20}).status == 200
    assert drafts_of(s).sum() == 0 and s.stop() == 0
