"""/metrics under the names that vLLM and llama-server have: the same values as under Quire's own."""
import re
import shutil
import subprocess

import pytest

from quire import serve_in_vain

ALL = ("--metrics-names", "quire, vllm,llamacpp")

# vLLM's own, of v1/metrics/loggers.py: servers of both kinds add up only with the same ones.
FIRST_TOKEN = [0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560]
TOKEN = [0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80]
LATENCY = [0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680]
BOUNDS = {"time_to_first_token_seconds": FIRST_TOKEN, "inter_token_latency_seconds": TOKEN, "time_per_output_token_seconds": TOKEN,
          "request_time_per_output_token_seconds": TOKEN, "e2e_request_latency_seconds": LATENCY,
          "request_queue_time_seconds": LATENCY, "request_inference_time_seconds": LATENCY,
          "request_prefill_time_seconds": LATENCY, "request_decode_time_seconds": LATENCY,
          "iteration_tokens_total": [1, *(2**i for i in range(3, 15))]}


def busy(server):
    """Some requests of every kind, so that no counter is 0 for want of use."""
    prompt = "Once upon a time there was a bear and a fox. " * 4
    for _ in range(2):
        server.complete(prompt, max_tokens=8, ignore_eos=True)
        server.stream(prompt, max_tokens=8, ignore_eos=True).text()
    server.complete("The end", max_tokens=200, temperature=0)
    server.wait_idle()
    return server.metrics()


def same(m, theirs, ours):
    assert theirs in m and ours in m, (theirs, ours)
    return m[theirs] == m[ours]


def test_vllm(start):
    s = start(*ALL)
    m = busy(s)
    labels = 'model_name="quire-demo",engine="0"'
    for theirs, ours in (("num_requests_running", "requests_running"), ("kv_cache_usage_perc", "kv_usage_ratio"),
                         ("generation_tokens_total", "generation_tokens_total"),
                         ("prompt_tokens_cached_total", "cached_tokens_total"),
                         ("prefix_cache_queries_total", "prefix_cache_queries_tokens_total"),
                         ("prefix_cache_hits_total", "prefix_cache_hits_tokens_total")):
        assert same(m, f"vllm:{theirs}{{{labels}}}", f"quire_{ours}"), theirs
    assert m[f"vllm:prompt_tokens_total{{{labels}}}"] == m["quire_prompt_tokens_total"] + m["quire_cached_tokens_total"] > 100
    assert m[f"vllm:prefix_cache_hits_total{{{labels}}}"] > 0 and m[f"vllm:num_preemptions_total{{{labels}}}"] == 0
    for reason in ("stop", "length", "error"):
        assert same(m, f'vllm:request_success_total{{{labels},finished_reason="{reason}"}}',
                    f'quire_requests_total{{endpoint="completions",outcome="{reason}"}}')
    assert m[f'vllm:request_success_total{{{labels},finished_reason="length"}}'] >= 4
    for theirs, ours in (("time_to_first_token_seconds", None), ("inter_token_latency_seconds", None),
                         ("time_per_output_token_seconds", "inter_token_latency_seconds"),
                         ("e2e_request_latency_seconds", None), ("request_queue_time_seconds", None),
                         ("request_prefill_time_seconds", None), ("request_decode_time_seconds", None),
                         ("request_inference_time_seconds", None), ("request_time_per_output_token_seconds", None),
                         ("request_prompt_tokens", None), ("request_generation_tokens", None),
                         ("iteration_tokens_total", "iteration_tokens")):
        ours = ours or theirs
        assert same(m, f"vllm:{theirs}_count{{{labels}}}", f"quire_{ours}_count") and m[f"quire_{ours}_count"] > 0
        assert same(m, f"vllm:{theirs}_sum{{{labels}}}", f"quire_{ours}_sum")
        bounds = [k for k in m if k.startswith(f"vllm:{theirs}_bucket{{{labels}")]
        found = [re.search(r'le="([^"]+)"', k)[1] for k in bounds]
        assert found[-1] == "+Inf"
        assert theirs not in BOUNDS or [float(x) for x in found[:-1]] == BOUNDS[theirs], theirs
        for k, le in zip(bounds, found):
            assert same(m, k, f'quire_{ours}_bucket{{le="{le}"}}')


def test_times_of_requests(start):
    s = start(*ALL)
    s.complete("Once", max_tokens=1)
    m = busy(s)
    count, total = "quire_request_{}_seconds_count", "quire_request_{}_seconds_sum"
    assert m[count.format("time_per_output_token")] == m[count.format("inference_time")] - 1, "not of one token"
    assert m[total.format("inference_time")] == pytest.approx(
        m[total.format("prefill_time")] + m[total.format("decode_time")], abs=1e-5), "nothing was preempted"
    assert 0 < m[total.format("time_per_output_token")] < m[total.format("decode_time")]


