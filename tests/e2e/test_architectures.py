"""Every architecture against the reference in float64, on small random models (tests/reference).

F32 files: the logits of every token. Q8_0 files, whose products the engine makes of quantised rows:
the mean likelihood of a text. And for each tensor and each number in the metadata that takes part,
a file in which it differs: the engine must follow the reference there too, so none is ignored.
"""
import functools
import os
import pathlib
import struct
import subprocess
import sys

import numpy as np
import pytest

from quire import in_threads, isa_levels

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "reference"))

import fixtures  # noqa: E402
import forward  # noqa: E402
import gguf_file  # noqa: E402
from rounding import as_bf16, as_f16  # noqa: E402

TOOL = pathlib.Path(os.environ.get("QUIRE_TOOLS", "build/tools")) / "logits"
N_TOKENS = 60
N_TOKENS_Q8 = 500     # the mean of more rows: each is off by some of the error of 32 rounded numbers
N_TOKENS_BITS = 100
N_TOKENS_SLOW = 70    # of these, by the definitions of the kernels: more than a scan takes at a time
N_TOKENS_CHANGED = 30
N_TOKENS_TWO_SEGMENTS = 300  # of the softmax
CLOSE = 1e-3          # of the largest number of a row
FELT = 5 * CLOSE      # what a changed file must do to the reference, so that CLOSE tells
EDGE = 1e-3           # between two experts' scores
CLOSE_HIDDEN_Q8 = 0.05
CLOSE_NLL = 0.01

CASES = fixtures.cases()
NAMES = ["-".join(c) for c in CASES]
CAUSAL = [c for c in CASES if c[0] not in forward.EMBEDDERS]

# What attends in ways of its own.
OTHER_CACHES = [("llama", "plain"), ("gemma2", "plain"), ("gemma3", "plain"), ("gpt-oss", "plain"),
                ("deepseek2", "new")]

# Chunks of attention are whole segments of the softmax: such a model needs texts of more than one.
CHUNK = 256
LONG = ("llama4",)

# The numbers in the metadata that multiply, bound or choose something, and their other value.
NUMBERS = {
    "attention.layer_norm_rms_epsilon": lambda v: 0.05,
    "attention.layer_norm_epsilon": lambda v: 0.05,
    "attention.scale": lambda v: v * 1.3,
    "attention.max_alibi_bias": lambda v: v * 1.6,
    "attention.sliding_window": lambda v: 2 * v if v == CHUNK else v - 2,
    "attention.sliding_window_pattern": lambda v: v - 1 if isinstance(v, int) else v[::-1],
    "attn_logit_softcapping": lambda v: v * 0.6,
    "final_logit_softcapping": lambda v: v * 0.6,
    "embedding_scale": lambda v: v * 1.3,
    "residual_scale": lambda v: v * 1.3,
    "logit_scale": lambda v: v * 1.3,
    "expert_used_count": lambda v: v - 1,
    "expert_weights_scale": lambda v: v * 1.3,
    "rope.freq_base": lambda v: v * 0.5,
    "rope.freq_base_swa": lambda v: v * 0.5,
    "rope.scaling.factor": lambda v: v * 1.6,
    "rope.scaling.attn_factor": lambda v: v * 1.3,
    "rope.scaling.yarn_beta_fast": lambda v: v * 0.4,
    "rope.scaling.yarn_beta_slow": lambda v: v * 0.3,
    "rope.scaling.yarn_log_multiplier": lambda v: v * 2.0,
    "ssm.dt_b_c_rms": lambda v: not v,
    "activation_sparsity_scale": lambda v: [x + 0.4 for x in v],
    "attention.output_scale": lambda v: v * 1.3,
    "router_logit_softcapping": lambda v: v * 0.6,
    "attention.temperature_scale": lambda v: v * 2.0,
    "attention.temperature_length": lambda v: v // 2,
}
# Numbers that only some architectures heed.
YARN_CONTEXT = "rope.scaling.original_context_length"
PART_ROTATED = ("gptneox", "phi2", "stablelm", "glm4", "glm4moe", "minimax-m2", "qwen3next", "qwen35")

# Without positions in the keys, a bias on them moves all the scores of a query alike.
WITHOUT_EFFECT = {("bert", "attn_k.bias"), ("jina-bert-v2", "attn_k.bias"), ("jina-bert-v2", "attn_k_norm.bias"),
                  ("nemotron_h", "attn_k.bias")}


def n_tokens(arch, usual):
    return N_TOKENS_TWO_SEGMENTS if arch in LONG else usual


