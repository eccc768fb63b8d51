"""`quire top`: what it prints once, and what it does in a terminal (a pty) while a server comes, goes and lies."""
import fcntl
import http.server
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import threading
import time

import pyte
import pytest

from quire import BIN, make_certificate, make_key, make_model
from test_tls import trusting

LONG = {"max_tokens": 100000, "ignore_eos": True, "speculation": False}
CONTROLS = r"[\x00-\x1f\x7f-\x9f\u200b-\u202e\u0301\ufeff]"
ALTERNATE = 1049 << 5  # the mode of the alternate screen, as pyte writes private modes


def top(*args, **env):
    """A width that the caller's terminal has told the tests (COLUMNS) is not the program's."""
    inherited = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    return subprocess.run([BIN, "top", *args], capture_output=True, timeout=60, check=False, stdin=subprocess.DEVNULL,
                          env={**inherited, "LC_ALL": "C.UTF-8", **env})


def once(server, *args, **env):
    run = top(address(server), "--once", "--interval", "0.2", *args, **env)
    assert run.returncode == 0, run.stderr
    return run.stdout.decode()


def address(server):
    return f"unix:{server.unix}" if server.unix else f"127.0.0.1:{server.port}"


class Display(pyte.Screen):
    """What a user sees of the bytes that a program writes. Of xterm's sequences pyte lacks three: REP, SU and SD."""

    def draw(self, data):
        self.last = data[-1]
        super().draw(data)

    def repeat(self, count=1):
        self.draw(self.last * (count or 1))

    def scroll(self, at, move, count):
        before, self.cursor.y = self.cursor.y, at
        for _ in range(count or 1):
            move()
        self.cursor.y = before

    def scroll_up(self, count=1):
        self.scroll(self.margins.bottom if self.margins else self.lines - 1, self.index, count)

    def scroll_down(self, count=1):
        self.scroll(self.margins.top if self.margins else 0, self.reverse_index, count)


class Stream(pyte.ByteStream):
    csi = {**pyte.ByteStream.csi, "b": "repeat", "S": "scroll_up", "T": "scroll_down"}
    events = pyte.ByteStream.events | {"repeat", "scroll_up", "scroll_down"}


