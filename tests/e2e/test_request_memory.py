"""What requests hold outside the KV cache is bounded, accounted for, and given back."""
import json
import socket
import threading
import time

import pytest

from quire import SANITIZED, in_threads, make_model

MIB = 1 << 20


@pytest.fixture(scope="module")
def long_model(tmp_path_factory):
    """A tiny model with a long context, so that it is not the cache that takes memory."""
    return make_model(tmp_path_factory.mktemp("memory") / "long.gguf", "--embd", "64", "--layers", "1", "--heads", "2",
                      "--kv-heads", "1", "--head-dim", "32", "--ff", "64", "--vocab", "1000", "--context", "131072",
                      "--type", "F32")


def resident(server):
    return server.metrics()["process_resident_memory_bytes"]


@pytest.mark.skipif(SANITIZED, reason="a sanitizer's allocator keeps what was freed")
def test_penalties_take_what_was_generated(start, long_model):
    """128 choices that may each become 130,000 tokens long, of a body of a hundred bytes."""
    s = start("--kv-memory", "1g", "--max-sequences", "128", model=long_model)
    s.complete([5], max_tokens=3, presence_penalty=0.1)
    before = resident(s)
    body = {"prompt": [5, 6, 7], "n": 128, "presence_penalty": 0.1, "max_tokens": 100000, "ignore_eos": True,
            "stream": True}
    call = s.connect()
    call.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
    s.wait_until(lambda m: m["quire_generation_tokens_total"] > 2000, timeout=60, what="tokens")
    grown = resident(s) - before
    call.close()
    s.wait_idle()
    print(f"\n128 choices with penalties: {grown / MIB:.0f} MiB")
    assert grown < 100 * MIB


@pytest.mark.skipif(SANITIZED, reason="a sanitizer's allocator keeps what was freed")
def test_large_bodies_leave_nothing(start):
    s = start("--request-memory", "2g")
    bodies = [json.dumps({"prompt": [1] * 10, "unknown": [[i % 10] * 5 for i in range(400000)]}),
              json.dumps({"prompt": "x" * 7800000}), json.dumps({"content": "word " * 1500000})]
    s.post("/tokenize", {"content": "a"})
    before = resident(s)

    def send(i):
        path = "/tokenize" if i % 3 == 2 else "/v1/completions"
        return s.request("POST", path, bodies[i % 3], {"Content-Type": "application/json"}, timeout=120).status

    statuses = in_threads([lambda i=i: send(i) for i in range(40)])
    assert set(statuses) <= {200, 400, 429, 503}
    s.wait_idle()
    deadline = time.monotonic() + 20
    while resident(s) - before > 40 * MIB and time.monotonic() < deadline:
        time.sleep(0.1)
    grown = resident(s) - before
    print(f"\n40 bodies of 8 MB leave {grown / MIB:.0f} MiB")
    assert grown <= 40 * MIB
    assert s.metrics()["quire_request_memory_bytes"] == 0


def test_what_never_fits_is_refused_by_name(start):
    s = start("--request-memory", "16m")
    r = s.post("/v1/completions", {"prompt": "Once", "n": 128, "logprobs": 20, "max_tokens": 900})
    assert (r.status, r.json["error"]["code"]) == (413, "request_memory")
    assert "request_memory is 16 MB" in r.json["error"]["message"]
    r = s.post("/tokenize", {"content": "word " * 400000})
    assert (r.status, r.json["error"]["code"]) == (413, "request_memory")
    assert s.complete("Once", max_tokens=2, n=2, logprobs=3).status == 200
    m = s.metrics()
    assert m["quire_request_memory_bytes"] == 0 and m["quire_request_memory_limit_bytes"] == 16 * MIB
    assert m['quire_rejections_total{reason="request_memory"}'] == 2


def test_what_does_not_fit_now_is_told_when(start):
    """One request holds most of it: others like it are refused until it has ended, small ones are served.
    The scores of its prompt take that memory: they are there at once, and stand in the answer for each choice."""
    s = start("--request-memory", "16m", *(() if SANITIZED else ("--isa", "scalar")))
    big = {"prompt": [40 + i % 300 for i in range(450)], "n": 10, "prompt_logprobs": 20, "max_tokens": 50,
           "ignore_eos": True}
    answers = []
    t = threading.Thread(target=lambda: answers.append(s.post("/v1/completions", big, timeout=300)))
    t.start()
    s.wait_until(lambda m: m["quire_requests_running"] == 10, what="running")
    assert s.metrics()["quire_request_memory_bytes"] > 9 * MIB
    r = s.post("/v1/completions", big)
    assert (r.status, r.json["error"]["code"]) == (429, "request_memory")
    assert int(r.headers["Retry-After"]) >= 1
    assert s.complete("Once", max_tokens=2).status == 200
    t.join()
    assert answers[0].status == 200
    assert s.post("/v1/completions", {**big, "max_tokens": 2}).status == 200
    assert s.metrics()["quire_request_memory_bytes"] == 0


