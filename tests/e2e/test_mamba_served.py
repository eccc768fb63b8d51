"""Families of Mamba in the server: whoever shares the batch, whatever makes room, and wherever a prompt goes on from."""
import pathlib
import random
import sys

import pytest

from quire import DEBUG_BIN, in_threads, preemptions

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "reference"))

import fixtures  # noqa: E402

N_REQUESTS = 32
ROOMY = ("--kv-memory", "64m", "--max-sequences", "4")
# Fewer slots of states than sequences, a snapshot each block, and chunks that end anywhere.
TIGHT = ("--kv-memory", "2m", "--max-sequences", str(N_REQUESTS), "--prefill-chunk", "64", "--state-interval", "16")

# All layers recurrent, of either kind; some; both in each layer; and layers that are neither.
FAMILIES = [("mamba", "falcon"), ("mamba2", "plain"), ("jamba", "plain"), ("falcon-h1", "biases"), ("nemotron_h_moe", "latent")]


def bodies_for(n_vocab):
    """Half of them begin alike, some with several snapshots in common."""
    rng = random.Random(8)
    bodies = []
    for i in range(N_REQUESTS):
        head = [7 * k % n_vocab for k in range((40, 100)[i % 4 // 2])] if i % 2 else []
        own = [rng.randrange(n_vocab) for _ in range(rng.randrange(4, 30))]
        bodies.append(dict(prompt=head + own, max_tokens=rng.randrange(40, 120), seed=i, ignore_eos=True,
                           temperature=rng.choice([0, 1]), priority=rng.randrange(4), logprobs=2, n=2 if i % 8 == 3 else 1))
    return bodies


def answers(s, body):
    r = s.post("/v1/completions", body, timeout=600)
    assert r.status == 200, r.body
    return [(c["text"], c["logprobs"]) for c in r.json["choices"]]


@pytest.mark.parametrize("arch,variant", FAMILIES, ids=[f[0] for f in FAMILIES])
@pytest.mark.parametrize("swap", ["0", "64m"], ids=["recompute", "swap"])
def test_one_answer(start, tmp_path, arch, variant, swap):
    """P1 and P3: alone and without a cache, or with all others, twice and more, so that they go on from snapshots."""
    path = tmp_path / "model.gguf"
    path.write_bytes(fixtures.make(arch, variant, "Q8_0"))
    bodies = bodies_for(fixtures.Fixture(arch, variant, "Q8_0", 1, fixtures.N_CTX).n_vocab)
    roomy = start(*ROOMY, "--prefix-cache", "off", model=path)
    expected = [answers(roomy, w) for w in bodies]
    s = start(*TIGHT, "--swap-ram", swap, model=path, binary=DEBUG_BIN)
    for i in range(100):
        assert in_threads([lambda w=w: answers(s, w) for w in bodies]) == expected
        s.wait_idle()
        m = s.metrics()
        if i > 0 and preemptions(m) > 0:  # the machine may take its time until all are there
            break
    assert preemptions(m) > 0
    assert m["quire_prefix_cache_hits_tokens_total"] > 0 and m["quire_state_evictions_total"] > 0
    assert m['quire_kv_blocks{state="held"}'] == 0 and m['quire_states{state="held"}'] == 0
    assert s.stop() == 0
