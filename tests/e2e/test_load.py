"""Many clients at once: isolation, accounting, refusal at the limit."""
import json
import random
import threading
import time

import pytest

from quire import BIN, admitted, in_threads

N_STREAMS = 256


@pytest.mark.threads
def test_a_crowd_with_a_third_vanishing(start):
    s = start("--max-sequences", "256")
    prompts = ["Once upon a time", "The little dog", "A big red ball", "Lily and Tom went"]
    rng = random.Random(1)

    def fields(i):
        if i % 2:
            return dict(max_tokens=24, temperature=0, ignore_eos=True)
        return dict(max_tokens=24, temperature=1, seed=i % 8, ignore_eos=True)

    alone = {}
    for i in range(8 * len(prompts)):
        key = (i % len(prompts), json.dumps(fields(i)))
        if key not in alone:
            alone[key] = s.complete(prompts[i % len(prompts)], **fields(i)).text
    s.wait_idle()
    fds = s.n_fds()
    held = s.held_blocks()
    fates = [rng.random() < 1 / 3 for _ in range(N_STREAMS)]
    stop_after = [rng.randrange(0, 12) for _ in range(N_STREAMS)]
    wrong = []

    def client(i):
        stream = s.stream(prompts[i % len(prompts)], **fields(i))
        assert stream.status == 200
        if fates[i]:
            for _, frame in zip(range(stop_after[i]), stream):
                assert "error" not in frame
            stream.reset() if i % 2 else stream.close()
            return
        text = stream.text()
        stream.close()
        if text != alone[(i % len(prompts), json.dumps(fields(i)))] or not stream.done:
            wrong.append((i, text))

    watching = threading.Event()
    sums = []

    def watch():
        while not watching.is_set():
            m = s.metrics()
            sums.append((sum(m['quire_kv_blocks{state="%s"}' % k] for k in ("free", "cached", "held")),
                         m["quire_kv_blocks_total"]))
            time.sleep(0.005)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        in_threads([lambda i=i: client(i) for i in range(N_STREAMS)])
    finally:
        watching.set()
        watcher.join()
    assert not wrong, wrong[:3]
    assert len(sums) > 5 and all(a == b > 0 for a, b in sums)
    s.wait_idle()
    assert s.held_blocks() == held
    s.wait_until(lambda m: s.n_fds() <= fds + 1, what="descriptors back")
    m = s.metrics()
    kept = fates.count(False)
    assert m['quire_requests_total{endpoint="completions",outcome="error"}'] == 0
    assert m['quire_requests_total{endpoint="completions",outcome="length"}'] >= kept + len(alone)


def health_p99(s):
    times = []
    connection = s.connect()
    for _ in range(300):
        begin = time.perf_counter()
        connection.request("GET", "/health")
        assert connection.getresponse().read()
        times.append(time.perf_counter() - begin)
        time.sleep(0.004)
    connection.close()
    return sorted(times)[int(len(times) * 0.99)]


@pytest.mark.quiet
def test_health_is_answered_at_once(start):
    """While both cores prefill: p99 within 10 ms (200 under a sanitizer). Another program on the
    machine can hold up the client as well, so the best of five rounds counts."""
    s = start()
    length = s.get("/v1/models").json["data"][0]["max_model_len"]
    busy = threading.Event()

    def load():
        while not busy.is_set():
            s.post("/v1/completions", {"prompt": [9] * (length - 2), "max_tokens": 1})

    loaders = [threading.Thread(target=load) for _ in range(4)]
    for t in loaders:
        t.start()
    try:
        s.wait_until(lambda m: m["quire_requests_running"] >= 1, what="load")
        limit = 0.2 if "san/" in BIN else 0.010
        rounds = []
        while len(rounds) < 5 and min(rounds, default=limit) >= limit:
            rounds.append(health_p99(s))
    finally:
        busy.set()
        for t in loaders:
            t.join()
    assert min(rounds) < limit, f"p99 {min(rounds) * 1000:.1f} ms at best"


