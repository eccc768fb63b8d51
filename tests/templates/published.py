#!/usr/bin/env python3
"""Published chat templates, each with the chats that clients send: `make test-templates`.

What Quire prints must be, byte for byte, what Python's jinja2 prints for the same variables, and no
template may refuse what the clients of its own family send. The templates lie in the source
packages of two projects on the Python registry, at locked versions, and in ../shared/data. They are
read, never run and never kept outside of build/.
"""
import argparse
import os
import pathlib
import re
import sys
import tarfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "fixtures"))
from jinja_reference import Renderer, expected  # noqa: E402
from registry import fetch  # noqa: E402

PACKAGES = [  # project, file, sha256, where in it the templates lie
    ("llama-cpp-python", "llama_cpp_python-0.3.36.tar.gz",
     "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e", "/vendor/llama.cpp/models/templates/"),
    ("vllm", "vllm-0.33.0.tar.gz",
     "f4c33c2503d52bb411146afa9618a4f48bed68912f617e6803ac8d76e4c74112", "/examples/"),
]
LARGEST = 1 << 20  # bytes of a template

# ---- the chats

TOOL = {"type": "function", "function": {
    "name": "get_weather", "description": "The weather in a city.", "parameters": {
        "type": "object", "required": ["city"],
        "properties": {"city": {"type": "string", "description": "Its name"}, "days": {"type": "integer"}}}}}
BARE = {"type": "function", "function": {"name": "get_time"}}
USER = {"role": "user", "content": "What is the weather in Zürich & <Bern>?"}
SYSTEM = {"role": "system", "content": "Be \"brief\"."}
RESULT = {"role": "tool", "tool_call_id": "call00001", "content": "{\"celsius\": 12}"}
ANSWER = {"role": "assistant", "content": "It is 12 °C."}
# What OpenAI's clients send back of an answer, and what they leave out.
ECHO = {"content": None, "refusal": None, "annotations": [], "audio": None, "function_call": None}


def call(arguments='{"city": "Zürich", "days": 2}', **more):
    function = {"name": "get_weather", "arguments": arguments}
    return {"role": "assistant", "tool_calls": [{"id": "call00001", "type": "function", "function": function}],
            **more}


def rounds(n):
    turns = [USER]
    for i in range(n):
        turns += [call(f'{{"city": "C{i}"}}', **ECHO), RESULT]
    return turns


CHATS = {
    "plain": {"messages": [USER]},
    "turns": {"messages": [USER, {**ECHO, **ANSWER, "tool_calls": None}, USER]},
    "system": {"messages": [SYSTEM, USER]},
    "developer": {"messages": [{"role": "developer", "content": "Be brief."}, USER]},
    "parts": {"messages": [{"role": "user", "content": [{"type": "text", "text": "a"},
                                                        {"type": "text", "text": "b"}]}]},
    "tools": {"messages": [SYSTEM, USER], "tools": [TOOL]},
    "bare tool": {"messages": [USER], "tools": [TOOL, BARE]},
    "null": {"messages": [USER, call(**ECHO), RESULT], "tools": [TOOL]},
    "absent": {"messages": [USER, call(), RESULT], "tools": [TOOL]},
    "empty": {"messages": [USER, call(content=""), RESULT], "tools": [TOOL]},
    "rounds": {"messages": rounds(3) + [ANSWER, USER], "tools": [TOOL]},
    "no args": {"messages": [USER, call("{}", content=None), RESULT], "tools": [TOOL, BARE]},
    "thoughts": {"messages": [USER, {**ANSWER, "reasoning_content": "Hm."}, USER]},
    "thought call": {"messages": [USER, call(content=None, reasoning_content="Hm."), RESULT], "tools": [TOOL]},
    "no thoughts": {"messages": [USER], "reasoning_effort": "none"},
    "effort": {"messages": [USER], "reasoning_effort": "high"},
    "continued": {"messages": [USER, {"role": "assistant", "content": "It is"}], "continue_final_message": True},
}
CALLS = {"null", "absent", "empty", "rounds", "no args", "thought call"}
TOOLS = {"tools", "bare tool"} | CALLS

# ---- what may go wrong, and why: (part of the file's name, chats, reason)

NO_TOOLS = "the model knows no tools: its template has no place for a result"
REFUSALS = [(name, CALLS, NO_TOOLS) for name in (
    "gemma-2-2b-it", "Phi-3.5-mini", "rwkv-world", "template_alpaca", "template_chatglm", "template_falcon",
    "template_inkbot", "template_teleflm")]
REFUSALS += [
    ("firefunction-v2", None, "it wants variables of its own, which chat_template_kwargs can give: functions, datetime"),
    ("tool_chat_template_glm4", CALLS, NO_TOOLS),
]

