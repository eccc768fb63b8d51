/* server/api/parse_job.c - see parse_job.h. */
#include "server/api/parse_job.h"

#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/base/hold.h"
#include "core/base/mem.h"
#include "server/api/constraint_cache.h"
#include "server/api/engine_client.h"
#include "server/auth/tenants.h"
#include "server/http/http.h"
#include "server/http/retry_after.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

/* A body up to here is prepared on the I/O thread, if so many steps are enough: a millisecond or
 * two. Else it is done over by a pool. */
#define INLINE_BODY ((size_t)8 << 10)
#define INLINE_STEPS 50000
/* From here on what parsing leaves in the allocator is given back at once. */
#define LARGE_BODY ((size_t)1 << 20)

void parse_job_refuse_plainly(struct parse_job *in, const struct api_error *e,
                              enum rejection reason)
{
    struct metrics *m = in->engine->metrics;

    m->outcomes[OUTCOME_REJECTED]++;
    m->rejections[reason]++;
    if (in->call == NULL)
        return;
    http_call_reply_error(in->call, e);
    in->call = NULL;
}

void parse_job_refuse(struct parse_job *in, const struct api_error *e, enum rejection reason)
{
    if (in->call != NULL)
        engine_client_set_retry_headers(in->engine, in->call, e->status, in->parsed.n_choices);
    parse_job_refuse_plainly(in, e, reason);
}

void parse_job_refuse_early(struct engine_client *d, struct http_call *call,
                            const struct api_error *e)
{
    d->metrics->outcomes[OUTCOME_REJECTED]++;
    if (e->status != 500) /* lack of memory is no reason of the client's */
        d->metrics->rejections[e->status == 429 ? REJECTION_QUEUE_FULL : REJECTION_DRAINING]++;
    engine_client_set_retry_headers(d, call, e->status, 1);
    http_call_reply_error(call, e);
}

static uint64_t deadline_of(const struct parse_job *in)
{
    const uint64_t wanted = in->parsed.params.deadline_ms;

    return wanted > 0 ? in->arrival_us + wanted * 1000 : 0;
}

static uint64_t timeout_of(const struct parse_job *in)
{
    return in->arrival_us + (uint64_t)in->engine->model->request_timeout_s * 1000000;
}

static uint64_t queue_until(const struct parse_job *in)
{
    uint64_t ms = in->parsed.params.max_queue_ms;

    if (ms == 0)
        ms = in->engine->model->max_queue_ms;
    return ms > 0 ? in->arrival_us + ms * 1000 : 0;
}

/* ---- the key ---- */

/* What they may take at most. */
static uint64_t n_tokens(const struct parse_job *in)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < in->parsed.n_choices; i++)
        n += (uint64_t)in->parsed.requests[i]->n_prompt + in->parsed.requests[i]->max_tokens;
    return n;
}

bool parse_job_check_key(struct parse_job *in)
{
    struct api_error e;
    uint64_t wait = 0;

    if (in->key == NULL ||
        key_check(in->key, in->parsed.n_choices, n_tokens(in), clock_us(), &wait, &e) == 0)
        return true;
    if (wait > 0) {
        retry_after_set(in->call, (uint32_t)((wait + 999) / 1000));
        parse_job_refuse_plainly(in, &e, REJECTION_RATE_LIMIT);
    } else {
        parse_job_refuse(in, &e, e.status == 429 ? REJECTION_RATE_LIMIT : REJECTION_INVALID);
    }
    return false;
}

void parse_job_begin_key(struct parse_job *in)
{
    if (in->key != NULL)
        key_begin(in->key, in->parsed.n_choices, n_tokens(in), clock_us(), &in->use);
}

void parse_job_end_key(struct parse_job *in, uint64_t n)
{
    key_end(&in->use, n, clock_us());
}

/* ---- requests ---- */

static uint32_t weight_of(const struct parse_job *in, uint32_t place)
{
    if (in->key != NULL && in->key->spec.weight > 0)
        return in->key->spec.weight;
    return tenants_weight(in->engine->tenants, place);
}

uint32_t parse_job_fill_requests(struct parse_job *in)
{
    struct tenants *t = in->engine->tenants;
    const uint32_t place = tenants_place(t, in->tenant);

    for (uint32_t i = 0; i < in->parsed.n_choices; i++) {
        struct request *r = in->parsed.requests[i];

        r->arrival_us = in->arrival_us;
        r->deadline_us = deadline_of(in);
        r->timeout_us = timeout_of(in);
        r->queue_until_us = queue_until(in);
        r->tenant = place;
        r->weight = weight_of(in, place);
    }
    return place;
}

/* ---- preparation ---- */

/* A spec above the key's ceiling is lowered to it, not refused. */
static void lower_priority(struct parsed_request *p, enum priority most)
{
    if (p->params.priority <= most)
        return;
    p->params.priority = most;
    for (uint32_t i = 0; p->requests != NULL && i < p->n_choices; i++)
        if (p->requests[i] != NULL)
            p->requests[i]->priority = most;
}

