/* tests/unit/server/test_metrics.c - the page of /metrics, from made-up numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/err.h"
#include "server/http/http_shared.h"
#include "server/metrics/metrics.h"

#define N_MODELS 3
#define NAME_LEN 64

/* ---- made-up counts ---- */

struct stage {
    struct metrics_server server_counts;
    struct metrics counts[N_MODELS];
    struct metrics_model models[N_MODELS];
    struct metrics_scene scene;
    struct loop_guard loop;
    struct buf text;
};

static void feed_engine(struct engine_stats *s)
{
    hist_init_step(&s->iteration_tokens);
    hist_init_latency(&s->iteration_seconds);
    hist_init_tokens(&s->batch_sequences);
    hist_init_ratio(&s->cost_error);
}

static void set(struct stage *g, uint32_t n_models)
{
    static const char *const ids[N_MODELS] = {"al\"pha", "be\\ta\n", "gamma"};
    static const char *const routes[] = {"/v1/completions", "other"};
    static const uint64_t edge[HTTP_EDGE_COUNT] = {[HTTP_EDGE_ORIGIN] = 33};

    *g = (struct stage){.scene = {.models = g->models,
                                  .n_models = n_models,
                                  .names = METRICS_NAMES_QUIRE,
                                  .server_counts = &g->server_counts,
                                  .routes = routes,
                                  .n_routes = 2,
                                  .isa = "i",
                                  .version = "v",
                                  .memory_used = 500,
                                  .memory_max = 600,
                                  .edge = edge,
                                  .n_tenants = 30,
                                  .n_tenants_shared = 31,
                                  .n_kept = 34,
                                  .kept_bytes = 35,
                                  .streams = {41, 42, 43, 44, 45, 46},
                                  .n_log_dropped = 32,
                                  .n_syscalls_refused = 33,
                                  .loop = &g->loop}};
    for (uint32_t i = 0; i < n_models; i++) {
        metrics_init(&g->counts[i]);
        g->models[i] = (struct metrics_model){.id = ids[i], .arch = "a", .ftype = "f",
                                              .share = 32 + i, .counts = &g->counts[i],
                                              .kv_type = "f\"16", .block_tokens = 16};
        feed_engine(&g->models[i].stats);
    }
    metrics_http(&g->server_counts, 1, 404);
    buf_init(&g->text, 1 << 20);
}

static const char *render(struct stage *g)
{
    metrics_render(&g->scene, &g->text);
    assert_int_equal(g->text.err, 0);
    return g->text.data;
}

static void has_lines(const char *text, const char *const *lines, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strstr(text, lines[i]) == NULL)
            fail_msg("not there: %s", lines[i]);
}

#define HAS_LINES(text, lines) has_lines(text, lines, sizeof(lines) / sizeof((lines)[0]))

/* ---- the page's families ---- */

enum kind {
    SERVER_COUNTS = 0, /* no sample has a model */
    MODEL,     /* each has, when there are several */
    MIXED,     /* some have, when there are several */
    INFO,      /* each has, always */
};

