"""POST /v1/completions: what comes back, whole and streamed."""
import json
import re
import struct
import subprocess

import pytest

from quire import BIN

GREEDY = {"temperature": 0, "ignore_eos": True}
PROMPT = "Once upon a time there was a"


@pytest.fixture(scope="module")
def vocabulary(server):
    """Token ids of the byte-wise pieces of a text, and of plain words."""
    def ids(text, **kw):
        return server.post("/tokenize", {"content": text, **kw}).json["tokens"]
    return ids


def test_shape(server):
    r = server.complete(PROMPT, **GREEDY, cache_salt="nobody else's")
    body = r.json
    assert r.headers["Content-Type"] == "application/json"
    assert list(body) == ["id", "object", "created", "model", "system_fingerprint", "choices", "usage"]
    assert re.fullmatch(r"cmpl-[0-9a-f]{24}", body["id"]) and body["object"] == "text_completion"
    assert body["model"] == server.get("/v1/models").json["data"][0]["id"]
    assert list(body["choices"][0]) == ["index", "text", "finish_reason", "logprobs"]
    c = body["choices"][0]
    assert (c["index"], c["finish_reason"], c["logprobs"]) == (0, "length", None) and c["text"]
    u = body["usage"]
    assert u["completion_tokens"] == 16, "the default of max_tokens"
    assert u["total_tokens"] == u["prompt_tokens"] + 16
    assert u["prompt_tokens_details"] == {"cached_tokens": 0}
    assert int(r.headers["Content-Length"]) == len(r.body)


def test_the_four_forms_of_a_prompt(server, vocabulary):
    ids = vocabulary(PROMPT, add_special=True)
    text = server.complete(PROMPT, **GREEDY).text
    for prompt in (ids, [PROMPT], [ids]):
        r = server.complete(prompt, **GREEDY).json
        assert [c["text"] for c in r["choices"]] == [text]
        assert r["usage"]["prompt_tokens"] == len(ids)


def test_several_prompts_and_choices(server):
    prompts = ["Once upon", "The dog", "A"]
    r = server.complete(prompts, n=2, max_tokens=8, **GREEDY).json
    assert [c["index"] for c in r["choices"]] == list(range(6))
    for i, prompt in enumerate(prompts):
        alone = server.complete(prompt, max_tokens=8, **GREEDY).json
        for k in range(2):
            assert r["choices"][2 * i + k]["text"] == alone["choices"][0]["text"]
    assert r["usage"]["completion_tokens"] == 48
    assert r["usage"]["prompt_tokens"] == sum(
        server.complete(p, max_tokens=1).json["usage"]["prompt_tokens"] for p in prompts)


def test_seed(server):
    def texts(**kw):
        return [c["text"] for c in server.complete(PROMPT, temperature=1, max_tokens=24, ignore_eos=True,
                                                   **kw).json["choices"]]
    assert texts(seed=7) == texts(seed=7) != texts(seed=8)
    assert texts(seed=7, n=3) == texts(seed=7, n=3)
    assert len(set(texts(seed=7, n=3))) > 1
    assert len({texts()[0] for _ in range(5)}) > 1, "without a seed answers differ"


def test_empty_prompt_begins_a_text(server):
    r = server.complete("", **GREEDY)
    assert r.json["usage"]["prompt_tokens"] == 1 and r.text and not r.text.startswith(" ")


def test_zero_tokens(server):
    r = server.complete("Once", max_tokens=0).json
    assert r["usage"]["completion_tokens"] == 0
    assert r["choices"][0]["text"] == "" and r["choices"][0]["finish_reason"] == "length"


def test_echo(server):
    plain = server.complete(PROMPT, **GREEDY).text
    assert server.complete(PROMPT, echo=True, **GREEDY).text == PROMPT + plain
    assert server.complete("", echo=True, **GREEDY).text == server.complete("", **GREEDY).text
    s = server.stream(PROMPT, echo=True, **GREEDY)
    frames = list(s)
    assert frames[0]["choices"][0]["text"] == PROMPT
    assert "".join(f["choices"][0]["text"] for f in frames) == PROMPT + plain


