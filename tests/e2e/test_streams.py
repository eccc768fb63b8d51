"""Resumable streams: frames that can be read again from anywhere, for a while; what a hang-up, a slow reader, a full
memory and another's key do."""
import http.client
import json
import random
import re
import socket
import threading
import time

import pytest

import cut_streams as cs
from quire import JSON, make_key

MESSAGES = [{"role": "user", "content": "Tell me of the sea."}]
# What is streamed, in each wire format: path, body, and whether frames are lines of their own.
FORMATS = {
    "completions": ("/v1/completions", {"prompt": "Once", "max_tokens": 40}, False),
    "chat": ("/v1/chat/completions", {"messages": MESSAGES, "max_tokens": 40}, False),
    "two": ("/v1/chat/completions", {"messages": MESSAGES, "max_tokens": 30, "n": 2}, False),
    "responses": ("/v1/responses", {"input": "Tell me of the sea.", "max_output_tokens": 40}, False),
    "messages": ("/v1/messages", {"messages": MESSAGES, "max_tokens": 40}, False),
    "native": ("/completion", {"prompt": "Once", "n_predict": 40}, False),
    "ollama": ("/api/chat", {"messages": MESSAGES, "options": {"num_predict": 40}}, True),
    "ollama_generate": ("/api/generate", {"prompt": "Once", "options": {"num_predict": 40}}, True),
}
LONG = {"prompt": "Once", "max_tokens": 100000, "ignore_eos": True, "temperature": 0, "stream": True, "resumable": True}


def begin(server, path="/v1/completions", body=None, headers=None):
    """A stream whose head was read: its connection, its reply."""
    c = server.connect()
    c.request("POST", path, json.dumps(body or LONG), server.with_key({**JSON, **(headers or {})}))
    r = c.getresponse()
    assert r.status == 200, r.read()
    return c, r


def read_frames(reply, n):
    """The next n frames, as bytes."""
    out = b""
    while out.count(b"\n\n") < n:
        line = reply.readline()
        assert line, out
        out += line
    return out


def get(server, name, after=None, **kw):
    return server.get(f"/v1/streams/{name}" + ("" if after is None else f"?after={after}"), **kw)


def split(raw, is_lines):
    return raw.splitlines(keepends=True) if is_lines else [p + b"\n\n" for p in raw.split(b"\n\n")[:-1]]


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.threads
def test_every_format(server, name):
    """After the end, and from any frame: the same bytes again."""
    path, body, is_lines = FORMATS[name]
    r = server.post(path, {**body, "stream": True, "resumable": True})
    assert r.status == 200, r.body
    stream = r.headers["X-Stream-Id"]
    parts = split(r.body, is_lines)
    if not is_lines:
        assert [int(re.match(rb"id: (\d+)\n", p)[1]) for p in parts] == list(range(len(parts)))
    first = json.loads(parts[0].strip().splitlines()[-1].removeprefix(b"data: "))
    own = [o["id"] for o in (first, first.get("response"), first.get("message")) if isinstance(o, dict) and "id" in o]
    assert own == ([] if name.startswith(("native", "ollama")) else [stream]), "clients know it by the answer's own id"
    again = get(server, stream)
    assert (again.status, again.body) == (200, r.body)
    assert again.headers["Content-Type"] == r.headers["Content-Type"]
    for k in random.Random(4).sample(range(len(parts)), 5):
        assert get(server, stream, k).body == b"".join(parts[k + 1:])
        if not is_lines:
            assert get(server, stream, headers={"Last-Event-ID": str(k)}).body == b"".join(parts[k + 1:])
    for asked in (get(server, stream, len(parts) - 1),
                  get(server, stream, headers={"Last-Event-ID": str(len(parts) - 1)})):
        assert (asked.status, asked.body) == (204, b""), "an EventSource asks again until it hears that there is no more"
    if name == "responses":
        r = server.get(f"/v1/responses/{stream}?stream=true&starting_after=7")
        assert r.body == b"".join(parts[8:]) and b'"sequence_number":8,' in parts[8]


@pytest.mark.threads
def test_hang_up_and_go_on(server):
    """The stream goes on without its client, who gets the rest where it left off; a second reader beside it the same."""
    want = cs.bytes_of(cs.run(server, "/v1/completions", {**LONG, "max_tokens": 500}))
    c, r = begin(server, body={**LONG, "max_tokens": 500})
    stream = r.getheader("X-Stream-Id")
    got = read_frames(r, 5)
    n = got.count(b"\n\n")
    c.close()
    rest = get(server, stream, n - 1)
    both = got + rest.body

    def text(raw):
        return b"".join(re.findall(rb'"text":("(?:[^"\\]|\\.)*")', raw))
    assert text(both) == text(want) and both.endswith(b"data: [DONE]\n\n")
    assert get(server, stream).body == both


