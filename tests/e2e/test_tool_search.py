"""Tools that come with items of a Responses' input, and those that the client searches for when they are needed."""
import json

import pytest

from quire import Server
from test_chat import ONCE, prompt
from test_custom_tools import FLAT, FUNCTION, ask, call_text, n_tokens, refusal, says, server, shown
from test_tool_calls import RESPONSES, events

SCHEMA = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"], "additionalProperties": False}
SEARCH = {"type": "tool_search", "execution": "client", "description": "Finds tools.", "parameters": SCHEMA}
FIND = {"type": "function", "name": "find", "description": "Finds one.", "parameters": {"type": "object"}}
SPACE = {"type": "namespace", "name": "crm", "description": "Customers.", "tools": [FIND]}
PATHS = {"type": "object", "properties": {"paths": {"type": "array", "items": {"type": "string"}}}, "required": ["paths"],
         "additionalProperties": False}
CALL = {"type": "tool_search_call", "call_id": "c1", "execution": "client", "status": "completed", "arguments": {"query": "x"}}
FOUND = {"type": "tool_search_output", "call_id": "c1", "execution": "client", "status": "completed"}

# The items of the unions ResponseInputItemParam and ToolParam of the package openai 3.57, and what more Codex sends.
TAKEN_ITEMS = [{"role": "user", "content": "x"}, {"type": "message", "role": "user", "content": "x"},
               {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "x"}]},
               {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
               {"type": "function_call_output", "call_id": "c", "output": "x"},
               {"type": "custom_tool_call", "call_id": "c", "name": "f", "input": "x"},
               {"type": "custom_tool_call_output", "call_id": "c", "output": "x"},
               {"type": "reasoning", "id": "r", "summary": []}, CALL, {**CALL, "call_id": None, "execution": "server"},
               {**FOUND, "tools": []}, {"type": "additional_tools", "role": "developer", "tools": [FIND]}]
REFUSED_ITEMS = {
    "file_search_call": "as a message", "computer_call": "function_call", "computer_call_output": "function_call_output",
    "web_search_call": "as a message", "configuration_update": "reasoning and text", "compaction": "summary",
    "compaction_summary": "summary", "compaction_trigger": "summary", "image_generation_call": "leave it out",
    "code_interpreter_call": "function", "local_shell_call": "function", "local_shell_call_output": "function_call_output",
    "shell_call": "function", "shell_call_output": "function_call_output", "apply_patch_call": "custom tool",
    "apply_patch_call_output": "custom_tool_call_output", "mcp_list_tools": "functions", "mcp_approval_request": "functions",
    "mcp_approval_response": "functions", "mcp_call": "functions", "program": "functions", "program_output": "function_call_output"}
HOSTED_TOOLS = ["file_search", "computer", "computer_use_preview", "web_search", "web_search_2025_08_26", "mcp", "code_interpreter",
                "programmatic_tool_calling", "image_generation", "local_shell", "shell", "web_search_preview",
                "web_search_preview_2025_03_11", "apply_patch"]


def function(name, description, parameters):
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


TOLD_SEARCH = function("tool_search", "Finds tools.", SCHEMA)
TOLD_FIND = function("find", "Finds one.", {"type": "object"})
TOLD_SPACE = function("crm.find", "Customers.\n\nFinds one.", {"type": "object"})


def same_prompt(shown, messages, told, **body):
    """Do the request of Responses and the chat have as many tokens?"""
    used = ask(shown, max_output_tokens=1, **body)["usage"]["input_tokens"]
    return used == n_tokens(shown, prompt(shown, messages, tools=told))


# ---- items and tools of all types ----

@pytest.mark.parametrize("item", TAKEN_ITEMS, ids=lambda i: i.get("type", "plain"))
def test_items_that_are_taken(server, item):
    ask(server, input=[item, *ONCE], max_output_tokens=1)


