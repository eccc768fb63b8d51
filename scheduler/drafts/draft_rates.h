/* scheduler/drafts/draft_rates.h - the probability that drafts are right, by source and class of
 * certainty.
 *
 * Guesses and right guesses are counted for each class of a source (drafter.h) and for the source
 * as a whole; older ones fade. Each sequence has its own counts, which start from the rates of all
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
    struct draft_rate of[DRAFT_SOURCES][DRAFT_FITS + 1]; /* the last class is DRAFT_FIT_ANY */
};

/* Return how many of 1,000 guesses of a source and class are expected to be right, if those before
 * them are. own: counts of the sequence; all: counts of all sequences. */
uint32_t draft_rates_permille(const struct draft_rates *own, const struct draft_rates *all,
                              enum draft_source source, uint8_t fit);
/* Count a guess in `own` and `all`: d->n of its tokens were computed, and n_right of these
 * accepted. The token after the accepted ones, if computed, was wrong; of later ones nothing is
 * known. A token that was guessed but not computed counts for DRAFT_FIT_ANY with the rate of its
 * class. */
void draft_rates_note(struct draft_rates *own, struct draft_rates *all, const struct draft *d,
                      uint32_t n_right);

#endif
