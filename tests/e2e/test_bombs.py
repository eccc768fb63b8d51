"""Small requests that ask for much work: each is answered in bounded time, with 200 or a 400 that names the field,
and a neighbour's completions go on meanwhile."""
import http.client
import json
import re
import threading
import time

import pytest

from quire import SLOW

MOST_S = 20  # of one bomb: a second of a slow core, on a loaded machine, under a sanitizer
MOST_NEIGHBOUR_S = 20
MOST_RSS_MB = 3000  # with a sanitizer's shadow


def forked(n, keyword, last):
    refs = {f"x{i}": {keyword: [{"$ref": f"#/$defs/x{i + 1}"}, {"$ref": f"#/$defs/x{i + 1}"}]} for i in range(n)}
    return {"$ref": "#/$defs/x0", "$defs": {**refs, f"x{n}": last}}


def nested(n, inner, opening, closing):
    return json.loads(opening * n + json.dumps(inner) + closing * n)


def rules(n, rule, last='"a"'):
    return "root ::= x0\n" + "".join(rule.format(i=i, j=i + 1) for i in range(n)) + f"x{n} ::= {last}\n"


TEXT, CHAT, NATIVE = "/v1/completions", "/v1/chat/completions", "/completion"
MESSAGES, RESPONSES, EMBEDDINGS = "/v1/messages", "/v1/responses", "/v1/embeddings"
HI = [{"role": "user", "content": "hi"}]
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}


def schema(s):
    return TEXT, {"prompt": "a", "json_schema": s}


def grammar(g):
    return TEXT, {"prompt": "a", "structured_outputs": {"grammar": g}}


def regex(r):
    return TEXT, {"prompt": "a", "structured_outputs": {"regex": r}}


def chat(**fields):
    return CHAT, {"messages": HI, **fields}


def continued(text):
    return CHAT, {"messages": [{"role": "assistant", "content": text}], "continue_final_message": True,
                  "add_generation_prompt": False}


