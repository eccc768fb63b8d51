"""Failing allocations and system calls (tests/torture/): here for half a minute, `make torture` for as long as it takes."""
import os
import pathlib
import subprocess
import sys

import pytest

from quire import DEBUG_BIN

HERE = pathlib.Path(__file__).parents[1] / "torture"
sys.path.insert(0, str(HERE))

from torture import FAILURES, Allocations, Calls, Torture  # noqa: E402

SECONDS = float(os.environ.get("QUIRE_TORTURE_S", "1.5"))  # of each test; 0: all points
SEED = int(os.environ.get("QUIRE_TORTURE_SEED", "1"))
SANITIZED = "asan" in DEBUG_BIN or "tsan" in DEBUG_BIN
LIST = [(names, error) for names, errors in FAILURES for error in errors]
NAMES = [f"{names[0]}-{error or 'short'}" for names, error in LIST]


def torture(flags=(), least=0):
    t = Torture(DEBUG_BIN, flags, SECONDS or None, SEED)
    t.least = least
    return t


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    if SANITIZED:
        pytest.skip("skip: a sanitizer's library must be the first that is loaded")
    so = tmp_path_factory.mktemp("torture") / "fail_syscalls.so"
    subprocess.run([*os.environ.get("CC", "cc").split(), "-O1", "-D_GNU_SOURCE", "-shared", "-fPIC", "-o", so,
                    HERE / "fail_syscalls.c", "-ldl"], check=True)
    return so


def test_allocations_of_a_start():
    """Quire's own. Of the libraries libuv aborts by its own choice, and libseccomp 2.5 crashes, in a start."""
    passed, points = torture(least=21).starts(Allocations())
    print(f"\nfailure points passed: {passed}, of {points} allocations")
    assert passed > 20


@pytest.mark.parametrize("of_process", [False, pytest.param(True, marks=pytest.mark.skipif(
    SANITIZED, reason="a sanitizer has an allocator of its own"))])
def test_allocations_of_requests(of_process):
    """Quire's own, and those of the whole process with all its libraries."""
    passed = torture(least=21).requests(Allocations(of_process))
    print(f"\nfailure points passed: {passed}")
    assert passed > 20


@pytest.mark.parametrize("names, error", LIST, ids=NAMES)
def test_calls_of_a_start(library, names, error):
    passed, points = torture(START_FLAGS).starts(Calls(library, names, error))
    print(f"\nfailure points passed: {passed}, of {points} calls")


@pytest.mark.parametrize("names, error", LIST, ids=NAMES)
def test_calls_of_requests(library, names, error):
    if names == ("pthread_create",) or names == ("mmap",):
        pytest.skip("skip: a request makes no thread and maps nothing by itself")
    print(f"\nfailure points passed: {torture().requests(Calls(library, names, error))}")


START_FLAGS = ["--kv-memory", "16m", "--swap-ram", "0"]
