#!/usr/bin/env python3
"""CONTRIBUTING.md: each file, test, make target and name in `backticks` exists, and each test is
named in the table of what to run.

In paths `<op>`, `*` and NAME stand for anything. What is built counts as what it is built from.
"""
import fnmatch
import re
import subprocess
import sys

PAGE = "CONTRIBUTING.md"
BUILT = (  # what make puts under build/, and its source
    (r"build/(?:debug/)?(tests/unit/\S+)", r"\1.c"),
    (r"build/(?:debug/)?(?:fuzz|replay)/(\w+)", r"tests/fuzz/\1.c"),
    (r"build/(?:debug/)?tests/(\w+)", r"tests/*/\1.c"),
    (r"build/bench/(\w+)", r"tests/bench/\1.c"),
    (r"build/(?:debug/|asan/|tsan/)?quire", r"server/main.c"),
    (r"build/(?:debug|asan|tsan)", r"Makefile"),
    (r"(_\w+\.inc)", r"*\1"),  # the end of a name
)
NAME = re.compile(r"(?:struct |enum )?([A-Za-z]\w*_\w*)(?:\(\))?")


def tracked():
    return subprocess.run(["git", "ls-files"], capture_output=True, text=True,
                          check=True).stdout.split("\n")[:-1]


def words_of(files):
    """Every name in the sources."""
    words = set()
    for path in files:
        if re.search(r"\.(c|h|inc|py|sh|S|mjs)$|Makefile$", path):
            with open(path, encoding="utf-8") as f:
                words.update(re.findall(r"\w+", f.read()))
    return words


def pattern_of(path):
    for built, source in BUILT:
        if re.fullmatch(built, path):
            path = re.sub(built, source, path)
    return re.sub(r"<\w+>|\bNAME\b|\bFILE\b|(?<=fuzz_)x\b", "*", path)


def exists(files, pattern):
    return any(fnmatch.fnmatchcase(f, pattern) for f in files)


class Page:
    def __init__(self):
        self.files = tracked()
        self.folders = {f.rsplit("/", n)[0] for f in self.files for n in range(1, f.count("/") + 1)}
        self.words = words_of(self.files)
        with open("Makefile", encoding="utf-8") as f:
            self.targets = set(re.findall(r"^([a-z0-9-]+):", f.read(), re.M))

    def is_there(self, path):
        pattern = pattern_of(path).rstrip("/")
        if "/" not in pattern:
            return exists(self.files, pattern) or exists(self.files, "*/" + pattern)
        return exists(self.files, pattern) or any(fnmatch.fnmatchcase(f, pattern) or
                                                  f.endswith("/" + pattern) for f in self.folders)

    def unknown(self, code):
        """What a piece of code names that is not there."""
        if code.startswith("make "):
            for word in re.sub(r"'[^']*'|#.*", "", code).split()[1:]:
                if re.fullmatch(r"[a-z0-9-]+", word) and word not in self.targets:
                    yield f"make {word}"
            return
        for word in code.split():
            if re.match(r"(\.\.|/|http|127\.)", word):
                continue
            word = re.sub(r"^[A-Z_]+=", "", word).strip("',")
            if re.fullmatch(r"(test|sim|golden|bench|fuzz)_[\w<>*]+", word):
                if not exists(self.files, f"tests/*/{pattern_of(word)}.*"):
                    yield word
            elif re.search(r"\.(c|h|inc|py|sh|conf|md|json)$", word) or re.match(r"[a-z.]+/\w", word):
                if not self.is_there(word):
                    yield word
            elif NAME.fullmatch(word) and NAME.fullmatch(word)[1] not in self.words:
                yield word


    def unnamed(self, text):
        """Tests that the table does not send anybody to."""
        named = set(re.findall(r"`(?:tests/e2e/)?(\w+(?:\.py)?)`", text))
        folders = re.findall(r"`(tests/unit/\w+/)`", text)
        for path in self.files:
            match = re.match(r"tests/(?:e2e/(test_\w+\.py)|(?:unit/\w+|sim|golden)/((?:test|sim|golden)_\w+)\.c)$",
                             path)
            if match and not {match[1], match[2]} & named and not path.startswith(tuple(folders)):
                yield path


def findings(page, text):
    for number, line in enumerate(text.splitlines(), 1):
        codes = [line.strip()] if line.startswith("    ") else re.findall(r"`([^`]+)`", line)
        for what in (what for code in codes for what in page.unknown(code)):
            yield f":{number}: {what} does not exist"
    table = text[text.index("## When something fails"):text.index("## How to add")]
    for path in page.unnamed(table):
        yield f": {path} stands in no row of \"When something fails\""


def main():
    with open(PAGE, encoding="utf-8") as f:
        bad = list(findings(Page(), f.read()))
    for what in bad:
        print(f"{PAGE}{what}")
    return 1 if bad else 0


sys.exit(main())
