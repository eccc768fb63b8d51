/* core/runtime/sampler.c - see sampler.h.
 *
 * A thread of the pool calls sampler_pick() for one row of logits at a time, with scratch of its
 * own. The row is copied into s->logits only when something changes it. A greedy choice under a
 * constraint first asks whether the largest logit is allowed and builds the mask of the vocabulary
 * only if not. Scans skip LOOK tokens at a time by the maximum of the run, which the vector kernels
 * find fast.
 */
#include "core/runtime/sampler.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/grammar/constraint.h"
#include "core/runtime/random.h"
#include "core/runtime/sampler_impl.h"
#include "core/runtime/thought.h"

#include <math.h>
#include <string.h>

#define BLOCK                                                                                      \
    1024        /* tokens of a block: the draw first finds the block by its sum of                 \
                 * weights */
#define LOOK 64 /* tokens that one maximum can skip together */

int sampler_scratch_create(struct sampler_scratch *s, uint32_t n_vocab)
{
    *s = (struct sampler_scratch){.n_vocab = n_vocab};
    s->logits = mem_aligned(n_vocab, sizeof(*s->logits));
    s->heap = mem_aligned(n_vocab, sizeof(*s->heap));
    s->weights = mem_aligned(n_vocab / BLOCK + 1, sizeof(*s->weights));
    s->repeats = mem_calloc(n_vocab, sizeof(*s->repeats));
    s->mask = mem_aligned(n_vocab / 32 + 1, sizeof(*s->mask));
    if (s->logits == NULL || s->heap == NULL || s->weights == NULL || s->mask == NULL ||
        s->repeats == NULL || constraint_scratch_create(&s->walk) < 0) {
        sampler_scratch_release(s);
        return ERR_NOMEM;
    }
    return 0;
}

void sampler_scratch_release(struct sampler_scratch *s)
{
    mem_free(s->logits);
    mem_free(s->heap);
    mem_free(s->weights);
    mem_free(s->repeats);
    mem_free(s->mask);
    constraint_scratch_destroy(&s->walk);
    *s = (struct sampler_scratch){0};
}

/* ---- log-probabilities ---- */

