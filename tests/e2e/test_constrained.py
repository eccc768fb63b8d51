"""Constrained output: whatever is asked for, the text parses and validates, from a model of random
weights at temperature 1; what cannot be done is refused with the keyword and the place."""
import concurrent.futures
import json
import pathlib
import re
import tempfile
import time

import jsonschema
import pytest

import schemas
from quire import SLOW, Server, make_model

FIXTURES = json.loads((pathlib.Path(__file__).parent.parent / "fixtures/schemas.json").read_text("utf-8"))
N_MADE = (3000 if SLOW else 300) - len(FIXTURES["accepted"])
AMPLE = 7000


@pytest.fixture(scope="module")
def random_model():
    """A server of a small model that has learnt nothing: its texts show the constraint alone."""
    with tempfile.TemporaryDirectory() as folder:
        s = Server(model=make_model(pathlib.Path(folder) / "random.gguf", "--embd", "64", "--layers", "1", "--heads",
                                    "2", "--kv-heads", "1", "--head-dim", "32", "--ff", "64", "--vocab", "2000",
                                    "--context", "8192", "--type", "F32"))
        yield s
        s.stop()


def ask(server, fields, prompt="x"):
    return server.post("/v1/completions", {"prompt": prompt, "temperature": 1, "max_tokens": AMPLE, **fields},
                       timeout=600)


def check_schema(server, schema, seed):
    r = ask(server, {"json_schema": schema, "seed": seed})
    assert r.status == 200, (schema, r.body)
    choice = r.json["choices"][0]
    assert choice["finish_reason"] == "stop", (schema, choice["text"][-200:])
    value = json.loads(choice["text"])
    jsonschema.validate(value, schema, cls=jsonschema.Draft202012Validator)
    return choice["text"]


def check_all(server, wanted):
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        return list(pool.map(lambda i: check_schema(server, wanted[i], i), range(len(wanted))))


def test_schemas_by_hand(random_model):
    texts = check_all(random_model, FIXTURES["accepted"])
    assert len(set(texts)) > len(texts) / 2


def test_schemas_made_up(random_model):
    check_all(random_model, [schemas.make(seed) for seed in range(N_MADE)])


def test_a_trained_model_too(server):
    """Real words meet the ends of strings and numbers in other ways than random tokens."""
    for seed, schema in enumerate(FIXTURES["accepted"]):
        r = server.post("/v1/completions", {"prompt": "Once upon a time", "temperature": 1, "seed": seed,
                                            "max_tokens": 900, "json_schema": schema}, timeout=600)
        assert r.status == 200, r.body
        choice = r.json["choices"][0]
        if choice["finish_reason"] == "stop":
            jsonschema.validate(json.loads(choice["text"]), schema, cls=jsonschema.Draft202012Validator)


@pytest.mark.parametrize("schema, word, place", FIXTURES["refused"], ids=str)
def test_refused_by_name(server, schema, word, place):
    r = ask(server, {"json_schema": schema})
    assert r.status == 400, r.body
    error = r.json["error"]
    assert error["param"] == "json_schema" and word in error["message"], error
    assert place in error["message"], error


