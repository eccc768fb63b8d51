/* core/base/hist.h - a histogram with fixed bounds, as Prometheus counts them.
 *
 * Plain data, copied by value; zero plus hist_init() is an empty one.
 *
 * Thread: one owner; copies travel.
 * Memory: none.
 */
#ifndef CORE_BASE_HIST_H
#define CORE_BASE_HIST_H

#include <stdint.h>

#define HIST_MAX 28

struct hist {
    uint32_t n;              /* bounds in use */
    double bounds[HIST_MAX]; /* upper bounds, ascending */
    uint64_t count[HIST_MAX + 1]; /* per bucket, not cumulative; the last one is above all bounds */
    double sum;
};

/* Set n <= HIST_MAX ascending bounds, and empty the counts. */
void hist_init(struct hist *h, const double *bounds, uint32_t n);
void hist_add(struct hist *h, double value);
uint64_t hist_total(const struct hist *h);

/* The bounds that vLLM's dashboards expect, by the kind of measurement. */
void hist_init_ttft(struct hist *h);    /* seconds to the first token */
void hist_init_itl(struct hist *h);     /* seconds between tokens */
void hist_init_latency(struct hist *h); /* seconds of a request or a phase of it */
void hist_init_tokens(struct hist *h);  /* 1-2-5 decades up to 100,000 */
void hist_init_step(struct hist *h);    /* tokens of a step: powers of 2 */
void hist_init_ratio(struct hist *h);   /* relative errors: 0 is none, 1 as much as the value */

#endif
