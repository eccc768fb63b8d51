"""A thought that its client ends while it runs, as llama-server has it."""
import json

import pytest

from quire import JSON, Server
from test_thoughts import ASK, CHAT, CLOSE, Thinker, fixtures

CONTROL = "/v1/chat/completions/control"
CONTEXT = 60_000
UNKNOWN = {"success": False, "message": "no active completion for this id"}
UNARMED = {"success": False, "message": "reasoning control not enabled for this completion"}
# It neither ends nor stops to think, and sockets do not hold what it would say.
ENDLESS = {"messages": ASK, "stream": True, "max_tokens": CONTEXT // 4, "temperature": 1, "seed": 4,
           "logit_bias": {"258": -100, str(CLOSE): -100}}


def flags(folder):
    """A model whose template begins each answer inside a thought."""
    template = folder / "t.jinja"
    template.write_text("{% for m in messages %}{{ m.content }}{% endfor %}{% if enable_thinking %}<think>{% else %}"
                        "<think></think>{% endif %}")
    f = Thinker("qwen3", "plain", "F32", 1, CONTEXT)
    f.n_vocab = 259
    fixtures.qwen3(f)
    file = folder / "m.gguf"
    file.write_bytes(f.bytes())
    return "--model", str(file), "--chat-template", str(template)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("control")
    s = Server(*flags(folder), "--tenant-header", "X-Tenant", "--receipts", "on")
    yield s
    s.stop()


class Running:
    """A stream of a chat whose frames are read one by one."""

    def __init__(self, server, path=CHAT, headers=None, **fields):
        self.connection = server.connect()
        self.connection.request("POST", path, json.dumps({**ENDLESS, **fields}), {**JSON, **(headers or {})})
        self.reply = self.connection.getresponse()
        assert self.reply.status == 200
        self.first = self.frame()
        self.id = self.first["id"]

    def frame(self):
        """The next one, or None at the end."""
        while True:
            line = self.reply.readline()
            if not line or line == b"data: [DONE]\n":
                return None
            if line.startswith(b"data: "):
                return json.loads(line[6:])

    def read_until(self, enough):
        """The deltas of each choice up to the frame behind which enough(texts) is true: {index: [thought, content]}."""
        texts = {}
        while (frame := self.frame()) is not None:
            for c in frame.get("choices", []):
                pair = texts.setdefault(c["index"], ["", ""])
                pair[0] += c["delta"].get("reasoning_content") or ""
                pair[1] += c["delta"].get("content") or ""
            if enough(texts):
                return texts
        raise AssertionError(f"the stream ended before: {len(texts)}")

    def close(self):
        self.connection.close()


def control(server, id, headers=None, **fields):
    r = server.post(CONTROL, {"id": id, "action": "reasoning_end", **fields}, headers=headers)
    assert r.status == 200, r.body
    return r.json


@pytest.mark.parametrize("fields", [{}, {"reasoning_budget_message": " so:"}, {"reasoning_budget": 10_000},
                                    {"response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": {
                                        "type": "array", "items": {"const": 5}, "minItems": 5000}}}}], ids=len)
def test_a_running_thought_is_ended(server, fields):
    s = Running(server, reasoning_control=True, **fields)
    s.read_until(lambda texts: texts[0][0])
    assert control(server, s.id) == {"success": True}
    [[thought, content]] = s.read_until(lambda texts: len(texts[0][1]) > 30).values()
    assert thought.endswith(fields.get("reasoning_budget_message", ""))
    assert content.startswith("[") if "response_format" in fields else content
    assert control(server, s.id, model="any") == {"success": True}  # nothing is open: nothing happens
    s.close()
    server.wait_idle()
    assert control(server, s.id) == UNKNOWN


def test_all_choices_of_it(server):
    s = Running(server, reasoning_control=True, n=3)
    assert control(server, s.id) == {"success": True}
    s.read_until(lambda texts: len(texts) == 3 and all(content for _, content in texts.values()))
    s.close()


def test_one_that_was_not_begun_so(server):
    for fields in ({}, {"reasoning_control": None}, {"reasoning_control": False}):
        s = Running(server, **fields)
        assert control(server, s.id) == UNARMED
        s.close()
    assert control(server, "chatcmpl-nope") == UNKNOWN


def test_in_the_other_shapes(server):
    body = {k: v for k, v in ENDLESS.items() if k != "messages"}
    for path, fields, name in (("/v1/messages", {"messages": ASK}, "message"),
                               ("/v1/responses", {"input": "why", "max_output_tokens": CONTEXT // 4}, "response")):
        c = server.connect()
        c.request("POST", path, json.dumps({**body, **fields, "reasoning_control": True}), JSON)
        reply = c.getresponse()
        lines = (line for line in iter(reply.readline, b"") if line.startswith(b"data: "))
        first = json.loads(next(lines)[6:])
        assert control(server, first[name]["id"]) == {"success": True}
        assert any(b'"text_delta"' in line or b"output_text.delta" in line for line in lines)
        c.close()


def test_only_its_tenant_ends_it(server):
    alice, bob = {"X-Tenant": "alice"}, {"X-Tenant": "bob"}
    s = Running(server, reasoning_control=True, headers=alice)
    assert control(server, s.id, headers=bob) == control(server, s.id) == UNKNOWN
    assert control(server, s.id, headers=alice) == {"success": True}
    s.read_until(lambda texts: texts[0][1])
    s.close()


def test_a_request_that_waits(start, tmp_path):
    """Its thought is open from its prompt on: it has none when its turn comes."""
    s = start(*flags(tmp_path), "--max-sequences", "1")
    first = Running(s, reasoning_control=True)
    c = s.connect()
    c.request("POST", CHAT, json.dumps({**ENDLESS, "stream": False, "max_tokens": 5, "reasoning_control": True,
                                        "request_id": "second"}), JSON)
    s.wait_until(lambda m: m['quire_requests_waiting{priority="normal"}'] == 1, what="waiting")
    assert control(s, "chatcmpl-second") == {"success": True}
    first.close()
    r = json.loads(c.getresponse().read())
    assert not r["choices"][0]["message"].get("reasoning_content") and r["choices"][0]["message"]["content"]


@pytest.mark.parametrize("param,body", [
    ("id", {"action": "reasoning_end"}), ("id", {"id": "", "action": "reasoning_end"}), ("id", {"id": 5, "action": "reasoning_end"}),
    ("action", {"id": "x"}), ("action", {"id": "x", "action": "stop"}), ("action", {"id": "x", "action": ["reasoning_end"]})])
def test_bad_bodies(server, param, body):
    r = server.post(CONTROL, body)
    assert r.status == 400 and r.json["error"]["param"] == param


def test_bodies_that_are_none(server):
    for body in (b"", b"{", b"[]", b"5"):
        assert server.request("POST", CONTROL, body, {"Content-Type": "application/json"}).status == 400


def test_what_is_refused(server):
    r = server.post(CHAT, {"messages": ASK, "reasoning_control": True, "receipt": True})
    assert r.status == 400 and r.json["error"]["param"] == "reasoning_control"
    r = server.post(CHAT, {"messages": ASK, "reasoning_control": 1})
    assert r.status == 400 and r.json["error"]["param"] == "reasoning_control"
    r = server.post("/completion", {"prompt": "x", "reasoning_control": True})
    assert r.status == 400 and "reasoning_control" in str(r.json)
