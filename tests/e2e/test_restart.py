"""A restart that its clients need not notice: kept streams go on in the next process with the same frames, whatever
ended the one before; what is lost is named."""
import http.client
import json
import os
import random
import re
import resource
import signal
import threading
import time
import types

import pytest

import cut_streams as cs
from quire import JSON, in_threads, make_key, make_model, serve_in_vain

# Slow enough that a stream is cut where it is meant to be, and so few at a time that others wait.
FLAGS = ("--isa", "scalar", "--max-sequences", "3")
LONG = {"prompt": "Once", "max_tokens": 900, "ignore_eos": True, "temperature": 0.8, "seed": 5, "stream": True,
        "resumable": True}
SLOW = os.environ.get("QUIRE_SLOW") == "1"
N_ENDS = 200 if SLOW else 4
HEAD_BYTES = 88  # of a record
MAGIC = b"QRq1"


@pytest.fixture
def db(tmp_path):
    return tmp_path / "requests.db"


@pytest.fixture
def boot(start, db):
    return lambda *flags, **kw: start(*FLAGS, *flags, "--requests-db", str(db), **kw)


def end(server, how=signal.SIGKILL):
    server.process.send_signal(how)
    server.process.wait(30)


def wait_for(server, event):
    begin = time.monotonic()
    while event not in server.read_log():
        assert time.monotonic() - begin < 30, server.read_log()
        time.sleep(0.02)


class Client:
    """A stream that can be read in parts."""

    def __init__(self, server, path="/v1/completions", body=None, headers=None):
        self.connection = server.connect()
        self.connection.request("POST", path, json.dumps({"resumable": True, **(body or LONG)}),
                                server.with_key({**JSON, **(headers or {})}))
        self.reply = self.connection.getresponse()
        assert self.reply.status == 200, self.reply.read()
        self.id, self.raw = self.reply.getheader("X-Stream-Id"), b""

    def read(self, n_frames):
        while self.n_frames() < n_frames:
            line = self.reply.readline()
            assert line, self.raw
            self.raw += line
        return self

    def n_frames(self):
        return self.raw.count(b"\n\n")

    def go_on(self, server):
        """At another process, behind what has come."""
        self.cut()
        self.connection = server.connect()
        while True:
            self.connection.request("GET", f"/v1/streams/{self.id}?after={self.n_frames() - 1}")
            self.reply = self.connection.getresponse()
            if self.reply.status == 200:
                return self
            assert self.reply.status == 503, self.reply.read()
            self.reply.read()

    def cut(self):
        """What has come, in whole frames."""
        self.connection.close()
        self.raw = self.raw[:self.raw.rfind(b"\n\n") + 2] if b"\n\n" in self.raw else b""
        return self.raw


def get(server, name, after=-1, **kw):
    """A stream that may not be there yet."""
    for _ in range(600):
        r = server.get(f"/v1/streams/{name}?after={after}" if after >= 0 else f"/v1/streams/{name}", **kw)
        if r.status != 503:
            return r
        assert r.json["error"]["code"] in ("restoring", "loading", None) and int(r.headers["Retry-After"]) >= 1, r.body
        time.sleep(0.05)
    raise AssertionError(r.body)


def without_names(raw):
    """What is drawn anew for each answer, and what may differ: how much was cached, times."""
    raw = re.sub(rb'(cmpl|chatcmpl|call|resp|msg|rs|fc)[-_][0-9a-zA-Z]+', b"ID", cs.bytes_of(cs.frames_of(raw)))
    raw = re.sub(rb'"id":"[0-9a-f]{24}"', b'"id":"ID"', raw)
    raw = re.sub(rb'"(cached_tokens|cache_read_input_tokens|input_tokens)":\d+', b'"n":0', raw)
    return re.sub(rb'"(created|created_at|completed_at)":\d+', b'"time":0', raw)


def text_of(raw):
    return [json.loads(f.data)["choices"][0].get("text") for f in cs.frames_of(raw) if f.data != b"[DONE]"]


