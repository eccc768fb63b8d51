"""Custom tools of OpenAI's API, whose input is a text, and tools in namespaces: what the model is told, says, and is shown again."""
import json
import re

import pytest

from quire import Server
from test_chat import CHAT, ONCE, frames, prompt
from test_tool_calls import RESPONSES, events

PATCH = '*** Begin Patch\n+say "hé" \\ 😀\t\n*** End Patch'
DESCRIPTION = "Edits files."
FLAT = {"type": "custom", "name": "apply_patch", "description": DESCRIPTION}
NESTED = {"type": "custom", "custom": {"name": "apply_patch", "description": DESCRIPTION}}
INPUT = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"], "additionalProperties": False}
FUNCTION = {"type": "function", "function": {"name": "apply_patch", "description": DESCRIPTION, "parameters": INPUT}}
HEX = "[0-9a-f]{4}|none"


@pytest.fixture(scope="module")
def server():
    """The demo model says what it is made to say, and is understood as Hermes."""
    s = Server("--tool-call-parser", "hermes")
    yield s
    s.stop()


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """A server whose template shows what it is given."""
    file = tmp_path_factory.mktemp("custom") / "t.jinja"
    file.write_text("{% for m in messages %}[{{ m.role }}|{{ m.content }}|{{ m.tool_calls | tojson if m.tool_calls }}"
                    "|{{ m.tool_call_id }}]{% endfor %}{{ tools | tojson }}")
    s = Server("--chat-template", str(file))
    yield s
    s.stop()


def call_text(name="apply_patch", arguments=None):
    call = {"name": name, "arguments": arguments or {"input": PATCH}}
    return f"<tool_call>\n{json.dumps(call, ensure_ascii=False)}\n</tool_call>"


def says(text):
    return {"structured_outputs": {"choice": [text]}}


def ask(server, path=RESPONSES, **body):
    r = server.post(path, {**({"input": "x"} if path == RESPONSES else {"messages": ONCE}), **body})
    assert r.status == 200, r.body
    return r.json


def refusal(server, path=RESPONSES, **body):
    r = server.post(path, {**({"input": "x"} if path == RESPONSES else {"messages": ONCE}), **body})
    assert r.status == 400, r.body
    return r.json["error"]


def n_tokens(server, text):
    return len(server.post("/tokenize", {"content": text, "add_special": False}).json["tokens"])


# ---- what the model says ----

@pytest.mark.parametrize("format", [{}, {"format": {"type": "text"}}, {"format": None}])
def test_a_call_of_responses(server, format):
    r = ask(server, tools=[{**FLAT, **format}], **says(call_text()))
    [item] = r["output"]
    assert item["id"].startswith("ctc_") and item["call_id"].startswith("call_") and "warnings" not in r
    assert item == {"id": item["id"], "call_id": item["call_id"], "type": "custom_tool_call", "status": "completed",
                    "name": "apply_patch", "input": PATCH}


def test_a_call_of_responses_in_a_stream(server):
    got = events(server, RESPONSES, {"input": "x", "tools": [FLAT], **says(call_text())})
    assert [e["sequence_number"] for _, e in got] == list(range(len(got)))
    calls = [(kind, e) for kind, e in got if kind not in ("response.created", "response.in_progress", "response.completed")]
    assert [kind for kind, _ in calls] == ["response.output_item.added", "response.custom_tool_call_input.delta",
                                           "response.custom_tool_call_input.done", "response.output_item.done"]
    added, delta, done, end = (e for _, e in calls)
    assert added["item"]["input"] == "" and added["item"]["status"] == "in_progress"
    assert delta["delta"] == done["input"] == end["item"]["input"] == PATCH
    assert {delta["item_id"], done["item_id"], end["item"]["id"]} == {added["item"]["id"]}
    assert got[-1][1]["response"]["output"] == [end["item"]]


