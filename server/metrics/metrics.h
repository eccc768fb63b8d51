/* server/metrics/metrics.h - the server's counters, and the text of GET /metrics.
 *
 * Counters and histograms are fed by events: those of a model, and those of the server, which are
 * counted before the model of a call is known. Gauges come from one copy of each engine's
 * statistics, so that they add up at any moment. Labels are enums, routes, and the ids of models
 * and adapters, so that their number is bounded.
 *
 * Thread: the loop's.
 * Memory: none but the text.
 */
#ifndef SERVER_METRICS_METRICS_H
#define SERVER_METRICS_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/buf.h"
#include "core/base/hist.h"
#include "scheduler/prefix_fetch.h"
#include "scheduler/queue.h"
#include "server/process/loop_guard.h"
#include "server/process/worker_pool.h"

#define METRICS_MAX_ROUTES 128

enum outcome { /* of one choice, or of one refused HTTP request */
               OUTCOME_STOP = 0,
               OUTCOME_LENGTH,
               OUTCOME_CANCELLED,
               OUTCOME_ERROR,
               OUTCOME_REJECTED,
               OUTCOME_TIMEOUT,
               OUTCOME_COUNT,
};

enum rejection {
    REJECTION_INVALID = 0, /* 400 and 404 by the request's own fault */
    REJECTION_CONTEXT,     /* longer than can be served */
    REJECTION_QUEUE_FULL,
    REJECTION_DRAINING,
    REJECTION_DEADLINE,      /* cannot be met */
    REJECTION_TENANT_LIMIT,
    REJECTION_QUEUE_TIMEOUT, /* accepted, and not begun in time */
    REJECTION_MEMORY,        /* request_memory */
    REJECTION_MODEL,         /* not loaded, and will not be for this request */
    REJECTION_UNAUTHORIZED,  /* no key, or an unknown one */
    REJECTION_FORBIDDEN,     /* the key may not do this */
    REJECTION_RATE_LIMIT,    /* of a key: requests or tokens a minute, or at a time */
    REJECTION_COUNT,
};

#define METRICS_CODES(XX)                                                                          \
    XX(200) XX(204) XX(400) XX(401) XX(403) XX(404) XX(405) XX(408) XX(410)        \
    XX(413) XX(414) XX(415) XX(416) XX(417) XX(429) XX(431) XX(499) XX(500) XX(501) XX(503) XX(505)
enum metrics_code {
#define XX(code) METRICS_CODE_##code,
    METRICS_CODES(XX)
#undef XX
        METRICS_CODE_COUNT
};

struct metrics { /* of one model */
    uint64_t outcomes[OUTCOME_COUNT];
    uint64_t rejections[REJECTION_COUNT];
    uint64_t unknown_fields;
    /* In seconds, of one request, except itl; running: from its first step to its end; per_token:
     * the mean time of each token after the first, for answers of several. */
    struct hist ttft, itl, per_token, e2e, queue, running, prefill, decode;
    struct hist prompt_tokens, generation_tokens;
};

struct metrics_server { /* zero is the start */
    uint64_t rejections[REJECTION_COUNT];
    uint64_t http[METRICS_MAX_ROUTES][METRICS_CODE_COUNT];
};

void metrics_init(struct metrics *m);
void metrics_http(struct metrics_server *h, size_t route, int status);

/* ---- the text ---- */

struct metrics_model { /* one of the served models; pointers are borrowed */
    const char *id, *arch, *ftype;
    uint32_t max_context;
    uint64_t n_params, bytes;
    uint32_t share;               /* of the machine's time, beside the other models' shares */
    const char *kv_type;
    uint32_t block_tokens; /* in a block of the KV cache */
    bool shares_prefixes;
    uint32_t max_adapters; /* that can run at a time; 0: the model has none, and can load none */
    struct buf adapters_running, adapters_waiting; /* names separated by commas, of adapters that
                                                    * requests run with, or wait with */
    uint64_t adapters_known, adapters_resident, adapter_bytes, adapter_reads, adapter_evictions;
    uint64_t constraints_compiled, constraints_found, constraints_refused;
    uint64_t kv_events_sent, kv_events_dropped, kv_event_batches, kv_event_bytes, kv_event_replays;
    uint64_t store[STORE_N_COUNTS]; /* zeros: there is no block store */
    uint64_t predicted_ttft_us; /* of a prompt of one token that arrives now; 0: unknown */
    uint32_t is_loaded, is_loading, has_failed; /* 0 or 1 */
    uint32_t n_load_waits; /* calls that wait for its load */
    uint64_t n_loads, n_unloads, n_load_failures, load_us;
    const struct metrics *counts;
    struct engine_stats stats;    /* one copy: its gauges add up */
};

#define METRICS_POOLS 4
#define METRICS_POOL_NAMES {"text", "constraint", "adapter", "answer"}


enum metrics_names { /* whose names the page has */
    METRICS_NAMES_QUIRE = 1u << 0,
    METRICS_NAMES_VLLM = 1u << 1,
    METRICS_NAMES_LLAMACPP = 1u << 2,
};
/* The setting metrics_names, which has been checked, as a mask of enum metrics_names. */
unsigned metrics_names_of(const char *list);

struct metrics_streams { /* streams that are kept to be resumed */
    uint64_t n_running, n_ended, bytes;
    uint64_t n_resumed, n_evicted, n_stopped; /* ever */
};

struct metrics_batches { /* and the files of batch_dir */
    uint64_t n, n_running, n_waiting;      /* batches that have not ended; their lines */
    uint64_t n_completed, n_failed;        /* lines, ever */
    uint64_t n_files, bytes;
};

struct metrics_requests { /* requests that requests_db keeps */
    uint64_t n, bytes;
    uint64_t n_restored, n_lost, n_unkept; /* ever */
};

struct metrics_lost { /* rows of damaged databases, ever */
    uint64_t batches, responses, usage;
};

struct metrics_scene { /* everything that the text needs; pointers are borrowed */
    const struct metrics_model *models; /* [n_models] */
    uint32_t n_models;
    unsigned names; /* enum metrics_names */
    const struct metrics_server *server_counts;
    const char *const *routes; /* [n_routes] labels */
    size_t n_routes;
    const char *isa, *version;
    struct worker_pool_stats pools[METRICS_POOLS]; /* in the order of METRICS_POOL_NAMES */
    uint64_t memory_used, memory_max; /* bytes that requests hold, and may hold */
    struct metrics_streams streams;
    uint64_t n_kept, kept_bytes;       /* responses_db: responses, and bytes in use */
    struct metrics_batches batches;
    struct metrics_requests requests;
    struct metrics_lost lost;
    uint32_t n_connections, n_tenants;
    const uint64_t *edge; /* [HTTP_EDGE_COUNT] */
    uint64_t n_tenants_shared;
    uint64_t n_log_dropped, n_syscalls_refused;
    const struct loop_guard *loop;
    double uptime_s;
    double unix_s; /* now */
};

/* Write Prometheus text format 0.0.4. With several models the samples of each have its id as the
 * label `model`; with one there is no such label, and the server's rejections are counted as the
 * model's. */
void metrics_render(const struct metrics_scene *scene, struct buf *out);

#endif
