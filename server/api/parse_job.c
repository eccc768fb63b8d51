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

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

/* A body up to here is prepared on the I/O thread, if so many steps are enough: a millisecond or
 * two. Else it is done over by a pool. */
#define INLINE_BODY ((size_t)8 << 10)
#define INLINE_STEPS 50000
/* From here on what parsing leaves in the allocator is given back at once. */
#define LARGE_BODY ((size_t)1 << 20)

void intake_refuse_plainly(struct intake *in, const struct api_error *e, enum rejection reason)
{
    struct metrics *m = in->desk->metrics;

    m->outcomes[OUTCOME_REJECTED]++;
    m->rejections[reason]++;
    if (in->call == NULL)
        return;
    http_call_reply_error(in->call, e);
    in->call = NULL;
}

void intake_refuse(struct intake *in, const struct api_error *e, enum rejection reason)
{
    if (in->call != NULL)
        desk_set_retry_headers(in->desk, in->call, e->status, in->prepared.n_choices);
    intake_refuse_plainly(in, e, reason);
}

void intake_refuse_early(struct desk *d, struct http_call *call, const struct api_error *e)
{
    d->metrics->outcomes[OUTCOME_REJECTED]++;
    if (e->status != 500) /* lack of memory is nobody's reason */
        d->metrics->rejections[e->status == 429 ? REJECTION_QUEUE_FULL : REJECTION_DRAINING]++;
    desk_set_retry_headers(d, call, e->status, 1);
    http_call_reply_error(call, e);
}

static uint64_t deadline_of(const struct intake *in)
{
    const uint64_t wanted = in->prepared.params.deadline_ms;

    return wanted > 0 ? in->arrival_us + wanted * 1000 : 0;
}

static uint64_t timeout_of(const struct intake *in)
{
    return in->arrival_us + (uint64_t)in->desk->model->request_timeout_s * 1000000;
}

static uint64_t queue_until(const struct intake *in)
{
    uint64_t ms = in->prepared.params.max_queue_ms;

    if (ms == 0)
        ms = in->desk->model->max_queue_ms;
    return ms > 0 ? in->arrival_us + ms * 1000 : 0;
}

/* ---- the key ---- */

/* What they may take at most. */
static uint64_t n_tokens(const struct intake *in)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < in->prepared.n_choices; i++)
        n += (uint64_t)in->prepared.requests[i]->n_prompt + in->prepared.requests[i]->max_tokens;
    return n;
}

bool intake_check_key(struct intake *in)
{
    struct api_error e;
    uint64_t wait = 0;

    if (in->key == NULL ||
        key_check(in->key, in->prepared.n_choices, n_tokens(in), clock_us(), &wait, &e) == 0)
        return true;
    if (wait > 0) {
        desk_say_when(in->call, (uint32_t)((wait + 999) / 1000));
        intake_refuse_plainly(in, &e, REJECTION_RATE_LIMIT);
    } else {
        intake_refuse(in, &e, e.status == 429 ? REJECTION_RATE_LIMIT : REJECTION_INVALID);
    }
    return false;
}

void intake_begin_key(struct intake *in)
{
    if (in->key != NULL)
        key_begin(in->key, in->prepared.n_choices, n_tokens(in), clock_us(), &in->use);
}

void intake_end_key(struct intake *in, uint64_t n)
{
    key_end(&in->use, n, clock_us());
}

/* ---- requests ---- */

static uint32_t weight_of(const struct intake *in, uint32_t place)
{
    if (in->key != NULL && in->key->spec.weight > 0)
        return in->key->spec.weight;
    return tenants_weight(in->desk->tenants, place);
}

