"""Responses that are kept: found again, gone on from, computed in the background, and nobody else's."""
import contextlib
import json
import os
import pathlib
import random
import re
import resource
import sqlite3
import time

import pytest

import damage
import pages
from damage import hurt
from quire import Server, in_threads, make_key, serve_in_vain
from test_openapi import validate

PATH = "/v1/responses"
SHORT = {"max_output_tokens": 4, "temperature": 0}
LONG = {"max_output_tokens": 900, "temperature": 0, "ignore_eos": True}


@pytest.fixture(scope="module")
def keeper(tmp_path_factory):
    s = Server("--responses-db", str(tmp_path_factory.mktemp("kept") / "r.db"), "--tenant-header", "X-Tenant")
    yield s
    assert s.stop() == 0


def answer(s, text="Once upon a time", **fields):
    r = s.post(PATH, {"input": text, **SHORT, **fields})
    assert r.status == 200, r.body
    return r.json


def get(s, name, tail="", **kw):
    return s.get(f"{PATH}/{name}{tail}", **kw)


def delete(s, name, **kw):
    return s.request("DELETE", f"{PATH}/{name}", **kw)


def text_of(item):
    return item["content"][0]["text"]


@contextlib.contextmanager
def connect(path):
    """The file, of no server's at this time."""
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        yield db


def wait_over(s, name):
    begin = time.monotonic()
    while get(s, name).json["status"] == "in_progress":
        assert time.monotonic() - begin < 30
        time.sleep(0.01)
    return get(s, name).json


# ---- one response

def test_a_response_is_found_again(keeper):
    a = answer(keeper, metadata={"a": "é\u0001"}, instructions="Tell.")
    assert a["store"] is True and a["previous_response_id"] is None and a["background"] is False
    assert get(keeper, a["id"]).json == a
    assert keeper.get(f"/responses/{a['id']}").json == a
    items = get(keeper, a["id"], "/input_items").json
    assert [text_of(i) for i in items["data"]] == ["Once upon a time"]
    assert items["data"][0]["role"] == "user" and items["first_id"] == items["last_id"] == items["data"][0]["id"]
    doc = keeper.get("/openapi.json").json
    validate(doc, "Response", get(keeper, a["id"]).json)
    validate(doc, "ResponseItems", items)
    gone = delete(keeper, a["id"])
    assert gone.status == 200 and gone.json == {"id": a["id"], "object": "response", "deleted": True}
    validate(doc, "Deleted", gone.json)
    for r in (get(keeper, a["id"]), delete(keeper, a["id"]), get(keeper, a["id"], "/input_items")):
        assert r.status == 404 and a["id"] in r.json["error"]["message"]


def test_a_stream_is_kept_as_it_ended(keeper):
    r = keeper.post(PATH, {"input": "Once", "stream": True, **SHORT})
    events = [json.loads(line[6:]) for line in r.body.decode().splitlines() if line.startswith("data: ")]
    last = events[-1]["response"]
    assert events[-1]["type"] == "response.incomplete" and last["store"] is True
    assert get(keeper, last["id"]).json == last


def test_what_is_not_to_be_kept_is_not(keeper):
    a = answer(keeper, store=False)
    assert a["store"] is False and get(keeper, a["id"]).status == 404
    r = keeper.post(PATH, {"input": "x", "previous_response_id": a["id"]})
    assert r.status == 404 and r.json["error"]["param"] == "previous_response_id"
    assert r.json["error"]["code"] == "previous_response_not_found"


def test_input_items_by_pages(keeper):
    words = ["a", "b", "c"]
    a = answer(keeper, [{"role": "user", "content": w} for w in words])
    items = get(keeper, a["id"], "/input_items?order=asc").json
    assert [i["content"] for i in items["data"]] == words and not items["has_more"]
    assert all(i["type"] == "message" for i in items["data"]) and len({i["id"] for i in items["data"]}) == 3
    down = get(keeper, a["id"], "/input_items").json
    assert down["data"] == items["data"][::-1]
    page = get(keeper, a["id"], f"/input_items?limit=1&order=asc&after={items['first_id']}").json
    assert page["data"] == items["data"][1:2] and page["has_more"]
    for query, param in (("limit=0", "limit"), ("limit=101", "limit"), ("limit=x", "limit"), ("order=up", "order"),
                         ("after=x", "after")):
        r = get(keeper, a["id"], "/input_items?" + query)
        assert r.status == 400 and r.json["error"]["param"] == param, query
    assert get(keeper, a["id"], "?stream=true").json["error"]["param"] == "stream"
    assert get(keeper, a["id"], "?stream=false").status == 200


