/* server/api/server_options.h - the server's settings, and those of each model that it serves.
 *
 * Thread: written before the I/O thread runs; members of a model that are known only when it is
 *         loaded are written by server_set_model() on the I/O thread.
 * Memory: all that it points to is borrowed.
 */
#ifndef SERVER_API_SERVER_OPTIONS_H
#define SERVER_API_SERVER_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "scheduler/request/request.h"
#include "server/process/handover.h"
#include "server/storage/slot_folder.h"

/* Most dry runs that may be outstanding in addition to the requests. */
#define SERVER_DRY_RUNS 128
#define SERVER_MAX_MODELS 128

struct adapter_set;
struct chat;
struct decision_model;
struct kv_event_publisher;
struct queue;
struct swap_store;
struct tokenizer;
struct journal;
struct prefix_fetch;
struct constraint_cache;
struct request_defaults;
struct sampling_defaults;

enum server_load_when { /* in the order of the setting's words */
    SERVER_LOAD_START = 0,
    SERVER_LOAD_DEMAND,
    SERVER_LOAD_NEVER,
};

struct server_model { /* a served model; what it points to is borrowed */
    /* Known from the start. */
    const char *id;         /* name in the API, which no other model has */
    const char *aliases;    /* further names and patterns (core/base/name_list.h) */
    uint32_t share;         /* share of the machine's time while other models have work */
    uint32_t max_sequences; /* this and the next member: as in sched_options */
    uint32_t max_batch_tokens;
    uint32_t max_outstanding; /* most requests; the queue has room for SERVER_DRY_RUNS more */
    uint32_t request_timeout_s;
    bool makes_drafts;        /* speculative decoding, for requests that allow it */
    bool shifts_context;      /* a text continues beyond its context, and loses older tokens */
    uint32_t max_queue_ms;    /* default of requests; 0 = no limit */
    const char *journal_path; /* or NULL */
    struct journal *journal;  /* or NULL */
    struct kv_event_publisher *kv_events; /* or NULL */
    enum server_load_when load;
    uint64_t idle_unload_us; /* UINT64_MAX: never */
    bool is_pinned;          /* it is not unloaded for another model, nor when it is idle */
    bool stays;              /* it cannot be unloaded */
    const char *adapter_list; /* adapters of the settings, NAME=PATH with commas between */
    int64_t created;          /* Unix seconds at which the server began to offer it */
    int64_t file_time;        /* Unix seconds of its file's last change; 0: not known */
    /* The state at this moment, for pages about models: model_set_tell(). */
    const char *state;   /* the state in llama-server's words; NULL: not filled in */
    const char *failure; /* reason for which it could not be loaded; NULL: it did not fail */
    int64_t leaves_at;   /* Unix seconds at which it is unloaded if no request comes; 0: never */
    /* Known once it is loaded. Before, numbers are zero and texts ""; after an unload numbers and
     * texts are as they were, but pointers to what the load has made are NULL, for
     * served_model_detach() clears them. */
    const char *arch, *ftype;
    uint64_t load_us, bytes; /* duration of its load, and memory that it takes; bytes 0: not
                              * estimated */
    uint32_t n_vocab, n_ctx_train, n_embd;
    uint32_t max_context;    /* longest prompt + completion that can be served */
    bool pins_prefixes;      /* beginnings of prompts may be pinned in the KV cache */
    uint32_t max_kv_tokens;  /* tokens that fit into the whole KV cache */
    uint32_t n_blocks;       /* blocks in the KV cache */
    uint32_t block_tokens;   /* tokens in a block */
    uint64_t n_params, size; /* parameters; bytes of the file */
    const char *kv_type;     /* the type in which keys and values are stored */
    uint64_t kv_id[2];       /* id of the model and settings that keys and values depend on */
    uint64_t origin_id;      /* id of the model and settings that answers depend on, in any
                              * version */
    enum pooling pooling;    /* pooling of embeddings */
    bool keeps_tokens;       /* each token has a vector, unless a body asks for another pooling */
    uint32_t n_labels;       /* labels of its classifier; 0: it has none */
    uint32_t n_token_labels; /* labels of each token, in place of those of texts; 0: none */
    uint32_t n_token_vector; /* numbers of a token's vector for late interaction; 0: its state is
                              * the vector */
    bool skips_bos;          /* these vectors leave out BOS */
    bool has_weights;        /* each token has a lexical weight */
    bool is_late;            /* a text has no vector of its own, only those of its tokens */
    char *const *labels;     /* names of the labels; NULL: they have none */
    bool is_cross;           /* a cross-encoder, which reads two texts in one prompt; the output
                              * yes_label is their relevance */
    uint32_t yes_label;
    bool is_encoder;         /* the model only makes embeddings */
    bool only_decides;       /* its last layers are a head for decisions */
    uint32_t prefill_chunk;  /* the scheduler's for this model */
    bool shares_prefixes;
    const struct tokenizer *tokenizer;
    const struct sampling_defaults *sampling; /* defaults of requests */
    const struct request_defaults *request_defaults;
    const struct chat *chat;
    const struct decision_model *decider; /* NULL: the model was not trained for decisions */
    struct constraint_cache *constraint_cache;
    struct adapter_set *adapters; /* or NULL */
    struct prefix_fetch *fetch; /* of the block store; NULL: there is none for this model */
    struct swap_store *swap; /* or NULL; closed by its owner after server_run() */
    const char *receipt_origin; /* members of a receipt (server/api/response/receipt.h); NULL: there
                                 * are none */
    const char *isa;         /* the instruction set of its kernels */
    uint32_t threads;        /* threads that compute its steps */
};

