"""Slots as llama-server has them: a text's keys and values to a file, and back, also after a restart."""
import fcntl
import json
import os
import pathlib
import subprocess
import tempfile

import pytest

from quire import Server, make_key, make_model

WORDS = "the cat sat on a mat and saw a dog run over the hill to a far old house by the sea "
PROMPT = WORDS * 6


@pytest.fixture(scope="module")
def model():
    with tempfile.TemporaryDirectory() as folder:
        yield make_model(pathlib.Path(folder) / "slots.gguf", "--embd", "64", "--layers", "2", "--heads", "4", "--kv-heads",
                         "2", "--head-dim", "32", "--ff", "128", "--vocab", "1000", "--context", "2048", "--type", "Q8_0")


@pytest.fixture
def folder(tmp_path):
    saved = tmp_path / "saved"
    saved.mkdir()
    return saved


def serve(model, folder, *flags):
    return Server("--slot-save-path", str(folder), *flags, model=model)


def ask(s, prompt=PROMPT, **fields):
    r = s.post("/completion", {"prompt": prompt, "n_predict": 20, "temperature": 0, "ignore_eos": True, "n_probs": 3,
                               "return_tokens": True, "cache_prompt": True, **fields})
    assert r.status == 200, r.body
    return r.json


def act(s, action, slot=0, name="a.bin", **kw):
    return s.post(f"/slots/{slot}?action={action}", {"filename": name}, **kw)


def bits(r):
    return r["tokens"], r["completion_probabilities"]


def evict(s):
    """Until nothing is left of what was cached before."""
    for i in range(40):
        ask(s, f"{i} other {WORDS * 3}")


