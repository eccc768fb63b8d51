#!/usr/bin/env python3
"""How soon the first token comes when 512 tokens of the prompt are in the block store: after a restart, beside computing
them. Fails above a tenth.

    bench_kv_store.py MODEL [PLACE]      PLACE: as the setting kv_store; a folder of its own, if none is given
"""
import json
import os
import pathlib
import random
import statistics
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "e2e"))

from quire import Server  # noqa: E402

N_PREFIX, N_PROMPTS, MOST = 512, 3, 0.10


def serve(model, place):
    return Server("--kv-store", place, "--kv-memory", "1g", "--log-level", "warn", model=model)


def first_tokens(s, prompts):
    """Seconds of each, and how many of its tokens were cached."""
    times, cached = [], []
    for ids in prompts:
        begin = time.perf_counter()
        r = s.post("/v1/completions", {"prompt": ids, "max_tokens": 1, "temperature": 0})
        times.append(time.perf_counter() - begin)
        cached.append(r.json["usage"]["prompt_tokens_details"]["cached_tokens"])
    return times, cached


def measure(model, place):
    rng = random.Random(5)
    prompts = [[rng.randrange(1000, 20000) for _ in range(N_PREFIX + 8)] for _ in range(N_PROMPTS)]
    rows = {}
    for name in ("computed", "after a restart"):
        s = serve(model, place)
        rows[name], cached = first_tokens(s, prompts)
        assert cached == [0 if name == "computed" else N_PREFIX] * N_PROMPTS, cached
        if name != "computed":
            rows["in the cache"], _ = first_tokens(s, prompts)
        assert s.stop() == 0, s.read_log()
    return {name: statistics.median(times) for name, times in rows.items()}


def main():
    model, *place = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        rows = measure(model, place[0] if place else f"dir:{folder}/store")
    for name, seconds in rows.items():
        print(f"{name:16} {seconds * 1000:7.1f} ms  {seconds / rows['computed'] * 100:5.1f} %")
    print(json.dumps({"prefix_tokens": N_PREFIX, "seconds": rows, "threads": os.environ.get("QUIRE_THREADS", "auto")}))
    return 0 if rows["after a restart"] <= MOST * rows["computed"] else 1


if __name__ == "__main__":
    sys.exit(main())
