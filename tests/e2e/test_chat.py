"""POST /v1/chat/completions and the routes that share its template."""
import json

import jsonschema
import pytest

from quire import in_threads

ONCE = [{"role": "user", "content": "Once upon a time"}]
CHAT = "/v1/chat/completions"


def chat(server, messages=ONCE, status=200, **fields):
    r = server.post(CHAT, {"messages": messages, **fields})
    assert r.status == status, r.body
    return r.json


def frames(server, path=CHAT, **fields):
    """The data frames of a stream; [DONE] ends it."""
    parts = server.frames(path, fields)
    assert parts.pop() == "[DONE]" and all(p.startswith("{") for p in parts)
    return [json.loads(p) for p in parts]


def prompt_ids(server, messages):
    body = {"content": prompt(server, messages), "add_special": False, "parse_special": True}
    return server.post("/tokenize", body).json["tokens"]


def prompt(server, messages, **fields):
    r = server.post("/apply-template", {"messages": messages, **fields})
    assert r.status == 200, r.body
    return r.json["prompt"]


# ---- the answer ----

def test_shape(server):
    a = chat(server, max_tokens=5, temperature=0)
    assert list(a) == ["id", "object", "created", "model", "system_fingerprint", "choices", "usage"]
    assert a["object"] == "chat.completion" and a["id"].startswith("chatcmpl-")
    [c] = a["choices"]
    assert list(c) == ["index", "message", "logprobs", "finish_reason"]
    assert list(c["message"]) == ["role", "content", "refusal"]
    assert c["message"]["role"] == "assistant" and c["logprobs"] is None and c["finish_reason"] == "length"
    assert a["usage"]["completion_tokens"] == 5
    assert a["usage"]["completion_tokens_details"] == {"reasoning_tokens": 0}


def test_it_is_the_completion_of_its_prompt(server):
    whole = server.complete(prompt_ids(server, ONCE), max_tokens=20, temperature=0).text
    assert chat(server, max_tokens=20, temperature=0)["choices"][0]["message"]["content"] == whole


def test_it_ends_by_itself(server):
    """Without max_tokens an answer is as long as the model makes it."""
    a = chat(server, seed=1)
    assert a["choices"][0]["finish_reason"] == "stop" and a["usage"]["completion_tokens"] > 16


def test_logprobs(server):
    c = chat(server, max_tokens=6, temperature=0, logprobs=True, top_logprobs=3)["choices"][0]
    entries = c["logprobs"]["content"]
    assert c["logprobs"]["refusal"] is None and len(entries) == 6
    assert b"".join(bytes(e["bytes"]) for e in entries).decode() == c["message"]["content"]
    for e in entries:
        assert list(e) == ["token", "logprob", "bytes", "top_logprobs"] and len(e["top_logprobs"]) == 3
        tops = [t["logprob"] for t in e["top_logprobs"]]
        assert tops == sorted(tops, reverse=True) and e["top_logprobs"][0]["token"] == e["token"]
    legacy = server.complete(prompt_ids(server, ONCE), max_tokens=6, temperature=0, logprobs=3).json
    assert [e["logprob"] for e in entries] == legacy["choices"][0]["logprobs"]["token_logprobs"]
    assert all(e["top_logprobs"] == [] for e in
               chat(server, max_tokens=2, logprobs=True)["choices"][0]["logprobs"]["content"])


