"""KV events over ZeroMQ: an independent reader has the index at every pause, whatever it missed."""
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import time

import pytest
import zmq

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "reference"))

import adapter_files  # noqa: E402
import fixtures  # noqa: E402
import gguf_file  # noqa: E402
from kv_event_reader import Reader  # noqa: E402
from quire import DEBUG_BIN, SANITIZED, SLOW, in_threads, serve_in_vain  # noqa: E402

DEMO = pathlib.Path(__file__).parent.parent.parent / "config/demo/quire-demo.gguf"

N_EVENTS = 100000 if SLOW else 10000
ANY = "tcp://127.0.0.1:0"
SMALL = ("--context", "256", "--kv-memory", "2m", "--max-sequences", "8", "--swap-ram", "2m", "--preemption", "swap")


def events(*flags, full=True):
    return ("--kv-events", "full" if full else "on", "--kv-events-endpoint", ANY, "--kv-events-replay-endpoint", ANY, *flags)


def source(s, query=""):
    return s.get(f"/kv_event_sources{query}").json["0"]


@pytest.fixture
def reader():
    """reader(server, …) -> Reader, which has joined; closed at the end of the test."""
    readers = []

    def make(s, replay=True, query="", **kw):
        where = source(s, query)
        readers.append(Reader(where["endpoint"], where["replay_endpoint"] if replay else None, **kw))
        readers[-1].join()
        return readers[-1]

    yield make
    for r in readers:
        r.close()


WORDS = "the a cat dog girl boy house tree river went saw took gave little big red blue happy sad and then but so".split()


class Traffic:
    """Requests that share beginnings, fork, are cancelled, and are more than the cache holds."""

    def __init__(self, s, seed):
        self.s, self.rnd = s, random.Random(seed)
        self.openings = [self.words(self.rnd.randrange(5, 150)) for _ in range(12)]

    def words(self, n):
        return " ".join(self.rnd.choice(WORDS) for _ in range(n))

    def one(self):
        body = {"prompt": self.rnd.choice(self.openings) + " " + self.words(self.rnd.randrange(40)),
                "max_tokens": self.rnd.choice([1, 8, 20, 80]), "temperature": 1, "seed": self.rnd.randrange(1000)}
        if self.rnd.random() < 0.3:
            body["n"] = 2
        if self.rnd.random() < 0.2:
            body["cache_salt"] = self.rnd.choice(["ann", "bob"])
        leaves = self.rnd.random() < 0.2
        return lambda: self.leave(body) if leaves else self.s.post("/v1/completions", body)

    def leave(self, body):
        stream = self.s.stream(body.pop("prompt"), **body)
        for _ in zip(range(2), stream):
            pass
        stream.close()

    def burst(self, n=10):
        jobs = [self.one() for _ in range(n)]
        for r in in_threads(jobs):
            assert r is None or r.status == 200, r.body
        self.s.wait_idle()


def test_the_reader_has_the_index(start, reader):
    s = start(*SMALL, *events())
    r, t, n_pauses = reader(s, replay=False), Traffic(s, 1), 0
    while r.n_changes < N_EVENTS or n_pauses < 5:
        t.burst()
        assert r.compare(s) > 10
        n_pauses += 1
    m = s.metrics()
    assert m["quire_prefix_evictions_total"] > 100 and m['quire_preemptions_total{mode="swap"}'] > 0
    assert m['quire_kv_events_total{result="dropped"}'] == 0 and m['quire_kv_events_total{result="sent"}'] == r.n_events
    assert m["quire_kv_event_batches_total"] == r.last + 1 and m["quire_kv_event_bytes_total"] > 100 * r.n_events
    assert r.n_cleared == 1


