/* scheduler/drafts/grammar_drafter.c - see grammar_drafter.h.
 *
 * `state` is a copy of the request's constraint that is ahead of it by the guessed tokens; the
 * request's own constraint is never changed. Two sources alternate: looked-up tokens as long as the
 * copy accepts them, then the bytes that the grammar forces, spelled by the longest tokens. Every
 * step through the constraint counts as work, and MAX_WORK ends a guess, because a large grammar
 * can cost more than the step that it saves.
 */
#include "scheduler/drafts/grammar_drafter.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/grammar/constraint.h"
#include "scheduler/request/request.h"

#include <string.h>

#define FIT_SPELLED (DRAFT_FITS - 1) /* class of a forced token that the model has spelled in this
                                      * way before */
#define MAX_WORK 20000 /* steps through the constraint, after which a guess ends */

struct grammar_drafter {
    struct constraint_scratch *scratch;
    struct constraint_state *state;    /* the constraint after the tokens guessed so far */
    uint8_t forced[CONSTRAINT_FORCED]; /* forced bytes that follow: [at .. n_forced) are left */
    uint32_t at, n_forced;
    uint32_t work; /* steps through the constraint for this guess */
    bool is_over;  /* no token can follow, or the guess became too expensive */
};

/* A guess while it is made. */
struct guess {
    struct request *r;
    uint32_t n_known, most;
    struct draft draft;
};

int grammar_drafter_create(struct grammar_drafter **out)
{
    struct grammar_drafter *d = mem_calloc(1, sizeof(*d));

    *out = NULL;
    if (d == NULL)
        return ERR_NOMEM;
    d->state = mem_calloc(1, constraint_state_bytes());
    if (d->state == NULL || constraint_scratch_create(&d->scratch) < 0) {
        grammar_drafter_destroy(&d);
        return ERR_NOMEM;
    }
    *out = d;
    return 0;
}

void grammar_drafter_destroy(struct grammar_drafter **d)
{
    if (d == NULL || *d == NULL)
        return;
    constraint_scratch_destroy(&(*d)->scratch);
    mem_free((*d)->state);
    mem_free(*d);
    *d = NULL;
}

bool grammar_drafter_is_for(const struct request *r)
{
    return r->constraint != NULL && !thought_is_open(&r->thought);
}

/* ---- the constraint ahead of the request ---- */

static void spend(struct grammar_drafter *d)
{
    d->work += constraint_work(d->scratch);
    d->is_over = d->is_over || d->work > MAX_WORK;
}

static void look_ahead(struct grammar_drafter *d)
{
    d->at = 0;
    d->n_forced = constraint_forced(d->state, d->scratch, d->forced);
    spend(d);
}

static void begin_grammar_draft(struct grammar_drafter *d, const struct request *r)
{
    memcpy(d->state, r->constraint, constraint_state_bytes());
    d->is_over = false;
    d->work = 0;
    look_ahead(d);
}

/* True: the token begins with the forced bytes, or spells a part of them. False where no bytes are
 * forced. */
static bool is_forced(const struct grammar_drafter *d, int32_t id)
{
    const uint32_t left = d->n_forced - d->at;
    uint32_t n = 0;
    const char *text = constraint_text(d->state, id, &n);

    return text != NULL && left > 0 && memcmp(text, d->forced + d->at, n < left ? n : left) == 0;
}

/* Advance the copied constraint by a token; false: the token is not allowed. */
static bool advance_grammar_draft(struct grammar_drafter *d, int32_t id)
{
    const bool was_forced = is_forced(d, id);
    uint32_t n = 0;
    enum constraint_status status;

    (void)constraint_text(d->state, id, &n);
    status = constraint_take(d->state, d->scratch, id);
    d->is_over = status == CONSTRAINT_DONE;
    spend(d);
    if (status == CONSTRAINT_BROKEN)
        return false;
    d->at += n;
    if (!d->is_over && (!was_forced || d->at >= d->n_forced))
        look_ahead(d);
    return true;
}

/* ---- guesses ---- */

/* Add the look-up's tokens, as long as the constraint allows them. */
static void add_looked_up(struct grammar_drafter *d, struct guess *g, const struct lookup *lookup)
{
    int32_t *ids = g->r->ids + g->n_known + g->draft.n;
    const struct lookup_guess found = lookup->find(lookup->ud, g->r, g->n_known, g->draft.n);

    for (uint32_t i = 0; i < found.n && g->draft.n < g->most && !d->is_over; i++) {
        const int32_t id = found.ids[i]; /* a match in the own text may continue into the guess
                                          * itself, which then repeats */
        const bool forced = is_forced(d, id);

        if (!advance_grammar_draft(d, id))
            return;
        ids[i] = id;
        if (forced)
            draft_add(&g->draft, DRAFT_GRAMMAR, FIT_SPELLED);
        else
            draft_add(&g->draft, found.source, draft_fit_of_match(found.n_match + i));
    }
}

/* Add the forced bytes, spelled by the longest tokens. */
static void add_forced(struct grammar_drafter *d, struct guess *g)
{
    int32_t ids[DRAFT_MAX];
    const uint32_t n = constraint_spell(d->state, d->forced + d->at, d->n_forced - d->at, ids,
                                        g->most - g->draft.n);

    for (uint32_t i = 0; i < n && !d->is_over && advance_grammar_draft(d, ids[i]); i++) {
        g->r->ids[g->n_known + g->draft.n] = ids[i];
        draft_add(&g->draft, DRAFT_GRAMMAR, i < FIT_SPELLED ? (uint8_t)i : FIT_SPELLED - 1);
    }
}

struct draft grammar_drafter_propose(struct grammar_drafter *d, const struct lookup *lookup,
                                     struct request *r, uint32_t n_known, uint32_t most)
{
    struct guess g = {r, n_known, most, {0}};
    uint32_t before;

    begin_grammar_draft(d, r);
    do {
        before = g.draft.n;
        add_looked_up(d, &g, lookup);
        if (g.draft.n < most && !d->is_over)
            add_forced(d, &g);
    } while (g.draft.n > before && g.draft.n < most && !d->is_over);
    return g.draft;
}
