/* server/server.h - what main.c gives to the HTTP side: everything it may know.
 *
 * One server serves one model or several. Listening, keys, tenants and counting of HTTP are the
 * server's; each model has a queue, an engine client and a journal of its own. A request goes to
 * the model that its field `model` names, and to the first one without it.
 *
 * The server turns HTTP into posted requests and events into bytes. The I/O thread prepares a
 * request itself only if a moment's budget is enough; threads of two pools do the others, one for
 * texts and one for schemas and grammars (api/worker_pool.h). /health, /ready, /metrics and
 * /version are answered from counters alone.
 *
 * Thread: the I/O thread (the one that calls server_run()).
 * Memory: all bounded by the options.
 */
#ifndef SERVER_SERVER_H
#define SERVER_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "scheduler/request.h"

/* Questions that may be on their way to the engine beside the requests. */
#define SERVER_DRY_RUNS 128
#define SERVER_MAX_MODELS 16

struct chat;
struct queue;
struct swap_store;
struct tokenizer;
struct journal;
struct constraint_cache;

struct server_model { /* a served model; what it points to is borrowed */
    /* From the start. */
    const char *id;         /* name on the wire; no other model's */
    uint32_t share;         /* of the machine's time while others have work too */
    uint32_t max_sequences; /* this and the next as given to the scheduler */
    uint32_t max_batch_tokens;
    uint32_t max_outstanding; /* requests; the queue has room for SERVER_DRY_RUNS more */
    uint32_t request_timeout_s;
    uint32_t max_queue_ms;    /* for requests that say nothing; 0 = no limit */
    const char *journal_path; /* or NULL */
    struct journal *journal;  /* or NULL */
    /* Once it is loaded; zero before. */
    const char *arch, *ftype;
    int64_t created; /* Unix seconds */
    uint32_t n_vocab, n_ctx_train, n_embd;
    uint32_t max_context;    /* longest prompt + completion that can be served */
    uint32_t max_kv_tokens;  /* tokens that fit into the whole KV cache */
    uint32_t n_blocks;       /* in it */
    uint32_t block_tokens;   /* tokens in a block */
    uint64_t n_params, size; /* parameters; bytes of the file */
    const char *kv_type;     /* what keys and values are stored as */
    enum pooling pooling;    /* of embeddings */
    bool is_encoder;         /* it makes embeddings only */
    uint32_t prefill_chunk;  /* as the scheduler has it for this model */
    bool shares_prefixes;
    const struct tokenizer *tokenizer;
    const struct chat *chat;
    struct constraint_cache *constraint_cache;
    struct swap_store *swap; /* or NULL; closed by its owner after server_run() */
    const char *isa;         /* that its kernels are for */
};

/* What has to be done before there is an engine, while the port is open already. */
struct server_load {
    void (*work)(void *ud);     /* on a thread of the loop's pool; NULL = nothing, and
                                 * server_attach() comes before server_run() */
    void (*done)(void *ud);     /* afterwards, on the loop's thread: calls server_set_model() and
                                 * server_attach() for each model, or server_fail() */
    uint32_t (*permille)(void *ud); /* how far it has come; on the loop's thread */
    void *ud;
};

struct server_options {
    const char *host; /* "" = no TCP */
    uint16_t port;
    const char *tls_certificate, *tls_key; /* paths; NULL or "" = plain HTTP */
    const char *unix_socket;               /* path; NULL or "" = none */
    unsigned unix_socket_mode;
    const char *api_keys; /* path; NULL or "" = everybody may do everything */
    bool has_open_metrics;
    const char *cors_origins; /* checked; NULL or "" = none */
    const char *allowed_hosts; /* checked; NULL or "" = by the address that is listened on */
    size_t max_body;
    uint32_t max_connections, max_connections_per_address; /* 0 = chosen */
    uint32_t header_timeout_s, min_body_rate;
    uint64_t request_memory; /* bytes for what requests hold outside the KV cache */
    const char *tenant_header;  /* "" = everybody is one tenant */
    const char *tenant_weights; /* checked */
    uint32_t max_tenants, tenant_limit;
    uint64_t salt_seed; /* filled in by server_create() */
    const struct server_model *models; /* [n_models], copied; the first is the default */
    uint32_t n_models;                 /* 1 to SERVER_MAX_MODELS */
    uint32_t n_text_threads, n_constraint_threads; /* of the pools that prepare requests */
    struct server_load load;
};

struct server;

/* Bind and get ready, and take SIGHUP and SIGUSR1 over; `err` receives a sentence ("cannot
 * listen on 127.0.0.1:80: …"). The queue does not exist yet: the server is what the queue's wake
 * callback points at. */
int server_create(struct server **out, const struct server_options *options, char *err,
                  size_t err_len);

/* Thread-safe: call it from the queue's wake callback (it is uv_async_send). `ud` is the server. */
void server_wake(void *ud);

/* Model i, now that everything is known of it; its id and limits must be those of before. */
void server_set_model(struct server *s, uint32_t i, const struct server_model *model);

/* Attach model i's queue. When all have theirs, requests are taken. */
void server_attach(struct server *s, uint32_t i, struct queue *q);

/* There will be no engine: server_run() returns. */
void server_fail(struct server *s);

/* The port that was bound (for port 0); 0 when there is no TCP. */
uint16_t server_port(const struct server *s);

/* The nth signal `number` that tells it to stop (core/base/stop_signals.h). Thread-safe. */
void server_tell_to_stop(void *server, int number, unsigned nth);

/* No thread has been made until here; this one makes those that prepare requests and, by libuv,
 * that loads. Serve until told to stop: the first time refuses new requests and drains, the second
 * cancels what is left. Returns when every connection has been answered and the queues'
 * requests have ended; the engine threads end by themselves after queue_close(). SIGHUP reads the
 * files of keys and certificates again; SIGUSR1 opens the log file again.
 *
 * ERR_BUSY: told to stop while the load's work is still going on. The sockets are closed; nothing
 * may be freed, and the process should end. */
int server_run(struct server *s);
void server_destroy(struct server **s);

#endif
