"""An answer that fills its context goes on where the setting context_shift is on."""
import json

import pytest

from test_cli import quire

CONTEXT = 64
GREEDY = {"temperature": 0, "ignore_eos": True, "repeat_penalty": 1}
PROMPT = [1] + [40 + i % 25 for i in range(19)]  # ids of the demo model


@pytest.fixture(scope="module")
def shifting(tmp_path_factory):
    from quire import Server
    s = Server("--context", str(CONTEXT), "--context-shift", "on",
               "--journal", str(tmp_path_factory.mktemp("shift") / "journal"))
    yield s
    s.stop()


def native(server, **fields):
    r = server.post("/completion", {"prompt": PROMPT, "return_tokens": True, **GREEDY, **fields})
    assert r.status == 200, r.body
    return r.json


def windows(prompt, tokens, n_keep, n_discard):
    """What stays at each shift, and how many tokens had come."""
    known = list(prompt)
    for i, t in enumerate(tokens):
        known.append(t)
        if len(known) == CONTEXT and i + 1 < len(tokens):
            del known[n_keep:n_keep + n_discard]
            yield list(known), i + 1


# llama-server keeps what the model begins with beside n_keep tokens: the demo model has such a token.
@pytest.mark.parametrize("fields,n_keep,n_discard", [
    ({}, 1, 31), ({"n_keep": 7}, 8, 28), ({"n_keep": -1}, 20, 22), ({"n_keep": 10**9}, 60, 2),
    ({"n_discard": 40}, 1, 40), ({"n_discard": 10**9}, 1, 62), ({"n_keep": 15, "n_discard": 16}, 16, 16)])
def test_what_follows_is_what_a_new_prompt_gets(shifting, fields, n_keep, n_discard):
    r = native(shifting, n_predict=150, **fields)
    assert (len(r["tokens"]), r["tokens_predicted"], r["stop_type"], r["truncated"]) == (150, 150, "limit", True)
    shifts = list(windows(PROMPT, r["tokens"], n_keep, n_discard))
    assert len(shifts) >= 2
    for ids, at in shifts[:3]:
        n = min(CONTEXT - len(ids), 150 - at)
        fresh = native(shifting, prompt=ids, n_predict=n)
        assert fresh["tokens"] == r["tokens"][at:at + n] and not fresh["truncated"]
    assert r["tokens_cached"] == 20 + 150 - 1 - n_discard * len(shifts)


def test_metrics_and_plan(shifting):
    before = shifting.metrics()["quire_context_shifts_total"]
    plan = shifting.post("/v1/plan", {"prompt": PROMPT, "max_tokens": 150, "n_keep": 7}).json["prompts"][0]
    native(shifting, n_predict=150, n_keep=7)
    assert shifting.metrics()["quire_context_shifts_total"] == before + plan["context_shifts"] == before + 4
    assert plan["blocks"] == CONTEXT // 16 and plan["max_tokens"] == 150


def test_every_format(shifting):
    body = {"prompt": PROMPT, "max_tokens": 100, "temperature": 0, "ignore_eos": True}
    r = shifting.post("/v1/completions", {**body, "logprobs": 2}).json
    choice = r["choices"][0]
    assert choice["finish_reason"] == "length" and r["usage"]["completion_tokens"] == 100
    assert len(choice["logprobs"]["tokens"]) == 100
    assert choice["text"] == native(shifting, n_predict=100)["content"]
    frames = [json.loads(f) for f in shifting.frames("/v1/completions", body) if f != "[DONE]"]
    assert "".join(f["choices"][0]["text"] for f in frames if f["choices"]) == choice["text"]
    chat = shifting.post("/v1/chat/completions", {
        "messages": [{"role": "user", "content": "dog"}], "max_tokens": 100, "temperature": 0, "ignore_eos": True})
    assert chat.json["usage"]["completion_tokens"] == 100


