/* server/api/constraint/strict_calls.c - describes calls to the constraint compiler.
 *
 * No grammar is made here: the functions write the object that constraint_calls.h describes, and
 * the triggers at which it begins, into params->forced_schema, and point the request's constraint
 * at it. So the constraint cache finds equal sets of tools by their JSON text. Memory errors are
 * collected by json_watch() and checked once.
 */
#include "server/api/constraint/strict_calls.h"

#include "core/base/err.h"
#include "core/grammar/grammar.h"
#include "core/grammar/regex.h"
#include "core/json/json.h"
#include "server/api/chat/chat_values.h"
#include "server/api/chat/output_parser.h"
#include "server/api/constraint/constraint_arguments.h"
#include "server/api/params/params.h"

#include <string.h>

static bool has_strict_tool(const struct params *p)
{
    for (uint32_t i = 0; i < p->chat.n_tools; i++)
        if (cJSON_IsTrue(p->chat.tools[i].strict))
            return true;
    return false;
}

static bool is_wanted(const struct params *p)
{
    if ((p->form & PARAMS_TURNS) == 0 || p->tool_choice != TOOL_CHOICE_AUTO || p->chat.n_tools == 0)
        return false;
    return params_has_answer_format(p) ||
           (p->constraint.kind == CONSTRAINT_NONE && has_strict_tool(p));
}

static bool wants_thoughts(const struct params *p)
{
    return chat_wants_thoughts(p) && p->thinking_budget > 0;
}

/* Must a format without tools follow the header of a family's final channel? Not if thinking is
 * off: then the prompt ends with that header. */
static bool wants_final_channel(const struct params *p, const struct family *f)
{
    return f != NULL && f->has_channels && (p->form & PARAMS_TURNS) != 0 && wants_thoughts(p) &&
           (p->chat.n_tools == 0 || p->tool_choice == TOOL_CHOICE_NONE) &&
           params_has_answer_format(p);
}

/* Adds the schema of an answer that is not a call, beside the calls. */
static void add_answer(cJSON *to, const struct constraint_spec *format)
{
    cJSON *calls = cJSON_GetObjectItemCaseSensitive(to, "calls");

    if (format->kind == CONSTRAINT_SCHEMA)
        json_put_reference(calls, "answer", format->value);
    else
        cJSON_AddStringToObject(cJSON_AddObjectToObject(calls, "answer"), "type", "object");
}

static bool is_forced(const struct params *p)
{
    return p->tool_choice == TOOL_CHOICE_REQUIRED || p->tool_choice == TOOL_CHOICE_NAMED;
}

/* Adds a tool. Its schema is enforced if the tool is strict or a call is required; else any object
 * is allowed. */
static void add_tool(cJSON *list, const struct params *p, const struct tool *tool)
{
    const bool is_held = is_forced(p) || cJSON_IsTrue(tool->strict);
    cJSON *it = cJSON_CreateObject(), *any;

    cJSON_AddStringToObject(it, "name", tool->name);
    if (is_held && tool->parameters != NULL && tool->parameters->child != NULL) {
        json_put(it, "parameters", params_tool_schema(tool));
    } else {
        any = cJSON_AddObjectToObject(it, "parameters");
        cJSON_AddStringToObject(any, "type", "object");
    }
    json_put(list, NULL, it);
}

/* True: a call may be of this tool. */
static bool is_chosen(const struct params *p, const struct tool *tool)
{
    return p->tool_choice != TOOL_CHOICE_NONE &&
           (p->tool_choice != TOOL_CHOICE_NAMED || strcmp(tool->name, p->tool_name) == 0);
}

/* True: the family allows one call only. Llama's templates take one call a turn. */
static bool is_single(const struct family *f)
{
    return f->is_bare && f->section.n == 0 &&
           f->calls[0].at[pattern_hole(&f->calls[0])].kind == PATTERN_OBJECT;
}

static void add_calls(cJSON *to, const struct params *p, const struct family *f, bool is_lazy)
{
    cJSON *calls = cJSON_AddObjectToObject(to, "calls"), *tools;

    cJSON_AddStringToObject(calls, "family", f->source);
    cJSON_AddBoolToObject(calls, "is_terse", is_forced(p));
    cJSON_AddBoolToObject(calls, "is_lazy", is_lazy);
    cJSON_AddBoolToObject(calls, "thinks", wants_thoughts(p));
    cJSON_AddNumberToObject(calls, "max",
                            p->parallel_tool_calls && !is_single(f) &&
                                    p->tool_choice != TOOL_CHOICE_NAMED
                                ? PARAMS_MAX_CALLS
                                : 1);
    tools = cJSON_AddArrayToObject(calls, "tools");
    for (uint32_t i = 0; i < p->chat.n_tools; i++)
        if (is_chosen(p, &p->chat.tools[i]))
            add_tool(tools, p, &p->chat.tools[i]);
}

static void add_trigger(cJSON *list, enum constraint_trigger type, const char *text)
{
    cJSON *trigger = cJSON_CreateObject();

    cJSON_AddNumberToObject(trigger, "type", type);
    cJSON_AddStringToObject(trigger, "value", text);
    json_put(list, NULL, trigger);
}

/* Adds the texts that a call, or the section of calls, may begin with. */
static void add_words(cJSON *list, const struct family *f)
{
    const struct call_pattern *p = f->section.n > 0 ? &f->section : &f->calls[0];

    for (uint32_t i = 0; i < p->n; i++) {
        const struct pattern_item *item = &p->at[i];

        if (item->kind == PATTERN_TEXT && item->n > 1)
            add_trigger(list, CONSTRAINT_TRIGGER_WORD, item->text);
        if (item->kind != PATTERN_BLANKS && !(item->kind == PATTERN_TEXT && item->is_optional))
            break;
    }
}

