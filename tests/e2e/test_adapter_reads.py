"""Adapters whose files take long to read: nobody else waits for that, who leaves waits no longer, and a file that changes
meanwhile is an error."""
import json
import os
import pathlib
import random
import signal
import sys
import threading
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "reference"))

import adapter_files  # noqa: E402
import gguf_file  # noqa: E402
from bad_disk import BadDisk  # noqa: E402
from quire import DEBUG_BIN, JSON, SANITIZED, Server, Stream, in_threads  # noqa: E402

DEMO = pathlib.Path(__file__).parent.parent.parent / "config/demo/quire-demo.gguf"
PROMPT = "Once upon a time there was a bear who"
N_FILES = 4
RUNNING, WAITING = ('quire_prepare_jobs{pool="adapter",state="%s"}' % s for s in ("running", "waiting"))
READS = "quire_adapter_reads_total"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Adapters of equal size: 0.gguf to 3.gguf, and one as PEFT saves it."""
    demo = gguf_file.read(DEMO.read_bytes())
    folder = tmp_path_factory.mktemp("adapters")
    for i in range(N_FILES):
        adapter = adapter_files.make(demo, 32, "F16", seed=i)
        (folder / f"{i}.gguf").write_bytes(adapter_files.gguf("llama", adapter, 64, "F16"))
    head = demo.key("embedding_length") // demo.key("attention.head_count")
    adapter_files.peft(folder / "peft", adapter_files.make(demo, 32, "F16", seed=0), 64, "F16", head=head)
    return folder


def ask(server, model=None, **fields):
    body = {"prompt": PROMPT, "max_tokens": 8, "temperature": 0, **fields}
    return server.post("/v1/completions", {**body, **({"model": model} if model else {})})


def text(server, model=None):
    r = ask(server, model)
    assert r.status == 200, r.body
    return r.json["choices"][0]["text"]


@pytest.fixture(scope="module")
def texts(files):
    """What each says, and the bytes of one."""
    s = Server("--adapters", ",".join(f"a{i}={files}/{i}.gguf" for i in range(N_FILES)))
    found = [text(s, f"a{i}") for i in range(N_FILES)]
    assert len({text(s), *found}) == N_FILES + 1
    one = s.get("/lora-adapters").json[0]["bytes"]
    assert s.stop() == 0
    return found, one


class Gate:
    """Where a debug build waits before each matrix of an adapter, while the gate is closed."""

    def __init__(self, path):
        self.path = path

    def close(self):
        os.mkfifo(self.path)

    def step(self):
        """Who waits goes on to its next matrix."""
        begin = time.monotonic()
        while True:
            try:
                os.close(os.open(self.path, os.O_WRONLY | os.O_NONBLOCK))
                return
            except OSError:
                assert time.monotonic() - begin < 20, "nobody waits"
                time.sleep(0.01)

    def open(self):
        """Who has found the gate, and is about to wait there, has a moment to find it open."""
        if self.path.exists():
            end = os.open(self.path, os.O_RDWR | os.O_NONBLOCK)
            self.path.unlink()
            time.sleep(0.1)
            os.close(end)


class Slow:
    """A server with room for the last n adapters, that has to read the others; and the gate before its reading."""

    def __init__(self, start, tmp_path, files, one, n):
        self.gate = Gate(tmp_path / "gate")
        self.server = start("--adapters", ",".join(f"a{i}={files}/{i}.gguf" for i in range(N_FILES)),
                            "--adapters-dir", str(files), "--adapter-memory", str(one * (2 * n + 1) // 2),
                            binary=DEBUG_BIN, env={"QUIRE_DEBUG_HOLD_ADAPTER": str(self.gate.path)})
        assert [a["name"] for a in self.server.get("/lora-adapters").json if a["loaded"]] == [f"a{i}" for i in range(N_FILES - n, N_FILES)]
        self.before = self.server.metrics()
        self.gate.close()

    def begin(self, path="/v1/completions", **body):
        """A call that is not waited for."""
        c = self.server.connect()
        c.request("POST", path, json.dumps(body), JSON)
        return c

    def begin_text(self, model):
        return self.begin(prompt=PROMPT, max_tokens=8, temperature=0, model=model)

    def wait_held(self, n_waiting=0):
        self.server.wait_until(lambda m: m[RUNNING] == 1 and m[WAITING] == n_waiting, what="reading")

    def wait_over(self):
        """Nothing is read any more."""
        return self.server.wait_until(lambda m: m[RUNNING] == m[WAITING] == 0, what="end of the reading")


@pytest.fixture
def slow(start, tmp_path, files, texts):
    made = []

    def make(n=1):
        made.append(Slow(start, tmp_path, files, texts[1], n))
        return made[0]

    yield make
    for h in made:
        h.gate.open()


def answer(connection):
    r = connection.getresponse()
    body = r.read()
    connection.close()
    return r.status, body


def text_of(connection):
    status, body = answer(connection)
    assert status == 200, body
    return json.loads(body)["choices"][0]["text"]


def test_others_do_not_wait(slow, texts):
    """While a file is read and another waits for that: long bodies, constraints, streams, all other pages."""
    h = slow(2)
    s = h.server
    held = [h.begin_text(f"a{i}") for i in (0, 1)]
    h.wait_held(1)
    begin = time.monotonic()
    long = {"prompt": "word " * 4000, "max_tokens": 1, "truncate_prompt_tokens": 100}
    jobs = [lambda: s.post("/v1/completions", long) for _ in range(6)]
    jobs += [lambda: s.post("/v1/completions", {"prompt": "a", "max_tokens": 3, "response_format": {"type": "json_object"}})] * 4
    jobs += [lambda: s.post("/tokenize", {"content": "word " * 20000})]
    assert [r.status for r in in_threads(jobs)] == [200] * len(jobs)
    assert s.stream(PROMPT, max_tokens=4).text() != ""
    for page in ("/health", "/ready", "/metrics", "/v1/models", "/lora-adapters"):
        assert s.get(page).status == 200
    assert s.post("/lora-adapters", []).status == 200
    took = time.monotonic() - begin
    assert s.metrics()[RUNNING] == 1 and s.metrics()[WAITING] == 1, took
    h.gate.open()
    assert [text_of(c) for c in held] == texts[0][:2]


def test_those_that_are_in_memory_are_served_meanwhile(slow, texts):
    h = slow(2)
    held = h.begin_text("a0")
    h.wait_held()
    assert text(h.server, "a3") == texts[0][3]
    assert ask(h.server, "a3", prompt="word " * 4000, truncate_prompt_tokens=100).status == 200
    assert h.server.metrics()[RUNNING] == 1
    h.gate.open()
    assert text_of(held) == texts[0][0]


@pytest.mark.parametrize("how", ["completion", "stream", "load", "plan"])
def test_who_leaves_ends_the_reading(slow, how):
    """At the next matrix, and nothing is left of it."""
    h = slow()
    s = h.server
    path, body = {"completion": ("/v1/completions", {"prompt": "x", "model": "a0"}),
                  "stream": ("/v1/completions", {"prompt": "x", "model": "a0", "stream": True}),
                  "load": ("/v1/load_lora_adapter", {"lora_name": "new", "lora_path": "peft"}),
                  "plan": ("/v1/plan", {"prompt": "x", "model": "a0"})}[how]
    c = h.begin(path, **body)
    h.wait_held()
    c.close()
    s.wait_until(lambda m: m["quire_request_memory_bytes"] <= h.before["quire_request_memory_bytes"], what="request is gone")
    h.gate.step()
    h.wait_over()
    after = s.metrics()
    assert after[READS] == h.before[READS]
    assert [a["name"] for a in s.get("/lora-adapters").json] == [f"a{i}" for i in range(N_FILES)]
    assert after["quire_adapter_bytes"] == sum(a["bytes"] for a in s.get("/lora-adapters").json if a["loaded"])
    s.wait_idle()


def test_one_of_two_leaves(slow, texts):
    h = slow()
    leaver, first = h.begin_text("a0"), h.begin_text("a0")
    h.wait_held()
    stayer = h.begin_text("a0")
    h.gate.step()
    leaver.close()
    h.gate.step()
    h.gate.open()
    assert [text_of(first), text_of(stayer)] == [texts[0][0]] * 2
    assert h.server.metrics()[READS] == h.before[READS] + 1


def test_who_comes_after_the_last_has_left(slow, texts):
    h = slow()
    leaver = h.begin_text("a0")
    h.wait_held()
    used = h.server.metrics()["quire_request_memory_bytes"]
    leaver.close()
    h.server.wait_until(lambda m: m["quire_request_memory_bytes"] < used, what="request is gone")
    later = h.begin_text("a0")
    h.gate.step()
    h.gate.open()
    assert text_of(later) == texts[0][0]


@pytest.mark.parametrize("fields,status,code", [({"deadline_ms": 400}, 408, "deadline_exceeded"),
                                                ({"max_queue_ms": 400}, 429, "queue_timeout")])
def test_a_wait_has_an_end(slow, fields, status, code):
    h = slow()
    begin = time.monotonic()
    r = ask(h.server, "a0", **fields)
    took = time.monotonic() - begin
    assert r.status == status and r.json["error"]["code"] == code, r.body
    assert 0.3 < took < 10, took
    assert (r.headers["x-should-retry"] == "false") == (status == 408)
    h.gate.step()
    h.wait_over()
    assert h.server.metrics()[READS] == h.before[READS]


# ---- the end of the server

def test_end_during_a_read(slow):
    """The disk does not answer: clients are told, what runs ends, and so does the process, at the first signal."""
    h = slow()
    running = Stream(h.server, {"prompt": PROMPT, "max_tokens": 200, "ignore_eos": True, "stream": True,
                                "speculation": False})
    frames = iter(running)
    next(frames)
    held = [h.begin_text("a0"), h.begin_text("a1"), h.begin("/v1/load_lora_adapter", lora_name="new", lora_path="2.gguf")]
    h.wait_held(2)
    begin = time.monotonic()
    h.server.process.send_signal(signal.SIGTERM)
    for c in held:
        status, body = answer(c)
        assert status == 503 and b"shutting down" in body, body
    assert sum(1 for _ in frames) >= 199 and running.done
    assert h.server.process.wait(20) == 0
    assert SANITIZED or time.monotonic() - begin < 10
    assert h.server.stop() == 0  # and no sanitizer has anything to say


def test_end_of_a_read_during_the_end(slow):
    """As before, but the disk answers in time: all is given back in order."""
    h = slow()
    held = h.begin_text("a0")
    h.wait_held()
    h.server.process.send_signal(signal.SIGTERM)
    assert answer(held)[0] == 503
    h.gate.open()
    assert h.server.process.wait(20) == 0
    assert h.server.stop() == 0


# ---- files that change

def cut(path, left):
    os.truncate(path, int(path.stat().st_size * left))


def overwrite(path):
    with open(path, "r+b") as f:
        f.write(b"\xff" * path.stat().st_size)


CHANGES = {"all": lambda p: cut(p, 0), "most": lambda p: cut(p, 0.02), "half": lambda p: cut(p, 0.5), "end": lambda p: cut(p, 0.999),
           "ones": overwrite}


@pytest.mark.parametrize("change", list(CHANGES))
@pytest.mark.parametrize("kind", ["file", "folder"])
def test_changed_while_it_is_read(slow, files, texts, kind, change):
    """An error that names the file, and never SIGBUS; the file as it was is read the next time."""
    h = slow()
    victim = files / ("0.gguf" if kind == "file" else "peft/adapter_model.safetensors")
    as_it_was = victim.read_bytes()
    held = h.begin_text("a0") if kind == "file" else h.begin("/v1/load_lora_adapter", lora_name="p", lora_path="peft")
    try:
        h.wait_held()
        h.gate.step()
        CHANGES[change](victim)
        h.gate.open()
        status, body = answer(held)
        assert status == 400 and victim.name.encode() in body, body
        assert h.server.process.poll() is None and text(h.server, "a3") == texts[0][3]
        assert "p" not in [a["name"] for a in h.server.get("/lora-adapters").json]
    finally:
        victim.write_bytes(as_it_was)
    assert text(h.server, "a0") == texts[0][0]


def test_bad_disk(start, files, tmp_path):
    """Some of it cannot be read."""
    (tmp_path / "disk").mkdir()
    try:
        disk = BadDisk(tmp_path / "disk", (files / "0.gguf").read_bytes())
    except OSError as e:
        pytest.skip(f"skip: no file system of our own can be mounted: {e.strerror}")
    try:
        s = start("--adapters-dir", str(tmp_path), "--sandbox", "off")
        disk.fails_at = len(disk.data) // 2
        for _ in range(3):
            r = s.post("/v1/load_lora_adapter", {"lora_name": "x", "lora_path": "disk/m.gguf"})
            assert r.status == 400 and "m.gguf: the file was truncated while it was read, or cannot be read" in r.json["error"]["message"]
        assert disk.n_failed > 0 and s.get("/lora-adapters").json == []
    finally:
        disk.close()


# ---- all of it at once

@pytest.mark.threads
def test_clients_that_come_and_go(start, files, texts):
    """Room for one adapter, requests for all of them, and half of the clients leave at some moment: who stays
    gets its own text, and nothing is left at the end."""
    found, one = texts
    s = start("--adapters", ",".join(f"a{i}={files}/{i}.gguf" for i in range(N_FILES)), "--adapter-memory", str(one * 5 // 2))
    stop, wrong, n_right = time.monotonic() + (12 if SANITIZED else 4), [], []

    def stays(i):
        while time.monotonic() < stop:
            r = ask(s, f"a{i}")
            if r.status == 200:
                n_right.append(i)
            if r.status == 200 and r.json["choices"][0]["text"] != found[i]:
                wrong.append((i, r.body))
            elif r.status != 200 and b"adapter_memory_full" not in r.body:
                wrong.append((i, r.status, r.body))

    def leaves(seed):
        rng = random.Random(seed)
        while time.monotonic() < stop:
            c = s.connect()
            c.request("POST", "/v1/completions", json.dumps({"prompt": PROMPT, "max_tokens": 8, "model": f"a{rng.randrange(N_FILES)}"}), JSON)
            time.sleep(rng.random() * 0.01)
            c.close()

    threads = [threading.Thread(target=stays, args=(i,)) for i in range(N_FILES)]
    threads += [threading.Thread(target=leaves, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == [] and len(n_right) > 20
    s.wait_idle()
    s.wait_until(lambda m: m[RUNNING] == m[WAITING] == 0 and m["quire_request_memory_bytes"] < 1 << 20, what="nothing is left")
    assert s.metrics()["quire_adapter_bytes"] == sum(a["bytes"] for a in s.get("/lora-adapters").json if a["loaded"])
    assert [text(s, f"a{i}") for i in range(N_FILES)] == found
