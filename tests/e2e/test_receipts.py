"""Receipts: what an answer was computed from, and `quire verify`, which computes it again."""
import concurrent.futures
import copy
import hashlib
import json
import pathlib
import random
import struct
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "reference"))

import adapter_files  # noqa: E402
import gguf_file  # noqa: E402
from quire import SLOW, Server, crowd, preemptions  # noqa: E402
from test_cli import quire  # noqa: E402
from test_speculation import body_of  # noqa: E402

DEMO = pathlib.Path(__file__).parent.parent.parent / "config/demo/quire-demo.gguf"
CHAT = {"messages": [{"role": "user", "content": "Tell me of a bear."}], "max_tokens": 12, "seed": 3, "receipt": True}
TOOL = {"type": "function", "function": {"name": "see", "parameters": {"type": "object", "properties": {
    "what": {"enum": ["bear", "bird"]}}, "required": ["what"], "additionalProperties": False}}}
N = 200 if SLOW else 60


@pytest.fixture(scope="module")
def adapter(tmp_path_factory):
    demo = gguf_file.read(DEMO.read_bytes())
    path = tmp_path_factory.mktemp("adapters") / "one.gguf"
    path.write_bytes(adapter_files.gguf("llama", adapter_files.make(demo, 8, "F16", seed=1), 16, "F16"))
    return path


@pytest.fixture(scope="module")
def server():
    s = Server("--receipts", "on")
    yield s
    assert s.stop() == 0


def digest(ids):
    return "sha256:" + hashlib.sha256(struct.pack(f"<{len(ids)}i", *ids)).hexdigest()


def verify(receipts, *flags):
    """Its exit code and lines, without the notes of its log."""
    run = quire("verify", "-", "--log-level", "error", *flags, stdin="".join(json.dumps(r) + "\n" for r in receipts).encode())
    return run.returncode, run.out.splitlines(), run.err


def one(server, **fields):
    r = server.post("/v1/completions", {"prompt": "Once upon a time", "max_tokens": 12, "seed": 5, "receipt": True, **fields})
    assert r.status == 200, r.body
    return r.json["receipt"]


def test_what_a_receipt_says(server):
    body = {"prompt": "Once upon a time", "max_tokens": 12, "temperature": 0.9, "receipt": True, "return_token_ids": True,
            "user": "a \n \"b\" \u00e9  c"}
    answer = server.post("/v1/completions", body).json
    receipt, choice = answer["receipt"], answer["choices"][0]
    assert receipt["receipt"] == 1 and receipt["model"] == answer["model"]
    assert receipt["weights"] == ["sha256:" + hashlib.sha256(DEMO.read_bytes()).hexdigest()]
    assert receipt["request"] == body and receipt["endpoint"] == "/v1/completions"
    assert receipt["settings"]["kv_type"] == "f16" and receipt["settings"]["context"] == "1024"
    assert receipt["choices"] == [{"index": 0, "seed": receipt["choices"][0]["seed"], "tokens": choice["token_ids"],
                                   "prompt_tokens": len(choice["prompt_token_ids"]), "finish_reason": choice["finish_reason"],
                                   "prompt": digest(choice["prompt_token_ids"]), "answer": digest(choice["token_ids"])}]
    again = server.post("/v1/completions", {**body, "seed": int(receipt["choices"][0]["seed"])}).json
    assert again["choices"] == answer["choices"]  # the seed that was drawn
    assert "receipt" not in server.post("/v1/completions", {**body, "receipt": False}).json


def test_streams_have_it_in_the_last_frame(server):
    for path, body in (("/v1/completions", {"prompt": "Once upon a time", "max_tokens": 12, "seed": 5, "receipt": True}),
                       ("/v1/chat/completions", CHAT)):
        whole = server.post(path, body).json["receipt"]
        frames = [json.loads(f[6:]) for f in server.post(path, {**body, "stream": True}).body.decode().split("\n\n")[:-2]]
        assert [i for i, f in enumerate(frames) if "receipt" in f] == [len(frames) - 1] and frames[-1]["choices"] == []
        assert frames[-1]["receipt"]["choices"] == whole["choices"]
        assert verify([frames[-1]])[0] == 0


def test_no_receipt(server):
    off = Server()
    r = off.post("/v1/completions", {"prompt": "a", "receipt": True})
    assert r.status == 400 and r.json["error"]["param"] == "receipt" and "receipts = on" in r.json["error"]["message"]
    assert off.stop() == 0
    r = server.post("/v1/completions", {"prompt": "a", "receipt": True, "resume": {"tokens": [5]}})
    assert r.status == 400 and r.json["error"]["param"] == "receipt"
    for path, body in (("/completion", {"prompt": "a"}), ("/v1/responses", {"input": "a"}),
                       ("/api/generate", {"prompt": "a", "stream": False})):
        r = server.post(path, {**body, "receipt": True})
        assert r.status == 400 and "'receipt' is not supported" in r.body.decode(), r.body


