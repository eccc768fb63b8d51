"""A server on loopback that answers as the Hugging Face Hub does, of the files that a test gives it.

The Hub itself is on 127.0.0.1; files of git's large file storage are on another host, the CDN, which
is the same server by the name of localhost. What was asked, with which token, and how many bytes
went out, is kept for the tests.
"""
import hashlib
import http.server
import json
import re
import ssl
import threading
import time
import urllib.parse

LFS_FROM = 4096  # bytes: the rest lies in git itself
COMMIT = "c0ffee" + 34 * "0"


def git_sha1(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class Repo:
    def __init__(self, files, commit=COMMIT, gated=False):
        self.files, self.commit, self.gated = dict(files), commit, gated
        self.revisions = {"main": commit}

    def is_lfs(self, path):
        return len(self.files[path]) >= LFS_FROM

    def etag(self, path):
        data = self.files[path]
        return hashlib.sha256(data).hexdigest() if self.is_lfs(path) else git_sha1(data)

    def tree(self):
        """The entries of the listing, folders among them."""
        entries = []
        for path, data in sorted(self.files.items()):
            entry = {"type": "file", "oid": git_sha1(data), "size": len(data), "path": path}
            if self.is_lfs(path):
                pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{self.etag(path)}\n".encode()
                entry["oid"] = git_sha1(pointer)
                entry["lfs"] = {"oid": self.etag(path), "size": len(data), "pointerSize": len(pointer)}
            entries.append(entry)
        folders = {path.rsplit("/", 1)[0] for path in self.files if "/" in path}
        return [{"type": "directory", "oid": 40 * "1", "size": 0, "path": f} for f in sorted(folders)] + entries


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if "Content_Length" not in headers:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def refuse(self, status, code, text, **headers):
        self.answer(status, json.dumps({"error": text}).encode(), X_Error_Code=code, X_Error_Message=text, **headers)

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        hub, url = self.server.hub, urllib.parse.urlsplit(self.path)
        host = self.headers["Host"].split(":")[0]
        with hub.lock:
            hub.asked.append((self.command, host, self.path, self.headers.get("Authorization"), self.headers.get("Range")))
            failure = hub.failures.pop(0) if hub.failures else None
        if failure:
            status, headers = failure
            self.answer(status, b"", **headers)
        elif host == "localhost":
            self.cdn(hub, url)
        else:
            self.hub(hub, url)

    def repo(self, hub, name):
        """The repository, or None after an answer that says why not."""
        repo = hub.repos.get(name)
        if name in hub.moved:
            self.answer(307, b"", Location=self.path.replace(name, hub.moved[name]))
        elif repo is None:
            self.refuse(401, "RepoNotFound", "Invalid username or password.")
        elif repo.gated and (hub.gates_api or "/resolve/" in self.path) and self.headers.get("Authorization") != f"Bearer {repo.gated}":
            status = 403 if self.headers.get("Authorization") else 401
            self.refuse(status, "GatedRepo", f"Access to model {name} is restricted.")
        else:
            return repo
        return None

    def hub(self, hub, url):
        if m := re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/revision/([^/]+))?", url.path):
            repo = self.repo(hub, m[1])
            commit = repo and self.commit(repo, m[2] or "main")
            if commit:
                info = {"id": m[1], "sha": commit, "private": False, "gated": False, "siblings":
                        [{"rfilename": path} for path in sorted(repo.files)]}
                self.answer(200, json.dumps(info).encode(), Content_Type="application/json")
        elif m := re.fullmatch(r"/api/models/([^/]+/[^/]+)/tree/([^/]+)/?", url.path):
            repo = self.repo(hub, m[1])
            if repo and self.commit(repo, m[2]):
                self.listing(hub, repo, urllib.parse.parse_qs(url.query))
        elif m := re.fullmatch(r"/api/resolve-cache/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", url.path):
            repo = self.repo(hub, m[1])
            if repo:
                self.resolve_cache(hub, repo, m[2], urllib.parse.unquote(m[3]))
        elif m := re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", url.path):
            repo = self.repo(hub, m[1])
            commit = repo and self.commit(repo, m[2])
            if commit:
                self.resolve(hub, repo, commit, urllib.parse.unquote(m[3]))
        else:
            self.answer(404)

    def commit(self, repo, revision):
        revision = urllib.parse.unquote(revision)
        commit = revision if revision == repo.commit else repo.revisions.get(revision)
        if commit is None:
            self.refuse(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        return commit

    def listing(self, hub, repo, query):
        entries = hub.listing if hub.listing is not None else repo.tree()
        begin = int(query.get("cursor", ["0"])[0])
        headers = {}
        if begin + hub.page < len(entries):
            path = urllib.parse.urlsplit(self.path).path
            headers["Link"] = f'<{hub.next_base or hub.url}{path}?recursive=true&cursor={begin + hub.page}>; rel="next"'
        self.answer(200, json.dumps(entries[begin:begin + hub.page]).encode(), Content_Type="application/json", **headers)

    def resolve(self, hub, repo, commit, path):
        if path not in repo.files:
            self.refuse(404, "EntryNotFound", "Entry not found", X_Repo_Commit=commit)
            return
        headers = {"X_Repo_Commit": commit, "ETag": f'"{repo.etag(path)}"'}
        data = repo.files[path]
        if repo.is_lfs(path):
            key = urllib.parse.quote(f"{repo.etag(path)}/{path}")
            self.answer(302, b"Found. Redirecting", Location=f"http://localhost:{hub.port}/cdn/{key}?Signature=x",
                        X_Linked_Etag=f'"{repo.etag(path)}"', X_Linked_Size=str(len(data)), **headers)
        else:  # on the Hub itself, but elsewhere
            self.answer(307, b"Temporary Redirect", Location="/api/resolve-cache" + urllib.parse.urlsplit(self.path).path, **headers)

    def resolve_cache(self, hub, repo, commit, path):
        self.send_data(hub, path, repo.files[path], {"X_Repo_Commit": commit, "ETag": f'W/"{repo.etag(path)}"'})

    def cdn(self, hub, url):
        etag, path = urllib.parse.unquote(url.path).removeprefix("/cdn/").split("/", 1)
        for repo in hub.repos.values():
            if path in repo.files and repo.etag(path) == etag:
                self.send_data(hub, path, repo.files[path], {"ETag": f'"{etag[:32]}-7"'})
                return
        self.answer(403)

    def send_data(self, hub, path, data, headers):
        data = hub.wrong.get(path, data)
        status, begin = 200, 0
        if (asked := re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))) and hub.knows_ranges:
            begin = int(asked[1])
            if begin >= len(data):
                self.answer(416, Content_Range=f"bytes */{len(data)}")
                return
            status = 206
            headers = {**headers, "Content_Range": f"bytes {begin}-{len(data) - 1}/{len(data)}"}
        part = data[begin:]
        if self.command == "HEAD":
            self.answer(status, Content_Length=str(len(part)), **headers)
            return
        with hub.lock:
            cut = hub.cuts.pop(0) if hub.cuts else None
        self.send_response(status)
        for name, value in {**headers, "Content_Length": str(len(part))}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.send_slowly(hub, part if cut is None else part[:cut])
        if cut is not None:
            self.close_connection = True

    def send_slowly(self, hub, part):
        for at in range(0, len(part), hub.piece):
            hub.gate.wait(60)
            time.sleep(hub.pause_s)
            piece = part[at:at + hub.piece]
            try:
                self.wfile.write(piece)
            except OSError:  # the client has gone
                self.close_connection = True
                return
            with hub.lock:
                hub.sent += len(piece)
                hub.progress.set()
                if hub.sent >= hub.stop_at:
                    hub.gate.clear()


