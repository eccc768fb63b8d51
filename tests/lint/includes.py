#!/usr/bin/env python3
"""Who may include whom: the table of rooms, checked against every #include "...".

A room is a folder; a folder that is not named here belongs to the one above it. Only what puts the
parts together sees everything: server/main.c, server/instance.* and server/cli/.
"""
import os
import re
import subprocess
import sys

# room -> the rooms that its files may include, beside itself and its folders
MAY = {
    "core/base": [],
    "core/formats": ["core/base", "core/tokenizer", "kernels/gemm/codebook.h"],
    "core/tokenizer": ["core/base", "core/formats/gguf"],
    "core/jinja": ["core/base"],
    "core/grammar": ["core/base", "core/tokenizer"],
    "core/model": ["core/base", "core/formats/gguf", "kernels", "kvcache"],
    "core/runtime": ["core/base", "core/model", "core/grammar", "core/tokenizer", "kernels", "kvcache"],
    "kernels": [],
    "kvcache": ["core/base"],
    "scheduler": ["core/base", "core/runtime", "kvcache"],
    "config": ["core/base"],
    "server": ["core/base", "config", "scheduler", "core/tokenizer"],
    "server/process": ["core/base"],
    "server/http": ["core/base", "config"],
    "server/auth": ["core/base", "config", "scheduler", "server/http"],
    "server/engine_io": ["core/base", "scheduler", "kvcache"],
    "server/api": ["core/base", "core/grammar", "core/jinja", "core/tokenizer", "config", "scheduler",
                   "server"],
    "server/admin": ["core/base", "core/tokenizer", "config", "scheduler", "server"],
    "tests": [""],
}
ALL = re.compile(r"server/(main\.c|instance(_\w+)?\.[ch]|cli/.*)$")


def room_of(path):
    folder = os.path.dirname(path)
    while folder not in MAY and "/" in folder:
        folder = os.path.dirname(folder)
    return folder


def may_include(path, header):
    if ALL.match(path):
        return True
    room = room_of(path)
    return any(header == r or header.startswith(r + "/" if r else "") for r in [room] + MAY[room])


def main():
    files = subprocess.run(["git", "ls-files", "*.c", "*.h", "*.inc"], capture_output=True,
                           text=True, check=True).stdout.split()
    bad = 0
    for path in files:
        for number, line in enumerate(open(path, encoding="utf-8"), 1):
            match = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
            if match and not may_include(path, match[1]):
                print(f'{path}:{number}: may not include "{match[1]}"')
                bad = 1
    return bad


if __name__ == "__main__":
    sys.exit(main())