static bool is_before(struct candidate a, struct candidate b)
{
    return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

/* The alternatives found so far, best first. */
struct best {
    struct candidate at[SAMPLING_MAX_TOP];
    uint32_t n, most;
};

static void insert(struct best *b, struct candidate c)
{
    uint32_t i;

    if (b->n == b->most && !is_before(c, b->at[b->n - 1]))
        return;
    i = b->n < b->most ? b->n++ : b->n - 1;
    for (; i > 0 && is_before(c, b->at[i - 1]); i--)
        b->at[i] = b->at[i - 1];
    b->at[i] = c;
}

/* Find the best n of the row by insertion: n is small and few elements get in. */
static void find_top(const struct kern_table *kern, const float *x, uint32_t n_vocab, uint32_t n,
                     struct batch_output *o, double log_sum)
{
    struct best best = {.most = n};

    for (uint32_t from = 0; from < n_vocab; from += LOOK) {
        const uint32_t end = n_vocab - from < LOOK ? n_vocab : from + LOOK;

        if (best.n == n && kern->max(x + from, end - from) <= best.at[n - 1].logit)
            continue;
        for (uint32_t id = from; id < end; id++)
            insert(&best, (struct candidate){x[id], (int32_t)id});
    }
    o->n_top = best.n;
    for (uint32_t i = 0; i < best.n; i++)
        o->top[i] =
            (struct top_logprob){best.at[i].id, (float)((double)best.at[i].logit - log_sum)};
}

/* Report the tokens that the request names, in its order. */
static void take_named(const float *x, struct batch_output *o, double log_sum)
{
    const struct sampling *p = o->sampling;

    o->n_top = p->n_top_ids;
    for (uint32_t i = 0; i < p->n_top_ids; i++)
        o->top[i] =
            (struct top_logprob){p->top_ids[i], (float)((double)x[p->top_ids[i]] - log_sum)};
}

/* Return the token's rank: 1 + the number of tokens before it. */
static uint32_t rank_of(const float *x, uint32_t n_vocab, int32_t token)
{
    const float own = x[token];
    uint32_t n = 1;

    for (uint32_t id = 0; id < (uint32_t)token; id++)
        n += x[id] >= own;
    for (uint32_t id = (uint32_t)token + 1; id < n_vocab; id++)
        n += x[id] > own;
    return n;
}

/* Return the logarithm of the sum of exp over the row. */
static double log_sum_exp(const struct kern_table *kern, const float *x, uint32_t n)
{
    const float max = kern->max(x, n);

    return (double)max + kern_log((double)kern->sum_exp(x, n, max, 1.0f));
}

/* ---- changes to the logits ---- */

/* True: the constraint applies to this token. */
static bool needs_mask(const struct batch_output *o)
{
    return o->constraint != NULL && !thought_is_open(o->thought);
}

/* True: the text may not end here. A thought alone does not satisfy a constraint that holds from
 * the start. */
static bool bans_end(const struct batch_output *o)
{
    return o->ban_eog || (o->constraint != NULL && thought_is_open(o->thought) &&
                          !constraint_is_waiting(o->constraint));
}

static bool needs_changes(const struct batch_output *o)
{
    return o->sampling->n_bias > 0 || bans_end(o) || sampler_has_penalties(o) ||
           thought_must_close(o->thought) || o->sampling->dry_multiplier > 0 ||
           o->sampling->allowed != NULL || o->sampling->bad_words != NULL;
}

/* Set the logits at the zeros of a 32-bit mask word to -infinity. Most words are nearly full or
 * nearly empty, so the loop goes over the rarer bits. */
static void keep_allowed(float *x, const float *from, uint32_t word)
{
    if (__builtin_popcount(word) > 16) {
        for (uint32_t gone = ~word; gone != 0; gone &= gone - 1)
            x[__builtin_ctz(gone)] = -INFINITY;
        return;
    }
    for (int i = 0; i < 32; i++)
        x[i] = -INFINITY;
    for (; word != 0; word &= word - 1)
        x[__builtin_ctz(word)] = from[__builtin_ctz(word)];
}

/* Apply the constraint's mask to logits x, which may be the row itself or s->logits. */
static const float *mask_logits(struct sampler_scratch *s, const float *x, const int32_t *eog,
                                size_t n_eog, const struct batch_output *o)
{
    const uint32_t n = s->n_vocab;
    float last[32];
    uint32_t i;

    if (constraint_mask(o->constraint, s->walk, s->mask, n) && !o->ban_eog)
        for (size_t k = 0; k < n_eog; k++)
            s->mask[eog[k] >> 5] |= (uint32_t)1 << (eog[k] & 31);
    if (thought_may_open(o->thought))
        s->mask[o->thought->open >> 5] |= (uint32_t)1 << (o->thought->open & 31);
    if (x != s->logits)
        memcpy(s->logits, x, n * sizeof(*x));
    for (i = 0; i + 32 <= n; i += 32) {
        const uint32_t word = s->mask[i >> 5];

        if (word == UINT32_MAX)
            continue;
        memcpy(last, s->logits + i, sizeof(last));
        keep_allowed(s->logits + i, last, word);
    }
    for (; i < n; i++)
        if (!(s->mask[i >> 5] >> (i & 31) & 1))
            s->logits[i] = -INFINITY;
    return s->logits;
}

/* Leave only the forced token (the message's next, or the closing mark), whatever else the request
 * says. */
static void close_thought(struct sampler_scratch *s, const struct thought *thought)
{
    for (uint32_t i = 0; i < s->n_vocab; i++)
        s->logits[i] = -INFINITY;
    s->logits[thought_closing_token(thought)] = 0;
}

/* Return the logits after all changes except the constraint's mask. */
static const float *changed_logits(struct sampler_scratch *s, const float *logits,
                                   const int32_t *eog, size_t n_eog, const struct batch_output *o)
{
    if (!needs_changes(o))
        return logits;
    memcpy(s->logits, logits, s->n_vocab * sizeof(*logits));
    for (uint32_t i = 0; i < o->sampling->n_bias; i++)
        s->logits[o->sampling->bias[i].id] += o->sampling->bias[i].bias;
    sampler_penalties(s->repeats, o, s->logits);
    if (o->sampling->dry_multiplier > 0)
        sampler_dry(s->repeats, o, s->logits);
    sampler_bans(o, s->logits, s->n_vocab);
    for (size_t i = 0; i < n_eog && bans_end(o); i++)
        s->logits[eog[i]] = -INFINITY;
    if (thought_must_close(o->thought))
        close_thought(s, o->thought);
    return s->logits;
}

/* ---- choosing ---- */

/* Return the lowest id of the largest logit; NaN is skipped. */
static int32_t largest(const struct kern_table *kern, const float *x, uint32_t n)
{
    const size_t at = kern->find(x, n, kern->max(x, n));

    return at < n ? (int32_t)at : 0;
}

/* Draw from all tokens: sums of blocks find the block, then the weights inside it decide. The two
 * sums round differently, so the walk may reach the end of the block: then the block's last token
 * with any weight is the answer, never a banned one. */
int32_t sampler_draw_from_all(const struct kern_table *kern, struct sampler_scratch *s,
                              const float *x, float max, float scale, double u)
{
    const uint32_t n_blocks = (s->n_vocab + BLOCK - 1) / BLOCK;
    double total = 0, at;
    uint32_t b = 0, end, last;

    for (uint32_t j = 0; j < n_blocks; j++) {
        const uint32_t n = s->n_vocab - j * BLOCK < BLOCK ? s->n_vocab - j * BLOCK : BLOCK;

        s->weights[j] = kern->sum_exp(x + (size_t)j * BLOCK, n, max, scale);
        total += (double)s->weights[j];
    }
    for (at = u * total; b + 1 < n_blocks && at >= (double)s->weights[b]; b++)
        at -= (double)s->weights[b];
    end = (b + 1) * BLOCK < s->n_vocab ? (b + 1) * BLOCK : s->n_vocab;
    last = b * BLOCK;
    for (uint32_t i = b * BLOCK; i < end && at >= 0; i++) {
        const float w = kern_exp((x[i] - max) * scale);

        if (w > 0)
            last = i;
        at -= (double)w;
    }
    return (int32_t)last;
}

static void draw_token(const struct kern_table *kern, struct sampler_scratch *s, const float *x,
                       struct batch_output *o)
{
    struct sampler_chain chain;

    if (sampler_chain_cut(&chain, kern, s, x, o))
        sampler_chain_draw(&chain, o, random_uniform(o->sampling->seed, o->n_discarded + o->pos));
    else
        o->token = largest(kern, x, s->n_vocab);
}

static bool id_is_among(int32_t id, const int32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (ids[i] == id)
            return true;
    return false;
}

/* Advance thought and constraint by the chosen token. If no token was allowed the chosen one is
 * arbitrary and breaks the constraint. */
static void force_continuation(struct sampler_scratch *s, const int32_t *eog, size_t n_eog,
                               struct batch_output *o)
{
    const bool ends = id_is_among(o->token, eog, n_eog);
    const bool ends_too_early = ends && bans_end(o);
    const bool is_thought = thought_take(o->thought, o->token, o->constraint != NULL);
    enum constraint_status status = CONSTRAINT_OPEN;

    if (o->constraint == NULL)
        return;
    if (!ends && !is_thought)
        status = constraint_take(o->constraint, s->walk, o->token);
    o->is_complete = status == CONSTRAINT_DONE;
    o->is_broken = status == CONSTRAINT_BROKEN || ends_too_early;
}

static bool is_greedy(const struct sampling *p)
{
    return p->temperature < SAMPLER_GREEDY_BELOW && p->dynatemp_range <= 0.0f;
}

/* Shares of a greedy choice: 1 for the only token that is left; with a temperature below 0, the
 * shares of all tokens without temperature. */
static void share_greedily(struct batch_output *o)
{
    const bool is_plain = o->sampling->temperature < 0.0f;

    o->logprob = is_plain ? kern_exp(o->logprob) : 1;
    for (uint32_t i = 0; i < o->n_top && is_plain; i++)
        o->top[i].logprob = kern_exp(o->top[i].logprob);
    if (is_plain || o->n_top == 0)
        return;
    o->n_top = 1;
    o->top[0] = (struct top_logprob){o->token, 1};
}

static void find_labels(const struct sampling *p, const float *logits, double log_sum)
{
    for (uint32_t i = 0; i < p->n_labels; i++)
        p->label_logprobs[i] = (float)((double)logits[p->label_ids[i]] - log_sum);
}

static void find_logprobs(const struct kern_table *kern, const struct sampler_scratch *s,
                          const float *logits, struct batch_output *o)
{
    const double log_sum = log_sum_exp(kern, logits, s->n_vocab);

    if (o->want == BATCH_SAMPLE)
        find_labels(o->sampling, logits, log_sum);
    o->logprob = (float)((double)logits[o->token] - log_sum);
    if (o->want == BATCH_SCORE)
        o->rank = rank_of(logits, s->n_vocab, o->token);
    if (o->sampling->n_top_ids > 0 && o->want == BATCH_SAMPLE)
        take_named(logits, o, log_sum);
    else if (o->sampling->n_top > 0)
        find_top(kern, logits, s->n_vocab, (uint32_t)o->sampling->n_top, o, log_sum);
}

/* Take the token of the largest logit if the constraint allows it: then no mask is needed to know
 * that it is the largest allowed one. Whether the text may end is decided by the mask. */
static bool takes_largest(const struct kern_table *kern, struct sampler_scratch *s, const float *x,
                          const int32_t *eog, size_t n_eog, struct batch_output *o)
{
    o->token = largest(kern, x, s->n_vocab);
    return x[o->token] > -INFINITY && !id_is_among(o->token, eog, n_eog) &&
           constraint_allows(o->constraint, s->walk, o->token);
}

static void choose_token(const struct kern_table *kern, struct sampler_scratch *s,
                         const float *logits, const int32_t *eog, size_t n_eog,
                         struct batch_output *o)
{
    const struct sampling *p = o->sampling;
    const float *x = changed_logits(s, logits, eog, n_eog, o);

    if (needs_mask(o)) {
        if (is_greedy(p) && takes_largest(kern, s, x, eog, n_eog, o))
            return;
        x = mask_logits(s, x, eog, n_eog, o);
    }
    if (is_greedy(p))
        o->token = largest(kern, x, s->n_vocab);
    else
        draw_token(kern, s, x, o);
}

void sampler_pick(const struct kern_table *kern, struct sampler_scratch *s, const float *logits,
                  const int32_t *eog, size_t n_eog, struct batch_output *o)
{
    const struct sampling *p = o->sampling;
    const bool has_shares = o->want == BATCH_SAMPLE && p->wants_shares;

    if (o->want == BATCH_SAMPLE) {
        choose_token(kern, s, logits, eog, n_eog, o);
        if (o->constraint != NULL || o->thought != NULL)
            force_continuation(s, eog, n_eog, o);
    }
    if (((p->n_top >= 0 || p->n_labels > 0) && (!has_shares || is_greedy(p))) ||
        o->want == BATCH_SCORE)
        find_logprobs(kern, s, logits, o);
    if (has_shares && is_greedy(p))
        share_greedily(o);
}

uint32_t sampler_shares(const struct kern_table *kern, struct sampler_scratch *s,
                        const float *logits, const int32_t *eog, size_t n_eog,
                        const struct batch_output *o, struct sampler_share *out)
{
    const float *x = changed_logits(s, logits, eog, n_eog, o);
    struct sampler_chain chain;
    uint32_t n = 0;
    double total;
    float w;

    if (needs_mask(o))
        x = mask_logits(s, x, eog, n_eog, o);
    if (is_greedy(o->sampling) || !sampler_chain_cut(&chain, kern, s, x, o)) {
        out[0] = (struct sampler_share){largest(kern, x, s->n_vocab), 1};
        return 1;
    }
    total = sampler_chain_total(&chain);
    for (; (w = sampler_chain_weight(&chain, n)) >= 0; n++)
        out[n] = (struct sampler_share){sampler_chain_id(&chain, n), (float)((double)w / total)};
    return n;
}