@pytest.fixture(scope="module")
def undisturbed(server):
    """The bytes of each case, from a server that nobody ends."""
    out = {}
    for name in cs.CASES:
        path, body = cs.body_of(name, resumable=True)
        r = server.post(path, body)
        assert r.status == 200, r.body
        out[name] = without_names(r.body)
    return out


def test_who_asks_while_the_process_ends_is_told_to_come_again(boot):
    """A client takes a 404 as final, and the next process has the stream."""
    s = boot()
    kept = Client(s, body={**LONG, "max_tokens": 200}).read(20)
    other = s.stream("Once", max_tokens=900, ignore_eos=True, n=2)  # it holds up the end
    frames = iter(other)
    next(frames)
    asks = [s.connect() for _ in range(5)]
    for c in asks:
        c.request("GET", "/health")
        c.getresponse().read()
    s.process.send_signal(signal.SIGTERM)
    wait_for(s, "event=draining")
    for c, path in zip(asks, (f"/v1/streams/{kept.id}?after=3", "/v1/streams/cmpl-none", "/v1/stream?conv_id=none",
                              "/v1/responses/resp_none?stream=true", f"/v1/streams/{kept.id}")):
        c.request("GET", path)
        r = c.getresponse()
        body = r.read()
        assert r.status == 503 and json.loads(body)["error"]["code"] == "restoring", (path, body)
        assert int(r.getheader("Retry-After")) >= 1
    for _ in frames:
        pass
    s.process.wait(30)
    s = boot()
    assert get(s, kept.id).status == 200 and s.get("/v1/streams/cmpl-none").status == 404


class Follower(threading.Thread):
    """A client that goes on with its stream at whichever process is there, from its first frame to its last, and then
    with another stream."""

    def __init__(self, world, seed):
        super().__init__(daemon=True)
        self.world, self.seed = world, seed
        self.statuses, self.n_whole, self.error = {}, 0, None

    def run(self):
        try:
            while not self.world.is_over:
                self.follow()
        except BaseException as e:  # noqa: BLE001 - handed to the test
            self.error = e

    def ask(self, method, path, body=None):
        """The open reply, or None: nobody was there."""
        try:
            c = self.world.server.connect()
            c.request(method, path, json.dumps(body) if body else None, JSON)
            return c, c.getresponse()
        except (OSError, http.client.HTTPException, AttributeError):
            time.sleep(0.005)
            return None

    def count(self, status):
        self.statuses[status] = self.statuses.get(status, 0) + 1

    def begin(self):
        while not self.world.is_over:
            asked = self.ask("POST", "/v1/completions", {**LONG, "max_tokens": 200, "seed": self.seed})
            if asked and asked[1].status == 200:
                return asked
            assert asked is None or asked[1].status in (429, 503), asked[1].read()
        return None

    def read(self, reply):
        try:
            return reply.read1()
        except (OSError, http.client.HTTPException):
            return b""

    def follow(self):
        asked, raw, name = self.begin(), b"", None
        while asked and not raw.endswith(b"data: [DONE]\n\n"):
            connection, reply = asked
            name = name or reply.getheader("X-Stream-Id")
            while piece := self.read(reply):
                raw += piece
            connection.close()
            raw = raw[:raw.rfind(b"\n\n") + 2] if b"\n\n" in raw else b""
            asked = None if raw.endswith(b"data: [DONE]\n\n") else self.go_on(name, raw.count(b"\n\n") - 1)
        if raw.endswith(b"data: [DONE]\n\n"):
            assert [f.id for f in cs.frames_of(raw)] == list(range(raw.count(b"\n\n"))), "each frame once"
            self.n_whole += 1

    def go_on(self, name, after):
        while not self.world.is_over:
            asked = self.ask("GET", f"/v1/streams/{name}" + (f"?after={after}" if after >= 0 else ""))
            if asked is None:
                continue
            self.count(asked[1].status)
            if asked[1].status == 200:
                return asked
            assert asked[1].status == 503, (name, after, asked[1].status, asked[1].read())
            asked[0].close()
        return None


