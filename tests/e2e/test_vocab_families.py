"""WordPiece, unigram and the variants of SentencePiece on small vocabularies made from the pages.

What is expected comes from encoders written here, plainly and slowly, from how the tokenizers are
described; they share nothing with the C code.
"""
import collections
import math
import random
import struct
import subprocess
import unicodedata

import pytest

import pages
import quire as q
import vocab_file as vf

SPACE = "\u2581"
FOREIGN = ["Привет, мир!", "日本語 中文字符", "한국어 텍스트", "naïve café ÅNGSTRÖM", "Straße İstanbul ÉCOLE", "हिन्दी", "tab\tnew\nline",
           "  lead  double   ", "“quotes” … — ‘x’", "e\u0301 a\u0308\u0323", "\u00a0nb\u3000wide\u200bzero", "x\x01y\x7fz\ufffd",
           "ﬁne ﬂow ① Ⅷ", "😀 👩‍👩‍👧", "a" * 100, "a" * 101, "[CLS] x [SEP]", "$5+3=8 <a^b>", "", " "]
ALPHABET = list("abcdeiost ABCS  .,'!?-12\n\t+") + list("éÅßİΣς日한न\u0301①ﬁⅧ😀¿€“\u00a0\u3000\u200b")


def texts(seed):
    rng, lines = random.Random(seed), [line for line in pages.text().split("\n") if line]
    made = ["".join(rng.choices(ALPHABET, k=rng.randrange(1, 25))) for _ in range(60)]
    return lines[::9][:40] + FOREIGN + made


def encode(path, text, *flags):
    run = subprocess.run([q.BIN, "tokenize", "--model", path, "--ids", *flags], input=text.encode(),
                         stdout=subprocess.PIPE, timeout=60, check=True)
    return [int(i) for i in run.stdout.split()]


def common(pieces, n):
    return [p for p, _ in collections.Counter(pieces).most_common(n)]


def parts(word, longest=6):
    return [word[i:j] for i in range(len(word)) for j in range(i + 1, min(len(word), i + longest) + 1)]


# ---- WordPiece

def bert_words(text, uncased):
    out = []
    for c in text:
        if c in "\t\n\r" or unicodedata.category(c)[0] == "Z":
            out.append(" ")
        elif c != "\ufffd" and unicodedata.category(c)[0] != "C":
            out.append(f" {c} " if 0x4E00 <= ord(c) <= 0x9FFF else c)
    text = "".join(out)
    if uncased:
        text = "".join(c for c in unicodedata.normalize("NFD", text) if unicodedata.category(c) != "Mn")
        text = "".join(c.lower() for c in text)
    is_mark = [c < "\x80" and not c.isalnum() and c != " " or unicodedata.category(c)[0] == "P" for c in text]
    return "".join(f" {c} " if mark else c for c, mark in zip(text, is_mark)).split(" ")


def word_pieces(word, ids, unknown):
    found, at = [], 0
    if len(word) > 100:
        return [unknown]
    while at < len(word):
        ends = [end for end in range(len(word), at, -1) if (SPACE if at == 0 else "") + word[at:end] in ids]
        if not ends:
            return [unknown]
        found.append(ids[(SPACE if at == 0 else "") + word[at:ends[0]]])
        at = ends[0]
    return found


@pytest.mark.parametrize("uncased", [True, False])
def test_word_piece(tmp_path, uncased):
    words = [w for w in bert_words(pages.text() + " ".join(FOREIGN[:7]), uncased) if w]
    tails = [p for w in words for p in parts(w)]
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    pieces += sorted({SPACE + w for w in common(words, 300)} | {SPACE + w[0] for w in words if w[0] not in "zÅ한"})
    pieces += common(tails, 400)
    path = tmp_path / "wpm.gguf"
    vf.write(path, "bert", pieces, token_type=[vf.CONTROL] * 5 + [vf.NORMAL] * (len(pieces) - 5), cls_token_id=2,
             unknown_token_id=1, seperator_token_id=3, mask_token_id=4, normalizer__lowercase=uncased)
    ids = {p: i for i, p in enumerate(pieces) if i >= 5}
    for text in texts(uncased):
        expected = [i for w in bert_words(text, uncased) if w for i in word_pieces(w, ids, 1)]
        assert encode(path, text, "--no-special") == expected, repr(text)
    assert encode(path, "the [MASK] is")[0] == 2 and encode(path, "the")[-1] == 3
    assert 4 in encode(path, "the [MASK] is") and 4 not in encode(path, "the [MASK] is", "--no-special")


# ---- unigram

