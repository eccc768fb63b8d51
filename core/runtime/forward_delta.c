/* core/runtime/forward_delta.c - gated delta nets (arXiv 2412.06464), and KDA (arXiv 2510.26692),
 * which has a gate for each key dimension; see forward.h and kernels/recurrent.h.
 *
 * Each head of queries and keys gets convolution, silu, and length 1. Each value head gets the
 * delta rule with its key head, a norm, and the gate z.
 */
#include "core/runtime/forward.h"

#include <string.h>

#define LENGTH_EPS 1e-6f /* constant of the published code; model files do not have it */
#define ITEMS_A_THREAD 2 /* heads are cut into columns if there would be fewer items than this for
                          * each thread */

static const struct recurrent_shape *shape_of(const struct runner *r)
{
    return &r->model->shape.recurrent;
}

/* ---- inputs ---- */

static size_t low_floats(const struct recurrent_shape *s)
{
    return (s->value_dim + KERN_LANES - 1) / KERN_LANES * KERN_LANES;
}

/* Return the low-rank rows that KDA's product of alpha or z takes as input. */
static struct input low_input(const struct runner *r, uint32_t i)
{
    const struct recurrent_shape *s = shape_of(r);
    const size_t n = low_floats(s);

    return (struct input){r->mix + s->low_at + i * n, r->mix_stride,
                          r->mix_qrows + i * kern_qrow_bytes(n + KERN_LANES), r->mix_qrow_stride};
}

static void quantise_low(struct runner *r, struct thread_pool_worker *w, const struct matrix *m,
                         const struct input *in)
{
    uint32_t from, to;

    if (!is_quantised(m))
        return;
    while (take_rows_of(r, w, r->batch->n_rows, &from, &to))
        for (uint32_t i = from; i < to; i++)
            r->kern.quantise((uint8_t *)in->q + i * in->q_stride, m->n_in, in->x + i * in->stride,
                             0, m->n_in);
    end_region(r, w, RUNNER_QKV);
}

static void project_low(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l)
{
    const struct recurrent_shape *s = shape_of(r);
    const struct product p[2] = {
        {.w = &l->mix.alpha, .out = r->mix + s->alpha_at, .out_stride = r->mix_stride},
        {.w = &l->mix.z, .out = r->mix + s->z_at, .out_stride = r->mix_stride}};

    for (uint32_t i = 0; i < 2; i++) {
        const struct input in = low_input(r, i);

        quantise_low(r, w, p[i].w, &in);
        products(r, w, &p[i], 1, &in, r->batch->n_rows, RUNNER_QKV);
    }
}

/* Compute q, k, v, z, alpha and beta of all rows. */
static void project(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l)
{
    const struct recurrent_shape *s = shape_of(r);
    const struct recurrent *m = &l->mix;
    const bool has_low = matrix_exists(&m->z_low);
    const size_t stride = r->mix_stride;
    const struct product p[6] = {
        {.w = &m->q, .out = r->mix, .out_stride = stride},
        {.w = &m->k, .out = r->mix + s->k_at, .out_stride = stride},
        {.w = &m->v, .out = r->mix + s->v_at, .out_stride = stride},
        {.w = &m->beta, .out = r->mix + s->beta_at, .out_stride = stride},
        {.w = has_low ? &m->alpha_low : &m->alpha,
         .out = r->mix + (has_low ? s->low_at : s->alpha_at),
         .out_stride = stride},
        {.w = has_low ? &m->z_low : &m->z,
         .out = r->mix + (has_low ? s->low_at + low_floats(s) : s->z_at),
         .out_stride = stride},
    };
    const struct input in = {r->norm, r->embd_stride, r->qrows, r->qrow_stride};

    products(r, w, p, 6, &in, r->batch->n_rows, RUNNER_QKV);
    if (has_low)
        project_low(r, w, l);
}

/* ---- inputs of the heads ---- */

