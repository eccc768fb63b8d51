/* server/api/params/params_responses.c - the fields that only OpenAI's Responses have.
 *
 * Instructions, the items of kept responses and those of the input become messages. Calls of
 * functions and custom tools, and reasoning items, go into the assistant's message that is open;
 * each output of a call is a message of the role tool. Beside these fields, a body may have every
 * field of a chat that Responses do not define otherwise.
 * https://platform.openai.com/docs/api-reference/responses
 */
#include "server/api/params/kept_items.h"
#include "server/api/params/params_impl.h"

#include "core/base/err.h"

#include <string.h>

#define MAX_REASONING ((size_t)64 << 20) /* bytes: a prompt has no more */

int params_parse_instructions(const struct field_args *a)
{
    if (!cJSON_IsString(a->v))
        return params_refuse(a, "must be a string");
    return params_add_message(a, "system") == 0 ? params_add_text(a, a->v->valuestring) : ERR_INVAL;
}

/* ---- input ---- */

/* A text, or parts with texts of whatever kind, to the last message. */
static int take_parts(const struct field_args *a, const struct field_path *p, const cJSON *item,
                      const char *member)
{
    const cJSON *content = field_find(item, member);

    if (cJSON_IsString(content))
        return params_add_text(a, content->valuestring);
    if (!cJSON_IsArray(content))
        return field_refuse(p, member, "a string or a list of parts");
    conversation_last(&a->p->chat)->has_content = true;
    for (const cJSON *it = content->child; it != NULL; it = it->next) {
        const char *type = field_text(it, "type"), *text = field_text(it, "text");

        if (type != NULL && strcmp(type, "refusal") == 0)
            text = field_text(it, "refusal");
        else if (type == NULL ||
                 (strcmp(type, "input_text") != 0 && strcmp(type, "output_text") != 0))
            return field_refuse(p, member, "text: this model takes no images, sound or files");
        if (text == NULL)
            return field_refuse(p, member, "parts with a text");
        if (params_add_text(a, text) < 0)
            return ERR_INVAL;
    }
    return 0;
}

/* The last message if it is the assistant's, else a new one of the assistant. */
static int open_assistant(const struct field_args *a)
{
    const struct chat_message *last = conversation_last(&a->p->chat);

    if (last != NULL && strcmp(last->role, "assistant") == 0)
        return 0;
    return params_add_message(a, "assistant");
}

static int take_message(const struct field_args *a, const struct field_path *p, const cJSON *item)
{
    static const char *const roles[] = {"user", "assistant", "system", "developer"};
    const struct chat_message *last = conversation_last(&a->p->chat);
    const char *role = field_text(item, "role");
    size_t i = 0;

    while (role != NULL && i < 4 && strcmp(roles[i], role) != 0)
        i++;
    if (role == NULL || i == 4)
        return field_refuse(p, "role", "user, assistant, system or developer");
    /* A message of the assistant behind its reasoning continues it. */
    if (i != 1 || last == NULL || last->reasoning == NULL || last->has_content || last->n_calls > 0)
        if (params_add_message(a, roles[i]) < 0)
            return ERR_INVAL;
    return take_parts(a, p, item, "content");
}

/* The name that the model called; the item has the tool's namespace apart. */
static const char *called_name(const struct field_args *a, const struct field_path *p,
                               const cJSON *item)
{
    const char *name = field_need_text(p, item, "name");

    return name != NULL ? params_name_within(a, field_text(item, "namespace"), name) : NULL;
}

static int take_custom_call(const struct field_args *a, const struct field_path *p,
                            const cJSON *item)
{
    struct tool_call call = {.id = field_need_text(p, item, "call_id")};

    if (call.id == NULL)
        return ERR_INVAL;
    call.name = called_name(a, p, item);
    if (call.name == NULL || open_assistant(a) < 0)
        return ERR_INVAL;
    return params_add_custom_call(a, p, item, &call);
}

