"""`quire pull` and hf: names: a local Hub (hub_server.py), cuts, wrong bytes, hostile listings, two processes."""
import hashlib
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "reference"))

import adapter_files  # noqa: E402
import gguf_file  # noqa: E402
import hf_folder  # noqa: E402
from hub_server import COMMIT, Hub, Repo, git_sha1  # noqa: E402
from quire import BIN, Server, make_certificate, serve_in_vain  # noqa: E402
from test_bert_folder import parts as bert_parts  # noqa: E402
from test_safetensors import parts as parts_of  # noqa: E402
from test_safetensors import write_folder  # noqa: E402

ROOT = pathlib.Path(__file__).parents[2]
DEMO = (ROOT / "config/demo/quire-demo.gguf").read_bytes()
NOISE = random.Random(7).randbytes(3 << 20)
TEXT = {"README.md": b"# a model\n", "config.json": b"{}"}


@pytest.fixture
def hub(tmp_path, monkeypatch):
    for name in list(os.environ):
        if name.startswith(("HF_", "HUGGING", "TRANSFORMERS_")) or name.lower().endswith(("_proxy", "_ca_bundle", "ssl_cert_file")):
            monkeypatch.delenv(name)
    h = Hub(owner__name=Repo({"x-Q8_0.gguf": DEMO, "x-Q4_K_M.gguf": NOISE, **TEXT}))
    monkeypatch.setenv("HF_ENDPOINT", h.url)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    yield h
    h.close()


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "home/hub"


def pull(*args, status=0, **kw):
    """The paths that it prints, or, where it must fail, what it says."""
    run = subprocess.run([BIN, "pull", *args], capture_output=True, text=True, timeout=120, check=False, **kw)
    assert run.returncode == status, run.stderr
    assert "Sanitizer" not in run.stderr and "runtime error" not in run.stderr, run.stderr
    return run.stdout.splitlines() if status == 0 else run.stderr


def refused(*args, **kw):
    """The last line that it says."""
    return pull(*args, status=1, **kw).splitlines()[-1]


def start(*args, **kw):
    # What a shell runs in the background ignores SIGINT, and so would what the tests start.
    return subprocess.Popen([BIN, "pull", *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL), **kw)


def wait_for(condition, timeout=30):
    begin = time.monotonic()
    while not condition():
        assert time.monotonic() - begin < timeout
        time.sleep(0.01)


def parts(cache):
    return sorted(cache.glob("models--*/blobs/*.incomplete"))


# ---- what is fetched, and where it lies ----


def test_layout(hub, cache):
    """As huggingface_hub's file_download.py keeps it: blobs by hash, relative links, the ref, the lock."""
    (path,) = pull("hf:owner/name:Q8_0")
    folder = cache / "models--owner--name"
    digest = hashlib.sha256(DEMO).hexdigest()
    assert path == f"{folder}/snapshots/{COMMIT}/x-Q8_0.gguf"
    assert os.readlink(path) == f"../../blobs/{digest}"
    assert (folder / "blobs" / digest).read_bytes() == DEMO
    assert (folder / "refs/main").read_text() == COMMIT
    assert (cache / f".locks/models--owner--name/{digest}.lock").stat().st_size == 0
    assert (cache / "CACHEDIR.TAG").read_text().startswith("Signature: 8a477f597d28d172789f06886806bc55")
    assert sorted(p.name for p in (folder / "blobs").iterdir()) == [digest]  # nothing else


def test_fetched_once(hub):
    first = pull("hf:owner/name:q8_0")
    sent = hub.sent
    assert pull("hf:owner/name:q8_0") == first and hub.sent == sent
    assert not [a for a in hub.asked[-2:] if a[0] == "HEAD"]  # the listing was enough


@pytest.mark.parametrize("want, file", [
    ("", "m-Q4_K_M.gguf"), (":q4_k_m", "m-Q4_K_M.gguf"), (":Q8_0", "m.Q8_0.gguf"), (":Q4_K_S", "m-Q4_K_S.gguf"),
    (":BF16", "BF16/m.gguf"), (":m.Q8_0.gguf", "m.Q8_0.gguf"), (":iq2_xs", "m-UD-IQ2_XS.gguf")])
def test_quant(hub, want, file):
    names = ["m-Q4_K_M.gguf", "m.Q8_0.gguf", "m-Q4_K_S.gguf", "BF16/m.gguf", "m-UD-IQ2_XS.gguf", "mmproj-m-Q8_0.gguf",
             "m.imatrix.gguf", "m-tuned-Q8_0.gguf"]
    hub.repos["owner/name"] = Repo({name: name.encode() * 10 for name in names})
    (path,) = pull(f"hf:owner/name{want}")
    assert path.endswith("/" + file) and pathlib.Path(path).read_bytes() == file.encode() * 10


