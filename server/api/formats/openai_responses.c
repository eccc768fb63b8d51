/* server/api/formats/openai_responses.c - answers of POST /v1/responses.
 *
 * A response is a list of items: a thought, a message, calls of functions, custom tools and the
 * client's search for tools. A stream has events for the start, the pieces and the end of each, and
 * repeats the whole response at the end; so finished items are kept as JSON in a->items and the
 * open one's text in a->piece.
 */
#include "server/api/response/response_writer.h"

#include "core/base/err.h"
#include "core/json/json.h"
#include "server/http/http_call.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum item { ITEM_NONE = 0, ITEM_THOUGHT, ITEM_MESSAGE, ITEM_CALL };

static void begin_response(struct response_writer *a)
{
    (void)a; /* events have no common beginning */
}

/* ---- items ---- */

static const char *prefix_of(enum item item)
{
    return item == ITEM_THOUGHT ? "rs_" : "msg_";
}

/* An item's id is the response's, with another prefix and the item's number. */
static void add_item_id(const struct response_writer *a, const char *prefix, uint32_t n,
                        struct buf *out)
{
    buf_printf(out, "\"%s%s%u\"", prefix, a->id + strlen("resp_"), n);
}

static void add_logprobs(const struct buf *entries, struct buf *out)
{
    buf_add_str(out, ",\"logprobs\":[");
    if (entries->len > 0)
        buf_add(out, entries->data, entries->len);
    buf_add_char(out, ']');
}

static void add_response_part(enum item item, const struct buf *text, const struct buf *entries,
                              struct buf *out)
{
    buf_printf(
        out, "{\"type\":\"%s\",\"text\":", item == ITEM_THOUGHT ? "reasoning_text" : "output_text");
    json_add_string(out, text->data, text->len);
    if (item == ITEM_MESSAGE) {
        buf_add_str(out, ",\"annotations\":[]");
        add_logprobs(entries, out);
    }
    buf_add_char(out, '}');
}

static bool is_cut(const struct response_writer *a)
{
    return a->choices[0].finish == FINISH_LENGTH;
}

/* Append an item of text; without `text` it has only begun. The last item is incomplete if the
 * answer was cut. */
static void add_text_item(const struct response_writer *a, enum item item, uint32_t n,
                          const struct buf *text, bool is_last, struct buf *out)
{
    const char *status = text == NULL           ? "in_progress"
                         : is_last && is_cut(a) ? "incomplete"
                                                : "completed";

    buf_add_str(out, "{\"id\":");
    add_item_id(a, prefix_of(item), n, out);
    buf_printf(out, ",\"type\":\"%s\",\"status\":\"%s\",%s,\"content\":[",
               item == ITEM_THOUGHT ? "reasoning" : "message", status,
               item == ITEM_THOUGHT ? "\"summary\":[]" : "\"role\":\"assistant\"");
    if (text != NULL)
        add_response_part(item, text, &a->probs, out);
    buf_add_str(out, "]}");
}

static const char *call_prefix(const struct output_call *call)
{
    return call->traits.is_search ? "tsc_" : call->traits.is_custom ? "ctc_" : "fc_";
}

/* Append a function's arguments or a custom tool's input as a JSON string. */
static void add_call_text(const struct output_call *call, struct buf *out)
{
    struct buf input;

    if (!call->traits.is_custom) {
        json_add_string(out, call->arguments.data, call->arguments.len);
        return;
    }
    buf_init(&input, HTTP_MAX_REPLY);
    output_call_add_input(call, &input);
    json_add_string(out, input.data, input.len);
    out->err = input.err < 0 ? input.err : out->err;
    buf_release(&input);
}

/* "name":…; a tool's namespace is a member of its own. */
static void add_call_name(const struct output_call *call, struct buf *out)
{
    const uint32_t n = call->traits.n_space;

    buf_add_str(out, "\"name\":");
    json_add_cstring(out, call->name + (n > 0 ? n + 1 : 0));
    if (n > 0) {
        buf_add_str(out, ",\"namespace\":");
        json_add_string(out, call->name, n);
    }
}

