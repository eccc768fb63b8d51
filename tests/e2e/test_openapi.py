"""/openapi.json: what it says is what is served, and nothing that is served is missing."""
import pathlib
import re

import jsonschema
import pytest

from quire import make_key

ROOT = pathlib.Path(__file__).parents[2]
FORMS = {"CompletionRequest": "PARAMS_TEXT", "ChatCompletionRequest": "PARAMS_CHAT",
         "EmbeddingRequest": "PARAMS_EMBED", "NativeCompletionRequest": "PARAMS_NATIVE",
         "InfillRequest": "PARAMS_INFILL", "MessagesRequest": "PARAMS_MESSAGES",
         "CountTokensRequest": "PARAMS_COUNT", "ResponsesRequest": "PARAMS_RESPONSES",
         "OllamaGenerateRequest": "PARAMS_OLLAMA_GENERATE", "OllamaChatRequest": "PARAMS_OLLAMA_CHAT",
         "OllamaEmbedRequest": "PARAMS_OLLAMA_EMBED", "OllamaEmbeddingsRequest": "PARAMS_OLLAMA_EMBEDDINGS",
         "OllamaOptions": "PARAMS_OLLAMA_OPTIONS"}


def source(name):
    return (ROOT / "server" / name).read_text()


@pytest.fixture(scope="module")
def doc(server):
    r = server.get("/openapi.json")
    assert r.status == 200 and r.headers["Content-Type"] == "application/json"
    return r.json


def schema(doc, name):
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$ref": f"#/components/schemas/{name}",
            "components": doc["components"]}


def validate(doc, name, value):
    jsonschema.Draft202012Validator(schema(doc, name)).validate(value)


def operations(doc):
    for path, methods in doc["paths"].items():
        for method, operation in methods.items():
            yield path, method.upper(), operation


# ---- the document itself

def test_it_is_openapi(doc):
    assert doc["openapi"] == "3.1.0" and doc["info"]["title"] == "Quire" and doc["info"]["version"]
    names = [o["operationId"] for _, _, o in operations(doc)]
    assert len(set(names)) == len(names)
    for path, _, o in operations(doc):
        assert o["summary"].endswith(".") and {"200", "default"} <= set(o["responses"])
        in_path = {p["name"] for p in o["parameters"] if p.get("in") == "path"}
        assert in_path == set(re.findall(r"{(\w+)}", path))


def test_references_lead_somewhere(doc):
    def walk(node):
        if isinstance(node, dict):
            if isinstance(node.get("$ref"), str):
                yield node["$ref"]
            for v in node.values():
                yield from walk(v)
        elif isinstance(node, list):
            for v in node:
                yield from walk(v)

    refs = set(walk(doc))
    assert refs
    for ref in refs:
        at = doc
        for part in ref.removeprefix("#/").split("/"):
            at = at[part]


def test_schemas_are_schemas(doc):
    for name, body in doc["components"]["schemas"].items():
        jsonschema.Draft202012Validator.check_schema(body)
        for field, value in body.get("properties", {}).items():
            assert not name.endswith("Request") or value["description"].endswith("."), (name, field)


# ---- routes

def test_every_route_and_no_other(doc):
    rows = re.findall(r'^ROUTE\("([^"]+)", "([^"]*)", "(\w*)",\s+HTTP_(\w+)(?: \| HTTP_(\w+))?, ',
                      source("api/routes.inc"), re.M)
    assert len(rows) == source("api/routes.inc").count("\nROUTE(") > 10
    assert {(name.replace("*", f"{{{tail}}}") if "*" in name else name + (f"{{{tail}}}" if tail else ""), method) for path, also, tail, *methods in rows
            for name in [path, *also.split()] for method in methods if method} == {
        (path, method) for path, method, _ in operations(doc)}
    assert re.findall(r"static const struct http_route routes\[\] = \{\n#define ROUTE.*\n.*\n#include", source("router.c")), \
        "the server has no routes but those of the list"


ADAPTERS = ("/v1/load_lora_adapter", "/v1/unload_lora_adapter", "/lora-adapters")


