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

/* Make room for so many items in all: until then hash_index_add() does not fail. */
int hash_index_reserve(struct hash_index *x, uint64_t n);
int hash_index_add(struct hash_index *x, uint64_t hash, uintptr_t item);
/* Removing an item that is not in the index does nothing. */
void hash_index_remove(struct hash_index *x, uint64_t hash, uintptr_t item);
void hash_index_release(struct hash_index *x);

/* The next item of w->hash, or 0. Begin with {.hash = …}, and again after each change. */
uintptr_t hash_index_next(const struct hash_index *x, struct hash_walk *w);

/* XXH3 of a text, of a text without a NUL, and of two texts, with a seed of the process, because
 * clients choose the names. */
uint64_t hash_of_text(const char *text);
uint64_t hash_of_bytes(const char *text, size_t n);
uint64_t hash_of_texts(const char *a, const char *b);

#endif
