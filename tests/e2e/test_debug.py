"""The debug pages: one picture of the engine for all who ask."""
import pathlib
import socket
import struct
import sys
import threading
import time

from quire import DEBUG_BIN, in_threads

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "reference"))

import fixtures  # noqa: E402

LONG = {"max_tokens": 100000, "ignore_eos": True, "speculation": False}  # a token a step
PAGES = ("/debug/requests", "/debug/iterations", "/debug/kv")


def test_shapes(server):
    server.complete("Once upon a time", max_tokens=5)
    r = server.get("/debug/requests")
    assert r.status == 200 and r.headers["Content-Type"] == "application/json"
    assert r.json["object"] == "debug.requests"
    it = server.get("/debug/iterations").json
    assert set(it["costs"]) == {"is_known", "step_ns", "prefill_row_ns", "decode_row_ns", "decode_key_ps",
                                "prefill_key_ps", "swap_block_ns", "file_block_ns"}
    steps = it["iterations"]
    assert 1 <= len(steps) <= 128
    assert [s["step"] for s in steps] == sorted(s["step"] for s in steps)
    assert all(s["took_ms"] > 0 and s["sequences"] >= 1 for s in steps)
    assert all(s["predicted_ms"] is None or s["predicted_ms"] > 0 for s in steps)
    kv = server.get("/debug/kv").json
    blocks = kv["blocks"]
    assert blocks["free"] + blocks["cached"] + blocks["held"] == blocks["total"] == len(kv["map"])
    assert kv["map"].count("f") == blocks["free"] and kv["map"].lower().count("c") == blocks["cached"]
    assert kv["pressure"] == "relaxed" and kv["block_tokens"] == 16
    groups = kv["lanes"]
    assert groups["total"] == 1 and groups["layers_per_block"] > 0
    assert groups["full"] == {"lanes": 1, "held": blocks["held"], "cached": blocks["cached"]}
    assert groups["window"] == {"tokens": 0, "lanes": 0, "held": 0, "cached": 0}
    for page in PAGES:
        assert server.post(page, {}).status == 405


def test_groups_of_windows(start, tmp_path):
    """A layer that sees everything beside six that see nine tokens: what they hold while a text grows, and leave."""
    path = tmp_path / "windows.gguf"
    path.write_bytes(fixtures.make("gemma3", "plain", "F32", n_ctx=65536))
    s = start("--kv-memory", "16m", model=path, binary=DEBUG_BIN)
    stream = s.stream([9] * 320, **LONG)
    s.wait_until(lambda m: m["quire_generation_tokens_total"] >= 20, what="tokens")
    kv = s.get("/debug/kv").json
    stream.close()
    groups = kv["lanes"]
    assert (groups["total"], groups["layers_per_block"], groups["full"]["lanes"]) == (7, 1, 1)
    assert (groups["window"]["lanes"], groups["window"]["tokens"]) == (6, 9)
    assert groups["full"]["held"] > 320 // 16
    assert groups["window"]["held"] in (6, 12)  # what is seen, and what is written next
    assert groups["full"]["cached"] == 0 and groups["window"]["cached"] > 6 * 18
    s.wait_idle()
    kv = s.get("/debug/kv").json
    groups, blocks = kv["lanes"], kv["blocks"]
    for state in "held", "cached":
        assert groups["full"][state] + groups["window"][state] == blocks[state]
    assert blocks["held"] == 0 and groups["full"]["cached"] > 0 and groups["window"]["cached"] > 0


def test_steps_are_predicted(start):
    """Once both kinds of rows were seen each step has a prediction, and its error is counted. How good they are is
    a matter of the machine: test_cost.c, and quire_cost_model_error_ratio in production."""
    s = start()
    for i in range(6):
        in_threads([lambda k=k: s.complete([30 + i * 40 + k] * 120, max_tokens=60, ignore_eos=True,
                                           speculation=False)
                    for k in range(4)])
    steps = [t for t in s.get("/debug/iterations").json["iterations"] if t["predicted_ms"]]
    assert len(steps) > 50 and all(t["predicted_ms"] > 0 and t["took_ms"] > 0 for t in steps)
    m = s.metrics()
    assert m["quire_cost_model_error_ratio_count"] >= len(steps)
    assert m["quire_cost_model_error_ratio_count"] <= m["quire_iterations_total"]


def test_many_ask_at_once(start):
    """Under load, all are answered, each with a consistent picture."""
    s = start("--max-sequences", "8")
    streams = [s.stream("Once", **LONG, seed=i) for i in range(12)]
    s.wait_until(lambda m: m["quire_requests_running"] == 8, what="running")
    for _ in range(3):
        replies = in_threads([lambda p=p: s.get(p) for p in PAGES * 10])
        assert all(r.status == 200 for r in replies)
        for r in replies[::3]:
            page = r.json
            assert page["n_running"] + page["n_preempted"] + page["n_waiting"] == 12
            assert page["n_running"] == 8
            states = [q["state"] for q in page["requests"]]
            assert states == ["running"] * 8 + ["waiting"] * 4
            assert all(q["age_ms"] >= q["queue_ms"] >= 0 for q in page["requests"])
        for r in replies[2::3]:
            b = r.json["blocks"]
            assert b["free"] + b["cached"] + b["held"] == b["total"]
    for stream in streams:
        stream.close()


def test_askers_who_leave(start):
    """A client that goes while it waits costs nothing; the others get their answer."""
    s = start()
    stop = threading.Event()

    def load():
        while not stop.is_set():
            s.post("/v1/completions", {"prompt": [9] * 900, "max_tokens": 1})

    loaders = [threading.Thread(target=load) for _ in range(3)]
    for t in loaders:
        t.start()
    try:
        for i in range(60):
            c = s.socket()
            c.sendall(b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % PAGES[i % 3].encode())
            if i % 2:
                time.sleep(0.002)
            c.close()
        assert s.get("/debug/kv").status == 200
    finally:
        stop.set()
        for t in loaders:
            t.join()
    s.wait_idle()


def test_while_draining(start):
    """The engine is ending: nobody is left waiting."""
    s = start()
    stream = s.stream("Once", max_tokens=300, ignore_eos=True)
    s.wait_until(lambda m: m["quire_requests_running"] == 1, what="running")
    connection = s.connect()
    connection.request("GET", "/health")
    connection.getresponse().read()
    s.process.terminate()
    s.wait_until(lambda m: "event=draining" in s.read_log(), what="draining")
    assert s.get("/debug/kv").status == 503
    assert s.post("/v1/plan", {"prompt": "a"}).status == 503
    assert len(list(stream)) > 0 and stream.done
    assert s.stop() == 0


def test_askers_that_leave_hold_up_nobody(start):
    """One asks and hangs up: the next is answered, and with what is so now."""
    server = start()
    for _ in range(40):
        with server.socket(timeout=5) as s:
            s.sendall(b"GET /debug/requests HTTP/1.1\r\nHost: localhost\r\n\r\n")
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        stream = server.stream("Once", **LONG)
        next(iter(stream))
        seen = server.get("/debug/requests", timeout=10).json
        assert len(seen["requests"]) == 1, seen
        stream.close()
        server.wait_idle()
