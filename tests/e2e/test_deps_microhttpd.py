"""tests/deps_microhttpd.sh without a network: an apt-get of the test's stands in the way of the machine's. `QUIRE_SLOW=1` has it fetch
and build the library, as a user without rights."""
import os
import pathlib
import shutil
import subprocess
import tempfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "tests/deps_microhttpd.sh"
COMMAND = "make deps-microhttpd"
URIS = """  *--print-uris*) echo "'http://mirror.example/debian/dists/trixie/InRelease' a 0" ;;\n"""

pytestmark = pytest.mark.skipif(shutil.which("apt-get") is None, reason="skip: no apt-get")


@pytest.fixture
def fetch(tmp_path):
    """Runs the script with this apt-get, whose cases are of the shell; the program patch is not asked for anything."""
    programs = tmp_path / "programs"
    programs.mkdir()
    keyring = tmp_path / "keyring.gpg"
    keyring.touch()

    def run(cases, need="1.0.5", **env):
        for name, text in (("apt-get", f'case "$*" in\n{cases}esac\n'), ("patch", "exit 1\n")):
            (programs / name).write_text("#!/bin/sh\n" + text)
            (programs / name).chmod(0o755)
        env = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "NEED": need, "KEYRING": str(keyring), **env}
        return subprocess.run(["sh", SCRIPT, tmp_path / "build/deps"], env=env, cwd=tmp_path, capture_output=True, text=True, timeout=60,
                              check=False)
    return run


def refused(run, tmp_path, *words):
    """One sentence says what is missing, another what to do, and nothing is left that looks like the library."""
    assert run.returncode == 1 and all(w in run.stderr for w in ("libmicrohttpd 1.0.5 or newer", COMMAND, *words)), run.stderr
    assert [p.name for p in (tmp_path / "build").glob("*") if p.suffix != ".lock"] == []


def test_a_whole_folder_is_left_alone(fetch, tmp_path):
    library = tmp_path / "build/deps/lib/libmicrohttpd.a"
    library.parent.mkdir(parents=True)
    library.write_text("x")
    run = fetch("*) exit 9 ;;\n", KEYRING="/nowhere")
    assert (run.returncode, run.stdout, run.stderr, library.read_text()) == (0, "", "", "x")


def test_no_debian(fetch, tmp_path):
    refused(fetch("*) exit 9 ;;\n", KEYRING="/nowhere"), tmp_path, "no Debian")


def test_no_mirror(fetch, tmp_path):
    refused(fetch("*) ;;\n"), tmp_path, "no mirror")


def test_no_network(fetch, tmp_path):
    run = fetch(URIS + "*update*) exit 100 ;;\n*) echo 'E: Unable to connect'; exit 100 ;;\n")
    refused(run, tmp_path, "E: Unable to connect", "http://mirror.example/debian")


def test_too_old(fetch, tmp_path):
    run = fetch(URIS + "*source*) echo 'Version: 1.0.1-4' >x.dsc ;;\n")
    refused(run, tmp_path, "1.0.1-4", "too old")


def test_sources_that_cannot_be_built(fetch, tmp_path):
    refused(fetch(URIS + "*source*) echo 'Version: 1.0.7-1' >x.dsc ;;\n"), tmp_path, "1.0.7-1 could not be built")


def test_mirrors_of_any_form(fetch, tmp_path):
    """The machine's own apt-get reads its sources, in both forms; only Debian's releases proper are asked for their sister testing."""
    sources = tmp_path / "sources.d"
    sources.mkdir()
    (sources / "a.list").write_text("deb [check-valid-until=no] http://snapshot.example/debian/20260101T000000Z/ trixie main contrib\n"
                                    "deb mirror+file:/etc/apt/mirrors/debian.list bookworm main\n")
    (sources / "b.sources").write_text("Types: deb deb-src\nURIs: http://deb.example/debian http://other.example/d\n"
                                       "Suites: trixie trixie-updates\nComponents: main\n\n"
                                       "Types: deb\nURIs: http://deb.example/security\nSuites: trixie-security\nComponents: main\n")
    (tmp_path / "apt.conf").write_text(f'Dir::Etc::sourcelist "-";\nDir::Etc::sourceparts "{sources}";\n')
    run = fetch(f"*--print-uris*) exec {shutil.which('apt-get')} \"$@\" ;;\n*update*) cp build/deps.part/testing.sources . ;;\n*) exit 100 ;;\n",
                APT_CONFIG=str(tmp_path / "apt.conf"))
    refused(run, tmp_path)
    fields = dict(line.split(": ", 1) for line in (tmp_path / "testing.sources").read_text().splitlines())
    assert fields.pop("URIs").split() == ["http://deb.example/debian", "http://other.example/d",
                                          "http://snapshot.example/debian/20260101T000000Z", "mirror+file:/etc/apt/mirrors/debian.list"]
    assert fields == {"Types": "deb-src", "Suites": "testing", "Components": "main", "Signed-By": str(tmp_path / "keyring.gpg"),
                      "Check-Valid-Until": "no"}


def make_says(tmp_path, goal):
    """What make would do in a folder without the library."""
    run = subprocess.run(["make", "-n", f"OUT={tmp_path}", f"BUILD={tmp_path}", goal], cwd=ROOT, capture_output=True, text=True, timeout=120,
                         env={k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}, check=False)
    if "deps_microhttpd.sh" not in run.stdout:
        pytest.skip("skip: this machine's own libmicrohttpd is new enough")
    return run.stdout


def test_make_alone_fetches_nothing(tmp_path):
    assert COMMAND in make_says(tmp_path, "all")
    assert COMMAND not in make_says(tmp_path, f"{tmp_path}/quire")


@pytest.mark.skipif(os.environ.get("QUIRE_SLOW") != "1", reason="skip: needs a network (QUIRE_SLOW=1)")
def test_no_rights_are_needed():
    """Two at once, as make may have them: one builds, the other waits for it."""
    other = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        shutil.copy(SCRIPT, folder / "deps.sh")
        folder.chmod(0o777)
        runs = [subprocess.Popen(["sh", "deps.sh", "build/deps"], cwd=folder, env={"PATH": os.environ["PATH"], "NEED": "1.0.5"},
                                 stdout=subprocess.PIPE, text=True, **other) for _ in range(2)]
        said = "".join(r.communicate(timeout=600)[0] for r in runs)
        assert [r.returncode for r in runs] == [0, 0] and said.count("building") == 1, said
        assert sorted(str(p.relative_to(folder / "build/deps")) for p in (folder / "build/deps").rglob("*") if p.is_file()) == [
            "copyright", "include/microhttpd.h", "lib/libmicrohttpd.a"]
