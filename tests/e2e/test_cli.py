"""The commands on the terminal: what they print, and how they refuse."""
import os
import pathlib
import platform
import re
import socket
import subprocess
import sys

import pytest

from quire import BIN, ISA_LEVELS, SLOW, TOOLS, isa_levels, make_model

ROOT = pathlib.Path(__file__).parents[2]
NARROW = ["--arch", "llama", "--embd", "64", "--ff", "64", "--vocab", "300", "--type", "Q8_0"]
SETTINGS = re.findall(r"^(?:STR|INT|SIZE|ENUM|NUM)\((?:SERVER|MODEL), (\w+)", (ROOT / "config/options.inc").read_text(), re.M)
SCORES = {  # mean negative log-likelihood in float64, from the data's README
    "stories260K.f16": 1.745705, "stories260K-x256-llama.F16": 1.745749,
    "stories260K-x256-llama.BF16": 1.744835, "stories260K-x256-llama.Q8_0": 1.745663,
    "stories260K-x256-llama.Q6_K": 1.752522, "stories260K-x256-llama.Q4_K_M": 1.763520,
    "stories260K-x256-llama.Q4_0": 1.782620,
}


def quire(*args, stdin=b"", env=None, timeout=120):
    """Run it to the end; the environment holds no settings but `env`."""
    clean = {k: v for k, v in os.environ.items()
             if k != "QUIRE_CONFIG" and k.removeprefix("QUIRE_").lower() not in SETTINGS}
    run = subprocess.run([BIN, *map(str, args)], input=stdin, capture_output=True, timeout=timeout,
                         env={**clean, **(env or {})}, check=False)
    run.out, run.err = run.stdout.decode(), run.stderr.decode()
    assert "Sanitizer" not in run.err and "runtime error" not in run.err, run.err
    return run


def refused(run, code, *words):
    """Nothing but one sentence, which holds the words; a server may have listened before."""
    assert run.returncode == code, run.err
    assert re.fullmatch(r"(listening on http://127\.0\.0\.1:\d+ \(model [^\n]*\)\n)?", run.out)
    assert run.out == "" or run.args[1] == "serve"
    assert run.err.startswith("quire: ") and run.err.count("\n") == 1, run.err
    for word in words:
        assert str(word) in run.err


def printed_rows(text):
    rows = [re.fullmatch(r"(\w+) += (.*?) +# (.*)", line) for line in text.splitlines()]
    assert all(rows), text
    return {r[1]: (r[2].strip(), r[3]) for r in rows}


def printed_config(*args, env=None):
    run = quire("--print-config", *args, env=env)
    assert run.returncode == 0, run.err
    return printed_rows(run.out)


# ---- help and settings

@pytest.mark.parametrize("args", [["--help"], ["-h"], ["serve", "--help"]])
def test_help(args):
    run = quire(*args, env={"QUIRE_PORT": "nonsense"})
    assert run.returncode == 0 and run.err == ""
    assert all(len(line) <= 100 for line in run.out.splitlines())
    assert len(SETTINGS) > 20
    for name in [*SETTINGS, "config", "print-config", "version"]:
        assert "--" + name.replace("_", "-") in run.out
    for command in ["generate", "score", "inspect", "tokenize", "replay", "bench", "key", "plan", "diff"]:
        assert "quire " + command in run.out


@pytest.mark.parametrize("command", ["generate", "score", "inspect", "tokenize", "replay", "bench", "key", "plan", "diff"])
def test_help_of_a_command(command):
    run = quire(command, "--help")
    assert run.returncode == 0 and run.err == ""
    assert run.out.startswith("quire " + command)
    assert all(len(line) <= 100 for line in run.out.splitlines())


def test_version():
    """The library says its own version: that it is linked, and new enough."""
    run = quire("--version")
    told = re.fullmatch(r"quire \S+\nlibmicrohttpd (\d+)\.(\d+)\.(\d+)\S*\ninstruction sets: scalar( \w+)*\n", run.out)
    assert run.returncode == 0 and told, run.out
    assert tuple(int(told[i]) for i in (1, 2, 3)) >= (1, 0, 5)


def test_print_config(tmp_path):
    rows = printed_config()
    assert list(rows) == SETTINGS
    assert {source for _, source in rows.values()} == {"default"}
    file = tmp_path / "q.conf"
    file.write_text("port = 1\nkv_memory = 2g\nthreads = 3\n")
    rows = printed_config("--config", file, "--port", "2", env={"QUIRE_THREADS": "4"})
    assert rows["port"] == ("2", "command line")
    assert rows["threads"] == ("4", "environment")
    assert rows["kv_memory"][0] == "2g" and rows["kv_memory"][1].endswith(":2")
    assert rows["host"] == ("127.0.0.1", "default")
    assert printed_config("--config", ROOT / "config/quire.conf")["host"][1] == "default"


