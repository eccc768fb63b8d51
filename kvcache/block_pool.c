/* kvcache/block_pool.c - a set of free ids, a list of cached ones, reference counts of the held
 * ones.
 *
 * All blocks are entries of one array; a block's state follows from where it is: in the id set
 * (free), in the ring of cached blocks, or neither (held or pinned). The ring is in LRU order
 * because a block enters it at the newer end when its last holder gives it back, and
 * block_pool_oldest() reads the other end. kv_manager is the only caller for blocks; kv_states uses
 * a second pool for the slots of recurrent states.
 */
#include "kvcache/block_pool.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "kvcache/id_set.h"

#include <assert.h>
#include <stddef.h>

struct block {
    uint32_t holders;
    uint32_t pins;
    block_id older, newer; /* neighbours in the ring of cached blocks; BLOCK_NONE closes it */
    bool is_kept;
    bool is_marked; /* scratch of block_pool_give(), false between calls */
};

struct block_pool {
    enum block_placement placement;
    uint32_t n_blocks, n_held, n_cached, n_pinned, peak_held;
    block_id last; /* block handed out last; round robin continues after it */
    uint64_t n_taken, n_given, n_evicted;
    struct id_set free;
    struct block *blocks; /* [n_blocks + 1] by id; [0] heads the ring: newer = the oldest */
};

int block_pool_create(struct block_pool **out, uint32_t n_blocks, enum block_placement placement)
{
    struct block_pool *p;

    *out = NULL;
    if (n_blocks == 0 || n_blocks > UINT32_MAX / 2 || placement > BLOCK_ROUND_ROBIN)
        return ERR_INVAL;
    p = mem_calloc(1, sizeof(*p));
    if (p == NULL)
        return ERR_NOMEM;
    p->n_blocks = n_blocks;
    p->placement = placement;
    p->blocks = mem_calloc((size_t)n_blocks + 1, sizeof(*p->blocks));
    if (p->blocks == NULL || id_set_init(&p->free, n_blocks + 1) < 0) {
        block_pool_destroy(&p);
        return ERR_NOMEM;
    }
    for (block_id id = 1; id <= n_blocks; id++)
        id_set_add(&p->free, id);
    *out = p;
    return 0;
}

void block_pool_destroy(struct block_pool **pool)
{
    struct block_pool *p = pool != NULL ? *pool : NULL;

    if (p == NULL)
        return;
    assert(p->n_held == 0);
    id_set_release(&p->free);
    mem_free(p->blocks);
    mem_free(p);
    *pool = NULL;
}

/* ---- states ---- */

enum block_state block_pool_state(const struct block_pool *p, block_id id)
{
    if (id == BLOCK_NONE || id > p->n_blocks || id_set_has(&p->free, id))
        return BLOCK_FREE;
    if (p->blocks[id].holders > 0)
        return BLOCK_HELD;
    return p->blocks[id].pins > 0 ? BLOCK_PINNED : BLOCK_CACHED;
}

static void count_held(struct block_pool *p)
{
    p->n_held++;
    if (p->n_held > p->peak_held)
        p->peak_held = p->n_held;
}

static void enter_cached(struct block_pool *p, block_id id)
{
    struct block *b = p->blocks;

    b[id].newer = BLOCK_NONE;
    b[id].older = b[BLOCK_NONE].older;
    b[b[id].older].newer = id;
    b[BLOCK_NONE].older = id;
    p->n_cached++;
}

static void leave_cached(struct block_pool *p, block_id id)
{
    struct block *b = p->blocks;

    b[b[id].older].newer = b[id].newer;
    b[b[id].newer].older = b[id].older;
    p->n_cached--;
}

/* ---- placement ---- */

static void take_one(struct block_pool *p, block_id id)
{
    id_set_remove(&p->free, id);
    p->blocks[id].holders = 1; /* is_kept is false already: no free block is kept */
    p->last = id;
    count_held(p);
}

