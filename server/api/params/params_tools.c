/* server/api/params/params_tools.c - the tools of a chat and the choice among them. A forced call
 * becomes a constraint: the JSON Schema of the named function's arguments, or of a list of calls of
 * any tool. */
#include "server/api/params/params_impl.h"

#include "core/base/err.h"

#include <stdio.h>
#include <string.h>

#define MAX_TOOLS 1024

/* ---- tools ---- */

int params_add_tool(const struct field_args *a, const struct field_path *p, const struct tool *tool)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789_-.";
    const size_t n = strlen(tool->name);

    if (n == 0 || n > PARAMS_MAX_TOOL_NAME || strspn(tool->name, letters) != n)
        return field_refuse(p, "name", "1 to 128 letters, digits, underscores, dots and dashes");
    if (tool->parameters != NULL && !cJSON_IsObject(tool->parameters))
        return field_refuse(p, "parameters", "a JSON schema");
    if (a->p->chat.n_tools == MAX_TOOLS)
        return params_refuse(a, "must hold at most %d tools", MAX_TOOLS);
    return conversation_add_tool(&a->p->chat, tool) == 0 ? 0 : api_error_no_memory(a->e);
}

static int take_custom(const struct field_args *a, const struct field_path *p, const cJSON *tool)
{
    const struct field_path in = field_path_in(p, "custom", -1);
    const cJSON *custom = field_find(tool, "custom");

    return cJSON_IsObject(custom) ? params_add_custom(a, &in, custom, NULL)
                                  : field_refuse(p, "custom", "an object");
}

static int take_tool(const struct field_args *a, const struct field_path *p, const cJSON *tool)
{
    const char *type = field_text(tool, "type");
    const cJSON *function = field_find(tool, "function");
    const struct field_path in = field_path_in(p, "function", -1);
    struct tool out = {.given = tool,
                       .parameters = field_find(function, "parameters"),
                       .strict = field_find(function, "strict")};

    if (!cJSON_IsObject(tool))
        return field_refuse(p, "", "an object");
    if (a->p->form == PARAMS_CHAT && type != NULL && strcmp(type, "custom") == 0)
        return take_custom(a, p, tool);
    if (type == NULL || strcmp(type, "function") != 0)
        return field_refuse(
            p, "type", a->p->form == PARAMS_CHAT ? "\"function\" or \"custom\"" : "\"function\"");
    if (!cJSON_IsObject(function))
        return field_refuse(p, "function", "an object");
    out.name = field_need_text(&in, function, "name");
    return out.name != NULL ? params_add_tool(a, &in, &out) : ERR_INVAL;
}

int params_take_tools(const struct field_args *a,
                      int (*take)(const struct field_args *a, const struct field_path *p,
                                  const cJSON *tool))
{
    if (!cJSON_IsArray(a->v))
        return params_refuse(a, "must be a list");
    return params_take_each(a, take);
}

int params_parse_tools(const struct field_args *a)
{
    return params_take_tools(a, take_tool);
}

/* ---- OpenAI's older shape ---- */

static int take_function(const struct field_args *a, const struct field_path *p,
                         const cJSON *function)
{
    const struct tool out = {.name = field_need_text(p, function, "name"),
                             .description = field_find(function, "description"),
                             .parameters = field_find(function, "parameters")};

    return out.name != NULL ? params_add_tool(a, p, &out) : ERR_INVAL;
}

/* Take `functions`, OpenAI's older form; an answer then has one call at most. */
int params_parse_functions(const struct field_args *a)
{
    if (a->p->chat.n_tools > 0)
        return params_refuse(a, "and 'tools' cannot be used together");
    if (params_take_tools(a, take_function) < 0)
        return ERR_INVAL;
    a->p->has_functions = a->p->chat.n_tools > 0;
    return 0;
}

int params_parse_function_call(const struct field_args *a)
{
    if (!a->p->has_functions)
        return params_refuse(a, "is only allowed with 'functions'");
    if (cJSON_IsObject(a->v))
        return params_choose_tool(a, "function_call.name", field_text(a->v, "name"));
    if (cJSON_IsString(a->v) && strcmp(a->v->valuestring, "required") != 0)
        return params_choose_tool_by_word(a, a->v->valuestring);
    return params_refuse(a, "must be auto, none or name a function");
}

/* ---- the choice ---- */

int params_choose_tool(const struct field_args *a, const char *field, const char *name)
{
    if (name == NULL || strlen(name) > PARAMS_MAX_TOOL_NAME)
        return api_error_set(a->e, 400, field, NULL, "'%s' must be the name of a tool", field);
    a->p->tool_choice = TOOL_CHOICE_NAMED;
    snprintf(a->p->tool_name, sizeof(a->p->tool_name), "%s", name);
    return 0;
}