@pytest.mark.parametrize("fields, expected", [
    ({"guided_choice": ["yes", "no", "maybe so"]}, "yes|no|maybe so"),
    ({"structured_outputs": {"choice": ["a", "ab", "abc"]}}, "a|ab|abc"),
    ({"guided_regex": r"[A-Z]{3}-\d{4}(é|ß)?"}, r"[A-Z]{3}-\d{4}(é|ß)?"),
    ({"structured_outputs": {"regex": "^(0|[1-9][0-9]{0,3})$"}}, "(0|[1-9][0-9]{0,3})"),
    ({"grammar": 'root ::= "<" [a-z]{2,5} (" " root)? ">"'}, r"(<[a-z]{2,5} ?)+>+"),
    ({"guided_grammar": 'root ::= [^a-zA-Z\\x00-\\x1f]{3} # three'}, r"[^a-zA-Z\x00-\x1f]{3}"),
    ({"structured_outputs": {"grammar": 'root ::= x+\nx ::= "ja" | "nein"\n  | "\\u20ac" "."', "json": None}},
     r"(ja|nein|€\.)+"),
    ({"guided_json": '{"type": "integer"}'}, "-?[0-9]+"),
    ({"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"const": [1]}}}}, r"\[1\]"),
    ({"response_format": {"type": "json_object", "schema": {"type": "null"}}}, "null"),
])
def test_every_field(random_model, fields, expected):
    for seed in range(5):
        r = ask(random_model, {**fields, "seed": seed})
        assert r.status == 200, r.body
        assert r.json["choices"][0]["finish_reason"] == "stop"
        assert re.fullmatch(expected, r.text), r.text


def test_json_mode(server):
    r = ask(server, {"response_format": {"type": "json_object"}, "temperature": 0, "max_tokens": 400},
            prompt="One day")
    assert r.text.startswith("{")
    if r.json["choices"][0]["finish_reason"] == "stop":
        assert isinstance(json.loads(r.text), dict)
    assert ask(server, {"response_format": {"type": "text"}, "max_tokens": 5}, "Once").status == 200
    assert ask(server, {"structured_outputs": {"json_object": False}, "max_tokens": 5}, "Once").status == 200


@pytest.mark.parametrize("fields, param", [
    ({"grammar": 5}, "grammar"),
    ({"grammar": 'root ::= "a'}, "grammar"),
    ({"grammar": 'root ::= other'}, "grammar"),
    ({"grammar": 'root ::= root "a" | "b"'}, "grammar"),
    ({"grammar": 'root ::= ""'}, "grammar"),
    ({"grammar": 'root ::= "a" root'}, "grammar"),
    ({"guided_regex": "(?=a)"}, "guided_regex"),
    ({"guided_regex": "a++"}, "guided_regex"),
    ({"guided_choice": []}, "guided_choice"),
    ({"guided_choice": [1]}, "guided_choice"),
    ({"structured_outputs": 1}, "structured_outputs"),
    ({"structured_outputs": {"structural_tag": "x"}}, "structured_outputs"),
    ({"response_format": {"type": "yaml"}}, "response_format"),
    ({"response_format": {"type": "json_schema"}}, "response_format"),
    ({"guided_json": "{"}, "guided_json"),
    ({"grammar": 'root ::= "a"', "json_schema": {}}, "json_schema"),
    ({"structured_outputs": {"regex": "a", "choice": ["a"]}}, "structured_outputs.choice"),
])
def test_malformed(server, fields, param):
    r = ask(server, fields)
    assert r.status == 400, r.body
    assert r.json["error"]["param"] == param, r.body


@pytest.mark.parametrize("param, fields", [
    ("grammar", {"grammar": 'root ::= "a"'}), ("json_schema", {"json_schema": {"type": "object"}}), ("guided_regex", {"guided_regex": "a"}),
    ("structured_outputs.choice", {"structured_outputs": {"choice": ["a"]}})])
@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "f"}}], ids=["required", "named"])
def test_a_forced_call_excludes_other_constraints(server, param, fields, choice):
    """The answer is the call: a constraint of the whole answer would be dropped. One of a text that is no call may stand."""
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}, "additionalProperties": False}}}
    body = {"messages": [{"role": "user", "content": "x"}], "tools": [tool], "max_tokens": 40}
    r = server.post("/v1/chat/completions", {**body, **fields, "tool_choice": choice})
    assert r.status == 400 and r.json["error"]["param"] == param and "tool_choice" in r.json["error"]["message"], r.body
    assert server.post("/v1/chat/completions", {**body, **fields, "tool_choice": "auto"}).status == 200
    r = server.post("/v1/chat/completions", {**body, "tool_choice": choice, "response_format": {"type": "json_object"}})
    assert r.status == 200 and r.json["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "f", r.body


def test_hostile(server):
    """Deep, long and tangled: a quick 400 each, and the server goes on."""
    deep = "(" * 60000
    n = 45000
    hostile = [
        {"grammar": f'root ::= {deep}"a"{")" * 60000}'},
        {"guided_regex": f'{deep}a{")" * 60000}'},
        {"grammar": "root ::= " + "a " * 400000},
        {"json_schema": {"type": "object", "properties": {f"p{i}": {"type": "string"} for i in range(n)}}},
        {"json_schema": {"$ref": "#/$defs/d0", "$defs": {f"d{i}": {"$ref": f"#/$defs/d{(i + 1) % 5000}"}
                                                         for i in range(5000)}}},
        {"json_schema": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}},
        {"json_schema": {"anyOf": [{"$ref": "#"}, {"$ref": "#"}], "minLength": 1}},
        {"grammar": "root ::= a0\n" + "".join(f"a{i} ::= a{i + 1}? a{i + 1}\n" for i in range(9000)) + 'a9000 ::= "x"'},
        {"grammar": "root ::= x{100001}\nx ::= [a]"},
        {"guided_regex": "a{2,1}"},
    ]
    for fields in hostile:
        body = json.dumps({"prompt": "x", **fields})
        begin = time.monotonic()
        r = server.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
        took = time.monotonic() - begin
        assert r.status == 400 or "a9000" in body, (body[:80], r.status)
        assert took < 30, (body[:80], took)
    assert server.complete("Once", max_tokens=2).status == 200


