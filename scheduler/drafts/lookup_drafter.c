/* scheduler/drafts/lookup_drafter.c - see lookup_drafter.h.
 *
 * Matches are compared by length, and the prediction wins a tie. The place in the own text is kept
 * as a distance from the end (lookup_distance), so that it advances as the text grows. A guess from
 * own text may copy beyond the last known token: it then reads the tokens just guessed, which
 * repeats a loop.
 */
#include "scheduler/drafts/lookup_drafter.h"

#include "scheduler/request/request.h"

/* Find the best match in the request's own text: the place of the last guess, advanced, or another
 * one that matches longer. */
static struct lookup_match find_own(struct request *r, uint32_t n_known)
{
    struct token_lookup *l = &r->lookup;
    struct lookup_match same = {0}, best;

    if (l->max == 0)
        return same;
    token_lookup_extend(l, r->ids, n_known - 1); /* the last pair would find itself */
    best = token_lookup_find(l, r->ids, r->ids, n_known);
    if (r->lookup_distance > 0 && r->lookup_distance < n_known)
        same = token_lookup_match(r->ids, n_known - r->lookup_distance, r->ids, n_known);
    if (same.n_match >= 2 && same.n_match >= best.n_match)
        best = same;
    r->lookup_distance = best.n_match > 0 ? n_known - best.next : 0;
    return best;
}

static struct lookup_match in_prediction(const struct prediction *p)
{
    return p->at < p->n ? (struct lookup_match){p->at, p->n_right} : (struct lookup_match){0};
}

struct lookup_guess lookup_drafter_find(struct request *r, uint32_t n_known, uint32_t n_guessed)
{
    const struct prediction *p = &r->prediction;
    const uint32_t n = n_known + n_guessed;
    struct lookup_match own, said;

    own = n_guessed == 0 ? find_own(r, n) : token_lookup_find(&r->lookup, r->ids, r->ids, n);
    said = n_guessed == 0 ? in_prediction(p) : token_lookup_find(&p->lookup, p->ids, r->ids, n);
    if (said.n_match > 0 && said.n_match >= own.n_match && said.next < p->n)
        return (struct lookup_guess){p->ids + said.next, p->n - said.next, DRAFT_PREDICTION,
                                     said.n_match};
    if (own.n_match == 0)
        return (struct lookup_guess){0};
    return (struct lookup_guess){r->ids + own.next, UINT32_MAX, DRAFT_LOOKUP, own.n_match};
}

struct draft lookup_drafter_take(struct request *r, uint32_t n_known, uint32_t most,
                                 const struct lookup_guess *guess)
{
    const uint32_t n = guess->n < most ? guess->n : most;

    for (uint32_t i = 0; i < n; i++)
        r->ids[n_known + i] = guess->ids[i]; /* ids may extend into the guess, which then repeats */
    return draft_behind_match(n, guess->source, guess->n_match);
}
