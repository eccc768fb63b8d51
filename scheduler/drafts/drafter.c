/* scheduler/drafts/drafter.c - see drafter.h.
 *
 * Pure functions on struct draft. Guesses of one source are sorted into DRAFT_FITS classes, by the
 * length of the match before them or by the draft model's log-probability, because draft_rates.c
 * counts right guesses by class: the thresholds here put guesses together that are right about as
 * often.
 */
#include "scheduler/drafts/drafter.h"

#include <assert.h>

static bool source_is_among(int32_t id, const int32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (ids[i] == id)
            return true;
    return false;
}

uint32_t draft_before_end(const int32_t *ids, uint32_t n, const int32_t *ends, size_t n_ends)
{
    uint32_t i = 0;

    while (i < n && !source_is_among(ids[i], ends, n_ends))
        i++;
    return i;
}

uint8_t draft_fit_of_match(uint32_t n_match)
{
    static const uint32_t most[DRAFT_FITS - 1] = {2, 3, 5, 9, 17}; /* tokens */
    uint8_t i = 0;

    while (i < DRAFT_FITS - 1 && n_match > most[i])
        i++;
    return i;
}

void draft_add(struct draft *d, enum draft_source source, uint8_t fit)
{
    assert(d->n < DRAFT_MAX);
    d->source[d->n] = (uint8_t)source;
    d->fit[d->n] = fit;
    d->n_made = ++d->n;
}

struct draft draft_behind_match(uint32_t n, enum draft_source source, uint32_t n_match)
{
    struct draft d = {0};

    for (uint32_t i = 0; i < n; i++)
        draft_add(&d, source, draft_fit_of_match(n_match + i));
    return d;
}

uint8_t draft_fit_of_logprob(float logprob)
{
    /* natural logarithms of the probabilities 0.3, 0.5, 0.7, 0.85 and 0.95 */
    static const float least[DRAFT_FITS - 1] = {-1.204f, -0.693f, -0.357f, -0.163f, -0.051f};
    uint8_t i = 0;

    while (i < DRAFT_FITS - 1 && logprob >= least[i])
        i++;
    return i;
}

void draft_cut(struct draft *d, uint32_t n)
{
    d->n = d->n < n ? d->n : n;
}

const char *draft_source_name(enum draft_source s)
{
    static const char *const names[DRAFT_SOURCES] = {
        [DRAFT_LOOKUP] = "lookup",
        [DRAFT_PREDICTION] = "prediction",
        [DRAFT_GRAMMAR] = "grammar",
        [DRAFT_HISTORY] = "history",
        [DRAFT_MODEL] = "draft_model",
        [DRAFT_MTP] = "mtp",
        [DRAFT_INJECTED] = "injected",
    };

    return names[s];
}
