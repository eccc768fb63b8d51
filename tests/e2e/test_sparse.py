"""bge-m3's three answers to a text: one vector, lexical weights (token_classify), and a vector for each token
(token_embed), beside float64; from a GGUF file and from a folder whose heads are files of their own."""
import base64
import json
import struct

import numpy as np
import pytest

import hf_folder
import test_bert_folder as folders
from quire import in_threads
from test_ranking import as_f16, fixtures, forward, gguf_file, post
from test_safetensors import quire

CLOSE = 1e-3
TEXTS = ["the abc", "unable  world the ab", "b", "c d ab " * 9]
HEADS = ("sparse_linear", "colbert_linear")


def parts(kind="F32", **rows):
    """Keys and tensors of a small XLM-RoBERTa with both heads; its text's vector is the state of BOS."""
    keys, tensors = folders.encoder("xlm", None)
    f = fixtures.Fixture("bert", "plain", kind, 7, 128)
    n = keys["bert.embedding_length"]
    for name, n_rows in {"sparse_linear": 1, "colbert_linear": n, **rows}.items():
        f.biased(name, n_rows, n, True)
    _, heads = gguf_file.read_parts(gguf_file.write(f.keys, f.tensors))
    keys["bert.pooling_type"] = 2
    return keys, tensors | heads


@pytest.fixture
def m3(start, tmp_path):
    def make(kind="F32", flags=()):
        data = gguf_file.write(*parts(kind))
        (tmp_path / "m3.gguf").write_bytes(data)
        return gguf_file.read(data), start("--kv-memory", "64m", *flags, model=tmp_path / "m3.gguf")
    return make


def outputs(m, ids):
    """Float64: the text's vector, the lexical weights before they are cut at 0, and the vectors of tokens."""
    rows = forward.forward(m, ids, None, as_f16)
    vectors = (rows @ m["colbert_linear.weight"].T + m["colbert_linear.bias"])[1:]
    return (rows[0] / np.linalg.norm(rows[0]), (rows @ m["sparse_linear.weight"].T + m["sparse_linear.bias"])[1:-1, 0],
            vectors / np.linalg.norm(vectors, axis=1)[:, None])


def pooled(server, texts, **fields):
    return [d["data"] for d in post(server, "/pooling", input=texts, **fields)["data"]]


@pytest.mark.parametrize("kind", ["F32", "F16"])
def test_three_answers(m3, kind):
    m, server = m3(kind)
    ids = [server.post("/tokenize", {"content": t, "add_special": True}).json["tokens"] for t in TEXTS]
    assert all(i[0] == 0 and i[-1] == 2 for i in ids)
    dense, weights = pooled(server, TEXTS), pooled(server, TEXTS, task="token_classify")
    raw, vectors = pooled(server, TEXTS, task="token_classify", use_activation=False), pooled(server, TEXTS, task="token_embed")
    assert dense == [d["embedding"] for d in server.post("/v1/embeddings", {"input": TEXTS}).json["data"]]
    want = [outputs(m, i) for i in ids]
    assert any((w[1] < -0.1).any() for w in want) and any((w[1] > 0.1).any() for w in want)
    for i, (one, numbers, each) in enumerate(want):
        assert dense[i] == pytest.approx(one, abs=CLOSE)
        assert len(raw[i]) == len(ids[i]) - 2 and raw[i] == pytest.approx(numbers, abs=CLOSE)
        assert weights[i] == [max(x, 0) for x in raw[i]]
        assert np.array(vectors[i]).shape == each.shape == (len(ids[i]) - 1, m.key("embedding_length"))
        assert np.abs(np.array(vectors[i]) - each).max() < CLOSE


def test_ends_of_texts(m3):
    """BOS and EOS are left out where they stand at the ends; a text of ids may have none."""
    m, server = m3()
    plain = [4, 6, 5]
    rows = forward.forward(m, plain, None, as_f16) @ m["sparse_linear.weight"].T + m["sparse_linear.bias"]
    assert pooled(server, [plain], task="token_classify", use_activation=False)[0] == pytest.approx(rows[:, 0], abs=CLOSE)
    assert pooled(server, [[0, 2], [0], [2], [4, 0, 2, 5]], task="token_classify", use_activation=False)[:3] == [[], [], []]
    assert len(pooled(server, [[4, 0, 2, 5]], task="token_classify")[0]) == 4
    assert [len(v) for v in pooled(server, [plain, [0, 4, 2], [0]], task="token_embed")] == [3, 2, 0]


