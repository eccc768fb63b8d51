"""HTTP itself: methods, sizes, types, connections."""
import json
import socket

import pytest

JSON = {"Content-Type": "application/json"}


def read_reply(f):
    """One reply from a socket's file: status, headers, body."""
    status = int(f.readline().split()[1])
    headers = {}
    for line in iter(f.readline, b"\r\n"):
        name, value = line.decode().split(":", 1)
        headers[name.lower()] = value.strip()
    return status, headers, f.read(int(headers.get("content-length", 0)))


def exchange(server, data):
    with server.socket() as s:
        s.sendall(data)
        return read_reply(s.makefile("rb"))


@pytest.mark.parametrize("field", [b"Transfer-Encoding: gzip, chunked", b"Host: localhost", b"Content-Length: 1, 1"])
def test_an_answer_while_the_body_is_sent(server, field):
    """A refusal of the head, by libmicrohttpd or by the guard, is not destroyed by a body that the client goes on to send."""
    with server.socket() as s:
        s.sendall(b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\n" + field + b"\r\n\r\n")
        s.sendall(b"a" * (2 << 20))
        assert s.recv(100).split(b" ")[:2] in ([b"HTTP/1.1", b"501"], [b"HTTP/1.1", b"400"])


@pytest.mark.parametrize("method,path,allow", [
    ("GET", "/v1/completions", "POST"), ("DELETE", "/v1/completions", "POST"), ("PUT", "/tokenize", "POST"),
    ("POST", "/health", "GET, HEAD"), ("POST", "/v1/models", "GET, HEAD"), ("PATCH", "/metrics", "GET, HEAD"),
])
def test_wrong_method(server, method, path, allow):
    r = server.request(method, path, b"{}" if method == "POST" else None)
    assert r.status == 405 and r.headers["Allow"] == allow
    assert r.json["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize("path", ["/api", "/api/", "/v1", "/v1/completions/", "/V1/models", "/healthz", "/v1/models/",
                                  "/%2e%2e/etc/passwd"])
def test_unknown_path(server, path):
    r = server.get(path)
    assert r.status == 404 and r.json["error"]["type"] == "not_found_error"


@pytest.mark.parametrize("kind,status", [
    ("application/json", 200), ("application/json; charset=utf-8", 200), ("Application/JSON", 200),
    ("application/vnd.api+json", 200), ("application/ld+json;a=b", 200), (None, 200), ("text/plain", 415), ("", 415),
    ("application/+json", 415), ("application/json,text/plain", 415), ("text/json", 415), ("text/html", 415), ("application/x-www-form-urlencoded", 415),
    ("multipart/form-data; boundary=x", 415), ("application/jsonx", 415),
])
def test_content_type(server, kind, status):
    r = server.post("/v1/completions", json.dumps({"prompt": "a", "max_tokens": 1}).encode(),
                    headers={} if kind is None else {"Content-Type": kind})
    assert r.status == status, r.body


def test_any_type_from_a_program(server):
    """curl -d says that its JSON is a form: Ollama's routes take that, but not from what may be a page."""
    body = json.dumps({"model": "quire-demo"}).encode()
    for kind in ("application/x-www-form-urlencoded", "text/plain"):
        form = {"Content-Type": kind}
        assert server.post("/api/generate", body, headers=form).json["done_reason"] == "load"
        for mark in ("Origin", "Sec-Fetch-Site", "Referer"):
            value = f"http://127.0.0.1:{server.port}" if mark == "Origin" else "same-origin"
            assert server.post("/api/generate", body, headers={**form, mark: value}).status == 415, mark


def test_no_type_from_a_program_alone(server):
    """A page can send a body without a type (a Blob that has none) elsewhere without asking first; a call without a body
    needs no type."""
    body = json.dumps({"prompt": "a", "max_tokens": 1}).encode()
    for path in ("/v1/completions", "/api/generate"):
        for mark in ("Origin", "Sec-Fetch-Site", "Referer"):
            value = f"http://127.0.0.1:{server.port}" if mark == "Origin" else "same-site"
            assert server.post(path, body, headers={mark: value}).status == 415, (path, mark)
            assert server.post(path, iter([body]), headers={mark: value}).status == 415
            assert server.post(path, b"", headers={mark: value}).status == 400, (path, mark)
    assert server.post("/v1/completions", body).status == 200


def test_body_too_large(start):
    s = start("--max-body", "4k")
    fits = json.dumps({"prompt": "a" * 100, "max_tokens": 1})
    assert s.post("/v1/completions", fits + " " * (4096 - len(fits)), headers=JSON).status == 200
    r = s.post("/v1/completions", fits + " " * (4097 - len(fits)), headers=JSON)
    assert r.status == 413 and r.json["error"]["type"] == "invalid_request_error"
    chunks = (b" " * 1000 for _ in range(8))
    r = s.post("/v1/completions", chunks, headers=JSON)
    assert r.status == 413, r.body
    assert s.get("/health").status == 200