static const struct {
    const char *name;
    enum kind kind;
} families[] = {
    {"quire_model_info", INFO},
    {"quire_build_info", SERVER_COUNTS},
    {"quire_uptime_seconds", SERVER_COUNTS},
    {"quire_connections", SERVER_COUNTS},
    {"quire_tenants", SERVER_COUNTS},
    {"quire_tenants_shared_total", SERVER_COUNTS},
    {"quire_kept_responses", SERVER_COUNTS},
    {"quire_kept_responses_bytes", SERVER_COUNTS},
    {"quire_log_dropped_total", SERVER_COUNTS},
    {"quire_sandbox_refused_total", SERVER_COUNTS},
    {"quire_loop_callback_seconds", SERVER_COUNTS},
    {"quire_loop_callback_longest_seconds", SERVER_COUNTS},
    {"quire_streams_kept", SERVER_COUNTS},
    {"quire_streams_kept_bytes", SERVER_COUNTS},
    {"quire_streams_resumed_total", SERVER_COUNTS},
    {"quire_streams_evicted_total", SERVER_COUNTS},
    {"quire_streams_stopped_total", SERVER_COUNTS},
    {"quire_batches_open", SERVER_COUNTS},
    {"quire_batch_lines", SERVER_COUNTS},
    {"quire_batch_lines_total", SERVER_COUNTS},
    {"quire_files", SERVER_COUNTS},
    {"quire_files_bytes", SERVER_COUNTS},
    {"quire_requests_kept", SERVER_COUNTS},
    {"quire_requests_kept_bytes", SERVER_COUNTS},
    {"quire_requests_restored_total", SERVER_COUNTS},
    {"quire_requests_lost_total", SERVER_COUNTS},
    {"quire_requests_unkept_total", SERVER_COUNTS},
    {"quire_rows_lost_total", SERVER_COUNTS},
    {"quire_request_memory_bytes", SERVER_COUNTS},
    {"quire_request_memory_limit_bytes", SERVER_COUNTS},
    {"quire_prepare_jobs", SERVER_COUNTS},
    {"quire_prepare_seconds_total", SERVER_COUNTS},
    {"quire_requests_running", MODEL},
    {"quire_requests_waiting", MODEL},
    {"quire_predicted_ttft_seconds", MODEL},
    {"quire_requests_preempted", MODEL},
    {"quire_requests_swapped", MODEL},
    {"quire_kv_blocks", MODEL},
    {"quire_kv_blocks_total", MODEL},
    {"quire_kv_usage_ratio", MODEL},
    {"quire_kv_pressure", MODEL},
    {"quire_states", MODEL},
    {"quire_state_snapshots", MODEL},
    {"quire_swap_bytes", MODEL},
    {"quire_swap_capacity_bytes", MODEL},
    {"quire_kv_store_up", MODEL},
    {"quire_kv_store_size_bytes", MODEL},
    {"quire_prompt_tokens_total", MODEL},
    {"quire_generation_tokens_total", MODEL},
    {"quire_cached_tokens_total", MODEL},
    {"quire_recomputed_tokens_total", MODEL},
    {"quire_computed_tokens_total", MODEL},
    {"quire_compute_seconds_total", MODEL},
    {"quire_kv_block_seconds_total", MODEL},
    {"quire_spec_drafts_total", MODEL},
    {"quire_spec_draft_tokens_total", MODEL},
    {"quire_spec_accepted_tokens_total", MODEL},
    {"quire_context_shifts_total", MODEL},
    {"quire_preemptions_total", MODEL},
    {"quire_swap_blocks_total", MODEL},
    {"quire_swap_errors_total", MODEL},
    {"quire_swap_refusals_total", MODEL},
    {"quire_swap_fallbacks_total", MODEL},
    {"quire_prefix_cache_queries_tokens_total", MODEL},
    {"quire_prefix_cache_hits_tokens_total", MODEL},
    {"quire_prefix_evictions_total", MODEL},
    {"quire_state_evictions_total", MODEL},
    {"quire_kv_blocks_copied_total", MODEL},
    {"quire_kv_store_blocks_total", MODEL},
    {"quire_kv_store_fetched_blocks_total", MODEL},
    {"quire_kv_store_bytes_total", MODEL},
    {"quire_kv_store_seconds_total", MODEL},
    {"quire_kv_store_errors_total", MODEL},
    {"quire_kv_store_bad_records_total", MODEL},
    {"quire_kv_store_unwritten_records_total", MODEL},
    {"quire_kv_store_evicted_records_total", MODEL},
    {"quire_kv_store_unread_prompts_total", MODEL},
    {"quire_iterations_total", MODEL},
    {"quire_constraints_total", MODEL},
    {"quire_adapters", MODEL},
    {"quire_adapter_bytes", MODEL},
    {"quire_adapter_reads_total", MODEL},
    {"quire_adapter_evictions_total", MODEL},
    {"quire_kv_events_total", MODEL},
    {"quire_kv_event_batches_total", MODEL},
    {"quire_kv_event_bytes_total", MODEL},
    {"quire_kv_event_replays_total", MODEL},
    {"quire_model_share", MODEL},
    {"quire_model_state", MODEL},
    {"quire_model_load_waiting", MODEL},
    {"quire_model_loads_total", MODEL},
    {"quire_model_load_seconds_total", MODEL},
    {"quire_model_unloads_total", MODEL},
    {"quire_turn_wait_seconds_total", MODEL},
    {"quire_iteration_tokens", MODEL},
    {"quire_iteration_seconds", MODEL},
    {"quire_batch_sequences", MODEL},
    {"quire_cost_model_error_ratio", MODEL},
    {"quire_requests_total", MODEL},
    {"quire_rejections_total", MIXED},
    {"quire_http_requests_total", SERVER_COUNTS},
    {"quire_edge_refusals_total", SERVER_COUNTS},
    {"quire_unknown_fields_total", MODEL},
    {"quire_time_to_first_token_seconds", MODEL},
    {"quire_inter_token_latency_seconds", MODEL},
    {"quire_request_time_per_output_token_seconds", MODEL},
    {"quire_e2e_request_latency_seconds", MODEL},
    {"quire_request_queue_time_seconds", MODEL},
    {"quire_request_inference_time_seconds", MODEL},
    {"quire_request_prefill_time_seconds", MODEL},
    {"quire_request_decode_time_seconds", MODEL},
    {"quire_request_prompt_tokens", MODEL},
    {"quire_request_generation_tokens", MODEL},
    {"process_cpu_seconds_total", SERVER_COUNTS},
    {"process_resident_memory_bytes", SERVER_COUNTS},
    {"process_virtual_memory_bytes", SERVER_COUNTS},
    {"process_open_fds", SERVER_COUNTS},
    {"process_max_fds", SERVER_COUNTS},
    {"process_start_time_seconds", SERVER_COUNTS},
};
#define N_FAMILIES (sizeof(families) / sizeof(families[0]))