@pytest.mark.parametrize("prompt", ["Once upon a time", "a", " two  spaces", "ünï €", "x\n\ny"])
def test_scoring(server, vocabulary, prompt):
    r = server.complete(prompt, max_tokens=0, echo=True, logprobs=2).json
    c, lp = r["choices"][0], r["choices"][0]["logprobs"]
    ids = vocabulary(prompt, add_special=True)
    assert c["text"] == prompt and r["usage"]["completion_tokens"] == 0
    assert {k: len(v) for k, v in lp.items()} == dict.fromkeys(
        ["tokens", "token_logprobs", "top_logprobs", "text_offset"], len(ids))
    assert lp["token_logprobs"][0] is None and lp["top_logprobs"][0] is None
    assert all(v <= 0 for v in lp["token_logprobs"][1:])
    assert lp["text_offset"][0] == 0 and lp["text_offset"] == sorted(lp["text_offset"])
    assert lp["text_offset"][-1] <= len(prompt)


def test_logprobs(server):
    r = server.complete(PROMPT, logprobs=3, max_tokens=12, **GREEDY).json
    lp = r["choices"][0]["logprobs"]
    assert len(lp["tokens"]) == len(lp["token_logprobs"]) == len(lp["top_logprobs"]) == 12
    assert "".join(lp["tokens"]) == r["choices"][0]["text"], "greedy text of whole characters"
    for token, value, top in zip(lp["tokens"], lp["token_logprobs"], lp["top_logprobs"]):
        assert 3 <= len(top) <= 4
        assert top[token] == value == max(top.values()), "greedy takes the best"
        assert list(top.values())[:3] == sorted(top.values(), reverse=True)[:3]
    assert lp["text_offset"][0] == 0, "without echo the text begins with the completion"
    sampled = server.complete(PROMPT, logprobs=1, max_tokens=40, temperature=2, seed=3).json
    lp = sampled["choices"][0]["logprobs"]
    assert all(t in top and 1 <= len(top) <= 2 for t, top in zip(lp["tokens"], lp["top_logprobs"]))
    assert any(len(top) == 2 for top in lp["top_logprobs"])


def test_logprobs_with_echo_are_offsets_into_the_text(server):
    r = server.complete(PROMPT, logprobs=0, echo=True, max_tokens=10, **GREEDY).json
    text, lp = r["choices"][0]["text"], r["choices"][0]["logprobs"]
    ends = lp["text_offset"][1:] + [len(text)]
    pieces = [text[a:b] for a, b in zip(lp["text_offset"], ends)]
    assert "".join(pieces) == text
    for token, piece in list(zip(lp["tokens"], pieces))[2:]:
        assert token == piece
    assert sum(o >= len(PROMPT) for o in lp["text_offset"]) == 10
    assert all(set(top) == {t} for t, top in zip(lp["tokens"][1:], lp["top_logprobs"][1:]))


def test_logprobs_are_the_same_streamed(server):
    for echo in (False, True):
        fields = dict(logprobs=2, echo=echo, max_tokens=10, **GREEDY)
        whole = server.complete(PROMPT, **fields).json["choices"][0]["logprobs"]
        joined = {k: [] for k in whole}
        for frame in server.stream(PROMPT, **fields):
            for k, v in (frame["choices"][0]["logprobs"] or {}).items():
                joined[k] += v
        assert joined == whole


def test_return_token_ids(server, vocabulary):
    r = server.complete(PROMPT, return_token_ids=True, **GREEDY).json
    c = r["choices"][0]
    assert c["prompt_token_ids"] == vocabulary(PROMPT, add_special=True)
    assert len(c["token_ids"]) == 16
    assert server.complete(c["prompt_token_ids"] + c["token_ids"][:8], max_tokens=8, return_token_ids=True,
                           **GREEDY).json["choices"][0]["token_ids"] == c["token_ids"][8:]
    ids, prompts = [], []
    for f in server.stream(PROMPT, return_token_ids=True, **GREEDY):
        ids += f["choices"][0]["token_ids"]
        prompts.append(f["choices"][0]["prompt_token_ids"])
    assert ids == c["token_ids"]
    assert prompts[0] == c["prompt_token_ids"] and set(map(str, prompts[1:])) == {"None"}