TWO_MODELS = """model = chat=/m/chat.gguf, /m/embed.gguf
kv_memory = 1g

[chat]
kv_memory = 8g
share = 3

[embed]
max_sequences = 64
policy = sjf
"""


def test_print_config_of_several_models(tmp_path):
    file = tmp_path / "q.conf"
    file.write_text(TWO_MODELS)
    run = quire("--print-config", "--config", file, "--policy", "fcfs")
    assert run.returncode == 0, run.err
    common, chat, embed = re.split(r"\n\[\w+\]\n", run.out)
    assert re.findall(r"^\[(\w+)\]$", run.out, re.M) == ["chat", "embed"]
    common, chat, embed = map(printed_rows, (common, chat, embed))
    assert list(common) == SETTINGS
    assert common["model"] == ("chat=/m/chat.gguf, /m/embed.gguf", f"{file}:1")
    assert common["kv_memory"] == ("1g", f"{file}:2") and common["share"] == ("1", "default")
    assert chat == {"kv_memory": ("8g", f"{file}:5"), "share": ("3", f"{file}:6")}
    assert embed == {"max_sequences": ("64", f"{file}:9"), "policy": ("fcfs", "command line")}


@pytest.mark.parametrize("text, words", [
    (TWO_MODELS + "host = ::1", [":11: ", "'host'", "[embed]", "above the first section"]),
    (TWO_MODELS + "model = x", [":11: ", "'model'", "[embed]", "already"]),
    (TWO_MODELS + "share = 0", [":11: ", "'share'", "1 to 1000", "'0'"]),
    (TWO_MODELS + "sharre = 1", [":11: ", "unknown setting 'sharre'"]),
    (TWO_MODELS + "[cat]", [":11: ", "[cat]", "chat, embed"]),
    (TWO_MODELS + "[chat]", [":11: ", "[chat]", "occurs twice", ":4"]),
    (TWO_MODELS + "[" + "m" * 128 + "]", [":11: ", "128 bytes", "NAME=PATH"]),
    (TWO_MODELS + "max_batch_tokens = 63", ["model 'embed'", "'max_batch_tokens' (63)"]),
    ("journal = /j\n" + TWO_MODELS, ["cannot share", "'journal'", "'chat' and 'embed'", "/j"]),
])
def test_wrong_sections(tmp_path, text, words):
    file = tmp_path / "q.conf"
    file.write_text(text)
    for command in "serve", "plan", "generate":
        refused(quire(command, "--config", file), 2, *words)


@pytest.mark.parametrize("command", [["generate", "--prompt", "x"], ["score", "--text", "/dev/null"], ["bench"],
                                     ["tokenize"]])
def test_one_model_at_a_time(command):
    refused(quire(*command, "--model", "a=,b="), 2, "2 models (a, b)", "one at a time", "--model PATH")
    run = quire("tokenize", "--model", "a=", "--ids", stdin=b"Once")
    assert run.returncode == 0 and len(run.out.split()) > 1


# ---- wrong usage is 2, what went wrong is 1

@pytest.mark.parametrize("args, words", [
    (["serv"], ["'serv'", "serve"]),
    (["--port", "65536"], ["--port", "0 to 65535", "65536"]),
    (["--kv-memory", "12q"], ["--kv-memory", "1m to 1t", "12q"]),
    (["--policy", "fcfs|priority"], ["--policy", "fcfs|priority"]),
    (["--prot", "1"], ["--prot"]),
    (["--port"], ["--port", "value"]),
    (["--isa", "avx9"], ["--isa", "avx9", "auto|scalar|avx2|avxvnni|avx512|amx|neon|dotprod|i8mm"]),
    (["generate"], ["--prompt"]),
    (["generate", "--prompt"], ["--prompt", "value"]),
    (["generate", "--prompt", "x", "--temperature", "nan"], ["--temperature", "nan"]),
    (["generate", "--prompt", "x", "--max-tokens", "0"], ["--max-tokens", "from 1"]),
    (["score"], ["--ids", "--text"]),
    (["score", "--ids", "a", "--text", "b"], ["--ids", "--text"]),
    (["inspect"], ["inspect FILE"]),
    (["tokenize", "extra"], ["extra"]),
    (["key"], ["--name"]),
    (["key", "--name", "a b"], ["--name"]),
    (["key", "--name", "a", "--weight", "0"], ["weight", "1 to 1000", "'0'"]),
    (["key", "--name", "a", "--max-priority", "top"], ["max_priority", "critical", "'top'"]),
    (["key", "--name", "a", "extra"], ["extra"]),
    (["--host", ""], ["'host'", "'unix_socket'"]),
    (["--unix-socket-mode", "9"], ["'unix_socket_mode'", "'9'"]),
    (["--tls-key", "k.pem"], ["'tls_certificate'", "'tls_key'"]),
    (["--model", "a=x.gguf,/m/a.gguf"], ["'model'", "'a'", "NAME=PATH"]),
    (["--model", "a.gguf,,b.gguf"], ["'model'", "empty item"]),
    (["--model", "a b=x.gguf"], ["'model'", "'a b=x.gguf'", "without blanks"]),
    (["--model", ",".join(f"m{i}" for i in range(129))], ["'model'", "more than 128"]),
    (["tokenize", "--model", "a,"], ["'model'", "empty item"]),
    (["--cors-origins", "https://a.example/"], ["'cors_origins'", "https://a.example/"]),
])
def test_wrong_usage(args, words):
    refused(quire(*args), 2, *words)


