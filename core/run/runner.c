/* core/run/runner.c - the forward pass; see runner.h.
 *
 * All threads of the team run forward() together: each step of a layer is a region of items
 * (rows, panels, attention tiles) that the threads share, ended by a barrier. Buffers are
 * row-major with strides padded to whole panels, because products write whole panels.
 */
#include "core/run/runner.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/model/model.h"
#include "core/run/sampler.h"
#include "core/run/team.h"
#include "kvcache/kv_store.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define LOGIT_ROWS 32 /* outputs whose logits are in memory at a time */
#define ATTN_ROWS 16  /* query rows of an attention item: their scores stay in the L2 cache */

struct attn_item {
    uint32_t span, from, n; /* rows from..from+n-1 of the span */
};

struct runner {
    const struct model *model;
    struct kv_store *kv;
    struct kern_table kern;
    struct team *team;
    int32_t *eog;
    size_t n_eog;
    /* strides in floats, whole panels */
    size_t embd_stride, qkv_stride, k_at, v_at, att_stride, ff_stride, vocab_stride;
    size_t qrow_stride; /* bytes of a quantised row of the widest input */
    /* activations, [max_rows][stride] */
    float *x, *norm, *qkv, *att, *gate, *up, *delta;
    uint8_t *qrows;
    float *logits; /* [LOGIT_ROWS][vocab_stride] */
    float *lrows;  /* [LOGIT_ROWS][embd_stride] normed rows of outputs */
    struct attn_item *attn_items;
    uint32_t n_attn_items;
    uint8_t *attn_scratch; /* [threads][attn_scratch_bytes] */
    size_t attn_scratch_bytes;
    struct sampler_scratch *samplers; /* [threads] */
    size_t scratch_bytes;
    /* the step */
    struct batch *batch;
    uint32_t out0, n_out; /* outputs of the tile being made */
};

/* ---- life ---- */

static size_t panels(size_t n)
{
    return (n + KERN_LANES - 1) / KERN_LANES * KERN_LANES;
}

static size_t max_size(size_t a, size_t b)
{
    return a > b ? a : b;
}

static void set_strides(struct runner *r)
{
    const struct model_shape *s = &r->model->shape;
    const size_t q = panels((size_t)s->n_head * s->head_dim);
    const size_t k = panels((size_t)s->n_kv_head * s->head_dim);

    r->embd_stride = panels(s->n_embd);
    r->k_at = q;
    r->v_at = q + k;
    r->qkv_stride = q + 2 * k;
    r->att_stride = q;
    r->ff_stride = panels(s->n_ff);
    r->vocab_stride = panels(s->n_vocab);
    r->qrow_stride = kern_qrow_bytes(panels(max_size(max_size(s->n_embd, s->n_ff), q)) + 16);
    r->attn_scratch_bytes =
        (kern_attn_scratch(s->n_head / s->n_kv_head, s->head_dim) + 63) / 64 * 64;
}

static float *take_rows(struct runner *r, size_t rows, size_t stride)
{
    r->scratch_bytes += rows * stride * sizeof(float);
    return mem_aligned(rows * stride, sizeof(float));
}

static int create_buffers(struct runner *r, const struct runner_options *o)
{
    const size_t n = o->max_rows;

    r->x = take_rows(r, n, r->embd_stride);
    r->norm = take_rows(r, n, r->embd_stride);
    r->delta = take_rows(r, n, r->embd_stride);
    r->qkv = take_rows(r, n, r->qkv_stride);
    r->att = take_rows(r, n, r->att_stride);
    r->gate = take_rows(r, n, r->ff_stride);
    r->up = take_rows(r, n, r->ff_stride);
    r->logits = take_rows(r, LOGIT_ROWS, r->vocab_stride);
    r->lrows = take_rows(r, LOGIT_ROWS, r->embd_stride);
    r->qrows = mem_aligned(max_size(n, LOGIT_ROWS), r->qrow_stride);
    r->attn_items = mem_calloc(n, sizeof(*r->attn_items));
    r->attn_scratch = mem_aligned(o->threads, r->attn_scratch_bytes);
    r->samplers = mem_calloc(o->threads, sizeof(*r->samplers));
    r->eog = mem_dup(o->eog, o->n_eog * sizeof(*r->eog));
    r->scratch_bytes += n * r->qrow_stride + o->threads * r->attn_scratch_bytes;
    if (r->x == NULL || r->norm == NULL || r->delta == NULL || r->qkv == NULL || r->att == NULL ||
        r->gate == NULL || r->up == NULL || r->logits == NULL || r->lrows == NULL ||
        r->qrows == NULL || r->attn_items == NULL || r->attn_scratch == NULL ||
        r->samplers == NULL || r->eog == NULL)
        return ERR_NOMEM;
    for (uint32_t i = 0; i < o->threads; i++)
        if (sampler_scratch_create(&r->samplers[i], r->model->shape.n_vocab) < 0)
            return ERR_NOMEM;
    r->scratch_bytes += o->threads * (size_t)r->model->shape.n_vocab * 16;
    return 0;
}

