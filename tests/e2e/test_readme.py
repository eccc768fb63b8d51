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


def test_settings_table():
    """The defaults in the README are those of config/options.inc."""
    options = (pathlib.Path(__file__).parents[2] / "config/options.inc").read_text(encoding="utf-8")
    for name, default in [("max_sequences", "256"), ("queue_limit", "1024"), ("prefill_chunk", "512"),
                          ("step_target_ms", "200")]:
        assert re.search(rf"INT\({name}, {default},", options), name
        assert f"`{name}`" in README and default in README