def test_isa_that_is_not_there():
    """--version names the levels of this CPU; they can be asked for, and the others are refused."""
    if "QUIRE_DEBUG_ISA" not in os.environ and platform.machine() == "x86_64":
        flags = re.search(r"^flags\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.M)[1].split()
        avx2 = all(f in flags for f in ["avx2", "fma", "f16c"])
        avx512 = avx2 and all(f in flags for f in ["avx512f", "avx512bw", "avx512vl", "avx512_vnni"])
        has = {"scalar": True, "avx2": avx2, "avxvnni": avx512 or (avx2 and "avx_vnni" in flags), "avx512": avx512,
               "amx": avx512 and "amx_tile" in flags and "amx_int8" in flags, "neon": False, "dotprod": False, "i8mm": False}
        levels = isa_levels()
        assert [i for i in levels if i != "amx"] == [i for i in ISA_LEVELS if has[i] and i != "amx"]
        assert has["amx"] or "amx" not in levels  # it may be there, and this process may not have it
    for isa in ISA_LEVELS:
        run = quire("generate", "--prompt", "A", "--max-tokens", "1", "--isa", isa)
        if isa in isa_levels():
            assert run.returncode == 0, run.err
        else:
            refused(run, 2, isa, "not available")


@pytest.mark.parametrize("args", [["serve", "--port", "0"], ["generate", "--prompt", "x"],
                                  ["score", "--ids", "/nonexistent.json"], ["tokenize"]])
def test_missing_model(args):
    refused(quire(*args, "--model", "/nonexistent/m.gguf"), 1, "/nonexistent/m.gguf", "No such file")


def test_missing_files():
    refused(quire("inspect", "/nonexistent/m.gguf"), 1, "/nonexistent/m.gguf")
    run = quire("score", "--ids", "/nonexistent.json", "--log-level", "off")
    refused(run, 1, "/nonexistent.json")


def test_port_in_use():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        port = s.getsockname()[1]
        refused(quire("serve", "--port", port, "--log-level", "off"), 1, f"127.0.0.1:{port}", "in use")


def test_kv_memory_too_small(tmp_path):
    """A shape whose block of 16 tokens is larger than the least kv_memory."""
    model = make_model(tmp_path / "wide.gguf", *NARROW, "--layers", "24", "--heads", "8", "--kv-heads", "8",
                       "--head-dim", "128")
    refused(quire("serve", "--port", "0", "--model", model, "--kv-memory", "1m", "--log-level", "off"), 2,
            "kv_memory", "too small", "16 tokens")


def test_kv_type_wants_wide_heads(tmp_path):
    model = make_model(tmp_path / "narrow.gguf", *NARROW, "--layers", "1", "--heads", "4", "--kv-heads", "2",
                       "--head-dim", "16")
    refused(quire("serve", "--port", "0", "--model", model, "--kv-type", "q8_0", "--log-level", "off"), 2,
            "kv_type 'q8_0'", "multiples of 32", "keys have 16")
    run = quire("generate", "--model", model, "--prompt", "A", "--max-tokens", "2")
    assert run.returncode == 0


# ---- inspect and tokenize

def test_inspect_the_demo():
    run = quire("inspect", "")
    assert run.returncode == 0 and run.err == ""
    for word in ["demo model", "general.architecture", "tokenizer.ggml.tokens", "token_embd.weight", "Q8_0"]:
        assert word in run.out
    assert int(re.search(r"^(\d+) parameters$", run.out, re.M)[1]) > 1_000_000


def test_inspect_reference_files(data):
    for name in SCORES:
        path = data / "weights" / f"{name}.gguf"
        run = quire("inspect", path)
        assert run.returncode == 0 and run.err == ""
        assert f"{path.stat().st_size} bytes" in run.out.splitlines()[0]
        assert re.search(r'^  general.architecture +"llama"$', run.out, re.M)
        tensors = int(re.search(r"^(\d+) tensors$", run.out, re.M)[1])
        assert len(re.findall(r"^  \S+ +\w+ [\dx ]+ \(\d+ bytes\)$", run.out, re.M)) == tensors > 40


VOCABULARIES = ["llama-spm", "gpt-2", "llama-bpe", "qwen2"]


@pytest.mark.parametrize("vocab", VOCABULARIES)
def test_tokenize_reference_lines(data, vocab):
    """A process for each text, and most of its time is the vocabulary's: each has a fourth of the texts. test_vocabs asks
    all of them of all."""
    path = data / "vocabs" / f"ggml-vocab-{vocab}.gguf"
    texts = pathlib.Path(f"{path}.inp").read_bytes().split(b"\n__ggml_vocab_test__\n")[:-1]
    lines = pathlib.Path(f"{path}.out").read_text().splitlines()
    assert len(texts) == len(lines) > 40
    own = slice(None) if SLOW else slice(VOCABULARIES.index(vocab), None, len(VOCABULARIES))
    for text, expected in list(zip(texts, lines))[own]:
        run = quire("tokenize", "--model", path, "--ids", "--no-special", stdin=text)
        assert run.returncode == 0 and run.out.split() == expected.split(), text


def test_tokenize_the_demo():
    ids = quire("tokenize", "--ids", stdin=b"Once upon a time").out.split()
    plain = quire("tokenize", "--ids", "--no-special", stdin=b"Once upon a time").out.split()
    assert ids[1:] == plain and len(plain) > 2
    rows = quire("tokenize", "--no-special", stdin=b"Once upon a time").out.splitlines()
    assert [r.split()[0] for r in rows] == plain


# ---- score and generate

@pytest.mark.parametrize("name", SCORES)
def test_score(data, name):
    run = quire("score", "--model", data / "weights" / f"{name}.gguf",
                "--ids", data / "weights" / "eval_ids.json", "--log-level", "warn")
    assert run.returncode == 0 and run.err == "", run.err
    found = re.fullmatch(r"mean_nll (\d+\.\d+) tokens 499\n", run.out)
    assert found and abs(float(found[1]) - SCORES[name]) < 0.01


def test_score_a_text_longer_than_the_context(data, tmp_path):
    text = tmp_path / "t.txt"
    text.write_text("Once upon a time, there was a little girl named Lily. " * 100)
    run = quire("score", "--model", data / "weights" / "stories260K.f16.gguf", "--text", text,
                "--log-level", "warn")
    found = re.fullmatch(r"mean_nll (\d+\.\d+) tokens (\d+)\n", run.out)
    assert run.returncode == 0 and int(found[2]) > 1000 and 0 < float(found[1]) < 2


@pytest.mark.parametrize("content", ["", "{}", "[1, 2", "[1]", "[1, -1]", "[1, 512]", "[1, 1.5]", '[1, "2"]'])
def test_score_refuses_bad_ids(data, tmp_path, content):
    ids = tmp_path / "ids.json"
    ids.write_text(content)
    refused(quire("score", "--model", data / "weights" / "stories260K.f16.gguf", "--ids", ids,
                  "--log-level", "off"), 1, ids)


@pytest.mark.parametrize("k", [1, 2])
def test_generate_the_golden_text(data, k):
    folder = data / "weights"
    prompt = (folder / f"prompt{k}.txt").read_text().rstrip("\n")
    run = quire("generate", "--model", folder / "stories260K.f16.gguf", "--prompt", prompt,
                "--temperature", "0", "--max-tokens", "128", "--log-level", "warn")
    assert run.returncode == 0, run.err
    text = " " + prompt + run.out.removesuffix("\n")
    expected = (folder / f"prompt{k}.stories260K.greedy128.txt").read_text()
    assert len(text) > 250
    assert expected.startswith(text) and expected[len(text):].strip() == ""


def test_generate_repeats_itself_with_a_seed():
    run = [quire("generate", "--prompt", "Once", "--max-tokens", "20", "--seed", s).out for s in (5, 5, 6)]
    assert run[0] == run[1] != run[2]


# ---- broken model files

@pytest.mark.parametrize("command", [[BIN, "inspect", "{}"],
                                     [BIN, "score", "--model", "{}", "--text", "/dev/null",
                                      "--log-level", "off"]])
def test_hostile_files(command):
    # The reader's and the loader's tests try each of the thousands: here it is what the programs make of a refusal.
    every = "1" if SLOW else "10"
    run = subprocess.run([sys.executable, ROOT / "tests/fixtures/hostile_gguf.py", "--make",
                          f"{TOOLS}/mkhostile", "--every", every, *command], capture_output=True, text=True, check=False)
    found = re.fullmatch(r"(\d+) distinct broken files refused, 0 not\n", run.stdout)
    assert run.returncode == 0 and found and int(found[1]) >= 200, run.stdout + run.stderr[-3000:]