def random_ids(m, n):
    n_vocab = m["token_embd.weight"].shape[0]
    return np.random.default_rng(7).integers(0, n_vocab, n).tolist()


def contexts(variant):
    """The contexts to serve: with factors for short and long ones, one of each."""
    return (fixtures.SHORT_CTX, fixtures.N_CTX) if variant == "longrope" else (0,)


def engine(paths, ids, n_ctx, hidden, *settings):
    """The engine's rows for each of the files."""
    args = [TOOL, "--ids", ",".join(map(str, ids)), "--threads", 1, "--context", n_ctx, "--kv-memory", "8m",
            "--log-level", "error", *settings, *(["--hidden"] if hidden else []), "--", *paths]
    done = subprocess.run(list(map(str, args)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300)
    assert done.returncode == 0, done.stderr.decode()
    out, at, found = done.stdout, 0, []
    while at < len(out):
        rows, columns = struct.unpack_from("<ii", out, at)
        at += 8
        assert rows >= 0, out[at:at + columns].decode()
        found.append(np.frombuffer(out, "<f4", rows * columns, at).reshape(rows, columns))
        at += rows * columns * 4
    assert len(found) == len(paths)
    return found


def distances(a, b):
    """The largest difference in each row, as a part of the largest number of that row of b."""
    return np.abs(a - b).max(axis=1) / np.abs(b).max(axis=1)


def distance(a, b):
    return float(distances(a, b).max())


def distance_to(m, found, expected):
    """To what the reference has just made with m, but for tokens that were all but at one with other
    experts: rounding decides for them, and nobody is wrong."""
    clear = m.edge > EDGE
    assert clear.mean() > 0.9
    return float(distances(found, expected)[clear].max())


def reference(m, ids, n_ctx, cache=as_f16):
    """The engine's cache is F16, if nothing else is said, and so is the reference's."""
    return forward.forward(m, ids, n_ctx, cache)


def both(tmp_path, arch, variant, kind, n_ctx, kv_type="f16", cache=as_f16):
    data = fixtures.make(arch, variant, kind)
    path = tmp_path / "model.gguf"
    path.write_bytes(data)
    m = gguf_file.read(data)
    n = N_TOKENS_Q8 if kind == "Q8_0" and arch not in forward.EMBEDDERS else n_tokens(arch, N_TOKENS)
    ids = random_ids(m, min(n, n_ctx or n))
    found, = engine([path], ids, n_ctx, arch in forward.EMBEDDERS, "--kv-type", kv_type)
    return m, ids, found, reference(m, ids, n_ctx, cache)


@pytest.mark.parametrize("arch,variant", CASES, ids=NAMES)
def test_logits(tmp_path, arch, variant):
    for n_ctx in contexts(variant):
        m, _, found, expected = both(tmp_path, arch, variant, "F32", n_ctx)
        assert found.shape == expected.shape
        assert distance_to(m, found, expected) < CLOSE


@pytest.mark.parametrize("arch,variant", CASES, ids=NAMES)
def test_quantised(tmp_path, arch, variant):
    for n_ctx in contexts(variant):
        _, ids, found, expected = both(tmp_path, arch, variant, "Q8_0", n_ctx)
        if arch in forward.EMBEDDERS:
            assert distance(found, expected) < CLOSE_HIDDEN_Q8
        else:
            assert abs(forward.mean_nll(found.astype(np.float64), ids) - forward.mean_nll(expected, ids)) < CLOSE_NLL


@pytest.mark.parametrize("arch,variant", CAUSAL, ids=["-".join(c) for c in CAUSAL])
def test_same_bits(tmp_path, arch, variant):
    """However the text is cut, with more threads, by the definitions of the kernels, and with another
    sequence in the batches."""
    path = tmp_path / "model.gguf"
    for kind in ("F32", "Q8_0"):
        data = fixtures.make(arch, variant, kind)
        path.write_bytes(data)
        ids = random_ids(gguf_file.read(data), n_tokens(arch, N_TOKENS_BITS))
        rows = [engine([path], ids, 0, False, *settings)[0] for settings in
                (["--chunk", 32], ["--chunk", 7], ["--chunk", len(ids), "--threads", 3, "--parts", 2],
                 ["--chunk", 19, "--beside", "--threads", 2, "--parts", 3])]
        assert len({r.tobytes() for r in rows}) == 1, [(r == rows[0]).all() for r in rows]
        n = n_tokens(arch, N_TOKENS_SLOW)
        slow, = engine([path], ids[:n], 0, False, "--chunk", 32, "--isa", "scalar")
        assert slow.tobytes() == rows[0][:n].tobytes()


EMBEDDERS = [c for c in CASES if c[0] in forward.EMBEDDERS]


@pytest.mark.parametrize("arch,variant", EMBEDDERS, ids=["-".join(c) for c in EMBEDDERS])
def test_same_bits_of_an_encoder(tmp_path, arch, variant):
    """With more threads, and by the definitions of the kernels."""
    path = tmp_path / "model.gguf"
    for kind in ("F32", "Q8_0"):
        data = fixtures.make(arch, variant, kind)
        path.write_bytes(data)
        ids = random_ids(gguf_file.read(data), N_TOKENS_CHANGED)
        rows = [engine([path], ids, 0, True, *settings)[0].tobytes()
                for settings in ([], ["--threads", 3, "--parts", 2], *(["--isa", isa] for isa in isa_levels()))]
        assert len(set(rows)) == 1, [r == rows[0] for r in rows]


@pytest.mark.parametrize("arch,variant", EMBEDDERS, ids=["-".join(c) for c in EMBEDDERS])
@pytest.mark.parametrize("kind", ["F32", "Q8_0"])
def test_same_bits_in_a_batch(start, tmp_path, arch, variant, kind):
    """Texts of many lengths together, and each alone."""
    data = fixtures.make(arch, variant, kind)
    path = tmp_path / "model.gguf"
    path.write_bytes(data)
    m = gguf_file.read(data)
    s = start("--kv-memory", "64m", "--max-batch-tokens", "320", model=path)
    texts = [random_ids(m, n)[::1 if n % 2 else -1] for n in (1, 300, 2, 17, 64, 33, 5, 100, 16, 280)]

    def embed(some):
        return [d["embedding"] for d in s.post("/v1/embeddings", {"input": some}).json["data"]]
    alone = [embed([t])[0] for t in texts]
    assert embed(texts) == alone
    assert [v for [v] in in_threads([lambda t=t: embed([t]) for t in texts])] == alone


# ---- other caches ----

@pytest.mark.parametrize("arch,variant", OTHER_CACHES, ids=[c[0] for c in OTHER_CACHES])
def test_bf16_cache(tmp_path, arch, variant):
    m, _, found, expected = both(tmp_path, arch, variant, "F32", 0, "bf16", as_bf16)
    assert distance_to(m, found, expected) < CLOSE


@pytest.mark.parametrize("arch,variant", OTHER_CACHES, ids=[c[0] for c in OTHER_CACHES])
def test_q8_0_cache(tmp_path, arch, variant):
    _, ids, found, expected = both(tmp_path, arch, variant, "Q8_0", 0, "q8_0", np.asarray)
    assert abs(forward.mean_nll(found.astype(np.float64), ids) - forward.mean_nll(expected, ids)) < CLOSE_NLL


# ---- embeddings ----

@pytest.mark.parametrize("arch", forward.EMBEDDERS)
def test_embeddings(start, tmp_path, arch):
    """Over HTTP: the mean of the rows, or the last, as the file wants it, of length 1."""
    data = fixtures.make(arch, "plain", "F32")
    path = tmp_path / "model.gguf"
    path.write_bytes(data)
    m = gguf_file.read(data)
    s = start("--kv-memory", "64m", "--prefill-chunk", "8", model=path)
    for n in (1, 5, N_TOKENS, N_TOKENS_TWO_SEGMENTS):
        ids = random_ids(m, n)
        r = s.post("/v1/embeddings", {"input": ids})
        assert r.status == 200, r.body
        rows = reference(m, ids, 0)
        pooled = rows[-1] if m.key("pooling_type") == 3 else rows.mean(axis=0)
        expected = pooled / np.linalg.norm(pooled)
        assert np.abs(np.array(r.json["data"][0]["embedding"]) - expected).max() < CLOSE


# ---- what is no encoder of these ----

def other_file(arch, variant, keys=None, tensors=None):
    """A fixture with other keys and tensors; None takes one away."""
    old_keys, old_tensors = gguf_file.read_parts(fixtures.make(arch, variant, "F32"))

    def changed(old, new):
        return {k: v for k, v in {**old, **new}.items() if v is not None}
    return gguf_file.write(changed(old_keys, {f"{arch}.{k}": v for k, v in (keys or {}).items()}),
                           changed(old_tensors, tensors or {}))


def zeros(*shape):
    return "F32", shape, bytes(4 * int(np.prod(shape)))


REFUSED = [
    ("modern-bert", "plain", {"hidden_activation": "relu"}, {}, "hidden_activation': is 'relu', but only gelu"),
    ("modern-bert", "plain", {}, {"blk.0.attn_norm.bias": zeros(72)}, "layer 0 has other norms .* or a bias without"),
    ("modern-bert", "plain", {}, {"blk.1.attn_norm.weight": None}, "tensor 'blk.1.attn_norm.weight' is missing"),
    ("modern-bert", "plain", {}, {"output_norm.weight": None}, "tensor 'output_norm.weight' is missing"),
    ("modern-bert", "rank", {}, {"cls.norm.weight": None}, "tensor 'cls.norm.weight' is missing"),
    ("modern-bert", "plain", {"attention.causal": True}, {}, "encoders with causal attention"),
    ("gemma-embedding", "plain", {"dense_2_feat_out": 143}, {}, "'dense_2.weight': maps 72 numbers to 144, but its keys say 72 "
     "and 143"),
    ("gemma-embedding", "plain", {}, {"dense_2.weight": None}, "tensor 'dense_2.weight' is missing"),
    ("gemma-embedding", "plain", {"dense_3_feat_in": None, "dense_3_feat_out": None}, {"dense_3.weight": None},
     "their output has 144 numbers, but only the embedding's length, 72"),
    ("gemma-embedding", "plain", {}, {"dense_2.bias": zeros(144)}, "'dense_2.bias' is not supported"),
    ("nomic-bert-moe", "plain", {"moe_every_n_layers": 3}, {}, "is not supported|is missing"),
    ("nomic-bert-moe", "plain", {}, {"blk.1.ffn_gate_exps.weight": zeros(5, 88, 72)}, "'blk.1.ffn_gate_exps.weight' is not supported"),
    ("jina-bert-v2", "plain", {"attention.max_alibi_bias": 0.0}, {}, "max_alibi_bias': is 0, but must be above 0"),
    ("jina-bert-v2", "plain", {}, {"blk.1.attn_q_norm.bias": zeros(72)}, "layer 1 has other norms .* or a bias without"),
    ("jina-bert-v2", "plain", {"pooling_type": 4}, {}, "'cls.output.weight' is missing"),
    ("gemma3", "plain", {"attention.causal": False}, {}, "causal': is false, but windows of 9 tokens"),
    ("jina-bert-v3", "plain", {}, {"cls.weight": zeros(1, 72)}, "'cls.weight' is not supported"),
    ("jina-bert-v3", "plain", {"attention.max_alibi_bias": 8.0}, {}, "ALiBi positions are not supported"),
    ("llama4", "plain", {"attention.sliding_window": 300}, {}, "is 300, but only chunks of multiples of 256 tokens"),
    ("llama4", "plain", {"interleave_moe_layer_step": 3}, {}, "is missing|is not supported"),
    ("grok", "plain", {"attention.temperature_length": 100}, {}, "temperature_length': is 100, but .*serve with context = 100"),
    ("grok", "plain", {}, {"blk.1.post_ffw_norm.weight": None}, "'blk.1.post_ffw_norm.weight' is missing"),
    ("llama", "plain", {"attention.output_scale": 0.5}, {}, "scaled attention outputs are not supported"),
    ("llama", "moe", {"router_logit_softcapping": 3.0}, {}, "soft caps of routers are not supported"),
    ("llama", "plain", {"attention.shared_kv_layers": 1}, {}, "shared KV layers are not supported"),
    ("llama", "plain", {"attention.temperature_scale": 0.1}, {}, "attention temperatures are not supported"),
    ("gemma4", "rows", {"attention.shared_kv_layers": 3}, {}, "shared_kv_layers': is 3, but some of these layers"),
    ("gemma4", "rows", {"attention.value_length_swa": 24}, {}, "value_length_swa': is 24, but only the length of the keys, 16"),
    ("gemma4", "rows", {"feed_forward_length": [88, 88]}, {}, "has 2 numbers, but must have one for each layer"),
    ("gemma4", "experts", {}, {"blk.1.pre_ffw_norm_2.weight": None}, "'blk.1.pre_ffw_norm_2.weight' is missing"),
    ("gemma4", "experts", {"attention.value_length": 16}, {"blk.2.attn_output.weight": zeros(72, 64)},
     "'blk.2.attn_v.weight' is missing"),
    ("gemma3n", "plain", {"activation_sparsity_scale": [0.5, float("nan"), 0.5, 0.8]}, {}, "activation_sparsity_scale': is (-)?nan"),
    ("gemma3n", "plain", {"altup.active_idx": 1}, {}, "active_idx': is 1, but only 0 to 0 are supported"),
    ("gemma3n", "plain", {"altup.num_inputs": None}, {}, "altup.num_inputs' is missing"),
    ("gemma3n", "plain", {"activation_sparsity_scale": 0.5}, {}, "must have one number for each layer"),
    ("glm4moe", "nextn", {"nextn_predict_layers": None}, {}, "'blk.2.* is missing|is not supported"),
    ("qwen35", "plain", {"ssm.conv_kernel": 9}, {}, "conv_kernel': is 9, but only 2 to 8 are supported"),
    ("qwen35", "plain", {"ssm.conv_kernel": None}, {}, "ssm.conv_kernel' is missing"),
    ("qwen35", "plain", {"ssm.state_size": 257}, {}, "state_size': is 257, but only 1 to 256 are supported"),
    ("qwen35", "plain", {"ssm.time_step_rank": 3}, {}, "time_step_rank': is 3, but must be a multiple of 'ssm.group_count', 2"),
    ("qwen35", "plain", {"ssm.inner_size": 96}, {}, "inner_size': is 96, but only 48 is supported"),
    ("qwen35", "plain", {"rope.dimension_sections": [2, 2, 1, 0]}, {}, "sections of 5 pairs in total, but only half of .*, 12, is"),
    ("qwen35", "plain", {"attention.causal": False}, {}, "causal': is false, but recurrent layers"),
    ("qwen35", "plain", {"attention.value_length": 16}, {}, "value_length': is 16, but only the length of the keys, 24"),
    ("qwen35", "plain", {"full_attention_interval": 0}, {}, "full_attention_interval': is 0, but only 1 to"),
    ("qwen35", "plain", {"feed_forward_length": None}, {}, "feed_forward_length' is missing"),
    ("qwen35", "layers", {"attention.recurrent_layers": [True, False]}, {}, "must have one bool for each layer"),
    ("qwen35", "plain", {}, {"blk.0.ssm_a": ("F32", (4,), struct.pack("<4f", -1, -1, 0.5, -1))},
     "'blk.0.ssm_a': contains 0.5, but its numbers must not be above 0"),
    ("qwen35", "plain", {}, {"blk.0.ssm_a": None}, "'blk.0.ssm_a' is missing"),
    ("qwen35", "plain", {}, {"blk.2.ssm_a": zeros(4)}, "'blk.2.ssm_a' is not supported"),
    ("qwen35", "plain", {}, {"blk.0.ssm_conv1d.bias": zeros(96)}, "'blk.0.ssm_conv1d.bias' is not supported"),
    ("qwen35", "plain", {}, {"blk.0.attn_q.weight": zeros(144, 72)}, "'blk.0.attn_q.weight' is not supported"),
    ("qwen35", "plain", {}, {"blk.2.attn_q.weight": zeros(72, 72)}, "'blk.2.attn_q.weight': .* but 72 x 144 is expected"),
    ("qwen35", "plain", {}, {"blk.2.attn_q.bias": zeros(144)}, "'blk.2.attn_q.bias' is not supported"),
    ("qwen35", "mtp", {"nextn_predict_layers": None}, {}, "is missing|is not supported"),
    ("qwen35moe", "plain", {"feed_forward_length": None, "expert_feed_forward_length": None}, {},
     "expert_feed_forward_length' is missing"),
    ("lfm2", "plain", {"shortconv.l_cache": 1}, {}, "l_cache': is 1, but only 2 to 8 are supported"),
    ("lfm2", "plain", {"attention.head_count_kv": [0, 0, 3]}, {}, "has 3 numbers, but must have one for each layer"),
    ("lfm2", "plain", {"attention.head_count_kv": [0] * 6}, {}, "'blk.2.attn_\\w+.weight' is not supported|shortconv.* is missing"),
    ("lfm2", "plain", {}, {"blk.0.shortconv.conv.bias": zeros(72)}, "'blk.0.shortconv.conv.bias' is not supported"),
    ("lfm2", "plain", {}, {"token_embd_norm.weight": None}, "'token_embd_norm.weight' is missing"),
    ("kimi-linear", "plain", {"kda.head_dim": None}, {}, "kda.head_dim' is missing"),
    ("mamba", "plain", {"ssm.state_size": None}, {}, "ssm.state_size' is missing"),
    ("mamba", "plain", {"ssm.conv_kernel": 1}, {}, "conv_kernel': is 1, but only 2 to 8 are supported"),
    ("mamba", "plain", {"ssm.inner_size": 140}, {}, "'blk.0.ssm_in.weight': .* but 72 x 280 is expected"),
    ("mamba", "plain", {"ssm.time_step_rank": 8}, {}, "'blk.0.ssm_x.weight': .* but 144 x 18 is expected"),
    ("mamba", "plain", {"ssm.dt_b_c_rms": 1}, {}, "dt_b_c_rms': has type .*, but bool is expected"),
    ("mamba", "plain", {}, {"blk.1.ssm_a": ("F32", (144, 5), struct.pack("<f", 0.25) * 720)},
     "'blk.1.ssm_a': contains 0.25, but its numbers must not be above 0"),
    ("mamba", "plain", {}, {"blk.1.ssm_a": ("F32", (144, 5), struct.pack("<f", float("nan")) * 720)}, "'blk.1.ssm_a': .*not finite"),
    ("mamba", "plain", {}, {"blk.1.ssm_conv1d.bias": None}, "'blk.1.ssm_conv1d.bias' is missing"),
    ("mamba", "plain", {}, {"blk.1.ssm_dt_norm.weight": zeros(7)}, "'blk.1.ssm_dt_norm.weight' is not supported"),
    ("mamba", "plain", {}, {"blk.1.attn_q.weight": zeros(72, 72)}, "'blk.1.attn_q.weight' is not supported"),
    ("mamba", "plain", {"attention.causal": False}, {}, "causal': is false, but recurrent layers"),
    ("mamba2", "plain", {"ssm.group_count": 4}, {}, "time_step_rank': is 6, but must be a multiple of 'ssm.group_count', 4"),
    ("mamba2", "plain", {"ssm.inner_size": 62}, {}, "inner_size': is 62, but must be a multiple of 'ssm.time_step_rank', 6"),
    ("mamba2", "plain", {"ssm.time_step_rank": 5000}, {}, "time_step_rank': is 5000, but only 1 to 4096 are supported"),
    ("mamba2", "plain", {"ssm.state_size": 0}, {}, "state_size': is 0, but only 1 to 1024 are supported"),
    ("mamba2", "plain", {}, {"blk.0.ssm_conv1d.bias": None}, "'blk.0.ssm_conv1d.bias' is missing"),
    ("mamba2", "plain", {}, {"blk.0.ssm_norm.weight": None}, "'blk.0.ssm_norm.weight' is missing"),
    ("mamba2", "plain", {}, {"blk.0.ssm_d": zeros(6)}, "'blk.0.ssm_d': .* but 1 x 6 is expected"),
    ("jamba", "plain", {}, {"blk.0.ssm_b_norm.weight": None}, "'blk.0.ssm_b_norm.weight' is missing"),
    ("jamba", "plain", {}, {"blk.1.ffn_gate_inp.weight": None}, "'blk.1.ffn_gate.weight' is missing"),
    ("granitehybrid", "plain", {}, {"blk.0.ssm_norm.weight": None}, "'blk.0.ssm_norm.weight' is missing"),
    ("granitehybrid", "plain", {}, {"blk.2.ssm_out.weight": zeros(72, 60)}, "'blk.2.ssm_out.weight' is not supported"),
    ("granitehybrid", "plain", {"attention.head_count_kv": [0, 0, 3]}, {}, "has 3 numbers, but must have one for each layer"),
    ("nemotron_h", "plain", {"feed_forward_length": None}, {}, "feed_forward_length' is missing"),
    ("nemotron_h", "plain", {}, {"blk.1.ffn_norm.weight": zeros(72)}, "'blk.1.ffn_norm.weight' is not supported"),
    ("nemotron_h", "plain", {}, {"blk.1.ffn_gate.weight": zeros(88, 72)}, "'blk.1.ffn_gate.weight' is not supported"),
    ("nemotron_h_moe", "latent", {"moe_latent_size": 73}, {}, "moe_latent_size': is 73, but only 0 to 72 are supported"),
    ("nemotron_h_moe", "latent", {"moe_latent_size": None}, {}, "'blk.1.ffn_up_exps.weight': .* but 72 x 40 x 5 is expected"),
    ("nemotron_h_moe", "plain", {"expert_used_count": [2, 2, 1]}, {}, "expert_used_count': differs between layers"),
    ("nemotron_h_moe", "plain", {"expert_group_count": 5}, {}, "expert_group_used_count' is missing"),
    ("falcon-h1", "plain", {}, {"blk.1.ffn_norm": None}, "'blk.1.ffn_norm.weight' is missing"),
    ("falcon-h1", "plain", {}, {"blk.1.ffn_norm.weight": zeros(72)}, "'blk.1.ffn_norm.weight' is not supported"),
    ("glm4moe", "nextn", {"nextn_predict_layers": 3}, {}, "nextn_predict_layers': is 3, but only 0 to 2 are supported"),
]


@pytest.mark.parametrize("arch,variant,keys,tensors,sentence", REFUSED)
def test_refused(tmp_path, arch, variant, keys, tensors, sentence):
    path = tmp_path / "model.gguf"
    path.write_bytes(other_file(arch, variant, keys, tensors))
    with pytest.raises(AssertionError, match=sentence):
        engine([path], [1, 2], 0, True)


def test_other_spellings(tmp_path):
    """A norm with the ending that its name lacks, and one number as one for each layer."""
    name = "blk.{}.ffn_norm"
    norms = {i: gguf_file.read_parts(fixtures.make("falcon-h1", "plain", "F32"))[1][name.format(i)] for i in range(4)}
    renamed = {name.format(i): None for i in norms} | {name.format(i) + ".weight": t for i, t in norms.items()}
    pairs = [(("falcon-h1", "plain"), ("falcon-h1", "plain", {}, renamed)),
             (("nemotron_h_moe", "plain"), ("nemotron_h_moe", "plain", {"expert_used_count": [2] * 8}))]
    for i, parts in enumerate(pairs):
        paths = [tmp_path / f"{i}-{j}.gguf" for j in range(2)]
        for path, part in zip(paths, parts):
            path.write_bytes(other_file(*part))
        one, other = engine(paths, list(range(N_TOKENS_CHANGED)), 0, False)
        assert one.tobytes() == other.tobytes()


def test_experts_that_no_layer_has(tmp_path):
    """Dense files of Jamba have the keys of a mixture of one expert, which may say that a token uses more."""
    old, changed = gguf_file.read_parts(fixtures.make("jamba", "plain", "F32"))[1], {}
    for name, (kind, shape, data) in old.items():
        if name.endswith("_exps.weight"):
            changed[name.replace("_exps", "")] = kind, shape[1:], data[:len(data) // shape[0]]
        if "_exps" in name or "gate_inp" in name:
            changed[name] = None
    data = other_file("jamba", "plain", {"expert_count": 1, "expert_used_count": 2}, changed)
    path = tmp_path / "model.gguf"
    path.write_bytes(data)
    m = gguf_file.read(data)
    ids = random_ids(m, N_TOKENS)
    assert distance(engine([path], ids, 0, False)[0], reference(m, ids, 0)) < CLOSE


@pytest.mark.parametrize("arch,variant", [("qwen2", "plain"), ("qwen3", "tied"), ("llama", "moe"), ("gpt2", "plain")])
def test_decoders_that_see_both_ways(tmp_path, arch, variant):
    """Embedders with a decoder's body: their states are those that the output would take."""
    data = other_file(arch, variant, {"attention.causal": False})
    path = tmp_path / "model.gguf"
    path.write_bytes(data)
    m = gguf_file.read(data)
    ids = random_ids(m, N_TOKENS)
    found = engine([path], ids, 0, True)[0].astype(np.float64)
    expected = reference(m, ids, 0)
    assert distance_to(m, forward.output(m, found), expected) < CLOSE
    m.keys[f"{arch}.attention.causal"] = True
    assert distance(reference(m, ids, 0), expected) > FELT


def test_one_projection(tmp_path):
    """That makes as many numbers as it takes."""
    rng = np.random.default_rng(5)
    dense = "F32", (72, 72), rng.normal(0, 0.1, (72, 72)).astype("<f4").tobytes()
    for name in ("dense_2.weight", "dense_3.weight"):
        data = other_file("gemma-embedding", "keys", {}, {name: dense})
        path = tmp_path / "model.gguf"
        path.write_bytes(data)
        m = gguf_file.read(data)
        ids = random_ids(m, 20)
        assert distance(engine([path], ids, 0, True)[0], reference(m, ids, 0)) < CLOSE


@pytest.mark.parametrize("window", [0, 1, 2, 3, 119, 120, 121, 1000])
def test_reaches(tmp_path, window):
    """No windows, ones of no other token, of a neighbour on each side, and of more than the text."""
    data = other_file("modern-bert", "plain", {"attention.sliding_window": window})
    path = tmp_path / "model.gguf"
    path.write_bytes(data)
    m = gguf_file.read(data)
    ids = random_ids(m, N_TOKENS)
    found = engine([path], ids, 0, True)[0]
    assert distance(found, reference(m, ids, 0)) < CLOSE


# ---- nothing is ignored ----

def changed_tensor(name, kind, shape, data, rng):
    x = gguf_file.to_array(kind, shape, data)
    spread = np.abs(x).mean()
    y = x * rng.uniform(0.5, 1.5, shape) + rng.normal(0, 0.3 * spread, shape)
    if name.endswith("ssm_a"):  # the rate of a state that fades
        y = -np.abs(y)
    return kind, shape, y.astype("<f4").tobytes()


def numbers_of(arch, variant, keys):
    numbers = dict(NUMBERS)
    if arch == "modern-bert":
        numbers["hidden_activation"] = lambda v: "silu" if v == "gelu" else "gelu"
    if keys.get(f"{arch}.rope.scaling.type") == "yarn" or variant == "longrope":
        numbers[YARN_CONTEXT] = lambda v: v * 32
    if arch in PART_ROTATED and f"{arch}.rope.dimension_sections" not in keys:
        numbers["rope.dimension_count"] = lambda v: v - 2
    if arch == "gemma4":  # its heads have other sizes then
        del numbers["attention.sliding_window_pattern"]
    return {f"{arch}.{n}": other for n, other in numbers.items() if keys.get(f"{arch}.{n}")}


def without_layer(name):
    return name.split(".", 2)[-1] if name.startswith("blk.") else name


def is_of_further_tokens(arch, keys, name):
    """Of the layers behind the last one, which guess tokens behind the next."""
    n_layer = keys[f"{arch}.block_count"] - keys.get(f"{arch}.nextn_predict_layers", 0)
    return name.startswith("blk.") and int(name.split(".")[1]) >= n_layer


@functools.lru_cache
def parts_of(arch, variant):
    """The keys and tensors of a fixture, and the names in it that can be changed."""
    keys, tensors = gguf_file.read_parts(fixtures.make(arch, variant, "F32"))
    names = [n for n in tensors if (arch, without_layer(n)) not in WITHOUT_EFFECT
             and not is_of_further_tokens(arch, keys, n)]
    return keys, tensors, [*names, *numbers_of(arch, variant, keys)]


def changes(arch, variant):
    """name -> keys and tensors of a file in which it has changed, for each name that the variants
    before this one do not have."""
    variants = fixtures.BUILDERS[arch][1]
    keys, tensors, names = parts_of(arch, variant)
    known = {without_layer(n) for v in variants[:variants.index(variant)] for n in parts_of(arch, v)[2]}
    others = numbers_of(arch, variant, keys)
    rng = np.random.default_rng(3)
    found = {}
    for name in (n for n in names if without_layer(n) not in known):
        if name in tensors:
            found[name] = keys, {**tensors, name: changed_tensor(name, *tensors[name], rng)}
        else:
            found[name] = {**keys, name: others[name](keys[name])}, tensors
    return found


def compare_changes(folder, arch, variant):
    """What the reference hardly feels, and what the engine answers otherwise."""
    plain = gguf_file.read(fixtures.make(arch, variant, "F32"))
    files = changes(arch, variant)
    paths, models = [], []
    for i, (name, (keys, tensors)) in enumerate(files.items()):
        paths.append(folder / f"{variant}-{i}.gguf")
        paths[-1].write_bytes(gguf_file.write(keys, tensors))
        new = {name: gguf_file.to_array(*tensors[name])} if name in tensors else {}
        models.append(gguf_file.Model(keys, {**plain.tensors, **new}))
    ids = random_ids(plain, n_tokens(arch, N_TOKENS_CHANGED))
    felt, wrong = set(), {}
    for n_ctx in contexts(variant):
        before = reference(plain, ids, n_ctx)
        for name, m, found in zip(files, models, engine(paths, ids, n_ctx, arch in forward.EMBEDDERS)):
            expected = reference(m, ids, n_ctx)
            if distance(expected, before) > FELT:
                felt.add(name)
            if distance_to(m, found, expected) >= CLOSE:
                wrong[name] = distance_to(m, found, expected)
    return set(files) - felt, wrong


@pytest.mark.parametrize("arch", fixtures.BUILDERS)
def test_nothing_is_ignored(tmp_path, arch):
    for variant in fixtures.BUILDERS[arch][1]:
        faint, wrong = compare_changes(tmp_path, arch, variant)
        assert faint == set(), "the fixture does not show these"
        assert wrong == {}
