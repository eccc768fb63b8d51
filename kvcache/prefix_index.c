/* kvcache/prefix_index.c - a hash table of entries, with a chain of each entry's children.
 *
 * An entry's id is its block of the first group, so the entries are an array indexed by block id
 * and nothing is allocated when one is inserted. Chains run from the most recent child to the
 * oldest, because a partial match looks at the latest few only. With several groups, an entry's
 * blocks of the others are in a row of `group_blocks`, and `owners` maps each of them back to its
 * entry.
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
    struct prefix_id before;
    struct prefix_id in_bucket;    /* next entry of its bucket */
    struct prefix_id child;        /* the most recent entry that follows this one */
    struct prefix_id newer, older; /* neighbours among the entries with the same `before` */
    uint32_t n_group_blocks;
    bool is_in;
};

struct block_owner {        /* the entry that a block of another group than the first belongs to */
    struct prefix_id entry; /* PREFIX_NONE: the block is in no entry */
    uint32_t group;
};

struct prefix_index {
    uint32_t n_blocks, n;
    uint32_t n_group_blocks;   /* groups without the first */
    uint32_t mask;             /* buckets - 1 */
    struct prefix_id *buckets; /* [mask + 1] by hash: first entry of the bucket */
    struct prefix_id *roots;   /* [mask + 1] by before_hash: the most recent first entry */
    struct entry *entries;     /* [n_blocks + 1] by id */
    block_id *group_blocks; /* [n_blocks + 1][n_group_blocks] by id; NULL when there is one group */
    struct block_owner *owners; /* [n_blocks + 1] by id; NULL when there is one group */
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

static bool is_same_hash(struct prefix_hash a, struct prefix_hash b)
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

static struct entry *entry_at(const struct prefix_index *x, struct prefix_id id)
{
    return &x->entries[id.n];
}

static bool entry_is_in(const struct prefix_index *x, struct prefix_id id)
{
    return id.n <= x->n_blocks && entry_at(x, id)->is_in;
}

struct prefix_id prefix_index_entry_of(const struct prefix_index *x, block_id block,
                                       uint32_t *group)
{
    *group = 0;
    if (entry_is_in(x, prefix_id_of(block)))
        return prefix_id_of(block);
    if (x->n_group_blocks == 0 || block > x->n_blocks)
        return PREFIX_NONE;
    *group = x->owners[block].group;
    return x->owners[block].entry;
}

bool prefix_index_has(const struct prefix_index *x, block_id block)
{
    uint32_t group;

    return !prefix_id_is_none(prefix_index_entry_of(x, block, &group));
}

struct prefix_id prefix_index_child(const struct prefix_index *x, struct prefix_id entry)
{
    return entry_is_in(x, entry) ? entry_at(x, entry)->child : PREFIX_NONE;
}

struct prefix_id prefix_index_before(const struct prefix_index *x, struct prefix_id entry)
{
    assert(entry_is_in(x, entry));
    return entry_at(x, entry)->before;
}

static block_id *group_block_of(const struct prefix_index *x, struct prefix_id entry,
                                uint32_t group)
{
    assert(entry_is_in(x, entry) && group >= 1 && group <= x->n_group_blocks);
    return &x->group_blocks[(size_t)entry.n * x->n_group_blocks + group - 1];
}

block_id prefix_index_at(const struct prefix_index *x, struct prefix_id entry, uint32_t group)
{
    return group == 0 ? entry.n : *group_block_of(x, entry, group);
}

bool prefix_index_is_whole(const struct prefix_index *x, struct prefix_id entry)
{
    return entry_at(x, entry)->n_group_blocks == x->n_group_blocks;
}

struct prefix_id prefix_index_find(const struct prefix_index *x, struct prefix_hash hash,
                                   struct prefix_id before, const int32_t *tokens)
{
    struct prefix_id id = x->buckets[hash.lo & x->mask];

