#!/usr/bin/env python3
"""Decisions of real models: `make test-decisions`.

    decisions.py --folder build/real [NAME...]

1. 100 questions of all kinds about five inputs, and one with 255 options, beside the reference
   (tests/reference), which computes the very same prompts in float64. The server runs three times: with the
   file as it is, whose quantised products round their rows to 8 bits, and with its weights decoded to
   F32, once with a cache of f16 and once with one of f32. What an f16 cache alone changes, the reference
   with its keys and values rounded to f16, stands below, to compare with.
2. The same bits: 100 questions in one call, one by one without a prefix cache, beside 32 streams, and with
   each instruction set (scalar, which takes minutes, answers five of them).
3. How many labels of each set are one token in the model's vocabulary.
4. What the place of an option changes: 50 choices, whose right answer stands at each of four places,
   with 1, 2 and 4 permutations.

Where the registry cannot be reached that is said, and the status is 0.
"""
import argparse
import contextlib
import json
import os
import pathlib
import random
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "e2e"), str(HERE.parent / "reference")]

import numpy as np  # noqa: E402

import gguf_file  # noqa: E402
import packages  # noqa: E402
import packed  # noqa: E402
import rounding  # noqa: E402
from quire import BIN, Server, isa_levels  # noqa: E402

NAMES = ["smollm2", "gemma3"]
CLOSE_F32 = 1e-3   # most that a probability may be off with F32 weights and a cache of f32
CLOSE = 5e-3       # most that a probability may be off with F32 weights and a cache of f16
CLOSE_ROWS = 0.25  # with quantised weights, whose products round their rows (Gemma 3 270M: 0.19)
MEDIAN_ROWS = 0.03
N_STREAMS = 32
EVERY_OF_SCALAR = 20  # of so many questions the slowest instruction set answers one
N_PLACES = 4
ALL_ROTATIONS = 1e-6  # most that an answer over all rotations may depend on the place

INPUTS = [
    "I was charged twice for my order and nobody answers my letters. Please send the money back today, or I will go to "
    "another shop. I have been a customer for ten years and this never happened before.",
    "The rain had stopped in the night. In the morning the old woman opened the window, saw the bear in the garden and "
    "closed it again. \"Not today,\" she said, and made tea for two.",
    '{"order": 1284, "items": [{"name": "lamp", "count": 2, "price": 19.5}, {"name": "desk", "count": 1, "price": 240.0}], '
    '"paid": true, "note": "leave it at the door"}',
    "Der Zug nach Berlin fährt heute nicht. Reisende nehmen den Bus vor dem Bahnhof; er fährt jede halbe Stunde und braucht "
    "zwei Stunden. Fahrkarten gelten auch dort.",
    "def mean(values):\n    total = 0\n    for v in values:\n        total += v\n    return total / len(values)\n\n"
    "The function fails when the list is empty: a division by zero.",
]
WHO = ["The writer", "The reader", "A customer", "A friend", "The company"]
WHAT = ["is angry", "wants money back", "is happy", "asks a question", "has waited for a long time", "speaks of the weather",
        "has made a mistake"]
WORDS = ("money rain garden train desk lamp letter window tea bear list number bus door night morning shop city road river "
         "music war school child doctor law food sport art science travel health price love fear work home sea sky fire").split()
HOW = "urgent friendly long clear sad formal funny useful honest difficult".split()


def questions():
    """100 of them: all kinds, and options enough for each set of labels."""
    r = random.Random(1)
    found = [{"type": "predicate", "instructions": f"{who} {what}."} for who in WHO for what in WHAT]
    for i in range(35):
        options = r.sample(WORDS, (2, 3, 4, 5, 8, 12, 26, 30)[i % 8])
        choices = [{"value": o, **({"description": f"about {r.choice(WORDS)}"} if i % 3 == 0 else {})} for o in options]
        text = f"Which word is nearest to the text and to {WORDS[i]}?"
        found.append({"type": "choice", "instructions": text, "choices": choices})
    for i in range(30):
        n = (2, 3, 5, 7, 10, 12)[i % 6]
        levels = [{"label": f"step {k + 1} of {n}"} for k in range(n)]
        found.append({"type": "score", "instructions": f"How {HOW[i % 10]} is the text ({i // 10 + 1})?", "levels": levels})
    r.shuffle(found)
    return found


