"""/v1/files and /v1/batches: uploads, lines and their answers, and what happens to them when a process is killed."""
import json
import os
import random
import re
import resource
import shutil
import signal
import sqlite3
import time

import jsonschema
import pytest

import damage
import pages
from batch_calls import answers, content, create, form, line, look, upload, wait_for, wait_over
from damage import hurt
from quire import BIN, SANITIZED, SLOW, Server, in_threads, make_key, serve_in_vain

SHORT = {"max_tokens": 6}


def prompts(n, **fields):
    return [line(f"r{i}", {"prompt": f"Once {i}", "temperature": 1.0, **SHORT, **fields}) for i in range(n)]


@pytest.fixture(scope="module")
def batcher(tmp_path_factory):
    s = Server("--batch-dir", str(tmp_path_factory.mktemp("batches")))
    yield s
    assert s.stop() == 0


# ---- files

def test_a_file(batcher):
    data = b'{"a": 1}\n\xff\x00 any bytes\r\n'
    f = upload(batcher, data, filename="a \\\"b\\\".jsonl").json
    assert f["object"] == "file" and f["bytes"] == len(data) and f["purpose"] == "batch", f
    assert f["filename"] == 'a "b".jsonl' and f["status"] == "processed" and f["id"].startswith("file-")
    assert f["expires_at"] - f["created_at"] == 30 * 86400
    assert batcher.get(f"/v1/files/{f['id']}").json == f
    r = batcher.get(f"/v1/files/{f['id']}/content")
    assert r.body == data and r.headers["Content-Type"] == "application/octet-stream"
    assert batcher.request("HEAD", f"/v1/files/{f['id']}/content").body == b""
    assert batcher.request("DELETE", f"/v1/files/{f['id']}").json == {"id": f["id"], "object": "file", "deleted": True}
    for path in (f["id"], f["id"] + "/content", "file-none", "x" * 200):
        assert batcher.get(f"/v1/files/{path}").status == 404
    assert batcher.request("DELETE", f"/v1/files/{f['id']}").status == 404


def test_pages_of_files(tmp_path):
    s = Server("--batch-dir", str(tmp_path))
    ids = [upload(s, b"x").json["id"] for _ in range(5)]
    assert [f["id"] for f in s.get("/v1/files").json["data"]] == ids[::-1]
    assert [f["id"] for f in s.get("/v1/files?order=asc").json["data"]] == ids
    page = s.get(f"/v1/files?order=asc&limit=2&after={ids[1]}").json
    assert [f["id"] for f in page["data"]] == ids[2:4] and page["has_more"]
    assert (page["first_id"], page["last_id"]) == (ids[2], ids[3])
    assert s.get("/v1/files?purpose=batch_output").json["data"] == []
    assert len(s.get("/v1/files?purpose=batch").json["data"]) == 5
    for query in ("limit=0", "limit=10001", "limit=x", "order=up", "after=file-none"):
        assert s.get(f"/v1/files?{query}").status == 400, query
    assert s.stop() == 0


def test_uploads_that_are_refused(batcher, tmp_path):
    good, headers = form(b"x")
    for body, own, status in (
            (form(b"x", purpose="fine-tune")[0], headers, 400), (form(b"x", purpose=None)[0], headers, 400),
            (form(None)[0], headers, 400), (good[:-10], headers, 400), (b"", headers, 400),
            (good, {"Content-Type": "application/json"}, 415), (good, {"Content-Type": "multipart/form-data"}, 415),
            (b"--a-boundary\r\nnonsense\r\n\r\n", headers, 400),
            (form(b"x", **{"expires_after[anchor]": "created_at", "expires_after[seconds]": "10"})[0], headers, 400)):
        r = batcher.request("POST", "/v1/files", body, own)
        assert r.status == status and r.json["error"]["message"], (body, r.body)
    for body, words in (
            (form(b"x", purpose=None)[0], "'purpose' is missing: the form must have a part with this name, and the value batch"),
            (good[:-10], "the form is cut: its last boundary, the one with -- behind it, is missing: send the whole form"),
            (b"", "the form is empty: it must have the parts 'file' and 'purpose'"),
            (form(b"x", **{"expires_after[seconds]": "3600"})[0], "'expires_after[anchor]' must be created_at, the only anchor that is supported"),
            (form(b"x", **{"expires_after[anchor]": "created_at"})[0], "'expires_after[seconds]' must be a whole number from 3600 to 2592000")):
        assert batcher.request("POST", "/v1/files", body, headers).json["error"]["message"] == words
    f = upload(batcher, b"x", **{"expires_after[anchor]": "created_at", "expires_after[seconds]": "3600"}).json
    assert f["expires_at"] - f["created_at"] == 3600
    s = Server("--batch-dir", str(tmp_path), "--batch-file-size", "4k", "--batch-size", "1m")
    assert upload(s, b"x" * 4096).status == 200
    assert upload(s, b"x" * 4097).status == 413
    assert upload(s, b"x" * (1 << 20)).status == 413
    assert os.listdir(tmp_path).count("batches.db") == 1
    assert [name for name in os.listdir(tmp_path) if name.endswith(".part")] == []
    assert s.stop() == 0


