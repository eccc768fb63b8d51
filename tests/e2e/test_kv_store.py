"""The block store: prefixes that are there again after a restart, for another server, for another CPU."""
import contextlib
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time

import pytest

from quire import BIN, SANITIZED, Server, isa_levels, make_model, serve_in_vain

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "reference"))

import adapter_files  # noqa: E402
import fixtures  # noqa: E402
import gguf_file  # noqa: E402

WORDS = "the cat sat on a mat and saw a dog run over the hill to a far old house by the sea "
PROMPT = WORDS * 12  # more than a record of 128 tokens, and less than the context
SHAPE = ("--embd", "64", "--heads", "4", "--kv-heads", "2", "--head-dim", "32", "--ff", "128", "--vocab", "1000",
         "--context", "2048", "--type", "Q8_0")
RECORD = 128  # tokens of a record of small blocks


@pytest.fixture(scope="module")
def models():
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        yield {"one": make_model(folder / "one.gguf", *SHAPE, "--layers", "2"),
               "two": make_model(folder / "two.gguf", *SHAPE, "--layers", "2", "--seed", "8")}


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "store"


def serve(models, place, *flags, model="one", **kw):
    """Requests wait a minute for the store unless the flags say otherwise: a slow machine reads it all the same."""
    return Server("--kv-store", str(place), "--kv-memory", "64m", "--kv-store-wait-ms", "60000", *flags, model=models[model],
                  **kw)


@contextlib.contextmanager
def serving(models, place, *flags, **kw):
    s = serve(models, place, *flags, **kw)
    try:
        yield s
    finally:
        assert s.stop() == 0, s.read_log()


def ask(s, prompt=PROMPT, status=200, **fields):
    r = s.post("/v1/completions", {"prompt": prompt, "max_tokens": 12, "temperature": 0, "ignore_eos": True,
                                   "logprobs": 3, **fields})
    assert r.status == status, r.body
    return r.json


def bits(r):
    return [(c["text"], c["logprobs"]["token_logprobs"]) for c in r["choices"]]


def cached(r):
    return r["usage"]["prompt_tokens_details"]["cached_tokens"]


def count(s, name, **labels):
    labels = ",".join(f'{k}="{v}"' for k, v in labels.items())
    return s.metrics()[f"quire_kv_store_{name}" + (f"{{{labels}}}" if labels else "")]


def until(what, seconds=20):
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.01)


def files(folder):
    return sorted(pathlib.Path(folder).glob("??/*.kv"))


def n_records(r):
    return r["usage"]["prompt_tokens"] // RECORD


def fill(models, place, *prompts, **kw):
    """What a server answers that leaves its blocks behind; it has ended."""
    s = serve(models, place, **kw)
    try:
        answers = [ask(s, p) for p in prompts or (PROMPT,)]
    finally:
        assert s.stop() == 0, s.read_log()  # the flush at the end
    return answers


@pytest.mark.isa
def test_prefixes_are_there_after_a_restart(models, folder):
    plain, = fill(models, f"dir:{folder}")
    assert cached(plain) == 0 and n_records(plain) >= 2
    assert len(files(folder)) >= n_records(plain)
    with serving(models, f"dir:{folder}") as s:
        again = ask(s)
        assert cached(again) >= n_records(plain) * RECORD, again["usage"]
        assert bits(again) == bits(plain)
        blocks = n_records(plain) * RECORD / 16
        assert count(s, "blocks_total", result="hit") == blocks == count(s, "fetched_blocks_total")
        assert count(s, "bytes_total", direction="in") == sum(f.stat().st_size for f in files(folder)[:2]) / 2 * n_records(plain)
        assert count(s, "up") == 1
        store = s.get("/debug/kv").json["store"]
        assert store["up"] is True and store["hit_blocks"] == blocks and store["prompts_waiting"] == 0


def test_only_the_owner_reads_the_files(models, folder):
    fill(models, f"dir:{folder}")
    for f in (*files(folder), folder / "secret"):
        assert stat.S_IMODE(f.stat().st_mode) == 0o600, f
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert not list(folder.glob("??/.part*")) and not list(folder.glob(".secret*"))