def test_a_client_that_leaves_gives_its_share_back(start):
    s = start("--isa", "scalar")
    for _ in range(5):
        stream = s.stream("Once", max_tokens=900, ignore_eos=True, n=20, presence_penalty=0.5)
        next(iter(stream))
        assert s.metrics()["quire_request_memory_bytes"] > 0
        stream.close()
        s.wait_idle()
    s.wait_until(lambda m: m["quire_request_memory_bytes"] == 0, what="given back")


def test_scores_of_a_prompt_are_computed_once(start):
    s = start()
    prompt = [40 + i % 100 for i in range(300)]
    r = s.complete(prompt, n=8, max_tokens=2, prompt_logprobs=2, temperature=0).json
    scores = [c["prompt_logprobs"] for c in r["choices"]]
    assert len(scores[0]) == 300 and all(x == scores[0] for x in scores)
    assert s.metrics()["quire_prompt_tokens_total"] < 2 * 300
    assert scores[0] == s.complete(prompt, max_tokens=1, prompt_logprobs=2).json["choices"][0]["prompt_logprobs"]


def test_bodies_on_their_way_count(start):
    """Halves of bodies that never end take from the same budget; it is there again when they have gone."""
    s = start("--request-memory", "16m", "--max-body", "8m")
    half = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" \
           b"Content-Length: 7000000\r\n\r\n" + b" " * 6000000
    held = [s.socket() for _ in range(2)]
    for sock in held:
        sock.sendall(half)
    s.wait_until(lambda m: m["quire_request_memory_bytes"] >= 12000000, what="held")
    with s.socket() as third:
        third.sendall(half)
        third.sendall(b" " * 1000000)
        assert third.recv(100).startswith(b"HTTP/1.1 429 ")
    assert s.complete("Once", max_tokens=2).status == 200
    for sock in held:
        sock.close()
    s.wait_until(lambda m: m["quire_request_memory_bytes"] == 0, what="given back")


def test_answers_that_nobody_reads_count(start):
    s = start()
    body = json.dumps({"prompt": "Once", "n": 32, "logprobs": 20, "max_tokens": 400, "ignore_eos": True}).encode()
    with s.socket(timeout=60) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                     b"Content-Length: %d\r\n\r\n" % len(body) + body)
        s.wait_until(lambda m: m["quire_generation_tokens_total"] >= 32 * 400, timeout=120, what="answer")
        s.wait_until(lambda m: MIB < m["quire_request_memory_bytes"] < 20 * MIB, what="the answer alone")
    s.wait_until(lambda m: m["quire_request_memory_bytes"] == 0, what="given back")


def test_pages_that_nobody_reads_have_a_part_of_the_memory(start, tmp_path):
    """/props with a long template has a third of a megabyte, and each client that does not read it keeps one: a quarter of the
    memory is theirs. Metrics and health are told all the same, and requests have room."""
    (tmp_path / "long.jinja").write_text("{{ messages[0].content }}{# " + "x" * 333_000 + " #}")
    s = start("--request-memory", "128m", "--max-connections", "600", "--max-connections-per-address", "600",
              "--chat-template", str(tmp_path / "long.jinja"))
    clients = [s.socket() for _ in range(300)]
    for c in clients:
        c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        c.sendall(b"GET /props HTTP/1.1\r\nHost: localhost\r\n\r\n" * 40)  # more than sockets take
    s.wait_until(lambda m: m.get('quire_http_requests_total{route="/props",code="429"}', 0) > 0, what="a refusal")
    m = s.metrics()
    assert 16 * MIB < m["quire_request_memory_bytes"] < 40 * MIB
    assert s.get("/health").status == 200 and s.complete("a", max_tokens=2)
    for c in clients:
        c.close()
    s.wait_until(lambda m: m["quire_request_memory_bytes"] == 0, what="memory back")
    assert s.get("/props").status == 200