def peak_memory(s):
    return int(next(text for text in open(f"/proc/{s.pid}/status") if text.startswith("VmHWM")).split()[1]) << 10


def test_a_large_upload_in_small_memory(tmp_path):
    """Chunked, byte by byte at first; then as fast as it goes, with more bytes than a body may have."""
    s = Server("--batch-dir", str(tmp_path), "--max-body", "64k")
    data = os.urandom(1 << 20) * 48
    body, headers = form(data)
    before = peak_memory(s)
    c = s.connect()
    c.putrequest("POST", "/v1/files")
    for k, v in {**headers, "Transfer-Encoding": "chunked"}.items():
        c.putheader(k, v)
    c.endheaders()
    for at in range(100):
        c.send(b"1\r\n" + body[at:at + 1] + b"\r\n")
    for at in range(100, len(body), 1 << 20):
        piece = body[at:at + (1 << 20)]
        c.send(b"%x\r\n" % len(piece) + piece + b"\r\n")
    c.send(b"0\r\n\r\n")
    r = c.getresponse()
    f = json.loads(r.read())
    c.close()
    assert r.status == 200 and f["bytes"] == len(data), f
    assert SANITIZED or peak_memory(s) - before < 16 << 20
    assert s.get(f"/v1/files/{f['id']}/content").body == data
    assert SANITIZED or peak_memory(s) - before < 24 << 20
    assert s.stop() == 0


def test_a_client_that_leaves(batcher):
    """Nothing of its file stays, and no descriptor."""
    folder = next(batcher.process.args[i + 1] for i, a in enumerate(batcher.process.args) if a == "--batch-dir")
    n_fds = batcher.n_fds()
    body, headers = form(b"x" * 300000)
    for n in (100, 100000, len(body) - 1):
        with batcher.socket() as c:
            head = f"POST /v1/files HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n"
            c.sendall((head + f"Content-Type: {headers['Content-Type']}\r\n\r\n").encode() + body[:n])
            time.sleep(0.05)
    begin = time.monotonic()
    while batcher.n_fds() > n_fds or any(name.endswith(".part") for name in os.listdir(folder)):
        assert time.monotonic() - begin < 10, os.listdir(folder)
        time.sleep(0.01)


# ---- batches

def usage_of(found):
    """What a batch's `usage` is, of the lines of its answers."""
    total = dict(input_tokens=0, input_tokens_details={"cached_tokens": 0}, output_tokens=0,
                 output_tokens_details={"reasoning_tokens": 0}, total_tokens=0)
    for u in (a["response"]["body"]["usage"] for a in found):
        new = "input_tokens" in u
        total["input_tokens"] += u["input_tokens" if new else "prompt_tokens"]
        total["output_tokens"] += u.get("output_tokens" if new else "completion_tokens", 0)
        total["total_tokens"] += u.get("total_tokens", u.get("input_tokens"))  # TypeSafe's answers do not add them up
        for to, name in (("input_tokens_details", "cached_tokens"), ("output_tokens_details", "reasoning_tokens")):
            details = u.get(to if new else to.replace("input", "prompt").replace("output", "completion"), {})
            total[to][name] += details.get(name, 0)
    return total


def test_answers_are_those_of_requests(batcher):
    """Each line has the answer that its body has as a request; what is refused is in the file of errors."""
    items = prompts(20, seed=7) + [line("none", {"prompt": "x", "temperature": -5}), line("bad", {"prompt": 5})]
    b = wait_over(batcher, create(batcher, items, metadata={"who": "me"}))
    assert b["status"] == "completed" and b["request_counts"] == {"total": 22, "completed": 20, "failed": 2}, b
    assert b["metadata"] == {"who": "me"} and b["errors"] is None and b["endpoint"] == "/v1/completions"
    assert b["created_at"] <= b["in_progress_at"] <= b["finalizing_at"] <= b["completed_at"] < b["expires_at"]
    found = answers(content(batcher, b["output_file_id"]))
    assert set(found) == {f"r{i}" for i in range(20)}
    assert b["usage"] == usage_of(content(batcher, b["output_file_id"])) and b["usage"]["output_tokens"] > 20
    for item in items[:20]:
        r = batcher.post(item["url"], item["body"])
        assert found[item["custom_id"]] == (200, r.json["choices"], None)
    failed = content(batcher, b["error_file_id"])
    assert {a["custom_id"]: a["response"]["status_code"] for a in failed} == {"none": 400, "bad": 400}
    for a in failed:
        assert a["error"] is None and a["response"]["body"]["error"]["message"] and a["response"]["request_id"]
    assert len({a["id"] for a in failed + content(batcher, b["output_file_id"])}) == 22
    assert batcher.get(f"/v1/files/{b['output_file_id']}").json["purpose"] == "batch_output"


