/* scheduler/drafts/draft_costs.h - what a step takes by its number of rows, and what guesses take
 * that are computed.
 *
 * The cost model (cost_model.h) is linear in rows; the true cost is not where reading the weights
 * bounds a step: there a second row is nearly free, and the ninth may need another tile. So steps
 * without prompt rows are remembered by their rows: a level, which follows the machine quickly, and
 * for each number of rows its share of it, which changes slowly. Numbers that were not seen for
 * long lie between those that were; beyond these a row costs what it did on average up to there,
 * and little where that is not known, so that it is tried once. The fewer steps with a number of
 * rows were seen, the sooner they are forgotten: one of them may have been interrupted.
 *
 * The batches of a draft model (draft_model.h), a row for each stream, are remembered in the same
 * way; until there was one, they take of a step what its weights are of the model's. The rows of
 * texts that it takes in cost what the latest ones did.
 *
 * Thread: engine thread only. Memory: none.
 */
#ifndef SCHEDULER_DRAFTS_DRAFT_COSTS_H
#define SCHEDULER_DRAFTS_DRAFT_COSTS_H

#include <stdbool.h>
#include <stdint.h>

#define DRAFT_ROWS 64 /* most rows of a step with drafts */

/* What planning needs, in whole numbers. */
struct draft_costs {
    bool is_known;
    uint64_t rows_ns[DRAFT_ROWS + 1]; /* [rows] without what reading keys takes; never decreasing */
    uint32_t most_seen; /* rows of which that was measured lately: what is beyond is a guess */
    int64_t balance_ns;               /* of the account (draft_account.h) */
    /* of the draft model: */
    uint64_t guess_ns[DRAFT_ROWS + 1]; /* [streams] a batch of guesses; never decreasing */
    uint64_t take_in_ns;               /* a row of a text */
    int64_t model_balance_ns;          /* of its own account */
};

struct draft_cost_model {
    double level;                  /* ns of a step of one row */
    double share[DRAFT_ROWS + 1];  /* [rows] of that; 0: not seen */
    uint64_t seen[DRAFT_ROWS + 1]; /* in which step, the latest time */
    uint8_t n_seen[DRAFT_ROWS + 1]; /* the first few steps since it was not seen for long */
    uint64_t n_steps;
};

/* A step of so many rows, none of them a prompt's, took us; keys_ns of it were for reading keys, as
 * the cost model has it. */
void draft_costs_observe(struct draft_cost_model *m, uint32_t n_rows, uint64_t us,
                         uint64_t keys_ns);

/* What so many rows take without the reading of keys, ns; 0: nothing is known. */
double draft_costs_rows(const struct draft_cost_model *m, uint32_t n_rows);
/* The largest number of rows that was seen lately; 0: none. */
uint32_t draft_costs_most_seen(const struct draft_cost_model *m);
/* All of these, [rows], never decreasing; false: nothing is known. */
bool draft_costs_fill(const struct draft_cost_model *m, uint64_t ns[DRAFT_ROWS + 1]);

#endif
