/* server/metrics/metrics_peers.c - the same counters under the names that dashboards for vLLM and
 * llama-server look for; see metrics_impl.h.
 *
 * A family that counts something else there than here is left out: llama-server's n_tokens_max, and
 * all about images and other machines. vLLM's histograms of times have its bounds and no others, so
 * that those of several servers add up.
 *
 * Source: vLLM, v1/metrics/loggers.py; llama.cpp, tools/server/server-task.cpp and README.md.
 */
#include "core/base/err.h"
#include "server/metrics/metrics_family.h"
#include "server/metrics/metrics_impl.h"
#include "server/metrics/prometheus.h"

#define N_OF(array) (sizeof(array) / sizeof((array)[0]))

/* ---- values that are made of several ---- */

/* Waiting requests with the preempted ones, which both projects put back into their queue. */
static uint64_t n_waiting(const struct metrics_model *m)
{
    uint64_t n = m->stats.n_preempted;

    for (int i = 0; i < PRIORITY_COUNT; i++)
        n += m->stats.n_waiting[i];
    return n;
}

static uint64_t n_preemptions(const struct metrics_model *m)
{
    return m->stats.preemptions_recompute + m->stats.preemptions_swap;
}

/* Sums over all sources of drafts. */
static struct draft_stats drafts(const struct metrics_model *m)
{
    struct draft_stats sum = {0};

    for (int i = 0; i < DRAFT_SOURCES; i++) {
        sum.runs += m->stats.drafts[i].runs;
        sum.drafted += m->stats.drafts[i].drafted;
        sum.accepted += m->stats.drafts[i].accepted;
    }
    return sum;
}

static uint64_t n_drafts(const struct metrics_model *m)
{
    return drafts(m).runs;
}

static uint64_t n_drafted(const struct metrics_model *m)
{
    return drafts(m).drafted;
}

static uint64_t n_accepted(const struct metrics_model *m)
{
    return drafts(m).accepted;
}

/* vLLM counts tokens that were found in the cache, too. */
static uint64_t all_prompt_tokens(const struct metrics_model *m)
{
    return m->stats.prompt_tokens + m->stats.cached_tokens;
}

static uint64_t n_aborted(const struct metrics_model *m)
{
    return m->counts->outcomes[OUTCOME_CANCELLED] + m->counts->outcomes[OUTCOME_TIMEOUT];
}

static double or_zero(double a, double b)
{
    return b > 0 ? a / b : 0;
}

static double prompt_rate(const struct metrics_model *m)
{
    return or_zero((double)m->stats.prompt_tokens, m->counts->prefill.sum);
}

static double generation_rate(const struct metrics_model *m)
{
    return or_zero((double)m->stats.generation_tokens, m->counts->decode.sum);
}

static double batch_size(const struct metrics_model *m)
{
    return or_zero(m->stats.batch_sequences.sum,
                   (double)hist_total(&m->stats.batch_sequences));
}

/* ---- vLLM ---- */

/* One engine serves a model. */
#define ENGINE "engine=\"0\""

static const struct metrics_bounds first_token_bounds = {
    22, {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1,
         2.5,   5,     7.5,  10,   20,   40,   80,   160, 640,  2560}};
static const struct metrics_bounds token_bounds = {
    19, {0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40,
         80}};
static const struct metrics_bounds latency_bounds = {
    21, {0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920,
         7680}};

