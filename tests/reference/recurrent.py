"""The parts of layers that keep a state: token after token, in float64.

What each is checked against beside llama.cpp: the published code of transformers 5.24
(tests/fixtures/recurrent_vectors.json, tests/e2e/test_recurrent_layers.py); papers are named below.
"""
import numpy as np


def softplus(x):
    return np.logaddexp(0, x)


def l2_norm(x, eps=1e-6):
    """Of length 1. The eps is the code's, not the file's."""
    return x / np.sqrt((x * x).sum(axis=-1, keepdims=True) + eps)


def convolution(x, weight, bias=None):
    """Of each channel with the tokens before: the last tap meets the token itself. weight:
    [channels][taps]."""
    n, taps = len(x), weight.shape[-1]
    padded = np.concatenate([np.zeros((taps - 1, x.shape[1])), x])
    y = sum(padded[j:j + n] * weight[:, j] for j in range(taps))
    return y if bias is None else y + bias


def delta_rule(q, k, v, kept, beta, state=None):
    """Gated delta rule (arXiv 2412.06464), and with a gate for each key dimension KDA (2510.26692).

    q, k: [tokens][heads][key size]; v: [tokens][heads][value size]; kept: [tokens][heads], or with a
    key size behind it: what is kept of the state; beta: [tokens][heads]. Returns as v, and the state."""
    n, n_head, size = q.shape
    s = np.zeros((n_head, size, v.shape[2])) if state is None else state
    out = np.empty(v.shape)
    for t in range(n):
        s = s * (kept[t][..., None] if kept.ndim == 3 else kept[t][:, None, None])
        read = np.einsum("hi,hij->hj", k[t], s)
        s = s + k[t][:, :, None] * (beta[t][:, None] * (v[t] - read))[:, None, :]
        out[t] = np.einsum("hi,hij->hj", q[t], s)
    return out, s


def mamba1_scan(x, dt, a, b, c, d, state=None):
    """Selective scan (arXiv 2312.00752). x, dt: [tokens][channels]; a: [channels][state size], below 0;
    b, c: [tokens][state size]; d: [channels]. Returns as x, and the state."""
    s = np.zeros(a.shape) if state is None else state
    out = np.empty(x.shape)
    for t in range(len(x)):
        s = s * np.exp(dt[t][:, None] * a) + (dt[t] * x[t])[:, None] * b[t]
        out[t] = s @ c[t] + d * x[t]
    return out, s


def mamba2_scan(x, dt, a, b, c, d, state=None):
    """The same with one number a head for a and d, and heads that share b and c (arXiv 2405.21060).
    x: [tokens][heads][size]; dt: [tokens][heads]; a, d: [heads]; b, c: [tokens][groups][state size]."""
    n, n_head, size = x.shape
    b, c = (np.repeat(y, n_head // b.shape[1], axis=1) for y in (b, c))
    s = np.zeros((n_head, size, b.shape[2])) if state is None else state
    out = np.empty(x.shape)
    for t in range(n):
        s = s * np.exp(dt[t] * a)[:, None, None] + (dt[t][:, None] * x[t])[:, :, None] * b[t][:, None, :]
        out[t] = np.einsum("hpn,hn->hp", s, c[t]) + d[:, None] * x[t]
    return out, s


def rms_norm_groups(x, weight, eps):
    """weight: [groups][numbers of a group]."""
    y = x.reshape(len(x), *weight.shape)
    return (y / np.sqrt((y * y).mean(axis=-1, keepdims=True) + eps) * weight).reshape(len(x), -1)
