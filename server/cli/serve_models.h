/* server/cli/serve_models.h - the models of `quire serve`: loads and unloads them for
 * server/models/model_set.h.
 *
 * Those with load = start are loaded one after the other before requests are taken, each with all
 * threads. Later ones are loaded while others are served: reading a file and packing its weights
 * then have a lower priority than computing steps.
 *
 * Thread: each function says which.
 * Memory: owns the models, the compute threads and the arbiter that lends them to engines.
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
    struct served *all; /* [n], with room for MODELS_MAX: later ones are appended */
    uint32_t n;
    struct thread_pool *pool;
    struct numa numa; /* NUMA plan of the pool's and the models' memory */
    struct engine_arbiter *arbiter; /* NULL: one model */
    struct server *server;
    struct store_place place; /* place of the block store */
    _Atomic uint64_t memory_limit; /* bytes for all models; 0: no limit; the I/O thread writes it */
    uint64_t process_bytes;   /* memory of the process without a model */
};

/* On the thread that starts the program: prepare everything that is needed before a load. Returns
 * an exit_code. */
int serve_models_init(struct serve_models *s, const struct config *c, char *err, size_t err_len);
/* Release everything; no thread may use it any more. */
void serve_models_release(struct serve_models *s);

/* On any thread: make the compute threads, and load the models with load = start. Returns an
 * exit_code. */
int serve_models_load(struct serve_models *s, const struct config *c, char *err, size_t err_len);
/* On the I/O thread: return the progress of serve_models_load(), in thousandths, as if all models
 * took equally long; complete it. */
uint32_t serve_models_permille(const struct serve_models *s);
void serve_models_attach(struct serve_models *s);

struct served_names { /* the names of a model; borrowed */
    const char *id, *alias, *adapters; /* id NULL: it was removed */
};

/* Check that the names of models and of their adapters are unique. Returns an exit_code. */
int serve_models_check(const struct served_names *all, uint32_t n, char *err, size_t err_len);

/* The functions for server_create(); `s` must stay where it is. */
struct server_loader serve_models_loader(struct serve_models *s);

/* On the thread that started the program, after server_run(): end all engines, except of models
 * that a thread still loads or unloads. */
void serve_models_stop(struct serve_models *s);

#endif
