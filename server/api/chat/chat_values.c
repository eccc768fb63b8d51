/* server/api/chat/chat_values.c - builds the template's variables from a parsed chat.
 *
 * messages_of() goes through the conversation once. System messages that the template does not take
 * at their place are held in `before`, or counted after a user's message, and merged into that
 * message's content. Everything that a client gave is copied member by member, so templates see
 * fields that Quire does not know; typed fields replace their given versions.
 */
#include "server/api/chat/chat_values.h"

#include "core/json/json_number.h"
#include "server/api/params/field.h"

#include <stdio.h>
#include <string.h>

#define MAX_RESULTS 128 /* results in a row whose calls are searched for */

/* Recursion is bounded by JSON_MAX_DEPTH. */
struct value chat_json_value(struct value_pool *pool, const cJSON *v)
{
    struct value out;

    if (cJSON_IsBool(v))
        return value_bool(cJSON_IsTrue(v));
    if (json_number_literal(v) != NULL)
        return value_number(pool, json_number_literal(v));
    if (cJSON_IsNumber(v))
        return field_is_int(v, -0x1p53, 0x1p53) ? value_int((int64_t)v->valuedouble)
                                                : value_float(v->valuedouble);
    if (cJSON_IsString(v))
        return value_string(pool, v->valuestring, strlen(v->valuestring));
    if (cJSON_IsArray(v)) {
        out = value_list(pool);
        for (const cJSON *it = v->child; it != NULL; it = it->next)
            value_list_add(pool, out, chat_json_value(pool, it));
        return out;
    }
    if (cJSON_IsObject(v)) {
        out = value_dict(pool);
        for (const cJSON *it = v->child; it != NULL; it = it->next)
            value_dict_set(pool, out, it->string, chat_json_value(pool, it));
        return out;
    }
    return value_null();
}

struct source {
    struct value_pool *pool;
    const struct conversation *conversation;
    const struct chat_caps *caps;
    struct buf before; /* system messages that go into the user's next one */
};

static struct value text_value(struct value_pool *pool, const char *text)
{
    return value_string(pool, text, strlen(text));
}

static struct value part_of(struct value_pool *pool, struct value text)
{
    const struct value out = value_dict(pool);

    value_dict_set(pool, out, "type", value_text("text"));
    value_dict_set(pool, out, "text", text);
    return out;
}

static bool is_system(const struct source *c, const struct chat_message *m)
{
    return strcmp(m->role, "system") == 0 ||
           (strcmp(m->role, "developer") == 0 && !c->caps->knows_developer);
}

/* Counts the system messages after a user's message, where the template does not take them. */
static uint32_t count_behind(const struct source *c, const struct chat_message *m)
{
    const struct chat_message *end = c->conversation->messages + c->conversation->n_messages;
    uint32_t n = 0;

    if (strcmp(m->role, "user") != 0 || (c->caps->knows_system && c->caps->late_system))
        return 0;
    while (m + 1 + n < end && is_system(c, m + 1 + n))
        n++;
    return n;
}

static void add_parts(const struct source *c, const struct chat_message *m, struct value list)
{
    for (uint32_t i = 0; i < m->n_parts; i++) {
        const char *text = c->conversation->parts[m->first_part + i];

        value_list_add(c->pool, list, part_of(c->pool, text_value(c->pool, text)));
    }
}

/* Makes the list of parts of a message, with the system messages that are merged into it before and
 * after its own. */
static struct value parts_of(const struct source *c, const struct chat_message *m,
                             uint32_t n_behind)
{
    const struct value out = value_list(c->pool);

    if (c->before.len > 0)
        value_list_add(c->pool, out,
                       part_of(c->pool, value_string(c->pool, c->before.data, c->before.len)));
    for (uint32_t i = 0; i <= n_behind; i++)
        add_parts(c, m + i, out);
    return out;
}

