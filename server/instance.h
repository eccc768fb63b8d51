/* server/instance.h - everything between a model file and tokens, put together from the settings.
 *
 * The one place that knows how the parts fit: file, tokenizer, model, KV store, cache manager, swap
 * tiers, runner. The commands (serve, generate, score) share it. Part of the program's top, like
 * main.c: it may include everything.
 *
 * Thread: the one that starts the program.
 * Memory: owns all its parts; instance_release() tears down in reverse.
 * Errors: a sentence in `err`; the caller prints it and exits.
 */
#ifndef SERVER_INSTANCE_H
#define SERVER_INSTANCE_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/numa.h"
#include "core/model/sampling_defaults.h"
#include "kernels/kernels.h"
#include "kvcache/kv_record.h"
#include "scheduler/scheduler.h"
#include "server/receipts/digest.h"

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
    INSTANCE_ENCODERS = 1u << 1, /* models that make embeddings only will do too */
    INSTANCE_NO_CASCADE = 1u << 3, /* blocks that sequences share are read by each for itself */
    INSTANCE_PLAN = 1u << 2, /* sizes only: the weights are not read, and nothing can be computed */
};

struct instance {
    struct tokenizer *tokenizer;
    struct model *model;
    struct kv_store *kv;
    struct state_store *states; /* NULL: the model has none */
    struct swap_store *swap; /* NULL: no tiers */
    struct kv_manager_options cache;
    struct kv_events *events; /* NULL: nobody is told of the prefix cache */
    struct kv_manager *manager;
    struct thread_pool *own_pool; /* or NULL */
    struct runner *runner;
    char id[128]; /* the model's name on the wire, as models.h has it */
    struct sampling_defaults sampling; /* for requests that say nothing */
    enum kern_isa isa;
    enum kern_kv kv_type;
    uint32_t threads;
    struct numa numa; /* where memory is: core/base/numa.h */
    /* With slot_save_path, kv_store or requests_db only: */
    uint64_t weights_id; /* of its files, as far as weight caches look at them */
    uint64_t kv_id[2];   /* of these and the settings that keys and values depend on */
    char (*weights)[DIGEST_TEXT]; /* [n_weights] of each file; NULL without receipts */
    uint32_t n_weights;
    uint64_t store_id[2]; /* the same of all bytes of the weights; with kv_store only */
    struct sched_options sched; /* ready for engine_loop_create() */
};

/* How far instance_init() has come, in thousandths, for another thread. */
struct instance_progress {
    _Atomic uint32_t permille;
};

struct instance_company {     /* where several engines live together */
    struct thread_pool *pool; /* NULL: the engine makes one of its own */
    const struct numa *numa;  /* that the pool was made with; NULL: the engine plans its own */
    struct instance_progress *progress;
};

/* Exit codes of the program. */
enum exit_code { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

/* Fill `e` from the settings: loads, packs and allocates everything; `flags` are instance_flags.
 * The settings are those of one model (config_model()). Returns an exit_code. */
int instance_init(struct instance *e, const struct config *c, unsigned flags, char *err,
                  size_t err_len);
/* The same among others; both are borrowed. */
int instance_init_among(struct instance *e, const struct config *c, unsigned flags,
                        const struct instance_company *company, char *err, size_t err_len);
/* Where the settings want memory to be, or, with `numa = auto`, where it reads fastest: that is
 * measured, on machines with several nodes. For all engines of a process, as is the pool that the
 * settings want. */
void instance_plan_numa(struct numa *numa, const struct config *c);
int instance_make_thread_pool(struct thread_pool **out, const struct config *c,
                              const struct numa *numa, char *err, size_t err_len);
/* The name on the wire of the first model in the setting `model`, known without opening its file;
 * UTF-8, with a '?' for each byte that is not. */
void instance_name_model(const char *list, char *id, size_t size);
/* The model in a list of one, for what works on one at a time. Returns an exit_code. */
int instance_one_model(struct model_item *out, const char *list, char *err, size_t err_len);
void instance_release(struct instance *e);
/* Tokens of earlier answers that its engine keeps to guess from: 0 where nothing is guessed. */
uint32_t instance_draft_history(const struct instance *e, const struct config *c);
/* Of the records in which a block store keeps its blocks. */
struct kv_record_form instance_record_form(const struct instance *e);

struct gguf;
/* Can it be served, as far as that is known without reading a weight? The checks of a load: keys,
 * tokenizer, tensors, their types and shapes. 0 and the bytes of a sequence's recurrent state (0:
 * the model has none), or ERR_* with the sentence of a load. */
int instance_check_model(const struct gguf *g, size_t *state_bytes, char *err, size_t err_len);
/* How the file, with `file_sampling`, and the settings want it to be sampled. */
void instance_read_sampling(struct sampling_defaults *d, const struct gguf *g,
                            const struct config *c);
/* The file named by `path`, the model in that folder, or the demo model for "". `pre`: the setting
 * tokenizer_pre. */
int instance_open_gguf(struct gguf **out, const char *path, const char *pre, char *err,
                       size_t err_len);

#endif
