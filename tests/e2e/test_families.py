"""Tool calls as each family of models writes them: what a constraint allows is read back, and valid under the tool's schema.

With QUIRE_SLOW=1 there are 1,000 random answers of each family."""
import json
import os
import pathlib
import re
import subprocess

import jsonschema
import pytest

from quire import BIN, serve_in_vain
from test_tool_calls import events as events_of

FAMILIES = sorted((pathlib.Path(__file__).parents[2] / "server" / "api" / "chat" / "families").glob("*.family"))
TOOLS_DIR = pathlib.Path(os.environ.get("QUIRE_TOOLS", "build/tools"))
N = 1000 if os.environ.get("QUIRE_SLOW") else 25
TYPES = {
    "s": {"type": "string"}, "short": {"type": "string", "minLength": 2, "maxLength": 5},
    "code": {"type": "string", "pattern": "^[A-Z]{2}-[0-9]{3}$"}, "day": {"type": "string", "format": "date"},
    "unit": {"enum": ["C", "F"]}, "n": {"type": "integer", "minimum": -5, "maximum": 1000}, "x": {"type": "number"},
    "b": {"type": "boolean"}, "maybe": {"type": ["string", "null"]},
    "mix": {"anyOf": [{"type": "integer", "maximum": 5}, {"type": "string"}]}, "o": {"$ref": "#/$defs/o"},
    "l": {"type": "array", "items": {"type": "string"}, "maxItems": 3}, "any": {},
}
DEEP = {"type": ["object", "null"], "properties": {"z": {"type": "boolean"}}, "additionalProperties": False}
SCHEMAS = {
    "f": {"type": "object", "properties": TYPES, "required": ["s", "n", "mix"], "additionalProperties": False, "$defs": {
        "o": {"type": "object", "properties": {"k": {"type": "string"}, "deep": DEEP}, "required": ["k"],
              "additionalProperties": False}}},
    "g": {"type": "object", "properties": {"only": {"type": "string"}}, "additionalProperties": False},
    "h": {"type": "object", "properties": {"escaped": {"type": "array", "items": {"enum": ['a"]', "b\\"]}, "maxItems": 2}},
          "additionalProperties": False},
    "free": {"type": "object"},
}
OFFERED = [{"type": "function", "function": {"name": k, "parameters": v}} for k, v in SCHEMAS.items()]


