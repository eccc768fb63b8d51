"""Models whose layers keep a state: beginnings are taken up at snapshots, whoever has to make room, and nobody notices."""
import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

from quire import BIN, DEBUG_BIN, in_threads
from test_windows import answers, bodies_for, under_pressure

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "reference"))

import fixtures  # noqa: E402
import hybrid_fixtures  # noqa: E402

# One that has keys beside its states, one whose states are small, one that has nothing else.
FAMILIES = [("qwen35", "plain"), ("lfm2", "plain"), ("mamba2", "plain")]
EVERY = 256  # tokens between two snapshots, unless the settings say otherwise


@pytest.fixture(params=FAMILIES, ids=lambda p: p[0])
def path(request, tmp_path):
    file = tmp_path / f"{request.param[0]}.gguf"
    file.write_bytes(fixtures.make(*request.param, "F32", n_ctx=4096))
    return file


def planned(path, *flags):
    out = subprocess.run([BIN, "plan", "--json", "--model", path, *flags], capture_output=True, text=True, check=True)
    return json.loads(out.stdout)


def n_vocab(path):
    return fixtures.Fixture(path.stem, dict(FAMILIES)[path.stem], "F32", 1, 4096).n_vocab


def ask(s, ids, **more):
    r = s.post("/v1/completions", dict(prompt=ids, max_tokens=4, temperature=0, logprobs=3, ignore_eos=True, **more), timeout=300)
    assert r.status == 200, r.body
    return r.json["choices"], r.json["usage"]["prompt_tokens_details"]["cached_tokens"]


def states(m):
    return [m['quire_states{state="%s"}' % k] for k in ("free", "cached", "held")]


