"""Routes under their other names, and the pages that vLLM and llama-server have beside the API."""
import base64
import json
import struct

import pytest

from quire import make_key

CHAT = {"messages": [{"role": "user", "content": "Once"}], "max_tokens": 4, "temperature": 0}
VARYING = {"id", "created", "created_at", "timings"}


def settled(value):
    """An answer without what differs each time."""
    if isinstance(value, dict):
        return {k: settled(v) for k, v in value.items() if k not in VARYING}
    return [settled(v) for v in value] if isinstance(value, list) else value


@pytest.mark.parametrize("path,other,body", [
    ("/v1/chat/completions", "/chat/completions", CHAT),
    ("/v1/responses", "/responses", {"input": "Once", "max_output_tokens": 4, "temperature": 0}),
    ("/completion", "/completions", {"prompt": "Once", "n_predict": 4, "temperature": 0, "seed": 1}),
    ("/embedding", "/embeddings", {"content": "Once"}),
    ("/v1/models", "/models", None),
])
def test_another_name(server, path, other, body):
    method = "GET" if body is None else "POST"
    first, second = server.request(method, path, body), server.request(method, other, body)
    assert first.status == second.status == 200
    assert settled(first.json) == settled(second.json)
    assert server.request(method, other + "/", body).status == 404
    if body is not None:
        label = f'quire_http_requests_total{{route="{path}",code="200"}}'
        before = server.metrics()[label]
        server.request(method, other, body)
        assert server.metrics()[label] == before + 1, "one route, one label"


def test_names_that_nobody_has(server):
    """Only what llama-server or vLLM serves without the prefix is served so."""
    for path in ("/messages", "/messages/count_tokens", "/plan", "/models/quire-demo", "/v1/completion", "/v1/embedding",
                 "/v1/ready", "/v1/ping", "/ready/health", "/v1/health%20/ready", "/health/"):
        assert server.post(path, {}).status == 404 == server.get(path).status, path


@pytest.mark.parametrize("method,path", [
    ("POST", "/v1/responses/compact"), ("POST", "/v1/audio/speech"), ("GET", "/v1/conversations"), ("POST", "/v1/conversations/c/items"),
    ("POST", "/v1/images/generations"), ("POST", "/v1/moderations"), ("GET", "/v1/vector_stores"),
    ("POST", "/v1/fine_tuning/jobs"), ("POST", "/v1/uploads")])
def test_what_is_not_built_says_so(server, method, path):
    """By its name, with what there is instead, in the shape of its API."""
    e = server.request(method, path, {"model": "quire-demo"} if method == "POST" else None)
    assert e.status == 404 and set(e.json) == {"error"}, e.body
    assert e.json["error"]["code"] == "not_built" and f"{path} is not supported: " in e.json["error"]["message"]


@pytest.mark.parametrize("method,path,word", [
    ("POST", "/v1/messages/batches", "POST /v1/batches"), ("GET", "/v1/messages/batches/msgbatch_1/results", "POST /v1/batches"),
    ("POST", "/v1/complete", "POST /v1/messages"), ("GET", "/v1/messages/nothing", "no such path")])
def test_unknown_paths_of_anthropic(server, method, path, word):
    e = server.request(method, path, {} if method == "POST" else None)
    assert e.status == 404 and e.json["type"] == "error" and e.json["error"]["type"] == "not_found_error", e.body
    assert word in e.json["error"]["message"]


@pytest.mark.parametrize("path,word", [("/v1/embed", "POST /v2/embed"), ("/v2/chat", "POST /v1/chat/completions"), ("/v2/more", "no such path")])
def test_unknown_paths_of_cohere(server, path, word):
    e = server.post(path, {})
    assert e.status == 404 and list(e.json) == ["message"] and word in e.json["message"], e.body


@pytest.mark.parametrize("path", ["/api/nothing", "/api/chat/more"])
def test_unknown_paths_of_ollama(server, path):
    for e in (server.get(path), server.post(path, {})):
        assert e.status == 404 and e.json == {"error": "there is no such path"}


def test_other_methods_are_told_as_ever(server):
    assert server.post("/v1/responses/resp_1", {}).status == 405
    assert server.get("/v1/responses/compact").json["error"]["code"] != "not_built"
    assert server.get("/api/chat").status == 405 and set(server.get("/api/chat").json) == {"error"}
    assert server.get("/apis").json["error"]["type"] == "not_found_error"


def test_streams_of_another_name(server):
    frames = server.frames("/chat/completions", CHAT)
    assert frames[-1] == "[DONE]" and json.loads(frames[0])["object"] == "chat.completion.chunk"


# ---- /embedding

def vector(server, text):
    return server.post("/v1/embeddings", {"input": text}).json["data"][0]["embedding"]


def test_embedding_is_llama_servers(server):
    once, twice = vector(server, "Once"), vector(server, "Twice")
    assert server.post("/embedding", {"content": "Once"}).json == [{"index": 0, "embedding": [once]}]
    two = [{"index": 0, "embedding": [once]}, {"index": 1, "embedding": [twice]}]
    assert server.post("/embedding", {"content": ["Once", "Twice"]}).json == two
    assert server.post("/embeddings", {"input": ["Once", "Twice"]}).json == two
    assert server.post("/embedding", {"content": "Once", "input": "Twice"}).json[0]["embedding"] == [twice]
    assert server.post("/v1/embeddings", {"content": "Once"}).json["data"][0]["embedding"] == once


