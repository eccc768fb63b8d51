/* scheduler/drafts/draft_model.c - see draft_model.h. */
#include "scheduler/drafts/draft_model.h"

#include "scheduler/request.h"
#include "scheduler/scheduler.h"

#define LEAST_LOGPROB (-2.3f) /* a guess ends where its tokens together are less likely: a tenth */
#define GAIN 0.1 /* of what the latest rows of a text took, in what they are expected to take */

/* ---- guesses ---- */

struct sampling draft_model_sampling(const struct request *r)
{
    struct sampling s = r->sampling;

    s.n_top = 0;
    s.mirostat_tau = 0;
    s.wants_shares = false;
    return s;
}

void draft_stream_begin(struct draft_stream *s, enum draft_source source)
{
    s->draft = (struct draft){.source = source};
    s->logprob = 0;
}

bool draft_stream_wants(const struct draft_stream *s, uint32_t n)
{
    return s->draft.n + 1 == n && n <= s->most && s->logprob >= LEAST_LOGPROB;
}

void draft_stream_end(struct draft_stream *s)
{
    s->logprob = 2 * LEAST_LOGPROB;
}

void draft_stream_take(struct draft_stream *s, int32_t token, float logprob, const int32_t *eog,
                       size_t n_eog)
{
    struct request *r = s->item->request;

    if (draft_before_end(&token, 1, eog, n_eog) == 0 ||
        draft_before_end(&token, 1, r->stop_ids, r->n_stop_ids) == 0) {
        draft_stream_end(s);
        return;
    }
    s->logprob += logprob;
    r->ids[s->n_known + s->draft.n] = token;
    s->draft.fit[s->draft.n++] = draft_fit_of_logprob(logprob);
    s->draft.n_made = s->draft.n;
}

/* ---- costs ---- */

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

/* Rows of a text are computed many at a time, and cost at most what a row among eight does. */
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