def test_a_call_of_a_chat(server):
    c = ask(server, CHAT, tools=[NESTED], **says(call_text()))["choices"][0]
    [call] = c["message"]["tool_calls"]
    assert c["finish_reason"] == "tool_calls" and c["message"]["content"] is None
    assert call == {"id": call["id"], "type": "custom", "custom": {"name": "apply_patch", "input": PATCH}}
    got = [d["tool_calls"][0] for f in frames(server, messages=ONCE, tools=[NESTED], **says(call_text()))
           for d in (c["delta"] for c in f["choices"]) if "tool_calls" in d]
    first, *rest = got
    assert first == {"index": 0, "id": first["id"], "type": "custom", "custom": {"name": "apply_patch", "input": ""}}
    assert rest == [{"index": 0, "custom": {"input": PATCH}}]


def test_functions_beside_it_stay_functions(server):
    function = {"type": "function", "name": "f", "parameters": {"type": "object"}}
    both = call_text() + "\n" + call_text("f", {"n": 1})
    kinds = [(i["type"], i["name"]) for i in ask(server, tools=[FLAT, function], **says(both))["output"]]
    assert kinds == [("custom_tool_call", "apply_patch"), ("function_call", "f")]


def test_arguments_without_the_string_reach_the_client(server):
    [item] = ask(server, tools=[FLAT], **says(call_text(arguments={"patch": "x"})))["output"]
    assert item["input"] == '{"patch": "x"}'


def test_a_call_that_is_cut(server):
    whole = call_text()
    body = {"tools": [FLAT], "temperature": 0, **says(whole)}
    n = ask(server, **body)["usage"]["output_tokens"]
    for k in range(n // 3, n, 3):
        r = ask(server, **body, max_output_tokens=k)
        items = [i for i in r["output"] if i["type"] == "custom_tool_call"]
        for item in items[:1]:
            assert PATCH.startswith(item["input"].rstrip("\ufffd")) and r["status"] == "incomplete"
            got = events(server, RESPONSES, {"input": "x", **body, "max_output_tokens": k})
            assert [e["input"] for kind, e in got if kind == "response.custom_tool_call_input.done"] == [item["input"]]


# ---- what the model is told ----

def test_the_template_sees_a_function(shown):
    text = prompt(shown, ONCE, tools=[NESTED])
    assert text.endswith(json.dumps([FUNCTION]))
    used = ask(shown, input=ONCE, tools=[FLAT], max_output_tokens=1)["usage"]["input_tokens"]
    assert used == n_tokens(shown, text)


def test_the_history(shown):
    call = {"id": "c1", "type": "custom", "custom": {"name": "apply_patch", "input": PATCH}}
    text = prompt(shown, ONCE + [{"role": "assistant", "content": None, "tool_calls": [call]},
                                 {"role": "tool", "tool_call_id": "c1", "content": "Done."}], tools=[NESTED])
    as_function = {"id": "c1", "type": "function", "function": {"name": "apply_patch", "arguments": json.dumps({"input": PATCH})}}
    assert text == prompt(shown, ONCE + [{"role": "assistant", "content": None, "tool_calls": [as_function]},
                                         {"role": "tool", "tool_call_id": "c1", "content": "Done."}], tools=[FUNCTION])
    for output in ("Done.", [{"type": "input_text", "text": "Done."}]):
        items = ONCE + [{"type": "custom_tool_call", "id": "ctc_1", "call_id": "c1", "name": "apply_patch", "input": PATCH},
                        {"type": "custom_tool_call_output", "call_id": "c1", "output": output}]
        used = ask(shown, input=items, tools=[FLAT], max_output_tokens=1)["usage"]["input_tokens"]
        assert used == n_tokens(shown, text)


# ---- the choice ----

def test_a_call_that_is_insisted_on(server):
    other = {"type": "function", "name": "f", "parameters": {"type": "object"}}
    for choice in ({"type": "custom", "name": "apply_patch"},
                   {"type": "allowed_tools", "mode": "required", "tools": [{"type": "custom", "name": "apply_patch"}]}):
        r = ask(server, tools=[other, FLAT], tool_choice=choice, parallel_tool_calls=False, max_output_tokens=60)
        assert {i["type"] for i in r["output"]} == {"custom_tool_call"}
    nested = {"type": "custom", "custom": {"name": "apply_patch"}}
    for choice in (nested, {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [nested]}}):
        c = ask(server, CHAT, tools=[NESTED], tool_choice=choice, max_tokens=60)["choices"][0]
        assert {c["type"] for c in c["message"]["tool_calls"]} == {"custom"}
    assert refusal(server, CHAT, tools=[NESTED], tool_choice={"type": "custom"})["param"] == "tool_choice.custom.name"


