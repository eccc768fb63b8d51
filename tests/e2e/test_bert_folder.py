"""Folders of BertModel: the same bits as the GGUF file with the same numbers, the same tokens; and what is refused."""

import base64
import json

import numpy as np
import pytest

import hf_folder
from test_vocab_families import RULES, charsmap
from test_safetensors import change_json, fixtures, gguf_file, in_config, in_head, in_tokenizer, quire, to_bf16, without

WORDS = ["▁a", "b", "c", "▁un", "able", "▁cafe", "▁,", "▁!", "▁漢", "▁ab", "▁the", "d", "▁wor", "▁#", "▁-"]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
TEXTS = ["the abc", "unable, café!", "the 漢字", "UNABLE world a", ""]


def parts(kind="F32"):
    """Keys and tensors of a small random model whose vocabulary is that above."""
    f = fixtures.Fixture("bert", "plain", "F32" if kind == "F32" else "F16", 1, 128)
    f.n_vocab = len(SPECIAL) + len(WORDS)
    fixtures.bert(f)
    fixtures.word_pieces(f)
    f.keys["tokenizer.ggml.tokens"] = SPECIAL + WORDS
    keys, tensors = f.keys, f.tensors
    keys, tensors = gguf_file.read_parts(gguf_file.write(keys, tensors))
    return keys, {n: to_bf16(t) if kind == "BF16" else t for n, t in tensors.items()}


def embed(start, path, texts, *flags):
    s = start("--kv-memory", "64m", *flags, model=path)
    r = s.post("/v1/embeddings", {"input": texts})
    assert r.status == 200, r.body
    return [d["embedding"] for d in r.json["data"]]


@pytest.mark.parametrize("kind,prefix,pooling", [("F32", "", "mean_tokens"), ("F16", "bert.", "cls_token"),
                                                 ("BF16", "", "mean_tokens")])
def test_same_bits(start, tmp_path, kind, prefix, pooling):
    keys, tensors = parts(kind)
    keys["bert.pooling_type"] = 1 if pooling == "mean_tokens" else 2
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf_file.write(keys, tensors))
    folder = hf_folder.write_bert(tmp_path / "hf", keys, tensors, prefix, pooling)
    expected = embed(start, path, TEXTS)
    assert embed(start, folder, TEXTS) == expected
    assert np.unique(np.array(expected), axis=0).shape[0] == len(TEXTS)


def test_no_pooling_file(start, tmp_path):
    """The setting decides, as where a GGUF file does not say."""
    keys, tensors = parts()
    folder = hf_folder.write_bert(tmp_path / "hf", keys, tensors)
    expected = embed(start, folder, TEXTS)
    (folder / "1_Pooling" / "config.json").unlink()
    (folder / "modules.json").unlink()
    assert embed(start, folder, TEXTS, "--pooling", "mean") == expected
    assert embed(start, folder, TEXTS) != expected


# ---- tokens ----

def ids(folder, text):
    return [int(line.split()[0]) for line in quire("tokenize", "--model", folder, text=text.encode())[0].splitlines()]


@pytest.mark.parametrize("text,expected", [
    ("abc", ["▁ab", "c"]), ("a bc", ["▁a", "[UNK]"]), ("ABC!", ["▁ab", "c", "▁!"]),
    ("Café, cafe\u0301", ["▁cafe", "▁,", "▁cafe"]), ("unable\u00adable", ["▁un", "able", "able"]),
    ("漢字a", ["▁漢", "[UNK]", "▁a"]), ("a-b,the", ["▁a", "▁-", "[UNK]", "▁,", "▁the"]),
    ("##able", ["▁#", "▁#", "[UNK]"]), ("a" + "b" * 99, ["▁ab"] + ["b"] * 98), ("a" + "b" * 100, ["[UNK]"]),
    ("the\t[MASK]\n", ["▁the", "[MASK]"]), ("", [])])
