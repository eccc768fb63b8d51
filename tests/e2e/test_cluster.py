"""cluster_sim: a recorded load on simulated replicas; with QUIRE_SLOW=1 beside two real ones."""
import json
import random
import re
import subprocess
import threading
import time

import pytest

from quire import SLOW, TOOLS, in_threads, make_model
from test_cli import quire
from test_replay import start_module  # noqa: F401  (a fixture)

ROUTERS = ["round-robin", "prefix", "least-loaded"]


@pytest.fixture(scope="module")
def journals(start_module, tmp_path_factory):  # noqa: F811
    """Two servers' journals: eight shared beginnings and a call with three choices, half of them to each."""
    folder = tmp_path_factory.mktemp("cluster")
    paths = [folder / "a", folder / "b"]
    servers = [start_module("--journal", p) for p in paths]
    begin = [f"Rules of house {k}: " + "be kind to paper, and to those who fold it. " * 4 for k in range(8)]
    for round_ in range(4):
        in_threads([lambda i=i: servers[i % 2].complete(begin[(i + round_) % 8] + f"Question {i}", max_tokens=8 + i % 9,
                                                        n=3 if i == 5 else 1, temperature=1, seed=i, ignore_eos=True)
                    for i in range(16)])
    assert all(s.stop() == 0 for s in servers)
    return paths


def cluster_sim(*args):
    run = subprocess.run([f"{TOOLS}/cluster_sim", *map(str, args)], capture_output=True, timeout=120, check=False)
    run.out, run.err = run.stdout.decode(), run.stderr.decode()
    assert "Sanitizer" not in run.err and "runtime error" not in run.err, run.err
    return run


def plan(*args):
    run = cluster_sim(*args, "--json")
    assert run.returncode == 0, run.err
    return json.loads(run.out)


@pytest.mark.parametrize("router", ROUTERS)
def test_one_replica_is_the_replay(journals, router):
    """The same first tokens and gaps as the simulation that --what-if makes of it."""
    own = quire("replay", journals[0], "--what-if", "policy=fcfs").out.splitlines()[-2]
    ended, timeouts, ttft50, ttft99, itl50, _, finish = re.split(r"\s{2,}", own)[1:8]
    one = plan(journals[0], "--replicas", 1, "--router", router, "--costs", "learnt")["runs"][0]
    assert [one["ended"], one["timeouts"]] == [int(ended), int(timeouts)]
    assert [f"{x:.1f}" for x in (one["ttft_ms"]["p50"], one["ttft_ms"]["p99"], one["itl_ms"]["p50"], one["seconds"])] \
        == [ttft50, ttft99, itl50, finish]


@pytest.mark.parametrize("router", ROUTERS)
def test_nothing_is_lost(journals, router):
    args = (*journals, "--replicas", "1,2,5", "--router", router, "--what-if", "max_sequences=2")
    both = plan(*args)
    assert both["requests"] == 4 * 16 + 2 * 4 and both["router"] == router
    assert [(r["replicas"], r["settings"]) for r in both["runs"]] == [
        (n, s) for s in ("its own settings", "max_sequences=2") for n in (1, 2, 5)]
    for run in both["runs"]:
        assert len(run["each"]) == run["replicas"]
        assert run["requests"] == run["ended"] == 72 and run["timeouts"] == run["refused"] == 0
        for key in ("requests", "prompt_tokens", "cached_tokens", "generated_tokens"):
            assert sum(r[key] for r in run["each"]) == run[key]
        assert 0 < run["cached_tokens"] < run["prompt_tokens"]
        assert 0 < run["utilisation"] <= 1
        assert run["ttft_ms"]["p50"] <= run["ttft_ms"]["p95"] <= run["ttft_ms"]["p99"]
    assert plan(*args) == both  # again, to the same