def test_frames(server):
    got = frames(server, messages=ONCE, max_tokens=4, temperature=0, stream_options={"include_usage": True})
    assert len({(f["id"], f["created"], f["object"]) for f in got}) == 1
    assert got[0]["object"] == "chat.completion.chunk"
    assert got[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    *middle, last, usage = got[1:]
    assert all(list(f["choices"][0]["delta"]) == ["content"] and f["choices"][0]["delta"]["content"]
               and f["choices"][0]["finish_reason"] is None and f["usage"] is None for f in middle)
    assert last["choices"][0]["delta"] == {} and last["choices"][0]["finish_reason"] == "length"
    assert usage["choices"] == [] and usage["usage"]["completion_tokens"] == 4
    text = "".join(f["choices"][0]["delta"]["content"] for f in middle)
    assert text == chat(server, max_tokens=4, temperature=0)["choices"][0]["message"]["content"]


def test_logprobs_are_the_same_streamed(server):
    fields = {"messages": ONCE, "max_tokens": 12, "seed": 3, "logprobs": True, "top_logprobs": 1}
    whole = server.post(CHAT, fields).json["choices"][0]["logprobs"]["content"]
    parts = [f["choices"][0]["logprobs"] for f in frames(server, **fields)]
    assert [e for p in parts if p for e in p["content"]] == whole


@pytest.mark.parametrize("base", range(0, 500, 100))
def test_streams_say_the_same(server, base):
    """Stop strings and characters that lie across tokens: a stream's sum is the whole answer, for each
    of five hundred seeds."""
    def one(seed):
        fields = {"messages": [{"role": "user", "content": "Tell me of a café 🐻 and a naïve bear"}],
                  "max_tokens": 24, "seed": seed, "temperature": 1.5, "stop": ["e t", "🐻🐻", "ère", "\n\n"]}
        whole = server.post(CHAT, fields).json["choices"][0]
        deltas = [f["choices"][0] for f in frames(server, **fields)]
        assert "".join(d["delta"].get("content", "") for d in deltas) == whole["message"]["content"]
        assert deltas[-1]["finish_reason"] == whole["finish_reason"]
        assert not any(s in whole["message"]["content"] for s in fields["stop"])
    for seed in range(base, base + 100, 20):
        in_threads([lambda s=s: one(s) for s in range(seed, seed + 20)])


def test_choices_of_a_stream(server):
    got = frames(server, messages=ONCE, n=3, seed=5, max_tokens=8)
    whole = chat(server, n=3, seed=5, max_tokens=8)["choices"]
    for c in whole:
        mine = [f["choices"][0] for f in got if f["choices"][0]["index"] == c["index"]]
        assert mine[0]["delta"]["role"] == "assistant" and mine[-1]["finish_reason"] == c["finish_reason"]
        assert "".join(m["delta"].get("content", "") for m in mine) == c["message"]["content"]


# ---- the prompt ----

def test_template(server):
    assert prompt(server, ONCE) == "<|begin|><|user|>Once upon a time<|end|><|assistant|>"
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert "<|user|>a\nb<|end|>" in prompt(server, [{"role": "user", "content": parts}])
    assert "<|system|>Be brief.<|end|>" in prompt(server, [{"role": "developer", "content": "Be brief."}] + ONCE)
    assert prompt(server, ONCE, add_generation_prompt=False).endswith("a time<|end|>")


def test_continue_final_message(server):
    messages = ONCE + [{"role": "assistant", "content": " there was a bear"}]
    assert prompt(server, messages, continue_final_message=True).endswith("<|assistant|>there was a bear")
    a = chat(server, messages, continue_final_message=True, max_tokens=3, temperature=0)
    assert a["choices"][0]["message"]["content"]
    for bad in (ONCE, ONCE + [{"role": "assistant", "content": None, "tool_calls": []}]):
        e = chat(server, bad, status=400, continue_final_message=True)["error"]
        assert e["param"] == "continue_final_message"


def test_settings(start, tmp_path):
    file = tmp_path / "own.jinja"
    file.write_text("{{ messages | length }} {{ mood | default('calm') }}{% if mood == 'bad' %}{{ raise_exception('no: ' + mood) }}{% endif %}")
    server = start("--chat-template", str(file))
    assert prompt(server, ONCE) == "1 calm"
    assert prompt(server, ONCE, chat_template_kwargs={"mood": "gay"}) == "1 gay"
    e = chat(server, status=400, chat_template_kwargs={"mood": "bad"})["error"]
    assert "line 1" in e["message"] and "no: bad" in e["message"]
    file.write_text("a\n{% if %}")
    server = start("--chat-template", str(file))
    assert server.complete("x", max_tokens=1).status == 200
    assert "line 2" in chat(server, status=400)["error"]["message"]
    assert prompt(start("--chat-template", "chatml"), ONCE).endswith("<|im_end|>\n<|im_start|>assistant\n")
    assert prompt(start("--chat-template", "plain"), ONCE) == "Once upon a time\n"


# ---- what is refused ----

BAD_MESSAGES = [
    ("messages", "hello"), ("messages", []), ("messages[0].role", [{"content": "x"}]),
    ("messages[0]", ["x"]), ("messages[0].role", [{"role": "king", "content": "x"}]),
    ("messages[0].content", [{"role": "user"}]), ("messages[0].content", [{"role": "user", "content": 7}]),
    ("messages[0].content[0]", [{"role": "user", "content": ["x"]}]),
    ("messages[0].content[1].type", [{"role": "user", "content": [
        {"type": "text", "text": "x"}, {"type": "image_url", "image_url": {"url": "x"}}]}]),
    ("messages[0].content[0].text", [{"role": "user", "content": [{"type": "text"}]}]),
    ("messages[1].tool_calls", [{"role": "user", "content": "x"}, {"role": "assistant", "tool_calls": 3}]),
    ("messages[0].tool_calls[0].function", [{"role": "assistant", "tool_calls": [{"id": "a"}]}]),
    ("messages[0].reasoning_content", [{"role": "assistant", "content": "x", "reasoning_content": 1}]),
]


@pytest.mark.parametrize("param,messages", BAD_MESSAGES)
def test_bad_messages(server, param, messages):
    e = chat(server, messages, status=400)["error"]
    assert e["param"].startswith(param) and f"'{e['param']}'" in e["message"]


TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
BAD_TOOLS = [
    ("tools", {"tools": {}}), ("tools[0]", {"tools": [1]}), ("tools[0].type", {"tools": [{"type": "x"}]}),
    ("tools[0].function", {"tools": [{"type": "function"}]}),
    ("tools[1].function.name", {"tools": [TOOL, {"type": "function", "function": {"name": "a b"}}]}),
    ("tools[0].function.parameters", {"tools": [{"type": "function", "function": {"name": "f", "parameters": []}}]}),
    ("tool_choice", {"tools": [TOOL], "tool_choice": "maybe"}), ("tool_choice", {"tool_choice": "required"}),
    ("tool_choice.type", {"tools": [TOOL], "tool_choice": {"type": "tool"}}),
    ("tool_choice", {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "other"}}}),
    ("top_logprobs", {"top_logprobs": 2}), ("top_logprobs", {"logprobs": True, "top_logprobs": 21}),
    ("logprobs", {"logprobs": 3}), ("chat_template_kwargs", {"chat_template_kwargs": {"messages": []}}),
    ("reasoning_effort", {"reasoning_effort": "huge"}), ("max_completion_tokens", {"max_completion_tokens": -2}),
]


