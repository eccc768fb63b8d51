"""Fixtures: servers on free ports, stopped after use. Standard library and pytest only.

`make test` runs files of tests side by side (pytest-xdist), for most of them wait; those with the
marker `quiet` compare times, and run while nothing else does. Those with the marker `long`, half of
the time of all, are `make test-long`'s.
"""
import fcntl
import functools
import inspect
import os
import pathlib
import re
import subprocess
import sys
import zlib

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from quire import ISA_LEVELS, Server, isa_levels  # noqa: E402


def pytest_configure(config):
    config.addinivalue_line("markers", "threads: what the thread sanitizer should see")
    config.addinivalue_line("markers", "long: left to make test-long")
    config.addinivalue_line("markers", "quiet: compares times; no other test runs beside it")
    config.addinivalue_line("markers", "isa: names instruction sets; run once more with QUIRE_DEBUG_ISA=avx2")


def pytest_addoption(parser):
    parser.addoption("--part", help="K/N: of N parts that no test is in twice the one with the number K, from 0")


# Files, and functions of files, that have the marker `long`: more than six seconds of a core each.
LEFT_TO_TEST_LONG = {
    "architectures::test_same_bits", "architectures::test_nothing_is_ignored", "architectures::test_quantised", "bench",
    "bombs", "chaos", "cluster", "handover", "haproxy", "kv_store", "mtp", "plan", "pretokenizer", "pull::test_a_hub_that_drips",
    "request_memory", "speculation_states", "states", "swap", "torture", "vocab_families", "windows"}

# What QEMU's user mode (QUIRE_EMULATED=1) cannot show, and why.
MANY_STEPS, TIMES, SIGNALS = "thousands of steps", "compares times", "signals that the emulator has for itself"
NO_SECCOMP = "no seccomp in user mode: make test-deb-vm-arm64 has it"
TOO_LATE = "who waits that long goes before the urgent, so none makes room: golden_pressure has it"
NOT_IN_AN_EMULATOR = {
    "streams::test_slow_reader_is_not_cut": MANY_STEPS,
    "streams::test_memory_of_all": MANY_STEPS,
    "several_models::test_an_engine_that_waits_for_its_turn_reads_its_inbox": MANY_STEPS,
    "several_models::test_a_drain_beside_what_expires": MANY_STEPS,
    "states::test_pressure_changes_no_answer": TOO_LATE,
    "tool_calls::test_cut_calls": MANY_STEPS,
    "kv_store::test_redis_keeps_prefixes": NO_SECCOMP,
    "kv_store::test_redis_killed_and_restarted_under_load_costs_speed_only": TIMES,
    "kv_store::test_redis_that_hangs_is_waited_for_once": TIMES,
    "logging::test_signals_that_end_nothing[RTMIN]": SIGNALS,
    "logging::test_signals_that_end_nothing[RTMAX]": SIGNALS,
}

# What takes longest, first: in the end there are short ones to share out.
FIRST = ["architectures", "several_models", "cli", "swap", "pull", "tool_calls", "long_context", "request_memory", "windows",
        "changing_files", "plan", "torture", "slowloris", "limits_of_the_system", "bench", "pretokenizer", "readme",
        "safetensors", "logging", "bombs", "kv_events"]


def file_of(item):
    return item.path.stem.removeprefix("test_")


def is_long(item):
    return not LEFT_TO_TEST_LONG.isdisjoint({file_of(item), f"{file_of(item)}::{item.function.__name__}"})


def why_not_here(item):
    """A reason to leave it out, or None."""
    if os.environ.get("QUIRE_EMULATED") != "1":
        return None
    names = (f"{file_of(item)}::{item.function.__name__}", f"{file_of(item)}::{item.name}")
    return next((NOT_IN_AN_EMULATOR[name] for name in names if name in NOT_IN_AN_EMULATOR), None)


def order_of(item):
    name = file_of(item)
    return FIRST.index(name) if name in FIRST else len(FIRST)


@pytest.fixture(autouse=True)
def beside_others(request, tmp_path_factory):
    """Each test holds a shared lock, a quiet one an exclusive lock. While a quiet test waits for it, it holds a second
    lock that every test takes first, so that no other test begins."""
    here = tmp_path_factory.getbasetemp()
    folder = here.parent if "PYTEST_XDIST_WORKER" in os.environ else here
    with open(folder / "beside.lock", "w") as lock:
        with open(folder / "next.lock", "w") as first:
            fcntl.flock(first, fcntl.LOCK_EX)
            fcntl.flock(lock, fcntl.LOCK_EX if request.node.get_closest_marker("quiet") else fcntl.LOCK_SH)
        yield


def take_part(config, items):
    if config.getoption("--part") is None:
        return
    k, n = map(int, config.getoption("--part").split("/"))
    rest = [i for i in items if zlib.crc32(i.nodeid.encode()) % n != k]
    items[:] = [i for i in items if zlib.crc32(i.nodeid.encode()) % n == k]
    config.hook.pytest_deselected(items=rest)


@functools.lru_cache(maxsize=None)  # thousands of tests are one function with other parameters
def speaks_of_isa(function):
    return re.search("isa_levels|avx", inspect.getsource(function)) is not None


def pytest_collection_modifyitems(config, items):
    """A test that speaks of an instruction set has the marker `isa` without having to be told, and a long one `long`."""
    for item in items:
        if is_long(item):
            item.add_marker(pytest.mark.long)
        if speaks_of_isa(item.function):
            item.add_marker(pytest.mark.isa)
        if why_not_here(item):
            item.add_marker(pytest.mark.skip(reason=f"skip: not in an emulator ({why_not_here(item)})"))
    take_part(config, items)
    items.sort(key=order_of)


def pytest_terminal_summary(terminalreporter):
    missing = [isa for isa in ISA_LEVELS if isa not in isa_levels()]
    if missing:
        terminalreporter.write_line(f"left out, for this CPU lacks them: instruction sets {', '.join(missing)}")


@pytest.fixture(scope="session")
def server():
    """One server with default settings for everything that does not disturb the others."""
    s = Server()
    yield s
    s.stop()


@pytest.fixture
def start():
    """start(*flags) -> Server, stopped at the end of the test."""
    running = []

    def make(*flags, **kw):
        s = Server(*flags, **kw)
        running.append(s)
        return s

    yield make
    for s in running:
        s.stop()


@pytest.fixture(scope="session")
def data():
    """The folder of reference data, or a skip."""
    here = pathlib.Path(os.environ.get("QUIRE_DATA", "../shared/data"))
    if not (here / "weights").is_dir():
        pytest.skip("skip: ../shared/data absent")
    return here
