"""What a serving process cannot do any more, and what it still must, under sandbox = strict."""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

import pytest

from quire import BIN, DEBUG_BIN, TOOLS, Server, in_threads, make_model
from test_keys import Keys, reload_files
from test_limits_of_the_system import SMALL
from test_swap import TINY, answer_of, files, jobs_for
from test_tls import make_certificate, subject, trusting

STRICT = ["--sandbox", "strict"]
SIGSYS = 31


def probe():
    """What this machine and build have: the line of a server that starts with auto."""
    s = Server()
    line = re.search(r"event=sandbox .*", s.read_log())[0]
    s.stop()
    return line


@pytest.fixture(scope="module")
def line():
    return probe()


@pytest.fixture(scope="module", autouse=True)
def whole_sandbox(line):
    if "landlock=abi" not in line or "seccomp=on" not in line:
        pytest.skip(f"skip: this kernel or build has no whole sandbox: {line}")


def tried(attempts, where, *flags, env=None):
    """{attempt: result} of a debug server whose thread tried them, with the server; None: it died of SIGSYS."""
    p = subprocess.Popen([DEBUG_BIN, "serve", "--port", "0", *STRICT, *flags], stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True,
                         env={**os.environ, "QUIRE_DEBUG_FORBIDDEN": ",".join(attempts), "QUIRE_DEBUG_FORBIDDEN_IN": where,
                              **(env or {})})
    out = ""
    try:
        for line in p.stderr:
            out += line
            if "event=ready" in line:
                p.send_signal(signal.SIGTERM)
        status = p.wait(30)
    finally:
        p.kill()
        p.wait()
    if status == -SIGSYS:
        return None, out
    assert status == 0, out
    return {m[1]: m[2] for m in re.finditer(rf'event=probe where={where} attempt="(.*?)" result=(\w+)', out)}, out


# ---- what is refused

@pytest.mark.parametrize("where", ["io", "pool", "new"])
def test_files_elsewhere(where, tmp_path):
    mine = tmp_path / "mine"
    mine.write_text("x")
    paths = [f"{what}:{path}" for what, path in [
        ("read", "/etc/passwd"), ("read", "/etc/shadow"), ("read", "/root"), ("read", mine), ("write", mine),
        ("make", tmp_path / "new"), ("remove", mine), ("link", tmp_path / "link"), ("folder", tmp_path / "folder"),
        ("chmod", mine), ("read", "/proc/1/environ"), ("read", "/dev/zero"), ("read", BIN)]]
    results, out = tried(paths, where)
    refusals = {p: "EPERM" if p.split(":")[0] in ("link", "folder", "chmod") else "EACCES" for p in paths}
    assert results == refusals, out
    assert sorted(p.name for p in tmp_path.iterdir()) == ["mine"] and mine.read_text() == "x"


@pytest.mark.parametrize("where", ["io", "pool", "new"])
def test_calls_that_are_refused(where):
    attempts = ["socket", "limit", "kill_parent", "mmap_exec", "mprotect_exec"]
    results, out = tried(attempts, where)
    assert {a: results[a] for a in attempts[:3]} == dict.fromkeys(attempts[:3], "EPERM"), out
    assert all(results[a] in ("EPERM", "EACCES") for a in attempts[3:]), out
    assert len(re.findall(r"W sandbox event=refused syscall=\d+", out)) >= 3


@pytest.mark.parametrize("where", ["io", "pool", "new"])
@pytest.mark.parametrize("attempt", ["exec", "fork", "ptrace", "memfd", "setuid"])
def test_calls_that_end_the_process(where, attempt):
    results, out = tried([attempt], where)
    assert results is None, out


@pytest.mark.parametrize("where", ["early", "io", "pool", "new"])
def test_no_ring_of_io_uring(where):
    """Files and sockets are opened by a ring's means where no filter looks; libuv makes one with its loop, before the filter is
    there, and aborts where it cannot use it: so it never has one."""
    results, out = tried(["ring"], where)
    assert results == {"ring": "ENOSYS"}, out


@pytest.mark.parametrize("where", ["io", "pool", "new"])
def test_calls_that_this_list_does_not_know(where):
    """As on a kernel without them, and also where signals are blocked: libraries try younger calls, and then go on without."""
    results, out = tried(["unknown"], where)
    assert results == {"unknown": "ENOSYS"} and "event=refused" not in out, out