def test_tokens(tmp_path, text, expected):
    folder = hf_folder.write_bert(tmp_path / "hf", *parts())
    names = SPECIAL + WORDS
    assert ids(folder, text) == [2, *map(names.index, expected), 3]


def test_cased(tmp_path):
    folder = hf_folder.write_bert(tmp_path / "hf", *parts())
    in_tokenizer(lambda t: t["normalizer"].update(lowercase=False) and None)(folder)
    assert ids(folder, "abc ABC café") == [2, 14, 7, 1, 1, 3]
    in_tokenizer(lambda t: t["normalizer"].update(strip_accents=True) and None)(folder)
    assert ids(folder, "abc ABC café") == [2, 14, 7, 1, 10, 3]


# ---- labels, and the classes of RoBERTa ----

NAMES = {"bert": ("BertForSequenceClassification", {"cls.": "pooler.dense.", "cls.output.": "classifier."}),
         "xlm": ("XLMRobertaForSequenceClassification", {"cls.": "classifier.dense.", "cls.output.": "classifier.out_proj."})}
PIECES = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), *((w, -2.0 - i / 4) for i, w in enumerate(WORDS))]
MASK = {**hf_folder.added(len(PIECES), "<mask>", True), "lstrip": True}


def unigram():
    """tokenizer.json as XLM-RoBERTa's."""
    first, last = ({"SpecialToken": {"id": t, "type_id": 0}} for t in ("<s>", "</s>"))
    a, b = ({"Sequence": {"id": i, "type_id": 0}} for i in "AB")
    return {"version": "1.0", "added_tokens": [*(hf_folder.added(i, p[0], True) for i, p in enumerate(PIECES[:4])), MASK],
            "normalizer": {"type": "Sequence", "normalizers": [
                {"type": "Strip", "strip_left": False, "strip_right": True},
                {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "▁"}]},
            "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
            "post_processor": {"type": "TemplateProcessing", "single": [first, a, last],
                               "pair": [first, a, last, last, b, last]},
            "model": {"type": "Unigram", "unk_id": 3, "byte_fallback": False, "vocab": [list(p) for p in PIECES]}}


def unigram_keys():
    return {"tokenizer.ggml.model": "t5", "tokenizer.ggml.tokens": [p[0] for p in PIECES] + ["<mask>"],
            "tokenizer.ggml.scores": [float(p[1]) for p in PIECES] + [0.0],
            "tokenizer.ggml.token_type": [3, 3, 3, 2] + [1] * len(WORDS) + [3], "tokenizer.ggml.bos_token_id": 0,
            "tokenizer.ggml.eos_token_id": 2, "tokenizer.ggml.unknown_token_id": 3, "tokenizer.ggml.mask_token_id": len(PIECES),
            "tokenizer.ggml.seperator_token_id": 2, "tokenizer.ggml.add_bos_token": True, "tokenizer.ggml.add_eos_token": True,
            "tokenizer.ggml.add_sep_token": True, "tokenizer.ggml.add_space_prefix": True,
            "tokenizer.ggml.remove_extra_whitespaces": True, "tokenizer.ggml.token_type_count": 2}


def encoder(family, head):
    """Keys and tensors of an encoder with that head, or none."""
    f = fixtures.Fixture("bert", head or "plain", "F32", 1, 128)
    f.n_vocab = len(SPECIAL) + len(WORDS)
    fixtures.bert(f)
    fixtures.word_pieces(f)
    f.keys["tokenizer.ggml.tokens"] = SPECIAL + WORDS
    if family == "xlm":
        f.keys = {k: v for k, v in f.keys.items() if not k.startswith("tokenizer.")} | unigram_keys()
    return gguf_file.read_parts(gguf_file.write(f.keys, f.tensors))


