/* server/models/instance.h - one model with its tokenizer, weights, cache and runner, made from the
 * settings.
 *
 * Only this file connects them: file, tokenizer, model, KV store, cache manager, swap tiers,
 * runner. The commands (serve, generate, score) share it. Part of the program's top, like main.c:
 * it may include everything.
 *
 * Thread: the one that starts the program.
 * Memory: owns all its parts; instance_release() tears down in reverse.
 * Errors: a sentence in `err`; the caller prints it and exits.
 */
#ifndef SERVER_MODELS_INSTANCE_H
#define SERVER_MODELS_INSTANCE_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/numa.h"
#include "core/model/sampling_defaults.h"
#include "kernels/kernels.h"
#include "kvcache/kv_record.h"
#include "scheduler/scheduler.h"
#include "server/api/response/digest.h"

struct config;
struct kv_events;
struct kv_store;
struct model;
struct model_item;
struct runner;
struct state_store;
struct swap_store;
struct thread_pool;
struct tokenizer;

enum instance_flags {
    INSTANCE_SWAP = 1u << 0, /* with the swap tiers of the settings */
    INSTANCE_ENCODERS = 1u << 1, /* encoders, which only make embeddings, are accepted too */
    INSTANCE_PLAN = 1u << 2, /* only compute sizes: no weight is read, and no token can be
                              * computed */
    INSTANCE_NO_CASCADE = 1u << 3, /* attention reads shared blocks once for each sequence, not once
                                    * for all */
};

struct instance {
    struct tokenizer *tokenizer;
    struct model *model;
    struct kv_store *kv;
    struct state_store *states; /* NULL: the model has no recurrent states */
    struct swap_store *swap; /* NULL: no swap tiers */
    struct kv_manager_options cache;
    struct kv_events *events; /* NULL: no KV events of the prefix cache */
    struct kv_manager *manager;
    struct thread_pool *own_pool; /* or NULL */
    struct runner *runner;
    char id[128]; /* the model's name in the API, as in models.h */
    struct sampling_defaults sampling; /* for requests that do not set them */
    enum kern_isa isa;
    enum kern_kv kv_type;
    uint32_t threads;
    struct numa numa; /* the placement of memory on nodes: core/base/numa.h */
    /* The next two are set with slot_save_path, kv_store or requests_db only: */
    uint64_t weights_id; /* id of the weights' files, from the samples that weight caches take */
    uint64_t kv_id[2];   /* weights_id and the settings that keys and values depend on */
    char (*weights)[DIGEST_TEXT]; /* [n_weights] the digest of each file; NULL without receipts */
    uint32_t n_weights;
    uint64_t store_id[2]; /* the identity from all bytes of the weights; set only with kv_store */
    struct sched_options sched; /* complete, for engine_loop_create() */
};

/* Progress of instance_init(), in thousandths; another thread reads it. */
struct instance_progress {
    _Atomic uint32_t permille;
};

struct instance_company {     /* shared by several engines of a process */
    struct thread_pool *pool; /* NULL: the instance makes its own pool */
    const struct numa *numa;  /* the placement with which the pool was made; NULL: the instance
                               * plans its own */
    struct instance_progress *progress;
};

/* Exit codes of the program. */
enum exit_code { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

/* Fill `e` from the settings: loads, packs and allocates everything; `flags` are instance_flags.
 * The settings are those of one model (config_model()). Returns an exit_code. */
int instance_init(struct instance *e, const struct config *c, unsigned flags, char *err,
                  size_t err_len);
/* As instance_init(), for one of several engines of a process; pool and numa are borrowed. */
int instance_init_among(struct instance *e, const struct config *c, unsigned flags,
                        const struct instance_company *company, char *err, size_t err_len);
/* Plan the placement of memory on nodes. With `numa = auto`, on machines with several nodes,
 * measure which placement reads fastest. All engines of a process share the result, and the thread
 * pool that instance_make_thread_pool() makes. */
void instance_plan_numa(struct numa *numa, const struct config *c);
int instance_make_thread_pool(struct thread_pool **out, const struct config *c,
                              const struct numa *numa, char *err, size_t err_len);
/* Write the API name of the first model in `list`, the setting `model`, to id[] without opening its
 * file: UTF-8, with '?' for each byte that is not. */
void instance_name_model(const char *list, char *id, size_t size);
/* Parse a list of exactly one model, for commands that work on one model. Returns an exit_code. */
int instance_one_model(struct model_item *out, const char *list, char *err, size_t err_len);
void instance_release(struct instance *e);
/* Return how many tokens of earlier answers the engine keeps for drafts; 0 when it makes no
 * drafts. */
uint32_t instance_draft_history(const struct instance *e, const struct config *c);
/* Return the form of this model's records in a block store. */
struct kv_record_form instance_record_form(const struct instance *e);

struct gguf;
/* Check, as a load does but without reading a weight, that the file can be served: its keys,
 * tokenizer, tensors, their types and shapes. Returns 0 and the bytes of a sequence's recurrent
 * state (0: the model has none), or ERR_* with the sentence that a load would give. */
int instance_check_model(const struct gguf *g, size_t *state_bytes, char *err, size_t err_len);
/* Read the sampling defaults of the file (with `file_sampling`), then those of the settings. */
void instance_read_sampling(struct sampling_defaults *d, const struct gguf *g,
                            const struct config *c);
/* Open the file named by `path`, the model in that folder, or the demo model for "". `pre` is the
 * setting tokenizer_pre. */
int instance_open_gguf(struct gguf **out, const char *path, const char *pre, char *err,
                       size_t err_len);

#endif
