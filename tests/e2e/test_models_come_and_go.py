"""Models that are loaded when they are asked for, and leave: who waits for what, and that nothing is lost."""
import calendar
import json
import os
import pathlib
import re
import shutil
import signal
import threading
import time

import pytest

from quire import BIN, DEBUG_BIN, SANITIZED, SLOW, Server, in_threads, make_key, make_model, serve_in_vain

ASK = {"prompt": "Once upon a time", "max_tokens": 4, "temperature": 0}
TINY = ["--embd", "64", "--layers", "2", "--heads", "2", "--kv-heads", "1", "--head-dim", "32", "--ff", "128", "--vocab", "300",
        "--context", "512", "--type", "Q8_0"]


@pytest.fixture
def serve(tmp_path):
    """A server with a file of settings; they are stopped in the end."""
    servers = []

    def make(settings, **kw):
        path = tmp_path / "quire.conf"
        path.write_text("kv_memory = 16m\nswap_ram = 0\n" + settings)
        servers.append(Server("--config", str(path), model="", **kw))
        return servers[-1]

    yield make
    for s in servers:
        s.stop()


def ask(server, name, **fields):
    return server.post("/v1/completions", {**ASK, "model": name, **fields})


def states(server):
    return {m["id"]: m["status"]["value"] for m in server.get("/v1/models").json["data"]}


def until(question, timeout=20):
    begin = time.monotonic()
    while not question():
        assert time.monotonic() - begin < timeout
        time.sleep(0.01)


class Gate:
    """What a server of the debug build waits at before it loads a model beside others."""

    def __init__(self, folder, variable="QUIRE_DEBUG_HOLD_LOAD_MODEL"):
        self.path = folder / "gate"
        os.mkfifo(self.path)
        self.env = {variable: str(self.path)}

    def open(self):
        """For one load, say, which must have come to it."""
        os.close(os.open(self.path, os.O_WRONLY))


# ---- states and demand ----

def test_loaded_when_it_is_asked_for(serve):
    s = serve("model = first=,second=,third=\n[second]\nload = demand\n[third]\nload = never\n")
    assert states(s) == {"first": "loaded", "second": "unloaded", "third": "unloaded"}
    assert s.get("/health").status == 200
    text = ask(s, "first").text
    r = ask(s, "second")
    assert (r.status, r.text, r.json["model"]) == (200, text, "second")
    assert states(s)["second"] == "loaded"
    r = ask(s, "third")
    assert (r.status, r.json["error"]["code"], r.headers["x-should-retry"]) == (503, "model_not_loaded", "false")
    assert states(s)["third"] == "unloaded"
    assert s.post("/tokenize", {"content": "Once", "model": "third"}).status == 503
    log = s.read_log()
    assert log.count("event=loading model=\"second\"") == 1 and "model=\"third\"" not in log


def test_pages_of_one_that_is_not_there(serve):
    """Lists have it; what tells of what is loaded says that it is not."""
    s = serve("model = first=,second=\n[first]\nload = demand\n[second]\nload = demand\n")
    for page in ("/v1/models/second", "/v1/models", "/api/tags", "/metrics", "/server_info", "/load", "/openapi.json"):
        assert s.get(page).status == 200, page
    assert s.get("/v1/models", headers={"anthropic-version": "2023-06-01"}).status == 200
    assert s.get("/api/ps").json == {"models": []}
    for page in ("/props", "/slots", "/debug/kv", "/debug/requests", "/lora-adapters", "/tokenizer_info"):
        r = s.get(f"{page}?model=second")
        assert (r.status, r.json["error"]["code"]) == (503, "model_not_loaded"), page
    assert ask(s, "second").status == 200
    assert [m["name"] for m in s.get("/api/ps").json["models"]] == ["second:latest"]
    assert s.get("/props?model=second").status == 200


def test_leaves_when_it_is_idle(serve):
    s = serve("model = first=,second=\n[first]\nidle_unload = 300ms\n[second]\nidle_unload = 300ms\nkeep_loaded = on\n")
    text = ask(s, "first").text
    until(lambda: states(s)["first"] == "unloaded")
    assert states(s)["second"] == "loaded"
    used = s.get("/v1/models/first").json["meta"]
    assert used["n_params"] > 0  # what was known stays known
    assert ask(s, "first").text == text