def many_options():
    return {"type": "choice", "instructions": "Which number is meant?", "choices": [{"value": str(i)} for i in range(255)]}


# ---- the server ----

@contextlib.contextmanager
def served(path, *flags):
    s = Server(*flags, model=path)
    try:
        yield s
    finally:
        s.stop()


def decide(server, text, asked, **fields):
    r = server.post("/v1/decisions", {"input": text, "questions": asked, **fields}, timeout=900)
    assert r.status == 200, r.body
    return r


def shares(answer):
    """The probabilities of an answer, in the order of its options."""
    if answer["type"] == "predicate":
        return [answer["probability"], 1 - answer["probability"]]
    return [p["probability"] for p in answer["probabilities"]]


# ---- labels ----

LETTERS = [chr(ord("A") + i) for i in range(26)]
SETS = {"yes, no": ["yes", "no"], "Yes, No": ["Yes", "No"], "digits": [str(i) for i in range(10)], "letters": LETTERS,
        "pairs": [a + b for a in LETTERS for b in LETTERS]}


def one_token(path, labels):
    """{label: its id}, of those that are one token at the beginning of a line."""
    text = "\n" + "".join(f"{label}\n" for label in labels)
    run = subprocess.run([BIN, "tokenize", "--ids", "--no-special", "--model", path], input=text, capture_output=True, text=True,
                         check=True)
    ids = [int(i) for i in run.stdout.split()]
    lines, line = [], []
    for i in ids[1:]:
        if i == ids[0]:
            lines.append(line)
            line = []
        else:
            line.append(i)
    assert len(lines) == len(labels) and not line, "a line's end is a token of its own"
    return {label: line[0] for label, line in zip(labels, lines) if len(line) == 1}


def label_sets(path):
    found = {name: one_token(path, labels) for name, labels in SETS.items()}
    print("   labels of one token: " + "; ".join(f"{name} {len(found[name])} of {len(SETS[name])}" for name in SETS), flush=True)
    assert len(set(found["pairs"].values())) == len(found["pairs"])
    return found


def labels_for(sets, question, n):
    """The name of the set that the server takes, and its labels."""
    order = {"predicate": ["Yes, No", "yes, no", "letters", "pairs"], "choice": ["letters", "pairs"],
             "score": ["digits", "letters", "pairs"]}[question["type"]]
    name = next(name for name in order if len(sets[name]) >= n)
    return name, list(sets[name].items())[:n]


# ---- beside float64 ----

def lines_of(question):
    if question["type"] == "predicate":
        return [None, None]
    if question["type"] == "score":
        return [level["label"] for level in question["levels"]]
    return [c["value"] + (f" - {c['description']}" if "description" in c else "") for c in question["choices"]]


def written(sets, question):
    """What the model is asked, and the ids of the labels."""
    lines = lines_of(question)
    name, labels = labels_for(sets, question, len(lines))
    begin = "Question: is this true? " if question["type"] == "predicate" else "Question: "
    if name in ("yes, no", "Yes, No"):
        lines, rule = [], f"Answer only with {labels[0][0]} or {labels[1][0]}."
    else:
        lines = [f"{label}: {line or ('yes', 'no')[i]}" for i, ((label, _), line) in enumerate(zip(labels, lines))]
        unit = {"digits": "number", "letters": "letter", "pairs": "letters"}[name]
        rule = f"Answer only with the {unit} of one {'level' if question['type'] == 'score' else 'option'}."
    return "\n".join([rule, begin + question["instructions"], *lines]), [i for _, i in labels]


