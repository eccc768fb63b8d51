/* server/api/completion/completion.c - see completion.h. The table of states, and the states that
 * need no other thread but the engine: ADMIT, PROBE and END (completion_impl.h).
 */
#include "server/api/completion/completion_impl.h"

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "core/base/name_copy.h"
#include "server/api/body_scan.h"
#include "server/api/completion/admission.h"
#include "server/api/refusal.h"
#include "server/http/http_call.h"

#include <assert.h>
#include <string.h>

/* ---- ADMIT ---- */

static enum admission_for admission_for(const struct completion *c)
{
    return completion_is_plan(c) ? ADMISSION_FOR_DRY_RUNS : ADMISSION_FOR_WORK;
}

/* Enter ADMIT. A dry run always asks the engine; other calls do when a deadline depends on how much
 * is cached. */
static void admit(struct completion *c)
{
    const bool needs_no_engine = c->api.request.wire_format->answer != NULL;
    enum admission answer = ADMISSION_YES;
    struct refusal why;

    if (!needs_no_engine)
        answer = admission_decide(c->api.engine, &c->api, admission_for(c), c->probe.found, &why);
    if (answer == ADMISSION_NO) {
        api_call_refuse(&c->api, &why);
        completion_advance(c, COMPLETION_END);
    } else if (answer == ADMISSION_PROBE || completion_is_plan(c)) {
        completion_advance(c, COMPLETION_PROBE);
    } else {
        completion_advance(c, COMPLETION_RUN);
    }
}

/* ---- PROBE ---- */

static void on_probed(struct engine_probe *p)
{
    struct completion *c = list_entry(p, struct completion, probe);

    completion_advance(c, completion_is_plan(c) ? COMPLETION_RUN : COMPLETION_ADMIT);
}

static int start_probe(struct completion *c)
{
    const struct params *p = &c->api.request.params;

    c->probe = (struct engine_probe){.client.request_id = c->api.request_id, .done = on_probed};
    return engine_probe_start(&c->probe, c->api.engine, c->api.request.requests, p->n_prompts,
                              p->n_each);
}

/* Ask the engine. If it cannot take the question now, the call runs without an answer: the engine
 * ends its requests at their deadline. */
static void ask_engine(struct completion *c)
{
    struct refusal ignored;

    if (admission_decide(c->api.engine, &c->api, ADMISSION_FOR_DRY_RUNS, NULL, &ignored) ==
            ADMISSION_YES &&
        start_probe(c) == 0)
        return;
    if (!completion_is_plan(c)) {
        completion_advance(c, COMPLETION_RUN);
        return;
    }
    refusal_send_no_memory(c->api.engine, c->api.call);
    completion_advance(c, COMPLETION_END);
}

/* ---- END ---- */

static void destroy(struct completion *c)
{
    hash_index_remove(&c->api.engine->completions, completion_hash(c), (uintptr_t)c);
    for (uint32_t i = 0; c->choices != NULL && i < c->n_choices; i++)
        choice_release(&c->choices[i]);
    stream_pings_remove(&c->ping);
    completion_save_release(c);
    if (c->stream != NULL)
        kept_stream_end(c->stream);
    c->api.report.ready_us = clock_us();
    mem_free(c->choices);
    engine_probe_release(&c->probe);
    completion_keep_release(&c->keep);
    api_call_release(&c->api);
    response_release(&c->answer);
    buf_release(&c->whole);
    mem_free(c);
}

/* ---- the states ---- */

struct completion_rule {
    void (*enter)(struct completion *c);
    uint32_t next; /* a bit for each state that may follow, beside END */
};

#define TO(state) (1u << COMPLETION_##state)

static const struct completion_rule rules[COMPLETION_END] = {
    [COMPLETION_PARSE] = {completion_parse, TO(LOOK_UP) | TO(ADAPTER)},
    [COMPLETION_LOOK_UP] = {completion_look_up, TO(PARSE)},
    [COMPLETION_ADAPTER] = {completion_take_adapter, TO(SAVE)},
    [COMPLETION_SAVE] = {completion_save, TO(ADMIT)},
    [COMPLETION_ADMIT] = {admit, TO(PROBE) | TO(RUN)},
    [COMPLETION_PROBE] = {ask_engine, TO(ADMIT) | TO(RUN)},
    [COMPLETION_RUN] = {completion_run, 0},
};

static void refuse_parsed(struct api_call *api)
{
    struct refusal why = {.error = api->request.error,
                          .reason = api->request.reason,
                          .is_final = api->request.error.status == 408}; /* the time is over */

    request_memory_release(&api->share);
    api_call_refuse(api, &why);
}

