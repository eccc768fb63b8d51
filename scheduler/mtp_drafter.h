/* scheduler/mtp_drafter.h - guesses by the layer that a model's own file has for that (multi-token
 * prediction; runner_guess()), as a draft model (drafts/draft_model.h).
 *
 * The layer takes texts in as the model's steps compute them, so there is nothing to take in here:
 * it can guess for a stream whose last step computed the row before its last token, that is, from
 * its second token on, also behind a preemption. It chooses with the sampling of the request, its
 * seed and its positions. Constraints and mirostat it does not know.
 *
 * Thread: engine thread only; batches run on the runner's pool.
 * Memory: taken at creation.
 */
#ifndef SCHEDULER_MTP_DRAFTER_H
#define SCHEDULER_MTP_DRAFTER_H

#include <stddef.h>
#include <stdint.h>

#include "scheduler/drafts/draft_model.h"

struct mtp_drafter;
struct runner;

struct mtp_drafter_options {
    struct runner *runner; /* borrowed; it has room for guesses */
    const int32_t *eog;    /* ids that end a generation: no guesses, [n_eog], borrowed */
    size_t n_eog;
    double weight;         /* draft_model_costs.weight */
};

int mtp_drafter_create(struct mtp_drafter **out, const struct mtp_drafter_options *options);
void mtp_drafter_destroy(struct mtp_drafter **d);

/* As the scheduler takes it; it refers to d. */
struct draft_model mtp_drafter_get(struct mtp_drafter *d);
struct draft_model_costs *mtp_drafter_costs(struct mtp_drafter *d);

#endif
