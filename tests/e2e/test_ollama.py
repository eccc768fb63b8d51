"""Ollama's API: answers whole and as lines, the options, errors, vectors and the pages about models."""
import datetime
import json

import jsonschema
import pytest

from quire import Server

GENERATE, CHAT, EMBED, SHOW = "/api/generate", "/api/chat", "/api/embed", "/api/show"
ASK = [{"role": "user", "content": "Tell me a story"}]
GREEDY = {"temperature": 0, "num_predict": 6}
NUMBERS = ("total_duration", "load_duration", "prompt_eval_count", "prompt_eval_duration", "eval_count",
           "eval_duration")
TOOL = {"type": "function", "function": {"name": "get_weather", "description": "The weather.", "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "maxLength": 6}}, "required": ["city"],
    "additionalProperties": False}}}


def generate(server, prompt="Once upon", **fields):
    options = {**GREEDY, **fields.pop("options", {})}
    return server.post(GENERATE, {"model": "quire-demo", "prompt": prompt, "stream": False, "options": options, **fields})


def chat(server, messages=ASK, **fields):
    options = {**GREEDY, **fields.pop("options", {})}
    return server.post(CHAT, {"model": "quire-demo", "messages": messages, "stream": False, "options": options, **fields})


def text_of(r):
    assert r.status == 200, r.body
    return r.json["response"]


def lines_of(r):
    assert r.status == 200 and r.headers["Content-Type"] == "application/x-ndjson", r.body
    assert r.body.endswith(b"\n")
    return [json.loads(line) for line in r.body.decode().split("\n")[:-1]]


def is_refused(r, name, status=400):
    assert r.status == status and list(r.json) == ["error"] and name in r.json["error"], r.body
    return True


def check_end(o):
    assert o["done"] is True and o["done_reason"] in ("stop", "length")
    assert all(isinstance(o[name], int) for name in NUMBERS)
    assert o["total_duration"] >= o["eval_duration"] > 0 and o["prompt_eval_duration"] > 0


# ---- answers

def test_a_whole_answer(server):
    o = generate(server).json
    assert set(o) == {"model", "created_at", "response", "done", "done_reason", "context", *NUMBERS}
    check_end(o)
    assert o["model"] == "quire-demo" and o["done_reason"] == "length" and o["eval_count"] == 6
    when = datetime.datetime.fromisoformat(o["created_at"].replace("Z", "+00:00"))
    assert abs((datetime.datetime.now(datetime.timezone.utc) - when).total_seconds()) < 60
    assert len(o["context"]) == o["prompt_eval_count"] + o["eval_count"]


def test_a_whole_chat(server):
    o = chat(server).json
    assert set(o) == {"model", "created_at", "message", "done", "done_reason", *NUMBERS}
    check_end(o)
    same = server.post("/v1/chat/completions", {"messages": ASK, "temperature": 0, "max_tokens": 6}).json
    assert o["message"] == {"role": "assistant", "content": same["choices"][0]["message"]["content"]}
    assert o["prompt_eval_count"] == same["usage"]["prompt_tokens"]


@pytest.mark.parametrize("path,body,get", [
    (GENERATE, {"prompt": "Once upon"}, lambda o: o["response"]),
    (GENERATE, {"prompt": "Once upon", "raw": True}, lambda o: o["response"]),
    (CHAT, {"messages": ASK}, lambda o: o["message"]["content"])])
def test_it_is_a_stream_unless_told_otherwise(server, path, body, get):
    body = {"model": "quire-demo", "options": GREEDY, **body}
    whole = server.post(path, {**body, "stream": False}).json
    lines = lines_of(server.post(path, body))
    assert len(lines) > 2 and "".join(map(get, lines)) == get(whole) != ""
    for o in lines[:-1]:
        assert o["done"] is False and not set(NUMBERS) & set(o)
    check_end(lines[-1])
    assert get(lines[-1]) == "" and lines[-1]["eval_count"] == 6
    assert lines[-1].get("context") == whole.get("context")
    assert ("context" in whole) == (path == GENERATE and "raw" not in body)
    assert lines_of(server.post(path, {**body, "stream": True}))[-1]["done"] is True


