#!/usr/bin/env python3
"""Trains Quire's demo model from scratch on a CPU and writes it as a GGUF file.

Stories come from stories.py; the vocabulary (byte-level BPE), the network (llama architecture) and the file
are made here, with numpy and PyTorch (2.9 or later) only. The checkpoint keeps all that an export needs.
"""
import argparse
import collections
import json
import math
import pathlib
import re
import struct
import time

import numpy as np
import torch
import torch.nn.functional as F

import stories

SPECIALS = ["<|begin|>", "<|endoftext|>", "<|system|>", "<|user|>", "<|assistant|>", "<|end|>"]
BOS, EOS, END = 0, 1, 5
CHAT_TEMPLATE = ("{{ bos_token }}{% for message in messages %}{{ '<|' + message['role'] + '|>' + "
                 "message['content'] | trim + '<|end|>' }}{% endfor %}"
                 "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}")
SHAPE = {"vocab": 2048, "dim": 256, "layers": 5, "heads": 4, "kv_heads": 2, "ffn": 512, "context": 1024,
         "eps": 1e-5, "theta": 10000.0}


# ---- vocabulary: byte-level BPE with the pre-tokenizer of GPT-2

PRE_SPLIT = re.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?[^\W\d_]+| ?\d+| ?(?:_|[^\s\w])+|\s+(?!\S)|\s+")


def byte_letters():
    """GPT-2's way to write each byte as a printable character."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [b for b in range(256) if b not in plain]
    return {b: chr(b) for b in plain} | {b: chr(256 + i) for i, b in enumerate(rest)}


class Tokenizer:
    def __init__(self, merges):
        self.letters = byte_letters()
        self.merges = [tuple(m) for m in merges]
        self.rank = {pair: i for i, pair in enumerate(self.merges)}
        self.tokens = SPECIALS + sorted(self.letters.values()) + [a + b for a, b in self.merges]
        self.ids = {token: i for i, token in enumerate(self.tokens)}
        self.cache = {}

    @classmethod
    def learn(cls, texts, size):
        """Merges the commonest pair of neighbours until the vocabulary is full."""
        letters, counts = byte_letters(), collections.Counter()
        for text in texts:
            counts.update(PRE_SPLIT.findall(text))
        words = [([letters[b] for b in word.encode()], n) for word, n in counts.items()]
        pairs, where = collections.Counter(), collections.defaultdict(set)
        for i, (parts, n) in enumerate(words):
            for pair in zip(parts, parts[1:]):
                pairs[pair] += n
                where[pair].add(i)
        merges = []
        while len(merges) < size - 256 - len(SPECIALS):
            best = max(pairs, key=lambda p: (pairs[p], p))
            merges.append(best)
            for i in sorted(where.pop(best)):
                parts, n = words[i]
                for pair in zip(parts, parts[1:]):
                    pairs[pair] -= n
                merge(parts, best)
                for pair in zip(parts, parts[1:]):
                    pairs[pair] += n
                    where[pair].add(i)
            del pairs[best]
        return cls(merges)

    def encode(self, text):
        out = []
        for word in PRE_SPLIT.findall(text):
            if word not in self.cache:
                parts = [self.letters[b] for b in word.encode()]
                while len(parts) > 1:
                    best = min(zip(parts, parts[1:]), key=lambda p: self.rank.get(p, math.inf))
                    if best not in self.rank:
                        break
                    merge(parts, best)
                self.cache[word] = [self.ids[p] for p in parts]
            out += self.cache[word]
        return out

    def document(self, doc):
        """A story: BOS text EOS. A chat: BOS, then marker text END of each turn."""
        if isinstance(doc, str):
            return [BOS, *self.encode(doc), EOS]
        turns = [[self.ids[f"<|{role}|>"], *self.encode(text), END] for role, text in doc]
        return [BOS] + [i for turn in turns for i in turn]

    def decode(self, ids):
        back = {letter: b for b, letter in self.letters.items()}
        parts = [self.tokens[i].encode() if i < len(SPECIALS) else bytes(back[c] for c in self.tokens[i]) for i in ids]
        return b"".join(parts).decode(errors="replace")


def merge(parts, pair):
    i = 0
    while i < len(parts) - 1:
        if (parts[i], parts[i + 1]) == pair:
            parts[i:i + 2] = [parts[i] + parts[i + 1]]
        i += 1


# ---- network

def rotate(x, cos, sin):
    """Rotary position embedding over the neighbours (x[2i], x[2i+1]), as GGUF's llama has it."""
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack((a * cos - b * sin, a * sin + b * cos), dim=-1).flatten(-2).type_as(x)


