"""The access log: one line for each exchange, whose times add up."""
import json
import re
import shlex
import socket
import time

import pytest

from quire import make_key

PARTS = ("receive_ms", "queue_ms", "prefill_ms", "decode_ms", "preempted_ms", "swapped_ms", "delivery_ms", "write_blocked_ms")


def plain_lines(server):
    for line in server.read_log().splitlines():
        if "event=finished" in line:
            yield dict(pair.split("=", 1) for pair in shlex.split(line)[3:])


def json_lines(server):
    for line in server.read_log().splitlines():
        row = json.loads(line)
        if row.get("event") == "finished":
            yield row


def lines_of(server, request_id, read=plain_lines):
    """The lines of one request; the last one is written after its answer has been read."""
    begin = time.monotonic()
    while True:
        found = [line for line in read(server) if line["id"] == request_id]
        if found or time.monotonic() - begin > 30:
            assert len(found) == 1, found
            return found[0]
        time.sleep(0.01)


def ask(server, request_id, method, path, body=None, **headers):
    return server.request(method, path, body, {"X-Request-Id": request_id, **headers})


def check_sum(line):
    assert abs(sum(float(line[p]) for p in PARTS) - float(line["duration_ms"])) < 1, line
    assert all(float(line[p]) >= 0 for p in PARTS)


@pytest.fixture(scope="module")
def logged():
    from quire import Server
    s = Server()
    yield s
    s.stop()


def test_simple_exchanges(logged):
    r = ask(logged, "health", "GET", "/health")
    line = lines_of(logged, "health")
    assert (line["method"], line["route"], line["status"]) == ("GET", "/health", "200")
    assert int(line["bytes"]) == len(r.body) and float(line["duration_ms"]) >= 0
    assert "finish" not in line and "key" not in line
    assert len(ask(logged, "head", "HEAD", "/health").body) == 0
    assert (lines_of(logged, "head")["method"], lines_of(logged, "head")["bytes"]) == ("HEAD", "0")
    ask(logged, "lost", "GET", "/no/such/secret-path")
    line = lines_of(logged, "lost")
    assert (line["route"], line["status"]) == ("other", "404")
    assert "secret-path" not in logged.read_log()
    ask(logged, "wrong", "POST", "/v1/completions", {"prompt": 5})
    line = lines_of(logged, "wrong")
    assert (line["route"], line["status"]) == ("/v1/completions", "400") and "finish" not in line
    ask(logged, "model", "GET", "/v1/models/quire-demo")
    assert lines_of(logged, "model")["route"] == "/v1/models/"


@pytest.mark.parametrize("stream", [False, True])
def test_completion(logged, stream):
    name = f"completion-{stream}"
    r = ask(logged, name, "POST", "/v1/completions",
            {"prompt": "Once upon a time", "max_tokens": 30, "ignore_eos": True, "stream": stream, "priority": "high"})
    assert r.status == 200
    line = lines_of(logged, name)
    assert (line["method"], line["route"], line["status"]) == ("POST", "/v1/completions", "200")
    assert int(line["bytes"]) == len(r.body)
    assert (line["completion_tokens"], line["finish"], line["choices"]) == ("30", "length", "1")
    assert line["priority"] == "high" and int(line["prompt_tokens"]) > 0
    assert 0 < float(line["ttft_ms"]) <= float(line["duration_ms"]) and float(line["tok_s"]) > 0
    check_sum(line)


def test_several_choices_are_one_line(logged):
    r = ask(logged, "many", "POST", "/v1/completions",
            {"prompt": ["Once", "Twice"], "n": 3, "max_tokens": 20, "ignore_eos": True})
    assert len(r.json["choices"]) == 6
    line = lines_of(logged, "many")
    assert (line["choices"], line["completion_tokens"], line["finish"]) == ("6", "120", "length")
    assert int(line["prompt_tokens"]) == r.json["usage"]["prompt_tokens"]
    assert int(line["cached_tokens"]) == r.json["usage"]["prompt_tokens_details"]["cached_tokens"]
    check_sum(line)


