/* kvcache/kv_store.h - the bytes of the KV cache: one arena, sized once.
 *
 * Layout: [block][layer][ keys of each KV head | values of each KV head ]. A block has the layers
 * of one group (kv_groups.h). The layout of the bytes of a head is that of the kernels (kern_kv in
 * kernels.h). A block's bytes for all its layers are contiguous: a copy or a swap is one memcpy.
 * Block 0 exists in the address space and is never touched.
 *
 * Thread: the runner's threads write disjoint slots; everything else is the engine thread's.
 * Memory: one huge-page advised mapping, taken at creation; pages cost RAM when first written.
 */
#ifndef KVCACHE_KV_STORE_H
#define KVCACHE_KV_STORE_H

#include <stddef.h>
#include <stdint.h>

#include "kvcache/block_pool.h"

struct numa;

struct kv_shape {
    uint32_t n_layer, n_kv_head;   /* n_layer: layers in a block */
    size_t key_bytes, value_bytes; /* bytes of one KV head in one block: kern_kv_key_bytes(),
                                    * kern_kv_value_bytes() */
};

struct kv_store {              /* other files only read it */
    struct kv_shape shape;
    uint32_t n_blocks;         /* usable blocks, ids 1..n_blocks */
    uint32_t n_private;        /* further blocks, ids n_blocks + 1 on, which only the runner uses */
    uint8_t *data;
    size_t layer_stride;       /* bytes from a block's layer to the next */
    size_t block_stride;       /* bytes from a block to the next: the block's, and padding */
    size_t bytes;              /* bytes of the mapping */
};

/* Bytes of one block over all its layers. */
size_t kv_store_block_bytes(const struct kv_shape *shape);

/* Whole blocks that fit into a budget (0 when not even one does), at most UINT32_MAX / 2. */
uint32_t kv_store_blocks_for(const struct kv_shape *shape, size_t budget_bytes);

/* Create the arena. Without layers blocks have no bytes, and there is no mapping. ERR_INVAL: no
 * blocks, or no bytes in a layer; ERR_NOMEM. */
int kv_store_create(struct kv_store **out, const struct kv_shape *shape, uint32_t n_blocks);
/* Create a store with n_private more blocks, ids n_blocks + 1 and on, which no block pool has: the
 * runner writes the rows of guesses there. They have small pages, so that using one layer of them
 * takes no memory for the others. */
int kv_store_create_private(struct kv_store **out, const struct kv_shape *shape, uint32_t n_blocks,
                            uint32_t n_private);
/* Lay the blocks out over memory nodes (core/base/numa.h). Called before a block is written. */
void kv_store_spread(struct kv_store *s, const struct numa *numa);
void kv_store_destroy(struct kv_store **s);

/* Return the keys, or the values, of one layer of a block (all KV heads); layer: index in the
 * block's group. */
uint8_t *kv_store_keys(const struct kv_store *s, block_id block, uint32_t layer);
uint8_t *kv_store_values(const struct kv_store *s, block_id block, uint32_t layer);

/* Return the bytes of a block with all its layers: kv_store_block_bytes() of them. */
void *kv_store_block(const struct kv_store *s, block_id block);

/* Copy one layer of a block. */
void kv_store_copy_layer(struct kv_store *s, block_id from, block_id to, uint32_t layer);

/* Copy a whole block, every layer: the data half of copy-on-write. */
void kv_store_copy_block(struct kv_store *s, block_id from, block_id to);

#endif
