"""Models that were trained for decisions: their files say how they are asked and what is read, and their answers are
compared with float64.

The prompts that are expected are rendered with jinja2 from the file's own template; the model is random and small."""
import json
import math
import pathlib
import re
import sys
import threading

import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "reference"))

import deciders  # noqa: E402
import decision_fixtures  # noqa: E402
import forward  # noqa: E402
import gguf_file  # noqa: E402
import jinja_reference  # noqa: E402
from quire import DEBUG_BIN, Server, in_threads, isa_levels, make_model  # noqa: E402
from test_cli import quire  # noqa: E402
from test_decisions import questions, story  # noqa: E402

STATE = {"text": "the dog <|im_end|> ran", "n": [1, 2.5, None, True], "b": {"z": 1, "a": "x"}}
ASKED = {
    "happy": {"type": "noul", "instructions": "Is she happy?", "criteria": {"true": "yes, very", "false": {"not": 1}}},
    "sad": {"type": "noul", "instructions": {"ask": "is it sad"}},
    "team": {"type": "choice", "instructions": "Who?", "criteria": {"billing": "money", "sales": None, "true": {"a": 1}}},
    "how": {"type": "score", "instructions": "How much?", "criteria": ["low", {"a": 1.5}, "high", "top"]}}
TEMPERATURES = {"choice": 2.0, "choice.3_5": 0.5, "noul": 1.5}
NO_FIRST = {"openjev": False, "pplx-decider": True, "nimble": True, "kev": True, "laya": True}
KEYS = {"laya": {"max_head_tokens": 100}}
SHOWS_LABELS = ("pplx-decider", "nimble")
LABELS = [chr(ord("A") + i) for i in range(26)] + decision_fixtures.PAIRS


class Served:
    def __init__(self, path, kind, data):
        path.write_bytes(data)
        self.kind, self.path, self.model = kind, path, gguf_file.read(data)
        self.s = Server("--receipts", "on", "--context", "4096", model=path)

    def post(self, body, path="/v1/systemone", status=200):
        r = self.s.post(path, body)
        assert r.status == status, r.body
        return r.json


@pytest.fixture(scope="module", params=[("openjev", "qwen3"), ("pplx-decider", "qwen35"), ("nimble", "llama"), ("kev", "qwen35"), ("laya", "modern-bert")], ids=lambda p: p[0])
def served(request, tmp_path_factory):
    kind, arch = request.param
    it = Served(tmp_path_factory.mktemp("deciders") / f"{kind}.gguf", kind,
                decision_fixtures.make(arch, kind, temperatures=TEMPERATURES, **KEYS.get(kind, {})))
    yield it
    assert it.s.stop() == 0


# ---- what is expected

def options_of(kind, question):
    """The options as the template gets them, and the order in which it does."""
    criteria = question.get("criteria") or {}
    if question["type"] == "choice":
        found = [(key, text) for key, text in criteria.items()]
    elif question["type"] == "score":
        found = [(str(i), text) for i, text in enumerate(criteria)]
    else:
        found = [(key, criteria.get(key)) for key in ("true", "false")]
    places = list(range(len(found)))
    if question["type"] == "noul" and NO_FIRST[kind]:
        places.reverse()
    shows = kind in SHOWS_LABELS
    read = as_text if kind == "kev" else (lambda v: v)
    return [{"key": read(found[i][0]), "description": found[i][1] and read(found[i][1]), **({"label": LABELS[p]} if shows else {})}
            for p, i in enumerate(places)], places


def plain(v, depth=0):
    """A JSON value as Kev's API writes it."""
    pad = "  " * depth
    if v is None:
        return ""
    if isinstance(v, list):
        return "\n".join(f"{pad}- {plain(x, depth + 1).lstrip()}" for x in v)
    if isinstance(v, dict):
        nested = {k: isinstance(x, (list, dict)) for k, x in v.items()}
        return "\n".join(f"{pad}{k}:" + ("\n" if nested[k] else " ") + plain(x, depth + 1 if nested[k] else 0) for k, x in v.items())
    return str(v)


