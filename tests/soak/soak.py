#!/usr/bin/env python3
"""soak.py [SECONDS]: a server under everything at once, and what it holds before and afterwards.

Clients use every endpoint, with keys of several tenants; some leave in the middle, some never read, some send bytes
one by one, some send what is no HTTP or asks for too much work; keys are read again all the time. Beside them a
process of its own asks for /health. First the same for a while, so that caches are full and the allocator warm, then
silence: the baseline. At the end, in silence again, resident memory, descriptors, threads and blocks must be as
before, every answer as expected, and the 99th percentile of /health below its limit.

QUIRE_BIN: the server (default build/quire). Exit code 0: all of that holds.
"""
import json
import multiprocessing
import pathlib
import random
import signal
import socket
import struct
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "e2e"))

from broken_uploads import CAUSES, MAX_FILE, break_one, form, head, send  # noqa: E402
from quire import JSON, SANITIZED, Server, make_key  # noqa: E402

MIB = 1 << 20
N_CLIENTS = 12
# A sanitizer's allocator keeps freed blocks for a while, and the process is several times slower.
MAX_GROWTH = (96 if SANITIZED else 24) * MIB
MAX_HEALTH_MS = 250 if SANITIZED else 50
MAX_CALLBACK_MS = 200 if SANITIZED else 20  # of CPU time of the I/O thread
WORDS = "the old king had three sons and a fox who knew every path in the garden by night".split()
TOOL = {"type": "function", "function": {"name": "weather", "description": "d", "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "maxLength": 12}}, "required": ["city"]}}}


def text(r, n):
    return " ".join(r.choice(WORDS) for _ in range(r.randint(1, n)))


def chat(r, n=12):
    return [{"role": "user", "content": text(r, n)}]


def bomb(r):
    """Small bodies that ask for much work."""
    n = r.randint(10, 40)
    defs = {f"x{i}": {"anyOf": [{"$ref": f"#/$defs/x{i + 1}"}] * 2} for i in range(n)}
    schema = {"$defs": {**defs, f"x{n}": {"type": "integer"}}, "$ref": "#/$defs/x0"}
    return r.choice([
        {"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}},
        {"structured_outputs": {"regex": "(" * 20 + "a{1,9}" + "){1,9}" * 20}},
        {"structured_outputs": {"regex": "(?P<" + "x" * r.randint(0, 9)}},
        {"grammar": "root ::= " + " | ".join(f'"a" x{i % 7}' for i in range(r.randint(10, 1500))) +
                    "".join(f'\nx{i} ::= "b" | "bb" x{i}' for i in range(7))},
        {"grammar": 'root ::= "' + "x" * r.randint(1, 200000) + '"'},
        {"structured_outputs": {"choice": ["a" * i for i in range(1, r.randint(2, 900))]}},
    ])


def requests(r):
    """(path, body, statuses that are fine)"""
    ok = {200, 429}
    p = {"prompt": text(r, 60), "max_tokens": r.randint(0, 60), "seed": r.randint(1, 9),
         "temperature": r.choice([0, 0.8])}
    yield "/v1/completions", {**p, "stream": r.random() < 0.5, "n": r.choice([1, 1, 3])}, ok
    yield "/v1/completions", {**p, "logprobs": r.randint(0, 5), "echo": True, "presence_penalty": 0.3}, ok
    yield "/v1/completions", {**p, "prompt_logprobs": 2, "n": 2}, ok
    yield "/v1/completions", {**p, "deadline_ms": r.randint(1, 2000)}, ok | {408}
    yield "/v1/completions", {**p, "max_queue_ms": 1, "priority": r.choice(["low", "critical"])}, ok
    yield "/v1/completions", {"prompt": "x", "max_tokens": 2, **bomb(r)}, ok | {400}
    yield "/v1/chat/completions", {"messages": chat(r), "max_tokens": 30, "stream": r.random() < 0.5}, ok
    yield "/v1/chat/completions", {"messages": chat(r), "max_tokens": 30, "tools": [TOOL],
                                   "tool_choice": r.choice(["auto", "required", "none"])}, ok
    yield "/v1/chat/completions", {"messages": chat(r), "max_tokens": 40,
                                   "response_format": {"type": "json_object"}}, ok
    yield "/v1/messages", {"model": "quire-demo", "messages": chat(r), "max_tokens": 20,
                           "stream": r.random() < 0.5}, ok
    yield "/v1/messages/count_tokens", {"model": "quire-demo", "messages": chat(r, 200)}, ok
    yield "/v1/responses", {"input": text(r, 20), "max_output_tokens": 20, "stream": r.random() < 0.5}, ok
    yield "/v1/embeddings", {"input": [text(r, 30), text(r, 3)]}, ok
    yield "/completion", {"prompt": text(r, 20), "n_predict": 12, "stream": r.random() < 0.5}, ok
    yield "/tokenize", {"content": text(r, 4000)}, ok
    yield "/detokenize", {"tokens": [r.randint(0, 250) for _ in range(r.randint(0, 3000))]}, ok
    yield "/apply-template", {"messages": chat(r)}, ok
    yield "/v1/plan", {"prompt": text(r, 50), "max_tokens": 5}, ok
    yield "/v1/completions", {"prompt": 5.5}, {400, 429}
    yield "/v1/completions", {"prompt": "x", "junk": [[i] for i in range(r.randint(1, 60000))]}, {200, 413, 429}


class Client(threading.Thread):
    def __init__(self, soak, number):
        super().__init__(daemon=True)
        self.soak, self.random = soak, random.Random(number)
        self.counts, self.errors = {}, []

    def run(self):
        while not self.soak.is_over.is_set():
            kind = self.random.random()
            try:
                if kind < 0.68:
                    self.ask(*self.random.choice(list(requests(self.random))))
                elif kind < 0.80:
                    self.random.choice([self.kept_stream, self.look_up, self.upload, self.large_answer])()
                elif kind < 0.86:
                    self.pages()
                elif kind < 0.92:
                    self.nonsense()
                else:
                    self.linger()
            except (ConnectionError, TimeoutError, socket.timeout) as e:
                self.count(type(e).__name__)

    def count(self, what):
        self.counts[what] = self.counts.get(what, 0) + 1

    def expect(self, what, status, fine):
        self.count(status)
        if status not in fine:
            self.errors.append((what, status))

    def ask(self, path, body, fine):
        c = self.soak.server.connect(timeout=120)
        try:
            c.request("POST", path, json.dumps(body), {**JSON, "X-Api-Key": self.random.choice(self.soak.secrets)})
            if self.random.random() < 0.15:
                time.sleep(self.random.random() * 0.2)
                self.count("left")
                return
            r = c.getresponse()
            data = r.read()
            self.expect((path, body if len(str(body)) < 300 else "...", data[:200]), r.status, fine)
        finally:
            c.close()

    def kept_stream(self):
        """A stream that is left, and gone on with behind some frame."""
        headers = {**JSON, "X-Api-Key": self.random.choice(self.soak.secrets),
                   "X-Conversation-Id": f"talk-{self.random.randint(1, 500)}"}
        body = {"prompt": text(self.random, 20), "max_tokens": 200, "stream": True, "resumable": True,
                "n": self.random.choice([1, 1, 16])}
        c = self.soak.server.connect(timeout=120)
        c.request("POST", "/v1/completions", json.dumps(body), headers)
        r = c.getresponse()
        name = r.headers["X-Stream-Id"]
        self.expect("a kept stream", r.status, {200, 429})
        r.read(self.random.choice([1, 300, 20000]))
        c.close()
        if name:
            r = self.soak.server.get(f"/v1/streams/{name}?after={self.random.choice([0, 3, 40])}", headers=headers, timeout=120)
            self.expect("a stream gone on with", r.status, {200, 204, 404, 410, 416})  # others may need its memory

    def look_up(self):
        names = [f"talk-{self.random.randint(1, 900)}" for _ in range(self.random.choice([1, 50, 1000, 1001]))]
        r = self.soak.server.post("/v1/streams/lookup", {"conversation_ids": names},
                                  headers={"X-Api-Key": self.random.choice(self.soak.secrets)})
        self.expect("a look-up", r.status, {200} if len(names) <= 1000 else {400})

    def upload(self):
        key = self.random.choice(self.soak.secrets)
        if self.random.random() < 0.8:
            cause = self.random.choice(list(CAUSES))
            self.expect(f"an upload: {cause}", break_one(self.soak.server, self.random, cause, key), CAUSES[cause] | {429})
            return
        whole = form("{}\n" * self.random.randint(1, 2000))
        status = send(self.soak.server, head(f"Content-Length: {len(whole)}", key) + whole)
        self.expect("an upload", status, {200, 429})
        for f in self.soak.server.get("/v1/files", headers={"X-Api-Key": key}).json["data"]:
            self.soak.server.request("DELETE", f"/v1/files/{f['id']}", headers={"X-Api-Key": key})

    def large_answer(self):
        """Megabytes of vectors, which are read, left, or not read for a while."""
        body = {"input": [text(self.random, 200) for _ in range(self.random.choice([1, 10, 40]))], "task": "token_embed"}
        c = self.soak.server.connect(timeout=120)
        c.request("POST", "/pooling", json.dumps(body), {**JSON, "X-Api-Key": self.random.choice(self.soak.secrets)})
        if self.random.random() < 0.7:
            r = c.getresponse()
            self.expect("a large answer", r.status, {200, 429})
            r.read(self.random.choice([1, 1 << 20, 1 << 30]))
        else:
            time.sleep(self.random.random())
        c.close()

    def pages(self):
        path = self.random.choice(["/metrics", "/slots", "/debug/kv", "/debug/requests", "/debug/iterations", "/props",
                                   "/v1/models", "/openapi.json", "/ready", "/version", "/nothing"])
        r = self.soak.server.get(path, headers={"X-Api-Key": self.soak.admin})
        self.expect(path, r.status, {404} if path == "/nothing" else {200})

    def nonsense(self):
        data = self.random.choice([b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00", b"POST /v1/completions HTTP/1.1\r\n"
                                   b"Host: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                                   b"A" * 30000, b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n" * 20])
        with self.soak.server.socket(timeout=20) as s:
            s.sendall(data)
            if self.random.random() < 0.5:
                s.recv(4096)
            else:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.count("nonsense")

    def linger(self):
        """Half a head, half a body, or a stream that nobody reads, for some seconds."""
        body = json.dumps({"prompt": "Once", "max_tokens": 900, "stream": True, "n": 4, "logprobs": 5}).encode()
        head = (b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nX-Api-Key: %s\r\nContent-Type: application/json\r\n"
                b"Content-Length: %d\r\n\r\n" % (self.random.choice(self.soak.secrets).encode(), len(body)))
        whole = head + body
        with self.soak.server.socket(timeout=20) as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            s.sendall(whole[:self.random.choice([30, len(head) + 9, len(whole)])])
            time.sleep(self.random.random() * 3)
        self.count("lingered")


def watch_health(port, pipe, is_over):
    """A process of its own, so that the clients' interpreter does not slow its clock."""
    took = []
    while not is_over.is_set():
        begin = time.perf_counter()
        with socket.create_connection(("127.0.0.1", port), timeout=30) as s:
            s.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            answer = s.recv(100)
        took.append(time.perf_counter() - begin if b" 200 " in answer else 1e9)
        time.sleep(0.02)
    pipe.send(took)


class Soak:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.keys = self.folder / "keys"
        (self.folder / "batches").mkdir()
        self.secrets, self.entries = [], []
        for i in range(4):
            self.secrets.append(self.add_key(f"k{i}", "--tenant", "abc"[i % 3]))
        self.admin = self.add_key("root", "--admin")
        self.write_keys()
        self.server = Server(
            "--api-keys", str(self.keys), "--metrics-open", "on", "--kv-memory", "2m", "--swap-ram", "512k", "--swap-file",
            str(self.folder / "swap"), "--swap-file-size", "4m", "--max-sequences", "16", "--queue-limit", "64",
            "--preemption", "swap", "--log-level", "warn", "--journal", str(self.folder / "journal"), "--request-memory", "128m",
            "--batch-dir", str(self.folder / "batches"), "--batch-file-size", str(MAX_FILE), "--stream-keep-ms", "5000",
            "--stream-memory", "4m",
            env={"ASAN_OPTIONS": "quarantine_size_mb=8"})
        self.is_over = threading.Event()

    def add_key(self, name, *flags):
        entry, secret = make_key(name, *flags)
        self.entries.append(entry)
        return secret

    def write_keys(self):
        new = self.folder / "keys.new"
        new.write_text("\n".join(self.entries))
        new.replace(self.keys)

    def load(self, seconds, seed):
        self.is_over.clear()
        clients = [Client(self, seed + i) for i in range(N_CLIENTS)]
        for c in clients:
            c.start()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.write_keys()
            self.server.process.send_signal(signal.SIGHUP)
            time.sleep(min(1, max(0, end - time.monotonic())))
            assert self.server.process.poll() is None, self.server.read_log()[-3000:]
        self.is_over.set()
        for c in clients:
            c.join(150)
            assert not c.is_alive(), "a client hangs"
        return clients

    def fill_caches(self):
        """Compiled schemas and grammars are kept up to a limit: that it is reached is no growth."""
        r = random.Random(2000)
        for i in range(400):
            self.server.post("/v1/completions", {"prompt": "x", "max_tokens": 1, **bomb(r)}, timeout=120,
                             headers={**JSON, "X-Api-Key": self.secrets[i % 4]})

    def rest(self):
        """What it holds when nothing is to be done."""
        self.server.wait_idle(60)
        self.server.wait_until(lambda m: m["quire_connections"] == 1 and m["quire_request_memory_bytes"] == 0 and
                               m["quire_streams_kept_bytes"] == 0 and m["quire_files"] == 0, 90, "rest")
        time.sleep(1)
        m = self.server.metrics()
        status = pathlib.Path(f"/proc/{self.server.pid}/status").read_text()
        return {"resident MiB": round(m["process_resident_memory_bytes"] / MIB, 1),
                "descriptors": int(m["process_open_fds"]),
                "files of batches": len(list((self.folder / "batches").iterdir())),
                "threads": int(status.split("Threads:")[1].split()[0]),
                "blocks held": int(m['quire_kv_blocks{state="held"}']),
                "blocks free or cached": int(m['quire_kv_blocks{state="free"}'] + m['quire_kv_blocks{state="cached"}']),
                "swapped bytes": int(m['quire_swap_bytes{tier="ram"}'] + m['quire_swap_bytes{tier="file"}']),
                "jobs": int(sum(v for k, v in m.items() if k.startswith("quire_prepare_jobs")))}


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60
    multiprocessing.set_start_method("spawn")
    with tempfile.TemporaryDirectory(prefix="quire-soak-") as folder:
        soak = Soak(folder)
        soak.load(max(15, seconds / 5), 1000)
        soak.fill_caches()
        before = soak.rest()
        ours, theirs = multiprocessing.Pipe()
        is_over = multiprocessing.Event()
        health = multiprocessing.Process(target=watch_health, args=(soak.server.port, theirs, is_over))
        health.start()
        clients = soak.load(seconds, 1)
        is_over.set()
        took = sorted(ours.recv())
        health.join()
        after = soak.rest()
        callback_ms = soak.server.metrics()["quire_loop_callback_longest_seconds"] * 1e3
        code = soak.server.stop()
    counts, errors = {}, []
    for c in clients:
        errors += c.errors
        for k, v in c.counts.items():
            counts[str(k)] = counts.get(str(k), 0) + v
    p50, p99 = took[len(took) // 2] * 1e3, took[len(took) * 99 // 100] * 1e3
    print(f"{seconds:.0f} s, {sum(counts.values())} exchanges: " + ", ".join(f"{k} {v}" for k, v in sorted(counts.items())))
    print(f"{'':24}{'before':>12}{'after':>12}")
    for name, value in before.items():
        print(f"{name:24}{value:>12}{after[name]:>12}")
    print(f"/health: {len(took)} times, p50 {p50:.1f} ms, p99 {p99:.1f} ms, longest {took[-1] * 1e3:.1f} ms")
    print(f"I/O thread: longest callback {callback_ms:.1f} ms of CPU time")
    failures = [f"unexpected: {e}" for e in errors[:10]]
    failures += [f"{k}: {before[k]} before, {after[k]} after" for k in before if k != "resident MiB" and
                 before[k] != after[k]]
    if after["resident MiB"] - before["resident MiB"] > MAX_GROWTH / MIB:
        failures.append("resident memory has grown")
    if p99 > MAX_HEALTH_MS:
        failures.append(f"/health: p99 above {MAX_HEALTH_MS} ms")
    if callback_ms > MAX_CALLBACK_MS:
        failures.append(f"a callback of the I/O thread computed for longer than {MAX_CALLBACK_MS} ms")
    if code != 0:
        failures.append(f"exit code {code}")
    print("\n".join(failures) if failures else "as before")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