@pytest.mark.parametrize("param,tool", [
    ("tools[0].name", {"type": "custom"}), ("tools[0].name", {**FLAT, "name": "a b"}),
    ("tools[0].format.type", {**FLAT, "format": {"type": "json"}}), ("tools[0].format.type", {**FLAT, "format": "text"}),
    ("tools[0].format.syntax", {**FLAT, "format": {"type": "grammar", "definition": "x"}}),
    ("tools[0].format.syntax", {**FLAT, "format": {"type": "grammar", "syntax": "gbnf", "definition": "x"}}),
    ("tools[0].format.definition", {**FLAT, "format": {"type": "grammar", "syntax": "regex"}}),
    ("tools[0].format.definition", {**FLAT, "format": {"type": "grammar", "syntax": "regex", "definition": "(a"}}),
    ("tools[0].format.definition", {**FLAT, "format": {"type": "grammar", "syntax": "regex", "definition": "a)(b"}}),
])
def test_tools_that_are_refused(server, param, tool):
    error = refusal(server, tools=[tool])
    assert error["param"] == param and f"'{param}'" in error["message"], error


# ---- a grammar in Lark ----

APPLY_PATCH = """start: begin_patch hunk+ end_patch
begin_patch: "*** Begin Patch" LF
end_patch: "*** End Patch" LF?

hunk: add_hunk | delete_hunk | update_hunk
add_hunk: "*** Add File: " filename LF add_line+
delete_hunk: "*** Delete File: " filename LF
update_hunk: "*** Update File: " filename LF change_move? change?

filename: /(.+)/
add_line: "+" /(.*)/ LF -> line

change_move: "*** Move to: " filename LF
change: (change_context | change_line)+ eof_line?
change_context: ("@@" | "@@ " /(.+)/) LF
change_line: ("+" | "-" | " ") /(.*)/ LF
eof_line: "*** End of File" LF

%import common.LF
"""


def lark(definition, **fields):
    return {**FLAT, "format": {"type": "grammar", "syntax": "lark", "definition": definition}, **fields}


@pytest.mark.parametrize("definition,pattern", [
    ('start: "a" | "b" "c"', "a|bc"), ('start: "x"~3 y?\ny: /[0-9]+[a-z]/', "xxx([0-9]+[a-z])?"),
    ('start: "[" ["-"] D~1..3 "]"  // comment "\nD.2: "0".."9"'.replace('"0".."9"', "/[0-9]/"), r"\[-?[0-9]{1,3}\]"),
    ('?start: a\n  | b -> named\n!a: "(" INT ")"\n?b: "\\n" "\\""\n%import common (INT, WS)', r'\([0-9]+\)|\n"'),
    ('start: ("a" | "b"){}'.replace("{}", "~2"), "[ab]{2}"), ('start: "a/b" /c\\/[.]./s', "a/bc/[.](.|\n)"),
])
def test_a_grammar_in_lark(server, definition, pattern):
    for seed in range(4):
        [item] = ask(server, tools=[lark(definition)], tool_choice="required", parallel_tool_calls=False, seed=seed)["output"]
        assert item["type"] == "custom_tool_call" and re.fullmatch(pattern, item["input"]), item