/* Copies the line at *text without its end and steps over it; false: there is none. */
static bool next_line(const char **text, char *line, size_t size)
{
    const size_t n = strcspn(*text, "\n");

    if (**text == '\0')
        return false;
    assert_true(n < size && (*text)[n] == '\n');
    memcpy(line, *text, n);
    line[n] = '\0';
    *text += n + 1;
    return true;
}

/* Is this the head of a family, in its two lines? Then its name. */
static bool read_head(const char **text, const char *help, char *name, char *type)
{
    char line[256], type_name[NAME_LEN];

    if (sscanf(help, "# HELP %63s", name) != 1)
        return false;
    assert_true(next_line(text, line, sizeof(line)));
    assert_int_equal(sscanf(line, "# TYPE %63s %63s", type_name, type), 2);
    assert_string_equal(type_name, name);
    return true;
}

/* What follows the family's name in one of its samples: labels or a blank. */
static const char *after_name(const char *line, const char *name, const char *type)
{
    static const char *const suffixes[] = {"_bucket", "_sum", "_count"};
    const char *at = line + strlen(name);

    if (strncmp(line, name, strlen(name)) != 0)
        fail_msg("in the family %s: %s", name, line);
    for (int i = 0; i < 3 && strcmp(type, "histogram") == 0; i++)
        if (strncmp(at, suffixes[i], strlen(suffixes[i])) == 0)
            at += strlen(suffixes[i]);
    if (*at != '{' && *at != ' ')
        fail_msg("in the family %s: %s", name, line);
    return at;
}

/* The samples of families that are, in order, exactly those of the list: so each is there once, and
 * in one piece. `check` gets each of them from its labels on. */
