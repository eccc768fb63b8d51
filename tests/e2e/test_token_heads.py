"""Heads that read each token: labels (NER), as /pooling with the task token_classify gives them, beside float64."""
import base64
import json
import struct

import numpy as np
import pytest

import hf_folder
import test_bert_folder as folders
from quire import in_threads, isa_levels
from test_ranking import CLOSE, as_f16, fixtures, forward, gguf_file, post, softmax
from test_safetensors import quire

NAMES = ["O", "B-PER", "I-PER"]
LONG = [5 + (7 * i + i // 5) % 20 for i in range(90)]  # more tokens than a tile of rows has


def with_labels(arch, kind="F32", n=3, gelu=False):
    """A random model whose head gives each token a label; gelu: ModernBERT's, with a part before it."""
    f = fixtures.Fixture(arch, "plain", kind, 1, 512)
    (fixtures.bert if arch == "bert" else fixtures.modern_bert)(f)
    fixtures.classifier(f, n, NAMES if n == 3 else None, gelu)
    if gelu:
        f.norm("cls.norm", bias=False)
    if arch == "modern-bert":
        fixtures.letters(f, "[CLS]", "[SEP]")
        f.tokenizer = lambda: None
    f.key("pooling_type", 5)
    return f.bytes()


@pytest.fixture
def labeller(start, tmp_path):
    def make(*args, flags=(), **named):
        data = with_labels(*args, **named)
        path = tmp_path / "tokens.gguf"
        path.write_bytes(data)
        return gguf_file.read(data), start("--kv-memory", "64m", *flags, model=path)
    return make


def outputs(m, ids):
    """Float64: the numbers of the labels of each token."""
    return np.array([forward.labels(m, row) for row in forward.forward(m, ids, None, as_f16)])


def pooled(server, ids, **fields):
    return [d["data"] for d in post(server, "/pooling", input=ids, **fields)["data"]]


@pytest.mark.parametrize("arch,gelu", [("bert", False), ("modern-bert", True), ("modern-bert", False)])
@pytest.mark.parametrize("kind", ["F32", "Q8_0"])
def test_token_labels(labeller, arch, gelu, kind):
    m, server = labeller(arch, kind, gelu=gelu, flags=("--max-batch-tokens", "64", "--max-sequences", "4"))
    texts = [[2, 7, 9, 3], LONG[:33], [5], LONG[:60]]
    want = [outputs(m, ids) for ids in texts]
    assert max(np.ptp(w) for w in want) > 20 * CLOSE
    raw = pooled(server, texts, task="token_classify", use_activation=False)
    probs = pooled(server, texts, task="token_classify")
    assert pooled(server, texts) == probs  # what such a model does when no task is named
    for i, w in enumerate(want):
        error = np.abs(np.array(raw[i]) - w)
        assert error.shape == w.shape and (error.max() < CLOSE if kind == "F32" else error.mean() < 0.06)
        share = np.array([softmax(np.array(row)) for row in raw[i]])
        assert np.abs(np.array(probs[i]) - share).max() < 1e-6


def test_one_label_is_a_sigmoid(labeller):
    m, server = labeller("bert", n=1)
    [got] = pooled(server, [LONG[:40]])
    assert np.array(got) == pytest.approx(1 / (1 + np.exp(-outputs(m, LONG[:40]))), abs=CLOSE)


def test_numbers_in_base64(labeller):
    _, server = labeller("bert")
    [rows] = pooled(server, [LONG[:5]])
    [packed] = pooled(server, [LONG[:5]], encoding_format="base64")
    assert list(struct.unpack("<15f", base64.b64decode(packed))) == pytest.approx(sum(rows, []), abs=1e-7)


@pytest.mark.parametrize("kind", ["F32", "Q8_0"])
def test_labels_have_the_same_bits_in_any_batch(labeller, kind):
    _, server = labeller("modern-bert", kind, gelu=True, flags=("--max-batch-tokens", "64", "--max-sequences", "4"))
    texts = [LONG[:1 + 5 * i] for i in range(12)]
    alone = [pooled(server, [t])[0] for t in texts]
    assert pooled(server, texts) == alone
    assert [p for [p] in in_threads([lambda t=t: pooled(server, [t]) for t in texts])] == alone
    server.wait_idle()


@pytest.mark.parametrize("arch,kind,gelu", [("bert", "F32", False), ("modern-bert", "Q8_0", True)])
def test_labels_on_any_machine(labeller, arch, kind, gelu):
    """The same bits on one thread and on four, with scalar kernels and with the best."""
    levels = isa_levels()
    flags = [("--threads", n, "--isa", level) for n in ("1", "4") for level in (levels[0], levels[-1])]
    answers = [pooled(labeller(arch, kind, gelu=gelu, flags=f)[1], [LONG[:50], [7, 9]]) for f in flags]
    assert answers[1:] == answers[:1] * 3


def test_token_labels_refusals(labeller, server):
    _, tokens = labeller("bert")
    for s, path, body, words in (
            (tokens, "/classify", {"input": "a"}, "a classifier of tokens (POST /pooling): it has no labels of texts"),
            (tokens, "/pooling", {"input": "a", "task": "classify"}, "it has no labels of texts"),
            (tokens, "/pooling", {"input": "a", "dimensions": 2}, "'dimensions' is for vectors"),
            (server, "/pooling", {"input": "a", "task": "token_classify"}, "it has neither labels of tokens nor lexical weights"),
            (server, "/pooling", {"input": "a", "task": "encode"}, "token_embed or token_classify")):
        r = s.post(path, body)
        assert r.status == 400 and words in r.json["error"]["message"], r.body
    assert len(pooled(tokens, "a b", task="token_embed")[0]) == 4  # its states are still there


def test_labels_without_their_tensor(tmp_path):
    keys, tensors = gguf_file.read_parts(with_labels("bert"))
    del tensors["cls.output.weight"]
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf_file.write(keys, tensors))
    _, err = quire("generate", "--model", path, "--prompt", "a", "--max-tokens", 1, "--log-level", "off", status=1)
    assert "'cls.output.weight' is missing" in err and "labels tokens" in err


# ---- folders

HEADS = {"cls.output.": "classifier.", "cls.norm.": "head.norm.", "cls.": "head.dense."}


def head_name(name):
    for ours, theirs in HEADS.items():
        if name.startswith(ours):
            return theirs + name.removeprefix(ours)
    return None


def read_tensors(path):
    """The tensors of a safetensors file, as hf_folder.safetensors() takes them."""
    raw = path.read_bytes()
    n = struct.unpack("<Q", raw[:8])[0]
    head = json.loads(raw[8:8 + n])
    head.pop("__metadata__", None)
    return {k: (t["dtype"], t["shape"], raw[8 + n + t["data_offsets"][0]:8 + n + t["data_offsets"][1]]) for k, t in head.items()}


def add_head(folder, keys, tensors, cls, **fields):
    """Make a folder without a head one whose class is cls."""
    path = folder / "model.safetensors"
    named = read_tensors(path) | {head_name(n): t for n, t in tensors.items() if head_name(n)}
    path.write_bytes(hf_folder.safetensors(named))
    config = json.loads((folder / "config.json").read_text())
    labels = {"id2label": {str(i): n for i, n in enumerate(NAMES)}}
    (folder / "config.json").write_text(json.dumps({**config, "architectures": [cls], **labels, **fields}))
    return folder


def bert_folder(tmp_path, family, cls):
    keys, tensors = gguf_file.read_parts(with_labels("bert"))
    if family == "wordpiece":
        folder = hf_folder.write_bert(tmp_path / "hf", keys, {n: t for n, t in tensors.items() if not head_name(n)}, "bert.")
        return keys, tensors, add_head(folder, keys, tensors, cls)
    plain = {n: t for n, t in tensors.items() if not head_name(n)}
    vocabulary = folders.unigram_keys() if family == "unigram" else letters()
    keys = {k: v for k, v in keys.items() if not k.startswith("tokenizer.")} | vocabulary
    n = len(keys["tokenizer.ggml.tokens"])
    kind, shape, data = tensors["token_embd.weight"]
    tensors["token_embd.weight"] = plain["token_embd.weight"] = kind, (n, shape[1]), data[:n * shape[1] * 4]
    folder = folders.write_encoder(tmp_path / "hf", "xlm", keys, plain)
    if family == "letters":
        (folder / "tokenizer.json").write_text(json.dumps(roberta_tokenizer(keys)))
    return keys, tensors, add_head(folder, keys, tensors, cls)


def letters():
    """The keys of byte pairs between <s> and </s>, as RoBERTa's."""
    f = fixtures.Fixture("bert", "plain", "F32", 1, 512)
    fixtures.letters(f, "<s>", "</s>")
    return {k: v for k, v in f.keys.items() if k.startswith("tokenizer.")} | {"tokenizer.ggml.token_type_count": 2}


def roberta_tokenizer(keys):
    tokens = hf_folder.tokens_of(keys)
    n = len(tokens)
    return {**hf_folder.plain_tokenizer(keys), "added_tokens": [hf_folder.added(n - 2, "<s>", True), hf_folder.added(n - 1, "</s>", True)],
            "post_processor": {"type": "RobertaProcessing", "sep": ["</s>", n - 1], "cls": ["<s>", n - 2], "trim_offsets": True,
                               "add_prefix_space": False}}


@pytest.mark.parametrize("family,cls,texts", [
    ("wordpiece", "BertForTokenClassification", ["a b c", "d"]), ("unigram", "XLMRobertaForTokenClassification", ["the abc", "unable"]),
    ("letters", "RobertaForTokenClassification", ["abc", "dabed"])])
def test_bert_folders(start, tmp_path, family, cls, texts):
    """The bits of the GGUF file with the same numbers, and the same tokens."""
    keys, tensors, folder = bert_folder(tmp_path, family, cls)
    (tmp_path / "m.gguf").write_bytes(gguf_file.write(keys, tensors))
    answers = [pooled(start("--kv-memory", "64m", model=model), texts) for model in (tmp_path / "m.gguf", folder)]
    assert answers[0] == answers[1] and all(len(rows) > 2 and len(rows[0]) == 3 for rows in answers[1])


def modern_folder(tmp_path, **fields):
    _, folder = folders.modern_bert(tmp_path)
    keys, tensors = gguf_file.read_parts((tmp_path / "m.gguf").read_bytes())
    _, heads = gguf_file.read_parts(with_labels("modern-bert", gelu=True))
    tensors |= {n: t for n, t in heads.items() if head_name(n)}
    keys |= {"modern-bert.pooling_type": 5, "modern-bert.classifier.output_labels": NAMES}
    (tmp_path / "m.gguf").write_bytes(gguf_file.write(keys, tensors))
    return add_head(folder, keys, tensors, "ModernBertForTokenClassification", **fields)


def test_modern_bert_folder(start, tmp_path):
    folder = modern_folder(tmp_path)
    answers = [pooled(start("--kv-memory", "64m", model=model), ["abcab", "cab" * 9]) for model in (tmp_path / "m.gguf", folder)]
    assert answers[0] == answers[1] and [len(rows) for rows in answers[1]] == [7, 29]


@pytest.mark.parametrize("fields,words", [
    ({"classifier_activation": "relu"}, "'classifier_activation' is 'relu', but only gelu"),
    ({"id2label": {"0": "a", "1": "b"}}, "has 2 names, but there are 3 labels"),
    ({"id2label": {"0": "a", "2": "b"}}, "'id2label' has no text for label 1"),
    ({"problem_type": "multi_label_classification"}, "'problem_type' is neither")])
def test_folders_that_are_refused(tmp_path, fields, words):
    folder = modern_folder(tmp_path, **fields)
    _, err = quire("generate", "--model", folder, "--prompt", "a", "--max-tokens", 1, "--log-level", "off", status=1)
    assert words in err
