"""Every documented field is obeyed, refused by its name, or listed as one that could change nothing; and there are no
others."""
import json

import pytest

from documented_fields import CHAT, FIELDS

PATHS = {"CompletionRequest": "/v1/completions", "ChatCompletionRequest": "/v1/chat/completions",
         "EmbeddingRequest": "/v1/embeddings", "RerankRequest": "/rerank", "ScoreRequest": "/score",
         "CohereEmbedRequest": "/v2/embed", "ScoringRequest": "/generative_scoring", "DecisionRequest": "/v1/decisions", "SystemOneRequest": "/v1/systemone",
         "PoolingRequest": "/pooling", "ResponsesRequest": "/v1/responses", "MessagesRequest": "/v1/messages",
         "CountTokensRequest": "/v1/messages/count_tokens", "NativeCompletionRequest": "/completion",
         "OllamaGenerateRequest": "/api/generate", "OllamaChatRequest": "/api/chat", "OllamaOptions": "/api/chat",
         "OllamaEmbedRequest": "/api/embed"}
GREEDY = {"temperature": 0, "num_predict": 2}
BASES = {"CompletionRequest": {"prompt": "Once upon", "max_tokens": 2},
         "ChatCompletionRequest": {"messages": CHAT, "max_tokens": 2}, "EmbeddingRequest": {"input": "Once upon"},
         "RerankRequest": {"query": "Once", "documents": ["Once upon", "a time"]},
         "PoolingRequest": {"input": "Once upon"},
         "CohereEmbedRequest": {"texts": ["Once upon"]},
         "ScoringRequest": {"query": "Once", "items": [" upon", " a"], "label_token_ids": [5, 6]},
         "DecisionRequest": {"input": "Once", "questions": [{"type": "predicate", "instructions": "It ends."}]},
         "SystemOneRequest": {"state": "Once", "questions": {"a": {"type": "noul", "instructions": "It ends."}}},
         "ScoreRequest": {"text_1": "Once upon", "text_2": ["Once"]},
         "ResponsesRequest": {"input": "Once", "max_output_tokens": 2},
         "MessagesRequest": {"messages": CHAT, "max_tokens": 2}, "CountTokensRequest": {"messages": CHAT},
         "NativeCompletionRequest": {"prompt": "Once upon", "n_predict": 2},
         "OllamaGenerateRequest": {"prompt": "Once upon", "stream": False, "options": GREEDY},
         "OllamaChatRequest": {"messages": CHAT, "stream": False, "options": GREEDY}, "OllamaOptions": GREEDY,
         "OllamaEmbedRequest": {"input": "Once upon"}}
POOLED = ("EmbeddingRequest", "RerankRequest", "ScoreRequest", "PoolingRequest", "DecisionRequest", "SystemOneRequest", "ScoringRequest",
          "CohereEmbedRequest")
WITH = {  # what a field is of no use without
    "stream_options": {"stream": True}, "top_logprobs": {"logprobs": True}, "logprob_token_ids": {"logprobs": True}, "function_call": {"functions": [
        {"name": "f"}]}, "post_sampling_probs": {"n_probs": 1},
}

@pytest.fixture(scope="module")
def schemas(server):
    return server.get("/openapi.json").json["components"]["schemas"]


def ask(server, body, fields):
    if body == "OllamaOptions":
        return server.post(PATHS[body], {"messages": CHAT, "stream": False, "options": {**GREEDY, **fields}})
    if body.startswith("Ollama"):
        return server.post(PATHS[body], {**BASES[body], **fields})
    greedy = {} if body in POOLED else {"temperature": 0}
    return server.post(PATHS[body], {**greedy, **BASES[body], **fields})


def text_of(r):
    """What does not change from answer to answer."""
    def clean(v):
        if isinstance(v, dict):
            return {k: clean(x) for k, x in v.items()
                    if k not in ("id", "created", "created_at", "timings", "usage", "metadata", "truncation",
                                 "max_tool_calls", "generation_settings", "user", "model") and not k.endswith("_duration")}
        return [clean(x) for x in v] if isinstance(v, list) else v
    return clean(r.json)


@pytest.mark.parametrize("body", FIELDS)
def test_the_documented_and_no_other(schemas, body):
    assert set(FIELDS[body]) == set(schemas[body]["properties"])


@pytest.mark.parametrize("body", PATHS)
def test_they_are_what_they_are_said_to_be(server, schemas, body):
    plain = text_of(ask(server, body, {}))
    uses = {name: p["x-quire"] for name, p in schemas[body]["properties"].items()}
    assert set(uses.values()) == {"obeyed", "ignored", "refused"} - ({"refused"} if body == "OllamaEmbedRequest" else set())
    for name, value in FIELDS[body].items():
        extra = {k: v for k, v in WITH.get(name, {}).items() if k in uses} if uses[name] == "obeyed" else {}
        r = ask(server, body, {**extra, name: value})
        if uses[name] == "refused":
            assert r.status == 400, (name, r.body)
            assert name in json.dumps(r.json), (name, r.body)
            assert "not supported" in json.dumps(r.json), (name, r.body)
        elif uses[name] == "ignored" and name not in ("adaptive_target",):
            assert r.status == 200 and text_of(r) == plain, (name, r.body)
        elif r.status != 200:  # a value that says what cannot be had
            assert r.status == 400 and name in json.dumps(r.json), (name, r.body)
            assert name in ("adaptive_target", "min_tokens", "previous_response_id", "background", "shift", "receipt", "messages", "inputs"), (name, r.body)


@pytest.mark.parametrize("body", PATHS)
def test_a_null_is_no_field(server, schemas, body):
    for name, p in schemas[body]["properties"].items():
        if p["x-quire"] != "obeyed":
            assert ask(server, body, {name: None}).status == 200, name


def test_harmless_values_are_taken(server):
    fields = {"use_beam_search": False, "length_penalty": 1.0, "documents": [], "chat_template": "", "audio": None,
              "lora": [], "grammar_lazy": False, "echo": False, "verbosity": "medium", "vllm_xargs": {},
              "modalities": ["text"], "watermarking": False, "adaptive_target": -1, "reasoning_budget": -1}
    assert ask(server, "ChatCompletionRequest", fields).status == 200
    for name, value in {"use_beam_search": 0, "length_penalty": "1", "documents": {}, "vllm_xargs": [], "lora": [1],
                        "verbosity": "Medium", "modalities": ["text", "audio"], "modalities ": 0}.items():
        r = ask(server, "ChatCompletionRequest", {name: value})
        assert (r.status == 200) == (name == "modalities "), (name, r.body)


@pytest.mark.parametrize("fields,remedy", [
    ({"conversation": "conv_1"}, "previous_response_id"), ({"conversation": {"id": "conv_1"}}, "previous_response_id"),
    ({"context_management": [{"type": "compaction", "compact_threshold": 1000}]}, "truncation auto")])
def test_a_refusal_says_what_to_use_instead(server, fields, remedy):
    r = ask(server, "ResponsesRequest", fields)
    assert r.status == 400 and r.json["error"]["param"] == next(iter(fields)) and remedy in r.json["error"]["message"], r.body


def test_infill_has_the_same_fields(schemas):
    native, infill = (schemas[f"{name}Request"]["properties"] for name in ("NativeCompletion", "Infill"))
    assert {k: v["x-quire"] for k, v in native.items()}.items() <= {k: v["x-quire"] for k, v in infill.items()}.items()
