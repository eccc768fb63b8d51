/* scheduler/drafts/draft_learner.h - what an engine has learnt of drafts from its steps: what they
 * cost by rows (draft_costs.h) and what they have gained or lost (draft_account.h), of the draft
 * model too.
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
    struct draft_costs costs;        /* of these, for the plan */
};

struct draft_step {     /* a step without prompt rows, as it went */
    uint32_t n_streams; /* that decode */
    uint32_t n_drafts;  /* rows with guesses beside theirs */
    uint32_t n_tokens;  /* that were chosen */
    uint64_t us;        /* without what the draft model computed */
    uint64_t keys_ns;   /* of it, for reading keys, as the cost model has it */
};

/* Before a step is planned: `costs` is filled in, and what the draft model takes is of this step
 * from here on. */
void draft_learner_begin_step(struct draft_learner *l);
/* What the draft model has computed for the step, us. */
uint64_t draft_learner_model_us(const struct draft_learner *l);
/* What the step took, and what its drafts brought or cost. */
void draft_learner_observe(struct draft_learner *l, const struct draft_step *step);

#endif