static struct value joined_content(const struct source *c, const struct chat_message *m,
                                   uint32_t n_behind)
{
    struct value out;
    struct buf text;

    buf_init(&text, CHAT_MAX_PROMPT);
    buf_add(&text, c->before.data, c->before.len);
    for (uint32_t i = 0; i <= n_behind; i++) {
        if (text.len > 0 && m[i].n_parts > 0)
            buf_add_char(&text, '\n');
        conversation_join(c->conversation, m + i, &text);
    }
    if (text.err < 0)
        c->pool->err = text.err;
    out = value_string(c->pool, text.data != NULL ? text.data : "", text.len);
    buf_release(&text);
    return out;
}

static bool is_empty_content(const struct source *c, const struct chat_message *m)
{
    for (uint32_t i = 0; i < m->n_parts; i++)
        if (c->conversation->parts[m->first_part + i][0] != '\0')
            return false;
    return true;
}

/* Makes the content of a message, with the system messages that are merged into it. A content that
 * is null or absent is empty. */
static struct value content_of(const struct source *c, const struct chat_message *m)
{
    const uint32_t n_behind = count_behind(c, m);

    if (c->caps->null_content && m->n_calls > 0 && is_empty_content(c, m))
        return value_null();
    if (c->caps->typed_content)
        return parts_of(c, m, n_behind);
    if (c->before.len == 0 && n_behind == 0 && m->n_parts <= 1)
        return text_value(c->pool, m->n_parts == 1 ? c->conversation->parts[m->first_part] : "");
    return joined_content(c, m, n_behind);
}

/* Writes an object as JSON text, {"a": 1}, spaced as Python and most models do. */
static struct value json_of(struct value_pool *pool, struct value object)
{
    const struct value_json how = {.item_separator = value_text(", "),
                                   .key_separator = value_text(": ")};
    struct value culprit, out;
    struct buf text;

    buf_init(&text, CHAT_MAX_PROMPT);
    value_to_json(object, &how, &text, &culprit); /* cannot fail: the value came as JSON */
    if (text.err < 0)
        pool->err = text.err;
    out = value_string(pool, text.data != NULL ? text.data : "", text.len);
    buf_release(&text);
    return out;
}

/* Parses arguments into an object, which most templates expect; an empty text is an empty object,
 * and any other text stays a string. */
static struct value object_of(struct value_pool *pool, const char *text)
{
    const char *why = NULL;
    cJSON *json = NULL;
    struct value out;

    if (text[0] == '\0')
        return value_dict(pool);
    if (json_parse(text, strlen(text), &json, &why) == 0 && cJSON_IsObject(json))
        out = chat_json_value(pool, json);
    else
        out = text_value(pool, text);
    cJSON_Delete(json);
    return out;
}

static struct value arguments_of(const struct source *c, const struct tool_call *call)
{
    if (!c->caps->string_arguments)
        return call->input != NULL ? chat_json_value(c->pool, call->input)
                                   : object_of(c->pool, call->arguments);
    return call->input != NULL ? json_of(c->pool, chat_json_value(c->pool, call->input))
                               : text_value(c->pool, call->arguments);
}

static void set_text(struct value_pool *pool, struct value dict, const char *name, const char *text)
{
    if (text != NULL)
        value_dict_set(pool, dict, name, text_value(pool, text));
}

/* Copies a call as it was given, with its arguments converted and `function` moved to the end. */
static struct value given_call(const struct source *c, const struct tool_call *call)
{
    struct value_pool *pool = c->pool;
    const struct value out = value_dict(pool), function = value_dict(pool);

    for (const cJSON *it = call->given->child; it != NULL; it = it->next)
        if (strcmp(it->string, "function") != 0)
            value_dict_set(pool, out, it->string, chat_json_value(pool, it));
    for (const cJSON *it = field_find(call->given, "function")->child; it != NULL; it = it->next)
        value_dict_set(pool, function, it->string,
                       strcmp(it->string, "arguments") == 0 ? arguments_of(c, call)
                                                            : chat_json_value(pool, it));
    value_dict_set(pool, out, "function", function);
    return out;
}

/* Sets the call's id, or one of nine letters and digits, because some templates accept no
 * others. */
static void set_id(const struct source *c, struct value dict, const char *name,
                   const struct tool_call *call)
{
    char id[16];

    snprintf(id, sizeof(id), "call%05u", (unsigned)(call - c->conversation->calls) % 100000);
    set_text(c->pool, dict, name, call->id != NULL ? call->id : id);
}