def write_encoder(folder, family, keys, tensors, **fields):
    """Without the modules of sentence-transformers."""
    has_head = "cls.output.weight" in tensors
    cls, names = NAMES[family]
    root = "roberta." if family == "xlm" else "bert."
    body = {n: t for n, t in tensors.items() if not n.startswith("cls.")}
    named = {root + hf_folder.bert_name(n): t for n, t in body.items()}
    for n in tensors.keys() - body.keys():
        start = "cls.output." if n.startswith("cls.output.") else "cls."
        prefix = "bert." if names[start].startswith("pooler") else ""
        named[prefix + names[start] + n.removeprefix(start)] = tensors[n]
    config = {**hf_folder.bert_config(keys), "architectures": [cls if has_head else cls.replace("ForSequenceClassification", "Model")]}
    labels = keys.get("bert.classifier.output_labels")
    if labels:
        config["id2label"] = {str(i): n for i, n in enumerate(labels)}
    if family == "xlm":
        place = root + "embeddings.position_embeddings.weight"
        kind, shape, data = named[place]
        named[place] = (kind, (shape[0] + 2, shape[1]), b"\x7f" * (2 * shape[1] * 4) + data)
        config |= {"max_position_embeddings": shape[0] + 2, "pad_token_id": 1}
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({**config, **fields}))
    (folder / "tokenizer.json").write_text(json.dumps(unigram() if family == "xlm" else hf_folder.word_piece(hf_folder.tokens_of(keys))))
    (folder / "model.safetensors").write_bytes(hf_folder.safetensors(named))
    return folder


def pair(tmp_path, family, head, **fields):
    keys, tensors = encoder(family, head)
    (tmp_path / "m.gguf").write_bytes(gguf_file.write(keys, tensors))
    return tmp_path / "m.gguf", write_encoder(tmp_path / "hf", family, keys, tensors, **fields)


def test_xlm_roberta(start, tmp_path):
    path, folder = pair(tmp_path, "xlm", None)
    texts = ["the abc", "unable  world ", " the a", "<mask>abc"]
    expected = embed(start, path, texts, "--pooling", "mean")
    assert embed(start, folder, texts, "--pooling", "mean") == expected
    assert np.unique(np.array(expected), axis=0).shape[0] == len(texts)


@pytest.mark.parametrize("text,expected", [("abc", ["▁ab", "c"]), ("the  abc ", ["▁the", "▁ab", "c"]),
                                           ("the <mask>d", ["▁the", "<mask>", "<unk>"]), ("xa", ["<unk>"])])
def test_unigram(tmp_path, text, expected):
    """Ids by hand; a mask takes the space in front, and "d" behind it is a word."""
    _, folder = pair(tmp_path, "xlm", None)
    names = [p[0] for p in PIECES] + ["<mask>"]
    found = ids(folder, text)
    if text == "the <mask>d":  # "▁" is no piece: unknown, and "d" is one
        assert found == [0, names.index("▁the"), names.index("<mask>"), 3, names.index("d"), 2]
    elif text == "xa":
        assert found[1] == 3 and found[-1] == 2
    else:
        assert found == [0, *map(names.index, expected), 2]


def test_charsmap(tmp_path):
    """A map as the file has it, in base64: a ligature becomes two letters, a tab a space, a joiner nothing."""
    _, folder = pair(tmp_path, "xlm", None)
    data = base64.b64encode(bytes(charsmap(RULES))).decode()
    in_tokenizer(lambda t: t.update(
        normalizer={"type": "Precompiled", "precompiled_charsmap": data},
        pre_tokenizer={"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, {
            "type": "Metaspace", "replacement": "▁", "add_prefix_space": True}]}) and None)(folder)
    names = [p[0] for p in PIECES]
    assert ids(folder, "the\t\u3000a\u200bb\n") == [0, names.index("▁the"), names.index("▁ab"), 2]


