/* core/run/forward.c - the forward pass; see runner.h.
 *
 * Each step of a layer is a region of items (rows, panels, attention tiles) that the threads
 * share, ended by a barrier. What can be finished by whoever has the numbers in its cache is done
 * there: the gate's activation, the quantising of what the next product takes.
 */
#include "core/base/clock.h"
#include "core/model/model.h"
#include "core/run/runner_impl.h"
#include "core/run/team.h"
#include "kvcache/kv_store.h"

#include <assert.h>
#include <math.h>

/* The region is over; its time counts as `part`. */
static void end_region(struct runner *r, struct team_worker *w, enum runner_part part)
{
    team_barrier(w);
    if (w->index == 0) {
        const uint64_t now = clock_ns();

        r->times.ns[part] += now - r->since_ns;
        r->since_ns = now;
    }
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

/* Items that a thread takes in its n-th go at a region of products: most of its share, since each
 * go costs a look at all rows, then little by little, so that a thread that was interrupted does
 * not hold up the others for long. */
static uint32_t grain_for(const struct runner *r, uint32_t n_items, uint32_t n)
{
    const uint32_t n_threads = team_n_threads(r->team);
    const uint32_t eighth = n_items / (n_threads * 8);

    if (n_threads == 1)
        return n_items > 0 ? n_items : 1;
    if (eighth == 0)
        return 1;
    return n == 0 ? 5 * eighth : eighth;
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
                     const struct input *in, uint32_t n_rows, enum runner_part part)
{
    uint32_t total = 0, from, to;

    for (uint32_t i = 0; i < n; i++)
        total += p[i].w->n_panels;
    for (uint32_t go = 0; team_take(w, total, grain_for(r, total, go), &from, &to); go++) {
        uint32_t first = 0;

        for (uint32_t i = 0; i < n; first += p[i++].w->n_panels) {
            const uint32_t end = first + p[i].w->n_panels;
            const uint32_t a = from > first ? from : first, b = to < end ? to : end;

            if (a < b)
                run_product(r, &p[i], in, n_rows, a - first, b - first);
        }
    }
    end_region(r, w, part);
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
    end_region(r, w, RUNNER_EMBED);
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
                r->kern.add(x, r->delta + i * r->embd_stride, 1.0f, s->n_embd);
            r->kern.rmsnorm(norm, x, weight, s->n_embd, s->norm_eps);
            if (quantise)
                quantise_row(r, i, norm, s->n_embd);
        }
    end_region(r, w, RUNNER_NORM);
}

static void project_qkv(struct runner *r, struct team_worker *w, const struct model_layer *l)
{
    const struct product p[3] = {
        {&l->q, r->qkv, r->qkv_stride},
        {&l->k, r->qkv + r->k_at, r->qkv_stride},
        {&l->v, r->qkv + r->v_at, r->qkv_stride},
    };
    const struct input in = {r->norm, r->embd_stride, r->qrows, r->qrow_stride};

    products(r, w, p, 3, &in, r->batch->n_rows, RUNNER_QKV);
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
        r->kern.add(q, l->q_bias, 1.0f, (size_t)s->n_head * s->head_dim);
    if (l->k_bias != NULL)
        r->kern.add(k, l->k_bias, 1.0f, (size_t)s->n_kv_head * s->head_dim);
    if (l->v_bias != NULL)
        r->kern.add(v, l->v_bias, 1.0f, (size_t)s->n_kv_head * s->head_dim);
    if (l->q_norm != NULL)
        norm_heads(r, q, s->n_head, l->q_norm);
    if (l->k_norm != NULL)
        norm_heads(r, k, s->n_kv_head, l->k_norm);
    r->kern.rope(q, s->n_head, s->head_dim, s->n_rot, cos, sin, s->rope_neox);
    r->kern.rope(k, s->n_kv_head, s->head_dim, s->n_rot, cos, sin, s->rope_neox);
    r->kern.kv_write[r->kv_type](kv_store_keys(r->kv, block, layer),
                                 kv_store_values(r->kv, block, layer), pos % BLOCK_TOKENS, k, v,
                                 s->n_kv_head, s->head_dim, s->head_dim);
}

static void finish_rows(struct runner *r, struct team_worker *w, const struct model_layer *l,
                        uint32_t layer)
{
    uint32_t from, to;

    while (take_rows_of(r, w, r->batch->n_rows, &from, &to))
        for (uint32_t i = from; i < to; i++)
            finish_row(r, l, layer, i);
    end_region(r, w, RUNNER_ROPE);
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
    const size_t q_at = (size_t)kv_head * group * s->head_dim;
    const struct kern_attn a = {
        .q = r->qkv + row * r->qkv_stride + q_at,
        .out = r->att + row * r->att_stride + q_at,
        .q_stride = r->qkv_stride,
        .out_stride = r->att_stride,
        .keys = kv_store_keys(r->kv, 0, layer) + kv_head * r->kv->shape.key_bytes,
        .values = kv_store_values(r->kv, 0, layer) + kv_head * r->kv->shape.value_bytes,
        .block_stride = r->kv->block_stride,
        .table = span->table,
        .pos0 = span->pos0 + item->from,
        .n_row = item->n,
        .n_head = group,
        .key_dim = s->head_dim,
        .value_dim = s->head_dim,
        .scale = 1.0f / sqrtf((float)s->head_dim),
        .seg0 = item->seg0,
        .seg1 = item->seg1,
        .part = item->part != NULL ? item->part + kv_head * item->n * group * item->part_stride
                                   : NULL,
        .part_stride = item->part_stride,
        .scratch = (float *)(void *)(r->attn_scratch + w->index * r->attn_scratch_bytes),
    };

    r->kern.attn[r->kv_type](&a);
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
                           s->head_dim, NULL);
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
    end_region(r, w, RUNNER_ATTENTION);
    if (r->cut.n_splits == 0)
        return;
    while (team_take(w, r->cut.n_splits * n_kv, 1, &from, &to))
        merge_split(r, layer, &r->cut.splits[from / n_kv], from % n_kv);
    end_region(r, w, RUNNER_ATTENTION);
}