def test_other_instruction_sets_share_it_with_the_same_bits(models, folder):
    """P1, P10: one writes, the others read; each pair that this machine has."""
    levels = isa_levels()
    plain = None
    for writer in levels:
        shutil.rmtree(folder, ignore_errors=True)
        s = serve(models, f"dir:{folder}", "--isa", writer)
        first = ask(s)
        assert s.stop() == 0
        assert plain is None or bits(first) == bits(plain)
        plain = first
        names = {f.name: f.read_bytes() for f in files(folder)}
        for reader in levels:
            if reader == writer:
                continue
            with serving(models, f"dir:{folder}", "--isa", reader) as s:
                again = ask(s)
                assert cached(again) >= n_records(plain) * RECORD, (writer, reader)
                assert bits(again) == bits(plain), (writer, reader)
        assert {k: v for k, v in ((f.name, f.read_bytes()) for f in files(folder)) if k in names} == names


@pytest.mark.threads
def test_two_servers_share_one_folder(models, folder):
    """Written by the first while the second runs: no restart, no signal between them."""
    with serving(models, f"dir:{folder}") as a, serving(models, f"dir:{folder}") as b:
        plain = ask(a)
        until(lambda: count(a, "bytes_total", direction="out") > 0 and len(files(folder)) >= n_records(plain))
        again = ask(b)
        assert cached(again) >= n_records(plain) * RECORD and bits(again) == bits(plain)
        # Both at once, the same prompts: nothing is written twice, and nobody minds the other.
        prompts = [f"{i} {PROMPT}" for i in range(6)]
        answers = {}
        threads = [threading.Thread(target=lambda s=s, n=n: answers.__setitem__(n, [bits(ask(s, p)) for p in prompts]))
                   for n, s in (("a", a), ("b", b))]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert answers["a"] == answers["b"]
        assert count(a, "errors_total", direction="out") + count(b, "errors_total", direction="out") == 0


def damage(path, how, rng):
    data = bytearray(path.read_bytes())
    if how == "flip":
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    elif how == "cut":
        del data[rng.randrange(len(data)):]
    elif how == "grown":
        data += b"x"
    elif how == "newer":
        data[8] += 1  # the version
    elif how == "empty":
        data.clear()
    path.write_bytes(data)


@pytest.mark.parametrize("how", ["flip", "cut", "grown", "newer", "empty"])
def test_what_is_damaged_is_found_counted_and_removed(models, folder, how):
    prompts = [f"{i} {PROMPT}" for i in range(5)]
    plain = fill(models, f"dir:{folder}", *prompts)
    rng = random.Random(how)
    stored = files(folder)
    for f in stored:
        damage(f, how, rng)
    for p, r in zip(prompts, plain):
        # A server each: after the first answer the cost model may prefer computing to reading.
        with serving(models, f"dir:{folder}") as s:
            again = ask(s, p)
            assert cached(again) < RECORD and bits(again) == bits(r), how
            # The first record of a chain stops its reading: of each prompt one was looked at.
            s.wait_until(lambda m: count(s, "bad_records_total") == 1, what="the bad record counted")
            assert "removed" in s.read_log()
    assert len([f for f in files(folder) if f.stat().st_size > 1]) >= len(prompts), "written anew"
    with serving(models, f"dir:{folder}") as s:
        for _ in range(3):  # in the end every bad one has been met
            for p, r in zip(prompts, plain):
                assert bits(ask(s, p)) == bits(r)


def test_each_flipped_bit_is_found(models, folder):
    """Every stored file in turn is the damaged one: its prompt is computed from there on, the same bits."""
    plain, = fill(models, f"dir:{folder}")
    whole = {f: f.read_bytes() for f in files(folder)}
    read, bad = 0, 0
    for f in whole:
        for g, data in whole.items():
            g.write_bytes(data)
        damage(f, "flip", random.Random(f.name))
        with serving(models, f"dir:{folder}") as s:
            again = ask(s)
            assert bits(again) == bits(plain)
            full = cached(again) >= n_records(plain) * RECORD
            read += full
            bad += count(s, "bad_records_total")
            assert full == (count(s, "bad_records_total") == 0)
    assert bad == n_records(plain), "each record of the prompt was the damaged one once"


def test_a_record_under_another_name_is_a_miss(models, folder):
    """A swapped file, and one of another model: nothing of them is believed."""
    one, = fill(models, f"dir:{folder}")
    mine = files(folder)
    other = fill(models, f"dir:{folder}", model="two")
    theirs = [f for f in files(folder) if f not in mine]
    assert len(theirs) >= n_records(other[0]), "another model's records have other names"
    for a, b in zip(mine, theirs):
        shutil.copyfile(b, a)
    with serving(models, f"dir:{folder}") as s:
        again = ask(s)
        assert cached(again) < RECORD and bits(again) == bits(one)
        assert count(s, "bad_records_total") == 1


