"""What requests get that say nothing of sampling: a setting, else the model's file, else their API."""
import json
import pathlib
import subprocess
import sys

import pytest

import hf_folder
from quire import BIN, serve_in_vain

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "reference"))

import fixtures  # noqa: E402
import gguf_file  # noqa: E402

NAMES = {"temperature": "temperature", "top_p": "top_p", "top_k": "top_k", "min_p": "min_p",
         "repetition_penalty": "repeat_penalty", "presence_penalty": "presence_penalty",
         "frequency_penalty": "frequency_penalty", "max_tokens": "max_tokens"}
OWN = {"temperature": 0.8, "top_p": 0.95, "top_k": 40, "min_p": 0.05, "repetition_penalty": 1,
       "presence_penalty": 0, "frequency_penalty": 0, "max_tokens": -1}
IN_FILE = {"general.sampling.temp": 0.5, "general.sampling.top_k": 7, "general.sampling.penalty_repeat": 1.25}
FROM_FILE = {"temperature": 0.5, "top_k": 7, "repetition_penalty": 1.25}
LONG = dict(max_tokens=24, ignore_eos=True)
CHAIN = {"samplers": ["penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature"],
         "repeat_last_n": 64}  # as llama-server's endpoints choose: the others begin with the temperature


def write_model(path, keys):
    path.write_bytes(gguf_file.with_keys(fixtures.make("llama", "plain", "F32"), keys))
    return path


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("model") / "m.gguf", IN_FILE)


def in_force(server):
    shown = server.get("/props").json["default_generation_settings"]["params"]
    return {ours: shown[theirs] for ours, theirs in NAMES.items()}


def ids(server, path="/v1/completions", **fields):
    """The tokens of an answer to a fixed seed: they tell which sampling was in force."""
    if path == "/v1/completions":
        r = server.post(path, {"prompt": [5, 6, 7], "seed": 3, "return_token_ids": True, **LONG, **fields})
        return r.json["choices"][0]["token_ids"]
    return server.post(path, {"prompt": [5, 6, 7], "seed": 3, "return_tokens": True, **LONG, **fields}).json["tokens"]


def test_nothing_said(server):
    assert in_force(server) == OWN
    openai = {"temperature": 1, "top_p": 1, "top_k": 0, "min_p": 0}
    said = {n: OWN[n] for n in openai}
    assert ids(server) == ids(server, **openai) != ids(server, temperature=0)
    assert ids(server, "/completion") == ids(server, "/completion", **said) == ids(server, **said, **CHAIN)
    assert ids(server, "/completion") != ids(server)


def test_the_file_then_the_setting_then_the_request(start, model):
    by_file = start(model=model)
    assert in_force(by_file) == {**OWN, **FROM_FILE}
    settings = start("--temperature", "0", "--top-k", "auto", "--max-tokens", "5", model=model)
    assert in_force(settings) == {**OWN, **FROM_FILE, "temperature": 0, "max_tokens": 5}
    without = start("--file-sampling", "off", model=model)
    assert in_force(without) == OWN

    expected = ids(without, **FROM_FILE)
    assert ids(by_file) == expected != ids(without)
    assert ids(by_file, temperature=1, top_k=-1, repetition_penalty=1) == ids(without)
    assert ids(by_file, temperature=None) == expected, "a null says nothing"
    greedy = ids(without, temperature=0, repetition_penalty=1.25)
    assert ids(settings) == greedy and ids(settings, temperature=0.5) == expected
    own = {k: OWN[k] for k in ("top_p", "min_p")}
    assert ids(by_file, "/completion") == ids(without, **own, **FROM_FILE, **CHAIN)


def test_length(start, model):
    """max_tokens under each API's name for it; Anthropic's must be said all the same."""
    s = start("--max-tokens", "5", model=model)
    chat = {"messages": [{"role": "user", "content": "a"}], "ignore_eos": True}
    for path, body, used in (("/v1/completions", {"prompt": "a", "ignore_eos": True}, "completion_tokens"),
                             ("/v1/chat/completions", chat, "completion_tokens"),
                             ("/v1/responses", {"input": "a", "ignore_eos": True}, "output_tokens")):
        assert s.post(path, body).json["usage"][used] == 5, path
    assert s.post("/completion", {"prompt": "a", "ignore_eos": True}).json["tokens_predicted"] == 5
    assert s.post("/completion", {"prompt": "a", "ignore_eos": True, "n_predict": 3}).json["tokens_predicted"] == 3
    assert s.post("/v1/chat/completions", {**chat, "max_completion_tokens": 7}).json["usage"]["completion_tokens"] == 7
    shown = s.post("/v1/responses", {"input": "a"}).json
    assert (shown["max_output_tokens"], shown["temperature"], shown["top_p"]) == (5, 0.5, 1)
    shown = s.post("/v1/responses", {"input": "a", "temperature": 0.7, "max_output_tokens": 3, "top_p": 0.25}).json
    assert (shown["max_output_tokens"], shown["temperature"], shown["top_p"]) == (3, 0.7, 0.25)
    assert s.post("/v1/messages", chat).json["error"]["message"] == "'max_tokens' is required"
    assert s.post("/v1/embeddings", {"input": "a"}).status == 200
    assert s.post("/v1/completions", {"prompt": "a", "min_tokens": 6}).json["error"]["param"] == "min_tokens"


