/* core/runtime/split_kv.c - see split_kv.h. */
#include "core/runtime/split_kv.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/runtime/batch.h"
#include "kernels/kernels.h"

#include <assert.h>
#include <string.h>

#define SHARES 2             /* pieces of a thread's fair share, when an item is cut at all */
#define MIN_SEGMENTS 2       /* of a piece: less is over before another thread has noticed */
#define SPLIT_ROWS 8         /* of the longest sequence that can be split at a time ... */
#define MAX_PARTS ((size_t)16 << 20) /* ... within so many floats */

static size_t segments(uint32_t n_tokens)
{
    return (n_tokens + KERN_SEGMENT - 1) / KERN_SEGMENT;
}

/* Floats that one row's states take. */
static size_t row_parts(const struct split_kv *c, size_t n_seg)
{
    return n_seg * c->options.n_head * KERN_ATTN_PART(c->options.value_dim);
}

int split_kv_create(struct split_kv *c, const struct split_kv_options *o)
{
    size_t longest;

    *c = (struct split_kv){.options = *o};
    longest = row_parts(c, segments(o->n_ctx));
    c->n_parts = SPLIT_ROWS * longest < MAX_PARTS ? SPLIT_ROWS * longest : MAX_PARTS;
    c->n_parts = c->n_parts > longest ? c->n_parts : longest;
    /* Pieces of an item are as many as shares it has, rounded up. */
    c->items = mem_calloc((size_t)o->max_rows + SHARES * o->threads, sizeof(*c->items));
    c->splits = mem_calloc(o->max_rows, sizeof(*c->splits));
    c->parts = mem_map(c->n_parts * sizeof(*c->parts));
    if (c->items != NULL && c->splits != NULL && c->parts != NULL)
        return 0;
    split_kv_release(c);
    return ERR_NOMEM;
}

void split_kv_release(struct split_kv *c)
{
    mem_free(c->items);
    mem_free(c->splits);
    mem_unmap(c->parts, c->n_parts * sizeof(*c->parts));
    *c = (struct split_kv){0};
}

/* Pairs of query row and key that an item of all segments looks at. */
static uint64_t item_work(const struct split_kv *c, const struct batch_span *s, uint32_t from,
                          uint32_t n)
{
    const uint64_t before = s->pos0 + (c->options.is_encoder ? s->n_row : from + n);
    const uint64_t window = c->options.window;

    return n * (window > 0 && window + n < before ? window + n : before);
}

/* Rows of the item that begins at `from`: none of another chunk. */
static uint32_t rows_at(const struct split_kv *c, const struct batch_span *s, uint32_t from)
{
    const uint32_t n = s->n_row - from < ATTN_ROWS ? s->n_row - from : ATTN_ROWS;
    const uint32_t chunk = c->options.is_chunked ? c->options.window : 0;
    const uint32_t left = chunk > 0 ? chunk - (s->pos0 + from) % chunk : n;

    return n < left ? n : left;
}

static uint64_t total_work(const struct split_kv *c, const struct batch *b)
{
    uint64_t work = 0;

    for (uint32_t i = 0; i < b->n_spans; i++)
        for (uint32_t from = 0, n; from < b->spans[i].n_row; from += n) {
            n = rows_at(c, &b->spans[i], from);
            work += item_work(c, &b->spans[i], from, n);
        }
    return work;
}

static void note_splits(struct split_kv *c, const struct batch_span *s,
                        const struct attn_item *item)
{
    for (uint32_t i = 0; i < item->n; i++)
        c->splits[c->n_splits++] = (struct attn_split){
            .row = s->row0 + item->from + i,
            .n_seg = (uint32_t)segments(s->pos0 + item->from + i + 1),
            .part = item->part,
            .i_row = i,
            .n_row = item->n,
            .part_stride = item->part_stride,
        };
}

/* Add an item in `pieces` of about as many segments each, if the room for its states suffices. */
static void add_item(struct split_kv *c, const struct batch_span *s, struct attn_item item,
                     uint64_t pieces)
{
    const size_t n_seg = segments(s->pos0 + item.from + item.n);
    const size_t most = n_seg / MIN_SEGMENTS;
    const size_t need = item.n * row_parts(c, n_seg);
    const size_t n = pieces < most ? (size_t)pieces : most;

    if (n < 2 || need > c->n_parts - c->parts_used) {
        c->items[c->n_items++] = item;
        return;
    }
    item.part = c->parts + c->parts_used;
    item.part_stride = n_seg * KERN_ATTN_PART(c->options.value_dim);
    c->parts_used += need;
    note_splits(c, s, &item);
    for (size_t i = 0; i < n; i++) {
        item.seg0 = (uint32_t)(i * n_seg / n);
        item.seg1 = (uint32_t)((i + 1) * n_seg / n);
        c->items[c->n_items++] = item;
    }
}

void split_kv_make(struct split_kv *c, const struct batch *b)
{
    /* Each item is there once for each KV head. */
    const uint64_t fair = total_work(c, b) * c->options.n_kv_head / c->options.threads;
    const uint64_t piece = fair / SHARES + 1;
    const bool may_split = c->options.window == 0 && !c->options.is_encoder;

    c->n_items = c->n_splits = 0;
    c->parts_used = 0;
    for (uint32_t i = 0; i < b->n_spans; i++)
        for (uint32_t from = 0, n; from < b->spans[i].n_row; from += n) {
            n = rows_at(c, &b->spans[i], from);
            const struct attn_item item = {.span = i, .from = from, .n = n, .seg1 = UINT32_MAX};
            const uint64_t work = item_work(c, &b->spans[i], from, n);

            add_item(c, &b->spans[i], item, may_split && work > fair ? work / piece + 1 : 1);
        }
    assert(c->n_items <= c->options.max_rows + SHARES * c->options.threads);
}
