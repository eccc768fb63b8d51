"""The end of a server: drain on the first signal, stop on the second."""
import errno
import json
import os
import signal
import threading
import time

import pytest

from quire import DEBUG_BIN, JSON

LONG = dict(max_tokens=100000, ignore_eos=True, temperature=0)


def test_idle_server_ends_at_once(start):
    for sig in (signal.SIGTERM, signal.SIGINT):
        s = start()
        keep = s.connect()
        keep.request("GET", "/health")
        keep.getresponse().read()
        begin = time.monotonic()
        assert s.stop(sig) == 0
        assert time.monotonic() - begin < 8
        keep.close()


@pytest.mark.threads
def test_sigterm_lets_streams_finish(start):
    s = start()
    expected = s.complete("Once", max_tokens=600, ignore_eos=True, temperature=0).text
    streams = [s.stream("Once", max_tokens=600, ignore_eos=True, temperature=0) for _ in range(4)]
    plain = {}
    t = threading.Thread(target=lambda: plain.update(r=s.complete("Once", max_tokens=600, ignore_eos=True,
                                                                  temperature=0)))
    t.start()
    s.wait_until(lambda m: m["quire_requests_running"] == 5, what="running")
    s.process.send_signal(signal.SIGTERM)
    deadline = time.monotonic() + 5
    while s.get("/health").status != 503:
        assert time.monotonic() < deadline
    assert s.get("/health").json == {"error": {"code": 503, "message": "the server is draining",
                                               "type": "unavailable_error"}}
    r = s.post("/v1/completions", {"prompt": "Once"})
    assert (r.status, r.json["error"]["type"]) == (503, "unavailable_error")
    assert int(r.headers["Retry-After"]) >= 1 and r.headers["Connection"].lower() == "close"
    assert s.get("/live").status == 200, "alive until the end"
    assert [x.text() for x in streams] == [expected] * 4 and all(x.done for x in streams)
    t.join()
    assert plain["r"].text == expected
    assert s.process.wait(60) == 0


@pytest.mark.threads
def test_second_signal_stops_now(start):
    s = start("--max-sequences", "2", "--isa", "scalar")  # none of the streams ends by itself
    streams = [s.stream("Once", **LONG) for _ in range(3)]
    answers = []
    t = threading.Thread(target=lambda: answers.append(s.post("/v1/completions", {"prompt": "Once", **LONG})))
    t.start()
    s.wait_until(lambda m: m['quire_requests_waiting{priority="normal"}'] == 2, what="waiting")
    s.process.send_signal(signal.SIGINT)
    time.sleep(0.1)
    assert s.process.poll() is None
    begin = time.monotonic()
    s.process.send_signal(signal.SIGTERM)
    for stream in streams:
        last = list(stream)[-1]
        assert last["error"]["type"] == "unavailable_error" and stream.done
    t.join()
    assert answers[0].status == 503 and answers[0].json["error"]["type"] == "unavailable_error"
    assert s.process.wait(60) == 0
    assert time.monotonic() - begin < 30


def test_clients_that_never_read_do_not_hold_up_the_end(start):
    import socket
    s = start()
    slow = socket.socket()
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    slow.connect(("127.0.0.1", s.port))
    body = json.dumps({"prompt": "Once", "n": 16, "stream": True, "logprobs": 2, **LONG}).encode()
    slow.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    s.wait_until(lambda m: m["quire_generation_tokens_total"] > 16, what="running")
    s.process.send_signal(signal.SIGTERM)
    time.sleep(0.1)
    assert s.stop() == 0
    slow.close()


def test_journal(start, tmp_path):
    path = tmp_path / "journal"
    s = start("--journal", str(path))
    s.complete("Once", max_tokens=20, ignore_eos=True)
    s.complete("Twice", max_tokens=5, ignore_eos=True)
    assert s.stop() == 0
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert "start" in lines[0] and sum("post" in line for line in lines) == 2
    plans = [line for line in lines if "plan" in line]
    steps = [line["plan"] for line in plans if line["items"]]
    assert steps == list(range(steps[0], steps[0] + len(steps))) and len(steps) >= 25
    assert sum(len(line["admitted"]) for line in plans) == 2
    assert [line["commit"] for line in lines if "commit" in line] == steps


def test_log_has_one_line_a_request_and_no_texts(start):
    s = start()
    s.request("POST", "/v1/completions", {"prompt": "secretword", "max_tokens": 3, "ignore_eos": True},
              headers={"X-Request-Id": "my-id"})
    s.wait_idle()
    s.stop()
    log = s.read_log()
    lines = [line for line in log.splitlines() if 'id="my-id"' in line]
    assert len(lines) == 1
    for part in ("completion_tokens=3", "finish=length", "ttft_ms=", "tok_s=", "queue_ms=", "prompt_tokens="):
        assert part in lines[0]
    assert "secretword" not in log


