/* server/completion.c - see completion.h. */
#include "server/completion.h"

#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "server/desk.h"
#include "server/http.h"
#include "server/prepare.h"
#include "server/render.h"

#include <assert.h>
#include <stdio.h>

/* A body up to here is read and tokenised on the loop: far below a millisecond. */
#define INLINE_BODY ((size_t)8 << 10)

struct progress {               /* the engine's side of a choice */
    uint64_t id;                /* 0 before the post and after the end */
    uint64_t first_us, last_us; /* first and latest token */
    bool is_cancelled;
};

struct completion {
    struct desk *desk;
    struct http_call *call; /* NULL once it is answered or its client has gone */
    uv_work_t work;
    struct buf body;
    char priority[16]; /* X-Priority */
    bool has_priority;
    struct prepared prepared;
    struct choice_rules rules;
    struct choice *choices;    /* [n_choices] */
    struct progress *progress; /* [n_choices] */
    uint32_t n_choices, n_open;
    uint64_t arrival_us, n_cached;
    char request_id[132];
    struct buf head; /* {"id":…,"choices":[ */
};

/* ---- life ---- */

static void destroy(struct completion *c)
{
    for (uint32_t i = 0; c->choices != NULL && i < c->n_choices; i++)
        choice_release(&c->choices[i]);
    mem_free(c->choices);
    mem_free(c->progress);
    prepare_release(&c->prepared);
    buf_release(&c->body);
    buf_release(&c->head);
    c->desk->n_completions--;
    mem_free(c);
}

static void cancel(struct completion *c, uint32_t i)
{
    struct progress *p = &c->progress[i];

    if (p->id == 0 || p->is_cancelled)
        return;
    p->is_cancelled = true;
    desk_cancel(c->desk, p->id);
}

/* Nobody waits for it any more. */
static void abandon(struct completion *c)
{
    c->call = NULL;
    for (uint32_t i = 0; i < c->n_choices; i++)
        cancel(c, i);
}

static void on_gone(void *ud)
{
    abandon(ud);
}

/* ---- refusing and failing ---- */

static void refuse(struct completion *c, struct api_error *e, enum rejection reason)
{
    struct metrics *m = c->desk->metrics;

    m->outcomes[OUTCOME_REJECTED]++;
    m->rejections[reason]++;
    if (c->call == NULL)
        return;
    desk_set_retry_headers(c->desk, c->call, e->status, c->prepared.n_choices);
    http_call_reply_error(c->call, e);
    c->call = NULL;
}

/* A choice failed: the whole request has, and the others need not go on. */
static void fail(struct completion *c, const struct api_error *e)
{
    struct http_call *call = c->call;
    struct buf *frame = &c->desk->frame;

    if (call == NULL)
        return;
    abandon(c);
    if (!c->prepared.params.stream) {
        if (e->status == 408)
            http_call_set_header(call, "x-should-retry", "false"); /* the time is over */
        desk_set_retry_headers(c->desk, call, e->status, 0);
        http_call_reply_error(call, e);
        return;
    }
    buf_clear(frame);
    render_failure(frame, e);
    if (http_call_write(call, frame->data, frame->len) < 0)
        http_call_abort(call);
    else
        http_call_end(call);
}

/* ---- answering ---- */

static struct render_usage usage_of(const struct completion *c)
{
    struct render_usage u = {.cached = c->n_cached};

    for (uint32_t i = 0; i < c->prepared.params.n_prompts; i++)
        u.prompt += c->prepared.prompts[i].ids.n;
    for (uint32_t i = 0; i < c->n_choices; i++)
        u.completion += c->choices[i].n_tokens;
    return u;
}

/* Send what is in the desk's frame; a reader that is too slow loses its connection. */
static void send_frame(struct completion *c)
{
    struct http_call *call = c->call;
    struct buf *frame = &c->desk->frame;
    const int rc = frame->err < 0 ? frame->err : http_call_write(call, frame->data, frame->len);

    if (rc == 0)
        return;
    log_warn("http", "event=stream_cut id=%s reason=%s", c->request_id,
             rc == ERR_LIMIT ? "slow_reader" : err_name(rc));
    abandon(c);
    http_call_abort(call);
}

static void send_choice(struct completion *c, struct choice *choice)
{
    buf_clear(&c->desk->frame);
    render_frame(&c->desk->frame, &c->head, choice, c->prepared.params.include_usage);
    send_frame(c);
}

static void finish_stream(struct completion *c)
{
    const struct render_usage usage = usage_of(c);
    struct http_call *call;

    buf_clear(&c->desk->frame);
    render_done(&c->desk->frame, &c->head, c->prepared.params.include_usage ? &usage : NULL);
    send_frame(c);
    call = c->call;
    c->call = NULL;
    if (call != NULL)
        http_call_end(call);
}

static void finish_whole(struct completion *c)
{
    const struct render_usage usage = usage_of(c);
    struct http_call *call = c->call;
    struct buf out;

    buf_init(&out, HTTP_MAX_REPLY);
    render_whole(&out, &c->head, c->choices, c->n_choices, &usage);
    c->call = NULL;
    http_call_reply(call, 200, "application/json", &out);
}

