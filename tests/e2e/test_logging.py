"""The log never decides whether requests are served: whoever reads it, or does not, or cannot."""
import fcntl
import json
import os
import re
import signal
import socket
import subprocess
import time

import pytest

from quire import BIN, Server, in_threads, serve_in_vain

LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z [DIWE] [a-z]+ \S.*")
DROPPED = "quire_log_dropped_total"


class Bare(Server):
    """A server whose descriptors 0 to 2 are the test's; `shell` is what a shell does with them."""

    def __init__(self, *flags, shell="", binary=BIN, **kw):
        self.port = free_port()
        script = f'exec "$0" serve --host 127.0.0.1 --port {self.port} "$@" {shell}'
        self.process = subprocess.Popen(["sh", "-c", script, binary, *flags], **kw)
        self.pid = self.process.pid
        self.host, self.tls, self.key, self.unix = "127.0.0.1", None, None, None
        begin = time.monotonic()
        while not self.is_ready():
            assert self.process.poll() is None, f"ended with {self.process.returncode}"
            assert time.monotonic() - begin < 60, "not ready in time"
            time.sleep(0.02)

    def is_ready(self):
        try:
            return self.get("/ready", timeout=5).status == 200
        except OSError:
            return False

    def end(self, sig=signal.SIGTERM, timeout=30):
        self.process.send_signal(sig)
        return self.process.wait(timeout)

    def stop(self, sig=signal.SIGTERM, timeout=30):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(timeout)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@pytest.fixture
def bare():
    running = []

    def make(*flags, **kw):
        s = Bare(*flags, **kw)
        running.append(s)
        return s

    yield make
    for s in running:
        s.stop()


def lines_of(text):
    for line in text.splitlines():
        assert LINE.fullmatch(line), line
    return text.splitlines()


def serves(s, n=3):
    for i in range(n):
        assert s.complete(f"{i} Once upon", max_tokens=4).text


def small_pipe():
    """Filled to the last byte."""
    r, w = os.pipe()
    fcntl.fcntl(w, fcntl.F_SETPIPE_SZ, 4096)
    return r, w


def drain(fd):
    """All that is in the pipe, and what comes within a second after it."""
    os.set_blocking(fd, False)
    out, last = b"", time.monotonic()
    while time.monotonic() - last < 1:
        try:
            got = os.read(fd, 1 << 16)
        except BlockingIOError:
            time.sleep(0.02)
            continue
        if not got:
            break
        out, last = out + got, time.monotonic()
    return out.decode()


# ---- standard error is a pipe

def test_a_pipe_that_nobody_reads(bare):
    r, w = small_pipe()
    s = bare("--log-level", "debug", stderr=w, stdout=subprocess.DEVNULL)
    os.close(w)
    s.wait_until(lambda m: s.complete("Once upon a time", max_tokens=8) and m[DROPPED] > 100, what="drops")
    serves(s)
    # Once it is read, everything that is in it is whole, and how much is missing is said.
    text = drain(r)
    lines = lines_of(text)
    told = [int(m[1]) for m in re.finditer(r"event=lines_dropped count=(\d+)", text)]
    assert told and told[0] > 100
    serves(s)
    assert len(lines_of(drain(r))) > 3
    m = s.metrics()
    assert m[DROPPED] >= sum(told)
    assert len(lines) > 100
    assert s.end() == 0
    os.close(r)


def test_a_pipe_that_nobody_reads_at_the_end(bare):
    """The end waits for a reader, but not long."""
    r, w = small_pipe()
    s = bare("--log-level", "debug", stderr=w, stdout=subprocess.DEVNULL)
    os.close(w)
    s.wait_until(lambda m: s.complete("Once upon a time", max_tokens=8) and m[DROPPED] > 0, what="drops")
    begin = time.monotonic()
    assert s.end(timeout=15) == 0
    assert time.monotonic() - begin < 10
    os.close(r)


def test_a_model_that_fails_with_a_full_pipe(tmp_path):
    """The sentence cannot be printed; the process ends all the same."""
    (tmp_path / "x.gguf").write_bytes(b"GGUF" + b"\0" * 100)
    r, w = small_pipe()
    os.set_blocking(w, False)
    with pytest.raises(BlockingIOError):
        while True:
            os.write(w, b"x" * 512)
    os.set_blocking(w, True)
    p = subprocess.Popen([BIN, "serve", "--port", "0", "--model", str(tmp_path / "x.gguf")], stderr=w,
                         stdout=subprocess.DEVNULL)
    try:
        assert p.wait(20) == 1
    finally:
        p.kill()
        p.wait()
    os.close(w)
    os.close(r)


