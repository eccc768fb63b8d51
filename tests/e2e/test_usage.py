"""/v1/usage: who has used what; its sums are the engine's counters; budgets of keys."""
import contextlib
import csv
import datetime
import io
import pathlib
import random
import resource
import signal
import sqlite3
import threading
import time

import pytest

from quire import Stream, make_key, serve_in_vain

SUMS = {"computed_tokens": "quire_computed_tokens_total", "cached_tokens": "quire_cached_tokens_total",
        "generated_tokens": "quire_generation_tokens_total"}
TIMES = {"compute_seconds": "quire_compute_seconds_total", "block_seconds": "quire_kv_block_seconds_total"}


def today():
    return datetime.datetime.now(datetime.timezone.utc).date()


def usage(s, query="", **kw):
    r = s.get("/v1/usage" + query, **kw)
    assert r.status == 200, r.body
    return r.json


def key_files(tmp_path, **flags):
    """A file of keys and their secrets; each key's flags."""
    made = {name: make_key(name, *more) for name, more in flags.items()}
    path = tmp_path / "keys.ini"
    path.write_text("\n".join(entry for entry, _ in made.values()))
    return path, {name: {"Authorization": f"Bearer {secret}"} for name, (_, secret) in made.items()}


def check_sums(s, page, **kw):
    """Of the page's lines, its total, and the engine's counters."""
    counters = s.metrics()
    for field in SUMS | TIMES | {"requests": "", "prompt_tokens": "", "cpu_seconds": ""}:
        assert sum(line[field] for line in page["data"]) == pytest.approx(page["total"][field], abs=1e-9), field
    for field, counter in (SUMS | TIMES).items():
        found = sum(v for k, v in counters.items() if k.split("{")[0] == counter)
        assert page["total"][field] == pytest.approx(found, rel=0, abs=1e-6), field


def test_one_request(start):
    s = start("--threads", "1")
    page = usage(s)
    assert page == {"object": "list", "owners": "tenants", "data": [], "total": page["total"]}
    assert set(page["total"].values()) == {0}
    before = today()
    r = s.post("/v1/completions", {"prompt": "Once upon a time", "max_tokens": 5, "ignore_eos": True, "n": 2}).json
    s.wait_idle()
    [line] = usage(s)["data"]
    assert line["period"] in (str(before), str(today())) and (line["object"], line["owner"]) == ("usage", "")
    told = r["usage"]
    assert line["requests"] == 2 and line["generated_tokens"] == told["completion_tokens"] == 10
    assert line["prompt_tokens"] == 2 * told["prompt_tokens"]
    assert line["computed_tokens"] >= 2 * 4 + told["prompt_tokens"]
    assert line["compute_seconds"] > 0 and line["block_seconds"] > 0
    assert line["cpu_seconds"] == pytest.approx(line["compute_seconds"], abs=1e-9)  # one thread
    check_sums(s, usage(s))


