/* kvcache/prefix_index.c - a hash table of blocks, and a chain of the children of each.
 *
 * With more groups than one, an entry's blocks of the others stand in a row of `group_blocks`, and
 * `owners` leads back from each of them.
 */
#include "kvcache/prefix_index.h"

#include "core/base/err.h"
#include "core/base/mem.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>
#include <xxhash.h>

struct entry {
    struct prefix_hash before_hash, hash;
    int32_t tokens[BLOCK_TOKENS];
    block_id before;
    block_id in_bucket;   /* the next one of its bucket */
    block_id child;       /* the most recent block that follows this one */
    block_id newer, older; /* neighbours among those with the same `before` */
    uint32_t n_group_blocks;
    bool is_in;
};

struct block_owner {       /* of a block of a group other than the first */
    block_id entry; /* BLOCK_NONE: it is in none */
    uint32_t group;
};

struct prefix_index {
    uint32_t n_blocks, n;
    uint32_t n_group_blocks; /* groups but the first */
    uint32_t mask;     /* buckets - 1 */
    block_id *buckets; /* by hash */
    block_id *roots;   /* by before_hash: the most recent of the first blocks */
    struct entry *entries; /* [n_blocks + 1] by id */
    block_id *group_blocks; /* [n_blocks + 1][n_group_blocks] by id; NULL when there is one group */
    struct block_owner *owners;    /* [n_blocks + 1] by id; NULL when there is one group */
    void (*changed)(void *ud, struct prefix_hash hash, bool is_in); /* or NULL */
    void *changed_ud;
};

/* ---- hashes ---- */

static struct prefix_hash from_xxh(XXH128_hash_t h)
{
    return (struct prefix_hash){.lo = h.low64, .hi = h.high64};
}

struct prefix_hash prefix_hash_root(uint64_t salt)
{
    return from_xxh(XXH3_128bits(&salt, sizeof(salt)));
}

struct prefix_hash prefix_hash_next(struct prefix_hash before, const int32_t *tokens)
{
    struct {
        struct prefix_hash before;
        int32_t tokens[BLOCK_TOKENS];
    } input;

    _Static_assert(sizeof(input) == 16 + 4 * BLOCK_TOKENS, "padding would be hashed");
    input.before = before;
    memcpy(input.tokens, tokens, sizeof(input.tokens));
    return from_xxh(XXH3_128bits(&input, sizeof(input)));
}

void prefix_hash_bytes(struct prefix_hash hash, uint8_t bytes[PREFIX_HASH_BYTES])
{
    XXH128_canonical_t canonical;

    _Static_assert(sizeof(canonical) == PREFIX_HASH_BYTES, "128 bits");
    XXH128_canonicalFromHash(&canonical, (XXH128_hash_t){.low64 = hash.lo, .high64 = hash.hi});
    memcpy(bytes, &canonical, sizeof(canonical));
}

static bool is_same(struct prefix_hash a, struct prefix_hash b)
{
    return a.lo == b.lo && a.hi == b.hi;
}

/* ---- creation ---- */

static int take_arrays(struct prefix_index *x)
{
    const size_t n_ids = (size_t)x->n_blocks + 1, n_buckets = (size_t)x->mask + 1;

    x->buckets = mem_calloc(n_buckets, sizeof(*x->buckets));
    x->roots = mem_calloc(n_buckets, sizeof(*x->roots));
    x->entries = mem_calloc(n_ids, sizeof(*x->entries));
    if (x->buckets == NULL || x->roots == NULL || x->entries == NULL)
        return ERR_NOMEM;
    if (x->n_group_blocks == 0)
        return 0;
    x->group_blocks = mem_calloc(n_ids, x->n_group_blocks * sizeof(*x->group_blocks));
    x->owners = mem_calloc(n_ids, sizeof(*x->owners));
    return x->group_blocks != NULL && x->owners != NULL ? 0 : ERR_NOMEM;
}

int prefix_index_create(struct prefix_index **out, uint32_t n_blocks, uint32_t n_groups)
{
    struct prefix_index *x;
    size_t n_buckets = 1;

    *out = NULL;
    if (n_blocks == 0 || n_blocks > UINT32_MAX / 2 || n_groups == 0)
        return ERR_INVAL;
    while (n_buckets < n_blocks)
        n_buckets *= 2;
    x = mem_calloc(1, sizeof(*x));
    if (x == NULL)
        return ERR_NOMEM;
    x->n_blocks = n_blocks;
    x->n_group_blocks = n_groups - 1;
    x->mask = (uint32_t)(n_buckets - 1);
    if (take_arrays(x) < 0) {
        prefix_index_destroy(&x);
        return ERR_NOMEM;
    }
    *out = x;
    return 0;
}