/* ---- events ---- */

static void on_token(struct completion *c, uint32_t i, const struct event *e)
{
    struct metrics *m = c->desk->metrics;
    struct progress *p = &c->progress[i];
    const uint64_t now = clock_us();

    if (p->first_us == 0) {
        p->first_us = now;
        hist_add(&m->ttft, (double)(now - c->arrival_us) / 1e6);
    } else {
        hist_add(&m->itl, (double)(now - p->last_us) / 1e6);
    }
    p->last_us = now;
    if (choice_token(&c->choices[i], e, &c->desk->scratch))
        cancel(c, i);
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
    case FINISH_CANCELLED:
        return OUTCOME_CANCELLED;
    case FINISH_NONE:
    case FINISH_ERROR:
        break;
    }
    return OUTCOME_ERROR;
}

static void count_end(struct completion *c, uint32_t i, const struct event_times *t)
{
    struct metrics *m = c->desk->metrics;
    const struct choice *choice = &c->choices[i];

    m->outcomes[outcome_of(choice)]++;
    hist_add(&m->e2e, (double)(clock_us() - c->arrival_us) / 1e6);
    hist_add(&m->queue, (double)t->queue_us / 1e6);
    hist_add(&m->prefill, (double)t->prefill_us / 1e6);
    hist_add(&m->decode, (double)t->decode_us / 1e6);
    hist_add(&m->prompt_tokens, (double)choice->prompt->ids.n);
    hist_add(&m->generation_tokens, choice->n_tokens);
}

static void log_end(const struct completion *c, uint32_t i, const struct event_times *t)
{
    const struct choice *choice = &c->choices[i];
    const struct progress *p = &c->progress[i];
    const uint64_t decode_us = t->decode_us; /* the engine's: events come here in bursts */
    char quoted[160];

    if (!log_is_on(LOG_INFO))
        return;
    log_info("http",
             "event=finished id=%s choice=%u priority=%s prompt_tokens=%zu completion_tokens=%u "
             "cached_tokens=%u queue_ms=%.1f prefill_ms=%.1f ttft_ms=%.1f tok_s=%.1f total_ms=%.1f "
             "preemptions=%u finish=%s",
             log_quote(quoted, sizeof(quoted), c->request_id), choice->index,
             priority_name(c->prepared.params.priority), choice->prompt->ids.n, choice->n_tokens,
             t->n_cached, (double)t->queue_us / 1e3, (double)t->prefill_us / 1e3,
             p->first_us > 0 ? (double)(p->first_us - c->arrival_us) / 1e3 : 0,
             decode_us > 0 ? (choice->n_tokens - 1) / ((double)decode_us / 1e6) : 0,
             (double)(clock_us() - c->arrival_us) / 1e3, t->n_preempted,
             finish_name(choice->finish));
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
    case FINISH_CANCELLED:
        if (c->desk->is_stopping) {
            api_error_set(e, 503, NULL, NULL, "the server is shutting down");
            return true;
        }
        break;
    case FINISH_NONE:
    case FINISH_ERROR:
        break;
    }
    api_error_set(e, 500, NULL, NULL, "the engine could not go on with the request");
    return true;
}

static void on_end(struct completion *c, uint32_t i, const struct event *e)
{
    struct choice *choice = &c->choices[i];
    struct api_error error;

    c->progress[i].id = 0;
    c->n_open--;
    if (i % c->prepared.params.n == 0) /* usage counts each prompt once */
        c->n_cached += e->times.n_cached;
    choice_end(choice, e->finish, &c->desk->scratch);
    count_end(c, i, &e->times);
    log_end(c, i, &e->times);
    if (c->call != NULL && is_failure(c, choice, &error))
        fail(c, &error);
    if (c->call != NULL && c->prepared.params.stream)
        send_choice(c, choice);
    if (c->n_open > 0)
        return;
    if (c->call != NULL && c->prepared.params.stream)
        finish_stream(c);
    else if (c->call != NULL)
        finish_whole(c);
    destroy(c);
}

void completion_event(struct completion *c, uint32_t i, const struct event *e)
{
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
    if (c->call != NULL && c->prepared.params.stream && choice_has_news(&c->choices[i]))
        send_choice(c, &c->choices[i]);
}

/* ---- admission ---- */

static int make_choices(struct completion *c)
{
    const struct params *p = &c->prepared.params;
    const uint32_t n = c->prepared.n_choices;

    c->rules = (struct choice_rules){.tokenizer = c->desk->opt->tokenizer,
                                     .stop = &p->stop,
                                     .echo = p->echo,
                                     .wants_logprobs = p->sampling.n_top >= 0,
                                     .wants_ids = p->return_token_ids,
                                     .min_tokens = p->min_tokens};
    c->choices = mem_calloc(n, sizeof(*c->choices));
    c->progress = mem_calloc(n, sizeof(*c->progress));
    if (c->choices == NULL || c->progress == NULL)
        return ERR_NOMEM;
    for (uint32_t i = 0; i < n; i++)
        choice_init(&c->choices[i], i, &c->prepared.prompts[i / p->n], &c->rules);
    c->n_choices = n;
    return render_head(&c->head, c->desk->opt->model.id);
}

