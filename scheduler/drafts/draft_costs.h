/* scheduler/drafts/draft_costs.h - what a step takes by its number of rows, and what drafts have
 * gained or lost so far.
 *
 * The cost model (cost_model.h) is linear in rows; the true cost is not where reading the weights
 * bounds a step: there a second row is nearly free, and the ninth may need another tile. So steps
 * without prompt rows are remembered by their rows: a level, which follows the machine quickly, and
 * for each number of rows its share of it, which changes slowly. Numbers that were not seen for
 * long lie between those that were; beyond these a row costs what the last ones did, and little
 * where that is not known, so that it is tried once.
 *
 * The account. Drafts gain the time of the steps that they save, and lose what a step with them
 * takes more. The balance grows by a 1/80 of the time that steps without drafts would take: while
 * it is negative only drafts that promise much are computed, and below a limit none. So drafts that
 * turn out worse than expected cost no more than 1/80 of the time, and a few steps once.
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
    int64_t balance_ns;               /* of the account */
};

struct draft_cost_model {
    double level;                  /* ns of a step of one row */
    double share[DRAFT_ROWS + 1];  /* [rows] of that; 0: not seen */
    uint64_t seen[DRAFT_ROWS + 1]; /* in which step, the latest time */
    uint64_t n_steps;
    double balance;                /* ns */
};

/* A step of so many rows, none of them a prompt's, took us; keys_ns of it were for reading keys, as
 * the cost model has it. */
void draft_costs_observe(struct draft_cost_model *m, uint32_t n_rows, uint64_t us,
                         uint64_t keys_ns);

/* The step had n_streams sequences, chose n_tokens tokens for them (more than n_streams: drafts
 * were right), and took us; keys_ns is that of a step without drafts. With has_drafts false only
 * the allowance grows. */
void draft_costs_settle(struct draft_cost_model *m, uint32_t n_streams, uint32_t n_tokens,
                        uint64_t us, uint64_t keys_ns, bool has_drafts);

struct draft_costs draft_costs_get(const struct draft_cost_model *m);

#endif