def test_routes_are_served(doc, server):
    taken = {(path, method) for path, method, _ in operations(doc)}
    for path, method in taken:
        url = path.replace("{model}", "quire-demo").replace("{file}", "main.js")
        other = "POST" if method == "GET" else "GET"
        r = server.request(method, url, {} if method == "POST" else None)
        is_off = path in ("/props", "/slots/{id_slot}", *ADAPTERS) and method == "POST"
        expected = (200, 400, 501) if is_off else (404,) if "{stream_id}" in path else (200, 400)
        assert r.status in expected, (method, path, r.status)
        if (path, other) in taken:
            continue
        r = server.request(other, url, {} if other == "POST" else None)
        assert r.status == 405 and method in r.headers["Allow"].split(", ")


QUERIES = re.compile(r'(?:http_call_query\(\w[\w>-]*, |is_set\(call, |take_day\(call, |take_word\(call, |follow_stream\(streams, server, call, )"(\w+)"')


def test_queries_are_those_that_are_read(doc):
    """The names that the code asks for, and all that a summary speaks of; a route with ?model= asks model_for()."""
    read = {name for f in (ROOT / "server").rglob("*.c") for name in QUERIES.findall(f.read_text())}
    told = {p["name"] for _, _, o in operations(doc) for p in o["parameters"] if p.get("in") == "query"}
    assert told == read and len(told) > 15
    router, of_models = source("router.c"), set()
    for path, _, o in operations(doc):
        names = {p["name"] for p in o["parameters"] if p.get("in") == "query"}
        spoken = set(re.findall(r"\?(\w+)=", o["summary"]))
        assert spoken <= {p["name"] for op in doc["paths"][path].values() for p in op["parameters"] if p.get("in") == "query"}, path
        if "model" in names:
            of_models.add(o["operationId"].split("_post")[0])
    handlers = {f.split("static void on_")[1].split("(")[0] for f in router.split("\n}\n") if "static void on_" in f and "model_for(" in f}
    rows = re.findall(r'^ROUTE\((?:[^"]|"[^"]*")*?HTTP_\w+(?: \| HTTP_\w+)?, (\w+),\s+(PAGE|DEBUG)\((\w+)\)', source("api/routes.inc"), re.M)
    assert of_models == {name for name, kind, handler in rows if kind == "DEBUG" or handler in handlers}


def test_pages_are_as_described(doc, server):
    """Every page without a parameter in its path: what it answers now fits what is said of it, refusals too."""
    for path, method, o in operations(doc):
        if method != "GET" or "{" in path:
            continue
        r = server.get(path)
        told = o["responses"]["200" if r.status == 200 else "default"]["content"]
        kind = r.headers["Content-Type"].split(";")[0]
        assert kind in told, (path, kind)
        if "$ref" in told[kind]["schema"]:
            validate(doc, told[kind]["schema"]["$ref"].rsplit("/", 1)[1], r.json)


def test_what_is_deleted_is_as_described(doc, start, tmp_path):
    (tmp_path / "batches").mkdir()
    s = start("--batch-dir", str(tmp_path / "batches"), "--responses-db", str(tmp_path / "r.db"))
    data = b"--b\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n--b\r\nContent-Disposition: form-data; " \
           b"name=\"file\"; filename=\"a\"\r\n\r\n{}\r\n--b--\r\n"
    kept = s.request("POST", "/v1/files", data, headers={"Content-Type": "multipart/form-data; boundary=b"}).json["id"]
    answer = s.post("/v1/responses", {"input": "Once", "max_output_tokens": 1}).json["id"]
    for path, name in ((f"/v1/files/{kept}", "/v1/files/{file_id}"), (f"/v1/responses/{answer}", "/v1/responses/{response_id}")):
        r = s.request("DELETE", path)
        told = doc["paths"][name]["delete"]["responses"]["200"]["content"]["application/json"]["schema"]
        assert r.status == 200 and r.json["deleted"] is True
        validate(doc, told["$ref"].rsplit("/", 1)[1], r.json)


