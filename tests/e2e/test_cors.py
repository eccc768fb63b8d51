"""Web pages of other origins: preflights, and headers on every kind of answer."""
import pytest

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
    assert r.status == 204 and allowed(r) is None and r.headers["Access-Control-Allow-Methods"] is None
    assert r.headers["Vary"] == "Origin"


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
        "X-Request-Id", "Retry-After", "retry-after-ms", "X-Queue-Position"}
    r = some.request(method, path, body, headers={"Origin": EVIL})
    assert r.status == status and allowed(r) is None and r.headers["Vary"] == "Origin"
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
    r = server.get("/health", headers={"Origin": A})
    assert allowed(r) is None and r.headers["Vary"] is None
    assert server.request("OPTIONS", "/v1/completions", headers={"Origin": A, **ASK}).status == 405


def test_with_keys(start, tmp_path):
    """A preflight carries no key; the refusal that a page gets can be read by it."""
    import subprocess
    from quire import BIN
    path = tmp_path / "keys.ini"
    run = subprocess.run([BIN, "key", "--name", "a", "--requests-per-minute", "1"], capture_output=True, text=True,
                         check=True)
    path.write_text(run.stdout)
    s = start("--cors-origins", A, "--api-keys", str(path))
    assert s.request("OPTIONS", "/v1/completions", headers={"Origin": A, **ASK}).status == 204
    refused = s.post("/v1/completions", {"prompt": "a"}, headers={"Origin": A})
    assert refused.status == 401 and allowed(refused) == A
    mine = {"Origin": A, "X-Api-Key": run.stderr.strip()}
    replies = [s.post("/tokenize", {"content": "a"}, headers=mine) for _ in range(3)]
    assert replies[0].status == 200 and replies[2].status == 429
    assert allowed(replies[2]) == A and replies[2].headers["Retry-After"]
