/* core/base/hash_index.c - see hash_index.h.
 *
 * Open addressing with linear probing, at most half full. Removing an item moves later items of the
 * same run back into the hole, so there are no marks of removed items that would slow down
 * searches. Slots keep the hash, so growing needs no names.
 */
#include "core/base/hash_index.h"

#include "core/base/err.h"
#include "core/base/mem.h"

#include <string.h>
#include <xxhash.h>

#define FIRST_SLOTS 16

/* The seed differs from process to process, so that nobody can choose many names with one hash. */
uint64_t hash_of_bytes(const char *text, size_t n)
{
    static const char address;

    return XXH3_64bits_withSeed(text, n, (uintptr_t)&address);
}

uint64_t hash_of_text(const char *text)
{
    return hash_of_bytes(text, strlen(text));
}

uint64_t hash_of_texts(const char *a, const char *b)
{
    return XXH3_64bits_withSeed(b, strlen(b), hash_of_text(a));
}

static void put_slot(struct hash_slot *slots, uint64_t n_slots, struct hash_slot what)
{
    uint64_t i = what.hash & (n_slots - 1);

    while (slots[i].item != 0)
        i = (i + 1) & (n_slots - 1);
    slots[i] = what;
}

int hash_index_reserve(struct hash_index *x, uint64_t n_items)
{
    uint64_t n = x->n_slots > 0 ? x->n_slots : FIRST_SLOTS;
    struct hash_slot *slots;

    while (n < 2 * n_items)
        n *= 2;
    if (n == x->n_slots)
        return 0;
    slots = mem_calloc(n, sizeof(*slots));
    if (slots == NULL)
        return ERR_NOMEM;
    for (uint64_t i = 0; i < x->n_slots; i++)
        if (x->slots[i].item != 0)
            put_slot(slots, n, x->slots[i]);
    mem_free(x->slots);
    x->slots = slots;
    x->n_slots = n;
    return 0;
}

int hash_index_add(struct hash_index *x, uint64_t hash, uintptr_t item)
{
    if (hash_index_reserve(x, x->n + 1) < 0)
        return ERR_NOMEM;
    put_slot(x->slots, x->n_slots, (struct hash_slot){hash, item});
    x->n++;
    return 0;
}

/* Fill the free slot `hole` with a later item that belongs there or before it, and so on with that
 * item's slot. */
static void close_hole(struct hash_index *x, uint64_t hole)
{
    const uint64_t mask = x->n_slots - 1;

    for (uint64_t i = (hole + 1) & mask; x->slots[i].item != 0; i = (i + 1) & mask) {
        if (((i - x->slots[i].hash) & mask) < ((i - hole) & mask))
            continue; /* the item's own slot is after the hole */
        x->slots[hole] = x->slots[i];
        hole = i;
    }
    x->slots[hole] = (struct hash_slot){0, 0};
}

void hash_index_remove(struct hash_index *x, uint64_t hash, uintptr_t item)
{
    const uint64_t mask = x->n_slots - 1;

    if (x->n_slots == 0)
        return;
    for (uint64_t i = hash & mask; x->slots[i].item != 0; i = (i + 1) & mask) {
        if (x->slots[i].hash != hash || x->slots[i].item != item)
            continue;
        x->n--;
        close_hole(x, i);
        return;
    }
}

void hash_index_release(struct hash_index *x)
{
    mem_free(x->slots);
    *x = (struct hash_index){0};
}

uintptr_t hash_index_next(const struct hash_index *x, struct hash_walk *w)
{
    while (x->n_slots > 0) {
        const struct hash_slot *slot = &x->slots[(w->hash + w->at) & (x->n_slots - 1)];

        if (slot->item == 0)
            break;
        w->at++;
        if (slot->hash == w->hash)
            return slot->item;
    }
    return 0;
}
