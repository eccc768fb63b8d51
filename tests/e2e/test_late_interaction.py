"""Late interaction: a vector for each token from /v1/embeddings and /pooling, and MaxSim from /score and /rerank, beside
float64; and the folders that have such a head."""
import json

import numpy as np
import pytest

import hf_folder
import test_bert_folder as folders
from quire import in_threads
from test_ranking import as_f16, fixtures, forward, gguf_file, post
from test_safetensors import quire
from test_token_heads import LONG

CLOSE = 1e-3
WIDTH = 24
QUERY = [2, 7, 9, 11, 3]
DOCUMENTS = [LONG[:50], [2, 7, 9, 3], [2, 30, 31, 3], [2, 11, 9, 7, 3]]


def with_vectors(arch="bert", kind="F32", width=WIDTH):
    f = fixtures.Fixture(arch, "plain", kind, 1, 512)
    (fixtures.bert if arch == "bert" else fixtures.modern_bert)(f)
    f.matrix("dense_2", width, f.n_embd)
    if arch == "bert":
        fixtures.word_pieces(f)
    else:
        fixtures.letters(f, "[CLS]", "[SEP]")
    f.tokenizer = lambda: None
    del f.keys[f"{arch}.pooling_type"]
    return f.bytes()


@pytest.fixture
def late(start, tmp_path):
    def make(*args, flags=(), **named):
        data = with_vectors(*args, **named)
        path = tmp_path / "late.gguf"
        path.write_bytes(data)
        return gguf_file.read(data), start("--kv-memory", "64m", *flags, model=path)
    return make


def expected(m, ids):
    """Float64: a vector of length one for each token."""
    rows = forward.forward(m, ids, None, as_f16) @ m["dense_2.weight"].T
    return rows / np.linalg.norm(rows, axis=1)[:, None]


def maxsim(q, d):
    return (q @ d.T).max(axis=1).sum()


def embedded(server, texts, **fields):
    r = server.post("/v1/embeddings", {"input": texts, **fields})
    assert r.status == 200, r.body
    return [np.array(d["embedding"]) for d in r.json["data"]]


@pytest.mark.parametrize("arch", ["bert", "modern-bert"])
@pytest.mark.parametrize("kind", ["F32", "Q8_0"])
def test_vectors(late, arch, kind):
    m, server = late(arch, kind)
    got = embedded(server, [QUERY, *DOCUMENTS])
    for ids, x in zip([QUERY, *DOCUMENTS], got):
        want = expected(m, ids)
        assert x.shape == want.shape == (len(ids), WIDTH)
        error = np.abs(x - want)
        assert error.max() < CLOSE if kind == "F32" else error.mean() < 0.02
    pooled = [d["data"] for d in post(server, "/pooling", input=[QUERY, *DOCUMENTS])["data"]]
    assert pooled == [x.tolist() for x in got]
    assert pooled == [d["data"] for d in post(server, "/pooling", input=[QUERY, *DOCUMENTS], task="token_embed")["data"]]
    cut = embedded(server, [QUERY], dimensions=5)[0]
    assert cut == pytest.approx(got[0][:, :5] / np.linalg.norm(got[0][:, :5], axis=1)[:, None], abs=1e-6)
    raw = np.array(post(server, "/pooling", input=[QUERY], normalize=False)["data"][0]["data"])
    assert raw / np.linalg.norm(raw, axis=1)[:, None] == pytest.approx(got[0], abs=1e-6)


def words(ids):
    """A text of word pieces without its ends."""
    return " ".join(fixtures.token_name(i - 5) for i in ids[1:-1])


def test_maxsim(late):
    m, server = late()
    query, *documents = [[2, *ids, 3] for ids in (LONG[:6], LONG[6:9], LONG[20:60], LONG[3:6], LONG[70:75])]
    texts = [words(ids) for ids in documents]
    assert [server.post("/tokenize", {"content": t, "add_special": True}).json["tokens"] for t in texts] == documents
    want = [maxsim(expected(m, query), expected(m, d)) for d in documents]
    assert np.ptp(want) > 100 * CLOSE
    scores = [d["score"] for d in post(server, "/score", text_1=words(query), text_2=texts)["data"]]
    assert scores == pytest.approx(want, abs=CLOSE * len(query))
    ranked = post(server, "/rerank", query=words(query), documents=texts)["results"]
    assert [(r["index"], r["relevance_score"]) for r in ranked] == [(i, scores[i]) for i in np.argsort(want)[::-1]]
    pairs = post(server, "/score", text_1=texts, text_2=texts[::-1])["data"]
    each = [expected(m, d) for d in documents]
    assert [d["score"] for d in pairs] == pytest.approx([maxsim(q, d) for q, d in zip(each, each[::-1])], abs=0.05)
    q, *d = embedded(server, [words(query), *texts])  # the score is that of the vectors that clients get
    assert scores == pytest.approx([maxsim(q, x) for x in d], abs=1e-5)
    assert post(server, "/score", text_1="a", text_2="a")["data"][0]["score"] == pytest.approx(3, abs=1e-5)


@pytest.mark.parametrize("kind", ["F32", "Q8_0"])
def test_same_scores_in_any_batch(late, kind):
    _, server = late("bert", kind, flags=("--max-batch-tokens", "64", "--max-sequences", "4"))
    query, texts = words([2, *LONG[:8], 3]), [words([2, *LONG[i:i + 1 + 3 * i], 3]) for i in range(15)]
    alone = [post(server, "/score", text_1=query, text_2=t)["data"][0]["score"] for t in texts]
    assert [d["score"] for d in post(server, "/score", text_1=query, text_2=texts)["data"]] == alone
    each = in_threads([lambda t=t: post(server, "/score", text_1=query, text_2=t)["data"][0]["score"] for t in texts])
    assert each == alone
    server.wait_idle()


