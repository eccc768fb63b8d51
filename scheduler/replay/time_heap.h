/* scheduler/replay/time_heap.h - a heap of numbers in the order of their times; equal times by
 * number.
 *
 * Thread: the owner's.
 * Memory: 16 bytes an entry, and up to as much again; zero is empty.
 */
#ifndef SCHEDULER_REPLAY_TIME_HEAP_H
#define SCHEDULER_REPLAY_TIME_HEAP_H

#include <stddef.h>
#include <stdint.h>

struct timed {
    uint64_t at;
    size_t id;
};

struct time_heap {
    struct timed *items; /* [n], the earliest first */
    size_t n, cap;
};

int time_heap_add(struct time_heap *h, uint64_t at, size_t id); /* ERR_NOMEM */
struct timed time_heap_take(struct time_heap *h);               /* the earliest; requires n > 0 */
void time_heap_release(struct time_heap *h);

#endif
