/* server/api/chat/chat_values.c - see chat_values.h. */
#include "server/api/chat/chat_values.h"

#include "server/api/params/field.h"

#include <string.h>

/* Depth is bounded by JSON_MAX_DEPTH. */
static struct value value_of(struct value_pool *pool, const cJSON *v)
{
    struct value out;

    if (cJSON_IsBool(v))
        return value_bool(cJSON_IsTrue(v));
    if (cJSON_IsNumber(v))
        return field_is_int(v, -0x1p53, 0x1p53) ? value_int((int64_t)v->valuedouble)
                                                : value_float(v->valuedouble);
    if (cJSON_IsString(v))
        return value_string(pool, v->valuestring, strlen(v->valuestring));
    if (cJSON_IsArray(v)) {
        out = value_list(pool);
        for (const cJSON *it = v->child; it != NULL; it = it->next)
            value_list_add(pool, out, value_of(pool, it));
        return out;
    }
    if (cJSON_IsObject(v)) {
        out = value_dict(pool);
        for (const cJSON *it = v->child; it != NULL; it = it->next)
            value_dict_set(pool, out, it->string, value_of(pool, it));
        return out;
    }
    return value_null();
}

void chat_join_content(const cJSON *content, struct buf *out)
{
    bool first = true;

    if (cJSON_IsString(content)) {
        buf_add_str(out, content->valuestring);
        return;
    }
    for (const cJSON *it = content->child; it != NULL; it = it->next, first = false) {
        const cJSON *text = field_find(it, "text");

        if (!first)
            buf_add_char(out, '\n');
        buf_add_str(out, text != NULL ? text->valuestring
                                      : field_find(it, "refusal")->valuestring);
    }
}

static struct value content_of(struct value_pool *pool, const cJSON *content)
{
    struct value out;
    struct buf text;

    if (!cJSON_IsArray(content))
        return value_of(pool, content);
    buf_init(&text, CHAT_MAX_PROMPT);
    chat_join_content(content, &text);
    if (text.err < 0)
        pool->err = text.err;
    out = value_string(pool, text.data != NULL ? text.data : "", text.len);
    buf_release(&text);
    return out;
}

/* An object where the text of the arguments is one, as templates expect. */
static struct value arguments_of(struct value_pool *pool, const cJSON *arguments)
{
    const char *text = arguments->valuestring, *why = NULL;
    cJSON *json = NULL;
    struct value out;

    if (json_parse(text, strlen(text), &json, &why) < 0 || !cJSON_IsObject(json)) {
        cJSON_Delete(json);
        return value_of(pool, arguments);
    }
    out = value_dict(pool);
    for (const cJSON *it = json->child; it != NULL; it = it->next)
        value_dict_set(pool, out, it->string, value_of(pool, it));
    cJSON_Delete(json);
    return out;
}

static struct value call_of(struct value_pool *pool, const cJSON *call)
{
    const struct value out = value_dict(pool), function = value_dict(pool);

    for (const cJSON *it = call->child; it != NULL; it = it->next)
        if (strcmp(it->string, "function") != 0)
            value_dict_set(pool, out, it->string, value_of(pool, it));
    for (const cJSON *it = field_find(call, "function")->child; it != NULL; it = it->next)
        value_dict_set(pool, function, it->string,
                       strcmp(it->string, "arguments") == 0 && cJSON_IsString(it)
                           ? arguments_of(pool, it)
                           : value_of(pool, it));
    value_dict_set(pool, out, "function", function);
    return out;
}

static struct value calls_of(struct value_pool *pool, const cJSON *calls)
{
    const struct value out = value_list(pool);

    for (const cJSON *it = calls->child; it != NULL; it = it->next)
        value_list_add(pool, out, call_of(pool, it));
    return out;
}

static struct value message_of(struct value_pool *pool, const cJSON *message, bool knows_developer)
{
    const struct value out = value_dict(pool);

    for (const cJSON *it = message->child; it != NULL; it = it->next) {
        struct value v;

        if (strcmp(it->string, "content") == 0)
            v = content_of(pool, it);
        else if (strcmp(it->string, "tool_calls") == 0 && cJSON_IsArray(it))
            v = calls_of(pool, it);
        else if (strcmp(it->string, "role") == 0 && !knows_developer && cJSON_IsString(it) &&
                 strcmp(it->valuestring, "developer") == 0)
            v = value_text("system");
        else
            v = value_of(pool, it);
        value_dict_set(pool, out, it->string, v);
    }
    return out;
}

static struct value messages_of(struct value_pool *pool, const cJSON *messages,
                                bool knows_developer)
{
    const struct value out = value_list(pool);

    for (const cJSON *it = messages->child; it != NULL; it = it->next)
        value_list_add(pool, out, message_of(pool, it, knows_developer));
    return out;
}

static void add_effort(struct value_pool *pool, struct value out, const char *effort)
{
    if (effort[0] == '\0')
        return;
    value_dict_set(pool, out, "reasoning_effort", value_borrow(effort, strlen(effort)));
    if (strcmp(effort, "none") == 0)
        value_dict_set(pool, out, "enable_thinking", value_bool(false));
}

struct value chat_values(struct value_pool *pool, const struct params *p,
                         const struct chat_tokens *tokens, bool knows_developer)
{
    const bool offers = p->tools != NULL && p->tool_choice != TOOL_CHOICE_NONE;
    const struct value out = value_dict(pool);

    add_effort(pool, out, p->reasoning_effort);
    for (const cJSON *it = p->template_kwargs != NULL ? p->template_kwargs->child : NULL;
         it != NULL; it = it->next)
        value_dict_set(pool, out, it->string, value_of(pool, it));
    value_dict_set(pool, out, "messages", messages_of(pool, p->messages, knows_developer));
    value_dict_set(pool, out, "tools", offers ? value_of(pool, p->tools) : value_null());
    value_dict_set(pool, out, "documents", value_null());
    value_dict_set(pool, out, "add_generation_prompt",
                   value_bool(p->add_generation_prompt && !p->continue_final_message));
    value_dict_set(pool, out, "bos_token", value_borrow(tokens->bos.bytes, tokens->bos.n));
    value_dict_set(pool, out, "eos_token", value_borrow(tokens->eos.bytes, tokens->eos.n));
    return out;
}