@pytest.mark.parametrize("family,head", [("bert", "rank"), ("bert", "labels"), ("xlm", "rank"), ("xlm", "labels")])
def test_labels(start, tmp_path, family, head):
    """Scores of pairs, or the names of labels, as of the GGUF file."""
    answers = []
    for model in pair(tmp_path, family, head):
        s = start("--kv-memory", "64m", model=model)
        if head == "rank":
            r = s.post("/score", {"text_1": "the abc", "text_2": ["unable", "the 漢字 a", "c"]})
        else:
            r = s.post("/classify", {"input": ["the abc", "unable world", "d"]})
        assert r.status == 200, r.body
        answers.append(r.json["data"])
    assert answers[0] == answers[1] and len(answers[0]) == 3
    if head == "labels":
        assert {d["label"] for d in answers[1]} <= {"good", "bad", "so-so"}


NOMIC = {"attn_qkv": "attn.Wqkv", "attn_output": "attn.out_proj", "attn_output_norm": "norm1", "layer_output_norm": "norm2",
         "ffn_up": "mlp.fc11", "ffn_gate": "mlp.fc12", "ffn_down": "mlp.fc2"}


def nomic(tmp_path, kind="F32", **fields):
    """A GGUF file and a folder of NomicBertModel."""
    f = fixtures.Fixture("nomic-bert", "plain", kind, 1, 128)
    f.n_vocab = len(SPECIAL) + len(WORDS)
    fixtures.bert(f)
    fixtures.word_pieces(f)
    f.keys["tokenizer.ggml.tokens"] = SPECIAL + WORDS
    keys, tensors = gguf_file.read_parts(gguf_file.write(f.keys, f.tensors))
    (tmp_path / "m.gguf").write_bytes(gguf_file.write(keys, tensors))
    folder = tmp_path / "hf"
    folder.mkdir()

    def name(ours):
        if not ours.startswith("blk."):
            part, end = ours.split(".")
            return f"emb_ln.{end}" if part == "token_embd_norm" else f"embeddings.{hf_folder.BERT_WHOLE[part]}.{end}"
        _, layer, part, end = ours.split(".")
        return f"encoder.layers.{layer}.{NOMIC[part]}.{end}"

    def key(suffix):
        return keys[f"nomic-bert.{suffix}"]

    config = {"architectures": ["NomicBertModel"], "activation_function": "swiglu", "n_embd": key("embedding_length"),
              "n_inner": key("feed_forward_length"), "n_layer": key("block_count"), "n_head": key("attention.head_count"),
              "n_positions": 8192, "max_trained_positions": key("context_length"), "rotary_emb_base": key("rope.freq_base"),
              "rotary_scaling_factor": 2, "layer_norm_epsilon": key("attention.layer_norm_epsilon"), "type_vocab_size": 2,
              "vocab_size": f.n_vocab, "prenorm": False, "rotary_emb_fraction": 1.0, "rotary_emb_scale_base": None}
    (folder / "config.json").write_text(json.dumps({**config, **fields}))
    (folder / "tokenizer.json").write_text(json.dumps(hf_folder.word_piece(SPECIAL + WORDS)))
    (folder / "model.safetensors").write_bytes(hf_folder.safetensors({name(n): t for n, t in tensors.items()}))
    return tmp_path / "m.gguf", folder


@pytest.mark.parametrize("kind", ["F32", "F16"])
def test_nomic(start, tmp_path, kind):
    path, folder = nomic(tmp_path, kind)
    expected = embed(start, path, TEXTS, "--pooling", "mean")
    assert embed(start, folder, TEXTS, "--pooling", "mean") == expected
    assert np.unique(np.array(expected), axis=0).shape[0] == len(TEXTS)


@pytest.mark.parametrize("fields,expected", [
    ({"activation_function": "geglu"}, "'activation_function' is 'geglu'"), ({"prenorm": True}, "'prenorm' is true"),
    ({"rotary_emb_fraction": 0.5}, "'rotary_emb_fraction' is 0.5"), ({"moe_every_n_layers": 2}, "'moe_every_n_layers' is 2"),
    ({"rotary_emb_scale_base": 512}, "'rotary_emb_scale_base' is not supported"), ({"n_positions": None}, "'n_positions' is missing"),
    ({"n_inner": None}, "'n_inner' is missing")])
