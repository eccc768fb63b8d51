"""Decisions: typed questions about one input, answered with probabilities of labels.

What is expected comes from the same server's chats: the question as the last words of the user, and the
log-probabilities of the labels where the answer begins (logprob_token_ids)."""
import json
import math
import random
import threading

import pytest

from quire import DEBUG_BIN, Server, in_threads, isa_levels

WORDS = "once upon a time there was a little girl who loved to play in the park with her dog and her friend".split()
TEAMS = [{"value": "billing", "description": "money"}, {"value": "sales"}, {"value": True}, {"value": "true"}]
LEVELS = [{"label": "low"}, {"label": "middle", "description": "so so"}, {"label": "high"}]
PREDICATE = {"type": "predicate", "instructions": "She is happy."}
CHOICE = {"type": "choice", "name": "team", "instructions": "Who?", "choices": TEAMS}
SCORE = {"type": "score", "name": "how", "instructions": "How much?", "levels": LEVELS}


def story(seed, n=60):
    r = random.Random(seed)
    return " ".join(r.choice(WORDS) for _ in range(n))


def questions(n, seed=0):
    r = random.Random(seed)
    kinds = [lambda w: {"type": "predicate", "instructions": w},
             lambda w: {"type": "choice", "instructions": w, "choices": [{"value": c} for c in r.sample(sorted(set(WORDS)), 4)]},
             lambda w: {"type": "score", "instructions": w, "levels": [{"label": f"level {i}"} for i in range(5)]}]
    return [kinds[i % 3](" ".join(r.choice(WORDS) for _ in range(6)) + f" {i}") for i in range(n)]


def decide(s, text, asked, **fields):
    r = s.post("/v1/decisions", {"input": text, "questions": asked, **fields})
    assert r.status == 200, r.body
    return r.json


def refused(s, **fields):
    r = s.post("/v1/decisions", {"input": "Once", "questions": [PREDICATE], **fields})
    assert r.status == 400, r.body
    return r.json["error"]


# ---- what the model is asked

def labels_after(s, prompt, labels):
    before = s.post("/tokenize", {"content": prompt}).json["tokens"]
    after = [s.post("/tokenize", {"content": prompt + label}).json["tokens"] for label in labels]
    assert all(a[:-1] == before for a in after), "the labels are one token each"
    return [a[-1] for a in after]


