#!/usr/bin/env python3
"""tests/SEEDS-COVERAGE.md: a row for each item of the behaviour checklist, in the item's own words,
and every test that a row names exists and is run.

The checklist is SEEDS.md, in ../shared/design or where QUIRE_DESIGN says. Where it is absent, the
numbers of its items are those below, and the words are not compared.
"""
import functools
import glob
import os
import re
import sys

TABLE = "tests/SEEDS-COVERAGE.md"
SEEDS = os.path.join(os.environ.get("QUIRE_DESIGN", "../shared/design"), "SEEDS.md")
N_ITEMS = {"T": 15, "S1.": 13, "S2.": 35, "S3.": 7, "S4.": 9, "S5.": 6}
REFERENCE = re.compile(r"`([a-z0-9]+/[\w./]+?\.\w+)(?:: ([\w, ]+))?`")


@functools.lru_cache(None)
def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def plain(text):
    """One line, without the marks that Markdown and a table need otherwise."""
    return " ".join(text.replace("`", "").replace("|", " ").split())


def checklist():
    """Item -> its text; without SEEDS.md the text is None."""
    if not os.path.exists(SEEDS):
        return {f"{prefix}{i}": None for prefix, n in N_ITEMS.items() for i in range(1, n + 1)}
    items = {}
    for begin in (r"- \[ \] (S\d\.\d+) ", r"   (T\d+) "):
        for part in re.split(rf"\n(?={begin}|\n|#|Tests? stated|From the|[A-Z][\w ]+\n)", read(SEEDS)):
            match = part and re.match(begin, part)
            if match:
                items[match[1]] = plain(part[match.end():])
    return items


def rows(text):
    for line in text.splitlines():
        if re.match(r"\| [TS][0-9]", line):
            yield [cell.strip() for cell in line.strip("|").split("|")]


def is_run(path, name):
    """A test is in a list of tests; what tests share is defined in its file, and used somewhere."""
    source = read(path)
    if path.endswith(".py"):
        defined = re.search(rf"^def {name}\(", source, re.M)
        return defined and (name.startswith("test_") or len(re.findall(rf"\b{name}\(", source)) > 1)
    if re.search(rf"\bcmocka_unit_test\w*\({name}[,)]", source):
        return True
    if re.search(rf"^static void {name}\(void \*\*", source, re.M):
        return False  # written, and in no list
    users = glob.glob(os.path.dirname(path) + "/*.[ch]")
    return (re.search(rf"^[a-z][\w \*]*\b{name}\(", source, re.M) and
            sum(len(re.findall(rf"\b{name}\(", read(user))) for user in users) > 1)


def wrong_words(quote, item):
    """The pieces of the quote that the item does not say, in this order."""
    at = 0
    for piece in quote.split(" … "):
        found = item.find(plain(piece), at)
        if found < 0:
            yield piece
        else:
            at = found + len(plain(piece))


def wrong_tests(cell):
    named = REFERENCE.findall(cell)
    if not named and not re.fullmatch(r"T\d+", cell):
        yield "names no test"
    for file, names in named:
        path = f"tests/{file}"
        if not os.path.exists(path):
            yield f"names {file}, which does not exist"
        elif not names:
            yield f"names {file}, and none of its tests"
        else:
            for name in names.split(", "):
                if not is_run(path, name):
                    yield f"names {file}: {name}, which does not exist or is not run"


def findings():
    items, seen = checklist(), []
    for item, *cells in rows(read(TABLE)):
        if len(cells) != 2:
            yield f"{item} has {len(cells) + 1} columns, not item, asks for, tests"
            continue
        seen.append(item)
        quote, tests = cells
        if len(quote) < 10:
            yield f"{item} does not quote its item"
        if item not in items:
            yield f"{item} is no item of the checklist"
        elif items[item] is not None:
            for piece in wrong_words(quote, items[item]):
                yield f"{item} does not say \"{piece}\" there"
        for what in wrong_tests(tests):
            yield f"{item} {what}"
    for item in items:
        if seen.count(item) != 1:
            yield f"{item} has {seen.count(item)} rows"


def main():
    bad = list(findings())
    for what in bad:
        print(f"{TABLE}: {what}")
    return 1 if bad else 0


sys.exit(main())
