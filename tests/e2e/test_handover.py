"""The end of a process whose clients must not notice: drain_ms and what streams end with, sockets that go to a new
process, systemd's sockets, and a rolling restart under load."""
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time

import pytest

import cut_streams as cs
from quire import BIN, JSON, SLOW, Server

# Ten contexts: none of these ends by itself while a test looks at it.
ENDLESS = dict(prompt="Once", max_tokens=100000, ignore_eos=True, temperature=0.8, seed=3)
SHIFT = ("--context-shift", "on", "--isa", "scalar")
N_CLIENTS = 64
NOW = re.compile(rb'"created":\d+')
N_ROUNDS = 4 if SLOW else 1


def last_of(stream):
    return list(stream)[-1]


# ---- drain_ms ----

@pytest.mark.threads
def test_streams_end_with_what_resume_takes(start):
    """The server that comes next goes on with them: together the bytes of one that was never stopped."""
    path, body = cs.body_of("chain", max_tokens=1000)
    other = start()
    want = cs.run(other, path, body)
    s = start("--drain-ms", "30", "--isa", "scalar")
    c = s.connect()
    c.request("POST", path, json.dumps(body), JSON)
    r = c.getresponse()
    first = r.readline()
    s.process.send_signal(signal.SIGTERM)
    frames = cs.frames_of(first + r.read())
    c.close()
    assert s.process.wait(10) == 0
    error = json.loads(frames[-2].data)["error"]
    assert (error["code"], error["type"]) == ("resumable", "unavailable_error")
    assert frames[-1].data == b"[DONE]"
    told = cs.resume_of(frames[:-2])
    assert error["resume"] == told and 0 < len(told["tokens"]) < 1000
    rest = [f for f in cs.run(other, path, {**body, "resume": told}) if f.id >= len(frames) - 2]
    who, was = told["id"].encode(), cs.resume_of(want)["id"].encode()
    again = cs.bytes_of(frames[:-2] + rest).replace(who, was)
    assert NOW.sub(b"", again) == NOW.sub(b"", cs.bytes_of(want))


@pytest.mark.threads
def test_drain_ms_bounds_the_end(start):
    """Whatever runs or waits; streams without a resume (two choices) and whole answers get the error as it was."""
    s = start("--drain-ms", "300", "--max-sequences", "4", *SHIFT)
    streams = [s.stream(ENDLESS["prompt"], **{k: v for k, v in ENDLESS.items() if k != "prompt"}) for _ in range(6)]
    two = s.stream("Once", n=2, **{k: v for k, v in ENDLESS.items() if k != "prompt"})
    whole = {}
    t = threading.Thread(target=lambda: whole.update(r=s.post("/v1/completions", ENDLESS)))
    t.start()
    s.wait_until(lambda m: m["quire_requests_running"] == 4, what="running")
    begin = time.monotonic()
    s.process.send_signal(signal.SIGTERM)
    time.sleep(0.05)
    assert s.get("/ready").status == s.get("/health").status == 503
    for stream in streams:
        error = last_of(stream)["error"]
        assert error["code"] == "resumable" and error["resume"]["seed"] == 3
    error = last_of(two)["error"]
    assert "resume" not in error and error["message"] == "the server is shutting down"
    t.join()
    assert whole["r"].status == 503 and int(whole["r"].headers["Retry-After"]) >= 1
    assert s.process.wait(60) == 0
    assert 0.3 <= time.monotonic() - begin < 30
    assert "event=stopping reason=drain_ms" in s.read_log()


def test_kept_streams_end_so_too(start):
    s = start("--drain-ms", "100", *SHIFT)
    stream = s.stream(ENDLESS["prompt"], resumable=True, **{k: v for k, v in ENDLESS.items() if k != "prompt"})
    stream.reply.readline()
    s.process.send_signal(signal.SIGTERM)
    raw = stream.reply.read()
    assert b'"code":"resumable"' in raw and raw.endswith(b"data: [DONE]\n\n")
    assert s.process.wait(10) == 0


# ---- from one process to the next ----

