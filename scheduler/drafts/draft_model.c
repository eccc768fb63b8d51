/* scheduler/drafts/draft_model.c - see draft_model.h.
 *
 * Both kinds of draft models (draft_runner.c, mtp_drafter.c) report each batch here, and the
 * scheduler plans with the sums. Until a batch of guesses was measured, one is assumed to take
 * `weight` times as long as a step with as many rows.
 */
#include "scheduler/drafts/draft_model.h"

#define GAIN 0.1 /* weight of the latest measurement in the running mean */

void draft_model_costs_guessed(struct draft_model_costs *c, uint32_t n, uint64_t us)
{
    draft_costs_observe(&c->guesses, n, us, 0);
    c->guess_us += us;
}

void draft_model_costs_took_in(struct draft_model_costs *c, uint32_t n, uint64_t us)
{
    const double ns = (double)us * 1e3 / n;

    c->take_in_ns += c->take_in_ns > 0 ? GAIN * (ns - c->take_in_ns) : ns;
    c->take_in_us += us;
}

/* Return the nanoseconds of a row of a text. Until one was measured: an eighth of a batch of eight,
 * an upper bound, because rows of a text are computed many at a time. */
static double take_in_ns(const struct draft_model_costs *c, const struct draft_costs *costs)
{
    return c->take_in_ns > 0 ? c->take_in_ns : (double)costs->guess_ns[8] / 8;
}

void draft_model_costs_fill(const struct draft_model_costs *c, struct draft_costs *out)
{
    if (!draft_costs_fill(&c->guesses, out->guess_ns))
        for (uint32_t n = 1; n <= DRAFT_ROWS; n++)
            out->guess_ns[n] = (uint64_t)(c->weight * (double)out->rows_ns[n]);
    out->take_in_ns = (uint64_t)take_in_ns(c, out);
}