def test_queue_full(start):
    s = start("--max-sequences", "1", "--queue-limit", "2")
    long = dict(max_tokens=100000, ignore_eos=True)
    s.complete("warm", max_tokens=2)
    first = s.stream("Once", **long)
    s.wait_until(lambda m: m["quire_requests_running"] == 1, what="running")
    waiting = [s.stream("Once", **long) for _ in range(2)]
    assert [w.headers["X-Queue-Position"] for w in waiting] == ["1", "2"]
    assert first.headers["X-Queue-Position"] is None
    r = s.post("/v1/completions", {"prompt": "Once"})
    e = r.json["error"]
    assert (r.status, e["type"], e["code"]) == (429, "rate_limit_error", "queue_full")
    assert 1 <= int(r.headers["Retry-After"]) <= 60
    assert 50 <= int(r.headers["retry-after-ms"]) <= 60000
    assert int(r.headers["Retry-After"]) == -(-int(r.headers["retry-after-ms"]) // 1000)
    assert r.headers["x-should-retry"] == "true"
    assert s.post("/v1/completions", {"prompt": "Once", "n": 2}).status == 429
    assert s.metrics()['quire_rejections_total{reason="queue_full"}'] == 2
    assert s.get("/health").status == 200 and s.get("/ready").status == 200
    for stream in [first, *waiting]:
        stream.close()
    s.wait_idle()
    r = s.post("/v1/completions", {"prompt": "Once", "n": 4})
    assert r.status == 400, "more choices than can ever be outstanding"
    assert len(s.complete("Once", max_tokens=2, n=3).json["choices"]) == 3


def test_retry_after_follows_the_pace(start):
    """After many quick ends the advice is shorter than after none."""
    s = start("--max-sequences", "1", "--queue-limit", "1")

    def advice():
        long = dict(max_tokens=100000, ignore_eos=True)
        streams = [s.stream("Once", **long) for _ in range(2)]
        r = s.post("/v1/completions", {"prompt": "Once"})
        assert r.status == 429
        for stream in streams:
            stream.close()
        s.wait_until(lambda m: ended(m) == 2 * (len(said) + 1), what="both cancelled")
        said.append(int(r.headers["retry-after-ms"]))

    def ended(m):
        return m['quire_requests_total{endpoint="completions",outcome="cancelled"}']

    said = []
    advice()
    for _ in range(60):
        s.complete("a", max_tokens=1)
    advice()
    assert said[1] < said[0]


def test_priority_goes_first(start, tmp_path):
    journal = tmp_path / "journal"
    s = start("--max-sequences", "1", "--journal", str(journal))
    first = s.stream("Once", max_tokens=100000, ignore_eos=True, priority="critical")
    s.wait_until(lambda m: m["quire_requests_running"] == 1, what="running")

    def client(priority):
        s.complete("Once", max_tokens=5, ignore_eos=True, priority=priority)

    threads = []
    for priority in ("low", "normal", "high"):
        t = threading.Thread(target=client, args=(priority,))
        t.start()
        threads.append(t)
        s.wait_until(lambda m: m['quire_requests_waiting{priority="%s"}' % priority] == 1, what="waiting")
    first.close()
    for t in threads:
        t.join()
    # The journal has the order; that of our threads' waking up would be a guess.
    assert s.stop() == 0
    assert [post["priority"] for post in admitted(journal)] == [3, 2, 1, 0]


def test_idle_burns_nothing(start):
    s = start()
    s.complete("Once", max_tokens=5)
    keep = s.connect()
    keep.request("GET", "/health")
    keep.getresponse().read()
    time.sleep(0.2)
    before = s.cpu_seconds()
    time.sleep(2)
    assert s.cpu_seconds() - before <= 0.02
    keep.close()


def test_many_small_requests(server):
    def client(i):
        for k in range(10):
            r = server.complete(f"number {i}", max_tokens=1 + k % 3, ignore_eos=True).json
            assert r["usage"]["completion_tokens"] == 1 + k % 3
    in_threads([lambda i=i: client(i) for i in range(16)])
    server.wait_idle()