def prompt_ids(server, text, question):
    """The tokens of the same message in a chat."""
    body = {"messages": [{"role": "user", "content": f"{text}\n\n{question}"}]}
    return server.post("/v1/chat/completions/render", body).json["token_ids"]


def exact(model, prompts, label_ids, cache):
    """For each prompt the shares of its labels, and their share among all tokens."""
    rows = packed.last_logits(model, prompts, cache)
    logs = rows - np.logaddexp.reduce(rows, axis=1, keepdims=True)
    found = []
    for row, ids in zip(logs, label_ids):
        weights = np.exp(row[ids])
        found.append((weights / weights.sum(), weights.sum()))
    return found


def inputs_and_questions():
    asked = questions()
    return [(text, asked[i::len(INPUTS)]) for i, text in enumerate(INPUTS)] + [(INPUTS[0][:40], [many_options()])]


def prompts_of(server, sets):
    """For each input, the prompts of its questions and the ids of their labels."""
    found = []
    for text, asked in inputs_and_questions():
        texts, label_ids = zip(*[written(sets, q) for q in asked])
        prompts = [prompt_ids(server, text, t) for t in texts]
        assert sum(map(len, prompts)) == decide(server, text, asked).json["usage"]["input_tokens"], "other prompts"
        found.append((prompts, label_ids))
    return found


def answered(server):
    found = []
    for text, asked in inputs_and_questions():
        r = decide(server, text, asked).json
        found += [(np.array(shares(a)), d["label_mass"]) for a, d in zip(r["answers"], r["diagnostics"])]
    return found


def distance(what, got, want):
    """The largest and the median difference of a probability."""
    assert len(got) == len(want) == 101 and len(got[-1][0]) == 255 and abs(got[-1][0].sum() - 1) < 1e-4
    each = [float(np.abs(g - w).max()) for (g, _), (w, _) in zip(got, want)]
    mass = max(abs(g - w) for (_, g), (_, w) in zip(got, want))
    same = sum(int(g.argmax()) == int(w.argmax()) for (g, _), (w, _) in zip(got, want))
    print(f"   {what:18} largest difference {max(each):.6f}, median {np.median(each):.6f}, label mass {mass:.6f}; same first "
          f"option {same} of {len(got)}", flush=True)
    return max(each), float(np.median(each))


def decoded(path, folder):
    """The file with its weights as F32."""
    keys, tensors = gguf_file.read_parts(path.read_bytes())
    whole = {name: ("F32", t[1], gguf_file.to_array(*t).astype("<f4").tobytes()) for name, t in tensors.items()}
    out = pathlib.Path(folder).resolve() / f"decisions.{os.getpid()}.gguf"
    out.write_bytes(gguf_file.write(keys, whole))
    return out


def answers_as_f32(path, folder):
    out = decoded(path, folder)
    try:
        found = []
        for kv_type in "f16", "f32":
            with served(out, "--kv-type", kv_type) as s:
                found.append(answered(s))
        return found
    finally:
        out.unlink()


def check_accuracy(path, folder, sets):
    with served(path) as s:
        as_is, asked = answered(s), prompts_of(s, sets)
    cache_f16, cache_f32 = answers_as_f32(path, folder)
    model = gguf_file.read(path.read_bytes())
    want, want_f16 = ([x for prompts, ids in asked for x in exact(model, prompts, ids, cache)]
                      for cache in (np.asarray, rounding.as_f16))
    n = [len(p) for prompts, _ in asked for p in prompts]
    print(f"   {len(n)} prompts of {min(n)} to {max(n)} tokens, beside float64")
    largest, median = distance("the file as it is", as_is, want)
    assert largest < CLOSE_ROWS and median < MEDIAN_ROWS
    assert distance("weights as F32", cache_f16, want)[0] < CLOSE
    assert distance("and kv_type f32", cache_f32, want)[0] < CLOSE_F32
    distance("an f16 cache alone", want_f16, want)


# ---- the same bits ----