def test_quant_that_is_not_there(hub):
    said = refused("hf:owner/name:Q4_K")  # no word of Q4_K_M
    assert "has no GGUF file 'Q4_K'" in said and "x-Q4_K_M.gguf, x-Q8_0.gguf" in said


def test_usual_order(hub):
    for names, chosen in ((["b-Q8_0.gguf", "a-Q2_K.gguf"], "b-Q8_0.gguf"), (["b-Q6_K.gguf", "a-Q2_K.gguf"], "a-Q2_K.gguf")):
        hub.repos["owner/name"] = Repo({name: name.encode() for name in names}, commit=git_sha1(chosen.encode()))
        hub.repos["owner/name"].revisions["main"] = hub.repos["owner/name"].commit
        assert pull("hf:owner/name")[0].endswith("/" + chosen)


def test_split(hub):
    """All parts come; a part that the repository lacks is named."""
    files = {f"q8/x-Q8_0-{i:05}-of-00003.gguf": bytes([i]) * 5000 for i in (1, 2, 3)}
    hub.repos["owner/name"] = Repo({**files, "x-Q2_K.gguf": b"no"})
    for want in ("Q8_0", "q8/x-Q8_0-00002-of-00003.gguf"):
        (path,) = pull(f"hf:owner/name:{want}")
        assert path.endswith("q8/x-Q8_0-00001-of-00003.gguf")
    for name, data in files.items():
        assert (pathlib.Path(path).parents[1] / name).read_bytes() == data
    del hub.repos["owner/name"].files["q8/x-Q8_0-00003-of-00003.gguf"]
    assert "the part 'q8/x-Q8_0-00003-of-00003.gguf' is missing" in refused("hf:owner/name:Q8_0")


def test_depth(hub):
    """Folders in folders, as many as are taken: the link leads back through all of them, online and from the cache."""
    path = "".join(f"{i}/" for i in range(16)) + "x.gguf"
    hub.repos["owner/name"] = Repo({path: b"GGUF"})
    for flags in ([], ["--offline"]):
        (found,) = pull(*flags, "hf:owner/name")
        assert found.endswith(path) and pathlib.Path(found).read_bytes() == b"GGUF"


FOLDER = {name: name.encode() for name in (
    "config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json", "chat_template.jinja",
    "additional_chat_templates/tool_use.jinja", "1_Pooling/config.json", "modules.json", "model-00001-of-00002.safetensors",
    "model-00002-of-00002.safetensors", "model.safetensors.index.json")}


def test_folder(hub):
    """What the loader reads, and no pickles, no other formats, no weights that are there a second time."""
    rest = {name: b"x" for name in ("pytorch_model.bin", "model.pth", "onnx/model.onnx", "README.md", "tf_model.h5",
                                    "consolidated.safetensors", "model.fp16.safetensors", "original/model.safetensors",
                                    "adapter_model.safetensors", ".gitattributes", "run.py")}
    hub.repos["owner/name"] = Repo({**FOLDER, **rest})
    (path,) = pull("hf:owner/name")
    found = {str(p.relative_to(path)): p.read_bytes() for p in pathlib.Path(path).rglob("*") if p.is_file()}
    assert found == FOLDER and path.endswith(COMMIT)
    assert os.readlink(f"{path}/1_Pooling/config.json") == f"../../../blobs/{git_sha1(b'1_Pooling/config.json')}"


def test_folder_beside_gguf(hub):
    hub.repos["owner/name"] = Repo({**FOLDER, "x.gguf": b"GGUF"})
    assert pull("hf:owner/name")[0].endswith("/x.gguf")
    assert pull("hf:owner/name:safetensors")[0].endswith(COMMIT)


def test_no_model(hub):
    hub.repos["owner/name"] = Repo({"README.md": b"data", "train.parquet": b"x"})
    assert "neither a GGUF file nor config.json with safetensors" in refused("hf:owner/name")


def test_pages(hub):
    """The listing comes in pages of three; the model is on the last one."""
    hub.page = 3
    hub.repos["owner/name"] = Repo({**{f"a{i:03}.txt": b"" for i in range(50)}, "z.gguf": b"GGUF"})
    assert pull("hf:owner/name")[0].endswith("/z.gguf")
    assert len([a for a in hub.asked if "/tree/" in a[2]]) == 17


def test_next_page_elsewhere(hub, monkeypatch):
    """A link to another host is not followed: the token would go there."""
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    hub.page, hub.next_base = 1, f"http://localhost:{hub.port}"
    assert "the next page of the listing is on another host" in refused("hf:owner/name")
    assert not [a for a in hub.asked if a[1] == "localhost"]