def test_refusals_are_counted(start):
    s = start(*STRICT, binary=DEBUG_BIN, env={"QUIRE_DEBUG_FORBIDDEN": "socket,limit"})
    assert s.metrics()["quire_sandbox_refused_total"] == 6  # of three threads
    assert s.complete("Once", max_tokens=4).status == 200


def test_off_forbids_nothing(start):
    s = start("--sandbox", "off", binary=DEBUG_BIN, env={"QUIRE_DEBUG_FORBIDDEN": "read:/etc/passwd,socket,mmap_exec"})
    log = s.read_log()
    assert "event=sandbox state=off reason=setting" in log and log.count("result=ok") == 12, log


def test_every_thread_is_in_it(start):
    s = start(*STRICT, "--threads", "3")
    s.complete("Once", max_tokens=4)
    tasks = list(pathlib.Path(f"/proc/{s.pid}/task").iterdir())
    assert len(tasks) >= 8
    for task in tasks:
        status = (task / "status").read_text()
        for name, value in [("NoNewPrivs", "1"), ("Seccomp", "2"), ("CapEff", "0" * 16), ("CapPrm", "0" * 16)]:
            assert re.search(rf"^{name}:\s+{value}$", status, re.M), (name, status)
    assert s.metrics()["quire_sandbox_refused_total"] == 0


def test_it_is_told(line, start):
    assert re.fullmatch(r"event=sandbox state=on landlock=abi\d+ seccomp=on mdwe=(on|none) no_new_privs=on "
                        r"capabilities=[\w-]+", line)
    if os.geteuid() == 0:
        assert "capabilities=dropped" in line


# ---- what still works

def replace(source, target):
    """As a careful program does it: the new file takes the old one's place."""
    shutil.copy(source, str(target) + ".new")
    os.replace(str(target) + ".new", target)


def test_new_keys_and_certificates(start, tmp_path):
    """Files that are replaced, not written over."""
    folder = tmp_path / "secrets"
    folder.mkdir()
    keys, more = Keys(folder / "keys"), Keys(tmp_path / "more")
    old, new = keys.add("a"), more.add("b")
    made = [make_certificate(tmp_path, name) for name in ("one", "two")]
    for source, name in zip(made[0], ("cert", "key")):
        shutil.copy(source, folder / name)
    s = start(*STRICT, "--api-keys", str(folder / "keys"), "--tls-certificate", str(folder / "cert"), "--tls-key",
              str(folder / "key"), tls=trusting(made[0][0], made[1][0]), key=old)
    assert s.get("/v1/models").status == 200 and subject(s) == "one"
    replace(more.path, folder / "keys")
    for source, name in zip(made[1], ("cert", "key")):
        replace(source, folder / name)
    reload_files(s, "event=reloaded what=certificate")
    assert "reload_failed" not in s.read_log()
    assert subject(s) == "two"
    assert s.get("/v1/models", headers={"Authorization": f"Bearer {new}"}).status == 200
    assert s.get("/v1/models", headers={"Authorization": f"Bearer {old}"}).status == 401


def test_certificates_behind_links(start, tmp_path):
    """As certbot renews them: links in one folder, files in another."""
    live, archive = tmp_path / "live", tmp_path / "archive"
    live.mkdir(), archive.mkdir()
    made = [make_certificate(tmp_path, name) for name in ("one", "two")]
    for n, pair in enumerate(made):
        for source, name in zip(pair, ("cert", "key")):
            shutil.copy(source, archive / f"{name}{n}")
    for name in ("cert", "key"):
        (live / name).symlink_to(archive / f"{name}0")
    s = start(*STRICT, "--tls-certificate", str(live / "cert"), "--tls-key", str(live / "key"),
              tls=trusting(made[0][0], made[1][0]))
    for name in ("cert", "key"):
        (live / "new").symlink_to(archive / f"{name}1")
        os.replace(live / "new", live / name)
    reload_files(s, "event=reloaded what=certificate")
    assert "reload_failed" not in s.read_log() and subject(s) == "two"


def wait_for(s, text, log=None):
    begin = time.monotonic()
    while text not in (log.read_text() if log else s.read_log()):
        assert time.monotonic() - begin < 30, s.read_log()
        time.sleep(0.02)


