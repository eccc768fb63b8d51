"""What a gateway says of requests in llm-d's headers, who is believed, and what is predicted for it."""
import json

import pytest

from quire import JSON, UnixConnection, make_key, serve_in_vain

OBJECTIVE, FAIRNESS, TTFT = "x-llm-d-inference-objective", "x-llm-d-inference-fairness-id", "x-llm-d-slo-ttft-ms"
OBJECTIVES = ("--objectives", "premium=high,batch=low,live=critical")
LONG = {"max_tokens": 100000, "ignore_eos": True}


@pytest.fixture
def full(start):
    """A server whose one place is taken, and its streams."""
    streams = []

    def make(*flags):
        s = start("--max-sequences", "1", "--aging", "0", *flags)
        streams.append(s.stream("Once", **LONG, priority="critical"))
        s.wait_until(lambda m: m["quire_requests_running"] == 1, what="one runs")
        return s

    def ask(s, headers, **fields):
        streams.append(s.stream("Once", headers, **LONG, **fields))

    yield make, ask
    for x in streams:
        x.close()


def waiting(s, n=1):
    s.wait_until(lambda m: sum(v for k, v in m.items() if k.startswith("quire_requests_waiting")) == n, what=f"{n} wait")
    return [(r["priority"], r["tenant"]) for r in s.get("/debug/requests").json["requests"] if r["state"] == "waiting"]


def nobody(s):
    """What the page calls the tenant of requests that name none."""
    return next(r["tenant"] for r in s.get("/debug/requests").json["requests"] if r["state"] == "running")


@pytest.mark.parametrize("headers,fields,found", [
    ({OBJECTIVE: "premium"}, {}, "high"), ({OBJECTIVE: "batch"}, {"priority": "critical"}, "low"),
    ({"X-Gateway-Inference-Objective": "live"}, {}, "critical"), ({OBJECTIVE: "premium", "x-gateway-inference-objective": "batch"}, {}, "high"),
    ({OBJECTIVE: "low"}, {}, "low"), ({OBJECTIVE: "unheard-of"}, {}, "normal"), ({OBJECTIVE: "unheard-of"}, {"priority": "high"}, "high"),
    ({OBJECTIVE: "batch", "X-Priority": "high"}, {}, "low"), ({OBJECTIVE: "", "X-Priority": "high"}, {}, "high"),
], ids=str)
def test_objectives(full, headers, fields, found):
    make, ask = full
    s = make("--trusted-proxies", "10.0.0.0/8, 127.0.0.0/8", *OBJECTIVES)
    ask(s, headers, **fields)
    assert waiting(s) == [(found, nobody(s))]


@pytest.mark.parametrize("flags", [(), ("--trusted-proxies", "unix,10.0.0.0/8,::1,127.0.0.2", *OBJECTIVES)], ids=["none", "others"])
def test_others_are_not_believed(full, flags):
    make, ask = full
    s = make(*flags)
    ask(s, {OBJECTIVE: "critical", FAIRNESS: "alice", TTFT: "none"}, priority="low")
    assert waiting(s) == [("low", nobody(s))]
    assert s.get("/debug/requests", headers={FAIRNESS: "alice"}).status == 200


def test_tenants(full):
    make, ask = full
    s = make("--trusted-proxies", "127.0.0.1", "--tenant-header", "X-Tenant")
    for headers in ({FAIRNESS: "alice"}, {"x-gateway-inference-fairness-id": "bob"}, {FAIRNESS: "alice", "X-Tenant": "carol"}):
        ask(s, headers)
    assert sorted(t for _, t in waiting(s, 3)) == ["alice", "bob", "carol"]
    assert s.get("/debug/requests", headers={FAIRNESS: "alice"}).status == 403, "it tells of all tenants"
    r = s.post("/v1/completions", {"prompt": "x"}, headers={FAIRNESS: "a b"})
    assert (r.status, r.json["error"]["param"]) == (400, FAIRNESS)


def test_tenants_share_no_prefixes(start):
    s = start("--trusted-proxies", "127.0.0.1")

    def cached(tenant):
        r = s.post("/v1/completions", {"prompt": [7] * 100, "max_tokens": 1}, headers={FAIRNESS: tenant} if tenant else {})
        return r.json["usage"]["prompt_tokens_details"]["cached_tokens"]

    assert [cached("alice"), cached("bob"), cached("")] == [0, 0, 0]
    assert cached("alice") > 0 and cached("bob") > 0


def test_a_keys_tenant_and_ceiling_hold(start, tmp_path):
    (entry, secret), (admin, admin_secret) = make_key("a", "--tenant", "team", "--max-priority", "normal"), make_key("b", "--admin")
    keys = tmp_path / "keys.ini"
    keys.write_text(entry + admin)
    s = start("--max-sequences", "1", "--trusted-proxies", "127.0.0.1", "--api-keys", str(keys), *OBJECTIVES, key=admin_secret)
    first = s.stream("Once", **LONG)
    s.wait_until(lambda m: m["quire_requests_running"] == 1, what="one runs")
    second = s.stream("Once", {"Authorization": f"Bearer {secret}", OBJECTIVE: "live", FAIRNESS: "alice"}, **LONG)
    assert waiting(s) == [("normal", "team")]
    first.close()
    second.close()


