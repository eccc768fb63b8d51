"""Where a request begins and ends: whatever could be read in two ways is refused, and nothing behind it is served; alone
and with a proxy in front."""
import itertools
import json
import socket
import ssl
import subprocess
import time

import pytest

from framing_shapes import BODY, CHUNK, EXTENSIONS, GET, HOST, JSON, OURS, POST, SHAPES, SMUGGLED, chunked, get, length, post
from quire import Server, make_certificate

numbers = itertools.count()
MALFORMED = 'quire_edge_refusals_total{reason="malformed"}'


def lines_until(server, mark, seen):
    """The log's exchanges behind the first `seen` characters, up to the one with the id `mark`."""
    begin = time.monotonic()
    while True:
        new = server.read_log()[seen:]
        if f"id=\"{mark}\"" in new or f"id={mark} " in new:
            lines = [x for x in new.splitlines() if "event=finished" in x]
            return [x for x in lines if mark not in x]
        assert time.monotonic() - begin < 30, new
        time.sleep(0.005)


def mark(server):
    """An exchange whose line in the log tells that those of earlier ones are there."""
    name = f"mark-{next(numbers)}"
    assert server.get("/health", headers={"X-Request-Id": name}).status == 200
    return name


def read_all(s):
    """Everything until the other side closes."""
    data = b""
    try:
        while True:
            more = s.recv(65536)
            if not more:
                return data
            data += more
    except ConnectionResetError:
        return data


def send_and_read(address, data, timeout=20):
    with socket.create_connection(address, timeout) as s:
        try:
            s.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass
        return read_all(s)


def answers(data):
    """[(status, headers, body)] of replies with lengths, one after the other."""
    found = []
    while data:
        head, _, data = data.partition(b"\r\n\r\n")
        first, *fields = head.decode("latin-1").split("\r\n")
        headers = {k.lower(): v for k, v in (f.split(": ", 1) for f in fields)}
        n = int(headers.get("content-length", 0))
        found.append((int(first.split()[1]), headers, data[:n]))
        data = data[n:]
    return found


def check_our_error(answer, status, logged):
    _, headers, body = answer
    error = json.loads(body)["error"]
    assert error["message"] and error["type"] == {501: "not_supported_error"}.get(status, "invalid_request_error")
    assert headers["connection"] == "close" and headers["content-type"] == "application/json"
    assert len(logged) == 1 and f"status={status}" in logged[0], logged


@pytest.mark.parametrize("name", SHAPES)
def test_refused(server, name):
    data, status = SHAPES[name]
    n_refused = server.metrics()[MALFORMED]
    lines_until(server, mark(server), 0)
    seen = len(server.read_log())
    got = answers(send_and_read((server.address(), server.port), data + SMUGGLED, timeout=8))
    assert [a[0] for a in got] == ([status] if status else [])
    logged = lines_until(server, mark(server), seen)
    if name in OURS:
        check_our_error(got[0], status, logged)
    else:
        assert status is None or got[0][1]["connection"] == "close"
        assert all(f"status={status} " in line for line in logged) and len(logged) <= 1, logged  # one where the head was a request's
    assert server.metrics()[MALFORMED] - n_refused == (1 if status else 0)  # of an end without a word libmicrohttpd does not tell
    if status:
        assert name in OURS or f"HTTP response code is {status} " in server.read_log()[seen:]


def test_refused_byte_by_byte(server):
    """The same answers when the bytes come one by one."""
    for name in [n for n in SHAPES if len(SHAPES[n][0]) < 1000]:
        data, status = SHAPES[name]
        with socket.create_connection((server.address(), server.port), 20) as s:
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                for i in range(len(data)):
                    s.sendall(data[i:i + 1])
                s.sendall(SMUGGLED)
            except (BrokenPipeError, ConnectionResetError):
                pass
            data = read_all(s)
        # An answer may be lost to a reset where bytes follow it; what comes is the answer and nothing else.
        assert [a[0] for a in answers(data)] in ([status], []), name


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory):
    certificate, key = make_certificate(tmp_path_factory.mktemp("tls"), "x")
    context = ssl.create_default_context(cafile=certificate)
    s = Server("--tls-certificate", str(certificate), "--tls-key", str(key), tls=context)
    yield s
    s.stop()


@pytest.mark.parametrize("name", SHAPES)
def test_refused_over_tls(encrypted, name):
    data, status = SHAPES[name]
    with encrypted.socket() as s:
        s.sendall(data + SMUGGLED)
        got = answers(read_all(s))
    assert [a[0] for a in got] == ([status] if status else [])


