"""A Unix socket beside TCP, or instead."""
import json
import os
import re
import socket
import stat
import subprocess

from quire import UnixConnection, serve_in_vain


def fds(server):
    """What the descriptors of the server are; those that are closed meanwhile are left out."""
    for fd in os.listdir(f"/proc/{server.pid}/fd"):
        try:
            yield os.readlink(f"/proc/{server.pid}/fd/{fd}")
        except FileNotFoundError:
            pass


def get(path, route="/health"):
    c = UnixConnection(str(path), 20)
    c.request("GET", route)
    r = c.getresponse()
    return r.status, r.read()


def test_beside_tcp(start, tmp_path):
    path = tmp_path / "quire.sock"
    s = start("--unix-socket", str(path))
    assert s.process.stdout.readline() == f"listening on unix:{path} (model quire-demo)\n"
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert get(path) == (200, b'{"status":"ok"}') and s.get("/health").status == 200
    body = {"prompt": "Once upon", "max_tokens": 20, "temperature": 0}
    run = subprocess.run(["curl", "-sS", "--unix-socket", str(path), "http://localhost/v1/completions", "-d",
                          json.dumps(body), "-H", "Content-Type: application/json"], capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(run.stdout)["choices"][0]["text"] == s.complete(**body).text
    # Both count, and a client that goes is noticed here too.
    stream = UnixConnection(str(path), 20)
    stream.request("POST", "/v1/completions", json.dumps({"prompt": "Once", "stream": True, "max_tokens": 100000,
                                                          "ignore_eos": True}))
    reply = stream.getresponse()
    assert reply.readline().startswith(b"data: {")
    s.wait_until(lambda m: m["quire_requests_running"] == 1 and m["quire_connections"] == 2, what="a stream")
    reply.close()
    stream.close()
    s.wait_idle()
    assert s.stop() == 0
    assert not path.exists(), "removed at the end"


def test_instead_of_tcp(start, tmp_path):
    path = tmp_path / "only.sock"
    s = start("--host", "", "--unix-socket", str(path), "--unix-socket-mode", "660")
    assert s.unix == str(path) and s.port == 0
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o660
    assert s.complete("Once", max_tokens=3, ignore_eos=True).json["usage"]["completion_tokens"] == 3
    inodes = {m[1] for m in map(re.compile(r"socket:\[(\d+)\]").match, fds(s)) if m}
    listening = [line.split()[9] for name in ("tcp", "tcp6") for line in open(f"/proc/{s.pid}/net/{name}")
                 if line.split()[3] == "0A"]
    assert not inodes & set(listening)


def test_socket_left_behind_is_replaced(start, tmp_path):
    path = tmp_path / "quire.sock"
    old = socket.socket(socket.AF_UNIX)
    old.bind(str(path))
    old.close()
    start("--unix-socket", str(path))
    assert get(path)[0] == 200


def test_what_is_in_the_way_is_left_alone(start, tmp_path):
    def refused(path, *words):
        run = serve_in_vain("--unix-socket", path)
        assert run.returncode == 1 and run.stdout == "" and str(path) in run.stderr
        assert all(word in run.stderr for word in words), run.stderr

    file = tmp_path / "file"
    file.write_text("precious")
    refused(file, "exists")
    assert file.read_text() == "precious"
    path = tmp_path / "quire.sock"
    s = start("--unix-socket", str(path))
    refused(path, "in use")
    assert get(path)[0] == 200
    refused(tmp_path / ("x" * 120), "longer")
    refused(tmp_path / "nowhere" / "s", "No such file")
    path.unlink()
    path.write_text("somebody else's now")
    assert s.stop() == 0
    assert path.read_text() == "somebody else's now"


def test_tls_is_for_tcp_only(start, tmp_path):
    from test_tls import make_certificate, trusting
    cert, key = make_certificate(tmp_path, "beside")
    path = tmp_path / "quire.sock"
    s = start("--unix-socket", str(path), "--tls-certificate", str(cert), "--tls-key", str(key), tls=trusting(cert))
    assert get(path)[0] == 200 and s.get("/health").status == 200
