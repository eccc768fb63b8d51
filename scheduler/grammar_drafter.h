/* scheduler/grammar_drafter.h - guesses where a constraint lets the text go on in one way
 * only: keys and punctuation of JSON, say.
 *
 * Thread: engine thread only.
 * Memory: taken at creation.
 */
#ifndef SCHEDULER_GRAMMAR_DRAFTER_H
#define SCHEDULER_GRAMMAR_DRAFTER_H

#include "scheduler/drafts/drafter.h"

struct grammar_drafter;

int grammar_drafter_create(struct grammar_drafter **out); /* ERR_NOMEM */
void grammar_drafter_destroy(struct grammar_drafter **d);

/* struct drafter's propose(). */
struct draft grammar_drafter_propose(struct grammar_drafter *d, struct request *r, uint32_t n_known,
                                     uint32_t most);

#endif
