"""Cache breakpoints: which beginning of a prompt they pin, for whom, how much, and what the usage says.

Pins end by the engine's clock, which no test here waits for: tests/unit/kvcache/test_prefix_pins.c and
tests/sim/sim_sched.c choose the time."""
import json
import pathlib
import random
import subprocess
import sys

import pytest

from quire import BIN, DEBUG_BIN, Server

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "reference"))

import fixtures  # noqa: E402
import hybrid_fixtures  # noqa: E402,F401

CHAT, RESPONSES, MESSAGES, DECISIONS = "/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1/decisions"
BLOCK = 16
WORDS = "bear owl garden river stone lamp cloud bread tower apple horse clock".split()
SMALL = ("--context", "256", "--kv-memory", "4m", "--max-sequences", "4", "--max-batch-tokens", "256")


def words(seed, n):
    rng = random.Random(seed)
    return " ".join(rng.choice(WORDS) for _ in range(n))


def marked(text, **marker):
    return {"type": "text", "text": text, "prompt_cache_breakpoint": {"mode": "explicit", **marker}}


def plain_part(text):
    return {"type": "text", "text": text}


def chat(*contents, **fields):
    roles = ("system", "user", "assistant", "user")
    return {"messages": [{"role": r, "content": c} for r, c in zip(roles, contents)], "max_tokens": 1, "temperature": 0, **fields}


def ask(server, path, body, headers=None):
    r = server.post(path, body, headers=headers)
    assert r.status == 200, r.body
    return r.json


def details(server, body, headers=None):
    return ask(server, CHAT, body, headers)["usage"]["prompt_tokens_details"]


def pins(server):
    return server.get("/debug/kv").json["pins"]


def press(server, seed=0, n=30):
    """Prompts that share nothing with others, more than the cache holds."""
    for i in range(n):
        ask(server, CHAT, chat(words(f"{seed} {i}", 60), "Go on."))


def n_common(server, *bodies):
    """The tokens that the prompts of these chats begin with."""
    ids = [ask(server, CHAT + "/render", b)["token_ids"] for b in bodies]
    n = 0
    while all(n < len(i) and i[n] == ids[0][n] for i in ids):
        n += 1
    return n


@pytest.fixture(scope="module")
def big():
    s = Server("--prefix-pin-memory", "32m", "--kv-memory", "128m", "--tenant-header", "X-Tenant")
    yield s
    s.stop()


@pytest.fixture
def start():
    servers = []

    def begin(*flags):
        servers.append(Server(*flags))
        return servers[-1]

    yield begin
    for s in servers:
        s.stop()


def whole_blocks(n):
    """Of n tokens those that whole blocks have."""
    return n // BLOCK * BLOCK


# ---- what stays

def test_a_pinned_prefix_survives_what_evicts_its_equal(start):
    s = start(*SMALL, "--prefix-pin-memory", "1m")
    pinned, plain = words("pinned", 60), words("plain", 60)
    first = details(s, chat([marked(pinned)], "Tell me."))
    assert first["cached_tokens"] < BLOCK < first["pinned_tokens"]
    assert "pinned_tokens" not in details(s, chat(plain, "Tell me."))
    press(s)
    assert details(s, chat(pinned, "And now?"))["cached_tokens"] >= first["pinned_tokens"] - 1
    assert details(s, chat(plain, "And now?"))["cached_tokens"] < BLOCK
    kv = s.get("/debug/kv").json
    assert sum(kv["blocks"][k] for k in ("free", "cached", "held", "pinned")) == kv["blocks"]["total"]
    assert kv["map"].count("C") == kv["blocks"]["pinned"] == kv["pins"]["tenants"][0]["blocks"] > 0
    m = s.metrics()
    assert m['quire_kv_blocks{state="pinned"}'] == kv["blocks"]["pinned"]


