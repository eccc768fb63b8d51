"""Several models in one process: who asks for which gets that one, with the answers it gives alone."""
import contextlib
import json
import shutil
import subprocess
import threading

import pytest

from quire import BIN, DEBUG_BIN, Server, check_prometheus, crowd, in_threads, serve_in_vain

STORIES = "weights/stories260K-x256-llama.Q8_0.gguf"
LONG = {"max_tokens": 400, "ignore_eos": True}


@pytest.fixture(scope="module")
def models(data):
    """The demo model, which is the first, and another one with other tokens."""
    return f"demo=,stories={data / STORIES}"


@pytest.fixture(scope="module")
def both(models):
    s = Server("--kv-memory", "64m", model=models)
    yield s
    s.stop()


@pytest.fixture(scope="module")
def alone(data):
    """Each in a server of its own, under the same name."""
    all_alone = {"demo": Server("--kv-memory", "64m", model="demo="),
                 "stories": Server("--kv-memory", "64m", model=f"stories={data / STORIES}")}
    yield all_alone
    for s in all_alone.values():
        s.stop()


def without_times(answer):
    """The part of an answer that two servers have in common."""
    drop = {"id", "created", "created_at", "completed_at", "timings", "system_fingerprint", "usage", "seed"}
    if isinstance(answer, dict):
        return {k: without_times(v) for k, v in answer.items() if k not in drop}
    return [without_times(v) for v in answer] if isinstance(answer, list) else answer


# ---- who is there ----

def test_lists(both):
    listed = both.get("/v1/models").json["data"]
    assert [m["id"] for m in listed] == ["demo", "stories"]
    assert [m["meta"]["n_vocab"] for m in listed] == [2048, 512]
    for m in listed:
        assert without_times(both.get(f"/v1/models/{m['id']}").json) == without_times(m)
    r = both.get("/v1/models/third")
    assert (r.status, r.json["error"]["code"]) == (404, "model_not_found")


def test_pages_of_one_model(both, alone):
    for name in ("demo", "stories"):
        assert both.get(f"/props?model={name}").json == alone[name].get("/props").json
        kv = both.get(f"/debug/kv?model={name}").json["blocks"]["total"]
        assert kv == alone[name].get("/debug/kv").json["blocks"]["total"]
        for page in ("/slots", "/debug/requests", "/debug/iterations"):
            assert both.get(f"{page}?model={name}").status == 200
    assert both.get("/props").json == both.get("/props?model=demo").json
    for page in ("/props", "/slots", "/debug/kv"):
        r = both.get(f"{page}?model=third")
        assert (r.status, r.json["error"]["code"], r.json["error"]["param"]) == (404, "model_not_found", "model")


# ---- who gets which ----

CHAT = [{"role": "user", "content": "Tell me of a bear."}]
WAYS = [
    ("/v1/completions", {"prompt": "Once upon a time", "logprobs": 3}),
    ("/v1/chat/completions", {"messages": CHAT, "logprobs": True, "top_logprobs": 2}),
    ("/completion", {"prompt": "Once upon a time", "n_probs": 2}),
    ("/v1/responses", {"input": "Tell me of a bear."}),
    ("/v1/messages", {"messages": CHAT}),
    ("/v1/messages/count_tokens", {"messages": CHAT}),
    ("/v1/embeddings", {"input": "Once upon a time"}),
    ("/apply-template", {"messages": CHAT}),
    ("/tokenize", {"content": "Once upon a time"}),
    ("/tokenize", {"messages": CHAT}),
    ("/detokenize", {"tokens": [300, 301, 302]}),
    ("/v1/plan", {"prompt": "Once upon a time"}),
    ("/v1/completions/render", {"prompt": "Once upon a time"}),
    ("/v1/chat/completions/render", {"messages": CHAT}),
]


@pytest.mark.parametrize("path,body", WAYS, ids=lambda v: v if isinstance(v, str) else "")
def test_each_way_in(both, alone, path, body):
    """The same to the last bit as from a server with that model alone."""
    body = {"temperature": 0, "max_tokens": 12, **body} if path in [w[0] for w in WAYS[:5]] else dict(body)
    answers = {}
    for name in ("demo", "stories"):
        r = both.post(path, {**body, "model": name})
        assert r.status == 200, r.body
        lone = alone[name].post(path, {**body, "model": name})
        answers[name] = without_times(r.json)
        if path == "/v1/plan":
            answers[name] = {k: r.json[k] for k in ("model", "prompts") if k in r.json}
            continue
        assert answers[name] == without_times(lone.json)
    assert answers["demo"] != answers["stories"]
    for first in (body, {**body, "model": "default"}):
        r = both.post(path, first)
        assert r.status == 200, r.body
        if path != "/v1/plan":
            assert without_times(r.json) == without_times(alone["demo"].post(path, first).json)


