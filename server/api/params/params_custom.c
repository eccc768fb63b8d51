/* server/api/params/params_custom.c - OpenAI's custom tools, and the names of tools in namespaces.
 *
 * A custom tool takes a text instead of JSON. The chat template sees a function with one string,
 * `input`, for models have learned to call functions; struct tool says that the client did not ask
 * for a function. A regular expression for the text is the pattern of that string, and makes the
 * function a strict one; a grammar in Lark is translated to one (lark_pattern.h).
 *
 * Source: CustomTool and CustomToolInputFormat of OpenAI's API.
 */
#include "server/api/params/params_impl.h"

#include "core/base/buf.h"
#include "core/base/err.h"
#include "server/api/params/lark_pattern.h"

#include <string.h>

#define MAX_TEXT (SIZE_MAX / 2) /* composed texts are bounded by the body they come from */

/* Keep a value for the conversation. NULL: there was no memory, and *a->e says so. */
static const cJSON *keep(const struct field_args *a, cJSON *value)
{
    const cJSON *kept = conversation_keep(&a->p->chat, value);

    if (kept == NULL)
        (void)api_error_no_memory(a->e);
    return kept;
}

/* Keep the composed text as a value of the conversation. NULL as in keep(). */
static const cJSON *keep_string(const struct field_args *a, struct buf *text)
{
    const bool is_whole = text->err == 0 && buf_add_char(text, '\0') == 0;
    const cJSON *kept = keep(a, is_whole ? cJSON_CreateString(text->data) : NULL);

    buf_release(text);
    return kept;
}

static const char *keep_text(const struct field_args *a, struct buf *text)
{
    return cJSON_GetStringValue(keep_string(a, text));
}

const char *params_name_within(const struct field_args *a, const char *space, const char *name)
{
    struct buf text;

    if (space == NULL)
        return name;
    buf_init(&text, MAX_TEXT);
    buf_printf(&text, "%s.%s", space, name);
    return keep_text(a, &text);
}

/* ---- a tool ---- */

/* Make a pattern that the whole text must match: the group keeps the expression's alternatives
 * together. */
static const char *whole_pattern(const struct field_args *a, const char *regex)
{
    struct buf text;

    buf_init(&text, MAX_TEXT);
    buf_printf(&text, "^(?:%s)$", regex);
    return keep_text(a, &text);
}

/* {"type":"object","properties":{"input":{"type":"string"}},"required":["input"],…} */
static const cJSON *input_schema(const struct field_args *a, const char *pattern)
{
    cJSON *schema, *input;

    json_watch();
    schema = cJSON_CreateObject();
    cJSON_AddStringToObject(schema, "type", "object");
    input = cJSON_AddObjectToObject(cJSON_AddObjectToObject(schema, "properties"), "input");
    cJSON_AddStringToObject(input, "type", "string");
    if (pattern != NULL)
        cJSON_AddStringToObject(input, "pattern", pattern);
    json_put(cJSON_AddArrayToObject(schema, "required"), NULL, cJSON_CreateString("input"));
    cJSON_AddFalseToObject(schema, "additionalProperties");
    if (json_is_incomplete()) {
        cJSON_Delete(schema);
        schema = NULL;
    }
    return keep(a, schema);
}

/* Translate the grammar to a regular expression; the model is shown the grammar as it was given. */
static int take_lark(const struct field_args *a, const char *definition, struct tool *tool)
{
    char why[120] = "";
    struct buf text;
    int rc;

    buf_init(&text, LARK_MAX_PATTERN);
    rc = lark_pattern(definition, &text, why, sizeof(why));
    tool->lark = definition;
    if (rc == 0) {
        tool->pattern = keep_text(a, &text);
        return tool->pattern != NULL ? 0 : ERR_NOMEM;
    }
    buf_release(&text);
    if (rc == ERR_NOMEM)
        return api_error_no_memory(a->e);
    return api_error_set(a->e, 400, tool->pattern_field, NULL,
                         "'%s' cannot be used: %s. Use the syntax regex, or the format text",
                         tool->pattern_field, why);
}

