"""A draft model guesses tokens, and changes no answer: whatever it is, whatever is asked for, and however short its room.

Debug servers ask it in every step, and compute all that it guesses (QUIRE_DEBUG_DRAFTS)."""
import json
import pathlib
import random
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "reference"))

import fixtures  # noqa: E402
from quire import DEBUG_BIN, Server, crowd, preemptions  # noqa: E402
from test_cli import quire  # noqa: E402
from test_speculation import FLAGS, N, STORY, answer, answers, body_of  # noqa: E402

DEMO = pathlib.Path(__file__).parents[2] / "config/demo/quire-demo.gguf"


def bodies_of(seed, n, **fields):
    r = random.Random(seed)
    bodies = [{**body_of(r), **fields} for _ in range(n)]
    for b in bodies:
        b.pop("prediction", None)
    return bodies


@pytest.fixture(scope="module")
def noisy(tmp_path_factory):
    """The demo model with some of its weights overwritten: it is right often, and wrong often."""
    data = bytearray(DEMO.read_bytes())
    r = random.Random(1)
    for _ in range(4000):
        data[r.randrange(len(data) // 3, len(data))] ^= 1 << r.randrange(6)
    path = tmp_path_factory.mktemp("draft") / "noisy.gguf"
    path.write_bytes(data)
    return path


@pytest.fixture(scope="module")
def plain():
    s = Server(*FLAGS, "--speculation", "off")
    yield s
    assert s.stop() == 0


def drafting(draft, *flags, drafts="always"):
    return Server(*FLAGS, "--draft", draft, *flags, binary=DEBUG_BIN, env={"QUIRE_DEBUG_DRAFTS": drafts})


def model_drafts(server):
    m = server.metrics()
    return tuple(m[f'quire_spec_{what}_total{{source="draft_model"}}']
                 for what in ("drafts", "draft_tokens", "accepted_tokens"))


@pytest.mark.isa
def test_same_answers(plain, noisy):
    bodies = bodies_of(3, N)
    expected = answers(plain, bodies)
    for draft, drafts in ((DEMO, "always"), (noisy, "always"), (noisy, "7:300")):
        s = drafting(draft, drafts=drafts)
        for body, a, b in zip(bodies, expected, answers(s, bodies)):
            assert a == b, body
        runs, drafted, accepted = model_drafts(s)
        assert 0 < runs < drafted and 0 < accepted < drafted
        assert s.stop() == 0


@pytest.mark.parametrize("temperature", [0, 0.9])
def test_the_model_itself(temperature):
    """As its own draft model it is never wrong, at any temperature: seeds and positions are the same."""
    s = drafting(DEMO)
    body = {"prompt": "The cat sat on", "max_tokens": 100, "temperature": temperature, "seed": 4, "ignore_eos": True}
    for prompt in ("The cat sat on", "Tom had", "One day a dog"):
        s.post("/v1/completions", {**body, "prompt": prompt})
    runs, drafted, accepted = model_drafts(s)
    assert runs > 10 and accepted == drafted > 4 * runs
    assert s.stop() == 0


def test_under_preemption(plain, noisy):
    """Sequences leave their slots and come back in others, and the draft model's cache is full all the time."""
    bodies = bodies_of(5, 40, max_tokens=80, ignore_eos=True, min_tokens=0)
    expected = answers(plain, bodies)
    for flags in (("--preemption", "recompute"), ("--swap-ram", "4m")):
        s = drafting(noisy, "--kv-memory", "1m", "--draft-kv-memory", "1m", *flags)
        assert answers(s, bodies) == expected
        assert crowd(s) == crowd(plain) and preemptions(s.metrics()) > 0
        assert model_drafts(s)[2] > 0
        assert s.stop() == 0


def test_shifted_contexts(noisy):
    flags = ("--context", "64", "--context-shift", "on")
    bodies = [{"prompt": "a b c d", "max_tokens": 200, "ignore_eos": True, "temperature": t, "seed": 1} for t in (0, 0.8)]
    texts = []
    for s in (Server(*flags, "--speculation", "off"), drafting(noisy, *flags)):
        texts.append([answer(s, b) for b in bodies])
        assert s.metrics()["quire_context_shifts_total"] > 0
        assert s.stop() == 0
    assert texts[0] == texts[1]


@pytest.mark.parametrize("arch", ["gemma3", "gpt-oss", "deepseek2"])
def test_draft_models_of_other_kinds(arch, tmp_path):
    """Windows, experts and latent attention have caches of their own."""
    for name in "llama", arch:
        case = next(c for c in fixtures.cases() if c[0] == name)
        (tmp_path / f"{name}.gguf").write_bytes(fixtures.make(*case, "F32"))
    flags = ("--model", tmp_path / "llama.gguf", "--context", "200")
    bodies = [{"prompt": [5 + i] * (1 + 7 * i), "max_tokens": 60, "ignore_eos": True, "seed": i, "temperature": i % 2}
              for i in range(12)]
    texts = []
    for s in (Server(*flags, "--speculation", "off"), drafting(tmp_path / f"{arch}.gguf", *flags)):
        texts.append(answers(s, bodies))
        assert s.stop() == 0
    assert texts[0] == texts[1]


def test_prefixes_are_shared(noisy):
    """What it has taken in of a prompt, a piece beside each step, is there for the next request: it guesses at once."""
    s = drafting(noisy, "--speculation-history", "0")
    r = random.Random(2)
    prompt = [r.randrange(100, 400) for _ in range(400)]
    runs = []
    for ending in 7, 8:
        n = model_drafts(s)[0]
        s.post("/v1/completions", {"prompt": prompt + [ending], "max_tokens": 8, "temperature": 0, "ignore_eos": True,
                                   "logit_bias": {"50": -100}})
        runs.append(model_drafts(s)[0] - n)
    assert runs[0] < runs[1] and s.stop() == 0


def test_costs_are_told(plain):
    """Without the debug build's "always": whether it is asked follows from these; the answer does not."""
    s = Server(*FLAGS, "--draft", DEMO)
    body = {"prompt": "The cat sat on", "max_tokens": 400, "temperature": 0.9, "seed": 4, "ignore_eos": True}
    assert s.post("/v1/completions", body).text == plain.post("/v1/completions", body).text
    costs = s.get("/debug/iterations").json["draft_costs"]["draft_model"]
    assert len(costs["guess_ms"]) == 64 and costs["take_in_row_ms"] > 0
    assert s.stop() == 0


def test_replay(noisy, tmp_path):
    path = tmp_path / "journal"
    s = drafting(noisy, "--journal", path, "--kv-memory", "1m")
    answers(s, bodies_of(9, 40))
    s.wait_idle()
    assert model_drafts(s)[0] > 0 and s.stop() == 0
    run = quire("replay", path)
    assert run.returncode == 0, run.err


# ---- settings ----

def refused(*flags):
    run = quire("serve", *map(str, flags))
    assert run.returncode != 0
    return run.err


def test_refused(tmp_path):
    assert "draft model '/nowhere': /nowhere: cannot open" in refused("--draft", "/nowhere")
    other = tmp_path / "other.gguf"
    other.write_bytes(fixtures.make(*next(c for c in fixtures.cases() if c[0] == "llama"), "F32"))
    assert "same vocabulary" in refused("--draft", other)


def test_planned(noisy):
    def plan(*flags):
        run = quire("plan", "--json", *map(str, flags))
        assert run.returncode == 0, run.err
        return json.loads(run.out)

    without, with_draft = plan(), plan("--draft", noisy)
    assert without["draft_bytes"] == 0
    assert with_draft["draft_bytes"] > with_draft["weight_bytes"] + with_draft["cache_bytes"]
    assert with_draft["total_bytes"] >= without["total_bytes"] + with_draft["draft_bytes"]
    small = plan("--draft", noisy, "--draft-kv-memory", "2m")
    assert small["draft_bytes"] < with_draft["draft_bytes"] - (512 << 20)
    assert plan("--draft", noisy, "--speculation", "off")["draft_bytes"] == 0
