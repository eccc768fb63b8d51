/* scheduler/drafts/mtp_drafter.h - a draft model (draft_model.h) whose guesses the multi-token
 * prediction layer in the model's own file makes (runner_guess()).
 *
 * The layer takes texts in as the model's steps compute them, so take_in() has nothing to do: the
 * layer can guess for a stream whose last step computed the row before its last token, that is,
 * from the stream's second token on, also after a preemption. It chooses with the sampling of the
 * request, its seed and its positions, and ignores constraints and mirostat.
 *
 * Thread: engine thread only; batches run on the runner's pool.
 * Memory: taken at creation.
 */
#ifndef SCHEDULER_DRAFTS_MTP_DRAFTER_H
#define SCHEDULER_DRAFTS_MTP_DRAFTER_H

#include <stddef.h>
#include <stdint.h>

#include "scheduler/drafts/draft_model.h"

struct mtp_drafter;
struct runner;

struct mtp_drafter_options {
    struct runner *runner; /* borrowed; it has room for guesses */
    const int32_t *eog;    /* ids that end a generation and are never guessed, [n_eog], borrowed */
    size_t n_eog;
    double weight;         /* draft_model_costs.weight */
};

int mtp_drafter_create(struct mtp_drafter **out, const struct mtp_drafter_options *options);
void mtp_drafter_destroy(struct mtp_drafter **d);

/* Return the interface for the scheduler; it borrows d. */
struct draft_model mtp_drafter_get(struct mtp_drafter *d);
struct draft_model_costs *mtp_drafter_costs(struct mtp_drafter *d);

#endif
