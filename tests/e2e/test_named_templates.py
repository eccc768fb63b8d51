"""A model with several chat templates: which one is for a chat, of a GGUF file and of a folder, and what shows them."""
import json
import subprocess

import pytest

import quire as q
from test_safetensors import fixtures, gguf_file, quire, write_folder

HI = {"messages": [{"role": "user", "content": "hi"}]}
TOOLS = {"tools": [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]}
TEMPLATES = {"default": "default: {{ messages[0].content }}", "tool_use": "tool_use: {{ messages[0].content }} {{ tools[0].function.name if tools }}",
             "rag": "rag: {{ messages[0].content }}"}


def key(name):
    return "tokenizer.chat_template" + ("" if name == "default" else "." + name)


def gguf(tmp_path, **templates):
    keys, tensors = gguf_file.read_parts(fixtures.make("llama", "plain", "F32"))
    path = tmp_path / "m.gguf"
    keys = {k: v for k, v in keys.items() if not k.startswith("tokenizer.chat_template")}
    path.write_bytes(gguf_file.write({**keys, **{key(n): t for n, t in templates.items()}}, tensors))
    return path


def as_list(folder, templates):
    (folder / "tokenizer_config.json").write_text(json.dumps(
        {"chat_template": [{"name": n, "template": t} for n, t in templates.items()]}))


def as_files(folder, templates):
    for name, text in templates.items():
        path = folder / ("chat_template.jinja" if name == "default" else f"additional_chat_templates/{name}.jinja")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


def both(folder, templates):
    """Files take the place of what tokenizer_config.json says."""
    as_list(folder, {name: "old" for name in templates})
    as_files(folder, templates)


WRITERS = {"list": as_list, "files": as_files, "both": both}


def made(tmp_path, kind, templates):
    if kind == "gguf":
        return gguf(tmp_path, **templates)
    keys, tensors = gguf_file.read_parts(fixtures.make("llama", "plain", "F32"))
    folder = write_folder(tmp_path / "hf", keys, tensors)
    WRITERS[kind](folder, templates)
    return folder


def serve_in_vain(model, *flags):
    return subprocess.run([q.BIN, "serve", "--port", "0", "--model", model, *flags], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=60, check=False)


def prompt(server, **fields):
    return server.post("/apply-template", {**HI, **fields}).json["prompt"]


@pytest.mark.parametrize("kind", ["gguf", *WRITERS])
def test_of_several(start, tmp_path, kind):
    model = made(tmp_path, kind, TEMPLATES)
    s = start(model=model)
    assert prompt(s) == "default: hi"
    assert prompt(s, **TOOLS) == "tool_use: hi look"
    assert prompt(s, **TOOLS, tool_choice="none") == "default: hi"
    assert prompt(s, tools=[]) == "default: hi"
    props = s.get("/props").json
    assert props["chat_template"] == TEMPLATES["default"] and props["chat_template_tool_use"] == TEMPLATES["tool_use"]
    assert "tools" in s.post("/api/show", {"model": s.get("/v1/models").json["data"][0]["id"]}).json["capabilities"]
    [line] = [line for line in quire("inspect", model)[0].splitlines() if line.startswith("chat templates: ")]
    assert sorted(line.removeprefix("chat templates: ").split(", ")) == ["default", "rag", "tool_use"]


@pytest.mark.parametrize("kind", ["gguf", "list", "files"])
def test_of_one(start, tmp_path, kind):
    s = start(model=made(tmp_path, kind, {"default": TEMPLATES["default"]}))
    assert prompt(s, **TOOLS) == prompt(s) == "default: hi"
    assert "chat_template_tool_use" not in s.get("/props").json


def test_rerank_is_no_chat_template(tmp_path):
    """The text in which a reranker reads its pairs has a key of the same form."""
    model = gguf(tmp_path, default="x", rerank="{query} {document}")
    assert "chat templates: default" in quire("inspect", model)[0].splitlines()
    assert "it has: default\n" in serve_in_vain(model, "--chat-template-name", "rerank").stderr


CHATML = ("{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content or '' }}{% for c in m.tool_calls or [] %}"
          "<tool_call>\n{{ {'name': c.function.name, 'arguments': c.function.arguments} | tojson }}\n</tool_call>"
          "{% endfor %}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")


@pytest.mark.parametrize("template,shown", [
    (CHATML, ["tool_call_parser: hermes"]),
    (TEMPLATES["default"], ["tool_call_parser: none (tool calls are not parsed)"]),
    ("{% if %}", ["tool_call_parser: none (tool calls are not parsed)", "chat template unusable: "]),
])
def test_inspect_says_how_calls_are_read(tmp_path, template, shown):
    lines = quire("inspect", gguf(tmp_path, default=template))[0].splitlines()
    at = lines.index("chat templates: default") + 1
    assert all(line.startswith(start) for line, start in zip(lines[at:], shown, strict=False))
    assert [line for line in lines[at + len(shown):] if not line.startswith("decisions: ")] == ["can be served"]