/* Appends the end of the group of names, and the text after a name. */
static void add_behind_name(struct buf *b, const struct call_pattern *p)
{
    uint32_t i = 0;

    while (i < p->n && p->at[i].kind != PATTERN_NAME)
        i++;
    buf_add_char(b, ')');
    for (const char *c = i + 1 < p->n && p->at[i + 1].text != NULL ? p->at[i + 1].text : "";
         *c != '\0'; c++)
        buf_printf(b, *c == '\n' ? "\\n" : "\\%c", *c);
}

/* Adds the trigger of an answer that begins with a call without a mark. */
static void add_bare_trigger(cJSON *list, const struct params *p, const struct family *f)
{
    const bool is_object = f->calls[0].at[pattern_hole(&f->calls[0])].kind == PATTERN_OBJECT;
    struct buf b;

    buf_init(&b, (size_t)1 << 20);
    if (is_object)
        buf_printf(&b, "\\s*%s\\{\\s*\"%s\"", f->section.n > 0 ? "\\[\\s*" : "", f->members[0]);
    else
        buf_add_str(&b, "\\s*\\[?\\s*(");
    for (uint32_t i = 0; i < p->chat.n_tools && !is_object; i++) {
        buf_add_str(&b, i > 0 ? "|" : "");
        for (const char *c = p->chat.tools[i].name; *c != '\0'; c++)
            buf_printf(&b, strchr(".-", *c) != NULL ? "\\%c" : "%c", *c);
    }
    if (!is_object)
        add_behind_name(&b, &f->calls[0]);
    add_trigger(list, CONSTRAINT_TRIGGER_WHOLE_PATTERN, b.err == 0 ? b.data : "");
    buf_release(&b);
}

static void add_triggers(cJSON *to, const struct params *p, const struct family *f)
{
    cJSON *list = cJSON_AddArrayToObject(to, "triggers");

    for (uint32_t i = 0; i < f->n_headers; i++)
        if (i == 0 ||
            strcmp(family_header_word(&f->headers[i]), family_header_word(&f->headers[i - 1])) != 0)
            add_trigger(list, CONSTRAINT_TRIGGER_WORD, family_header_word(&f->headers[i]));
    if (f->has_channels)
        return;
    add_words(list, f);
    if (f->is_bare)
        add_bare_trigger(list, p, f);
}

/* True: required calls can be written in the family's format. Otherwise they are a list of JSON,
 * which has no marks and no limits. */
static bool can_force(const struct params *p, const struct family *f)
{
    const struct call_pattern *call = f != NULL && f->n_calls > 0 ? &f->calls[0] : NULL;

    if (!is_forced(p) || call == NULL)
        return false;
    for (uint32_t i = 0; i < p->chat.n_tools; i++)
        if (call->at[pattern_hole(call)].kind == PATTERN_ARGUMENTS &&
            calls_arguments_unsupported(p->chat.tools[i].parameters) != NULL)
            return false;
    return true;
}

static int constrain(struct params *p, const struct family *f, bool has_triggers, const char *field,
                     struct api_error *e)
{
    json_watch();
    cJSON_Delete(p->forced_schema);
    p->forced_schema = cJSON_CreateObject();
    add_calls(p->forced_schema, p, f, has_triggers && !params_has_answer_format(p));
    if (params_has_answer_format(p))
        add_answer(p->forced_schema, &p->constraint);
    else if (has_triggers)
        add_triggers(p->forced_schema, p, f);
    if (p->forced_schema == NULL || json_is_incomplete()) /* params_release() frees it */
        return api_error_no_memory(e);
    p->constraint = (struct constraint_spec){
        .kind = CONSTRAINT_CALLS,
        .field = field,
        .value = cJSON_GetObjectItemCaseSensitive(p->forced_schema, "calls"),
        .triggers = cJSON_GetObjectItemCaseSensitive(p->forced_schema, "triggers")};
    return 0;
}

static int check_pattern(const struct tool *tool, struct budget *budget, struct api_error *e)
{
    struct grammar *grammar = NULL;
    char why[200] = "";
    const int rc = grammar_from_regex(&grammar, tool->pattern, strlen(tool->pattern), budget, why,
                                      sizeof(why));

    grammar_destroy(&grammar);
    if (rc == ERR_NOMEM)
        return api_error_no_memory(e);
    return rc == 0 ? 0
                   : api_error_set(e, 400, tool->pattern_field, NULL, "'%s' cannot be used: %s",
                                   tool->pattern_field, why);
}

int strict_calls_check_patterns(const struct params *p, struct budget *budget, struct api_error *e)
{
    int rc = 0;

    for (uint32_t i = 0; i < p->chat.n_tools && rc == 0; i++)
        if (p->chat.tools[i].pattern != NULL)
            rc = check_pattern(&p->chat.tools[i], budget, e);
    return rc;
}

int strict_calls_constrain(struct params *p, const struct output_style *style, struct api_error *e)
{
    if (can_force(p, style->family)) {
        p->forces_own_form = true;
        return constrain(p, style->family, false, "tools", e);
    }
    if (wants_final_channel(p, style->family))
        return constrain(p, style->family, true, p->constraint.field, e);
    if (!is_wanted(p) || style->family == NULL)
        return 0;
    return constrain(p, style->family, true,
                     params_has_answer_format(p) ? p->constraint.field : "tools", e);
}
