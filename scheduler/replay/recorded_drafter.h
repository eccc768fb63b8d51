/* scheduler/replay/recorded_drafter.h - proposes the drafts that a journal recorded for a plan.
 *
 * Thread: any, one at a time.
 * Memory: borrows the record's drafts until the plan is made.
 */
#ifndef SCHEDULER_REPLAY_RECORDED_DRAFTER_H
#define SCHEDULER_REPLAY_RECORDED_DRAFTER_H

#include <stddef.h>
#include <stdint.h>

#include "scheduler/drafts/drafter.h"

struct recorded_draft {
    uint64_t request;
    uint32_t n; /* 1 to DRAFT_MAX */
    int32_t ids[DRAFT_MAX];
};

struct recorded_drafter {
    const struct recorded_draft *drafts; /* [n] in the order of the plan's items */
    uint32_t n;
    uint32_t next; /* index of the first draft that was not proposed */
    const int32_t *eog;
    size_t n_eog;
};

/* Return the interface for the scheduler; it borrows d. */
struct drafter recorded_drafter_get(struct recorded_drafter *d);

#endif
