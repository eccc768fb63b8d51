/* server/api/api_call.h - one call whose body asks for work in the form of a completion: who calls,
 * since when, with which limits, and the api_request that its body becomes.
 *
 * Parsing (body -> JSON -> params -> tokens -> requests) is a pure function of the body and two
 * headers. The I/O thread does it for a short body as long as a moment's budget allows; else
 * threads of a pool do: those of constraint_pool for bodies that ask for a constraint, those of
 * text_pool for others. One that goes on from kept responses is parsed again when these have been
 * looked up. One whose adapter is not in memory waits, without a thread, until that was read. What
 * is refused is answered here. Embedded as the first member of what goes on with it (a completion,
 * a dry run).
 *
 * Thread: the loop's, except parsing.
 * Memory: bounded by max_body, and by 128 choices of at most max_context tokens.
 */
#ifndef SERVER_API_API_CALL_H
#define SERVER_API_API_CALL_H

#include <stdint.h>

#include "config/objectives.h"
#include "config/weights.h"
#include "core/base/budget.h"
#include "server/adapters/adapter_set.h"
#include "server/api/api_request.h"
#include "server/api/request_memory.h"
#include "server/auth/api_keys.h"
#include "server/http/access_log.h"
#include "server/process/worker_pool.h"
#include "server/storage/saved_requests.h"
#include "server/storage/response_keeper.h"

struct body_scan;
struct engine_client;
struct engine_probe;
struct http_call;
struct refusal;
struct wire_format;

struct api_call {
    struct engine_client *engine;
    struct http_call *call; /* NULL once it is answered or its client has gone (api_call_leave) */
    uint64_t arrival_us;
    char request_id[132];
    struct api_request request;
    const struct wire_format *wire_format;
    struct key *key;           /* held; NULL = the server has no keys */
    struct access_work report; /* for the log; */
    bool has_report;           /* then this says so */
    struct buf body;           /* empty once it is parsed, but where engine->requests may want it */
    /* private */
    struct key_use use;
    struct access *access;
    void (*ready)(struct api_call *api);
    struct worker_job job;
    struct budget budget;
    struct memory_share share;
    bool is_constrained;         /* who parses it */
    bool is_local;               /* the server's own work: it goes last */
    struct adapter_wait adapter_wait;
    struct list adapter_link; /* then: of engine_client.adapter_waits, and it calls */
    void (*adapted)(struct api_call *api);
    struct response_job look_up; /* of what it goes on from */
    struct response_wish wish;
    struct buf kept;
    struct api_error kept_error;
    char priority[16], tenant[WEIGHTS_MAX_NAME + 2];
    char objective[OBJECTIVES_MAX_NAME + 2], ttft_ms[32];
    struct api_headers headers;
};

/* Begin, with the call's body: `ready` is called on the loop's thread, perhaps before this returns.
 * Then either api->call is NULL, and nothing is left to do but to end, or the requests are complete
 * but for id, prefix owner and tenant. */
void api_call_start(struct api_call *api, struct engine_client *engine, struct http_call *call,
                    const struct wire_format *wire_format, const struct body_scan *scan,
                    void (*ready)(struct api_call *api));
/* The body is of no more use. */
void api_call_drop_body(struct api_call *api);
/* Its client has gone: parsing stops, and so does a wait for an adapter. `ready` comes soon if it
 * has not yet, perhaps before this returns. */
void api_call_leave(struct api_call *api);
void api_call_release(struct api_call *api);

/* Answer with a refusal and count it. */
void api_call_refuse(struct api_call *api, struct refusal *why);

/* The requests get the index and weight of their tenant; returns the index. Only good until the
 * loop's next turn, unless they are posted. */
uint32_t api_call_set_tenant(struct api_call *api);

/* Ask the engine what each prompt would find, by its first request. 0, or ERR_NOMEM. */
int api_call_probe(struct api_call *api, struct engine_probe *probe,
                   void (*done)(struct engine_probe *p));

/* The requests begin: their key pays for all that they may take. They have all ended, with so many
 * tokens in truth. */
void api_call_begin_key(struct api_call *api);
void api_call_end_key(struct api_call *api, uint64_t n_tokens);
/* One of its choices has ended: what it used goes to the key's account, or the tenant's. */
void api_call_bill(struct api_call *api, uint64_t n_prompt, const struct usage *used);

/* What its answer gathers takes so many bytes more. */
void api_call_grow(struct api_call *api, uint64_t bytes);

#endif
