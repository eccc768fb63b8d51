"""Numbers keep their text: from a body to the prompt as Python's json and jinja2 have them, and in a schema's constants.
QUIRE_SLOW=1: 100,000 values and 10,000 schemas."""
import json
import os
import random
import struct

import pytest

from jinja_reference import NOW, Renderer, expected
from quire import Server

SLOW = os.environ.get("QUIRE_SLOW") == "1"

ODD = ["0", "-0", "0.0", "-0.0", "1.0", "-1.0", "1e5", "1E5", "1e+05", "1.50", "100000000000000000000", "123456789012345",
       "1234567890123456", "1234567890123456789", "9007199254740993", "-9007199254740993", "9007199254740991.0", "1e15", "1e16",
       "9999999999999998.0", "123456789012345680.0", "1e22", "1e23", "1e21", "0.0001", "0.00001", "1e-7", "5e-324", "2e-324",
       "1.7976931348623157e308", "1E400", "-1E400", "0.1", "0.30000000000000004", "0.1000000000000000055511151231257827",
       "9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809", "18446744073709551615",
       "18446744073709551616", "340282366920938463463374607431768211455", "3.14159265358979323846264338327950288419716939937510582097",
       "1" + "0" * 62, "-" + "7" * 100, "1" + "0" * 400, "9" * 4300, "0." + "0" * 80 + "1", "12345678901234567890e-10",
       "2.5e0", "4.35", "0e7", "0.000e-5"]


def number(rng):
    kind = rng.randrange(8)
    if kind == 0:
        return rng.choice(ODD)
    if kind == 1:
        return str(rng.choice((1 << 53, 1 << 63, 1 << 64, 10 ** 15, 10 ** 16)) * rng.choice((1, -1)) + rng.randrange(-3, 4))
    if kind == 2:
        return repr(rng.randrange(-1000, 1000))
    if kind == 3:
        x = struct.unpack("<d", struct.pack("<Q", rng.getrandbits(64)))[0]
        return repr(x) if x == x and abs(x) != float("inf") else "0.5"
    sign = rng.choice(("", "-"))
    whole = str(rng.randrange(1, 10)) + "".join(rng.choices("0123456789", k=rng.choice((0, 2, 7, 14, 15, 18, 30, 70)))) \
        if rng.random() < 0.9 else "0"
    if kind == 4:
        return sign + whole
    fraction = "." + "".join(rng.choices("0123456789", k=rng.randrange(1, 25))) if rng.random() < 0.8 else ""
    exponent = rng.choice("eE") + rng.choice(("", "+", "-")) + str(rng.randrange(40)) if rng.random() < 0.5 else ""
    return sign + whole + fraction + exponent


def value(rng, depth=2):
    """JSON text of a value; about half of all are numbers."""
    blank = rng.choice(("", "", " ", "\n ")) if depth > 0 else ""
    if depth == 0 or rng.random() < 0.5:
        return number(rng) if rng.random() < 0.8 else rng.choice(('"1.0"', "true", "null", '"\\"2.0"', '"é\\\\"'))
    items = [value(rng, depth - 1) for _ in range(rng.randrange(4))]
    if rng.random() < 0.5:
        return "[" + ("," + blank).join(items) + blank + "]"
    return "{" + ",".join(f'"{k}{rng.choice(("", "1.0", "a"))}":{blank}{v}' for k, v in enumerate(items)) + "}"


@pytest.fixture(scope="module")
def renderer():
    r = Renderer()
    yield r
    r.close()


def lists_of(make, n, size):
    for i in range(0, n, size):
        yield [make() for _ in range(size)]


PRINT = "{% for x in xs %}{{ x | tojson }} {{ x }} {{ x | string }} {{ [x] }} {{ x | tojson(indent=1) }}\n{% endfor %}"


def job(template, kind, text):
    return f'{{"template": {json.dumps(template)}, "{kind}": {text}, "now": {NOW}}}'


def test_values_are_printed_as_python_prints_them(renderer):
    rng = random.Random(6)
    for texts in [ODD, *lists_of(lambda: value(rng), 100_000 if SLOW else 5_000, 50)]:
        xs = "[" + ",".join(texts) + "]"
        got = renderer.send_line(job(PRINT, "globals", '{"xs": ' + xs.replace("\n", " ") + "}"))
        assert got.get("text") == expected(PRINT, {"xs": json.loads(xs)})[0], xs


