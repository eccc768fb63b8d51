/* scheduler/drafts/lookup_drafter.h - guesses from the request's own text and its prediction.
 *
 * The last tokens are looked up in the prompt and the answer so far, and the guess is what followed
 * there. The place of the last guess is kept as long as it matches as well as any other. While the
 * request's prediction matches at least as well, the guess comes from there.
 *
 * Thread: engine thread only. Memory: none.
 */
#ifndef SCHEDULER_DRAFTS_LOOKUP_DRAFTER_H
#define SCHEDULER_DRAFTS_LOOKUP_DRAFTER_H

#include "scheduler/drafts/drafter.h"

struct lookup_guess {
    const int32_t *ids; /* tokens that followed: [n], or, in the request's own text, any number */
    uint32_t n;
    enum draft_source source;
    uint32_t n_match; /* 0: nothing was found */
};

/* Find tokens that may follow ids[0 .. n_known + n_guessed) of a request, of which the last
 * n_guessed are guesses themselves. */
struct lookup_guess lookup_drafter_find(struct request *r, uint32_t n_known, uint32_t n_guessed);
/* Copy a found guess into the request's ids after the n_known known tokens, at most `most` of them
 * (propose() of struct drafter). */
struct draft lookup_drafter_take(struct request *r, uint32_t n_known, uint32_t most,
                                 const struct lookup_guess *guess);

#endif
