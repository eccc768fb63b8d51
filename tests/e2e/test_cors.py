"""Web pages of other origins: preflights, and headers on every kind of answer."""
import pytest

from quire import make_key

A, B, EVIL = "https://a.example", "http://localhost:3000", "https://evil.example"
ASK = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,content-type"}


@pytest.fixture(scope="module")
def some():
    from quire import Server
    s = Server("--cors-origins", f"{A},{B}")
    yield s
    s.stop()


def allowed(reply):
    return reply.headers["Access-Control-Allow-Origin"]


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/models", "/health", "/nowhere"])
def test_preflight(some, path):
    for origin in (A, B):
        r = some.request("OPTIONS", path, headers={"Origin": origin, **ASK})
        assert r.status == 204 and r.body == b"" and allowed(r) == origin
        assert "POST" in r.headers["Access-Control-Allow-Methods"].split(", ")
        assert r.headers["Access-Control-Allow-Headers"].split(", ") == ["Authorization", "*"]
        assert int(r.headers["Access-Control-Max-Age"]) > 0
        assert r.headers["Vary"] == "Origin" and r.headers["Content-Type"] is None


def test_preflight_of_a_stranger(some):
    r = some.request("OPTIONS", "/v1/completions", headers={"Origin": EVIL, **ASK})
    assert r.status == 403 and allowed(r) is None and r.headers["Access-Control-Allow-Methods"] is None
    assert r.headers["Vary"] == "Origin" and r.json["error"]["code"] == "cors_origins"


def test_options_that_is_no_preflight(some):
    assert some.request("OPTIONS", "/v1/completions").status == 405
    assert some.request("OPTIONS", "/v1/completions", headers={"Origin": A}).status == 405


@pytest.mark.parametrize("method,path,body,status", [
    ("GET", "/health", None, 200), ("GET", "/v1/models", None, 200), ("GET", "/nowhere", None, 404),
    ("POST", "/health", b"", 405), ("POST", "/v1/completions", {"prompt": 5}, 400),
    ("POST", "/v1/completions", {"prompt": "a", "max_tokens": 1}, 200),
])
def test_every_answer_has_them(some, method, path, body, status):
    r = some.request(method, path, body, headers={"Origin": A})
    assert r.status == status and allowed(r) == A and r.headers["Vary"] == "Origin"
    assert set(r.headers["Access-Control-Expose-Headers"].split(", ")) == {
        "X-Request-Id", "Request-Id", "Retry-After", "retry-after-ms", "X-Queue-Position", "X-Predicted-TTFT-Ms",
        "X-Stream-Id", "X-Seed", "X-Warning"}
    for stranger in (EVIL, "null", "", A + ".evil.example", A + ":8443", "https://a.example@evil.example"):
        r = some.request(method, path, body, headers={"Origin": stranger})
        assert r.status == 403 and allowed(r) is None and r.headers["Vary"] == "Origin"
    r = some.request(method, path, body)
    assert r.status == status and allowed(r) is None and r.headers["Vary"] == "Origin"


def test_streams_have_them(some):
    stream = some.stream("Once", headers={"Origin": B}, max_tokens=3)
    assert stream.headers["Access-Control-Allow-Origin"] == B
    stream.text()
    assert stream.done


def test_all_origins(start):
    s = start("--cors-origins", "*")
    for origin in (A, EVIL, "null"):
        assert allowed(s.get("/health", headers={"Origin": origin})) == "*"
    assert allowed(s.request("OPTIONS", "/v1/models", headers={"Origin": EVIL, **ASK})) == "*"


