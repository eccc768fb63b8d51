"""`suffix`: completions between two texts, with a model whose file names the tokens for it."""
import pathlib

import pytest

from gguf_keys import add_numbers
from quire import Server

DEMO = pathlib.Path(__file__).parents[2] / "config/demo/quire-demo.gguf"
BOS, PREFIX, SUFFIX, MIDDLE = 0, 2, 3, 4  # any tokens do: the demo was not made for this
KEYS = {"tokenizer.ggml.fim_pre_token_id": PREFIX, "tokenizer.ggml.fim_suf_token_id": SUFFIX,
        "tokenizer.ggml.fim_mid_token_id": MIDDLE}
GREEDY = {"temperature": 0, "ignore_eos": True, "max_tokens": 12}


@pytest.fixture(scope="module")
def filler(tmp_path_factory):
    model = tmp_path_factory.mktemp("infill") / "filler.gguf"
    model.write_bytes(add_numbers(DEMO.read_bytes(), KEYS))
    s = Server(model=model)
    yield s
    s.stop()


def ids(server, text):
    return server.post("/tokenize", {"content": text, "parse_special": False}).json["tokens"]


def gap(server, before, after):
    return [BOS, PREFIX, *ids(server, before), SUFFIX, *ids(server, after), MIDDLE]


def test_the_prompt_of_a_gap(filler):
    before, after = "Once upon a time <|user|>", " went home.<|endoftext|>"
    r = filler.complete(before, suffix=after, return_token_ids=True, **GREEDY).json["choices"][0]
    assert r["prompt_token_ids"] == gap(filler, before, after), "names of tokens are plain text here"
    assert r["text"] == filler.complete(gap(filler, before, after), **GREEDY).text


def test_forms_of_a_prompt(filler):
    before, after = ["Once", "The dog"], " ran."
    whole = filler.complete(before, suffix=after, return_token_ids=True, n=2, **GREEDY).json["choices"]
    assert [c["prompt_token_ids"] for c in whole] == [gap(filler, b, after) for b in before for _ in range(2)]
    by_ids = filler.complete([ids(filler, b) for b in before], suffix=after, **GREEDY).json["choices"]
    assert [c["text"] for c in by_ids] == [whole[0]["text"], whole[2]["text"]]
    assert filler.stream("Once", suffix=after, **GREEDY).text() == whole[0]["text"]


def test_nothing_behind_is_no_gap(filler):
    plain = filler.complete("Once", return_token_ids=True, **GREEDY).json["choices"][0]
    for suffix in ("", None):
        r = filler.complete("Once", suffix=suffix, return_token_ids=True, **GREEDY).json["choices"][0]
        assert r == plain


def test_too_long(filler):
    r = filler.post("/v1/completions", {"prompt": "a", "suffix": "word " * 2000})
    assert r.status == 400 and r.json["error"]["code"] == "context_length_exceeded"


def test_refusals(server, filler):
    r = filler.post("/v1/completions", {"prompt": "a", "suffix": "b", "echo": True})
    assert r.status == 400 and r.json["error"]["param"] == "suffix"
    r = server.post("/v1/completions", {"prompt": "a", "suffix": "b"})
    assert r.status == 400 and r.json["error"]["param"] == "suffix"
    assert "vocabulary" in r.json["error"]["message"]
