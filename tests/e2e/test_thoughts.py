"""Constraints behind thoughts, and thoughts with a budget: a model whose marks are tokens, as reasoning models have
them. Its weights are random, so it thinks nonsense, and ends that when a bias says so."""
import json
import pathlib
import sys

import jsonschema
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "reference"))
import fixture  # noqa: E402
import fixtures  # noqa: E402
from quire import Server  # noqa: E402

CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"
SCHEMA = {"type": "object", "properties": {"a": {"enum": ["x", "y"]}, "b": {"type": "integer", "maximum": 9, "minimum": 0}},
          "required": ["a", "b"], "additionalProperties": False}
FORMAT = {"type": "json_schema", "json_schema": {"name": "s", "schema": SCHEMA}}
TOOL = {"type": "function", "function": {"name": "f", "parameters": SCHEMA}}
ASK = [{"role": "user", "content": "why"}]
OPEN, CLOSE = 256, 257


def byte_names():
    """The 256 bytes as GPT-2's vocabularies write them."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = iter(range(256, 512))
    return [chr(b) if b in plain else chr(next(rest)) for b in range(256)]


class Thinker(fixture.Fixture):
    marks = ("<think>", "</think>")

    def tokenizer(self):
        self.keys.update({
            "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2",
            "tokenizer.ggml.tokens": byte_names() + [*self.marks, "<|end|>"],
            "tokenizer.ggml.token_type": [1] * 256 + [4, 4, 3], "tokenizer.ggml.merges": [],
            "tokenizer.ggml.eos_token_id": 258})


def write_model(folder, *marks):
    f = Thinker("qwen3", "plain", "F32", 1, 1024)
    f.marks = marks or f.marks
    f.n_vocab = 259
    fixtures.qwen3(f)
    file = folder / "m.gguf"
    file.write_bytes(f.bytes())
    return file


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("thinker"))


def serve(model, opens):
    """Its template begins each answer inside a thought, or leaves that to the model."""
    file = model.parent / f"t{opens}.jinja"
    file.write_text("{% for m in messages %}{{ m.content }}{% endfor %}{% if enable_thinking %}" +
                    ("<think>" if opens else "") + "{% else %}<think></think>{% endif %}")
    s = Server("--model", str(model), "--chat-template", str(file))
    yield s
    s.stop()


@pytest.fixture(scope="module")
def opened(model):
    yield from serve(model, True)


@pytest.fixture(scope="module")
def asked(model):
    yield from serve(model, False)


def ask(server, **fields):
    r = server.post(CHAT, {"messages": ASK, "max_tokens": 600, "temperature": 1, **fields})
    assert r.status == 200, r.body
    return r.json


def streamed(server, **fields):
    """(reasoning, content) of the same as a stream."""
    parts = server.frames(CHAT, {"messages": ASK, "max_tokens": 600, "temperature": 1, **fields})
    deltas = [json.loads(p)["choices"][0]["delta"] for p in parts[:-1] if json.loads(p)["choices"]]
    return ["".join(d.get(k) or "" for d in deltas) for k in ("reasoning_content", "content")]


@pytest.mark.parametrize("seed", range(4))
def test_the_constraint_begins_behind_the_thought(opened, seed):
    fields = {"seed": seed, "response_format": FORMAT, "logit_bias": {str(CLOSE): 3}}
    a = ask(opened, **fields)
    m = a["choices"][0]["message"]
    assert a["choices"][0]["finish_reason"] == "stop"
    jsonschema.validate(json.loads(m["content"]), SCHEMA)
    assert a["usage"]["completion_tokens_details"]["reasoning_tokens"] > 0
    assert streamed(opened, **fields) == [m.get("reasoning_content", ""), m["content"]]


def test_thoughts_are_as_without_a_constraint(opened):
    """Until its end the thought is what it would have been."""
    fields = {"seed": 7, "max_tokens": 40, "logit_bias": {"258": -100, str(CLOSE): -100}}
    plain = ask(opened, **fields)["choices"][0]
    bound = ask(opened, **fields, response_format=FORMAT)["choices"][0]
    assert plain["message"] == bound["message"] and bound["finish_reason"] == "length"
    assert bound["message"]["content"] == "" and bound["message"]["reasoning_content"]


def test_a_thought_does_not_end_the_answer(opened):
    """Where a constraint waits, the end of the text has to wait, too."""
    fields = {"seed": 1, "response_format": FORMAT, "logit_bias": {"258": 100, str(CLOSE): 90}}
    c = ask(opened, **fields)["choices"][0]
    jsonschema.validate(json.loads(c["message"]["content"]), SCHEMA)
    c = ask(opened, seed=1, logit_bias=fields["logit_bias"])["choices"][0]
    assert c["finish_reason"] == "stop" and c["message"]["content"] == ""


def test_calls_behind_a_thought(opened):
    for choice in ("required", {"type": "function", "function": {"name": "f"}}):
        c = ask(opened, seed=2, tools=[TOOL], tool_choice=choice, logit_bias={str(CLOSE): 3})["choices"][0]
        assert c["finish_reason"] == "tool_calls" and c["message"]["reasoning_content"]
        for call in c["message"]["tool_calls"]:
            jsonschema.validate(json.loads(call["function"]["arguments"]), SCHEMA)


def test_the_model_opens_a_thought(asked):
    """Its first token decides; who wants none says so."""
    thinks, thoughts = {str(OPEN): 6, str(CLOSE): 6}, []
    for seed in range(5):
        m = ask(asked, seed=seed, response_format=FORMAT, logit_bias=thinks)["choices"][0]["message"]
        jsonschema.validate(json.loads(m["content"]), SCHEMA)
        thoughts.append(m.get("reasoning_content", ""))
    assert any(thoughts)
    m = ask(asked, seed=3, response_format=FORMAT, logit_bias={str(OPEN): -100})["choices"][0]["message"]
    assert "reasoning_content" not in m
    jsonschema.validate(json.loads(m["content"]), SCHEMA)
    for off in ({"chat_template_kwargs": {"enable_thinking": False}}, {"reasoning_effort": "none"}):
        m = ask(asked, seed=3, response_format=FORMAT, logit_bias=thinks, **off)["choices"][0]["message"]
        assert "reasoning_content" not in m
        jsonschema.validate(json.loads(m["content"]), SCHEMA)


def messages(server, budget, **fields):
    r = server.post(MESSAGES, {"messages": ASK, "max_tokens": 200, "temperature": 1, **fields,
                               "thinking": {"type": "enabled", "budget_tokens": budget}})
    assert r.status == 200, r.body
    return r.json["content"]


def test_a_thought_ends_with_its_budget(opened, asked):
    """Of tokens of one byte each: what the mark follows is as long as the budget."""
    for server, bias in ((opened, {}), (asked, {str(OPEN): 100})):
        for budget in (4, 10, 40):
            fields = {"seed": 5, "logit_bias": {"258": -100, str(CLOSE): -100, **bias}}
            free = messages(server, 100000, **fields)
            assert [b["type"] for b in free] == ["thinking"]
            thought, text = messages(server, budget, **fields)
            assert thought["thinking"] == free[0]["thinking"][:len(thought["thinking"])]
            assert 0 < len(thought["thinking"].encode("utf-8", "replace")) <= 7 * budget
            assert text["type"] == "text"


def test_a_call_behind_a_thought_with_a_budget(opened):
    tools = [{"name": "f", "input_schema": SCHEMA}]
    thought, call = messages(opened, 9, seed=1, tools=tools, tool_choice={"type": "tool", "name": "f"},
                             logit_bias={str(CLOSE): -100})
    assert thought["type"] == "thinking" and call["type"] == "tool_use"
    jsonschema.validate(call["input"], SCHEMA)


def test_bad_budgets(opened):
    for bad in (0, -1, "x", 1.5):
        r = opened.post(MESSAGES, {"messages": ASK, "max_tokens": 5, "thinking": {"type": "enabled", "budget_tokens": bad}})
        assert r.status == 400 and "thinking.budget_tokens" in r.json["error"]["message"], r.body


def reasoning(a):
    return a["choices"][0]["message"]["reasoning_content"], a["usage"]["completion_tokens_details"]["reasoning_tokens"]


def test_a_message_ends_a_thought_whose_budget_is_used_up(opened, asked):
    """Its tokens, of one byte each, come before the mark, count as generated, and leave what stands before them as it is."""
    said = " Enough, I answer."
    for server, bias in ((opened, {}), (asked, {str(OPEN): 100})):
        fields = {"seed": 5, "max_tokens": 90, "reasoning_budget": 12, "logit_bias": {"258": -100, str(CLOSE): -100, **bias}}
        plain, told = ask(server, **fields), ask(server, **fields, reasoning_budget_message=said)
        (thought, n), (longer, m) = reasoning(plain), reasoning(told)
        assert longer == thought + said and m == n + len(said)
        assert told["choices"][0]["message"]["content"] and told["usage"]["completion_tokens"] == 90
        assert streamed(server, **fields, reasoning_budget_message=said) == [longer, told["choices"][0]["message"]["content"]]
        both = ask(server, **fields, n=2, reasoning_budget_message=said)["choices"]
        assert both[0]["message"] == told["choices"][0]["message"] and both[1]["message"]["reasoning_content"].endswith(said)
        assert ask(server, **fields, reasoning_budget_message="")["choices"] == plain["choices"]
        parts = messages(server, 12, seed=5, logit_bias=fields["logit_bias"], reasoning_budget_message=said)
        assert parts[0]["thinking"] == longer and parts[1]["type"] == "text"
        cut = ask(server, **{**fields, "max_tokens": 20}, reasoning_budget_message=said)["choices"][0]
        assert cut["finish_reason"] == "length" and not cut["message"]["content"]
        assert longer.startswith(cut["message"]["reasoning_content"])


# What publishers tell users to end thoughts with, beside a text that their templates alone have.
CLOSINGS = {
    "hermes": ("<think>", "</think>", "multi_step_tool",
               "\n\nConsidering the limited time by the user, I have to give the solution based on the thinking directly now.\n"),
    "seed_oss": ("<seed:think>", "</seed:think>", "<seed:cot_budget_reflect>",
                 "\n<seed:cot_budget_reflect>I have exhausted my token budget, and now I will start answering the question."
                 "</seed:cot_budget_reflect>\n"),
}


@pytest.mark.parametrize("family", CLOSINGS)
def test_a_family_has_words_of_its_own(start, tmp_path, family):
    """Where nobody says otherwise they end a thought whose budget is used up, as a message does."""
    first, last, sign, words = CLOSINGS[family]
    model = write_model(tmp_path, first, last)
    file = tmp_path / "t.jinja"
    plain = "{% for m in messages %}{{ m.content }}{% endfor %}{# " + last + " #}" + first
    fields = {"seed": 5, "max_tokens": 250, "reasoning_budget": 12, "logit_bias": {"258": -100, str(CLOSE): -100}}
    flags = ("--model", str(model), "--chat-template", str(file), "--tool-call-parser", family)

    file.write_text(plain)
    s = start(*flags)
    bare = ask(s, **fields)
    (thought, n) = reasoning(bare)
    s.stop()
    file.write_text(plain + "{# " + sign + " #}")
    s = start(*flags)
    told = ask(s, **fields)
    assert reasoning(told) == (thought + words.rstrip(), n + len(words))  # line ends before a mark are no part of a thought
    assert told["choices"][0]["message"]["content"]
    assert ask(s, **fields, reasoning_budget_message="")["choices"] == bare["choices"]
    assert reasoning(ask(s, **fields, reasoning_budget_message=" So."))[0] == thought + " So."
    without = {**fields, "reasoning_budget": -1, "max_tokens": 40}
    assert ask(s, **without)["choices"] == ask(s, **without, reasoning_budget_message="")["choices"]
    s.stop()
    s = start(*flags, "--reasoning-budget-message", " By setting.")
    assert reasoning(ask(s, **fields))[0] == thought + " By setting."
    s.stop()
    s = start(*flags, "--reasoning-parser", family, "--reasoning-budget", "12")
    del fields["reasoning_budget"]
    assert reasoning(ask(s, **fields))[0] == thought + words.rstrip()


def test_no_message_where_no_budget_is_used_up(opened):
    """Without a budget, where the model ends its thought itself, and where it shall not think."""
    said = {"reasoning_budget_message": " Enough."}
    for fields in ({"seed": 7, "max_tokens": 40, "logit_bias": {"258": -100, str(CLOSE): -100}},
                   {"seed": 2, "reasoning_budget": 80, "logit_bias": {str(CLOSE): 100}},
                   {"seed": 2, "max_tokens": 20, "reasoning_budget": 0}, {"seed": 2, "max_tokens": 20, "reasoning_effort": "none"}):
        assert ask(opened, **fields, **said)["choices"] == ask(opened, **fields)["choices"]


def test_a_message_before_a_constraint(opened):
    c = ask(opened, seed=3, reasoning_budget=6, reasoning_budget_message=" So:", response_format=FORMAT,
            logit_bias={str(CLOSE): -100})["choices"][0]
    assert c["message"]["reasoning_content"].endswith(" So:")
    jsonschema.validate(json.loads(c["message"]["content"]), SCHEMA)


def test_an_answer_goes_on_within_the_message(opened):
    fields = {"seed": 5, "max_tokens": 60, "reasoning_budget": 12, "reasoning_budget_message": " Enough, I answer.\n",
              "logit_bias": {"258": -100, str(CLOSE): -100}, "return_token_ids": True}
    whole = ask(opened, **fields)["choices"][0]
    for k in (5, 12, 13, 20, 30, 31, 40):
        rest = ask(opened, **fields, resume={"tokens": whole["token_ids"][:k], "seed": 5})["choices"][0]
        assert rest["token_ids"][-(60 - k):] == whole["token_ids"][k:], k


def test_a_message_that_is_too_long(opened):
    body = {"messages": ASK, "max_tokens": 5, "reasoning_budget": 2}
    assert opened.post(CHAT, {**body, "reasoning_budget_message": "x" * 256}).status == 200
    r = opened.post(CHAT, {**body, "reasoning_budget_message": "x" * 257})
    assert r.status == 400 and r.json["error"]["param"] == "reasoning_budget_message" and "256 tokens" in r.json["error"]["message"]


def test_stop_strings_are_for_the_answer(opened):
    fields = {"seed": 5, "reasoning_budget": 30, "max_tokens": 90, "logit_bias": {"258": -100, str(CLOSE): -100}}
    m = ask(opened, **fields)["choices"][0]["message"]
    thought, text = m["reasoning_content"], m["content"]
    assert ask(opened, **fields, stop=[thought[5:9]])["choices"][0]["message"]["reasoning_content"] == thought
    c = ask(opened, **fields, stop=[text[10:14]])["choices"][0]
    assert c["finish_reason"] == "stop" and c["message"]["reasoning_content"] == thought
    assert text.startswith(c["message"]["content"]) and len(c["message"]["content"]) <= 10


# ---- off is off

OFF = {
    "reasoning_effort": ("/v1/chat/completions", {"reasoning_effort": "none"}),
    "reasoning_budget": ("/v1/chat/completions", {"reasoning_budget": 0}),
    "enable_thinking": ("/v1/chat/completions", {"chat_template_kwargs": {"enable_thinking": False}}),
    "thinking": ("/v1/chat/completions", {"chat_template_kwargs": {"thinking": False}}),
    "field_enable_thinking": ("/v1/chat/completions", {"enable_thinking": False}),
    "field_thinking": ("/v1/chat/completions", {"thinking": {"type": "disabled"}}),
    "messages": ("/v1/messages", {"thinking": {"type": "disabled"}}),
    "responses": ("/v1/responses", {"reasoning": {"effort": "none"}}),
    "ollama": ("/api/chat", {"think": False, "stream": False}),
}


def parts_of(path, r):
    """(thought, text) of an answer in any of the APIs."""
    if path == "/v1/messages":
        blocks = r.json["content"]
        return ("".join(b["thinking"] for b in blocks if b["type"] == "thinking"),
                "".join(b["text"] for b in blocks if b["type"] == "text"))
    if path == "/v1/responses":
        items = r.json["output"]
        return ("".join(str(i) for i in items if i["type"] == "reasoning"),
                "".join(p["text"] for i in items if i["type"] == "message" for p in i["content"]))
    m = r.json["message"] if path == "/api/chat" else r.json["choices"][0]["message"]
    return m.get("reasoning_content") or m.get("reasoning") or m.get("thinking") or "", m["content"]


# The marks of each family that has its own; the first is the token that opens a thought.
MARKS = {
    "hermes": ("<think>", "</think>", "<think>\n"), "seed_oss": ("<seed:think>", "</seed:think>", "<seed:think>"),
    "mistral": ("[THINK]", "[/THINK]", "[THINK]"), "longcat": ("<longcat_think>", "</longcat_think>", "<longcat_think>\n"),
    "cohere": ("<|START_THINKING|>", "<|END_THINKING|>", "<|START_THINKING|>"),
    "apertus": ("<|inner_prefix|>", "<|inner_suffix|>", "<|inner_prefix|>"),
    "solar2": ("<|think:start|>", "<|think:end|>", "<|think:start|>"),
    "hy3": ("<think:opensource>", "</think:opensource>", "<think:opensource>"),
    "gemma4": ("<|channel>", "<channel|>", "<|channel>thought\n"),
}


WAYS = [(family, way) for family in MARKS for way in ("opened", "asked")]


@pytest.fixture(scope="module", params=WAYS, ids="-".join)
def stubborn(request, tmp_path_factory):
    """Its template opens a thought whatever the client says, or the model does: with this bias it says nothing else first."""
    family, way = request.param
    first, close, opening = MARKS[family]
    folder = tmp_path_factory.mktemp("stubborn")
    (folder / "t.jinja").write_text("{% for m in messages %}{{ m.content }}{% endfor %}" + (opening if way == "opened" else ""))
    s = Server("--model", str(write_model(folder, first, close)), "--chat-template", str(folder / "t.jinja"),
               "--tool-call-parser", family, "--reasoning-parser", family)
    s.way = way
    yield s
    s.stop()


# Under the bias that makes a model open a thought it says nothing else, and Gemma 4's mark is that token and a text.
@pytest.mark.parametrize("stubborn", [w for w in WAYS if w != ("gemma4", "asked")], ids="-".join, indirect=True)
@pytest.mark.parametrize("budget", [1, 7, 30])
def test_a_budget_is_kept(stubborn, budget):
    """To the token: the closing mark is one of the thought's tokens, and the opening one where the model writes it."""
    r = ask(stubborn, seed=3, max_tokens=60, reasoning_budget=budget, logit_bias={"258": -100, str(OPEN): 100, str(CLOSE): -100})
    m, used = r["choices"][0]["message"], r["usage"]["completion_tokens_details"]["reasoning_tokens"]
    assert m["content"] and budget <= used <= budget + (2 if stubborn.way == "asked" else 1), (used, m)


