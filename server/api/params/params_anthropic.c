/* server/api/params/params_anthropic.c - the fields that only Anthropic's Messages have.
 *
 * Content blocks become the parts, calls and reasoning of messages; each tool_result is a message
 * of the role tool. Beside these fields, a body may have every field of a chat that Messages do not
 * define otherwise. https://docs.anthropic.com/en/api/messages
 */
#include "server/api/params/params_impl.h"

#include "core/base/err.h"

#include <string.h>

#define TEXT_BLOCKS "a string or a list of text blocks"

/* A string or blocks of text, to the last message. */
static int take_texts(const struct field_args *a, const struct field_path *p, const char *member,
                      const cJSON *v)
{
    if (cJSON_IsString(v))
        return params_add_text(a, v->valuestring);
    if (!cJSON_IsArray(v))
        return field_refuse(p, member, TEXT_BLOCKS);
    conversation_last(&a->p->chat)->has_content = true;
    for (const cJSON *it = v->child; it != NULL; it = it->next) {
        const char *type = field_text(it, "type"), *text = field_text(it, "text");

        if (type == NULL || strcmp(type, "text") != 0 || text == NULL)
            return field_refuse(p, member, TEXT_BLOCKS);
        if (params_add_text(a, text) < 0)
            return ERR_INVAL;
    }
    return 0;
}

int params_parse_system(const struct field_args *a)
{
    const struct field_path p = field_path(a->name, -1, a->e);

    if (params_add_message(a, "system") < 0)
        return ERR_INVAL;
    return take_texts(a, &p, "", a->v);
}

/* ---- blocks ---- */

static int take_text(const struct field_args *a, const struct field_path *p, const cJSON *block)
{
    const char *text = field_need_text(p, block, "text");

    return text != NULL ? params_add_text(a, text) : ERR_INVAL;
}

static int take_tool_use(const struct field_args *a, const struct field_path *p,
                         const cJSON *block)
{
    struct tool_call call = {.id = field_need_text(p, block, "id"),
                             .input = field_find(block, "input")};

    if (call.id == NULL)
        return ERR_INVAL;
    call.name = field_need_text(p, block, "name");
    if (call.name == NULL)
        return ERR_INVAL;
    if (!cJSON_IsObject(call.input))
        return field_refuse(p, "input", "an object");
    return params_add_call(a, &call);
}

static int take_thinking(const struct field_args *a, const struct field_path *p,
                         const cJSON *block)
{
    const char *text = field_need_text(p, block, "thinking");

    if (text == NULL)
        return ERR_INVAL;
    conversation_last(&a->p->chat)->reasoning = text;
    return 0;
}

static int take_tool_result(const struct field_args *a, const struct field_path *p,
                            const cJSON *block)
{
    const cJSON *content = field_find(block, "content");
    const char *id = field_need_text(p, block, "tool_use_id");

    if (id == NULL || params_add_message(a, "tool") < 0)
        return ERR_INVAL;
    conversation_last(&a->p->chat)->tool_call_id = id;
    return content != NULL ? take_texts(a, p, "content", content) : params_add_text(a, "");
}

static const struct block {
    const char *type, *role;
    int (*take)(const struct field_args *a, const struct field_path *p, const cJSON *block);
} blocks[] = {
    {"text", "user", take_text},           {"tool_result", "user", take_tool_result},
    {"text", "assistant", take_text},      {"tool_use", "assistant", take_tool_use},
    {"thinking", "assistant", take_thinking},
};

/* The blocks of a turn go into one message, but that a tool_result is one of its own: *is_open says
 * whether the last message is the one that the block goes into. */
static int take_block(const struct field_args *a, const struct field_path *p, const char *role,
                      const cJSON *block, bool *is_open)
{
    const char *type = field_need_text(p, block, "type");
    const struct block *b = blocks, *end = blocks + sizeof(blocks) / sizeof(blocks[0]);

    if (type == NULL)
        return ERR_INVAL;
    if (strcmp(role, "assistant") == 0 && strcmp(type, "redacted_thinking") == 0)
        return 0;
    while (b < end && (strcmp(b->role, role) != 0 || strcmp(b->type, type) != 0))
        b++;
    if (b == end)
        return field_refuse(p, "type", strcmp(role, "user") == 0
                                           ? "text or tool_result: this model takes nothing else"
                                           : "text, thinking or tool_use");
    if (b->take == take_tool_result) {
        *is_open = false;
        return take_tool_result(a, p, block);
    }
    if (!*is_open && params_add_message(a, b->role) < 0)
        return ERR_INVAL;
    *is_open = true;
    return b->take(a, p, block);
}

