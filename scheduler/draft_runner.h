/* scheduler/draft_runner.h - a draft model that is a model of its own, with its runner and cache.
 *
 * For each slot of the scheduler it keeps keys and values of the sequence there, in blocks of its
 * own cache, where prefixes are shared as in the model's. It guesses with the sampling of the
 * request, its seed and its positions, on its own logits: where the two models agree on the
 * likeliest tokens they then choose the same one at any temperature. Constraints and mirostat it
 * does not know.
 *
 * What it has computed of guesses that were wrong is thrown away at the next call for that slot.
 * Where its cache is full, sequences lose their blocks that were not asked for the longest.
 *
 * Thread: engine thread only; batches run on the runner's pool.
 * Memory: taken at creation.
 */
#ifndef SCHEDULER_DRAFT_RUNNER_H
#define SCHEDULER_DRAFT_RUNNER_H

#include <stddef.h>
#include <stdint.h>

#include "scheduler/drafts/draft_model.h"

#define DRAFT_RUNNER_ROWS 128 /* of a batch, at most: the runner's max_rows at least */

struct draft_runner;
struct kv_manager;
struct kv_store;
struct runner;

struct draft_runner_options { /* all borrowed */
    struct runner *runner;    /* of the draft model, which has no recurrent states */
    struct kv_store *kv;
    struct kv_manager *manager;
    uint32_t max_sequences;   /* slots of the scheduler */
    uint32_t max_context;     /* of the draft model and its cache */
    uint32_t n_vocab;         /* tokens below are the same ones in both models */
    const int32_t *eog;       /* ids that end a generation: no guesses, [n_eog] */
    size_t n_eog;
    double weight;            /* draft_model_costs.weight */
};

int draft_runner_create(struct draft_runner **out, const struct draft_runner_options *options);
void draft_runner_destroy(struct draft_runner **d);

/* As the scheduler takes it; it refers to d. */
struct draft_model draft_runner_get(struct draft_runner *d);
struct draft_model_costs *draft_runner_costs(struct draft_runner *d);

#endif