def test_tenants_salts_and_kv_types_are_kept_apart(models, folder):
    plain, = fill(models, f"dir:{folder}")
    with serving(models, f"dir:{folder}") as s:
        assert cached(ask(s, cache_salt="mine")) == 0
        assert cached(ask(s)) >= RECORD
    with serving(models, f"dir:{folder}") as s:  # a salt is a name that is there again, too
        assert cached(ask(s, cache_salt="mine")) >= RECORD
    with serving(models, f"dir:{folder}", "--kv-type", "q8_0") as s:
        assert cached(ask(s)) == 0
        assert bits(ask(s)) != []
    with serving(models, f"dir:{folder}") as s:
        assert bits(ask(s)) == bits(plain)


def test_adapters_are_kept_apart_by_their_numbers(folder, tmp_path):
    """Not by their names: the same one under another name finds its blocks, another one under the same name does not."""
    demo = pathlib.Path(__file__).parent.parent.parent / "config/demo/quire-demo.gguf"
    for i in range(2):
        adapter = adapter_files.make(gguf_file.read(demo.read_bytes()), 4, "F16", seed=i)
        (tmp_path / f"{i}.gguf").write_bytes(adapter_files.gguf("llama", adapter, 8, "F16"))
    told = []
    for name, i in (("a", 0), ("b", 0), ("a", 1)):
        with serving({"one": str(demo)}, f"dir:{folder}", "--adapters", f"{name}={tmp_path}/{i}.gguf") as s:
            told.append(ask(s, PROMPT, model=name))
            assert cached(ask(s, f"{i} {name} {PROMPT}")) == 0  # the model without it has others
    assert [cached(r) >= RECORD for r in told] == [False, True, False]
    assert bits(told[0]) == bits(told[1]) != bits(told[2])


def test_the_budget_removes_what_was_used_longest_ago(models, folder):
    one = fill(models, f"dir:{folder}", *[f"{i} {PROMPT}" for i in range(3)])
    size = files(folder)[0].stat().st_size
    old = time.time() - 3600
    for f in files(folder):
        os.utime(f, (old, old))
    (folder / "00" / "notes.txt").write_text("not a record")
    (folder / "01" / ".part-1-2").write_text("left behind")
    os.utime(folder / "01" / ".part-1-2", (old - 3600, old - 3600))
    before = set(files(folder))
    budget = max(1 << 20, int(size * (len(before) + 1.5)))
    with serving(models, f"dir:{folder}", "--kv-store-size", str(budget)) as s:
        assert cached(ask(s, f"0 {PROMPT}")) >= RECORD  # it counts as used now
        used = {f for f in before if f.stat().st_mtime > old + 60}
        assert 0 < len(used) < len(before)
        i = 0
        while count(s, "evicted_records_total") == 0:
            ask(s, f"{i} filler {PROMPT}")
            i += 1
            assert i < 400
            time.sleep(0.05)
        until(lambda: sum(f.stat().st_size for f in files(folder)) <= budget)
        assert count(s, "size_bytes") <= budget
    left = before & set(files(folder))
    assert len(left) < len(before)
    assert used <= left or left <= used, "what was not used goes first"
    assert (folder / "00" / "notes.txt").exists()
    with serving(models, f"dir:{folder}") as s:
        again = ask(s, f"0 {PROMPT}")
        assert bits(again) == bits(one[0])


def test_a_folder_that_goes_away_costs_speed_only(models, folder):
    with serving(models, f"dir:{folder}") as s:
        plain = ask(s)
        until(lambda: len(files(folder)) >= n_records(plain))
        shutil.rmtree(folder)
        for i in range(4):
            assert len(ask(s, f"{i} {PROMPT}")["choices"]) == 1
        until(lambda: count(s, "errors_total", direction="out") > 0)
        assert s.read_log().count("write=failed") == 1, "once a minute"
        assert bits(ask(s)) == bits(plain)


