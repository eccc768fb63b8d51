/* server/api/completion.c - see completion.h. */
#include "server/api/completion.h"

#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/base/list.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "server/api/admission.h"
#include "server/api/api_call.h"
#include "server/api/chat/chat.h"
#include "server/api/engine_client.h"
#include "server/api/response/best_of.h"
#include "server/api/response/response_writer.h"
#include "server/http/http.h"

#include <stdio.h>
#include <string.h>

struct progress {               /* the engine's side of a choice */
    uint64_t id;                /* 0 before the post and after the end */
    uint64_t first_us, last_us; /* first and latest token */
    bool is_cancelled;
};

struct completion {
    struct api_call api;
    struct engine_caller client;
    struct engine_probe probe; /* before the posts, when a deadline hangs on what is cached */
    struct choice_rules rules;
    struct choice *choices;    /* [n_choices] */
    struct progress *progress; /* [n_choices] */
    uint32_t n_choices, n_open;
    uint64_t n_cached;
    struct response_writer answer;
};

/* ---- life ---- */

static void destroy(struct completion *c)
{
    for (uint32_t i = 0; c->choices != NULL && i < c->n_choices; i++)
        choice_release(&c->choices[i]);
    c->api.report.ready_us = clock_us();
    mem_free(c->choices);
    mem_free(c->progress);
    engine_probe_release(&c->probe);
    api_call_release(&c->api);
    response_release(&c->answer);
    c->api.engine->n_jobs--;
    mem_free(c);
}

/* What has been said so far, for the log. */
static void note_end(struct completion *c, const struct choice *choice, uint64_t first_us,
                     const struct event_times *t)
{
    struct access_work *w = &c->api.report;
    const char *finish = finish_name(choice->finish);

    w->finish = w->finish == NULL || strcmp(w->finish, finish) == 0 ? finish : "mixed";
    w->completion_tokens += choice->n_tokens;
    w->n_preempted += t->n_preempted;
    if (first_us > 0 && (w->first_us == 0 || first_us < w->first_us))
        w->first_us = first_us;
    w->queue_us = t->queue_us;
    w->prefill_us = t->prefill_us;
    w->decode_us = t->decode_us; /* the engine's: events come here in bursts */
    w->preempted_us = t->preempted_us;
    w->swapped_us = t->swapped_us;
}

static void cancel(struct completion *c, uint32_t i)
{
    struct progress *p = &c->progress[i];

    if (p->id == 0 || p->is_cancelled)
        return;
    p->is_cancelled = true;
    engine_client_cancel(c->api.engine, p->id);
}

/* The client has left. */
static void abandon(struct completion *c)
{
    api_call_leave(&c->api);
    for (uint32_t i = 0; i < c->n_choices; i++)
        cancel(c, i);
}

static void on_gone(void *ud)
{
    abandon(ud);
}

/* ---- failing ---- */

/* A choice failed: the whole request has, and the others need not go on. */
static void fail(struct completion *c, const struct api_error *e)
{
    struct http_call *call = c->api.call;
    struct buf *frame = &c->api.engine->frame;

    if (call == NULL)
        return;
    abandon(c);
    if (!c->api.request.params.stream) {
        if (e->status == 408)
            http_call_set_header(call, "x-should-retry", "false"); /* the time is over */
        refusal_reply_error(c->api.engine, call, e);
        return;
    }
    buf_clear(frame);
    c->api.wire_format->failure(e, frame);
    if (http_call_write(call, frame->data, frame->len) < 0)
        http_call_abort(call);
    else
        http_call_end(call);
}

/* ---- answering ---- */

static void count_usage(struct completion *c)
{
    struct response_usage *u = &c->answer.usage;

    *u = (struct response_usage){.cached = c->n_cached};
    for (uint32_t i = 0; i < c->api.request.params.n_prompts; i++)
        u->prompt += c->api.request.prompts[i].ids.n;
    for (uint32_t i = 0; i < c->n_choices; i++) {
        u->completion += c->choices[i].n_tokens;
        u->thinking += c->choices[i].n_thinking;
    }
}

/* Send what is in the engine client's frame; a reader that is too slow loses its connection. */
static void send_frame(struct completion *c)
{
    struct http_call *call = c->api.call;
    struct buf *frame = &c->api.engine->frame;
    char id[280];
    int rc = frame->err;

    if (rc == 0 && frame->len > 0) /* some streams end with nothing */
        rc = http_call_write(call, frame->data, frame->len);
    if (rc == 0)
        return;
    log_warn("http", "event=stream_cut id=%s reason=%s",
             log_quote(id, sizeof(id), c->api.request_id),
             rc == ERR_LIMIT ? "slow_reader" : err_name(rc));
    abandon(c);
    http_call_abort(call);
}

