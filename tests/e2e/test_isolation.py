"""What one tenant can find out about another: nothing from times, nothing from counts."""
import random
import time

import pytest

from quire import SLOW
from test_keys import Keys

N_PROBES = 2000 if SLOW else 200
# Between three and four standard errors of the area for so many probes.
MARGIN = 0.05 if SLOW else 0.15
SCHEMA = {"type": "object", "properties": {f"field{i}": {"enum": [f"value{j}" for j in range(20)]}
                                           for i in range(25)}, "required": []}


def area(scores):
    """The area under the ROC curve: how often a probe of what was cached has the higher score than one of what was
    not. scores: [(is_cached, score)]"""
    ranked = sorted(scores, key=lambda s: s[1])
    n_yes = sum(yes for yes, _ in scores)
    total, i = 0.0, 0
    while i < len(ranked):  # equal scores share their rank
        j = i
        while j < len(ranked) and ranked[j][1] == ranked[i][1]:
            j += 1
        total += sum(yes for yes, _ in ranked[i:j]) * (i + 1 + j) / 2
        i = j
    return (total - n_yes * (n_yes + 1) / 2) / (n_yes * (len(scores) - n_yes))


def probe(server, body, headers):
    begin = time.perf_counter()
    r = server.post("/v1/completions", body, headers={**headers, "Content-Type": "application/json"})
    took = time.perf_counter() - begin
    assert r.status == 200, r.body
    return took, r.json["usage"]["prompt_tokens_details"]["cached_tokens"]


def areas(server, victim, spy, n):
    """The spy guesses prompts that the victim sent just before, or did not: by time, and by cached_tokens."""
    rng = random.Random(7)
    by_time, by_count = [], []
    for _ in range(n):
        secret = [rng.randrange(60, 260) for _ in range(240)]
        other = [rng.randrange(60, 260) for _ in range(240)]
        was_sent = rng.random() < 0.5
        probe(server, {"prompt": secret if was_sent else other, "max_tokens": 1}, victim)
        took, cached = probe(server, {"prompt": secret, "max_tokens": 1}, spy)
        by_time.append((was_sent, -took))
        by_count.append((was_sent, cached))
    return area(by_time), area(by_count)


@pytest.mark.quiet
def test_times_and_counts_tell_nothing_of_another_tenant(start):
    s = start("--tenant-header", "X-Tenant")
    alice, bob = {"X-Tenant": "alice"}, {"X-Tenant": "bob"}
    apart = areas(s, alice, bob, N_PROBES)
    together = areas(s, alice, alice, 60)
    print(f"\n{N_PROBES} probes of another tenant: by time {apart[0]:.3f}, by count {apart[1]:.3f}; "
          f"60 of one's own: {together[0]:.3f}, {together[1]:.3f}")
    assert abs(apart[0] - 0.5) <= MARGIN and abs(apart[1] - 0.5) <= MARGIN
    assert together[0] > 0.8 and together[1] == 1.0, "the test can tell"


def test_compiled_schemas_are_not_shared(start):
    """Whether a tenant has used a schema before would show in the time of the first use by another one."""
    s = start("--tenant-header", "X-Tenant")

    def compiled():
        return s.metrics()['quire_constraints_total{result="compiled"}']

    body = {"prompt": "x", "max_tokens": 1, "response_format": {"type": "json_schema", "json_schema": {
        "name": "a", "schema": SCHEMA}}}
    for tenant, n in (("alice", 1), ("alice", 1), ("bob", 2), ("alice", 2)):
        probe(s, body, {"X-Tenant": tenant})
        assert compiled() == n


@pytest.mark.parametrize("path", ["/slots", "/debug/requests", "/debug/iterations", "/debug/kv", "/metrics"])
def test_pages_about_everybody_are_the_operators(start, tmp_path, path):
    """With keys they need one with admin rights; where a proxy names the tenant, they are not for tenants."""
    keys = Keys(tmp_path / "keys")
    secret, root = keys.add("alice", "--tenant", "alice"), keys.add("root", "--admin")
    s = start("--api-keys", str(keys.path), "--metrics-open", "off")
    assert s.get(path).status == 401
    assert s.get(path, headers={"X-Api-Key": secret}).status == 403
    assert s.get(path, headers={"X-Api-Key": root}).status == 200
    s = start("--tenant-header", "X-Tenant")
    assert s.get(path, headers={"X-Tenant": "alice"}).status == 403
    assert s.get(path).status == 200

# A request of each kind of route that knows owners: a method, a path, a body.
ROUTES_WITH_OWNERS = [("GET", "/v1/files", None), ("GET", "/v1/batches", None), ("GET", "/v1/models", None),
                      ("GET", "/v1/streams/x", None), ("GET", "/v1/responses/x", None),
                      ("POST", "/v1/streams/lookup", {"conversation_ids": ["c"]}), ("POST", "/slots/0?action=erase", {}),
                      ("POST", "/v1/completions", {"prompt": "x", "max_tokens": 1}), ("POST", "/tokenize", {"content": "x"})]


@pytest.mark.parametrize("header", ["X-Tenant", "x-llm-d-inference-fairness-id"])
def test_a_tenant_name_that_is_too_long_is_refused_on_every_route(start, tmp_path, header):
    """Were it cut, two tenants whose names begin alike would be one."""
    for folder in ("batches", "slots"):
        (tmp_path / folder).mkdir()
    s = start("--tenant-header", "X-Tenant", "--batch-dir", tmp_path / "batches", "--trusted-proxies", "127.0.0.1",
              "--slot-save-path", tmp_path / "slots")
    for method, path, body in ROUTES_WITH_OWNERS:
        for name in ("t" * 65, "t" * 65 + "a", "t" * 500, "two words", "\u00e9"):
            r = s.request(method, path, body, headers={header: name.encode().decode("latin-1")})
            assert r.status == 400, (path, name, r.body)
            assert r.json["error"]["param"] == header and "64" in r.json["error"]["message"], r.body
        assert header not in s.request(method, path, body, headers={header: "t" * 64}).body.decode(), path


def test_a_conversation_name_that_is_too_long_is_refused(start):
    """Were it cut, a stream would be found under the name of another conversation."""
    s = start("--stream-keep-ms", "60000")
    body = {"prompt": "x", "max_tokens": 1, "stream": True}
    r = s.post("/v1/completions", body, headers={"X-Conversation-Id": "c" * 129})
    assert r.status == 400 and r.json["error"]["param"] == "X-Conversation-Id" and "128" in r.json["error"]["message"]
    assert s.post("/v1/completions", body, headers={"X-Conversation-Id": "c" * 128}).status == 200