def as_text(v):
    return re.sub(r"<\|(\w+)\|>", "<\u00a6\\1\u00a6>", plain(v), flags=re.A)


def prompt_of(served, state, asked, name):
    question = asked[name]
    options, places = options_of(served.kind, question)
    every = [{"id": n, "type": q["type"], "instructions": q["instructions"], "options": options_of(served.kind, q)[0]}
             for n, q in asked.items()]
    read = as_text if served.kind == "kev" else (lambda v: v)
    text, error = jinja_reference.expected(served.model.keys["tokenizer.chat_template.systemone"], {
        "id": name, "type": question["type"], "instructions": read(question["instructions"]), "state": read(state),
        "options": options, "images": [], "questions": every})
    assert error is None, error
    return text, places


def ids_of(served, text):
    """Names of special tokens that stand in the state are text: here they are marked by a byte that nothing else has."""
    name = "<|im_end|>"
    parts = text.replace("dog " + name, "dog \x01").split("\x01")
    ids = []
    for i, part in enumerate(parts):
        if i > 0:
            ids += served.s.post("/tokenize", {"content": name, "parse_special": False, "add_special": False}).json["tokens"]
        ids += served.s.post("/tokenize", {"content": part, "add_special": False}).json["tokens"]
    return ids


def temperature_of(question, n):
    span = "2" if n <= 2 else "3_5" if n <= 5 else "6_10" if n <= 10 else "11"
    return TEMPERATURES.get(f"{question['type']}.{span}", TEMPERATURES.get(question["type"], 1.0))


def shares(scores, temperature):
    w = np.exp((scores - scores.max()) / temperature)
    return w / w.sum()


def label_scores(model, ids, n):
    names = model.keys["tokenizer.ggml.tokens"]
    row = forward.forward(model, ids)[-1]
    return np.array([row[names.index(LABELS[p])] for p in range(n)])


def expected(served, state, asked, name):
    """The probability of each option in the question's order: true before false."""
    text, places = prompt_of(served, state, asked, name)
    ids = ids_of(served, text)
    if served.kind == "laya":
        ids = deciders.cut(served.model, ids)
    if served.kind in deciders.SCORES:
        scores = deciders.SCORES[served.kind](served.model, ids, asked[name]["type"])
    else:
        scores = label_scores(served.model, ids, len(places))
    assert len(scores) == len(places)
    found = np.empty(len(places))
    found[places] = shares(scores, temperature_of(asked[name], len(places)))
    return found


def given(answer):
    if answer["type"] == "noul":
        return [answer["noul"], 1 - answer["noul"]]
    return list(answer["probabilities"].values())


# ---- numbers

@pytest.mark.parametrize("state", [STATE, "a plain text", [{"role": "user", "content": "hello"}]], ids=["object", "text", "list"])
def test_probabilities_are_those_of_float64(served, state):
    answers = served.post({"state": state, "questions": ASKED})["answers"]
    for name in ASKED:
        assert given(answers[name]) == pytest.approx(expected(served, state, ASKED, name), abs=1e-3), name


def test_openai_asks_the_same(served):
    state = story(3)
    asked = {"happy": {"type": "noul", "instructions": "She is happy."},
             "team": {"type": "choice", "instructions": "Who?", "criteria": {"billing": "money", "sales": None}},
             "how": {"type": "score", "instructions": "How much?", "criteria": ["low", "middle: so so", "high"]}}
    named = served.post({"state": state, "questions": asked})["answers"]
    listed = served.post({"input": state, "questions": [
        {"type": "predicate", "name": "happy", "instructions": "She is happy."},
        {"type": "choice", "name": "team", "instructions": "Who?",
         "choices": [{"value": "billing", "description": "money"}, {"value": "sales"}]},
        {"type": "score", "name": "how", "instructions": "How much?",
         "levels": [{"label": "low"}, {"label": "middle", "description": "so so"}, {"label": "high"}]}]}, "/v1/decisions")["answers"]
    assert listed[0]["probability"] == named["happy"]["noul"]
    for a, b in ((listed[1], named["team"]), (listed[2], named["how"])):
        assert [x["probability"] for x in a["probabilities"]] == list(b["probabilities"].values())
    assert listed[2]["score"] == named["how"]["score"]


