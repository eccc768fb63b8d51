"""The page at /: who gets it, its headers, and that nothing of it is read from elsewhere."""
import os
import re

import pytest

from quire import make_key

BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
ASSETS = os.path.join(os.path.dirname(__file__), "..", "..", "server", "page", "assets")
POLICY = {"default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "img-src 'self' data:",
          "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"}


def test_browsers_get_the_page_and_others_the_text(server):
    page = server.request("GET", "/", headers=BROWSER)
    assert page.status == 200 and page.headers["Content-Type"] == "text/html; charset=utf-8"
    assert page.body.startswith(b"<!doctype html>") and "Accept" in page.headers["Vary"]
    head = server.request("HEAD", "/", headers=BROWSER)
    assert head.status == 200 and head.body == b"" and head.headers["ETag"] == page.headers["ETag"]
    assert server.request("GET", "/", headers={"Accept": "a/b;q=0, TEXT/HTML ; q=0.1"}).body == page.body
    for accept in (None, "*/*", "application/json", "text/html;q=0", "text/html; level=1 ;q=0.000, */*", "text/htmlx",
                   "application/text/html"):
        r = server.request("GET", "/", headers={"Accept": accept} if accept else {})
        assert r.body == b"Ollama is running" and r.headers["Vary"] == "Accept"  # a cache may not mix them up


@pytest.mark.parametrize("name", sorted(os.listdir(ASSETS)))
def test_each_file_is_served_as_it_is(server, name):
    r = server.get("/page/" + name)
    with open(os.path.join(ASSETS, name), "rb") as f:
        assert r.status == 200 and r.body == f.read()
    assert set(r.headers["Content-Security-Policy"].split("; ")) == POLICY
    assert r.headers["X-Content-Type-Options"] == "nosniff" and r.headers["Referrer-Policy"] == "no-referrer"
    assert r.headers["Cache-Control"] == "no-cache"
    tag = r.headers["ETag"]
    for known in (tag, "*", f"W/{tag}", f'"a", {tag}', f'W/"b" ,  W/{tag}, "c"'):
        again = server.request("GET", "/page/" + name, headers={"If-None-Match": known})
        assert again.status == 304 and again.body == b"" and again.headers["ETag"] == tag, known
    for known in ('"another"', "", f'"x{tag[1:]}', tag[:-1]):
        assert server.request("GET", "/page/" + name, headers={"If-None-Match": known}).status == 200, known


@pytest.mark.parametrize("name", ["", "nothing.js", "../page.c", "%2e%2e/page.c", "index.html/", "assets/index.html"])
def test_other_names_are_not_there(server, name):
    assert server.get("/page/" + name).status == 404


def test_what_the_page_loads_is_there(server):
    """Every file that one of them names, and nothing from anywhere else."""
    for name in os.listdir(ASSETS):
        with open(os.path.join(ASSETS, name), encoding="utf-8") as f:
            text = f.read()
        for path in re.findall(r'(?:href|src)="(/[^"]*)"', text) + ["/page/" + n for n in re.findall(r'from "\./([^"]*)"', text)]:
            assert server.get(path).status == 200, (name, path)
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|@import|url\(", text), name
        assert not re.search(r'(?:src|href)="https?:|from "https?:|\sstyle="|\son\w+="', text), name


def test_no_key_is_needed_for_the_page_but_for_what_it_asks(start, tmp_path):
    keys = tmp_path / "keys"
    entry, secret = make_key("someone")
    keys.write_text(entry)
    keys.chmod(0o600)
    s = start("--api-keys", str(keys))
    assert s.request("GET", "/", headers=BROWSER).status == 200 and s.get("/page/main.js").status == 200
    assert s.get("/v1/models").status == 401
    assert s.request("GET", "/v1/models", headers={"Authorization": f"Bearer {secret}"}).status == 200


def test_it_can_be_switched_off(start):
    s = start("--page", "off")
    assert s.request("GET", "/", headers=BROWSER).body == b"Ollama is running"
    r = s.get("/page/main.js")
    assert r.status == 404 and "page" in r.json["error"]["message"]
