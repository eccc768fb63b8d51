/* core/runtime/sampler_chain.c - cuts and temperature, one after the other; see sampler_impl.h.
 *
 * Each stage leaves fewer tokens, or other shares, to the next one. What stages leave is always a
 * run of ranks: a cut takes tokens off the end, XTC off the front, typical off both. Until the
 * first cut the tokens that are left are all of the vocabulary, however many those are.
 *
 * Sources: Meister et al., "Locally typical sampling", TACL 2023; Basu et al., "Mirostat", ICLR
 * 2021 (its second version, which needs no estimate of the distribution's shape); Tang et al.,
 * "Top-nσ: not all logits are you need", ACL 2025; Zhang et al., "EDT: improving large language
 * models' generation by entropy-based dynamic temperature sampling", 2024. XTC leaves out, now and
 * then, all but the least likely of the tokens that are likely enough.
 */
#include "core/runtime/sampler_impl.h"

#include "core/runtime/random.h"

#include <math.h>
#include <string.h>

#define LN_2 0.69314718055994530942
#define DEPTH 8          /* nats below the best logit that hold nearly all weight of most rows */
#define MOST_SCALE 1e30f /* largest scale (1 / temperature), so that several temperatures in one
                          * chain do not make it infinite */

/* ---- tokens that are left ---- */

static float logit_at(struct sampler_chain *c, uint32_t rank)
{
    return ranking_at(&c->ranking, rank)->logit;
}

static bool rank_has_room(struct sampler_chain *c, uint32_t rank)
{
    return c->is_whole ? ranking_at(&c->ranking, rank) != NULL : rank < c->to;
}

/* Return the logarithm of a token's weight: 0 for the best. */
static float distance(struct sampler_chain *c, uint32_t rank)
{
    return (logit_at(c, rank) - c->best) * c->scale;
}

static float weight(struct sampler_chain *c, uint32_t rank)
{
    return kern_exp(distance(c, rank));
}

/* True: there is a token of that rank with at least that weight. No further token is ranked to find
 * out that there is none: when all tokens of that weight are gathered, the others cannot have
 * it. */
static bool weighs(struct sampler_chain *c, uint32_t rank, float least)
{
    const float nats = least > 0 ? (float)kern_log((double)least) - 1e-3f : -INFINITY;

    if (c->is_whole && ranking_ends(&c->ranking, rank, c->best + nats / c->scale))
        return false;
    return rank_has_room(c, rank) && weight(c, rank) >= least;
}

double sampler_chain_total(struct sampler_chain *c)
{
    double total = 0;

    if (c->is_whole)
        return (double)c->kern->sum_exp(c->x, c->n_vocab, c->best, c->scale);
    for (uint32_t rank = c->from; rank < c->to; rank++)
        total += (double)weight(c, rank);
    return total;
}

float sampler_chain_weight(struct sampler_chain *c, uint32_t i)
{
    return rank_has_room(c, c->from + i) ? weight(c, c->from + i) : -1;
}

int32_t sampler_chain_id(struct sampler_chain *c, uint32_t i)
{
    return ranking_at(&c->ranking, c->from + i)->id;
}

static uint32_t count_kept(const struct sampler_chain *c)
{
    return c->is_whole ? ranking_count(&c->ranking) : c->to - c->from;
}

/* Keep ranks from .. to - 1; the best of them always stays. */
static void keep(struct sampler_chain *c, uint32_t from, uint32_t to)
{
    c->from = from;
    c->to = to > from ? to : from + 1;
    c->is_whole = false;
    c->best = logit_at(c, from);
}

/* Begin the ranking of the logits anew. */
static void begin_chain(struct sampler_chain *c, const float *x)
{
    c->x = x;
    ranking_init(&c->ranking, c->kern, c->s->heap, x, c->n_vocab);
    ranking_reach(&c->ranking, DEPTH / c->scale);
    c->best = c->ranking.max;
    c->from = c->to = 0;
    c->is_whole = true;
}

