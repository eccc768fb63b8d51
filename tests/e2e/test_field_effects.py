"""What vLLM's, llama-server's and OpenAI's older fields do to an answer."""
import base64
import json
import math
import struct

import pytest

PROMPT = "Once upon a time there was a"
CHAT = "/v1/chat/completions"
GREEDY = {"temperature": 0, "ignore_eos": True}


def text(server, prompt=PROMPT, **fields):
    return server.complete(prompt, **{**GREEDY, "max_tokens": 12, **fields}).json["choices"][0]


def native(server, prompt=PROMPT, status=200, **fields):
    r = server.post("/completion", {"prompt": prompt, **GREEDY, "n_predict": 12, **fields})
    assert r.status == status, r.body
    return r.json


def ids(server, content):
    return server.post("/tokenize", {"content": content}).json["tokens"]


# ---- which tokens come

def test_only_allowed_tokens(server):
    allowed = [*ids(server, " dog"), *ids(server, " cat")]
    r = text(server, allowed_token_ids=allowed, return_token_ids=True)
    assert set(r["token_ids"]) <= set(allowed) and len(r["token_ids"]) == 12
    r = server.post(CHAT, {"messages": [{"role": "user", "content": "a"}], "allowed_token_ids": allowed[:1],
                           "max_tokens": 3, "return_token_ids": True, "temperature": 1})
    assert r.json["choices"][0]["token_ids"] == allowed[:1] * 3


def test_bad_words(server):
    whole = text(server, max_tokens=40)["text"]
    words = whole.split()
    for word in words[1:4]:
        other = text(server, max_tokens=40, bad_words=[word])["text"]
        assert f" {word} " not in f" {other} " and other.split(word)[0] != "", (word, other)
    two = " ".join(words[1:3])
    other = text(server, max_tokens=40, bad_words=[two])["text"]
    assert two not in other and other.split()[:2] == words[:2]  # the first of them may come


def test_biases_by_text(server):
    for bias in ({" dog": 100}, [[" dog", 100]]):
        assert text(server, logit_bias=bias, max_tokens=3)["text"] == " dog" * 3
    first = text(server)["text"].split()[0]
    assert text(server, logit_bias={" " + first: False})["text"].split()[0] != first


def test_a_chain_of_samplers(server):
    shares = lambda **fields: [len(p["top_probs"]) for p in native(
        server, n_probs=20, post_sampling_probs=True, temperature=1, seed=1, **fields)["completion_probabilities"]]
    off = {"top_p": 1, "min_p": 0, "top_k": 0}
    assert shares(**off, samplers=["temperature"]) == [20] * 12
    assert shares(**{**off, "top_k": 3}) == [3] * 12
    assert shares(**{**off, "top_k": 3}, samplers=["temperature"]) == [20] * 12  # what is not named is not used
    for top_p in (1e-6, 0):
        assert shares(**{**off, "top_p": top_p}) == [1] * 12
        assert shares(**{**off, "top_p": top_p, "min_keep": 4}) == [4] * 12
    assert shares(**{**off, "top_n_sigma": 1e-5}) == [1] * 12
    assert shares(**{**off, "top_k": 5, "top_n_sigma": 100}) == [5] * 12
    r = native(server, samplers=["top_k", "penalties"], repeat_penalty=1.5, status=400)
    assert r["error"]["param"] == "samplers"
    settings = native(server, samplers="kt")["generation_settings"]
    assert settings["samplers"] == ["top_k", "temperature"] and settings["top_p"] == 1