static int take_turn(const struct field_args *a, const struct field_path *p, const cJSON *message)
{
    const char *role = field_text(message, "role");
    const cJSON *content = field_find(message, "content");
    bool is_open = false;
    int i = 0;

    if (role == NULL || (strcmp(role, "user") != 0 && strcmp(role, "assistant") != 0))
        return field_refuse(p, "role", "user or assistant");
    if (cJSON_IsString(content))
        return params_add_message(a, role) == 0 ? params_add_text(a, content->valuestring)
                                                : ERR_INVAL;
    if (!cJSON_IsArray(content))
        return field_refuse(p, "content", "a string or a list of blocks");
    for (const cJSON *it = content->child; it != NULL; it = it->next) {
        const struct field_path block = field_path_in(p, "content", i++);

        if (take_block(a, &block, role, it, &is_open) < 0)
            return ERR_INVAL;
    }
    return 0;
}

int params_parse_turns(const struct field_args *a)
{
    a->p->has_messages = true;
    if (!cJSON_IsArray(a->v) || a->v->child == NULL)
        return params_refuse(a, "must be a list of messages");
    return params_take_each(a, take_turn);
}

/* ---- tools ---- */

static int take_tool(const struct field_args *a, const struct field_path *p, const cJSON *v)
{
    const char *type = field_text(v, "type");
    const struct tool tool = {.name = field_text(v, "name"),
                              .description = field_find(v, "description"),
                              .parameters = field_find(v, "input_schema")};

    if (type != NULL && strcmp(type, "custom") != 0)
        return api_error_set(a->e, 400, p->text, NULL, "'%s' is a tool of type '%.60s', and only "
                             "custom tools are known here", p->text, type);
    if (tool.name == NULL || !cJSON_IsObject(tool.parameters))
        return api_error_set(a->e, 400, p->text, NULL,
                             "'%s' must have a name and an input_schema", p->text);
    return params_add_tool(a, p, &tool);
}

int params_parse_custom_tools(const struct field_args *a)
{
    return params_take_tools(a, take_tool);
}

int params_parse_typed_choice(const struct field_args *a)
{
    const char *type = field_text(a->v, "type");

    if (cJSON_IsTrue(field_find(a->v, "disable_parallel_tool_use")))
        a->p->parallel_tool_calls = false;
    if (type != NULL && strcmp(type, "any") == 0)
        return params_choose_tool_by_word(a, "required");
    if (type != NULL && (strcmp(type, "auto") == 0 || strcmp(type, "none") == 0))
        return params_choose_tool_by_word(a, type);
    if (type == NULL || strcmp(type, "tool") != 0 || field_text(a->v, "name") == NULL)
        return params_refuse(a, "must have the type auto, any, none, or tool with a name");
    return params_choose_tool(a, "tool_choice.name", field_text(a->v, "name"));
}

/* ---- the rest ---- */

int params_parse_stop_sequences(const struct field_args *a)
{
    if (!cJSON_IsArray(a->v))
        return params_refuse(a, "must be a list");
    return params_parse_stop(a);
}

/* "thinking": {"type": "enabled", "budget_tokens": 2048} */
int params_parse_thinking(const struct field_args *a)
{
    const char *type = field_text(a->v, "type");
    const cJSON *budget = field_find(a->v, "budget_tokens");

    if (type == NULL || (strcmp(type, "enabled") != 0 && strcmp(type, "disabled") != 0 &&
                         strcmp(type, "adaptive") != 0))
        return api_error_set(a->e, 400, "thinking.type", NULL,
                             "'thinking.type' must be enabled, adaptive or disabled");
    a->p->thinking = strcmp(type, "disabled") == 0 ? THINKING_OFF : THINKING_ON;
    if (budget != NULL)
        return field_uint(budget, "thinking.budget_tokens", 1, UINT32_MAX - 1,
                          &a->p->thinking_budget, a->e);
    return 0;
}

/* {"effort":"high","format":{"type":"json_schema","schema":…}} */
int params_parse_output_config(const struct field_args *a)
{
    const cJSON *effort = field_find(a->v, "effort"), *format = field_find(a->v, "format");

    if (!cJSON_IsObject(a->v))
        return params_refuse(a, "must be an object");
    if (effort != NULL &&
        params_set_effort(a, "output_config.effort", cJSON_GetStringValue(effort)) < 0)
        return ERR_INVAL;
    return format != NULL ? params_set_format(a, "output_config.format", format) : 0;
}

/* Its older name. */
int params_parse_output_format(const struct field_args *a)
{
    return params_set_format(a, a->name, a->v);
}

/* Edits that leave the conversation as it is. */
int params_parse_context_management(const struct field_args *a)
{
    const cJSON *edits = field_find(a->v, "edits");

    if (!cJSON_IsObject(a->v) || (edits != NULL && !cJSON_IsArray(edits)))
        return params_refuse(a, "must be an object with a list of edits");
    for (const cJSON *it = edits != NULL ? edits->child : NULL; it != NULL; it = it->next) {
        const char *type = field_text(it, "type"), *keep = field_text(it, "keep");

        if (type == NULL || strncmp(type, "clear_thinking_", strlen("clear_thinking_")) != 0 ||
            keep == NULL || strcmp(keep, "all") != 0)
            return params_refuse(a, "is not supported, but for edits that keep all thoughts");
    }
    return 0;
}
