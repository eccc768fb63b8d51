/* scheduler/pace.h - how many prompt tokens a step may take beside running streams.
 *
 * P7: a long prompt may not delay running streams by more than the step target. The pace learns,
 * from measured steps, what a step without prompt tokens takes and what each prompt token adds
 * (moving averages over about eight steps), and answers with the number that fits.
 *
 * Thread: engine thread only. Integers only: times are microseconds.
 * Memory: none.
 */
#ifndef SCHEDULER_PACE_H
#define SCHEDULER_PACE_H

#include <stdint.h>

#define PACE_MIN_TOKENS 16 /* always granted, so that a prompt ends on any machine */

struct pace {
    uint64_t target_us;   /* 0 = no limit */
    uint64_t base_us;     /* average of steps without prompt tokens */
    uint64_t token_ns;    /* average cost of a prompt token; 0 = not known yet */
};

void pace_init(struct pace *p, uint32_t target_ms);

/* Prompt tokens for the next step: everything (UINT32_MAX) when no stream is running, else what
 * fits, at least PACE_MIN_TOKENS; that much too while nothing has been measured. */
uint32_t pace_budget(const struct pace *p, uint32_t n_streams);

/* A step took `us` with so many prompt tokens in it. */
void pace_observe(struct pace *p, uint64_t us, uint32_t n_prefill, uint32_t n_decode);

#endif
