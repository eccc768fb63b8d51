/* server/api/dry_run.c - see dry_run.h. */
#include "server/api/dry_run.h"

#include "core/base/json.h"
#include "core/base/list.h"
#include "core/base/mem.h"
#include "server/api/engine_client.h"
#include "server/api/engine_probe.h"
#include "server/api/params/field.h"
#include "server/api/parse_job.h"
#include "server/api/response/response_writer.h"
#include "server/http/http.h"

_Static_assert(PARAMS_MAX_CHOICES <= SERVER_DRY_RUNS, "each has room when it is alone");

struct plan_job {
    struct parse_job in;
    struct probe probe;
};

static void destroy(struct plan_job *j)
{
    j->in.engine->n_jobs--;
    probe_release(&j->probe);
    parse_job_release(&j->in);
    mem_free(j);
}

static void on_gone(void *ud)
{
    struct plan_job *j = ud;

    parse_job_leave(&j->in);
}

static double ms(uint64_t us)
{
    return (double)us / 1e3;
}

static void add_forecast(struct buf *out, const struct forecast *f, bool has_tokens)
{
    buf_add_str(out, ",\"predicted_ms\":");
    if (!f->is_known) {
        buf_add_str(out, "null");
        return;
    }
    buf_printf(out, "{\"start\":%.3f,\"first_token\":", ms(f->start_us));
    if (has_tokens)
        buf_printf(out, "%.3f", ms(f->first_us));
    else
        buf_add_str(out, "null");
    buf_printf(out, ",\"finish\":%.3f}", ms(f->finish_us));
}

static void add_prompt(const struct plan_job *j, uint32_t i, uint64_t ahead, struct buf *out)
{
    struct engine_client *d = j->in.engine;
    const struct request *r = j->in.parsed.requests[i * j->in.parsed.params.n_each];
    const struct event_probe *found = &j->probe.found[i];
    const struct forecast f = engine_client_forecast(d, r, found->n_cached, ahead);

    buf_printf(out,
               "{\"prompt_tokens\":%u,\"max_tokens\":%u,\"cached_tokens\":%u,\"blocks\":%llu,"
               "\"blocks_total\":%u,\"queue_position\":%u",
               r->n_prompt, r->max_tokens, found->n_cached, (unsigned long long)found->n_blocks,
               d->model->n_blocks, engine_client_position_behind(d, found->n_ahead, i));
    add_forecast(out, &f, j->in.parsed.params.form != PARAMS_EMBED);
    buf_add_str(out, ",\"fits\":true}");
}

static void answer(struct plan_job *j)
{
    const struct parsed_request *p = &j->in.parsed;
    uint64_t ahead = 0;
    struct buf out;

    buf_init(&out, (size_t)1 << 20);
    buf_add_str(&out, "{\"object\":\"plan\",\"model\":");
    json_add_cstring(&out, j->in.engine->model->id);
    buf_add_str(&out, ",\"prompts\":[");
    for (uint32_t i = 0; i < p->params.n_prompts; i++) {
        if (i > 0)
            buf_add_char(&out, ',');
        add_prompt(j, i, ahead, &out);
        ahead += p->requests[i * p->params.n_each]->n_prompt - j->probe.found[i].n_cached;
    }
    buf_add_str(&out, "]}");
    http_call_reply(j->in.call, 200, "application/json", &out);
    j->in.call = NULL;
}

static void on_probed(struct probe *p)
{
    struct plan_job *j = list_entry(p, struct plan_job, probe);
    struct api_error e;

    if (j->in.call != NULL && p->is_failed) {
        api_error_set(&e, 503, NULL, NULL, "the server is shutting down");
        parse_job_refuse(&j->in, &e, REJECTION_DRAINING);
    } else if (j->in.call != NULL) {
        answer(j);
    }
    destroy(j);
}

static void on_ready(struct parse_job *in)
{
    struct plan_job *j = list_entry(in, struct plan_job, in);
    struct api_error e;

    if (in->call == NULL) {
        destroy(j);
        return;
    }
    parse_job_fill_requests(in);
    if (engine_client_check_dry_room(in->engine, in->parsed.params.n_prompts, &e) < 0) {
        parse_job_refuse(in, &e, e.status == 429 ? REJECTION_QUEUE_FULL : REJECTION_DRAINING);
        destroy(j);
    } else if (probe_start(&j->probe, in, on_probed) < 0) {
        api_error_no_memory(&e);
        http_call_reply_error(in->call, &e);
        destroy(j);
    }
}

/* An embedding's body is known by its text's name. */
static const struct wire_format *pick(const cJSON *body)
{
    const bool is_text = field_find(body, "prompt") != NULL || field_find(body, "input") == NULL;

    return is_text ? wire_openai_completions() : wire_openai_embeddings();
}

void plan_start(struct engine_client *d, struct http_call *call)
{
    static const struct wire_format either = {.form = PARAMS_TEXT, .pick = pick};
    struct plan_job *j;
    struct api_error e = {0};

    if (engine_client_check_dry_room(d, 1, &e) < 0) {
        parse_job_refuse_early(d, call, &e);
        return;
    }
    j = mem_calloc(1, sizeof(*j));
    if (j == NULL) {
        api_error_no_memory(&e);
        parse_job_refuse_early(d, call, &e);
        return;
    }
    d->n_jobs++;
    http_call_on_gone(call, on_gone, j);
    parse_job_start(&j->in, d, call, &either, on_ready);
}
