"""Bodies with Content-Encoding: decoded as they come, with the limits of other bodies; bombs delay nobody."""
import base64
import gzip
import json
import os
import threading
import time
import zlib

import pytest

from batch_calls import form
from quire import DEBUG_BIN, JSON, Server
from test_http import read_reply as read_answer

MIB = 1 << 20
BODY = {"prompt": "Once upon a time " * 12, "max_tokens": 6, "temperature": 0}
# BODY as `zstd -19 --check` writes it: a window of 8 MiB, entropy-coded blocks, a checksum.
ZSTD_BODY = base64.b64decode("KLUv/QRoBQIA8kMNEbDrP7PYiJCFslOOJiKplNGJMXykMteGKa+2+MimNK0uz2we5HVR31wtdtejSH5k8y7GCQMCAAAQwhE183jRjCA=")
SYSTEMONE = {"state": {"text": "Once upon a time " * 80}, "questions": {"b": {"type": "score", "criteria": ["good", {"d": 2}]}}}


def zstd(data, window=10 << 3, block=0):
    """A frame of RFC 8878 of stored blocks; `block` 1: of a byte that is repeated."""
    pieces = [data[at:at + 100000] for at in range(0, len(data), 100000)] or [b""]
    out = b"\x28\xb5\x2f\xfd\x00" + bytes([window])
    for i, piece in enumerate(pieces):
        head = len(piece) << 3 | block << 1 | (i == len(pieces) - 1)
        out += head.to_bytes(3, "little") + (piece[:1] if block else piece)
    return out


ENCODERS = {"gzip": gzip.compress, "x-gzip": gzip.compress, "deflate": zlib.compress, "zstd": zstd}


def send(server, encoding, data, path="/v1/completions", headers=None):
    return server.request("POST", path, data, {**JSON, "Content-Encoding": encoding, **(headers or {})})


def why(reply):
    return reply.json["error"]["message"]


@pytest.fixture(scope="module")
def sandboxed():
    """A debug build, whose I/O thread may not compute for long, in what this build and kernel have of the sandbox."""
    s = Server("--sandbox", "auto", "--max-body", str(48 * MIB), "--request-memory", "4g", binary=DEBUG_BIN)
    yield s
    s.wait_until(lambda m: m["quire_request_memory_bytes"] == 0, what="no memory held")
    assert s.stop() == 0


@pytest.fixture(scope="module")
def small():
    s = Server("--max-body", "4096", binary=DEBUG_BIN)
    yield s
    s.wait_until(lambda m: m["quire_request_memory_bytes"] == 0, what="no memory held")
    assert s.stop() == 0


@pytest.mark.parametrize("encoding", ENCODERS)
def test_the_same_answer(sandboxed, encoding):
    want = sandboxed.post("/v1/completions", BODY).json["choices"]
    data = json.dumps(BODY).encode()
    r = send(sandboxed, encoding, ENCODERS[encoding](data))
    assert r.status == 200 and r.json["choices"] == want, r.body
    for path, body in (("/v1/systemone", SYSTEMONE), ("/tokenize", {"content": "Once upon"})):
        want = sandboxed.post(path, body)
        r = send(sandboxed, encoding.upper(), ENCODERS[encoding](json.dumps(body).encode()), path)
        assert want.status == r.status == 200, (want.body, r.body)
        assert r.json.keys() == want.json.keys()


def test_a_frame_of_zstds_own(sandboxed):
    r = send(sandboxed, "zstd", ZSTD_BODY)
    assert r.status == 200 and r.json["choices"] == sandboxed.post("/v1/completions", BODY).json["choices"]


