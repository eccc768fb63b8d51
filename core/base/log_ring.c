/* core/base/log_ring.c - see log_ring.h.
 *
 * Positions count up forever; a position's slot is its low bits. A producer claims a position by
 * compare-and-swap on `tail`, copies its line, and publishes it with the slot's sequence number.
 * The single consumer needs no atomic `head`. A producer that sees last lap's number in its slot
 * knows that the ring is full.
 */
#include "core/base/log_ring.h"

#include "core/base/err.h"
#include "core/base/log.h"
#include "core/base/mem.h"

#include <assert.h>
#include <stdatomic.h>
#include <string.h>

/* sequence == i: free for the producer that gets position i; i + 1: filled, for the consumer; i +
 * n_slots: free for the next lap. A release store of `sequence` pairs with the acquire load of the
 * thread that uses the slot next. */
struct slot {
    _Atomic uint64_t sequence;
    uint32_t len;
    char text[LOG_LINE_MAX];
};

struct log_ring {
    uint32_t n_slots;
    uint64_t head;         /* the consumer's */
    _Atomic uint64_t tail; /* next position of a producer; relaxed: `sequence` orders contents */
    struct slot slots[];
};

int log_ring_create(struct log_ring **out, uint32_t n_slots)
{
    struct log_ring *r;

    assert(n_slots > 0 && (n_slots & (n_slots - 1)) == 0);
    *out = r = mem_calloc(1, sizeof(*r) + n_slots * sizeof(r->slots[0]));
    if (r == NULL)
        return ERR_NOMEM;
    r->n_slots = n_slots;
    for (uint32_t i = 0; i < n_slots; i++)
        atomic_init(&r->slots[i].sequence, i);
    return 0;
}

void log_ring_destroy(struct log_ring **ring)
{
    mem_free(*ring);
    *ring = NULL;
}

static struct slot *slot_at(struct log_ring *r, uint64_t pos)
{
    return &r->slots[pos & (r->n_slots - 1)];
}

bool log_ring_put(struct log_ring *r, const char *line, size_t n)
{
    uint64_t pos = atomic_load_explicit(&r->tail, memory_order_relaxed);
    struct slot *s;

    for (;;) {
        uint64_t sequence;

        s = slot_at(r, pos);
        sequence = atomic_load_explicit(&s->sequence, memory_order_acquire);
        if (sequence < pos)
            return false; /* the line of the last lap has not been taken */
        if (sequence > pos)
            pos = atomic_load_explicit(&r->tail, memory_order_relaxed);
        else if (atomic_compare_exchange_weak_explicit(&r->tail, &pos, pos + 1,
                                                       memory_order_relaxed, memory_order_relaxed))
            break;
    }
    assert(n <= sizeof(s->text));
    memcpy(s->text, line, n);
    s->len = (uint32_t)n;
    atomic_store_explicit(&s->sequence, pos + 1, memory_order_release);
    return true;
}

uint64_t log_ring_n_put(const struct log_ring *r)
{
    return atomic_load_explicit(&r->tail, memory_order_relaxed);
}

size_t log_ring_take(struct log_ring *r, char *line)
{
    struct slot *s = slot_at(r, r->head);
    size_t n;

    if (atomic_load_explicit(&s->sequence, memory_order_acquire) != r->head + 1)
        return 0;
    n = s->len;
    memcpy(line, s->text, n);
    atomic_store_explicit(&s->sequence, r->head + r->n_slots, memory_order_release);
    r->head++;
    return n;
}
