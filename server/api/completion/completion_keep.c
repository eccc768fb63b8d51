/* server/api/completion/completion_keep.c - keeps a response: writes its row when it begins, and
 * again when it has ended, before the client gets the end; see completion_impl.h. */
#include "server/api/completion/completion_impl.h"

#include "core/base/err.h"
#include "core/base/hold.h"
#include "core/base/list.h"
#include "core/base/log.h"
#include "core/json/json.h"
#include "server/http/http_call.h"

#include <string.h>

static struct completion *completion_of(struct completion_keep *k)
{
    return list_entry(k, struct completion, keep);
}

void completion_keep_release(struct completion_keep *k)
{
    buf_release(&k->first);
    buf_release(&k->body);
    buf_release(&k->output);
    buf_release(&k->tail);
    buf_release(&k->why);
}

static bool is_background(const struct completion *c)
{
    return c->api.request.params.background;
}

static struct response_store *store_of(const struct completion *c)
{
    return response_keeper_store(c->api.engine->shared->keeper);
}

/* ---- the begin ---- */

static void on_begin(struct worker_job *job)
{
    struct completion_keep *k = list_entry(job, struct completion_keep, begin);
    const struct completion *c = completion_of(k);
    const char *previous = c->api.request.params.previous_id;
    const struct response_start start = {.previous = previous[0] != '\0' ? previous : NULL,
                                         .created = c->answer.created,
                                         .is_background = is_background(c),
                                         .is_restored = c->api.request.params.resume.is_restored,
                                         .body = &k->first,
                                         .input = &c->api.request.input};

    hold_here("QUIRE_DEBUG_HOLD_RESPONSE");
    if (k->first.err < 0)
        api_error_no_memory(&k->begin_error);
    else
        response_store_begin(store_of(c), &k->name, &start, &k->begin_error);
}

/* Called when the row was written; a response whose row could not be written is cancelled. */
static void after_begin(struct worker_job *job)
{
    struct completion_keep *k = list_entry(job, struct completion_keep, begin);
    struct completion *c = completion_of(k);

    if (k->begin_error.status != 0)
        completion_give_up(c, &k->begin_error);
    else if (is_background(c) && c->api.call != NULL)
        http_call_reply(completion_take_call(c), 200, "application/json", &k->first);
    buf_release(&k->first);
}

static void on_cancel(struct response_run *run)
{
    struct completion_keep *k = list_entry(run, struct completion_keep, run);

    struct api_error e;

    api_error_set(&e, 409, NULL, "cancelled", "the response was cancelled before it was stored");
    completion_save_end(completion_of(k), true);
    completion_give_up(completion_of(k), &e);
}

void completion_keep_begin(struct completion *c)
{
    struct completion_keep *k = &c->keep;

    *k = (struct completion_keep){.is_on = true, .name = {c->api.tenant, c->answer.id}};
    buf_init(&k->first, HTTP_MAX_REPLY);
    buf_init(&k->body, HTTP_MAX_REPLY);
    buf_init(&k->output, HTTP_MAX_REPLY);
    buf_init(&k->tail, HTTP_MAX_REPLY);
    buf_init(&k->why, 4096);
    responses_add(&c->answer, false, &k->first);
    k->begin.work = on_begin;
    k->begin.done = after_begin;
    k->run.name = k->name;
    k->run.cancel = on_cancel;
    response_keeper_post(c->api.engine->shared->keeper, &k->begin);
    if (is_background(c))
        response_keeper_add(c->api.engine->shared->keeper, &k->run);
}

/* ---- the end ---- */

/* Write the answer. Runs on the keeper's thread: the choices have ended, and nothing else uses
 * them. */
static void write_answer(struct completion *c)
{
    struct completion_keep *k = &c->keep;

    if (c->api.request.params.stream) {
        c->answer.current = NULL;
        c->answer.wire_format->close(&c->answer, &k->tail);
        responses_add(&c->answer, true, &k->body);
    } else {
        c->answer.wire_format->whole(&c->answer, &k->body);
    }
    buf_add_char(&k->output, '[');
    buf_add(&k->output, c->answer.items.data, c->answer.items.len);
    buf_add_char(&k->output, ']');
    if (k->body.err < 0 || k->output.err < 0) {
        k->status = "failed";
        api_error_no_memory(&k->end_error);
    }
}

static void on_end(struct worker_job *job)
{
    struct completion_keep *k = list_entry(job, struct completion_keep, end);
    struct response_store *store = store_of(completion_of(k));

    if (completion_of(k)->saving.is_put_off) /* its row stays in progress */
        return;
    if (k->has_answer)
        write_answer(completion_of(k));
    if (k->status != NULL)
        response_store_give_up(store, &k->name, k->status,
                               k->why.len > 0 && k->why.err == 0 ? k->why.data : NULL,
                               &k->end_error);
    else
        response_store_end(store, &k->name, &k->body, &k->output, &k->end_error);
    if (k->end_error.status != 0 && k->status == NULL) { /* perhaps a row without the output can be
                                                          * written */
        struct api_error ignored = {0};

        response_store_give_up(store, &k->name, "failed", NULL, &ignored);
    }
}

/* Send the end of the answer, which waited for the file. */
static void answer_kept(struct completion *c)
{
    struct completion_keep *k = &c->keep;
    struct http_call *call = c->api.call;

    if (c->api.request.params.stream) {
        completion_end_stream(c, &k->tail);
        return;
    }
    c->api.call = NULL;
    http_call_reply(call, 200, "application/json", &k->body);
}

static void after_end(struct worker_job *job)
{
    struct completion_keep *k = list_entry(job, struct completion_keep, end);
    struct completion *c = completion_of(k);

    if (completion_has_client(c) && k->end_error.status != 0)
        completion_fail(c, &k->end_error);
    else if (completion_has_client(c))
        answer_kept(c);
    completion_advance(c, COMPLETION_END);
}

/* True: the completion has the answer to write. A stream without its reader has lost its last
 * items. */
static bool has_answer(const struct completion *c, struct api_error *why)
{
    const bool has_reader = completion_has_client(c) || is_background(c);

    return !completion_is_failure(c, &c->choices[0], why) && has_reader;
}

static void give_up(struct completion *c, const struct api_error *why)
{
    struct completion_keep *k = &c->keep;
    const enum finish finish = c->choices[0].finish;

    k->status = "cancelled";
    if (finish == FINISH_STOP || finish == FINISH_LENGTH ||
        (finish == FINISH_CANCELLED && !c->api.engine->is_stopping))
        return;
    k->status = "failed";
    buf_add_str(&k->why, "{\"code\":\"server_error\",\"message\":");
    json_add_cstring(&k->why, why->message);
    buf_add(&k->why, "}", 2); /* with its 0 */
}

void completion_keep_end(struct completion *c)
{
    struct completion_keep *k = &c->keep;
    struct api_error why = {0};

    if (is_background(c))
        response_keeper_remove(&k->run);
    k->has_answer = has_answer(c, &why);
    if (!k->has_answer)
        give_up(c, &why);
    k->end.work = on_end;
    k->end.done = after_end;
    response_keeper_post(c->api.engine->shared->keeper, &k->end);
}