def raw(server, text, path="/v1/completions"):
    return server.request("POST", path, text.encode(), headers={"Content-Type": "application/json"})


TAIL = '"prompt": "Once upon", "max_tokens": 1'


@pytest.mark.parametrize("text,name", [
    ('\ufeff{"model": "stories", %s}' % TAIL, "stories"),
    ('{\r\n\t "model": "stories", %s}' % TAIL, "stories"),
    ('{%s, "model": "stories"}' % TAIL, "stories"),
    ('{"\\u006dodel": "sto\\u0072ies", %s}' % TAIL, "stories"),
    ('{"metadata": {"model": "stories"}, "stop": ["\\"model\\": \\"stories\\"", "}"], %s}' % TAIL, "demo"),
    ('{"metadata": {"a": [[{}], "\\\\"], "model": "demo"}, "model" \n: \t "stories" , %s }' % TAIL, "stories"),
    ('{"stop": "\\\\\\"model\\":\\"demo\\"", "model": "stories", %s}' % TAIL, "stories"),
])
def test_wherever_it_stands(both, text, name):
    r = raw(both, text)
    assert (r.status, r.json["model"]) == (200, name), r.body


def test_no_other_blanks(both):
    """RFC 8259 has four; a form feed is none, whichever model is meant."""
    assert raw(both, '{\f"model": "stories", %s}' % TAIL).status == 400


def test_a_name_in_the_path(both):
    """For those who cannot change the body, which comes first."""
    body = {"prompt": "Once", "max_tokens": 1}
    assert both.post("/v1/completions?model=stories", body).json["model"] == "stories"
    assert both.post("/v1/completions?model=stories", {**body, "model": "demo"}).json["model"] == "demo"
    assert both.post("/v1/completions?model=stories", {**body, "model": None}).json["model"] == "stories"
    assert both.post("/v1/completions?model=third", body).status == 404


def test_long_bodies(both):
    """Behind a megabyte of text, with quotes and backslashes in it."""
    text = 'He said: "\\" and "\\\\". ' * 40000
    r = both.post("/tokenize", {"content": text, "model": "stories"})
    assert r.status == 200 and r.json["tokens"] == both.post("/tokenize", {"model": "stories", "content": text}).json["tokens"]
    assert max(r.json["tokens"]) < 512
    r = both.post("/v1/completions", {"prompt": text, "model": "stories"})
    assert r.json["error"]["code"] == "context_length_exceeded" and "512 tokens" in r.json["error"]["message"]


@pytest.mark.parametrize("text,status,code", [
    ('{"model": "third", "prompt": "a"}', 404, "model_not_found"),
    ('{"model": 3, "prompt": "a"}', 400, None),
    ('{"model": "stories", "prompt": "a"', 400, None),
    ('{"model": "stories', 400, None),
    ('{"model', 400, None),
    ('{"a\\', 400, None),
    ('["model", "stories"]', 400, None),
    ('{"model": "stories",,, "prompt": "a"}', 400, None),
    ('{"model": "%s", "prompt": "a"}' % ("s" * 5000), 404, "model_not_found"),
    ("{" * 3000, 400, None),
    ("{[1, 1, 1]: 1}", 400, None),
    ('{"model": [1, 1], "prompt": "a"}', 400, None),
    ("", 400, None),
])
def test_who_asks_badly_is_told(both, text, status, code):
    r = raw(both, text)
    assert (r.status, r.json["error"]["code"]) == (status, code), r.body
    assert both.get("/ready").status == 200


def test_no_way_to_a_third(both):
    before = both.metrics().get('quire_rejections_total{reason="invalid"}', 0)
    for path, body in WAYS:
        r = both.post(path, {**body, "model": "third"})
        error = r.json["error"]
        assert r.status == 404 and "'third'" in error["message"], (path, r.body)
        assert path == "/v1/messages" or path.endswith("count_tokens") or error["code"] == "model_not_found"
    assert both.metrics()['quire_rejections_total{reason="invalid"}'] == before + len(WAYS)


