"""A reader of KV events that shares no code with the server: Debian's pyzmq and msgpack."""
import struct
import time

import msgpack
import zmq

END = b"\xff" * 8
STORED = {"type", "block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium", "lora_name"}


def decode(payload):
    return msgpack.unpackb(payload, raw=False, strict_map_key=True)


class Block:
    def __init__(self, parent, tokens, lora, extra):
        self.parent, self.tokens, self.lora, self.extra = parent, tokens, lora, extra


class Reader:
    """What a server has, by its events. Strict: an event that does not fit what came before is an error.

    replay: the endpoint to ask when batches are missing; without it they are an error. lose: a function that says
    which batches are to be lost on the way, by their numbers."""

    def __init__(self, endpoint, replay=None, topic=b"", lose=None, has_tokens=True, decoder=decode):
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.SUB)
        self.socket.setsockopt(zmq.RCVHWM, 0)
        self.socket.setsockopt(zmq.SUBSCRIBE, topic)
        self.socket.connect(endpoint)
        self.replay, self.topic, self.lose, self.has_tokens, self.decoder = replay, topic, lose, has_tokens, decoder
        self.blocks, self.last = {}, None  # hash -> Block; the number of the last batch
        self.seen = -1  # the same, be it lost
        self.n_events = self.n_changes = self.n_cleared = self.n_replayed = self.n_lost = 0

    def close(self):
        self.context.destroy(linger=0)

    def apply_event(self, e):
        self.n_events += 1
        if e["type"] == "AllBlocksCleared":
            assert set(e) == {"type"}
            self.blocks.clear()
            self.n_cleared += 1
        elif e["type"] == "BlockRemoved":
            assert set(e) == {"type", "block_hashes", "medium"} and e["medium"] == "GPU" and e["block_hashes"]
            for h in e["block_hashes"]:
                del self.blocks[h]
            self.n_changes += len(e["block_hashes"])
        else:
            self.store(e)

    def store(self, e):
        assert e["type"] == "BlockStored" and set(e) - {"extra_keys"} == STORED, e
        assert (e["block_size"], e["lora_id"], e["medium"]) == (16, None, "GPU")
        hashes, tokens, parent = e["block_hashes"], e["token_ids"], e["parent_block_hash"]
        assert len(tokens) == (16 * len(hashes) if self.has_tokens else 0)
        assert parent is None or parent in self.blocks, "a block came before the one that it follows"
        extra = e.get("extra_keys") or [None] * len(hashes)
        assert len(extra) == len(hashes) > 0
        for i, h in enumerate(hashes):
            assert isinstance(h, bytes) and len(h) == 16 and h not in self.blocks
            self.blocks[h] = Block(parent, tokens[16 * i:16 * i + 16], e["lora_name"], extra[i])
            parent = h
        self.n_changes += len(hashes)

    def apply(self, number, payload):
        seconds, events, rank = self.decoder(payload)
        assert abs(seconds - time.time()) < 600 and rank == 0 and 0 < len(events) <= 4096
        for e in events:
            self.apply_event(e)
        self.last = number

    def ask(self, start):
        """Batches from that number on, as they are kept: [(number, payload)]."""
        dealer = self.context.socket(zmq.DEALER)
        dealer.setsockopt(zmq.RCVTIMEO, 20000)
        dealer.connect(self.replay)
        dealer.send_multipart([b"", struct.pack(">Q", start)])
        out = []
        while True:
            empty, topic, number, payload = dealer.recv_multipart()
            assert empty == b""
            if number == END:
                assert (topic, payload) == (b"", b"")
                dealer.close(linger=0)
                return out
            assert topic.startswith(self.topic)
            out.append((struct.unpack(">Q", number)[0], payload))

    def catch_up(self):
        """What is missing, or all that is there; the numbers are without gaps."""
        batches = self.ask(self.last + 1)
        assert batches and [n for n, _ in batches] == list(range(batches[0][0], batches[0][0] + len(batches)))
        if batches[0][0] != self.last + 1:
            assert self.decoder(batches[0][1])[1][0]["type"] == "AllBlocksCleared"
        for number, payload in batches:
            self.apply(number, payload)
        self.n_replayed += len(batches)

    def read(self, wait_ms=0):
        """All that has come; whether there was something."""
        found = False
        while self.socket.poll(0 if found else wait_ms):
            topic, number, payload = self.socket.recv_multipart()
            number, found = struct.unpack(">Q", number)[0], True
            assert topic.startswith(self.topic)
            self.seen = number
            if self.lose and self.lose(number):
                self.n_lost += 1
                continue
            if self.last is not None and number <= self.last:
                continue  # it has come by a replay
            if self.last is not None and number > self.last + 1:
                assert self.replay, f"batches {self.last + 1} to {number - 1} are missing"
                self.catch_up()
            elif self.last is None and number > 0:
                assert self.decoder(payload)[1][0]["type"] == "AllBlocksCleared"  # who comes late gets all
            if self.last is None or number > self.last:
                self.apply(number, payload)
        return found

    def read_all(self, server):
        """All that the server has sent until now, or lost."""
        begin, n = time.monotonic(), server.metrics()["quire_kv_event_batches_total"]
        while self.seen < n - 1:
            self.read(100)
            assert time.monotonic() - begin < 20, f"{self.seen} of {n} batches"

    def join(self):
        """Until the first batch, which is all that is there."""
        begin = time.monotonic()
        while self.last is None:
            self.read(100)
            assert time.monotonic() - begin < 20, "no events"

    def texts(self):
        """The token ids of all chains from their beginnings: {hash: ids}."""
        out = {}
        for h in self.blocks:
            chain, at = [], h
            while at is not None:
                chain.append(self.blocks[at].tokens)
                at = self.blocks[at].parent
            out[h] = sum(reversed(chain), [])
        return out

    def compare(self, server, query=""):
        """At a pause: nothing runs, and the reader has what the server says that its index has."""
        want = {bytes.fromhex(h) for h in server.get(f"/debug/kv?hashes=1{query}").json["hashes"]}
        begin = time.monotonic()
        while set(self.blocks) != want and time.monotonic() - begin < 20:
            self.read(100)
        assert set(self.blocks) == want, (len(self.blocks), len(want))
        self.read(20)  # what a replay has brought already
        assert set(self.blocks) == want
        return len(want)
