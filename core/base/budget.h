/* core/base/budget.h - a bound on the work that is done for one request outside the engine.
 *
 * Everything that is computed from a client's bytes before the request is queued (schema to
 * grammar, grammar to masks, template, tokenizing) spends steps of one budget. So its time is
 * bounded for any input, and it stops when the client disconnects. A step is a node visited, a
 * comparison, or some ten bytes scanned or copied: 5 to 50 ns. Spend in loops whose length the
 * input decides, before the work is done; large amounts of plain scanning in pieces, so that a
 * cancellation is seen within a millisecond.
 *
 * After a failure every further budget_spend() fails alike: functions in between may return early
 * with any error, and the owner of the budget asks budget_error() at the end.
 *
 * Thread: one at a time; `canceled` may be set by any thread.
 * Memory: the owner's; `canceled` is borrowed.
 * Errors: ERR_LIMIT (no steps left), ERR_CANCELED.
 */
#ifndef CORE_BASE_BUDGET_H
#define CORE_BASE_BUDGET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"

/* About a second on a slow core: the most that one request may take from a parsing thread. */
#define BUDGET_REQUEST_STEPS ((uint64_t)50000000)

struct budget {
    uint64_t steps_left;
    const atomic_bool *canceled; /* the client has disconnected; NULL = never */
    int err;                     /* 0, ERR_LIMIT or ERR_CANCELED: the first that happened */
};

/* Spend `n` steps, before they are done. A NULL budget has no limits; it is for work that the
 * operator asks for (command lines, settings). */
static inline int budget_spend(struct budget *b, uint64_t n)
{
    if (b == NULL || b->err < 0)
        return b == NULL ? 0 : b->err;
    if (b->canceled != NULL && atomic_load_explicit(b->canceled, memory_order_relaxed))
        b->err = ERR_CANCELED;
    else if (b->steps_left < n)
        b->err = ERR_LIMIT;
    else
        b->steps_left -= n;
    return b->err;
}

static inline int budget_error(const struct budget *b)
{
    return b != NULL ? b->err : 0;
}

#endif
