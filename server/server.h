/* server/server.h - what main.c gives to the HTTP side: everything it may know.
 *
 * The server turns HTTP into posted requests and events into bytes. It never computes: long
 * tokenising goes to libuv's thread pool. /health, /ready, /metrics and /version are answered from
 * counters alone.
 *
 * Thread: the I/O thread (the one that calls server_run()).
 * Memory: all bounded by the options.
 */
#ifndef SERVER_SERVER_H
#define SERVER_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Questions that may be on their way to the engine beside the requests. */
#define SERVER_DRY_RUNS 128

struct queue;
struct swap_store;
struct tokenizer;
struct journal;
struct constrain;

struct server_model { /* facts for /v1/models, /metrics and the edge checks */
    const char *id;   /* name on the wire */
    const char *arch, *ftype;
    int64_t created; /* Unix seconds */
    uint32_t n_vocab, n_ctx_train, n_embd;
    uint32_t max_context;    /* longest prompt + completion that can be served */
    uint32_t max_kv_tokens;  /* tokens that fit into the whole KV cache */
    uint32_t block_tokens;   /* tokens in one of its blocks */
    uint64_t n_params, size; /* parameters; bytes of the file */
    const char *kv_type;     /* what keys and values are stored as */
};

struct server_options {
    const char *host;
    uint16_t port;
    size_t max_body;
    uint32_t max_sequences, max_batch_tokens, prefill_chunk; /* as given to the scheduler */
    uint32_t max_outstanding; /* requests; the queue has room for SERVER_DRY_RUNS more */
    uint32_t request_timeout_s;
    uint32_t max_queue_ms; /* for requests that say nothing; 0 = no limit */
    bool shares_prefixes;
    const char *tenant_header;  /* "" = everybody is one tenant */
    const char *tenant_weights; /* checked */
    uint32_t max_tenants, tenant_limit;
    uint64_t salt_seed; /* filled in by server_create() */
    struct constrain *constrain; /* the same */
    struct server_model model;
    const struct tokenizer *tokenizer;
    const char *journal_path; /* or NULL */
    struct journal *journal;  /* or NULL */
    struct swap_store *swap;  /* or NULL; closed by its owner after server_run() */
    const char *isa;          /* for quire_build_info */
};

struct server;

/* Bind and get ready; `err` receives a sentence ("cannot listen on 127.0.0.1:80: …"). The queue
 * does not exist yet: the server is what the queue's wake callback points at. */
int server_create(struct server **out, const struct server_options *options, char *err,
                  size_t err_len);

/* Thread-safe: call it from the queue's wake callback (it is uv_async_send). `ud` is the server. */
void server_wake(void *ud);

/* Attach the queue, before server_run(). */
void server_attach(struct server *s, struct queue *q);

/* The port that was bound (for port 0). */
uint16_t server_port(const struct server *s);

/* Serve until told to stop: the first SIGTERM or SIGINT refuses new requests and drains, the
 * second cancels what is left. Returns when every connection has been answered and the queue's
 * requests have ended; the engine thread ends by itself after queue_close(). */
int server_run(struct server *s);
void server_destroy(struct server **s);

#endif
