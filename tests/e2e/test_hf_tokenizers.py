"""tokenizer.json: what added tokens ask of the text around them, and where SentencePiece's space is added.

The expected ids are made here, by the rules that the library `tokenizers` has for added tokens, of vocabularies whose
other tokens are single characters.
"""
import json
import random
import re

import pytest

import hf_folder
from test_safetensors import fixtures, gguf_file, quire

LEFT, RIGHT, ALONE = 1, 2, 4
NAMES = ["<|a|>", "<|ab|>", "<b>", "word", "<mask>", " x", "\u00e91"]
PARTS = NAMES + ["a", "b", "x", "_", "1", " ", "  ", "\n", "\t", "\u00a0", "\u3000", "\u00e9", "\u6f22", "-", "\u0301", "\u200d"]
CHARS = sorted({c for part in PARTS for c in part})


def folder_of(tmp_path, tok):
    """A folder without weights of use; only its vocabulary is read."""
    tokens = {**tok["model"]["vocab"], **{a["content"]: a["id"] for a in tok["added_tokens"]}}
    folder = tmp_path / "m"
    folder.mkdir(exist_ok=True)
    n = max(tokens.values()) + 1
    (folder / "config.json").write_text(json.dumps({
        "architectures": ["LlamaForCausalLM"], "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1,
        "num_attention_heads": 1, "max_position_embeddings": 64, "vocab_size": n, "tie_word_embeddings": True}))
    (folder / "tokenizer.json").write_text(json.dumps(tok))
    (folder / "model.safetensors").write_bytes(hf_folder.safetensors(
        {"model.embed_tokens.weight": ("F32", (n, 8), bytes(n * 32))}))
    return folder


def ids_of(folder, text):
    return [int(i) for i in quire("tokenize", "--model", folder, "--ids", text=text.encode())[0].split()]


# ---- added tokens ----

def is_word(c):
    """\\w of Unicode's regular expressions: Python's lacks marks and joiners."""
    return re.match(r"\w", c) is not None or c in "\u0301\u200d"


def cut(text, sides):
    """(is a token, its text) of each part, as `tokenizers` cuts. sides: name -> bits."""
    found, done = [], 0
    for m in re.finditer("|".join(re.escape(n) for n in sorted(sides, key=len, reverse=True)), text):
        start, stop, side = m.start(), m.end(), sides[m[0]]
        if side & ALONE and (start > 0 and is_word(text[start - 1]) or stop < len(text) and is_word(text[stop])):
            continue
        if side & LEFT:
            start = max(done, start - len(re.search(r"\s*$", text[:start])[0]))
        if side & RIGHT:
            stop += len(re.match(r"\s*", text[stop:])[0])
        if start > done:
            found.append((False, text[done:start]))
        found.append((True, m[0]))
        done = stop
    return found + [(False, text[done:])]


def byte_level(char):
    return "".join(hf_letters()[b] for b in char.encode())


def hf_letters():
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [b for b in range(256) if b not in plain]
    return {**{b: chr(b) for b in plain}, **{b: chr(256 + i) for i, b in enumerate(rest)}}


@pytest.mark.parametrize("seed", range(8))
def test_sides(tmp_path, seed):
    rng = random.Random(seed)
    sides = {n: sum(bit for bit in (LEFT, RIGHT, ALONE) if rng.random() < 0.4) for n in NAMES}
    vocab = {c: i for i, c in enumerate(hf_letters().values())}
    added = [{**hf_folder.added(256 + i, n, rng.random() < 0.5), "lstrip": bool(sides[n] & LEFT),
              "rstrip": bool(sides[n] & RIGHT), "single_word": bool(sides[n] & ALONE)} for i, n in enumerate(NAMES)]
    folder = folder_of(tmp_path, hf_folder.tokenizer(vocab, [], hf_folder.byte_level(True), added))
    for _ in range(25):
        text = "".join(rng.choice(PARTS) for _ in range(rng.randint(1, 16)))
        expected = []
        for is_token, part in cut(text, sides):
            expected += [256 + NAMES.index(part)] if is_token else [vocab[hf_letters()[b]] for b in part.encode()]
        assert ids_of(folder, text) == expected, (text, sides)


def test_spaces_take_no_time(tmp_path):
    """A token that is a space, takes all that follow, and stands between others that take none."""
    vocab = {c: i for i, c in enumerate(hf_letters().values())}
    added = [{**hf_folder.added(256, " ", False), "rstrip": True}, hf_folder.added(257, "\t", False)]
    folder = folder_of(tmp_path, hf_folder.tokenizer(vocab, [], hf_folder.byte_level(True), added))
    assert ids_of(folder, " \t" * 100_000) == [256, 257] * 100_000


# ---- SentencePiece's space ----