@pytest.mark.parametrize("kind", REFUSED_ITEMS)
def test_items_that_are_refused_by_name(server, kind):
    e = refusal(server, input=[*ONCE, {"type": kind, "id": "x", "encrypted_content": "x"}])
    assert e["param"] == "input[1].type" and f" {kind}," in e["message"] and REFUSED_ITEMS[kind] in e["message"], e


def test_an_item_of_no_known_type(server):
    e = refusal(server, input=[{"type": "x" * 5000}])
    assert e["param"] == "input[0].type" and "tool_search_output" in e["message"]


@pytest.mark.parametrize("kind", HOSTED_TOOLS)
def test_hosted_tools_are_left_out_with_a_warning(server, kind):
    more = {"type": "additional_tools", "role": "developer", "tools": [FIND, {"type": kind, "defer_loading": True}]}
    r = ask(server, input=[*ONCE, more], tools=[{"type": kind}], max_output_tokens=1)
    assert [w.split(":")[0] for w in r["warnings"]] == ["tools[0]", "input[1].tools[1]"]
    assert all(f"'{kind}'" in w for w in r["warnings"])


def test_there_is_no_compaction(server):
    for path in ("/v1/responses/compact", "/responses/compact"):
        e = server.post(path, {"input": "x"}).json["error"]
        assert e["code"] == "not_built" and "summary" in e["message"]


# ---- tools that come with the conversation ----

def test_additional_tools_join_the_others(server, shown):
    more = {"type": "additional_tools", "role": "developer", "tools": [SPACE, FLAT]}
    assert same_prompt(shown, ONCE, [TOLD_FIND, TOLD_SPACE, FUNCTION], input=[more, *ONCE], tools=[FIND])
    r = ask(server, input=[more, *ONCE], **says(call_text("crm.find", {"a": 1}) + call_text()))
    assert [(i["type"], i.get("namespace"), i["name"]) for i in r["output"]] == [
        ("function_call", "crm", "find"), ("custom_tool_call", None, "apply_patch")]
    r = ask(server, input=[more, *ONCE], tool_choice={"type": "function", "namespace": "crm", "name": "find"}, max_output_tokens=40)
    assert {i["name"] for i in r["output"]} == {"find"}


def test_a_later_definition_replaces_an_earlier_one(shown):
    other = {**FIND, "description": "Finds all."}
    more = [{"type": "additional_tools", "tools": [t]} for t in (FIND, other)]
    assert same_prompt(shown, ONCE, [function("find", "Finds all.", {"type": "object"}), FUNCTION], input=[*more, *ONCE],
                       tools=[FIND, FLAT])


@pytest.mark.parametrize("param,item", [
    ("input[0].tools", {"type": "additional_tools"}), ("input[0].tools", {**FOUND, "tools": {}}),
    ("input[0].tools[1].name", {**FOUND, "tools": [FIND, {"type": "function"}]}),
    ("input[0].tools[0].type", {**FOUND, "tools": [1]}), ("input[0].arguments", {**CALL, "arguments": 5}),
    ("input[0].arguments", {"type": "tool_search_call", "call_id": "c"}),
    ("input[0].tools[0].execution", {"type": "additional_tools", "tools": [{"type": "tool_search"}]})])
def test_bad_items_with_tools(server, param, item):
    assert refusal(server, input=[item, *ONCE])["param"] == param


# ---- the search ----

def test_the_search_is_told_as_a_function(shown):
    assert same_prompt(shown, ONCE, [TOLD_SEARCH], input=ONCE, tools=[SEARCH])
    plain = function("tool_search", "Loads tools by their names, or by those of their namespaces.", PATHS)
    assert same_prompt(shown, ONCE, [plain], input=ONCE, tools=[{"type": "tool_search", "execution": "client"}])