static int take_call(const struct field_args *a, const struct field_path *p, const cJSON *item)
{
    struct tool_call call = {.id = field_need_text(p, item, "call_id")};

    if (call.id == NULL)
        return ERR_INVAL;
    call.name = called_name(a, p, item);
    if (call.name == NULL)
        return ERR_INVAL;
    call.arguments = field_need_text(p, item, "arguments");
    if (call.arguments == NULL || open_assistant(a) < 0)
        return ERR_INVAL;
    return params_add_call(a, &call);
}

static int take_output(const struct field_args *a, const struct field_path *p, const cJSON *item)
{
    const char *id = field_need_text(p, item, "call_id");

    if (id == NULL || params_add_message(a, "tool") < 0)
        return ERR_INVAL;
    conversation_last(&a->p->chat)->tool_call_id = id;
    return take_parts(a, p, item, "output");
}

/* The texts of a list of parts, one behind the other. */
static void gather_texts(const cJSON *parts, struct buf *out)
{
    for (const cJSON *it = cJSON_IsArray(parts) ? parts->child : NULL; it != NULL; it = it->next) {
        const char *text = field_text(it, "text");

        if (text != NULL)
            buf_add_str(out, text);
    }
}

/* Reasoning that is given back: its text, where the client has kept it. */
static int take_reasoning(const struct field_args *a, const struct field_path *p, const cJSON *item)
{
    struct chat_message *m;
    struct buf text;

    (void)p;
    buf_init(&text, MAX_REASONING);
    gather_texts(field_find(item, "content"), &text);
    if (text.len == 0 && text.err == 0)
        return 0;
    if (params_add_message(a, "assistant") < 0) {
        buf_release(&text);
        return ERR_INVAL;
    }
    m = conversation_last(&a->p->chat);
    m->reasoning = conversation_own(&a->p->chat, &text);
    return m->reasoning != NULL ? 0 : api_error_no_memory(a->e);
}

static int take_item(const struct field_args *a, const struct field_path *p, const cJSON *item)
{
    static const struct {
        const char *type;
        int (*take)(const struct field_args *a, const struct field_path *p, const cJSON *item);
    } types[] = {{"message", take_message},
                 {"function_call", take_call},
                 {"function_call_output", take_output},
                 {"custom_tool_call", take_custom_call},
                 {"custom_tool_call_output", take_output},
                 {"reasoning", take_reasoning}};
    const char *type = field_text(item, "type");

    if (!cJSON_IsObject(item))
        return field_refuse(p, "type", "that of an object");
    if (type == NULL)
        type = "message";
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (strcmp(types[i].type, type) == 0)
            return types[i].take(a, p, item);
    return field_refuse(p, "type",
                        "message, function_call, function_call_output, "
                        "custom_tool_call, custom_tool_call_output or reasoning");
}

bool params_is_reference(const cJSON *item)
{
    const char *type = field_text(item, "type");

    if (type != NULL)
        return strcmp(type, "item_reference") == 0;
    return field_text(item, "id") != NULL && field_find(item, "role") == NULL;
}

/* An item of the input, or the kept one that it stands for. */
static int take_any(const struct field_args *a, const struct field_path *p, const cJSON *item)
{
    const cJSON *found = NULL;
    const char *id;

    if (!params_is_reference(item))
        return take_item(a, p, item);
    id = field_need_text(p, item, "id");
    if (id != NULL && a->limits->kept != NULL)
        found = kept_items_find(a->limits->kept, id);
    if (found != NULL)
        return take_item(a, p, found);
    return id != NULL ? field_refuse(p, "type",
                                     "another one than item_reference: no responses are "
                                     "kept here (responses_db)")
                      : ERR_INVAL;
}

/* The conversation so far. */
static int take_before(const struct field_args *a)
{
    const struct field_args before = {a->limits->kept != NULL ? a->limits->kept->before : NULL,
                                      "previous_response_id", a->p, a->limits, a->e};

    return before.v != NULL ? params_take_each(&before, take_item) : 0;
}

