/* server/api/formats/openai_responses.c - answers of POST /v1/responses.
 *
 * A response is a list of items: a thought, a message, function calls. A stream has events for the
 * start, the pieces and the end of each, and repeats the whole response at the end; so finished
 * items are kept as JSON in a->items and the open one's text in a->piece.
 */
#include "server/api/response/response_writer.h"

#include "core/base/err.h"
#include "core/base/json.h"
#include "server/api/params/field.h"

#include <inttypes.h>
#include <string.h>

enum item { ITEM_NONE = 0, ITEM_THOUGHT, ITEM_MESSAGE };

static void begin(struct response_writer *a)
{
    (void)a; /* nothing is the same in all events */
}

/* ---- items ---- */

static const char *prefix_of(enum item item)
{
    return item == ITEM_THOUGHT ? "rs_" : "msg_";
}

/* Each item has a name of its own: the response's, and its number. */
static void add_item_id(const struct response_writer *a, const char *prefix, uint32_t n,
                        struct buf *out)
{
    buf_printf(out, "\"%s%s%u\"", prefix, a->id + strlen("resp_"), n);
}

static void add_part(enum item item, const struct buf *text, struct buf *out)
{
    buf_printf(out, "{\"type\":\"%s\",\"text\":",
               item == ITEM_THOUGHT ? "reasoning_text" : "output_text");
    json_add_string(out, text->data, text->len);
    buf_add_str(out, item == ITEM_THOUGHT ? "}" : ",\"annotations\":[],\"logprobs\":[]}");
}

/* An item of text; without `text` it has only begun. */
static void add_text_item(const struct response_writer *a, enum item item, uint32_t n,
                          const struct buf *text, struct buf *out)
{
    buf_add_str(out, "{\"id\":");
    add_item_id(a, prefix_of(item), n, out);
    if (item == ITEM_THOUGHT)
        buf_add_str(out, ",\"type\":\"reasoning\",\"summary\":[],\"content\":[");
    else
        buf_printf(out,
                   ",\"type\":\"message\",\"status\":\"%s\",\"role\":\"assistant\",\"content\":[",
                   text != NULL ? "completed" : "in_progress");
    if (text != NULL)
        add_part(item, text, out);
    buf_add_str(out, "]}");
}

static void add_call_item(const struct response_writer *a, const struct output_call *call,
                          uint32_t n, bool is_done, struct buf *out)
{
    buf_add_str(out, "{\"id\":");
    add_item_id(a, "fc_", n, out);
    buf_printf(out, ",\"type\":\"function_call\",\"status\":\"%s\",\"call_id\":\"%s\",\"name\":",
               is_done ? "completed" : "in_progress", call->id);
    json_add_cstring(out, call->name);
    buf_add_str(out, ",\"arguments\":");
    json_add_cstring(out, is_done ? call->arguments : "");
    buf_add_char(out, '}');
}

/* Keep a finished item for the whole response. */
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
               "\"cached_tokens\":%" PRIu64 "},\"output_tokens\":%" PRIu64
               ",\"output_tokens_details\":{\"reasoning_tokens\":%" PRIu64
               "},\"total_tokens\":%" PRIu64 "}",
               u->prompt, u->cached, u->completion, u->thinking, u->prompt + u->completion);
}

static bool is_cut(const struct response_writer *a)
{
    return a->choices[0].finish == FINISH_LENGTH;
}

/* With its items and usage when it is over. */
static void add_response(const struct response_writer *a, bool is_over, struct buf *out)
{
    const char *status = !is_over ? "in_progress" : is_cut(a) ? "incomplete" : "completed";

    buf_printf(out, "{\"id\":\"%s\",\"object\":\"response\",\"created_at\":%" PRId64
                    ",\"status\":\"%s\",\"background\":false,\"error\":null,"
                    "\"incomplete_details\":%s,\"model\":",
               a->id, a->created, status,
               is_over && is_cut(a) ? "{\"reason\":\"max_output_tokens\"}" : "null");
    json_add_cstring(out, a->model);
    buf_add_str(out, ",\"output\":[");
    if (is_over && a->items.len > 0)
        buf_add(out, a->items.data, a->items.len);
    buf_add_str(out, "],\"previous_response_id\":null,\"store\":false,"
                     "\"service_tier\":\"default\"");
    buf_add(out, a->echo->data, a->echo->len);
    if (is_over)
        add_usage(a, out);
    else
        buf_add_str(out, ",\"usage\":null");
    buf_add_char(out, '}');
    if (a->items.err < 0)
        out->err = a->items.err;
}

static void whole(struct response_writer *a, struct buf *out)
{
    struct choice *c = &a->choices[0];

    if (c->output.thought.len > 0)
        add_text_item(a, ITEM_THOUGHT, a->n_blocks++, &c->output.thought, next_item(a));
    if (c->output.text.len > 0 || c->output.n_calls == 0)
        add_text_item(a, ITEM_MESSAGE, a->n_blocks++, &c->output.text, next_item(a));
    for (uint32_t i = 0; i < c->output.n_calls; i++)
        add_call_item(a, &c->output.calls[i], a->n_blocks++, true, next_item(a));
    add_response(a, true, out);
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
    add_response(a, is_over, out);
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
    add_text_item(a, item, a->n_blocks, NULL, out);
    close_event(out);
    begin_part_event(a, "response.content_part.added", out);
    buf_add_str(out, ",\"part\":");
    add_part(item, &empty, out);
    close_event(out);
}