# ---- side by side ----

@contextlib.contextmanager
def work_for(server, model):
    """The model has work all the time."""
    is_over = threading.Event()

    def work():
        while not is_over.is_set():
            server.post("/v1/completions", {"prompt": "Once", "model": model, "max_tokens": 300, "ignore_eos": True,
                                            "n": 16}, timeout=600)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for t in threads:
        t.start()
    server.wait_until(lambda m: m['quire_requests_running{model="%s"}' % model] >= 32)
    yield
    is_over.set()
    for t in threads:
        t.join()



@pytest.mark.threads
def test_side_by_side_nobody_notices(both, alone):
    """P1 through both engines at once, with streams, choices and embeddings in between."""
    bodies = []
    for i in range(24):
        name = ("demo", "stories")[i % 2]
        bodies.append((name, {"model": name, "prompt": f"Once upon a time there were {i} bears", "max_tokens": 40 + i,
                              "temperature": i % 3 / 2, "seed": i, "logprobs": 2, "n": 1 + i % 4 // 3}))
    expected = [alone[name].post("/v1/completions", w).json["choices"] for name, w in bodies]
    vector = alone["stories"].post("/v1/embeddings", {"input": "a bear"}).json["data"]
    jobs = [lambda w=w: both.post("/v1/completions", w).json["choices"] for _, w in bodies]
    jobs.append(lambda: both.post("/v1/embeddings", {"input": "a bear", "model": "stories"}).json["data"])
    assert in_threads(jobs) == expected + [vector]
    both.wait_until(lambda m: all(m['quire_kv_blocks{model="%s",state="held"}' % n] == 0 for n in ("demo", "stories")))


def seconds(m, name):
    return m['quire_iteration_seconds_sum{model="%s"}' % name]


def steps(m, name):
    return m['quire_iteration_seconds_count{model="%s"}' % name]


def while_both_work(s):
    """All metrics that a client has seen while both models had 32 requests running."""
    readers = [threading.Thread(target=lambda name=name: list(s.stream("Once upon a time", model=name, max_tokens=250,
                                                                       ignore_eos=True, n=32))) for name in "ab"]
    seen = []
    for reader in readers:
        reader.start()
    while any(reader.is_alive() for reader in readers):
        m = s.metrics()
        if all(m['quire_requests_running{model="%s"}' % name] == 32 for name in "ab"):
            seen.append(m)
    return seen


def test_time_is_shared_out(start, data, tmp_path):
    """While both have work: by the shares, as the engines' own clocks have it; alone: all of it, and no waiting.

    A client on a busy machine may see little of that time: it asks again until it has seen ten steps of both."""
    conf = tmp_path / "quire.conf"
    conf.write_text("[a]\nshare = 3\n")
    s = start("--config", str(conf), "--kv-memory", "64m", model=f"a={data / STORIES},b={data / STORIES}")
    m = s.metrics()
    assert (m['quire_model_share{model="a"}'], m['quire_model_share{model="b"}']) == (3, 1)
    s.complete("Once", model="b", max_tokens=100, ignore_eos=True)
    m = s.metrics()
    assert m['quire_turn_wait_seconds_total{model="b"}'] == m['quire_turn_wait_seconds_total{model="a"}'] == 0
    for _ in range(50):
        seen = while_both_work(s)
        if seen and all(steps(seen[-1], name) - steps(seen[0], name) >= 10 for name in "ab"):
            break
    else:
        pytest.fail("never ten steps of both models between two looks at the metrics")
    used = {name: seconds(seen[-1], name) - seconds(seen[0], name) for name in "ab"}
    assert used["a"] > used["b"], used  # how exactly is a matter of test_turns.c
    assert seen[-1]['quire_turn_wait_seconds_total{model="b"}'] > 0


def test_an_engine_that_waits_for_its_turn_reads_its_inbox(start, models, tmp_path):
    """An engine that hardly ever gets a turn, while the other one works: it answers, gives up in time and lets go."""
    conf = tmp_path / "quire.conf"
    conf.write_text("[stories]\nrequest_timeout = 1\n[demo]\nshare = 1000\n")
    s = start("--config", str(conf), "--kv-memory", "64m", model=models)
    with work_for(s, "demo"):
        prompt = [100 + i % 300 for i in range(300)]
        gone = s.stream(prompt, model="stories", max_tokens=150, ignore_eos=True)
        assert s.get("/debug/requests?model=stories").status == 200
        assert s.post("/v1/plan", {"prompt": "Once", "model": "stories"}).status == 200
        gone.reset()
        s.wait_until(lambda m: m['quire_requests_running{model="stories"}'] == 0)
        r = s.post("/v1/completions", {"prompt": prompt, "model": "stories", "max_tokens": 150, "ignore_eos": True})
        assert (r.status, r.json["error"]["code"]) == (408, "deadline_exceeded")
        assert s.metrics()['quire_kv_blocks{model="stories",state="held"}'] == 0


def test_a_drain_beside_what_expires(start, models, tmp_path):
    """The last request of a model runs out of time while it waits for its turn: the other one goes on to its end."""
    conf = tmp_path / "quire.conf"
    conf.write_text("[stories]\nrequest_timeout = 1\n[demo]\nshare = 100\n")
    s = start("--config", str(conf), "--kv-memory", "64m", model=models)
    streams = [s.stream("Once", model="demo", max_tokens=600, ignore_eos=True, n=16) for _ in range(2)]
    late = s.stream([100 + i % 300 for i in range(300)], model="stories", max_tokens=200, ignore_eos=True)
    s.wait_until(lambda m: m['quire_requests_running{model="demo"}'] == 32)
    s.process.terminate()
    ends = in_threads([lambda x=x: list(x)[-1] for x in (*streams, late)])
    assert ends[2]["error"]["code"] == "deadline_exceeded"
    assert [e["choices"][0]["finish_reason"] for e in ends[:2]] == ["length"] * 2
    assert s.process.wait(60) == 0


def test_limits_are_each_models_own(start, models):
    """A full queue, and a full cache, are the one model's alone; a tenant's limit is the server's. Answers of ten contexts
    last until they are reset, however slowly the test goes on."""
    s = start("--max-sequences", "1", "--queue-limit", "1", "--kv-memory", "64m", "--tenant-header", "X-Tenant",
              "--tenant-limit", "3", "--context-shift", "on", model=models)
    endless = {"max_tokens": 100000, "ignore_eos": True}
    streams = [s.stream("Once", model="stories", **endless) for _ in range(2)]
    r = s.post("/v1/completions", {"prompt": "Once", "model": "stories"})
    assert (r.status, r.json["error"]["code"]) == (429, "queue_full")
    assert s.complete("Once", model="demo", max_tokens=1).status == 200
    m = s.metrics()
    assert m['quire_rejections_total{model="stories",reason="queue_full"}'] == 1
    assert m['quire_rejections_total{model="demo",reason="queue_full"}'] == 0
    for stream in streams:
        stream.reset()
    s.wait_until(lambda m: m['quire_requests_running{model="stories"}'] == 0)
    who = {"X-Tenant": "alice"}
    streams = [s.stream("Once", headers=who, model="stories", **endless) for _ in range(2)]
    streams.append(s.stream("Once", headers=who, model="demo", **endless))
    r = s.post("/v1/completions", {"prompt": "Once", "model": "demo"}, headers=who)
    assert r.status == 429 and s.metrics()['quire_rejections_total{model="demo",reason="tenant_limit"}'] == 1
    for stream in streams:
        stream.reset()


@pytest.mark.threads
def test_a_drain_finishes_both(start, models):
    s = start("--kv-memory", "64m", model=models, binary=DEBUG_BIN)
    streams = [s.stream("Once upon a time", model=name, **LONG) for name in ("demo", "stories") for _ in range(3)]
    frames = [iter(x) for x in streams]
    for f in frames:
        next(f)
    s.process.terminate()
    for stream, f in zip(streams, frames):
        assert list(f)[-1]["choices"][0]["finish_reason"] == "length" and stream.done
    assert s.process.wait(60) == 0


def test_the_second_signal_ends_both(start, models):
    s = start("--kv-memory", "64m", model=models)
    streams = [s.stream("Once upon a time", model=name, **LONG) for name in ("demo", "stories")]
    frames = [iter(x) for x in streams]
    for f in frames:
        next(f)
    s.process.terminate()
    s.process.terminate()
    assert s.process.wait(60) == 0


def test_pressure_in_both(start, models, alone):
    """Caches for a few sequences, swapped by one and computed again by the other: nothing is lost or different."""
    s = start("--kv-memory", "1m", "--max-sequences", "16", model=models, binary=DEBUG_BIN)
    bodies = [{"model": ("demo", "stories")[i % 2], "prompt": f"{i} bears went", "max_tokens": 150, "ignore_eos": True,
               "seed": i, "temperature": 1} for i in range(32)]
    expected = [alone[w["model"]].post("/v1/completions", w).json["choices"] for w in bodies]
    assert in_threads([lambda w=w: s.post("/v1/completions", w, timeout=600).json["choices"] for w in bodies]) == expected
    assert all(crowd(s, model=name) == crowd(alone[name], model=name) for name in ("demo", "stories"))
    m = s.metrics()
    for name in ("demo", "stories"):
        assert sum(v for k, v in m.items() if k.startswith('quire_preemptions_total{model="%s"' % name)) > 0


def test_what_is_logged(start, models):
    s = start("--kv-memory", "64m", model=models)
    s.complete("Once", model="stories", max_tokens=1)
    s.complete("Once", max_tokens=1)
    s.stop()
    lines = [line for line in s.read_log().splitlines() if "event=finished" in line and "/v1/completions" in line]
    assert ['model="stories"' in lines[0], 'model="demo"' in lines[1]] == [True, True]


def test_metrics_are_valid(both):
    both.complete("Once", model="stories", max_tokens=2)
    check_prometheus(both.get("/metrics").body)


# ---- starting ----

def test_a_journal_for_each(start, models, tmp_path):
    conf = tmp_path / "quire.conf"
    conf.write_text(f"[demo]\njournal = {tmp_path / 'demo.journal'}\n"
                    f"[stories]\njournal = {tmp_path / 'stories.journal'}\nkv_memory = 2m\n")
    s = start("--config", str(conf), "--kv-memory", "64m", model=models)
    with work_for(s, "demo"):
        for _ in range(2):
            s.complete("Once upon a time", model="stories", max_tokens=20, ignore_eos=True)
    s.stop()
    posts, is_shared = {}, False
    for name in ("demo", "stories"):
        lines = [json.loads(line) for line in (tmp_path / f"{name}.journal").read_text().splitlines()]
        posts[name] = sum("post" in line for line in lines)
        is_shared = is_shared or any(line.get("shared") for line in lines)  # the other one had work too
        replay = subprocess.run([BIN, "replay", str(tmp_path / f"{name}.journal")], capture_output=True, text=True)
        assert replay.returncode == 0, replay.stderr
    assert posts["demo"] >= 32 and posts["stories"] == 2 and is_shared


def test_one_file_for_two(tmp_path, models):
    """Also by another name of it."""
    conf = tmp_path / "quire.conf"
    for setting, more in (("journal", ""), ("swap_file", "swap_file_size = 1m\n")):
        conf.write_text(f"[demo]\n{setting} = {tmp_path}/x\n{more}[stories]\n{setting} = {tmp_path}/./x\n{more}")
        r = serve_in_vain("--config", conf, "--model", models)
        assert r.returncode in (1, 2) and "/./x is already used by another process" in r.stderr


def test_names_that_are_one_on_the_wire(tmp_path, data):
    """Bytes that are no UTF-8 stand in no JSON, and so tell no models apart."""
    paths = [bytes(tmp_path) + b"/a" + broken + b".gguf" for broken in (b"\xff", b"\xfe")]
    for path in paths:
        shutil.copyfile(data / STORIES, path)
    r = subprocess.run([BIN.encode(), b"serve", b"--port", b"0", b"--model", b",".join(paths)], capture_output=True,
                       text=True, timeout=60)
    assert r.returncode == 2 and "two models have the name 'a?'" in r.stderr and "NAME=PATH" in r.stderr


def test_one_that_cannot_be_loaded_is_named(tmp_path, models):
    (tmp_path / "bad.gguf").write_bytes(b"GGUF, or so it says")
    r = serve_in_vain("--model", f"{models},third={tmp_path / 'bad.gguf'}")
    assert r.returncode == 1 and "the model 'third': " in r.stderr and "bad.gguf" in r.stderr
