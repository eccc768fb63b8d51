"""Memory nodes, on a machine of folders: what is planned, said and answered. `make test-numa` has real ones.

Nodes that the folders name are not there, so the kernel puts pages where it likes. No answer depends on it.
"""
import os
import re
import subprocess

import pytest

from quire import DEBUG_BIN

TEXT = "Once upon a time there was a cat. The cat sat on the mat, and the dog did not. " * 3
SCORE = ["--kv-memory", "64m", "--context", "256", "--log-level", "info"]


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    """Four CPUs on two nodes, whatever there is."""
    root = tmp_path_factory.mktemp("machine")

    def put(path, text):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text + "\n")

    put("proc/self/status", "Name:\tquire\nCpus_allowed_list:\t0-3")
    for cpu in range(4):
        put(f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list", str(cpu))
    put("sys/devices/system/node/node0/cpulist", "0-1")
    put("sys/devices/system/node/node1/cpulist", "2-3")
    (root / "text").write_text(TEXT)
    return root


def run(machine, *args):
    env = {**os.environ, "QUIRE_DEBUG_MACHINE": str(machine)}
    done = subprocess.run([DEBUG_BIN, *args], capture_output=True, text=True, timeout=300, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def score(machine, numa, threads):
    return run(machine, "score", "--text", str(machine / "text"), *SCORE, "--numa", numa, "--threads", str(threads))


def test_answers_and_log(machine):
    off, said = score(machine, "off", 4)
    assert "numa" not in said
    for numa, threads, wanted in [("interleave", 4, "numa=interleave nodes=2 "), ("local", 4, "numa=local nodes=2 "),
                                  ("local", 3, "event=numa-not-local cause=threads-not-even threads=3 nodes=2"),
                                  ("local", 3, "numa=interleave nodes=2 "), ("local", 2, "numa=local nodes=1 ")]:
        found, said = score(machine, numa, threads)
        assert found == off, numa
        assert wanted in said, said


def test_auto_takes_what_reads_faster(machine):
    _, said = score(machine, "auto", 4)
    local, interleaved, chosen = re.search(
        r"event=numa-measured local_gbps=([\d.]+) interleaved_gbps=([\d.]+) chosen=(\w+)", said).groups()
    assert float(local) > 0 and float(interleaved) > 0
    assert f"numa={chosen} nodes=2" in said
    assert chosen == "local" if float(local) > 1.2 * float(interleaved) else True
    assert chosen == "interleave" if float(local) < float(interleaved) else True


def test_topology_and_plan(machine):
    size = ["--kv-memory", "64m", "--context", "256", "--threads", "4"]
    out, _ = run(machine, "bench", "--topology", "--quick", *size, "--numa", "local")
    assert re.search(r"^CPUs: 4, on 4 cores with \d+ last-level caches? and 2 memory nodes", out, re.M), out
    assert re.search(r"^Memory: weights in 2 parts, each on its threads' node", out, re.M), out
    assert re.findall(r"^\| +(\d) \| +(\d) \| +(\d) \| ([\d ]+) \|$", out, re.M)[:2] == \
        [("0", "2", "0", "0 1"), ("1", "2", "1", "2 3")], out


def test_one_node_has_nothing_to_choose():
    done = subprocess.run([DEBUG_BIN, "generate", "--prompt", "a", "--max-tokens", "1", *SCORE, "--numa", "local"],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 0
    with open("/sys/devices/system/node/online") as f:
        if f.read().strip() == "0":
            assert "numa" not in done.stderr
