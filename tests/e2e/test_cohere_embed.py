"""POST /v2/embed, Cohere's API of embeddings: the forms of a vector, truncated texts, and errors."""
import base64
import json
import struct

import pytest

import hf_folder
from test_bert_folder import parts
from test_safetensors import gguf_file, quire

TEXTS = ["Once upon a time", "The bear went home.", "Once upon a time"]
ALL = ["float", "int8", "uint8", "binary", "ubinary", "base64"]


def embed(server, texts=None, **fields):
    r = server.post("/v2/embed", {**({"texts": texts} if texts else {}), **fields})
    assert r.status == 200, r.body
    return r.json


def vectors(server, texts, **fields):
    return [d["embedding"] for d in server.post("/v1/embeddings", {"input": texts, **fields}).json["data"]]


def refusal(server, **fields):
    r = server.post("/v2/embed", fields)
    assert r.status == 400 and list(r.json) == ["message"], r.body
    return r.json["message"]


def test_answer(server):
    a = embed(server, TEXTS, model="quire-demo", input_type="search_document")
    assert a["id"].startswith("embd-") and a["response_type"] == "embeddings_by_type" and a["texts"] == TEXTS
    assert a["embeddings"] == {"float": vectors(server, TEXTS)}
    n = sum(len(server.post("/tokenize", {"content": t, "add_special": True}).json["tokens"]) for t in TEXTS)
    assert a["meta"] == {"api_version": {"version": "2"}, "billed_units": {"input_tokens": n}}


@pytest.mark.parametrize("size", [256, 64, 8])
def test_forms(server, size):
    forms = embed(server, TEXTS, embedding_types=[*ALL, "float"], output_dimension=size)["embeddings"]
    assert sorted(forms) == sorted(ALL) and all(len(rows) == 3 for rows in forms.values())
    assert forms["float"] == vectors(server, TEXTS, dimensions=size)
    for i, x in enumerate(forms["float"]):
        most = max(map(abs, x))
        assert list(struct.unpack(f"<{size}f", base64.b64decode(forms["base64"][i]))) == pytest.approx(x, abs=1e-7)
        assert forms["int8"][i] == pytest.approx([127 * v / most for v in x], abs=0.51)
        assert max(map(abs, forms["int8"][i])) == 127
        assert forms["uint8"][i] == [v + 128 for v in forms["int8"][i]]
        bits = "".join("1" if v >= 0 else "0" for v in x)
        assert forms["ubinary"][i] == [int(bits[k:k + 8], 2) for k in range(0, size, 8)]
        assert forms["binary"][i] == [v - 128 for v in forms["ubinary"][i]]
    for name in ALL:
        assert embed(server, TEXTS, embedding_types=[name], output_dimension=size)["embeddings"] == {name: forms[name]}
    assert list(embed(server, TEXTS, embedding_types=[])["embeddings"]) == ["float"]


def test_inputs(server):
    part = lambda text: {"type": "text", "text": text}
    a = embed(server, inputs=[{"content": [part("Once")]}, {"content": [part("The bear"), part("went home.")]}])
    assert "texts" not in a
    assert a["embeddings"]["float"] == vectors(server, ["Once", "The bear\nwent home."])


def test_truncation(start, tmp_path):
    """A text loses its beginning or its end; [CLS] and [SEP] stay."""
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf_file.write(*parts()))
    server = start("--kv-memory", "64m", "--pooling", "mean", model=path)
    word = ["the", "a", "b", "c", "d", "abc"]
    ids = {w: server.post("/tokenize", {"content": w, "add_special": False}).json["tokens"] for w in word}
    whole = [2, *ids["the"], *ids["a"], *ids["c"], *ids["d"], 3]
    assert server.post("/tokenize", {"content": "the a c d", "add_special": True}).json["tokens"] == whole
    want = {("END", 4): [*whole[:3], 3], ("START", 4): [2, *whole[3:]], ("END", 3): [2, whole[1], 3], ("END", 1): whole[:1],
            ("START", 6): whole, ("NONE", 6): whole, ("END", 60): whole}
    for (truncate, most), tokens in want.items():
        a = embed(server, ["the a c d"], truncate=truncate, max_tokens=most)
        assert a["embeddings"]["float"] == vectors(server, [tokens]), (truncate, most)
        assert a["meta"]["billed_units"]["input_tokens"] == len(tokens) and a["texts"] == ["the a c d"]
    message = refusal(server, texts=["the a c d"], truncate="NONE", max_tokens=5)
    assert "6 tokens" in message and "'max_tokens' 5" in message
    context = server.get("/props").json["default_generation_settings"]["n_ctx"]
    long = "the a " * context
    for truncate in ("END", "START"):
        assert embed(server, [long], truncate=truncate)["meta"]["billed_units"]["input_tokens"] == context
    assert embed(server, [long])["embeddings"] == embed(server, [long], truncate="END")["embeddings"]
    assert embed(server, [long], max_tokens=10 ** 6)["embeddings"] == embed(server, [long])["embeddings"]
    assert f"maximum context length is {context}" in refusal(server, texts=[long], truncate="NONE")


