"""Two Quires behind vllm-router, which sends a prompt to the replica that has its beginning in the cache."""
import http.client
import itertools
import json
import os
import pathlib
import random
import re
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time

import msgspec
import pytest
import zmq

from kv_event_reader import Reader
from proxies import LUA, free_port, shim_frames, start_nginx, wait_for
from proxies import Reader as StreamReader
from quire import BIN, Server

ROUTER = os.environ["VLLM_ROUTER"]
ANY = "tcp://127.0.0.1:0"
N_PREFIXES, N_REQUESTS = 8, 200
PAGE = pathlib.Path(__file__).resolve().parent.parent.parent / "docker/README.md"
# Room for five of the eight beginnings of some 37 blocks, and for what two requests take besides.
REPLICA = ("--threads", "1", "--kv-memory", "8m", "--swap-ram", "0", "--kv-events", "full", "--kv-events-endpoint", ANY,
           "--kv-events-replay-endpoint", ANY)
WORDS = "the a cat dog girl boy house tree river went saw took gave little big red blue happy sad and then but so".split()


def words(rnd, n):
    return " ".join(rnd.choice(WORDS) for _ in range(n))


def prompts(seed):
    """Requests whose prompts begin in one of eight ways: one of each, then in each round two questions, one after the
    other, about each of the eight texts in any order: [(number of the beginning, prompt)]."""
    rnd = random.Random(seed)
    openings = [words(rnd, 560) for _ in range(N_PREFIXES)]
    order = list(range(N_PREFIXES))
    while len(order) < N_REQUESTS:
        order += [k for k in rnd.sample(range(N_PREFIXES), N_PREFIXES) for _ in range(2)]
    order = order[:N_REQUESTS]
    return [(k, f"{openings[k]} number {i} is") for i, k in enumerate(order)]


class Router:
    """A process of vllm-router, once it answers."""

    def __init__(self, command, port):
        self.port = port
        self.log = tempfile.NamedTemporaryFile(prefix="quire-router-", suffix=".log")
        self.process = subprocess.Popen([*command, "--port", str(port), "--prometheus-port", str(free_port()), "--log-level", "debug"],
                                        stdout=self.log, stderr=self.log)
        self.wait_ready()

    def wait_ready(self):
        begin = time.monotonic()
        while True:
            assert self.process.poll() is None and time.monotonic() - begin < 120, self.read_log()
            try:
                if self.post({"model": "quire-demo", "prompt": "Once", "max_tokens": 1}).status == 200:
                    return
            except OSError:
                pass
            time.sleep(0.1)

    def post(self, body, timeout=60):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            c.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
            r = c.getresponse()
            text = r.read()
            r.json = json.loads(text) if r.status == 200 else None  # the router's own errors are plain text
            return r
        finally:
            c.close()

    def read_log(self):
        return open(self.log.name, encoding="utf-8", errors="replace").read()

    def stream(self, body, timeout=60):
        """What of a stream's text came, and whether it came to its end."""
        c, text = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout), ""
        try:
            c.request("POST", "/v1/completions", json.dumps({**body, "stream": True}), {"Content-Type": "application/json"})
            r = c.getresponse()
            if r.status != 200:
                return text, False
            for line in r:
                if line == b"data: [DONE]\n":
                    return text, True
                if line.startswith(b"data: {"):
                    frame = json.loads(line[6:])
                    text += "".join(choice["text"] for choice in frame.get("choices", []))
            return text, False
        except (OSError, http.client.HTTPException):
            return text, False
        finally:
            c.close()

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def url(s):
    return f"http://127.0.0.1:{s.port}"


def source(s):
    where = s.get("/kv_event_sources").json["0"]
    return where["endpoint"], where["replay_endpoint"]


def route(servers, sources=None):
    """A router before the servers. sources: {a server's URL: (endpoint, endpoint of the replay)}, else round robin."""
    flags = ["--policy", "round_robin"] if sources is None else ["--policy", "kv_aware", "--kv-event-model", "quire-demo"]
    for u, (endpoint, replay) in (sources or {}).items():
        flags += ["--kv-event-source", f"{u}={endpoint}", "--kv-event-replay-source", f"{u}={replay}"]
    return Router([ROUTER, "--worker-startup-check-interval", "1", *flags, "--worker-urls", *map(url, servers)], free_port())


