/* core/runtime/forward_moe_apart.c - mixtures of experts beside a dense net that has norms of its
 * own; see forward.h.
 *
 * x goes through three norms: the dense net's, the router's and the experts'. The outputs of the
 * net and of the experts are normed separately before they are added up.
 */
#include "core/runtime/forward.h"

#include <string.h>

/* delta = the normed output of the dense net. */
static void keep_dense(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l)
{
    const size_t n = r->model->shape.n_embd;
    uint32_t from, to;

    while (take_rows_of(r, w, r->batch->n_rows, &from, &to))
        for (uint32_t i = from; i < to; i++) {
            float *out = r->ffn_out + i * r->embd_stride;

            if (l->ffn.down_bias != NULL)
                r->kern.add(out, l->ffn.down_bias, 1.0f, n);
            norm_row(r, r->delta + i * r->embd_stride, out, &l->beside_post_norm, n);
        }
    end_region(r, w, RUNNER_NORM);
}

/* Norm the sum of the experts and add the dense net's output to it. */
static void join_experts(struct runner *r, struct thread_pool_worker *w,
                         const struct model_layer *l)
{
    const size_t n = r->model->shape.n_embd;
    uint32_t from, to;

    while (take_rows_of(r, w, r->batch->n_rows, &from, &to))
        for (uint32_t i = from; i < to; i++) {
            float *out = r->ffn_out + i * r->embd_stride;

            norm_row(r, out, out, &l->experts_post_norm, n);
            r->kern.add(out, r->delta + i * r->embd_stride, 1.0f, n);
        }
    end_region(r, w, RUNNER_NORM);
}

static void moe_apart(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l)
{
    const struct residual none[2] = {{0}};

    feed_forward(r, w, l);
    keep_dense(r, w, l);
    residual_norm(r, w, none, &l->router_norm, is_quantised(&l->router));
    moe_choose(r, w, l);
    residual_norm(r, w, none, &l->experts_norm,
                  is_quantised(&l->experts.gate) || is_quantised(&l->experts.up));
    moe_run(r, w, l);
    join_experts(r, w, l);
}

void moe(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l)
{
    if (l->experts_norm.weight != NULL) {
        moe_apart(r, w, l);
        return;
    }
    moe_choose(r, w, l);
    moe_run(r, w, l);
}
