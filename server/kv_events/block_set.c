/* server/kv_events/block_set.c - see block_set.h.
 *
 * A hash table with chains over a fixed array of places; free places form a list, taken in order.
 * block_set_list() lists parents before children: it climbs from each block to the last ancestor
 * that is not listed yet and writes the chain down from there, so that every block is visited once.
 * Only the publisher's thread uses it.
 */
#include "server/kv_events/block_set.h"

#include "core/base/err.h"
#include "core/base/mem.h"

#include <stddef.h>

#define NONE UINT32_MAX

struct place {
    struct kv_event block;
    uint32_t next; /* next place of its bucket, or of the list of free places */
    bool is_in, is_listed;
};

struct block_set {
    uint32_t n_places, n, free, mask;
    uint32_t *buckets;             /* [mask + 1] */
    struct place *places;          /* [n_places] */
    const struct kv_event **list;  /* [n_places] result of block_set_list() */
    uint32_t *climb;               /* [n_places] scratch for the way up */
};

static size_t buckets_for(uint32_t n_places)
{
    size_t n = 1;

    while (n < n_places)
        n *= 2;
    return n;
}

size_t block_set_bytes(uint32_t n_places)
{
    const struct block_set *s = NULL;

    return buckets_for(n_places) * sizeof(*s->buckets) +
           n_places * (sizeof(*s->places) + sizeof(*s->list) + sizeof(*s->climb));
}

int block_set_create(struct block_set **out, uint32_t n_places)
{
    struct block_set *s;
    size_t n_buckets;

    *out = NULL;
    if (n_places == 0 || n_places > UINT32_MAX / 2)
        return ERR_INVAL;
    n_buckets = buckets_for(n_places);
    s = mem_calloc(1, sizeof(*s));
    if (s == NULL)
        return ERR_NOMEM;
    s->n_places = n_places;
    s->mask = (uint32_t)(n_buckets - 1);
    s->buckets = mem_calloc(n_buckets, sizeof(*s->buckets));
    s->places = mem_calloc(n_places, sizeof(*s->places));
    s->list = mem_calloc(n_places, sizeof(*s->list));
    s->climb = mem_calloc(n_places, sizeof(*s->climb));
    if (s->buckets == NULL || s->places == NULL || s->list == NULL || s->climb == NULL) {
        block_set_destroy(&s);
        return ERR_NOMEM;
    }
    block_set_clear(s);
    *out = s;
    return 0;
}

void block_set_destroy(struct block_set **set)
{
    struct block_set *s = set != NULL ? *set : NULL;

    if (s == NULL)
        return;
    mem_free(s->buckets);
    mem_free(s->places);
    mem_free(s->list);
    mem_free(s->climb);
    mem_free(s);
    *set = NULL;
}

void block_set_clear(struct block_set *s)
{
    for (size_t i = 0; i <= s->mask; i++)
        s->buckets[i] = NONE;
    for (uint32_t i = 0; i < s->n_places; i++) {
        s->places[i].is_in = false;
        s->places[i].next = i + 1 < s->n_places ? i + 1 : NONE;
    }
    s->free = 0;
    s->n = 0;
}

/* Return the link to the place with this hash, or the link at the end of its chain. */
static uint32_t *find_hash(const struct block_set *s, struct prefix_hash hash)
{
    uint32_t *link = &s->buckets[hash.lo & s->mask];

    while (*link != NONE) {
        const struct prefix_hash *there = &s->places[*link].block.hash;

        if (there->lo == hash.lo && there->hi == hash.hi)
            break;
        link = &s->places[*link].next;
    }
    return link;
}

void block_set_add(struct block_set *s, const struct kv_event *stored)
{
    uint32_t *link = find_hash(s, stored->hash);
    const uint32_t at = s->free;

    if (*link != NONE || at == NONE)
        return;
    s->free = s->places[at].next;
    s->places[at] = (struct place){.block = *stored, .next = NONE, .is_in = true};
    *link = at;
    s->n++;
}

void block_set_remove(struct block_set *s, struct prefix_hash hash)
{
    uint32_t *link = find_hash(s, hash);
    const uint32_t at = *link;

    if (at == NONE)
        return;
    *link = s->places[at].next;
    s->places[at].is_in = false;
    s->places[at].next = s->free;
    s->free = at;
    s->n--;
}

bool block_set_has(const struct block_set *s, struct prefix_hash hash)
{
    return *find_hash(s, hash) != NONE;
}

uint32_t block_set_n(const struct block_set *s)
{
    return s->n;
}

/* List a block after those of its ancestors that are not listed yet. */
static void list_chain(struct block_set *s, uint32_t at, uint32_t *n)
{
    uint32_t depth = 0;

    while (at != NONE && !s->places[at].is_listed) {
        const struct kv_event *block = &s->places[at].block;

        s->places[at].is_listed = true;
        s->climb[depth++] = at;
        at = block->is_first ? NONE : *find_hash(s, block->before);
    }
    while (depth > 0)
        s->list[(*n)++] = &s->places[s->climb[--depth]].block;
}

const struct kv_event *const *block_set_list(struct block_set *s, uint32_t *n)
{
    *n = 0;
    for (uint32_t i = 0; i < s->n_places; i++)
        s->places[i].is_listed = !s->places[i].is_in;
    for (uint32_t i = s->n_places; i-- > 0;) /* the latest first: they end the longest chains */
        list_chain(s, i, n);
    return s->list;
}