def test_open_routes_need_no_key(doc, start, tmp_path):
    keys = tmp_path / "keys.ini"
    keys.write_text(make_key("a")[0])
    s = start("--api-keys", str(keys), "--metrics-open", "off")
    for path, method, o in operations(doc):
        r = s.request(method, path.replace("{model}", "x").replace("{file}", "main.js"), {} if method == "POST" else None)
        assert r.status == (200 if o.get("security") == [] else 401), path


# ---- fields

def forms():
    """The members of enum params_form as numbers."""
    values = {}
    for name, text in re.findall(r"^    (PARAMS_\w+) = ([^,]+),", source("api/params/params.h"), re.M):
        values[name] = eval(text.replace("1u", "1"), {}, values)
    return values


@pytest.mark.parametrize("name", FORMS)
def test_every_field_and_no_other(doc, name):
    text, values = source("api/params/params_fields.inc"), forms()
    rows = re.findall(r"^(?:\w*FIELD|ALIAS|CHECKED|NO_EFFECT|REFUSED)\((\w+), ([^,]+),()", text, re.M)
    assert len(rows) == len(re.findall(r"^[A-Z_]+\(", text, re.M)) > 80
    known = {field for field, form, _ in rows if eval(form, {}, values) & values[FORMS[name]]}
    assert set(doc["components"]["schemas"][name]["properties"]) == known


def test_documented_fields_are_known(doc, server):
    """A null is an absent field, but of a known name."""
    fields = {f: None for f in doc["components"]["schemas"]["CompletionRequest"]["properties"]}
    before = server.metrics()["quire_unknown_fields_total"]
    server.complete(**{**fields, "prompt": "Once", "max_tokens": 1})
    assert server.metrics()["quire_unknown_fields_total"] == before
    server.complete("Once", max_tokens=1, no_such_field=None)
    assert server.metrics()["quire_unknown_fields_total"] == before + 1


def test_fields_of_the_tokenizer(doc):
    text = source("api/text_endpoints.c")
    for name, function in (("TokenizeRequest", "encode"), ("DetokenizeRequest", "decode")):
        body = re.search(rf"^static int {function}\(.*?^}}", text, re.M | re.S)[0]
        known = set(re.findall(r'(?:field_find|read_text_flag)\(body, "(\w+)"', body))
        if name == "TokenizeRequest":
            assert 'field_find(body, "messages")' in text
            known |= {"messages", "model"}  # whose tokens: the router's
        assert known and set(doc["components"]["schemas"][name]["properties"]) == known


def test_ranges_are_those_that_are_checked(doc, server):
    """Beyond a documented bound the field is refused by name; at the bound it is not."""
    n = 0
    for field, s in doc["components"]["schemas"]["CompletionRequest"]["properties"].items():
        step = 1 if "integer" in s.get("type", []) else 0.001
        cases = []
        if "minimum" in s:
            cases += [(s["minimum"] - step, False), (s["minimum"], True)]
        if "exclusiveMinimum" in s:
            cases += [(s["exclusiveMinimum"], False), (s["exclusiveMinimum"] + step, True)]
        if "maximum" in s:
            cases += [(s["maximum"] + step, False), (s["maximum"], True)]
        if "maxLength" in s:
            cases += [("x" * (s["maxLength"] + 1), False), ("x" * s["maxLength"], True)]
        for value, is_fine in cases:
            # A dry run: nothing is computed, however much is asked for.
            r = server.post("/v1/plan", {"prompt": "Once", "max_tokens": 1, field: value})
            is_refused = r.status == 400 and r.json["error"]["param"] == field
            if field == "min_tokens" and r.status == 400:  # beyond max_tokens, which is another rule
                is_refused = "above" not in r.json["error"]["message"]
            assert is_refused != is_fine, (field, value, r.body)
            n += 1
    assert n > 40


@pytest.mark.parametrize("body", [
    {"prompt": "a"}, {"prompt": ["a", "b"]}, {"prompt": [1, 2]}, {"prompt": [[1], [2]], "n": 2},
    {"prompt": "a", "stop": ["x"], "priority": "high", "logit_bias": {"5": 1.5}, "seed": 5, "timings": True},
    {"prompt": "a", "priority": 2, "stop": "x", "stream": True, "stream_options": {"include_usage": True}},
])
def test_bodies_that_are_taken_are_valid(doc, server, body):
    validate(doc, "CompletionRequest", body)
    assert server.post("/v1/completions", {**body, "max_tokens": 1}).status == 200


