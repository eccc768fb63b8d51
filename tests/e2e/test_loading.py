"""The port is open before the model is there: what is answered meanwhile, and how it can end."""
import json
import os
import re
import signal

import pytest

from quire import DEBUG_BIN, Server, make_key, serve_in_vain

# The same answer under all the names that probes have.
HEALTH = [("GET", "/health"), ("GET", "/v1/health"), ("GET", "/ready"), ("GET", "/ping"), ("POST", "/ping")]


class Held:
    """A server of the debug build whose load waits until it is let go."""

    def __init__(self, folder, *flags):
        self.fifo = folder / "hold"
        os.mkfifo(self.fifo)
        self.server = Server(*flags, binary=DEBUG_BIN, ready=False, env={"QUIRE_DEBUG_HOLD_LOAD": str(self.fifo)})

    def let_go(self):
        os.close(os.open(self.fifo, os.O_WRONLY))


@pytest.fixture
def held(tmp_path):
    servers = []

    def make(*flags):
        servers.append(Held(tmp_path, *flags))
        return servers[-1]

    yield make
    for h in servers:
        h.server.stop()


def test_answers_while_loading(held):
    h = held()
    s = h.server
    assert s.get("/live").json == {"status": "ok"}
    for method, path in HEALTH:
        r = s.request(method, path)
        assert r.status == 503 and int(r.headers["Retry-After"]) >= 1, path
        assert r.json == {"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}}
    for method, path, body in (("POST", "/v1/completions", {"prompt": "Once"}), ("GET", "/v1/models", None),
                               ("GET", "/metrics", None), ("POST", "/tokenize", {"content": "a"}),
                               ("GET", "/debug/requests", None), ("GET", "/version", None)):
        r = s.request(method, path, body)
        assert r.status == 503, path
        assert (r.json["error"]["type"], r.json["error"]["code"]) == ("unavailable_error", "loading")
        assert int(r.headers["Retry-After"]) >= 1 and int(r.headers["retry-after-ms"]) > 0
    assert s.get("/nowhere").status == 404
    assert s.request("HEAD", "/health").status == 503
    assert "event=ready" not in s.read_log()

    keep = s.connect()  # a connection from before serves on
    keep.request("GET", "/ready")
    assert keep.getresponse().read().startswith(b'{"error"')
    h.let_go()
    s.wait_ready()
    for method, path in HEALTH:
        r = s.request(method, path)
        assert (r.status, r.json) == (200, {"status": "ok"}), path
        assert "Retry-After" not in r.headers
    keep.request("GET", "/ready")
    assert keep.getresponse().read() == b'{"status":"ok"}'
    keep.close()
    assert s.complete("Once", max_tokens=3, ignore_eos=True).json["usage"]["completion_tokens"] == 3
    assert len(re.findall("event=ready", s.read_log())) == 1
    assert s.metrics()["quire_kv_blocks_total"] > 0


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT])
def test_told_to_stop_while_loading(held, tmp_path, sig):
    path = tmp_path / "quire.sock"
    h = held("--unix-socket", str(path))
    assert path.exists() and h.server.get("/ready").status == 503
    h.server.process.send_signal(sig)
    assert h.server.process.wait(30) == 0
    assert not path.exists()
    assert "event=stopping" in h.server.read_log() and "stopped=1" in h.server.read_log()


def test_keys_come_before_loading(held, tmp_path):
    entry, secret = make_key("a")
    keys = tmp_path / "keys.ini"
    keys.write_text(entry)
    s = held("--api-keys", str(keys)).server
    assert s.post("/v1/completions", {"prompt": "a"}).status == 401
    assert s.post("/v1/completions", {"prompt": "a"}, headers={"X-Api-Key": secret}).status == 503


def test_load_that_fails(tmp_path):
    """The sentence and the exit status are those of any command; the port was open until then."""
    model = tmp_path / "broken.gguf"
    model.write_bytes(b"GGUF" + bytes(100))
    run = serve_in_vain("--model", model, "--log-level", "off")
    assert run.returncode == 1 and run.stderr.startswith("quire: ") and str(model) in run.stderr
    assert run.stdout.startswith("listening on http://")


@pytest.mark.threads
def test_requests_from_the_first_moment(tmp_path):
    """Clients that come while it loads are told to come back, and are served in the end."""
    s = Server(ready=False)
    try:
        body = json.dumps({"prompt": "Once", "max_tokens": 3, "ignore_eos": True})
        statuses = set()
        while 200 not in statuses:
            r = s.post("/v1/completions", body, headers={"Content-Type": "application/json"})
            statuses.add(r.status)
            assert r.status == 200 or r.json["error"]["code"] == "loading"
        assert statuses <= {200, 503}
    finally:
        assert s.stop() == 0
