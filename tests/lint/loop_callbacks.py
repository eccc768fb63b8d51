#!/usr/bin/env python3
"""Every callback of the I/O thread is measured: each function that server/ hands to libuv begins
with LOOP_CALLBACK (server/process/loop_guard.h). A function that only discards its argument has
nothing to measure; the work function of uv_queue_work runs on a thread of libuv's pool.
"""
import re
import subprocess
import sys

GIVES = re.compile(
    r"\buv_(?:poll_start|timer_start|async_init|queue_work|prepare_start|check_start|idle_start|"
    r"signal_start|close|listen|read_start|write|fs_\w+)\(")
# Which argument of these is not the loop's: uv_queue_work(loop, request, work, after_work).
ON_POOL = {"uv_queue_work": 2}


def arguments(text, at):
    """The arguments of the call whose opening parenthesis is at text[at - 1]."""
    depth, begin, found = 0, at, []
    for i in range(at, len(text)):
        if text[i] in "([{":
            depth += 1
        elif text[i] in ")]}" and depth > 0:
            depth -= 1
        elif text[i] == ")":
            return found + [text[begin:i].strip()]
        elif text[i] == "," and depth == 0:
            found.append(text[begin:i].strip())
            begin = i + 1
    return found


def findings(path):
    text = open(path, encoding="utf-8").read()
    bodies = {m[1]: m[2] for m in re.finditer(
        r"^static void (\w+)\([^;{]*?\)\n\{\n(.*?)^\}", text, re.M | re.S)}
    for call in GIVES.finditer(text):
        on_pool = ON_POOL.get(call[0][:-1])
        for i, name in enumerate(arguments(text, call.end())):
            body = bodies.get(name)
            if body is None or i == on_pool or not re.sub(r"\s*\(void\)\w+;", "", body).strip():
                continue
            if not body.lstrip().startswith("LOOP_CALLBACK("):
                line = text[:call.start()].count("\n") + 1
                yield f"{path}:{line}: {name}() does not begin with LOOP_CALLBACK"


def main():
    files = subprocess.run(["git", "ls-files", "server/*.c"], capture_output=True, text=True,
                           check=True).stdout.split()
    bad = [what for path in files for what in findings(path)]
    print("\n".join(bad), end="\n" if bad else "")
    return 1 if bad else 0


sys.exit(main())
