/* core/runtime/cascade.c - see cascade.h.
 *
 * Spans are inserted into a list sorted by their block tables, so spans with a common prefix become
 * neighbours and common[i], the number of segments that members i - 1 and i share, describes the
 * whole tree of prefixes. One pass over common[] with a stack of open runs then emits the runs: a
 * run closes where common[] falls below its depth (as in the construction of an LCP interval tree).
 */
#include "core/runtime/cascade.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/runtime/batch.h"
#include "kernels/kernels.h"

#include <assert.h>
#include <string.h>

#define SEGMENT_BLOCKS (KERN_SEGMENT / KERN_BLOCK)

int cascade_create(struct cascade *c, uint32_t max_rows, uint32_t n_tables)
{
    *c = (struct cascade){.max_rows = max_rows, .n_tables = n_tables};
    c->members = mem_calloc(max_rows, sizeof(*c->members));
    c->runs = mem_calloc(max_rows, sizeof(*c->runs));
    c->groups = mem_calloc(max_rows, sizeof(*c->groups));
    c->rows = mem_calloc(max_rows, sizeof(*c->rows));
    c->common = mem_calloc((size_t)max_rows + 1, sizeof(*c->common));
    c->open = mem_calloc((size_t)max_rows + 1, sizeof(*c->open));
    c->depths = mem_calloc((size_t)max_rows + 1, sizeof(*c->depths));
    if (c->members != NULL && c->runs != NULL && c->groups != NULL && c->rows != NULL &&
        c->common != NULL && c->open != NULL && c->depths != NULL)
        return 0;
    cascade_release(c);
    return ERR_NOMEM;
}

void cascade_release(struct cascade *c)
{
    mem_free(c->members);
    mem_free(c->runs);
    mem_free(c->groups);
    mem_free(c->rows);
    mem_free(c->common);
    mem_free(c->open);
    mem_free(c->depths);
    *c = (struct cascade){0};
}

/* Return the number of whole segments before the span's first row. */
static uint32_t segments_before(const struct batch_span *s)
{
    return s->pos0 / KERN_SEGMENT;
}

static int compare_segment(const struct cascade *c, const struct batch_span *a,
                           const struct batch_span *b, uint32_t seg)
{
    int order = 0;

    for (uint32_t i = 0; i < c->n_tables && order == 0; i++)
        order = memcmp(a->table + i * a->group_stride + seg * SEGMENT_BLOCKS,
                       b->table + i * b->group_stride + seg * SEGMENT_BLOCKS,
                       SEGMENT_BLOCKS * sizeof(*a->table));
    return order;
}

/* Compare the tables of two spans, like memcmp(); *common gets the number of segments that they
 * share. A table that is a prefix of the other comes first. */
static int compare_spans(const struct cascade *c, const struct batch_span *a,
                         const struct batch_span *b, uint32_t *common)
{
    const uint32_t n_a = segments_before(a), n_b = segments_before(b);
    const uint32_t n = n_a < n_b ? n_a : n_b;

    for (*common = 0; *common < n; ++*common) {
        const int order = compare_segment(c, a, b, *common);

        if (order != 0)
            return order;
    }
    return (n_a > n_b) - (n_a < n_b);
}

/* Binary search for a span's place among the first n members. */
static uint32_t span_place(const struct cascade *c, const struct batch *b, uint32_t n,
                           uint32_t span)
{
    uint32_t from = 0, to = n, common;

    while (from < to) {
        const uint32_t mid = from + (to - from) / 2;

        if (compare_spans(c, &b->spans[c->members[mid].span], &b->spans[span], &common) <= 0)
            from = mid + 1;
        else
            to = mid;
    }
    return from;
}

