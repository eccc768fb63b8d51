"""API keys: who gets in, as whom, and how often."""
import json
import re
import signal
import threading

import pytest

from quire import admitted, is_idle, make_key, serve_in_vain

REJECTED = 'quire_rejections_total{reason="%s"}'
BODY = {"prompt": "Once", "max_tokens": 2, "ignore_eos": True}
LONG = dict(max_tokens=100000, ignore_eos=True, temperature=0)


class Keys:
    """A file of keys, made with `quire key`."""

    def __init__(self, path):
        self.path, self.entries, self.secrets = path, {}, {}

    def add(self, name, *flags):
        self.entries[name], self.secrets[name] = make_key(name, *flags)
        self.write()
        return self.secrets[name]

    def write(self):
        self.path.write_text("\n".join(self.entries.values()))


@pytest.fixture
def keys(tmp_path):
    return Keys(tmp_path / "keys.ini")


def count_reloads(server, what):
    return len(re.findall(what, server.read_log()))


def reload_files(server, what="event=reloaded what=keys"):
    """SIGHUP, and wait until the log says what came of it."""
    import time
    before, begin = count_reloads(server, what), time.monotonic()
    server.process.send_signal(signal.SIGHUP)
    while count_reloads(server, what) == before:
        assert time.monotonic() - begin < 30, server.read_log()[-2000:]
        assert server.get("/health").status == 200
        time.sleep(0.01)


def error_of(reply, status, kind, code):
    assert reply.status == status, reply.body
    assert (reply.json["error"]["type"], reply.json["error"]["code"]) == (kind, code)
    assert set(reply.json["error"]) == {"message", "type", "param", "code"}
    return reply


# ---- making one

def test_key_is_printed_once_and_kept_as_a_hash(keys):
    secret = keys.add("alice", "--tenant", "team-a", "--weight", "3", "--max-priority", "high", "--requests-per-minute",
                      "60", "--tokens-per-minute", "1000", "--max-concurrent", "2", "--admin")
    assert re.fullmatch(r"qk-[\w-]{43}", secret)
    lines = keys.entries["alice"].rstrip("\n").split("\n")
    assert lines[0] == "[alice]" and lines[-1].startswith("hash = ") and secret not in keys.entries["alice"]
    import hashlib
    assert f"hash = {hashlib.sha256(secret.encode()).hexdigest()}\n" in keys.entries["alice"]
    for line in ("tenant = team-a", "weight = 3", "max_priority = high", "requests_per_minute = 60",
                 "tokens_per_minute = 1000", "max_concurrent = 2", "admin = yes"):
        assert line in keys.entries["alice"].split("\n")
    assert keys.add("bob") != secret


# ---- who gets in

def test_shapes(keys, start):
    secret = keys.add("alice")
    s = start("--api-keys", str(keys.path))
    for path in ("/health", "/ready", "/version", "/metrics"):
        assert s.get(path).status == 200, path
    for headers in ({}, {"Authorization": "Bearer nonsense"}, {"Authorization": f"Basic {secret}"},
                    {"Authorization": "Bearer "}, {"Authorization": secret}, {"X-Api-Key": secret[:-1]},
                    {"X-Api-Key": secret + "x"}, {"X-Api-Key": "x" * 5000},
                    {"Authorization": "Bearer wrong", "X-Api-Key": secret}):
        for method, path, body in (("POST", "/v1/completions", BODY), ("GET", "/v1/models", None),
                                   ("POST", "/tokenize", {"content": "a"}), ("GET", "/debug/kv", None)):
            r = error_of(s.request(method, path, body, headers), 401, "invalid_request_error", "invalid_api_key")
            assert r.headers["WWW-Authenticate"].startswith('Bearer realm="quire"')
            assert r.headers["X-Request-Id"]
    for headers in ({"Authorization": f"Bearer {secret}"}, {"authorization": f"bearer  {secret}"},
                    {"X-Api-Key": secret}, {"x-api-key": secret, "Authorization": "Basic abc"}):
        assert s.post("/v1/completions", BODY, headers=headers).status == 200, headers
        assert s.get("/v1/models", headers=headers).status == 200
    assert s.get("/nowhere").status == 404
    assert s.metrics()[REJECTED % "unauthorized"] == 9 * 4
    assert s.metrics()['quire_http_requests_total{route="/v1/models",code="401"}'] == 9
    assert secret not in s.read_log()


def test_a_refused_body_is_not_read(keys, start):
    """The answer comes on the head alone; a body that is sent all the same does no harm."""
    keys.add("alice")
    s = start("--api-keys", str(keys.path), "--max-body", "8k")
    with s.socket() as c:
        c.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8000\r\nExpect: 100-continue\r\n\r\n")
        assert c.recv(12) == b"HTTP/1.1 401"
    assert s.post("/v1/completions", {"prompt": "x" * 8000}).status == 401
    assert s.post("/v1/completions", {"prompt": "x" * 20000}).status == 401


