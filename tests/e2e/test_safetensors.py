"""Folders with safetensors: the same bits as the GGUF file with the same numbers; and damaged ones."""
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys

import numpy as np
import pytest

import hf_folder
from quire import BIN
from test_architectures import distance, engine, random_ids
from test_split import serve

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "reference"))

import fixtures  # noqa: E402
import gguf_file  # noqa: E402
import rounding  # noqa: E402

CASES = [("llama", "plain"), ("llama", "biases"), ("llama", "linear"), ("llama", "yarn"), ("qwen2", "plain"),
         ("qwen2", "tied"), ("qwen2", "yarn"), ("qwen3", "plain"), ("qwen3", "tied")]
CLOSE = 1e-4


def to_bf16(tensor):
    kind, shape, data = tensor
    if kind != "F16":
        return tensor
    bits = np.frombuffer(data, "<f2").astype("<f4").view("<u4")
    return "BF16", shape, (bits >> 16).astype("<u2").tobytes()


def parts(arch, variant="plain", kind="F16"):
    """Keys and tensors of a small random model, its matrices of that type."""
    keys, tensors = gguf_file.read_parts(fixtures.make(arch, variant, "F32" if kind == "F32" else "F16"))
    if kind == "BF16":
        tensors = {n: to_bf16(t) for n, t in tensors.items()}
    return keys, tensors


def scaling(keys):
    """rope_scaling of config.json."""
    arch = keys["general.architecture"]
    kind = keys.get(f"{arch}.rope.scaling.type")
    if kind is None:
        return None
    found = {"rope_type": kind, "factor": keys[f"{arch}.rope.scaling.factor"]}
    if kind == "yarn":
        found["original_max_position_embeddings"] = keys[f"{arch}.rope.scaling.original_context_length"]
    return found


def write_folder(folder, keys, tensors, **more):
    tied = "output.weight" not in tensors
    return hf_folder.write(folder, keys, tensors, **{"tie_word_embeddings": tied, "rope_scaling": scaling(keys), **more})


def halves(keys):
    return {**keys, f"{keys['general.architecture']}.rope.halves": True}


def quire(*args, status=0, text=None):
    done = subprocess.run([BIN, *map(str, args)], capture_output=True, input=text, timeout=120, check=False)
    assert done.returncode == status, done.stderr
    return done.stdout.decode(errors="backslashreplace"), done.stderr.decode()


# ---- weights ----

@pytest.mark.parametrize("kind", ["F32", "F16", "BF16"])
@pytest.mark.parametrize("arch,variant", CASES, ids=["-".join(c) for c in CASES])
def test_same_bits(tmp_path, arch, variant, kind):
    keys, tensors = parts(arch, variant, kind)
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf_file.write(halves(keys), tensors))
    folder = write_folder(tmp_path / "hf", keys, tensors, eos_token_id=2)
    ids = random_ids({"token_embd.weight": np.empty((len(keys["tokenizer.ggml.tokens"]), 1))}, 60)
    a, b = engine([path, folder], ids, 0, False)
    assert a.tobytes() == b.tobytes()


def paired(tensor, n_head):
    """Rows in the order of llama's GGUF files: of each head, neighbours turn together."""
    kind, shape, data = tensor
    rows = np.frombuffer(data, "u1").reshape(n_head, 2, shape[0] // n_head // 2, -1)
    return kind, shape, rows.swapaxes(1, 2).tobytes()


@pytest.mark.parametrize("variant", ["plain", "biases"])
def test_llama_as_converted(tmp_path, variant):
    """A GGUF file with the rows of queries and keys turned as converters do."""
    keys, tensors = parts("llama", variant, "F32")
    heads = {"attn_q": keys["llama.attention.head_count"], "attn_k": keys["llama.attention.head_count_kv"]}
    turned = {n: paired(t, heads[n.split(".")[2]]) if n.split(".")[2:3] and n.split(".")[2] in heads else t
              for n, t in tensors.items()}
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf_file.write(keys, turned))
    folder = write_folder(tmp_path / "hf", keys, tensors, eos_token_id=2)
    plain = tmp_path / "plain.gguf"
    plain.write_bytes(gguf_file.write(keys, tensors))
    ids = random_ids({"token_embd.weight": np.empty((37, 1))}, 60)
    a, b, other = engine([path, folder, plain], ids, 0, False)
    assert distance(b, a) < CLOSE < 100 * CLOSE < distance(other, a)


