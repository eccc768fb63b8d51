"""The sampler beside its definition (tests/reference/sampler.py): random rows of logits with equals and tokens that may not come,
random settings, each order that a request can ask for: the same tokens with the same shares. 100,000 of them with QUIRE_SLOW=1."""
import json
import os
import random
import struct
import subprocess
import sys

import pytest

from quire import SLOW

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "reference"))
import sampler  # noqa: E402

N = 100000 if SLOW else 4000
TOOL = os.path.join(os.environ.get("QUIRE_TOOLS", "build/tools"), "sampler")
LLAMA_ORDER = ["top_n_sigma", "top_k", "typical_p", "top_p", "min_p", "xtc", "temperature"]
OFF = {"temperature": 1.0, "top_p": 1.0, "min_p": 0.0, "top_k": 0, "repetition_penalty": 1.0, "frequency_penalty": 0.0,
       "presence_penalty": 0.0, "typical_p": 1.0, "xtc_probability": 0.0, "xtc_threshold": 0.1, "mirostat_tau": 0.0, "mu": 0.0,
       "dry_multiplier": 0.0, "dry_base": 1.75, "dry_allowed_length": 2, "dry_last_n": 4096, "penalty_last_n": 0,
       "top_n_sigma": 0.0, "dynatemp_range": 0.0, "dynatemp_exponent": 1.0, "min_keep": 0, "n_prompt": 0, "ban_eog": False,
       "eog": [], "history": [], "bias": [], "allowed": None, "bad_words": None, "dry_breakers": [], "chain": []}


def f32(x):
    return struct.unpack("f", struct.pack("f", x))[0]


def logits_of(rng):
    n = rng.choice([1, 2, 3, 20, 40, 70]) if rng.random() < 0.98 else rng.randrange(1100, 4000)
    wide, steps = rng.choice([0.1, 2, 8, 40]), rng.choice([0, 0, 3, 12])
    x = [rng.uniform(-wide, wide) if steps == 0 else rng.randrange(-steps, steps) * wide / steps for _ in range(n)]
    if rng.random() < 0.3:
        x[rng.randrange(n)] += 10
    row = [None if rng.random() < 0.1 else f32(v) for v in x]
    return row if any(v is not None for v in row) else [0.0] * n


def cuts_of(rng):
    """Each cut is off as often as not."""
    return {"top_k": rng.choice([1, 2, 5, 40, 2000]), "top_p": rng.choice([0.05, 0.5, 0.9, 0.99]),
            "min_p": rng.choice([0.02, 0.2, 0.6, 1.0]), "typical_p": rng.choice([0.1, 0.5, 0.95]), "xtc_probability": 1.0,
            "top_n_sigma": rng.uniform(0.1, 3), "temperature": rng.choice([0, 0.1, 0.7, 1.3, 5.0])}


def changes_of(rng, n):
    length = rng.randrange(0, 60)
    few = rng.randrange(1, 6)
    case = {"history": [rng.randrange(min(n, few)) for _ in range(length)]}
    case["n_prompt"] = rng.randrange(length + 1)
    ids = lambda most: [rng.randrange(n) for _ in range(rng.randrange(most))]
    if rng.random() < 0.5:
        case.update(repetition_penalty=rng.choice([0.7, 1.0, 1.3]), frequency_penalty=rng.choice([-1.0, 0, 0.4]),
                    presence_penalty=rng.choice([-0.5, 0, 1.1]), penalty_last_n=rng.choice([0, 0, 7, 64]))
    if rng.random() < 0.5:
        case.update(dry_multiplier=rng.choice([0.1, 0.8]), dry_base=rng.choice([1.0, 1.1, 1.75]), dry_breakers=ids(3),
                    dry_allowed_length=rng.randrange(1, 4), dry_last_n=rng.choice([0, 10, 4096]))
    if rng.random() < 0.3:
        case.update(bias=[[i, rng.uniform(-5, 5)] for i in set(ids(4))], bad_words=[ids(4) + [rng.randrange(n)] for _ in range(3)])
    if rng.random() < 0.2:
        case.update(eog=ids(3), ban_eog=True)
    if rng.random() < 0.1:
        case["allowed"] = ids(n) + [rng.randrange(n)]
    return case