static void begin_stream(struct completion *c)
{
    http_call_set_header(c->call, "Cache-Control", "no-cache");
    http_call_stream(c->call, "text/event-stream");
    for (uint32_t i = 0; i < c->n_choices && c->call != NULL; i++)
        if (choice_has_news(&c->choices[i])) /* an echo that waits for no scores */
            send_choice(c, &c->choices[i]);
}

static uint64_t deadline_of(const struct completion *c)
{
    uint64_t ms = (uint64_t)c->desk->opt->request_timeout_s * 1000;

    if (c->prepared.params.deadline_ms > 0 && c->prepared.params.deadline_ms < ms)
        ms = c->prepared.params.deadline_ms;
    return c->arrival_us + ms * 1000;
}

static void post_all(struct completion *c)
{
    c->n_open = c->n_choices;
    for (uint32_t i = 0; i < c->n_choices; i++) {
        struct request *r = c->prepared.requests[i];

        c->prepared.requests[i] = NULL;
        r->arrival_us = c->arrival_us;
        r->deadline_us = deadline_of(c);
        c->progress[i].id = desk_post(c->desk, r, c, i);
    }
}

static void set_position_header(struct completion *c)
{
    const uint32_t position = desk_position(c->desk, c->prepared.params.priority);
    char text[16];

    if (position == 0)
        return;
    snprintf(text, sizeof(text), "%u", position);
    http_call_set_header(c->call, "X-Queue-Position", text);
}

/* All of its requests go to the engine, or none. */
static void admit(struct completion *c)
{
    struct api_error e;

    if (desk_check_room(c->desk, c->prepared.n_choices, &e) < 0) {
        refuse(c, &e,
               e.status == 429   ? REJECTION_QUEUE_FULL
               : e.status == 503 ? REJECTION_DRAINING
                                 : REJECTION_INVALID);
        destroy(c);
        return;
    }
    if (make_choices(c) < 0) {
        api_error_set(&e, 500, NULL, NULL, "out of memory");
        http_call_reply_error(c->call, &e);
        destroy(c);
        return;
    }
    set_position_header(c);
    post_all(c);
    if (c->prepared.params.stream)
        begin_stream(c);
}

/* ---- preparation ---- */

static void after_prepare(struct completion *c)
{
    struct prepared *p = &c->prepared;

    buf_release(&c->body);
    c->desk->metrics->unknown_fields += p->params.n_unknown;
    if (c->call == NULL) {
        destroy(c);
    } else if (p->error.status != 0) {
        refuse(c, &p->error, p->reason);
        destroy(c);
    } else {
        admit(c);
    }
}

static void do_prepare(struct completion *c)
{
    prepare(&c->prepared, c->desk->opt, &c->body, c->has_priority ? c->priority : NULL);
}

static void on_work(uv_work_t *work)
{
    do_prepare(work->data);
}

static void after_work(uv_work_t *work, int status)
{
    struct completion *c = work->data;
    struct http *http = c->desk->http;

    (void)status; /* nobody cancels it */
    after_prepare(c);
    http_kick(http);
}

static void take_headers(struct completion *c)
{
    const char *priority = http_call_header(c->call, "X-Priority");

    snprintf(c->request_id, sizeof(c->request_id), "%s", http_call_id(c->call));
    c->has_priority = priority != NULL;
    snprintf(c->priority, sizeof(c->priority), "%s", priority != NULL ? priority : "");
}

/* Without memory for a completion there is none to answer with. */
static void refuse_early(struct desk *d, struct http_call *call, const struct api_error *e)
{
    d->metrics->outcomes[OUTCOME_REJECTED]++;
    if (e->status != 500)
        d->metrics->rejections[e->status == 429 ? REJECTION_QUEUE_FULL : REJECTION_DRAINING]++;
    desk_set_retry_headers(d, call, e->status, 1);
    http_call_reply_error(call, e);
}

void completion_start(struct desk *d, struct http_call *call)
{
    struct completion *c;
    struct api_error e = {0};

    if (desk_check_room(d, 1, &e) < 0) { /* before any work is done for it */
        refuse_early(d, call, &e);
        return;
    }
    c = mem_calloc(1, sizeof(*c));
    if (c == NULL) {
        api_error_set(&e, 500, NULL, NULL, "out of memory");
        refuse_early(d, call, &e);
        return;
    }
    *c = (struct completion){.desk = d, .call = call, .arrival_us = clock_us()};
    d->n_completions++;
    c->body = http_call_take_body(call);
    take_headers(c);
    http_call_on_gone(call, on_gone, c);
    c->work.data = c;
    if (c->body.len > INLINE_BODY && uv_queue_work(d->loop, &c->work, on_work, after_work) == 0)
        return;
    do_prepare(c);
    after_prepare(c);
}
