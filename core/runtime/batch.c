/* core/runtime/batch.c - see batch.h.
 *
 * The engine thread fills one batch a step: batch_clear() resets four counters, and the add
 * functions append to arrays whose capacity was taken at start, so that a step allocates nothing
 * and asserts guard the capacities. A span also writes `pos` and `span_of` for each row, so that
 * kernels and row loops find a row's position and block table without a search.
 */
#include "core/runtime/batch.h"

#include "core/base/err.h"
#include "core/base/mem.h"

#include <assert.h>
#include <string.h>

int batch_create(struct batch **out, uint32_t max_rows, uint32_t max_spans, uint32_t max_outputs)
{
    struct batch *b = mem_calloc(1, sizeof(*b));

    *out = NULL;
    if (b == NULL)
        return ERR_NOMEM;
    b->max_rows = max_rows;
    b->max_spans = max_spans;
    b->max_outputs = max_outputs;
    b->ids = mem_calloc(max_rows, sizeof(*b->ids));
    b->pos = mem_calloc(max_rows, sizeof(*b->pos));
    b->span_of = mem_calloc(max_rows, sizeof(*b->span_of));
    b->spans = mem_calloc(max_spans, sizeof(*b->spans));
    b->outputs = mem_calloc(max_outputs, sizeof(*b->outputs));
    b->pools = mem_calloc(max_rows, sizeof(*b->pools));
    if (b->ids == NULL || b->pos == NULL || b->span_of == NULL || b->spans == NULL ||
        b->outputs == NULL || b->pools == NULL) {
        batch_destroy(&b);
        return ERR_NOMEM;
    }
    *out = b;
    return 0;
}

void batch_destroy(struct batch **batch)
{
    struct batch *b = batch != NULL ? *batch : NULL;

    if (b == NULL)
        return;
    mem_free(b->ids);
    mem_free(b->pos);
    mem_free(b->span_of);
    mem_free(b->spans);
    mem_free(b->outputs);
    mem_free(b->pools);
    mem_free(b);
    *batch = NULL;
}

void batch_clear(struct batch *b)
{
    b->n_rows = b->n_spans = b->n_outputs = b->n_pools = 0;
    b->has_labels = b->has_token_heads = b->has_adapters = false;
}

uint32_t batch_add_span(struct batch *b, const int32_t *ids, uint32_t n, uint32_t pos0,
                        const uint32_t *table, uint32_t group_stride)
{
    const uint32_t row0 = b->n_rows;

    assert(n > 0 && n <= b->max_rows - b->n_rows && b->n_spans < b->max_spans);
    memcpy(b->ids + row0, ids, n * sizeof(*ids));
    for (uint32_t i = 0; i < n; i++) {
        b->pos[row0 + i] = pos0 + i;
        b->span_of[row0 + i] = b->n_spans;
    }
    b->spans[b->n_spans++] = (struct batch_span){
        .row0 = row0, .n_row = n, .pos0 = pos0, .table = table, .group_stride = group_stride};
    b->n_rows += n;
    return row0;
}

struct batch_output *batch_add_output(struct batch *b, uint32_t row)
{
    struct batch_output *o = &b->outputs[b->n_outputs++];

    assert(b->n_outputs <= b->max_outputs && row < b->n_rows);
    memset(o, 0, sizeof(*o));
    o->row = row;
    return o;
}

struct batch_pool *batch_add_pool(struct batch *b, uint32_t row0, uint32_t n_row, float *sum)
{
    struct batch_pool *p = &b->pools[b->n_pools++];

    assert(b->n_pools <= b->max_rows && n_row > 0 && row0 + n_row <= b->n_rows);
    *p = (struct batch_pool){.row0 = row0, .n_row = n_row, .sum = sum, .scale = 1};
    return p;
}