def test_revision(hub):
    other = 40 * "a"
    hub.repos["owner/name"].revisions["refs/pr/1"] = COMMIT
    assert pull("hf:owner/name@refs/pr/1:Q8_0")[0].split("/")[-2] == COMMIT
    assert pull(f"hf:owner/name@{COMMIT}:Q8_0")
    assert "has no branch, tag or commit" in refused(f"hf:owner/name@{other}")
    assert pull("--offline", "hf:owner/name@refs/pr/1:Q8_0") == pull("--offline", f"hf:owner/name@{COMMIT}:Q8_0")
    assert "it is not in the cache" in refused("--offline", "hf:owner/name")  # main was never asked for


def test_revision_moves(hub, cache):
    """What is new is fetched, what is the same is not, and both snapshots stay."""
    (before,) = pull("hf:owner/name:Q8_0")
    sent = hub.sent
    hub.repos["owner/name"] = Repo({"x-Q8_0.gguf": DEMO, "new.txt": b"1"}, commit=40 * "b")
    (after,) = pull("hf:owner/name:Q8_0")
    assert after == before.replace(COMMIT, 40 * "b") and hub.sent == sent
    assert os.path.realpath(before) == os.path.realpath(after)
    assert (cache / "models--owner--name/refs/main").read_text() == 40 * "b"


def test_moved_repository(hub):
    hub.repos["new/name"] = hub.repos.pop("owner/name")
    hub.moved["owner/name"] = "new/name"
    assert pathlib.Path(pull("hf:owner/name:Q8_0")[0]).read_bytes() == DEMO


@pytest.mark.parametrize("text", ["hf:", "hf:name", "hf:a/b/c", "hf:../x", "hf:a/..", "hf:a/b@", "hf:a/b@../x", "hf:a/b:",
                                  "hf:a/b:../x", "hf:a/b:/etc/passwd", "hf:a--b/c", "hf:-a/b", "hf:a b/c", "hf:" + 97 * "a" + "/b"])
def test_no_reference(hub, text):
    assert "models of the Hub are hf:OWNER/NAME" in refused(text)
    assert hub.asked == []


# ---- cuts and wrong bytes ----


