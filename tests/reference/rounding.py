"""Numbers with less precision: as caches keep them, and as the bytes of the few formats that fixtures
are written in. What bytes mean is in quants.py."""
import numpy as np

# The magnitudes of a 4-bit float with two bits of exponent; bit 3 of a code is the sign.
FP4 = np.array([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])
FP4_CODES = np.concatenate([FP4, -FP4])


def as_f16(x):
    """Rounded to half precision."""
    return x.astype(np.float16).astype(np.float64)


def as_bf16(x):
    """Rounded to the upper half of a float, to even."""
    bits = x.astype("<f4").view("<u4").astype(np.uint64)
    bits = bits + 0x7fff + (bits >> 16 & 1) >> 16 << 16
    return bits.astype("<u4").view("<f4").astype(np.float64)


def encode_q8_0(x):
    """Blocks of 32: a half-precision scale, then 32 signed bytes."""
    blocks = x.reshape(-1, 32)
    scale = (np.abs(blocks).max(axis=1, keepdims=True) / 127).astype("<f2")
    codes = np.zeros(blocks.shape)
    np.divide(blocks, scale.astype(np.float64), out=codes, where=scale > 0)
    codes = np.clip(np.rint(codes), -127, 127).astype("i1")
    return np.concatenate([scale.view("u1").reshape(-1, 2), codes.view("u1")], axis=1).tobytes()


def extreme(x):
    """Of each row the number of largest magnitude, the first of them."""
    return np.take_along_axis(x, np.abs(x).argmax(axis=1)[:, None], axis=1)


def codes_of(x, scale, low, high):
    """x / scale in single precision, to even, within the range; 0 where the scale is."""
    out = np.zeros(x.shape, np.float32)
    np.divide(x, scale, out=out, where=scale != 0)
    return np.rint(np.clip(out, low, high)).astype(int)


def encode_q4_0(x):
    """Blocks of 32: a half-precision scale that makes the extreme -8, then 4 bits each, the first 16 low."""
    blocks = x.astype("<f4").reshape(-1, 32)
    scale = (extreme(blocks) / np.float32(-8)).astype("<f2")
    codes = (codes_of(blocks, scale.astype("<f4"), -8, 7) + 8).astype("u1")
    return np.concatenate([scale.view("u1").reshape(-1, 2), codes[:, :16] | codes[:, 16:] << 4], axis=1).tobytes()


def encode_q6_k(x):
    """Blocks of 256: low nibbles, high pairs, a signed byte for each 16, and a half-precision scale of those."""
    blocks = x.astype("<f4").reshape(-1, 256)
    steps = (extreme(blocks.reshape(-1, 16)) / np.float32(-32)).reshape(-1, 16)
    scale = (extreme(steps) / np.float32(-128)).astype("<f2")
    sub = codes_of(steps, scale.astype("<f4"), -128, 127)
    each = np.repeat(scale.astype("<f4") * sub.astype("<f4"), 16, axis=1)
    codes = (codes_of(blocks, each, -32, 31) + 32).astype("u1").reshape(-1, 2, 4, 32)
    low = (codes & 15).reshape(-1, 2, 2, 64)
    low = (low[:, :, 0] | low[:, :, 1] << 4).reshape(-1, 128)
    high = codes >> 4
    high = (high[:, :, 0] | high[:, :, 1] << 2 | high[:, :, 2] << 4 | high[:, :, 3] << 6).reshape(-1, 64)
    return np.concatenate([low, high, sub.astype("i1").view("u1"), scale.view("u1").reshape(-1, 2)], axis=1).tobytes()


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
    return {"Q8_0": encode_q8_0, "Q4_0": encode_q4_0, "Q6_K": encode_q6_k, "MXFP4": encode_mxfp4}[kind](x)
