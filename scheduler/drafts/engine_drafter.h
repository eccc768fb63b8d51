/* scheduler/drafts/engine_drafter.h - the drafter of an engine: it asks the other drafters and
 * returns the guess with the longest match.
 *
 * It keeps the answers of requests that have ended, and looks them up too where a request's own
 * text and prediction match less well.
 *
 * A guess ends before the first token that would end the generation, because nothing follows that
 * token.
 *
 * Debug builds obey QUIRE_DEBUG_DRAFTS: "always" computes every guess, whatever it costs; SEED:N
 * does so too, and N of 1,000 guesses are tokens at random.
 *
 * Thread: engine thread only.
 * Memory: taken at creation.
 */
#ifndef SCHEDULER_DRAFTS_ENGINE_DRAFTER_H
#define SCHEDULER_DRAFTS_ENGINE_DRAFTER_H

#include <stddef.h>
#include <stdint.h>

#include "scheduler/drafts/drafter.h"

struct engine_drafter;

/* eog: ids that end a generation, [n_eog], borrowed. ERR_NOMEM. */
int engine_drafter_create(struct engine_drafter **out, const int32_t *eog, size_t n_eog);
/* From now on keep answers of ended requests, at most max_tokens (not 0) tokens in all. Called at
 * most once. ERR_NOMEM. */
int engine_drafter_keep_answers(struct engine_drafter *d, uint32_t max_tokens);
void engine_drafter_destroy(struct engine_drafter **d);

/* Called when a request has ended with n_known tokens in its ids, none discarded by context shifts:
 * keep its answer, if it has one and allows drafts. */
void engine_drafter_note_end(struct engine_drafter *d, const struct request *r, uint32_t n_known);

/* Return the interface for the scheduler; it borrows d. */
struct drafter engine_drafter_get(struct engine_drafter *d);

#endif
