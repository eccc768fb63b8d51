"""Uploads that break at any byte, by any cause: nothing of them is left. QUIRE_SLOW=1: a thousand of them."""
import os
import random

import pytest

from broken_uploads import CAUSES, LINE, MAX_FILE, break_one, form, head, send
from quire import SLOW, Server

N = 1000 if SLOW else 120


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


def test_the_handlers_answer_is_the_one_that_is_sent(tmp_path):
    """The file is too large, and the client stops in the middle: 413 of the handler, not HTTP's 408."""
    s = Server("--batch-dir", str(tmp_path), "--batch-file-size", str(MAX_FILE), "--min-body-rate", "1000000")
    before = left(s, tmp_path)
    c = s.socket()
    c.sendall(head("Content-Length: 1000000") + form("x" * (3 * MAX_FILE)))
    assert c.recv(4096).startswith(b"HTTP/1.1 413 ")
    assert c.recv(4096) == b""
    c.close()
    s.wait_until(lambda _: left(s, tmp_path) == before, what=f"as it was: {before}")
    assert s.stop() == 0
