"""Damages files at random places."""
import pathlib


def hurt(path, rng, n=1, width=8):
    """Change `width` bytes at each of n random places."""
    path = pathlib.Path(path)
    data = bytearray(path.read_bytes())
    for _ in range(n):
        at = rng.randrange(len(data) - width)
        data[at:at + width] = bytes(b ^ rng.randrange(1, 256) for b in data[at:at + width])
    path.write_bytes(data)
