/* server/metrics/metrics.c - see metrics.h.
 *
 * Counters are plain numbers that only the I/O thread changes; nothing is rendered until /metrics
 * is asked for. metrics_render() writes families in a fixed order: those of the models
 * (metrics_models.c) and of the server, then the same numbers under other projects' names
 * (metrics_peers.c). It reads one scene and touches nothing else, so that a pool thread can run it
 * on a copy.
 */
#include "server/metrics/metrics.h"

#include "core/base/name_list.h"
#include "server/http/http_shared.h"
#include "server/metrics/metrics_impl.h"
#include "server/metrics/process_stats.h"
#include "server/metrics/prometheus.h"

#include <inttypes.h>

void metrics_init(struct metrics *m)
{
    *m = (struct metrics){0};
    hist_init_ttft(&m->ttft);
    hist_init_itl(&m->itl);
    hist_init_itl(&m->per_token);
    hist_init_latency(&m->e2e);
    hist_init_latency(&m->queue);
    hist_init_latency(&m->running);
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

void metrics_http(struct metrics_server *h, size_t route, int status)
{
    for (size_t i = 0; i < METRICS_CODE_COUNT; i++)
        if (codes[i] == status && route < METRICS_MAX_ROUTES)
            h->http[route][i]++;
}

static void add_build(const struct metrics_scene *scene, struct buf *b)
{
    prom_family(b, "quire_build_info", "gauge",
                "The server's version and the instruction set that its kernels use; the value is "
                "always 1.");
    buf_add_str(b, "quire_build_info{");
    prom_label(b, "version", scene->version);
    buf_add_char(b, ',');
    prom_label(b, "isa", scene->isa);
    buf_add_str(b, "} 1\n");
}

static void add_count(struct buf *b, const char *name, const char *type, uint64_t value,
                      const char *help)
{
    prom_family(b, name, type, help);
    prom_count(b, &(struct prom_series){.name = name}, value);
}

static void add_server(const struct metrics_scene *scene, struct buf *b)
{
    const struct prom_series uptime = {.name = "quire_uptime_seconds"};

    prom_family(b, uptime.name, "gauge", "Seconds since the server became ready.");
    prom_number(b, &uptime, scene->uptime_s);
    add_count(b, "quire_connections", "gauge", scene->n_connections, "Open client connections.");
    add_count(b, "quire_tenants", "gauge", scene->n_tenants,
              "Tenants that the scheduler tells apart (at most max_tenants).");
    add_count(b, "quire_tenants_shared_total", "counter", scene->n_tenants_shared,
              "Requests of tenants beyond max_tenants, which share the last place.");
    add_count(b, "quire_kept_responses", "gauge", scene->n_kept,
              "Responses that are stored in responses_db.");
    add_count(b, "quire_kept_responses_bytes", "gauge", scene->kept_bytes,
              "Bytes of the responses stored in responses_db (at most responses_size).");
    add_count(b, "quire_log_dropped_total", "counter", scene->n_log_dropped,
              "Log lines that were dropped because the log's reader was slow or its disk full.");
    add_count(b, "quire_sandbox_refused_total", "counter", scene->n_syscalls_refused,
              "System calls of this process that were refused by its sandbox.");
}

/* Histogram and maximum of the I/O thread's callbacks, in which it does not see other clients. */
static void add_loop(const struct loop_guard *loop, struct buf *b)
{
    const struct prom_series seconds = {.name = "quire_loop_callback_seconds"};
    const struct prom_series longest = {.name = "quire_loop_callback_longest_seconds"};

    prom_family(b, seconds.name, "histogram",
                "CPU time of each callback of the I/O thread's event loop, in seconds.");
    prom_hist(b, &seconds, &loop->seconds);
    prom_family(b, longest.name, "gauge",
                "CPU time of the longest callback of the I/O thread since the start, in seconds.");
    prom_number(b, &longest, (double)loop->longest_ns / 1e9);
}

static void add_streams(const struct metrics_streams *s, struct buf *b)
{
    prom_family(b, "quire_streams_kept", "gauge", "Resumable streams in memory, by state.");
    buf_printf(b,
               "quire_streams_kept{state=\"running\"} %" PRIu64 "\n"
               "quire_streams_kept{state=\"ended\"} %" PRIu64 "\n",
               s->n_running, s->n_ended);
    add_count(b, "quire_streams_kept_bytes", "gauge", s->bytes,
              "Memory of resumable streams in bytes (at most stream_memory).");
    add_count(b, "quire_streams_resumed_total", "counter", s->n_resumed,
              "Times that a client continued to read a resumable stream.");
    add_count(b, "quire_streams_evicted_total", "counter", s->n_evicted,
              "Times that a resumable stream or its oldest frames were evicted because "
              "stream_memory was full.");
    add_count(b, "quire_streams_stopped_total", "counter", s->n_stopped,
              "Resumable streams that were cancelled after stream_keep_ms without a reader.");
}

static void add_batches(const struct metrics_batches *m, struct buf *b)
{
    add_count(b, "quire_batches_open", "gauge", m->n,
              "Batches of /v1/batches that have not ended.");
    prom_family(b, "quire_batch_lines", "gauge",
                "Lines of batches that have no answer yet, by state.");
    buf_printf(b,
               "quire_batch_lines{state=\"running\"} %" PRIu64 "\n"
               "quire_batch_lines{state=\"waiting\"} %" PRIu64 "\n",
               m->n_running, m->n_waiting);
    prom_family(b, "quire_batch_lines_total", "counter",
                "Lines of batches that were answered, by result.");
    buf_printf(b,
               "quire_batch_lines_total{result=\"completed\"} %" PRIu64 "\n"
               "quire_batch_lines_total{result=\"failed\"} %" PRIu64 "\n",
               m->n_completed, m->n_failed);
    add_count(b, "quire_files", "gauge", m->n_files, "Files in batch_dir.");
    add_count(b, "quire_files_bytes", "gauge", m->bytes,
              "Bytes of the files in batch_dir (at most batch_size).");
}

static void add_requests(const struct metrics_requests *m, struct buf *b)
{
    add_count(b, "quire_requests_kept", "gauge", m->n,
              "Streams and background responses that are stored in requests_db.");
    add_count(b, "quire_requests_kept_bytes", "gauge", m->bytes, "Size of requests_db in bytes.");
    add_count(b, "quire_requests_restored_total", "counter", m->n_restored,
              "Streams of an earlier process that were restored from requests_db at the start.");
    add_count(b, "quire_requests_lost_total", "counter", m->n_lost,
              "Streams of an earlier process that could not be restored; the log names each.");
    add_count(
        b, "quire_requests_unkept_total", "counter", m->n_unkept,
        "Streams that were not stored: requests_db was full, failed, or held by another process.");
}

static void add_lost(const struct metrics_lost *m, struct buf *b)
{
    prom_family(b, "quire_rows_lost_total", "counter",
                "Rows that could not be read from a damaged database at the start, by database; "
                "the log names each.");
    buf_printf(b,
               "quire_rows_lost_total{database=\"batch_dir\"} %" PRIu64 "\n"
               "quire_rows_lost_total{database=\"responses_db\"} %" PRIu64 "\n"
               "quire_rows_lost_total{database=\"usage_db\"} %" PRIu64 "\n",
               m->batches, m->responses, m->usage);
}

static void add_edge(const struct metrics_scene *scene, struct buf *b)
{
    const char *name = "quire_edge_refusals_total";
    static const char *const labels[] = {
#define XX(name, label) label,
        HTTP_EDGE(XX)
#undef XX
    };

    prom_family(b, name, "counter",
                "Connections and requests that were refused or closed before routing, by reason.");
    for (size_t i = 0; i < HTTP_EDGE_COUNT; i++)
        buf_printf(b, "%s{reason=\"%s\"} %" PRIu64 "\n", name, labels[i], scene->edge[i]);
}

/* Resources of requests outside of the engine: memory, and the threads that prepare them. */
static void add_pools(const struct metrics_scene *scene, struct buf *b)
{
    static const char *const names[METRICS_POOLS] = METRICS_POOL_NAMES;

    add_count(b, "quire_request_memory_bytes", "gauge", scene->memory_used,
              "Memory that requests hold outside the KV cache, in bytes.");
    add_count(b, "quire_request_memory_limit_bytes", "gauge", scene->memory_max,
              "Limit of quire_request_memory_bytes (request_memory), in bytes.");
    prom_family(b, "quire_prepare_jobs", "gauge",
                "Jobs of the worker pools, by pool and state: request bodies and constraints to "
                "parse, adapters to read, large answers to render.");
    for (int i = 0; i < METRICS_POOLS; i++)
        buf_printf(b,
                   "quire_prepare_jobs{pool=\"%s\",state=\"running\"} %u\n"
                   "quire_prepare_jobs{pool=\"%s\",state=\"waiting\"} %u\n",
                   names[i], scene->pools[i].n_running, names[i], scene->pools[i].n_waiting);
    prom_family(b, "quire_prepare_seconds_total", "counter",
                "Time that the threads of the worker pools spent on jobs, in seconds, by pool.");
    for (int i = 0; i < METRICS_POOLS; i++)
        buf_printf(b, "quire_prepare_seconds_total{pool=\"%s\"} %.6f\n", names[i],
                   (double)scene->pools[i].busy_us / 1e6);
}

static void add_http(const struct metrics_scene *scene, struct buf *b)
{
    const char *name = "quire_http_requests_total";

    prom_family(b, name, "counter", "HTTP requests that were answered, by route and status code.");
    for (size_t r = 0; r < scene->n_routes && r < METRICS_MAX_ROUTES; r++)
        for (size_t i = 0; i < METRICS_CODE_COUNT; i++)
            if (scene->server_counts->http[r][i] > 0)
                buf_printf(b, "%s{route=\"%s\",code=\"%d\"} %" PRIu64 "\n", name, scene->routes[r],
                           codes[i], scene->server_counts->http[r][i]);
}

static void add_process(struct buf *b)
{
    struct process_stats p;

    process_read(&p);
    buf_printf(b,
               "# HELP process_cpu_seconds_total Total user and system CPU time spent in seconds.\n"
               "# TYPE process_cpu_seconds_total counter\n"
               "process_cpu_seconds_total %.2f\n"
               "# HELP process_resident_memory_bytes Resident memory size in bytes.\n"
               "# TYPE process_resident_memory_bytes gauge\n"
               "process_resident_memory_bytes %" PRIu64 "\n"
               "# HELP process_virtual_memory_bytes Virtual memory size in bytes.\n"
               "# TYPE process_virtual_memory_bytes gauge\n"
               "process_virtual_memory_bytes %" PRIu64 "\n",
               p.cpu_seconds, p.resident_bytes, p.virtual_bytes);
    buf_printf(b,
               "# HELP process_open_fds Number of open file descriptors.\n"
               "# TYPE process_open_fds gauge\n"
               "process_open_fds %" PRIu64 "\n"
               "# HELP process_max_fds Maximum number of open file descriptors.\n"
               "# TYPE process_max_fds gauge\n"
               "process_max_fds %" PRIu64 "\n"
               "# HELP process_start_time_seconds Start time of the process since the Unix epoch "
               "in seconds.\n"
               "# TYPE process_start_time_seconds gauge\n"
               "process_start_time_seconds %.2f\n",
               p.open_fds, p.max_fds, p.start_time_seconds);
}

unsigned metrics_names_of(const char *list)
{
    return (name_list_has(list, "quire") ? METRICS_NAMES_QUIRE : 0u) |
           (name_list_has(list, "vllm") ? METRICS_NAMES_VLLM : 0u) |
           (name_list_has(list, "llamacpp") ? METRICS_NAMES_LLAMACPP : 0u);
}

static void add_own(const struct metrics_scene *scene, struct buf *out)
{
    metrics_models_add_infos(scene, out);
    add_build(scene, out);
    add_server(scene, out);
    add_loop(scene->loop, out);
    add_streams(&scene->streams, out);
    add_batches(&scene->batches, out);
    add_requests(&scene->requests, out);
    add_lost(&scene->lost, out);
    add_pools(scene, out);
    metrics_models_add_engines(scene, out);
    metrics_models_add_outcomes(scene, out);
    add_http(scene, out);
    add_edge(scene, out);
    metrics_models_add_requests(scene, out);
}

void metrics_render(const struct metrics_scene *scene, struct buf *out)
{
    if ((scene->names & METRICS_NAMES_QUIRE) != 0)
        add_own(scene, out);
    metrics_peers_add(scene, out);
    add_process(out);
}
