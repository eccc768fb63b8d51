"""What Anthropic's Messages have beside the chat that all APIs share: blocks of documents and search results, messages of
the system within a conversation, tools that come and go, the edits of context_management, its list of models."""
import json

import pytest

from quire import JSON, Server, in_threads, make_model

MESSAGES, COUNT = "/v1/messages", "/v1/messages/count_tokens"
VERSION = {"anthropic-version": "2023-06-01"}
ALL = ("{% for m in messages %}[{{ m.role }}|{{ m.content }}|{{ m.reasoning_content }}|{{ m.tool_calls | tojson if m.tool_calls }}]"
       "{% endfor %}{% if tools %}{% for t in tools %}{{ t.function.name }},{% endfor %}{% endif %}")
FIRST = "{% if messages[0].role == 'system' %}[system|{{ messages[0].content }}]{% endif %}{% for m in messages %}" \
        "{% if m.role == 'system' %}{% if not loop.first %}{{ raise_exception('system must be first') }}{% endif %}" \
        "{% else %}[{{ m.role }}|{{ m.content }}]{% endif %}{% endfor %}"
HI = {"role": "user", "content": "hi"}
TOOLS = [{"name": name, "input_schema": {"type": "object"}} for name in ("look", "find")]


@pytest.fixture(scope="module")
def serve(tmp_path_factory):
    """A server with that template, which is kept."""
    folder, running = tmp_path_factory.mktemp("anthropic"), {}

    def get(template):
        if template not in running:
            file = folder / f"{len(running)}.jinja"
            file.write_text(template)
            running[template] = Server("--chat-template", str(file), "--context", "1024")
        return running[template]

    yield get
    for s in running.values():
        s.stop()


def n_tokens(server, text):
    return len(server.post("/tokenize", {"content": text, "add_special": False, "parse_special": False}).json["tokens"])


def count(server, messages, **fields):
    r = server.post(COUNT, {"messages": messages, **fields})
    assert r.status == 200, r.body
    return r.json["input_tokens"]


def reads(server, text, messages, **fields):
    """Is it the prompt? Texts of one length in tokens that are not the same would pass; those below are not so."""
    got, wanted = count(server, messages, **fields), n_tokens(server, text)
    assert got == wanted, (got, wanted)


def refuses(server, name, messages, **fields):
    for path in (COUNT, MESSAGES):
        r = server.post(path, {"messages": messages, "max_tokens": 1, **fields})
        assert r.status == 400 and r.json["error"]["type"] == "invalid_request_error", r.body
        assert f"'{name}'" in r.json["error"]["message"], r.body


def user(*blocks):
    return {"role": "user", "content": list(blocks)}


def text(words):
    return {"type": "text", "text": words}


# ---- blocks ----

def test_documents(serve):
    server = serve(ALL)
    document = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "A bear sleeps."}}
    reads(server, "[user|<document>\n<content>\nA bear sleeps.\n</content>\n</document>\nWho?||]",
          [user(document, text("Who?"))])
    reads(server, "[user|<document>\n<title>Bears</title>\n<context>A book.</context>\n<content>\nA bear sleeps.\n</content>\n"
                  "</document>||]", [user({**document, "title": "Bears", "context": "A book."})])
    blocks = {"type": "document", "source": {"type": "content", "content": [text("one"), text("two")]}}
    reads(server, "[user|<document>\n<content>\none\ntwo\n</content>\n</document>||]", [user(blocks)])


@pytest.mark.parametrize("name,block", [
    ("messages[0].content[0].source.type", {"type": "document", "source": {"type": "base64", "data": "aGk="}}),
    ("messages[0].content[0].source.type", {"type": "document", "source": {"type": "url", "url": "http://a"}}),
    ("messages[0].content[0].source.type", {"type": "document", "source": {"type": "file", "file_id": "a"}}),
    ("messages[0].content[0].source.data", {"type": "document", "source": {"type": "text", "data": 5}}),
    ("messages[0].content[0].citations", {"type": "document", "source": {"type": "text", "data": "a"}, "citations": {"enabled": True}}),
    ("messages[0].content[0].title", {"type": "search_result", "source": "a", "content": []}),
    ("messages[0].content[0].content", {"type": "search_result", "source": "a", "title": "b", "content": 3}),
    ("messages[0].content[0].type", {"type": "image", "source": {"type": "base64", "data": "aGk="}}),
    ("messages[0].content[0].type", {"type": "container_upload", "file_id": "a"}),
])
def test_blocks_that_are_refused(serve, name, block):
    refuses(serve(ALL), name, [user(block)])


