"""POST /rerank, /score, /classify and /pooling: the shapes of their answers, and numbers that do not depend on what else
is computed."""
import base64
import math
import pathlib
import signal
import struct
import sys
import threading

import numpy as np
import pytest

from quire import in_threads

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "reference"))

import fixtures  # noqa: E402
import forward  # noqa: E402
import gguf_file  # noqa: E402
from rounding import as_f16  # noqa: E402

DOCUMENTS = ["The bear went home.", "A fish", "Once upon a time there was a bear.", "A fish", "The sun shines. " * 20]
QUERY = "Where did the bear go?"
RERANKS = ["/rerank", "/v1/rerank", "/v2/rerank", "/reranking", "/v1/reranking"]


def vectors(server, texts):
    r = server.post("/v1/embeddings", {"input": texts})
    assert r.status == 200, r.body
    return [d["embedding"] for d in r.json["data"]]


def cosines(server, query, texts):
    q, *d = vectors(server, [query, *texts])
    return [sum(x * y for x, y in zip(q, v)) for v in d]


def post(server, path, status=200, **body):
    r = server.post(path, body)
    assert r.status == status, r.body
    return r.json


def score(server, a, b, **fields):
    return [d["score"] for d in post(server, "/score", text_1=a, text_2=b, **fields)["data"]]


def tokens(server, text):
    return len(server.post("/tokenize", {"content": text, "add_special": True}).json["tokens"])


# ---- cosines

@pytest.mark.parametrize("path", RERANKS)
def test_rerank(server, path):
    want = cosines(server, QUERY, DOCUMENTS)
    a = post(server, path, query=QUERY, documents=DOCUMENTS, return_documents=True)
    assert a["object"] == "list" and a["model"] == "quire-demo" and a["id"].startswith("rerank-")
    n = sum(tokens(server, t) for t in [QUERY, *DOCUMENTS])
    assert a["usage"] == {"prompt_tokens": n, "total_tokens": n}
    order = [r["index"] for r in a["results"]]
    assert order == sorted(range(5), key=lambda i: (-want[i], i)) or sorted(order) == list(range(5))
    for r in a["results"]:
        assert r["relevance_score"] == pytest.approx(want[r["index"]], abs=1e-5)
        assert r["document"] == {"text": DOCUMENTS[r["index"]]}
    scores = [r["relevance_score"] for r in a["results"]]
    assert scores == sorted(scores, reverse=True)
    at = order.index(1)
    assert order[at + 1] == 3 and scores[at] == scores[at + 1]  # equal texts, in their own order
    top = post(server, path, query={"text": QUERY}, documents=[{"text": d} for d in DOCUMENTS], top_n=2,
               return_documents=False)
    assert top["results"] == [{k: r[k] for k in ("index", "relevance_score")} for r in a["results"][:2]]
    assert ("meta" in a) == (path == "/v2/rerank")
    plain = post(server, path, query=QUERY, documents=DOCUMENTS)["results"]
    assert all(("document" in r) == (path in ("/rerank", "/v1/rerank")) for r in plain)


def test_meta(server):
    meta = post(server, "/v2/rerank", query="a", documents=["b"] * 101)["meta"]
    assert meta == {"api_version": {"version": "2"}, "billed_units": {"search_units": 2},
                    "tokens": {"input_tokens": tokens(server, "a") + 101 * tokens(server, "b")}}


def test_text_embeddings_inference(server):
    a = post(server, "/rerank", query=QUERY, texts=DOCUMENTS)
    b = post(server, "/rerank", query=QUERY, documents=DOCUMENTS)["results"]
    assert a == [{"index": r["index"], "score": r["relevance_score"]} for r in b]
    c = post(server, "/rerank", query=QUERY, texts=DOCUMENTS, return_text=True)
    assert [r["text"] for r in c] == [DOCUMENTS[r["index"]] for r in a]


@pytest.mark.parametrize("path", ["/score", "/v1/score"])
@pytest.mark.parametrize("names", [("text_1", "text_2"), ("queries", "documents"), ("queries", "items"),
                                   ("data_1", "data_2")])
