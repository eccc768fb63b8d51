/* core/runtime/sampler_chain.c - cuts and temperature in the order of the request; see
 * sampler_impl.h.
 *
 * Each stage leaves fewer tokens, or other shares, to the next one. Until the first cut shares are
 * those of the whole vocabulary, of which only the likeliest tokens are looked at.
 * Sources: Tang et al., "Top-nσ: not all logits are you need", ACL 2025; Zhang et al., "EDT:
 * improving large language models' generation by entropy-based dynamic temperature sampling", 2024.
 */
#include "core/runtime/sampler_impl.h"

#include "core/runtime/random.h"

#include <math.h>

struct chain {
    const struct kern_table *kern;
    const struct sampling *p;
    const float *x; /* [n_vocab] */
    uint32_t n_vocab;
    float max, scale;   /* of all logits; 1 / temperature so far */
    struct pick *picks; /* [n], best first */
    uint32_t n;
    bool is_whole; /* nothing was cut: there may be more than the picks */
};

/* The shares of what is left. */
static void share(struct chain *c)
{
    const float best = c->x[c->picks[0].id];
    double total = 0;

    for (uint32_t i = 0; i < c->n; i++) {
        c->picks[i].p = kern_exp((c->x[c->picks[i].id] - best) * c->scale);
        total += (double)c->picks[i].p;
    }
    if (c->is_whole)
        total = (double)c->kern->sum_exp(c->x, c->n_vocab, c->max, c->scale);
    for (uint32_t i = 0; i < c->n; i++)
        c->picks[i].p = (float)((double)c->picks[i].p / total);
}

static void keep(struct chain *c, uint32_t n)
{
    c->n = n > 0 ? n : 1;
    c->is_whole = false;
    share(c);
}

/* ---- stages ---- */

static void cut_top_p(struct chain *c)
{
    double sum = 0;
    uint32_t n = 0;

    while (n < c->n && (sum < (double)c->p->top_p || n < c->p->min_keep))
        sum += (double)c->picks[n++].p;
    keep(c, n);
}

static void cut_min_p(struct chain *c)
{
    const float least = c->p->min_p * c->picks[0].p;
    uint32_t n = 1;

    while (n < c->n && (c->picks[n].p >= least || n < c->p->min_keep))
        n++;
    keep(c, n);
}

struct moments {
    double n, sum, squares;
};

static void add_moment(struct moments *m, float distance)
{
    if (distance < INFINITY) { /* not that of a token that may not come */
        m->n++;
        m->sum += (double)distance;
        m->squares += (double)distance * (double)distance;
    }
}

/* Squares are compared, so that no root is taken; distances are from the best. */
static void cut_top_n_sigma(struct chain *c)
{
    const float best = c->x[c->picks[0].id];
    struct moments m = {0};
    double mean, most;
    uint32_t n = 1;

    if (c->is_whole)
        for (uint32_t i = 0; i < c->n_vocab; i++)
            add_moment(&m, best - c->x[i]);
    else
        for (uint32_t i = 0; i < c->n; i++)
            add_moment(&m, best - c->x[c->picks[i].id]);
    mean = m.sum / m.n;
    most = (m.squares / m.n - mean * mean) * (double)c->p->top_n_sigma *
           (double)c->p->top_n_sigma;
    for (; n < c->n; n++) {
        const double distance = (double)(best - c->x[c->picks[n].id]);

        if (distance * distance > most)
            break;
    }
    keep(c, n);
}

static void cut_xtc(struct chain *c, uint32_t pos)
{
    if (random_uniform_second(c->p->seed, pos) < (double)c->p->xtc_probability)
        keep(c, sampler_cut_xtc(c->picks, c->n, c->p->xtc_threshold, c->p->min_keep));
}

/* Between temperature - range and temperature + range: the evener the shares, the higher. */
static float dynamic_temperature(const struct chain *c)
{
    const float low = c->p->temperature > c->p->dynatemp_range
                          ? c->p->temperature - c->p->dynatemp_range
                          : 0;
    const float high = c->p->temperature + c->p->dynatemp_range;
    double entropy = 0, sum = 0, evenness;

    for (uint32_t i = 0; i < c->n; i++)
        sum += (double)c->picks[i].p;
    for (uint32_t i = 0; i < c->n; i++)
        if (c->picks[i].p > 0)
            entropy -= (double)c->picks[i].p / sum * kern_log((double)c->picks[i].p / sum);
    evenness = entropy / kern_log((double)c->n);
    if (c->p->dynatemp_exponent == 0.0f)
        return high;
    if (evenness <= 0)
        return low;
    return low + (high - low) * kern_exp((float)((double)c->p->dynatemp_exponent *
                                                 kern_log(evenness)));
}

static void change_temperature(struct chain *c)
{
    float t = c->p->temperature;

    if (c->p->dynatemp_range > 0.0f) {
        if (c->n < 2)
            return;
        t = dynamic_temperature(c);
    }
    if (t < SAMPLER_GREEDY_BELOW) {
        keep(c, 1);
        return;
    }
    c->scale /= t;
    share(c);
}

static void run(struct chain *c, enum sampling_stage stage, uint32_t pos)
{
    switch (stage) {
    case STAGE_NONE:
        break;
    case STAGE_TOP_N_SIGMA:
        cut_top_n_sigma(c);
        break;
    case STAGE_TOP_K:
        keep(c, (uint32_t)c->p->top_k < c->n ? (uint32_t)c->p->top_k : c->n);
        break;
    case STAGE_TYPICAL:
        keep(c, sampler_cut_typical(c->picks, c->n, c->p->typical_p, c->p->min_keep));
        break;
    case STAGE_TOP_P:
        cut_top_p(c);
        break;
    case STAGE_MIN_P:
        cut_min_p(c);
        break;
    case STAGE_XTC:
        cut_xtc(c, pos);
        break;
    case STAGE_TEMPERATURE:
        change_temperature(c);
        break;
    }
}

static void report(const struct chain *c, uint32_t chosen, struct batch_output *o)
{
    const uint32_t most = o->sampling->n_top > 0 ? (uint32_t)o->sampling->n_top : 0;

    o->logprob = c->picks[chosen].p;
    o->n_top = c->n < most ? c->n : most;
    for (uint32_t i = 0; i < o->n_top; i++)
        o->top[i] = (struct top_logprob){c->picks[i].id, c->picks[i].p};
}

int32_t sampler_chain(const struct kern_table *kern, struct sampler_scratch *s, const float *x,
                      struct batch_output *o, double u)
{
    const struct sampling *p = o->sampling;
    const bool begins_short = p->chain[0] == STAGE_TOP_K;
    struct chain c = {.kern = kern, .p = p, .x = x, .n_vocab = s->n_vocab, .scale = 1};
    uint32_t chosen;

    c.max = kern->max(x, s->n_vocab);
    c.n = sampler_best(kern, s, x, c.max, begins_short ? (uint32_t)p->top_k : SAMPLER_PICKS);
    c.picks = s->picks;
    c.is_whole = true;
    share(&c);
    for (uint32_t i = 0; i < p->n_chain; i++)
        run(&c, (enum sampling_stage)p->chain[i], o->n_discarded + o->pos);
    chosen = sampler_draw_one(c.picks, c.n, u);
    if (p->wants_shares)
        report(&c, chosen, o);
    return c.picks[chosen].id;
}