def body_of(prompt):
    return {"model": "quire-demo", "prompt": prompt, "max_tokens": 4, "temperature": 0}


class Load:
    """Clients that post the prompts through a router: for each prompt the status, the text, the cached tokens. As many
    as there are beginnings come at once, and n_stay of them go on. streams: every other one is a stream, whose status
    is 200 or "cut"."""

    def __init__(self, router, jobs, n_stay=1, streams=False):
        self.streams, self.router, self.jobs, self.lock, self.results = streams, router, list(enumerate(jobs)), threading.Lock(), {}
        self.threads = [threading.Thread(target=self.work, args=(i < n_stay,)) for i in range(N_PREFIXES)]
        for t in self.threads:
            t.start()

    def work(self, stays):
        for n in itertools.count():
            with self.lock:
                if not self.jobs or (n > 0 and not stays):
                    return
                i, (_, prompt) = self.jobs.pop(0)
            found = self.stream(prompt) if self.streams and i % 2 else self.ask(prompt)
            with self.lock:
                self.results[i] = found

    def ask(self, prompt):
        try:
            r = self.router.post(body_of(prompt))
        except (OSError, http.client.HTTPException) as e:
            return type(e).__name__, None, 0
        if r.status != 200:
            return r.status, None, 0
        return 200, r.json["choices"][0]["text"], r.json["usage"]["prompt_tokens_details"]["cached_tokens"]

    def stream(self, prompt):
        text, is_whole = self.router.stream(body_of(prompt))
        return 200 if is_whole else "cut", text, 0

    def n_done(self):
        with self.lock:
            return len(self.results)

    def join(self):
        for t in self.threads:
            t.join(120)
            assert not t.is_alive(), "a client hangs"
        return [self.results[i] for i in range(len(self.results))]


@pytest.fixture
def start():
    running = []

    def make(kind, *args, **kw):
        running.append(kind(*args, **kw))
        return running[-1]

    yield make
    for x in reversed(running):
        if not isinstance(x, Server) or x.process.poll() is None:
            x.stop()


def replicas(start):
    return [start(Server, *REPLICA) for _ in range(2)]


@pytest.fixture(scope="module")
def answers():
    """What one server alone answers: {prompt: text}."""
    s, out = Server("--threads", "1"), {}
    for seed in (1, 2):
        for _, prompt in prompts(seed):
            out[prompt] = s.complete(prompt, max_tokens=4, temperature=0).text
    s.stop()
    return out


def run_load(start, aware, answers):
    """The share of the prompts' tokens that were cached, and how many it were on each replica."""
    servers = replicas(start)
    router = start(route, servers, {url(s): source(s) for s in servers} if aware else None)
    jobs = prompts(1)
    results = Load(router, jobs).join()
    assert [r[0] for r in results] == [200] * N_REQUESTS
    assert [r[1] for r in results] == [answers[p] for _, p in jobs]
    return sum(r[2] for r in results)


def test_cached_tokens(start, answers):
    """By the events 1.6 times as many tokens are found in a cache as in turn, and all answers are one server's."""
    in_turn, aware = run_load(start, False, answers), run_load(start, True, answers)
    print(f"cached tokens of {N_REQUESTS} requests: {in_turn} in turn, {aware} by KV events: {aware / in_turn:.2f} times")
    assert aware >= 1.6 * in_turn