class Block(torch.nn.Module):
    def __init__(self, s):
        super().__init__()
        dim, kv = s["dim"], s["dim"] // s["heads"] * s["kv_heads"]
        linear = lambda n_in, n_out: torch.nn.Linear(n_in, n_out, bias=False)
        self.heads, self.kv_heads = s["heads"], s["kv_heads"]
        self.attn_norm, self.ffn_norm = (torch.nn.RMSNorm(dim, eps=s["eps"]) for _ in range(2))
        self.attn_q, self.attn_k = linear(dim, dim), linear(dim, kv)
        self.attn_v, self.attn_output = linear(dim, kv), linear(dim, dim)
        self.ffn_gate, self.ffn_up, self.ffn_down = linear(dim, s["ffn"]), linear(dim, s["ffn"]), linear(s["ffn"], dim)

    def forward(self, x, cos, sin):
        n, t, dim = x.shape
        h = self.attn_norm(x)
        q = rotate(self.attn_q(h).view(n, t, self.heads, -1).transpose(1, 2), cos, sin)
        k = rotate(self.attn_k(h).view(n, t, self.kv_heads, -1).transpose(1, 2), cos, sin)
        v = self.attn_v(h).view(n, t, self.kv_heads, -1).transpose(1, 2)
        k, v = (z.repeat_interleave(self.heads // self.kv_heads, dim=1) for z in (k, v))
        h = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.attn_output(h.transpose(1, 2).reshape(n, t, dim))
        h = self.ffn_norm(x)
        return x + self.ffn_down(F.silu(self.ffn_gate(h)) * self.ffn_up(h))


class Model(torch.nn.Module):
    """Module names are the tensor names of the GGUF file."""

    def __init__(self, s):
        super().__init__()
        self.token_embd = torch.nn.Embedding(s["vocab"], s["dim"])
        self.blk = torch.nn.ModuleList(Block(s) for _ in range(s["layers"]))
        self.output_norm = torch.nn.RMSNorm(s["dim"], eps=s["eps"])
        half = s["dim"] // s["heads"] // 2
        angle = torch.outer(torch.arange(s["context"]).float(), s["theta"] ** (-torch.arange(half).float() / half))
        self.register_buffer("cos", angle.cos(), persistent=False)
        self.register_buffer("sin", angle.sin(), persistent=False)
        for name, p in self.named_parameters():
            if p.dim() == 2:
                small = "attn_output" in name or "ffn_down" in name
                torch.nn.init.normal_(p, std=0.02 / math.sqrt(2 * s["layers"]) if small else 0.02)

    def forward(self, ids):
        t = ids.shape[1]
        x = self.token_embd(ids)
        for block in self.blk:
            x = block(x, self.cos[:t], self.sin[:t])
        return F.linear(self.output_norm(x), self.token_embd.weight)


# ---- training

def make_data(args, tok):
    docs = [doc for _, doc in zip(range(args.documents), stories.documents(args.seed))]
    flat = lambda doc: doc if isinstance(doc, str) else "\n".join(text for _, text in doc)
    tok = tok or Tokenizer.learn(map(flat, docs[:8000]), SHAPE["vocab"])
    encoded = [tok.document(doc) for doc in docs]
    starts = np.cumsum([0] + [len(e) for e in encoded])
    return tok, np.concatenate([np.array(e, dtype=np.uint16) for e in encoded]), starts


def batches(rng, data, starts, per_step):
    """Windows that begin where a document begins, as every prompt will; one in four has the full context."""
    order = []
    while True:
        t = SHAPE["context"] if rng.random() < 0.25 else SHAPE["context"] // 2
        rows = []
        while len(rows) * t < per_step:
            order = order or list(rng.permutation(starts[starts + t + 1 <= len(data)]))
            at = int(order.pop())
            rows.append(data[at:at + t + 1])
        block = torch.from_numpy(np.stack(rows).astype(np.int64))
        yield block[:, :-1], block[:, 1:]


def optimizers(model, lr):
    matrices = [p for p in model.blk.parameters() if p.dim() == 2]
    norms = [p for p in model.parameters() if p.dim() == 1]
    muon = torch.optim.Muon(matrices, lr=lr, weight_decay=0.05, momentum=0.95, adjust_lr_fn="match_rms_adamw")
    adam = torch.optim.AdamW([{"params": [model.token_embd.weight], "weight_decay": 0.01},
                              {"params": norms, "weight_decay": 0.0}], lr=lr, betas=(0.9, 0.95))
    return [muon, adam]


def train(args):
    torch.manual_seed(args.seed)
    model, tok = load(args.resume) if args.resume else (Model(SHAPE), None)
    tok, data, starts = make_data(args, tok)
    print(f"{len(data):,} tokens, {sum(p.numel() for p in model.parameters()):,} parameters", flush=True)
    forward = torch.compile(model) if args.compile else model
    optims, began, saved, mean = optimizers(model, args.lr), time.time(), time.time(), None
    for step, (x, y) in enumerate(batches(np.random.default_rng(args.seed), data, starts, args.batch)):
        done = (time.time() - began) / (60 * args.minutes)
        if done >= 1:
            break
        rate = args.lr * min(1, (step + 1) / 60) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * done)))
        with torch.autocast("cpu", torch.bfloat16):
            logits = forward(x)
        loss = F.cross_entropy(logits.float().flatten(0, 1), y.flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optim in optims:
            for group in optim.param_groups:
                group["lr"] = rate
            optim.step()
            optim.zero_grad()
        mean = loss.item() if mean is None else 0.95 * mean + 0.05 * loss.item()
        if step % 20 == 0:
            speed = (step + 1) * args.batch / (time.time() - began)
            print(f"step {step} loss {mean:.3f} rate {rate:.2e} tokens/s {speed:.0f} done {done:.1%}", flush=True)
        if time.time() - saved > 240:
            save(args.checkpoint, model, tok)
            saved = time.time()
    save(args.checkpoint, model, tok)


def save(path, model, tok):
    part = f"{path}.part"
    torch.save({"model": model.state_dict(), "merges": tok.merges}, part)
    pathlib.Path(part).replace(path)


def load(path):
    kept = torch.load(path)
    model = Model(SHAPE)
    model.load_state_dict(kept["model"])
    return model.eval(), Tokenizer(kept["merges"])


@torch.no_grad()
def sample(model, tok, text, temperature=0.7, top_p=0.9, limit=500):
    """The answer to a request, or the rest of a story that begins with "Once"."""
    ids = tok.document([["user", text]]) + [tok.ids["<|assistant|>"]]
    ids = tok.document(text)[:-1] if text.startswith("Once") else ids
    given = len(ids)
    while len(ids) - given < limit and (len(ids) == given or ids[-1] not in (EOS, END)):
        p = torch.softmax(model(torch.tensor([ids]))[0, -1] / temperature, -1).sort(descending=True)
        kept = p.values * (p.values.cumsum(-1) - p.values < top_p)
        ids.append(int(p.indices[torch.multinomial(kept, 1)]))
    return tok.decode(ids[given:])


# ---- GGUF

U32, F32, BOOL, STRING, ARRAY, I32 = 4, 6, 7, 8, 9, 5
TENSOR_F32, TENSOR_Q8_0 = 0, 8


def gguf_string(text):
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def gguf_value(kind, value):
    if kind == STRING:
        return gguf_string(value)
    return struct.pack({U32: "<I", I32: "<i", F32: "<f", BOOL: "<?"}[kind], value)


def gguf_key(key, kind, value):
    if isinstance(value, list):
        head = struct.pack("<IIQ", ARRAY, kind, len(value))
        return gguf_string(key) + head + b"".join(gguf_value(kind, v) for v in value)
    return gguf_string(key) + struct.pack("<I", kind) + gguf_value(kind, value)


def metadata(tok):
    s = SHAPE
    kinds = [3] * len(SPECIALS) + [1] * (len(tok.tokens) - len(SPECIALS))
    return [
        ("general.architecture", STRING, "llama"), ("general.name", STRING, "Quire demo stories"),
        ("general.type", STRING, "model"), ("general.license", STRING, "MIT"), ("general.alignment", U32, 32),
        ("general.file_type", U32, 7), ("general.quantization_version", U32, 2),
        ("llama.vocab_size", U32, s["vocab"]), ("llama.context_length", U32, s["context"]),
        ("llama.embedding_length", U32, s["dim"]), ("llama.block_count", U32, s["layers"]),
        ("llama.feed_forward_length", U32, s["ffn"]), ("llama.attention.head_count", U32, s["heads"]),
        ("llama.attention.head_count_kv", U32, s["kv_heads"]),
        ("llama.attention.layer_norm_rms_epsilon", F32, s["eps"]),
        ("llama.rope.dimension_count", U32, s["dim"] // s["heads"]), ("llama.rope.freq_base", F32, s["theta"]),
        ("tokenizer.ggml.model", STRING, "gpt2"), ("tokenizer.ggml.pre", STRING, "gpt-2"),
        ("tokenizer.ggml.tokens", STRING, tok.tokens), ("tokenizer.ggml.token_type", I32, kinds),
        ("tokenizer.ggml.merges", STRING, [f"{a} {b}" for a, b in tok.merges]),
        ("tokenizer.ggml.bos_token_id", U32, BOS), ("tokenizer.ggml.eos_token_id", U32, EOS),
        ("tokenizer.ggml.eot_token_id", U32, END), ("tokenizer.ggml.add_bos_token", BOOL, True),
        ("tokenizer.ggml.add_eos_token", BOOL, False), ("tokenizer.chat_template", STRING, CHAT_TEMPLATE)]


def q8_0(x):
    """Blocks of 32: a half-precision scale and 32 signed bytes."""
    x = x.reshape(-1, 32)
    scale = (np.abs(x).max(axis=1, keepdims=True) / 127).astype(np.float16)
    wide = scale.astype(np.float32)
    codes = np.clip(np.round(np.divide(x, wide, out=np.zeros_like(x), where=wide > 0)), -127, 127).astype(np.int8)
    return scale, codes


def q8_0_bytes(x):
    return np.concatenate([part.view(np.uint8) for part in q8_0(x)], axis=1).tobytes()


def export(path, model, tok):
    keys, infos, blob = metadata(tok), [], b""
    for name, p in model.named_parameters():
        x = p.detach().numpy().astype(np.float32)
        kind, raw = (TENSOR_Q8_0, q8_0_bytes(x)) if x.ndim == 2 else (TENSOR_F32, x.tobytes())
        dims = x.shape[::-1]  # the fastest-running dimension comes first
        infos.append(gguf_string(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, len(blob)))
        blob += raw + bytes(-len(raw) % 32)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(infos), len(keys))
    head += b"".join(gguf_key(*key) for key in keys) + b"".join(infos)
    size = pathlib.Path(path).write_bytes(head + bytes(-len(head) % 32) + blob)
    print(f"{path}: {size:,} bytes")


FIXTURE = ["", "Once upon a time", "Tell me a story about a fox who lost a key.", " leading and trailing  ",
           "line one\n\n\tline two\r\n", "It's 1234567 o'clock, isn't it? we'll see!",
           "snake_case __init__ (a[i] += 3); // C", "Müller aß 3 Äpfel für 5 €.", "こんにちは世界", "🦊🔑 fox & key",
           "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "          ", "BRABANBO Zaquiny...", "\n", "a\n b\n  c"]


def write_tokens(path, tok):
    """One case a line: the ids, a tab, the text with its line breaks escaped."""
    with open(path, "w", encoding="utf-8", newline="\n") as out:
        for text in FIXTURE:
            shown = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
            out.write(" ".join(map(str, tok.encode(text))) + "\t" + shown + "\n")


@torch.no_grad()
def write_score(path, model, tok):
    """A chat's ids and their mean negative log-likelihood under the file's weights, in double precision."""
    for p in model.parameters():
        if p.dim() == 2:
            scale, codes = q8_0(p.numpy())
            p.copy_(torch.from_numpy(scale.astype(np.float32) * codes).view_as(p))
    ids = tok.document(next(doc for doc in stories.documents(2) if not isinstance(doc, str) and len(doc) > 3))
    logits = model.double()(torch.tensor([ids]))[0]
    score = F.cross_entropy(logits[:-1], torch.tensor(ids[1:])).item()
    pathlib.Path(path).write_text(json.dumps({"ids": ids, "nll": round(score, 6)}) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    here = pathlib.Path(__file__).parent
    option = parser.add_argument
    option("--minutes", type=float, default=50, help="how long to train (default 50; 0: only use the checkpoint)")
    option("--out", default=here / "quire-demo.gguf", help="the GGUF file to write")
    option("--checkpoint", default="quire-demo.pt", help="where to keep the weights (default quire-demo.pt)")
    option("--resume", metavar="PATH", help="begin with this checkpoint's weights and vocabulary")
    option("--documents", type=int, default=80000, help="how many stories and chats (default 80000)")
    option("--batch", type=int, default=4096, help="tokens a step (default 4096)")
    option("--lr", type=float, default=3e-3, help="highest learning rate (default 3e-3)")
    option("--compile", action="store_true", help="let PyTorch compile the network: a quarter faster, needs g++")
    option("--seed", type=int, default=1, help="of the stories and of the training order (default 1)")
    option("--threads", type=int, default=2, help="processor threads (default 2)")
    option("--sample", action="append", default=[], metavar="TEXT", help="print what the model answers; repeatable")
    option("--fixtures", metavar="FOLDER", type=pathlib.Path,
           help="also write demo_tokens.txt and demo_score.json, for the tests")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    if args.minutes > 0:
        train(args)
    model, tok = load(args.checkpoint)
    export(args.out, model, tok)
    torch.manual_seed(args.seed)
    for text in args.sample:
        print(f"\n> {text}\n{sample(model, tok, text)}")
    if args.fixtures:
        write_tokens(args.fixtures / "demo_tokens.txt", tok)
        write_score(args.fixtures / "demo_score.json", model, tok)


if __name__ == "__main__":
    main()
