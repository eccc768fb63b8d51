"""A real embedder against float64: cosines of 20 texts, and the same bits alone and all at once."""
import json
import struct

import numpy as np

import forward
import gguf_file
import hf_folder
from quire import Server

CLOSE = 0.9999  # least cosine of the server's vector and the reference's
WORDS = [1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 18, 22, 27, 33, 40, 50, 65, 90, 140, 220]  # of each text
WHOLE = ["token_embd.weight", "position_embd.weight", "token_types.weight", "token_embd_norm.weight",
         "token_embd_norm.bias"]


def texts(prompts):
    words = " ".join(prompts).split()
    return [" ".join((words[7 * i:] + words)[:n]) for i, n in enumerate(WORDS)]


def arrays(path):
    """The tensors of model.safetensors, which are F32."""
    data = path.read_bytes()
    n, = struct.unpack_from("<Q", data)
    head = json.loads(data[8:8 + n])
    head.pop("__metadata__", None)
    return {name: np.frombuffer(data, "<f4", int(np.prod(t["shape"])), 8 + n + t["data_offsets"][0])
            .reshape(t["shape"]).astype(np.float64) for name, t in head.items() if t["dtype"] == "F32"}


def reference(folder):
    """The model as the forward pass of tests/reference wants it."""
    config, theirs = json.loads((folder / "config.json").read_text()), arrays(folder / "model.safetensors")
    names = WHOLE + [f"blk.{i}.{part}.{end}" for i in range(config["num_hidden_layers"])
                     for part in hf_folder.BERT_LAYER for end in ("weight", "bias")]
    keys = {"general.architecture": "bert", "bert.block_count": config["num_hidden_layers"],
            "bert.embedding_length": config["hidden_size"], "bert.context_length": config["max_position_embeddings"],
            "bert.attention.head_count": config["num_attention_heads"],
            "bert.attention.layer_norm_epsilon": config["layer_norm_eps"]}
    return gguf_file.Model(keys, {n: theirs[hf_folder.bert_name(n)] for n in names})


def cosine(a, b):
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def embed(server, inputs):
    r = server.post("/v1/embeddings", {"input": inputs}, timeout=300)
    assert r.status == 200, r.body
    return [d["embedding"] for d in r.json["data"]]


def check(name, folder, prompts):
    """The lines of the report."""
    asked, s = texts(prompts), Server(model=folder)
    try:
        alone = [embed(s, [text])[0] for text in asked]
        together = embed(s, asked)
        ids = [s.post("/tokenize", {"content": t, "add_special": True}).json["tokens"] for t in asked]
    finally:
        s.stop()
    assert together == alone, f"{name}: other bits in a batch"
    model = reference(folder)
    found = [cosine(np.array(v), forward.forward(model, i).mean(axis=0)) for v, i in zip(alone, ids)]
    print(f"{name:10} {len(asked)} texts of {min(map(len, ids))} to {max(map(len, ids))} tokens, same bits alone and at "
          f"once; cosines with float64:\n           " + " ".join(f"{c:.6f}" for c in found), flush=True)
    assert min(found) >= CLOSE, f"{name}: a cosine of {min(found):.6f}"
