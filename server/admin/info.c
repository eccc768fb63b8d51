/* server/admin/info.c - see info.h.
 *
 * All answers are written into a buffer from structures that the loop can read at any time: the
 * settings, the list of models, and a copy of the statistics that the engine publishes in its
 * queue. No call waits for a step. Health compares the time in the current step with a limit, so a
 * hung engine is noticed without its help.
 */
#include "server/admin/info.h"

#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/base/name_list.h"
#include "core/base/version.h"
#include "core/json/json.h"
#include "core/tokenizer/tokenizer.h"
#include "scheduler/prefix_fetch.h"
#include "server/adapters/adapter_set.h"
#include "server/admin/openapi.h"
#include "server/api/chat/chat.h"
#include "server/api/constraint/constraint_cache.h"
#include "server/api/decisions/decision_model.h"
#include "server/api/engine_client.h"
#include "server/api/infill.h"
#include "server/api/params/request_defaults.h"
#include "server/api/response/response_writer.h"
#include "server/http/http_call.h"
#include "server/kv_events/kv_event_publisher.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define JSON "application/json"
#define OPENAPI_MAX_TEXT ((size_t)1 << 20)
/* Most bytes of the metrics: twice the text for the most models with the longest ids, 255 quotes,
 * each escaped. */
#define METRICS_MAX_TEXT ((size_t)64 << 20)
#define METRICS_TYPE "text/plain; version=0.0.4; charset=utf-8"
/* Metrics are needed most when memory is short: a text of this size, enough for a few models, is
 * never refused. */
#define METRICS_ALWAYS_TOLD ((size_t)256 << 10)
/* Most bytes of all names of a model's adapters. */
#define MAX_ADAPTER_NAMES ((size_t)ADAPTER_SET_MAX * (ADAPTER_SET_MAX_NAME + 1) + 1)
/* Most bytes of the list of models: the most models with ADAPTER_SET_MAX adapters each, some 1,000
 * bytes for each adapter. */
#define MAX_MODELS ((size_t)256 << 20)

static void reply_info(struct http_call *call, struct buf *body)
{
    http_call_reply_page(call, JSON, body);
}

void info_live(struct http_call *call)
{
    struct buf b;

    buf_init(&b, 64);
    buf_add_str(&b, "{\"status\":\"ok\"}");
    reply_info(call, &b);
}

bool info_is_wedged(struct info_watchdog *w, const struct engine_stats *s, uint64_t now_us)
{
    if (!s->busy) {
        w->since_us = 0;
        return false;
    }
    if (w->since_us == 0 || w->last_step_us != s->last_step_us)
        *w = (struct info_watchdog){.last_step_us = s->last_step_us, .since_us = now_us};
    return now_us - w->since_us > INFO_WEDGED_US;
}

bool info_is_stuck(uint64_t begin_us, uint64_t most_us)
{
    return begin_us != 0 && clock_us() - begin_us > most_us;
}

const char *info_trouble(struct engine_client *engine, struct info_watchdog *w)
{
    struct engine_stats stats;

    if (engine->is_draining)
        return "the server is draining";
    if (engine->queue == NULL)
        return "the server is starting";
    queue_get_stats(engine->queue, &stats);
    if (info_is_wedged(w, &stats, clock_us()))
        return "the engine has made no step for a minute";
    return NULL;
}

void info_health(struct http_call *call, const char *trouble)
{
    struct buf b;

    if (trouble == NULL) {
        info_live(call);
        return;
    }
    buf_init(&b, 512);
    buf_add_str(&b, "{\"error\":{\"code\":503,\"message\":");
    json_add_cstring(&b, trouble);
    buf_add_str(&b, ",\"type\":\"unavailable_error\"}}");
    http_call_reply(call, 503, JSON, &b);
}

void info_version(struct http_call *call)
{
    struct buf b;

    buf_init(&b, 256);
    buf_add_str(&b, "{\"version\":");
    json_add_cstring(&b, quire_version());
    buf_add_char(&b, '}');
    reply_info(call, &b);
}