def test_shares_after_sampling(server):
    r = native(server, n_probs=4, post_sampling_probs=True, temperature=0.7, top_k=4, top_p=1, min_p=0, seed=3)
    for p in r["completion_probabilities"]:
        assert list(p) == ["id", "token", "prob", "bytes", "top_probs"]
        assert sum(t["prob"] for t in p["top_probs"]) == pytest.approx(1, abs=1e-4)
        assert p["prob"] in [t["prob"] for t in p["top_probs"] if t["id"] == p["id"]]
    greedy = native(server, n_probs=4, post_sampling_probs=True)["completion_probabilities"]
    assert all(p["prob"] == 1 and len(p["top_probs"]) == 1 for p in greedy)
    plain = native(server, n_probs=4)["completion_probabilities"]
    below = native(server, n_probs=4, post_sampling_probs=True, temperature=-1)["completion_probabilities"]
    for a, b in zip(plain, below, strict=True):
        assert a["id"] == b["id"] and math.exp(a["logprob"]) == pytest.approx(b["prob"], rel=1e-3)


def test_dynamic_temperature(server):
    fields = {"top_k": 0, "top_p": 1, "min_p": 0, "n_probs": 1, "post_sampling_probs": True, "seed": 1, "n_predict": 1}
    share = lambda **f: native(server, **fields, **f)["completion_probabilities"][0]["top_probs"][0]["prob"]
    plain, low, high = share(temperature=1), share(temperature=0.5), share(temperature=1.5)
    assert high < plain < low
    assert share(temperature=1, dynatemp_range=0.5, dynatemp_exponent=0) == pytest.approx(high, rel=1e-3)
    assert share(temperature=1, dynatemp_range=0.5, dynatemp_exponent=100) == pytest.approx(low, rel=1e-3)


def test_penalties_in_a_window(server):
    dog, = ids(server, " dog")
    bias = {"logit_bias": [[dog, 20]], "return_tokens": True}
    assert native(server, **bias)["tokens"] == [dog] * 12
    once = native(server, **bias, presence_penalty=2, frequency_penalty=2, repeat_penalty=10)["tokens"]
    assert once.count(dog) < 6
    again = native(server, **bias, presence_penalty=2, frequency_penalty=2, repeat_penalty=10, repeat_last_n=1)["tokens"]
    assert once.count(dog) < again.count(dog) < 12
    assert native(server, **bias, repeat_penalty=10, repeat_last_n=0)["tokens"] == [dog] * 12


# ---- the prompt

def test_a_prompt_is_cut(server):
    all_ids = text(server, return_token_ids=True)["prompt_token_ids"]
    for fields, want in (({"truncate_prompt_tokens": 3}, all_ids[-3:]), ({"truncate_prompt_tokens": 99}, all_ids),
                         ({"truncate_prompt_tokens": 3, "truncation_side": "right"}, all_ids[:3]),
                         ({"add_special_tokens": False}, all_ids[1:])):
        r = text(server, return_token_ids=True, **fields)
        assert r["prompt_token_ids"] == want, fields
        assert r["text"] == text(server, want)["text"]
    r = text(server, truncate_prompt_tokens=3, echo=True, max_tokens=0)
    assert PROMPT.endswith(r["text"])
    length = server.get("/v1/models").json["data"][0]["max_model_len"]
    r = server.complete("dog " * (2 * length), truncate_prompt_tokens=-1, max_tokens=5).json
    assert r["usage"]["prompt_tokens"] == length - 5
    r = server.post("/v1/embeddings", {"input": PROMPT, "truncate_prompt_tokens": 2})
    assert r.json["usage"]["prompt_tokens"] == 2


def test_special_tokens_of_a_chat(server):
    body = {"messages": [{"role": "user", "content": "a"}], "return_token_ids": True, "max_tokens": 1}
    plain, more = (server.post(CHAT, {**body, **f}).json["choices"][0]["prompt_token_ids"]
                   for f in ({}, {"add_special_tokens": True}))
    assert more[1:] == plain