RULES = {"ﬁ": "fi", "ﬂ": "fl", "①": "1", "Ⅷ": "VIII", "\u00a0": " ", "\u3000": " ", "\t": " ", "\n": " ", "\u200b": "",
         "\x01": "", "e\u0301": "é", "É": "é"}


def charsmap(rules):
    """The double array of SentencePiece: a child's place is its parent's base XOR the byte."""
    trie, texts_at, blob, bases = {}, {}, b"", set()
    for source, target in rules.items():
        node = trie
        for byte in source.encode():
            node = node.setdefault(byte, {})
        texts_at[target] = texts_at.get(target, len(blob))
        blob += target.encode() + b"\0" if texts_at[target] == len(blob) else b""
        node[None] = texts_at[target]
    units = {0: 0}

    def place(node, index):
        wanted = [0 if byte is None else byte for byte in node]
        base = next(b for b in range(1, 1 << 20) if b not in bases and all((b ^ w) not in units for w in wanted))
        bases.add(base)  # else a child of one could pass for the other's
        units[index] |= (index ^ base) << 10 | (None in node) << 8
        units.update({base ^ (byte or 0): byte or 0 for byte in node})
        for byte, child in node.items():
            if byte is None:
                units[base] = child | 1 << 31
            else:
                place(child, base ^ byte)

    place(trie, 0)
    count = max(units) + 1
    packed = struct.pack(f"<{count}I", *(units.get(i, 0) for i in range(count)))
    return struct.pack("<I", len(packed)) + packed + blob


def normalised(text, merge, prefix):
    out, at = "", 0
    while at < len(text):
        n = next((n for n in (2, 1) if text[at:at + n] in RULES), 0)
        out += RULES[text[at:at + n]] if n else text[at]
        at += n or 1
    if merge:
        out = " ".join(w for w in out.split(" ") if w)
    return (SPACE if prefix and out else "") + out.replace(" ", SPACE)


def best_way(text, scores, ids, unknown, byte_ids):
    best = [(0.0, 0, None)] + [(-math.inf, 0, None)] * len(text)
    for at in range(len(text)):
        offers = [(end, scores[text[at:end]], ids[text[at:end]]) for end in range(at + 1, len(text) + 1)
                  if text[at:end] in ids]
        if all(end != at + 1 for end, _, _ in offers):
            offers.append((at + 1, min(scores.values()) - 10, None))
        for end, score, piece in offers:
            if best[at][0] + score > best[end][0]:
                best[end] = (best[at][0] + score, at, piece)
    way, at = [], len(text)
    while at > 0:
        way.append((best[at][2], text[best[at][1]:at]))
        at = best[at][1]
    found = []
    for piece, characters in reversed(way):
        if piece is not None:
            found.append(piece)
        elif byte_ids:
            found += [byte_ids + b for b in characters.encode()]
        elif not found or found[-1] != unknown:
            found.append(unknown)
    return found


@pytest.mark.parametrize("merge,prefix,with_bytes", [(True, True, False), (False, True, False), (True, False, True)])
def test_unigram(tmp_path, merge, prefix, with_bytes):
    words = [SPACE + w for w in normalised(pages.text(), True, False).split(SPACE)]
    counts = collections.Counter(p for w in words for p in parts(w, 8))
    chosen = [p for p, _ in counts.most_common(700)] + [c for c in sorted({c for w in words for c in w}) if c not in "zq"]
    chosen = [p for p in dict.fromkeys(chosen)]
    total = sum(counts.values())
    pieces = ["<pad>", "</s>", "<unk>"] + ([f"<0x{b:02X}>" for b in range(256)] if with_bytes else []) + chosen
    first = len(pieces) - len(chosen)
    scores = [0.0] * first + [struct.unpack("f", struct.pack("f", math.log(counts[p] / total)))[0] for p in chosen]
    types = [vf.CONTROL, vf.CONTROL, vf.UNKNOWN] + [vf.BYTE] * (first - 3) + [vf.NORMAL] * len(chosen)
    path = tmp_path / "ugm.gguf"
    vf.write(path, "t5", pieces, scores=scores, token_type=types, eos_token_id=1, unknown_token_id=2,
             add_space_prefix=prefix, remove_extra_whitespaces=merge, precompiled_charsmap=charsmap(RULES))
    ids = {p: first + i for i, p in enumerate(chosen)}
    table = dict(zip(chosen, scores[first:]))
    for text in texts(merge):
        expected = best_way(normalised(text, merge, prefix), table, ids, 2, 3 if with_bytes else None)
        assert encode(path, text, "--no-special") == expected, repr(text)
    assert encode(path, "the")[-1] == 1 and encode(path, "the", "--no-special")[-1] != 1


# ---- SentencePiece with tokens of its own for runs of spaces, and BPE on characters

BYTES = [f"<0x{b:02X}>" for b in range(256)]


