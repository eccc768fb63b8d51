/* scheduler/replay/time_heap.c - see time_heap.h.
 *
 * A binary heap in an array that grows; entries cannot be removed from the middle, so callers skip
 * those that are outdated. Equal times are ordered by number, which makes a simulation repeat
 * exactly.
 */
#include "scheduler/replay/time_heap.h"

#include "core/base/err.h"
#include "core/base/mem.h"

#include <stdbool.h>

static bool goes_before(struct timed a, struct timed b)
{
    return a.at != b.at ? a.at < b.at : a.id < b.id;
}

int time_heap_add(struct time_heap *h, uint64_t at, size_t id)
{
    const struct timed item = {at, id};
    size_t i;

    if (h->n == h->cap) {
        const size_t cap = h->cap > 0 ? 2 * h->cap : 16;
        struct timed *items = mem_realloc(h->items, cap * sizeof(*items));

        if (items == NULL)
            return ERR_NOMEM;
        h->items = items;
        h->cap = cap;
    }
    for (i = h->n++; i > 0 && goes_before(item, h->items[(i - 1) / 2]); i = (i - 1) / 2)
        h->items[i] = h->items[(i - 1) / 2];
    h->items[i] = item;
    return 0;
}

struct timed time_heap_take(struct time_heap *h)
{
    const struct timed first = h->items[0], last = h->items[--h->n];
    size_t i = 0;

    for (;;) {
        size_t child = 2 * i + 1;

        if (child + 1 < h->n && goes_before(h->items[child + 1], h->items[child]))
            child++;
        if (child >= h->n || !goes_before(h->items[child], last))
            break;
        h->items[i] = h->items[child];
        i = child;
    }
    if (h->n > 0)
        h->items[i] = last;
    return first;
}

void time_heap_release(struct time_heap *h)
{
    mem_free(h->items);
    *h = (struct time_heap){0};
}
