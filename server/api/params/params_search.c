/* server/api/params/params_search.c - tools that are found when they are needed.
 *
 * The tool tool_search of OpenAI's Responses, where the client itself searches, is a function to
 * the model. Tools with defer_loading are not offered, but its description names them. An item
 * tool_search_output brings the definitions of the tools that were found; an item additional_tools
 * brings other tools.
 * https://developers.openai.com/api/docs/guides/tools-tool-search
 */
#include "server/api/params/params_impl.h"

#include "core/base/err.h"

#include <stdio.h>
#include <string.h>

#define MAX_TEXT                                                                                   \
    ((size_t)64 << 20) /* bytes; composed texts are bounded by the body they come from */
#define DESCRIPTION "Loads tools by their names, or by those of their namespaces."

static const cJSON *keep_json(const struct field_args *a, cJSON *value)
{
    const cJSON *kept = conversation_keep(&a->p->chat, value);

    if (kept == NULL)
        (void)api_error_no_memory(a->e);
    return kept;
}

/* The default parameters, {"paths":[…]}, are those of OpenAI's own search. */
static const cJSON *paths_schema(const struct field_args *a)
{
    static const char text[] = "{\"type\":\"object\",\"properties\":{\"paths\":{\"type\":\"array\","
                               "\"items\":{\"type\":\"string\"}}},\"required\":[\"paths\"],"
                               "\"additionalProperties\":false}";

    return keep_json(a, cJSON_Parse(text));
}

int params_take_search(const struct field_args *a, const struct field_path *p, const cJSON *v)
{
    const char *execution = field_text(v, "execution");
    struct tool tool = {.name = PARAMS_SEARCH_TOOL,
                        .description = field_find(v, "description"),
                        .parameters = field_find(v, "parameters"),
                        .is_search = true};

    if (execution == NULL || strcmp(execution, "client") != 0)
        return field_refuse(p, "execution",
                            "client: this server does not search tools itself. Without tool_search "
                            "and defer_loading the model sees all tools");
    if (tool.description == NULL)
        tool.description = keep_json(a, cJSON_CreateString(DESCRIPTION));
    if (tool.parameters == NULL)
        tool.parameters = paths_schema(a);
    return tool.description != NULL && tool.parameters != NULL ? params_add_tool(a, p, &tool)
                                                               : ERR_NOMEM;
}

/* ---- tools that an item brings ---- */

int params_take_more_tools(const struct field_args *a, const struct field_path *p,
                           const cJSON *item)
{
    const cJSON *tools = field_find(item, "tools"), *it;
    const uint32_t first = a->p->chat.n_tools;
    int i = 0;

    if (!cJSON_IsArray(tools))
        return field_refuse(p, "tools", "a list of tools");
    cJSON_ArrayForEach(it, tools)
    {
        const struct field_path in = field_path_in(p, "tools", i++);

        if (params_take_flat_tool(a, &in, it) < 0)
            return ERR_INVAL;
    }
    for (uint32_t k = first; k < a->p->chat.n_tools; k++)
        a->p->chat.tools[k].is_late = true;
    return 0;
}

int params_tell_found(const struct field_args *a, uint32_t first)
{
    struct buf text;

    buf_init(&text, MAX_TEXT);
    buf_add_str(&text, "{\"tools\":[");
    for (uint32_t i = first; i < a->p->chat.n_tools; i++) {
        buf_add_str(&text, i > first ? "," : "");
        json_add_cstring(&text, a->p->chat.tools[i].name);
    }
    buf_add_str(&text, "]}");
    return conversation_add_composed(&a->p->chat, &text) == 0 ? 0 : api_error_no_memory(a->e);
}

/* ---- deferred tools ---- */

/* True: both tools are in one namespace. */
static bool share_space(const struct tool *a, const struct tool *b)
{
    return a->n_space > 0 && a->n_space == b->n_space && memcmp(a->name, b->name, a->n_space) == 0;
}

/* Append a line for each deferred function, or one for all of a namespace. */
static void list_deferred(const struct conversation *c, struct buf *out)
{
    const struct tool *last = NULL;

    for (uint32_t i = 0; i < c->n_tools; i++) {
        const struct tool *tool = &c->tools[i];
        const char *says =
            tool->n_space > 0 ? tool->intro : cJSON_GetStringValue(tool->description);

        if (!tool->is_deferred || (last != NULL && share_space(last, tool)))
            continue;
        last = tool;
        buf_add_str(out, "\n- ");
        buf_add(out, tool->name, tool->n_space > 0 ? tool->n_space : strlen(tool->name));
        if (says != NULL)
            buf_printf(out, ": %s", says);
    }
}

static int describe_search(const struct field_args *a, struct tool *search)
{
    const char *own = cJSON_GetStringValue(search->description);
    const cJSON *kept;
    struct buf text;

    buf_init(&text, MAX_TEXT);
    buf_printf(&text, "%s\n\nTools to be found:", own != NULL ? own : DESCRIPTION);
    list_deferred(&a->p->chat, &text);
    kept = keep_json(
        a, text.err == 0 && buf_add_char(&text, '\0') == 0 ? cJSON_CreateString(text.data) : NULL);
    buf_release(&text);
    search->description = kept;
    return kept != NULL ? 0 : ERR_NOMEM;
}

/* The first tool of each namespace says what the namespace is for. */
static int introduce_spaces(const struct field_args *a)
{
    struct conversation *c = &a->p->chat;

    for (uint32_t i = 0; i < c->n_tools; i++)
        if (i == 0 || !share_space(&c->tools[i - 1], &c->tools[i]))
            if (params_introduce_tool(a, &c->tools[i], c->tools[i].intro) < 0)
                return ERR_NOMEM;
    return 0;
}

int params_settle_search(struct params *p, struct api_error *e)
{
    const struct field_args a = {.name = "tools", .p = p, .e = e};
    struct tool *search = NULL;
    bool has_deferred = false;
    uint32_t n_named = 0;

    for (uint32_t i = 0; i < p->chat.n_tools; i++) {
        if (p->chat.tools[i].is_search)
            search = &p->chat.tools[i];
        has_deferred = has_deferred || p->chat.tools[i].is_deferred;
        n_named += strcmp(p->chat.tools[i].name, PARAMS_SEARCH_TOOL) == 0;
    }
    if (search != NULL && n_named > 1)
        return params_refuse(&a,
                             "must have at most one tool_search, and no function with this name");
    if (has_deferred && search == NULL)
        return params_refuse(
            &a,
            "with defer_loading require a tool of the type tool_search with the execution client");
    if (has_deferred && describe_search(&a, search) < 0)
        return ERR_NOMEM;
    for (uint32_t i = 0; i < p->chat.n_tools; i++)
        p->chat.tools[i].is_hidden = p->chat.tools[i].is_deferred;
    conversation_drop_hidden(&p->chat);
    return introduce_spaces(&a);
}
