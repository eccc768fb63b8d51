/* server/api/params/params_anthropic.c - the fields that only Anthropic's Messages have.
 *
 * params_blocks.c reads the content of the messages, params_edits.c the field context_management. A
 * body may also have every field of a chat that Messages do not define otherwise.
 * https://docs.anthropic.com/en/api/messages
 */
#include "server/api/params/params_impl.h"

#include "core/base/err.h"

#include <string.h>

int params_parse_system(const struct field_args *a)
{
    const struct field_path p = field_path(a->name, -1, a->e);

    if (params_add_message(a, "system") < 0)
        return ERR_INVAL;
    return params_take_system(a, &p, "", a->v);
}

/* ---- messages ---- */

static bool is_block_type(const char *text, const char *word)
{
    return text != NULL && strcmp(text, word) == 0;
}

/* Take a system message between the others. An effort of its own would hold for its turn alone, so
 * only an empty output_config passes. */
static int take_system_turn(const struct field_args *a, const struct field_path *p,
                            const cJSON *message)
{
    const cJSON *clear_at = field_find(message, "clear_at");
    const cJSON *config = field_find(message, "output_config");

    if (config != NULL && (!cJSON_IsObject(config) || config->child != NULL))
        return field_refuse(p, "output_config",
                            "empty: only the request itself can have an output_config");
    if (clear_at != NULL && !is_block_type(cJSON_GetStringValue(clear_at), "never") &&
        !is_block_type(cJSON_GetStringValue(clear_at), "next_user_message"))
        return field_refuse(p, "clear_at", "next_user_message or never");
    if (params_add_message(a, "system") < 0)
        return ERR_INVAL;
    conversation_last(&a->p->chat)->is_passing =
        is_block_type(cJSON_GetStringValue(clear_at), "next_user_message");
    return params_take_system(a, p, "content", field_find(message, "content"));
}

static int take_turn(const struct field_args *a, const struct field_path *p, const cJSON *message)
{
    const char *role = field_text(message, "role");
    const cJSON *content = field_find(message, "content");
    bool is_open = false;
    int i = 0;

    if (params_refuse_breakpoint(a, p, message) < 0)
        return ERR_INVAL;
    if (is_block_type(role, "system"))
        return take_system_turn(a, p, message);
    if (!is_block_type(role, "user") && !is_block_type(role, "assistant"))
        return field_refuse(p, "role", "user, assistant or system");
    if (cJSON_IsString(content))
        return params_add_message(a, role) == 0 ? params_add_text(a, content->valuestring)
                                                : ERR_INVAL;
    if (!cJSON_IsArray(content))
        return field_refuse(p, "content", "a string or a list of blocks");
    for (const cJSON *it = content->child; it != NULL; it = it->next) {
        const struct field_path block = field_path_in(p, "content", i++);

        if (params_take_block(a, &block, role, it, &is_open) < 0)
            return ERR_INVAL;
    }
    return 0;
}

int params_parse_turns(const struct field_args *a)
{
    a->p->has_messages = true;
    if (!cJSON_IsArray(a->v) || a->v->child == NULL)
        return params_refuse(a, "must be a list of messages");
    if (params_take_each(a, take_turn) < 0)
        return ERR_INVAL;
    conversation_drop_passed(&a->p->chat);
    return 0;
}

/* ---- tools ---- */

/* Tools that Anthropic defines have a type and no schema: Anthropic runs some of them, and its
 * models know the parameters of the others. */
static int refuse_type(const struct field_args *a, const struct field_path *p, const char *type)
{
    return api_error_set(
        a->e, 400, p->text, NULL,
        "'%s' is a tool of the type '%.60s', which this server does not run: leave it out, or send "
        "it with a name and an input_schema and without the type",
        p->text, type);
}

int params_take_custom_tool(const struct field_args *a, const struct field_path *p, const cJSON *v)
{
    const char *type = field_text(v, "type");
    const struct tool tool = {.name = field_text(v, "name"),
                              .description = field_find(v, "description"),
                              .parameters = field_find(v, "input_schema"),
                              .strict = field_find(v, "strict"),
                              .is_hidden = cJSON_IsTrue(field_find(v, "defer_loading"))};

    if (type != NULL && strcmp(type, "custom") != 0)
        return refuse_type(a, p, type);
    if (tool.name == NULL || !cJSON_IsObject(tool.parameters))
        return api_error_set(a->e, 400, p->text, NULL, "'%s' must have a name and an input_schema",
                             p->text);
    return params_add_tool(a, p, &tool) < 0 ? ERR_INVAL : params_take_tool_breakpoint(a, p, v);
}

int params_parse_custom_tools(const struct field_args *a)
{
    return params_take_tools(a, params_take_custom_tool);
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
    const cJSON *display = field_find(a->v, "display");

    if (type == NULL || (strcmp(type, "enabled") != 0 && strcmp(type, "disabled") != 0 &&
                         strcmp(type, "adaptive") != 0))
        return api_error_set(a->e, 400, "thinking.type", NULL,
                             "'thinking.type' must be enabled, adaptive or disabled");
    if (display != NULL && !is_block_type(cJSON_GetStringValue(display), "summarized") &&
        !is_block_type(cJSON_GetStringValue(display), "omitted"))
        return api_error_set(a->e, 400, "thinking.display", NULL,
                             "'thinking.display' must be summarized or omitted");
    if (is_block_type(cJSON_GetStringValue(display), "omitted"))
        a->p->reasoning_format = REASONING_HIDDEN;
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
    if (field_find(a->v, "task_budget") != NULL)
        return api_error_set(a->e, 400, "output_config.task_budget", NULL,
                             "'output_config.task_budget' is not supported. The model does not see "
                             "a budget; use max_tokens to limit the answer");
    if (effort != NULL &&
        params_set_effort(a, "output_config.effort", cJSON_GetStringValue(effort)) < 0)
        return ERR_INVAL;
    return format != NULL ? params_set_format(a, "output_config.format", format) : 0;
}

/* output_format is the older name of output_config.format. */
int params_parse_output_format(const struct field_args *a)
{
    return params_set_format(a, a->name, a->v);
}

/* ---- the fields against each other ---- */

/* Show and hide tools as the messages say. When the last message is the assistant's, the answer
 * continues it. */
int params_settle_anthropic(struct params *p, struct api_error *e)
{
    const struct chat_message *last = conversation_last(&p->chat);
    const char *unknown = conversation_apply_changes(&p->chat);

    if (unknown != NULL)
        return api_error_set(e, 400, "tools", NULL,
                             "'tools' lacks the tool '%.100s' that a message refers to", unknown);
    if (last != NULL && strcmp(last->role, "assistant") == 0 && last->has_content &&
        last->n_calls == 0 && p->add_generation_prompt)
        p->continue_final_message = true;
    return 0;
}
