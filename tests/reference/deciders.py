"""What heads of models for decisions compute, in float64: scores(model, ids, kind) gives one for each option of the prompt."""
import math

import numpy as np

import forward
import gguf_file
from layers import attention, gelu, linear, split_heads, queries_keys_values
from parts import norm

KINDS = ("choice", "score", "noul")  # the rows of token_types


def places(model, ids, name):
    token = model.keys["tokenizer.ggml.tokens"].index(name)
    return [i for i, t in enumerate(ids) if t == token]


def hidden_rows(model, ids):
    """What the output matrix of a decoder takes."""
    bare = gguf_file.Model(model.keys, {**model.tensors, "output.weight": np.eye(model.key("embedding_length"))})
    return forward.forward(bare, ids)


def kev(model, ids, kind):
    """Of each option's end a key, of the prompt's end a query."""
    rows = linear(hidden_rows(model, ids), model["cls.output.weight"], model["cls.output.bias"])
    n = rows.shape[1] // 2
    return rows[places(model, ids, "<|box_end|>")][:, n:] @ rows[-1][:n] / math.sqrt(n)


def laya(model, ids, kind):
    """Layers over an encoder's result, which are told the kind of question: norms before, biases, ReLU, no positions."""
    n_head = model.key("decision.block_count")
    n_body = model.key("block_count") - n_head
    body = gguf_file.Model({**model.keys, f"{model.arch}.block_count": n_body,
                            f"{model.arch}.feed_forward_length": model.key("feed_forward_length")[0]}, model.tensors)
    eps, heads = model.key("attention.layer_norm_epsilon"), model.key("attention.head_count")
    x = forward.forward(body, ids) + model["token_types.weight"][KINDS.index(kind)]
    n = x.shape[1]
    for i in range(n_body, n_body + n_head):
        b = model.block(i)
        q, k, v = (split_heads(part, n // heads) for part in queries_keys_values(b, norm(x, b, "attn_norm", eps), n, n))
        y = attention(q, k, v, 1 / math.sqrt(n // heads), causal=False)
        x = x + linear(y, b["attn_output.weight"], b["attn_output.bias"])
        y = np.maximum(linear(norm(x, b, "ffn_norm", eps), b["ffn_up.weight"], b["ffn_up.bias"]), 0)
        x = x + linear(y, b["ffn_down.weight"], b["ffn_down.bias"])
    x = gelu(linear(norm(x, model.tensors, "cls.norm", eps), model["cls.weight"], model["cls.bias"]))
    rows = linear(x, model["cls.output.weight"], model["cls.output.bias"])
    return rows[places(model, ids, "[MASK]")][:, 0]


SCORES = {"kev": kev, "laya": laya}


def cut(model, ids):
    """The ids of Laya's prompt with a question and options as long as it was trained with."""
    most, at = model.key("decision.max_head_tokens"), places(model, ids, "[MASK]")
    [sep] = {ids[i] for i in places(model, ids, "[SEP]")}
    end = ids.index(sep, at[-1])
    question = ids[1:at[0] - 1]
    options = [ids[a:b][:49] for a, b in zip(at, [*at[1:], end])]
    if sum(map(len, options)) + 16 > most:
        share = max(4, max(0, most - 16) // len(options))
        options = [o[:share] for o in options]
    rest = max(8, most - sum(map(len, options)))
    return [ids[0], *question[:rest], sep, *(t for o in options for t in o), *ids[end:]]
