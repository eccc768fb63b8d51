"""Uploads of files that break at a byte, and why."""
import json
import socket

BOUNDARY = "quire-boundary"
LINE = json.dumps({"custom_id": "a", "method": "POST", "url": "/v1/completions", "body": {"prompt": "a"}})
MAX_FILE = 64 << 10


def form(content):
    """A form with purpose and file."""
    parts = [f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n',
             f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="a.jsonl"\r\n\r\n{content}\r\n',
             f"--{BOUNDARY}--\r\n"]
    return "".join(parts).encode()


def head(framing, key=None):
    lines = ["POST /v1/files HTTP/1.1", "Host: localhost", f"Content-Type: multipart/form-data; boundary={BOUNDARY}",
             *([f"X-Api-Key: {key}"] if key else []), framing, "", ""]
    return "\r\n".join(lines).encode()


def chunked(body, size=1000):
    pieces = [body[i:i + size] for i in range(0, len(body), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in pieces) + b"0\r\n\r\n"


def send(server, data, leaves=None):
    """Send, and leave ("close", "reset") or wait for the answer. The status, or 0."""
    s = server.socket()
    try:
        s.sendall(data)
        if leaves == "reset":
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        if leaves:
            return 0
        answer = s.recv(4096)
        return int(answer.split()[1]) if answer else 0
    except (BrokenPipeError, ConnectionResetError):
        return 0
    finally:
        s.close()


def break_one(server, rng, cause, key=None):
    """One upload that breaks, at a byte that nobody chose."""
    body = form((LINE + "\n") * rng.randrange(1, 200))
    at = rng.randrange(1, len(body))
    if cause == "leaves":
        return send(server, head(f"Content-Length: {len(body)}", key) + body[:at], leaves=rng.choice(["close", "reset"]))
    if cause == "chunk":
        return send(server, head("Transfer-Encoding: chunked", key) + chunked(body[:at])[:-5] + b"zz\r\n" + b"x" * 300)
    if cause == "form":
        return send(server, head(f"Content-Length: {at}", key) + body[:at])
    large = form("x" * (MAX_FILE + 40000 + at))
    if cause == "file_too_large":
        return send(server, head(f"Content-Length: {len(large)}", key) + large)
    return send(server, head("Transfer-Encoding: chunked", key) + chunked(form("x" * 400000), 1 + at))  # body_too_large


CAUSES = {"leaves": {0}, "chunk": {400, 0}, "form": {400, 0}, "file_too_large": {413, 0}, "body_too_large": {413, 0}}