/* ---- moments of the distances from the best ---- */

struct moments {
    double n, weights;    /* tokens, and the sum of their weights */
    double mean, squares; /* moments of the distances */
};

static void add_moment(struct moments *m, float far, float w)
{
    m->n++;
    if (w == 0)
        return;
    m->weights += (double)w;
    m->mean += (double)w * (double)far;
    m->squares += (double)w * (double)far * (double)far;
}

/* Moments of the distances in nats, each token counting by its weight; a token that cannot be drawn
 * counts for nothing. */
static struct moments weighted_moments(struct sampler_chain *c)
{
    struct moments m = {0};

    for (uint32_t i = 0; c->is_whole && i < c->n_vocab; i++) {
        const float far = (c->x[i] - c->best) * c->scale;

        if (c->x[i] > -INFINITY)
            add_moment(&m, far, kern_exp(far));
    }
    for (uint32_t rank = c->from; !c->is_whole && rank < c->to; rank++)
        add_moment(&m, distance(c, rank), weight(c, rank));
    m.mean /= m.weights;
    return m;
}

/* Moments of the distances between logits; every token counts the same. */
static struct moments plain_moments(struct sampler_chain *c)
{
    struct moments m = {0};

    for (uint32_t i = 0; c->is_whole && i < c->n_vocab; i++)
        if (c->x[i] > -INFINITY)
            add_moment(&m, c->x[i] - c->best, 1);
    for (uint32_t rank = c->from; !c->is_whole && rank < c->to; rank++)
        add_moment(&m, logit_at(c, rank) - c->best, 1);
    m.mean /= m.weights;
    m.squares /= m.weights;
    return m;
}

/* ---- stages ---- */

static void cut_top_k(struct sampler_chain *c)
{
    const uint32_t k = c->p->top_k > 0 ? (uint32_t)c->p->top_k : c->n_vocab;

    if (k >= c->n_vocab || (!c->is_whole && k >= c->to - c->from))
        return;
    if (rank_has_room(c, c->from + k - 1))
        keep(c, c->from, c->from + k);
}

static void cut_top_p(struct sampler_chain *c)
{
    double mass, sum = 0;
    uint32_t n = 0;

    if (c->p->top_p >= 1)
        return;
    mass = (double)c->p->top_p * sampler_chain_total(c);
    while ((sum < mass || n < c->p->min_keep) && rank_has_room(c, c->from + n)) {
        const float w = weight(c, c->from + n);

        if (w == 0 && n >= c->p->min_keep)
            break; /* only rounding errors keep the sum below the bound */
        sum += (double)w;
        n++;
    }
    keep(c, c->from, c->from + n);
}

static void cut_min_p(struct sampler_chain *c)
{
    uint32_t n = 1;

    if (c->p->min_p <= 0)
        return;
    while (n < c->p->min_keep ? rank_has_room(c, c->from + n) : weighs(c, c->from + n, c->p->min_p))
        n++;
    keep(c, c->from, c->from + n);
}

/* Squares are compared, so that no root is taken. */
static void cut_top_n_sigma(struct sampler_chain *c)
{
    struct moments m;
    double most;
    uint32_t n = 1;

    if (c->p->top_n_sigma <= 0)
        return;
    m = plain_moments(c);
    most = (m.squares - m.mean * m.mean) * (double)c->p->top_n_sigma * (double)c->p->top_n_sigma;
    for (; rank_has_room(c, c->from + n); n++) {
        const double far = (double)(logit_at(c, c->from + n) - c->best);

        if (far * far > most)
            break;
    }
    keep(c, c->from, c->from + n);
}

/* Keep the tokens whose surprise is nearest to the mean surprise, until they have typical_p of the
 * weight; of two equally near ones the likelier comes first. The kept tokens are a run of ranks
 * around the mean. */
