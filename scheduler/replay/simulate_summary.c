/* scheduler/replay/simulate_summary.c - summarises a simulation; see simulate.h.
 *
 * Times to the first token are sorted for exact percentiles; times between tokens come from the
 * buckets that the simulation counted. Fairness between tenants is one number, Jain's index: 1000
 * when all tenants got the same service for the time that they waited and their weight.
 */
#include "scheduler/replay/simulate.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "scheduler/replay/quantiles.h"

#include <stdlib.h>
#include <string.h>

static int by_value(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

static int summarise_ttft(const struct simulate *s, struct simulate_summary *out)
{
    uint64_t *v = mem_alloc((simulate_n(s) + 1) * sizeof(*v));
    size_t n = 0;

    if (v == NULL)
        return ERR_NOMEM;
    for (size_t i = 0; i < simulate_n(s); i++)
        if (simulate_result(s, i)->n_tokens > 0)
            v[n++] = simulate_result(s, i)->first_us;
    qsort(v, n, sizeof(*v), by_value);
    if (n > 0) {
        out->ttft_p50_us = v[(n - 1) / 2];
        out->ttft_p99_us = v[(n - 1) * 99 / 100];
    }
    mem_free(v);
    return 0;
}

struct share { /* a tenant's share */
    uint64_t spent_us; /* sum of its requests' times from arrival to end */
    uint32_t weight;   /* 0: it sent no request */
};

static uint32_t tenants_of(const struct simulate *s)
{
    uint32_t n = 0;

    for (size_t i = 0; i < simulate_n(s); i++)
        if (simulate_arrival(s, i)->tenant >= n)
            n = simulate_arrival(s, i)->tenant + 1;
    return n;
}

/* Return Jain's index, in thousandths, of x = rows / time / weight: (sum x)^2 / (n * sum x^2). */
static uint32_t jain_milli(const struct simulate *s, const struct share *shares, uint32_t n_tenants)
{
    double sum = 0, squares = 0;
    uint32_t n = 0;

    for (uint32_t t = 0; t < n_tenants; t++) {
        double x;

        if (shares[t].weight == 0 || shares[t].spent_us == 0)
            continue;
        x = (double)simulate_tenant_rows(s, t) / (double)shares[t].spent_us / shares[t].weight;
        n++;
        sum += x;
        squares += x * x;
    }
    return squares > 0 ? (uint32_t)(sum * sum / (n * squares) * 1000 + 0.5) : 1000;
}

static int summarise_tenants(const struct simulate *s, struct simulate_summary *out)
{
    const uint32_t n = tenants_of(s);
    struct share *shares = mem_calloc((size_t)n + 1, sizeof(*shares));

    if (shares == NULL)
        return ERR_NOMEM;
    for (size_t i = 0; i < simulate_n(s); i++) {
        const struct simulate_arrival *a = simulate_arrival(s, i);

        shares[a->tenant].spent_us += simulate_result(s, i)->finish_us;
        shares[a->tenant].weight = a->weight > 0 ? a->weight : 1;
    }
    out->jain_milli = jain_milli(s, shares, n);
    mem_free(shares);
    return 0;
}

int simulate_summarise(const struct simulate *s, struct simulate_summary *out)
{
    uint64_t first = UINT64_MAX, last = 0;
    struct engine_stats stats;

    memset(out, 0, sizeof(*out));
    simulate_stats(s, &stats);
    out->n_recomputed = stats.recomputed_tokens;
    out->itl_p50_us = quantiles_get(simulate_itl(s), 50);
    out->itl_p99_us = quantiles_get(simulate_itl(s), 99);
    for (size_t i = 0; i < simulate_n(s); i++) {
        const struct simulate_result *r = simulate_result(s, i);

        out->n_ended += r->n_ends > 0;
        out->n_timeout += r->finish == FINISH_TIMEOUT || r->finish == FINISH_QUEUE_TIMEOUT;
        out->n_preempted += r->n_preempted;
        first = r->arrival_us < first ? r->arrival_us : first;
        last = r->arrival_us + r->finish_us > last ? r->arrival_us + r->finish_us : last;
    }
    out->finish_us = simulate_n(s) > 0 ? last - first : 0;
    return summarise_ttft(s, out) < 0 || summarise_tenants(s, out) < 0 ? ERR_NOMEM : 0;
}