def test_cuts(hub):
    """At twenty random places; every byte comes, and none twice but for what was on its way."""
    rng = random.Random(3)
    left, cuts = len(NOISE), []
    for _ in range(20):
        cuts.append(rng.randrange(1, left // 4))
        left -= cuts[-1]
    hub.cuts = list(cuts)
    (path,) = pull("hf:owner/name:Q4_K_M")
    assert pathlib.Path(path).read_bytes() == NOISE and hub.cuts == [] and hub.sent == len(NOISE)
    starts = [int(b[3][6:-1]) for b in hub.bodies() if b[0] == "localhost" and b[3]]
    assert starts == [sum(cuts[:i + 1]) for i in range(20)]


def test_cut_at_once(hub):
    """No byte at all: it gives up after a few tries, and says what happened."""
    hub.cuts = 20 * [0]
    said = refused("hf:owner/name:Q4_K_M")
    assert said.startswith("quire: hf:owner/name:Q4_K_M: http://127.0.0.1") and "3145728 bytes" in said
    assert 3 <= 20 - len(hub.cuts) <= 8


@pytest.mark.parametrize("cut", [False, True], ids=["slow", "cut"])
def test_a_hub_that_drips(hub, cache, cut):
    """A byte now and then, of one answer or of many, is no download: it ends by itself, and what came is kept."""
    hub.piece, hub.pause_s = 1, 0.2
    hub.cuts = 100000 * [1] if cut else []
    said = refused("hf:owner/name:Q4_K_M")
    assert "slower than 1024 bytes per second" in said and len(parts(cache)) == 1, said


def test_server_without_ranges(hub):
    hub.knows_ranges, hub.cuts = False, [100000, 200000]
    assert pathlib.Path(pull("hf:owner/name:Q4_K_M")[0]).read_bytes() == NOISE


def test_wrong_hash(hub, cache):
    """Refused and removed, in git's large file storage and beside it; and the next pull is right."""
    hub.wrong["x-Q8_0.gguf"] = DEMO[:-1] + b"!"
    said = refused("hf:owner/name:Q8_0")
    assert "x-Q8_0.gguf: the downloaded file has the hash" in said and hashlib.sha256(DEMO).hexdigest() in said
    assert parts(cache) == [] and list(cache.glob("models--*/blobs/*")) == []
    assert not (cache / "models--owner--name/refs/main").exists()
    hub.wrong.clear()
    assert pathlib.Path(pull("hf:owner/name:Q8_0")[0]).read_bytes() == DEMO
    hub.repos["owner/small"] = Repo({"x.gguf": b"small"})
    hub.wrong["x.gguf"] = b"Small"
    assert git_sha1(b"small") in refused("hf:owner/small")


def test_too_many_bytes(hub, cache):
    hub.wrong["x-Q8_0.gguf"] = DEMO + b"more"
    assert "sends more than the" in refused("hf:owner/name:Q8_0")
    assert list(cache.glob("models--*/snapshots/*/*")) == []


def test_damaged_part(hub, cache):
    """What lies in a part of another file is found by the hash, and the next pull begins again."""
    (path,) = pull("hf:owner/name:Q8_0")
    blob = pathlib.Path(os.path.realpath(path))
    os.unlink(path)
    blob.rename(f"{blob}.incomplete")
    with open(f"{blob}.incomplete", "r+b") as f:
        f.truncate(1000)
        f.write(b"damage")
    assert "the downloaded file has the hash" in refused("hf:owner/name:Q8_0") and parts(cache) == []
    assert pathlib.Path(pull("hf:owner/name:Q8_0")[0]).read_bytes() == DEMO


def test_longer_part(hub, cache):
    blobs = cache / "models--owner--name/blobs"
    blobs.mkdir(parents=True)
    (blobs / f"{hashlib.sha256(DEMO).hexdigest()}.incomplete").write_bytes(DEMO + b"more")
    assert pathlib.Path(pull("hf:owner/name:Q8_0")[0]).read_bytes() == DEMO


# ---- processes ----


def at_half(hub, *args, **kw):
    """A pull that has half of the file, and waits for the rest."""
    hub.stop_at = len(NOISE) // 2
    p = start(*args, **kw)
    wait_for(lambda: not hub.gate.is_set())
    return p


def test_two_processes_share(hub):
    """The second waits for the first, and the server sends the file once."""
    first = at_half(hub, "hf:owner/name:Q4_K_M")
    second = start("hf:owner/name:Q4_K_M")
    wait_for(lambda: len([a for a in hub.asked if a[0] == "HEAD"]) == 2)
    time.sleep(0.3)
    hub.stop_at = 1 << 60
    hub.gate.set()
    assert first.communicate(timeout=60)[0] == second.communicate(timeout=60)[0] != ""
    assert first.returncode == second.returncode == 0 and hub.sent == len(NOISE)


def test_two_at_once(hub):
    runs = [start("hf:owner/name:Q4_K_M") for _ in range(4)]
    assert len({r.communicate(timeout=60)[0] for r in runs}) == 1 and hub.sent == len(NOISE)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_resume_after_signal(hub, cache, number):
    p = at_half(hub, "hf:owner/name:Q4_K_M")
    wait_for(lambda: parts(cache) and parts(cache)[0].stat().st_size > 0)
    p.send_signal(number)
    err = p.communicate(timeout=30)[1]
    assert p.returncode == (-9 if number == signal.SIGKILL else 1)
    assert number == signal.SIGKILL or re.search(r"interrupted after \d+ of 3145728 bytes; the next pull continues", err)
    (part,) = parts(cache)
    had = part.stat().st_size
    assert 0 < had < len(NOISE) and NOISE.startswith(part.read_bytes())
    hub.stop_at = 1 << 60
    hub.gate.set()
    assert pathlib.Path(pull("hf:owner/name:Q4_K_M")[0]).read_bytes() == NOISE
    assert hub.bodies()[-1][3] == f"bytes={had}-" and parts(cache) == []


def test_second_takes_over(hub, cache):
    """The first is killed while the second waits: it goes on from the part."""
    first = at_half(hub, "hf:owner/name:Q4_K_M")
    wait_for(lambda: parts(cache) and parts(cache)[0].stat().st_size > 0)
    second = start("hf:owner/name:Q4_K_M")
    wait_for(lambda: len([a for a in hub.asked if a[0] == "HEAD"]) == 2)
    first.kill()
    first.communicate()
    hub.stop_at = 1 << 60
    hub.gate.set()
    assert pathlib.Path(second.communicate(timeout=60)[0].strip()).read_bytes() == NOISE
    assert hub.bodies()[-1][3].startswith("bytes=")


def test_lines_and_bar(hub, cache):
    """Lines of the log where there is no terminal, a bar where there is one."""
    run = subprocess.run([BIN, "pull", "hf:owner/name:Q8_0"], capture_output=True, text=True, check=True, timeout=60)
    assert re.search(r'I hub event=fetch file="x-Q8_0.gguf" done_bytes=0 bytes=\d+', run.stderr)
    assert re.search(r'I hub event=fetched file="x-Q8_0.gguf"', run.stderr) and "\r" not in run.stderr
    shutil.rmtree(cache)
    ours, theirs = os.openpty()
    subprocess.run([BIN, "pull", "hf:owner/name:Q8_0"], stdout=subprocess.DEVNULL, stderr=theirs, check=True, timeout=60)
    shown = os.read(ours, 1 << 16).decode()
    os.close(ours)
    os.close(theirs)
    assert "\rx-Q8_0.gguf [########################] 3.8/3.8 MB" in shown and "event=" not in shown


# ---- offline, tokens, refusals ----


def test_offline(hub, monkeypatch):
    assert "it is not in the cache" in refused("--offline", "hf:owner/name:Q8_0")
    path = pull("hf:owner/name:Q8_0")
    n = len(hub.asked)
    assert pull("--offline", "hf:owner/name:Q8_0") == path
    run = subprocess.run([BIN, "pull", "--offline", "hf:owner/name"], capture_output=True, text=True, check=True, timeout=60)
    assert run.stdout.splitlines() == path  # not the Hub's Q4_K_M, which is not there, and that is said
    assert 'W hub event=chosen-of-the-cache file="x-Q8_0.gguf"' in run.stderr
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert pull("hf:owner/name:q8_0") == path and len(hub.asked) == n
    assert "has no GGUF file 'Q4_K_M'" in refused("hf:owner/name:Q4_K_M")
    os.unlink(os.path.realpath(path[0]))  # a link without its blob is nothing
    assert "it is not in the cache" in refused("hf:owner/name:Q8_0")


def test_unreachable(hub, monkeypatch):
    """Nobody listens there: what was fetched will do, with a warning; without it, an error that says so."""
    path = pull("hf:owner/name:Q8_0")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    run = subprocess.run([BIN, "pull", "hf:owner/name:Q8_0"], capture_output=True, text=True, check=True, timeout=60)
    assert run.stdout.splitlines() == path and "W hub event=unreachable" in run.stderr
    assert "http://127.0.0.1:9" in refused("hf:owner/other")


def test_token_goes_to_the_hub_only(hub, monkeypatch, tmp_path):
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    pull("hf:owner/name:Q8_0")
    tokens = {host: {a[3] for a in hub.asked if a[1] == host} for host in ("127.0.0.1", "localhost")}
    assert tokens == {"127.0.0.1": {"Bearer hf_secret"}, "localhost": {None}}
    monkeypatch.delenv("HF_TOKEN")
    (tmp_path / "home/token").write_text("hf_of_the_file\n")
    hub.asked.clear()
    pull("hf:owner/name:Q8_0")
    assert {a[3] for a in hub.asked} == {"Bearer hf_of_the_file"}


def test_gated_files(hub, monkeypatch):
    """As the Hub does it: everybody may see the listing."""
    hub.repos["owner/name"].gated, hub.gates_api = "hf_good", False
    said = refused("hf:owner/name:Q8_0")
    assert "owner/name is gated" in said and "accept its terms" in said and hub.asked[-1][0] == "HEAD"
    monkeypatch.setenv("HF_TOKEN", "hf_good")
    assert pathlib.Path(pull("hf:owner/name:Q8_0")[0]).read_bytes() == DEMO


def test_gated(hub, monkeypatch):
    hub.repos["owner/name"].gated = "hf_good"
    said = refused("hf:owner/name:Q8_0")
    assert "owner/name is gated" in said and f"accept its terms at {hub.url}/owner/name, and set HF_TOKEN" in said
    assert len(hub.asked) == 1  # not asked again
    monkeypatch.setenv("HF_TOKEN", "hf_bad")
    assert "(403)" in (said := refused("hf:owner/name:Q8_0")) and "use a token of that account" in said
    assert "hf_bad" not in said
    monkeypatch.setenv("HF_TOKEN", "hf_good")
    assert pathlib.Path(pull("hf:owner/name:Q8_0")[0]).read_bytes() == DEMO


def test_unknown_repository(hub):
    said = refused("hf:owner/nothing")
    assert "the Hub refuses access to owner/nothing (401)" in said and "set HF_TOKEN" in said


def test_retry_after(hub):
    """429 waits for as long as the Hub says; failures of the server are tried again."""
    hub.failures = [(429, {"Retry-After": "1"}), (503, {}), (429, {"RateLimit": '"api";r=0;t=1'})]
    begin = time.monotonic()
    pull("hf:owner/name:Q8_0")
    assert time.monotonic() - begin >= 3.0


def test_long_wait_is_refused(hub):
    hub.failures = [(429, {"Retry-After": "4000"})]
    begin = time.monotonic()
    assert "try again in 4000 seconds" in refused("hf:owner/name:Q8_0") and time.monotonic() - begin < 10


def test_endpoint(hub, monkeypatch):
    for bad in ("ftp://x", "127.0.0.1:1", "https://", "http://user@host"):
        monkeypatch.setenv("HF_ENDPOINT", bad)
        assert "HF_ENDPOINT must be https://HOST or http://HOST" in refused("hf:owner/name")
    monkeypatch.setenv("HF_ENDPOINT", hub.url.replace("http:", "https:"))  # no TLS there: never without
    refused("hf:owner/name")
    assert hub.asked == []


def test_tls(hub, tmp_path, monkeypatch):
    """An unknown certificate is refused, one for another host too, and a redirect to plain HTTP is not followed."""
    secure = Hub(tls=make_certificate(tmp_path, "hub"), owner__name=Repo({"x.gguf": b"small", "x-Q8_0.gguf": DEMO}))
    try:
        monkeypatch.setenv("HF_ENDPOINT", secure.url)
        monkeypatch.setenv("HF_TOKEN", "hf_secret")
        assert "certificate" in refused("hf:owner/name:x.gguf") and secure.asked == []
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "hub.pem"))
        assert pathlib.Path(pull("hf:owner/name:x.gguf")[0]).read_bytes() == b"small"
        assert {a[3] for a in secure.asked} == {"Bearer hf_secret"}
        said = refused("hf:owner/name:x-Q8_0.gguf")
        assert 'Protocol "http" not supported' in said or "disabled" in said, said
        n = len(secure.asked)
        monkeypatch.setenv("HF_ENDPOINT", secure.url.replace("127.0.0.1", "localhost"))
        refused("hf:owner/name:x.gguf", env={**os.environ, "HF_HOME": str(tmp_path / "other")})
        assert len(secure.asked) == n
    finally:
        secure.close()


