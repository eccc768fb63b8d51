"""The debug build under load: every step is checked for allocations (P5) and lost blocks (P3), and
a violation aborts the server."""
import random

import pytest

from quire import DEBUG_BIN, in_threads


@pytest.mark.threads
@pytest.mark.parametrize("flags", [
    ("--kv-memory", "1g"),
    ("--kv-memory", "1m", "--max-sequences", "24", "--prefill-chunk", "40", "--preemption", "recompute"),
    ("--kv-memory", "1m", "--max-sequences", "24", "--prefill-chunk", "40", "--preemption", "swap"),
], ids=["roomy", "recompute", "swap"])
def test_no_step_allocates(start, flags):
    s = start(*flags, binary=DEBUG_BIN)
    rng = random.Random(5)

    def client(i):
        fields = dict(max_tokens=rng.randrange(5, 40), temperature=rng.choice([0, 0.8]), seed=i,
                      priority=i % 4, ignore_eos=True)
        fields.update(rng.choice([{}, {"logprobs": 5}, {"top_p": 0.9}, {"top_k": 20}, {"min_p": 0.1},
                                  {"repetition_penalty": 1.3, "presence_penalty": 0.5},
                                  {"logit_bias": {"40": 5}}, {"echo": True, "logprobs": 2},
                                  {"min_tokens": 5}, {"stop": ["the"]}]))
        prompt = "Once upon a time there was a fox. " * rng.randrange(1, 8)
        if i % 5 == 0:
            stream = s.stream(prompt, **fields)
            for _, _frame in zip(range(3), stream):
                pass
            stream.reset()
        else:
            s.complete(prompt, **fields)

    if "1m" in flags:  # 25 blocks: a low request that holds ten, a critical one that wants fifteen
        low = s.stream([40] * 150, max_tokens=200, ignore_eos=True, priority="low")
        next(iter(low))
        s.complete([41] * 230, max_tokens=5, ignore_eos=True, priority="critical")
        assert s.metrics()['quire_preemptions_total{mode="%s"}' % flags[-1]] > 0
        assert len(list(low)) > 0 and low.done
    for _ in range(2):
        in_threads([lambda i=i: client(i) for i in range(60)])
    s.wait_idle()
    assert s.metrics()["quire_iterations_total"] > 20
    assert s.stop() == 0, s.read_log()[-2000:]