static void send_choice(struct completion *c, struct choice *choice)
{
    buf_clear(&c->api.engine->frame);
    c->answer.wire_format->frame(&c->answer, choice, &c->api.engine->frame);
    send_frame(c);
}

static void finish_stream(struct completion *c)
{
    struct http_call *call;

    buf_clear(&c->api.engine->frame);
    c->answer.wire_format->close(&c->answer, &c->api.engine->frame);
    send_frame(c);
    call = c->api.call;
    c->api.call = NULL;
    if (call != NULL)
        http_call_end(call);
}

static void finish_whole(struct completion *c)
{
    const struct params *p = &c->api.request.params;
    struct http_call *call = c->api.call;
    struct buf out;

    if (p->n_each > p->n)
        best_of_take(c->choices, p->n_prompts, p->n_each, p->n);
    c->answer.n_choices = p->n_prompts * p->n;
    buf_init(&out, HTTP_MAX_REPLY);
    c->answer.wire_format->whole(&c->answer, &out);
    c->api.call = NULL;
    http_call_reply(call, 200, "application/json", &out);
}

/* ---- events ---- */

static void on_token(struct completion *c, uint32_t i, const struct event *e)
{
    struct metrics *m = c->api.engine->metrics;
    struct progress *p = &c->progress[i];
    const uint64_t now = clock_us();
    uint64_t before, after;

    if (p->first_us == 0) {
        p->first_us = now;
        hist_add(&m->ttft, (double)(now - c->api.arrival_us) / 1e6);
    } else {
        hist_add(&m->itl, (double)(now - p->last_us) / 1e6);
    }
    p->last_us = now;
    before = request_memory_of_choice(&c->choices[i]);
    if (choice_token(&c->choices[i], e, &c->api.engine->scratch))
        cancel(c, i);
    after = request_memory_of_choice(&c->choices[i]);
    if (after > before)
        api_call_grow(&c->api, after - before);
}

static enum outcome outcome_of(const struct choice *choice)
{
    switch (choice->finish) {
    case FINISH_STOP:
        return OUTCOME_STOP;
    case FINISH_LENGTH:
        return OUTCOME_LENGTH;
    case FINISH_TIMEOUT:
        return OUTCOME_TIMEOUT;
    case FINISH_QUEUE_TIMEOUT:
        return OUTCOME_REJECTED;
    case FINISH_CANCELLED:
        return OUTCOME_CANCELLED;
    case FINISH_DRY_RUN:
    case FINISH_NONE:
    case FINISH_ERROR:
        break;
    }
    return OUTCOME_ERROR;
}

static void count_end(struct completion *c, uint32_t i, const struct event_times *t)
{
    struct metrics *m = c->api.engine->metrics;
    const struct choice *choice = &c->choices[i];

    m->outcomes[outcome_of(choice)]++;
    if (choice->finish == FINISH_QUEUE_TIMEOUT)
        m->rejections[REJECTION_QUEUE_TIMEOUT]++;
    hist_add(&m->e2e, (double)(clock_us() - c->api.arrival_us) / 1e6);
    hist_add(&m->queue, (double)t->queue_us / 1e6);
    hist_add(&m->prefill, (double)t->prefill_us / 1e6);
    hist_add(&m->decode, (double)t->decode_us / 1e6);
    hist_add(&m->prompt_tokens, (double)choice->prompt->ids.n);
    hist_add(&m->generation_tokens, choice->n_tokens);
}

/* Of the time since the engine's end: how long what was sent before has been waiting for the
 * client's socket. */
static uint64_t blocked_us(const struct completion *c, const struct event_times *t, uint64_t now)
{
    const uint64_t engine_end = c->api.arrival_us + t->queue_us + t->prefill_us + t->decode_us +
                                t->preempted_us;
    const uint64_t since = c->api.call != NULL ? http_call_blocked_since(c->api.call) : 0;
    const uint64_t from = since > engine_end ? since : engine_end;

    return since > 0 && now > from ? now - from : 0;
}

/* Did the choice end in a way that its client has to be told as an error? */
static bool is_failure(const struct completion *c, const struct choice *choice, struct api_error *e)
{
    switch (choice->finish) {
    case FINISH_STOP:
    case FINISH_LENGTH:
        return false;
    case FINISH_TIMEOUT:
        api_error_set(e, 408, NULL, "deadline_exceeded", "the request ran out of time");
        return true;
    case FINISH_QUEUE_TIMEOUT:
        api_error_set(e, 429, NULL, "queue_timeout",
                      "the request did not come to its first step in time (max_queue_ms)");
        return true;
    case FINISH_CANCELLED:
        if (c->api.engine->is_stopping) {
            api_error_set(e, 503, NULL, NULL, "the server is shutting down");
            return true;
        }
        break;
    case FINISH_DRY_RUN:
    case FINISH_NONE:
    case FINISH_ERROR:
        break;
    }
    api_error_set(e, 500, NULL, NULL, "the engine could not go on with the request");
    return true;
}