/* Sort the spans that may take part into members[]; returns their number. */
static uint32_t sort_members(struct cascade *c, const struct batch *b)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < b->n_spans; i++) {
        if (b->spans[i].n_row > CASCADE_ROWS || segments_before(&b->spans[i]) == 0)
            continue;
        const uint32_t at = span_place(c, b, n, i);

        memmove(c->members + at + 1, c->members + at, (n - at) * sizeof(*c->members));
        c->members[at] = (struct cascade_member){.span = i};
        n++;
    }
    return n;
}

/* Fill common[0 .. n]: the segments that member i shares with member i - 1; common[0] and common[n]
 * are 0. */
static void note_common(struct cascade *c, const struct batch *b, uint32_t n)
{
    c->common[0] = c->common[n] = 0;
    for (uint32_t i = 1; i < n; i++)
        compare_spans(c, &b->spans[c->members[i - 1].span], &b->spans[c->members[i].span],
                      &c->common[i]);
}

/* Add a run: members member0 .. end - 1 share segments seg0 .. seg1 - 1. */
static void add_cascade_run(struct cascade *c, const struct batch *b, uint32_t member0,
                            uint32_t end, uint32_t seg0, uint32_t seg1)
{
    const struct cascade_member *last = &c->members[end - 1];
    const uint32_t row0 = c->members[member0].row0;

    c->runs[c->n_runs++] = (struct cascade_run){
        .row0 = row0,
        .n_row = last->row0 + b->spans[last->span].n_row - row0,
        .seg0 = seg0,
        .seg1 = seg1,
        .span = c->members[member0].span,
    };
}

/* Close the runs that member `end` is not part of: those deeper than the prefix it shares with the
 * member before it. `n` runs are open; returns how many are open afterwards. */
static uint32_t close_runs(struct cascade *c, const struct batch *b, uint32_t n, uint32_t end)
{
    const uint32_t common = c->common[end];
    uint32_t from = end - 1; /* first member of the run that `end` joins */

    while (n > 0 && c->depths[n - 1] > common) {
        const uint32_t outer = n > 1 ? c->depths[n - 2] : 0;

        n--;
        from = c->open[n];
        add_cascade_run(c, b, from, end, outer > common ? outer : common, c->depths[n]);
    }
    if (common > (n > 0 ? c->depths[n - 1] : 0)) {
        c->open[n] = from;
        c->depths[n++] = common;
    }
    return n;
}

static void add_cascade_rows(struct cascade *c, const struct batch *b, uint32_t member)
{
    struct cascade_member *m = &c->members[member];
    const struct batch_span *s = &b->spans[m->span];
    const uint32_t before = c->common[member], after = c->common[member + 1];

    m->row0 = c->n_rows;
    m->shared = before > after ? before : after;
    for (uint32_t i = 0; i < s->n_row; i++)
        c->rows[c->n_rows++] = (struct kern_attn_row){s->row0 + i, s->pos0 + i};
}

/* Add the group of members member0 .. end - 1. */
static void add_group(struct cascade *c, const struct batch *b, uint32_t member0, uint32_t end)
{
    struct cascade_group *g = &c->groups[c->n_groups++];
    uint32_t n_open = 0;

    *g = (struct cascade_group){.member0 = member0, .n_members = end - member0,
                                .run0 = c->n_runs, .row0 = c->n_rows};
    for (uint32_t i = member0; i < end; i++)
        add_cascade_rows(c, b, i);
    for (uint32_t i = member0 + 1; i <= end; i++)
        n_open = close_runs(c, b, n_open, i);
    assert(n_open == 0);
    g->n_runs = c->n_runs - g->run0;
    g->n_rows = c->n_rows - g->row0;
}

void cascade_find(struct cascade *c, const struct batch *b)
{
    const uint32_t n = sort_members(c, b);
    uint32_t end;

    c->n_groups = c->n_runs = c->n_rows = 0;
    note_common(c, b, n);
    for (uint32_t i = 0; i < n; i = end) {
        for (end = i + 1; c->common[end] > 0;)
            end++;
        if (end - i > 1)
            add_group(c, b, i, end);
    }
}
