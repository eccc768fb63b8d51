"""Completions for bash, asked of a real bash: commands, every flag of --help, the words of settings, else files."""
import os
import pathlib
import re
import subprocess

CONFIG = pathlib.Path(__file__).parents[2] / "config"


def help_text():
    return subprocess.run([os.environ["QUIRE_BIN"], "--help"], check=True, capture_output=True, text=True).stdout


def complete(*words):
    """What bash offers for the last word."""
    script = subprocess.run(["awk", "-f", CONFIG / "bash.awk"], input=help_text(), check=True, capture_output=True,
                            text=True).stdout
    ask = 'COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _quire; printf "%s\\n" "${COMPREPLY[@]}"'
    out = subprocess.run(["bash", "-uc", script + ask, "bash", "quire", *words], check=True, capture_output=True, text=True)
    assert out.stderr == ""
    return out.stdout.split()


def test_commands():
    assert complete("")[:2] == ["serve", "generate"]
    assert len(complete("")) == len(re.findall(r"^  quire ", help_text(), re.M))
    assert complete("ins") == ["inspect"]


def test_every_flag():
    rows = re.findall(r"^(?:STR|INT|SIZE|ENUM|NUM)\(\w+, (\w+)", (CONFIG / "options.inc").read_text(), re.M)
    flags = complete("serve", "--")
    assert flags[:len(rows)] == ["--" + name.replace("_", "-") for name in rows]
    assert flags[len(rows):] == ["--config", "--print-config", "--version", "--help"]


def test_words_of_every_enum():
    lists = {name: re.findall(r'"([^"]+)"', body) for name, body in
             re.findall(r"#define WORDS_(\w+)\(W\)((?:.*\\\n)*.*)", (CONFIG / "words.h").read_text())}
    rows = re.findall(r'^ENUM\(\w+, (\w+), "[^"]*", (\w+)', (CONFIG / "options.inc").read_text(), re.M)
    assert len(rows) > 15
    for name, words in rows:
        assert complete("serve", "--" + name.replace("_", "-"), "") == lists[words], name


def test_files_where_nothing_is_known():
    assert complete("serve", "--model", "") == []
    assert complete("inspect", "x") == []