def test_choices_streams_and_limits(random_model):
    s = random_model
    schema = {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 999}, "minItems": 5, "maxItems": 9}
    r = ask(s, {"json_schema": schema, "n": 8, "seed": 5})
    texts = [c["text"] for c in r.json["choices"]]
    assert len(set(texts)) > 1
    for i, text in enumerate(texts):  # each choice by itself gives the same
        jsonschema.validate(json.loads(text), schema)
        assert ask(s, {"json_schema": schema, "seed": 5 + i}).text == text
    stream = s.stream("x", json_schema=schema, temperature=1, max_tokens=AMPLE, seed=5)
    assert stream.text() == texts[0]
    cut = ask(s, {"json_schema": schema, "max_tokens": 3, "seed": 5}).json["choices"][0]
    assert cut["finish_reason"] == "length" and texts[0].startswith(cut["text"])
    exact = ask(s, {"guided_regex": "[a-c]{7}", "logprobs": 2, "seed": 1}).json
    assert exact["choices"][0]["finish_reason"] == "stop"
    fits = ask(s, {"guided_regex": "[a-c]{7}", "seed": 1, "ignore_eos": True,
                   "max_tokens": exact["usage"]["completion_tokens"]})
    assert fits.json["choices"][0]["finish_reason"] == "stop"


def test_bias_and_stops(random_model):
    s = random_model
    bias = {str(i): -100 for i in range(3, 400)}
    assert re.fullmatch("[xy]{4}", ask(s, {"guided_regex": "[xy]{4}", "logit_bias": dict(list(bias.items())[:200])}).text)
    assert ask(s, {"guided_regex": "abcdef", "stop": ["cd"]}).text == "ab"
    long = ask(s, {"guided_regex": "[xy]*", "min_tokens": 12, "max_tokens": 300}).json
    assert long["usage"]["completion_tokens"] >= 12
    assert ask(s, {"guided_regex": "ab", "min_tokens": 50}).text == "ab"


@pytest.mark.parametrize("fields", [
    {"temperature": 0}, {"top_k": 1}, {"top_k": 40}, {"top_p": 0.1}, {"min_p": 0.5}, {"typical_p": 0.2},
    {"xtc_probability": 0.5, "xtc_threshold": 0.01}, {"mirostat": 2, "mirostat_tau": 3},
    {"dry_multiplier": 2, "dry_allowed_length": 1}, {"repetition_penalty": 1.5, "presence_penalty": 2},
    {"temperature": 2, "top_p": 0.9, "top_k": 7, "min_p": 0.01},
], ids=str)
def test_every_way_to_choose(random_model, fields):
    for seed in range(8):
        r = ask(random_model, {"guided_regex": "[0-9]{3}([a-f]{2} ){4}x|y{30}", "seed": seed, **fields})
        assert r.status == 200, r.body
        assert re.fullmatch("[0-9]{3}([a-f]{2} ){4}x|y{30}", r.text), r.text


