"""Layers with a window beside layers that see everything: what has passed is given back, and nobody notices."""
import json
import pathlib
import random
import subprocess
import sys

import pytest

from quire import BIN, DEBUG_BIN, in_threads

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "reference"))

import fixtures  # noqa: E402

N_REQUESTS = 64
ROOMY = ("--kv-memory", "64m", "--max-sequences", "4")
# Many more sequences at a time than there is room for.
TINY = ("--kv-memory", "1m", "--max-sequences", str(N_REQUESTS), "--prefill-chunk", "64")


def bodies_for(n_vocab):
    """Half of them begin alike, with more tokens than a window has. Those with two choices end with a block."""
    rng = random.Random(5)
    bodies = []
    for i in range(N_REQUESTS):
        head = [7 * k % n_vocab for k in range(40)] if i % 2 else []
        own = [rng.randrange(n_vocab) for _ in range(rng.randrange(4, 30) if i % 8 != 3 else 24)]
        bodies.append(dict(prompt=head + own, max_tokens=rng.randrange(150, 300), seed=i, ignore_eos=True,
                           temperature=rng.choice([0, 1]), priority=rng.randrange(4), logprobs=2,
                           n=2 if i % 8 == 3 else 1))
    return bodies


def answers(s, body):
    r = s.post("/v1/completions", body, timeout=600)
    assert r.status == 200, r.body
    return [(c["text"], c["logprobs"]) for c in r.json["choices"]]


def under_pressure(s, bodies, expected, counter):
    """The metrics once somebody had to make room: the machine may take its time until all are there."""
    for _ in range(100):
        assert in_threads([lambda w=w: answers(s, w) for w in bodies]) == expected
        s.wait_idle()
        m = s.metrics()
        if m[counter] > 0:
            return m
    raise AssertionError(f"nobody had to make room: {s.gauges()}")


@pytest.mark.parametrize("arch,variant", [("gemma3", "plain"), ("gpt-oss", "plain"), ("gemma4", "rows"), ("llama4", "plain")])
def test_pressure_changes_no_answer(start, tmp_path, arch, variant):
    """P1, P2 and P3: alone, thrown out and computed again, copied to RAM, with shared beginnings or without.
    And the journal says all that the plans depend on."""
    path = tmp_path / "windows.gguf"
    path.write_bytes(fixtures.make(arch, variant, "F32"))
    bodies = bodies_for(fixtures.Fixture(arch, variant, "F32", 1, fixtures.N_CTX).n_vocab)
    roomy = start(*ROOMY, "--prefix-cache", "off", model=path)
    expected = [answers(roomy, w) for w in bodies]
    for flags in (("--preemption", "recompute", "--swap-ram", "0"),
                  ("--preemption", "swap", "--swap-ram", "64m"),
                  ("--preemption", "swap", "--swap-ram", "64m", "--prefix-cache", "off")):
        journal = tmp_path / "journal"
        journal.unlink(missing_ok=True)
        s = start(*TINY, *flags, "--journal", str(journal), model=path, binary=DEBUG_BIN)
        m = under_pressure(s, bodies, expected, 'quire_preemptions_total{mode="%s"}' % flags[1])
        assert (m["quire_prefix_cache_hits_tokens_total"] > 0) == ("off" not in flags)
        assert m['quire_kv_blocks{state="held"}'] == 0
        assert s.stop() == 0
        replayed = subprocess.run([BIN, "replay", journal], capture_output=True, text=True, check=False)
        assert replayed.returncode == 0 and "plans equal" in replayed.stdout, replayed.stderr


@pytest.mark.parametrize("cache", ["on", "off"])
@pytest.mark.parametrize("arch,variant", [("gemma3", "plain"), ("phi3", "window")])
def test_choices_share_their_prompt(start, tmp_path, arch, variant, cache):
    """Of any length: it is computed once, and only its last token for each choice. phi3: all layers have a window."""
    path = tmp_path / "windows.gguf"
    path.write_bytes(fixtures.make(arch, variant, "F32"))
    s = start(*ROOMY, "--prefix-cache", cache, model=path, binary=DEBUG_BIN)
    n_vocab = fixtures.Fixture(arch, variant, "F32", 1, fixtures.N_CTX).n_vocab
    for n in (15, 16, 17, 31, 32, 33, 159, 160, 161):
        body = dict(prompt=[(7 * i * i + n) % n_vocab for i in range(n)], max_tokens=20, temperature=1, logprobs=2,
                    ignore_eos=True)
        before = s.metrics()["quire_prompt_tokens_total"]
        together = answers(s, dict(body, seed=5, n=4))
        assert s.metrics()["quire_prompt_tokens_total"] - before == n + 3, n
        assert together == [answers(s, dict(body, seed=5 + k))[0] for k in range(4)], n
        assert len({text for text, _ in together}) > 1
    s.wait_idle()
    assert s.metrics()['quire_kv_blocks{state="held"}'] == 0


def test_a_window_leaves_room(start, tmp_path):
    """The same cache holds a text that is longer where six layers of seven have a window than where none has."""
    longest = {}
    for variant in ("plain", "global"):
        path = tmp_path / f"{variant}.gguf"
        path.write_bytes(fixtures.make("gemma3", variant, "F32", n_ctx=65536))
        plan = subprocess.run([BIN, "plan", "--json", "--model", path, "--kv-memory", "1m"], check=True,
                              capture_output=True)
        longest[variant] = json.loads(plan.stdout)["context"]
    assert longest["plain"] > 6 * longest["global"]
    ids = tmp_path / "ids.json"
    ids.write_text(json.dumps([i * i % 30 for i in range(longest["plain"] + 100)]))
    scored = subprocess.run([BIN, "score", "--ids", ids, "--model", tmp_path / "plain.gguf", "--kv-memory", "1m"],
                            capture_output=True, text=True, check=False)
    assert scored.returncode == 0 and "mean_nll" in scored.stdout, scored.stderr
    s = start("--kv-memory", "1m", model=tmp_path / "plain.gguf", binary=DEBUG_BIN)
    r = s.post("/v1/completions", dict(prompt=[9] * (longest["plain"] - 20), max_tokens=20, ignore_eos=True),
               timeout=600)
    assert r.status == 200 and r.json["usage"]["total_tokens"] == longest["plain"]
