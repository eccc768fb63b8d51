#!/usr/bin/env python3
"""What LoRA adapters cost: `make bench-adapters`.

16 streams of 128 tokens, in turn: of the model alone, of one adapter all of them, and of 8 adapters with two
streams each. Adapters are random, F16, of the ranks that are asked for, on all products of all layers or on
queries and values alone. Milliseconds of a step (its median over the runs), and ratios. Quiet machine, please.
"""
import os
import pathlib
import statistics
import sys
import tempfile
import threading

import numpy as np

sys.path += [os.path.join(os.path.dirname(__file__), "..", d) for d in ("e2e", "reference")]
import gguf_file  # noqa: E402
from quire import Server  # noqa: E402

MODEL = sys.argv[1]
RANKS = [int(r) for r in sys.argv[2:]] or [8, 16, 64]
STREAMS, ADAPTERS, TOKENS, RUNS = 16, 8, 128, 5
ALL = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
SOME = ("attn_q", "attn_v")


def shapes():
    """Names and shapes of the model's matrices; their numbers are not read."""
    with open(MODEL, "rb") as f:
        head = f.read(32 << 20)
    c = gguf_file.Cursor(head)
    assert c.number("4s") == b"GGUF" and c.number("I") == 3
    n_tensors, n_keys = c.number("Q"), c.number("Q")
    for _ in range(n_keys):
        c.string()
        c.value(c.number("I"))
    found = {}
    for _ in range(n_tensors):
        name = c.string()
        found[name] = tuple(reversed([c.number("Q") for _ in range(c.number("I"))]))
        c.number("I"), c.number("Q")
    return found


def write(path, rank, parts, seed):
    rng = np.random.default_rng(seed)
    tensors = {}
    for name, shape in shapes().items():
        if name.startswith("blk.") and name.endswith(".weight") and name.split(".")[2] in parts:
            for end, n, m in (("a", rank, shape[1]), ("b", shape[0], rank)):
                x = rng.normal(0, 0.01, (n, m)).astype("<f2")
                tensors[f"{name}.lora_{end}"] = "F16", x.shape, x.tobytes()
    path.write_bytes(gguf_file.write({"general.type": "adapter", "adapter.type": "lora",
                                      "adapter.lora.alpha": float(rank)}, tensors))


def step_ms(server, names):
    """Of a step in which all streams run."""
    def run(i):
        body = {"prompt": [1000 + i] * 4, "max_tokens": TOKENS, "ignore_eos": True, "temperature": 0}
        r = server.post("/v1/completions", {**body, **({"model": names[i]} if names[i] else {})}, timeout=600)
        assert r.status == 200, r.body

    before = server.metrics()
    threads = [threading.Thread(target=run, args=(i,)) for i in range(STREAMS)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    after = server.metrics()
    seconds, steps = (after[f"quire_iteration_seconds_{k}"] - before[f"quire_iteration_seconds_{k}"]
                      for k in ("sum", "count"))
    return 1000 * seconds / steps


def measure(folder, rank, parts, label):
    names = [f"a{i}" for i in range(ADAPTERS)]
    for i, name in enumerate(names):
        write(folder / f"{name}.gguf", rank, parts, i)
    server = Server("--adapters-dir", str(folder), "--adapter-memory", "8g", "--prefix-cache", "off", model=MODEL)
    for name in names:
        r = server.post("/v1/load_lora_adapter", {"lora_name": name, "lora_path": name + ".gguf"})
        assert r.status == 200, r.body
    size = server.metrics()["quire_adapter_bytes"] / ADAPTERS / 1e6
    kinds = {"none": [None] * STREAMS, "one": [names[0]] * STREAMS,
             "eight": [names[i % ADAPTERS] for i in range(STREAMS)]}
    times = {k: [] for k in kinds}
    step_ms(server, kinds["eight"])  # warm
    for _ in range(RUNS):
        for kind, who in kinds.items():
            times[kind].append(step_ms(server, who))
    none = statistics.median(times["none"])
    row = [f"{statistics.median(times[k]):.2f} ms" for k in kinds]
    ratios = [statistics.median(t / n for t, n in zip(times[k], times["none"])) for k in ("one", "eight")]
    print(f"rank {rank:3} {label:9} {size:6.1f} MB each: none {row[0]}  one for all {row[1]} ({ratios[0]:.3f})  "
          f"8 adapters {row[2]} ({ratios[1]:.3f})  spread of none {min(times['none']):.2f} to {max(times['none']):.2f}",
          flush=True)
    server.stop()
    return none


for wanted in RANKS:
    for group, word in ((SOME, "q and v"), (ALL, "all")):
        with tempfile.TemporaryDirectory() as at:
            measure(pathlib.Path(at), wanted, group, word)
