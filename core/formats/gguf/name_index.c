/* core/formats/gguf/name_index.c - see name_index.h.
 *
 * Open addressing with linear probing in a table of at least twice the items, so that a probe is
 * short and an empty slot always ends it. The table has the items' numbers only, so a look-up
 * compares the item's own name. Nothing is ever removed.
 */
#include "core/formats/gguf/name_index.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/formats/gguf/str.h"

#include <assert.h>
#include <string.h>
#include <sys/random.h>
#include <xxhash.h>

int name_index_init(struct name_index *ix, const void *items, size_t stride, uint32_t n)
{
    uint32_t size = 8;

    assert(n < 1u << 30);
    while (size < 2 * n)
        size *= 2;
    *ix = (struct name_index){.items = items, .stride = stride, .mask = size - 1};
    ix->slots = mem_calloc(size, sizeof(*ix->slots));
    if (ix->slots == NULL)
        return ERR_NOMEM;
    if (getrandom(&ix->seed, sizeof(ix->seed), GRND_NONBLOCK) < 0)
        ix->seed = (uintptr_t)ix->slots; /* early in boot there may be no random bytes: an address
                                          * is less random, but works */
    return 0;
}

void name_index_release(struct name_index *ix)
{
    mem_free(ix->slots);
    *ix = (struct name_index){0};
}

static const struct gguf_str *indexed_name(const struct name_index *ix, uint32_t i)
{
    return (const void *)((const char *)ix->items + i * ix->stride);
}

/* Return the slot that holds the name, or the empty slot where it would be put. */
static uint32_t probe(const struct name_index *ix, const char *name, size_t len)
{
    uint32_t at = (uint32_t)XXH3_64bits_withSeed(name, len, ix->seed) & ix->mask;

    for (; ix->slots[at] != 0; at = (at + 1) & ix->mask) {
        const struct gguf_str *s = indexed_name(ix, ix->slots[at] - 1);

        if (s->len == len && memcmp(s->data, name, len) == 0)
            break;
    }
    return at;
}

uint32_t name_index_add(struct name_index *ix, uint32_t i)
{
    const struct gguf_str *s = indexed_name(ix, i);
    const uint32_t at = probe(ix, s->data, s->len);

    if (ix->slots[at] != 0)
        return ix->slots[at] - 1;
    ix->slots[at] = i + 1;
    return i;
}

uint32_t name_index_find(const struct name_index *ix, const char *name, size_t len)
{
    return ix->slots != NULL ? ix->slots[probe(ix, name, len)] - 1 : NAME_INDEX_NONE;
}