def test_search_results_and_results_of_tools(serve):
    server = serve(ALL)
    found = {"type": "search_result", "title": "Owls", "source": "http://owl", "content": [text("An owl flies.")]}
    shown = "<search_result>\n<title>Owls</title>\n<source>http://owl</source>\n<content>\nAn owl flies.\n</content>\n</search_result>"
    reads(server, f"[user|{shown}||]", [user(found)])
    call = {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "look", "input": {}}]}

    def loop(**result):
        return [HI, call, user({"type": "tool_result", "tool_use_id": "c1", **result})]

    calls = '[{"id": "c1", "type": "function", "function": {"name": "look", "arguments": {}}}]'
    for content, tool in (([found], shown), ([text("a b"), text("c d")], "a b\nc d"), ("cat", "cat")):
        reads(server, f"[user|hi||][assistant|||{calls}][tool|{tool}||]", loop(content=content))
    reads(server, f"[user|hi||][assistant|||{calls}][tool|Error:\nno cat||]", loop(content="no cat", is_error=True))


def test_thoughts_between_calls(serve):
    """Templates know one reasoning of a message: all thoughts are in it."""
    def thought(words):
        return {"type": "thinking", "thinking": words, "signature": ""}

    def use(n):
        return {"type": "tool_use", "id": f"c{n}", "name": "look", "input": {}}

    calls = ", ".join(f'{{"id": "c{n}", "type": "function", "function": {{"name": "look", "arguments": {{}}}}}}' for n in (1, 2))
    said = {"role": "assistant", "content": [thought("One."), text("Well."), use(1), thought("Two."), use(2), thought("Three.")]}
    results = user(*({"type": "tool_result", "tool_use_id": f"c{n}", "content": "cat"} for n in (1, 2)))
    reads(serve(ALL), f"[user|hi||][assistant|Well.|One.\n\nTwo.\n\nThree.|[{calls}]][tool|cat||][tool|cat||]", [HI, said, results])
    refuses(serve(ALL), "messages[1].content[3].thinking", [HI, {**said, "content": [*said["content"][:3], {"type": "thinking"}]}])


def test_reasoning_in_parts(serve):
    """The same of Responses: a reasoning item may have several texts."""
    server = serve(ALL)
    item = {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": t} for t in ("One.", " Two.")]}
    r = server.post("/v1/responses/input_tokens", {"input": [HI, item, {"role": "assistant", "content": "Well."}, HI]})
    assert r.json["input_tokens"] == n_tokens(server, "[user|hi||][assistant|Well.|One. Two.|][user|hi||]")


# ---- messages of the system ----

def test_system_messages_within_a_conversation(serve):
    server, answer = serve(ALL), {"role": "assistant", "content": "ho"}
    late = {"role": "system", "content": "Be kind."}
    reads(server, "[system|Tell.||][user|hi||][system|Be kind.||]", [HI, late], system="Tell.")
    reads(server, "[user|hi||][assistant|ho||][system|Be kind.||][user|hi||]", [HI, answer, late, HI])
    reads(server, "[user|hi||][system|a\nb||]", [HI, {"role": "system", "content": [text("a"), text("b")]}])
    passing = {**late, "clear_at": "next_user_message"}
    reads(server, "[user|hi||][system|Be kind.||]", [HI, passing])
    reads(server, "[user|hi||][assistant|ho||][user|hi||]", [HI, passing, answer, HI])
    reads(server, "[user|hi||][system|Be kind.||][assistant|ho||][user|hi||]", [HI, {**passing, "clear_at": "never"}, answer, HI])
    refuses(server, "messages[1].clear_at", [HI, {**late, "clear_at": "soon"}])
    refuses(server, "messages[1].output_config", [HI, {**late, "output_config": {"effort": "low"}}])


def test_a_template_that_wants_the_system_first(serve):
    """The user's message has what the system says behind it, or before it where another spoke last."""
    server, answer = serve(FIRST), {"role": "assistant", "content": "ho"}
    late = {"role": "system", "content": "Be kind."}
    reads(server, "[system|Tell.][user|hi\nBe kind.]", [HI, late], system="Tell.")
    reads(server, "[user|hi][assistant|ho][user|Be kind.\nhi]", [HI, answer, late, HI])
    chat = server.post("/apply-template", {"messages": [HI, late, answer, HI]}).json["prompt"]
    assert chat == "[user|hi\nBe kind.][assistant|ho][user|hi]"


def test_the_billing_line_is_no_part_of_the_prompt(serve):
    line = "x-anthropic-billing-header: cc_version=2.1.0.1ab; cc_entrypoint=cli;"
    reads(serve(ALL), "[system|Tell.||][user|hi||]", [HI], system=[text(line), text("Tell.")])


# ---- tools that come and go ----

def test_deferred_tools(serve):
    server = serve(ALL)
    tools = [TOOLS[0], {**TOOLS[1], "defer_loading": True}]
    call = {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "look", "input": {}}]}
    calls = '[{"id": "c1", "type": "function", "function": {"name": "look", "arguments": {}}}]'
    reads(server, "[user|hi||]look,", [HI], tools=tools)

    def found(name):
        return [HI, call, user({"type": "tool_result", "tool_use_id": "c1",
                                "content": [{"type": "tool_reference", "tool_name": name}]})]

    reads(server, f"[user|hi||][assistant|||{calls}][tool|find||]look,find,", found("find"), tools=tools)
    refuses(server, "tools", found("fly"), tools=tools)


