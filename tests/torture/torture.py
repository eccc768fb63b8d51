"""Make the n-th allocation or system call of a server fail, for n = 0, 1, 2, ..., through a start, a load and a
request of every endpoint.

What may come of it: an answer, an error, a closed connection, a start that ends with a sentence. Never a signal, an
abort, a hang or a sanitizer's report; and what comes afterwards is answered as ever.

The numbers that say what fails lie in a file that the server has mapped: see struct mem_torture (core/base/mem.h)
and struct control (fail_syscalls.c).
"""
import errno
import gzip
import mmap
import os
import random
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "e2e"))

from quire import Server  # noqa: E402

HANG_S = float(os.environ.get("QUIRE_TORTURE_HANG_S", "60"))
JSON = {"Content-Type": "application/json"}
CALLS = ("read write pread pwrite preadv pwritev open mmap pthread_create accept4 fstat ftruncate fsync fallocate flock "
         "rename unlink socket bind listen setsockopt recv send sendmsg madvise getrandom fopen readv writev").split()
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"enum": ["x", "y"]}}, "required": ["a"]}
MESSAGES = [{"role": "user", "content": "Say something"}]
TOOL = {"type": "function", "function": {"name": "f", "parameters": SCHEMA}}
FUNCTION = {"type": "function", "name": "f", "description": "Finds.", "parameters": SCHEMA, "defer_loading": True}
SEARCHED = {"input": [{"role": "user", "content": "Once"}, {"type": "tool_search_call", "call_id": "c", "arguments": {"paths": ["a"]}},
                      {"type": "tool_search_output", "call_id": "c", "tools": [
                          {"type": "namespace", "name": "a", "description": "Things.", "tools": [FUNCTION]}, {"type": "web_search"}]}],
            "tools": [{"type": "tool_search", "execution": "client"}, FUNCTION], "max_output_tokens": 4}
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
REQUESTS = [  # one of each endpoint, and of what takes other ways through it
    ("GET", "/health", None), ("GET", "/ready", None), ("GET", "/metrics", None), ("GET", "/version", None),
    ("GET", "/openapi.json", None), ("GET", "/v1/models", None), ("GET", "/props", None), ("GET", "/slots", None),
    ("GET", "/debug/requests", None), ("GET", "/debug/iterations", None), ("GET", "/debug/kv", None),
    ("GET", "/nowhere", None),
    ("POST", "/tokenize", {"content": "Once upon a time", "with_pieces": True}),
    ("POST", "/detokenize", {"tokens": [5, 6, 7]}),
    ("POST", "/apply-template", {"messages": MESSAGES}),
    ("POST", "/v1/plan", {"prompt": "Once"}),
    ("POST", "/v1/embeddings", {"input": ["Once", "upon"]}),
    ("POST", "/v1/completions", {"prompt": "Once upon", "max_tokens": 4, "n": 2, "logprobs": 2, "presence_penalty": 0.5}),
    ("POST", "/v1/completions", {"prompt": "Once upon", "max_tokens": 4, "stream": True, "stop": ["xyz"]}),
    ("POST", "/v1/completions", {"prompt": "Once", "max_tokens": 6, "grammar": 'root ::= "a" [b-d]* | "e"'}),
    ("POST", "/v1/completions", {"prompt": "Once", "max_tokens": 6, "structured_outputs": {"regex": "[ab]{2,4}c?"}}),
    ("POST", "/completion", {"prompt": "Once", "n_predict": 4, "n_probs": 2}),
    ("POST", "/infill", {"input_prefix": "a", "input_suffix": "b", "n_predict": 2}),
    ("POST", "/v1/chat/completions", {"messages": MESSAGES, "max_tokens": 4}),
    ("POST", "/v1/chat/completions", {"messages": MESSAGES, "max_tokens": 8, "stream": True, "tools": [TOOL]}),
    ("POST", "/v1/chat/completions", {"messages": MESSAGES, "max_tokens": 8, "response_format": {
        "type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}}),
    ("POST", "/v1/responses", {"input": "Once", "max_output_tokens": 4}),
    ("POST", "/v1/responses", SEARCHED),
    ("POST", "/v1/responses", {**SEARCHED, "tool_choice": "required", "max_output_tokens": 60, "stream": True}),
    ("POST", "/v1/chat/completions/control", {"id": "chatcmpl-x", "action": "reasoning_end"}),
    ("POST", "/v1/messages", {"messages": MESSAGES, "max_tokens": 4}),
    ("POST", "/v1/messages/count_tokens", {"messages": MESSAGES}),
    ("POST", "/v1/decisions", {"input": "Once", "permutations": 2, "questions": [
        {"type": "predicate", "instructions": "x"}, {"type": "choice", "name": "c", "instructions": [
            {"type": "input_json", "data": {"a": 1}}], "choices": [{"value": "a"}, {"value": True, "description": "b"}]}]}),
    ("POST", "/v1/systemone", {"state": {"a": 1}, "questions": {"b": {"type": "score", "criteria": ["c", {"d": 2}]}}}),
    ("POST", "/v1/completions", "no JSON {"),
    ("POST", "/tokenize", gzip.compress(b'{"content": "Once upon a time"}')),
    ("POST", "/tokenize", ZSTD_MAGIC + bytes([0, 13 << 3, 15 << 3 | 1, 0, 0]) + b'{"content":"a"}'),  # a window of 8 MiB
]


class Control:
    """The mapped numbers; `head` fields precede them (the mask of calls)."""

    def __init__(self, n_fields):
        self.file = tempfile.NamedTemporaryFile(prefix="quire-torture-")
        self.file.write(b"\0" * 4096)
        self.file.flush()
        self.path = self.file.name
        self.map = mmap.mmap(self.file.fileno(), 4096)
        self.n_fields = n_fields

    def get(self, i):
        return struct.unpack_from("q", self.map, 8 * i)[0]

    def set(self, i, value):
        struct.pack_into("q", self.map, 8 * i, value)


class Allocations(Control):
    """Of core/base/mem.h, or of the whole process, in a debug build."""

    def __init__(self, of_process=False):
        super().__init__(5)
        self.set(4, int(of_process))
        self.env = {"QUIRE_DEBUG_TORTURE": self.path}
        self.off()

    def off(self):
        self.set(0, -1)

    def arm(self, n, count=1):
        self.set(1, count)
        self.set(3, 0)
        self.set(2, 0)
        self.set(0, n)

    def failed(self):
        return self.get(3)

    def seen(self):
        return self.get(2)


class Calls(Control):
    """Of the C library, with the preloaded library."""

    def __init__(self, library, names, error):
        super().__init__(6)
        self.env = {"QUIRE_TORTURE_CALLS": self.path, "LD_PRELOAD": os.path.abspath(library)}
        self.names, self.error = names, error
        self.set(0, sum(1 << CALLS.index(name) for name in names))
        self.set(3, getattr(errno, error) if error else 0)
        self.off()

    def off(self):
        self.set(1, -1)

    def arm(self, n, count=1):
        self.set(2, count)
        self.set(5, 0)
        self.set(4, 0)
        self.set(1, n)

    def failed(self):
        return self.get(5)

    def seen(self):
        return self.get(4)


# What each call may fail with (None: a part is done). Left out: errors that a kernel does not give for a call.
FAILURES = [
    (("read", "pread", "preadv", "recv", "readv"), ("EINTR", "EIO", None)),
    (("write", "pwrite", "pwritev", "send", "sendmsg", "writev"), ("EINTR", "ENOSPC", "EIO", "EPIPE")),
    (("write", "pwrite", "pwritev", "send", "sendmsg", "writev"), (None,)),
    (("open", "fopen", "socket"), ("EMFILE", "EINTR", "ENOMEM")),
    (("accept4",), ("EMFILE", "EINTR", "ENOMEM", "ECONNABORTED")),
    (("mmap",), ("ENOMEM",)),
    (("pthread_create",), ("EAGAIN",)),
    (("fstat", "ftruncate", "fsync", "fallocate", "flock", "rename", "unlink", "bind", "listen", "setsockopt"),
     ("EIO", "ENOSPC")),
    (("madvise", "getrandom"), ("EINVAL", "EINTR")),
]


class Fallen(AssertionError):
    """What no failure may lead to."""


def attempt(server, method, path, body, timeout=60):
    """One request; what came of it in a word. An exchange that is cut off is allowed, one that hangs is not."""
    headers = {**JSON, "Content-Encoding": "zstd" if body.startswith(ZSTD_MAGIC) else "gzip"} if isinstance(body, bytes) else JSON
    try:
        r = server.request(method, path, body if not isinstance(body, str) else body.encode(), headers, timeout=timeout)
        return r.status
    except TimeoutError as e:
        raise Fallen(f"no answer to {method} {path} in {timeout} s") from e
    except (OSError, Exception) as e:  # noqa: BLE001 - http.client has many names for a cut-off answer
        if isinstance(e, Fallen):
            raise
        return type(e).__name__


class Torture:
    def __init__(self, binary, flags=(), seconds=None, seed=1, log=print):
        self.binary, self.flags, self.log = binary, list(flags), log
        self.end = time.monotonic() + seconds if seconds else None
        self.least = 0  # failure points passed, whatever the time
        self.random = random.Random(seed)

    def is_late(self, passed):
        """Is the time over, and so much passed as there must, however slow the machine is?"""
        return self.end is not None and time.monotonic() > self.end and passed >= self.least

    # ---- a start

    def start(self, control, n, count=1):
        """True: the failure was reached."""
        control.arm(n, count)
        with tempfile.TemporaryFile("w+") as log:
            p = subprocess.Popen([self.binary, "serve", "--port", "0", *self.flags], stdout=subprocess.PIPE, stderr=log,
                                 text=True, env={**os.environ, **control.env})
            try:
                self.end_of_start(p, re.search(r":(\d+) ", first_line(p)))
            finally:
                control.off()
                if p.poll() is None:
                    p.kill()
                p.wait()
                p.stdout.close()
            log.seek(0)
            text = log.read()
        what = f"start, failure {n} x {count} of {getattr(control, 'names', 'allocations')} {getattr(control, 'error', '')}"
        if p.returncode not in (0, 1, 2, 127):
            raise Fallen(f"{what}: ended with {p.returncode}\n{text[-3000:]}")
        if "Sanitizer" in text or "runtime error" in text:
            raise Fallen(f"{what}: {text[-6000:]}")
        if p.returncode in (1, 2) and "quire: " not in text and not self.is_deaf(control):
            raise Fallen(f"{what}: ended with {p.returncode} and no sentence: {text!r}")
        return control.failed() > 0

    @staticmethod
    def is_deaf(control):
        """It may be the sentence itself that could not be written."""
        return "write" in getattr(control, "names", ()) or "writev" in getattr(control, "names", ())

    def end_of_start(self, p, port):
        """Until it is ready or has ended; then it is told to end. Without a line that says the port: a second."""
        begin = time.monotonic()
        while p.poll() is None and not (port and is_ready(int(port[1]))):
            late = time.monotonic() - begin
            if not port and late > 1:
                break
            if late > HANG_S:
                raise Fallen("neither ready nor ended after 60 s")
            time.sleep(0.002)
        if p.poll() is None:
            p.send_signal(signal.SIGTERM)
        try:
            p.wait(30)
        except subprocess.TimeoutExpired as e:
            raise Fallen("does not end when told") from e

    def starts(self, control, limit=None):
        """Each failure of a start in turn; with little time a sample. The number of failure points passed."""
        control.arm(1 << 60)
        self.start(control, 1 << 60)
        n_points = control.seen()
        points = list(range(n_points + 20))
        if self.end is not None:
            head = points[:60]
            rest = points[60:]
            self.random.shuffle(rest)
            points = head + rest
        passed = 0
        for n in points[:limit]:
            passed += self.start(control, n)
            if self.is_late(passed):
                break
        return passed, n_points

    # ---- requests

    def requests(self, control, requests=REQUESTS, most=10 ** 9):
        """Each failure of each request in turn. The number of failure points passed."""
        passed = 0
        server = Server(*self.flags, binary=self.binary, env=control.env)
        try:
            for method, path, body in requests:
                passed += self.one_request(server, control, method, path, body, most, passed)
                if self.is_late(passed):
                    break
            self.check(server, "at the end", True)
            if server.stop() != 0:
                raise Fallen(f"ended with {server.process.returncode}: {server.read_log()[-3000:]}")
        finally:
            control.off()
            if server.process.poll() is None:
                server.process.kill()
                server.process.wait()
        return passed

    def one_request(self, server, control, method, path, body, most, before=0):
        n, passed, step = 0, 0, 1
        while passed < most and not self.is_late(before + passed):
            control.arm(n)
            came = attempt(server, method, path, body)
            reached = control.failed() > 0
            control.off()
            passed += reached
            self.check(server, f"{method} {path}: failure {n} -> {came}", passed % 25 == 0)
            if not reached:
                break
            n += step
        return passed

    def check(self, server, what, whole):
        """It lives and answers; `whole`: it still completes, and holds nothing."""
        for _ in range(3):  # a connection or two may have been lost to the failure before
            came = attempt(server, "GET", "/health", None)
            if came == 200:
                break
        if came != 200 or server.process.poll() is not None:
            raise Fallen(f"{what}: then /health gives {came}, exit {server.process.poll()}: {server.read_log()[-6000:]}")
        if whole:
            came = attempt(server, "POST", "/v1/completions", {"prompt": "Once", "max_tokens": 3})
            if came != 200:
                raise Fallen(f"{what}: then a completion gives {came}: {server.read_log()[-3000:]}")
            server.wait_until(lambda m: m["quire_requests_running"] == 0 and m['quire_kv_blocks{state="held"}'] == 0,
                              what=f"{what}: nothing held")


def first_line(p):
    """What it prints first, or nothing: it has ended, or cannot print."""
    if not select.select([p.stdout], [], [], HANG_S)[0]:
        p.kill()
        raise Fallen("it neither listens nor ends")
    return p.stdout.readline()


def is_ready(port):
    try:
        with socket.create_connection(("127.0.0.1", port), 5) as c:
            c.settimeout(5)
            c.sendall(b"GET /ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            return b" 200 " in c.recv(64)
    except OSError:
        return False
