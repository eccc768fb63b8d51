/* server/api/formats/anthropic_messages.c - answers of POST /v1/messages, in Anthropic's shape.
 *
 * The answer is a list of blocks: a thought, text, tool uses. A stream has events for the start,
 * the pieces and the end of each block. Only one block is open at a time (a->open_block): a piece
 * of another kind closes it first.
 */
#include "server/api/response/response_writer.h"

#include "core/base/buf.h"
#include "core/json/json.h"

#include <inttypes.h>
#include <string.h>

/* The signature of a thought. Clients send a thought back as such only if its signature is not
 * empty; what they send back is not checked. */
#define SIGNATURE "cXVpcmU=" /* "quire" in base64: the API's own are base64, too */

enum piece { PIECE_NONE = 0, PIECE_THOUGHT, PIECE_TEXT, PIECE_CALL };

static void begin_messages(struct response_writer *a)
{
    buf_printf(&a->head,
               "{\"id\":\"%s\",\"type\":\"message\",\"role\":\"assistant\",\"model\":", a->id);
    json_add_cstring(&a->head, a->model);
}

static const char *stop_reason(const struct choice *c)
{
    const char *finish = choice_finish_name(c);

    if (strcmp(finish, "tool_calls") == 0)
        return "tool_use";
    if (strcmp(finish, "length") == 0)
        return "max_tokens";
    return c->stop.found != NULL ? "stop_sequence" : "end_turn";
}

/* "stop_reason":"end_turn","stop_sequence":null */
static void add_stop(struct buf *out, const struct choice *c)
{
    buf_printf(out, "\"stop_reason\":\"%s\",\"stop_sequence\":", stop_reason(c));
    if (c->stop.found != NULL)
        json_add_cstring(out, c->stop.found);
    else
        buf_add_str(out, "null");
}

/* Tokens from the cache, and those that a breakpoint keeps there, are counted apart from the
 * input. */
static void add_usage(struct buf *out, const struct response_usage *u)
{
    const uint64_t created = u->pinned_new[0] + u->pinned_new[1];

    buf_printf(out,
               ",\"usage\":{\"input_tokens\":%" PRIu64 ",\"cache_creation_input_tokens\":%" PRIu64
               ",\"cache_read_input_tokens\":%" PRIu64 ",\"output_tokens\":%" PRIu64,
               u->prompt - u->cached - created, created, u->cached, u->completion);
    if (u->has_breakpoints)
        buf_printf(out,
                   ",\"cache_creation\":{\"ephemeral_5m_input_tokens\":%" PRIu64
                   ",\"ephemeral_1h_input_tokens\":%" PRIu64 "}",
                   u->pinned_new[0], u->pinned_new[1]);
    buf_add_char(out, '}');
}

static void add_separator(struct buf *out, uint32_t *n)
{
    if ((*n)++ > 0)
        buf_add_char(out, ',');
}

/* ,"context_management":{"applied_edits":[…]}, where the body has any edits */
static void add_edits(const struct response_writer *a, struct buf *out)
{
    static const struct {
        const char *type, *what;
    } kinds[] = {[CONTEXT_EDIT_TOOL_USES] = {"clear_tool_uses_20250919", "cleared_tool_uses"},
                 [CONTEXT_EDIT_THINKING] = {"clear_thinking_20251015", "cleared_thinking_turns"}};
    const struct context_edits *edits = &a->params->edits;
    uint32_t n = 0;

    if (!edits->is_wanted)
        return;
    buf_add_str(out, ",\"context_management\":{\"applied_edits\":[");
    for (uint32_t i = 0; i < edits->n; i++) {
        const struct context_edit *edit = &edits->list[i];

        if (edit->n_cleared == 0)
            continue;
        add_separator(out, &n);
        buf_printf(out, "{\"type\":\"%s\",\"%s\":%u,\"cleared_input_tokens\":%u}",
                   kinds[edit->kind].type, kinds[edit->kind].what, edit->n_cleared, edit->n_tokens);
    }
    buf_add_str(out, "]}");
}

/* ---- whole ---- */

