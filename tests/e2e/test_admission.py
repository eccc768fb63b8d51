"""Who gets in, when, and what those are told who do not: deadlines, waiting, tenants, plans."""
import re
import time

import pytest

from quire import admitted, in_threads

LONG = {"max_tokens": 100000, "ignore_eos": True}
SLOWLY = ("--isa", "scalar", "--max-sequences", "1")  # one long request takes seconds


def busy(s, **fields):
    """A stream that holds the only place."""
    stream = s.stream("Once", **{**LONG, **fields})
    assert stream.status == 200
    s.wait_until(lambda m: m["quire_requests_running"] == 1, what="running")
    return stream


def rejections(s, reason):
    return s.metrics()['quire_rejections_total{reason="%s"}' % reason]


def warm(s):
    """Let the engine learn what steps cost."""
    s.complete([30 + i for i in range(200)], max_tokens=40, ignore_eos=True, cache_salt="warm")
    s.complete([31 + i for i in range(100)], max_tokens=40, ignore_eos=True, cache_salt="warm")


# ---- deadlines

def test_expired_deadline(start):
    """While nobody knows what a step costs everything is let in; what is late is given up."""
    s = start("--max-sequences", "1")
    body = {"prompt": "a", "max_tokens": 1000, "ignore_eos": True, "deadline_ms": 1}
    r = s.post("/v1/completions", body)
    e = r.json["error"]
    assert (r.status, e["type"], e["code"]) == (408, "timeout_error", "deadline_exceeded")
    assert r.headers["x-should-retry"] == "false"
    stream = s.stream("a", max_tokens=1000, ignore_eos=True, deadline_ms=1)
    assert list(stream)[-1]["error"]["code"] == "deadline_exceeded" and stream.done
    s.wait_idle()
    assert s.metrics()['quire_requests_total{endpoint="completions",outcome="timeout"}'] == 2


@pytest.mark.quiet
def test_a_chat_without_a_length_is_promised_its_beginning(start):
    """All that it might say would take much longer."""
    s = start("--max-sequences", "1")
    warm(s)
    body = {"prompt": "a", "max_tokens": 1000, "ignore_eos": True}
    refusal = s.post("/v1/completions", {**body, "deadline_ms": 1}).json["error"]
    half = int(re.search(r"take (\d+) ms", refusal["message"])[1]) // 2
    assert s.post("/v1/completions", {**body, "deadline_ms": half}).json["error"]["code"] == "deadline_unreachable"
    chat = {"messages": [{"role": "user", "content": "a"}], "deadline_ms": half, "stop": ["e"]}
    assert s.post("/v1/chat/completions", chat).status == 200


def test_unreachable_deadline(start):
    s = start("--max-sequences", "1")
    warm(s)
    r = s.post("/v1/completions", {"prompt": "a", "max_tokens": 900, "ignore_eos": True, "deadline_ms": 5})
    e = r.json["error"]
    assert (r.status, e["type"], e["code"], e["param"]) == \
        (429, "rate_limit_error", "deadline_unreachable", "deadline_ms"), r.body
    assert "'deadline_ms' is 5" in e["message"] and "900 tokens" in e["message"]
    assert int(re.search(r"take (\d+) ms", e["message"])[1]) > 5
    assert r.headers["x-should-retry"] == "false", "an idle machine could not do it either"
    assert "Retry-After" not in r.headers
    stream = s.stream("a", max_tokens=900, ignore_eos=True, deadline_ms=5)
    assert stream.status == 429
    stream.close()
    assert rejections(s, "deadline_unreachable") == 2
    assert s.post("/v1/completions", {"prompt": "a", "max_tokens": 2, "deadline_ms": 60000}).status == 200