def test_a_stream_is_no_idle_time(serve):
    s = serve("model = first=\nidle_unload = 100ms\n")
    stream = s.stream("Once", model="first", max_tokens=900, ignore_eos=True)
    frames = iter(stream)
    next(frames)
    n = 1
    for _ in frames:
        n += 1
        if n == 100:
            time.sleep(0.5)
    assert stream.done and n > 500  # some frames have two tokens
    until(lambda: states(s)["first"] == "unloaded")


def test_those_who_wait_for_a_load(serve, tmp_path):
    """Requests wait in order, by their own limits; a client that leaves is forgotten; others are served meanwhile."""
    gate = Gate(tmp_path)
    s = serve("model = first=,second=\nmax_queue_ms = 0\n[second]\nload = demand\n", binary=DEBUG_BIN, env=gate.env)
    answers = []
    waiting = [threading.Thread(target=lambda: answers.append(ask(s, "second"))) for _ in range(3)]
    for t in waiting:
        t.start()
    until(lambda: s.get("/load").json["server_load"] == 3)
    until(lambda: states(s)["second"] == "loading")  # its file is looked at first
    gone = s.connect()
    gone.request("POST", "/v1/completions", json.dumps({**ASK, "model": "second"}), {"Content-Type": "application/json"})
    until(lambda: s.get("/load").json["server_load"] == 4)
    gone.close()
    until(lambda: s.get("/load").json["server_load"] == 3)
    r = ask(s, "second", deadline_ms=150)
    assert (r.status, r.json["error"]["code"]) == (408, "deadline_exceeded")
    r = ask(s, "second", max_queue_ms=150)
    assert (r.status, r.json["error"]["code"]) == (429, "queue_timeout") and int(r.headers["Retry-After"]) >= 1
    assert ask(s, "first").status == 200
    assert s.get("/health").status == 200
    gate.open()
    for t in waiting:
        t.join()
    assert [r.status for r in answers] == [200] * 3 and len({r.text for r in answers}) == 1


def test_the_queue_of_one_that_is_loaded_is_bounded(serve, tmp_path):
    gate = Gate(tmp_path)
    s = serve("model = first=\nload = demand\nmax_sequences = 1\nqueue_limit = 1\n", binary=DEBUG_BIN, env=gate.env)
    answers = []
    waiting = [threading.Thread(target=lambda: answers.append(ask(s, "first"))) for _ in range(2)]
    for t in waiting:
        t.start()
    until(lambda: s.get("/load").json["server_load"] == 2)
    r = ask(s, "first")
    assert (r.status, r.json["error"]["code"]) == (429, "queue_full") and int(r.headers["retry-after-ms"]) > 0
    assert r.json["error"]["message"] == \
        "the queue of the model 'first' is full: 2 requests wait until it is loaded; retry later, or raise queue_limit"
    gate.open()
    for t in waiting:
        t.join()
    assert [r.status for r in answers] == [200, 200]


def test_a_file_that_cannot_be_loaded(serve, tmp_path):
    """The reason is told to its requests, it is not tried again, and a new file is."""
    path, good = tmp_path / "models" / "m.gguf", tmp_path / "good.gguf"
    path.parent.mkdir()
    make_model(good, *TINY)
    path.write_bytes(good.read_bytes()[:5000])
    s = serve(f"model = m={path}\nload = demand\n")
    for _ in range(3):
        r = ask(s, "m")
        assert (r.status, r.json["error"]["code"], r.headers["x-should-retry"]) == (503, "model_load_failed", "false")
        assert "m.gguf" in r.json["error"]["message"]
    time.sleep(1.1)
    assert ask(s, "m").status == 503
    status = s.get("/v1/models/m").json["status"]
    assert status["value"] == "unloaded" and status["failed"] and "m.gguf" in status["reason"]
    assert s.read_log().count("event=loading") == 1
    shutil.copy(good, tmp_path / "models" / "new.gguf")
    os.rename(tmp_path / "models" / "new.gguf", path)
    until(lambda: ask(s, "m").status == 200)
    assert s.read_log().count("event=loading") == 2


@pytest.mark.threads
def test_stopped_while_it_loads(serve, tmp_path):
    """Whoever waits is told, and the process does not wait for the load."""
    gate = Gate(tmp_path)
    s = serve("model = first=,second=\n[second]\nload = demand\n", binary=DEBUG_BIN, env=gate.env)
    answers = []
    t = threading.Thread(target=lambda: answers.append(ask(s, "second")))
    t.start()
    until(lambda: s.get("/load").json["server_load"] == 1)
    assert s.stop(timeout=10) == 0
    t.join()
    assert answers[0].status == 503 and "shutting down" in answers[0].json["error"]["message"]