def test_sums_are_the_engines(start, tmp_path):
    """Cancelled, refused, preempted, cached, guessed, forked: each for one of three keys."""
    path, keys = key_files(tmp_path, alice=(), bob=("--tenant", "t"), boss=("--admin",))
    s = start("--api-keys", str(path), "--kv-memory", "3m", "--max-sequences", "8", "--context", "512")
    rng = random.Random(5)

    def one(seed):
        r = random.Random(seed)
        body = {"prompt": "Once upon a time " * r.choice((1, 1, 20)), "max_tokens": r.choice((1, 40, 120)), "seed": seed,
                "n": r.choice((1, 3)), "ignore_eos": True, "temperature": r.choice((0, 1)), "stream": r.random() < 0.5}
        if r.random() < 0.2:
            body["deadline_ms"] = 1
        headers = keys[r.choice(("alice", "bob"))]
        if r.random() < 0.25:
            stream = Stream(s, body | {"stream": True}, headers)
            if stream.status == 200:
                next(iter(stream))
            stream.reset()
        else:
            s.post("/v1/completions", body, headers=headers)
    threads = [threading.Thread(target=one, args=(rng.getrandbits(30),)) for _ in range(60)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    s.wait_idle()
    page = usage(s, headers=keys["boss"])
    assert page["owners"] == "keys" and {line["owner"] for line in page["data"]} == {"alice", "bob"}
    check_sums(s, page)


def test_periods_and_formats(start, tmp_path):
    path, keys = key_files(tmp_path, alice=("--admin",), bob=())
    s = start("--api-keys", str(path))
    for name in ("alice", "bob", "bob"):
        s.post("/v1/completions", {"prompt": "Once", "max_tokens": 2}, headers=keys[name])
    s.wait_idle()
    boss = dict(headers=keys["alice"])
    day = usage(s, **boss)
    for by, length in (("month", 7), ("total", 5)):
        page = usage(s, f"?by={by}", **boss)
        assert page["total"] == day["total"] and len(page["data"]) == 2
        assert {len(line["period"]) for line in page["data"]} == {length}
    assert usage(s, "?owner=bob", **boss)["total"]["requests"] == 2
    assert usage(s, "?owner=eve", **boss)["data"] == []
    assert usage(s, f"?from={today() - datetime.timedelta(1)}&to={today()}", **boss)["total"] == day["total"]
    assert usage(s, "?to=2020-01-01", **boss)["data"] == usage(s, "?from=9999-12-31", **boss)["data"] == []
    r = s.get("/v1/usage?format=csv&by=total", **boss)
    assert r.headers["content-type"] == "text/csv; charset=utf-8"
    lines = list(csv.DictReader(io.StringIO(r.body.decode())))
    assert [line["owner"] for line in lines] == ["alice", "bob"]
    for line, expected in zip(lines, usage(s, "?by=total", **boss)["data"]):
        assert {k: float(v) for k, v in line.items() if k not in ("period", "owner")} == \
            {k: v for k, v in expected.items() if k not in ("object", "period", "owner")}


@pytest.mark.parametrize("query,param", [("from=yesterday", "from"), ("to=2026-02-30", "to"), ("by=week", "by"),
                                         ("format=xml", "format"), ("from=2026-1-1", "from")])
def test_refused(server, query, param):
    r = server.get("/v1/usage?" + query)
    assert r.status == 400 and r.json["error"]["param"] == param


def test_who_may_ask(start, tmp_path):
    path, keys = key_files(tmp_path, alice=())
    s = start("--api-keys", str(path))
    assert s.get("/v1/usage").status == 401
    assert s.get("/v1/usage", headers=keys["alice"]).status == 403


def test_formulas_in_names(start):
    """A tenant may call itself anything; a spreadsheet is not to compute it."""
    s = start("--tenant-header", "X-Tenant")
    names = ["=1+1", "+1", "-1", "@a", 'a"b']
    for name in names:
        s.post("/v1/completions", {"prompt": "Once", "max_tokens": 1}, headers={"X-Tenant": name})
    s.wait_idle()
    assert [line["owner"] for line in usage(s)["data"]] == names
    text = s.get("/v1/usage?format=csv").body.decode()
    assert [line[1] for line in csv.reader(io.StringIO(text))][1:] == ["'=1+1", "'+1", "'-1", "'@a", 'a"b']


def test_budgets(start, tmp_path):
    path, keys = key_files(tmp_path, alice=("--tokens-per-day", "12"), bob=("--tokens-per-month", "1000000"))
    s = start("--api-keys", str(path))
    body = {"prompt": "Once", "max_tokens": 4, "ignore_eos": True}
    total = 0
    while total < 12:
        r = s.post("/v1/completions", body, headers=keys["alice"])
        assert r.status == 200, r.body
        total += r.json["usage"]["total_tokens"]
    r = s.post("/v1/completions", body, headers=keys["alice"])
    assert r.status == 429 and r.json["error"]["code"] == "insufficient_quota"
    assert "12 tokens a day" in r.json["error"]["message"] and int(r.headers["retry-after"]) > 0
    assert s.post("/v1/completions", body, headers=keys["bob"]).status == 200


# ---- kept

def saved(path):
    """What the file has, without a server: [(owner, requests, generated)]."""
    db = sqlite3.connect(path)
    with contextlib.closing(db):
        return db.execute("SELECT owner, requests, generated_tokens FROM usage ORDER BY owner").fetchall()


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGKILL])
def test_kept(start, tmp_path, sig):
    """Bills and quotas go on after a restart: at its end a server saves the rest, and one that is killed had a second."""
    path, keys = key_files(tmp_path, alice=("--tokens-per-day", "12"), boss=("--admin",))
    flags = ("--api-keys", str(path), "--usage-db", str(tmp_path / "usage.db"))
    body = {"prompt": "Once", "max_tokens": 12, "ignore_eos": True}
    s = start(*flags)
    assert s.post("/v1/completions", body, headers=keys["alice"]).status == 200
    s.wait_idle()
    before = usage(s, headers=keys["boss"])
    if sig == signal.SIGKILL:
        time.sleep(2)
    s.stop(sig)
    assert saved(tmp_path / "usage.db") == [("alice", 1, 12)]
    s = start(*flags)
    assert usage(s, headers=keys["boss"]) == before
    r = s.post("/v1/completions", body, headers=keys["alice"])
    assert r.status == 429 and r.json["error"]["code"] == "insufficient_quota"
    assert s.post("/v1/completions", body, headers=keys["boss"]).status == 200
    s.stop()
    assert saved(tmp_path / "usage.db") == [("alice", 1, 12), ("boss", 1, 12)]


