#!/usr/bin/env python3
"""Normalizers beside the library `tokenizers`: 10,000 random texts of all scripts, in steps that published
tokenizer.json files have, each tokenized by both. The library comes with pip, at a locked version.

    normalizers.py --folder build/real [--texts 10000] [--seed 1] [NAME...]
    normalizers.py --folder build/real --texts 40 --write tests/fixtures/normalizers.json

The second writes what the library makes of a few texts, for `make test`.
"""
import argparse
import importlib.util
import json
import os
import pathlib
import random
import subprocess
import sys
import unicodedata

import packages

PACKAGE = "tokenizers==0.23.3"
BIN = os.environ.get("QUIRE_BIN", "build/quire")
MARK = "<|between|>"  # a token between two texts: each is normalized by itself
SPACE = "\u2581"
ADDED = [(MARK, True, False), ("<s>", True, False), ("<Tag>", False, False), ("Cafe\u0301", False, True), ("\u212b!", False, True)]


def split(regex):
    return {"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": False}


QWEN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
CUTS = {"type": "Sequence", "pretokenizers": [split(QWEN), BYTES]}


def step(kind, **fields):
    return {"type": kind, **fields}


def several(*steps):
    return {"type": "Sequence", "normalizers": list(steps)}


def replace(pattern, content, kind="String"):
    return step("Replace", pattern={kind: pattern}, content=content)


STRIP = step("Strip", strip_left=True, strip_right=True)
CASES = {
    "nfc": step("NFC"), "nfd": step("NFD"), "nfkc": step("NFKC"), "nfkd": step("NFKD"),
    "lowercase": step("Lowercase"), "strip_accents": step("StripAccents"), "strip": STRIP,
    "prepend": step("Prepend", prepend="_"), "replace": replace("e\u0301", "E"), "none": several(),
    "regex": replace(r"\s+", " ", "Regex"), "several": several(step("NFKD"), step("StripAccents"), step("Lowercase")),
    "clip": several(step("NFC"), replace(r"\s+", " ", "Regex"), step("Lowercase")),
    "nested": several(several(replace("``", '"'), replace("''", '"')), step("NFKC"), STRIP),
    "spm": several(step("NFC"), step("Prepend", prepend=SPACE), replace(" ", SPACE)),
}


# ---- texts ----

def characters():
    """Of all planes that have any; ideographs and syllables are many, and alike."""
    many = [(0x3400, 0xA000), (0xAC00, 0xD7A4), (0x20000, 0x2F800)]
    rng = random.Random(0)
    found = [c for c in range(1, 0x32000) if not any(a <= c < b for a, b in many)] + list(range(0xE0100, 0xE01F0))
    found += [rng.randrange(a, b) for a, b in many for _ in range(300)]
    return [c for c in found if not 0xD800 <= c < 0xE000]


class Texts:
    def __init__(self, seed):
        self.rng, self.all = random.Random(seed), characters()
        self.marks = [c for c in self.all if unicodedata.category(chr(c))[0] == "M"]
        self.composed = [c for c in self.all if unicodedata.decomposition(chr(c))]
        self.parts = sorted({int(x, 16) for c in self.composed for x in unicodedata.decomposition(chr(c)).split() if "<" not in x})
        self.blocks = [c for c in range(0, 0x1FF00, 0x80) if any(c <= x < c + 0x80 for x in self.parts + self.marks)]

    def character(self):
        rng, r = self.rng, self.rng.random()
        if r < 0.25:
            return rng.choice([rng.randrange(32, 127)] * 3 + [10, 9, 32])
        if r < 0.40:
            return rng.choice(self.marks)
        if r < 0.55:
            return rng.choice(self.parts)
        if r < 0.70:
            return rng.choice(self.composed)
        if r < 0.80:
            return rng.choice([0x1100 + rng.randrange(19), 0x1161 + rng.randrange(21), 0x11A7 + rng.randrange(28),
                               0xAC00 + rng.randrange(11172)])
        return rng.choice(self.all)

    def of_one_script(self):
        block = self.rng.choice(self.blocks)
        return "".join(chr(block + self.rng.randrange(0x80)) for _ in range(self.rng.randint(2, 20)))

    def text(self):
        rng = self.rng
        text = self.of_one_script() if rng.random() < 0.3 else "".join(chr(self.character()) for _ in range(rng.randint(1, 24)))
        if rng.random() < 0.3:
            text = unicodedata.normalize(rng.choice(["NFC", "NFD", "NFKC", "NFKD"]), text)
        for _ in range(rng.choice([0, 0, 0, 1, 2])):
            at = rng.randint(0, len(text))
            text = text[:at] + rng.choice([name for name, *_ in ADDED[1:]] + ["Caf\u00e9", "\u00c5!", "a  b", "``"]) + text[at:]
        return "".join(c for c in text if c != "\0" and not "\ud800" <= c <= "\udfff").replace(MARK, "")


def only_known(text):
    """Without the newest characters: of a few the library knows small letters, and libunistring does not."""
    return "".join(c for c in text if unicodedata.category(c) != "Cn")


# ---- the two tokenizers ----

