/* server/metrics.h - what the server counts, and the text of GET /metrics.
 *
 * Counters and histograms are fed by events; gauges come from one copy of the engine's statistics,
 * so that they add up at any moment. Labels are enums: their number is bounded.
 *
 * Thread: the loop's.
 * Memory: none but the text.
 */
#ifndef SERVER_METRICS_H
#define SERVER_METRICS_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/buf.h"
#include "core/base/hist.h"
#include "scheduler/queue.h"

#define METRICS_MAX_ROUTES 48

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
    REJECTION_INVALID = 0, /* 400 and 404 of the request's own making */
    REJECTION_CONTEXT,     /* longer than can be served */
    REJECTION_QUEUE_FULL,
    REJECTION_DRAINING,
    REJECTION_DEADLINE,      /* cannot be met */
    REJECTION_TENANT_LIMIT,
    REJECTION_QUEUE_TIMEOUT, /* accepted, and not begun in time */
    REJECTION_UNAUTHORIZED,  /* no key, or none that is known */
    REJECTION_FORBIDDEN,     /* a key that may not do this */
    REJECTION_RATE_LIMIT,    /* of a key: requests or tokens a minute, or at a time */
    REJECTION_COUNT,
};

#define METRICS_CODES(XX)                                                                          \
    XX(200) XX(204) XX(400) XX(401) XX(403) XX(404) XX(405) XX(408) XX(413) XX(415) XX(429)        \
    XX(431) XX(499) XX(500) XX(503)
enum metrics_code {
#define XX(code) METRICS_CODE_##code,
    METRICS_CODES(XX)
#undef XX
        METRICS_CODE_COUNT
};

struct metrics {
    uint64_t outcomes[OUTCOME_COUNT];
    uint64_t rejections[REJECTION_COUNT];
    uint64_t unknown_fields;
    uint64_t http[METRICS_MAX_ROUTES][METRICS_CODE_COUNT];
    struct hist ttft, itl, e2e, queue, prefill, decode, prompt_tokens, generation_tokens;
};

void metrics_init(struct metrics *m);
void metrics_http(struct metrics *m, size_t route, int status);

struct metrics_scene {         /* everything else that the text needs; pointers are borrowed */
    struct engine_stats stats; /* one copy: its gauges add up */
    const char *const *routes; /* [n_routes] labels */
    size_t n_routes;
    const char *model, *arch, *ftype, *isa, *version;
    uint32_t max_context;
    uint64_t n_params, model_bytes;
    uint32_t n_connections, n_tenants;
    uint64_t n_tenants_shared;
    double uptime_s;
};

/* Prometheus text format 0.0.4. */
void metrics_render(const struct metrics *m, const struct metrics_scene *scene, struct buf *out);

#endif
