"""Speculative decoding: guessed tokens change no answer, whatever is asked for, and are told of.

Debug servers compute every guess, whatever it costs, and some that are random (QUIRE_DEBUG_DRAFTS); their answers are
those of a server that makes none."""
import concurrent.futures
import json
import pathlib
import random
import re
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "reference"))

import adapter_files  # noqa: E402
import gguf_file  # noqa: E402
from proxies import plain as plain_bytes  # noqa: E402
from quire import DEBUG_BIN, SLOW, Server, crowd, preemptions  # noqa: E402
from test_cli import quire  # noqa: E402

N = 2000 if SLOW else 160
STORY = "Once upon a time there was a little girl named Lily. She loved to play outside in the park. One day, she saw a "
PERSON = {"type": "object", "properties": {"name": {"enum": ["Ann", "Bob"]}, "age_in_years": {"type": "integer"},
                                           "address": {"type": "object", "properties": {"street": {"type": "boolean"}},
                                                       "required": ["street"], "additionalProperties": False}},
          "required": ["name", "age_in_years", "address"], "additionalProperties": False}
FLAGS = ("--context", "512", "--max-sequences", "8", "--prefill-chunk", "48")


@pytest.fixture(scope="module")
def plain():
    s = Server(*FLAGS, "--speculation", "off")
    yield s
    assert s.stop() == 0


def drafting(drafts, *flags):
    return Server(*FLAGS, *map(str, flags), binary=DEBUG_BIN, env={"QUIRE_DEBUG_DRAFTS": drafts})


@pytest.fixture(scope="module", params=["always", "7:400"])
def server(request):
    """Only right guesses and those of the drafters; and many that are wrong."""
    s = drafting(request.param)
    yield s
    assert s.stop() == 0


@pytest.fixture(scope="module")
def always():
    s = drafting("always")
    yield s
    assert s.stop() == 0


# ---- all kinds of requests ----

SAMPLERS = [
    {"temperature": 0}, {"temperature": 1}, {"temperature": 0.7, "top_p": 0.9}, {"temperature": 0.5, "top_k": 5},
    {"temperature": 1, "min_p": 0.1}, {"temperature": 0.8, "typical_p": 0.7}, {"temperature": 0.3, "seed": 5},
    {"temperature": 1, "xtc_probability": 0.5, "xtc_threshold": 0.1}, {"temperature": 1, "mirostat": 2},
    {"temperature": 0.4, "samplers": ["top_k", "temperature", "min_p"], "top_k": 7, "min_p": 0.05},
]
CHANGES = [
    {}, {}, {}, {"presence_penalty": 0.6}, {"frequency_penalty": 0.5, "presence_penalty": -0.2}, {"repetition_penalty": 1.3},
    {"repeat_penalty": 1.2, "repeat_last_n": 16}, {"dry_multiplier": 0.8, "dry_allowed_length": 2},
    {"logit_bias": {"5": 4, "9": -100}}, {"bad_words": ["the", "a little"]}, {"min_tokens": 12}, {"ignore_eos": True},
    {"stop": ["."]}, {"stop": ["and", "She"], "include_stop_str_in_output": True}, {"stop_token_ids": [5, 17, 40]},
]
CONSTRAINTS = [
    {}, {}, {}, {}, {"json_schema": PERSON}, {"guided_regex": "(the cat sat on the mat[.] ){2,5}"},
    {"guided_choice": ["a long answer that is forced", "a longer one"]},
    {"grammar": 'root ::= ("name: " [a-z]{1,4} "; ")+'},
]
REPORTS = [{}, {}, {"logprobs": 3}, {"logprobs": 0}, {"n": 3}, {"n": 2, "best_of": 3}, {"echo": True, "logprobs": 1}]
PREDICTIONS = ["", STORY, "bird. She wanted to play with it.", "x" * 50, STORY[10:] + "dog in the park. "]


def body_of(r):
    body = {"prompt": r.choice([STORY, STORY * 2, "a b c a b c a b", "Tom and Sue. Tom and Sue. Tom and", "The"]),
            "max_tokens": r.randint(1, 60), "seed": r.randint(0, 99)}
    for kind in (SAMPLERS, CHANGES, CONSTRAINTS, REPORTS):
        body.update(r.choice(kind))
    text = r.choice(PREDICTIONS)
    if text:
        body["prediction"] = {"type": "content", "content": text}
    return body


def answer(server, body):
    """What a client gets that must not depend on drafts."""
    r = server.post("/v1/completions", body)
    if r.status != 200:
        return r.status, r.body
    return ([{k: v for k, v in c.items() if k != "timings"} for c in r.json["choices"]],
            r.json["usage"]["completion_tokens"], r.json["usage"].get("completion_tokens_details"))