def test_llama3_scaling(tmp_path):
    """The divisors of Llama 3.1's rope, computed here as its authors describe them."""
    keys, tensors = parts("llama", "plain", "F32")
    head, base, factor, low, high, orig = 24, 10000.0, 8.0, 1.0, 4.0, 64
    wave = 2 * np.pi * base ** (np.arange(0, head, 2) / head)
    mix = (orig / wave - low) / (high - low)
    divisors = np.where(wave < orig / high, 1, np.where(wave > orig / low, factor, 1 / ((1 - mix) / factor + mix)))
    assert len(set(divisors)) > 3  # all three cases
    data = divisors.astype("<f4").tobytes()
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf_file.write(halves(keys), {**tensors, "rope_freqs.weight": ("F32", (head // 2,), data)}))
    folder = write_folder(tmp_path / "hf", keys, tensors, rope_scaling={
        "rope_type": "llama3", "factor": factor, "low_freq_factor": low, "high_freq_factor": high,
        "original_max_position_embeddings": orig})
    a, b = engine([path, folder], random_ids({"token_embd.weight": np.empty((37, 1))}, 60), 0, False)
    assert distance(b, a) < CLOSE


@pytest.mark.parametrize("shards", [2, 5])
def test_shards(tmp_path, shards):
    keys, tensors = parts("qwen2", "plain", "BF16")
    one = write_folder(tmp_path / "one", keys, tensors)
    many = write_folder(tmp_path / "many", keys, tensors, shards=shards)
    assert len(list(many.glob("*.safetensors"))) == shards
    ids = random_ids({"token_embd.weight": np.empty((41, 1))}, 60)
    a, b = engine([one, many], ids, 0, False)
    assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("kind", ["F16", "BF16"])
def test_quantised_at_load(tmp_path, kind):
    """load_type q8_0 gives the answers of the file whose matrices are Q8_0."""
    keys, tensors = parts("qwen3", "plain", kind)
    quantised = {n: ("Q8_0", t[1], rounding.encode_q8_0(gguf_file.to_array(*t).astype(np.float32)))
                 if t[0] == kind else t for n, t in tensors.items()}
    path, whole = tmp_path / "q8.gguf", tmp_path / "f.gguf"
    path.write_bytes(gguf_file.write(keys, quantised))
    whole.write_bytes(gguf_file.write(keys, tensors))
    folder = write_folder(tmp_path / "hf", keys, tensors, eos_token_id=2)
    ids = random_ids({"token_embd.weight": np.empty((41, 1))}, 60)
    expected, = engine([path], ids, 0, False)
    for found in engine([folder, whole], ids, 0, False, "--load-type", "q8_0"):
        assert found.tobytes() == expected.tobytes()
    found, = engine([folder], ids, 0, False)
    assert found.tobytes() != expected.tobytes()


# ---- folders ----

def test_serve_a_folder(tmp_path, start):
    keys, tensors = parts("qwen2")
    folder = write_folder(tmp_path / "my-model", keys, tensors)
    s = start(model=f"{folder}/")
    assert s.get("/v1/models").json["data"][0]["id"] == "my-model"
    assert s.complete("ab", max_tokens=4, ignore_eos=True).json["usage"]["completion_tokens"] == 4


def test_weight_cache(tmp_path):
    """Beside the folder; another type at load is another layout."""
    keys, tensors = parts("qwen3")
    folder = write_folder(tmp_path / "m", keys, tensors, shards=2)
    first, log = serve(f"{folder}/")
    assert "weights=packed" in log and (tmp_path / "m.quire-cache").exists()
    second, log = serve(folder)
    assert first == second and "weights=cached" in log
    _, log = serve(folder, "--load-type", "q8_0")
    assert "weights=packed" in log and "event=weight-cache-refused" in log


def test_folder_with_gguf(tmp_path, start):
    keys, tensors = parts("qwen2")
    folder = tmp_path / "some"
    folder.mkdir()
    (folder / "m.gguf").write_bytes(gguf_file.write(keys, tensors))
    os.utime(folder / "m.gguf", (1_000_000_000, 1_000_000_000))
    (folder / "README.md").write_text("x")
    page = start(model=folder).get("/v1/models").json
    assert page["data"][0]["id"] == "some" and page["models"][0]["release_date"] == "2001-09-09"


def test_folder_with_many_or_none(tmp_path):
    folder = tmp_path / "many"
    folder.mkdir()
    _, err = quire("inspect", folder, status=1)
    assert err == f"quire: {folder}: the folder contains no model (neither a .gguf file nor config.json)\n"
    for name in ("a.gguf", "b-00001-of-00002.gguf", "b-00002-of-00002.gguf", "config.json"):
        (folder / name).write_bytes(b"x")
    _, err = quire("inspect", f"{folder}/", status=1)
    assert err.startswith(f"quire: {folder}: the folder contains 3 models; give the path of one of them ")
    listed = set(err.split(": ")[-1].strip().split(", "))
    assert listed == {"a.gguf", "b-00001-of-00002.gguf", "config.json with safetensors"}


def test_inspect(tmp_path):
    keys, tensors = parts("qwen2")
    folder = write_folder(tmp_path / "hf", keys, tensors, shards=2)
    out, _ = quire("inspect", folder)
    assert f"{folder}/model-00001-of-00002.safetensors: " in out and "blk.0.attn_q.weight" in out


# ---- tokenizers ----

def letters():
    """GPT-2's letters for the 256 bytes."""
    plain = [b for b in range(256) if 33 <= b <= 126 or 161 <= b <= 172 or 174 <= b <= 255]
    rest = [b for b in range(256) if b not in plain]
    return [chr(b) for b in plain] + [chr(256 + i) for i in range(len(rest))]


MERGES = ["t h", "th e", "Ġ the", "i n", "Ġ a", "1 2", "12 3", "a b", "ab c", "Ġ Ġ", "l l", "' ll"]
SPECIAL = [("<|begin|>", True), ("<tool>", False), ("<|fim|>", False)]
TEXTS = ["the thing in there", "I'll abc 12345 1234567", "  two   spaces\n\n\tand lines ", "Ünïcödé 漢字 \U0001f600",
         "<|begin|>the<tool>abc<|fim|>", "THE 'LL abcabc", ""]
RULES = {"gpt-2": (hf_folder.byte_level(True), False),
         "llama-bpe": (hf_folder.sequence(hf_folder.split(hf_folder.LLAMA3), hf_folder.byte_level(False)), True),
         "smaug-bpe": (hf_folder.sequence(hf_folder.split(hf_folder.LLAMA3), hf_folder.byte_level(False)), False),
         "qwen2": (hf_folder.sequence(hf_folder.split(hf_folder.QWEN2), hf_folder.byte_level(False)), False),
         "smollm": (hf_folder.sequence({"type": "Digits", "individual_digits": True}, hf_folder.byte_level(True)), False),
         "falcon": (hf_folder.sequence({"type": "Punctuation", "behavior": "Contiguous"}, hf_folder.byte_level(True),
                                       {"type": "Digits", "individual_digits": False},
                                       hf_folder.split("[0-9][0-9][0-9]")), False),
         "tekken": (hf_folder.sequence(hf_folder.split(hf_folder.cased("", "")), hf_folder.byte_level(False)), True),
         "gpt-4o": (hf_folder.sequence(hf_folder.split(hf_folder.O200K), hf_folder.byte_level(False)), False),
         "granite-embed-multi-97m": (hf_folder.sequence(hf_folder.split(hf_folder.O200K), hf_folder.byte_level(False)), True),
         "deepseek-v3": (hf_folder.sequence(hf_folder.split(r"\p{N}{1,3}"), hf_folder.split("[一-龥぀-ゟ゠-ヿ]+"),
                                            hf_folder.split(hf_folder.DEEPSEEK), hf_folder.byte_level(False)), False)}


def vocabulary():
    """Pieces, and added tokens with ids behind a gap."""
    pieces = letters() + [m.replace(" ", "") for m in MERGES]
    added = [hf_folder.added(len(pieces) + 2 + i, *a) for i, a in enumerate(SPECIAL)]
    return pieces, added


def tokenizer_parts(pre):
    """Keys and tensors of a model with that vocabulary."""
    pieces, added = vocabulary()
    tokens = pieces + [f"[PAD{len(pieces)}]", f"[PAD{len(pieces) + 1}]"] + [a["content"] for a in added]
    keys, tensors = parts("qwen2")
    kind, shape, data = tensors["token_embd.weight"]
    for name in ("token_embd.weight", "output.weight"):
        row = len(tensors[name][2]) // shape[0]
        tensors[name] = (kind, (len(tokens), shape[1]), (tensors[name][2] * 20)[:row * len(tokens)])
    keys.update({"tokenizer.ggml.pre": pre, "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.merges": MERGES,
                 "tokenizer.ggml.token_type": [1] * len(pieces) + [5, 5, 3, 4, 3], "tokenizer.ggml.eos_token_id": 5,
                 "tokenizer.ggml.bos_token_id": len(tokens) - 3, "tokenizer.ggml.add_bos_token": True})
    return keys, tensors


def write_tokenizer(folder, pre, pairs):
    pieces, added = vocabulary()
    step, whole = RULES[pre]
    merges = [m.split(" ") for m in MERGES] if pairs else MERGES
    tok = hf_folder.tokenizer({p: i for i, p in enumerate(pieces)}, merges, step, added, ignore_merges=whole)
    tok["post_processor"] = hf_folder.begins_with(added[0]["id"], "<|begin|>")
    (folder / "tokenizer.json").write_text(json.dumps(tok))
    (folder / "tokenizer_config.json").write_text(json.dumps({
        "bos_token": "<|begin|>", "eos_token": {"content": "&"}, "chat_template": "{{ messages }}"}))


@pytest.mark.parametrize("pairs", [False, True], ids=["texts", "pairs"])
@pytest.mark.parametrize("pre", list(RULES))
def test_byte_level(tmp_path, pre, pairs):
    keys, tensors = tokenizer_parts(pre)
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf_file.write(keys, tensors))
    folder = write_folder(tmp_path / "hf", keys, tensors, eos_token_id=2)
    write_tokenizer(folder, pre, pairs)
    for text in TEXTS:
        a, b = (quire("tokenize", "--model", m, text=text.encode())[0] for m in (path, folder))
        assert a == b
    out = quire("inspect", folder)[0]
    assert '"{{ messages }}"' in out and f'"{pre}"' in out


def test_sentencepiece(tmp_path):
    """Merges become scores: the same ids as a file with SentencePiece's own."""
    pieces = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]
    merges = ["▁ t", "h e", "▁t he", "i n", "▁ a", "a b", "ab c", "▁a b"]
    made = [m.replace(" ", "") for m in merges]
    single = list("▁thinabceÜ")
    tokens = pieces + made + single
    types = [2, 3, 3] + [6] * 256 + [1] * (len(made) + len(single))
    scores = [0.0] * len(pieces) + [-1.0 - i for i in range(len(made))] + [-1000.0] * len(single)
    keys, tensors = parts("llama")
    kind, shape, _ = tensors["token_embd.weight"]
    for name in ("token_embd.weight", "output.weight"):
        row = len(tensors[name][2]) // shape[0]
        tensors[name] = (kind, (len(tokens), shape[1]), (tensors[name][2] * 20)[:row * len(tokens)])
    keys = {k: v for k, v in keys.items() if not k.startswith("tokenizer.")}
    keys.update({"tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.scores": scores,
                 "tokenizer.ggml.token_type": types, "tokenizer.ggml.bos_token_id": 1,
                 "tokenizer.ggml.eos_token_id": 2, "tokenizer.ggml.add_bos_token": True,
                 "tokenizer.ggml.merges": []})
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf_file.write(keys, tensors))
    folder = write_folder(tmp_path / "hf", keys, tensors, eos_token_id=2)
    added = [hf_folder.added(i, t, True) for i, t in enumerate(pieces[:3])]
    tok = hf_folder.tokenizer({t: i for i, t in enumerate(tokens)}, merges, None, added, byte_fallback=True,
                              unk_token="<unk>")
    tok["normalizer"] = {"type": "Sequence", "normalizers": [
        {"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]}
    (folder / "tokenizer.json").write_text(json.dumps(tok))
    (folder / "tokenizer_config.json").write_text(json.dumps({
        "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "add_bos_token": True}))
    for text in ("the thing in abc", " the  abcab", "Ü漢\n<s>the", "", "abthe"):
        a, b = (quire("tokenize", "--model", m, text=text.encode())[0] for m in (path, folder))
        assert a == b and a


# ---- what is refused ----

def change_json(name, change):
    def damage(folder):
        data = json.loads((folder / name).read_text())
        change(data)
        (folder / name).write_text(json.dumps(data))
    return damage


def in_config(**fields):
    return change_json("config.json", lambda c: c.update(fields))


def without(field):
    return change_json("config.json", lambda c: c.pop(field))


def in_tokenizer(change):
    return change_json("tokenizer.json", change)


def in_head(change):
    """Change the header of model.safetensors; the data stays."""
    def damage(folder):
        data = (folder / "model.safetensors").read_bytes()
        n, = struct.unpack_from("<Q", data)
        head = json.loads(data[8:8 + n])
        head = change(head) or head
        (folder / "model.safetensors").write_bytes(hf_folder.with_head(head, data[8 + n:]))
    return damage


def in_tensor(**fields):
    return in_head(lambda h: h["model.norm.weight"].update(fields))


def content(name, data):
    return lambda folder: (folder / name).write_bytes(data)


def move(head):
    head["model.norm.weight"]["data_offsets"] = head["model.layers.0.input_layernorm.weight"]["data_offsets"]


def twice(head):
    text = json.dumps(head)
    return (text[:-1] + ', "model.norm.weight": ' + json.dumps(head["model.norm.weight"]) + "}").encode()


def rename(head):
    head["model.other.weight"] = head.pop("model.norm.weight")


def index(change):
    def damage(folder):
        (folder / "model.safetensors").rename(folder / "a.safetensors")
        data = (folder / "a.safetensors").read_bytes()
        head = json.loads(data[8:8 + struct.unpack_from("<Q", data)[0]])
        where = {n: "a.safetensors" for n in head if n != "__metadata__"}
        change(where)
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": where}))
    return damage


def truncate(folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-8])


NORM = "model.norm.weight"
DAMAGES = {
    "config-empty": (content("config.json", b""), "config.json: is empty"),
    "config-not-json": (content("config.json", b"{"), "config.json: is not valid JSON"),
    "config-list": (content("config.json", b"[]"), "config.json: is not a JSON object"),
    "config-deep": (content("config.json", b"[" * 100000), "config.json: is nested too deeply"),
    "config-bytes": (content("config.json", b'{"a": "\xff"}'), "config.json: is not valid UTF-8"),
    "config-huge": (content("config.json", b" " * (2 << 20)), "config.json: has 2097152 bytes"),
    "config-nul": (content("config.json", b'{"a": "\\u0000"}'), "NUL"),
    "no-tokenizer": (lambda f: (f / "tokenizer.json").unlink(), "tokenizer.json: cannot open"),
    "no-weights": (lambda f: (f / "model.safetensors").unlink(), "model.safetensors: is missing, and so is"),
    "no-architecture": (without("architectures"), "'architectures' names none"),
    "other-architecture": (in_config(architectures=["Foo\x01Bar"]), "architecture 'Foo?Bar' is not supported"),
    "no-layers": (without("num_hidden_layers"), "'num_hidden_layers' is missing"),
    "layers-negative": (in_config(num_hidden_layers=-1), "'num_hidden_layers' is not a whole number"),
    "layers-broken": (in_config(num_hidden_layers=2.5), "'num_hidden_layers' is not a whole number"),
    "layers-text": (in_config(num_hidden_layers="2"), "'num_hidden_layers' is not a whole number"),
    "layers-many": (in_config(num_hidden_layers=1e300), "'num_hidden_layers' is not a whole number"),
    "layers-more": (in_config(num_hidden_layers=3), "'blk.2.attn_norm.weight' is missing"),
    "embd-other": (in_config(hidden_size=128), "has dimensions"),
    "heads-odd": (in_config(head_dim=7), "heads of 7 numbers are not supported"),
    "activation": (in_config(hidden_act="gelu"), "'hidden_act' is 'gelu'"),
    "quantised": (in_config(quantization_config={}), "'quant_method' of 'quantization_config' is '?'"),
    "rope-other": (in_config(rope_interleaved=True), "'rope_interleaved' is true"),
    "window": (in_config(use_sliding_window=True), "'use_sliding_window' is true"),
    "rope-unknown": (in_config(rope_scaling={"type": "spiral"}), "scaling 'spiral' of rope is not supported"),
    "rope-zero": (in_config(rope_theta=0), "'rope_theta' is not a number above 0"),
    "rope-factors": (in_config(rope_scaling={"type": "llama3", "factor": 8, "high_freq_factor": 1}),
                     "'high_freq_factor' of rope is 1"),
    "tied-not": (in_head(lambda h: h.pop("lm_head.weight") and None), "there is no 'lm_head.weight'"),
    "vocab-small": (in_config(vocab_size=5), "is not a whole number below 'vocab_size', 5"),
    "tokens-kind": (in_tokenizer(lambda t: t["model"].update(type="WordPiece")), "of the kind 'WordPiece'"),
    "tokens-none": (in_tokenizer(lambda t: t["model"].update(vocab=3)), "'vocab' is not an object"),
    "tokens-id": (in_tokenizer(lambda t: t["model"]["vocab"].update(a=-1)), "the id of token 'a' is not a whole number"),
    "tokens-same": (in_tokenizer(lambda t: t["model"]["vocab"].update(a=1)), "two tokens have the id 1"),
    "merges-none": (in_tokenizer(lambda t: t["model"].pop("merges") and None), "'merges' is not a list"),
    "merges-one": (in_tokenizer(lambda t: t["model"].update(merges=["ab"])), "is not two pieces"),
    "merges-number": (in_tokenizer(lambda t: t["model"].update(merges=[[1, 2]])), "neither a text nor a pair"),
    "spm-lower": (in_tokenizer(lambda t: (t["model"].update(byte_fallback=True),
                                         t.update(pre_tokenizer=None, normalizer={"type": "Nmt"})) and None),
                  "the step 'Nmt' of its 'normalizer' is not supported"),
    "pre-unknown": (in_tokenizer(lambda t: t.update(pre_tokenizer=hf_folder.split("x"))), "tokenizer_pre = NAME"),
    "head-short": (content("model.safetensors", b"1234"), "is not a safetensors file: it has 4 bytes"),
    "head-long": (content("model.safetensors", b"\xff" * 64), "claims a header of 18446744073709551615 bytes"),
    "head-cut": (content("model.safetensors", struct.pack("<Q", 50) + b"{}"), "claims a header of 50 bytes"),
    "head-not-json": (content("model.safetensors", hf_folder.with_head(b"{nope}", b"")), "is not valid JSON"),
    "head-deep": (content("model.safetensors", hf_folder.with_head(b"{" * 999, b"")), "is nested too deeply"),
    "type-unknown": (in_tensor(dtype="F7"), f"tensor '{NORM}': its 'dtype' is none that is known"),
    "type-other": (in_tensor(dtype="I32"), f"tensor '{NORM}': is not F32, F16 or BF16"),
    "shape-none": (in_tensor(shape="x"), f"tensor '{NORM}': its 'shape' is not a list"),
    "shape-negative": (in_tensor(shape=[-96]), f"tensor '{NORM}': its 'shape' is not a list"),
    "shape-overflow": (in_tensor(shape=[2 ** 40, 2 ** 40]), f"tensor '{NORM}': its 'shape' is not a list"),
    "shape-other": (in_tensor(shape=[95]), f"tensor '{NORM}': its shape does not fit its bytes"),
    "shape-empty": (in_tensor(shape=[0], data_offsets=[0, 0]), f"tensor '{NORM}': has a dimension of 0"),
    "shape-flat": (in_tensor(shape=[8, 2, 2, 3, 1]), f"tensor '{NORM}': has no shape of 1 to 4 dimensions"),
    "offsets-none": (in_tensor(data_offsets=[1]), f"tensor '{NORM}': its 'data_offsets' are not a begin and an end"),
    "offsets-turned": (in_tensor(data_offsets=[9, 1]), f"tensor '{NORM}': its 'data_offsets' are not a begin and an end"),
    "offsets-far": (in_tensor(data_offsets=[2 ** 50, 2 ** 50 + 384]), f"tensor '{NORM}': its data reaches past"),
    "offsets-overlap": (in_head(move), "overlaps tensor"),
    "name-twice": (in_head(twice), f"tensor '{NORM}': occurs twice"),
    "name-unknown": (in_head(rename), "tensor 'model.other.weight': is not supported for this model"),
    "cut": (truncate, "its data reaches past the end of the file"),
    "index-outside": (index(lambda w: w.update({NORM: "../a.safetensors"})), "names a file that is not a NAME.safetensors"),
    "index-number": (index(lambda w: w.update({NORM: 3})), "names a file that is not a NAME.safetensors"),
    "index-missing": (index(lambda w: w.update({NORM: "b.safetensors"})), "b.safetensors: cannot open"),
    "index-more": (index(lambda w: w.update({"x": "a.safetensors"})), "tensor 'x': is not in the file"),
    "index-less": (index(lambda w: w.pop(NORM) and None), "but the files have"),
    "index-empty": (index(lambda w: w.clear()), "'weight_map' has 0 tensors"),
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("hf") / "whole", *parts("qwen2"))


@pytest.mark.parametrize("name", list(DAMAGES))
def test_damaged(whole, tmp_path, name):
    folder = tmp_path / "m"
    shutil.copytree(whole, folder)
    damage, expected = DAMAGES[name]
    damage(folder)
    _, err = quire("generate", "--model", folder, "--prompt", "a", "--max-tokens", 1, "--log-level", "off", status=1)
    assert err.count("\n") == 1 and err.startswith("quire: ") and expected in err and str(folder) in err
    assert quire("inspect", folder, status=1)[1].replace("cannot be served: ", "") == err


def test_forced_rules(whole, tmp_path):
    """tokenizer_pre serves where the way to cut words is not known."""
    folder = tmp_path / "m"
    shutil.copytree(whole, folder)
    DAMAGES["pre-unknown"][0](folder)
    assert quire("generate", "--model", folder, "--prompt", "a", "--max-tokens", 1, "--tokenizer-pre", "gpt-2")[0]


# ---- the day of a folder ----

def test_release_date_is_that_of_the_latest_weights(tmp_path, start):
    keys, tensors = parts("qwen2", "plain", "F16")
    folder = write_folder(tmp_path / "hf", keys, tensors, eos_token_id=2, shards=2)
    for i, path in enumerate(sorted(folder.glob("*.safetensors"))):
        os.utime(path, (1_000_000_000 + i * 86_400,) * 2)
    [model] = start(model=folder).get("/v1/models").json["models"]
    assert model["release_date"] == "2001-09-10" and model["description"].startswith("qwen2, F16, ")
