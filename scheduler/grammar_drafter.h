/* scheduler/grammar_drafter.h - guesses for an answer that a constraint is on: what other drafters
 * guess as far as the constraint allows it, and what it lets the text go on with in one way only,
 * keys and punctuation of JSON, say.
 *
 * A guess is made token by token. While a look-up fits, its tokens are taken: they spell what is
 * forced as the model has spelled it before. Behind its end, or where the constraint does not allow
 * it, the forced bytes are spelled by the longest tokens; and behind these the look-up is asked
 * again.
 *
 * Thread: engine thread only.
 * Memory: taken at creation.
 */
#ifndef SCHEDULER_GRAMMAR_DRAFTER_H
#define SCHEDULER_GRAMMAR_DRAFTER_H

#include "scheduler/drafts/drafter.h"
#include "scheduler/lookup_drafter.h"

struct grammar_drafter;

int grammar_drafter_create(struct grammar_drafter **out); /* ERR_NOMEM */
void grammar_drafter_destroy(struct grammar_drafter **d);

/* Is there a constraint on what comes next? */
bool grammar_drafter_is_for(const struct request *r);

struct lookup {
    void *ud; /* borrowed */
    /* As lookup_drafter_find(). */
    struct lookup_guess (*find)(void *ud, struct request *r, uint32_t n_known, uint32_t n_guessed);
};

/* struct drafter's propose(), for requests that it is for. */
struct draft grammar_drafter_propose(struct grammar_drafter *d, const struct lookup *lookup,
                                     struct request *r, uint32_t n_known, uint32_t most);

#endif
