/* scheduler/drafts/draft_rates.c - see draft_rates.h.
 *
 * A rate is a Bayesian mean: counts of guesses start from a prior, the counts of a sequence from
 * the rate of all sequences, and the latter from assumed(). When a count reaches its memory,
 * count_outcome() halves it, so older guesses fade without a clock. Integers only, because the
 * rates decide plans, which a replay must repeat exactly.
 */
#include "scheduler/drafts/draft_rates.h"

#define OWN_MEMORY 32   /* guesses of a class before a sequence's counts are halved */
#define ALL_MEMORY 512  /* guesses of a class before the counts of all sequences are halved */
#define PRIOR_OWN 4     /* weight, in guesses, of the rate of all sequences in that of one */
#define PRIOR_ALL 8     /* the weight of the assumed rate in the rate of all sequences */

/* Rate, of 1,000, that is assumed before a guess was counted: measured with SmolLM2 on edits and
 * stories, and with a smaller draft model. */
static uint32_t assumed(enum draft_source source, uint8_t fit)
{
    static const uint16_t text[DRAFT_FITS + 1] = {250, 400, 550, 700, 800, 900, 500};
    static const uint16_t model[DRAFT_FITS + 1] = {250, 400, 600, 750, 850, 950, 700};

    if (source == DRAFT_GRAMMAR)
        return 900;
    return source == DRAFT_MODEL || source == DRAFT_MTP ? model[fit] : text[fit];
}

#define ONE 1000 /* one guess in the counts */

uint32_t draft_rates_permille(const struct draft_rates *own, const struct draft_rates *all,
                              enum draft_source source, uint8_t fit)
{
    const struct draft_rate a = all->of[source][fit], o = own->of[source][fit];
    const uint32_t rate =
        ONE * (a.right + PRIOR_ALL * assumed(source, fit)) / (a.n + PRIOR_ALL * ONE);

    return ONE * (o.right + PRIOR_OWN * rate) / (o.n + PRIOR_OWN * ONE);
}

/* Count a guess that was right with probability `right` / ONE. */
static void count_outcome(struct draft_rate *r, uint32_t right, uint32_t memory)
{
    if (r->n >= memory * ONE) {
        r->n /= 2;
        r->right /= 2;
    }
    r->n += ONE;
    r->right += right;
}

static void count_both(struct draft_rates *own, struct draft_rates *all, enum draft_source source,
                       uint8_t fit, uint32_t right)
{
    count_outcome(&own->of[source][fit], right, OWN_MEMORY);
    count_outcome(&all->of[source][fit], right, ALL_MEMORY);
}

void draft_rates_note(struct draft_rates *own, struct draft_rates *all, const struct draft *d,
                      uint32_t n_right)
{
    for (uint32_t i = 0; i <= n_right && i < d->n_made; i++) {
        uint32_t right = i < n_right ? ONE : 0;

        if (i < d->n)
            count_both(own, all, d->source[i], d->fit[i], right);
        else
            right = draft_rates_permille(own, all, d->source[i], d->fit[i]);
        count_both(own, all, d->source[i], DRAFT_FIT_ANY, right);
    }
}
