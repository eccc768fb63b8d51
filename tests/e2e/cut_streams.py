"""Streams that are cut, and what must follow: frames as they came, and the tokens that they tell."""
import json
import re

# What an answer that is gone on with may have otherwise: how much of the prompt was in the cache here.
CACHED = re.compile(rb'"cached_tokens":\d+(,"cache_write_tokens":\d+)?')
SCHEMA = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 20}, "n": {"type": "integer"},
                                           "tags": {"type": "array", "items": {"enum": ["a", "bb", "ccc"]},
                                                    "minItems": 2, "maxItems": 6}}, "required": ["name", "n", "tags"]}
TOOL = {"type": "function", "function": {"name": "look_up", "parameters": SCHEMA}}
MESSAGES = [{"role": "user", "content": "Tell me of the sea."}]

# Everything that an answer's next token or next byte may hang on.
CASES = {
    "greedy": ("/v1/completions", {"prompt": "Once", "temperature": 0}),
    "sampled": ("/v1/completions", {"prompt": "Once", "temperature": 0.8}),
    "chain": ("/v1/completions", {"prompt": "Once", "temperature": 0.8, "top_k": 40, "top_p": 0.9, "min_p": 0.02,
                                  "xtc_probability": 0.5, "xtc_threshold": 0.05}),
    "penalties": ("/v1/completions", {"prompt": "Once upon", "temperature": 0.8, "repetition_penalty": 1.3,
                                      "frequency_penalty": 0.7, "presence_penalty": 0.3}),
    "dry": ("/v1/completions", {"prompt": "Once upon a time", "temperature": 0.8, "dry_multiplier": 0.8,
                                "repeat_last_n": 32, "repetition_penalty": 1.2}),
    "logprobs": ("/v1/completions", {"prompt": "Once", "temperature": 0.8, "logprobs": 3}),
    "echo": ("/v1/completions", {"prompt": "Once upon", "temperature": 0.8, "logprobs": 1, "echo": True}),
    "ids": ("/v1/completions", {"prompt": "Once", "temperature": 0.8, "return_token_ids": True}),
    "stop": ("/v1/completions", {"prompt": "Once", "temperature": 0.8, "stop": ["e a", "the", " sh"],
                                 "min_tokens": 30, "stream_options": {"include_usage": True}}),
    "eos": ("/v1/completions", {"prompt": "Once", "temperature": 1.2, "ignore_eos": False, "min_tokens": 12,
                                "stream_options": {"include_usage": True, "continuous_usage_stats": True}}),
    "schema": ("/v1/completions", {"prompt": "x", "temperature": 0.8, "json_schema": SCHEMA}),
    "grammar": ("/v1/completions", {"prompt": "x", "temperature": 0.8, "grammar": 'root ::= ([a-c] [0-9]+ " ")+'}),
    "choice": ("/v1/completions", {"prompt": "x", "temperature": 0.8, "guided_regex": "(ab|cd){3,20}e"}),
    "native": ("/completion", {"prompt": "Once", "temperature": 0.8, "n_probs": 2}),
    "chat": ("/v1/chat/completions", {"messages": MESSAGES, "temperature": 0.8, "logprobs": True, "top_logprobs": 2,
                                      "stream_options": {"include_usage": True}}),
    "tool": ("/v1/chat/completions", {"messages": MESSAGES, "temperature": 0.8, "tools": [TOOL],
                                      "tool_choice": "required", "max_tokens": 400}),
    "named": ("/v1/chat/completions", {"messages": MESSAGES, "temperature": 0.8, "tools": [TOOL], "max_tokens": 400,
                                       "tool_choice": {"type": "function", "function": {"name": "look_up"}}}),
}


def body_of(name, **more):
    path, fields = CASES[name]
    return path, {"max_tokens": 60, "seed": 7, "stream": True, "resume_tokens": True, "ignore_eos": True,
                  **fields, **more}


class Frame:
    """One event of a stream: its bytes, number, tokens, what `resume` says, and its data."""

    def __init__(self, raw):
        self.raw, self.id, self.tokens, self.resume, self.data = raw + b"\n\n", None, [], None, None
        for line in raw.split(b"\n"):
            if line.startswith(b"id: "):
                self.id = int(line[4:])
            elif line.startswith(b": tokens "):
                self.tokens = [int(t) for t in line[9:].split(b",")]
            elif line.startswith(b": resume "):
                self.resume = json.loads(line[9:])
            elif line.startswith(b"data: "):
                self.data = line[6:]


def frames_of(raw):
    """Whole events only; comments between them (pings) are none."""
    return [Frame(part) for part in raw.split(b"\n\n")[:-1] if not part.startswith(b": ping")]


def resume_of(frames):
    """What `resume` takes behind these frames."""
    return {**frames[0].resume, "tokens": [t for f in frames for t in f.tokens]}


def bytes_of(frames):
    return CACHED.sub(b'"cached_tokens":0', re.sub(rb'"timings":\{[^}]*\}', b'"timings":{}',
                                                   b"".join(f.raw for f in frames)))


def run(server, path, body, headers=None):
    r = server.post(path, body, headers=headers)
    assert r.status == 200, r.body
    return frames_of(r.body)
