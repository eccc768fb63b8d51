/* core/runtime/forward_attention.c - attention over the paged cache; see forward.h.
 *
 * split_kv_make() has cut the step into items; a work item of the region is one of them and one KV
 * head, that is, all query heads that share its keys. An item that sees all its segments writes its
 * heads into r->att and quantises them at once; an item of a split sequence leaves softmax states,
 * and a second region merges them in ascending order of segments, so the result has the same bits.
 */
#include "core/runtime/forward.h"
#include "kvcache/kv_store.h"

/* True: the query heads of one KV head fill whole groups, so that the item that computes them can
 * quantise them. */
static bool quantises_heads(const struct runner *r, const struct model_layer *l)
{
    const struct model_shape *s = &r->model->shape;

    return s->n_latent == 0 && is_quantised(&l->attn_out) && l->attn_sub_norm.weight == NULL &&
           s->n_head / l->n_kv_head * l->value_dim % KERN_GROUP == 0;
}

/* Gate the finished heads of a row, and quantise them if the next product takes quantised rows. */
static void finish_heads(struct runner *r, const struct model_layer *l, uint32_t row, uint32_t head,
                         uint32_t n)
{
    const size_t from = (size_t)head * l->value_dim, n_number = (size_t)n * l->value_dim;
    float *x = r->att + row * r->att_stride + from;
    const float *gate = r->qkv + row * r->qkv_stride + r->gate_at + from;

    if (matrix_exists(&l->attn_gate))
        r->kern.act[KERN_ACT_SIGMOID](x, gate, x, n_number);
    if (quantises_heads(r, l))
        r->kern.quantise(r->qrows + row * r->qrow_stride,
                         (size_t)r->model->shape.n_head * l->value_dim, x, from, n_number);
}

static const struct split_kv *split_kv_of(const struct runner *r, const struct model_layer *l)
{
    return l->window > 0 ? &r->window_split_kv : &r->split_kv;
}

struct queries {
    const float *q;
    size_t stride;
};

/* Return the first token of the chunk that a position is in. Chunks are whole softmax segments, so
 * attention may count positions from there instead of from 0. */
static uint32_t chunk_at(const struct runner *r, const struct model_layer *l, uint32_t pos)
{
    return r->model->shape.is_chunked && l->window > 0 ? pos / l->window * l->window : 0;
}

/* Return the softmax states of an item's first query, for one KV head with `group` query heads. */
static float *part_of(const struct attn_item *item, uint32_t kv_head, uint32_t group)
{
    const size_t row = (size_t)kv_head * item->part_rows + item->part_row;

    return item->part != NULL ? item->part + row * group * item->part_stride : NULL;
}

/* Return the number of tokens that every row of the item sees: an encoder's span, or shared
 * segments. 0: each row sees the tokens up to its own. */
static uint32_t seen_by_all(const struct runner *r, const struct model_layer *l,
                            const struct attn_item *item)
{
    const struct batch_span *span = &r->batch->spans[item->span];

    if (item->rows != NULL)
        return item->seg1 * KERN_SEGMENT;
    return r->model->shape.is_encoder && l->window != 1 ? span->pos0 + span->n_row : 0;
}

/* One unit of work: an item and one of its KV heads. */
struct attn_work {
    const struct attn_item *item;
    uint32_t kv_head;
};

/* Return the kernel's arguments for one item; the caller sets `next` and is_fetched. */
static struct kern_attn call_of(const struct runner *r, const struct thread_pool_worker *w,
                                uint32_t layer, const struct queries *queries,
                                const struct attn_work *p)
{
    const struct attn_item *item = p->item;
    const uint32_t kv_head = p->kv_head;
    const struct model_shape *s = &r->model->shape;
    const struct model_layer *l = &r->model->layers[layer];
    const struct batch_span *span = &r->batch->spans[item->span];
    const uint32_t row = item->rows != NULL ? 0 : span->row0 + item->from;
    const uint32_t group = s->n_head / l->n_kv_head;
    const uint32_t pos0 = span->pos0 + item->from, chunk = chunk_at(r, l, pos0);

    return (struct kern_attn){
        .q = queries->q + row * queries->stride + (size_t)kv_head * group * l->key_dim,
        .out = r->att + row * r->att_stride + (size_t)kv_head * group * l->value_dim,
        .q_stride = queries->stride,
        .out_stride = r->att_stride,
        .keys = kv_store_keys(r->kv, 0, l->kv.at) +
                kv_head * kern_kv_key_bytes(r->kv_type, l->key_dim),
        .values = kv_store_values(r->kv, 0, l->kv.at) +
                  kv_head * kern_kv_value_bytes(r->kv_type, l->value_dim),
        .block_stride = r->kv->block_stride,
        .table = span->table + l->kv.group * span->group_stride + chunk / BLOCK_TOKENS,
        .pos0 = pos0 - chunk,
        .n_row = item->n,
        .rows = item->rows,
        .n_seen = seen_by_all(r, l, item),
        .window = s->is_chunked ? 0 : l->window,
        .ahead = l->ahead,
        .n_head = group,
        .key_dim = l->key_dim,
        .value_dim = l->value_dim,
        .scale = s->attn_scale,
        .cap = s->attn_cap,
        .slopes = r->model->slopes != NULL ? r->model->slopes + kv_head * group : NULL,
        .sinks = l->sinks != NULL ? l->sinks + kv_head * group : NULL,
        .seg0 = item->seg0,
        .seg1 = item->seg1,
        .part = part_of(item, kv_head, group),
        .part_stride = item->part_stride,
        .n_merged = item->n_merged,
        .scratch = (float *)(void *)(r->attn_scratch + w->index * r->attn_scratch_bytes),
    };
}

