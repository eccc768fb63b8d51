/* server/api/completion.c - see completion.h. */
#include "server/api/completion.h"

#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/base/list.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "server/api/chat/chat.h"
#include "server/api/deadline.h"
#include "server/api/engine_client.h"
#include "server/api/engine_probe.h"
#include "server/api/parse_job.h"
#include "server/api/response/best_of.h"
#include "server/api/response/response_writer.h"
#include "server/auth/tenants.h"
#include "server/http/http.h"

#include <stdio.h>
#include <string.h>

struct progress {               /* the engine's side of a choice */
    uint64_t id;                /* 0 before the post and after the end */
    uint64_t first_us, last_us; /* first and latest token */
    bool is_cancelled;
};

struct completion {
    struct parse_job in;
    struct engine_caller client;
    struct probe probe; /* before the posts, when a deadline hangs on what is cached */
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
    c->in.report.ready_us = clock_us();
    mem_free(c->choices);
    mem_free(c->progress);
    probe_release(&c->probe);
    parse_job_release(&c->in);
    response_release(&c->answer);
    c->in.engine->n_jobs--;
    mem_free(c);
}

/* What has been said so far, for the log. */
static void note_end(struct completion *c, const struct choice *choice, uint64_t first_us,
                     const struct event_times *t)
{
    struct access_work *w = &c->in.report;
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
    engine_client_cancel(c->in.engine, p->id);
}

/* The client has left. */
static void abandon(struct completion *c)
{
    parse_job_leave(&c->in);
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
    struct http_call *call = c->in.call;
    struct buf *frame = &c->in.engine->frame;

    if (call == NULL)
        return;
    abandon(c);
    if (!c->in.parsed.params.stream) {
        if (e->status == 408)
            http_call_set_header(call, "x-should-retry", "false"); /* the time is over */
        engine_client_set_retry_headers(c->in.engine, call, e->status, 1);
        http_call_reply_error(call, e);
        return;
    }
    buf_clear(frame);
    c->in.wire_format->failure(e, frame);
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
    for (uint32_t i = 0; i < c->in.parsed.params.n_prompts; i++)
        u->prompt += c->in.parsed.prompts[i].ids.n;
    for (uint32_t i = 0; i < c->n_choices; i++) {
        u->completion += c->choices[i].n_tokens;
        u->thinking += c->choices[i].n_thinking;
    }
}

/* Send what is in the engine client's frame; a reader that is too slow loses its connection. */
static void send_frame(struct completion *c)
{
    struct http_call *call = c->in.call;
    struct buf *frame = &c->in.engine->frame;
    char id[280];
    int rc = frame->err;

    if (rc == 0 && frame->len > 0) /* some streams end with nothing */
        rc = http_call_write(call, frame->data, frame->len);
    if (rc == 0)
        return;
    log_warn("http", "event=stream_cut id=%s reason=%s",
             log_quote(id, sizeof(id), c->in.request_id),
             rc == ERR_LIMIT ? "slow_reader" : err_name(rc));
    abandon(c);
    http_call_abort(call);
}

static void send_choice(struct completion *c, struct choice *choice)
{
    buf_clear(&c->in.engine->frame);
    c->answer.wire_format->frame(&c->answer, choice, &c->in.engine->frame);
    send_frame(c);
}

static void finish_stream(struct completion *c)
{
    struct http_call *call;

    buf_clear(&c->in.engine->frame);
    c->answer.wire_format->close(&c->answer, &c->in.engine->frame);
    send_frame(c);
    call = c->in.call;
    c->in.call = NULL;
    if (call != NULL)
        http_call_end(call);
}

static void finish_whole(struct completion *c)
{
    const struct params *p = &c->in.parsed.params;
    struct http_call *call = c->in.call;
    struct buf out;

    if (p->n_each > p->n)
        best_of_take(c->choices, p->n_prompts, p->n_each, p->n);
    c->answer.n_choices = p->n_prompts * p->n;
    buf_init(&out, HTTP_MAX_REPLY);
    c->answer.wire_format->whole(&c->answer, &out);
    c->in.call = NULL;
    http_call_reply(call, 200, "application/json", &out);
}

/* ---- events ---- */

