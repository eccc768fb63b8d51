/* server/admin/debug_pages.h - renders a snapshot of the engine as JSON. Times are in milliseconds.
 *
 * Thread: any.
 * Memory: appended to `out`.
 */
#ifndef SERVER_ADMIN_DEBUG_PAGES_H
#define SERVER_ADMIN_DEBUG_PAGES_H

#include "core/base/buf.h"
#include "scheduler/snapshot.h"

struct prefix_fetch;

/* The most requests that are listed; the counts include the others. */
#define DEBUG_MAX_REQUESTS 10000

struct debug_names { /* both may return NULL */
    const char *(*tenant)(void *ud, uint32_t tenant);
    const char *(*request)(void *ud, uint64_t id); /* the X-Request-Id */
    void *ud;
};

void debug_render_requests(const struct snapshot *s, const struct debug_names *names,
                           struct buf *out);
void debug_render_iterations(const struct snapshot *s, struct buf *out);
/* The number of running sequences. */
uint32_t debug_n_running(const struct snapshot *s);
/* Render slots like llama-server: one for each sequence that can run, without the sampling
 * parameters, which a snapshot does not contain. */
void debug_render_slots(const struct snapshot *s, uint32_t n_slots, uint32_t n_ctx,
                        struct buf *out);
/* Render the blocks and their states; the groups of layers (kv_groups.h): their number, and the
 * blocks held, each shared one counted once, and left in the prefix cache, by groups that see
 * everything (full) and groups that see a number of tokens (window); the pinned prefixes of each
 * tenant that has any, and their bounds; the block store, unless fetch is NULL. With `hashes` also
 * the hashes of all entries of the prefix index. */
void debug_render_kv(const struct snapshot *s, const struct debug_names *names,
                     uint32_t block_tokens, struct prefix_fetch *fetch, bool with_hashes,
                     struct buf *out);

#endif
