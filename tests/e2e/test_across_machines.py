"""P1 and P10 from one architecture to another: texts, log-probabilities, embeddings and logits of a build for another
one (in an emulator, on x86-64) are those of this one, byte for byte, and each reads what the other has written.

QUIRE_OTHER is a folder with the other build's programs, quire and logits: make test-arm64 makes it."""
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys

import pytest

from quire import BIN, SLOW, Server, in_threads, isa_levels, make_model

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "reference"))

import fixtures  # noqa: E402
import forward  # noqa: E402
import gguf_file  # noqa: E402
from test_architectures import TOOL, random_ids  # noqa: E402
from test_decisions import questions, story  # noqa: E402
from test_speculation import body_of  # noqa: E402

OTHER = os.environ.get("QUIRE_OTHER")
THERE = f"{OTHER}/quire"
pytestmark = pytest.mark.skipif(not OTHER, reason="skip: no build for another architecture (make test-arm64)")

TYPES = ["F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_K", "Q6_K"]
SHAPE = ("--arch", "qwen2", "--embd", "256", "--layers", "2", "--heads", "4", "--kv-heads", "2", "--head-dim", "64", "--ff",
         "512", "--vocab", "600", "--context", "512")
SWAP = ("--kv-memory", "1m", "--max-sequences", "16", "--preemption", "swap", "--swap-ram", "16m")
RECOMPUTE = ("--kv-memory", "1m", "--max-sequences", "16", "--preemption", "recompute", "--swap-ram", "0")
# What P1 says that answers do not depend on: each type has its turn at some, the first one at all.
SETTINGS = [("--threads", "1"), ("--threads", "2", "--prefill-chunk", "16"), SWAP, RECOMPUTE,
            ("--prefix-cache", "off", "--speculation", "off"), ("--kv-type", "q8_0"), ("--kv-type", "bf16"), ("--kv-type", "f32")]
N = 24
ARCHITECTURES = fixtures.cases()
N_TOKENS = 40


def bodies(seed):
    """Samplers, changes of logits, constraints, reports as in test_speculation, on short prompts: a third begins alike."""
    r = random.Random(seed)
    made = []
    for i in range(N):
        ids = [40 + r.randrange(200) for _ in range(r.randrange(4, 40))]
        body = {**body_of(r), "prompt": [40] * 32 + ids if i % 3 == 0 else ids, "max_tokens": 12, "logprobs": 5,
                "priority": r.randrange(3)}
        made.append({k: v for k, v in body.items() if k not in ("n", "best_of", "prediction")})
    return made


def answer_of(server, body):
    r = server.post("/v1/completions", body, timeout=600)
    assert r.status == 200, r.body
    c, = r.json["choices"]
    return c["text"], c["logprobs"], c["finish_reason"]


def answers_of(binary, model, seed, *flags):
    server = Server("--kv-memory", "64m", *flags, model=model, binary=binary)
    try:
        return in_threads([lambda b=b: answer_of(server, b) for b in bodies(seed)])
    finally:
        assert server.stop() == 0, server.read_log()


@pytest.fixture(scope="module", autouse=True)
def one_version():
    """Files of another version are refused, and receipts noted."""
    here, there = (subprocess.run([b, "--version"], capture_output=True, text=True, check=True).stdout for b in (BIN, THERE))
    assert here.splitlines()[0] == there.splitlines()[0], "two builds of one version are needed"


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return {t: make_model(folder / f"{t}.gguf", *SHAPE, "--type", t) for t in TYPES}


def cache_type(flags):
    return flags[flags.index("--kv-type"):][:2] if "--kv-type" in flags else ()


@pytest.mark.parametrize("kind, flags", [(t, SETTINGS[i % len(SETTINGS)]) for i, t in enumerate(TYPES)] +
                         [("Q4_K", s) for s in SETTINGS], ids=lambda v: v if isinstance(v, str) else "".join(v))
def test_texts_and_log_probabilities(models, kind, flags):
    seed = TYPES.index(kind)
    here = [answers_of(BIN, models[kind], seed, "--isa", isa, *cache_type(flags))
            for isa in (isa_levels() if SLOW else isa_levels()[-1:])]
    assert all(a == here[0] for a in here)
    assert len({a[0] for a in here[0]}) > N / 2 and any(a[1]["token_logprobs"] for a in here[0])
    there = answers_of(THERE, models[kind], seed, *flags)
    for body, a, b in zip(bodies(seed), here[0], there):
        assert a == b, body


