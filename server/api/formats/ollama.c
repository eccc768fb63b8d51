/* server/api/formats/ollama.c - answers of POST /api/generate and /api/chat, in Ollama's shape.
 *
 * A stream is lines of JSON. Each is an object with the new text; the last one has no text, but the
 * counts and times, in nanoseconds. A call's arguments are an object, so a call is sent when it is
 * complete. One route takes bodies of several forms: a `pick` function looks for their members and
 * gives the body its wire format.
 */
#include "server/api/formats/ollama.h"

#include "core/base/buf.h"
#include "server/api/params/field.h"
#include "server/api/response/response_writer.h"

#include <inttypes.h>
#include <time.h>

int ollama_echo(const cJSON *body, struct buf *echo)
{
    const char *name = field_text(body, "model");

    if (name != NULL)
        json_add_cstring(echo, name);
    return echo->err;
}

void ollama_open(const struct buf *echo, const char *model, struct buf *out)
{
    struct timespec now;
    struct tm tm;
    char text[32];

    buf_add_str(out, "{\"model\":");
    if (echo->len > 0)
        buf_add(out, echo->data, echo->len);
    else
        json_add_cstring(out, model);
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &tm);
    strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
    buf_printf(out, ",\"created_at\":\"%s.%06ldZ\"", text, now.tv_nsec / 1000);
}

static void begin_ollama(struct response_writer *a)
{
    (void)a; /* each object has a time of its own */
}

/* ---- new text and calls ---- */

static void add_ollama_member(struct buf *out, const char *name, const struct buf *text)
{
    if (text->len == 0)
        return;
    buf_printf(out, ",\"%s\":", name);
    json_add_string(out, text->data, text->len);
}

/* {"id":…,"function":{"index":0,"name":…,"arguments":{…}}} */
static void add_ollama_call(struct buf *out, const struct output_call *call, uint32_t i)
{
    buf_printf(out, "{\"id\":\"%s\",\"function\":{\"index\":%u,\"name\":", call->id, i);
    json_add_cstring(out, call->name);
    buf_add_str(out, ",\"arguments\":");
    output_call_add_object(call, out);
    buf_add_str(out, "}}");
}

/* The end of the complete calls, which follow those that were sent: calls end in their order. */
static uint32_t complete_calls(const struct choice *c)
{
    const struct output_parser *s = &c->output;
    uint32_t end = s->n_sent;

    while (end < s->n_calls && (s->calls[end].is_over || c->finish != FINISH_NONE))
        end++;
    return end;
}

static void add_calls(struct buf *out, const struct output_parser *s, uint32_t from, uint32_t end)
{
    for (uint32_t i = from; i < end; i++) {
        buf_add_str(out, i == from ? ",\"tool_calls\":[" : ",");
        add_ollama_call(out, &s->calls[i], i);
    }
    if (end > from)
        buf_add_char(out, ']');
}

/* ,"message":{…} with the calls from..end, or ,"response":… and its thought */
static void add_content(const struct response_writer *a, struct buf *out, const struct choice *c,
                        uint32_t from, uint32_t end)
{
    const struct output_parser *s = &c->output;
    const struct buf *text = c->rules->style != NULL ? &s->text : &c->text;
    const bool is_chat = a->params->form == PARAMS_OLLAMA_CHAT;

    buf_add_str(out, is_chat ? ",\"message\":{\"role\":\"assistant\",\"content\":"
                             : ",\"response\":");
    json_add_string(out, text->data != NULL ? text->data : "", text->len);
    if (c->rules->style != NULL)
        add_ollama_member(out, "thinking", &s->thought);
    if (is_chat) {
        add_calls(out, s, from, end);
        buf_add_char(out, '}');
    }
}

static void add_logprobs(struct buf *out, const struct choice *c)
{
    if (!c->rules->wants_logprobs || c->entries.len == 0)
        return;
    buf_add_str(out, ",\"logprobs\":[");
    buf_add(out, c->entries.data, c->entries.len);
    buf_add_char(out, ']');
}

/* ---- the end ---- */

/* Clients divide by these times, so none is 0. */
static uint64_t nanoseconds(uint64_t us)
{
    return us > 0 ? us * 1000 : 1;
}

/* Append counts and times. load_duration is 0: the model was loaded when the call came. */
static void add_ollama_numbers(struct buf *out, const struct choice *c)
{
    buf_printf(out,
               ",\"total_duration\":%" PRIu64 ",\"load_duration\":0,\"prompt_eval_count\":%zu,"
               "\"prompt_eval_duration\":%" PRIu64 ",\"eval_count\":%u,\"eval_duration\":%" PRIu64,
               nanoseconds(c->total_us), c->prompt->ids.n, nanoseconds(c->times.prefill_us),
               c->n_tokens, nanoseconds(c->times.decode_us));
}

