/* scheduler/drafts/draft_runner.h - a draft model from a file of its own, with its own runner and
 * cache.
 *
 * For each slot of the scheduler it keeps the keys and values of the slot's sequence, in blocks of
 * its own cache, which shares prefixes as the model's cache does. It samples guesses from its own
 * logits with the request's sampling, seed and positions: where the two models agree on the
 * likeliest tokens they then choose the same one at any temperature. It ignores constraints and
 * mirostat.
 *
 * The next call for a slot drops the keys and values of wrong guesses. When the cache is full, the
 * sequence that was not asked for longest loses its blocks.
 *
 * Thread: engine thread only; batches run on the runner's pool.
 * Memory: taken at creation.
 */
#ifndef SCHEDULER_DRAFTS_DRAFT_RUNNER_H
#define SCHEDULER_DRAFTS_DRAFT_RUNNER_H

#include <stddef.h>
#include <stdint.h>

#include "scheduler/drafts/draft_model.h"

#define DRAFT_RUNNER_ROWS 128 /* rows of a batch; the runner's max_rows is at least this */

struct draft_runner;
struct kv_manager;
struct kv_store;
struct runner;

struct draft_runner_options { /* all borrowed */
    struct runner *runner;    /* runner of the draft model, which has no recurrent states */
    struct kv_store *kv;
    struct kv_manager *manager;
    uint32_t max_sequences;   /* slots of the scheduler */
    uint32_t max_context;     /* tokens that the draft model and its cache can hold of a sequence */
    uint32_t n_vocab;         /* token ids below this are the same tokens in both models */
    const int32_t *eog;       /* ids that end a generation and are never guesses, [n_eog] */
    size_t n_eog;
    double weight;            /* draft_model_costs.weight */
};

int draft_runner_create(struct draft_runner **out, const struct draft_runner_options *options);
void draft_runner_destroy(struct draft_runner **d);

/* Return the interface for the scheduler; it borrows d. */
struct draft_model draft_runner_get(struct draft_runner *d);
struct draft_model_costs *draft_runner_costs(struct draft_runner *d);

#endif
