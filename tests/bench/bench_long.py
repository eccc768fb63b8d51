#!/usr/bin/env python3
"""Long contexts, in `quire bench` run after run: `make bench-long`.

usage: bench_long.py MODEL.gguf [--tests streams,shared,prefill] [--kv f16,q8_0] [--isa avx512] [--runs 3] [--threads N]
                     [--lengths 8192,16384,32768,65536]

streams  a step of 8 streams with 4,096 tokens each over one with 512: the model of the command line
shared   16 streams that share 4,096 tokens, with cascade attention and without: two layers of the shape of Llama 2 7B,
         whose 32 KV heads have 67 MB of f16 keys and values a layer, more than a last-level cache holds
prefill  whole prompts of a small model, whose time is mostly attention: operations a second in attention, and their share
         of the FMA peak, or of the peak of integers where keys and values are codes. With PEER=python3, an interpreter
         that has the package xllamacpp (llama-server as a library), the prompts go to that too, by its fast attention.

Runs of what is compared take turns; figures are medians of ratios of neighbouring runs, and their range. Attention is the
share that the first thread was in it. Quiet machine, please; QUIRE_BIN and QUIRE_TOOLS say what is run.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess

BIN, TOOLS = os.environ["QUIRE_BIN"], os.environ["QUIRE_TOOLS"]
SMALL = {"layers": 4, "heads": 8, "head-dim": 64}
SHAPES = {
    "llama-2-7b-2-layers": ["--shape", "llama-2-7b"],
    "small-long": ["--arch", "llama", "--embd", "512", "--kv-heads", "2", "--ff", "1536", "--vocab", "4096", "--context",
                   "131072", "--tied", *(word for name, n in SMALL.items() for word in (f"--{name}", str(n)))],
}


def model(folder, name):
    path = pathlib.Path(folder) / f"{name}.Q8_0.gguf"
    if not path.exists():
        subprocess.run([f"{TOOLS}/mkmodel", *SHAPES[name], "--type", "Q8_0", "--out", f"{path}.part"], check=True)
        os.replace(f"{path}.part", path)
    return path


def bench(args, path, kv, *flags, memory="1g"):
    """Limits and the one result."""
    command = [BIN, "bench", "--model", str(path), "--threads", str(args.threads), "--kv-type", kv, "--kv-memory", memory,
               "--context", "131072", "--mixed", "0", "--quick", "--json", *map(str, flags)]
    out = subprocess.run(command + (["--isa", args.isa] if args.isa else []), check=True, capture_output=True, text=True)
    report = json.loads(out.stdout)
    [result] = report["results"]
    return report["limits"], result


def decode(args, path, kv, streams, depth, *flags, memory="1g"):
    return bench(args, path, kv, "--prefill", 0, "--batch", streams, "--depth", depth, "--decode", 16, *flags,
                 memory=memory)[1]


def spread(values):
    return f"{statistics.median(values):.2f} x ({min(values):.2f} to {max(values):.2f})"


def attention_ms(result):
    return result["median_ms"] * result["time_shares"]["attention"]


def streams(args, kv):
    pairs = [(decode(args, args.model, kv, 8, 512), decode(args, args.model, kv, 8, 4096)) for _ in range(args.runs)]
    steps = [long["median_ms"] / short["median_ms"] for short, long in pairs]
    share = statistics.median(long["read_share"] for _, long in pairs)
    print(f"streams  {kv:5s} 8 at 4,096 over 8 at 512: step {spread(steps)}; attention "
          f"{statistics.median(attention_ms(s) for s, _ in pairs):.1f} > "
          f"{statistics.median(attention_ms(s) for _, s in pairs):.1f} ms, {100 * share:.0f} % of reading", flush=True)


def shared(args, kv):
    path = model(args.folder, "llama-2-7b-2-layers")
    pairs = [[decode(args, path, kv, 16, 4224, "--shared", 4096, *flags, memory="4g") for flags in ([], ["--no-cascade"])]
             for _ in range(args.runs)]
    print(f"shared   {kv:5s} 16 that share 4,096: step {spread([off['median_ms'] / on['median_ms'] for on, off in pairs])}"
          f"; attention {spread([attention_ms(off) / attention_ms(on) for on, off in pairs])}", flush=True)


PEER = """
import json, sys
import xllamacpp as x
model, threads, n, kv = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
p = x.CommonParams()
p.model.path = model
p.n_ctx, p.n_parallel, p.n_gpu_layers = n + 256, 1, 0
p.cpuparams.n_threads = p.cpuparams_batch.n_threads = threads
p.flash_attn_type = x.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_ENABLED
p.cache_type_k = p.cache_type_v = getattr(x.ggml_type, "GGML_TYPE_" + kv.upper())
ids = [300 + i * 7919 % 3000 for i in range(n)]
out = x.Server(p).handle_completions(dict(prompt=ids, n_predict=1, cache_prompt=False, temperature=0))
out = json.loads(out) if isinstance(out, str) else out
print(out["timings"]["prompt_ms"])
"""


def peer_ms(args, path, kv, n):
    out = subprocess.run([os.environ["PEER"], "-c", PEER, str(path), str(args.threads), str(n), kv], check=True,
                         capture_output=True, text=True)
    return float(out.stdout.split()[-1])


def prefill(args, kv):
    path = model(args.folder, "small-long")
    for n in map(int, args.lengths.split(",")):
        runs = [bench(args, path, kv, "--prefill", n, "--repeat", 1, "--decode", 0) for _ in range(args.runs)]
        ops = n * (n + 1) / 2 * SMALL["heads"] * SMALL["head-dim"] * 2 * 2 * SMALL["layers"]  # scores and values
        rates = [ops / attention_ms(r) * 1e-6 for _, r in runs]
        peak = "float" if kv in ("f16", "bf16") else "wide"
        share = statistics.median(rate / limits["gops"][peak] for rate, (limits, _) in zip(rates, runs))
        ms = statistics.median(r["median_ms"] for _, r in runs)
        print(f"prefill  {kv:5s} {n:6d} tokens: {n / ms * 1000:7.0f} tokens/s, attention {statistics.median(rates):4.0f} "
              f"Gop/s, {100 * share:.0f} % of the peak", end="", flush=True)
        if os.environ.get("PEER"):
            peer = peer_ms(args, path, kv, n)
            print(f"; llama-server {n / peer * 1000:.0f} tokens/s, {peer / ms:.2f} x", end="")
        print(flush=True)


TESTS = {"streams": streams, "shared": shared, "prefill": prefill}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model")
    parser.add_argument("--tests", default=",".join(TESTS))
    parser.add_argument("--kv", default="f16,q8_0")
    parser.add_argument("--isa")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--lengths", default="8192,16384,32768,65536")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    args = parser.parse_args()
    args.folder = os.path.dirname(args.model)
    for test in args.tests.split(","):
        for kv in args.kv.split(","):
            TESTS[test](args, kv)


if __name__ == "__main__":
    main()
