/* scheduler/drafts/draft_costs.c - see draft_costs.h. */
#include "scheduler/drafts/draft_costs.h"

#define LEVEL_GAIN 0.1     /* of a step's relative error, for the level */
#define SHARE_GAIN 0.1     /* and for the share of its number of rows */
#define CLIP 0.5           /* a step that was interrupted counts no more than half as much again */
#define UNSEEN_ROW 0.03    /* of the level: a row beyond the most that were seen */
#define ALLOWANCE (1.0 / 80)
#define MOST_SAVED 8       /* steps of one row: the balance is never higher */

/* The nearest numbers of rows that were seen, at or below n and above it; 0: none. */
static void seen_around(const struct draft_cost_model *m, uint32_t n, uint32_t *below, uint32_t *above)
{
    *below = n;
    while (*below > 0 && m->share[*below] <= 0)
        --*below;
    *above = n + 1;
    while (*above <= DRAFT_ROWS && m->share[*above] <= 0)
        ++*above;
    if (*above > DRAFT_ROWS)
        *above = 0;
}

static double share_of(const struct draft_cost_model *m, uint32_t n)
{
    uint32_t below, above;

    seen_around(m, n, &below, &above);
    if (below == n)
        return m->share[n];
    if (below == 0)
        return above > 0 ? m->share[above] : 1;
    if (above == 0)
        return m->share[below] + UNSEEN_ROW * (n - below);
    return m->share[below] +
           (m->share[above] - m->share[below]) * (n - below) / (above - below);
}

static double clip(double error)
{
    return error > CLIP ? CLIP : error < -CLIP ? -CLIP : error;
}

static double without(uint64_t us, uint64_t keys_ns)
{
    const double ns = (double)us * 1e3 - (double)keys_ns;

    return ns > 1000 ? ns : 1000; /* the clock's resolution */
}

void draft_costs_observe(struct draft_cost_model *m, uint32_t n_rows, uint64_t us, uint64_t keys_ns)
{
    const double ns = without(us, keys_ns);
    double error;

    if (n_rows == 0 || n_rows > DRAFT_ROWS)
        return;
    if (m->level <= 0)
        m->level = ns / (1 + UNSEEN_ROW * (n_rows - 1));
    if (m->share[n_rows] <= 0) {
        m->share[n_rows] = ns / m->level;
        return;
    }
    error = clip(ns / (m->level * m->share[n_rows]) - 1);
    m->level *= 1 + LEVEL_GAIN * error;
    m->share[n_rows] *= 1 + SHARE_GAIN * error;
}

static double lesser(double a, double b)
{
    return a < b ? a : b;
}

void draft_costs_settle(struct draft_cost_model *m, uint32_t n_streams, uint32_t n_tokens, uint64_t us,
                        uint64_t keys_ns, bool has_drafts)
{
    const double plain = m->level * share_of(m, n_streams) + (double)keys_ns;

    if (n_streams == 0 || n_streams > DRAFT_ROWS || m->level <= 0)
        return;
    m->balance += ALLOWANCE * plain;
    if (has_drafts)
        m->balance += plain * n_tokens / n_streams - (double)us * 1e3;
    m->balance = lesser(m->balance, MOST_SAVED * plain);
}

struct draft_costs draft_costs_get(const struct draft_cost_model *m)
{
    struct draft_costs c = {.is_known = m->level > 0, .balance_ns = (int64_t)m->balance};

    for (uint32_t n = 1; n <= DRAFT_ROWS && c.is_known; n++) {
        c.rows_ns[n] = (uint64_t)(m->level * share_of(m, n));
        if (c.rows_ns[n] < c.rows_ns[n - 1])
            c.rows_ns[n] = c.rows_ns[n - 1];
    }
    return c;
}

uint64_t draft_costs_ns(const struct draft_costs *c, const struct step_costs *costs,
                        const struct step_work *work, uint32_t n_drafts, uint64_t draft_keys)
{
    const struct step_work keys = {.kv_decode = work->kv_decode, .kv_prefill = draft_keys};

    return c->rows_ns[work->n_decode + n_drafts] + step_costs_keys_ns(costs, &keys);
}