def test_deeply_nested(random_model):
    grammar = 'root ::= v\nv ::= "[" (v | "1") "]"'
    forced = 'root ::= ' + '"[" ' * 64 + 'v' + ' "]"' * 64 + '\nv ::= "[" v "]" | "1"'
    assert json.loads(ask(random_model, {"grammar": forced}).text)
    assert json.loads(ask(random_model, {"grammar": grammar}).text)
    # at the limit of the stack a way back is all that is left
    only_down = 'root ::= v\nv ::= "a" v "b" | "a" v "c" | "x"'
    text = ask(random_model, {"grammar": only_down, "logit_bias": {}}).text
    assert re.fullmatch("a*x[bc]*", text)


# ---- lazy grammars ----

def lazy(*triggers, grammar='root ::= "e" "<" [0-9]{3} ">"', **fields):
    return {"grammar": grammar, "grammar_lazy": True, "grammar_triggers": list(triggers), "max_tokens": 400, **fields}


WORD_E = {"type": 1, "value": "e"}


def test_a_lazy_grammar_begins_at_its_trigger(random_model):
    n_calls = 0
    for seed in range(12):
        r = ask(random_model, lazy(WORD_E, seed=seed)).json["choices"][0]
        free, _, call = r["text"].partition("e")
        if call:
            assert re.fullmatch("<[0-9]{3}>", call) and r["finish_reason"] == "stop", r["text"]
            n_calls += 1
    assert n_calls >= 6


def test_before_its_trigger_nothing_is_constrained(random_model):
    never = {"type": 1, "value": "no text has this in it"}
    for i in range(8):
        greedy = {"temperature": 0, "max_tokens": 100, "prompt": f"{i}"}
        plain = ask(random_model, greedy).text.partition("\ufffd")[0]  # no grammar has what is no UTF-8
        assert ask(random_model, {**lazy(never), **greedy}).text.startswith(plain)
        begun = ask(random_model, {**lazy(WORD_E), **greedy}).text
        free = begun.partition("e")[0]
        # a token that would have gone on behind the trigger is the first one that is missing
        same = next((k for k, c in enumerate(plain) if free[k:k + 1] != c), len(plain))
        assert same == len(plain) or "e" in plain[same:same + 16], (plain, begun)


def test_kinds_of_triggers(random_model):
    e = random_model.post("/tokenize", {"content": "e", "add_special": False}).json["tokens"]
    assert random_model.post("/detokenize", {"tokens": e[-1:]}).json["content"] == "e"
    word = [ask(random_model, lazy(WORD_E, seed=i)).text for i in range(4)]
    for same in ({"type": 0, "value": "", "token": e[-1]}, {"type": 2, "value": "e"}, {"type": 3, "value": "[\\s\\S]*e"}):
        assert [ask(random_model, lazy(same, seed=i)).text for i in range(4)] == word, same
    two = lazy(WORD_E, {"type": 2, "value": "[aA]"}, grammar='root ::= [aAe] "<" [0-9]{3} ">"', seed=1)
    assert re.fullmatch("[^aAe]*([aAe]<[0-9]{3}>)?", ask(random_model, two).text)
    schema = {"json_schema": {"type": "object", "properties": {"e": {"type": "integer"}}, "required": ["e"]},
              "grammar_lazy": True, "grammar_triggers": [WORD_E], "seed": 2, "max_tokens": 2000}
    text = ask(random_model, schema).text
    assert "e" not in text or isinstance(json.loads(text[text.rindex("{"):])["e"], int)


def test_lazy_grammars_that_say_nothing(random_model):
    for fields, says in (({"grammar_triggers": []}, "grammar_triggers"),
                         (lazy({"type": 2, "value": "x*"}), "a trigger matches the empty text"),
                         (lazy({"type": 2, "value": "("}), "at character"),
                         (lazy(WORD_E, grammar="root ::= ("), "line 1")):
        r = ask(random_model, {"grammar": 'root ::= "a"', "grammar_lazy": True, **fields})
        assert r.status == 400 and says in r.json["error"]["message"], r.body
    free = ask(random_model, {"grammar_lazy": True, "grammar_triggers": [WORD_E], "seed": 1, "max_tokens": 20})
    assert free.text == ask(random_model, {"seed": 1, "max_tokens": 20}).text
    eager = ask(random_model, {"grammar": 'root ::= "ab"', "grammar_triggers": [WORD_E]})
    assert eager.text == "ab"
