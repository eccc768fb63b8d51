"""Models that count, and whose layer for guesses does so too: see counting()."""
import numpy as np

import fixtures
import gguf_file
from rounding import encode

ADD = ("attn_output", "ffn_down", "ssm_out")  # the matrices of what layers add


def counting(arch, variant, kind, is_right=True, **sizes):
    """The bytes of a fixture, with other sizes (those of fixture.Fixture), in which the likeliest token behind another one
    is that of the next id; random layers say otherwise now and then. So guesses the layer for that, unless is_right is
    False: then its guesses are as random as its weights."""
    keys, tensors = gguf_file.read_parts(fixtures.make(arch, variant, kind, **sizes))
    n_vocab, n = tensors["token_embd.weight"][1]
    embed = np.random.default_rng(1).normal(0, 1, (n_vocab, n))
    after = np.roll(embed, 1, axis=0) * 4 / n ** 0.5

    def put(name, values):
        tensors[name] = tensors[name][0], values.shape, encode(tensors[name][0], values)
    for name, t in list(tensors.items()):
        if name == "token_embd.weight" or name.endswith("nextn.embed_tokens.weight"):
            put(name, embed)
        elif name == "output.weight" or name.endswith("nextn.shared_head_head.weight"):
            put(name, after)
        elif any(part in name for part in ADD):
            put(name, gguf_file.to_array(*t) * 0.35)
        elif name.endswith("nextn.eh_proj.weight") and is_right:
            put(name, np.concatenate([np.eye(n), 0.3 * gguf_file.to_array(*t)[:, n:]], axis=1))
    return gguf_file.write(keys, tensors)
