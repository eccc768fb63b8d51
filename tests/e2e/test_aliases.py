"""Other names of models: who answers to them, and who says so."""
import pytest

from quire import Server, serve_in_vain

CHAT = {"messages": [{"role": "user", "content": "Once"}], "max_tokens": 2}


@pytest.fixture(scope="module")
def named():
    s = Server("--alias", "gpt-4o, org/model:7b, claude-*, far-*-end")
    yield s
    assert s.stop() == 0


def ask(server, name, path="/v1/completions", **body):
    return server.post(path, {"prompt": "Once", "max_tokens": 2, **body, "model": name})


@pytest.mark.parametrize("name,is_known", [
    ("gpt-4o", True), ("org/model:7b", True), ("claude-", True), ("claude-opus-4-20250514", True), ("claude-*", True),
    ("quire-demo", True), ("default", True), ("gpt-4", False), ("gpt-4o ", False), ("GPT-4o", False), ("claude", False),
    ("xclaude-3", False), ("", False), ("*", False), ("gpt-4o,org/model:7b", False), ("claude-" + "x" * 5000, True),
])
def test_names(named, name, is_known):
    for r in (ask(named, name), named.post("/v1/chat/completions", {**CHAT, "model": name}),
              named.post("/v1/embeddings", {"input": "a", "model": name}), ask(named, name, "/completion")):
        assert r.status == (200 if is_known else 404), r.body
        if is_known and "model" in r.json:
            asked = "quire-demo" if name == "default" or len(name) > 255 else name
            assert r.json["model"] == asked, "an answer has the name that was asked for, as clients check it"
        if not is_known:
            assert r.json["error"]["code"] == "model_not_found"


def test_anthropic(named):
    """Anthropic's clients ask for claude-something, and need no other setting."""
    r = named.post("/v1/messages", {**CHAT, "model": "claude-sonnet-4-5"})
    assert r.status == 200 and r.json["type"] == "message"
    assert named.post("/v1/messages/count_tokens", {"messages": CHAT["messages"], "model": "claude-3"}).status == 200
    assert named.post("/v1/messages", {**CHAT, "model": "gemini"}).status == 404


def test_models_page(named, server):
    card, = named.get("/v1/models").json["data"]
    assert (card["id"], card["aliases"]) == ("quire-demo", ["gpt-4o", "org/model:7b"])
    for name in ("quire-demo", "gpt-4o", "org/model:7b", "claude-5"):
        assert named.get(f"/v1/models/{name}").json == card, name
        assert named.get(f"/props?model={name}").status == 200
    for n in (1, 300, 1000):  # a path is looked up whole, not by its first bytes
        assert named.get(f"/v1/models/far-{'x' * n}-end").json == card, n
        assert named.get(f"/v1/models/far-{'x' * n}-end-").status == 404, n
    assert named.get("/v1/models/gpt-5").status == 404 == named.get("/props?model=gpt-5").status
    assert server.get("/v1/models").json["data"][0]["aliases"] == []
    assert ask(server, "gpt-4o").status == 404


def test_names_with_slashes(start, tmp_path):
    """As the Hub's are: in the list, in requests, in URLs, as the head of a section, in answers."""
    conf = tmp_path / "q.conf"
    conf.write_text("model = Org/demo-1.0=, other=\n[Org/demo-1.0]\nalias = x\ncontext = 100\n")
    s = start("--config", conf, model="")
    assert [m["id"] for m in s.get("/v1/models").json["data"]] == ["Org/demo-1.0", "other"]
    for name in ("Org/demo-1.0", "x"):
        assert ask(s, name).json["model"] == name
    for url in ("/v1/models/Org/demo-1.0", "/v1/models/Org%2Fdemo-1.0"):
        assert s.get(url).json["id"] == "Org/demo-1.0"
    assert s.get("/props?model=Org/demo-1.0").status == 200
    assert ask(s, "demo-1.0").status == 404
    assert any('model="Org/demo-1.0"' in k for k in s.metrics())


def test_several_models(start, tmp_path):
    """A model's own name, then aliases, then patterns; the first model of those that match."""
    conf = tmp_path / "q.conf"
    conf.write_text("model = a=, b=\n[a]\nalias = x, *-mini, gpt-*\n[b]\nalias = y, gpt-4-mini, default-b, *\n")
    s = start("--config", conf, model="")
    for name, model in (("a", "a"), ("b", "b"), ("x", "a"), ("y", "b"), ("gpt-4-mini", "b"), ("gpt-5-mini", "a"),
                        ("z-mini", "a"), ("gpt-3", "a"), ("anything", "b"), ("default", "a"), ("default-b", "b")):
        counter = f'quire_prompt_tokens_total{{model="{model}"}}'
        before = s.metrics()[counter]
        assert ask(s, name).json["model"] == (model if name == "default" else name)
        assert s.metrics()[counter] > before, f"{name} is {model}"
        assert s.get(f"/v1/models/{name}").json["id"] == model
    assert {m["id"]: m["aliases"] for m in s.get("/v1/models").json["data"]} == {
        "a": ["x"], "b": ["y", "gpt-4-mini", "default-b"]}


@pytest.mark.parametrize("text,said", [
    ("alias = a b", "'alias' must be"), ("alias = a,,b", "'alias' must be"), ("alias = a=b", "got 'a=b'"),
    ("model = a=, b=\n[a]\nalias = b", "the 'alias' 'b' of the model 'a' is also a name of the model 'b'"),
    ("model = a=, b=\n[a]\nalias = c\n[b]\nalias = d, c", "'c' of the model 'a' is also"),
    ("alias = c\nmodel = a=, b=", "set it in only one section"),
])
def test_names_that_cannot_be(tmp_path, text, said):
    conf = tmp_path / "q.conf"
    conf.write_text(text + "\n")
    run = serve_in_vain("--config", conf)
    assert run.returncode == 2 and said in run.stderr
