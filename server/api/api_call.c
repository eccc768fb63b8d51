/* server/api/api_call.c - see api_call.h. */
#include "server/api/api_call_impl.h"

#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/base/hold.h"
#include "core/base/mem.h"
#include "server/api/body_scan.h"
#include "server/api/engine_client.h"
#include "server/api/refusal.h"
#include "server/api/response/response_writer.h"
#include "server/auth/auth.h"
#include "server/auth/tenants.h"
#include "server/storage/usage_ledger.h"
#include "server/http/http_call.h"
#include "server/http/proxy_headers.h"
#include "server/process/loop_guard.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

/* A body up to here is parsed on the I/O thread, if so many steps are enough: a millisecond or
 * two. Else a pool starts it again. */
#define INLINE_BODY ((size_t)8 << 10)
#define INLINE_STEPS 50000
/* From this size on, freed memory is given back to the system right after parsing. */
#define LARGE_BODY ((size_t)1 << 20)

void api_call_refuse(struct api_call *api, struct refusal *why)
{
    refusal_send(why, api->engine, api->call, api->request.n_choices);
    api->call = NULL;
}

/* ---- requests ---- */

static uint64_t deadline_of(const struct api_call *api)
{
    const uint64_t wanted = api->request.params.deadline_ms;

    return wanted > 0 ? api->arrival_us + wanted * 1000 : 0;
}

static uint64_t first_by(const struct api_call *api)
{
    const uint64_t wanted = api->request.params.ttft_ms;

    return wanted > 0 ? api->arrival_us + wanted * 1000 : 0;
}

static uint64_t timeout_of(const struct api_call *api)
{
    return api->arrival_us + (uint64_t)api->engine->model->request_timeout_s * 1000000;
}

static uint64_t queue_until(const struct api_call *api)
{
    uint64_t ms = api->request.params.max_queue_ms;

    if (ms == 0)
        ms = api->engine->model->max_queue_ms;
    return ms > 0 ? api->arrival_us + ms * 1000 : 0;
}

static void set_times(struct api_call *api)
{
    for (uint32_t i = 0; i < api->request.n_choices; i++) {
        struct request *r = api->request.requests[i];

        r->arrival_us = api->arrival_us;
        r->deadline_us = deadline_of(api);
        r->first_by_us = first_by(api);
        r->timeout_us = timeout_of(api);
        r->queue_until_us = queue_until(api);
    }
}

uint32_t api_call_set_tenant(struct api_call *api)
{
    struct tenants *t = api->engine->tenants;
    const uint32_t tenant = tenants_index(t, api->tenant);
    uint32_t weight = tenants_weight(t, tenant);

    if (api->key != NULL && api->key->spec.weight > 0)
        weight = api->key->spec.weight;
    for (uint32_t i = 0; i < api->request.n_choices; i++) {
        api->request.requests[i]->tenant = tenant;
        api->request.requests[i]->weight = weight;
    }
    return tenant;
}

int api_call_probe(struct api_call *api, struct engine_probe *probe,
                   void (*done)(struct engine_probe *p))
{
    const struct params *p = &api->request.params;

    *probe = (struct engine_probe){.client.request_id = api->request_id, .done = done};
    return engine_probe_start(probe, api->engine, api->request.requests, p->n_prompts, p->n_each);
}

void api_call_begin_key(struct api_call *api)
{
    if (api->key != NULL)
        key_begin(api->key, api->request.n_choices, api_request_n_tokens(&api->request),
                  clock_us(), &api->use);
}

void api_call_end_key(struct api_call *api, uint64_t n_tokens)
{
    key_end(&api->use, n_tokens, clock_us());
}

void api_call_bill(struct api_call *api, uint64_t n_prompt, const struct usage *used)
{
    const struct usage_amounts more = {.requests = 1,
                                       .prompt_tokens = n_prompt,
                                       .engine = *used,
                                       .cpu_us = used->compute_us * api->engine->model->threads};

    usage_ledger_add(api->engine->usage, api->key != NULL ? api->key->spec.name : api->tenant,
                     (int32_t)(clock_unix_s() / 86400), &more);
}

/* ---- parsing ---- */

/* A priority above the highest that is allowed is lowered to it, not refused. */
static void lower_priority(struct api_request *p, enum priority most)
{
    if (p->params.priority <= most)
        return;
    p->params.priority = most;
    for (uint32_t i = 0; i < p->n_choices; i++)
        p->requests[i]->priority = most;
}