def test_tools_in_messages_of_the_system(serve):
    server, tools = serve(ALL), [TOOLS[0], {**TOOLS[1], "defer_loading": True}]

    def change(kind, name):
        return {"type": kind, "tool": {"type": "tool_reference", "name": name}}

    def says(*blocks):
        return [HI, {"role": "system", "content": list(blocks)}]

    reads(server, "[user|hi||][system|||]look,find,", says(change("tool_addition", "find")), tools=tools)
    reads(server, "[user|hi||][system|||]", says(change("tool_removal", "look")), tools=tools)
    reads(server, "[user|hi||][system|||]look,", says(change("tool_removal", "look"), change("tool_addition", "look")), tools=tools)
    fly = {"type": "tool_addition", "tool": {"type": "tool_definition", "definition": {**TOOLS[0], "name": "fly"}}}
    reads(server, "[user|hi||][system|||]fly,look,", says(fly), tools=tools)
    refuses(server, "messages[1].content[0].tool.type",
            says({"type": "tool_addition", "tool": {"type": "mcp_toolset_reference", "server_name": "a"}}))
    r = server.post(MESSAGES, {"messages": says(change("tool_removal", "look")), "tools": TOOLS, "max_tokens": 1,
                               "tool_choice": {"type": "tool", "name": "look"}})
    assert r.status == 400 and "'tool_choice'" in r.json["error"]["message"]


def test_a_tool_of_anthropics_is_refused_by_its_type(serve):
    for kind in ("web_search_20250305", "bash_20250124", "tool_search_tool_regex_20251119"):
        r = serve(ALL).post(MESSAGES, {"messages": [HI], "max_tokens": 1, "tools": [{"type": kind, "name": "a"}]})
        assert r.status == 400 and kind in r.json["error"]["message"] and "leave it out" in r.json["error"]["message"]


def test_a_strict_tool(serve):
    """It is one to the template, and to strict_calls, as those of the other APIs are."""
    schema = {"type": "object", "properties": {"at": {"enum": ["here"]}}, "required": ["at"], "additionalProperties": False}
    tools = [{"name": "look", "input_schema": schema, "strict": True}]
    reads(serve("{{ tools | tojson }}"), json.dumps([{"type": "function", "function": {
        "name": "look", "parameters": schema, "strict": True}}]), [HI], tools=tools)


# ---- what is taken out ----

def turns(n, words=20):
    """n tool uses, each with a thought, and two messages of the user."""
    out = [HI]
    for i in range(n):
        if i == n // 2:
            out += [{"role": "assistant", "content": "so"}, HI]
        out += [{"role": "assistant", "content": [{"type": "thinking", "thinking": f"hm {i}", "signature": ""},
                                                  {"type": "tool_use", "id": f"c{i}", "name": "look" if i % 2 else "find",
                                                   "input": {"at": "here"}}]},
                user({"type": "tool_result", "tool_use_id": f"c{i}", "content": "bear " * words})]
    return out