int params_choose_tool_by_word(const struct field_args *a, const char *word)
{
    static const char *const words[] = {"auto", "none", "required"};

    for (int i = 0; word != NULL && i < 3; i++)
        if (strcmp(word, words[i]) == 0) {
            a->p->tool_choice = (enum tool_choice)i;
            return 0;
        }
    return params_refuse(a, "must be auto, none, required or name a function");
}

/* Refuse a member: chats have it within allowed_tools, Responses (is_flat) beside the type. */
static int refuse_allowed(const struct field_args *a, bool is_flat, const char *member,
                          const char *why)
{
    char name[64];

    snprintf(name, sizeof(name), "tool_choice.%s%s", is_flat ? "" : "allowed_tools.", member);
    return api_error_set(a->e, 400, name, NULL, "'%s' must be %s", name, why);
}

/* Find the object with the name of a function or custom tool: v itself if flat, else its member
 * that is called as the type. NULL: v is neither. */
static const cJSON *named_part(const cJSON *v, bool is_flat)
{
    const char *type = field_text(v, "type");

    if (type != NULL && strcmp(type, "custom") == 0)
        return is_flat ? v : field_find(v, "custom");
    if (type != NULL && strcmp(type, "function") != 0)
        return NULL;
    return is_flat ? v : field_find(v, "function");
}

/* The name under which the model sees the tool that v names; NULL: v names none. */
static const char *seen_name(const struct field_args *a, const cJSON *v, bool is_flat)
{
    const char *name = field_text(named_part(v, is_flat), "name");

    return name != NULL && is_flat ? params_name_within(a, field_text(v, "namespace"), name) : name;
}

static struct tool *find_named(const struct field_args *a, const cJSON *v, bool is_flat)
{
    const char *type = field_text(v, "type");
    const bool is_search = is_flat && type != NULL && strcmp(type, PARAMS_SEARCH_TOOL) == 0;
    const char *name = is_search ? type : seen_name(a, v, is_flat);

    return name != NULL ? conversation_tool(&a->p->chat, name) : NULL;
}

/* {"mode":…,"tools":[…]}: these tools stay, and the model does not see the others. A tool is named
 * in the form of the body's `tools`: within "function", or flat. */
static int take_allowed(const struct field_args *a, const cJSON *allowed, bool is_flat)
{
    const cJSON *tools = field_find(allowed, "tools"), *it;
    const char *mode = field_text(allowed, "mode");

    if (mode == NULL || (strcmp(mode, "auto") != 0 && strcmp(mode, "required") != 0))
        return refuse_allowed(a, is_flat, "mode", "auto or required");
    if (!cJSON_IsArray(tools) || tools->child == NULL)
        return refuse_allowed(a, is_flat, "tools", "a list of tools");
    for (uint32_t i = 0; i < a->p->chat.n_tools; i++)
        a->p->chat.tools[i].is_hidden = true;
    cJSON_ArrayForEach(it, tools)
    {
        struct tool *tool = find_named(a, it, is_flat);

        if (tool == NULL)
            return refuse_allowed(a, is_flat, "tools",
                                  "a list that only names functions and custom tools of 'tools'");
        tool->is_hidden = false;
    }
    conversation_drop_hidden(&a->p->chat);
    return params_choose_tool_by_word(a, mode);
}

int params_choose_either(const struct field_args *a, const char *field, bool is_flat)
{
    const char *type = field_text(a->v, "type");
    const bool is_custom = type != NULL && strcmp(type, "custom") == 0;

    if (!cJSON_IsObject(a->v))
        return params_choose_tool_by_word(a, cJSON_GetStringValue(a->v));
    if (type != NULL && strcmp(type, "allowed_tools") == 0)
        return take_allowed(a, is_flat ? a->v : field_find(a->v, "allowed_tools"), is_flat);
    if (type == NULL || (strcmp(type, "function") != 0 && !is_custom))
        return api_error_set(a->e, 400, "tool_choice.type", NULL,
                             "'tool_choice.type' must be \"function\", \"custom\" or "
                             "\"allowed_tools\"");
    if (is_custom && !is_flat)
        field = "tool_choice.custom.name";
    return params_choose_tool(a, field, seen_name(a, a->v, is_flat));
}

int params_parse_tool_choice(const struct field_args *a)
{
    return params_choose_either(a, "tool_choice.function.name", false);
}

/* ---- a forced call ---- */

/* Prefix the references of a schema that becomes a part of another one with its place there. Depth
 * is bounded by JSON_MAX_DEPTH. */
