/* core/runtime/forward_per_layer.c - per-layer embeddings: each layer gets its token once more; see
 * forward.h.
 *
 * A second embedding has n_per_layer values for each token and layer. A matrix makes as many values
 * from the first embedding, normed for each layer. Both together are the layer's second input:
 * (norm(in(x) / sqrt(n_embd)) + row * sqrt(n_per_layer)) / sqrt(2). A layer ends with x +=
 * norm(out(act(gate(x)) * input)) (Gemma 3n's and Gemma 4's published code).
 */
#include "core/runtime/forward.h"

#include <math.h>
#include <string.h>

#define ROOT_HALF 0.70710678f

/* Quantise the embeddings if the matrix takes quantised rows. */
static void quantise_embedding(struct runner *r, struct thread_pool_worker *w)
{
    uint32_t from, to;

    if (!is_quantised(&r->model->per_layer_in))
        return;
    while (take_rows_of(r, w, r->batch->n_rows, &from, &to))
        for (uint32_t i = from; i < to; i++)
            quantise_row(r, i, r->x + i * r->embd_stride, r->model->shape.n_embd);
    end_region(r, w, RUNNER_EMBED);
}

/* Return the second embedding's row of a token, for all layers. */
static const float *row_of(struct runner *r, const struct thread_pool_worker *w, int32_t id)
{
    const struct matrix *m = &r->model->per_layer_embed;
    float *row = r->per_layer_row + (size_t)w->index * r->per_layer_stride;
    const uint32_t i = (uint32_t)id;

    kern_unpack_row(m->type, matrix_panel(m, 0, i / KERN_LANES), i % KERN_LANES, row,
                    m->n_in);
    return row;
}

static void finish_input(struct runner *r, const struct thread_pool_worker *w, uint32_t row)
{
    const struct model_shape *s = &r->model->shape;
    const size_t n = s->n_per_layer, all = (size_t)s->n_layer * n;
    float *x = r->per_layer + row * r->per_layer_stride;

    r->kern.scale(x, r->per_layer_scales[0], all);
    for (size_t i = 0; i < all; i += n)
        norm_row(r, x + i, x + i, &r->model->per_layer_norm, n);
    r->kern.add(x, row_of(r, w, r->batch->ids[row]), r->per_layer_scales[1], all);
    r->kern.scale(x, ROOT_HALF, all);
}

void per_layer_inputs(struct runner *r, struct thread_pool_worker *w)
{
    const struct product p = {
        .w = &r->model->per_layer_in, .out = r->per_layer, .out_stride = r->per_layer_stride};
    const struct input in = {r->x, r->embd_stride, r->qrows, r->qrow_stride};
    uint32_t from, to;

    quantise_embedding(r, w);
    products(r, w, &p, 1, &in, r->batch->n_rows, RUNNER_EMBED);
    while (take_rows_of(r, w, r->batch->n_rows, &from, &to))
        for (uint32_t i = from; i < to; i++)
            finish_input(r, w, i);
    end_region(r, w, RUNNER_EMBED);
}

/* Multiply act(gate x) by the layer's input. */
static void gate_input(struct runner *r, struct thread_pool_worker *w, uint32_t layer)
{
    const struct model_shape *s = &r->model->shape;
    const bool quantised = is_quantised(&r->model->layers[layer].per_layer_out);
    const size_t n = s->n_per_layer;
    uint32_t from, to;

    while (take_rows_of(r, w, r->batch->n_rows, &from, &to))
        for (uint32_t i = from; i < to; i++) {
            float *gate = r->gate + i * r->ff_stride;

            r->kern.act[s->act](gate, gate, r->per_layer + i * r->per_layer_stride + layer * n, n);
            if (quantised)
                quantise_row(r, i, gate, n);
        }
    end_region(r, w, RUNNER_GATE_UP);
}

void per_layer_out(struct runner *r, struct thread_pool_worker *w, uint32_t i)
{
    const struct model_layer *l = &r->model->layers[i];
    const struct product gate = {
        .w = &l->per_layer_gate, .out = r->gate, .out_stride = r->ff_stride};
    const struct product out = {
        .w = &l->per_layer_out, .out = r->delta, .out_stride = r->embd_stride};
    const struct input x = {r->norm, r->embd_stride, r->qrows, r->qrow_stride};
    const struct input gated = {r->gate, r->ff_stride, r->qrows, r->qrow_stride};

    products(r, w, &gate, 1, &x, r->batch->n_rows, RUNNER_GATE_UP);
    gate_input(r, w, i);
    products(r, w, &out, 1, &gated, r->batch->n_rows, RUNNER_DOWN);
}

void per_layer(struct runner *r, struct thread_pool_worker *w, uint32_t i,
               struct residual pending[2])
{
    const struct model_layer *l = &r->model->layers[i];
    const struct norm none = {0};

    residual_norm(r, w, pending, &none, is_quantised(&l->per_layer_gate));
    per_layer_out(r, w, i);
    pending[0] = (struct residual){0};
    pending[1] = (struct residual){
        .delta = r->delta, .post = l->per_layer_post_norm, .scale = l->out_scale};
}
