"""A clean Debian in a folder, bootstrapped by mmdebstrap, and commands that are run in it."""
import os
import platform
import shutil
import subprocess

import pytest

# Of this machine, whose packages a binary that was built here needs.
SUITE_HERE = platform.freedesktop_os_release().get("VERSION_CODENAME", "")
CANNOT = ("unshare", "newuidmap", "user namespace", "Operation not permitted", "cannot mount", "Temporary failure",
          "Unable to connect", "Could not resolve")


class Root:
    """A folder with a clean Debian, and what is done in it."""

    def __init__(self, path, suite, *flags):
        self.path = path
        run = subprocess.run(["mmdebstrap", "--quiet", "--variant=minbase", "--mode=root", *flags, suite, path], capture_output=True,
                             text=True, timeout=300, check=False)
        if run.returncode != 0 and any(words in run.stderr for words in CANNOT):
            pytest.skip(f"skip: no Debian can be made here: {run.stderr.strip().splitlines()[-1][:200]}")
        assert run.returncode == 0, run.stderr
        shutil.copy("/etc/resolv.conf", path / "etc/resolv.conf")
        self.run("apt-get", "update")

    def run(self, *command):
        run = subprocess.run(["chroot", self.path, *command], capture_output=True, text=True, timeout=300, check=False,
                             env={**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"})
        assert run.returncode == 0, run.stdout + run.stderr
        return run.stdout

    def apt(self, *command):
        return self.run("apt-get", "-y", "--no-install-recommends", *command)