class Tool:
    """A program of build/tools: a job a line, an answer a line."""

    def __init__(self, name):
        self.child = subprocess.Popen([str(TOOLS_DIR / name)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                      encoding="utf-8")

    def ask(self, **job):
        self.child.stdin.write(json.dumps(job, ensure_ascii=False) + "\n")
        self.child.stdin.flush()
        return json.loads(self.child.stdout.readline())

    def close(self):
        self.child.stdin.close()
        assert self.child.wait(timeout=60) == 0


@pytest.fixture(scope="module")
def sampler():
    t = Tool("schema")
    yield t
    t.close()


@pytest.fixture(scope="module")
def reader():
    t = Tool("answers")
    yield t
    t.close()


def marks_of(path):
    """The texts of a description: a random text seldom hits one, and then does not end."""
    lines = [x for x in path.read_text(encoding="utf-8").splitlines() if re.match("section|call|argument|comma|quote|header|channels", x)]
    return list(dict.fromkeys(json.loads(t) for x in lines for t in re.findall(r'"(?:[^"\\]|\\.)*"', x)))


@pytest.mark.parametrize("path", FAMILIES, ids=lambda p: p.stem)
def test_what_is_allowed_is_read_back(sampler, reader, path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 40
    tools = [{"name": k, "parameters": v} for k, v in SCHEMAS.items()]
    made = sampler.ask(calls={"family": path.stem, "max": 3, "tools": tools, "thinks": True}, samples=N, seed=7, texts=[],
                       endings=marks_of(path))
    assert "error" not in made and len(made["samples"]) > N * 9 // 10, made
    for text in made["samples"]:
        got = reader.ask(family=path.stem, text=text, tools=OFFERED, cuts=len(text) < 400)
        assert got["error"] == 0 and got["calls"] and not got["content"].strip(), (text, got)
        for call in got["calls"]:
            assert call["whole"], (text, got)
            jsonschema.validate(json.loads(call["arguments"]), SCHEMAS[call["name"]])


def test_thoughts_of_channels_are_read_back(sampler, reader):
    """Harmony's thought is a message before the call, and the grammar has both."""
    texts = [f"{thought}{header}{{\"only\":\"x\"}}"
             for thought in ("", "<|channel|>analysis<|message|>Hm, <b>{1}\n<|end|><|start|>assistant")
             for header in ("<|channel|>commentary to=functions.g <|constrain|>json<|message|>",
                            "<|channel|>commentary to=functions.g<|message|>",
                            " to=functions.g<|channel|>commentary <|constrain|>json<|message|>",
                            " to=functions.g<|channel|>commentary json<|message|>")]
    bad = ["<|channel|>final<|message|>{}", "Hm." + texts[0], texts[0] + texts[0], "<|channel|>analysis<|message|>Hm.<|end|>",
           texts[-1].replace("Hm", "a<|end|>b"), texts[-1].replace("Hm", "a<|channel|>b")]
    tools = [{"name": "g", "parameters": SCHEMAS["g"]}]
    made = sampler.ask(calls={"family": "harmony", "max": 3, "tools": tools, "thinks": True}, texts=texts + bad)
    assert made["taken"] == [True] * len(texts) + [False] * len(bad), made
    made = sampler.ask(calls={"family": "harmony", "max": 3, "tools": tools}, texts=texts)
    assert made["taken"] == [True] * 4 + [False] * 4, made
    for text in texts:
        got = reader.ask(family="harmony", text=text + "<|call|>", tools=OFFERED)
        assert got["reasoning"] == ("Hm, <b>{1}\n" if "analysis" in text else "") and got["content"] == "", got
        assert [(c["name"], json.loads(c["arguments"])) for c in got["calls"]] == [("g", {"only": "x"})]


# ---- schemas that are more than `properties`

KINDS = [{"properties": {"kind": {"const": "a"}, "v": {"type": "integer"}}, "required": ["kind", "v"], "additionalProperties": False},
         {"properties": {"kind": {"const": "b"}, "v": {"type": "string"}}, "required": ["kind"], "additionalProperties": False}]
POINT = {"type": "object", "properties": {"x": {"type": "integer"}, "tag": {"type": "string"}}, "required": ["x"],
         "additionalProperties": False}
THREE = {k: {"type": "integer"} for k in ("a", "b", "c")}
ROOTS = {
    "texts": {"type": "object", "additionalProperties": {"type": "string"}},
    "numbers": {"type": "object", "additionalProperties": {"type": "integer"}},
    "objects": {"type": "object", "additionalProperties": POINT},
    "anyOf": {"type": "object", "anyOf": KINDS},
    "oneOf": {"type": "object", "oneOf": KINDS},
    "anyOf beside properties": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}},
                                "anyOf": [{"required": ["a"]}, {"required": ["b"]}], "additionalProperties": False},
    "$ref": {"$ref": "#/$defs/p", "$defs": {"p": POINT}},
    "$ref in anyOf": {"anyOf": [{"$ref": "#/$defs/p"}, {"$ref": "#/$defs/k"}], "$defs": {"p": POINT, "k": KINDS[0]}},
    "allOf": {"allOf": [{"type": "object", "properties": {"a": {"type": "string"}}, "required": ["b"]},
                        {"properties": {"b": {"type": ["integer", "string"]}}}, {"properties": {"b": {"type": "string"}}}]},
    "patternProperties": {"type": "object", "additionalProperties": False,
                          "patternProperties": {"^n_": {"type": "integer"}, "^s_": {"type": "string"}}},
    "names and patterns": {"type": "object", "properties": {"n_a": {"type": "string", "maxLength": 3}}, "required": ["n_a"],
                           "patternProperties": {"^n": {"type": "string", "minLength": 2}}, "additionalProperties": {"type": "boolean"}},
    "names and others": {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"],
                         "additionalProperties": {"type": "integer"}},
    "propertyNames": {"type": "object", "propertyNames": {"enum": ["x", "y"]}, "additionalProperties": {"type": "boolean"}},
    "counts": {"type": "object", "properties": THREE, "minProperties": 2, "maxProperties": 2, "additionalProperties": False},
    "at least one": {"type": "object", "additionalProperties": {"type": "string"}, "minProperties": 1},
    "no properties": {"type": "object", "properties": {}},
    "required alone": {"type": "object", "required": ["a"]},
}
ONE_BY_ONE = [p for p in FAMILIES if re.search("^argument ", p.read_text(encoding="utf-8"), re.M)]