def test_a_prompt_that_is_too_long(server):
    length = server.get("/v1/models").json["data"][0]["max_model_len"]
    e = native(server, "dog " * (2 * length), status=400)["error"]
    n = len(ids(server, "dog " * (2 * length))) + 1
    assert (e["type"], e["code"], e["n_prompt_tokens"], e["n_ctx"]) == ("exceed_context_size_error", 400, n, length)
    e = server.post("/v1/completions", {"prompt": "dog " * (2 * length)}).json["error"]
    assert (e["type"], e["code"]) == ("invalid_request_error", "context_length_exceeded")
    assert native(server, n_predict=-1)["truncated"] and not native(server)["truncated"]


# ---- the text

def test_the_stop_string_stays(server):
    whole = text(server, max_tokens=40)["text"]
    stop = whole[12:16]
    cut = whole[:whole.find(stop)]
    assert text(server, max_tokens=40, stop=stop)["text"] == cut
    r = text(server, max_tokens=40, stop=stop, include_stop_str_in_output=True)
    assert r["text"] == cut + stop and r["finish_reason"] == "stop"
    pieces = server.stream(PROMPT, **GREEDY, max_tokens=40, stop=stop, include_stop_str_in_output=True)
    assert "".join(f["choices"][0]["text"] for f in pieces if f["choices"]) == cut + stop


def test_special_tokens_are_shown(server):
    eos = server.post("/tokenize", {"content": "<|endoftext|>"}).json["tokens"]
    fields = {"logit_bias": {str(eos[0]): 100}, "max_tokens": 2}
    assert text(server, **fields)["text"] == ""
    assert text(server, **fields, skip_special_tokens=False)["text"] == "<|endoftext|>" * 2


def test_lines_are_indented(server):
    line = "a:\n    b\n\tc\n  d\n"
    fields = {"n_predict": 64, "grammar": f"root ::= {json.dumps(line)}", "ignore_eos": False}
    assert native(server, **fields)["content"] == line
    for least, want in ((1, line), (2, "a:\n    b\n"), (5, "a:\n")):
        r = native(server, **fields, n_indent=least)
        assert (r["content"], r["stop_type"]) == (want, "eos" if want == line else "limit"), least
        frames = [json.loads(p) for p in server.frames(
            "/completion", {"prompt": PROMPT, "temperature": 0, "stream": True, **fields, "n_indent": least})]
        assert "".join(f["content"] for f in frames) == want


def test_time_is_up_after_a_line(server):
    newline, = ids(server, "\n")
    fields = {"n_predict": -1, "t_max_predict_ms": 1}
    assert native(server, **fields, logit_bias=[["\n", False], [newline, False]], n_probs=0)["tokens_predicted"] > 50
    r = native(server, **fields, logit_bias=[[newline, 100]])
    assert r["stop_type"] == "limit" and not r["truncated"]


# ---- the shape of the answer

def test_tokens_by_their_ids(server):
    r = text(server, logprobs=2, return_tokens_as_token_ids=True, return_token_ids=True)
    assert r["logprobs"]["tokens"] == [f"token_id:{i}" for i in r["token_ids"]]
    assert all(len(t) in (2, 3) and all(k.startswith("token_id:") for k in t) for t in r["logprobs"]["top_logprobs"])
    r = server.post(CHAT, {"messages": [{"role": "user", "content": "a"}], "max_tokens": 2, "logprobs": True,
                           "top_logprobs": 1, "return_tokens_as_token_ids": True}).json["choices"][0]
    assert all(p["token"].startswith("token_id:") for p in r["logprobs"]["content"])


def test_a_chat_repeats_what_it_goes_on_from(server):
    """vLLM's echo: the last message's content, where the answer has its role."""
    last = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "Once "}]
    parts = [last[0], {"role": "assistant", "content": [{"type": "text", "text": "Once"}, {"type": "text", "text": "upon"}]}]
    for messages, more, text in ((last, {"continue_final_message": True, "add_generation_prompt": False}, "Once "),
                                 (last, {}, "Once "), (parts, {}, "Once\nupon"), (last[:1], {}, ""),
                                 (last[:1], {"add_generation_prompt": False}, "a")):
        body = {"messages": messages, "max_tokens": 4, "temperature": 0, "n": 2, **more}
        plain, echoed = (server.post(CHAT, {**body, "echo": echo}).json["choices"] for echo in (False, True))
        assert [c["message"]["content"] for c in echoed] == [text + c["message"]["content"] for c in plain]
        said = ["", ""]
        for p in server.frames(CHAT, {**body, "echo": True, "stream_options": {"include_usage": True, "continuous_usage_stats": True}})[:-1]:
            f = json.loads(p)
            for c in f["choices"]:
                said[c["index"]] += c["delta"].get("content") or ""
        assert said == [c["message"]["content"] for c in echoed]


