/* tests/tools/cluster/block_holders.c - see block_holders.h.
 *
 * A hash table with open addressing and linear probing, at most half full. An entry lists up to FEW
 * holders in place and is turned into a bitmap of replicas by the next one; it never turns back.
 * Removal closes the gap by moving later entries up (close_gap), so there are no tombstones and
 * look-ups stay short however many blocks come and go.
 */
#include "tests/tools/cluster/block_holders.h"

#include "core/base/err.h"
#include "core/base/mem.h"

#include <string.h>

#define FEW 2

struct entry {
    struct prefix_hash hash;
    uint32_t n; /* holders; 0: the slot is free */
    uint32_t is_many;
    union {
        uint32_t few[FEW];
        uint64_t *set;
    };
};

struct block_holders {
    struct entry *entries; /* [n_slots], a power of two, at most half full */
    size_t n_slots, n;
    uint32_t n_words;
};

int block_holders_create(struct block_holders **out, uint32_t n_replicas)
{
    struct block_holders *h = mem_calloc(1, sizeof(*h));

    *out = NULL;
    if (h == NULL)
        return ERR_NOMEM;
    h->n_words = (n_replicas + 63) / 64;
    h->n_slots = 1024;
    h->entries = mem_calloc(h->n_slots, sizeof(*h->entries));
    if (h->entries == NULL) {
        mem_free(h);
        return ERR_NOMEM;
    }
    *out = h;
    return 0;
}

void block_holders_destroy(struct block_holders **holders)
{
    struct block_holders *h = holders != NULL ? *holders : NULL;

    if (h == NULL)
        return;
    for (size_t i = 0; i < h->n_slots; i++)
        if (h->entries[i].is_many != 0)
            mem_free(h->entries[i].set);
    mem_free(h->entries);
    mem_free(h);
    *holders = NULL;
}

static size_t home_of(const struct block_holders *h, struct prefix_hash hash)
{
    return (size_t)hash.lo & (h->n_slots - 1);
}

/* The block's slot, or the free slot where it belongs. */
static struct entry *holder_slot(const struct block_holders *h, struct prefix_hash hash)
{
    size_t i = home_of(h, hash);

    while (h->entries[i].n > 0 &&
           (h->entries[i].hash.lo != hash.lo || h->entries[i].hash.hi != hash.hi))
        i = (i + 1) & (h->n_slots - 1);
    return &h->entries[i];
}

static int grow_holders(struct block_holders *h)
{
    struct block_holders larger = *h;

    larger.n_slots = 2 * h->n_slots;
    larger.entries = mem_calloc(larger.n_slots, sizeof(*larger.entries));
    if (larger.entries == NULL)
        return ERR_NOMEM;
    for (size_t i = 0; i < h->n_slots; i++)
        if (h->entries[i].n > 0)
            *holder_slot(&larger, h->entries[i].hash) = h->entries[i];
    mem_free(h->entries);
    *h = larger;
    return 0;
}

static bool entry_has(const struct entry *e, uint32_t replica)
{
    if (e->is_many != 0)
        return (e->set[replica / 64] >> replica % 64 & 1) != 0;
    for (uint32_t i = 0; i < e->n; i++)
        if (e->few[i] == replica)
            return true;
    return false;
}

/* Turn the entry's list of holders into a bitmap. */
static int make_many(const struct block_holders *h, struct entry *e)
{
    uint64_t *set = mem_calloc(h->n_words, sizeof(*set));

    if (set == NULL)
        return ERR_NOMEM;
    for (uint32_t i = 0; i < e->n; i++)
        set[e->few[i] / 64] |= (uint64_t)1 << e->few[i] % 64;
    e->set = set;
    e->is_many = 1;
    return 0;
}

int block_holders_add(struct block_holders *h, struct prefix_hash hash, uint32_t replica)
{
    struct entry *e;

    if (2 * h->n >= h->n_slots && grow_holders(h) < 0)
        return ERR_NOMEM;
    e = holder_slot(h, hash);
    if (entry_has(e, replica))
        return 0;
    if (e->is_many == 0 && e->n == FEW && make_many(h, e) < 0)
        return ERR_NOMEM;
    if (e->is_many != 0)
        e->set[replica / 64] |= (uint64_t)1 << replica % 64;
    else
        e->few[e->n] = replica;
    e->hash = hash;
    h->n += e->n++ == 0;
    return 0;
}

/* Free a slot, and move up entries behind it that would otherwise not be found any more. */
static void close_gap(struct block_holders *h, size_t gap)
{
    const size_t mask = h->n_slots - 1;

    for (size_t i = (gap + 1) & mask; h->entries[i].n > 0; i = (i + 1) & mask) {
        if (((i - home_of(h, h->entries[i].hash)) & mask) < ((i - gap) & mask))
            continue;
        h->entries[gap] = h->entries[i];
        gap = i;
    }
    h->entries[gap] = (struct entry){0};
}

void block_holders_remove(struct block_holders *h, struct prefix_hash hash, uint32_t replica)
{
    struct entry *e = holder_slot(h, hash);

    if (e->n == 0 || !entry_has(e, replica))
        return;
    e->n--;
    if (e->is_many != 0)
        e->set[replica / 64] &= ~((uint64_t)1 << replica % 64);
    else if (e->few[0] == replica)
        e->few[0] = e->few[1];
    if (e->n > 0)
        return;
    if (e->is_many != 0)
        mem_free(e->set);
    h->n--;
    close_gap(h, (size_t)(e - h->entries));
}

uint32_t block_holders_words(const struct block_holders *h)
{
    return h->n_words;
}

static bool narrow_to_few(const struct entry *e, uint64_t *set, uint32_t n_words)
{
    uint32_t left[FEW], n = 0;

    for (uint32_t i = 0; i < e->n; i++)
        if ((set[e->few[i] / 64] >> e->few[i] % 64 & 1) != 0)
            left[n++] = e->few[i];
    if (n == 0)
        return false;
    memset(set, 0, n_words * sizeof(*set));
    for (uint32_t i = 0; i < n; i++)
        set[left[i] / 64] |= (uint64_t)1 << left[i] % 64;
    return true;
}

bool block_holders_narrow(const struct block_holders *h, struct prefix_hash hash, uint64_t *set)
{
    const struct entry *e = holder_slot(h, hash);
    uint64_t any = 0;

    if (e->is_many == 0)
        return narrow_to_few(e, set, h->n_words);
    for (uint32_t i = 0; i < h->n_words; i++)
        any |= set[i] & e->set[i];
    for (uint32_t i = 0; any != 0 && i < h->n_words; i++)
        set[i] &= e->set[i];
    return any != 0;
}

size_t block_holders_n(const struct block_holders *h)
{
    return h->n;
}
