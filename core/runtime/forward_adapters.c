/* core/runtime/forward_adapters.c - what LoRA adapters add to products; see forward.h.
 *
 * Rows of one adapter stand together in the batch, so that its matrices are read once for all of
 * them. A row's sums are those of its own numbers in one order: sum of A over the input, sum of B
 * over the rank, then y = fma(sum, scale, y); who else is in the batch changes nothing.
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

/* Tiles of rows are items: 0 where the adapter changes nothing here. */
static uint32_t n_items(const struct runner *r, const struct adapter_rows *a,
                        const struct model_layer *l, enum adapter_input in)
{
    return matrix_exists(&layer_of(r, a, l)->down[in])
               ? (a->n + ADAPTER_TILE_ROWS - 1) / ADAPTER_TILE_ROWS
               : 0;
}

/* All of an A, and a tile of rows. */
static void shrink_item(struct runner *r, const struct adapter_rows *a, const struct matrix *down,
                        uint32_t item, const float *x, size_t stride)
{
    const uint32_t from = item * ADAPTER_TILE_ROWS;
    const uint32_t n = a->n - from < ADAPTER_TILE_ROWS ? a->n - from : ADAPTER_TILE_ROWS;
    const size_t row = a->row0 + from;
    const struct product p = {
        .w = down, .out = r->adapter_in + row * ADAPTER_IN_STRIDE, .out_stride = ADAPTER_IN_STRIDE};
    const struct input in = {.x = x + row * stride, .stride = stride};

    run_product(r, &p, 0, &in, n, 0, down->n_panels);
}

void adapters_shrink(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l,
                     enum adapter_input in, const float *x, size_t stride)
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
                shrink_item(r, a, &layer_of(r, a, l)->down[in], at - first, x, stride);
            first = end;
        }
    }
    end_region(r, w, parts[in]);
}

/* A tile of B's outputs, n rows and panels from .. to - 1, added to those of the product. */
static void expand_tile(struct runner *r, const struct adapter_rows *a, const struct product *p,
                        float *tile, uint32_t row, uint32_t n, uint32_t from, uint32_t to)
{
    const struct adapter_layer *l = layer_of(r, a, p->layer);
    const struct matrix *up = &l->up[p->target];
    const float *in = r->adapter_in + row * ADAPTER_IN_STRIDE + l->at[p->target];
    const float scale = a->scale * l->scale[p->target];

    r->kern.gemm[up->type](tile, ADAPTER_TILE, in, ADAPTER_IN_STRIDE * sizeof(*in), n,
                           up->data + from * up->panel_bytes, to - from, up->n_in);
    for (uint32_t i = 0; i < n; i++)
        r->kern.add(p->out + (row + i) * p->out_stride + (size_t)from * KERN_LANES,
                    tile + i * ADAPTER_TILE, scale, (size_t)(to - from) * KERN_LANES);
}

static void expand_rows(struct runner *r, const struct adapter_rows *a, const struct product *p,
                        float *tile, uint32_t from, uint32_t to)
{
    for (uint32_t row = 0; row < a->n; row += ADAPTER_TILE_ROWS) {
        const uint32_t left = a->n - row;
        const uint32_t n = left < ADAPTER_TILE_ROWS ? left : ADAPTER_TILE_ROWS;

        for (uint32_t at = from; at < to; at += ADAPTER_TILE_PANELS)
            expand_tile(r, a, p, tile, a->row0 + row, n, at,
                        to - at < ADAPTER_TILE_PANELS ? to : at + ADAPTER_TILE_PANELS);
    }
}

void adapters_expand(struct runner *r, const struct thread_pool_worker *w, const struct product *p,
                     uint32_t from, uint32_t to)
{
    float *tile = r->adapter_out + w->index * (ADAPTER_TILE_ROWS * ADAPTER_TILE);

    for (uint32_t i = 0; i < r->n_adapters; i++)
        if (matrix_exists(&layer_of(r, &r->adapters[i], p->layer)->up[p->target]))
            expand_rows(r, &r->adapters[i], p, tile, from, to);
}