def edited(server, edit, messages, **fields):
    """[tokens of the prompt, what the answer says of the edit or None]; the stream and count_tokens say the same."""
    body = {"messages": messages, "tools": TOOLS, "context_management": {"edits": [edit]}, **fields}
    counted = server.post(COUNT, body).json
    r = server.post(MESSAGES, {**body, "max_tokens": 1})
    assert r.status == 200, r.body
    usage = r.json["usage"]
    n = usage["input_tokens"] + usage["cache_read_input_tokens"]
    assert counted == {"input_tokens": n, "context_management": {"original_input_tokens": count(server, messages, tools=TOOLS)}}
    stream = server.post(MESSAGES, {**body, "max_tokens": 1, "stream": True}).body.decode()
    events = [json.loads(line.removeprefix("data: ")) for line in stream.split("\n") if line.startswith("data: ")]
    [delta] = [e for e in events if e["type"] == "message_delta"]
    assert delta["context_management"] == r.json["context_management"]
    [applied] = r.json["context_management"]["applied_edits"] or [None]
    return n, applied


USES, THINKING = {"type": "clear_tool_uses_20250919"}, {"type": "clear_thinking_20251015"}
CLEARED = "[This tool result was cleared to save room.]"


def after(messages, change):
    """The conversation with its i-th tool use changed: change(i, call, result)."""
    out, i = json.loads(json.dumps(messages)), 0
    for m in out:
        for block in m["content"] if isinstance(m["content"], list) else []:
            if block["type"] == "tool_use":
                call = block
            if block["type"] == "tool_result":
                change(i, call, block)
                i += 1
    return out


def test_old_tool_uses_are_cleared(serve):
    server, messages = serve(ALL), turns(6)
    whole = count(server, messages, tools=TOOLS)

    def check(edit, change, n_cleared):
        n, applied = edited(server, {**USES, **edit}, messages)
        assert n == count(server, after(messages, change), tools=TOOLS) < whole
        assert applied == {**USES, "cleared_tool_uses": n_cleared, "cleared_input_tokens": whole - n}

    def clear(which, inputs=()):
        def change(i, call, result):
            if i in which:
                result["content"] = CLEARED
            if i in inputs:
                call["input"] = {}
        return change

    after_two = {"trigger": {"type": "tool_uses", "value": 2}}
    check(after_two, clear({0, 1, 2}), 3)
    check({**after_two, "keep": {"type": "tool_uses", "value": 0}}, clear(range(6)), 6)
    check({**after_two, "keep": {"type": "tool_uses", "value": 5}}, clear({0}), 1)
    check({"trigger": {"type": "input_tokens", "value": whole - 1}}, clear({0, 1, 2}), 3)
    check({**after_two, "exclude_tools": ["find"], "keep": {"type": "tool_uses", "value": 1}}, clear({1, 3}), 2)
    check({**after_two, "clear_tool_inputs": True}, clear({0, 1, 2}, {0, 1, 2}), 3)
    check({**after_two, "clear_tool_inputs": ["look"]}, clear({0, 1, 2}, {1}), 3)
    check({**after_two, "clear_at_least": {"type": "input_tokens", "value": 5}}, clear({0, 1, 2}), 3)


def test_edits_that_do_not_apply(serve):
    server, messages = serve(ALL), turns(6)
    whole = count(server, messages, tools=TOOLS)
    after_two = {"trigger": {"type": "tool_uses", "value": 2}}
    for edit in (USES, {**USES, "trigger": {"type": "tool_uses", "value": 6}},
                 {**USES, "trigger": {"type": "input_tokens", "value": whole}},
                 {**USES, **after_two, "keep": {"type": "tool_uses", "value": 6}},
                 {**USES, **after_two, "clear_at_least": {"type": "input_tokens", "value": whole}},
                 {**USES, **after_two, "exclude_tools": ["look", "find"]},
                 {**THINKING, "keep": "all"}, {**THINKING, "keep": {"type": "all"}},
                 {**THINKING, "keep": {"type": "thinking_turns", "value": 2}}):
        assert edited(server, edit, messages) == (whole, None), edit
    r = server.post(MESSAGES, {"messages": [HI], "max_tokens": 1, "context_management": {}})
    assert r.json["context_management"] == {"applied_edits": []}
    assert "context_management" not in server.post(MESSAGES, {"messages": [HI], "max_tokens": 1}).json


