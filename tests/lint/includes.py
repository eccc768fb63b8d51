#!/usr/bin/env python3
"""Who may include whom: the folder table of the design, checked against every #include "..."."""
import re
import subprocess
import sys

# folder -> what its files may include, as path prefixes or exact headers
MAY = {
    "core/base": ["core/base/"],
    "kernels": ["kernels/"],
    "config": ["config/", "core/base/"],
    "kvcache": ["kvcache/", "core/base/"],
    "core": ["core/", "kernels/", "kvcache/"],
    "scheduler": ["scheduler/", "core/base/", "kvcache/", "core/run/batch.h"],
    "server": ["server/", "core/base/", "config/", "scheduler/request.h", "scheduler/queue.h",
               "scheduler/forecast.h", "scheduler/journal.h", "scheduler/snapshot.h",
               "core/text/"],
    "server/http": ["server/http/", "core/base/", "config/", "server/error.h", "server/keys.h"],
    "tests": [""],
}
# The few files that put everything together.
EXTRA = {
    "scheduler/loop.c": ["core/run/runner.h"],
    "server/swapper.h": ["kvcache/swap.h"],
    "server/swapper.c": ["kvcache/swap_store.h"],
    "server/cmd_bench_report.h": ["core/run/limits.h", "core/run/runner.h"],
    "server/hf_config.c": ["core/gguf/"], "server/hf_folder.c": ["core/gguf/"],
    "server/hf_model.c": ["core/gguf/"], "server/hf_template.c": ["core/gguf/"],
    "server/hf_tokenizer.c": ["core/gguf/"],
    "server/main.c": [""], "server/engine.c": [""], "server/engine.h": [""],
}


def rule(path):
    if path in EXTRA:
        return MAY[path.split("/")[0]] + EXTRA[path]
    if re.match(r"server/cmd_\w+\.c$", path) or path == "server/command.c":
        return [""]
    if path.startswith("core/base/"):
        return MAY["core/base"]
    if path.startswith("server/http/"):
        return MAY["server/http"]
    return MAY[path.split("/")[0]]


def main():
    files = subprocess.run(["git", "ls-files", "*.c", "*.h"], capture_output=True, text=True,
                           check=True).stdout.split()
    bad = 0
    for path in files:
        for number, line in enumerate(open(path, encoding="utf-8"), 1):
            match = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
            if match and not any(match[1].startswith(p) for p in rule(path)):
                print(f'{path}:{number}: may not include "{match[1]}"')
                bad = 1
    return bad


sys.exit(main())