def test_score(server, path, names):
    want = cosines(server, QUERY, DOCUMENTS)
    a = post(server, path, **{names[0]: QUERY, names[1]: DOCUMENTS})
    assert a["object"] == "list" and a["model"] == "quire-demo" and a["usage"]["completion_tokens"] == 0
    assert [(d["index"], d["object"]) for d in a["data"]] == [(i, "score") for i in range(5)]
    assert [d["score"] for d in a["data"]] == pytest.approx(want, abs=1e-5)
    pairs = [d["score"] for d in post(server, path, **{names[0]: DOCUMENTS, names[1]: DOCUMENTS})["data"]]
    assert pairs == pytest.approx([1] * 5, abs=1e-6)
    assert [d["score"] for d in post(server, path, **{names[0]: [QUERY], names[1]: DOCUMENTS[0]})["data"]] == \
        [a["data"][0]["score"]]


def test_texts_are_cut(server):
    long, short = "one two three four five six seven eight", "one two"
    n = tokens(server, short) - tokens(server, "")
    assert n >= 1
    [want] = score(server, short, "a bear")
    assert score(server, long, "a bear", max_tokens_per_query=n) == [want]
    assert score(server, "a bear", long, max_tokens_per_doc=n) == score(server, "a bear", short)
    assert score(server, long, "a bear") != [want]


@pytest.mark.parametrize("path,param,body", [
    ("/rerank", "query", {"documents": ["a"]}), ("/rerank", "documents", {"query": "a"}),
    ("/rerank", "query", {"query": ["a"], "documents": ["a"]}),
    ("/rerank", "documents", {"query": "a", "documents": []}),
    ("/rerank", "documents", {"query": "a", "documents": ["a", 5]}),
    ("/rerank", "documents", {"query": "a", "documents": [{"title": "a"}]}),
    ("/rerank", "documents", {"query": "a", "documents": ["a"] * 2049}),
    ("/rerank", "documents", {"query": "a", "documents": ["word " * 3000]}),
    ("/rerank", "top_n", {"query": "a", "documents": ["a"], "top_n": -1}),
    ("/rerank", "rank_fields", {"query": "a", "documents": ["a"], "rank_fields": ["title"]}),
    ("/score", "text_1", {"text_2": ["a"]}), ("/score", "text_2", {"text_1": ["a"]}),
    ("/score", "text_1", {"text_1": ["a", "b"], "text_2": ["a", "b", "c"]}),
    ("/score", "text_1", {"text_1": ["a", "b"], "text_2": "a"}),
    ("/score", "instruction", {"text_1": "a", "text_2": "a", "instruction": "Be kind."}),
])
def test_refusals(server, path, param, body):
    r = server.post(path, body)
    assert r.status == 400 and r.json["error"]["param"] == param, r.body


def test_one_answer(start):
    """The same bits alone, beside others, and cut into chunks."""
    alone = start("--prefix-cache", "off")
    want = [score(alone, QUERY, d)[0] for d in DOCUMENTS]
    for flags in ([], ["--prefill-chunk", "7", "--max-batch-tokens", "16", "--max-sequences", "4"]):
        server = start(*flags)
        assert [s for [s] in in_threads([lambda d=d: score(server, QUERY, d) for d in DOCUMENTS])] == want
        assert score(server, QUERY, DOCUMENTS) == want
        server.wait_idle()


# ---- cross-encoders

CLS, SEP = 2, 3
CLOSE = 1e-3


@pytest.fixture
def classifier(start, tmp_path):
    def make(variant, *flags, arch="bert", kind="F32"):
        data = fixtures.make(arch, variant, kind)
        path = tmp_path / f"{variant}.gguf"
        path.write_bytes(data)
        return gguf_file.read(data), start("--kv-memory", "64m", *flags, model=path)
    return make


def word_ids(text):
    return [5 + sum((ord(c) - 96) * 26 ** i for i, c in enumerate(reversed(w))) - 1 for w in text.split()]


def numbers_of_ids(m, ids, second_at=None):
    rows = forward.forward(m, ids, None, as_f16, second_at=second_at)
    return forward.labels(m, rows[0])


def numbers(m, query, document):
    first = [CLS, *word_ids(query), SEP]
    return numbers_of_ids(m, [*first, *word_ids(document), SEP], len(first))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x):
    e = np.exp(x - x.max())
    return e / e.sum()


PAIRS = [("a b", "c d e"), ("a b", "f"), ("a b", "b a " * 10), ("a b", "d c e")]