def answers(server, bodies):
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        return list(pool.map(lambda b: answer(server, b), bodies))


def test_same_answers(plain, server):
    r = random.Random(3)
    bodies = [body_of(r) for _ in range(N)]
    expected = answers(plain, bodies)
    got = answers(server, bodies)
    for body, a, b in zip(bodies, expected, got):
        assert a == b, body
    assert sum(a[0] != 400 for a in expected) > N * 0.9


def drafts_of(server):
    m = server.metrics()
    return {s: tuple(m[f'quire_spec_{what}_total{{source="{s}"}}'] for what in ("drafts", "draft_tokens", "accepted_tokens"))
            for s in ("lookup", "prediction", "grammar", "history")}


def test_drafts_were_made_and_right(server, plain):
    """Each source has its turn, and some guesses of each are right; without speculation there is none."""
    def ask(salt, **fields):
        body = {"prompt": STORY * 2, "max_tokens": 60, "temperature": 0, "ignore_eos": True, "cache_salt": salt, **fields}
        for s in plain, server:
            text = s.post("/v1/completions", body).text
        return text

    text = ask("own text")
    ask("prediction", prediction=content(text[:100] + " and " + text[100:]))
    ask("grammar", json_schema=PERSON)
    for seed in range(4):
        ask("history", temperature=0.8, seed=seed // 2)
    for source, (runs, drafted, accepted) in drafts_of(server).items():
        assert 0 < runs <= drafted and 0 < accepted < drafted, source
    assert set(drafts_of(plain).values()) == {(0, 0, 0)}


@pytest.mark.isa
def test_under_preemption(plain):
    """Blocks are short, sequences come back by being computed again or from a copy."""
    r = random.Random(5)
    bodies = [{**body_of(r), "max_tokens": 80, "ignore_eos": True, "min_tokens": 0} for _ in range(40)]
    for b in bodies:
        b.pop("prediction", None)
    expected = answers(plain, bodies)
    for flags in (("--preemption", "recompute"), ("--swap-ram", "4m")):
        s = drafting("3:300", "--kv-memory", "1m", *flags)
        assert answers(s, bodies) == expected
        assert crowd(s) == crowd(plain) and preemptions(s.metrics()) > 0
        assert drafts_of(s)["lookup"][0] > 0
        assert s.stop() == 0


def test_shifted_contexts():
    """Answers that go on beyond their context: the text that is looked things up in is another one afterwards."""
    flags = ("--context", "64", "--context-shift", "on")
    bodies = [{"prompt": "a b c d", "max_tokens": 200, "ignore_eos": True, "temperature": t, "seed": 1} for t in (0, 0.8)]
    texts = []
    for s in (Server(*flags, "--speculation", "off"), drafting("5:300", *flags), drafting("always", *flags)):
        texts.append([answer(s, b) for b in bodies])
        assert s.metrics()["quire_context_shifts_total"] > 0
        assert s.stop() == 0
    assert texts[0] == texts[1] == texts[2]


def test_resumed_answers(plain, always):
    """Behind the tokens of another server's answer; the prediction is followed through these too."""
    body = {"prompt": STORY, "max_tokens": 40, "temperature": 0, "ignore_eos": True, "return_token_ids": True}
    whole = plain.post("/v1/completions", body).json["choices"][0]
    body["prediction"] = {"type": "content", "content": whole["text"]}
    full = answer(always, body)
    for n in (1, 7, 39):
        r = always.post("/v1/completions", {**body, "resume": {"tokens": whole["token_ids"][:n]}}).json
        assert r["choices"][0]["token_ids"] == whole["token_ids"][n:]
        assert r["usage"]["completion_tokens_details"] == full[2]


# ---- predictions ----

def details(server, **fields):
    r = server.post("/v1/completions", {"prompt": STORY, "max_tokens": 30, "temperature": 0, "ignore_eos": True, **fields})
    return r.json["usage"]["completion_tokens_details"], r.json["choices"][0]["text"]


def content(text):
    return {"type": "content", "content": text}


def test_predictions_are_counted(plain, always):
    """What came true of a prediction is the same with and without speculation."""
    text = plain.post("/v1/completions", {"prompt": STORY, "max_tokens": 30, "temperature": 0, "ignore_eos": True}).text
    for s in (plain, always):
        right, same = details(s, prediction=content(text))
        assert same == text and right["accepted_prediction_tokens"] >= 25 and right["rejected_prediction_tokens"] <= 5
        wrong, same = details(s, prediction=content("0 1 2 3 4 5 6 7 8 9"))
        assert same == text and wrong["accepted_prediction_tokens"] == 0 < wrong["rejected_prediction_tokens"]
    parts = [{"type": "text", "text": text[:20]}, {"type": "text", "text": text[20:]}]
    assert details(plain, prediction=content(parts)) == details(plain, prediction=content(text))


def test_prediction_in_chats(always):
    r = always.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 8,
                                             "prediction": content("Hello there")}).json
    d = r["usage"]["completion_tokens_details"]
    assert d["accepted_prediction_tokens"] + d["rejected_prediction_tokens"] > 0