def test_who_wants_its_first_token_earlier_goes_first(full):
    make, ask = full
    s = make("--trusted-proxies", "127.0.0.1", "--policy", "priority")
    for ms in (None, "20000", "1", "86400000", "10.5"):
        ask(s, {} if ms is None else {TTFT: ms})
    ask(s, {TTFT: "1"}, priority="low")
    waiting(s, 6)  # the engine has taken all of them
    page = [r for r in s.get("/debug/requests").json["requests"] if r["state"] == "waiting"]
    order = sorted(range(6), key=lambda i: [r["id"] for r in page].index(sorted(r["id"] for r in page)[i]))
    assert order == [2, 4, 1, 0, 3, 5], "by time, without one in max_wait_ms; a level of priority matters more"


def test_nothing_is_given_up(start):
    """It is when the first token is wanted, no deadline of the answer."""
    s = start("--trusted-proxies", "127.0.0.1")
    r = s.post("/v1/completions", {"prompt": [9] * 400, "max_tokens": 40, "ignore_eos": True}, headers={TTFT: "1"})
    assert r.status == 200 and r.json["usage"]["completion_tokens"] == 40


@pytest.mark.parametrize("value", ["", "0", "-1", "x", "10ms", "nan", "1e99", "86400001", "1 2"])
def test_bad_times(start, value):
    s = start("--trusted-proxies", "*")
    r = s.post("/v1/completions", {"prompt": "x", "max_tokens": 1}, headers={TTFT: value})
    assert (r.status, r.json["error"]["param"]) == (400, TTFT), r.body


def test_each_stands_once(start):
    s = start("--trusted-proxies", "127.0.0.1")
    for name in (OBJECTIVE, FAIRNESS, TTFT, "X-Gateway-Inference-Objective"):
        c = s.connect()
        c.putrequest("POST", "/v1/completions")
        body = json.dumps({"prompt": "x", "max_tokens": 1}).encode()
        for k, v in ((name, "5"), (name, "6"), ("Content-Type", "application/json"), ("Content-Length", str(len(body)))):
            c.putheader(k, v)
        c.endheaders(body)
        r = c.getresponse()
        assert r.status == 400 and name.lower() in r.read().decode()
        c.close()


def test_the_unix_socket(full, tmp_path):
    make, _ = full
    path = tmp_path / "quire.sock"
    s = make("--unix-socket", str(path), "--trusted-proxies", "unix", *OBJECTIVES)
    c = UnixConnection(str(path), 20)
    c.request("POST", "/v1/completions", json.dumps({"prompt": "Once", "stream": True, **LONG}), {**JSON, OBJECTIVE: "batch", FAIRNESS: "alice"})
    c.getresponse()
    assert waiting(s) == [("low", "alice")]
    c.close()


@pytest.mark.parametrize("flags,words", [
    (("--trusted-proxies", "10.0.0.1/8"), "'trusted_proxies' must be"), (("--trusted-proxies", "gateway"), "'trusted_proxies' must be"),
    (("--trusted-proxies", "*", "--objectives", "premium=urgent"), "'objectives' must be"),
    (("--objectives", "premium=high"), "'objectives' has no effect without 'trusted_proxies'")])
def test_settings(flags, words):
    run = serve_in_vain(*flags)
    assert run.returncode == 2 and words in run.stderr


# ---- what is predicted

def test_predicted_first_token(start):
    s = start("--max-sequences", "2", "--prefix-cache", "off")
    for n in (10, 200, 400, 30):
        s.complete([5] * n, max_tokens=30, ignore_eos=True)
    s.wait_idle()

    def predicted(prompt):
        r = s.stream(prompt, max_tokens=1)
        r.text()
        return float(r.headers["X-Predicted-TTFT-Ms"])

    # Costs are learnt from every step, so the two are compared with no step between them.
    idle = s.metrics()["quire_predicted_ttft_seconds"]
    short = predicted([5])
    assert idle == pytest.approx(short / 1e3, rel=0.05, abs=20e-6)
    assert 0 < short < predicted([5] * 900)
    streams = [s.stream([5 + i] * 500, **LONG) for i in range(6)]
    assert s.metrics()["quire_predicted_ttft_seconds"] > 2 * idle
    for x in streams:
        x.close()
    s.wait_idle()
    whole = s.complete("Once", max_tokens=1)
    assert float(whole.headers["X-Predicted-TTFT-Ms"]) > 0
    assert s.post("/v1/embeddings", {"input": "a"}).headers["X-Predicted-TTFT-Ms"] is None
