/* server/api/api_call.h - a call's client, arrival, limits and api_request: the part of a
 * completion (completion.h) that uses HTTP, keys and tenants. completion_parse.c fills in the
 * api_request. The functions charge the call to its key, its tenant, the memory outside the KV
 * cache and the access log.
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

struct engine_client;
struct http_call;
struct refusal;
struct wire_format;

struct api_call {
    struct engine_client *engine;
    struct http_call *call; /* NULL once it is answered or its client has disconnected */
    uint64_t arrival_us;
    char request_id[132];
    struct api_request request;
    const struct wire_format *wire_format; /* wire format of the route; request.wire_format is that
                                            * of the body */
    struct key *key;                       /* held; NULL: the server has no keys */
    struct access_work report;             /* for the access log, if has_report */
    bool has_report;
    struct buf body; /* empty once it is parsed, unless engine->shared->requests may save it */
    /* private */
    struct key_use use;
    struct access *access;
    struct worker_job job; /* parses the body; later it renders a large answer */
    struct budget budget;
    struct memory_share share;
    bool is_constrained; /* the constraint pool parses the body, else the text pool */
    bool is_local;       /* the server itself made the call: its requests get the lowest priority */
    struct adapter_wait adapter_wait;
    struct list adapter_link;    /* of engine_client.adapter_waits while it waits */
    struct worker_job look_up; /* reads the kept responses that the call continues */
    struct response_wish wish;
    struct buf kept;
    struct api_error kept_error;
    char priority[16], tenant[WEIGHTS_MAX_NAME + 2];
    char objective[OBJECTIVES_MAX_NAME + 2], ttft_ms[32];
    struct api_headers headers;
};

/* Fill in the members that follow from the call's head, and take its body. The call counts as a job
 * of the engine client until api_call_release(). */
void api_call_init(struct api_call *api, struct engine_client *engine, struct http_call *call,
                   const struct wire_format *wire_format);
void api_call_release(struct api_call *api);

/* Replace the memory that the call holds by this many bytes. If there is no room for them,
 * request.error is set. */
void api_call_set_memory(struct api_call *api, uint64_t bytes);
/* Add bytes to the memory that the call holds, for text of the answer that has not been sent. */
void api_call_grow(struct api_call *api, uint64_t bytes);
/* Free the body, which is not needed any more. */
void api_call_drop_body(struct api_call *api);
/* Give the parsed requests their times, and lower a priority above the highest one allowed. */
void api_call_set_limits(struct api_call *api);

/* Answer with a refusal and count it. */
void api_call_refuse(struct api_call *api, struct refusal *why);

/* Set the index and weight of the tenant in the requests. Returns the index, which is valid until
 * the loop's next turn, or while requests of that tenant are posted. */
uint32_t api_call_set_tenant(struct api_call *api);

/* api_call_begin_key() charges the key, when the requests begin, with the most tokens that they may
 * take; api_call_end_key() corrects the charge, when all have ended, to the tokens that they
 * took. */
void api_call_begin_key(struct api_call *api);
void api_call_end_key(struct api_call *api, uint64_t n_tokens);
/* Add the use of one ended choice to the account of the key, or of the tenant. */
void api_call_bill(struct api_call *api, uint64_t n_prompt, const struct usage *used);

#endif