def train(tokenizers, normalizer, texts):
    """tokenizer.json with merges for what is normalized, and for what is not."""
    t = tokenizers.Tokenizer(tokenizers.models.BPE())
    t.pre_tokenizer = tokenizers.pre_tokenizers.Sequence([
        tokenizers.pre_tokenizers.Split(tokenizers.Regex(QWEN), "isolated"),
        tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=3000, show_progress=False,
                                             initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet())
    t.train_from_iterator(texts, trainer)
    model = json.loads(t.to_str())["model"]
    added = [{"id": len(model["vocab"]) + i, "content": name, "single_word": False, "lstrip": False, "rstrip": False,
              "normalized": normalized, "special": special} for i, (name, special, normalized) in enumerate(ADDED)]
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": normalizer,
            "pre_tokenizer": CUTS, "post_processor": None, "decoder": BYTES, "model": model}


def as_sentencepiece(tok):
    """Bytes and single characters, as SentencePiece writes them. Of the normalizer that puts a space before texts
    `tokenizers` takes the names of added tokens as texts too, which is not done here."""
    names = ["<unk>", *(f"<0x{b:02X}>" for b in range(256)), SPACE, "a", "e", "\u00e9", "\u00c5", SPACE + "a", "\ud55c"]
    vocab = {name: i for i, name in enumerate(names)}
    added = [{**a, "id": len(vocab) + i, "normalized": False} for i, a in enumerate(tok["added_tokens"])]
    model = {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None, "end_of_word_suffix": None,
             "fuse_unk": True, "byte_fallback": True, "ignore_merges": False, "vocab": vocab, "merges": [[SPACE, "a"]]}
    return {**tok, "added_tokens": added, "pre_tokenizer": None, "decoder": None, "model": model}


def write_folder(folder, tok):
    """A folder whose tokenizer alone is of use."""
    n = len(tok["model"]["vocab"]) + len(tok["added_tokens"])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({
        "architectures": ["LlamaForCausalLM"], "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1,
        "num_attention_heads": 1, "max_position_embeddings": 64, "vocab_size": n, "tie_word_embeddings": True}))
    (folder / "tokenizer.json").write_text(json.dumps(tok))
    head = json.dumps({"model.embed_tokens.weight": {"dtype": "F32", "shape": [n, 8], "data_offsets": [0, n * 32]}}).encode()
    (folder / "model.safetensors").write_bytes(len(head).to_bytes(8, "little") + head + bytes(n * 32))


def ours(folder, texts, mark):
    run = subprocess.run([BIN, "tokenize", "--model", folder, "--ids"], input=MARK.join(texts).encode(),
                         stdout=subprocess.PIPE, check=True)
    lists = [[]]
    for i in run.stdout.split():
        if int(i) == mark:
            lists.append([])
        else:
            lists[-1].append(int(i))
    return lists


def compare(tokenizers, name, normalizer, texts, folder):
    tok = train(tokenizers, normalizer, texts)
    tok = as_sentencepiece(tok) if name == "spm" else tok
    write_folder(folder / name, tok)
    theirs = tokenizers.Tokenizer.from_file(str(folder / name / "tokenizer.json"))
    mark = tok["added_tokens"][0]["id"]
    found = ours(folder / name, texts, mark)
    expected = [e.ids for e in theirs.encode_batch(texts, add_special_tokens=False)]
    if len(found) != len(texts):
        return [f"{len(found)} lists of ids for {len(texts)} texts"]
    return [f"{t!r}: {f}, expected {e}" for t, f, e in zip(texts, found, expected) if f != e]


def write(tokenizers, path, texts):
    made = {name: tokenizers.Tokenizer.from_str(json.dumps({
        "version": "1.0", "added_tokens": [], "normalizer": normalizer, "model": {"type": "BPE", "vocab": {}, "merges": []}})).normalizer
        for name, normalizer in CASES.items() if name != "spm"}
    rows = [json.dumps([t, {name: n.normalize_str(t) for name, n in made.items() if n.normalize_str(t) != t}]) for t in texts]
    steps = json.dumps({name: CASES[name] for name in made})
    path.write_text('{"steps": ' + steps + ',\n"texts": [\n' + ",\n".join(rows) + "]}\n")
    return 0


def work(args):
    import tokenizers
    made = Texts(args.seed)
    texts = [made.text() for _ in range(args.texts)]
    failed = False
    if args.write is not None:
        return write(tokenizers, args.write, texts)
    for name in args.names or CASES:
        known = [only_known(t) for t in texts] if "Lowercase" in json.dumps(CASES[name]) else texts
        wrong = compare(tokenizers, name, CASES[name], known, args.folder / "normalizers")
        print(f"{name}: {len(texts) - len(wrong)} of {len(texts)} texts", "\n  ".join(["", *wrong[:args.show]]), flush=True)
        failed |= bool(wrong)
    return 1 if failed else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=pathlib.Path, required=True)
    parser.add_argument("--texts", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=3)
    parser.add_argument("--write", type=pathlib.Path)
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    args.folder = args.folder.resolve()
    args.folder.mkdir(parents=True, exist_ok=True)
    if importlib.util.find_spec("tokenizers") is not None:
        return work(args)
    pip = packages.pip(args.folder)
    subprocess.run([pip, "--disable-pip-version-check", "install", "--quiet", "--no-deps", PACKAGE], check=True, timeout=900)
    return subprocess.run([pip.with_name("python"), __file__, *sys.argv[1:]], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
