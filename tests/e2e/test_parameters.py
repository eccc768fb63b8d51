"""Every field of the bodies: what is taken, what is refused by its name, and that nothing of it
harms the next request."""
import json

import pytest

TEXT, CHAT, NATIVE = "/v1/completions", "/v1/chat/completions", "/completion"
BOTH = (TEXT, CHAT)
ALL = (*BOTH, NATIVE)
ANY = object()  # no value is wrong
INTS = ["1", True, [], {}, 0.5, -1e300]
NUMBERS = ["1", True, [], {}]
BOOLS = ["true", 1, [], {}]
STRINGS = [1, True, [], {}]
BIG = 2**31 - 1

# name: (endpoints, what is taken, what is refused)
FIELDS = {
    "model": (ALL, ["quire-demo", "default"], STRINGS),
    "messages": ((CHAT,), [[{"role": "user", "content": "a"}]], ["a", 1, {}, [], [1], [{}]]),
    "tools": ((CHAT,), [[], [{"type": "function", "function": {"name": "f"}}]], ["a", 1, {}, [1], [{}]]),
    "tool_choice": ((CHAT,), ["auto", "none"], ["x", 1, [], {}, "required"]),
    "parallel_tool_calls": ((CHAT,), [True, False], BOOLS),
    "add_generation_prompt": ((CHAT,), [True, False], BOOLS),
    "continue_final_message": ((CHAT,), [False], BOOLS + [True]),
    "chat_template_kwargs": ((CHAT,), [{}, {"a": [1]}], ["a", 1, [], {"messages": 1}]),
    "reasoning_effort": ((CHAT,), ["none", "low", "high"], ["x", 1, [], {}]),
    "n": (ALL, [1, 2, 128], INTS + [0, 129]),
    "best_of": ((TEXT,), [1, 2, 128], INTS + [0, 129]),
    "suffix": ((TEXT,), [""], STRINGS + ["b"]),
    "max_tokens": (ALL, [1, BIG], INTS + [-2, BIG + 1]),
    "max_completion_tokens": (ALL, [1, BIG], INTS + [-2, BIG + 1]),
    "n_cmpl": (ALL, [1, 2, 128], INTS + [0, 129]),
    "functions": ((CHAT,), [[], [{"name": "f"}]], ["a", 1, {}, [1], [{}], [{"name": ""}]]),
    "function_call": ((CHAT,), [], ["auto", "none", "required", 1, {"name": "f"}]),  # without functions
    "reasoning_format": ((CHAT,), ["none", "auto", "deepseek", "deepseek-legacy"], ["x", 1, [], {}]),
    "include_reasoning": ((CHAT,), [True, False], BOOLS),
    "reasoning_control": ((CHAT,), [True, False], BOOLS),
    "enable_thinking": ((CHAT,), [True, False], BOOLS),
    "thinking": ((CHAT,), [{"type": "disabled"}, {"type": "enabled"}, {"type": "enabled", "budget_tokens": 5}],
                 ["a", 1, [], {}, {"type": "x"}, {"type": "enabled", "budget_tokens": 0}]),
    **dict.fromkeys(("reasoning_budget", "reasoning_budget_tokens", "thinking_budget_tokens", "thinking_token_budget"),
                    ((CHAT,), [-1, 0, 5, BIG], INTS + [-2, BIG + 1])),
    "reasoning_budget_message": ((CHAT,), ["", "Enough.", "a" * 256], STRINGS + ["word " * 1500]),
    "prompt_cache_options": ((CHAT,), [{}, {"mode": "implicit"}, {"mode": "explicit", "ttl": "12h"}, {"ttl": "30m"}],
                             ["a", 1, [], {"mode": "x"}, {"ttl": "5m"}, {"ttl": 30}]),
    "min_tokens": (ALL, [0, 1], INTS + [-1, BIG + 1]),
    "temperature": (BOTH, [0, 1e-9, 0.5, 2], NUMBERS + [-0.01, 2.01, -1, 999999, 1e300]),
    "dynatemp_range": (ALL, [0, 0.5, 2], NUMBERS + [-0.01, 2.01]),
    "dynatemp_exponent": (ALL, [0, 1, 100], NUMBERS + [-0.01, 101]),
    "top_n_sigma": (ALL, [-1, 0, 1.5, 100], NUMBERS + [-1.01, 101]),
    "min_keep": (ALL, [0, 1, BIG], INTS + [-1, BIG + 1]),
    "samplers": (ALL, [[], ["top_k", "typ_p", "top_p", "min_p", "xtc", "temperature"], ["dry", "penalties", "top_n_sigma"],
                       "edskypmxt", "", ["top_k"] * 16], [1, True, {}, ["x"], [1], ["infill"], "q", ["top_k"] * 17]),
    "lora": (ALL, [[]], [{}, "x", 1, [1], ["x"], [{}], [{"id": 0, "scale": 1}], [{"id": -1, "scale": 0}]]),  # there are none
    "allowed_token_ids": (ALL, [[5], list(range(256))], ["a", 1, {}, [], ["a"], [-1], [10**9], [0.5]]),
    "bad_words": (ALL, [[], ["a"], [" a", "é"], ["a"] * 128], ["a", 1, {}, [1], [""], ["a"] * 129, ["ab " * 1300]]),
    "include_stop_str_in_output": (ALL, [True, False], BOOLS),
    "skip_special_tokens": (ALL, [True, False], BOOLS),
    "n_indent": ((TEXT, NATIVE), [0, 1, BIG], INTS + [-1, BIG + 1]),
    "t_max_predict_ms": (ALL, [-1, 0, 1, 2**40], INTS + [-2]),
    "add_special_tokens": (ALL, [True, False], BOOLS),
    "truncate_prompt_tokens": (ALL, [-1, 1, BIG], INTS + [0, -2]),
    "truncation_side": (ALL, ["left", "right"], STRINGS + ["x"]),
    "return_tokens_as_token_ids": (ALL, [True, False], BOOLS),
    "return_progress": (ALL, [True, False], BOOLS),
    "response_fields": ((NATIVE,), [[], ["content"], ["a/b"], ["x"] * 64], ["a", 1, {}, [1], ["x"] * 65]),
    "top_p": (ALL, [0, 1e-9, 0.5, 1], NUMBERS + [-0.01, -1, 1.01]),
    "top_k": (ALL, [-1, 0, 1, BIG], INTS + [-2]),
    "min_p": (ALL, [0, 0.5, 1], NUMBERS + [-0.01, 1.01]),
    "typical_p": (ALL, [1e-9, 0.5, 1], NUMBERS + [0, -1, 1.01]),
    "xtc_probability": (ALL, [0, 0.5, 1], NUMBERS + [-0.01, 1.01]),
    "xtc_threshold": (ALL, [0, 0.5, 1], NUMBERS + [-0.01, 1.01]),
    "mirostat": (ALL, [0, 2], INTS + [1, -1, 3]),
    "mirostat_tau": (ALL, [0.1, 5, 100], NUMBERS + [0, -1, 101]),
    "mirostat_eta": (ALL, [0, 0.1, 1], NUMBERS + [-0.01, 1.01]),
    "dry_multiplier": (ALL, [0, 0.8, 100], NUMBERS + [-0.01, 101]),
    "dry_base": (ALL, [1, 1.75, 100], NUMBERS + [0.9, 101]),
    "dry_allowed_length": (ALL, [1, 2, 1000], INTS + [0, 1001]),
    "dry_penalty_last_n": (ALL, [-1, 0, 64, BIG], INTS + [-2]),
    "dry_sequence_breakers": (ALL, [[], ["\n", "é"], ["x"] * 16], ["a", 1, {}, [""], [1], ["x"] * 17, ["x" * 41]]),
    "seed": (ALL, [0, -1, 2**32 - 1, 2**63 - 1, -2**63, 2**64 - 1], ["1", True, [], {}, 0.5, 1e30]),
    "repetition_penalty": (ALL, [0.01, 1, 10], NUMBERS + [0, -1, 10.1]),
    "frequency_penalty": (ALL, [-2, 0, 2], NUMBERS + [-2.01, 2.01]),
    "presence_penalty": (ALL, [-2, 0, 2], NUMBERS + [-2.01, 2.01]),
    "stop": (ALL, ["a", [], ["a", "é"], ["x"] * 16], [1, True, {}, "", [""], [1], ["x"] * 17, "x" * 513]),
    "return_token_offsets": ((TEXT, CHAT), [True, False], BOOLS),
    "request_id": ((TEXT, CHAT), ["", "r", "a-b_C9", "a" * 38], [*STRINGS, "a b", "a" * 39, "é"]),
    "logprob_token_ids": ((CHAT,), [[]], ["a", 1, {}, ["a"], [-1], [10**9], [0.5], list(range(21)), [1]]),  # without logprobs
    "stop_token_ids": (ALL, [[], [1], list(range(64))], ["a", 1, {}, ["a"], [-1], [10**9], [0.5], list(range(65))]),
    "prompt_logprobs": (BOTH, [0, 1, 20], INTS + [-1, 21]),
    "echo": ((TEXT, CHAT), [True, False], BOOLS),
    "ignore_eos": (ALL, [True, False], BOOLS),
    "return_token_ids": (BOTH, [True, False], BOOLS),
    "stream": (ALL, [True, False], BOOLS),
    "resumable": (ALL, [False], BOOLS + [True]),  # of streams
    "resume_tokens": (ALL, [False], BOOLS + [True]),
    "resume": (ALL, [{"tokens": []}, {"tokens": [5], "seed": 1}], ["a", 1, [], True]),
    "stream_options": (BOTH, [], ["a", 1, [], {}]),  # without stream
    "priority": (ALL, ["low", "normal", "high", "critical", 0, 3], ["x", -1, 4, 0.5, True, [], {}]),
    "deadline_ms": (ALL, [60000, 2**32 - 1], INTS + [0, -1, 2**32]),
    "max_queue_ms": (ALL, [1000, 2**32 - 1], INTS + [0, -1, 2**32]),
    "cache_salt": (ALL, ["", "a", "x" * 256], STRINGS + ["x" * 257]),
    "timings": (BOTH, [True, False], BOOLS),
    "speculation": (ALL, [True, False], BOOLS + ["off"]),
    "receipt": (BOTH, [False], BOOLS + [True]),  # with a setting
    "prediction": (ALL, [{"type": "content", "content": "a"}, {"type": "content", "content": [{"type": "text", "text": "a"}]},
                         {"type": "content", "content": ""}],
                   ["a", 1, [], {}, {"type": "text", "content": "a"}, {"type": "content", "content": 5}]),
    "grammar": (ALL, ["", 'root ::= "a"'], [1, True, [], {}, "root ::=", "x ::= \"a\"", "root ::= " + "(" * 60000]),
    "json_schema": (ALL, [{}, True, {"type": "null"}, '{"type":"null"}'], [1, [], "x", {"type": "x"}, {"not": {}}]),
    "response_format": (ALL, [{"type": "text"}, {"type": "json_object"},
                               {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "null"}}}],
                        ["json", 1, [], {}, {"type": "x"}, {"type": "json_schema"},
                         {"type": "json_schema", "json_schema": {"schema": {"type": 5}}}]),
    "structured_outputs": (ALL, [{"choice": ["a", "b"]}, {"regex": "a+"}, {"json": {"type": "null"}}],
                           ["x", 1, [], {"choice": []}, {"regex": "("}, {"json": 5}, {"choice": ["a"], "regex": "a"}]),
    "guided_json": (ALL, [{"type": "null"}, '{"type":"null"}'], [1, [], "x", {"type": "x"}]),
    "guided_regex": (ALL, ["a|b"], [1, True, [], {}, "(", "(?=a)", "(" * 60000]),
    "guided_choice": (ALL, [["a"], ["a", "b"]], ["a", 1, {}, [], [1]]),
    "grammar_lazy": (ALL, [False], BOOLS),
    "grammar_triggers": (ALL, [[], [{"type": 1, "value": "a"}], [{"type": 0, "token": 5, "value": ""}],
                               [{"type": 3, "value": "("}], [{"type": 2, "value": "a"}] * 64],
                         ["a", 1, {}, [1], ["a"], [{}], [{"type": 1}], [{"type": 4, "value": "a"}], [{"type": 1, "value": ""}],
                          [{"type": 0, "value": "a"}], [{"type": 0, "token": 10**9}], [{"type": 1, "value": "a" * 1025}],
                          [{"type": 1, "value": "a"}] * 65]),
    "preserved_tokens": (ALL, [[], ["<s>", "x", "no token"], ["<s>"] * 64], ["a", 1, {}, [1], ["a"] * 65, ["ab " * 1300]]),
    "guided_grammar": (ALL, ['root ::= "a"'], [1, True, [], {}, "root ::="]),
    "n_predict": (ALL, [-2, -1, 0, BIG], INTS + [-3, BIG + 1]),
    "repeat_penalty": (ALL, [0.01, 1, 10], NUMBERS + [0, -1, 10.1]),
    "repeat_last_n": (ALL, [-1, 0, 64], INTS + [-2]),
    "n_probs": (ALL, [0, 1, 20], INTS + [-1, 21]),
    "post_sampling_probs": ((NATIVE, CHAT), [True, False], BOOLS),
    "return_tokens": (ALL, [True, False], BOOLS),
    "timings_per_token": (ALL, [True, False], BOOLS),
    "cache_prompt": (ALL, [True, False], BOOLS),
    "id_slot": (ALL, [-1, 0, 7], INTS + [-2]),
    "n_keep": (ALL, [-1, 0, 7], INTS + [-2]),
    "n_discard": (ALL, [0, 7], INTS + [-1]),
    "n_cache_reuse": (ALL, [0, 7], INTS + [-1]),
    "adaptive_target": (ALL, [-1, -0.5], NUMBERS + [0, 0.5]),
    "modalities": ((CHAT,), [["text"]], ["text", 1, {}, [], [1], ["audio"], ["text", "audio"]]),
    "user": (ALL, ["a", 1, {}], ANY),
}
BIASES = [{}, {"0": -100, "5": 100}, {"dog": 1, "05": False}, [], [[5, 1.5]], [[5, False], ["dog", -1]]]
NO_BIASES = ["a", 1, {"-1": 1}, {"5": "a"}, {"5": 101}, {"5": True}, {"99999999999999999999": 1}, {"4294967301": 1},
             {"": 1}, [5], [[5]], [[5, 1, 1]], [[-1, 1]], [[5, True]], [[5, 101]], [["", 1]], [["a" * 5000, 1]]]