class Terminal:
    """quire top in a terminal of so many columns and lines, whose screen is rendered."""

    def __init__(self, *args, size=(120, 30), binary=BIN, **env):
        self.outside, inside = pty.openpty()
        self.screen = Display(*size)
        self.stream = Stream(self.screen)
        self.resize(*size)
        self.before = termios.tcgetattr(inside)
        self.process = subprocess.Popen([binary, "top", *args], stdin=inside, stdout=inside, stderr=subprocess.PIPE,
                                        start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
                                        env={**os.environ, "LC_ALL": "C.UTF-8", "TERM": "xterm", **env})
        self.inside = inside
        self.seen = b""

    def resize(self, width, height):
        self.screen.resize(height, width)
        fcntl.ioctl(self.outside, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def type(self, text):
        os.write(self.outside, text.encode())

    def read(self, seconds):
        if select.select([self.outside], [], [], seconds)[0]:
            data = os.read(self.outside, 65536)
            self.seen += data
            self.stream.feed(data)

    def frame(self):
        return [line.rstrip() for line in self.screen.display]

    def colours(self):
        return {char.fg for line in self.screen.buffer.values() for char in line.values()} - {"default"}

    def is_alternate(self):
        return ALTERNATE in self.screen.mode and self.screen.cursor.hidden

    def wait(self, question, timeout=30):
        """Until question(the text of the screen) is true; its lines. A frame is written from the top: a screen that is
        looked at has its last line too."""
        begin = time.monotonic()
        while not question("\n".join(self.frame())):
            assert time.monotonic() - begin < timeout, "\n".join(self.frame())
            assert self.process.poll() is None, self.process.stderr.read()
            self.read(0.1)
        return self.frame()

    def is_as_before(self):
        """The alternate screen is left, the cursor is seen, no colour or style stays, and keys are echoed again."""
        while select.select([self.outside], [], [], 0)[0]:
            self.read(0)
        cursor = self.screen.cursor
        return (ALTERNATE not in self.screen.mode and not cursor.hidden and cursor.attrs == self.screen.default_char
                and termios.tcgetattr(self.inside) == self.before)

    def end(self, timeout=30):
        """It ends by itself; the exit status. The terminal is as it was."""
        status = self.process.wait(timeout)
        assert self.is_as_before()
        return status

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.process.stderr.close()
        os.close(self.outside)
        os.close(self.inside)


@pytest.fixture
def terminal():
    opened = []

    def make(*args, **kw):
        opened.append(Terminal(*args, **kw))
        return opened[-1]

    yield make
    for t in opened:
        t.close()


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return make_model(tmp_path_factory.mktemp("top") / "m.gguf", "--context", "65536", "--embd", "256", "--layers", "6", "--heads", "8", "--kv-heads", "2",
                      "--ff", "1024", "--type", "Q8_0")


# ---- once ----


def test_once(start, model):
    """Requests with their tenants, tokens and blocks, as the server's own pages have them; nothing but text."""
    s = start("--tenant-header", "X-Tenant", "--kv-memory", "64m", "--max-sequences", "2", model=model)
    streams = [s.stream([5] * (20 + i), {"X-Tenant": f"team{i}", "X-Request-Id": f"call-{i}"}, **LONG) for i in range(3)]
    s.wait_until(lambda m: m["quire_generation_tokens_total"] > 40 and m["quire_requests_running"] == 2, what="two run")
    out = once(s)
    pages = s.get("/debug/requests").json
    for stream in streams:
        stream.close()
    assert "\x1b" not in out and out.endswith("\n") and max(map(len, out.splitlines())) <= 132
    lines = out.splitlines()
    assert lines[0].startswith(f"quire top  http://{address(s)}  quire ")
    assert lines[1].split()[1:5] == ["2", "running", "1", "queued"]
    assert lines[2].split()[1] not in ("0", "-") and lines[2].split()[2] == "generated"
    assert re.search(r"^Steps +\S+ ms median", out, re.M) and re.search(r"^ held by  \[.*\] [0-9]+ blocks team", out, re.M)
    head, *rows = lines[next(i for i, line in enumerate(lines) if line.startswith("REQUEST")):]
    assert head.split() == "REQUEST TENANT STATE PRIORITY PROMPT CACHED GEN OF TOK/S BLOCKS AGE QUEUED".split()
    rows = {r.split()[1]: r.split() for r in rows}
    assert {r["tenant"]: r["request_id"] for r in pages["requests"]} == {t: r[0] for t, r in rows.items()}
    assert [rows[f"team{i}"][2] for i in range(3)].count("running") == 2
    assert [rows[f"team{i}"][4] for i in range(3)] == ["20", "21", "22"]
    running = [r for r in rows.values() if r[2] == "running"]
    assert all(r[6] != "0" and r[8] not in ("0", "-") and int(r[9]) > 1 for r in running)


def test_once_is_as_wide_as_columns_says(server):
    server.complete("Once upon a time", max_tokens=3)
    for columns in "20", "48", "79", "300":
        out = once(server, COLUMNS=columns)
        assert max(map(len, out.splitlines())) <= int(columns) and "REQUEST" in out, columns


def test_without_utf8(server):
    server.complete("Once upon a time", max_tokens=3)
    assert once(server, LC_ALL="C").isascii()
    assert not once(server).isascii()


def test_several_models(start, model):
    s = start("--kv-memory", "16m", model=f"chat={model},code={model}")
    stream = s.post("/v1/completions", {"model": "code", "prompt": [5] * 20, "max_tokens": 5})
    assert stream.status == 200
    out = once(s)
    assert re.search(r"^MODEL +RUNNING", out, re.M) and re.search(r"^chat +0", out, re.M) and re.search(r"^code +0", out, re.M)
    assert "Steps     - mean" in out
    out = once(s, "--model", "code")
    assert "  model code  quire " in out and "RUNNING" not in out and re.search(r"^Steps +\S+ ms median", out, re.M)
    run = top(address(s), "--once", "--interval", "0.2", "--model", "none")
    assert run.returncode == 1 and b"no model 'none'" in run.stderr


def test_usage():
    for args, words in ([["a", "b"], "unexpected argument 'b'"], [["--fast"], "unexpected argument '--fast'"], [["--sort", "name"], "--sort must be"],
                        [["--interval", "0"], "--interval must be"], [["ftp://x"], "URL must be"], [["http://a b"], "URL must be"],
                        [["http://user:secret@host"], "URL must be"], [["--key", "a\nb"], "key must be"]):
        run = top("--once", *args)
        assert run.returncode in (1, 2) and words in run.stderr.decode() and run.stdout == b"", args
    run = top("127.0.0.1:1")
    assert run.returncode == 1 and b"quire top --once" in run.stderr
    assert b"--interval" in top("--help").stdout


def test_nobody_is_there():
    run = top("127.0.0.1:1", "--once")
    assert run.returncode == 1 and run.stdout == b"" and b"/metrics: " in run.stderr


# ---- keys and certificates ----


def test_keys(start, tmp_path):
    (work, work_key), (admin, admin_key) = make_key("work"), make_key("boss", "--admin")
    (tmp_path / "keys").write_text(work + admin)
    s = start("--api-keys", str(tmp_path / "keys"), "--metrics-open", "off", key=admin_key)
    run = top(address(s), "--once")
    assert run.returncode == 1 and b"401, the server wants a key: --key KEY or QUIRE_API_KEY" in run.stderr
    run = top(address(s), "--once", QUIRE_API_KEY=work_key)
    assert run.returncode == 1 and b"403, this page wants an admin's key" in run.stderr
    assert "Requests  0 running" in once(s, QUIRE_API_KEY=admin_key)
    assert "Requests  0 running" in once(s, "--key", admin_key)


def test_key_of_no_admin_beside_open_metrics(start, tmp_path):
    """What may be seen is shown, and what is missing is said."""
    entry, key = make_key("work")
    (tmp_path / "keys").write_text(entry)
    s = start("--api-keys", str(tmp_path / "keys"), "--metrics-open", "on", key=key)
    run = top(address(s), "--once", "--interval", "0.2", QUIRE_API_KEY=key)
    assert run.returncode == 1 and b"/debug/requests: 403" in run.stderr
    assert "/debug/requests: 403" in run.stdout.decode() and "Requests  0 running" in run.stdout.decode()


def test_key_is_in_no_list_of_processes(server, terminal):
    t = terminal(address(server), "--key", "sk-very-secret")
    t.wait(lambda text: "Requests" in text)
    with open(f"/proc/{t.process.pid}/cmdline", "rb") as f:
        assert b"secret" not in f.read()
    t.type("q")
    assert t.end() == 0


def test_tls(start, tmp_path):
    cert, key = make_certificate(tmp_path, "one")
    s = start("--tls-certificate", str(cert), "--tls-key", str(key), tls=trusting(cert))
    url = f"https://127.0.0.1:{s.port}"
    assert "Requests  0 running" in top(url, "--once", "--interval", "0.2", CURL_CA_BUNDLE=str(cert)).stdout.decode()
    run = top(url, "--once")
    assert run.returncode == 1 and b"certificate" in run.stderr


# ---- in a terminal ----


def test_terminal(start, model, terminal, tmp_path):
    s = start("--kv-memory", "64m", "--unix-socket", str(tmp_path / "socket"), "--host", "", model=f"chat={model},code={model}")
    streams = [s.stream([5] * (20 + i), {"X-Request-Id": f"call-{i}"}, model="chat", **LONG) for i in range(2)]
    t = terminal(address(s), "--interval", "0.2")
    frame = t.wait(lambda text: "call-0" in text and "call-1" in text and "q quit" in text.split("\n")[-1])
    assert t.is_alternate() and "s sort: state" in frame[-1] and "m model: all" in frame[-1]
    t.type("ss")
    t.wait(lambda text: "sort: rate" in text)
    t.type("m")
    t.wait(lambda text: "  model chat" in text.split("\n")[0] and "call-0" in text)
    t.type("m")
    t.wait(lambda text: "  model code" in text.split("\n")[0] and "call-0" not in text)
    t.type("m")
    t.wait(lambda text: "m model: all" in text and "call-0" in text)
    for width, height, last in (40, 10, "and 2 more"), (20, 3, "Tokens/s "), (132, 50, "q quit  p pause"):
        t.resize(width, height)
        t.wait(lambda text: text.startswith("quire top  unix:/") and text.split("\n")[-1].startswith(last))
    t.wait(lambda text: "\nREQUEST " in text and "call-0" in text)
    t.type("p")
    t.wait(lambda text: "  paused" in text)
    for stream in streams:
        stream.close()
    s.wait_until(lambda m: m['quire_requests_running{model="chat"}'] == 0, what="idle")
    t.type("s\x1b[B\x1b[A\x1bOB\x1b[6~\x1b[5~\x1b[1;5D\x1b[99~x\x1bs")  # keys that mean something, and others
    assert "call-0" in "\n".join(t.wait(lambda text: "sort: generated" in text))  # still the reading of before
    t.type("\x1b[" + "9" * 40 + "~p")
    t.wait(lambda text: "paused" not in text and "call-0" not in text)
    t.type("q")
    assert t.end() == 0


def test_list_is_scrolled(start, model, terminal):
    s = start("--kv-memory", "64m", "--max-sequences", "2", model=model)
    streams = [s.stream([5] * 20, {"X-Request-Id": f"call-{i}"}, **LONG) for i in range(20)]
    t = terminal(address(s), "--interval", "0.2", size=(80, 16))
    t.wait(lambda text: "from 1 of 20" in text)
    t.type("\x1b[B" * 3)
    t.wait(lambda text: "from 4 of 20" in text)
    t.type("\x1b[6~" * 5)
    t.wait(lambda text: re.search(r"from 1\d of 20", text) and text.count("call-") == 21 - int(re.search(r"from (\d+)", text)[1]))
    for stream in streams:
        stream.close()
    t.wait(lambda text: "of 20" not in text)
    t.type("q")
    assert t.end() == 0


def test_server_goes_and_comes_back(start, terminal, tmp_path):
    flags = ("--host", "", "--unix-socket", str(tmp_path / "socket"))
    s = start(*flags)
    t = terminal(f"unix:{tmp_path}/socket", "--interval", "0.2")
    t.wait(lambda text: "Requests  0 running" in text)
    assert s.stop() == 0
    frame = t.wait(lambda text: "/metrics: " in text and "nothing for" in text)
    assert "Requests  0 running" in "\n".join(frame)  # what was known stays
    s = start(*flags)
    t.wait(lambda text: "nothing for" not in text and "up 0" not in text and "Requests" in text)
    t.type("q")
    assert t.end() == 0


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGHUP, "\x03", "\x1c"])
def test_whatever_ends_it_the_terminal_is_as_it_was(server, terminal, how):
    t = terminal(address(server))
    t.wait(lambda text: "Requests" in text)
    if isinstance(how, str):
        t.type(how)
    else:
        t.process.send_signal(how)
    assert t.end() == 0


