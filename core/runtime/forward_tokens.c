/* core/runtime/forward_tokens.c - nets that read each token's state by itself; see forward.h.
 *
 * The rows of a pool are normed before, and lie together in r->norm. They go through the head in
 * tiles of LOGIT_ROWS rows; a row's outputs do not depend on the tile that it is in. Every thread
 * runs over all pools, because the products of a tile are shared.
 */
#include "core/runtime/forward.h"

#include <string.h>

static void quantise_tokens(struct runner *r, struct thread_pool_worker *w, const float *x,
                            uint32_t n_rows)
{
    uint32_t from, to;

    while (take_rows_of(r, w, n_rows, &from, &to))
        for (uint32_t i = from; i < to; i++)
            quantise_row(r, i, x + i * r->embd_stride, r->model->shape.n_embd);
    end_region(r, w, RUNNER_NORM);
}

/* Add the outputs and the bias to the vectors of the tokens, the first of which is `first`. */
static void store_tokens(struct runner *r, struct thread_pool_worker *w, const struct batch_pool *p,
                         uint32_t first, uint32_t n_rows)
{
    const struct model_head *h = &r->model->token_heads[p->token_head];
    const size_t n = r->model->shape.n_token_out[p->token_head];
    uint32_t from, to;

    while (take_rows_of(r, w, n_rows, &from, &to))
        for (uint32_t i = from; i < to; i++) {
            float *out = p->sum + (first + i) * p->next;

            r->kern.add(out, r->head_out + i * r->label_stride, 1.0f, n);
            if (h->out_bias != NULL)
                r->kern.add(out, h->out_bias, 1.0f, n);
        }
    end_region(r, w, RUNNER_NORM);
}

static void run_token_tile(struct runner *r, struct thread_pool_worker *w,
                           const struct batch_pool *p, uint32_t first, uint32_t n_rows)
{
    const struct model_head *h = &r->model->token_heads[p->token_head];
    const bool is_deep = matrix_exists(&h->dense);
    const float *x = r->norm + (p->row0 + first) * r->embd_stride;
    const struct product dense = {
        .w = &h->dense, .out = r->head_rows, .out_stride = r->embd_stride};
    const struct product out = {.w = &h->out, .out = r->head_out, .out_stride = r->label_stride};
    const struct input tokens = {x, r->embd_stride, r->qrows, r->qrow_stride};
    const struct input deep = {is_deep ? r->head_rows : x, r->embd_stride, r->qrows,
                               r->qrow_stride};

    if (is_quantised(is_deep ? &h->dense : &h->out))
        quantise_tokens(r, w, x, n_rows);
    if (is_deep) {
        products(r, w, &dense, 1, &tokens, n_rows, RUNNER_LOGITS);
        activate_dense(r, w, h, n_rows);
    }
    products(r, w, &out, 1, &deep, n_rows, RUNNER_LOGITS);
    store_tokens(r, w, p, first, n_rows);
}

void run_token_heads(struct runner *r, struct thread_pool_worker *w)
{
    if (!r->batch->has_token_heads)
        return;
    for (uint32_t k = 0; k < r->batch->n_pools; k++) {
        const struct batch_pool *p = &r->batch->pools[k];

        for (uint32_t at = 0; p->token_head != TOKEN_HEAD_NONE && at < p->n_row; at += LOGIT_ROWS) {
            const uint32_t left = p->n_row - at;

            run_token_tile(r, w, p, at, left < LOGIT_ROWS ? left : LOGIT_ROWS);
        }
    }
}
