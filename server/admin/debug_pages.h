/* server/admin/debug_pages.h - a snapshot of the engine as JSON. Times are in milliseconds.
 *
 * Thread: any.
 * Memory: appended to `out`.
 */
#ifndef SERVER_ADMIN_DEBUG_PAGES_H
#define SERVER_ADMIN_DEBUG_PAGES_H

#include "core/base/buf.h"
#include "scheduler/snapshot.h"

struct prefix_fetch;

/* Requests that are listed; the counts are of all. */
#define DEBUG_MAX_REQUESTS 10000

struct debug_names { /* both may answer NULL */
    const char *(*tenant)(void *ud, uint32_t tenant);
    const char *(*request)(void *ud, uint64_t id); /* X-Request-Id */
    void *ud;
};

void debug_render_requests(const struct snapshot *s, const struct debug_names *names,
                           struct buf *out);
void debug_render_iterations(const struct snapshot *s, struct buf *out);
/* Sequences that run. */
uint32_t debug_n_running(const struct snapshot *s);
/* As llama-server shows its slots: one for each sequence that may run, without the sampling
 * parameters, which the engine does not tell. */
void debug_render_slots(const struct snapshot *s, uint32_t n_slots, uint32_t n_ctx,
                        struct buf *out);
/* The blocks and their states; the groups that layers are dealt into (kv_groups.h): how many there
 * are, and how many blocks those that see everything (full) and those that see so many tokens
 * (window) hold, each shared one once, and have left in the prefix cache; the block store, unless
 * fetch is NULL. With hashes also those of all entries of the prefix index. */
void debug_render_kv(const struct snapshot *s, uint32_t block_tokens, struct prefix_fetch *fetch,
                     bool with_hashes,
                     struct buf *out);

#endif
