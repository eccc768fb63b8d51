/* core/runtime/forward_mla.c - latent attention (MLA, arXiv 2405.04434); see forward.h.
 *
 * The cache holds a latent vector for each token and a rotated part of the key beside it, both
 * shared by all heads: one KV head, whose values are the latent vector. key_up maps a head's query
 * into the latent space and value_up maps its result out of it, so that no head's keys or values
 * are ever made.
 */
#include "core/runtime/forward.h"

#include <string.h>

/* Products with one matrix for each head: head h of a row is read at in.x + h * from_each and
 * written at out + h * to_each. Quantised heads are rows of their own, [row][head]. */
struct head_product {
    const struct matrix *w;
    float *out;
    size_t out_stride, to_each;
    struct input in; /* rows of head 0; its strides lead from row to row */
    size_t from_each, q_each;
};

static void head_products(struct runner *r, struct thread_pool_worker *w,
                          const struct head_product *p, enum runner_part part)
{
    const uint32_t each = p->w->n_panels, total = p->w->n_each * each;
    uint32_t from, to, h, a, b;

    for (uint32_t go = 0; thread_pool_take(w, total, grain_for(r, total, go), &from, &to); go++) {
        struct pieces s = {p->w->n_each, each, 1, r->model->n_parts, from, to};

        while (next_piece(&s, &h, &a, &b)) {
            const struct product one = {
                .w = p->w, .out = p->out + h * p->to_each, .out_stride = p->out_stride};
            const struct input in = {p->in.x + h * p->from_each, p->in.stride,
                                     p->in.q + h * p->q_each, p->in.q_stride};

            run_product(r, &one, h, &in, r->batch->n_rows, a, b);
        }
    }
    end_region(r, w, part);
}

/* Quantise the heads of a row one by one, n floats each, `next` floats apart. */
static void quantise_each(struct runner *r, uint32_t row, const float *x, size_t next, size_t n)
{
    const uint32_t n_head = r->model->shape.n_head;

    for (uint32_t h = 0; h < n_head; h++)
        r->kern.quantise(r->head_qrows + ((size_t)row * n_head + h) * r->head_qrow_stride, n,
                         x + h * next, 0, n);
}

/* ---- queries ---- */

/* Compute the queries; with q_down, from its normed outputs. */
static void project_queries(struct runner *r, struct thread_pool_worker *w,
                            const struct model_layer *l)
{
    const size_t n = l->q_down.n_out;
    const struct product down[2] = {
        {.w = &l->q_down, .out = r->lora, .out_stride = r->lora_stride},
        {.w = &l->k, .out = r->qkv + r->k_at, .out_stride = r->qkv_stride}};
    const struct product up = {.w = &l->q, .out = r->qkv, .out_stride = r->qkv_stride};
    const struct input in = {r->norm, r->embd_stride, r->qrows, r->qrow_stride};
    const struct input lora = {r->lora, r->lora_stride, r->qrows, r->qrow_stride};
    uint32_t from, to;

    products(r, w, down, 2, &in, r->batch->n_rows, RUNNER_QKV);
    while (take_rows_of(r, w, r->batch->n_rows, &from, &to))
        for (uint32_t i = from; i < to; i++) {
            float *x = r->lora + i * r->lora_stride;

            norm_row(r, x, x, &l->q_down_norm, n);
            if (is_quantised(&l->q))
                quantise_row(r, i, x, n);
        }
    end_region(r, w, RUNNER_QKV);
    products(r, w, &up, 1, &lora, r->batch->n_rows, RUNNER_QKV);
}

static void project(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l)
{
    const struct product p[2] = {
        {.w = &l->q, .out = r->qkv, .out_stride = r->qkv_stride},
        {.w = &l->k, .out = r->qkv + r->k_at, .out_stride = r->qkv_stride}};
    const struct input in = {r->norm, r->embd_stride, r->qrows, r->qrow_stride};

    if (matrix_exists(&l->q_down))
        project_queries(r, w, l);
    else
        products(r, w, p, 2, &in, r->batch->n_rows, RUNNER_QKV);
}

