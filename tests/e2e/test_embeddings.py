"""POST /v1/embeddings: vectors that do not depend on what else is computed, or how; and plans of them."""
import base64
import math
import pathlib
import struct
import sys

import pytest

from quire import in_threads, isa_levels

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "reference"))

import fixtures  # noqa: E402

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


@pytest.mark.parametrize("path,more", [("/v1/embeddings", {}), ("/embedding", {}), ("/pooling", {"task": "token_embed"})])
def test_conversations(server, path, more):
    """vLLM's messages: the vector of the text that the template makes, without the beginning of an answer unless that is wanted."""
    messages = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": [{"type": "text", "text": "Once"}]}]
    for fields in ({}, {"add_generation_prompt": True}):
        text = server.post("/apply-template", {"messages": messages, "add_generation_prompt": False, **fields}).json["prompt"]
        a = server.post(path, {"messages": messages, **fields, **more})
        b = server.post(path, {"input": text, "add_special_tokens": False, **more})
        strip = lambda r: {k: v for k, v in r.json.items() if k not in ("id", "created")} if isinstance(r.json, dict) else r.json
        assert a.status == b.status == 200 and strip(a) == strip(b), (a.body, b.body)
        c = server.post(path, {"input": messages, **fields, **more})
        assert strip(c) == strip(a)
    last = [*messages, {"role": "assistant", "content": "upon"}]
    assert server.post(path, {"messages": last, "continue_final_message": True, **more}).status == 200
    for bad, name in (({"messages": []}, "messages"), ({"messages": messages, "input": "a"}, "messages"), ({}, "input"),
                      ({"input": [{"role": "user"}]}, "input[0]"),
                      ({"messages": messages, "chat_template": "{{ x }}"}, "chat_template"), ({"messages": [{"role": "user"}]}, "messages[0]")):
        r = server.post(path, {**bad, **more})
        assert r.status == 400 and name in r.json["error"]["message"], r.body


def test_numbers_of_other_types(server):
    """vLLM's embed_dtype and endianness, of base64 alone."""
    plain = vectors(server, "Hello")[0]
    def packed(**more):
        return base64.b64decode(vectors(server, "Hello", encoding_format="base64", **more)[0])
    for order, mark in (("little", "<"), ("native", "<"), ("big", ">")):
        assert list(struct.unpack(mark + "256f", packed(endianness=order))) == pytest.approx(plain, abs=1e-7)
        assert list(struct.unpack(mark + "256e", packed(embed_dtype="float16", endianness=order))) == pytest.approx(plain, rel=1e-3, abs=1e-6)
        halves = struct.unpack(mark + "256H", packed(embed_dtype="bfloat16", endianness=order))
        assert [struct.unpack("<f", struct.pack("<I", h << 16))[0] for h in halves] == pytest.approx(plain, rel=4e-3)
    assert vectors(server, "Hello", embed_dtype="float16", endianness="big")[0] == plain
    for field, value in (("embed_dtype", "fp8_e4m3"), ("embed_dtype", 5), ("endianness", "middle")):
        r = server.post("/v1/embeddings", {"input": "a", field: value})
        assert r.status == 400 and r.json["error"]["param"] == field


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
    ("input", {"input": ["a", {}]}), ("input", {"input": [10**9]}), ("dimensions", {"dimensions": 0}),
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
    for flags in ([], ["--prefill-chunk", "7"], ["--threads", "1", "--isa", isa_levels()[-2:][0]], ["--kv-memory", "1m"]):
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


# ---- plans

def plans(server, texts, **fields):
    r = server.post("/v1/plan", {"input": texts, **fields})
    assert r.status == 200, r.body
    return r.json["prompts"]


def test_plan_of_an_embedding(server):
    r = server.post("/v1/plan", {"input": TEXTS, "dimensions": 3})
    assert r.status == 200 and list(r.json) == ["object", "model", "prompts"]
    for text, p in zip(TEXTS, r.json["prompts"], strict=True):
        assert list(p) == ["prompt_tokens", "max_tokens", "cached_tokens", "blocks", "blocks_total", "queue_position",
                           "predicted_ms", "context_shifts", "fits"]
        assert p["prompt_tokens"] == len(ids(server, text)) and p["max_tokens"] == 0 and p["fits"] is True
        assert p["blocks"] == -(-p["prompt_tokens"] // 16)
    # With a prompt it is a completion that is planned, and nobody knows `input`.
    both = server.post("/v1/plan", {"input": 5, "prompt": "Hello", "max_tokens": 7}).json["prompts"]
    assert [p["max_tokens"] for p in both] == [7]
    assert server.post("/v1/plan", {"input": "Hello", "prompt": None}).json["prompts"][0]["max_tokens"] == 0


@pytest.mark.parametrize("fields", [{"input": []}, {"input": 5}, {"input": [[]]}, {"input": [10**9]}, {"model": "other"},
                                    {"dimensions": 0}, {"encoding_format": "hex"}, {"input": "word " * 3000}])
def test_plan_is_checked_like_an_embedding(server, fields):
    body = {"input": "a", **fields}
    plan, embedding = server.post("/v1/plan", body), server.post("/v1/embeddings", body)
    assert plan.status == embedding.status >= 400 and plan.json == embedding.json


@pytest.mark.parametrize("pooling", ["mean", "first", "last"])
def test_plan_knows_what_is_computed(start, pooling):
    """Only where the last state is wanted a cached prefix is of use."""
    server = start("--pooling", pooling)

    def hits():
        return server.metrics()["quire_prefix_cache_hits_tokens_total"]

    vectors(server, LONG)
    [plan] = plans(server, LONG + "End.")
    before = hits()
    vectors(server, LONG + "End.")
    assert plan["cached_tokens"] == hits() - before
    assert (plan["cached_tokens"] > 0) == (pooling == "last")
    vectors(server, LONG)  # four steps are enough to tell what they take, but for streams
    assert plan["predicted_ms"] is None


@pytest.mark.parametrize("arch", ["bert", "nomic-bert"])
def test_plan_of_an_encoder(start, tmp_path, arch):
    """A model that makes nothing but embeddings: times are known after a few."""
    path = tmp_path / "encoder.gguf"
    path.write_bytes(fixtures.make(arch, "plain", "F32"))
    server = start("--kv-memory", "64m", model=path)
    texts = [[5 + i % 7 for i in range(n)] for n in (40, 1, 16, 17)]
    first = plans(server, texts)
    assert [p["predicted_ms"] for p in first] == [None] * 4
    assert [p["prompt_tokens"] for p in first] == [40, 1, 16, 17]
    assert [p["blocks"] for p in first] == [3, 1, 1, 2]
    for _ in range(6):
        vectors(server, texts[0])
    for p in plans(server, texts):
        t = p["predicted_ms"]
        assert t["first_token"] is None and 0 <= t["start"] <= t["finish"] and t["finish"] > 0
        assert p["cached_tokens"] == p["max_tokens"] == p["queue_position"] == 0
    refused = server.post("/v1/plan", {"prompt": "a"})
    assert refused.status == 400 and refused.json["error"]["code"] == "unsupported_model"
