/* scheduler/scheduler_drafts.c - how many guessed tokens a step computes; see scheduler.h.
 *
 * A draft of a stream counts only if those before it are right: its worth, in tokens, is the
 * product of their rates. choose_drafts() adds drafts one by one, the one of most worth first, over
 * all streams, and keeps the number at which the step yields the most tokens in its time.
 * sched_plan_drafts() runs when the rest of the plan is complete, sched_settle_drafts() after the
 * step.
 */
#include "scheduler/scheduler_impl.h"

#include <assert.h>
#include <string.h>

#define GAIN_PERCENT 108   /* least tokens per time, in percent of a step without drafts, at which
                            * drafts are computed */
#define GAIN_IN_DEBT 130   /* GAIN_PERCENT while the balance is negative (draft_account.h) */
#define DEEP_DEBT 2        /* plain steps of debt at which no drafts are tried */
#define KEY_DISCOUNT 4     /* the rows of one sequence read its keys once: each row after the first
                            * costs about so many times less */
#define PLAIN_EVERY 64     /* after so many steps one is made without drafts, so that its cost stays
                            * known */

/* ---- guesses ---- */

/* True: the step consists of decode rows alone. Rows of a prompt use up the time that drafts would
 * need. */
static bool has_streams_only(const struct sched *s)
{
    return s->plan.n_items > 0 && s->plan.work.n_prefill == 0;
}

/* Predicted nanoseconds of the step with n_drafts more rows, which read `keys` positions in
 * total. */
static uint64_t step_ns(const struct sched *s, uint32_t n_drafts, uint64_t keys)
{
    const struct step_work work = {.kv_decode = s->plan.work.kv_decode + keys / KEY_DISCOUNT};

    return s->limits->drafts->rows_ns[s->plan.work.n_decode + n_drafts] +
           step_costs_keys_ns(&s->limits->costs, &work);
}

/* True: drafts can pay in this step. Called before anything is guessed. */
static bool may_pay(struct sched *s)
{
    const struct draft_costs *c = s->limits->drafts;

    if (s->opt.drafter.takes_all)
        return true;
    if (c == NULL || !c->is_known || s->plan.n_items >= DRAFT_ROWS ||
        c->balance_ns < -DEEP_DEBT * (int64_t)step_ns(s, 0, 0))
        return false;
    if (s->n_with_drafts < PLAIN_EVERY)
        return true;
    s->n_with_drafts = 0;
    return false;
}

/* Return the most rows that a sequence's recurrent state may take in in a step with drafts. */
static uint32_t most_state_rows(const struct sched *s, const struct seq *seq)
{
    if (!kv_manager_has_states(s->kv))
        return UINT32_MAX;
    if (seq->item >= s->opt.undo_streams || s->opt.undo_rows == 0)
        return 1;
    return sched_min(s->opt.undo_rows, kv_manager_to_snapshot(s->kv, seq->n_done));
}

/* A sequence has at most one draft less than tokens left, because a step makes one token more than
 * it accepts drafts. */
uint32_t sched_most_drafts(const struct sched *s, const struct seq *seq)
{
    const struct request *r = seq->request;
    const uint32_t left = r->max_tokens - seq_n_generated(seq);
    const uint32_t room = r->max_known - seq->n_known;
    uint32_t most = sched_min(left, room);

    if (most == 0 || !r->drafts)
        return 0;
    most = sched_min(most - 1, DRAFT_MAX);
    most = sched_min(most, most_state_rows(s, seq) - 1);
    return sched_min(most, s->opt.prefill_chunk - 1);
}

static void propose(struct sched *s)
{
    const struct drafter *d = &s->opt.drafter;

    for (uint32_t i = 0; i < s->plan.n_items; i++) {
        struct seq *seq = s->item_seq[i];
        const uint32_t most = sched_most_drafts(s, seq);

        seq->draft = (struct draft){0};
        if (most > 0 && s->items[i].wants_token)
            seq->draft = d->propose(d->ud, seq->request, seq->n_known, most);
        assert(seq->draft.n <= most);
    }
}