/* Finds the call to which a result without an id belongs: results come in the order of the
 * calls. */
static const struct tool_call *answered_call(const struct source *c, const struct chat_message *m)
{
    const struct chat_message *first = c->conversation->messages;
    uint32_t k = 0;

    for (; k < MAX_RESULTS && m > first && strcmp(m[-1].role, "tool") == 0; k++)
        m--;
    if (m == first || k >= m[-1].n_calls)
        return NULL;
    return &c->conversation->calls[m[-1].first_call + k];
}

static bool is_result_without_id(const struct source *c, const struct chat_message *m)
{
    return c->conversation->numbers_calls && m->tool_call_id == NULL &&
           strcmp(m->role, "tool") == 0;
}

static struct value call_of(const struct source *c, const struct tool_call *call)
{
    struct value out, function;

    if (call->given != NULL)
        return given_call(c, call);
    out = value_dict(c->pool);
    function = value_dict(c->pool);
    if (call->id != NULL || c->conversation->numbers_calls)
        set_id(c, out, "id", call);
    value_dict_set(c->pool, out, "type", value_text("function"));
    set_text(c->pool, function, "name", call->name);
    value_dict_set(c->pool, function, "arguments", arguments_of(c, call));
    value_dict_set(c->pool, out, "function", function);
    return out;
}

static struct value calls_of(const struct source *c, const struct chat_message *m)
{
    const struct value out = value_list(c->pool);

    for (uint32_t i = 0; i < m->n_calls; i++)
        value_list_add(c->pool, out, call_of(c, &c->conversation->calls[m->first_call + i]));
    return out;
}

/* Adds the typed members of a message: its content, which may be empty, and its calls. */
static void add_typed(const struct source *c, const struct chat_message *m, struct value out)
{
    value_dict_set(c->pool, out, "content", content_of(c, m));
    if (m->n_calls > 0)
        value_dict_set(c->pool, out, "tool_calls", calls_of(c, m));
}

/* Adds the members as they were given, except those that are typed; some templates know them.
 * Clients that send back an answer send members that are null, which count as absent. */
static void add_given(const struct source *c, const struct chat_message *m, struct value out)
{
    for (const cJSON *it = m->given->child; it != NULL; it = it->next)
        if (strcmp(it->string, "role") != 0 && strcmp(it->string, "content") != 0 &&
            strcmp(it->string, "tool_calls") != 0 && !cJSON_IsNull(it))
            value_dict_set(c->pool, out, it->string, chat_json_value(c->pool, it));
}

static struct value message_of(const struct source *c, const struct chat_message *m,
                               const char *role)
{
    const struct value out = value_dict(c->pool);

    value_dict_set(c->pool, out, "role", value_own(value_text(role)));
    add_typed(c, m, out);
    if (m->given != NULL) {
        add_given(c, m, out);
        return out;
    }
    set_text(c->pool, out, "tool_call_id", m->tool_call_id);
    if (is_result_without_id(c, m) && answered_call(c, m) != NULL)
        set_id(c, out, "tool_call_id", answered_call(c, m));
    set_text(c->pool, out, "name", m->tool_name);
    set_text(c->pool, out, "reasoning_content", m->reasoning);
    return out;
}

/* Adds the waiting system messages as a user's message of their own, because no user's message
 * follows them. */
static void add_pending(struct source *c, struct value list)
{
    const struct chat_message nothing = {.role = "user"};

    value_list_add(c->pool, list, message_of(c, &nothing, nothing.role));
    buf_clear(&c->before);
}

/* Adds a message. A system message that the template does not take waits in `before` for the user's
 * next one. */
static void add_message(struct source *c, struct value list, const struct chat_message *m,
                        bool is_late)
{
    const char *role = is_system(c, m) ? "system" : m->role;

    if (is_system(c, m) && (!c->caps->knows_system || (is_late && !c->caps->late_system))) {
        if (c->before.len > 0)
            buf_add_char(&c->before, '\n');
        conversation_join(c->conversation, m, &c->before);
        return;
    }
    if (c->before.len > 0 && strcmp(role, "user") != 0)
        add_pending(c, list);
    value_list_add(c->pool, list, message_of(c, m, role));
    buf_clear(&c->before);
}

