"""What routers ask before they choose a server: prompts as tokens, and the size of the blocks."""
import pytest

from test_errors import BAD_FIELDS

CHAT = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Tell me of a bear."}]
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}


def rendered(server, path, body):
    r = server.post(f"{path}/render", body)
    assert r.status == 200, r.body
    return r.json


def prompt_ids(server, path, body):
    r = server.post(path, {**body, "return_token_ids": True, "max_tokens": 1, "stream": False})
    assert r.status == 200, r.body
    return [c["prompt_token_ids"] for c in r.json["choices"]]


@pytest.mark.parametrize("fields", [
    {"prompt": "Once upon a time"}, {"prompt": ["Once", "", "a bear\n"]}, {"prompt": [5, 6, 7]}, {"prompt": [[5], [300, 301]]},
    {"prompt": "Once", "add_special_tokens": False}, {"prompt": "Once upon a time there was", "truncate_prompt_tokens": 3},
    {"prompt": "Once", "stream": True, "model": "default"},
], ids=str)
def test_completions(server, fields):
    answer = rendered(server, "/v1/completions", fields)
    assert [list(x) for x in answer] == [["token_ids", "sampling_params"]] * len(answer)
    assert [x["token_ids"] for x in answer] == prompt_ids(server, "/v1/completions", fields)


def test_choices_share_a_prompt(server):
    one = rendered(server, "/v1/completions", {"prompt": "Once"})
    four = rendered(server, "/v1/completions", {"prompt": "Once", "n": 4})
    assert four[0]["token_ids"] == one[0]["token_ids"] and len(one) == len(four) == 1 and four[0]["sampling_params"]["n"] == 4


@pytest.mark.parametrize("fields", [{}, {"tools": [TOOL]}, {"add_generation_prompt": False}, {"stream": True},
                                    {"chat_template_kwargs": {"enable_thinking": False}}], ids=str)
def test_chats(server, fields):
    body = {"messages": CHAT, **fields}
    answer = rendered(server, "/v1/chat/completions", body)
    assert list(answer) == ["token_ids", "sampling_params"]
    assert [answer["token_ids"]] == prompt_ids(server, "/v1/chat/completions", body)
    assert answer["token_ids"] == server.post("/tokenize", {"messages": CHAT, **fields, "stream": False}).json["tokens"]


TEXTS = ["Once upon a time", "naïve café — 漢字かな 한국어 😀👩‍👧 e\u0301", "  two  spaces\n\n\ttab", "<|end|> is text <|begin|> too", "x", "\u00a0\u3000",
         "a" * 70]


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_token_offsets(server, text):
    """Each token's characters; one that has only a part of a character stands for all of it. What was added stands nowhere."""
    for fields in ({}, {"add_special_tokens": False}):
        r, = rendered(server, "/v1/completions", {"prompt": text, "return_token_offsets": True, **fields})
        ids, offsets = r["token_ids"], [tuple(o) for o in r["token_offsets"]]
        assert len(ids) == len(offsets)
        added = [o for o in offsets if o == (0, 0)]
        offsets = offsets[len(added):]
        assert len(added) == (0 if fields else 1)
        assert offsets[0][0] == 0 and offsets[-1][1] == len(text)
        for (a, b), (c, d) in zip(offsets, offsets[1:]):
            assert a < b and c < d and c in (b, b - 1)
        names = server.post("/tokenize", {"prompt": text, "return_token_strs": True, "add_special_tokens": not fields}).json["token_strs"]
        for name, (a, b) in zip(names[len(added):], offsets):
            assert name == text[a:b] or "\ufffd" in name or b - a == 1 or "bytes:" in name, (name, text[a:b])
    assert rendered(server, "/v1/completions", {"prompt": [5, 6], "return_token_offsets": True})[0]["token_offsets"] is None


def test_token_offsets_of_a_chat(server):
    """In the text that the template makes."""
    r = rendered(server, "/v1/chat/completions", {"messages": CHAT, "return_token_offsets": True})
    text = server.post("/apply-template", {"messages": CHAT}).json["prompt"]
    assert len(r["token_offsets"]) == len(r["token_ids"]) and r["token_offsets"][-1][1] == len(text)
    assert server.post("/v1/chat/completions", {"messages": CHAT, "max_tokens": 1, "return_token_offsets": True}).status == 200
    assert server.post("/v1/responses", {"input": "a", "return_token_offsets": True}).status == 400


