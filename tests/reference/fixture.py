"""A model file in the making: its sizes, and the keys and tensors as they are added.

Matrices are of the type that is asked for. Norms, biases, routers and whatever else no file
quantises are F32. Weights are spread so that activations stay near 1, scores differ by a few, and
logits are of the order of 1 to 6.
"""
import zlib

import numpy as np

import gguf_file
from rounding import encode

N_CTX = 512
SHORT_CTX = 32  # of models that have short and long factors, what they were trained with


def token_name(i):
    """a, b, ... z, aa, ab, ..."""
    name = ""
    i += 1
    while i:
        i, letter = divmod(i - 1, 26)
        name = chr(ord("a") + letter) + name
    return name


class Fixture:
    """Sizes, and the keys and tensors of the file as they are added."""

    def __init__(self, arch, variant, kind, seed, n_ctx):
        self.arch, self.variant, self.kind = arch, variant, kind
        self.rng = np.random.default_rng([seed, zlib.crc32(f"{arch} {variant}".encode())])
        self.tensors = {}
        self.keys = {"general.architecture": arch, "general.name": f"{arch} {variant}"}
        self.n_layer, self.n_ctx = 2, n_ctx
        odd = kind == "F32"
        self.n_embd, self.n_ff, self.n_vocab = (72, 88, 37) if odd else (96, 160, 41)
        self.n_head, self.n_kv_head, self.head = (9, 3, 8) if odd else (4, 2, 24)
        self.n_expert, self.n_used, self.n_ff_exp, self.n_ff_shared = 5, 2, *((40, 56) if odd else (64, 96))

    def free_heads(self):
        """Heads whose sizes do not add up to the embedding's, for families that allow it."""
        self.n_head, self.n_kv_head, self.head = (5, 1, 24) if self.kind == "F32" else (6, 2, 32)

    # ---- keys ----

    def key(self, suffix, value):
        self.keys[f"{self.arch}.{suffix}"] = value

    def sizes(self, eps="attention.layer_norm_rms_epsilon"):
        for suffix, value in [("block_count", self.n_layer), ("context_length", self.n_ctx),
                              ("embedding_length", self.n_embd), ("feed_forward_length", self.n_ff),
                              ("attention.head_count", self.n_head), (eps, 1e-5)]:
            self.key(suffix, value)
        if self.arch not in ("gpt2", "gptneox", "bert"):
            self.key("attention.head_count_kv", self.n_kv_head)
        if self.head * self.n_head != self.n_embd:
            self.key("attention.key_length", self.head)
            self.key("attention.value_length", self.head)

    def rope(self, n_rot=None, base=10000.0):
        self.key("rope.dimension_count", n_rot or self.head)
        self.key("rope.freq_base", base)

    def scaling(self, kind, factor=4.0, context=SHORT_CTX):
        self.key("rope.scaling.type", kind)
        self.key("rope.scaling.factor", factor)
        if kind == "yarn":
            self.key("rope.scaling.original_context_length", context)

    def expert_keys(self):
        self.key("expert_count", self.n_expert)
        self.key("expert_used_count", self.n_used)

    def tokenizer(self):
        n = self.n_vocab
        self.keys.update({
            "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2",
            "tokenizer.ggml.tokens": [token_name(i) for i in range(n)],
            "tokenizer.ggml.token_type": [1] * n, "tokenizer.ggml.merges": ["a a"],
            "tokenizer.ggml.eos_token_id": n - 1})

    # ---- tensors ----

    def add(self, name, kind, values):
        self.tensors[name] = (kind, values.shape, encode(kind, values))

    def matrix(self, name, *shape, gain=1.0, kind=None):
        """Shape: (n_out, n_in), or (experts, n_out, n_in)."""
        self.add(name + ".weight", kind or self.kind, self.rng.normal(0, gain / shape[-1] ** 0.5, shape))

    def vector(self, name, *shape, mean=0.0, std=0.3):
        self.add(name, "F32", self.rng.normal(mean, std, shape))

    def norm(self, name, *shape, bias=False, mean=1.0):
        shape = shape or (self.n_embd,)
        self.vector(name + ".weight", *shape, mean=mean, std=0.2 * mean)
        if bias:
            self.vector(name + ".bias", *shape)

    def biased(self, name, n_out, n_in, bias, gain=1.0):
        self.matrix(name, n_out, n_in, gain=gain)
        if bias:
            self.vector(name + ".bias", n_out)

    # ---- parts of a model ----

    def ends(self, tied=False, scaled_by=1.0, norm_bias=False, output_bias=False):
        """The embedding, the last norm and the output. scaled_by: what the model multiplies
        embeddings with."""
        wanted = 1.5 if tied else self.n_embd ** 0.5 / scaled_by
        self.matrix("token_embd", self.n_vocab, self.n_embd, gain=wanted)
        self.norm("output_norm", bias=norm_bias)
        if not tied:
            self.biased("output", self.n_vocab, self.n_embd, output_bias, gain=1.5)

    def attention(self, i, fused=False, bias=False, out_bias=False):
        b, n_q, n_kv = f"blk.{i}.", self.n_head * self.head, self.n_kv_head * self.head
        if fused:
            self.biased(b + "attn_qkv", n_q + 2 * n_kv, self.n_embd, bias, gain=1.1)
        else:
            self.biased(b + "attn_q", n_q, self.n_embd, bias, gain=1.1)
            self.biased(b + "attn_k", n_kv, self.n_embd, bias, gain=1.1)
            self.biased(b + "attn_v", n_kv, self.n_embd, bias)
        self.biased(b + "attn_output", self.n_embd, n_q, out_bias)

    def gated(self, i, n_ff=None, suffix="", bias=False):
        b, n_ff = f"blk.{i}.ffn_", n_ff or self.n_ff
        self.biased(b + "gate" + suffix, n_ff, self.n_embd, bias, gain=1.5)
        self.biased(b + "up" + suffix, n_ff, self.n_embd, bias, gain=1.5)
        self.biased(b + "down" + suffix, self.n_embd, n_ff, bias)

    def plain(self, i, bias=True):
        self.biased(f"blk.{i}.ffn_up", self.n_ff, self.n_embd, bias, gain=1.5)
        self.biased(f"blk.{i}.ffn_down", self.n_embd, self.n_ff, bias)

    def experts(self, i, bias=False, kind=None, fused=False):
        b, n, n_ff = f"blk.{i}.ffn_", self.n_expert, self.n_ff_exp
        inner = [("gate_up", 2 * n_ff)] if fused else [("gate", n_ff), ("up", n_ff)]
        self.matrix(b + "gate_inp", n, self.n_embd, gain=3.5, kind="F32")
        if bias:
            self.vector(b + "gate_inp.bias", n)
        # An expert adds little, so that a token on the edge between two of them weighs little.
        parts = [(part, n_out, self.n_embd, 1.5) for part, n_out in inner]
        for part, n_out, n_in, gain in [*parts, ("down", self.n_embd, n_ff, 0.7)]:
            self.matrix(f"{b}{part}_exps", n, n_out, n_in, gain=gain, kind=kind)
            if bias:
                self.vector(f"{b}{part}_exps.bias", n, n_out)

    def bytes(self):
        self.tokenizer()
        return gguf_file.write(self.keys, self.tensors)
