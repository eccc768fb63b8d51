/* core/runtime/split_kv.c - see split_kv.h.
 *
 * The engine thread runs split_kv_make() before each step. Work is counted in pairs of query row
 * and key. Each thread's fair share is the total divided by the threads; only an item above that
 * share is cut, into pieces of about half a share, so that a step of many short sequences gets no
 * cuts and no merging. States go into one arena, `parts`, by a bump pointer; an item without room
 * there stays whole.
 */
#include "core/runtime/split_kv.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/runtime/batch.h"
#include "kernels/kernels.h"

#include <assert.h>
#include <string.h>

#define SHARES 2             /* pieces of a thread's fair share, when an item is cut */
#define MIN_SEGMENTS 2       /* least segments of a piece: less is over before another thread has
                              * noticed */
#define SPLIT_ROWS 256       /* `parts` has room for the states of so many rows of the longest
                              * sequence ... */
#define GROUP_ITEMS 2        /* most items of groups, for each row of a step */
/* Most query heads of a KV head with which groups pay. The heads of one row use each f16 number as
 * often as there are heads: from 7 on the machine's FMAs take longer than its memory (236 Gflop/s
 * beside 35 GB/s), and one row fills a tile. Measured with 16 rows that share 4,096 tokens,
 * AVX-512, f16: steps of little but attention take 0.67 to 0.80 of the time with 2 query heads,
 * 0.81 to 0.97 with 3 and 4, 0.93 to 1.04 with 7 and 0.94 to 1.75 with 8. */
#define GROUP_HEADS 6
#define MAX_PARTS ((size_t)16 << 20) /* ... but for at most so many floats */

static size_t segments(uint32_t n_tokens)
{
    return (n_tokens + KERN_SEGMENT - 1) / KERN_SEGMENT;
}

/* Return the number of states that n_seg segments leave, the first n_merged of which leave one
 * together. */
static size_t states(size_t n_seg, uint32_t n_merged)
{
    return n_seg - n_merged + 1;
}

/* Return the number of floats of one row's states. */
static size_t row_parts(const struct split_kv *c, size_t n_state)
{
    return n_state * c->options.n_head * KERN_ATTN_PART(c->options.value_dim);
}

/* Return the most items of a step: those of groups, one for each row outside groups, and the
 * pieces, of which an item has as many as it has shares, rounded up. */
static size_t most_items(const struct split_kv_options *o)
{
    const size_t grouped = o->n_tables > 0 ? GROUP_ITEMS * (size_t)o->max_rows : 0;

    return grouped + o->max_rows + (SHARES + 1) * (size_t)o->threads;
}

static bool may_group(const struct split_kv_options *o)
{
    return o->n_tables > 0 && o->n_head / o->n_kv_head <= GROUP_HEADS;
}

int split_kv_create(struct split_kv *c, const struct split_kv_options *o)
{
    size_t longest;

    *c = (struct split_kv){.options = *o};
    c->options.n_tables = may_group(o) ? o->n_tables : 0;
    longest = row_parts(c, segments(o->n_ctx));
    c->n_parts = SPLIT_ROWS * longest < MAX_PARTS ? SPLIT_ROWS * longest : MAX_PARTS;
    c->n_parts = c->n_parts > longest ? c->n_parts : longest;
    c->items = mem_calloc(most_items(&c->options), sizeof(*c->items));
    c->splits = mem_calloc(o->max_rows, sizeof(*c->splits));
    c->parts = mem_map(c->n_parts * sizeof(*c->parts));
    c->is_grouped = mem_calloc(o->max_rows, sizeof(*c->is_grouped));
    if (c->items != NULL && c->splits != NULL && c->parts != NULL && c->is_grouped != NULL &&
        (!may_group(o) || cascade_create(&c->cascade, o->max_rows, o->n_tables) == 0))
        return 0;
    split_kv_release(c);
    return ERR_NOMEM;
}

void split_kv_release(struct split_kv *c)
{
    mem_free(c->items);
    mem_free(c->splits);
    mem_free(c->is_grouped);
    cascade_release(&c->cascade);
    mem_unmap(c->parts, c->n_parts * sizeof(*c->parts));
    *c = (struct split_kv){0};
}