def test_messages_are_a_list(served):
    """Several messages become a list of roles and contents, as an input of TypeSafe's API may be."""
    messages = [{"role": "user", "content": "the dog"}, {"role": "assistant", "content": "ran"}]
    asked = [{"type": "predicate", "instructions": "It ran."}]
    by_list = served.post({"input": messages, "questions": asked}, "/v1/decisions")["answers"][0]["probability"]
    by_state = served.post({"state": messages, "questions": {"0": {"type": "noul", "instructions": "It ran."}}})
    assert by_list == by_state["answers"]["0"]["noul"]


def test_instructions_of_the_call_stand_before_the_question(served):
    asked = {"team": ASKED["team"]}
    joined = {"team": {**ASKED["team"], "instructions": "Be strict.\n\n" + ASKED["team"]["instructions"]}}
    found = served.post({"state": "x", "questions": asked, "instructions": "Be strict."})["answers"]
    assert found == served.post({"state": "x", "questions": joined})["answers"] != served.post({"state": "x", "questions": asked})["answers"]


def test_orders_are_averaged(served):
    asked = {"team": ASKED["team"]}
    found = given(served.post({"state": "x", "questions": asked, "permutations": 3})["answers"]["team"])
    keys = list(asked["team"]["criteria"])
    want = np.zeros(3)
    for k in range(3):
        turned = {key: asked["team"]["criteria"][key] for key in keys[k:] + keys[:k]}
        p = expected(served, "x", {"team": {**asked["team"], "criteria": turned}}, "team")
        want += np.roll(p, k) / 3
    assert found == pytest.approx(want, abs=1e-3)
    assert sum(found) == pytest.approx(1, abs=1e-5)


def test_many_options_have_pairs_of_letters(served):
    criteria = {f"option {i}": None for i in range(28)}
    asked = {"which": {"type": "choice", "instructions": "Which?", "criteria": criteria}}
    if served.kind in deciders.SCORES:
        asked["which"]["criteria"] = {f"option {i}": None for i in range(255 if served.kind == "kev" else 60)}
        answers = served.post({"state": "x", "questions": asked})["answers"]
        assert given(answers["which"]) == pytest.approx(expected(served, "x", asked, "which"), abs=1e-3)
        return
    if served.kind == "openjev":
        asked["which"]["criteria"] = {f"option {i}": None for i in range(53)}
        e = served.post({"state": "x", "questions": asked}, status=400)
        assert "between 52 options at most, and question 0 has 53" in json.dumps(e)
        return
    answers = served.post({"state": "x", "questions": asked})["answers"]
    assert given(answers["which"]) == pytest.approx(expected(served, "x", asked, "which"), abs=1e-3)
    asked["which"]["criteria"] = {f"option {i}": None for i in range(30)}
    assert "between 29 options at most" in json.dumps(served.post({"state": "x", "questions": asked}, status=400))


# ---- the same bits, the input once, receipts

def test_alone_or_with_others(served):
    text, asked = story(5, 200), questions(24)
    together = served.post({"input": text, "questions": asked}, "/v1/decisions")
    if served.kind == "nimble":  # its prompts list all questions of the call
        return
    alone = [served.post({"input": text, "questions": [q]}, "/v1/decisions")["answers"][0] for q in asked]
    assert together["answers"] == alone
    if served.kind == "laya":  # an encoder, whose states depend on all of the prompt
        return
    details = together["usage"]["input_tokens_details"]
    assert details["cached_tokens"] > 23 * 600, "the input is computed once"