def test_methods_and_names(keeper):
    for method, path in (("PUT", PATH + "/x"), ("POST", PATH + "/x"), ("DELETE", PATH + "/x/input_items"),
                         ("GET", PATH + "/x/cancel")):
        r = keeper.request(method, path)
        assert r.status == 405 and r.headers["Allow"], (method, path)
    assert keeper.request("PUT", PATH + "/x").headers["Allow"] == "GET, HEAD, DELETE"
    for path in (PATH + "/", PATH + "/a/b", PATH + "//input_items", PATH + "/a/b/input_items"):
        assert keeper.get(path).status == 404, path
    assert get(keeper, "x" * 500).status == 404
    assert get(keeper, "%27%20OR%201--").status == 404


# ---- conversations

def test_a_conversation_goes_on(keeper):
    first = answer(keeper, "Once upon a time", instructions="Only this once.")
    second = answer(keeper, "Who was it?", previous_response_id=first["id"])
    third = answer(keeper, [{"role": "user", "content": "Why?"}], previous_response_id=second["id"])
    assert third["previous_response_id"] == second["id"]
    said = [text_of(r["output"][0]) for r in (first, second)]
    whole = answer(keeper, [{"role": "user", "content": "Once upon a time"}, {"role": "assistant", "content": said[0]},
                            {"role": "user", "content": "Who was it?"}, {"role": "assistant", "content": said[1]},
                            {"role": "user", "content": "Why?"}], store=False)
    assert whole["usage"]["input_tokens"] == third["usage"]["input_tokens"]
    assert text_of(whole["output"][0]) == text_of(third["output"][0])
    counted = keeper.post(PATH + "/input_tokens", {"input": "Why?", "previous_response_id": second["id"]})
    assert counted.json["input_tokens"] == whole["usage"]["input_tokens"]
    # Instructions are a response's own.
    told = answer(keeper, "Why?", previous_response_id=second["id"], instructions="Be brief.", store=False)
    assert told["usage"]["input_tokens"] > whole["usage"]["input_tokens"]
    # Of its own input a response lists what came with it.
    assert len(get(keeper, third["id"], "/input_items").json["data"]) == 1
    assert delete(keeper, first["id"]).status == 200
    r = keeper.post(PATH, {"input": "x", "previous_response_id": third["id"], **SHORT})
    assert r.status == 404 and first["id"] in r.json["error"]["message"]


def test_a_long_body_goes_on_as_well(keeper):
    """It is parsed by another thread."""
    first = answer(keeper)
    body = {"input": "x", "previous_response_id": first["id"], "metadata": {"a": "x" * 20000}, **SHORT}
    used = [keeper.post(PATH, b).json["usage"]["input_tokens"] for b in (body, {**body, "metadata": {}})]
    assert used[0] == used[1] > first["usage"]["total_tokens"]
    schema = {"format": {"type": "json_schema", "name": "a", "schema": {"type": "boolean"}}}
    r = keeper.post(PATH, {"input": "x", "previous_response_id": first["id"], "text": schema})
    assert r.status == 200 and text_of(r.json["output"][0]).strip() in ("true", "false")


def test_items_by_reference(keeper):
    a = answer(keeper, "A tale.")
    said = a["output"][0]
    asked = get(keeper, a["id"], "/input_items").json["data"][0]
    by_name = [{"type": "item_reference", "id": asked["id"]}, {"id": said["id"]}, {"role": "user", "content": "On."}]
    b = answer(keeper, by_name)
    plain = answer(keeper, [asked, said, {"role": "user", "content": "On."}])
    assert b["usage"]["input_tokens"] == plain["usage"]["input_tokens"] and b["output"][0]["content"] == plain["output"][0]["content"]
    kept = get(keeper, b["id"], "/input_items?order=asc").json["data"]
    assert kept[:2] == [asked, said]
    for items, status in (([{"type": "item_reference", "id": "nope"}], 404), ([{"type": "item_reference"}], 400),
                          ([{"type": "item_reference", "id": 5}], 400), ([{"id": "x" * 200}], 400)):
        assert keeper.post(PATH, {"input": items, **SHORT}).status == status, items


