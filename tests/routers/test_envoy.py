"""docker/envoy in a real Envoy, with nginx behind it for what is streamed: a replica is killed in the middle of streams,
and another one stops; no client can tell."""
import os
import pathlib
import re
import signal
import subprocess
import time

import pytest

from proxies import DOCKER, LUA, Proxy, Reader, body_of, plain, shim_frames, wait_for
from quire import Server

pytestmark = pytest.mark.skipif(not LUA.exists(), reason="skip: no nginx with Lua (Debian packages nginx-light, libnginx-mod-http-lua)")

SCALAR = ("--isa", "scalar")


class Envoy(Proxy):
    def balancer(self, replicas, lua_port, tmp_path):
        ports = {8000: self.port, 8010: lua_port, **{8081 + i: r.port for i, r in enumerate(replicas)}}
        text = (DOCKER / "envoy/envoy.yaml").read_text()
        path = pathlib.Path(tmp_path) / "envoy.yaml"
        path.write_text(re.sub(r"(?<=port_value: )\d+", lambda m: str(ports[int(m.group())]), text))
        return subprocess.Popen([os.environ["ENVOY"], "-c", str(path), "--disable-hot-restart", "--concurrency", "1",
                                 "--log-level", "warn"], stdout=self.log, stderr=self.log)


@pytest.fixture
def running(tmp_path):
    """Three replicas and Envoy before them. Those that end in the middle of streams compute without vectors: a stream is
    slower than they are in ending."""
    replicas = [Server("--drain-ms", "100", *slow) for slow in (SCALAR, SCALAR, ())]
    proxy = Envoy(replicas, tmp_path)
    yield replicas, proxy
    proxy.stop()
    for r in replicas:
        r.stop()


def test_no_client_can_tell(running):
    replicas, proxy = running
    for path, body in map(body_of, range(3)):
        whole = {**body, "stream": False, "stream_options": None, "max_tokens": 20}
        assert plain(proxy.post(path, whole).body) == plain(replicas[0].post(path, whole).body)
    assert proxy.post("/tokenize", {"content": "Once"}).json == replicas[0].post("/tokenize", {"content": "Once"}).json
    bodies = [body_of(i, 200) for i in range(9)]
    want = [shim_frames(replicas[2], *b) for b in bodies]
    for victim, how in ((replicas[0], signal.SIGKILL), (replicas[1], signal.SIGTERM)):
        readers = [Reader(proxy, *b) for b in bodies]
        wait_for(lambda readers=readers: all(len(r.raw) > 2000 for r in readers))
        victim.process.send_signal(how)
        victim.process.wait(30)
        assert any(not r.raw.endswith(b"[DONE]\n\n") for r in readers)
        for r, w in zip(readers, want):
            r.check(w)
        for _ in range(20):  # the others' work goes to those that are there, from the first moment on
            assert proxy.post("/tokenize", {"content": "Once"}).status == 200
        again = Server("--port", str(victim.port), "--drain-ms", "100", *SCALAR)
        victim.process, victim.pid, victim.log = again.process, again.pid, again.log
        time.sleep(1.1)  # Envoy looks every half second
