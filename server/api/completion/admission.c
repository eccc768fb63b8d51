/* server/api/completion/admission.c - see admission.h.
 *
 * Limits are checked in the order of the header, and the first that fails is the answer. A deadline
 * is compared with a forecast as if nothing of the prompts were cached; if that is too late, but a
 * full hit in the prefix cache would be in time, the answer is ADMISSION_PROBE: the engine counts
 * the cached tokens, and the call comes here again with them. A refusal is final if even an idle
 * machine would be too late.
 */
#include "server/api/completion/admission.h"

#include "core/base/clock.h"
#include "server/api/api_call.h"
#include "server/api/engine_client.h"
#include "server/auth/tenants.h"
#include "server/http/retry_after.h"

#include <inttypes.h>
#include <stdio.h>

static enum admission refuse_limit(struct refusal *why, enum rejection limit)
{
    why->reason = why->error.status == 429   ? limit
                  : why->error.status == 503 ? REJECTION_DRAINING
                                             : REJECTION_INVALID;
    return ADMISSION_NO;
}

/* ---- keys ---- */

static enum admission check_key(const struct api_call *api, struct refusal *why)
{
    uint64_t wait_us = 0;

    if (api->key == NULL || key_check(api->key, api->request.n_choices,
                                      api_request_n_tokens(&api->request), clock_us(), &wait_us,
                                      &why->error) == 0)
        return ADMISSION_YES;
    why->retry_ms = (uint32_t)((wait_us + 999) / 1000);
    return refuse_limit(why, REJECTION_RATE_LIMIT);
}

/* ---- deadlines ---- */

enum cached { CACHED_NONE = 0, CACHED_ALL, CACHED_FOUND }; /* the prompt tokens that a forecast
                                                            * counts as cached */

static uint32_t n_cached(const struct request *r, enum cached cached, const struct event_probe *e)
{
    switch (cached) {
    case CACHED_NONE:
        return 0;
    case CACHED_ALL:
        return r->n_prompt - 1;
    case CACHED_FOUND:
        return e->n_cached;
    }
    return 0;
}

/* Return the forecast time to compare with the deadline: of the end, or, without max_tokens, of the
 * first token. */
static uint64_t time_of(const struct params *p, const struct forecast *f)
{
    return p->max_tokens == PARAMS_NO_LIMIT ? f->first_us : f->finish_us;
}

uint32_t admission_known_tokens(const struct api_call *api, uint32_t i, uint32_t cached)
{
    const struct server_model *model = api->engine->model;
    const struct request *r = api->request.requests[i * api->request.params.n_each];
    const uint32_t most = request_may_reuse(r);
    uint32_t shared = api->request.prompts[i].n_shared;

    if (!model->shares_prefixes)
        return cached;
    shared = shared < most ? shared : most;
    shared -= shared % model->block_tokens;
    return shared > cached ? shared : cached;
}

/* Predict the microseconds until the answer is complete; 0: unknown. */
static uint64_t predict(const struct api_call *api, enum cached cached,
                        const struct event_probe *found, bool is_idle)
{
    const struct api_request *p = &api->request;
    uint64_t last = 0, ahead = 0;

    for (uint32_t i = 0; i < p->params.n_prompts; i++) {
        const struct request *r = p->requests[i * p->params.n_each];
        const uint32_t n = admission_known_tokens(
            api, i, n_cached(r, cached, found != NULL ? &found[i] : NULL));
        const struct forecast f = is_idle ? engine_client_forecast_idle(api->engine, r, n)
                                          : engine_client_forecast(api->engine, r, n, ahead);

        if (!f.is_known)
            return 0;
        last = time_of(&p->params, &f) > last ? time_of(&p->params, &f) : last;
        ahead += r->n_prompt - n;
    }
    return last > 0 ? last : 1;
}

/* Refuse a deadline: for good if an idle machine would be too late as well; else with the time at
 * which the work ahead will be done. */
static enum admission refuse_deadline(const struct api_call *api, uint64_t us, uint64_t idle_us,
                                      struct refusal *why)
{
    const struct params *p = &api->request.params;
    const uint64_t wanted_us = (uint64_t)p->deadline_ms * 1000;
    char what[48] = "the first token is";

    if ((p->form & PARAMS_MANY) != 0)
        snprintf(what, sizeof(what), "the answer is");
    else if (p->max_tokens != PARAMS_NO_LIMIT)
        snprintf(what, sizeof(what), "the %u tokens asked for are",
                 api->request.requests[0]->max_tokens);
    api_error_set(&why->error, 429, "deadline_ms", "deadline_unreachable",
                  "'deadline_ms' is %u, and %s predicted to take %" PRIu64 " ms",
                  p->deadline_ms, what, (us + 999) / 1000);
    why->is_final = idle_us > wanted_us;
    if (!why->is_final)
        why->retry_ms = retry_after_bound((us - wanted_us + 999) / 1000);
    return refuse_limit(why, REJECTION_DEADLINE);
}

static enum admission check_deadline(const struct api_call *api, const struct event_probe *found,
                                     struct refusal *why)
{
    const uint64_t wanted_us = (uint64_t)api->request.params.deadline_ms * 1000;
    const uint64_t spent_us = clock_us() - api->arrival_us;
    enum cached cached = found != NULL ? CACHED_FOUND : CACHED_NONE;
    uint64_t us;

    if (wanted_us == 0)
        return ADMISSION_YES;
    us = predict(api, cached, found, false);
    if (us == 0 || spent_us + us <= wanted_us)
        return ADMISSION_YES;
    if (cached == CACHED_NONE && api->engine->model->shares_prefixes) {
        cached = CACHED_ALL;
        us = predict(api, cached, found, false);
        if (spent_us + us <= wanted_us)
            return ADMISSION_PROBE;
    }
    return refuse_deadline(api, spent_us + us, predict(api, cached, found, true), why);
}

/* ---- all of it ---- */

enum admission admission_decide(struct engine_client *engine, struct api_call *api,
                                enum admission_for what, const struct event_probe *found,
                                struct refusal *why)
{
    const bool is_dry = what == ADMISSION_FOR_DRY_RUNS;
    const uint32_t n = api == NULL ? 1
                       : is_dry    ? api->request.params.n_prompts
                       : (api->request.params.form & PARAMS_MANY) != 0
                           ? 1 /* the other prompts are posted when there is room */
                           : api->request.n_choices;
    uint32_t tenant;
    int rc;

    *why = (struct refusal){0};
    rc = is_dry ? engine_client_check_dry_room(engine, n, &why->error)
                : engine_client_check_room(engine, n, &why->error);
    if (rc < 0)
        return refuse_limit(why, REJECTION_QUEUE_FULL);
    if (api == NULL)
        return ADMISSION_YES;
    tenant = api_call_set_tenant(api);
    if (is_dry)
        return ADMISSION_YES;
    if (tenants_check(engine->shared->tenants, tenant, n, &why->error) < 0)
        return refuse_limit(why, REJECTION_TENANT_LIMIT);
    if (check_key(api, why) == ADMISSION_NO)
        return ADMISSION_NO;
    return check_deadline(api, found, why);
}