@pytest.mark.parametrize("url, body", [
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hi"}], **SHORT}),
    ("/v1/responses", {"input": "Hi", "max_output_tokens": 16}),
    ("/v1/embeddings", {"input": ["a", "b"]}),
    ("/v1/decisions", {"input": "Once", "questions": [{"type": "predicate", "instructions": "It ends."}]}),
    ("/v1/systemone", {"state": "Once", "questions": {"a": {"type": "noul"}}})])
def test_endpoints(batcher, url, body):
    b = wait_over(batcher, create(batcher, [line("a", body, url), line("ü\\", body, url)], url))
    assert b["request_counts"] == {"total": 2, "completed": 2, "failed": 0}, b
    found = content(batcher, b["output_file_id"])
    assert {a["custom_id"] for a in found} == {"a", "ü\\"}
    assert b["usage"] == usage_of(found) and b["usage"]["input_tokens"] > 0
    kinds = {"/v1/chat/completions": "chat.completion", "/v1/responses": "response", "/v1/embeddings": "list",
             "/v1/decisions": "decision", "/v1/systemone": "structured_decision"}
    assert {a["response"]["body"]["object"] for a in found} == {kinds[url]}


def test_inputs_that_are_no_batch(batcher):
    good = prompts(1)[0]
    cases = [
        ([b"{", good], "invalid_json_line", 1, None), ([good, good], "duplicate_custom_id", 2, "custom_id"),
        ([{**good, "url": "/v1/embeddings"}], "mismatched_endpoint", 1, "url"),
        ([good, {**prompts(2)[1], "method": "GET"}], "invalid_method", 2, "method"),
        ([{**good, "body": {"prompt": "x", "stream": True}}], "invalid_value", 1, "body.stream"),
        ([b" ", b""], "empty_file", None, None)]
    for items, code, number, param in cases:
        b = wait_over(batcher, create(batcher, items))
        error = b["errors"]["data"][0]
        assert b["status"] == "failed" and b["failed_at"] and b["output_file_id"] is None, b
        assert (error["code"], error["line"], error["param"]) == (code, number, param) and error["message"], b
        assert b["request_counts"]["completed"] == 0


def test_batches_that_are_refused(batcher):
    f = upload(batcher, prompts(1)).json["id"]
    good = {"input_file_id": f, "endpoint": "/v1/completions", "completion_window": "24h"}
    for change, status in (({"completion_window": "1d"}, 400), ({"completion_window": "0h"}, 400),
                           ({"completion_window": "999h"}, 400), ({"endpoint": "/v1/models"}, 400),
                           ({"output_expires_after": {"anchor": "created_at", "seconds": 3600}}, 400),
                           ({"input_file_id": "file-none"}, 404), ({"input_file_id": None}, 400),
                           ({"metadata": {"a": 1}}, 400), ({"metadata": {str(i): "x" for i in range(17)}}, 400)):
        r = batcher.post("/v1/batches", {**good, **change})
        assert r.status == status and r.json["error"]["param"] == next(iter(change)), (change, r.body)
    for metadata, words in (({"a": 1}, "'a' in 'metadata' must be a string of at most 512 bytes"),
                            ({"a": "x" * 513}, "'a' in 'metadata' must be a string of at most 512 bytes"),
                            ({"a" * 65: "x"}, "a name in 'metadata' has more than 64 bytes: use a shorter one"),
                            ({str(i): "x" for i in range(17)}, "'metadata' must be an object with at most 16 members")):
        assert batcher.post("/v1/batches", {**good, "metadata": metadata}).json["error"]["message"] == words
    assert batcher.post("/v1/batches", []).status == 400
    for path, method in (("batch_none", "GET"), ("batch_none/cancel", "POST")):
        assert batcher.request(method, f"/v1/batches/{path}").status == 404


def test_pages_of_batches(tmp_path):
    s = Server("--batch-dir", str(tmp_path))
    ids = [create(s, prompts(1))["id"] for _ in range(3)]
    page = s.get("/v1/batches?limit=2").json
    assert [b["id"] for b in page["data"]] == ids[:0:-1] and page["has_more"]
    assert [b["id"] for b in s.get(f"/v1/batches?after={ids[1]}").json["data"]] == ids[:1]
    for i in ids:
        wait_over(s, {"id": i})
    assert s.stop() == 0