PROMPTS = (["a", ["a"], [1, 2], [[1], [2, 3]], ["a", 1], [1, "a", 2], ["a", [1, "b"]], {"prompt_string": "a"},
            ["a", {"prompt_string": "b", "multimodal_data": []}, [5]]],
           [1, True, {}, [], [[]], [1.5], [-1], [10**9], [1, [2]], [["a", {}]], [None], {"prompt_string": 5},
            {"prompt_string": "a", "multimodal_data": ["AAAA"]}])
SPLIT = {  # the same name, another meaning
    "prompt": {TEXT: PROMPTS, NATIVE: PROMPTS},
    "logit_bias": dict.fromkeys(ALL, (BIASES, NO_BIASES)),
    "temperature": {NATIVE: ([-5, -0.5, 0, 2, 1000, 1e30], NUMBERS + [-2e30, 2e30])},
    "logprobs": {TEXT: ([0, 5, 20, False], ["1", True, [], {}, -1, 21, 0.5]), CHAT: ([True, False], BOOLS)},
    "top_logprobs": {CHAT: ([], ["1", True, [], {}, -1, 21, 0])},  # without logprobs
}


def rows():
    for name, (paths, good, bad) in FIELDS.items():
        for path in paths:
            yield path, name, good, [] if bad is ANY else bad
    for name, paths in SPLIT.items():
        for path, (good, bad) in paths.items():
            yield path, name, good, bad