FINE = {
    "an empty line in front": (b"\r\n" + get(), 200),
    "chunks": (chunked(CHUNK + b"0\r\n\r\n"), 200),
    "chunks in two": (chunked(b"5\r\n" + BODY[:5] + b"\r\n00A\r\n" + BODY[5:] + b"\r\n000\r\n\r\n"), 200),
    "extensions": (chunked(b'f;a=b;c;d="e f\\""\r\n' + BODY + b"\r\n0;a\r\n\r\n"), 200),
    "trailers": (chunked(CHUNK + b"0\r\nX-Sum: 5\r\nX-Other:\r\n\r\n"), 200),
    "Chunked": (post(b"transfer-encoding: Chunked\r\n", body=CHUNK + b"0\r\n\r\n"), 200),
    "a length with zeros": (post(b"Content-Length: 00015\r\n", body=BODY), 200),
    "a length with blanks around": (post(b"Content-Length: \t 15 \t\r\n", body=BODY), 200),
    "a body of GET": (GET + HOST + length(len(SMUGGLED)) + b"\r\n" + SMUGGLED, 200),
    "chunks of GET": (GET + HOST + b"Transfer-Encoding: chunked\r\n\r\n" + CHUNK + b"0\r\n\r\n", 200),
    "a refused body": (b"POST /nowhere HTTP/1.1\r\n" + HOST + length(len(SMUGGLED)) + b"\r\n" + SMUGGLED, 404),
    "a coded body": (post(b"Content-Encoding: br\r\n", length(15), body=BODY), 415),
    "a coded body that is none": (post(b"Content-Encoding: gzip\r\n", length(15), body=BODY), 400),
    "a body that is not coded": (post(b"Content-Encoding: identity\r\n", length(15), body=BODY), 200),
    "an absolute path": (b"GET http://localhost/health HTTP/1.1\r\n" + HOST + b"\r\n", 200),
    "an absolute path without a path": (b"GET HTTP://localhost HTTP/1.1\r\n" + HOST + b"\r\n", 200),
    "an absolute path beats the host": (b"GET http://evil.example/health HTTP/1.1\r\n" + HOST + b"\r\n", 403),
    "a port": (GET + b"Host: localhost:8080\r\n\r\n", 200),
    "an address of IPv6": (GET + b"Host: [::1]:8080\r\n\r\n", 200),
    "a hundred parameters": (b"GET /slots?" + b"&".join(b"p%d=1" % i for i in range(100)) + b" HTTP/1.1\r\n" + HOST + b"\r\n", 200),
    **EXTENSIONS,
    "encoded bytes": (b"GET /he%61lth?a=%ff HTTP/1.1\r\n" + HOST + b"\r\n", 200),
    "TRACE": (b"TRACE /health HTTP/1.1\r\n" + HOST + b"\r\n", 405),
    "a method nobody knows": (b"BREW /health HTTP/1.1\r\n" + HOST + b"\r\n", 405),
    "OPTIONS *": (b"OPTIONS * HTTP/1.1\r\n" + HOST + b"\r\n", 204),
    "a value that is not ASCII": (get(b"X-A: \xc3\xa4\r\n"), 200),
    "an unknown expectation": (post(b"Expect: tea\r\n", length(15), body=BODY), 417),
}


@pytest.mark.parametrize("name", FINE)
def test_read_as_it_stands(server, name):
    """Odd, and yet clear: one answer, and the next request on the connection is the one that follows."""
    data, status = FINE[name]
    last = b"GET /version HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n"
    got = answers(send_and_read((server.address(), server.port), data + last, timeout=8))
    closes = status == 417
    assert [a[0] for a in got] == [status] + ([] if closes else [200])
    assert closes or b"version" in got[1][2]


def test_a_thousand_parameters(server):
    """More than a connection's memory holds: an answer, and the end."""
    data = b"GET /slots?" + b"&".join(b"p%d=1" % i for i in range(1000)) + b" HTTP/1.1\r\n" + HOST + b"\r\n"
    got = answers(send_and_read((server.address(), server.port), data + SMUGGLED, timeout=8))
    assert [a[0] for a in got] == [431] and got[0][1]["connection"] == "close"


def test_ends_without_a_body(server):
    """A client that closes in the middle of a request has no answer, and its request is not run."""
    for data in (POST, post(length(100), body=BODY), chunked(CHUNK), chunked(CHUNK + b"0\r\n")):
        with socket.create_connection((server.address(), server.port), 20) as s:
            s.sendall(data)
            s.shutdown(socket.SHUT_WR)
            assert read_all(s) == b""


# ---- with a proxy in front

@pytest.fixture(scope="module")
def proxied(tmp_path_factory):
    s = Server()
    folder = tmp_path_factory.mktemp("haproxy")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    (folder / "haproxy.cfg").write_text(f"""
global
    maxconn 100
defaults
    mode http
    timeout connect 5s
    timeout client 200ms
    timeout server 10s
    timeout http-request 200ms
    timeout http-keep-alive 200ms
    http-reuse always
frontend f
    bind 127.0.0.1:{port}
    default_backend b
backend b
    server quire 127.0.0.1:{s.port} maxconn 1
""")
    proxy = subprocess.Popen(["haproxy", "-db", "-f", str(folder / "haproxy.cfg")], stderr=subprocess.DEVNULL)
    begin = time.monotonic()
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 5).close()
            break
        except ConnectionRefusedError:
            assert proxy.poll() is None and time.monotonic() - begin < 20
            time.sleep(0.05)
    yield s, ("127.0.0.1", port)
    proxy.terminate()
    proxy.wait(10)
    s.stop()


@pytest.mark.parametrize("name", SHAPES)
def test_through_a_proxy(proxied, name):
    """What the proxy lets through is served once at most: nobody's next request on its connection to the server is
    answered with something else, and no body becomes a request."""
    server, address = proxied
    data, _ = SHAPES[name]
    lines_until(server, mark(server), 0)
    seen = len(server.read_log())
    send_and_read(address, data + (b"\r\n" if name == "HTTP/0.9" else b""), timeout=30)
    # The connection between them is used again for a neighbour.
    reply = answers(send_and_read(address, b"GET /v1/models HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n"))
    assert reply[0][0] == 200 and b'"object":"list"' in reply[0][2].replace(b" ", b"")
    logged = lines_until(server, mark(server), seen)
    assert sum("route=/v1/models " in line for line in logged) == 1, logged
    others = [line for line in logged if "route=/v1/models " not in line]
    assert len(others) <= 1 and not any("/version" in line for line in others), others
