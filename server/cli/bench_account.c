/* server/cli/bench_account.c - see bench_impl.h: computes the arithmetic and the bytes of a step.
 *
 * It visits the matrices of the model, as a step does, and adds up operations, the least time for
 * them at the measured peak, and the bytes of weights, keys and values that must be read.
 */
#include "server/cli/bench_impl.h"

#include "core/model/model.h"
#include "kvcache/kv_store.h"

#include <math.h>
#include <stdlib.h>

/* Return the expected number of experts that `rows` rows choose, if all experts are equally
 * likely. */
static double experts_read(const struct model_shape *s, double rows)
{
    return s->n_expert * (1 - pow(1 - (double)s->n_expert_used / s->n_expert, rows));
}

/* Visit the products of a layer for `rows` rows, in steps of `step_rows`. */
static void each_of_layer(const struct model_shape *s, const struct model_layer *l, double rows,
                          double step_rows, bench_product_fn visit, void *ud)
{
    const struct matrix *dense[] = {
        &l->q,        &l->k,         &l->v,         &l->q_down,    &l->key_up,
        &l->value_up, &l->attn_gate, &l->attn_out,  &l->router,    &l->ffn.gate,
        &l->ffn.up,   &l->ffn.down,  &l->shared_gate, &l->mix.in,  &l->mix.q,
        &l->mix.k,    &l->mix.v,     &l->mix.z,     &l->mix.z_low, &l->mix.alpha,
        &l->mix.alpha_low, &l->mix.beta, &l->mix.x, &l->mix.dt,    &l->mix.out,
        &l->experts_in, &l->experts_out};
    const struct matrix *experts[] = {&l->experts.gate, &l->experts.up, &l->experts.down};

    for (size_t j = 0; j < sizeof(dense) / sizeof(*dense); j++)
        if (matrix_exists(dense[j]))
            visit(ud, dense[j], rows * dense[j]->n_each, dense[j]->n_each);
    for (size_t j = 0; s->n_expert > 0 && j < sizeof(experts) / sizeof(*experts); j++)
        if (matrix_exists(experts[j]))
            visit(ud, experts[j], rows * s->n_expert_used, experts_read(s, step_rows));
}

void bench_each_product(const struct model *m, double rows, double outputs, double n_steps,
                        bench_product_fn visit, void *ud)
{
    for (uint32_t i = 0; i < m->shape.n_layer; i++)
        each_of_layer(&m->shape, &m->layers[i], rows, rows / n_steps, visit, ud);
    visit(ud, &m->output, outputs, 1);
}

struct account {
    const struct limits *limits;
    struct bench_result *result;
};

/* Add a product's operations, the least time for them, and its bytes. */
static void add_product(void *ud, const struct matrix *m, double rows, double n_read)
{
    const struct account *a = ud;
    const double ops = 2 * rows * m->n_in * m->n_out;

    a->result->ops += ops;
    a->result->limit_s += ops / 1e9 / a->limits->gops[kern_weight_product(m->type)];
    a->result->read_bytes += n_read * (double)m->n_panels * (double)m->panel_bytes;
}

void bench_account(const struct bench *b, struct bench_result *r, double rows, double outputs,
                   double n_steps, double kv_tokens)
{
    struct account a = {&b->report.limits, r};
    const struct model *m = b->e.model;
    uint32_t n_attention = 0;

    bench_each_product(m, rows, outputs, n_steps, add_product, &a);
    for (uint32_t i = 0; i < m->shape.n_layer; i++)
        n_attention += m->layers[i].has_attention ? 1 : 0;
    r->read_bytes *= n_steps;
    if (n_attention > 0)
        r->read_bytes += kv_tokens * (double)kv_store_block_bytes(&b->e.kv->shape) / BLOCK_TOKENS *
                         n_attention / b->e.kv->shape.n_layer;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

void bench_begin_timing(struct bench *b)
{
    b->before = *runner_times(b->e.runner);
}

void bench_add_times(struct bench *b, struct bench_result *r)
{
    const struct runner_times *now = runner_times(b->e.runner);

    for (int i = 0; i < RUNNER_N_PART; i++)
        r->part_s[i] += (double)(now->ns[i] - b->before.ns[i]) * 1e-9;
    b->before = *now;
}

void bench_note(struct bench *b, struct bench_result *r, double *seconds, uint32_t n)
{
    qsort(seconds, n, sizeof(*seconds), by_value);
    r->n_samples = n;
    r->least_s = seconds[0];
    r->median_s = seconds[n / 2];
    r->most_s = seconds[n - 1];
    b->report.results[b->report.n_results++] = *r;
}