def test_cancel(tmp_path):
    """What has an answer keeps it; nothing more is computed."""
    s = Server("--batch-dir", str(tmp_path), "--batch-streams", "2")
    b = create(s, prompts(400, max_tokens=200, ignore_eos=True))
    wait_for(s, b, lambda b: b["request_counts"]["completed"] > 2)
    assert s.request("DELETE", f"/v1/files/{b['input_file_id']}").json["error"]["code"] == "file_in_use"
    assert s.post(f"/v1/batches/{b['id']}/cancel", None).json["status"] == "cancelling"
    b = wait_over(s, b)
    counts = b["request_counts"]
    assert b["status"] == "cancelled" and b["cancelling_at"] <= b["cancelled_at"], b
    assert 2 < counts["completed"] < 400 and counts["failed"] == 0 and b["error_file_id"] is None
    assert len(answers(content(s, b["output_file_id"]))) == counts["completed"]
    s.wait_idle()
    assert s.post(f"/v1/batches/{b['id']}/cancel", None).status == 409
    assert s.request("DELETE", f"/v1/files/{b['input_file_id']}").status == 200
    assert s.stop() == 0


def test_requests_go_first(tmp_path):
    """Requests are answered while a batch fills every place, and take places from it."""
    s = Server("--batch-dir", str(tmp_path), "--max-sequences", "4")
    b = create(s, prompts(400, max_tokens=100, ignore_eos=True, priority="critical"))  # which does not help
    s.wait_until(lambda m: m['quire_batch_lines{state="running"}'] >= 4, what="a full batch")
    for i in range(8):
        s.complete(f"A request {i}", max_tokens=20, ignore_eos=True)
    m = s.metrics()
    assert m['quire_batch_lines{state="waiting"}'] > 0 and look(s, b)["status"] == "in_progress"
    assert m['quire_batch_lines{state="running"}'] <= 5
    assert s.post(f"/v1/batches/{b['id']}/cancel", None).status == 200
    wait_over(s, b)
    assert s.stop() == 0


def test_metrics_and_debug(batcher):
    before = batcher.metrics()
    b = wait_over(batcher, create(batcher, prompts(3) + [line("bad", {"prompt": 5})]))
    m = batcher.metrics()
    for result, n in (("completed", 3), ("failed", 1)):
        name = f'quire_batch_lines_total{{result="{result}"}}'
        assert m[name] - before[name] == n
    assert m["quire_batches_open"] == 0 and m['quire_batch_lines{state="waiting"}'] == 0
    assert m["quire_files"] - before["quire_files"] == 3
    sizes = [batcher.get(f"/v1/files/{b[k]}").json["bytes"] for k in ("input_file_id", "output_file_id", "error_file_id")]
    assert m["quire_files_bytes"] - before["quire_files_bytes"] == sum(sizes)
    assert batcher.get("/debug/batches").json == {"batches": []}
    assert m["quire_sandbox_refused_total"] == 0


# ---- whose they are

def test_tenants_and_keys(tmp_path):
    """One tenant sees nothing of another's; a batch's lines are its key's: its bill, its limits, and its end."""
    entries, secrets = zip(*[make_key(name, "--tenant", name) for name in ("alice", "bob")], make_key("root", "--admin"))
    keys = tmp_path / "keys"
    keys.write_text("\n".join(entries))
    s = Server("--batch-dir", str(tmp_path), "--api-keys", str(keys), key=secrets[0])
    bob, root = ({"Authorization": f"Bearer {secret}"} for secret in secrets[1:])
    b = wait_over(s, create(s, prompts(5)))
    assert b["request_counts"]["completed"] == 5
    for path in (f"files/{b['input_file_id']}", f"files/{b['output_file_id']}/content", f"batches/{b['id']}"):
        assert s.get(f"/v1/{path}").status == 200
        assert s.get(f"/v1/{path}", headers=bob).status == 404
    assert s.post(f"/v1/batches/{b['id']}/cancel", None, headers=bob).status == 404
    assert s.get("/v1/files", headers=bob).json["data"] == [] and s.get("/v1/batches", headers=bob).json["data"] == []
    r = s.post("/v1/batches", {"input_file_id": b["input_file_id"], "endpoint": "/v1/completions",
                               "completion_window": "24h"}, headers=bob)
    assert r.status == 404 and r.json["error"]["param"] == "input_file_id"
    used = {row["owner"]: row["requests"] for row in s.get("/v1/usage?by=total", headers=root).json["data"]}
    assert used == {"alice": 5}
    assert s.get("/debug/batches").status == 403
    keys.write_text("\n".join(entries[1:]))
    s.process.send_signal(signal.SIGHUP)
    assert s.stop() == 0