@pytest.mark.parametrize("variant", ["rank", "flat"])
def test_cross_encoder(classifier, variant):
    m, server = classifier(variant)
    want = [numbers(m, q, d)[0] for q, d in PAIRS]
    documents = [d for _, d in PAIRS]
    assert score(server, "a b", documents, use_activation=False) == pytest.approx(want, abs=CLOSE)
    assert score(server, "a b", documents) == pytest.approx(sigmoid(np.array(want)), abs=CLOSE)
    assert score(server, ["a b"] * 4, documents) == score(server, "a b", documents)
    a = post(server, "/rerank", query="a b", documents=documents, top_n=3)
    order = sorted(range(4), key=lambda i: -want[i])[:3]
    assert [(r["index"], r["document"]["text"]) for r in a["results"]] == [(i, documents[i]) for i in order]
    assert a["usage"]["prompt_tokens"] == sum(len((q + " " + d).split()) + 3 for q, d in PAIRS)
    raw = post(server, "/rerank", query="a b", texts=documents, raw_scores=True)
    assert [r["score"] for r in raw[:3]] == pytest.approx([want[i] for i in order], abs=CLOSE)
    # cut: the same as the shorter texts
    assert score(server, "a b z", "c d e", max_tokens_per_query=2) == score(server, "a b", "c d e")
    assert score(server, "a b", "c d e f g", max_tokens_per_doc=3) == score(server, "a b", "c d e")
    assert score(server, "a b", "c d e f g", truncate_prompt_tokens=8) == score(server, "a b", "c d e")


def test_a_head_of_one_matrix(classifier):
    """jina-reranker-v1's files have no more: its tanh is the score."""
    m, server = classifier("single", arch="jina-bert-v2")
    want = [numbers(m, q, d)[0] for q, d in PAIRS]
    assert np.ptp(want) > 10 * CLOSE
    assert score(server, "a b", [d for _, d in PAIRS], use_activation=False) == pytest.approx(want, abs=CLOSE)


def test_the_second_text_is_told_from_the_first(classifier):
    """Of the same ids, with another end of the first text."""
    m, server = classifier("rank")
    text = [CLS, 5, 6, SEP, 7, SEP]
    [whole] = post(server, "/pooling", input=[text], use_activation=False)["data"]
    assert whole["data"] == pytest.approx(numbers_of_ids(m, text), abs=CLOSE)
    assert abs(whole["data"][0] - score(server, "a b", "c", use_activation=False)[0]) > 5 * CLOSE


@pytest.mark.parametrize("kind", ["F32", "Q8_0"])
def test_a_pair_has_the_same_bits_in_any_batch(classifier, kind):
    _, server = classifier("rank", "--max-batch-tokens", "64", "--max-sequences", "4", kind=kind)
    documents = [" ".join("abcdefgh"[(i * k) % 8] for k in range(1 + i % 20)) for i in range(70)]
    want = [score(server, "a b", d)[0] for d in documents]
    assert score(server, "a b", documents) == want
    assert [s for [s] in in_threads([lambda d=d: score(server, "a b", d) for d in documents[:12]])] == want[:12]
    server.wait_idle()


@pytest.mark.parametrize("variant,names", [("labels", ["good", "bad", "so-so"]), ("unnamed", ["LABEL_0", "LABEL_1"]),
                                           ("rank", ["LABEL_0"])])
def test_classify(classifier, variant, names):
    m, server = classifier(variant)
    texts = ["a b c", "d", "e f g h"]
    a = post(server, "/classify", input=texts)
    raw = post(server, "/classify", input=texts, use_activation=False)
    pool = post(server, "/pooling", input=texts)
    assert a["object"] == "list" and a["usage"]["prompt_tokens"] == 3 + 1 + 4 + 6
    for i, text in enumerate(texts):
        want = numbers_of_ids(m, [CLS, *word_ids(text), SEP])
        share = softmax(want) if len(names) > 1 else sigmoid(want)
        d = a["data"][i]
        assert d["index"] == i and d["num_classes"] == len(names) and d["probs"] == pytest.approx(share, abs=CLOSE)
        assert d["label"] == names[int(np.argmax(want))]
        assert raw["data"][i]["probs"] == pytest.approx(want, abs=CLOSE)
        assert pool["data"][i] == {"index": i, "object": "pooling", "data": d["probs"]}


def test_of_two_labels_yes_ranks(classifier):
    m, server = classifier("yes")
    want = [softmax(numbers(m, q, d))[1] for q, d in PAIRS]
    assert score(server, "a b", [d for _, d in PAIRS]) == pytest.approx(want, abs=CLOSE)