def test_journals_stand_in_the_order_of_their_times(journals):
    """Two replicas that take turns, as the client did, find what the real ones found; one finds more."""
    runs = plan(*journals, "--replicas", "1,2")["runs"]
    assert runs[0]["cached_tokens"] > runs[1]["cached_tokens"]
    assert [r["requests"] for r in runs[1]["each"]] == pytest.approx([36, 36], abs=4)
    assert plan(*reversed(journals), "--replicas", "2")["runs"][0]["requests"] == 72


def test_prefix_router_finds_more(journals):
    """Requests that come one by one: of eight beginnings each is computed on one replica, and not on four."""
    cached = {router: plan(*journals, "--replicas", 4, "--router", router, "--requests", 60, "--rate", 0.1)
              ["runs"][0]["cached_tokens"] for router in ROUTERS}
    print(cached)
    assert cached["prefix"] > 1.1 * cached["round-robin"]


def test_drawn_and_faster_traffic(journals):
    recorded = plan(*journals, "--replicas", 2, "--costs", "learnt")
    faster = plan(*journals, "--replicas", 2, "--costs", "learnt", "--speed", 4)
    assert faster["requests_per_s"] == pytest.approx(4 * recorded["requests_per_s"])
    assert faster["runs"][0]["seconds"] < recorded["runs"][0]["seconds"]
    drawn = plan(*journals, "--replicas", 2, "--requests", 5000, "--rate", 25)
    assert drawn["drawn"] and drawn["requests"] == drawn["runs"][0]["requests"] == 5000
    assert drawn["runs"][0]["seconds"] == pytest.approx(200, rel=.1)
    assert drawn["runs"][0]["prompt_tokens"] / 5000 == \
        pytest.approx(recorded["runs"][0]["prompt_tokens"] / 72, rel=.05)
    assert plan(*journals, "--replicas", 2, "--requests", 5000, "--rate", 25, "--seed", 2) != drawn


def test_recorded_costs(journals):
    """The slow steps of the run are in its tail, unless told otherwise; the same ones each time."""
    args = (*journals, "--replicas", 2)
    assert plan(*args) == plan(*args, "--costs", "recorded") != plan(*args, "--costs", "learnt")
    assert plan(*args)["runs"][0]["ended"] == 72


def test_find_replicas(journals):
    """The least number that keeps the goal: one fewer does not. So much comes that two replicas are far from it,
    whatever steps took while the journal was made."""
    load, rate = (journals[0], "--requests", 1500, "--router", "least-loaded", "--rate"), 50
    p95 = {2: 0, 256: 0}
    while p95[2] <= 3 * p95[256]:
        rate *= 2
        p95 = {r["replicas"]: r["ttft_ms"]["p95"] for r in plan(*load, rate, "--replicas", "2,256")["runs"]}
    goal = 3 * p95[256]
    found = plan(*load, rate, "--find-replicas", "--ttft-p95", goal)
    n = found["found"]["its own settings"]
    assert n >= 3
    runs = {r["replicas"]: r["ttft_ms"]["p95"] for r in found["runs"]}
    assert runs[n] <= goal < runs[n - 1]
    table = cluster_sim(*load, rate, "--find-replicas", "--ttft-p95", goal)
    assert table.returncode == 0 and table.out.splitlines()[-1] == f"{n} replicas keep TTFT p95 within {goal:.1f} ms"
    never = cluster_sim(*load, rate, "--find-replicas", "--ttft-p95", "0.001")
    assert never.returncode == 1 and "not even 1024 replicas keep TTFT p95 within 0.0 ms" in never.err


def test_many_replicas_in_a_table(journals):
    out = cluster_sim(journals[0], "--replicas", "20").out.splitlines()
    assert [re.split(r"\s{2,}", line.strip())[0] for line in out[-4:-3]] == ["20 replicas"]
    assert all(re.search(p, line) for p, line in
               zip([r"\(least busy\)", r"\(median\)", r"\(busiest\)"], out[-3:], strict=True))