# Templates for other input than chats: pairs of a query and a document, or one text to embed.
NOT_CHATS = [(name, None, "no chat") for name in (
    "rerank", "zerank", "vllm/nemotron_embed_vl", "vllm/vlm2vec", "vllm/dse_qwen2_vl")]


def reason_for(table, name, chat):
    """(part of the name, reason), or None."""
    for part, chats, reason in table:
        if part in name and (chats is None or chat in chats):
            return part, reason
    return None


# ---- fetching

def templates(folder):
    """{name: source}: each text once, under the first name that it has."""
    found = {}
    for project, file, sha256, where in PACKAGES:
        with tarfile.open(fetch(project, file, sha256, folder)) as archive:
            for member in archive:
                if member.isfile() and where in member.name and member.name.endswith(".jinja") and \
                        member.size <= LARGEST:
                    name = project + "/" + member.name.rsplit("/", 1)[-1][:-6]
                    found[name] = archive.extractfile(member).read().decode()
    data = pathlib.Path(os.environ.get("QUIRE_DATA", "../shared/data")) / "templates"
    for path in sorted(data.glob("*.jinja")) if data.is_dir() else []:
        found["data/" + path.stem] = path.read_text(encoding="utf-8")
    names = {}
    for name, source in sorted(found.items()):
        names.setdefault(source, name)
    return {name: source for source, name in names.items()}


# ---- comparing

# What is written so is a special token in some vocabulary; no chat here has it.
SPECIAL = re.compile("<\\|[^|<>\\s]+\\|>|<｜[^｜<>\\s]+｜>|\\[/?[A-Z_]{3,}\\]|<(?:start|end)_of_turn>|</?s>".encode())


def wrong_origin(answer):
    """A special token that does not count as the template's own, or a client's text that does."""
    text, own = answer["text"].encode(), answer["own"]
    for found in SPECIAL.finditer(text):
        if not any(a <= found.start() and found.end() <= b for a, b in own):
            return f"{found.group().decode()} at {found.start()} is not the template's: {answer['text']!r}"
    for a, b in own:
        if b"rich" in text[a:b]:
            return f"the client's text at {a} counts as the template's: {answer['text']!r}"
    return None


def judge(renderer, source, body):
    """(verdict, detail): same, refused, or what is wrong."""
    answer = renderer.chat(source, body)
    if "globals" not in answer:
        return "broken", answer["error"]
    want, error = expected(source, answer["globals"])
    if error is not None:
        return ("refused", error) if "error" in answer else ("DIFFERS", f"jinja2: {error}")
    if "error" in answer:
        return "DIFFERS", answer["error"]
    if answer["text"] != want:
        return "DIFFERS", f"jinja2: {want!r}\nquire:  {answer['text']!r}"
    if "None" in answer["text"].replace("= None", ""):  # but where a template writes Python
        return "NONE", answer["text"]
    if wrong_origin(answer):
        return "ORIGIN", wrong_origin(answer)
    return "same", answer["text"]


def lost(chat, text):
    """What the conversation says and the prompt does not."""
    wanted = {"system": "brief", "developer": "Be brief", "continued": "It is", "plain": "weather in Z"}
    if chat in CALLS:
        return None if "celsius" in text else "the result"
    return None if wanted.get(chat, "") in text else wanted[chat]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("build/templates"))
    parser.add_argument("--render", default="build/tools/render")
    parser.add_argument("--verbose", action="store_true", help="print each thing that is wrong, whole")
    args = parser.parse_args()
    renderer = Renderer(args.render)
    found = templates(args.folder)
    marks = {"same": ".", "refused": "r", "lost": "l"}
    bad, used, n_chats = [], set(), 0
    print(f"{'':58}" + " ".join(str(i % 10) for i in range(len(CHATS))))
    for name, source in found.items():
        row = ""
        if reason_for(NOT_CHATS, name, None):
            continue
        n_chats += 1
        for chat, body in CHATS.items():
            verdict, detail = judge(renderer, source, body)
            if verdict == "same" and lost(chat, detail):
                verdict = "lost"
            reason = reason_for(REFUSALS, name, chat)
            if reason and verdict in ("refused", "lost"):
                used.add(reason)
            elif verdict != "same":
                bad.append(f"{name}, {chat}: {verdict}: {detail if args.verbose else detail[:300]}")
            row += marks.get(verdict, "!") + " "
        print(f"{name[:57]:58}{row}")
    renderer.close()
    print("chats: " + ", ".join(f"{i} {chat}" for i, chat in enumerate(CHATS)))
    bad += [f"{part}: nothing needs the reason any more: {why}" for part, _, why in REFUSALS if (part, why) not in used]
    print(f"{n_chats} templates, {len(bad)} failures")
    print("\n".join(bad))
    return 1 if bad or n_chats < 80 else 0


if __name__ == "__main__":
    sys.exit(main())