def test_prediction_of_several_choices(always):
    one = details(always, prediction=content("a b c d e"))[0]
    two = details(always, prediction=content("a b c d e"), n=2)[0]
    assert sum(two.values()) == 2 * sum(one.values())


@pytest.mark.parametrize("value", ["x", 1, [], {}, {"type": "content"}, {"type": "text", "content": "x"},
                                   content(1), content([1]), content([{"type": "image", "text": "x"}]),
                                   content([{"type": "text"}])])
def test_bad_predictions(always, value):
    r = always.post("/v1/completions", {"prompt": "x", "max_tokens": 1, "prediction": value})
    assert r.status == 400 and r.json["error"]["param"] == "prediction"


def test_prediction_too_long(always):
    r = always.post("/v1/completions", {"prompt": "x", "max_tokens": 1, "prediction": content("dog cat " * 600)})
    assert r.status == 400 and "512 tokens" in r.json["error"]["message"]


# ---- earlier answers ----

ASKED = {"prompt": "Tom saw a big red ball. He", "max_tokens": 40, "temperature": 0.8, "seed": 3, "ignore_eos": True}


def from_history(server, headers=None, **fields):
    """The answer to a request, and how many tokens of it were guessed from earlier answers."""
    before = drafts_of(server)["history"]
    text = server.post("/v1/completions", {**ASKED, **fields}, headers=headers).text
    return text, drafts_of(server)["history"][2] - before[2]


def test_asked_again(plain):
    """The second time nearly all of the answer is guessed, also behind its beginning in another prompt; until enough
    others have come."""
    s = drafting("always", "--speculation-history", "200")
    text, n = from_history(s)
    assert (text, n) == from_history(plain)
    assert from_history(s) == (text, pytest.approx(37, abs=3))
    text = from_history(s, temperature=0)[0]
    begin = " ".join(text.split(" ")[:8])
    rest, n = from_history(s, temperature=0, prompt=ASKED["prompt"] + begin, max_tokens=20)
    assert text.startswith(begin + rest) and n > 10
    for i in range(5):
        from_history(s, prompt=f"{i} boxes were in", seed=i)
    assert from_history(s)[1] < 10
    assert s.stop() == 0


def test_nobody_elses_answers():
    """What was answered to one tenant, or with one cache_salt, is guessed from for nobody else; nor for anybody what was
    answered without speculation."""
    s = drafting("always", "--tenant-header", "X-Tenant")
    callers = [{}, {"cache_salt": "a"}, {"cache_salt": "b"}, {"headers": {"X-Tenant": "ann"}},
               {"headers": {"X-Tenant": "bob"}}, {"headers": {"X-Tenant": "ann"}, "cache_salt": "a"}]
    for c in callers:
        text, n = from_history(s, **c)
        assert n == 0, c
    for c in callers:
        assert from_history(s, **c) == (text, pytest.approx(37, abs=3)), c
    for _ in range(2):
        assert from_history(s, cache_salt="c", speculation=False) == (text, 0)
    assert from_history(s, cache_salt="c")[1] == 0
    assert s.stop() == 0


def test_no_history():
    s = drafting("always", "--speculation-history", "0")
    assert from_history(s) == from_history(s)
    assert drafts_of(s)["history"] == (0, 0, 0)
    assert s.stop() == 0


# ---- adapters ----

@pytest.fixture(scope="module")
def adapters(tmp_path_factory):
    """The flags for two of the demo model."""
    demo = gguf_file.read((pathlib.Path(__file__).parents[2] / "config/demo/quire-demo.gguf").read_bytes())
    folder = tmp_path_factory.mktemp("adapters")
    for i in range(2):
        made = adapter_files.make(demo, 4, "F16", seed=i)
        (folder / f"{i}.gguf").write_bytes(adapter_files.gguf("llama", made, 2, "F16"))
    return ("--adapters", f"a={folder}/0.gguf,b={folder}/1.gguf")


