"""Small limits, files that change or lead elsewhere: a sentence, never a signal."""
import os
import pathlib
import shutil
import signal
import subprocess
import time

import pytest

from quire import BIN, DEBUG_BIN, SANITIZED, TOOLS, Server, make_key, make_model, serve_in_vain
from test_safetensors import parts as hf_parts, write_folder

SMALL = ["--arch", "qwen2", "--embd", "128", "--layers", "3", "--heads", "4", "--kv-heads", "2", "--head-dim", "32",
         "--ff", "256", "--vocab", "500", "--context", "256", "--type", "Q8_0"]


def under(limits, *args, binary=BIN, timeout=120, before=""):
    """The exit status and what it said; started servers are told to stop once they are ready."""
    script = f'{before} ulimit {limits} || exit 99; exec "$0" "$@"'
    p = subprocess.Popen(["bash", "-c", script, binary, *map(str, args)], stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True)
    return end(p, args[0] == "serve", timeout=timeout)


def end(p, is_server, pause=0.3, timeout=30):
    """The exit status and what it said, in all; a server is told to stop a moment after its first line."""
    try:
        first = p.stdout.readline() if is_server else ""
        if is_server:
            time.sleep(pause)
            p.send_signal(signal.SIGTERM)
        out, err = p.communicate(timeout=timeout)
    finally:
        p.kill()
        p.wait()
    return p.returncode, first + out, err


def accept(limits, status, err):
    """It served and ended, or it said why not: exit statuses of ours, or of the dynamic loader."""
    assert status in (0, 1, 2, 127), f"{limits}: ended with {status}: {err}"
    if status == 127:
        assert "error while loading shared libraries" in err
    elif status:
        assert "quire: " in err, f"{limits}: no sentence: {err!r}"


# ---- limits

@pytest.mark.skipif(SANITIZED, reason="a sanitizer needs terabytes of addresses")
@pytest.mark.parametrize("begin, end, step", [(12500, 70000, 2500),  # the program alone takes 10000
                                               (70000, 130000, 5000), (150000, 400001, 50000)])
def test_limits_on_addresses(begin, end, step):
    for kb in range(begin, end, step):
        limits = f"-v {kb}"
        status, _, err = under(limits, "serve", "--port", 0, "--kv-memory", "1m", "--swap-ram", 0, "--max-sequences", 4,
                               "--max-batch-tokens", 16)
        accept(limits, status, err)


@pytest.mark.skipif(SANITIZED, reason="a sanitizer needs terabytes of addresses")
@pytest.mark.parametrize("kb", [18000, 20000, 25000, 40000, 60000, 80000])
@pytest.mark.parametrize("command", [("generate", "--prompt", "x", "--max-tokens", 1), ("inspect", ""), ("plan",)])
def test_limits_on_addresses_of_commands(command, kb):
    status, _, err = under(f"-v {kb}", *command)
    accept(kb, status, err)


@pytest.mark.skipif(SANITIZED, reason="a sanitizer opens files itself")
@pytest.mark.parametrize("limits", ["-n 16", "-n 12", "-n 8", "-n 6", "-n 5", "-n 4", "-f 0", "-l 0", "-s 128", "-d 1000",
                                    "-d 20000"])
def test_small_limits(limits):
    status, _, err = under(limits, "serve", "--port", 0)
    accept(limits, status, err)


