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
#include "core/run/attn_cut.h"
#include "core/run/sampler.h"
#include "core/run/team.h"
#include "kvcache/kv_store.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define LOGIT_ROWS 32 /* outputs whose logits are in memory at a time */

struct runner {
    const struct model *model;
    struct kv_store *kv;
    struct kern_table kern;
    struct team *team;
    int32_t *eog;
    size_t n_eog;
    /* strides in floats, whole panels */
    size_t embd_stride, qkv_stride, k_at, v_at, att_stride, ff_stride, vocab_stride;
    size_t qrow_stride, ff_row_stride; /* bytes of a quantised row */
    /* activations, [max_rows][stride] */
    float *x, *norm, *qkv, *att, *gate, *up, *delta;
    uint8_t *qrows;   /* [rows] of norm, or of att */
    uint8_t *ff_rows; /* [rows] of gate */
    float *logits; /* [LOGIT_ROWS][vocab_stride] */
    float *lrows;  /* [LOGIT_ROWS][embd_stride] normed rows of outputs */
    struct attn_cut cut;
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
    r->qrow_stride = kern_qrow_bytes(panels(max_size(s->n_embd, q)) + 16);
    r->ff_row_stride = kern_qrow_bytes(r->ff_stride + 16);
    r->attn_scratch_bytes =
        (kern_attn_scratch(ATTN_ROWS, s->n_head / s->n_kv_head, s->head_dim) + 63) / 64 * 64;
}

static float *take_rows(struct runner *r, size_t rows, size_t stride)
{
    r->scratch_bytes += rows * stride * sizeof(float);
    return mem_aligned(rows * stride, sizeof(float));
}

