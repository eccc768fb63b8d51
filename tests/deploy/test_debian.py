"""The first hour on a clean Debian: `make run` installs what it needs, builds and answers in a whole sandbox, and the tests of sandbox and
TLS pass with the libraries of that Debian: `make test-debian SUITE=trixie`. Each release has another libuv, C library and compiler, and
the sandbox must know the system calls of all.
"""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import threading
import time

import pytest

from clean_debian import Root

SOURCES = pathlib.Path(__file__).parents[2]
SUITE = os.environ.get("QUIRE_SUITE", "trixie")
MISSING = [t for t in ("mmdebstrap", "curl", "unshare") if shutil.which(t) is None]
# What a chroot has not by itself; the mounts end with the namespace.
MOUNTS = "mount -t proc proc {0}/proc && mount --rbind /sys {0}/sys && mount --rbind /dev {0}/dev && exec chroot {0} \"$@\""
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "HOME": "/root", "DEBIAN_FRONTEND": "noninteractive"}

pytestmark = [pytest.mark.skipif(os.environ.get("QUIRE_SLOW") != "1", reason="skip: minutes (make test-debian)"),
              pytest.mark.skipif(MISSING != [], reason=f"skip: no {' and no '.join(MISSING)} (Debian packages)")]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = Root(tmp_path_factory.mktemp("debian") / "root", SUITE, "--include=make")
    names = subprocess.run(["git", "-C", SOURCES, "ls-files", "-z", "-c", "-o", "--exclude-standard"], capture_output=True, check=True).stdout
    (root.path / "quire").mkdir()
    subprocess.run(f"tar -C {SOURCES} --null --ignore-failed-read -T - -c | tar -C {root.path}/quire -x --no-same-owner", shell=True, input=names,
                   check=True)
    return root


def inside(root, command, **more):
    """A command of the shell in the sources' folder there."""
    return subprocess.Popen(["unshare", "--mount", "sh", "-c", MOUNTS.format(root.path), "sh", "sh", "-c", f"cd /quire && {command}"],
                            env=ENVIRONMENT, text=True, **more)


def output(root, command, timeout_s):
    p = inside(root, command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
    killer = threading.Timer(timeout_s, os.killpg, (p.pid, signal.SIGKILL))
    killer.start()
    out = p.communicate()[0]
    killer.cancel()
    assert p.returncode == 0, out[-8000:]
    return out


def test_make_run(root):
    log = root.path / "tmp/log"
    begin = time.monotonic()
    with log.open("w") as f:
        p = inside(root, "exec make run ARGS='--port 0'", stdout=subprocess.PIPE, stderr=f, start_new_session=True)
    try:
        url = next((m for m in (re.match(r"listening on (http://127\.0\.0\.1:\d+) ", line) for line in p.stdout) if m), None)
        assert url, log.read_text()
        ask = subprocess.run(["curl", "-sSf", "--noproxy", "*", "--retry", "30", "--retry-delay", "1", f"{url[1]}/v1/completions", "-H",
                              "Content-Type: application/json", "-d", '{"prompt": "Once upon a time", "max_tokens": 8}'],
                             capture_output=True, text=True, timeout=60, check=False)
        answered = time.monotonic()
        assert ask.returncode == 0, ask.stderr + log.read_text()
        assert json.loads(ask.stdout)["usage"]["completion_tokens"] == 8
    finally:
        os.killpg(p.pid, signal.SIGTERM)
        p.wait(30)
    told = re.search(r"event=sandbox .*", log.read_text())[0]
    print(f"{SUITE}: an answer {answered - begin:.0f} s after make run;", told)
    assert "state=on" in told and "seccomp=on" in told and "no_new_privs=on" in told, told
    assert "event=refused" not in log.read_text()


def isa_of(root):
    """Of the binary that `make run` has built."""
    return next((root.path / "quire/build").glob("quire-*")).name.removeprefix("quire-")


@pytest.mark.skipif(SUITE != "trixie", reason="skip: the Dockerfile is for Debian 13")
def test_image_has_the_libraries(root):
    """Its last stage installs the packages of the libraries that a binary of that Debian asks for, and no other library."""
    stage = (SOURCES / "docker/Dockerfile").read_text().rpartition("FROM debian:13-slim\n")[2]
    listed = re.findall(r"\bz?lib[\w.+-]+(?= )", re.search(r"install -y --no-install-recommends (.*?)&&", stage, re.S)[1])
    asked = output(root, f"for l in $(readelf -d build/quire-{isa_of(root)} | sed -n 's/.*(NEEDED).*\\[\\(.*\\)\\]/\\1/p'); do "
                         "dpkg-query -S \"*/lib/$(uname -m)-linux-gnu/$l\" || exit 1; done", 60)
    assert set(listed) == {line.split(":")[0] for line in asked.splitlines()} - {"libc6"}


def test_sandbox_and_tls(root):
    """With the kernels of `make run`: they are the same in every build."""
    isa = isa_of(root)
    debug = f"BUILD=build/debug CFLAGS='-O2 -g -DQUIRE_DEBUG' NATIVE={isa}"
    output(root, f"make deps-test && make NATIVE={isa} build/tools/mkmodel build/tools/mksplit && "
                 f"make {debug} build/debug/quire-{isa} build/debug/tests/unit/server/test_worker_pool", 900)
    output(root, "build/debug/tests/unit/server/test_worker_pool", 60)
    out = output(root, f"QUIRE_THREADS=1 QUIRE_BIN=build/quire-{isa} QUIRE_DEBUG_BIN=build/debug/quire-{isa} QUIRE_TOOLS=build/tools "
                       "python3 -m pytest -q -rs -p no:cacheprovider tests/e2e/test_sandbox.py tests/e2e/test_tls.py", 600)
    assert re.search(r"\b[1-9]\d passed", out) and "failed" not in out, out[-4000:]
    print(out[-400:])


@pytest.mark.skipif(os.environ.get("QUIRE_WHOLE") != "1", reason="skip: a quarter of an hour (make test-debian WHOLE=1)")
def test_make_test(root):
    """The suite that the README names, from the clone's first state: what was built above is swept away."""
    version = subprocess.run(["git", "-C", SOURCES, "describe", "--tags", "--always"], capture_output=True, text=True, check=True).stdout.strip()
    out = output(root, f"make clean && make test VERSION={version}", 4500)  # there is no git there
    told = re.findall(r"(?:\d+ (?:failed|errors?|skipped), )*[1-9]\d* passed.*", out)
    print(f"{SUITE}:", *told, sep="\n")
    assert told != [], out[-4000:]