def test_beside_others_and_under_pressure(served):
    """Room for a few sequences, and small chunks: questions are preempted by urgent texts, and computed in other parts."""
    text, asked = story(6, 90), questions(16)
    want = served.post({"input": text, "questions": asked}, "/v1/decisions")["answers"]
    s = Server("--kv-memory", "1m", "--max-sequences", "6", "--prefill-chunk", "48", "--context", "4096", "--threads", "2",
               model=served.path, binary=DEBUG_BIN)
    stop = threading.Event()

    def urgent():
        while not stop.is_set():
            if served.kind == "laya":
                s.post("/v1/decisions", {"input": story(9, 20), "questions": asked[:3], "priority": "critical"})
            else:
                s.post("/v1/completions", {"prompt": story(9, 20), "max_tokens": 40, "ignore_eos": True, "priority": "critical"})

    def ask():
        try:
            return [s.post("/v1/decisions", {"input": text, "questions": asked}) for _ in range(3)]
        finally:
            stop.set()

    found = in_threads([ask, urgent, urgent, urgent])[0]
    assert s.stop() == 0
    assert [r.json.get("answers", r.body) for r in found] == [want] * 3


@pytest.mark.parametrize("isa", isa_levels())
def test_each_instruction_set(served, isa):
    body = {"input": story(7, 90), "questions": questions(6), "permutations": 2}
    s = Server("--isa", isa, "--threads", "2", "--context", "4096", model=served.path)
    assert s.post("/v1/decisions", body).json["answers"] == served.post(body, "/v1/decisions")["answers"]
    assert s.stop() == 0


def test_a_journal_replays_them(served, tmp_path):
    """A replay takes the same tokens from the cache, and makes the same plans."""
    journal = tmp_path / "journal.jsonl"
    s = Server("--journal", journal, "--context", "4096", model=served.path)
    for _ in range(2):
        assert s.post("/v1/decisions", {"input": story(8, 80), "questions": questions(5)}).status == 200
    assert s.stop() == 0
    run = quire("replay", journal)
    assert run.returncode == 0, run.out + run.err
    posts = [json.loads(line) for line in journal.read_text().splitlines() if line.startswith('{"post"')]
    assert len(posts) == 10
    assert all(("rows_from" in p) == (served.kind in deciders.SCORES) for p in posts)


def test_receipts_prove_them(served, tmp_path):
    r = served.post({"state": STATE, "questions": ASKED, "receipt": True})
    file = tmp_path / "receipts.jsonl"
    file.write_text(json.dumps(r["receipt"]) + "\n")
    run = quire("verify", file, "--model", served.path, "--context", "4096", "--log-level", "error")
    assert run.returncode == 0, run.out + run.err
    r["receipt"]["choices"][0]["labels"][0] += 0.001
    file.write_text(json.dumps(r["receipt"]) + "\n")
    assert quire("verify", file, "--model", served.path, "--context", "4096", "--log-level", "error").returncode != 0


def test_chats_are_refused_with_the_reason(served):
    r = served.s.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}]})
    assert r.status == 400 and "/v1/decisions" in r.json["error"]["message"], r.body


def test_they_are_listed(served):
    [m] = served.s.get("/v1/models").json["data"]
    assert "decisions" in m["capabilities"] and ("completion" in m["capabilities"]) == (served.kind != "laya")


# ---- Laya's head

@pytest.fixture(scope="module")
def laya(tmp_path_factory):
    it = Served(tmp_path_factory.mktemp("laya") / "laya.gguf", "laya",
                decision_fixtures.make("modern-bert", "laya", temperatures=TEMPERATURES, max_head_tokens=60, seed=3))
    yield it
    assert it.s.stop() == 0


@pytest.mark.parametrize("question,option,n", [(5, 3, 2), (400, 3, 3), (5, 200, 2), (400, 200, 4), (30, 9, 14), (2, 1, 70)])
def test_long_questions_and_options_are_cut_as_in_training(laya, question, option, n):
    """Words of two letters and a blank, so that each is three tokens."""
    criteria = {f"{i:02d} " + "ab " * option: None for i in range(n)}
    asked = {"q": {"type": "choice", "instructions": "cd " * question, "criteria": criteria}}
    assert len(ids_of(laya, prompt_of(laya, "the input", asked, "q")[0])) > 60 or question < 10
    answers = laya.post({"state": "the input", "questions": asked})["answers"]
    assert given(answers["q"]) == pytest.approx(expected(laya, "the input", asked, "q"), abs=1e-3)