static void cut_typical(struct sampler_chain *c)
{
    const struct moments m = weighted_moments(c);
    double sum = 0;
    uint32_t low, high = c->from; /* kept ranks: low .. high - 1 */

    while (rank_has_room(c, high) && (double)distance(c, high) > m.mean)
        high++;
    low = high;
    while (low == high || high - low < c->p->min_keep ||
           sum < (double)c->p->typical_p * m.weights) {
        const bool has_high = rank_has_room(c, high);
        double above, below;

        if (low == c->from && !has_high)
            break;
        above = low > c->from ? (double)distance(c, low - 1) - m.mean : INFINITY;
        below = has_high ? m.mean - (double)distance(c, high) : INFINITY;
        sum += (double)weight(c, above <= below ? --low : high++);
    }
    keep(c, low, high);
}

/* Remove the n best tokens for XTC, and rank the others anew. */
static void drop_best(struct sampler_chain *c, uint32_t n)
{
    float *const x = c->s->logits;

    if (c->x != x)
        memcpy(x, c->x, c->n_vocab * sizeof(*x));
    for (uint32_t i = 0; i < n; i++)
        x[ranking_at(&c->ranking, i)->id] = -INFINITY;
    begin_chain(c, x);
}

/* XTC removes every token that reaches the threshold except the least likely of them; a single one
 * stays. */
static void cut_xtc(struct sampler_chain *c, uint32_t pos)
{
    float least;
    uint32_t n = 0;

    if (random_uniform_second(c->p->seed, pos) >= (double)c->p->xtc_probability)
        return;
    least = (float)((double)c->p->xtc_threshold * sampler_chain_total(c));
    while (weighs(c, c->from + n, least))
        n++;
    if (n < 2 || (c->p->min_keep > 1 && count_kept(c) - (n - 1) < c->p->min_keep))
        return;
    if (c->is_whole)
        drop_best(c, n - 1);
    else
        keep(c, c->from + n - 1, c->to);
}

/* Return the dynamic temperature, between temperature - range and temperature + range: the more
 * even the shares of the n tokens, the higher. Evenness is entropy divided by the largest entropy
 * of n tokens. */
static float dynamic_temperature(struct sampler_chain *c, const struct moments *m)
{
    const float low = c->p->temperature > c->p->dynatemp_range
                          ? c->p->temperature - c->p->dynatemp_range
                          : 0;
    const float high = c->p->temperature + c->p->dynatemp_range;
    const double evenness = (kern_log(m->weights) - m->mean) / kern_log(m->n);

    if (c->p->dynatemp_exponent == 0.0f || evenness >= 1)
        return high;
    if (evenness <= 0)
        return low;
    return low + (high - low) * kern_exp((float)((double)c->p->dynatemp_exponent *
                                                 kern_log(evenness)));
}

static void change_temperature(struct sampler_chain *c)
{
    float t = c->p->temperature;

    if (c->p->dynatemp_range > 0.0f) {
        const struct moments m = weighted_moments(c);

        if (m.n < 2)
            return;
        t = dynamic_temperature(c, &m);
    }
    if (t < SAMPLER_GREEDY_BELOW) {
        keep(c, c->from, c->from + 1);
        return;
    }
    c->scale /= t;
    c->scale = c->scale < MOST_SCALE ? c->scale : MOST_SCALE;
    c->scale = c->scale > 1 / MOST_SCALE ? c->scale : 1 / MOST_SCALE;
    ranking_reach(&c->ranking, DEPTH / c->scale);
}

