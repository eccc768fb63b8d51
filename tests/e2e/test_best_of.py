"""`best_of`: the likeliest of several choices."""
FIELDS = {"max_tokens": 12, "temperature": 1, "seed": 7, "logprobs": 0}
PROMPTS = ["Once upon a time", "The dog"]


def mean(choice):
    values = choice["logprobs"]["token_logprobs"]
    return sum(values) / len(values)


def test_the_best_of_all(server):
    everything = server.complete(PROMPTS, n=5, **FIELDS).json
    few = server.complete(PROMPTS, n=2, best_of=5, **FIELDS).json
    assert [c["index"] for c in few["choices"]] == [0, 1, 2, 3]
    for i in range(2):
        ranked = sorted(everything["choices"][5 * i:5 * i + 5], key=mean, reverse=True)
        assert len({c["text"] for c in ranked}) > 1
        for got, expected in zip(few["choices"][2 * i:], ranked[:2]):
            assert {**got, "index": 0} == {**expected, "index": 0}
    assert few["usage"]["completion_tokens"] == everything["usage"]["completion_tokens"]
    assert few["usage"]["prompt_tokens"] == everything["usage"]["prompt_tokens"]


def test_without_logprobs(server):
    fields = {k: v for k, v in FIELDS.items() if k != "logprobs"}
    best = server.complete(PROMPTS[0], best_of=5, **FIELDS).json["choices"][0]
    plain = server.complete(PROMPTS[0], best_of=5, **fields).json["choices"]
    assert [c["text"] for c in plain] == [best["text"]] and plain[0]["logprobs"] is None


def test_no_tokens(server):
    r = server.complete("a", best_of=3, max_tokens=0).json
    assert [c["text"] for c in r["choices"]] == [""]


def test_refusals(server):
    for fields in ({"best_of": 2, "n": 3}, {"best_of": 2, "stream": True}, {"best_of": 65, "prompt": ["a", "b"]}):
        r = server.post("/v1/completions", {"prompt": "a", **fields})
        assert r.status == 400 and r.json["error"]["param"] == "best_of", r.body
    assert server.stream("a", best_of=2, n=2, max_tokens=1).status == 200
