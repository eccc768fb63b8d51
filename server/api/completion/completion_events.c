/* server/api/completion/completion_events.c - turns the engine's events into the answer; see
 * completion.h. */
#include "server/api/completion/completion_impl.h"

#include "core/base/clock.h"
#include "core/base/list.h"
#include "server/api/refusal.h"
#include "server/api/slot_call.h"
#include "server/http/http_call.h"
#include "server/storage/slot_table.h"

#include <string.h>

/* Add an ended choice to the access log's record. */
static void note_end(struct completion *c, const struct choice *choice, const struct event_times *t)
{
    struct access_work *w = &c->api.report;
    const char *finish = finish_name(choice->finish);

    w->finish = w->finish == NULL || strcmp(w->finish, finish) == 0 ? finish : "mixed";
    w->completion_tokens += choice->n_tokens;
    w->n_preempted += t->n_preempted;
    if (choice->first_us > 0 && (w->first_us == 0 || choice->first_us < w->first_us))
        w->first_us = choice->first_us;
    w->queue_us = t->queue_us;
    w->prefill_us = t->prefill_us;
    w->decode_us = t->decode_us; /* measured by the engine, because events arrive here in bursts */
    w->preempted_us = t->preempted_us;
    w->swapped_us = t->swapped_us;
}

/* ---- failing ---- */

void completion_fail(struct completion *c, const struct api_error *e)
{
    struct http_call *call;

    if (!completion_has_client(c))
        return;
    call = completion_take_call(c);
    completion_abandon(c);
    if (!c->api.request.params.stream) {
        if (e->status == 408)
            http_call_set_header(call, "x-should-retry", "false"); /* the call's time is over */
        refusal_reply_error(c->api.engine, call, e);
        return;
    }
    completion_fail_stream(c, call, e);
}

void completion_give_up(struct completion *c, const struct api_error *e)
{
    if (completion_has_client(c))
        completion_fail(c, e);
    else
        completion_abandon(c);
}

/* ---- answering ---- */

/* Count the tokens that the first choice has pinned for all of them. */
static void count_pins(const struct completion *c, struct response_usage *u)
{
    const struct choice *first = &c->choices[0];
    const struct prompt *prompt = first->prompt;
    uint64_t from = first->times.n_cached;

    u->has_breakpoints = c->api.request.params.chat.n_breakpoints > 0;
    for (uint32_t i = 0; i < prompt->n_pins; i++) {
        const uint64_t end = first->pins.n_tokens[i];
        const bool is_long = prompt->pins[i].ttl_us > UINT64_C(30) * 60 * 1000000;

        u->pinned = end > u->pinned ? end : u->pinned;
        if (end <= from)
            continue;
        u->pinned_new[is_long] += end - from;
        from = end;
    }
}

void completion_count_usage(struct completion *c)
{
    struct response_usage *u = &c->answer.usage;

    *u = (struct response_usage){.cached = c->n_cached};
    for (uint32_t i = 0; i < c->api.request.params.n_prompts; i++)
        u->prompt += c->api.request.prompts[i].ids.n;
    for (uint32_t i = 0; i < c->n_choices; i += c->api.request.params.n_each)
        if (c->choices[i].finish == FINISH_NONE) /* the cached tokens of ended choices are in
                                                  * c->n_cached already */
            u->cached += c->choices[i].n_cached;
    for (uint32_t i = 0; i < c->n_choices; i++) {
        u->completion += c->choices[i].n_tokens;
        u->thinking += c->choices[i].n_thinking;
        if (c->choices[i].finish == FINISH_NONE)
            continue; /* the number of predicted tokens that came true is not known yet */
        u->predicted += c->choices[i].n_predicted;
        u->prediction += c->api.request.prediction.n;
    }
    if (c->n_choices > 0)
        count_pins(c, u);
}

/* ---- events ---- */

/* True: the choice has generated for t_max_predict_ms. It may always complete its first line. */
static bool has_run_out(const struct completion *c, struct choice *choice)
{
    const uint64_t most_us = (uint64_t)c->api.request.params.t_max_predict_ms * 1000;

    if (most_us == 0 || !choice->has_new_line || choice->last_us - choice->first_us <= most_us)
        return false;
    choice->has_run_out = true;
    return true;
}

