/* server/served_model.h - one served model on the I/O thread: its engine client, and what goes
 * with it.
 *
 * Everything here is between one queue and HTTP; what all models share (sockets, keys, tenants,
 * the loop) is the server's.
 *
 * Thread: the loop's.
 * Memory: the engine client's and the journal's, taken in served_model_open().
 */
#ifndef SERVER_SERVED_MODEL_H
#define SERVER_SERVED_MODEL_H

#include "server/admin/debug.h"
#include "server/admin/info.h"
#include "server/api/server_options.h"
#include "server/api/slot_call.h"
#include "server/engine_io/swap_transfers.h"
#include "server/metrics/metrics.h"
#include "server/model_choice.h"
#include "server/model_waits.h"

/* Where it is between its file and its answers; see model_set.h. */
struct model_life {
    enum model_state state;
    struct model_waits waits; /* calls that want it to be there */
    bool wants_load, wants_unload; /* it was asked for that */
    bool is_held;             /* new calls wait, so that it comes to an end of its requests */
    bool is_gone;             /* the settings have it no longer; its calls that run end */
    bool has_change, comes_back; /* new settings wait for its unload; then it is loaded again */
    bool is_known, is_looked_at; /* its files, as model_choice.h has it */
    uint64_t files, bytes;    /* as they were looked at */
    uint64_t looked_us, asked_us, ready_us, begin_us; /* begin: of the load under way */
    uint64_t idle_us;         /* after so much idle time it leaves; UINT64_MAX: never */
    uint64_t load_us;         /* the last load took */
    uint64_t n_loads, n_unloads, n_failures, all_load_us;
    char reason[400];
};

struct journal_file;
struct request_memory;
struct tenants;
struct usage_ledger;
struct response_keeper;
struct stream_pings;
struct stream_store;
struct worker_pool;

struct served_model_shared { /* borrowed; the server's, the same for all models */
    const struct server_options *options;
    uv_loop_t *loop;
    struct tenants *tenants;
    struct usage_ledger *usage;
    struct worker_pool *text_pool, *constraint_pool, *answer_pool;
    struct response_keeper *keeper;
    struct request_memory *memory;
    struct stream_store *streams;
    struct request_keeper *requests;
    struct stream_pings *pings;
};

struct served_model { /* zero is closed */
    struct server_model model;
    struct engine_client *engine;
    struct metrics metrics;
    struct info_watchdog watchdog;
    struct journal_file *journal;
    struct debug debug;
    struct swap_transfers transfers;
    struct slots slots;
    struct model_life life;
    char arch[64], ftype[64]; /* what model.arch and ftype point to */
};

/* `h` stays where it is until served_model_close(). On failure `err` has a sentence. */
int served_model_open(struct served_model *h, const struct served_model_shared *shared,
                      const struct server_model *model, char *err, size_t err_len);
/* The loop has run out. */
void served_model_close(struct served_model *h);

void served_model_set_model(struct served_model *h, const struct server_model *model);
void served_model_attach(struct served_model *h, struct queue *q);

/* Nothing uses what was loaded: no request, no page, no transfer. */
bool served_model_is_idle(const struct served_model *h);
/* It is idle, and gets rid of all pointers to what was loaded. */
void served_model_detach(struct served_model *h);

/* Hand on what the engine has said, and carry out what it asked for. To be called on each wake.
 * True: events wait that did not fit into this callback, and it is to be called again. */
bool served_model_pump(struct served_model *h);

/* Why it cannot be used now, or NULL. */
const char *served_model_trouble(struct served_model *h);

/* Refuse from now on; with `now` what runs is cancelled as well. */
void served_model_drain(struct served_model *h, bool now);
/* Nothing is under way any more, but for files that nobody waits for: served_model_is_reading(). */
bool served_model_is_over(const struct served_model *h);
bool served_model_is_reading(const struct served_model *h);
/* Requests that have been posted and not ended. */
uint32_t served_model_n_outstanding(const struct served_model *h);

#endif
