/* server/models/served_model.h - one served model on the I/O thread: its engine client, journal,
 * swap transfers, slots and pages.
 *
 * It stands between one queue and HTTP; what all models share (sockets, keys, tenants, the loop)
 * belongs to the server.
 *
 * Thread: the loop's.
 * Memory: the engine client's and the journal's, taken in served_model_open().
 */
#ifndef SERVER_MODELS_SERVED_MODEL_H
#define SERVER_MODELS_SERVED_MODEL_H

#include "server/admin/debug.h"
#include "server/admin/info.h"
#include "server/api/server_options.h"
#include "server/api/slot_call.h"
#include "server/engine_io/swap_transfers.h"
#include "server/metrics/metrics.h"
#include "server/models/model_choice.h"
#include "server/models/model_waits.h"

/* The state of loading and unloading a model; see model_set.h. */
struct model_life {
    enum model_state state;
    struct model_waits waits; /* calls that wait until it is loaded */
    bool wants_load, wants_unload; /* an operator or the settings asked for it */
    bool is_held;             /* new calls wait, so that the model's requests end */
    bool is_gone;             /* the settings no longer list it; its running calls end */
    bool has_change, comes_back; /* has_change: new settings take effect when it is unloaded;
                                  * comes_back: then it is loaded again */
    bool is_known, is_looked_at; /* its files are known, were looked at: see struct model_view */
    uint64_t files, bytes;    /* number and bytes of its files, from the last look */
    uint64_t looked_us, asked_us, ready_us, begin_us; /* times of the last look, the latest
                                                       * model_set_want(), the end of the last load,
                                                       * the begin of the present one */
    uint64_t idle_us;         /* idle time after which it is unloaded; UINT64_MAX: never */
    uint64_t load_us;         /* duration of the last load */
    uint64_t n_loads, n_unloads, n_failures, all_load_us;
    char reason[400];
};

struct engine_shared;
struct journal_file;

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
    char arch[64], ftype[64]; /* the text that model.arch and ftype point to */
};

/* Open a model that is not loaded. `h` must not move until served_model_close(). On failure `err`
 * has a sentence. */
int served_model_open(struct served_model *h, const struct engine_shared *shared,
                      const struct server_model *model, char *err, size_t err_len);
/* Close a model. Called after the loop has ended. */
void served_model_close(struct served_model *h);

void served_model_set_model(struct served_model *h, const struct server_model *model);
void served_model_attach(struct served_model *h, struct queue *q);

/* True: no request, page or transfer uses what was loaded. */
bool served_model_is_idle(const struct served_model *h);
/* Clear all pointers to what was loaded. The model must be idle. */
void served_model_detach(struct served_model *h);

/* Pass on the engine's events, and carry out the transfers that it asked for; called on each wake.
 * True: more events wait than fitted into this callback, and it is to be called again. */
bool served_model_pump(struct served_model *h);

/* Return the reason for which the model cannot be used now, or NULL. */
const char *served_model_trouble(struct served_model *h);

/* Refuse requests from now on; with `now` cancel running ones as well. */
void served_model_drain(struct served_model *h, bool now);
/* True: no work of the model is left, except perhaps reads of adapters for which no call waits:
 * served_model_is_reading(). */
bool served_model_is_over(const struct served_model *h);
bool served_model_is_reading(const struct served_model *h);
/* Count the requests that were posted and have not ended. */
uint32_t served_model_n_outstanding(const struct served_model *h);

#endif
