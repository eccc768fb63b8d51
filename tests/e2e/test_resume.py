"""Answers that go on where they were cut: the same bytes, whatever the next token hangs on, on this server or another,
and after any number of cuts."""
import json
import os
import random

import pytest

import cut_streams as cs
from quire import DEBUG_BIN, JSON, Server

# Of all cases together; the long run is QUIRE_CUTS=500.
N_CUTS = int(os.environ.get("QUIRE_CUTS", "60"))


@pytest.fixture(scope="module")
def other():
    """Another process with other threads, another instruction set and smaller steps."""
    s = Server("--isa", "scalar", "--prefill-chunk", "7", "--threads", "2")
    yield s
    s.stop()


@pytest.fixture(scope="module")
def answers(server):
    out = {}
    for name in cs.CASES:
        path, body = cs.body_of(name)
        out[name] = cs.run(server, path, body)
    return out


def go_on(server, name, frames, k):
    """Behind the first k frames."""
    path, body = cs.body_of(name, resume=cs.resume_of(frames[:k]))
    del body["seed"]  # it is in resume
    return [f for f in cs.run(server, path, body) if f.id >= k]


def test_cut_anywhere(server, other, answers):
    rng = random.Random(20)
    names = list(cs.CASES)
    for i in range(N_CUTS):
        name = names[i % len(names)]
        frames = answers[name]
        k = rng.randrange(1, len(frames) + 1)
        rest = go_on([server, other][rng.randrange(2)], name, frames, k)
        assert cs.bytes_of(rest) == cs.bytes_of(frames[k:]), f"{name}, behind {k} of {len(frames)} frames"


