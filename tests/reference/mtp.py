"""What a layer that guesses tokens computes ("nextn" in files: multi-token prediction), in float64.

Its input at a position is made of the token there and of the model's last hidden state before it. As
a layer it is one of its family's: so it is run as a model of that layer alone, whose embeddings are
its inputs. Hidden states, too, are the logits of a model, of one whose output matrix is 1.
"""
import copy

import numpy as np

import forward
from layers import linear, rms_norm


def with_tensors(m, keys, tensors):
    other = copy.copy(m)
    other.keys = {**m.keys, **{f"{m.arch}.{k}": v for k, v in keys.items()}}
    other.tensors = {**m.tensors, **tensors}
    return other


def layer(m):
    """The tensors of the layer, and of what is around it."""
    return m.block(m.n_layer)


def hidden(m, ids, n_ctx, cache):
    """What the model's last norm makes of each token; and how near each was to other experts."""
    n = m["token_embd.weight"].shape[1]
    body = with_tensors(m, {}, {"output.weight": np.eye(n)})
    return forward.forward(body, ids, n_ctx, cache), body.edge


def rows_of(m, inputs, output, n_ctx, cache):
    """What the layer makes of its inputs, through its norm and a matrix."""
    b = layer(m)
    one = with_tensors(m, {"block_count": 1, "nextn_predict_layers": 0, "full_attention_interval": 1}, {
        **{f"blk.0.{name}": t for name, t in b.items()},
        "token_embd.weight": inputs,
        "output_norm.weight": b.get("nextn.shared_head_norm.weight", m["output_norm.weight"]),
        "output.weight": output})
    one.n_layer = 1
    one.tensors = {name: t for name, t in one.tensors.items() if not name.startswith("blk.") or name[6:] in b}
    return forward.forward(one, np.arange(len(inputs)), n_ctx, cache), one.edge


def head(m):
    own = layer(m).get("nextn.shared_head_head.weight", m.get("output.weight"))
    return m["token_embd.weight"] if own is None else own


def joined(m, ids, before):
    """The layer's inputs: ids, and the hidden state before each."""
    b, eps = layer(m), m.key("attention.layer_norm_rms_epsilon")
    embed = b.get("nextn.embed_tokens.weight", m["token_embd.weight"])[np.asarray(ids)]
    both = [rms_norm(embed, b["nextn.enorm.weight"], eps), rms_norm(before, b["nextn.hnorm.weight"], eps)]
    return linear(np.concatenate(both, axis=1), b["nextn.eh_proj.weight"])


def guesses(m, ids, points, n, n_ctx=None, cache=np.asarray):
    """For each point p, where ids[:p + 1] are known and the states before p, the logits of n guesses,
    each going on from the likeliest token of the one before. m.edge tells how near each was to other
    experts, its own and those of the tokens before it."""
    states, edge = hidden(m, ids, n_ctx, cache)
    before = np.concatenate([np.zeros((1, states.shape[1])), states[:-1]])
    inputs, one, rows, edges = joined(m, ids, before), np.eye(states.shape[1]), [], []
    for p in points:
        seen = inputs[:p + 1]
        for _ in range(n):
            logits, own_edge = rows_of(m, seen, head(m), n_ctx, cache)
            rows.append(logits[-1])
            edges.append(min(edge[:p + 1].min(), own_edge[p:].min()))
            state = rows_of(m, seen, one, n_ctx, cache)[0][-1:]
            seen = np.concatenate([seen, joined(m, [logits[-1].argmax()], state)])
    m.edge = np.array(edges)
    return np.array(rows)