def test_limits_of_keys(tmp_path):
    """A key that may ask twice a minute has that many lines answered; the others wait, and can be cancelled."""
    entry, secret = make_key("slow", "--requests-per-minute", "2")
    (tmp_path / "keys").write_text(entry)
    s = Server("--batch-dir", str(tmp_path), "--api-keys", str(tmp_path / "keys"), key=secret)
    b = create(s, prompts(5))
    b = wait_for(s, b, lambda b: b["request_counts"]["completed"] == 2)
    s.wait_until(lambda m: m['quire_batch_lines{state="waiting"}'] == 3, what="the others wait")
    assert s.post(f"/v1/batches/{b['id']}/cancel", None).status == 200
    b = wait_over(s, b)
    assert b["request_counts"] == {"total": 5, "completed": 2, "failed": 0}
    assert s.stop() == 0


def test_a_key_that_is_gone(tmp_path):
    entries, secrets = zip(make_key("old", "--tenant", "t"), make_key("new", "--tenant", "t"))
    keys = tmp_path / "keys"
    keys.write_text("\n".join(entries))
    flags = ("--batch-dir", str(tmp_path), "--api-keys", str(keys))
    s = Server(*flags, "--batch-streams", "1", key=secrets[0])
    b = create(s, prompts(300, max_tokens=50, ignore_eos=True))
    wait_for(s, b, lambda b: b["request_counts"]["completed"] > 0)
    assert s.stop() == 0
    keys.write_text(entries[1])
    s = Server(*flags, key=secrets[1])
    b = wait_over(s, b)
    assert b["request_counts"]["completed"] > 0 and b["request_counts"]["failed"] > 0
    assert {a["response"]["status_code"] for a in content(s, b["error_file_id"])} == {401}
    assert s.stop() == 0


# ---- the ends of processes

def run_to_end(folder, b, n_kills):
    """The answers of a batch whose server is killed so many times."""
    flags = ("--batch-dir", str(folder), "--batch-streams", "4")
    n = 0
    for k in range(n_kills):
        s = Server(*flags)
        wait_for(s, b, lambda b, n=n: b["request_counts"]["completed"] > n, timeout=300)
        time.sleep(0.03 * k)
        n = look(s, b)["request_counts"]["completed"]
        s.process.kill()
        s.process.wait()
    s = Server(*flags)
    b = wait_over(s, b, timeout=600)
    assert b["status"] == "completed", b
    out = content(s, b["output_file_id"])
    assert b["usage"] == usage_of(out)
    assert s.stop() == 0
    return answers(out), [a["id"] for a in out], n


@pytest.mark.parametrize("n", [300, pytest.param(10000, marks=pytest.mark.skipif(not SLOW, reason="QUIRE_SLOW=1"))])
def test_killed_three_times(tmp_path, n):
    """Each line is answered exactly once, and as undisturbed, whenever the process is killed."""
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    whole.mkdir()
    s = Server("--batch-dir", str(whole), "--batch-streams", "1")
    b = create(s, prompts(n, max_tokens=24, ignore_eos=True))
    s.process.kill()
    s.process.wait()
    shutil.copytree(whole, killed)
    expected, ids, _ = run_to_end(whole, b, 0)
    found, ids_found, n_before = run_to_end(killed, b, 3)
    assert 0 < n_before < n, "the kills came too late to show anything"
    assert len(found) == n and found == expected
    assert len(ids) == n and sorted(ids_found) == sorted(ids)
    assert len({str(choices) for _, choices, _ in found.values()}) > n // 2, "seeds differ from line to line"


def test_stopped_and_started(tmp_path):
    """SIGTERM does not wait for a batch; the next process goes on with it."""
    flags = ("--batch-dir", str(tmp_path), "--batch-streams", "2")
    s = Server(*flags)
    b = create(s, prompts(100, max_tokens=60, ignore_eos=True))
    done = wait_for(s, b, lambda b: b["request_counts"]["completed"] > 2)["request_counts"]["completed"]
    assert s.stop() == 0
    s = Server("--batch-dir", str(tmp_path))
    assert look(s, b)["request_counts"]["completed"] >= done
    b = wait_over(s, b)
    assert b["request_counts"] == {"total": 100, "completed": 100, "failed": 0}
    assert len(answers(content(s, b["output_file_id"]))) == 100
    assert s.stop() == 0


def change(folder, sql, *args):
    damage.change(folder / "batches.db", sql, args)


def interrupted(folder, n=60):
    """A batch that was begun, and whose server was stopped."""
    s = Server("--batch-dir", str(folder), "--batch-streams", "1")
    b = create(s, prompts(n, max_tokens=60, ignore_eos=True))
    b = wait_for(s, b, lambda b: b["request_counts"]["completed"] > 1)
    assert s.stop() == 0
    return b


