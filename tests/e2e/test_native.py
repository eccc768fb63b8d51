"""POST /completion: llama-server's own endpoint."""
import json

import pytest

PROMPT = "Once upon a time there was a"
GREEDY = {"temperature": 0, "ignore_eos": True, "n_predict": 12}
KEYS = ["index", "content", "tokens", "id_slot", "stop", "model", "tokens_predicted", "tokens_evaluated",
        "generation_settings", "prompt", "has_new_line", "truncated", "stop_type", "stopping_word", "tokens_cached",
        "timings"]


def native(server, prompt, path="/completion", **fields):
    r = server.post(path, {"prompt": prompt, **fields})
    assert r.status == 200, r.body
    return r.json


def frames(server, prompt, **fields):
    return [json.loads(p) for p in server.frames("/completion", {"prompt": prompt, **fields})]


def plain(server, prompt, **fields):
    fields = {"temperature": 0, "ignore_eos": True, "max_tokens": 12, "return_token_ids": True, **fields}
    return server.complete(prompt, **fields).json["choices"][0]


def test_shape(server):
    expected = plain(server, PROMPT)
    for path in ("/completion", "/completions"):
        r = native(server, PROMPT, path, **GREEDY)
        assert list(r) == KEYS
        assert (r["index"], r["content"], r["tokens"], r["stop"]) == (0, expected["text"], [], True)
        n = len(expected["prompt_token_ids"])
        assert (r["tokens_predicted"], r["tokens_evaluated"], r["tokens_cached"]) == (12, n, n + 11)
        assert (r["stop_type"], r["stopping_word"], r["truncated"]) == ("limit", "", False)
        assert r["prompt"] == "<|begin|>" + PROMPT and r["model"] == "quire-demo"
        t = r["timings"]
        assert t["cache_n"] + t["prompt_n"] == n and t["predicted_n"] == 12
        assert t["predicted_per_token_ms"] == pytest.approx(t["predicted_ms"] / 12, abs=0.01)
    assert native(server, PROMPT, return_tokens=True, **GREEDY)["tokens"] == expected["token_ids"]


def test_settings_are_what_was_asked_for(server):
    fields = {"n_predict": 3, "seed": 7, "temperature": 0.5, "top_k": 20, "top_p": 0.75, "min_p": 0.25,
              "typical_p": 0.5, "repeat_penalty": 1.25, "presence_penalty": 0.5, "frequency_penalty": -0.5,
              "xtc_probability": 0.5, "xtc_threshold": 0.25, "mirostat": 2, "mirostat_tau": 4, "mirostat_eta": 0.25,
              "dry_multiplier": 0.5, "dry_base": 2, "dry_allowed_length": 3, "dry_penalty_last_n": 64,
              "dry_sequence_breakers": ["x"], "stop": ["§"], "min_tokens": 1, "ignore_eos": True, "n_probs": 2}
    assert native(server, PROMPT, **fields)["generation_settings"].items() >= fields.items()
    defaults = native(server, PROMPT, n_predict=1)["generation_settings"]
    again = native(server, PROMPT, n_predict=1)["generation_settings"]
    assert defaults["seed"] != again["seed"] and {**defaults, "seed": 0} == {**again, "seed": 0}


def test_a_reported_seed_gives_the_same_answer(server):
    for seed in (-1, 2**32 - 1, None):
        first = native(server, PROMPT, n_predict=16, seed=seed, ignore_eos=True)
        used = first["generation_settings"]["seed"]
        if used < 2**53:
            assert native(server, PROMPT, n_predict=16, seed=used, ignore_eos=True)["content"] == first["content"]
    two = native(server, PROMPT, n_predict=16, seed=5, n=2)
    assert [r["generation_settings"]["seed"] for r in two] == [5, 6]
    assert native(server, PROMPT, n_predict=16, seed=6)["content"] == two[1]["content"]


def test_forms_of_a_prompt(server):
    ids = plain(server, PROMPT)["prompt_token_ids"]
    words = server.post("/tokenize", {"content": " dog"}).json["tokens"]
    text = plain(server, PROMPT)["text"]
    for prompt in (ids, [ids], [PROMPT], [*ids[:1], PROMPT]):
        assert json.dumps(native(server, prompt, **GREEDY)).count(json.dumps(text)[1:-1]) == 1, prompt
    assert native(server, [PROMPT, *words], **GREEDY)["content"] == plain(server, [*ids, *words])["text"]
    several = native(server, [PROMPT, ids, [*ids, " dog"]], **GREEDY)
    assert [r["index"] for r in several] == [0, 1, 2]
    assert [r["content"] for r in several] == [text, text, plain(server, [*ids, *words])["text"]]
    r = server.post("/completion", {"prompt": [[""], "a"]})
    assert r.status in (200, 400)