/* Add the capabilities of the model's chat template, under llama-server's names (none for a
 * template that is broken), and the format in which its tool calls are read. */
static void add_chat_caps(const struct chat *chat, struct buf *b)
{
    const struct chat_caps *caps = chat_caps(chat);
    const struct {
        const char *name;
        bool has;
    } rows[] = {
        {"supports_string_content", !caps->typed_content},
        {"supports_typed_content", caps->typed_content},
        {"supports_tools", caps->prints_tools},
        {"supports_tool_calls", caps->prints_calls},
        {"supports_system_role", caps->knows_system},
        {"supports_object_arguments", caps->prints_calls && !caps->string_arguments},
    };
    const size_t n = chat_complaint(chat) == NULL ? sizeof(rows) / sizeof(rows[0]) : 0;

    buf_add_str(b, ",\"chat_template_caps\":{");
    for (size_t i = 0; i < n; i++)
        buf_printf(b, "%s\"%s\":%s", i > 0 ? "," : "", rows[i].name,
                   rows[i].has ? "true" : "false");
    buf_add_str(b, "},\"tool_call_parser\":");
    json_add_cstring(b, chat_tool_parser(chat));
}

/* Add the defaults under the names of the settings. */
static void add_chat_defaults(const struct request_defaults *d, struct buf *b)
{
    static const char *const names[] = {
        [THINKING_UNSET] = "auto", [THINKING_OFF] = "off", [THINKING_ON] = "on"};

    if (d == NULL)
        return;
    buf_printf(b, ",\"reasoning\":\"%s\",\"reasoning_budget\":%d,\"reasoning_budget_message\":",
               names[d->thinking], d->reasoning_budget);
    json_add_cstring(b, d->budget_message != NULL ? d->budget_message : "");
    buf_add_str(b, ",\"chat_template_kwargs\":");
    if (d->template_kwargs != NULL)
        json_add_value(b, d->template_kwargs);
    else
        buf_add_str(b, "{}");
}

void info_props(const struct server_model *m, struct http_call *call)
{
    struct params defaults;
    struct buf b;

    params_set_defaults(&defaults, PARAMS_NATIVE, m->sampling);
    buf_init(&b, (size_t)8 << 20);
    buf_printf(&b, "{\"default_generation_settings\":{\"n_ctx\":%u,\"params\":", m->max_context);
    llamacpp_settings(&defaults, m->request_defaults != NULL ? m->request_defaults->seed : 0, &b);
    buf_printf(&b, "},\"context_shift\":%s,\"total_slots\":%u,\"model_path\":",
               m->shifts_context ? "true" : "false", m->max_sequences);
    json_add_cstring(&b, m->id);
    buf_add_str(&b, ",\"model_alias\":");
    json_add_cstring(&b, m->id);
    buf_add_str(&b, ",\"chat_template\":");
    json_add_cstring(&b, chat_source(m->chat));
    if (chat_for_tools(m->chat) != NULL) {
        buf_add_str(&b, ",\"chat_template_tool_use\":");
        json_add_cstring(&b, chat_source(chat_for_tools(m->chat)));
    }
    add_chat_caps(m->chat, &b);
    add_chat_defaults(m->request_defaults, &b);
    buf_add_str(&b, ",\"modalities\":{\"vision\":false,\"audio\":false},\"build_info\":");
    json_add_cstring(&b, quire_version());
    buf_add_str(&b, ",\"is_sleeping\":false}");
    reply_info(call, &b);
}

void info_post_props(bool is_taken, struct http_call *call)
{
    struct api_error e = {0};
    struct buf b;

    if (!is_taken) {
        api_error_set(&e, 501, NULL, NULL, "POST /props is not allowed: the setting props is off");
        http_call_reply_error(call, &e);
        return;
    }
    buf_init(&b, 64);
    buf_add_str(&b, "{\"success\":true}");
    reply_info(call, &b);
}

