"""Tool calls in an answer: insisted on or found in the text, whole or cut, in three APIs."""
import json

import jsonschema
import pytest

from quire import Server
from test_chat import CHAT, CLOCK, ONCE, SCHEMAS, WEATHER, chat, check_calls, frames

MESSAGES, RESPONSES = "/v1/messages", "/v1/responses"
ANTHROPIC_TOOLS = [{"name": name, "input_schema": schema} for name, schema in SCHEMAS.items()]
RESPONSES_TOOLS = [{"type": "function", "name": name, "parameters": schema} for name, schema in SCHEMAS.items()]
FOUND = r'<tool_call>\{"name": "weather", "arguments": \{"city": "[a-z]{30}", "unit": "C"\}\}</tool_call>'


@pytest.fixture(scope="module")
def server():
    """The demo model's template writes no calls: that they are Hermes' is said."""
    s = Server("--tool-call-parser", "hermes")
    yield s
    s.stop()


def joined(got):
    """The tool calls of a stream, put together as clients do."""
    calls = {}
    for f in got:
        for c in f["choices"]:
            for part in c["delta"].get("tool_calls", []):
                call = calls.setdefault(part["index"], {"function": {"name": "", "arguments": ""}})
                call.update({k: v for k, v in part.items() if k in ("id", "type")})
                for k, v in part["function"].items():
                    call["function"][k] += v
    return [calls[i] for i in sorted(calls)]


@pytest.mark.parametrize("seed", range(6))
def test_required_calls(server, seed):
    fields = {"tools": [WEATHER, CLOCK], "tool_choice": "required", "seed": seed}
    c = chat(server, **fields)["choices"][0]
    assert c["finish_reason"] == "tool_calls" and c["message"]["content"] is None
    check_calls(c["message"]["tool_calls"])
    got = frames(server, messages=ONCE, **fields)
    assert got[-1]["choices"][0]["finish_reason"] == "tool_calls"
    plain = [call["function"] for call in c["message"]["tool_calls"]]
    assert [call["function"] for call in joined(got)] == plain
    [one] = chat(server, **fields, parallel_tool_calls=False)["choices"][0]["message"]["tool_calls"]
    check_calls([one])


def test_a_named_call(server):
    for tool in (WEATHER, CLOCK):
        name = tool["function"]["name"]
        choice = {"type": "function", "function": {"name": name}}
        [call] = chat(server, tools=[WEATHER, CLOCK], tool_choice=choice)["choices"][0]["message"]["tool_calls"]
        assert call["function"]["name"] == name
        check_calls([call])


