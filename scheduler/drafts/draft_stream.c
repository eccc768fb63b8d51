/* scheduler/drafts/draft_stream.c - see draft_stream.h.
 *
 * draft_runner and mtp_drafter call these for each token that their model chose. A guess is written
 * into the request's ids after the known tokens, where the next batch reads it as input. The
 * guesses of a stream end when their summed log-probability falls below LEAST_LOGPROB;
 * draft_stream_end() sets the sum below it, so that one comparison in draft_stream_wants() serves
 * all ends.
 */
#include "scheduler/drafts/draft_stream.h"

#include "scheduler/request/plan_item.h"
#include "scheduler/request/request.h"

#define LEAST_LOGPROB (-2.3f) /* guesses end where together they are less likely than a tenth */

struct sampling draft_stream_sampling(const struct request *r)
{
    struct sampling s = r->sampling;

    s.n_top = 0;
    s.n_top_ids = 0;
    s.mirostat_tau = 0;
    s.wants_shares = false;
    return s;
}

void draft_stream_begin(struct draft_stream *s, enum draft_source source)
{
    s->draft = (struct draft){0};
    s->source = source;
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
    draft_add(&s->draft, s->source, draft_fit_of_logprob(logprob));
}