def test_old_thoughts_are_cleared(serve):
    server, messages = serve(ALL), turns(6)
    bare = json.loads(json.dumps(messages))
    for m in bare[:8]:
        if m["role"] == "assistant" and m["content"] != "so":
            m["content"].pop(0)
    whole, n = count(server, messages, tools=TOOLS), count(server, bare, tools=TOOLS)
    applied = {**THINKING, "cleared_thinking_turns": 1, "cleared_input_tokens": whole - n}
    for edit in (THINKING, {**THINKING, "keep": {"type": "thinking_turns", "value": 1}}):
        assert edited(server, edit, messages) == (n, applied)
    both = {"edits": [THINKING, {**USES, "trigger": {"type": "tool_uses", "value": 2}}]}
    r = server.post(MESSAGES, {"messages": messages, "tools": TOOLS, "max_tokens": 1, "context_management": both}).json
    assert [e["type"] for e in r["context_management"]["applied_edits"]] == [THINKING["type"], USES["type"]]


def test_a_conversation_that_only_fits_when_it_is_edited(serve):
    server, messages = serve(ALL), turns(4, words=300)
    edit = {**USES, "trigger": {"type": "input_tokens", "value": 500}, "keep": {"type": "tool_uses", "value": 1}}
    r = server.post(MESSAGES, {"messages": messages, "max_tokens": 1})
    assert r.status == 400 and "maximum context length" in r.json["error"]["message"]
    r = server.post(MESSAGES, {"messages": messages, "max_tokens": 1, "context_management": {"edits": [edit]}})
    assert r.status == 200 and r.json["context_management"]["applied_edits"][0]["cleared_tool_uses"] == 3
    late = {**edit, "keep": {"type": "tool_uses", "value": 3}}
    r = server.post(MESSAGES, {"messages": messages, "max_tokens": 1, "context_management": {"edits": [late]}})
    assert r.status == 400 and "maximum context length" in r.json["error"]["message"]


@pytest.mark.parametrize("name,edits", [
    ("context_management.edits[0].type", [{"type": "compact_20260112"}]),
    ("context_management.edits[0].type", [{"type": "clear_tool_uses_20990101"}]),
    ("context_management.edits[0].type", [{}]), ("context_management.edits[1].type", [USES, USES]),
    ("context_management.edits[0].trigger.type", [{**USES, "trigger": {"type": "words", "value": 3}}]),
    ("context_management.edits[0].trigger.value", [{**USES, "trigger": {"type": "tool_uses", "value": 0.5}}]),
    ("context_management.edits[0].keep.type", [{**USES, "keep": {"type": "input_tokens", "value": 1}}]),
    ("context_management.edits[0].keep.value", [{**THINKING, "keep": {"type": "thinking_turns", "value": 0}}]),
    ("context_management.edits[0].exclude_tools", [{**USES, "exclude_tools": "look"}]),
    ("context_management.edits[0].clear_tool_inputs", [{**USES, "clear_tool_inputs": [1]}]),
])
def test_edits_that_are_refused(serve, name, edits):
    refuses(serve(ALL), name, [HI], context_management={"edits": edits})


# ---- fields ----

def test_an_answer_goes_on_with_a_last_message_of_the_assistant(server):
    body = {"messages": [HI, {"role": "assistant", "content": "Once upon"}], "temperature": 0}
    same = server.post("/v1/chat/completions", {**body, "max_completion_tokens": 8, "continue_final_message": True}).json
    got = server.post(MESSAGES, {**body, "max_tokens": 8}).json
    assert got["content"][0]["text"] == same["choices"][0]["message"]["content"]
    assert got["usage"]["input_tokens"] + got["usage"]["cache_read_input_tokens"] == same["usage"]["prompt_tokens"]


def test_thoughts_that_are_not_shown(server):
    body = {"messages": [HI], "max_tokens": 40, "grammar": 'root ::= "<think>ab cd</think>ef"'}
    refused = {"type": "enabled", "display": "updates"}
    r = server.post(MESSAGES, {**body, "thinking": refused})
    assert r.status == 400 and "'thinking.display'" in r.json["error"]["message"]
    for display in ("omitted", "summarized"):
        r = server.post(MESSAGES, {**body, "thinking": {"type": "enabled", "display": display}})
        assert r.status == 200, r.body