uint32_t intake_fill_requests(struct intake *in)
{
    struct tenants *t = in->desk->tenants;
    const uint32_t place = tenants_place(t, in->tenant);

    for (uint32_t i = 0; i < in->prepared.n_choices; i++) {
        struct request *r = in->prepared.requests[i];

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

/* A wish above the key's ceiling is lowered to it, not refused. */
static void lower_priority(struct prepared *p, enum priority most)
{
    if (p->params.priority <= most)
        return;
    p->params.priority = most;
    for (uint32_t i = 0; p->requests != NULL && i < p->n_choices; i++)
        if (p->requests[i] != NULL)
            p->requests[i]->priority = most;
}

static void refuse_memory(struct prepared *p, int rc)
{
    if (rc < 0)
        p->reason = REJECTION_MEMORY;
}

static void after_prepare(struct intake *in)
{
    struct prepared *p = &in->prepared;

    buf_release(&in->body);
    if (p->error.status == 0)
        refuse_memory(p, request_memory_set(in->desk->memory, &in->share,
                                            request_memory_of_prepared(p), &p->error));
    if (p->error.status != 0)
        request_memory_release(&in->share);
    if (in->key != NULL)
        lower_priority(p, in->key->spec.max_priority);
    in->desk->metrics->unknown_fields += p->params.n_unknown;
    if (in->call != NULL && p->error.status != 0)
        intake_refuse(in, &p->error, p->reason);
    in->ready(in);
}

static void do_prepare(struct intake *in, uint64_t steps)
{
    in->budget = (struct budget){.steps_left = steps, .canceled = &in->job.canceled};
    prepare(&in->prepared, in->desk->model, in->dialect, &in->body, &in->headers, &in->budget);
}

static void on_work(struct worker_job *job)
{
    struct intake *in = list_entry(job, struct intake, job);

    hold_here("QUIRE_DEBUG_HOLD_PREPARE");
    if (!atomic_load(&job->canceled))
        do_prepare(in, BUDGET_REQUEST_STEPS);
    if (in->body.len > LARGE_BODY) /* its JSON was in small pieces */
        mem_trim();
}

static void after_work(struct worker_job *job)
{
    struct intake *in = list_entry(job, struct intake, job);

    after_prepare(in);
}

static void post(struct intake *in, struct worker_pool *pool)
{
    in->job.work = on_work;
    in->job.done = after_work;
    in->job.owner = XXH3_64bits(in->tenant, strlen(in->tenant));
    if (worker_pool_post(pool, &in->job) == 0)
        return;
    api_error_set(&in->prepared.error, 429, NULL, "queue_full",
                  "too many requests are being prepared");
    in->prepared.reason = REJECTION_QUEUE_FULL;
    after_prepare(in);
}

/* At once, if a moment is enough; false: it is not. */
static bool prepare_inline(struct intake *in)
{
    if (in->body.len > INLINE_BODY)
        return false;
    do_prepare(in, INLINE_STEPS);
    if (budget_error(&in->budget) != ERR_LIMIT)
        return true;
    prepare_release(&in->prepared);
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

static void take_headers(struct intake *in)
{
    const struct server_options *house = in->desk->house;

    snprintf(in->request_id, sizeof(in->request_id), "%s", http_call_id(in->call));
    in->headers.tenant_header = house->tenant_header;
    in->headers.salt_seed = house->salt_seed;
    in->headers.priority =
        copy_header(in->call, "X-Priority", in->priority, sizeof(in->priority));
    if (in->key == NULL) {
        in->headers.tenant =
            copy_header(in->call, house->tenant_header, in->tenant, sizeof(in->tenant));
        return;
    }
    snprintf(in->tenant, sizeof(in->tenant), "%s", in->key->spec.tenant);
    in->headers.tenant = in->tenant;
}

void intake_start(struct intake *in, struct desk *d, struct http_call *call,
                  const struct dialect *dialect, void (*ready)(struct intake *in))
{
    int rc;

    *in = (struct intake){
        .desk = d, .call = call, .dialect = dialect, .arrival_us = clock_us(), .ready = ready};
    in->key = key_ref(http_call_key(call));
    in->access = access_ref(http_call_access(call));
    in->body = http_call_take_body(call);
    take_headers(in);
    rc = request_memory_set(d->memory, &in->share,
                            request_memory_of_body(in->body.data, in->body.len),
                            &in->prepared.error);
    refuse_memory(&in->prepared, rc);
    if (rc < 0)
        after_prepare(in);
    else if (constrain_is_mentioned(in->body.data, in->body.len))
        post(in, d->constraint_pool);
    else if (prepare_inline(in))
        after_prepare(in);
    else
        post(in, d->text_pool);
}

void intake_leave(struct intake *in)
{
    in->call = NULL;
    worker_job_cancel(&in->job);
}

void intake_grow(struct intake *in, uint64_t bytes)
{
    request_memory_grow(&in->share, bytes);
}

void intake_release(struct intake *in)
{
    request_memory_release(&in->share);
    prepare_release(&in->prepared);
    buf_release(&in->body);
    intake_end_key(in, 0);
    key_unref(in->key);
    access_work_end(in->access, in->has_report ? &in->report : NULL);
}