def ask(server, path, name, value, raw=False):
    body = {"prompt": "a"} if path != CHAT else {"messages": [{"role": "user", "content": "a"}]}
    body = {**body, "max_tokens": 1, name: 12345.678 if raw else value}
    text = json.dumps(body)
    if raw:
        text = text.replace("12345.678", value)
    return server.post(path, text, headers={"Content-Type": "application/json"})


def names(r):
    """The field that the refusal is about, at its top level."""
    return r.json["error"]["param"].split("[")[0].split(".")[0]


def is_fine(server):
    assert server.get("/health").status == 200
    r = server.post(TEXT, {"prompt": "Once upon a time", "max_tokens": 4, "temperature": 0})
    assert r.status == 200 and r.json["usage"]["completion_tokens"] == 4


@pytest.mark.parametrize("path,name,good,bad", rows(), ids=lambda v: v if isinstance(v, str) else "")
def test_field(server, path, name, good, bad):
    for value in good:
        r = ask(server, path, name, value)
        assert r.status == 200, (value, r.body)
    for value in bad:
        r = ask(server, path, name, value)
        assert r.status in (400, 404) and r.json["error"]["type"] == "invalid_request_error", (value, r.body)
        assert names(r) == name and name in r.json["error"]["message"], (value, r.body)
    if name not in ("prompt", "messages"):
        assert ask(server, path, name, None).status == 200
    is_fine(server)


