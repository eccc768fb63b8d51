/* kvcache/block_pool.c - counters per block and a first-in-first-out ring of free ids. */
#include "kvcache/block_pool.h"

#include "core/base/err.h"
#include "core/base/mem.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

struct block_pool {
    uint32_t n_blocks;
    uint32_t n_free;
    uint32_t head;      /* ring position of the next id to hand out */
    uint32_t peak_held;
    uint64_t n_taken, n_given;
    uint32_t *ring;     /* [n_blocks] free ids, from head on */
    uint32_t *holders;  /* [n_blocks + 1] by id; [0] unused */
    uint32_t *mark;     /* [n_blocks + 1] scratch of give and check, all zero between calls */
};

int block_pool_create(struct block_pool **out, uint32_t n_blocks)
{
    struct block_pool *p;

    *out = NULL;
    if (n_blocks == 0 || n_blocks > UINT32_MAX / 2)
        return ERR_INVAL;
    p = mem_calloc(1, sizeof(*p));
    if (p == NULL)
        return ERR_NOMEM;
    p->n_blocks = p->n_free = n_blocks;
    p->ring = mem_calloc(n_blocks, sizeof(*p->ring));
    p->holders = mem_calloc((size_t)n_blocks + 1, sizeof(*p->holders));
    p->mark = mem_calloc((size_t)n_blocks + 1, sizeof(*p->mark));
    if (p->ring == NULL || p->holders == NULL || p->mark == NULL) {
        block_pool_destroy(&p);
        return ERR_NOMEM;
    }
    for (uint32_t i = 0; i < n_blocks; i++)
        p->ring[i] = i + 1;
    *out = p;
    return 0;
}

void block_pool_destroy(struct block_pool **pool)
{
    struct block_pool *p = pool != NULL ? *pool : NULL;

    if (p == NULL)
        return;
    assert(p->n_free == p->n_blocks);
    mem_free(p->ring);
    mem_free(p->holders);
    mem_free(p->mark);
    mem_free(p);
    *pool = NULL;
}

int block_pool_take(struct block_pool *p, uint32_t n, block_id *ids)
{
    if (n > p->n_free)
        return ERR_AGAIN;
    for (uint32_t i = 0; i < n; i++) {
        ids[i] = p->ring[p->head];
        p->head = p->head + 1 == p->n_blocks ? 0 : p->head + 1;
        p->holders[ids[i]] = 1;
    }
    p->n_free -= n;
    p->n_taken += n;
    if (p->n_blocks - p->n_free > p->peak_held)
        p->peak_held = p->n_blocks - p->n_free;
    return 0;
}

static bool is_held(const struct block_pool *p, block_id id)
{
    return id != BLOCK_NONE && id <= p->n_blocks && p->holders[id] > 0;
}

int block_pool_ref(struct block_pool *p, const block_id *ids, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (!is_held(p, ids[i]))
            return ERR_INVAL;
    for (uint32_t i = 0; i < n; i++)
        p->holders[ids[i]]++;
    return 0;
}

static void free_block(struct block_pool *p, block_id id)
{
    const uint64_t tail = (uint64_t)p->head + p->n_free;

    p->ring[tail >= p->n_blocks ? tail - p->n_blocks : tail] = id;
    p->n_free++;
    p->n_given++;
}

/* All ids held and none twice? Leaves mark[] zeroed. */
static bool is_distinct_held(struct block_pool *p, const block_id *ids, uint32_t n)
{
    uint32_t seen = 0;

    while (seen < n && is_held(p, ids[seen]) && p->mark[ids[seen]] == 0)
        p->mark[ids[seen++]] = 1;
    for (uint32_t i = 0; i < seen; i++)
        p->mark[ids[i]] = 0;
    return seen == n;
}

int block_pool_give(struct block_pool *p, const block_id *ids, uint32_t n)
{
    if (!is_distinct_held(p, ids, n))
        return ERR_INVAL;
    for (uint32_t i = 0; i < n; i++)
        if (--p->holders[ids[i]] == 0)
            free_block(p, ids[i]);
    return 0;
}

uint32_t block_pool_holders(const struct block_pool *p, block_id id)
{
    return id <= p->n_blocks ? p->holders[id] : 0;
}

uint32_t block_pool_n_free(const struct block_pool *p)
{
    return p->n_free;
}

struct block_pool_stats block_pool_stats(const struct block_pool *p)
{
    return (struct block_pool_stats){
        .n_blocks = p->n_blocks,
        .n_free = p->n_free,
        .n_held = p->n_blocks - p->n_free,
        .peak_held = p->peak_held,
        .n_taken = p->n_taken,
        .n_given = p->n_given,
    };
}

bool block_pool_check(const struct block_pool *p)
{
    uint32_t n_held = 0, n_listed = 0;
    bool ok = p->holders[0] == 0 && p->n_free <= p->n_blocks;

    for (uint32_t id = 1; id <= p->n_blocks; id++)
        n_held += p->holders[id] > 0;
    for (uint32_t i = 0; i < p->n_free && ok; i++) {
        const uint32_t id = p->ring[(p->head + (uint64_t)i) % p->n_blocks];

        ok = id != BLOCK_NONE && id <= p->n_blocks && p->holders[id] == 0 && p->mark[id] == 0;
        if (ok) {
            p->mark[id] = 1;
            n_listed++;
        }
    }
    memset(p->mark, 0, ((size_t)p->n_blocks + 1) * sizeof(*p->mark));
    return ok && n_listed == p->n_free && n_held + p->n_free == p->n_blocks;
}