static void on_end(struct completion *c, uint32_t i, const struct event *e)
{
    const struct response_usage *u = &c->answer.usage;
    struct choice *choice = &c->choices[i];
    const uint64_t now = clock_us();
    struct api_error error;

    c->progress[i].id = 0;
    c->n_open--;
    if (i % c->api.request.params.n_each == 0) /* usage counts each prompt once */
        c->n_cached += e->times.n_cached;
    choice->times = e->times;
    choice->total_us = now - c->api.arrival_us;
    choice->blocked_us = blocked_us(c, &e->times, now);
    choice_end(choice, e->finish, &c->api.engine->scratch);
    count_end(c, i, &e->times);
    note_end(c, choice, c->progress[i].first_us, &e->times);
    if (c->api.call != NULL && is_failure(c, choice, &error))
        fail(c, &error);
    if (c->api.call != NULL && c->api.request.params.stream)
        send_choice(c, choice);
    if (c->n_open > 0)
        return;
    count_usage(c);
    if (c->api.call != NULL && c->api.request.params.stream)
        finish_stream(c);
    else if (c->api.call != NULL)
        finish_whole(c);
    c->api.report.cached_tokens = c->n_cached;
    api_call_end_key(&c->api, u->prompt * c->api.request.params.n_each + u->completion);
    destroy(c);
}

static void on_event(struct engine_caller *client, uint32_t i, const struct event *e)
{
    struct completion *c = list_entry(client, struct completion, client);

    switch (e->kind) {
    case EVENT_TOKEN:
        on_token(c, i, e);
        break;
    case EVENT_SCORE:
        choice_score(&c->choices[i], e);
        break;
    case EVENT_END:
        on_end(c, i, e);
        return;
    }
    if (c->api.call != NULL && c->api.request.params.stream && choice_has_output(&c->choices[i]))
        send_choice(c, &c->choices[i]);
}

/* ---- admission ---- */

static void make_rules(struct completion *c)
{
    const struct params *p = &c->api.request.params;

    c->rules = (struct choice_rules){.tokenizer = c->api.engine->model->tokenizer,
                                     .stop = &p->stop,
                                     .echo = p->echo,
                                     .wants_logprobs = p->sampling.n_top >= 0,
                                     .wants_prompt_scores = p->prompt_logprobs >= 0,
                                     .wants_timings = p->timings,
                                     .min_tokens = p->min_tokens};
    c->rules.has_entries = (p->form & PARAMS_LLAMA) != 0;
    c->rules.wants_ids = p->return_token_ids || (c->rules.has_entries && p->stream);
    if (c->rules.wants_logprobs)
        c->rules.n_top = (uint32_t)p->sampling.n_top;
    if (c->rules.wants_prompt_scores)
        c->rules.n_prompt_top = (uint32_t)p->prompt_logprobs;
    if ((p->form & PARAMS_CHATS) == 0)
        return;
    c->rules.style = chat_style(c->api.engine->model->chat);
    c->rules.finds_calls = p->chat.n_tools > 0 && p->tool_choice != TOOL_CHOICE_NONE;
    c->rules.has_forced_call =
        p->tool_choice == TOOL_CHOICE_REQUIRED || p->tool_choice == TOOL_CHOICE_NAMED;
    c->rules.forced_name = p->tool_choice == TOOL_CHOICE_NAMED ? p->tool_name : NULL;
}

static int make_choices(struct completion *c)
{
    const struct params *p = &c->api.request.params;
    const uint32_t n = c->api.request.n_choices;
    int rc;

    make_rules(c);
    c->choices = mem_calloc(n, sizeof(*c->choices));
    c->progress = mem_calloc(n, sizeof(*c->progress));
    if (c->choices == NULL || c->progress == NULL)
        return ERR_NOMEM;
    for (uint32_t i = 0; i < n; i++)
        choice_init(&c->choices[i], i, &c->api.request.prompts[i / p->n_each], &c->rules);
    c->n_choices = n;
    rc = response_init(&c->answer, c->api.wire_format, c->api.engine->model->id, c->choices, n);
    c->answer.include_usage = p->include_usage;
    c->answer.echo = &c->api.request.echo;
    c->answer.params = p;
    c->answer.n_embd = c->api.engine->model->n_embd;
    return rc;
}