@pytest.mark.parametrize("path,name,good,bad", rows(), ids=lambda v: v if isinstance(v, str) else "")
def test_no_number(server, path, name, good, bad):
    for text in ("NaN", "Infinity", "-Infinity", "nan", "1e", "0x10", "1.", ".5", "+1"):
        assert ask(server, path, name, text, raw=True).status == 400, text
    for text in ("1e999", "-1e999", "1e-999"):
        r = ask(server, path, name, text, raw=True)
        assert r.status in (200, 400), (text, r.body)
        if r.status == 400:
            assert names(r) == name, (text, r.body)
        elif bad and text != "1e-999":
            pytest.fail(f"{text} was taken")
    is_fine(server)


def test_the_table_is_whole(server):
    """Each field whose values matter has a row here; the others are in test_fields.py."""
    schemas = server.get("/openapi.json").json["components"]["schemas"]
    for path, schema in ((TEXT, "CompletionRequest"), (CHAT, "ChatCompletionRequest"), (NATIVE, "NativeCompletionRequest")):
        fields = schemas[schema]["properties"]
        mine = {name for p, name, *_ in rows() if p == path}
        assert {name for name, f in fields.items() if f["x-quire"] == "obeyed"} - {"prompt", "model"} <= mine, path
        assert mine <= set(fields)
