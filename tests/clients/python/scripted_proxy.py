"""A proxy before Quire that says what the model answers: programs that call tools cannot ask for that themselves.

A request with tools is a turn of the program's loop. Its body gets one field more, at its end: `structured_outputs` with
the next text of the script, which the model then writes, and Quire reads as it reads any answer. All else passes as it is:
requests without tools (titles, counts of tokens), headers, and an answer's bytes when they come.
"""
import http.client
import http.server
import json
import threading

LOOPS = ("/v1/chat/completions", "/v1/responses", "/v1/messages")
ONE_HOP = {"connection", "content-length", "host", "keep-alive", "transfer-encoding"}


class Script:
    """What the model says, a text for each turn, and how many thoughts stand in them; turns: (path, body) of each, as the
    program sent it."""

    def __init__(self, texts, n_thoughts):
        self.texts, self.n_thoughts, self.turns = texts, n_thoughts, []


class ScriptedProxy:
    """Listens at self.url. scripts: of each model, by its name. statuses: (path, status) of each answer."""

    def __init__(self, port):
        self.port, self.scripts, self.statuses = port, {}, []
        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (Handler,), {"proxy": self}))
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def stop(self):
        self.http.shutdown()
        self.http.server_close()

    def scripted(self, path, raw):
        """The body with the next text of its model's script; the body itself where it is no turn of a loop."""
        if path.split("?")[0] not in LOOPS:
            return raw
        body = json.loads(raw)
        script = self.scripts.get(body["model"])
        if script is None or not tools_of(body):
            return raw
        n = len(script.turns)
        script.turns.append((path.split("?")[0], body))
        if n >= len(script.texts):  # the test counts the turns, and says that there is one too many
            return raw
        field = json.dumps({"structured_outputs": {"choice": [script.texts[n]]}})
        return raw.rstrip()[:-1] + b"," + field[1:].encode()


class Handler(http.server.BaseHTTPRequestHandler):
    proxy = None

    def do_POST(self):
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        server = http.client.HTTPConnection("127.0.0.1", self.proxy.port, timeout=120)
        headers = {k: v for k, v in self.headers.items() if k.lower() not in ONE_HOP}
        server.request(self.command, self.path, self.proxy.scripted(self.path, raw) if raw else None, headers)
        answer = server.getresponse()
        self.proxy.statuses.append((self.path, answer.status))
        self.send_response(answer.status)
        for k, v in answer.getheaders():
            if k.lower() not in ONE_HOP:
                self.send_header(k, v)
        self.send_header("Connection", "close")  # so the end of the connection is the answer's end
        self.end_headers()
        while self.command != "HEAD" and (piece := answer.read1(65536)):
            self.wfile.write(piece)
        server.close()
        self.close_connection = True

    do_GET = do_HEAD = do_DELETE = do_POST

    def log_message(self, *_):
        pass


def tools_of(body):
    """What a request offers, in `tools` or in an item of its input."""
    listed = body.get("tools") or []
    items = body.get("input") if isinstance(body.get("input"), list) else []
    return listed + [t for i in items if i.get("type") == "additional_tools" for t in i["tools"]]


def text_of(content):
    """A result's text: it is a string, or parts."""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def calls_of_chat(body):
    calls = [c for m in body["messages"] for c in m.get("tool_calls") or []]
    results = {m["tool_call_id"]: m["content"] for m in body["messages"] if m["role"] == "tool"}
    return [(c["function"]["name"], json.loads(c["function"]["arguments"]), c["id"]) for c in calls], results


def calls_of_responses(body):
    items = body["input"] if isinstance(body["input"], list) else []
    calls = [(i["name"], json.loads(i["arguments"]) if i["type"] == "function_call" else {"input": i["input"]}, i["call_id"])
             for i in items if i.get("type") in ("function_call", "custom_tool_call")]
    return calls, {i["call_id"]: i["output"] for i in items if str(i.get("type")).endswith("_call_output")}


def calls_of_messages(body):
    blocks = [b for m in body["messages"] if not isinstance(m["content"], str) for b in m["content"]]
    calls = [(b["name"], b["input"], b["id"]) for b in blocks if b["type"] == "tool_use"]
    return calls, {b["tool_use_id"]: b["content"] for b in blocks if b["type"] == "tool_result"}


def history(path, body):
    """[(tool, arguments, result)] that a turn has behind it, in their order."""
    read = {"/v1/chat/completions": calls_of_chat, "/v1/responses": calls_of_responses, "/v1/messages": calls_of_messages}
    calls, results = read[path](body)
    assert len(calls) == len(results), (calls, results)
    return [(name, arguments, text_of(results[id])) for name, arguments, id in calls]


def thoughts(path, body):
    """The thoughts that a turn has behind it, in their order."""
    if path == "/v1/responses":
        return [text_of(i["content"]) for i in body["input"] if i.get("type") == "reasoning"]
    if path == "/v1/messages":
        blocks = [b for m in body["messages"] if not isinstance(m["content"], str) for b in m["content"]]
        return [b["thinking"] for b in blocks if b["type"] == "thinking"]
    said = [m.get("reasoning_content") or m.get("reasoning") for m in body["messages"]]
    return [thought for thought in said if thought]