static const struct metrics_family vllm_families[] = {
    {"vllm:num_requests_running", "gauge", "Requests that are running.",
     {{ENGINE, MODEL(stats.n_running)}}},
    {"vllm:num_requests_waiting", "gauge",
     "Requests that wait for their first step, or to resume after a preemption.",
     {{ENGINE, COUNT_OF(n_waiting)}}},
    {"vllm:kv_cache_usage_perc", "gauge", "Fraction of the KV cache's blocks in use, from 0 to 1.",
     {{ENGINE, AT(FORM_USAGE, stats)}}},
    {"vllm:prefix_cache_queries_total", "counter",
     "Tokens that were looked up in the prefix cache.", {{ENGINE, MODEL(stats.prefix_queries)}}},
    {"vllm:prefix_cache_hits_total", "counter", "Tokens that were found in the prefix cache.",
     {{ENGINE, MODEL(stats.prefix_hits)}}},
    {"vllm:num_preemptions_total", "counter", "Preemptions of requests.",
     {{ENGINE, COUNT_OF(n_preemptions)}}},
    {"vllm:prompt_tokens_total", "counter", "Prompt tokens, computed or found in the prefix cache.",
     {{ENGINE, COUNT_OF(all_prompt_tokens)}}},
    {"vllm:prompt_tokens_cached_total", "counter",
     "Prompt tokens that were found in the prefix cache.", {{ENGINE, MODEL(stats.cached_tokens)}}},
    {"vllm:generation_tokens_total", "counter", "Tokens that were generated.",
     {{ENGINE, MODEL(stats.generation_tokens)}}},
    {"vllm:spec_decode_num_drafts_total", "counter",
     "Drafts (guesses of the next tokens) that the model verified.",
     {{ENGINE, COUNT_OF(n_drafts)}}},
    {"vllm:spec_decode_num_draft_tokens_total", "counter",
     "Tokens of drafts that the model verified.", {{ENGINE, COUNT_OF(n_drafted)}}},
    {"vllm:spec_decode_num_accepted_tokens_total", "counter",
     "Draft tokens that the model accepted.", {{ENGINE, COUNT_OF(n_accepted)}}},
    {"vllm:request_success_total", "counter", "Choices that ended, by finish reason.",
     {{ENGINE ",finished_reason=\"stop\"", COUNTS(outcomes[OUTCOME_STOP])},
      {ENGINE ",finished_reason=\"length\"", COUNTS(outcomes[OUTCOME_LENGTH])},
      {ENGINE ",finished_reason=\"abort\"", COUNT_OF(n_aborted)},
      {ENGINE ",finished_reason=\"error\"", COUNTS(outcomes[OUTCOME_ERROR])}}},
    {"vllm:request_prompt_tokens", "histogram", "Prompt tokens of each request.",
     {{ENGINE, COUNTS(prompt_tokens)}}},
    {"vllm:request_generation_tokens", "histogram", "Tokens generated for each request.",
     {{ENGINE, COUNTS(generation_tokens)}}},
    {"vllm:iteration_tokens_total", "histogram", "Tokens computed in each step.",
     {{ENGINE, MODEL(stats.iteration_tokens)}}},
    {"vllm:time_to_first_token_seconds", "histogram",
     "Time from a request's arrival to its first token, in seconds.",
     {{ENGINE, COUNTS_WITHIN(ttft, &first_token_bounds)}}},
    {"vllm:inter_token_latency_seconds", "histogram",
     "Time between two consecutive tokens of a request, in seconds.",
     {{ENGINE, COUNTS_WITHIN(itl, &token_bounds)}}},
    {"vllm:time_per_output_token_seconds", "histogram",
     "Older name of vllm:inter_token_latency_seconds, with the same values.",
     {{ENGINE, COUNTS_WITHIN(itl, &token_bounds)}}},
    {"vllm:request_time_per_output_token_seconds", "histogram",
     "Mean time of each token after the first of a request, in seconds.",
     {{ENGINE, COUNTS_WITHIN(per_token, &token_bounds)}}},
    {"vllm:e2e_request_latency_seconds", "histogram",
     "Time from a request's arrival to its end, in seconds.",
     {{ENGINE, COUNTS_WITHIN(e2e, &latency_bounds)}}},
    {"vllm:request_queue_time_seconds", "histogram",
     "Time that a request waited in the queue for its first step, in seconds.",
     {{ENGINE, COUNTS_WITHIN(queue, &latency_bounds)}}},
    {"vllm:request_inference_time_seconds", "histogram",
     "Time from a request's first step to its end, in seconds.",
     {{ENGINE, COUNTS_WITHIN(running, &latency_bounds)}}},
    {"vllm:request_prefill_time_seconds", "histogram",
     "Time from a request's first step to its first token (prefill), in seconds.",
     {{ENGINE, COUNTS_WITHIN(prefill, &latency_bounds)}}},
    {"vllm:request_decode_time_seconds", "histogram",
     "Time from a request's first token to its end (decode), in seconds.",
     {{ENGINE, COUNTS_WITHIN(decode, &latency_bounds)}}},
};

/* vLLM calls the blocks that requests run in GPU blocks, on CPUs too. */
static void add_cache_config(const struct metrics_scene *scene, struct buf *b)
{
    const char *name = "vllm:cache_config_info";

    prom_family(b, name, "gauge", "Configuration of the KV cache; the value is always 1.");
    for (uint32_t i = 0; i < scene->n_models; i++) {
        const struct metrics_model *m = &scene->models[i];

        buf_printf(b, "%s{", name);
        prom_label(b, "model_name", m->id);
        buf_printf(b, "," ENGINE ",block_size=\"%u\",num_gpu_blocks=\"%u\",", m->block_tokens,
                   m->stats.blocks_total);
        prom_label(b, "cache_dtype", m->kv_type);
        buf_printf(b, ",enable_prefix_caching=\"%s\"} 1\n", m->shares_prefixes ? "True" : "False");
    }
}