/* Prepare one head of queries or keys of a span for the delta rule. */
static void make_key(const struct runner *r, const struct model_layer *l,
                     const struct batch_span *span, uint32_t at, float scale)
{
    const uint32_t n = shape_of(r)->key_dim;

    convolve(r, l, span, at, at + n, true);
    for (uint32_t i = span->row0; i < span->row0 + span->n_row; i++)
        r->kern.l2norm(mix_row(r, i) + at, mix_row(r, i) + at, n, LENGTH_EPS, scale);
}

/* Turn alpha[first .. first + n - 1] of each row of a span into the decay factors of the states. */
static void make_decay(const struct runner *r, const struct model_layer *l,
                       const struct batch_span *span, uint32_t first, uint32_t n)
{
    for (uint32_t i = span->row0; i < span->row0 + span->n_row; i++) {
        float *x = mix_row(r, i) + shape_of(r)->alpha_at + first;

        r->kern.softplus(x, x, l->mix.dt_bias + first, l->mix.a + first, n);
    }
}

static void make_beta(const struct runner *r, const struct batch_span *span)
{
    const struct recurrent_shape *s = shape_of(r);

    for (uint32_t i = span->row0; i < span->row0 + span->n_row; i++) {
        float *x = mix_row(r, i) + s->beta_at;

        r->kern.act[KERN_ACT_SIGMOID](x, x, NULL, s->n_value_head);
    }
}

/* Return the number of pieces of a span: one for each head of queries, keys and values, and one for
 * the values that a head has one of (alpha, beta). */
static uint32_t n_pieces(const struct recurrent_shape *s)
{
    return 2 * s->n_key_head + s->n_value_head + 1;
}

static void make_piece(const struct runner *r, const struct model_layer *l,
                       const struct batch_span *span, uint32_t piece)
{
    const struct recurrent_shape *s = shape_of(r);
    const uint32_t n_key = s->n_key_head, n = s->key_dim;

    if (piece < n_key) {
        make_key(r, l, span, piece * n, s->query_scale);
    } else if (piece < 2 * n_key) {
        make_key(r, l, span, s->k_at + (piece - n_key) * n, 1.0f);
    } else if (piece < 2 * n_key + s->n_value_head) {
        const uint32_t head = piece - 2 * n_key, at = s->v_at + head * s->value_dim;

        convolve(r, l, span, at, at + s->value_dim, true);
        if (s->is_per_key)
            make_decay(r, l, span, head * n, n);
    } else {
        make_beta(r, span);
        if (!s->is_per_key)
            make_decay(r, l, span, 0, s->n_value_head);
    }
}

static void make_pieces(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l)
{
    const uint32_t n = n_pieces(shape_of(r));
    uint32_t from, to;

    while (take_rows_of(r, w, r->batch->n_spans * n, &from, &to))
        for (uint32_t i = from; i < to; i++)
            make_piece(r, l, &r->batch->spans[i / n], i % n);
    end_region(r, w, RUNNER_RECURRENT);
}

/* ---- the delta rule ---- */

/* Run the delta rule over all rows of a span, for panels from .. to - 1 of a value head's
 * columns. */
static void run_rule(const struct runner *r, const struct model_layer *l,
                     const struct batch_span *span, uint32_t head, uint32_t from, uint32_t to)
{
    const struct recurrent_shape *s = shape_of(r);
    const uint32_t key_head =
        s->is_spread ? head % s->n_key_head : head / (s->n_value_head / s->n_key_head);
    const uint32_t first = from * KERN_LANES, past = to * KERN_LANES;
    const uint32_t end = past < s->value_dim ? past : s->value_dim;
    float *row = mix_row(r, span->row0), *v = row + s->v_at + head * s->value_dim + first;
    float *state = layer_state(r, l, span) + s->scan_at +
                   head * kern_state_floats(s->key_dim, s->value_dim) + (size_t)first * s->key_dim;
    const struct kern_delta d = {
        .q = row + key_head * s->key_dim,
        .k = row + s->k_at + key_head * s->key_dim,
        .v = v,
        .out = v,
        .qk_stride = r->mix_stride,
        .v_stride = r->mix_stride,
        .out_stride = r->mix_stride,
        .g = row + s->alpha_at + head * (s->is_per_key ? s->key_dim : 1),
        .g_stride = r->mix_stride,
        .is_per_key = s->is_per_key,
        .beta = row + s->beta_at + head,
        .beta_stride = r->mix_stride,
        .state = state,
        .n_row = span->n_row,
        .value_dim = end - first,
        .key_dim = s->key_dim,
    };

    if (begins_sequence(span))
        memset(state, 0, kern_state_floats(s->key_dim, end - first) * sizeof(*state));
    r->kern.delta(&d);
}