@pytest.mark.parametrize("fields,words", [
    ({}, "'texts' or 'inputs' is required"), ({"texts": []}, "'texts' must be a list"), ({"texts": "a"}, "'texts' must be"),
    ({"texts": [5]}, "'texts' must hold strings"), ({"texts": ["a"] * 2049}, "at most 2048"),
    ({"texts": ["a"], "inputs": [{"content": [{"type": "text", "text": "b"}]}]}, "cannot be used together"),
    ({"inputs": [{}]}, "'inputs[0].content'"), ({"inputs": ["a"]}, "'inputs[0].content'"),
    ({"inputs": [{"content": [{"type": "text", "text": "a"}, {"type": "text"}]}]}, "'inputs[0].content[1].text'"),
    ({"inputs": [{"content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}]}, "takes no images"),
    ({"images": ["data:,"]}, "'images' is not supported"), ({"texts": ["a"], "input_type": "image"}, "'input_type' must be"),
    ({"texts": ["a"], "embedding_types": ["int4"]}, "'embedding_types' must hold"),
    ({"texts": ["a"], "embedding_types": "float"}, "'embedding_types' must be a list"),
    ({"texts": ["a"], "embedding_types": ["binary"], "output_dimension": 12}, "multiple of 8"),
    ({"texts": ["a"], "output_dimension": 257}, "'output_dimension'"), ({"texts": ["a"], "truncate": "end"}, "'truncate' must be"),
    ({"texts": ["a"], "max_tokens": 0}, "'max_tokens'"), ({"texts": ["a"], "priority": 1000}, "'priority'")])
def test_refusals(server, fields, words):
    assert words in refusal(server, **fields)


# ---- the model's prompts

PROMPTS = {"query": "the a ", "document": "", "passage": "b ", "other": "c d "}


@pytest.fixture
def prompted(start, tmp_path):
    def make(prompts=PROMPTS):
        folder = hf_folder.write_bert(tmp_path / "hf", *parts())
        (folder / "config_sentence_transformers.json").write_text(json.dumps({"prompts": prompts, "default_prompt_name": None}))
        return start("--kv-memory", "64m", model=folder)
    return make


def test_prompts(prompted):
    """A prompt stands before each text, chosen by its name or by Cohere's."""
    server = prompted()
    texts = ["abc", "un able"]
    for name, before in {"search_query": "the a ", "query": "the a ", "search_document": "", "passage": "b ", "other": "c d "}.items():
        a = embed(server, texts, input_type=name)
        assert a["embeddings"]["float"] == vectors(server, [before + t for t in texts]) and a["texts"] == texts, name
        again = embed(server, inputs=[{"content": [{"type": "text", "text": t}]} for t in texts], input_type=name)
        assert again["embeddings"] == a["embeddings"], name
    assert embed(server, texts)["embeddings"]["float"] == vectors(server, texts)
    assert "a prompt for: query, document, passage, other" in refusal(server, texts=texts, input_type="clustering")


def test_prompts_that_are_damaged(tmp_path):
    for prompts, words in (({"query": 5}, "'prompts' is not an object of texts"), ({"query": "a" * 5000}, "longer than 4096 bytes")):
        folder = hf_folder.write_bert(tmp_path / words[-5:], *parts())
        (folder / "config_sentence_transformers.json").write_text(json.dumps({"prompts": prompts}))
        _, err = quire("generate", "--model", folder, "--prompt", "a", "--max-tokens", 1, "--log-level", "off", status=1)
        assert words in err, err


def test_errors_of_other_kinds(server):
    for path, body in (("/v2/embed", {"model": "other", "texts": ["a"]}), ("/v2/rerank", {"query": "a"})):
        r = server.post(path, body)
        assert r.status in (400, 404) and list(r.json) == ["message"] and r.json["message"], r.body
    assert embed(server, ["a"], priority=5)["embeddings"] == embed(server, ["a"], priority=0)["embeddings"]
