"""Speculative decoding of models with recurrent states: behind wrong guesses a state is what it would be without them.

Each kind of state. Debug servers compute every guess, whatever it costs, and some that are random; their answers, log-
probabilities included, are those of a server that makes none."""
import pathlib
import random
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "reference"))

import fixtures  # noqa: E402
from quire import DEBUG_BIN, SLOW, Server  # noqa: E402
from test_speculation import answers  # noqa: E402

KINDS = [("lfm2", "plain"), ("qwen35", "plain"), ("kimi-linear", "plain"), ("mamba", "plain"), ("mamba2", "plain"),
         ("jamba", "plain"), ("falcon-h1", "plain"), ("nemotron_h", "plain")]
N = 120 if SLOW else 16
FLAGS = ("--context", "512", "--max-sequences", "8", "--prefill-chunk", "48", "--state-interval", "16")


@pytest.fixture(scope="module", params=KINDS, ids=[k[0] for k in KINDS])
def model(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("states") / "model.gguf"
    path.write_bytes(fixtures.make(*request.param, "Q8_0"))
    return path


@pytest.fixture(scope="module")
def plain(model):
    s = Server(*FLAGS, "--speculation", "off", model=model)
    yield s
    assert s.stop() == 0


def drafting(model, drafts, *flags):
    return Server(*FLAGS, *map(str, flags), model=model, binary=DEBUG_BIN, env={"QUIRE_DEBUG_DRAFTS": drafts})


def bodies_of(seed, n):
    """Some more than once, with another temperature: earlier answers are right for a while."""
    r, bodies = random.Random(seed), []
    for _ in range(n):
        prompt = [r.randrange(36) for _ in range(r.choice([1, 2, 15, 16, 17, 60]))]
        body = {"prompt": prompt, "max_tokens": r.randint(20, 60), "seed": r.randint(0, 9), "ignore_eos": True, "logprobs": 1,
                **r.choice([{}, {}, {"n": 2}, {"presence_penalty": 0.5}])}
        bodies += [{**body, "temperature": t} for t in (0, 0.4, 0.4)]
    return bodies


def tokens_of(server):
    """Guessed, and right; of all sources but those of tests."""
    m = server.metrics()
    return [sum(v for k, v in m.items() if k.startswith(f"quire_spec_{what}_tokens_total{{")) for what in ("draft", "accepted")]


@pytest.mark.parametrize("drafts", ["always", "5:500"])
def test_same_answers(plain, model, drafts):
    bodies = bodies_of(3, N)
    expected = answers(plain, bodies)
    s = drafting(model, drafts)
    assert answers(s, bodies) == expected
    drafted, accepted = tokens_of(s)
    assert 0 < accepted < drafted and s.stop() == 0
    assert tokens_of(plain) == [0, 0]


@pytest.mark.parametrize("flags", [("--preemption", "recompute"), ("--swap-ram", "8m")], ids=["recompute", "swap"])
def test_under_preemption(plain, model, flags):
    """States are few, and are copied, dropped and computed again between guesses."""
    bodies = [{**b, "max_tokens": 90} for b in bodies_of(5, N // 2)]
    expected = answers(plain, bodies)
    s = drafting(model, "9:300", "--kv-memory", "1m", "--state-memory", "512k", *flags)
    assert answers(s, bodies) == expected
    drafted, accepted = tokens_of(s)
    assert 0 < accepted < drafted and s.stop() == 0
