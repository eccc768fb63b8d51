/* scheduler/heap.c - see heap.h.
 *
 * An array heap. Every move of an element goes through put_seq(), which writes the new position
 * back into the sequence: that is what makes heap_remove() of any element O(log n). The scheduler
 * keeps its expiry times in one, so that it sees a request's timeout without a scan.
 */
#include "scheduler/heap.h"

#include "core/base/err.h"
#include "core/base/mem.h"

#include <assert.h>

int heap_create(struct heap *h, uint32_t cap, size_t index_offset,
                bool (*before)(const struct seq *a, const struct seq *b))
{
    *h = (struct heap){.cap = cap, .index_offset = index_offset, .before = before};
    h->items = mem_calloc(cap, sizeof(struct seq *));
    return h->items == NULL ? ERR_NOMEM : 0;
}

void heap_release(struct heap *h)
{
    mem_free(h->items);
    *h = (struct heap){0};
}

static uint32_t *index_of(const struct heap *h, struct seq *s)
{
    return (uint32_t *)(void *)((char *)s + h->index_offset);
}

static void put_seq(struct heap *h, uint32_t i, struct seq *s)
{
    h->items[i] = s;
    *index_of(h, s) = i;
}

static void sift_up(struct heap *h, uint32_t i, struct seq *s)
{
    while (i > 0 && h->before(s, h->items[(i - 1) / 2])) {
        put_seq(h, i, h->items[(i - 1) / 2]);
        i = (i - 1) / 2;
    }
    put_seq(h, i, s);
}

static void sift_down(struct heap *h, uint32_t i, struct seq *s)
{
    for (uint32_t child = 2 * i + 1; child < h->n; child = 2 * i + 1) {
        if (child + 1 < h->n && h->before(h->items[child + 1], h->items[child]))
            child++;
        if (!h->before(h->items[child], s))
            break;
        put_seq(h, i, h->items[child]);
        i = child;
    }
    put_seq(h, i, s);
}

void heap_push(struct heap *h, struct seq *s)
{
    assert(h->n < h->cap);
    sift_up(h, h->n++, s);
}

struct seq *heap_top(const struct heap *h)
{
    return h->n > 0 ? h->items[0] : NULL;
}

void heap_remove(struct heap *h, struct seq *s)
{
    const uint32_t i = *index_of(h, s);
    struct seq *last = h->items[--h->n];

    assert(i <= h->n);
    if (last == s)
        return;
    if (i > 0 && h->before(last, h->items[(i - 1) / 2]))
        sift_up(h, i, last);
    else
        sift_down(h, i, last);
}

bool heap_check(const struct heap *h)
{
    for (uint32_t i = 0; i < h->n; i++)
        if (*index_of(h, h->items[i]) != i ||
            (i > 0 && h->before(h->items[i], h->items[(i - 1) / 2])))
            return false;
    return true;
}