def test_stop_and_go_on(server, terminal):
    t = terminal(address(server), "--interval", "0.2")
    t.wait(lambda text: "Requests" in text)
    t.process.send_signal(signal.SIGTSTP)
    begin = time.monotonic()
    while open(f"/proc/{t.process.pid}/stat", encoding="utf-8").read().rsplit(")", 1)[1].split()[0] != "T":
        assert time.monotonic() - begin < 30
        time.sleep(0.01)
    assert t.is_as_before()
    t.screen.reset()
    t.resize(100, 20)
    t.process.send_signal(signal.SIGCONT)
    t.wait(lambda text: t.is_alternate() and "Requests" in text and text.split("\n")[-1].startswith("q quit"))
    t.type("q")
    assert t.end() == 0


def test_colours(server, terminal):
    """NO_COLOR and a terminal without colours."""
    for env, colours in ({}, {"red"}), ({"NO_COLOR": "1"}, set()), ({"TERM": "vt100"}, set()):
        t = terminal("127.0.0.1:1", "--interval", "0.2", size=(80, 24), **env)
        t.wait(lambda text: "Couldn't connect" in text and "q quit" in text)
        assert t.colours() == colours, env
        assert any(char.bold for char in t.screen.buffer[1].values()), env
        t.type("q")
        assert t.end() == 0