def test_settings_that_make_no_sense(tmp_path):
    for line, words in (("idle_unload = soon", "idle_unload"), ("load = later", "load"),
                        ("kv_events = on\nload = demand", "kv_events"), ("kv_events = on\nidle_unload = 5m", "kv_events")):
        path = tmp_path / "bad.conf"
        path.write_text(line + "\n")
        run = serve_in_vain("--config", path)
        assert run.returncode == 2 and words in run.stderr, run.stderr


# ---- what operators ask for ----

def load(server, name, **kw):
    return server.post("/models/load", {"model": name}, **kw)


def unload(server, name, **kw):
    return server.post("/models/unload", {"model": name}, **kw)


def test_load_and_unload(serve):
    s = serve("model = first=,second=\n[first]\nalias = a\n[second]\nload = never\n")
    text = ask(s, "first").text
    for r in (load(s, "first"), unload(s, "second")):
        assert (r.status, r.json["error"]["type"]) == (400, "invalid_request_error")
    assert load(s, "third").status == unload(s, "third").status == 404
    assert s.post("/models/load", {}).status == s.post("/models/unload", {"model": 3}).status == 400
    r = load(s, "second")
    assert (r.status, r.json) == (200, {"success": True})
    until(lambda: states(s)["second"] == "loaded")
    assert ask(s, "second").text == text
    for name in ("a", "second"):
        assert unload(s, name).json == {"success": True}
    until(lambda: set(states(s).values()) == {"unloaded"})
    assert ask(s, "second").status == 503
    assert ask(s, "first").text == text  # load = start: it comes again
    m = s.metrics()
    assert m['quire_model_loads_total{model="first",result="ok"}'] == 2 and m['quire_model_unloads_total{model="first"}'] == 1
    assert m['quire_model_state{model="second",state="loaded"}'] == 0
    told = {d["id"]: d for d in s.get("/debug/models").json["models"]}
    assert told["second"]["state"] == "unloaded" and told["first"]["loads"] == 2 and told["first"]["calls"] == 0


def test_an_unload_waits_for_those_who_run(serve):
    """A stream goes on to its end; who comes meanwhile waits, and gets its answer from the model that comes again."""
    s = serve("model = first=,second=\ncontext_shift = on\n")
    text = ask(s, "first").text
    stream = s.stream("Once", model="first", max_tokens=2000, ignore_eos=True)
    frames = iter(stream)
    next(frames)
    assert unload(s, "first").status == 200
    late = []
    t = threading.Thread(target=lambda: late.append(ask(s, "first")))
    t.start()
    until(lambda: s.get("/load").json["server_load"] == 2)
    assert sum(1 for _ in frames) > 500 and stream.done
    t.join()
    assert (late[0].status, late[0].text) == (200, text)
    assert s.metrics()['quire_model_loads_total{model="first",result="ok"}'] == 2


def test_an_unload_that_is_taken_back(serve):
    """While a stream still holds the model: who waited for it to come again is answered at once."""
    s = serve("model = first=\ncontext_shift = on\n")
    stream = s.stream("Once", model="first", max_tokens=2000, ignore_eos=True)
    frames = iter(stream)
    next(frames)
    assert unload(s, "first").status == 200
    late = []
    t = threading.Thread(target=lambda: late.append(ask(s, "first")))
    t.start()
    until(lambda: s.get("/debug/models").json["models"][0]["waiting"] == 1)
    assert load(s, "first").status == 200
    t.join()
    assert late[0].status == 200
    assert sum(1 for _ in frames) > 500 and stream.done
    assert s.metrics()["quire_model_unloads_total"] == 0


@pytest.mark.threads
def test_unloaded_under_traffic(serve):
    """Again and again, with requests of all kinds at any moment: each gets its answer."""
    s = serve("model = first=,second=\n[second]\nload = demand\n")
    text = ask(s, "first").text
    over = threading.Event()
    answers = [0]

    def client(k):
        while not over.is_set():
            name = "first" if k % 3 else "second"
            if k % 4 == 0:
                stream = s.stream(ASK["prompt"], model=name, max_tokens=4, temperature=0)
                assert stream.text() == text and stream.done
            elif k % 4 == 1:
                r = s.post("/tokenize", {"content": "Once", "model": name})
                assert r.status == 200, r.body
            else:
                r = ask(s, name)
                assert (r.status, r.text) == (200, text), r.body
            answers[0] += 1

    clients = [threading.Thread(target=client, args=(k,)) for k in range(8)]
    failed = []
    threading.excepthook, before = lambda a: failed.append(a.exc_value), threading.excepthook
    try:
        for t in clients:
            t.start()
        begin = time.monotonic()
        while sum(v for k, v in s.metrics().items() if k.startswith("quire_model_unloads_total")) < 20 and not failed:
            assert time.monotonic() - begin < 60
            for name in ("first", "second"):
                assert unload(s, name).status in (200, 400)
    finally:
        over.set()
        for t in clients:
            t.join()
        threading.excepthook = before
    assert not failed, failed[0]
    assert answers[0] > 20
    assert not any(v for k, v in s.metrics().items() if k.startswith("quire_rejections_total"))


