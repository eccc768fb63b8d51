/* core/runtime/forward_rows.c - residuals, norms, rotation and cache writes, row by row; see
 * forward.h.
 *
 * A row belongs to one thread within a region, so everything that happens to it between two
 * products (bias, norm, rotation, quantising) is done in one visit, in place. residual_norm() adds
 * the branch that the last layer left before it norms x, which saves a pass over the rows.
 */
#include "core/runtime/forward.h"
#include "kvcache/kv_store.h"

#include <assert.h>
#include <string.h>

bool take_rows_of(struct runner *r, struct thread_pool_worker *w, uint32_t n, uint32_t *from,
                  uint32_t *to)
{
    const uint32_t grain = n / (thread_pool_n_threads(r->pool) * 4);

    return thread_pool_take(w, n, grain > 0 ? grain : 1, from, to);
}

void quantise_row(struct runner *r, uint32_t row, const float *x, size_t n)
{
    r->kern.quantise(r->qrows + row * r->qrow_stride, n, x, 0, n);
}

void norm_row(const struct runner *r, float *out, const float *x, const struct norm *norm,
              size_t n)
{
    const struct model_shape *s = &r->model->shape;

    if (norm->weight != NULL && s->norm == NORM_LAYER)
        r->kern.layernorm(out, x, norm->weight, norm->bias, n, s->norm_eps);
    else if (norm->weight != NULL)
        r->kern.rmsnorm(out, x, norm->weight, n, s->norm_eps);
    else if (out != x)
        memcpy(out, x, n * sizeof(*out));
}

/* ---- residuals ---- */

static void add_residual(const struct runner *r, float *x, const struct residual *b, uint32_t row)
{
    const struct model_shape *s = &r->model->shape;
    float *before = r->norm + row * r->embd_stride; /* r->norm is free until the norm of x is
                                                     * written there */
    /* no other thread reads this row of the branch */
    float *delta = (float *)b->delta + row * r->embd_stride;

    if (b->bias != NULL)
        r->kern.add(delta, b->bias, 1.0f, s->n_embd);
    norm_row(r, delta, delta, &b->post, s->n_embd);
    if (b->input.weight != NULL)
        memcpy(before, x, s->n_embd * sizeof(*x));
    r->kern.add(x, delta, s->residual_scale, s->n_embd);
    norm_row(r, x, x, &b->sum, s->n_embd);
    if (b->input.weight != NULL) {
        r->kern.add(x, before, 1.0f, s->n_embd);
        norm_row(r, x, x, &b->input, s->n_embd);
    }
    if (b->scale != NULL)
        r->kern.scale(x, *b->scale, s->n_embd);
}

void residual_norm(struct runner *r, struct thread_pool_worker *w,
                   const struct residual branches[2], const struct norm *pre, bool quantise)
{
    const size_t n = r->model->shape.n_embd;
    uint32_t from, to;

    while (take_rows_of(r, w, r->batch->n_rows, &from, &to))
        for (uint32_t i = from; i < to; i++) {
            float *x = r->x + i * r->embd_stride, *norm = r->norm + i * r->embd_stride;

            for (int b = 0; b < 2; b++)
                if (branches[b].delta != NULL)
                    add_residual(r, x, &branches[b], i);
            norm_row(r, norm, x, pre, n);
            if (quantise)
                quantise_row(r, i, norm, n);
        }
    end_region(r, w, RUNNER_NORM);
}

/* ---- queries, keys and values ---- */

void norm_heads(const struct runner *r, float *x, uint32_t n_head, size_t dim,
                const struct norm *norm)
{
    const struct model_shape *s = &r->model->shape;
    const size_t next = s->qk_norm == QK_NORM_EACH_HEAD ? dim : 0;

    if (norm->weight == NULL)
        return;
    if (s->qk_norm == QK_NORM_ROW) {
        norm_row(r, x, x, norm, n_head * dim);
        return;
    }
    for (uint32_t h = 0; h < n_head; h++) {
        const struct norm own = {.weight = norm->weight + h * next};

        norm_row(r, x + h * dim, x + h * dim, &own, dim);
    }
}

