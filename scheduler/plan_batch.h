/* scheduler/plan_batch.h - turns a plan into the batch that the runner computes: a span for each
 * item, and an output for each token that is to be chosen or scored.
 *
 * Thread: engine thread only. Memory: none; the batch borrows from the plan's requests until the
 * step is over.
 */
#ifndef SCHEDULER_PLAN_BATCH_H
#define SCHEDULER_PLAN_BATCH_H

struct batch;
struct plan;

/* Build the batch, cleared first. Sequences with the same adapter are neighbours, in the order of
 * the first of them; `seq` of an output is the index of its item. The batch must have been created
 * for as many rows, sequences and outputs as the plan may have. */
void plan_batch_build(struct batch *b, const struct plan *plan);

/* The batch is computed: settle the marks of requests whose last prompt row it had. */
void plan_batch_settle(const struct plan *plan);

#endif