/* True: a head fills whole groups, so that the item that computes it can quantise it. */
static bool quantises_head(const struct runner *r, const struct model_layer *l)
{
    return is_quantised(&l->mix.out) && shape_of(r)->value_dim % KERN_GROUP == 0;
}

/* Norm and gate a value head of a row, and quantise it if the out-matrix takes quantised rows. */
static void finish_head(const struct runner *r, const struct model_layer *l, uint32_t row,
                        uint32_t head)
{
    const struct recurrent_shape *s = shape_of(r);
    const size_t n = s->value_dim, at = head * n;
    float *y = mix_row(r, row) + s->v_at + at;

    norm_row(r, y, y, &l->mix.norm, n);
    r->kern.act[s->gate_act](y, mix_row(r, row) + s->z_at + at, y, n);
    if (quantises_head(r, l))
        r->kern.quantise(r->mix_qrows + row * r->mix_qrow_stride, s->n_inner, y, at, n);
}

/* Finish the heads whose columns were cut into several items. */
static void finish_heads(struct runner *r, struct thread_pool_worker *w,
                         const struct model_layer *l)
{
    const uint32_t n_head = shape_of(r)->n_value_head;
    uint32_t from, to;

    while (take_rows_of(r, w, r->batch->n_rows * n_head, &from, &to))
        for (uint32_t i = from; i < to; i++)
            finish_head(r, l, i / n_head, i % n_head);
    end_region(r, w, RUNNER_RECURRENT);
}

/* Return the number of panels in an item: a whole head, or fewer if there are too few heads for the
 * threads. */
uint32_t panels_of_item(const struct runner *r)
{
    const struct recurrent_shape *s = shape_of(r);
    const uint32_t n_panels = (s->value_dim + KERN_LANES - 1) / KERN_LANES;
    const uint32_t n_heads = r->batch->n_spans * s->n_value_head;
    const uint32_t wanted = ITEMS_A_THREAD * thread_pool_n_threads(r->pool);
    const uint32_t shares = (wanted + n_heads - 1) / n_heads;

    if (thread_pool_n_threads(r->pool) == 1)
        return n_panels;
    return shares < n_panels ? (n_panels + shares - 1) / shares : 1;
}

static void run_heads(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l)
{
    const struct recurrent_shape *s = shape_of(r);
    const uint32_t n_panels = (s->value_dim + KERN_LANES - 1) / KERN_LANES;
    const uint32_t each = panels_of_item(r), n_shares = (n_panels + each - 1) / each;
    uint32_t from, to;

    while (thread_pool_take(w, r->batch->n_spans * s->n_value_head * n_shares, 1, &from, &to)) {
        const uint32_t head = from / n_shares % s->n_value_head, first = from % n_shares * each;
        const struct batch_span *span = &r->batch->spans[from / n_shares / s->n_value_head];

        run_rule(r, l, span, head, first, first + each < n_panels ? first + each : n_panels);
        for (uint32_t i = 0; n_shares == 1 && i < span->n_row; i++)
            finish_head(r, l, span->row0 + i, head);
    }
    end_region(r, w, RUNNER_RECURRENT);
    if (n_shares > 1)
        finish_heads(r, w, l);
}

void delta_scan(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l)
{
    make_pieces(r, w, l);
    run_heads(r, w, l);
}

void delta_net(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l,
               float *out)
{
    project(r, w, l);
    undo_keep_rows(r, w, l);
    delta_scan(r, w, l);
    recurrent_out(r, w, l, shape_of(r)->v_at, quantises_head(r, l), out);
}
