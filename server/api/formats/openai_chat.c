/* server/api/formats/openai_chat.c - answers of POST /v1/chat/completions.
 *
 * A stream opens each choice with its role; then come deltas that each carry one kind of data (a
 * thought, text or a call), and at last one without content that has the finish_reason.
 */
#include "server/api/response/response_writer.h"

#include "core/json/json.h"
#include "server/http/http_call.h"

#include <string.h>

static void begin_chat(struct response_writer *a)
{
    response_add_head(a, "chat.completion", &a->head);
    response_add_head(a, "chat.completion.chunk", &a->frame_head);
}

static void add_logprobs(struct buf *out, const struct choice *c)
{
    buf_add_str(out, ",\"logprobs\":");
    if (!c->rules->wants_logprobs || c->entries.len == 0) {
        buf_add_str(out, "null");
        return;
    }
    buf_add_str(out, "{\"content\":[");
    buf_add(out, c->entries.data, c->entries.len);
    buf_add_str(out, "],\"refusal\":null}");
}

/* ---- whole ---- */

static void add_custom_input(struct buf *out, const struct output_call *call)
{
    struct buf input;

    buf_init(&input, HTTP_MAX_REPLY);
    output_call_add_input(call, &input);
    json_add_string(out, input.data, input.len);
    out->err = input.err < 0 ? input.err : out->err;
    buf_release(&input);
}

static void add_custom_call(struct buf *out, const struct output_call *call)
{
    buf_printf(out, "{\"id\":\"%s\",\"type\":\"custom\",\"custom\":{\"name\":", call->id);
    json_add_cstring(out, call->name);
    buf_add_str(out, ",\"input\":");
    add_custom_input(out, call);
    buf_add_str(out, "}}");
}

static void add_chat_call(struct buf *out, const struct output_call *call)
{
    if (call->traits.is_custom) {
        add_custom_call(out, call);
        return;
    }
    buf_printf(out, "{\"id\":\"%s\",\"type\":\"function\",\"function\":{\"name\":", call->id);
    json_add_cstring(out, call->name);
    buf_add_str(out, ",\"arguments\":");
    json_add_string(out, call->arguments.data, call->arguments.len);
    buf_add_str(out, "}}");
}

/* Append a call in OpenAI's older form: one call, as a member of the message. */
static void add_function_call(struct buf *out, const struct output_call *call)
{
    buf_add_str(out, ",\"function_call\":{\"name\":");
    json_add_cstring(out, call->name);
    buf_add_str(out, ",\"arguments\":");
    json_add_string(out, call->arguments.data, call->arguments.len);
    buf_add_char(out, '}');
}

/* Append the text that the answer continues, and then its own. */
static void add_content(struct buf *out, const struct buf *echo, const struct output_parser *s)
{
    struct buf both;

    if (s->text.len + echo->len == 0 && s->n_calls > 0) {
        buf_add_str(out, "null");
        return;
    }
    buf_init(&both, HTTP_MAX_REPLY);
    buf_add(&both, echo->data, echo->len);
    buf_add(&both, s->text.data, s->text.len);
    json_add_string(out, both.data, both.len);
    out->err = both.err < 0 ? both.err : out->err;
    buf_release(&both);
}

static void add_message(struct buf *out, const struct buf *echo, const struct output_parser *s,
                        bool has_functions)
{
    buf_add_str(out, "{\"role\":\"assistant\",\"content\":");
    if (echo->len > 0)
        add_content(out, echo, s);
    else if (s->text.len == 0 && s->n_calls > 0)
        buf_add_str(out, "null");
    else
        json_add_string(out, s->text.data, s->text.len);
    buf_add_str(out, ",\"refusal\":null");
    if (s->thought.len > 0) {
        buf_add_str(out, ",\"reasoning_content\":");
        json_add_string(out, s->thought.data, s->thought.len);
        buf_add_str(out, ",\"reasoning\":");
        json_add_string(out, s->thought.data, s->thought.len);
    }
    if (has_functions && s->n_calls > 0)
        add_function_call(out, &s->calls[0]);
    for (uint32_t i = 0; i < s->n_calls && !has_functions; i++) {
        buf_add_str(out, i == 0 ? ",\"tool_calls\":[" : ",");
        add_chat_call(out, &s->calls[i]);
    }
    buf_add_str(out, s->n_calls > 0 && !has_functions ? "]}" : "}");
}

