"""`quire plan` against what a server takes, and long contexts in chunks of any size."""
import json
import re
import subprocess

import pytest

from quire import BIN, SANITIZED, SLOW, Server, make_model

N_CTX = 32768 if SLOW else 4096
N_ANSWER = 8
# Bytes of a token in the cache: many, so that it is the cache that fills the memory.
HEADS = 8 if SLOW else 32


def quire(*args):
    return subprocess.run([BIN, *args], capture_output=True, text=True, timeout=120)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return make_model(tmp_path_factory.mktemp("plan") / "long.gguf", "--embd", "256", "--layers", "2", "--heads",
                      str(HEADS), "--kv-heads", str(HEADS), "--head-dim", "128", "--ff", "512", "--vocab", "1000",
                      "--context", str(N_CTX), "--type", "Q8_0")


def settings(chunk, memory):
    # One answer fills no memory for earlier ones.
    return ["--context", str(N_CTX), "--speculation-history", "0", "--kv-memory", str(memory), "--prefill-chunk", str(chunk), "--max-batch-tokens",
            str(max(chunk, 64)), "--max-sequences", "16", "--step-target-ms", "0"]


def plan_of(model, flags):
    return json.loads(quire("plan", "--json", "--model", str(model), *flags).stdout)


def just_enough(model, chunk):
    """Settings whose cache holds one sequence: there is a little room beside each block."""
    bytes_held = N_CTX * HEADS * 128 * 2 * 2 * 2
    held = plan_of(model, settings(chunk, bytes_held))["cache_tokens"]
    return settings(chunk, bytes_held * (N_CTX + 16) // held)


def answer(server):
    ids = [(i * i * 7 + i // 3) % 900 + 50 for i in range(N_CTX - N_ANSWER)]
    return server.post("/v1/completions", {"prompt": ids, "max_tokens": N_ANSWER, "temperature": 0,
                                           "ignore_eos": True, "logprobs": 0})


def test_plan_is_what_a_long_context_takes(model):
    texts = []
    for chunk in 64, 2048:
        flags = just_enough(model, chunk)
        plan = plan_of(model, flags)
        assert N_CTX <= plan["cache_tokens"] <= N_CTX + N_CTX // 64
        server = Server(*flags, model=model)
        try:
            reply = answer(server)
            assert reply.status == 200, reply.body
            choice = reply.json["choices"][0]
            assert reply.json["usage"]["prompt_tokens"] == N_CTX - N_ANSWER
            texts.append((choice["text"], choice["logprobs"]["token_logprobs"]))
            taken = server.metrics()["process_resident_memory_bytes"]
            print(f"chunks of {chunk}: planned {plan['total_bytes']}, resident {taken:.0f}, "
                  f"{taken / plan['total_bytes'] - 1:+.2%}")
            if not SANITIZED:  # pages of libraries and heaps of threads differ by 2 MiB between machines
                assert abs(taken - plan["total_bytes"]) < 0.02 * plan["total_bytes"] + (2 << 20)
        finally:
            server.stop()
    assert texts[0] == texts[1]


def test_plan_counts_connections():
    """Each has 33 KiB; how many there may be is a setting, or follows from the others."""
    for flags, n in (("--queue-limit", "10"), 1280), (("--queue-limit", "3000"), None), (("--max-connections", "77"), 77):
        out = subprocess.run([BIN, "plan", *flags], capture_output=True, text=True, check=True).stdout
        found = re.search(r"([\d.]+) MiB .*connections \(max_connections: (\d+)\)", out)
        assert int(found[2]) == n if n else int(found[2]) > 3000
        assert abs(float(found[1]) - int(found[2]) * 33 / 1024) < 0.1


def test_plan_of_several_models_adds_up(model, tmp_path):
    file = tmp_path / "q.conf"
    file.write_text(f"model = long={model}, demo=\nkv_memory = 64m\n[demo]\nkv_memory = 32m\n"
                    "swap_ram = 1m\nadapters_dir = /tmp\nadapter_memory = 5m\n")
    plan = json.loads(quire("plan", "--json", "--config", str(file)).stdout)
    long, demo = plan["models"]
    assert [long["model"], demo["model"]] == ["long", "demo"]
    assert (long["swap_bytes"], demo["swap_bytes"]) == (256 << 20, 1 << 20)
    assert (long["adapter_bytes"], demo["adapter_bytes"]) == (0, 5 << 20)
    assert 60 << 20 < long["cache_bytes"] <= 64 << 20 and 30 << 20 < demo["cache_bytes"] <= 32 << 20
    rooms = ["weight_bytes", "table_bytes", "cache_bytes", "activation_bytes", "history_bytes"]
    for part in long, demo:
        assert part["total_bytes"] == sum(part[r] for r in rooms) + part["process_bytes"]
    assert plan["total_bytes"] == sum(m[r] for m in (long, demo) for r in rooms) + plan["process_bytes"]
    assert plan["process_bytes"] < long["process_bytes"] + demo["process_bytes"]
    # What does not depend on what the process has done so far is as with one model.
    alone = json.loads(quire("plan", "--json", "--model", "demo=", "--kv-memory", "32m",
                             "--adapters-dir", "/tmp").stdout)
    assert "model" not in alone
    assert {k: demo[k] for k in [*rooms, "cache_tokens", "token_bytes", "sequence_bytes", "context"]} == \
        {k: alone[k] for k in [*rooms, "cache_tokens", "token_bytes", "sequence_bytes", "context"]}
    table = quire("plan", "--config", str(file)).stdout
    assert table.count("KV cache  ") == 2 and "\ndemo (llama, Q8_0" in table
    assert "All 2 models in one process: " in table


def test_plan_counts_events_and_the_block_store(model, tmp_path):
    """Each of them only where it is set; and no weight is read for the names of records."""
    flags = ["--json", "--model", str(model), "--kv-memory", "64m"]
    more = [["--kv-events", "full"], ["--kv-store", f"dir:{tmp_path}"]]
    without, events, store, both = [json.loads(quire("plan", *flags, *f).stdout) for f in ([], *more, sum(more, []))]
    assert without["event_bytes"] == without["store_bytes"] == 0
    assert events["event_bytes"] == both["event_bytes"] > 120 * 16384 and events["store_bytes"] == 0
    assert store["store_bytes"] == both["store_bytes"] > 16 << 20 and store["event_bytes"] == 0
    for plan in events, store, both:
        assert plan["total_bytes"] == sum(plan[f"{part}_bytes"] for part in [
            "weight", "table", "cache", "activation", "process", "event", "store", "history"])
    run = quire("plan", *flags[1:], *sum(more, []))
    assert re.search(r"^KV events +\d", run.stdout, re.M) and re.search(r"^block store +\d", run.stdout, re.M)
    assert "weights_digest" not in run.stderr


def test_plan_counts_earlier_answers(model):
    """Not where nothing is guessed from them."""
    flags = ["--model", str(model), "--kv-memory", "64m"]
    off = [["--speculation-history", "0"], ["--speculation", "off"]]
    kept, *none = [json.loads(quire("plan", "--json", *flags, *f).stdout) for f in ([], *off)]
    assert 262144 * 16 <= kept["history_bytes"] <= 262144 * 19
    assert [p["history_bytes"] for p in none] == [0, 0]
    assert re.search(r"^history +4\.\d", quire("plan", *flags).stdout, re.M)


def test_plan_says_what_does_not_fit(model):
    run = quire("plan", "--model", str(model), "--kv-memory", "1m", "--context", str(N_CTX))
    assert run.returncode == 0 and "which holds" in run.stdout
    assert quire("plan", "--model", "/nonexistent.gguf").returncode == 1