def test_stop_types(server):
    whole = plain(server, PROMPT, max_tokens=40)
    word = whole["text"][5:9]
    r = native(server, PROMPT, **{**GREEDY, "n_predict": 40}, stop=["§", word])
    assert (r["stop_type"], r["stopping_word"]) == ("word", word)
    assert r["content"] == whole["text"][:whole["text"].find(word)]
    r = native(server, PROMPT, logit_bias=[["<|endoftext|>", 0], [1, 100]], n_predict=5)
    assert (r["stop_type"], r["content"], r["tokens_predicted"]) == ("eos", "", 1)
    r = native(server, PROMPT, **{**GREEDY, "n_predict": 0})
    assert (r["stop_type"], r["content"], r["tokens_predicted"]) == ("limit", "", 0)
    newline = server.post("/tokenize", {"content": "\n"}).json["tokens"]
    assert native(server, PROMPT, logit_bias=[[newline[0], 100]], **GREEDY)["has_new_line"]
    assert not native(server, PROMPT, logit_bias=[["\n", False]], **GREEDY)["has_new_line"]


def test_no_limit(server):
    length = server.get("/v1/models").json["data"][0]["max_model_len"]
    r = native(server, PROMPT, temperature=0, ignore_eos=True, n_predict=-1)
    assert r["tokens_predicted"] == length - r["tokens_evaluated"] and r["stop_type"] == "limit"


def test_biases(server):
    word, = server.post("/tokenize", {"content": " dog"}).json["tokens"]
    for bias in ([[word, 100]], [[" dog", 100]], {str(word): 100}):
        assert native(server, PROMPT, logit_bias=bias, return_tokens=True, **GREEDY)["tokens"] == [word] * 12
    first = plain(server, PROMPT)["token_ids"][0]
    assert first not in native(server, PROMPT, logit_bias=[[first, False]], return_tokens=True, **GREEDY)["tokens"]


def test_probabilities(server):
    r = native(server, PROMPT, n_probs=3, return_tokens=True, **GREEDY)
    expected = plain(server, PROMPT, logprobs=3)["logprobs"]
    probabilities = r["completion_probabilities"]
    assert [p["id"] for p in probabilities] == r["tokens"]
    assert [p["token"] for p in probabilities] == expected["tokens"]
    assert [p["logprob"] for p in probabilities] == expected["token_logprobs"]
    for p in probabilities:
        assert list(p) == ["id", "token", "logprob", "bytes", "top_logprobs"] and bytes(p["bytes"]).decode() == p["token"]
        assert p["top_logprobs"][0].items() <= p.items() and len(p["top_logprobs"]) == 3
    joined = [p for f in frames(server, PROMPT, n_probs=3, **GREEDY) for p in f.get("completion_probabilities", [])]
    assert joined == probabilities


def test_stream(server):
    whole = native(server, PROMPT, return_tokens=True, **GREEDY)
    *parts, last = frames(server, PROMPT, **GREEDY)
    assert all(list(f) == ["index", "content", "tokens", "id_slot", "stop", "tokens_predicted", "tokens_evaluated"]
               for f in parts)
    assert "".join(f["content"] for f in parts) == whole["content"]
    assert [t for f in parts for t in f["tokens"]] == whole["tokens"]
    assert not any(f["stop"] for f in parts) and list(last) == KEYS
    same = set(KEYS) - {"content", "tokens", "timings", "generation_settings"}
    assert last["content"] == "" and last["tokens"] == [] and {k: last[k] for k in same} == {k: whole[k] for k in same}
    assert parts[-1]["tokens_predicted"] == 12


def test_streams_of_several_prompts(server):
    texts, ends = ["", ""], 0
    for f in frames(server, [PROMPT, "The dog"], **GREEDY):
        texts[f["index"]] += f["content"]
        ends += f["stop"]
    assert texts == [plain(server, PROMPT)["text"], plain(server, "The dog")["text"]] and ends == 2


def test_constraints(server):
    assert native(server, PROMPT, n_predict=20, grammar='root ::= "yes" | "no"')["content"] in ("yes", "no")
    r = native(server, PROMPT, n_predict=20, json_schema={"enum": [17]})
    assert r["content"] == "17" and r["stop_type"] == "eos"
