/* core/runtime/forward_streams.c - models with several streams (AltUp, arXiv 2301.13310) and a
 * low-rank net beside attention (LAuReL, arXiv 2411.07501); see forward.h.
 *
 * A token has n_streams rows of n_embd floats. Each layer first predicts all streams from their old
 * values, runs on the first alone, in r->x, and then corrects all of them by the change of the
 * first. A router of the first stream gives the coefficients of prediction and correction. The
 * layer's output for the per-layer embedding (forward_per_layer.c) is added to all streams but the
 * first. Order and formulas are those of Gemma 3n's published code.
 */
#include "core/runtime/forward.h"

#include <math.h>
#include <string.h>

#define LEAST_SQUARE 1e-5f /* lower bound of the mean of squares, by whose root a stream is
                            * divided */

static const float root_half = 0.70710678f;

static float *stream(const struct runner *r, uint32_t row, uint32_t i)
{
    return r->streams + ((size_t)row * r->model->shape.n_streams + i) * r->embd_stride;
}

static float mean_square(const float *x, size_t n)
{
    float lane[KERN_LANES] = {0};

    for (size_t i = 0; i < n; i++)
        lane[i % KERN_LANES] += x[i] * x[i];
    return kern_lanes_sum(lane) / (float)n;
}

/* ---- coefficients ---- */

/* Multiply a matrix of one panel by row x, into out[KERN_LANES]. */
static void few_outputs(struct runner *r, const struct matrix *m, uint32_t row, const float *x,
                        float out[KERN_LANES])
{
    const struct product p = {.w = m, .out = out, .out_stride = KERN_LANES};
    const struct input in = {x, m->n_in, r->qrows + row * r->qrow_stride, r->qrow_stride};

    if (is_quantised(m))
        quantise_row(r, row, x, m->n_in);
    run_product(r, &p, 0, &in, 1, 0, 1);
}

/* Compute coefficients: matrix `m` times the router's outputs for row x. */
static void coefficients(struct runner *r, const struct model_layer *l, const struct matrix *m,
                         uint32_t row, const float *x, float out[KERN_LANES])
{
    const size_t n = r->model->shape.n_embd;
    float *norm = r->norm + row * r->embd_stride;
    float modalities[KERN_LANES];

    norm_row(r, norm, x, &l->stream_router_norm, n);
    r->kern.scale(norm, 1.0f / (float)n, n);
    few_outputs(r, &l->stream_router, row, norm, modalities);
    r->kern.cap(modalities, 1.0f, r->model->shape.n_streams);
    few_outputs(r, m, row, modalities, out);
}

/* ---- before and after a layer ---- */

/* Predict the streams of a row, and set x to the first of them. */
static void predict_row(struct runner *r, const struct thread_pool_worker *w,
                        const struct model_layer *l, uint32_t row)
{
    const struct model_shape *s = &r->model->shape;
    float *before = r->stream_row + (size_t)w->index * s->n_streams * r->embd_stride;
    float c[KERN_LANES];

    coefficients(r, l, &l->stream_predict, row, stream(r, row, 0), c);
    memcpy(before, stream(r, row, 0), s->n_streams * r->embd_stride * sizeof(*before));
    for (uint32_t i = 0; i < s->n_streams; i++)
        for (uint32_t j = 0; j < s->n_streams; j++)
            r->kern.add(stream(r, row, i), before + j * r->embd_stride, c[i * s->n_streams + j],
                        s->n_embd);
    memcpy(r->x + row * r->embd_stride, stream(r, row, 0), s->n_embd * sizeof(*before));
}

static void predict(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l)
{
    uint32_t from, to;

    while (take_rows_of(r, w, r->batch->n_rows, &from, &to))
        for (uint32_t i = from; i < to; i++)
            predict_row(r, w, l, i);
    end_region(r, w, RUNNER_NORM);
}

/* Correct a row's streams by the change that the layer made in the first; r->norm gets the first
 * stream as per_layer_gate takes it. */