static void take_run(struct block_pool *p, block_id first, uint32_t n, block_id *ids)
{
    for (uint32_t i = 0; i < n; i++) {
        ids[i] = first + i;
        take_one(p, ids[i]);
    }
}

/* Take the next n free blocks from id `from` on, wrapping at the end. For first fit and round
 * robin. */
static void take_next(struct block_pool *p, uint32_t n, block_id from, block_id *ids)
{
    for (uint32_t i = 0; i < n; i++) {
        ids[i] = id_set_next(&p->free, from);
        if (ids[i] == ID_SET_NONE)
            ids[i] = id_set_next(&p->free, 1);
        take_one(p, ids[i]);
        from = ids[i] + 1;
    }
}

/* Return the first block of the smallest run of free blocks that has n, or else of the largest run;
 * the lowest among equals. *len: the run's length. */
static block_id best_run(const struct block_pool *p, uint32_t n, uint32_t *len)
{
    block_id best = BLOCK_NONE;
    uint32_t next = id_set_next(&p->free, 1);

    *len = 0;
    while (next != ID_SET_NONE) {
        const uint32_t run = id_set_run(&p->free, next, p->n_blocks);

        if (run != *len && (run < *len ? run >= n : *len < n)) {
            best = next;
            *len = run;
        }
        next = id_set_next(&p->free, next + run);
    }
    return best;
}

static void take_best(struct block_pool *p, uint32_t n, block_id after, block_id *ids)
{
    uint32_t done = 0;

    if (after != BLOCK_NONE && after < p->n_blocks) {
        done = id_set_run(&p->free, after + 1, n);
        take_run(p, after + 1, done, ids);
    }
    while (done < n) {
        uint32_t run;
        const block_id first = best_run(p, n - done, &run);

        run = run < n - done ? run : n - done;
        take_run(p, first, run, ids + done);
        done += run;
    }
}

int block_pool_take(struct block_pool *p, uint32_t n, block_id after, block_id *ids)
{
    if (n > p->free.count)
        return ERR_AGAIN;
    switch (p->placement) {
    case BLOCK_FIRST_FIT:
        take_next(p, n, 1, ids);
        break;
    case BLOCK_ROUND_ROBIN:
        take_next(p, n, p->last + 1, ids);
        break;
    case BLOCK_BEST_FIT:
        take_best(p, n, after, ids);
        break;
    }
    p->n_taken += n;
    return 0;
}

/* ---- holders ---- */

int block_pool_ref(struct block_pool *p, const block_id *ids, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (block_pool_state(p, ids[i]) == BLOCK_FREE)
            return ERR_INVAL;
    for (uint32_t i = 0; i < n; i++)
        if (p->blocks[ids[i]].holders++ == 0) {
            if (p->blocks[ids[i]].pins > 0)
                p->n_pinned--;
            else
                leave_cached(p, ids[i]);
            count_held(p);
        }
    return 0;
}

static bool can_give(const struct block_pool *p, block_id id)
{
    return block_pool_state(p, id) == BLOCK_HELD && !p->blocks[id].is_marked;
}

/* True: all n blocks can be given back, and none is listed twice. Its marks are cleared at the
 * end. */
static bool can_give_all(struct block_pool *p, const block_id *ids, uint32_t n)
{
    uint32_t seen = 0;

    while (seen < n && ids[seen] <= p->n_blocks && can_give(p, ids[seen]))
        p->blocks[ids[seen++]].is_marked = true;
    for (uint32_t i = 0; i < seen; i++)
        p->blocks[ids[i]].is_marked = false;
    return seen == n;
}

/* Put a block that has neither holders nor pins where it belongs. */
static void settle_block(struct block_pool *p, block_id id)
{
    if (p->blocks[id].is_kept)
        enter_cached(p, id);
    else
        id_set_add(&p->free, id);
}

static void give_last(struct block_pool *p, block_id id)
{
    p->n_held--;
    p->n_given++;
    if (p->blocks[id].pins > 0)
        p->n_pinned++;
    else
        settle_block(p, id);
}