# ---- the stream, to the letter ----


def test_frames(server):
    s = server.stream(PROMPT, max_tokens=5, **GREEDY)
    assert s.status == 200
    assert s.headers["Content-Type"] == "text/event-stream" and s.headers["Cache-Control"] == "no-cache"
    frames = list(s)
    assert s.done
    lines = s.raw.decode().split("\n")
    assert lines[1::2] == [""] * len(lines[1::2]) and lines[-1] == ""
    assert all(line.startswith("data: ") for line in lines[:-1:2]) and lines[-3] == "data: [DONE]"
    assert len({(f["id"], f["created"], f["object"]) for f in frames}) == 1
    assert frames[0]["object"] == "text_completion"
    for f in frames:
        assert list(f) == ["id", "object", "created", "model", "system_fingerprint", "choices"]
        assert len(f["choices"]) == 1 and list(f["choices"][0]) == ["index", "text", "finish_reason", "logprobs"]
    assert [f["choices"][0]["finish_reason"] for f in frames] == [None] * (len(frames) - 1) + ["length"]
    assert all(f["choices"][0]["text"] for f in frames[:-1])
    text = "".join(f["choices"][0]["text"] for f in frames)
    assert text == server.complete(PROMPT, max_tokens=5, **GREEDY).text
    head = s.raw.decode().split("\n")[0]
    expected = ('data: {"id":"%s","object":"text_completion","created":%d,"model":%s,"system_fingerprint":%s,'
                '"choices":[{"index":0,"text":%s,"finish_reason":null,"logprobs":null}]}')
    f = frames[0]
    assert head == expected % (f["id"], f["created"], json.dumps(f["model"]),
                               json.dumps(f["system_fingerprint"]), json.dumps(f["choices"][0]["text"]))


def test_usage_frame(server):
    s = server.stream(PROMPT, max_tokens=4, stream_options={"include_usage": True}, **GREEDY)
    frames = list(s)
    assert all(f["usage"] is None for f in frames[:-1])
    assert frames[-1]["choices"] == []
    assert frames[-1]["usage"] == server.complete(PROMPT, max_tokens=4, **GREEDY).json["usage"]
    without = list(server.stream(PROMPT, max_tokens=4, stream_options={"include_usage": False}, **GREEDY))
    assert all("usage" not in f for f in without)


def test_streamed_choices_are_interleaved(server):
    fields = dict(n=3, max_tokens=20, temperature=1, seed=5, ignore_eos=True)
    whole = server.complete(["Once", "The cat"], **fields).json["choices"]
    texts, finishes, order = [""] * 6, [None] * 6, []
    for f in server.stream(["Once", "The cat"], **fields):
        c = f["choices"][0]
        assert finishes[c["index"]] is None, "nothing follows the finish"
        texts[c["index"]] += c["text"]
        finishes[c["index"]] = c["finish_reason"]
        order.append(c["index"])
    assert texts == [c["text"] for c in whole] and finishes == ["length"] * 6
    assert order != sorted(order)


def test_frames_arrive_while_the_rest_is_computed(start):
    """Whoever reads the first frame finds the others still being made, however fast the model is."""
    s = start()
    stream = s.stream(PROMPT, n=8, max_tokens=300, temperature=1, ignore_eos=True)
    next(iter(stream))
    assert s.metrics()["quire_requests_running"] > 0
    assert sum(1 for _ in stream) > 8 * 100


# ---- stop ----


def split_points(server, text_fields):
    """Greedy text with the offset of each token in it."""
    r = server.complete(PROMPT, logprobs=0, **text_fields).json["choices"][0]
    return r["text"], r["logprobs"]["text_offset"]


