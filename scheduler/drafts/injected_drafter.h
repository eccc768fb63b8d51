/* scheduler/drafts/injected_drafter.h - random guesses, to test that wrong guesses change no answer
 * (QUIRE_DEBUG_DRAFTS, see engine_drafter.h). A release build makes none.
 *
 * Thread: engine thread only. Memory: none.
 */
#ifndef SCHEDULER_DRAFTS_INJECTED_DRAFTER_H
#define SCHEDULER_DRAFTS_INJECTED_DRAFTER_H

#include <stdint.h>

#include "scheduler/drafts/drafter.h"

struct injected_drafter {
    bool takes_all;
    uint32_t permille; /* how many of 1,000 calls inject a guess */
    uint64_t state;    /* counter of the random numbers */
};

/* Read QUIRE_DEBUG_DRAFTS. An invalid value ends the process with a message. */
void injected_drafter_init(struct injected_drafter *d);

/* Propose 1 to `most` random tokens of the request's own text, or none (propose() of struct
 * drafter). */
struct draft injected_drafter_propose(struct injected_drafter *d, struct request *r,
                                      uint32_t n_known, uint32_t most);

#endif
