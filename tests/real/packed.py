"""Many prompts that begin alike, in float64, with their beginning computed once.

The prompts lie one behind another as one text: what all share first, then the rest of each. A token keeps
the position that it has in its own prompt, and sees what is shared and its own prompt's tokens only, so
that each prompt's last row is what the reference (tests/reference) makes of that prompt alone.
"""
import contextlib
import math
import os

import numpy as np

import forward
import layers
import parts


class Packed:
    def __init__(self, prompts):
        n = min(len(os.path.commonprefix(prompts)), min(map(len, prompts)) - 1)
        rests = [p[n:] for p in prompts]
        ends = np.cumsum([n] + [len(r) for r in rests])
        self.ids = np.array(sum(rests, list(prompts[0][:n])))
        self.positions = np.concatenate([np.arange(n), *[n + np.arange(len(r)) for r in rests]])
        self.last = ends[1:] - 1
        owner = np.concatenate([np.zeros(n, int), *[np.full(len(r), i + 1) for i, r in enumerate(rests)]])
        before = np.arange(len(owner))[:, None] >= np.arange(len(owner))
        self.seen = before & ((owner[:, None] == owner) | (owner == 0))
        self.behind = self.positions[:, None] - self.positions

    def attention(self, q, k, v, scale, window=0, cap=0.0, causal=True):
        """As that of layers.py, for the options that the models here have."""
        assert causal
        seen = self.seen & (self.behind < window) if window else self.seen
        out = np.empty(q.shape[:2] + v.shape[2:])
        for i in range(q.shape[1]):
            group = i * k.shape[1] // q.shape[1]
            scores = layers.soft_cap(q[:, i] @ k[:, group].T * scale, cap)
            out[:, i] = layers.softmax(np.where(seen, scores, -math.inf)) @ v[:, group]
        return out.reshape(len(q), -1)


class Turned:
    """A rope that turns each token by the position it has in its own prompt."""

    def __init__(self, rope, positions):
        self.rope, self.positions = rope, positions

    def turn(self, x, _):
        return self.rope.turn(x, self.positions)


@contextlib.contextmanager
def changed(*changes):
    """Other functions in modules: (module, name, function)."""
    kept = [(module, name, getattr(module, name)) for module, name, _ in changes]
    try:
        for module, name, function in changes:
            setattr(module, name, function)
        yield
    finally:
        for module, name, function in kept:
            setattr(module, name, function)


def last_logits(model, prompts, cache=np.asarray):
    """The logits behind the last token of each prompt: [prompts][vocabulary]. cache: how keys and values are rounded."""
    p, make, whole = Packed(prompts), forward.rope.make, forward.output

    def turned(*args, **more):
        return Turned(make(*args, **more), p.positions)
    with changed((parts, "attention", p.attention), (forward.rope, "make", turned),
                 (forward, "output", lambda m, x: whole(m, x[p.last]))):
        return forward.forward(model, p.ids, cache=cache)