ASK = ("{{ x }} {{ y }}: {{ x == y }}{{ x != y }}{{ x < y }}{{ x <= y }}{{ x > y }}{{ x is integer }}{{ x is float }}"
       "{{ x is number }}{{ x is string }}{{ not x }}{{ x in [y] }}{{ {x: 1}.get(y) }}{{ [x, y] | sort }}{{ [x, y] | max }}"
       "{{ [x, y, x] | unique | list }}{{ x | abs }}{{ -x }}{{ x ~ y }}{{ '%s' % x }}{{ x | default(1) }}{{ x | round }}\n")


def test_numbers_compare_as_python_compares_them(renderer):
    rng = random.Random(7)
    for texts in lists_of(lambda: (number(rng), number(rng)), 20_000 if SLOW else 2_000, 20):
        near = [(x, rng.choice((x, x + ("" if "e" in x.lower() else ".0" if "." not in x else "0"), y))) for x, y in texts]
        pairs = "[" + ",".join(f"[{x},{y}]" for x, y in near) + "]"
        template = "{% for x, y in pairs %}" + ASK + "{% endfor %}"
        got = renderer.send_line(job(template, "globals", '{"pairs": ' + pairs + "}"))
        assert got.get("text") == expected(template, {"pairs": json.loads(pairs)})[0], pairs


@pytest.mark.parametrize("how", ["x + 1", "x * 2", "x // 3", "x % 10", "x - x", "x ** 2", "'%d' % x", "'{:,}'.format(x)", "[1] * x",
                                 "range(x)", "x | round(-2)", "[x, 1] | sum", "x is even"])
def test_what_cannot_be_computed_is_refused(renderer, how):
    """Never another number: 64 bits are enough for what templates count."""
    got = renderer.send_line(job("{{ " + how + " }}", "globals", '{"x": 123456789012345678901}'))
    assert "error" in got and ("64 bits" in got["error"] or how in ("[1] * x", "range(x)")), got


@pytest.mark.parametrize("how", ["x * 0.5", "x / 2.5", "x | float", "x + 1.0", "x // 7.0", "x[0]", "([1, 2])[x]", "x.real", "x.imag", "'%.3e' % x"])
def test_what_python_computes_in_floats(renderer, how):
    template = "{{ " + how + " }}"
    got = renderer.send_line(job(template, "globals", '{"x": 123456789012345678901}'))
    assert got.get("text") == expected(template, {"x": 123456789012345678901})[0], got
    got = renderer.send_line(job("{{ x * 0.5 }}", "globals", '{"x": 1' + "0" * 400 + "}"))
    assert "too large to convert" in got["error"]


CHAT = ("{% for m in messages %}{% for c in m.tool_calls or [] %}<{{ c.function.arguments | tojson }}|{{ c.function.arguments }}>"
        "{% endfor %}{% endfor %}{{ tools | tojson }}{{ xs | tojson }}{{ xs }}")


def objects(rng):
    return "{" + ",".join(f'"k{i}": {value(rng)}' for i in range(rng.randrange(1, 4))).replace("\n", " ") + "}"


def test_a_body_comes_to_the_prompt_as_it_was_written(renderer):
    """Arguments as text, a tool's schema, chat_template_kwargs."""
    rng = random.Random(8)
    for _ in range(20_000 if SLOW else 800):
        arguments, schema, xs = objects(rng), objects(rng), "[" + value(rng).replace("\n", " ") + "]"
        body = (f'{{"messages": [{{"role": "user", "content": "x"}}, {{"role": "assistant", "content": "", "tool_calls": [{{"id": "c", '
                f'"type": "function", "function": {{"name": "f", "arguments": {json.dumps(arguments)}}}}}]}}], "tools": [{{"type": '
                f'"function", "function": {{"name": "f", "parameters": {schema}}}}}], "chat_template_kwargs": {{"xs": {xs}}}}}')
        got = renderer.send_line(job(CHAT, "chat", body))
        given = json.loads(body)
        given["messages"][1]["tool_calls"][0]["function"]["arguments"] = json.loads(arguments)
        want = expected(CHAT, {"messages": given["messages"], "tools": given["tools"], "xs": json.loads(xs)})[0]
        assert got.get("text") == want, body


# ---- a server ----

ARGUMENTS = ('{"id": 1234567890123456789, "a": [9007199254740993, 1.0, -0.0, 1e5, 12345678901234567890123], "b": {"c": 1.50, "d": 1E400, '
             '"e": 1' + "0" * 80 + "}}")
PYTHONS = json.dumps(json.loads(ARGUMENTS))
LOOK = "{% for m in messages %}{% for c in m.tool_calls or [] %}{{ c.function.arguments | tojson }}{% endfor %}{% endfor %}{{ x | tojson }}"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("literals")
    (folder / "t.jinja").write_text(LOOK)
    s = Server("--chat-template", str(folder / "t.jinja"), "--context", "4096", "--responses-db", str(folder / "r.db"),
               "--chat-template-kwargs", '{"x": [9007199254740993, 1.0, 1e5]}')
    yield s
    assert s.stop() == 0


