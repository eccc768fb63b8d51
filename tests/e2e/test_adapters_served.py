"""LoRA adapters over HTTP: who gets which, names that come and go, and memory that is too small for all."""
import pathlib
import re
import sys
import threading
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "reference"))

import adapter_files  # noqa: E402
import gguf_file  # noqa: E402
from quire import SANITIZED, Server, Stream, crowd, in_threads, make_key, serve_in_vain  # noqa: E402

DEMO = pathlib.Path(__file__).parent.parent.parent / "config/demo/quire-demo.gguf"
PROMPT = "Once upon a time there was a bear who"
N_LOADS = 100 if SANITIZED else 1000


@pytest.fixture(scope="module")
def demo():
    return gguf_file.read(DEMO.read_bytes())


@pytest.fixture(scope="module")
def files(demo, tmp_path_factory):
    """Eight adapters of the demo model, 0.gguf to 7.gguf, and one as PEFT saves it."""
    folder = tmp_path_factory.mktemp("adapters")
    for i in range(8):
        adapter = adapter_files.make(demo, 4 + 4 * i, "F16", seed=i)
        (folder / f"{i}.gguf").write_bytes(adapter_files.gguf("llama", adapter, 2 * (4 + 4 * i), "F16"))
    head = demo.key("embedding_length") // demo.key("attention.head_count")
    adapter_files.peft(folder / "peft", adapter_files.make(demo, 4, "F16", seed=0), 8, "F16", head=head)
    return folder


def listed(files, *names):
    return ",".join(f"a{n}={files}/{n}.gguf" for n in names)


def text(server, model=None, prompt=PROMPT, **fields):
    body = {"prompt": prompt, "max_tokens": 12, "temperature": 0, **fields}
    r = server.post("/v1/completions", {**body, **({"model": model} if model else {})})
    assert r.status == 200, r.body
    return r.json["choices"][0]["text"]


@pytest.fixture(scope="module")
def served(files):
    s = Server("--adapters", listed(files, *range(8)), "--adapters-dir", str(files))
    yield s
    assert s.stop() == 0


@pytest.fixture(scope="module")
def texts(served):
    """What each says, alone."""
    return {i: text(served, f"a{i}") for i in range(8)}


def test_each_says_something_else(served, texts):
    assert len({*texts.values(), text(served)}) == 9


