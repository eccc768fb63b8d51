/* server/metrics.c - see metrics.h. */
#include "server/metrics.h"

#include "server/process.h"

#include <inttypes.h>

void metrics_init(struct metrics *m)
{
    *m = (struct metrics){0};
    hist_init_ttft(&m->ttft);
    hist_init_itl(&m->itl);
    hist_init_latency(&m->e2e);
    hist_init_latency(&m->queue);
    hist_init_latency(&m->prefill);
    hist_init_latency(&m->decode);
    hist_init_tokens(&m->prompt_tokens);
    hist_init_tokens(&m->generation_tokens);
}

static const int codes[] = {
#define XX(code) code,
    METRICS_CODES(XX)
#undef XX
};

void metrics_http(struct metrics *m, size_t route, int status)
{
    for (size_t i = 0; i < METRICS_CODE_COUNT; i++)
        if (codes[i] == status && route < METRICS_MAX_ROUTES)
            m->http[route][i]++;
}

static void head(struct buf *b, const char *name, const char *type, const char *help)
{
    buf_printf(b, "# HELP quire_%s %s\n# TYPE quire_%s %s\n", name, help, name, type);
}

static void add_count(struct buf *b, const char *name, const char *type, uint64_t value,
                      const char *help)
{
    head(b, name, type, help);
    buf_printf(b, "quire_%s %" PRIu64 "\n", name, value);
}

static void add_number(struct buf *b, const char *name, double value, const char *help)
{
    head(b, name, "gauge", help);
    buf_printf(b, "quire_%s %.9g\n", name, value);
}

static void add_hist(struct buf *b, const char *name, const struct hist *h, const char *help)
{
    uint64_t below = 0;

    head(b, name, "histogram", help);
    for (uint32_t i = 0; i < h->n; i++) {
        below += h->count[i];
        buf_printf(b, "quire_%s_bucket{le=\"%g\"} %" PRIu64 "\n", name, h->bounds[i], below);
    }
    buf_printf(b, "quire_%s_bucket{le=\"+Inf\"} %" PRIu64 "\n", name, hist_total(h));
    buf_printf(b, "quire_%s_sum %.9g\n", name, h->sum);
    buf_printf(b, "quire_%s_count %" PRIu64 "\n", name, hist_total(h));
}

/* A label's value: quotes, backslashes and newlines are escaped. */
static void add_label(struct buf *b, const char *name, const char *value)
{
    buf_printf(b, "%s=\"", name);
    for (; *value != '\0'; value++) {
        if (*value == '"' || *value == '\\')
            buf_add_char(b, '\\');
        if (*value == '\n')
            buf_add_str(b, "\\n");
        else
            buf_add_char(b, *value);
    }
    buf_add_char(b, '"');
}

static void add_infos(struct buf *b, const struct metrics_scene *s)
{
    head(b, "model_info", "gauge", "The served model.");
    buf_add_str(b, "quire_model_info{");
    add_label(b, "model", s->model);
    buf_add_char(b, ',');
    add_label(b, "arch", s->arch);
    buf_add_char(b, ',');
    add_label(b, "ftype", s->ftype);
    buf_printf(b, ",max_model_len=\"%u\",parameters=\"%" PRIu64 "\",bytes=\"%" PRIu64 "\"} 1\n",
               s->max_context, s->n_params, s->model_bytes);
    head(b, "build_info", "gauge", "This build and the instruction set that it uses.");
    buf_add_str(b, "quire_build_info{");
    add_label(b, "version", s->version);
    buf_add_char(b, ',');
    add_label(b, "isa", s->isa);
    buf_add_str(b, "} 1\n");
}

static void add_engine_gauges(struct buf *b, const struct engine_stats *s)
{
    add_count(b, "requests_running", "gauge", s->n_running, "Requests with a place in the batch.");
    head(b, "requests_waiting", "gauge", "Requests that wait for their first step, by priority.");
    for (int p = 0; p < PRIORITY_COUNT; p++)
        buf_printf(b, "quire_requests_waiting{priority=\"%s\"} %u\n",
                   priority_name((enum priority)p), s->n_waiting[p]);
    add_count(b, "requests_preempted", "gauge", s->n_preempted,
              "Requests that lost their place and wait to come back.");
    add_count(b, "requests_swapped", "gauge", s->n_swapped,
              "Of the preempted ones: those of which there is a copy.");
    head(b, "kv_blocks", "gauge", "Blocks of the KV cache by state.");
    buf_printf(b, "quire_kv_blocks{state=\"free\"} %u\n", s->blocks_free);
    buf_printf(b, "quire_kv_blocks{state=\"cached\"} %u\n", s->blocks_cached);
    buf_printf(b, "quire_kv_blocks{state=\"held\"} %u\n", s->blocks_held);
    /* The name is agreed, and a gauge may not be called _total: so it has no type. */
    add_count(b, "kv_blocks_total", "untyped", s->blocks_total, "Blocks of the KV cache.");
    add_number(b, "kv_usage_ratio",
               s->blocks_total > 0 ? (double)s->blocks_held / s->blocks_total : 0,
               "Part of the KV cache's blocks that requests hold, 0 to 1.");
    add_count(b, "kv_pressure", "gauge", (uint64_t)s->pressure,
              "Memory pressure by the watermarks: 0 relaxed, 1 low, 2 critical.");
}

