#!/usr/bin/env python3
"""What several clients feel, measured over loopback: `make bench-serving`.

prefix   a prefix of 512 tokens that 8 clients share, 32 tokens of their own each
flood    tenant A with 64 clients, tenant B with one request at a time
stall    8 streams while a prompt of 4,000 tokens arrives, with the step target and without
models   the same with the prompt for another model of the process; and what 8 streams of each make

Figures are milliseconds. Quiet machine, please.
"""
import os
import random
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "e2e"))
from quire import Server  # noqa: E402

MODEL = sys.argv[1]
random.seed(1)


def ids(n):
    return [random.randrange(300, 90000) for _ in range(n)]


def percentile(values, p):
    values = sorted(values)
    return 1000 * values[min(len(values) - 1, int(p * len(values)))]


def ask(server, prompt, max_tokens, headers=None, **fields):
    """Seconds to the first token, the gaps after it, and the usage; model=, and other fields of the body."""
    begin, last, first, gaps, usage = time.monotonic(), None, None, [], None
    stream = server.stream(prompt, headers, max_tokens=max_tokens, ignore_eos=True, temperature=0,
                           stream_options={"include_usage": True}, **fields)
    for frame in stream:
        usage = frame.get("usage") or usage
        if not frame["choices"] or not frame["choices"][0].get("text"):
            continue
        now = time.monotonic()
        if first is None:
            first = now - begin
        else:
            gaps.append((now, now - last))
        last = now
    stream.close()
    return first if first is not None else time.monotonic() - begin, gaps, usage


def threads_of(job, n=8):
    results = [None] * n

    def run(i):
        results[i] = job(i)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(n)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return results


def prefix():
    server = Server(model=MODEL)
    ask(server, ids(64), 4)  # warm
    uncached = [ask(server, ids(512 + 32), 2)[0] for _ in range(5)]
    shared = ids(512)
    first, _, _ = ask(server, shared + ids(32), 2)
    later, cached = [], []
    for _ in range(8):
        ttft, _, usage = ask(server, shared + ids(32), 2)
        later.append(ttft)
        cached.append(usage["prompt_tokens_details"]["cached_tokens"])
    median = percentile(uncached, 0.5)
    print(f"prefix  uncached {median:.1f}  first {1000 * first:.1f}  after it {percentile(later, 0.5):.1f} "
          f"({100 * percentile(later, 0.5) / median:.1f} %)  worst {1000 * max(later):.1f}  cached_tokens {sorted(set(cached))}")
    results = threads_of(lambda i: ask(server, shared + ids(32), 2)[0])
    print(f"prefix  8 clients at once: p50 {percentile(results, 0.5):.1f}  worst {1000 * max(results):.1f}")
    shared = ids(512)
    fresh = threads_of(lambda i: ask(server, shared + ids(32), 2)[0])
    print(f"prefix  8 clients at once, nothing cached: p50 {percentile(fresh, 0.5):.1f}  worst {1000 * max(fresh):.1f}")
    server.stop()
    server = Server("--prefix-cache", "off", model=MODEL)
    ask(server, ids(64), 4)
    alone = threads_of(lambda i: ask(server, shared + ids(32), 2)[0])
    print(f"prefix  the same with --prefix-cache off: p50 {percentile(alone, 0.5):.1f}  worst {1000 * max(alone):.1f}")
    server.stop()