static void each_sample(const char *text,
                        void (*check)(enum kind kind, const char *labels, void *ud), void *ud)
{
    char line[1024], name[NAME_LEN] = "", type[NAME_LEN] = "";
    size_t n = 0;

    while (next_line(&text, line, sizeof(line))) {
        if (!read_head(&text, line, name, type)) {
            assert_true(n > 0);
            check(families[n - 1].kind, after_name(line, name, type), ud);
            continue;
        }
        assert_true(n < N_FAMILIES);
        assert_string_equal(name, families[n].name);
        n++;
    }
    assert_int_equal(n, N_FAMILIES);
}

static void check_alone(enum kind kind, const char *labels, void *ud)
{
    size_t *n = ud;

    assert_true((strstr(labels, "model=") != NULL) == (kind == INFO));
    *n += 1;
}

static void one_model_has_no_label(void **state)
{
    struct stage g;
    size_t n = 0;
    (void)state;

    set(&g, 1);
    each_sample(render(&g), check_alone, &n);
    assert_true(n > N_FAMILIES);
    buf_release(&g.text);
}

static void check_beside(enum kind kind, const char *labels, void *ud)
{
    static const char *const first[N_MODELS] = {"{model=\"al\\\"pha\"", "{model=\"be\\\\ta\\n\"",
                                                "{model=\"gamma\""};
    size_t *n = ud; /* [N_MODELS + 1]: the last without a model */
    int i = 0;

    while (i < N_MODELS && strncmp(labels, first[i], strlen(first[i])) != 0)
        i++;
    if (i < N_MODELS) {
        const char c = labels[strlen(first[i])];

        assert_int_not_equal(kind, SERVER_COUNTS);
        assert_true(c == ',' || c == '}');
    } else {
        assert_true(kind == SERVER_COUNTS || kind == MIXED);
        assert_null(strstr(labels, "model="));
    }
    n[i]++;
}

static void several_models_are_told_apart(void **state)
{
    size_t n[N_MODELS + 1] = {0};
    struct stage g;
    (void)state;

    set(&g, N_MODELS);
    each_sample(render(&g), check_beside, n);
    assert_true(n[0] > N_FAMILIES / 2);
    for (int i = 1; i < N_MODELS; i++)
        assert_int_equal(n[i], n[0]);
    assert_true(n[N_MODELS] > 0);
    buf_release(&g.text);
}

/* ---- values ---- */

static void every_value_is_its_models(void **state)
{
    static const char *const lines[] = {
        "\nquire_requests_running{model=\"al\\\"pha\"} 1\n"
        "quire_requests_running{model=\"be\\\\ta\\n\"} 2\n# HELP",
        "\nquire_requests_waiting{model=\"al\\\"pha\",priority=\"critical\"} 0\n"
        "quire_requests_waiting{model=\"be\\\\ta\\n\",priority=\"low\"} 3\n",
        "\nquire_model_share{model=\"al\\\"pha\"} 32\n"
        "quire_model_share{model=\"be\\\\ta\\n\"} 33\n# HELP",
        "\nquire_unknown_fields_total{model=\"al\\\"pha\"} 4\n"
        "quire_unknown_fields_total{model=\"be\\\\ta\\n\"} 5\n# HELP",
        "\nquire_time_to_first_token_seconds_bucket{model=\"be\\\\ta\\n\",le=\"+Inf\"} 1\n"
        "quire_time_to_first_token_seconds_sum{model=\"be\\\\ta\\n\"} 6\n"
        "quire_time_to_first_token_seconds_count{model=\"be\\\\ta\\n\"} 1\n# HELP",
        "\nquire_model_info{model=\"be\\\\ta\\n\",arch=\"a\",ftype=\"f\",max_model_len=\"7\","
        "parameters=\"8\",bytes=\"9\"} 1\n# HELP",
    };
    struct stage g;
    (void)state;

    set(&g, 2);
    g.models[0].stats.n_running = 1;
    g.models[1].stats.n_running = 2;
    g.models[1].stats.n_waiting[PRIORITY_LOW] = 3;
    g.counts[0].unknown_fields = 4;
    g.counts[1].unknown_fields = 5;
    hist_add(&g.counts[1].ttft, 6);
    g.models[1].max_context = 7;
    g.models[1].n_params = 8;
    g.models[1].bytes = 9;
    HAS_LINES(render(&g), lines);
    buf_release(&g.text);
}