DEFAULT = "[9007199254740993, 1.0, 100000.0]"
USER = '{"role": "user", "content": "x"}'
CALL = '{"id": "c", "type": "function", "function": {"name": "f", "arguments": %s}}'
TURNS = '"messages": [' + USER + ', {"role": "assistant", "content": "", "tool_calls": [' + CALL + ']}, {"role": "tool", "tool_call_id": "c", "content": "y"}]'


def post(server, path, text):
    r = server.post(path, text.encode(), headers={"Content-Type": "application/json"})
    assert r.status == 200, r.body
    return r


def test_prompts_of_a_server(server):
    chat = TURNS % json.dumps(ARGUMENTS)
    assert post(server, "/apply-template", "{" + chat + "}").json["prompt"] == PYTHONS + DEFAULT
    other = post(server, "/apply-template", "{" + chat + ', "chat_template_kwargs": {"x": ' + ARGUMENTS + "}}")
    assert other.json["prompt"] == PYTHONS + PYTHONS
    settings = server.get("/props").body.decode()
    assert '"chat_template_kwargs":{"x":[9007199254740993,1.0,1e5]}' in settings


def used(answer):
    usage = answer.get("usage", {})
    return (usage.get("prompt_tokens") or answer.get("prompt_eval_count") or
            usage["input_tokens"] + usage.get("cache_read_input_tokens", 0) + usage.get("cache_creation_input_tokens", 0))


def cached(answer):
    usage = answer["usage"]
    details = usage.get("prompt_tokens_details") or usage.get("input_tokens_details") or {"cached_tokens": usage.get("cache_read_input_tokens")}
    return details["cached_tokens"]


FORMATS = {
    "/v1/chat/completions": ('{"max_tokens": 1, ' + TURNS + "}", True),
    "/v1/messages": ('{"max_tokens": 1, "messages": [' + USER + ', {"role": "assistant", "content": [{"type": "tool_use", "id": "c", '
                     '"name": "f", "input": %s}]}, {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "y"}]}]}', False),
    "/v1/responses": ('{"max_output_tokens": 16, "input": [' + USER + ', {"type": "function_call", "call_id": "c", "name": "f", "arguments": %s}, '
                      '{"type": "function_call_output", "call_id": "c", "output": "y"}]}', True),
    "/api/chat": ('{"stream": false, "options": {"num_predict": 1}, "messages": [' + USER + ', {"role": "assistant", "content": "", "tool_calls": '
                  '[{"function": {"name": "f", "arguments": %s}}]}, {"role": "tool", "content": "y"}]}', False),
}


@pytest.mark.parametrize("path", FORMATS)
def test_a_call_that_comes_back_finds_its_prefix(server, path):
    """As the model wrote it, so it is read: with another number in it the blocks would be others."""
    body, is_text = FORMATS[path]
    first = post(server, "/v1/chat/completions", FORMATS["/v1/chat/completions"][0] % json.dumps(ARGUMENTS)).json
    answer = post(server, path, body % (json.dumps(ARGUMENTS) if is_text else ARGUMENTS)).json
    assert used(answer) == used(first)
    if path != "/api/chat":
        assert cached(answer) >= used(answer) - 32 > 64


def test_responses_repeat_what_was_sent(server):
    tool = ('{"type":"function","name":"f","parameters":{"type":"object","properties":{"a":{"minimum":9007199254740993,"maximum":1e25,'
            '"enum":[1.0,-0.0,12345678901234567890]}}}}')
    item = '{"type":"message","role":"user","content":[{"type":"input_text","text":"x","n":1.50}],"m":9007199254740993}'
    r = post(server, "/v1/responses", '{"max_output_tokens": 16, "input": [' + item + '], "tools": [' + tool + "]}")
    assert tool in r.body.decode()
    kept = server.get(f"/v1/responses/{r.json['id']}").body.decode()
    assert tool in kept
    items = server.get(f"/v1/responses/{r.json['id']}/input_items").body.decode()
    assert '"m":9007199254740993' in items and '"n":1.50' in items


def test_integers_have_an_end(server):
    r = server.post("/apply-template", ('{"messages": [' + USER + '], "chat_template_kwargs": {"x": ' + "9" * 4301 + "}}").encode())
    assert r.status == 400 and "4300 digits" in r.json["error"]["message"]