def test_without_a_default(start, tmp_path):
    """As llama-server has it: the one for tools, for all chats."""
    s = start(model=gguf(tmp_path, tool_use=TEMPLATES["tool_use"], rag=TEMPLATES["rag"]))
    assert prompt(s) == "tool_use: hi " and prompt(s, **TOOLS) == "tool_use: hi look"


def test_without_a_default_and_tools(start, tmp_path):
    s = start(model=gguf(tmp_path, rag=TEMPLATES["rag"], b=TEMPLATES["rag"]))
    r = s.post("/apply-template", HI)
    assert r.status == 400 and "chat_template_name" in r.json["error"]["message"] and "b, rag" in r.json["error"]["message"]


def test_forced(start, tmp_path):
    s = start("--chat-template-name", "rag", model=gguf(tmp_path, **TEMPLATES))
    assert prompt(s) == prompt(s, **TOOLS) == "rag: hi"
    props = s.get("/props").json
    assert props["chat_template"] == TEMPLATES["rag"] and "chat_template_tool_use" not in props


def test_forced_for_one_model(start, tmp_path):
    model = gguf(tmp_path, **TEMPLATES)
    conf = tmp_path / "q.conf"
    conf.write_text(f"[a]\nmodel = {model}\nchat_template_name = rag\n[b]\nmodel = {model}\n")
    s = start("--config", conf, model="")
    assert prompt(s, model="a") == "rag: hi" and prompt(s, model="b") == "default: hi"


def test_a_file_takes_the_place_of_all(start, tmp_path):
    (tmp_path / "t").write_text("file")
    s = start("--chat-template", tmp_path / "t", model=gguf(tmp_path, **TEMPLATES))
    assert prompt(s) == prompt(s, **TOOLS) == "file" and "chat_template_tool_use" not in s.get("/props").json


REFUSED = [
    (TEMPLATES, ["--chat-template-name", "nope"], "chat_template_name 'nope': the model has no template of this name, it has: default, rag, tool_use"),
    ({}, ["--chat-template-name", "nope"], "chat_template_name 'nope': the model has no template of this name, it has: none"),
    (TEMPLATES, ["--chat-template-name", "rag", "--chat-template", "chatml"], "chat_template replaces all templates"),
]


@pytest.mark.parametrize("templates,flags,expected", REFUSED)
def test_refused(tmp_path, templates, flags, expected):
    run = serve_in_vain(gguf(tmp_path, **templates), *flags)
    assert run.returncode != 0 and expected in run.stderr


@pytest.mark.parametrize("template,syntax", [("<tool_call> {{ tools }}", True), ("plain {{ tools }}", False)])
def test_calls_are_read_as_their_template_writes_them(start, tmp_path, template, syntax):
    """The marks of calls are those of the template that the chat was written with."""
    s = start(model=gguf(tmp_path, default="{{ messages[0].content }}", tool_use=template))
    assert s.get("/props").json["chat_template_tool_use"] == template
    assert s.post("/v1/chat/completions", {**HI, **TOOLS, "max_tokens": 2}).status == 200
    assert ("<tool_call>" in prompt(s, **TOOLS)) == syntax


def test_broken_one(start, tmp_path):
    """A template that cannot be parsed is refused where it is used."""
    s = start(model=gguf(tmp_path, default=TEMPLATES["default"], tool_use="{% if %}"))
    assert prompt(s) == "default: hi"
    assert s.post("/apply-template", {**HI, **TOOLS}).status == 400


@pytest.mark.parametrize("name,expected", [("a" * 200, "the name of a chat template"), ("a/b", "the name of a chat template"),
                                           ("", "the name of a chat template")])
def test_names_that_are_refused(tmp_path, name, expected):
    model = made(tmp_path, "list", {"default": "x", name: "y"})
    _, err = quire("tokenize", "--model", model, text=b"a", status=1)
    assert expected in err


def test_too_many(tmp_path):
    model = made(tmp_path, "files", {f"t{i}": "y" for i in range(40)})
    _, err = quire("tokenize", "--model", model, text=b"a", status=1)
    assert "more than 32 chat templates" in err
    _, err = quire("tokenize", "--model", gguf(tmp_path, **{f"t{i}": "y" for i in range(40)}), text=b"a", status=1)
    assert "more than 32 chat templates" in err