@pytest.mark.parametrize("path,body,prefix", [
    ("/v1/completions", {"prompt": "a", "max_tokens": 1}, "cmpl-"), (CHAT, {"messages": [{"role": "user", "content": "a"}], "max_tokens": 1}, "chatcmpl-"),
    ("/rerank", {"query": "a", "documents": ["b"]}, "rerank-"), ("/score", {"text_1": "a", "text_2": "b"}, "score-"),
    ("/pooling", {"input": "a"}, "pool-")])
def test_a_request_id_names_the_answer(server, path, body, prefix):
    name = "3f1c2a77-9f0e-4a50-a2f8-0c9f4b1d2e3f"
    assert server.post(path, {**body, "request_id": name}).json["id"] == prefix + name
    assert server.post(path, {**body, "request_id": ""}).json["id"] != server.post(path, body).json["id"]
    if prefix in ("cmpl-", "chatcmpl-"):
        frames = [json.loads(p) for p in server.frames(path, {**body, "request_id": name})[:-1]]
        assert {f["id"] for f in frames} == {prefix + name}
    for bad in ("a" * 39, "a b", 'a"', 5):
        r = server.post(path, {**body, "request_id": bad})
        assert r.status == 400 and r.json["error"]["param"] == "request_id", r.body


def test_logprobs_of_named_tokens(server):
    """vLLM's logprob_token_ids: these alone, in their order, with the log-probabilities that they have among all."""
    body = {"messages": [{"role": "user", "content": "a"}], "max_tokens": 3, "temperature": 0, "logprobs": True, "return_token_ids": True}
    plain = server.post(CHAT, {**body, "top_logprobs": 20}).json["choices"][0]
    named = [3, 200, 7, *{plain["token_ids"][0]}]
    for more in ({}, {"top_logprobs": 2}, {"prompt_logprobs": 1}):
        r = server.post(CHAT, {**body, **more, "logprob_token_ids": named, "return_tokens_as_token_ids": True}).json["choices"][0]
        assert r["message"]["content"] == plain["message"]["content"]
        for mine, theirs in zip(r["logprobs"]["content"], plain["logprobs"]["content"]):
            assert [t["token"] for t in mine["top_logprobs"]] == [f"token_id:{i}" for i in named]
            known = {tuple(t["bytes"]): t["logprob"] for t in theirs["top_logprobs"]}
            for t in mine["top_logprobs"]:
                assert t["logprob"] == known.get(tuple(t["bytes"]), t["logprob"]) and t["logprob"] < 0
            assert mine["logprob"] == theirs["logprob"]
        own = r["logprobs"]["content"][0]
        assert own["top_logprobs"][3]["logprob"] == own["logprob"]
    for bad, why in (({"logprob_token_ids": [10 ** 9]}, "logprob_token_ids"), ({"logprob_token_ids": list(range(21))}, "at most 20"),
                     ({"logprob_token_ids": [1], "logprobs": False}, "'logprobs': true"),
                     ({"logprob_token_ids": [1], "post_sampling_probs": True, "n_probs": 2}, "cannot be used together"),
                     ({"top_logprobs": -1}, "all 2048 tokens"), ({"prompt_logprobs": -1}, "at most 20 are returned")):
        r = server.post(CHAT, {**body, **bad})
        assert r.status == 400 and why in r.json["error"]["message"], r.body
    for field in ("logprobs", "prompt_logprobs"):
        r = server.post("/v1/completions", {"prompt": "a", "max_tokens": 1, field: -1})
        assert r.status == 400 and r.json["error"]["param"] == field and "vocabulary" in r.json["error"]["message"]