static int check_options(const struct runner_options *o, char *err, size_t err_len)
{
    const struct model_shape *s = &o->model->shape;
    const struct kv_shape *kv = &o->kv->shape;

    if (kv->n_layer != s->n_layer || kv->n_kv_head != s->n_kv_head || kv->head_dim != s->head_dim) {
        snprintf(err, err_len, "the KV store's shape is not the model's");
        return ERR_INVAL;
    }
    for (size_t i = 0; i < o->n_eog; i++)
        if (o->eog[i] < 0 || (uint32_t)o->eog[i] >= s->n_vocab) {
            snprintf(err, err_len, "end-of-generation token %d is outside the vocabulary of %u",
                     o->eog[i], s->n_vocab);
            return ERR_RANGE;
        }
    return 0;
}

int runner_create(struct runner **out, const struct runner_options *o, char *err, size_t err_len)
{
    struct runner *r;
    int rc;

    *out = NULL;
    rc = check_options(o, err, err_len);
    if (rc < 0)
        return rc;
    snprintf(err, err_len, "no memory for the activations of %u rows", o->max_rows);
    r = mem_calloc(1, sizeof(*r));
    if (r == NULL)
        return ERR_NOMEM;
    r->model = o->model;
    r->kv = o->kv;
    r->n_eog = o->n_eog;
    kern_init(&r->kern, o->isa);
    set_strides(r);
    rc = team_create(&r->team, &(struct team_options){.n_threads = o->threads, .pin = o->pin});
    if (rc < 0)
        snprintf(err, err_len, "cannot start %u compute threads: %s", o->threads, err_text(rc));
    else
        rc = create_buffers(r, o);
    if (rc < 0) {
        runner_destroy(&r);
        return rc;
    }
    *out = r;
    return 0;
}

void runner_destroy(struct runner **runner)
{
    struct runner *r = runner != NULL ? *runner : NULL;
    uint32_t n_threads;

    if (r == NULL)
        return;
    n_threads = r->team != NULL ? team_n_threads(r->team) : 0;
    team_destroy(&r->team);
    for (uint32_t i = 0; r->samplers != NULL && i < n_threads; i++)
        sampler_scratch_release(&r->samplers[i]);
    mem_free(r->samplers);
    mem_free(r->x);
    mem_free(r->norm);
    mem_free(r->delta);
    mem_free(r->qkv);
    mem_free(r->att);
    mem_free(r->gate);
    mem_free(r->up);
    mem_free(r->logits);
    mem_free(r->lrows);
    mem_free(r->qrows);
    mem_free(r->attn_items);
    mem_free(r->attn_scratch);
    mem_free(r->eog);
    mem_free(r);
    *runner = NULL;
}

size_t runner_scratch_bytes(const struct runner *r)
{
    return r->scratch_bytes;
}

/* ---- products ---- */

struct product {
    const struct matrix *w;
    float *out;
    size_t out_stride;
};

/* Panels one thread takes at a time: a few shares each, so that a thread that was interrupted
 * does not hold up the others for long. */
static uint32_t grain_for(const struct runner *r, uint32_t n_items)
{
    const uint32_t n_threads = team_n_threads(r->team);
    const uint32_t grain = n_items / (n_threads * 4);

    if (n_threads == 1)
        return n_items > 0 ? n_items : 1;
    return grain > 0 ? grain : 1;
}

static void run_product(struct runner *r, const struct product *p, const float *x, size_t x_stride,
                        uint32_t n_rows, uint32_t from, uint32_t to)
{
    const struct matrix *w = p->w;
    const bool quantised = kern_weight_is_quantised(w->type);
    const void *in = quantised ? (const void *)r->qrows : (const void *)x;
    const size_t stride = quantised ? r->qrow_stride : x_stride * sizeof(float);

    r->kern.gemm[w->type](p->out + (size_t)from * KERN_LANES, p->out_stride, in, stride, n_rows,
                          w->data + (size_t)from * w->panel_bytes, to - from, w->n_in);
}