class Hub:
    """repos: "owner/name" -> Repo. tls: the files of a certificate and its key; then the CDN has none, and the Hub no port for HTTP.
    Attributes that tests set: see below."""

    def __init__(self, tls=None, **repos):
        self.repos = {name.replace("__", "/"): repo for name, repo in repos.items()}
        self.gates_api = True   # of a gated repository; False: its listing is for all, its files are not
        self.moved = {}         # old name -> new name
        self.page = 1000        # entries of a page of the listing
        self.next_base = None   # of the link to the next page, where it is another than the Hub's
        self.listing = None     # entries instead of the repository's
        self.failures = []      # (status, headers) of the next answers
        self.cuts = []          # of the next files that are sent: after so many bytes
        self.wrong = {}         # path -> other bytes
        self.knows_ranges = True
        self.piece = 1 << 16
        self.pause_s = 0  # before each piece
        self.stop_at = 1 << 60  # when so many bytes are out, wait for the gate
        self.lock = threading.Lock()
        self.gate, self.progress = threading.Event(), threading.Event()
        self.gate.set()
        self.asked, self.sent = [], 0
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.hub = self
        self.port = self.server.server_port
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self.port}"
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.gate.set()
        self.server.shutdown()
        self.server.server_close()

    def bodies(self):
        """The GETs of files, as (host, path, token, range)."""
        return [a[1:] for a in self.asked if a[0] == "GET" and ("/resolve/" in a[2] or "/cdn/" in a[2])]
