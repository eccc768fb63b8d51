"""TLS: handshakes, streams and disconnects over it, and a certificate that changes while it runs."""
import os
import re
import signal
import socket
import ssl
import time

import pytest

from quire import in_threads, make_certificate, serve_in_vain

LONG = dict(max_tokens=100000, ignore_eos=True, temperature=0)


def trusting(*certificates):
    context = ssl.create_default_context()
    for c in certificates:
        context.load_verify_locations(c)
    return context


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("tls")


@pytest.fixture(scope="module")
def one(folder):
    return make_certificate(folder, "one")


@pytest.fixture(scope="module")
def secure(one):
    from quire import Server
    s = Server("--tls-certificate", str(one[0]), "--tls-key", str(one[1]), tls=trusting(one[0]))
    yield s
    s.stop()


def loop_cpu_s(server):
    """CPU time of the I/O thread, which is the process's first."""
    pid = server.process.pid
    return int(open(f"/proc/{pid}/task/{pid}/schedstat", encoding="ascii").read().split()[0]) / 1e9


def subject(server):
    """Whose certificate a new connection is shown."""
    der = server.socket().getpeercert()
    return dict(pair[0] for pair in der["subject"])["commonName"]


# ---- requests

def test_requests(secure, server):
    assert secure.get("/health").json == {"status": "ok"}
    fields = dict(max_tokens=40, temperature=0, ignore_eos=True)
    assert secure.complete("Once upon", **fields).text == server.complete("Once upon", **fields).text


def test_keep_alive_and_many_connections(secure):
    c = secure.connect()
    for _ in range(5):
        c.request("GET", "/health")
        assert c.getresponse().read() == b'{"status":"ok"}'
    c.close()
    jobs = [lambda: secure.complete("Once", max_tokens=5, temperature=0).text for _ in range(30)]
    assert len(set(in_threads(jobs))) == 1


def test_large_bodies(secure):
    text = "The quick brown fox. " * 20000
    tokens = secure.post("/tokenize", {"content": text}).json["tokens"]
    assert secure.post("/detokenize", {"tokens": tokens}).json["content"] == text


@pytest.mark.parametrize("version,works", [(ssl.TLSVersion.TLSv1_1, False), (ssl.TLSVersion.TLSv1_2, True),
                                           (ssl.TLSVersion.TLSv1_3, True)])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_versions(secure, one, version, works):
    context = trusting(one[0])
    context.set_ciphers("DEFAULT:@SECLEVEL=0")  # so that it is the server who refuses
    context.minimum_version = ssl.TLSVersion.TLSv1
    context.maximum_version = version
    with socket.create_connection(("127.0.0.1", secure.port), 20) as raw:
        if works:
            with context.wrap_socket(raw, server_hostname="127.0.0.1") as s:
                assert s.version() == {ssl.TLSVersion.TLSv1_2: "TLSv1.2", ssl.TLSVersion.TLSv1_3: "TLSv1.3"}[version]
        else:
            with pytest.raises((ssl.SSLError, ConnectionError)):
                context.wrap_socket(raw, server_hostname="127.0.0.1")


def test_plain_http_is_not_answered(secure):
    with socket.create_connection(("127.0.0.1", secure.port), 20) as s:
        s.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        try:
            reply = s.recv(4096)
        except ConnectionError:
            reply = b""
        assert b"HTTP" not in reply
    assert secure.get("/health").status == 200


# ---- streams

def test_frames_come_one_by_one(secure):
    """A frame arrives while the rest is still to be computed: the request is running then."""
    stream = secure.stream("Once", **LONG)
    frames = iter(stream)
    for _ in range(5):
        assert next(frames)["choices"][0]["finish_reason"] is None
        assert secure.metrics()["quire_requests_running"] == 1
    stream.close()
    secure.wait_idle()


def test_stream_equals_the_whole(secure):
    fields = dict(max_tokens=200, temperature=0, ignore_eos=True)
    whole = secure.complete("Once upon", **fields).text
    streams = [secure.stream("Once upon", **fields) for _ in range(5)]
    assert [s.text() for s in streams] == [whole] * 5 and all(s.done for s in streams)