def expected(s, text, question, labels):
    """The share of each label, by a chat that ends with the question."""
    messages = [{"role": "user", "content": f"{text}\n\n{question}"}]
    prompt = s.post("/apply-template", {"messages": messages}).json["prompt"]
    ids = labels_after(s, prompt, labels)
    r = s.post("/v1/chat/completions", {"messages": messages, "max_tokens": 1, "temperature": 0, "logprobs": True,
                                        "logprob_token_ids": ids})
    top = r.json["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
    weights = [math.exp(t["logprob"]) for t in top]
    return [w / sum(weights) for w in weights], sum(weights)


def close(a, b):
    return a == pytest.approx(b, abs=1e-5)


def test_each_kind_is_the_share_of_its_labels(server):
    """The demo's vocabulary has no token "yes", but "Yes"."""
    text = story(1)
    r = decide(server, text, [PREDICATE, CHOICE, SCORE])
    assert r["object"] == "decision" and r["id"].startswith("decision-")
    p, mass = expected(server, text, "Answer only with Yes or No.\nQuestion: is this true? She is happy.", ["Yes", "No"])
    a = r["answers"][0]
    assert set(a) == {"type", "name", "probability"} and a["name"] is None and close(a["probability"], p[0])
    assert close(r["diagnostics"][0]["label_mass"], mass)
    p, mass = expected(server, text, "Answer only with the letter of one option.\n"
                                     "Question: Who?\nA: billing - money\nB: sales\nC: true\nD: true", "ABCD")
    a = r["answers"][1]
    assert (a["type"], a["name"]) == ("choice", "team")
    assert [x["value"] for x in a["probabilities"]] == ["billing", "sales", True, "true"]
    assert all(close(x["probability"], q) for x, q in zip(a["probabilities"], p))
    assert a["choice"] == a["probabilities"][p.index(max(p))]["value"]
    assert close(a["confidence"], (4 * max(p) - 1) / 3)
    p, mass = expected(server, text, "Answer only with the number of one level.\n"
                                     "Question: How much?\n0: low\n1: middle - so so\n2: high", "012")
    a = r["answers"][2]
    assert [(x["value"], x["label"]) for x in a["probabilities"]] == [(0, "low"), (1, "middle"), (2, "high")]
    assert all(close(x["probability"], q) for x, q in zip(a["probabilities"], p))
    assert close(a["score"], p[1] + 2 * p[2])
    spread = sum(q * abs(i - p.index(max(p))) for i, q in enumerate(p))
    assert close(a["confidence"], max(0, 1 - spread / (2 / 3)))


def test_typesafe_asks_the_same(server):
    text = story(2)
    openai = decide(server, text, [PREDICATE, CHOICE, SCORE])["answers"]
    r = server.post("/v1/systemone", {"state": text, "questions": {
        "happy": {"type": "noul", "instructions": "She is happy."},
        "team": {"type": "choice", "instructions": "Who?",
                 "criteria": {"billing": "money", "sales": None, "true": None, "other": None}},
        "how": {"type": "score", "instructions": "How much?", "criteria": ["low", {"a": 1.50}, "high"]}}}).json
    assert r["answers"]["happy"] == {"type": "noul", "noul": openai[0]["probability"]}
    team, how = r["answers"]["team"], r["answers"]["how"]
    assert list(team["probabilities"]) == ["billing", "sales", "true", "other"]
    assert team["choice"] == max(team["probabilities"], key=team["probabilities"].get)
    assert how["legend"] == {"0": "low", "1": {"a": 1.5}, "2": "high"} and set(how["probabilities"]) == {"0", "1", "2"}
    assert sum(team["probabilities"].values()) == pytest.approx(1, abs=1e-5)
    assert r["usage"]["output_tokens"] == 0 and set(r["diagnostics"]) == {"happy", "team", "how"}


def test_forms_of_the_input(server):
    parts = [{"type": "input_text", "text": "Once"}, {"type": "input_json", "data": {"a": [1, 2.5]}}]
    joined = decide(server, 'Once\n{"a":[1,2.5]}', [PREDICATE])["answers"]
    assert decide(server, [{"role": "user", "content": parts}], [PREDICATE])["answers"] == joined
    assert decide(server, [{"role": "user", "content": 'Once\n{"a":[1,2.5]}'}],
                  [{**PREDICATE, "instructions": [{"type": "input_text", "text": "She is happy."}]}])["answers"] == joined
    call = [{"role": "user", "content": "Once"},
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c", "output": "done"}]
    assert decide(server, call, [PREDICATE])["answers"] != joined
    state = server.post("/systemone", {"state": {"a": [1, 2.5]}, "questions": {"x": {"type": "noul"}}})
    text = server.post("/v1/systemone", {"state": '{"a":[1,2.5]}', "questions": {"x": {"type": "noul"}}})
    assert state.json["answers"] == text.json["answers"]


# ---- the same bits, and the input once

def test_alone_or_with_others(server):
    text, asked = story(3, 200), questions(40)
    together = decide(server, text, asked)
    assert together["answers"] == [decide(server, text, [q])["answers"][0] for q in asked]
    assert decide(server, text, asked[::-1])["answers"] == together["answers"][::-1]


def test_the_input_is_computed_once():
    s = Server("--context", "1024")
    usage = decide(s, story(4, 600), questions(60))["usage"]
    s.stop()
    details, one = usage["input_tokens_details"], usage["input_tokens"] / 60
    assert one > 500
    assert details["cached_tokens"] + details["cache_write_tokens"] == usage["input_tokens"] == usage["total_tokens"]
    assert details["cache_write_tokens"] < 60 * 80 + one, "each question computes its own words, and no more"


@pytest.fixture(scope="module")
def answers():
    s = Server("--threads", "1")
    found = decide(s, story(5, 150), questions(24), permutations=3)["answers"]
    s.stop()
    return found


@pytest.mark.parametrize("isa", isa_levels())
def test_each_instruction_set(answers, isa):
    s = Server("--isa", isa, "--threads", "2")
    assert decide(s, story(5, 150), questions(24), permutations=3)["answers"] == answers
    s.stop()


def test_beside_others_and_under_pressure(answers):
    """Room for a few sequences only: questions are preempted by urgent texts, and wait for room."""
    s = Server("--kv-memory", "2m", "--max-sequences", "6", "--context", "512", binary=DEBUG_BIN)
    stop = threading.Event()

    def urgent():
        while not stop.is_set():
            s.post("/v1/completions", {"prompt": story(9, 40), "max_tokens": 60, "ignore_eos": True, "priority": "critical"})

    def ask():
        try:
            return [decide(s, story(5, 150), questions(24), permutations=3)["answers"] for _ in range(3)]
        finally:
            stop.set()

    found = in_threads([ask, urgent, urgent, urgent])[0]
    assert s.stop() == 0
    assert found == [answers] * 3


# ---- orders of the options

def test_permutations_are_means_of_rotations(server):
    text, values = story(6), ["park", "dog", "girl"]
    found = decide(server, text, [{"type": "choice", "instructions": "Who?", "choices": [{"value": v} for v in values]}],
                   permutations=64)["answers"][0]
    shares = dict.fromkeys(values, 0)
    for k in range(3):
        order = values[k:] + values[:k]
        p, _ = expected(server, text, "Answer only with the letter of one option.\nQuestion: Who?"
                        + "".join(f"\n{x}: {v}" for x, v in zip("ABC", order)), "ABC")
        for v, q in zip(order, p):
            shares[v] += q / 3
    assert all(close(x["probability"], shares[x["value"]]) for x in found["probabilities"])


def test_permutations_by_setting(start, server):
    """The setting is the default of the field."""
    s = start("--permutations", "3")
    asked = [CHOICE, SCORE]
    assert decide(s, story(6), asked)["answers"] == decide(server, story(6), asked, permutations=3)["answers"]
    assert decide(s, story(6), asked, permutations=1)["answers"] == decide(server, story(6), asked)["answers"]


def test_levels_are_reversed(server):
    text = story(7)
    found = decide(server, text, [SCORE], permutations=2)["answers"][0]
    shares = [0, 0, 0]
    lines = ["\n0: low", "\n1: middle - so so", "\n2: high"]
    for order in (lines, lines[::-1]):
        p, _ = expected(server, text, "Answer only with the number of one level.\nQuestion: How much?" + "".join(order), "012")
        shares = [s + q / 2 for s, q in zip(shares, p)]
    assert all(close(x["probability"], s) for x, s in zip(found["probabilities"], shares))


# ---- labels of several tokens

def spelled(s, text, question, labels):
    """The share of each label by the log-probabilities of all its tokens, as an echo has them; and their number."""
    messages = [{"role": "user", "content": f"{text}\n\n{question}"}]
    prompt = s.post("/apply-template", {"messages": messages}).json["prompt"]
    before = s.post("/v1/chat/completions/render", {"messages": messages}).json["token_ids"]
    n = len(s.post("/tokenize", {"content": prompt}).json["tokens"])
    ends = [s.post("/tokenize", {"content": prompt + label}).json["tokens"][n:] for label in labels]
    sums = []
    for i in range(0, len(ends), 64):
        body = {"prompt": [before + end for end in ends[i:i + 64]], "max_tokens": 1, "temperature": 0, "echo": True, "logprobs": 0}
        for c, end in zip(s.post("/v1/completions", body).json["choices"], ends[i:i + 64]):
            sums.append(sum(c["logprobs"]["token_logprobs"][len(before):len(before) + len(end)]))
    weights = [math.exp(x) for x in sums]
    return [w / sum(weights) for w in weights], sum(weights), [len(end) for end in ends]


PAIRS = [chr(65 + i // 26) + chr(65 + i % 26) for i in range(80)]
MANY = {**CHOICE, "choices": [{"value": f"o{i}"} for i in range(80)]}


def test_labels_of_several_tokens(server):
    """The demo has not 80 pairs of letters that are one token each."""
    text = story(9, 20)
    r = decide(server, text, [PREDICATE, MANY, SCORE])
    question = "Answer only with the letters of one option.\nQuestion: Who?" + "".join(
        f"\n{x}: o{i}" for i, x in enumerate(PAIRS))
    p, mass, lengths = spelled(server, text, question, PAIRS)
    assert max(lengths) > 1
    assert all(close(x["probability"], q) for x, q in zip(r["answers"][1]["probabilities"], p))
    assert close(r["diagnostics"][1]["label_mass"], mass)
    others = decide(server, text, [PREDICATE, SCORE])
    assert [r["answers"][0], r["answers"][2]] == others["answers"]
    assert decide(server, text, [MANY])["answers"] == [r["answers"][1]]


def test_labels_of_several_tokens_in_several_orders(server):
    text, n = story(10, 20), 60
    asked = {**CHOICE, "choices": [{"value": f"o{i}"} for i in range(n)]}
    shares = [0] * n
    for k in range(2):
        order = [(place + k * n // 2) % n for place in range(n)]
        p, _, _ = spelled(server, text, "Answer only with the letters of one option.\nQuestion: Who?" + "".join(
            f"\n{x}: o{i}" for x, i in zip(PAIRS, order)), PAIRS[:n])
        for i, q in zip(order, p):
            shares[i] += q / 2
    found = decide(server, text, [asked], permutations=2)["answers"][0]
    assert all(close(x["probability"], q) for x, q in zip(found["probabilities"], shares))


def test_too_many_prompts_for_labels(server):
    e = refused(server, questions=[{**MANY, "name": f"q{i}"} for i in range(400)], permutations=2)
    assert e["param"] == "questions" and "labels of several tokens" in e["message"] and "2048 prompts" in e["message"], e


# ---- refusals

@pytest.mark.parametrize("asked,param,says", [
    ([], "questions", "1 to 400 questions; it has 0"), ([PREDICATE] * 401, "questions", "it has 401"),
    ({}, "questions", "a list of questions"),
    ([{**CHOICE, "choices": TEAMS[:1]}], "questions[0]", "2 to 255 options; it has 1"),
    ([{**CHOICE, "choices": [{"value": str(i)} for i in range(256)]}], "questions[0]", "it has 256"),
    ([{**CHOICE, "choices": [{"value": "a"}, {"value": "a"}]}], "questions[0].choices[1].value", "different"),
    ([{**CHOICE, "choices": [{"value": "a"}, {"value": 1}]}], "questions[0].choices[1].value", "or a boolean"),
    ([{**CHOICE, "choices": [{"value": "a"}, {"value": ""}]}], "questions[0].choices[1].value", "not empty"),
    ([CHOICE, CHOICE], "questions[1].name", "different from the names"),
    ([{**SCORE, "levels": [{"label": "3"}, {"label": "1"}, {"label": "2"}]}], "questions[0].levels", "in order"),
    ([{**SCORE, "levels": [{"label": "a", "value": 3}, {"label": "b"}]}], "questions[0].levels[0]", "unknown member 'value'"),
    ([{**PREDICATE, "choices": TEAMS}], "questions[0]", "unknown member 'choices'"),
    ([{**SCORE, "levels": [{"label": "a"}, {"label": "a"}]}], "questions[0].levels[1].label", "the other levels"),
    ([{**PREDICATE, "instructions": ""}], "questions[0].instructions", "not empty"),
    ([{**PREDICATE, "instructions": [{"type": "input_image", "image_url": "data:,"}]}], "questions[0].instructions", "no images"),
    ([{"type": "noul", "instructions": "x"}], "questions[0].type", "predicate, choice or score"),
])
def test_bad_questions(server, asked, param, says):
    e = refused(server, questions=asked)
    assert e["param"] == param and says in e["message"], e


@pytest.mark.parametrize("fields,param,says", [
    ({"input": ""}, "input", "not be empty"), ({"input": None}, "input", "required"), ({"input": 5}, "input", "a string or a list"),
    ({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "data:,"}]}]}, "input[0].content", "no images"),
    ({"chat_template_kwargs": {"enable_thinking": True}}, "chat_template_kwargs", "would think"),
    ({"permutations": 65}, "permutations", "64"), ({"instructions": "Be strict."}, "instructions", "instructions of each question"),
    ({"questions": [{**CHOICE, "name": f"q{i}", "choices": [{"value": str(k)} for k in range(26)]} for i in range(79)],
      "permutations": 64}, "permutations", "are 2054 prompts, and a call may have 2048"),
    ({"input": "a " * 100000}, "input", "context length"), ({"stream": True}, "stream", "one object"),
    ({"temperature": 1}, "temperature", "no effect on decisions"), ({"logit_bias": {"1": 5}}, "logit_bias", "no effect on decisions"),
    ({"n": 2}, "n", "no effect on decisions"), ({"state": "Once"}, "state", "calls it input"), ({"messages": []}, "messages", "as input"),
    ({"lora": [{"id": 0, "scale": 1}]}, "lora", "no effect on decisions"), ({"stop": ["x"]}, "stop", "no effect on decisions"),
    ({"enable_thinking": True}, "enable_thinking", "no effect on decisions"), ({"system": "Be mean."}, "system", "no effect"),
    ({"chat_template": "x"}, "chat_template", "no effect"), ({"images": ["aGk="]}, "images", "no effect"),
    ({"reasoning_effort": "low"}, "reasoning_effort", "no effect on decisions"), ({"top_k": 3}, "top_k", "no effect on decisions"),
])
def test_bad_calls(server, fields, param, says):
    e = refused(server, **fields)
    assert e["param"] == param and says in e["message"], e


@pytest.mark.parametrize("asked,param,says", [
    ([], "questions", "an object"), ({}, "questions", "1 to 400"), ({"a": {"type": "box"}}, "questions.a.type", "sees no images"),
    ({"a": {"type": "noul", "criteria": {"maybe": "x"}}}, "questions.a.criteria", "unknown member 'maybe'"),
    ({"a": {"type": "choice", "criteria": {}}}, "questions.a", "1 to 255 options"),
    ({"a": {"type": "choice", "criteria": ["x"]}}, "questions.a.criteria", "each option's name"),
    ({"a": {"type": "score", "criteria": ["x", None]}}, "questions.a.criteria", "not empty"),
    ({"a": {"type": "noul", "instruction": "x"}}, "questions.a", "unknown member 'instruction'"), ({"a": 5}, "questions.a", "an object"),
    ({"a" + "é" * 40: {"type": "x"}}, "questions.a" + "é" * 15 + ".type", "noul (yes or no), choice or score"),
])
def test_bad_questions_by_name(server, asked, param, says):
    r = server.post("/v1/systemone", {"state": "Once", "questions": asked})
    e = r.json["error"]
    assert r.status == 400 and e["param"] == param and says in e["message"], e


def test_fields_of_other_apis_that_change_nothing(server):
    plain = server.post("/v1/decisions", {"input": "Once", "questions": [PREDICATE]})
    same = {"temperature": 0, "logit_bias": {}, "tools": [], "enable_thinking": False, "state": None, "messages": None, "stop": [],
            "presence_penalty": 0, "user": "u", "no_field_of_any_api": 1}
    r = server.post("/v1/decisions", {"input": "Once", "questions": [PREDICATE], **same})
    assert r.status == 200 and r.json["answers"] == plain.json["answers"], r.body
    r = server.post("/v1/systemone", {"state": "Once", "input": "Twice", "questions": {"a": {"type": "noul", "instructions": "x"}}})
    assert r.status == 400 and r.json["error"]["param"] == "input", r.body


def test_one_option_is_certain(server):
    r = server.post("/v1/systemone", {"state": "Once", "questions": {"a": {"type": "choice", "criteria": {"x": None}},
                                                                    "b": {"type": "score", "criteria": ["x"]}}}).json
    assert r["answers"] == {"a": {"type": "choice", "choice": "x", "confidence": 1.0, "probabilities": {"x": 1.0}},
                            "b": {"type": "score", "score": 0.0, "confidence": 1.0, "legend": {"0": "x"},
                                  "probabilities": {"0": 1.0}}}


def test_a_call_that_is_too_large(server):
    """The input stands in each prompt: 30 KB times 400 questions and more are refused before they take memory."""
    e = refused(server, input="a " * 400, questions=[{"type": "predicate", "instructions": "b" * 600 + str(i)} for i in range(400)],
                chat_template_kwargs={})
    assert e["param"] in ("questions", "input"), e


def waiting(m):
    return sum(v for k, v in m.items() if k.startswith("quire_requests_waiting"))


def test_who_leaves_is_not_computed_for():
    """The questions wait behind a text that runs until its client leaves."""
    s = Server("--max-sequences", "1", "--context", "1024")
    first = s.stream("Once", max_tokens=1000, ignore_eos=True)
    next(iter(first))
    body = json.dumps({"input": story(8, 200), "questions": questions(300)}).encode()
    with s.socket() as c:
        c.sendall(b"POST /v1/decisions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                  b"Content-Length: %d\r\n\r\n" % len(body) + body)
        s.wait_until(lambda m: waiting(m) > 0, what="they wait")
    s.wait_until(lambda m: waiting(m) == 0, what="nobody waits")
    first.close()
    s.wait_idle()
    assert s.metrics()['quire_requests_total{endpoint="completions",outcome="cancelled"}'] > 0
    s.stop()


# ---- vLLM's scores of the next token

def scores(s, **fields):
    r = s.post("/generative_scoring", {"query": "Once upon", **fields})
    assert r.status == 200, r.body
    return [d["score"] for d in r.json["data"]]


def test_generative_scores(server):
    before = server.post("/tokenize", {"content": "Once upon", "add_special": True}).json["tokens"]
    items = [" a time", " the sun"]
    tokens = [server.post("/tokenize", {"content": item}).json["tokens"] for item in items]
    labels = [5, 77, 900]
    found = scores(server, items=items, label_token_ids=labels)
    assert found == scores(server, query=before, items=tokens, label_token_ids=labels)
    assert scores(server, query=items[0], items=["Once upon"], label_token_ids=labels, item_first=True) == found[:1]
    full = scores(server, items=items, label_token_ids=labels, apply_softmax=False)
    each = [scores(server, items=items, label_token_ids=[i], apply_softmax=False) for i in labels]
    for k in range(2):
        assert full[k] == each[0][k]
        assert found[k] == pytest.approx(each[0][k] / sum(e[k] for e in each), rel=1e-5)
        r = server.post("/completion", {"prompt": before + tokens[k], "n_predict": 1, "temperature": 0, "n_probs": 1}).json
        best = r["completion_probabilities"][0]["top_logprobs"][0]
        [share] = scores(server, query=before, items=[tokens[k]], label_token_ids=[best["id"]], apply_softmax=False)
        assert math.log(share) == pytest.approx(best["logprob"], abs=1e-4)


@pytest.mark.parametrize("fields,param", [
    ({"items": []}, "items"), ({"items": ["a"], "label_token_ids": []}, "label_token_ids"), ({"items": [5]}, "items"),
    ({"items": ["a"], "label_token_ids": [10 ** 6]}, "label_token_ids"), ({"query": 5, "items": ["a"]}, "query"),
    ({"items": ["a"], "label_token_ids": None}, "label_token_ids"), ({"items": ["b " * 3000]}, "items")])
def test_bad_scoring(server, fields, param):
    r = server.post("/generative_scoring", {"query": "a", "label_token_ids": [5], **fields})
    assert r.status == 400 and r.json["error"]["param"] == param, r.body


# ---- plans

def test_a_plan_computes_the_input_once(start):
    """The plan says, for each prompt, the tokens that the call need not compute, in whole blocks."""
    s = start("--context", "1024")
    for path, body in (("/v1/decisions", {"input": story(11, 400), "questions": questions(30)}),
                       ("/v1/systemone", {"state": story(12, 400), "questions": {f"q{i}": {"type": "noul", "instructions": f"{i}?"}
                                                                                for i in range(20)}})):
        plan = s.post("/v1/plan", body).json["prompts"]
        usage = s.post(path, body).json["usage"]
        assert sum(p["prompt_tokens"] for p in plan) == usage["input_tokens"]
        if "input_tokens_details" in usage:
            more = usage["input_tokens_details"]["cached_tokens"] - sum(p["cached_tokens"] for p in plan)
            assert 0 <= more < 16 * len(plan) and plan[0]["cached_tokens"] == 0 and plan[1]["cached_tokens"] > 400
        again = s.post("/v1/plan", body).json["prompts"]
        assert all(a["cached_tokens"] >= p["cached_tokens"] > 0 for a, p in zip(again[1:], plan[1:]))


def test_a_plan_has_a_bound(server):
    r = server.post("/v1/plan", {"input": "Once", "questions": questions(129)})
    assert r.status == 400 and "at most 128 prompts, got 129: send fewer texts, questions or permutations" in r.json["error"]["message"]
    r = server.post("/v1/plan", {"input": "Once", "questions": []})
    assert r.status == 400 and r.json["error"]["param"] == "questions"


def test_a_deadline_is_refused_by_the_answer(start):
    s = start("--context", "1024")
    for i in range(3):
        s.complete(story(i, 200), max_tokens=8, ignore_eos=True)  # so that there is a forecast
    body = {"input": story(13, 400), "questions": questions(60)}
    assert s.post("/v1/decisions", {**body, "deadline_ms": 3_600_000}).status == 200
    r = s.post("/v1/decisions", {**body, "input": story(14, 400), "deadline_ms": 1})
    assert r.status == 429 and "the answer is predicted to take" in r.json["error"]["message"], r.body