/* The same counters under the names of others, and nothing under those that are not wanted. */
static void others_names_have_the_same_values(void **state)
{
    static const char *const lines[] = {
        "\nvllm:num_requests_running{model_name=\"be\\\\ta\\n\",engine=\"0\"} 2\n# HELP",
        "\nvllm:num_requests_waiting{model_name=\"be\\\\ta\\n\",engine=\"0\"} 12\n# HELP",
        "\nvllm:kv_cache_usage_perc{model_name=\"be\\\\ta\\n\",engine=\"0\"} 0.25\n# HELP",
        "\nvllm:prompt_tokens_total{model_name=\"be\\\\ta\\n\",engine=\"0\"} "
        "10000000000000000017\n",
        "\nvllm:num_preemptions_total{model_name=\"be\\\\ta\\n\",engine=\"0\"} 9\n# HELP",
        "\nvllm:request_success_total{model_name=\"be\\\\ta\\n\",engine=\"0\","
        "finished_reason=\"abort\"} 7\n",
        "\nvllm:inter_token_latency_seconds_sum{model_name=\"be\\\\ta\\n\",engine=\"0\"} 6.015\n",
        "\nvllm:inter_token_latency_seconds_bucket{model_name=\"be\\\\ta\\n\",engine=\"0\","
        "le=\"0.01\"} 3\n"
        "vllm:inter_token_latency_seconds_bucket{model_name=\"be\\\\ta\\n\",engine=\"0\","
        "le=\"0.025\"} 3\n",
        "vllm:inter_token_latency_seconds_bucket{model_name=\"be\\\\ta\\n\",engine=\"0\","
        "le=\"+Inf\"} 4\n",
        "\nvllm:cache_config_info{model_name=\"be\\\\ta\\n\",engine=\"0\",block_size=\"16\","
        "num_gpu_blocks=\"4\",cache_dtype=\"f\\\"16\",enable_prefix_caching=\"True\"} 1\n",
        "\n# TYPE vllm:lora_requests_info gauge\n"
        "vllm:lora_requests_info{model_name=\"be\\\\ta\\n\",max_lora=\"7\","
        "running_lora_adapters=\"a,b\\\"\",waiting_lora_adapters=\"\"} 1234567890.500\n# HELP",
        "\nvllm:time_per_output_token_seconds_sum{model_name=\"be\\\\ta\\n\",engine=\"0\"} 6.015\n",
        "\nllamacpp:prompt_tokens_total{model=\"be\\\\ta\\n\"} 10000000000000000000\n# HELP",
        "\nllamacpp:prompt_tokens_cached_total{model=\"be\\\\ta\\n\"} 17\n# HELP",
        "\nllamacpp:requests_deferred{model=\"be\\\\ta\\n\"} 12\n# HELP",
        "\nllamacpp:tokens_predicted_seconds_total{model=\"be\\\\ta\\n\"} 4\n# HELP",
        "\nllamacpp:predicted_tokens_seconds{model=\"al\\\"pha\"} 0\n"
        "llamacpp:predicted_tokens_seconds{model=\"be\\\\ta\\n\"} 2.5\n# HELP",
        "\nllamacpp:n_busy_slots_per_decode{model=\"be\\\\ta\\n\"} 3\n",
    };
    struct engine_stats *s;
    struct stage g;
    const char *text;
    (void)state;

    set(&g, 2);
    g.scene.names = METRICS_NAMES_VLLM | METRICS_NAMES_LLAMACPP;
    s = &g.models[1].stats;
    s->n_running = 2;
    s->n_preempted = 2;
    for (int i = 0; i < PRIORITY_COUNT; i++)
        s->n_waiting[i] = 1 + (uint32_t)i;
    s->blocks_held = 1;
    s->blocks_total = 4;
    s->prompt_tokens = 10000000000000000000u;
    s->cached_tokens = 17;
    s->preemptions_recompute = 4;
    s->preemptions_swap = 5;
    g.counts[1].outcomes[OUTCOME_CANCELLED] = 3;
    g.counts[1].outcomes[OUTCOME_TIMEOUT] = 4;
    hist_add(&g.counts[1].itl, 6);
    hist_add(&g.counts[1].itl, 0.001); /* below vLLM's least bound */
    hist_add(&g.counts[1].itl, 0.004);
    hist_add(&g.counts[1].itl, 0.01);
    g.models[1].shares_prefixes = true;
    g.models[1].max_adapters = 7;
    buf_init(&g.models[1].adapters_running, 100);
    buf_add_str(&g.models[1].adapters_running, "a,b\"");
    g.scene.unix_s = 1234567890.5;
    hist_add(&g.counts[1].decode, 4);
    s->generation_tokens = 10;
    hist_add(&s->batch_sequences, 2);
    hist_add(&s->batch_sequences, 4);
    text = render(&g);
    HAS_LINES(text, lines);
    assert_null(strstr(text, "quire_"));
    assert_null(strstr(text, "lora_requests_info{model_name=\"al")); /* which has none */
    assert_null(strstr(text, "vllm:inter_token_latency_seconds_bucket{model_name=\"al\\\"pha\","
                             "engine=\"0\",le=\"0.001\""));
    assert_non_null(strstr(text, "process_open_fds"));
    buf_release(&g.models[1].adapters_running);
    buf_release(&g.text);

    set(&g, 1);
    g.scene.names = METRICS_NAMES_LLAMACPP;
    text = render(&g);
    assert_non_null(strstr(text, "\nllamacpp:requests_processing 0\n"));
    assert_null(strstr(text, "vllm:"));
    buf_release(&g.text);
    assert_int_equal(metrics_names_of("vllm , quire"), METRICS_NAMES_QUIRE | METRICS_NAMES_VLLM);
}