def test_metrics_want_an_admin_unless_they_are_open(keys, start):
    secret, admin = keys.add("alice"), keys.add("root", "--admin")
    s = start("--api-keys", str(keys.path), "--metrics-open", "off", key=secret)
    assert s.get("/metrics", headers={"X-Api-Key": "none"}).status == 401
    error_of(s.get("/metrics"), 403, "invalid_request_error", "insufficient_permissions")
    assert s.get("/metrics", headers={"X-Api-Key": admin}).status == 200


def test_debug_is_for_admins(keys, start):
    secret, admin = keys.add("alice"), keys.add("root", "--admin")
    s = start("--api-keys", str(keys.path), key=secret)
    for path in ("/debug/requests", "/debug/iterations", "/debug/kv", "/slots"):
        error_of(s.get(path), 403, "invalid_request_error", "insufficient_permissions")
        assert s.get(path, headers={"X-Api-Key": admin}).status == 200
    assert s.metrics()[REJECTED % "forbidden"] == 4


def test_without_keys_headers_mean_nothing(server):
    assert server.post("/v1/completions", BODY, headers={"Authorization": "Bearer x"}).status == 200
    assert server.get("/debug/kv", headers={"X-Api-Key": "x"}).status == 200


def test_broken_file_is_refused_at_start(tmp_path):
    path = tmp_path / "keys.ini"
    path.write_text("[a]\nhash = short\n")
    run = serve_in_vain("--api-keys", path)
    assert run.returncode == 1 and f"{path}:2: 'hash' must be" in run.stderr and run.stdout == ""


# ---- as whom

def test_tenant_of_the_key_is_the_identity(keys, start):
    """The same prompt: cached for another key of the tenant, not for anybody else, whatever a header says."""
    a, b = keys.add("a", "--tenant", "one"), keys.add("b", "--tenant", "one")
    c = keys.add("c", "--tenant", "two")
    s = start("--api-keys", str(keys.path), "--tenant-header", "X-Tenant", key=a)
    body = {**BODY, "prompt": "Once upon a time there was a fox who lived in a big city. " * 4}

    def cached(key):
        r = s.post("/v1/completions", body, headers={"X-Api-Key": key, "X-Tenant": "one"})
        return r.json["usage"]["prompt_tokens_details"]["cached_tokens"]

    assert cached(a) == 0 and cached(b) > 0
    assert cached(c) == 0 and cached(c) > 0


def test_weight_of_the_key(keys, start, tmp_path):
    """The key's own wins over tenant_weights; without one those hold."""
    journal = tmp_path / "journal"
    a, b = keys.add("a", "--tenant", "one", "--weight", "7"), keys.add("b", "--tenant", "two")
    c = keys.add("c")
    s = start("--api-keys", str(keys.path), "--tenant-weights", "one=2,two=3", "--journal", str(journal))
    for key in (a, b, c):
        assert s.post("/v1/completions", BODY, headers={"X-Api-Key": key}).status == 200
    assert s.stop() == 0
    assert [post["weight"] for post in admitted(journal)] == [7, 3, 1]


def test_priority_is_lowered_to_the_ceiling(keys, start):
    low, free = keys.add("low", "--max-priority", "normal"), keys.add("free")
    s = start("--api-keys", str(keys.path), key=free)

    def priority(key, **fields):
        r = s.post("/v1/completions", {**BODY, **fields}, headers={"X-Api-Key": key, "X-Request-Id": "ask"})
        assert r.status == 200
        asked.append(1)
        s.wait_until(lambda m: len(told()) == len(asked), what="logged")
        return told()[-1]

    def told():
        return re.findall(r'id="ask".* priority=(\w+) ', s.read_log())

    asked = []
    assert priority(low, priority="critical") == "normal"
    assert priority(low, priority="low") == "low"
    assert priority(low) == "normal"
    assert priority(free, priority="critical") == "critical"
    r = s.post("/v1/completions", {**BODY, "priority": "urgent"}, headers={"X-Api-Key": low})
    assert r.status == 400, "still checked"


# ---- how often

