/* server/api/parse_job.h - from the body of a call to checked requests: the first half of
 * everything that is asked in the form of a completion.
 *
 * body -> JSON -> params -> tokens -> requests: a pure function of the body and two headers. The
 * I/O thread does it for a short body as long as a moment's budget allows; else threads of a pool
 * do: those of constraint_pool for bodies that ask for a constraint, those of text_pool for others.
 * What is refused is answered here. Embedded as the first member of what goes on with it (a
 * completion, a dry run).
 *
 * Thread: the loop's, except the preparation.
 * Memory: bounded by max_body, and by 128 choices of at most max_context tokens.
 */
#ifndef SERVER_API_PARSE_JOB_H
#define SERVER_API_PARSE_JOB_H

#include <stdint.h>

#include "config/weights.h"
#include "core/base/budget.h"
#include "server/api/request_memory.h"
#include "server/api/request_parse.h"
#include "server/auth/api_keys.h"
#include "server/http/access_log.h"
#include "server/process/worker_pool.h"

struct engine_client;
struct wire_format;
struct http_call;

struct parse_job {
    struct engine_client *engine;
    struct http_call *call; /* NULL once it is answered or its client has gone (parse_job_leave) */
    uint64_t arrival_us;
    char request_id[132];
    struct parsed_request parsed;
    const struct wire_format *wire_format;
    struct access_work report; /* for the log; */
    bool has_report;           /* then this says so */
    /* private */
    struct key *key; /* held; NULL = the server has no keys */
    struct key_use use;
    struct access *access;
    void (*ready)(struct parse_job *in);
    struct worker_job job;
    struct budget budget;
    struct memory_share share;
    struct buf body;
    char priority[16], tenant[WEIGHTS_MAX_NAME + 2];
    struct request_parse_headers headers;
};

/* Begin: `ready` is called on the loop's thread, perhaps before this returns. Then either
 * in->call is NULL, and nothing is left to do but to end, or the requests are prepared. */
void parse_job_start(struct parse_job *in, struct engine_client *d, struct http_call *call,
                     const struct wire_format *wire_format, void (*ready)(struct parse_job *in));
/* What its answer gathers takes so many bytes more. */
void parse_job_grow(struct parse_job *in, uint64_t bytes);

/* The client has gone: preparing stops, and `ready` comes soon if it has not yet. */
void parse_job_leave(struct parse_job *in);
void parse_job_release(struct parse_job *in);

/* Fill in what the requests still lack but id and prefix owner: times, and the place and weight of
 * their tenant; returns the place. Only good until the loop's next turn, unless they are posted. */
uint32_t parse_job_fill_requests(struct parse_job *in);

/* May the requests begin, as far as the limits of their key go? If not, they have been refused. */
bool parse_job_check_key(struct parse_job *in);
/* They begin, at once after that, and have all ended, with so many tokens in truth. */
void parse_job_begin_key(struct parse_job *in);
void parse_job_end_key(struct parse_job *in, uint64_t n_tokens);

/* Answer with a refusal, with the headers that belong to its status, and count it. */
void parse_job_refuse(struct parse_job *in, const struct api_error *e, enum rejection reason);
/* The same without such headers: they were set already. */
void parse_job_refuse_plainly(struct parse_job *in, const struct api_error *e,
                              enum rejection reason);

/* Answer a call for which there is no parse job yet. */
void parse_job_refuse_early(struct engine_client *d, struct http_call *call,
                            const struct api_error *e);

#endif
