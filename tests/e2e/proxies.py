"""What stands before replicas: the configurations of docker/ in a real HAProxy (or what a subclass starts) and nginx;
streams that are read through them."""
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import threading
import time

from quire import JSON, Server

DOCKER = pathlib.Path(__file__).parent.parent.parent / "docker"
LUA = pathlib.Path("/usr/lib/nginx/modules/ngx_http_lua_module.so")
NAMES = re.compile(rb'"id":"[^"]*"|"created":\d+|"cached_tokens":\d+(?:,"cache_write_tokens":\d+)?')
MESSAGES = [{"role": "user", "content": "Tell me of the sea."}]


def free_port():
    """One that nobody has, and that no connection gets before it is bound: those are of the system's own range."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as f:
        first, last = map(int, f.read().split())
    while True:
        port = random.choice([p for p in range(10000, 65000) if not first <= p <= last])
        try:
            with socket.create_server(("127.0.0.1", port)):
                return port
        except OSError:
            continue


def start_nginx(addresses, port, tmp_path, log):
    """nginx with the shim, on that port; it asks whoever listens at one of the addresses."""
    conf = (DOCKER / "nginx/nginx.conf").read_text().replace("127.0.0.1:8010", f"127.0.0.1:{port}")
    (tmp_path / "nginx.conf").write_text(conf)
    shutil.copy(DOCKER / "nginx/resume.lua", tmp_path)
    root = ["-g", "user root;"] if os.geteuid() == 0 else []  # whoever else could not read the test's folder
    return subprocess.Popen(["nginx", "-p", f"{tmp_path}/", "-c", "nginx.conf", *root], stdout=log, stderr=log,
                            env={**os.environ, "QUIRE_REPLICAS": ",".join(addresses)})


class Proxy(Server):
    """HAProxy and nginx with the configurations that are in docker/; a client of it is one of a server."""

    def __init__(self, replicas, tmp_path, key=None):
        self.port, self.host, self.unix, self.tls, self.key = free_port(), "127.0.0.1", None, None, key
        self.log = open(tmp_path / "proxies.log", "wb")
        self.nginx, lua_port = None, free_port()
        addresses = [f"127.0.0.1:{r.port}" for r in replicas]
        self.nginx = start_nginx(addresses, lua_port, tmp_path, self.log)
        self.process = self.balancer(replicas, lua_port, tmp_path)
        self.wait(lambda: self.get("/ready").status == 200)
        self.wait(lambda: socket.create_connection(("127.0.0.1", lua_port)).close() is None)

    def balancer(self, replicas, lua_port, tmp_path):
        return subprocess.Popen(
            ["haproxy", "-db", "-f", str(DOCKER / "haproxy/haproxy.cfg")], stdout=self.log, stderr=self.log,
            env={**os.environ, **{f"QUIRE_{i + 1}": f"127.0.0.1:{r.port}" for i, r in enumerate(replicas)},
                 "LISTEN": f"127.0.0.1:{self.port}", "QUIRE_RESUME": f"127.0.0.1:{lua_port}"})

    def wait(self, question, timeout=30):
        begin = time.monotonic()
        while True:
            try:
                if question():
                    return
            except OSError:
                pass
            assert time.monotonic() - begin < timeout and self.process.poll() is None, self.read_log()
            time.sleep(0.05)

    def read_log(self):
        return pathlib.Path(self.log.name).read_text()

    def stop(self, sig=signal.SIGTERM, timeout=30):
        for p in (self.process, self.nginx):
            p.send_signal(sig)
            p.wait(timeout)
        self.log.close()


def body_of(i, n_tokens=500):
    """Of every kind; each its own."""
    path = "/v1/chat/completions" if i % 3 == 2 else "/v1/completions"
    start = {"messages": MESSAGES} if i % 3 == 2 else {"prompt": ["Once", "There was"][i % 2]}
    more = [{}, {"logprobs": 2}, {"logprobs": True, "top_logprobs": 1}][i % 3]
    return path, {"max_tokens": n_tokens, "ignore_eos": True, "stream": True, "temperature": 0.8, "seed": i % 8,
                  "frequency_penalty": 0.3, "stream_options": {"include_usage": True}, **start, **more}


def plain(raw):
    return NAMES.sub(b"", raw)


def shim_frames(server, path, body):
    """What a client of the shim gets when nothing happens: the frames that it asks of a replica, without what it keeps."""
    raw = server.post(path, body, headers={"X-Resume-Tokens": "true"}).body
    return re.sub(rb"(?m)^(id: |: ).*\n", b"", raw)


class Reader(threading.Thread):
    """A stream that is read to its end; and how far it is."""

    def __init__(self, proxy, path, body):
        super().__init__()
        self.proxy, self.path, self.body, self.raw, self.status = proxy, path, body, b"", None
        self.start()

    def run(self):
        c = self.proxy.connect()
        try:
            c.request("POST", self.path, json.dumps(self.body), self.proxy.with_key(JSON))
            r = c.getresponse()
            self.status = r.status
            while part := r.read1(65536):
                self.raw += part
        except OSError as e:
            self.raw += repr(e).encode()
        finally:
            c.close()

    def check(self, want):
        self.join(120)
        assert self.status == 200
        assert plain(self.raw) == plain(want), (self.path, self.raw[-400:])


def wait_for(question, timeout=60):
    begin = time.monotonic()
    while not question():
        assert time.monotonic() - begin < timeout
        time.sleep(0.005)