# ---- computing again ----

def bodies():
    r = random.Random(8)
    for i in range(N):
        long = {"max_tokens": 80, "ignore_eos": True, "min_tokens": 0} if i % 2 else {}
        yield {**body_of(r), **long, "receipt": True, **({"model": "one"} if i % 4 == 0 else {})}


def receipts_of(server):
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda b: server.post("/v1/completions", b), bodies()))
    found = [a.json["receipt"] for a in answers if a.status == 200]
    assert len(found) > 0.9 * N
    return found


@pytest.mark.isa
def test_answers_are_computed_again(adapter):
    """All samplers, grammars, penalties and an adapter, under preemption with copies and without; then elsewhere."""
    named = ("--adapters", f"one={adapter}")
    s = Server("--receipts", "on", "--kv-memory", "1m", "--swap-ram", "4m", "--max-sequences", "8", "--context", "512", *named)
    receipts = receipts_of(s)
    crowd(s)
    assert preemptions(s.metrics()) > 0
    assert s.stop() == 0
    n = sum(len(r["choices"]) for r in receipts)
    assert sum("adapter" in r for r in receipts) > N // 5
    for flags in (("--threads", "2"), ("--isa", "avx2", "--threads", "1", "--speculation", "off")):
        code, lines, err = verify(receipts, *named, *flags)
        assert code == 0, [line for line in lines if "equal" not in line][:5] + [err]
        tokens = sum(len(c["tokens"]) for r in receipts for c in r["choices"])
        assert lines[-1] == f"{n} answers are equal ({tokens} tokens), 0 are not"
    code, lines, _ = verify(receipts[:8])
    assert code == 1 and any("the adapter 'one' is missing" in line for line in lines)


def test_chats_are_computed_again(server):
    chats = [CHAT, {**CHAT, "n": 3}, {**CHAT, "tools": [TOOL], "tool_choice": "required", "max_tokens": 30},
             {**CHAT, "response_format": {"type": "json_object"}}, {**CHAT, "chat_template_kwargs": {"a": 1}}]
    answers = [server.post("/v1/chat/completions", c) for c in chats]
    assert [a.status for a in answers] == [200] * len(chats)
    code, lines, err = verify([a.json for a in answers])  # whole answers are taken as well
    assert code == 0, lines + [err]
    assert lines[-1].startswith("7 answers are equal")


def test_defaults_are_those_of_the_receipt():
    """What the settings say of requests that do not is in it, and holds where it is computed again."""
    s = Server("--receipts", "on", "--temperature", "0.7", "--top-k", "9", "--seed", "4", "--kv-type", "q8_0")
    receipts = [s.post("/v1/completions", {"prompt": p, "max_tokens": 12, "receipt": True}).json for p in ("Once", "The")]
    assert s.stop() == 0
    assert receipts[0]["receipt"]["defaults"]["top_k"] == 9
    assert verify(receipts)[0] == 0
    assert verify(receipts, "--temperature", "0.1", "--seed", "5")[0] == 0
    code, lines, _ = verify(receipts, "--kv-type", "f16")
    assert code == 1 and "kv_type is 'f16' here, but 'q8_0' in the receipt" in lines[0]


# ---- what differs ----

def changed(receipt, change):
    other = copy.deepcopy(receipt)
    change(other, other["choices"][0])
    return other


def set_tokens(choice, tokens):
    choice.update(tokens=tokens, answer=digest(tokens))


DIFFERENCES = [
    (lambda r, c: set_tokens(c, c["tokens"][:5] + [c["tokens"][5] + 1] + c["tokens"][6:]), "differs from token 6 of 12 on"),
    (lambda r, c: set_tokens(c, c["tokens"] + [1]), "differs from token 13 of 13 on"),
    (lambda r, c: c.update(tokens=c["tokens"][:-1]), "the receipt is damaged"),
    (lambda r, c: c.update(seed="6"), "differs from token"),
    (lambda r, c: r["request"].update(prompt="Once upon"), "the prompt of choice 0"),
    (lambda r, c: r["request"].update(temperature="hot"), "its request cannot be read: 'temperature'"),
    (lambda r, c: r.update(weights=["sha256:" + 64 * "0"]), "its weights are not those of the built-in model: name a model's file with --model"),
    (lambda r, c: r.update(weights=[]), "its weights are not those of the built-in model"),
    (lambda r, c: r.update(endpoint="/v1/embeddings"), "not a receipt of a completion, a chat or decisions"),
    (lambda r, c: r.update(receipt=2), "not a receipt of version 1"),
    (lambda r, c: r.update(choices=[]), "it has no choices"),
    (lambda r, c: c.update(tokens=[1e300]), "its tokens cannot be read"),
    (lambda r, c: r.update(adapter={"name": "x", "scale": 1, "numbers": "0"}), "the adapter 'x' is missing"),
]


