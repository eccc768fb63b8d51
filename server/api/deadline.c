/* server/api/deadline.c - see deadline.h. */
#include "server/api/deadline.h"

#include "core/base/clock.h"
#include "server/api/engine_client.h"
#include "server/api/parse_job.h"
#include "server/http/http.h"
#include "server/http/retry_after.h"

#include <inttypes.h>
#include <stdio.h>

enum cached { CACHED_NONE = 0, CACHED_ALL, CACHED_FOUND }; /* how much of the prompts */

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

/* Who names no length is promised no more than a beginning. */
static uint64_t time_of(const struct params *p, const struct forecast *f)
{
    return p->max_tokens == PARAMS_NO_LIMIT ? f->first_us : f->finish_us;
}

/* Microseconds until the answer is complete; 0: unknown. */
static uint64_t predict(const struct parse_job *in, enum cached cached,
                        const struct event_probe *found, bool is_idle)
{
    const struct parsed_request *p = &in->parsed;
    uint64_t last = 0, ahead = 0;

    for (uint32_t i = 0; i < p->params.n_prompts; i++) {
        const struct request *r = p->requests[i * p->params.n_each];
        const uint32_t n = n_cached(r, cached, found != NULL ? &found[i] : NULL);
        const struct forecast f = is_idle ? engine_client_forecast_idle(in->engine, r, n)
                                          : engine_client_forecast(in->engine, r, n, ahead);

        if (!f.is_known)
            return 0;
        last = time_of(&p->params, &f) > last ? time_of(&p->params, &f) : last;
        ahead += r->n_prompt - n;
    }
    return last > 0 ? last : 1;
}

struct deadline deadline_judge(const struct parse_job *in, const struct event_probe *found)
{
    const uint64_t wanted = in->parsed.params.deadline_ms * 1000;
    const uint64_t spent = clock_us() - in->arrival_us;
    enum cached cached = found != NULL ? CACHED_FOUND : CACHED_NONE;
    struct deadline d = {DEADLINE_FINE, 0, 0};
    uint64_t us;

    if (wanted == 0)
        return d;
    us = predict(in, cached, found, false);
    if (us == 0 || spent + us <= wanted)
        return d;
    if (cached == CACHED_NONE && in->engine->model->shares_prefixes) {
        cached = CACHED_ALL;
        us = predict(in, cached, found, false);
        d.verdict = DEADLINE_UNCLEAR;
        if (spent + us <= wanted)
            return d;
    }
    d.verdict = DEADLINE_HOPELESS;
    d.predicted_ms = (spent + us + 999) / 1000;
    if (predict(in, cached, found, true) <= wanted)
        d.retry_ms = (spent + us - wanted + 999) / 1000;
    return d;
}

/* A client whose spec this machine cannot fulfil even when it has nothing else to do need not come
 * again; one that came at a bad time is told when the others will be done. */
void deadline_refuse(struct parse_job *in, const struct deadline *d)
{
    char what[48] = "the first token is";
    struct api_error e;

    if (in->parsed.params.max_tokens != PARAMS_NO_LIMIT)
        snprintf(what, sizeof(what), "the %u tokens asked for are",
                 in->parsed.requests[0]->max_tokens);
    api_error_set(&e, 429, "deadline_ms", "deadline_unreachable",
                  "'deadline_ms' is %" PRIu64 ", and %s predicted to take %" PRIu64 " ms",
                  in->parsed.params.deadline_ms, what, d->predicted_ms);
    if (d->retry_ms > 0)
        retry_after_set(in->call, d->retry_ms < RETRY_AFTER_MAX_MS ? (uint32_t)d->retry_ms
                                                                   : RETRY_AFTER_MAX_MS);
    else
        http_call_set_header(in->call, "x-should-retry", "false");
    parse_job_refuse_plainly(in, &e, REJECTION_DEADLINE);
}