def test_a_decoder_ranks_by_its_last_state(start, tmp_path):
    f = fixtures.Fixture("qwen3", "plain", "F32", 1, 512)
    fixtures.qwen3(f)
    fixtures.classifier(f, 2, ["yes", "no"], False)
    path = tmp_path / "decoder.gguf"
    path.write_bytes(f.bytes())
    m = gguf_file.read(f.bytes())
    server = start("--kv-memory", "64m", "--prefill-chunk", "7", model=path)
    ids = [i % 30 for i in range(40)]
    for _ in range(2):  # the second time behind a cached prefix
        [each] = post(server, "/pooling", input=[ids], task="token_embed", normalize=False)["data"]
        [labels] = post(server, "/classify", input=[ids])["data"]
        want = softmax(forward.labels(m, np.array(each["data"][-1])))
        assert labels["probs"] == pytest.approx(want, abs=1e-5)
        assert labels["label"] == ("yes", "no")[int(np.argmax(want))]
    [s] = score(server, "a b c", "d e f")
    assert 0 < s < 1 and s != score(server, "a b c", "a b c")[0]


def test_qwen3_reranker(start, tmp_path):
    """A decoder that says yes or no behind its template: its head is these two rows of the output, and what it says is a
    softmax of both."""
    f = fixtures.Fixture("qwen3", "rerank", "F32", 1, 512)
    fixtures.qwen3(f)
    letters = "bcdefghij"
    yes, no, begin, end = 24, 13, 30, 31
    _, shape, output = f.tensors["output.weight"]
    rows = np.frombuffer(output, "<f4").reshape(shape)[[yes, no]]
    f.add("cls.output.weight", "F32", rows)
    f.key("pooling_type", 4)
    f.key("classifier.output_labels", ["yes", "no"])
    f.tokenizer()
    f.keys["tokenizer.ggml.tokens"][begin:end + 1] = ["<|im_start|>", "<|im_end|>"]
    f.keys["tokenizer.ggml.token_type"][begin:end + 1] = [3, 3]
    f.keys["tokenizer.chat_template.rerank"] = "<|im_start|>q{query}w{document}<|im_end|>k"
    f.tokenizer = lambda: None
    path = tmp_path / "reranker.gguf"
    path.write_bytes(f.bytes())
    m = gguf_file.read(f.bytes())
    server = start("--kv-memory", "64m", "--prefill-chunk", "5", model=path)
    documents = [letters * n for n in (1, 3, 2)] + ["e"]

    def want(query, document):
        ids = [ord(c) - ord("a") for c in f"{query}w{document}"]
        return softmax(forward.forward(m, [begin, ord("q") - ord("a"), *ids, end, ord("k") - ord("a")], None, as_f16)[-1][
            [yes, no]])[0]
    expected = [want("bed", d) for d in documents]
    assert np.ptp(expected) > 10 * CLOSE
    assert score(server, "bed", documents) == pytest.approx(expected, abs=CLOSE)
    a = post(server, "/rerank", query="bed", documents=documents)
    assert [r["index"] for r in a["results"]] == sorted(range(4), key=lambda i: -expected[i])
    assert [r["relevance_score"] for r in a["results"]] == pytest.approx(sorted(expected, reverse=True), abs=CLOSE)


def test_modern_bert(classifier):
    """[CLS] query [SEP] document [SEP]; its head takes the mean of all states."""
    m, server = classifier("rank", arch="modern-bert")
    cls, sep = (m["token_embd.weight"].shape[0] - n for n in (2, 1))

    def number(ids):
        return forward.labels(m, forward.forward(m, ids, None, as_f16).mean(axis=0))[0]

    def pieces(text):
        return [ord(c) - ord("a") for c in text]
    pairs = [("bed", "cdefg"), ("b", "k"), ("gb", "cb" * 20)]
    want = [number([cls, *pieces(q), sep, *pieces(d), sep]) for q, d in pairs]
    assert [score(server, q, d, use_activation=False)[0] for q, d in pairs] == pytest.approx(want, abs=CLOSE)
    assert score(server, *pairs[0])[0] == pytest.approx(sigmoid(want[0]), abs=CLOSE)
    [pool] = post(server, "/pooling", input="bed", use_activation=False)["data"]
    assert pool["data"] == pytest.approx([number([cls, *pieces("bed"), sep])], abs=CLOSE)