def test_a_call_of_the_search(server):
    text = call_text("tool_search", {"query": "new\nline"})
    r = ask(server, tools=[SEARCH, FIND], **says(text))
    [item] = r["output"]
    assert item["id"].startswith("tsc_") and item["call_id"].startswith("call_") and "warnings" not in r
    assert item == {"id": item["id"], "call_id": item["call_id"], "type": "tool_search_call", "status": "completed",
                    "execution": "client", "arguments": {"query": "new\nline"}}
    got = events(server, RESPONSES, {"input": "x", "tools": [SEARCH], **says(text)})
    assert [e["sequence_number"] for _, e in got] == list(range(len(got)))
    added, end = ((kind, e["item"]) for kind, e in got if "item" in e)
    assert [kind for kind, _ in got[2:-1]] == [added[0], end[0]] == ["response.output_item.added", "response.output_item.done"]
    assert added[1] == {**end[1], "status": "in_progress", "arguments": {}} and end[1]["arguments"] == item["arguments"]
    assert got[-1][1]["response"]["output"] == [end[1]]


def test_a_search_whose_text_has_lines(server):
    text = '<tool_call>\n{"name": "tool_search", "arguments": {\n"query":\n"x"}}\n</tool_call>'
    got = events(server, RESPONSES, {"input": "x", "tools": [SEARCH], **says(text)})
    assert got[-1][1]["response"]["output"][0]["arguments"] == {"query": "x"}


