/* core/runtime/forward_projection.c - dense layers after the pooling; see forward.h.
 *
 * A pooled vector goes through the model's projections in place, in tiles of pools. They have no
 * biases, so a sum gives the same direction as its mean. Vectors of single tokens are left as they
 * are.
 */
#include "core/runtime/forward.h"

#include <string.h>

static void gather(struct runner *r, struct thread_pool_worker *w, uint32_t at, uint32_t n_pools)
{
    const struct matrix *first = &r->model->projections[0];
    const bool quantised = is_quantised(matrix_exists(first) ? first : &r->model->projections[1]);
    const size_t n = r->model->shape.n_embd;
    uint32_t from, to;

    while (take_rows_of(r, w, n_pools, &from, &to))
        for (uint32_t i = from; i < to; i++) {
            float *x = r->lrows + i * r->embd_stride;

            memcpy(x, pool_vector(r, &r->batch->pools[at + i]), n * sizeof(*x));
            if (quantised)
                quantise_row(r, i, x, n);
        }
    end_region(r, w, RUNNER_NORM);
}

/* Quantise the outputs of the first projection if the second takes quantised rows. */
static void quantise_wide(struct runner *r, struct thread_pool_worker *w, uint32_t n_pools)
{
    const struct matrix *second = &r->model->projections[1];
    uint32_t from, to;

    if (!is_quantised(second))
        return;
    while (take_rows_of(r, w, n_pools, &from, &to))
        for (uint32_t i = from; i < to; i++)
            quantise_row(r, i, r->wide_rows + i * r->wide_stride, second->n_in);
    end_region(r, w, RUNNER_NORM);
}

static void store(struct runner *r, struct thread_pool_worker *w, uint32_t at, uint32_t n_pools,
                  const struct input *made)
{
    uint32_t from, to;

    while (take_rows_of(r, w, n_pools, &from, &to))
        for (uint32_t i = from; i < to; i++) {
            const struct batch_pool *p = &r->batch->pools[at + i];

            if (p->next == 0 && p->sum != NULL)
                memcpy(p->sum, made->x + i * made->stride,
                       r->model->shape.n_embd * sizeof(*p->sum));
        }
    end_region(r, w, RUNNER_NORM);
}

void project_pools(struct runner *r, struct thread_pool_worker *w)
{
    const struct matrix *first = &r->model->projections[0], *second = &r->model->projections[1];
    const struct product wide = {.w = first, .out = r->wide_rows, .out_stride = r->wide_stride};
    const struct product out = {.w = second, .out = r->wide_out, .out_stride = r->wide_stride};

    if (r->model->shape.n_wide == 0)
        return;
    for (uint32_t at = 0; at < r->batch->n_pools; at += LOGIT_ROWS) {
        const uint32_t left = r->batch->n_pools - at, n = left < LOGIT_ROWS ? left : LOGIT_ROWS;
        struct input in = {r->lrows, r->embd_stride, r->qrows, r->qrow_stride};

        gather(r, w, at, n);
        if (matrix_exists(first)) {
            products(r, w, &wide, 1, &in, n, RUNNER_LOGITS);
            quantise_wide(r, w, n);
            in.x = r->wide_rows;
            in.stride = r->wide_stride;
        }
        if (matrix_exists(second)) {
            products(r, w, &out, 1, &in, n, RUNNER_LOGITS);
            in.x = r->wide_out;
            in.stride = r->wide_stride;
        }
        store(r, w, at, n, &in);
    }
}
