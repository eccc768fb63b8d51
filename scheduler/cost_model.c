/* scheduler/cost_model.c - see cost_model.h.
 *
 * Each step minimises, over coefficients >= 0,
 *     (coef - old)' M (coef - old) + (error - x' (coef - old))^2
 * where x are the features divided by the predicted time, so that all errors are relative, and M
 * is what was known before, faded. M fades along a feature only when the feature occurs: a thousand
 * decode steps do not wipe out what a prompt row costs.
 */
#include "scheduler/cost_model.h"

#include <string.h>

#define ROOT_KEEP 0.99749686716          /* sqrt(0.995): old information loses 0.5 % a step */
#define ROOT_KEEP_DRIFTING 0.94868329805 /* sqrt(0.9): while errors drift, 10 % a step */
#define DRIFT 0.7         /* |mean error| above this share of mean |error|: all of one sign */
#define USELESS 0.5       /* above this usual error M fades along all features */
#define CLIP 3.0          /* an error counts up to so many times the usual one */
#define MIN_SPREAD 0.02   /* the usual error is taken for at least 2 % */
/* Stiffness that keeps `info` well-conditioned when features vary together. Keys are a hundred
 * times stiffer than rows: where streams of one length leave open whether their number or their
 * keys explain a step, the number does. */
#define RIDGE_ROW 1e-4
#define RIDGE_KEY 1e-2
#define MIN_STEPS 4
#define MANY_STEPS 32 /* known after so many steps even without a decode row */
#define MIN_ROWS 16 /* prompt rows in a step that tell what a long prompt will cost */
#define FORGOTTEN 0.98     /* factor for a store's time after a refusal: half of it after 34 */
#define CAUTION 1.5       /* factor for prompt rows while none was seen beside decode rows */

/* Largest values handed out: no sum of step_costs_ns overflows with them up to 2^20 positions. */
#define MAX_STEP_NS 1e15
#define MAX_ROW_NS 1e11
#define MAX_KV_PS 1e10

/* kv * ps / 1000 without overflow in between. */
static uint64_t kv_ns(uint64_t kv, uint64_t ps)
{
    return kv / 1000 * ps + kv % 1000 * ps / 1000;
}

uint64_t step_costs_keys_ns(const struct step_costs *c, const struct step_work *w)
{
    return kv_ns(w->kv_decode, c->kv_decode_ps) + kv_ns(w->kv_prefill, c->kv_prefill_ps);
}

uint64_t step_costs_ns(const struct step_costs *c, const struct step_work *w)
{
    return c->step_ns + w->n_prefill * c->prefill_ns + w->n_decode * c->decode_ns +
           step_costs_keys_ns(c, w);
}

uint64_t step_costs_chunk_ns(const struct step_costs *c, uint32_t pos, uint32_t n)
{
    const uint64_t kv = (uint64_t)n * pos + (uint64_t)n * ((uint64_t)n + 1) / 2;

    return n * c->prefill_ns + kv_ns(kv, c->kv_prefill_ps);
}

uint32_t step_costs_chunk(const struct step_costs *c, uint32_t pos, uint32_t max, uint64_t room_ns)
{
    uint32_t fits = 0, beyond = max;

    if (step_costs_chunk_ns(c, pos, max) <= room_ns)
        return max;
    while (beyond - fits > 1) {
        const uint32_t middle = fits + (beyond - fits) / 2;

        if (step_costs_chunk_ns(c, pos, middle) <= room_ns)
            fits = middle;
        else
            beyond = middle;
    }
    return fits;
}

/* ---- learning ---- */

void cost_init(struct cost_model *m)
{
    memset(m, 0, sizeof(*m));
    m->spread = 0.5;
}

void cost_expect_no_streams(struct cost_model *m)
{
    m->has_decode = m->has_mixed = true;
}

static void features(const struct step_work *w, double *x)
{
    x[0] = 1;
    x[1] = w->n_prefill;
    x[2] = w->n_decode;
    x[3] = (double)w->kv_decode;
    x[4] = (double)w->kv_prefill;
}

static double predict(const struct cost_model *m, const double *x)
{
    double ns = 0;

    for (int i = 0; i < COST_TERMS; i++)
        ns += m->coef[i] * x[i];
    return ns;
}

static double magnitude(double v)
{
    return v < 0 ? -v : v;
}

/* Clip the error to CLIP usual ones; the running means take in the clipped one too. */
static double clip(struct cost_model *m, double error)
{
    const double usual = m->spread > MIN_SPREAD ? m->spread : MIN_SPREAD;
    const double most = CLIP * usual;

    if (error > most)
        error = most;
    if (error < -most)
        error = -most;
    m->spread += (magnitude(error) - m->spread) / 32;
    m->drift += (error - m->drift) / 8;
    return error;
}

static bool is_drifting(const struct cost_model *m)
{
    const double usual = m->spread > MIN_SPREAD ? m->spread : MIN_SPREAD;

    return m->spread > USELESS || magnitude(m->drift) > DRIFT * usual;
}

/* Fade M along the features that occur (x != 0), then add this step's information. */
static void learn_info(struct cost_model *m, const double *x, bool drifting)
{
    const double root = drifting ? ROOT_KEEP_DRIFTING : ROOT_KEEP;
    const double rest = m->spread > USELESS ? root : 1;

    for (int i = 0; i < COST_TERMS; i++) {
        for (int j = 0; j < COST_TERMS; j++) {
            m->info[i][j] *= (x[i] > 0 ? root : rest) * (x[j] > 0 ? root : rest);
            m->info[i][j] += x[i] * x[j];
        }
        m->info[i][i] += (i < 3 ? RIDGE_ROW : RIDGE_KEY) * x[i] * x[i];
    }
}