def test_a_pipe_whose_reader_closed(bare):
    r, w = os.pipe()
    s = bare(stderr=w, stdout=subprocess.DEVNULL)
    os.close(w)
    os.close(r)
    serves(s, 10)
    assert s.metrics()[DROPPED] > 0
    assert s.end() == 0


def test_a_pipe_that_is_not_blocking(bare):
    """Another program may have set that on the pipe that both share: no line is lost by it."""
    r, w = small_pipe()
    os.set_blocking(w, False)
    s = bare(stderr=w, stdout=subprocess.DEVNULL)
    os.close(w)
    in_threads([lambda: serves(s, 30)] * 4)
    text = drain(r)
    while text.count("/v1/completions") < 120:
        more = drain(r)
        assert more
        text += more
    lines_of(text)
    assert s.metrics()[DROPPED] == 0
    assert s.end() == 0
    os.close(r)


# ---- closed descriptors

@pytest.mark.parametrize("shell", ["2>&-", ">&- 2>&- <&-", "<&-", ">&-"])
def test_closed_descriptors(bare, shell, tmp_path):
    s = bare("--journal", str(tmp_path / "j"), shell=shell, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    fds = {n: os.readlink(f"/proc/{s.pid}/fd/{n}") for n in ("0", "1", "2")}
    assert all(not re.match(r"socket|anon_inode|.*/j$", where) for where in fds.values()), fds
    serves(s)
    assert s.end() == 0


def test_closed_descriptors_of_a_command():
    p = subprocess.run(["sh", "-c", '"$0" generate --prompt x --max-tokens 2 >&- 2>&- <&-', BIN], check=False,
                       timeout=60)
    assert p.returncode in (0, 1)


# ---- disks

@pytest.mark.parametrize("flags, shell", [([], "2>/dev/full"), (["--log-file", "/dev/full"], "2>/dev/null")])
def test_a_full_disk(bare, flags, shell):
    s = bare("--log-level", "debug", *flags, shell=shell, stdout=subprocess.DEVNULL)
    serves(s)
    begin = time.monotonic()
    while s.metrics()[DROPPED] <= 10:  # a thread of its own writes, or tries to
        assert time.monotonic() - begin < 20
        time.sleep(0.02)
    assert s.end() == 0


def test_a_limit_on_the_size_of_files(bare, tmp_path):
    """Half a line at the limit is ended before the next one, when the limit goes away."""
    log = tmp_path / "log"
    s = bare("--log-level", "debug", "--log-file", str(log), stdout=subprocess.DEVNULL,
             preexec_fn=lambda: __import__("resource").setrlimit(__import__("resource").RLIMIT_FSIZE, (4000, -1)))
    serves(s, 20)
    assert log.stat().st_size == 4000 and s.metrics()[DROPPED] > 10
    subprocess.run(["prlimit", f"--pid={s.pid}", "--fsize=unlimited"], check=True)
    serves(s, 3)
    assert s.end() == 0
    text = log.read_text()
    broken = [line for line in text.splitlines() if not LINE.fullmatch(line)]
    assert len(broken) <= 1 and "event=lines_dropped" in text
    assert text.endswith("stopped=1\n")


# ---- a file

def test_the_file(bare, tmp_path):
    log = tmp_path / "q.log"
    s = bare("--log-file", str(log), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert log.stat().st_mode & 0o777 & ~0o640 == 0
    serves(s)
    assert s.end() == 0
    assert s.process.stderr.read() == b""
    assert "stopped=1" in lines_of(log.read_text())[-1]
    # The next run appends.
    s = bare("--log-file", str(log), stdout=subprocess.DEVNULL)
    assert s.end() == 0
    assert log.read_text().count("stopped=1") == 2


def test_a_file_that_cannot_be(tmp_path):
    (tmp_path / "target").write_text("precious")
    (tmp_path / "link").symlink_to("target")
    for path, words in [("link", "symbolic link"), ("", "directory"), ("no/where", "No such file")]:
        run = serve_in_vain("--log-file", tmp_path / path)
        assert run.returncode == 1 and run.stdout == ""
        assert run.stderr.startswith("quire: cannot open the log file") and words.lower() in run.stderr.lower()
        assert run.stderr.count("\n") == 1
    assert (tmp_path / "target").read_text() == "precious"


def test_rotation_loses_no_line(bare, tmp_path):
    log = tmp_path / "q.log"
    s = bare("--log-file", str(log), stdout=subprocess.DEVNULL)
    ids = [f"r{t}-{i}" for t in range(4) for i in range(60)]

    def ask(t):
        for i in range(60):
            assert s.request("POST", "/v1/completions", {"prompt": "x", "max_tokens": 1},
                             {"X-Request-Id": f"r{t}-{i}"}).status == 200

    def rotate():
        for n in range(10):
            log.rename(tmp_path / f"q.log.{n}")
            s.process.send_signal(signal.SIGUSR1)
            begin = time.monotonic()
            while not log.exists():
                assert time.monotonic() - begin < 20, "not opened again"
                time.sleep(0.01)
            time.sleep(0.05)

    in_threads([lambda t=t: ask(t) for t in range(4)] + [rotate])
    assert s.metrics()[DROPPED] == 0
    assert s.end() == 0
    files = list(tmp_path.glob("q.log*"))
    assert len(files) == 11
    seen = [m for f in files for m in re.findall(r'id="(r\d-\d+)"', "\n".join(lines_of(f.read_text())))]
    assert sorted(seen) == sorted(ids)


def test_a_rotation_that_fails_keeps_the_old_file(bare, tmp_path):
    folder = tmp_path / "logs"
    folder.mkdir()
    log = folder / "q.log"
    s = bare("--log-file", str(log), stdout=subprocess.DEVNULL)
    (tmp_path / "elsewhere").write_text("precious")
    moved = tmp_path / "moved.log"
    log.rename(moved)
    log.symlink_to(tmp_path / "elsewhere")
    s.process.send_signal(signal.SIGUSR1)
    s.wait_until(lambda m: "reopen_failed" in moved.read_text(), what="the error line")
    serves(s)
    assert s.end() == 0
    assert "stopped=1" in moved.read_text()
    assert (tmp_path / "elsewhere").read_text() == "precious"


# ---- signals

@pytest.mark.parametrize("name", ["USR1", "USR2", "ALRM", "PIPE", "VTALRM", "PROF", "IO", "PWR", "STKFLT", "XFSZ",
                                  "HUP", "CHLD", "CONT", "URG", "WINCH", "RTMIN", "RTMAX"])
def test_signals_that_end_nothing(server, name):
    server.process.send_signal(getattr(signal, "SIG" + name) if name != "STKFLT" else 16)
    time.sleep(0.05)
    assert server.process.poll() is None
    assert server.complete("Once", max_tokens=2).text


def test_signals_during_the_load(tmp_path):
    """Before the loop handles them too."""
    p = subprocess.Popen([BIN, "serve", "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        p.stdout.readline()
        for _ in range(20):
            for sig in (signal.SIGUSR1, signal.SIGHUP, signal.SIGUSR2):
                p.send_signal(sig)
        time.sleep(0.2)
        assert p.poll() is None
        p.send_signal(signal.SIGTERM)
        assert p.wait(30) == 0
    finally:
        p.kill()
        p.wait()


def test_stopped_and_continued(start):
    s = start()
    stream = s.stream("Once upon a time", max_tokens=200)
    for _ in range(3):
        s.process.send_signal(signal.SIGSTOP)
        time.sleep(0.2)
        s.process.send_signal(signal.SIGCONT)
        time.sleep(0.05)
    assert stream.text() and stream.done
    serves(s)


# ---- what clients write into it

HARMFUL = ["a b=c", 'x" forged="1', "tab\tid", "back\\slash", "esc\x7f", "\u202e!", "bell\x07"]


def test_lines_hold_what_clients_send_as_one_value(start):
    """Headers that could be taken for other keys, lines or commands to a terminal."""
    for form in ["plain", "json"]:
        s = start("--log-format", form, "--log-level", "debug")
        for text in HARMFUL:
            with s.socket() as c:
                c.sendall(b"GET /version HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: " + text.encode() +
                          b"\r\nConnection: close\r\n\r\n")
                while c.recv(65536):
                    pass
        s.stop()
        log = s.read_log()
        if form == "json":
            assert all("forged" not in json.loads(line) and "b" not in json.loads(line) for line in log.splitlines())
        else:
            lines_of(log)
        assert "\x7f" not in log and "\x07" not in log and "\u202e" not in log and not re.search(r"[^\\]\" forged", log)


def test_a_flood_of_lines(start):
    """More lines than the ring holds, from several threads at once: whole lines, and no request waits."""
    s = start("--log-level", "debug")
    in_threads([lambda: serves(s, 40)] * 6)
    m = s.metrics()
    s.stop()
    log = s.read_log()
    assert len(lines_of(log)) > 240
    assert log.count("route=/v1/completions") + m[DROPPED] >= 240
