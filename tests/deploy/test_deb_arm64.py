"""`make deb-arm64`: lintian has nothing to say, all files but the binary are those of this machine's package, and with what
it depends on, unpacked from Debian's arm64 packages, the binary answers in an emulator: `make test-packages-arm64`.

What its scripts do is the same for both (test_deb.py runs them): they are the same files.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))

from clean_debian import SUITE_HERE  # noqa: E402
from quire import Server  # noqa: E402

DEB, ARM64_DEB = (os.environ.get(name, "") for name in ("QUIRE_DEB", "QUIRE_ARM64_DEB"))
MISSING = [t for t in ("mmdebstrap", "lintian", "dpkg-deb", "qemu-aarch64") if shutil.which(t) is None]

pytestmark = [pytest.mark.skipif(os.environ.get("QUIRE_SLOW") != "1", reason="skip: a minute (make test-packages-arm64)"),
              pytest.mark.skipif(MISSING != [], reason=f"skip: no {' and no '.join(MISSING)} (Debian packages)")]


def field(deb, name):
    return subprocess.run(["dpkg-deb", "--field", deb, name], capture_output=True, text=True, check=True).stdout.strip()


def unpack(deb, folder):
    """With the control files: {path: its bytes} of all files."""
    subprocess.run(["dpkg-deb", "--raw-extract", deb, folder], check=True)
    return {str(f.relative_to(folder)): f.read_bytes() for f in folder.rglob("*") if f.is_file()}


def test_lintian():
    run = subprocess.run(["lintian", "--allow-root", "--fail-on", "error,warning", ARM64_DEB], capture_output=True, text=True,
                         timeout=120, check=False)
    assert run.returncode == 0 and run.stdout == "", run.stdout + run.stderr


def test_files_are_those_of_the_other_package(tmp_path):
    here, there = unpack(DEB, tmp_path / "amd64"), unpack(ARM64_DEB, tmp_path / "arm64")
    assert here.keys() == there.keys()
    assert {p for p in here if here[p] != there[p]} == {"usr/bin/quire", "DEBIAN/control", "DEBIAN/md5sums"}
    assert field(ARM64_DEB, "Architecture") == "arm64"
    assert all(field(DEB, f) == field(ARM64_DEB, f) for f in ("Version", "Depends"))


def test_it_answers_with_what_it_depends_on(tmp_path):
    root, package = tmp_path / "root", tmp_path / "package"
    names = ",".join(re.findall(r"lib[^ ,]+", field(ARM64_DEB, "Depends")))
    subprocess.run(["mmdebstrap", "--quiet", "--variant=extract", "--architectures=arm64", f"--include={names}",
                    "--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr", SUITE_HERE, root], check=True, timeout=300)
    subprocess.run(["dpkg-deb", "--extract", ARM64_DEB, package], check=True)
    binary = tmp_path / "quire"
    binary.write_text(f'#!/bin/sh\nexec qemu-aarch64 -L {root} {package}/usr/bin/quire "$@"\n')
    binary.chmod(0o755)
    server = Server("--config", package / "etc/quire/quire.conf", binary=binary, model="")
    try:
        r = server.post("/v1/completions", {"prompt": "Once upon a time", "max_tokens": 8}, timeout=120)
        assert r.status == 200 and r.json["usage"]["completion_tokens"] == 8, r.body
    finally:
        assert server.stop() == 0, server.read_log()