def test_bodies_of_plans(doc, server):
    for body, is_fine in (({"prompt": "a", "n": 2}, True), ({"input": "a", "dimensions": 3}, True),
                          ({"state": "a", "questions": {"b": {"type": "noul"}}}, True), ({"n": 2}, False)):
        assert (server.post("/v1/plan", body).status == 200) == is_fine
        if is_fine:
            validate(doc, "PlanRequest", body)
        else:
            with pytest.raises(jsonschema.ValidationError):
                validate(doc, "PlanRequest", body)
    fields = {f for name in ("CompletionRequest", "EmbeddingRequest", "DecisionRequest", "SystemOneRequest")
              for f in doc["components"]["schemas"][name]["properties"]}
    assert set(doc["components"]["schemas"]["PlanRequest"]["properties"]) == fields


@pytest.mark.parametrize("body", [{}, {"prompt": 5}, {"prompt": []}, {"prompt": "a", "stop": 5},
                                  {"prompt": "a", "priority": "urgent"}, {"prompt": "a", "temperature": 3}])
def test_bodies_that_are_refused_are_not(doc, server, body):
    with pytest.raises(jsonschema.ValidationError):
        validate(doc, "CompletionRequest", body)
    r = server.post("/v1/completions", body)
    assert r.status == 400
    validate(doc, "Error", r.json)


# ---- answers