static void add_tool_block(struct buf *out, const struct output_call *call)
{
    buf_printf(out, "{\"type\":\"tool_use\",\"id\":\"%s\",\"name\":", call->id);
    json_add_cstring(out, call->name);
    buf_add_str(out, ",\"input\":");
    output_call_add_object(call, out);
    buf_add_char(out, '}');
}

static void add_block(struct buf *out, const struct output_parser *s, const struct output_piece *p)
{
    if (p->part == OUTPUT_CALL) {
        add_tool_block(out, &s->calls[p->call]);
    } else if (p->part == OUTPUT_THOUGHT) {
        buf_add_str(out, "{\"type\":\"thinking\",\"thinking\":");
        json_add_string(out, s->thought.data + p->at, p->n);
        buf_add_str(out, ",\"signature\":\"" SIGNATURE "\"}");
    } else {
        buf_add_str(out, "{\"type\":\"text\",\"text\":");
        json_add_string(out, s->text.data + p->at, p->n);
        buf_add_char(out, '}');
    }
}

static void add_blocks(struct buf *out, const struct output_parser *s)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < s->n_pieces; i++) {
        if (s->pieces[i].part == OUTPUT_THOUGHT && s->thought.len == 0) /* the thought is hidden */
            continue;
        add_separator(out, &n);
        add_block(out, s, &s->pieces[i]);
    }
}

static void whole_messages(struct response_writer *a, struct buf *out)
{
    struct choice *c = &a->choices[0];

    buf_add(out, a->head.data, a->head.len);
    buf_add_str(out, ",\"content\":[");
    add_blocks(out, &c->output);
    buf_add_str(out, "],");
    add_stop(out, c);
    add_usage(out, &a->usage);
    add_edits(a, out);
    buf_add_char(out, '}');
    response_pass_choice(out, c);
}

/* ---- events ---- */

static void open_event(struct buf *out, const char *name)
{
    buf_printf(out, "event: %s\ndata: {\"type\":\"%s\"", name, name);
}

static void close_event(struct buf *out)
{
    buf_add_str(out, "}\n\n");
}

static void start_message(struct response_writer *a, const struct choice *c, struct buf *out)
{
    open_event(out, "message_start");
    buf_add_str(out, ",\"message\":");
    buf_add(out, a->head.data, a->head.len);
    buf_printf(out,
               ",\"content\":[],\"stop_reason\":null,\"stop_sequence\":null,\"usage\":{"
               "\"input_tokens\":%zu,\"cache_creation_input_tokens\":0,"
               "\"cache_read_input_tokens\":0,\"output_tokens\":0}}",
               c->prompt->ids.n);
    close_event(out);
}

static void open_block(struct response_writer *a, struct buf *out)
{
    open_event(out, "content_block_start");
    buf_printf(out, ",\"index\":%u,\"content_block\":", a->n_blocks++);
}

static void begin_delta(struct response_writer *a, const char *type, const char *member,
                        struct buf *out)
{
    open_event(out, "content_block_delta");
    buf_printf(out, ",\"index\":%u,\"delta\":{\"type\":\"%s\",\"%s\":", a->n_blocks - 1, type,
               member);
}

static void close_block(struct response_writer *a, struct buf *out)
{
    if (a->open_block == PIECE_NONE)
        return;
    if (a->open_block == PIECE_THOUGHT) {
        begin_delta(a, "signature_delta", "signature", out);
        buf_add_str(out, "\"" SIGNATURE "\"}");
        close_event(out);
    }
    a->open_block = PIECE_NONE;
    open_event(out, "content_block_stop");
    buf_printf(out, ",\"index\":%u", a->n_blocks - 1);
    close_event(out);
}

static void add_message_run(struct response_writer *a, enum piece block, const char *text, size_t n,
                            struct buf *out)
{
    const bool is_text = block == PIECE_TEXT;

    if (a->open_block != block) {
        close_block(a, out);
        open_block(a, out);
        buf_add_str(out, is_text ? "{\"type\":\"text\",\"text\":\"\"}"
                                 : "{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"}");
        close_event(out);
        a->open_block = block;
    }
    begin_delta(a, is_text ? "text_delta" : "thinking_delta", is_text ? "text" : "thinking", out);
    json_add_string(out, text, n);
    buf_add_char(out, '}');
    close_event(out);
}