def test_expired(tmp_path):
    b = interrupted(tmp_path)
    change(tmp_path, "UPDATE batch SET expires=?", int(time.time()) - 1)
    s = Server("--batch-dir", str(tmp_path))
    b = wait_over(s, b)
    counts = b["request_counts"]
    assert b["status"] == "expired" and b["expired_at"] and counts["completed"] > 0 and counts["failed"] > 0, b
    assert counts["completed"] + counts["failed"] == 60
    done, rest = content(s, b["output_file_id"]), content(s, b["error_file_id"])
    assert {a["custom_id"] for a in done + rest} == {f"r{i}" for i in range(60)}
    assert len(done) + len(rest) == 60
    assert all(a["response"] is None and a["error"]["code"] == "batch_expired" for a in rest)
    assert s.stop() == 0


def test_an_input_that_is_gone(tmp_path):
    b = interrupted(tmp_path)
    os.unlink(tmp_path / b["input_file_id"])
    s = Server("--batch-dir", str(tmp_path))
    b = wait_over(s, b)
    assert b["status"] == "failed" and b["errors"]["data"][0]["code"] == "input_file_missing", b
    assert len(content(s, b["output_file_id"])) == b["request_counts"]["completed"] > 0
    assert s.stop() == 0


def test_an_input_that_has_changed(tmp_path):
    b = interrupted(tmp_path)
    (tmp_path / b["input_file_id"]).write_bytes(b"nonsense\n" * 60)
    s = Server("--batch-dir", str(tmp_path))
    b = wait_over(s, b)
    assert b["status"] == "failed" and b["errors"]["data"][0]["code"] == "input_file_changed", b
    assert len(content(s, b["output_file_id"])) == b["request_counts"]["completed"] > 0
    assert s.stop() == 0


def test_old_files_go(tmp_path):
    s = Server("--batch-dir", str(tmp_path), "--batch-days", "1")
    old, b = upload(s, b"x").json["id"], create(s, prompts(1))
    wait_over(s, b)
    assert s.stop() == 0
    change(tmp_path, "UPDATE file SET expires=1 WHERE id=?", old)
    s = Server("--batch-dir", str(tmp_path), "--batch-days", "1")
    assert s.get(f"/v1/files/{old}").status == 404 and not (tmp_path / old).exists()
    assert s.get(f"/v1/files/{b['input_file_id']}").status == 200
    assert s.stop() == 0
    change(tmp_path, "UPDATE batch SET created=1")  # its days begin at its end
    s = Server("--batch-dir", str(tmp_path), "--batch-days", "1")
    assert s.get(f"/v1/batches/{b['id']}").status == 200
    assert s.stop() == 0
    change(tmp_path, "UPDATE batch SET completed=1")
    s = Server("--batch-dir", str(tmp_path), "--batch-days", "1")
    assert s.get(f"/v1/batches/{b['id']}").status == 404
    assert s.stop() == 0


