"""The configurations of docker/haproxy and docker/nginx in a real HAProxy and nginx: a stream goes on at another replica
when its own is killed, stops or is restarted, and its client gets the bytes of a run that nothing happened to."""
import json
import random
import shutil
import signal
import threading
import time

import pytest

from proxies import LUA, Proxy, Reader, body_of, plain, shim_frames, wait_for
from quire import JSON, SLOW, Server, make_key

N_STREAMS = 64

pytestmark = pytest.mark.skipif(
    shutil.which("haproxy") is None or not LUA.exists(),
    reason="skip: no haproxy, or no nginx with Lua (Debian packages haproxy, nginx-light, libnginx-mod-http-lua)")


@pytest.fixture
def proxied(start, tmp_path):
    """proxied(*flags) -> the replicas, and a proxy before them."""
    running = []

    def make(*flags, n=3, **kw):
        replicas = [start(*flags, **kw) for _ in range(n)]
        running.append(Proxy(replicas, tmp_path, **{k: v for k, v in kw.items() if k == "key"}))
        return replicas, running[-1]
    yield make
    for p in running:
        p.stop()


def test_nothing_happens(proxied):
    """Streams, whole answers, errors and the other routes come as from the replica itself."""
    replicas, proxy = proxied(n=2)
    for i in range(3):
        path, body = body_of(i, 30)
        want = shim_frames(replicas[0], path, body)
        got = proxy.post(path, body)
        assert plain(got.body) == plain(want) and got.headers["Content-Type"] == "text/event-stream"
        whole = {**body, "stream": False, "stream_options": None}
        want, got = replicas[0].post(path, whole), proxy.post(path, whole)
        assert plain(got.body) == plain(want.body) and got.headers["X-Request-Id"]
    r = proxy.post("/v1/completions", {"prompt": 7})
    assert (r.status, r.json["error"]["param"]) == (400, "prompt")
    assert proxy.get("/v1/models").json["data"][0]["id"] == "quire-demo"
    assert proxy.post("/tokenize", {"content": "Once"}).status == 200
    two = proxy.post("/v1/completions", {**body_of(0, 20)[1], "n": 2}).body
    assert two.endswith(b"data: [DONE]\n\n")


def test_kill_9(proxied, server):
    """In the middle of streams of every kind: no client can tell. The replicas compute without vectors, so that a stream
    takes longer than killing one."""
    flags = ("--isa", "scalar")
    replicas, proxy = proxied(*flags)
    rng = random.Random(11)
    for round_ in range(4 if SLOW else 2):
        bodies = [body_of(i, 100) for i in range(9)]
        want = [shim_frames(server, *b) for b in bodies]
        readers = [Reader(proxy, *b) for b in bodies]
        wait_for(lambda: all(len(r.raw) > 2000 for r in readers))
        time.sleep(rng.random() * 0.05)
        victim = replicas[round_ % 3]
        victim.process.kill()
        victim.process.wait()
        assert any(not r.raw.endswith(b"[DONE]\n\n") for r in readers)
        for r, w in zip(readers, want):
            r.check(w)
        again = Server("--port", str(victim.port), *flags)
        victim.process, victim.pid = again.process, again.pid
        proxy.wait(lambda: proxy.get("/ready").status == 200)
        time.sleep(1.1)  # HAProxy looks every half second


def test_rolling_restart(proxied, server):
    """Three replicas one after the other, while 64 clients have streams all the time: none is refused, and no byte
    is another one."""
    flags = ("--drain-ms", "10")
    replicas, proxy = proxied(*flags)
    bodies = [body_of(i, 300) for i in range(24)]
    want = [shim_frames(server, *b) for b in bodies]
    over, errors, n, n_cut = threading.Event(), [], [0] * N_STREAMS, 0

    def client(i):
        while not over.is_set():
            k = (i + n[i]) % len(bodies)
            reader = Reader(proxy, *bodies[k])
            try:
                reader.check(want[k])
            except AssertionError as e:
                errors.append(e)
                return
            n[i] += 1
    threads = [threading.Thread(target=client, args=(i,)) for i in range(N_STREAMS)]
    for t in threads:
        t.start()
    for k, old in enumerate(replicas):
        wait_for(lambda k=k: sum(n) > 40 * (k + 1))
        old.wait_until(lambda m: m["quire_requests_running"] >= 4, what="streams")
        old.process.send_signal(signal.SIGTERM)
        assert old.process.wait(30) == 0
        n_cut += "reason=drain_ms" in old.read_log()
        new = Server("--port", str(old.port), *flags)
        old.process, old.pid, old.log = new.process, new.pid, new.log
        time.sleep(1.1)
    over.set()
    for t in threads:
        t.join()
    assert not errors, errors[0]
    assert min(n) > 0 and n_cut > 0, "no stream had to continue at another replica"


def test_a_client_that_leaves(proxied):
    """Its replica stops computing."""
    replicas, proxy = proxied("--context-shift", "on", "--isa", "scalar", n=1)
    c = proxy.connect()
    c.request("POST", "/v1/completions", json.dumps(body_of(0, 100000)[1]), JSON)
    c.getresponse().read(2000)
    replicas[0].wait_until(lambda m: m["quire_requests_running"] == 1, what="running")
    c.close()
    replicas[0].wait_idle()


def test_two_choices_end_with_an_error(proxied):
    replicas, proxy = proxied("--isa", "scalar", n=2)
    reader = Reader(proxy, "/v1/completions", {**body_of(0, 900)[1], "n": 2})
    wait_for(lambda: len(reader.raw) > 3000)
    for r in replicas:
        if r.metrics()["quire_requests_running"]:
            r.process.kill()
            r.process.wait()
    reader.join(60)
    assert b'"the replica is gone"' in reader.raw and reader.raw.endswith(b"data: [DONE]\n\n")


def test_keys_go_along(proxied, tmp_path):
    entry, secret = make_key("alice")
    (tmp_path / "keys").write_text(entry)
    (tmp_path / "keys").chmod(0o600)
    _, proxy = proxied("--api-keys", str(tmp_path / "keys"), n=1, key=secret)
    assert proxy.post("/v1/completions", {"prompt": "x", "max_tokens": 1}).status == 200
    r = proxy.post("/v1/completions", {"prompt": "x"}, headers={"Authorization": "Bearer wrong"})
    assert r.status == 401


def test_no_replica(proxied):
    """All are gone: an error that says so, after a while that settings of the file bound."""
    replicas, proxy = proxied(n=1)
    replicas[0].process.kill()
    replicas[0].process.wait()
    r = proxy.get("/v1/models")
    assert r.status == 503
