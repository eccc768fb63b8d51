"""Every way to be refused: status, type, param and code."""
import json

import pytest

INVALID = "invalid_request_error"

BAD_FIELDS = [
    # field, value
    ("prompt", 5), ("prompt", True), ("prompt", {}), ("prompt", []), ("prompt", [[]]),
    ("prompt", ["a", {}]), ("prompt", [1, [2]]), ("prompt", [[1], {"x": 1}]), ("prompt", [1.5]),
    ("prompt", [-1]), ("prompt", [10**9]), ("prompt", [[1], [10**9]]), ("prompt", ["x"] * 1000),
    ("prompt", None),
    ("max_tokens", -2), ("max_tokens", 1.5), ("max_tokens", "5"), ("max_tokens", 1e300), ("max_tokens", []),
    ("temperature", -0.1), ("temperature", 999999), ("temperature", "warm"), ("temperature", True),
    ("top_p", -0.1), ("top_p", -1), ("top_p", 1.01), ("top_p", "x"),
    ("top_k", -2), ("top_k", 1.5), ("top_k", "x"),
    ("min_p", -0.1), ("min_p", 1.1), ("min_p", {}),
    ("seed", "x"), ("seed", 1.5), ("seed", 1e30),
    ("stop", 5), ("stop", [5]), ("stop", ""), ("stop", [""]), ("stop", ["x"] * 17), ("stop", "x" * 10000),
    ("stop", {}),
    ("n", 0), ("n", -1), ("n", 129), ("n", 1.5), ("n", "2"),
    ("logprobs", -1), ("logprobs", 21), ("logprobs", True), ("logprobs", "2"),
    ("echo", 1), ("echo", "true"),
    ("stream", 1), ("stream", "yes"), ("stream_options", 5), ("stream_options", {"include_usage": True}),
    ("priority", 4), ("priority", -1), ("priority", "urgent"), ("priority", 1.5), ("priority", True),
    ("ignore_eos", 0), ("return_token_ids", "x"),
    ("min_tokens", -1), ("min_tokens", 1000), ("min_tokens", "x"),
    ("stop_token_ids", 5), ("stop_token_ids", ["a"]), ("stop_token_ids", [-1]), ("stop_token_ids", [10**8]),
    ("stop_token_ids", [1] * 65),
    ("repetition_penalty", 0), ("repetition_penalty", -1), ("repetition_penalty", "x"),
    ("frequency_penalty", 2.1), ("frequency_penalty", -2.1), ("presence_penalty", 3),
    ("logit_bias", [1]), ("logit_bias", {"x": "y"}), ("logit_bias", {"-1": 1}), ("logit_bias", {"1": 101}),
    ("logit_bias", {"1": "x"}), ("logit_bias", {"999999999": 1}), ("logit_bias", {"": 1}),
    ("logit_bias", {"01": 101}),
    ("best_of", 129), ("best_of", "x"), ("suffix", "end"), ("suffix", 5),
    ("deadline_ms", 0), ("deadline_ms", -5), ("deadline_ms", "x"),
    ("max_queue_ms", 0), ("max_queue_ms", -1), ("max_queue_ms", "x"), ("max_queue_ms", 1.5),
    ("cache_salt", 5), ("cache_salt", "x" * 257), ("cache_salt", []), ("timings", 1), ("timings", "yes"),
    ("model", 5),
]


@pytest.mark.parametrize("field,value", BAD_FIELDS, ids=[f"{f}={json.dumps(v)[:24]}" for f, v in BAD_FIELDS])
def test_bad_field(server, field, value):
    r = server.post("/v1/completions", {"prompt": "hi", "max_tokens": 1, field: value})
    e = r.json["error"]
    assert (r.status, e["type"], e["param"], e["code"]) == (400, INVALID, field, None), r.body
    assert e["message"]
    assert list(r.json) == ["error"] and list(e) == ["message", "type", "param", "code"]


def test_numbers_that_are_none(server):
    for text in ("NaN", "Infinity", "-Infinity", "1e999", "-1e999"):
        r = server.post("/v1/completions", '{"prompt":"hi","temperature":%s}' % text,
                        headers={"Content-Type": "application/json"})
        assert r.status == 400, (text, r.body)


def test_null_means_absent(server):
    nulls = ["max_tokens", "temperature", "top_p", "top_k", "min_p", "seed", "stop", "n", "logprobs", "echo",
             "stream", "stream_options", "priority", "ignore_eos", "min_tokens", "stop_token_ids", "suffix",
             "repetition_penalty", "frequency_penalty", "presence_penalty", "logit_bias", "best_of",
             "return_token_ids", "user", "model", "deadline_ms", "max_queue_ms", "cache_salt", "timings"]
    r = server.complete("hi", **{k: None for k in nulls})
    assert r.json["usage"]["completion_tokens"] <= 16


def test_accepted_oddities(server):
    for fields in ({"suffix": ""}, {"best_of": 1}, {"n": 2, "best_of": 3}, {"seed": -1}, {"seed": 2**64 - 1},
                   {"top_k": -1}, {"stop": []}, {"logit_bias": {}}, {"user": "me"}, {"priority": "high"},
                   {"priority": 0}, {"temperature": 2}, {"temperature": 0, "top_p": 0.5}):
        server.complete("hi", max_tokens=1, **fields)


