#!/usr/bin/env python3
"""Real clients at locked versions against a running Quire: `make test-clients`.

A Python client has a file python/NAME_test.py and an environment of its own, made of python/locks/
NAME.txt; the npm packages have one environment together, and tests NAME.test.mjs, but for coding agents,
whose tests are python/NAME_test.py, too. All of it is made below build/, from the registries that pip
and npm are set up for. Each test is named after what it shows, and the table at the end says which
clients showed what. A test that is skipped or does not run has failed; a client that wants a newer
Python than there is on this machine, or another kind of machine, is named below the table.

    clients.py --folder build/clients [NAME...]    run these clients, those of npm, of python, or all
    clients.py --folder build/clients --lock NAME  write its lock anew, of the newest versions
"""
import argparse
import hashlib
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
COLUMNS = ["completions", "chat", "streams", "tools", "schemas", "embeddings", "decisions", "cancel", "retry", "load"]
LONGEST_S = 300  # a client's tests; most take 20 s


class Python:
    """A client of a Python package: what to install (pip's words), the file of its tests, and the
    oldest Python that it runs on, if that is newer than Debian 12's."""

    kind = "python"

    def __init__(self, name, wants, file=None, oldest=None):
        self.name, self.wants, self.file, self.oldest = name, wants, file or name, oldest
        self.lock = HERE / "python" / "locks" / f"{name}.txt"

    def title(self):
        wanted = re.match(r"[\w.-]+", self.wants[0])[0].lower()
        pins = dict(line.split("==") for line in self.lock.read_text().split() if "==" in line)
        return f"{self.name} {pins[wanted]}"

    def interpreter(self):
        """A Python that is new enough, or None: the one that runs this, or one on the PATH, or one of pyenv's."""
        if self.oldest is None:
            return sys.executable
        major, least = map(int, self.oldest.split("."))
        names = [f"python{major}.{minor}" for minor in range(least, least + 4)]
        root = pathlib.Path(os.environ.get("PYENV_ROOT", pathlib.Path.home() / ".pyenv"))
        found = [shutil.which(name) for name in names] + [p for name in names for p in root.glob(f"versions/*/bin/{name}")]
        return next((path for path in found if path and works(path)), None)

    def lacks(self):
        """Why it cannot be run on this machine, or None."""
        return None if self.interpreter() else f"wants Python {self.oldest} or newer, and there is none here"

    def prepare(self, folder):
        """The environment, made anew when its lock has changed; its python."""
        home, stamp = folder / "python" / self.name, hashlib.sha256(self.lock.read_bytes()).hexdigest()
        if not (home / "lock").exists() or (home / "lock").read_text() != stamp:
            self.make(home, "--no-deps", "-r", self.lock)
            (home / "lock").write_text(stamp)
        return home / "bin" / "python"

    def make(self, home, *wanted):
        shutil.rmtree(home, ignore_errors=True)
        subprocess.run([self.interpreter(), "-m", "venv", home], check=True)
        subprocess.run([home / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", *wanted], check=True)

    def write_lock(self, folder):
        home = folder / "locking" / self.name
        self.make(home, *self.wants)
        frozen = subprocess.run([home / "bin" / "pip", "freeze"], check=True, capture_output=True, text=True).stdout
        self.lock.write_text(f"# clients.py --lock {self.name}: {' '.join(self.wants)}\n{frozen.lower()}")
        shutil.rmtree(home)

    def run(self, folder, log):
        """[(test, whether it passed)]"""
        python, record = self.prepare(folder), folder / f"{self.name}.record"
        record.write_text("")
        env = {**os.environ, "QUIRE_RECORD": str(record), "PYTHONDONTWRITEBYTECODE": "1"}
        status = command([python, HERE / "python" / f"{self.file}_test.py"], log, env=env)
        return recorded(record, status)


class Npm:
    """A client of an npm package: the tests NAME.test.mjs, over what package-lock.json names."""

    kind = "npm"

    def __init__(self, name, package):
        self.name, self.package = f"{name}.mjs", package
        self.file = f"{name}.test.mjs"

    def lacks(self):
        return None

    def title(self):
        listed = json.loads((HERE / "package.json").read_text())
        return f"{self.package} {(listed['dependencies'] | listed['optionalDependencies'])[self.package]} (npm)"

    def prepare(self, folder):
        """The packages and the tests; all clients of npm have them together."""
        for source in [*HERE.glob("*.json"), *HERE.glob("*.mjs")]:
            shutil.copy(source, folder)
        lock = hashlib.sha256((HERE / "package-lock.json").read_bytes()).hexdigest()
        stamp = folder / "npm.lock"
        if not stamp.exists() or stamp.read_text() != lock:
            subprocess.run(["npm", "ci", "--silent", "--fetch-retries", "5", "--no-audit", "--no-fund", "--no-update-notifier"], cwd=folder, check=True)
            stamp.write_text(lock)

    def run(self, folder, log):
        self.prepare(folder)
        status = command(["node", "--test", "--test-timeout", "120000", "--test-reporter", "tap", self.file], log, cwd=folder)
        # A file with tests is a test itself, whose name is its path; newer runners leave that out.
        results = [(m[2], m[1] == "ok" and "# SKIP" not in m[3]) for m in
                   re.finditer(r"^ *(ok|not ok) \d+ - ([^#\n]*[^#\s])(.*)$", log.read_text(), re.M)
                   if not m[2].endswith(self.file)]
        return results + ended(status, results)


class Agent(Npm):
    """A program of npm's that runs tools; its tests are Python's, and need no more than its standard library. install: the
    package's script that puts the program in its place; only: the one kind of machine that it is there for."""

    def __init__(self, name, package, install=None, only=None):
        super().__init__(name, package)
        self.name, self.install, self.only = name, install, only

    def title(self):
        return super().title().replace("(npm)", "(npm, loops)")  # another client may have other tests of the package

    def lacks(self):
        return f"is for {self.only} alone" if self.only not in (None, platform.machine()) else None

    def run(self, folder, log):
        self.prepare(folder)
        if self.install:  # npm may have been told to run no scripts of packages
            subprocess.run(["node", folder / "node_modules" / self.package / self.install], check=True, capture_output=True)
        record = folder / f"{self.name}.record"
        record.write_text("")
        env = {**os.environ, "QUIRE_RECORD": str(record), "QUIRE_NPM": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
        file = HERE / "python" / f"{self.name.replace('-', '_')}_test.py"
        return recorded(record, command([sys.executable, file], log, env=env))


CLIENTS = [
    Python("openai", ["openai"]),
    Python("openai1", ["openai<2"], file="openai"),
    Python("anthropic", ["anthropic"]),
    Python("cohere", ["cohere"]),
    Python("typesafe", ["typesafe-sdk[zstd]"]),
    Python("langchain", ["langchain-openai", "langchain-anthropic"]),
    Python("langchain-typesafe", ["langchain-typesafe"], file="langchain_typesafe"),
    Python("llama-index", ["llama-index-llms-openai-like", "llama-index-embeddings-openai-like"], file="llama_index"),
    Python("litellm", ["litellm", "mcp"]),
    Python("openai-agents", ["openai-agents"], file="openai_agents"),
    Python("pydantic-ai", ["pydantic-ai-slim[openai,anthropic]"], file="pydantic_ai"),
    Python("instructor", ["instructor[anthropic]"]),
    Python("ollama", ["ollama"]),
    Python("huggingface-hub", ["huggingface_hub"], file="huggingface_hub"),
    Python("guidellm", ["guidellm"]),
    Python("aiperf", ["aiperf"]),
    Python("inference-perf", ["inference-perf"], file="inference_perf", oldest="3.12"),
    Npm("openai", "openai"),
    Npm("ai", "@ai-sdk/openai-compatible"),
    Npm("langchain", "@langchain/openai"),
    Npm("anthropic", "@anthropic-ai/sdk"),
    Npm("ollama", "ollama"),
    Npm("claude-code", "@anthropic-ai/claude-code"),
    Agent("claude-code", "@anthropic-ai/claude-code", install="install.cjs"),
    Agent("codex", "@openai/codex"),
    Agent("opencode", "opencode-linux-x64-baseline", only="x86_64"),
]


def works(python):
    """A name on the PATH may be a shim for a version that is not there."""
    return subprocess.run([python, "-c", "import venv"], capture_output=True, check=False).returncode == 0


def command(args, log, **more):
    """Its exit status; what it prints goes to the log."""
    with open(log, "wb") as out:
        try:
            return subprocess.run(args, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, check=False,
                                  timeout=LONGEST_S, **more).returncode
        except subprocess.TimeoutExpired:
            return f"no end after {LONGEST_S} s"


def recorded(record, status):
    """[(test, whether it passed)], as a file of Python's tests has written them down."""
    results = [json.loads(line) for line in record.read_text().splitlines()]
    return [(r["test"].removeprefix("test_"), r["ok"]) for r in results] + ended(status, results)


def ended(status, results):
    """What fails although each test that there is passed: a status, or that there is no test."""
    bad = ([("no tests", False)] if not results else []) + ([(f"exit {status}", False)] if status != 0 else [])
    return bad


def shows(test):
    """The columns in which a test counts: "chat, streams: as a list", "tools_streamed"."""
    head = test.split(":")[0] if ":" in test else test.split("_")[0]
    return [word for word in re.split(r", *", head) if word in COLUMNS] or ["others"]


def cell(results, column):
    mine = [ok for test, ok in results if column in shows(test)]
    return "-" if not mine else str(len(mine)) if all(mine) else f"FAIL {mine.count(False)}/{len(mine)}"


def print_table(results):
    columns = [*COLUMNS, "others"]
    rows = [["", *columns]] + [[name, *(cell(r, c) for c in columns)] for name, r in results.items()]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    print("\nTests that passed, by what they show:\n")
    for row in rows:
        print("  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip())


def run_client(client, folder):
    """Its results; what it printed is shown if one of them is bad."""
    log = folder / f"{client.name}.log"
    log.write_text("")
    try:
        results = client.run(folder, log)
    except (OSError, subprocess.CalledProcessError) as e:
        print(f"{client.name}: {e}", flush=True)
        return [("not run", False)]
    bad = [test for test, ok in results if not ok]
    if bad:
        print(log.read_text(errors="replace")[-20000:])
    print(f"{client.name}: {len(results) - len(bad)} passed" + (f", failed: {', '.join(bad)}" if bad else ""), flush=True)
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=pathlib.Path, required=True)
    parser.add_argument("--lock", action="store_true")
    parser.add_argument("names", nargs="*", metavar="NAME", help=" ".join(["npm", "python", *(c.name for c in CLIENTS)]))
    args = parser.parse_args()
    folder = args.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    unknown = set(args.names) - {word for c in CLIENTS for word in (c.name, c.kind)}
    if unknown:
        parser.error(f"no client {', '.join(sorted(unknown))}")
    chosen = [c for c in CLIENTS if not args.names or {c.name, c.kind} & set(args.names)]
    if args.lock:
        for client in chosen:
            client.write_lock(folder)
        return 0
    skipped = {c.title(): c.lacks() for c in chosen if c.lacks()}
    results = {c.title(): run_client(c, folder) for c in chosen if c.title() not in skipped}
    print_table(results)
    print("".join(f"\nskip: {title} {why}" for title, why in skipped.items()))
    flat = [ok for r in results.values() for _, ok in r]
    print(f"{flat.count(True)} passed, {flat.count(False)} failed, {len(skipped)} skipped")
    return 0 if flat and all(flat) else 1


if __name__ == "__main__":
    sys.exit(main())
