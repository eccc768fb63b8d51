"""Uploads that break at any byte, by any cause: nothing of them is left. QUIRE_SLOW=1: a thousand of them."""
import json
import os
import random
import socket

import pytest

from quire import SLOW, Server

N = 1000 if SLOW else 120
BOUNDARY = "quire-boundary"
LINE = json.dumps({"custom_id": "a", "method": "POST", "url": "/v1/completions", "body": {"prompt": "a"}})
MAX_FILE = 64 << 10


def form(content):
    """A form with purpose and file."""
    parts = [f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n',
             f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="a.jsonl"\r\n\r\n{content}\r\n',
             f"--{BOUNDARY}--\r\n"]
    return "".join(parts).encode()


def head(framing):
    return (f"POST /v1/files HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary={BOUNDARY}\r\n"
            f"{framing}\r\n\r\n").encode()


def chunked(body, size=1000):
    pieces = [body[i:i + size] for i in range(0, len(body), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in pieces) + b"0\r\n\r\n"


def send(server, data, leaves=None):
    """Send, and leave ("close", "reset") or wait for the answer. The status, or 0."""
    s = server.socket()
    try:
        s.sendall(data)
        if leaves == "reset":
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        if leaves:
            return 0
        answer = s.recv(4096)
        return int(answer.split()[1]) if answer else 0
    except (BrokenPipeError, ConnectionResetError):
        return 0
    finally:
        s.close()


def break_one(server, rng, cause):
    """One upload that breaks, at a byte that nobody chose."""
    body = form((LINE + "\n") * rng.randrange(1, 200))
    at = rng.randrange(1, len(body))
    if cause == "leaves":
        return send(server, head(f"Content-Length: {len(body)}") + body[:at], leaves=rng.choice(["close", "reset"]))
    if cause == "chunk":
        return send(server, head("Transfer-Encoding: chunked") + chunked(body[:at])[:-5] + b"zz\r\n" + b"x" * 300)
    if cause == "form":
        return send(server, head(f"Content-Length: {at}") + body[:at])
    large = form("x" * (MAX_FILE + 40000 + at))
    if cause == "file_too_large":
        return send(server, head(f"Content-Length: {len(large)}") + large)
    return send(server, head("Transfer-Encoding: chunked") + chunked(form("x" * 400000), 1 + at))  # body_too_large


CAUSES = {"leaves": {0}, "chunk": {400, 0}, "form": {400, 0}, "file_too_large": {413, 0}, "body_too_large": {413, 0}}


def left(server, folder):
    m = server.metrics()
    return {"fds": server.n_fds(), "names": sorted(os.listdir(folder)), "files": m["quire_files"],
            "bytes": m["quire_files_bytes"], "memory": m["quire_request_memory_bytes"]}


@pytest.fixture
def uploads(tmp_path):
    s = Server("--batch-dir", str(tmp_path), "--batch-file-size", str(MAX_FILE))
    assert send(s, head(f"Content-Length: {len(form(LINE))}") + form(LINE)) == 200
    yield s
    s.stop()


def test_nothing_is_left_of_broken_uploads(uploads, tmp_path):
    rng = random.Random(4)
    before = left(uploads, tmp_path)
    for i in range(N):
        cause = list(CAUSES)[i % len(CAUSES)]
        status = break_one(uploads, rng, cause)
        assert status in CAUSES[cause], (cause, status)
    uploads.wait_until(lambda _: left(uploads, tmp_path) == before, what=f"as it was: {before}")
    assert send(uploads, head(f"Content-Length: {len(form(LINE))}") + form(LINE)) == 200


def test_nothing_is_left_of_a_slow_upload(tmp_path):
    """HTTP answers 408 itself while the file's beginning is on the disk."""
    s = Server("--batch-dir", str(tmp_path), "--min-body-rate", "1000000")
    before = left(s, tmp_path)
    clients = [s.socket() for _ in range(5)]
    for c in clients:
        c.sendall(head("Content-Length: 100000") + form(LINE)[:-20])
    s.wait_until(lambda m: s.n_fds() >= before["fds"] + 2 * len(clients), what="uploads begun")
    for c in clients:
        assert c.recv(4096).startswith(b"HTTP/1.1 408 ")
        c.close()
    s.wait_until(lambda _: left(s, tmp_path) == before, what=f"as it was: {before}")
    assert s.stop() == 0