static void finish_work(struct runner *r, const struct model_layer *l, const struct attn_work *p)
{
    const struct attn_item *item = p->item;
    const uint32_t group = r->model->shape.n_head / l->n_kv_head;
    const uint32_t row = r->batch->spans[item->span].row0 + item->from;

    for (uint32_t i = 0; item->part == NULL && i < item->n; i++)
        finish_heads(r, l, row + i, p->kv_head * group, group);
}

/* Merge the states of a row whose segments were split, for the heads of one KV head. */
static void merge_split(struct runner *r, const struct model_layer *l,
                        const struct attn_split *split, uint32_t kv_head)
{
    const uint32_t group = r->model->shape.n_head / l->n_kv_head;
    const size_t first = ((size_t)kv_head * split->n_row + split->i_row) * group;
    const float *part = split->part + first * split->part_stride;
    const float *sinks = l->sinks != NULL ? l->sinks + kv_head * group : NULL;
    float *out = r->att + split->row * r->att_stride + (size_t)kv_head * group * l->value_dim;

    for (uint32_t h = 0; h < group; h++)
        r->kern.attn_merge(out + h * l->value_dim, part + h * split->part_stride, split->n_state,
                           l->value_dim, sinks != NULL ? sinks + h : NULL);
    finish_heads(r, l, split->row, kv_head * group, group);
}

/* Run all items. Items are handed out one at a time, because the longest contexts come last in a
 * prompt. A thread usually gets the next item in order, whose first keys its last call has
 * prefetched. */
static void attend_items(struct runner *r, struct thread_pool_worker *w, uint32_t layer,
                         const struct queries *queries, const struct split_kv *split_kv)
{
    const struct model_layer *l = &r->model->layers[layer];
    const uint32_t n_kv = l->n_kv_head, n = split_kv->n_items * n_kv;
    struct kern_attn call, next;
    uint32_t from, to, expected = n;

    while (thread_pool_take(w, n, 1, &from, &to)) {
        const struct attn_work work = {&split_kv->items[from / n_kv], from % n_kv};
        const struct attn_work after = {&split_kv->items[(from + 1) / n_kv], (from + 1) % n_kv};

        call = from == expected ? next : call_of(r, w, layer, queries, &work);
        call.is_fetched = from == expected;
        expected = from + 1;
        if (expected < n) {
            next = call_of(r, w, layer, queries, &after);
            call.next = &next;
        }
        r->kern.attn[r->kv_type](&call);
        finish_work(r, l, &work);
    }
    end_region(r, w, RUNNER_ATTENTION);
}

void attend(struct runner *r, struct thread_pool_worker *w, uint32_t layer, const float *q,
            size_t q_stride)
{
    const struct model_layer *l = &r->model->layers[layer];
    const struct split_kv *split_kv = split_kv_of(r, l);
    const struct queries queries = {q, q_stride};
    const uint32_t n_kv = l->n_kv_head;
    uint32_t from, to;

    attend_items(r, w, layer, &queries, split_kv);
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
    adapters_shrink(r, w, l, ADAPTER_IN_ATTN_OUT, &in);
    products(r, w, &p, 1, &in, r->batch->n_rows, RUNNER_ATTN_OUT);
}

/* Norm the results of all heads of each row as one vector. */
static void norm_results(struct runner *r, struct thread_pool_worker *w, const struct norm *norm,
                         size_t n)
{
    uint32_t from, to;

    if (norm->weight == NULL)
        return;
    while (take_rows_of(r, w, r->batch->n_rows, &from, &to))
        for (uint32_t i = from; i < to; i++)
            norm_row(r, r->att + i * r->att_stride, r->att + i * r->att_stride, norm, n);
    end_region(r, w, RUNNER_ATTENTION);
}

void attention(struct runner *r, struct thread_pool_worker *w, uint32_t layer)
{
    const struct model_layer *l = &r->model->layers[layer];
    const struct product p[4] = {
        {&l->q, r->qkv, r->qkv_stride, ADAPTER_Q, l},
        {&l->k, r->qkv + r->k_at, r->qkv_stride, ADAPTER_K, l},
        {&l->v, r->qkv + r->v_at, r->qkv_stride, ADAPTER_V, l},
        {.w = &l->attn_gate, .out = r->qkv + r->gate_at, .out_stride = r->qkv_stride},
    };
    const struct input in = {r->norm, r->embd_stride, r->qrows, r->qrow_stride};

    adapters_shrink(r, w, l, ADAPTER_IN_ATTENTION, &in);
    products(r, w, p, 4, &in, r->batch->n_rows, RUNNER_QKV);
    qkv_finish(r, w, l, layer);
    attend(r, w, layer, r->qkv, r->qkv_stride);
    norm_results(r, w, &l->attn_sub_norm, l->attn_out.n_in);
    project_out(r, w, l, r->att, r->att_stride, quantises_heads(r, l));
}

void attention_keys(struct runner *r, struct thread_pool_worker *w, uint32_t layer)
{
    const struct model_layer *l = &r->model->layers[layer];
    const struct product p[2] = {
        {.w = &l->k, .out = r->qkv + r->k_at, .out_stride = r->qkv_stride},
        {.w = &l->v, .out = r->qkv + r->v_at, .out_stride = r->qkv_stride},
    };
    const struct input in = {r->norm, r->embd_stride, r->qrows, r->qrow_stride};
    uint32_t from, to;

    products(r, w, p, 2, &in, r->batch->n_rows, RUNNER_MTP);
    while (take_rows_of(r, w, r->batch->n_rows, &from, &to))
        for (uint32_t i = from; i < to; i++)
            store_keys(r, l, layer, i);
    end_region(r, w, RUNNER_MTP);
}