@pytest.mark.parametrize("definition,why", [
    ('start: "a" start?', "'start' contains itself"), ('start: a\na: "(" b ")"\nb: a | "x"', "contains itself"),
    ('start: "a"\n%ignore WS', "%ignore"), ("begin: x", "rule 'start' is not defined"), ("start: nothing", "rule 'nothing' is not defined"),
    ('start: "a"i', "the flag i"), ("start: /a/i", "the flags i"), ('start: "a', "is not closed"), ('start: ("a"', "')' is missing"),
    ('start: "a".."z"', "not supported"), ('start: x{"a"}', "not supported"), ("", "rule 'start' is not defined"), ("start", "a rule"),
    ("\n".join(f"{a}: {b} {b} {b} {b}" for a, b in zip(("start", *"abcdefghi"), "abcdefghij")) + '\nj: "x"', "too large"),
    ("start: " + "(" * 500, "too large"), ("start: " + "é" * 30, "not supported"), ("start: a" + " a" * 6000 + '\na: "x"' + " " * 60000, "too large"), ('start: /(?<name>a)\\1/', "cannot be used"), ('start: "a" ~ b', "a number"),
])
def test_grammars_in_lark_that_are_refused(server, definition, why):
    error = refusal(server, tools=[lark(definition)])
    assert error["param"] == "tools[0].format.definition" and why in error["message"], error
    nested = {"type": "custom", "custom": {"name": "f", "format": {
        "type": "grammar", "grammar": {"syntax": "lark", "definition": definition}}}}
    error = refusal(server, CHAT, tools=[nested])
    assert error["param"] == "tools[0].custom.format.grammar.definition" and why in error["message"], error


def test_codexs_grammar_of_patches(server, shown):
    tool = lark(APPLY_PATCH)
    line = r"[^\n]*\n"
    update = rf"\*\*\* Update File: .+\n(\*\*\* Move to: .+\n)?((@@\n|@@ .+\n|[+ -]{line})+(\*\*\* End of File\n)?)?"
    hunk = rf"(\*\*\* Add File: .+\n(\+{line})+|\*\*\* Delete File: .+\n|{update})"
    whole = 0
    ends = server.post("/tokenize", {"content": "\\n\\n***", "add_special": False}).json["tokens"]  # else its lines are long
    for seed in range(12):
        r = ask(server, tools=[tool], tool_choice="required", parallel_tool_calls=False, seed=seed, max_output_tokens=300,
                logit_bias={str(t): 6 for t in ends})
        for item in r["output"]:
            if item["status"] == "completed":
                whole += 1
                assert re.fullmatch(rf"\*\*\* Begin Patch\n({hunk})+\*\*\* End Patch\n?", item["input"]), item
    assert whole > 0
    told = {**FUNCTION["function"], "description": f"{DESCRIPTION}\n\nThe input must match this grammar, in Lark:\n{APPLY_PATCH}"}
    used = ask(shown, input=ONCE, tools=[tool], max_output_tokens=1)["usage"]["input_tokens"]
    strict = prompt(shown, ONCE, tools=[{"type": "function", "function": {**told, "strict": True}}])
    assert used == n_tokens(shown, strict)


# ---- a grammar ----

@pytest.mark.parametrize("choice", ["required", {"type": "custom", "name": "apply_patch"}])
def test_a_regex_holds_the_input(server, choice):
    tool = {**FLAT, "format": {"type": "grammar", "syntax": "regex", "definition": HEX}}
    for seed in range(5):
        r = ask(server, tools=[tool], tool_choice=choice, parallel_tool_calls=False, seed=seed)
        [item] = r["output"]
        assert item["type"] == "custom_tool_call" and re.fullmatch(HEX, item["input"]), item
    nested = {"type": "custom", "custom": {"name": "f", "format": {
        "type": "grammar", "grammar": {"syntax": "regex", "definition": HEX}}}}
    [call] = ask(server, CHAT, tools=[nested], tool_choice="required", parallel_tool_calls=False)["choices"][0]["message"]["tool_calls"]
    assert re.fullmatch(HEX, call["custom"]["input"])


def test_a_regex_holds_a_call_that_is_not_insisted_on(server):
    """With a format for the answer, some seeds answer and others call; each call's input matches."""
    tool = {**FLAT, "format": {"type": "grammar", "syntax": "regex", "definition": HEX}}
    format = {"type": "json_schema", "name": "a", "schema": {"type": "object", "properties": {"a": {"type": "boolean"}},
                                                             "required": ["a"], "additionalProperties": False}}
    answers = [ask(server, tools=[tool], text={"format": format}, temperature=2, seed=seed, parallel_tool_calls=False,
                   max_output_tokens=200) for seed in range(30)]
    calls = [i["input"] for r in answers for i in r["output"] if i["type"] == "custom_tool_call" and i["status"] == "completed"]
    assert len(calls) > 3 and all(re.fullmatch(HEX, text) for text in calls), calls