def test_answers_are_as_described(doc, server):
    chat = [{"role": "user", "content": "Once"}]
    bodies = {
        "/v1/completions": [{"prompt": "Once", "max_tokens": 3},
                            {"prompt": ["Once", "Twice"], "n": 2, "max_tokens": 3, "logprobs": 2, "timings": True,
                             "return_token_ids": True}],
        "/v1/chat/completions": [{"messages": chat, "max_tokens": 3},
                                 {"messages": chat, "max_tokens": 3, "logprobs": True, "top_logprobs": 2}],
        "/completion": [{"prompt": "Once", "n_predict": 3}, {"prompt": ["a", [1]], "n_predict": 2, "n_probs": 1}],
        "/infill": [],  # not with this model: the same answer as /completion
        "/v1/embeddings": [{"input": "Once"}, {"input": ["a", "b"], "encoding_format": "base64", "dimensions": 3}],
        "/embedding": [{"content": "Once"}, {"content": ["a", [1, "b"]], "dimensions": 3}, {"input": "a", "encoding_format": "base64"}],
        "/v1/rerank": [{"query": "a", "documents": ["b", {"text": "c"}]}, {"query": "a", "texts": ["b"]}],
        "/v2/rerank": [{"query": "a", "documents": ["b"]}],
        "/v2/embed": [{"texts": ["Once"], "embedding_types": ["float", "int8", "uint8", "binary", "ubinary", "base64"]},
                      {"inputs": [{"content": [{"type": "text", "text": "Once"}]}]}],
        "/v1/reranking": [{"query": "a", "documents": ["b"]}],
        "/score": [{"text_1": "a", "text_2": ["b", "c"]}],
        "/generative_scoring": [{"query": "a", "items": ["b", [5]], "label_token_ids": [5, 6]}],
        "/v1/decisions": [{"input": "a", "questions": [
            {"type": "predicate", "instructions": "b"}, {"type": "choice", "name": "c", "instructions": "d",
                                                         "choices": [{"value": "e"}, {"value": True}]},
            {"type": "score", "instructions": "f", "levels": [{"label": "g"}, {"label": "h", "description": "i"}]}]}],
        "/v1/systemone": [{"state": {"a": 1}, "questions": {
            "b": {"type": "noul"}, "c": {"type": "choice", "criteria": {"d": None, "e": "f"}},
            "g": {"type": "score", "criteria": ["h", {"i": 2}]}}}],
        "/classify": [],  # not with this model
        "/pooling": [{"input": "Once"}, {"input": ["a", "b"], "task": "token_embed"}],
        "/v1/responses": [{"input": "Once", "max_output_tokens": 3},
                          {"input": "Once", "max_output_tokens": 3, "tools": [{"type": "web_search"}]}],
        "/v1/responses/input_tokens": [{"input": "Once"}],
        "/v1/chat/completions/input_tokens": [{"messages": chat}],
        "/v1/completions/render": [{"prompt": "Once"}, {"prompt": [[5], [6, 7]], "n": 2}],
        "/v1/chat/completions/render": [{"messages": chat}],
        "/v1/chat/completions/control": [{"id": "chatcmpl-x", "action": "reasoning_end"}],
        "/v1/streams/lookup": [{"conversation_ids": ["a"]}, {}],
        "/v1/messages": [{"messages": chat, "max_tokens": 3}],
        "/v1/messages/count_tokens": [{"messages": chat}],
        "/apply-template": [{"messages": chat}],
        "/v1/plan": [{"prompt": "Once"}, {"input": ["Once", "Twice"]}],
        "/tokenize": [{"content": "a b"}, {"content": "é", "with_pieces": True}, {"prompt": "a"}],
        "/api/generate": [{"prompt": "Once", "stream": False, "options": {"num_predict": 3}}, {"model": "default"},
                          {"prompt": "Once", "raw": True, "stream": False, "options": {"num_predict": 3}, "logprobs": True}],
        "/api/chat": [{"messages": chat, "stream": False, "options": {"num_predict": 3}}, {"messages": []}],
        "/api/embed": [{"input": "Once"}, {"input": ["a", "b"], "dimensions": 3}, {"input": ""}],
        "/api/embeddings": [{"prompt": "Once"}],
        "/api/show": [{"model": "quire-demo"}, {"name": "quire-demo:latest"}],
        "/api/blobs/{digest}": [], "/api/pull": [], "/api/push": [], "/api/create": [], "/api/copy": [], "/api/delete": [],  # refused
        "/models/load": [], "/models/unload": [],  # test_models_come_and_go.py
        "/detokenize": [{"tokens": [5]}, {"tokens": [5], "model": "default"}],
    }
    seen = 0
    for path, method, o in operations(doc):
        if "{response_id}" in path:  # of kept responses: test_responses_store.py
            continue
        if "{stream_id}" in path or path == "/v1/stream":  # of kept streams: test_streams.py
            continue
        if "{id_slot}" in path:  # with a setting: test_slots.py
            continue
        if path.startswith(("/v1/files", "/v1/batches")):  # with a setting: test_batches.py
            continue
        if path in ("/models/load", "/models/unload"):  # of models that come and go: test_models_come_and_go.py
            continue
        if path in ADAPTERS and method == "POST":  # with settings: test_adapters_served.py
            continue
        if (path, method) == ("/props", "POST"):  # with a setting: test_endpoints.py
            continue
        content = o["responses"]["200"]["content"]
        first = re.search(r" Another name for (/\S+)\.$", o["summary"])
        for body in bodies.get(first[1] if first else path, [None]):
            assert (method == "POST" and "requestBody" in o) == (body is not None), f"{path} needs a body here"
            r = server.request(method, path.replace("{model}", "quire-demo").replace("{file}", "main.js"), body)
            assert r.status == 200, (path, r.body)
            assert r.headers["Content-Type"].split(";")[0] in content
            if "application/json" in content:
                validate(doc, content["application/json"]["schema"]["$ref"].rsplit("/", 1)[1], r.json)
                seen += 1
    assert seen > 12
    for frame in server.stream("Once", max_tokens=3, stream_options={"include_usage": True}, logprobs=1):
        validate(doc, "Completion", frame)
    for path, method, o in operations(doc):
        if "requestBody" in o:
            wrong = server.request(method, path, [])
            assert wrong.status == (501 if "{id_slot}" in path or path in ADAPTERS else 400)  # which are off
            error = o["responses"]["default"]["content"]["application/json"]["schema"]["$ref"]
            validate(doc, error.rsplit("/", 1)[1], wrong.json)
    validate(doc, "Error", server.get("/nowhere").json)