def test_no_client_hears_404_while_processes_come_and_go(boot):
    """Kills and signals at any moment: who goes on with a stream gets it or is told to come again. QUIRE_SLOW=1: 200."""
    world = types.SimpleNamespace(server=None, is_over=False)
    rng = random.Random(3)
    followers = [Follower(world, i) for i in range(4)]
    for f in followers:
        f.start()
    for _ in range(N_ENDS):
        world.server = boot("--stream-keep-ms", "600000", ready=False)
        time.sleep(rng.random() * 0.8)
        end(world.server, rng.choice([signal.SIGKILL, signal.SIGTERM]))
        assert not [f.error for f in followers if f.error], [f.error for f in followers]
    world.server = boot("--stream-keep-ms", "600000")
    begin = time.monotonic()
    while any(f.n_whole == 0 and f.is_alive() for f in followers) and time.monotonic() - begin < 300:
        time.sleep(0.05)
    world.is_over = True
    for f in followers:
        f.join(60)
        assert f.error is None and not f.is_alive() and f.n_whole > 0, (f.error, f.statuses, f.n_whole)
    print(N_ENDS, "ends:", {s: sum(f.statuses.get(s, 0) for f in followers) for s in (200, 503)},
          sum(f.n_whole for f in followers), "whole streams")


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_all_go_on(boot, undisturbed, how):
    """Some have ended, some run, some wait; twice."""
    s = boot()
    clients = {"long": Client(s, body={**LONG, "max_tokens": 400})}
    for name in cs.CASES:
        path, body = cs.body_of(name)
        clients[name] = Client(s, path, body)
    clients["long"].read(30)
    end(s, how)
    s = boot()
    clients["long"].go_on(s).read(120)
    end(s, how)
    s = boot()
    want = s.post("/v1/completions", {**LONG, "max_tokens": 400}).body
    for name, client in clients.items():
        got = client.cut()
        r = get(s, client.id, got.count(b"\n\n") - 1)
        assert r.status == 200, (name, r.body)
        assert get(s, client.id).body == got + r.body, f"{name}: frames are what they were"
        assert without_names(got + r.body) == (without_names(want) if name == "long" else undisturbed[name]), name
    m = s.metrics()
    assert m["quire_requests_restored_total"] == len(clients) and m["quire_requests_lost_total"] == 0
    assert m["quire_requests_kept"] == len(clients) + 1, "those that have ended can still be read"


def test_what_is_not_in_the_body(boot):
    """A seed that was drawn, and headers: the conversation, the priority, the tokens that frames tell."""
    s = boot()
    body = {k: v for k, v in LONG.items() if k != "seed"} | {"max_tokens": 300}
    headers = {"X-Conversation-Id": "of the sea", "X-Priority": "low", "X-Resume-Tokens": "1"}
    c = Client(s, body=body, headers=headers).read(20)
    seed = int(c.reply.getheader("X-Seed"))
    end(s)
    got = c.cut()
    s = boot()
    assert get(s, c.id).body.startswith(got)
    whole = s.get("/v1/stream?conv_id=of%20the%20sea&from=0").body
    want = s.post("/v1/completions", {**body, "seed": seed, "resume_tokens": True})
    assert whole.startswith(got) and without_names(whole) == without_names(want.body)
    assert " priority=low " in next(line for line in s.read_log().splitlines() if "status=204" in line)


def test_a_resumed_one(boot):
    """Its client had the first tokens from another server: frames before these are not there, now as then."""
    s = boot()
    body = {**LONG, "resume_tokens": True, "max_tokens": 300}
    whole = cs.frames_of(s.post("/v1/completions", {**body, "resumable": False}).body)  # or there are two of one id
    c = Client(s, body={**{k: v for k, v in body.items() if k != "seed"}, "resume": cs.resume_of(whole[:40])}).read(10)
    end(s)
    got = c.cut()
    s = boot()
    first = cs.frames_of(got)[0].id
    r = get(s, c.id, first + got.count(b"\n\n") - 1)
    assert cs.bytes_of(cs.frames_of(got + r.body)) == cs.bytes_of(whole[first:])


