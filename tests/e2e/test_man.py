"""quire.conf(5), made of config/quire.conf: every setting of options.inc is there with its text, and groff has no warning."""
import os
import pathlib
import re
import subprocess

CONFIG = pathlib.Path(__file__).parents[2] / "config"


def page():
    return subprocess.run(["awk", "-v", "version=1.2", "-f", CONFIG / "man5.awk", CONFIG / "quire.conf"],
                          check=True, capture_output=True, text=True).stdout


def rendered(*options):
    return subprocess.run(["groff", "-man", "-Kutf8", "-Tutf8", "-P-cbou", "-ww", "-rLL=200n", "-rHY=0", *options],
                          input=page(), check=True, capture_output=True, text=True)


def test_no_warning():
    assert rendered("-z").stderr == ""


def test_every_setting_in_order():
    rows = re.findall(r"^(?:STR|INT|SIZE|ENUM|NUM)\(\w+, (\w+)", (CONFIG / "options.inc").read_text(), re.M)
    assert len(rows) > 100
    shown = re.findall(r"^ +(\w+) =(?: |$)", rendered().stdout.split("THE MODEL", 1)[1], re.M)
    assert [name for name in shown if name in rows] == rows


def test_every_word_of_the_file():
    """What is read is what quire.conf says, word for word, but for the headings and where a setting's line stands."""
    text = re.sub(r"^# ---- .*", "", (CONFIG / "quire.conf").read_text(encoding="utf-8").split("\n", 2)[2], flags=re.M)
    words = sorted(w for w in text.split() if w != "#" and len(w) > 3 and "'" not in w)
    seen = set(re.sub(r"[‐−]", "-", rendered().stdout).split())
    missing = [w for w in words if w.lstrip("#") not in seen]
    assert not missing, missing[:20]


def test_commands_and_flags():
    """quire(1) has an entry, in order, for each line of --help that begins one."""
    text = subprocess.run([os.environ["QUIRE_BIN"], "--help"], check=True, capture_output=True, text=True).stdout
    roff = subprocess.run(["awk", "-v", "version=1.2", "-f", CONFIG / "man1.awk"], input=text, check=True,
                          capture_output=True, text=True).stdout
    out = subprocess.run(["groff", "-man", "-Kutf8", "-Tutf8", "-P-cbou", "-ww", "-rLL=200n", "-rHY=0"], input=roff,
                         check=True, capture_output=True, text=True)
    assert out.stderr == ""
    seen = re.sub(r"[‐−]", "-", out.stdout)
    wanted = re.findall(r"^  (quire .*?|--[a-z0-9-]+)(?:,|  | |$)", text, re.M)
    assert len(wanted) > 100
    flags = [w for w in wanted if w.startswith("--")]
    assert re.findall(r"^       (--[a-z0-9-]+)", seen, re.M) == flags
    for line in re.findall(r"^  (quire .*?)   *", text, re.M):
        assert re.search(r"^       " + re.escape(line) + "$", seen, re.M), line
    assert set(text.split()) - set(seen.split()) <= {"quire", "-"}
