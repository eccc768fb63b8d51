/* server/api/completion/completion_save.c - completions that outlive the process: saved before they
 * begin, and while they run; see completion_impl.h and server/storage/request_keeper.h.
 *
 * These are resumable streams of one choice, and responses that run in the background. The next
 * process has the same body, seed, id and times, and so makes the same frames. It continues after
 * the saved tokens, unless the client got something that tokens do not determine
 * (log-probabilities, frame numbers of other APIs); then it computes all of them again. */
#include "server/api/completion/completion_impl.h"

#include "core/base/err.h"
#include "core/base/name_copy.h"
#include "core/model/adapter.h"
#include "server/api/completion/admission.h"
#include "server/http/http_call.h"

#include <string.h>
#include <time.h>
#include <xxhash.h>

/* True: a local call can have this path. */
static bool is_plain_request(const char *path)
{
    const size_t n = strlen(path);

    if (n >= COMPLETION_MAX_PATH || strpbrk(path, "%?#") != NULL)
        return false;
    for (size_t i = 0; i < n; i++)
        if (path[i] <= ' ' || path[i] >= 0x7f)
            return false;
    return true;
}

void completion_save_prepare(struct completion *c, const struct http_call *call)
{
    const struct saved_request *saved = http_call_context(call);
    const char *path = http_call_path(call);

    if (saved != NULL)
        (void)name_copy_n(c->conversation, sizeof(c->conversation), saved->begin.conversation.text,
                          saved->begin.conversation.n);
    else if (is_plain_request(path))
        (void)name_copy(c->saving.path, sizeof(c->saving.path), path);
}

/* True: the completion can be saved. Frames with the prompt's progress differ each time, so a
 * completion that sends them cannot. */
static bool can_be_saved(const struct completion *c)
{
    const struct params *p = &c->api.request.params;

    return c->api.engine->shared->requests != NULL && c->api.headers.restored == NULL &&
           c->saving.path[0] != '\0' && c->api.body.len > 0 && (p->form & PARAMS_SAVED) != 0 &&
           c->api.request.n_choices == 1 && !p->return_progress &&
           (completion_wants_stream_kept(c) || (p->background && p->store));
}

/* True: the tokens determine everything that was sent, so that the answer can continue after
 * them. */
static bool can_go_on(const struct completion *c)
{
    return completion_can_be_resumed(c) && !c->rules.wants_logprobs &&
           !c->rules.wants_prompt_scores && !c->api.request.params.receipt &&
           c->api.request.prediction.n == 0;
}

static struct request_text request_text_of(const char *text)
{
    return (struct request_text){text, (uint32_t)strlen(text)};
}

static void on_written(void *ud, bool is_kept)
{
    struct completion *c = ud;

    if (!is_kept)
        c->saving.request = NULL;
    completion_advance(c, COMPLETION_ADMIT);
}

/* Set the answer's id now, because it is saved. */
static void name_answer(struct completion *c)
{
    struct resume_spec *r = &c->api.request.params.resume;

    if (r->id[0] == '\0' && c->api.request.params.request_id[0] != '\0')
        snprintf(r->id, sizeof(r->id), "%s%s", c->api.request.wire_format->id_prefix,
                 c->api.request.params.request_id);
    else if (r->id[0] == '\0')
        response_draw_id(c->api.request.wire_format, r->id, sizeof(r->id));
    if (r->created == 0)
        r->created = (int64_t)time(NULL);
}

/* Hash everything that decides the tokens, except the body and the seed. */
static uint64_t origin_id(const struct completion *c)
{
    const struct api_request *r = &c->api.request;
    struct {
        uint64_t model, prompt, adapter[2];
        float scale, unused;
    } from = {.model = c->api.engine->model->origin_id, .prompt = r->prompts[0].hash};

    if (r->adapter != NULL) {
        memcpy(from.adapter, r->adapter->id, sizeof(from.adapter));
        from.scale = r->params.adapter.scale;
    }
    return XXH3_64bits(&from, sizeof(from));
}

/* True: a request of an earlier process would get the same tokens here. Otherwise it may not
 * run. */
static bool has_same_origin(const struct completion *c)
{
    const struct saved_request *saved = c->api.headers.restored;

    return saved == NULL || saved->begin.origin_id == origin_id(c);
}