static void quantise_rows(struct runner *r, struct team_worker *w, const float *x, size_t stride,
                          size_t n)
{
    uint32_t from, to;

    while (take_rows_of(r, w, r->batch->n_rows, &from, &to))
        for (uint32_t i = from; i < to; i++)
            quantise_row(r, i, x + i * stride, n);
    end_region(r, w, RUNNER_ATTENTION);
}

static void project_out(struct runner *r, struct team_worker *w, const struct model_layer *l)
{
    const struct product p = {&l->attn_out, r->delta, r->embd_stride};
    const struct input in = {r->att, r->att_stride, r->qrows, r->qrow_stride};

    if (kern_weight_is_quantised(l->attn_out.type) && !quantises_heads(r, l))
        quantise_rows(r, w, r->att, r->att_stride, l->attn_out.n_in);
    products(r, w, &p, 1, &in, r->batch->n_rows, RUNNER_ATTN_OUT);
}

/* Columns from .. to - 1 of the gate and of what it lets pass, all rows; quantised for `down`. */
static void activate(struct runner *r, const struct model_layer *l, size_t from, size_t to)
{
    const size_t n_ff = r->model->shape.n_ff;
    const bool quantised = kern_weight_is_quantised(l->down.type);

    to = to < n_ff ? to : n_ff;
    for (uint32_t i = 0; i < r->batch->n_rows; i++) {
        float *gate = r->gate + i * r->ff_stride + from;

        r->kern.act[KERN_ACT_SILU](gate, gate, r->up + i * r->ff_stride + from, to - from);
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

    for (uint32_t go = 0; team_take(w, n_items, grain_for(r, n_items, go), &from, &to); go++) {
        const uint32_t end = 2 * to < n_panels ? 2 * to : n_panels;

        run_product(r, &gate, &in, r->batch->n_rows, 2 * from, end);
        run_product(r, &up, &in, r->batch->n_rows, 2 * from, end);
        activate(r, l, (size_t)2 * from * KERN_LANES, (size_t)end * KERN_LANES);
    }
    end_region(r, w, RUNNER_GATE_UP);
}

static void feed_forward(struct runner *r, struct team_worker *w, const struct model_layer *l)
{
    const struct product down = {&l->down, r->delta, r->embd_stride};
    const struct input in = {r->gate, r->ff_stride, r->ff_rows, r->ff_row_stride};

    gate_up(r, w, l);
    products(r, w, &down, 1, &in, r->batch->n_rows, RUNNER_DOWN);
}

/* After the last layer nobody norms all rows: only what is left in delta is added. */
static void add_delta(struct runner *r, struct team_worker *w)
{
    uint32_t from, to;

    while (take_rows_of(r, w, r->batch->n_rows, &from, &to))
        for (uint32_t i = from; i < to; i++)
            r->kern.add(r->x + i * r->embd_stride, r->delta + i * r->embd_stride, 1.0f,
                        r->model->shape.n_embd);
    end_region(r, w, RUNNER_NORM);
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
    end_region(r, w, RUNNER_NORM);
}

static void pool_rows(struct runner *r, struct team_worker *w)
{
    const struct model_shape *s = &r->model->shape;
    uint32_t from, to;

    if (r->batch->n_pools == 0)
        return;
    while (team_take(w, r->batch->n_pools, 1, &from, &to)) {
        const struct batch_pool *p = &r->batch->pools[from];

        for (uint32_t i = p->row0; i < p->row0 + p->n_row; i++) {
            float *norm = r->norm + i * r->embd_stride;

            r->kern.rmsnorm(norm, r->x + i * r->embd_stride, r->model->output_norm, s->n_embd,
                            s->norm_eps);
            r->kern.add(p->sum, norm, 1.0f, s->n_embd);
        }
    }
    end_region(r, w, RUNNER_NORM);
}

static void pick_outputs(struct runner *r, struct team_worker *w)
{
    uint32_t from, to;

    while (team_take(w, r->n_out, 1, &from, &to))
        sampler_pick(&r->kern, &r->samplers[w->index], r->logits + from * r->vocab_stride, r->eog,
                     r->n_eog, &r->batch->outputs[r->out0 + from]);
    end_region(r, w, RUNNER_SAMPLE);
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
        products(r, w, &p, 1, &in, r->n_out, RUNNER_LOGITS);
        pick_outputs(r, w);
    }
}

/* ---- the whole pass ---- */

void runner_forward(void *ud, struct team_worker *w)
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
    pool_rows(r, w);
    outputs(r, w);
}
