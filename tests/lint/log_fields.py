#!/usr/bin/env python3
"""What stands in the log came through log_quote(), or can have neither blanks nor quotes.

Of each call of log_debug() and its like the arguments of %s are looked at. An argument is good if it is a call of log_quote(),
of a function whose name ends with _name or name_of (words of ours), a choice of such words, or a plain variable: those are
checked where they are filled. Anything else (a member of a struct, strerror()) is not, unless ALLOWED says why.
"""
import re
import subprocess
import sys

CALL = re.compile(r"\blog_(?:debug|info|warn|error)\(")
GOOD = re.compile(r'(log_quote|hub_printable|[a-z_]*_name|name_of|strerrorname_np|method_of)\(|[^()]*\?\s*"|[a-z]\w*$|"')
ALLOWED = {
    "p->commit": "40 hexadecimal digits",
    "w->cause": "a word of ours",
    "k->name": "a key's name has neither blanks nor quotes (key_file_is_name)",
    "run->id": "a batch's id, which is ours",
    "run->record.id": "the same",
    "a->route": "a row of routes.inc",
    "m->arch": "a row of traits.c",
    "m->ftype": "a block format's name",
    "p->publish.endpoint": "checked with the settings",
    "p->replay.endpoint[0] != '\\0' ? p->replay.endpoint : \"none\"": "the same",
    "s->why_not": "a word of ours",
    "s->capabilities": "a word of ours",
}


def arguments(text, at):
    """Of the call whose '(' is before `at`."""
    args, depth, begin, i = [], 1, at, at
    while depth > 0:
        if text[i] == '"':
            i = re.compile(r'"(?:[^"\\]|\\.)*"').match(text, i).end()
            continue
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(text[i], 0)
        if depth == 0 or (depth == 1 and text[i] == ","):
            args.append(" ".join(text[begin:i].split()))
            begin = i + 1
        i += 1
    return args


def values(args):
    """The arguments of %s."""
    form = re.sub(r'"\s*PRI[a-zA-Z0-9]+\s*"?', "u", args[1])
    kinds = [k for k in re.findall(r"%[-+ 0#]*[0-9.*]*(?:hh|h|ll|l|z|j|t)?([a-zA-Z%])", form) if k != "%"]
    return [v for k, v in zip(kinds, args[2:]) if k == "s"]


def main():
    files = subprocess.run(["git", "ls-files", "core/*.c", "kvcache/*.c", "scheduler/*.c", "server/*.c", "config/*.c"],
                           capture_output=True, text=True, check=True).stdout.split()
    bad = 0
    for path in files:
        with open(path, encoding="utf-8") as f:
            text = f.read()
        for call in CALL.finditer(text):
            args = arguments(text, call.end())
            for v in values(args) if len(args) > 1 else []:
                if not GOOD.match(v) and v not in ALLOWED:
                    print(f"{path}:{text.count(chr(10), 0, call.start()) + 1}: '{v}' goes into the log without log_quote()")
                    bad += 1
    return 1 if bad else 0


sys.exit(main())
