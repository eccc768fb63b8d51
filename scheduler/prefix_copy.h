/* scheduler/prefix_copy.h - copies blocks of a cached prefix out of the cache as bytes, and back
 * in.
 *
 * A request with a copy (request.copy) computes nothing. Between two steps the engine copies the
 * blocks, and the request's only event is an EVENT_END with FINISH_DRY_RUN. Blocks copied in are
 * cached as if a sequence had computed them, under the request's salt: other requests find them,
 * and they are evicted when blocks are short. The bytes are not checked: they must be what the same
 * model with the same settings computed for the same tokens.
 *
 * Only for models without sliding-window layers (kv_groups.n_window 0): with a window, blocks that
 * left it are not kept.
 *
 * Thread: the server's until the post, the engine's from there to the EVENT_END.
 * Memory: all of it the server's, until the EVENT_END.
 */
#ifndef SCHEDULER_PREFIX_COPY_H
#define SCHEDULER_PREFIX_COPY_H

#include <stdbool.h>
#include <stdint.h>

#include "kvcache/kv_manager.h"

struct kv_store;

struct prefix_copy {
    bool is_in;      /* copy from `bytes` into the cache */
    uint32_t first;  /* blocks first .. first + n - 1 of the request's ids, all of them full; */
    uint32_t n;      /* 0: only count the blocks that are cached */
    uint8_t *bytes;  /* [n][kv_store_block_bytes()] */
    block_id *table; /* [first + n] scratch */
    uint32_t n_there; /* result: leading blocks of the prefix that are in the cache */
};

/* Run the copy. Out of the cache: all n blocks, or none if one is not cached. Into the cache: the
 * missing ones of the first first + n blocks, or none if a block before `first` is missing or too
 * few blocks are available. */
void prefix_copy_run(struct prefix_copy *c, struct kv_manager *kv, struct kv_store *store,
                     struct kv_key *key);

#endif
