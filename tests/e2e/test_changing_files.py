"""A model's file that another process cuts or changes, at every phase of a load and in every command: an error, never SIGBUS."""
import os
import pathlib
import random
import shutil
import subprocess
import time

import pytest

from bad_disk import BadDisk
from quire import BIN, DEBUG_BIN, TOOLS, make_model
from test_safetensors import parts as hf_parts
from test_safetensors import write_folder

SHAPE = ["--embd", "128", "--layers", "2", "--heads", "2", "--kv-heads", "2", "--head-dim", "64", "--ff", "256", "--vocab", "600"]
# In the order of a load: before the file is opened, when it has been, before its matrices are read, and behind that.
SERVE_HOLDS = ["LOAD", "READ", "PACK", "PACKED"]
COMMANDS = {
    "serve": ["serve", "--port", "0", "--model"],
    "generate": ["generate", "--prompt", "a", "--max-tokens", "2", "--log-level", "off", "--model"],
    "score": ["score", "--text", "/etc/hostname", "--log-level", "off", "--model"],
    "plan": ["plan", "--log-level", "off", "--model"],
    "tokenize": ["tokenize", "--model"],
    "inspect": ["inspect"],
}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """kind -> (the model's folder or file, the file that is changed), both below one folder."""
    folder = tmp_path_factory.mktemp("models")
    make_model(folder / "m.gguf", *SHAPE)
    subprocess.run([f"{TOOLS}/mksplit", folder / "m.gguf", "3", folder / "s"], check=True, capture_output=True)
    write_folder(folder / "hf", *hf_parts("llama"), shards=2)
    first = "s-00001-of-00003.gguf"
    return folder, {"whole": ("m.gguf", "m.gguf"), "first part": (first, first), "last part": (first, "s-00003-of-00003.gguf"),
                    "folder": ("hf", "hf/model-00002-of-00002.safetensors")}


