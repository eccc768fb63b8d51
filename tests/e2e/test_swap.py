"""Memory too small for everybody: sequences are swapped to RAM and to a file, and nobody notices."""
import os
import random
import resource
import signal
import threading
import time

import pytest

from quire import Server, check_prometheus, in_threads, serve_in_vain

# 25 blocks; copies go through RAM for four of them to the file.
TINY = ("--kv-memory", "1m", "--max-sequences", "16", "--prefill-chunk", "64")


def outcome(m, name):
    return m['quire_requests_total{endpoint="completions",outcome="%s"}' % name]


def files(path, ram="200k", size="64m"):
    return ("--swap-ram", ram, "--swap-file", str(path), "--swap-file-size", size)


def jobs_for(s, n, seed):
    """Requests that together need far more than there is; half of them begin alike."""
    rng = random.Random(seed)
    bodies = []
    for i in range(n):
        head = [33] * 64 if i % 2 else []
        bodies.append(dict(prompt=head + [40 + rng.randrange(300) for _ in range(rng.randrange(4, 60))],
                           max_tokens=rng.randrange(20, 160), temperature=rng.choice([0, 1]), seed=i,
                           priority=rng.randrange(4), ignore_eos=True, logprobs=1))
    return bodies


def answer_of(s, body):
    """Text and log-probabilities. With patience: under a sanitizer a crowd in too little memory takes minutes."""
    r = s.post("/v1/completions", body, timeout=600)
    assert r.status == 200, r.body
    choice = r.json["choices"][0]
    return choice["text"], choice["logprobs"]


def ledger(m):
    """T15: what must hold in every scrape."""
    free, cached, held = (m['quire_kv_blocks{state="%s"}' % k] for k in ("free", "cached", "held"))
    assert free + cached + held == m["quire_kv_blocks_total"] > 0
    assert abs(m["quire_kv_usage_ratio"] - held / m["quire_kv_blocks_total"]) < 1e-6
    for tier in ("ram", "file"):
        used, room = (m['quire_swap_%s{tier="%s"}' % (k, tier)] for k in ("bytes", "capacity_bytes"))
        assert 0 <= used <= room
    assert m["quire_requests_swapped"] <= m["quire_requests_preempted"]
    assert m["quire_prefix_cache_hits_tokens_total"] <= m["quire_prefix_cache_queries_tokens_total"]


def under_watch(s, jobs):
    """Run the jobs while somebody scrapes; returns the results and the number of scrapes."""
    over, errors, n = threading.Event(), [], [0]

    def watch():
        while not over.is_set():
            try:
                ledger(s.metrics())
            except BaseException as e:  # noqa: BLE001 - told below
                errors.append(e)
                return
            n[0] += 1

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        results = in_threads(jobs)
    finally:
        over.set()
        watcher.join()
    if errors:
        raise errors[0]
    return results, n[0]


@pytest.mark.parametrize("flags", [
    ("--preemption", "recompute", "--swap-ram", "0"),
    ("--preemption", "swap", "--swap-ram", "64m", "--threads", "2"),
    pytest.param(("--preemption", "swap", "file", "--threads", "2"), marks=pytest.mark.threads),
    ("--preemption", "auto", "file"),
    ("--preemption", "swap", "file", "--prefix-cache", "off"),
    ("--preemption", "swap", "full", "--prefix-cache", "off"),
], ids=["recompute", "ram", "file", "auto", "file-without-cache", "file-on-a-full-disk"])
def test_pressure_changes_no_answer(start, tmp_path, flags):
    """P1 and T15: every answer is the one of a machine with room; blocks and bytes add up throughout."""
    path = tmp_path / "swap"
    is_full = "full" in flags
    flags = [f for flag in flags for f in (files(path) if flag in ("file", "full") else (flag,))]
    bodies = jobs_for(None, 32, seed=3)
    roomy = start()
    expected = [answer_of(roomy, w) for w in bodies]
    s = start(*TINY, *flags)
    if is_full:  # the kernel takes no more than the header and two blocks or so
        resource.prlimit(s.pid, resource.RLIMIT_FSIZE, (100_000, 100_000))
    got, n_scrapes = under_watch(s, [lambda w=w: answer_of(s, w) for w in bodies])
    assert got == expected
    assert n_scrapes > 3
    s.wait_idle()
    m = s.metrics()
    mode = "recompute" if flags[1] == "recompute" else "swap"
    if flags[1] != "auto":
        assert m['quire_preemptions_total{mode="%s"}' % mode] > 0
    assert (m['quire_swap_errors_total{direction="out"}'] > 0) == is_full
    assert outcome(m, "length") == 32 and outcome(m, "error") == 0
    assert m['quire_swap_bytes{tier="ram"}'] == m['quire_swap_bytes{tier="file"}'] == 0
    if mode == "swap" and flags[1] == "swap":
        assert m['quire_swap_blocks_total{direction="out",tier="ram"}'] > 0
        assert m['quire_swap_blocks_total{direction="in",tier="ram"}'] > 0
    page = s.get("/metrics").body
    assert s.stop() == 0
    assert not path.exists(), "the file is removed at the end"
    check_prometheus(page)


def crowd_out(s):
    """Eight low requests of three blocks each, thrown out by a critical one that wants nearly all. The
    copies of those that come back first stay in RAM, the others go to the file. Without speculation they have not
    ended before the critical one comes."""
    low = [s.stream([50 + i] * 33, max_tokens=60, ignore_eos=True, temperature=0, priority="low")
           for i in range(8)]
    for stream in low:
        next(iter(stream))
    high = s.stream([90] * 330, max_tokens=60, ignore_eos=True, temperature=0, priority="critical")
    s.wait_until(lambda m: m['quire_swap_bytes{tier="file"}'] > 0, what="a copy in the file")
    return low, high


