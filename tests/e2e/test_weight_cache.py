"""--weight-cache: the second start takes the weights from the file, and answers the same bits."""
import os
import pathlib
import resource
import time

import pytest

from quire import Server, make_model, serve_in_vain

FIELDS = {"max_tokens": 12, "temperature": 0, "logprobs": 5, "ignore_eos": True, "seed": 1}


@pytest.fixture
def model(tmp_path):
    return make_model(tmp_path / "m.gguf", "--arch", "qwen2", "--embd", "256", "--layers", "3", "--heads", "4",
                      "--kv-heads", "2", "--head-dim", "64", "--ff", "512", "--vocab", "2000", "--context", "512",
                      "--type", "Q4_K")


def answer(server):
    choice = server.complete([5, 6, 7, 8], **FIELDS).json["choices"][0]
    return choice["text"], choice["logprobs"]


def serve(model, *flags, cache="on"):
    """(answer, log) of a start; the cache, if one is written, is done when this returns."""
    s = Server("--weight-cache", cache, *flags, model=model)
    got = answer(s)
    for _ in range(500):
        log = s.read_log()
        if "weights=cached" in log or "event=weight-cache-" in log.replace("event=weight-cache-refused", ""):
            break
        if cache == "off":
            break
        time.sleep(0.02)
    assert s.stop() == 0
    return got, s.read_log()


def cache_of(model):
    return pathlib.Path(f"{model}.quire-cache")


def test_the_second_start_answers_the_same(model):
    packed, log = serve(model, cache="off")
    assert "weights=packed" in log and not cache_of(model).exists()
    first, log = serve(model)
    assert "weights=packed" in log and "event=weight-cache-written" in log and cache_of(model).exists()
    second, log = serve(model)
    assert "weights=cached" in log and "weight-cache-" not in log
    assert packed == first == second


def test_a_folder(model, tmp_path):
    folder = tmp_path / "caches"
    folder.mkdir()
    first, log = serve(model, cache=str(folder))
    assert "event=weight-cache-written" in log and len(list(folder.iterdir())) == 1
    second, log = serve(model, cache=str(folder))
    assert "weights=cached" in log and first == second
    assert not cache_of(model).exists()


@pytest.mark.parametrize("harm, why", [
    (lambda p: os.truncate(p, 5000), "it is truncated"),
    (lambda p: os.truncate(p, 0), "it is truncated"),
    (lambda p: p.write_bytes(b"x" * p.stat().st_size), "it is not a weight cache"),
    (lambda p: p.write_bytes(p.read_bytes()[:-1] + b"?"), "is damaged"),
    (lambda p: p.chmod(0o622), "other users can write to it"),
])
def test_a_bad_file_is_packed_again(model, harm, why):
    first, _ = serve(model)
    harm(cache_of(model))
    second, log = serve(model)
    assert "event=weight-cache-refused" in log and why in log and "weights=packed" in log
    assert "event=weight-cache-written" in log
    third, log = serve(model)
    assert "weights=cached" in log and first == second == third


def test_a_changed_model_is_packed_again(model):
    serve(model)
    os.utime(model, (1, 1))
    _, log = serve(model)
    assert "the model file has another modification time" in log and "event=weight-cache-written" in log


def test_a_folder_that_takes_no_file(model, tmp_path):
    cache_of(model).mkdir()
    first, log = serve(model)
    assert "it is not a regular file" in log and "event=weight-cache-not-written" in log
    cache_of(model).rmdir()
    assert first == serve(model)[0]


def test_a_full_disk(model):
    """A limit on the size of files stands for it."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, limits[1]))
    try:
        full, log = serve(model)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "event=weight-cache-not-written" in log and "EFBIG" in log
    assert [p.name for p in model.parent.iterdir()] == ["m.gguf"]
    assert full == serve(model)[0]


def test_the_demo_model_has_no_cache():
    s = Server("--weight-cache", "on", model="")
    s.complete("Once", max_tokens=2)
    assert s.stop() == 0
    assert "weights=packed" in s.read_log() and "weight-cache" not in s.read_log()


def test_what_is_no_folder_is_refused(model):
    run = serve_in_vain("--model", model, "--weight-cache", "yes")
    assert run.returncode == 2 and "weight_cache must be off, on or an existing folder, got 'yes'" in run.stderr