/* Several products of the same input as one region. The input's quantised rows are in r->qrows. */
static void products(struct runner *r, struct team_worker *w, const struct product *p, uint32_t n,
                     const float *x, size_t x_stride, uint32_t n_rows)
{
    uint32_t total = 0, from, to;

    for (uint32_t i = 0; i < n; i++)
        total += p[i].w->n_panels;
    while (team_take(w, total, grain_for(r, total), &from, &to)) {
        uint32_t first = 0;

        for (uint32_t i = 0; i < n; first += p[i++].w->n_panels) {
            const uint32_t end = first + p[i].w->n_panels;
            const uint32_t a = from > first ? from : first, b = to < end ? to : end;

            if (a < b)
                run_product(r, &p[i], x, x_stride, n_rows, a - first, b - first);
        }
    }
    team_barrier(w);
}

/* Row-wise regions: a decode step has few rows, a prompt chunk many. */
static bool take_rows_of(struct runner *r, struct team_worker *w, uint32_t n, uint32_t *from,
                         uint32_t *to)
{
    const uint32_t grain = n / (team_n_threads(r->team) * 4);

    return team_take(w, n, grain > 0 ? grain : 1, from, to);
}

static bool any_quantised(const struct matrix *a, const struct matrix *b, const struct matrix *c)
{
    return kern_weight_is_quantised(a->type) || (b != NULL && kern_weight_is_quantised(b->type)) ||
           (c != NULL && kern_weight_is_quantised(c->type));
}

static void quantise_row(struct runner *r, uint32_t row, const float *x, size_t n)
{
    r->kern.quantise(r->qrows + row * r->qrow_stride, x, n);
}

/* ---- the steps of a layer ---- */

static void embed(struct runner *r, struct team_worker *w)
{
    const struct matrix *e = &r->model->embed;
    uint32_t from, to;

    while (take_rows_of(r, w, r->batch->n_rows, &from, &to))
        for (uint32_t i = from; i < to; i++) {
            const uint32_t id = (uint32_t)r->batch->ids[i];

            assert(id < e->n_out);
            kern_unpack_row(e->type, e->data + id / KERN_LANES * e->panel_bytes, id % KERN_LANES,
                            r->x + i * r->embd_stride, e->n_in);
        }
    team_barrier(w);
}

/* norm = rmsnorm(x) * weight, after adding what the step before left in delta. */
static void add_and_norm(struct runner *r, struct team_worker *w, bool add, const float *weight,
                         bool quantise)
{
    const struct model_shape *s = &r->model->shape;
    uint32_t from, to;

    while (take_rows_of(r, w, r->batch->n_rows, &from, &to))
        for (uint32_t i = from; i < to; i++) {
            float *x = r->x + i * r->embd_stride, *norm = r->norm + i * r->embd_stride;

            if (add)
                r->kern.add(x, r->delta + i * r->embd_stride, s->n_embd);
            r->kern.rmsnorm(norm, x, weight, s->n_embd, s->norm_eps);
            if (quantise)
                quantise_row(r, i, norm, s->n_embd);
        }
    team_barrier(w);
}

static void project_qkv(struct runner *r, struct team_worker *w, const struct model_layer *l)
{
    const struct product p[3] = {
        {&l->q, r->qkv, r->qkv_stride},
        {&l->k, r->qkv + r->k_at, r->qkv_stride},
        {&l->v, r->qkv + r->v_at, r->qkv_stride},
    };

    products(r, w, p, 3, r->norm, r->embd_stride, r->batch->n_rows);
}

static void norm_heads(struct runner *r, float *x, uint32_t n_head, const float *weight)
{
    const struct model_shape *s = &r->model->shape;

    for (uint32_t h = 0; h < n_head; h++)
        r->kern.rmsnorm(x + (size_t)h * s->head_dim, x + (size_t)h * s->head_dim, weight,
                        s->head_dim, s->norm_eps);
}

