/* scheduler/request/prediction.c - see prediction.h.
 *
 * `at` points at the prediction's next token. prediction_take() advances it by one as long as the
 * answer follows the prediction, and otherwise looks the answer's last tokens up in it
 * (token_lookup.h). It is called for every token of the answer, so `accepted` is the same under any
 * load, whether drafts are computed or not.
 */
#include "scheduler/request/prediction.h"

size_t prediction_bytes(uint32_t n)
{
    return n > 0 ? n * sizeof(int32_t) + token_lookup_bytes(n) : 0;
}

void prediction_init(struct prediction *p, void *memory, uint32_t n)
{
    *p = (struct prediction){.ids = memory, .n = n};
    token_lookup_init(&p->lookup, p->ids + n, n);
}

void prediction_begin(struct prediction *p, const int32_t *ids, uint32_t n_prompt,
                      uint32_t n_given)
{
    if (p->n == 0)
        return;
    p->n_right = PREDICTION_FRESH;
    token_lookup_extend(&p->lookup, p->ids, p->n);
    for (uint32_t n = n_prompt + 1; n <= n_given; n++)
        prediction_take(p, ids, n);
}

void prediction_take(struct prediction *p, const int32_t *ids, uint32_t n_known)
{
    struct lookup_match m;

    if (p->n == 0)
        return;
    if (p->at < p->n && p->ids[p->at] == ids[n_known - 1]) {
        p->at++;
        p->n_right++;
        p->accepted += p->accepted < p->n;
        return;
    }
    m = token_lookup_find(&p->lookup, p->ids, ids, n_known);
    p->at = m.n_match > 0 ? m.next : p->n;
    p->n_right = m.n_match;
}
