"""Everything that is not a completion."""
import os
import re
import time

import pytest

from quire import BIN, check_prometheus, make_model, serve_in_vain


def test_health(server):
    r = server.get("/health")
    assert (r.status, r.json) == (200, {"status": "ok"})
    assert r.headers["Content-Type"] == "application/json"


def test_live(server):
    assert server.get("/live").json == {"status": "ok"}


def test_ping_reads_no_body(server):
    """A probe's POST is what its GET is, whatever it brings; other methods are none of it."""
    for kind in ("application/json", "text/plain"):
        assert server.post("/ping", b"[" * 5000, headers={"Content-Type": kind}).json == {"status": "ok"}
    r = server.request("PUT", "/ping")
    assert r.status == 405 and r.headers["Allow"] == "GET, HEAD, POST"
    assert server.post("/health", {}).status == 405


def test_version(server):
    assert list(server.get("/version").json) == ["version"]
    assert server.get("/version").json["version"] not in ("", "unknown")


def test_post_props(server, start):
    """llama-server's --props: it is taken, and changes nothing."""
    e = server.post("/props", {"a": 1})
    assert (e.status, e.json["error"]["type"]) == (501, "not_supported_error")
    s = start("--props", "on")
    before = s.get("/props").json
    r = s.post("/props", {"default_generation_settings": {"params": {"temperature": 0}}})
    assert (r.status, r.json) == (200, {"success": True})
    assert s.get("/props").json == before
    assert s.post("/props?model=x", {}).status == 404


def test_input_tokens(server):
    chat = {"messages": [{"role": "system", "content": "Book"}, {"role": "user", "content": "What is the best book"}]}
    n = server.post("/v1/chat/completions", {**chat, "max_tokens": 1}).json["usage"]["prompt_tokens"]
    for path in ("/v1/chat/completions/input_tokens", "/chat/completions/input_tokens"):
        r = server.post(path, chat)
        assert (r.status, r.json) == (200, {"object": "response.input_tokens", "input_tokens": n})
    assert server.post("/chat/completions/input_tokens", {}).status == 400


def test_models(server):
    r = server.get("/v1/models").json
    assert r["object"] == "list" and len(r["data"]) == 1
    m = r["data"][0]
    assert m["object"] == "model" and m["owned_by"] and m["created"] > 1_600_000_000
    assert m["max_model_len"] > 0 and m["root"] == m["id"] and m["parent"] is None
    assert m["meta"]["n_vocab"] > 0 and m["meta"]["n_params"] > 0 and m["meta"]["size"] > 0
    assert m["meta"]["kv_type"] == "f16" and m["meta"]["vocab_type"] == 2


def day(seconds):
    return time.strftime("%Y-%m-%d", time.gmtime(seconds))


def test_models_as_typesafe_lists_them(server, start, tmp_path):
    """Beside `data` and in its order; the date is that of the file, of the program's for the model inside it."""
    [m] = server.get("/v1/models").json["models"]
    assert m["name"] == "quire-demo" and re.fullmatch(r"llama, \S+, [0-9.]+ M parameters", m["description"])
    assert m["release_date"] == day(os.stat(BIN).st_mtime)
    for name, seconds in (("old", 1_000_000_000), ("epoch", 1)):
        make_model(tmp_path / f"{name}.gguf")
        os.utime(tmp_path / f"{name}.gguf", (seconds, seconds))
    before = day(time.time())
    s = start(model=f"old={tmp_path}/old.gguf,epoch={tmp_path}/epoch.gguf,last=")
    page = s.get("/v1/models").json
    assert [m["name"] for m in page["models"]] == [m["id"] for m in page["data"]] == ["old", "epoch", "last"]
    assert page["models"][0]["release_date"] == "2001-09-09"
    assert page["models"][1]["release_date"] in (before, day(time.time())), "a file without a time: since it is served"


def test_models_that_are_not_loaded(start):
    s = start("--load", "demand", model="one=,two=")
    assert [m["description"] for m in s.get("/v1/models").json["models"]] == ["not loaded yet"] * 2
    assert s.post("/v1/completions", {"model": "two", "prompt": "Once", "max_tokens": 1}).status == 200
    assert "parameters" in s.get("/v1/models").json["models"][1]["description"]


def test_one_model(server):
    m = server.get("/v1/models").json["data"][0]
    path = "/v1/models/" + m["id"].replace(" ", "%20")
    assert server.get(path).json == m
    r = server.get("/v1/models/nobody")
    assert r.status == 404
    assert r.json["error"]["code"] == "model_not_found"


def test_head_is_get_without_a_body(server):
    for path in ("/health", "/v1/models", "/metrics"):
        r = server.request("HEAD", path)
        assert r.status == 200 and r.body == b""
        assert int(r.headers["Content-Length"]) > 0


