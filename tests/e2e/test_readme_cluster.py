"""docker/README.md, from the chapter "KV events" on: each of its commands runs here, with other files, ports and numbers of
requests, or another test runs it, whose name stands here."""
import json
import os
import re
import shutil
import subprocess
import time

import pytest

import pages
from proxies import free_port
from quire import Server, in_threads, make_model
from test_cli import quire
from test_cluster import cluster_sim

ROOT = pages.ROOT
PAGE = pages.read("docker/README.md")
CHAPTERS = PAGE[PAGE.index("\n## KV events"):]
N_RECORDED = 40  # requests of a journal
ROUTERS = ("tests/routers/test_vllm_router.py", "test_the_commands_of_the_readme")

# How a command begins: who runs it.
BY_OTHERS = {
    "quire --port 8081": ROUTERS, "quire --port 8082": ROUTERS, "vllm-router": ROUTERS,
    "curl -s localhost:8080/v1/completions": ("tests/e2e/test_readme.py", "test_transcripts"),
    "QUIRE_REPLICAS=": ("tests/e2e/test_haproxy.py", "test_kill_9"),
    "QUIRE_1=": ("tests/e2e/test_haproxy.py", "test_kill_9"),
    "kubectl apply": ("tests/deploy/test_deploy.py", "test_manifest_is_valid"),
    "helm install": ("tests/deploy/test_deploy.py", "test_chart_renders_valid_manifests"),
}


def commands():
    """Without prompts, the sign for the background, and what a column says of them."""
    found = []
    for block in pages.blocks(CHAPTERS):
        block = block.replace("\\\n", " ")
        parts = re.split(r"^\$ ", block, flags=re.M)[1:] if block.startswith("$ ") else block.strip().split("\n")
        found += [re.split(r" {3,}[#a-z]", part.strip())[0].removesuffix("&").strip() for part in parts]
    return found


def here(start):
    """The commands that begin so."""
    return [c for c in commands() if c.startswith(start) and not any(c.startswith(other) for other in BY_OTHERS)]


def test_each_command_has_its_test():
    mine = [c for start in ("quire serve", "curl -sN", "curl -s -X", "build/tools/cluster_sim") for c in here(start)]
    others = [c for c in commands() for start in BY_OTHERS if c.startswith(start)]
    assert sorted(mine + others) == sorted(commands()) and len(commands()) == 19
    for start, (path, name) in BY_OTHERS.items():
        assert any(c.startswith(start) for c in others), start
        assert f"def {name}(" in (ROOT / path).read_text(encoding="utf-8"), path
    for path in re.findall(r"docker/[\w./-]+", " ".join(others)):
        assert (ROOT / path).exists(), path


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return make_model(tmp_path_factory.mktemp("readme") / "m.gguf", "--layers", "1", "--context", "1024")


def words_of(command, **instead):
    """Behind `quire serve`, with some of them replaced."""
    assert command.startswith("quire serve ")
    return [instead.get(w.replace(".", "_").replace("/", "_"), w) for w in command.split()[2:]]


@pytest.fixture
def redis(tmp_path):
    tool = shutil.which("valkey-server") or shutil.which("redis-server")
    if tool is None:
        pytest.skip("skip: no valkey-server and no redis-server")
    port = free_port()
    process = subprocess.Popen([tool, "--port", str(port), "--save", "", "--dir", str(tmp_path)], stdout=subprocess.DEVNULL)
    yield f"redis://127.0.0.1:{port}/0"
    process.terminate()
    process.wait(20)


def goes_on_with(start, model, command, place):
    """A server that is started so finds what the one before it has computed; it reads that where that is faster."""
    flags = words_of(command, m_gguf=str(model))
    flags[-1] = place
    body = {"prompt": [7 + i % 50 for i in range(600)], "max_tokens": 1}
    first = start(*flags, model="")
    assert first.post("/v1/completions", body).status == 200
    first.wait_until(lambda m: m['quire_kv_store_bytes_total{direction="out"}'] > 0)
    assert first.stop() == 0
    second = start(*flags, "--kv-store-wait-ms", "20000", model="")
    assert second.post("/v1/completions", body).status == 200
    assert second.metrics()['quire_kv_store_blocks_total{result="hit"}'] > 0


