#!/usr/bin/env python3
"""How far each kv_type is from float64 on a long text of real models: `make accuracy-kv`.

A text of 4,096 tokens, this repository's own documents, is scored by `quire score` with each type
and by the reference (tests/reference), which reads the same file and computes in float64. The table
says by how much the log-probability of a token that follows differs: on average, at most, and by
how much the mean of all of them is off. What f16 differs by is due to the products, whose rows are
quantised.

    accuracy_kv.py --folder build/real [--tokens N] [NAME...]
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "e2e"), str(HERE.parent / "reference")]

import numpy as np  # noqa: E402

import forward  # noqa: E402
import gguf_file  # noqa: E402
import packages  # noqa: E402
import parts  # noqa: E402

QUIRE = os.environ.get("QUIRE_BIN", "build/quire")
TYPES = ["f32", "f16", "bf16", "q8_0", "q4_0"]
ROWS = 256  # of logits at a time


def text():
    root = HERE.parent.parent
    return "\n".join((root / name).read_text("utf-8") for name in ("server/README.md", "docker/README.md"))


def quire(*args):
    return subprocess.run([QUIRE, *map(str, args)], check=True, capture_output=True, text=True).stdout


def tokens_of(path, n):
    """The ids of the first n tokens."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as f:
        f.write(text()[:16 * n])
        f.flush()
        lines = quire("score", "--text", f.name, "--each", "--model", path, "--context", 512).splitlines()
    return [int(line.split()[0]) for line in lines[:-1]][:n]


def scored(path, ids, kv_type):
    """The log-probabilities of ids[1:]."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
        json.dump(ids, f)
        f.flush()
        lines = quire("score", "--ids", f.name, "--each", "--model", path, "--context", len(ids),
                      "--kv-type", kv_type).splitlines()
    return np.array([float(line.split()[1]) for line in lines[:-1]])


def by_kv_head(whole):
    """Attention of one KV head after the other: the scores of all would fill the memory."""
    def attention(q, k, v, *args, **more):
        n, group = k.shape[1], q.shape[1] // k.shape[1]
        return np.concatenate([whole(q[:, i * group:(i + 1) * group], k[:, i:i + 1], v[:, i:i + 1], *args, **more)
                               for i in range(n)], axis=1)
    return attention


def exact(path, ids):
    """The same in float64; the logits of a few rows are there at a time."""
    whole, together, found = forward.output, parts.attention, []

    def few(m, x):
        for at in range(0, len(x) - 1, ROWS):
            rows = forward.soft_cap(whole(m, x[at:at + ROWS]), m.key("final_logit_softcapping", 0.0))
            rows = rows[:len(ids) - 1 - at] / m.key("logit_scale", 1.0)
            logs = rows - np.logaddexp.reduce(rows, axis=1, keepdims=True)
            found.append(logs[np.arange(len(rows)), ids[at + 1:at + 1 + len(rows)]])
        return x
    forward.output, parts.attention = few, by_kv_head(together)
    try:
        forward.forward(gguf_file.read(pathlib.Path(path).read_bytes()), ids)
    finally:
        forward.output, parts.attention = whole, together
    return np.concatenate(found)


def table(name, path, n):
    ids = tokens_of(path, n)
    want = exact(path, ids)
    print(f"\n{name}, {len(ids)} tokens, float64: {-want.mean():.5f} nats a token\n\n"
          "| kv_type | mean \\|d log p\\| | largest | mean of all off by |\n|---|---|---|---|")
    for kv_type in TYPES:
        far = scored(path, ids, kv_type) - want
        print(f"| {kv_type} | {np.abs(far).mean():.5f} | {np.abs(far).max():.3f} | {-far.mean():+.5f} |", flush=True)


def main():
    models = [n for n, m in packages.MODELS.items() if not m.embeds]
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", required=True)
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("names", nargs="*", choices=[[], *models])
    args = parser.parse_args()
    for name in args.names or models:
        table(name, packages.fetch(name, args.folder), args.tokens)


if __name__ == "__main__":
    main()
