"""POST /v1/embeddings: vectors that do not depend on what else is computed, or how."""
import base64
import math
import struct

import pytest

from quire import in_threads

TEXTS = ["Once upon a time there was a bear.", "Hello", "The bear went home and slept. " * 30, "Hello"]
LONG = "A little bear walked over the hill and saw the river. " * 10


def embed(server, texts, status=200, **fields):
    r = server.post("/v1/embeddings", {"input": texts, **fields})
    assert r.status == status, r.body
    return r.json


def vectors(server, texts, **fields):
    return [d["embedding"] for d in embed(server, texts, **fields)["data"]]


def ids(server, text):
    return server.post("/tokenize", {"content": text, "add_special": True}).json["tokens"]


def dot(a, b):
    return sum(x * y for x, y in zip(a, b))


def test_shape(server):
    a = embed(server, TEXTS[:2])
    assert list(a) == ["object", "model", "data", "usage"] and a["object"] == "list"
    assert [d["index"] for d in a["data"]] == [0, 1]
    n = sum(len(ids(server, t)) for t in TEXTS[:2])
    assert a["usage"] == {"prompt_tokens": n, "total_tokens": n}
    for v in vectors(server, TEXTS):
        assert len(v) == 256 and dot(v, v) == pytest.approx(1, abs=1e-5)
    assert vectors(server, "Hello") == vectors(server, [ids(server, "Hello")]) == vectors(server, ids(server, "Hello"))


def test_base64_and_dimensions(server):
    [plain] = vectors(server, "Hello")
    [packed] = vectors(server, "Hello", encoding_format="base64")
    assert list(struct.unpack("<256f", base64.b64decode(packed))) == pytest.approx(plain, abs=1e-7)
    for n in (1, 2, 3, 100, 256):
        [v] = vectors(server, "Hello", dimensions=n)
        scale = math.sqrt(dot(plain[:n], plain[:n]))
        assert v == pytest.approx([x / scale for x in plain[:n]], abs=1e-6)


@pytest.mark.parametrize("param,fields", [
    ("input", {"input": None}), ("input", {"input": []}), ("input", {"input": 5}), ("input", {"input": [[]]}),
    ("input", {"input": ["a", 5]}), ("input", {"input": [10**9]}), ("dimensions", {"dimensions": 0}),
    ("dimensions", {"dimensions": 257}), ("encoding_format", {"encoding_format": "hex"}),
    ("model", {"model": 5}), ("input", {"input": "word " * 3000}),
])
def test_refusals(server, param, fields):
    e = server.post("/v1/embeddings", {"input": "a", **fields})
    assert e.status == 400 and e.json["error"]["param"] == param, e.body


@pytest.mark.parametrize("pooling", ["mean", "first", "last"])
def test_one_answer(start, pooling):
    """The same bits alone, in a batch, cut into chunks, after a prefix hit, and in a cache that is too
    small for all of them at once."""
    alone = start("--pooling", pooling, "--prefix-cache", "off")
    want = [vectors(alone, t)[0] for t in TEXTS + [LONG, LONG + "End."]]
    for flags in ([], ["--prefill-chunk", "7"], ["--threads", "1", "--isa", "avx2"], ["--kv-memory", "1m"]):
        server = start("--pooling", pooling, *flags)
        got = in_threads([lambda t=t: vectors(server, t)[0] for t in TEXTS + [LONG, LONG + "End."]])
        assert got == want, flags
        assert [v[0] for v in (vectors(server, t) for t in [LONG, LONG + "End."])] == want[-2:]
        assert vectors(server, TEXTS) == want[:4]
        server.wait_idle()


def test_poolings_agree_where_they_must(start):
    """A token's state depends on what is before it only: the first of a text is the last of its own
    beginning, and a mean lies between the two states that it is made of."""
    servers = {p: start("--pooling", p) for p in ("mean", "first", "last")}
    text = ids(servers["mean"], "Hello")[:2]
    [first] = vectors(servers["first"], text)
    assert [first] == vectors(servers["last"], text[:1]) == vectors(servers["mean"], text[:1])
    [last] = vectors(servers["last"], text)
    [mean] = vectors(servers["mean"], text)
    assert first != last
    c = dot(first, last)
    a, b = dot(mean, first), dot(mean, last)
    p, q = (a - c * b) / (1 - c * c), (b - c * a) / (1 - c * c)  # mean = p first + q last
    assert p > 0 and q > 0
    assert mean == pytest.approx([p * x + q * y for x, y in zip(first, last)], abs=1e-5)


def test_a_client_that_leaves_costs_nothing(start):
    server = start("--pooling", "mean")
    for _ in range(5):
        c = server.connect()
        c.request("POST", "/v1/embeddings", '{"input": ["%s"]}' % (LONG * 3), {"Content-Type": "application/json"})
        c.close()
    server.wait_idle()
    assert vectors(server, "Hello")