int params_parse_items(const struct field_args *a)
{
    a->p->has_messages = true;
    if (take_before(a) < 0)
        return ERR_INVAL;
    if (cJSON_IsString(a->v))
        return params_add_message(a, "user") == 0 ? params_add_text(a, a->v->valuestring)
                                                  : ERR_INVAL;
    if (!cJSON_IsArray(a->v) || a->v->child == NULL)
        return params_refuse(a, "must be a string or a list of items");
    return params_take_each(a, take_any);
}

/* ---- tools and formats ---- */

static int take_function(const struct field_args *a, const struct field_path *p, const cJSON *v,
                         const char *space)
{
    const char *name = field_need_text(p, v, "name");
    struct tool tool = {.description = field_find(v, "description"),
                        .parameters = field_find(v, "parameters"),
                        .strict = field_find(v, "strict"),
                        .n_space = space != NULL ? (uint32_t)strlen(space) : 0};

    tool.name = name != NULL ? params_name_within(a, space, name) : NULL;
    return tool.name != NULL ? params_add_tool(a, p, &tool) : ERR_INVAL;
}

static int take_member(const struct field_args *a, const struct field_path *p, const cJSON *v,
                       const char *space)
{
    const char *type = field_text(v, "type");

    if (type != NULL && strcmp(type, "function") == 0)
        return take_function(a, p, v, space);
    if (type != NULL && strcmp(type, "custom") == 0)
        return params_add_custom(a, p, v, space);
    return field_refuse(p, "type", "function or custom");
}

/* {"name":…,"description":…,"tools":[…]}: each tool is one of the model's, under the namespace's
 * name. */
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
    return params_introduce_tool(a, &a->p->chat.tools[first], field_text(v, "description"));
}

static int take_tool(const struct field_args *a, const struct field_path *p, const cJSON *v)
{
    const char *type = field_text(v, "type");

    if (type == NULL)
        return field_refuse(p, "type", "a string");
    if (strcmp(type, "namespace") == 0)
        return take_namespace(a, p, v);
    if (strcmp(type, "function") == 0 || strcmp(type, "custom") == 0)
        return take_member(a, p, v, NULL);
    return 0; /* a tool of OpenAI's own: the answer says so */
}

int params_parse_flat_tools(const struct field_args *a)
{
    return params_take_tools(a, take_tool);
}

int params_parse_flat_choice(const struct field_args *a)
{
    return params_choose_either(a, "tool_choice.name", true);
}

/* {"format":{"type":"json_schema","name":…,"schema":…}} */
int params_parse_text(const struct field_args *a)
{
    const cJSON *format = field_find(a->v, "format"), *verbosity = field_find(a->v, "verbosity");

    if (verbosity != NULL &&
        !(cJSON_IsString(verbosity) && strcmp(verbosity->valuestring, "medium") == 0))
        return api_error_set(a->e, 400, "text.verbosity", NULL,
                             "'text.verbosity' is not supported, but for medium. Chat templates "
                             "know of none.");
    return format != NULL ? params_set_format(a, "text.format", format) : 0;
}

int params_parse_reasoning(const struct field_args *a)
{
    const cJSON *effort = field_find(a->v, "effort");

    if (effort == NULL)
        return 0;
    return params_set_effort(a, "reasoning.effort", cJSON_GetStringValue(effort));
}

/* "auto": what is too long loses its oldest items; "disabled": it is refused. */
int params_parse_truncation(const struct field_args *a)
{
    const char *word = cJSON_GetStringValue(a->v);

    a->p->drops_messages = word != NULL && strcmp(word, "auto") == 0;
    if (a->p->drops_messages || (word != NULL && strcmp(word, "disabled") == 0))
        return 0;
    return params_refuse(a, "must be auto or disabled");
}
