/* server/api/completion/completion_run.c - the state RUN of a completion: its choices are made, its
 * headers set, its stream begun and its requests posted to the engine.
 *
 * Choices of a generated text are posted together, and share the blocks of a prompt that several of
 * them have. Texts that are embedded, scored or decided, of which a call may have more than the
 * queue holds, are posted when there is room, and leave half of the queue to other calls.
 */
#include "server/api/completion/completion_impl.h"

#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/base/mem.h"
#include "server/api/chat/chat.h"
#include "server/api/refusal.h"
#include "server/api/slot_call.h"
#include "server/auth/tenants.h"
#include "server/http/http_call.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

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
    c->rules.includes_stop = p->includes_stop;
    c->rules.shows_special = p->shows_special;
    c->rules.slot = p->slot;
    c->rules.keeps_slot = slots_are_on(c->api.engine->slots) && p->cache_salt[0] == '\0' &&
                          c->api.request.adapter == NULL && (p->form & PARAMS_MANY) == 0;
    c->rules.keeps_tokens =
        c->rules.keeps_slot || p->receipt ||
        ((p->form & PARAMS_COMPLETIONS) != 0 && p->stream && c->api.request.n_choices == 1);
    c->rules.preserved = p->preserved;
    c->rules.n_preserved = p->n_preserved;
    c->rules.has_shares = p->sampling.wants_shares;
    c->rules.tokens_as_ids = p->tokens_as_ids;
    c->rules.n_indent = p->n_indent;
    c->rules.has_entries = (p->form & (PARAMS_LLAMA | PARAMS_OLLAMA_RAW)) != 0;
    c->rules.wants_ids = p->return_token_ids || p->form == PARAMS_OLLAMA_GENERATE ||
                         ((p->form & PARAMS_LLAMA) != 0 && p->stream);
    if (c->rules.wants_logprobs)
        c->rules.n_top = (uint32_t)p->sampling.n_top;
    if (c->rules.wants_prompt_scores)
        c->rules.n_prompt_top = (uint32_t)p->prompt_logprobs;
    if ((p->form & PARAMS_TURNS) == 0)
        return;
    c->rules.style = chat_style(chat_for(c->api.engine->model->chat, p));
    c->rules.tools = c->api.request.tools;
    c->rules.skips_thoughts = p->form == PARAMS_RESPONSES;
    c->rules.has_functions = p->has_functions;
    c->rules.reasoning = p->reasoning_format;
    if (p->reasoning_format == REASONING_LEGACY)
        c->rules.reasoning = p->stream ? REASONING_INLINE : REASONING_APART;
    c->rules.finds_calls = p->chat.n_tools > 0 && p->tool_choice != TOOL_CHOICE_NONE;
    c->rules.insists = p->forces_own_form;
    c->rules.has_forced_call = !p->forces_own_form && (p->tool_choice == TOOL_CHOICE_REQUIRED ||
                                                       p->tool_choice == TOOL_CHOICE_NAMED);
    c->rules.forced_name = p->tool_choice == TOOL_CHOICE_NAMED ? p->tool_name : NULL;
    c->rules.has_one_call = !p->parallel_tool_calls || p->has_functions;
}

static struct response_labels labels_of(const struct server_model *m)
{
    return (struct response_labels){m->n_labels, m->labels, m->is_cross, m->yes_label};
}