@pytest.mark.parametrize("term", ["dumb", "no-such-terminal", ""])
def test_a_terminal_that_is_not_known(terminal, term):
    t = terminal("127.0.0.1:1", TERM=term)
    assert t.end() == 1 and not t.is_alternate()
    error = t.process.stderr.read().decode()
    assert f"terminfo has no description of the terminal '{term}' (TERM)" in error and "ncurses-base" in error and "quire top --once" in error


# ---- servers that lie ----

HOSTILE = "\x1b]0;title\x07\x1b[2J\x9b31m\r\n\t\u202eevil\u200b\u0301\ufeff\U0001f600日本"
MODEL = "m\x1b[31m\u202e"


class Liar(http.server.BaseHTTPRequestHandler):
    pages = {}

    def do_GET(self):
        body = self.pages.get(self.path.split("?")[0], b"")
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


@pytest.fixture
def liar():
    httpd = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Liar)
    httpd.daemon_threads = True
    threading.Thread(target=httpd.serve_forever, daemon=True).start()
    Liar.pages = {
        "/metrics": (f'quire_build_info{{version="{HOSTILE.splitlines()[0]}"}} 1\nquire_uptime_seconds 1e999\n'
                     f'quire_model_info{{model="{MODEL}"}} 1\nquire_model_info{{model="b"}} 1\n'
                     f'quire_kv_blocks{{model="{MODEL}",state="held"}} NaN\n').encode(),
        "/debug/requests": json.dumps({"object": "debug.requests", "requests": [
            {"id": -1, "request_id": HOSTILE, "tenant": HOSTILE * 100, "state": HOSTILE, "priority": 5, "known_tokens": 1e300,
             "prompt_tokens": -5, "blocks": 1e30, "age_ms": -1}, 7, None, {"request_id": 5}]}).encode()}
    yield httpd.server_address[1], Liar.pages
    httpd.shutdown()
    httpd.server_close()