static void correct_row(struct runner *r, const struct model_layer *l, uint32_t row)
{
    const struct model_shape *s = &r->model->shape;
    float *x = r->x + row * r->embd_stride, *norm = r->norm + row * r->embd_stride;
    float c[KERN_LANES];

    coefficients(r, l, &l->stream_correct, row, x, c);
    r->kern.add(x, stream(r, row, 0), -1.0f, s->n_embd);
    for (uint32_t i = 0; i < s->n_streams; i++)
        r->kern.add(stream(r, row, i), x, c[i] + 1.0f, s->n_embd);
    r->kern.act[KERN_ACT_LINEAR](norm, stream(r, row, 0), l->stream_scale, s->n_embd);
    if (is_quantised(&l->per_layer_gate))
        quantise_row(r, row, norm, s->n_embd);
}

static void correct(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l)
{
    uint32_t from, to;

    while (take_rows_of(r, w, r->batch->n_rows, &from, &to))
        for (uint32_t i = from; i < to; i++)
            correct_row(r, l, i);
    end_region(r, w, RUNNER_NORM);
}

/* Add the output of per_layer_out to all streams but the first. */
static void add_to_others(struct runner *r, struct thread_pool_worker *w,
                          const struct model_layer *l)
{
    const struct model_shape *s = &r->model->shape;
    uint32_t from, to;

    while (take_rows_of(r, w, r->batch->n_rows, &from, &to))
        for (uint32_t i = from; i < to; i++) {
            float *delta = r->delta + i * r->embd_stride;

            norm_row(r, delta, delta, &l->per_layer_post_norm, s->n_embd);
            for (uint32_t j = 1; j < s->n_streams; j++)
                r->kern.add(stream(r, i, j), delta, 1.0f, s->n_embd);
        }
    end_region(r, w, RUNNER_NORM);
}

/* ---- the low-rank net ---- */

static void quantise_low(struct runner *r, struct thread_pool_worker *w, const struct matrix *m)
{
    uint32_t from, to;

    if (!is_quantised(m))
        return;
    while (take_rows_of(r, w, r->batch->n_rows, &from, &to))
        for (uint32_t i = from; i < to; i++)
            r->kern.quantise(r->ff_rows + i * r->ff_row_stride, m->n_in,
                             r->gate + i * r->ff_stride, 0, m->n_in);
    end_region(r, w, RUNNER_QKV);
}

/* Compute r->laurel: attention's input plus the normed output of the low-rank net for it. */
static void laurel(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l)
{
    const size_t n = r->model->shape.n_embd;
    const struct product low = {.w = &l->laurel_in, .out = r->gate, .out_stride = r->ff_stride};
    const struct product out = {
        .w = &l->laurel_out, .out = r->laurel, .out_stride = r->embd_stride};
    const struct input x = {r->norm, r->embd_stride, r->qrows, r->qrow_stride};
    const struct input in = {r->gate, r->ff_stride, r->ff_rows, r->ff_row_stride};
    uint32_t from, to;

    products(r, w, &low, 1, &x, r->batch->n_rows, RUNNER_QKV);
    quantise_low(r, w, &l->laurel_out);
    products(r, w, &out, 1, &in, r->batch->n_rows, RUNNER_QKV);
    while (take_rows_of(r, w, r->batch->n_rows, &from, &to))
        for (uint32_t i = from; i < to; i++) {
            float *row = r->laurel + i * r->embd_stride;

            norm_row(r, row, row, &l->laurel_norm, n);
            r->kern.add(row, r->norm + i * r->embd_stride, 1.0f, n);
        }
    end_region(r, w, RUNNER_NORM);
}

/* ---- a layer ---- */

void streams_layer(struct runner *r, struct thread_pool_worker *w, uint32_t i)
{
    const struct model_layer *l = &r->model->layers[i];
    const struct residual none[2] = {{0}};
    const struct norm no_norm = {0};
    struct residual pending[2] = {{0}};

    predict(r, w, l);
    residual_norm(r, w, none, &l->attn_norm, attention_quantises(l) || is_quantised(&l->laurel_in));
    laurel(r, w, l);
    attention(r, w, i);
    pending[0] = attention_residual(r, l);
    pending[1] = (struct residual){.delta = r->laurel, .scale = &root_half};
    residual_norm(r, w, pending, &l->ffn_norm, ffn_quantises(l));
    feed_forward(r, w, l);
    pending[0] = none[0];
    pending[1] = ffn_residual(r, l);
    residual_norm(r, w, pending, &no_norm, false);
    correct(r, w, l);
    per_layer_out(r, w, i);
    add_to_others(r, w, l);
}

