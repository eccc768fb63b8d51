/* server/api/served_model.h - one served model on the I/O thread: its desk, and what goes with it.
 *
 * Everything here is between one queue and HTTP; what all models share (sockets, keys, tenants,
 * the loop) is the server's.
 *
 * Thread: the loop's.
 * Memory: the desk's and the journal's, taken in hosted_open().
 */
#ifndef SERVER_API_SERVED_MODEL_H
#define SERVER_API_SERVED_MODEL_H

#include "server/admin/debug.h"
#include "server/admin/info.h"
#include "server/admin/metrics.h"
#include "server/engine_io/swap_transfers.h"
#include "server/server.h"

struct journal_file;
struct request_memory;
struct tenants;
struct worker_pool;

struct hosted_shared { /* borrowed; the server's, the same for all models */
    const struct server_options *options;
    uv_loop_t *loop;
    struct tenants *tenants;
    struct worker_pool *text_pool, *constraint_pool;
    struct request_memory *memory;
};

struct hosted { /* zero is closed */
    struct server_model model;
    struct desk *desk;
    struct metrics metrics;
    struct facts_watchdog watchdog;
    struct journal_file *journal;
    struct debug debug;
    struct swapper swapper;
};

/* `h` stays where it is until hosted_close(). On failure `err` has a sentence. */
int hosted_open(struct hosted *h, const struct hosted_shared *shared,
                const struct server_model *model, char *err, size_t err_len);
/* The loop has run out. */
void hosted_close(struct hosted *h);

void hosted_set_model(struct hosted *h, const struct server_model *model);
void hosted_attach(struct hosted *h, struct queue *q);

/* Hand on what the engine has said, and carry out what it asked for. To be called on each wake. */
void hosted_kick(struct hosted *h);

/* Why it cannot be used now, or NULL. */
const char *hosted_trouble(struct hosted *h);

/* Refuse from now on; with `now` what runs is cancelled as well. */
void hosted_drain(struct hosted *h, bool now);
/* Nothing is under way any more. */
bool hosted_is_over(const struct hosted *h);
/* Requests that have been posted and not ended. */
uint32_t hosted_n_outstanding(const struct hosted *h);

#endif
