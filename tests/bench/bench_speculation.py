"""Tokens a second with and without speculation, for answers that repeat what is known and for one that does not.

usage: bench_speculation.py MODEL.gguf [--draft MODEL.gguf] [--streams 1,4,16] [--runs 3] [--tasks edit,story]

One server, whose requests ask for speculation or not, in turn; each pair of answers must be the same. Medians of the
ratios of neighbouring runs. The server keeps no earlier answers, which would have all that is asked twice, but for the
task `again`, the same question with other endings. With PEER=python3, an interpreter that has the package xllamacpp (llama-server as a library),
the same prompts go to that without and with its own n-gram drafts, or with the draft model, one stream.
"""
import argparse
import concurrent.futures
import contextlib
import json
import os
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "e2e"))
from quire import Server  # noqa: E402

TOWN = """The town of Maren lies where the river bends twice before it meets the sea. In the morning the fishing boats come \
home, and the women of the market wait on the stones with baskets and scales. Nobody speaks much before the first fish \
is sold. Then the old bell rings, the bakery opens its green door, and the children run down the hill to school. In the \
evening the same boats lie in a row along the wall, and the men mend their nets under the lamps until the wind turns cold.
"""
CODE = """class Stack:
    def __init__(self):
        self.items = []

    def push(self, item):
        self.items.append(item)

    def pop(self):
        if not self.items:
            raise IndexError("pop from an empty stack")
        return self.items.pop()

    def peek(self):
        if not self.items:
            raise IndexError("peek at an empty stack")
        return self.items[-1]

    def size(self):
        return len(self.items)
"""
PERSON = {"type": "object", "properties": {
    "first_name": {"type": "string", "maxLength": 12}, "family_name": {"type": "string", "maxLength": 12},
    "age_in_years": {"type": "integer", "minimum": 1, "maximum": 99}, "is_member": {"type": "boolean"}},
    "required": ["first_name", "family_name", "age_in_years", "is_member"], "additionalProperties": False}
PEOPLE = {"type": "array", "items": PERSON, "minItems": 4, "maxItems": 4}


def chat(text):
    return f"<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n"


def completion(prompt, n=160, **fields):
    return {"prompt": prompt, "max_tokens": n, "temperature": 0, "timings": True, **fields}


EDITED = TOWN.replace("river", "stream").replace("children", "girls")
TASKS = {
    "edit": completion(f"Original text:\n{TOWN}\nThe same text, with 'stream' for 'river' and 'girls' for 'children':\n"
                       + EDITED[:60]),
    "prediction": completion(chat("Write about a town by the sea.")),
    "copy": completion(f"{TOWN}\n{TOWN}\n{TOWN[:60]}"),
    "quotes": completion(chat(f"{TOWN}\nSummarise the text with quotes from it.")
                         + 'The text says: "The town of Maren lies where the river'),
    "code": completion(f"# stack.py\n{CODE}\n# stack_with_names.py, the same with names\n" + CODE[:48]),
    "schema": completion(chat("Write a list of four people as JSON."), 220, json_schema=PEOPLE),
    "story": completion(chat("Tell me a story about a dragon."), temperature=0.8, seed=7),
}
# The same question with another ending each time: what was answered before helps.
QUESTION = "How is bread made at home, step by step?"
ENDINGS = ["", " Please.", " Thank you!", " I have an oven.", " I want to bake it today.", " Tell me all of it.",
           " My family likes bread.", " I have flour and yeast."]


def predict(server):
    """The prediction of that task: its answer, in which every twelfth word is another one."""
    text = server.post("/v1/completions", dict(TASKS["prediction"], prompt=f"0\n{TASKS['prediction']['prompt']}")).text
    words = [w if i % 12 < 11 else "other" for i, w in enumerate(text.split(" "))]
    TASKS["prediction"]["prediction"] = {"type": "content", "content": " ".join(words)}


ROUNDS = 4  # requests for each of several clients


def run(server, body, n, speculates):
    """Tokens a second of n clients, who take what there is to do one behind the other: each request has another beginning,
    so none is computed for another."""
    count = n * ROUNDS if n > 1 else 1
    bodies = [dict(body, prompt=f"{i}\n{body['prompt']}", speculation=speculates) for i in range(count)]
    begin = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(n) as clients:
        answers = list(clients.map(lambda b: server.post("/v1/completions", b).json, bodies))
    timings = [a["choices"][0]["timings"] for a in answers]
    seconds = time.monotonic() - begin if n > 1 else timings[0]["decode_ms"] / 1000
    return (sum(a["usage"]["completion_tokens"] for a in answers) / seconds,
            [a["choices"][0]["text"] for a in answers],
            sum(t["draft_tokens"] for t in timings), sum(t["accepted_draft_tokens"] for t in timings))


