/* server/api/params/params_tools.c - a tool call that the client insists on, as a constraint: a
 * JSON Schema of the arguments of the function that is named, or of a list of calls of any. */
#include "server/api/params/params_impl.h"

#include "core/base/err.h"
#include "server/api/params/field.h"

#include <stdio.h>
#include <string.h>

#define MAX_PARALLEL 16

/* References into a schema that has become a part of another one; depth is bounded by
 * JSON_MAX_DEPTH. */
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

static cJSON *parameters_of(const cJSON *tool)
{
    const cJSON *parameters = field_find(field_find(tool, "function"), "parameters");
    cJSON *any;

    if (parameters != NULL && parameters->child != NULL)
        return cJSON_Duplicate(parameters, true);
    any = cJSON_CreateObject();
    cJSON_AddStringToObject(any, "type", "object");
    return any;
}

/* {"type":"object","properties":{"name":{"const":…},"arguments":…},"required":[…],…} */
static cJSON *call_schema(const cJSON *tool, int i)
{
    const cJSON *name = field_find(field_find(tool, "function"), "name");
    cJSON *call = cJSON_CreateObject(), *members, *arguments, *required;
    char where[80];

    cJSON_AddStringToObject(call, "type", "object");
    members = cJSON_AddObjectToObject(call, "properties");
    cJSON_AddStringToObject(cJSON_AddObjectToObject(members, "name"), "const", name->valuestring);
    arguments = parameters_of(tool);
    snprintf(where, sizeof(where), "#/items/anyOf/%d/properties/arguments", i);
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
    int i = 0;

    cJSON_AddStringToObject(list, "type", "array");
    cJSON_AddNumberToObject(list, "minItems", 1);
    cJSON_AddNumberToObject(list, "maxItems", p->parallel_tool_calls ? MAX_PARALLEL : 1);
    any = cJSON_AddArrayToObject(cJSON_AddObjectToObject(list, "items"), "anyOf");
    for (const cJSON *it = p->tools->child; it != NULL; it = it->next)
        if (json_put(any, NULL, call_schema(it, i++)) == NULL) {
            cJSON_Delete(list);
            return NULL;
        }
    return list;
}

static const cJSON *named_tool(const struct params *p)
{
    const cJSON *it = p->tools->child;

    while (strcmp(field_find(field_find(it, "function"), "name")->valuestring, p->tool_name) != 0)
        it = it->next;
    return it;
}

int params_force_call(struct params *p, struct api_error *e)
{
    if (p->tool_choice != TOOL_CHOICE_REQUIRED && p->tool_choice != TOOL_CHOICE_NAMED)
        return 0;
    json_watch();
    p->forced_schema =
        p->tool_choice == TOOL_CHOICE_NAMED ? parameters_of(named_tool(p)) : list_schema(p);
    if (p->forced_schema == NULL || json_is_incomplete()) /* params_release() frees it */
        return api_error_set(e, 500, NULL, NULL, "out of memory");
    p->constraint = (struct constraint_spec){
        .kind = CONSTRAINT_SCHEMA, .field = "tools", .value = p->forced_schema};
    return 0;
}
