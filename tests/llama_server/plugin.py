"""For pytest in llama-server's own tests: models are not fetched, and each result is written down."""
import json
import os
import sys
import types

import pytest

sys.modules.setdefault("wget", types.ModuleType("wget"))  # it fetches models, which are here already


def pytest_sessionstart(session):
    import utils
    utils.ServerPreset.load_all = staticmethod(lambda: None)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if report.when == "call" or (report.when == "setup" and report.outcome != "passed"):
        crash = getattr(report.longrepr, "reprcrash", None)
        why = crash.message if crash else str(report.longrepr or "")
        with open(os.environ["QUIRE_RESULTS"], "a", encoding="utf-8") as f:
            line = {"test": item.nodeid.removeprefix("unit/"), "outcome": report.outcome, "why": why[:400]}
            f.write(json.dumps(line) + "\n")