def test_proxy(hub, monkeypatch):
    """By the usual variables: the proxy is asked, and nobody looks the endpoint's name up."""
    monkeypatch.setenv("http_proxy", hub.url)
    monkeypatch.setenv("HF_ENDPOINT", "http://hub.invalid")
    assert pathlib.Path(pull("hf:owner/name:Q8_0")[0]).read_bytes() == DEMO
    assert hub.asked[0][2].startswith("http://hub.invalid/api/models/owner/name/")
    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "127.0.0.1,localhost")
    n = len(hub.asked)
    assert pull("hf:owner/name:Q8_0") and len(hub.asked) > n


def test_no_hub(hub, monkeypatch):
    """Something else answers: the sentence says what is missing."""
    hub.listing = []
    assert "neither a GGUF file" in refused("hf:owner/name")
    hub.repos["owner/name"].commit = hub.repos["owner/name"].revisions["main"] = "main"
    assert "does not say which commit 'main' is" in refused("hf:owner/name")


# ---- hostile listings, full disks ----


def entry(path, size=5, oid=40 * "1"):
    return {"type": "file", "oid": oid, "size": size, "path": path}


@pytest.mark.parametrize("path", ["../x.gguf", "a/../../x.gguf", "/etc/x.gguf", "a//x.gguf", "./x.gguf", "a/./x.gguf", "x\n.gguf",
                                  "x\u0000.gguf", "x\x1b[2J.gguf", "a\\x.gguf", "", "a/", 17 * "a/" + "x.gguf",
                                  205 * "a/" + "x.gguf", 300 * "a" + ".gguf", 90 * "abcdef/" + "x.gguf", 5])
