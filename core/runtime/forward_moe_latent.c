/* core/runtime/forward_moe_latent.c - experts whose input is narrower than x; see forward.h.
 *
 * experts_in maps a row to the n_moe_latent values that the experts take, and experts_out maps the
 * sum of their outputs back. The router and the shared expert take the row itself.
 */
#include "core/runtime/forward.h"

#include <string.h>

void moe_latent_in(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l)
{
    const struct product p = {
        .w = &l->experts_in, .out = r->moe_latent, .out_stride = r->moe_latent_stride};
    const struct input in = {r->norm, r->embd_stride, r->qrows, r->qrow_stride};

    if (matrix_exists(&l->experts_in))
        products(r, w, &p, 1, &in, r->batch->n_rows, RUNNER_ROUTE);
}

/* Sum up the experts of each row. The quantised rows of r->norm are no longer needed. */
static void sum_latent(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l)
{
    const size_t n = l->experts_out.n_in;
    uint32_t from, to;

    while (take_rows_of(r, w, r->batch->n_rows, &from, &to))
        for (uint32_t i = from; i < to; i++) {
            float *sum = r->moe_latent + i * r->moe_latent_stride;

            memset(sum, 0, n * sizeof(*sum));
            moe_add_experts(r, l, i, sum);
            if (is_quantised(&l->experts_out))
                quantise_row(r, i, sum, n);
        }
    end_region(r, w, RUNNER_DOWN);
}

void moe_latent_out(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l)
{
    const struct product p = {
        .w = &l->experts_out, .out = r->slot_out, .out_stride = r->embd_stride};
    const struct input in = {r->moe_latent, r->moe_latent_stride, r->qrows, r->qrow_stride};

    if (!matrix_exists(&l->experts_out))
        return;
    sum_latent(r, w, l);
    products(r, w, &p, 1, &in, r->batch->n_rows, RUNNER_DOWN);
}