/* An engine that has not begun has no bounds for its histograms. */
static void what_nobody_feeds_is_left_out(void **state)
{
    struct stage g;
    const char *text;
    (void)state;

    set(&g, 2);
    g.models[0].stats.iteration_tokens = (struct hist){0};
    g.models[0].stats.cost_error = g.models[1].stats.cost_error = (struct hist){0};
    text = render(&g);
    assert_non_null(strstr(text, "\nquire_iteration_tokens_count{model=\"be"));
    assert_null(strstr(text, "quire_iteration_tokens_count{model=\"al"));
    assert_null(strstr(text, "quire_cost_model_error_ratio"));
    buf_release(&g.text);
}

static void count_rejections(struct stage *g)
{
    g->counts[0].rejections[REJECTION_RATE_LIMIT] = 1;
    g->counts[0].rejections[REJECTION_INVALID] = 2;
    g->server_counts.rejections[REJECTION_RATE_LIMIT] = 10;
    g->server_counts.rejections[REJECTION_UNAUTHORIZED] = 20;
}

static void rejections_of_the_server(void **state)
{
    static const char *const alone[] = {
        "\nquire_rejections_total{reason=\"invalid\"} 2\n",
        "\nquire_rejections_total{reason=\"unauthorized\"} 20\n"
        "quire_rejections_total{reason=\"forbidden\"} 0\n"
        "quire_rejections_total{reason=\"rate_limit\"} 11\n# HELP",
    };
    static const char *const beside[] = {
        "\nquire_rejections_total{model=\"al\\\"pha\",reason=\"invalid\"} 2\n",
        "\nquire_rejections_total{model=\"al\\\"pha\",reason=\"unauthorized\"} 0\n",
        "\nquire_rejections_total{model=\"al\\\"pha\",reason=\"rate_limit\"} 1\n",
        "\nquire_rejections_total{model=\"be\\\\ta\\n\",reason=\"rate_limit\"} 0\n"
        "quire_rejections_total{reason=\"unauthorized\"} 20\n"
        "quire_rejections_total{reason=\"forbidden\"} 0\n"
        "quire_rejections_total{reason=\"rate_limit\"} 10\n# HELP",
    };
    struct stage g;
    (void)state;

    set(&g, 1);
    count_rejections(&g);
    HAS_LINES(render(&g), alone);
    buf_release(&g.text);
    set(&g, 2);
    count_rejections(&g);
    HAS_LINES(render(&g), beside);
    buf_clear(&g.text);
    g.server_counts.rejections[REJECTION_INVALID] = 30;
    assert_non_null(strstr(render(&g), "\nquire_rejections_total{reason=\"invalid\"} 30\n"));
    buf_release(&g.text);
}