def test_unknown_model(server):
    r = server.post("/v1/completions", {"prompt": "hi", "model": "gpt-9"})
    e = r.json["error"]
    assert (r.status, e["type"], e["param"], e["code"]) == (404, INVALID, "model", "model_not_found")


def test_known_models(server):
    name = server.get("/v1/models").json["data"][0]["id"]
    for model in (name, "default"):
        assert server.complete("hi", max_tokens=1, model=model).json["model"] == name


def test_prompt_too_long(server):
    length = server.get("/v1/models").json["data"][0]["max_model_len"]
    for prompt in ("word " * (2 * length), [5] * (length + 1), [5] * length, ["ok", "word " * (2 * length)]):
        r = server.post("/v1/completions", {"prompt": prompt})
        e = r.json["error"]
        assert (r.status, e["type"], e["param"]) == (400, INVALID, "prompt")
        assert e["code"] == "context_length_exceeded"
    r = server.complete([5] * length, max_tokens=0, echo=True)
    assert r.json["usage"]["prompt_tokens"] == length


def test_max_tokens_is_cut_to_the_context(server):
    length = server.get("/v1/models").json["data"][0]["max_model_len"]
    r = server.complete([5] * (length - 3), max_tokens=50, ignore_eos=True).json
    assert r["choices"][0]["finish_reason"] == "length"
    assert r["usage"]["completion_tokens"] == 3


def test_a_small_cache_serves_what_it_promises(start):
    """max_model_len never promises more than the whole cache can hold."""
    s = start("--kv-memory", "1m")
    total = s.metrics()["quire_kv_blocks_total"] * 16
    length = s.get("/v1/models").json["data"][0]["max_model_len"]
    assert length <= total
    r = s.complete([5] * (length - 4), max_tokens=50, ignore_eos=True).json
    assert r["usage"]["completion_tokens"] == 4
    r = s.post("/v1/completions", {"prompt": [5] * (length + 1), "max_tokens": 1})
    assert (r.status, r.json["error"]["code"]) == (400, "context_length_exceeded")
    assert s.metrics()['quire_rejections_total{reason="context_length"}'] == 1


def test_too_many_choices(server):
    r = server.post("/v1/completions", {"prompt": ["a"] * 65, "n": 2})
    assert (r.status, r.json["error"]["param"]) == (400, "n")


BAD_BODIES = [
    b"", b"{", b"[", b"nonsense", b'{"prompt":"a"} x', b'{"prompt":"a",}', b'{"prompt":"\xff\xfe"}',
    b'{"prompt":"\xc3"}', b'{"prompt":"\xed\xa0\x80"}', b'{"prompt":"\\ud800"}', b'{"prompt":"a\\u0000b"}',
    b'{"prompt":"a\x00b"}', b"\x00", b"null", b"5", b'"text"', b"[1,2]",
    b"[" * 100000, b'{"a":' * 50000 + b"1" + b"}" * 50000, b'{"prompt":"a","x":' + b"[" * 300 + b"]" * 300 + b"}",
    b'{"prompt":' + b"[1," * 2000000 + b"1]}",
]


@pytest.mark.parametrize("body", BAD_BODIES, ids=range(len(BAD_BODIES)))
@pytest.mark.parametrize("path", ["/v1/completions", "/tokenize"])
def test_bad_body(server, path, body):
    r = server.post(path, body, headers={"Content-Type": "application/json"})
    assert r.status == 400 and r.json["error"]["type"] == INVALID, r.body
    assert server.get("/health").status == 200


def test_the_last_of_duplicate_keys_holds(server):
    r = server.post("/v1/completions",
                    b'{"max_tokens":"bad","prompt":5,"max_tokens":3,"prompt":"hi","ignore_eos":true}',
                    headers={"Content-Type": "application/json"})
    assert r.status == 200 and r.json["usage"]["completion_tokens"] == 3


@pytest.mark.parametrize("message", [
    b'{"role":"user","content":[{}],"content":"hi"}',
    b'{"role":"user","content":[5,{"type":"text"}],"content":[{"type":"text","text":"hi"}]}',
    b'{"role":"user","role":5,"content":"hi","role":"user"}',
    b'{"content":{"content":1},"role":"user","content":"hi"}',
    b'{"role":"user","content":"hi","tool_calls":[{}],"tool_calls":null}',
])
def test_what_a_later_name_hides_is_not_read(server, message):
    """What was never checked must not be rendered: the first of these was a NULL read on c3b6c03."""
    plain = b'{"role":"user","content":"hi"}'
    bodies = [b'{"max_tokens":3,"temperature":0,"messages":[%s]}' % m for m in (plain, message)]
    want, got = (server.post("/v1/chat/completions", body, headers={"Content-Type": "application/json"})
                 for body in bodies)
    assert (want.status, got.status) == (200, 200), got.body
    assert got.json["usage"]["prompt_tokens"] == want.json["usage"]["prompt_tokens"]
    assert got.json["choices"] == want.json["choices"]


def test_priority_header(server):
    ok = server.post("/v1/completions", {"prompt": "a", "max_tokens": 1}, headers={"X-Priority": "critical"})
    assert ok.status == 200
    bad = server.post("/v1/completions", {"prompt": "a", "max_tokens": 1}, headers={"X-Priority": "mine"})
    assert (bad.status, bad.json["error"]["param"]) == (400, "X-Priority")
    both = server.post("/v1/completions", {"prompt": "a", "max_tokens": 1, "priority": "low"},
                       headers={"X-Priority": "mine"})
    assert both.status == 200