@pytest.mark.threads
def test_sigterm_does_not_wait(boot):
    """A stream that is kept is put off; one that is not comes to its end."""
    s = boot("--context-shift", "on")
    kept = Client(s, body={**LONG, "max_tokens": 100000}).read(5)
    other = Client(s, body={**LONG, "max_tokens": 400, "resumable": False}).read(5)
    s.process.send_signal(signal.SIGTERM)
    assert other.reply.read().endswith(b"data: [DONE]\n\n")
    assert not kept.reply.read().endswith(b"data: [DONE]\n\n")
    assert s.process.wait(30) == 0
    s = boot("--context-shift", "on")
    kept.go_on(s).read(20)
    assert s.request("DELETE", f"/v1/streams/{kept.id}").status == 200
    s.wait_idle()


def test_not_wanted_any_more(boot):
    """Deleted ones do not come back, nor do those that nobody has read for stream_keep_ms."""
    s = boot()
    a, b = Client(s).read(3), Client(s).read(3)
    assert s.request("DELETE", f"/v1/streams/{a.id}").status == 200
    done = s.post("/v1/completions", {**LONG, "max_tokens": 3}).headers["X-Stream-Id"]
    assert s.request("DELETE", f"/v1/streams/{done}").status == 200
    end(s, signal.SIGTERM)  # what was deleted is on the disk then; a kill may come before its record
    s = boot("--stream-keep-ms", "300")
    assert get(s, a.id).status == get(s, done).status == 404
    s.wait_until(lambda m: m["quire_streams_stopped_total"] == 1, what="stopped")
    assert get(s, b.id).status == 404 and s.metrics()["quire_requests_kept"] == 0
    end(s, signal.SIGTERM)
    assert get(boot(), b.id).status == 404


def test_who_is_not_kept(boot):
    s = boot()
    chat = [{"role": "user", "content": "Hi"}]
    ids = [Client(s, body={**LONG, "n": 2}).id, Client(s, "/api/chat", {"messages": chat}).id,
           Client(s, "/completion", {**LONG, "return_progress": True}).id]
    assert Client(s, body={**LONG, "resumable": False}).id is None
    assert s.metrics()["quire_requests_kept"] == 0
    end(s)
    s = boot()
    assert all(get(s, i).status == 404 for i in ids)


OTHERS = {"/v1/responses": {"input": "Tell me of the sea.", "max_output_tokens": 300, "temperature": 0.8, "seed": 3},
          "/v1/messages": {"messages": [{"role": "user", "content": "Tell me of the sea."}], "max_tokens": 300,
                           "temperature": 0.8, "seed": 3}}


@pytest.mark.parametrize("path", OTHERS)
def test_other_apis(boot, path):
    """Their frames come again from the first token on."""
    s = boot()
    body = {**OTHERS[path], "stream": True, "resumable": True}
    c = Client(s, path, body).read(30)
    end(s)
    got = c.cut()
    s = boot()
    r = get(s, c.id, got.count(b"\n\n") - 1)
    assert r.status == 200 and get(s, c.id).body == got + r.body
    assert without_names(got + r.body) == without_names(s.post(path, body).body)


def response(server, name):
    """Until it has an end; it never fails."""
    for _ in range(1200):
        r = server.get(f"/v1/responses/{name}")
        if r.status == 200 and r.json["status"] not in ("queued", "in_progress"):
            return r.json
        assert r.status == 200 or (r.status, r.json["error"]["code"]) == (503, "restoring"), r.body
        time.sleep(0.05)
    raise AssertionError(r.body)


def text_of_response(r):
    assert r["status"] in ("completed", "incomplete") and r["error"] is None, r
    return r["output"][-1]["content"][0]["text"]


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_responses_in_the_background(boot, tmp_path, how):
    """Nobody reads a stream of theirs: they go on, and are as they would have been; those that were cancelled stay so."""
    flags = ("--responses-db", str(tmp_path / "responses.db"))
    s = boot(*flags)
    ask = lambda **more: s.post("/v1/responses", {**OTHERS["/v1/responses"], "max_output_tokens": 600, **more}).json
    runs, waits, gone, done = (ask(background=True, seed=i)["id"] for i in range(4))
    more = [ask(background=True, seed=9)["id"] for _ in range(3)]
    assert s.post(f"/v1/responses/{gone}/cancel", {}).json["status"] == "cancelled"
    text = text_of_response(response(s, done))
    s.wait_until(lambda m: m["quire_requests_kept"] <= 5, what="those that have an end are not kept")
    end(s, how)
    s = boot(*flags)
    restored = [text_of_response(response(s, i)) for i in (runs, waits, *more)]
    assert response(s, gone)["status"] == "cancelled" and text_of_response(response(s, done)) == text
    assert restored == [text_of_response(ask(seed=i)) for i in (0, 1, 9, 9, 9)]
    s.wait_until(lambda m: m["quire_requests_kept"] == 0, what="kept")
    assert s.metrics()["quire_requests_lost_total"] == 0