    for (; !prefix_id_is_none(id); id = entry_at(x, id)->in_bucket) {
        const struct entry *e = entry_at(x, id);

        if (is_same_hash(e->hash, hash) && prefix_id_is(e->before, before) &&
            memcmp(e->tokens, tokens, sizeof(e->tokens)) == 0)
            break;
    }
    return id;
}

/* Return the head of the chain of the entries whose parent is `before`. */
static struct prefix_id *chain_of(const struct prefix_index *x, struct prefix_hash before_hash,
                                  struct prefix_id before)
{
    return prefix_id_is_none(before) ? &x->roots[before_hash.lo & x->mask]
                                     : &entry_at(x, before)->child;
}

static uint32_t common(const int32_t *a, const int32_t *b, uint32_t n)
{
    uint32_t i = 0;

    while (i < n && a[i] == b[i])
        i++;
    return i;
}

struct prefix_id prefix_index_find_partial(const struct prefix_index *x,
                                           struct prefix_hash before_hash, struct prefix_id before,
                                           const int32_t *tokens, uint32_t n, uint32_t *n_common)
{
    struct prefix_id best = PREFIX_NONE, id = PREFIX_NONE;

    *n_common = 0;
    n = n < BLOCK_TOKENS ? n : BLOCK_TOKENS;
    if (prefix_id_is_none(before) || entry_is_in(x, before))
        id = *chain_of(x, before_hash, before);
    for (uint32_t i = 0; i < PREFIX_MAX_SIBLINGS && !prefix_id_is_none(id); i++) {
        const struct entry *e = entry_at(x, id);
        uint32_t have = 0;

        if (is_same_hash(e->before_hash, before_hash))
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

int prefix_index_insert(struct prefix_index *x, block_id first, struct prefix_hash before_hash,
                        struct prefix_hash hash, struct prefix_id before, const int32_t *tokens)
{
    const struct prefix_id id = prefix_id_of(first);
    struct prefix_id *const bucket = &x->buckets[hash.lo & x->mask], *chain;
    struct entry *e = entry_at(x, id);

    assert(first != BLOCK_NONE && first <= x->n_blocks);
    if (prefix_index_has(x, first) || (!prefix_id_is_none(before) && !entry_is_in(x, before)))
        return ERR_INVAL;
    if (!prefix_id_is_none(prefix_index_find(x, hash, before, tokens)))
        return ERR_AGAIN;
    chain = chain_of(x, before_hash, before);
    *e = (struct entry){.before_hash = before_hash,
                        .hash = hash,
                        .before = before,
                        .is_in = true,
                        .in_bucket = *bucket,
                        .older = *chain};
    memcpy(e->tokens, tokens, sizeof(e->tokens));
    if (!prefix_id_is_none(e->older))
        entry_at(x, e->older)->newer = id;
    *bucket = *chain = id;
    x->n++;
    if (x->changed != NULL)
        x->changed(x->changed_ud, hash, true);
    return 0;
}

void prefix_index_put(struct prefix_index *x, struct prefix_id entry, uint32_t group,
                      block_id block)
{
    block_id *group_block = group_block_of(x, entry, group);

    assert(block == BLOCK_NONE || !prefix_index_has(x, block));
    if (*group_block != BLOCK_NONE)
        x->owners[*group_block] = (struct block_owner){0};
    if (block != BLOCK_NONE)
        x->owners[block] = (struct block_owner){entry, group};
    entry_at(x, entry)->n_group_blocks +=
        (uint32_t)(block != BLOCK_NONE) - (*group_block != BLOCK_NONE);
    *group_block = block;
}

/* Take an entry out of its bucket and out of its parent's chain. */
static void unlink_entry(struct prefix_index *x, struct prefix_id id)
{
    const struct entry *e = entry_at(x, id);
    struct prefix_id *link = &x->buckets[e->hash.lo & x->mask];

    while (!prefix_id_is(*link, id))
        link = &entry_at(x, *link)->in_bucket;
    *link = e->in_bucket;
    link = prefix_id_is_none(e->newer) ? chain_of(x, e->before_hash, e->before)
                                       : &entry_at(x, e->newer)->older;
    *link = e->older;
    if (!prefix_id_is_none(e->older))
        entry_at(x, e->older)->newer = e->newer;
}

void prefix_index_remove(struct prefix_index *x, struct prefix_id id)
{
    struct entry *e = entry_at(x, id);

    if (!entry_is_in(x, id))
        return;
    assert(prefix_id_is_none(e->child));
    for (uint32_t group = 1; group <= x->n_group_blocks; group++)
        prefix_index_put(x, id, group, BLOCK_NONE);
    unlink_entry(x, id);
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

bool prefix_index_get(const struct prefix_index *x, struct prefix_id id, struct prefix_entry *out)
{
    const struct entry *e = entry_at(x, id);

    if (!entry_is_in(x, id))
        return false;
    *out = (struct prefix_entry){.hash = e->hash,
                                 .before = e->before_hash,
                                 .is_first = prefix_id_is_none(e->before),
                                 .tokens = e->tokens};
    return true;
}

/* Check a chain: its links agree both ways. Returns its length, or UINT32_MAX. */
static uint32_t check_chain(const struct prefix_index *x, const struct prefix_id *head,
                            struct prefix_id before)
{
    struct prefix_id newer = PREFIX_NONE;
    uint32_t n = 0;

    for (struct prefix_id id = *head; !prefix_id_is_none(id); id = entry_at(x, id)->older) {
        const struct entry *e = entry_at(x, id);

        if (!e->is_in || !prefix_id_is(e->before, before) || !prefix_id_is(e->newer, newer) ||
            n++ == x->n || chain_of(x, e->before_hash, before) != head)
            return UINT32_MAX;
        newer = id;
    }
    return n;
}

static bool check_entry(const struct prefix_index *x, struct prefix_id id)
{
    const struct entry *e = entry_at(x, id);

    if (!prefix_id_is_none(e->before) &&
        (!entry_is_in(x, e->before) || !is_same_hash(entry_at(x, e->before)->hash, e->before_hash)))
        return false;
    return is_same_hash(prefix_hash_next(e->before_hash, e->tokens), e->hash) &&
           prefix_id_is(prefix_index_find(x, e->hash, e->before, e->tokens), id);
}

/* Check that a block of another group than the first names its entry and its group. */
static bool check_owner(const struct prefix_index *x, block_id block)
{
    const struct block_owner *o = &x->owners[block];

    return prefix_id_is_none(o->entry) ||
           (!entry_is_in(x, prefix_id_of(block)) && entry_is_in(x, o->entry) &&
            prefix_index_at(x, o->entry, o->group) == block);
}

/* Check that an entry's blocks of the other groups name it, and are counted. */
static bool check_group_blocks(const struct prefix_index *x, struct prefix_id id)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < x->n_group_blocks; i++) {
        const block_id block = x->group_blocks[(size_t)id.n * x->n_group_blocks + i];

        n += block != BLOCK_NONE && prefix_id_is(x->owners[block].entry, id) &&
             x->owners[block].group == i + 1;
    }
    return n == (entry_is_in(x, id) ? entry_at(x, id)->n_group_blocks : 0);
}

bool prefix_index_check(const struct prefix_index *x)
{
    uint64_t n_chained = 0;
    uint32_t n = 0;

    for (block_id block = 1; block <= x->n_blocks; block++) {
        const struct prefix_id id = prefix_id_of(block);

        if ((x->n_group_blocks > 0 && !check_owner(x, block)) || !check_group_blocks(x, id))
            return false;
        if (!entry_is_in(x, id))
            continue;
        n++;
        if (!check_entry(x, id))
            return false;
        n_chained += check_chain(x, &entry_at(x, id)->child, id);
    }
    for (size_t i = 0; i <= x->mask; i++)
        n_chained += check_chain(x, &x->roots[i], PREFIX_NONE);
    return n == x->n && n_chained == n;
}
