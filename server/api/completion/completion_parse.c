/* server/api/completion/completion_parse.c - the states PARSE and LOOK_UP of a completion: its body
 * becomes JSON, params, tokens and requests.
 *
 * Parsing is a pure function of the body and the headers in struct api_headers. The I/O thread
 * parses a short body within a budget of steps; a body that takes more is parsed again, from the
 * beginning, by a thread of a pool: the constraint pool where the body asks for a schema or a
 * grammar, else the text pool. A call that continues kept responses is parsed once to learn their
 * names, and once more when the storage thread has read them.
 */
#include "server/api/completion/completion_impl.h"

#include "core/base/err.h"
#include "core/base/hold.h"
#include "core/base/mem.h"
#include "server/api/body_scan.h"
#include "server/process/loop_guard.h"

#include <string.h>
#include <xxhash.h>

/* Most bytes and most steps of a body that the I/O thread parses: a millisecond or two. */
#define INLINE_BODY ((size_t)8 << 10)
#define INLINE_STEPS 50000
/* Steps for the prompts of decisions, which repeat the input: 8 a byte of MAX_BYTES in
 * api_request_decisions.c. */
#define DECISION_STEPS ((uint64_t)256 << 20)
/* Bytes of a body after whose parsing freed memory is returned to the system. */
#define LARGE_BODY ((size_t)1 << 20)

/* ---- parsed ---- */

/* True: completion_save.c may need the body for the saved request. */
static bool may_be_saved(const struct api_call *api)
{
    return api->engine->shared->requests != NULL && api->headers.restored == NULL &&
           (api->request.params.stream || api->request.params.background) &&
           (api->wire_format->form & PARAMS_SAVED) != 0;
}

static void finish_parse(struct completion *c)
{
    struct api_call *api = &c->api;
    struct api_request *p = &api->request;

    if (p->has_wish && p->error.status == 0) {
        completion_advance(c, COMPLETION_LOOK_UP);
        return;
    }
    buf_release(&api->kept);
    if (!may_be_saved(api))
        buf_release(&api->body);
    if (p->error.status == 0)
        api_call_set_memory(api, request_memory_of_parsed(p) + api->body.cap);
    api->engine->metrics->unknown_fields += p->params.n_unknown;
    if (p->error.status == 0)
        api_call_set_limits(api);
    completion_advance(c, COMPLETION_ADAPTER); /* which refuses a call with an error */
}

/* ---- PARSE ---- */

static void do_parse(struct api_call *api, uint64_t steps, bool is_trial)
{
    api->request.is_trial = is_trial;
    if ((api->wire_format->form & PARAMS_DECISIONS) != 0 || api->wire_format == &wire_dry_run)
        steps += DECISION_STEPS;
    api->budget = (struct budget){.steps_left = steps, .canceled = &api->job.canceled};
    api_request_parse(&api->request, api->engine->model, api->wire_format, &api->body,
                      &api->headers, &api->budget);
}

static void on_parse_work(struct worker_job *job)
{
    struct api_call *api = list_entry(job, struct api_call, job);

    hold_here("QUIRE_DEBUG_HOLD_PARSE");
    if (!atomic_load(&job->canceled))
        do_parse(api, BUDGET_REQUEST_STEPS, false);
    if (api->body.len > LARGE_BODY) /* its JSON tree was many small allocations */
        mem_trim();
}

static void after_parse_work(struct worker_job *job)
{
    finish_parse(completion_of_api(list_entry(job, struct api_call, job)));
}

static void parse_on_pool(struct completion *c)
{
    struct api_call *api = &c->api;
    const struct engine_shared *shared = api->engine->shared;

    api->job.work = on_parse_work;
    api->job.done = after_parse_work;
    api->job.name = "api_call.parsed";
    api->job.owner = XXH3_64bits(api->tenant, strlen(api->tenant));
    if (worker_pool_post(api->is_constrained ? shared->constraint_pool : shared->text_pool,
                         &api->job) == 0)
        return;
    api_error_set(&api->request.error, 429, NULL, "queue_full",
                  "too many requests are being parsed");
    api->request.reason = REJECTION_QUEUE_FULL;
    finish_parse(c);
}

/* Parse on the I/O thread. False: the body takes too many steps, or the loop's callback has little
 * time left. */
static bool parse_inline(struct api_call *api)
{
    if (api->is_constrained || api->body.len > INLINE_BODY ||
        (api->wire_format->form & PARAMS_DECISIONS) != 0 || api->wire_format == &wire_dry_run ||
        loop_guard_is_due(api->engine->shared->loop))
        return false;
    do_parse(api, INLINE_STEPS, true);
    if (budget_error(&api->budget) != ERR_LIMIT)
        return true;
    api_request_release(&api->request);
    return false;
}

void completion_parse(struct completion *c)
{
    const bool is_again = c->api.headers.kept != NULL;

    if (!is_again && parse_inline(&c->api))
        finish_parse(c);
    else
        parse_on_pool(c);
}

/* ---- LOOK_UP ---- */

static void on_look_up(struct worker_job *job)
{
    struct api_call *api = list_entry(job, struct api_call, look_up);

    response_store_history(response_keeper_store(api->engine->shared->keeper), api->tenant,
                           &api->wish, &api->kept, &api->kept_error);
}

static void after_look_up(struct worker_job *job)
{
    struct api_call *api = list_entry(job, struct api_call, look_up);
    const struct body_scan body = body_scan(api->body.data, api->body.len),
                           kept = body_scan(api->kept.data, api->kept.len);

    buf_release(&api->wish.items);
    if (api->kept_error.status == 0) {
        api_call_set_memory(api, request_memory_of_body(&body) + request_memory_of_body(&kept));
    } else {
        api->request.error = api->kept_error;
        api->request.reason = REJECTION_INVALID;
    }
    completion_advance(completion_of_api(api), COMPLETION_PARSE);
}

void completion_look_up(struct completion *c)
{
    struct api_call *api = &c->api;

    api->wish = api->request.wish;
    api->request.wish = (struct response_wish){0};
    api_request_release(&api->request);
    buf_init(&api->kept, 2 * api->engine->shared->options->max_body);
    api->headers.kept = &api->kept;
    api->look_up.work = on_look_up;
    api->look_up.done = after_look_up;
    response_keeper_post(api->engine->shared->keeper, &api->look_up);
}