def test_a_replica_is_killed(start, answers):
    """Nothing hangs, no answer is wrong, and who asks afterwards is answered by the other one."""
    servers = replicas(start)
    router = start(route, servers, {url(s): source(s) for s in servers})
    jobs = prompts(2)
    load = Load(router, jobs, 4, streams=True)
    wait_for(lambda: load.n_done() >= N_REQUESTS // 4)
    os.kill(servers[0].pid, signal.SIGKILL)
    servers[0].process.wait()
    results = load.join()
    good = [r[0] == 200 for r in results]
    for (status, text, _), (_, prompt) in zip(results, jobs):
        assert text == answers[prompt] if status == 200 else answers[prompt].startswith(text or "")
    print(f"of {N_REQUESTS} requests {N_REQUESTS - sum(good)} failed: {sorted({str(r[0]) for r in results})}")
    assert sum(good) >= N_REQUESTS - N_PREFIXES and all(good[-50:])


class Shimmed(Server):
    """docker/nginx before a router, which is the only one that it asks."""

    def __init__(self, router, tmp_path):
        self.port, self.host, self.unix, self.tls, self.key = free_port(), "127.0.0.1", None, None, None
        self.log = open(tmp_path / "nginx.log", "wb")
        self.process = start_nginx([f"127.0.0.1:{router.port}"], self.port, tmp_path, self.log)
        wait_for_port(self.port)

    def stop(self):
        self.process.terminate()
        self.process.wait(20)
        self.log.close()


def long_stream(i):
    """A body whose answer takes a while."""
    return {"model": "quire-demo", "prompt": f"{WORDS[i % len(WORDS)]} is", "max_tokens": 600, "ignore_eos": True,
            "temperature": 0.9, "seed": i, "stream": True}


@pytest.mark.skipif(not LUA.exists(), reason="skip: no nginx with Lua (Debian packages nginx-light, libnginx-mod-http-lua)")
def test_with_the_shim_no_stream_is_cut(start, tmp_path):
    """A replica is killed behind the router, in the middle of streams of which it has its share: each goes on at the
    other one, and has the bytes of a stream that nothing happened to. The one that is killed computes without vectors:
    its streams are slower than it takes to kill it."""
    servers = [start(Server, *REPLICA, "--isa", "scalar"), start(Server, *REPLICA)]
    router = start(route, servers, {url(s): source(s) for s in servers})
    shim = start(Shimmed, router, tmp_path)
    bodies = [long_stream(i) for i in range(16)]
    want = [shim_frames(servers[1], "/v1/completions", b) for b in bodies]
    readers = [StreamReader(shim, "/v1/completions", b) for b in bodies]
    wait_for(lambda: all(len(r.raw) > 2000 for r in readers))
    n_cut = servers[0].metrics()["quire_requests_running"]
    os.kill(servers[0].pid, signal.SIGKILL)
    servers[0].process.wait()
    for r, w in zip(readers, want):
        r.check(w)
    print(f"{n_cut:.0f} of 16 streams were cut, and went on")
    assert n_cut > 0


def wait_for_port(port):
    begin = time.monotonic()
    while time.monotonic() - begin < 60:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.05)
    pytest.fail(f"nothing listens on {port}")