def cpu_ms(server):
    """Of all threads, to the microsecond where the kernel counts that."""
    total = 0
    for task in os.listdir(f"/proc/{server.pid}/task"):
        try:
            with open(f"/proc/{server.pid}/task/{task}/schedstat", encoding="ascii") as f:
                total += int(f.read().split()[0])
        except FileNotFoundError:
            pytest.skip("skip: this kernel does not tell what threads have used")
    return total / 1e6


def test_references_cost_as_much_as_there_are(start, tmp_path):
    """Four times the references to kept items take about four times the time, and not sixteen: of as many items, and of one."""
    s = start("--responses-db", tmp_path / "r.db", "--max-body", "4m")
    ids = [f"{i:x}" for i in range(12000)]
    items = [{"type": "reasoning", "id": i, "summary": []} for i in ids]
    answer(s, [{"role": "user", "content": "x"}, *items])
    cost = {}
    for n in (3000, 12000):
        for kind, wanted in (("all", ids[:n]), ("one", ids[:1] * n)):
            body = {"input": [{"role": "user", "content": "x"}, *({"type": "item_reference", "id": i} for i in wanted)],
                    **SHORT, "store": False}
            tries = []
            for _ in range(3):
                begin = cpu_ms(s)
                r = s.post(PATH, body)
                assert r.status == 200, r.body
                tries.append(cpu_ms(s) - begin)
            cost[kind, n] = min(tries)
    for kind in ("all", "one"):
        assert cost[kind, 12000] < 11 * cost[kind, 3000], cost