def test_tenants_and_keys(boot, tmp_path):
    """What is restored is still its owner's; of a key that has gone it is lost, and the log says so."""
    keys = [make_key(name) for name in ("ann", "bob")]
    path = tmp_path / "keys"
    path.write_text("\n".join(entry for entry, _ in keys))
    flags = ("--api-keys", str(path))
    s = boot(*flags, key=keys[0][1])
    ann = Client(s, body={**LONG, "max_tokens": 300}).read(3)
    s.key = keys[1][1]
    bob = Client(s, body={**LONG, "max_tokens": 300, "seed": 6}).read(3)
    end(s)
    path.write_text(keys[0][0])
    s = boot(*flags, key=keys[0][1])
    got = ann.cut()
    assert text_of(get(s, ann.id).body)[:len(text_of(got))] == text_of(got)
    assert get(s, bob.id).status == 404
    assert f'event=request_lost id="{bob.id}" reason=key_is_gone' in s.read_log()
    assert s.metrics()["quire_requests_lost_total"] == 1
    end(s)
    path.write_text("\n".join(entry for entry, _ in keys))
    s = boot(*flags, key=keys[1][1])
    assert get(s, ann.id).status == get(s, bob.id).status == 404


def records_of(raw):
    """(offset, kind, id) of each."""
    at, out = raw.index(b"\n") + 1, []
    while at < len(raw):
        assert raw[at:at + 4] == MAGIC
        kind, n = int.from_bytes(raw[at + 4:at + 8], "little"), int.from_bytes(raw[at + 16:at + 20], "little")
        out.append((at, kind, raw[at + 24:at + 72].rstrip(b"\0").decode()))
        at += HEAD_BYTES + n
    return out


def test_a_client_that_is_ahead(boot, db):
    """It has read frames whose tokens are not in the file: it gets those that follow, once they are there again."""
    s = boot()
    c = Client(s, body={**LONG, "max_tokens": 400}).read(200)
    end(s)
    got = c.cut()
    n = got.count(b"\n\n")
    raw = db.read_bytes()
    records = records_of(raw)
    assert records[0][1:] == (1, c.id)
    db.write_bytes(raw[:records[1][0]] if len(records) > 1 else raw)
    s = boot()
    r = get(s, c.id, n - 1)
    assert r.status == 200 and get(s, c.id).body == got + r.body
    r = s.get(f"/v1/streams/{c.id}?after=5000")
    assert r.status == 416, "it has ended"


@pytest.mark.parametrize("seed", range(3))
def test_damage(boot, db, seed):
    """At random places: what is whole goes on as it was, what is not is named."""
    rng = random.Random(seed)
    s = boot()
    bodies = [{**LONG, "max_tokens": 30 + i, "seed": i} for i in range(12)]
    want = [s.post("/v1/completions", {**body, "resumable": False}).body for body in bodies]
    clients = [Client(s, body=body) for body in bodies]
    clients[3].read(31)
    end(s)
    before = db.read_bytes()
    records = records_of(before)
    ends = [at for at, _, _ in records[1:]] + [len(before)]
    after = bytearray(before)
    for i in range(6):
        # The first of them in a record that begins a request: those of tokens cost only time.
        at = rng.choice([at for at, kind, _ in records if kind == 1]) + 100 if i == 0 else rng.randrange(20, len(after))
        after[at:at + 3] = bytes(b ^ rng.randrange(1, 256) for b in after[at:at + 3])
    db.write_bytes(after)
    whole = {name for (at, kind, name), to in zip(records, ends) if kind == 1 and before[at:to] == after[at:to]}
    assert len(whole) < 12
    s = boot()
    for c, wanted in zip(clients, want):
        r = get(s, c.id)
        assert r.status == (200 if c.id in whole else 404), c.id
        if r.status == 200:
            assert r.body.startswith(c.cut())
            assert "".join(text_of(r.body)) == "".join(text_of(wanted))
    log = s.read_log()
    lost = set(re.findall(r'event=request_lost id="(\S+)" reason=damaged', log))
    assert lost <= {c.id for c in clients} - whole and "event=request_log_damaged offset=" in log
    assert s.metrics()["quire_requests_lost_total"] == len(lost) > 0