static void begin_stream(struct completion *c)
{
    http_call_set_header(c->api.call, "Cache-Control", "no-cache");
    http_call_stream(c->api.call, "text/event-stream");
    for (uint32_t i = 0; i < c->n_choices && c->api.call != NULL; i++)
        if (choice_has_output(&c->choices[i])) /* an echo that waits for no scores */
            send_choice(c, &c->choices[i]);
}

/* The choice whose prompt is the same and comes first: the others share its blocks. Scores want
 * every token of the prompt computed, so with them nothing is shared. */
static uint64_t prefix_owner_of(const struct completion *c, uint32_t i)
{
    const struct params *p = &c->api.request.params;
    const uint32_t first = c->api.request.prompts[i / p->n_each].twin * p->n_each;

    return first == i || request_wants_rows(c->api.request.requests[i]) ? 0 : c->progress[first].id;
}

static void note_begin(struct completion *c)
{
    c->api.has_report = true;
    c->api.report.priority = priority_name(c->api.request.params.priority);
    c->api.report.model = c->api.engine->server->n_models > 1 ? c->api.engine->model->id : NULL;
    c->api.report.n_choices = c->n_choices;
    c->api.report.arrival_us = c->api.arrival_us;
    count_usage(c);
    c->api.report.prompt_tokens = c->answer.usage.prompt;
}

static void post_all(struct completion *c)
{
    c->n_open = c->n_choices;
    api_call_begin_key(&c->api);
    note_begin(c);
    for (uint32_t i = 0; i < c->n_choices; i++) {
        struct request *r = c->api.request.requests[i];

        r->prefix_owner = prefix_owner_of(c, i);
        if (r->prefix_owner != 0) /* its wait is for a prompt that is being computed */
            r->queue_until_us = 0;
        c->api.request.requests[i] = NULL;
        c->progress[i].id = engine_client_post(c->api.engine, r, &c->client, i);
    }
}

static void set_position_header(struct completion *c)
{
    const uint32_t position = engine_client_position(c->api.engine, c->api.request.params.priority);
    char text[16];

    if (position == 0)
        return;
    snprintf(text, sizeof(text), "%u", position);
    http_call_set_header(c->api.call, "X-Queue-Position", text);
}

/* All of its requests go to the engine. */
static void begin(struct completion *c)
{
    if (make_choices(c) < 0) {
        refusal_send_no_memory(c->api.engine, c->api.call);
        destroy(c);
        return;
    }
    set_position_header(c);
    post_all(c);
    if (c->api.request.params.stream)
        begin_stream(c);
}

static void on_probed(struct engine_probe *p);

/* All of it goes to the engine, or nothing. When the engine cannot be asked now, the deadline will
 * have to show. */
static void admit(struct completion *c, const struct event_probe *found)
{
    const struct admission_ask work = {.found = found}, question = {.is_dry_run = true};
    struct engine_client *engine = c->api.engine;
    struct refusal why;
    enum admission answer = admission_decide(engine, &c->api, &work, &why);

    if (answer == ADMISSION_NO) {
        api_call_refuse(&c->api, &why);
        destroy(c);
        return;
    }
    if (answer == ADMISSION_PROBE &&
        admission_decide(engine, &c->api, &question, &why) == ADMISSION_YES &&
        engine_probe_start(&c->probe, &c->api, on_probed) == 0)
        return;
    begin(c);
}

static void on_probed(struct engine_probe *p)
{
    struct completion *c = list_entry(p, struct completion, probe);

    if (c->api.call == NULL)
        destroy(c);
    else
        admit(c, p->found);
}

static void on_ready(struct api_call *api)
{
    struct completion *c = list_entry(api, struct completion, api);

    if (api->call == NULL)
        destroy(c);
    else
        admit(c, NULL);
}

void completion_start(struct engine_client *engine, struct http_call *call,
                      const struct wire_format *wire_format, const struct body_scan *scan)
{
    static const struct admission_ask work = {0};
    struct completion *c;
    struct refusal why;

    if (admission_decide(engine, NULL, &work, &why) == ADMISSION_NO) {
        refusal_send(&why, engine, call, 1);
        return;
    }
    c = mem_calloc(1, sizeof(*c));
    if (c == NULL) {
        refusal_send_no_memory(engine, call);
        return;
    }
    engine->n_jobs++;
    c->client = (struct engine_caller){.event = on_event, .request_id = c->api.request_id};
    http_call_on_gone(call, on_gone, c);
    api_call_start(&c->api, engine, call, wire_format, scan, on_ready);
}
