"""GGUF version 3 files: writing them from arrays, reading them as float64.

Values of keys are Python's own: int is a uint32, float a float32, bool, str, and lists of one of
these (ints as int32). A tensor is a numpy array in row-major order, the file's first dimension
last: a matrix that maps n_in numbers to n_out has the shape (n_out, n_in).
"""
import struct

import numpy as np

from quants import decode, row_bytes

U32, I32, F32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", U32: "I", I32: "i", F32: "f", BOOL: "?", 10: "Q", 11: "q",
           12: "d"}
ALIGNMENT = 32

# Name, number in the file, numbers in a block, bytes of a block.
TYPES = [("F32", 0, 1, 4), ("F16", 1, 1, 2), ("Q4_0", 2, 32, 18), ("Q4_1", 3, 32, 20), ("Q5_0", 6, 32, 22),
         ("Q5_1", 7, 32, 24), ("Q8_0", 8, 32, 34), ("Q2_K", 10, 256, 84), ("Q3_K", 11, 256, 110),
         ("Q4_K", 12, 256, 144), ("Q5_K", 13, 256, 176), ("Q6_K", 14, 256, 210), ("IQ2_XXS", 16, 256, 66),
         ("IQ2_XS", 17, 256, 74), ("IQ3_XXS", 18, 256, 98), ("IQ1_S", 19, 256, 50), ("IQ4_NL", 20, 32, 18),
         ("IQ3_S", 21, 256, 110), ("IQ2_S", 22, 256, 82), ("IQ4_XS", 23, 256, 136), ("IQ1_M", 29, 256, 56),
         ("BF16", 30, 1, 2), ("TQ1_0", 34, 256, 54), ("TQ2_0", 35, 256, 66), ("MXFP4", 39, 32, 17),
         ("NVFP4", 40, 64, 36), ("Q1_0", 41, 128, 18), ("Q2_0", 42, 64, 18),
         ("IQ2_K", 137, 256, 76), ("IQ3_K", 138, 256, 110), ("IQ4_K", 139, 256, 144),
         ("IQ5_K", 140, 256, 176), ("IQ6_K", 141, 256, 212), ("IQ4_KS", 144, 256, 136), ("IQ5_KS", 152, 256, 168)]
BY_NAME = {t[0]: t for t in TYPES}
BY_NUMBER = {t[1]: t for t in TYPES}


class Model:
    """The keys and tensors of a file, as the forward pass asks for them."""

    def __init__(self, keys, tensors):
        self.keys, self.tensors = keys, tensors
        self.arch = keys["general.architecture"]
        self.n_layer = self.key("block_count") - self.key("nextn_predict_layers", 0)
        self.cache, self.edge = np.asarray, None  # the forward pass's: see there

    def key(self, suffix, *default):
        """A key of the architecture; without a default it must be there."""
        name = f"{self.arch}.{suffix}"
        if name not in self.keys and default:
            return default[0]
        return self.keys[name]

    def get(self, name):
        """A tensor, or None."""
        return self.tensors.get(name)

    def __getitem__(self, name):
        return self.tensors[name]

    def block(self, i):
        """The tensors of layer i, by their names without `blk.i.`."""
        begin = f"blk.{i}."
        return {n[len(begin):]: t for n, t in self.tensors.items() if n.startswith(begin)}


# ---- writing ----

def put_string(s):
    data = s.encode()
    return struct.pack("<Q", len(data)) + data


def put_value(v):
    """The type and the bytes of a value."""
    if isinstance(v, (bool, np.bool_)):
        return BOOL, struct.pack("<?", v)
    if isinstance(v, int):
        return U32, struct.pack("<I", v)
    if isinstance(v, float):
        return F32, struct.pack("<f", v)
    if isinstance(v, str):
        return STRING, put_string(v)
    parts = [put_value(x) for x in v]
    kind = parts[0][0] if parts else STRING
    if kind == U32:
        kind, parts = I32, [(I32, struct.pack("<i", x)) for x in v]
    return ARRAY, struct.pack("<IQ", kind, len(parts)) + b"".join(p[1] for p in parts)


def pad(data):
    return data + bytes(-len(data) % ALIGNMENT)


def write(keys, tensors):
    """keys: name -> value. tensors: name -> (type name, shape, bytes). The file's bytes."""
    head = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(keys))
    for name, value in keys.items():
        kind, data = put_value(value)
        head += put_string(name) + struct.pack("<I", kind) + data
    body = bytearray()
    for name, (kind, shape, data) in tensors.items():
        head += put_string(name) + struct.pack(f"<I{len(shape)}Q", len(shape), *reversed(shape))
        head += struct.pack("<IQ", BY_NAME[kind][1], len(body))
        body += pad(data)
    return pad(head) + bytes(body)


# ---- reading ----

class Cursor:
    def __init__(self, data):
        self.data, self.at = data, 0

    def number(self, form):
        value, = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize("<" + form)
        return value

    def string(self):
        n = self.number("Q")
        self.at += n
        return self.data[self.at - n:self.at].decode()

    def value(self, kind):
        if kind == STRING:
            return self.string()
        if kind == ARRAY:
            element, n = self.number("I"), self.number("Q")
            return [self.value(element) for _ in range(n)]
        return self.number(SCALARS[kind])


def read_parts(data):
    """keys, and tensors as write() takes them."""
    c = Cursor(data)
    assert c.number("4s") == b"GGUF" and c.number("I") == 3
    n_tensors, n_keys = c.number("Q"), c.number("Q")
    keys = {}
    for _ in range(n_keys):
        name = c.string()
        keys[name] = c.value(c.number("I"))
    infos = []
    for _ in range(n_tensors):
        name = c.string()
        shape = tuple(reversed([c.number("Q") for _ in range(c.number("I"))]))
        infos.append((name, shape, BY_NUMBER[c.number("I")], c.number("Q")))
    begin = c.at + -c.at % keys.get("general.alignment", ALIGNMENT)
    tensors = {}
    for name, shape, (kind, *_), offset in infos:
        n = int(np.prod(shape[:-1])) * row_bytes(kind, shape[-1])
        tensors[name] = (kind, shape, data[begin + offset:begin + offset + n])
    return keys, tensors


def with_keys(data, more):
    """The file with other keys beside its own."""
    keys, tensors = read_parts(data)
    return write({**keys, **more}, tensors)


def to_array(kind, shape, data):
    return np.asarray(decode(kind, data, shape[-1]), dtype=np.float64).reshape(shape)


def read(data):
    keys, tensors = read_parts(data)
    return Model(keys, {name: to_array(*t) for name, t in tensors.items()})
