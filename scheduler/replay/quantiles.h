/* scheduler/replay/quantiles.h - medians and percentiles of many times, in little memory.
 *
 * Values are counted in buckets that are exact below 64 and 3 % wide above.
 *
 * Thread: the owner's.
 * Memory: 15 KiB, in place. Zero is empty.
 */
#ifndef SCHEDULER_REPLAY_QUANTILES_H
#define SCHEDULER_REPLAY_QUANTILES_H

#include <stdint.h>

#define QUANTILES_BUCKETS 1920

struct quantiles {
    uint64_t n;
    uint64_t count[QUANTILES_BUCKETS];
};

void quantiles_add(struct quantiles *q, uint64_t value);

/* Return the lower bound of the bucket with the value at `percent`; 0 if empty. */
uint64_t quantiles_get(const struct quantiles *q, uint32_t percent);

#endif
