/* scheduler/replay/quantiles.c - see quantiles.h.
 *
 * Values below EXACT have their own buckets; above, each power of two is cut into STEPS buckets,
 * found by shifting, so adding a value takes no division and a bucket is about 3 % wide. A
 * percentile walks the counts until enough values are below, and is the lower bound of the bucket
 * reached.
 */
#include "scheduler/replay/quantiles.h"

#define EXACT 64 /* values below this have a bucket each */
#define STEPS 32 /* buckets between two powers of two above EXACT */

static uint32_t quantile_bucket(uint64_t value)
{
    uint32_t log = 6;

    if (value < EXACT)
        return (uint32_t)value;
    while (log < 63 && value >> (log + 1) > 0)
        log++;
    return EXACT + (log - 6) * STEPS + (uint32_t)(value >> (log - 5) & (STEPS - 1));
}

static uint64_t bound_of(uint32_t bucket)
{
    const uint32_t above = bucket - EXACT;

    if (bucket < EXACT)
        return bucket;
    return (uint64_t)(STEPS + above % STEPS) << (above / STEPS + 1);
}

void quantiles_add(struct quantiles *q, uint64_t value)
{
    q->n++;
    q->count[quantile_bucket(value)]++;
}

uint64_t quantiles_get(const struct quantiles *q, uint32_t percent)
{
    uint64_t before = 0;
    uint32_t i = 0;

    if (q->n == 0)
        return 0;
    while (before + q->count[i] <= (q->n - 1) * percent / 100)
        before += q->count[i++];
    return bound_of(i);
}