/* The arguments of a search are an object, not a text. It is written anew, so that no line of a
 * stream ends within it. Arguments that were cut stay a text. */
static void add_search_arguments(const struct output_call *call, struct buf *out)
{
    const char *why;
    cJSON *object;
    const int rc = json_parse(call->arguments.data, call->arguments.len, &object, &why);

    if (cJSON_IsObject(object))
        json_add_value(out, object);
    else
        add_call_text(call, out);
    if (rc == ERR_NOMEM)
        out->err = rc;
    cJSON_Delete(object);
}

/* Append a call that has ended, or has only begun (is_done false). */
static void add_call_item(const struct response_writer *a, const struct output_call *call,
                          uint32_t n, bool is_done, struct buf *out)
{
    const char *status = !is_done ? "in_progress" : call->is_whole ? "completed" : "incomplete";
    const char *type = call->traits.is_search   ? "tool_search_call"
                       : call->traits.is_custom ? "custom_tool_call"
                                                : "function_call";

    buf_add_str(out, "{\"id\":");
    add_item_id(a, call_prefix(call), n, out);
    buf_printf(out, ",\"type\":\"%s\",\"status\":\"%s\",\"call_id\":\"%s\",", type, status,
               call->id);
    if (call->traits.is_search)
        buf_add_str(out, "\"execution\":\"client\"");
    else
        add_call_name(call, out);
    buf_add_str(out, call->traits.is_custom ? ",\"input\":" : ",\"arguments\":");
    if (!is_done)
        buf_add_str(out, call->traits.is_search ? "{}" : "\"\"");
    else if (call->traits.is_search)
        add_search_arguments(call, out);
    else
        add_call_text(call, out);
    buf_add_char(out, '}');
}

/* The buffer to which the next finished item is appended, for the whole response. */
static struct buf *next_item(struct response_writer *a)
{
    if (a->items.len > 0)
        buf_add_char(&a->items, ',');
    return &a->items;
}

/* ---- the response ---- */

static void add_usage(const struct response_writer *a, struct buf *out)
{
    const struct response_usage *u = &a->usage;

    buf_printf(out,
               ",\"usage\":{\"input_tokens\":%" PRIu64 ",\"input_tokens_details\":{"
               "\"cached_tokens\":%" PRIu64 ",\"cache_write_tokens\":%" PRIu64,
               u->prompt, u->cached, u->prompt - u->cached);
    if (u->has_breakpoints)
        buf_printf(out,
                   ",\"cache_write_tokens_details\":{\"ttl_30m_tokens\":%" PRIu64
                   ",\"ttl_12h_tokens\":%" PRIu64 "},\"pinned_tokens\":%" PRIu64,
                   u->pinned_new[0], u->pinned_new[1], u->pinned);
    buf_printf(out,
               "},\"output_tokens\":%" PRIu64
               ",\"output_tokens_details\":{\"reasoning_tokens\":%" PRIu64
               "},\"total_tokens\":%" PRIu64 "}",
               u->completion, u->thinking, u->prompt + u->completion);
}

/* Append the values in force: those that the request did not set may be the settings' or the model
 * file's. */
static void add_sampling(const struct params *p, struct buf *out)
{
    buf_add_str(out, ",\"max_output_tokens\":");
    if (p->max_tokens == PARAMS_NO_LIMIT)
        buf_add_str(out, "null");
    else
        buf_printf(out, "%u", p->max_tokens);
    buf_add_str(out, ",\"temperature\":");
    json_add_float(out, p->sampling.temperature);
    buf_add_str(out, ",\"top_p\":");
    json_add_float(out, p->sampling.top_p);
}