int block_pool_give(struct block_pool *p, const block_id *ids, uint32_t n)
{
    if (!can_give_all(p, ids, n))
        return ERR_INVAL;
    /* From last to first: children follow their parents in the list, and the block that is cached
     * first is evicted first. */
    for (uint32_t i = n; i-- > 0;)
        if (--p->blocks[ids[i]].holders == 0)
            give_last(p, ids[i]);
    return 0;
}

int block_pool_keep(struct block_pool *p, block_id id, bool keep)
{
    const enum block_state state = block_pool_state(p, id);

    if (state == BLOCK_FREE || (state == BLOCK_PINNED && !keep))
        return ERR_INVAL;
    p->blocks[id].is_kept = keep;
    if (state == BLOCK_CACHED && !keep) {
        leave_cached(p, id);
        id_set_add(&p->free, id);
        p->n_evicted++;
    }
    return 0;
}

block_id block_pool_oldest(const struct block_pool *p)
{
    return p->blocks[BLOCK_NONE].newer;
}

int block_pool_pin(struct block_pool *p, block_id id)
{
    const enum block_state state = block_pool_state(p, id);

    if (state == BLOCK_FREE)
        return ERR_INVAL;
    if (state == BLOCK_CACHED) {
        leave_cached(p, id);
        p->n_pinned++;
    }
    p->blocks[id].pins++;
    return 0;
}

int block_pool_unpin(struct block_pool *p, block_id id)
{
    if (!block_pool_is_pinned(p, id))
        return ERR_INVAL;
    if (--p->blocks[id].pins > 0 || p->blocks[id].holders > 0)
        return 0;
    p->n_pinned--;
    settle_block(p, id);
    return 0;
}

/* ---- inspection ---- */

bool block_pool_is_pinned(const struct block_pool *p, block_id id)
{
    return id <= p->n_blocks && p->blocks[id].pins > 0;
}

uint32_t block_pool_holders(const struct block_pool *p, block_id id)
{
    return id <= p->n_blocks ? p->blocks[id].holders : 0;
}

uint32_t block_pool_n_free(const struct block_pool *p)
{
    return p->free.count;
}

struct block_pool_stats block_pool_stats(const struct block_pool *p)
{
    return (struct block_pool_stats){
        .n_blocks = p->n_blocks,
        .n_free = p->free.count,
        .n_held = p->n_held,
        .n_cached = p->n_cached,
        .n_pinned = p->n_pinned,
        .peak_held = p->peak_held,
        .n_taken = p->n_taken,
        .n_given = p->n_given,
        .n_evicted = p->n_evicted,
    };
}

/* Check that the ring visits n_cached blocks, each of them cached, and closes. */
static bool check_cached(const struct block_pool *p)
{
    block_id at = BLOCK_NONE;

    for (uint32_t i = 0; i < p->n_cached; i++) {
        const block_id next = p->blocks[at].newer;

        if (p->blocks[next].older != at || block_pool_state(p, next) != BLOCK_CACHED ||
            !p->blocks[next].is_kept)
            return false;
        at = next;
    }
    return p->blocks[at].newer == BLOCK_NONE && p->blocks[BLOCK_NONE].older == at;
}

bool block_pool_check(const struct block_pool *p)
{
    const struct block *zero = &p->blocks[BLOCK_NONE];
    uint32_t n_held = 0, n_pinned = 0;

    for (block_id id = 1; id <= p->n_blocks; id++) {
        const struct block *b = &p->blocks[id];

        if (b->is_marked ||
            (id_set_has(&p->free, id) && (b->holders > 0 || b->pins > 0 || b->is_kept)))
            return false;
        n_held += b->holders > 0;
        n_pinned += b->pins > 0 && b->holders == 0;
    }
    return zero->holders == 0 && zero->pins == 0 && !id_set_has(&p->free, BLOCK_NONE) &&
           n_held == p->n_held && n_pinned == p->n_pinned && id_set_check(&p->free) &&
           p->free.count + p->n_held + p->n_cached + p->n_pinned == p->n_blocks && check_cached(p);
}