static void add_chat_choice(struct response_writer *a, struct buf *out, struct choice *c)
{
    buf_printf(out, "{\"index\":%u,\"message\":", c->index);
    add_message(out, a->echo, &c->output, c->rules->has_functions);
    add_logprobs(out, c);
    response_add_finish(out, c);
    response_add_extras(out, c);
    buf_add_char(out, '}');
    response_pass_choice(out, c);
}

static void whole_chat(struct response_writer *a, struct buf *out)
{
    buf_add(out, a->head.data, a->head.len);
    for (uint32_t i = 0; i < a->n_choices; i++) {
        if (i > 0)
            buf_add_char(out, ',');
        add_chat_choice(a, out, &a->choices[i]);
    }
    buf_add_char(out, ']');
    response_add_prompt_scores(out, &a->choices[0]); /* all choices have the same prompt */
    buf_add_char(out, ',');
    response_add_usage(out, &a->usage, true);
    response_add_receipt(a, out);
    buf_add_char(out, '}');
}

/* ---- frames ---- */

static void open_delta(struct response_writer *a, const struct choice *c, struct buf *out)
{
    response_begin_frame(a, out);
    buf_printf(out, "{\"index\":%u,\"delta\":{", c->index);
}

/* End a delta with the log-probabilities that have not been sent: they go into whichever frame
 * comes first. */
static void close_delta(struct response_writer *a, struct choice *c, struct buf *out)
{
    buf_add_char(out, '}');
    add_logprobs(out, c);
    buf_add_str(out, ",\"finish_reason\":null}");
    response_end_choices(a, out);
    if (c->entries.err == 0)
        buf_clear(&c->entries);
}

static void add_text_delta(struct response_writer *a, struct choice *c, const char *member,
                           const struct buf *text, struct buf *out)
{
    if (text->len == 0)
        return;
    open_delta(a, c, out);
    json_add_cstring(out, member);
    buf_add_char(out, ':');
    json_add_string(out, text->data, text->len);
    close_delta(a, c, out);
}

/* Send a thought under DeepSeek's name, reasoning_content, and under vLLM's and OpenRouter's,
 * reasoning. */
static void add_thought_delta(struct response_writer *a, struct choice *c, struct buf *out)
{
    const struct buf *thought = &c->output.thought;

    if (thought->len == 0)
        return;
    open_delta(a, c, out);
    buf_add_str(out, "\"reasoning_content\":");
    json_add_string(out, thought->data, thought->len);
    buf_add_str(out, ",\"reasoning\":");
    json_add_string(out, thought->data, thought->len);
    close_delta(a, c, out);
}

/* Send a custom tool's call: its name at once, its input in one piece when it is complete. */
static void add_custom_deltas(struct response_writer *a, struct choice *c, uint32_t i,
                              struct buf *out)
{
    const struct output_call *call = &c->output.calls[i];

    if (!call->was_announced) {
        open_delta(a, c, out);
        buf_printf(out,
                   "\"tool_calls\":[{\"index\":%u,\"id\":\"%s\",\"type\":\"custom\","
                   "\"custom\":{\"name\":",
                   i, call->id);
        json_add_cstring(out, call->name);
        buf_add_str(out, ",\"input\":\"\"}}]");
        close_delta(a, c, out);
    }
    if (!call->is_over)
        return;
    open_delta(a, c, out);
    buf_printf(out, "\"tool_calls\":[{\"index\":%u,\"custom\":{\"input\":", i);
    add_custom_input(out, call);
    buf_add_str(out, "}}]");
    close_delta(a, c, out);
}

/* Send a call's name in a frame of its own, then the new part of its arguments. */
static void add_call_deltas(struct response_writer *a, struct choice *c, uint32_t i,
                            struct buf *out)
{
    const struct output_call *call = &c->output.calls[i];
    const bool is_old = c->rules->has_functions;

