/* kvcache/prefix_pins.h - prefixes that stay in the cache for a time: whose, until when, how many
 * blocks.
 *
 * A pin keeps the blocks of a chain of index entries, from the first to the pin's last entry, from
 * being evicted (block_pool_pin). Pins overlap: a block has as many pins in the pool as there are
 * pins that contain it. In groups with a window a pin has only the blocks that continue the prefix,
 * from block number `first` on; where all layers have the window, all blocks, because eviction of
 * any of them would remove the last entry from the index.
 *
 * In a recurrent model a pin also keeps the snapshot of its last entry, which is charged as so many
 * blocks; the number of these snapshots has a bound of its own.
 *
 * A block is charged to the tenant that pinned it first, until its last pin ends: a tenant's
 * requests share blocks only with each other. Each tenant has at most tenant_blocks, all of them
 * together at most most_blocks. No pin is given up for another one: who comes too late waits until
 * earlier pins end.
 *
 * A last entry has one pin: pinning it again only moves the end of that pin, never to an earlier
 * time. So there are at most as many pins as pinned blocks.
 *
 * Time is an argument, in microseconds of any clock that does not go back.
 *
 * Thread: engine thread only.
 * Memory: taken in prefix_pins_create(): 8 bytes for each block of the cache, 32 for each that may
 *         be pinned, 24 for each tenant.
 */
#ifndef KVCACHE_PREFIX_PINS_H
#define KVCACHE_PREFIX_PINS_H

#include <stdbool.h>
#include <stdint.h>

#include "kvcache/block_pool.h"
#include "kvcache/prefix_index.h"

struct kv_states;

struct prefix_pins_options {
    struct block_pool *pool; /* borrowed, as the index */
    struct prefix_index *index;
    uint32_t n_blocks;         /* blocks of the pool */
    uint32_t n_groups, n_full; /* KV groups; the first n_full are without the window */
    uint32_t n_tenants;
    uint32_t tenant_blocks; /* most blocks of a tenant, 1 .. most_blocks */
    uint32_t most_blocks;   /* most blocks of all tenants, <= n_blocks */
    struct kv_states *states;  /* recurrent models: snapshots, of which that of the last entry is
                                * pinned; borrowed; or NULL */
    uint32_t state_blocks;     /* blocks that a snapshot is charged as */
    uint32_t most_states;      /* most snapshots of all tenants */
};

struct prefix_pin {       /* a prefix to be pinned */
    struct prefix_id end; /* its last entry */
    uint32_t n;           /* entries of the chain that ends there, >= 1 */
    uint32_t first;       /* groups with the window: the first block that is needed, <= n */
    uint32_t tenant;
    uint64_t until_us;
};

struct prefix_pins_tenant { /* what a tenant has */
    uint32_t n_pins, n_blocks; /* n_blocks: with those that its snapshots count as */
    uint64_t until_us; /* the end of the latest of its pins since it last had none */
};

struct prefix_pins;

/* ERR_INVAL: the options contradict each other; ERR_NOMEM. */
int prefix_pins_create(struct prefix_pins **out, const struct prefix_pins_options *options);
/* All pins end. *pins may be NULL. */
void prefix_pins_destroy(struct prefix_pins **pins);

/* The number of blocks that the tenant may pin beyond its present ones. */
uint32_t prefix_pins_room(const struct prefix_pins *p, uint32_t tenant);
/* The number of blocks of the pin that are not pinned yet, and those of its snapshot; UINT32_MAX:
 * too many snapshots are pinned. O(pin->n). */
uint32_t prefix_pins_cost(const struct prefix_pins *p, const struct prefix_pin *pin);
/* Pin a prefix whose entries have blocks in all groups without the window, and from `first` on in
 * all others, and whose last entry has a snapshot if there are states. Its cost is at most the
 * tenant's room (asserted). */
void prefix_pins_add(struct prefix_pins *p, const struct prefix_pin *pin);

/* End pins whose time is over, the earliest first, until at least `most` blocks were unpinned: the
 * rest waits for the next call. Blocks without a holder are then cached, as the most recently used
 * ones. */
void prefix_pins_expire(struct prefix_pins *p, uint64_t now_us, uint32_t most);

struct prefix_pins_tenant prefix_pins_of(const struct prefix_pins *p, uint32_t tenant);
uint32_t prefix_pins_n_blocks(const struct prefix_pins *p); /* of all tenants */
/* Check that pins, charges and the pool agree. O(blocks of all pins + n_blocks). */
bool prefix_pins_check(const struct prefix_pins *p);

#endif
