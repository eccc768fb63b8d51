/* scheduler/drafts/engine_drafter.c - see engine_drafter.h.
 *
 * sched_plan() calls propose() for each decoding sequence. Injected guesses (debug builds) come
 * first; a request with a constraint goes to the grammar drafter, which calls find_guess() back for
 * texts to look up; all others take what find_guess() returns. find_guess() compares three places
 * by the number of matching tokens: the request's own text, its prediction, and the kept answers,
 * which it searches only while the first two could be beaten. Finally the guess is cut before the
 * first token that would end the generation.
 */
#include "scheduler/drafts/engine_drafter.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "scheduler/request/history_lookup.h"
#include "scheduler/drafts/grammar_drafter.h"
#include "scheduler/drafts/injected_drafter.h"
#include "scheduler/drafts/lookup_drafter.h"
#include "scheduler/request/request.h"

#define PROMPT_KEPT 16 /* tokens of the prompt's end that are kept with an answer, so that its
                        * beginning is found too */

struct engine_drafter {
    const int32_t *eog;
    size_t n_eog;
    struct grammar_drafter *grammar;
    struct history_lookup *history; /* or NULL */
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
    history_lookup_destroy(&(*d)->history);
    mem_free(*d);
    *d = NULL;
}

int engine_drafter_keep_answers(struct engine_drafter *d, uint32_t max_tokens)
{
    return history_lookup_create(&d->history, max_tokens);
}

void engine_drafter_note_end(struct engine_drafter *d, const struct request *r, uint32_t n_known)
{
    const uint32_t from = r->n_prompt > PROMPT_KEPT ? r->n_prompt - PROMPT_KEPT : 0;

    if (d->history != NULL && r->drafts && n_known > request_n_given(r))
        history_lookup_enter(d->history, r->ids + from, n_known - from, r->key.salt);
}

/* True: the request's own text or prediction matches so well that earlier answers are not searched.
 * A prediction is made for this answer, and is preferred while the answer follows it. */
static bool is_best(const struct lookup_guess *own)
{
    return own->n_match >=
           (own->source == DRAFT_PREDICTION ? PREDICTION_FRESH : LOOKUP_MAX_MATCH);
}

/* Find a guess in the text with the longest match: own text, prediction or an earlier answer. */
static struct lookup_guess find_guess(void *ud, struct request *r, uint32_t n_known,
                                      uint32_t n_guessed)
{
    const struct engine_drafter *d = ud;
    const struct lookup_guess own = lookup_drafter_find(r, n_known, n_guessed);
    struct history_place elsewhere = {0}, *place = n_guessed == 0 ? &r->history : &elsewhere;
    struct history_match m;

    if (d->history == NULL || is_best(&own))
        return own;
    m = history_lookup_find(d->history, r->ids, n_known + n_guessed, r->key.salt, place);
    if (m.n_match <= own.n_match)
        return own;
    return (struct lookup_guess){m.ids, m.n, DRAFT_HISTORY, m.n_match};
}

static struct draft guess(struct engine_drafter *d, struct request *r, uint32_t n_known,
                          uint32_t most)
{
    const struct lookup lookup = {d, find_guess};
    struct lookup_guess found;

    if (grammar_drafter_is_for(r))
        return grammar_drafter_propose(d->grammar, &lookup, r, n_known, most);
    found = find_guess(d, r, n_known, 0);
    return lookup_drafter_take(r, n_known, most, &found);
}

static struct draft propose(void *ud, struct request *r, uint32_t n_known, uint32_t most)
{
    struct engine_drafter *d = ud;
    struct draft draft = injected_drafter_propose(&d->injected, r, n_known, most);

    if (draft.n == 0)
        draft = guess(d, r, n_known, most);
    draft.n = draft_before_end(r->ids + n_known, draft.n, d->eog, d->n_eog);
    draft.n = draft_before_end(r->ids + n_known, draft.n, r->stop_ids, r->n_stop_ids);
    draft.n_made = draft.n;
    return draft;
}

struct drafter engine_drafter_get(struct engine_drafter *d)
{
    return (struct drafter){.ud = d, .propose = propose, .takes_all = d->injected.takes_all};
}
