/* core/runtime/sampler_dry.c - DRY; see sampler_impl.h.
 *
 * Every earlier position of the history is compared backwards with the end of the text; the token
 * that followed the longest equal run gets the penalty of that length. repeats[] holds the longest
 * run for each token and is cleared token by token in the second pass, so a call costs as much as
 * the window that it looks at, not the vocabulary.
 */
#include "core/runtime/sampler_impl.h"

#define MOST 1e30f /* largest penalty, so that it stays finite */

static bool is_breaker(const struct sampling *p, int32_t id)
{
    return p->dry_breakers != NULL && (p->dry_breakers[id >> 5] >> (id & 31) & 1);
}

/* Return the number of tokens before h[end] that equal the tokens before the text's end at h[n], up
 * to a breaker. */
static uint32_t run_before(const struct sampling *p, const int32_t *h, uint32_t end, uint32_t n)
{
    uint32_t k = 0;

    while (k < SAMPLER_MAX_REPEAT && k < end && h[end - 1 - k] == h[n - 1 - k] &&
           !is_breaker(p, h[n - 1 - k]))
        k++;
    return k;
}

static float penalty(const struct sampling *p, uint32_t length)
{
    float x = p->dry_multiplier;

    for (uint32_t i = p->dry_allowed_length; i < length && x < MOST; i++)
        x *= p->dry_base;
    return x < MOST ? x : MOST;
}

void sampler_dry(uint32_t *repeats, const struct batch_output *o, float *logits)
{
    const struct sampling *p = o->sampling;
    const uint32_t seen = p->dry_last_n < o->pos ? p->dry_last_n : o->pos;
    const int32_t *h = o->history + (o->pos - seen);

    for (uint32_t end = 1; end < seen; end++) { /* h[end] follows such a run */
        const uint32_t length = run_before(p, h, end, seen);

        if (length >= p->dry_allowed_length && length > repeats[h[end]])
            repeats[h[end]] = length;
    }
    for (uint32_t end = 1; end < seen; end++) {
        if (repeats[h[end]] > 0 && !is_breaker(p, h[end]))
            logits[h[end]] -= penalty(p, repeats[h[end]]);
        repeats[h[end]] = 0;
    }
}
