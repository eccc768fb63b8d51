"""Numbers keep their text: from a body to the prompt as Python's json and jinja2 have them, and in a schema's constants.
QUIRE_SLOW=1: 100,000 values and 10,000 schemas."""
import json
import math
import os
import pathlib
import random
import re
import struct
import subprocess
from fractions import Fraction

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


PARAMETERS = ('{"type": "object", "properties": {"id": {"const": 1234567890123456789}, "f": {"enum": [1.0]}, "g": {"const": [-0.0, 1E400]}, '
              '"n": {"type": "integer", "minimum": 9007199254740993, "maximum": 9007199254740993}}, "required": ["id", "f", "g", "n"]}')
WRITTEN = '{"id":1234567890123456789,"f":1.0,"g":[-0.0,1E400],"n":9007199254740993}'
FUNCTION = '"type": "function", "function": {"name": "f", "parameters": ' + PARAMETERS + "}"
CALLED = {
    "/v1/chat/completions": '{"max_tokens": 200, "messages": [' + USER + '], "tools": [{' + FUNCTION + '}], "tool_choice": "required"%s}',
    "/v1/messages": '{"max_tokens": 200, "messages": [' + USER + '], "tools": [{"name": "f", "input_schema": ' + PARAMETERS +
                    '}], "tool_choice": {"type": "any"}%s}',
    "/v1/responses": '{"max_output_tokens": 200, "input": "x", "tools": [{"type": "function", "name": "f", "parameters": ' + PARAMETERS +
                     '}], "tool_choice": "required"%s}',
    "/api/chat": '{"messages": [' + USER + '], "options": {"num_predict": 200}, "tools": [{' + FUNCTION + '}], "tool_choice": "required"%s}',
}


@pytest.mark.parametrize("path", CALLED)
@pytest.mark.parametrize("stream", ["true", "false"])
def test_calls_of_a_model_keep_its_numbers(server, path, stream):
    """The schema leaves one text only, and so it is in every answer, as an object or as text."""
    body = post(server, path, CALLED[path] % f', "stream": {stream}').body.decode()
    text = body.replace('\\"', '"').replace(", ", ",").replace(": ", ":")
    if stream == "true" and path != "/api/chat":  # in pieces
        parts = re.findall(r'"(?:arguments|partial_json|delta)":"((?:[^"\\]|\\.)*)"', body)
        text = json.loads('"' + "".join(parts) + '"').replace(", ", ",").replace(": ", ":")
    assert WRITTEN in text, body


@pytest.mark.parametrize("seed", [9007199254740993, 2**63 - 1, 2**64 - 1, 12345678901234567891, 1000])
def test_seeds_are_exact(server, seed):
    r = server.post("/completion", {"prompt": "x", "n_predict": 1, "seed": seed})
    assert r.json["generation_settings"]["seed"] == seed
    assert server.post("/completion", {"prompt": "x", "n_predict": 1, "seed": 2**64}).status == 400


@pytest.mark.parametrize("path, name", [("/v1/completions", "max_tokens"), ("/completion", "n_predict"), ("/v1/completions", "temperature")])
@pytest.mark.parametrize("number", ["12345678901234567890", "9007199254740993.5", "1e400"])
def test_errors_name_the_number_that_was_sent(server, path, name, number):
    r = server.post(path, f'{{"prompt": "x", "{name}": {number}}}'.encode())
    assert r.status == 400 and f"got {number}" in r.json["error"]["message"], r.body


def test_integers_have_an_end(server):
    r = server.post("/apply-template", ('{"messages": [' + USER + '], "chat_template_kwargs": {"x": ' + "9" * 4301 + "}}").encode())
    assert r.status == 400 and "4300 digits" in r.json["error"]["message"]


# ---- schemas ----

