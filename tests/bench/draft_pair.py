"""A large model and a draft model for it, made of one model: for bench_speculation.py --draft.

usage: draft_pair.py MODEL.gguf FOLDER [TIMES]     writes FOLDER/large.gguf and FOLDER/draft.gguf

The large one has TIMES as many layers, of which all but MODEL's own add nothing: it says what MODEL says, and costs what a
model of that size costs. The draft model lacks one of MODEL's middle layers, and so says something else now and then.
"""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "reference"))
import gguf_file  # noqa: E402

ADDS = ("attn_output.weight", "ffn_down.weight", "attn_output.bias", "ffn_down.bias")  # a layer's parts to the sum


def layer_of(name):
    m = re.match(r"blk\.(\d+)\.(.*)", name)
    return (int(m[1]), m[2]) if m else (None, name)


def with_layers(keys, tensors, order):
    """The file of the layers `order`, of which None is one that adds nothing."""
    arch = keys["general.architecture"]
    parts = {n: t for n, t in tensors.items() if layer_of(n)[0] is None}
    own = [(layer_of(n), t) for n, t in tensors.items() if layer_of(n)[0] is not None]
    for to, i in enumerate(order):
        for (layer, name), (kind, shape, data) in own:
            if layer == (i or 0):
                parts[f"blk.{to}.{name}"] = kind, shape, bytes(len(data)) if i is None and name in ADDS else data
    return gguf_file.write({**keys, f"{arch}.block_count": len(order)}, parts)


def main():
    keys, tensors = gguf_file.read_parts(pathlib.Path(sys.argv[1]).read_bytes())
    folder, times = pathlib.Path(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 10
    n = keys[keys["general.architecture"] + ".block_count"]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "large.gguf").write_bytes(
        with_layers(keys, tensors, [x for i in range(n) for x in [i] + [None] * (times - 1)]))
    (folder / "draft.gguf").write_bytes(
        with_layers(keys, tensors, [i for i in range(n) if not i == n // 2]))


if __name__ == "__main__":
    main()