def test_usage_in_every_frame(server):
    frames = server.stream(PROMPT, **GREEDY, max_tokens=5,
                           stream_options={"include_usage": True, "continuous_usage_stats": True})
    used = [f["usage"]["completion_tokens"] for f in frames]
    assert used == sorted(used) and used[-1] == 5 and used[0] < 5 and len(used) > 3


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions"])
def test_usage_in_every_frame_is_the_last_one_so_far(server, path):
    """As vLLM: none before the first token, where the role stands, and what is cached is known from the first frame on."""
    words = "The dog went to the park. " * 30
    body = {"prompt": words} if path == "/v1/completions" else {"messages": [{"role": "user", "content": words}]}
    body.update(GREEDY, max_tokens=5, cache_salt="usage" + path, stream=True, ignore_eos=True,
                stream_options={"include_usage": True, "continuous_usage_stats": True})
    for n_cached_least in (0, 64):
        used = [json.loads(p)["usage"] for p in server.frames(path, body) if p != "[DONE]"]
        assert used[0]["completion_tokens"] == (0 if "chat" in path else 1)
        assert [u["completion_tokens"] for u in used] == sorted(u["completion_tokens"] for u in used)
        assert len({u["prompt_tokens"] for u in used}) == 1
        assert all(u["total_tokens"] == u["prompt_tokens"] + u["completion_tokens"] for u in used)
        cached = {u["prompt_tokens_details"]["cached_tokens"] for u in used}
        assert len(cached) == 1 and cached.pop() >= n_cached_least


def test_timings_and_progress(server):
    long = "The dog went to the park. " * 30
    fields = {"timings_per_token": True, "return_progress": True, "cache_salt": "progress"}
    frames = [json.loads(p) for p in server.frames("/completion", {"prompt": long, **GREEDY, "n_predict": 4,
                                                                   "stream": True, **fields})]
    n = frames[-1]["tokens_evaluated"]
    progress = [f["prompt_progress"] for f in frames if "prompt_progress" in f]
    assert progress and progress[-1]["processed"] == progress[-1]["total"] == n
    assert progress[0]["processed"] == progress[0]["cache"] == 0  # before the first step
    assert [p["processed"] for p in progress] == sorted({p["processed"] for p in progress})
    assert all(set(p) == {"total", "cache", "processed", "time_ms"} for p in progress)
    assert all("timings" in f for f in frames)
    again = [json.loads(p) for p in server.frames("/completion", {"prompt": long, **GREEDY, "n_predict": 4,
                                                                  "stream": True, **fields})]
    first = next(f["prompt_progress"] for f in again if "prompt_progress" in f)
    assert first["processed"] == first["cache"] > 0
    for path, body in ((CHAT, {"messages": [{"role": "user", "content": long}]}), ("/v1/completions", {"prompt": long})):
        frames = [json.loads(p) for p in server.frames(path, {**body, "max_tokens": 3, "stream": True, **fields})
                  if p != "[DONE]"]
        assert any("prompt_progress" in f for f in frames) and "timings" in frames[-1], path


def test_some_members_of_an_answer(server):
    r = native(server, response_fields=["content", "generation_settings/n_predict", "timings/predicted_n", "x", "x/y"])
    assert r == {"content": r["content"], "generation_settings/n_predict": 12, "timings/predicted_n": 12}
    assert r["content"]
    two = native(server, ["a", "b"], response_fields=["index"])
    assert two == [{"index": 0}, {"index": 1}]