static void on_token(struct completion *c, uint32_t i, const struct event *e)
{
    struct metrics *m = c->in.engine->metrics;
    struct progress *p = &c->progress[i];
    const uint64_t now = clock_us();
    uint64_t before, after;

    if (p->first_us == 0) {
        p->first_us = now;
        hist_add(&m->ttft, (double)(now - c->in.arrival_us) / 1e6);
    } else {
        hist_add(&m->itl, (double)(now - p->last_us) / 1e6);
    }
    p->last_us = now;
    before = request_memory_of_choice(&c->choices[i]);
    if (choice_token(&c->choices[i], e, &c->in.engine->scratch))
        cancel(c, i);
    after = request_memory_of_choice(&c->choices[i]);
    if (after > before)
        parse_job_grow(&c->in, after - before);
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
    struct metrics *m = c->in.engine->metrics;
    const struct choice *choice = &c->choices[i];

    m->outcomes[outcome_of(choice)]++;
    if (choice->finish == FINISH_QUEUE_TIMEOUT)
        m->rejections[REJECTION_QUEUE_TIMEOUT]++;
    hist_add(&m->e2e, (double)(clock_us() - c->in.arrival_us) / 1e6);
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
    const uint64_t engine_end = c->in.arrival_us + t->queue_us + t->prefill_us + t->decode_us +
                                t->preempted_us;
    const uint64_t since = c->in.call != NULL ? http_call_blocked_since(c->in.call) : 0;
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
        if (c->in.engine->is_stopping) {
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
    if (i % c->in.parsed.params.n_each == 0) /* usage counts each prompt once */
        c->n_cached += e->times.n_cached;
    choice->times = e->times;
    choice->total_us = now - c->in.arrival_us;
    choice->blocked_us = blocked_us(c, &e->times, now);
    choice_end(choice, e->finish, &c->in.engine->scratch);
    count_end(c, i, &e->times);
    note_end(c, choice, c->progress[i].first_us, &e->times);
    if (c->in.call != NULL && is_failure(c, choice, &error))
        fail(c, &error);
    if (c->in.call != NULL && c->in.parsed.params.stream)
        send_choice(c, choice);
    if (c->n_open > 0)
        return;
    count_usage(c);
    if (c->in.call != NULL && c->in.parsed.params.stream)
        finish_stream(c);
    else if (c->in.call != NULL)
        finish_whole(c);
    c->in.report.cached_tokens = c->n_cached;
    parse_job_end_key(&c->in, u->prompt * c->in.parsed.params.n_each + u->completion);
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
    if (c->in.call != NULL && c->in.parsed.params.stream && choice_has_output(&c->choices[i]))
        send_choice(c, &c->choices[i]);
}

/* ---- admission ---- */

static void make_rules(struct completion *c)
{
    const struct params *p = &c->in.parsed.params;

    c->rules = (struct choice_rules){.tokenizer = c->in.engine->model->tokenizer,
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
    c->rules.style = chat_style(c->in.engine->model->chat);
    c->rules.finds_calls = p->chat.n_tools > 0 && p->tool_choice != TOOL_CHOICE_NONE;
    c->rules.has_forced_call =
        p->tool_choice == TOOL_CHOICE_REQUIRED || p->tool_choice == TOOL_CHOICE_NAMED;
    c->rules.forced_name = p->tool_choice == TOOL_CHOICE_NAMED ? p->tool_name : NULL;
}

static int make_choices(struct completion *c)
{
    const struct params *p = &c->in.parsed.params;
    const uint32_t n = c->in.parsed.n_choices;
    int rc;

    make_rules(c);
    c->choices = mem_calloc(n, sizeof(*c->choices));
    c->progress = mem_calloc(n, sizeof(*c->progress));
    if (c->choices == NULL || c->progress == NULL)
        return ERR_NOMEM;
    for (uint32_t i = 0; i < n; i++)
        choice_init(&c->choices[i], i, &c->in.parsed.prompts[i / p->n_each], &c->rules);
    c->n_choices = n;
    rc = response_init(&c->answer, c->in.wire_format, c->in.engine->model->id, c->choices, n);
    c->answer.include_usage = p->include_usage;
    c->answer.echo = &c->in.parsed.echo;
    c->answer.params = p;
    c->answer.n_embd = c->in.engine->model->n_embd;
    return rc;
}

static void begin_stream(struct completion *c)
{
    http_call_set_header(c->in.call, "Cache-Control", "no-cache");
    http_call_stream(c->in.call, "text/event-stream");
    for (uint32_t i = 0; i < c->n_choices && c->in.call != NULL; i++)
        if (choice_has_output(&c->choices[i])) /* an echo that waits for no scores */
            send_choice(c, &c->choices[i]);
}

/* The choice whose prompt is the same and comes first: the others share its blocks. Scores want
 * every token of the prompt computed, so with them nothing is shared. */
static uint64_t prefix_owner_of(const struct completion *c, uint32_t i)
{
    const struct params *p = &c->in.parsed.params;
    const uint32_t first = c->in.parsed.prompts[i / p->n_each].twin * p->n_each;

    return first == i || request_wants_rows(c->in.parsed.requests[i]) ? 0 : c->progress[first].id;
}

static void note_begin(struct completion *c)
{
    c->in.has_report = true;
    c->in.report.priority = priority_name(c->in.parsed.params.priority);
    c->in.report.model = c->in.engine->server->n_models > 1 ? c->in.engine->model->id : NULL;
    c->in.report.n_choices = c->n_choices;
    c->in.report.arrival_us = c->in.arrival_us;
    count_usage(c);
    c->in.report.prompt_tokens = c->answer.usage.prompt;
}

static void post_all(struct completion *c)
{
    c->n_open = c->n_choices;
    parse_job_begin_key(&c->in);
    note_begin(c);
    for (uint32_t i = 0; i < c->n_choices; i++) {
        struct request *r = c->in.parsed.requests[i];

        r->prefix_owner = prefix_owner_of(c, i);
        if (r->prefix_owner != 0) /* its wait is for a prompt that is being computed */
            r->queue_until_us = 0;
        c->in.parsed.requests[i] = NULL;
        c->progress[i].id = engine_client_post(c->in.engine, r, &c->client, i);
    }
}

static void set_position_header(struct completion *c)
{
    const uint32_t position = engine_client_position(c->in.engine, c->in.parsed.params.priority);
    char text[16];

    if (position == 0)
        return;
    snprintf(text, sizeof(text), "%u", position);
    http_call_set_header(c->in.call, "X-Queue-Position", text);
}

/* All of its requests go to the engine. */
static void admit(struct completion *c)
{
    struct api_error e;

    if (make_choices(c) < 0) {
        api_error_no_memory(&e);
        http_call_reply_error(c->in.call, &e);
        destroy(c);
        return;
    }
    set_position_header(c);
    post_all(c);
    if (c->in.parsed.params.stream)
        begin_stream(c);
}

/* Is there room for all of its requests? Else it has been refused. */
static bool has_room(struct completion *c)
{
    const uint32_t n = c->in.parsed.n_choices;
    const uint32_t tenant = parse_job_fill_requests(&c->in);
    struct api_error e;

    if (engine_client_check_room(c->in.engine, n, &e) < 0) {
        parse_job_refuse(&c->in, &e,
                         e.status == 429   ? REJECTION_QUEUE_FULL
                         : e.status == 503 ? REJECTION_DRAINING
                                           : REJECTION_INVALID);
        return false;
    }
    if (tenants_check(c->in.engine->tenants, tenant, n, &e) < 0) {
        parse_job_refuse(&c->in, &e, e.status == 429 ? REJECTION_TENANT_LIMIT : REJECTION_INVALID);
        return false;
    }
    return parse_job_check_key(&c->in);
}

static void on_probed(struct probe *p);

/* Ask the engine; false when that cannot be done now: then the deadline will have to show. */
static bool ask_engine(struct completion *c)
{
    struct api_error e;

    return engine_client_check_dry_room(c->in.engine, c->in.parsed.params.n_prompts, &e) == 0 &&
           probe_start(&c->probe, &c->in, on_probed) == 0;
}

/* All of it goes to the engine, or nothing. */
static void consider(struct completion *c, const struct event_probe *found)
{
    struct deadline d;

    if (!has_room(c)) {
        destroy(c);
        return;
    }
    d = deadline_judge(&c->in, found);
    if (d.verdict == DEADLINE_HOPELESS) {
        deadline_refuse(&c->in, &d);
        destroy(c);
    } else if (d.verdict == DEADLINE_FINE || !ask_engine(c)) {
        admit(c);
    }
}

static void on_probed(struct probe *p)
{
    struct completion *c = list_entry(p, struct completion, probe);

    if (c->in.call == NULL)
        destroy(c);
    else
        consider(c, p->found);
}

static void on_ready(struct parse_job *in)
{
    struct completion *c = list_entry(in, struct completion, in);

    if (in->call == NULL)
        destroy(c);
    else
        consider(c, NULL);
}

void completion_start(struct engine_client *d, struct http_call *call,
                      const struct wire_format *wire_format)
{
    struct completion *c;
    struct api_error e = {0};

    if (engine_client_check_room(d, 1, &e) < 0) { /* before any work is done for it */
        parse_job_refuse_early(d, call, &e);
        return;
    }
    c = mem_calloc(1, sizeof(*c));
    if (c == NULL) {
        api_error_no_memory(&e);
        parse_job_refuse_early(d, call, &e);
        return;
    }
    d->n_jobs++;
    c->client = (struct engine_caller){.event = on_event, .request_id = c->in.request_id};
    http_call_on_gone(call, on_gone, c);
    parse_job_start(&c->in, d, call, wire_format, on_ready);
}