def test_calls_and_outputs_are_gone_on_from(keeper):
    tool = {"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}}
    first = answer(keeper, "Look.", tools=[tool], tool_choice="required", max_output_tokens=100)
    call = next(i for i in first["output"] if i["type"] == "function_call")
    result = [{"type": "function_call_output", "call_id": call["call_id"], "output": "A cat."}]
    second = answer(keeper, result, previous_response_id=first["id"], tools=[tool], tool_choice="none")
    whole = answer(keeper, [{"role": "user", "content": "Look."}, call] + result, tools=[tool], tool_choice="none")
    assert second["usage"]["input_tokens"] == whole["usage"]["input_tokens"]


# ---- the background

def test_in_the_background(keeper):
    a = answer(keeper, background=True)
    assert a["status"] == "in_progress" and a["background"] is True and a["output"] == [] and a["usage"] is None
    done = wait_over(keeper, a["id"])
    assert done["status"] == "incomplete" and done["background"] is True
    same = answer(keeper)
    assert done["output"][0]["content"] == same["output"][0]["content"]
    again = keeper.post(f"{PATH}/{a['id']}/cancel", None)
    assert again.status == 200 and again.json == done, "what is over stays as it is"
    r = keeper.post(PATH, {"input": "x", "background": True, "store": False})
    assert r.status == 400 and r.json["error"]["param"] == "background"


def test_no_stream_of_the_background(start, tmp_path):
    """Where no streams are kept (test_streams.py has them)."""
    s = start("--responses-db", str(tmp_path / "db"), "--stream-keep-ms", "0")
    r = s.post(PATH, {"input": "x", "background": True, "stream": True})
    assert r.status == 400 and r.json["error"]["param"] == "background"


def test_cancelling(keeper):
    keeper.wait_idle()
    a = answer(keeper, background=True, **LONG)
    assert keeper.post(PATH, {"input": "x", "previous_response_id": a["id"]}).status == 400
    r = keeper.post(f"{PATH}/{a['id']}/cancel", None)
    assert r.status == 200 and r.json["status"] == "cancelled" and r.json["id"] == a["id"]
    keeper.wait_idle()
    assert get(keeper, a["id"]).json == r.json
    b = answer(keeper, background=True, **LONG)
    assert delete(keeper, b["id"]).status == 200
    keeper.wait_idle()
    assert get(keeper, b["id"]).status == 404
    front = answer(keeper)
    assert keeper.post(f"{PATH}/{front['id']}/cancel", None).status == 400
    assert keeper.post(f"{PATH}/nope/cancel", None).status == 404


def test_a_client_that_goes(tmp_path):
    """In the foreground its response is cancelled; in the background it is not."""
    s = Server("--responses-db", str(tmp_path / "r.db"))
    c = s.connect()
    c.request("POST", PATH, json.dumps({"input": "Once", **LONG}), {"Content-Type": "application/json"})
    s.wait_until(lambda m: m["quire_requests_running"] == 1, what="running")
    c.close()
    s.wait_idle()
    a = answer(s, background=True, max_output_tokens=40, ignore_eos=True)
    assert wait_over(s, a["id"])["usage"]["output_tokens"] == 40
    assert s.stop() == 0
    with connect(tmp_path / "r.db") as db:
        rows = [json.loads(body)["status"] for body, in db.execute("SELECT body FROM response ORDER BY n")]
    assert rows == ["cancelled", "incomplete"]


# ---- whose it is

def test_a_tenant_does_not_see_anothers(keeper):
    mine, other = {"headers": {"X-Tenant": "a"}}, {"headers": {"X-Tenant": "b"}}
    a = keeper.post(PATH, {"input": "Once", **SHORT}, **mine).json
    item = get(keeper, a["id"], "/input_items", **mine).json["data"][0]
    b = keeper.post(PATH, {"input": "Once", "background": True, **LONG}, **mine).json
    for who in (other, {}):
        assert get(keeper, a["id"], **who).status == 404
        assert get(keeper, a["id"], "/input_items", **who).status == 404
        assert delete(keeper, a["id"], **who).status == 404
        assert keeper.post(f"{PATH}/{b['id']}/cancel", None, **who).status == 404
        assert keeper.post(PATH, {"input": "x", "previous_response_id": a["id"]}, **who).status == 404
        assert keeper.post(PATH, {"input": [{"type": "item_reference", "id": item["id"]}]}, **who).status == 404
    assert get(keeper, b["id"], **mine).json["status"] in ("in_progress", "incomplete")
    assert keeper.post(f"{PATH}/{b['id']}/cancel", None, **mine).status == 200
    assert get(keeper, a["id"], **mine).json == a


def test_a_key_does_not_see_anothers(tmp_path):
    keys = {name: make_key(name) for name in ("ann", "bob")}
    (tmp_path / "keys.ini").write_text("\n".join(entry for entry, _ in keys.values()))
    s = Server("--responses-db", str(tmp_path / "r.db"), "--api-keys", str(tmp_path / "keys.ini"), key=keys["ann"][1])
    a = answer(s)
    bob = {"headers": {"Authorization": "Bearer " + keys["bob"][1]}}
    assert get(s, a["id"]).json == a and get(s, a["id"], **bob).status == 404
    assert delete(s, a["id"], **bob).status == 404
    assert get(s, a["id"], headers={"Authorization": "Bearer no"}).status == 401
    assert s.stop() == 0


# ---- the file

def test_a_restart_keeps_them(tmp_path):
    path = tmp_path / "r.db"
    s = Server("--responses-db", str(path))
    a = answer(s)
    b = answer(s, background=True, **LONG)
    s.process.kill()
    s.process.wait()
    s = Server("--responses-db", str(path))
    assert get(s, a["id"]).json == a
    lost = get(s, b["id"]).json
    assert lost["status"] == "failed" and "stopped" in lost["error"]["message"]
    assert answer(s, "On.", previous_response_id=a["id"])["previous_response_id"] == a["id"]
    log = s.flush_log() or s.read_log()
    assert "event=refused" not in log, "the sandbox lets SQLite do its work"
    assert s.stop() == 0
    assert os.stat(path).st_mode & 0o777 == 0o600 and os.stat(str(path) + "-wal").st_size == 0
    with connect(path) as db:
        assert db.execute("SELECT count(*) FROM response").fetchone() == (3,)
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_the_end_waits_for_what_runs_in_the_background(tmp_path):
    s = Server("--responses-db", str(tmp_path / "r.db"))
    a = answer(s, background=True, max_output_tokens=60, ignore_eos=True)
    assert s.stop() == 0
    with connect(tmp_path / "r.db") as db:
        [(body,)] = db.execute("SELECT body FROM response").fetchall()
    assert json.loads(body)["usage"]["output_tokens"] == 60 and json.loads(body)["id"] == a["id"]


def test_the_oldest_go_first(tmp_path):
    s = Server("--responses-db", str(tmp_path / "r.db"), "--responses-size", "1m")
    names = [answer(s, "x" * 50, metadata={"a": "y" * 30000}, max_output_tokens=1)["id"] for _ in range(60)]
    found = [get(s, name).status for name in names]
    assert found[-1] == 200 and found[0] == 404 and found == sorted(found, reverse=True)
    assert s.stop() == 0
    assert os.stat(tmp_path / "r.db").st_size < 2 << 20
    damage.change(tmp_path / "r.db", "UPDATE response SET created = created - 86400 * 2")
    s = Server("--responses-db", str(tmp_path / "r.db"), "--responses-days", "1")
    assert get(s, names[-1]).status == 404
    assert s.stop() == 0


def test_what_is_kept_is_counted(tmp_path):
    """After every kind of change, and after a start: what the file says itself."""
    path, flags = tmp_path / "r.db", ("--responses-db", str(tmp_path / "r.db"), "--responses-size", "1m")

    def kept(s):
        m = s.metrics()
        return m["quire_kept_responses"], m["quire_kept_responses_bytes"]

    s = Server(*flags)
    n, empty = kept(s)
    assert n == 0 and 0 < empty < 1 << 20
    names = [answer(s)["id"] for _ in range(3)]
    n, some = kept(s)
    assert n == 3 and some >= empty
    answer(s, store=False)
    assert delete(s, names[0]).status == 200 and delete(s, names[0]).status == 404 and kept(s)[0] == 2
    b = answer(s, background=True, **LONG)["id"]
    s.post(f"{PATH}/{b}/cancel", {})
    assert kept(s)[0] == 3
    big = {"metadata": {"a": "y" * 30000}, "max_output_tokens": 1}
    for _ in range(60):
        answer(s, "x" * 50, **big)
    n, full = kept(s)
    assert 3 < n < 63 and some < full <= 1 << 20
    assert s.stop() == 0
    with connect(path) as db:
        assert db.execute("SELECT count(*) FROM response").fetchone() == (n,)
    s = Server(*flags)
    assert kept(s)[0] == n
    assert s.stop() == 0


def test_files_that_are_refused(tmp_path):
    text, other = tmp_path / "text", tmp_path / "other.db"
    text.write_text("hello " * 1000)
    with connect(other) as db:
        db.execute("CREATE TABLE t(a)")
    for path, why in ((text, "not a database"), (other, "another program"), (tmp_path, "directory"),
                      (tmp_path / "no" / "where", "No such file")):
        r = serve_in_vain("--responses-db", str(path))
        assert r.returncode == 1 and str(path) in r.stderr and why in r.stderr, r.stderr
    s = Server("--responses-db", str(tmp_path / "r.db"))
    r = serve_in_vain("--responses-db", str(tmp_path / "r.db"))
    assert r.returncode == 1 and "in use by another process" in r.stderr
    assert s.stop() == 0


@pytest.mark.parametrize("seed", [1, 3, 30, 37])
def test_damage(tmp_path, seed):
    """At random places, after a kill: each response is what it was, with all that it goes on from, or is named."""
    rng, path = random.Random(seed), tmp_path / "r.db"
    s = Server("--responses-db", str(path))
    kept = []
    for i in range(24):
        before = {"previous_response_id": kept[-1]["id"]} if i % 4 else {}
        kept.append(answer(s, f"Tell {i}.", metadata={"a": "y" * rng.choice((1, 300, 9000))}, **before))
        if i == 15:
            assert s.stop() == 0
            s = Server("--responses-db", str(path))
    items = {a["id"]: get(s, a["id"], "/input_items").json for a in kept}
    s.process.kill()
    s.process.wait()
    hurt(path, rng, n=2)
    s = Server("--responses-db", str(path))
    log = s.flush_log() or s.read_log()
    assert ("event=database_damaged" in log) == pathlib.Path(f"{path}.damaged").exists()
    lost = set(re.findall(r'event=row_lost file="\S+" table=response id="(\S+)"', log))
    assert lost == {a["id"] for a in kept if get(s, a["id"]).status == 404} and len(lost) < len(kept)
    assert s.metrics()['quire_rows_lost_total{database="responses_db"}'] == len(lost)
    for i, a in enumerate(kept):
        if a["id"] not in lost:
            assert get(s, a["id"]).json == a and get(s, a["id"], "/input_items").json == items[a["id"]]
            on = s.post(PATH, {"input": "On.", "previous_response_id": a["id"], **SHORT})
            chain = {b["id"] for b in kept[i - i % 4:i]}
            assert on.status == (404 if chain & lost else 200), on.body
    assert s.stop() == 0


def test_a_full_disk(tmp_path):
    """What cannot be kept is refused, what is not to be kept is answered, and room helps."""
    s = Server("--responses-db", str(tmp_path / "r.db"))
    first = answer(s)
    size = os.stat(tmp_path / "r.db-wal").st_size
    resource.prlimit(s.process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    r = s.post(PATH, {"input": "x", **SHORT})
    assert r.status == 503 and r.json["error"]["code"] == "responses_db", r.body
    streamed = s.post(PATH, {"input": "x", "stream": True, **SHORT}).body.decode()
    assert "response.completed" not in streamed and "kept responses cannot be" in streamed
    assert s.post(PATH, {"input": "x", "background": True, **SHORT}).status == 503
    assert answer(s, store=False)["status"] == "incomplete"
    assert get(s, first["id"]).json == first
    resource.prlimit(s.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    again = answer(s, previous_response_id=first["id"])
    assert get(s, again["id"]).json == again
    s.wait_idle()
    assert s.stop() == 0


# ---- many at once

def test_many_at_once(keeper):
    def talk(i):
        a = answer(keeper, f"Tale {i}.")
        for k in range(3):
            a = answer(keeper, f"On {k}.", previous_response_id=a["id"], background=k == 1)
            a = wait_over(keeper, a["id"])
        assert get(keeper, a["id"]).json == a
        assert len(get(keeper, a["id"], "/input_items").json["data"]) == 1
        assert delete(keeper, a["id"]).status == 200
    in_threads([lambda i=i: talk(i) for i in range(8)])
    keeper.wait_idle()


# ---- the page's words

def test_the_page(keeper):
    block = next(b for b in pages.blocks(pages.read("server/README.md")) if "--responses-db" in b)
    first = keeper.post(PATH, json.loads(re.search(r"-d '(.*?)'", block, re.S)[1])).json
    body = re.search(r'-d "(.*?)" \| jq', block, re.S)[1].replace('\\"', '"').replace("$ID", first["id"])
    second = keeper.post(PATH, json.loads(body)).json
    shown = [json.loads(line) for line in block.splitlines() if line.startswith('"') or line == "true"]
    assert shown == [text_of(second["output"][0]), text_of(get(keeper, first["id"]).json["output"][0]),
                     delete(keeper, first["id"]).json["deleted"]]


# ---- without a file

def test_nothing_is_kept_without_the_setting(server):
    a = answer(server, store=True)
    assert a["store"] is False
    for r in (get(server, a["id"]), get(server, a["id"], "/input_items"), delete(server, a["id"]),
              server.post(f"{PATH}/{a['id']}/cancel", None)):
        assert r.status == 400 and "responses_db" in r.json["error"]["message"]
    for fields, param in (({"previous_response_id": a["id"]}, "previous_response_id"),
                          ({"background": True}, "background"),
                          ({"input": [{"type": "item_reference", "id": "x"}]}, "input[0].type")):
        r = server.post(PATH, {"input": "x", **SHORT, **fields})
        assert r.status == 400 and r.json["error"]["param"] == param and "responses_db" in r.json["error"]["message"]