def test_who_may(serve, tmp_path):
    keys = tmp_path / "keys"
    admin, user = (make_key("boss", "--admin"), make_key("user"))
    keys.write_text(admin[0] + user[0])
    s = serve(f"api_keys = {keys}\nmodel = first=\nload = demand\n", key=admin[1])
    bearer = {"Authorization": f"Bearer {user[1]}"}
    for act in (load, unload):
        assert act(s, "first", headers=bearer).status == 403
    assert s.get("/debug/models", headers=bearer).status == 403
    ollama = {"model": "first", "prompt": "Once", "options": {"num_predict": 2}, "stream": False, "keep_alive": 0}
    assert s.post("/api/generate", ollama, headers=bearer).status == 200
    assert "expires_at" in s.get("/api/ps").json["models"][0]
    assert s.post("/api/generate", ollama).status == 200
    until(lambda: s.get("/api/ps").json["models"] == [])


def test_ollamas_keep_alive(serve):
    s = serve("model = first=,second=\n[first]\nload = demand\nidle_unload = 1h\n")

    def expires(path="/api/generate", **fields):
        decisions = {"state": "Once", "questions": {"a": {"type": "noul"}}}
        text = {"prompt": "Once", "options": {"num_predict": 1}, "stream": False}
        r = s.post(path, {"model": "first", **(decisions if path == "/v1/systemone" else text), **fields})
        assert r.status == 200, r.body
        told = {m["name"]: m["expires_at"] for m in s.get("/api/ps").json["models"]}
        assert told["second:latest"].startswith("2262")
        when = calendar.timegm(time.strptime(told["first:latest"], "%Y-%m-%dT%H:%M:%SZ"))
        return when - time.time()

    assert 3500 < expires() < 3700
    assert 250 < expires(keep_alive="5m") < 350
    assert 60 < expires(keep_alive=120) < 180
    assert expires(keep_alive=-1) > 1e8
    assert 250 < expires("/v1/systemone", keep_alive="5m") < 350
    assert 3500 < expires("/v1/systemone") < 3700
    r = s.post("/api/generate", {"model": "first", "keep_alive": 0})
    assert r.json["done_reason"] == "unload"
    until(lambda: states(s)["first"] == "unloaded")
    assert s.post("/api/generate", {"model": "second", "keep_alive": 0}).json["done_reason"] == "load"
    assert states(s)["second"] == "loaded"


# ---- a limit of memory ----

LIMITED = "load = demand\nspeculation = off\nmax_batch_tokens = 256\nmax_sequences = 16\nprefill_chunk = 256\n"


def room_for(serve, tmp_path, n):
    """A limit with which n of the demo model fit, and no more: as the server counts."""
    s = serve(f"model = probe=\n{LIMITED}memory_limit = 900m\n")
    assert ask(s, "probe").status == 200
    told = s.get("/debug/models").json
    return told["process_bytes"] + told["models"][0]["bytes"] * (2 * n + 1) // 2


def anonymous_bytes(server):
    with open(f"/proc/{server.pid}/status", encoding="ascii") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("RssAnon")) * 1024


def test_the_one_used_longest_ago_leaves(serve, tmp_path):
    limit = room_for(serve, tmp_path, 2)
    s = serve(f"model = a=,b=,c=,d=\n{LIMITED}memory_limit = {limit}\n[d]\nload = start\nkeep_loaded = on\n")
    text = ask(s, "d").text
    for name in ("a", "b", "c", "a", "d"):
        assert ask(s, name).text == text
        there = {n for n, value in states(s).items() if value == "loaded"}
        assert "d" in there and len(there) <= 2
    assert there == {"a", "d"}
    told = s.get("/debug/models").json
    assert sum(m["bytes"] for m in told["models"] if m["state"] == "loaded") + told["process_bytes"] <= limit
    assert SANITIZED or anonymous_bytes(s) <= limit


