"""`suffix`: completions between two texts, with a model whose file names the tokens for it."""
import pathlib
import sys

import pytest

from quire import Server

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "reference"))

from gguf_file import with_keys  # noqa: E402

DEMO = pathlib.Path(__file__).parents[2] / "config/demo/quire-demo.gguf"
BOS, PREFIX, SUFFIX, MIDDLE = 0, 2, 3, 4  # any tokens do: the demo was not made for this
KEYS = {"tokenizer.ggml.fim_pre_token_id": PREFIX, "tokenizer.ggml.fim_suf_token_id": SUFFIX,
        "tokenizer.ggml.fim_mid_token_id": MIDDLE}
GREEDY = {"temperature": 0, "ignore_eos": True, "max_tokens": 12}


@pytest.fixture(scope="module")
def filler(tmp_path_factory):
    model = tmp_path_factory.mktemp("infill") / "filler.gguf"
    model.write_bytes(with_keys(DEMO.read_bytes(), KEYS))
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


# ---- /infill


def infill(server, status=200, **fields):
    r = server.post("/infill", {"n_predict": 12, "temperature": 0, "ignore_eos": True, **fields})
    assert r.status == status, r.body
    return r.json


def test_infill(filler):
    r = infill(filler, input_prefix="Once upon", input_suffix=" ran home.", prompt=" a time", return_tokens=True)
    expected = [BOS, PREFIX, *ids(filler, "Once upon"), *ids(filler, " a time"), SUFFIX, *ids(filler, " ran home."),
                MIDDLE]
    plain = filler.complete(expected, return_token_ids=True, **GREEDY).json["choices"][0]
    assert (r["content"], r["tokens"], r["stop_type"]) == (plain["text"], plain["token_ids"], "limit")
    assert r["tokens_evaluated"] == len(expected)
    assert infill(filler, input_prefix="", input_suffix="")["tokens_evaluated"] == 4


def test_files_beside_it(filler, tmp_path):
    files = [{"filename": "a.txt", "text": "The dog."}, {"text": "The cat."}]
    fields = {"input_prefix": "Once", "input_suffix": " ran.", "input_extra": files}
    snippet = "\n\n--- snippet ---\n\n"
    extra = [t for text in ("The dog.", "The cat.") for t in ids(filler, snippet) + ids(filler, text)]
    whole = gap(filler, "Once", " ran.")
    assert infill(filler, **fields)["content"] == filler.complete([BOS, *extra, *whole[1:]], **GREEDY).text
    (repository,), (file,) = ids(filler, "\x01"), ids(filler, "\x02")  # bytes that nothing else is made of
    model = tmp_path / "files.gguf"
    model.write_bytes(with_keys(DEMO.read_bytes(), {**KEYS, "tokenizer.ggml.fim_rep_token_id": repository,
                                                    "tokenizer.ggml.fim_sep_token_id": file}))
    s = Server(model=model)
    extra = [repository, *ids(s, "project\n"), file, *ids(s, "a.txt\n"), *ids(s, "The dog."), file,
             *ids(s, "file\n"), *ids(s, "The cat."), file, *ids(s, "current\n")]
    assert infill(s, **fields)["content"] == s.complete([BOS, *extra, *whole[1:]], **GREEDY).text
    s.stop()


def test_infill_refusals(server, filler):
    whole = {"input_prefix": "a", "input_suffix": "b"}
    for field in whole:
        fields = {k: v for k, v in whole.items() if k != field}
        assert infill(filler, 400, **fields)["error"]["param"] == field
        for value in (1, True, [], {}):
            assert infill(filler, 400, **{**whole, field: value})["error"]["param"] == field
    for value in (1, True, [], {}):
        assert infill(filler, 400, **whole, prompt=value)["error"]["param"] == "prompt"
    for value in ("a", 1, {}, [1], [{}], [{"text": 1}], [{"text": "a", "filename": 1}]):
        assert infill(filler, 400, **whole, input_extra=value)["error"]["param"] == "input_extra"
    r = infill(server, 400, **whole)
    assert r["error"]["param"] == "input_prefix" and "vocabulary" in r["error"]["message"]


def test_ollamas_suffix(filler):
    """It makes a text of the prompt, for which there is no conversation."""
    body = {"model": "x", "prompt": "Once upon", "suffix": " ran home.", "options": {"temperature": 0, "num_predict": 5},
            "stream": False}
    r = filler.post("/api/generate", {**body, "model": "filler"})
    same = filler.complete("Once upon", suffix=" ran home.", temperature=0, max_tokens=5)
    assert r.status == 200 and r.json["response"] == same.json["choices"][0]["text"]
    assert r.json["prompt_eval_count"] == len(gap(filler, "Once upon", " ran home.")) and "context" not in r.json
    assert "insert" in filler.post("/api/show", {"model": "filler"}).json["capabilities"]
    r = filler.post("/api/generate", {**body, "model": "filler", "system": "Be kind."})
    assert r.status == 400 and "'system'" in r.json["error"]