def test_a_beginning_is_taken_up_at_a_snapshot(start, path):
    """The last one before the two texts part: at most an interval is computed again. The answer is that of a server without a cache."""
    vocab = n_vocab(path)
    text = [(7 * i * i + i) % vocab for i in range(1100)]
    plain = start("--prefix-cache", "off", model=path)
    for every, flags in ((EVERY, ()), (48, ("--state-interval", "33"))):
        s = start(*flags, model=path, binary=DEBUG_BIN)
        assert ask(s, text)[1] == 0
        for n in (0, 1, 47, 48, 255, 256, 257, 700, 1024, 1099):
            ids = text[:n] + [(11 * i + n + 5) % vocab for i in range(20)]
            choices, cached = ask(s, ids)
            step = every if n < 16 * every else 2 * every
            assert cached == n // step * step, n
            assert choices == ask(plain, ids)[0], n
        s.wait_idle()
        m = s.metrics()
        assert m["quire_state_snapshots"] >= min(1100 // every, 16) and states(m)[2] == 0
        assert s.stop() == 0
    assert ask(plain, text)[1] == 0 and plain.metrics()["quire_state_snapshots"] == 0


@pytest.mark.parametrize("arch", hybrid_fixtures.SERVED)
def test_every_split(start, tmp_path, arch):
    """Prompts that part from a text after n tokens, each taken up at a snapshot: as computed from the beginning, to the bit.
    QUIRE_SPLITS=1: every n up to 700, not one of some dozen."""
    file = tmp_path / f"{arch}.gguf"
    file.write_bytes(fixtures.make(arch, "plain", "Q8_0", n_ctx=1024))
    vocab = fixtures.Fixture(arch, "plain", "Q8_0", 1, 1024).n_vocab
    text = [(7 * i * i + i) % vocab for i in range(700)]
    splits = range(0, 701, int(os.environ.get("QUIRE_SPLITS", "53")))
    prompts = [text[:n] + [(11 * i + n + 5) % vocab for i in range(3)] for n in splits]
    found = []
    for flags in (("--prefix-cache", "off"), ("--state-interval", "64")):
        s = start("--kv-memory", "64m", "--context", "1024", *flags, model=file, binary=DEBUG_BIN)
        assert ask(s, text)[1] == 0
        found.append([answers(s, dict(prompt=prompts[i:i + 32], max_tokens=2, temperature=0, logprobs=3, ignore_eos=True))
                      for i in range(0, len(prompts), 32)])
        cached = s.metrics()["quire_cached_tokens_total"]
        assert cached == (sum(n // 64 * 64 for n in splits) if "off" not in flags else 0)
    assert found[0] == found[1]


def test_snapshots_keep_to_their_room(start, path):
    """Of more texts than fit the last ones are there; requests always find a state."""
    vocab = n_vocab(path)
    one = planned(path)["state_bytes"]
    memory = max(1 << 20, 24 * one)
    s = start("--kv-memory", str(memory), "--state-memory", str(9 * one), "--state-interval", "16", model=path, binary=DEBUG_BIN)
    texts = [[(7 * i * i + 3 * i * k + k) % vocab for i in range(100)] for k in range(12)]
    together = in_threads([lambda t=t: ask(s, t)[0] for t in texts])
    s.wait_idle()
    m = s.metrics()
    assert sum(states(m)) == 9 and m["quire_state_snapshots"] <= 9 and m["quire_state_evictions_total"] > 0
    assert ask(s, texts[-1])[1] in (0, 96)
    assert ask(s, texts[-1])[1] == 96
    plain = start("--prefix-cache", "off", model=path)
    assert together == [ask(plain, t)[0] for t in texts]


@pytest.mark.parametrize("cache", ["on", "off"])
def test_choices_share_their_prompt(start, path, cache):
    """It is computed once, and only its last token for each choice; the first word of each is its own."""
    vocab = n_vocab(path)
    s = start("--kv-memory", "8m", "--prefix-cache", cache, model=path, binary=DEBUG_BIN)
    for n in (1, 2, 16, 17, 255, 256, 257, 300):
        body = dict(prompt=[(7 * i * i + n) % vocab for i in range(n)], max_tokens=20, temperature=1, logprobs=2, ignore_eos=True)
        before = s.metrics()["quire_prompt_tokens_total"]
        together = answers(s, dict(body, seed=5, n=8))
        assert s.metrics()["quire_prompt_tokens_total"] - before == n + 7, n
        assert together == [answers(s, dict(body, seed=5 + k))[0] for k in range(8)], n
        assert len({text for text, _ in together}) > 1


def test_pressure_changes_no_answer(start, path, tmp_path):
    """P1, P2 and P3: alone, thrown out and computed again, copied to RAM and to a file, with shared beginnings or without.
    And the journal says all that the plans depend on."""
    bodies = bodies_for(n_vocab(path))[:32]
    roomy = start("--kv-memory", "256m", "--prefix-cache", "off", model=path)
    expected = [answers(roomy, w) for w in bodies]
    one = planned(path)["state_bytes"]
    room = ("--kv-memory", str((1 << 20) + 40 * one), "--state-memory", str(40 * one), "--state-interval", "32",
            "--max-sequences", "20", "--prefill-chunk", "64")
    for flags in (("--preemption", "recompute", "--swap-ram", "0"),
                  ("--preemption", "swap", "--swap-ram", "256m"),
                  ("--preemption", "swap", "--swap-ram", "0", "--swap-file", str(tmp_path / "swap"), "--swap-file-size", "256m")):
        journal = tmp_path / "journal"
        journal.unlink(missing_ok=True)
        s = start(*room, *flags, "--journal", str(journal), model=path, binary=DEBUG_BIN)
        m = under_pressure(s, bodies, expected, 'quire_preemptions_total{mode="%s"}' % flags[1])
        assert m["quire_prefix_cache_hits_tokens_total"] > 0
        assert m['quire_kv_blocks{state="held"}'] == 0 and states(m)[2] == 0
        assert s.stop() == 0
        replayed = subprocess.run([BIN, "replay", journal], capture_output=True, text=True, check=False)
        assert replayed.returncode == 0 and "plans equal" in replayed.stdout, replayed.stderr


def test_room_is_told(start, path):
    """quire plan and the log say what a state takes; too little is refused with the setting's name; no more run than there are states."""
    plan = planned(path, "--kv-memory", "64m")
    assert plan["state_bytes"] > 0 and 0 < plan["states_bytes"] <= 64 << 20
    inspected = subprocess.run([BIN, "inspect", path], capture_output=True, text=True, check=True).stdout
    found = re.search(r"a sequence's state takes (\d+) bytes", inspected)
    assert 0 < int(found.group(1)) <= plan["state_bytes"]
    text = subprocess.run([BIN, "plan", "--model", path], capture_output=True, text=True, check=True).stdout
    assert "of recurrent layers" in text
    few = subprocess.run([BIN, "plan", "--model", path, "--state-memory", str(plan["state_bytes"])], capture_output=True, text=True,
                         check=False)
    assert few.returncode == 2 and "recurrent states" in few.stderr
    s = start("--state-memory", str(7 * plan["state_bytes"]), model=path)
    assert s.get("/props").json["total_slots"] == 3
    assert "max_sequences is lowered to 3 instead of 256" in s.read_log()
    assert "state_slots=7" in s.read_log()
    assert s.get("/debug/kv").json["states"]["total"] == 7


def test_slots_are_not_saved(start, path, tmp_path):
    s = start("--slot-save-path", str(tmp_path), model=path)
    r = s.post("/slots/0?action=save", {"filename": "x"})
    assert r.status == 501 and "recurrent" in r.json["error"]["message"]