def test_the_journal_is_replayed(models, folder, tmp_path):
    fill(models, f"dir:{folder}", *[f"{i} {PROMPT}" for i in range(4)])
    journal = tmp_path / "journal"
    s = serve(models, f"dir:{folder}", "--journal", str(journal))
    threads = [threading.Thread(target=ask, args=(s, f"{i % 6} {PROMPT}")) for i in range(12)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert count(s, "fetched_blocks_total") > 0
    assert s.stop() == 0
    assert '"fetched":' in journal.read_text() and '"stored":' in journal.read_text()
    run = subprocess.run([BIN, "replay", str(journal)], capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 0 and "plans equal" in run.stdout, run.stdout + run.stderr


def test_models_with_windows_are_refused_with_a_line(tmp_path, folder):
    path = tmp_path / "windows.gguf"
    path.write_bytes(fixtures.make("gemma3", "plain", "F32", n_ctx=2048))
    with serving({"one": path}, f"dir:{folder}") as s:
        ask(s)
        assert "event=off" in s.read_log() and "window" in s.read_log()
        assert s.get("/debug/kv").json["store"] is None
    assert files(folder) == []


@pytest.mark.parametrize("place,word", [("nfs:/x", "dir:"), ("dir:", "path"), ("redis://u:secret@h", "kv_store_password"),
                                        ("redis://h:0", "port"), ("redis://h/x", "database"), ("dir:/dev/null/x", "/dev/null"),
                                        ("redis://no-such-host.invalid", "no-such-host"),
                                        ("redis://" + "u" * 128 + "@h", "127 bytes")])
def test_a_wrong_setting_is_named(place, word):
    run = serve_in_vain("--kv-store", place)
    assert run.returncode != 0 and word in run.stderr and "kv_store" in run.stderr, run.stderr


def test_a_password_that_is_too_long_is_not_cut(tmp_path):
    (tmp_path / "word").write_text("p" * 300)
    run = serve_in_vain("--kv-store", "redis://127.0.0.1", "--kv-store-password", str(tmp_path / "word"))
    assert run.returncode != 0 and "has more than" in run.stderr and "ppp" not in run.stderr, run.stderr


# ---- Redis ----

@pytest.fixture
def redis(tmp_path):
    if shutil.which("redis-server") is None:
        pytest.skip("skip: no redis-server (Debian package redis-server)")
    r = Redis(tmp_path)
    r.start()
    yield r
    r.kill()


class Redis:
    def __init__(self, folder):
        self.folder, self.process, self.flags = folder, None, []
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        self.place = f"redis://127.0.0.1:{self.port}/3"

    def start(self, *flags):
        self.flags = [*flags] or self.flags
        self.process = subprocess.Popen(
            ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--dir", str(self.folder),
             *self.flags], stdout=subprocess.DEVNULL)
        until(lambda: self.call("PING") is not None)

    def call(self, *words):
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=5) as s:
                s.sendall((" ".join(words) + "\r\n").encode())
                return s.recv(4096)
        except OSError:
            return None

    def kill(self):
        self.process.kill()
        self.process.wait()


def test_redis_keeps_prefixes(models, redis):
    plain, = fill(models, redis.place)
    with serving(models, redis.place.replace("redis:", "valkey:"), "--sandbox", "auto" if SANITIZED else "strict") as s:
        again = ask(s)
        assert cached(again) >= n_records(plain) * RECORD and bits(again) == bits(plain)
        assert "syscall" not in s.read_log()
        assert count(s, "errors_total", direction="in") == count(s, "errors_total", direction="out") == 0


def test_redis_may_want_a_password(models, redis, tmp_path):
    redis.kill()
    redis.start("--requirepass", "open sesame")
    word = tmp_path / "word"
    word.write_text("open sesame\n")
    flags = ("--kv-store-password", str(word))
    s = serve(models, redis.place, *flags)
    plain = ask(s)
    assert s.stop() == 0
    assert "sesame" not in s.read_log()
    with serving(models, redis.place, *flags) as s:
        assert cached(ask(s)) >= RECORD
    word.write_text("wrong")
    with serving(models, redis.place, *flags) as s:
        assert bits(ask(s)) == bits(plain)
        until(lambda: count(s, "errors_total", direction="in") > 0)
        assert count(s, "up") == 0


@pytest.mark.threads
def test_redis_killed_and_restarted_under_load_costs_speed_only(models, redis):
    prompts = [f"{i} {PROMPT}" for i in range(8)]
    plain = [bits(r) for r in fill(models, redis.place, *prompts)]
    with serving(models, redis.place, "--kv-memory", "4m") as s:  # little: prompts leave the cache
        wrong, n, stop = [], [0], threading.Event()

        def load(seed):
            rng = random.Random(seed)
            while not stop.is_set():
                i = rng.randrange(len(prompts))
                if bits(ask(s, prompts[i])) != plain[i]:
                    wrong.append(i)
                n[0] += 1

        threads = [threading.Thread(target=load, args=(k,)) for k in range(3)]
        for t in threads:
            t.start()
        for _ in range(2):
            time.sleep(0.5)
            redis.kill()
            done = n[0]
            until(lambda: n[0] > done + 3)  # more than the three that ran when it was killed
            redis.start()
        until(lambda: count(s, "up") == 1, 15)
        until(lambda: b"db3:keys=" in redis.call("INFO", "keyspace"), 40)  # it was empty: it fills again
        stop.set()
        for t in threads:
            t.join()
        assert wrong == [] and n[0] > 20
        assert count(s, "errors_total", direction="in") + count(s, "errors_total", direction="out") > 0