def test_other_texts_behind_a_breakpoint_make_no_other_pin(start):
    """A pin ends with a whole block: the rest of a block would be another one for each text behind it."""
    s = start(*SMALL, "--prefix-pin-memory", "1m")
    prefix = marked(words("one", 50))
    found = [details(s, chat([prefix], words(f"tail {i}", 4 + i)))["pinned_tokens"] for i in range(12)]
    assert len(set(found)) == 1 and found[0] % BLOCK == 0 and found[0] > 2 * BLOCK
    tenant = pins(s)["tenants"][0]
    assert (tenant["pins"], tenant["blocks"]) == (1, found[0] // BLOCK)


def test_pins_change_no_answer(start):
    fields = {"max_tokens": 20, "logprobs": True, "top_logprobs": 3, "seed": 5, "temperature": 1}
    answers = []
    for flags in ((), ("--prefix-pin-memory", "1m")):
        s = start(*SMALL, *flags)
        mine = []
        for turn in range(3):
            mine.append(ask(s, CHAT, chat([marked(words("a", 50))], words(turn, 8), **fields))["choices"])
            press(s, seed=turn, n=4)
        answers.append(mine)
    assert answers[0] == answers[1]


def test_without_memory_nothing_is_pinned(start):
    s = start(*SMALL)
    got = details(s, chat([marked(words("a", 60))], "Tell me."))
    assert got["pinned_tokens"] == 0 and got["cache_write_tokens"] > 60
    assert pins(s) == {"most_blocks": 0, "tenant_blocks": 0, "tenants": []}


def test_a_tenant_pins_no_more_than_its_memory(start):
    s = start(*SMALL, "--prefix-pin-memory", "320k", "--tenant-header", "X-Tenant")
    a, b = {"X-Tenant": "a"}, {"X-Tenant": "b"}
    most = pins(s)["tenant_blocks"]
    assert most == 8 and pins(s)["most_blocks"] >= 2 * most
    long = details(s, chat([marked(words("long", 180))], "Tell me."), a)
    assert long["pinned_tokens"] == most * BLOCK
    assert details(s, chat([marked(words("other", 60))], "Tell me."), a)["pinned_tokens"] == 0
    other = details(s, chat([marked(words("other", 60))], "Tell me."), b)
    assert BLOCK < other["pinned_tokens"] <= most * BLOCK
    blocks = {t["name"]: (t["pins"], t["blocks"]) for t in pins(s)["tenants"]}
    assert blocks == {"a": (1, most), "b": (1, (other["pinned_tokens"] + BLOCK - 1) // BLOCK)}
    press(s)
    again = details(s, chat(words("long", 180), "And now?"), a)
    assert again["cached_tokens"] == most * BLOCK, "the beginning was pinned, the rest is gone"


def test_a_full_context_runs_beside_all_pins(start):
    """Pins of all tenants together leave room for the longest request."""
    s = start("--kv-memory", "1m", "--context", "1024", "--max-sequences", "2", "--prefix-pin-memory", "320k",
              "--tenant-header", "X-Tenant")
    most, context = pins(s)["most_blocks"], s.get("/props").json["default_generation_settings"]["n_ctx"]
    total = s.get("/debug/kv").json["blocks"]["total"]
    assert 0 < most <= total // 2 and context == (total - most) * BLOCK
    for tenant in "abc":
        details(s, chat([marked(words(tenant, 60))], "Go."), {"X-Tenant": tenant})
    assert s.get("/debug/kv").json["blocks"]["pinned"] == most
    r = s.post("/v1/completions", {"prompt": [20] * (context - 3), "max_tokens": 3, "ignore_eos": True})
    assert r.status == 200 and r.json["usage"]["total_tokens"] == context
    assert s.get("/debug/kv").json["blocks"]["pinned"] == most


def test_the_same_breakpoint_moves_the_end(big):
    tenant = {"X-Tenant": "again"}
    mine = lambda: next(t for t in pins(big)["tenants"] if t["name"] == "again")
    body = chat([marked(words("again", 40), ttl="30m")], "Tell me.")
    details(big, body, tenant)
    first = mine()
    assert 0 < first["ends_in_ms"] <= 30 * 60e3
    body["messages"][0]["content"][0]["prompt_cache_breakpoint"]["ttl"] = "12h"
    details(big, body, tenant)
    assert 30 * 60e3 < mine()["ends_in_ms"] <= 12 * 3600e3
    assert (mine()["pins"], mine()["blocks"]) == (first["pins"], first["blocks"])
    body["messages"][0]["content"][0]["prompt_cache_breakpoint"]["ttl"] = "30m"
    details(big, body, tenant)
    assert mine()["ends_in_ms"] > 30 * 60e3, "never to an earlier time"


# ---- where a breakpoint stands

@pytest.mark.parametrize("place", [0, 1, 2, 3])
def test_a_breakpoint_ends_with_its_part(big, place):
    """What is pinned is what all prompts with the same texts up to the breakpoint, and other texts after it, begin with."""
    texts = [words(f"{place} {i}", 20 + i) for i in range(4)]
    bodies = []
    for tail in ("p", "q"):
        bodies.append(chat(*[[{"type": "text", "text": t}, plain_part(t if i < place else tail + t)]
                             for i, t in enumerate(texts)], add_generation_prompt=False))
    body = chat(*[[marked(t) if i == place else {"type": "text", "text": t}, {"type": "text", "text": t}]
                  for i, t in enumerate(texts)])
    assert details(big, body)["pinned_tokens"] == whole_blocks(n_common(big, *bodies))


def test_a_long_body_with_four_breakpoints(big):
    """More work than the I/O thread does itself."""
    parts = [marked(words(f"long {i}", 180)) for i in range(4)]
    prompt = ask(big, CHAT, chat("S", parts))["usage"]["prompt_tokens"]
    assert prompt > 720 and details(big, chat("S", parts))["pinned_tokens"] >= prompt - 2 * BLOCK


def test_templates_that_look_at_the_conversation(start, tmp_path):
    """One that refuses roles out of turn, trims, and drops what the assistant thought before the last question."""
    file = tmp_path / "t.jinja"
    file.write_text("{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles') }}{% endif %}"
                    "[{{ m.role }}]{% if m.reasoning_content and loop.index0 == messages | length - 2 %}({{ m.reasoning_content }}){% endif %}"
                    "{{ m.content | trim }}{% endfor %}[assistant]")
    s = start("--prefix-pin-memory", "1m", "--kv-memory", "8m", "--chat-template", str(file))
    turns = lambda a, b: [{"role": "user", "content": [{"type": "text", "text": words(1, 40)}, *a]},
                          {"role": "assistant", "content": "I see. ", "reasoning_content": "hm"}, {"role": "user", "content": b}]
    body = {"messages": turns([marked(" " + words(2, 40) + "  ")], words(3, 40)), "max_tokens": 1}
    other = [{**body, "messages": turns([plain_part(" " + words(2, 40) + "  ")], t)} for t in ("x", "y")]
    other[1]["messages"][1]["content"] = "You see."
    assert details(s, body)["pinned_tokens"] == whole_blocks(n_common(s, *other)) > 80


def test_the_latest_four_breakpoints_count(big):
    tenant = {"X-Tenant": "five"}
    parts = [marked(words(i, 20)) for i in range(6)]
    details(big, chat("S", parts), tenant)
    mine = next(t for t in pins(big)["tenants"] if t["name"] == "five")
    assert mine["pins"] == 4


def test_the_whole_prompt_with_a_ttl_of_the_request(big):
    text, options = words("whole", 60), {"ttl": "30m"}
    body = chat(text, "Tell me.", prompt_cache_options=options)
    prompt = ask(big, CHAT, body)["usage"]["prompt_tokens"]
    assert details(big, body)["pinned_tokens"] >= (prompt - 4) // BLOCK * BLOCK
    assert "pinned_tokens" not in details(big, chat(text, "So?", prompt_cache_options={**options, "mode": "explicit"}))
    assert "pinned_tokens" not in details(big, chat(text, "So?", prompt_cache_options={"mode": "implicit"}))


def test_tools_are_pinned_with_the_system(start, tmp_path):
    file = tmp_path / "t.jinja"
    file.write_text("{% for m in messages if m.role == 'system' %}{{ m.content }}{% endfor %}{% for t in tools or [] %}"
                    "{{ t.function.name }}{{ t.function.description }}{% endfor %}"
                    "{% for m in messages if m.role != 'system' %}[{{ m.role }}]{{ m.content }}{% endfor %}[assistant]")
    s = start("--prefix-pin-memory", "1m", "--kv-memory", "8m", "--chat-template", str(file))
    tool = {"name": "clock", "description": words("tool", 40), "input_schema": {"type": "object", "properties": {}},
            "cache_control": {"type": "ephemeral", "ttl": "1h"}}
    body = {"system": words("system", 30), "tools": [tool], "max_tokens": 1,
            "messages": [{"role": "user", "content": words("user", 40)}]}
    created = ask(s, MESSAGES, body)["usage"]["cache_creation"]
    system = len(s.post("/tokenize", {"content": body["system"] + "clock" + tool["description"]}).json["tokens"])
    assert created["ephemeral_5m_input_tokens"] == 0
    assert system - 6 - BLOCK < created["ephemeral_1h_input_tokens"] <= system + 6, "the system, the tool, and a mark, in blocks"


# ---- what the usage says

def test_usage_of_messages(big):
    text = words("messages", 40)
    system = [{"type": "text", "text": text, "cache_control": {"type": "ephemeral", "ttl": "1h"}}]
    user = [{"type": "text", "text": words("turn", 40), "cache_control": {"type": "ephemeral"}}, {"type": "text", "text": "So?"}]
    body = {"system": system, "messages": [{"role": "user", "content": user}], "max_tokens": 1, "temperature": 0}
    headers = {"X-Tenant": "messages"}
    first, again = (ask(big, MESSAGES, body, headers)["usage"] for _ in range(2))
    total = ask(big, MESSAGES + "/count_tokens", {k: body[k] for k in ("system", "messages")})["input_tokens"]
    for u in (first, again):
        assert u["input_tokens"] + u["cache_read_input_tokens"] + u["cache_creation_input_tokens"] == total
        assert sum(u["cache_creation"].values()) == u["cache_creation_input_tokens"]
    assert first["cache_read_input_tokens"] == 0
    assert first["cache_creation"]["ephemeral_1h_input_tokens"] > 40 < first["cache_creation"]["ephemeral_5m_input_tokens"]
    assert again["cache_creation_input_tokens"] == 0
    assert again["cache_read_input_tokens"] >= first["cache_creation_input_tokens"]
    plain = ask(big, MESSAGES, {**body, "system": text, "messages": [{"role": "user", "content": "So?"}]}, headers)["usage"]
    assert "cache_creation" not in plain and plain["cache_creation_input_tokens"] == 0


def test_the_last_block_of_a_request(big):
    body = {"system": words("last", 50), "messages": [{"role": "user", "content": "Tell me."}], "max_tokens": 1,
            "cache_control": {"type": "ephemeral"}}
    usage = ask(big, MESSAGES, body)["usage"]
    assert usage["cache_creation"]["ephemeral_5m_input_tokens"] >= 48 and usage["input_tokens"] < 20


def test_a_stream_tells_it_at_the_end(big):
    body = chat([marked(words("stream", 40))], "Tell me.", stream=True, stream_options={"include_usage": True})
    frames = big.frames(CHAT, body)
    assert frames.pop() == "[DONE]"
    usage = [u for u in (json.loads(f).get("usage") for f in frames) if u]
    assert usage[-1]["prompt_tokens_details"]["pinned_tokens"] > 40


def test_usage_of_responses(big):
    part = lambda text, **ttl: {"type": "input_text", "text": text, "prompt_cache_breakpoint": {"mode": "explicit", **ttl}}
    body = {"input": [{"role": "user", "content": [part(words("r1", 40), ttl="12h"), part(words("r2", 40)),
                                                    {"type": "input_text", "text": words("r3", 20)}]}],
            "max_output_tokens": 1, "store": False}
    d = ask(big, RESPONSES, body)["usage"]["input_tokens_details"]
    written = d["cache_write_tokens_details"]
    assert written["ttl_12h_tokens"] > 40 < written["ttl_30m_tokens"]
    assert d["cached_tokens"] + sum(written.values()) == d["pinned_tokens"] < d["cached_tokens"] + d["cache_write_tokens"]
    plain = ask(big, RESPONSES, {"input": "Tell me.", "max_output_tokens": 1})["usage"]
    assert set(plain["input_tokens_details"]) == {"cached_tokens", "cache_write_tokens"}
    body["prompt_cache_options"] = {"mode": "explicit", "ttl": "12h"}
    body["input"][0]["content"][0]["text"] = words("r4", 40)
    written = ask(big, RESPONSES, body)["usage"]["input_tokens_details"]["cache_write_tokens_details"]
    assert written["ttl_30m_tokens"] == 0 and written["ttl_12h_tokens"] > 80, "the request's ttl"


def test_decisions_pin_what_their_questions_share(start):
    s = start(*SMALL, "--prefix-pin-memory", "1m")
    text = {"type": "input_text", "text": words("ticket", 60), "prompt_cache_breakpoint": {"mode": "explicit"}}
    ends = [{"type": "input_text", "text": words(i, 10)} for i in range(2)]
    ask_all = lambda end, parts: ask(s, DECISIONS, {
        "input": [{"role": "user", "content": [*parts, end]}], "prompt_cache_options": {"ttl": "30m", "mode": "explicit"},
        "questions": [{"type": "predicate", "instructions": f"Is it {w}?"} for w in WORDS[:4]]})
    first = ask_all(ends[0], [text])
    pinned = first["usage"]["input_tokens_details"]["pinned_tokens"]
    assert 60 <= pinned
    press(s)
    plain = {k: v for k, v in text.items() if k == "text" or k == "type"}
    later = ask_all(ends[0], [plain])
    assert later["answers"] == first["answers"]
    assert "pinned_tokens" not in later["usage"]["input_tokens_details"]
    other = ask_all(ends[1], [plain])["usage"]["input_tokens_details"]
    assert other["cached_tokens"] >= 4 * (pinned - 1)


@pytest.mark.parametrize("family", ["lfm2", "mamba2"])
def test_recurrent_models_pin_a_snapshot(family, tmp_path):
    """What a breakpoint keeps ends at the last snapshot before it; a model without keys keeps nothing, and says so."""
    file = tmp_path / f"{family}.gguf"
    file.write_bytes(fixtures.make(family, "plain", "F32", n_ctx=512))
    s = Server("--chat-template", "plain", "--kv-memory", "2m", "--context", "512", "--state-interval", "32",
               "--prefix-pin-memory", "512k", model=file, binary=DEBUG_BIN)
    try:
        letters = lambda seed, n: "".join(random.Random(seed).choices("abcdefgh", k=n))
        text, plain = letters(1, 200), letters(0, 200)
        body = chat([marked(text)], "Tell me.")
        prompt = ask(s, CHAT, body)["usage"]["prompt_tokens"]
        first = details(s, body)
        if family == "mamba2":
            assert first["pinned_tokens"] == 0 and pins(s)["most_blocks"] == 0
            return
        assert 0 < first["pinned_tokens"] < prompt and first["pinned_tokens"] % 32 == 0
        details(s, chat(plain, "Tell me."))
        for i in range(40):
            ask(s, CHAT, chat(letters(i + 2, 300), "Go."))
        assert details(s, chat(plain, "And now?"))["cached_tokens"] < first["pinned_tokens"]
        assert details(s, chat(text, "And now?"))["cached_tokens"] >= first["pinned_tokens"]
        assert s.get("/debug/kv").json["states"]["pinned"] == 1
    finally:
        s.stop()


def test_a_replay_makes_the_same_plans(start, tmp_path):
    journal = tmp_path / "journal"
    s = start(*SMALL, "--prefix-pin-memory", "1m", "--journal", str(journal))
    for i in range(3):
        details(s, chat([marked(words("a", 60))], words(i, 5)))
        press(s, seed=i, n=8)
    s.stop()
    assert '"pins":[[' in journal.read_text()
    r = subprocess.run([BIN, "replay", str(journal)], capture_output=True, text=True)
    assert r.returncode == 0, r.stderr


# ---- what is refused

def explicit(**fields):
    return {"prompt_cache_breakpoint": {"mode": "explicit", **fields}}


PART = {"type": "text", "text": "a"}
INPUT = {"type": "input_text", "text": "a"}
BLOCKS = {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}
TOOL = {"name": "t", "input_schema": {"type": "object"}}


@pytest.mark.parametrize("param,parts", [
    ("messages[0].content[0].prompt_cache_breakpoint", [{**PART, "prompt_cache_breakpoint": "explicit"}]),
    ("messages[0].content[1].prompt_cache_breakpoint.mode", [PART, {**PART, "prompt_cache_breakpoint": {}}]),
    ("messages[0].content[0].prompt_cache_breakpoint.mode", [{**PART, "prompt_cache_breakpoint": {"mode": "implicit"}}]),
    ("messages[0].content[0].prompt_cache_breakpoint.ttl", [{**PART, **explicit(ttl="5m")}]),
    ("messages[0].content[0].prompt_cache_breakpoint.ttl", [{**PART, **explicit(ttl=1800)}]),
    ("messages[0].content[0].prompt_cache_breakpoint", [{"type": "refusal", "refusal": "a", **explicit()}])])
def test_bad_breakpoints_of_chats(server, param, parts):
    r = server.post(CHAT, {"messages": [{"role": "user", "content": parts}]})
    assert (r.status, r.json["error"]["param"]) == (400, param), r.body


@pytest.mark.parametrize("param,options", [
    ("prompt_cache_options", "implicit"), ("prompt_cache_options.mode", {"mode": "auto"}),
    ("prompt_cache_options.mode", {"mode": 1}), ("prompt_cache_options.ttl", {"ttl": "1h"}),
    ("prompt_cache_options.ttl", {"ttl": 30}), ("prompt_cache_options.prewarm", {"prewarm": True})])
@pytest.mark.parametrize("path,body", [
    (CHAT, {"messages": [{"role": "user", "content": "a"}]}), (RESPONSES, {"input": "a"}),
    (DECISIONS, {"input": "a", "questions": [{"type": "predicate", "instructions": "b"}]})])
def test_bad_options(server, path, body, param, options):
    r = server.post(path, {**body, "prompt_cache_options": options})
    assert (r.status, r.json["error"]["param"]) == (400, param), r.body


@pytest.mark.parametrize("path,body", [
    (CHAT, {"messages": [{"role": "user", "content": "a", **explicit()}]}),
    (RESPONSES, {"input": [{"role": "user", "content": "a", **explicit()}]}),
    (RESPONSES, {"input": [{"role": "user", "content": "a"},
                           {"role": "assistant", "content": [{"type": "output_text", "text": "a", **explicit()}]}]}),
    (DECISIONS, {"input": [{"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}", **explicit()}],
                 "questions": [{"type": "predicate", "instructions": "b"}]}),
    (MESSAGES, {"messages": [{"role": "user", "content": "a", "cache_control": {"type": "ephemeral"}}], "max_tokens": 1}),
    (MESSAGES, {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": [
        {"type": "thinking", "thinking": "b", "signature": "", "cache_control": {"type": "ephemeral"}}]}], "max_tokens": 1})])
