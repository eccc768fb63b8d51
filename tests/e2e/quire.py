"""A server process and a client for it, made of the standard library."""
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

BIN = os.environ.get("QUIRE_BIN", "build/quire")
DEBUG_BIN = os.environ.get("QUIRE_DEBUG_BIN", "build/debug/quire")
TOOLS = os.environ.get("QUIRE_TOOLS", "build/tools")
MODEL = os.environ.get("QUIRE_TEST_MODEL", "")
JSON = {"Content-Type": "application/json"}
SLOW = os.environ.get("QUIRE_SLOW") == "1"  # whoever runs the tests has time
# Sanitizers keep a shadow of all memory, terabytes of addresses, and what was freed.
SANITIZED = "asan" in BIN or "tsan" in BIN
# In an emulator all that is waited for takes so many times as long.
PATIENCE = 10 if os.environ.get("QUIRE_EMULATED") == "1" else 1
# Builds with assertions look at every block of the cache after each step: of the default's 1 GiB that takes longer than
# the step. Tests that need more room say so.
CHECKED_KV_MEMORY = "64m"
ISA_LEVELS = ["scalar", "avx2", "avxvnni", "avx512", "amx", "neon", "dotprod", "i8mm"]


def isa_levels(binary=BIN):
    """The instruction sets that --isa takes here, lowest first; tests that want more leave them out."""
    out = subprocess.run([binary, "--version"], capture_output=True, text=True, check=True, timeout=60).stdout
    return re.search(r"^instruction sets: (.*)$", out, re.M)[1].split()


def cache_of(binary, flags):
    """The flag for a cache that a build with assertions can look through, unless the flags or a file say how large it is."""
    has_assertions = any(kind in str(binary) for kind in ("debug", "asan", "tsan"))
    return ["--kv-memory", CHECKED_KV_MEMORY] if has_assertions and not {"--kv-memory", "--config"} & set(flags) else []


def make_model(path, *flags):
    """A random model; flags: those of tests/tools/mkmodel.c. The path."""
    subprocess.run([f"{TOOLS}/mkmodel", *flags, "--out", path], check=True, capture_output=True, timeout=120)
    return path


def make_key(name, *flags):
    """`quire key`: the entry for the file of keys, and the secret."""
    run = subprocess.run([BIN, "key", "--name", name, *flags], capture_output=True, text=True, check=True)
    return run.stdout, run.stderr.strip()


def make_certificate(folder, name):
    """A self-signed certificate for 127.0.0.1 whose subject is `name`; the paths of both files."""
    cert, key = folder / f"{name}.pem", folder / f"{name}.key"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                    "-keyout", str(key), "-out", str(cert), "-days", "2", "-subj", f"/CN={name}",
                    "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
    return cert, key


def serve_in_vain(*flags):
    """A server that ends by itself, because it cannot start: its exit status and what it says."""
    return subprocess.run([BIN, "serve", "--port", "0", *map(str, flags)], capture_output=True, text=True, timeout=60,
                          check=False)


def check_prometheus(text):
    """The page of /metrics, by Prometheus' own tool; without it the test is skipped, and says so."""
    tool = shutil.which("promtool")
    if tool is None:
        import pytest
        pytest.skip("skip: no promtool (Debian package prometheus)")
    run = subprocess.run([tool, "check", "metrics"], input=text, capture_output=True, check=False)
    assert run.returncode == 0 and run.stderr == b"", run.stderr + run.stdout


def note_loop(log):
    """QUIRE_LOOP_REPORT names a file: a server's longest callback of its I/O thread becomes a line of it."""
    if "QUIRE_LOOP_REPORT" in os.environ:
        with open(os.environ["QUIRE_LOOP_REPORT"], "a", encoding="utf-8") as f:
            for ms, callback, part in re.findall(r" event=loop .*longest_ms=(\S+) callback=(\S+) part=(\S+)", log):
                test = os.environ.get("PYTEST_CURRENT_TEST", "-").split(" ")[0]
                f.write(f"{float(ms):9.2f} ms {callback} {part} {test}\n")


