/* core/runtime/forward_mamba.c - Mamba (arXiv 2312.00752) and Mamba-2 (arXiv 2405.21060); see
 * forward.h and kernels/recurrent.h.
 *
 * x goes through the convolution and silu, then through a scan with the row's own dt (step), B and
 * C, and is gated with z. In Mamba-2 the layer's input is projected to all of them; a head has one
 * step, and a group of heads shares B and C and is normed after the gate. In Mamba dt, B and C are
 * projections of the convolved x, and each channel has a step of its own.
 */
#include "core/runtime/forward.h"

#include <string.h>

#define ITEM_CHANNELS 64 /* whole panels of a state, and whole groups of a quantised row */
#define ITEM_ROWS 64     /* rows handled at a time, so that the next operation finds them in a near
                          * cache */

static const struct recurrent_shape *shape_of(const struct runner *r)
{
    return &r->model->shape.recurrent;
}

/* Return the number of items that n channels of a span are cut into. */
static uint32_t n_pieces(uint32_t n)
{
    return (n + ITEM_CHANNELS - 1) / ITEM_CHANNELS;
}

/* Return the end of a piece's channels. */
static uint32_t piece_end(uint32_t piece, uint32_t n)
{
    const uint32_t end = (piece + 1) * ITEM_CHANNELS;

    return end < n ? end : n;
}

/* Compute x (with B and C), z, and dt of Mamba-2 from each row of the layer's input. */
static void project(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l)
{
    const struct recurrent_shape *s = shape_of(r);
    const struct product p[3] = {
        {.w = &l->mix.in, .out = r->mix, .out_stride = r->mix_stride},
        {.w = &l->mix.z, .out = r->mix + s->z_at, .out_stride = r->mix_stride},
        {.w = &l->mix.dt, .out = r->mix + s->dt_at, .out_stride = r->mix_stride},
    };
    const struct input in = {r->norm, r->embd_stride, r->qrows, r->qrow_stride};

    products(r, w, p, s->kind == RECURRENT_MAMBA2 ? 3 : 2, &in, r->batch->n_rows, RUNNER_QKV);
}

/* ---- Mamba-2 ---- */

static uint32_t scan_channels(const struct recurrent_shape *s)
{
    return s->n_inner + 2 * s->n_key_head * s->n_state;
}

/* Compute the steps of all heads for each row of a span. */
static void make_steps(const struct runner *r, const struct model_layer *l,
                       const struct batch_span *span)
{
    const struct recurrent_shape *s = shape_of(r);

    for (uint32_t i = span->row0; i < span->row0 + span->n_row; i++) {
        float *dt = mix_row(r, i) + s->dt_at;

        r->kern.softplus(dt, dt, l->mix.dt_bias, NULL, s->n_value_head);
    }
}

/* Prepare the inputs of the heads: pieces of x, B and C, and the steps as one more piece. */
static void make_pieces(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l)
{
    const uint32_t n = scan_channels(shape_of(r)), n_conv = n_pieces(n);
    uint32_t from, to;

    while (take_rows_of(r, w, r->batch->n_spans * (n_conv + 1), &from, &to))
        for (uint32_t i = from; i < to; i++) {
            const struct batch_span *span = &r->batch->spans[i / (n_conv + 1)];
            const uint32_t piece = i % (n_conv + 1);

            if (piece < n_conv)
                convolve(r, l, span, piece * ITEM_CHANNELS, piece_end(piece, n), true);
            else
                make_steps(r, l, span);
        }
    end_region(r, w, RUNNER_RECURRENT);
}

/* Scan panels from .. to - 1 of a head's columns over all rows of a span. */
static void scan_head(const struct runner *r, const struct model_layer *l,
                      const struct batch_span *span, uint32_t head, uint32_t from, uint32_t to)
{
    const struct recurrent_shape *s = shape_of(r);
    const uint32_t group = head / (s->n_value_head / s->n_key_head);
    const uint32_t first = from * KERN_LANES, past = to * KERN_LANES;
    const uint32_t end = past < s->value_dim ? past : s->value_dim;
    float *row = mix_row(r, span->row0), *x = row + head * s->value_dim + first;
    float *state = layer_state(r, l, span) + s->scan_at +
                   head * kern_state_floats(s->n_state, s->value_dim) + (size_t)first * s->n_state;
    const struct kern_mamba2 m = {
        .x = x,
        .out = x,
        .x_stride = r->mix_stride,
        .out_stride = r->mix_stride,
        .b = row + s->b_at + group * s->n_state,
        .c = row + s->c_at + group * s->n_state,
        .bc_stride = r->mix_stride,
        .dt = row + s->dt_at + head,
        .dt_stride = r->mix_stride,
        .a = l->mix.a[head],
        .d = l->mix.d[head],
        .state = state,
        .n_row = span->n_row,
        .head_dim = end - first,
        .n_state = s->n_state,
    };

    if (begins_sequence(span))
        memset(state, 0, kern_state_floats(s->n_state, end - first) * sizeof(*state));
    r->kern.mamba2(&m);
}

