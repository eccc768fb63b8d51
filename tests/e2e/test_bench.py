"""quire bench: its shape. How fast anything is depends on the machine and is not tested."""
import csv
import io
import json
import os
import re
import subprocess

import pytest

from quire import BIN

TINY = ["--prefill", "20", "--decode", "3", "--batch", "1,3", "--depth", "17", "--mixed", "2", "--chunk", "9",
        "--repeat", "2", "--quick", "--kv-memory", "64m", "--threads", "2"]


def bench(*args):
    run = subprocess.run([BIN, "bench", *args], capture_output=True, text=True, timeout=300)
    return run.returncode, run.stdout, run.stderr


def rows(results):
    return [(r["test"], r["prompt_tokens"], r["streams"], r["depth"], r["samples"]) for r in results]


PARTS = ["embed", "norm", "qkv", "rope", "attention", "recurrent", "attn_out", "route", "gate_up", "down", "logits", "sample", "mtp"]
EXPECTED = [("prefill", 20, 0, 0, 2), ("decode", 0, 1, 17, 3), ("decode", 0, 3, 17, 3), ("mixed", 9, 2, 17, 2)]


def test_json():
    code, out, err = bench(*TINY, "--json")
    assert code == 0 and err == "", err
    report = json.loads(out)
    assert report["threads"] == 2 and report["version"] and report["isa"] in ["scalar", "avx2", "avxvnni", "avx512"]
    assert report["kv_type"] == "f16"
    assert report["model"]["name"] and report["model"]["ftype"] == "Q8_0" and report["model"]["weight_bytes"] > 1e6
    limits = report["limits"]
    assert limits["read_gbps"] > 0 and all(gops > 0 for gops in limits["gops"].values())
    assert list(limits["gops"]) == ["float", "narrow", "narrow_halves", "wide", "wide_halves"]
    assert rows(report["results"]) == EXPECTED
    for r in report["results"]:
        assert 0 < r["least_ms"] <= r["median_ms"] <= r["most_ms"]
        tokens = r["prompt_tokens"] + r["streams"]
        assert r["tokens_per_s"] == pytest.approx(1000 * tokens / r["median_ms"], rel=1e-3)
        assert r["read_share"] == pytest.approx(r["gbps"] / limits["read_gbps"], rel=1e-3)
        peak = limits["gops"]["wide"]  # all matrices are Q8_0
        assert r["gops"] > 0 and r["peak_share"] == pytest.approx(r["gops"] / peak, rel=1e-3)
        shares = r["time_shares"]
        assert list(shares) == PARTS and sum(shares.values()) == pytest.approx(1)
        assert all(0 <= share < 1 for share in shares.values())


def test_work_is_counted_by_the_shape():
    """Twice the streams are twice the arithmetic; the weights are read once."""
    _, out, _ = bench(*TINY, "--json", "--batch", "1,2,4", "--depth", "16", "--decode", "2")
    one, two, four = [r for r in json.loads(out)["results"] if r["test"] == "decode"]
    ops = [r["gops"] * r["median_ms"] for r in (one, two, four)]
    read = [r["gbps"] * r["median_ms"] for r in (one, two, four)]
    assert ops[1] == pytest.approx(2 * ops[0]) and ops[2] == pytest.approx(4 * ops[0])
    assert read[0] < read[1] < 2 * read[0]
    assert read[2] - read[1] == pytest.approx(2 * (read[1] - read[0]), rel=1e-3)  # keys and values


def test_rows():
    """Each number of rows is a step of one sequence, all of whose rows are sampled, beside the first one's."""
    code, out, err = bench(*TINY, "--json", "--rows", "1,2,8", "--decode", "5")
    assert code == 0 and err == "", err
    results = json.loads(out)["results"]
    assert rows(results) == [("rows", n, 0, 17, 5) for n in (1, 2, 8)]
    assert results[0]["cost"] == 1 and all(r["cost"] > 0 for r in results)
    ops = [r["gops"] * r["median_ms"] for r in results]
    assert ops[1] == pytest.approx(2 * ops[0]) and ops[2] == pytest.approx(8 * ops[0])
    assert all(sum(r["time_shares"].values()) == pytest.approx(1) for r in results)
    read = [r["gbps"] * r["median_ms"] for r in results]
    assert read[1] == pytest.approx(read[0]) and read[2] == pytest.approx(read[0])  # the weights, once
    code, out, _ = bench(*TINY, "--csv", "--rows", "2,1", "--decode", "3")
    assert [(r["test"], r["prompt"], float(r["cost"]) > 0) for r in csv.DictReader(io.StringIO(out))] == [
        ("rows", "2", True), ("rows", "1", True)]
    code, out, _ = bench(*TINY, "--rows", "3")
    assert code == 0 and "3 rows at 17, cost 1.00" in out and "prefill" not in out


