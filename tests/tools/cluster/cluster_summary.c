/* tests/tools/cluster/cluster_summary.c - summarises the run of a cluster or a replica; see
 * cluster.h.
 *
 * Times to the first token are collected and sorted, so their percentiles are exact; times between
 * tokens were counted by the replicas in buckets (quantiles.h), which are added. Requests that
 * never got a token sort last, as UINT64_MAX, which gives the second p95.
 */
#include "tests/tools/cluster/cluster.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "scheduler/replay/quantiles.h"

#include <stdlib.h>
#include <string.h>

struct times { /* times to the first token; UINT64_MAX: it never came */
    uint64_t *v;
    size_t n;
};

struct span {
    uint64_t from_us, to_us;
};

static void add_request(const struct simulate_arrival *a, const struct simulate_result *r,
                        struct cluster_summary *out, struct times *times, struct span *span)
{
    const bool is_timeout = r->finish == FINISH_TIMEOUT || r->finish == FINISH_QUEUE_TIMEOUT;

    out->n_requests++;
    out->n_ended += r->n_ends > 0;
    out->n_timeout += is_timeout;
    out->n_refused += r->finish == FINISH_ERROR;
    out->prompt_tokens += a->n_prompt;
    out->cached_tokens += r->n_cached;
    out->generated_tokens += r->n_tokens;
    out->n_preempted += r->n_preempted;
    if (r->n_tokens > 0)
        times->v[times->n++] = r->first_us;
    else if (is_timeout || r->finish == FINISH_ERROR)
        times->v[times->n++] = UINT64_MAX;
    if (r->arrival_us < span->from_us)
        span->from_us = r->arrival_us;
    if (r->arrival_us + r->finish_us > span->to_us)
        span->to_us = r->arrival_us + r->finish_us;
}

static int by_value(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

static uint64_t at_percent(const uint64_t *v, size_t n, uint32_t percent)
{
    return n > 0 ? v[(n - 1) * percent / 100] : 0;
}

static void set_ttft(struct times *times, struct cluster_summary *out)
{
    size_t n = times->n;

    qsort(times->v, n, sizeof(*times->v), by_value);
    out->ttft_p95_all_us = at_percent(times->v, n, 95);
    while (n > 0 && times->v[n - 1] == UINT64_MAX)
        n--;
    out->ttft_p50_us = at_percent(times->v, n, 50);
    out->ttft_p95_us = at_percent(times->v, n, 95);
    out->ttft_p99_us = at_percent(times->v, n, 99);
}

static void add_itl(struct quantiles *sum, const struct quantiles *q)
{
    sum->n += q->n;
    for (uint32_t i = 0; i < QUANTILES_BUCKETS; i++)
        sum->count[i] += q->count[i];
}

/* Summarise replicas from .. to - 1. */
static int summarise(const struct cluster *c, uint32_t from, uint32_t to,
                     struct cluster_summary *out)
{
    struct span span = {UINT64_MAX, 0};
    struct times times = {0};
    struct quantiles *itl = mem_calloc(1, sizeof(*itl));
    size_t n = 0;

    memset(out, 0, sizeof(*out));
    for (uint32_t i = from; i < to; i++)
        n += simulate_n(cluster_replica(c, i));
    times.v = mem_calloc(n + 1, sizeof(*times.v));
    for (uint32_t i = from; i < to && itl != NULL && times.v != NULL; i++) {
        const struct simulate *s = cluster_replica(c, i);

        for (size_t k = 0; k < simulate_n(s); k++)
            add_request(simulate_arrival(s, k), simulate_result(s, k), out, &times, &span);
        add_itl(itl, simulate_itl(s));
        out->busy_us += simulate_busy_us(s);
    }
    if (itl != NULL && times.v != NULL) {
        set_ttft(&times, out);
        out->itl_p50_us = quantiles_get(itl, 50);
        out->itl_p95_us = quantiles_get(itl, 95);
        out->span_us = n > 0 ? span.to_us - span.from_us : 0;
    }
    n = itl == NULL || times.v == NULL;
    mem_free(itl);
    mem_free(times.v);
    return n > 0 ? ERR_NOMEM : 0;
}

int cluster_summarise(const struct cluster *c, struct cluster_summary *out)
{
    return summarise(c, 0, cluster_n(c), out);
}

int cluster_summarise_replica(const struct cluster *c, uint32_t i, struct cluster_summary *out)
{
    return summarise(c, i, i + 1, out);
}