def test_body_too_large_is_said_before_it_is_sent(server):
    head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n"
    assert exchange(server, head)[0] == 413
    head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999999\r\nExpect: 100-continue\r\n\r\n"
    assert exchange(server, head)[0] == 413


def test_expect_continue(server):
    body = b'{"prompt":"a","max_tokens":1}'
    with server.socket() as s:
        f = s.makefile("rb")
        s.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                  b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(body))
        assert f.readline().startswith(b"HTTP/1.1 100")
        assert f.readline() == b"\r\n"
        s.sendall(body)
        assert read_reply(f)[0] == 200


def test_headers_too_large(server):
    for size in (20_000, 200_000):
        status, _, _ = exchange(server, b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Fill: %s\r\n\r\n" % (b"a" * size))
        assert status == 431
    status, headers, body = exchange(server, b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Fill: %s\r\n\r\n" % (b"a" * 20000))
    assert json.loads(body)["error"]["type"] == "invalid_request_error"
    assert exchange(server, b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Fill: %s\r\n\r\n" % (b"a" * 8000))[0] == 200


@pytest.mark.parametrize("garbage", [b"\r\n\r\n\r\n", b"nonsense\r\n\r\n", b"GET\r\n\r\n", b"\x16\x03\x01\x02\x00\x01",
                                     b"GET / HTTP/9.9\r\n\r\n", b"GET /health HTTP/1.1\r\nContent-Length: -5\r\n\r\n"])
def test_garbage_does_no_harm(server, garbage):
    with server.socket(timeout=1) as s:
        s.sendall(garbage)
        try:
            s.recv(4096)
        except socket.timeout:
            pass
    assert server.get("/health").status == 200


def test_keep_alive(server):
    c = server.connect()
    local = set()
    for i in range(5):
        c.request("POST", "/v1/completions", json.dumps({"prompt": "a", "max_tokens": 1}), JSON)
        r = c.getresponse()
        assert r.status == 200 and r.read()
        local.add(c.sock.getsockname())
        c.request("GET", "/health")
        assert c.getresponse().read() == b'{"status":"ok"}'
    assert len(local) == 1
    c.close()


def test_keep_alive_after_a_stream(server):
    with server.socket() as s:
        f = s.makefile("rb")
        body = b'{"prompt":"a","max_tokens":3,"stream":true}'
        for _ in range(3):
            s.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            assert b"200" in f.readline()
            for line in iter(f.readline, b"0\r\n"):
                assert line
            assert f.readline() == b"\r\n"


def test_pipelining(server):
    body = json.dumps({"prompt": "Once", "max_tokens": 4, "temperature": 0}).encode()
    post = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    get = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with server.socket() as s:
        s.sendall(post + get + post + get)
        f = s.makefile("rb")
        replies = [read_reply(f) for _ in range(4)]
    assert [r[0] for r in replies] == [200] * 4
    texts = [json.loads(r[2])["choices"][0]["text"] for r in replies[::2]]
    assert texts[0] == texts[1]
    assert replies[1][2] == replies[3][2] == b'{"status":"ok"}'


def test_chunked_request_body(server):
    body = json.dumps({"prompt": "Once upon", "max_tokens": 4, "temperature": 0}).encode()
    r = server.post("/v1/completions", (bytes([b]) for b in body), headers=JSON)
    assert r.status == 200
    assert r.text == server.complete("Once upon", max_tokens=4, temperature=0).text


def test_http_10(server):
    status, headers, body = exchange(server, b"GET /health HTTP/1.0\r\n\r\n")
    assert status == 200 and body == b'{"status":"ok"}'
    with server.socket() as s:
        data = b'{"prompt":"a","max_tokens":3,"stream":true,"ignore_eos":true}'
        s.sendall(b"POST /v1/completions HTTP/1.0\r\nContent-Length: %d\r\n\r\n" % len(data) + data)
        everything = b"".join(iter(lambda: s.recv(65536), b""))
    assert everything.endswith(b"data: [DONE]\n\n") and b"Transfer-Encoding" not in everything


def test_slow_sender(server):
    body = b'{"prompt":"a","max_tokens":1}'
    data = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    with server.socket() as s:
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for b in data:
            s.send(bytes([b]))
        assert read_reply(s.makefile("rb"))[0] == 200


def test_many_connections_come_and_go(server):
    before = server.n_fds()
    for _ in range(300):
        with server.socket():
            pass
    with server.socket() as s:
        s.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert read_reply(s.makefile("rb"))[0] == 200
    server.wait_until(lambda m: server.n_fds() <= before + 1, what="descriptors back")


@pytest.mark.parametrize("path", ["/v1/completions", "/props", "/lora-adapters"])
def test_a_coded_body_is_told_what_is_read(server, path):
    """RFC 9110, 15.5.16: 415 for a coding says which are taken. Routes that also answer GET too."""
    r = server.request("POST", path, b"x" * 20, {**JSON, "Content-Encoding": "br"})
    assert r.status == 415 and r.headers["Accept-Encoding"] == "gzip, deflate, zstd"