@pytest.mark.parametrize("arch", ["gemma3", "qwen35", "mamba2"])
def test_windows_and_states(start, reader, tmp_path, arch):
    """What is told of are the layers that see everything, and of models without any all whole blocks."""
    path = tmp_path / "model.gguf"
    path.write_bytes(fixtures.make(arch, "plain", "F32"))
    n_vocab = fixtures.Fixture(arch, "plain", "F32", 1, fixtures.N_CTX).n_vocab
    s = start(*events("--kv-memory", "1m", "--max-sequences", "16", "--prefill-chunk", "64"), model=path)
    r, rnd = reader(s), random.Random(9)
    for _ in range(4):
        jobs = [{"prompt": [7 * k % n_vocab for k in range(rnd.choice([0, 40]))] + [rnd.randrange(n_vocab) for _ in range(30)],
                 "max_tokens": rnd.randrange(100, 200), "ignore_eos": True, "seed": i} for i in range(16)]
        assert {a.status for a in in_threads([lambda b=b: s.post("/v1/completions", b, timeout=300) for b in jobs])} == {200}
        s.wait_idle()
        assert r.compare(s) > 10
    assert r.n_changes > 500


def test_tokens_are_those_of_the_prompts(start, reader):
    s = start(*events())
    r, prompts = reader(s), [" ".join(WORDS * 2), " ".join(WORDS[::-1] * 3)]
    for p in prompts:
        s.complete(p, max_tokens=1)
    r.compare(s)
    texts = sorted(r.texts().values(), key=len)
    for p in prompts:
        [ids] = s.post("/v1/completions/render", {"prompt": p}).json
        ids = ids["token_ids"]
        whole = [ids[:n] for n in range(16, len(ids) + 1, 16)]
        assert whole and all(w in texts for w in whole)
    assert all(b.lora is None and b.extra is None for b in r.blocks.values())


def test_hashes_only(start, reader):
    s = start(*events(full=False))
    r = reader(s, has_tokens=False)
    s.complete(" ".join(WORDS), max_tokens=30)
    assert r.compare(s) > 1


def test_salts_and_tenants_are_told_apart(start, reader):
    s = start(*events("--tenant-header", "X-Tenant"))
    r, prompt = reader(s), " ".join(WORDS)
    answers = [({}, {}), ({"cache_salt": "ann"}, {}), ({"cache_salt": "bob"}, {}), ({}, {"X-Tenant": "carol"})]
    for fields, headers in answers:
        assert s.post("/v1/completions", {"prompt": prompt, "max_tokens": 1, **fields}, headers=headers).status == 200
    r.compare(s)
    first = [b for b in r.blocks.values() if b.parent is None]
    assert len(first) == 4 and len({tuple(b.tokens) for b in first}) == 1
    assert sorted(len(b.extra) for b in first if b.extra) == [1, 1, 1] and len({str(b.extra) for b in first}) == 4
    assert all(b.extra is None for b in r.blocks.values() if b.parent is not None)


def test_adapters_have_their_names(start, reader, tmp_path):
    adapter = adapter_files.make(gguf_file.read(DEMO.read_bytes()), 4, "F16")
    (tmp_path / "tale.gguf").write_bytes(adapter_files.gguf("llama", adapter, 8, "F16"))
    s = start(*events("--adapters", f"tale={tmp_path}/tale.gguf"))
    r = reader(s)
    for model in ("quire-demo", "tale"):
        assert s.post("/v1/completions", {"model": model, "prompt": " ".join(WORDS), "max_tokens": 1}).status == 200
    r.compare(s)
    assert {b.lora for b in r.blocks.values()} == {None, "tale"}
    assert all(b.extra == ([b.lora] if b.lora else None) for b in r.blocks.values())


# ---- who misses something

@pytest.mark.threads
def test_what_is_missing_is_asked_for(start, reader):
    """Batches are lost on the way at random; those that are kept come again. The thread sanitizer does not see how
    ZeroMQ's threads hand messages on, and is told not to look there."""
    rnd = random.Random(3)
    s = start(*SMALL, *events(), env={"TSAN_OPTIONS": "ignore_noninstrumented_modules=1"})
    r, t = reader(s, lose=lambda number: number > 0 and rnd.random() < 0.2), Traffic(s, 2)
    for _ in range(6):
        t.burst(6)
        r.read_all(s)
        r.lose = None
        t.burst(1)  # a batch that does come shows the gap
        r.compare(s)
        r.lose = lambda number: rnd.random() < 0.2
    assert r.n_lost > 5 and r.n_replayed >= r.n_lost and r.n_cleared == 1