class Held:
    """A debug server one of whose threads hangs at a hold point (core/base/hold.h) until let go."""

    def __init__(self, start, tmp_path, point, *flags):
        self.fifo = tmp_path / "fifo"
        os.mkfifo(self.fifo)
        self.server = start(*flags, binary=DEBUG_BIN, env={point: str(self.fifo)})

    def let_go(self):
        """Whoever hangs now; nobody may."""
        try:
            os.close(os.open(self.fifo, os.O_WRONLY | os.O_NONBLOCK))
        except OSError as e:
            assert e.errno == errno.ENXIO


def ends_within(process, seconds):
    """The exit code, after a first signal that is not enough and a second one: 0.9 s later, and what a loaded machine
    or a sanitizer adds to the end of a process."""
    process.send_signal(signal.SIGTERM)
    time.sleep(0.3)
    assert process.poll() is None, "the first signal waits for what is under way"
    begin = time.monotonic()
    process.send_signal(signal.SIGTERM)
    code = process.wait(20)
    took = time.monotonic() - begin
    assert took < seconds, took
    return code


def test_second_signal_ends_what_hangs_in_a_pool(start, tmp_path):
    """A parse job that never ends: the others are served, and the second signal ends the process."""
    h = Held(start, tmp_path, "QUIRE_DEBUG_HOLD_PARSE")
    s = h.server
    calls = [s.connect(), s.connect()]
    body = json.dumps({"prompt": "Once", "max_tokens": 1, "response_format": {"type": "json_object"}})
    for call in calls:
        call.request("POST", "/v1/completions", body, JSON)
    s.wait_until(lambda m: m['quire_prepare_jobs{pool="constraint",state="running"}'] == 2, what="hang")
    assert s.complete("Once", max_tokens=3).status == 200
    assert ends_within(s.process, 4) == 1
    assert "event=killed" in s.read_log()
    for call in calls:
        call.close()


def test_second_signal_ends_a_loop_that_hangs(start, tmp_path):
    """Even when the I/O thread itself does not come back."""
    keys = tmp_path / "keys"
    keys.write_text("")
    h = Held(start, tmp_path, "QUIRE_DEBUG_HOLD_RELOAD")
    h.server.process.send_signal(signal.SIGHUP)
    time.sleep(0.2)
    assert ends_within(h.server.process, 4) == 1


def test_a_client_that_leaves_takes_its_parse_job_along(start, tmp_path):
    """Jobs whose client has gone do nothing when their turn comes, and a hung one shows in /ready."""
    h = Held(start, tmp_path, "QUIRE_DEBUG_HOLD_PARSE")
    s = h.server
    body = json.dumps({"prompt": "Once", "max_tokens": 1, "response_format": {"type": "json_object"}})
    calls = [s.connect() for _ in range(6)]
    for call in calls:
        call.request("POST", "/v1/completions", body, JSON)
    s.wait_until(lambda m: m['quire_prepare_jobs{pool="constraint",state="waiting"}'] == 4, what="queue")
    assert s.get("/ready").status == 200
    deadline = time.monotonic() + 40
    while s.get("/ready").status == 200:
        assert time.monotonic() < deadline, "nobody noticed"
        time.sleep(0.2)
    assert "parsing" in s.get("/ready").json["error"]["message"] and s.get("/live").status == 200
    for call in calls:
        call.close()

    def is_over(m):
        h.let_go()
        return m['quire_prepare_jobs{pool="constraint",state="running"}'] == 0

    s.wait_until(is_over, what="end")
    assert s.get("/ready").status == 200
    assert s.metrics()["quire_prompt_tokens_total"] == 0, "nothing was computed for nobody"


def test_a_background_response_whose_row_is_being_written(start, tmp_path):
    """Its client waits for the row when the server is stopped: it gets an answer, and the next process the request."""
    h = Held(start, tmp_path, "QUIRE_DEBUG_HOLD_RESPONSE", "--responses-db", tmp_path / "responses.db",
             "--requests-db", tmp_path / "requests.db")
    replies = []
    asks = threading.Thread(target=lambda: replies.append(h.server.post("/v1/responses", {
        "input": "Once", "background": True, "max_output_tokens": 100000, "ignore_eos": True})))
    asks.start()
    h.server.wait_until(lambda m: m["quire_requests_running"] == 1, what="running")
    h.server.process.send_signal(signal.SIGTERM)
    asks.join(60)
    assert not asks.is_alive() and replies[0].status == 503 and "shutting down" in replies[0].json["error"]["message"]
    h.let_go()
    assert h.server.process.wait(60) == 0