static void http_is_counted_by_route(void **state)
{
    static const char *const lines[] = {
        "\nquire_http_requests_total{route=\"/v1/completions\",code=\"200\"} 2\n"
        "quire_http_requests_total{route=\"other\",code=\"404\"} 1\n# HELP",
    };
    struct stage g;
    (void)state;

    set(&g, 2);
    metrics_http(&g.server_counts, 0, 200);
    metrics_http(&g.server_counts, 0, 200);
    metrics_http(&g.server_counts, 0, 999); /* no code that is answered */
    metrics_http(&g.server_counts, METRICS_MAX_ROUTES, 200);
    HAS_LINES(render(&g), lines);
    buf_release(&g.text);
}

static void the_engine_is_shown(void **state)
{
    static const char *const lines[] = {
        "\nquire_requests_swapped 2\n",
        "\nquire_kv_pressure 1\n",
        "\nquire_states{state=\"free\"} 4\n",
        "\nquire_states{state=\"cached\"} 3\n",
        "\nquire_states{state=\"held\"} 2\n",
        "\nquire_state_snapshots 6\n",
        "\nquire_state_evictions_total 5\n",
        "\nquire_swap_bytes{tier=\"ram\"} 300\n",
        "\nquire_swap_bytes{tier=\"file\"} 500\n",
        "\nquire_swap_capacity_bytes{tier=\"ram\"} 700\n",
        "\nquire_swap_capacity_bytes{tier=\"file\"} 900\n",
        "\nquire_cached_tokens_total 11\n",
        "\nquire_recomputed_tokens_total 12\n",
        "\nquire_preemptions_total{mode=\"recompute\"} 13\n",
        "\nquire_preemptions_total{mode=\"swap\"} 14\n",
        "\nquire_swap_blocks_total{direction=\"out\",tier=\"ram\"} 15\n",
        "\nquire_swap_blocks_total{direction=\"out\",tier=\"file\"} 16\n",
        "\nquire_swap_blocks_total{direction=\"in\",tier=\"ram\"} 17\n",
        "\nquire_swap_blocks_total{direction=\"in\",tier=\"file\"} 18\n",
        "\nquire_swap_errors_total{direction=\"out\"} 19\n",
        "\nquire_swap_errors_total{direction=\"in\"} 20\n",
        "\nquire_swap_refusals_total 21\n",
        "\nquire_swap_fallbacks_total 22\n",
        "\nquire_context_shifts_total 37\n",
        "\nquire_prefix_cache_queries_tokens_total 23\n",
        "\nquire_prefix_cache_hits_tokens_total 24\n",
        "\nquire_prefix_evictions_total 25\n",
        "\nquire_kv_blocks_copied_total 26\n",
        "\nquire_cost_model_error_ratio_bucket{le=\"0.1\"} 1\n",
        "\nquire_rejections_total{reason=\"deadline_unreachable\"} 27\n",
        "\nquire_rejections_total{reason=\"tenant_limit\"} 28\n",
        "\nquire_rejections_total{reason=\"queue_timeout\"} 29\n",
        "\nquire_tenants 30\n",
        "\nquire_tenants_shared_total 31\n",
        "\nquire_kept_responses 34\n",
        "\nquire_kept_responses_bytes 35\n",
        "\nquire_streams_kept{state=\"running\"} 41\n",
        "\nquire_streams_kept{state=\"ended\"} 42\n",
        "\nquire_streams_kept_bytes 43\n",
        "\nquire_streams_resumed_total 44\n",
        "\nquire_streams_evicted_total 45\n",
        "\nquire_streams_stopped_total 46\n",
        "\nquire_log_dropped_total 32\n",
        "\nquire_sandbox_refused_total 33\n",
        "\nquire_model_share 32\n",
        "\nquire_turn_wait_seconds_total 33.5\n",
    };
    struct stage g;
    struct engine_stats *s = &g.models[0].stats;
    (void)state;

    set(&g, 1);
    *s = (struct engine_stats){.n_swapped = 2, .pressure = KV_LOW, .block_bytes = 100,
                               .cached_tokens = 11, .recomputed_tokens = 12,
                               .preemptions_recompute = 13, .preemptions_swap = 14,
                               .swap_fallbacks = 22, .context_shifts = 37,
                               .prefix_queries = 23, .prefix_hits = 24,
                               .prefix_evictions = 25, .blocks_copied = 26,
                               .turn_wait_us = 33500000};
    s->states = (struct kv_states_stats){
        {.n_free = 4, .n_held = 2, .n_cached = 3, .n_evicted = 5}, 6};
    s->swap = (struct swap_stats){.ram_used = 3, .file_used = 5, .ram_slots = 7, .file_slots = 9,
                                  .blocks_out = {15, 16}, .blocks_in = {17, 18},
                                  .n_write_errors = 19, .n_read_errors = 20, .n_refused = 21};
    hist_init_ratio(&s->cost_error);
    hist_add(&s->cost_error, 0.07);
    hist_add(&s->cost_error, 0.7);
    g.counts[0].rejections[REJECTION_DEADLINE] = 27;
    g.counts[0].rejections[REJECTION_TENANT_LIMIT] = 28;
    g.counts[0].rejections[REJECTION_QUEUE_TIMEOUT] = 29;
    HAS_LINES(render(&g), lines);
    buf_release(&g.text);
}