def test_breakpoints_at_a_wrong_place(server, path, body):
    r = server.post(path, body)
    assert r.status == 400 and "is not supported at this place: put it into" in r.json["error"]["message"], r.body


@pytest.mark.parametrize("says,fields", [
    ("'system[0].cache_control.type' must be ephemeral", {"system": [{**PART, "cache_control": {"type": "lasting"}}]}),
    ("'system[0].cache_control.ttl' must be 5m or 1h", {"system": [{**PART, "cache_control": {"type": "ephemeral", "ttl": "30m"}}]}),
    ("'tools[0].cache_control' must be an object", {"tools": [{**TOOL, "cache_control": True}]}),
    ("'cache_control.type' must be ephemeral", {"cache_control": {}}),
    ("'messages[0].content[4].cache_control' is the fifth", {"messages": [{"role": "user", "content": [BLOCKS] * 5}]}),
    ("'tools[0].cache_control' is the fifth", {"messages": [{"role": "user", "content": [BLOCKS] * 4}],
                                               "tools": [{**TOOL, "cache_control": {"type": "ephemeral"}}]}),
    ("'cache_control' is the fifth", {"messages": [{"role": "user", "content": [BLOCKS] * 4}],
                                      "cache_control": {"type": "ephemeral"}})])
def test_bad_breakpoints_of_messages(server, says, fields):
    r = server.post(MESSAGES, {"messages": [{"role": "user", "content": "a"}], "max_tokens": 1, **fields})
    assert r.status == 400 and says in r.json["error"]["message"], r.body


def test_too_little_memory_is_told():
    r = subprocess.run([BIN, "serve", "--port", "0", "--prefix-pin-memory", "1k"], capture_output=True, text=True)
    assert r.returncode != 0 and "prefix_pin_memory 1024 is too small: 16 tokens take" in r.stderr


def test_the_plan_tells_what_may_be_pinned():
    r = subprocess.run([BIN, "plan", "--prefix-pin-memory", "8m", "--kv-memory", "64m"], capture_output=True, text=True)
    assert "of the KV cache at most, 8.0 MiB for each tenant (prefix_pin_memory)" in r.stdout
