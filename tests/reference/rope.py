"""Rotary positions: which angle each pair of a head's numbers turns by, and the turning.

A pair is (2i, 2i + 1) in files of one half of the families ("norm") and (i, i + n/2) in the other
("neox"). Scaling changes the frequencies, and for some kinds the length of the turned vectors.
"""
import math

import numpy as np


class Rope:
    def __init__(self, frequencies, length=1.0, pairs="norm"):
        self.frequencies, self.length, self.pairs = frequencies, length, pairs

    def turn(self, x, positions):
        """x: [tokens][heads][head size], of which the first 2 * len(frequencies) are turned."""
        n = 2 * len(self.frequencies)
        angle = positions[:, None, None] * self.frequencies
        cos, sin = np.cos(angle) * self.length, np.sin(angle) * self.length
        if self.pairs == "norm":
            first, second = slice(0, n, 2), slice(1, n, 2)
        else:
            first, second = slice(0, n // 2), slice(n // 2, n)
        a, b = x[..., first], x[..., second]
        y = x.copy()
        y[..., first] = a * cos - b * sin
        y[..., second] = b * cos + a * sin
        return y


def base_frequencies(n_rot, base):
    return float(base) ** (-np.arange(0, n_rot, 2) / n_rot)


def yarn_mix(m, n_rot, base, whole):
    """For each pair, how far it keeps its own frequency: 1 for fast pairs, 0 for slow ones."""
    context = m.key("rope.scaling.original_context_length")

    def pair_that_turns(times):
        return n_rot * math.log(context / (times * 2 * math.pi)) / (2 * math.log(base))

    low = pair_that_turns(m.key("rope.scaling.yarn_beta_fast", 32.0))
    high = pair_that_turns(m.key("rope.scaling.yarn_beta_slow", 1.0))
    if whole:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, n_rot - 1)
    ramp = (np.arange(n_rot // 2) - low) / max(high - low, 0.001)
    return 1 - np.clip(ramp, 0, 1)


def yarn_length(factor, weight=1.0):
    return 0.1 * weight * math.log(factor) + 1 if factor > 1 else 1.0


def scaling_factor(m):
    return m.key("rope.scaling.factor", m.key("rope.scale_linear", 0.0)) or 1.0


def make(m, pairs, n_ctx, n_rot, base=None, scaled=True, whole=True, all_dims=False):
    """The rope of a model. n_ctx: the context that is served, which chooses between short and long
    factors. base: other than the file's. scaled: False for layers that no scaling applies to.
    whole: yarn's two bounds are rounded outwards to whole pairs. all_dims: yarn's log multiplier is what the
    length is divided by, not a tenth of what multiplies scores."""
    base = base or m.key("rope.freq_base", 10000.0)
    f = base_frequencies(n_rot, base)
    if not scaled:
        return Rope(f, 1.0, pairs)
    kind = m.key("rope.scaling.type", "linear")
    factor = scaling_factor(m) if kind != "none" else 1.0
    length = m.key("rope.scaling.attn_factor", 1.0)
    if kind == "yarn":
        mix = yarn_mix(m, n_rot, base, whole)
        f = f * mix + f / factor * (1 - mix)
        multiplier = m.key("rope.scaling.yarn_log_multiplier", 0.0)
        if multiplier == 0 or all_dims:
            length *= yarn_length(factor) / yarn_length(factor, multiplier)
    else:
        f = f / factor
    if m.get("rope_freqs.weight") is not None:
        f = f / m["rope_freqs.weight"]
    if m.get("rope_factors_long.weight") is not None:
        is_long = n_ctx > m.key("rope.scaling.original_context_length")
        f = f / m["rope_factors_long.weight" if is_long else "rope_factors_short.weight"]
    return Rope(f, length, pairs)
