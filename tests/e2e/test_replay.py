"""quire replay: a real run's journal, made again, asked what-if, edited and cut."""
import json
import re
import resource
import time

import pytest

from quire import in_threads
from test_cli import quire, refused


@pytest.fixture(scope="module")
def journal(start_module, tmp_path_factory):
    """Streams in a cache that is too small for them, equal prompts, a client that leaves, texts that
    end because nothing more is allowed."""
    path = tmp_path_factory.mktemp("replay") / "journal"
    s = start_module("--journal", path, "--kv-memory", "1m", "--max-sequences", "6",
                     "--prefill-chunk", "32")
    long = "Once upon a time there was a quire of paper. " * 3
    gone = s.stream(long, max_tokens=300, ignore_eos=True)
    next(iter(gone))
    in_threads([lambda i=i: s.complete(long + "x" * (i % 3), max_tokens=20 + 5 * i, ignore_eos=True,
                                       priority=["low", "normal", "high"][i % 3])
                for i in range(10)] +
               [lambda i=i: s.complete(long, max_tokens=60, seed=i, guided_regex="[a-m ]{9,40}[.]")
                for i in range(4)])
    gone.close()
    s.wait_idle()
    assert s.stop() == 0
    return path


@pytest.fixture(scope="module")
def start_module():
    from quire import Server
    servers = []

    def make(*flags):
        servers.append(Server(*map(str, flags)))
        return servers[-1]
    yield make
    for s in servers:
        if s.process.poll() is None:
            s.stop()


def test_all_plans_equal(journal):
    for _ in range(2):
        run = quire("replay", journal)
        assert run.returncode == 0, run.err
        plans = sum('{"plan"' in line for line in journal.read_text().splitlines())
        assert f"all {plans} plans equal" in run.out
        assert re.search(r"15 posts, [45] cancels, 15 ends", run.out)


def test_what_if(journal):
    run = quire("replay", journal, "--what-if", "policy=sjf", "--what-if=prefix_cache=off",
                "--what-if", "policy=fcfs,max_sequences=1")
    assert run.returncode == 0, run.err
    rows = run.out.splitlines()[-4:]
    assert [row.split("  ")[0] for row in rows] == [
        "its own settings", "policy=sjf", "prefix_cache=off", "policy=fcfs,max_sequences=1"]
    ttft = [float(re.split(r"\s{2,}", row)[3]) for row in rows]
    assert ttft[3] > ttft[0] >= 0  # one at a time: later first tokens


@pytest.mark.parametrize("text", ["policy=lifo", "policy", "speed=9", "max_sequences=-1", "blocks=",
                                  "max_sequences=100000", "a" * 300])
def test_what_if_refused(journal, text):
    run = quire("replay", journal, "--what-if", text)
    assert run.returncode == 2
    assert run.err.startswith("quire: ") and run.err.count("\n") == 1


def test_first_difference(journal, tmp_path):
    lines = journal.read_text().splitlines()
    at = next(i for i, line in enumerate(lines) if '{"plan"' in line and json.loads(line)["items"])
    record = json.loads(lines[at])
    record["items"][0][2] += 1
    path = tmp_path / "edited"
    path.write_text("\n".join([*lines[:at], json.dumps(record), *lines[at + 1:]]) + "\n")
    refused(quire("replay", path), 1, path, f"line {at + 1}", "item 0: the journal has")


def test_broken_files(journal, tmp_path):
    path = tmp_path / "broken"
    whole = journal.read_bytes()
    for content, words in ((whole[:-20], "incomplete"), (b"", "is empty"), (b"hello\n", "line 1"),
                           (b'{"plan":0,"now":0}\n', "\"items\""),
                           (whole + b'{"dropped":7}\n', "7 lines are missing")):
        path.write_bytes(content)
        refused(quire("replay", path), 1, words)
    refused(quire("replay", tmp_path / "nowhere"), 1, "cannot open")
    refused(quire("replay"), 2, "needs a journal")
    refused(quire("replay", path, path), 2, "one file")
    refused(quire("replay", path, "--what-if"), 2, "--what-if")


def test_journal_is_private(journal):
    assert journal.stat().st_mode & 0o077 == 0


def test_a_full_disk_ends_no_journal(start, tmp_path):
    """Writes that fail are tried again: no line is lost or torn while the ring has room. The limit is of all files, so the
    log has errors alone."""
    path = tmp_path / "journal"
    s = start("--journal", path, "--log-level", "error")
    while not path.exists() or path.stat().st_size < 20000:
        s.complete("Once upon", max_tokens=20)
    s.wait_idle()
    limit = path.stat().st_size + 100
    resource.prlimit(s.pid, resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    for _ in range(1000):
        s.complete("a time there", max_tokens=20)
        if "event=write_failed" in s.read_log():
            break
    for _ in range(5):
        s.complete("was a bear", max_tokens=5)
    assert path.stat().st_size <= limit and s.read_log().count("event=write_failed") == 1
    resource.prlimit(s.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
    for _ in range(100):
        s.complete("that slept", max_tokens=2)
        if path.stat().st_size > limit:
            break
        time.sleep(0.1)  # the next try is a second after the last one
    assert path.stat().st_size > limit
    assert s.stop() == 0
    run = quire("replay", path)
    assert run.returncode == 0 and "plans equal" in run.out, run.out + run.err
