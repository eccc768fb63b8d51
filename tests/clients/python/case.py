"""A test case with a Quire of its own, and a record of what passed: for the tests of each client.

The tests run in the client's virtual environment, so nothing but the standard library is used here.
A test's name says in which column of `make test-clients` it counts: test_tools, test_tools_streamed.
"""
import json
import os
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "e2e"))
from quire import Server, make_key  # noqa: E402

MODEL = "quire-demo"
STORY = "Once upon a time"
# What a tool takes, and what an answer with a schema looks like: both end after a few tokens.
ZONE = {"type": "object", "properties": {"zone": {"type": "integer", "minimum": -12, "maximum": 12}},
        "required": ["zone"], "additionalProperties": False}
PERSON = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 12},
                                           "age": {"type": "integer", "minimum": 0, "maximum": 120}},
          "required": ["name", "age"], "additionalProperties": False}
FLAGS = ("--kv-memory", "64m", "--log-level", "off")


def clock(zone):
    """The tool of the tests."""
    return f"It is noon in zone {int(zone)}."


class ClientCase(unittest.TestCase):
    """self.url: where this class's server is. It must end well, and with nothing left running."""

    flags = ()

    @classmethod
    def setUpClass(cls):
        cls.server = Server(*FLAGS, *cls.flags, model="")
        cls.url = f"http://127.0.0.1:{cls.server.port}"

    @classmethod
    def tearDownClass(cls):
        cls.server.wait_idle()
        assert cls.server.stop() == 0

    def running(self):
        return self.server.metrics()["quire_requests_running"]

    def wait_running(self, n):
        self.server.wait_until(lambda m: m["quire_requests_running"] == n, what=f"{n} running")

    def check_cancelled(self, n_before):
        """What ran was cancelled, and its place is free. n_before: cancelled() before it began."""
        self.wait_running(0)
        self.server.wait_until(lambda m: cancelled(m) > n_before, what="cancelled")

    def cancelled(self):
        return cancelled(self.server.metrics())

    def count_of(self, route):
        """How many requests to the route have been answered."""
        return self.server.metrics().get(f'quire_http_requests_total{{route="{route}",code="200"}}', 0)

    def check_person(self, person):
        self.assertIsInstance(person["name"], str)
        self.assertIn(person["age"], range(121))


def cancelled(metrics):
    return sum(v for k, v in metrics.items() if k.startswith("quire_requests_total") and 'outcome="cancelled"' in k)


class Limited:
    """A server whose key has no request left: the client's first try gets 429 and Retry-After."""

    def __enter__(self):
        entry, self.key = make_key("client", "--requests-per-minute", "40")
        self.file = tempfile.NamedTemporaryFile("w", suffix=".keys")
        self.file.write(entry)
        self.file.flush()
        os.chmod(self.file.name, 0o600)
        self.server = Server(*FLAGS, "--api-keys", self.file.name, model="", key=self.key)
        self.url = f"http://127.0.0.1:{self.server.port}"
        return self

    def spend(self):
        """Until the server refuses; how often it has refused then."""
        for _ in range(1000):
            reply = self.server.post("/tokenize", {"content": "a"})
            if reply.status == 429:
                assert int(reply.headers["Retry-After"]) >= 1, reply.headers
                return self.refusals()
            assert reply.status == 200, reply.body
        raise AssertionError("the limit was never reached")

    def refusals(self):
        return sum(v for k, v in self.server.metrics().items()
                   if k.startswith("quire_http_requests_total") and 'code="429"' in k)

    def __exit__(self, *_):
        self.server.stop()
        self.file.close()


def check_retry(case, make_call):
    """make_call(url, key) returns a call, made once while there is room, once when there is none."""
    with Limited() as limited:
        call = make_call(limited.url, limited.key)
        call()
        before = limited.spend()
        call()
        case.assertGreater(limited.refusals(), before, "nothing was refused")


class Record(unittest.TextTestResult):
    """One line of JSON for each test: its name, and whether it passed. A skipped one has not."""

    def stopTest(self, test):
        bad = [t for t, _ in self.failures + self.errors + self.skipped]
        bad += [getattr(t, "test_case", None) for t in bad]
        name = test.id().rsplit(".", 1)[1]
        with open(os.environ["QUIRE_RECORD"], "a", encoding="utf-8") as f:
            f.write(json.dumps({"test": name, "ok": test not in bad}) + "\n")
        super().stopTest(test)


def main():
    unittest.main(testRunner=unittest.TextTestRunner(verbosity=2, resultclass=Record))
