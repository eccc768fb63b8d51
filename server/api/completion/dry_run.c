/* server/api/completion/dry_run.c - see dry_run.h.
 *
 * A plan is a completion whose probe asks the engine about every prompt, and whose state RUN writes
 * the answer from what the probe has found and from the forecast.
 */
#include "server/api/completion/dry_run.h"


#include "core/base/clock.h"
#include "core/json/json.h"
#include "server/api/completion/admission.h"
#include "server/api/completion/completion_impl.h"
#include "server/api/params/field.h"
#include "server/api/refusal.h"
#include "server/api/response/response_writer.h"
#include "server/http/http_call.h"

_Static_assert(PARAMS_MAX_CHOICES <= SERVER_DRY_RUNS, "each has room when it is alone");

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

static uint32_t known_tokens(const struct completion *c, uint32_t i)
{
    return admission_known_tokens(&c->api, i, c->probe.found[i].n_cached);
}

static void add_planned_prompt(const struct completion *c, uint32_t i, uint64_t ahead,
                               struct buf *out)
{
    struct engine_client *engine = c->api.engine;
    const struct request *r = c->api.request.requests[i * c->api.request.params.n_each];
    const struct event_probe *found = &c->probe.found[i];
    const uint64_t n_shifts =
        request_n_shifts((uint64_t)r->n_prompt + r->max_tokens, r->max_known, r->n_discard);
    const uint32_t n_known = known_tokens(c, i);
    const struct forecast f = engine_client_forecast(engine, r, n_known, ahead);

    buf_printf(out,
               "{\"prompt_tokens\":%u,\"max_tokens\":%u,\"cached_tokens\":%u,\"blocks\":%llu,"
               "\"blocks_total\":%u,\"queue_position\":%u",
               r->n_prompt, r->max_tokens, n_known, (unsigned long long)found->n_blocks,
               engine->model->n_blocks, engine_client_position_behind(engine, found->n_ahead, i));
    add_forecast(out, &f, c->api.request.params.form != PARAMS_EMBED);
    buf_printf(out, ",\"context_shifts\":%llu,\"fits\":true}", (unsigned long long)n_shifts);
}

static void answer_plan(struct completion *c)
{
    const struct api_request *p = &c->api.request;
    uint64_t ahead = 0;
    struct buf out;

    buf_init(&out, (size_t)1 << 20);
    buf_add_str(&out, "{\"object\":\"plan\",\"model\":");
    json_add_cstring(&out, api_request_model(p, c->api.engine->model));
    buf_add_str(&out, ",\"prompts\":[");
    for (uint32_t i = 0; i < p->params.n_prompts; i++) {
        if (i > 0)
            buf_add_char(&out, ',');
        add_planned_prompt(c, i, ahead, &out);
        ahead += p->requests[i * p->params.n_each]->n_prompt - known_tokens(c, i);
    }
    buf_add_str(&out, "]}");
    http_call_reply(c->api.call, 200, "application/json", &out);
    c->api.call = NULL;
}

void dry_run_answer(struct completion *c)
{
    struct refusal why = {.reason = REJECTION_DRAINING};

    if (c->probe.is_failed) {
        api_error_set(&why.error, 503, NULL, NULL, "the server is shutting down");
        api_call_refuse(&c->api, &why);
    } else {
        answer_plan(c);
    }
    completion_advance(c, COMPLETION_END);
}

/* Choose the wire format: a body with `questions` is that of decisions, and one with `input` and
 * without `prompt` that of an embedding. */
static const struct wire_format *pick(const cJSON *body)
{
    const bool is_text = field_find(body, "prompt") != NULL || field_find(body, "input") == NULL;

    if (field_find(body, "questions") != NULL)
        return field_find(body, "state") != NULL ? &wire_systemone : &wire_openai_decisions;
    return is_text ? &wire_openai_completions : &wire_openai_embeddings;
}

const struct wire_format wire_dry_run = {.form = PARAMS_TEXT, .pick = pick};