def test_late_refusals(late):
    _, server = late()
    for path, body, text in (
            ("/v1/embeddings", {"input": "a", "encoding_format": "base64"}, "'encoding_format' must be float"),
            ("/v1/embeddings", {"input": "a", "dimensions": WIDTH + 1}, f"'dimensions' is above {WIDTH}"),
            ("/pooling", {"input": "a", "dimensions": WIDTH + 1}, f"'dimensions' is above {WIDTH}"),
            ("/api/embed", {"model": "late", "input": "a"}, "a late interaction model (POST /pooling)"),
            ("/v2/embed", {"texts": ["a"]}, "no vector of a whole text"),
            ("/score", {"text_1": "a " * 450, "text_2": ["b " * 450] * 1000}, "send fewer documents")):
        r = server.post(path, body)
        assert r.status == 400 and text in r.body.decode(), r.body
    server.wait_idle()


def test_pooling_of_a_late_model(late):
    """The setting makes one vector of a text; /pooling still knows those of tokens."""
    m, server = late(flags=("--pooling", "mean"))
    [x] = embedded(server, [QUERY])
    want = forward.forward(m, QUERY, None, as_f16).sum(axis=0)
    assert x == pytest.approx(want / np.linalg.norm(want), abs=CLOSE)
    assert np.array(post(server, "/pooling", input=[QUERY], task="token_embed")["data"][0]["data"]).shape == (5, WIDTH)


# ---- folders

def dense_folder(tmp_path, **fields):
    """ModernBERT with PyLate's module Dense, and the GGUF file with the same numbers."""
    _, folder = folders.modern_bert(tmp_path)
    keys, tensors = gguf_file.read_parts((tmp_path / "m.gguf").read_bytes())
    _, heads = gguf_file.read_parts(with_vectors("modern-bert"))
    tensors["dense_2.weight"] = heads["dense_2.weight"]
    keys.pop("modern-bert.pooling_type", None)
    (tmp_path / "m.gguf").write_bytes(gguf_file.write(keys, tensors))
    (folder / "1_Dense").mkdir()
    named = {"linear.weight": tensors["dense_2.weight"]}
    (folder / "1_Dense" / "model.safetensors").write_bytes(hf_folder.safetensors(named))
    (folder / "1_Dense" / "config.json").write_text(json.dumps({
        "in_features": 128, "out_features": WIDTH, "bias": False,
        "activation_function": "torch.nn.modules.linear.Identity", **fields}))
    (folder / "modules.json").write_text(json.dumps([
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Dense", "type": "pylate.models.Dense.Dense"}]))
    return folder


def colbert_folder(tmp_path):
    keys, tensors = gguf_file.read_parts(with_vectors())
    (tmp_path / "m.gguf").write_bytes(gguf_file.write(keys, tensors))
    plain = {n: t for n, t in tensors.items() if n != "dense_2.weight"}
    folder = hf_folder.write_bert(tmp_path / "hf", keys, plain, "bert.")
    for file in ("modules.json", "1_Pooling/config.json"):
        (folder / file).unlink()
    named = {"bert." + hf_folder.bert_name(n): t for n, t in plain.items()} | {"linear.weight": tensors["dense_2.weight"]}
    (folder / "model.safetensors").write_bytes(hf_folder.safetensors(named))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "architectures": ["HF_ColBERT"]}))
    return folder


@pytest.mark.parametrize("make,texts", [(dense_folder, ["abcab", "cab" * 9]), (colbert_folder, ["a b c", "d"])])
def test_late_folders(start, tmp_path, make, texts):
    folder = make(tmp_path)
    answers = [[x.tolist() for x in embedded(start("--kv-memory", "64m", model=model), texts)] for model in (tmp_path / "m.gguf", folder)]
    assert answers[0] == answers[1] and len(answers[1][0][0]) == WIDTH


def pooled_too(folder):
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": true}')


@pytest.mark.parametrize("fields,change,text", [
    ({"activation_function": "torch.nn.modules.activation.Tanh"}, None, "'activation_function' is 'torch.nn.modules.activation.Tanh'"),
    ({"activation_function": None}, None, "only Identity is supported"), ({"use_residual": True}, None, "'use_residual' is true"),
    ({}, lambda f: (f / "1_Dense" / "config.json").unlink(), "1_Dense/config.json: cannot open"),
    ({}, lambda f: (f / "1_Dense" / "model.safetensors").unlink(), "1_Dense/model.safetensors: cannot open"),
    ({}, pooled_too, "beside Pooling is not supported"),
    ({}, lambda f: (f / "1_Dense" / "model.safetensors").write_bytes(hf_folder.safetensors({"x": ("F32", (1,), bytes(4))})),
     "tensor 'x': is not supported"),
    ({}, lambda f: (f / "1_Dense" / "model.safetensors").write_bytes(hf_folder.safetensors({"linear.weight": ("F32", (3, 2), bytes(24))})),
     "'dense_2.weight'")])
def test_late_folders_that_are_refused(tmp_path, fields, change, text):
    folder = dense_folder(tmp_path, **fields)
    if change:
        change(folder)
    _, err = quire("generate", "--model", folder, "--prompt", "a", "--max-tokens", 1, "--log-level", "off", status=1)
    assert text in err, err
