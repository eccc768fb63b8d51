/* core/base/hist.c - see hist.h.
 *
 * Adding a value is a scan over a few bounds; counts are kept for each bucket and summed up only
 * when metrics are rendered. The sets of bounds are static arrays, one for each kind of
 * measurement, and equal to vLLM's where it has the metric, so that its dashboards work.
 */
#include "core/base/hist.h"

#include <assert.h>
#include <string.h>

void hist_init(struct hist *h, const double *bounds, uint32_t n)
{
    assert(n <= HIST_MAX);
    memset(h, 0, sizeof(*h));
    memcpy(h->bounds, bounds, n * sizeof(*bounds));
    h->n = n;
}

void hist_add(struct hist *h, double value)
{
    uint32_t i = 0;

    while (i < h->n && value > h->bounds[i])
        i++;
    h->count[i]++;
    h->sum += value;
}

uint64_t hist_total(const struct hist *h)
{
    uint64_t total = 0;

    for (uint32_t i = 0; i <= h->n; i++)
        total += h->count[i];
    return total;
}

#define INIT(h, ...)                                                                               \
    do {                                                                                           \
        static const double bounds[] = {__VA_ARGS__};                                              \
        hist_init(h, bounds, sizeof(bounds) / sizeof(bounds[0]));                                  \
    } while (0)

void hist_init_ttft(struct hist *h)
{
    INIT(h, 0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10,
         20, 40, 80, 160, 640, 2560);
}

void hist_init_itl(struct hist *h)
{
    INIT(h, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1,
         2.5, 5, 7.5, 10, 20, 40, 80);
}

void hist_init_latency(struct hist *h)
{
    INIT(h, 0.001, 0.01, 0.05, 0.1, 0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60,
         120, 240, 480, 960, 1920, 7680);
}

void hist_init_tokens(struct hist *h)
{
    INIT(h, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000);
}

void hist_init_step(struct hist *h)
{
    INIT(h, 1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384);
}

void hist_init_ratio(struct hist *h)
{
    INIT(h, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 1.5, 2, 3, 5, 10);
}