class Reply:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def text(self):
        return self.json["choices"][0]["text"]


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path, timeout):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Server:
    """quire serve on a free port; its log goes to a file.

    tls: an SSL context for clients, where the flags make it speak TLS. key: what requests present
    when they say nothing else. ready: wait until the model is there."""

    def __init__(self, *flags, model=None, binary=BIN, tls=None, key=None, ready=True, env=None):
        model = MODEL if model is None else model
        if "--api-keys" in flags and "--metrics-open" not in flags:
            flags = (*flags, "--metrics-open", "on")  # the tests look there
        args = [binary, "serve", "--port", "0", *([] if not model else ["--model", str(model)]),
                *cache_of(binary, flags), *flags]
        self.log = tempfile.NamedTemporaryFile(prefix="quire-e2e-", suffix=".log")
        self.tls, self.key, self.unix = tls, key, None
        self.process = subprocess.Popen(args, stdout=subprocess.PIPE, stderr=self.log, text=True,
                                        env={**os.environ, **(env or {})})
        self.pid = self.process.pid
        line = self.process.stdout.readline()
        found = re.match(r"listening on (https?)://([^ ]+):(\d+) |listening on unix:(.*) \(", line)
        assert found, f"no port in {line!r}; log: {self.read_log()}"
        self.unix = found.group(4)
        self.host = (found.group(2) or "").strip("[]")
        self.port = int(found.group(3) or 0)
        assert (found.group(1) == "https") == (tls is not None)
        if ready:
            self.wait_ready()

    def wait_ready(self, timeout=120):
        """Until the model is there; a process that ended instead is an error."""
        begin = time.monotonic()
        while self.get("/ready").status != 200:
            assert self.process.poll() is None, self.read_log()
            assert time.monotonic() - begin < PATIENCE * timeout, self.read_log()
            time.sleep(0.01)

    def flush_log(self):
        """Until the thread that writes the log has nothing left to do: then it sleeps. A new one is called log once it has run."""
        begin = time.monotonic()
        while time.monotonic() - begin < 5 and self.process.poll() is None:
            states = []
            try:
                tasks = os.listdir(f"/proc/{self.pid}/task")
            except OSError:
                return
            for task in tasks:
                try:
                    name, rest = open(f"/proc/{self.pid}/task/{task}/stat").read().split("(", 1)[1].rsplit(")", 1)
                except (OSError, IndexError):
                    continue
                states += [rest.split()[0]] if name == "log" else []
            if states and "R" not in states and "D" not in states:
                return
            time.sleep(0.001)

    def read_log(self):
        """All of it, once nothing comes any more: lines are written by a thread of their own."""
        if getattr(self, "pid", None):
            self.flush_log()
        with open(self.log.name, encoding="utf-8") as f:
            return f.read()

    def stop(self, sig=signal.SIGTERM, timeout=30):
        """Stop and return the exit status; the log must show no sanitizer report."""
        if self.process.poll() is None:
            self.process.send_signal(sig)
        try:
            status = self.process.wait(PATIENCE * timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        log = self.read_log()
        assert "Sanitizer" not in log and "runtime error" not in log, log[-4000:]
        note_loop(log)
        return status

    def address(self):
        return self.host if self.host not in ("", "0.0.0.0") else "127.0.0.1"

    def connect(self, timeout=60):
        timeout *= PATIENCE
        if self.unix:
            return UnixConnection(self.unix, timeout)
        if self.tls:
            return http.client.HTTPSConnection(self.address(), self.port, timeout=timeout, context=self.tls)
        return http.client.HTTPConnection(self.address(), self.port, timeout=timeout)

    def socket(self, timeout=60):
        s = socket.create_connection((self.address(), self.port), PATIENCE * timeout)
        return self.tls.wrap_socket(s, server_hostname=self.host) if self.tls else s

    def request(self, method, path, body=None, headers=None, timeout=60):
        c = self.connect(timeout)
        try:
            if isinstance(body, (dict, list)):
                body, headers = json.dumps(body), {**JSON, **(headers or {})}
            c.request(method, path, body, self.with_key(headers))
            r = c.getresponse()
            return Reply(r.status, r.headers, r.read())
        finally:
            c.close()

    def with_key(self, headers):
        headers = dict(headers or {})
        if self.key and not {"Authorization", "X-Api-Key"} & set(headers):
            headers["Authorization"] = f"Bearer {self.key}"
        return headers

    def get(self, path, **kw):
        return self.request("GET", path, **kw)

    def post(self, path, body, **kw):
        return self.request("POST", path, body, **kw)

    def complete(self, prompt, **fields):
        """Status 200 is expected; the Reply."""
        r = self.post("/v1/completions", {"prompt": prompt, **fields})
        assert r.status == 200, r.body
        return r

    def stream(self, prompt, headers=None, **fields):
        return Stream(self, {"prompt": prompt, "stream": True, **fields}, headers)

    def frames(self, path, body):
        """A stream of any endpoint, read to its end: what stands behind each "data: "."""
        r = self.post(path, {"stream": True, **body})
        assert r.status == 200 and r.headers["Content-Type"] == "text/event-stream"
        parts = r.body.decode().split("\n\n")
        assert parts.pop() == "" and all(p.startswith("data: ") for p in parts)
        return [p[6:] for p in parts]

    def metrics(self):
        """{'quire_x{a="b"}': value}"""
        out = {}
        for line in self.get("/metrics").body.decode().splitlines():
            if line and not line.startswith("#"):
                name, value = line.rsplit(" ", 1)
                out[name] = float(value)
        return out

    def gauges(self):
        """The metrics that a failure message should show."""
        return {k: v for k, v in self.metrics().items() if v and "bucket" not in k and "info" not in k}

    def held_blocks(self):
        return self.metrics()['quire_kv_blocks{state="held"}']

    def wait_until(self, question, timeout=20, what="condition"):
        """Ask question(metrics) until it is true; returns the seconds that took."""
        begin = time.monotonic()
        while True:
            if question(self.metrics()):
                return time.monotonic() - begin
            assert time.monotonic() - begin < PATIENCE * timeout, f"{what} not reached: {self.gauges()}"
            time.sleep(0.01)

    def wait_idle(self, timeout=20):
        """Nothing runs or waits, and every block is back."""
        return self.wait_until(is_idle, timeout, "idle")

    def n_fds(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def cpu_seconds(self):
        fields = open(f"/proc/{self.pid}/stat").read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def admitted(journal):
    """The posts of a journal, in the order in which their requests got their places."""
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    posts = {line["post"]: line for line in lines if "post" in line}
    return [posts[i] for line in lines for i in line.get("admitted", [])]


def is_idle(m):
    waiting = sum(v for k, v in m.items() if k.startswith("quire_requests_waiting"))
    return (m["quire_requests_running"] == 0 and waiting == 0 and m["quire_requests_preempted"] == 0
            and m['quire_kv_blocks{state="held"}'] == 0)


class Stream:
    """A streamed completion; iterate over its frames as dicts, [DONE] is checked at the end."""

    def __init__(self, server, body, headers=None):
        self.connection = server.connect()
        self.connection.request("POST", "/v1/completions", json.dumps(body),
                                server.with_key({**JSON, **(headers or {})}))
        self.reply = self.connection.getresponse()
        self.status, self.headers = self.reply.status, self.reply.headers
        self.raw = b""
        self.done = False

    def __iter__(self):
        while True:
            line = self.reply.readline()
            if not line:
                return
            self.raw += line
            if line == b"data: [DONE]\n":
                self.done = True
                self.raw += self.reply.read()
                return
            if line != b"\n" and not line.startswith(b":"):  # a comment: a ping of a slow machine
                assert line.startswith(b"data: "), line
                yield json.loads(line[6:].decode("utf-8"))

    def text(self, index=0):
        """Read to the end; the joined text of one choice."""
        parts = []
        for frame in self:
            parts += [c["text"] for c in frame.get("choices", []) if c["index"] == index]
        return "".join(parts)

    def close(self):
        self.connection.close()

    def reset(self):
        """RST instead of FIN."""
        s = self.connection.sock or self.reply.fp.raw._sock
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.reply.close()
        self.connection.close()


def crowd(server, n_tokens=150, **fields):
    """The choices of one call with 24 prompts. They come into the queue together, so that they run together however
    fast the machine is: a cache without room for all of them preempts some."""
    prompts = [[3 + (7 * i + k) % 50 for k in range(n_tokens)] for i in range(24)]
    body = {"prompt": prompts, "max_tokens": n_tokens, "ignore_eos": True, "temperature": 0, **fields}
    r = server.post("/v1/completions", body, timeout=600)
    assert r.status == 200, r.body
    return r.json["choices"]


def preemptions(m):
    """Their number, by the metrics of a server with one model."""
    return sum(m[f'quire_preemptions_total{{mode="{mode}"}}'] for mode in ("recompute", "swap"))


def in_threads(jobs):
    """Run callables in parallel; their results in order, the first exception raised."""
    results, errors = [None] * len(jobs), []

    def run(i):
        try:
            results[i] = jobs[i]()
        except BaseException as e:  # noqa: BLE001 - handed to the test
            errors.append(e)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(jobs))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if errors:
        raise errors[0]
    return results