/* Priorities are rows of a table, which has to name them as everybody else does. */
static void every_priority_has_its_sample(void **state)
{
    struct stage g;
    const char *text;
    (void)state;

    set(&g, 1);
    for (int p = 0; p < PRIORITY_COUNT; p++)
        g.models[0].stats.n_waiting[p] = 100 + (uint32_t)p;
    text = render(&g);
    for (int p = 0; p < PRIORITY_COUNT; p++) {
        char line[128];

        snprintf(line, sizeof(line), "\nquire_requests_waiting{priority=\"%s\"} %d\n",
                 priority_name((enum priority)p), 100 + p);
        assert_non_null(strstr(text, line));
    }
    buf_release(&g.text);
}

static void too_long_a_text_is_an_error(void **state)
{
    struct stage g;
    (void)state;

    set(&g, 1);
    g.text.max = 1000;
    metrics_render(&g.scene, &g.text);
    assert_int_equal(g.text.err, ERR_LIMIT);
    buf_release(&g.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_model_has_no_label),
        cmocka_unit_test(several_models_are_told_apart),
        cmocka_unit_test(every_value_is_its_models),
        cmocka_unit_test(others_names_have_the_same_values),
        cmocka_unit_test(what_nobody_feeds_is_left_out),
        cmocka_unit_test(rejections_of_the_server),
        cmocka_unit_test(http_is_counted_by_route),
        cmocka_unit_test(the_engine_is_shown),
        cmocka_unit_test(every_priority_has_its_sample),
        cmocka_unit_test(too_long_a_text_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