/* Pairs of query row and key in an item over all segments. */
static uint64_t item_work(const struct split_kv *c, const struct batch_span *s, uint32_t from,
                          uint32_t n)
{
    const uint64_t before = s->pos0 + (c->options.is_encoder ? s->n_row : from + n);
    const uint64_t window = c->options.window;

    return n * (window > 0 && window + n < before ? window + n : before);
}

/* Return the number of rows of the item that begins at `from`; an item never crosses into another
 * chunk. */
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
            .n_state = (uint32_t)states(segments(s->pos0 + item->from + i + 1), item->n_merged),
            .part = item->part,
            .i_row = item->part_row + i,
            .n_row = item->part_rows,
            .part_stride = item->part_stride,
        };
}

/* Return the number of pieces for so many segments: as many as wanted, but none too small. */
static size_t fit_pieces(size_t n_seg, uint64_t wanted)
{
    const size_t most = n_seg / MIN_SEGMENTS, fit = wanted < most ? (size_t)wanted : most;

    return fit > 1 ? fit : 1;
}

/* Add an item, whose states have room, in n pieces of about the same number of segments. */
static void add_pieces(struct split_kv *c, struct attn_item item, size_t n)
{
    const size_t first = item.seg0, n_seg = item.seg1 - item.seg0;

    for (size_t i = 0; i < n; i++) {
        item.seg0 = (uint32_t)(first + i * n_seg / n);
        item.seg1 = (uint32_t)(first + (i + 1) * n_seg / n);
        c->items[c->n_items++] = item;
    }
}

/* Add an item; split it if that pays and there is room for its states. */
static void add_split_item(struct split_kv *c, const struct batch_span *s, struct attn_item item,
                           uint64_t pieces)
{
    const size_t n_seg = segments(s->pos0 + item.from + item.n), n = fit_pieces(n_seg, pieces);
    const uint32_t n_merged = (uint32_t)(n_seg / n);
    const size_t n_state = states(n_seg, n_merged), need = item.n * row_parts(c, n_state);

    if (n < 2 || need > c->n_parts - c->parts_used) {
        c->items[c->n_items++] = item;
        return;
    }
    item.part = c->parts + c->parts_used;
    item.part_rows = item.n;
    item.part_stride = n_state * KERN_ATTN_PART(c->options.value_dim);
    item.n_merged = n_merged;
    item.seg1 = (uint32_t)n_seg;
    c->parts_used += need;
    note_splits(c, s, &item);
    add_pieces(c, item, n);
}

/* ---- shared prefixes of decoding sequences ---- */

/* A thread's fair share and the size of a piece, in pairs of query row and key. */
struct shares {
    uint64_t fair, piece;
};

static uint64_t pieces_of(const struct shares *f, uint64_t work)
{
    return work > f->fair ? work / f->piece + 1 : 1;
}

/* Segments of the group's member that sees the most. */
static size_t group_segments(const struct split_kv *c, const struct batch *b,
                             const struct cascade_group *g)
{
    size_t most = 0;

    for (uint32_t i = 0; i < g->n_members; i++) {
        const struct batch_span *s = &b->spans[c->cascade.members[g->member0 + i].span];
        const size_t n = segments(s->pos0 + s->n_row);

        most = n > most ? n : most;
    }
    return most;
}

static uint32_t run_items(const struct cascade_run *r)
{
    return (r->n_row + ATTN_ROWS - 1) / ATTN_ROWS;
}

/* Return the number of a group's items before any of them is cut into pieces. */
static size_t group_items(const struct split_kv *c, const struct cascade_group *g)
{
    size_t n = g->n_members;

    for (uint32_t i = 0; i < g->n_runs; i++)
        n += run_items(&c->cascade.runs[g->run0 + i]);
    return n;
}

/* Return the number of pieces of each item of a run, by its item with the most rows. */
static size_t run_pieces(const struct cascade_run *r, const struct shares *f)
{
    const uint32_t n_seg = r->seg1 - r->seg0;
    const uint64_t n_row = (r->n_row + run_items(r) - 1) / run_items(r);

    return fit_pieces(n_seg, pieces_of(f, n_row * n_seg * KERN_SEGMENT));
}

/* Return the number of segments that a group's rows leave one state of: those of the first piece of
 * the prefix that all of them share, which is the group's last run. */
static uint32_t group_merged(const struct split_kv *c, const struct cascade_group *g,
                             const struct shares *f)
{
    const struct cascade_run *all = &c->cascade.runs[g->run0 + g->n_runs - 1];

    assert(all->seg0 == 0 && all->n_row == g->n_rows);
    return (uint32_t)(all->seg1 / run_pieces(all, f));
}