static void on_token(struct completion *c, struct choice *choice, const struct event *e)
{
    struct metrics *m = c->api.engine->metrics;
    const uint64_t now = clock_us();
    uint64_t before, after;

    if (choice->first_us == 0) {
        choice->first_us = now;
        hist_add(&m->ttft, (double)(now - c->api.arrival_us) / 1e6);
    } else {
        hist_add(&m->itl, (double)(now - choice->last_us) / 1e6);
    }
    choice->last_us = now;
    before = request_memory_of_choice(choice);
    if (choice_token(choice, e, &c->api.engine->scratch) || has_run_out(c, choice))
        completion_cancel(c, choice);
    after = request_memory_of_choice(choice);
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

static void count_end(struct completion *c, const struct choice *choice,
                      const struct event_times *t)
{
    struct metrics *m = c->api.engine->metrics;

    m->outcomes[outcome_of(choice)]++;
    if (choice->finish == FINISH_QUEUE_TIMEOUT)
        m->rejections[REJECTION_QUEUE_TIMEOUT]++;
    hist_add(&m->e2e, (double)(clock_us() - c->api.arrival_us) / 1e6);
    hist_add(&m->queue, (double)t->queue_us / 1e6);
    hist_add(&m->running, (double)(t->prefill_us + t->decode_us + t->preempted_us) / 1e6);
    hist_add(&m->prefill, (double)t->prefill_us / 1e6);
    hist_add(&m->decode, (double)t->decode_us / 1e6);
    hist_add(&m->prompt_tokens, (double)choice->prompt->ids.n);
    hist_add(&m->generation_tokens, choice->n_tokens);
    if (choice->n_tokens > 1)
        hist_add(&m->per_token, (double)t->decode_us / (choice->n_tokens - 1) / 1e6);
}

/* Microseconds since the engine's end for which the client's socket has been full. */
static uint64_t blocked_us(const struct completion *c, const struct event_times *t, uint64_t now)
{
    const uint64_t engine_end =
        c->api.arrival_us + t->queue_us + t->prefill_us + t->decode_us + t->preempted_us;
    const uint64_t since = c->api.call != NULL ? http_call_blocked_since(c->api.call) : 0;
    const uint64_t from = since > engine_end ? since : engine_end;

    return since > 0 && now > from ? now - from : 0;
}

bool completion_is_failure(const struct completion *c, const struct choice *choice,
                           struct api_error *e)
{
    switch (choice->finish) {
    case FINISH_STOP:
    case FINISH_LENGTH:
        return false;
    case FINISH_TIMEOUT:
        refusal_say_timeout(e);
        return true;
    case FINISH_QUEUE_TIMEOUT:
        refusal_say_queue_timeout(e);
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
    api_error_set(e, 500, NULL, NULL, "the engine could not continue the request");
    return true;
}

/* Post more of the call's requests. The queue has room for at least one, because a choice has just
 * ended. */
static void advance_events(struct completion *c)
{
    struct api_error error;

    if (c->api.engine->is_draining) {
        api_error_set(&error, 503, NULL, NULL, "the server is shutting down");
        completion_fail(c, &error);
        return;
    }
    completion_post(c);
}

/* Store the text of the choice in its slot, so that POST /slots/ID?action=save can save it. */
static void keep_slot(struct completion *c, const struct choice *choice)
{
    const struct slot_name name = {c->api.tenant, c->rules.slot + choice->index};
    const struct token_list *ids = &choice->prompt->ids;

    slot_table_set(&c->api.engine->slots->table, &name, (struct slot_text){ids->ids, ids->n},
                   (struct slot_text){choice->tokens.ids, choice->tokens.n});
}

/* Answer the client, since all choices have ended; then the completion ends. */
static void answer_whole(struct completion *c)
{
    const struct response_usage *u = &c->answer.usage;

    completion_count_usage(c);
    c->api.report.cached_tokens = c->n_cached;
    api_call_end_key(&c->api, u->prompt * c->api.request.params.n_each + u->completion);
    if (c->keep.is_on) {
        completion_keep_end(c);
    } else if (completion_has_client(c) && !c->api.request.params.stream) {
        completion_answer_whole(c);
    } else {
        if (completion_has_client(c))
            completion_end_stream(c, NULL);
        completion_advance(c, COMPLETION_END);
    }
}

static void on_end(struct completion *c, uint32_t i, const struct event *e)
{
    struct choice *choice = &c->choices[i];
    const uint64_t now = clock_us();
    struct api_error error;

    c->n_open--;
    if (i % c->api.request.params.n_each == 0) /* usage counts the tokens of each prompt once */
        c->n_cached += e->times.n_cached;
    choice->times = e->times;
    choice->pins = e->pins;
    choice->total_us = now - c->api.arrival_us;
    choice->blocked_us = blocked_us(c, &e->times, now);
    if (choice->id != 0 || !c->api.request.params.resume.is_restored) /* otherwise an earlier
                                                                       * process has charged it */
        api_call_bill(&c->api, choice->prompt->ids.n, &e->usage);
    choice->id = 0;
    choice_end(choice, e->finish, &c->api.engine->scratch);
    if (c->rules.keeps_slot)
        keep_slot(c, choice);
    count_end(c, choice, &e->times);
    note_end(c, choice, &e->times);
    if (completion_has_client(c) && completion_is_failure(c, choice, &error))
        completion_fail(c, &error);
    if (completion_has_client(c) && c->api.request.params.stream)
        completion_send_choice(c, choice);
    if (completion_has_client(c) && c->n_posted < c->n_choices)
        advance_events(c);
    if (c->n_open == 0)
        answer_whole(c);
}

/* True: tokens of one step may share a frame. Resumable streams have a frame for each token, so
 * that their frames are the same wherever they are continued. */
static bool may_join_tokens(const struct completion *c)
{
    return !c->frames.are_numbered && !c->api.request.params.resume.is_on;
}

void completion_on_event(struct engine_caller *client, uint32_t i, const struct event *e)
{
    struct completion *c = list_entry(client, struct completion, client);

    switch (e->kind) {
    case EVENT_TOKEN:
        on_token(c, &c->choices[i], e);
        break;
    case EVENT_SCORE:
        choice_score(&c->choices[i], e);
        break;
    case EVENT_PROGRESS:
        choice_progress(&c->choices[i], e, clock_us());
        if (completion_has_client(c) && c->api.request.params.return_progress)
            completion_send_choice(c, &c->choices[i]);
        return;
    case EVENT_END:
        on_end(c, i, e);
        return;
    }
    if (e->kind == EVENT_TOKEN && e->is_followed && may_join_tokens(c))
        return;
    if (completion_has_client(c) && c->api.request.params.stream &&
        choice_has_output(&c->choices[i]))
        completion_send_choice(c, &c->choices[i]);
}