@pytest.mark.parametrize("param,fields", BAD_TOOLS)
def test_bad_fields(server, param, fields):
    e = chat(server, status=400, **fields)["error"]
    assert e["param"] == param and param in e["message"]


def test_fields_of_the_other_endpoint_are_unknown(server):
    before = server.metrics()["quire_unknown_fields_total"]
    chat(server, max_tokens=1, prompt="x", best_of=1, suffix="y")
    assert server.metrics()["quire_unknown_fields_total"] == before + 3


# ---- the other shapes ----

def test_messages(server):
    body = {"system": [{"type": "text", "text": "Tell."}], "messages": ONCE, "max_tokens": 6, "temperature": 0}
    a = server.post("/v1/messages", body).json
    assert list(a) == ["id", "type", "role", "model", "content", "stop_reason", "stop_sequence", "usage"]
    same = chat(server, [{"role": "system", "content": "Tell."}] + ONCE, max_tokens=6, temperature=0)
    assert a["content"] == [{"type": "text", "text": same["choices"][0]["message"]["content"]}]
    assert a["stop_reason"] == "max_tokens"
    used = a["usage"]
    assert used["input_tokens"] + used["cache_read_input_tokens"] == same["usage"]["prompt_tokens"]
    counted = server.post("/v1/messages/count_tokens", {"system": "Tell.", "messages": ONCE}).json
    assert counted == {"input_tokens": same["usage"]["prompt_tokens"]}


@pytest.mark.parametrize("name,fields", [
    ("max_tokens", {"max_tokens": None}), ("messages", {"messages": []}), ("n", {"n": 2}),
    ("messages[0].role", {"messages": [{"role": "king", "content": "x"}]}),
    ("messages[0].content[0].type", {"messages": [{"role": "user", "content": [{"type": "image"}]}]}),
    ("messages[0].content[0].tool_use_id", {"messages": [{"role": "user", "content": [{"type": "tool_result"}]}]}),
    ("messages[0].content[0].input", {"messages": [{"role": "assistant", "content": [
        {"type": "tool_use", "id": "a", "name": "f", "input": "x"}]}]}),
    ("system", {"system": 3}), ("stop_sequences", {"stop_sequences": "x"}), ("tools", {"tools": 3}),
    ("tools[0]", {"tools": [{"type": "web_search_20250305", "name": "w"}]}),
    ("tools[0].name", {"tools": [{"name": "a b", "input_schema": {}}]}), ("messages", {"messages": None, "system": "x"}),
    ("tool_choice", {"tool_choice": {"type": "tool", "name": "g"}, "tools": [{"name": "f", "input_schema": {}}]}),
    ("stop", {"stop_sequences": ["x"], "stop": 1}),
    ("tool_choice", {"tool_choice": {"type": "perhaps"}}), ("thinking.type", {"thinking": {"type": "x"}}),
])
def test_bad_messages_in_anthropics_shape(server, name, fields):
    body = {"messages": ONCE, "max_tokens": 2, **fields}
    r = server.post("/v1/messages", {k: v for k, v in body.items() if v is not None})
    assert r.status == 400 and r.json["type"] == "error", r.body
    assert r.json["error"]["type"] == "invalid_request_error" and f"'{name}'" in r.json["error"]["message"]


