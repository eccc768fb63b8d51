"""What the README shows is true: its curl, its story, its settings."""
import json
import pathlib
import re

README = (pathlib.Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


def test_transcript(server):
    body = json.loads(re.search(r'(\{"prompt": .*?\})\'', README, re.S)[1])
    story = " ".join(line.lstrip("> ") for line in README.splitlines() if line.startswith(">"))
    assert len(story) > 400
    frames = [json.loads(line[6:]) for line in
              server.post("/v1/completions", body).body.decode().splitlines()
              if line.startswith("data: {")]
    assert frames[-1]["choices"][0]["finish_reason"] == "stop"
    text = "".join(f["choices"][0]["text"] for f in frames)
    assert " ".join(text.split()) == " ".join(story.split())
    for shown in re.findall(r'"text":"([^"]*)"', README):
        assert any(f["choices"][0]["text"] == shown for f in frames)


def shown(path):
    """The body and the first line of the answer of the curl for a path."""
    found = re.search(r"^\$ curl -s localhost:8080" + path + r" .*? -d '\n(.*?)' \| jq [^\n]*\n([^\n]*)$", README,
                      re.S | re.M)
    return json.loads(found[1]), found[2]


def test_structured_transcripts(server):
    body, line = shown("/v1/chat/completions")
    assert server.post("/v1/chat/completions", body).json["choices"][0]["message"]["content"] == line
    body, line = shown("/v1/messages")
    assert server.post("/v1/messages", body).json["content"][0]["input"] == json.loads(line)


def test_settings_table():
    """Each default of a number in the README's table is that of config/options.inc."""
    options = (pathlib.Path(__file__).parents[2] / "config/options.inc").read_text(encoding="utf-8")
    table = README[README.index("| setting | default |"):]
    checked = 0
    for names, defaults in re.findall(r"^\| (`\w+`(?:, `\w+`)*) \| ([^|]+) \|", table, re.M):
        for name, default in zip(re.findall(r"\w+", names), defaults.split(", ")):
            found = re.search(rf"^\w+\((?:SERVER|MODEL), {name}, ([^,]+),", options, re.M)
            assert found, f"{name} is no setting"
            if default.strip().isdigit():
                assert found[1] == default.strip(), name
                checked += 1
    assert checked >= 5
