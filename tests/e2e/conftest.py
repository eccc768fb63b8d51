"""Fixtures: servers on free ports, stopped after use. Standard library and pytest only."""
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
    config.addinivalue_line("markers", "isa: names instruction sets; run once more with QUIRE_DEBUG_ISA=avx2")


def pytest_addoption(parser):
    parser.addoption("--part", help="K/N: of N parts that no test is in twice the one with the number K, from 0")


def take_part(config, items):
    if config.getoption("--part") is None:
        return
    k, n = map(int, config.getoption("--part").split("/"))
    rest = [i for i in items if zlib.crc32(i.nodeid.encode()) % n != k]
    items[:] = [i for i in items if zlib.crc32(i.nodeid.encode()) % n == k]
    config.hook.pytest_deselected(items=rest)


def pytest_collection_modifyitems(config, items):
    """A test that speaks of an instruction set has the marker `isa` without having to be told."""
    for item in items:
        if re.search("isa_levels|avx", inspect.getsource(item.function)):
            item.add_marker(pytest.mark.isa)
    take_part(config, items)


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