def test_one_with_requests_does_not_leave(serve, tmp_path):
    """Whoever wants another model waits for the end of a stream; new requests for the first one then wait in their turn."""
    limit = room_for(serve, tmp_path, 1)
    s = serve(f"model = a=,b=\ncontext_shift = on\n{LIMITED}memory_limit = {limit}\n")
    stream = s.stream("Once", model="a", max_tokens=2000, ignore_eos=True)
    frames = iter(stream)
    next(frames)
    answers, order = {}, []

    def late(name):
        answers[name] = ask(s, name)
        order.append(name)

    threads = [threading.Thread(target=late, args=("b",))]
    threads[0].start()
    until(lambda: {m["id"]: m["waiting"] for m in s.get("/debug/models").json["models"]}["b"] == 1)
    assert states(s) == {"a": "loaded", "b": "unloaded"}
    assert sum(1 for _ in frames) > 500 and stream.done
    threads[0].join()
    assert answers["b"].status == 200 and states(s)["b"] == "loaded"


@pytest.mark.threads
def test_steady_requests_keep_nobody_out(serve, tmp_path):
    """There is room for one, and clients that ask for both all the time: each gets its turn."""
    limit = room_for(serve, tmp_path, 1)
    s = serve(f"model = a=,b=\n{LIMITED}memory_limit = {limit}\n")
    text = ask(s, "a").text
    done = {"a": 0, "b": 0}
    over = time.monotonic() + 60

    def client(name):
        while min(done.values()) < 3 and time.monotonic() < over:
            r = ask(s, name, max_tokens=40)
            assert r.status == 200 and r.text.startswith(text), r.body
            done[name] += 1

    in_threads([lambda name=name: client(name) for name in ("a", "a", "a", "b", "b", "b")])
    assert min(done.values()) >= 3, done


def test_one_that_is_too_large(serve, tmp_path):
    limit = room_for(serve, tmp_path, 1)
    s = serve(f"model = a=,b=,c=\n{LIMITED}memory_limit = {limit}\n[b]\nkv_memory = 600m\n")
    assert ask(s, "a").status == 200
    r = ask(s, "b")
    assert (r.status, r.json["error"]["code"], r.headers["x-should-retry"]) == (503, "model_too_large", "false")
    assert f"({limit >> 20} MiB)" in r.json["error"]["message"]
    assert states(s)["a"] == "loaded"  # nobody left for it
    path = tmp_path / "two.conf"
    path.write_text(f"model = a=,b=\nkv_memory = 16m\nswap_ram = 0\n{LIMITED}load = start\nmemory_limit = {limit}\n".replace(
        "load = demand\n", ""))
    run = serve_in_vain("--config", path)
    assert run.returncode == 2 and "memory_limit" in run.stderr and "'b'" in run.stderr


# ---- a folder of models ----

def test_a_folder(serve, tmp_path):
    """Its files and folders, each under its name, on demand; a model of the settings comes before one of its name."""
    folder = tmp_path / "models"
    (folder / "inside").mkdir(parents=True)
    (folder / "empty").mkdir()
    make_model(folder / "one.gguf", *TINY)
    make_model(folder / "inside" / "x.gguf", *TINY, "--seed", "3")
    for name in (".hidden.gguf", "mmproj-one.gguf", "parts-00002-of-00002.gguf", "notes.txt", "a,b.gguf"):
        (folder / name).write_text("no model")
    (folder / "demo.gguf").write_text("no model")
    (folder / "broken.gguf").write_text("no model")
    (folder / "parts-00001-of-00002.gguf").write_text("no model")
    s = serve(f"model = demo=\nmodels_dir = {folder}/\n[inside]\nalias = other\nidle_unload = 1h\n")
    assert states(s) == {"demo": "loaded", "broken": "unloaded", "inside": "unloaded", "one": "unloaded", "parts": "unloaded"}
    assert ask(s, "one").status == ask(s, "inside").status == 200
    assert ask(s, "other").status == 200 and s.get("/v1/models/other").json["id"] == "inside"
    r = ask(s, "broken")
    assert (r.status, r.json["error"]["code"]) == (503, "model_load_failed") and "broken.gguf" in r.json["error"]["message"]
    assert ask(s, "mmproj-one").status == ask(s, ".hidden").status == 404
    assert {n for n, value in states(s).items() if value == "loaded"} == {"demo", "one", "inside"}
    assert [m["name"] for m in s.get("/api/ps").json["models"] if not m["expires_at"].startswith("2262")] == ["inside:latest"]


