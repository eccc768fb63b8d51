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
from test_thoughts import HARMONY as HARMONY_TEMPLATE, Thinker, byte_names, fixtures, write_model

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
    if "\nchannels " in text:
        return "<|channel|>commentary to=functions.", None
    lines = [re.search(f"^{word} .*$", text, re.M) for word in ("section", "call")]
    found = [re.search(r'"(?:[^"\\]|\\.)*"', line[0]) if line else None for line in lines]
    marks = [json.loads(f[0]) if f else None for f in found]
    return marks if lines[0] else marks[::-1]


@pytest.fixture(scope="module", params=FAMILIES, ids=lambda p: p.stem)
def caller(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param.stem)
    first, second = marks_of(request.param)
    tokens = [mark if mark and len(mark) > 1 else f"~unused {i}~" for i, mark in enumerate((first, second))]
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
ONE_CALL = {"llama3", "llama4", "harmony"}  # their templates take no more


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


# ---- marks that are control tokens

PLAIN = " to=functions."  # a token that is text

class Speaker(Thinker):
    plain, control = (), ()

    def tokenizer(self):
        super().tokenizer()
        self.keys.update({"tokenizer.ggml.tokens": byte_names() + [*self.plain, *self.control],
                          "tokenizer.ggml.token_type": [1] * 256 + [4] * len(self.plain) + [3] * len(self.control),
                          "tokenizer.ggml.eos_token_id": self.n_vocab - 1})


def write_speaker(folder, control, plain=()):
    """A model with control tokens of these names, of which the last one ends an answer, and tokens that are text."""
    f = Speaker("qwen3", "plain", "F32", 1, 1024)
    f.plain, f.control, f.n_vocab = plain, control, 256 + len(plain) + len(control)
    fixtures.qwen3(f)
    file = folder / "m.gguf"
    file.write_bytes(f.bytes())
    return file, {name: 256 + i for i, name in enumerate([*plain, *control])}


def written(choice, ids):
    """What the model wrote, its control tokens between braces that nothing else writes."""
    texts = {i: bytes([i]) for i in range(256)}
    texts.update({i: (name if name == PLAIN else f"\x01{name}\x02").encode() for name, i in ids.items()})
    return b"".join(texts[i] for i in choice["token_ids"]).decode("utf-8", "replace")


def answers(server, n, **fields):
    r = server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "Once"}], "tools": TOOLS, "max_tokens": 600,
                                             "temperature": 1, "n": n, "seed": 1, "return_token_ids": True, **fields})
    assert r.status == 200, r.body
    return r.json["choices"]


def check_calls(choice):
    calls = [call["function"] for call in choice["message"].get("tool_calls") or []]
    for f in calls[:-1] if choice["finish_reason"] == "length" else calls:
        jsonschema.validate(json.loads(f["arguments"]), SCHEMAS[f["name"]])
    return calls


CONTROL = {
    "mistral_args": ["[TOOL_CALLS]", "[ARGS]", "</s>"],
    "kimi_k2": ["<|tool_calls_section_begin|>", "<|tool_calls_section_end|>", "<|tool_call_begin|>", "<|tool_call_argument_begin|>",
                "<|tool_call_end|>", "<|im_end|>"],
    "granite": ["<|tool_call|>", "<|end_of_text|>"],
    "gemma4": ["<|tool_call>", "<tool_call|>", '<|"|>', "<eos>"],
    "kimi_k3": ["<|open|>", "<|close|>", "<|sep|>", "<|im_end|>"],
}


@pytest.fixture(scope="module", params=CONTROL)
def speaker(request, tmp_path_factory):
    file, ids = write_speaker(tmp_path_factory.mktemp(request.param), CONTROL[request.param])
    s = Server("--model", str(file), "--tool-call-parser", request.param)
    s.ids, s.family = ids, request.param
    yield s
    s.stop()


def test_marks_are_control_tokens(speaker):
    """Where the family's marks are control tokens of the vocabulary, a call has these, and not their names in letters."""
    *marks, end = speaker.ids
    choices = answers(speaker, AT_ONCE, tool_choice="required", logit_bias={str(speaker.ids[end]): 100})
    assert all(check_calls(c) for c in choices)
    for c in choices:
        text = written(c, speaker.ids)
        letters = re.sub("\x01.*?\x02", "", text)
        assert "\x01" in text.removesuffix(f"\x01{end}\x02") and not any(m in letters for m in marks), text


def test_a_control_token_begins_a_call(speaker):
    """`auto`: the model writes the mark by itself, and is held from there on."""
    first, *_, end = speaker.ids
    bias = {str(speaker.ids[first]): 12, str(speaker.ids[end]): 3}
    choices = answers(speaker, AT_ONCE, logit_bias=bias)
    calls = [check_calls(c) for c in choices]
    assert speaker.family == "kimi_k3" or sum(map(bool, calls)) >= AT_ONCE // 2, choices


# ---- gpt-oss

HARMONY = ["<|start|>", "<|channel|>", "<|message|>", "<|constrain|>", "<|end|>", "<|return|>", "<|call|>"]
THOUGHT = "(\x01<.channel.>\x02analysis\x01<.message.>\x02[^\x01]*\x01<.end.>\x02\x01<.start.>\x02assistant)"
HEADERS = ("(\x01<.channel.>\x02commentary to=functions.[fg]( \x01<.constrain.>\x02json)?|"
           " to=functions.[fg]\x01<.channel.>\x02commentary (\x01<.constrain.>\x02)?json)")