static struct value messages_of(struct source *c)
{
    const struct value out = value_list(c->pool);
    bool is_late = false;

    buf_init(&c->before, CHAT_MAX_PROMPT);
    for (uint32_t i = 0; i < c->conversation->n_messages; i++) {
        const struct chat_message *m = &c->conversation->messages[i];

        add_message(c, out, m, is_late);
        i += count_behind(c, m);
        is_late = is_late || !is_system(c, m);
    }
    if (c->before.len > 0)
        add_pending(c, out);
    if (c->before.err < 0)
        c->pool->err = c->before.err;
    buf_release(&c->before);
    return out;
}

static void set_json(struct value_pool *pool, struct value dict, const char *name, const cJSON *v)
{
    if (v != NULL)
        value_dict_set(pool, dict, name, chat_json_value(pool, v));
}

static struct value with_description(struct value_pool *pool, const cJSON *property)
{
    const struct value out = chat_json_value(pool, property);

    if (out.kind == VALUE_DICT && field_find(property, "description") == NULL)
        value_dict_set(pool, out, "description", value_text(""));
    return out;
}

static struct value full_properties(struct value_pool *pool, const cJSON *given)
{
    const struct value out = value_dict(pool);

    for (const cJSON *it = given != NULL ? given->child : NULL; it != NULL; it = it->next)
        value_dict_set(pool, out, it->string, with_description(pool, it));
    return out;
}

/* Makes {"type": "object", "properties": {}}, overlaid with the given members. */
static struct value full_parameters(struct value_pool *pool, const cJSON *given)
{
    const struct value out = value_dict(pool);

    value_dict_set(pool, out, "type", value_text("object"));
    value_dict_set(pool, out, "properties", value_dict(pool));
    for (const cJSON *it = cJSON_IsObject(given) ? given->child : NULL; it != NULL; it = it->next)
        value_dict_set(pool, out, it->string,
                       strcmp(it->string, "properties") == 0 && cJSON_IsObject(it)
                           ? full_properties(pool, it)
                           : chat_json_value(pool, it));
    return out;
}

/* Appends the description and parameters that a function lacks. */
static void fill_function(struct value_pool *pool, struct value function)
{
    if (value_dict_get(function, "description", strlen("description")) == NULL)
        value_dict_set(pool, function, "description", value_text(""));
    if (value_dict_get(function, "parameters", strlen("parameters")) == NULL)
        value_dict_set(pool, function, "parameters", full_parameters(pool, NULL));
}

static struct value function_of(const struct source *c, const struct tool *tool)
{
    const cJSON *given = tool->given != NULL ? field_find(tool->given, "function") : NULL;
    const cJSON *parameters = tool->shown != NULL ? tool->shown : tool->parameters;
    const struct value out = value_dict(c->pool);

    for (const cJSON *it = given != NULL ? given->child : NULL; it != NULL; it = it->next)
        if (!cJSON_IsNull(it))
            value_dict_set(c->pool, out, it->string, chat_json_value(c->pool, it));
    if (given == NULL) {
        set_text(c->pool, out, "name", tool->name);
        set_json(c->pool, out, "description", tool->description);
        set_json(c->pool, out, "parameters", parameters);
        set_json(c->pool, out, "strict", tool->strict);
    }
    if (c->caps->full_tools && parameters != NULL)
        value_dict_set(c->pool, out, "parameters", full_parameters(c->pool, parameters));
    if (c->caps->full_tools)
        fill_function(c->pool, out);
    return out;
}

static struct value tool_of(const struct source *c, const struct tool *tool)
{
    const struct value out = value_dict(c->pool);

    if (tool->given != NULL)
        for (const cJSON *it = tool->given->child; it != NULL; it = it->next)
            value_dict_set(c->pool, out, it->string,
                           strcmp(it->string, "function") == 0 ? function_of(c, tool)
                                                               : chat_json_value(c->pool, it));
    else {
        value_dict_set(c->pool, out, "type", value_text("function"));
        value_dict_set(c->pool, out, "function", function_of(c, tool));
    }
    return out;
}

