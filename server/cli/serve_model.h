/* server/cli/serve_model.h - one model of `quire serve`, from its settings to a running engine.
 *
 * Part of the top level of the program. Each model has its own settings, queue, loop and journal;
 * all models share the compute threads and the arbiter that grants turns on them.
 *
 * Thread: served_load() on any, while no thread touches the model but by served_permille(); all
 *         else on the one that starts the program.
 * Memory: owns all its parts.
 */
#ifndef SERVER_CLI_SERVE_MODEL_H
#define SERVER_CLI_SERVE_MODEL_H

#include "config/config.h"
#include "core/base/buf.h"
#include "core/hub/cached.h"
#include "server/models/instance.h"
#include "server/models/instance_draft.h"
#include "server/api/params/request_defaults.h"
#include "server/server.h"

struct block_store;
struct mtp_drafter;
struct engine_loop;
struct engine_arbiter;
struct store_place;

/* Settings of one model, and values derived from them before it is loaded. */
struct served_settings {
    struct config config;
    struct request_defaults defaults;
    int64_t file_time; /* model_files_time() */
};

struct served {           /* zero is empty */
    struct config config; /* settings in force for this model */
    struct server_model info;
    struct instance engine;
    struct instance_draft draft;
    struct chat *chat;
    struct decision_model *decider; /* NULL: the model was not trained for decisions */
    struct request_defaults defaults;
    int64_t file_time; /* model_files_time() when the settings were read */
    struct constraint_cache *constraint_cache;
    struct adapter_set *adapters; /* NULL: none in the settings */
    struct journal *journal;
    struct kv_event_publisher *publisher; /* NULL: nothing is published */
    struct queue *queue;
    struct mtp_drafter *mtp; /* NULL: the model has no layer that makes drafts, or drafts are off */
    struct engine_loop *loop;
    struct block_store *store; /* NULL: there is none for this model */
    struct instance_progress progress;
    struct buf receipt_origin; /* empty without receipts */
    uint64_t load_us, bytes;   /* duration of its load, and the estimated memory */
    char id[sizeof(((struct instance *)0)->id)];
    bool is_gone;  /* the model was removed from the settings */
    bool has_next; /* `next` has new settings, which take effect when the model is not loaded */
    struct served_settings next;
};

struct served_company { /* shared by the models; borrowed */
    struct thread_pool *pool;
    const struct numa *numa;
    struct engine_arbiter *arbiter; /* NULL: there is only one model */
    uint32_t index;                 /* the model's index */
    void (*wake)(void *ud);         /* `wake` of the model's queue; called on the engine thread */
    void *wake_ud;
    const struct store_place *place; /* place of the block store */
    bool is_beside;                  /* other models are served meanwhile, and their steps have
                                      * priority */
};

/* Initialise model i of the settings, without loading it. find: as below. Returns an
 * exit_code. */
int served_init(struct served *m, const struct config *c, uint32_t i, hub_find_fn *find, char *err,
                size_t err_len);

/* Read the settings of model i, with the Hub's names in them replaced by paths, to be released.
 * `find`: hub_pull at the start; hub_cached in a running server, whose sandbox allows no
 * connection. Returns an exit_code. */
int served_settings_read(struct served_settings *out, const struct config *c, uint32_t i,
                         hub_find_fn *find, char *err, size_t err_len);
void served_settings_release(struct served_settings *s);
/* Return the info that follows from the present m->config. */
struct server_model served_info(const struct served *m);
/* Set the info from m->config, without the values of a load. */
void served_refresh(struct served *m);
/* Put m->next into force; the model must not be loaded. */
void served_take_next(struct served *m);

/* Load it and start its engine thread. Returns an exit_code; if it fails, nothing is loaded. */
int served_load(struct served *m, const struct served_company *company, char *err, size_t err_len);
uint32_t served_permille(const struct served *m); /* the progress of a load */

/* Add the values of a load to the info. */
void served_complete(struct served *m);

/* Release everything but what served_init() has made: the engine thread ends, the memory is
 * freed. */
void served_unload(struct served *m);

/* Cancel all requests; then, when all models have been stopped, wait for the engine thread. Both do
 * nothing for a model that is not loaded. */
void served_stop(struct served *m);
void served_join(struct served *m);
/* Write the blocks that the engine has offered to the block store. Called after served_join() of
 * all models. */
void served_flush(struct served *m);
void served_release(struct served *m);

#endif
