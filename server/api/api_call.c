/* server/api/api_call.c - see api_call.h.
 *
 * Times of a request count from the call's arrival. The headers that parsing needs are copied,
 * since the HTTP call may be gone before a pool thread reads them.
 */
#include "server/api/api_call.h"

#include "core/base/clock.h"
#include "server/api/engine_client.h"
#include "server/api/refusal.h"
#include "server/api/response/response_writer.h"
#include "server/auth/auth.h"
#include "server/auth/tenants.h"
#include "server/http/http_call.h"
#include "server/http/proxy_headers.h"
#include "server/storage/usage_ledger.h"

#include <stdio.h>

/* ---- the call ---- */

void api_call_refuse(struct api_call *api, struct refusal *why)
{
    refusal_send(why, api->engine, api->call, api->request.n_choices);
    api->call = NULL;
}

/* Copy a header's value, or return NULL. A value that does not fit is cut, and remains too long to
 * pass the checks. */
static const char *copy_header(const char *value, char *buf, size_t size)
{
    snprintf(buf, size, "%s", value != NULL ? value : "");
    return value != NULL ? buf : NULL;
}

/* A restored call gets the values that an earlier process read from its headers. */
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
    const struct server_options *server = api->engine->shared->options;

    snprintf(api->request_id, sizeof(api->request_id), "%s", http_call_id(api->call));
    api->headers.objectives = server->objectives;
    api->headers.objective = copy_header(proxy_header(api->call, PROXY_OBJECTIVE), api->objective,
                                         sizeof(api->objective));
    api->headers.ttft_ms =
        copy_header(proxy_header(api->call, PROXY_TTFT_MS), api->ttft_ms, sizeof(api->ttft_ms));
    api->headers.salt_seed = server->salt_seed;
    api->headers.keeps = api->engine->shared->keeper != NULL;
    api->headers.keeps_streams = api->engine->shared->streams != NULL;
    api->headers.resumable = api->headers.keeps_streams && server->resumable_streams;
    api->headers.resume_tokens = http_call_header(api->call, "X-Resume-Tokens") != NULL;
    take_restored(api);
    api->headers.priority = copy_header(http_call_header(api->call, "X-Priority"), api->priority,
                                        sizeof(api->priority));
    auth_tenant(api->call, server->tenant_header, api->tenant, sizeof(api->tenant));
    api->headers.tenant = api->tenant;
}

void api_call_init(struct api_call *api, struct engine_client *engine, struct http_call *call,
                   const struct wire_format *wire_format)
{
    *api = (struct api_call){.engine = engine,
                             .call = call,
                             .wire_format = wire_format,
                             .arrival_us = http_call_arrival_us(call)};
    engine_client_begin_job(engine);
    api->is_local = http_call_is_local(call);
    api->key = key_ref(http_call_owner(call));
    api->access = access_ref(http_call_access(call));
    api->body = http_call_take_body(call);
    take_headers(api);
}

void api_call_release(struct api_call *api)
{
    engine_client_end_job(api->engine);
    request_memory_release(&api->share);
    api_request_release(&api->request);
    buf_release(&api->body);
    buf_release(&api->kept);
    api_call_end_key(api, 0);
    key_unref(api->key);
    access_work_end(api->access, api->has_report ? &api->report : NULL);
}

/* ---- memory ---- */

void api_call_set_memory(struct api_call *api, uint64_t bytes)
{
    struct api_request *p = &api->request;

    if (request_memory_set(api->engine->shared->memory, &api->share, bytes, &p->error) < 0)
        p->reason = REJECTION_MEMORY;
}

void api_call_grow(struct api_call *api, uint64_t bytes)
{
    request_memory_grow(&api->share, bytes);
}

void api_call_drop_body(struct api_call *api)
{
    if (api->body.data == NULL)
        return;
    buf_release(&api->body);
    /* cannot fail, because the memory becomes less */
    api_call_set_memory(api, request_memory_of_parsed(&api->request));
}

/* ---- limits ---- */

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

/* A priority above the highest that is allowed is lowered to it, not refused. */
static void lower_priority(struct api_request *p, enum priority most)
{
    if (p->params.priority <= most)
        return;
    p->params.priority = most;
    for (uint32_t i = 0; i < p->n_choices; i++)
        p->requests[i]->priority = most;
}

void api_call_set_limits(struct api_call *api)
{
    if (api->key != NULL)
        lower_priority(&api->request, api->key->spec.max_priority);
    if (api->is_local && api->headers.restored == NULL)
        lower_priority(&api->request, PRIORITY_LOW);
    set_times(api);
}

/* ---- accounts ---- */

uint32_t api_call_set_tenant(struct api_call *api)
{
    struct tenants *t = api->engine->shared->tenants;
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

void api_call_begin_key(struct api_call *api)
{
    if (api->key != NULL)
        key_begin(api->key, api->request.n_choices, api_request_n_tokens(&api->request), clock_us(),
                  &api->use);
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

    usage_ledger_add(api->engine->shared->usage,
                     api->key != NULL ? api->key->spec.name : api->tenant,
                     (int32_t)(clock_unix_s() / 86400), &more);
}