@pytest.mark.parametrize("kind", TYPES if SLOW else ["Q4_0"])
def test_levels_of_the_other_machine(models, kind):
    """All of its instruction sets, on files that mix the types."""
    levels = isa_levels(THERE)
    expected = answers_of(BIN, models[kind], 99)
    for isa in levels:
        assert answers_of(THERE, models[kind], 99, "--isa", isa) == expected, isa


@pytest.mark.parametrize("kind", TYPES if SLOW else ["Q8_0"])
def test_embeddings(models, kind):
    """As the bytes of floats."""
    texts = ["the cat sat", "on the mat " * 20, [40, 41, 42, 43] * 9, *(b["prompt"] for b in bodies(3)[3:])]

    def embed(binary, *flags):
        server = Server("--kv-memory", "64m", *flags, model=models[kind], binary=binary)
        try:
            replies = [server.post("/v1/embeddings", {"input": t, "encoding_format": "base64"}, timeout=300) for t in texts]
            assert all(r.status == 200 for r in replies), replies[0].body
            norms = [server.post("/embedding", {"content": "the cat sat on the mat", "embd_normalize": p}) for p in (-1, 0, 1, 3)]
            assert all(r.status == 200 for r in norms), norms[0].body
            return [r.json["data"][0]["embedding"] for r in replies], [r.json for r in norms]
        finally:
            assert server.stop() == 0, server.read_log()

    here = embed(BIN)
    assert len(set(here[0])) == len(texts)
    assert embed(THERE, "--threads", "2", "--prefill-chunk", "9") == here


def test_decisions():
    """Probabilities of each kind of question, by labels of one token and of several."""
    many = {"type": "choice", "instructions": "Who?", "choices": [{"value": f"o{i}"} for i in range(60)]}

    def decide(binary, *flags):
        server = Server("--kv-memory", "64m", *flags, binary=binary)
        try:
            calls = [{"input": story(i, 60), "questions": [*questions(6, i), many], "permutations": 1 + i} for i in range(3)]
            replies = [server.post("/v1/decisions", c, timeout=600) for c in calls]
            assert all(r.status == 200 for r in replies), replies[0].body
            return [r.json["answers"] for r in replies]
        finally:
            assert server.stop() == 0, server.read_log()

    assert decide(THERE, "--threads", "2") == decide(BIN)


def logits_of(program, paths, n_ctx, ids, hidden):
    args = [program, "--ids", ",".join(map(str, ids)), "--threads", 1, "--context", n_ctx, "--kv-memory", "8m", "--log-level",
            "error", *(["--hidden"] if hidden else []), "--", *paths]
    run = subprocess.run(list(map(str, args)), capture_output=True, timeout=300, check=False)
    assert run.returncode == 0, run.stderr.decode()
    return run.stdout


@pytest.mark.parametrize("arch", sorted({a for a, _ in ARCHITECTURES}))
def test_logits_of_each_architecture(tmp_path, arch):
    """Every row of every variant: rotations, slopes, temperatures, experts, states."""
    for variant in [v for a, v in ARCHITECTURES if a == arch]:
        kinds = ("F32", "Q8_0") if SLOW else ("Q8_0",)
        paths = [tmp_path / f"{variant}-{k}.gguf" for k in kinds]
        for path, kind in zip(paths, kinds):
            path.write_bytes(fixtures.make(arch, variant, kind))
        n_ctx = fixtures.SHORT_CTX if variant == "longrope" else 0
        ids = random_ids(gguf_file.read(paths[0].read_bytes()), min(N_TOKENS, n_ctx or N_TOKENS))
        here, there = (logits_of(p, paths, n_ctx, ids, arch in forward.EMBEDDERS) for p in (TOOL, f"{OTHER}/logits"))
        assert len(here) > 4 * len(ids) and here == there, variant


# ---- files ----

def ask(server, **fields):
    r = server.post("/v1/completions", {"prompt": "the cat sat on a mat and saw a dog run over the hill " * 12, "max_tokens": 8,
                                        "temperature": 0, "ignore_eos": True, "logprobs": 3, **fields}, timeout=300)
    assert r.status == 200, r.body
    return r.json


