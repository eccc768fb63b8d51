/* scheduler/scheduler_draft_model.c - when the draft model is asked; see scheduler.h.
 *
 * A guess of the draft model costs time before it is known to be right. So the model is asked only
 * where the rates of its earlier guesses promise more tokens in the time than the step makes
 * without it: for all streams that have no better guess, in batches with one row for each, one
 * batch for each token of depth. Its guesses are then weighed like all others.
 *
 * The model must have taken a stream's text in first. An account of its own pays for that
 * (draft_account.h): a new text is begun only while the balance is not negative, so a model that
 * does not help costs its allowance and one text.
 */
#include "scheduler/scheduler_impl.h"

#include <assert.h>

#define EXPECTED_LEFT 256 /* an answer is expected to have at most so many tokens left */
#define PIECE 128         /* most rows of a text that the draft model takes in beside one step */

struct candidate {
    struct seq *seq;
    uint32_t behind;    /* tokens that the model has to take in */
    struct draft other; /* the sequence's guess by other drafters */
};

struct candidates {
    struct candidate of[DRAFT_ROWS];
    struct draft_stream streams[DRAFT_ROWS]; /* [n] stream of each candidate */
    uint32_t n;
};

static struct draft_stream stream_of(const struct sched *s, uint32_t i_item)
{
    const struct seq *seq = s->item_seq[i_item];

    return (struct draft_stream){.item = &s->items[i_item], .n_known = seq->n_known,
                                 .most = sched_most_drafts(s, seq)};
}

/* Collect the sequences that the model can guess for once it has taken in their texts. */
static void collect_drafted(const struct sched *s, struct candidates *c)
{
    const struct draft_model *m = &s->opt.model;

    c->n = 0;
    for (uint32_t i = 0; i < s->plan.n_items && c->n < DRAFT_ROWS; i++) {
        struct seq *seq = s->item_seq[i];
        const struct draft_stream stream = stream_of(s, i);
        uint32_t behind;

        if (!s->items[i].wants_token || stream.most == 0)
            continue;
        behind = m->n_behind(m->ud, &stream);
        if (behind == DRAFT_FAR)
            continue;
        c->of[c->n] = (struct candidate){seq, behind, seq->draft};
        c->streams[c->n++] = stream;
    }
}

/* True: the sequence has a guess that is at least as likely to be right as one of the draft
 * model. */
static bool has_better(const struct sched *s, const struct seq *seq)
{
    const struct draft *d = &seq->draft;

    if (d->n == 0 || s->opt.drafter.takes_all)
        return d->n > 0;
    return sched_draft_rate(s, seq, d->source[0], d->fit[0]) >=
           sched_draft_rate(s, seq, s->opt.model.source, DRAFT_FIT_ANY);
}

static bool is_far(const struct candidate *c)
{
    return c->behind > DRAFT_NEAR;
}

/* Keep the candidates that the model can guess for in this step and that have no better guess. */
static void keep_near(const struct sched *s, struct candidates *c)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < c->n; i++) {
        if (is_far(&c->of[i]) || has_better(s, c->of[i].seq))
            continue;
        c->of[n] = c->of[i];
        c->streams[n++] = c->streams[i];
    }
    c->n = n;
}

/* ---- how deep ---- */

/* Give each candidate an assumed guess of `depth` tokens by the model, to compute its worth. */
static void assume(const struct sched *s, struct candidates *c, uint32_t depth)
{
    for (uint32_t i = 0; i < c->n; i++) {
        const uint32_t n = sched_min(depth, c->streams[i].most);
        struct draft d = {0};

        for (uint32_t k = 0; k < n; k++)
            draft_add(&d, s->opt.model.source, DRAFT_FIT_ANY);
        c->of[i].seq->draft = d;
    }
}

static void restore(struct candidates *c)
{
    for (uint32_t i = 0; i < c->n; i++)
        c->of[i].seq->draft = c->of[i].other;
}

/* Return the depth at which the step yields most tokens per time, the making of the guesses
 * included; 0: no depth is better than a step without guesses of the model. */
static uint32_t best_depth(const struct sched *s, struct candidates *c, struct draft_pace *best)
{
    static const uint8_t depths[] = {1, 2, 3, 4, 5, 6, 8, 10, 12, DRAFT_MAX};
    const uint64_t batch_ns = s->limits->drafts->guess_ns[c->n];
    uint32_t depth = 0;

    *best = sched_draft_pace(s, 0);
    for (uint32_t i = 0; i < sizeof(depths) && c->n > 0; i++) {
        struct draft_pace p;

        assume(s, c, depths[i]);
        p = sched_draft_pace(s, depths[i] * batch_ns / 1000);
        if (p.n_drafts == 0 || !sched_is_faster(&p, best))
            continue;
        *best = p;
        depth = depths[i];
    }
    restore(c);
    return depth;
}