/* Answer GET /openapi.json. The text, the same for all calls, is rendered at the first one, which
 * takes a millisecond, and kept. */
void info_openapi(struct http_call *call)
{
    static struct buf text;
    struct buf b;

    if (text.len == 0) {
        buf_init(&text, OPENAPI_MAX_TEXT);
        openapi_render(&text);
    }
    buf_init(&b, OPENAPI_MAX_TEXT);
    b.err = text.err;
    if (text.err < 0)
        buf_release(&text);
    else
        buf_borrow(&b, text.data, text.len);
    reply_info(call, &b);
}

/* Return llama-server's number for the type of vocabulary. t NULL: no model is loaded. */
static int vocab_type(const struct tokenizer *t)
{
    static const char *const names[] = {"llama", "gpt2", "bert", "t5"};

    for (int i = 0; t != NULL && i < 4; i++)
        if (strcmp(tokenizer_model(t), names[i]) == 0)
            return 1 + i;
    return 0;
}

/* Add the aliases as an array, as llama-server does; patterns are left out, because they are not
 * names. */
static void add_aliases(struct buf *b, const char *list)
{
    struct name_list_item item;
    bool is_first = true;

    buf_add_str(b, ",\"aliases\":[");
    while (name_list_next(&list, &item)) {
        if (name_list_is_pattern(&item))
            continue;
        if (!is_first)
            buf_add_char(b, ',');
        json_add_string(b, item.text, item.len);
        is_first = false;
    }
    buf_add_char(b, ']');
}

/* Add the last member, `meta`, and close the object. */
static void add_meta(struct buf *b, const struct server_model *m)
{
    buf_printf(b,
               ",\"meta\":{\"vocab_type\":%d,\"n_vocab\":%u,\"n_ctx_train\":%u,\"n_embd\":%u,"
               "\"n_params\":%" PRIu64 ",\"size\":%" PRIu64 ",\"kv_type\":\"%s\"}}",
               vocab_type(m->tokenizer), m->n_vocab, m->n_ctx_train, m->n_embd, m->n_params,
               m->size, m->kv_type);
}

/* Add the status in the format of llama-server's router. */
static void add_status(struct buf *b, const struct server_model *m)
{
    if (m->state == NULL)
        return;
    buf_printf(b, ",\"status\":{\"value\":\"%s\"", m->state);
    if (m->failure != NULL) {
        buf_add_str(b, ",\"failed\":true,\"exit_code\":1,\"reason\":");
        json_add_cstring(b, m->failure);
    }
    buf_add_char(b, '}');
}

/* True: calls for decisions are answered, as far as the model's file tells. */
static bool makes_decisions(const struct server_model *m, bool has_chat)
{
    return m->decider != NULL ? decision_model_complaint(m->decider) == NULL : has_chat;
}

void info_add_capabilities(struct buf *b, const struct server_model *m)
{
    const bool has_chat = !m->is_encoder && m->chat != NULL && chat_complaint(m->chat) == NULL;
    const struct chat *with_tools = has_chat ? chat_for_tools(m->chat) : NULL;
    const struct {
        const char *name;
        bool has;
    } rows[] = {
        {"completion", !m->is_encoder},
        {"embedding", !m->only_decides},
        {"tools", has_chat && chat_caps(with_tools != NULL ? with_tools : m->chat)->prints_tools},
        {"thinking", has_chat && output_style_has_thoughts(chat_style(m->chat))},
        {"insert", !m->is_encoder && m->tokenizer != NULL && infill_is_known(m->tokenizer)},
        {"decisions", makes_decisions(m, has_chat)},
    };
    const char *between = "";

    buf_add_str(b, "\"capabilities\":[");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (rows[i].has) {
            buf_printf(b, "%s\"%s\"", between, rows[i].name);
            between = ",";
        }
    buf_add_char(b, ']');
}

