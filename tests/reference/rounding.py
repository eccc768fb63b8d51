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
