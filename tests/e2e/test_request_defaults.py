"""What a request gets that does not say it: seed, thinking and variables of the template, by settings."""
import json

import pytest

from quire import serve_in_vain
from test_receipts import verify
from test_thoughts import Thinker, model  # noqa: F401

TEMPLATE = ("{% for m in messages %}{{ m.content }}{% endfor %}|{{ enable_thinking }}|{{ reasoning_effort }}|{{ a }}|"
            "{{ b }}|")
CHAT = {"messages": [{"role": "user", "content": "Hi"}]}


@pytest.fixture
def template(tmp_path):
    path = tmp_path / "t.jinja"
    path.write_text(TEMPLATE)
    return path


def shown(server, **fields):
    r = server.post("/apply-template", {**CHAT, **fields})
    assert r.status == 200, r.body
    return r.json["prompt"].split("|")[1:-1]


def test_variables(start, template):
    s = start("--chat-template", template, "--chat-template-kwargs", '{"a": [1, "x"], "b": true}')
    assert shown(s) == ["True", "", "[1, 'x']", "True"]
    assert shown(s, chat_template_kwargs={"a": "mine"}) == ["True", "", "mine", "True"]
    props = s.get("/props").json
    assert (props["chat_template_kwargs"], props["reasoning"], props["reasoning_budget"]) == ({"a": [1, "x"], "b": True}, "auto", -1)


@pytest.mark.parametrize("flags", [("--reasoning", "off"), ("--reasoning-budget", "0"),
                                   ("--chat-template-kwargs", '{"enable_thinking": false}')])
def test_thinking_is_off(start, template, flags):
    s = start("--chat-template", template, *flags)
    assert shown(s)[0] == "False" == shown(s, reasoning_effort="none")[0]
    assert shown(s, chat_template_kwargs={"enable_thinking": True})[0] == "True"
    assert shown(s, reasoning_effort="high")[:2] == ["True", "high"]
    # Anthropic's and Ollama's switches
    asked = s.post("/v1/messages", {**CHAT, "max_tokens": 1, "thinking": {"type": "enabled", "budget_tokens": 5}})
    plain = s.post("/v1/messages", {**CHAT, "max_tokens": 1})
    off = s.post("/v1/messages", {**CHAT, "max_tokens": 1, "thinking": {"type": "disabled"}})
    used = [r.json["usage"]["input_tokens"] for r in (asked, plain, off)]
    assert used[1] == used[2]
    n = [s.post("/v1/messages/count_tokens", {**CHAT, "thinking": {"type": t}}).json for t in ("enabled", "disabled")]
    assert [used[0], used[2]] == [x["input_tokens"] for x in n]


def test_thinking_is_on(start, template):
    s = start("--chat-template", template, "--reasoning", "on", "--chat-template-kwargs", '{"enable_thinking": false}')
    assert shown(s)[0] == "True", "the setting of this name comes first"
    assert shown(s, reasoning_effort="none")[0] == "False"
    r = s.post("/api/chat", {"model": "quire-demo", **CHAT, "stream": False, "options": {"num_predict": 1}})
    assert r.status == 200, "only a request that wants thoughts is told that the model has none"


def test_budget(start, model):  # noqa: F811
    file = model.parent / "budget.jinja"
    file.write_text("{% for m in messages %}{{ m.content }}{% endfor %}{% if enable_thinking %}<think>{% else %}"
                    "<think></think>{% endif %}")
    s = start("--reasoning-budget", "7", "--chat-template", file, model=model)

    def thought(**fields):
        r = s.post("/v1/chat/completions", {**CHAT, "max_tokens": 40, "seed": 3, "ignore_eos": True,
                                            "logit_bias": {"257": -100}, **fields})
        return r.json["usage"]["completion_tokens_details"]["reasoning_tokens"]
    by_default, longer, endless = thought(), thought(reasoning_budget=12), thought(reasoning_budget=-1)
    assert longer - by_default == 5 and endless == 40
    assert thought(reasoning_budget=7) == by_default and thought(thinking_token_budget=0) == 0


def test_message(start, model):  # noqa: F811
    file = model.parent / "message.jinja"
    file.write_text("{% for m in messages %}{{ m.content }}{% endfor %}<think>{# </think> #}")
    s = start("--reasoning-budget", "7", "--reasoning-budget-message", " Enough.", "--receipts", "on", "--chat-template", file,
              model=model)

    def thought(**fields):
        r = s.post("/v1/chat/completions", {**CHAT, "max_tokens": 40, "seed": 3, "ignore_eos": True,
                                            "logit_bias": {"257": -100}, **fields})
        return r.json["choices"][0]["message"]["reasoning_content"]
    plain = thought(reasoning_budget_message="")
    assert thought() == plain + " Enough." and thought(reasoning_budget_message=" So:") == plain + " So:"
    assert s.get("/props").json["reasoning_budget_message"] == " Enough."
    r = s.post("/v1/chat/completions", {**CHAT, "max_tokens": 40, "seed": 3, "logit_bias": {"257": -100}, "receipt": True})
    code, lines, err = verify([r.json["receipt"]], "--model", model, "--chat-template", file)
    assert code == 0, (lines, err)  # the receipt has the message, which the flags do not
    run = serve_in_vain("--model", model, "--reasoning-budget-message", "x" * 257)
    assert run.returncode != 0 and "'reasoning_budget_message' has more than 256 tokens" in run.stderr


def test_seed(start):
    s = start("--seed", "4294967295")
    ask = {"prompt": "Once", "max_tokens": 20, "temperature": 1}

    def text(server, **fields):
        return server.post("/v1/completions", {**ask, **fields}).json["choices"][0]["text"]
    assert text(s) == text(s) == text(s, seed=4294967295) != text(s, seed=5)
    assert s.post("/completion", {"prompt": "Once", "n_predict": 2}).json["generation_settings"]["seed"] == 4294967295
    assert s.get("/props").json["default_generation_settings"]["params"]["seed"] == 4294967295
    two = s.post("/v1/completions", {**ask, "n": 2}).json["choices"]
    assert two[0]["text"] == text(s) != two[1]["text"]


def test_of_one_model_alone(start, tmp_path, template):
    conf = tmp_path / "q.conf"
    conf.write_text(f'chat_template = {template}\n[a]\nmodel =\nreasoning = off\nseed = 5\n'
                    f'[b]\nmodel =\nchat_template_kwargs = {json.dumps({"a": 1})}\n')
    s = start("--config", conf, model="")
    assert shown(s, model="a")[0] == "False" and shown(s, model="b") == ["True", "", "1", ""]


@pytest.mark.parametrize("text,why", [("{", "must be a JSON object"), ("[1]", "must be a JSON object"),
                                      ('{"messages": 1}', "may not set 'messages'"),
                                      ('{"enable_thinking": "no"}', "must be true or false")])
def test_variables_that_cannot_be(text, why):
    run = serve_in_vain("--chat-template-kwargs", text)
    assert run.returncode != 0 and "chat_template_kwargs" in run.stderr and why in run.stderr