def test_answers_call_the_model_by_its_name(served, texts):
    for path, body in (("/v1/completions", {"prompt": "Once"}), ("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}]}),
                       ("/v1/embeddings", {"input": "Once"})):
        r = served.post(path, {**body, "model": "a3", "max_tokens": 1} if "input" not in body else {**body, "model": "a3"})
        assert r.status == 200 and r.json["model"] == "a3", r.body
        r = served.post(path, body)
        assert r.json["model"] == "quire-demo"
    assert served.post("/v1/completions", {"prompt": "x", "model": "a3:latest", "max_tokens": 1}).status == 200
    r = served.post("/v1/completions", {"prompt": "x", "model": "a9"})
    assert r.status == 404 and r.json["error"]["code"] == "model_not_found"


def test_models_page(served):
    cards = served.get("/v1/models").json["data"]
    assert [(c["id"], c["parent"]) for c in cards] == [("quire-demo", None)] + [(f"a{i}", "quire-demo") for i in range(8)]
    listed = served.get("/v1/models").json["models"]
    assert [m["name"] for m in listed] == [c["id"] for c in cards]
    assert {m["description"] for m in listed[1:]} == {"an adapter of quire-demo"}
    assert [m["release_date"] for m in listed[1:]] == [time.strftime("%Y-%m-%d", time.gmtime(c["created"])) for c in cards[1:]]
    assert served.get("/v1/models/a3").json == cards[4]
    assert served.get("/v1/models/a9").status == 404


def test_by_number(served, texts):
    """llama-server's list of ids and scales."""
    for i in (0, 5):
        assert text(served, lora=[{"id": i, "scale": 1}]) == texts[i]
        assert text(served, lora=[{"id": 1, "scale": 0}, {"id": i, "scale": 1.0}]) == texts[i]
    assert text(served, lora=[]) == text(served) == text(served, lora=[{"id": 2, "scale": 0}])
    assert text(served, lora=[{"id": 5, "scale": 0.01}]) != texts[5]
    for wrong, named in (([{"id": 8, "scale": 1}], "lora[0].id"), ([{"id": "x", "scale": 1}], "lora[0].id"),
                         ([{"id": 0, "scale": "1"}], "lora[0].scale"), ([{"id": 0}], "lora[0].scale"),
                         ([{"id": 0, "scale": 1e9}], "lora[0].scale"), ([1], "lora[0].id"), ({"id": 0}, "lora"),
                         ([{"id": 0, "scale": 1}, {"id": 1, "scale": 1}], "lora[1].scale")):
        r = served.post("/v1/completions", {"prompt": "x", "lora": wrong})
        assert r.json["error"]["message"].count("must be") <= 1
        assert r.status == 400 and named in r.json["error"]["message"], r.body
    r = served.post("/v1/completions", {"prompt": "x", "model": "a1", "lora": [{"id": 2, "scale": 1}]})
    assert r.status == 400 and "another one is given" in r.json["error"]["message"]


def test_in_one_batch(served, texts):
    """All of them at once, twice, and the model itself: each says what it says alone."""
    alone = text(served)
    jobs = [lambda i=i: text(served, f"a{i % 8}" if i < 16 else None) for i in range(18)]
    assert in_threads(jobs) == [texts[i % 8] for i in range(16)] + [alone] * 2


def test_prefixes_are_not_shared(served, texts):
    """The same prompt: its blocks are those of one adapter, and of one scale."""
    prompt = "One day a moose" + " lived in a house in the wood. " * 12

    def cached(**fields):
        r = served.post("/v1/completions", {"prompt": prompt, "max_tokens": 1, **fields})
        return r.json["usage"]["prompt_tokens_details"]["cached_tokens"]

    for fields in ({}, {"model": "a1"}, {"model": "a2"}, {"lora": [{"id": 1, "scale": 0.5}]}):
        assert cached(**fields) < 8 and cached(**fields) > 50, fields  # what texts begin with is in a block of others
    assert cached(lora=[{"id": 1, "scale": 1}]) > 50  # the same as its name


def test_for_requests_that_say_nothing(served, texts):
    plain = text(served)
    assert served.post("/lora-adapters", [{"id": 4, "scale": 1}, {"id": 2, "scale": 0}]).json == {"success": True}
    assert text(served) == texts[4] and text(served, "a1") == texts[1] and text(served, lora=[]) == plain
    assert [a["scale"] for a in served.get("/lora-adapters").json] == [0, 0, 0, 0, 1, 0, 0, 0]
    assert served.post("/lora-adapters", []).json == {"success": True}
    assert text(served) == plain
    for wrong in ({}, [{"id": 77, "scale": 1}], [{"id": 0, "scale": 1}, {"id": 1, "scale": 1}], [{"id": 0}]):
        assert served.post("/lora-adapters", wrong).status == 400


def test_peft_folder_like_the_file(served, texts):
    assert load(served, "p", "peft").status == 200
    assert text(served, "p") == texts[0]
    assert unload(served, "p").status == 200


# ---- names that come and go ----

def load(server, name, path, **fields):
    return server.post("/v1/load_lora_adapter", {"lora_name": name, "lora_path": str(path), **fields})


def unload(server, name):
    return server.post("/v1/unload_lora_adapter", {"lora_name": name})


def test_load_and_unload(served, texts, files):
    r = load(served, "new", "5.gguf")
    assert r.status == 200 and r.body == b"Success: LoRA adapter 'new' added successfully."
    assert text(served, "new") == texts[5]
    assert load(served, "new", "6.gguf").status == 400
    assert load(served, "new", files / "6.gguf", load_inplace=True).status == 200
    assert text(served, "new") == texts[6]
    r = unload(served, "new")
    assert r.status == 200 and r.body == b"Success: LoRA adapter 'new' removed successfully."
    assert unload(served, "new").status == 404
    assert served.post("/v1/completions", {"prompt": "x", "model": "new"}).status == 404


def test_refused_by_name(served, files, tmp_path):
    (files / "broken.gguf").write_bytes((files / "0.gguf").read_bytes()[:3000])
    (tmp_path / "outside.gguf").write_bytes((files / "0.gguf").read_bytes())
    link = files / "link.gguf"
    if not link.is_symlink():
        link.symlink_to(tmp_path / "outside.gguf")
    for name, path, status, words in (
            ("x", "missing.gguf", 404, "no such file or folder in adapters_dir"),
            ("x", "../" + tmp_path.name, 404, "no such file"), ("x", tmp_path / "outside.gguf", 404, "no such file"),
            ("x", "link.gguf", 404, "no such file"), ("x", "/etc/passwd", 404, "no such file"), ("x", ".", 404, "no such file"),
            ("x", "broken.gguf", 400, "broken.gguf"), ("quire-demo", "0.gguf", 400, "is the name of a model"),
            ("default", "0.gguf", 400, "is the name of a model"), ("a b", "0.gguf", 400, "name has 1 to 127 bytes"),
            ("", "0.gguf", 400, "'lora_name'"), ("n" * 128, "0.gguf", 400, "'lora_name'"), ("x", "", 400, "'lora_path'")):
        r = load(served, name, path)
        assert r.status == status and words in r.json["error"]["message"], (name, path, r.body)
    for body in ({}, [], "x", {"lora_name": 1, "lora_path": "0.gguf"}, {"lora_name": "x", "lora_path": ["0.gguf"]},
                 {"lora_name": "x", "lora_path": "0.gguf", "load_inplace": "yes"}):
        assert served.post("/v1/load_lora_adapter", body).status == 400, body
    assert "x" not in [a["name"] for a in served.get("/lora-adapters").json]
    (files / "broken.gguf").unlink()
    link.unlink()


def test_not_at_run_time_without_a_folder(start, files):
    s = start("--adapters", listed(files, 0))
    r = load(s, "x", files / "1.gguf")
    assert r.status == 501 and "adapters_dir" in r.json["error"]["message"]
    assert unload(s, "a0").status == 200
    bare = start()
    assert load(bare, "x", files / "1.gguf").status == 501
    assert bare.get("/lora-adapters").json == []
    assert bare.post("/v1/completions", {"prompt": "x", "lora": [{"id": 0, "scale": 1}]}).status == 400


def test_only_admins(start, files, tmp_path):
    (line, user), (admin_line, admin) = make_key("user"), make_key("boss", "--admin")
    (tmp_path / "keys.ini").write_text(line + admin_line)
    s = start("--adapters", listed(files, 0), "--adapters-dir", str(files), "--api-keys", str(tmp_path / "keys.ini"), key=user)
    assert load(s, "x", "1.gguf").status == 403 == unload(s, "a0").status == s.get("/lora-adapters").status
    assert s.post("/lora-adapters", [{"id": 0, "scale": 1}]).status == 403
    assert text(s, "a0") != text(s)
    assert s.request("POST", "/v1/load_lora_adapter", {"lora_name": "x", "lora_path": "1.gguf"},
                     {"Authorization": f"Bearer {admin}"}).status == 200
    card = s.get("/v1/models").json["data"][1]
    assert card["id"] == "a0" and str(files) not in str(card)  # where it lies is the operator's matter


def test_settings(files, tmp_path):
    """What is wrong is said at the start."""
    (tmp_path / "bad.gguf").write_bytes(b"x" * 100)
    for flags, words in ((["--adapters", f"x={tmp_path}/bad.gguf"], "the adapter 'x'"),
                         (["--adapters", f"x={tmp_path}/none.gguf"], "none.gguf"),
                         (["--adapters", str(files / "0.gguf")], "'adapters' must be NAME=PATH"),
                         (["--adapters", listed(files, 0, 0)], "two adapters with the name 'a0'"),
                         (["--adapters", f"quire-demo={files}/0.gguf"], "name of a model"),
                         (["--adapters", listed(files, 7), "--adapter-memory", "1m"], "adapter_memory")):
        done = serve_in_vain(*flags)
        assert done.returncode != 0 and words in done.stderr, done.stderr


# ---- memory ----

def sizes(server):
    return {a["name"]: a["bytes"] for a in server.get("/lora-adapters").json}


def test_the_least_recently_used_leave(start, served, texts, files):
    room = sum(sizes(served)[f"a{i}"] for i in (5, 6, 7)) + (64 << 10)
    s = start("--adapters", listed(files, *range(8)), "--adapter-memory", str(room))
    assert {a["name"] for a in s.get("/lora-adapters").json if a["loaded"]} <= {"a5", "a6", "a7"}
    for round_ in range(2):
        for i in range(8):
            assert text(s, f"a{i}") == texts[i]
    m = s.metrics()
    assert m["quire_adapter_bytes"] <= room and m["quire_adapter_evictions_total"] >= 8
    assert m['quire_adapters{state="known"}'] == 8 > m['quire_adapters{state="resident"}']
    jobs = [lambda i=i: text(s, f"a{i % 8}") for i in range(24)]
    results = in_threads([lambda j=j: again(j) for j in jobs])
    assert results == [texts[i % 8] for i in range(24)]
    assert s.metrics()["quire_adapter_bytes"] <= room


def again(job):
    """As a client does that is told to come again."""
    for _ in range(200):
        try:
            return job()
        except AssertionError as e:
            if "adapter_memory_full" not in str(e):
                raise
    raise AssertionError("never had room")


def test_in_use_by_requests(start, served, files):
    """One fills the memory and is held: another one is told to come again, and finds room later."""
    room = sizes(served)["a7"] + (32 << 10)
    s = start("--adapters", listed(files, 6, 7), "--adapter-memory", str(room))
    held = Stream(s, {"prompt": PROMPT, "model": "a7", "max_tokens": 400, "ignore_eos": True, "stream": True})
    frames = iter(held)
    next(frames)
    r = s.post("/v1/completions", {"prompt": "x", "model": "a6", "max_tokens": 1})
    assert r.status == 429 and r.json["error"]["code"] == "adapter_memory_full", r.body
    assert s.post("/v1/completions", {"prompt": "x", "max_tokens": 1}).status == 200
    held.close()
    s.wait_idle()
    assert s.post("/v1/completions", {"prompt": "x", "model": "a6", "max_tokens": 1}).status == 200


# ---- what routers are told ----

def lora_info(server, name="quire-demo"):
    """(max_lora, running, waiting) of vLLM's gauge, of which there is one."""
    rows = [(k, v) for k, v in server.metrics().items() if k.startswith(f'vllm:lora_requests_info{{model_name="{name}"')]
    assert len(rows) == 1 and abs(rows[0][1] - time.time()) < 60
    found = re.search(r'max_lora="(\d+)",running_lora_adapters="([^"]*)",waiting_lora_adapters="([^"]*)"}$', rows[0][0])
    return int(found[1]), *({n for n in found[i].split(",") if n} for i in (2, 3))


def test_requests_by_adapter(start, files):
    s = start("--adapters", listed(files, *range(4)), "--max-sequences", "2", "--metrics-names", "vllm,quire")
    assert lora_info(s) == (2, set(), set())
    streams = []

    def ask(model):
        streams.append(Stream(s, {"prompt": PROMPT, "max_tokens": 100000, "ignore_eos": True, "stream": True, **model}))

    ask({"model": "a1"})
    s.wait_until(lambda _: lora_info(s) == (2, {"a1"}, set()), what="one runs")
    ask({})
    ask({"model": "a3"})
    ask({"model": "a1"})
    s.wait_until(lambda _: lora_info(s) == (2, {"a1"}, {"a1", "a3"}), what="two wait")
    streams[0].close()
    s.wait_until(lambda _: lora_info(s) == (2, {"a3"}, {"a1"}), what="the next has its place")
    assert s.request("POST", "/v1/unload_lora_adapter", {"lora_name": "a3"}).status == 200
    assert lora_info(s) == (2, set(), {"a1"}), "nobody can ask for it any more"
    for x in streams[1:]:
        x.close()
    s.wait_idle()
    assert lora_info(s) == (2, set(), set())


def test_requests_by_adapter_when_memory_is_short(start, files):
    """Preempted, they wait; at the end none is counted."""
    s = start("--adapters", listed(files, 0, 1), "--kv-memory", "1m", "--metrics-names", "vllm,quire", "--prefix-cache", "off")
    context = s.get("/v1/models").json["data"][0]["max_model_len"]
    jobs = [lambda i=i: text(s, f"a{i % 2}", prompt=[5 + i] * 9, max_tokens=context - 9, ignore_eos=True) for i in range(8)]
    in_threads(jobs)
    crowd(s, model="a0", n_tokens=context // 2 - 1)
    s.wait_idle()
    assert sum(v for k, v in s.metrics().items() if k.startswith("quire_preemptions_total")) > 0
    assert lora_info(s) == (lora_info(s)[0], set(), set())


def test_gauge_of_a_model_that_can_load_some(start, files):
    s = start("--adapters-dir", str(files), "--metrics-names", "vllm")
    assert lora_info(s)[1:] == (set(), set())


def resident_kb(server):
    with open(f"/proc/{server.process.pid}/status", encoding="utf-8") as f:
        return int(next(line for line in f if line.startswith("VmRSS")).split()[1])


@pytest.mark.threads
def test_many_loads_beside_traffic(start, texts, files):
    """Names come, go and change hands while requests with other adapters run: each gets its own, what it
    began with it ends with, and nothing is left."""
    s = start("--adapters", listed(files, 0, 1, 2), "--adapters-dir", str(files))
    stop, wrong = threading.Event(), []

    def traffic(i):
        while not stop.is_set():
            found = text(s, f"a{i}")
            if found != texts[i]:
                wrong.append((i, found))

    def changing():
        """The name's adapter changes under it: an answer is one of the two, and whole."""
        while not stop.is_set():
            r = s.post("/v1/completions", {"prompt": PROMPT, "max_tokens": 12, "temperature": 0, "model": "now"})
            if r.status == 200 and r.json["choices"][0]["text"] not in (texts[3], texts[4]):
                wrong.append(("now", r.body))
            elif r.status not in (200, 404):
                wrong.append(("now", r.body))

    threads = [threading.Thread(target=traffic, args=(i,)) for i in range(3)] + [threading.Thread(target=changing)]
    for t in threads:
        t.start()
    try:
        before = None
        for n in range(N_LOADS):
            assert load(s, "now", f"{3 + n % 2}.gguf", load_inplace=True).status == 200
            if n % 3 == 0:
                assert unload(s, "now").status == 200
            if n == N_LOADS // 5:
                before = resident_kb(s)
    finally:
        stop.set()
        for t in threads:
            t.join()
    assert wrong == []
    if "now" in sizes(s):
        assert unload(s, "now").status == 200
    s.wait_idle()
    load(s, "sweep", "0.gguf")
    unload(s, "sweep")
    m = s.metrics()
    assert m['quire_adapters{state="known"}'] == 3 == m['quire_adapters{state="resident"}']
    assert m["quire_adapter_bytes"] == sum(sizes(s).values())
    assert m["quire_adapter_reads_total"] >= N_LOADS
    assert SANITIZED or resident_kb(s) < before + 8192, (before, resident_kb(s))


def test_of_a_model_that_is_not_loaded(files, texts, tmp_path):
    """The settings' adapters have their names before the model is there, and after it has left and come again."""
    path = tmp_path / "quire.conf"
    path.write_text(f"model = first=,second=\nkv_memory = 16m\n[second]\nload = demand\nadapters = {listed(files, 1, 2)}\n")
    s = Server("--config", str(path))
    for _ in range(2):
        assert text(s, "a2") == texts[2] and text(s, "a1") == texts[1]
        assert s.post("/models/unload", {"model": "second"}).status == 200
        s.wait_until(lambda _: s.get("/v1/models/second").json["status"]["value"] == "unloaded", what="unloaded")
    assert s.stop() == 0