def flood(n_prompt, clients=64, seconds=40):
    server = Server("--tenant-header", "X-Tenant", "--prefix-cache", "off", model=MODEL)
    b = {"X-Tenant": "b"}
    ask(server, ids(64), 4, b)
    solo = [ask(server, ids(n_prompt), 16, b)[0] for _ in range(20)]
    until = time.monotonic() + seconds

    def client(seed):
        r = random.Random(seed)
        while time.monotonic() < until:
            # not streamed: on two cores 64 streaming clients would compete with the server
            server.post("/v1/completions", {"prompt": [r.randrange(300, 90000) for _ in range(128)], "max_tokens": 64,
                                            "ignore_eos": True}, headers={"X-Tenant": "a"}, timeout=600)

    threads = [threading.Thread(target=client, args=(i,)) for i in range(clients)]
    for t in threads:
        t.start()
    time.sleep(5)
    busy = []
    while time.monotonic() < until - 1:
        busy.append(ask(server, ids(n_prompt), 16, b)[0])
    for t in threads:
        t.join()
    print(f"flood   B with {n_prompt} tokens alone p50 {percentile(solo, 0.5):.1f} p95 {percentile(solo, 0.95):.1f}; beside {clients} clients of A "
          f"p50 {percentile(busy, 0.5):.1f} p95 {percentile(busy, 0.95):.1f} ({len(busy)} requests); "
          f"p95 ratio {percentile(busy, 0.95) / percentile(solo, 0.95):.2f}")
    server.stop()


def stall(target, n_prompt=4000, models=("a", "a")):
    """Streams of the first model, a prompt for the second."""
    server = Server("--step-target-ms", str(target), model=",".join(f"{m}={MODEL}" for m in sorted(set(models))))
    for m in models:
        ask(server, ids(200), 4, model=m)
    gaps = [[] for _ in range(8)]

    def stream(i):
        gaps[i] = ask(server, ids(64), 400, model=models[0])[1]

    threads = [threading.Thread(target=stream, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    time.sleep(2)  # the streams take 5 s on a fast machine
    begin = time.monotonic()
    ttft, _, _ = ask(server, ids(n_prompt), 2, model=models[1])
    end = begin + ttft
    for t in threads:
        t.join()
    before = [g for s in gaps for at, g in s if at < begin]
    during = [g for s in gaps for at, g in s if begin <= at <= end + 0.5]
    print(f"stall   step_target_ms {target}, models {models}: gaps before p50 {percentile(before, 0.5):.1f}; during p50 {percentile(during, 0.5):.1f} "
          f"p99 {percentile(during, 0.99):.1f} max {1000 * max(during):.1f}; long prompt's TTFT {1000 * ttft:.0f}")
    server.stop()


def rates(server, names, n=8, seconds=8):
    """Tokens a second of n streams of each model, over some seconds in the middle."""
    def counts():
        return [sum(v for k, v in server.metrics().items() if k.startswith("quire_generation_tokens_total") and
                    (f'"{m}"' in k or "{" not in k)) for m in names]

    streams = [server.stream(ids(64), model=m, max_tokens=4000, ignore_eos=True, n=n) for m in names]
    time.sleep(2)
    before, begin = counts(), time.monotonic()
    time.sleep(seconds)
    after, took = counts(), time.monotonic() - begin
    for stream in streams:
        stream.reset()
    time.sleep(1)
    return [(b - a) / took for a, b in zip(before, after)]


def models():
    server = Server(model=f"a={MODEL}")
    lone = [rates(server, "a") for _ in range(3)]
    server.stop()
    server = Server(model=f"a={MODEL},b={MODEL}")
    one, two = [], []
    for _ in range(3):
        one.append(rates(server, "a"))
        two.append(rates(server, "ab"))
    server.stop()
    for what, runs in (("its own process", lone), ("one of two that has work", one), ("both", two)):
        print(f"models  8 streams, {what}: tokens/s {' '.join('+'.join(f'{x:.0f}' for x in r) for r in runs)}")


def main():
    cpu = subprocess.run("grep -m1 'model name' /proc/cpuinfo | cut -d: -f2", shell=True, capture_output=True,
                         text=True).stdout.strip()
    print(f"{cpu}, {os.cpu_count()} cores, {os.path.basename(MODEL)}")
    wanted = sys.argv[2:] or ["prefix", "flood", "stall", "models"]
    if "prefix" in wanted:
        prefix()
    if "flood" in wanted:
        flood(512)
        flood(128)
    if "stall" in wanted:
        stall(200)
        stall(0)
    if "models" in wanted:
        stall(200, models=("a", "b"))
        models()


main()