def test_only_a_folder(serve, tmp_path):
    folder = tmp_path / "models"
    folder.mkdir()
    run = serve_in_vain("--models-dir", folder)
    assert run.returncode == 2 and "has no model" in run.stderr
    assert serve_in_vain("--models-dir", folder / "none").returncode == 2
    make_model(folder / "one.gguf", *TINY)
    s = serve(f"models_dir = {folder}\n")
    assert states(s) == {"one": "unloaded"} and s.get("/health").status == 200
    assert s.complete("Once", max_tokens=2).json["model"] == "one"  # no name: the first
    with open(tmp_path / "quire.conf", encoding="utf-8") as f:
        (tmp_path / "flag.conf").write_text(f.read())
    flagged = Server("--config", str(tmp_path / "flag.conf"), model="alone=")
    assert states(flagged) == {"alone": "loaded"}
    flagged.stop()


# ---- all of it at once ----

@pytest.fixture
def memory_group(tmp_path):
    """memory_group(bytes) -> a program that is `quire` in a cgroup with so much memory, and the group's folder."""
    root = pathlib.Path("/sys/fs/cgroup/memory")
    limit_name = "memory.limit_in_bytes"
    if not (root / limit_name).exists():
        root, limit_name = pathlib.Path("/sys/fs/cgroup"), "memory.max"
    group = root / f"quire-test-{os.getpid()}"

    def make(n_bytes):
        try:
            group.mkdir()
            (group / limit_name).write_text(str(n_bytes))
        except OSError as e:
            pytest.skip(f"skip: no cgroup of memory can be made here ({e})")
        program = tmp_path / "quire-in-group"
        program.write_text(f"#!/bin/sh\necho $$ > {group}/cgroup.procs && exec {os.path.abspath(BIN)} \"$@\"\n")
        program.chmod(0o755)
        return str(program), group

    yield make
    if group.is_dir():
        until(lambda: not (group / "cgroup.procs").read_text())
        group.rmdir()


def kills_of(group):
    """How often the kernel has ended a process of the group that had no memory."""
    name = "memory.oom_control" if (group / "memory.oom_control").exists() else "memory.events"
    return int(re.search(r"^oom_kill (\d+)", (group / name).read_text(), re.M).group(1))