/* What the request holds from here on, in place of what its body did. */
static void set_memory(struct api_call *api, uint64_t bytes)
{
    struct api_request *p = &api->request;

    if (request_memory_set(api->engine->memory, &api->share, bytes, &p->error) < 0)
        p->reason = REJECTION_MEMORY;
}

static void set_limits(struct api_call *api)
{
    if (api->key != NULL)
        lower_priority(&api->request, api->key->spec.max_priority);
    if (api->is_local && api->headers.restored == NULL)
        lower_priority(&api->request, PRIORITY_LOW);
    set_times(api);
}

/* There is nothing left to wait for. */
static void finish_parsing(struct api_call *api)
{
    struct api_request *p = &api->request;

    if (p->error.status != 0) {
        struct refusal why = {.error = p->error,
                              .reason = p->reason,
                              .is_final = p->error.status == 408}; /* the time is over */

        request_memory_release(&api->share);
        if (api->call != NULL)
            api_call_refuse(api, &why);
    }
    api->ready(api);
}

/* Its body may have to be written down (completion_save.c). */
static bool may_be_saved(const struct api_call *api)
{
    return api->engine->requests != NULL && api->headers.restored == NULL &&
           (api->request.params.stream || api->request.params.background) &&
           (api->wire_format->form & PARAMS_SAVED) != 0;
}

void api_call_drop_body(struct api_call *api)
{
    if (api->body.data == NULL)
        return;
    buf_release(&api->body);
    set_memory(api, request_memory_of_parsed(&api->request)); /* less than it was: it cannot fail */
}

static void look_up(struct api_call *api);

static void after_parse(struct api_call *api)
{
    struct api_request *p = &api->request;

    if (p->has_wish && p->error.status == 0 && api->call != NULL) {
        look_up(api);
        return;
    }
    buf_release(&api->kept);
    if (!may_be_saved(api))
        buf_release(&api->body);
    if (p->error.status == 0)
        set_memory(api, request_memory_of_parsed(p) + api->body.cap);
    api->engine->metrics->unknown_fields += p->params.n_unknown;
    if (p->error.status == 0)
        set_limits(api);
    if (p->error.status != 0 || api->call == NULL || api_call_take_adapter(api, finish_parsing))
        finish_parsing(api);
}

static void do_parse(struct api_call *api, uint64_t steps)
{
    api->budget = (struct budget){.steps_left = steps, .canceled = &api->job.canceled};
    api_request_parse(&api->request, api->engine->model, api->wire_format, &api->body,
                      &api->headers, &api->budget);
}

static void on_parse_work(struct worker_job *job)
{
    struct api_call *api = list_entry(job, struct api_call, job);

    hold_here("QUIRE_DEBUG_HOLD_PARSE");
    if (!atomic_load(&job->canceled))
        do_parse(api, BUDGET_REQUEST_STEPS);
    if (api->body.len > LARGE_BODY) /* its JSON was in small pieces */
        mem_trim();
}

static void after_parse_work(struct worker_job *job)
{
    struct api_call *api = list_entry(job, struct api_call, job);

    after_parse(api);
}

static void post(struct api_call *api, struct worker_pool *pool)
{
    api->job.work = on_parse_work;
    api->job.done = after_parse_work;
    api->job.name = "api_call.parsed";
    api->job.owner = XXH3_64bits(api->tenant, strlen(api->tenant));
    if (worker_pool_post(pool, &api->job) == 0)
        return;
    api_error_set(&api->request.error, 429, NULL, "queue_full",
                  "too many requests are being parsed");
    api->request.reason = REJECTION_QUEUE_FULL;
    after_parse(api);
}

/* Parse on this thread; false: it would take too long, by itself or with what was done before in
 * the same callback of the loop. */
static bool parse_inline(struct api_call *api)
{
    if (api->body.len > INLINE_BODY || loop_guard_is_due(api->engine->loop))
        return false;
    do_parse(api, INLINE_STEPS);
    if (budget_error(&api->budget) != ERR_LIMIT)
        return true;
    api_request_release(&api->request);
    return false;
}

/* ---- kept responses ---- */

static void on_look_up(struct response_job *job, struct response_store *store)
{
    struct api_call *api = list_entry(job, struct api_call, look_up);

    response_store_history(store, api->tenant, &api->wish, &api->kept, &api->kept_error);
}