/* Biases, head norms and rotation of one row, then its keys and values into their slot. */
static void finish_row(struct runner *r, const struct model_layer *l, uint32_t layer, uint32_t row)
{
    const struct model_shape *s = &r->model->shape;
    const uint32_t pos = r->batch->pos[row];
    const block_id block = r->batch->spans[r->batch->span_of[row]].table[pos / BLOCK_TOKENS];
    const float *cos = r->model->rope_cos + (size_t)pos * (s->n_rot / 2);
    const float *sin = r->model->rope_sin + (size_t)pos * (s->n_rot / 2);
    float *q = r->qkv + row * r->qkv_stride, *k = q + r->k_at, *v = q + r->v_at;

    assert(block != BLOCK_NONE && pos < s->n_ctx);
    if (l->q_bias != NULL)
        r->kern.add(q, l->q_bias, (size_t)s->n_head * s->head_dim);
    if (l->k_bias != NULL)
        r->kern.add(k, l->k_bias, (size_t)s->n_kv_head * s->head_dim);
    if (l->v_bias != NULL)
        r->kern.add(v, l->v_bias, (size_t)s->n_kv_head * s->head_dim);
    if (l->q_norm != NULL)
        norm_heads(r, q, s->n_head, l->q_norm);
    if (l->k_norm != NULL)
        norm_heads(r, k, s->n_kv_head, l->k_norm);
    r->kern.rope(q, s->n_head, s->head_dim, s->n_rot, cos, sin, s->rope_neox);
    r->kern.rope(k, s->n_kv_head, s->head_dim, s->n_rot, cos, sin, s->rope_neox);
    r->kern.kv_write(kv_store_keys(r->kv, block, layer), kv_store_values(r->kv, block, layer),
                     pos % BLOCK_TOKENS, k, v, s->n_kv_head, s->head_dim);
}

static void finish_rows(struct runner *r, struct team_worker *w, const struct model_layer *l,
                        uint32_t layer)
{
    uint32_t from, to;

    while (take_rows_of(r, w, r->batch->n_rows, &from, &to))
        for (uint32_t i = from; i < to; i++)
            finish_row(r, l, layer, i);
    team_barrier(w);
}

static void attend_item(struct runner *r, struct team_worker *w, uint32_t layer,
                        const struct attn_item *item, uint32_t kv_head)
{
    const struct model_shape *s = &r->model->shape;
    const struct batch_span *span = &r->batch->spans[item->span];
    const uint32_t row = span->row0 + item->from, group = s->n_head / s->n_kv_head;
    const size_t head = (size_t)kv_head * s->head_dim * BLOCK_TOKENS;
    const size_t q_at = (size_t)kv_head * group * s->head_dim;
    const struct kern_attn a = {
        .q = r->qkv + row * r->qkv_stride + q_at,
        .out = r->att + row * r->att_stride + q_at,
        .q_stride = r->qkv_stride,
        .out_stride = r->att_stride,
        .keys = kv_store_keys(r->kv, 0, layer) + head,
        .values = kv_store_values(r->kv, 0, layer) + head,
        .block_stride = r->kv->block_stride,
        .table = span->table,
        .pos0 = span->pos0 + item->from,
        .n_row = item->n,
        .n_head = group,
        .head_dim = s->head_dim,
        .scale = 1.0f / sqrtf((float)s->head_dim),
        .scratch = (float *)(void *)(r->attn_scratch + w->index * r->attn_scratch_bytes),
    };

    r->kern.attn(&a);
}

/* Items are (tile of rows) x (KV head); the longest contexts come last in a prompt, so single
 * items are handed out. */
static void attend(struct runner *r, struct team_worker *w, uint32_t layer)
{
    const uint32_t n_kv = r->model->shape.n_kv_head;
    uint32_t from, to;

    while (team_take(w, r->n_attn_items * n_kv, 1, &from, &to))
        attend_item(r, w, layer, &r->attn_items[from / n_kv], from % n_kv);
    team_barrier(w);
}

static void quantise_rows(struct runner *r, struct team_worker *w, const float *x, size_t stride,
                          size_t n)
{
    uint32_t from, to;

    while (take_rows_of(r, w, r->batch->n_rows, &from, &to))
        for (uint32_t i = from; i < to; i++)
            quantise_row(r, i, x + i * stride, n);
    team_barrier(w);
}

static void project_out(struct runner *r, struct team_worker *w, const struct model_layer *l)
{
    const struct product p = {&l->attn_out, r->delta, r->embd_stride};

    if (kern_weight_is_quantised(l->attn_out.type))
        quantise_rows(r, w, r->att, r->att_stride, l->attn_out.n_in);
    products(r, w, &p, 1, r->att, r->att_stride, r->batch->n_rows);
}

static void activate(struct runner *r, struct team_worker *w, const struct model_layer *l)
{
    const size_t n_ff = r->model->shape.n_ff;
    const bool quantised = kern_weight_is_quantised(l->down.type);
    uint32_t from, to;

    while (take_rows_of(r, w, r->batch->n_rows, &from, &to))
        for (uint32_t i = from; i < to; i++) {
            float *gate = r->gate + i * r->ff_stride;

            r->kern.silu_mul(gate, gate, r->up + i * r->ff_stride, n_ff);
            if (quantised)
                quantise_row(r, i, gate, n_ff);
        }
    team_barrier(w);
}

