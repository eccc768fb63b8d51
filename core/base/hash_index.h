/* core/base/hash_index.h - finds items, which their owner keeps elsewhere, by a hash of their name.
 *
 * An item is any number except 0: an index plus one, or a pointer. Different names can have one
 * hash: a caller walks over all items of a hash and compares names.
 *
 * Thread: its owner's.
 * Memory: at most 32 bytes an item; {0} is empty.
 * Errors: ERR_NOMEM.
 */
#ifndef CORE_BASE_HASH_INDEX_H
#define CORE_BASE_HASH_INDEX_H

#include <stddef.h>
#include <stdint.h>

struct hash_slot { /* item 0: free */
    uint64_t hash;
    uintptr_t item;
};

struct hash_index {
    struct hash_slot *slots; /* [n_slots], at most half of them in use */
    uint64_t n_slots, n;
};

struct hash_walk {
    uint64_t hash, at;
};

/* Make room for n items in total: up to then hash_index_add() cannot fail. */
int hash_index_reserve(struct hash_index *x, uint64_t n);
int hash_index_add(struct hash_index *x, uint64_t hash, uintptr_t item);
/* Removing an item that is not in the index does nothing. */
void hash_index_remove(struct hash_index *x, uint64_t hash, uintptr_t item);
void hash_index_release(struct hash_index *x);

/* Return the next item of w->hash, or 0. Begin with w = {.hash = …}, and begin again after each
 * change of the index. */
uintptr_t hash_index_next(const struct hash_index *x, struct hash_walk *w);

/* Return the XXH3 of a text, of n bytes, of two texts. The seed differs from process to process,
 * because clients choose the names. */
uint64_t hash_of_text(const char *text);
uint64_t hash_of_bytes(const char *text, size_t n);
uint64_t hash_of_texts(const char *a, const char *b);

#endif
