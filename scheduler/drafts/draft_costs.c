/* scheduler/drafts/draft_costs.c - see draft_costs.h.
 *
 * share[n] is what a step of n rows takes as a multiple of `level`, a step of one row. A step
 * corrects both by part of its relative error: down quickly, up slowly, because a step that took
 * too long may have been interrupted. A share counts as seen for a number of steps that grows with
 * how often it was measured; share_of() interpolates between the seen ones and extrapolates beyond
 * the largest.
 */
#include "scheduler/drafts/draft_costs.h"

#define GAIN_DOWN 0.25     /* part of a step's relative error that corrects level and share */
#define GAIN_UP 0.05       /* the same part if the step took longer: it may have been interrupted */
#define CLIP 0.5           /* a relative error counts for at most this */
#define UNSEEN_ROW 0.03    /* least assumed cost of another row, in steps of one row */
#define FIRST_CLIP 0.75    /* CLIP for the first FEW_SEEN steps with a number of rows */
#define FEW_SEEN 6         /* number of first steps, which all have the same weight */
#define MEMORY 64          /* steps after which a number of rows seen once counts as not seen; seen
                            * twice four times as long, more often sixteen times */

static bool is_seen(const struct draft_cost_model *m, uint32_t n)
{
    static const uint64_t memory[] = {0, MEMORY, 4 * MEMORY, 16 * MEMORY};

    return m->n_steps - m->seen[n] < memory[m->n_seen[n] < 3 ? m->n_seen[n] : 3];
}

/* Find the nearest number of rows that was seen, from n downwards (step -1) or upwards (1); 0:
 * none. */
static uint32_t seen_from(const struct draft_cost_model *m, uint32_t n, int step)
{
    while (n > 0 && n <= DRAFT_ROWS && !is_seen(m, n))
        n += (uint32_t)step;
    return n <= DRAFT_ROWS ? n : 0;
}

/* Return the mean share of a further row between the smallest number of rows that was seen and n,
 * the largest. */
static double slope(const struct draft_cost_model *m, uint32_t n)
{
    const uint32_t first = seen_from(m, 1, 1);
    const double s = first < n ? (m->share[n] - m->share[first]) / (n - first) : 0;

    return s > UNSEEN_ROW ? s : UNSEEN_ROW;
}

/* Return the share of n rows: interpolated between two seen numbers, extrapolated beyond the
 * largest by the mean slope. */
static double share_of(const struct draft_cost_model *m, uint32_t n)
{
    const uint32_t below = seen_from(m, n, -1), above = seen_from(m, n + 1, 1);

    if (below == n)
        return m->share[n];
    if (below == 0)
        return above > 0 ? m->share[above] : 1;
    if (above > 0)
        return m->share[below] +
               (m->share[above] - m->share[below]) * (n - below) / (above - below);
    return m->share[below] + (n - below) * slope(m, below);
}

static double clip(double error)
{
    return error > CLIP ? CLIP : error < -CLIP ? -CLIP : error;
}

static void learn(double *value, double error)
{
    *value *= 1 + (error < 0 ? GAIN_DOWN : GAIN_UP) * error;
}

/* Average the first few steps with n_rows and the assumption before them, all of equal weight: one
 * of them may have been interrupted. */
static void learn_first(struct draft_cost_model *m, uint32_t n_rows, double error)
{
    const double up_to = error > FIRST_CLIP ? FIRST_CLIP : error;

    m->share[n_rows] *= 1 + up_to / (1 + ++m->n_seen[n_rows]);
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
    if (m->n_seen[n_rows] == 0)
        m->share[n_rows] = share_of(m, n_rows);
    m->seen[n_rows] = ++m->n_steps;
    error = ns / (m->level * m->share[n_rows]) - 1;
    learn(&m->level, clip(error));
    if (m->n_seen[n_rows] >= FEW_SEEN)
        learn(&m->share[n_rows], clip(error));
    else
        learn_first(m, n_rows, error);
}

uint32_t draft_costs_most_seen(const struct draft_cost_model *m)
{
    return seen_from(m, DRAFT_ROWS, -1);
}

double draft_costs_rows(const struct draft_cost_model *m, uint32_t n_rows)
{
    return m->level > 0 ? m->level * share_of(m, n_rows) : 0;
}

bool draft_costs_fill(const struct draft_cost_model *m, uint64_t ns[DRAFT_ROWS + 1])
{
    for (uint32_t n = DRAFT_ROWS; n >= 1 && m->level > 0; n--) {
        ns[n] = (uint64_t)draft_costs_rows(m, n);
        if (n < DRAFT_ROWS && ns[n] > ns[n + 1])
            ns[n] = ns[n + 1];
    }
    ns[0] = 0;
    return m->level > 0;
}