def test_several_choices(shifting):
    fields = {"prompt": PROMPT, "max_tokens": 90, "temperature": 0.8, "seed": 5, "ignore_eos": True}
    both = shifting.post("/v1/completions", {**fields, "n": 2}).json["choices"]
    alone = [shifting.post("/v1/completions", {**fields, "seed": 5 + i}).json["choices"][0]["text"] for i in (0, 1)]
    assert [c["text"] for c in both] == alone and alone[0] != alone[1]
    best = shifting.post("/v1/completions", {**fields, "best_of": 2}).json["choices"][0]["text"]
    assert best in alone


def test_there_is_an_end(shifting):
    assert native(shifting, n_predict=-1)["tokens_predicted"] == 10 * CONTEXT
    assert native(shifting, n_predict=10**6)["tokens_predicted"] == 10 * CONTEXT


def test_penalties_and_constraints_go_on(shifting):
    fields = {"n_predict": 130, "repeat_penalty": 1.3, "repeat_last_n": -1, "frequency_penalty": 0.5}
    assert native(shifting, **fields)["tokens"] == native(shifting, **fields)["tokens"]
    text = native(shifting, n_predict=200, grammar='root ::= ("ab" "c"){50}')["content"]
    assert text == "abc" * 50


def test_a_prompt_must_fit(shifting):
    r = shifting.post("/completion", {"prompt": PROMPT * 4, "n_predict": 5})
    assert r.status == 400 and r.json["error"]["type"] == "exceed_context_size_error"
    assert shifting.post("/completion", {"prompt": PROMPT[:1] * CONTEXT, "n_predict": 5}).status == 400


def test_ollama(shifting):
    def generate(**fields):
        options = {"temperature": 2, "top_k": 0, "top_p": 1, "seed": seed, "num_predict": 100, **fields.pop("options", {})}
        return shifting.post("/api/generate", {"model": "quire-demo", "prompt": "dog " * 10, "raw": True, "stream": False,
                                               "options": options, **fields})
    seed = 0
    while generate().json["done_reason"] != "length":  # a text that does not end by itself
        seed += 1
    whole, ended = generate(), generate(shift=False)
    assert whole.json["eval_count"] == 100 and generate(shift=True).json["response"] == whole.json["response"]
    assert ended.json["eval_count"] == CONTEXT - ended.json["prompt_eval_count"] < 100
    assert ended.json["done_reason"] == "length"
    assert whole.json["response"].startswith(ended.json["response"])
    # Ollama keeps 4 unless it is told otherwise
    assert generate(options={"num_keep": 4}).json["response"] == whole.json["response"]
    assert generate(options={"num_ctx": 48}).json["eval_count"] == 100


def test_without_the_setting_it_ends(server):
    r = server.post("/api/generate", {"model": "quire-demo", "prompt": "dog", "raw": True, "shift": True})
    assert r.status == 400 and "context_shift" in r.json["error"]
    assert server.get("/props").json["context_shift"] is False
    fields = {"prompt": PROMPT, "n_predict": 8, **GREEDY}
    plain, told = (server.post("/completion", {**fields, **f}).json["content"] for f in ({}, {"n_keep": 5, "n_discard": 9}))
    assert plain == told


def test_under_pressure_and_again(start, tmp_path):
    """A pool for two contexts, six at once: the same texts, and a journal that can be replayed."""
    journal = tmp_path / "journal"
    s = start("--context", "256", "--context-shift", "on", "--kv-memory", "1m", "--journal", str(journal))
    fields = {"temperature": 0.7, "ignore_eos": True, "max_tokens": 500, "n_keep": 20}
    bodies = [{**fields, "prompt": PROMPT * (1 + i % 3), "seed": i} for i in range(8)]
    alone = [s.post("/v1/completions", b).json["choices"][0]["text"] for b in bodies]
    from quire import in_threads
    crowd = in_threads([lambda b=b: s.post("/v1/completions", b).json["choices"][0]["text"] for b in bodies])
    assert crowd == alone
    m = s.metrics()
    assert m["quire_context_shifts_total"] > 16 and m["quire_recomputed_tokens_total"] > 0
    assert s.stop() == 0
    run = quire("replay", journal)
    assert run.returncode == 0 and "plans equal" in run.out, run.err