def test_hostile_paths(hub, cache, path):
    hub.listing = [entry("a-ok.gguf"), entry(path)]
    said = refused("hf:owner/name")
    assert "the listing of the repository" in said or "body" in said, said
    assert not cache.exists() and "\x1b" not in said


@pytest.mark.parametrize("bad", [{"size": -1}, {"size": 1.5}, {"size": "5"}, {"size": 1e30}, {"oid": "../../x"}, {"oid": ""}, {"oid": 64 * "G"}])
def test_hostile_entries(hub, cache, bad):
    hub.listing = [{**entry("x.gguf"), **bad}]
    assert "has no size or no hash for 'x.gguf'" in refused("hf:owner/name")
    assert not cache.exists()


def test_too_many_files(hub):
    hub.page = 10000
    hub.listing = [entry(f"{i}.txt") for i in range(50001)]
    assert "more than 50000 files" in refused("hf:owner/name")


def test_listing_that_does_not_hold(hub):
    """The listing has another hash than the file's own head."""
    hub.listing = [entry("x-Q8_0.gguf", len(DEMO), 40 * "1")]
    assert "differs from the hash in its listing" in refused("hf:owner/name")


def test_no_room(hub, cache):
    hub.listing = [entry("x.gguf", 1 << 43)]
    said = refused("hf:owner/name")
    assert "the disk has" in said and "8388609 MiB" in said and "HF_HUB_CACHE" in said and not cache.exists()


def test_full_disk(hub, cache):
    """The limit of a file's size stands for a disk that fills up: the error is named, the part stays."""
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
    said = refused("hf:owner/name:Q4_K_M", preexec_fn=limit)
    assert ".incomplete: cannot write: File too large" in said
    assert [p.stat().st_size for p in parts(cache)] == [1 << 20]
    assert pathlib.Path(pull("hf:owner/name:Q4_K_M")[0]).read_bytes() == NOISE
    assert hub.bodies()[-1][3] == f"bytes={1 << 20}-"


def test_no_permission(hub, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "file/hub"))
    assert f"{tmp_path}/file/hub" in (said := refused("hf:owner/name:Q8_0")) and "Not a directory" in said


