/* scheduler/lookup_drafter.h - guesses from texts that are there: the request's own, and its
 * prediction.
 *
 * The last tokens are looked up in the prompt and the answer so far, and what followed there is the
 * guess. A place that was right is gone on with as long as it fits as well as any other. While the
 * answer follows the request's prediction at least as well, the guess is that.
 *
 * Thread: engine thread only. Memory: none.
 */
#ifndef SCHEDULER_LOOKUP_DRAFTER_H
#define SCHEDULER_LOOKUP_DRAFTER_H

#include "scheduler/drafts/drafter.h"

struct lookup_guess {
    const int32_t *ids; /* what followed there: [n], or, in the request's own text, any number */
    uint32_t n;
    enum draft_source source;
    uint32_t n_match; /* 0: nothing was found */
};

/* Where the guess at what follows ids[0 .. n_known + n_guessed) of a request comes from, of which
 * the last n_guessed are guesses themselves. */
struct lookup_guess lookup_drafter_find(struct request *r, uint32_t n_known, uint32_t n_guessed);
/* That guess, as struct drafter's propose() gives it. */
struct draft lookup_drafter_take(struct request *r, uint32_t n_known, uint32_t most,
                                 const struct lookup_guess *guess);

#endif