def test_what_is_no_longer_kept_comes_as_a_whole(start, reader):
    s = start(*SMALL, *events("--kv-events-buffer-steps", "16"))
    r, t = reader(s, lose=lambda number: number > 3), Traffic(s, 4)
    while r.n_cleared < 4:
        for _ in range(2):
            t.burst()
        r.read_all(s)
        r.lose = None
        t.burst(1)
        r.compare(s)
        r.lose = lambda number: True
        assert r.last < 5000
    assert r.n_lost > 3 * 16
    assert len(r.ask(0)) >= 1 and r.ask(r.last + 1) == r.ask(2**63) == []


def test_questions_that_are_none(start, reader):
    s = start(*events())
    r = reader(s)
    for frames in ([b""], [b"", b"123"], [b"x", bytes(8)], [b"", bytes(8), b""], [b"", bytes(100)], [bytes(8)] * 40, [b"", bytes(5000)]):
        d = r.context.socket(zmq.DEALER)
        d.connect(r.replay)
        d.send_multipart(frames)
        assert not d.poll(50)
        d.close(linger=0)
    assert len(r.ask(0)) == 1  # the picture that the reader got when it came
    with socket.create_connection(("127.0.0.1", int(r.replay.rsplit(":", 1)[1]))) as raw:
        raw.sendall(b"GET / HTTP/1.1\r\n\r\n" * 100)
    s.complete(" ".join(WORDS), max_tokens=1)
    r.compare(s)


def test_who_comes_late_has_all(start, reader):
    s = start(*SMALL, *events())
    t = Traffic(s, 5)
    t.burst(20)
    readers = [reader(s, replay=False) for _ in range(2)]
    t.burst(5)
    for r in readers:
        assert r.compare(s) > 10


def test_a_publisher_that_stands_still(start, reader, tmp_path):
    """The engine goes on; what it had to drop comes to everybody as a whole, also while nothing runs."""
    gate = tmp_path / "gate"
    s = start(*SMALL, *events("--kv-events-queue-size", "1024"), binary=DEBUG_BIN, env={"QUIRE_DEBUG_HOLD_KV_EVENTS": str(gate)})
    r, t = reader(s), Traffic(s, 8)
    t.burst()
    r.compare(s)
    os.mkfifo(gate)
    t.burst(1)  # the publisher wakes, and waits at the gate
    before = s.metrics()
    while s.metrics()['quire_kv_events_total{result="dropped"}'] == 0:
        t.burst()
    assert s.metrics()["quire_kv_event_batches_total"] - before["quire_kv_event_batches_total"] <= 1
    end = os.open(gate, os.O_RDWR | os.O_NONBLOCK)
    gate.unlink()
    os.close(end)
    assert r.compare(s) > 10 and r.n_cleared == 2
    t.burst()
    r.compare(s)


def rss(s):
    text = open(f"/proc/{s.pid}/status").read()
    return int(text.split("VmRSS:")[1].split()[0]) * 1024


def test_a_subscriber_that_never_reads(start, reader):
    """It costs its queue and nothing else, and another reader misses nothing."""
    s = start(*SMALL, *events("--kv-events-hwm", "20"))
    deaf = zmq.Context()
    kept = [deaf.socket(zmq.SUB) for _ in range(3)]  # one that is no longer named is closed
    for d in kept:
        d.setsockopt(zmq.RCVHWM, 1)
        d.setsockopt(zmq.RCVBUF, 4096)
        d.setsockopt(zmq.SUBSCRIBE, b"")
        d.connect(source(s)["endpoint"])
    r, t = reader(s), Traffic(s, 6)
    t.burst(20)
    r.compare(s)
    before = rss(s)
    for _ in range(8):
        t.burst(12)
        r.compare(s)
    assert rss(s) - before < (64 << 20 if SANITIZED else 12 << 20)
    deaf.destroy(linger=0)
    t.burst(2)
    r.compare(s)