def served(binary, model, *flags, job=ask):
    """What the job makes of a server, and its log; it has ended."""
    server = Server(*flags, model=model, binary=binary)
    try:
        result = job(server)
    finally:
        assert server.stop() == 0, server.read_log()
    return result, server.read_log()


PAIRS = [(BIN, THERE), (THERE, BIN)]
both_ways = pytest.mark.parametrize("writer, reader", PAIRS, ids=["from-here", "from-there"])


def bits(r):
    return [(c["text"], c["logprobs"]["token_logprobs"]) for c in r["choices"]]


@both_ways
@pytest.mark.parametrize("kv_type", ["f16", "q4_0"])
def test_blocks_of_the_store(models, tmp_path, writer, reader, kv_type):
    flags = ("--kv-store", f"dir:{tmp_path}/store", "--kv-memory", "64m", "--kv-type", kv_type,
             "--kv-store-wait-ms", "60000")
    first, _ = served(writer, models["Q8_0"], *flags)
    names = {f.name: f.read_bytes() for f in (tmp_path / "store").glob("??/*.kv")}
    assert len(names) >= 2 and first["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    again, _ = served(reader, models["Q8_0"], *flags)
    assert again["usage"]["prompt_tokens_details"]["cached_tokens"] >= 128
    assert bits(again) == bits(first)
    shutil.rmtree(tmp_path / "store")
    served(reader, models["Q8_0"], *flags)
    # The secret that names are made with is new, the blocks are not: what the other one writes has the same bytes.
    assert sorted(map(len, names.values())) == sorted(f.stat().st_size for f in (tmp_path / "store").glob("??/*.kv"))


@both_ways
@pytest.mark.parametrize("kind", ["Q4_K", "BF16"])
def test_weight_cache(models, tmp_path, writer, reader, kind):
    cache = ("--weight-cache", str(tmp_path), "--kv-memory", "64m")

    def wait_for_file(server):
        result = ask(server)
        server.wait_until(lambda m: list(tmp_path.glob("*.quire-cache")), what="the file")
        return result

    first, log = served(writer, models[kind], *cache, job=wait_for_file)
    assert "weights=packed" in log
    file, = tmp_path.iterdir()
    again, log = served(reader, models[kind], *cache)
    assert "weights=cached" in log and bits(again) == bits(first)
    written = file.read_bytes()
    file.unlink()
    served(reader, models[kind], *cache, job=wait_for_file)
    assert file.read_bytes() == written


@both_ways
def test_saved_slots(models, tmp_path, writer, reader):
    def act(action):
        def job(server):
            if action == "restore":
                r = server.post("/slots/0?action=restore", {"filename": "a.bin"})
                assert r.status == 200, r.body
            r = server.post("/completion", {"prompt": "the cat sat on a mat and saw a dog run " * 6, "n_predict": 8, "id_slot": 0,
                                            "temperature": 0, "ignore_eos": True, "n_probs": 3, "cache_prompt": True,
                                            "return_tokens": True}, timeout=300)
            assert r.status == 200, r.body
            if action == "save":
                assert server.post("/slots/0?action=save", {"filename": "a.bin"}).status == 200
            return r.json
        return job

    flags = ("--slot-save-path", str(tmp_path), "--kv-memory", "64m")
    first, _ = served(writer, models["Q4_0"], *flags, job=act("save"))
    again, _ = served(reader, models["Q4_0"], *flags, job=act("restore"))
    assert again["tokens_cached"] > 0 and again["timings"]["prompt_n"] < first["timings"]["prompt_n"]
    assert (again["tokens"], again["completion_probabilities"]) == (first["tokens"], first["completion_probabilities"])


@both_ways
def test_receipts(models, tmp_path, writer, reader):
    """Answers that one has given are verified by the other."""
    receipts = tmp_path / "receipts.jsonl"

    def job(server):
        made = [server.post("/v1/completions", {**b, "receipt": True}, timeout=300).json["receipt"] for b in bodies(5)[:8]]
        receipts.write_text("".join(json.dumps(r) + "\n" for r in made))

    served(writer, models["Q6_K"], "--receipts", "on", "--kv-memory", "64m", job=job)
    run = subprocess.run([reader, "verify", str(receipts), "--model", models["Q6_K"], "--log-level", "error", "--kv-memory",
                          "64m"], capture_output=True, text=True, timeout=300, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert len(run.stdout.splitlines()) >= 8