def case_of(rng):
    case = dict(OFF, logits=logits_of(rng))
    case.update({k: v for k, v in cuts_of(rng).items() if rng.random() < 0.4})
    case["xtc_threshold"] = rng.choice([0.02, 0.1, 0.3])
    if rng.random() < 0.4:
        case.update(changes_of(rng, len(case["logits"])))
    order = rng.random()
    if order < 0.35:
        case["chain"] = list(LLAMA_ORDER)
    elif order < 0.65:
        case["chain"] = [rng.choice(LLAMA_ORDER) for _ in range(rng.randrange(1, 9))]
    elif order < 0.72:
        case.update(mirostat_tau=5.0, mu=rng.uniform(0, 12))
    if case["chain"]:
        case.update(min_keep=rng.choice([0, 0, 0, 1, 3, 50]), dynatemp_range=rng.choice([0, 0, 0.5, 2]),
                    dynatemp_exponent=rng.choice([0.5, 1, 2]))
    else:
        case["top_n_sigma"] = 0.0
    return {k: f32(v) if isinstance(v, float) else v for k, v in case.items()} | {
        "bias": [[i, f32(b)] for i, b in case["bias"]]}


@pytest.fixture(scope="module")
def tool():
    with subprocess.Popen([TOOL], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.stdin.close()


def ask(tool, case):
    sent = {k: v for k, v in case.items() if v is not None}
    tool.stdin.write(json.dumps(sent) + "\n")
    tool.stdin.flush()
    return json.loads(tool.stdout.readline())


def settings_of(case):
    return {k: v for k, v in case.items() if k != "logits" and v != OFF.get(k)}


def check(tool, case):
    """False: undecided."""
    want, is_decided = sampler.shares(case)
    if not is_decided:
        return False
    got = ask(tool, case)
    told = (settings_of(case), case["logits"][:80])
    assert len(got) == len(want), (len(got), len(want), told)
    assert {i for i, _ in got} == {i for i, _ in want}, told
    by_id = dict(want)
    for i, p in got:
        assert abs(p - by_id[i]) < 1e-5 + 3e-4 * by_id[i], (i, p, by_id[i], told)
    return True


@pytest.mark.parametrize("part", range(4))
def test_the_chain_is_its_definition(tool, part):
    rng = random.Random(part)
    n = sum(check(tool, case_of(rng)) for _ in range(N // 4))
    assert n > 0.8 * (N // 4), n


def case(**fields):
    return dict(OFF, **fields)


@pytest.mark.parametrize("fields", [
    {"logits": [0.0] * 1500, "top_p": f32(1200.5 / 1500), "chain": ["top_p"]},
    {"logits": [0.0] * 3000, "dynatemp_range": 0.5, "chain": ["temperature"]},
    {"logits": [1.0] * 5 + [0.0] * 2995, "xtc_probability": 1.0, "xtc_threshold": f32(0.0005), "chain": ["xtc", "top_k"], "top_k": 2900},
    {"logits": [120.0, 110.0, 0.0, -40.0], "top_k": 3, "temperature": 100.0, "chain": ["top_k", "temperature"]},
    {"logits": [0.0] * 1500, "typical_p": f32(1200.5 / 1500)},
    {"logits": [0.0] * 2000, "mirostat_tau": 5.0, "mu": 12.0},
    {"logits": [0.0] * 9, "history": [1, 2, 3, 7, 1, 2, 3], "dry_multiplier": f32(0.8), "dry_breakers": [7]},
])
def test_corners(tool, fields):
    assert check(tool, case(**fields))