void responses_add(const struct response_writer *a, bool is_over, struct buf *out)
{
    const char *status = !is_over ? "in_progress" : is_cut(a) ? "incomplete" : "completed";

    buf_printf(out,
               "{\"id\":\"%s\",\"object\":\"response\",\"created_at\":%" PRId64
               ",\"status\":\"%s\",\"background\":%s,\"error\":null,"
               "\"incomplete_details\":%s,\"model\":",
               a->id, a->created, status, a->params->background ? "true" : "false",
               is_over && is_cut(a) ? "{\"reason\":\"max_output_tokens\"}" : "null");
    json_add_cstring(out, a->model);
    buf_add_str(out, ",\"output\":[");
    if (is_over && a->items.len > 0)
        buf_add(out, a->items.data, a->items.len);
    buf_add_str(out, "],\"previous_response_id\":");
    if (a->params->previous_id[0] != '\0')
        json_add_cstring(out, a->params->previous_id);
    else
        buf_add_str(out, "null");
    buf_printf(out, ",\"store\":%s,\"service_tier\":\"default\"",
               a->params->store ? "true" : "false");
    buf_add(out, a->echo->data, a->echo->len);
    add_sampling(a->params, out);
    if (is_over)
        add_usage(a, out);
    else
        buf_add_str(out, ",\"usage\":null");
    buf_add_char(out, '}');
    if (a->items.err < 0)
        out->err = a->items.err;
}

static bool has_text_behind(const struct output_parser *s, uint32_t i)
{
    while (++i < s->n_pieces)
        if (s->pieces[i].part == OUTPUT_TEXT)
            return true;
    return false;
}

/* Add a thought or a text as an item. The last text has the log-probabilities of all texts. */
static void add_run_item(struct response_writer *a, struct choice *c, uint32_t i)
{
    const struct output_parser *s = &c->output;
    const struct output_piece *p = &s->pieces[i];
    const bool is_thought = p->part == OUTPUT_THOUGHT;
    struct buf run = is_thought ? s->thought : s->text;

    if (run.len == 0) /* the thought is hidden */
        return;
    run.data += p->at;
    run.len = p->n;
    if (!is_thought && !has_text_behind(s, i))
        buf_add(&a->probs, c->entries.data, c->entries.len);
    add_text_item(a, is_thought ? ITEM_THOUGHT : ITEM_MESSAGE, a->n_blocks++, &run,
                  i + 1 == s->n_pieces, next_item(a));
}

static void whole_response(struct response_writer *a, struct buf *out)
{
    static const struct buf empty;
    struct choice *c = &a->choices[0];
    const struct output_parser *s = &c->output;

    for (uint32_t i = 0; i < s->n_pieces; i++)
        if (s->pieces[i].part == OUTPUT_CALL)
            add_call_item(a, &s->calls[s->pieces[i].call], a->n_blocks++, true, next_item(a));
        else
            add_run_item(a, c, i);
    if (a->n_blocks == 0) /* at least an empty message */
        add_text_item(a, ITEM_MESSAGE, a->n_blocks++, &empty, true, next_item(a));
    responses_add(a, true, out);
    response_pass_choice(out, c);
}

/* ---- events ---- */

static void open_event(struct response_writer *a, const char *name, struct buf *out)
{
    buf_printf(out, "event: %s\ndata: {\"type\":\"%s\",\"sequence_number\":%u", name, name,
               a->n_events++);
}

static void close_event(struct buf *out)
{
    buf_add_str(out, "}\n\n");
}

static void add_response_event(struct response_writer *a, const char *name, bool is_over,
                               struct buf *out)
{
    open_event(a, name, out);
    buf_add_str(out, ",\"response\":");
    responses_add(a, is_over, out);
    close_event(out);
}

/* ,"item_id":…,"output_index":… */
static void add_place(const struct response_writer *a, const char *prefix, struct buf *out)
{
    buf_add_str(out, ",\"item_id\":");
    add_item_id(a, prefix, a->n_blocks, out);
    buf_printf(out, ",\"output_index\":%u", a->n_blocks);
}