def test_without_it_a_hang_up_cancels(server):
    c, r = begin(server, body={**LONG, "resumable": False})
    assert r.getheader("X-Stream-Id") is None
    c.close()
    server.wait_idle()


def test_nobody_comes_back(start):
    s = start("--stream-keep-ms", "100", "--context-shift", "on", "--isa", "scalar")  # it lasts for ten contexts
    c, r = begin(s)
    stream = r.getheader("X-Stream-Id")
    read_frames(r, 3)
    c.close()
    s.wait_until(lambda m: m["quire_streams_stopped_total"] == 1, what="stopped")
    s.wait_idle()
    r = get(s, stream)
    assert r.status == 404 and r.json["error"]["code"] == "stream_not_found"
    assert s.metrics()['quire_streams_kept{state="running"}'] == 0
    r = s.post("/v1/completions", {**LONG, "max_tokens": 5})
    assert get(s, r.headers["X-Stream-Id"]).status == 200
    s.wait_until(lambda m: m['quire_streams_kept{state="ended"}'] == 0, what="forgotten")
    assert get(s, r.headers["X-Stream-Id"]).status == 404


@pytest.mark.threads
def test_delete_stops(server):
    c, r = begin(server)
    stream = r.getheader("X-Stream-Id")
    read_frames(r, 3)
    gone = server.request("DELETE", f"/v1/streams/{stream}")
    assert gone.json == {"id": stream, "object": "stream", "deleted": True}
    assert not r.read().endswith(b"[DONE]\n\n"), "it was not the end"
    server.wait_idle()
    assert server.request("DELETE", f"/v1/streams/{stream}").status == 404
    c.close()


@pytest.mark.parametrize("after, status", [("-1", 400), ("x", 400), ("1e3", 400), ("99999999999999999999", 400),
                                           ("5000", 416)])
def test_bad_places(server, after, status):
    r = server.post("/v1/completions", {**LONG, "max_tokens": 4})
    r = get(server, r.headers["X-Stream-Id"], after)
    assert r.status == status and "after" in r.json["error"]["param"], r.body


def test_two_of_one_name(server):
    """An answer that is gone on with keeps its id; who asks for that gets the stream that began last."""
    whole = server.post("/v1/completions", {**LONG, "max_tokens": 40})
    resume = cs.resume_of(cs.frames_of(whole.body)[:10])
    rest = server.post("/v1/completions", {**LONG, "max_tokens": 20, "resume": resume})
    assert rest.headers["X-Stream-Id"] == whole.headers["X-Stream-Id"] and rest.body != whole.body
    assert get(server, rest.headers["X-Stream-Id"]).body == rest.body


@pytest.mark.threads
def test_only_the_latest_frames(start):
    """Of a long stream old frames go, and who asks for them is told; a reader who keeps up loses nothing."""
    s = start("--stream-max-bytes", "16k")
    r = s.post("/v1/completions", {**LONG, "max_tokens": 400})
    frames = cs.frames_of(r.body)
    assert len(frames) > 380 and len(r.body) > 60000
    stream = r.headers["X-Stream-Id"]
    r = get(s, stream, 2)
    assert (r.status, r.json["error"]["code"]) == (410, "frames_gone")
    first = int(re.search(r"up to (\d+)", r.json["error"]["message"])[1]) + 1
    rest = get(s, stream, first - 1).body
    assert rest == b"".join(f.raw for f in frames[first:]) and 8000 < len(rest) <= 16384
    assert s.metrics()["quire_streams_kept_bytes"] < 64 << 10


@pytest.mark.threads
def test_memory_of_all(start):
    """The oldest that have ended go first; where all run, each loses its own oldest frames; and a new one is refused
    when not even its name has room."""
    s = start("--stream-memory", "128k", "--max-sequences", "64")
    names = [s.post("/v1/completions", {**LONG, "max_tokens": 100}).headers["X-Stream-Id"] for _ in range(8)]
    there = [get(s, name).status == 200 for name in names]
    assert not there[0] and there[-1] and there == sorted(there)
    held, r = [], None
    while r is None or r.status == 200:  # names alone fill it
        c = s.connect()
        c.request("POST", "/v1/completions", json.dumps(LONG), JSON)
        held.append(c)
        r = c.getresponse()
        assert len(held) < 40
    r = s.post("/v1/completions", LONG)
    assert (r.status, r.json["error"]["code"]) == (429, "stream_memory") and int(r.headers["Retry-After"]) >= 1
    assert s.metrics()["quire_streams_kept_bytes"] <= (128 << 10) + (64 << 10)
    for c in held:
        c.close()