@pytest.mark.parametrize("family", ["qwen3_coder", "glm45", "kimi_k2", "pythonic"])
def test_a_regex_holds_in_other_families(start, family):
    s = start("--tool-call-parser", family)
    tool = {**FLAT, "format": {"type": "grammar", "syntax": "regex", "definition": HEX}}
    for choice in ("required", {"type": "custom", "name": "apply_patch"}):
        [item] = ask(s, tools=[tool], tool_choice=choice, parallel_tool_calls=False)["output"]
        assert item["type"] == "custom_tool_call" and re.fullmatch(HEX, item["input"]), item


# ---- namespaces ----

SPACE = {"type": "namespace", "name": "crm", "description": "Customers.", "tools": [
    {"type": "function", "name": "find", "description": "Finds one.", "parameters": {"type": "object"}}, FLAT]}


def test_a_namespace(server):
    text = call_text("crm.find", {"id": 1}) + "\n" + call_text("crm.apply_patch")
    r = ask(server, tools=[SPACE], **says(text))
    assert "warnings" not in r
    assert [{k: v for k, v in i.items() if k not in ("id", "call_id", "status")} for i in r["output"]] == [
        {"type": "function_call", "name": "find", "namespace": "crm", "arguments": '{"id": 1}'},
        {"type": "custom_tool_call", "name": "apply_patch", "namespace": "crm", "input": PATCH}]
    got = events(server, RESPONSES, {"input": "x", "tools": [SPACE], **says(text)})
    assert [(e["item"]["namespace"], e["item"]["name"]) for kind, e in got if kind == "response.output_item.done"] == [
        ("crm", "find"), ("crm", "apply_patch")]


def test_what_the_model_is_told_of_a_namespace(shown):
    told = [{"type": "function", "function": {"name": "crm.find", "description": "Customers.\n\nFinds one.",
                                              "parameters": {"type": "object"}}},
            {"type": "function", "function": {**FUNCTION["function"], "name": "crm.apply_patch"}}]
    call = {"id": "c1", "type": "function", "function": {"name": "crm.find", "arguments": "{}"}}
    text = prompt(shown, ONCE + [{"role": "assistant", "content": None, "tool_calls": [call]}], tools=told)
    items = ONCE + [{"type": "function_call", "call_id": "c1", "namespace": "crm", "name": "find", "arguments": "{}"}]
    used = ask(shown, input=items, tools=[SPACE], max_output_tokens=1)["usage"]["input_tokens"]
    assert used == n_tokens(shown, text)


@pytest.mark.parametrize("param,tool", [
    ("tools[0].name", {**SPACE, "name": None}), ("tools[0].tools", {**SPACE, "tools": []}),
    ("tools[0].tools[0].type", {**SPACE, "tools": [{"type": "web_search"}]}),
    ("tools[0].tools[0].name", {**SPACE, "name": "a b"}),
    ("tools[0].name", {**SPACE, "name": "a" * 10_000}),
])
def test_namespaces_that_are_refused(server, param, tool):
    assert refusal(server, tools=[tool])["param"] == param


def test_a_choice_in_a_namespace(server):
    for choice in ({"type": "function", "name": "crm.find"}, {"type": "function", "namespace": "crm", "name": "find"}):
        r = ask(server, tools=[SPACE], tool_choice=choice, parallel_tool_calls=False, max_output_tokens=40)
        assert {(i["namespace"], i["name"]) for i in r["output"]} == {("crm", "find")}


def test_a_kept_response_goes_on(start, tmp_path):
    s = start("--tool-call-parser", "hermes", "--responses-db", str(tmp_path / "r.db"))
    first = ask(s, input="Once", tools=[SPACE], **says(call_text("crm.apply_patch")))
    [item] = first["output"]
    output = {"type": "custom_tool_call_output", "call_id": item["call_id"], "output": "Done."}
    kept = ask(s, tools=[SPACE], previous_response_id=first["id"], input=[output], max_output_tokens=1)
    sent = ask(s, tools=[SPACE], input=[{"role": "user", "content": "Once"}, item, output], max_output_tokens=1)
    assert kept["usage"]["input_tokens"] == sent["usage"]["input_tokens"]