/* Work that must be done before there is an engine, while the server already listens. */
struct server_load {
    void (*work)(void *ud);     /* called on a thread of the loop's pool; NULL = no work, and
                                 * server_attach() is called before server_run() */
    void (*done)(void *ud);     /* called afterwards on the loop's thread: calls server_set_model()
                                 * and server_attach() for each model, or server_fail() */
    uint32_t (*permille)(void *ud); /* returns the progress of the work; called on the loop's
                                     * thread */
    void *ud;
};

struct server_batch_progress {
    uint32_t n_lines, n_done; /* all lines, and those with an answer in the file */
    uint32_t n_failed;        /* errors among the answers of this process */
    uint64_t n_tokens;        /* tokens that this process has generated */
};

struct server_batch { /* a batch of `quire batch`: an input and an output file; when it has ended
                       * the server ends */
    const char *input, *output;
    uint64_t seed; /* for the answers' ids, and for lines without a seed */
    /* Called on the loop's thread whenever answers have been written. */
    void (*progress)(void *ud, const struct server_batch_progress *p);
    void (*over)(void *ud, const char *errors); /* errors: the input is not a batch, items of a
                                                 * list; NULL: all lines have their answers */
    void *ud;
};

struct server_look { /* the result of a look at a model's files */
    uint64_t files; /* changes when the files do */
    uint64_t bytes; /* memory that the model takes; 0: not computed */
};

/* Functions that load and unload models while others are served. For each model i only one call
 * runs at a time. */
struct server_loader {
    /* On a thread of a pool. 0, or a negative ERR_* with a sentence; out->files is filled then too.
     * If it equals `files`, the files have not changed, and nothing else is filled in. */
    int (*look)(void *ud, uint32_t i, uint64_t files, struct server_look *out, char *err,
                size_t err_len);
    int (*load)(void *ud, uint32_t i, char *err, size_t err_len);
    void (*unload)(void *ud, uint32_t i); /* called when the I/O thread does not use the model any
                                           * more */
    /* On the I/O thread, after a load: calls server_set_model() and server_attach(). */
    void (*loaded)(void *ud, uint32_t i);
    /* On the I/O thread, when no thread uses the model any more: new settings come into force.
     * Calls server_set_before(). */
    void (*unloaded)(void *ud, uint32_t i);
    uint32_t (*permille)(void *ud, uint32_t i); /* progress of its load */
    void *ud;
};

