"""`quire diff`: yesterday's answers, from their receipts, under another model or other settings."""
import fcntl
import json
import random
import re

import pytest

from quire import Server, in_threads, make_model
from test_cli import quire
from test_decisions import questions, story

N = 100  # completions, and as many calls for decisions


def bodies():
    r = random.Random(5)
    for i in range(N):
        yield "/v1/completions", {"prompt": story(i, 12), "max_tokens": 20, "seed": i, "temperature": r.choice([0, 0.7])}
        yield "/v1/decisions", {"input": story(i, 30), "questions": questions(3, i), "permutations": 1 + i % 3}
    # labels of several tokens
    many = {"type": "choice", "instructions": "Who?", "choices": [{"value": f"o{i}"} for i in range(80)]}
    yield "/v1/decisions", {"input": story(N, 30), "questions": [many]}


def ask(server, path, body):
    r = server.post(path, {**body, "receipt": True})
    assert r.status == 200, r.body
    return r.json


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """The answers of the demo as it is, and with a KV cache of 4 bits."""
    both = []
    for flags in ((), ("--kv-type", "q4_0")):
        s = Server("--receipts", "on", *flags)
        both.append(in_threads([lambda p=p, b=b: ask(s, p, b) for p, b in bodies()]))
        assert s.stop() == 0
    path = tmp_path_factory.mktemp("diff") / "a.jsonl"
    path.write_text("".join(json.dumps(a) + "\n" for a in both[0]))
    return path, *both


def test_nothing_changes_without_a_change(answers):
    run = quire("diff", answers[0], "--log-level", "error", "--threads", "2")
    assert run.returncode == 0, run.out
    assert re.search(rf"^answers +{N} +0$", run.out, re.M) and re.search(rf"^decisions +{3 * N + 1} +0 ", run.out, re.M)
    assert "mean 0.000000, largest 0.000000" in run.out and "flips" not in run.out and "changes" not in run.out


def expected(before, after):
    """What has changed, by the answers of two servers: (changed answers' first other tokens, flips, changes)."""
    firsts, flips, changes = [], 0, []
    for a, b in zip(before, after):
        if a["object"] == "decision":
            for x, y in zip(a["answers"], b["answers"]):
                p, q = ([z["probability"]] if "probability" in z else [w["probability"] for w in z["probabilities"]]
                        for z in (x, y))
                p, q = ([v[0], 1 - v[0]] if len(v) == 1 else v for v in (p, q))
                flips += p.index(max(p)) != q.index(max(q))
                changes += [abs(v - w) for v, w in zip(p, q)]
        else:
            s, t = (z["receipt"]["choices"][0]["tokens"] for z in (a, b))
            if s != t[:len(s)]:
                firsts.append(1 + next(i for i in range(len(s)) if s[i:i + 1] != t[i:i + 1]))
    return sorted(firsts), flips, changes


