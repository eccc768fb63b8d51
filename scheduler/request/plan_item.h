/* scheduler/request/plan_item.h - the rows of one request in a step: the scheduler plans them
 * (scheduler/scheduler.h), the engine computes them, and drafters see for which they may guess.
 *
 * Thread: the engine's.
 * Memory: belongs to the plan; the pointers are borrowed until the step is committed.
 */
#ifndef SCHEDULER_REQUEST_PLAN_ITEM_H
#define SCHEDULER_REQUEST_PLAN_ITEM_H

#include <stdbool.h>
#include <stdint.h>

struct request;

struct plan_item {
    struct request *request;   /* its ids[first .. first + n) are computed in this step */
    uint32_t slot;             /* the sequence's slot, stable while it runs */
    uint32_t first, n;
    uint32_t n_drafts;         /* number of last rows, whose tokens are guesses: each yields a token
                                * if its guess and those before it were right */
    bool wants_token;          /* the last row (before the drafts) yields a token */
    bool is_begin;             /* no token of the request was computed yet */
    uint32_t n_discarded;      /* tokens that context shifts have discarded */
    uint32_t score_from;       /* rows from this position on are to be scored (echo) */
    const uint32_t *table;     /* block table of the first KV group */
    uint32_t group_stride;     /* entries from there to the next group's table */
    uint32_t state;            /* slot of the sequence's recurrent state; 0: the model has none */
};

#endif