def test_differences_are_told(server):
    receipt = one(server, temperature=1)
    others = [changed(receipt, change) for change, _ in DIFFERENCES]
    code, lines, err = verify([receipt, *others, receipt])
    assert code == 1 and err == ""
    for i, (_, words) in enumerate(DIFFERENCES):
        mine = [line for line in lines if line.startswith(f"line {i + 2}:")]
        assert len(mine) == 1 and words in mine[0], (mine, words)
    assert lines[0].endswith("choice 0 is equal: 12 tokens") and lines[-2] == f"line {len(others) + 2}: choice 0 is equal: 12 tokens"
    assert lines[-1].startswith("2 answers are equal") and lines[-1].endswith(f", {len(others)} are not")


def test_other_versions_are_noted(server):
    receipt = one(server)
    receipt["quire"] = "0.0.1"
    code, lines, _ = verify([receipt])
    assert code == 0 and "note: it was computed by version 0.0.1" in lines[0]


def test_files_that_are_none(tmp_path):
    for text, words in (("", "contains no receipt"), ("not json\n", "line 1:"), ("[1]\n", "it has no receipt"), ('{"receipt": 7}\n', "not a receipt of version")):
        file = tmp_path / "receipt"
        file.write_text(text)
        run = quire("verify", file, "--log-level", "error")
        assert run.returncode == 1 and words in run.out + run.err
    run = quire("verify", tmp_path / "missing")
    assert run.returncode == 1 and "missing" in run.err
    run = quire("verify")
    assert run.returncode == 2 and "FILE" in run.err


def test_a_receipt_of_several_lines(server, tmp_path):
    file = tmp_path / "receipt.json"
    file.write_text(json.dumps(one(server), indent=2))
    run = quire("verify", file, "--log-level", "error")
    assert run.returncode == 0 and run.out.splitlines()[-1] == "1 answers are equal (12 tokens), 0 are not"


# ---- decisions

QUESTIONS = [{"type": "predicate", "instructions": "It sleeps."},
             {"type": "choice", "instructions": "Who?", "choices": [{"value": "bear"}, {"value": "bird"}, {"value": "dog"}]}]


def decided(server):
    r = server.post("/v1/decisions", {"input": "The bear slept.", "questions": QUESTIONS, "permutations": 2, "receipt": True})
    assert r.status == 200, r.body
    return r.json


def test_decisions_are_computed_again(server):
    answer = decided(server)
    receipt = answer["receipt"]
    assert receipt["endpoint"] == "/v1/decisions" and [len(c["labels"]) for c in receipt["choices"]] == [2, 2, 3, 3]
    state = server.post("/v1/systemone", {"state": {"a": 1}, "questions": {"b": {"type": "noul"}}, "receipt": True}).json
    code, lines, _ = verify([answer, state])
    assert code == 0 and lines[-1] == "5 answers are equal (5 tokens), 0 are not"


def test_labels_of_several_tokens_are_computed_again(server):
    """Each prompt that decides about a token of labels is a choice of the receipt."""
    asked = {"type": "choice", "instructions": "Who?", "choices": [{"value": f"o{i}"} for i in range(80)]}
    r = server.post("/v1/decisions", {"input": "The bear slept.", "questions": [asked], "receipt": True}).json
    n = len(r["receipt"]["choices"])
    assert n > 1 and sum(len(c["labels"]) for c in r["receipt"]["choices"]) > 80
    code, lines, _ = verify([r])
    assert code == 0 and lines[-1] == f"{n} answers are equal ({n} tokens), 0 are not"


def test_a_missing_order_is_found(server):
    """A receipt has a choice for each prompt of its questions, or it does not prove their answers."""
    less, more = decided(server), decided(server)
    less["receipt"]["choices"].pop()
    more["receipt"]["request"]["permutations"] = 1
    for answer in less, more:
        code, lines, _ = verify([answer])
        assert code == 1 and any("prompts in the receipt, but" in line for line in lines), lines


def test_a_changed_probability_is_found(server):
    answer = decided(server)
    answer["receipt"]["choices"][2]["labels"][1] += 1e-3
    code, lines, _ = verify([answer])
    assert code == 1 and lines[-1].endswith("1 are not")
    assert any("choice 2: option 1 has the log-probability" in line for line in lines), lines
    answer = decided(server)
    del answer["receipt"]["choices"][0]["labels"]
    code, lines, _ = verify([answer])
    assert code == 1 and any("has 0 labels in the receipt, but 2 here" in line for line in lines), lines