def test_deadline_behind_others(start):
    """What an idle machine could do in time may be asked for again: it says when."""
    s = start(*SLOWLY)
    warm(s)
    others = [busy(s)] + [s.stream("Once", **LONG) for _ in range(3)]
    s.wait_until(lambda m: m['quire_requests_waiting{priority="normal"}'] == 3, what="waiting")
    idle = s.post("/v1/plan", {"prompt": "a", "max_tokens": 2}).json["prompts"][0]
    assert idle["queue_position"] == 4
    deadline = int(idle["predicted_ms"]["finish"] / 2)
    r = s.post("/v1/completions", {"prompt": "a", "max_tokens": 2, "deadline_ms": deadline})
    assert (r.status, r.json["error"]["code"]) == (429, "deadline_unreachable"), r.body
    assert r.headers["x-should-retry"] == "true"
    assert 50 <= int(r.headers["retry-after-ms"]) <= 60000
    assert int(r.headers["Retry-After"]) == -(-int(r.headers["retry-after-ms"]) // 1000)
    for o in others:
        o.close()
    s.wait_idle()
    assert s.post("/v1/completions", {"prompt": "a", "max_tokens": 2, "deadline_ms": deadline}).status == 200


@pytest.mark.quiet
def test_deadline_that_hangs_on_the_cache(start):
    """Whether a prompt is cached decides: the engine is asked."""
    s = start("--max-sequences", "4")
    warm(s)
    prompt = [40 + i % 300 for i in range(900)]
    fields = dict(prompt=prompt, max_tokens=2, ignore_eos=True)
    fresh = s.post("/v1/plan", {**fields, "cache_salt": "none"}).json["prompts"][0]
    s.complete(**fields)
    again = s.post("/v1/plan", fields).json["prompts"][0]
    assert (fresh["cached_tokens"], again["cached_tokens"]) == (0, 896)
    slow, fast = fresh["predicted_ms"]["finish"], again["predicted_ms"]["finish"]
    assert slow > 2 * fast
    deadline = int((slow * fast) ** 0.5) + 1
    refused = s.post("/v1/completions", {**fields, "cache_salt": "none", "deadline_ms": deadline})
    assert (refused.status, refused.json["error"]["code"]) == (429, "deadline_unreachable"), (slow, fast)
    assert s.metrics()['quire_requests_total{endpoint="completions",outcome="timeout"}'] == 0
    accepted = s.post("/v1/completions", {**fields, "deadline_ms": deadline})
    assert accepted.status in (200, 408), accepted.body  # let in; late only on a machine in distress
    s.wait_idle()


# ---- waiting no longer than wanted

def test_max_queue_ms(start):
    s = start(*SLOWLY)
    first = busy(s, max_queue_ms=20)
    begin = time.monotonic()
    r = s.post("/v1/completions", {"prompt": "a", "max_tokens": 2, "max_queue_ms": 100})
    assert 0.09 < time.monotonic() - begin < 20
    e = r.json["error"]
    assert (r.status, e["type"], e["code"]) == (429, "rate_limit_error", "queue_timeout")
    assert "max_queue_ms" in e["message"]
    assert int(r.headers["retry-after-ms"]) >= 50 and r.headers["x-should-retry"] == "true"
    stream = s.stream("a", max_tokens=2, max_queue_ms=50)
    assert list(stream)[-1]["error"]["code"] == "queue_timeout" and stream.done
    assert rejections(s, "queue_timeout") == 2
    assert next(iter(first))["choices"], "once it runs, the limit is none of its business"
    first.close()
    s.wait_idle()
    assert s.complete("a", max_tokens=2, max_queue_ms=60000).status == 200


def test_choices_wait_for_their_prompt(start):
    """Only the first of several choices waits in the queue; the others wait for its prompt."""
    s = start("--isa", "scalar", "--prefill-chunk", "1")
    r = s.post("/v1/completions", {"prompt": [40] * 200, "n": 4, "max_tokens": 2, "ignore_eos": True,
                                   "max_queue_ms": 50})
    assert r.status == 200 and len(r.json["choices"]) == 4, r.body


def test_position_is_that_of_the_priority(start):
    s = start(*SLOWLY)
    streams = [busy(s, priority="critical")]
    for priority, position in (("low", "1"), ("low", "2"), ("high", "1"), ("normal", "2"), ("critical", "1"),
                               ("high", "3"), ("low", "7")):
        streams.append(s.stream("Once", **LONG, priority=priority))
        assert streams[-1].headers["X-Queue-Position"] == position, (priority, position)
    s.wait_until(lambda m: sum(v for k, v in m.items() if k.startswith("quire_requests_waiting")) == 7, what="seven wait")
    page = s.get("/debug/requests").json["requests"]
    waiting = [r["priority"] for r in page if r["state"] == "waiting"]
    assert waiting == ["critical", "high", "high", "normal", "low", "low", "low"]
    for stream in streams:
        stream.close()


def test_max_queue_ms_of_the_settings(start):
    s = start(*SLOWLY, "--max-queue-ms", "80")
    first = busy(s)
    r = s.post("/v1/completions", {"prompt": "a", "max_tokens": 2})
    assert (r.status, r.json["error"]["code"]) == (429, "queue_timeout")
    patient = s.stream("a", max_tokens=2, max_queue_ms=60000)
    time.sleep(0.2)
    first.close()
    assert "error" not in list(patient)[-1]


# ---- tenants

@pytest.fixture
def tenanted(start):
    return start(*SLOWLY, "--tenant-header", "X-Tenant", "--tenant-limit", "2",
                 "--tenant-weights", "alice=3,bob=1", "--max-tenants", "5")


def test_tenant_limit(tenanted):
    s = tenanted
    alice, bob = {"X-Tenant": "alice"}, {"X-Tenant": "bob"}
    streams = [s.stream("Once", headers=alice, **LONG) for _ in range(2)]
    r = s.post("/v1/completions", {"prompt": "a"}, headers=alice)
    e = r.json["error"]
    assert (r.status, e["type"], e["code"]) == (429, "rate_limit_error", "rate_limit_exceeded")
    assert "'alice'" in e["message"] and "limit is 2" in e["message"]
    assert int(r.headers["retry-after-ms"]) >= 50
    assert rejections(s, "tenant_limit") == 1
    streams += [s.stream("Once", headers=h, **LONG) for h in (bob, bob, {}, {})]
    assert [t.status for t in streams] == [200] * 6
    assert s.post("/v1/completions", {"prompt": "a"}).status == 429
    many = s.post("/v1/completions", {"prompt": "a", "n": 3}, headers={"X-Tenant": "carol"})
    assert (many.status, many.json["error"]["param"]) == (400, "n")
    for t in streams:
        t.close()
    # The engine is idle a moment before the tenants have their places back: with the ends of their calls.
    s.wait_until(lambda _: s.get("/load").json == {"server_load": 0}, what="no calls")
    assert s.post("/v1/completions", {"prompt": "a", "max_tokens": 1, "n": 2}, headers=alice).status == 200


def test_tenants_are_shown(tenanted):
    s = tenanted
    for name in ("bob", "carol", "dave", "erin"):
        s.post("/v1/completions", {"prompt": "a", "max_tokens": 1}, headers={"X-Tenant": name})
    s.wait_idle()
    m = s.metrics()
    # Places: nobody, alice, bob, one more that is taken over in turn, and the shared one unused.
    assert m["quire_tenants"] == 4 and m["quire_tenants_shared_total"] == 0
    stream = s.stream("Once", headers={"X-Tenant": "alice", "X-Request-Id": "mine"}, **LONG)
    next(iter(stream))
    page = s.get("/debug/requests").json
    assert page["n_running"] == 1
    (r,) = page["requests"]
    assert (r["request_id"], r["tenant"], r["state"], r["priority"]) == ("mine", "alice", "running", "normal")
    assert r["known_tokens"] >= r["prompt_tokens"] + 1 and r["blocks"] >= 1 and r["swapped"] is None
    by_name = {t["name"]: t for t in page["tenants"]}
    assert by_name["alice"]["weight"] == 3 and by_name["alice"]["running"] == 1
    assert by_name["bob"]["weight"] == 1 and by_name["bob"]["service_tokens"] > 0
    stream.close()


def test_shares_follow_the_weights(start, tmp_path):
    """Both want as much as they can get: alice gets three times bob's."""
    journal = tmp_path / "journal"
    s = start(*SLOWLY, "--tenant-header", "X-Tenant", "--tenant-weights", "alice=3,bob=1", "--journal", str(journal))
    first = busy(s)
    jobs = [lambda n=n: s.post("/v1/completions", {"prompt": "Once upon a time", "max_tokens": 20,
                                                   "ignore_eos": True},
                               headers={"X-Tenant": n, "X-Request-Id": n}) for n in ("alice", "bob") * 12]
    closer = [lambda: (s.wait_until(lambda m: m['quire_requests_waiting{priority="normal"}'] == 24,
                                    what="waiting"), first.close())]
    in_threads(jobs + closer)
    assert s.stop() == 0
    order = [post["weight"] for post in admitted(journal)[1:]]
    assert len(order) == 24
    assert 10 <= order[:16].count(3) <= 13, order


# ---- plans

def test_plan_shape(server):
    r = server.post("/v1/plan", {"prompt": ["Once upon a time", "Once"], "max_tokens": 30, "n": 2,
                                 "cache_salt": "plan"})
    assert r.status == 200
    plan = r.json
    assert list(plan) == ["object", "model", "prompts"] and plan["object"] == "plan"
    assert len(plan["prompts"]) == 2
    for p in plan["prompts"]:
        assert list(p) == ["prompt_tokens", "max_tokens", "cached_tokens", "blocks", "blocks_total",
                           "queue_position", "predicted_ms", "context_shifts", "fits"]
        assert p["blocks"] == -(-(p["prompt_tokens"] + 30) // 16) and p["fits"] is True
        assert p["cached_tokens"] == 0 and p["queue_position"] == 0 and p["max_tokens"] == 30
    assert server.metrics()["quire_requests_running"] == 0


def test_plan_is_null_while_nothing_is_known(start):
    plan = start().post("/v1/plan", {"prompt": "Once"}).json["prompts"][0]
    assert plan["predicted_ms"] is None


def test_plan_and_then_the_thing_itself(start):
    s = start()
    warm(s)
    ratios = []
    for i in range(5):
        prompt = [50 + (i * 7 + k) % 300 for k in range(300)]
        body = {"prompt": prompt, "max_tokens": 60, "ignore_eos": True}
        s.complete(prompt[:100 + i], max_tokens=1)
        plan = s.post("/v1/plan", body).json["prompts"][0]
        r = s.complete(**body, timings=True).json
        assert r["usage"]["prompt_tokens_details"]["cached_tokens"] == plan["cached_tokens"] == 96
        p = plan["predicted_ms"]
        assert 0 <= p["start"] <= p["first_token"] <= p["finish"]
        t = r["choices"][0]["timings"]
        ratios.append(p["finish"] / t["total_ms"])
    assert 0.2 < sorted(ratios)[2] < 5, ratios


def test_plan_tells_the_position(start):
    s = start(*SLOWLY, "--queue-limit", "3")
    first = busy(s)
    waiting = [s.stream("Once", **LONG) for _ in range(2)]
    s.wait_until(lambda m: m['quire_requests_waiting{priority="normal"}'] == 2, what="waiting")

    def position(**fields):
        return s.post("/v1/plan", {"prompt": "a", **fields}).json["prompts"][0]["queue_position"]

    assert position() == 3
    assert position(priority="critical") == 1
    assert position(priority="low") == 3
    third = s.stream("Once", **LONG)
    assert third.headers["X-Queue-Position"] == "3"
    assert s.post("/v1/completions", {"prompt": "a"}).status == 429
    assert position() == 4, "asking works when the queue is full"
    for stream in (first, third, *waiting):
        stream.close()
    s.wait_idle()
    assert position() == 0


def test_plan_is_checked_like_a_completion(server):
    length = server.get("/v1/models").json["data"][0]["max_model_len"]
    for body in ({"prompt": [9] * (length + 1)}, {"prompt": "a", "temperature": 9}, {"prompt": []}, {},
                 {"prompt": "a", "model": "nobody"}, {"prompt": "a", "n": 0}, {"prompt": [[]]}):
        plan, completion = server.post("/v1/plan", body), server.post("/v1/completions", body)
        assert plan.status == completion.status >= 400
        assert plan.json == completion.json
    assert server.get("/v1/plan").status == 405
    assert server.post("/v1/plan", {"prompt": ["a"] * 100}).status == 200


def test_plans_from_many(server):
    replies = in_threads([lambda: server.post("/v1/plan", {"prompt": "Once upon"}) for _ in range(60)])
    assert {r.status for r in replies} <= {200, 429} and [r.status for r in replies].count(200) > 20
    for _ in range(20):
        s = server.socket()
        s.sendall(b'POST /v1/plan HTTP/1.1\r\nHost: localhost\r\nContent-Length: 14\r\n\r\n{"prompt":"a"}')
        s.close()
    server.wait_idle()
    assert server.post("/v1/plan", {"prompt": "Once upon"}).status == 200


# ---- times

def test_timings_add_up(server):
    r = server.complete("Once upon a time", max_tokens=20, n=2, ignore_eos=True, timings=True).json
    for c in r["choices"]:
        t = c["timings"]
        parts = sum(t[k] for k in ("queue_ms", "prefill_ms", "decode_ms", "preempted_ms", "swapped_ms", "delivery_ms",
                                 "write_blocked_ms"))
        assert abs(parts - t["total_ms"]) < 0.01
        assert t["decode_ms"] > 0 and t["total_ms"] > 0 and t["n_preempted"] == 0
        assert t["completion_tokens"] == 20
    frames = list(server.stream("Once upon a time", max_tokens=5, ignore_eos=True, timings=True))
    assert ["timings" in c for f in frames for c in f["choices"]] == [False] * (len(frames) - 1) + [True]
    assert "timings" not in server.complete("Once", max_tokens=1).json["choices"][0]