static int move_references(cJSON *v, const char *where)
{
    for (cJSON *it = v->child; it != NULL; it = it->next) {
        if (it->string != NULL && strcmp(it->string, "$ref") == 0 && cJSON_IsString(it) &&
            it->valuestring[0] == '#') {
            char path[512];

            if (snprintf(path, sizeof(path), "%s%s", where, it->valuestring + 1) >=
                    (int)sizeof(path) ||
                cJSON_SetValuestring(it, path) == NULL)
                return ERR_NOMEM;
        }
        if (move_references(it, where) < 0)
            return ERR_NOMEM;
    }
    return 0;
}

/* True: the list has "object", or there is no list. */
static bool may_be_object(const cJSON *type)
{
    const cJSON *it;

    if (type == NULL)
        return true;
    cJSON_ArrayForEach(it, type)
    {
        if (cJSON_IsString(it) && strcmp(it->valuestring, "object") == 0)
            return true;
    }
    return false;
}

/* Hold a schema of arguments to objects: the output parser takes nothing else for a call. A schema
 * that admits no object then admits nothing at all, which its compiler reports. */
static void hold_to_objects(cJSON *schema)
{
    cJSON *type = cJSON_GetObjectItemCaseSensitive(schema, "type"), *all;

    if (cJSON_IsString(type) && strcmp(type->valuestring, "object") == 0)
        return;
    if (may_be_object(type)) {
        cJSON_DeleteItemFromObjectCaseSensitive(schema, "type");
        cJSON_AddStringToObject(schema, "type", "object");
        return;
    }
    all = cJSON_GetObjectItemCaseSensitive(schema, "allOf");
    if (all == NULL)
        all = cJSON_AddArrayToObject(schema, "allOf");
    if (cJSON_IsArray(all))
        cJSON_AddStringToObject(json_put(all, NULL, cJSON_CreateObject()), "type", "object");
}

cJSON *params_tool_schema(const struct tool *tool)
{
    cJSON *schema = cJSON_IsObject(tool->parameters) ? cJSON_Duplicate(tool->parameters, true)
                                                     : cJSON_CreateObject();

    if (schema != NULL)
        hold_to_objects(schema);
    return schema;
}

/* {"type":"object","properties":{"name":{"const":…},"arguments":…},"required":[…],…} */
static cJSON *call_schema(const struct tool *tool, uint32_t i)
{
    cJSON *call = cJSON_CreateObject(), *members, *arguments, *required;
    char where[80];

    cJSON_AddStringToObject(call, "type", "object");
    members = cJSON_AddObjectToObject(call, "properties");
    cJSON_AddStringToObject(cJSON_AddObjectToObject(members, "name"), "const", tool->name);
    arguments = params_tool_schema(tool);
    snprintf(where, sizeof(where), "#/items/anyOf/%u/properties/arguments", i);
    if (arguments == NULL || move_references(arguments, where) < 0) {
        cJSON_Delete(arguments);
        cJSON_Delete(call);
        return NULL;
    }
    json_put(members, "arguments", arguments);
    required = cJSON_AddArrayToObject(call, "required");
    json_put(required, NULL, cJSON_CreateString("name"));
    json_put(required, NULL, cJSON_CreateString("arguments"));
    cJSON_AddFalseToObject(call, "additionalProperties");
    return call;
}

static cJSON *list_schema(const struct params *p)
{
    cJSON *list = cJSON_CreateObject(), *any;

    cJSON_AddStringToObject(list, "type", "array");
    cJSON_AddNumberToObject(list, "minItems", 1);
    cJSON_AddNumberToObject(list, "maxItems", p->parallel_tool_calls ? PARAMS_MAX_CALLS : 1);
    any = cJSON_AddArrayToObject(cJSON_AddObjectToObject(list, "items"), "anyOf");
    for (uint32_t i = 0; i < p->chat.n_tools; i++)
        if (json_put(any, NULL, call_schema(&p->chat.tools[i], i)) == NULL) {
            cJSON_Delete(list);
            return NULL;
        }
    return list;
}

int params_force_call(struct params *p, struct api_error *e)
{
    if (p->tool_choice != TOOL_CHOICE_REQUIRED && p->tool_choice != TOOL_CHOICE_NAMED)
        return 0;
    if (p->constraint.kind != CONSTRAINT_NONE && !params_has_answer_format(p))
        return api_error_set(e, 400, p->constraint.field, NULL,
                             "'%s' and a 'tool_choice' that forces a call cannot be used together, "
                             "because the answer is the call: leave out one of them",
                             p->constraint.field);
    json_watch();
    p->forced_schema = p->tool_choice == TOOL_CHOICE_NAMED
                           ? params_tool_schema(conversation_tool(&p->chat, p->tool_name))
                           : list_schema(p);
    if (p->forced_schema == NULL || json_is_incomplete()) /* params_release() frees it */
        return api_error_no_memory(e);
    p->constraint = (struct constraint_spec){
        .kind = CONSTRAINT_SCHEMA, .field = "tools", .value = p->forced_schema};
    return 0;
}