GREETING = b"\xff\0\0\0\0\0\0\0\1\x7f\3\0NULL" + bytes(48)  # of ZMTP 3.0
READY = b"\5READY\x0bSocket-Type\0\0\0\3SUB"


def subscriber(s):
    """A socket that has greeted, and may say what it likes."""
    host, port = source(s)["endpoint"].removeprefix("tcp://").rsplit(":", 1)
    c = socket.create_connection((host, int(port)), timeout=10)
    c.sendall(GREETING)
    c.sendall(bytes([4, len(READY)]) + READY)
    assert c.recv(64) != b""
    return c


def test_subscriptions_without_end(start, reader):
    """A reader that subscribes to more and more is let go when it is too much, and others go on."""
    s = start(*SMALL, *events())
    r, t, rng = reader(s), Traffic(s, 9), random.Random(9)
    t.burst()
    r.compare(s)
    before = rss(s)
    for _ in range(4):  # a thread of ZeroMQ may take all of a round before the publisher counts it: 500 MB
        sent, n_let_go = 0, s.read_log().count("event=readers_let_go")
        while sent < 16 << 20:
            try:
                c = subscriber(s)
                while sent < 16 << 20:
                    c.sendall(b"".join(b"\2" + (901).to_bytes(8, "big") + b"\1" + rng.randbytes(900) for _ in range(50)))
                    sent += 50 * 910
            except OSError:
                pass
            c.close()
        s.wait_until(lambda m: s.read_log().count("event=readers_let_go") > n_let_go, what="let go")
    t.burst()
    assert r.compare(s) > 10
    assert rss(s) - before < (1500 << 20 if SANITIZED else 900 << 20)


def test_askers_that_never_read(start, reader):
    """They are let go when more is owed to them all than is kept twice, and who reads still gets all."""
    s = start(*SMALL, *events())
    r, t = reader(s), Traffic(s, 10)
    while s.metrics()["quire_kv_event_bytes_total"] < 1 << 20:
        t.burst()
    before, deaf = rss(s), zmq.Context()
    deaf.set(zmq.MAX_SOCKETS, 2000)
    kept = []  # one that is no longer named is closed
    while "event=readers_let_go" not in s.read_log() and len(kept) < 300:
        d = deaf.socket(zmq.DEALER)
        d.setsockopt(zmq.RCVHWM, 1)
        d.setsockopt(zmq.RCVBUF, 1024)
        d.connect(source(s)["replay_endpoint"])
        for _ in range(3):
            d.send_multipart([b"", bytes(8)])
        kept.append(d)
        time.sleep(0.05)
    assert "event=readers_let_go" in s.read_log(), len(kept)
    assert rss(s) - before < (600 << 20 if SANITIZED else 300 << 20)
    deaf.destroy(linger=0)
    assert len(r.ask(0)) > 10
    r.compare(s)


def test_a_process_that_stands_still(start, reader):
    """The engine goes on while a reader is stopped for a while by SIGSTOP."""
    s = start(*SMALL, *events("--kv-events-hwm", "16"))
    where = source(s)
    code = ("import sys, zmq; s = zmq.Context().socket(zmq.SUB); s.setsockopt(zmq.RCVHWM, 2); s.setsockopt(zmq.SUBSCRIBE, b'')\n"
            "s.connect(sys.argv[1]); s.recv_multipart(); print('on', flush=True)\nwhile True: s.recv_multipart()")
    other = subprocess.Popen(["/usr/bin/python3", "-c", code, where["endpoint"]], stdout=subprocess.PIPE)
    try:
        assert other.stdout.readline() == b"on\n"
        os.kill(other.pid, signal.SIGSTOP)
        r, t = reader(s), Traffic(s, 7)
        for _ in range(4):
            t.burst()
            r.compare(s)
    finally:
        other.kill()
        other.wait()


# ---- settings, pages, the end

