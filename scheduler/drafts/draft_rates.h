/* scheduler/drafts/draft_rates.h - how likely drafts are right, by source and by how well the text
 * before them fits.
 *
 * Counts of guesses and of those that were right, for classes of matches of similar length; older
 * ones fade. A sequence has its own, which begin at those of all sequences. Whoever has guessed j
 * tokens right in a row has a match longer by j: so the rates of the later drafts of a run are
 * those of longer matches.
 *
 * Thread: engine thread only. Memory: none.
 */
#ifndef SCHEDULER_DRAFTS_DRAFT_RATES_H
#define SCHEDULER_DRAFTS_DRAFT_RATES_H

#include <stdint.h>

#include "scheduler/drafts/drafter.h"

#define DRAFT_CLASSES 6 /* matches of 1-2, 3, 4-5, 6-9, 10-17, 18 and more tokens */

struct draft_rate {
    uint16_t n, right;
};

struct draft_rates { /* zero: nothing is known */
    struct draft_rate of[DRAFT_SOURCES][DRAFT_CLASSES];
};

/* Of 1,000 such guesses, behind a match of n_match tokens, so many are right. `all`: the counts of
 * all sequences. */
uint32_t draft_rates_permille(const struct draft_rates *own, const struct draft_rates *all,
                              enum draft_source source, uint32_t n_match);
/* A draft of d->n tokens was computed, and n_right were accepted: the one behind them, if there was
 * one, was wrong, and of those behind that nothing is known. Counts in both. */
void draft_rates_note(struct draft_rates *own, struct draft_rates *all, const struct draft *d,
                      uint32_t n_right);

#endif