static bool begin_save(struct completion *c)
{
    const struct params *p = &c->api.request.params;
    const struct request_begin b = {
        .seed = p->sampling.seed,
        .origin_id = origin_id(c),
        .created = p->resume.created,
        .now = p->chat.now,
        .priority = (uint32_t)p->priority,
        .n_past = p->resume.n,
        .tells_tokens = p->resume_tokens,
        .tenant = request_text_of(c->api.tenant),
        .key = request_text_of(c->api.key != NULL ? c->api.key->spec.name : ""),
        .path = request_text_of(c->saving.path),
        .conversation = request_text_of(c->conversation),
        .body = {c->api.body.data, (uint32_t)c->api.body.len},
    };

    c->saving.request =
        request_keeper_begin(c->api.engine->shared->requests, p->resume.id, &b, on_written, c);
    return c->saving.request != NULL;
}

/* True: the completion is to be saved. A call that admission refuses now is not. */
static bool is_worth_saving(struct completion *c)
{
    struct refusal ignored;

    return !completion_is_plan(c) && can_be_saved(c) &&
           admission_decide(c->api.engine, &c->api, ADMISSION_FOR_WORK, NULL, &ignored) !=
               ADMISSION_NO;
}

void completion_save(struct completion *c)
{
    bool is_begun = false;

    if (!has_same_origin(c)) {
        api_error_set(&c->api.request.error, 409, NULL, "changed",
                      "the model is not the one that began this answer");
        c->api.request.reason = REJECTION_INVALID;
    } else if (is_worth_saving(c)) {
        name_answer(c);
        is_begun = begin_save(c);
    }
    api_call_drop_body(&c->api);
    if (!is_begun)
        completion_advance(c, COMPLETION_ADMIT);
}

int completion_save_take_up(struct completion *c)
{
    const struct saved_request *saved = c->api.headers.restored;

    if (saved == NULL)
        return 0;
    c->saving.request = request_keeper_take_up(c->api.engine->shared->requests, saved);
    return c->saving.request != NULL ? 0 : ERR_NOMEM;
}

static void on_stream_gone(void *request)
{
    kept_request_drop(request);
}

void completion_save_stream(struct completion *c, struct stream_start *start)
{
    if (c->saving.request == NULL)
        return;
    start->gone = on_stream_gone;
    start->gone_ud = c->saving.request;
}

static struct kept_request_tokens tokens_of(void *ud)
{
    const struct completion *c = ud;
    const struct token_list *tokens = &c->choices[0].tokens;

    if (!can_go_on(c))
        return (struct kept_request_tokens){0};
    return (struct kept_request_tokens){tokens->ids, (uint32_t)tokens->n};
}

static void put_off(void *ud)
{
    struct completion *c = ud;

    struct api_error e;

    c->saving.is_put_off = true;
    if (!c->saving.has_stream) {
        api_error_set(&e, 503, NULL, NULL, "the server is shutting down");
        completion_give_up(c, &e);
        return;
    }
    c->saving.request = NULL;
    completion_drop_stream(c);
}

void completion_save_run(struct completion *c)
{
    const struct kept_request_runner runner = {tokens_of, put_off, c};

    if (c->saving.request == NULL)
        return;
    c->saving.has_stream = c->stream != NULL;
    c->saving.has_run = true;
    kept_request_run(c->saving.request, &runner);
}

void completion_save_end(struct completion *c, bool is_error)
{
    struct kept_request *r = c->saving.request;

    c->saving.request = NULL;
    if (r == NULL)
        return;
    if (!c->saving.has_stream)
        kept_request_drop(r);
    else if (is_error)
        kept_request_give_up(r);
    else
        kept_request_end(r, can_go_on(c) ? (uint32_t)c->choices[0].finish : FINISH_NONE);
}

/* Release the saved request of a completion that was refused, whose client disconnected before it
 * began, or that has no stream. */
void completion_save_release(struct completion *c)
{
    struct kept_request *r = c->saving.request;

    c->saving.request = NULL;
    if (r == NULL)
        return;
    if (c->saving.has_stream)
        kept_request_give_up(r);
    else if (c->api.request.params.resume.is_restored && !c->saving.has_run)
        kept_request_put_back(r);
    else
        kept_request_drop(r);
}