/* Parse again, with what was found. */
static void after_look_up(struct response_job *job)
{
    struct api_call *api = list_entry(job, struct api_call, look_up);
    const struct body_scan body = body_scan(api->body.data, api->body.len),
                           kept = body_scan(api->kept.data, api->kept.len);

    buf_release(&api->wish.items);
    if (api->kept_error.status == 0 && api->call != NULL) {
        set_memory(api, request_memory_of_body(&body) + request_memory_of_body(&kept));
    } else {
        api->request.error = api->kept_error;
        api->request.reason = REJECTION_INVALID;
    }
    if (api->kept_error.status != 0 || api->request.error.status != 0 || api->call == NULL)
        after_parse(api);
    else
        post(api, api->is_constrained ? api->engine->constraint_pool : api->engine->text_pool);
}

static void look_up(struct api_call *api)
{
    api->wish = api->request.wish;
    api->request.wish = (struct response_wish){0};
    api_request_release(&api->request);
    buf_init(&api->kept, 2 * api->engine->server->max_body);
    api->headers.kept = &api->kept;
    api->look_up.work = on_look_up;
    api->look_up.done = after_look_up;
    response_keeper_post(api->engine->keeper, &api->look_up, api->tenant);
}

/* Copies: the call may be gone before they are read. A value that was cut is still too long to pass
 * the checks. */
static const char *copy_header(const char *value, char *buf, size_t size)
{
    snprintf(buf, size, "%s", value != NULL ? value : "");
    return value != NULL ? buf : NULL;
}

/* What an earlier process was told in headers. */
static void take_restored(struct api_call *api)
{
    const struct saved_request *saved = http_call_context(api->call);

    if (saved == NULL)
        return;
    api->headers.restored = saved;
    api->headers.now = saved->begin.now;
    api->headers.resumable = api->headers.keeps_streams;
    api->headers.resume_tokens = saved->begin.tells_tokens;
}

static void take_headers(struct api_call *api)
{
    const struct server_options *server = api->engine->server;

    snprintf(api->request_id, sizeof(api->request_id), "%s", http_call_id(api->call));
    api->headers.objectives = server->objectives;
    api->headers.objective = copy_header(proxy_header(api->call, PROXY_OBJECTIVE), api->objective,
                                         sizeof(api->objective));
    api->headers.ttft_ms = copy_header(proxy_header(api->call, PROXY_TTFT_MS), api->ttft_ms,
                                       sizeof(api->ttft_ms));
    api->headers.salt_seed = server->salt_seed;
    api->headers.keeps = api->engine->keeper != NULL;
    api->headers.keeps_streams = api->engine->streams != NULL;
    api->headers.resumable = api->headers.keeps_streams && server->resumable_streams;
    api->headers.resume_tokens = http_call_header(api->call, "X-Resume-Tokens") != NULL;
    take_restored(api);
    api->headers.priority =
        copy_header(http_call_header(api->call, "X-Priority"), api->priority,
                    sizeof(api->priority));
    auth_tenant(api->call, server->tenant_header, api->tenant, sizeof(api->tenant));
    api->headers.tenant = api->tenant;
}

void api_call_start(struct api_call *api, struct engine_client *engine, struct http_call *call,
                    const struct wire_format *wire_format, const struct body_scan *scan,
                    void (*ready)(struct api_call *api))
{
    *api = (struct api_call){.engine = engine,
                             .call = call,
                             .wire_format = wire_format,
                             .arrival_us = http_call_arrival_us(call),
                             .ready = ready};
    engine_client_begin_job(engine);
    api->is_local = http_call_is_local(call);
    api->key = key_ref(http_call_owner(call));
    api->access = access_ref(http_call_access(call));
    api->body = http_call_take_body(call);
    take_headers(api);
    api->is_constrained = scan->may_be_constrained;
    set_memory(api, request_memory_of_body(scan) + wire_format->answer_bytes * scan->n_bytes);
    if (api->request.error.status != 0)
        after_parse(api);
    else if (scan->may_be_constrained)
        post(api, engine->constraint_pool);
    else if (parse_inline(api))
        after_parse(api);
    else
        post(api, engine->text_pool);
}

void api_call_leave(struct api_call *api)
{
    api->call = NULL;
    worker_job_cancel(&api->job);
    if (api_call_stop_waiting(api))
        finish_parsing(api);
}

void api_call_grow(struct api_call *api, uint64_t bytes)
{
    request_memory_grow(&api->share, bytes);
}

void api_call_release(struct api_call *api)
{
    engine_client_end_job(api->engine);
    request_memory_release(&api->share);
    api_request_release(&api->request);
    buf_release(&api->body);
    api_call_end_key(api, 0);
    key_unref(api->key);
    access_work_end(api->access, api->has_report ? &api->report : NULL);
}