def test_no_byte_of_a_server_moves_the_cursor(liar, terminal):
    """Each character that is not visible is a '?' on the screen; none of the server's control characters is written."""
    port, _ = liar
    clean = "?]0;title??[2J?31m????evil???\U0001f600日本"
    out = top(f"127.0.0.1:{port}", "--once", "--interval", "0.2").stdout.decode()
    assert clean in out and re.findall(CONTROLS, out.replace("\n", "")) == []
    t = terminal(f"127.0.0.1:{port}", "--interval", "0.2", size=(132, 30))
    t.wait(lambda text: clean in text and "\nm?[31m?" in text and "quire ?]0;title??[2J?31m, up long" in text)
    left = re.sub(r"\x1b(\[\??[0-9;]*[A-Za-z]|\(B|[=>])|[\r\n\b]", "", t.seen.decode())
    assert re.findall(CONTROLS, left) == [] and "\x1b[31m" not in t.seen.decode() and t.screen.title == ""
    t.type("q")
    assert t.end() == 0


def test_answers_that_are_none(liar):
    port, pages = liar
    for path, body, words in [("/debug/requests", b'{"object": "debug.requests"', "/debug/requests: this is no answer"),
                              ("/debug/requests", b'[1, 2]', "/debug/requests: this is no answer"),
                              ("/debug/requests", b"", "/debug/requests: this is no answer"),
                              ("/metrics", b"hello", "/metrics: this is no answer"),
                              ("/metrics", b'quire_build_info{version="' + b"\\" * 9, "/metrics: this is no answer"),
                              ("/metrics", b"", "/metrics: this is no answer")]:
        pages[path] = body
        run = top(f"127.0.0.1:{port}", "--once", "--interval", "0.2")
        assert run.returncode == 1 and words in run.stderr.decode(), (path, body, run.stderr)


class Slow(http.server.BaseHTTPRequestHandler):
    """Begins an answer that has no end: b"" waits, other bytes are sent as long as somebody reads."""
    piece = b""
    over = threading.Event()

    def do_GET(self):
        try:
            self.send_response(200)
            self.end_headers()
            while not self.over.wait(0 if self.piece else 0.05):
                self.wfile.write(self.piece)
        except OSError:
            pass

    def log_message(self, *args):
        pass


@pytest.fixture
def slow():
    httpd = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Slow)
    threading.Thread(target=httpd.serve_forever, daemon=True).start()
    Slow.over.clear()
    yield httpd.server_address[1]
    Slow.over.set()
    httpd.shutdown()
    httpd.server_close()


def test_keys_work_while_a_server_is_slow(slow, terminal):
    Slow.piece = b""
    t = terminal(f"127.0.0.1:{slow}", "--interval", "0.2")
    t.wait(lambda text: re.search("\nno answer for [0-9]+ s", text) and "q quit  p pause" in text)
    t.type("s")
    t.wait(lambda text: "sort: age" in text)
    t.resize(70, 12)
    t.wait(lambda text: text.split("\n")[-1].startswith("q quit") and "no answer for" in text)
    t.type("p")
    t.wait(lambda text: "  paused" in text and "p go on" in text)
    t.type("q")
    assert t.end() == 0


def test_an_answer_without_end_is_cut(slow, terminal):
    """At 64 MiB: the server is asked again, and the program does not grow with what it says."""
    Slow.piece = b"quire_uptime_seconds 1\n" * 40000
    t = terminal(f"127.0.0.1:{slow}", "--interval", "0.2")
    t.wait(lambda text: "/metrics: " in text and "asked again" in text, timeout=120)
    with open(f"/proc/{t.process.pid}/status", encoding="utf-8") as f:
        peak = int(re.search(r"VmHWM:\s+(\d+) kB", f.read())[1])
    assert peak < 300 << 10, peak
    t.type("q")
    assert t.end() == 0
