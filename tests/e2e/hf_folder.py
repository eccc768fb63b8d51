"""Model folders as transformers save them, written by hand from the keys and tensors of a GGUF file."""
import json
import struct

LAYER = {"attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
         "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "attn_q_norm": "self_attn.q_norm",
         "attn_k_norm": "self_attn.k_norm", "ffn_norm": "post_attention_layernorm", "ffn_gate": "mlp.gate_proj",
         "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
WHOLE = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight",
         "output.weight": "lm_head.weight"}
CLASSES = {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM"}
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
          r"\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
TAIL = r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def cased(end, digits):
    """Words with at most one step from capitals to small letters."""
    start, big, small = r"[^\r\n\p{L}\p{N}]?", r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
    return f"{start}{big}*{small}+{end}|{start}{big}+{small}*{end}|\\p{{N}}{digits}{TAIL}"


O200K = cased("(?i:'s|'t|'re|'ve|'m|'ll|'d)?", "{1,3}")
DEEPSEEK = (r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|"""
            r"\s*[\r\n]+|\s+(?!\S)|\s+")


def their_name(name):
    if name in WHOLE:
        return WHOLE[name]
    _, layer, part, end = name.split(".")
    return f"model.layers.{layer}.{LAYER[part]}.{end}"


def safetensors(tensors, metadata=True):
    """tensors: name -> (type, shape, bytes). A file's bytes."""
    head, data = {"__metadata__": {"format": "pt"}} if metadata else {}, b""
    for name, (kind, shape, raw) in tensors.items():
        head[name] = {"dtype": kind, "shape": list(shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    return with_head(head, data)


def with_head(head, data):
    text = head if isinstance(head, bytes) else json.dumps(head).encode()
    return struct.pack("<Q", len(text)) + text + data


def config(keys):
    """config.json for the keys of a GGUF file."""
    arch = keys["general.architecture"]

    def key(suffix):
        return keys[f"{arch}.{suffix}"]

    n_head = key("attention.head_count")
    return {"architectures": [CLASSES[arch]], "hidden_act": "silu", "hidden_size": key("embedding_length"),
            "intermediate_size": key("feed_forward_length"), "num_hidden_layers": key("block_count"),
            "num_attention_heads": n_head, "num_key_value_heads": key("attention.head_count_kv"),
            "head_dim": keys.get(f"{arch}.attention.key_length", key("embedding_length") // n_head),
            "max_position_embeddings": key("context_length"), "rope_theta": key("rope.freq_base"),
            "rms_norm_eps": key("attention.layer_norm_rms_epsilon"), "eos_token_id": len(tokens_of(keys)) - 1,
            "vocab_size": len(tokens_of(keys)), "tie_word_embeddings": False, "rope_scaling": None}


def tokens_of(keys):
    return keys["tokenizer.ggml.tokens"]


def added(i, text, special):
    return {"id": i, "content": text, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
            "special": special}


def begins_with(i, text):
    """A post-processor that puts a token before every text."""
    token, a, b = ({"SpecialToken": {"id": text, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                   {"Sequence": {"id": "B", "type_id": 1}})
    return {"type": "TemplateProcessing", "single": [token, a], "pair": [token, a, token, b],
            "special_tokens": {text: {"id": text, "ids": [i], "tokens": [text]}}}


def byte_level(cuts):
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": cuts}


def split(pattern):
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


def sequence(*steps):
    return {"type": "Sequence", "pretokenizers": list(steps)}


def tokenizer(tokens, merges, pre_tokenizer, added=(), **model):
    return {"version": "1.0", "added_tokens": list(added), "normalizer": None, "pre_tokenizer": pre_tokenizer,
            "post_processor": None, "decoder": byte_level(True),
            "model": {"type": "BPE", "unk_token": None, "byte_fallback": False, "vocab": tokens, "merges": merges,
                      **model}}


def plain_tokenizer(keys):
    """The tokenizer of the fixtures."""
    return tokenizer({t: i for i, t in enumerate(tokens_of(keys))}, keys["tokenizer.ggml.merges"], byte_level(True))


def write(folder, keys, tensors, shards=1, **changes):
    """A folder; `changes` go into config.json."""
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps({**config(keys), **changes}))
    (folder / "tokenizer.json").write_text(json.dumps(plain_tokenizer(keys)))
    named = {their_name(n): t for n, t in tensors.items()}
    if shards == 1:
        (folder / "model.safetensors").write_bytes(safetensors(named))
        return folder
    names = list(named)
    files = [f"model-{i + 1:05}-of-{shards:05}.safetensors" for i in range(shards)]
    where = {n: files[i * shards // len(names)] for i, n in enumerate(names)}
    for f in files:
        (folder / f).write_bytes(safetensors({n: named[n] for n in names if where[n] == f}))
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": where}))
    return folder


# ---- BertModel, as sentence-transformers publishes it ----

BERT_LAYER = {"attn_q": "attention.self.query", "attn_k": "attention.self.key", "attn_v": "attention.self.value",
              "attn_output": "attention.output.dense", "attn_output_norm": "attention.output.LayerNorm",
              "ffn_up": "intermediate.dense", "ffn_down": "output.dense", "layer_output_norm": "output.LayerNorm"}
BERT_WHOLE = {"token_embd": "word_embeddings", "position_embd": "position_embeddings",
              "token_types": "token_type_embeddings", "token_embd_norm": "LayerNorm"}
BERT_MODULES = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")]


def bert_name(name):
    if not name.startswith("blk."):
        part, end = name.split(".")
        return f"embeddings.{BERT_WHOLE[part]}.{end}"
    _, layer, part, end = name.split(".")
    return f"encoder.layer.{layer}.{BERT_LAYER[part]}.{end}"


def bert_config(keys):
    def key(suffix):
        return keys[f"bert.{suffix}"]

    return {"architectures": ["BertModel"], "hidden_act": "gelu", "hidden_size": key("embedding_length"),
            "intermediate_size": key("feed_forward_length"), "num_hidden_layers": key("block_count"),
            "num_attention_heads": key("attention.head_count"), "max_position_embeddings": key("context_length"),
            "layer_norm_eps": key("attention.layer_norm_epsilon"), "type_vocab_size": 2,
            "vocab_size": len(tokens_of(keys)), "position_embedding_type": "absolute"}


def word_piece(tokens):
    """tokenizer.json of the tokens as GGUF files have them; the first five are special."""
    theirs = tokens[:5] + [t[1:] if t[0] == "\u2581" else "##" + t for t in tokens[5:]]
    cls, sep = ({"SpecialToken": {"id": t, "type_id": 0}} for t in ("[CLS]", "[SEP]"))
    return {"version": "1.0", "truncation": None, "padding": None,
            "added_tokens": [added(i, t, True) for i, t in enumerate(tokens[:5])],
            "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
                           "strip_accents": None, "lowercase": True},
            "pre_tokenizer": {"type": "BertPreTokenizer"},
            "post_processor": {"type": "TemplateProcessing", "single": [cls, {"Sequence": {"id": "A", "type_id": 0}}, sep]},
            "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                      "max_input_chars_per_word": 100, "vocab": {t: i for i, t in enumerate(theirs)}}}


def write_bert(folder, keys, tensors, prefix="", pooling="mean_tokens"):
    (folder / "1_Pooling").mkdir(parents=True)
    modes = {f"pooling_mode_{m}": m == pooling for m in ("cls_token", "mean_tokens", "max_tokens")}
    for name, content in [("config.json", bert_config(keys)), ("tokenizer.json", word_piece(tokens_of(keys))),
                          ("1_Pooling/config.json", modes),
                          ("modules.json", [{"path": p, "type": f"sentence_transformers.models.{t}"}
                                            for p, t in BERT_MODULES])]:
        (folder / name).write_text(json.dumps(content))
    named = {prefix + bert_name(n): t for n, t in tensors.items()}
    named[prefix + "embeddings.position_ids"] = ("I64", (1, 1), bytes(8))
    named[prefix + "pooler.dense.bias"] = ("F32", (2,), bytes(8))
    (folder / "model.safetensors").write_bytes(safetensors(named))
    return folder
