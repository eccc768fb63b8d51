/* scheduler/heap.h - a binary heap of sequences, each of which knows its position in it.
 *
 * Private to scheduler/. The element keeps its own position (a field named at creation), so that
 * any element can be removed in O(log n).
 *
 * Thread: engine thread only.
 * Memory: the array is taken at creation.
 */
#ifndef SCHEDULER_HEAP_H
#define SCHEDULER_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct seq;

struct heap {
    struct seq **items;
    uint32_t n, cap;
    size_t index_offset; /* offset of the uint32_t position inside struct seq */
    bool (*before)(const struct seq *a, const struct seq *b);
};

int heap_create(struct heap *h, uint32_t cap, size_t index_offset,
                bool (*before)(const struct seq *a, const struct seq *b));
void heap_release(struct heap *h);

void heap_push(struct heap *h, struct seq *s); /* the heap must have room */
struct seq *heap_top(const struct heap *h);    /* NULL: empty */
void heap_remove(struct heap *h, struct seq *s);
bool heap_check(const struct heap *h);

#endif