def test_request_id_is_echoed_or_made(server):
    assert server.get("/health", headers={"X-Request-Id": "abc-1"}).headers["X-Request-Id"] == "abc-1"
    made = {server.get("/health").headers["X-Request-Id"] for _ in range(20)}
    assert len(made) == 20 and all(made)
    bad = "x" * 500
    assert server.get("/health", headers={"X-Request-Id": bad}).headers["X-Request-Id"] != bad
    assert server.get("/health", headers={"X-Request-Id": "a b"}).headers["X-Request-Id"] != "a b"


TEXTS = ["Hello world", "a", " ", "  two  spaces ", "é€😀 ünï", "line\nbreak\ttab", "<s></s>", "日本語"]


@pytest.mark.parametrize("text", TEXTS)
def test_tokenize_round_trip(server, text):
    tokens = server.post("/tokenize", {"content": text, "parse_special": False}).json["tokens"]
    assert tokens and all(isinstance(t, int) for t in tokens)
    assert server.post("/detokenize", {"tokens": tokens}).json == {"content": text}


def test_tokenize_pieces(server):
    r = server.post("/tokenize", {"content": "Hello é", "with_pieces": True}).json["tokens"]
    joined = b"".join(t["piece"].encode() if isinstance(t["piece"], str) else bytes(t["piece"]) for t in r)
    assert joined.strip() == "Hello é".encode()
    plain = server.post("/tokenize", {"content": "Hello é"}).json["tokens"]
    assert [t["id"] for t in r] == plain


def test_tokenize_vllm_shape(server):
    length = server.get("/v1/models").json["data"][0]["max_model_len"]
    r = server.post("/tokenize", {"model": "default", "prompt": "Hello", "add_special_tokens": False}).json
    assert set(r) == {"count", "max_model_len", "tokens"}
    assert r["count"] == len(r["tokens"]) and r["max_model_len"] == length
    assert r["tokens"] == server.post("/tokenize", {"content": "Hello"}).json["tokens"]
    back = server.post("/detokenize", {"model": "default", "tokens": r["tokens"]}).json
    assert back == {"prompt": "Hello"}


def test_tokenize_special(server):
    plain = server.post("/tokenize", {"content": "Hi"}).json["tokens"]
    special = server.post("/tokenize", {"content": "Hi", "add_special": True}).json["tokens"]
    assert special == plain or special[1:] == plain or special[1:-1] == plain


def test_tokenize_long_text(server):
    text = "The quick brown fox. " * 20000
    tokens = server.post("/tokenize", {"content": text}).json["tokens"]
    assert server.post("/detokenize", {"tokens": tokens}).json["content"] == text


@pytest.mark.parametrize("path,body,param", [
    ("/tokenize", {}, "content"),
    ("/tokenize", {"content": 5}, "content"),
    ("/tokenize", {"prompt": ["a"]}, "prompt"),
    ("/tokenize", {"content": "a", "add_special": "yes"}, "add_special"),
    ("/detokenize", {}, "tokens"),
    ("/detokenize", {"tokens": "a"}, "tokens"),
    ("/detokenize", {"tokens": [-1]}, "tokens"),
    ("/detokenize", {"tokens": [1e9]}, "tokens"),
    ("/detokenize", {"tokens": [1.5]}, "tokens"),
])
def test_tokenize_errors(server, path, body, param):
    r = server.post(path, body)
    assert r.status == 400
    assert r.json["error"]["param"] == param and r.json["error"]["type"] == "invalid_request_error"


def test_metrics_format(server):
    r = server.get("/metrics")
    assert r.status == 200
    assert r.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    check_prometheus(r.body)


def test_metrics_count_what_happened(start):
    s = start()
    before = s.metrics()
    s.complete("Hello there", max_tokens=7, ignore_eos=True, nonsense=1, more=2, speculation=False)
    s.post("/v1/completions", {"prompt": "x", "temperature": "hot"})
    s.get("/nowhere")
    s.wait_idle()
    after = s.metrics()

    def grown(name):
        return after.get(name, 0) - before.get(name, 0)

    n_prompt = len(s.post("/tokenize", {"content": "Hello there", "add_special": True}).json["tokens"])
    assert grown("quire_prompt_tokens_total") == n_prompt
    assert grown("quire_generation_tokens_total") == 7
    assert grown("quire_unknown_fields_total") == 2
    assert grown('quire_requests_total{endpoint="completions",outcome="length"}') == 1
    assert grown('quire_requests_total{endpoint="completions",outcome="rejected"}') == 1
    assert grown('quire_rejections_total{reason="invalid"}') == 1
    assert grown('quire_http_requests_total{route="/v1/completions",code="200"}') == 1
    assert grown('quire_http_requests_total{route="/v1/completions",code="400"}') == 1
    assert grown('quire_http_requests_total{route="other",code="404"}') == 1
    assert grown("quire_time_to_first_token_seconds_count") == 1
    assert grown("quire_inter_token_latency_seconds_count") == 6
    assert grown("quire_e2e_request_latency_seconds_count") == 1
    assert grown("quire_request_queue_time_seconds_count") == 1
    assert grown("quire_request_prefill_time_seconds_count") == 1
    assert grown("quire_request_decode_time_seconds_count") == 1
    assert grown("quire_request_prompt_tokens_sum") == n_prompt
    assert grown("quire_request_generation_tokens_sum") == 7
    assert grown("quire_iterations_total") >= 7
    assert after["process_open_fds"] > 5 and after["process_resident_memory_bytes"] > 1 << 20
    assert after["process_start_time_seconds"] > 1_600_000_000
    assert after["quire_kv_blocks_total"] > 0