static void scan_heads(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l)
{
    const struct recurrent_shape *s = shape_of(r);
    const uint32_t n_panels = (s->value_dim + KERN_LANES - 1) / KERN_LANES;
    const uint32_t each = panels_of_item(r), n_shares = (n_panels + each - 1) / each;
    uint32_t from, to;

    while (thread_pool_take(w, r->batch->n_spans * s->n_value_head * n_shares, 1, &from, &to)) {
        const uint32_t head = from / n_shares % s->n_value_head, first = from % n_shares * each;
        const struct batch_span *span = &r->batch->spans[from / n_shares / s->n_value_head];

        scan_head(r, l, span, head, first, first + each < n_panels ? first + each : n_panels);
    }
    end_region(r, w, RUNNER_RECURRENT);
}

/* Gate a row's results, and then norm them group by group. */
static void finish_row(const struct runner *r, const struct model_layer *l, uint32_t row)
{
    const struct recurrent_shape *s = shape_of(r);
    const size_t n = s->n_inner, n_group = n / s->n_key_head;
    float *y = mix_row(r, row);

    r->kern.act[KERN_ACT_SILU](y, y + s->z_at, y, n);
    for (size_t at = 0; l->mix.norm.weight != NULL && at < n; at += n_group) {
        const struct norm own = {.weight = l->mix.norm.weight + at};

        norm_row(r, y + at, y + at, &own, n_group);
    }
    if (is_quantised(&l->mix.out))
        r->kern.quantise(r->mix_qrows + row * r->mix_qrow_stride, n, y, 0, n);
}

static void finish_rows(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l)
{
    uint32_t from, to;

    while (take_rows_of(r, w, r->batch->n_rows, &from, &to))
        for (uint32_t i = from; i < to; i++)
            finish_row(r, l, i);
    end_region(r, w, RUNNER_RECURRENT);
}

void mamba2_scan(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l)
{
    make_pieces(r, w, l);
    scan_heads(r, w, l);
}

void mamba2(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l, float *out)
{
    project(r, w, l);
    undo_keep_rows(r, w, l);
    mamba2_scan(r, w, l);
    finish_rows(r, w, l);
    recurrent_out(r, w, l, 0, true, out);
}

/* ---- Mamba ---- */

/* Quantise n numbers of a row from `from` on, if the product with m takes quantised rows. */
static void quantise_part(const struct runner *r, const struct matrix *m, uint32_t row,
                          uint32_t from, uint32_t to)
{
    if (is_quantised(m))
        r->kern.quantise(r->mix_qrows + row * r->mix_qrow_stride, m->n_in, mix_row(r, row) + from,
                         from, to - from);
}

static void make_x(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l)
{
    const uint32_t n = shape_of(r)->n_inner, each = n_pieces(n);
    uint32_t from, to;

    while (take_rows_of(r, w, r->batch->n_spans * each, &from, &to))
        for (uint32_t i = from; i < to; i++) {
            const struct batch_span *span = &r->batch->spans[i / each];
            const uint32_t first = i % each * ITEM_CHANNELS, end = piece_end(i % each, n);

            convolve(r, l, span, first, end, true);
            for (uint32_t j = span->row0; j < span->row0 + span->n_row; j++)
                quantise_part(r, &l->mix.x, j, first, end);
        }
    end_region(r, w, RUNNER_RECURRENT);
}