def test_a_search_that_is_cut(server):
    body = {"tools": [SEARCH], "temperature": 0, **says(call_text("tool_search", {"query": "a long text " * 4}))}
    n = ask(server, **body)["usage"]["output_tokens"]
    kinds = set()
    for k in range(n // 4, n, 2):
        r = ask(server, **body, max_output_tokens=k)
        for item in (i for i in r["output"] if i["type"] == "tool_search_call"):
            kinds.add((type(item["arguments"]), item["status"]))
    assert (str, "incomplete") in kinds and kinds <= {(str, "incomplete"), (dict, "incomplete"), (dict, "completed")}


def test_the_search_can_be_insisted_on(server):
    allowed = {"type": "allowed_tools", "mode": "required", "tools": [{"type": "tool_search"}]}
    for choice, tools in (("required", [SEARCH]), (allowed, [FIND, SEARCH])):
        r = ask(server, tools=tools, tool_choice=choice, parallel_tool_calls=False, max_output_tokens=200)
        assert {i["type"] for i in r["output"]} == {"tool_search_call"}


def test_the_history_of_a_search(server, shown):
    call = {"id": "c1", "type": "function", "function": {"name": "tool_search", "arguments": '{"query": "x"}'}}
    chat = [*ONCE, {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": '{"tools":["crm.find","apply_patch"]}'}]
    items = [*ONCE, CALL, {**FOUND, "tools": [{**SPACE, "tools": [{**FIND, "defer_loading": True}]}, FLAT]}]
    for kept in (items, [*ONCE, {**CALL, "arguments": '{"query": "x"}'}, items[-1]]):
        assert same_prompt(shown, chat, [TOLD_SEARCH, TOLD_SPACE, FUNCTION], input=kept, tools=[SEARCH])
    [item] = ask(server, input=items, tools=[SEARCH], **says(call_text("crm.find", {"a": 1})))["output"]
    assert (item["type"], item["namespace"], item["name"]) == ("function_call", "crm", "find")


def test_nothing_was_found(shown):
    call = {"id": "c1", "type": "function", "function": {"name": "tool_search", "arguments": '{"query": "x"}'}}
    chat = [*ONCE, {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": '{"tools":[]}'}]
    assert same_prompt(shown, chat, [TOLD_SEARCH], input=[*ONCE, CALL, {**FOUND, "tools": []}], tools=[SEARCH])


# ---- tools that wait to be found ----

LATE = {"defer_loading": True}


def test_deferred_tools_are_named_by_the_search(server, shown):
    tools = [{**SPACE, "tools": [{**FIND, **LATE}, {**FLAT, **LATE}]}, {**FIND, **LATE}, {**FLAT, **LATE, "description": None}, SEARCH]
    told = function("tool_search", "Finds tools.\n\nTools to be found:\n- crm: Customers.\n- find: Finds one.\n- apply_patch", SCHEMA)
    assert same_prompt(shown, ONCE, [told], input=ONCE, tools=tools)
    r = refusal(server, tools=tools, tool_choice={"type": "function", "name": "find"})
    assert r["param"] == "tool_choice.name" or "tool_choice" in r["param"]


def test_a_namespace_with_some_that_are_deferred(shown):
    half = {**SPACE, "tools": [{**FLAT, **LATE}, FIND]}
    told = function("tool_search", "Finds tools.\n\nTools to be found:\n- crm: Customers.", SCHEMA)
    assert same_prompt(shown, ONCE, [TOLD_SPACE, told], input=ONCE, tools=[half, SEARCH])


def test_found_tools_are_offered(server, shown):
    tools = [{**FIND, **LATE}, {**FLAT, **LATE}, SEARCH]
    call = {"id": "c1", "type": "function", "function": {"name": "tool_search", "arguments": '{"query": "x"}'}}
    chat = [*ONCE, {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": '{"tools":["find"]}'}]
    told = function("tool_search", "Finds tools.\n\nTools to be found:\n- apply_patch: Edits files.", SCHEMA)
    items = [*ONCE, CALL, {**FOUND, "tools": [{**FIND, **LATE}]}]
    assert same_prompt(shown, chat, [TOLD_FIND, told], input=items, tools=tools)
    r = ask(server, input=items, tools=tools, tool_choice={"type": "function", "name": "find"}, max_output_tokens=40)
    assert {i["name"] for i in r["output"]} == {"find"}


@pytest.mark.parametrize("param,tools", [
    ("tools[0].execution", [{"type": "tool_search"}]), ("tools[0].execution", [{**SEARCH, "execution": "server"}]),
    ("tools[0].parameters", [{**SEARCH, "parameters": 5}]), ("tools", [{**FIND, **LATE}]), ("tools", [{**FLAT, **LATE}]),
    ("tools", [{**SPACE, "tools": [{**FIND, **LATE}]}]), ("tools", [SEARCH, SEARCH]),
    ("tools", [SEARCH, {**FIND, "name": "tool_search"}]),
    ("tools[0].allowed_callers", [{**FIND, "allowed_callers": ["programmatic"]}]),
    ("tools[0].tools[0].allowed_callers", [{**SPACE, "tools": [{**FIND, "allowed_callers": []}]}]),
])
def test_tools_that_are_refused(server, param, tools):
    assert refusal(server, tools=tools)["param"] == param


# ---- the shape of Codex's requests ----

LARK = "start: pragma | plain\npragma: PRAGMA NL SOURCE\nplain: SOURCE\nPRAGMA: /[ \\t]*\\/\\/ @exec:[^\\r\\n]*/\nNL: /\\r?\\n/\nSOURCE: /[\\s\\S]+/\n"


def codex(**more):
    """All tools come with an item; the instructions are messages of the developer."""
    exec = {"type": "custom", "name": "exec", "description": "Runs code.", "format": {"type": "grammar", "syntax": "lark",
                                                                                     "definition": LARK}}
    tools = [{"type": "namespace", "name": "functions", "description": "", "tools": [exec, {**FIND, "strict": False}]}, SPACE]

    def said(role, text):
        return {"type": "message", "id": f"msg_{role}", "role": role, "content": [{"type": "input_text", "text": text}]}
    return {"input": [{"type": "additional_tools", "id": "at_1", "role": "developer", "tools": tools}, said("developer", "Be kind."),
                      said("developer", "Work."), said("user", "<environment/>"), said("user", "Go.")],
            "tool_choice": "auto", "parallel_tool_calls": False, "reasoning": {"effort": "low", "context": "all_turns"},
            "store": False, "include": ["reasoning.encrypted_content"], "prompt_cache_key": "k", "text": {"verbosity": "low"},
            "client_metadata": {"turn_id": "t"}, **more}


def test_a_request_of_codex(server):
    r = ask(server, **codex(**says(call_text("functions.exec", {"input": "// @exec: a\nlet x = 1;"}))))
    [item] = r["output"]
    assert (item["type"], item["namespace"], item["name"], item["input"]) == (
        "custom_tool_call", "functions", "exec", "// @exec: a\nlet x = 1;")
    assert [w.split(":")[0] for w in r["warnings"]] == ["text.verbosity"] and "instructions" in r["warnings"][0]
    got = events(server, RESPONSES, codex(**says(call_text("crm.find", {"a": 1}))))
    assert got[-1][1]["response"]["output"][0]["namespace"] == "crm"
    after = codex()
    after["input"] += [item, {"type": "custom_tool_call_output", "call_id": item["call_id"], "output": "Done."}]
    assert ask(server, **after, max_output_tokens=1)["usage"]["output_tokens"] == 1


@pytest.mark.parametrize("param,fields", [
    ("text.verbosity", {"text": {"verbosity": "loud"}}), ("text.verbosity", {"text": {"verbosity": 1}}),
    ("reasoning.context", {"reasoning": {"context": "none"}}), ("reasoning.mode", {"reasoning": {"mode": "pro"}}),
    ("prompt_cache_options.prewarm", {"prompt_cache_options": {"prewarm": True}}),
    ("prompt_cache_options", {"prompt_cache_options": "implicit"})])
def test_words_that_are_not_known(server, param, fields):
    assert refusal(server, **fields)["param"] == param


def test_words_without_effect(server):
    for fields in ({"text": {"verbosity": "medium"}}, {"text": {"verbosity": None}}, {"reasoning": {"mode": "standard", "summary": "auto"}},
                   {"prompt_cache_options": {"mode": "explicit", "ttl": "12h", "prewarm": False}}):
        assert "warnings" not in ask(server, **fields, max_output_tokens=1)


def test_thoughts_of_earlier_turns(tmp_path):
    file = tmp_path / "t.jinja"
    file.write_text("{% for m in messages %}[{{ m.role }}|{{ m.reasoning_content }}|{{ m.content }}]{% endfor %}</think>")
    s = Server("--chat-template", str(file))
    try:
        def thought(text):
            return {"type": "reasoning", "id": "r", "summary": [], "content": [{"type": "reasoning_text", "text": text}]}
        items = [*ONCE, thought("a long thought"), {"role": "assistant", "content": "x"}, {"role": "user", "content": "y"},
                 thought("another"), {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
                 {"type": "function_call_output", "call_id": "c", "output": "z"}]
        without = [i for i in items if i != items[1]]
        counts = [ask(s, input=i, reasoning=r, max_output_tokens=1)["usage"]["input_tokens"]
                  for i, r in ((items, {}), (items, {"context": "auto"}), (items, {"context": "all_turns"}),
                               (items, {"context": "current_turn"}), (without, {}))]
        assert counts[0] == counts[1] == counts[2] > counts[3] == counts[4]
    finally:
        s.stop()


def test_callers(server):
    ask(server, tools=[{**FIND, "allowed_callers": ["programmatic", "direct"]}, {**FLAT, "allowed_callers": None}], max_output_tokens=1)


def test_a_kept_response_goes_on(tmp_path):
    s = Server("--tool-call-parser", "hermes", "--responses-db", str(tmp_path / "r.db"))
    try:
        first = ask(s, tools=[SEARCH], store=True, **says(call_text("tool_search", {"query": "x"})))
        [call] = first["output"]
        found = {"type": "tool_search_output", "call_id": call["call_id"], "execution": "client", "tools": [SPACE]}
        second = ask(s, input=[found], previous_response_id=first["id"], tools=[SEARCH], store=True,
                     **says(call_text("crm.find", {"a": 1})))
        assert second["output"][0]["name"] == "find"
        third = ask(s, input=[{"type": "function_call_output", "call_id": second["output"][0]["call_id"], "output": "x"}],
                    previous_response_id=second["id"], tool_choice={"type": "function", "namespace": "crm", "name": "find"},
                    max_output_tokens=40)
        assert {i["name"] for i in third["output"]} == {"find"}
    finally:
        s.stop()