def test_rows_that_a_step_has_no_room_for():
    code, out, err = bench(*TINY, "--rows", "1,40", "--max-batch-tokens", "32", "--max-sequences", "16")
    assert code == 1 and out == "" and "its 40 rows are more than max_batch_tokens" in err


def test_topology():
    """Every thread is in one group, on one CPU of this process; the model begins with one thread, which is 1."""
    code, out, err = bench(*TINY, "--topology")
    assert code == 0 and err == "", err
    allowed = len(os.sched_getaffinity(0))
    assert re.search(rf"^CPUs: {allowed}, on \d+ cores? with \d+ last-level caches? and \d+ memory nodes?; ", out, re.M)
    assert re.search(r"^Threads: 2 compute; `threads = 0` chooses \d+\.", out, re.M)
    groups, model = re.findall(r"(?:^\|.*\n)+", out, re.M)
    groups = [[cell.strip() for cell in line.split("|")[1:-1]] for line in groups.splitlines()[2:]]
    assert sum(int(n) for _, n, _, _ in groups) == 2
    assert {int(cpu) for *_, cpus in groups for cpu in re.findall(r"\d+", cpus)} <= os.sched_getaffinity(0)
    model = [[float(cell) for cell in line.split("|")[1:-1]] for line in model.splitlines()[3:]]
    assert [row[0] for row in model] == [1, 2, 4, 8, 16, 32, 64, 128] and model[0][1:] == [1] * 6
    assert all(stays <= grows for row in model for stays, grows in (row[1:3], row[3:5], row[5:7]))


def test_csv():
    code, out, err = bench(*TINY, "--csv")
    assert code == 0 and err == ""
    table = list(csv.DictReader(io.StringIO(out)))
    assert [(r["test"], int(r["prompt"]), int(r["streams"]), int(r["depth"]), int(r["samples"]))
            for r in table] == EXPECTED
    assert all(float(r["median_ms"]) > 0 for r in table)
    assert all(sum(float(r[f"{part}_share"]) for part in PARTS) == pytest.approx(1, abs=0.01) for r in table)


def test_markdown():
    code, out, err = bench(*TINY)
    assert code == 0 and err == ""
    lines = [line for line in out.splitlines() if line.startswith("|")]
    assert len(lines) == 2 * (2 + len(EXPECTED))
    for table in lines[: len(lines) // 2], lines[len(lines) // 2 :]:
        assert len({line.count("|") for line in table}) == 1
    assert "prefill of 20" in out and "decode, 3 at 17" in out and "9 of a prompt beside 2 at 17" in out


def test_a_long_prompt_takes_several_steps():
    code, out, err = bench(*TINY, "--json", "--prefill", "50", "--max-batch-tokens", "16",
                           "--max-sequences", "16", "--mixed", "0")
    assert code == 0 and err == "", err
    assert rows(json.loads(out)["results"])[0] == ("prefill", 50, 0, 0, 2)


@pytest.mark.parametrize("how", [[], ["--no-cascade"]])
def test_streams_share_what_they_begin_with(how):
    """Ten of them fit where one and a bit would, and each token is sampled."""
    args = [*TINY, "--json", "--prefill", "0", "--mixed", "0", "--batch", "10", "--depth", "330", "--kv-memory", "4m"]
    code, _, err = bench(*args)
    assert code == 1 and "is skipped: it needs --kv-memory" in err
    code, out, err = bench(*args, "--shared", "320", *how)
    assert code == 0 and err == "", err
    assert rows(json.loads(out)["results"]) == [("decode", 0, 10, 330, 3)]


def test_what_does_not_fit_is_left_out():
    code, out, err = bench(*TINY, "--json", "--batch", "1,1000", "--kv-memory", "4m")
    assert code == 0
    assert [r["streams"] for r in json.loads(out)["results"] if r["test"] == "decode"] == [1]
    assert "decode of 1000 at 17 is skipped: it needs --kv-memory" in err
    code, out, err = bench(*TINY, "--depth", "100000", "--prefill", "0", "--mixed", "0")
    assert code == 1 and "more than the context" in err and "no test was run" in err


@pytest.mark.parametrize("args, word", [
    (["--batch", "1,,2"], "--batch"), (["--batch", "0"], "--batch"), (["--batch", "1x"], "--batch"),
    (["--batch", ",".join(["1"] * 60)], "--batch"), (["--prefill", "-1"], "--prefill"),
    (["--rows", "0,1"], "--rows"), (["--shared", "-1"], "--shared"),
    (["--csv", "--json"], "either"), (["--nonsense", "1"], "nonsense")])
def test_refusals(args, word):
    code, out, err = bench(*args)
    assert code == 2 and out == "" and word in err
