"""Folders of BertModel: the same bits as the GGUF file with the same numbers, the same tokens; and what is refused."""

import numpy as np
import pytest

import hf_folder
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
    "name": (in_head(lambda h: h.update({"embeddings.other": h.pop(NORM)})), "tensor 'embeddings.other': is no part"),
    "missing": (in_head(lambda h: h.pop(NORM) and None), "'token_embd_norm.weight' is missing"),
    "control": (in_normalizer(clean_text=False), "'clean_text' is false"),
    "chinese": (in_normalizer(handle_chinese_chars=False), "'handle_chinese_chars' is false"),
    "normalizer": (in_normalizer(type="NFC"), "'normalizer' of WordPiece is not BertNormalizer"),
    "words": (in_tokenizer(lambda t: t.update(pre_tokenizer={"type": "Whitespace"})), "is not BertPreTokenizer"),
    "template": (in_tokenizer(lambda t: t["post_processor"]["single"].pop() and None), "between two special tokens"),
    "prefix": (in_model(continuing_subword_prefix="@@"), "'continuing_subword_prefix' is not '##'"),
    "long": (in_model(max_input_chars_per_word=50), "'max_input_chars_per_word' is not 100"),
    "unknown": (in_model(unk_token="<unk>"), "'unk_token' '<unk>' is no token"),
    "id": (in_tokenizer(lambda t: t["model"]["vocab"].update(q=99)), "the id of token 'q' is no whole number"),
    "max": (in_pooling(pooling_mode_max_tokens=True, pooling_mode_mean_tokens=False), "'pooling_mode_max_tokens' is true"),
    "two": (in_pooling(pooling_mode_cls_token=True), "2 of the 'pooling_mode_*' are true"),
    "dense": (add_module, "the module 'sentence_transformers.models.Dense' is not supported"),
    "kind": (in_model(type="BPE"), "the tokenizer of BertModel is not of the kind WordPiece"),
    "added": (in_tokenizer(lambda t: t.update(added_tokens=3)), "'added_tokens' is no list"),
    "lower": (lower_twice, "'do_lower_case' is true"),
    "prompt": (lambda f: (f / "config_sentence_transformers.json").write_text('{"default_prompt_name": "query"}'),
               "'default_prompt_name' is 'query'"),
    "modules": (lambda f: (f / "modules.json").write_text("{}"), "modules.json: is no JSON list"),
}


@pytest.mark.parametrize("name", list(DAMAGES))
def test_damaged(tmp_path, name):
    folder = hf_folder.write_bert(tmp_path / "m", *parts())
    damage, expected = DAMAGES[name]
    damage(folder)
    _, err = quire("generate", "--model", folder, "--prompt", "a", "--max-tokens", 1,
                   "--log-level", "off", status=1)
    assert err.count("\n") == 1 and err.startswith("quire: ") and expected in err and str(folder) in err