def pieces(pre, normalizer, more=()):
    vocab = {t: i for i, t in enumerate(["<unk>", "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(256)), "\u2581", "a", "b",
                                         "\u2581a", *more])}
    added = [hf_folder.added(i, t, True) for i, t in enumerate(["<unk>", "<s>", "</s>"])]
    tok = hf_folder.tokenizer(vocab, ["\u2581 a"], pre, added, byte_fallback=True, unk_token="<unk>")
    return {**tok, "normalizer": normalizer}, vocab


def metaspace(scheme, **more):
    return {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": scheme, **more}


REPLACE = {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}
PREPEND = {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "\u2581"}, REPLACE]}
WORDS = {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False}
# Of the texts "ab", " ab", "a</s>a" and "</s> a": what stands before, and behind the token.
SCHEMES = {
    "legacy": (None, PREPEND, ["_a b", "_ _a b", "_a E _a", "E _ _a"]),
    "gemma": (WORDS, REPLACE, ["a b", "_a b", "a E a", "E _a"]),
    "never": (metaspace("never", split=False), None, ["a b", "_a b", "a E a", "E _a"]),
    "first": (metaspace("first", split=False), None, ["_a b", "_a b", "_a E a", "E _a"]),
    "always": (metaspace("always", split=False), None, ["_a b", "_a b", "_a E _a", "E _a"]),
    "cut": (metaspace("always"), None, ["_a b", "_a b", "_a E _a", "E _a"]),
}


@pytest.mark.parametrize("name", list(SCHEMES))
def test_added_space(tmp_path, name):
    pre, normalizer, expected = SCHEMES[name]
    tok, vocab = pieces(pre, normalizer)
    folder = folder_of(tmp_path, tok)
    letters = {"_": "\u2581", "_a": "\u2581a", "E": "</s>"}
    for text, ids in zip(["ab", " ab", "a</s>a", "</s> a"], expected):
        assert ids_of(folder, text) == [vocab[letters.get(i, i)] for i in ids.split()]


REFUSED = {
    "cut": (metaspace("always"), None, ["a\u2581b"], "cuts before each space, but token 263 has one within"),
    "behind": (None, {"type": "Sequence", "normalizers": [REPLACE, {"type": "NFKC"}]}, [],
               "the step 'NFKC' of its 'normalizer' is not supported for this kind of tokenizer, or not at its place"),
            "words": (WORDS, None, [], "is not SentencePiece's"),
}


@pytest.mark.parametrize("name", list(REFUSED))
def test_refused(tmp_path, name):
    pre, normalizer, more, expected = REFUSED[name]
    folder = folder_of(tmp_path, pieces(pre, normalizer, more)[0])
    _, err = quire("tokenize", "--model", folder, text=b"a", status=1)
    assert expected in err


# ---- normalizers ----

with open("tests/fixtures/normalizers.json", encoding="utf-8") as f:
    NORMALIZED = json.load(f)  # made by tests/real/normalizers.py with the library `tokenizers`
BETWEEN = "<|between|>"


def bytes_only(normalizer, *names):
    """Tokens are bytes, and added ones: (name, is it looked for in normalized text?)."""
    vocab = {c: i for i, c in enumerate(hf_letters().values())}
    added = [{**hf_folder.added(256 + i, name, False), "normalized": normalized}
             for i, (name, normalized) in enumerate([(BETWEEN, False), *names])]
    tok = hf_folder.tokenizer(vocab, [], hf_folder.byte_level(True), added)
    order = list(hf_letters())
    return {**tok, "normalizer": normalizer}, lambda text: [order.index(b) for b in text.encode()]


@pytest.mark.parametrize("name", list(NORMALIZED["steps"]))
def test_normalizer(tmp_path, name):
    """All texts at once, with a special token between: each is normalized by itself."""
    tok, ids = bytes_only(NORMALIZED["steps"][name])
    expected = []
    for text, results in NORMALIZED["texts"]:
        expected += ids(results.get(name, text)) + [256]
    texts = BETWEEN.join(text for text, _ in NORMALIZED["texts"])
    assert ids_of(folder_of(tmp_path, tok), texts) == expected[:-1]


def test_normalized_names(tmp_path):
    """"normalized" of an added token: is it looked for in the text as it comes, or in what that becomes?"""
    nfc = {"type": "NFC"}
    tok, ids = bytes_only(nfc, ("cafe\u0301", True), ("na\u00efve", False), ("\u212b", False), ("x>", True))
    folder = folder_of(tmp_path, tok)
    assert ids_of(folder, "cafe\u0301 caf\u00e9") == [257, *ids(" "), 257]
    assert ids_of(folder, "na\u00efve nai\u0308ve") == [258, *ids(" na\u00efve")]
    assert ids_of(folder, "\u212b \u00c5 A\u030a") == [259, *ids(" \u00c5 \u00c5")]
    assert ids_of(folder, "x> x>\u0338") == [260, *ids(" x\u226f")]  # the sign and the stroke are one character
    tok["normalizer"] = None
    assert ids_of(folder_of(tmp_path, tok), "cafe\u0301 caf\u00e9") == [257, *ids(" caf\u00e9")]


