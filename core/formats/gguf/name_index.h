/* core/formats/gguf/name_index.h - finds one of many named items in constant time.
 *
 * The items are an array of structs that begin with a struct gguf_str, their name. The index holds
 * positions in that array, by open addressing in a table at most half full. The hash is
 * seeded at random, so that a file cannot choose names that collide.
 *
 * Thread: one builds, any number read.
 * Memory: the table; items and names are borrowed until name_index_release().
 */
#ifndef CORE_FORMATS_GGUF_NAME_INDEX_H
#define CORE_FORMATS_GGUF_NAME_INDEX_H

#include <stddef.h>
#include <stdint.h>

#define NAME_INDEX_NONE UINT32_MAX

struct name_index {
    const void *items;
    size_t stride;   /* bytes from one item to the next */
    uint32_t *slots; /* [mask + 1] item number + 1, 0 = empty */
    uint32_t mask;
    uint64_t seed;
};

/* Create an empty index with room for `n` items (n < 2^30). 0 or ERR_NOMEM. */
int name_index_init(struct name_index *ix, const void *items, size_t stride, uint32_t n);
void name_index_release(struct name_index *ix);

/* Add item i. Returns i, or the number of the item that has this name already. */
uint32_t name_index_add(struct name_index *ix, uint32_t i);

/* Return the number of the item with this name, or NAME_INDEX_NONE. */
uint32_t name_index_find(const struct name_index *ix, const char *name, size_t len);

#endif
