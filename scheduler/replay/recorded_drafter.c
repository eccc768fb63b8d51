/* scheduler/replay/recorded_drafter.c - see recorded_drafter.h. */
#include "scheduler/replay/recorded_drafter.h"

#include "scheduler/request.h"

#include <string.h>

/* What would end the generation was in no guess: of an edited journal it is cut. */
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