def test_a_damaged_row(start, tmp_path):
    """It is no other owner's: it is lost, which the log and a counter tell, and the rest is as it was."""
    path, keys = key_files(tmp_path, alice=(), bob=(), boss=("--admin",))
    flags = ("--api-keys", str(path), "--usage-db", str(tmp_path / "usage.db"))
    s = start(*flags)
    for name in ("alice", "bob"):
        assert s.post("/v1/completions", {"prompt": "Once", "max_tokens": 5}, headers=keys[name]).status == 200
    s.wait_idle()
    before = {line["owner"]: line for line in usage(s, headers=keys["boss"])["data"]}
    s.stop()
    data = (tmp_path / "usage.db").read_bytes()
    assert data.count(b"alice") == 1
    (tmp_path / "usage.db").write_bytes(data.replace(b"alice", b"alicf"))
    s = start(*flags)
    assert {line["owner"]: line for line in usage(s, headers=keys["boss"])["data"]} == {"bob": before["bob"]}
    log = s.flush_log() or s.read_log()
    assert "event=database_damaged" in log and "more_lost=unknown" in log
    assert s.metrics()['quire_rows_lost_total{database="usage_db"}'] == 1
    assert (tmp_path / "usage.db.damaged").read_bytes() == data.replace(b"alice", b"alicf")


def test_a_key_that_was_removed(start, tmp_path):
    path, keys = key_files(tmp_path, alice=("--tokens-per-day", "5"), boss=("--admin",))
    text = path.read_text()
    s = start("--api-keys", str(path))
    body = {"prompt": "Once", "max_tokens": 8, "ignore_eos": True}

    def reload_with(text):
        n = s.read_log().count("event=reloaded what=keys")
        path.write_text(text)
        s.process.send_signal(signal.SIGHUP)
        s.wait_until(lambda _: s.read_log().count("event=reloaded what=keys") > n, what="the reload")
    assert s.post("/v1/completions", body, headers=keys["alice"]).status == 200
    s.wait_idle()
    reload_with("[boss]" + text.split("[boss]")[1])
    assert s.post("/v1/completions", body, headers=keys["alice"]).status == 401
    reload_with(text)
    assert s.post("/v1/completions", body, headers=keys["alice"]).status == 429, "what it has spent is not forgotten"


def test_not_a_database(tmp_path):
    path = tmp_path / "x.db"
    path.write_text("something else, and long enough to be looked at as a database" * 20)
    assert "not a database" in serve_in_vain("--usage-db", str(path)).stderr


def test_one_server_at_a_time(start, tmp_path):
    start("--usage-db", str(tmp_path / "usage.db"))
    assert "in use by another process" in serve_in_vain("--usage-db", str(tmp_path / "usage.db")).stderr


def test_a_disk_that_is_full(start, tmp_path):
    """Nothing is lost: what could not be saved is, as soon as it can be. Size limits of the process stand for the disk's."""
    s = start("--usage-db", str(tmp_path / "usage.db"), "--tenant-header", "X-Tenant")

    def wait_for_line(what):  # nothing is asked meanwhile: the log is a file too
        until = time.monotonic() + 20
        while what not in pathlib.Path(s.log.name).read_text():
            assert time.monotonic() < until, pathlib.Path(s.log.name).read_text()
            time.sleep(0.05)
    size = (tmp_path / "usage.db-wal").stat().st_size
    resource.prlimit(s.process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    body = {"prompt": "Once", "max_tokens": 1}
    assert s.post("/v1/completions", body, headers={"X-Tenant": "a"}).status == 200
    wait_for_line("event=not-saved")
    assert s.post("/v1/completions", body, headers={"X-Tenant": "b"}).status == 200
    resource.prlimit(s.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    wait_for_line("event=saved-again")
    s.stop()
    assert [(owner, n) for owner, n, _ in saved(tmp_path / "usage.db")] == [("a", 1), ("b", 1)]
