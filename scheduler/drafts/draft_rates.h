/* scheduler/drafts/draft_rates.h - how likely drafts are right, by source and by how sure they are.
 *
 * Counts of guesses and of those that were right, for each class of a source (drafter.h) and for
 * the source on the whole; older ones fade. A sequence has its own, which begin at those of all
 * sequences.
 *
 * Thread: engine thread only. Memory: none.
 */
#ifndef SCHEDULER_DRAFTS_DRAFT_RATES_H
#define SCHEDULER_DRAFTS_DRAFT_RATES_H

#include <stdint.h>

#include "scheduler/drafts/drafter.h"

struct draft_rate {
    uint32_t n, right; /* thousandths */
};

struct draft_rates { /* zero: nothing is known */
    struct draft_rate of[DRAFT_SOURCES][DRAFT_FITS + 1]; /* the last: DRAFT_FIT_ANY */
};

/* Of 1,000 such guesses so many are right, if those before them are. `all`: the counts of all
 * sequences. */
uint32_t draft_rates_permille(const struct draft_rates *own, const struct draft_rates *all,
                              enum draft_source source, uint8_t fit);
/* Of a guess d->n tokens were computed, and n_right were accepted: the one behind them, if it was
 * computed, was wrong, and of those behind that nothing is known. If it was made and not computed,
 * it counts, on the whole, for what its class is worth. Counts in both. */
void draft_rates_note(struct draft_rates *own, struct draft_rates *all, const struct draft *d,
                      uint32_t n_right);

#endif
