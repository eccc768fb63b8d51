"""Tokens a second with and without guesses of a model's own layer (MTP), where these are right, and where they never are.

usage: bench_mtp.py FOLDER [--runs 5] [--arch glm4moe]

Models that count (tests/reference/mtp_fixtures.py), of 150 to 350 MB, are made in FOLDER. One server each, whose requests
ask for speculation or not, in turn; each pair of answers must be the same. Medians of the ratios of neighbouring runs.
"""
import argparse
import pathlib
import statistics
import sys
import threading
import time

ROOT = pathlib.Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "e2e"), str(ROOT / "reference")]
import mtp_fixtures  # noqa: E402
from quire import Server  # noqa: E402

N_VOCAB, N_TOKENS = 32000, 200
SIZES = {"n_vocab": N_VOCAB, "n_embd": 1024, "n_ff": 3072, "n_ff_exp": 768, "n_ff_shared": 768, "n_layer": 12}
MODELS = {"glm4moe": "nextn", "deepseek2": "flash", "qwen35": "mtp"}  # of the last two the fixtures say how many layers


def model_of(folder, arch, is_right):
    path = folder / f"{arch}-{'right' if is_right else 'wrong'}.gguf"
    if not path.exists():
        path.write_bytes(mtp_fixtures.counting(arch, MODELS[arch], "Q8_0", is_right, n_ctx=2048, **SIZES))
    return path


def ask(server, i, temperature, speculates, answers):
    body = {"prompt": [(97 * i + j) % N_VOCAB for j in range(32)], "max_tokens": N_TOKENS, "temperature": temperature,
            "seed": i, "ignore_eos": True, "timings": True, "return_token_ids": True, "speculation": speculates}
    answers[i] = server.post("/v1/completions", body).json["choices"][0]


def run(server, first, n, temperature, speculates):
    """Seconds for n clients at a time, and their answers."""
    answers = {}
    clients = [threading.Thread(target=ask, args=(server, first + i, temperature, speculates, answers)) for i in range(n)]
    begin = time.monotonic()
    for c in clients:
        c.start()
    for c in clients:
        c.join()
    return time.monotonic() - begin, [answers[first + i] for i in range(n)]


def compare(server, name, n, temperature, runs):
    ratios, rates, drafted, accepted = [], [], 0, 0
    run(server, 1000, n, temperature, True)
    for i in range(runs):
        off, plain = run(server, 10 * i, n, temperature, False)
        on, answers = run(server, 10 * i, n, temperature, True)
        assert [a["token_ids"] for a in plain] == [a["token_ids"] for a in answers], "another answer with speculation"
        ratios.append(off / on)
        rates.append(N_TOKENS * n / on)
        drafted += sum(a["timings"]["draft_tokens"] for a in answers)
        accepted += sum(a["timings"]["accepted_draft_tokens"] for a in answers)
    print(f"{name:18s} temperature {temperature:3.1f} {n:2d} clients: {statistics.median(rates):7.1f} tokens/s, "
          f"{statistics.median(ratios):5.2f} x ({min(ratios):.2f} to {max(ratios):.2f}); {accepted} of {drafted} accepted",
          flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--arch", choices=MODELS, nargs="*", default=["glm4moe", "qwen35"])
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    for arch in args.arch:
        for is_right in (True, False):
            path = model_of(args.folder, arch, is_right)
            s = Server("--speculation-history", "0", "--context", "2048", model=path)
            for n, temperature in ((1, 0), (1, 0.8), (4, 0)):
                compare(s, path.stem, n, temperature, args.runs)
            s.stop()


if __name__ == "__main__":
    main()