@pytest.mark.parametrize("name", OFF)
def test_off_is_off(stubborn, name):
    path, fields = OFF[name]
    size = {"/v1/responses": "max_output_tokens", "/api/chat": None}.get(path, "max_tokens")
    body = {"model": "default", **({size: 40} if size else {"options": {"num_predict": 40, "seed": 3}}), **fields}
    if path == "/v1/responses":
        body["input"] = "Once"
    else:
        body["messages"] = [{"role": "user", "content": "Once"}]
    if size:
        body["seed"] = 3  # by chance a model's first token is the end
    if path == "/v1/chat/completions":
        body["logit_bias"] = {"258": -100, str(OPEN): 100}
    r = stubborn.post(path, body)
    assert r.status == 200, r.body
    thought, text = parts_of(path, r)
    assert not thought and text, (thought, text)


TOOLS = {"tools": [TOOL]}
HARMONY = "{% for m in messages %}<|start|>{{ m.role }}<|message|>{{ m.content }}<|end|>{% endfor %}<|start|>assistant{# <|channel|> #}"


@pytest.mark.parametrize("fields,end", [
    ({}, "<|start|>assistant"),
    ({"reasoning_effort": "low"}, "<|start|>assistant"),
    ({"reasoning_effort": "none"}, "<|start|>assistant<|channel|>final<|message|>"),
    ({"reasoning_effort": "none", **TOOLS, "tool_choice": "none"}, "<|start|>assistant<|channel|>final<|message|>"),
    ({"reasoning_effort": "none", **TOOLS}, "<|channel|>analysis<|message|><|end|><|start|>assistant"),
    ({"reasoning_budget": 0, "add_generation_prompt": False, "continue_final_message": True}, "<|message|>Well,"),
])
def test_off_in_channels(tmp_path, fields, end):
    """gpt-oss has no marks for a thought alone: the prompt begins the answer, or ends an empty thought where a call may come."""
    (tmp_path / "t.jinja").write_text(HARMONY)
    messages = ASK + ([{"role": "assistant", "content": "Well, "}] if "continue_final_message" in fields else [])
    s = Server("--chat-template", str(tmp_path / "t.jinja"))
    try:
        prompt = s.post("/apply-template", {"messages": messages, **fields}).json["prompt"]
        m = s.post(CHAT, {"messages": messages, "max_tokens": 20, "structured_outputs": {"choice": ["So."]}, **fields}).json
    finally:
        s.stop()
    assert prompt.endswith(end), prompt
    assert m["choices"][0]["message"]["content"] == "So."
