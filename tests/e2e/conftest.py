"""Fixtures: servers on free ports, stopped after use. Standard library and pytest only."""
import os
import pathlib
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from quire import Server  # noqa: E402


def pytest_configure(config):
    config.addinivalue_line("markers", "threads: what the thread sanitizer should see")


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