static void begin_item_event(struct response_writer *a, const char *name, struct buf *out)
{
    open_event(a, name, out);
    buf_printf(out, ",\"output_index\":%u,\"item\":", a->n_blocks);
}

static void begin_part_event(struct response_writer *a, const char *name, struct buf *out)
{
    open_event(a, name, out);
    add_place(a, prefix_of((enum item)a->open_block), out);
    buf_add_str(out, ",\"content_index\":0");
}

static void open_text(struct response_writer *a, enum item item, struct buf *out)
{
    const struct buf empty = {0};

    a->open_block = item;
    begin_item_event(a, "response.output_item.added", out);
    add_text_item(a, item, a->n_blocks, NULL, false, out);
    close_event(out);
    begin_part_event(a, "response.content_part.added", out);
    buf_add_str(out, ",\"part\":");
    add_response_part(item, &empty, &empty, out);
    close_event(out);
}

static void close_text(struct response_writer *a, bool is_last, struct buf *out)
{
    const enum item item = (enum item)a->open_block;
    const bool is_message = item == ITEM_MESSAGE;

    if (item == ITEM_NONE)
        return;
    begin_part_event(a, is_message ? "response.output_text.done" : "response.reasoning_text.done",
                     out);
    buf_add_str(out, ",\"text\":");
    json_add_string(out, a->piece.data, a->piece.len);
    if (is_message)
        add_logprobs(&a->probs, out);
    close_event(out);
    begin_part_event(a, "response.content_part.done", out);
    buf_add_str(out, ",\"part\":");
    add_response_part(item, &a->piece, &a->probs, out);
    close_event(out);
    begin_item_event(a, "response.output_item.done", out);
    add_text_item(a, item, a->n_blocks, &a->piece, is_last, out);
    close_event(out);
    add_text_item(a, item, a->n_blocks, &a->piece, is_last, next_item(a));
    buf_clear(&a->piece);
    if (is_message)
        buf_clear(&a->probs);
    a->open_block = ITEM_NONE;
    a->n_blocks++;
}

/* Keep the log-probabilities since the last frame for the event that has the whole text. */
static void keep_logprobs(struct response_writer *a, struct choice *c, struct buf *out)
{
    if (c->entries.len > 0 && a->probs.len > 0)
        buf_add_char(&a->probs, ',');
    if (c->entries.len > 0 && buf_add(&a->probs, c->entries.data, c->entries.len) < 0)
        out->err = a->probs.err;
    buf_clear(&c->entries);
}

static void add_response_run(struct response_writer *a, enum item item, struct choice *c,
                             const struct buf *run, struct buf *out)
{
    const bool is_message = item == ITEM_MESSAGE;

    if (a->open_block != item) {
        close_text(a, false, out);
        open_text(a, item, out);
    }
    begin_part_event(a, is_message ? "response.output_text.delta" : "response.reasoning_text.delta",
                     out);
    buf_add_str(out, ",\"delta\":");
    json_add_string(out, run->data, run->len);
    if (is_message)
        add_logprobs(&c->entries, out);
    if (is_message)
        keep_logprobs(a, c, out);
    close_event(out);
    if (buf_add(&a->piece, run->data, run->len) < 0)
        out->err = a->piece.err;
}

static void open_call(struct response_writer *a, const struct output_call *call, struct buf *out)
{
    close_text(a, false, out);
    a->open_block = ITEM_CALL;
    begin_item_event(a, "response.output_item.added", out);
    add_call_item(a, call, a->n_blocks, false, out);
    close_event(out);
}

static void add_arguments_done(struct response_writer *a, const struct output_call *call,
                               struct buf *out)
{
    open_event(a, "response.function_call_arguments.done", out);
    add_place(a, "fc_", out);
    buf_add_char(out, ',');
    add_call_name(call, out);
    buf_add_str(out, ",\"arguments\":");
    add_call_text(call, out);
    close_event(out);
}

/* A custom tool's input is sent in one piece, at its end: the model writes a JSON string, and the
 * client gets its text. */