def test_a_folder_that_is_full(model, folder):
    """The number of files and their bytes have limits, which have names; a file that is there may be written again."""
    s = serve(model, folder, "--slot-save-files", "2")
    ask(s, id_slot=0)
    assert [act(s, "save", name=name).status for name in ("a", "b", "a", "b")] == 4 * [200]
    r = act(s, "save", name="c")
    assert r.status == 413 and r.json["error"]["code"] == "slot_save_files", r.body
    (folder / "a").unlink()
    assert act(s, "save", name="c").status == 200
    assert s.stop() == 0
    size = (folder / "c").stat().st_size
    (folder / "d").write_bytes(b"x" * ((1 << 20) - size - size // 2))
    (folder / "b").unlink()
    s = serve(model, folder, "--slot-save-size", "1m")
    ask(s, id_slot=0)
    r = act(s, "save", name="e")
    assert r.status == 413 and r.json["error"]["code"] == "slot_save_size", r.body
    assert act(s, "save", name="c").status == 200
    assert sorted(p.name for p in folder.iterdir()) == ["c", "d"]
    assert s.stop() == 0


def test_parts_of_a_process_that_is_gone_are_removed(model, folder):
    """At the start, but for those that another process is writing: it has their lock."""
    for name in (".slot-1-0", ".slot-99-7"):
        (folder / name).write_bytes(b"half")
    (folder / "a.slot-1").write_bytes(b"no part")
    with open(folder / ".slot-99-7", "rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        s = serve(model, folder)
        assert sorted(p.name for p in folder.iterdir()) == [".slot-99-7", "a.slot-1"]
        assert s.stop() == 0
    assert "event=parts_removed n=1" in s.read_log()


def test_the_log_quotes_the_name_of_a_file(model, folder):
    s = serve(model, folder)
    ask(s, id_slot=0)
    (folder / "x event=admin key=root").mkdir()
    assert act(s, "save", name="x event=admin key=root").status == 503
    assert 'file="x event=admin key=root"' in s.read_log()
    assert s.stop() == 0


def test_a_slot_comes_back_after_a_restart(model, folder):
    s = serve(model, folder)
    plain = ask(s, id_slot=1)
    n_prompt = plain["tokens_evaluated"]
    assert plain["id_slot"] == 1
    r = act(s, "save", slot=1)
    assert r.status == 200, r.body
    saved = r.json
    assert set(saved) == {"id_slot", "filename", "n_saved", "n_written", "timings"} and saved["id_slot"] == 1
    assert n_prompt - 16 < saved["n_saved"] <= n_prompt + 20 and saved["n_saved"] % 16 == 0
    assert (folder / "a.bin").stat().st_size == saved["n_written"] and os.listdir(folder) == ["a.bin"]
    assert (folder / "a.bin").stat().st_mode & 0o777 == 0o600
    s.stop()
    s = serve(model, folder, "--kv-memory", "4m")
    assert ask(s, "x" + WORDS)["timings"]["cache_n"] <= 1
    r = act(s, "restore", slot=0)
    assert r.status == 200, r.body
    assert r.json["n_restored"] == saved["n_saved"] and r.json["n_read"] == saved["n_written"]
    again = ask(s)
    assert again["timings"]["cache_n"] == min(saved["n_saved"], n_prompt - 1)
    assert again["timings"]["prompt_n"] == n_prompt - again["timings"]["cache_n"]
    assert bits(again) == bits(plain)
    evict(s)
    assert act(s, "restore", slot=3).json["n_restored"] == saved["n_saved"]  # into another one, while others are cached
    assert bits(ask(s)) == bits(plain)
    assert act(s, "save", slot=3, name="b.bin").json["n_saved"] == saved["n_saved"]
    assert s.stop() == 0


def test_erase_forgets_the_text(model, folder):
    s = serve(model, folder)
    n = ask(s)["tokens_evaluated"] + 20
    assert s.post("/slots/0?action=erase", {}).json == {"id_slot": 0, "n_erased": n}
    assert s.post("/slots/0?action=erase", {}).json == {"id_slot": 0, "n_erased": 0}
    r = act(s, "save")
    assert r.status == 400 and "empty" in r.json["error"]["message"]
    s.stop()


def test_choices_and_other_apis_have_slots(model, folder):
    s = serve(model, folder)
    chat = {"messages": [{"role": "user", "content": PROMPT}], "max_tokens": 5, "n": 2, "id_slot": 2}
    assert s.post("/v1/chat/completions", chat).status == 200
    assert act(s, "save", slot=2).json["n_saved"] >= 64
    assert act(s, "save", slot=3).json["n_saved"] >= 64
    s.post("/v1/completions", {"prompt": PROMPT, "max_tokens": 1, "cache_salt": "mine"})
    assert act(s, "save", slot=0).status == 400  # who salts does not share
    s.stop()


def test_what_is_refused(model, folder):
    s = serve(model, folder)
    ask(s)
    for slot, action in ((0, "keep"), (0, ""), ("x", "save"), ("-1", "save"), (9999, "save"), ("1x", "save")):
        r = act(s, action, slot=slot)
        assert r.status == 400 and r.json["error"]["type"] == "invalid_request_error", (slot, action, r.body)
    assert s.post("/slots/0", {"filename": "x"}).status == 400
    for name in ("", ".", "..", ".hidden", "a/b", "a\\b", "/etc/passwd", "../x", "a\nb", "x" * 201, 5, None, [], {}):
        for action in ("save", "restore"):
            assert act(s, action, name=name).status == 400, name
    for body in ("", "{", "[]", '"x"'):
        assert s.request("POST", "/slots/0?action=save", body, {"Content-Type": "application/json"}).status == 400
    r = act(s, "restore", name="none")
    assert r.status == 404 and "none" in r.json["error"]["message"]
    assert os.listdir(folder) == []
    s.stop()
    s = Server(model=model)
    for action in ("save", "restore", "erase"):
        r = act(s, action)
        assert r.status == 501 and "slot_save_path" in r.json["error"]["message"], r.body
        assert r.json["error"]["type"] == "not_supported_error"
    s.stop()


def test_damaged_and_foreign_files(model, folder, tmp_path):
    s = serve(model, folder)
    ask(s)
    assert act(s, "save").status == 200
    whole = (folder / "a.bin").read_bytes()
    damaged = {"empty": b"", "short": whole[:40], "cut": whole[:-1], "longer": whole + b"x", "text": b"hello" * 100,
               "magic": b"Q" + whole[1:], "last": whole[:-1] + bytes([whole[-1] ^ 1])}
    for at in (8, 16, 32, 40, 48, 52, 56, 64, 100, len(whole) // 2):
        damaged[f"flip{at}"] = whole[:at] + bytes([whole[at] ^ 0x40]) + whole[at + 1:]
    for name, data in damaged.items():
        (folder / name).write_bytes(data)
        r = act(s, "restore", name=name)
        assert r.status in (400, 404) and name in r.json["error"]["message"], (name, r.body)
    (folder / "dir").mkdir()
    os.mkfifo(folder / "fifo")
    (folder / "link").symlink_to(folder / "a.bin")
    assert [act(s, "restore", name=name).status for name in ("dir", "fifo", "link")] == [400, 400, 404]
    s.stop()
    other = make_model(tmp_path / "other.gguf", "--embd", "64", "--layers", "2", "--heads", "4", "--kv-heads", "2", "--head-dim",
                       "32", "--ff", "128", "--vocab", "1000", "--context", "2048", "--type", "Q8_0", "--seed", "9")
    for m, flags in ((other, ()), (model, ("--kv-type", "q8_0")), (model, ("--context", "1024"))):
        s = serve(m, folder, *flags)
        r = act(s, "restore")
        assert r.status == 400 and "another model" in r.json["error"]["message"], r.body
        s.stop()


def test_keys_do_not_share_slots(model, folder, tmp_path):
    (entry_a, a), (entry_b, b) = make_key("a", "--tenant", "one"), make_key("b", "--tenant", "two")
    keys = tmp_path / "keys"
    keys.write_text(entry_a + entry_b)
    s = serve(model, folder, "--api-keys", str(keys))
    s.key = a
    plain = ask(s)
    assert act(s, "save").status == 200
    s.key = b
    assert act(s, "save").status == 400  # its slot 0 is empty
    assert act(s, "restore").status == 404
    assert ask(s)["timings"]["cache_n"] <= 1
    assert act(s, "save").status == 200  # under the same name: another file
    assert len(os.listdir(folder)) == 2
    s.key = a
    assert act(s, "restore").status == 200
    assert bits(ask(s)) == bits(plain)
    s.stop()


def test_beside_streams_and_with_little_room(model, folder):
    s = serve(model, folder, "--kv-memory", "1m")
    plain = ask(s)
    assert act(s, "save").status == 200
    streams = [s.stream(f"{i} {WORDS}", max_tokens=200, ignore_eos=True, temperature=0) for i in range(3)]
    first = [next(iter(stream)) for stream in streams]
    assert len(first) == 3
    r = act(s, "restore")
    assert r.status == 200 and r.json["n_restored"] >= 0
    for stream in streams:
        for _ in stream:
            pass
        assert stream.done
    assert bits(ask(s)) == bits(plain)
    s.wait_idle()
    s.stop()


def test_models_without_what_it_takes(model, folder, tmp_path):
    s = serve(model, folder, "--prefix-cache", "off")
    ask(s)
    r = act(s, "save")
    assert r.status == 501 and "cannot be saved, because its prefix cache is off: set prefix_cache = on" in r.json["error"]["message"]
    s.stop()


def test_a_folder_that_is_not_there(model, tmp_path):
    run = subprocess.run([os.environ.get("QUIRE_BIN", "build/quire"), "serve", "--port", "0", "--model", str(model),
                          "--slot-save-path", str(tmp_path / "none")], capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode != 0 and "slot_save_path" in run.stderr, run.stderr


def test_replay_stops_at_a_restored_slot(model, folder, tmp_path):
    journal = tmp_path / "journal"
    s = serve(model, folder, "--journal", str(journal))
    ask(s)
    act(s, "save")
    ask(s, WORDS)
    s.stop()
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    assert {"dropped"} in [set(line) for line in lines]
