"""Files that are whole or not there after the power has failed: what is written is synced before it gets its name, and the
name before anybody is told. By the order of the calls (tests/torture/record_files.c), not by cutting any power."""
import os
import pathlib
import random
import subprocess

import pytest

from batch_calls import create, line, wait_over
from hub_server import Hub, Repo
from quire import BIN, Server, make_model

RECORDER = pathlib.Path(__file__).parents[1] / "torture" / "record_files.c"
pytestmark = pytest.mark.skipif("asan" in BIN or "tsan" in BIN, reason="a sanitizer's library must be the first that is loaded")


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    so = tmp_path_factory.mktemp("record") / "record_files.so"
    subprocess.run([*os.environ.get("CC", "cc").split(), "-O1", "-D_GNU_SOURCE", "-shared", "-fPIC", "-o", so, RECORDER, "-ldl"], check=True)
    return so


class Record:
    def __init__(self, library, path):
        self.path, self.env = path, {"LD_PRELOAD": str(library), "QUIRE_RECORD": str(path)}

    def lines(self):
        return [text.split(" ", 3) for text in self.path.read_text().splitlines()]

    def named(self):
        """The names that files got, once it is checked that each was on the disk, and its name was synced after."""
        lines = self.lines()
        names = []
        for i, what in enumerate(lines):
            if what[0] not in ("rename", "symlink"):
                continue
            inode, folder, path = what[1:]
            before = [w[0] for w in lines[:i] if w[1] == inode and w[0] in ("write", "sync")]
            if what[0] == "rename":
                assert before and before[-1] == "sync", f"{path} was named before it was synced"
            assert ["sync", folder] in lines[i:], f"the folder of {path} was not synced"
            names.append(pathlib.Path(path).name)
        return names


@pytest.fixture
def record(library, tmp_path):
    return Record(library, tmp_path / "record")


def serve(record, *flags, model=None):
    return Server("--sandbox", "off", *map(str, flags), model=model, env=record.env)


def test_a_saved_slot(record, tmp_path):
    s = serve(record, "--slot-save-path", tmp_path, model=make_model(tmp_path / "m.gguf"))
    s.post("/completion", {"prompt": "a bear sat", "n_predict": 4, "id_slot": 0})
    assert s.post("/slots/0?action=save", {"filename": "a.bin"}).status == 200
    assert s.stop() == 0
    assert any(name.endswith("a.bin") for name in record.named())


def test_files_of_batches(record, tmp_path):
    s = serve(record, "--batch-dir", tmp_path)
    b = wait_over(s, create(s, [line("a", {"prompt": "x", "max_tokens": 1})]))
    assert b["status"] == "completed" and s.stop() == 0
    assert any(name.startswith("file-") for name in record.named())
    # The file of answers is made, not renamed: its folder is synced all the same before the end.
    answers = str((tmp_path / b["output_file_id"]).stat().st_ino)
    lines = [w[:2] for w in record.lines()]
    assert lines[:lines.index(["write", answers])].count(["sync", str(tmp_path.stat().st_ino)]) >= 2  # and after the upload


def test_a_weight_cache(record, tmp_path):
    model = make_model(tmp_path / "m.gguf", "--type", "Q4_K", "--embd", "256", "--ff", "512", "--heads", "4", "--kv-heads", "2",
                       "--head-dim", "64")
    s = serve(record, "--weight-cache", "on", model=model)
    s.wait_until(lambda _: "event=weight-cache-" in s.read_log(), timeout=120, what="the cache")
    assert s.stop() == 0 and record.named() == ["m.gguf.quire-cache"]


def test_the_log_of_requests(record, tmp_path):
    """At the first start it is made, at the next one replaced."""
    db = tmp_path / "requests"
    assert serve(record, "--requests-db", db).stop() == 0
    assert ["sync", str(tmp_path.stat().st_ino)] in [w[:2] for w in record.lines()]
    assert serve(record, "--requests-db", db).stop() == 0
    record.named()


def test_the_secret_of_a_kv_store(record, tmp_path):
    assert serve(record, "--kv-store", f"dir:{tmp_path / 'store'}").stop() == 0
    assert "secret" in record.named()


def test_what_is_pulled_from_the_hub(record, tmp_path):
    hub = Hub(owner__name=Repo({"x.gguf": random.Random(7).randbytes(1 << 20), "README.md": b"# a model\n"}))
    env = {**{k: v for k, v in os.environ.items() if not k.startswith(("HF_", "HUGGING"))}, **record.env,
           "HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "home")}
    run = subprocess.run([BIN, "pull", "hf:owner/name"], capture_output=True, text=True, timeout=120, check=False, env=env)
    hub.close()
    assert run.returncode == 0, run.stderr
    names = record.named()
    assert "main" in names and "x.gguf" in names and len([n for n in names if len(n) == 64]) >= 1, names
    # The folders that were made on the way have names as well.
    synced = {w[1] for w in record.lines() if w[0] == "sync"}
    for folder in (tmp_path / "home", tmp_path / "home/hub", *(tmp_path / "home/hub").glob("models--*")):
        assert str(folder.stat().st_ino) in synced, folder


@pytest.mark.parametrize("setting", ["usage-db", "responses-db", "requests-db", "batch-dir"])
def test_a_full_disk_at_a_start_with_what_is_there(tmp_path, setting):
    """Nothing has to be written to begin with. A limit of the size of files stands for the disk."""
    place = tmp_path / "kept"
    if setting == "batch-dir":
        place.mkdir()
    s = Server(f"--{setting}", str(place))
    s.complete("Once", max_tokens=2)
    assert s.post("/v1/responses", {"input": "x", "max_output_tokens": 16}).status == 200
    assert s.stop() == 0
    limited = tmp_path / "limited.sh"
    limited.write_text(f'#!/bin/sh\nulimit -S -f 8\nexec {os.path.abspath(BIN)} "$@"\n')
    limited.chmod(0o755)
    s = Server(f"--{setting}", str(place), "--log-level", "error", binary=str(limited))
    s.complete("It lives", max_tokens=2)
    assert s.stop() == 0
