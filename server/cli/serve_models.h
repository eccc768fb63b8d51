/* server/cli/serve_models.h - the models of `quire serve`, and how they come and go: the other side
 * of server/model_set.h.
 *
 * Those with load = start are loaded one after the other before requests are taken, each with all
 * threads. Later ones are loaded while others are served: what reads a file and packs its weights
 * then runs at a lower priority than the threads that compute steps.
 *
 * Thread: each function says which.
 * Memory: owns the models, the compute threads and the turns on them.
 */
#ifndef SERVER_CLI_SERVE_MODELS_H
#define SERVER_CLI_SERVE_MODELS_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/numa.h"
#include "server/api/server_options.h"
#include "server/engine_io/store_place.h"

struct config;
struct engine_arbiter;
struct served;
struct server;
struct thread_pool;

struct serve_models { /* zero is empty */
    struct served *all; /* [n], with room for MODELS_MAX: later ones come behind */
    uint32_t n;
    struct thread_pool *pool;
    struct numa numa; /* where its memory is */
    struct engine_arbiter *arbiter; /* NULL: one model */
    struct server *server;
    struct store_place place; /* of the block store */
    _Atomic uint64_t memory_limit; /* for all; 0: there is none; the I/O thread writes it */
    uint64_t process_bytes;   /* that the process takes without a model */
};

/* The thread that starts the program: all that is known before one is loaded. An exit_code. */
int serve_models_init(struct serve_models *s, const struct config *c, char *err, size_t err_len);
/* Nothing runs any more. */
void serve_models_release(struct serve_models *s);

/* Any thread: the compute threads, and the models with load = start. An exit_code. */
int serve_models_load(struct serve_models *s, const struct config *c, char *err, size_t err_len);
/* The I/O thread: how far that has come, in thousandths, as if all took equally long; and its
 * end. */
uint32_t serve_models_permille(const struct serve_models *s);
void serve_models_attach(struct serve_models *s);

struct served_names { /* what a model is called by; borrowed */
    const char *id, *alias, *adapters; /* id NULL: it is gone */
};

/* Have the models names of their own, and their adapters? An exit_code. */
int serve_models_check(const struct served_names *all, uint32_t n, char *err, size_t err_len);

/* What server_create() wants; `s` stays where it is. */
struct server_loader serve_models_loader(struct serve_models *s);

/* The thread that started the program, after server_run(): all engines end, but for what a thread
 * still loads or unloads. */
void serve_models_stop(struct serve_models *s);

#endif