def test_anthropics_shape_of_early_errors(server):
    r = server.request("POST", "/v1/messages", "{}", {"Content-Type": "text/html"})
    assert r.status == 415 and r.json["type"] == "error"


def test_a_thread_is_refused_so_that_clients_go_on_without(server):
    body = {"messages": ONCE, "max_tokens": 2}
    for thread in ({"type": "create"}, {"type": "continue", "previous_message_id": "msg_1"}):
        error = server.post("/v1/messages", {**body, "thread": thread}).json["error"]
        assert error["type"] == "invalid_request_error" and "'thread'" in error["message"], error
        assert error["details"] == {"error_code": "thread_unsupported_request", "unsupported": ["thread"]}
    assert "details" not in server.post("/v1/messages", {**body, "temperature": 9}).json["error"]


def test_tools_and_results_are_in_the_prompt(start, tmp_path):
    file = tmp_path / "t.jinja"
    file.write_text("{% for m in messages %}[{{ m.role }}|{{ m.content }}|{{ m.tool_calls | tojson if m.tool_calls }}"
                    "|{{ m.tool_call_id }}]{% endfor %}{{ tools | tojson }}")
    server = start("--chat-template", str(file))
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{\"at\": 1}"}}
    openai = ONCE + [{"role": "assistant", "content": "Hm", "tool_calls": [call]},
                     {"role": "tool", "tool_call_id": "c1", "content": "A cat."}]
    text = prompt(server, openai, tools=[TOOL])
    assert '"arguments": {"at": 1}' in text and text.endswith(json.dumps([TOOL]))
    anthropic = {"messages": ONCE + [
        {"role": "assistant", "content": [{"type": "text", "text": "Hm"},
                                          {"type": "tool_use", "id": "c1", "name": "look", "input": {"at": 1}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "A cat."}]}],
        "tools": [{"name": "look", "input_schema": {"type": "object"}}]}
    responses = {"input": ONCE + [
        {"role": "assistant", "content": [{"type": "output_text", "text": "Hm"}]},
        {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{\"at\": 1}"},
        {"type": "function_call_output", "call_id": "c1", "output": "A cat."}],
        "tools": [{"type": "function", "name": "look", "parameters": {"type": "object"}}]}
    n = server.post("/tokenize", {"content": text, "add_special": False}).json["tokens"]
    assert server.post("/v1/messages/count_tokens", anthropic).json["input_tokens"] == len(n)
    used = server.post("/v1/responses", {**responses, "max_output_tokens": 1}).json["usage"]
    assert used["input_tokens"] == len(n)
    assert prompt(server, openai, tools=[TOOL], tool_choice="none").endswith("null")


def test_responses(server):
    body = {"input": "Once upon a time", "max_output_tokens": 6, "temperature": 0, "metadata": {"a": "b"}}
    a = server.post("/v1/responses", body).json
    same = chat(server, max_tokens=6, temperature=0)
    [item] = a["output"]
    assert item["content"][0]["text"] == same["choices"][0]["message"]["content"]
    assert a["status"] == "incomplete" and a["metadata"] == {"a": "b"} and a["temperature"] == 0
    assert a["usage"]["total_tokens"] == same["usage"]["total_tokens"]


@pytest.mark.parametrize("param,fields", [
    ("previous_response_id", {"previous_response_id": "resp_1"}), ("conversation", {"conversation": "c"}),
    ("background", {"background": True}), ("input", {"input": 5}), ("input", {"input": []}),
    ("input[0].type", {"input": [{"type": "item_reference", "id": "x"}]}),
    ("input[0].role", {"input": [{"role": "king", "content": "x"}]}),
    ("input[0].content", {"input": [{"role": "user", "content": [{"type": "input_image"}]}]}),
    ("input[0].call_id", {"input": [{"type": "function_call", "name": "f", "arguments": "{}"}]}),
    ("tools[0].type", {"tools": [{"name": "f"}]}), ("max_output_tokens", {"max_output_tokens": 0}),
    ("tools[0].name", {"tools": [{"type": "function"}]}), ("instructions", {"instructions": 5}),
    ("input", {"input": None, "instructions": "x"}), ("reasoning.effort", {"reasoning": {"effort": "utmost"}}),
    ("text.format", {"text": {"format": {}}}), ("text.format", {"text": {"format": {"type": "json_schema"}}}),
    ("tool_choice.name", {"tool_choice": {"type": "function"}, "tools": [{"type": "function", "name": "f"}]}),
    ("n", {"n": 2}), ("prompt", {"prompt": {"id": "p"}}),
])
def test_bad_responses(server, param, fields):
    r = server.post("/v1/responses", {"input": "x", "max_output_tokens": 2, **fields})
    assert r.status == 400 and r.json["error"]["param"] == param, r.body


def test_tools_of_openais_own_are_left_out_with_a_warning(server):
    function = {"type": "function", "name": "look", "parameters": {"type": "object"}}
    hosted = [{"type": t} for t in ("web_search", "file_search", "mcp", "code_interpreter", "local_shell", "x" * 300)]
    body = {"input": "Once", "max_output_tokens": 3, "temperature": 0}
    alone = server.post("/v1/responses", {**body, "tools": [function]}).json
    beside = server.post("/v1/responses", {**body, "tools": [hosted[0], function, *hosted[1:]]}).json
    assert "warnings" not in alone and alone["usage"] == beside["usage"]
    assert [w.split(":")[0] for w in beside["warnings"]] == [f"tools[{i}]" for i in (0, 2, 3, 4, 5, 6)]
    assert "'web_search'" in beside["warnings"][0] and all(len(w) < 200 for w in beside["warnings"])
    frames = server.post("/v1/responses", {**body, "tools": hosted[:1], "stream": True}).body.decode()
    assert frames.count('"warnings":["tools[0]: ') == 3  # created, in_progress, and the end
    r = server.post("/v1/responses", {**body, "tools": hosted, "tool_choice": "required"})
    assert r.status == 400 and r.json["error"]["param"] == "tool_choice"


def test_the_input_tokens_of_responses(server):
    body = {"input": "Once upon a time", "instructions": "Tell."}
    r = server.post("/v1/responses/input_tokens", body)
    assert r.status == 200 and r.json["object"] == "response.input_tokens"
    used = server.post("/v1/responses", {**body, "max_output_tokens": 1}).json["usage"]["input_tokens"]
    assert r.json["input_tokens"] == used
    assert server.post("/responses/input_tokens", body).json == r.json
    assert server.post("/v1/responses/input_tokens", {"input": 5}).json["error"]["param"] == "input"
    for effort in ("none", "minimal", "low", "medium", "high", "xhigh", "max"):
        assert server.post("/v1/responses/input_tokens", {**body, "reasoning": {"effort": effort}}).status == 200


# ---- what is insisted on ----

WEATHER = {"type": "function", "function": {"name": "weather", "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "maxLength": 12}, "unit": {"$ref": "#/$defs/unit"}},
    "required": ["city", "unit"], "additionalProperties": False, "$defs": {"unit": {"enum": ["C", "F"]}}}}}