/* Solve a * delta = b in the coefficients that are free; the others have their delta already.
 * Gauss without pivoting: `a` is symmetric and positive definite. */
static void solve(double a[COST_TERMS][COST_TERMS], double *b, const bool *is_free, double *delta)
{
    for (int k = 0; k < COST_TERMS; k++) {
        if (!is_free[k])
            for (int i = 0; i < COST_TERMS; i++)
                b[i] -= a[i][k] * delta[k];
    }
    for (int k = 0; k < COST_TERMS; k++)
        for (int i = k + 1; is_free[k] && i < COST_TERMS; i++) {
            const double f = a[i][k] / a[k][k];

            for (int j = k; is_free[i] && j < COST_TERMS; j++)
                a[i][j] -= f * a[k][j];
            b[i] -= f * b[k];
        }
    for (int k = COST_TERMS - 1; k >= 0; k--) {
        if (!is_free[k])
            continue;
        delta[k] = b[k];
        for (int j = k + 1; j < COST_TERMS; j++)
            delta[k] -= is_free[j] ? a[k][j] * delta[j] : 0;
        delta[k] /= a[k][k];
    }
}

/* Update the coefficients. Those that would fall below zero are set to zero, and the others are
 * solved again. */
static void learn_coef(struct cost_model *m, const double *x, double error)
{
    bool is_free[COST_TERMS], again = true;
    double delta[COST_TERMS] = {0};

    for (int i = 0; i < COST_TERMS; i++)
        is_free[i] = m->info[i][i] > 0;
    while (again) {
        double a[COST_TERMS][COST_TERMS], b[COST_TERMS];

        memcpy(a, m->info, sizeof(a));
        for (int i = 0; i < COST_TERMS; i++)
            b[i] = x[i] * error;
        solve(a, b, is_free, delta);
        again = false;
        for (int i = 0; i < COST_TERMS; i++)
            if (is_free[i] && m->coef[i] + delta[i] < 0) {
                delta[i] = -m->coef[i];
                is_free[i] = false;
                again = true;
            }
    }
    for (int i = 0; i < COST_TERMS; i++)
        m->coef[i] = m->coef[i] + delta[i] > 0 ? m->coef[i] + delta[i] : 0;
}

static bool cost_is_known(const struct cost_model *m)
{
    return m->n_steps >= (m->has_decode ? MIN_STEPS : MANY_STEPS) && m->has_prefill;
}

double cost_observe(struct cost_model *m, const struct step_work *w, uint64_t us)
{
    const double ns = us > 0 ? (double)us * 1e3 : 500; /* below the clock's resolution */
    const bool was_known = cost_is_known(m);
    double x[COST_TERMS], predicted, scale, error;

    features(w, x);
    predicted = predict(m, x);
    scale = was_known && predicted > ns / 4 ? predicted : was_known ? ns / 4 : ns;
    for (int i = 0; i < COST_TERMS; i++)
        x[i] /= scale;
    error = (ns - predicted) / scale;
    if (was_known)
        error = clip(m, error);
    learn_info(m, x, was_known && is_drifting(m));
    learn_coef(m, x, error);
    m->n_steps++;
    m->has_prefill |= w->n_prefill >= MIN_ROWS;
    m->has_decode |= w->n_decode > 0;
    m->has_mixed |= w->n_prefill > 0 && w->n_decode > 0;
    return was_known ? magnitude(ns - predicted) / ns : -1;
}

static void add_to_mean(double *mean, double ns)
{
    if (*mean == 0)
        *mean = ns;
    if (ns > 4 * *mean) /* interrupted, or much slower now: the next ones will show which */
        ns = 4 * *mean;
    *mean += (ns - *mean) / 8;
}

void cost_observe_swap(struct cost_model *m, uint32_t n_blocks, uint64_t us, bool file)
{
    if (n_blocks > 0)
        add_to_mean(file ? &m->file_ns : &m->swap_ns, (double)us * 1e3 / n_blocks);
}

void cost_observe_store(struct cost_model *m, uint64_t us)
{
    add_to_mean(&m->fetch_delay_ns, (double)us * 1e3);
}

void cost_observe_fetch(struct cost_model *m, uint32_t n_blocks, uint64_t us)
{
    if (n_blocks > 0)
        add_to_mean(&m->fetch_ns, (double)us * 1e3 / n_blocks);
}

void cost_forget_fetch(struct cost_model *m)
{
    m->fetch_ns *= FORGOTTEN;
    m->fetch_delay_ns *= FORGOTTEN;
}

static uint64_t rounded(double v, double most)
{
    return (uint64_t)((v < most ? v : most) + 0.5);
}

struct step_costs cost_get(const struct cost_model *m)
{
    const double caution = m->has_mixed ? 1 : CAUTION;
    struct step_costs c = {
        .swap_ns = rounded(m->swap_ns, MAX_ROW_NS),
        .file_ns = rounded(m->file_ns, MAX_ROW_NS),
        .fetch_ns = rounded(m->fetch_ns, MAX_ROW_NS),
        .fetch_delay_ns = rounded(m->fetch_delay_ns, MAX_ROW_NS),
    };

    if (!cost_is_known(m))
        return c;
    c.is_known = true;
    c.step_ns = rounded(m->coef[0], MAX_STEP_NS);
    c.prefill_ns = rounded(m->coef[1] * caution, MAX_ROW_NS);
    c.decode_ns = rounded(m->coef[2], MAX_ROW_NS);
    c.kv_decode_ps = rounded(m->coef[3] * 1e3, MAX_KV_PS);
    c.kv_prefill_ps = rounded(m->coef[4] * 1e3 * caution, MAX_KV_PS);
    return c;
}