def test_nomic_that_is_refused(tmp_path, fields, expected):
    _, folder = nomic(tmp_path, **fields)
    _, err = quire("generate", "--model", folder, "--prompt", "a", "--max-tokens", 1, "--log-level", "off", status=1)
    assert expected in err


MODERN = {"attn_norm": "attn_norm", "attn_qkv": "attn.Wqkv", "attn_output": "attn.Wo", "ffn_norm": "mlp_norm",
          "ffn_up": "mlp.Wi", "ffn_down": "mlp.Wo"}
MODERN_WHOLE = {"token_embd": "embeddings.tok_embeddings", "token_embd_norm": "embeddings.norm", "output_norm": "final_norm"}


def modern_bert(tmp_path, variant="plain", kind="F32", **fields):
    """A GGUF file and a folder of ModernBertModel, whose texts stand between [CLS] and [SEP]."""
    f = fixtures.Fixture("modern-bert", variant, kind, 1, 128)
    fixtures.modern_bert(f)
    fixtures.letters(f, "[CLS]", "[SEP]")
    keys, tensors = gguf_file.read_parts(gguf_file.write(f.keys, f.tensors))
    (tmp_path / "m.gguf").write_bytes(gguf_file.write(keys, tensors))
    folder = tmp_path / "hf"
    folder.mkdir()

    def name(ours):
        if not ours.startswith("blk."):
            part, end = ours.split(".")
            return f"model.{MODERN_WHOLE[part]}.{end}"
        _, layer, part, end = ours.split(".")
        return f"model.layers.{layer}.{MODERN[part]}.{end}"

    def key(suffix, default=None):
        return keys.get(f"modern-bert.{suffix}", default)

    n = key("block_count")
    config = {"architectures": ["ModernBertModel"], "hidden_size": key("embedding_length"), "num_hidden_layers": n,
              "intermediate_size": key("feed_forward_length"), "num_attention_heads": key("attention.head_count"),
              "max_position_embeddings": key("context_length"), "norm_eps": key("attention.layer_norm_epsilon"),
              "global_rope_theta": key("rope.freq_base"), "local_rope_theta": key("rope.freq_base_swa", 10000.0),
              "local_attention": key("attention.sliding_window"), "global_attn_every_n_layers": 3,
              "hidden_activation": key("hidden_activation"), "vocab_size": f.n_vocab,
              "layer_types": ["sliding_attention" if i % 3 else "full_attention" for i in range(n)]}
    tok = hf_folder.plain_tokenizer(keys)
    tokens = hf_folder.tokens_of(keys)
    tok["added_tokens"] = [hf_folder.added(len(tokens) - 2 + i, t, True) for i, t in enumerate(tokens[-2:])]
    tok["post_processor"] = {"type": "TemplateProcessing", "single": [
        {"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
        {"SpecialToken": {"id": "[SEP]", "type_id": 0}}]}
    (folder / "config.json").write_text(json.dumps({**config, **fields}))
    (folder / "tokenizer.json").write_text(json.dumps(tok))
    (folder / "model.safetensors").write_bytes(hf_folder.safetensors({name(n): t for n, t in tensors.items()}))
    return tmp_path / "m.gguf", folder


@pytest.mark.parametrize("variant,kind", [("plain", "F32"), ("silu", "F32"), ("plain", "F16")])
def test_modern_bert(start, tmp_path, variant, kind):
    path, folder = modern_bert(tmp_path, variant, kind)
    texts = ["abc", "a" * 40, "cab" * 9, ""]
    expected = embed(start, path, texts, "--pooling", "mean")
    assert embed(start, folder, texts, "--pooling", "mean") == expected
    assert np.unique(np.array(expected), axis=0).shape[0] == len(texts)
    assert ids(folder, "abc")[0] == ids(path, "abc")[0] and ids(folder, "abc") == ids(path, "abc")


@pytest.mark.parametrize("fields,expected", [
    ({"hidden_activation": "relu"}, "'hidden_activation' is 'relu', but only gelu and silu"),
    ({"layer_types": ["full_attention"] * 4}, "'layer_types' must be full_attention for the first of every 3 layers"),
    ({"rope_parameters": {"full_attention": {"rope_type": "yarn"}}}, "'rope_type' is not default"),
    ({"intermediate_size": None}, "'intermediate_size' is missing"), ({"local_attention": 0}, "'local_attention' is not a whole")])
def test_modern_bert_that_is_refused(tmp_path, fields, expected):
    _, folder = modern_bert(tmp_path, **fields)
    _, err = quire("generate", "--model", folder, "--prompt", "a", "--max-tokens", 1, "--log-level", "off", status=1)
    assert expected in err


def test_newer_bases(start, tmp_path):
    """transformers 5 writes the bases of rope in an object for each kind of layer."""
    path, folder = modern_bert(tmp_path, "silu", global_rope_theta=None, local_rope_theta=None, rope_parameters={
        "full_attention": {"rope_theta": 2000.0, "rope_type": "default"}, "sliding_attention": {"rope_theta": 500.0}})
    assert embed(start, folder, ["abcabc"], "--pooling", "mean") == embed(start, path, ["abcabc"], "--pooling", "mean")


ENCODERS = {
    "problem": ("bert", "labels", {"problem_type": "multi_label_classification"}, "'problem_type' is neither"),
    "label": ("bert", "labels", {"id2label": {"0": "a", "2": "b"}}, "'id2label' has no text for label 1"),
    "positions": ("xlm", None, {"max_position_embeddings": 2}, "'max_position_embeddings' is 2, but must be above 2"),
    "pad": ("xlm", None, {"pad_token_id": 5000, "max_position_embeddings": 9000}, "has no rows behind the padding's"),
}


@pytest.mark.parametrize("name", list(ENCODERS))
def test_encoders_that_are_refused(tmp_path, name):
    family, head, fields, expected = ENCODERS[name]
    _, folder = pair(tmp_path, family, head, **fields)
    _, err = quire("generate", "--model", folder, "--prompt", "a", "--max-tokens", 1, "--log-level", "off", status=1)
    assert expected in err


UNIGRAM = {
    "vocab": (lambda t: t["model"].update(vocab=[["a"]]), "element 0 of 'vocab' is not a pair"),
    "long": (lambda t: t["model"]["vocab"].extend([["x", 0.0]] * 9), "'vocab' is not a list of at most 'vocab_size'"),
    "unknown": (lambda t: t["model"].update(unk_id=None), "'unk_id' is not the id of a token"),
    "fallback": (lambda t: t["model"].update(byte_fallback=True), "'byte_fallback' is true"),
    "step": (lambda t: t["normalizer"]["normalizers"].append({"type": "Lowercase"}), "the step 'Lowercase' of its 'normalizer' or 'pre_tokenizer' is not supported"),
    "spaces": (lambda t: t["normalizer"].update(normalizers=[]), "keep spaces that SentencePiece does not"),
    "white": (lambda t: t.update(pre_tokenizer={"type": "WhitespaceSplit"}), "'WhitespaceSplit' without a 'precompiled_charsmap'"),
    "map": (lambda t: t.update(normalizer={"type": "Precompiled", "precompiled_charsmap": "!"}), "'precompiled_charsmap' is not base64"),
    "template": (lambda t: t.update(post_processor=None), "does not put a text between two special tokens"),
}


@pytest.mark.parametrize("name", list(UNIGRAM))
def test_unigram_that_is_refused(tmp_path, name):
    _, folder = pair(tmp_path, "xlm", None)
    change, expected = UNIGRAM[name]
    in_tokenizer(lambda t: change(t) and None)(folder)
    _, err = quire("tokenize", "--model", folder, text=b"a", status=1)
    assert expected in err


# ---- what is refused ----

def in_normalizer(**fields):
    return in_tokenizer(lambda t: t["normalizer"].update(fields))


def in_model(**fields):
    return in_tokenizer(lambda t: t["model"].update(fields))


def in_pooling(**fields):
    return change_json("1_Pooling/config.json", lambda c: c.update(fields))


def add_module(folder):
    change_json("modules.json", lambda m: m.append({"path": "3_Dense", "type": "sentence_transformers.models.Dense"}))(folder)


def lower_twice(folder):
    in_normalizer(lowercase=False)(folder)
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 64, "do_lower_case": true}')


