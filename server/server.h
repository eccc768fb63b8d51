/* server/server.h - the HTTP server over the engines: what the commands hand it, and its life.
 *
 * One server serves one model or several. Listening, keys, tenants and counting of HTTP are the
 * server's; each model has a queue, an engine client and a journal of its own. A request goes to
 * the model that its field `model` names, and to the first one without it.
 *
 * The server turns HTTP into posted requests and events into bytes. The I/O thread parses a request
 * itself only if that takes a moment; otherwise threads of pools do (process/worker_pool.h): one
 * pool for texts, one for schemas and grammars, one renders large answers, one reads the files of
 * adapters, and one loads and unloads models (model_set.h) and reads the settings again. /health,
 * /metrics and /version are answered from counters alone.
 *
 * Thread: the I/O thread (the one that calls server_run()).
 * Memory: all bounded by the options.
 */
#ifndef SERVER_SERVER_H
#define SERVER_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/api/server_options.h"

struct queue;
struct server;

/* Bind the sockets and take SIGHUP and SIGUSR1 over; `err` receives a sentence ("cannot listen on
 * 127.0.0.1:80: …"). The queue does not exist yet: its wake callback will point at the server. */
int server_create(struct server **out, const struct server_options *options, char *err,
                  size_t err_len);

/* Thread-safe: call it from the queue's wake callback (it is uv_async_send). `ud` is the server. */
void server_wake(void *ud);

/* Give model i all that its load has found out; its id and limits must be those of before. */
void server_set_model(struct server *s, uint32_t i, const struct server_model *model);

/* Attach model i's queue: its calls begin, once requests are accepted. */
void server_attach(struct server *s, uint32_t i, struct queue *q);
/* Called when all models that are loaded at the start are attached: accept requests. */
void server_ready(struct server *s);

/* After the settings were read again, on the I/O thread; server_settle() follows. _add_model: a
 * model after the others, whose id is new: 0, or a negative ERR_* with a sentence. _change_model:
 * settings of model i that need no new load have changed; with `reloads` others have too.
 * _remove_model: model i is no longer served. */
int server_add_model(struct server *s, const struct server_model *model, char *err,
                     size_t err_len);
void server_change_model(struct server *s, uint32_t i, const struct server_model *model,
                         bool reloads);
void server_remove_model(struct server *s, uint32_t i);
void server_set_memory_limit(struct server *s, uint64_t bytes);
void server_settle(struct server *s);
/* Set the new settings of model i, which is not loaded. */
void server_set_before(struct server *s, uint32_t i, const struct server_model *model);

/* Called when the load has failed and there will be no engine: server_run() returns. */
void server_fail(struct server *s);

/* Return the port that was bound (for port 0); 0 without TCP. */
uint16_t server_port(const struct server *s);

/* Called for the nth signal to stop, with its number (core/base/stop_signals.h). Any thread. */
void server_tell_to_stop(void *server, int number, unsigned nth);

/* Serve until told to stop: the first time refuses new requests and drains, the second cancels what
 * is left. No thread exists before this call; it makes those of the pools and, by libuv, the one
 * that loads. Returns when every connection has been answered and the queues' requests have ended;
 * the engine threads end by themselves after queue_close(). SIGHUP reads the files of keys,
 * certificates and settings again; SIGUSR1 opens the log file again.
 *
 * ERR_AGAIN: as above, but a thread still reads an adapter from a disk that does not answer, or
 * loads or unloads a model: nothing but the engines' threads may be freed, and the process should
 * end.
 *
 * ERR_BUSY: told to stop during the load. The sockets are closed; nothing may be freed, and the
 * process should end.
 */
int server_run(struct server *s);
/* Called after server_run(). True: a thread still loads or unloads model i. */
bool server_is_changing(const struct server *s, uint32_t i);
void server_destroy(struct server **s);

#endif