def test_generate_is_a_conversation_and_raw_is_a_text(server):
    one = chat(server, [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Once upon"}]).json
    assert text_of(generate(server, system="Be kind.")) == one["message"]["content"]
    assert generate(server, system="").json["prompt_eval_count"] < one["prompt_eval_count"]
    plain = server.complete("Once upon", temperature=0, max_tokens=6)
    raw = generate(server, raw=True)
    assert text_of(raw) == plain.json["choices"][0]["text"] and raw.json["eval_count"] == 6


def test_the_context_goes_on(server):
    """As if it had been one conversation: the tokens are those that were there."""
    first = generate(server, options={"num_predict": 3}).json
    second = generate(server, "And then", context=first["context"]).json
    alone = generate(server, "And then").json
    assert second["context"][:len(first["context"])] == first["context"]
    assert second["prompt_eval_count"] == len(first["context"]) + alone["prompt_eval_count"] - 1  # one BOS
    assert generate(server, "And then", context=[]).json["response"] == alone["response"]
    for bad in ("x", [-1], [10 ** 9], [1.5], ["a"]):
        is_refused(generate(server, context=bad), "context")
    is_refused(generate(server, context=first["context"] * 200, truncate=False), "context")
    assert generate(server, context=first["context"] * 200).status == 200


@pytest.mark.parametrize("path,body", [(GENERATE, {}), (GENERATE, {"prompt": ""}), (GENERATE, {"keep_alive": 0}),
                                       (CHAT, {}), (CHAT, {"messages": []}), (CHAT, {"messages": None})])
def test_nothing_asks_whether_the_model_is_there(server, path, body):
    r = server.post(path, {"model": "quire-demo", **body})
    assert r.status == 200 and r.json["done"] is True and r.json["done_reason"] == "load"
    assert r.json.get("response", r.json.get("message", {}).get("content")) == ""
    is_refused(server.post(path, {**body, "model": "nobody"}), "nobody", 404)
    is_refused(server.post(path, {**body, "model": 5}), "model")


def test_names_of_models(server):
    for name in ("quire-demo", "quire-demo:latest", "default"):
        assert chat(server, model=name).json["model"] == name
    for name in ("quire-demo:7b", ":latest", "x:latest", "quire-demo:latest:latest"):
        is_refused(chat(server, model=name), "does not exist", 404)
    assert server.post("/v1/completions", {"prompt": "a", "max_tokens": 1, "model": "quire-demo:latest"}).status == 200


def test_log_probabilities(server):
    for r, is_text in ((chat(server, logprobs=True, top_logprobs=2), False),
                       (generate(server, logprobs=True, top_logprobs=2, raw=True), True)):
        entries = r.json["logprobs"]
        assert len(entries) == 6 and all(len(e["top_logprobs"]) == 2 and e["logprob"] <= 0 for e in entries)
        text = r.json["response"] if is_text else r.json["message"]["content"]
        assert b"".join(bytes(e["bytes"]) for e in entries).decode() == text
    streamed = [e for o in lines_of(generate(server, logprobs=True, stream=True)) for e in o.get("logprobs", [])]
    assert len(streamed) == 6
    is_refused(chat(server, top_logprobs=2), "top_logprobs")
    is_refused(chat(server, logprobs=True, top_logprobs=21), "top_logprobs")


# ---- options

def test_options_that_are_obeyed(server):
    base = generate(server, options={"num_predict": 12})
    full = text_of(base)
    assert text_of(generate(server, options={"num_predict": 2})) == full[:len(text_of(generate(server, options={
        "num_predict": 2})))] != full
    assert generate(server, options={"num_predict": 0}).json["eval_count"] == 0
    stop = full[5:7]
    assert text_of(generate(server, options={"num_predict": 12, "stop": [stop]})) == full[:full.index(stop)]
    assert generate(server, options={"num_predict": 12, "stop": stop}).json["done_reason"] == "stop"
    warm = {"temperature": 1.5, "num_predict": 12}
    assert len({text_of(generate(server, options={**warm, "seed": i})) for i in range(4)}) > 1
    assert len({text_of(generate(server, options={**warm, "seed": 7})) for _ in range(3)}) == 1
    for name, value in {"top_k": 1, "top_p": 1e-6, "min_p": 1.0}.items():
        assert text_of(generate(server, options={**warm, name: value})) == full, name
    again = {"temperature": 0, "num_predict": 40}
    for name, value in {"repeat_penalty": 5.0, "presence_penalty": 2.0, "frequency_penalty": 2.0}.items():
        changed = text_of(generate(server, options={**again, name: value}))
        assert changed != text_of(generate(server, options=again)), name
        assert text_of(generate(server, options={**again, name: value, "repeat_last_n": 0})) == text_of(
            generate(server, options=again)), name


def test_the_defaults_are_ollamas(server):
    want = {"temperature": 0.8, "top_k": 40, "top_p": 0.9, "seed": 3, "num_predict": 20}
    least = {"seed": 3, "num_predict": 20}
    body = {"model": "quire-demo", "messages": ASK, "stream": False}
    assert server.post(CHAT, {**body, "options": want}).json["message"] == server.post(
        CHAT, {**body, "options": least}).json["message"]


def test_the_context_may_be_smaller(server):
    n = chat(server).json["prompt_eval_count"]
    r = chat(server, options={"num_ctx": n + 3, "num_predict": -1})
    assert r.json["done_reason"] == "length" and r.json["eval_count"] == 3
    assert chat(server, options={"num_ctx": 10 ** 6}).status == 200
    assert "context" in is_refused(chat(server, options={"num_ctx": n}, truncate=False), f"context length is {n} tokens") * "context"
    is_refused(chat(server, options={"num_ctx": -1}), "num_ctx")


@pytest.mark.parametrize("options,name", [
    ({"temperature": "hot"}, "temperature"), ({"temperature": 2e30}, "temperature"), ({"top_p": -0.1}, "top_p"), ({"top_k": 1.5}, "top_k"),
    ({"num_predict": -3}, "num_predict"), ({"num_predict": "5"}, "num_predict"), ({"stop": 5}, "stop"),
    ({"tfs_z": 0.5}, "tfs_z"), ({"mirostat": 1}, "mirostat"), ({"penalize_newline": False}, "penalize_newline"),
    ({"num_keep": "a"}, "num_keep"), ({"seed": "a"}, "seed"), ({"f16_kv": False}, "f16_kv"),
    ({"vocab_only": True}, "vocab_only"), ({"repeat_last_n": -2}, "repeat_last_n"), ({"min_p": 2}, "min_p")])
def test_options_that_are_refused(server, options, name):
    for r in (chat(server, options=options), generate(server, options=options)):
        is_refused(r, name)


@pytest.mark.parametrize("options", [
    {"num_batch": 512, "num_gpu": -1, "main_gpu": 0, "num_thread": 4, "low_vram": True, "numa": False,
     "use_mmap": True, "use_mlock": True, "logits_all": True, "num_keep": 24},
    {"tfs_z": 1.0, "penalize_newline": True, "mirostat": 0, "f16_kv": True, "vocab_only": False},
    {"seed": None, "stop": None, "no_such_option": 5}, {"stop": []}, {"typical_p": 1.0, "min_p": 0.0}])
def test_options_that_change_nothing(server, options):
    assert chat(server, options=options).json["message"] == chat(server).json["message"]


# ---- fields

@pytest.mark.parametrize("fields,name", [
    ({"images": ["iVBORw0KGgo="]}, "images"), ({"template": "{{ .Prompt }}"}, "template"), ({"shift": True}, "shift"),
    ({"_debug_render_only": True}, "_debug_render_only"), ({"format": "yaml"}, "format"), ({"format": 5}, "format"),
    ({"think": "a lot"}, "think"), ({"think": True}, "think"), ({"prompt": 5}, "prompt"),
    ({"system": 5}, "system"), ({"raw": 5}, "raw"), ({"width": 64}, "width"), ({"stream": "no"}, "stream"),
    ({"raw": True, "system": "Be kind."}, "system"), ({"raw": True, "context": [1]}, "context"),
    ({"raw": True, "template": "x"}, "template"), ({"suffix": 5}, "suffix"), ({"suffix": "end"}, "suffix")])
def test_fields_that_are_refused(server, fields, name):
    is_refused(generate(server, **fields), name)


@pytest.mark.parametrize("fields", [
    {"keep_alive": "5m"}, {"keep_alive": -1}, {"images": []}, {"template": ""}, {"suffix": ""}, {"format": ""},
    {"format": None}, {"think": False}, {"raw": False}, {"context": []}, {"system": None}, {"shift": False},
    {"truncate": True}, {"truncate": False}, {"options": None}])
def test_fields_that_change_nothing(server, fields):
    plain = {"model": "quire-demo", "prompt": "Once upon", "stream": False, "options": GREEDY}
    r = server.post(GENERATE, {**plain, **fields, "options": GREEDY})
    assert text_of(r) == text_of(server.post(GENERATE, plain))


@pytest.mark.parametrize("message,name", [
    ({"role": "wizard", "content": "a"}, "messages[0].role"), ({"content": "a"}, "messages[0].role"),
    ({"role": "user", "content": ["a"]}, "messages[0].content"), ("a", "messages[0]"),
    ({"role": "user", "content": "a", "images": ["aGk="]}, "messages[0].images"),
    ({"role": "assistant", "tool_calls": {}}, "messages[0].tool_calls"),
    ({"role": "assistant", "tool_calls": [{}]}, "messages[0].tool_calls[0].function"),
    ({"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}, "arguments"),
    ({"role": "assistant", "tool_calls": [{"function": {"arguments": {}}}]}, "name"),
    ({"role": "assistant", "content": "", "thinking": 5}, "messages[0].thinking"),
    ({"role": "tool", "content": "", "tool_name": 5}, "messages[0].tool_name")])
def test_messages_that_are_refused(server, message, name):
    is_refused(chat(server, [message]), name)


def test_roles_are_read_as_ollama_does(server):
    assert chat(server, [{"role": "USER", "content": "Tell me a story"}]).json["message"] == chat(server).json["message"]
    assert chat(server, [*ASK, {"role": "assistant"}, {"role": "user", "content": None}]).status == 200


def test_a_long_conversation_loses_its_oldest_messages(server):
    """But not those of the system, nor the last."""
    head, last = {"role": "system", "content": "Be kind."}, {"role": "user", "content": "And now"}
    turns = [{"role": "user" if i % 2 == 0 else "assistant", "content": f"{i} is a number. " * 4} for i in range(100)]
    long = [head, *turns, last]
    o = chat(server, long, options={"num_ctx": 200}).json
    assert 100 < o["prompt_eval_count"] <= 194 and o["eval_count"] == 6
    counts = [chat(server, [head, *turns[i:], last]).json.get("prompt_eval_count", 10 ** 6) for i in range(85, 101)]
    kept = next(i for i, n in enumerate(counts) if n <= 194)
    assert o["prompt_eval_count"] == counts[kept]
    assert o["message"] == chat(server, [head, *turns[85 + kept:], last]).json["message"]
    is_refused(chat(server, long, options={"num_ctx": 200}, truncate=False), "context")


def test_what_is_too_long_by_itself_loses_its_middle(server):
    """As Ollama cuts it (llm/llama_server.go): num_keep tokens and BOS stay, and the last ones, so that half of the rest is free."""
    words = " ".join(f"{i} is a number." for i in range(400))
    one, last = {"role": "user", "content": words}, {"role": "system", "content": "Be kind."}
    tokens = server.post("/tokenize", {"content": words, "add_special": True}).json["tokens"]
    for num_ctx, num_keep in ((50, None), (64, 20), (100, 0), (50, 49), (50, 300), (50, -1)):
        options = {"num_ctx": num_ctx, "num_predict": 1, **({} if num_keep is None else {"num_keep": num_keep})}
        keep = min((4 if num_keep is None else len(tokens) if num_keep < 0 else num_keep) + 1, num_ctx - 1)
        n = num_ctx - max((num_ctx - keep) // 2, 1)
        for r in (chat(server, [one], options=options), chat(server, [*ASK, one], options=options),
                  chat(server, [last, one], options=options), generate(server, words, options=options)):
            assert r.status == 200 and r.json["prompt_eval_count"] == n, r.body
        cut = tokens[:keep] + tokens[len(tokens) - (n - keep):]
        raw = generate(server, words, raw=True, stream=False, options={**options, "temperature": 0}).json
        assert raw["prompt_eval_count"] == n
        same = server.post("/completion", {"prompt": cut, "n_predict": 1, "temperature": 0}).json
        assert raw["response"] == same["content"]
    is_refused(chat(server, [one], options={"num_ctx": 50}, truncate=False), "context")
    is_refused(chat(server, [one], options={"num_ctx": 50}, shift=False), "context")
    is_refused(generate(server, words, options={"num_ctx": 50}, truncate=False), "context")


# ---- constraints, tools, thoughts

def test_formats(server):
    schema = {"type": "object", "properties": {"a": {"enum": ["x", "y"]}}, "required": ["a"],
              "additionalProperties": False}
    options = {"num_predict": 100}
    for r in (chat(server, format=schema, options=options), generate(server, format=schema, options=options, raw=True)):
        o = r.json
        jsonschema.validate(json.loads(o["response"] if "response" in o else o["message"]["content"]), schema)
        assert o["done_reason"] == "stop"
    lines = lines_of(generate(server, format=schema, options=options, stream=True))
    jsonschema.validate(json.loads("".join(o["response"] for o in lines)), schema)
    text = chat(server, format="json", options={"num_predict": 5}).json["message"]["content"]
    assert text.lstrip().startswith("{")
    is_refused(chat(server, format={"type": "nothing"}), "'format'")
    is_refused(server.post(CHAT, {"model": "quire-demo", "messages": ASK, "options": []}), "options")


@pytest.fixture(scope="module")
def hermes(tmp_path_factory):
    """A template whose marks are Hermes', and which prints what it is given."""
    file = tmp_path_factory.mktemp("ollama") / "template.jinja"
    file.write_text(
        "{% for t in tools or [] %}{{ t.function.name }}\n{% endfor %}{% for m in messages %}<|{{ m.role }}|>"
        "{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}{{ m.name }}{{ m.content }}"
        "{% for c in m.tool_calls or [] %}<tool_call>{{ c.function | tojson }}</tool_call>{% endfor %}{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>{% if enable_thinking == false %}<think></think>{% endif %}"
        "{% endif %}")
    s = Server("--chat-template", str(file))
    yield s
    assert s.stop() == 0


def test_tools(hermes):
    """A call comes out as a whole, with an object as its arguments."""
    fields = {"tools": [TOOL], "tool_choice": "required", "options": {"num_predict": 200}}
    o = chat(hermes, **fields).json
    (call,) = o["message"]["tool_calls"][:1]
    assert o["message"]["content"] == "" and o["done_reason"] == "stop"
    assert call["function"]["name"] == "get_weather" and call["function"]["index"] == 0 and call["id"]
    jsonschema.validate(call["function"]["arguments"], TOOL["function"]["parameters"])
    lines = lines_of(chat(hermes, stream=True, **fields))
    calls = [c for line in lines for c in line["message"].get("tool_calls", [])]
    assert [c["function"] for c in calls] == [c["function"] for c in o["message"]["tool_calls"]]
    assert all(line["message"]["role"] == "assistant" for line in lines)
    is_refused(chat(hermes, tools={}), "tools")
    is_refused(chat(hermes, tools=[{"type": "function", "function": {}}]), "name")


def test_calls_and_results_reach_the_template(hermes):
    turns = [*ASK, {"role": "assistant", "content": "", "thinking": "Rain?", "tool_calls": [
        {"function": {"name": "get_weather", "arguments": {"city": "Bonn"}}}]},
        {"role": "tool", "tool_name": "get_weather", "content": "rain"}]
    n = chat(hermes, turns).json["prompt_eval_count"]
    for path in (("1", "thinking"), ("1", "tool_calls"), ("2", "tool_name")):
        less = [{k: v for k, v in m.items() if (str(i), k) != path} for i, m in enumerate(turns)]
        assert chat(hermes, less).json["prompt_eval_count"] < n, path
    more = json.loads(json.dumps(turns))
    more[1]["tool_calls"][0]["function"]["arguments"]["city"] = "Bonn on the river Rhine"
    assert chat(hermes, more).json["prompt_eval_count"] > n


def test_calls_without_ids_get_some(start, tmp_path):
    """Some templates take none but those of nine letters and digits, and Ollama's clients leave them away."""
    file = tmp_path / "strict.jinja"
    file.write_text(
        "{% set ns = namespace(ids=[]) %}{% for m in messages %}{% for c in m.tool_calls or [] %}"
        "{% if c.id is not defined or c.id | length != 9 %}{{ raise_exception('no id') }}{% endif %}"
        "{% set ns.ids = ns.ids + [c.id] %}{% endfor %}"
        "{% if m.role == 'tool' %}{% if m.tool_call_id != ns.ids[0] %}{{ raise_exception('whose?') }}{% endif %}"
        "{% set ns.ids = ns.ids[1:] %}{% endif %}{{ m.content }}{% endfor %}")
    s = start("--chat-template", str(file))
    call = {"function": {"name": "f", "arguments": {}}}
    given = {"id": "abcdefghi", **call}
    results = [{"role": "tool", "content": "1"}, {"role": "tool", "content": "2"}]
    for calls, answers in (([call, call], results), ([given, call], results),
                           ([call, given], [results[0], {**results[1], "tool_call_id": "abcdefghi"}])):
        turns = [*ASK, {"role": "assistant", "tool_calls": calls}, *answers]
        assert chat(s, [*turns, *turns]).status == 200
    is_refused(chat(s, [*ASK, {"role": "assistant", "tool_calls": [{"id": "a", **call}]}]), "no id")


def test_thoughts(hermes):
    n = {think: chat(hermes, think=think).json["prompt_eval_count"] for think in (True, False, "low")}
    assert n[False] > n[True] == n["low"]
    # Thoughts come apart: the constraint waits for their end.
    grammar = {"type": "object", "properties": {}, "additionalProperties": False}
    r = chat(hermes, think=False, format=grammar, options={"num_predict": 50})
    assert json.loads(r.json["message"]["content"]) == {} and "thinking" not in r.json["message"]
    assert "thinking" in hermes.post(SHOW, {"model": "quire-demo"}).json["capabilities"]


# ---- vectors

def test_vectors(server):
    one = server.post(EMBED, {"model": "quire-demo", "input": "Once upon"}).json
    assert set(one) == {"model", "embeddings", "total_duration", "load_duration", "prompt_eval_count"}
    two = server.post(EMBED, {"model": "quire-demo", "input": ["Once upon", "a time"]}).json
    assert len(two["embeddings"]) == 2 and two["embeddings"][0] == one["embeddings"][0]
    own = server.post("/v1/embeddings", {"input": "Once upon"}).json
    assert one["embeddings"][0] == own["data"][0]["embedding"]
    assert one["prompt_eval_count"] == own["usage"]["prompt_tokens"]
    for n in (3, 0, 10 ** 6):
        r = server.post(EMBED, {"model": "quire-demo", "input": "Once upon", "dimensions": n}).json["embeddings"][0]
        assert len(r) == (3 if n == 3 else len(one["embeddings"][0]))
        assert abs(sum(x * x for x in r) - 1) < 1e-4
    for nothing in ("", [], None):
        assert server.post(EMBED, {"model": "quire-demo", "input": nothing}).json["embeddings"] == []
    for bad in (5, [5], ["a", 5], {"a": 1}, [[1, 2]]):
        is_refused(server.post(EMBED, {"model": "quire-demo", "input": bad}), "input")
    is_refused(server.post(EMBED, {"model": "quire-demo", "input": "a", "dimensions": -1}), "dimensions")
    is_refused(server.post(EMBED, {"model": "quire-demo", "input": "a", "truncate": 5}), "truncate")
    is_refused(server.post(EMBED, {"model": "nobody", "input": "a"}), "nobody", 404)


def test_long_texts_lose_their_end(server):
    body = {"model": "quire-demo", "input": "a b c " * 100}
    r = server.post(EMBED, {**body, "options": {"num_ctx": 20}}).json
    assert r["prompt_eval_count"] == 20
    assert server.post(EMBED, {**body, "options": {"num_ctx": 20}, "truncate": True}).json["embeddings"] == r["embeddings"]
    assert r["embeddings"] != server.post(EMBED, body).json["embeddings"]
    is_refused(server.post(EMBED, {**body, "options": {"num_ctx": 20}, "truncate": False}), "context length is 20 tokens")


def test_the_older_vectors(server):
    """As the model gives them: of any length."""
    r = server.post("/api/embeddings", {"model": "quire-demo", "prompt": "Once upon", "keep_alive": "5m"}).json
    assert list(r) == ["embedding"]
    new = server.post(EMBED, {"model": "quire-demo", "input": "Once upon"}).json["embeddings"][0]
    norm = sum(x * x for x in r["embedding"]) ** 0.5
    assert abs(norm - 1) > 0.1 and all(abs(a / norm - b) < 1e-4 for a, b in zip(r["embedding"], new))
    assert server.post("/api/embeddings", {"model": "quire-demo", "prompt": ""}).json == {"embedding": []}
    is_refused(server.post("/api/embeddings", {"model": "quire-demo", "prompt": ["a"]}), "prompt")


# ---- pages

def test_models(server):
    (tag,) = server.get("/api/tags").json["models"]
    (loaded,) = server.get("/api/ps").json["models"]
    meta = server.get("/v1/models").json["data"][0]["meta"]
    assert tag["name"] == tag["model"] == loaded["name"] == "quire-demo:latest" and len(tag["digest"]) == 64
    assert tag["size"] == meta["size"] and tag["details"]["family"] == "llama"
    assert tag["details"]["quantization_level"] == "Q8_0" and tag["details"]["parameter_size"].endswith("M")
    assert "completion" in tag["capabilities"] and loaded["context_length"] > 0
    for when in (tag["modified_at"], loaded["expires_at"]):
        datetime.datetime.fromisoformat(when.replace("Z", "+00:00"))
    for name in (tag["name"], "quire-demo"):
        for field in ("model", "name"):
            o = server.post(SHOW, {field: name}).json
            assert o["details"] == tag["details"] and o["capabilities"] == tag["capabilities"]
            assert o["model_info"]["general.architecture"] == "llama" and o["template"]
            assert o["model_info"]["llama.embedding_length"] == meta["n_embd"]
            assert "temperature 0.8\n" in o["parameters"]
    is_refused(server.post(SHOW, {"model": "nobody"}), "nobody", 404)
    is_refused(server.post(SHOW, {}), "model")


@pytest.fixture(scope="module")
def pair():
    """The demo model under two names, of which the second has a tag."""
    s = Server("--kv-memory", "64m", model="one=,two:7b=")
    yield s
    assert s.stop() == 0


def test_each_of_several_models_is_shown(pair):
    """By its own name, under the newer and the older member."""
    assert [m["name"] for m in pair.get("/api/tags").json["models"]] == ["one:latest", "two:7b"]
    for field in ("model", "name"):
        for name, own in (("one:latest", "one"), ("one", "one"), ("two:7b", "two:7b")):
            assert pair.post(SHOW, {field: name}).json["modelfile"] == f"FROM {own}\n"
        is_refused(pair.post(SHOW, {field: "two"}), "two", 404)
    o = chat(pair, model="two:7b").json
    assert o["model"] == "two:7b" and chat(pair, model="one:latest").json["message"] == o["message"]
    is_refused(chat(pair, model="two:latest"), "two:latest", 404)


def test_checks_of_life(server):
    assert server.get("/").body == b"Ollama is running" and server.request("HEAD", "/").status == 200
    assert server.get("/nothing").status == 404
    assert all(part.isdigit() for part in server.get("/api/version").json["version"].split("."))
    assert server.request("HEAD", "/api/tags").status == 200


@pytest.mark.parametrize("path", ["pull", "push", "create", "copy", "delete", "blobs/sha256:abc"])
def test_models_are_not_changed(server, path):
    r = server.request("DELETE" if path == "delete" else "POST", f"/api/{path}", {"model": "quire-demo"})
    is_refused(r, "settings")
    assert chat(server).status == 200


def test_errors_have_ollamas_shape(server):
    for r in (server.post(CHAT, "{", headers={"Content-Type": "application/json"}), server.post(CHAT, [1]),
              server.get(CHAT), server.post("/api/tags", {}), server.post(CHAT, {"model": "x", "messages": ASK})):
        assert r.status >= 400 and list(r.json) == ["error"] and isinstance(r.json["error"], str) and r.json["error"]


def test_streams_that_fail(start):
    """Their last line is an error."""
    s = start("--max-sequences", "1")
    body = {"messages": ASK, "deadline_ms": 1, "options": {"num_predict": 900}, "format": {"type": "array", "minItems": 900}}
    r = s.post(CHAT, body)
    lines = lines_of(r)
    assert list(lines[-1]) == ["error"] and "time" in lines[-1]["error"]
    assert all(not o["done"] for o in lines[:-1])
    is_refused(s.post(CHAT, {**body, "stream": False}), "time", 408)


def test_open_webuis_calls(server):
    """What its backend sends to either API: headers of its own, all of its options, one of which nobody has."""
    headers = {"Authorization": "Bearer x", "X-OpenWebUI-User-Name": "A%20B", "X-OpenWebUI-Chat-Id": "1"}
    options = {"temperature": 0.5, "top_p": 0.9, "seed": 1, "mirostat": 0, "mirostat_eta": 0.1, "mirostat_tau": 5, "num_ctx": 512,
               "num_batch": 512, "num_keep": 4, "repeat_last_n": 64, "tfs_z": 1, "top_k": 40, "min_p": 0, "use_mmap": True,
               "use_mlock": False, "num_thread": 2, "num_gpu": 0, "num_predict": 8, "repeat_penalty": 1.1,
               "new_topic_penalty": 0.5, "stop": ["x"]}
    assert server.get("/api/version", headers=headers).json["version"]
    [tag] = server.get("/api/tags", headers=headers).json["models"]
    [loaded] = server.get("/api/ps", headers=headers).json["models"]
    assert loaded["name"] == tag["name"] and datetime.datetime.fromisoformat(loaded["expires_at"])
    messages = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Once"}]
    r = server.post("/api/chat", {"model": tag["model"], "messages": messages, "stream": True, "options": options,
                                  "keep_alive": "5m", "format": None}, headers=headers)
    assert r.status == 200 and json.loads(r.body.splitlines()[-1])["done"], r.body
    assert server.post("/api/embed", {"model": tag["model"], "input": ["a", "b"], "truncate": True}, headers=headers).status == 200
    [model] = server.get("/v1/models", headers=headers).json["data"]
    r = server.post("/v1/chat/completions", {
        "model": model["id"], "messages": [{"role": "user", "content": [{"type": "text", "text": "Once"}]}], "stream": True,
        "stream_options": {"include_usage": True}, "max_tokens": 5, "frequency_penalty": 0.1, "stop": []}, headers=headers)
    assert r.status == 200 and r.body.endswith(b"data: [DONE]\n\n"), r.body
    titled = server.post("/v1/chat/completions", {"model": model["id"], "messages": messages, "stream": False, "max_tokens": 5},
                         headers=headers)
    assert titled.json["choices"][0]["message"]["content"]
