"""The reference's recurrent layers against their published code.

tests/fixtures/recurrent_vectors.json says how its numbers came about: weights and inputs of two
decimals, and what transformers' own class made of them. Weights are turned here into what a GGUF
file has, as llama.cpp's converter does it.
"""
import json
import pathlib
import sys

import numpy as np
import pytest

TESTS = pathlib.Path(__file__).parent.parent
sys.path.insert(0, str(TESTS / "reference"))

import forward  # noqa: E402
import gguf_file  # noqa: E402
import hybrid  # noqa: E402

LAYERS = json.loads((TESTS / "fixtures" / "recurrent_vectors.json").read_text())["layers"]


class Published:
    """A layer of the file, and its weights by the names that they have there."""

    def __init__(self, name):
        layer = LAYERS[name]
        self.config, self.x = layer["config"], np.array(layer["x"])
        self.y = np.array(layer["y"])
        self.w = {k: np.array(v, float) for k, v in layer["weights"].items()}

    def taps(self, name="conv1d.weight"):
        return self.w[name].reshape(-1, self.w[name].shape[-1])

    def rate(self, name="A_log"):
        return -np.exp(self.w[name])


def model(arch, **keys):
    keys = {f"{arch}.{k.replace('__', '.')}": v for k, v in keys.items()}
    return gguf_file.Model({"general.architecture": arch, f"{arch}.block_count": 1, **keys}, {})


def delta_model(arch, c):
    n_value = c["linear_num_value_heads"]
    return model(arch, attention__layer_norm_rms_epsilon=c["rms_norm_eps"], ssm__group_count=c["linear_num_key_heads"],
                 ssm__time_step_rank=n_value, ssm__state_size=c["linear_key_head_dim"],
                 ssm__inner_size=n_value * c["linear_value_head_dim"])


def delta_tensors(p):
    return {"ssm_conv1d.weight": p.taps(), "ssm_dt.bias": p.w["dt_bias"], "ssm_a": p.rate(),
            "ssm_norm.weight": p.w["norm.weight"], "ssm_out.weight": p.w["out_proj.weight"]}


def qwen3next(grouped):
    """grouped: as the first files, one matrix with the rows of a key head after those of another."""
    p = Published("qwen3next")
    m, b = delta_model("qwen3next", p.config), delta_tensors(p)
    b["ssm_ba.weight"] = p.w["in_proj_ba.weight"]
    if grouped:
        b["ssm_in.weight"] = p.w["in_proj_qkvz.weight"]
    else:
        size, r = p.config["linear_key_head_dim"], p.config["linear_num_value_heads"] // p.config["linear_num_key_heads"]
        rows = hybrid.by_key_head(p.w["in_proj_qkvz.weight"].T, p.config["linear_num_key_heads"],
                                  [size, size, r * size, r * size])
        b["attn_qkv.weight"], b["attn_gate.weight"] = np.concatenate(rows[:3], axis=1).T, rows[3].T
    return p, hybrid.delta_net(m, b, p.x)


