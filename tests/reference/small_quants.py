"""The few block formats that fixtures are written in: numbers to bytes, and back as float64."""
import numpy as np

# The magnitudes of a 4-bit float with two bits of exponent; bit 3 of a code is the sign.
FP4 = np.array([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])
FP4_CODES = np.concatenate([FP4, -FP4])


def encode_q8_0(x):
    """Blocks of 32: a half-precision scale, then 32 signed bytes."""
    blocks = x.reshape(-1, 32)
    scale = (np.abs(blocks).max(axis=1, keepdims=True) / 127).astype("<f2")
    codes = np.zeros(blocks.shape)
    np.divide(blocks, scale.astype(np.float64), out=codes, where=scale > 0)
    codes = np.clip(np.rint(codes), -127, 127).astype("i1")
    return np.concatenate([scale.view("u1").reshape(-1, 2), codes.view("u1")], axis=1).tobytes()


def encode_mxfp4(x):
    """Blocks of 32: a power of two, biased by 127, then 32 codes of 4 bits, the first 16 low."""
    blocks = x.reshape(-1, 32)
    most = np.maximum(np.abs(blocks).max(axis=1, keepdims=True), 1e-30)
    power = np.clip(np.floor(np.log2(most / 4)), -120, 120)
    codes = np.abs((blocks / 2.0 ** power)[:, :, None] - FP4_CODES).argmin(axis=2).astype("u1")
    packed = codes[:, :16] | codes[:, 16:] << 4
    return np.concatenate([(power + 127).astype("u1"), packed], axis=1).tobytes()


def encode(kind, x):
    if kind == "F32":
        return x.astype("<f4").tobytes()
    if kind == "F16":
        return x.astype("<f2").tobytes()
    return {"Q8_0": encode_q8_0, "MXFP4": encode_mxfp4}[kind](x)


def decode_q8_0(data):
    blocks = np.frombuffer(data, "u1").reshape(-1, 34)
    scale = np.frombuffer(blocks[:, :2].tobytes(), "<f2").astype(np.float64)
    return scale[:, None] * blocks[:, 2:].view("i1").astype(np.float64)


def decode_mxfp4(data):
    blocks = np.frombuffer(data, "u1").reshape(-1, 17)
    scale = 2.0 ** (blocks[:, :1].astype(np.float64) - 127)
    codes = np.concatenate([blocks[:, 1:] & 15, blocks[:, 1:] >> 4], axis=1)
    return scale * FP4_CODES[codes]


def decode(kind, data):
    if kind == "F32":
        return np.frombuffer(data, "<f4").astype(np.float64)
    if kind == "F16":
        return np.frombuffer(data, "<f2").astype(np.float64)
    return {"Q8_0": decode_q8_0, "MXFP4": decode_mxfp4}[kind](data)
