#!/usr/bin/env python3
"""Short texts as vectors: `make bench-embeddings`.

10,000 texts of 3 to 30 words go to /v1/embeddings in calls of 256, four at a time, with the model's weights as
they are and as Q8_0. With a Python that has the package sentence-transformers (PEER=python3) the same texts go
through it on as many threads, in turn with the server, and vectors are compared. Texts a second, medians of the
runs; quiet machine, please.
"""
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "e2e"))
from quire import Server  # noqa: E402

FOLDER, PEER = pathlib.Path(sys.argv[1]), os.environ.get("PEER")
N, CALL, AT_ONCE, RUNS = int(os.environ.get("TEXTS", "10000")), 256, 4, 3
THREADS = len(os.sched_getaffinity(0))

PROGRAM = """
import json, sys, time
import torch
from sentence_transformers import SentenceTransformer
torch.set_num_threads(int(sys.argv[3]))
model = SentenceTransformer(sys.argv[1], device="cpu")
texts = json.load(open(sys.argv[2]))
model.encode(texts[:256])
for line in sys.stdin:
    begin = time.monotonic()
    found = model.encode(texts, batch_size=int(line), normalize_embeddings=True)
    print(json.dumps({"seconds": time.monotonic() - begin, "first": found[:20].tolist()}), flush=True)
"""


def texts():
    r = random.Random(1)
    words = [w for p in json.loads((pathlib.Path(__file__).parent.parent / "real/prompts.json").read_text())
             for w in str(p).split()]
    return [" ".join(r.choice(words) for _ in range(r.randint(3, 30))) for _ in range(N)]


def through(server, asked):
    """Seconds, and the first vectors."""
    begin, found = time.monotonic(), {}
    todo = list(range(0, len(asked), CALL))
    lock = threading.Lock()

    def run():
        while True:
            with lock:
                if not todo:
                    return
                at = todo.pop(0)
            r = server.post("/v1/embeddings", {"input": asked[at:at + CALL], "encoding_format": "base64" if at else "float"},
                            timeout=600)
            assert r.status == 200, r.body
            if at == 0:
                found[0] = [d["embedding"] for d in r.json["data"][:20]]

    threads = [threading.Thread(target=run) for _ in range(AT_ONCE)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return time.monotonic() - begin, found[0]


def cosine(a, b):
    return sum(x * y for x, y in zip(a, b)) / (sum(x * x for x in a) * sum(y * y for y in b)) ** 0.5


def main():
    asked = texts()
    servers = {"as they are": Server(model=FOLDER), "Q8_0": Server("--load-type", "q8_0", model=FOLDER)}
    rates = {k: [] for k in servers}
    peer, best = None, {}
    with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
        json.dump(asked, f)
        f.flush()
        if PEER:
            peer = subprocess.Popen([PEER, "-c", PROGRAM, str(FOLDER), f.name, str(THREADS)], stdin=subprocess.PIPE,
                                    stdout=subprocess.PIPE, text=True)
        for s in servers.values():
            through(s, asked[:512])
        vectors = {}
        for _ in range(RUNS):
            for k, s in servers.items():
                seconds, vectors[k] = through(s, asked)
                rates[k].append(N / seconds)
            for size in (32, 128) if peer else ():
                peer.stdin.write(f"{size}\n")
                peer.stdin.flush()
                said = json.loads(peer.stdout.readline())
                best.setdefault(size, []).append(N / said["seconds"])
                vectors["peer"] = said["first"]
    for k, v in rates.items():
        print(f"weights {k:12} {statistics.median(v):8.0f} texts/s  ({min(v):.0f} to {max(v):.0f})")
    for size, v in best.items():
        print(f"sentence-transformers, batches of {size:3} {statistics.median(v):8.0f} texts/s  ({min(v):.0f} to {max(v):.0f})")
    for k in rates:
        if peer:
            print(f"least cosine of 20 vectors, {k}: {min(map(cosine, vectors[k], vectors['peer'])):.6f}")
    for s in servers.values():
        s.stop()
    if peer:
        peer.stdin.close()
        peer.wait()


main()