class Liar:
    """A Redis that keeps the secret, and to all about records sends `begin`, and `piece` again and again until nobody listens."""
    SECRET = b"0123456789abcdef" * 2

    def __init__(self, begin, piece, pause_s=0):
        self.begin, self.piece, self.pause_s, self.n_sent, self.n_told = begin, piece, pause_s, 0, 0
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.place = f"redis://127.0.0.1:{self.socket.getsockname()[1]}"
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self.talk, args=(self.socket.accept()[0],), daemon=True).start()

    def talk(self, client):
        with client, contextlib.suppress(OSError):
            while words := client.recv(1 << 20):
                if b"quire:kv:" in words:
                    return self.lie(client)
                client.sendall(b"$32\r\n" + self.SECRET + b"\r\n" if b"GET" in words else b"+OK\r\n")

    def lie(self, client):
        self.n_told += 1
        client.sendall(self.begin)
        while self.n_sent < 400 << 20:
            self.n_sent += client.send(self.piece)
            time.sleep(self.pause_s)


ENDLESS = 65536 * b"1"


@pytest.mark.parametrize("begin,piece,pause_s,why", [
    (b"*1000000000\r\n", b":1\r\n", 0.1, "is a list"), (b"*2147483647\r\n*2147483647\r\n", b"*9\r\n", 0.1, "is a list"),
    (b"$1000000000\r\n", ENDLESS, 0, "longer than what was asked for"), (b"+", ENDLESS, 0, "longer than what was asked for"),
    (b":1", b"1", 0.05, "too slowly")], ids=["list", "lists", "value", "line", "slow"])
def test_redis_that_lies(models, begin, piece, pause_s, why):
    """What it may make the server hold, and for how long, is bounded by what was asked."""
    liar = Liar(begin, piece, pause_s)
    with serving(models, liar.place, "--kv-store-wait-ms", "300") as s:
        at_first = memory(s)
        assert len(ask(s)["choices"]) == 1
        until(lambda: why in s.read_log())
        assert memory(s) - at_first < 64 << 20 or SANITIZED
        assert liar.n_told > 0 and liar.n_sent < 64 << 20
    liar.socket.close()


def memory(s):
    """The most that it had, in bytes."""
    status = pathlib.Path(f"/proc/{s.pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) << 10


def test_redis_that_hangs_is_waited_for_once(models, redis):
    plain, = fill(models, redis.place)
    with serving(models, redis.place, "--kv-store-wait-ms", "300") as s:
        until(lambda: count(s, "up") == 1)
        redis.process.send_signal(signal.SIGSTOP)
        try:
            assert bits(ask(s)) == bits(plain)
            until(lambda: count(s, "unread_prompts_total", reason="timeout") + count(s, "errors_total", direction="in") > 0)
            waits = count(s, "unread_prompts_total", reason="timeout")
            for i in range(4):
                ask(s, f"{i} {PROMPT}")
            # The first of them may come before the reading thread itself has noticed.
            assert count(s, "unread_prompts_total", reason="timeout") <= waits + 1, "nobody waits for it again"
        finally:
            redis.process.send_signal(signal.SIGCONT)
        until(lambda: count(s, "up") == 1, 40)


def test_the_end_does_not_wait_for_redis_that_hangs(models, redis):
    s = serve(models, redis.place, "--kv-store-flush-ms", "500", "--kv-store-wait-ms", "60000")
    until(lambda: count(s, "up") == 1)
    ask(s)
    until(lambda: count(s, "bytes_total", direction="out") > 0)
    redis.process.send_signal(signal.SIGSTOP)
    try:
        ask(s, "a dog", max_tokens=2 * RECORD)  # too short to be looked up; what it generates is offered
        begin = time.monotonic()
        assert s.stop() == 0, s.read_log()
        assert time.monotonic() - begin < 15
    finally:
        redis.process.send_signal(signal.SIGCONT)