def test_cut_again_and_again(server, other, answers):
    """Each server goes on with what the one before has made of it."""
    for name in ("penalties", "schema", "tool", "chat"):
        frames, rest, k = answers[name], answers[name], 0
        for i in range(4):
            k += max(1, (len(frames) - k) // 3)
            rest = go_on([other, server][i % 2], name, frames[:k], k)
            assert cs.bytes_of(rest) == cs.bytes_of(frames[k:]), (name, k)
            frames = frames[:k] + rest


def test_whole_answers(server):
    """Without a stream the answer has what comes after, and the usage of all."""
    body = {"prompt": "Once", "max_tokens": 40, "temperature": 0.8, "seed": 3, "ignore_eos": True,
            "return_token_ids": True}
    whole = server.post("/v1/completions", body).json
    ids = whole["choices"][0]["token_ids"]
    for n in (0, 1, 13, 39, 40):
        rest = server.post("/v1/completions", {**body, "resume": {"tokens": ids[:n]}}).json
        assert rest["choices"][0]["token_ids"] == ids[n:]
        assert rest["choices"][0]["finish_reason"] == "length"
        assert whole["choices"][0]["text"].endswith(rest["choices"][0]["text"])
        assert rest["usage"]["completion_tokens"] == 40
        assert rest["usage"]["prompt_tokens"] == whole["usage"]["prompt_tokens"]


def test_seed_that_was_drawn(server):
    """A request without one is told which it got, in the header and in the first frame; as JSON's number it is exact."""
    path, body = cs.body_of("sampled")
    del body["seed"]
    r = server.post(path, body)
    frames = cs.frames_of(r.body)
    seed = frames[0].resume["seed"]
    assert int(r.headers["X-Seed"]) == seed < 2 ** 53
    again = cs.run(server, path, {**body, "seed": seed})
    assert [f.tokens for f in again] == [f.tokens for f in frames]
    assert cs.frames_of(server.post(path, body).body)[0].resume["seed"] != seed


def test_answers_are_the_same_without_numbers(server):
    """What resume_tokens adds is comments and numbers: what clients read is as ever, a token a frame."""
    path, body = cs.body_of("chat", speculation=False)
    plain = server.post(path, {**body, "resume_tokens": False})
    assert b"\nid:" not in plain.body and not plain.body.startswith((b"id:", b":"))

    def data(raw):
        out = [json.loads(line[6:]) for line in raw.split(b"\n") if line.startswith(b"data: {")]
        return [{**d, "id": "", "created": 0, "usage": d.get("usage") and d["usage"]["completion_tokens"]} for d in out]
    assert data(plain.body) == data(b"".join(f.raw for f in cs.run(server, path, body)))


def test_preemption_and_swap(start):
    """Where memory is short the tokens that came with the request are computed again as any others."""
    s = start("--kv-memory", "1m", "--max-sequences", "8", binary=DEBUG_BIN)
    path, body = cs.body_of("penalties", max_tokens=200)
    frames = cs.run(s, path, body)
    others = [s.stream("Twice", max_tokens=400, ignore_eos=True) for _ in range(6)]
    for k in (10, 100, 180):
        rest = [f for f in cs.run(s, path, {**body, "resume": cs.resume_of(frames[:k])}) if f.id >= k]
        assert cs.bytes_of(rest) == cs.bytes_of(frames[k:]), k
    for o in others:
        o.close()


REFUSED = [
    ({"tokens": "x"}, "resume.tokens"), ({}, "resume.tokens"), ({"tokens": [-1]}, "resume.tokens"),
    ({"tokens": [10 ** 9]}, "resume.tokens"), ({"tokens": [1.5]}, "resume.tokens"), ([], "resume"),
    ({"tokens": [5], "seed": "x"}, "resume.seed"), ({"tokens": [5], "id": 'a"b'}, "resume.id"),
    ({"tokens": [5], "id": "a" * 48}, "resume.id"), ({"tokens": [5], "created": -1}, "resume.created"),
    ({"tokens": [5] * 61}, "resume.tokens"),
]


@pytest.mark.parametrize("resume, param", REFUSED)
def test_refused(server, resume, param):
    path, body = cs.body_of("greedy", resume=resume)
    r = server.post(path, body)
    assert (r.status, r.json["error"]["param"]) == (400, param), r.body
    assert f"'{param}'" in r.json["error"]["message"]


@pytest.mark.parametrize("more, param", [({"n": 2}, "resume"), ({"mirostat": 2}, "resume"),
                                         ({"prompt": ["a", "b"]}, "resume"),
                                         ({"stream": False, "resume_tokens": False, "prompt_logprobs": 1}, "resume"),
                                         ({"stream": False}, "resume_tokens"),
                                         ({"grammar": 'root ::= "q"'}, "resume.tokens")])
def test_refused_beside(server, more, param):
    path, body = cs.body_of("greedy", **{"resume": {"tokens": [5, 6]}, **more})
    r = server.post(path, body)
    assert (r.status, r.json["error"]["param"]) == (400, param), r.body


def test_tokens_behind_the_end(server, answers):
    """An answer that was complete has only its end left; and nothing can come behind that."""
    frames = answers["eos"]
    tokens = cs.resume_of(frames)["tokens"]
    path, body = cs.body_of("eos", stop_token_ids=[tokens[20]])
    r = server.post(path, {**body, "resume": {"tokens": tokens[:21], "seed": 7}})
    ended = cs.frames_of(r.body)
    assert b'"finish_reason":"stop"' in b"".join(f.raw for f in ended)
    r = server.post(path, {**body, "resume": {"tokens": tokens[:22], "seed": 7}})
    assert (r.status, r.json["error"]["param"]) == (400, "resume.tokens")


def test_sizes_of_a_request(server):
    """A long list of tokens is no more work than a long prompt, and is bounded as one."""
    r = server.request("POST", "/v1/completions", json.dumps(
        {"prompt": "x", "max_tokens": 10 ** 6, "resume": {"tokens": [5] * 200000}}), headers=JSON)
    assert r.status == 400 and "resume.tokens" in r.json["error"]["message"]
