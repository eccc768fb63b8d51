/* kvcache/state_store.c - see state_store.h.
 *
 * One mmap'ed arena; a slot's address is its number times a stride rounded up to a cache line.
 * kv_move.c copies whole slots within it, or parts of them to and from the RAM tier.
 */
#include "kvcache/state_store.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/base/numa.h"

#include <assert.h>
#include <string.h>

#define LINE 64 /* bytes of a cache line */

struct state_store {
    uint32_t n_slots;
    size_t slot_bytes, stride;
    uint8_t *data;
    size_t bytes; /* bytes of the mapping */
};

int state_store_create(struct state_store **out, size_t slot_bytes, uint32_t n_slots)
{
    const size_t stride = (slot_bytes + LINE - 1) / LINE * LINE;
    struct state_store *s;
    size_t bytes;

    *out = NULL;
    if (slot_bytes == 0 || n_slots == 0)
        return ERR_INVAL;
    if (stride < slot_bytes || __builtin_mul_overflow((size_t)n_slots + 1, stride, &bytes))
        return ERR_NOMEM;
    s = mem_calloc(1, sizeof(*s));
    if (s == NULL)
        return ERR_NOMEM;
    *s = (struct state_store){n_slots, slot_bytes, stride, mem_map(bytes), bytes};
    if (s->data == NULL) {
        mem_free(s);
        return ERR_NOMEM;
    }
    *out = s;
    return 0;
}

/* Any thread may compute any sequence, so the arena is interleaved over the memory nodes. */
void state_store_spread(struct state_store *s, const struct numa *numa)
{
    (void)numa_spread(numa, s->data, s->bytes);
}

void state_store_destroy(struct state_store **s)
{
    if (s == NULL || *s == NULL)
        return;
    mem_unmap((*s)->data, (*s)->bytes);
    mem_free(*s);
    *s = NULL;
}

size_t state_store_slot_bytes(const struct state_store *s)
{
    return s->slot_bytes;
}

void *state_store_at(const struct state_store *s, uint32_t slot)
{
    assert(slot != STATE_NONE && slot <= s->n_slots);
    return s->data + slot * s->stride;
}

void state_store_copy(struct state_store *s, uint32_t from, uint32_t to)
{
    assert(from != to);
    memcpy(state_store_at(s, to), state_store_at(s, from), s->slot_bytes);
}