static int make_choices(struct completion *c)
{
    const struct params *p = &c->api.request.params;
    const uint32_t n = c->api.request.n_choices;
    int rc;

    make_rules(c);
    c->choices = mem_calloc(n, sizeof(*c->choices));
    if (c->choices == NULL)
        return ERR_NOMEM;
    for (uint32_t i = 0; i < n; i++)
        choice_init(&c->choices[i], i, &c->api.request.prompts[i / p->n_each], &c->rules);
    for (uint32_t i = 0; i < n; i++) {
        const struct request *r = c->api.request.requests[i];

        c->choices[i].begun_us = c->api.arrival_us;
        c->choices[i].max_known = r->max_known;
        c->choices[i].n_discard = r->n_discard;
        c->choices[i].seed = r->sampling.seed;
    }
    c->n_choices = n;
    rc = response_init(&c->answer, c->api.request.wire_format,
                       api_request_model(&c->api.request, c->api.engine->model), c->choices, n);
    if (rc == 0 && (p->resume.is_on || p->resume.id[0] != '\0'))
        rc = response_set_identity(&c->answer, p->resume.id, p->resume.created);
    else if (rc == 0 && p->request_id[0] != '\0')
        rc = response_set_request_id(&c->answer, p->request_id);
    for (uint32_t i = 0; i < n; i++)
        c->choices[i].output.call_seed =
            XXH3_64bits_withSeed(c->answer.id, strlen(c->answer.id), i);
    c->answer.include_usage = p->include_usage;
    c->answer.echo = &c->api.request.echo;
    c->answer.params = p;
    c->answer.receipt = p->receipt ? &c->api.request.receipt : NULL;
    c->answer.labels = labels_of(c->api.engine->model);
    c->answer.has_mean = c->api.engine->model->pooling == POOLING_MEAN;
    if (rc == 0)
        rc = hash_index_add(&c->api.engine->completions, completion_hash(c), (uintptr_t)c);
    return rc;
}

/* Return the id of the first choice with the same prompt, whose blocks the others share; 0: none.
 * Requests with scores share nothing, because every token of the prompt must be computed. */
static uint64_t prefix_owner_of(const struct completion *c, uint32_t i)
{
    const struct params *p = &c->api.request.params;
    const uint32_t first = c->api.request.prompts[i / p->n_each].twin * p->n_each;

    return first == i || request_wants_rows(c->api.request.requests[i]) ? 0 : c->choices[first].id;
}

static void note_begin(struct completion *c)
{
    c->api.has_report = true;
    c->api.report.priority = priority_name(c->api.request.params.priority);
    c->api.report.model =
        c->api.engine->shared->options->n_models > 1 ? c->api.engine->model->id : NULL;
    c->api.report.n_choices = c->n_choices;
    c->api.report.arrival_us = c->api.arrival_us;
    completion_count_usage(c);
    c->api.report.prompt_tokens = c->answer.usage.prompt;
}

static uint32_t n_to_post(const struct completion *c)
{
    const struct engine_client *engine = c->api.engine;
    const uint32_t left = c->n_choices - c->n_posted;
    uint32_t room = engine_client_room(engine), own;

    if ((c->api.request.params.form & PARAMS_MANY) == 0 || left == 0)
        return left;
    own = (engine->model->max_outstanding + 1) / 2;
    own = own > c->n_open ? own - c->n_open : 0;
    room = own < room ? own : room;
    own = tenants_room(engine->shared->tenants, c->api.request.requests[c->n_posted]->tenant);
    room = own < room ? own : room;
    return left < room ? left : room;
}

