/* scheduler/replay/recorded_drafter.c - see recorded_drafter.h.
 *
 * The scheduler of a replay asks propose() for each item in the order of the plan, so one cursor
 * over the recorded drafts suffices: a draft is proposed if it belongs to that request, and
 * otherwise none. takes_all makes the scheduler compute every draft, as the recorded plan did.
 */
#include "scheduler/replay/recorded_drafter.h"

#include "scheduler/request/request.h"

#include <string.h>

/* Propose the recorded draft. Recorded drafts contain no token that ends the generation; in an
 * edited journal they are cut there. */
static struct draft propose(void *ud, struct request *r, uint32_t n_known, uint32_t most)
{
    struct recorded_drafter *d = ud;
    const struct recorded_draft *draft = d->next < d->n ? &d->drafts[d->next] : NULL;
    uint32_t n;

    if (draft == NULL || draft->request != r->id || draft->n > most)
        return (struct draft){0};
    d->next++;
    n = draft_before_end(draft->ids, draft->n, d->eog, d->n_eog);
    n = draft_before_end(draft->ids, n, r->stop_ids, r->n_stop_ids);
    memcpy(r->ids + n_known, draft->ids, n * sizeof(*draft->ids));
    return draft_behind_match(n, DRAFT_INJECTED, 0);
}

struct drafter recorded_drafter_get(struct recorded_drafter *d)
{
    return (struct drafter){.ud = d, .propose = propose, .takes_all = true};
}
