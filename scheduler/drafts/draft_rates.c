/* scheduler/drafts/draft_rates.c - see draft_rates.h. */
#include "scheduler/drafts/draft_rates.h"

#define OWN_MEMORY 32   /* guesses of a class that a sequence remembers, about */
#define ALL_MEMORY 512  /* and all sequences together */
#define PRIOR_OWN 4     /* guesses that the rate of all sequences stands for in a sequence's */
#define PRIOR_ALL 8     /* and what is assumed of a class, in that of all */

static uint32_t class_of(uint32_t n_match)
{
    static const uint32_t most[DRAFT_CLASSES - 1] = {2, 3, 5, 9, 17};
    uint32_t i = 0;

    while (i < DRAFT_CLASSES - 1 && n_match > most[i])
        i++;
    return i;
}

/* What is assumed before anything was seen, of 1,000: what SmolLM2 does on edits and stories. */
static uint32_t assumed(enum draft_source source, uint32_t c)
{
    static const uint16_t lookup[DRAFT_CLASSES] = {250, 400, 550, 700, 800, 900};

    return source == DRAFT_GRAMMAR ? 900 : lookup[c];
}

uint32_t draft_rates_permille(const struct draft_rates *own, const struct draft_rates *all,
                              enum draft_source source, uint32_t n_match)
{
    const uint32_t c = class_of(n_match);
    const struct draft_rate a = all->of[source][c], o = own->of[source][c];
    const uint32_t rate = (1000u * a.right + PRIOR_ALL * assumed(source, c)) / (a.n + PRIOR_ALL);

    return (1000u * o.right + PRIOR_OWN * rate) / (o.n + PRIOR_OWN);
}

static void count(struct draft_rate *r, bool is_right, uint32_t memory)
{
    if (r->n >= memory) {
        r->n /= 2;
        r->right /= 2;
    }
    r->n++;
    r->right += is_right;
}

void draft_rates_note(struct draft_rates *own, struct draft_rates *all, const struct draft *d,
                      uint32_t n_right)
{
    for (uint32_t i = 0; i <= n_right && i < d->n; i++) {
        const uint32_t c = class_of(d->n_match + i);

        count(&own->of[d->source][c], i < n_right, OWN_MEMORY);
        count(&all->of[d->source][c], i < n_right, ALL_MEMORY);
    }
}
