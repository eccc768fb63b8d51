"""Everything at once on a pool for a few sequences: arrivals, disconnects, deadlines, tenants,
priorities, parallel choices, grammars, receipts, streams that are kept, swapping to RAM and to a file, debug pages, until
the time is over.

QUIRE_CHAOS_S sets the seconds: `make chaos` runs two minutes each under the address and the thread
sanitizer. T3, T13, T15; P2: each request is answered in full or refused for a stated reason.
"""
import json
import os
import random
import threading
import time

import pytest

from quire import BIN, JSON, Server
from test_usage import check_sums, usage

SECONDS = float(os.environ.get("QUIRE_CHAOS_S", "8"))
CLIENTS = 24
TEXTS = ["Once upon a time there was a little fox. ", "The old king had three sons. ", "In the garden "]
REFUSALS = {408: {"deadline_exceeded"}, 429: {"deadline_unreachable", "queue_timeout", "rate_limit_exceeded",
                                              "queue_full"}}


@pytest.fixture
def server(tmp_path):
    server = Server("--kv-memory", "1m", "--swap-ram", "512k", "--swap-file", str(tmp_path / "swap"),
                    "--swap-file-size", "4m", "--max-sequences", "16", "--tenant-header", "X-Tenant",
                    "--tenant-weights", "a=3", "--preemption", "swap", "--step-target-ms", "50", "--receipts", "on",
                    "--requests-db", str(tmp_path / "requests.db"), "--stream-keep-ms", "500", binary=BIN)
    yield server
    server.stop()


class Client(threading.Thread):
    def __init__(self, server, number, until, want):
        super().__init__()
        self.server, self.until, self.want = server, until, want
        self.random = random.Random(number)
        self.counts, self.error = {}, None

    def run(self):
        try:
            while time.monotonic() < self.until:
                self.one()
        except BaseException as e:  # noqa: BLE001 - handed to the test
            self.error = e

    def count(self, what):
        self.counts[what] = self.counts.get(what, 0) + 1

    def body(self):
        r = self.random
        body = {"prompt": r.choice(TEXTS) * r.randint(1, 12), "max_tokens": r.randint(1, 120),
                "temperature": r.choice([0, 0.8]), "seed": r.randint(1, 9), "stream": r.random() < 0.6,
                "priority": r.choice(["low", "normal", "high", "critical"])}
        if r.random() < 0.15:
            body["n"] = r.randint(2, 4)
        if r.random() < 0.15:
            body["deadline_ms"] = r.randint(1, 3000)
        if r.random() < 0.15:
            body["max_queue_ms"] = r.randint(1, 500)
        if r.random() < 0.1:
            body["cache_salt"] = "x"
        if r.random() < 0.1:
            body["response_format"] = {"type": "json_object"}
        if r.random() < 0.1:
            body["receipt"] = True
        if body["stream"] and r.random() < 0.2:
            body["resumable"] = True
        return body

    def one(self):
        kind = self.random.random()
        if kind < 0.05:
            path = self.random.choice(["/metrics", "/debug/kv", "/debug/requests", "/debug/iterations"])
            assert self.server.get(path).status == 200
        elif kind < 0.1:
            assert self.server.post("/v1/plan", {"prompt": TEXTS[0], "max_tokens": 5}).status == 200
        elif kind < 0.12:
            self.large_answer()
        elif kind < 0.14:
            names = [f"talk-{i}" for i in range(self.random.choice([1, 1000]))]
            assert self.server.post("/v1/streams/lookup", {"conversation_ids": names}).status == 200
        elif kind < 0.24:
            self.known_answer()
        else:
            self.complete(self.body(), {"X-Tenant": self.random.choice("abc")})

    def large_answer(self):
        """One that a thread renders, which is read or left."""
        c = self.server.connect()
        c.request("POST", "/pooling", json.dumps({"input": [TEXTS[0] * 20] * 3, "task": "token_embed"}), JSON)
        if self.random.random() < 0.5:
            r = c.getresponse()
            answer = r.read()
            if r.status != 200:
                self.refused(r.status, json.loads(answer))
            else:
                assert len(json.loads(answer)["data"]) == 3
                self.count("large")
        c.close()

    def known_answer(self):
        """P1: what was answered when nobody else was there."""
        i = self.random.randrange(len(TEXTS))
        r = self.server.post("/v1/completions", {"prompt": TEXTS[i] * 4, "max_tokens": 40, "temperature": 0})
        if r.status == 200:
            assert r.text == self.want[i]
            self.count("known")
        else:
            self.refused(r.status, r.json)

    def refused(self, status, answer):
        assert answer["error"]["code"] in REFUSALS.get(status, ()), (status, answer)
        self.count(answer["error"]["code"])

    def complete(self, body, headers):
        c = self.server.connect()
        try:
            c.request("POST", "/v1/completions", json.dumps(body), {**JSON, **headers})
            if self.random.random() < 0.15:  # gone before the answer, or in the middle of it
                time.sleep(self.random.random() * 0.3)
                self.count("gone")
                return
            r = c.getresponse()
            if r.status != 200:
                self.refused(r.status, json.loads(r.read()))
            elif body["stream"]:
                self.read_stream(r, body)
            else:
                self.check_choices(json.loads(r.read())["choices"], body)
        finally:
            c.close()

    def check_choices(self, choices, body):
        assert len(choices) == body.get("n", 1)
        assert all(c["finish_reason"] in ("stop", "length") for c in choices), choices
        self.count("whole")

    def read_stream(self, r, body):
        finished = 0
        for line in r:
            if line == b"data: [DONE]\n":
                break
            if line.startswith(b"data: {"):
                frame = json.loads(line[6:])
                if "error" in frame:  # only a deadline may end a stream
                    assert frame["error"]["code"] in ("deadline_exceeded", "queue_timeout"), frame
                    self.count(frame["error"]["code"])
                    return
                finished += sum(ch["finish_reason"] is not None for ch in frame["choices"])
        else:
            raise AssertionError("a stream without an end")
        assert finished == body.get("n", 1)
        self.count("streamed")


def blocks_add_up(m):
    return sum(m['quire_kv_blocks{state="%s"}' % s] for s in ("free", "cached", "held")) == m["quire_kv_blocks_total"]


def test_chaos(server):
    want = [server.complete(t * 4, max_tokens=40, temperature=0).text for t in TEXTS]
    until = time.monotonic() + SECONDS
    clients = [Client(server, i, until, want) for i in range(CLIENTS)]
    for c in clients:
        c.start()
    while time.monotonic() < until:
        assert blocks_add_up(server.metrics())
        time.sleep(0.05)
    for c in clients:
        c.join(120)
        assert not c.is_alive()
        if c.error:
            raise c.error
    server.wait_idle(60)
    total = {}
    for c in clients:
        for k, v in c.counts.items():
            total[k] = total.get(k, 0) + v
    page = usage(server)
    check_sums(server, page)
    m = server.metrics()
    print(total, page["total"], {k: v for k, v in m.items() if "preempt" in k or "swap" in k and v})
    assert total.get("whole", 0) > 0 and total.get("streamed", 0) > 0 and total.get("known", 0) > 0
    assert m['quire_preemptions_total{mode="swap"}'] > 0
    assert m['quire_swap_bytes{tier="ram"}'] == 0 and m['quire_swap_bytes{tier="file"}'] == 0