def test_four_bits_change_what_the_servers_say(answers):
    path, before, after = answers
    run = quire("diff", path, "--kv-type", "q4_0", "--log-level", "error")
    firsts, flips, changes = expected(before, after)
    assert run.returncode == 1 and firsts and flips
    found = re.search(r"^answers +(\d+) +(\d+)   first other token: median (\d+), earliest (\d+)$", run.out, re.M)
    assert list(map(int, found.groups())) == [N, len(firsts), firsts[(len(firsts) - 1) // 2], firsts[0]]
    found = re.search(r"^decisions +(\d+) +(\d+)   change of a probability: mean (\S+), largest (\S+)$", run.out, re.M)
    assert [int(found[1]), int(found[2])] == [3 * N + 1, flips]
    assert float(found[3]) == pytest.approx(sum(changes) / len(changes), abs=1e-5)
    assert float(found[4]) == pytest.approx(max(changes), abs=1e-5)
    assert len(re.findall(r" changes at token ", run.out)) == len(firsts)
    assert len(re.findall(r" flips: ", run.out)) == flips


def test_what_cannot_be_compared(answers, tmp_path):
    run = quire("diff", tmp_path / "none.jsonl")
    assert run.returncode == 1 and "none.jsonl" in run.err
    assert quire("diff").returncode == 2 and "needs a FILE" in quire("diff").err


@pytest.mark.parametrize("damage,says", [
    (lambda r: r["choices"][0]["labels"].pop(), "the options have other labels in the receipt: its decisions cannot be compared"),
    (lambda r: r["choices"].pop(), r"its questions are \d+ prompts in the receipt, but \d+ here: its decisions cannot be compared"),
    (lambda r: r["choices"][0].update(answer="0" * 32), "the receipt is damaged: its tokens do not match its digest"),
    (lambda r: r.pop("receipt"), 'it has no receipt: ask with "receipt": true'),
    (lambda r: r["choices"][0]["labels"].__setitem__(0, 1e300), "the receipt is damaged: a label's number is not a log-probability"),
    (lambda r: r["choices"][0]["labels"].__setitem__(0, None), "the receipt is damaged: a label's number is not a log-probability"),
    (lambda r: r["choices"][0].update(labels={"a": -1}), "the receipt is damaged: its labels are not a list"),
])
def test_decisions_that_cannot_be_compared(answers, tmp_path, damage, says):
    """A line that says why, no decision of the table, and no flip."""
    answer = json.loads(json.dumps(answers[1][1]))
    damage(answer["receipt"])
    path = tmp_path / "bad.jsonl"
    path.write_text(json.dumps(answer) + "\n")
    run = quire("diff", path, "--log-level", "error")
    assert run.returncode == 1 and re.search("^line 1: " + says, run.out, re.M), run.out
    assert re.search(r"^decisions +0 +0$", run.out, re.M) and " flips" not in run.out, run.out


def test_choices_in_another_order(answers, tmp_path):
    """A choice has its prompt's number, wherever it stands."""
    answer = json.loads(json.dumps(answers[1][1]))
    answer["receipt"]["choices"].reverse()
    path = tmp_path / "order.jsonl"
    path.write_text(json.dumps(answer) + "\n")
    run = quire("diff", path, "--log-level", "error")
    assert run.returncode == 0 and "largest 0.000000" in run.out, run.out


def test_settings_are_those_of_the_first_receipt(tmp_path):
    """`quire decide` writes errors first, which have none."""
    given, written = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    given.write_text('{"input": "a"}\n' + json.dumps({"input": "Once", "questions": questions(2, 1), "receipt": True}) + "\n")
    assert quire("decide", given, "-o", written, "--receipts", "on", "--kv-type", "q8_0").returncode == 0
    lines = sorted(written.read_text().splitlines(), key=lambda line: "label_mass" in line)
    written.write_text("\n".join(lines) + "\n")
    run = quire("verify", written, "--log-level", "error")
    assert "line 1: it has no receipt: its answer is an error" in run.out and run.out.endswith("1 are not\n"), run.out
    assert re.search(r"^line 2: prompt 0 is equal: \d+ labels$", run.out, re.M), run.out


def test_two_commands_do_not_write_one_file(answers, tmp_path):
    given, written = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    given.write_text('{"input": "Once", "questions": [{"type": "predicate", "instructions": "It ends."}]}\n')
    with open(written, "a", encoding="ascii") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        run = quire("decide", given, "-o", written)
        assert run.returncode == 1 and "is being written by another command" in run.err, run.err
    assert quire("decide", given, "-o", written).returncode == 0


@pytest.mark.parametrize("command", ["verify", "diff"])
def test_a_model_that_nobody_named(answers, tmp_path, command):
    """Without --model the built-in model is loaded: receipts of another one are not compared with it."""
    answer = json.loads(json.dumps(answers[1][1]))
    answer["receipt"]["weights"][0] = "sha256:" + "0" * 64
    path = tmp_path / "other.jsonl"
    path.write_text(json.dumps(answer) + "\n")
    run = quire(command, path, "--log-level", "error")
    assert run.returncode == 1 and "line 1: its weights are not those of the built-in model: name a model's file with --model" in run.out
    small = make_model(tmp_path / "small.gguf", "--layers", "1")
    run = quire(command, path, "--model", small, "--log-level", "error")
    assert run.returncode == 1 and "built-in model" not in run.out
    assert ("line 1: file 1 of the model has the digest sha256:" in run.out) == (command == "verify"), run.out
    answer["receipt"]["weights"] = []
    path.write_text(json.dumps(answer) + "\n")
    run = quire(command, path, "--model", small, "--log-level", "error")
    assert ("line 1: the receipt's model has 0 files, but this model has 1" in run.out) == (command == "verify"), run.out


def test_a_file_of_decisions(answers, tmp_path):
    """`quire decide` answers bare bodies, and both commands read what it wrote."""
    asked = [b for path, b in bodies() if path == "/v1/decisions"][:6]
    lines = [{**b, "receipt": True} for b in asked[:5]]
    lines += [{"custom_id": "mine", "state": "Once", "questions": {"a": {"type": "noul", "instructions": "It ends."}}, "receipt": True}]
    given, written = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    given.write_text("".join(json.dumps(line) + "\n" for line in lines))
    run = quire("decide", given, "-o", written, "--receipts", "on")
    assert run.returncode == 0, run.err
    found = {a["custom_id"]: a["response"]["body"] for a in map(json.loads, written.read_text().splitlines())}
    assert set(found) == {f"line-{i}" for i in range(1, 6)} | {"mine"}
    decisions = [a for a in answers[1] if a["object"] == "decision"]
    for i in range(5):
        assert found[f"line-{i + 1}"]["answers"] == decisions[i]["answers"]
    assert found["mine"]["answers"]["a"]["type"] == "noul"
    run = quire("verify", written, "--log-level", "error")
    assert run.returncode == 0 and " 0 are not" in run.out, run.out
    run = quire("diff", written, "--kv-type", "q4_0", "--log-level", "error")
    assert re.search(r"^decisions +16 ", run.out, re.M), run.out
    again = quire("decide", given, "-o", written, "--receipts", "on")
    assert again.returncode == 0 and len(written.read_text().splitlines()) == 6
    for line, says in (('{"input": "Once"}', "'questions' is required"), ('{"custom_id": 5, "state": "x"}', "'custom_id' must be a string"),
                       (json.dumps({"input": "a", "questions": [], "custom_id": "x" * 511}), "'custom_id' must have at most 510 bytes"),
                       ('{"foo": 1}', "neither url and body, as a request of a batch, nor input or state and questions")):
        odd, errors = tmp_path / "odd.jsonl", tmp_path / f"errors{len(line)}.jsonl"
        odd.write_text(line + "\n")
        run = quire("decide", odd, "-o", errors)
        assert says in run.err + errors.read_text(), run.err + errors.read_text()
    assert quire("decide").returncode == 2 and "IN.jsonl" in quire("decide").err