/* Slots are of a block each. */
static void add_swap_gauges(struct buf *b, const struct engine_stats *s)
{
    const struct swap_stats *w = &s->swap;

    head(b, "swap_bytes", "gauge", "Bytes of swapped copies by tier.");
    buf_printf(b, "quire_swap_bytes{tier=\"ram\"} %" PRIu64 "\n", w->ram_used * s->block_bytes);
    buf_printf(b, "quire_swap_bytes{tier=\"file\"} %" PRIu64 "\n", w->file_used * s->block_bytes);
    head(b, "swap_capacity_bytes", "gauge", "Most bytes of swapped copies by tier.");
    buf_printf(b, "quire_swap_capacity_bytes{tier=\"ram\"} %" PRIu64 "\n",
               w->ram_slots * s->block_bytes);
    buf_printf(b, "quire_swap_capacity_bytes{tier=\"file\"} %" PRIu64 "\n",
               w->file_slots * s->block_bytes);
}

static void add_swap_counters(struct buf *b, const struct engine_stats *s)
{
    static const char *const tiers[] = {"ram", "file"};
    const struct swap_stats *w = &s->swap;

    head(b, "swap_blocks_total", "counter", "Blocks moved out to a tier and in from it.");
    for (int t = 0; t < 2; t++) {
        buf_printf(b, "quire_swap_blocks_total{direction=\"out\",tier=\"%s\"} %" PRIu64 "\n",
                   tiers[t], w->blocks_out[t]);
        buf_printf(b, "quire_swap_blocks_total{direction=\"in\",tier=\"%s\"} %" PRIu64 "\n",
                   tiers[t], w->blocks_in[t]);
    }
    head(b, "swap_errors_total", "counter", "Copies that could not be written or read back.");
    buf_printf(b, "quire_swap_errors_total{direction=\"out\"} %" PRIu64 "\n", w->n_write_errors);
    buf_printf(b, "quire_swap_errors_total{direction=\"in\"} %" PRIu64 "\n", w->n_read_errors);
    add_count(b, "swap_refusals_total", "counter", w->n_refused,
              "Copies that were not made for want of room.");
    add_count(b, "swap_fallbacks_total", "counter", s->swap_fallbacks,
              "Sequences computed again because their copy was refused or lost.");
}

static void add_prefix_counters(struct buf *b, const struct engine_stats *s)
{
    add_count(b, "prefix_cache_queries_tokens_total", "counter", s->prefix_queries,
              "Tokens that were looked up in the prefix cache.");
    add_count(b, "prefix_cache_hits_tokens_total", "counter", s->prefix_hits,
              "Tokens of these that were found.");
    add_count(b, "prefix_evictions_total", "counter", s->prefix_evictions,
              "Cached blocks that were given up for others.");
    add_count(b, "kv_blocks_copied_total", "counter", s->blocks_copied,
              "Blocks copied because they were shared and about to be written, or used in part.");
}

static void add_engine_counters(struct buf *b, const struct engine_stats *s)
{
    add_count(b, "prompt_tokens_total", "counter", s->prompt_tokens, "Prompt tokens computed.");
    add_count(b, "generation_tokens_total", "counter", s->generation_tokens, "Tokens generated.");
    add_count(b, "cached_tokens_total", "counter", s->cached_tokens,
              "Prompt tokens that were not computed because their blocks were there.");
    add_count(b, "recomputed_tokens_total", "counter", s->recomputed_tokens,
              "Tokens computed again after a preemption.");
    head(b, "preemptions_total", "counter", "Preemptions by the way the request comes back.");
    buf_printf(b, "quire_preemptions_total{mode=\"recompute\"} %" PRIu64 "\n",
               s->preemptions_recompute);
    buf_printf(b, "quire_preemptions_total{mode=\"swap\"} %" PRIu64 "\n", s->preemptions_swap);
    add_swap_counters(b, s);
    add_prefix_counters(b, s);
    add_count(b, "iterations_total", "counter", s->iterations, "Steps of the engine.");
    if (s->iteration_tokens.n > 0)
        add_hist(b, "iteration_tokens", &s->iteration_tokens, "Tokens computed in one step.");
    if (s->iteration_seconds.n > 0)
        add_hist(b, "iteration_seconds", &s->iteration_seconds, "Duration of one step.");
    if (s->batch_sequences.n > 0)
        add_hist(b, "batch_sequences", &s->batch_sequences, "Sequences in one step.");
    if (s->cost_error.n > 0)
        add_hist(b, "cost_model_error_ratio", &s->cost_error,
                 "Error of a step's predicted duration, relative to the measured one.");
}

