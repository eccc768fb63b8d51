"""`make deb`: lintian has nothing to say, and in a clean Debian of the same release the package is installed with what it needs, its service
answers, and a purge leaves nothing behind: `make test-deb`.

Where systemd cannot be started (a container), the unit's command is run as the unit's user in its folder.
"""
import gzip
import json
import os
import pathlib
import re
import shutil
import signal
import stat
import subprocess

import pytest

from clean_debian import SUITE_HERE, Root

DEB = os.environ.get("QUIRE_DEB", "")
MISSING = [t for t in ("mmdebstrap", "lintian", "curl", "systemd-analyze") if shutil.which(t) is None]
# What the package manager writes for itself, and what is the system's own.
OTHERS = re.compile(r"(proc|sys|dev|tmp|run|var/lib/(dpkg|apt)|var/cache|var/log|etc/ld\.so\.cache|etc/(passwd|group|shadow|gshadow)-|"
                    r"etc/\.pwd\.lock|root/\.\w+)(/|$)")

pytestmark = [pytest.mark.skipif(os.environ.get("QUIRE_SLOW") != "1", reason="skip: a minute (make test-deb)"),
              pytest.mark.skipif(MISSING != [], reason=f"skip: no {' and no '.join(MISSING)} (Debian packages)")]


def listing(root):
    """{path: what it is}, with the contents of files."""
    found = {}
    for folder, names, files in os.walk(root):
        for name in names + files:
            path = os.path.join(folder, name)
            short = os.path.relpath(path, root)
            if OTHERS.match(short):
                continue
            s = os.lstat(path)
            content = os.readlink(path) if stat.S_ISLNK(s.st_mode) else pathlib.Path(path).read_bytes() if stat.S_ISREG(s.st_mode) else b""
            found[short] = (stat.S_IFMT(s.st_mode), stat.S_IMODE(s.st_mode), s.st_uid, s.st_gid, content)
        names[:] = [n for n in names if not OTHERS.match(os.path.relpath(os.path.join(folder, n), root))]
    return found


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return Root(tmp_path_factory.mktemp("debian") / "root", SUITE_HERE)


def test_lintian():
    run = subprocess.run(["lintian", "--allow-root", "--fail-on", "error,warning", DEB], capture_output=True, text=True, timeout=120,
                         check=False)
    assert run.returncode == 0 and run.stdout == "", run.stdout + run.stderr


def value_of(unit, key):
    return re.search(rf"^{key}=(.*)$", unit, re.M)[1]


def check_unit(root):
    """systemd reads it without a warning, and finds little that it exposes."""
    unit = root.path / "lib/systemd/system/quire.service"
    run = subprocess.run(["systemd-analyze", "security", "--offline=true", "--threshold=25", unit], capture_output=True, text=True,
                         check=False)
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr
    run = subprocess.run(["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", f"--root={root.path}", unit],
                         capture_output=True, text=True, check=False)
    assert "quire.service" not in run.stderr, run.stderr
    return unit.read_text()


def ask(root, unit):
    """The service's command as its user, in its folder: a completion by curl."""
    user, folder = value_of(unit, "User"), value_of(unit, "WorkingDirectory")
    command = ["chroot", f"--userspec={user}:{user}", root.path, "env", "-C", folder, "QUIRE_PORT=0", *value_of(unit, "ExecStart").split()]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        line = server.stdout.readline()
        url = re.match(r"listening on (http://127\.0\.0\.1:\d+) \(model quire-demo\)", line)
        assert url, (line, server.stderr.read() if line == "" else "")
        curl = subprocess.run(["curl", "-sSf", "--noproxy", "*", "--retry", "30", "--retry-delay", "1", f"{url[1]}/v1/completions", "-H",
                               "Content-Type: application/json", "-d", '{"prompt": "Once upon a time", "max_tokens": 8}'],
                              capture_output=True, text=True, timeout=60, check=False)
        assert curl.returncode == 0, curl.stderr
        assert json.loads(curl.stdout)["usage"]["completion_tokens"] == 8, curl.stdout
        owner = os.stat(f"/proc/{server.pid}")
        assert owner.st_uid == (root.path / "var/lib/quire").stat().st_uid != 0
    finally:
        server.send_signal(signal.SIGTERM)
        assert server.wait(30) == 0


def test_from_a_clean_debian_and_back(root):
    before = listing(root.path)
    shutil.copy(DEB, root.path / "tmp/quire.deb")
    root.apt("install", "/tmp/quire.deb")
    here = root.path
    assert root.run("quire", "--version").startswith("quire ")
    assert re.search(r"^quire:x:\d+:\d+:Quire inference server,*:/var/lib/quire:/usr/sbin/nologin$", (here / "etc/passwd").read_text(), re.M)
    assert stat.S_IMODE((here / "var/lib/quire").stat().st_mode) == 0o750
    assert os.readlink(here / "etc/systemd/system/multi-user.target.wants/quire.service") == "/lib/systemd/system/quire.service"
    assert ".TH QUIRE 1" in gzip.decompress((here / "usr/share/man/man1/quire.1.gz").read_bytes()).decode()
    for path in ("bash-completion/completions/quire", "zsh/vendor-completions/_quire", "fish/vendor_completions.d/quire.fish"):
        assert "made of quire --help" in (here / "usr/share" / path).read_text()
    unit = check_unit(root)
    ask(root, unit)
    # What an administrator has written stays when the package is installed again, and when it is removed.
    (here / "etc/quire/quire.conf").write_text("max_sequences = 3\n")
    root.apt("install", "--reinstall", "-o", "Dpkg::Options::=--force-confold", "/tmp/quire.deb")
    root.apt("remove", "quire")
    assert (here / "etc/quire/quire.conf").read_text() == "max_sequences = 3\n"
    (here / "var/lib/quire/usage.db").write_text("x")
    root.apt("purge", "quire")
    assert "quire" not in (here / "etc/passwd").read_text() + (here / "etc/group").read_text()
    root.apt("autoremove", "--purge")
    after = listing(here)
    assert sorted(after.keys() ^ before.keys()) == []
    assert [p for p in before if before[p] != after[p]] == []