def test_where_to_listen(start):
    s = start()
    taken = serve_in_vain("--port", s.port)
    assert taken.returncode != 0 and f"cannot listen on 127.0.0.1:{s.port}: " in taken.stderr
    nowhere = serve_in_vain("--host", "no.such.name.invalid")
    assert nowhere.returncode != 0 and "cannot listen on no.such.name.invalid" in nowhere.stderr


def test_ipv6(start):
    import http.client
    import socket
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("skip: no IPv6 here")
    s = start("--host", "::1")
    c = http.client.HTTPConnection("::1", s.port, timeout=20)
    c.request("GET", "/health")
    assert c.getresponse().status == 200
    c.close()


@pytest.mark.parametrize("kv_type, least, most", [("q8_0", 1.7, 2), ("q4_0", 2.3, 2.6), ("f32", 0.4, 0.6)])
def test_types_of_keys_and_values(start, kv_type, least, most):
    """As many more or fewer tokens fit; the answer does not depend on who else is there."""
    usual = start("--kv-memory", "64m")
    s = start("--kv-memory", "64m", "--kv-type", kv_type)
    assert s.get("/v1/models").json["data"][0]["meta"]["kv_type"] == kv_type
    body = {"prompt": "Once upon a time", "max_tokens": 60, "temperature": 0}
    alone = s.post("/v1/completions", body)
    assert alone.status == 200 and alone.json["usage"]["completion_tokens"] == 60
    many = s.post("/v1/completions", {**body, "prompt": ["A", "Once upon a time", "The dog"] * 4})
    texts = [c["text"] for c in many.json["choices"]]
    assert texts[1::3] == [alone.json["choices"][0]["text"]] * 4
    total = re.compile(r"^quire_kv_blocks_total\S* (\d+)", re.M)
    blocks = [int(total.search(x.get("/metrics").body.decode())[1]) for x in (usual, s)]
    assert least * blocks[0] < blocks[1] < most * blocks[0]


def test_props(server):
    p = server.get("/props").json
    assert p["total_slots"] == 256 and p["default_generation_settings"]["n_ctx"] == 1024
    assert p["model_alias"] == "quire-demo" and "message" in p["chat_template"]
    assert p["chat_template_caps"] == {
        "supports_string_content": True, "supports_typed_content": False, "supports_tools": False,
        "supports_tool_calls": False, "supports_system_role": True, "supports_object_arguments": False}
    settings = p["default_generation_settings"]["params"]
    assert settings["temperature"] == 0.8 and settings["top_k"] == 40 and settings["n_predict"] == -1
    used = server.post("/completion", {"prompt": "a", "n_predict": 1}).json["generation_settings"]
    assert set(used) == set(settings)


def test_slots(start):
    s = start("--max-sequences", "2")
    idle = s.get("/slots").json
    assert [(q["id"], q["id_task"], q["is_processing"]) for q in idle] == [(0, -1, False), (1, -1, False)]
    assert s.get("/slots?fail_on_no_slot=1").status == 200
    for _ in range(20):  # a stream may end between the questions: then once more
        streams = [s.stream("Once", max_tokens=100000, ignore_eos=True) for _ in range(2)]
        for stream in streams:
            next(iter(stream))
        before, refused, after = s.get("/slots").json, s.get("/slots?fail_on_no_slot=1"), s.get("/slots").json
        for stream in streams:
            stream.close()
        s.wait_idle()
        if all(q["is_processing"] for q in before + after):
            break
    assert all(q["next_token"]["n_decoded"] >= 1 and q["id_task"] > 0 for q in before + after)
    assert refused.status == 503 and refused.json["error"]["type"] == "unavailable_error"
    assert s.get("/slots?fail_on_no_slot=1").status == 200


def test_tokenize_messages(server):
    chat = {"messages": [{"role": "user", "content": "Hello"}]}
    r = server.post("/tokenize", {"model": "quire-demo", **chat}).json
    prompt = server.post("/apply-template", chat).json["prompt"]
    assert r["tokens"] == server.post("/tokenize", {"content": prompt}).json["tokens"]
    assert (r["count"], r["max_model_len"]) == (len(r["tokens"]), 1024)
    short = server.post("/tokenize", {**chat, "add_generation_prompt": False}).json
    assert short["count"] == r["count"] - 1
    quoted = server.post("/tokenize", {"content": 'say "messages"'}).json
    assert list(quoted) == ["tokens"]
    bad = server.post("/tokenize", {"messages": []})
    assert bad.status == 400 and bad.json["error"]["param"] == "messages"