static void feed_forward(struct runner *r, struct team_worker *w, const struct model_layer *l)
{
    const struct product in[2] = {
        {&l->gate, r->gate, r->ff_stride},
        {&l->up, r->up, r->ff_stride},
    };
    const struct product out = {&l->down, r->delta, r->embd_stride};

    products(r, w, in, 2, r->norm, r->embd_stride, r->batch->n_rows);
    activate(r, w, l);
    products(r, w, &out, 1, r->gate, r->ff_stride, r->batch->n_rows);
}

/* After the last layer nobody norms all rows: only what is left in delta is added. */
static void add_delta(struct runner *r, struct team_worker *w)
{
    uint32_t from, to;

    while (take_rows_of(r, w, r->batch->n_rows, &from, &to))
        for (uint32_t i = from; i < to; i++)
            r->kern.add(r->x + i * r->embd_stride, r->delta + i * r->embd_stride,
                        r->model->shape.n_embd);
    team_barrier(w);
}

/* ---- outputs ---- */

static void norm_outputs(struct runner *r, struct team_worker *w)
{
    const struct model_shape *s = &r->model->shape;
    const bool quantised = kern_weight_is_quantised(r->model->output.type);
    uint32_t from, to;

    while (take_rows_of(r, w, r->n_out, &from, &to))
        for (uint32_t i = from; i < to; i++) {
            const float *x = r->x + r->batch->outputs[r->out0 + i].row * r->embd_stride;
            float *norm = r->lrows + i * r->embd_stride;

            r->kern.rmsnorm(norm, x, r->model->output_norm, s->n_embd, s->norm_eps);
            if (quantised)
                quantise_row(r, i, norm, s->n_embd);
        }
    team_barrier(w);
}

static void pick_outputs(struct runner *r, struct team_worker *w)
{
    uint32_t from, to;

    while (team_take(w, r->n_out, 1, &from, &to))
        sampler_pick(&r->kern, &r->samplers[w->index], r->logits + from * r->vocab_stride, r->eog,
                     r->n_eog, &r->batch->outputs[r->out0 + from]);
    team_barrier(w);
}

static void outputs(struct runner *r, struct team_worker *w)
{
    const struct product p = {&r->model->output, r->logits, r->vocab_stride};

    for (uint32_t at = 0; at < r->batch->n_outputs; at += LOGIT_ROWS) {
        const uint32_t left = r->batch->n_outputs - at;

        if (w->index == 0) {
            r->out0 = at;
            r->n_out = left < LOGIT_ROWS ? left : LOGIT_ROWS;
        }
        team_barrier(w);
        norm_outputs(r, w);
        products(r, w, &p, 1, r->lrows, r->embd_stride, r->n_out);
        pick_outputs(r, w);
    }
}

/* ---- the whole pass ---- */

static void forward(void *ud, struct team_worker *w)
{
    struct runner *r = ud;
    const struct model *m = r->model;

    embed(r, w);
    for (uint32_t i = 0; i < m->shape.n_layer; i++) {
        const struct model_layer *l = &m->layers[i];

        add_and_norm(r, w, i > 0, l->attn_norm, any_quantised(&l->q, &l->k, &l->v));
        project_qkv(r, w, l);
        finish_rows(r, w, l, i);
        attend(r, w, i);
        project_out(r, w, l);
        add_and_norm(r, w, true, l->ffn_norm, any_quantised(&l->gate, &l->up, NULL));
        feed_forward(r, w, l);
    }
    add_delta(r, w);
    outputs(r, w);
}

static void cut_attention(struct runner *r)
{
    const struct batch *b = r->batch;

    r->n_attn_items = 0;
    for (uint32_t i = 0; i < b->n_spans; i++)
        for (uint32_t from = 0; from < b->spans[i].n_row; from += ATTN_ROWS) {
            const uint32_t left = b->spans[i].n_row - from;

            r->attn_items[r->n_attn_items++] = (struct attn_item){
                .span = i, .from = from, .n = left < ATTN_ROWS ? left : ATTN_ROWS};
        }
}

void runner_step(struct runner *r, struct batch *b)
{
    if (b->n_rows == 0)
        return;
    r->batch = b;
    cut_attention(r);
    team_run(r->team, forward, r);
}