@pytest.mark.parametrize("path", ONE_BY_ONE, ids=lambda p: p.stem)
def test_whole_schemas_are_held(sampler, reader, path):
    """Where arguments stand one by one, a schema of the whole object holds all the same."""
    seen = set()
    for name, schema in ROOTS.items():
        made = sampler.ask(calls={"family": path.stem, "max": 2, "tools": [{"name": "f", "parameters": schema}]}, samples=N,
                           seed=3, texts=[], endings=marks_of(path))
        assert "error" not in made and len(made["samples"]) > N // 2, (name, made)
        for text in made["samples"]:
            got = reader.ask(family=path.stem, text=text, cuts=len(text) < 300,
                             tools=[{"type": "function", "function": {"name": "f", "parameters": schema}}])
            assert got["error"] == 0 and got["calls"] and not got["content"].strip(), (name, text, got)
            for call in got["calls"]:
                assert call["whole"], (name, text, got)
                value = json.loads(call["arguments"])
                jsonschema.validate(value, schema)
                seen.add((name, *value))
    assert len(seen) > 2 * len(ROOTS), seen


STRINGS = {
    "day": {"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}]},
    "size": {"anyOf": [{"enum": ["1", "2"], "type": "string"}, {"type": "null"}]},
    "code": {"type": ["string", "boolean"], "pattern": "^[0-9]{3}$"},
    "mark": {"type": ["string", "null"], "pattern": "^[-{\\[][a-z]$"},
}


@pytest.mark.parametrize("path", ONE_BY_ONE, ids=lambda p: p.stem)
def test_strings_beside_other_types(sampler, reader, path):
    """A raw text is only kept from what its reader takes for one of the other types: "1" is a string where numbers are not
    allowed. Where all strings of a schema would be taken so, its other values are left."""
    parameters = {"type": "object", "properties": {**STRINGS, "one": {"enum": ["1", 1]}}, "required": [*STRINGS, "one"],
                  "additionalProperties": False}
    made = sampler.ask(calls={"family": path.stem, "max": 1, "tools": [{"name": "f", "parameters": parameters}]}, samples=40,
                       seed=3, texts=[], endings=marks_of(path))
    assert "error" not in made, made
    seen = set()
    for text in made["samples"]:
        got = reader.ask(family=path.stem, text=text, tools=[{"type": "function", "function": {"name": "f", "parameters": parameters}}])
        assert got["error"] == 0 and [c["whole"] for c in got["calls"]] == [True], (text, got)
        value = json.loads(got["calls"][0]["arguments"])
        jsonschema.validate(value, parameters)
        seen |= {k for k, v in value.items() if isinstance(v, str)}
    assert seen >= set(STRINGS), seen


@pytest.mark.parametrize("path", ONE_BY_ONE, ids=lambda p: p.stem)
def test_many_tools(sampler, path):
    """As many as agents have: the strings of all arguments share what they have in common."""
    kinds = [{"type": "string"}, {"anyOf": [{"type": "string"}, {"type": "null"}]}, {"type": "integer"},
             {"enum": [f"kind {i}" for i in range(6)], "type": "string"}, {"type": "array", "items": {"type": "string"}}]
    tools = [{"name": f"tool_{i}", "parameters": {"type": "object", "properties": {
        f"p{k}": {**kinds[k % 5], "description": f"argument {k} of {i}"} for k in range(10)}, "required": ["p0"],
        "additionalProperties": False}} for i in range(64)]
    made = sampler.ask(calls={"family": path.stem, "max": 8, "tools": tools}, samples=1, seed=1, texts=[])
    assert "error" not in made, made


@pytest.mark.parametrize("path", ONE_BY_ONE, ids=lambda p: p.stem)
def test_long_lists_of_strings(sampler, reader, path):
    words = [f"{'abcdefghij'[i % 10]}-{i} of them" for i in range(600)]
    parameters = {"type": "object", "properties": {"a": {"anyOf": [{"enum": words}, {"type": "null"}]}}, "required": ["a"],
                  "additionalProperties": False}
    made = sampler.ask(calls={"family": path.stem, "max": 1, "tools": [{"name": "f", "parameters": parameters}]}, samples=20,
                       seed=1, texts=[])
    assert "error" not in made, made
    seen = set()
    for text in made["samples"]:
        got = reader.ask(family=path.stem, text=text, tools=[{"type": "function", "function": {"name": "f", "parameters": parameters}}])
        seen.add(json.loads(got["calls"][0]["arguments"])["a"])
    assert seen <= {*words, None} and len(seen) > 2, seen


def test_a_length_that_is_too_long(sampler):
    tool = {"name": "f", "parameters": {"type": "object", "properties": {"a": {"type": "string", "maxLength": 9000}}}}
    made = sampler.ask(calls={"family": "qwen3_coder", "max": 1, "tools": [tool]}, texts=[])
    assert "the argument 'a' of 'f'" in made["error"] and "a shorter 'maxLength'" in made["error"], made


def test_what_no_text_can_be(sampler):
    """The only value holds the text that would end it."""
    parameters = {"type": "object", "properties": {"a": {"const": "b</parameter>c"}}, "required": ["a"]}
    made = sampler.ask(calls={"family": "qwen3_coder", "max": 1, "tools": [{"name": "f", "parameters": parameters}]}, texts=[])
    assert "the schema of the argument 'a' allows no value" in made["error"], made


@pytest.mark.parametrize("family,head", [("gemma4", "<|tool_call>call:f{"), ("functiongemma", "<start_function_call>call:f{")])
def test_strings_of_json_among_quoted_values(reader, family, head):
    """A quote that is escaped does not end a string: brackets behind it are part of the string."""
    tail = {"gemma4": "}<tool_call|>", "functiongemma": "}<end_function_call>"}[family]
    for value in (['"}'], {"k": "a\"] b", "l": ["\\", "}"]}, '"', 'a\\"}'):
        got = reader.ask(family=family, text=head + "v:" + json.dumps(value) + ",n:1" + tail, tools=OFFERED)
        assert [(c["whole"], json.loads(c["arguments"])) for c in got["calls"]] == [(True, {"v": value, "n": 1})], (value, got)


def test_schemas_that_fork(reader):
    """Each level refers to the next one eight times: how long it is looked at has a bound, and the call is read."""
    levels = {f"d{i}": {"allOf": [{"$ref": f"#/$defs/d{i + 1}"}] * 8} for i in range(14)}
    one = {"$ref": "#/$defs/d0"}
    parameters = {"type": "object", "properties": {"a": one, "l": {"type": "array", "items": one}}, "additionalProperties": one,
                  "$defs": {**levels, "d14": {"type": "integer"}}}
    for family in ("hermes", "minimax_m3"):
        text = {"hermes": '<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>',
                "minimax_m3": "]<]minimax[>[<tool_call>]<]minimax[>[<invoke name=\"f\">]<]minimax[>[<a>1]<]minimax[>[</a>"
                              "]<]minimax[>[</invoke>]<]minimax[>[</tool_call>"}[family]
        got = reader.ask(family=family, text=text, tools=[{"type": "function", "function": {"name": "f", "parameters": parameters}}])
        assert [json.loads(c["arguments"]) for c in got["calls"]] == [{"a": 1}], got


@pytest.mark.parametrize("family,parameters,words", [
    ("qwen3_coder", {"enum": [{"a": 1}, {"a": 2}]}, "'enum' and 'const' of an object"),
    ("qwen3_coder", {"anyOf": [{"const": {"a": 1}}]}, "'enum' and 'const' of an object"),
    ("qwen3_coder", {"type": "object", "not": {"required": ["a"]}}, "'not' is not supported"),
    ("qwen3_coder", {"type": "string"}, "no object is valid"),
    ("qwen3_coder", {"type": "object", "properties": {"a>b": {"type": "string"}}}, "'a>b' has a character that ends argument names"),
    ("pythonic", {"type": "object", "properties": {"a=b": {"type": "string"}}}, "'a=b' has a character that ends argument names"),
])
def test_what_cannot_be_held_is_refused_by_name(sampler, family, parameters, words):
    made = sampler.ask(calls={"family": family, "max": 1, "tools": [{"name": "f", "parameters": parameters}]}, texts=[])
    assert made["code"] in ("unsupported", "invalid") or "UNSUPPORTED" in made["code"].upper(), made
    assert "the parameters of 'f'" in made["error"] and words in made["error"], made


def test_a_text_with_a_bracket_in_front(reader):
    """Of an argument that may be no list, a text that begins as one ends at its mark like any other."""
    tool = {"type": "function", "function": {"name": "f", "parameters": {
        "type": "object", "properties": {"b": {"type": ["integer", "string"]}}}}}
    for value in ('["O', "[x", '{"a', "{"):
        text = f"<tool_call>\n<function=f>\n<parameter=b>\n{value}\n</parameter>\n</function>\n</tool_call>"
        [call] = reader.ask(family="qwen3_coder", text=text, tools=[tool], cuts=True)["calls"]
        assert call["whole"] and json.loads(call["arguments"]) == {"b": value}


def test_a_value_that_begins_another_argument(sampler):
    """MiniCPM writes a value raw, or between marks: a raw one may not begin with the mark, or it would not end."""
    path = next(p for p in FAMILIES if p.stem == "minicpm5")
    call = '<function name="g"><param name="only">{}</param></function>'
    values = ["x", "x<![CDATA[", "<![CDATA[x", "<![CDATA[x]]>", "<![CDAT"]
    made = sampler.ask(calls={"family": path.stem, "max": 1, "tools": [{"name": "g", "parameters": SCHEMAS["g"]}]},
                       samples=0, seed=1, texts=[call.format(v) for v in values])
    assert made["taken"] == [True, True, False, True, True]


# ---- in a server

CALL = "<tool_call>\n<function=f>\n<parameter=s>\nOslo\n</parameter>\n<parameter=n>\n3\n</parameter>\n</function>\n</tool_call>"
TEMPLATE = "{% for m in messages %}{{ m.content }}{% endfor %}{% if tools %}<function=a><parameter=b></parameter>{% endif %}"
TOOL = {"type": "function", "function": {"name": "f", "parameters": {
    "type": "object", "properties": {"s": {"type": "string"}, "n": {"type": "integer"}}}}}


def ask(server, text, tools=(TOOL,), **fields):
    """The answer is forced: it is `text`."""
    body = {"messages": [{"role": "user", "content": "Once"}], "tools": list(tools), "max_tokens": 300, "temperature": 0,
            "structured_outputs": {"choice": [text]}, **fields}
    return server.post("/v1/chat/completions", body)


def test_a_template_chooses_the_family(start, tmp_path):
    file = tmp_path / "t.jinja"
    file.write_text(TEMPLATE)
    s = start("--chat-template", str(file))
    assert s.get("/props").json["tool_call_parser"] == "qwen3_coder" and "tool_call_parser=\"qwen3_coder\"" in s.read_log()
    r = ask(s, CALL)
    [call] = r.json["choices"][0]["message"]["tool_calls"]
    assert r.headers["X-Warning"] is None and r.json["choices"][0]["finish_reason"] == "tool_calls"
    assert json.loads(call["function"]["arguments"]) == {"s": "Oslo", "n": 3}


def test_a_budget_that_cannot_be_held(start):
    """The demo model's vocabulary has no token for <think>: the engine does not see a thought end, and the client is told."""
    s = start("--reasoning-parser", "qwen3")
    body = {"messages": [{"role": "user", "content": "Once"}], "max_tokens": 3}
    for fields, is_told in (({}, False), ({"reasoning_budget": 2}, True), ({"reasoning_budget": 0}, False), ({"reasoning_budget": -1}, False)):
        r = s.post("/v1/chat/completions", {**body, **fields})
        assert r.status == 200 and ("budget" in (r.headers["X-Warning"] or "")) == is_told, fields
    assert s.post("/v1/completions", {"prompt": "Once", "max_tokens": 3, "reasoning_budget": 2}).headers["X-Warning"] is None


def test_a_family_that_nobody_knows(start):
    """Calls stay text, and whoever offers tools is told."""
    s = start()
    assert s.get("/props").json["tool_call_parser"] == "none"
    r = ask(s, CALL)
    assert r.json["choices"][0]["message"]["content"] == CALL and "tool_call_parser" in r.headers["X-Warning"]
    assert ask(s, CALL, tool_choice="none").headers["X-Warning"] is None


def test_a_setting_chooses_the_family(start, tmp_path):
    own = tmp_path / "martian.family"
    own.write_text('# Nobody speaks so\nname martian\ncall "((call " NAME ":" ~ ARGUMENTS "))"\nargument KEY "->" TEXT ";" ~\n')
    for setting, text in (("qwen3_xml", CALL), ("Qwen3-Coder", CALL), (str(own), "((call f: s->Oslo; n->3; ))")):
        s = start("--tool-call-parser", setting)
        [call] = ask(s, text).json["choices"][0]["message"]["tool_calls"]
        assert json.loads(call["function"]["arguments"]) == {"s": "Oslo", "n": 3}
    assert ask(start("--tool-call-parser", "none"), CALL).json["choices"][0]["message"]["content"] == CALL


def test_a_description_in_the_working_folder(start, tmp_path, monkeypatch):
    """A name without a slash is a file, too: the sandbox lets the process read it."""
    (tmp_path / "own.family").write_text('name own\ncall "((call " NAME ":" ~ ARGUMENTS "))"\nargument KEY "->" TEXT ";" ~\n')
    binary = os.path.abspath(BIN)
    monkeypatch.chdir(tmp_path)
    s = start("--tool-call-parser", "own.family", binary=binary)
    [call] = ask(s, "((call f: s->Oslo; n->3; ))").json["choices"][0]["message"]["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == {"s": "Oslo", "n": 3}


def test_thoughts_of_another_family(start):
    s = start("--tool-call-parser", "hermes", "--reasoning-parser", "seed_oss")
    m = ask(s, "<seed:think>Hm.</seed:think>So.").json["choices"][0]["message"]
    assert (m["reasoning_content"], m["content"]) == ("Hm.", "So.")


@pytest.mark.parametrize("flags,words", [
    (["--tool-call-parser", "nobody"], "neither a parser's name nor a file"),
    (["--reasoning-parser", "nobody"], "not a parser's name"),
])
def test_parsers_that_are_not_known(flags, words):
    run = serve_in_vain(*flags)
    assert run.returncode != 0 and words in run.stderr and "hermes" in run.stderr


def test_a_description_with_a_fault(tmp_path):
    (tmp_path / "bad.family").write_text("name a\ncall NAME\n")
    run = serve_in_vain("--tool-call-parser", f"{tmp_path}/bad.family")
    assert run.returncode != 0 and "bad.family: line 2: it must have JSON" in run.stderr
    (tmp_path / "bad.family").write_text('name a\nclosing "b"\n')
    run = serve_in_vain("--tool-call-parser", f"{tmp_path}/bad.family")
    assert run.returncode != 0 and "bad.family: line 2: it must be two texts" in run.stderr


@pytest.mark.parametrize("path,fields", [
    ("/v1/chat/completions", {"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {
        "type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}}}}),
    ("/v1/responses", {"text": {"format": {"type": "json_schema", "name": "a", "schema": {
        "type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}}}}),
])
def test_a_format_beside_tools(start, path, fields):
    """The answer is a call or has the format; both happen (with different seeds), and nothing else does."""
    s = start("--tool-call-parser", "qwen3_coder")
    tool = TOOL if "chat" in path else {"type": "function", **TOOL["function"]}
    seen = set()
    for seed in range(40):
        body = {"tools": [tool], "temperature": 2, "seed": seed, **fields}
        if "chat" in path:
            r = s.post(path, {"messages": [{"role": "user", "content": "Once"}], "max_tokens": 400, **body})
            [c] = r.json["choices"]
            if c["finish_reason"] == "length":
                continue
            calls, text = c["message"].get("tool_calls"), c["message"]["content"]
            calls = [x["function"] for x in calls or []]
        else:
            r = s.post(path, {"input": "Once", "max_output_tokens": 400, **body})
            if r.json["status"] != "completed":
                continue
            calls = [i for i in r.json["output"] if i["type"] == "function_call"]
            text = "".join(p["text"] for i in r.json["output"] if i["type"] == "message" for p in i["content"])
        if calls:
            seen.add("call")
            for call in calls:
                jsonschema.validate(json.loads(call["arguments"]), TOOL["function"]["parameters"])
        else:
            seen.add("format")
            assert list(json.loads(text)) == ["a"]
    assert seen == {"call", "format"}


@pytest.mark.parametrize("family", ["hermes", "qwen3_coder", "glm45", "kimi_k2", "pythonic", "deepseek_v32", "apertus"])
def test_calls_that_are_insisted_on(start, family):
    """They are written as the family does: what a small model makes of that is a call, whole and valid."""
    s = start("--tool-call-parser", family)
    whole = 0
    for seed in range(8):
        for choice in ("required", {"type": "function", "function": {"name": "g"}}):
            body = {"messages": [{"role": "user", "content": "Once"}], "tools": OFFERED[1:2] + [TOOL], "tool_choice": choice,
                    "seed": seed, "max_tokens": 300, "temperature": 1}
            [c] = s.post("/v1/chat/completions", body).json["choices"]
            assert not c["message"]["content"], c
            if c["finish_reason"] == "length":
                continue
            whole += 1
            for call in c["message"]["tool_calls"]:
                name = call["function"]["name"]
                assert choice == "required" or name == "g"
                jsonschema.validate(json.loads(call["function"]["arguments"]),
                                    SCHEMAS["g"] if name == "g" else TOOL["function"]["parameters"])
    assert whole >= 4


def test_a_schema_of_whole_objects(start):
    """Listed objects cannot be held to argument by argument: strict tools are refused by name, and calls that are insisted on
    are a list of JSON instead. What can be held is: a call that must have one of two forms."""
    s = start("--tool-call-parser", "qwen3_coder")
    listed = {"type": "function", "function": {"name": "f", "strict": True, "parameters": {"enum": [{"a": 1}, {"a": 2}]}}}
    body = {"messages": [{"role": "user", "content": "Once"}], "max_tokens": 300, "temperature": 1}
    r = s.post("/v1/chat/completions", {**body, "tools": [listed]})
    assert r.status == 400 and "the parameters of 'f'" in r.json["error"]["message"] and "'enum'" in r.json["error"]["message"], r.body
    kinds = {"type": "function", "function": {"name": "f", "parameters": ROOTS["$ref in anyOf"]}}
    for tool, schema in ((listed, listed["function"]["parameters"]), (kinds, ROOTS["$ref in anyOf"])):
        whole = 0
        for seed in range(6):
            [c] = s.post("/v1/chat/completions", {**body, "tools": [tool], "tool_choice": "required", "seed": seed,
                                                  "parallel_tool_calls": False}).json["choices"]
            if c["finish_reason"] != "length":
                [call] = c["message"]["tool_calls"]
                jsonschema.validate(json.loads(call["function"]["arguments"]), schema)
                whole += 1
        assert whole > 1


@pytest.mark.parametrize("family", ["hermes", "kimi_k2", "harmony", "none"])
def test_arguments_are_an_object(start, family):
    """Whatever else a tool's schema allows: a call with other arguments is none to whoever reads it."""
    s = start("--tool-call-parser", family)
    body = {"messages": [{"role": "user", "content": "Once"}], "max_tokens": 300, "temperature": 1}
    for choice in ("required", {"type": "function", "function": {"name": "f"}}):
        for parameters in ({"title": "Nothing"}, {"type": ["null", "object"]}, {"anyOf": [{"type": "null"}, {"type": "object"}]}):
            tool = {"type": "function", "function": {"name": "f", "parameters": parameters}}
            for seed in range(5):
                [c] = s.post("/v1/chat/completions", {**body, "tools": [tool], "tool_choice": choice, "seed": seed}).json["choices"]
                if c["finish_reason"] != "length":
                    assert isinstance(json.loads(c["message"]["tool_calls"][0]["function"]["arguments"]), dict), (parameters, c)
        for parameters in ({"type": "string"}, {"enum": ["a"]}, {"type": ["string", "null"]}):
            tool = {"type": "function", "function": {"name": "f", "parameters": parameters}}
            r = s.post("/v1/chat/completions", {**body, "tools": [tool], "tool_choice": choice})
            assert r.status == 400 and r.json["error"]["param"] == "tools", (parameters, r.body)


# ---- in order

def hermes(value):
    return '<tool_call>\n{"name": "f", "arguments": {"s": "%s"}}\n</tool_call>' % value


MIXED = f"<think>One.</think>\n\nTwo.\n{hermes('three')}\n<think>Four.</think>{hermes('five')}{hermes('six')}\nSeven."
ORDER = [("thought", "One."), ("text", "Two."), ("call", "three"), ("thought", "Four."), ("call", "five"), ("call", "six"),
         ("text", "Seven.")]


def blocks_of(path, answer):
    """(kind, text) of each block or item, in their order."""
    if path == "/v1/messages":
        kinds = {"thinking": ("thought", "thinking"), "text": ("text", "text")}
        return [("call", b["input"]["s"]) if b["type"] == "tool_use" else (kinds[b["type"]][0], b[kinds[b["type"]][1]])
                for b in answer["content"]]
    return [("call", json.loads(i["arguments"])["s"]) if i["type"] == "function_call" else
            ("thought" if i["type"] == "reasoning" else "text", i["content"][0]["text"]) for i in answer["output"]]


def joined_blocks(events):
    """The blocks that the events of a stream of Messages add up to."""
    blocks = []
    for e in events:
        if e["type"] == "content_block_start":
            assert e["index"] == len(blocks)
            blocks.append({**e["content_block"], "json": ""})
        elif e["type"] == "content_block_delta":
            key = next(k for k in ("text", "thinking", "signature", "partial_json") if k in e["delta"])
            into = "json" if key == "partial_json" else key
            blocks[e["index"]][into] += e["delta"][key]
    for b in blocks:
        if b["type"] == "tool_use":
            b["input"] = json.loads(b["json"])
    return {"content": blocks}


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/responses"])
@pytest.mark.parametrize("stream", [False, True])
def test_the_order_is_the_model_s(start, path, stream):
    """Thoughts and texts between calls are blocks of their own, and stand where the model wrote them."""
    s = start("--tool-call-parser", "hermes", "--reasoning-parser", "hermes")
    tool = TOOL["function"]
    fields = {"structured_outputs": {"choice": [MIXED]}, "temperature": 0, "stream": stream}
    if path == "/v1/messages":
        body = {"messages": [{"role": "user", "content": "Once"}], "max_tokens": 400, **fields,
                "tools": [{"name": "f", "input_schema": tool["parameters"]}]}
    else:
        body = {"input": "Once", "max_output_tokens": 400, "tools": [{"type": "function", **tool}], **fields}
    if not stream:
        got = s.post(path, body).json
    else:
        events = [e for _, e in events_of(s, path, body)]
        got = joined_blocks(events) if path == "/v1/messages" else events[-1]["response"]
        if path == "/v1/responses":
            done = [e["item"] for e in events if e["type"] == "response.output_item.done"]
            assert done == got["output"] and [e["output_index"] for e in events if e["type"].endswith("item.done")] == list(range(7))
    assert blocks_of(path, got) == ORDER
    if path == "/v1/messages":  # some clients send a thought back as such only if it is signed
        assert [b["signature"] for b in got["content"] if b["type"] == "thinking"] == ["cXVpcmU=", "cXVpcmU="]


@pytest.mark.parametrize("family,word", [("granite", "response"), ("jamba", "answer"), ("hunyuan", "answer")])
def test_texts_about_the_marks_around_texts(reader, family, word):
    """`<answer>` is a mark where the answer begins with it, and a word of XML anywhere else."""
    a, z = f"<{word}>", f"</{word}>"
    for text, content in ((f"{a}Hi.{z}", "Hi."), (f"<think>Hm.</think>\n{a}\nHi.\n{z}\n", "Hi.\n\n"), (f"{a}Hi.", "Hi."),
                          (f"Use `{a}` and `{z}`.", None), (f'{{"a": "{a}x{z}"}}', None), (f"x{z}", None), (f"{z} ends it", None),
                          (f"{a}See {a}y{z}{z}", f"See {a}y{z}"), (f"{a}{z}", ""), (f"{a[:-1]} x", None)):
        got = reader.ask(family=family, text=text, tools=OFFERED)
        assert got.get("content") == (text if content is None else content), (text, got)
        assert got["reasoning"] == ("Hm." if "think" in text else "")
    got = reader.ask(family=family, text=f"<think>{a} and {z}?</think>So.", tools=OFFERED)
    assert (got["reasoning"], got["content"]) == (f"{a} and {z}?", "So."), got


@pytest.mark.parametrize("answer,kinds", [("<think>Hm", ["reasoning"]), ("<think>Hm</think>\n", ["reasoning"]), ("<think></think>", ["message"])])
def test_answers_without_text(start, answer, kinds):
    """Whole and streamed a response has the same items: a message is made up only where there would be none."""
    s = start("--tool-call-parser", "hermes", "--reasoning-parser", "hermes")
    body = {"input": "Once", "max_output_tokens": 99, "structured_outputs": {"choice": [answer]}, "temperature": 0}
    streamed = [e for _, e in events_of(s, "/v1/responses", {**body, "stream": True})][-1]["response"]["output"]
    whole = s.post("/v1/responses", body).json["output"]
    assert [[(i["type"], [c["text"] for c in i["content"]]) for i in o] for o in (whole, streamed)] == [
        [(k, ["Hm" if k == "reasoning" else ""]) for k in kinds]] * 2


def test_chats_have_one_text(start):
    """Texts of an answer with calls between them are set off from each other."""
    s = start("--tool-call-parser", "hermes", "--reasoning-parser", "hermes")
    m = ask(s, MIXED).json["choices"][0]["message"]
    assert m["content"] == "Two.\n\nSeven." and len(m["tool_calls"]) == 3