static void refuse_memory(struct parsed_request *p, int rc)
{
    if (rc < 0)
        p->reason = REJECTION_MEMORY;
}

static void after_parse(struct parse_job *in)
{
    struct parsed_request *p = &in->parsed;

    buf_release(&in->body);
    if (p->error.status == 0)
        refuse_memory(p, request_memory_set(in->engine->memory, &in->share,
                                            request_memory_of_parsed(p), &p->error));
    if (p->error.status != 0)
        request_memory_release(&in->share);
    if (in->key != NULL)
        lower_priority(p, in->key->spec.max_priority);
    in->engine->metrics->unknown_fields += p->params.n_unknown;
    if (in->call != NULL && p->error.status != 0)
        parse_job_refuse(in, &p->error, p->reason);
    in->ready(in);
}

static void do_parse(struct parse_job *in, uint64_t steps)
{
    in->budget = (struct budget){.steps_left = steps, .canceled = &in->job.canceled};
    request_parse(&in->parsed, in->engine->model, in->wire_format, &in->body, &in->headers,
                  &in->budget);
}

static void on_work(struct worker_job *job)
{
    struct parse_job *in = list_entry(job, struct parse_job, job);

    hold_here("QUIRE_DEBUG_HOLD_PREPARE");
    if (!atomic_load(&job->canceled))
        do_parse(in, BUDGET_REQUEST_STEPS);
    if (in->body.len > LARGE_BODY) /* its JSON was in small pieces */
        mem_trim();
}

static void after_work(struct worker_job *job)
{
    struct parse_job *in = list_entry(job, struct parse_job, job);

    after_parse(in);
}

static void post(struct parse_job *in, struct worker_pool *pool)
{
    in->job.work = on_work;
    in->job.done = after_work;
    in->job.owner = XXH3_64bits(in->tenant, strlen(in->tenant));
    if (worker_pool_post(pool, &in->job) == 0)
        return;
    api_error_set(&in->parsed.error, 429, NULL, "queue_full",
                  "too many requests are being prepared");
    in->parsed.reason = REJECTION_QUEUE_FULL;
    after_parse(in);
}

/* At once, if a moment is enough; false: it is not. */
static bool parse_inline(struct parse_job *in)
{
    if (in->body.len > INLINE_BODY)
        return false;
    do_parse(in, INLINE_STEPS);
    if (budget_error(&in->budget) != ERR_LIMIT)
        return true;
    parsed_request_release(&in->parsed);
    return false;
}

/* Copies: the call may be gone before they are read. One that is cut stays too long. */
static const char *copy_header(const struct http_call *call, const char *name, char *buf,
                               size_t size)
{
    const char *value = name != NULL && name[0] != '\0' ? http_call_header(call, name) : NULL;

    snprintf(buf, size, "%s", value != NULL ? value : "");
    return value != NULL ? buf : NULL;
}

static void take_headers(struct parse_job *in)
{
    const struct server_options *server = in->engine->server;

    snprintf(in->request_id, sizeof(in->request_id), "%s", http_call_id(in->call));
    in->headers.tenant_header = server->tenant_header;
    in->headers.salt_seed = server->salt_seed;
    in->headers.priority =
        copy_header(in->call, "X-Priority", in->priority, sizeof(in->priority));
    if (in->key == NULL) {
        in->headers.tenant =
            copy_header(in->call, server->tenant_header, in->tenant, sizeof(in->tenant));
        return;
    }
    snprintf(in->tenant, sizeof(in->tenant), "%s", in->key->spec.tenant);
    in->headers.tenant = in->tenant;
}

void parse_job_start(struct parse_job *in, struct engine_client *d, struct http_call *call,
                     const struct wire_format *wire_format, void (*ready)(struct parse_job *in))
{
    int rc;

    *in = (struct parse_job){.engine = d,
                             .call = call,
                             .wire_format = wire_format,
                             .arrival_us = clock_us(),
                             .ready = ready};
    in->key = key_ref(http_call_owner(call));
    in->access = access_ref(http_call_access(call));
    in->body = http_call_take_body(call);
    take_headers(in);
    rc = request_memory_set(d->memory, &in->share,
                            request_memory_of_body(in->body.data, in->body.len), &in->parsed.error);
    refuse_memory(&in->parsed, rc);
    if (rc < 0)
        after_parse(in);
    else if (constraint_cache_is_mentioned(in->body.data, in->body.len))
        post(in, d->constraint_pool);
    else if (parse_inline(in))
        after_parse(in);
    else
        post(in, d->text_pool);
}

void parse_job_leave(struct parse_job *in)
{
    in->call = NULL;
    worker_job_cancel(&in->job);
}

void parse_job_grow(struct parse_job *in, uint64_t bytes)
{
    request_memory_grow(&in->share, bytes);
}

void parse_job_release(struct parse_job *in)
{
    request_memory_release(&in->share);
    parsed_request_release(&in->parsed);
    buf_release(&in->body);
    parse_job_end_key(in, 0);
    key_unref(in->key);
    access_work_end(in->access, in->has_report ? &in->report : NULL);
}