    if (is_old && i > 0) /* the older form has no place for a second call */
        return;
    if (!call->was_announced) {
        open_delta(a, c, out);
        if (is_old)
            buf_add_str(out, "\"function_call\":{\"name\":");
        else
            buf_printf(out,
                       "\"tool_calls\":[{\"index\":%u,\"id\":\"%s\",\"type\":\"function\","
                       "\"function\":{\"name\":",
                       i, call->id);
        json_add_cstring(out, call->name);
        buf_add_str(out, is_old ? ",\"arguments\":\"\"}" : ",\"arguments\":\"\"}}]");
        close_delta(a, c, out);
    }
    if (call->n_sent == call->arguments.len)
        return;
    open_delta(a, c, out);
    if (is_old)
        buf_add_str(out, "\"function_call\":{\"arguments\":");
    else
        buf_printf(out, "\"tool_calls\":[{\"index\":%u,\"function\":{\"arguments\":", i);
    json_add_string(out, call->arguments.data + call->n_sent, call->arguments.len - call->n_sent);
    buf_add_str(out, is_old ? "}" : "}}]");
    close_delta(a, c, out);
}

static void add_end(struct response_writer *a, struct choice *c, struct buf *out)
{
    open_delta(a, c, out);
    buf_add_char(out, '}');
    add_logprobs(out, c);
    response_add_finish(out, c);
    response_add_extras(out, c);
    buf_add_char(out, '}');
    response_end_choices(a, out);
}

/* Send the frame before the choice's tokens; its usage does not count them. */
static void add_opening(struct response_writer *a, struct choice *c, struct buf *out)
{
    const struct response_usage all = a->usage;

    if (a->params->continuous_usage) {
        a->usage.completion -= c->n_tokens;
        a->usage.thinking -= c->n_thinking;
    }
    open_delta(a, c, out);
    buf_add_str(out, "\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,"
                     "\"finish_reason\":null}");
    response_end_choices(a, out);
    if (a->echo->len > 0) {
        open_delta(a, c, out);
        buf_add_str(out, "\"content\":");
        json_add_string(out, a->echo->data, a->echo->len);
        buf_add_str(out, "},\"logprobs\":null,\"finish_reason\":null}");
        response_end_choices(a, out);
    }
    a->usage = all;
    c->has_opened = true;
}

static void chat_frame(struct response_writer *a, struct choice *c, struct buf *out)
{
    if (!c->has_opened)
        add_opening(a, c, out);
    if (c->has_progress && a->params->return_progress) {
        open_delta(a, c, out);
        close_delta(a, c, out);
    }
    add_thought_delta(a, c, out);
    add_text_delta(a, c, "content", &c->output.text, out);
    for (uint32_t i = c->output.n_sent; i < c->output.n_calls; i++)
        if (c->output.calls[i].traits.is_custom)
            add_custom_deltas(a, c, i, out);
        else
            add_call_deltas(a, c, i, out);
    if (c->finish != FINISH_NONE)
        add_end(a, c, out);
    response_pass_choice(out, c);
}

/* As in vLLM, `echo` repeats the content of the last message if the answer has its role; line ends
 * stand between its parts. */
static int echo(const cJSON *body, struct buf *out)
{
    const cJSON *messages = cJSON_GetObjectItemCaseSensitive(body, "messages");
    const cJSON *last = cJSON_GetArrayItem(messages, cJSON_GetArraySize(messages) - 1);
    const cJSON *content, *it;
    const char *role = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(last, "role"));

    if (!cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(body, "echo")) || role == NULL ||
        (strcmp(role, "assistant") != 0 &&
         !cJSON_IsFalse(cJSON_GetObjectItemCaseSensitive(body, "add_generation_prompt"))))
        return 0;
    content = cJSON_GetObjectItemCaseSensitive(last, "content");
    if (cJSON_IsString(content))
        return buf_add_str(out, content->valuestring);
    cJSON_ArrayForEach(it, content)
    {
        const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(it, "text"));

        if (out->len > 0)
            buf_add_char(out, '\n');
        buf_add_str(out, text != NULL ? text : "");
    }
    return out->err;
}

static void end_chat(struct response_writer *a, struct buf *out)
{
    response_close_stream(a, true, out);
}

const struct wire_format wire_openai_chat = {
    .endpoint = "/v1/chat/completions",
    .id_prefix = "chatcmpl-",
    .form = PARAMS_CHAT,
    .begin = begin_chat,
    .echo = echo,
    .whole = whole_chat,
    .frame = chat_frame,
    .close = end_chat,
    .failure = response_add_failure,
};