def test_stop_strings_across_tokens(server):
    fields = dict(max_tokens=40, **GREEDY)
    text, offsets = split_points(server, fields)
    checked = 0
    for i in range(3, 36, 4):
        stop = text[offsets[i] - 2:offsets[i] + 2] if offsets[i] >= 2 else ""
        if len(stop) < 4:
            continue
        at = text.find(stop)
        n_tokens = sum(o < at + len(stop) for o in offsets)
        r = server.complete(PROMPT, stop=stop, **fields).json
        c = r["choices"][0]
        assert (c["text"], c["finish_reason"]) == (text[:at], "stop"), stop
        assert r["usage"]["completion_tokens"] == n_tokens
        s = server.stream(PROMPT, stop=["never to be seen", stop], **fields)
        frames = list(s)
        assert "".join(f["choices"][0]["text"] for f in frames) == text[:at]
        assert frames[-1]["choices"][0]["finish_reason"] == "stop" and s.done
        checked += 1
    assert checked >= 4
    server.wait_idle()


def test_a_held_back_prefix_comes_out_in_the_end(server):
    fields = dict(max_tokens=20, **GREEDY)
    text = server.complete(PROMPT, **fields).text
    stop = text[-3:] + "\u00a7"
    assert text.find(stop) < 0
    r = server.complete(PROMPT, stop=stop, **fields).json["choices"][0]
    assert (r["text"], r["finish_reason"]) == (text, "length")
    assert server.stream(PROMPT, stop=stop, **fields).text() == text


def test_stop_stops_one_choice_only(server):
    fields = dict(max_tokens=30, **GREEDY)
    texts = [server.complete(p, **fields).text for p in ("Once upon a time", "The big red")]
    stop = next(texts[0][i:i + 6] for i in range(4, 40) if texts[0][i:i + 6] not in texts[1])
    r = server.complete(["Once upon a time", "The big red"], stop=stop, **fields).json["choices"]
    assert r[0]["text"] == texts[0][:texts[0].find(stop)] and r[0]["finish_reason"] == "stop"
    assert r[1]["text"] == texts[1] and r[1]["finish_reason"] == "length"


def test_stop_waits_for_min_tokens(server):
    fields = dict(max_tokens=30, **GREEDY)
    text, offsets = split_points(server, fields)
    stop = text[1:3]
    r = server.complete(PROMPT, stop=stop, min_tokens=12, **fields).json
    assert r["usage"]["completion_tokens"] >= 12
    assert len(r["choices"][0]["text"]) >= offsets[11]


def test_stop_token_ids(server):
    whole = server.complete(PROMPT, return_token_ids=True, **GREEDY).json["choices"][0]
    ids = whole["token_ids"]
    k = next(i for i in range(4, 16) if ids[i] not in ids[:i])
    r = server.complete(PROMPT, stop_token_ids=[ids[k]], return_token_ids=True, temperature=0).json
    c = r["choices"][0]
    assert c["finish_reason"] == "stop" and c["token_ids"] == ids[:k + 1]
    assert whole["text"].startswith(c["text"]) and len(c["text"]) < len(whole["text"])


def test_eos(server):
    """A model's own end: found by asking a hot model often enough, or by bias."""
    length = server.get("/v1/models").json["data"][0]["max_model_len"]
    eos = [i for i in range(3) if server.post("/detokenize", {"tokens": [i]}).json["content"].startswith("<")]
    for i in eos:
        r = server.complete(PROMPT, logit_bias={str(i): 100}, max_tokens=5, return_token_ids=True, seed=1).json
        c = r["choices"][0]
        if c["finish_reason"] == "stop":
            assert (c["text"], c["token_ids"]) == ("", [i]) and r["usage"]["completion_tokens"] == 1
            kept = server.complete(PROMPT, logit_bias={str(i): 100}, max_tokens=5, ignore_eos=True).json
            assert kept["choices"][0]["finish_reason"] == "length"
            least = server.complete(PROMPT, logit_bias={str(i): 100}, max_tokens=9, min_tokens=4).json
            assert least["usage"]["completion_tokens"] == 5
            return
    pytest.fail(f"none of {eos} ends a text of this model (context {length})")


# ---- sampling parameters do something ----


