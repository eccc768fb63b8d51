"""A long text: how it is cut into chunks changes nothing of what follows it. Of 32,768 tokens where whoever runs the tests
has time: attention takes four times as long for twice as many."""
import pathlib
import sys

import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "reference"))

import fixtures  # noqa: E402
from quire import SLOW  # noqa: E402

N_PROMPT = 32768 if SLOW else 12288
N_NEW = 48
CHUNKS = (64, 2048)

# Attention to all that is before, with stretched positions, and windows whose blocks are given back
# beside layers that see everything.
MODELS = [("llama", "yarn"), ("gemma3", "plain")]


def answer(start, path, chunk, prompt):
    s = start("--prefill-chunk", str(chunk), "--max-batch-tokens", str(chunk), "--max-sequences", "4",
              "--prefix-cache", "off", "--kv-memory", "256m", model=path)
    body = {"prompt": prompt, "max_tokens": N_NEW, "temperature": 0, "ignore_eos": True, "logprobs": 3}
    r = s.post("/v1/completions", body, timeout=600)
    assert r.status == 200, r.body
    assert r.json["usage"] == {**r.json["usage"], "prompt_tokens": N_PROMPT, "completion_tokens": N_NEW}
    s.wait_idle()
    s.stop()
    return r.json["choices"]


@pytest.mark.parametrize("arch,variant", MODELS, ids=[m[0] for m in MODELS])
def test_chunks_change_nothing(start, tmp_path, arch, variant):
    path = tmp_path / "long.gguf"
    path.write_bytes(fixtures.make(arch, variant, "F32", n_ctx=N_PROMPT + N_NEW))
    n_vocab = fixtures.Fixture(arch, variant, "F32", 1, N_PROMPT).n_vocab
    prompt = np.random.default_rng(11).integers(0, n_vocab, N_PROMPT).tolist()
    small, big = (answer(start, path, chunk, prompt) for chunk in CHUNKS)
    assert len(set(small[0]["logprobs"]["token_logprobs"])) > N_NEW // 2  # it is no constant
    assert small == big
