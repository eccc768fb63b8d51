/* scheduler/engine_drafter.c - see engine_drafter.h. */
#include "scheduler/engine_drafter.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "scheduler/grammar_drafter.h"
#include "scheduler/injected_drafter.h"
#include "scheduler/lookup_drafter.h"
#include "scheduler/request.h"

#define SURE_MATCH 8 /* tokens: such a look-up is as likely as a grammar's way, and longer */

struct engine_drafter {
    const int32_t *eog;
    size_t n_eog;
    struct grammar_drafter *grammar;
    struct injected_drafter injected;
};

int engine_drafter_create(struct engine_drafter **out, const int32_t *eog, size_t n_eog)
{
    struct engine_drafter *d = mem_calloc(1, sizeof(*d));

    *out = NULL;
    if (d == NULL)
        return ERR_NOMEM;
    d->eog = eog;
    d->n_eog = n_eog;
    injected_drafter_init(&d->injected);
    if (grammar_drafter_create(&d->grammar) < 0) {
        engine_drafter_destroy(&d);
        return ERR_NOMEM;
    }
    *out = d;
    return 0;
}

void engine_drafter_destroy(struct engine_drafter **d)
{
    if (d == NULL || *d == NULL)
        return;
    grammar_drafter_destroy(&(*d)->grammar);
    mem_free(*d);
    *d = NULL;
}

static struct draft guess(struct engine_drafter *d, struct request *r, uint32_t n_known,
                          uint32_t most)
{
    const struct lookup_guess found = lookup_drafter_find(r, n_known);
    struct draft forced = {0};

    if (r->constraint != NULL && found.n_match < SURE_MATCH)
        forced = grammar_drafter_propose(d->grammar, r, n_known, most);
    return forced.n > 0 ? forced : lookup_drafter_take(r, n_known, most, &found);
}

static struct draft propose(void *ud, struct request *r, uint32_t n_known, uint32_t most)
{
    struct engine_drafter *d = ud;
    struct draft draft = injected_drafter_propose(&d->injected, r, n_known, most);

    if (draft.n == 0)
        draft = guess(d, r, n_known, most);
    draft.n = draft_before_end(r->ids + n_known, draft.n, d->eog, d->n_eog);
    draft.n = draft_before_end(r->ids + n_known, draft.n, r->stop_ids, r->n_stop_ids);
    return draft;
}

struct drafter engine_drafter_get(struct engine_drafter *d)
{
    return (struct drafter){.ud = d, .propose = propose, .takes_all = d->injected.takes_all};
}