def test_logit_bias(server, vocabulary):
    word = vocabulary("dog")[-1]
    r = server.complete(PROMPT, logit_bias={str(word): 100}, return_token_ids=True, max_tokens=6, **GREEDY).json
    assert r["choices"][0]["token_ids"] == [word] * 6
    plain = server.complete(PROMPT, return_token_ids=True, **GREEDY).json["choices"][0]["token_ids"]
    banned = server.complete(PROMPT, logit_bias={str(plain[0]): -100}, return_token_ids=True,
                             **GREEDY).json["choices"][0]["token_ids"]
    assert plain[0] not in banned


def test_penalties(server, vocabulary):
    word = vocabulary("dog")[-1]
    bias = {str(word): 8}
    free = server.complete(PROMPT, logit_bias=bias, return_token_ids=True, max_tokens=30, **GREEDY).json
    held = server.complete(PROMPT, logit_bias=bias, return_token_ids=True, max_tokens=30, frequency_penalty=2,
                           presence_penalty=2, **GREEDY).json
    count = [r["choices"][0]["token_ids"].count(word) for r in (free, held)]
    assert count[1] < count[0] or count[0] <= 1


def test_narrow_sampling_is_greedy(server):
    greedy = server.complete(PROMPT, **GREEDY).text
    for fields in ({"top_k": 1}, {"top_p": 1e-6}, {"top_p": 0}, {"min_p": 1}):
        assert server.complete(PROMPT, temperature=1.5, ignore_eos=True, **fields).text == greedy


# ---- UTF-8 ----


def test_characters_are_never_split(server):
    """Bytes of multi-byte characters are made likely, so that whole, cut and wrong ones all occur."""
    pieces = server.post("/tokenize", {"content": "€é😀", "with_pieces": True}).json["tokens"]
    single = {str(t["id"]): 100 for t in pieces if isinstance(t["piece"], list) and len(t["piece"]) == 1}
    if len(single) < 4:
        pytest.skip("skip: this vocabulary has no single bytes for the sample")
    seen = ""
    for seed in range(4):
        fields = dict(logit_bias=single, temperature=2, frequency_penalty=2, seed=seed, max_tokens=200,
                      ignore_eos=True, speculation=False)
        whole = server.complete("A", **fields).text
        parts = []
        for f in server.stream("A", **fields):  # each frame is decoded as UTF-8 on its own
            parts.append(f["choices"][0]["text"])
        assert "".join(parts) == whole
        assert all(parts[:-1]) and len(parts) > 20
        seen += whole
    assert "\ufffd" in seen and any(c in seen for c in "é€") and "\ud800" not in seen


def test_logprob_tokens_that_are_no_text(server):
    pieces = server.post("/tokenize", {"content": "€", "with_pieces": True}).json["tokens"]
    raw = [t for t in pieces if isinstance(t["piece"], list)]
    if not raw:
        pytest.skip("skip: this vocabulary has a token for the sample")
    r = server.complete("A", logit_bias={str(raw[0]["id"]): 100}, logprobs=1, max_tokens=3, **GREEDY).json
    expected = "bytes:" + "".join("\\x%02x" % b for b in raw[0]["piece"])
    assert r["choices"][0]["logprobs"]["tokens"] == [expected] * 3


def test_scores_are_those_of_the_command_bit_for_bit(server, tmp_path):
    """Three hundred tokens, echoed over HTTP, and by `quire score --each`: the same floats."""
    text = " ".join(server.complete("Once upon a time", max_tokens=150, seed=i, ignore_eos=True).text for i in range(3))
    ids = server.post("/tokenize", {"content": text, "add_special": True}).json["tokens"]
    assert len(ids) > 300
    ids = ids[:301]
    file = tmp_path / "ids.json"
    file.write_text(json.dumps(ids))
    out = subprocess.run([BIN, "score", "--each", "--ids", str(file), "--log-level", "off"], capture_output=True,
                         text=True, timeout=300, check=True).stdout.splitlines()
    lines = [line.split() for line in out if not line.startswith("mean_nll")]
    assert [int(i) for i, _ in lines] == ids[1:]
    scores = server.complete(ids, max_tokens=0, echo=True, logprobs=0).json["choices"][0]["logprobs"]["token_logprobs"]
    single = struct.Struct("<f").pack
    assert [single(float(v)) for _, v in lines] == [single(v) for v in scores[1:]]