UNKNOWN_STEPS = {
    "nmt": ({"type": "Nmt"}, "the step 'Nmt' of its 'normalizer' is not supported"),
    "map": ({"type": "Precompiled", "precompiled_charsmap": ""}, "the step 'Precompiled' of its 'normalizer' is not supported"),
    "bert": ({"type": "BertNormalizer"}, "the step 'BertNormalizer' of its 'normalizer' is not supported"),
    "inner": ({"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "ByteLevel"}]},
              "the step 'ByteLevel' of its 'normalizer' is not supported"),
    "nothing": ({}, "the step '' of its 'normalizer' is not supported"),
    "empty": ({"type": "Replace", "pattern": {"String": ""}, "content": "x"}, "the step 'Replace' of its 'normalizer' is not"),
    "regex": ({"type": "Replace", "pattern": {"Regex": "(a|b)c+d*"}, "content": "x"}, "step 'replace_regex' with '(a|b)c+d*' is not"),
    "many": ({"type": "Sequence", "normalizers": [{"type": "NFC"}] * 17}, "'normalizer' has more than 16 steps"),
    "deep": ({"type": "Sequence", "normalizers": [{"type": "Sequence", "normalizers": [{"type": "Sequence", "normalizers": [
        {"type": "Sequence", "normalizers": [{"type": "Sequence", "normalizers": []}]}]}]}]}, "is nested more than 4 deep"),
}


@pytest.mark.parametrize("name", list(UNKNOWN_STEPS))
@pytest.mark.parametrize("flags", [(), ("--tokenizer-pre", "gpt-2")])
def test_unknown_normalizer(tmp_path, name, flags):
    """Rules that are forced are those of cutting: they make no step superfluous."""
    normalizer, expected = UNKNOWN_STEPS[name]
    folder = folder_of(tmp_path, bytes_only(normalizer)[0])
    _, err = quire("tokenize", "--model", folder, *flags, text=b"a", status=1)
    assert expected in err


@pytest.mark.parametrize("steps,expected", [
    (["nfc", ""], "has 2 elements, but must have three for each step"), (["nfc", "", ""] * 17, "has 51 elements, but must have three for each step"),
    (["nft", "", ""], "step 'nft' with '' is not supported"), (["replace", "", "x"], "step 'replace' with '' is not supported"),
    (["replace_regex", "(", ""], "step 'replace_regex' with '(' is not supported"), ([1], "normalizer.steps")])
def test_steps_that_are_refused(tmp_path, steps, expected):
    """The key in a GGUF file."""
    keys, tensors = gguf_file.read_parts(fixtures.make("llama", "plain", "F32"))
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf_file.write({**keys, "tokenizer.ggml.normalizer.steps": steps}, tensors))
    _, err = quire("tokenize", "--model", path, text=b"a", status=1)
    assert expected in err


@pytest.mark.parametrize("pre,is_composed", [("qwen2", True), ("qwen35", True), ("command-r", True), ("olmo", True), ("gpt-2", False)])
def test_family_normalizer(tmp_path, pre, is_composed):
    """GGUF files do not name the normalizer, but the rules of families that have one."""
    keys, tensors = gguf_file.read_parts(fixtures.make("llama", "plain", "F32"))
    letters = list(hf_letters().values())
    keys.update({"tokenizer.ggml.pre": pre, "tokenizer.ggml.tokens": letters, "tokenizer.ggml.token_type": [1] * 256,
                 "tokenizer.ggml.merges": [], "tokenizer.ggml.model": "gpt2"})
    keys = {k: v for k, v in keys.items() if not k.endswith(("_token_id", ".scores"))}
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf_file.write(keys, tensors))
    composed, decomposed = "\ud55c\uad6d\uc5b4", "\u1112\u1161\u11ab\u1100\u116e\u11a8\u110b\u1165"
    order = list(hf_letters())
    expected = composed if is_composed else decomposed
    assert ids_of(path, decomposed) == [order.index(b) for b in expected.encode()]
    keys["tokenizer.ggml.normalizer.steps"] = ["nfd", "", ""]
    path.write_bytes(gguf_file.write(keys, tensors))
    assert ids_of(path, composed) == [order.index(b) for b in decomposed.encode()]


@pytest.mark.parametrize("sides,expected", [([0], "token_sides has 1 elements for 37 tokens"),
                                            ([16] * 37, "token_sides has 16 for token 0, but only 0 to 15 are supported")])
def test_sides_that_are_refused(tmp_path, sides, expected):
    """The key in a GGUF file."""
    keys, tensors = gguf_file.read_parts(fixtures.make("llama", "plain", "F32"))
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf_file.write({**keys, "tokenizer.ggml.token_sides": sides}, tensors))
    _, err = quire("tokenize", "--model", path, text=b"a", status=1)
    assert expected in err
