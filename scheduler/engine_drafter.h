/* scheduler/engine_drafter.h - the drafter of an engine: it asks the others, and takes the
 * guess that is likelier to be right.
 *
 * A guess ends before a token that would end its generation: what would follow that is void.
 *
 * Debug builds obey QUIRE_DEBUG_DRAFTS: "always" computes every guess, whatever it costs; SEED:N
 * does so too, and N of 1,000 guesses are tokens at random.
 *
 * Thread: engine thread only.
 * Memory: taken at creation.
 */
#ifndef SCHEDULER_ENGINE_DRAFTER_H
#define SCHEDULER_ENGINE_DRAFTER_H

#include <stddef.h>
#include <stdint.h>

#include "scheduler/drafts/drafter.h"

struct engine_drafter;

/* eog: ids that end a generation, [n_eog], borrowed. ERR_NOMEM. */
int engine_drafter_create(struct engine_drafter **out, const int32_t *eog, size_t n_eog);
void engine_drafter_destroy(struct engine_drafter **d);

/* As the scheduler takes it; it refers to d. */
struct drafter engine_drafter_get(struct engine_drafter *d);

#endif