def test_sources(start):
    s = start(*events("--kv-events-topic", "kv@{host}@{model}" + "x" * 300, "--kv-events-hwm", "7", "--kv-events-buffer-steps", "99"))
    where = source(s)
    assert where["topic"] == f"kv@{socket.gethostname()}@quire-demo" + "x" * 300 and where["endpoint"].startswith("tcp://127.0.0.1:")
    assert where["replay_endpoint"].startswith("tcp://127.0.0.1:") and where["replay_endpoint"] != where["endpoint"]
    assert (where["hwm"], where["buffer_steps"], where["publisher"], where["enable_kv_cache_events"]) == (7, 99, "zmq", True)
    r = Reader(where["endpoint"], topic=where["topic"].encode())
    r.join()
    assert r.compare(s) == 0
    r.close()


def test_without_replay(start):
    s = start("--kv-events", "on", "--kv-events-endpoint", ANY)
    assert source(s)["replay_endpoint"] is None and source(s)["topic"] == ""


def test_models_have_sockets_of_their_own(start, reader):
    """The second one has the next port, and is told apart."""
    port = 10000 + os.getpid() % 4000 * 5  # below those that the system gives to clients
    s = start("--kv-events", "full", "--kv-events-endpoint", f"tcp://127.0.0.1:{port}", "--kv-memory", "64m",
              model=f"a={DEMO},b={DEMO}")
    ends = [source(s, f"?model={m}")["endpoint"] for m in "ab"]
    assert ends == [f"tcp://127.0.0.1:{port + i}" for i in range(2)] and s.get("/kv_event_sources?model=c").status == 404
    readers = [reader(s, query=f"?model={m}") for m in "ab"]
    for m, n in (("a", 20), ("b", 60)):
        assert s.post("/v1/completions", {"model": m, "prompt": " ".join(WORDS), "max_tokens": n, "ignore_eos": True}).status == 200
    s.wait_until(lambda m: m['quire_requests_running{model="b"}'] == 0)
    n_blocks = [r.compare(s, f"&model={m}") for r, m in zip(readers, "ab")]
    assert 0 < n_blocks[0] < n_blocks[1]


def test_the_end_is_told(start, reader):
    s = start(*events())
    r = reader(s)
    s.complete(" ".join(WORDS), max_tokens=20)
    assert r.compare(s) > 1
    begin = time.monotonic()
    assert s.stop() == 0 and time.monotonic() - begin < 20
    while r.blocks:
        assert r.read(2000), "the last batch"
    assert r.n_cleared == 2


def test_idle_costs_nothing(start, reader):
    s = start(*events())
    r = reader(s)
    s.complete(" ".join(WORDS), max_tokens=1)
    r.compare(s)
    time.sleep(0.3)
    before = s.cpu_seconds()
    time.sleep(1)
    assert s.cpu_seconds() - before <= 0.03


@pytest.mark.parametrize("flags, said", [
    (("--kv-events", "on", "--prefix-cache", "off"), "prefix_cache = on"),
    (("--kv-events", "maybe"), "must be one of off|on|full"),
    (("--kv-events", "on", "--kv-events-endpoint", "ipc:///tmp/x"), "'kv_events_endpoint' must be tcp://ADDRESS:PORT"),
    (("--kv-events", "on", "--kv-events-replay-endpoint", "tcp://*:x"), "'kv_events_replay_endpoint' must be tcp://"),
])
def test_settings_that_do_not_work(flags, said):
    run = serve_in_vain(*flags)
    assert run.returncode == 2 and said in run.stderr, run.stderr


def test_a_port_that_is_taken(start):
    s = start(*events())
    run = serve_in_vain("--kv-events", "on", "--kv-events-endpoint", source(s)["endpoint"])
    assert run.returncode == 1 and "'kv_events_endpoint': cannot listen on 127.0.0.1:" in run.stderr


def test_a_process_with_a_lesser_place(start):
    """ZeroMQ's threads say again how the process is scheduled; started by chrt --batch that is not as usual."""
    usual = os.sched_getscheduler(0)
    os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    try:
        s = start(*SMALL, *events())
    finally:
        os.sched_setscheduler(0, usual, os.sched_param(0))
    assert s.complete("Once", max_tokens=1).text
    assert s.stop() == 0
