"""quire.conf(5), made of config/quire.conf: every setting of options.inc is there with its text, and groff has no warning."""
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
