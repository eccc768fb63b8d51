/* server/api/params/params_responses.c - the fields that only OpenAI's Responses have.
 *
 * Instructions become a system message, and tools join those of the conversation; params_items.c
 * reads the input. A body may also have every field of a chat that Responses do not define
 * otherwise.
 * https://platform.openai.com/docs/api-reference/responses
 */
#include "server/api/params/params_impl.h"

#include "core/base/err.h"

#include <stdio.h>
#include <string.h>

int params_parse_instructions(const struct field_args *a)
{
    if (!cJSON_IsString(a->v))
        return params_refuse(a, "must be a string");
    return params_add_message(a, "system") == 0 ? params_add_text(a, a->v->valuestring) : ERR_INVAL;
}

/* ---- tools and formats ---- */

static int take_function(const struct field_args *a, const struct field_path *p, const cJSON *v,
                         const char *space)
{
    const char *name = field_need_text(p, v, "name");
    struct tool tool = {.description = field_find(v, "description"),
                        .parameters = field_find(v, "parameters"),
                        .strict = field_find(v, "strict"),
                        .is_deferred = cJSON_IsTrue(field_find(v, "defer_loading")),
                        .n_space = space != NULL ? (uint32_t)strlen(space) : 0};

    tool.name = name != NULL ? params_name_within(a, space, name) : NULL;
    return tool.name != NULL ? params_add_tool(a, p, &tool) : ERR_INVAL;
}

/* The model calls each tool itself: no programs call tools here. */
static int check_callers(const struct field_path *p, const cJSON *v)
{
    const cJSON *callers = field_find(v, "allowed_callers"), *it;

    if (callers == NULL)
        return 0;
    cJSON_ArrayForEach(it, callers)
    {
        if (cJSON_IsString(it) && strcmp(it->valuestring, "direct") == 0)
            return 0;
    }
    return field_refuse(
        p, "allowed_callers",
        "a list with direct: this server does not support programmatic tool calling");
}

static int take_member(const struct field_args *a, const struct field_path *p, const cJSON *v,
                       const char *space)
{
    const char *type = field_text(v, "type");

    if (check_callers(p, v) < 0)
        return ERR_INVAL;
    if (type != NULL && strcmp(type, "function") == 0)
        return take_function(a, p, v, space);
    if (type != NULL && strcmp(type, "custom") == 0)
        return params_add_custom(a, p, v, space);
    return field_refuse(p, "type", "function or custom");
}

/* {"name":…,"description":…,"tools":[…]}: the model sees each tool under the name
 * NAMESPACE.NAME. */
static int take_namespace(const struct field_args *a, const struct field_path *p, const cJSON *v)
{
    const char *space = field_need_text(p, v, "name");
    const cJSON *tools = field_find(v, "tools"), *it;
    const uint32_t first = a->p->chat.n_tools;
    int i = 0;

    if (space == NULL)
        return ERR_INVAL;
    if (strlen(space) > PARAMS_MAX_TOOL_NAME) /* it is copied for each of the tools */
        return field_refuse(p, "name", "1 to 128 letters, digits, underscores, dots and dashes");
    if (!cJSON_IsArray(tools) || tools->child == NULL)
        return field_refuse(p, "tools", "a list of tools");
    cJSON_ArrayForEach(it, tools)
    {
        const struct field_path in = field_path_in(p, "tools", i++);

        if (take_member(a, &in, it, space) < 0)
            return ERR_INVAL;
    }
    for (uint32_t k = first; k < a->p->chat.n_tools; k++)
        a->p->chat.tools[k].intro = field_text(v, "description");
    return 0;
}

int params_take_flat_tool(const struct field_args *a, const struct field_path *p, const cJSON *v)
{
    const char *type = field_text(v, "type");

    if (type == NULL)
        return field_refuse(p, "type", "a string");
    if (strcmp(type, "namespace") == 0)
        return take_namespace(a, p, v);
    if (strcmp(type, "tool_search") == 0)
        return params_take_search(a, p, v);
    if (strcmp(type, "function") == 0 || strcmp(type, "custom") == 0)
        return take_member(a, p, v, NULL);
    return 0; /* a tool of OpenAI's own is left out; the answer warns of it */
}

int params_parse_flat_tools(const struct field_args *a)
{
    return params_take_tools(a, params_take_flat_tool);
}

int params_parse_flat_choice(const struct field_args *a)
{
    return params_choose_either(a, "tool_choice.name", true);
}

/* Read a member that must be one of the words (*which is its index) or absent (-1). ERR_INVAL
 * else. */
static int take_word(const struct field_args *a, const char *member, const char *const *words,
                     int n, int *which)
{
    const cJSON *v = field_find(a->v, member);
    char name[64];

    *which = -1;
    for (int i = 0; v != NULL && i < n; i++)
        if (cJSON_IsString(v) && strcmp(v->valuestring, words[i]) == 0)
            *which = i;
    if (v == NULL || *which >= 0)
        return 0;
    snprintf(name, sizeof(name), "%s.%s", a->name, member);
    return api_error_set(a->e, 400, name, NULL, "'%s' must be %s%s%s%s%s", name, words[0],
                         n > 2 ? ", " : "", n > 2 ? words[1] : "", n > 1 ? " or " : "",
                         n > 1 ? words[n - 1] : "");
}

/* {"format":{"type":"json_schema","name":…,"schema":…}} */
int params_parse_text(const struct field_args *a)
{
    static const char *const verbosities[] = {"low", "medium", "high"};
    const cJSON *format = field_find(a->v, "format");
    int which;

    if (take_word(a, "verbosity", verbosities, 3, &which) < 0) /* the answer warns of it */
        return ERR_INVAL;
    return format != NULL ? params_set_format(a, "text.format", format) : 0;
}

/* Drop the thoughts of turns before the last one. */
static void drop_old_thoughts(struct conversation *c)
{
    uint32_t last = c->n_messages;

    while (last > 0 && strcmp(c->messages[last - 1].role, "user") != 0)
        last--;
    for (uint32_t i = 0; i < last; i++)
        c->messages[i].reasoning = NULL;
}

int params_parse_reasoning(const struct field_args *a)
{
    static const char *const contexts[] = {"current_turn", "auto", "all_turns"};
    static const char *const modes[] = {"standard"};
    const cJSON *effort = field_find(a->v, "effort");
    int context, mode;

    if (take_word(a, "context", contexts, 3, &context) < 0 ||
        take_word(a, "mode", modes, 1, &mode) < 0)
        return ERR_INVAL;
    if (context == 0)
        drop_old_thoughts(&a->p->chat);
    if (effort == NULL)
        return 0;
    return params_set_effort(a, "reasoning.effort", cJSON_GetStringValue(effort));
}

/* "auto": an input that is too long loses its oldest items; "disabled": it is refused. */
int params_parse_truncation(const struct field_args *a)
{
    const char *word = cJSON_GetStringValue(a->v);

    a->p->drops_messages = word != NULL && strcmp(word, "auto") == 0;
    if (a->p->drops_messages || (word != NULL && strcmp(word, "disabled") == 0))
        return 0;
    return params_refuse(a, "must be auto or disabled");
}