def test_slow_client_is_blocked_writing(start):
    """What waits for the client's socket is seen as such, and still all adds up."""
    s = start()
    slow = socket.socket()
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    slow.connect(("127.0.0.1", s.port))
    body = json.dumps({"prompt": ["Once " * 500] * 16, "echo": True, "max_tokens": 5, "logprobs": 20, "ignore_eos": True,
                       "stream": False}).encode()
    slow.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: slow\r\nConnection: close\r\n"
                 b"Content-Length: %d\r\n\r\n" % len(body) + body)
    s.wait_until(lambda m: m['quire_requests_total{endpoint="completions",outcome="length"}'] == 16, 120, "all ends")
    time.sleep(0.3)  # the answer of several MB waits to be read
    while slow.recv(1 << 20):
        pass
    slow.close()
    line = lines_of(s, "slow")
    assert line["completion_tokens"] == "80" and float(line["write_blocked_ms"]) >= 300, line
    check_sum(line)


def test_client_that_goes(start):
    s = start()
    stream = s.stream("Once", headers={"X-Request-Id": "gone"}, max_tokens=100000, ignore_eos=True)
    next(iter(stream))
    stream.reset()
    s.wait_idle()
    line = lines_of(s, "gone")
    assert line["finish"] == "cancelled" and int(line["completion_tokens"]) > 0
    check_sum(line)


@pytest.mark.parametrize("how,spent,unspent", [("swap", "swapped_ms", "preempted_ms"),
                                               ("recompute", "preempted_ms", "swapped_ms")])
def test_preempted(start, how, spent, unspent):
    """25 blocks: a low request that holds ten of them makes room for a critical one that wants fifteen."""
    s = start("--kv-memory", "1m", "--max-sequences", "24", "--prefill-chunk", "40", "--preemption", how)
    low = s.stream([40] * 150, headers={"X-Request-Id": "low"}, max_tokens=200, ignore_eos=True, priority="low",
                   timings=True)
    frames = iter(low)
    next(frames)
    s.complete([41] * 230, max_tokens=5, ignore_eos=True, priority="critical")
    timings = list(frames)[-1]["choices"][0]["timings"]
    line = lines_of(s, "low")
    check_sum(line)
    assert int(line["preemptions"]) == timings["n_preempted"] >= 1
    assert float(line[spent]) > 0 == float(line[unspent])
    assert timings[spent] == float(line[spent]) and timings[unspent] == 0


def test_json_and_keys(start, tmp_path):
    path = tmp_path / "keys.ini"
    entry, secret = make_key("alice")
    path.write_text(entry)
    s = start("--log-format", "json", "--api-keys", str(path), key=secret)
    assert ask(s, "mine", "POST", "/v1/completions", {"prompt": "Once", "max_tokens": 4, "ignore_eos": True}).status == 200
    line = lines_of(s, "mine", json_lines)
    assert line["key"] == "alice" and line["status"] == 200 and line["completion_tokens"] == 4
    check_sum(line)
    assert ask(s, "stranger", "GET", "/v1/models", **{"X-Api-Key": "none"}).status == 401
    line = lines_of(s, "stranger", json_lines)
    assert line["status"] == 401 and "key" not in line


def test_nothing_at_warn(start):
    s = start("--log-level", "warn")
    s.complete("Once", max_tokens=2)
    s.wait_idle()
    assert s.read_log() == ""


def test_request_ids(logged):
    """Echoed when they are short and visible, else replaced; never more than one line's worth."""
    assert ask(logged, "a" * 128, "GET", "/health").headers["X-Request-Id"] == "a" * 128
    for bad in ("a" * 129, "two words", "tab\there", "caf\xe9"):
        made = ask(logged, bad, "GET", "/health").headers["X-Request-Id"]
        assert re.fullmatch(r"req-[0-9a-f]{16}", made)
    quoted = 'x"y\\z'
    assert ask(logged, quoted, "GET", "/health").headers["X-Request-Id"] == quoted
    assert lines_of(logged, quoted)["status"] == "200"