void rope_heads(const struct runner *r, const struct model_layer *l, float *x, uint32_t n_head,
                size_t stride, uint32_t pos)
{
    const struct model_shape *s = &r->model->shape;
    const struct rope_table *t;

    if (l->rope == MODEL_NO_ROPE)
        return;
    assert(pos < s->n_ctx);
    t = &r->model->ropes[l->rope];
    r->kern.rope(x, n_head, stride, l->n_rot, t->cos + (size_t)pos * (l->n_rot / 2),
                 t->sin + (size_t)pos * (l->n_rot / 2), s->rope_neox);
}

void store_row(struct runner *r, uint32_t layer, uint32_t row, const float *k, const float *v)
{
    const struct model_layer *l = &r->model->layers[layer];
    const uint32_t pos = r->batch->pos[row];
    const struct batch_span *span = &r->batch->spans[r->batch->span_of[row]];
    const struct kv_location *at = &l->kv;
    const block_id block = span->table[at->group * span->group_stride + pos / BLOCK_TOKENS];

    assert(block != BLOCK_NONE && pos < r->model->shape.n_ctx);
    r->kern.kv_write[r->kv_type](kv_store_keys(r->kv, block, at->at),
                                 kv_store_values(r->kv, block, at->at), pos % BLOCK_TOKENS, k, v,
                                 l->n_kv_head, l->key_dim, l->value_dim);
}

static void add_bias(const struct runner *r, float *x, const float *bias, size_t n)
{
    if (bias != NULL)
        r->kern.add(x, bias, 1.0f, n);
}

void scale_query(const struct runner *r, const struct model_layer *l, float *q, uint32_t pos,
                 size_t n)
{
    if (l->query_scale != NULL)
        r->kern.scale(q, l->query_scale[pos], n);
}

/* Norm and rotate the heads of queries or keys, in the model's order. */
static void position_heads(const struct runner *r, const struct model_layer *l, float *x,
                           uint32_t n_head, const struct norm *norm, uint32_t pos)
{
    const bool is_late = r->model->shape.late_qk_norm;

    if (!is_late)
        norm_heads(r, x, n_head, l->key_dim, norm);
    rope_heads(r, l, x, n_head, l->key_dim, pos);
    if (is_late)
        norm_heads(r, x, n_head, l->key_dim, norm);
}

static void finish_queries(const struct runner *r, const struct model_layer *l, float *q,
                           uint32_t pos)
{
    const uint32_t n_head = r->model->shape.n_head;
    const size_t n = (size_t)n_head * l->key_dim;

    add_bias(r, q, l->q_bias, n);
    position_heads(r, l, q, n_head, &l->q_norm, pos);
    scale_query(r, l, q, pos, n);
}

/* Finish a row's keys and values. A layer without v has its keys, before norm and rotation, as
 * values. */
static void finish_keys(const struct runner *r, const struct model_layer *l, float *k, float *v,
                        uint32_t pos)
{
    const size_t n = (size_t)l->n_kv_head * l->key_dim;

    add_bias(r, k, l->k_bias, n);
    if (!matrix_exists(&l->v))
        memcpy(v, k, n * sizeof(*v));
    add_bias(r, v, l->v_bias, (size_t)l->n_kv_head * l->value_dim);
    position_heads(r, l, k, l->n_kv_head, &l->k_norm, pos);
    for (uint32_t h = 0; l->v_norm.weight != NULL && h < l->n_kv_head; h++)
        norm_row(r, v + (size_t)h * l->value_dim, v + (size_t)h * l->value_dim, &l->v_norm,
                 l->value_dim);
}

void store_keys(struct runner *r, const struct model_layer *l, uint32_t layer, uint32_t row)
{
    float *q = r->qkv + row * r->qkv_stride, *k = q + r->k_at, *v = q + r->v_at;

    finish_keys(r, l, k, v, r->batch->pos[row]);
    store_row(r, layer, row, k, v);
}

static void finish_row(struct runner *r, const struct model_layer *l, uint32_t layer, uint32_t row)
{
    const uint32_t pos = r->batch->pos[row];
    float *q = r->qkv + row * r->qkv_stride;

    finish_queries(r, l, q, pos);
    if (!l->shares_kv)
        store_keys(r, l, layer, row);
}

void qkv_finish(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l,
                uint32_t layer)
{
    uint32_t from, to;

    while (take_rows_of(r, w, r->batch->n_rows, &from, &to))
        for (uint32_t i = from; i < to; i++)
            finish_row(r, l, layer, i);
    end_region(r, w, RUNNER_ROPE);
}