static void add_input_events(struct response_writer *a, const struct output_call *call,
                             struct buf *out)
{
    open_event(a, "response.custom_tool_call_input.delta", out);
    add_place(a, "ctc_", out);
    buf_add_str(out, ",\"delta\":");
    add_call_text(call, out);
    close_event(out);
    open_event(a, "response.custom_tool_call_input.done", out);
    add_place(a, "ctc_", out);
    buf_add_str(out, ",\"input\":");
    add_call_text(call, out);
    close_event(out);
}

static void close_call(struct response_writer *a, const struct output_call *call, struct buf *out)
{
    if (call->traits.is_custom)
        add_input_events(a, call, out);
    else if (!call->traits.is_search) /* a search has only its item's events */
        add_arguments_done(a, call, out);
    begin_item_event(a, "response.output_item.done", out);
    add_call_item(a, call, a->n_blocks, true, out);
    close_event(out);
    add_call_item(a, call, a->n_blocks, true, next_item(a));
    a->open_block = ITEM_NONE;
    a->n_blocks++;
}

/* Begin, continue or end a call, which is the open item until it ends. */
static void add_response_call(struct response_writer *a, const struct output_call *call,
                              struct buf *out)
{
    if (!call->was_announced)
        open_call(a, call, out);
    if (!call->traits.is_custom && !call->traits.is_search && call->n_sent < call->arguments.len) {
        open_event(a, "response.function_call_arguments.delta", out);
        add_place(a, "fc_", out);
        buf_add_str(out, ",\"delta\":");
        json_add_string(out, call->arguments.data + call->n_sent,
                        call->arguments.len - call->n_sent);
        close_event(out);
    }
    if (call->is_over)
        close_call(a, call, out);
}

static void add_response_piece(struct response_writer *a, struct choice *c,
                               const struct output_piece *p, struct buf *out)
{
    const bool is_thought = p->part == OUTPUT_THOUGHT;
    struct buf run = is_thought ? c->output.thought : c->output.text;

    if (p->part == OUTPUT_CALL) {
        add_response_call(a, &c->output.calls[p->call], out);
    } else if (run.len > 0) { /* else the thought is hidden */
        run.data += p->at;
        run.len = p->n;
        add_response_run(a, is_thought ? ITEM_THOUGHT : ITEM_MESSAGE, c, &run, out);
    }
}

static void response_frame(struct response_writer *a, struct choice *c, struct buf *out)
{
    if (!c->has_opened) {
        add_response_event(a, "response.created", false, out);
        add_response_event(a, "response.in_progress", false, out);
    }
    c->has_opened = true;
    for (uint32_t i = 0; i < c->output.n_pieces; i++)
        add_response_piece(a, c, &c->output.pieces[i], out);
    keep_logprobs(a, c, out); /* for tokens whose text is held back */
    response_pass_choice(out, c);
}

static void end_response(struct response_writer *a, struct buf *out)
{
    if (a->n_blocks == 0 && a->open_block == ITEM_NONE) /* at least an empty message */
        open_text(a, ITEM_MESSAGE, out);
    close_text(a, true, out);
    add_response_event(a, is_cut(a) ? "response.incomplete" : "response.completed", true, out);
}

/* The event's sequence number is 0: the writer's state is not known here. */
static void response_failure(const struct api_error *e, struct buf *out)
{
    buf_add_str(out, "event: error\ndata: {\"type\":\"error\",\"sequence_number\":0,\"code\":");
    json_add_cstring(out, e->code != NULL ? e->code : e->type);
    buf_add_str(out, ",\"message\":");
    json_add_cstring(out, e->message);
    buf_add_str(out, ",\"param\":null}\n\n");
}

const struct wire_format wire_openai_responses = {
    .id_prefix = "resp_",
    .form = PARAMS_RESPONSES,
    .echo = responses_add_echo,
    .begin = begin_response,
    .whole = whole_response,
    .frame = response_frame,
    .close = end_response,
    .failure = response_failure,
};