def test_a_full_disk(tmp_path):
    """Answers that cannot be written wait, and so does the batch; the process lives, and room helps."""
    s = Server("--batch-dir", str(tmp_path))
    b = create(s, prompts(2))
    wait_over(s, b)
    resource.prlimit(s.pid, resource.RLIMIT_FSIZE, (2000, resource.RLIM_INFINITY))
    assert upload(s, b"x" * 3000).status == 503
    resource.prlimit(s.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
    b = create(s, prompts(300, max_tokens=30, ignore_eos=True))
    wait_for(s, b, lambda b: b["request_counts"]["completed"] > 0)
    resource.prlimit(s.pid, resource.RLIMIT_FSIZE, (3000, resource.RLIM_INFINITY))
    begin = time.monotonic()
    while not any(x["trouble"] for x in s.get("/debug/batches").json["batches"]):
        assert time.monotonic() - begin < 30, s.get("/debug/batches").body
        time.sleep(0.01)
    assert look(s, b)["status"] == "in_progress"
    s.complete("It lives", max_tokens=2)
    resource.prlimit(s.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
    b = wait_over(s, b)
    assert b["request_counts"] == {"total": 300, "completed": 300, "failed": 0}
    assert len(answers(content(s, b["output_file_id"]))) == 300
    assert s.stop() == 0


@pytest.mark.parametrize("has_batches", [False, True])
def test_a_disk_that_is_full_at_the_start(tmp_path, has_batches):
    """The server starts; a database that is new waits for room, and says so, and one that exists is read. What would be
    written is told to come again, and what waits goes on when there is room."""
    b = None
    if has_batches:
        s = Server("--batch-dir", str(tmp_path))
        b = create(s, prompts(200, max_tokens=30, ignore_eos=True))
        wait_for(s, b, lambda b: b["request_counts"]["completed"] > 0)
        s.process.kill()
        s.process.wait()
    limited = tmp_path / "limited.sh"
    limited.write_text(f'#!/bin/sh\nulimit -S -f 8\nexec {os.path.abspath(BIN)} "$@"\n')
    limited.chmod(0o755)
    s = Server("--batch-dir", str(tmp_path), "--log-level", "error", binary=str(limited))
    assert has_batches or "event=disk_full" in s.read_log()
    s.complete("It lives", max_tokens=2)
    for r in (s.get("/v1/files"), s.get("/v1/batches"), upload(s, b"x" * 9000)):
        assert r.status == 503 and r.json["error"]["code"] == "batch_dir" or has_batches and r.status == 200, r.body
    assert upload(s, b"x" * 9000).status == 503
    resource.prlimit(s.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
    if has_batches:
        b = wait_over(s, b)
        assert b["request_counts"] == {"total": 200, "completed": 200, "failed": 0}
    assert wait_over(s, create(s, prompts(2)))["status"] == "completed"
    assert s.stop() == 0


def test_folders_that_are_refused(tmp_path):
    r = serve_in_vain("--batch-dir", str(tmp_path / "nowhere"))
    assert r.returncode == 1 and "nowhere' is not a folder" in r.stderr, r.stderr
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "batches.db").write_text("hello " * 1000)
    r = serve_in_vain("--batch-dir", str(broken))
    assert r.returncode == 1 and "not a database" in r.stderr, r.stderr
    s = Server("--batch-dir", str(tmp_path))
    r = serve_in_vain("--batch-dir", str(tmp_path))
    assert r.returncode == 1 and "in use by another process" in r.stderr, r.stderr
    assert s.stop() == 0


def test_a_damaged_database(tmp_path):
    """Nothing of it can be read: there is a new one, no file of the folder is touched, and the log names them."""
    s = Server("--batch-dir", str(tmp_path))
    b = wait_over(s, create(s, prompts(3)))
    assert s.stop() == 0
    size = os.stat(tmp_path / "batches.db").st_size
    with open(tmp_path / "batches.db", "r+b") as f:
        f.seek(4096)
        f.write(b"\xaa" * (size - 4096))
    s = Server("--batch-dir", str(tmp_path))
    assert s.get("/v1/batches").json["data"] == s.get("/v1/files").json["data"] == []
    log = s.flush_log() or s.read_log()
    for name in (b["input_file_id"], b["output_file_id"]):
        assert (tmp_path / name).exists() and f'event=file_lost id="{name}"' in log
    assert s.metrics()['quire_rows_lost_total{database="batch_dir"}'] >= 2
    assert wait_over(s, create(s, prompts(3)))["status"] == "completed"
    assert s.stop() == 0


# Of two dozen that were tried: batches are lost; rows of files, which come back; both with the log; all is lost.
@pytest.mark.parametrize("seed", [0, 20, 23, 34])
def test_damage(tmp_path, seed):
    """In mid-batch, at random places: each batch is what it would have been, to the bit, or the log names it or says that
    more may be lost. SQLite drops what follows damage in its log of changes, which nobody tells: here, batches of the
    second process."""
    rng = random.Random(seed)
    flags = ("--batch-dir", str(tmp_path), "--batch-streams", "2")
    s = Server(*flags)
    items = [prompts(12, max_tokens=24, ignore_eos=True, seed=i) for i in range(6)]
    batches = [create(s, lines) for lines in items[:4]]
    want = [answers(content(s, wait_over(s, b)["output_file_id"])) for b in batches]
    assert s.stop() == 0
    s = Server(*flags)
    # Those that are cut have the lines, and so the answers, of the first two.
    batches += [create(s, lines) for lines in items[:2]]
    want += want[:2]
    wait_for(s, batches[4], lambda b: b["request_counts"]["completed"] > 2)
    s.stop(signal.SIGKILL if seed % 2 else signal.SIGTERM)
    hurt(tmp_path / "batches.db", rng, n=3)
    if seed % 2:
        hurt(tmp_path / "batches.db-wal", rng, n=2)
    s = Server(*flags)
    log = s.flush_log() or s.read_log()
    n_whole, n_gone, is_unknown = 0, 0, "more_lost=unknown" in log
    for i, (b, wanted) in enumerate(zip(batches, want)):
        r = s.get(f"/v1/batches/{b['id']}")
        if r.status == 404:
            n_gone += 1
            is_named = f'event=row_lost file="{tmp_path}/batches.db" table=batch id="{b["id"]}"' in log
            assert is_named or is_unknown or (seed % 2 and i > 3), log
            continue
        b = wait_over(s, b)
        assert b["status"] == "completed", b
        n_whole += answers(content(s, b["output_file_id"])) == wanted
        assert len(content(s, b["input_file_id"])) == 12
    lost = log.count("event=row_lost") + log.count("event=file_lost")
    assert n_whole == len(batches) - n_gone
    assert s.metrics()['quire_rows_lost_total{database="batch_dir"}'] - lost in ((0, 1) if is_unknown else (0,)), log
    assert ("event=database_damaged" in log) == (tmp_path / "batches.db.damaged").exists()
    assert "event=database_damaged" in log or lost == 0, "what the log of changes has anew is not missed"
    assert s.stop() == 0


def test_damaged_answers(tmp_path):
    """From a line on that is none, all are answered again: each is there once, and is what it would have been."""
    s = Server("--batch-dir", str(tmp_path), "--batch-streams", "2")
    lines = prompts(40, max_tokens=24, ignore_eos=True)
    first = create(s, lines)
    wait_for(s, first, lambda b: b["request_counts"]["completed"] > 8)
    s.process.kill()
    s.process.wait()
    [path] = [p for p in tmp_path.glob("file-*") if p.name != first["input_file_id"] and p.stat().st_size > 0]
    whole = path.read_bytes()
    at = whole.index(b"\n", len(whole) // 3) + 1
    path.write_bytes(whole[:at] + bytes(b ^ 1 for b in whole[at:at + 30]) + whole[at + 30:])
    s = Server("--batch-dir", str(tmp_path))
    b = wait_over(s, first)
    out = content(s, b["output_file_id"])
    assert b["request_counts"] == {"total": 40, "completed": 40, "failed": 0} and len(out) == len(answers(out)) == 40
    kept = [json.loads(text) for text in whole[:whole.rindex(b"\n")].splitlines()]
    assert out[:whole[:at].count(b"\n")] == kept[:whole[:at].count(b"\n")]
    again = answers(out)
    assert all(again[name] == got for name, got in answers(kept).items())
    assert s.stop() == 0


# ---- many at once

@pytest.mark.threads
def test_many_at_once(batcher):
    def one(i):
        b = create(batcher, prompts(6) + [line("bad", {"prompt": i})])
        if i % 4 == 3:
            batcher.post(f"/v1/batches/{b['id']}/cancel", None)
        b = wait_over(batcher, b)
        n = b["request_counts"]
        assert len(content(batcher, b["output_file_id"])) == n["completed"]
        assert len(content(batcher, b["error_file_id"])) == n["failed"]
        assert b["status"] == "cancelled" or (n["completed"], n["failed"]) == (6, 1), b
    in_threads([lambda i=i: one(i) for i in range(8)])
    batcher.wait_idle()


# ---- what is described

def test_the_page(tmp_path):
    block = next(b for b in pages.blocks(pages.read("server/README.md")) if "--batch-dir" in b)
    s = Server("--batch-dir", str(tmp_path))
    f = upload(s, re.search(r"echo '(.*?)'", block)[1].encode() + b"\n")
    body = re.search(r'-d "(.*?)" \| jq', block, re.S)[1].replace('\\"', '"').replace("$FILE", f.json["id"])
    b = wait_over(s, s.post("/v1/batches", json.loads(body)).json)
    answer = content(s, b["output_file_id"])[0]
    shown = [json.loads(text) for text in block.splitlines() if text.startswith('"')]
    assert shown == [answer["custom_id"], answer["response"]["body"]["choices"][0]["text"]]
    assert s.stop() == 0


def test_openapi(batcher):
    doc = batcher.get("/openapi.json").json
    b = wait_over(batcher, create(batcher, prompts(1)))
    failed = wait_over(batcher, create(batcher, [b"{"]))
    for name, value in (("Batch", b), ("Batch", failed), ("BatchOrList", b), ("BatchOrList", batcher.get("/v1/batches").json),
                        ("File", batcher.get(f"/v1/files/{b['input_file_id']}").json),
                        ("FileOrList", batcher.get("/v1/files").json)):
        jsonschema.Draft202012Validator({"$ref": f"#/components/schemas/{name}", "components": doc["components"]}).validate(value)
    assert "multipart/form-data" in doc["paths"]["/v1/files"]["post"]["requestBody"]["content"]
    assert "requestBody" not in doc["paths"]["/v1/files"]["get"] and "requestBody" in doc["paths"]["/v1/batches"]["post"]


# ---- without a folder

def test_there_are_none_without_the_setting(server):
    for r in (server.get("/v1/files"), upload(server, b"x"), server.get("/v1/files/a/content"), server.get("/v1/batches"),
              server.post("/v1/batches", {}), server.post("/v1/batches/a/cancel", None)):
        assert r.status == 400 and "batch_dir" in r.json["error"]["message"], r.body
    assert server.get("/debug/batches").json == {"batches": []}