static void add_server_counters(struct buf *b, const struct metrics *m,
                                const struct metrics_scene *s)
{
    static const char *const outcomes[OUTCOME_COUNT] = {"stop",  "length",   "cancelled",
                                                        "error", "rejected", "timeout"};
    static const char *const reasons[REJECTION_COUNT] = {
        [REJECTION_INVALID] = "invalid",
        [REJECTION_CONTEXT] = "context_length",
        [REJECTION_QUEUE_FULL] = "queue_full",
        [REJECTION_DRAINING] = "draining",
        [REJECTION_DEADLINE] = "deadline_unreachable",
        [REJECTION_TENANT_LIMIT] = "tenant_limit",
        [REJECTION_QUEUE_TIMEOUT] = "queue_timeout",
        [REJECTION_UNAUTHORIZED] = "unauthorized",
        [REJECTION_FORBIDDEN] = "forbidden",
        [REJECTION_RATE_LIMIT] = "rate_limit",
    };

    head(b, "requests_total", "counter", "Choices that ended and requests that were refused.");
    for (int i = 0; i < OUTCOME_COUNT; i++)
        buf_printf(b, "quire_requests_total{endpoint=\"completions\",outcome=\"%s\"} %" PRIu64 "\n",
                   outcomes[i], m->outcomes[i]);
    head(b, "rejections_total", "counter", "Refused requests by reason.");
    for (int i = 0; i < REJECTION_COUNT; i++)
        buf_printf(b, "quire_rejections_total{reason=\"%s\"} %" PRIu64 "\n", reasons[i],
                   m->rejections[i]);
    head(b, "http_requests_total", "counter", "HTTP requests by route and status.");
    for (size_t r = 0; r < s->n_routes && r < METRICS_MAX_ROUTES; r++)
        for (size_t i = 0; i < METRICS_CODE_COUNT; i++)
            if (m->http[r][i] > 0)
                buf_printf(b, "quire_http_requests_total{route=\"%s\",code=\"%d\"} %" PRIu64 "\n",
                           s->routes[r], codes[i], m->http[r][i]);
    add_count(b, "unknown_fields_total", "counter", m->unknown_fields,
              "Fields of request bodies that were ignored.");
}

static void add_server_hists(struct buf *b, const struct metrics *m)
{
    add_hist(b, "time_to_first_token_seconds", &m->ttft, "From arrival to the first token.");
    add_hist(b, "inter_token_latency_seconds", &m->itl, "Between two tokens of a request.");
    add_hist(b, "e2e_request_latency_seconds", &m->e2e, "From arrival to the end.");
    add_hist(b, "request_queue_time_seconds", &m->queue, "From arrival to the first step.");
    add_hist(b, "request_prefill_time_seconds", &m->prefill,
             "From the first step to the first token.");
    add_hist(b, "request_decode_time_seconds", &m->decode, "From the first token to the end.");
    add_hist(b, "request_prompt_tokens", &m->prompt_tokens, "Tokens of a prompt.");
    add_hist(b, "request_generation_tokens", &m->generation_tokens,
             "Tokens generated for a request.");
}

static void add_process(struct buf *b)
{
    struct process_facts p;

    process_read(&p);
    buf_printf(b,
               "# HELP process_cpu_seconds_total User and system CPU time.\n"
               "# TYPE process_cpu_seconds_total counter\n"
               "process_cpu_seconds_total %.2f\n"
               "# HELP process_resident_memory_bytes Resident memory.\n"
               "# TYPE process_resident_memory_bytes gauge\n"
               "process_resident_memory_bytes %" PRIu64 "\n"
               "# HELP process_virtual_memory_bytes Virtual memory.\n"
               "# TYPE process_virtual_memory_bytes gauge\n"
               "process_virtual_memory_bytes %" PRIu64 "\n",
               p.cpu_seconds, p.resident_bytes, p.virtual_bytes);
    buf_printf(b,
               "# HELP process_open_fds Open file descriptors.\n"
               "# TYPE process_open_fds gauge\n"
               "process_open_fds %" PRIu64 "\n"
               "# HELP process_max_fds Most file descriptors that may be open.\n"
               "# TYPE process_max_fds gauge\n"
               "process_max_fds %" PRIu64 "\n"
               "# HELP process_start_time_seconds Start of the process in Unix seconds.\n"
               "# TYPE process_start_time_seconds gauge\n"
               "process_start_time_seconds %.2f\n",
               p.open_fds, p.max_fds, p.start_time_seconds);
}

void metrics_render(const struct metrics *m, const struct metrics_scene *scene, struct buf *out)
{
    add_infos(out, scene);
    add_number(out, "uptime_seconds", scene->uptime_s, "Since the server was ready.");
    add_count(out, "connections", "gauge", scene->n_connections, "Open client connections.");
    add_count(out, "tenants", "gauge", scene->n_tenants, "Tenants that are told apart.");
    add_count(out, "tenants_shared_total", "counter", scene->n_tenants_shared,
              "Requests of tenants for which there was no place: they share one.");
    add_engine_gauges(out, &scene->stats);
    add_swap_gauges(out, &scene->stats);
    add_engine_counters(out, &scene->stats);
    add_server_counters(out, m, scene);
    add_server_hists(out, m);
    add_process(out);
}