def test_the_file_is_used(start, tmp_path):
    """The RAM is more than half full of copies: the oldest go to the file, and come back."""
    s = start(*TINY, *files(tmp_path / "swap", ram="1m"), "--preemption", "swap", "--isa", "scalar", "--speculation", "off")
    low, high = crowd_out(s)
    texts = in_threads([stream.text for stream in (high, *low)])
    assert texts[0] and all(stream.done for stream in (high, *low))
    s.wait_idle()
    m = s.metrics()
    assert m['quire_swap_blocks_total{direction="out",tier="file"}'] > 0
    assert m['quire_swap_blocks_total{direction="in",tier="file"}'] > 0
    assert m['quire_swap_errors_total{direction="out"}'] == m['quire_swap_errors_total{direction="in"}'] == 0


def test_clients_that_leave_while_swapped(start, tmp_path):
    """T13 where the sequence is nowhere in memory."""
    s = start(*TINY, *files(tmp_path / "swap"), "--preemption", "swap")
    for round in range(4):
        streams = [s.stream([60 + i] * 80, max_tokens=300, ignore_eos=True, priority=i % 3) for i in range(12)]
        s.wait_until(lambda m: m["quire_requests_swapped"] > 0 or m["quire_requests_running"] == 0, 10,
                     "swapped")
        for i, stream in enumerate(streams):
            stream.reset() if i % 2 else stream.close()
        s.wait_idle(10)
        m = s.metrics()
        assert m["quire_requests_swapped"] == 0
    s.wait_until(lambda m: m['quire_swap_bytes{tier="ram"}'] == m['quire_swap_bytes{tier="file"}'] == 0,
                 what="copies dropped")
    assert s.stop() == 0


def test_sigterm_while_swapping(start, tmp_path):
    """Draining finishes what was begun; a second signal does not wait for it. The file goes."""
    for twice in (False, True):
        path = tmp_path / f"swap{twice}"
        s = start(*TINY, *files(path), "--preemption", "swap")
        # Ten prompts of one request begin together, however slowly a client comes to ask.
        streams = [s.stream([[60 + i] * 50 for i in range(10)], max_tokens=120, ignore_eos=True)]
        s.wait_until(lambda m: m['quire_preemptions_total{mode="swap"}'] > 0, what="swapped")
        s.process.send_signal(signal.SIGTERM)
        if twice:
            time.sleep(0.05)
            s.process.send_signal(signal.SIGTERM)
        ends = [list(stream)[-1] for stream in streams]
        if not twice:
            assert all("error" not in e for e in ends)
        assert s.stop() == 0
        assert not path.exists()


# ---- the file

def refused(*flags):
    run = serve_in_vain(*flags)
    assert run.returncode in (1, 2), run
    assert "event=ready" not in run.stderr
    return run.stderr


def test_foreign_file_is_left_alone(tmp_path):
    path = tmp_path / "letters.txt"
    path.write_text("dear aunt")
    assert str(path) in refused(*files(path))
    assert path.read_text() == "dear aunt"
    big = tmp_path / "letters.bin"
    big.write_bytes(os.urandom(100000))
    before = big.read_bytes()
    assert str(big) in refused(*files(big))
    assert big.read_bytes() == before
    assert str(tmp_path) in refused(*files(tmp_path))
    nowhere = tmp_path / "no/such/folder/swap"
    assert str(nowhere) in refused(*files(nowhere))


def test_a_file_in_use_is_refused(start, tmp_path):
    path = tmp_path / "swap"
    s = start(*files(path))
    assert path.exists()
    assert str(path) in refused(*files(path))
    assert path.exists() and s.complete("Once", max_tokens=2).status == 200
    s.stop()
    assert not path.exists()


def test_settings_of_the_file(tmp_path):
    err = refused("--swap-file", tmp_path / "x")
    assert "swap_file_size" in err and "above 0" in err
    err = refused("--swap-file", tmp_path / "x", "--swap-file-size", "1k")
    assert "swap_file_size" in err and "1024" in err and "too small" in err
    assert not (tmp_path / "x").exists()


def test_staging_is_told(start, tmp_path):
    s = start(*files(tmp_path / "swap", ram="0"))
    assert "swap_ram_use=staging_for_the_file" in s.read_log()
    assert s.metrics()['quire_swap_capacity_bytes{tier="ram"}'] > 0


def test_kill_while_writing(tmp_path):
    """kill -9 in the middle of it leaves a file; the next start takes it over and is clean."""
    path = tmp_path / "swap"
    flags = (*TINY, *files(path, ram="1m"), "--preemption", "swap", "--isa", "scalar", "--speculation", "off")
    for _ in range(2):
        s = Server(*flags)
        crowd_out(s)
        s.process.kill()
        s.process.wait()
        assert path.exists()
    s = Server(*flags)
    m = s.metrics()
    assert m['quire_swap_bytes{tier="file"}'] == 0 and m['quire_swap_bytes{tier="ram"}'] == 0
    low, high = crowd_out(s)
    high.close()
    for stream in low:
        assert "error" not in list(stream)[-1] and stream.done
    s.wait_idle()
    assert s.stop() == 0
    assert not path.exists()
