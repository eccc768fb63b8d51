"""Clients that go away, and clients that do not read."""
import json
import random
import socket
import time

import pytest

LONG = {"max_tokens": 100000, "ignore_eos": True, "temperature": 1, "seed": 1}


def post(body):
    data = json.dumps(body).encode()
    return b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(data) + data


def leave(s, how):
    if how == "reset":
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    s.close()


def begin(server, **body):
    s = server.socket()
    s.sendall(post(body))
    return s


@pytest.fixture(scope="module")
def narrow():
    """One request at a time, and prompts that take many steps."""
    from quire import Server
    s = Server("--max-sequences", "1", "--prefill-chunk", "1", "--queue-limit", "64")
    yield s
    s.stop()


@pytest.fixture(params=["reset", "fin"])
def how(request):
    return request.param


def finished(m):
    return sum(m[f'quire_requests_total{{endpoint="completions",outcome="{how}"}}'] for how in ("length", "stop"))


def read_all(s):
    data = b""
    try:
        for more in iter(lambda: s.recv(65536), b""):
            data += more
    except ConnectionResetError:
        pass
    return data


def cancelled(m):
    return m['quire_requests_total{endpoint="completions",outcome="cancelled"}']


@pytest.mark.parametrize("stream", [True, False])
def test_in_decode(narrow, how, stream):
    before = cancelled(narrow.metrics())
    s = begin(narrow, prompt="Once", stream=stream, **LONG)
    narrow.wait_until(lambda m: m["quire_requests_running"] == 1, what="running")
    time.sleep(0.05)
    leave(s, how)
    assert narrow.wait_idle(10) < 2
    narrow.wait_until(lambda m: cancelled(m) == before + 1, what="counted")  # the engine is idle before the loop has heard of it


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("is_half", [True, False])
def test_with_the_last_byte_of_a_request(narrow, stream, is_half):
    """The server hears of the client's end while it still reads the request: none of them is answered."""
    before = finished(narrow.metrics())
    for _ in range(6):
        with narrow.socket() as s:
            s.sendall(post({"prompt": "Once", "user": "u" * 300000, "stream": stream, **LONG}))
            s.shutdown(socket.SHUT_WR)
            assert not is_half or b'"finish_reason":"length"' not in read_all(s)
    narrow.wait_until(lambda m: m["quire_connections"] <= 1 and m["quire_requests_running"] == 0, what="all gone")
    assert finished(narrow.metrics()) == before


def test_in_tokenize(narrow, how):
    """What had been tokenized is given back: the sanitizer's build finds it at the end if it is not."""
    r = random.Random(1)
    data = json.dumps({"content": " ".join(f"{r.getrandbits(40):x}" for _ in range(400000))}).encode()
    for pause in (0.03, 0.1, 0.3):
        s = narrow.socket()
        s.sendall(b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(data) + data)
        narrow.wait_until(lambda m: m['quire_prepare_jobs{pool="text",state="running"}'] == 1, what="tokenizing")
        time.sleep(pause)
        leave(s, how)
        narrow.wait_until(lambda m: m['quire_prepare_jobs{pool="text",state="running"}'] == 0, what="given up")


@pytest.mark.parametrize("stream", [True, False])
def test_in_prefill(narrow, how, stream):
    before = narrow.metrics()
    s = begin(narrow, prompt=[7] * 400, stream=stream, cache_salt=f"{how}{stream}", **LONG)
    narrow.wait_until(lambda m: m['quire_kv_blocks{state="held"}'] >= 1, what="first blocks")
    leave(s, how)
    assert narrow.wait_idle(10) < 2
    after = narrow.metrics()
    assert cancelled(after) == cancelled(before) + 1
    assert after["quire_generation_tokens_total"] == before["quire_generation_tokens_total"]


@pytest.mark.parametrize("stream", [True, False])
def test_in_the_queue(narrow, how, stream):
    before = cancelled(narrow.metrics())
    first = begin(narrow, prompt="Once", stream=True, **LONG)
    narrow.wait_until(lambda m: m["quire_requests_running"] == 1, what="running")
    others = [begin(narrow, prompt="Twice", stream=stream, **LONG) for _ in range(5)]
    narrow.wait_until(lambda m: m['quire_requests_waiting{priority="normal"}'] == 5, what="waiting")
    for s in others:
        leave(s, how)
    narrow.wait_until(lambda m: m['quire_requests_waiting{priority="normal"}'] == 0, 2, "queue empty")
    assert narrow.metrics()["quire_requests_running"] == 1, "the one in front is not disturbed"
    leave(first, how)
    narrow.wait_idle(10)
    assert cancelled(narrow.metrics()) == before + 6


def test_all_choices_go(narrow, how):
    before = cancelled(narrow.metrics())
    s = begin(narrow, prompt=["a", "b"], n=4, stream=True, **LONG)
    narrow.wait_until(lambda m: m["quire_requests_running"] == 1, what="running")
    leave(s, how)
    narrow.wait_idle(10)
    assert cancelled(narrow.metrics()) == before + 8


def test_while_the_body_is_sent(narrow, how):
    before = narrow.n_fds()
    for cut in (1, 30, 90):
        s = narrow.socket()
        s.sendall(post({"prompt": "x" * 1000})[:cut])
        leave(s, how)
    narrow.wait_until(lambda m: narrow.n_fds() <= before, what="descriptors back")


def test_while_a_long_prompt_is_tokenised(server, how):
    before = server.n_fds()
    for _ in range(10):
        s = server.socket()
        s.sendall(post({"prompt": "words and more words " * 40000, "max_tokens": 5}))
        leave(s, how)
    server.wait_idle()
    server.wait_until(lambda m: server.n_fds() <= before + 1, what="descriptors back")


def test_answered_to_others(narrow):
    """A disconnect in the middle of a batch changes nobody else's text."""
    fields = dict(max_tokens=20, temperature=0, ignore_eos=True)
    alone = narrow.complete("Once upon", **fields).text
    gone = begin(narrow, prompt="Twice", stream=True, **LONG)
    time.sleep(0.05)
    mine = narrow.stream("Once upon", **fields)
    leave(gone, "reset")
    assert mine.text() == alone


def test_slow_reader_is_cut_off(start):
    """A client that does not read loses its stream; memory stays bounded and others go on."""
    s = start("--max-sequences", "64")
    slow = socket.socket()
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    slow.connect(("127.0.0.1", s.port))
    before = s.metrics()["process_resident_memory_bytes"]
    slow.sendall(post({"prompt": "Once", "n": 60, "stream": True, "logprobs": 20, "max_tokens": 100000,
                       "ignore_eos": True}))
    other = s.complete("Once", max_tokens=20, temperature=0, ignore_eos=True)
    assert other.json["usage"]["completion_tokens"] == 20
    s.wait_until(lambda m: cancelled(m) == 60, 60, "slow reader cancelled")
    s.wait_idle()
    m = s.metrics()
    assert m["process_resident_memory_bytes"] - before < 200 << 20
    assert "reason=slow_reader" in s.read_log()
    slow.settimeout(10)
    received = 0
    try:
        for chunk in iter(lambda: slow.recv(1 << 20), b""):
            received += len(chunk)
            assert not chunk.endswith(b"data: [DONE]\n\n"), "the stream was not complete"
    except ConnectionResetError:
        pass
    assert received > 0
    slow.close()
