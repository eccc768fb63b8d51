"""What the pages show is true: their curls, the story, the settings."""
import json
import os
import pathlib
import re
import signal
import subprocess
import time
import urllib.error
import urllib.request

import pages

README = pages.read()


def story():
    """What the first transcript says."""
    return " ".join(" ".join(line.lstrip("> ") for line in README.splitlines() if line.startswith(">")).split())


def first_body():
    return json.loads(re.search(r'(\{"prompt": .*?\})\'', README, re.S)[1])


def test_transcript(server):
    assert len(story()) > 300
    frames = [json.loads(line[6:]) for line in
              server.post("/v1/completions", first_body()).body.decode().splitlines()
              if line.startswith("data: {")]
    assert frames[-1]["choices"][0]["finish_reason"] == "length"
    text = "".join(f["choices"][0]["text"] for f in frames)
    assert " ".join(text.split()) == story()
    for shown in re.findall(r'"text":"([^"]*)"', README):  # a busy machine may put more than one token into a frame
        assert any(shown in f["choices"][0]["text"] for f in frames)


def test_routes(server):
    """The page of the APIs names every path, and no other one; an alias without /v1 is not named."""
    page = (pathlib.Path(__file__).parents[2] / "server/api/README.md").read_text()
    named = re.findall(r"`(/[^` ]*)`", page[page.index("## Routes"):page.index("## A decision's way")])
    assert len(named) == len(set(named))
    known = set(server.get("/openapi.json").json["paths"])
    assert not set(named) - {"/v1"} - known
    assert not {p for p in known if p not in named and "/v1" + p not in named}


def test_make_run():
    """It serves with a binary of its own, which has the kernels of this CPU's best level and tells the same story."""
    root = pathlib.Path(__file__).parents[2]
    env = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "QUIRE_"))}
    make = subprocess.Popen(["make", "run", "ARGS=--port 0"], cwd=root, env=env, stdout=subprocess.PIPE, text=True,
                            stderr=subprocess.STDOUT, start_new_session=True)
    try:
        lines = []
        while not (found := re.match(r"listening on (http://\S+) \(model quire-demo\)", lines[-1] if lines else "")):
            lines.append(make.stdout.readline())
            assert lines[-1], lines[-20:]
        ran = re.search(r"^(build/quire-(\w+)) serve", "".join(lines), re.M)
        request = urllib.request.Request(found[1] + "/v1/completions", json.dumps({**first_body(), "stream": False}).encode(),
                                         {"Content-Type": "application/json"})
        begin = time.monotonic()
        while True:  # until the model is there
            try:
                text = json.load(urllib.request.urlopen(request, timeout=60))["choices"][0]["text"]
                break
            except urllib.error.HTTPError as e:
                assert e.code == 503 and time.monotonic() - begin < 60
                time.sleep(0.05)
        assert " ".join(text.split()) == story()
    finally:
        os.killpg(make.pid, signal.SIGTERM)
        make.stdout.read()
        make.wait(30)
    levels = subprocess.run([root / ran[1], "--version"], capture_output=True, text=True, check=True).stdout
    (sets,) = [line for line in levels.splitlines() if "scalar" in line]
    assert sets.split()[-1] == ran[2]


def transcripts():
    """(path, body, what jq is asked for, the lines that follow) of each curl that is piped to jq; but
    for the real model's, which tests/real/chat.py asks."""
    for block in pages.blocks(pages.text()):
        if block.startswith("$ make chat"):
            continue
        for one in re.split(r"^\$ ", block, flags=re.M)[1:]:
            found = re.match(r"curl -s localhost:8080(/\S*) .*? -d '(.*?)' \| jq -\w '(.*?)'\n(.*)", one, re.S)
            if found:
                yield found[1], json.loads(found[2]), found[3], found[4].strip().splitlines()


def at(value, path):
    """What jq finds at .a[0].b"""
    for name, index in re.findall(r"\.(\w+)|\[(\d+)\]", path):
        value = value[name] if name else value[int(index)]
    return value


def test_transcripts(server):
    """Each answer is the same to the letter; jq -r prints a string as it is."""
    seen = set()
    for path, body, asked, lines in transcripts():
        r = server.post(path, body)
        assert r.status == 200, r.body
        got = [at(r.json, one) for one in asked.split(", ")]
        assert len(lines) == len(got), path
        for value, line in zip(got, lines):
            assert line in (value, json.dumps(value, ensure_ascii=False, separators=(",", ":"))), path
        seen.add(path)
    assert seen >= {"/v1/chat/completions", "/v1/responses", "/v1/embeddings", "/v1/messages", "/completion",
                    "/v1/completions", "/v2/rerank", "/score", "/api/chat"}


def test_settings_table():
    """Each default of a number in the table of config/README.md is that of config/options.inc."""
    options, page = pages.read("config/options.inc"), pages.read("config/README.md")
    table = page[page.index("| setting | default |"):]
    checked = 0
    for names, defaults in re.findall(r"^\| (`\w+`(?:, `\w+`)*) \| ([^|]+) \|", table, re.M):
        for name, default in zip(re.findall(r"\w+", names), defaults.split(", ")):
            found = re.search(rf"^\w+\((?:SERVER|MODEL), {name}, ([^,]+),", options, re.M)
            assert found, f"{name} is no setting"
            if default.strip().isdigit():
                assert found[1] == default.strip(), name
                checked += 1
    assert checked >= 5