static const char *names_of(const struct buf *names)
{
    return names->len > 0 ? names->data : "";
}

/* The value is the time of the sample: readers take the latest if there are several. */
static void add_lora_requests(const struct metrics_scene *scene, struct buf *b)
{
    const char *name = "vllm:lora_requests_info";
    bool is_first = true;

    for (uint32_t i = 0; i < scene->n_models; i++) {
        const struct metrics_model *m = &scene->models[i];

        if (m->max_adapters == 0)
            continue;
        if (is_first)
            prom_family(b, name, "gauge",
                        "LoRA adapters of running and waiting requests; the value is the time in "
                        "Unix seconds.");
        is_first = false;
        buf_printf(b, "%s{", name);
        prom_label(b, "model_name", m->id);
        buf_printf(b, ",max_lora=\"%u\",", m->max_adapters);
        prom_label(b, "running_lora_adapters", names_of(&m->adapters_running));
        buf_add_char(b, ',');
        prom_label(b, "waiting_lora_adapters", names_of(&m->adapters_waiting));
        buf_printf(b, "} %.3f\n", scene->unix_s);
        if (m->adapters_running.err < 0 || m->adapters_waiting.err < 0)
            b->err = ERR_NOMEM;
    }
}

static void add_vllm(const struct metrics_scene *scene, struct buf *b)
{
    metrics_families_add(vllm_families, N_OF(vllm_families), scene, METRICS_LABEL_MODEL_NAME, b);
    add_cache_config(scene, b);
    add_lora_requests(scene, b);
}

/* ---- llama-server ---- */

static const struct metrics_family llamacpp_families[] = {
    {"llamacpp:prompt_tokens_total", "counter", "Prompt tokens that were computed.",
     {{NULL, MODEL(stats.prompt_tokens)}}},
    {"llamacpp:prompt_tokens_cached_total", "counter",
     "Prompt tokens that were found in the prefix cache.", {{NULL, MODEL(stats.cached_tokens)}}},
    {"llamacpp:prompt_seconds_total", "counter",
     "Time from first step to first token, summed over all requests, in seconds.",
     {{NULL, COUNTS_AT(FORM_SUM, prefill.sum)}}},
    {"llamacpp:tokens_predicted_total", "counter", "Tokens that were generated.",
     {{NULL, MODEL(stats.generation_tokens)}}},
    {"llamacpp:tokens_predicted_seconds_total", "counter",
     "Time from first token to end, summed over all requests, in seconds.",
     {{NULL, COUNTS_AT(FORM_SUM, decode.sum)}}},
    {"llamacpp:n_decode_total", "counter", "Steps that the engine has computed.",
     {{NULL, MODEL(stats.iterations)}}},
    {"llamacpp:prompt_tokens_seconds", "gauge",
     "Computed prompt tokens divided by the seconds of llamacpp:prompt_seconds_total.",
     {{NULL, NUMBER_OF(prompt_rate)}}},
    {"llamacpp:predicted_tokens_seconds", "gauge",
     "Generated tokens divided by the seconds of llamacpp:tokens_predicted_seconds_total.",
     {{NULL, NUMBER_OF(generation_rate)}}},
    {"llamacpp:requests_processing", "gauge", "Requests that are running.",
     {{NULL, MODEL(stats.n_running)}}},
    {"llamacpp:requests_deferred", "gauge",
     "Requests that wait for their first step, or to resume after a preemption.",
     {{NULL, COUNT_OF(n_waiting)}}},
    {"llamacpp:n_busy_slots_per_decode", "gauge",
     "Sequences in a step: the mean of all steps since the start.",
     {{NULL, NUMBER_OF(batch_size)}}},
};

void metrics_peers_add(const struct metrics_scene *scene, struct buf *b)
{
    if ((scene->names & METRICS_NAMES_VLLM) != 0)
        add_vllm(scene, b);
    if ((scene->names & METRICS_NAMES_LLAMACPP) != 0)
        metrics_families_add(llamacpp_families, N_OF(llamacpp_families), scene,
                             METRICS_LABEL_MODEL, b);
}
