/* scheduler/grammar_drafter.c - see grammar_drafter.h. */
#include "scheduler/grammar_drafter.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/grammar/constraint.h"
#include "scheduler/request.h"

struct grammar_drafter {
    struct constraint_scratch *walk;
};

int grammar_drafter_create(struct grammar_drafter **out)
{
    struct grammar_drafter *d = mem_calloc(1, sizeof(*d));

    *out = NULL;
    if (d == NULL || constraint_scratch_create(&d->walk) < 0) {
        mem_free(d);
        return ERR_NOMEM;
    }
    *out = d;
    return 0;
}

void grammar_drafter_destroy(struct grammar_drafter **d)
{
    if (d == NULL || *d == NULL)
        return;
    constraint_scratch_destroy(&(*d)->walk);
    mem_free(*d);
    *d = NULL;
}

struct draft grammar_drafter_propose(struct grammar_drafter *d, struct request *r, uint32_t n_known,
                                     uint32_t most)
{
    uint32_t n = 0;

    if (r->constraint != NULL && !thought_is_open(&r->thought))
        n = constraint_forced(r->constraint, d->walk, r->ids + n_known, most);
    return draft_behind_match(n, DRAFT_GRAMMAR, 0);
}