static void open_tool_use(struct response_writer *a, const struct output_call *call,
                          struct buf *out)
{
    close_block(a, out);
    open_block(a, out);
    buf_printf(out, "{\"type\":\"tool_use\",\"id\":\"%s\",\"name\":", call->id);
    json_add_cstring(out, call->name);
    buf_add_str(out, ",\"input\":{}}");
    close_event(out);
    a->open_block = PIECE_CALL;
}

/* Begin or continue a call; its block stays open until the call is over. */
static void add_tool_use(struct response_writer *a, const struct output_call *call, struct buf *out)
{
    if (!call->was_announced)
        open_tool_use(a, call, out);
    if (call->n_sent < call->arguments.len) {
        begin_delta(a, "input_json_delta", "partial_json", out);
        json_add_string(out, call->arguments.data + call->n_sent,
                        call->arguments.len - call->n_sent);
        buf_add_char(out, '}');
        close_event(out);
    }
    if (call->is_over)
        close_block(a, out);
}

static void add_message_piece(struct response_writer *a, const struct output_parser *s,
                              const struct output_piece *p, struct buf *out)
{
    if (p->part == OUTPUT_CALL)
        add_tool_use(a, &s->calls[p->call], out);
    else if (p->part == OUTPUT_TEXT)
        add_message_run(a, PIECE_TEXT, s->text.data + p->at, p->n, out);
    else if (s->thought.len > 0) /* else the thought is hidden */
        add_message_run(a, PIECE_THOUGHT, s->thought.data + p->at, p->n, out);
}

static void messages_frame(struct response_writer *a, struct choice *c, struct buf *out)
{
    if (!c->has_opened)
        start_message(a, c, out);
    c->has_opened = true;
    for (uint32_t i = 0; i < c->output.n_pieces; i++)
        add_message_piece(a, &c->output, &c->output.pieces[i], out);
    response_pass_choice(out, c);
}

static void end_messages(struct response_writer *a, struct buf *out)
{
    close_block(a, out);
    open_event(out, "message_delta");
    buf_add_str(out, ",\"delta\":{");
    add_stop(out, &a->choices[0]);
    buf_add_char(out, '}');
    add_usage(out, &a->usage);
    add_edits(a, out);
    close_event(out);
    open_event(out, "message_stop");
    close_event(out);
}

/* ---- errors ---- */

static const char *error_type(int status)
{
    switch (status) {
    case 401:
        return "authentication_error";
    case 403:
        return "permission_error";
    case 404:
        return "not_found_error";
    case 413:
        return "request_too_large";
    case 408:
    case 504:
        return "timeout_error";
    case 429:
        return "rate_limit_error";
    case 503:
        return "overloaded_error";
    default:
        return status >= 500 ? "api_error" : "invalid_request_error";
    }
}

void anthropic_messages_error(const struct api_error *e, struct buf *out)
{
    buf_printf(
        out, "{\"type\":\"error\",\"error\":{\"type\":\"%s\",\"message\":", error_type(e->status));
    json_add_cstring(out, e->message);
    /* Anthropic's client libraries begin their tool loops with a thread. This code tells them to
     * send the whole conversation each time instead. */
    if (strcmp(e->param, "thread") == 0)
        buf_add_str(out, ",\"details\":{\"error_code\":\"thread_unsupported_request\","
                         "\"unsupported\":[\"thread\"]}");
    buf_add_str(out, "}}");
}

static void messages_failure(const struct api_error *e, struct buf *out)
{
    buf_add_str(out, "event: error\ndata: ");
    anthropic_messages_error(e, out);
    buf_add_str(out, "\n\n");
}

const struct wire_format wire_anthropic_messages = {
    .id_prefix = "msg_",
    .form = PARAMS_MESSAGES,
    .begin = begin_messages,
    .whole = whole_messages,
    .frame = messages_frame,
    .close = end_messages,
    .failure = messages_failure,
};
