/* core/runtime/forward_adapters.c - what LoRA adapters add to products; see forward.h.
 *
 * Rows of one adapter are neighbours in the batch, so that its matrices are read once for all of
 * them. A row's sums have one order (A over the input, B over the rank, then y = fma(sum, scale,
 * y)) and do not depend on the other rows of the batch.
 *
 * Each adapter of a batch adds its matrices to the bytes that a step reads, while products with
 * many rows leave memory idle for half of the time: so the products prefetch the As and Bs that the
 * next halves will read.
 */
#include "core/runtime/forward.h"

#include <assert.h>

void adapters_gather(struct runner *r)
{
    const struct batch *b = r->batch;

    r->n_adapters = 0;
    if (!b->has_adapters)
        return;
    assert(r->adapters != NULL);
    for (uint32_t i = 0; i < b->n_spans; i++) {
        const struct batch_span *s = &b->spans[i];
        struct adapter_rows *last = r->n_adapters > 0 ? &r->adapters[r->n_adapters - 1] : NULL;

        if (s->adapter == NULL)
            continue;
        if (last != NULL && last->adapter == s->adapter && last->scale == s->adapter_scale &&
            last->row0 + last->n == s->row0)
            last->n += s->n_row;
        else
            r->adapters[r->n_adapters++] =
                (struct adapter_rows){s->adapter, s->adapter_scale, s->row0, s->n_row};
    }
}

static const struct adapter_layer *layer_of(const struct runner *r, const struct adapter_rows *a,
                                            const struct model_layer *l)
{
    return &a->adapter->layers[l - r->model->layers];
}

/* Return the number of items of a shrink: tiles of rows; 0 if the adapter has no A for this
 * input. */
static uint32_t n_items(const struct runner *r, const struct adapter_rows *a,
                        const struct model_layer *l, enum adapter_input in)
{
    return matrix_exists(&layer_of(r, a, l)->down[in])
               ? (a->n + ADAPTER_TILE_ROWS - 1) / ADAPTER_TILE_ROWS
               : 0;
}

/* Multiply a tile of rows by all of an A. */
static void shrink_item(struct runner *r, const struct adapter_rows *a, const struct matrix *down,
                        uint32_t item, const struct input *all)
{
    const uint32_t from = item * ADAPTER_TILE_ROWS;
    const uint32_t n = a->n - from < ADAPTER_TILE_ROWS ? a->n - from : ADAPTER_TILE_ROWS;
    const size_t row = a->row0 + from;
    const struct product p = {
        .w = down, .out = r->adapter_in + row * ADAPTER_IN_STRIDE, .out_stride = ADAPTER_IN_STRIDE};
    const struct input in = {all->x + row * all->stride, all->stride,
                             all->q + row * all->q_stride, all->q_stride};

    run_product(r, &p, 0, &in, n, 0, down->n_panels);
}

void adapters_shrink(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l,
                     enum adapter_input in, const struct input *rows)
{
    static const enum runner_part parts[ADAPTER_N_INPUT] = {
        [ADAPTER_IN_ATTENTION] = RUNNER_QKV,
        [ADAPTER_IN_ATTN_OUT] = RUNNER_ATTN_OUT,
        [ADAPTER_IN_FFN] = RUNNER_GATE_UP,
        [ADAPTER_IN_DOWN] = RUNNER_DOWN,
    };
    uint32_t total = 0, from, to;

    for (uint32_t i = 0; i < r->n_adapters; i++)
        total += n_items(r, &r->adapters[i], l, in);
    if (total == 0)
        return;
    while (thread_pool_take(w, total, 1, &from, &to)) {
        uint32_t first = 0;

        for (uint32_t i = 0; i < r->n_adapters && first < to; i++) {
            const struct adapter_rows *a = &r->adapters[i];
            const uint32_t end = first + n_items(r, a, l, in);

            for (uint32_t at = from > first ? from : first; at < to && at < end; at++)
                shrink_item(r, a, &layer_of(r, a, l)->down[in], at - first, rows);
            first = end;
        }
    }
    end_region(r, w, parts[in]);
}