static void close_text(struct response_writer *a, struct buf *out)
{
    const enum item item = (enum item)a->open_block;
    const bool is_message = item == ITEM_MESSAGE;

    if (item == ITEM_NONE)
        return;
    begin_part_event(a, is_message ? "response.output_text.done" : "response.reasoning_text.done",
                     out);
    buf_add_str(out, ",\"text\":");
    json_add_string(out, a->piece.data, a->piece.len);
    buf_add_str(out, is_message ? ",\"logprobs\":[]" : "");
    close_event(out);
    begin_part_event(a, "response.content_part.done", out);
    buf_add_str(out, ",\"part\":");
    add_part(item, &a->piece, out);
    close_event(out);
    begin_item_event(a, "response.output_item.done", out);
    add_text_item(a, item, a->n_blocks, &a->piece, out);
    close_event(out);
    add_text_item(a, item, a->n_blocks, &a->piece, next_item(a));
    buf_clear(&a->piece);
    a->open_block = ITEM_NONE;
    a->n_blocks++;
}

static void add_piece(struct response_writer *a, enum item item, const struct buf *text,
                      struct buf *out)
{
    const bool is_message = item == ITEM_MESSAGE;

    if (text->len == 0)
        return;
    if (a->open_block != item) {
        close_text(a, out);
        open_text(a, item, out);
    }
    begin_part_event(a, is_message ? "response.output_text.delta" : "response.reasoning_text.delta",
                     out);
    buf_add_str(out, ",\"delta\":");
    json_add_string(out, text->data, text->len);
    buf_add_str(out, is_message ? ",\"logprobs\":[]" : "");
    close_event(out);
    if (buf_add(&a->piece, text->data, text->len) < 0)
        out->err = a->piece.err;
}

static void add_call(struct response_writer *a, const struct output_call *call, struct buf *out)
{
    close_text(a, out);
    begin_item_event(a, "response.output_item.added", out);
    add_call_item(a, call, a->n_blocks, false, out);
    close_event(out);
    open_event(a, "response.function_call_arguments.delta", out);
    add_place(a, "fc_", out);
    buf_add_str(out, ",\"delta\":");
    json_add_cstring(out, call->arguments);
    close_event(out);
    open_event(a, "response.function_call_arguments.done", out);
    add_place(a, "fc_", out);
    buf_add_str(out, ",\"name\":");
    json_add_cstring(out, call->name);
    buf_add_str(out, ",\"arguments\":");
    json_add_cstring(out, call->arguments);
    close_event(out);
    begin_item_event(a, "response.output_item.done", out);
    add_call_item(a, call, a->n_blocks, true, out);
    close_event(out);
    add_call_item(a, call, a->n_blocks, true, next_item(a));
    a->n_blocks++;
}

static void frame(struct response_writer *a, struct choice *c, struct buf *out)
{
    if (!c->has_opened) {
        add_response_event(a, "response.created", false, out);
        add_response_event(a, "response.in_progress", false, out);
    }
    c->has_opened = true;
    add_piece(a, ITEM_THOUGHT, &c->output.thought, out);
    add_piece(a, ITEM_MESSAGE, &c->output.text, out);
    for (uint32_t i = c->output.n_sent; i < c->output.n_calls; i++)
        add_call(a, &c->output.calls[i], out);
    response_pass_choice(out, c);
}

static void end(struct response_writer *a, struct buf *out)
{
    if (a->n_blocks == 0 && a->open_block == ITEM_NONE) /* a message, if an empty one */
        open_text(a, ITEM_MESSAGE, out);
    close_text(a, out);
    add_response_event(a, is_cut(a) ? "response.incomplete" : "response.completed", true, out);
}

/* Its sequence number is 0: the writer's state is not known here. */
static void failure(const struct api_error *e, struct buf *out)
{
    buf_add_str(out, "event: error\ndata: {\"type\":\"error\",\"sequence_number\":0,\"code\":");
    json_add_cstring(out, e->code != NULL ? e->code : e->type);
    buf_add_str(out, ",\"message\":");
    json_add_cstring(out, e->message);
    buf_add_str(out, ",\"param\":null}\n\n");
}

/* Members that a response repeats, with what stands for those that were not given. */
static int add_echo(const cJSON *body, struct buf *echo)
{
    static const char *const members[][2] = {
        {"instructions", "null"},   {"max_output_tokens", "null"}, {"max_tool_calls", "null"},
        {"metadata", "{}"},         {"parallel_tool_calls", "true"},
        {"reasoning", "{\"effort\":null,\"summary\":null}"},
        {"temperature", "1"},       {"text", "{\"format\":{\"type\":\"text\"}}"},
        {"tool_choice", "\"auto\""}, {"tools", "[]"},              {"top_p", "1"},
        {"truncation", "\"disabled\""}, {"user", "null"},
    };

    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
        const cJSON *v = field_find(body, members[i][0]);
        char *text = v != NULL ? cJSON_PrintUnformatted(v) : NULL;

        if (v != NULL && text == NULL)
            return ERR_NOMEM;
        buf_printf(echo, ",\"%s\":", members[i][0]);
        buf_add_str(echo, text != NULL ? text : members[i][1]);
        cJSON_free(text);
    }
    return echo->err;
}

const struct wire_format wire_openai_responses = {
    .id_prefix = "resp_",
    .form = PARAMS_RESPONSES,
    .echo = add_echo,
    .begin = begin,
    .whole = whole,
    .frame = frame,
    .close = end,
    .failure = failure,
};
