"""Completions, asked of a real bash, zsh and fish: commands, every flag of --help, the words of settings, else files."""
import os
import pathlib
import pty
import re
import select
import shutil
import subprocess
import tempfile
import time

import pytest

CONFIG = pathlib.Path(__file__).parents[2] / "config"


def help_text():
    return subprocess.run([os.environ["QUIRE_BIN"], "--help"], check=True, capture_output=True, text=True).stdout


def script(shell, text=None):
    return subprocess.run(["awk", "-f", CONFIG / "help.awk", "-f", CONFIG / f"{shell}.awk"], input=text or help_text(), check=True,
                          capture_output=True, text=True).stdout


def bash(*words):
    """What bash offers for the last word."""
    ask = 'COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _quire; printf "%s\\n" "${COMPREPLY[@]}"'
    out = subprocess.run(["bash", "-uc", script("bash") + ask, "bash", "quire", *words], check=True, capture_output=True, text=True)
    assert out.stderr == ""
    return out.stdout.split()


def fish(*words):
    if shutil.which("fish") is None:
        pytest.skip("skip: no fish (Debian package)")
    with tempfile.TemporaryDirectory() as home:
        out = subprocess.run(["fish", "--no-config", "-c", script("fish") + '\ncomplete -C "$argv"', "quire " + " ".join(words)],
                             check=True, capture_output=True, text=True, env={**os.environ, "HOME": home})
    assert out.stderr == "", out.stderr
    return [line.split("\t")[0] for line in out.stdout.splitlines()]


# What is offered goes to a file; a line that is typed after the question says when it is there.
ZSH = """
autoload -Uz compinit && compinit -D -u
_quire() {
SCRIPT
}
compdef _quire quire
compadd() {
    local -a offered
    case " $*" in
    *" -"[OAD]" "*) builtin compadd "$@"; return ;;
    esac
    builtin compadd -A offered "$@"
    print -rl -- $offered >>OUT
    builtin compadd "$@"
}
PS1= LISTMAX=100000
done_() { print -n >>OUT.done; zle -I }
zle -N done_
bindkey '^X' done_
print ready
"""


def zsh(*words):
    if shutil.which("zsh") is None:
        pytest.skip("skip: no zsh (Debian package)")
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "out"
        (pathlib.Path(folder) / ".zshrc").write_text(ZSH.replace("SCRIPT", script("zsh")).replace("OUT", str(out)))
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(folder)
            os.execvpe("zsh", ["zsh", "-i"], {**os.environ, "ZDOTDIR": folder, "TERM": "dumb", "LC_ALL": "C.UTF-8"})
        try:
            wait(terminal, lambda seen: b"ready" in seen)
            os.write(terminal, ("quire " + " ".join(words) + "\t\x18").encode())
            wait(terminal, lambda _: pathlib.Path(f"{out}.done").exists())
        finally:
            os.kill(pid, 9)
            os.waitpid(pid, 0)
            os.close(terminal)
        return out.read_text().split() if out.exists() else []


def wait(terminal, question):
    seen, begin = b"", time.monotonic()
    while not question(seen):
        assert time.monotonic() - begin < 30, seen
        if select.select([terminal], [], [], 0.02)[0]:
            seen += os.read(terminal, 65536)


def settings():
    return re.findall(r"^(?:STR|INT|SIZE|ENUM|NUM)\(\w+, (\w+)", (CONFIG / "options.inc").read_text(), re.M)


def commands():
    return re.findall(r"^  quire (?:\[serve\]|(\w+))", help_text(), re.M)


SHELLS = pytest.mark.parametrize("complete", [bash, zsh, fish])


@SHELLS
def test_commands(complete):
    offered = complete("")
    assert sorted(offered) == sorted(name or "serve" for name in commands()) and len(offered) > 10
    assert complete("ins") == ["inspect"]


@SHELLS
def test_every_flag(complete):
    wanted = ["--" + name.replace("_", "-") for name in settings()] + ["--config", "--print-config", "--version", "--help"]
    assert sorted(complete("serve", "--")) == sorted(wanted) and len(wanted) > 100


def test_words_of_every_enum():
    lists = {name: re.findall(r'"([^"]+)"', body) for name, body in
             re.findall(r"#define WORDS_(\w+)\(W\)((?:.*\\\n)*.*)", (CONFIG / "words.h").read_text())}
    rows = re.findall(r'^ENUM\(\w+, (\w+), "[^"]*", (\w+)', (CONFIG / "options.inc").read_text(), re.M)
    assert len(rows) > 15
    for name, words in rows:
        assert bash("serve", "--" + name.replace("_", "-"), "") == lists[words], name


@SHELLS
def test_words(complete):
    for flag, words in ("--isa", "auto scalar avx2 avxvnni avx512 amx neon dotprod i8mm"), ("--kv-type", "f16 bf16 q8_0 q4_0 f32"):
        assert sorted(complete("serve", flag, "")) == sorted(words.split()), flag
    assert complete("serve", "--isa", "avxv") == ["avxvnni"]


def test_files_where_nothing_is_known():
    assert bash("serve", "--model", "") == []  # bash goes on with files: complete -o default
    assert bash("inspect", "x") == []


def test_what_each_is():
    """zsh and fish say it beside what they offer, quotes and colons included."""
    text = "  quire it's            it's: a \"quoted\" thing\n\n  --flag  $(touch x) `x` 'y' \\z (a|b)\n"
    zsh_text, fish_text = script("zsh", text), script("fish", text)
    assert "'it'\\''s:it'\\''s: a \"quoted\" thing'" in zsh_text
    assert "'--flag:$(touch x) `x` '\\''y'\\'' \\z (a|b)'" in zsh_text
    assert "-d 'it\\'s: a \"quoted\" thing'" in fish_text
    assert "-d '$(touch x) `x` \\'y\\' \\\\z (a|b)'" in fish_text and "-x -a 'a b'" in fish_text