void adapters_expand(struct runner *r, const struct product *p, uint32_t from, uint32_t to)
{
    for (uint32_t i = 0; i < r->n_adapters; i++) {
        const struct adapter_rows *a = &r->adapters[i];
        const struct adapter_layer *l = layer_of(r, a, p->layer);
        const struct matrix *up = &l->up[p->target];

        if (!matrix_exists(up))
            continue;
        r->kern.lora_expand[up->type](
            p->out + a->row0 * p->out_stride + (size_t)from * KERN_LANES, p->out_stride,
            r->adapter_in + a->row0 * ADAPTER_IN_STRIDE + l->at[p->target], ADAPTER_IN_STRIDE, a->n,
            up->data + from * up->panel_bytes, to - from, up->n_in, a->scale * l->scale[p->target]);
    }
}

/* Return the adapter layer whose As for input *in are read after this product; NULL: there is
 * none. */
static const struct adapter_layer *layer_ahead(const struct runner *r, const struct adapter *a,
                                               const struct product *p, enum adapter_input *in)
{
    static const enum adapter_input after[ADAPTER_N_TARGET] = {
        [ADAPTER_Q] = ADAPTER_IN_ATTN_OUT,
        [ADAPTER_ATTN_OUT] = ADAPTER_IN_FFN,
        [ADAPTER_UP] = ADAPTER_IN_DOWN,
        [ADAPTER_DOWN] = ADAPTER_IN_ATTENTION,
    };
    const size_t layer = (size_t)(p->layer - r->model->layers) + (p->target == ADAPTER_DOWN);

    if (p->target == ADAPTER_K || p->target == ADAPTER_V || p->target == ADAPTER_GATE ||
        layer >= a->n_layer)
        return NULL;
    *in = after[p->target];
    return &a->layers[layer];
}

static size_t matrix_bytes(const struct matrix *m)
{
    return matrix_exists(m) ? m->n_panels * m->panel_bytes : 0;
}

/* List the share of the next As to prefetch; returns the number of ranges. Threads take panels and
 * adapters in the same order, so the thread of the first panels prefetches for the first adapters,
 * and the bytes are in its own cache.
 */
static size_t downs_ahead(const struct runner *r, const struct product *p, uint32_t from,
                          uint32_t to, struct kern_range *ranges, size_t n)
{
    const struct adapter_layer *l;
    enum adapter_input in;
    size_t total = 0, at = 0;

    for (uint32_t i = 0; i < r->n_adapters; i++)
        if ((l = layer_ahead(r, r->adapters[i].adapter, p, &in)) != NULL)
            total += matrix_bytes(&l->down[in]);
    for (uint32_t i = 0; i < r->n_adapters && n < ADAPTER_MAX_RANGES; i++) {
        const size_t a = total * from / p->w->n_panels, b = total * to / p->w->n_panels;

        if ((l = layer_ahead(r, r->adapters[i].adapter, p, &in)) == NULL)
            continue;
        const size_t end = at + matrix_bytes(&l->down[in]);
        const size_t first = a > at ? a : at, last = b < end ? b : end;

        if (first < last)
            ranges[n++] = (struct kern_range){l->down[in].data + (first - at), last - first};
        at = end;
    }
    return n;
}

size_t adapters_ahead(const struct runner *r, const struct product *p, uint32_t from, uint32_t to,
                      struct kern_range ranges[ADAPTER_MAX_RANGES])
{
    size_t n = 0;

    if (r->n_adapters == 0 || p->target == ADAPTER_NONE)
        return 0;
    for (uint32_t i = 0; i < r->n_adapters && n < ADAPTER_MAX_RANGES; i++) {
        const struct matrix *up = &layer_of(r, &r->adapters[i], p->layer)->up[p->target];

        if (matrix_exists(up))
            ranges[n++] = (struct kern_range){up->data + from * up->panel_bytes,
                                              (to - from) * up->panel_bytes};
    }
    return downs_ahead(r, p, from, to, ranges, n);
}