static bool has_drafts(const struct sched *s)
{
    for (uint32_t i = 0; i < s->plan.n_items; i++)
        if (s->item_seq[i]->draft.n > 0)
            return true;
    return false;
}

/* ---- how many of them ---- */

struct choice {
    uint32_t taken[DRAFT_ROWS];     /* [item] number of the item's drafts that were added */
    uint32_t worth[DRAFT_ROWS];     /* [item] worth of the item's next draft; 0: there is none */
    uint8_t order[DRAFT_ROWS];      /* items in the order in which their drafts were added */
    uint32_t n;                     /* drafts added */
    uint64_t keys;                  /* positions that the added drafts read */
    uint64_t tokens;                /* tokens that the step yields, in DRAFT_TOKENs */
};

uint32_t sched_draft_rate(const struct sched *s, const struct seq *seq, enum draft_source source,
                          uint8_t fit)
{
    return draft_rates_permille(&seq->rates, &s->rates, source, fit);
}

/* Return the worth of the draft after the first n; `worth` is the worth of draft n (DRAFT_TOKEN if
 * n is 0). */
static uint32_t worth_of_next(const struct sched *s, const struct seq *seq, uint32_t n,
                              uint32_t worth)
{
    const struct draft *d = &seq->draft;

    if (n >= d->n)
        return 0;
    return (uint32_t)((uint64_t)worth * sched_draft_rate(s, seq, d->source[n], d->fit[n]) / 1000);
}

static void begin_choice(const struct sched *s, struct choice *c)
{
    memset(c, 0, sizeof(*c));
    c->tokens = (uint64_t)DRAFT_TOKEN * s->plan.n_items;
    for (uint32_t i = 0; i < s->plan.n_items; i++)
        c->worth[i] = worth_of_next(s, s->item_seq[i], 0, DRAFT_TOKEN);
}

/* Add the next draft of most worth; false: none is left. */
static bool add_best(const struct sched *s, struct choice *c)
{
    uint32_t best = 0;
    const struct seq *seq;

    for (uint32_t i = 1; i < s->plan.n_items; i++)
        if (c->worth[i] > c->worth[best])
            best = i;
    if (c->worth[best] == 0)
        return false;
    seq = s->item_seq[best];
    c->order[c->n++] = (uint8_t)best;
    c->tokens += c->worth[best];
    c->taken[best]++;
    c->keys += seq->n_known + c->taken[best];
    c->worth[best] = worth_of_next(s, seq, c->taken[best], c->worth[best]);
    return true;
}

/* step_ns() in microseconds, so that products with DRAFT_TOKEN fit into 64 bits. */
static uint64_t step_us(const struct sched *s, uint32_t n_drafts, uint64_t keys)
{
    return step_ns(s, n_drafts, keys) / 1000 + 1;
}

/* The most rows of a step: twice as many as were measured lately, so that a machine on which rows
 * are expensive does not have to compute many to show it. */
static uint32_t most_rows(const struct sched *s)
{
    const uint32_t seen = s->limits->drafts->most_seen, n = s->plan.n_items;

    return sched_min(DRAFT_ROWS, 2 * (seen > n ? seen : n));
}

/* Find the number of drafts, in the order of c->order, with which the step yields most tokens per
 * time; made_us, the time for making the guesses, is included. 0 where that is no clear gain. */
static struct draft_pace best_pace(const struct sched *s, struct choice *c, uint64_t made_us)
{
    const uint64_t plain = step_us(s, 0, 0), target = s->limits->target_us;
    const uint32_t percent = s->limits->drafts->balance_ns < 0 ? GAIN_IN_DEBT : GAIN_PERCENT;
    struct draft_pace best = {0, c->tokens * percent / 100, plain};

