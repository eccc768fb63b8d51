"""`quire batch`: a file of requests answered without a server, stopped and gone on with."""
import json
import os
import pty
import re
import signal
import subprocess
import time

import pytest

from batch_calls import answers, line, lines_of
from quire import BIN, MODEL, cache_of

SHORT = {"max_tokens": 16, "ignore_eos": True}


def args_of(source, out, *flags, binary=BIN):
    return [binary, "batch", str(source), "-o", str(out), *(["--model", MODEL] if MODEL else []), *cache_of(binary, flags),
            *flags]


def run(source, out, *flags, **kw):
    return subprocess.run(args_of(source, out, *flags, **kw), capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "in.jsonl"
    items = [line(f"r{i}", {"prompt": f"Once {i}", "temperature": 1.0, **SHORT}) for i in range(60)]
    chat = {"messages": [{"role": "user", "content": "Hi"}], **SHORT}
    path.write_bytes(lines_of(items + [line("chat", chat, "/v1/chat/completions"), line("bad", {"prompt": 5})]))
    return path


def read(path):
    return [json.loads(text) for text in path.read_bytes().splitlines()]


def test_a_file(source, tmp_path):
    """All lines, of any endpoint, errors among them; the same again does nothing."""
    out = tmp_path / "out.jsonl"
    r = run(source, out)
    assert r.returncode == 0 and r.stdout == "", r.stderr
    assert re.search(r"^62 of 62 lines \(errors: 1\), \d+ tokens/s, \d+:\d\d in all$", r.stderr, re.M), r.stderr
    found = answers(read(out))
    assert len(found) == 62 and found["bad"][0] == 400 and found["chat"][0] == 200
    assert len({str(v) for v in found.values()}) > 50
    before = out.read_bytes()
    r = run(source, out)
    assert r.returncode == 0 and "62 of 62 lines" in r.stderr and out.read_bytes() == before
    other = tmp_path / "other.jsonl"
    assert run(source, other, "--batch-streams", "1").returncode == 0
    assert answers(read(other)) == found, "seeds follow from the input"


def test_a_torn_file(source, tmp_path):
    """Whatever was written stays, and the rest is as it would have been."""
    out = tmp_path / "out.jsonl"
    assert run(source, out).returncode == 0
    whole = out.read_bytes()
    for n in (1, len(whole) // 3, len(whole) - 1):
        out.write_bytes(whole[:n])
        assert run(source, out).returncode == 0
        kept = whole[:n].rfind(b"\n") + 1
        assert out.read_bytes()[:kept] == whole[:kept]
        assert answers(read(out)) == answers(map(json.loads, whole.splitlines()))


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_stopped_and_gone_on_with(source, tmp_path, how):
    source.write_bytes(lines_of([line(f"r{i}", {"prompt": f"Once {i}", **SHORT, "max_tokens": 60}) for i in range(200)]))
    out = tmp_path / "out.jsonl"
    p = subprocess.Popen(args_of(source, out, "--batch-streams", "2"), stderr=subprocess.PIPE, text=True)
    begin = time.monotonic()
    while not out.exists() or out.read_bytes().count(b"\n") < 10:
        assert p.poll() is None and time.monotonic() - begin < 60
        time.sleep(0.005)
    p.send_signal(how)
    said = p.communicate(timeout=60)[1]
    n = out.read_bytes().count(b"\n")
    assert 10 <= n < 200, "it was over before it was stopped"
    if how == signal.SIGINT:
        assert p.returncode == 1 and f"stopped: {n} of 200 lines are answered" in said, said
    r = run(source, out)
    assert r.returncode == 0, r.stderr
    assert len(answers(read(out))) == 200


def test_a_terminal_has_a_bar(source, tmp_path):
    here, there = pty.openpty()
    p = subprocess.Popen(args_of(source, tmp_path / "out.jsonl"), stderr=there, stdout=subprocess.PIPE)
    os.close(there)
    shown = b""
    try:
        while piece := os.read(here, 4096):
            shown += piece
    except OSError:  # the other side is closed
        pass
    assert p.wait(60) == 0 and p.stdout.read() == b""
    assert b"\r[" + b"=" * 30 + b"] 62 of 62 lines (errors: 1), " in shown, shown
    os.close(here)


def test_what_is_refused(source, tmp_path):
    out = tmp_path / "out.jsonl"
    for args in ([], [str(source)], ["-o", str(out)]):
        r = subprocess.run([BIN, "batch", *args], capture_output=True, text=True, timeout=60, check=False)
        assert r.returncode == 2 and "quire batch --help" in r.stderr, r.stderr
    assert run(tmp_path / "none", out).returncode == 1
    r = run(source, source)
    assert r.returncode == 2 and "must not be the input file" in r.stderr
    out.write_text("something else\n")
    r = run(source, out)
    assert r.returncode == 1 and "which would be lost" in r.stderr and out.read_text() == "something else\n"
    out.unlink()
    source.write_bytes(b"{\n" + lines_of([line("a", {"prompt": "x", "stream": True})]))
    r = run(source, out)
    assert r.returncode == 1 and "line 1: the line cannot be parsed" in r.stderr and "line 2: " in r.stderr, r.stderr
    assert out.read_bytes() == b""


def test_help():
    r = subprocess.run([BIN, "batch", "--help"], capture_output=True, text=True, timeout=60, check=True)
    assert "quire batch IN.jsonl -o OUT.jsonl" in r.stdout
