#!/usr/bin/env python3
"""The pages (every README.md, CONTRIBUTING.md, SECURITY.md): each file, test, make target and name in
`backticks` exists, each link leads to a page and a heading, no page is longer than it may be, no
sentence begins without its subject, and each test is named in the table of tests/README.md.

In paths `<op>`, `*` and NAME stand for anything. A built file counts as the file that it is built from.
"""
import fnmatch
import os
import re
import subprocess
import sys

LONGEST = {"README.md": 10 << 10, "CONTRIBUTING.md": 6 << 10}  # bytes
LONGEST_ROOM = 25 << 10  # of every other page
TESTS_PAGE = "tests/README.md"
EXEMPT = ("config/demo/README.md",)  # it shows questions of a story
NO_SUBJECT = re.compile(r"[-*\d. ]*(What|Of|Where|Who|Whoever|The same)\b")
BUILT = (  # what make puts under build/, and its source
    (r"build/(?:debug/)?(tests/unit/\S+)", r"\1.c"),
    (r"build/(?:debug/)?(?:fuzz|replay)/(\w+)", r"tests/fuzz/\1.c"),
    (r"build/(?:debug/)?tests/(\w+)", r"tests/*/\1.c"),
    (r"build/bench/(\w+)", r"tests/bench/\1.c"),
    (r"build/(?:\w+/)?quire", r"server/main.c"),
    (r"build/(?:debug|asan|tsan|deps|clients|page/shots)", r"Makefile"),
    (r"(_\w+\.inc)", r"*\1"),  # the end of a name
)
NAME = re.compile(r"(?:struct |enum )?([A-Za-z]\w*_\w*)(?:\(\))?")
A_USERS = re.compile(  # what belongs to a user's machine, to a client or to a protocol
    r"/|\.|http|127\.|application/|text/|[\w.]*/health|venv/|additional_chat_templates/|.*[:=@{…]|[A-Z]+/|(OPENAI|ANTHROPIC|OLLAMA)_"
    r"|\w+\.(json|conf|jsonl)$|quire\(")


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def tracked():
    names = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    return [f for f in subprocess.run(names, capture_output=True, text=True, check=True).stdout.split("\n") if os.path.exists(f)]


def pages(files):
    return [f for f in files if f in LONGEST or f == "SECURITY.md" or f.endswith("/README.md")]


def words_of(files):
    """Every name in the sources."""
    sources = [f for f in files if re.search(r"\.(c|h|inc|py|sh|S|mjs|family|mk)$|Makefile$", f)]
    return set(word for f in sources for word in re.findall(r"\w+", read(f)))


def pattern_of(path):
    for built, source in BUILT:
        if re.fullmatch(built, path):
            path = re.sub(built, source, path)
    return re.sub(r"<\w+>|\bNAME\b|\bFILE\b|(?<=fuzz_)x\b", "*", path)


def anchor(heading):
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


class Tree:
    """What is in the repository."""

    def __init__(self):
        self.files = tracked()
        self.folders = {f.rsplit("/", n)[0] for f in self.files for n in range(1, f.count("/") + 1)}
        self.words = words_of(self.files)
        makefiles = [f for f in self.files if f == "Makefile" or f.endswith(".mk")]
        self.targets = {t for f in makefiles for t in re.findall(r"^([a-z0-9-]+):", read(f), re.M)}

    def has(self, path):
        pattern = pattern_of(path).rstrip("/")
        files = any(fnmatch.fnmatchcase(f, pattern) or fnmatch.fnmatchcase(f, "*/" + pattern) for f in self.files)
        return files or any(fnmatch.fnmatchcase(f, pattern) or f.endswith("/" + pattern) for f in self.folders)

    def unknown_targets(self, code):
        words = re.sub(r"'[^']*'|#.*", "", code).split()[1:]
        return [f"make {w}" for w in words if re.fullmatch(r"[a-z0-9-]+", w) and w not in self.targets]

    def lacks(self, word):
        if re.fullmatch(r"(test|sim|golden|bench|fuzz)_[\w<>*]+", word):
            return not any(fnmatch.fnmatchcase(f, f"tests/*/{pattern_of(word)}.*") for f in self.files)
        if re.search(r"\.(c|h|inc|py|sh|md)$", word) or re.match(r"[a-z_.]+/[\w*]", word):
            return not self.has(word)
        return bool(re.fullmatch(NAME, word)) and NAME.fullmatch(word)[1] not in self.words

    def unknown(self, code):
        """What a piece of code names that does not exist."""
        if code.startswith("make "):
            return self.unknown_targets(code)
        words = [re.sub(r"^[A-Z_]+=", "", word).strip("',;()") for word in code.split()]
        return [w for w in words if w and not A_USERS.match(w) and self.lacks(w)]

    def unnamed_tests(self, table):
        """Tests that the table does not name."""
        named = set(re.findall(r"`(?:tests/e2e/)?(\w+(?:\.py)?)`", table))
        folders = re.findall(r"`(tests/unit/\w+/)`", table)
        for path in self.files:
            match = re.match(r"tests/(?:e2e/(test_\w+\.py)|(?:unit/\w+|sim|golden)/((?:test|sim|golden)_\w+)\.c)$", path)
            if match and not {match[1], match[2]} & named and not path.startswith(tuple(folders)):
                yield path


def broken_links(path, text):
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        name, _, heading = target.partition("#")
        if name.startswith("http"):
            continue
        other = os.path.normpath(os.path.join(os.path.dirname(path), name)) if name else path
        if not os.path.exists(other):
            yield target
        elif heading and heading not in {anchor(h) for h in re.findall(r"^#+ (.*)$", read(other), re.M)}:
            yield target


def sentences(text):
    """Those of paragraphs, lists and tables, without what is shown and without bold words in front."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.S | re.M)
    text = re.sub(r"\*\*[^*]*\*\*:?", "", text)
    for paragraph in re.split(r"\n\s*\n|\n(?=[-|#*>\d])", text):
        yield from re.split(r"(?<=[.!?])\s+(?=[A-Z`])|\|\s", " ".join(paragraph.split()))


def findings(tree, path):
    text = read(path)
    longest = LONGEST.get(path, LONGEST_ROOM)
    if len(text.encode()) > longest:
        yield f": {len(text.encode())} bytes, more than {longest}"
    is_shown = False
    for number, line in enumerate(text.splitlines(), 1):
        is_shown ^= line.startswith("```")
        codes = [] if is_shown else [line.strip()] if line.startswith("    ") else re.findall(r"`([^`]+)`", line)
        for what in (what for code in codes for what in tree.unknown(code)):
            yield f":{number}: {what} does not exist"
    if path not in EXEMPT:
        yield from (f": a sentence without a subject: {s[:60]}" for s in sentences(text) if NO_SUBJECT.match(s))
    yield from (f": the link {target} leads nowhere" for target in broken_links(path, text))
    if path == TESTS_PAGE:
        table = text[text.index("## When something fails"):text.index("## How to add")]
        yield from (f": {test} is in no row of \"When something fails\"" for test in tree.unnamed_tests(table))


def main():
    tree = Tree()
    bad = [path + what for path in pages(tree.files) for what in findings(tree, path)]
    print("\n".join(bad), end="\n" if bad else "")
    return 1 if bad else 0


sys.exit(main())