class Tool:
    """build/tools/schema as a child process."""

    def __init__(self):
        path = pathlib.Path(os.environ.get("QUIRE_TOOLS", "build/tools")) / "schema"
        self.child = subprocess.Popen([str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, schema, texts, samples=0, seed=1):
        self.child.stdin.write(f'{{"schema": {schema}, "texts": {json.dumps(texts)}, "samples": {samples}, "seed": {seed}}}\n')
        self.child.stdin.flush()
        return json.loads(self.child.stdout.readline())

    def close(self):
        self.child.stdin.close()
        self.child.wait(timeout=60)


@pytest.fixture(scope="module")
def tool():
    t = Tool()
    yield t
    t.close()


def test_constants_come_out_as_they_stand(tool):
    rng = random.Random(9)
    for i in range(10_000 if SLOW else 1_000):
        listed = list(dict.fromkeys(number(rng) for _ in range(rng.randrange(1, 4))))
        others = [x for x in (number(rng), listed[0] + "0", repr(float(listed[0]) if abs(Fraction(listed[0])) < 10 ** 300 else 0.0), "-" + listed[0])
                  if x not in listed]
        schema = f'{{"const": {listed[0]}}}' if len(listed) == 1 else f'{{"enum": [{",".join(listed)}]}}'
        got = tool.ask(schema, listed + others, samples=2, seed=i + 1)
        assert got.get("taken") == [True] * len(listed) + [False] * len(others), (schema, others, got)
        assert got["samples"] and all(x in listed for x in got["samples"]), (schema, got)
        nested = '{"a":[%s,{"b":%s}]}' % (listed[0], listed[-1])
        assert tool.ask(f'{{"const": {nested}}}', [nested, nested.replace(listed[0], listed[0] + "1", 1)])["taken"] == [True, False], nested


def sides(low, high):
    """A number that bounds from below, and one from above, as text."""
    out = []
    if low is not None:
        out.append(f'"{low[0]}": {low[1]}')
    if high is not None:
        out.append(f'"{high[0]}": {high[1]}')
    return ", ".join(out)


def fits(x, low, high):
    return ((low is None or (x > Fraction(low[1]) if low[0].startswith("ex") else x >= Fraction(low[1]))) and
            (high is None or (x < Fraction(high[1]) if high[0].startswith("ex") else x <= Fraction(high[1]))))


def bounding(rng):
    """Text of at most 30 digits before the point."""
    while abs(Fraction(x := number(rng))) >= 10 ** 30:
        pass
    return x


def test_bounds_are_exact(tool):
    rng = random.Random(10)
    n_refused = n_samples = 0
    for i in range(10_000 if SLOW else 300):
        a, b = sorted((bounding(rng), bounding(rng)), key=Fraction)
        low = (rng.choice(("minimum", "exclusiveMinimum")), a) if rng.random() < 0.8 else None
        high = (rng.choice(("maximum", "exclusiveMaximum")), b) if rng.random() < 0.8 or low is None else None
        kind = rng.choice(("integer", "number"))
        near = [math.ceil(Fraction(x[1])) + d for x in (low, high) if x is not None for d in (-1, 0, 1)]
        got = tool.ask(f'{{"type": "{kind}", {sides(low, high)}}}', [str(x) for x in near], samples=3, seed=i + 1)
        if "error" in got:
            assert "no number is within the bounds" in got["error"] and not any(fits(x, low, high) for x in near), (kind, low, high, got)
            n_refused += 1
            continue
        assert got["taken"] == [fits(x, low, high) for x in near], (kind, low, high, near)
        assert all(fits(Fraction(x), low, high) for x in got["samples"]), (kind, low, high, got)
        n_samples += len(got["samples"])
    assert n_refused < i / 5 and n_samples > i


def test_multiples_are_exact(tool):
    rng = random.Random(11)
    for i in range(2_000 if SLOW else 100):
        of = rng.choice(("1234567890123456789", "0.1", "1e-7", "2.50", "1e20", "0.000000000003", "7", "9007199254740993", "12.5e1", "1.0",
                         str(rng.randrange(1, 10 ** rng.randrange(1, 25))), str(rng.randrange(1, 50)) + rng.choice(("e-3", "e3", "e-12", ".25"))))
        low, high = [sides((k, bounding(rng)), None) if rng.random() < 0.3 else None for k in ("minimum", "maximum")]
        kind = rng.choice(("integer", "number"))
        texts = [str(Fraction(of) * k) for k in (0, 1, 2, 17) if (Fraction(of) * k).denominator == 1]
        got = tool.ask("{" + ", ".join(filter(None, [f'"type": "{kind}", "multipleOf": {of}', low, high])) + "}", texts, samples=3, seed=i + 1)
        if "error" in got:
            assert low or high, got
            assert "is within the bounds" in got["error"] or "too" in got["error"], (of, low, high, got)
            continue
        assert all((Fraction(x) / Fraction(of)).denominator == 1 for x in got["samples"]), (of, low, high, got)
        if not low and not high:
            assert all(got["taken"]), (of, texts, got)


@pytest.mark.parametrize("schema, taken, not_taken", [
    ('{"type":"integer","minimum":-9223372036854775808,"maximum":9223372036854775807}',
     ["-9223372036854775808", "9223372036854775807", "0", "1234567890123456789"], ["-9223372036854775809", "9223372036854775808"]),
    ('{"type":"integer","minimum":9007199254740993}', ["9007199254740993", "9007199254740994", "99999999999999999"], ["9007199254740992", "1"]),
    ('{"type":"integer","minimum":0,"maximum":1e308}', ["0", "999999999999999"], ["-1"]),
    ('{"type":"integer","minimum":1.0,"maximum":1e2}', ["1", "100"], ["0", "101"]),
    ('{"type":"number","minimum":1.5e-10,"maximum":2.5e-10}', ["0.0000000002"], ["0.0000000003", "0", "0.0"]),
    ('{"type":"number","exclusiveMinimum":0.1,"maximum":0.1000000000000000055}', ["0.1000000000000000055"], ["0.1", "0.2"]),
    ('{"type":"integer","maximum":1E400}', ["5", "-5"], []),
    ('{"enum":[1,2,9007199254740992,9007199254740993],"exclusiveMinimum":9007199254740992}', ["9007199254740993"], ["9007199254740992"]),
    ('{"allOf":[{"enum":[9007199254740992,1.0]},{"enum":[9007199254740993,1]}]}', ["1.0"], ["9007199254740992", "9007199254740993"]),
    ('{"allOf":[{"type":"integer","minimum":9007199254740992},{"minimum":9007199254740993,"maximum":9007199254740995},'
     '{"maximum":9007199254740994}]}', ["9007199254740993", "9007199254740994"], ["9007199254740992", "9007199254740995"]),
    ('{"type":"integer","enum":[9007199254740993.5,9007199254740993]}', ["9007199254740993"], ["9007199254740993.5"]),
    ('{"type":"array","uniqueItems":true,"minItems":2,"maxItems":2,"items":{"enum":[9007199254740992,9007199254740993]}}',
     ["[9007199254740992,9007199254740993]"], ["[9007199254740992,9007199254740992]"]),
])
def test_schemas_with_long_numbers(tool, schema, taken, not_taken):
    got = tool.ask(schema, taken + not_taken)
    assert got.get("taken") == [True] * len(taken) + [False] * len(not_taken), got


def test_bounds_have_an_end(tool):
    assert "36 digits" in tool.ask('{"type":"integer","minimum":1e36}', [])["error"]
    assert "multipleOf" in tool.ask('{"type":"integer","multipleOf":1e40}', [])["error"]