def test_the_input_is_not_cut(laya):
    r = laya.post({"state": "x" * 5000, "questions": {"a": ASKED["team"]}}, status=400)
    assert "maximum context length" in json.dumps(r)


def test_a_marker_in_a_text_is_a_blank(laya):
    asked = {"q": {"type": "choice", "instructions": "a[MASK]b", "criteria": {"c": "d[MASK]", "e": None}}}
    plainly = {"q": {"type": "choice", "instructions": "a b", "criteria": {"c": "d ", "e": None}}}
    found = [laya.post({"state": state, "questions": q})["answers"] for state, q in (("x [MASK] y", asked), ("x   y", plainly))]
    assert found[0] == found[1]


@pytest.mark.parametrize("path,body", [("/v1/embeddings", {"input": "x"}), ("/v1/completions", {"prompt": "x"}),
                                       ("/classify", {"input": "x"}), ("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}]})])
def test_it_does_nothing_else(laya, path, body):
    r = laya.s.post(path, body)
    assert r.status == 400 and ("for decisions only" in r.body.decode() or "generates no text" in r.body.decode()), r.body


def without(name):
    """A head that lacks a tensor."""
    def finish(f):
        decision_fixtures.encoder_head(f)
        del f.tensors[name]
    return finish


@pytest.mark.parametrize("name,says", [
    ("token_types.weight", "'token_types.weight' is missing"), ("cls.weight", "'cls.weight' of the head for decisions is missing"),
    ("cls.output.weight", "decision.block_count' says that the model has a head"), ("blk.5.ffn_up.bias", "'blk.5.ffn_up.bias' is missing"),
    ("blk.4.attn_norm.bias", "'blk.4.attn_norm.bias' is missing"), ("cls.norm.weight", "'cls.norm.weight' is missing")])
def test_a_head_is_whole(tmp_path, name, says):
    path = tmp_path / "part.gguf"
    path.write_bytes(decision_fixtures.make("modern-bert", "laya", finish=without(name), max_head_tokens=60))
    run = quire("inspect", path)
    assert run.returncode != 0 and says in run.out + run.err


# ---- refusals

@pytest.mark.parametrize("fields,param,says", [
    ({"questions": {"a": {"type": "noul"}}}, "questions", "question 0 has no instructions"),
    ({"chat_template_kwargs": {"a": 1}}, "chat_template_kwargs", "in a form of its own"),
])
def test_refusals(served, fields, param, says):
    e = served.post({"state": "x", "questions": {"a": {"type": "noul", "instructions": "x"}}, **fields}, status=400)
    assert says in json.dumps(e), e


@pytest.mark.parametrize("kind,template,says", [
    ("basal", "x", "of the type 'basal', of which this server does not know the prompts; the known types are openjev"),
    ("openjev", "", "has no template 'systemone'"),
    ("openjev", "{% nonsense %}", "'systemone' cannot be used"),
])
def test_a_model_that_cannot_be_asked_is_served_all_the_same(tmp_path, kind, template, says):
    path = tmp_path / "odd.gguf"
    path.write_bytes(decision_fixtures.make("qwen3", kind, template))
    s = Server("--context", "512", model=path)
    r = s.post("/v1/systemone", {"state": "x", "questions": {"a": {"type": "noul", "instructions": "x"}}})
    assert r.status == 400 and says in r.body.decode(), r.body
    assert s.post("/v1/completions", {"prompt": "the", "max_tokens": 2}).status == 200
    assert "decisions" not in s.get("/v1/models").json["data"][0]["capabilities"]
    assert f"decisions=\"{kind}\" unusable=" in s.read_log() or f"decisions={kind} unusable=" in s.read_log()
    assert s.stop() == 0


def test_an_encoder_reads_no_next_token(tmp_path):
    path = tmp_path / "encoder.gguf"
    path.write_bytes(decision_fixtures.make("modern-bert", "openjev"))
    s = Server("--context", "512", model=path)
    r = s.post("/v1/systemone", {"state": "x", "questions": {"a": {"type": "noul", "instructions": "x"}}})
    assert r.status == 400 and "is an encoder, which makes none" in r.body.decode(), r.body
    assert s.post("/v1/embeddings", {"input": "x"}).status == 200
    assert s.get("/v1/models").json["data"][0]["capabilities"] == ["embedding"]
    assert s.stop() == 0


@pytest.mark.parametrize("kind,arch,finish,says", [
    ("kev", "qwen3", lambda f: None, "an even number of outputs (tensor cls.output.weight), and has 0"),
    ("kev", "qwen3", lambda f: f.biased("cls.output", 7, f.n_embd, True), "and has 7"),
    ("laya", "modern-bert", lambda f: None, "decision.max_head_tokens"),
    ("laya", "qwen3", lambda f: f.key("decision.max_head_tokens", 60), "must have a mask token and a separator")])
def test_a_head_that_cannot_be_read(tmp_path, kind, arch, finish, says):
    path = tmp_path / "headless.gguf"
    path.write_bytes(decision_fixtures.make(arch, kind, finish=finish))
    s = Server("--context", "512", model=path)
    r = s.post("/v1/systemone", {"state": "x", "questions": {"a": {"type": "noul", "instructions": "x"}}})
    assert r.status == 400 and says in r.body.decode(), r.body
    assert s.stop() == 0


def test_a_template_that_marks_too_little(tmp_path):
    path = tmp_path / "odd.gguf"
    path.write_bytes(decision_fixtures.make("qwen3", "kev", "{{ state }}{% for o in options %}{{ o.key }}{% endfor %}<|box_end|>."))
    s = Server("--context", "512", model=path)
    r = s.post("/v1/systemone", {"state": "x", "questions": {"a": {"type": "noul", "instructions": "x"}}})
    assert r.status == 400 and "does not mark each option of a question once" in r.body.decode(), r.body
    assert s.stop() == 0


@pytest.mark.parametrize("value", ["nan", "x", 0.0, -1.0])
def test_a_temperature_must_be_a_number_above_0(tmp_path, value):
    path = tmp_path / "cold.gguf"
    path.write_bytes(decision_fixtures.make("qwen3", "openjev", temperatures={"choice": value}))
    run = quire("inspect", path)
    assert run.returncode != 0 and "decision.temperature.choice': must be a number above 0" in run.out + run.err


def test_inspect_says_how_a_model_decides(tmp_path):
    path = tmp_path / "m.gguf"
    small = make_model(tmp_path / "small.gguf", "--layers", "1").read_bytes()
    for data, says in ((decision_fixtures.make("qwen3", "openjev"), '^decisions: trained, of the type "openjev"$'),
                       (decision_fixtures.make("qwen3", "a\nb"), r'^decisions: trained, of the type "a\.b"$'),
                       (gguf_file.with_keys(small, {"tokenizer.chat_template": "{{ messages[0].content }}"}),
                        "^decisions: through the chat template$"),
                       (gguf_file.with_keys(small, {"tokenizer.chat_template": "{{ messages[0].content }}\n<think>\n"}),
                        "^decisions: the model 'this model' would think before it answers"),
                       (gguf_file.with_keys(small, {"tokenizer.chat_template": "{{ raise_exception('Only tools.') }}"}),
                        "^decisions: .*Only tools")):
        path.write_bytes(data)
        run = quire("inspect", path)
        assert run.returncode == 0 and re.search(says, run.out, re.M), run.out[-500:] + run.err


def test_a_temperature_may_be_a_text(tmp_path):
    path = tmp_path / "text.gguf"
    path.write_bytes(decision_fixtures.make("qwen3", "openjev", temperatures={"choice": "2.0"}))
    a = Server("--context", "512", model=path)
    body = {"state": "x", "questions": {"team": ASKED["team"]}}
    answers = a.post("/v1/systemone", body).json["answers"]
    a.stop()
    path.write_bytes(decision_fixtures.make("qwen3", "openjev", temperatures={"choice": 2.0}))
    b = Server("--context", "512", model=path)
    assert b.post("/v1/systemone", body).json["answers"] == answers and math.isfinite(given(answers["team"])[0])
    b.stop()