void completion_post(struct completion *c)
{
    const bool is_of_many = (c->api.request.params.form & PARAMS_MANY) != 0;
    const uint32_t first = c->n_posted, n = n_to_post(c);

    for (uint32_t i = first; i < first + n; i++) {
        struct request *r = c->api.request.requests[i];

        r->prefix_owner = prefix_owner_of(c, i);
        if (r->prefix_owner != 0 || (i > 0 && is_of_many)) /* it waits for others of its call */
            r->queue_until_us = 0;
        c->choices[i].id = engine_client_register(c->api.engine, r, &c->client, i);
    }
    c->n_open += n;
    c->n_posted += n;
    if (n > 0)
        engine_client_post(c->api.engine, c->api.request.requests + first, n);
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

/* Set the header with the predicted time of the first choice's first token, for routers that choose
 * among servers. The forecast uses the answer of PROBE; without one it counts nothing as cached. */
static void set_forecast_header(struct completion *c)
{
    const uint32_t n_cached = c->probe.found != NULL ? c->probe.found[0].n_cached : 0;
    struct forecast f;
    char text[24];

    if ((c->api.request.params.form & PARAMS_MANY) != 0)
        return;
    f = engine_client_forecast(c->api.engine, c->api.request.requests[0], n_cached, 0);
    if (!f.is_known)
        return;
    snprintf(text, sizeof(text), "%.3f", ms_of(f.first_us));
    http_call_set_header(c->api.call, "X-Predicted-TTFT-Ms", text);
}

/* True: the call has a budget for thoughts, and the engine cannot see where a thought ends. */
static bool has_lost_budget(const struct completion *c)
{
    const uint32_t budget = c->api.request.params.thinking_budget;

    return c->rules.style->think_close != NULL && budget > 0 && budget != THOUGHT_NO_LIMIT &&
           c->choices[0].prompt->thought.close == TOKEN_NONE;
}

/* Return a sentence about a part of the request that this model cannot do, or NULL. */
static const char *warning_of(const struct completion *c)
{
    if (c->rules.style == NULL)
        return NULL;
    if (c->rules.style->family == NULL && c->rules.finds_calls && !c->rules.has_forced_call)
        return "tool calls in this model's answers are not parsed: its chat template shows no "
               "known format for them; set tool_call_parser";
    if (has_lost_budget(c))
        return "the reasoning budget is not enforced: the tags around this model's reasoning are "
               "not tokens of its vocabulary";
    return NULL;
}

static void set_warning_header(struct completion *c)
{
    const char *text = warning_of(c);

    if (text != NULL)
        http_call_set_header(c->api.call, "X-Warning", text);
}

/* Set how frames are numbered, and keep the stream if it is to be resumable. False: there is no
 * room for it, and the call has been answered. */
static bool begin_frames(struct completion *c)
{
    struct refusal why = {.reason = REJECTION_MEMORY};
    const bool is_kept = completion_wants_stream_kept(c);

    c->frames.tells_tokens = c->api.request.params.resume_tokens;
    c->frames.are_numbered = is_kept || c->frames.tells_tokens;
    if (c->api.request.params.resume.is_on)
        completion_pass_tokens(c);
    if (!is_kept || completion_keep_stream(c) == 0) {
        if (c->api.request.params.resume.is_on && c->api.request.params.resume.is_restored)
            completion_restore_tokens(c);
        return completion_has_client(c);
    }
    api_error_set(&why.error, 429, NULL, "stream_memory",
                  "the memory for kept streams (stream_memory) is in use");
    refusal_send(&why, c->api.engine, c->api.call, 1);
    return false;
}

/* True: the answer that the call continues is complete already. */
static bool is_over(const struct completion *c)
{
    return c->api.request.resume_end != FINISH_NONE || c->choices[0].has_stopped ||
           c->choices[0].has_run_out;
}

static void end_at_once(struct completion *c)
{
    const struct event e = {.kind = EVENT_END,
                            .finish = c->api.request.resume_end != FINISH_NONE
                                          ? c->api.request.resume_end
                                          : FINISH_STOP};

    c->n_posted = c->n_open = 1;
    completion_on_event(&c->client, 0, &e);
}

static void begin_run(struct completion *c)
{
    const bool is_restored = c->api.request.params.resume.is_restored;
    const bool posts = !is_over(c);

    set_position_header(c);
    set_forecast_header(c);
    set_warning_header(c);
    if (posts || !is_restored) /* otherwise an earlier process has charged the key */
        api_call_begin_key(&c->api);
    note_begin(c);
    if (c->api.request.params.store)
        completion_keep_begin(c);
    if (posts)
        completion_post(c);
    completion_save_run(c);
    if (c->api.request.params.stream)
        completion_begin_stream(c);
    if (!posts)
        end_at_once(c);
}

static void run_work(struct completion *c)
{
    if (make_choices(c) < 0 || completion_save_take_up(c) < 0) {
        refusal_send_no_memory(c->api.engine, c->api.call);
        completion_advance(c, COMPLETION_END);
    } else if (!begin_frames(c)) {
        completion_advance(c, COMPLETION_END);
    } else {
        begin_run(c);
    }
}

/* Answer a call that needs no engine with the text that parsing has made. */
static void answer_text(struct completion *c)
{
    http_call_reply(c->api.call, 200, "application/json", &c->api.request.echo);
    c->api.call = NULL;
    completion_advance(c, COMPLETION_END);
}

void completion_run(struct completion *c)
{
    if (c->api.request.wire_format->answer != NULL)
        answer_text(c);
    else if (completion_is_plan(c))
        dry_run_answer(c);
    else
        run_work(c);
}
