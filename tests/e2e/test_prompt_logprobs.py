"""`prompt_logprobs`, and that every way to score a text gives the same bits."""
import json
import pathlib
import struct
import subprocess

from quire import BIN

PROMPT = "Once upon a time there was a little bear"
DEMO = pathlib.Path(__file__).parents[2] / "config/demo/quire-demo.gguf"


def scores(server, prompt, **fields):
    return server.complete(prompt, max_tokens=0, **fields).json["choices"][0]["prompt_logprobs"]


def test_shape(server):
    ids = server.post("/tokenize", {"content": PROMPT, "add_special": True, "with_pieces": True}).json["tokens"]
    found = scores(server, PROMPT, prompt_logprobs=3)
    assert len(found) == len(ids) and found[0] is None
    for token, entry in zip(ids[1:], found[1:]):
        own = entry[str(token["id"])]
        assert next(iter(entry)) == str(token["id"]) and own["decoded_token"] == token["piece"]
        assert len(entry) == (3 if own["rank"] <= 3 else 4)
        ranked = sorted(entry.values(), key=lambda v: v["rank"])
        assert [v["rank"] for v in ranked[:3]] == [1, 2, 3]
        assert [v["logprob"] for v in ranked] == sorted((v["logprob"] for v in ranked), reverse=True)
    assert all(len(entry) == 1 for entry in scores(server, PROMPT, prompt_logprobs=0)[1:])


def test_ranks_are_places_among_all(server):
    """With the most alternatives there are: whoever has a rank within them is one of them."""
    for entry in scores(server, PROMPT, prompt_logprobs=20)[1:]:
        own, others = next(iter(entry.values())), list(entry.values())[1:]
        assert len(entry) == (20 if own["rank"] <= 20 else 21)
        assert own["rank"] - 1 <= len(others) or own["rank"] > 20
        better = sum(v["logprob"] > own["logprob"] for v in others)
        assert better <= own["rank"] - 1


def test_beside_logprobs(server):
    fields = dict(logprobs=1, max_tokens=4, temperature=0, ignore_eos=True)
    plain = server.complete(PROMPT, **fields).json["choices"][0]
    both = server.complete(PROMPT, prompt_logprobs=5, **fields).json["choices"][0]
    assert both["logprobs"] == plain["logprobs"] and "prompt_logprobs" not in plain
    echo = server.complete(PROMPT, prompt_logprobs=2, echo=True, **fields).json["choices"][0]
    n = len(echo["prompt_logprobs"])
    own = [None] + [next(iter(e.values()))["logprob"] for e in echo["prompt_logprobs"][1:]]
    assert echo["logprobs"]["token_logprobs"][:n] == own


def test_each_prompt_has_its_own(server):
    prompts = [PROMPT, "The dog ran", PROMPT]
    alone = [scores(server, p, prompt_logprobs=1) for p in prompts]
    r = server.complete(prompts, n=2, max_tokens=0, prompt_logprobs=1).json["choices"]
    assert [c["prompt_logprobs"] for c in r] == [a for a in alone for _ in range(2)]


def test_chat(server):
    messages = [{"role": "user", "content": "Tell me a story."}]
    r = server.post("/v1/chat/completions", {"messages": messages, "max_tokens": 2, "prompt_logprobs": 2, "n": 2})
    assert r.status == 200
    prompt = server.post("/apply-template", {"messages": messages}).json["prompt"]
    ids = server.post("/tokenize", {"content": prompt}).json["tokens"]
    assert r.json["prompt_logprobs"] == scores(server, ids, prompt_logprobs=2)


def test_not_streamed(server):
    r = server.post("/v1/completions", {"prompt": "a", "prompt_logprobs": 1, "stream": True})
    assert r.status == 400 and r.json["error"]["param"] == "prompt_logprobs"


def command_score(ids, folder):
    file = folder / "ids.json"
    file.write_text(json.dumps(ids))
    run = subprocess.run([BIN, "score", "--model", DEMO, "--ids", file], capture_output=True, text=True, check=True)
    return run.stdout


def test_all_ways_give_the_same_bits(start, tmp_path):
    """Echo, prompt_logprobs and the command on a text of 300 tokens; the command prints means."""
    s = start(model=DEMO)
    text = "Lily saw a big red boat by the river and asked her mother why it was so sad. " * 30
    ids = s.post("/tokenize", {"content": text, "add_special": True}).json["tokens"][:300]
    echo = s.complete(ids, max_tokens=0, echo=True, logprobs=0).json["choices"][0]["logprobs"]["token_logprobs"]
    own = [next(iter(e.values()))["logprob"] for e in scores(s, ids, prompt_logprobs=0)[1:]]
    assert len(ids) == 300 and echo[0] is None and echo[1:] == own
    exact = struct.unpack("<299f", struct.pack("<299f", *own))  # JSON has their shortest decimals
    for n in (2, 3, 100, 299, 300):
        mean = -sum(exact[:n - 1]) / (n - 1)
        assert command_score(ids[:n], tmp_path) == f"mean_nll {mean:.6f} tokens {n - 1}\n"