@pytest.mark.parametrize("says", [True, None])
def test_roberta(start, tmp_path, says):
    """<s> query </s></s> document </s> of byte pairs, also where an older file does not say so."""
    f = fixtures.Fixture("bert", "rank", "F32", 1, 512)
    fixtures.bert(f)
    fixtures.letters(f, "<s>", "</s>")
    f.tokenizer = lambda: None
    if not says:
        del f.keys["tokenizer.ggml.add_sep_token"]
        f.keys["tokenizer.ggml.pre"] = "roberta-bpe"
    path = tmp_path / "roberta.gguf"
    path.write_bytes(f.bytes())
    m = gguf_file.read(f.bytes())
    begin, end = f.n_vocab - 2, f.n_vocab - 1
    q, d = ([ord(c) - ord("a") for c in text] for text in ("bed", "cdef"))
    want = numbers_of_ids(m, [begin, *q, end, end, *d, end], len(q) + 3)
    server = start("--kv-memory", "64m", model=path)
    assert score(server, "bed", "cdef", use_activation=False) == pytest.approx(want, abs=CLOSE)


XLM_PAIRS = [("a b", "c d e"), ("a b", "f"), ("a  b ", "b a " * 10)]


@pytest.mark.parametrize("separates", [True, None])
def test_xlm_roberta(start, tmp_path, separates):
    """<s> query </s></s> document </s>, also where an older file does not say so."""
    f = fixtures.Fixture("bert", "xlm-rank", "F32", 1, 512)
    fixtures.bert(f)
    f.tokenizer()
    if separates is not None:
        f.keys["tokenizer.ggml.add_sep_token"] = separates
    f.tokenizer = lambda: None
    path = tmp_path / "xlm.gguf"
    path.write_bytes(f.bytes())
    m = gguf_file.read(f.bytes())
    server = start("--kv-memory", "64m", model=path)

    def pieces(text):
        return [i - 1 for i in word_ids(text)]
    want = [numbers_of_ids(m, [0, *pieces(q), 2, 2, *pieces(d), 2])[0] for q, d in XLM_PAIRS]
    got = [score(server, q, d, use_activation=False)[0] for q, d in XLM_PAIRS]
    assert got == pytest.approx(want, abs=CLOSE)
    r = server.post("/tokenize", {"content": "a b", "add_special": True}).json
    assert r["tokens"] == [0, *pieces("a b"), 2]


@pytest.mark.parametrize("path,body", [("/rerank", {"query": "a", "documents": ["b"]}),
                                       ("/score", {"text_1": "a", "text_2": "b"})])
def test_a_classifier_does_not_rank(classifier, path, body):
    _, server = classifier("labels")
    e = server.post(path, body).json["error"]
    assert e["code"] == "unsupported_model" and "classifier" in e["message"] and "labels" in e["message"]


def test_others_do_not_classify(server):
    for path, body in (("/classify", {"input": "a"}), ("/pooling", {"input": "a", "task": "classify"})):
        r = server.post(path, body)
        assert r.status == 400 and "a generative model" in r.json["error"]["message"], r.body


def test_template(start, tmp_path):
    """{query} and {document} stand where the model's template has them, and name no special tokens."""
    def make(template):
        f = fixtures.Fixture("bert", "rank", "F32", 1, 512)
        fixtures.bert(f)
        f.keys["tokenizer.chat_template.rerank"] = template
        path = tmp_path / "template.gguf"
        path.write_bytes(f.bytes())
        return start("--kv-memory", "64m", model=path)
    server = make("[CLS]{query}[SEP] z {document} y {query}")
    ids = [CLS, *word_ids("a b"), SEP, *word_ids("z c y a b")]
    [want] = post(server, "/pooling", input=[ids])["data"]
    assert score(server, "a b", "c") == want["data"]
    assert score(server, "a b", "c [SEP] d") != score(server, "a b", "c") and \
        score(server, "a b", "[SEP]") != [post(server, "/pooling", input=[
            [CLS, *word_ids("a b"), SEP, *word_ids("z"), SEP, *word_ids("y a b")]])["data"][0]["data"][0]]
    assert "template" in server.post("/score", {"text_1": "a", "text_2": "b", "max_tokens_per_doc": 1}).json["error"][
        "message"]


# ---- a vector for each token

def test_token_vectors(server):
    """The last one of a text is the text's, as this model pools; and they do not depend on what comes later."""
    ids = server.post("/tokenize", {"content": "Once upon a time", "add_special": True}).json["tokens"]
    [a] = post(server, "/pooling", input="Once upon a time", task="token_embed")["data"]
    assert len(a["data"]) == len(ids)
    assert a["data"] == [vectors(server, [ids[:i + 1]])[0] for i in range(len(ids))]
    [flat] = post(server, "/pooling", input="Once upon a time", task="token_embed", encoding_format="base64",
                  dimensions=3)["data"]
    cut = [post(server, "/pooling", input=[ids[:i + 1]], dimensions=3)["data"][0]["data"] for i in range(len(ids))]
    assert list(struct.unpack(f"<{3 * len(ids)}f", base64.b64decode(flat["data"]))) == pytest.approx(sum(cut, []))
    assert post(server, "/pooling", input="Hello")["data"][0]["data"] == vectors(server, ["Hello"])[0]