@pytest.mark.skipif(not SLOW, reason="skip: minutes; QUIRE_SLOW=1")
def test_twenty_models_and_memory_for_three(memory_group, serve, tmp_path):
    """2,000 requests over all of them: every one is answered, memory keeps to its limit, which is that of a cgroup too, and
    streams of another model do not stall while models are read and packed."""
    folder = tmp_path / "models"
    folder.mkdir()
    shape = ["--embd", "512", "--layers", "6", "--heads", "8", "--kv-heads", "2", "--head-dim", "64", "--ff", "1536", "--vocab",
             "8000", "--context", "512", "--type", "Q8_0"]
    make_model(folder / "m0.gguf", *shape)
    for i in range(1, 20):
        shutil.copy(folder / "m0.gguf", folder / f"m{i}.gguf")
    target_ms = 200
    common = f"{LIMITED.replace('load = demand', '')}model = live=\nmodels_dir = {folder}\nstep_target_ms = {target_ms}\n"
    live = "[live]\nkeep_loaded = on\n"
    s = serve(common + "memory_limit = 2g\n" + live)
    assert ask(s, "m0").status == 200
    told = s.get("/debug/models").json
    each, first = told["models"][1]["bytes"], told["models"][0]["bytes"]
    limit = told["process_bytes"] + first + each * 7 // 2
    s.stop()
    program, group = memory_group(limit)
    s = serve(common + f"memory_limit = {limit}\n" + live, binary=program)
    gaps, peak, over, answered = [], [0], threading.Event(), [0]
    lock, left = threading.Lock(), iter(range(2000))

    def watch():
        while not over.is_set():
            peak[0] = max(peak[0], anonymous_bytes(s))
            time.sleep(0.02)

    def stream():
        while not over.is_set():
            last = None
            for _ in s.stream("Once", model="live", max_tokens=900, ignore_eos=True):
                now = time.monotonic()
                if last is not None:
                    gaps.append((now - last) * 1000)
                last = now

    def client(k):
        while True:
            with lock:
                n = next(left, None)
            if n is None:
                return
            r = ask(s, f"m{(n * 7 + k) % 20}")
            assert r.status == 200 and r.json["usage"]["completion_tokens"] == 4, r.body
            with lock:
                answered[0] += 1

    beside = [threading.Thread(target=f) for f in (watch, stream, stream)]
    for t in beside:
        t.start()
    try:
        in_threads([lambda k=k: client(k) for k in range(16)])
    finally:
        over.set()
        for t in beside:
            t.join()
    gaps.sort()
    p99 = gaps[len(gaps) * 99 // 100]
    m = s.metrics()
    loads = sum(v for k, v in m.items() if k.startswith("quire_model_loads_total") and 'result="ok"' in k)
    print(f"answered {answered[0]}, loads {loads:.0f}, gaps {len(gaps)}: p50 {gaps[len(gaps) // 2]:.1f} p99 {p99:.1f} "
          f"max {gaps[-1]:.1f} ms; peak {peak[0] >> 20} of {limit >> 20} MiB")
    assert answered[0] == 2000 and loads > 100
    assert peak[0] <= limit and kills_of(group) == 0
    assert p99 <= 1.3 * target_ms


# ---- settings that are read again ----

class Settings:
    """The file of a server, which is written anew and read again."""

    def __init__(self, server, path):
        self.server, self.path = server, path

    def write(self, text, name="reloaded"):
        """And wait for the line in the log that says how it ended."""
        lines = self.server.read_log().count("what=settings")
        self.path.write_text("kv_memory = 16m\nswap_ram = 0\n" + text)
        self.server.process.send_signal(signal.SIGHUP)
        until(lambda: self.server.read_log().count("what=settings") > lines)
        last = [line for line in self.server.read_log().splitlines() if "what=settings" in line][-1]
        assert f"event={name}" in last, last
        return last


@pytest.mark.threads
def test_settings_are_read_again(serve, tmp_path):
    """Models come, change and go; the others keep what they have in memory."""
    s = serve("model = a=,b=\n[b]\nload = demand\n")
    conf = Settings(s, tmp_path / "quire.conf")
    text = ask(s, "a", max_tokens=40).text
    conf.write("model = a=,c=\n")
    assert set(states(s)) == {"a", "c"}
    until(lambda: states(s)["c"] == "loaded")
    assert ask(s, "b").status == 404 and ask(s, "c", max_tokens=40).text == text
    assert s.read_log().count('event=loading model="a"') == 0
    conf.write("model = a=,c=\n[a]\ncontext = 16\nalias = first\n")
    until(lambda: s.get("/v1/models/a").json["max_model_len"] == 16)
    until(lambda: states(s)["a"] == "loaded")
    assert ask(s, "first", max_tokens=40).status == 200 and s.get("/v1/models/first").json["id"] == "a"
    assert s.get("/v1/models/c").json["max_model_len"] == 1024
    conf.write("model = b=,a=\n[b]\nload = demand\n[a]\nidle_unload = 200ms\nalias = first\ncontext = 16\n")
    assert set(states(s)) == {"a", "b"}
    until(lambda: states(s)["a"] == "unloaded")
    assert ask(s, "b", max_tokens=40).text == text
    assert set(s.metrics()) and s.get("/api/tags").status == 200


def test_a_change_waits_for_those_who_run(serve, tmp_path):
    s = serve("model = a=\ncontext_shift = on\n")
    conf = Settings(s, tmp_path / "quire.conf")
    text = ask(s, "a").text
    streams = [s.stream("Once", model="a", max_tokens=2000, ignore_eos=True) for _ in range(2)]
    frames = [iter(x) for x in streams]
    for f in frames:
        next(f)
    conf.write("model = a=\ncontext_shift = on\nmax_batch_tokens = 512\nprefill_chunk = 128\n")
    late = []
    t = threading.Thread(target=lambda: late.append(ask(s, "a")))
    t.start()
    for f in frames:
        assert sum(1 for _ in f) > 500
    t.join()
    assert late[0].status == 200 and late[0].text == text
    assert s.metrics()['quire_model_unloads_total'] == 1
    config = s.get("/server_info?config_format=json").json["vllm_config"]["scheduler_config"]
    assert (config["max_num_batched_tokens"], config["long_prefill_token_threshold"]) == (512, 128)


@pytest.mark.threads
def test_a_change_that_is_taken_back(serve, tmp_path):
    """Read again twice, while a stream holds the model: it comes back as it was."""
    s = serve("model = a=\ncontext_shift = on\n")
    conf = Settings(s, tmp_path / "quire.conf")
    text = ask(s, "a").text
    stream = s.stream("Once", model="a", max_tokens=2000, ignore_eos=True)
    frames = iter(stream)
    next(frames)
    conf.write("model = a=\ncontext_shift = on\n[a]\ncontext = 64\n")
    conf.write("model = a=\ncontext_shift = on\n")
    assert sum(1 for _ in frames) > 500 and stream.done
    assert ask(s, "a").text == text
    assert s.get("/v1/models/a").json["max_model_len"] == 1024


@pytest.mark.threads
def test_a_change_that_comes_into_force_while_the_settings_are_read(serve, tmp_path):
    """A thread reads them again while a model takes the settings that were read before: it must not look at what the model
    gives back. (A thread sanitizer tells, and an address sanitizer.)"""
    gate = Gate(tmp_path, "QUIRE_DEBUG_HOLD_SETTINGS")
    s = serve("model = a=,b=\ncontext_shift = on\n", binary=DEBUG_BIN, env=gate.env)
    stream = s.stream("Once", model="a", max_tokens=400, ignore_eos=True)
    frames = iter(stream)
    next(frames)
    text = "kv_memory = 16m\nswap_ram = 0\nmodel = a=,b=\ncontext_shift = on\n"
    (tmp_path / "quire.conf").write_text(text + "[a]\ncontext = 64\nalias = first\n")
    s.process.send_signal(signal.SIGHUP)
    gate.open()
    until(lambda: s.read_log().count("event=reloaded what=settings") == 1)
    (tmp_path / "quire.conf").write_text(text + "[a]\ncontext = 32\nalias = second\n")
    s.process.send_signal(signal.SIGHUP)  # its thread waits at the gate
    for _ in frames:
        pass
    until(lambda: s.get("/v1/models/a").json["max_model_len"] == 64)
    gate.open()
    until(lambda: s.read_log().count("event=reloaded what=settings") == 2)
    until(lambda: s.get("/v1/models/a").json["max_model_len"] == 32)
    assert ask(s, "second").status == 200 and s.get("/v1/models/second").json["id"] == "a"


def test_a_bad_file_changes_nothing(serve, tmp_path):
    s = serve("model = a=\n")
    conf = Settings(s, tmp_path / "quire.conf")
    for bad, word in (("model = a=,a=\n", "with the name"), ("kv_memory = 5\n", "kv_memory"), ("nonsense = 1\n", "nonsense"),
                      ("[none]\nshare = 3\n", "none"), (f"models_dir = {tmp_path}/none\n", "models_dir"),
                      ("model = a=,b=\n[b]\nchat_template_kwargs = [\n", "chat_template_kwargs")):
        assert word in conf.write(bad, "reload_failed")
        assert states(s) == {"a": "loaded"}
    conf.write("model = a=,b=\nmax_queue_ms = 7\n")
    assert set(states(s)) == {"a", "b"}


def test_what_needs_a_restart_is_named(serve, tmp_path):
    s = serve("model = a=\n")
    conf = Settings(s, tmp_path / "quire.conf")
    conf.write("model = a=\nmax_tenants = 3\nmax_sequences = 7\nmemory_limit = 3g\n")
    log = s.read_log()
    assert "event=needs_restart setting=max_tenants" in log and "event=needs_restart setting=max_sequences" in log
    assert "event=changed setting=memory_limit" in log
    assert s.get("/debug/models").json["memory_limit"] == 3 << 30
    assert s.read_log().count("event=loading") == 0  # nothing that can change has


def test_a_folder_is_read_again(serve, tmp_path):
    folder = tmp_path / "models"
    folder.mkdir()
    make_model(folder / "one.gguf", *TINY)
    s = serve(f"models_dir = {folder}\n")
    conf = Settings(s, tmp_path / "quire.conf")
    assert ask(s, "one").status == 200 and ask(s, "two").status == 404
    os.rename(folder / "one.gguf", folder / "two.gguf")
    shutil.copy(folder / "two.gguf", folder / "three.gguf")
    conf.write(f"models_dir = {folder}\n")
    assert set(states(s)) == {"two", "three"}
    assert ask(s, "one").status == 404 and ask(s, "two").status == ask(s, "three").status == 200
    assert s.complete("Once", max_tokens=2).json["model"] in ("two", "three")  # the first that there is now
    os.rename(folder / "two.gguf", folder / "one.gguf")
    conf.write(f"models_dir = {folder}\n")
    assert ask(s, "one").status == 200 and ask(s, "two").status == 404
