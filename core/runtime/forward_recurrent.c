/* core/runtime/forward_recurrent.c - layers with a state: the parts that all kinds share, and the
 * short convolution (LFM2); see forward.h.
 *
 * Products make a row of r->mix from each normed row. The work after them is cut by spans, and
 * within a span by channels or heads, never by rows: a thread takes some channels of a span through
 * all of its rows, in order, and so does the state. No sum mixes channels or heads, so the bits
 * depend neither on the thread nor on how a sequence was cut into spans.
 */
#include "core/runtime/forward.h"
#include "kvcache/state_store.h"

#include <string.h>

#define CONV_CHANNELS 64 /* channels of an item; a multiple of KERN_GROUP */

bool recurrent_quantises(const struct model_layer *l)
{
    const struct recurrent *m = &l->mix;

    return is_quantised(&m->in) || is_quantised(&m->q) || is_quantised(&m->k) ||
           is_quantised(&m->v) || is_quantised(&m->beta) ||
           (matrix_exists(&m->z_low) ? is_quantised(&m->z_low) || is_quantised(&m->alpha_low)
                                     : is_quantised(&m->z) || is_quantised(&m->alpha));
}

float *layer_state(const struct runner *r, const struct model_layer *l,
                   const struct batch_span *span)
{
    return (float *)state_store_at(r->states, span->state) + l->state_at;
}

bool begins_sequence(const struct batch_span *span)
{
    return span->pos0 == 0;
}

float *mix_row(const struct runner *r, uint32_t row)
{
    return r->mix + row * r->mix_stride;
}

void convolve(const struct runner *r, const struct model_layer *l, const struct batch_span *span,
              uint32_t from, uint32_t to, bool silu)
{
    const struct recurrent_shape *s = &r->model->shape.recurrent;
    float *x = mix_row(r, span->row0) + from, *tail = layer_state(r, l, span) + from;
    const struct kern_conv c = {
        .x = x,
        .out = x,
        .x_stride = r->mix_stride,
        .out_stride = r->mix_stride,
        .tail = tail,
        .tail_stride = s->n_channel,
        .w = l->mix.conv + from,
        .w_stride = s->n_channel,
        .bias = l->mix.conv_bias != NULL ? l->mix.conv_bias + from : NULL,
        .n_row = span->n_row,
        .n_channel = to - from,
        .n_tap = s->n_tap,
        .silu = silu,
    };

    for (uint32_t j = 0; begins_sequence(span) && j + 1 < s->n_tap; j++)
        memset(tail + (size_t)j * s->n_channel, 0, (to - from) * sizeof(*tail));
    r->kern.conv(&c);
}

/* ---- results ---- */

static void quantise_mix(struct runner *r, struct thread_pool_worker *w, uint32_t at)
{
    const size_t n = r->model->shape.recurrent.n_inner;
    uint32_t from, to;

    while (take_rows_of(r, w, r->batch->n_rows, &from, &to))
        for (uint32_t i = from; i < to; i++)
            r->kern.quantise(r->mix_qrows + i * r->mix_qrow_stride, n, mix_row(r, i) + at, 0, n);
    end_region(r, w, RUNNER_RECURRENT);
}

void recurrent_out(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l,
                   uint32_t at, bool has_quantised, float *out)
{
    const struct product p = {.w = &l->mix.out, .out = out, .out_stride = r->embd_stride};
    const struct input in = {r->mix + at, r->mix_stride, r->mix_qrows, r->mix_qrow_stride};

    if (is_quantised(&l->mix.out) && !has_quantised)
        quantise_mix(r, w, at);
    products(r, w, &p, 1, &in, r->batch->n_rows, RUNNER_ATTN_OUT);
}

/* ---- short convolution ---- */

/* Compute y = C * conv(B * X) for some channels of a span. */
static void conv_item(const struct runner *r, const struct model_layer *l,
                      const struct batch_span *span, uint32_t from, uint32_t to)
{
    const struct recurrent_shape *s = &r->model->shape.recurrent;
    const uint32_t row1 = span->row0 + span->n_row;

    for (uint32_t i = span->row0; i < row1; i++) {
        float *x = mix_row(r, i) + from;

        r->kern.act[KERN_ACT_LINEAR](x, x, x + s->v_at, to - from);
    }
    convolve(r, l, span, from, to, false);
    for (uint32_t i = span->row0; i < row1; i++) {
        float *x = mix_row(r, i) + from;

        r->kern.act[KERN_ACT_LINEAR](x, x, x + s->k_at, to - from);
        if (is_quantised(&l->mix.out))
            r->kern.quantise(r->mix_qrows + i * r->mix_qrow_stride, s->n_inner, x, from, to - from);
    }
}

static void conv_pieces(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l)
{
    const uint32_t n = r->model->shape.recurrent.n_inner;
    const uint32_t n_pieces = (n + CONV_CHANNELS - 1) / CONV_CHANNELS;
    uint32_t from, to;

    while (take_rows_of(r, w, r->batch->n_spans * n_pieces, &from, &to))
        for (uint32_t i = from; i < to; i++) {
            const uint32_t first = i % n_pieces * CONV_CHANNELS;

            conv_item(r, l, &r->batch->spans[i / n_pieces], first,
                      n - first < CONV_CHANNELS ? n : first + CONV_CHANNELS);
        }
    end_region(r, w, RUNNER_RECURRENT);
}

static void short_conv(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l,
                       float *out)
{
    const struct product p = {.w = &l->mix.in, .out = r->mix, .out_stride = r->mix_stride};
    const struct input in = {r->norm, r->embd_stride, r->qrows, r->qrow_stride};

    products(r, w, &p, 1, &in, r->batch->n_rows, RUNNER_QKV);
    undo_keep_rows(r, w, l);
    conv_pieces(r, w, l);
    recurrent_out(r, w, l, 0, true, out);
}

void recurrent(struct runner *r, struct thread_pool_worker *w, uint32_t layer, float *out)
{
    const struct model_layer *l = &r->model->layers[layer];

    switch (l->recurrent) {
    case RECURRENT_NONE:
        break;
    case RECURRENT_CONV:
        short_conv(r, w, l, out);
        break;
    case RECURRENT_DELTA:
        delta_net(r, w, l, out);
        break;
    case RECURRENT_MAMBA1:
        mamba1(r, w, l, out);
        break;
    case RECURRENT_MAMBA2:
        mamba2(r, w, l, out);
        break;
    }
}

void recurrent_again(struct runner *r, struct thread_pool_worker *w, uint32_t layer)
{
    const struct model_layer *l = &r->model->layers[layer];

    switch (l->recurrent) {
    case RECURRENT_NONE:
        break;
    case RECURRENT_CONV:
        conv_pieces(r, w, l);
        break;
    case RECURRENT_DELTA:
        delta_scan(r, w, l);
        break;
    case RECURRENT_MAMBA1:
        mamba1_scan(r, w, l);
        break;
    case RECURRENT_MAMBA2:
        mamba2_scan(r, w, l);
        break;
    }
}