/* Add the items of a run, the segments that some members share; item->part is the group's. */
static void add_split_run(struct split_kv *c, const struct cascade_group *g,
                          const struct cascade_run *r, struct attn_item item,
                          const struct shares *f)
{
    const uint32_t n_item = run_items(r);

    item.span = r->span;
    for (uint32_t i = 0; i < n_item; i++) {
        const uint32_t from = r->row0 + i * r->n_row / n_item;

        item.n = r->row0 + (i + 1) * r->n_row / n_item - from;
        item.rows = c->cascade.rows + from;
        item.part_row = from - g->row0;
        item.seg0 = r->seg0;
        item.seg1 = r->seg1;
        add_pieces(c, item, run_pieces(r, f));
    }
}

/* Add the item of a member's own segments. */
static void add_split_member(struct split_kv *c, const struct batch *b,
                             const struct cascade_group *g, const struct cascade_member *m,
                             struct attn_item item, const struct shares *f)
{
    const struct batch_span *s = &b->spans[m->span];
    const uint32_t alone = s->pos0 + s->n_row - m->shared * KERN_SEGMENT;

    item.span = m->span;
    item.n = s->n_row;
    item.part_row = m->row0 - g->row0;
    item.seg0 = m->shared;
    item.seg1 = (uint32_t)segments(s->pos0 + s->n_row);
    note_splits(c, s, &item);
    add_pieces(c, item, fit_pieces(item.seg1 - item.seg0, pieces_of(f, (uint64_t)item.n * alone)));
    c->is_grouped[m->span] = true;
}

/* Add the items of a group, if there is room for its states and items. */
static void add_group(struct split_kv *c, const struct batch *b, const struct cascade_group *g,
                      const struct shares *f, size_t *room)
{
    const uint32_t n_merged = group_merged(c, g, f);
    const size_t n_state = states(group_segments(c, b, g), n_merged);
    const size_t need = g->n_rows * row_parts(c, n_state), n_items = group_items(c, g);
    const struct attn_item item = {
        .part = c->parts + c->parts_used,
        .part_rows = g->n_rows,
        .part_stride = n_state * KERN_ATTN_PART(c->options.value_dim),
        .n_merged = n_merged,
    };

    if (need > c->n_parts - c->parts_used || n_items > *room)
        return;
    c->parts_used += need;
    *room -= n_items;
    c->n_grouped_rows += g->n_rows;
    for (uint32_t i = 0; i < g->n_runs; i++)
        add_split_run(c, g, &c->cascade.runs[g->run0 + i], item, f);
    for (uint32_t i = 0; i < g->n_members; i++)
        add_split_member(c, b, g, &c->cascade.members[g->member0 + i], item, f);
}

static void add_groups(struct split_kv *c, const struct batch *b, const struct shares *f)
{
    size_t room = GROUP_ITEMS * (size_t)c->options.max_rows;

    memset(c->is_grouped, 0, b->n_spans * sizeof(*c->is_grouped));
    if (c->options.n_tables == 0)
        return;
    cascade_find(&c->cascade, b);
    for (uint32_t i = 0; i < c->cascade.n_groups; i++)
        add_group(c, b, &c->cascade.groups[i], f, &room);
}

void split_kv_make(struct split_kv *c, const struct batch *b)
{
    /* each item counts once for each KV head */
    const uint64_t fair = total_work(c, b) * c->options.n_kv_head / c->options.threads;
    const struct shares f = {fair, fair / SHARES + 1};
    const bool may_split = c->options.window == 0 && !c->options.is_encoder;

    c->n_items = c->n_splits = c->n_grouped_rows = 0;
    c->parts_used = 0;
    add_groups(c, b, &f);
    for (uint32_t i = 0; i < b->n_spans; i++)
        for (uint32_t from = 0, n; from < b->spans[i].n_row && !c->is_grouped[i]; from += n) {
            n = rows_at(c, &b->spans[i], from);
            const struct attn_item item = {.span = i, .from = from, .n = n, .seg1 = UINT32_MAX};
            const uint64_t work = item_work(c, &b->spans[i], from, n);

            add_split_item(c, &b->spans[i], item, may_split ? pieces_of(&f, work) : 1);
        }
    assert(c->n_items <= most_items(&c->options));
}