def test_off(server):
    """No page of another origin has anything answered, and a page of the server's own host all."""
    for method, path, headers in (("GET", "/health", {}), ("POST", "/tokenize", {}), ("OPTIONS", "/v1/completions", ASK)):
        r = server.request(method, path, headers={"Origin": A, **headers})
        assert r.status == 403 and r.json["error"]["code"] == "cors_origins"
        assert allowed(r) is None and r.headers["Vary"] is None
    for origin in (f"http://127.0.0.1:{server.port}", f"https://127.0.0.1:{server.port}"):
        assert server.get("/health", headers={"Origin": origin}).status == 200
        assert server.post("/tokenize", {"content": "a"}, headers={"Origin": origin}).status == 200
    for origin in ("http://127.0.0.1", f"http://127.0.0.1:{server.port}0", f"http://localhost:{server.port}", "null",
                   f"ftp://127.0.0.1:{server.port}", "http://", "x"):
        assert server.get("/health", headers={"Origin": origin}).status == 403, origin


def test_a_stranger_computes_nothing(start):
    s = start()
    before = s.metrics()["quire_prompt_tokens_total"]
    for kind in ("text/plain", "application/json", "application/x-www-form-urlencoded"):
        r = s.post("/v1/completions", b'{"prompt":"a"}', headers={"Origin": EVIL, "Content-Type": kind})
        assert r.status == 403
    m = s.metrics()
    assert m["quire_prompt_tokens_total"] == before and m['quire_edge_refusals_total{reason="origin"}'] == 3


# ---- hosts

LOCAL = ["localhost", "localhost:1", "LocalHost", "localhost.", "a.localhost", "127.0.0.1", "127.8.9.1:8080", "[::1]",
         "[::1]:80", "[0:0::1]"]
OTHERS = ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "192.168.0.1", "[::2]", "0.0.0.0", "xlocalhost",
          "1270.0.0.1"]


def status_of(server, host, path="/health"):
    return server.get(path, headers={"Host": host})


def test_hosts_of_loopback(server):
    for host in LOCAL:
        assert status_of(server, host).status == 200, host
    for host in OTHERS:
        r = status_of(server, host)
        assert r.status == 403 and r.json["error"]["code"] == "allowed_hosts", host


def test_hosts_that_are_listed(start):
    s = start("--allowed-hosts", "Api.example,*.example.org,[::1],127.0.0.1")
    for host in ("api.example", "API.EXAMPLE:99", "a.example.org", "a.b.example.org.", "[::1]", "127.0.0.1:5"):
        assert status_of(s, host).status == 200, host
    for host in ("localhost", "example.org", "b.api.example", "api.example.evil.example", "aexample.org"):
        assert status_of(s, host).status == 403, host
    s = start("--allowed-hosts", "*")
    for host in LOCAL + OTHERS:
        assert status_of(s, host).status == 200, host


def test_hosts_beyond_loopback(start, tmp_path):
    s = start("--host", "0.0.0.0")
    for host in LOCAL + OTHERS:
        assert status_of(s, host).status == 200, host
    s = start("--host", "0.0.0.0", "--allowed-hosts", "localhost,127.0.0.1")
    assert status_of(s, "evil.example").status == 403


def test_hosts_of_a_unix_socket(start, tmp_path):
    s = start("--host", "", "--unix-socket", str(tmp_path / "q"), "--allowed-hosts", "localhost")
    assert status_of(s, "evil.example").status == 200


def test_with_keys(start, tmp_path):
    """A preflight carries no key; the refusal that a page gets can be read by it."""
    path = tmp_path / "keys.ini"
    entry, secret = make_key("a", "--requests-per-minute", "1")
    path.write_text(entry)
    s = start("--cors-origins", A, "--api-keys", str(path))
    assert s.request("OPTIONS", "/v1/completions", headers={"Origin": A, **ASK}).status == 204
    refused = s.post("/v1/completions", {"prompt": "a"}, headers={"Origin": A})
    assert refused.status == 401 and allowed(refused) == A
    mine = {"Origin": A, "X-Api-Key": secret}
    replies = [s.post("/tokenize", {"content": "a"}, headers=mine) for _ in range(3)]
    assert replies[0].status == 200 and replies[2].status == 429
    assert allowed(replies[2]) == A and replies[2].headers["Retry-After"]