def test_members_and_frames(sandboxed):
    data = json.dumps(BODY).encode()
    want = sandboxed.post("/v1/completions", BODY).json["choices"]
    assert send(sandboxed, "gzip", gzip.compress(data[:50]) + gzip.compress(b"") + gzip.compress(data[50:])).json["choices"] == want
    skipped = b"\x51\x2a\x4d\x18" + (5).to_bytes(4, "little") + b"other"
    assert send(sandboxed, "zstd", skipped + zstd(data[:50]) + zstd(b"") + zstd(data[50:])).json["choices"] == want


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "zstd"])
@pytest.mark.parametrize("chunk", [1, 7, None])
def test_chunks_of_any_size(sandboxed, encoding, chunk):
    """A body in chunks, each a packet; the connection is then used again."""
    data = ENCODERS[encoding](b'{"content": "Once upon a time"}')
    chunk = chunk or len(data)
    head = f"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Encoding: {encoding}\r\nTransfer-Encoding: chunked\r\n\r\n"
    with sandboxed.socket() as s, s.makefile("rb") as answers:
        for _ in range(2):
            s.sendall(head.encode())
            for at in range(0, len(data), chunk):
                piece = data[at:at + chunk]
                s.sendall(b"%x\r\n" % len(piece) + piece + b"\r\n")
            s.sendall(b"0\r\n\r\n")
            assert read_answer(answers)[0] == 200


def test_pipelined(sandboxed):
    data = gzip.compress(b'{"content": "Once upon a time"}')
    request = (f"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Encoding: gzip\r\nContent-Length: {len(data)}\r\n\r\n").encode() + data
    with sandboxed.socket() as s, s.makefile("rb") as answers:
        s.sendall(request * 5)
        assert [read_answer(answers)[0] for _ in range(5)] == [200] * 5


@pytest.mark.parametrize("encoding", ["br", "gzip, zstd", "gzip, gzip", "identity, gzip", "compress", "gzip;q=1"])
def test_what_is_not_supported(sandboxed, encoding):
    r = send(sandboxed, encoding, b"x")
    assert r.status == 415 and r.headers["Accept-Encoding"] == "gzip, deflate, zstd"
    assert f"Content-Encoding '{encoding}'" in why(r) and "gzip, deflate, zstd" in why(r) and "or uncompressed" in why(r)