static void add_info_model(struct buf *b, const struct server_model *m)
{
    buf_add_str(b, "{\"id\":");
    json_add_cstring(b, m->id);
    add_aliases(b, m->aliases);
    buf_printf(b, ",\"object\":\"model\",\"created\":%" PRId64 ",\"owned_by\":\"quire\"",
               m->created);
    buf_printf(b, ",\"max_model_len\":%u,\"root\":", m->max_context);
    json_add_cstring(b, m->id);
    buf_add_str(b, ",\"parent\":null,");
    info_add_capabilities(b, m);
    add_status(b, m);
    add_meta(b, m);
}

/* Add an adapter in vLLM's format, the model as its parent, but without its path, which is not for
 * clients. */
static void add_adapter(struct buf *b, const struct server_model *m, const struct adapter_info *a)
{
    buf_add_str(b, "{\"id\":");
    json_add_cstring(b, a->name);
    buf_printf(b,
               ",\"aliases\":[],\"object\":\"model\",\"created\":%" PRId64
               ",\"owned_by\":\"quire\",\"max_model_len\":%u,\"root\":",
               a->created, m->max_context);
    json_add_cstring(b, a->name);
    buf_add_str(b, ",\"parent\":");
    json_add_cstring(b, m->id);
    add_meta(b, m);
}

static void add_adapters(struct buf *b, const struct server_model *m)
{
    struct adapter_info a;

    for (uint32_t from = 0; adapter_set_next(m->adapters, from, &a); from = a.id + 1) {
        buf_add_char(b, ',');
        add_adapter(b, m, &a);
    }
}

/* ---- TypeSafe's list, beside OpenAI's ---- */

/* Add the last member, a day in UTC, and close the object. */
static void add_release_date(struct buf *b, int64_t unix_s)
{
    const time_t when = (time_t)unix_s;
    char text[16] = "";
    struct tm t;

    if (gmtime_r(&when, &t) != NULL)
        strftime(text, sizeof(text), "%Y-%m-%d", &t);
    buf_printf(b, ",\"release_date\":\"%s\"}", text);
}

/* Add what the model is, like "llama, Q4_0, 15.2 M parameters": known once it has been loaded. */
static void add_what(struct buf *b, const struct server_model *m)
{
    char text[256];

    if (m->arch[0] == '\0')
        snprintf(text, sizeof(text), "not loaded yet");
    else
        snprintf(text, sizeof(text), "%s, %s, %.1f M parameters", m->arch, m->ftype,
                 (double)m->n_params / 1e6);
    json_add_cstring(b, text);
}

/* The release date is the day of the model's file; if that is not known, the day on which the
 * server began to offer the model. */
static void add_named_model(struct buf *b, const struct server_model *m)
{
    buf_add_str(b, "{\"name\":");
    json_add_cstring(b, m->id);
    buf_add_str(b, ",\"description\":");
    add_what(b, m);
    add_release_date(b, m->file_time != 0 ? m->file_time : m->created);
}

static void add_named_adapter(struct buf *b, const struct server_model *m,
                              const struct adapter_info *a)
{
    char text[512];

    buf_add_str(b, ",{\"name\":");
    json_add_cstring(b, a->name);
    buf_add_str(b, ",\"description\":");
    snprintf(text, sizeof(text), "an adapter of %s", m->id);
    json_add_cstring(b, text);
    add_release_date(b, a->created);
}

/* Add the list, in the order of `data`. */
static void add_named_models(struct buf *b, const struct server_model *const *models, uint32_t n)
{
    buf_add_str(b, ",\"models\":[");
    for (uint32_t i = 0; i < n; i++) {
        struct adapter_info a;

        if (i > 0)
            buf_add_char(b, ',');
        add_named_model(b, models[i]);
        for (uint32_t from = 0; adapter_set_next(models[i]->adapters, from, &a); from = a.id + 1)
            add_named_adapter(b, models[i], &a);
    }
    buf_add_char(b, ']');
}