def compare(server, name, n, runs):
    rates, ratios = [], []
    run(server, TASKS[name], n, True)  # what the prompts have in common is cached from here on
    for _ in range(runs):
        off, texts, _, _ = run(server, TASKS[name], n, False)
        on, others, drafted, accepted = run(server, TASKS[name], n, True)
        assert texts == others, f"{name}: another answer with speculation"
        rates.append((off, on))
        ratios.append(on / off)
    report(name, n, rates, ratios, drafted, accepted)


def report(name, n, rates, ratios, drafted, accepted):
    off, on = (statistics.median(r[i] for r in rates) for i in (0, 1))
    print(f"{name:12s} {n:3d} clients: {off:7.1f} > {on:7.1f} tokens/s, {statistics.median(ratios):5.2f} x "
          f"({min(ratios):.2f} to {max(ratios):.2f}); {accepted} of {drafted} drafts accepted", flush=True)


def compare_again(server, runs):
    rates, ratios, drafted, accepted = [], [], 0, 0
    run(server, completion(chat(QUESTION + ENDINGS[0])), 1, True)
    for ending in ENDINGS[1:1 + runs]:
        off, texts, _, _ = run(server, completion(chat(QUESTION + ending)), 1, False)
        on, others, n_drafted, n_accepted = run(server, completion(chat(QUESTION + ending)), 1, True)
        assert texts == others, "again: another answer with speculation"
        rates.append((off, on))
        ratios.append(on / off)
        drafted, accepted = drafted + n_drafted, accepted + n_accepted
    report("again", 1, rates, ratios, drafted // len(ratios), accepted // len(ratios))


PEER = """
import json, statistics, sys, time
import xllamacpp as x
model, threads, runs, tasks, draft = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), json.loads(sys.argv[4]), sys.argv[5]
kind = x.common_speculative_type
def server(drafts):
    p = x.CommonParams()
    p.model.path = model
    p.n_ctx, p.n_parallel, p.n_gpu_layers = 4096, 1, 0
    p.cpuparams.n_threads = p.cpuparams_batch.n_threads = threads
    if drafts and draft:
        p.speculative.types = [kind.COMMON_SPECULATIVE_TYPE_DRAFT_SIMPLE]
        p.speculative.draft.mparams.path = draft
        p.speculative.draft.n_gpu_layers = 0
        p.speculative.draft.cpuparams.n_threads = p.speculative.draft.cpuparams_batch.n_threads = threads
    elif drafts:
        p.speculative.types = [kind.COMMON_SPECULATIVE_TYPE_NGRAM_MAP_K4V]
    return x.Server(p)
def rate(s, body):
    out = s.handle_completions(dict(body, cache_prompt=True))
    out = json.loads(out) if isinstance(out, str) else out
    return out["timings"]["predicted_per_second"]
plain, fast = server(False), server(True)
for name, body in tasks.items():
    pairs = [(rate(plain, body), rate(fast, body)) for _ in range(runs + 1)][1:]
    off, on = (statistics.median(p[i] for p in pairs) for i in (0, 1))
    print(f"{name:12s} llama-server: {off:7.1f} > {on:7.1f} tokens/s, "
          f"{statistics.median(b / a for a, b in pairs):5.2f} x", flush=True)
"""


@contextlib.contextmanager
def serving(args, *flags):
    server = Server("--threads", str(args.threads), "--context", "2048", "--log-level", "warn", "--draft", args.draft, *flags,
                    model=args.model)
    yield server
    server.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model")
    parser.add_argument("--draft", default="")
    parser.add_argument("--streams", default="1,4,16")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--tasks", default=",".join([*TASKS, "again"]))
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    args = parser.parse_args()
    names = [n for n in args.tasks.split(",") if n != "again"]
    with serving(args, "--speculation-history", "0") as server:
        predict(server)
        for n in map(int, args.streams.split(",")):
            for name in names:
                compare(server, name, n, args.runs)
    if "again" in args.tasks.split(","):
        with serving(args) as server:
            compare_again(server, args.runs)
    if os.environ.get("PEER"):
        bodies = {n: dict(TASKS[n], n_predict=TASKS[n]["max_tokens"]) for n in names if n != "prediction"}
        subprocess.run([os.environ["PEER"], "-c", PEER, args.model, str(args.threads), str(args.runs), json.dumps(bodies),
                        args.draft], check=True)


if __name__ == "__main__":
    main()