def wait_handed_over(s):
    begin = time.monotonic()
    while "event=handed_over" not in s.read_log():
        assert time.monotonic() - begin < 60
        time.sleep(0.01)


class Client:
    """Asks again and again, on a new connection each time; whatever is not the right answer is an error."""

    def __init__(self, port, body, want):
        self.port, self.body, self.want = port, json.dumps(body).encode(), want
        self.n, self.errors, self.stop = 0, [], False
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def ask(self):
        with socket.create_connection(("127.0.0.1", self.port), 60) as s:
            s.sendall(b"POST /v1/completions HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                      b"Content-Length: %d\r\n\r\n" % len(self.body) + self.body)
            raw = b""
            while part := s.recv(65536):
                raw += part
        head, _, body = raw.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head
        assert text_of(body) == self.want, body[-300:]

    def run(self):
        while not self.stop:
            try:
                self.ask()
            except (OSError, AssertionError) as e:
                self.errors.append(repr(e))
            self.n += 1

    def end(self):
        self.stop = True
        self.thread.join()
        assert self.errors == [], self.errors[:3]
        return self.n


def text_of(raw):
    frames = [json.loads(line[6:]) for line in raw.split(b"\n") if line.startswith(b"data: {")]
    assert raw.endswith(b"data: [DONE]\n\n") and not any("error" in f for f in frames), raw[-300:]
    return "".join(f["choices"][0]["text"] for f in frames)


@pytest.mark.threads
def test_hand_over_under_load(start, tmp_path):
    """64 clients with streams, and three processes one after the other: none is refused, none gets other bytes."""
    flags = ("--handover-socket", str(tmp_path / "sock"), "--unix-socket", str(tmp_path / "http"))
    body = {"prompt": "Once", "max_tokens": 60, "ignore_eos": True, "stream": True, "temperature": 0.8, "seed": 5}
    s = start(*flags)
    port = s.port
    want = text_of(s.post("/v1/completions", body).body)
    clients = [Client(port, body, want) for _ in range(N_CLIENTS)]
    for _ in range(2 * N_ROUNDS):
        new = start(*flags)
        assert new.port == port
        assert s.process.wait(60) == 0
        assert "event=handed_over" in s.read_log() and "event=ready" in new.read_log()
        s = new
        time.sleep(0.2)
    assert sum(c.end() for c in clients) > N_CLIENTS
    s.unix = str(tmp_path / "http")
    assert s.get("/health").status == 200, "the other socket went with it"
    s.unix = None
    assert s.stop() == 0
    assert not (tmp_path / "sock").exists() and not (tmp_path / "http").exists(), "the last one takes the files away"


@pytest.mark.threads
def test_the_old_one_ends_what_it_has(start, tmp_path):
    """A stream that runs goes on to its end in the old process, on a connection that then closes; a connection that
    was kept alive is served once more."""
    flags = ("--handover-socket", str(tmp_path / "sock"))
    s = start(*flags)
    body = {"prompt": "Once", "max_tokens": 1000, "ignore_eos": True, "stream": True, "temperature": 0, "n": 16}
    keep = s.connect()
    keep.request("GET", "/health")
    keep.getresponse().read()
    c = s.connect()
    c.request("POST", "/v1/completions", json.dumps(body), JSON)
    r = c.getresponse()
    new = start(*flags)
    wait_handed_over(s)
    assert s.process.poll() is None and new.get("/health").status == 200
    keep.request("POST", "/v1/completions", json.dumps({"prompt": "x", "max_tokens": 2}), JSON)
    answer = keep.getresponse()
    assert answer.status == 200 and answer.headers["Connection"] == "close"
    answer.read()
    assert r.read().endswith(b"data: [DONE]\n\n")
    c.close()
    assert s.process.wait(10) == 0


def test_a_new_one_that_fails_changes_nothing(start, tmp_path):
    path = tmp_path / "sock"
    (tmp_path / "bad.gguf").write_bytes(b"GGUF" + bytes(100))
    s = start("--handover-socket", str(path))
    for _ in range(2):
        run = subprocess.run([BIN, "serve", "--handover-socket", str(path), "--model", str(tmp_path / "bad.gguf")],
                             capture_output=True, text=True, timeout=60, check=False)
        assert run.returncode == 1
        assert s.get("/health").status == 200 and path.exists()
    s.wait_until(lambda m: s.read_log().count("event=handover_failed") == 2, what="both gone")
    new = start("--handover-socket", str(path))
    assert s.process.wait(70) == 0 and new.get("/health").status == 200


def test_somebody_else_listens_there(tmp_path):
    """Not a Quire: the new process says so, and leaves the socket alone."""
    path = tmp_path / "sock"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()

    def answer():
        c, _ = listener.accept()
        c.sendall(b"hello")
        c.close()
    t = threading.Thread(target=answer)
    t.start()
    run = subprocess.run([BIN, "serve", "--port", "0", "--handover-socket", str(path)], capture_output=True, text=True,
                         timeout=60, check=False)
    t.join()
    assert run.returncode == 1 and "did not hand over its sockets" in run.stderr and path.exists()
    listener.close()


# ---- systemd's sockets ----

def activate(listeners, *flags, claim=None):
    """A process that gets these sockets as from systemd."""
    code = ("import os, sys\n"
            "n = int(sys.argv[1])\n"
            "for i, fd in enumerate(map(int, sys.argv[2:2 + n])): os.dup2(fd, 100 + i)\n"
            "for i in range(n): os.dup2(100 + i, 3 + i, inheritable=True)\n"
            "os.environ['LISTEN_FDS'] = str(n)\n"
            "os.environ['LISTEN_PID'] = os.environ.get('CLAIM') or str(os.getpid())\n"
            "os.execv(sys.argv[2 + n], sys.argv[2 + n:])\n")
    fds = [s.fileno() for s in listeners]
    env = {**os.environ, **({"CLAIM": claim} if claim else {})}
    return subprocess.Popen(["/usr/bin/python3", "-c", code, str(len(fds)), *map(str, fds), BIN, "serve", *flags],
                            pass_fds=fds, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)


def get(port, path="/health"):
    with socket.create_connection(("127.0.0.1", port), 60) as s:
        s.sendall(f"GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
        raw = b""
        while part := s.recv(65536):
            raw += part
    return int(raw.split(b" ", 2)[1])


def wait_ready(port):
    begin = time.monotonic()
    while get(port) != 200:
        assert time.monotonic() - begin < 60
        time.sleep(0.02)


def test_sockets_of_systemd(tmp_path):
    """Clients that come between two processes wait in the socket; its file is systemd's to remove."""
    tcp, local = socket.create_server(("127.0.0.1", 0)), socket.socket(socket.AF_UNIX)
    port = tcp.getsockname()[1]
    local.bind(str(tmp_path / "http"))
    local.listen()
    flags = ("--unix-socket", str(tmp_path / "http"), "--port", "1")
    for _ in range(2):
        p = activate([tcp, local], *flags)
        assert f":{port} " in p.stdout.readline()
        wait_ready(port)
        p.send_signal(signal.SIGTERM)
        assert p.wait(10) == 0 and (tmp_path / "http").exists()
        p.communicate()
        late = {}
        t = threading.Thread(target=lambda: late.update(status=get(port, "/live")))
        t.start()
        p = activate([tcp, local], *flags)
        t.join(60)
        assert late["status"] == 200
        p.kill()
        p.communicate()


def test_sockets_that_are_not_for_it(start):
    """LISTEN_PID names another process; or there are two of a kind."""
    a, b = socket.create_server(("127.0.0.1", 0)), socket.create_server(("127.0.0.1", 0))
    p = activate([a], "--port", "0", claim="1")
    assert f":{a.getsockname()[1]} " not in p.stdout.readline()
    p.kill()
    p.communicate()
    p = activate([a, b])
    _, err = p.communicate(timeout=60)
    assert p.returncode == 1 and "LISTEN_FDS" in err
    assert isinstance(start(), Server)
