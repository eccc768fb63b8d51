/* core/runtime/sampler_picks.c - cuts that need the shares of the likeliest tokens; see
 * sampler_impl.h.
 *
 * Sources: Meister et al., "Locally typical sampling", TACL 2023; Basu et al., "Mirostat", ICLR
 * 2021 (its second version, which needs no estimate of the distribution's shape). XTC leaves out,
 * now and then, all but the least likely of the tokens that are likely enough.
 */
#include "core/runtime/sampler_impl.h"

#include "core/runtime/random.h"

#include <math.h>

#define LN_2 0.69314718055994530942

static double sum_of(const struct pick *picks, uint32_t n)
{
    double sum = 0;

    for (uint32_t i = 0; i < n; i++)
        sum += (double)picks[i].p;
    return sum;
}

/* ---- typical ---- */

/* Shell sort by p, ascending; equal ones stay in their order of id, so that there is one order. */
static void sort(struct pick *x, uint32_t n)
{
    static const uint32_t gaps[] = {301, 132, 57, 23, 10, 4, 1};

    for (size_t g = 0; g < sizeof(gaps) / sizeof(gaps[0]); g++)
        for (uint32_t i = gaps[g]; i < n; i++) {
            const struct pick it = x[i];
            uint32_t j = i;

            for (; j >= gaps[g] && (x[j - gaps[g]].p > it.p ||
                                    (x[j - gaps[g]].p == it.p && x[j - gaps[g]].id > it.id));
                 j -= gaps[g])
                x[j] = x[j - gaps[g]];
            x[j] = it;
        }
}

/* Keep the tokens whose surprise is nearest to the mean surprise, until they have `share` of all.
 * The second half of picks[] ranks them: id is an index, p how far it is from the mean. */
uint32_t sampler_cut_typical(struct pick *picks, uint32_t n, float share, uint32_t min_keep)
{
    struct pick *const rank = picks + n;
    double mean = 0, sum = 0;
    uint32_t kept = 0, left = 0;

    for (uint32_t i = 0; i < n; i++)
        if (picks[i].p > 0)
            mean -= (double)picks[i].p * kern_log((double)picks[i].p);
    for (uint32_t i = 0; i < n; i++) {
        const double surprise = picks[i].p > 0 ? -kern_log((double)picks[i].p) : 1e9;

        rank[i] = (struct pick){(int32_t)i, (float)fabs(surprise - mean)};
    }
    sort(rank, n);
    while (kept < n && (kept == 0 || kept < min_keep || sum < (double)share))
        sum += (double)picks[rank[kept++].id].p;
    for (uint32_t i = kept; i < n; i++)
        picks[rank[i].id].p = -1;
    for (uint32_t i = 0; i < n; i++)
        if (picks[i].p >= 0)
            picks[left++] = picks[i];
    return left;
}

/* ---- XTC ---- */

/* Of the tokens that have at least the threshold all go but the last; a single one stays. */
uint32_t sampler_cut_xtc(struct pick *picks, uint32_t n, float threshold, uint32_t min_keep)
{
    uint32_t n_likely = 0;

    while (n_likely < n && picks[n_likely].p >= threshold)
        n_likely++;
    if (n_likely < 2 || n - (n_likely - 1) < min_keep)
        return n;
    for (uint32_t i = n_likely - 1; i < n; i++)
        picks[i - (n_likely - 1)] = picks[i];
    return n - (n_likely - 1);
}

/* ---- the draw ---- */

uint32_t sampler_draw_one(const struct pick *picks, uint32_t n, double u)
{
    double at = u * sum_of(picks, n);
    uint32_t i = 0;

    while (i + 1 < n && at >= (double)picks[i].p)
        at -= (double)picks[i++].p;
    return i;
}

/* Leave out what would surprise by more than mu bits; then move mu towards the wanted surprise. */
static int32_t draw_mirostat(const struct pick *picks, uint32_t n, const struct batch_output *o,
                             double u)
{
    const struct sampling *p = o->sampling;
    uint32_t kept = 1, i;
    double bits;

    while (kept < n && picks[kept].p > 0 &&
           -kern_log((double)picks[kept].p) / LN_2 <= (double)*o->mirostat_mu)
        kept++;
    i = sampler_draw_one(picks, kept, u);
    bits = -kern_log((double)picks[i].p / sum_of(picks, kept)) / LN_2;
    *o->mirostat_mu -= p->mirostat_eta * ((float)bits - p->mirostat_tau);
    return picks[i].id;
}

int32_t sampler_draw_picks(struct pick *picks, uint32_t n, const struct batch_output *o, double u)
{
    const struct sampling *p = o->sampling;

    if (p->mirostat_tau > 0.0f)
        return draw_mirostat(picks, n, o, u);
    if (sampler_is_typical(p))
        n = sampler_cut_typical(picks, n, p->typical_p, 0);
    if (p->xtc_probability > 0.0f &&
        random_uniform_second(p->seed, o->n_discarded + o->pos) < (double)p->xtc_probability) {
        const float all = (float)sum_of(picks, n);

        n = sampler_cut_xtc(picks, n, p->xtc_threshold * all, 0);
    }
    return picks[sampler_draw_one(picks, n, u)].id;
}