def test_identity_and_no_body(sandboxed):
    assert send(sandboxed, "Identity", json.dumps(BODY).encode()).status == 200
    r = send(sandboxed, "gzip", b"")
    assert r.status == 400 and "Content-Encoding" not in why(r)  # there is nothing to decode, and no JSON
    r = sandboxed.request("GET", "/health", gzip.compress(b"x" * 100)[:-5], {"Content-Encoding": "gzip"})
    assert r.status == 200  # a GET's body is dropped


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "zstd"])
def test_broken_bodies(sandboxed, encoding):
    data = json.dumps(BODY).encode()
    whole = ENCODERS[encoding](data) if encoding != "zstd" else ZSTD_BODY
    damaged = whole[:len(whole) // 2] + bytes(255 - b for b in whole[len(whole) // 2:])
    for body, words in ((whole[:-1], "it ends too early"), (whole[:1], "it ends too early"), (damaged, "it is damaged"),
                        (data, "it is damaged"), (whole + b"\0", "other bytes follow its end"),
                        (whole + b"}", "other bytes follow its end")):
        r = send(sandboxed, encoding, body)
        assert r.status == 400, (words, r.body)
        assert f"Content-Encoding '{encoding}'" in why(r) and words in why(r) and "or send it uncompressed" in why(r)
    assert send(sandboxed, encoding, whole).status == 200


def test_a_raw_deflate_stream(sandboxed):
    c = zlib.compressobj(wbits=-15)
    r = send(sandboxed, "deflate", c.compress(b'{"content": "a"}') + c.flush(), "/tokenize")
    assert r.status == 400 and "zlib's format (RFC 1950)" in why(r)


def test_windows(sandboxed):
    data = json.dumps(BODY).encode()
    assert send(sandboxed, "zstd", zstd(data, window=13 << 3)).status == 200
    r = send(sandboxed, "zstd", zstd(data, window=13 << 3 | 1))
    assert r.status == 400 and "a window of more than 8 MiB" in why(r) and "Content-Encoding 'zstd'" in why(r)


def test_the_description_says_what_is_decoded(sandboxed):
    api = sandboxed.get("/openapi.json").json
    assert "gzip, deflate, zstd" in api["components"]["parameters"]["Content-Encoding"]["description"]
    for path, method, is_there in (("/v1/systemone", "post", True), ("/v1/files", "post", True), ("/v1/models", "get", False)):
        refs = [p.get("$ref", "") for p in api["paths"][path][method]["parameters"]]
        assert ("#/components/parameters/Content-Encoding" in refs) == is_there


# ---- limits

def padded(n):
    data = b'{"content": "' + os.urandom(4 * n).hex().encode()
    return data[:n - 2] + b'"}'


@pytest.mark.parametrize("encode", [lambda d: ("gzip", gzip.compress(d)), lambda d: ("gzip", gzip.compress(d, 0)),
                                    lambda d: ("deflate", zlib.compress(d, 9)), lambda d: ("zstd", zstd(d))])
def test_max_body_counts_decoded_bytes(small, encode):
    """Also where the compressed body is longer than the limit, because it is only stored."""
    encoding, data = encode(padded(4096))
    assert send(small, encoding, data, "/tokenize").status == 200
    encoding, data = encode(padded(4097))
    r = send(small, encoding, data, "/tokenize")
    assert r.status == 413 and "takes 4096 bytes" in why(r)


def test_much_that_becomes_nothing(small):
    """Empty members and frames to skip: what is sent has a limit too."""
    for encoding, data in (("gzip", gzip.compress(b"")), ("zstd", zstd(b"")), ("zstd", b"\x50\x2a\x4d\x18\x10\0\0\0" + bytes(16))):
        few, many = data * (4000 // len(data)), data * (20000 // len(data))
        assert "Content-Encoding" not in why(send(small, encoding, few, "/tokenize"))  # empty, which is no JSON
        with small.socket() as s, s.makefile("rb") as answers:
            s.sendall(f"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Encoding: {encoding}\r\n"
                      f"Transfer-Encoding: chunked\r\n\r\n{len(many):x}\r\n".encode() + many)
            assert read_answer(answers)[0] == 413


BOMBS = {
    "gzip": lambda n: gzip.compress(bytes(n)),
    "deflate": lambda n: zlib.compress(bytes(n)),
    "zstd": lambda n: zstd(bytes(n), block=1),
}


@pytest.mark.parametrize("encoding", BOMBS)
def test_bombs(sandboxed, encoding):
    """A small body expands to as much as max_body lets it. Its neighbours are answered meanwhile, and the debug build
    would abort if a callback of the I/O thread took long."""
    bomb = BOMBS[encoding](64 * MIB)
    assert len(bomb) < 100_000
    replies = []

    def throw():
        for _ in range(3):
            replies.append(send(sandboxed, encoding, bomb, "/tokenize"))

    threads = [threading.Thread(target=throw) for _ in range(4)]
    for t in threads:
        t.start()
    while any(t.is_alive() for t in threads):
        assert sandboxed.get("/health").status == 200
    for t in threads:
        t.join()
    assert [r.status for r in replies] == [413] * 12 and "takes" in why(replies[0])


@pytest.mark.parametrize("encoding", BOMBS)
def test_a_large_body_is_taken(sandboxed, encoding):
    """40 MiB, of which the I/O thread decodes 256 KiB in one turn."""
    data = b'{"content": "Once upon"' + b" " * (40 * MIB) + b"}"
    if encoding == "zstd":
        data = zstd(data[:23]) + zstd(b" " * (40 * MIB), block=1) + zstd(b"}")
    else:
        data = ENCODERS[encoding](data)
    assert len(data) < 100_000
    r = send(sandboxed, encoding, data, "/tokenize")
    assert r.status == 200 and r.json == sandboxed.post("/tokenize", {"content": "Once upon"}).json


def test_the_decoders_memory_is_counted(small):
    """A zstd body that asks for a window of 8 MiB and stays away; then its client leaves."""
    head = b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Encoding: zstd\r\nContent-Length: 100\r\n\r\n"
    clients = [small.socket() for _ in range(3)]
    small.wait_until(lambda m: m["quire_request_memory_bytes"] == 0, what="no memory held")
    for n, s in enumerate(clients, 1):
        s.sendall(head + zstd(b"", window=13 << 3)[:8])
        small.wait_until(lambda m, n=n: n * 8 * MIB < m["quire_request_memory_bytes"] < n * 9 * MIB, what=f"memory of {n}")
    for s in clients:
        s.close()
    small.wait_until(lambda m: m["quire_request_memory_bytes"] == 0, what="no memory held")


def test_no_room_for_a_decoder():
    s = Server("--request-memory", str(16 * MIB), "--max-body", "4096")
    head = b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Encoding: zstd\r\nContent-Length: 100\r\n\r\n"
    clients = [s.socket() for _ in range(2)]
    try:
        clients[0].sendall(head + zstd(b"", window=13 << 3)[:8])
        s.wait_until(lambda m: m["quire_request_memory_bytes"] > 8 * MIB, what="memory of one")
        clients[1].sendall(head + zstd(b"", window=13 << 3)[:8] + bytes(92))
        with clients[1].makefile("rb") as answers:
            status, _, body = read_answer(answers)
        assert status == 429 and json.loads(body)["error"]["code"] == "request_memory"
        assert send(s, "gzip", gzip.compress(b'{"content": "a"}'), "/tokenize").status == 200
    finally:
        for c in clients:
            c.close()
        assert s.stop() == 0


# ---- uploads

@pytest.fixture(scope="module")
def uploads(tmp_path_factory):
    s = Server("--batch-dir", str(tmp_path_factory.mktemp("batches")), "--batch-file-size", str(6 * MIB), "--max-body", "4096",
               binary=DEBUG_BIN)
    yield s
    s.wait_until(lambda m: m["quire_request_memory_bytes"] == 0, what="no memory held")
    assert s.stop() == 0


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "zstd"])
def test_uploads(uploads, encoding):
    """A file of more than one turn's bytes, some of which become few and some many."""
    data = os.urandom(2 * MIB) + bytes(3 * MIB) + b"end"
    body, headers = form(data)
    r = send(uploads, encoding, ENCODERS[encoding](body), "/v1/files", headers)
    assert r.status == 200 and r.json["bytes"] == len(data), r.body
    assert uploads.get(f"/v1/files/{r.json['id']}/content").body == data
    uploads.request("DELETE", f"/v1/files/{r.json['id']}")