def test_content_of_ids_and_texts(server):
    ids = server.post("/tokenize", {"content": "Once upon", "add_special": True}).json["tokens"]
    want = vector(server, ids)
    assert server.post("/embedding", {"content": ids}).json[0]["embedding"] == [want]
    mixed = server.post("/embedding", {"content": [*ids[:1], "Once"]}).json
    assert len(mixed) == 1 and mixed[0]["embedding"] != [want]
    assert [e["embedding"] for e in server.post("/embedding", {"content": [ids, "Once"]}).json] == \
        [[want], [vector(server, "Once")]]


def test_other_fields_of_embedding(server):
    short = server.post("/v1/embeddings", {"input": "Once", "dimensions": 3}).json["data"][0]["embedding"]
    assert server.post("/embedding", {"content": "Once", "dimensions": 3}).json[0]["embedding"] == [short]
    [[text]] = [e["embedding"] for e in server.post("/embedding", {"content": "Once", "encoding_format": "base64"}).json]
    assert struct.unpack(f"<{len(vector(server, 'Once'))}f", base64.b64decode(text)) == pytest.approx(vector(server, "Once"))


@pytest.mark.parametrize("body,param", [
    ({}, "input"), ({"content": None}, "input"), ({"content": 5}, "content"), ({"content": []}, "content"),
    ({"content": {}}, "content"), ({"content": [[]]}, "content"), ({"content": [10**9]}, "content"), ({"content": ["a", None]}, "content"),
    ({"content": "a", "encoding_format": "hex"}, "encoding_format"), ({"content": "word " * 3000}, "content"),
    ({"input": "word " * 3000}, "input"), ({"content": "a", "dimensions": 0}, "dimensions"), ({"content": ["a"] * 2049}, "content"),
])
def test_embeddings_that_are_refused(server, body, param):
    for path in ("/embedding", "/embeddings"):
        r = server.post(path, body)
        assert (r.status, r.json["error"]["param"]) == (400, param), r.body


# ---- vLLM's pages

def test_load(start):
    s = start("--max-sequences", "2")
    assert s.get("/load").json == {"server_load": 0}
    streams = [s.stream("Once", max_tokens=100000, ignore_eos=True) for _ in range(3)]
    assert s.get("/load").json == {"server_load": 3}, "those that wait count too"
    for x in streams:
        x.close()
    s.wait_until(lambda _: s.get("/load").json == {"server_load": 0}, what="no load")


def test_tokenizer_info(server):
    info = server.get("/tokenizer_info").json
    assert info["tokenizer_class"].endswith("TokenizerFast")
    models = server.get("/v1/models").json["data"][0]
    assert (info["model_max_length"], info["vocab_size"]) == (models["max_model_len"], models["meta"]["n_vocab"])
    ids = server.post("/tokenize", {"content": info["eos_token"]}).json["tokens"]
    assert len(ids) == 1 and server.post("/detokenize", {"tokens": ids}).status == 200
    assert info.get("chat_template") == server.get("/props").json["chat_template"]
    assert server.get("/tokenizer_info?model=quire-demo").json == info
    assert server.get("/tokenizer_info?model=other").status == 404


def test_server_info(start):
    s = start("--max-sequences", "7", "--prefix-cache", "off", "--kv-type", "q8_0", "--context", "128")
    found = s.get("/server_info?config_format=json").json
    config = found["vllm_config"]
    assert config["model_config"]["max_model_len"] == 128 and config["scheduler_config"]["max_num_seqs"] == 7
    assert config["cache_config"]["enable_prefix_caching"] is False and config["cache_config"]["cache_dtype"] == "q8_0"
    assert config["cache_config"]["num_gpu_blocks"] == s.metrics()["quire_kv_blocks_total"]
    assert found["models"] == [config] and found["system_env"]["quire_version"] == s.get("/version").json["version"]
    text = s.get("/server_info").json["vllm_config"]
    assert json.loads(text) == config == json.loads(s.get("/server_info?config_format=text").json["vllm_config"])
    r = s.get("/server_info?config_format=yaml")
    assert (r.status, r.json["error"]["param"]) == (400, "config_format")


def test_who_may_see_them(start, tmp_path):
    """What tells of all clients is the operator's."""
    (entry, secret), (admin, admin_secret) = make_key("a"), make_key("b", "--admin")
    keys = tmp_path / "keys.ini"
    keys.write_text(entry + admin)
    s = start("--api-keys", str(keys), "--metrics-open", "off")
    for path, user in (("/load", 403), ("/server_info", 403), ("/tokenizer_info", 200), ("/get_server_info", 200),
                       ("/kv_event_sources", 200), ("/models", 200)):
        assert s.get(path).status == 401
        assert s.get(path, headers={"X-Api-Key": secret}).status == user, path
        assert s.get(path, headers={"X-Api-Key": admin_secret}).status == 200, path
    for path in ("/v1/health", "/ready", "/ping", "/live"):
        assert s.get(path).status == 200
    assert s.post("/ping", b"").status == 200
    for path, body in (("/chat/completions", CHAT), ("/embedding", {"content": "a"}), ("/responses", {"input": "a"}),
                       ("/v1/completions/render", {"prompt": "a"}), ("/v1/chat/completions/render", CHAT)):
        assert s.post(path, body).status == 401