/* Functions that read the settings again on SIGHUP. */
struct server_reload {
    /* Called on the I/O thread before each read: copy what reading needs, because the settings in
     * force may change meanwhile. ERR_NOMEM. */
    int (*begin)(void *ud);
    /* On a thread of a pool, one at a time. ERR_*: all settings stay as they are, for the reason in
     * err. */
    int (*read)(void *ud, char *err, size_t err_len);
    /* On the I/O thread, after a read: calls server_add_model() and the like. */
    void (*apply)(void *ud);
    void *ud;
};

struct server_options {
    const char *host; /* "" = no TCP */
    uint16_t port;
    const char *tls_certificate, *tls_key; /* paths; NULL or "" = plain HTTP */
    const char *unix_socket;               /* path; NULL or "" = none */
    unsigned unix_socket_mode;
    const char *api_keys; /* path; NULL or "" = no keys are needed */
    bool has_open_metrics;
    bool takes_props; /* POST /props */
    bool has_page; /* at /, for browsers */
    const char *metrics_names; /* checked */
    const char *cors_origins; /* checked; NULL or "" = none */
    const char *allowed_hosts; /* checked; NULL or "" = by the address that is listened on */
    size_t max_body;
    uint32_t max_connections, max_connections_per_address; /* 0 = chosen */
    uint32_t header_timeout_s, min_body_rate;
    uint64_t request_memory; /* bytes for what requests hold outside the KV cache */
    const char *tenant_header;  /* "" = all clients are one tenant */
    const char *trusted_proxies; /* checked; NULL or "" = none */
    const char *objectives;      /* checked; NULL or "" = none */
    const char *tenant_weights; /* checked */
    uint32_t max_tenants, tenant_limit;
    uint64_t salt_seed; /* equal in all servers that share a block store; 0: server_create() fills
                         * it in */
    const struct server_model *models; /* [n_models], copied; the first is the default */
    uint32_t n_models;                 /* 1 to SERVER_MAX_MODELS */
    uint32_t stream_keep_ms; /* 0 = no streams are kept */
    bool resumable_streams;  /* also streams of requests that do not ask for it */
    uint64_t stream_max_bytes, stream_memory;
    uint32_t stream_ping_ms; /* 0 = never */
    uint32_t drain_ms;       /* 0 = as long as answers take */
    const char *handover_socket; /* path; NULL or "" = none */
    struct http_sockets sockets; /* systemd's; -1 = none */
    const char *slot_save_path; /* a folder; NULL or "" = slots are not saved */
    struct slot_limits slot_limits; /* limits of slot_save_path */
    const char *requests_db; /* path; NULL or "" = requests end with the process */
    uint64_t requests_size;  /* most bytes of requests_db */
    const char *usage_db; /* SQLite file; NULL or "" = usage is forgotten at the end */
    const char *responses_db; /* path; NULL or "" = responses are not kept */
    uint32_t responses_days;
    uint64_t responses_size;
    const char *batch_dir; /* a folder; NULL or "" = there are no files and batches */
    uint32_t batch_streams; /* lines that run at the same time, at most */
    uint32_t batch_max_lines, batch_days;
    uint64_t batch_file_size, batch_size;
    const struct server_batch *batch; /* the command line's, in place of batch_dir; or NULL */
    uint32_t n_text_threads, n_constraint_threads; /* threads of the pools that prepare requests */
    struct server_load load;
    struct server_loader loader;
    struct server_reload reload; /* read NULL: settings are not read again */
    uint64_t memory_limit; /* bytes for all models together; 0: no limit */
    uint64_t process_bytes; /* memory of the process without any model */
};

#endif