@pytest.mark.skipif(SANITIZED or os.geteuid() != 0 or not shutil.which("setpriv"),
                    reason="needs root and setpriv to become a user who has the limit")
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6, 8, 12])
def test_limits_on_threads(n, tmp_path):
    binary = shutil.copy(BIN, tmp_path / "quire")
    for folder in [tmp_path, *tmp_path.parents[:-2]]:
        folder.chmod(0o755)
    script = f'ulimit -u {n}; exec setpriv --reuid=65123 --regid=65123 --clear-groups "$0" serve --port 0 --threads 4'
    p = subprocess.Popen(["bash", "-c", script, binary], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    status, _, err = end(p, True, pause=0.5, timeout=60)
    accept(f"-u {n}", status, err)


# ---- symbolic links

@pytest.mark.parametrize("flags", [["--journal"], ["--log-file"], ["--swap-file-size", "64m", "--swap-file"]])
@pytest.mark.parametrize("dangles", [False, True])
def test_nothing_is_written_through_a_link(flags, dangles, tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    if not dangles:
        target.write_text("")
    link.symlink_to(target)
    run = serve_in_vain(*flags, link)
    assert run.returncode in (1, 2) and "symbolic link" in run.stderr and str(link) in run.stderr, run.stderr
    assert link.is_symlink()
    assert not target.exists() if dangles else target.read_text() == ""


def test_no_socket_through_a_link(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "target")
    run = serve_in_vain("--unix-socket", tmp_path / "link")
    assert run.returncode == 1 and "cannot listen on" in run.stderr
    assert not (tmp_path / "target").exists() and (tmp_path / "link").is_symlink()


def test_no_weight_cache_through_a_link(start, tmp_path):
    model = make_model(tmp_path / "m.gguf", *SMALL)
    (tmp_path / "m.gguf.quire-cache.new").symlink_to(tmp_path / "target")
    s = start("--weight-cache", "on", model=model)
    begin = time.monotonic()
    while "weight-cache-not-written" not in s.read_log():
        assert time.monotonic() - begin < 30
        time.sleep(0.05)
    assert "ELOOP" in s.read_log() and not (tmp_path / "target").exists()


@pytest.mark.parametrize("flags, mode", [(["--journal"], 0o600), (["--log-file"], 0o640),
                                         (["--swap-file-size", "64m", "--swap-file"], 0o600)])
def test_files_are_not_for_others(start, flags, mode, tmp_path):
    start(*flags, str(tmp_path / "file"))
    assert (tmp_path / "file").stat().st_mode & 0o777 & ~mode == 0


# ---- files that change while they are read

class Reading(Server):
    """A server of the debug build that holds when its model's files are open."""

    def __init__(self, folder, model, *flags):
        self.fifo = folder / "hold"
        os.mkfifo(self.fifo)
        super().__init__(*flags, model=model, binary=DEBUG_BIN, ready=False,
                         env={"QUIRE_DEBUG_HOLD_READ": str(self.fifo)})
        begin = time.monotonic()
        while True:  # until the other end is open
            try:
                self.end = os.open(self.fifo, os.O_WRONLY | os.O_NONBLOCK)
                break
            except OSError:
                assert time.monotonic() - begin < 60 and self.process.poll() is None, self.read_log()
                time.sleep(0.01)

    def go_on(self):
        os.close(self.end)
        return self.process.wait(120)


@pytest.fixture
def reading(tmp_path):
    running = []

    def make(model, *flags):
        running.append(Reading(tmp_path, model, *flags))
        return running[-1]

    yield make
    for s in running:
        s.process.kill()
        s.process.wait()


@pytest.mark.parametrize("left", [0, 0.01, 0.5, 0.999])
@pytest.mark.parametrize("kind", ["whole", "part", "last part", "safetensors"])
def test_a_file_cut_short_while_it_is_read(reading, tmp_path, kind, left):
    model = tmp_path / "m.gguf"
    if kind == "safetensors":
        model = tmp_path / "folder"
        keys, tensors = hf_parts("llama")
        write_folder(model, keys, tensors)
        victim = model / "model.safetensors"
    else:
        make_model(model, *SMALL)
        victim = model
        if kind != "whole":
            subprocess.run([f"{TOOLS}/mksplit", model, "3", tmp_path / "s"], check=True, capture_output=True)
            model = tmp_path / "s-00001-of-00003.gguf"
            victim = tmp_path / ("s-00002-of-00003.gguf" if kind == "part" else "s-00003-of-00003.gguf")
    s = reading(model)
    os.truncate(victim, int(victim.stat().st_size * left))
    assert s.go_on() in (1, 2), s.read_log()
    log = s.read_log()
    assert victim.name in log and ("truncated" in log or "changed" in log) and log.count("\n") == 1, log


@pytest.mark.parametrize("byte", [b"\0", b"\xff", b"\x01"])
def test_a_file_overwritten_while_it_is_read(reading, tmp_path, byte):
    """Lengths that were checked are not read again."""
    model = make_model(tmp_path / "m.gguf", *SMALL)
    s = reading(model)
    with open(model, "r+b") as f:
        f.write(byte * model.stat().st_size)
    assert s.go_on() in (1, 2), s.read_log()
    assert "m.gguf" in s.read_log()


def test_a_file_cut_short_after_the_load(start, tmp_path):
    """Nothing of it is read any more."""
    model = make_model(tmp_path / "m.gguf", *SMALL)
    s = start(model=model)
    os.truncate(model, 0)
    assert s.complete("Once", max_tokens=4).status == 200
    assert pathlib.Path(f"/proc/{s.pid}/maps").read_text().count(str(model)) == 0


# ---- the first process of a container

@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("unshare"), reason="needs root and unshare")
def test_as_process_1(tmp_path):
    """Signals have no defaults there, orphans become its children, and it ends when told."""
    script = '(sleep 0.2 & sleep 0.3 &); exec "$0" serve --port 0'
    p = subprocess.Popen(["unshare", "--pid", "--fork", "--kill-child", "bash", "-c", script, BIN],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert p.stdout.readline().startswith("listening on")
        children = pathlib.Path(f"/proc/{p.pid}/task/{p.pid}/children").read_text().split()
        assert len(children) == 1
        me = int(children[0])
        begin = time.monotonic()
        while pathlib.Path(f"/proc/{me}/task/{me}/children").read_text().split():
            assert time.monotonic() - begin < 20, "a zombie is left"
            time.sleep(0.05)
        for sig in (signal.SIGUSR1, signal.SIGHUP, signal.SIGUSR2, signal.SIGALRM, signal.SIGPIPE):
            os.kill(me, sig)
        time.sleep(0.3)
        os.kill(me, signal.SIGTERM)
        _, err = p.communicate(timeout=30)
        assert p.returncode == 0 and "stopped=1" in err
    finally:
        p.kill()
        p.wait()


# ---- who can get there

@pytest.mark.parametrize("host, flags, warned", [
    ("0.0.0.0", [], True), ("::", [], True), ("0.0.0.0", ["--insecure", "on"], False), ("127.0.0.1", [], False),
    ("127.1.2.3", [], False), ("localhost", [], False), ("::1", [], False), ("0.0.0.0", ["--api-keys"], False)])
def test_a_warning_when_strangers_can_connect(host, flags, warned, tmp_path):
    if flags == ["--api-keys"]:
        keys = tmp_path / "keys"
        keys.write_text(make_key("a")[0])
        flags = [*flags, str(keys)]
    p = subprocess.Popen([BIN, "serve", "--port", "0", "--host", host, *flags], stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True)
    _, said, err = end(p, True)
    if "Cannot assign" in said or (not said and ":" in host):
        pytest.skip("skip: no IPv6 here")
    assert ("WITHOUT API KEYS" in said) == warned
    assert err.count("event=no_api_keys") == warned
