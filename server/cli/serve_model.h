/* server/cli/serve_model.h - one model of `quire serve`, from its settings to a running engine.
 *
 * Part of the program's top. Each model has settings, queue, loop and journal of its own; the
 * compute threads and the turns on them belong to all.
 *
 * Thread: served_load() on any, while no thread touches the model but by served_permille(); all
 *         else on the one that starts the program.
 * Memory: owns all its parts.
 */
#ifndef SERVER_CLI_SERVE_MODEL_H
#define SERVER_CLI_SERVE_MODEL_H

#include "config/config.h"
#include "core/base/buf.h"
#include "server/instance.h"
#include "server/instance_draft.h"
#include "server/api/params/request_defaults.h"
#include "server/server.h"

struct block_store;
struct mtp_drafter;
struct engine_loop;
struct engine_arbiter;
struct store_place;

/* Settings of one model, and what is made of them before it is loaded. */
struct served_settings {
    struct config config;
    struct request_defaults defaults;
};

struct served { /* zero is empty */
    struct config config; /* in force for this model */
    struct server_model info;
    struct instance engine;
    struct instance_draft draft;
    struct chat *chat;
    struct request_defaults defaults;
    struct constraint_cache *constraint_cache;
    struct adapter_set *adapters; /* NULL: the settings want none */
    struct journal *journal;
    struct kv_event_publisher *publisher; /* NULL: nothing is published */
    struct queue *queue;
    struct mtp_drafter *mtp; /* NULL: the model has no layer that guesses, or it is not wanted */
    struct engine_loop *loop;
    struct block_store *store; /* NULL: there is none for this model */
    struct instance_progress progress;
    struct buf receipt_origin; /* empty without receipts */
    uint64_t load_us, bytes; /* of its load: the time, and the memory that was estimated */
    char id[sizeof(((struct instance *)0)->id)];
    bool is_gone;  /* the settings have it no longer */
    bool has_next; /* it gets other settings when it is not loaded: */
    struct served_settings next;
};

struct served_company { /* what the models have in common; borrowed */
    struct thread_pool *pool;
    const struct numa *numa;
    struct engine_arbiter *arbiter; /* NULL: the model is alone */
    uint32_t index;      /* in them */
    void (*wake)(void *ud); /* of its queue: from the engine's thread */
    void *wake_ud;
    const struct store_place *place; /* of the block store */
    bool is_beside; /* others are served meanwhile: their steps come first */
};

/* Model i of the settings: all that is known before it is loaded. is_offline: as below. An
 * exit_code. */
int served_init(struct served *m, const struct config *c, uint32_t i, bool is_offline, char *err,
                size_t err_len);

/* The settings of model i, with what they name of the Hub as paths, to be released. is_offline: the
 * Hub is not asked, its cache answers alone (the sandbox connects to nothing). An exit_code. */
int served_settings_read(struct served_settings *out, const struct config *c, uint32_t i,
                         bool is_offline, char *err, size_t err_len);
void served_settings_release(struct served_settings *s);
/* What would follow from m->config as it is now. */
struct server_model served_info(const struct served *m);
/* What follows from m->config, and from nothing that is loaded. */
void served_refresh(struct served *m);
/* m->next comes into force; the model is not loaded. */
void served_take_next(struct served *m);

/* Load it and start its engine thread. An exit_code; if it fails nothing is loaded. */
int served_load(struct served *m, const struct served_company *company, char *err,
                size_t err_len);
uint32_t served_permille(const struct served *m); /* how far that has come */

/* Fill in the info, once it is loaded. */
void served_complete(struct served *m);

/* All of it but what served_init() has made: the engine thread ends, the memory goes back. */
void served_unload(struct served *m);

/* Cancel what is left; then, when all models were told, wait for the engine thread. Without one
 * they do nothing. */
void served_stop(struct served *m);
void served_join(struct served *m);
/* After all have been joined: what the engine has offered goes to the block store. */
void served_flush(struct served *m);
void served_release(struct served *m);

#endif