/* ---- taking in ---- */

/* True: taking in the texts of the far candidates pays. Compares the time that guesses for all
 * candidates save, over guesses for the near ones, during the rest of seq's answer, with the time
 * for taking the texts in. */
static bool is_worth(const struct sched *s, struct candidates *c, const struct seq *seq)
{
    const uint32_t left = seq->request->max_tokens - seq_n_generated(seq);
    struct candidates near = *c;
    struct draft_pace with, without;
    uint64_t as_many_us, cost_us = 0;

    for (uint32_t i = 0; i < c->n; i++)
        if (is_far(&c->of[i]))
            cost_us += c->of[i].behind * s->limits->drafts->take_in_ns / 1000;
    if (best_depth(s, c, &with) == 0)
        return false;
    keep_near(s, &near);
    best_depth(s, &near, &without);
    as_many_us = without.us * with.tokens / without.tokens;
    return as_many_us > with.us && (as_many_us - with.us) * sched_min(left, EXPECTED_LEFT) >
                                       cost_us * with.tokens / s->plan.n_items / DRAFT_TOKEN;
}

/* Return the index of a candidate with more than DRAFT_NEAR tokens to take in: one whose text was
 * begun, else the first; c->n: there is none. The text of a near candidate is finished: if it
 * becomes far again, the decision is made anew. */
static uint32_t choose_far(struct candidates *c)
{
    uint32_t first = c->n;

    for (uint32_t i = 0; i < c->n; i++) {
        if (!is_far(&c->of[i])) {
            c->of[i].seq->is_taking_in = false;
            continue;
        }
        if (c->of[i].seq->is_taking_in)
            return i;
        first = sched_min(first, i);
    }
    return first;
}

/* Choose the sequence whose text is to be taken in, if there is one. */
static void choose_taken_in(struct sched *s, struct candidates *c)
{
    const uint32_t i = choose_far(c);
    struct seq *seq = i < c->n ? c->of[i].seq : NULL;

    s->taken_in = NULL;
    if (seq == NULL)
        return;
    if (s->opt.drafter.takes_all || seq->is_taking_in ||
        (s->limits->drafts->model_balance_ns >= 0 && is_worth(s, c, seq)))
        s->taken_in = seq;
}

/* Return how many rows of a text can be taken in within left_ns. */
static uint32_t piece(const struct sched *s, uint64_t left_ns)
{
    const uint64_t n = left_ns != SCHED_NO_LIMIT ?
                           left_ns / (s->limits->drafts->take_in_ns + 1) : PIECE;

    return n < PIECE ? (uint32_t)n : PIECE;
}

void sched_take_in_by_model(struct sched *s, uint64_t left_ns)
{
    const struct draft_model *m = &s->opt.model;
    struct seq *seq = s->taken_in;
    const uint32_t n = piece(s, left_ns);
    struct draft_stream stream;

    if (seq == NULL || n == 0)
        return;
    stream = stream_of(s, seq->item);
    seq->is_taking_in = m->take_in(m->ud, &stream, n);
}

/* ---- guessing ---- */

/* Return the depth of this step's guesses. With takes_all (tests) all depths in turn. */
static uint32_t choose_depth(const struct sched *s, struct candidates *c)
{
    struct draft_pace pace;

    if (s->opt.drafter.takes_all)
        return 1 + (uint32_t)(s->iterations % DRAFT_MAX);
    return best_depth(s, c, &pace);
}

void sched_guess_by_model(struct sched *s)
{
    const struct draft_model *m = &s->opt.model;
    struct candidates c;
    uint32_t depth;

    collect_drafted(s, &c);
    choose_taken_in(s, &c);
    keep_near(s, &c);
    depth = c.n > 0 ? choose_depth(s, &c) : 0;
    if (depth == 0)
        return;
    m->guess(m->ud, c.streams, c.n, depth);
    if (s->limits->drafts != NULL)
        s->guess_ns = depth * s->limits->drafts->guess_ns[c.n];
    for (uint32_t i = 0; i < c.n; i++) {
        assert(c.streams[i].draft.n <= c.streams[i].most);
        if (c.streams[i].draft.n > 0)
            c.of[i].seq->draft = c.streams[i].draft;
    }
}