def test_runs_of_spaces_are_one_token(tmp_path):
    own = [SPACE * 2, SPACE * 3, "\n", "\n\n"]
    pieces = ["<unk>", "<s>", "</s>", *own, *BYTES, SPACE, "a", "b", SPACE + "a"]
    types = [vf.UNKNOWN, vf.CONTROL, vf.CONTROL, *[vf.USER_DEFINED] * 4, *[vf.BYTE] * 256, *[vf.NORMAL] * 4]
    path = tmp_path / "spaces.gguf"
    vf.write(path, "llama", pieces, scores=[float(-i) for i in range(len(pieces))], token_type=types,
             add_space_prefix=False, add_bos_token=False)
    at = {p: i for i, p in enumerate(pieces)}
    for text, expected in [("a  b", ["a", SPACE * 2, "b"]), ("a    a", ["a", SPACE * 3, SPACE + "a"]), (" a", [SPACE + "a"]),
                           ("\n\n\na", ["\n\n", "\n", "a"])]:
        assert encode(path, text) == [at[p] for p in expected], repr(text)


def test_phi3_takes_the_spaces_behind_its_tokens(tmp_path):
    pieces = ["<unk>", "<s>", "</s>", "<|end|>", *BYTES, SPACE, "a", SPACE + "a"]
    types = [vf.UNKNOWN, vf.CONTROL, vf.CONTROL, vf.CONTROL, *[vf.BYTE] * 256, *[vf.NORMAL] * 3]
    at = {p: i for i, p in enumerate(pieces)}
    for name, middle in [("Phi-3 mini", []), ("another", [at["<0x0A>"]])]:
        path = tmp_path / f"{name}.gguf"
        vf.write(path, "llama", pieces, scores=[float(-i) for i in range(len(pieces))], token_type=types,
                 add_space_prefix=False, add_bos_token=False)
        data = path.read_bytes()
        count = struct.unpack_from("<Q", data, 16)[0]
        path.write_bytes(data[:16] + struct.pack("<Q", count + 1) + data[24:] + vf.text("general.name") + vf.value(name))
        assert encode(path, "a<|end|>\na") == [at["a"], at["<|end|>"], *middle, at["a"]]
        assert encode(path, "a<s>\na") == [at["a"], at["<s>"], at["<0x0A>"], at["a"]]


def test_bpe_on_characters(tmp_path):
    merges = [f"{SPACE} a", "é b", f"{SPACE}a éb", "a a"]
    pieces = ["<pad>", "<eos>", "<bos>", "<unk>", *BYTES, SPACE, "a", "b", "é", "\n", "\n\n",
              *(m.replace(" ", "") for m in merges)]
    types = [*[vf.CONTROL] * 4, *[vf.BYTE] * 256, *[vf.NORMAL] * (len(pieces) - 260)]
    path = tmp_path / "raw.gguf"
    vf.write(path, "gemma4", pieces, merges=merges, token_type=types, bos_token_id=2, eos_token_id=1,
             unknown_token_id=3)
    at = {p: i for i, p in enumerate(pieces)}
    for text, expected in [(" aéb", [f"{SPACE}aéb"]), ("aaa", ["aa", "a"]), ("é€", ["é", "<0xE2>", "<0x82>", "<0xAC>"]),
                           ("a\n\nb", ["a", "\n\n", "b"]), ("a\n\n\nb", ["a", "\n", "\n", "\n", "b"]), ("", [])]:
        assert encode(path, text, "--no-special") == [at[p] for p in expected], repr(text)
        assert encode(path, text) == [2] + [at[p] for p in expected]


# ---- rules that are not known

def test_unknown_rules_can_be_forced(tmp_path):
    letters = [chr(c) for c in (*range(33, 127), *range(161, 173), *range(174, 256), *range(256, 324))]
    for name in ["made-up", None]:
        path = tmp_path / f"{name}.gguf"
        vf.write(path, "gpt2", [*letters, "ab"], merges=["a b"], **({"pre": name} if name else {}))
        args = [q.BIN, "tokenize", "--model", path, "--ids"]
        run = subprocess.run(args, input=b"ab", capture_output=True, timeout=60, check=False)
        assert run.returncode == 1 and b"tokenizer.ggml.pre" in run.stderr and b"tokenizer_pre" in run.stderr
        assert name is None or b'"made-up"' in run.stderr
        assert encode(path, "ab", "--tokenizer-pre", "gpt-2") == [256]
        run = subprocess.run([*args, "--tokenizer-pre", "gpt-3"], input=b"ab", capture_output=True, timeout=60, check=False)
        assert run.returncode == 1 and b'tokenizer_pre is "gpt-3"' in run.stderr
