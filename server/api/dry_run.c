/* server/api/dry_run.c - see dry_run.h.
 *
 * A dry run is an API call whose requests are never posted. When the body is parsed the engine is
 * probed for each prompt (cached tokens, blocks, place in the queue), and the times are forecast
 * from its answers. A client that leaves only takes its call away: the job is freed when the parse
 * or the probe has come back.
 */
#include "server/api/dry_run.h"

#include "core/base/clock.h"
#include "core/base/json.h"
#include "core/base/list.h"
#include "core/base/mem.h"
#include "server/api/admission.h"
#include "server/api/api_call.h"
#include "server/api/engine_client.h"
#include "server/api/params/field.h"
#include "server/api/response/response_writer.h"
#include "server/http/http_call.h"

_Static_assert(PARAMS_MAX_CHOICES <= SERVER_DRY_RUNS, "each has room when it is alone");

struct plan_job {
    struct api_call api;
    struct engine_probe probe;
};

static void destroy_plan_job(struct plan_job *j)
{
    engine_probe_release(&j->probe);
    api_call_release(&j->api);
    mem_free(j);
}

static void on_plan_client_gone(void *ud)
{
    struct plan_job *j = ud;

    api_call_leave(&j->api);
}

static void add_forecast(struct buf *out, const struct forecast *f, bool has_tokens)
{
    buf_add_str(out, ",\"predicted_ms\":");
    if (!f->is_known) {
        buf_add_str(out, "null");
        return;
    }
    buf_printf(out, "{\"start\":%.3f,\"first_token\":", ms_of(f->start_us));
    if (has_tokens)
        buf_printf(out, "%.3f", ms_of(f->first_us));
    else
        buf_add_str(out, "null");
    buf_printf(out, ",\"finish\":%.3f}", ms_of(f->finish_us));
}

static void add_planned_prompt(const struct plan_job *j, uint32_t i, uint64_t ahead,
                               struct buf *out)
{
    struct engine_client *engine = j->api.engine;
    const struct request *r = j->api.request.requests[i * j->api.request.params.n_each];
    const struct event_probe *found = &j->probe.found[i];
    const uint64_t n_shifts = request_n_shifts((uint64_t)r->n_prompt + r->max_tokens,
                                               r->max_known, r->n_discard);
    const struct forecast f = engine_client_forecast(engine, r, found->n_cached, ahead);

    buf_printf(out,
               "{\"prompt_tokens\":%u,\"max_tokens\":%u,\"cached_tokens\":%u,\"blocks\":%llu,"
               "\"blocks_total\":%u,\"queue_position\":%u",
               r->n_prompt, r->max_tokens, found->n_cached, (unsigned long long)found->n_blocks,
               engine->model->n_blocks, engine_client_position_behind(engine, found->n_ahead, i));
    add_forecast(out, &f, j->api.request.params.form != PARAMS_EMBED);
    buf_printf(out, ",\"context_shifts\":%llu,\"fits\":true}", (unsigned long long)n_shifts);
}

static void answer_plan(struct plan_job *j)
{
    const struct api_request *p = &j->api.request;
    uint64_t ahead = 0;
    struct buf out;

    buf_init(&out, (size_t)1 << 20);
    buf_add_str(&out, "{\"object\":\"plan\",\"model\":");
    json_add_cstring(&out, api_request_model(p, j->api.engine->model));
    buf_add_str(&out, ",\"prompts\":[");
    for (uint32_t i = 0; i < p->params.n_prompts; i++) {
        if (i > 0)
            buf_add_char(&out, ',');
        add_planned_prompt(j, i, ahead, &out);
        ahead += p->requests[i * p->params.n_each]->n_prompt - j->probe.found[i].n_cached;
    }
    buf_add_str(&out, "]}");
    http_call_reply(j->api.call, 200, "application/json", &out);
    j->api.call = NULL;
}

static void on_probed(struct engine_probe *p)
{
    struct plan_job *j = list_entry(p, struct plan_job, probe);
    struct refusal why = {.reason = REJECTION_DRAINING};

    if (j->api.call != NULL && p->is_failed) {
        api_error_set(&why.error, 503, NULL, NULL, "the server is shutting down");
        api_call_refuse(&j->api, &why);
    } else if (j->api.call != NULL) {
        answer_plan(j);
    }
    destroy_plan_job(j);
}

static void on_ready(struct api_call *api)
{
    struct plan_job *j = list_entry(api, struct plan_job, api);
    struct refusal why;

    if (api->call == NULL) {
        destroy_plan_job(j);
    } else if (admission_decide(api->engine, api, ADMISSION_FOR_DRY_RUNS, NULL, &why) ==
               ADMISSION_NO) {
        api_call_refuse(api, &why);
        destroy_plan_job(j);
    } else if (api_call_probe(api, &j->probe, on_probed) < 0) {
        refusal_send_no_memory(api->engine, api->call);
        destroy_plan_job(j);
    }
}

/* A body with `input` and without `prompt` is that of an embedding. */
static const struct wire_format *pick(const cJSON *body)
{
    const bool is_text = field_find(body, "prompt") != NULL || field_find(body, "input") == NULL;

    return is_text ? &wire_openai_completions : &wire_openai_embeddings;
}

const struct wire_format wire_dry_run = {.form = PARAMS_TEXT, .pick = pick};

void dry_run_start(struct engine_client *engine, struct http_call *call,
                   const struct wire_format *wire_format, const struct body_scan *scan)
{
    struct refusal why;
    struct plan_job *j;

    if (admission_decide(engine, NULL, ADMISSION_FOR_DRY_RUNS, NULL, &why) == ADMISSION_NO) {
        refusal_send(&why, engine, call, 1);
        return;
    }
    j = mem_calloc(1, sizeof(*j));
    if (j == NULL) {
        refusal_send_no_memory(engine, call);
        return;
    }
    http_call_on_gone(call, on_plan_client_gone, j);
    api_call_start(&j->api, engine, call, wire_format, scan, on_ready);
}