CLOCK = {"type": "function", "function": {"name": "clock", "parameters": {
    "type": "object", "properties": {"zone": {"type": "integer", "minimum": -12, "maximum": 12}},
    "required": ["zone"], "additionalProperties": False}}}
SCHEMAS = {t["function"]["name"]: t["function"]["parameters"] for t in (WEATHER, CLOCK)}


def check_calls(calls):
    for call in calls:
        assert call["type"] == "function" and call["id"]
        jsonschema.validate(json.loads(call["function"]["arguments"]), SCHEMAS[call["function"]["name"]])


def test_tools_that_cannot_be_insisted_on(server):
    bad = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {
        "a": {"type": "string", "contentEncoding": "base64", "not": {}}}}}}
    e = chat(server, status=400, tools=[bad], tool_choice="required")["error"]
    assert e["param"] == "tools" and "'not'" in e["message"]
    chat(server, tools=[bad], max_tokens=1)  # a choice of the model's is not constrained


@pytest.mark.parametrize("path,body", [
    (CHAT, {"messages": ONCE, "response_format": {"type": "json_schema", "json_schema": {
        "name": "w", "schema": SCHEMAS["weather"]}}}),
    ("/v1/responses", {"input": "x", "text": {"format": {"type": "json_schema", "name": "w",
                                                        "schema": SCHEMAS["weather"]}}}),
])
def test_structured_output(server, path, body):
    r = server.post(path, body).json
    text = r["choices"][0]["message"]["content"] if path == CHAT else r["output"][0]["content"][0]["text"]
    jsonschema.validate(json.loads(text), SCHEMAS["weather"])


