"""What requests share through the prefix cache, to the token; and what they never share."""
import random

import pytest

from quire import SLOW, Server, in_threads

BLOCK = 16
N_VOCAB = 400  # ids below this are ordinary tokens of the demo model


def tokens(n, seed):
    rng = random.Random(seed)
    return [rng.randrange(20, N_VOCAB) for _ in range(n)]


def cached(server, prompt, headers=None, **fields):
    r = server.post("/v1/completions", {"prompt": prompt, "max_tokens": 1, "ignore_eos": True, **fields},
                    headers=headers)
    assert r.status == 200, r.body
    usage = r.json["usage"]
    assert usage["prompt_tokens"] == len(prompt)
    return usage["prompt_tokens_details"]["cached_tokens"]


@pytest.fixture(scope="module")
def big():
    s = Server("--tenant-header", "X-Tenant")
    yield s
    s.stop()


def test_every_prefix_length_is_found_exactly(big):
    """A second prompt that has exactly L tokens in common with the first finds L of them, as far as
    whole blocks of the first one were computed (its last token was not)."""
    first = tokens(700, seed=1)
    n_generated = 21
    assert cached(big, first, max_tokens=n_generated) == 0
    computed = (len(first) + n_generated - 1) // BLOCK * BLOCK
    assert computed == 720
    length, wrong = 0, []
    while length <= 700:
        other = [20 + (t - 19) % (N_VOCAB - 20) for t in first[length:length + 5]] or [21, 22]
        prompt = first[:length] + other[:1] + tokens(4, seed=1000 + length)
        found = cached(big, prompt)
        if found != min(length, computed, len(prompt) - 1):
            wrong.append((length, found))
        length += 1 if SLOW else 1 + length * 5 % 7
    assert not wrong, wrong


def test_only_whole_blocks_are_kept(big):
    """703 tokens were computed, 43 blocks and a part: that part is not found."""
    first = tokens(700, seed=2)
    for length in (671, 672, 687, 688, 689, 699, 700):
        assert cached(big, first, max_tokens=4, cache_salt=str(length)) == 0
        prompt = first[:length] + [20 + (first[length] - 19) % (N_VOCAB - 20) if length < 700 else 21, 22, 23]
        assert cached(big, prompt, cache_salt=str(length)) == min(length, 688), length


def test_the_same_prompt_again(big):
    """All but the last token, which is always computed."""
    for n in (1, 2, 15, 16, 17, 31, 32, 33, 100, 160):
        prompt = tokens(n, seed=5000 + n)
        assert cached(big, prompt, max_tokens=20) == 0
        again = big.complete(prompt, max_tokens=20, temperature=0, ignore_eos=True).json
        assert again["usage"]["prompt_tokens_details"]["cached_tokens"] == n - 1, n


def test_an_answer_is_a_prefix_too(big):
    """A conversation that goes on: prompt and answer together are found."""
    prompt = tokens(50, seed=9)
    r = big.complete(prompt, max_tokens=63, ignore_eos=True, return_token_ids=True, temperature=0).json
    answer = r["choices"][0]["token_ids"]
    assert len(answer) == 63  # 112 of the 113 tokens were computed: seven blocks
    assert cached(big, prompt + answer + tokens(3, seed=10)) == 112


