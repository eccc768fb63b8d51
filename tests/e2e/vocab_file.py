"""GGUF files that hold a vocabulary and nothing else."""
import struct

U8, U32, I32, F32, BOOL, STRING, ARRAY = 0, 4, 5, 6, 7, 8, 9
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)


def text(value):
    data = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(data)) + data


def array(values):
    if isinstance(values, bytes):
        return struct.pack("<IQ", U8, len(values)) + values
    if not values or isinstance(values[0], (str, bytes)):
        return struct.pack("<IQ", STRING, len(values)) + b"".join(map(text, values))
    kind, form = (F32, "f") if isinstance(values[0], float) else (I32, "i")
    return struct.pack(f"<IQ{len(values)}{form}", kind, len(values), *values)


def value(v):
    if isinstance(v, bool):
        return struct.pack("<IB", BOOL, v)
    if isinstance(v, int):
        return struct.pack("<II", U32, v)
    if isinstance(v, str):
        return struct.pack("<I", STRING) + text(v)
    return struct.pack("<I", ARRAY) + array(v)


def write(path, model, tokens, **keys):
    """tokens: texts; keys: what follows tokenizer.ggml., as int, bool, str, list or bytes."""
    pairs = {"general.architecture": "llama", "tokenizer.ggml.model": model, "tokenizer.ggml.tokens": tokens}
    pairs.update({f"tokenizer.ggml.{k.replace('__', '.')}": v for k, v in keys.items()})
    body = b"".join(text(k) + value(v) for k, v in pairs.items())
    with open(path, "wb") as f:
        f.write(struct.pack("<4sIQQ", b"GGUF", 3, 0, len(pairs)) + body)