def test_link_in_the_place_of_a_part(hub, cache, tmp_path):
    blobs = cache / "models--owner--name/blobs"
    blobs.mkdir(parents=True)
    (tmp_path / "victim").write_text("kept")
    (blobs / f"{hashlib.sha256(DEMO).hexdigest()}.incomplete").symlink_to(tmp_path / "victim")
    refused("hf:owner/name:Q8_0")
    assert (tmp_path / "victim").read_text() == "kept"


# ---- served ----


def test_serve(hub):
    """By its name in the Hub, in the sandbox, which lets it read the blob behind the link."""
    s = Server("--sandbox", "auto", model="hf:owner/name:Q8_0")
    try:
        assert s.get("/v1/models").json["data"][0]["id"] == "name"
        assert s.post("/v1/completions", {"prompt": "Once upon a time", "max_tokens": 8, "temperature": 0}).json["choices"][0]["text"]
    finally:
        assert s.stop() == 0


def folder_of_bytes(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in pathlib.Path(folder).rglob("*") if p.is_file()}


def test_serve_a_folder(hub, tmp_path):
    """Fetched, and then served in the sandbox: the links lead out of the folder."""
    folder = write_folder(tmp_path / "m", *parts_of("qwen2"))
    hub.repos["owner/folder"] = Repo({**folder_of_bytes(folder), "pytorch_model.bin": b"pickle"})
    s = Server("--sandbox", "auto", model="hf:owner/folder")
    plain = Server(model=folder)
    try:
        bodies = [x.post("/v1/completions", {"prompt": "ab", "max_tokens": 6, "temperature": 0, "ignore_eos": True}).json for x in (s, plain)]
        assert bodies[0]["choices"] == bodies[1]["choices"] and bodies[0]["usage"]["completion_tokens"] == 6
    finally:
        assert s.stop() == 0 and plain.stop() == 0


def test_serve_an_encoder(hub, tmp_path):
    """With 1_Pooling/config.json, which lies one folder deeper."""
    folder = hf_folder.write_bert(tmp_path / "m", *bert_parts())
    hub.repos["owner/bert"] = Repo(folder_of_bytes(folder))
    assert "1_Pooling/config.json" in hub.repos["owner/bert"].files
    s = Server("--sandbox", "auto", model="hf:owner/bert")
    try:
        assert len(s.post("/v1/embeddings", {"input": "a"}).json["data"][0]["embedding"]) > 1
    finally:
        assert s.stop() == 0


def test_serve_adapters(hub, tmp_path):
    """A folder of PEFT's, without what else there is, and a GGUF file: fetched, read in the sandbox, and read again."""
    demo = gguf_file.read(DEMO)
    head = demo.key("embedding_length") // demo.key("attention.head_count")
    made = [adapter_files.make(demo, 32, "F16", seed=i) for i in range(2)]
    folder = adapter_files.peft(tmp_path / "peft", made[0], 64, "F16", head=head)
    hub.repos["owner/peft"] = Repo({**folder_of_bytes(folder), "tokenizer.json": b"{}", "README.md": b"x"})
    hub.repos["owner/lora"] = Repo({"lora-F16.gguf": adapter_files.gguf("llama", made[1], 64, "F16")})
    (path,) = pull("hf:owner/peft")
    assert sorted(p.name for p in pathlib.Path(path).iterdir()) == ["adapter_config.json", "adapter_model.safetensors"]
    (tmp_path / "1.gguf").write_bytes(hub.repos["owner/lora"].files["lora-F16.gguf"])
    room = "2m"  # for one of them
    s = Server("--sandbox", "auto", "--adapters", "a=hf:owner/peft, b=hf:owner/lora", "--adapter-memory", room)
    plain = Server("--adapters", f"a={folder},b={tmp_path}/1.gguf")
    try:
        sizes = [a["bytes"] for a in plain.get("/lora-adapters").json]
        assert max(sizes) < 2 << 20 < sum(sizes)
        for name in "aba":
            texts = [x.post("/v1/completions", {"prompt": "Once", "max_tokens": 8, "temperature": 0, "model": name}).text for x in (s, plain)]
            assert texts[0] == texts[1]
        assert s.metrics()["quire_adapter_evictions_total"] >= 3
    finally:
        assert s.stop() == 0 and plain.stop() == 0
    done = serve_in_vain("--adapters", "a=hf:owner/none")
    assert done.returncode == 1 and "hf:owner/none" in done.stderr, done.stderr
    s = Server("--adapters-dir", str(tmp_path))
    try:
        r = s.post("/v1/load_lora_adapter", {"lora_name": "x", "lora_path": "hf:owner/peft"})
    finally:
        assert s.stop() == 0
    assert r.status == 400 and "setting adapters" in r.json["error"]["message"]