@pytest.mark.parametrize("encoding", BOMBS)
def test_uploads_that_fail(uploads, encoding):
    before = uploads.metrics()["quire_files"], uploads.n_fds()
    body, headers = form(bytes(5 * MIB))
    whole = ENCODERS[encoding](body)
    large, _ = form(bytes(20 * MIB))
    for data, status in ((whole[:-1], 400), (whole + b"x", 400), (BOMBS[encoding](64 * MIB), 413), (ENCODERS[encoding](large), 413)):
        r = send(uploads, encoding, data, "/v1/files", headers)
        assert r.status == status, r.body
    uploads.wait_until(lambda m: (m["quire_files"], uploads.n_fds()) == before, what=f"as it was: {before}")


def test_a_batch_of_a_compressed_file(uploads):
    lines = b"".join(json.dumps({"custom_id": str(i), "method": "POST", "url": "/v1/completions", "body": {**BODY, "prompt": "Once"}}).encode() + b"\n"
                     for i in range(3))
    body, headers = form(lines)
    f = send(uploads, "gzip", gzip.compress(body), "/v1/files", headers).json
    request = {"input_file_id": f["id"], "endpoint": "/v1/completions", "completion_window": "24h"}
    r = send(uploads, "zstd", zstd(json.dumps(request).encode()), "/v1/batches")
    assert r.status == 200, r.body
    begin = time.monotonic()
    while uploads.get(f"/v1/batches/{r.json['id']}").json["status"] != "completed":
        assert time.monotonic() - begin < 120
        time.sleep(0.05)
    assert uploads.get(f"/v1/batches/{r.json['id']}").json["request_counts"] == {"total": 3, "completed": 3, "failed": 0}
