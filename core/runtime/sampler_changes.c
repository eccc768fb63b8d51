/* core/runtime/sampler_changes.c - penalties and banned tokens; see sampler_impl.h.
 *
 * Penalties need a count for each id. Counts of the answer so far come with the output; counts of a
 * window, or of drafts that were right in this very step, are made in counts[n_vocab] and set back
 * to zero token by token as each id is penalised, so that the array is zero for the next call and
 * no id is penalised twice.
 */
#include "core/runtime/sampler_impl.h"

#include <math.h>

/* ---- penalties ---- */

bool sampler_has_penalties(const struct batch_output *o)
{
    const struct sampling *p = o->sampling;

    return o->n_counts > 0 ||
           (p->penalty_last_n > 0 && (p->repetition_penalty != 1.0f ||
                                      p->frequency_penalty != 0.0f ||
                                      p->presence_penalty != 0.0f));
}

static float repeated(const struct sampling *p, float logit)
{
    return logit > 0 ? logit / p->repetition_penalty : logit * p->repetition_penalty;
}

static void penalise(const struct sampling *p, float *x, uint32_t n_generated)
{
    *x = repeated(p, *x);
    if (n_generated > 0)
        *x -= p->frequency_penalty * (float)n_generated + p->presence_penalty;
}

/* Penalise by o->counts. Drafts that turned out right in this step are not in o->counts yet: they
 * are counted here. */
static void penalise_counted(uint32_t *counts, const struct batch_output *o, float *x)
{
    const int32_t *drafts = o->history + (o->pos - o->n_uncounted);

    for (uint32_t i = 0; i < o->n_uncounted; i++)
        counts[drafts[i]]++;
    for (uint32_t i = 0; i < o->n_counts; i++) {
        const struct token_count *c = &o->counts[i];

        penalise(o->sampling, &x[c->id], c->n_generated + counts[c->id]);
        counts[c->id] = 0;
    }
    for (uint32_t i = 0; i < o->n_uncounted; i++) {
        const int32_t id = drafts[i];

        if (counts[id] > 0) /* no entry of o->counts has this id */
            penalise(o->sampling, &x[id], counts[id]);
        counts[id] = 0;
    }
}

/* Penalise by a window of last tokens as llama-server does: prompt and answer count the same. */
static void penalise_window(uint32_t *counts, const struct batch_output *o, float *x)
{
    const struct sampling *p = o->sampling;
    const uint32_t n = p->penalty_last_n < o->pos ? p->penalty_last_n : o->pos;
    const int32_t *last = o->history + (o->pos - n);

    for (uint32_t i = 0; i < n; i++)
        counts[last[i]]++;
    for (uint32_t i = 0; i < n; i++) {
        const int32_t id = last[i];

        if (counts[id] > 0)
            x[id] = repeated(p, x[id]) -
                    (p->frequency_penalty * (float)counts[id] + p->presence_penalty);
        counts[id] = 0;
    }
}

void sampler_penalties(uint32_t *counts, const struct batch_output *o, float *logits)
{
    if (o->sampling->penalty_last_n == 0 && o->n_counts > 0)
        penalise_counted(counts, o, logits);
    else if (sampler_has_penalties(o))
        penalise_window(counts, o, logits);
}

/* ---- bans ---- */

static void keep_allowed(const uint32_t *allowed, float *x, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (!(allowed[i >> 5] >> (i & 31) & 1))
            x[i] = -INFINITY;
}

/* True: the text ends with all of the word's n ids but the last. */
static bool would_end(const struct batch_output *o, const int32_t *word, uint32_t n)
{
    if (o->pos < n - 1)
        return false;
    for (uint32_t i = 0; i + 1 < n; i++)
        if (o->history[o->pos - (n - 1) + i] != word[i])
            return false;
    return true;
}

void sampler_bans(const struct batch_output *o, float *logits, uint32_t n_vocab)
{
    const int32_t *at = o->sampling->bad_words;

    if (o->sampling->allowed != NULL)
        keep_allowed(o->sampling->allowed, logits, n_vocab);
    while (at != NULL && *at > 0) {
        const uint32_t n = (uint32_t)*at++;

        if (would_end(o, at, n))
            logits[at[n - 1]] = -INFINITY;
        at += n;
    }
}