def test_norms_of_vectors(server):
    def vector(**fields):
        return server.post("/v1/embeddings", {"input": PROMPT, **fields}).json["data"][0]["embedding"]

    raw, unit = vector(embd_normalize=-1), vector()
    length = math.sqrt(sum(x * x for x in raw))
    assert length != pytest.approx(1, abs=0.01)
    assert [x / length for x in raw] == pytest.approx(unit, abs=1e-5)
    assert vector(normalize=False) == raw == vector(use_activation=False) and vector(normalize=True) == unit
    assert sum(abs(x) for x in vector(embd_normalize=1)) == pytest.approx(1, abs=1e-4)
    assert sum(abs(x) ** 3 for x in vector(embd_normalize=3)) == pytest.approx(1, abs=1e-4)
    assert max(abs(x) for x in vector(embd_normalize=0)) == pytest.approx(32760, rel=1e-4)
    packed = base64.b64decode(vector(embd_normalize=-1, encoding_format="base64"))
    assert list(struct.unpack(f"<{len(raw)}f", packed)) == pytest.approx(raw, rel=1e-5)


# ---- chats

FUNCTION = {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"enum": ["Rome"]}},
                                              "required": ["city"], "additionalProperties": False}}


def test_functions_of_old(server):
    body = {"messages": [{"role": "user", "content": "Weather?"}], "functions": [FUNCTION],
            "function_call": {"name": "weather"}, "max_tokens": 60}
    choice = server.post(CHAT, body).json["choices"][0]
    call = choice["message"]["function_call"]
    assert (call["name"], json.loads(call["arguments"])) == ("weather", {"city": "Rome"})
    assert choice["finish_reason"] == "function_call" and "tool_calls" not in choice["message"]
    frames = [json.loads(p)["choices"][0] for p in server.frames(CHAT, {**body, "stream": True}) if p != "[DONE]"]
    calls = [f["delta"]["function_call"] for f in frames if "function_call" in f["delta"]]
    assert calls[0]["name"] == "weather" and json.loads("".join(c["arguments"] for c in calls)) == {"city": "Rome"}
    assert frames[-1]["finish_reason"] == "function_call"
    turn = [*body["messages"], {"role": "assistant", "content": None, "function_call": call},
            {"role": "function", "name": "weather", "content": "Sunny."}]
    r = server.post(CHAT, {"messages": turn, "functions": [FUNCTION], "max_tokens": 3})
    assert r.status == 200 and r.json["choices"][0]["finish_reason"] in ("stop", "length")
    r = server.post(CHAT, {**body, "tools": [{"type": "function", "function": FUNCTION}]})
    assert r.status == 400 and r.json["error"]["param"] == "functions"


def test_where_thoughts_go(start, tmp_path):
    """A template that opens a thought, and a grammar that begins with one: constrained texts are answers."""
    file = tmp_path / "t.jinja"
    file.write_text("{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}{# </think> #}")
    server = start("--chat-template", str(file))
    body = {"messages": [{"role": "user", "content": "Once"}], "max_tokens": 99, "temperature": 0,
            "grammar": 'root ::= "<think>ab cd</think>ef gh"'}

    def both(**fields):
        m = server.post(CHAT, {**body, **fields}).json["choices"][0]["message"]
        deltas = [json.loads(p)["choices"][0]["delta"] for p in server.frames(CHAT, {**body, **fields}) if p != "[DONE]"]
        return [(m["content"], m.get("reasoning_content", "")),
                tuple("".join(d.get(k, "") for d in deltas) for k in ("content", "reasoning_content"))]

    apart, inline = ("ef gh", "ab cd"), ("<think>ab cd</think>ef gh", "")
    assert both() == both(reasoning_format="auto") == both(reasoning_format="deepseek") == [apart, apart]
    assert both(reasoning_format="none") == [inline, inline]
    assert both(reasoning_format="deepseek-legacy") == [apart, inline]
    assert both(include_reasoning=False) == [("ef gh", "")] * 2
    r = server.post("/v1/messages", {**body, "include_reasoning": False}).json
    assert [b["type"] for b in r["content"]] == ["text"]
    cut = server.post(CHAT, {**body, "reasoning_format": "none", "grammar": 'root ::= "<think>ab"'}).json
    assert cut["choices"][0]["message"]["content"] == "<think>ab</think>"