NORM = "embeddings.LayerNorm.weight"
DAMAGES = {
    "act": (in_config(hidden_act="gelu_new"), "'hidden_act' is 'gelu_new', but only gelu is supported"),
    "positions": (in_config(position_embedding_type="relative_key"), "'position_embedding_type' is 'relative_key'"),
    "decoder": (in_config(is_decoder=True), "'is_decoder' is true"),
    "quantised": (in_config(quantization_config={}), "'quant_method' of 'quantization_config' is '?'"),
    "no-types": (without("type_vocab_size"), "'type_vocab_size' is missing"),
    "layers-more": (in_config(num_hidden_layers=3), "'blk.2."),
    "embd-other": (in_config(hidden_size=144), "has dimensions"),
    "class": (in_config(architectures=["BertForMaskedLM"]), "architecture 'BertForMaskedLM' is not supported"),
    "name": (in_head(lambda h: h.update({"embeddings.other": h.pop(NORM)})), "tensor 'embeddings.other': is not supported"),
    "missing": (in_head(lambda h: h.pop(NORM) and None), "'token_embd_norm.weight' is missing"),
    "control": (in_normalizer(clean_text=False), "'clean_text' is false"),
    "chinese": (in_normalizer(handle_chinese_chars=False), "'handle_chinese_chars' is false"),
    "normalizer": (in_normalizer(type="NFC"), "'normalizer' of WordPiece is 'NFC', but only BertNormalizer is supported"),
    "words": (in_tokenizer(lambda t: t.update(pre_tokenizer={"type": "Whitespace"})), "is not BertPreTokenizer"),
    "template": (in_tokenizer(lambda t: t["post_processor"]["single"].pop() and None), "between two special tokens"),
    "prefix": (in_model(continuing_subword_prefix="@@"), "'continuing_subword_prefix' is not '##'"),
    "long": (in_model(max_input_chars_per_word=50), "'max_input_chars_per_word' is not 100"),
    "unknown": (in_model(unk_token="<unk>"), "'unk_token' '<unk>' is not a token"),
    "id": (in_tokenizer(lambda t: t["model"]["vocab"].update(q=99)), "the id of token 'q' is not a whole number"),
    "max": (in_pooling(pooling_mode_max_tokens=True, pooling_mode_mean_tokens=False), "'pooling_mode_max_tokens' is true"),
    "two": (in_pooling(pooling_mode_cls_token=True), "2 of the 'pooling_mode_*' are true"),
    "dense": (add_module, "the module 'sentence_transformers.models.Dense' is not supported"),
    "kind": (in_model(type="WordLevel"), "the tokenizer of BertModel is not of the kind WordPiece"),
    "added": (in_tokenizer(lambda t: t.update(added_tokens=3)), "'added_tokens' is not a list"),
    "lower": (lower_twice, "'do_lower_case' is true"),
    "prompt": (lambda f: (f / "config_sentence_transformers.json").write_text('{"default_prompt_name": "query"}'),
               "'default_prompt_name' is 'query'"),
    "modules": (lambda f: (f / "modules.json").write_text("{}"), "modules.json: is not a JSON list"),
}


@pytest.mark.parametrize("name", list(DAMAGES))
def test_damaged(tmp_path, name):
    folder = hf_folder.write_bert(tmp_path / "m", *parts())
    damage, expected = DAMAGES[name]
    damage(folder)
    _, err = quire("generate", "--model", folder, "--prompt", "a", "--max-tokens", 1,
                   "--log-level", "off", status=1)
    assert err.count("\n") == 1 and err.startswith("quire: ") and expected in err and str(folder) in err