def test_what_is_constrained_is_not_thought(start, tmp_path):
    """A template that opens a thought: an unconstrained answer thinks, a constrained one answers."""
    file = tmp_path / "t.jinja"
    file.write_text("{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}<think>\n{# </think> #}")
    server = start("--chat-template", str(file))
    a = chat(server, max_tokens=6, temperature=0)
    m = a["choices"][0]["message"]
    assert m["content"] == "" and m["reasoning_content"]
    assert a["usage"]["completion_tokens_details"]["reasoning_tokens"] == 6
    body = {"messages": ONCE, "max_tokens": 6, "temperature": 0}
    deltas = [f["choices"][0]["delta"] for f in frames(server, **body)]
    assert "".join(d.get("reasoning_content", "") for d in deltas) == m["reasoning_content"]
    format = {"type": "json_schema", "json_schema": {"name": "w", "schema": SCHEMAS["weather"]}}
    m = chat(server, response_format=format)["choices"][0]["message"]
    jsonschema.validate(json.loads(m["content"]), SCHEMAS["weather"])
    m = chat(server, tools=[CLOCK], tool_choice="required")["choices"][0]["message"]
    check_calls(m["tool_calls"])
    r = server.post("/v1/messages", {**body, "thinking": {"type": "enabled"}}).json
    assert r["content"][0]["type"] == "thinking" and r["content"][0]["thinking"]
    r = server.post("/v1/responses", {"input": ONCE, "max_output_tokens": 6, "temperature": 0}).json
    assert r["output"][0]["type"] == "reasoning"


# ---- a response that is cut ----

def statuses(server, **fields):
    """[(type, status)] of the items, as the whole response has them, the stream's end and its output_item.done events."""
    body = {"input": "Once", "temperature": 0, **fields}
    a = server.post("/v1/responses", body).json
    whole = [(i["type"], i["status"]) for i in a["output"]]
    events = [json.loads(line.removeprefix("data: ")) for line in
              server.post("/v1/responses", {**body, "stream": True}).body.decode().split("\n") if line.startswith("data: ")]
    assert events[-1]["type"] == f"response.{a['status']}" and events[-1]["response"]["status"] == a["status"]
    for items in (events[-1]["response"]["output"], [e["item"] for e in events if e["type"] == "response.output_item.done"]):
        assert [(i["type"], i["status"]) for i in items] == whole
    assert all(e["item"]["status"] == "in_progress" for e in events if e["type"] == "response.output_item.added")
    return a["status"], whole


def test_the_last_item_of_a_response_that_is_cut(start, tmp_path):
    file = tmp_path / "t.jinja"
    file.write_text("{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}{# </think> #}")
    server = start("--chat-template", str(file))
    thought = 'root ::= "<think>ab cd</think>ef gh"'
    whole = [("reasoning", "completed"), ("message", "completed")]
    assert statuses(server, grammar=thought) == ("completed", whole)
    assert statuses(server, max_output_tokens=5) == ("incomplete", [("message", "incomplete")])
    n = server.post("/v1/responses", {"input": "Once", "temperature": 0, "grammar": thought}).json["usage"]["output_tokens"]
    seen = {tuple(statuses(server, grammar=thought, max_output_tokens=k)[1]) for k in range(1, n)}
    assert (("reasoning", "incomplete"),) in seen and (whole[0], ("message", "incomplete")) in seen
    assert not any(status == "incomplete" for items in seen for _, status in items[:-1])


def test_a_call_behind_a_text_that_is_not_cut(start):
    server = start("--tool-call-parser", "hermes")
    call = 'root ::= "ab" "<tool_call>{\\"name\\":\\"look\\",\\"arguments\\":{}}</tool_call>"'
    tools = [{"type": "function", "name": "look", "parameters": {"type": "object"}}]
    status, items = statuses(server, grammar=call, tools=tools)
    assert status == "completed" and items == [("message", "completed"), ("function_call", "completed")]