static int create_cut(struct runner *r, const struct runner_options *o)
{
    const struct model_shape *s = &r->model->shape;
    const struct attn_cut_options options = {
        .max_rows = o->max_rows,
        .threads = o->threads,
        .n_ctx = s->n_ctx,
        .n_head = s->n_head,
        .n_kv_head = s->n_kv_head,
        .head_dim = s->head_dim,
    };

    return attn_cut_create(&r->cut, &options);
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
    r->ff_rows = mem_aligned(n, r->ff_row_stride);
    r->attn_scratch = mem_aligned(o->threads, r->attn_scratch_bytes);
    r->samplers = mem_calloc(o->threads, sizeof(*r->samplers));
    r->eog = mem_dup(o->eog, o->n_eog * sizeof(*r->eog));
    r->scratch_bytes += n * (r->qrow_stride + r->ff_row_stride) + o->threads * r->attn_scratch_bytes;
    if (r->x == NULL || r->norm == NULL || r->delta == NULL || r->qkv == NULL || r->att == NULL ||
        r->gate == NULL || r->up == NULL || r->logits == NULL || r->lrows == NULL ||
        r->qrows == NULL || r->ff_rows == NULL || r->attn_scratch == NULL || r->samplers == NULL || r->eog == NULL ||
        create_cut(r, o) < 0)
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
    rc = team_create(&r->team, o->threads);
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
    mem_free(r->ff_rows);
    attn_cut_release(&r->cut);
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

/* The rows that products take: as floats or quantised, as their weights want. */
struct input {
    const float *x;
    size_t stride; /* floats */
    const uint8_t *q;
    size_t q_stride; /* bytes */
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

static void run_product(struct runner *r, const struct product *p, const struct input *in,
                        uint32_t n_rows, uint32_t from, uint32_t to)
{
    const struct matrix *w = p->w;
    const bool quantised = kern_weight_is_quantised(w->type);
    const void *rows = quantised ? (const void *)in->q : (const void *)in->x;
    const size_t stride = quantised ? in->q_stride : in->stride * sizeof(float);

    r->kern.gemm[w->type](p->out + (size_t)from * KERN_LANES, p->out_stride, rows, stride, n_rows,
                          w->data + (size_t)from * w->panel_bytes, to - from, w->n_in);
}

/* Several products of the same input as one region. */
static void products(struct runner *r, struct team_worker *w, const struct product *p, uint32_t n,
                     const struct input *in, uint32_t n_rows)
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
                run_product(r, &p[i], in, n_rows, a - first, b - first);
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
    r->kern.quantise(r->qrows + row * r->qrow_stride, n, x, 0, n);
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
    const struct input in = {r->norm, r->embd_stride, r->qrows, r->qrow_stride};

    products(r, w, p, 3, &in, r->batch->n_rows);
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

/* The attention output of some heads of a row is done: the next product wants it quantised. */
static void quantise_heads(struct runner *r, uint32_t row, uint32_t head, uint32_t n)
{
    const struct model_shape *s = &r->model->shape;
    const size_t from = (size_t)head * s->head_dim;

    r->kern.quantise(r->qrows + row * r->qrow_stride, (size_t)s->n_head * s->head_dim,
                     r->att + row * r->att_stride + from, from, (size_t)n * s->head_dim);
}

/* Do the heads of a KV head fill whole groups, so that who computed them may quantise them? */
static bool quantises_heads(const struct runner *r, const struct model_layer *l)
{
    const struct model_shape *s = &r->model->shape;

    return kern_weight_is_quantised(l->attn_out.type) &&
           s->n_head / s->n_kv_head * s->head_dim % KERN_GROUP == 0;
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
        .seg0 = item->seg0,
        .seg1 = item->seg1,
        .part = item->part != NULL ? item->part + kv_head * item->n * group * item->part_stride
                                   : NULL,
        .part_stride = item->part_stride,
        .scratch = (float *)(void *)(r->attn_scratch + w->index * r->attn_scratch_bytes),
    };

    r->kern.attn(&a);
    if (item->part == NULL && quantises_heads(r, &r->model->layers[layer]))
        for (uint32_t i = 0; i < item->n; i++)
            quantise_heads(r, row + i, kv_head * group, group);
}

/* The heads of a KV head of a row whose segments were shared out. */
static void merge_split(struct runner *r, uint32_t layer, const struct attn_split *split,
                        uint32_t kv_head)
{
    const struct model_shape *s = &r->model->shape;
    const uint32_t group = s->n_head / s->n_kv_head;
    const float *part = split->part + kv_head * split->kv_head_stride;
    float *out = r->att + split->row * r->att_stride + (size_t)kv_head * group * s->head_dim;

    for (uint32_t h = 0; h < group; h++)
        r->kern.attn_merge(out + h * s->head_dim, part + h * split->part_stride, split->n_seg,
                           s->head_dim);
    if (quantises_heads(r, &r->model->layers[layer]))
        quantise_heads(r, split->row, kv_head * group, group);
}

/* The longest contexts come last in a prompt, so single items are handed out. */
static void attend(struct runner *r, struct team_worker *w, uint32_t layer)
{
    const uint32_t n_kv = r->model->shape.n_kv_head;
    uint32_t from, to;

    while (team_take(w, r->cut.n_items * n_kv, 1, &from, &to))
        attend_item(r, w, layer, &r->cut.items[from / n_kv], from % n_kv);
    team_barrier(w);
    if (r->cut.n_splits == 0)
        return;
    while (team_take(w, r->cut.n_splits * n_kv, 1, &from, &to))
        merge_split(r, layer, &r->cut.splits[from / n_kv], from % n_kv);
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
    const struct input in = {r->att, r->att_stride, r->qrows, r->qrow_stride};

    if (kern_weight_is_quantised(l->attn_out.type) && !quantises_heads(r, l))
        quantise_rows(r, w, r->att, r->att_stride, l->attn_out.n_in);
    products(r, w, &p, 1, &in, r->batch->n_rows);
}

/* Columns from .. to - 1 of the gate and of what it lets pass, all rows; quantised for `down`. */
static void activate(struct runner *r, const struct model_layer *l, size_t from, size_t to)
{
    const size_t n_ff = r->model->shape.n_ff;
    const bool quantised = kern_weight_is_quantised(l->down.type);

    to = to < n_ff ? to : n_ff;
    for (uint32_t i = 0; i < r->batch->n_rows; i++) {
        float *gate = r->gate + i * r->ff_stride + from;

        r->kern.silu_mul(gate, gate, r->up + i * r->ff_stride + from, to - from);
        if (quantised)
            r->kern.quantise(r->ff_rows + i * r->ff_row_stride, n_ff, gate, from, to - from);
    }
}

/* Whoever computed columns of both the gate and what it lets pass joins them, while they are in
 * the cache. Items are two panels, a group of what `down` takes quantised. */
static void gate_up(struct runner *r, struct team_worker *w, const struct model_layer *l)
{
    const struct product gate = {&l->gate, r->gate, r->ff_stride};
    const struct product up = {&l->up, r->up, r->ff_stride};
    const struct input in = {r->norm, r->embd_stride, r->qrows, r->qrow_stride};
    const uint32_t n_panels = l->gate.n_panels, n_items = (n_panels + 1) / 2;
    uint32_t from, to;

    while (team_take(w, n_items, grain_for(r, n_items), &from, &to)) {
        const uint32_t end = 2 * to < n_panels ? 2 * to : n_panels;

        run_product(r, &gate, &in, r->batch->n_rows, 2 * from, end);
        run_product(r, &up, &in, r->batch->n_rows, 2 * from, end);
        activate(r, l, (size_t)2 * from * KERN_LANES, (size_t)end * KERN_LANES);
    }
    team_barrier(w);
}

static void feed_forward(struct runner *r, struct team_worker *w, const struct model_layer *l)
{
    const struct product down = {&l->down, r->delta, r->embd_stride};
    const struct input in = {r->gate, r->ff_stride, r->ff_rows, r->ff_row_stride};

    gate_up(r, w, l);
    products(r, w, &down, 1, &in, r->batch->n_rows);
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
    const struct input in = {r->lrows, r->embd_stride, r->qrows, r->qrow_stride};

    for (uint32_t at = 0; at < r->batch->n_outputs; at += LOGIT_ROWS) {
        const uint32_t left = r->batch->n_outputs - at;

        if (w->index == 0) {
            r->out0 = at;
            r->n_out = left < LOGIT_ROWS ? left : LOGIT_ROWS;
        }
        team_barrier(w);
        norm_outputs(r, w);
        products(r, w, &p, 1, &in, r->n_out);
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

void runner_step(struct runner *r, struct batch *b)
{
    if (b->n_rows == 0)
        return;
    r->batch = b;
    attn_cut_make(&r->cut, b);
    team_run(r->team, forward, r);
}
