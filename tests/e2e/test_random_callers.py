"""Each family's calls by a model with random weights, held to the tools' schemas: forced ones, several in an answer, and
`auto` strict ones, where the model begins a call itself. Whatever it says is read back, and valid.

With QUIRE_SLOW=1 there are 1,000 answers of each family, and 200 with several calls."""
import json
import os
import re

import jsonschema
import pytest

from quire import Server
from test_families import FAMILIES
from test_thoughts import write_model

SLOW = bool(os.environ.get("QUIRE_SLOW"))
N = 1008 if SLOW else 16
AT_ONCE = 16
SECTION, CALL, END = 256, 257, 258
SCHEMAS = {
    "f": {"type": "object", "properties": {"s": {"type": "string", "maxLength": 6}, "n": {"type": "integer", "minimum": -9, "maximum": 99},
                                           "unit": {"enum": ["C", "F"]}}, "required": ["s", "n"], "additionalProperties": False},
    "g": {"type": "object", "properties": {"yes": {"type": "boolean"}}, "required": ["yes"], "additionalProperties": False},
}
TOOLS = [{"type": "function", "function": {"name": k, "strict": True, "parameters": v}} for k, v in SCHEMAS.items()]


def marks_of(path):
    """What a model of the family writes first, of its section of calls and of one call, where that is more than a byte: here
    each is one token, so that it comes by chance."""
    text = path.read_text(encoding="utf-8")
    if "\nchannels\n" in text:
        return "<|channel|>commentary to=functions.", None
    lines = [re.search(f"^{word} .*$", text, re.M) for word in ("section", "call")]
    found = [re.search(r'"(?:[^"\\]|\\.)*"', line[0]) if line else None for line in lines]
    marks = [json.loads(f[0]) if f else None for f in found]
    return marks if lines[0] else marks[::-1]


@pytest.fixture(scope="module", params=FAMILIES, ids=lambda p: p.stem)
def caller(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param.stem)
    first, second = marks_of(request.param)
    tokens = [mark if mark and len(mark) > 1 else f"<unused {i}>" for i, mark in enumerate((first, second))]
    s = Server("--model", str(write_model(folder, *tokens)), "--tool-call-parser", request.param.stem)
    s.begins = first == tokens[0]
    s.family = request.param.stem
    yield s
    s.stop()


def calls_of(server, n, bias, **fields):
    """Of n answers the calls that came to their ends: in a cut answer the last one may not. Each is valid."""
    all_calls = []
    for seed in range(n // AT_ONCE):
        r = server.post("/v1/chat/completions", {
            "messages": [{"role": "user", "content": "Once"}], "tools": TOOLS, "max_tokens": 600, "temperature": 1, "n": AT_ONCE,
            "seed": seed, "min_tokens": 4, "logit_bias": {str(SECTION): 9, str(CALL): 9, **bias}, **fields})
        assert r.status == 200, r.body
        for c in r.json["choices"]:
            calls = [call["function"] for call in c["message"].get("tool_calls") or []]
            all_calls.append(calls[:-1] if c["finish_reason"] == "length" else calls)
    for f in (f for calls in all_calls for f in calls):
        jsonschema.validate(json.loads(f["arguments"]), SCHEMAS[f["name"]])
    return all_calls


AT_LAST = {str(END): 100}
# A model that does not end, and likes to begin objects and the function's name.
MORE = {str(END): -100, str(ord("{")): 6, str(ord("f")): 6, str(ord(",")): 4}
ONE_CALL = {"llama3", "llama4"}  # their templates take no more


def test_forced(caller):
    assert all(calls_of(caller, N, AT_LAST, tool_choice="required"))


def test_auto(caller):
    """The model begins a call itself: only from there on is it held. It does where one token is the beginning."""
    calls = calls_of(caller, N, AT_LAST)
    assert sum(1 for c in calls if c) > N // 2 or not caller.begins, calls


def test_several_calls(caller):
    calls = calls_of(caller, N // 5 if SLOW else N, MORE, tool_choice="required")
    if caller.family in ONE_CALL:
        assert max(map(len, calls)) == 1
    else:
        assert sum(1 for c in calls if len(c) > 1) >= len(calls) // 4, calls