/* {"syntax":"regex" or "lark","definition":…} */
static int take_grammar(const struct field_args *a, const struct field_path *p,
                        const cJSON *grammar, struct tool *tool)
{
    const char *syntax = field_need_text(p, grammar, "syntax");
    struct buf field;

    if (syntax == NULL)
        return ERR_INVAL;
    if (strcmp(syntax, "regex") != 0 && strcmp(syntax, "lark") != 0)
        return field_refuse(p, "syntax", "regex or lark");
    tool->pattern = field_need_text(p, grammar, "definition");
    if (tool->pattern == NULL)
        return ERR_INVAL;
    buf_init(&field, MAX_TEXT);
    buf_printf(&field, "%s.definition", p->text);
    tool->pattern_field = keep_text(a, &field);
    tool->strict = keep(a, cJSON_CreateTrue());
    if (tool->pattern_field == NULL || tool->strict == NULL)
        return ERR_NOMEM;
    return strcmp(syntax, "lark") == 0 ? take_lark(a, tool->pattern, tool) : 0;
}

/* Take the member `format`. In chats the grammar is an object of its own within it. */
static int take_format(const struct field_args *a, const struct field_path *p, const cJSON *format,
                       struct tool *tool)
{
    const struct field_path in = field_path_in(p, "format", -1);
    const struct field_path deeper = field_path_in(&in, "grammar", -1);
    const bool is_flat = a->p->form == PARAMS_RESPONSES;
    const char *type = field_text(format, "type");

    if (format == NULL || (type != NULL && strcmp(type, "text") == 0))
        return 0;
    if (type == NULL || strcmp(type, "grammar") != 0)
        return field_refuse(&in, "type", "text or grammar");
    return is_flat ? take_grammar(a, &in, format, tool)
                   : take_grammar(a, &deeper, field_find(format, "grammar"), tool);
}

static int describe_grammar(const struct field_args *a, struct tool *tool)
{
    const char *own = cJSON_GetStringValue(tool->description);
    struct buf text;

    buf_init(&text, MAX_TEXT);
    buf_printf(&text, "%s%sThe input must match this grammar, in Lark:\n%s", own != NULL ? own : "",
               own != NULL ? "\n\n" : "", tool->lark);
    tool->description = keep_string(a, &text);
    return tool->description != NULL ? 0 : ERR_NOMEM;
}

/* Make the function that the model sees and is held to. A grammar in Lark stands in its
 * description, because the expression made of it is unreadable. */
static int make_function(const struct field_args *a, struct tool *tool)
{
    const char *pattern = NULL;

    if (tool->pattern != NULL) {
        pattern = whole_pattern(a, tool->pattern);
        if (pattern == NULL)
            return ERR_NOMEM;
    }
    tool->parameters = input_schema(a, pattern);
    if (tool->parameters == NULL || tool->lark == NULL)
        return tool->parameters != NULL ? 0 : ERR_NOMEM;
    tool->shown = input_schema(a, NULL);
    return tool->shown != NULL ? describe_grammar(a, tool) : ERR_NOMEM;
}

int params_add_custom(const struct field_args *a, const struct field_path *p, const cJSON *v,
                      const char *space)
{
    struct tool tool = {.is_custom = true,
                        .is_deferred = a->p->form == PARAMS_RESPONSES &&
                                       cJSON_IsTrue(field_find(v, "defer_loading")),
                        .description = field_find(v, "description")};
    const char *name = field_need_text(p, v, "name");

    if (name == NULL || take_format(a, p, field_find(v, "format"), &tool) < 0)
        return ERR_INVAL;
    tool.name = params_name_within(a, space, name);
    tool.n_space = space != NULL ? (uint32_t)strlen(space) : 0;
    if (tool.name == NULL || make_function(a, &tool) < 0)
        return ERR_NOMEM;
    return params_add_tool(a, p, &tool);
}

int params_introduce_tool(const struct field_args *a, struct tool *tool, const char *intro)
{
    const char *own = cJSON_GetStringValue(tool->description);
    struct buf text;

    if (intro == NULL || intro[0] == '\0')
        return 0;
    buf_init(&text, MAX_TEXT);
    buf_printf(&text, own != NULL ? "%s\n\n%s" : "%s", intro, own);
    tool->description = keep_string(a, &text);
    return tool->description != NULL ? 0 : ERR_NOMEM;
}

/* ---- a call in the history ---- */

int params_add_custom_call(const struct field_args *a, const struct field_path *p, const cJSON *v,
                           struct tool_call *call)
{
    const char *text;
    cJSON *input;

    text = field_need_text(p, v, "input");
    if (text == NULL)
        return ERR_INVAL;
    json_watch();
    input = cJSON_CreateObject();
    cJSON_AddStringToObject(input, "input", text);
    if (json_is_incomplete()) {
        cJSON_Delete(input);
        input = NULL;
    }
    call->input = keep(a, input);
    return call->input != NULL ? params_add_call(a, call) : ERR_NOMEM;
}