/* ---- the ends ---- */

/* Scale `made` to the length of `like`. */
static void match_length(const struct runner *r, float *made, const float *like, size_t n)
{
    const float own = mean_square(made, n);
    const float least = own > LEAST_SQUARE ? own : LEAST_SQUARE;

    r->kern.scale(made, sqrtf(mean_square(like, n)) / sqrtf(least), n);
}

/* Fill stream i: the embedding for i = 0, else r->delta scaled to the embedding's length. */
static void fill_streams(struct runner *r, struct thread_pool_worker *w, uint32_t i)
{
    const size_t n = r->model->shape.n_embd;
    uint32_t from, to;

    while (take_rows_of(r, w, r->batch->n_rows, &from, &to))
        for (uint32_t row = from; row < to; row++) {
            const float *x = r->x + row * r->embd_stride;
            float *out = stream(r, row, i);

            memcpy(out, i == 0 ? x : r->delta + row * r->embd_stride, n * sizeof(*out));
            if (i > 0)
                match_length(r, out, x, n);
        }
    end_region(r, w, RUNNER_EMBED);
}

/* Quantise the rows of a stream if the matrix wants that. */
static void quantise_rows_of(struct runner *r, struct thread_pool_worker *w, const struct matrix *m,
                             const struct input *in)
{
    uint32_t from, to;

    if (!is_quantised(m))
        return;
    while (take_rows_of(r, w, r->batch->n_rows, &from, &to))
        for (uint32_t i = from; i < to; i++)
            quantise_row(r, i, in->x + i * in->stride, m->n_in);
    end_region(r, w, RUNNER_EMBED);
}

/* Multiply matrix number `each` of `m` by the rows of a stream, into r->delta. */
static void stream_product(struct runner *r, struct thread_pool_worker *w, const struct matrix *m,
                           uint32_t each, const struct input *in)
{
    const struct product p = {.w = m, .out = r->delta, .out_stride = r->embd_stride};
    const uint32_t total = m->n_panels;
    uint32_t from, to;

    for (uint32_t go = 0; thread_pool_take(w, total, grain_for(r, total, go), &from, &to); go++)
        run_product(r, &p, each, in, r->batch->n_rows, from, to);
    end_region(r, w, RUNNER_EMBED);
}

void streams_begin(struct runner *r, struct thread_pool_worker *w)
{
    const struct matrix *m = &r->model->stream_in;
    const struct input in = {r->x, r->embd_stride, r->qrows, r->qrow_stride};

    quantise_rows_of(r, w, m, &in);
    fill_streams(r, w, 0);
    for (uint32_t i = 1; i < r->model->shape.n_streams; i++) {
        stream_product(r, w, m, i - 1, &in);
        fill_streams(r, w, i);
    }
}

/* Add stream i to x. */
static void add_stream(struct runner *r, struct thread_pool_worker *w, uint32_t i)
{
    const struct model_shape *s = &r->model->shape;
    uint32_t from, to;

    while (take_rows_of(r, w, r->batch->n_rows, &from, &to))
        for (uint32_t row = from; row < to; row++) {
            float *x = r->x + row * r->embd_stride, *made = r->delta + row * r->embd_stride;

            if (i == 0) {
                memcpy(x, stream(r, row, 0), s->n_embd * sizeof(*x));
                continue;
            }
            match_length(r, made, stream(r, row, 0), s->n_embd);
            r->kern.add(x, made, 1.0f, s->n_embd);
            if (i == s->n_streams - 1)
                r->kern.scale(x, 1.0f / (float)s->n_streams, s->n_embd);
        }
    end_region(r, w, RUNNER_EMBED);
}

void streams_end(struct runner *r, struct thread_pool_worker *w)
{
    const uint32_t n = r->model->shape.n_streams;
    const struct matrix *m = &r->model->stream_out;

    add_stream(r, w, 0);
    for (uint32_t i = 1; i < n; i++) {
        const struct input in = {stream(r, 0, i), n * r->embd_stride, r->qrows, r->qrow_stride};

        quantise_rows_of(r, w, m, &in);
        stream_product(r, w, m, i - 1, &in);
        add_stream(r, w, i);
    }
}