void info_models(struct http_call *call, const struct server_model *const *models, uint32_t n)
{
    struct buf b;

    buf_init(&b, MAX_MODELS);
    buf_add_str(&b, "{\"object\":\"list\",\"data\":[");
    for (uint32_t i = 0; i < n; i++) {
        if (i > 0)
            buf_add_char(&b, ',');
        add_info_model(&b, models[i]);
        add_adapters(&b, models[i]);
    }
    buf_add_char(&b, ']');
    add_named_models(&b, models, n);
    buf_add_char(&b, '}');
    reply_info(call, &b);
}

void info_model(struct http_call *call, const struct server_model *m, const char *name)
{
    struct adapter_info a;
    struct buf b;

    buf_init(&b, MAX_MODELS);
    if (adapter_set_find(m->adapters, name, &a))
        add_adapter(&b, m, &a);
    else
        add_info_model(&b, m);
    reply_info(call, &b);
}

/* max_adapters: a batch has at most as many adapters as there are sequences. */
static void fill_adapters(const struct server_model *m, struct metrics_model *out)
{
    struct adapter_set_stats adapters;

    adapter_set_get_stats(m->adapters, &adapters);
    out->adapters_known = adapters.n_known;
    out->adapters_resident = adapters.n_resident;
    out->adapter_bytes = adapters.bytes;
    out->adapter_reads = adapters.n_reads;
    out->adapter_evictions = adapters.n_evicted;
    if (adapters.n_known > 0 || adapters.may_grow)
        out->max_adapters = m->max_sequences;
    adapter_set_add_running(m->adapters, &out->adapters_running);
    adapter_set_add_waiting(m->adapters, &out->adapters_waiting);
}

static void fill_kv_events(const struct server_model *m, struct metrics_model *out)
{
    const struct kv_event_counts events = kv_event_publisher_counts(m->kv_events);

    out->kv_events_sent = events.n_events;
    out->kv_events_dropped = events.n_dropped;
    out->kv_event_batches = events.n_batches;
    out->kv_event_replays = events.n_replays;
    out->kv_event_bytes = events.n_bytes;
}

void info_fill_metrics(struct engine_client *engine, struct metrics_model *out)
{
    const struct server_model *m = engine->model;
    struct constraint_cache_stats constraints;

    *out = (struct metrics_model){
        .id = m->id,
        .arch = m->arch,
        .ftype = m->ftype,
        .max_context = m->max_context,
        .n_params = m->n_params,
        .bytes = m->size,
        .share = m->share,
        .kv_type = m->kv_type,
        .block_tokens = m->block_tokens,
        .shares_prefixes = m->shares_prefixes,
        .counts = engine->metrics,
    };
    buf_init(&out->adapters_running, MAX_ADAPTER_NAMES);
    buf_init(&out->adapters_waiting, MAX_ADAPTER_NAMES);
    if (engine->queue != NULL) {
        queue_get_stats(engine->queue, &out->stats);
        out->predicted_ttft_us = engine_client_forecast_least_us(engine);
    }
    for (int i = 0; m->fetch != NULL && i < STORE_N_COUNTS; i++)
        out->store[i] = prefix_fetch_count(m->fetch, (enum store_count)i);
    if (m->constraint_cache == NULL)
        return;
    fill_adapters(m, out);
    fill_kv_events(m, out);
    constraints = constraint_cache_stats(m->constraint_cache);
    out->constraints_compiled = constraints.n_compiled;
    out->constraints_found = constraints.n_hits;
    out->constraints_refused = constraints.n_refused;
}

void info_release_metrics(struct metrics_model *m)
{
    buf_release(&m->adapters_running);
    buf_release(&m->adapters_waiting);
}

void info_begin_metrics(struct buf *text)
{
    buf_init(text, METRICS_MAX_TEXT);
}

void info_reply_metrics(struct http_call *call, struct buf *text)
{
    if (text->len <= METRICS_ALWAYS_TOLD)
        http_call_reply(call, 200, METRICS_TYPE, text);
    else
        http_call_reply_page(call, METRICS_TYPE, text);
}
