/* server/api/constraint/strict_calls.c - see strict_calls.h. */
#include "server/api/constraint/strict_calls.h"

#include "core/base/json.h"
#include "server/api/chat/output_parser.h"
#include "server/api/params/params.h"

static bool has_strict_tool(const struct params *p)
{
    for (uint32_t i = 0; i < p->chat.n_tools; i++)
        if (cJSON_IsTrue(p->chat.tools[i].strict))
            return true;
    return false;
}

static bool is_wanted(const struct params *p)
{
    return (p->form & PARAMS_TURNS) != 0 && p->tool_choice == TOOL_CHOICE_AUTO &&
           p->constraint.kind == CONSTRAINT_NONE && has_strict_tool(p);
}

static void add_tool(cJSON *list, const struct tool *tool)
{
    cJSON *it = cJSON_CreateObject(), *any;

    cJSON_AddStringToObject(it, "name", tool->name);
    if (cJSON_IsTrue(tool->strict) && tool->parameters != NULL && tool->parameters->child != NULL) {
        json_put(it, "parameters", cJSON_Duplicate(tool->parameters, true));
    } else {
        any = cJSON_AddObjectToObject(it, "parameters");
        cJSON_AddStringToObject(any, "type", "object");
    }
    json_put(list, NULL, it);
}

static void add_calls(cJSON *to, const struct params *p, const struct output_call_form *form)
{
    cJSON *calls = cJSON_AddObjectToObject(to, "calls"), *tools;

    cJSON_AddStringToObject(calls, "open", form->open);
    cJSON_AddStringToObject(calls, "close", form->close);
    cJSON_AddBoolToObject(calls, "may_be_bare", form->may_be_bare);
    cJSON_AddBoolToObject(calls, "is_list", form->is_list);
    cJSON_AddNumberToObject(calls, "max",
                            p->parallel_tool_calls && !form->is_single ? PARAMS_MAX_CALLS : 1);
    cJSON_AddStringToObject(calls, "arguments", form->arguments);
    tools = cJSON_AddArrayToObject(calls, "tools");
    for (uint32_t i = 0; i < p->chat.n_tools; i++)
        add_tool(tools, &p->chat.tools[i]);
}

static void add_trigger(cJSON *list, enum constraint_trigger type, const char *text)
{
    cJSON *trigger = cJSON_CreateObject();

    cJSON_AddNumberToObject(trigger, "type", type);
    cJSON_AddStringToObject(trigger, "value", text);
    json_put(list, NULL, trigger);
}

int strict_calls_constrain(struct params *p, const struct output_style *style,
                           struct api_error *e)
{
    struct output_call_form form;
    cJSON *triggers;

    if (!is_wanted(p) || !output_style_call_form(style, &form))
        return 0;
    json_watch();
    p->forced_schema = cJSON_CreateObject();
    add_calls(p->forced_schema, p, &form);
    triggers = cJSON_AddArrayToObject(p->forced_schema, "triggers");
    add_trigger(triggers, CONSTRAINT_TRIGGER_WORD, form.open);
    if (form.may_be_bare)
        add_trigger(triggers, CONSTRAINT_TRIGGER_WHOLE_PATTERN, "\\s*\\{\\s*\"name\"");
    if (p->forced_schema == NULL || json_is_incomplete()) /* params_release() frees it */
        return api_error_no_memory(e);
    p->constraint = (struct constraint_spec){
        .kind = CONSTRAINT_CALLS,
        .field = "tools",
        .value = cJSON_GetObjectItemCaseSensitive(p->forced_schema, "calls"),
        .triggers = triggers};
    return 0;
}
