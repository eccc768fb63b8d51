"""A binary without the libraries that may be missing (`make bare`): it serves, and says what it cannot do."""
import json
import os
import subprocess

import pytest

from batch_calls import answers, line, lines_of
from hub_server import Hub, Repo
from quire import BIN, Server
from test_pull import DEMO

BARE = os.environ.get("QUIRE_BARE_BIN", "build/bare/quire")


@pytest.fixture(autouse=True)
def is_built():
    assert os.access(BARE, os.X_OK), f"{BARE}: run `make bare`"


def run(*args, **env):
    return subprocess.run([BARE, *args], capture_output=True, text=True, timeout=60, check=False, env={**os.environ, **env})


@pytest.fixture
def hub(tmp_path):
    h = Hub(owner__name=Repo({"x-Q8_0.gguf": DEMO}))
    h.env = {"HF_ENDPOINT": h.url, "HF_HOME": str(tmp_path / "home")}
    yield h
    h.close()


def test_pull_says_what_is_missing(hub):
    for args in (["pull", "hf:owner/name"], ["generate", "--prompt", "a", "--model", "hf:owner/name"]):
        done = run(*args, **hub.env)
        assert done.returncode == 1 and "built without libcurl (Debian: libcurl4-gnutls-dev)" in done.stderr, done.stderr
    assert hub.asked == []


def test_top_says_what_is_missing():
    done = run("top", "--once")
    assert done.returncode == 1 and "built without libcurl (Debian: libcurl4-gnutls-dev)" in done.stderr, done.stderr


def test_top_without_a_screen(tmp_path):
    """A build with libcurl and without ncurses: it prints once, and names what a screen needs."""
    binary = os.path.join(os.path.dirname(BARE), "no-screen/quire")
    s = Server()
    try:
        done = subprocess.run([binary, "top", f"127.0.0.1:{s.port}", "--once", "--interval", "0.2"], capture_output=True, text=True, timeout=60,
                              check=True)
        assert "Requests  0 running" in done.stdout
        done = subprocess.run([binary, "top", f"127.0.0.1:{s.port}"], capture_output=True, text=True, timeout=60, check=False,
                              stdin=subprocess.DEVNULL)
        assert done.returncode == 1 and "built without ncurses (Debian: libncurses-dev)" in done.stderr and "--once" in done.stderr
    finally:
        assert s.stop() == 0


def test_pull_offline(hub):
    """What another binary has fetched is found, with and without being asked to look there alone."""
    fetched = subprocess.run([BIN, "pull", "hf:owner/name"], capture_output=True, text=True, timeout=60, check=True, env={**os.environ, **hub.env})
    n = len(hub.asked)
    for flags in (["--offline"], []):
        done = run("pull", *flags, "hf:owner/name", **hub.env)
        assert done.returncode == 0 and done.stdout == fetched.stdout, done.stderr
    assert len(hub.asked) == n


def test_serves():
    bare, whole = Server(binary=BARE), Server()
    try:
        body = {"prompt": "Once upon a time", "max_tokens": 12, "temperature": 0}
        assert bare.post("/v1/completions", body).text == whole.post("/v1/completions", body).text
        assert "seccomp=none" in bare.read_log()
    finally:
        assert bare.stop() == 0 and whole.stop() == 0


def test_settings_that_need_a_library(tmp_path):
    for flags, words in ((["--responses-db", f"{tmp_path}/r.db"], "SQLite"), (["--usage-db", f"{tmp_path}/u.db"], "SQLite"),
                         (["--batch-dir", str(tmp_path)], "SQLite"), (["--sandbox", "strict"], "libseccomp"),
                         (["--kv-events", "on"], "ZeroMQ")):
        done = run("serve", "--port", "0", *flags)
        assert done.returncode != 0 and words in done.stderr, done.stderr


def test_compressed_bodies():
    s = Server(binary=BARE)
    try:
        for encoding in ("gzip", "deflate", "zstd"):
            r = s.request("POST", "/tokenize", b"x", {"Content-Encoding": encoding})
            assert r.status == 415 and r.headers["Accept-Encoding"] == "identity"
            message = r.json["error"]["message"]
            assert f"Content-Encoding '{encoding}'" in message and "built without zlib and libzstd" in message
    finally:
        assert s.stop() == 0


def test_a_batch_needs_no_library(tmp_path):
    (tmp_path / "in.jsonl").write_bytes(lines_of([line("a", {"prompt": "Once", "max_tokens": 3})]))
    done = run("batch", f"{tmp_path}/in.jsonl", "-o", f"{tmp_path}/out.jsonl")
    assert done.returncode == 0 and answers([json.loads((tmp_path / "out.jsonl").read_text())]).keys() == {"a"}, done.stderr


def test_the_block_store_is_a_folder_only(tmp_path):
    done = run("serve", "--port", "0", "--kv-store", "redis://127.0.0.1:1")
    assert done.returncode == 1 and "built without hiredis (Debian: libhiredis-dev)" in done.stderr, done.stderr
    prompt = "Once upon a time there was a bear. " * 30

    def ask(binary):
        s = Server("--kv-store", f"dir:{tmp_path}/store", binary=binary)
        text = s.post("/v1/completions", {"prompt": prompt, "max_tokens": 8, "temperature": 0}).text
        # Whether they are read, or computed because that is faster, the server decides: they are found.
        found = s.metrics()['quire_kv_store_blocks_total{result="hit"}'] > 0
        assert s.stop() == 0, s.read_log()
        return text, found

    text, found = ask(BIN)
    assert not found
    for _ in range(10):  # what the other binary has written is read; a store that answers late is not waited for
        again, found = ask(BARE)
        assert again == text
        if found:
            break
    assert found