@pytest.mark.parametrize("args, words", [
    (["--replicas", "0"], "--replicas must be"), (["--replicas", "1,"], "--replicas must be"),
    (["--replicas", "2", "--router", "random"], "--router must be"),
    (["--router", "prefix"], "either --replicas"), (["--json"], "either --replicas"), ([], "either --replicas"),
    (["--replicas", "2", "--costs", "none"], "--costs must be"), (["--costs", "learnt"], "either --replicas"),
    (["--costs", "recorded"], "either --replicas"),
    (["--find-replicas"], "go together"), (["--replicas", "2", "--ttft-p95", "5"], "go together"),
    (["--replicas", "2", "--find-replicas", "--ttft-p95", "5"], "either --replicas"),
    (["--replicas", "2", "--rate", "5"], "--rate wants --requests"),
    (["--replicas", "2", "--what-if", "speed=9"], "cannot set 'speed'"),
    (["--replicas"], "needs a value"), (["--replicas", "2", "--speed", "0"], "--speed"),
    (["--replicas", "2", "--replica"], "does not take")])
def test_refused(journals, args, words):
    run = cluster_sim(journals[0], *args)
    assert run.returncode == 2 and words in run.err and run.err.count("\n") == 1 and "TTFT" not in run.out


def test_settings_that_do_not_go_together(journals):
    run = cluster_sim(journals[0], "--replicas", "2", "--what-if", "max_sequences=100000")
    assert run.returncode == 2 and "max_sequences=100000: these settings do not go together" in run.err


# ---- beside reality ----

def first_tokens(servers, load, seconds):
    """Poisson arrivals, one server after the other: times to first token, in milliseconds."""
    took, threads = [], []

    def ask(server, prompt, n):
        begin = time.perf_counter()
        frames = iter(server.stream(prompt, max_tokens=n, ignore_eos=True))
        next(frames)
        took.append(1000 * (time.perf_counter() - begin))
        for _ in frames:
            pass

    start = time.perf_counter()
    for i, (at, prompt, n) in enumerate(load):
        time.sleep(max(0, start + at * seconds - time.perf_counter()))
        threads.append(threading.Thread(target=ask, args=(servers[i % len(servers)], prompt, n)))
        threads[-1].start()
    for t in threads:
        t.join()
    return sorted(took)


@pytest.mark.quiet
@pytest.mark.skipif(not SLOW, reason="skip: a minute of load on two servers (QUIRE_SLOW=1)")
def test_as_two_real_servers(start_module, tmp_path):  # noqa: F811
    """Predicted times to first token, from the two journals alone, within 15 % of what a client measured."""
    model = make_model(tmp_path / "m.gguf", "--shape", "qwen2.5-0.5b", "--layers", "8", "--type", "Q8_0")
    paths = [tmp_path / "a", tmp_path / "b"]
    servers = [start_module("--model", model, "--journal", p, "--threads", "1", "--pin", "none") for p in paths]
    rng = random.Random(11)
    at, load = 0.0, []
    for i in range(120):
        at += rng.expovariate(1)
        words = rng.randint(10, 60)
        load.append((at, f"{i} " + " ".join(rng.choice(["paper", "fold", "quire", "ink", "bind"]) for _ in range(words)),
                     rng.randint(8, 40)))
    real = first_tokens(servers, load, 0.4)
    assert all(s.stop() == 0 for s in servers)
    said = plan(*paths, "--replicas", 2)["runs"][0]
    for percent in (50, 95):
        measured, predicted = real[(len(real) - 1) * percent // 100], said["ttft_ms"][f"p{percent}"]
        print(f"TTFT p{percent}: measured {measured:.1f} ms, predicted {predicted:.1f} ms ({predicted / measured - 1:+.1%})"
              f"; utilisation {said['utilisation']:.0%}")
        assert predicted == pytest.approx(measured, rel=.15)