def test_no_length_check_for_templates(server):
    messages = [{"role": "user", "content": "dog " * 5000}]
    r = server.post("/apply-template", {"messages": messages})
    assert r.status == 200 and len(r.json["prompt"]) > 20000
    r = server.post("/v1/messages/count_tokens", {"messages": messages})
    assert r.status == 200 and r.json["input_tokens"] > server.get("/v1/models").json["data"][0]["max_model_len"]


def test_formats_of_messages(server):
    schema = {"type": "object", "properties": {"a": {"enum": [7]}}, "required": ["a"], "additionalProperties": False}
    body = {"messages": [{"role": "user", "content": "a"}], "max_tokens": 60}
    form = {"type": "json_schema", "schema": schema}
    for fields in ({"output_format": form}, {"output_config": {"format": form, "effort": "max"}}):
        r = server.post("/v1/messages", {**body, **fields})
        assert json.loads(r.json["content"][0]["text"]) == {"a": 7}
    for fields, name in (({"output_config": {"effort": "x"}}, "output_config.effort"),
                         ({"output_config": {"format": {"type": "x"}}}, "output_config.format"),
                         ({"context_management": {"edits": [{"type": "compact_20260112"}]}}, "context_management")):
        r = server.post("/v1/messages", {**body, **fields})
        assert r.status == 400 and name in r.json["error"]["message"], r.body


def test_log_probabilities_of_responses(server):
    body = {"input": "Once", "max_output_tokens": 6, "temperature": 0, "include": ["message.output_text.logprobs"],
            "top_logprobs": 2, "reasoning": {"effort": "max"}}
    part = server.post("/v1/responses", body).json["output"][-1]["content"][0]
    assert "".join(p["token"] for p in part["logprobs"]).strip() == part["text"].strip() != ""
    assert all(len(p["top_logprobs"]) == 2 for p in part["logprobs"])
    body = server.post("/v1/responses", {**body, "stream": True}).body.decode()
    events = [json.loads(p.split("data: ", 1)[1]) for p in body.split("\n\n") if p]
    deltas = [p for e in events if e["type"] == "response.output_text.delta" for p in e["logprobs"]]
    done, = [e for e in events if e["type"] == "response.output_text.done"]
    assert done["logprobs"] == part["logprobs"], events
    assert deltas == part["logprobs"][:len(deltas)] and deltas
    assert events[-1]["response"]["output"][-1]["content"][0] == part
    assert server.post("/v1/responses", {"input": "a", "include": ["x"]}).json["error"]["param"] == "include"


def test_tokens_as_vllm_tells_them(server):
    r = server.post("/tokenize", {"prompt": "a dog", "return_token_strs": True, "add_special_tokens": False}).json
    assert "".join(r["token_strs"]) == "a dog" and len(r["token_strs"]) == r["count"]


def test_a_chats_shares(server):
    """llama-server gives them on chats as well: what is left of the probabilities once all has been cut."""
    fields = {"messages": [{"role": "user", "content": "Once"}], "logprobs": True, "top_logprobs": 4, "max_tokens": 3,
              "post_sampling_probs": True, "top_k": 4, "top_p": 1, "min_p": 0, "seed": 3}
    r = server.post("/v1/chat/completions", fields)
    assert r.status == 200, r.body
    content = r.json["choices"][0]["logprobs"]["content"]
    assert len(content) == 3
    for entry in content:
        assert "logprob" not in entry and 0 < entry["prob"] <= 1 and len(entry["top_probs"]) == 4
        assert abs(sum(t["prob"] for t in entry["top_probs"]) - 1) < 1e-4
    assert server.post("/v1/completions", {"prompt": "Once", "post_sampling_probs": True}).status == 400
