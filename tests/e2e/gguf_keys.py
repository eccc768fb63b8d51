"""A copy of a model file with more keys in its metadata."""
import struct

SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
STRING, ARRAY, U32 = 8, 9, 4


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def number(self, form):
        value, = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize("<" + form)
        return value

    def string(self):
        n = self.number("Q")
        self.at += n
        return self.data[self.at - n:self.at]

    def skip_value(self, kind):
        if kind == STRING:
            self.string()
        elif kind == ARRAY:
            element, n = self.number("I"), self.number("Q")
            for _ in range(n):
                self.skip_value(element)
        else:
            self.at += SIZES[kind]


def add_numbers(data, numbers, alignment=32):
    """The bytes of a GGUF file with the keys of `numbers` as 32-bit integers beside its own."""
    r = Reader(data)
    assert r.number("4s") == b"GGUF"
    version, n_tensors, n_keys = r.number("I"), r.number("Q"), r.number("Q")
    begin = r.at
    for _ in range(n_keys):
        r.string()
        r.skip_value(r.number("I"))
    keys_end = r.at
    for _ in range(n_tensors):
        r.string()
        n_dims = r.number("I")
        r.at += 8 * n_dims + 4 + 8
    more = b"".join(struct.pack("<Q", len(k)) + k.encode() + struct.pack("<II", U32, v) for k, v in numbers.items())
    head = struct.pack("<4sIQQ", b"GGUF", version, n_tensors, n_keys + len(numbers))
    head += data[begin:keys_end] + more + data[keys_end:r.at]
    head += bytes(-len(head) % alignment)
    return head + data[r.at + -r.at % alignment:]