def test_block_store(start, model, redis, tmp_path):
    folder, server = here("quire serve --model m.gguf --kv-store")
    assert "dir:" in folder and "redis:" in server
    goes_on_with(start, model, folder, f"dir:{tmp_path / 'store'}")
    goes_on_with(start, model, server, redis)


def shell(command, **variables):
    return subprocess.run(command, shell=True, executable="/bin/bash", capture_output=True, text=True, timeout=60,
                          env={**os.environ, **variables})


@pytest.mark.skipif(shutil.which("curl") is None, reason="skip: no curl")
def test_streams(start):
    s = start()
    whole = s.post("/v1/completions", {"prompt": "Once", "max_tokens": 60, "ignore_eos": True, "stream": True, "resumable": True})
    [rest, delete] = [c.replace("8080", str(s.port)) for c in (*here("curl -sN"), *here("curl -s -X"))]
    rest = shell(rest, ID=whole.headers["X-Stream-Id"]).stdout
    assert rest.startswith("id: 42\n") and whole.body.decode().endswith(rest)
    assert shell(delete, ID=whole.headers["X-Stream-Id"]).returncode == 0
    assert s.get(f"/v1/streams/{whole.headers['X-Stream-Id']}").status == 404


def test_handover(model, tmp_path):
    old, new = here("quire serve --model file.gguf") + here("quire serve --model newer.gguf")
    names = {"file_gguf": str(model), "newer_gguf": str(model), "_run_quire_handover": str(tmp_path / "handover")}
    old = Server(*words_of(old, **names), model="")
    new = Server(*words_of(new, **names), model="", ready=False)
    try:
        assert new.port == old.port and old.process.wait(60) == 0
        new.wait_ready()
        assert new.complete("Once", max_tokens=2).status == 200
    finally:
        new.stop()


def test_requests_db(model, tmp_path):
    """What one process has begun the next one ends."""
    command, = here("quire serve --model m.gguf --requests-db")
    words = words_of(command, m_gguf=str(model), requests_db=str(tmp_path / "requests.db"))
    old = Server(*words, model="")
    ask = {"prompt": "Once", "max_tokens": 5, "temperature": 0, "stream": True}
    stream = old.post("/v1/completions", ask)
    old.process.kill()
    new = Server(*words, model="")
    try:
        new.wait_until(lambda m: m["quire_requests_restored_total"] == 1, what="restored")
        assert new.get(f"/v1/streams/{stream.headers['X-Stream-Id']}").body == stream.body
    finally:
        new.stop()


def test_replay(start, tmp_path):
    """Of a million requests there are 2,000."""
    names = ["day.journal", "a.journal", "b.journal"]
    for name in names:
        s = start("--journal", tmp_path / name)
        in_threads([lambda i=i: s.complete("Once upon a time " * (1 + i % 20) + str(i), max_tokens=8 + i % 20, ignore_eos=True)
                    for i in range(N_RECORDED)])
        assert s.stop() == 0
    replays = here("build/tools/cluster_sim")
    assert len(replays) == 4
    for command in replays:
        words = [str(tmp_path / w) if w in names else "2000" if w == "1000000" else w for w in command.split()[1:]]
        run = cluster_sim(*words)
        is_slow = "--find-replicas" in words and "not even 1024 replicas" in run.err  # a matter of this machine
        assert run.returncode == (1 if is_slow else 0), (command, run.err)
        assert ("TTFT p95 within 500" in run.out + run.err) == ("--find-replicas" in words) and " replica" in run.out
        asked = json.loads(cluster_sim(*words, "--json").out)
        n_journals = sum(w.endswith(".journal") for w in words)
        assert asked["requests"] == (2000 if "2000" in words else N_RECORDED * n_journals)