@pytest.mark.threads
def test_slow_reader_is_not_cut(start):
    """As fast as it reads: what it has not taken waits in the stream, not in the connection."""
    s = start("--stream-max-bytes", "32m")
    c = s.connect()
    c.connect()
    c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
    c.request("POST", "/v1/chat/completions", json.dumps(
        {"messages": MESSAGES, "n": 4, "logprobs": True, "top_logprobs": 20, "ignore_eos": True, "stream": True,
         "resumable": True}), JSON)
    r = c.getresponse()
    stream = r.getheader("X-Stream-Id")
    s.wait_until(lambda m: m['quire_streams_kept{state="running"}'] == 0, what="over", timeout=60)
    raw = r.read()
    assert len(raw) > 5 << 20, "more than sockets hold"
    assert raw.endswith(b"data: [DONE]\n\n") and raw == get(s, stream).body
    c.close()


@pytest.mark.threads
def test_many_readers_cut_at_random(server):
    """Readers that come and go while it is written see one stream."""
    rng = random.Random(9)
    c, r = begin(server, body={**LONG, "max_tokens": 600})
    stream = r.getheader("X-Stream-Id")
    results = []

    def read(seed):
        mine, got, at = random.Random(seed), b"", -1
        while not got.endswith(b"data: [DONE]\n\n"):
            k = server.connect()
            k.request("GET", f"/v1/streams/{stream}" + ("" if at < 0 else f"?after={at}"))
            reply, part = k.getresponse(), b""
            assert reply.status == 200
            want = mine.randrange(1, 200)
            while part.count(b"\n\n") < want and not part.endswith(b"data: [DONE]\n\n"):
                line = reply.readline()
                if not line:
                    break
                part += line
            part = part[:part.rfind(b"\n\n") + 2] if b"\n\n" in part else b""
            got += part
            at += part.count(b"\n\n")
            k.close()
        results.append(got)
    threads = [threading.Thread(target=read, args=(rng.random(),)) for _ in range(6)]
    for t in threads:
        t.start()
    raw = r.read()
    for t in threads:
        t.join()
    assert results == [raw] * 6
    c.close()


def test_whose_it_is(start, tmp_path):
    keys, secrets = "", {}
    for name, flags in (("alice", ()), ("bob", ()), ("alice2", ("--tenant", "alice"))):
        entry, secrets[name] = make_key(name, *flags)
        keys += entry
    (tmp_path / "keys").write_text(keys)
    (tmp_path / "keys").chmod(0o600)
    s = start("--api-keys", str(tmp_path / "keys"), key=secrets["alice"])
    r = s.post("/v1/completions", {**LONG, "max_tokens": 5}, headers={"X-Conversation-Id": "mine"})
    stream = r.headers["X-Stream-Id"]

    def ask(who, path, method="GET"):
        return s.request(method, path, headers={"Authorization": f"Bearer {secrets[who]}"}).status
    assert ask("bob", f"/v1/streams/{stream}") == 404 and ask("alice", f"/v1/streams/{stream}") == 200
    assert ask("bob", f"/v1/streams/{stream}", "DELETE") == 404
    assert ask("bob", "/v1/stream?conv_id=mine") == 404 and ask("alice", "/v1/stream?conv_id=mine") == 200
    assert s.get(f"/v1/streams/{stream}", headers={"Authorization": "Bearer wrong"}).status == 401


def test_settings(start):
    s = start("--resumable-streams", "on")
    r = s.post("/v1/completions", {**LONG, "max_tokens": 3, "resumable": None})
    assert get(s, r.headers["X-Stream-Id"]).body == r.body
    assert s.post("/v1/completions", {**LONG, "max_tokens": 3, "resumable": False}).headers["X-Stream-Id"] is None
    assert s.post("/v1/completions", {"prompt": "x", "max_tokens": 1}).status == 200, "no stream, nothing to keep"
    s = start("--stream-keep-ms", "0")
    r = s.post("/v1/completions", LONG)
    assert (r.status, r.json["error"]["param"]) == (400, "resumable") and "stream_keep_ms" in r.json["error"]["message"]
    r = s.get("/v1/streams/cmpl-x")
    assert r.status == 404 and "stream_keep_ms" in r.json["error"]["message"]


def test_not_a_stream(server):
    r = server.post("/v1/completions", {"prompt": "x", "resumable": True})
    assert (r.status, r.json["error"]["param"]) == (400, "resumable")


# ---- llama-server's shape ----