class Held:
    """A command of the debug build, held at a point of its load."""

    def __init__(self, folder, args, hold):
        self.fifo = folder / f"hold-{hold}"
        os.mkfifo(self.fifo)
        self.process = subprocess.Popen([DEBUG_BIN, *map(str, args)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        env={**os.environ, f"QUIRE_DEBUG_HOLD_{hold}": str(self.fifo)})
        begin = time.monotonic()
        while True:  # until the other end is open
            try:
                self.end = os.open(self.fifo, os.O_WRONLY | os.O_NONBLOCK)
                return
            except OSError:
                if self.process.poll() is not None or time.monotonic() - begin > 60:
                    raise AssertionError(self.process.communicate()[1]) from None
                time.sleep(0.01)

    def go_on(self):
        """Its status and what it says. A server that has begun to serve is stopped."""
        os.close(self.end)
        try:
            _, err = self.process.communicate(timeout=60)
        finally:
            self.process.kill()
        return self.process.returncode, err.decode(errors="replace")


def cut(path, left):
    os.truncate(path, int(path.stat().st_size * left))


def overwrite(path, byte):
    with open(path, "r+b") as f:
        f.write(byte * path.stat().st_size)


CHANGES = {"all": lambda p: cut(p, 0), "most": lambda p: cut(p, 0.02), "half": lambda p: cut(p, 0.5), "end": lambda p: cut(p, 0.999),
           "ones": lambda p: overwrite(p, b"\xff")}


def check(models, tmp_path, kind, command, hold, change):
    """`command`: a name of COMMANDS, or the flags before the model as a tuple."""
    folder, kinds = models
    shutil.copytree(folder, tmp_path / "models")
    model, victim = (tmp_path / "models" / name for name in kinds[kind])
    held = Held(tmp_path, [*COMMANDS.get(command, command), model], hold)
    CHANGES[change](victim)
    status, err = held.go_on()
    assert status == 1, (status, err)  # a signal would be a negative one
    assert victim.name in err and "Sanitizer" not in err, err
    assert not list((tmp_path / "models").rglob("*.quire-cache*"))  # of a file that changed nothing is kept


@pytest.mark.parametrize("change", list(CHANGES))
@pytest.mark.parametrize("kind", ["whole", "first part", "last part", "folder"])
@pytest.mark.parametrize("hold", SERVE_HOLDS)
def test_serve(models, tmp_path, hold, kind, change):
    check(models, tmp_path, kind, "serve", hold, change)


@pytest.mark.parametrize("change", list(CHANGES))
@pytest.mark.parametrize("kind", ["whole", "last part", "folder"])
@pytest.mark.parametrize("command", ["generate", "score", "plan", "tokenize", "inspect"])
def test_commands(models, tmp_path, command, kind, change):
    check(models, tmp_path, kind, command, "READ", change)


@pytest.mark.parametrize("hold", ["PACK", "PACKED"])
def test_weight_cache(models, tmp_path, hold):
    """What was packed of a file that changed is not kept: the next start would serve zeros, were the file whole again."""
    args = ("serve", "--port", "0", "--weight-cache", "on", "--model")
    check(models, tmp_path, "whole", args, hold, "half")


@pytest.mark.parametrize("kind", ["whole", "last part", "folder"])
def test_at_random_moments(tmp_path, kind):
    """Cut anywhere between the start and the end of a load, without a hold: it is refused, or it was read before."""
    rng = random.Random(kind)
    source = tmp_path / "source"
    source.mkdir()
    make_model(source / "m.gguf", "--embd", "512", "--layers", "6", "--heads", "8", "--kv-heads", "8", "--head-dim", "64", "--ff", "2048",
               "--vocab", "600", "--type", "F16")
    model = victim = "m.gguf"
    if kind == "last part":
        subprocess.run([f"{TOOLS}/mksplit", source / "m.gguf", "3", source / "s"], check=True, capture_output=True)
        model, victim = "s-00001-of-00003.gguf", "s-00003-of-00003.gguf"
    elif kind == "folder":
        model, victim = "hf", "hf/model.safetensors"
        write_folder(source / "hf", *hf_parts("qwen2"))
    args = [BIN, "generate", "--prompt", "a", "--max-tokens", "1", "--threads", "1", "--log-level", "off", "--model"]
    begin = time.monotonic()
    subprocess.run([*args, source / model], check=True, capture_output=True, timeout=120)
    took, statuses = time.monotonic() - begin, []
    for i in range(25):
        folder = tmp_path / f"{i}"
        shutil.copytree(source, folder)
        run = subprocess.Popen([*args, folder / model], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        time.sleep(rng.random() * took)
        cut(folder / victim, rng.random())
        err = run.communicate(timeout=120)[1].decode(errors="replace")
        assert run.returncode == 0 or (run.returncode == 1 and pathlib.Path(victim).name in err), (run.returncode, err)
        statuses.append(run.returncode)
        shutil.rmtree(folder)
    assert 1 in statuses


# ---- a disk that cannot be read


@pytest.fixture
def disk(tmp_path):
    data = make_model(tmp_path / "m.gguf", *SHAPE).read_bytes()
    (tmp_path / "disk").mkdir()
    try:
        made = BadDisk(tmp_path / "disk", data)
    except OSError as e:
        pytest.skip(f"skip: no file system of our own can be mounted: {e.strerror}")
    yield made
    made.close()


def run(command, folder, *flags):
    args = [BIN, *COMMANDS[command], f"{folder}/m.gguf", *flags]
    done = subprocess.run(args, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
    return done.returncode, done.stdout, done.stderr.decode(errors="replace")


@pytest.mark.parametrize("at", [0, 0.001, 0.5, 0.99])
@pytest.mark.parametrize("command", list(COMMANDS))
def test_bad_disk(disk, command, at):
    """Reads fail in the keys, or in the weights, of which some commands read none."""
    disk.fails_at = int(len(disk.data) * at)
    if command == "serve" or at < 0.02 or command in ("generate", "score"):
        status, _, err = run(command, disk.folder)
        assert status == 1 and disk.n_failed > 0, (status, err)
        assert "m.gguf: the file was truncated while it was read, or cannot be read" in err, err
    else:
        assert run(command, disk.folder)[0] == 0


def test_bad_disk_that_recovers(disk, tmp_path):
    """The zeros that stood for what could not be read are not in the weight cache of the next start."""
    (tmp_path / "cache").mkdir()
    flags = ["--weight-cache", str(tmp_path / "cache")]
    expected = run("generate", tmp_path)[1]
    disk.fails_at = len(disk.data) * 3 // 4
    assert run("generate", disk.folder, *flags)[0] == 1 and disk.n_failed > 0
    assert not list((tmp_path / "cache").iterdir())
    disk.fails_at = None
    for _ in range(2):
        status, out, err = run("generate", disk.folder, *flags)
        assert status == 0 and out == expected, err
