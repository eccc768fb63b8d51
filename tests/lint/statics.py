#!/usr/bin/env python3
"""A static function's name is in three files at most, so that `git grep` finds it: batch_begin or
refuse_upload instead of begin and refuse.
"""
import collections
import re
import subprocess
import sys

MOST_FILES = 3
ROOMS = ("server", "core", "scheduler", "kvcache", "kernels", "config")
DEFINITION = re.compile(r"^static (?:inline )?[\w \*]*?[ \*](\w+)\((?:[^(){};]|\([^(){};]*\))*\)\s*\{", re.M)


def sources():
    names = subprocess.run(["git", "ls-files", *ROOMS], capture_output=True, text=True, check=True).stdout.split("\n")
    return [f for f in names if re.search(r"\.(c|h|inc)$", f)]


def main():
    files = collections.defaultdict(set)
    for path in sources():
        with open(path, encoding="utf-8") as f:
            for name in DEFINITION.findall(f.read()):
                files[name].add(path)
    bad = {name: paths for name, paths in files.items() if len(paths) > MOST_FILES}
    for name, paths in sorted(bad.items()):
        print(f"{name}() is a static function of {len(paths)} files: {', '.join(sorted(paths)[:6])}")
    return 1 if bad else 0


sys.exit(main())
