"""The project's pages, and the commands that they show: tests run these."""
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROOMS = ("server", "core", "scheduler", "kvcache", "kernels", "config", "tests", "docker")
PATHS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(p for room in ROOMS for p in (ROOT / room).rglob("README.md") if ".pytest_cache" not in p.parts)]


def read(name="README.md"):
    return (ROOT / name).read_text(encoding="utf-8")


def text():
    """All pages, one behind the other."""
    return "\n".join(p.read_text(encoding="utf-8") for p in PATHS)


def blocks(page):
    """What stands between lines of three backticks. Drawings are left out: their first line is ```text."""
    return [shown for word, shown in re.findall(r"^```(\w*)\n(.*?)^```$", page, re.S | re.M) if not word]