def test_the_commands_of_the_readme(start):
    """As they stand there, on other ports."""
    block = next(b for b in re.findall(r"^```\n(.*?)^```", PAGE.read_text(), re.M | re.S) if "vllm-router --policy" in b)
    ports = {p: free_port() for p in sorted(set(re.findall(r"\b\d{4}\b", block)))}
    commands = re.sub(r"\b\d{4}\b", lambda m: str(ports[m[0]]), block.replace("\\\n", " ")).strip().split("\n")
    assert [c.split()[0] for c in commands] == ["quire", "quire", "vllm-router"] and len(ports) == 6
    servers = []
    try:
        for c in commands[:2]:
            servers.append(subprocess.Popen([BIN, *c.split()[1:]], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        for p in ("8081", "8082"):
            wait_for_port(ports[p])
        router = start(Router, [ROUTER, *commands[2].split()[1:]], free_port())
        usages = [router.post(body_of(" ".join(WORDS * 3))).json["usage"] for _ in range(2)]
        assert usages[1]["prompt_tokens_details"]["cached_tokens"] > 0.8 * usages[1]["prompt_tokens"]
    finally:
        for p in servers:
            p.kill()
            p.wait()


# ---- the events

class EventBatch(msgspec.Struct, array_like=True):
    ts: float
    events: list
    data_parallel_rank: int | None = None


class BlockStored(msgspec.Struct, tag=True, forbid_unknown_fields=True):
    block_hashes: list[bytes | int]
    parent_block_hash: bytes | int | None
    token_ids: list[int]
    block_size: int
    lora_id: int | None
    medium: str | None
    lora_name: str | None
    extra_keys: list[tuple | None] | None = None
    group_idx: int | None = None
    kv_cache_spec_kind: str | None = None
    kv_cache_spec_sliding_window: int | None = None


class BlockRemoved(msgspec.Struct, tag=True, forbid_unknown_fields=True):
    block_hashes: list[bytes | int]
    medium: str | None
    group_idx: int | None = None


class AllBlocksCleared(msgspec.Struct, tag=True, forbid_unknown_fields=True):
    pass


class KVEventBatch(EventBatch):
    events: list[BlockStored | BlockRemoved | AllBlocksCleared]


def by_schema(payload):
    """Decoded by vLLM's schema (its kv_events.py has these classes), then as the plain reader wants it."""
    batch = msgspec.msgpack.decode(payload, type=KVEventBatch)
    plain = msgspec.msgpack.decode(payload)
    assert [type(e).__name__ for e in batch.events] == [e["type"] for e in plain[1]]
    return plain


def test_vllms_schema(start):
    s = start(Server, *REPLICA, "--kv-memory", "3m")
    r = Reader(*source(s), decoder=by_schema)
    r.join()
    for _, prompt in prompts(1)[:40]:
        s.complete(prompt, max_tokens=8)
    assert r.compare(s) > 40 and r.n_changes > 1000
    r.close()


class Lossy:
    """Between a publisher and its readers: with `loses` set nothing passes."""

    def __init__(self, endpoint):
        self.context, self.loses, self.n_lost, self.is_over = zmq.Context(), False, 0, False
        self.sub = self.context.socket(zmq.SUB)
        self.sub.setsockopt(zmq.SUBSCRIBE, b"")
        self.pub = self.context.socket(zmq.PUB)
        self.endpoint = f"tcp://127.0.0.1:{self.pub.bind_to_random_port('tcp://127.0.0.1')}"
        self.sub.connect(endpoint)
        self.last = -1
        self.thread = threading.Thread(target=self.pump, daemon=True)
        self.thread.start()

    def pump(self):
        while not self.is_over:
            if not self.sub.poll(20):
                continue
            frames = self.sub.recv_multipart()
            self.n_lost += self.loses
            if not self.loses:
                self.pub.send_multipart(frames)
            self.last = struct.unpack(">Q", frames[1])[0]

    def wait(self, s):
        wait_for(lambda: self.last >= s.metrics()["quire_kv_event_batches_total"] - 1)

    def stop(self):
        self.is_over = True
        self.thread.join()
        self.context.destroy(linger=0)


def test_a_gap_is_replayed(start):
    """The router misses all events of a prompt, sees the gap at the next one, asks, and routes by what it learns."""
    servers, rnd = replicas(start), random.Random(5)
    between = [start(Lossy, source(s)[0]) for s in servers]
    router = start(route, servers, {url(s): (b.endpoint, source(s)[1]) for s, b in zip(servers, between)})
    missed = [words(rnd, 300) for _ in range(8)]
    for k, prompt in enumerate(missed):
        if k == 2:  # the router has seen batches of both before
            for s, b in zip(servers, between):
                s.complete(words(rnd, 100), max_tokens=1)
                b.wait(s)
                b.loses = True
        servers[k % 2].complete(prompt, max_tokens=1)
    for s, b in zip(servers, between):
        b.wait(s)
        assert b.n_lost > 0
        b.loses = False
        s.complete(words(rnd, 100), max_tokens=1)
        b.wait(s)
    wait_for(lambda: all(s.metrics()["quire_kv_event_replays_total"] > 0 for s in servers))
    time.sleep(0.5)  # for the router to take what it was answered
    for k in range(7, 1, -1):
        usage = router.post(body_of(missed[k] + f" {k}")).json["usage"]
        assert usage["prompt_tokens_details"]["cached_tokens"] > 0.9 * usage["prompt_tokens"], k