HELD = "to=functions.[fg](\x01<.channel.>\x02commentary)?( (\x01<.constrain.>\x02)?json)?\x01<.message.>\x02{[^\x01]*}$"
MESSAGE = HEADERS + "\x01<.message.>\x02{[^\x01]*}(\x01<.(call|return).>\x02)?"


@pytest.fixture(scope="module")
def gpt_oss(tmp_path_factory):
    file, ids = write_speaker(tmp_path_factory.mktemp("harmony"), HARMONY, [PLAIN])
    template = file.parent / "t.jinja"
    template.write_text(HARMONY_TEMPLATE)
    s = Server("--model", str(file), "--chat-template", str(template))
    s.ids = ids
    yield s
    s.stop()


@pytest.mark.parametrize("fields", [
    {"tool_choice": "required"}, {"tool_choice": {"type": "function", "function": {"name": "g"}}},
    {"tool_choice": "required", "parallel_tool_calls": False}, {"tool_choice": "required", "stream": True}], ids=str)
@pytest.mark.parametrize("thinks", [True, False])
def test_gpt_oss_calls_in_its_own_form(gpt_oss, fields, thinks):
    """A call that is insisted on is a message of Harmony's, behind a thought where thinking is on; one, and valid."""
    ids = gpt_oss.ids
    assert gpt_oss.get("/props").json["tool_call_parser"] == "harmony"
    bias = {str(ids["<|channel|>"]): 4, str(ord("a")): 3, str(ids["<|end|>"]): 4, str(ids["<|call|>"]): 100}
    fields = {"logit_bias": bias, **fields, **({} if thinks else {"reasoning_effort": "none"})}
    if fields.pop("stream", False):
        [whole] = answers(gpt_oss, 1, **fields)
        frames = [json.loads(x) for x in gpt_oss.frames("/v1/chat/completions", {
            "messages": [{"role": "user", "content": "Once"}], "tools": TOOLS, "max_tokens": 600, "temperature": 1, "seed": 1,
            **fields})[:-1]]
        deltas = [f["choices"][0]["delta"] for f in frames if f["choices"]]
        assert "".join(d.get("reasoning_content") or "" for d in deltas) == (whole["message"].get("reasoning_content") or "")
        assert "".join(c["function"].get("arguments") or "" for d in deltas for c in d.get("tool_calls") or []) == \
            whole["message"]["tool_calls"][0]["function"]["arguments"]
        return
    n_thoughts = 0
    for c in answers(gpt_oss, AT_ONCE, **fields):
        text = written(c, ids)
        assert not c["message"]["content"], c
        if c["finish_reason"] != "length":
            [call] = check_calls(c)
            assert re.fullmatch((THOUGHT + "?" if thinks else "") + MESSAGE, text, re.S), text
            assert "function" not in str(fields["tool_choice"]) or call["name"] == "g"
        n_thoughts += bool(c["message"].get("reasoning_content"))
    assert (n_thoughts > 0) == thinks


def test_gpt_oss_is_held_behind_its_header(gpt_oss):
    """`auto` with strict tools: from the function's name on, wherever in the header the model has it."""
    ids = gpt_oss.ids
    bias = {str(ids[PLAIN]): 12, str(ids["<|call|>"]): 100}
    choices = answers(gpt_oss, AT_ONCE, logit_bias=bias, min_tokens=4)
    calls = [check_calls(c) for c in choices]
    assert sum(map(bool, calls)) >= AT_ONCE // 2, choices
    for c, some in zip(choices, calls):
        assert not some or re.search(HELD, written(c, ids), re.S), written(c, ids)


def test_gpt_oss_with_a_format_beside_tools(gpt_oss):
    """The answer is a call, or a final message of the format."""
    ids, schema = gpt_oss.ids, SCHEMAS["g"]
    bias = {str(ids["<|call|>"]): 100, str(ids["<|end|>"]): 6, str(ids[PLAIN]): 2, str(ids["<|channel|>"]): 6}
    form = {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}
    seen = set()
    for c in answers(gpt_oss, 2 * AT_ONCE, logit_bias=bias, response_format=form):
        text = written(c, ids)
        if c["finish_reason"] == "length":
            continue
        seen.add("call" if check_calls(c) else "format")
        if not c["message"].get("tool_calls"):
            jsonschema.validate(json.loads(c["message"]["content"]), schema)
            assert re.fullmatch(THOUGHT + "?\x01<.channel.>\x02final\x01<.message.>\x02{.*}(\x01<.call.>\x02)?", text, re.S), text
    assert seen == {"call", "format"}


@pytest.mark.parametrize("tools", [{"tools": None}, {"tool_choice": "none"}], ids=["alone", "beside tools that may not be called"])
@pytest.mark.parametrize("thinks", [True, False])
def test_gpt_oss_with_a_format_alone(gpt_oss, thinks, tools):
    """The format stands in the final channel, behind a thought or none; where thinking is off the prompt has the header."""
    ids, schema = gpt_oss.ids, SCHEMAS["g"]
    bias = {str(ids["<|call|>"]): 100, str(ids["<|end|>"]): 6, str(ids["<|channel|>"]): 6}
    form = {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}
    header = THOUGHT + "?\x01<.channel.>\x02final\x01<.message.>\x02" if thinks else ""
    n_whole = 0
    for c in answers(gpt_oss, AT_ONCE, logit_bias=bias, response_format=form, **tools, **({} if thinks else {"reasoning_effort": "none"})):
        text = written(c, ids)
        if c["finish_reason"] == "length":
            continue
        n_whole += 1
        jsonschema.validate(json.loads(c["message"]["content"]), schema)
        assert re.fullmatch(header + "{.*}(\x01<.call.>\x02)?", text, re.S), text
    assert n_whole > 0