ADAPTED = [{}, {"model": "a"}, {"model": "b"}, {"lora": [{"id": 0, "scale": 0.5}]}]


def test_with_adapters(adapters):
    """Rows of guesses are computed with the adapter of their request, beside others; what was answered with one is guessed
    from for no other."""
    r = random.Random(13)
    bodies = [{**body_of(r), **ADAPTED[i % 4]} for i in range(40)]
    for b in bodies:
        b.pop("prediction", None)
    p = Server(*FLAGS, *adapters, "--speculation", "off")
    expected = answers(p, bodies)
    assert sum(a[0] != 400 for a in expected) > 36
    texts = [from_history(p, cache_salt="alone", **a) for a in ADAPTED]
    assert len(set(texts)) == 4 and p.stop() == 0
    for drafts in "always", "17:400":
        s = drafting(drafts, *adapters)
        assert answers(s, bodies) == expected
        assert drafts_of(s)["lookup"][0] > 0 and drafts_of(s)["history"][2] > 0
        assert [from_history(s, cache_salt="alone", **a) for a in ADAPTED] == texts
        assert s.stop() == 0


# ---- turned off, and told ----

def timings(server, **fields):
    r = server.post("/v1/completions", {"prompt": STORY * 3, "max_tokens": 60, "temperature": 0, "ignore_eos": True,
                                        "timings": True, **fields})
    return r.json["choices"][0]["timings"]


def test_off_by_request(always):
    assert timings(always)["draft_tokens"] > 0
    assert timings(always, speculation=False)["draft_tokens"] == 0
    assert always.post("/v1/completions", {"prompt": "x", "speculation": "off"}).status == 400


def test_off_by_setting(plain):
    assert timings(plain)["draft_tokens"] == 0


def test_told(always):
    t = timings(always)
    assert 0 < t["accepted_draft_tokens"] <= t["draft_tokens"]
    r = always.post("/completion", {"prompt": STORY * 3, "n_predict": 60, "temperature": 0, "ignore_eos": True}).json
    assert r["timings"]["draft_n"] >= r["timings"]["draft_n_accepted"] > 0
    steps = always.get("/debug/iterations").json
    assert any(s["draft_rows"] > 0 for s in steps["iterations"])
    rows = steps["draft_costs"]["rows_ms"]
    assert len(rows) == 64 and rows == sorted(rows) and rows[0] > 0


def test_several_tokens_in_a_frame(always, plain):
    """A stream gets what one step has chosen in one frame, and the same text."""
    body = {"prompt": STORY * 3, "max_tokens": 60, "temperature": 0, "ignore_eos": True}
    frames = [json.loads(f) for f in always.frames("/v1/completions", {**body, "timings": True})[:-1]]
    frames = [f["choices"][0] for f in frames]
    assert "".join(f["text"] for f in frames) == plain.post("/v1/completions", body).text
    accepted = frames[-1]["timings"]["accepted_draft_tokens"]
    assert accepted > 0 and sum(1 for f in frames if f["text"]) <= 60 - accepted


def test_numbered_streams(always):
    """Frames that another server may go on with do not depend on guesses, nor do their numbers."""
    body = {"prompt": STORY * 3, "max_tokens": 60, "temperature": 0, "seed": 1, "ignore_eos": True, "stream": True,
            "resume_tokens": True}
    runs = [plain_bytes(always.post("/v1/completions", {**body, "speculation": s}).body) for s in (False, True)]
    assert runs[0] == runs[1] and runs[0].count(b"\nid: ") > 55
    n = always.metrics()["quire_iterations_total"]
    always.post("/v1/completions", body)
    assert always.metrics()["quire_iterations_total"] - n < 55, "there were guesses"


# ---- the journal ----

@pytest.mark.parametrize("drafts", ["always", "11:500"])
def test_replay(drafts, tmp_path):
    """A journal has the guesses, and a replay makes the same plans with them; a line that was edited is noticed."""
    path = tmp_path / "journal"
    s = drafting(drafts, "--journal", path, "--kv-memory", "1m")
    r = random.Random(9)
    answers(s, [body_of(r) for _ in range(40)])
    s.wait_idle()
    assert s.stop() == 0
    run = quire("replay", path)
    assert run.returncode == 0, run.err
    text = path.read_text()
    assert '"drafts":[[' in text and '"accepted":[' in text
    for old, new in (('"drafts":[[', '"drafts":[[9'), ('"accepted":[', '"accepted":[99'), ('"accepted":[', '"accepted":[0,')):
        path.write_text(re.sub(re.escape(old), new, text, count=1))
        run = quire("replay", path)
        assert run.returncode != 0, new