void prefix_index_destroy(struct prefix_index **index)
{
    struct prefix_index *x = index != NULL ? *index : NULL;

    if (x == NULL)
        return;
    mem_free(x->buckets);
    mem_free(x->roots);
    mem_free(x->entries);
    mem_free(x->group_blocks);
    mem_free(x->owners);
    mem_free(x);
    *index = NULL;
}

void prefix_index_watch(struct prefix_index *x,
                        void (*changed)(void *ud, struct prefix_hash hash, bool is_in), void *ud)
{
    x->changed = changed;
    x->changed_ud = ud;
}

/* ---- looking up ---- */

static bool is_entry(const struct prefix_index *x, block_id block)
{
    return block <= x->n_blocks && x->entries[block].is_in;
}

block_id prefix_index_entry_of(const struct prefix_index *x, block_id block, uint32_t *group)
{
    *group = 0;
    if (is_entry(x, block))
        return block;
    if (x->n_group_blocks == 0 || block > x->n_blocks)
        return BLOCK_NONE;
    *group = x->owners[block].group;
    return x->owners[block].entry;
}

bool prefix_index_has(const struct prefix_index *x, block_id block)
{
    uint32_t group;

    return prefix_index_entry_of(x, block, &group) != BLOCK_NONE;
}

block_id prefix_index_child(const struct prefix_index *x, block_id block)
{
    return is_entry(x, block) ? x->entries[block].child : BLOCK_NONE;
}

block_id prefix_index_before(const struct prefix_index *x, block_id entry)
{
    assert(is_entry(x, entry));
    return x->entries[entry].before;
}

static block_id *group_block_of(const struct prefix_index *x, block_id entry, uint32_t group)
{
    assert(is_entry(x, entry) && group >= 1 && group <= x->n_group_blocks);
    return &x->group_blocks[(size_t)entry * x->n_group_blocks + group - 1];
}

block_id prefix_index_at(const struct prefix_index *x, block_id entry, uint32_t group)
{
    return group == 0 ? entry : *group_block_of(x, entry, group);
}

bool prefix_index_is_whole(const struct prefix_index *x, block_id entry)
{
    return x->entries[entry].n_group_blocks == x->n_group_blocks;
}

block_id prefix_index_find(const struct prefix_index *x, struct prefix_hash hash, block_id before,
                           const int32_t *tokens)
{
    block_id id = x->buckets[hash.lo & x->mask];

    for (; id != BLOCK_NONE; id = x->entries[id].in_bucket) {
        const struct entry *e = &x->entries[id];

        if (is_same(e->hash, hash) && e->before == before &&
            memcmp(e->tokens, tokens, sizeof(e->tokens)) == 0)
            break;
    }
    return id;
}

/* Where the chain of what follows `before` begins. */
static block_id *chain_of(const struct prefix_index *x, struct prefix_hash before_hash,
                          block_id before)
{
    return before != BLOCK_NONE ? &x->entries[before].child : &x->roots[before_hash.lo & x->mask];
}

static uint32_t common(const int32_t *a, const int32_t *b, uint32_t n)
{
    uint32_t i = 0;

    while (i < n && a[i] == b[i])
        i++;
    return i;
}

block_id prefix_index_find_partial(const struct prefix_index *x, struct prefix_hash before_hash,
                                   block_id before, const int32_t *tokens, uint32_t n,
                                   uint32_t *n_common)
{
    block_id best = BLOCK_NONE, id = BLOCK_NONE;

    *n_common = 0;
    n = n < BLOCK_TOKENS ? n : BLOCK_TOKENS;
    if (before == BLOCK_NONE || is_entry(x, before))
        id = *chain_of(x, before_hash, before);
    for (uint32_t i = 0; i < PREFIX_MAX_SIBLINGS && id != BLOCK_NONE; i++) {
        const struct entry *e = &x->entries[id];
        uint32_t have = 0;

        if (is_same(e->before_hash, before_hash))
            have = common(e->tokens, tokens, n);
        if (have > *n_common) {
            *n_common = have;
            best = id;
        }
        id = e->older;
    }
    return best;
}

/* ---- changing ---- */

int prefix_index_insert(struct prefix_index *x, block_id block, struct prefix_hash before_hash,
                        struct prefix_hash hash, block_id before, const int32_t *tokens)
{
    block_id *const bucket = &x->buckets[hash.lo & x->mask], *chain;
    struct entry *e = &x->entries[block];

    assert(block != BLOCK_NONE && block <= x->n_blocks);
    if (prefix_index_has(x, block) || (before != BLOCK_NONE && !is_entry(x, before)))
        return ERR_INVAL;
    if (prefix_index_find(x, hash, before, tokens) != BLOCK_NONE)
        return ERR_AGAIN;
    chain = chain_of(x, before_hash, before);
    *e = (struct entry){.before_hash = before_hash, .hash = hash, .before = before, .is_in = true,
                        .in_bucket = *bucket, .older = *chain};
    memcpy(e->tokens, tokens, sizeof(e->tokens));
    if (e->older != BLOCK_NONE)
        x->entries[e->older].newer = block;
    *bucket = *chain = block;
    x->n++;
    if (x->changed != NULL)
        x->changed(x->changed_ud, hash, true);
    return 0;
}

