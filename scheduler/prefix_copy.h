/* scheduler/prefix_copy.h - blocks of a cached prefix as bytes: out of the cache, and back into it.
 *
 * A request that carries one (request.copy) computes nothing. Between two steps the engine copies
 * the blocks, and its one event is an EVENT_END with FINISH_DRY_RUN. What comes back in is cached
 * as if a sequence had computed it, under the request's salt: other requests find it, and it is
 * evicted when blocks are short. The bytes are believed: they must be what the same model and the
 * same settings have computed for the same tokens.
 *
 * Only for models whose layers have no window (kv_groups.n_window 0): of others, blocks behind the
 * window are not there any more.
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
    bool is_in;      /* from `bytes` into the cache */
    uint32_t first;  /* blocks first .. first + n - 1 of the request's ids, all of them full; */
    uint32_t n;      /* 0: only how many there are is asked */
    uint8_t *bytes;  /* [n][kv_store_block_bytes()] */
    block_id *table; /* [first + n] scratch */
    uint32_t n_there; /* in the end: leading blocks of these that are in the cache */
};

/* Out: copies all n, or none when not all are there. In: enters what is missing of the first
 * first + n, unless it begins before `first`, or there are too few blocks. */
void prefix_copy_run(struct prefix_copy *c, struct kv_manager *kv, struct kv_store *store,
                     struct kv_key *key);

#endif
