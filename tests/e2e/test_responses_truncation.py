"""OpenAI's truncation: input that is longer than the context loses its oldest items, or is refused."""
import time

import pytest

from quire import Server

PATH, COUNT = "/v1/responses", "/v1/responses/input_tokens"
CONTEXT = 256
TEMPLATE = ("{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m.content }}{% for c in m.tool_calls or [] %}"
            "(call {{ c.id }}){% endfor %}{% if m.role == 'tool' %}(result {{ m.tool_call_id }}){% endif %}\n{% endfor %}")
STRICT = ("{%- for m in messages if m.role not in ('system', 'developer') -%}{%- if loop.first and m.role != 'user' -%}"
          "{{ raise_exception('a user begins') }}{%- endif -%}{%- endfor -%}" + TEMPLATE)


def user(text):
    return {"role": "user", "content": text}


def assistant(text):
    return {"role": "assistant", "content": text}


def call(name):
    return {"type": "function_call", "call_id": name, "name": "f", "arguments": "{}"}


def result(name, text):
    return {"type": "function_call_output", "call_id": name, "output": text}


def turns(n, begin=0):
    return [(user, assistant)[i % 2](f"{i} is a number. " * 3) for i in range(begin, n)]


@pytest.fixture(scope="module", params=[TEMPLATE, STRICT], ids=["any", "strict"])
def server(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("truncation")
    (folder / "t.jinja").write_text(request.param)
    s = Server("--chat-template", str(folder / "t.jinja"), "--context", str(CONTEXT), "--responses-db", str(folder / "r.db"))
    s.is_strict = request.param == STRICT
    yield s
    assert s.stop() == 0


def ask(s, items, status=200, **fields):
    r = s.post(PATH, {"input": items, "max_output_tokens": 6, "temperature": 0, "truncation": "auto", **fields})
    assert r.status == status, r.body
    return r.json


def same(a, b):
    """The same prompt, by its length, and the same answer."""
    assert a["usage"]["input_tokens"] == b["usage"]["input_tokens"]
    assert [i["content"] for i in a["output"]] == [i["content"] for i in b["output"]]


def count(s, items, **fields):
    r = s.post(COUNT, {"input": items, **fields})
    return r.json["input_tokens"] if r.status == 200 else 10 ** 6


def test_the_word(server):
    for word in (5, True, [], {}, "x", ""):
        e = ask(server, "Once", status=400, truncation=word)["error"]
        assert e["param"] == "truncation" and "auto or disabled" in e["message"]
    for word, said in (("auto", "auto"), ("disabled", "disabled"), (None, "disabled")):
        assert ask(server, "Once", truncation=word)["truncation"] == said
    same(ask(server, "Once"), ask(server, "Once", truncation="disabled"))


def test_the_oldest_items_go(server):
    """As few as leave room for the answer; with a template that wants a user first, those up to one."""
    items = [*turns(60), user("And now")]
    e = ask(server, items, status=400, truncation="disabled")["error"]
    assert e["code"] == "context_length_exceeded" and e["param"] == "input"
    assert ask(server, items, status=400, truncation=None)["error"] == e
    a = ask(server, items, instructions="Be kind.")
    starts = [k for k in range(len(items)) if count(server, items[k:], instructions="Be kind.") <= CONTEXT - 6]
    assert a["truncation"] == "auto" and a["usage"]["output_tokens"] == 6 and starts[0] > 40
    same(a, ask(server, items[starts[0]:], instructions="Be kind.", truncation="disabled"))
    assert count(server, items, instructions="Be kind.", truncation="auto") <= CONTEXT
    if server.is_strict:
        assert items[starts[0]]["role"] == "user"


def test_what_stays(server):
    """Messages of the system and the developer, wherever they stand."""
    notes = [{"role": "developer", "content": "Be brief."}, {"role": "system", "content": "Be kind."}]
    items = [*turns(20), *notes, *turns(40, 20), user("And now")]
    a = ask(server, items)
    starts = [k for k in range(22, len(items)) if count(server, notes + items[k:]) <= CONTEXT - 6]
    same(a, ask(server, notes + items[starts[0]:], truncation="disabled"))


def test_a_call_goes_with_its_output(server):
    """A result stands a while behind its call: both stay or both go."""
    items = [user("Begin"), call("a"), *turns(8), result("a", "first"), *turns(14, 8), call("b"), call("c"),
             result("b", "x"), result("c", "y"), user("And now")]
    a = ask(server, items)
    without = [i for i in items if i.get("call_id") != "a"]
    starts = [k for k in range(len(without)) if count(server, without[k:]) <= CONTEXT - 6]
    assert starts[0] > 2
    same(a, ask(server, without[starts[0]:], truncation="disabled"))


def test_calls_with_the_same_id(server):
    """As small servers number them, in each turn anew: a result is that of the call before it."""
    turn = lambda i: [user(f"{i} is a number. " * 3), call("call_0"), result("call_0", f"{i} it is.")]
    items = [*(i for k in range(30) for i in turn(k)), user("And now")]
    starts = [k for k in range(len(items)) if items[k].get("type") != "function_call_output"
              and count(server, items[k:]) <= CONTEXT - 6]
    same(ask(server, items), ask(server, items[starts[0]:], truncation="disabled"))


def test_the_last_message_of_the_user_stays(server):
    """Even the calls behind it go before it does."""
    items = [*turns(10), user("Do it"), *(i for k in range(30) for i in (call(f"c{k}"), result(f"c{k}", "done and done. ")))]
    a = ask(server, items)
    keep = [k for k in range(11, len(items), 2) if count(server, [items[10], *items[k:]]) <= CONTEXT - 6]
    assert keep
    same(a, ask(server, [items[10], *items[keep[0]:]], truncation="disabled"))
    tail = [call("z"), result("z", "much too long. " * 200)]
    same(ask(server, [*turns(4), user("Do it"), *tail]), ask(server, [user("Do it")], truncation="disabled"))


def test_what_is_too_long_by_itself_is_refused(server):
    for items in ([user("too long " * 400)], [*turns(4), user("too long " * 400)], "too long " * 400):
        e = ask(server, items, status=400)["error"]
        assert e["code"] == "context_length_exceeded" and e["param"] == "input"
    e = ask(server, [*turns(4), user("Once")], status=400, instructions="too long " * 400)["error"]
    assert e["code"] == "context_length_exceeded"


def test_room_for_the_answer(server):
    """What it may have at most, but no more than a quarter of the context."""
    items = [*turns(60), user("And now")]
    for wanted, room in ((1, 1), (30, 30), (200, CONTEXT // 4)):
        a = ask(server, items, max_output_tokens=wanted, ignore_eos=True)
        starts = [k for k in range(len(items)) if count(server, items[k:]) <= CONTEXT - room]
        assert a["usage"]["input_tokens"] == count(server, items[starts[0]:])
        assert room <= a["usage"]["output_tokens"] <= wanted


def test_a_conversation_that_is_kept(server):
    """Each response goes on with the one before until the context is full, and is kept whole."""
    last, n = {}, 14
    for i in range(n):
        fields = {"previous_response_id": last["id"]} if last else {}
        last = ask(server, f"{i} is a number. " * 3, **fields)
        assert last["usage"]["input_tokens"] <= CONTEXT - 6
    assert ask(server, "And now", status=400, previous_response_id=last["id"], truncation="disabled")
    kept = server.get(f"{PATH}/{last['id']}").json
    assert kept == last and kept["truncation"] == "auto"


def test_many_items_take_few_renderings(server):
    """Some 2 log2(n) of them: with one for each item this would take many minutes."""
    begin = time.monotonic()
    ask(server, [*turns(16000), user("And now")])
    assert time.monotonic() - begin < 60