# ---- clients that go

def reset(s):
    """RST instead of FIN, without a goodbye in TLS."""
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    s.close()


def goodbye(s):
    """The TLS way: close_notify, then FIN."""
    s.setblocking(False)
    try:
        s.unwrap()
    except (OSError, ssl.SSLError):
        pass  # it was sent; the server's own, or the stream's data, is not waited for
    s.close()


@pytest.mark.parametrize("leave", [reset, goodbye, socket.socket.close])
@pytest.mark.parametrize("stream", [True, False])
def test_disconnect(secure, leave, stream):
    import json
    name = 'quire_requests_total{endpoint="completions",outcome="cancelled"}'
    before = secure.metrics()[name]
    s = secure.socket()
    body = json.dumps({"prompt": "Once", "stream": stream, **LONG}).encode()
    s.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    secure.wait_until(lambda m: m["quire_requests_running"] == 1, what="running")
    if leave is socket.socket.close:
        s = socket.socket(fileno=s.detach())
    leave(s)
    secure.wait_until(lambda m: m[name] == before + 1, what="cancelled")
    secure.wait_idle()


def test_disconnect_in_the_handshake(secure):
    before = secure.n_fds()
    for data in (b"", b"\x16\x03\x01\x02\x00\x01\x00", os.urandom(200)):
        with socket.create_connection(("127.0.0.1", secure.port), 20) as s:
            s.sendall(data)
    secure.wait_until(lambda m: secure.n_fds() <= before + 1, what="descriptors back")


def test_waiting_burns_nothing(secure, one):
    """Neither a connection that says nothing nor half a handshake keeps the loop busy."""
    idle = secure.socket()
    half = [socket.create_connection(("127.0.0.1", secure.port), 20) for _ in range(3)]
    for s in half:
        s.sendall(b"\x16\x03\x01\x02\x00\x01")
    time.sleep(0.2)
    before = secure.cpu_seconds()
    time.sleep(2)
    assert secure.cpu_seconds() - before < 0.5, "a quarter of a core is far above a look now and then"
    for s in (idle, *half):
        s.close()


def test_slow_reader_is_cut_off(one, start):
    import json
    s = start("--max-sequences", "64", "--tls-certificate", str(one[0]), "--tls-key", str(one[1]),
              tls=trusting(one[0]))
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    raw.connect(("127.0.0.1", s.port))
    slow = trusting(one[0]).wrap_socket(raw, server_hostname="127.0.0.1")
    body = json.dumps({"prompt": "Once", "n": 30, "stream": True, "logprobs": 20, "max_tokens": 100000,
                       "ignore_eos": True}).encode()
    slow.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    s.wait_until(lambda m: m['quire_requests_total{endpoint="completions",outcome="cancelled"}'] == 30, 60,
                 "slow reader cancelled")
    s.wait_idle()
    assert "reason=slow_reader" in s.read_log()
    slow.close()


# ---- another certificate

def hang_up(server, what):
    before, begin = len(re.findall(what, server.read_log())), time.monotonic()
    server.process.send_signal(signal.SIGHUP)
    while len(re.findall(what, server.read_log())) == before:
        assert time.monotonic() - begin < 30, server.read_log()[-2000:]
        time.sleep(0.01)


def test_reload(folder, start, tmp_path):
    one, two = make_certificate(folder, "first"), make_certificate(folder, "second")
    cert, key = tmp_path / "now.pem", tmp_path / "now.key"
    cert.write_bytes(one[0].read_bytes())
    key.write_bytes(one[1].read_bytes())
    s = start("--tls-certificate", str(cert), "--tls-key", str(key), tls=trusting(one[0], two[0]))
    assert subject(s) == "first"
    stream = s.stream("Once", max_tokens=300, temperature=0, ignore_eos=True)
    keep = s.connect()
    keep.request("GET", "/health")
    assert keep.getresponse().read()

    cert.write_bytes(two[0].read_bytes())  # a certificate that does not belong to the key
    hang_up(s, "event=reload_failed what=certificate")
    assert subject(s) == "first"
    key.write_bytes(b"nonsense")
    hang_up(s, "event=reload_failed what=certificate")
    assert subject(s) == "first"
    key.write_bytes(two[1].read_bytes())
    hang_up(s, "event=reloaded what=certificate")
    assert subject(s) == "second"

    stream.text()
    assert stream.done, "a stream that was begun goes on"
    keep.request("GET", "/health")
    assert keep.getresponse().status == 200, "a connection that stands stays"
    keep.close()