def test_cache_config(start):
    """The labels that llm-d's endpoint picker reads; the value is always 1."""
    s = start(*ALL, "--kv-type", "q8_0", "--prefix-cache", "off")
    m = s.metrics()
    blocks = int(m["quire_kv_blocks_total"])
    assert m[f'vllm:cache_config_info{{model_name="quire-demo",engine="0",block_size="16",num_gpu_blocks="{blocks}",'
             'cache_dtype="q8_0",enable_prefix_caching="False"}'] == 1
    assert blocks > 0 and not [k for k in m if k.startswith("vllm:lora_requests_info")], "there are no adapters"


def test_llamacpp(start):
    m = busy(start(*ALL))
    for theirs, ours in (("prompt_tokens_total", "prompt_tokens_total"), ("prompt_tokens_cached_total", "cached_tokens_total"),
                         ("tokens_predicted_total", "generation_tokens_total"), ("n_decode_total", "iterations_total"),
                         ("requests_processing", "requests_running"),
                         ("prompt_seconds_total", "request_prefill_time_seconds_sum"),
                         ("tokens_predicted_seconds_total", "request_decode_time_seconds_sum")):
        assert same(m, f"llamacpp:{theirs}", f"quire_{ours}"), theirs
    assert m["llamacpp:requests_deferred"] == 0
    for rate, n, seconds in (("prompt_tokens_seconds", "prompt_tokens_total", "prompt_seconds_total"),
                             ("predicted_tokens_seconds", "tokens_predicted_total", "tokens_predicted_seconds_total")):
        assert m[f"llamacpp:{rate}"] == pytest.approx(m[f"llamacpp:{n}"] / m[f"llamacpp:{seconds}"], rel=1e-6)
    assert m["llamacpp:n_busy_slots_per_decode"] == pytest.approx(
        m["quire_batch_sequences_sum"] / m["quire_batch_sequences_count"])


def test_requests_that_wait(start):
    s = start("--max-sequences", "1", *ALL)
    streams = [s.stream("Once", max_tokens=100000, ignore_eos=True) for _ in range(3)]
    labels = '{model_name="quire-demo",engine="0"}'
    s.wait_until(lambda m: m[f"vllm:num_requests_running{labels}"] == 1 == m["llamacpp:requests_processing"]
                 and m[f"vllm:num_requests_waiting{labels}"] == 2 == m["llamacpp:requests_deferred"], what="two wait")
    for x in streams:
        x.close()
    s.wait_idle()


@pytest.mark.parametrize("names,there", [("quire", {"quire"}), ("vllm", {"vllm"}), ("llamacpp", {"llamacpp"}),
                                         ("vllm, quire", {"quire", "vllm"})])
def test_only_those_that_are_asked_for(start, names, there):
    s = start("--metrics-names", names)
    page = s.get("/metrics").body.decode()
    found = {m for m in re.findall(r"^# TYPE ([a-z]+)[:_]", page, re.M)}
    assert found == there | {"process"}


def test_default(server):
    page = server.get("/metrics").body.decode()
    assert "vllm:" not in page and "llamacpp:" not in page and "quire_build_info" in page


def test_several_models(start):
    s = start("--model", "a=,b=", *ALL, model="")
    assert s.post("/v1/completions", {"model": "b", "prompt": "Once", "max_tokens": 3, "ignore_eos": True}).status == 200
    m = s.metrics()
    assert [m[f'vllm:generation_tokens_total{{model_name="{x}",engine="0"}}'] for x in "ab"] == [0, 3]
    assert [m[f'llamacpp:tokens_predicted_total{{model="{x}"}}'] for x in "ab"] == [0, 3]


def test_page_is_prometheus(start):
    """promtool complains of the colons, which are for rules, and of vLLM's histogram called _total: of these alone."""
    s = start(*ALL)
    busy(s)
    tool = shutil.which("promtool")
    if tool is None:
        pytest.skip("skip: no promtool (Debian package prometheus)")
    run = subprocess.run([tool, "check", "metrics"], input=s.get("/metrics").body, capture_output=True, check=False)
    lines = [line for line in run.stderr.decode().splitlines()
             if not re.fullmatch(r"(vllm|llamacpp):\w+ metric names should not contain ':'", line)]
    assert lines in ([], ['vllm:iteration_tokens_total non-counter metrics should not have "_total" suffix']), run.stderr
    assert run.returncode in (0, 3), run.stderr


@pytest.mark.parametrize("names", ["", " ", "prometheus", "vllm,", "quire;vllm", "quire vllm", "Quire", "*"])
def test_names_that_nobody_has(names):
    run = serve_in_vain("--metrics-names", names)
    assert run.returncode == 2 and "'metrics_names' must be one or more of quire, vllm and llamacpp" in run.stderr