def bombs():
    """name -> (path, body). Built when they are sent: some have megabytes."""
    some = 20000
    return {
        # schemas
        "schema anyOf 24": lambda: schema(forked(24, "anyOf", {"type": "null"})),
        "schema anyOf 40": lambda: schema(forked(40, "anyOf", {"type": "null"})),
        "schema anyOf 2000": lambda: schema(forked(2000, "anyOf", {"type": "null"})),
        "schema allOf 40": lambda: schema(forked(40, "allOf", {"type": "null"})),
        "schema oneOf 40": lambda: schema(forked(40, "oneOf", {"type": "null"})),
        "schema any value 40": lambda: schema(forked(40, "anyOf", {})),
        "schema chain": lambda: schema({"$ref": "#/$defs/x0", "$defs": {
            **{f"x{i}": {"$ref": f"#/$defs/x{i + 1}"} for i in range(5000)}, "x5000": {"type": "null"}}}),
        "schema cycle": lambda: schema({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"},
                                                                      "b": {"$ref": "#/$defs/a"}}}),
        "schema allOf cycle": lambda: schema({"$ref": "#/$defs/a", "$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}] * 2}}}),
        "schema recursive merge": lambda: schema({"allOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}], "$defs": {
            k: {"type": "object", "properties": {"n": {"$ref": "#/$defs/a"}, "m": {"$ref": "#/$defs/b"}}}
            for k in "ab"}}),
        "schema deep values": lambda: schema({"oneOf": [{"const": nested(80, 1, '{"a":', "}")},
                                                        {"const": nested(80, 2, '{"a":', "}")}]}),
        "schema deep arrays": lambda: schema(nested(90, {}, '{"type":"array","items":', "}")),
        "schema big enum": lambda: schema({"enum": [f"word {i}" for i in range(10000)]}),
        "schema enums meet": lambda: schema({"allOf": [{"enum": list(range(some))},
                                                       {"enum": list(range(some, 0, -1))}]}),
        "schema properties meet": lambda: schema({"allOf": [{"properties": {f"{k}{i}": {} for i in range(5000)}}
                                                            for k in "ab"]}),
        "schema 999 optional": lambda: schema({"type": "object", "properties": {f"some_{i}": {} for i in range(999)},
                                               "additionalProperties": True}),
        "schema required": lambda: schema({"type": "object", "properties": {f"p{i}": {} for i in range(900)},
                                           "required": ["p899"] * some}),
        "schema oneOf objects": lambda: schema({"oneOf": [
            {"type": "object", "required": [f"k{k}" for k in range(30)],
             "properties": {"k0": {"const": i}, **{f"k{k}": {} for k in range(1, 20)}}} for i in range(200)]}),
        "schema counts": lambda: schema({"type": "array", "minItems": 99999, "items": {
            "type": "array", "minItems": 90000, "items": {"type": "string", "minLength": 90000}}}),
        "schema patterns": lambda: schema({"anyOf": [{"type": "string", "pattern": f"a.*b.*{i}"} for i in range(250)]}),
        "schema pattern stars": lambda: schema({"type": "string", "pattern": "((a*)*)*((b|b)*)*(.*c){40}"}),
        "schema references": lambda: schema({"type": "array", "prefixItems": [{"$ref": f"#/$defs/x{i}"} for i in range(4000)],
                                             "$defs": {f"x{i}": {"type": "null"} for i in range(4000)}}),
        # grammars
        "grammar literal": lambda: grammar('root ::= "' + "ab" * 120000 + '"'),
        "grammar ambiguous": lambda: grammar("root ::= " + " | ".join(f'"aaaa{i}"' for i in range(2000))),
        "grammar forks": lambda: grammar(rules(60, "x{i} ::= x{j} | x{j}\n")),
        "grammar stacks": lambda: grammar(rules(60, 'x{i} ::= x{j} "a" | x{j} "b"\n')),
        "grammar empty forks": lambda: grammar("root ::= " + '("a"? | "b"?) ' * 300 + '"c"'),
        "grammar options": lambda: grammar("root ::= " + '"a"? ' * 30000),
        "grammar alternatives": lambda: grammar('root ::= "a"' + '|"a"' * 60000),
        "grammar nullable calls": lambda: grammar('x ::= "a"?\nroot ::= ' + "x " * 40000),
        "grammar deep": lambda: grammar(rules(8000, 'x{i} ::= "a" x{j} "b" | "c"\n')),
        "grammar left recursion": lambda: grammar("root ::= root root | root"),
        "grammar palindromes": lambda: grammar('root ::= x "z"\nx ::= "a" x "b" | "a" x "a" | "b" x "a" | ""'),
        "grammar counts": lambda: grammar('root ::= (((" a"{1,100}){1,100}){1,100} "x"?){0,1000}'),
        "grammar loops": lambda: grammar('v ::= "a" | "b" v | [x-z] v v\n' + "".join(
            f'r{i} ::= (v "{i}"){{2,9000}}\n' for i in range(200)) + "root ::= " + " | ".join(f"r{i}" for i in range(200))),
        "grammar classes": lambda: grammar("root ::= " + "".join(
            "[" + "".join(f"\\U{0x10000 + 0x37 * (k * 17 + i):08X}" for k in range(240)) + "]" for i in range(90))),
        # expressions
        "regex over-read": lambda: regex("(?P<"),
        "regex stars": lambda: regex("(a|a)*(a*)*((a*)*)*(a|aa|aaa)*b"),
        "regex counts": lambda: regex("((a{1,100}){1,100}){1,100}"),
        "regex options": lambda: regex("a?" * 20000 + "a" * 20000),
        "regex window": lambda: regex("[ab]*a[ab]{2000}"),
        "regex wide window": lambda: regex(".*a.{0,250}x.{0,250}y"),
        "regex alternatives": lambda: regex("a|" * 100000 + "a"),
        "regex nested": lambda: regex("(a|" * 120 + "b" + ")*" * 120),
        "choices": lambda: (TEXT, {"prompt": "a", "structured_outputs": {"choice": ["common " * 3 + str(i) for i in range(10000)]}}),
        # chats and templates
        "continue equal characters": lambda: continued("a" * 4000000),
        "continue blanks": lambda: continued(" " * 2000000 + "x" + " " * 2000000),
        "content parts": lambda: (CHAT, {"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}] * 100000}]}),
        "messages": lambda: (CHAT, {"messages": HI * 50000}),
        "kwargs": lambda: chat(chat_template_kwargs={f"k{i}": i for i in range(50000)}),
        "kwargs deep": lambda: chat(chat_template_kwargs={"x": nested(150, 1, "[", "]")}),
        "arguments": lambda: (CHAT, {"messages": [*HI, {"role": "assistant", "tool_calls": [
            {"id": "c", "type": "function", "function": {"name": "f", "arguments": json.dumps(
                {f"k{i}": i for i in range(50000)})}}]}]}),
        "tools": lambda: chat(tools=[{"type": "function", "function": {"name": f"f{i}"}} for i in range(3000)]),
        "tools required": lambda: chat(tools=[{"type": "function", "function": {"name": f"f{i}", "parameters": {
            "type": "object", "properties": {"a": {"type": "string"}}}}} for i in range(250)], tool_choice="required"),
        "tool of a bomb": lambda: chat(tools=[{"type": "function", "function": {"name": "f", "parameters": {
            "type": "object", "properties": {"a": {"$ref": "#/$defs/x0"}}, **{"$defs": forked(40, "anyOf", {"type": "null"})["$defs"]}}}}],
            tool_choice="required"),
        "messages blocks": lambda: (MESSAGES, {"max_tokens": 1, "messages": [{"role": "user", "content": [
            {"type": "text", "text": "a"}] * 100000}]}),
        "messages tool uses": lambda: (MESSAGES, {"max_tokens": 1, "messages": [*HI, {"role": "assistant", "content": [
            {"type": "tool_use", "id": "c", "name": "f", "input": {}}] * 20000}]}),
        "responses items": lambda: (RESPONSES, {"input": [{"role": "user", "content": "a"},
                                                          {"type": "function_call", "call_id": "c", "name": "f",
                                                           "arguments": "{}"}] * 20000}),
        # prompts and the rest
        "prompt of one character": lambda: (TEXT, {"prompt": "a" * 7900000}),
        "prompt of blanks": lambda: (TEXT, {"prompt": " " * 7900000}),
        "prompt of marks": lambda: (TEXT, {"prompt": "e" + "\u0301" * 1300000}),
        "prompt of lines": lambda: (TEXT, {"prompt": "\r\n" * 1900000}),
        "prompt of specials": lambda: (TEXT, {"prompt": "<|end|" * 1300000}),
        "prompt of ids": lambda: (TEXT, {"prompt": [1] * 900000}),
        "many prompts": lambda: (TEXT, {"prompt": ["a"] * 100000}),
        "prompt of parts": lambda: (NATIVE, {"prompt": ["a", 1] * 400000}),
        "embeddings": lambda: (EMBEDDINGS, {"input": ["a" * 100] * 70000}),
        "many keys": lambda: (TEXT, {"prompt": "a", **{f"key{i}": i for i in range(100000)}}),
        "one key often": lambda: (TEXT, '{"prompt":"a"' + ',"stop":["x"]' * 100000 + "}"),
        "stop list": lambda: (TEXT, {"prompt": "a", "stop": [f"s{i}" for i in range(100000)]}),
        "stop long": lambda: (TEXT, {"prompt": "a", "stop": ["a" * 4000000]}),
        "logit bias": lambda: (TEXT, {"prompt": "a", "logit_bias": {str(i): 1 for i in range(100000)}}),
        "logit bias texts": lambda: (NATIVE, {"prompt": "a", "logit_bias": [["a" * 4000000, 1]]}),
        "breakers": lambda: (TEXT, {"prompt": "a", "dry_multiplier": 1, "dry_sequence_breakers": ["x" * 1000] * 5000}),
        "json deep": lambda: (TEXT, '{"prompt":' + "[" * 2000000),
        "json numbers": lambda: (TEXT, '{"prompt":"a","seed":' + "9" * 4000000 + "}"),
        "json values": lambda: (TEXT, '{"prompt":[' + "0," * 3000000 + "0]}"),
        "numbers": lambda: (TEXT, {"prompt": "a", "max_tokens": 1e300, "n": -1e300, "top_k": 1e19, "seed": 1e300}),
    }


def send(server, name, make, results):
    path, body = make()
    if isinstance(body, dict):
        body = json.dumps({"max_tokens": 2, **body} if path not in (EMBEDDINGS, RESPONSES) else body)
    begin = time.monotonic()
    reply = server.request("POST", path, body, {"Content-Type": "application/json"}, timeout=120)
    results[name] = (reply.status, time.monotonic() - begin, reply.body)


class Neighbour(threading.Thread):
    """Small completions one after the other, and how long each took."""

    def __init__(self, server):
        super().__init__()
        self.server, self.delays, self.done, self.bad = server, [], threading.Event(), []

    def run(self):
        while not self.done.is_set():
            begin = time.monotonic()
            reply = self.server.post(TEXT, {"prompt": "Once", "max_tokens": 2}, timeout=120)
            if reply.status != 200:
                self.bad.append(reply.body)
            self.delays.append(time.monotonic() - begin)
            time.sleep(0.01)


def peak_rss_mb(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return int(re.search(r"VmHWM:\s+(\d+)", f.read()).group(1)) // 1024


def check(name, result):
    status, took, body = result
    assert took < MOST_S, (name, took)
    if status == 200:
        return "ok"
    assert status in (400, 413), (name, status, body[:300])
    error = json.loads(body)["error"]
    assert error["message"], (name, body)
    assert error.get("param") or status == 413 or re.search("'[^']+'|the body|context", error["message"]), \
        (name, body[:300])
    return error["message"][:90]


@pytest.fixture(scope="module")
def bombed():
    from quire import Server
    s = Server()
    yield s
    s.stop()


def test_bombs_one_by_one(bombed):
    neighbour, results = Neighbour(bombed), {}
    neighbour.start()
    try:
        for name, make in bombs().items():
            send(bombed, name, make, results)
    finally:
        neighbour.done.set()
        neighbour.join()
    for name, result in results.items():
        print(f"{name:28} {result[0]} {result[1] * 1e3:8.0f} ms  {check(name, result)}")
    assert len(results) >= 54
    assert not neighbour.bad, neighbour.bad[0]
    print(f"neighbour: {len(neighbour.delays)} completions, worst {max(neighbour.delays) * 1e3:.0f} ms; "
          f"peak RSS {peak_rss_mb(bombed.pid)} MB")
    assert max(neighbour.delays) < MOST_NEIGHBOUR_S
    assert peak_rss_mb(bombed.pid) < MOST_RSS_MB


def test_four_at_once(bombed):
    """As many as there are threads that parse requests; a completion is served meanwhile."""
    results, threads = {}, []
    for i in range(4):
        make = (lambda k: lambda: schema(forked(40 + k, "anyOf", {"type": "null"})))(i)
        threads.append(threading.Thread(target=send, args=(bombed, f"bomb {i}", make, results)))
        threads[-1].start()
    begin = time.monotonic()
    bombed.complete("Once", max_tokens=2)
    assert time.monotonic() - begin < MOST_NEIGHBOUR_S
    for t in threads:
        t.join()
    for name, result in results.items():
        assert check(name, result) == "ok", result


@pytest.mark.parametrize("name", list(bombs()) if SLOW else [*list(bombs())[::9], "schema oneOf objects"])
def test_it_ends_meanwhile(start, name):
    """SIGTERM while four threads are at it: it drains, and ends."""
    server = start()

    def ask():
        try:
            send(server, name, bombs()[name], {})
        except (ConnectionError, http.client.HTTPException):
            pass  # it came when the server had gone

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for t in threads:
        t.start()
    time.sleep(0.2)
    begin = time.monotonic()
    assert server.stop(timeout=60) == 0
    print(f"{name}: ended after {time.monotonic() - begin:.2f} s")
    for t in threads:
        t.join(60)
        assert not t.is_alive()