/* Norm the latent vector, rotate the part beside it, and write both to the cache. */
static void store_latent(struct runner *r, const struct model_layer *l, uint32_t layer,
                         uint32_t row)
{
    const struct model_shape *s = &r->model->shape;
    float *k = r->qkv + row * r->qkv_stride + r->k_at;

    norm_row(r, k, k, &l->latent_norm, s->n_latent);
    rope_heads(r, l, k + s->n_latent, 1, s->n_rot, r->batch->pos[row]);
    store_row(r, layer, row, k, k);
}

/* Finish a row's keys and queries; the rotated parts of the queries are written after the columns
 * that key_up will fill. */
static void mla_finish_row(struct runner *r, const struct model_layer *l, uint32_t layer,
                           uint32_t row)
{
    const struct model_shape *s = &r->model->shape;
    const size_t head = s->n_nope + s->n_rot;
    const uint32_t pos = r->batch->pos[row];
    float *q = r->qkv + row * r->qkv_stride;
    float *mla_q = r->mla_q + row * r->mla_q_stride;

    rope_heads(r, l, q + s->n_nope, s->n_head, head, pos);
    scale_query(r, l, q, pos, s->n_head * head);
    for (uint32_t h = 0; h < s->n_head; h++)
        memcpy(mla_q + h * s->key_dim + s->n_latent, q + h * head + s->n_nope,
               s->n_rot * sizeof(*q));
    if (is_quantised(&l->key_up))
        quantise_each(r, row, q, head, s->n_nope);
    store_latent(r, l, layer, row);
}

static void mla_finish_rows(struct runner *r, struct thread_pool_worker *w,
                            const struct model_layer *l, uint32_t layer)
{
    uint32_t from, to;

    while (take_rows_of(r, w, r->batch->n_rows, &from, &to))
        for (uint32_t i = from; i < to; i++)
            mla_finish_row(r, l, layer, i);
    end_region(r, w, RUNNER_ROPE);
}

static void take_latent(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l)
{
    const struct model_shape *s = &r->model->shape;
    const struct head_product p = {
        .w = &l->key_up,
        .out = r->mla_q,
        .out_stride = r->mla_q_stride,
        .to_each = s->key_dim,
        .in = {r->qkv, r->qkv_stride, r->head_qrows, s->n_head * r->head_qrow_stride},
        .from_each = s->n_nope + s->n_rot,
        .q_each = r->head_qrow_stride,
    };

    head_products(r, w, &p, RUNNER_QKV);
}

/* ---- results ---- */

static void take_out(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l)
{
    const struct model_shape *s = &r->model->shape;
    const struct head_product p = {
        .w = &l->value_up,
        .out = r->heads,
        .out_stride = r->heads_stride,
        .to_each = s->head_out,
        .in = {r->att, r->att_stride, r->head_qrows, s->n_head * r->head_qrow_stride},
        .from_each = s->value_dim,
        .q_each = r->head_qrow_stride,
    };
    uint32_t from, to;

    if (is_quantised(&l->value_up)) {
        while (take_rows_of(r, w, r->batch->n_rows, &from, &to))
            for (uint32_t i = from; i < to; i++)
                quantise_each(r, i, r->att + i * r->att_stride, s->value_dim, s->value_dim);
        end_region(r, w, RUNNER_ATTENTION);
    }
    head_products(r, w, &p, RUNNER_ATTN_OUT);
}

void mla_attention(struct runner *r, struct thread_pool_worker *w, uint32_t layer)
{
    const struct model_layer *l = &r->model->layers[layer];

    project(r, w, l);
    mla_finish_rows(r, w, l, layer);
    take_latent(r, w, l);
    attend(r, w, layer, r->mla_q, r->mla_q_stride);
    take_out(r, w, l);
    project_out(r, w, l, r->heads, r->heads_stride, false);
}

void mla_keys(struct runner *r, struct thread_pool_worker *w, uint32_t layer)
{
    const struct model_layer *l = &r->model->layers[layer];
    const struct product p = {.w = &l->k, .out = r->qkv + r->k_at, .out_stride = r->qkv_stride};
    const struct input in = {r->norm, r->embd_stride, r->qrows, r->qrow_stride};
    uint32_t from, to;

    products(r, w, &p, 1, &in, r->batch->n_rows, RUNNER_MTP);
    while (take_rows_of(r, w, r->batch->n_rows, &from, &to))
        for (uint32_t i = from; i < to; i++)
            store_latent(r, l, layer, i);
    end_region(r, w, RUNNER_MTP);
}
