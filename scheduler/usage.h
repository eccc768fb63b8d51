/* scheduler/usage.h - the machine's resources that a request has used, in integers: their sums over
 * requests equal engine_stats.usage exactly once no request is left.
 *
 * Thread: plain data.
 * Memory: none.
 */
#ifndef SCHEDULER_USAGE_H
#define SCHEDULER_USAGE_H

#include <stdint.h>

struct usage {
    uint64_t computed_tokens;  /* rows: prompts, recomputed tokens and guesses, also wrong ones */
    uint64_t cached_tokens;    /* prompt tokens that were in the prefix cache at the start */
    uint64_t generated_tokens;
    uint64_t compute_us; /* its share of the steps' wall time, by what its rows and keys cost */
    uint64_t block_us;   /* KV blocks times microseconds: the blocks in its table after each step,
                          * for the time since the step before; a shared block counts in each
                          * table */
};

static inline void usage_add(struct usage *to, const struct usage *from)
{
    to->computed_tokens += from->computed_tokens;
    to->cached_tokens += from->cached_tokens;
    to->generated_tokens += from->generated_tokens;
    to->compute_us += from->compute_us;
    to->block_us += from->block_us;
}

#endif
