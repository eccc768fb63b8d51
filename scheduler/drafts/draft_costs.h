/* scheduler/drafts/draft_costs.h - the time of a step as a function of its number of rows, and the
 * time that a draft model's guesses take.
 *
 * The cost model (cost_model.h) is linear in rows; the true cost is not where reading the weights
 * bounds a step: there a second row is nearly free, and the ninth may need another tile. So the
 * times of steps without prompt rows are learnt by number of rows: a level, which follows the
 * machine quickly, and for each number of rows its share of the level, which changes slowly. A
 * number of rows that was not seen lately is interpolated between its seen neighbours; above the
 * largest seen one a further row costs the mean of the rows before it, and little where no mean is
 * known, so that it is tried once. A number of rows seen in few steps is forgotten sooner: one of
 * them may have been interrupted.
 *
 * The batches of a draft model (draft_model.h), a row for each stream, are learnt in the same way;
 * until there was one, a batch is assumed to take (bytes of the draft model / bytes of the model)
 * times a step. A row of a text that the draft model takes in costs as much as the latest such
 * rows.
 *
 * Thread: engine thread only. Memory: none.
 */
#ifndef SCHEDULER_DRAFTS_DRAFT_COSTS_H
#define SCHEDULER_DRAFTS_DRAFT_COSTS_H

#include <stdbool.h>
#include <stdint.h>

#define DRAFT_ROWS 64 /* most rows of a step with drafts */

/* The costs as the scheduler plans with them, in whole numbers. */
struct draft_costs {
    bool is_known;
    uint64_t rows_ns[DRAFT_ROWS + 1]; /* [rows] without the time for reading keys; never
                                       * decreasing */
    uint32_t most_seen; /* largest number of rows measured lately; above it: extrapolated */
    int64_t balance_ns;               /* the balance of draft_account.h */
    /* ---- the draft model ---- */
    uint64_t guess_ns[DRAFT_ROWS + 1]; /* [streams] a batch of guesses; never decreasing */
    uint64_t take_in_ns;               /* one row of a text that it takes in */
    int64_t model_balance_ns;          /* the balance of the draft model's account */
};

struct draft_cost_model {
    double level;                  /* ns of a step of one row */
    double share[DRAFT_ROWS + 1];  /* [rows] time of a step of so many rows / level; 0: not seen */
    uint64_t seen[DRAFT_ROWS + 1]; /* [rows] number of the latest step with so many rows */
    uint8_t n_seen[DRAFT_ROWS + 1]; /* [rows] steps seen lately, counted while they are few */
    uint64_t n_steps;
};

/* Learn that a step of n_rows rows, none of them of a prompt, took `us`, of which keys_ns was
 * reading keys, as the cost model predicts. */
void draft_costs_observe(struct draft_cost_model *m, uint32_t n_rows, uint64_t us,
                         uint64_t keys_ns);

/* Nanoseconds that a step of n_rows rows takes, without reading keys; 0: nothing is known. */
double draft_costs_rows(const struct draft_cost_model *m, uint32_t n_rows);
/* The largest number of rows that was seen lately; 0: none. */
uint32_t draft_costs_most_seen(const struct draft_cost_model *m);
/* Fill ns[rows] for all numbers of rows, never decreasing; false: nothing is known. */
bool draft_costs_fill(const struct draft_cost_model *m, uint64_t ns[DRAFT_ROWS + 1]);

#endif