def test_sampling_params(server):
    """vLLM's names of what the body and the defaults say."""
    context = server.get("/v1/models").json["data"][0]["max_model_len"]
    r, = rendered(server, "/v1/completions", {"prompt": "Once"})
    s = r["sampling_params"]
    assert (s["n"], s["max_tokens"], s["temperature"], s["top_p"], s["top_k"], s["seed"], s["logprobs"]) == (1, 16, 1, 1, 0, None, None)
    said = {"n": 2, "temperature": 0.5, "top_p": 0.25, "top_k": 7, "min_p": 0.125, "seed": 5, "stop": ["x"], "stop_token_ids": [9],
            "min_tokens": 1, "presence_penalty": 0.5, "frequency_penalty": -0.5, "repetition_penalty": 1.5, "ignore_eos": True,
            "include_stop_str_in_output": True, "skip_special_tokens": False}
    r = rendered(server, "/v1/chat/completions", {"messages": CHAT, "logprobs": True, "top_logprobs": 3, **said})
    assert r["sampling_params"] == {**said, "max_tokens": context - len(r["token_ids"]), "logprobs": 3, "prompt_logprobs": None}


def refused_alike(server, path, body):
    real, asked = server.post(path, body), server.post(f"{path}/render", body)
    assert (asked.status, asked.json) == (real.status, real.json) and real.status >= 400, body


def test_refused_as_completions_are(server):
    for field, value in BAD_FIELDS:
        refused_alike(server, "/v1/completions", {"prompt": "hi", "max_tokens": 1, field: value})
    context = server.get("/v1/models").json["data"][0]["max_model_len"]
    for body in ({}, [], {"prompt": [5] * context}, {"prompt": [5] * (context + 1)}, {"prompt": "a b" * context},
                 {"prompt": [[5], [5] * context]}, {"prompt": "a", "model": "none"},
                 {"prompt": "a", "structured_outputs": {"regex": "("}}, {"prompt": "a", "prompt_logprobs": -5}):
        refused_alike(server, "/v1/completions", body)
    for body in ({}, {"messages": []}, {"messages": 5}, {"messages": [{"role": "user", "content": "a b" * context}]},
                 {"messages": CHAT, "tools": [5]}, {"messages": CHAT, "tool_choice": "f"}, {"messages": CHAT, "temperature": 9}):
        refused_alike(server, "/v1/chat/completions", body)


def test_a_small_cache_refuses_too(start):
    s = start("--kv-memory", "1m", "--context-shift", "on")
    context = s.get("/v1/models").json["data"][0]["max_model_len"]
    refused_alike(s, "/v1/completions", {"prompt": [5] * context})
    assert rendered(s, "/v1/completions", {"prompt": [5] * 20, "max_tokens": 3})


def test_the_fullest_prompt(server):
    context = server.get("/v1/models").json["data"][0]["max_model_len"]
    ids = [5] * (context - 1)
    assert rendered(server, "/v1/completions", {"prompt": ids})[0]["token_ids"] == ids


def test_nothing_is_queued(start):
    s = start("--max-sequences", "1", "--queue-limit", "1")
    streams = [s.stream("Once", max_tokens=100000, ignore_eos=True) for _ in range(2)]
    s.wait_until(lambda m: m["quire_requests_running"] == 1 and m['quire_requests_waiting{priority="normal"}'] == 1, what="it is full")
    assert s.post("/v1/completions", {"prompt": "Once"}).status == 429
    before = s.metrics()
    assert rendered(s, "/v1/completions", {"prompt": "Once"}) and rendered(s, "/v1/chat/completions", {"messages": CHAT})
    after = s.metrics()
    for name in ("quire_requests_running", 'quire_requests_waiting{priority="normal"}', "quire_prompt_tokens_total",
                 'quire_requests_total{endpoint="completions",outcome="rejected"}'):
        assert before[name] == after[name], name
    for x in streams:
        x.close()
    s.wait_idle()


# ---- the pages

def test_get_server_info(start):
    s = start("--context", "128", "--max-sequences", "7")
    info = s.get("/get_server_info").json
    kv = s.get("/debug/kv").json
    assert info == {"model_id": "quire-demo", "kv_block_size": 16, "num_gpu_blocks": kv["blocks"]["total"], "max_model_len": 128,
                    "max_num_seqs": 7, "version": s.get("/version").json["version"]}
    assert s.get("/get_server_info?model=quire-demo").json == info and s.get("/get_server_info?model=other").status == 404
    assert s.post("/get_server_info", {}).status == 405


def test_kv_event_sources(server):
    r = server.get("/kv_event_sources")
    assert (r.status, r.json, r.headers["Content-Type"]) == (200, {}, "application/json")