def reload_settings(s, config, text):
    """The line of the log that says how it ended."""
    n = s.read_log().count("what=settings")
    config.write_text(text)
    s.process.send_signal(signal.SIGHUP)
    wait_for(lambda: s.read_log().count("what=settings") > n)
    return [line for line in s.read_log().splitlines() if "what=settings" in line][-1]


def test_settings_are_read_again(hub, tmp_path):
    """In the sandbox, which connects to nothing: what is of the Hub is looked up in its cache."""
    demo = gguf_file.read(DEMO)
    hub.repos["owner/draft"] = Repo({"draft-Q8_0.gguf": DEMO})
    hub.repos["owner/lora"] = Repo({"lora-F16.gguf": adapter_files.gguf("llama", adapter_files.make(demo, 8, "F16", seed=1), 16, "F16")})
    hub.repos["owner/later"] = Repo({"later-Q8_0.gguf": DEMO})
    first = "model = hf:owner/name:Q8_0\nkv_memory = 16m\n[name]\ndraft = hf:owner/draft\nadapters = a=hf:owner/lora\n"
    config = tmp_path / "quire.conf"
    config.write_text(first)
    s = Server("--sandbox", "auto", "--config", str(config), model="")
    try:
        asked = len(hub.asked)
        assert "event=reloaded" in reload_settings(s, config, first)
        assert "event=reloaded" in reload_settings(s, config, first + "alias = other\n")
        for change in (("owner/draft", "owner/later"), ("owner/lora", "owner/later"), ("model = ", "model = hf:owner/later:Q8_0,")):
            said = reload_settings(s, config, first.replace(*change))
            assert "event=reload_failed" in said and "hf:owner/later" in said and "not in the cache" in said, said
        assert len(hub.asked) == asked, "the Hub was asked again"
        pull("hf:owner/later:Q8_0")
        assert "event=reloaded" in reload_settings(s, config, first.replace("model = ", "model = hf:owner/later:Q8_0,"))
        wait_for(lambda: "later" in {m["id"] for m in s.get("/v1/models").json["data"]})
        assert "needs_restart" not in s.read_log() and "event=refused" not in s.read_log()
    finally:
        assert s.stop() == 0


def test_readme(hub, tmp_path):
    """The transcript of core/model/README.md, but for times and the home."""
    shown = re.search(r"\$ build/quire pull (\S+)\n(.*?)```", (ROOT / "core/model/README.md").read_text(), re.S)
    hub.repos["owner/name"] = Repo({"name-Q8_0.gguf": DEMO})
    run = subprocess.run([BIN, "pull", shown[1]], capture_output=True, text=True, check=True, timeout=60)

    def plain(text):
        return re.sub(r"\S+Z I|ms=\d+", "", text).replace("/home/me/.cache/huggingface", f"{tmp_path}/home")
    assert plain(run.stderr + run.stdout) == plain(shown[2])


def test_other_commands(hub, tmp_path):
    run = subprocess.run([BIN, "inspect", "hf:owner/name:Q8_0"], capture_output=True, text=True, check=True, timeout=60)
    assert "Quire demo stories" in run.stdout
    args = ["generate", "--model", "me=hf:owner/name:Q8_0", "--prompt", "Once", "--max-tokens", "4"]
    run = subprocess.run([BIN, *args], capture_output=True, text=True, check=True, timeout=60)
    assert run.stdout.startswith(" upon a time") and 'model="me"' in run.stderr
    run = subprocess.run([BIN, "tokenize", "--ids", "--model", "hf:owner/name:Q8_0"], input="Once", capture_output=True, text=True,
                         check=True, timeout=60)
    assert run.stdout.strip()
    run = subprocess.run([BIN, "plan", "--model", "hf:owner/none"], capture_output=True, text=True, check=False, timeout=60)
    assert run.returncode == 1 and "hf:owner/none" in run.stderr
    (tmp_path / "q.conf").write_text("[chat]\nmodel = hf:owner/name:Q8_0\nkv_memory = 32m\n")
    run = subprocess.run([BIN, "plan", "--config", tmp_path / "q.conf"], capture_output=True, text=True, check=True, timeout=60)
    assert run.stdout.startswith("chat (llama") and re.search(r"KV cache +(3[01]|32)\.\d MiB", run.stdout), run.stdout
    n = len(hub.asked)
    subprocess.run([BIN, "serve", "--model", "hf:owner/name", "--print-config"], check=True, stdout=subprocess.DEVNULL)
    assert len(hub.asked) == n  # a question about settings fetches nothing


def test_help():
    text = subprocess.run([BIN, "pull", "--help"], capture_output=True, text=True, check=True, timeout=60).stdout
    assert "hf:OWNER/NAME[@REVISION][:QUANT|FILE]" in text and "HF_TOKEN" in text
    run = subprocess.run([BIN, "pull"], capture_output=True, text=True, check=False, timeout=60)
    assert run.returncode == 2 and "usage: quire pull" in run.stderr