static struct value tools_of(const struct source *c, const struct params *p)
{
    struct value out;

    if (p->chat.n_tools == 0 || p->tool_choice == TOOL_CHOICE_NONE)
        return value_null();
    out = value_list(c->pool);
    for (uint32_t i = 0; i < p->chat.n_tools; i++)
        value_list_add(c->pool, out, tool_of(c, &p->chat.tools[i]));
    return out;
}

enum thinking_word { SAID_NOTHING = 0, SAID_ON, SAID_OFF };

static enum thinking_word word_of(bool is_on)
{
    return is_on ? SAID_ON : SAID_OFF;
}

/* Finds the switch in the kwargs; templates call it by either name. */
static enum thinking_word word_of_kwargs(const cJSON *kwargs)
{
    static const char *const names[] = {"enable_thinking", "thinking"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (cJSON_IsBool(field_find(kwargs, names[i])))
            return word_of(cJSON_IsTrue(field_find(kwargs, names[i])));
    return SAID_NOTHING;
}

/* Finds whether thinking was switched on or off: first in the request's fields, then in the
 * settings. */
static enum thinking_word find_word(const struct params *p)
{
    const enum thinking_word by_name = word_of_kwargs(p->template_kwargs);

    if (by_name != SAID_NOTHING)
        return by_name;
    if (p->thinking != THINKING_UNSET)
        return word_of(p->thinking == THINKING_ON);
    if (p->reasoning_effort != NULL)
        return word_of(strcmp(p->reasoning_effort, "none") != 0);
    if (p->default_thinking != THINKING_UNSET)
        return word_of(p->default_thinking == THINKING_ON);
    return word_of_kwargs(p->default_kwargs);
}

bool chat_wants_thoughts(const struct params *p)
{
    return find_word(p) != SAID_OFF;
}

static void add_kwargs(struct value_pool *pool, struct value out, const cJSON *kwargs)
{
    for (const cJSON *it = kwargs != NULL ? kwargs->child : NULL; it != NULL; it = it->next)
        value_dict_set(pool, out, it->string, chat_json_value(pool, it));
}

static void add_thinking(struct value_pool *pool, struct value out, const struct params *p,
                         const struct chat_caps *caps)
{
    const char *effort = p->reasoning_effort;

    add_kwargs(pool, out, p->default_kwargs);
    if (effort != NULL && (strcmp(effort, "none") != 0 || !caps->refuses_none))
        value_dict_set(pool, out, "reasoning_effort", value_own(value_text(effort)));
    value_dict_set(pool, out, "enable_thinking", value_bool(chat_wants_thoughts(p)));
    if (find_word(p) != SAID_NOTHING) /* else the template's own default holds */
        value_dict_set(pool, out, "thinking", value_bool(chat_wants_thoughts(p)));
    add_kwargs(pool, out, p->template_kwargs);
}

static struct value token_value(struct chat_text text)
{
    return value_own(value_borrow(text.bytes, text.n));
}

struct value chat_values(struct value_pool *pool, const struct params *p,
                         const struct chat_tokens *tokens, const struct chat_caps *caps)
{
    struct source c = {.pool = pool, .conversation = &p->chat, .caps = caps};
    const struct value out = value_dict(pool);
    struct value tools;

    add_thinking(pool, out, p, caps);
    value_dict_set(pool, out, "messages", messages_of(&c));
    tools = tools_of(&c, p);
    if (tools.kind != VALUE_NULL || !caps->no_tools_unset)
        value_dict_set(pool, out, "tools", tools);
    value_dict_set(pool, out, "documents", value_null());
    value_dict_set(pool, out, "add_generation_prompt",
                   value_bool(p->add_generation_prompt && !p->continue_final_message));
    value_dict_set(pool, out, "bos_token", token_value(tokens->bos));
    value_dict_set(pool, out, "eos_token", token_value(tokens->eos));
    return out;
}
