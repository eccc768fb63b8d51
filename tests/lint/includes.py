#!/usr/bin/env python3
"""Who may include whom: the table of rooms, checked against every #include "...".

A room is a folder. The rooms stand in an order: each may include only rooms above it in the table,
and of these the ones that it names. Only what puts the parts together sees everything:
server/main.c, server/models/instance.* and server/cli/.
"""
import os
import re
import subprocess
import sys

# room -> the rooms that its files may include, beside itself
MAY = {
    "core/base": [],
    "core/json": ["core/base"],
    "kernels": [],
    "kernels/simd": ["kernels"],
    "kernels/elementwise": ["kernels", "kernels/simd"],
    "kernels/gemm": ["kernels", "kernels/simd"],
    "kernels/lora": ["kernels", "kernels/simd", "kernels/gemm"],
    "kernels/attention": ["kernels", "kernels/simd", "kernels/gemm"],
    "kernels/recurrent": ["kernels", "kernels/simd"],
    "kvcache": ["core/base"],
    "core/hub": ["core/base", "core/json"],
    "config": ["core/base", "core/hub"],
    "core/formats/gguf": ["core/base", "kernels/gemm"],
    "core/formats": ["core/base", "core/json", "core/formats/gguf"],
    "core/formats/safetensors": ["core/base", "core/formats"],
    "core/formats/hf": ["core/base", "core/json", "core/formats", "core/formats/gguf", "core/formats/safetensors"],
    "core/tokenizer": ["core/base", "core/formats/gguf"],
    "core/jinja": ["core/base"],
    "core/grammar": ["core/base", "core/json", "core/tokenizer"],
    "core/model": ["core/base", "core/formats/gguf", "kernels", "kvcache"],
    "core/runtime": ["core/base", "core/grammar", "core/model", "kernels", "kvcache"],
    "core/runtime/limits": ["core/base", "kernels", "core/runtime"],
    "scheduler/request": ["core/base", "core/runtime", "kvcache"],
    "scheduler/drafts": ["core/base", "core/grammar", "core/runtime", "kvcache", "scheduler/request"],
    "scheduler": ["core/base", "core/grammar", "core/runtime", "kvcache", "scheduler/request", "scheduler/drafts"],
    "scheduler/replay": ["core/base", "kvcache", "scheduler/request", "scheduler/drafts", "scheduler"],
    "server/process": ["core/base"],
    "server/engine_io": ["core/base", "kvcache", "scheduler", "server/process"],
    "server/http": ["core/base", "core/json", "config", "server/process"],
    "server/kv_events": ["core/base", "kvcache", "server/process", "server/http"],
    "server/adapters": ["core/base", "config", "core/formats/gguf", "core/formats", "core/formats/hf",
                        "core/model", "server/process", "server/http"],
    "server/metrics": ["core/base", "scheduler/drafts", "scheduler", "server/process", "server/http"],
    "server/auth": ["core/base", "config", "scheduler/request", "scheduler", "server/http", "server/metrics"],
    "server/storage": ["core/base", "core/json", "scheduler", "server/process", "server/http", "server/auth"],
    "server/batches": ["core/base", "core/json", "config", "server/process", "server/http", "server/auth",
                       "server/storage"],
    "server/api/params": ["core/base", "core/json", "core/tokenizer", "core/model", "scheduler/request",
                          "scheduler", "server/http", "server/adapters"],
    "server/api/chat": ["core/base", "core/json", "core/jinja", "core/tokenizer", "server/http", "server/api/params"],
    "server/api/constraint": ["core/base", "core/json", "core/grammar", "core/tokenizer", "server/http",
                              "server/api/params", "server/api/chat"],
    "server/api/response": ["core/base", "core/json", "core/tokenizer", "core/model", "scheduler/request",
                            "scheduler", "server/http", "server/api/params", "server/api/chat"],
    "server/api/decisions": ["core/base", "core/jinja", "core/tokenizer", "core/model", "scheduler/request",
                             "server/api/params", "server/api/chat", "server/api/response"],
    "server/api/formats": ["core/base", "core/json", "core/formats/gguf", "core/tokenizer", "server/http",
                           "server/api/params", "server/api/response"],
    "server/api": ["core/base", "core/json", "core/jinja", "core/grammar", "core/tokenizer", "core/model", "config",
                   "scheduler/request", "scheduler", "server/process", "server/http", "server/storage",
                   "server/adapters", "server/metrics", "server/auth", "server/api/params", "server/api/chat",
                   "server/api/constraint", "server/api/response", "server/api/decisions", "server/api/formats"],
    "server/api/completion": ["core/base", "core/json", "core/model", "server/process", "server/http",
                              "server/adapters", "server/auth", "server/storage", "server/api/params",
                              "server/api/chat", "server/api/response", "server/api"],
    "server/admin": ["core/base", "core/json", "core/tokenizer", "scheduler", "server/http", "server/adapters",
                     "server/metrics", "server/auth", "server/api/params", "server/api/chat",
                     "server/api/constraint", "server/api/response", "server/api/decisions", "server/api", "server/kv_events"],
    "server/page": ["core/base", "server/http"],
    "server/top": ["core/base", "core/json"],
    "server/models": ["core/base", "core/json", "server/process", "server/engine_io", "server/http",
                      "server/kv_events", "server/storage", "server/adapters", "server/metrics", "server/auth",
                      "server/api", "server/api/completion", "server/admin"],
    "server": ["core/base", "server/process", "server/http", "server/kv_events", "server/storage",
               "server/batches", "server/adapters", "server/metrics", "server/auth", "server/api/response",
               "server/api", "server/api/completion", "server/admin", "server/page", "server/models"],
}
ALL = re.compile(r"tests/|server/(main\.c|models/instance(_\w+)?\.[ch]|cli/)")
# Commands that download before the sandbox. A running server looks for models with core/hub/cached.h.
DOWNLOADS = re.compile(r"core/hub/pull\.c|server/cli/(command|inspect|memory_estimate|pull|serve_models|tokenize|verify)\.c")


def unordered():
    """Rooms that name one which does not stand above them: no order, no promise of no circle."""
    above = set()
    for room, others in MAY.items():
        for other in others:
            if other not in above:
                yield f"{room} names {other}, which does not stand above it"
        above.add(room)


def findings(path):
    room = os.path.dirname(path)
    for number, line in enumerate(open(path, encoding="utf-8"), 1):
        match = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
        if match and os.path.dirname(match[1]) not in [room] + MAY.get(room, []):
            yield f'{path}:{number}: may not include "{match[1]}"'


def downloads(path):
    if not DOWNLOADS.match(path) and '#include "core/hub/pull.h"' in open(path, encoding="utf-8").read():
        yield f'{path}: may not include "core/hub/pull.h": it would download in a running server'


def main():
    files = subprocess.run(["git", "ls-files", "*.c", "*.h", "*.inc"], capture_output=True,
                           text=True, check=True).stdout.split()
    bad = [f"tests/lint/includes.py: {what}" for what in unordered()]
    for path in files:
        bad += downloads(path)
        if not ALL.match(path):
            bad += findings(path)
    print("\n".join(bad), end="\n" if bad else "")
    return 1 if bad else 0


sys.exit(main())
