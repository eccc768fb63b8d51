"""Models in several files, models behind 4 GiB, and the memory that packing takes."""
import os
import pathlib
import re
import subprocess
import sys
import time

import pytest

from quire import BIN, TOOLS, Server, make_model

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "reference"))

import fixtures  # noqa: E402
import gguf_file  # noqa: E402


def quire(*args, status=0):
    done = subprocess.run([BIN, *map(str, args)], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == status, done.stderr
    return done


def generate(model, *flags):
    """What it writes, and its log."""
    done = quire("generate", "--model", model, "--prompt", "a b", "--max-tokens", 12, "--temperature", 0, *flags)
    return done.stdout, done.stderr


@pytest.fixture
def parts(tmp_path):
    """A model, and its three parts."""
    whole = make_model(tmp_path / "m.gguf", "--arch", "qwen2", "--embd", "128", "--layers", "3", "--heads", "4",
                       "--kv-heads", "2", "--head-dim", "32", "--ff", "256", "--vocab", "500", "--context", "256",
                       "--type", "Q8_0")
    subprocess.run([f"{TOOLS}/mksplit", whole, "3", tmp_path / "s"], check=True)
    return whole, [tmp_path / f"s-0000{i + 1}-of-00003.gguf" for i in range(3)]


def test_any_part_opens_all(parts):
    whole, files = parts
    expected = generate(whole)[0]
    assert expected
    for f in files:
        text, log = generate(f)
        assert text == expected and 'model="s" ' in log


def test_inspect(parts):
    whole, files = parts
    one, all_ = quire("inspect", whole).stdout, quire("inspect", files[1]).stdout
    tensors = re.compile(r"^  \S+ +\w+ +\d+ .*bytes\)$", re.M)
    assert sorted(tensors.findall(one)) == sorted(tensors.findall(all_)) != []
    for f in files:
        assert f"  {f}: {f.stat().st_size} bytes, " in all_


def serve(model, *flags):
    """(text, log) of a server with a weight cache, once the cache is there."""
    s = Server("--weight-cache", "on", *flags, model=model)
    text = s.complete([5, 6, 7], max_tokens=12, temperature=0, ignore_eos=True).text
    done = ("weights=cached", "event=weight-cache-written", "event=weight-cache-failed")
    begin = time.monotonic()
    while not any(d in s.read_log() for d in done) and time.monotonic() - begin < 30:
        time.sleep(0.02)
    assert s.stop() == 0
    return text, s.read_log()


def test_weight_cache(parts):
    """One cache for the set; another time of any part makes it another model."""
    _, files = parts
    first, log = serve(files[0])
    assert "weights=packed" in log and "event=weight-cache-written" in log
    assert pathlib.Path(f"{files[0]}.quire-cache").exists()
    text, log = serve(files[2])
    assert text == first and "weights=cached" in log
    os.utime(files[2], ns=(1, 1))
    text, log = serve(files[0])
    assert text == first and "weights=packed" in log and "the model file has another modification time" in log


def test_a_part_is_missing(parts):
    _, files = parts
    files[1].unlink()
    for f in (files[0], files[2]):
        done = quire("generate", "--model", f, "--prompt", "a", status=1)
        assert done.stderr.count("\n") == 1
        assert done.stderr == f"quire: {files[1]}: cannot open: No such file or directory\n"


def test_parts_of_two_models(parts, tmp_path):
    _, files = parts
    other = make_model(tmp_path / "o.gguf", "--arch", "qwen2", "--embd", "128", "--layers", "1", "--heads", "4",
                       "--kv-heads", "2", "--head-dim", "32", "--ff", "256", "--vocab", "500", "--context", "256",
                       "--type", "Q8_0")
    subprocess.run([f"{TOOLS}/mksplit", other, "3", tmp_path / "o"], check=True)
    (tmp_path / "o-00002-of-00003.gguf").rename(files[1])
    done = quire("generate", "--model", files[0], "--prompt", "a", status=1)
    assert str(tmp_path) in done.stderr and done.stderr.count("\n") == 1


def test_tensors_behind_4_gib(tmp_path):
    """Half of the tensors behind a hole of 5 GiB: the same answers as without."""
    data = fixtures.make("qwen2", "plain", "Q8_0")
    (tmp_path / "small.gguf").write_bytes(data)
    keys, tensors = gguf_file.read_parts(data)
    plain = gguf_file.write(keys, tensors)
    head_len = len(plain) - sum(len(gguf_file.pad(t[2])) for t in tensors.values())
    names = list(tensors)
    far = set(names[len(names) // 2:])
    hole = 5 << 30
    # The infos again with other offsets: of the same length.
    head = bytearray(plain[:head_len])
    offset = 0
    for name in names:
        at = head.rindex(gguf_file.put_string(name)) + 8 + len(name)
        at += 4 + 8 * int.from_bytes(head[at:at + 4], "little") + 4
        head[at:at + 8] = (offset + (hole if name in far else 0)).to_bytes(8, "little")
        offset += len(gguf_file.pad(tensors[name][2]))
    path = tmp_path / "far.gguf"
    with open(path, "wb") as f:
        f.write(head)
        offset = 0
        for name in names:
            f.seek(head_len + offset + (hole if name in far else 0))
            f.write(gguf_file.pad(tensors[name][2]))
            offset += len(gguf_file.pad(tensors[name][2]))
    assert path.stat().st_size > hole and path.stat().st_blocks * 512 < 16 << 20
    assert generate(path)[0] == generate(tmp_path / "small.gguf")[0]


def test_memory_while_packing(tmp_path):
    """Pages of the file are let go of as they are packed."""
    path = make_model(tmp_path / "big.gguf", "--arch", "qwen2", "--embd", "1024", "--layers", "20", "--heads", "16",
                      "--kv-heads", "4", "--head-dim", "64", "--ff", "3584", "--vocab", "16000", "--context", "512",
                      "--type", "Q8_0")
    assert path.stat().st_size > 280 << 20
    # A process counts what its parent had when it was forked, and this one is large: so a small one starts it.
    run = subprocess.run([sys.executable, "-c", "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, "
                          "stdout=subprocess.DEVNULL); print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)",
                          BIN, "generate", "--model", path, "--prompt", "a", "--max-tokens", "1", "--kv-memory", "2m",
                          "--max-batch-tokens", "256", "--prefill-chunk", "16", "--threads", "2"],
                         capture_output=True, text=True, check=False, timeout=300)
    log = run.stderr
    assert run.returncode == 0, log
    packed = int(re.search(r"weights_bytes=(\d+)", log)[1])
    assert packed > 280 << 20
    assert packed <= int(run.stdout) * 1024 < packed + (64 << 20)