def tiled(x, n_key, n_value, axis=0):
    """Value heads of one key head, which follow each other, as far apart as there are key heads."""
    x = np.moveaxis(x, axis, 0)
    y = x.reshape(n_key, n_value // n_key, -1, *x.shape[1:]).swapaxes(0, 1).reshape(x.shape)
    return np.moveaxis(y, 0, axis)


def qwen35():
    p = Published("qwen35")
    m, b = delta_model("qwen35", p.config), delta_tensors(p)
    heads = p.config["linear_num_key_heads"], p.config["linear_num_value_heads"]
    keys = 2 * heads[0] * p.config["linear_key_head_dim"]

    def values_tiled(x):
        return np.concatenate([x[:keys], tiled(x[keys:], *heads)])

    b["attn_qkv.weight"] = values_tiled(p.w["in_proj_qkv.weight"])
    b["ssm_conv1d.weight"] = values_tiled(b["ssm_conv1d.weight"])
    b["attn_gate.weight"] = tiled(p.w["in_proj_z.weight"], *heads)
    b["ssm_beta.weight"] = tiled(p.w["in_proj_b.weight"], *heads)
    b["ssm_alpha.weight"] = tiled(p.w["in_proj_a.weight"], *heads)
    for name in ("ssm_dt.bias", "ssm_a"):
        b[name] = tiled(b[name], *heads)
    b["ssm_out.weight"] = tiled(b["ssm_out.weight"], *heads, axis=1)
    return p, hybrid.delta_net(m, b, p.x)


def lfm2():
    p = Published("lfm2")
    b = {"shortconv.in_proj.weight": p.w["in_proj.weight"], "shortconv.conv.weight": p.taps("conv.weight"),
         "shortconv.out_proj.weight": p.w["out_proj.weight"]}
    return p, hybrid.short_convolution(b, p.x)


def mamba1(arch, size, rank, eps):
    p = Published(arch)
    m = model(arch, attention__layer_norm_rms_epsilon=p.config.get(eps, 1e-5), ssm__state_size=p.config[size],
              ssm__time_step_rank=p.config[rank])
    b = {"ssm_in.weight": p.w["in_proj.weight"], "ssm_conv1d.weight": p.taps(), "ssm_conv1d.bias": p.w["conv1d.bias"],
         "ssm_x.weight": p.w["x_proj.weight"], "ssm_dt.weight": p.w["dt_proj.weight"], "ssm_dt.bias": p.w["dt_proj.bias"],
         "ssm_a": p.rate(), "ssm_d": p.w["D"], "ssm_out.weight": p.w["out_proj.weight"]}
    for part in ("dt", "b", "c"):
        if f"{part}_layernorm.weight" in p.w:
            b[f"ssm_{part}_norm.weight"] = p.w[f"{part}_layernorm.weight"]
    return p, hybrid.mamba1(m, b, p.x)


def mamba2(arch, heads, head, groups, size):
    p = Published(arch)
    c = p.config
    m = model(arch, attention__layer_norm_rms_epsilon=1e-5, ssm__state_size=c[size], ssm__time_step_rank=c[heads],
              ssm__inner_size=c[heads] * c[head], ssm__group_count=c[groups])
    b = {"ssm_in.weight": p.w["in_proj.weight"], "ssm_conv1d.weight": p.taps(), "ssm_conv1d.bias": p.w["conv1d.bias"],
         "ssm_dt.bias": p.w["dt_bias"], "ssm_a": p.rate()[:, None], "ssm_d": p.w["D"][:, None],
         "ssm_out.weight": p.w["out_proj.weight"]}
    if "norm.weight" in p.w:
        b["ssm_norm.weight"] = p.w["norm.weight"].reshape(c[groups], -1)
    return p, hybrid.mamba2(m, b, p.x)


def kimi_linear():
    p = Published("kimi-linear")
    m = model("kimi-linear", attention__layer_norm_rms_epsilon=p.config["rms_norm_eps"],
              kda__head_dim=p.config["linear_head_dim"], ssm__conv_kernel=p.config["linear_conv_kernel_dim"])
    b = {"ssm_f_a.weight": p.w["forget_gate.f_a_proj.weight"], "ssm_f_b.weight": p.w["forget_gate.f_b_proj.weight"],
         "ssm_dt.bias": p.w["forget_gate.dt_bias"], "ssm_a": p.rate("forget_gate.A_log"),
         "ssm_beta.weight": p.w["b_proj.weight"], "ssm_g_a.weight": p.w["g_a_proj.weight"],
         "ssm_g_b.weight": p.w["g_b_proj.weight"], "ssm_norm.weight": p.w["o_norm.weight"],
         "attn_output.weight": p.w["o_proj.weight"]}
    for part, taps in zip("qkv", np.split(p.taps(), 3)):
        b[f"attn_{part}.weight"] = p.w[f"{part}_proj.weight"]
        b[f"ssm_conv1d_{part}.weight"] = taps
    return p, hybrid.kimi_delta(m, b, p.x)


CASES = {
    "qwen3next": lambda: qwen3next(grouped=False),
    "qwen3next-grouped": lambda: qwen3next(grouped=True),
    "qwen35": qwen35,
    "lfm2": lfm2,
    "mamba": lambda: mamba1("mamba", "state_size", "time_step_rank", "layer_norm_epsilon"),
    "jamba": lambda: mamba1("jamba", "mamba_d_state", "mamba_dt_rank", "rms_norm_eps"),
    "mamba2": lambda: mamba2("mamba2", "num_heads", "head_dim", "n_groups", "state_size"),
    "falcon-h1": lambda: mamba2("falcon-h1", "mamba_n_heads", "mamba_d_head", "mamba_n_groups", "mamba_d_state"),
    "kimi-linear": kimi_linear,
}


@pytest.mark.parametrize("name", CASES)
def test_published(name):
    """The published code works in single precision here and there."""
    p, found = CASES[name]()
    assert found.shape == p.y.shape
    assert np.abs(found - p.y).max() < 2e-6 * np.abs(p.y).max()


def test_all_vectors_are_used():
    assert set(LAYERS) == {name.removesuffix("-grouped") for name in CASES}


def test_state_goes_on():
    """Tokens in two runs, the second one from the state of the first, as in one."""
    rng = np.random.default_rng(1)
    q, k, v = (rng.normal(size=(9, 2, 4)) for _ in range(3))
    kept, beta = rng.uniform(size=(2, 9, 2))
    whole, state = forward.hybrid.delta_rule(q, k, v, kept, beta)
    first, half = forward.hybrid.delta_rule(q[:5], k[:5], v[:5], kept[:5], beta[:5])
    second, end = forward.hybrid.delta_rule(q[5:], k[5:], v[5:], kept[5:], beta[5:], half)
    assert np.array_equal(np.concatenate([first, second]), whole) and np.array_equal(end, state)
