#!/usr/bin/env python3
"""tests/SEEDS-COVERAGE.md: every item is there, and every test that it names exists."""
import re
import sys

ITEMS = {"T": 15, "S1.": 13, "S2.": 35, "S3.": 7, "S4.": 9, "S5.": 6}


def rows(text):
    for line in text.splitlines():
        match = re.match(r"\| ([TS][0-9.]+) \| (.*) \|$", line)
        if match:
            yield match[1], match[2]


def missing(cell):
    """The named files and tests that are not there."""
    for file, names in re.findall(r"`([a-z]+/[\w./]+)(?:: ([^`]*))?`", cell):
        try:
            source = open(f"tests/{file}", encoding="utf-8").read()
        except OSError:
            yield file
            continue
        for name in filter(None, names.split(", ")):
            if not re.search(rf"\b{name}\(", source):
                yield f"{file}: {name}"


def main():
    text = open("tests/SEEDS-COVERAGE.md", encoding="utf-8").read()
    found, bad = {}, 0
    for item, cell in rows(text):
        found[item] = cell
        for what in missing(cell):
            print(f"tests/SEEDS-COVERAGE.md: {item} names {what}, which does not exist")
            bad = 1
        if "`" not in cell and not re.fullmatch(r"T\d+", cell):
            print(f"tests/SEEDS-COVERAGE.md: {item} names no test")
            bad = 1
    for prefix, n in ITEMS.items():
        for i in range(1, n + 1):
            if f"{prefix}{i}" not in found:
                print(f"tests/SEEDS-COVERAGE.md: {prefix}{i} is missing")
                bad = 1
    return bad


sys.exit(main())