def test_requests_per_minute(keys, start):
    secret = keys.add("alice", "--requests-per-minute", "3")
    other = keys.add("bob")
    s = start("--api-keys", str(keys.path), key=secret)
    # Three at once and one every 20 seconds: of six without a pause the last ones find none left.
    replies = [s.post("/tokenize", {"content": "a"}) for _ in range(6)]
    assert [r.status for r in replies[:3]] == [200] * 3
    refused = [r for r in replies if r.status == 429]
    assert refused
    for r in refused:
        error_of(r, 429, "rate_limit_error", "rate_limit_exceeded")
        assert 0 < int(r.headers["retry-after-ms"]) <= 20000
        assert int(r.headers["Retry-After"]) == -(-int(r.headers["retry-after-ms"]) // 1000)
    assert s.get("/v1/models").status == 200, "a look costs nothing"
    assert s.post("/tokenize", {"content": "a"}, headers={"X-Api-Key": other}).status == 200
    assert s.metrics()[REJECTED % "rate_limit"] == len(refused)


def test_tokens_per_minute(keys, start):
    secret = keys.add("alice", "--tokens-per-minute", "600")
    s = start("--api-keys", str(keys.path), key=secret)
    r = s.complete([5] * 380, max_tokens=20, temperature=0, ignore_eos=True)
    assert r.json["usage"]["total_tokens"] == 400
    r = error_of(s.post("/v1/completions", {**BODY, "prompt": [6] * 598}), 429, "rate_limit_error",
                 "rate_limit_exceeded")
    assert 0 < int(r.headers["retry-after-ms"]) <= 40000  # 600 wanted, 200 there, ten a second


def test_tokens_that_are_not_used_come_back(keys, start):
    """Reserved is what might be generated; what is not is given back at the end."""
    secret = keys.add("alice", "--tokens-per-minute", "1000")
    s = start("--api-keys", str(keys.path), key=secret)
    for _ in range(5):  # 5 x 900 would be far above it
        r = s.post("/v1/completions", {"prompt": "Once upon a time", "max_tokens": 900, "temperature": 0, "stop": "a"})
        assert r.status == 200 and r.json["usage"]["completion_tokens"] < 100, r.body
        s.wait_idle()


def test_requests_at_a_time(keys, start):
    secret = keys.add("alice", "--max-concurrent", "2")
    s = start("--api-keys", str(keys.path), key=secret)
    error_of(s.post("/v1/completions", {**BODY, "n": 3}), 400, "invalid_request_error", None)
    one, two = s.stream("Once", **LONG), s.stream("Once", **LONG)
    r = error_of(s.post("/v1/completions", BODY), 429, "rate_limit_error", "rate_limit_exceeded")
    assert int(r.headers["retry-after-ms"]) > 0
    one.close()
    s.wait_until(lambda m: m['quire_requests_total{endpoint="completions",outcome="cancelled"}'] == 1, what="one end")
    assert s.post("/v1/completions", BODY).status == 200
    two.close()
    s.wait_idle()


# ---- reading the file again

def test_reload(keys, start):
    old, stays = keys.add("old"), keys.add("stays", "--max-concurrent", "1")
    s = start("--api-keys", str(keys.path), key=stays)
    stream = s.stream("Once", headers={"X-Api-Key": old}, max_tokens=300, temperature=0, ignore_eos=True)
    del keys.entries["old"]
    new = keys.add("new")
    assert s.get("/v1/models", headers={"X-Api-Key": new}).status == 401
    reload_files(s)
    assert s.get("/v1/models", headers={"X-Api-Key": new}).status == 200
    assert s.get("/v1/models", headers={"X-Api-Key": old}).status == 401
    assert s.get("/v1/models").status == 200
    stream.text()
    assert stream.done, "what was begun ends in peace"


def test_broken_file_keeps_the_old_keys(keys, start):
    secret = keys.add("alice")
    s = start("--api-keys", str(keys.path), key=secret)
    for text in ("[alice]\nhash = nonsense\n", "", "[[[\n"):
        keys.path.write_text(text)
        reload_files(s, "event=reload_failed what=keys")
        assert s.get("/v1/models").status == 200
    keys.path.unlink()
    reload_files(s, "event=reload_failed what=keys")
    assert s.get("/v1/models").status == 200
    keys.entries.clear()
    other = keys.add("alice")  # the same name with another secret
    reload_files(s)
    assert s.get("/v1/models").status == 401
    assert s.get("/v1/models", headers={"X-Api-Key": other}).status == 200


@pytest.mark.threads
def test_reload_under_load(keys, start):
    """Whoever has a key gets every answer, while the file is read again and again."""
    secret = keys.add("alice")
    s = start("--api-keys", str(keys.path), key=secret)
    expected = s.complete("Once", max_tokens=20, temperature=0).text
    done, texts = threading.Event(), []

    def client():
        while not done.is_set():
            texts.append(s.complete("Once", max_tokens=20, temperature=0).text)

    clients = [threading.Thread(target=client) for _ in range(4)]
    for t in clients:
        t.start()
    for _ in range(10):
        reload_files(s)
    done.set()
    for t in clients:
        t.join()
    assert set(texts) == {expected}
    s.wait_idle()


def test_hangup_without_files_is_harmless(start):
    s = start()
    s.process.send_signal(signal.SIGHUP)
    assert s.get("/health").status == 200
    assert json.loads(s.get("/ready").body) == {"status": "ok"}
