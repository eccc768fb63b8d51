#!/usr/bin/env python3
"""llama-server's own tests, run against Quire: `make test-llama-server`.

They are taken out of a source package of the Python registry, at a locked version, and start what
they believe to be llama-server (the file beside this one). outcomes.txt says of each test that does
not pass why: what is lacking by choice, and what looks inside llama-server. Any other failure is a
defect, and so is a line of outcomes.txt of which a test passes, or which fits none.
"""
import argparse
import collections
import fnmatch
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "fixtures"))
sys.path.insert(0, str(HERE.parent / "reference"))
from registry import fetch, index  # noqa: E402

PACKAGE = ("llama-cpp-python", "llama_cpp_python-0.3.36.tar.gz",
           "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e")
WANTED = ("vendor/llama.cpp/tools/server/tests/", "vendor/llama.cpp/models/templates/")
KINDS = ("choice", "internals", "model")


def unpack(folder):
    """The tests and the templates that they name, where they expect each other."""
    root = folder / "llama.cpp"
    archive = fetch(*PACKAGE, folder)
    if root.exists():
        return root
    with tarfile.open(archive) as tar:
        for member in tar.getmembers():
            name = member.name.partition("/")[2]
            if member.isfile() and name.startswith(WANTED):
                path = root / name.removeprefix("vendor/llama.cpp/")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(tar.extractfile(member).read())
    return root


def install(folder):
    """An environment with what the tests import; its python."""
    python = folder / "venv/bin/python"
    if not (folder / "installed").exists():
        subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "--no-deps", "--index-url", index(),
                        "-r", HERE / "requirements.txt"], check=True)
        (folder / "installed").touch()
    return python


def put_models(folder):
    """Trained weights where they are there, and an encoder with random ones."""
    import fixtures
    models = folder / "models"
    models.mkdir(exist_ok=True)
    data = pathlib.Path(os.environ.get("QUIRE_DATA", HERE.parents[1] / "../shared/data"))
    shutil.copyfile(data / "weights/stories260K.f16.gguf", models / "stories260K.gguf")
    (models / "bert.gguf").write_bytes(fixtures.make("bert", "plain", "F32", n_ctx=512))
    return models


def run(python, root, models, results, options):
    env = {**os.environ, "QUIRE_BIN": str(pathlib.Path(options.server).resolve()), "QUIRE_MODELS": str(models),
           "QUIRE_RESULTS": str(results), "LLAMA_SERVER_BIN_PATH": str(HERE / "llama-server"),
           "PYTHONPATH": str(HERE), "PORT": str(options.port)}
    results.unlink(missing_ok=True)
    subprocess.run([python, "-m", "pytest", "-q", "-p", "plugin", "-p", "no:cacheprovider", "--timeout", "60",
                    *(options.only or ["unit"])],
                   cwd=root / "tools/server/tests", env=env, stdout=(results.parent / "log.txt").open("w"),
                   stderr=subprocess.STDOUT)
    return [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()]


def read_outcomes():
    """[(pattern of tests, kind, reason)]"""
    rows = []
    for line in (HERE / "outcomes.txt").read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.startswith("#"):
            pattern, kind, reason = line.split(None, 2)
            if kind not in KINDS:
                sys.exit(f"outcomes.txt: {kind} is none of {', '.join(KINDS)}")
            rows.append((pattern, kind, reason))
    return rows


def find(rows, test):
    return next((row for row in rows if fnmatch.fnmatchcase(test.replace("[", "(").replace("]", ")"), row[0])), None)


def kind_of(rows, result):
    row = find(rows, result["test"])
    if result["outcome"] != "failed":
        return "stale" if row and result["outcome"] == "passed" else result["outcome"]
    return row[1] if row else "defect"


def idle_rows(rows, results):
    """Those that no test is the first to fit."""
    used = [find(rows, result["test"]) for result in results]
    return [row for row in rows if row not in used]


def show(results, rows):
    columns = ("passed", "skipped", *KINDS, "defect", "stale")
    table = collections.defaultdict(collections.Counter)
    for result in results:
        table[result["test"].partition("::")[0]][kind_of(rows, result)] += 1
    print(f"{'file':32}" + "".join(f"{c:>11}" for c in columns))
    for file in sorted(table):
        print(f"{file:32}" + "".join(f"{table[file][c] or '':>11}" for c in columns))
    total = sum(table.values(), collections.Counter())
    print(f"{'all':32}" + "".join(f"{total[c] or '':>11}" for c in columns))
    return total


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", default="build/quire")
    parser.add_argument("--folder", type=pathlib.Path, default="build/llama-server")
    parser.add_argument("--port", type=int, default=18080)
    parser.add_argument("only", nargs="*", help="unit/test_x.py or unit/test_x.py::test_y")
    options = parser.parse_args()
    folder = options.folder.resolve()
    root, python = unpack(folder), install(folder)
    rows = read_outcomes()
    results = run(python, root, put_models(folder), folder / "results.jsonl", options)
    total = show(results, rows)
    for result in results:
        if kind_of(rows, result) in ("defect", "stale"):
            print(f"{kind_of(rows, result)}: {result['test']}: {result['why'].splitlines()[0] if result['why'] else ''}")
    idle = [] if options.only else idle_rows(rows, results)
    for row in idle:
        print(f"stale: {row[0]}: no test is like it")
    return 1 if total["defect"] + total["stale"] or idle or not total["passed"] else 0


sys.exit(main())