@pytest.mark.threads
def test_conversations(server):
    """By a name of the client's: from a byte on, looked up, stopped; another stream of that name takes its place."""
    path, body = "/v1/chat/completions", {"messages": MESSAGES, "max_tokens": 30, "stream": True}
    r = server.post(path, body, headers={"X-Conversation-Id": "c 1"})
    again = server.get("/v1/stream?conv_id=c%201")
    assert again.body == r.body and again.headers["Content-Type"] == "text/event-stream"
    assert server.get("/v1/stream?conv_id=c%201&from=100").body == r.body[100:]
    assert server.get("/v1/stream?conv_id=c%201&from=").body == r.body
    for query, status in (("", 400), ("?conv_id=other", 404), ("?conv_id=c%201&from=x", 400),
                          ("?conv_id=c%201&from=9999999", 400)):
        assert server.get("/v1/stream" + query).status == status, query
    found = server.post("/v1/streams/lookup", {"conversation_ids": ["c 1", "other", 3]}).json
    assert [(f["conversation_id"], f["is_done"], f["total_bytes"]) for f in found] == [("c 1", True, len(r.body))]
    assert 0 < found[0]["started_at"] <= found[0]["completed_at"] <= time.time() + 1
    c, first = begin(server, headers={"X-Conversation-Id": "c 1"})
    second = server.post(path, body, headers={"X-Conversation-Id": "c 1"})
    first.read()
    c.close()
    server.wait_idle()
    assert server.get("/v1/stream?conv_id=c%201").body == second.body
    assert server.request("DELETE", "/v1/stream?conv_id=c%201").status == 204
    assert server.get("/v1/stream?conv_id=c%201").status == 404
    assert server.request("DELETE", "/v1/stream?conv_id=c%201").status == 204
    assert server.post("/v1/streams/lookup", {}).json == []
    assert server.request("POST", "/v1/streams/lookup", "{", headers=JSON).status == 400


# ---- responses in the background ----

@pytest.mark.threads
def test_background_streams(start, tmp_path):
    s = start("--responses-db", str(tmp_path / "db"))
    c, r = begin(s, "/v1/responses", {"input": "Tell me", "max_output_tokens": 300, "ignore_eos": True, "stream": True,
                                      "background": True})
    stream = r.getheader("X-Stream-Id")
    got = read_frames(r, 4)
    c.close()
    rest = s.get(f"/v1/responses/{stream}?stream=true&starting_after={got.count(bytes([10, 10])) - 1}")
    assert rest.status == 200 and b'"type":"response.completed"' in rest.body.rpartition(b"\n\nid:")[2] or \
        b"response.incomplete" in rest.body
    whole = s.get(f"/v1/responses/{stream}").json
    assert whole["status"] in ("completed", "incomplete")
    text = whole["output"][-1]["content"][0]["text"]
    deltas = re.findall(rb'data: (\{"type":"response.output_text.delta".*)', got + rest.body)
    assert "".join(json.loads(d)["delta"] for d in deltas) == text


# ---- pings ----

def test_pings_while_queued(start):
    s = start("--max-sequences", "1", "--stream-ping-ms", "100", "--isa", "scalar")
    first = s.stream("Once", max_tokens=100000, ignore_eos=True)
    waiting, r = begin(s, body={**LONG, "max_tokens": 3, "resumable": False})
    assert r.readline() + r.readline() + r.readline() == b": ping\n\n: ping\n"
    kept, k = begin(s, body={**LONG, "max_tokens": 3})
    assert k.readline() + k.readline() == b": ping\n\n"
    lines = json.dumps({"prompt": "x", "stream": True, "options": {"num_predict": 2}})
    o = s.connect()
    o.request("POST", "/api/generate", lines, JSON)
    reply = o.getresponse()
    time.sleep(0.3)
    first.close()
    rest = r.read()
    assert rest.endswith(b"data: [DONE]\n\n")
    raw = k.read()
    assert get(s, k.getheader("X-Stream-Id")).body == raw[raw.index(b"id: 0\n"):], "pings are not kept"
    assert b"ping" not in reply.read()
    for c in (waiting, kept, o):
        c.close()


def test_pages_may_read_the_names(start):
    s = start("--cors-origins", "*")
    r = s.post("/v1/completions", {**LONG, "max_tokens": 2}, headers={"Origin": "http://page.example"})
    assert "X-Stream-Id" in r.headers["Access-Control-Expose-Headers"]


def test_head(server):
    r = server.post("/v1/completions", {**LONG, "max_tokens": 2})
    c = http.client.HTTPConnection(server.address(), server.port, timeout=20)
    c.request("HEAD", f"/v1/streams/{r.headers['X-Stream-Id']}")
    assert c.getresponse().status == 200
    c.close()