def test_everything_that_is_written(start, tmp_path):
    """Swap file, journal, log with rotation, weight cache, Unix socket, pinned threads, two models."""
    folders = {n: tmp_path / n for n in ("models", "swap", "logs", "journal", "cache", "run")}
    for f in folders.values():
        f.mkdir()
    one, two = (make_model(folders["models"] / f"{n}.gguf", *SMALL) for n in ("one", "two"))
    config = tmp_path / "quire.conf"
    log = folders["logs"] / "q.log"
    config.write_text(f"""
weight_cache = {folders["cache"]}
log_file = {log}
unix_socket = {folders["run"]}/socket
pin = cores
kv_memory = 1m
swap_ram = 0
[one]
model = {one}
swap_file = {folders["swap"]}/one
swap_file_size = 64m
journal = {folders["journal"]}/one
[two]
model = {two}
""")
    s = start("--config", str(config), *STRICT, model="")
    for name in ("one", "two"):
        assert s.complete([1, 2, 3], model=name, max_tokens=8).status == 200
    wait_for(s, "event=weight-cache-written", log)
    assert list(folders["cache"].iterdir())
    log.rename(folders["logs"] / "old.log")
    s.process.send_signal(signal.SIGUSR1)
    begin = time.monotonic()
    while not log.exists():
        assert time.monotonic() - begin < 20
        time.sleep(0.01)
    assert (folders["run"] / "socket").exists()
    assert s.stop() == 0
    assert not (folders["run"] / "socket").exists()
    assert "not-pinned" not in (folders["logs"] / "old.log").read_text()
    assert "event=refused" not in (folders["logs"] / "old.log").read_text() + log.read_text()


def test_swapping_to_a_file(start, tmp_path):
    (tmp_path / "swap").mkdir()
    s = start(*STRICT, *TINY, "--preemption", "swap", *files(tmp_path / "swap/f"), "--journal", str(tmp_path / "journal"))
    assert all(in_threads([lambda w=w: answer_of(s, w) for w in jobs_for(s, 12, seed=5)]))
    m = s.metrics()
    assert sum(v for k, v in m.items() if "swap" in k and "total" in k) > 0, s.gauges()
    assert m["quire_sandbox_refused_total"] == 0
    assert s.stop() == 0 and not (tmp_path / "swap/f").exists()
    assert (tmp_path / "journal").stat().st_size > 100


@pytest.mark.parametrize("form", ["linked file", "linked parts", "folder of links", "relative"])
def test_models_behind_links(start, tmp_path, form, monkeypatch):
    blobs, snap = tmp_path / "blobs", tmp_path / "snap"
    blobs.mkdir(), snap.mkdir()
    whole = make_model(blobs / "m.gguf", *SMALL)
    if form == "linked parts":
        subprocess.run([f"{TOOLS}/mksplit", whole, "3", blobs / "s"], check=True)
        for i in (1, 2, 3):
            (snap / f"s-0000{i}-of-00003.gguf").symlink_to(blobs / f"s-0000{i}-of-00003.gguf")
        model = snap / "s-00002-of-00003.gguf"
    else:
        (snap / "m.gguf").symlink_to(whole)
        model = snap if form == "folder of links" else snap / "m.gguf"
    if form == "relative":
        s = start(*STRICT, model=os.path.relpath(model))
    else:
        s = start(*STRICT, model=model)
    assert s.get("/v1/models").status == 200


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_root_keeps_what_it_needs_to_read(start, tmp_path):
    """A model of another user that only root's privilege opens."""
    model = make_model(tmp_path / "m.gguf", *SMALL)
    os.chown(model, 12345, 12345)
    model.chmod(0o600)
    s = start(*STRICT, model=model)
    assert "capabilities=kept-dac_read_search" in s.read_log()


def test_everything_else_is_answered(start):
    """Each kind of request, without a call that is refused."""
    s = start(*STRICT, "--log-level", "debug")
    s.complete("Once", max_tokens=8, n=2, logprobs=2)
    s.stream("Once", max_tokens=8).text()
    for path, body in [("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}], "max_tokens": 4}),
                       ("/tokenize", {"content": "a b"}), ("/v1/plan", {"prompt": "x"}),
                       ("/v1/completions", {"prompt": "x", "max_tokens": 8, "response_format": {
                           "type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "integer"}}}})]:
        assert s.post(path, body).status == 200, path
    for path in ("/health", "/ready", "/metrics", "/version", "/openapi.json", "/debug/kv", "/slots", "/props"):
        assert s.get(path).status == 200, path
    m = s.metrics()
    assert m["quire_sandbox_refused_total"] == 0
    assert m["process_open_fds"] > 5 and m["process_resident_memory_bytes"] > 1e6