def test_weights_in_base64(m3):
    _, server = m3()
    for fields in ({"task": "token_classify"}, {"task": "token_embed", "dimensions": 3}):
        [plain], [packed] = (pooled(server, TEXTS[1], encoding_format=form, **fields) for form in ("float", "base64"))
        flat = np.array(plain).ravel()
        assert list(struct.unpack(f"<{len(flat)}f", base64.b64decode(packed))) == pytest.approx(flat, abs=1e-7)


def test_same_weights_in_any_batch(m3):
    _, server = m3(flags=("--max-batch-tokens", "64", "--max-sequences", "4"))
    for task in ("token_classify", "token_embed"):
        alone = [pooled(server, t, task=task)[0] for t in TEXTS]
        assert pooled(server, TEXTS, task=task) == alone
        assert [p for [p] in in_threads([lambda t=t: pooled(server, t, task=task) for t in TEXTS * 3])] == alone * 3
    server.wait_idle()


def test_weights_refusals(m3):
    _, server = m3()
    for body, words in (({"dimensions": 1, "task": "token_classify"}, "lexical weights cannot be cut"),
                        ({"task": "embed&token_classify"}, "'task' must be"), ({"task": "classify"}, "no labels of texts")):
        r = server.post("/pooling", {"input": "b", **body})
        assert r.status == 400 and words in r.json["error"]["message"], r.body
    assert post(server, "/score", text_1="the", text_2="the")["data"][0]["score"] == pytest.approx(1, abs=1e-6)  # a cosine


@pytest.mark.parametrize("rows,words", [({"sparse_linear": 2}, "has 2 rows, but a token has 1 lexical weight"),
                                        ({"dense_2": 8}, "the file has another head of its kind")])
def test_heads_that_are_refused(tmp_path, rows, words):
    (tmp_path / "m.gguf").write_bytes(gguf_file.write(*parts(**rows)))
    _, err = quire("generate", "--model", tmp_path / "m.gguf", "--prompt", "a", "--max-tokens", 1, "--log-level", "off", status=1)
    assert words in err


# ---- folders

def m3_folder(tmp_path, prefix):
    keys, tensors = parts()
    (tmp_path / "m.gguf").write_bytes(gguf_file.write(keys, tensors))
    plain = {n: t for n, t in tensors.items() if not n.startswith(HEADS)}
    folder = folders.write_encoder(tmp_path / "hf", "xlm", keys, plain)
    for head in HEADS:
        named = {prefix.format(head) + end: tensors[f"{head}.{end}"] for end in ("weight", "bias")}
        (folder / f"{head}.safetensors").write_bytes(hf_folder.safetensors(named))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_cls_token": True}))
    return folder


@pytest.mark.parametrize("prefix", ["", "{}."])
def test_m3_folder(start, tmp_path, prefix):
    folder = m3_folder(tmp_path, prefix)
    servers = [start("--kv-memory", "64m", model=model) for model in (tmp_path / "m.gguf", folder)]
    for task in ("embed", "token_classify", "token_embed"):
        answers = [pooled(s, TEXTS, task=task) for s in servers]
        assert answers[0] == answers[1], task


def test_m3_folder_without_heads(start, tmp_path):
    """Publishers' pickles are not read: the vector of a text is still there."""
    folder = m3_folder(tmp_path, "")
    for head in HEADS:
        (folder / f"{head}.safetensors").rename(folder / f"{head}.pt")
    server = start("--kv-memory", "64m", model=folder)
    assert len(pooled(server, TEXTS)) == len(TEXTS)
    r = server.post("/pooling", {"input": "b", "task": "token_classify"})
    assert r.status == 400 and "neither labels of tokens nor lexical weights" in r.json["error"]["message"]


def test_m3_folder_damaged(tmp_path):
    folder = m3_folder(tmp_path, "")
    (folder / "sparse_linear.safetensors").write_bytes(hf_folder.safetensors({"gain": ("F32", (1,), bytes(4))}))
    _, err = quire("generate", "--model", folder, "--prompt", "a", "--max-tokens", 1, "--log-level", "off", status=1)
    assert "sparse_linear.safetensors: tensor 'gain': is not supported" in err