def test_fields_that_are_refused_by_name(server):
    body = {"messages": [HI], "max_tokens": 1}
    for fields, name in (({"output_config": {"task_budget": {"type": "tokens", "total": 20000}}}, "output_config.task_budget"),
                         ({"compaction": {"type": "summarize"}}, "compaction"), ({"container": "c"}, "container"),
                         ({"mcp_servers": [{"type": "url", "url": "http://a", "name": "a"}]}, "mcp_servers")):
        r = server.post(MESSAGES, {**body, **fields})
        assert r.status == 400 and f"'{name}'" in r.json["error"]["message"], r.body
    for fields in ({"fallbacks": "default"}, {"fallbacks": [{"model": "a"}]}, {"diagnostics": {"previous_message_id": None}},
                   {"billing_policy": {"type": "billing_policy", "bill_to": "self"}}, {"fallback_credit_token": "a"}):
        assert server.post(MESSAGES, {**body, **fields}).status == 200


# ---- models, errors, headers ----

def test_models_in_anthropics_shape(server):
    s = server
    got = s.get("/v1/models", headers=VERSION).json
    [model] = got["data"]
    assert got == {"data": [model], "has_more": False, "first_id": "quire-demo", "last_id": "quire-demo"}
    assert model["type"] == "model" and model["id"] == model["display_name"] == "quire-demo"
    assert model["created_at"].endswith("Z") and model["max_input_tokens"] == 1024
    assert s.get("/v1/models/quire-demo", headers=VERSION).json == model
    assert s.get("/v1/models").json["object"] == "list" and s.get("/v1/models/quire-demo").json["object"] == "model"
    r = s.get("/v1/models/x", headers=VERSION)
    assert r.status == 404 and r.json["error"]["type"] == "not_found_error" and r.json["type"] == "error"
    for query in ("limit=0", "limit=1001", "limit=x", "after_id=x", "before_id=x"):
        r = s.get("/v1/models?" + query, headers=VERSION)
        assert r.status == 400 and r.json["error"]["type"] == "invalid_request_error", query
    assert s.get("/v1/models?after_id=quire-demo", headers=VERSION).json == {
        "data": [], "has_more": False, "first_id": None, "last_id": None}


def test_pages_of_models(start, tmp_path):
    file = make_model(tmp_path / "m.gguf")
    s = start("--kv-memory", "64m", model=",".join(f"{name}={file}" for name in "abcde"))

    def page(query):
        r = s.get("/v1/models?" + query, headers=VERSION).json
        assert (r["first_id"], r["last_id"]) == (r["data"][0]["id"], r["data"][-1]["id"])
        return "".join(m["id"] for m in r["data"]), r["has_more"]

    assert page("") == ("abcde", False) and page("limit=5") == ("abcde", False) and page("limit=2") == ("ab", True)
    assert page("limit=2&after_id=b") == ("cd", True) and page("limit=2&after_id=c") == ("de", False)
    assert page("limit=2&before_id=d") == ("bc", True) and page("limit=2&before_id=c") == ("ab", False)


def test_errors_have_anthropics_shape(start):
    s = start("--max-body", "4k")
    for path in (MESSAGES, COUNT):
        for method, body, headers, status, kind in (
                ("GET", b"", {}, 405, "invalid_request_error"), ("POST", b"{", JSON, 400, "invalid_request_error"),
                ("POST", b"{}", {"Content-Type": "text/html"}, 415, "invalid_request_error"),
                ("POST", b" " * 5000, JSON, 413, "request_too_large"),
                ("POST", json.dumps({"model": "x", "messages": [HI], "max_tokens": 1}).encode(), JSON, 404, "not_found_error")):
            r = s.request(method, path, body, {**headers, "X-Request-Id": "abc"})
            assert r.status == status and r.json["type"] == "error" and r.json["error"]["type"] == kind, (path, status, r.body)
            assert r.headers["request-id"] == r.headers["X-Request-Id"] == "abc"


def test_every_answer_has_a_request_id(server):
    r = server.post(MESSAGES, {"messages": [HI], "max_tokens": 1}, headers={**JSON, "X-Request-Id": "mine"})
    assert r.headers["request-id"] == "mine"
    ids = in_threads([lambda: server.post(COUNT, {"messages": [HI]}).headers["request-id"]] * 4)
    assert len(set(ids)) == 4 and all(i.startswith("req-") for i in ids)
    assert server.post("/v1/chat/completions", {"messages": [HI], "max_tokens": 1}).headers["request-id"] is None
