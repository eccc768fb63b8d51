/* scheduler/injected_drafter.h - guesses at random, for tests of what becomes of wrong ones
 * (QUIRE_DEBUG_DRAFTS, see engine_drafter.h). In a release there are none.
 *
 * Thread: engine thread only. Memory: none.
 */
#ifndef SCHEDULER_INJECTED_DRAFTER_H
#define SCHEDULER_INJECTED_DRAFTER_H

#include <stdint.h>

#include "scheduler/drafts/drafter.h"

struct injected_drafter {
    bool takes_all;
    uint32_t permille; /* of guesses that are injected */
    uint64_t state;    /* of the random numbers */
};

/* From the environment. A value that is no such thing ends the process with a message. */
void injected_drafter_init(struct injected_drafter *d);

/* struct drafter's propose(): 1 to `most` of the request's own tokens, in any order; or none. */
struct draft injected_drafter_propose(struct injected_drafter *d, struct request *r,
                                      uint32_t n_known, uint32_t most);

#endif