void prefix_index_put(struct prefix_index *x, block_id entry, uint32_t group, block_id block)
{
    block_id *group_block = group_block_of(x, entry, group);

    assert(block == BLOCK_NONE || !prefix_index_has(x, block));
    if (*group_block != BLOCK_NONE)
        x->owners[*group_block] = (struct block_owner){0};
    if (block != BLOCK_NONE)
        x->owners[block] = (struct block_owner){entry, group};
    x->entries[entry].n_group_blocks +=
        (uint32_t)(block != BLOCK_NONE) - (*group_block != BLOCK_NONE);
    *group_block = block;
}

void prefix_index_remove(struct prefix_index *x, block_id block)
{
    struct entry *e = &x->entries[block];
    block_id *link;

    if (!is_entry(x, block))
        return;
    assert(e->child == BLOCK_NONE);
    for (uint32_t group = 1; group <= x->n_group_blocks; group++)
        prefix_index_put(x, block, group, BLOCK_NONE);
    link = &x->buckets[e->hash.lo & x->mask];
    while (*link != block)
        link = &x->entries[*link].in_bucket;
    *link = e->in_bucket;
    link = e->newer != BLOCK_NONE ? &x->entries[e->newer].older
                                  : chain_of(x, e->before_hash, e->before);
    *link = e->older;
    if (e->older != BLOCK_NONE)
        x->entries[e->older].newer = e->newer;
    e->is_in = false;
    x->n--;
    if (x->changed != NULL)
        x->changed(x->changed_ud, e->hash, false);
}

/* ---- inspection ---- */

uint32_t prefix_index_n(const struct prefix_index *x)
{
    return x->n;
}

bool prefix_index_get(const struct prefix_index *x, block_id entry, struct prefix_entry *out)
{
    const struct entry *e = &x->entries[entry];

    if (!is_entry(x, entry))
        return false;
    *out = (struct prefix_entry){.hash = e->hash, .before = e->before_hash,
                                 .is_first = e->before == BLOCK_NONE, .tokens = e->tokens};
    return true;
}

/* The chain that begins at *head: links agree both ways. Returns its length, or UINT32_MAX. */
static uint32_t check_chain(const struct prefix_index *x, const block_id *head, block_id before)
{
    block_id newer = BLOCK_NONE;
    uint32_t n = 0;

    for (block_id id = *head; id != BLOCK_NONE; id = x->entries[id].older) {
        const struct entry *e = &x->entries[id];

        if (!e->is_in || e->before != before || e->newer != newer || n++ == x->n ||
            chain_of(x, e->before_hash, before) != head)
            return UINT32_MAX;
        newer = id;
    }
    return n;
}

static bool check_entry(const struct prefix_index *x, block_id id)
{
    const struct entry *e = &x->entries[id];

    if (e->before != BLOCK_NONE && (!is_entry(x, e->before) ||
                                    !is_same(x->entries[e->before].hash, e->before_hash)))
        return false;
    return is_same(prefix_hash_next(e->before_hash, e->tokens), e->hash) &&
           prefix_index_find(x, e->hash, e->before, e->tokens) == id;
}

/* Blocks of other groups know where they are, and are counted. */
static bool check_group_blocks(const struct prefix_index *x, block_id id)
{
    uint32_t n = 0;

    if (x->n_group_blocks == 0)
        return x->entries[id].n_group_blocks == 0;
    if (x->owners[id].entry != BLOCK_NONE &&
        (x->entries[id].is_in || !is_entry(x, x->owners[id].entry) ||
         prefix_index_at(x, x->owners[id].entry, x->owners[id].group) != id))
        return false;
    for (uint32_t i = 0; i < x->n_group_blocks; i++) {
        const block_id group_block = x->group_blocks[(size_t)id * x->n_group_blocks + i];

        n += group_block != BLOCK_NONE && x->owners[group_block].entry == id &&
             x->owners[group_block].group == i + 1;
    }
    return n == (x->entries[id].is_in ? x->entries[id].n_group_blocks : 0);
}

bool prefix_index_check(const struct prefix_index *x)
{
    uint64_t n_chained = 0;
    uint32_t n = 0;

    for (block_id id = 1; id <= x->n_blocks; id++) {
        if (!check_group_blocks(x, id))
            return false;
        if (!x->entries[id].is_in)
            continue;
        n++;
        if (!check_entry(x, id))
            return false;
        n_chained += check_chain(x, &x->entries[id].child, id);
    }
    for (size_t i = 0; i <= x->mask; i++)
        n_chained += check_chain(x, &x->roots[i], BLOCK_NONE);
    return n == x->n && n_chained == n;
}