static void run_stage(struct sampler_chain *c, enum sampling_stage stage, uint32_t pos)
{
    switch (stage) {
    case STAGE_NONE:
        break;
    case STAGE_TOP_N_SIGMA:
        cut_top_n_sigma(c);
        break;
    case STAGE_TOP_K:
        cut_top_k(c);
        break;
    case STAGE_TYPICAL:
        if (c->p->typical_p > 0 && c->p->typical_p < 1)
            cut_typical(c);
        break;
    case STAGE_TOP_P:
        cut_top_p(c);
        break;
    case STAGE_MIN_P:
        cut_min_p(c);
        break;
    case STAGE_XTC:
        if (c->p->xtc_probability > 0)
            cut_xtc(c, pos);
        break;
    case STAGE_TEMPERATURE:
        change_temperature(c);
        break;
    }
}

static double bits(double share)
{
    return -kern_log(share) / LN_2;
}

/* Remove the tokens whose surprise is more than mu bits. */
static void cut_mirostat(struct sampler_chain *c, float mu)
{
    const double total = sampler_chain_total(c);
    uint32_t n = 1;

    while (rank_has_room(c, n) && weight(c, n) > 0 &&
           bits((double)weight(c, n) / total) <= (double)mu)
        n++;
    keep(c, 0, n);
}

bool sampler_chain_cut(struct sampler_chain *c, const struct kern_table *kern,
                       struct sampler_scratch *s, const float *x, const struct batch_output *o)
{
    static const uint8_t own[] = {STAGE_TEMPERATURE, STAGE_TOP_K,   STAGE_TOP_P,
                                  STAGE_MIN_P,       STAGE_TYPICAL, STAGE_XTC};
    const struct sampling *p = o->sampling;
    const bool is_mirostat = p->mirostat_tau > 0.0f;
    const bool has_chain = p->n_chain > 0 && !is_mirostat;
    const uint32_t n = has_chain ? p->n_chain : is_mirostat ? 1 : sizeof(own);

    *c = (struct sampler_chain){.kern = kern, .s = s, .p = p, .n_vocab = s->n_vocab, .scale = 1};
    begin_chain(c, x);
    if (!isfinite(c->best))
        return false;
    for (uint32_t i = 0; i < n; i++)
        run_stage(c, (enum sampling_stage)(has_chain ? p->chain : own)[i], o->n_discarded + o->pos);
    if (is_mirostat)
        cut_mirostat(c, *o->mirostat_mu);
    return true;
}

/* ---- the draw ---- */

/* Rank of the token at `at` of the total weight, best first. */
static uint32_t find_rank(struct sampler_chain *c, double at)
{
    uint32_t rank = c->from;

    while (rank + 1 < c->to && at >= (double)weight(c, rank))
        at -= (double)weight(c, rank++);
    return rank;
}

static void report(struct sampler_chain *c, double total, struct batch_output *o)
{
    const uint32_t most = o->sampling->n_top > 0 ? (uint32_t)o->sampling->n_top : 0;

    o->logprob = (float)((double)kern_exp((c->x[o->token] - c->best) * c->scale) / total);
    o->n_top = 0;
    for (uint32_t i = 0; i < most && rank_has_room(c, c->from + i); i++)
        o->top[o->n_top++] = (struct top_logprob){
            sampler_chain_id(c, i), (float)((double)weight(c, c->from + i) / total)};
}

/* Move mu towards the wanted surprise. */
static void steer(const struct sampler_chain *c, double share, float *mu)
{
    *mu -= c->p->mirostat_eta * ((float)bits(share) - c->p->mirostat_tau);
}

void sampler_chain_draw(struct sampler_chain *c, struct batch_output *o, double u)
{
    if (c->is_whole) {
        o->token = sampler_draw_from_all(c->kern, c->s, c->x, c->best, c->scale, u);
    } else {
        const double total = sampler_chain_total(c);
        const uint32_t rank = find_rank(c, u * total);

        o->token = ranking_at(&c->ranking, rank)->id;
        if (c->p->mirostat_tau > 0.0f)
            steer(c, (double)weight(c, rank) / total, o->mirostat_mu);
    }
    if (c->p->wants_shares)
        report(c, sampler_chain_total(c), o);
}
