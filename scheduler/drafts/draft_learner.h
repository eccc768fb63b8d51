/* scheduler/drafts/draft_learner.h - learns about drafts from the steps of an engine: their cost by
 * rows (draft_costs.h) and their gain or loss (draft_account.h), also for the draft model.
 *
 * Thread: engine thread only. Memory: none.
 */
#ifndef SCHEDULER_DRAFTS_DRAFT_LEARNER_H
#define SCHEDULER_DRAFTS_DRAFT_LEARNER_H

#include <stdint.h>

#include "scheduler/drafts/draft_account.h"
#include "scheduler/drafts/draft_costs.h"

struct draft_model_costs;

struct draft_learner { /* zero: nothing is known */
    struct draft_cost_model cost;
    struct draft_account account, model_account;
    struct draft_model_costs *model; /* borrowed; NULL: there is no draft model */
    struct draft_costs costs;        /* the costs above as the scheduler plans with them */
};

struct draft_step {     /* measurements of a step without prompt rows */
    uint32_t n_streams; /* sequences that decode */
    uint32_t n_drafts;  /* rows with guesses beside the sequences' own */
    uint32_t n_tokens;  /* tokens chosen in the step */
    uint64_t us;        /* microseconds of the step, without the draft model's time */
    uint64_t keys_ns;   /* part of that time for reading keys, by the cost model */
};

/* Called before a step is planned: fill in `costs`, and start measuring the draft model's time for
 * this step. */
void draft_learner_begin_step(struct draft_learner *l);
/* Microseconds that the draft model has computed for this step. */
uint64_t draft_learner_model_us(const struct draft_learner *l);
/* Learn from a step: its cost, and the time that its drafts gained or lost. */
void draft_learner_observe(struct draft_learner *l, const struct draft_step *step);

#endif