def test_pooling_none(start):
    server = start("--pooling", "none", "--prefill-chunk", "7")
    text = "Once upon a time there was a bear that went home. " * 3
    n = tokens(server, text)
    [a, b] = post(server, "/embedding", content=[text, "Hello"])
    assert len(a["embedding"]) == n and len(b["embedding"]) == tokens(server, "Hello")
    [normed] = post(server, "/embedding", content=text, embd_normalize=2)
    [pooled] = post(server, "/pooling", input=text)["data"]
    assert normed["embedding"] == pooled["data"]
    for x, y in zip(a["embedding"], pooled["data"]):
        assert np.array(x) / np.linalg.norm(x) == pytest.approx(np.array(y), abs=1e-6)
    assert abs(np.linalg.norm(a["embedding"][0]) - 1) > 0.1
    r = server.post("/v1/embeddings", {"input": "Hello"})
    assert r.status == 400 and "pooling none" in r.json["error"]["message"]
    assert score(server, "Hello", "Hello") == pytest.approx([1], abs=1e-6)


def test_too_many_token_vectors(server):
    r = server.post("/pooling", {"input": ["word " * 500] * 300, "task": "token_embed"})
    assert r.status == 400 and r.json["error"]["param"] == "input" and "bytes" in r.json["error"]["message"]


# ---- more texts than there is room for

def test_500_documents(start):
    server = start("--max-batch-tokens", "32", "--max-sequences", "3", "--queue-limit", "2")
    documents = [f"Document {i % 50} is about a bear." for i in range(500)]
    a = post(server, "/rerank", query=QUERY, documents=documents)
    assert sorted(r["index"] for r in a["results"]) == list(range(500))
    scores = {r["index"]: r["relevance_score"] for r in a["results"]}
    assert all(scores[i] == scores[i % 50] for i in range(500))
    assert [scores[i] for i in range(50)] == score(server, QUERY, documents[:50])
    assert len(vectors(server, documents)) == 500
    server.wait_idle()


def test_others_find_room_beside_many_texts(start):
    server = start("--max-batch-tokens", "32", "--max-sequences", "2", "--queue-limit", "2")
    documents = [f"Document {i} is about a bear. " * 3 for i in range(300)]
    answers = in_threads([lambda: post(server, "/score", text_1=QUERY, text_2=documents),
                          lambda: [server.post("/v1/completions", {"prompt": "Once", "max_tokens": 1}).status
                                   for _ in range(10)]])
    assert len(answers[0]["data"]) == 300 and answers[1] == [200] * 10
    server.wait_idle()


def test_a_client_that_leaves_costs_nothing(start):
    server = start("--max-batch-tokens", "32", "--max-sequences", "2", "--queue-limit", "2")
    for _ in range(3):
        c = server.connect()
        c.request("POST", "/rerank", '{"query": "a", "documents": [%s]}' % ",".join(['"a bear"'] * 2000),
                  {"Content-Type": "application/json"})
        c.close()
    server.wait_idle()
    assert math.isclose(score(server, "a", "a")[0], 1, abs_tol=1e-6)


def rerank_and_stop(server, documents):
    """The answer to a server that is stopped as soon as texts run, or that has answered before anybody saw that."""
    answers = []
    asks = threading.Thread(target=lambda: answers.append(server.post("/rerank", {"query": "a", "documents": documents})))
    asks.start()
    while asks.is_alive() and not server.metrics()["quire_requests_running"]:
        pass
    server.process.send_signal(signal.SIGTERM)
    asks.join()
    assert server.process.wait(20) == 0
    return answers[0]


def test_a_shutdown_does_not_wait_for_texts_that_are_not_begun(start):
    documents = [f"{i} bears went home and slept. " * 5 for i in range(2000)]
    for _ in range(20):
        r = rerank_and_stop(start("--max-batch-tokens", "32", "--max-sequences", "2", "--queue-limit", "2"), documents)
        if r.status != 200:
            break
    assert r.status == 503 and "shutting down" in r.json["error"]["message"], r.body[:200]