/* Return the state to enter in place of `next`. */
static enum completion_state state_after_check(struct completion *c, enum completion_state next)
{
    if (next == COMPLETION_END || c->api.call == NULL)
        return COMPLETION_END;
    if (c->api.request.error.status == 0)
        return next;
    refuse_parsed(&c->api);
    return COMPLETION_END;
}

static void enter_states(struct completion *c)
{
    c->is_advancing = true;
    while (c->next != N_COMPLETION_STATES) {
        c->state = state_after_check(c, c->next);
        c->next = N_COMPLETION_STATES;
        if (c->state == COMPLETION_END) {
            destroy(c);
            return;
        }
        rules[c->state].enter(c);
    }
    c->is_advancing = false;
}

void completion_advance(struct completion *c, enum completion_state next)
{
    assert(next == COMPLETION_END || (rules[c->state].next & (1u << next)) != 0);
    c->next = next;
    if (!c->is_advancing)
        enter_states(c);
}

/* ---- the client ---- */

void completion_cancel(struct completion *c, struct choice *choice)
{
    if (choice->id == 0 || choice->is_cancelled)
        return;
    choice->is_cancelled = true;
    engine_client_cancel(c->api.engine, choice->id);
}

void completion_abandon(struct completion *c)
{
    assert(c->api.call == NULL); /* else its client would wait without an end */
    for (uint32_t i = 0; i < c->n_choices; i++)
        completion_cancel(c, &c->choices[i]);
    stream_pings_remove(&c->ping);
    worker_job_cancel(&c->api.job);
    if (c->state == COMPLETION_ADAPTER)
        completion_stop_adapter(c);
}

static void on_completion_client_gone(void *ud)
{
    struct completion *c = ud;

    c->api.call = NULL; /* HTTP has taken it back */
    if (!c->keep.is_on || !c->api.request.params.background)
        completion_abandon(c);
}

/* ---- the start ---- */

static void refuse_conversation(struct http_call *call)
{
    struct api_error e;

    api_error_set(&e, 400, "X-Conversation-Id", NULL,
                  "the header X-Conversation-Id must have at most %d bytes",
                  STREAM_MAX_CONVERSATION);
    http_call_reply_error(call, &e);
}

/* Refuse a call before its body is parsed. True: it was refused. */
static bool is_refused(struct engine_client *engine, struct http_call *call,
                       const struct wire_format *wire_format)
{
    const bool is_plan = wire_format == &wire_dry_run;
    const enum admission_for what = is_plan ? ADMISSION_FOR_DRY_RUNS : ADMISSION_FOR_WORK;
    const char *conversation = http_call_header(call, "X-Conversation-Id");
    struct refusal why;

    if (wire_format->answer != NULL)
        return false; /* it needs no room in the queue */
    if (!is_plan && conversation != NULL && strlen(conversation) > STREAM_MAX_CONVERSATION) {
        refuse_conversation(call);
        return true;
    }
    if (admission_decide(engine, NULL, what, NULL, &why) != ADMISSION_NO)
        return false;
    refusal_send(&why, engine, call, 1);
    return true;
}

static void init_completion(struct completion *c, struct engine_client *engine,
                            struct http_call *call, const struct wire_format *wire_format)
{
    const char *conversation = http_call_header(call, "X-Conversation-Id");

    buf_init(&c->whole, HTTP_MAX_REPLY);
    c->client =
        (struct engine_caller){.event = completion_on_event, .request_id = c->api.request_id};
    if (conversation != NULL)
        (void)name_copy(c->conversation, sizeof(c->conversation), conversation);
    http_call_on_gone(call, on_completion_client_gone, c);
    completion_save_prepare(c, call);
    api_call_init(&c->api, engine, call, wire_format);
}

void completion_start(struct engine_client *engine, struct http_call *call,
                      const struct wire_format *wire_format, const struct body_scan *scan)
{
    struct completion *c;

    if (is_refused(engine, call, wire_format))
        return;
    c = mem_calloc(1, sizeof(*c));
    if (c == NULL) {
        refusal_send_no_memory(engine, call);
        return;
    }
    init_completion(c, engine, call, wire_format);
    c->api.is_constrained = scan->may_be_constrained;
    api_call_set_memory(&c->api,
                        request_memory_of_body(scan) + wire_format->answer_bytes * scan->n_bytes);
    c->next = COMPLETION_PARSE;
    enter_states(c);
}