def test_a_default_length_is_cut_to_the_room(start):
    s = start("--max-tokens", "1000000", "--kv-memory", "1m", "--context", "64")
    assert s.complete("a", ignore_eos=True).json["usage"]["completion_tokens"] > 16


def test_keys_that_cannot_be_obeyed(start, tmp_path):
    keys = {"general.sampling.mirostat": 1, "general.sampling.sequence": "top_k;temperature",
            "general.sampling.top_p": 7.0, "general.sampling.temp": "hot", "general.sampling.new thing": 1}
    s = start(model=write_model(tmp_path / "m.gguf", keys))
    assert in_force(s) == OWN
    lines = [line for line in s.read_log().splitlines() if "event=sampling_key_ignored" in line]
    assert len(lines) == len(keys) and all(" W model " in line for line in lines)
    for key in keys:
        assert any(key in line for line in lines), key
    quiet = start("--file-sampling", "off", model=tmp_path / "m.gguf")
    assert "sampling_key_ignored" not in quiet.read_log()


def test_mirostat_of_a_file(start, tmp_path):
    s = start(model=write_model(tmp_path / "m.gguf", {"general.sampling.mirostat": 2,
                                                      "general.sampling.mirostat_tau": 3.0}))
    shown = s.get("/props").json["default_generation_settings"]["params"]
    assert (shown["mirostat"], shown["mirostat_tau"]) == (2, 3)
    assert ids(s) == ids(s, mirostat=2, mirostat_tau=3) != ids(s, mirostat=0)


def test_a_window_of_a_file(start, tmp_path):
    s = start(model=write_model(tmp_path / "m.gguf", {"general.sampling.penalty_last_n": 3,
                                                      "general.sampling.penalty_repeat": 3.0}))
    assert "sampling_key_ignored" not in s.read_log()
    assert s.get("/props").json["default_generation_settings"]["params"]["repeat_last_n"] == 3
    assert ids(s) == ids(s, repeat_last_n=3) != ids(s, repeat_last_n=-1)


def test_generation_config(start, tmp_path):
    keys, tensors = gguf_file.read_parts(fixtures.make("llama", "plain", "F32"))
    folder = hf_folder.write(tmp_path / "m", keys, tensors, tie_word_embeddings="output.weight" not in tensors)
    said = {"temperature": 0.5, "top_k": 7, "repetition_penalty": 1.25, "max_new_tokens": 9, "do_sample": True}
    (folder / "generation_config.json").write_text(json.dumps(said))
    s = start(model=folder)
    assert in_force(s) == {**OWN, **FROM_FILE, "max_tokens": 9}
    assert in_force(start("--file-sampling", "off", model=folder)) == OWN
    (folder / "generation_config.json").write_text('{"temperature": "warm"}')
    run = serve_in_vain("--model", folder, "--log-level", "off")
    assert run.returncode == 1 and "generation_config.json: 'temperature' is not a number" in run.stderr


def test_of_one_model_alone(start, tmp_path, model):
    conf = tmp_path / "q.conf"
    conf.write_text(f"temperature = 0.25\n[a]\nmodel = {model}\n[b]\nmodel = {model}\ntemperature = auto\ntop_k = 3\n")
    s = start("--config", conf, model="")
    shown = [s.get(f"/props?model={m}").json["default_generation_settings"]["params"] for m in "ab"]
    assert [(p["temperature"], p["top_k"]) for p in shown] == [(0.25, 7), (0.5, 3)]


def generate(*flags):
    run = subprocess.run([BIN, "generate", "--prompt", "a b c", "--seed", "3", "--log-level", "off", *map(str, flags)],
                         capture_output=True, timeout=60, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_generate(model):
    """quire generate: a flag, else the setting, else the file, else its own."""
    some = ("--model", model, "--max-tokens", "16")
    off = (*some, "--file-sampling", "off")
    assert generate(*some) == generate(*some, "--temperature", "0.5", "--top-k", "7") != generate(*off)
    same = generate(*off, "--temperature", "0.5", "--top-k", "7", "--repetition-penalty", "1.25")
    assert generate(*some) == same
    assert generate(*some, "--temperature", "0") == generate(*off, "--temperature", "0", "--repetition-penalty", "1.25")
    assert generate(*off) == generate(*off, "--temperature", "0.8", "--top-p", "0.95")
