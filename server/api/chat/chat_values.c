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

static struct value content_of(struct value_pool *pool, const struct conversation *c,
                               const struct chat_message *m)
{
    struct value out;
    struct buf text;

    if (m->n_parts == 1)
        return value_string(pool, c->parts[m->first_part], strlen(c->parts[m->first_part]));
    buf_init(&text, CHAT_MAX_PROMPT);
    conversation_join(c, m, &text);
    if (text.err < 0)
        pool->err = text.err;
    out = value_string(pool, text.data != NULL ? text.data : "", text.len);
    buf_release(&text);
    return out;
}

/* An object where the text of the arguments is one, as templates expect. */
static struct value arguments_of(struct value_pool *pool, const struct tool_call *call)
{
    const char *text = call->arguments, *why = NULL;
    cJSON *json = NULL;
    struct value out;

    if (call->input != NULL)
        return value_of(pool, call->input);
    if (json_parse(text, strlen(text), &json, &why) == 0 && cJSON_IsObject(json))
        out = value_of(pool, json);
    else
        out = value_string(pool, text, strlen(text));
    cJSON_Delete(json);
    return out;
}

static void set_text(struct value_pool *pool, struct value dict, const char *name,
                     const char *text)
{
    if (text != NULL)
        value_dict_set(pool, dict, name, value_string(pool, text, strlen(text)));
}

/* A call as it was given, but for its arguments and with the function behind the rest. */
static struct value given_call(struct value_pool *pool, const struct tool_call *call)
{
    const struct value out = value_dict(pool), function = value_dict(pool);

    for (const cJSON *it = call->given->child; it != NULL; it = it->next)
        if (strcmp(it->string, "function") != 0)
            value_dict_set(pool, out, it->string, value_of(pool, it));
    for (const cJSON *it = field_find(call->given, "function")->child; it != NULL; it = it->next)
        value_dict_set(pool, function, it->string,
                       strcmp(it->string, "arguments") == 0 ? arguments_of(pool, call)
                                                            : value_of(pool, it));
    value_dict_set(pool, out, "function", function);
    return out;
}

static struct value call_of(struct value_pool *pool, const struct tool_call *call)
{
    struct value out, function;

    if (call->given != NULL)
        return given_call(pool, call);
    out = value_dict(pool);
    function = value_dict(pool);
    set_text(pool, out, "id", call->id);
    value_dict_set(pool, out, "type", value_text("function"));
    set_text(pool, function, "name", call->name);
    value_dict_set(pool, function, "arguments", arguments_of(pool, call));
    value_dict_set(pool, out, "function", function);
    return out;
}

static struct value calls_of(struct value_pool *pool, const struct conversation *c,
                             const struct chat_message *m)
{
    const struct value out = value_list(pool);

    for (uint32_t i = 0; i < m->n_calls; i++)
        value_list_add(pool, out, call_of(pool, &c->calls[m->first_call + i]));
    return out;
}

/* What is typed takes the place of what was given; the rest is for templates that know it. */
static struct value given_message(struct value_pool *pool, const struct conversation *c,
                                  const struct chat_message *m, const char *role)
{
    const struct value out = value_dict(pool);

    for (const cJSON *it = m->given->child; it != NULL; it = it->next) {
        struct value v;

        if (strcmp(it->string, "content") == 0 && m->has_content)
            v = content_of(pool, c, m);
        else if (strcmp(it->string, "tool_calls") == 0 && cJSON_IsArray(it))
            v = calls_of(pool, c, m);
        else if (strcmp(it->string, "role") == 0)
            v = value_text(role);
        else
            v = value_of(pool, it);
        value_dict_set(pool, out, it->string, v);
    }
    return out;
}

static struct value message_of(struct value_pool *pool, const struct conversation *c,
                               const struct chat_message *m, bool knows_developer)
{
    const bool is_system = !knows_developer && strcmp(m->role, "developer") == 0;
    const char *role = is_system ? "system" : m->role;
    struct value out;

    if (m->given != NULL)
        return given_message(pool, c, m, role);
    out = value_dict(pool);
    value_dict_set(pool, out, "role", value_text(role));
    set_text(pool, out, "tool_call_id", m->tool_call_id);
    set_text(pool, out, "reasoning_content", m->reasoning);
    if (m->has_content)
        value_dict_set(pool, out, "content", content_of(pool, c, m));
    if (m->n_calls > 0)
        value_dict_set(pool, out, "tool_calls", calls_of(pool, c, m));
    return out;
}

static struct value messages_of(struct value_pool *pool, const struct conversation *c,
                                bool knows_developer)
{
    const struct value out = value_list(pool);

    for (uint32_t i = 0; i < c->n_messages; i++)
        value_list_add(pool, out, message_of(pool, c, &c->messages[i], knows_developer));
    return out;
}

static void set_json(struct value_pool *pool, struct value dict, const char *name, const cJSON *v)
{
    if (v != NULL)
        value_dict_set(pool, dict, name, value_of(pool, v));
}

static struct value tool_of(struct value_pool *pool, const struct tool *tool)
{
    struct value out, function;

    if (tool->given != NULL)
        return value_of(pool, tool->given);
    out = value_dict(pool);
    function = value_dict(pool);
    value_dict_set(pool, out, "type", value_text("function"));
    set_text(pool, function, "name", tool->name);
    set_json(pool, function, "description", tool->description);
    set_json(pool, function, "parameters", tool->parameters);
    set_json(pool, function, "strict", tool->strict);
    value_dict_set(pool, out, "function", function);
    return out;
}

static struct value tools_of(struct value_pool *pool, const struct params *p)
{
    struct value out;

    if (p->chat.n_tools == 0 || p->tool_choice == TOOL_CHOICE_NONE)
        return value_null();
    out = value_list(pool);
    for (uint32_t i = 0; i < p->chat.n_tools; i++)
        value_list_add(pool, out, tool_of(pool, &p->chat.tools[i]));
    return out;
}

/* Whether to think: an effort of none, Anthropic's switch, then what the client sets by name. */
static void add_thinking(struct value_pool *pool, struct value out, const struct params *p)
{
    const cJSON *kwargs = p->template_kwargs;

    if (p->reasoning_effort != NULL) {
        value_dict_set(pool, out, "reasoning_effort", value_text(p->reasoning_effort));
        if (strcmp(p->reasoning_effort, "none") == 0)
            value_dict_set(pool, out, "enable_thinking", value_bool(false));
    }
    if (p->thinking != THINKING_UNSET)
        value_dict_set(pool, out, "enable_thinking", value_bool(p->thinking == THINKING_ON));
    for (const cJSON *it = kwargs != NULL ? kwargs->child : NULL; it != NULL; it = it->next)
        value_dict_set(pool, out, it->string, value_of(pool, it));
}

struct value chat_values(struct value_pool *pool, const struct params *p,
                         const struct chat_tokens *tokens, bool knows_developer)
{
    const struct value out = value_dict(pool);

    add_thinking(pool, out, p);
    value_dict_set(pool, out, "messages", messages_of(pool, &p->chat, knows_developer));
    value_dict_set(pool, out, "tools", tools_of(pool, p));
    value_dict_set(pool, out, "documents", value_null());
    value_dict_set(pool, out, "add_generation_prompt",
                   value_bool(p->add_generation_prompt && !p->continue_final_message));
    value_dict_set(pool, out, "bos_token", value_borrow(tokens->bos.bytes, tokens->bos.n));
    value_dict_set(pool, out, "eos_token", value_borrow(tokens->eos.bytes, tokens->eos.n));
    return out;
}
