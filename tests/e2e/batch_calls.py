"""Files and batches of a server: uploads as forms, and waiting for a batch's end."""
import json
import time

ENDS = ("completed", "failed", "expired", "cancelled")


def line(custom_id, body, url="/v1/completions", **others):
    return {"custom_id": custom_id, "method": "POST", "url": url, "body": body, **others}


def lines_of(items):
    return b"".join((item if isinstance(item, bytes) else json.dumps(item).encode()) + b"\n" for item in items)


def form(data, purpose="batch", filename="in.jsonl", boundary="a-boundary", **fields):
    """The body of an upload, and its headers."""
    parts = {"purpose": purpose, **fields}
    body = b"".join(f'--{boundary}\r\nContent-Disposition: form-data; name="{k}"\r\n\r\n{v}\r\n'.encode()
                    for k, v in parts.items() if v is not None)
    if data is not None:
        body += (f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{filename}"\r\n'
                 "Content-Type: application/octet-stream\r\n\r\n").encode() + data + b"\r\n"
    return body + f"--{boundary}--\r\n".encode(), {"Content-Type": f"multipart/form-data; boundary={boundary}"}


def upload(s, data, headers=None, **fields):
    body, own = form(data if data is None or isinstance(data, bytes) else lines_of(data), **fields)
    return s.request("POST", "/v1/files", body, {**own, **(headers or {})})


def create(s, items, url="/v1/completions", headers=None, **fields):
    """Upload and create; the batch."""
    f = upload(s, items, headers)
    assert f.status == 200, f.body
    r = s.post("/v1/batches", {"input_file_id": f.json["id"], "endpoint": url, "completion_window": "24h", **fields},
               headers=headers)
    assert r.status == 200, r.body
    return r.json


def look(s, batch, headers=None):
    r = s.get(f"/v1/batches/{batch['id']}", headers=headers)
    assert r.status == 200, r.body
    return r.json


def wait_for(s, batch, question, timeout=300, headers=None):
    begin = time.monotonic()
    while True:
        b = look(s, batch, headers)
        if question(b):
            return b
        assert time.monotonic() - begin < timeout, (b, s.get("/debug/batches").body)
        time.sleep(0.02)


def wait_over(s, batch, **kw):
    return wait_for(s, batch, lambda b: b["status"] in ENDS, **kw)


def content(s, file_id, headers=None):
    """The lines of a file, as JSON."""
    if file_id is None:
        return []
    r = s.get(f"/v1/files/{file_id}/content", headers=headers)
    assert r.status == 200, r.body
    assert r.body.endswith(b"\n")
    return [json.loads(text) for text in r.body.splitlines()]


def answers(items):
    """By custom_id, each once, without what names a call or a time."""
    out = {}
    for a in items:
        assert a["custom_id"] not in out, a
        body = a["response"]["body"]
        out[a["custom_id"]] = (a["response"]["status_code"], body.get("choices"), body.get("error"))
    return out