/* ,"context":[…]: the prompt's tokens and the answer's, which a->items has */
static void add_context(const struct response_writer *a, struct buf *out, const struct choice *c)
{
    const struct token_list *ids = &c->prompt->ids;

    buf_add_str(out, ",\"context\":[");
    for (size_t i = 0; i < ids->n; i++)
        buf_printf(out, i > 0 ? ",%d" : "%d", ids->ids[i]);
    if (a->items.len > 0) {
        buf_add_str(out, ids->n > 0 ? "," : "");
        buf_add(out, a->items.data, a->items.len);
    }
    buf_add_char(out, ']');
    if (a->items.err < 0)
        out->err = a->items.err;
}

static void gather_ids(struct response_writer *a, const struct choice *c)
{
    if (a->params->form != PARAMS_OLLAMA_GENERATE || c->ids.len == 0)
        return;
    if (a->items.len > 0)
        buf_add_char(&a->items, ',');
    buf_add(&a->items, c->ids.data, c->ids.len);
}

static void add_end(const struct response_writer *a, struct buf *out, const struct choice *c)
{
    buf_printf(out, ",\"done\":true,\"done_reason\":\"%s\"",
               c->finish == FINISH_LENGTH ? "length" : "stop");
    if (a->params->form == PARAMS_OLLAMA_GENERATE)
        add_context(a, out, c);
    add_ollama_numbers(out, c);
    buf_add_char(out, '}');
}

/* ---- objects ---- */

static void whole_ollama(struct response_writer *a, struct buf *out)
{
    struct choice *c = &a->choices[0];

    gather_ids(a, c);
    ollama_open(a->echo, a->model, out);
    add_content(a, out, c, 0, c->output.n_calls);
    add_logprobs(out, c);
    add_end(a, out, c);
    response_pass_choice(out, c);
}

static bool has_news(const struct choice *c, uint32_t end)
{
    const struct output_parser *s = &c->output;

    return c->text.len > 0 || s->text.len > 0 || s->thought.len > 0 || end > s->n_sent ||
           c->entries.len > 0;
}

static void ollama_frame(struct response_writer *a, struct choice *c, struct buf *out)
{
    const uint32_t end = complete_calls(c);

    gather_ids(a, c);
    if (has_news(c, end)) {
        ollama_open(a->echo, a->model, out);
        add_content(a, out, c, c->output.n_sent, end);
        add_logprobs(out, c);
        buf_add_str(out, ",\"done\":false}\n");
    }
    response_pass_choice(out, c);
    if (c->finish == FINISH_NONE)
        return;
    ollama_open(a->echo, a->model, out);
    add_content(a, out, c, 0, 0);
    add_end(a, out, c);
    buf_add_char(out, '\n');
}

static void end_ollama(struct response_writer *a, struct buf *out)
{
    (void)a; /* the last line says that it is done */
    (void)out;
}

/* ---- errors ---- */

void ollama_error(const struct api_error *e, struct buf *out)
{
    buf_add_str(out, "{\"error\":");
    json_add_cstring(out, e->message);
    buf_add_char(out, '}');
}

static void ollama_failure(const struct api_error *e, struct buf *out)
{
    ollama_error(e, out);
    buf_add_char(out, '\n');
}

/* ---- bodies ---- */

#define OLLAMA(form_)                                                                              \
    .id_prefix = "", .stream_type = "application/x-ndjson", .form = form_, .echo = ollama_echo,    \
    .begin = begin_ollama, .whole = whole_ollama, .frame = ollama_frame, .close = end_ollama,      \
    .failure = ollama_failure

static const struct wire_format chat = {OLLAMA(PARAMS_OLLAMA_CHAT)};
static const struct wire_format generate = {OLLAMA(PARAMS_OLLAMA_GENERATE)};
static const struct wire_format raw = {OLLAMA(PARAMS_OLLAMA_RAW)};

static bool is_empty_list(const cJSON *v)
{
    return v == NULL || (cJSON_IsArray(v) && v->child == NULL);
}

/* A chat without messages asks for the model to be loaded. */
static const struct wire_format *pick_chat(const cJSON *body)
{
    return is_empty_list(field_find(body, "messages")) ? &wire_ollama_load_chat : &chat;
}

static bool is_empty_text(const char *text)
{
    return text == NULL || text[0] == '\0';
}

static const struct wire_format *pick_generate(const cJSON *body)
{
    const cJSON *prompt = field_find(body, "prompt");

    if (prompt == NULL || (cJSON_IsString(prompt) && prompt->valuestring[0] == '\0'))
        return &wire_ollama_load_generate;
    if (cJSON_IsTrue(field_find(body, "raw")) || !is_empty_text(field_text(body, "suffix")))
        return &raw;
    return &generate;
}

const struct wire_format wire_ollama_chat = {OLLAMA(PARAMS_OLLAMA_CHAT), .pick = pick_chat};
const struct wire_format wire_ollama_generate = {OLLAMA(PARAMS_OLLAMA_GENERATE),
                                                 .pick = pick_generate};
