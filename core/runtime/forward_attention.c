/* core/runtime/forward_attention.c - attention over the paged cache; see forward.h. */
#include "core/runtime/forward.h"
#include "kvcache/kv_store.h"

/* The attention output of some heads of a row is done: the next product wants it quantised. */
static void quantise_heads(struct runner *r, uint32_t row, uint32_t head, uint32_t n)
{
    const struct model_shape *s = &r->model->shape;
    const size_t from = (size_t)head * s->value_dim;

    r->kern.quantise(r->qrows + row * r->qrow_stride, (size_t)s->n_head * s->value_dim,
                     r->att + row * r->att_stride + from, from, (size_t)n * s->value_dim);
}

/* Do the heads of a KV head fill whole groups, so that the item that computes them can quantise
 * them? */
static bool quantises_heads(const struct runner *r, const struct model_layer *l)
{
    const struct model_shape *s = &r->model->shape;

    return s->n_latent == 0 && is_quantised(&l->attn_out) &&
           s->n_head / s->n_kv_head * s->value_dim % KERN_GROUP == 0;
}

static const struct split_kv *split_kv_of(const struct runner *r, const struct model_layer *l)
{
    return l->window > 0 ? &r->window_split_kv : &r->split_kv;
}

struct queries {
    const float *q;
    size_t stride;
};

static void attend_item(struct runner *r, struct thread_pool_worker *w, uint32_t layer,
                        const struct queries *queries, const struct attn_item *item,
                        uint32_t kv_head)
{
    const struct model_shape *s = &r->model->shape;
    const struct model_layer *l = &r->model->layers[layer];
    const struct batch_span *span = &r->batch->spans[item->span];
    const uint32_t row = span->row0 + item->from, group = s->n_head / s->n_kv_head;
    const struct kern_attn a = {
        .q = queries->q + row * queries->stride + (size_t)kv_head * group * s->key_dim,
        .out = r->att + row * r->att_stride + (size_t)kv_head * group * s->value_dim,
        .q_stride = queries->stride,
        .out_stride = r->att_stride,
        .keys = kv_store_keys(r->kv, 0, l->kv.at) + kv_head * r->kv->shape.key_bytes,
        .values = kv_store_values(r->kv, 0, l->kv.at) + kv_head * r->kv->shape.value_bytes,
        .block_stride = r->kv->block_stride,
        .table = span->table + l->kv.group * span->group_stride,
        .pos0 = span->pos0 + item->from,
        .n_row = item->n,
        .n_seen = s->is_encoder && l->window != 1 ? span->pos0 + span->n_row : 0,
        .window = l->window,
        .ahead = l->ahead,
        .n_head = group,
        .key_dim = s->key_dim,
        .value_dim = s->value_dim,
        .scale = s->attn_scale,
        .cap = s->attn_cap,
        .slopes = r->model->slopes != NULL ? r->model->slopes + kv_head * group : NULL,
        .sinks = l->sinks != NULL ? l->sinks + kv_head * group : NULL,
        .seg0 = item->seg0,
        .seg1 = item->seg1,
        .part =
            item->part != NULL ? item->part + kv_head * item->n * group * item->part_stride : NULL,
        .part_stride = item->part_stride,
        .scratch = (float *)(void *)(r->attn_scratch + w->index * r->attn_scratch_bytes),
    };

    r->kern.attn[r->kv_type](&a);
    if (item->part == NULL && quantises_heads(r, l))
        for (uint32_t i = 0; i < item->n; i++)
            quantise_heads(r, row + i, kv_head * group, group);
}

/* The heads of a KV head of a row whose segments were shared out. */
static void merge_split(struct runner *r, const struct model_layer *l,
                        const struct attn_split *split, uint32_t kv_head)
{
    const struct model_shape *s = &r->model->shape;
    const uint32_t group = s->n_head / s->n_kv_head;
    const float *part = split->part + kv_head * split->kv_head_stride;
    const float *sinks = l->sinks != NULL ? l->sinks + kv_head * group : NULL;
    float *out = r->att + split->row * r->att_stride + (size_t)kv_head * group * s->value_dim;

    for (uint32_t h = 0; h < group; h++)
        r->kern.attn_merge(out + h * s->value_dim, part + h * split->part_stride, split->n_seg,
                           s->value_dim, sinks != NULL ? sinks + h : NULL);
    if (quantises_heads(r, l))
        quantise_heads(r, split->row, kv_head * group, group);
}

/* The longest contexts come last in a prompt, so single items are handed out. */
void attend(struct runner *r, struct thread_pool_worker *w, uint32_t layer, const float *q,
            size_t q_stride)
{
    const struct model_layer *l = &r->model->layers[layer];
    const struct split_kv *split_kv = split_kv_of(r, l);
    const struct queries queries = {q, q_stride};
    const uint32_t n_kv = r->model->shape.n_kv_head;
    uint32_t from, to;

    while (thread_pool_take(w, split_kv->n_items * n_kv, 1, &from, &to))
        attend_item(r, w, layer, &queries, &split_kv->items[from / n_kv], from % n_kv);
    end_region(r, w, RUNNER_ATTENTION);
    if (split_kv->n_splits == 0)
        return;
    while (thread_pool_take(w, split_kv->n_splits * n_kv, 1, &from, &to))
        merge_split(r, l, &split_kv->splits[from / n_kv], from % n_kv);
    end_region(r, w, RUNNER_ATTENTION);
}

static void quantise_rows(struct runner *r, struct thread_pool_worker *w, const float *x,
                          size_t stride, size_t n)
{
    uint32_t from, to;

    while (take_rows_of(r, w, r->batch->n_rows, &from, &to))
        for (uint32_t i = from; i < to; i++)
            quantise_row(r, i, x + i * stride, n);
    end_region(r, w, RUNNER_ATTENTION);
}

void project_out(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l,
                 const float *x, size_t stride, bool has_quantised)
{
    const struct product p = {&l->attn_out, r->delta, r->embd_stride, ADAPTER_ATTN_OUT, l};
    const struct input in = {x, stride, r->qrows, r->qrow_stride};

    if (is_quantised(&l->attn_out) && !has_quantised)
        quantise_rows(r, w, x, stride, l->attn_out.n_in);
    adapters_shrink(r, w, l, ADAPTER_IN_ATTN_OUT, x, stride);
    products(r, w, &p, 1, &in, r->batch->n_rows, RUNNER_ATTN_OUT);
}

void attention(struct runner *r, struct thread_pool_worker *w, uint32_t layer)
{
    const struct model_layer *l = &r->model->layers[layer];
    const struct product p[3] = {
        {&l->q, r->qkv, r->qkv_stride, ADAPTER_Q, l},
        {&l->k, r->qkv + r->k_at, r->qkv_stride, ADAPTER_K, l},
        {&l->v, r->qkv + r->v_at, r->qkv_stride, ADAPTER_V, l},
    };
    const struct input in = {r->norm, r->embd_stride, r->qrows, r->qrow_stride};

    adapters_shrink(r, w, l, ADAPTER_IN_ATTENTION, r->norm, r->embd_stride);
    products(r, w, p, 3, &in, r->batch->n_rows, RUNNER_QKV);
    qkv_finish(r, w, l, layer);
    attend(r, w, layer, r->qkv, r->qkv_stride);
    project_out(r, w, l, r->att, r->att_stride, quantises_heads(r, l));
}
