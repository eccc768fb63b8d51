/* scheduler/drafts/grammar_drafter.h - guesses for an answer under a constraint: tokens of other
 * drafters as far as the constraint allows them, and text for which the constraint leaves only one
 * continuation, like keys and punctuation of JSON.
 *
 * A guess is made token by token. While a look-up matches, its tokens are taken: they spell forced
 * text as the model spelled it before. Where the look-up ends or the constraint refuses its token,
 * the longest tokens spell the forced bytes; after these the look-up is asked again.
 *
 * Thread: engine thread only.
 * Memory: taken at creation.
 */
#ifndef SCHEDULER_DRAFTS_GRAMMAR_DRAFTER_H
#define SCHEDULER_DRAFTS_GRAMMAR_DRAFTER_H

#include "scheduler/drafts/drafter.h"
#include "scheduler/drafts/lookup_drafter.h"

struct grammar_drafter;

int grammar_drafter_create(struct grammar_drafter **out); /* ERR_NOMEM */
void grammar_drafter_destroy(struct grammar_drafter **d);

/* True: the request's next token is under a constraint (and no thought is open). */
bool grammar_drafter_is_for(const struct request *r);

struct lookup {
    void *ud; /* borrowed */
    /* Find a guess as lookup_drafter_find() does. */
    struct lookup_guess (*find)(void *ud, struct request *r, uint32_t n_known, uint32_t n_guessed);
};

/* Propose a draft (propose() of struct drafter), for requests that grammar_drafter_is_for()
 * accepts. */
struct draft grammar_drafter_propose(struct grammar_drafter *d, const struct lookup *lookup,
                                     struct request *r, uint32_t n_known, uint32_t most);

#endif