def test_answers_do_not_depend_on_it(big, start):
    """P1: with the cache, without it, after it: the same logits."""
    plain = start("--prefix-cache", "off")
    prompt = tokens(200, seed=20)
    fields = dict(max_tokens=30, temperature=1, seed=4, logprobs=5, ignore_eos=True)
    expected = plain.complete(prompt, **fields).json
    assert plain.complete(prompt, **fields).json["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    for cut in (0, 199, 200, 64, 131, 7):
        big.complete(prompt[:cut] + [30] * 40, max_tokens=3, ignore_eos=True)
        got = big.complete(prompt, **fields).json
        assert got["choices"] == expected["choices"], cut
    assert got["usage"]["prompt_tokens_details"]["cached_tokens"] == 199
    assert plain.metrics()["quire_prefix_cache_hits_tokens_total"] == 0


def test_echo_with_logprobs_computes_everything(big):
    """Scores need every row; and they are the same when the prompt is in the cache."""
    prompt = tokens(80, seed=30)
    fields = dict(max_tokens=4, temperature=0, echo=True, logprobs=2, ignore_eos=True)
    first = big.complete(prompt, **fields).json
    again = big.complete(prompt, **fields).json
    assert first["choices"] == again["choices"]
    both = big.complete(prompt, **fields, n=2).json["choices"]
    assert all(c["logprobs"]["token_logprobs"][:80] == first["choices"][0]["logprobs"]["token_logprobs"][:80]
               for c in both)
    assert None not in first["choices"][0]["logprobs"]["token_logprobs"][1:]


def test_salts_never_share(big):
    prompt = tokens(100, seed=40)
    assert cached(big, prompt, cache_salt="a", max_tokens=20) == 0
    assert cached(big, prompt, cache_salt="b") == 0
    assert cached(big, prompt, max_tokens=20) == 0
    assert cached(big, prompt, cache_salt="") == 99
    assert cached(big, prompt, cache_salt="a") == 99
    assert cached(big, prompt, cache_salt="a" * 256) == 0


def test_tenants_never_share(big):
    prompt = tokens(100, seed=50)
    alice, bob = {"X-Tenant": "alice"}, {"X-Tenant": "bob"}
    assert cached(big, prompt, headers=alice, max_tokens=20) == 0
    assert cached(big, prompt, headers=bob, max_tokens=20) == 0
    assert cached(big, prompt, max_tokens=20) == 0
    assert cached(big, prompt, headers=alice) == 99
    assert cached(big, prompt, headers=bob) == 99
    assert cached(big, prompt, cache_salt="alice") == 0
    assert cached(big, prompt, headers={"X-Tenant": "a"}, cache_salt="lice") == 0
    plan = big.post("/v1/plan", {"prompt": prompt}, headers={"X-Tenant": "carol"}).json
    assert plan["prompts"][0]["cached_tokens"] == 0, "a plan gives nothing away either"


def test_a_tenant_needs_a_proper_name(big):
    for name in ("a b", "x" * 65, "caf\u00e9"):
        r = big.post("/v1/completions", {"prompt": "a"}, headers={"X-Tenant": name.encode("latin-1")})
        assert (r.status, r.json["error"]["param"]) == (400, "X-Tenant"), name


def test_off_means_off(start):
    s = start("--prefix-cache", "off")
    prompt = tokens(64, seed=60)
    assert cached(s, prompt, max_tokens=20) == 0 and cached(s, prompt) == 0
    assert s.metrics()['quire_kv_blocks{state="cached"}'] == 0


# ---- several choices of one prompt

def test_choices_share_the_prompt(big):
    """Four choices hold the prompt's blocks once, and each is what it is alone."""
    prompt = tokens(160, seed=70)
    fields = dict(max_tokens=200, temperature=1, ignore_eos=True, speculation=False)
    stream = big.stream(prompt, n=4, seed=11, **fields)
    frames = iter(stream)
    seen = set()
    text = {i: "" for i in range(4)}

    def take(frame):
        for c in frame["choices"]:
            seen.add(c["index"])
            text[c["index"]] += c["text"]

    while len(seen) < 4:
        take(next(frames))
    kv = big.get("/debug/kv").json
    requests = big.get("/debug/requests").json["requests"]
    assert len(requests) == 4 and all(r["state"] == "running" for r in requests)
    assert kv["map"].lower().count("s") in (9, 10), "ten blocks, the last one perhaps copied"
    assert kv["blocks"]["held"] <= 10 + 4 * 13
    for frame in frames:
        take(frame)
    for i in range(4):
        assert big.complete(prompt, seed=11 + i, **fields).text == text[i], i


def test_equal_prompts_of_a_call_share_too(start):
    s = start()
    prompt = tokens(320, seed=80)
    s.complete([prompt, prompt, prompt[:-1] + [21]], max_tokens=2, n=2, ignore_eos=True)
    m = s.metrics()
    assert m["quire_prompt_tokens_total"] + m["quire_cached_tokens_total"] == 6 * 320
    # Once in full, once more as far as the last prompt differs, and the last token of each choice.
    assert m["quire_prompt_tokens_total"] <= 2 * 320 + 6 * BLOCK


def test_usage_counts_each_prompt_once(big):
    prompt = tokens(48, seed=90)
    assert cached(big, prompt, max_tokens=20) == 0
    usage = big.complete([prompt, prompt], max_tokens=1, n=3, ignore_eos=True).json["usage"]
    assert usage["prompt_tokens"] == 96
    assert usage["prompt_tokens_details"]["cached_tokens"] == 94
    assert usage["completion_tokens"] == 6


def test_many_share_at_once(big):
    """A crowd with a common beginning: each answer is that of an empty cache."""
    system = tokens(300, seed=100)
    fields = dict(max_tokens=12, temperature=0, ignore_eos=True)
    expected = [big.complete(system + [25 + i] * 9, cache_salt=f"s{i}", **fields).text for i in range(16)]
    got = in_threads([lambda i=i: big.complete(system + [25 + i] * 9, **fields).text for i in range(16)])
    assert got == expected
    big.wait_idle()