def test_allowed_tools(server):
    """OpenAI's subset of the tools: the model is told of these alone, and what is required is one of them."""
    for tool in (WEATHER, CLOCK):
        named = {"type": "function", "function": {"name": tool["function"]["name"]}}
        for mode in ("required", "auto"):
            choice = {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": [named]}}
            fields = {"tools": [WEATHER, CLOCK], "seed": 5, "tool_choice": choice}
            only = {"tools": [tool], "seed": 5, "tool_choice": mode}
            first, second = chat(server, **fields), chat(server, **only)
            assert first["usage"]["prompt_tokens"] == second["usage"]["prompt_tokens"]
            told = [[c["function"] for c in r["choices"][0]["message"].get("tool_calls") or []] for r in (first, second)]
            assert told[0] == told[1] and (mode == "auto" or {c["name"] for c in told[0]} == {named["function"]["name"]})
    both = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [
        {"type": "function", "function": {"name": t["function"]["name"]}} for t in (CLOCK, WEATHER)]}}
    assert [c["function"] for c in chat(server, tools=[WEATHER, CLOCK], tool_choice=both, seed=2)["choices"][0]["message"]["tool_calls"]] == [
        c["function"] for c in chat(server, tools=[WEATHER, CLOCK], tool_choice="required", seed=2)["choices"][0]["message"]["tool_calls"]]
    r = server.post(RESPONSES, {"input": "x", "tools": RESPONSES_TOOLS, "tool_choice": {
        "type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "clock"}]}}).json
    assert {c["name"] for c in r["output"]} == {"clock"}


@pytest.mark.parametrize("choice,member,why", [
    ({"allowed_tools": {"mode": "none", "tools": [{"type": "function", "function": {"name": "clock"}}]}}, "mode", "auto or required"),
    ({"allowed_tools": {"mode": "auto", "tools": []}}, "tools", "a list of tools"), ({}, "mode", "auto or required"),
    ({"mode": "auto", "tools": [{"type": "function", "name": "clock"}]}, "mode", "auto or required"),  # as in Responses
    ({"allowed_tools": {"mode": "auto", "tools": [{"type": "function", "function": {"name": "x"}}]}}, "tools", "custom tools of 'tools'"),
    ({"allowed_tools": {"mode": "auto", "tools": [{"type": "web_search"}]}}, "tools", "custom tools of 'tools'")])
def test_allowed_tools_that_are_refused(server, choice, member, why):
    """The error names the member where the API at hand has it."""
    error = server.post(CHAT, {"messages": ONCE, "tools": [WEATHER, CLOCK], "tool_choice": {"type": "allowed_tools", **choice}}).json["error"]
    assert error["param"] == f"tool_choice.allowed_tools.{member}" and why in error["message"], error


def test_calls_in_the_other_shapes(server):
    r = server.post("/v1/messages", {
        "messages": ONCE, "max_tokens": 400, "tool_choice": {"type": "tool", "name": "clock"},
        "tools": [{"name": "clock", "input_schema": SCHEMAS["clock"]}]}).json
    [use] = r["content"]
    assert (use["type"], use["name"], r["stop_reason"]) == ("tool_use", "clock", "tool_use")
    jsonschema.validate(use["input"], SCHEMAS["clock"])
    r = server.post("/v1/responses", {
        "input": "x", "tool_choice": {"type": "function", "name": "clock"},
        "tools": [{"type": "function", "name": "clock", "parameters": SCHEMAS["clock"]}]}).json
    [call] = r["output"]
    assert (call["type"], call["name"], r["status"]) == ("function_call", "clock", "completed")
    jsonschema.validate(json.loads(call["arguments"]), SCHEMAS["clock"])



# ---- calls in pieces ----

def events(server, path, body):
    """(type, event) of a stream with named events."""
    r = server.post(path, {"stream": True, **body})
    assert r.status == 200, r.body
    got = [json.loads(line[6:]) for line in r.body.decode().splitlines() if line.startswith("data: ")]
    return [(e["type"], e) for e in got]


def test_arguments_come_in_pieces(server):
    fields = {"tools": [WEATHER], "tool_choice": "required", "seed": 3, "speculation": False}
    got = [c["delta"]["tool_calls"][0] for f in frames(server, messages=ONCE, **fields) for c in f["choices"]
           if "tool_calls" in c["delta"]]
    assert got[0]["function"] == {"name": "weather", "arguments": ""} and "id" in got[0]
    firsts = [d for d in got if d["index"] == 0]
    assert len(firsts) > 4 and all(set(d) == {"index", "function"} for d in firsts[1:])


@pytest.mark.parametrize("path,body", [
    (CHAT, {"messages": ONCE, "tools": [WEATHER]}),
    (MESSAGES, {"messages": ONCE, "max_tokens": 200, "tools": ANTHROPIC_TOOLS}),
    (RESPONSES, {"input": "x", "tools": RESPONSES_TOOLS}),
])
def test_calls_that_are_found_come_in_pieces(server, path, body):
    body = {**body, "guided_regex": FOUND, "temperature": 0, "speculation": False}
    if path == CHAT:
        got = frames(server, path, **body)
        [call] = joined(got)
        pieces = sum("tool_calls" in c["delta"] for f in got for c in f["choices"])
        assert got[-1]["choices"][0]["finish_reason"] == "tool_calls"
    else:
        of = {MESSAGES: messages_calls, RESPONSES: responses_calls}[path]
        [call], pieces = of(events(server, path, body))
    assert pieces > 4 and call["function"]["name"] == "weather"
    assert len(json.loads(call["function"]["arguments"])["city"]) == 30


def messages_calls(got):
    """The calls of a stream of events, as Anthropic's client puts them together, and their deltas."""
    blocks, open_block, pieces = [], None, 0
    for kind, e in got:
        if kind == "content_block_start":
            assert open_block is None and e["index"] == len(blocks)
            open_block = e["index"]
            blocks.append({**e["content_block"], "json": ""})
        elif kind == "content_block_delta":
            assert e["index"] == open_block
            blocks[-1]["json"] += e["delta"].get("partial_json", "")
            pieces += "partial_json" in e["delta"]
        elif kind == "content_block_stop":
            assert e["index"] == open_block
            open_block = None
    assert open_block is None
    calls = [{"function": {"name": b["name"], "arguments": b["json"]}} for b in blocks if b["type"] == "tool_use"]
    return calls, pieces


def responses_calls(got):
    """The calls of a stream of events; what is repeated in them is the same each time."""
    assert [e["sequence_number"] for _, e in got] == list(range(len(got)))
    calls, pieces, texts = [], 0, {}
    for kind, e in got:
        if kind == "response.output_item.added":
            texts[e["output_index"]] = ""
        elif kind == "response.function_call_arguments.delta":
            texts[e["output_index"]] += e["delta"]
            pieces += 1
        elif kind == "response.function_call_arguments.done":
            assert e["arguments"] == texts[e["output_index"]]
        elif kind == "response.output_item.done" and e["item"]["type"] == "function_call":
            assert e["item"]["arguments"] == texts[e["output_index"]]
            calls.append({"function": {k: e["item"][k] for k in ("name", "arguments")}, "status": e["item"]["status"]})
    last = got[-1][1]["response"]
    assert [(i["name"], i["arguments"], i["status"]) for i in last["output"] if i["type"] == "function_call"] == \
        [(c["function"]["name"], c["function"]["arguments"], c["status"]) for c in calls]
    return calls, pieces


# ---- calls that are cut ----

def cut_chat(server, n):
    fields = {"tools": [WEATHER, CLOCK], "tool_choice": "required", "seed": 3, "max_tokens": n}
    c = chat(server, **fields)["choices"][0]
    got = frames(server, messages=ONCE, **fields)
    assert got[-1]["choices"][0]["finish_reason"] == c["finish_reason"]
    calls = [call["function"] for call in c["message"].get("tool_calls", [])]
    assert [call["function"] for call in joined(got)] == calls
    assert not c["message"]["content"]
    return c["finish_reason"], calls


def test_cut_calls(server):
    """Whatever is cut off, what was there comes: never as text."""
    n, seen = 1, []
    while not seen or seen[-1][0] == "length":
        seen.append(cut_chat(server, n))
        n += 1 if n < 40 else 3  # a call takes more tokens than that
    assert seen[-1][0] == "tool_calls" and seen[0] == ("length", [])
    for (_, before), (_, after) in zip(seen, seen[1:]):
        assert len(before) <= len(after) <= len(before) + 1
        for a, b in zip(before, after):
            assert a["name"] == b["name"] and b["arguments"].startswith(a["arguments"])
    assert any(c["arguments"] == "" for _, calls in seen for c in calls[-1:])


def test_a_cut_call_of_messages(server):
    body = {"messages": ONCE, "tools": ANTHROPIC_TOOLS, "tool_choice": {"type": "tool", "name": "weather"}, "seed": 3}
    for n in (2, 6, 9, 12):
        r = server.post(MESSAGES, {**body, "max_tokens": n}).json
        calls, _ = messages_calls(events(server, MESSAGES, {**body, "max_tokens": n}))
        assert r["stop_reason"] == "max_tokens"
        assert [b["name"] for b in r["content"]] == [c["function"]["name"] for c in calls] == ["weather"]
        whole, text = r["content"][0]["input"], calls[0]["function"]["arguments"]
        assert isinstance(whole, dict) and text[:1] in ("", "{")  # its marks and its name come first
        assert all(json.dumps(v)[:-1] in text for v in whole.values())


def test_a_cut_call_of_responses(server):
    body = {"input": "x", "tools": RESPONSES_TOOLS, "tool_choice": "required", "seed": 3}
    for n in (8, 12, 16):
        r = server.post(RESPONSES, {**body, "max_output_tokens": n}).json
        assert r["status"] == "incomplete" and r["incomplete_details"] == {"reason": "max_output_tokens"}
        assert {i["type"] for i in r["output"]} <= {"function_call", "message"}
        calls, _ = responses_calls(events(server, RESPONSES, {**body, "max_output_tokens": n}))
        items = [i for i in r["output"] if i["type"] == "function_call"]
        assert [i["arguments"] for i in items] == [c["function"]["arguments"] for c in calls]
        if items:
            assert items[-1]["status"] == "incomplete"


def test_a_found_call_that_is_cut(server):
    body = {"tools": [WEATHER], "guided_regex": FOUND, "temperature": 0}
    c = chat(server, max_tokens=40, **body)["choices"][0]
    assert c["finish_reason"] == "length" and not c["message"]["content"]
    [call] = c["message"]["tool_calls"]
    assert call["function"]["name"] == "weather" and call["function"]["arguments"].startswith('{"city')


def test_one_call_is_enough(server):
    """parallel_tool_calls: false ends the answer behind the first call."""
    two = FOUND + "\n" + FOUND
    body = {"tools": [WEATHER], "guided_regex": two, "temperature": 0, "max_tokens": 300}
    assert len(chat(server, **body)["choices"][0]["message"]["tool_calls"]) == 2
    c = chat(server, **body, parallel_tool_calls=False)["choices"][0]
    assert c["finish_reason"] == "tool_calls" and len(c["message"]["tool_calls"]) == 1
    body = {"messages": ONCE, "max_tokens": 300, "tools": ANTHROPIC_TOOLS, "guided_regex": two}
    assert len(server.post(MESSAGES, body).json["content"]) == 2
    body["tool_choice"] = {"type": "auto", "disable_parallel_tool_use": True}
    r = server.post(MESSAGES, body).json
    assert len(r["content"]) == 1 and r["stop_reason"] == "tool_use"