def test_another_process_has_it(boot, db):
    """It is waited for: until then nothing is kept, and whoever asks for a stream comes again."""
    s = boot()
    c = Client(s, body={**LONG, "max_tokens": 300}).read(5)
    other = boot()
    r = other.get(f"/v1/streams/{c.id}")
    assert (r.status, r.json["error"]["code"], r.headers["Retry-After"]) == (503, "restoring", "1")
    assert other.post("/v1/completions", {**LONG, "max_tokens": 2}).status == 200
    assert other.metrics()["quire_requests_unkept_total"] == 1
    end(s, signal.SIGTERM)
    got = c.cut()
    assert get(other, c.id).body.startswith(got)
    assert Client(other, body={**LONG, "max_tokens": 2}).id and other.metrics()["quire_requests_unkept_total"] == 1


def test_hand_over(boot, tmp_path):
    """The new process goes on with what the old one has put off, while that still answers others."""
    flags = ("--handover-socket", str(tmp_path / "sock"))
    old = boot(*flags)
    kept = Client(old, body={**LONG, "max_tokens": 300}).read(20)
    other = Client(old, body={**LONG, "n": 3, "max_tokens": 400, "resumable": False}).read(3)
    new = boot(*flags)
    assert new.port == old.port
    wait_for(old, "event=handed_over")  # until then one may be taken by the old one yet, and cut by it
    got = kept.go_on(new).raw
    kept.read(kept.n_frames() + 20)
    assert old.process.poll() is None, "it still has the other one"
    assert other.reply.read().endswith(b"data: [DONE]\n\n")
    other.connection.close()
    assert old.process.wait(30) == 0
    rest = kept.raw + kept.reply.read()
    assert rest.startswith(got) and get(new, kept.id).body == rest
    assert without_names(rest) == without_names(new.post("/v1/completions", {**LONG, "max_tokens": 300}).body)


def test_another_model(boot):
    """Nobody's answer begins with one model and ends with another: it is lost, and named."""
    s = boot()
    c = Client(s).read(5)
    end(s)
    s = boot("--kv-type", "q8_0")
    assert get(s, c.id).status == 404
    assert f'event=request_lost id="{c.id}" reason=model_changed' in s.read_log()
    assert s.metrics()["quire_requests_lost_total"] == 1 and s.metrics()["quire_requests_kept"] == 0


def test_a_model_on_demand(start, db, tmp_path):
    """It is loaded for what an earlier process has begun."""
    model = make_model(tmp_path / "m.gguf")
    conf = tmp_path / "quire.conf"
    conf.write_text(f"model = first={model},second={model}\nkv_memory = 64m\nswap_ram = 0\nload = demand\nisa = scalar\n"
                    f"requests_db = {db}\n")
    s = start("--config", str(conf), model="")
    body = {**LONG, "max_tokens": 300, "model": "second"}
    c = Client(s, body=body).read(10)
    end(s)
    s = start("--config", str(conf), model="")
    got = c.cut()
    whole = get(s, c.id).body
    assert whole.startswith(got) and without_names(whole) == without_names(s.post("/v1/completions", body).body)


