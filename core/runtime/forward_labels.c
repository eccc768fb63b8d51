/* core/runtime/forward_labels.c - label scores of pooled rows (classifiers); see forward.h.
 *
 * Pools go through the classifier in tiles, including those that want no labels: a step has few of
 * them.
 */
#include "core/runtime/forward.h"

#include <string.h>

static void gather(struct runner *r, struct thread_pool_worker *w, uint32_t at, uint32_t n_pools)
{
    const struct model_head *h = &r->model->head;
    const bool quantised = is_quantised(matrix_exists(&h->dense) ? &h->dense : &h->out);
    const size_t n = r->model->shape.n_embd;
    uint32_t from, to;

    while (take_rows_of(r, w, n_pools, &from, &to))
        for (uint32_t i = from; i < to; i++) {
            const struct batch_pool *p = &r->batch->pools[at + i];
            float *x = r->lrows + i * r->embd_stride;

            memcpy(x, pool_vector(r, p), n * sizeof(*x));
            if (p->scale != 1.0f)
                r->kern.scale(x, p->scale, n);
            if (quantised)
                quantise_row(r, i, x, n);
        }
    end_region(r, w, RUNNER_NORM);
}

void activate_dense(struct runner *r, struct thread_pool_worker *w, const struct model_head *h,
                    uint32_t n_rows)
{
    const size_t n = r->model->shape.n_embd;
    uint32_t from, to;

    while (take_rows_of(r, w, n_rows, &from, &to))
        for (uint32_t i = from; i < to; i++) {
            float *x = r->head_rows + i * r->embd_stride;

            if (h->dense_bias != NULL)
                r->kern.add(x, h->dense_bias, 1.0f, n);
            if (r->model->shape.head_kind == HEAD_MEAN)
                r->kern.act[KERN_ACT_GELU_ERF](x, x, NULL, n);
            else
                r->kern.cap(x, 1.0f, n); /* tanh */
            norm_row(r, x, x, &h->norm, n);
            if (is_quantised(&h->out))
                quantise_row(r, i, x, n);
        }
    end_region(r, w, RUNNER_NORM);
}

static void store(struct runner *r, struct thread_pool_worker *w, uint32_t at, uint32_t n_pools)
{
    const size_t n = r->model->shape.n_labels;
    uint32_t from, to;

    while (take_rows_of(r, w, n_pools, &from, &to))
        for (uint32_t i = from; i < to; i++) {
            float *labels = r->batch->pools[at + i].labels;

            if (labels == NULL)
                continue;
            memcpy(labels, r->head_out + i * r->label_stride, n * sizeof(*labels));
            if (r->model->head.out_bias != NULL)
                r->kern.add(labels, r->model->head.out_bias, 1.0f, n);
            if (r->model->shape.head_kind == HEAD_SINGLE)
                r->kern.cap(labels, 1.0f, n); /* tanh */
        }
    end_region(r, w, RUNNER_NORM);
}

void label_pools(struct runner *r, struct thread_pool_worker *w)
{
    const struct model_head *h = &r->model->head;
    const struct product dense = {
        .w = &h->dense, .out = r->head_rows, .out_stride = r->embd_stride};
    const struct product out = {.w = &h->out, .out = r->head_out, .out_stride = r->label_stride};
    const bool is_deep = matrix_exists(&h->dense);
    const struct input pooled = {r->lrows, r->embd_stride, r->qrows, r->qrow_stride};
    const struct input deep = {is_deep ? r->head_rows : r->lrows, r->embd_stride, r->qrows,
                               r->qrow_stride};

    if (!r->batch->has_labels)
        return;
    for (uint32_t at = 0; at < r->batch->n_pools; at += LOGIT_ROWS) {
        const uint32_t left = r->batch->n_pools - at, n = left < LOGIT_ROWS ? left : LOGIT_ROWS;

        gather(r, w, at, n);
        if (is_deep) {
            products(r, w, &dense, 1, &pooled, n, RUNNER_LOGITS);
            activate_dense(r, w, h, n);
        }
        products(r, w, &out, 1, &deep, n, RUNNER_LOGITS);
        store(r, w, at, n);
    }
}