def test_files_that_are_wrong(one, folder):
    two = make_certificate(folder, "other")
    for cert, key in ((one[0], two[1]), ("/nonexistent.pem", one[1]), (one[1], one[1])):
        run = serve_in_vain("--tls-certificate", cert, "--tls-key", key)
        assert run.returncode == 1 and run.stdout == ""
        assert str(cert) in run.stderr and str(key) in run.stderr and run.stderr.startswith("quire: ")


@pytest.mark.threads
def test_storm(folder, start, tmp_path):
    """Clients of every kind at once, by TCP and by the Unix socket, while the certificate changes: whoever
    stays gets the one answer, and nothing is left behind."""
    import json
    import random
    from quire import UnixConnection
    one, two = make_certificate(folder, "storm-a"), make_certificate(folder, "storm-b")
    cert, key, path = tmp_path / "now.pem", tmp_path / "now.key", tmp_path / "quire.sock"
    cert.write_bytes(one[0].read_bytes())
    key.write_bytes(one[1].read_bytes())
    s = start("--tls-certificate", str(cert), "--tls-key", str(key), "--unix-socket", str(path), "--log-level", "warn",
              tls=trusting(one[0], two[0]))
    fields = dict(max_tokens=40, temperature=0, ignore_eos=True)
    expected = s.complete("Once", **fields).text
    before = s.n_fds()

    def client(i):
        rng = random.Random(i)
        for _ in range(4):
            kind = rng.randrange(6)
            if kind == 0:
                assert s.complete("Once", **fields).text == expected
            elif kind == 1:
                assert s.stream("Once", **fields).text() == expected
            elif kind == 2:
                c = UnixConnection(str(path), 60)
                c.request("POST", "/v1/completions", json.dumps({"prompt": "Once", **fields}))
                assert json.loads(c.getresponse().read())["choices"][0]["text"] == expected
                c.close()
            elif kind == 3:
                stream = s.stream("Once", **LONG)
                next(iter(stream))
                stream.close()
            elif kind == 4:
                raw = socket.create_connection(("127.0.0.1", s.port), 60)
                raw.sendall(b"\x16\x03\x01\x02\x00" + bytes(rng.randrange(400)))
                raw.close()
            else:
                names = rng.choice([one, two])
                cert.write_bytes(names[0].read_bytes())
                key.write_bytes(names[1].read_bytes())
                s.process.send_signal(signal.SIGHUP)

    in_threads([lambda i=i: client(i) for i in range(24)])
    s.wait_idle(60)
    s.wait_until(lambda m: s.n_fds() <= before + 1, what="descriptors back")
    assert s.stop() == 0


@pytest.mark.threads
def test_half_a_handshake_costs_nothing(secure, one):
    """The client's Finished is missing; TLS 1.3's server has sent its own already."""
    into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        trusting(one[0]).wrap_bio(into, out, server_hostname=secure.host).do_handshake()
    hello, clients = out.read(), []
    for _ in range(40):
        clients.append(socket.create_connection((secure.address(), secure.port), 20))
        clients[-1].sendall(hello)
        assert clients[-1].recv(1)
    begin = loop_cpu_s(secure)
    time.sleep(1)
    assert loop_cpu_s(secure) - begin < 0.3
    for c in clients:
        c.close()


def test_drain(one, start):
    s = start("--tls-certificate", str(one[0]), "--tls-key", str(one[1]), tls=trusting(one[0]))
    streams = [s.stream("Once", max_tokens=1000, temperature=0, ignore_eos=True) for _ in range(3)]  # each has its head
    s.process.send_signal(signal.SIGTERM)
    assert len({x.text() for x in streams}) == 1 and all(x.done for x in streams)
    assert s.process.wait(20) == 0