def test_files_that_cannot_be_used(boot, db, tmp_path):
    db.write_text("Dear diary")
    run = serve_in_vain("--requests-db", db)
    assert run.returncode != 0 and "is not a file of requests_db" in run.stderr and db.read_text() == "Dear diary"
    assert "cannot open" in serve_in_vain("--requests-db", tmp_path / "none" / "db").stderr
    assert "stream_keep_ms" in serve_in_vain("--requests-db", tmp_path / "db", "--stream-keep-ms", "0").stderr


def test_a_full_file(boot):
    """New ones are not kept then, and go on all the same."""
    s = boot("--requests-size", "1m")
    body = {**LONG, "max_tokens": 2, "user": "x" * 700000}
    ids = [s.post("/v1/completions", body).headers["X-Stream-Id"] for _ in range(2)]
    assert all(get(s, i).status == 200 for i in ids)
    assert s.metrics()["quire_requests_unkept_total"] == 1 and "event=requests_db_full" in s.read_log()
    end(s)
    s = boot("--requests-size", "1m")
    assert [get(s, i).status for i in ids] == [200, 404]


def test_a_full_disk(boot, db):
    """New ones are not kept then, and go on all the same; who was not wanted meanwhile does not come back."""
    s = boot()
    done = s.post("/v1/completions", {**LONG, "max_tokens": 3, "user": "x" * 500000}).headers["X-Stream-Id"]  # more than the log has
    runs = Client(s).read(3)
    limit = lambda n: resource.prlimit(s.pid, resource.RLIMIT_FSIZE, (n, resource.RLIM_INFINITY))
    limit(db.stat().st_size)
    wait_for(s, "event=not_written what=records")
    unkept = s.post("/v1/completions", {**LONG, "max_tokens": 3})
    assert unkept.status == 200 and s.metrics()["quire_requests_unkept_total"] == 1
    assert s.request("DELETE", f"/v1/streams/{done}").status == 200
    time.sleep(2.5)  # the disk is asked again after 2 s
    limit(resource.RLIM_INFINITY)
    wait_for(s, "event=written_again")
    time.sleep(0.5)
    kept = s.post("/v1/completions", {**LONG, "max_tokens": 3}).headers["X-Stream-Id"]
    end(s)
    got = runs.cut()
    s = boot()
    assert [get(s, i).status for i in (done, unkept.headers["X-Stream-Id"], kept)] == [404, 404, 200]
    assert get(s, runs.id).body.startswith(got)


@pytest.mark.skipif(not SLOW, reason="QUIRE_SLOW=1")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_many(start, db, tmp_path, how):
    """64 streams that run and 1,000 that wait: none is lost, no byte changes, and what they share is still warm."""
    store = tmp_path / "store"
    store.mkdir()
    flags = ("--requests-db", str(db), "--kv-store", f"dir:{store}", "--max-sequences", "64",
             "--stream-memory", "512m", "--context", "1024")
    s = start(*flags)
    shared = "Once upon a time there was a little fish who lived in the big blue sea. " * 31

    def body(i):
        return {"prompt": f"{shared}{i}", "max_tokens": 400 if i < 64 else 24 + i % 9, "ignore_eos": True,
                "temperature": 0.8, "seed": i, "stream": True, "resumable": True}
    clients = [Client(s, body=body(i)).read(2 if i == 0 else 0) for i in range(1064)]
    s.wait_until(lambda m: (m["quire_requests_running"], m['quire_requests_waiting{priority="normal"}']) == (64, 1000),
                 what="64 that run and 1,000 that wait")
    end(s, how)
    s = start(*flags)
    for c in clients:
        got = c.cut()
        r = get(s, c.id, got.count(b"\n\n") - 1, timeout=600)
        assert r.status == 200, r.body
        c.raw = got + r.body
    m = s.metrics()
    assert m["quire_requests_restored_total"] == 1064 and m["quire_requests_lost_total"] == 0
    cached = [int(n) for n in re.findall(r"status=204 .* cached_tokens=(\d+)", s.read_log())]
    assert len(cached) == 1064 and min(cached) >= 512, "what they share came from the store"
    def compare(first):
        for i in range(first, 1064, 16):
            assert without_names(s.post("/v1/completions", body(i), timeout=600).body) == without_names(clients[i].raw), i
    in_threads([lambda first=first: compare(first) for first in range(16)])