    while (s->plan.n_items + c->n < most_rows(s) && c->n < s->rows_left && add_best(s, c)) {
        const struct draft_pace p = {c->n, c->tokens, made_us + step_us(s, c->n, c->keys)};

        if (target > 0 && p.us > target && p.us > plain)
            break;
        if (sched_is_faster(&p, &best))
            best = p;
    }
    return best;
}

struct draft_pace sched_draft_pace(const struct sched *s, uint64_t made_us)
{
    struct choice c;

    begin_choice(s, &c);
    return best_pace(s, &c, made_us);
}

/* Cut each guess to the rows that are worth it. */
static void choose_drafts(struct sched *s)
{
    struct choice c;
    uint32_t n;

    begin_choice(s, &c);
    n = best_pace(s, &c, 0).n_drafts;
    for (uint32_t i = 0; i < s->plan.n_items; i++)
        s->item_seq[i]->draft.n = 0;
    for (uint32_t i = 0; i < n; i++)
        s->item_seq[c.order[i]]->draft.n++;
}

/* ---- in the plan ---- */

static void add_choice_rows(struct sched *s, struct plan_item *item, struct seq *seq)
{
    const uint32_t n = sched_min(seq->draft.n, s->rows_left);

    if (n == 0 || kv_manager_alloc(s->kv, &seq->kv, seq->n_done, seq->n_known + n) < 0) {
        seq->draft.n = 0;
        return;
    }
    seq->draft.n = item->n_drafts = n;
    item->n += n;
    s->plan.n_drafts += n;
    s->plan.n_tokens += n;
    s->rows_left -= n;
    s->draft_keys += (uint64_t)n * seq->n_known + n * (n + 1) / 2;
}

/* Predicted nanoseconds of the step and of making its guesses; 0: not known. */
static uint64_t predicted_ns(const struct sched *s)
{
    const struct draft_costs *c = s->limits->drafts;

    if (c == NULL || !c->is_known || s->plan.n_items + s->plan.n_drafts > DRAFT_ROWS)
        return 0;
    return step_ns(s, s->plan.n_drafts, s->draft_keys) + s->guess_ns;
}

/* Nanoseconds left until the step's target; without a target there is no limit. */
static uint64_t time_left_ns(const struct sched *s)
{
    const uint64_t target_ns = s->limits->target_us * 1000, ns = predicted_ns(s);

    if (target_ns == 0)
        return SCHED_NO_LIMIT;
    return ns < target_ns ? target_ns - ns : 0;
}

void sched_plan_drafts(struct sched *s)
{
    const bool takes_all = s->opt.drafter.takes_all;

    if (s->opt.drafter.propose == NULL || !has_streams_only(s) || !may_pay(s))
        return;
    s->draft_keys = s->guess_ns = 0;
    propose(s);
    if (s->opt.model.guess != NULL)
        sched_guess_by_model(s);
    if (has_drafts(s) && !takes_all)
        choose_drafts(s);
    for (uint32_t i = 0; i < s->plan.n_items; i++)
        add_choice_rows(s, &s->items[i], s->item_seq[i]);
    s->n_with_drafts += s->plan.n_drafts > 0;
    if (s->plan.n_drafts > 0)
        s->plan.predicted_ns = predicted_ns(s);
    if (s->opt.model.guess != NULL)
        sched_take_in_by_model(s, takes_all ? SCHED_NO_LIMIT : time_left_ns(s));
}

void sched_settle_drafts(struct sched *s, struct seq *seq, uint32_t n_accepted)
{
    const struct draft *d = &seq->draft;

    if (d->n == 0)
        return;
    s->drafts[d->source[0]].runs++;
    for (uint32_t i = 0; i < d->n; i++) {
        s->drafts[d->source[i]].drafted++;
        s->drafts[d->source[i]].accepted += i < n_accepted;
    }
    seq->n_drafted += seq->draft.n;
    seq->n_accepted += n_accepted;
    draft_rates_note(&seq->rates, &s->rates, &seq->draft, n_accepted);
    seq->draft.n = 0;
    kv_manager_truncate(s->kv, &seq->kv, seq->n_done);
}