/* Norm each row's low-rank dt, B and C, if the model has these norms. */
static void finish_short(struct runner *r, struct thread_pool_worker *w,
                         const struct model_layer *l)
{
    const struct recurrent_shape *s = shape_of(r);
    const struct recurrent *m = &l->mix;
    uint32_t from, to;

    if (m->dt_norm.weight == NULL && !is_quantised(&m->dt))
        return;
    while (take_rows_of(r, w, r->batch->n_rows, &from, &to))
        for (uint32_t i = from; i < to; i++) {
            float *row = mix_row(r, i), *dt = row + s->low_at;

            norm_row(r, dt, dt, &m->dt_norm, s->n_rank);
            norm_row(r, row + s->b_at, row + s->b_at, &m->b_norm, s->n_state);
            norm_row(r, row + s->c_at, row + s->c_at, &m->c_norm, s->n_state);
            if (is_quantised(&m->dt))
                r->kern.quantise(r->mix_qrows + i * r->mix_qrow_stride, s->n_rank, dt, 0,
                                 s->n_rank);
        }
    end_region(r, w, RUNNER_RECURRENT);
}

/* Compute dt, B and C from x. */
static void project_x(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l)
{
    const struct recurrent_shape *s = shape_of(r);
    const struct product low = {
        .w = &l->mix.x, .out = r->mix + s->low_at, .out_stride = r->mix_stride};
    const struct product dt = {
        .w = &l->mix.dt, .out = r->mix + s->dt_at, .out_stride = r->mix_stride};
    struct input in = {r->mix, r->mix_stride, r->mix_qrows, r->mix_qrow_stride};

    products(r, w, &low, 1, &in, r->batch->n_rows, RUNNER_QKV);
    finish_short(r, w, l);
    in.x = r->mix + s->low_at;
    products(r, w, &dt, 1, &in, r->batch->n_rows, RUNNER_QKV);
}

/* Run channels from .. to - 1 of n rows through steps, scan and gate. */
static void scan_rows(const struct runner *r, const struct model_layer *l, float *state,
                      uint32_t row0, uint32_t n, uint32_t from, uint32_t to)
{
    const struct recurrent_shape *s = shape_of(r);
    const size_t stride = r->mix_stride, width = to - from;
    float *row = mix_row(r, row0), *x = row + from, *dt = row + s->dt_at + from;
    const struct kern_mamba1 m = {
        .x = x,
        .dt = dt,
        .b = row + s->b_at,
        .c = row + s->c_at,
        .out = x,
        .x_stride = stride,
        .dt_stride = stride,
        .bc_stride = stride,
        .out_stride = stride,
        .a = l->mix.a + (size_t)from * s->n_state,
        .d = l->mix.d + from,
        .state = state,
        .n_row = n,
        .n_channel = (uint32_t)width,
        .n_state = s->n_state,
    };

    for (size_t i = 0; i < n; i++)
        r->kern.softplus(dt + i * stride, dt + i * stride, l->mix.dt_bias + from, NULL, width);
    r->kern.mamba1(&m);
    for (size_t i = 0; i < n; i++) {
        r->kern.act[KERN_ACT_SILU](x + i * stride, x + i * stride + s->z_at, x + i * stride, width);
        quantise_part(r, &l->mix.out, row0 + (uint32_t)i, from, to);
    }
}

/* Scan one piece of a span. */
static void scan_piece(const struct runner *r, const struct model_layer *l,
                       const struct batch_span *span, uint32_t from, uint32_t to)
{
    const struct recurrent_shape *s = shape_of(r);
    const uint32_t end = span->row0 + span->n_row;
    float *state = layer_state(r, l, span) + s->scan_at + (size_t)from * s->n_state;

    if (begins_sequence(span))
        memset(state, 0, kern_state_floats(s->n_state, to - from) * sizeof(*state));
    for (uint32_t i = span->row0; i < end; i += ITEM_ROWS)
        scan_rows(r, l, state, i, end - i < ITEM_ROWS ? end - i : ITEM_ROWS, from, to);
}

static void scan_pieces(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l)
{
    const uint32_t n = shape_of(r)->n_inner, each = n_pieces(n);
    uint32_t from, to;

    while (take_rows_of(r, w, r->batch->n_spans * each, &from, &to))
        for (uint32_t i = from; i < to; i++)
            scan_piece(r, l, &r->batch->spans[i / each], i % each * ITEM_CHANNELS,
                       piece_end(i % each, n));
    end_region(r, w, RUNNER_RECURRENT);
}

void mamba1_scan(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l)
{
    make_x(r, w, l);
    project_x(r, w, l);
    scan_pieces(r, w, l);
}

void mamba1(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l, float *out)
{
    project(r, w, l);
    undo_keep_rows(r, w, l);
    mamba1_scan(r, w, l);
    recurrent_out(r, w, l, 0, true, out);
}