def as_text(reply):
    """Answers and diagnostics as they are written."""
    found = re.search(rb'"answers":\s*\[(.*)\],\s*"diagnostics":\s*\[(.*)\],\s*"usage"', reply.body, re.S)
    return found[1], found[2]


def joined(replies):
    return tuple(map(b",".join, zip(*replies)))


def beside_streams(path, asked):
    with served(path, "--max-sequences", str(2 * N_STREAMS)) as s:
        streams = [s.stream(f"{i} bears", max_tokens=1500, ignore_eos=True, temperature=1, seed=i) for i in range(N_STREAMS)]
        s.wait_until(lambda m: m["quire_requests_running"] >= N_STREAMS, timeout=120, what="streams that run")
        found = as_text(decide(s, INPUTS[0], asked))
        n = int(s.metrics()["quire_requests_running"])
        for stream in streams:
            stream.close()
    return found, n


def check_bits(path):
    asked = questions()
    with served(path) as s:
        want = as_text(decide(s, INPUTS[0], asked))
    with served(path, "--prefix-cache", "off") as s:
        alone = [as_text(decide(s, INPUTS[0], [q])) for q in asked]
    assert joined(alone) == want, "other bits alone"
    found, n = beside_streams(path, asked)
    assert found == want, "other bits beside streams"
    for isa in isa_levels():
        step = EVERY_OF_SCALAR if isa == "scalar" else 1
        with served(path, "--isa", isa) as s:
            found = as_text(decide(s, INPUTS[0], asked[::step]))
        assert found == joined(alone[::step]), f"other bits with {isa}"
    print(f"   the same {sum(map(len, want))} bytes of {len(asked)} answers: in one call, alone, beside {N_STREAMS} streams ({n} ran "
          f"at the end), with {' '.join(isa_levels())} (scalar: {len(asked[::EVERY_OF_SCALAR])} answers)", flush=True)


# ---- what the place of an option changes ----

def rotated(rows, place):
    """Each question with its right answer at this place."""
    return [{"type": "choice", "instructions": text, "choices": [{"value": v} for v in options[-place:] + options[:-place]]}
            for text, *options in rows]


def by_place(server, rows, permutations):
    """[places][questions][options], the options in the order of the table."""
    found = []
    for place in range(N_PLACES):
        answers = decide(server, "A quiz of general knowledge.", rotated(rows, place), permutations=permutations).json["answers"]
        by_value = [{p["value"]: p["probability"] for p in a["probabilities"]} for a in answers]
        found.append([[p[v] for v in row[1:]] for p, row in zip(by_value, rows)])
    return np.array(found)


def check_places(path):
    rows = json.loads((HERE / "choices.json").read_text("utf-8"))
    print("   permutations  mean deviation    largest  same option at all places  right", flush=True)
    means = []
    with served(path) as s:
        for permutations in (1, 2, 4):
            p = by_place(s, rows, permutations)
            far = np.abs(p - p.mean(axis=0))
            best = p.argmax(axis=2)
            means.append(float(far.mean()))
            print(f"   {permutations:12} {far.mean():15.7f} {far.max():10.7f} {np.mean((best == best[0]).all(axis=0)):26.0%} "
                  f"{np.mean(best == 0):6.0%}", flush=True)
    assert far.max() <= ALL_ROTATIONS, "all rotations, and still the place matters"
    assert means[1] < means[0], "two orders, and the place matters more"


def check(name, folder):
    path = packages.fetch(name, folder)
    print(name, flush=True)
    sets = label_sets(path)
    check_accuracy(path, folder, sets)
    check_bits(path)
    check_places(path)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", required=True)
    parser.add_argument("names", nargs="*", default=NAMES)
    args = parser.parse_args()
    for name in args.names:
        if name not in NAMES:
            continue
        try:
            packages.fetch(name, args.folder)
        except subprocess.CalledProcessError as e:
            print(f"{name:10} skip: the registry of Python packages cannot be reached ({e})")
            continue
        check(name, args.folder)


if __name__ == "__main__":
    main()
