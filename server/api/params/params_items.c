/* server/api/params/params_items.c - the items of a Responses' input as messages.
 *
 * The items of kept responses come first, then those of the input. Calls and reasoning items go
 * into the assistant's message that is open; each output of a call is a message of the role tool.
 * Items that bring tools add them to those that `tools` has, which is read before.
 * https://platform.openai.com/docs/api-reference/responses
 */
#include "server/api/params/kept_items.h"
#include "server/api/params/params_impl.h"

#include "core/base/err.h"

#include <stdio.h>
#include <string.h>

#define MAX_REASONING ((size_t)64 << 20) /* bytes: a prompt has no more */

/* Append the JSON of a part input_json to the last message. */
static int take_json_part(const struct field_args *a, const struct field_path *p, const cJSON *part,
                          const char *member)
{
    const cJSON *data = field_find(part, "data");
    struct buf text;

    if (!cJSON_IsObject(data) && !cJSON_IsArray(data))
        return field_refuse(p, member, "parts input_json with an object or a list as data");
    buf_init(&text, MAX_REASONING);
    json_add_value(&text, data);
    return conversation_add_composed(&a->p->chat, &text) == 0 ? 0 : api_error_no_memory(a->e);
}

/* Append a part with a text to the last message. */
static int take_item_part(const struct field_args *a, const struct field_path *p, const cJSON *part,
                          const char *member)
{
    const char *type = field_text(part, "type"), *text = field_text(part, "text");

    if (type != NULL && strcmp(type, "input_json") == 0 && a->p->form == PARAMS_DECIDE)
        return take_json_part(a, p, part, member);
    if (type != NULL && strcmp(type, "refusal") == 0)
        text = field_text(part, "refusal");
    else if (type == NULL || (strcmp(type, "input_text") != 0 && strcmp(type, "output_text") != 0))
        return field_refuse(p, member, "text: this model takes no images, sound or files");
    if (text == NULL)
        return field_refuse(p, member, "parts with a text");
    return params_add_text(a, text);
}

/* Parts of an answer have no breakpoints. */
static int take_part_breakpoint(const struct field_args *a, const struct field_path *p,
                                const cJSON *part)
{
    return strncmp(field_text(part, "type"), "input_", 6) == 0
               ? params_take_breakpoint(a, p, part)
               : params_refuse_breakpoint(a, p, part);
}

/* Append a text, or parts with texts, to the last message. */
static int take_parts(const struct field_args *a, const struct field_path *p, const cJSON *item,
                      const char *member)
{
    const cJSON *content = field_find(item, member);
    int i = 0;

    if (cJSON_IsString(content))
        return params_add_text(a, content->valuestring);
    if (!cJSON_IsArray(content))
        return field_refuse(p, member, "a string or a list of parts");
    conversation_last(&a->p->chat)->has_content = true;
    for (const cJSON *it = content->child; it != NULL; it = it->next) {
        const struct field_path in = field_path_in(p, member, i++);

        if (take_item_part(a, p, it, member) < 0 || take_part_breakpoint(a, &in, it) < 0)
            return ERR_INVAL;
    }
    return 0;
}

/* Make the last message one of the assistant: add one if it is not. */
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
    /* An assistant's message that follows its reasoning item is added to the same message. */
    if (i != 1 || last == NULL || last->reasoning == NULL || last->has_content || last->n_calls > 0)
        if (params_add_message(a, roles[i]) < 0)
            return ERR_INVAL;
    return take_parts(a, p, item, "content");
}

/* The name that the model called: the item has the tool's namespace in a member of its own. */
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

/* Append the texts of a list of parts. */
static void gather_texts(const cJSON *parts, struct buf *out)
{
    for (const cJSON *it = cJSON_IsArray(parts) ? parts->child : NULL; it != NULL; it = it->next) {
        const char *text = field_text(it, "text");

        if (text != NULL)
            buf_add_str(out, text);
    }
}

/* Take a reasoning item; it is ignored when the client has not kept its text. */
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

/* Take a call of tool_search; OpenAI's own servers give theirs no call_id. */
static int take_search_call(const struct field_args *a, const struct field_path *p,
                            const cJSON *item)
{
    const cJSON *arguments = field_find(item, "arguments");
    const struct tool_call call = {.id = field_text(item, "call_id"),
                                   .name = PARAMS_SEARCH_TOOL,
                                   .arguments = cJSON_GetStringValue(arguments),
                                   .input = cJSON_IsObject(arguments) ? arguments : NULL};

    if (call.input == NULL && call.arguments == NULL)
        return field_refuse(p, "arguments", "an object");
    return open_assistant(a) == 0 ? params_add_call(a, &call) : ERR_INVAL;
}

/* Take the tools that a search found: the model may call them, and reads their names in a tool
 * message. */
static int take_search_output(const struct field_args *a, const struct field_path *p,
                              const cJSON *item)
{
    const uint32_t first = a->p->chat.n_tools;

    if (params_take_more_tools(a, p, item) < 0)
        return ERR_INVAL;
    for (uint32_t i = first; i < a->p->chat.n_tools; i++)
        a->p->chat.tools[i].is_deferred = false;
    if (params_add_message(a, "tool") < 0)
        return ERR_INVAL;
    conversation_last(&a->p->chat)->tool_call_id = field_text(item, "call_id");
    return params_tell_found(a, first);
}

/* Refuse an item; the table has a remedy for tools that OpenAI's servers run and data that only
 * they can read. */
static int refuse_type(const struct field_path *p, const char *type)
{
    static const struct {
        const char *type, *remedy;
    } others[] = {
        {"apply_patch_call", "offer a custom tool, and send its custom_tool_call"},
        {"apply_patch_call_output", "send a custom_tool_call_output"},
        {"code_interpreter_call", "offer a function, and send its function_call"},
        {"compaction", "only OpenAI's servers can read it: send a summary as a message"},
        {"compaction_summary", "only OpenAI's servers can read it: send a summary as a message"},
        {"compaction_trigger", "ask for a summary, and send it as a message"},
        {"computer_call", "offer a function, and send its function_call"},
        {"computer_call_output", "send a function_call_output"},
        {"configuration_update", "send the fields reasoning and text of the request"},
        {"file_search_call", "send the results as a message"},
        {"image_generation_call", "leave it out: this server only processes text"},
        {"local_shell_call", "offer a function, and send its function_call"},
        {"local_shell_call_output", "send a function_call_output"},
        {"mcp_approval_request", "offer the MCP server's tools as functions"},
        {"mcp_approval_response", "offer the MCP server's tools as functions"},
        {"mcp_call", "offer the MCP server's tools as functions, and send a function_call"},
        {"mcp_list_tools", "offer the MCP server's tools as functions"},
        {"program", "offer functions, and send each function_call"},
        {"program_output", "send a function_call_output"},
        {"shell_call", "offer a function, and send its function_call"},
        {"shell_call_output", "send a function_call_output"},
        {"web_search_call", "send the results as a message"},
    };

    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (strcmp(others[i].type, type) == 0) {
            char name[96];

            snprintf(name, sizeof(name), "%s.type", p->text);
            return api_error_set(p->e, 400, name, NULL,
                                 "'%s' must not be %s, which this server does not support; %s",
                                 name, type, others[i].remedy);
        }
    return field_refuse(p, "type",
                        "message, function_call, function_call_output, custom_tool_call, "
                        "custom_tool_call_output, reasoning, additional_tools, tool_search_call "
                        "or tool_search_output");
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
                 {"reasoning", take_reasoning},
                 {"additional_tools", params_take_more_tools},
                 {"tool_search_call", take_search_call},
                 {"tool_search_output", take_search_output}};
    const char *type = field_text(item, "type");

    if (!cJSON_IsObject(item))
        return field_refuse(p, "type", "a string: each item must be an object");
    if (params_refuse_breakpoint(a, p, item) < 0)
        return ERR_INVAL;
    if (type == NULL)
        type = "message";
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (strcmp(types[i].type, type) == 0)
            return types[i].take(a, p, item);
    return refuse_type(p, type);
}

bool params_is_reference(const cJSON *item)
{
    const char *type = field_text(item, "type");

    if (type != NULL)
        return strcmp(type, "item_reference") == 0;
    return field_text(item, "id") != NULL && field_find(item, "role") == NULL;
}

/* Take an item of the input, or the kept item that it refers to. */
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
                                     "a type other than item_reference: this server keeps no "
                                     "responses (set responses_db)")
                      : ERR_INVAL;
}

/* Take the kept conversation that the input continues. */
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
    conversation_merge_tools(&a->p->chat);
    if (cJSON_IsString(a->v))
        return params_add_message(a, "user") == 0 ? params_add_text(a, a->v->valuestring)
                                                  : ERR_INVAL;
    if (!cJSON_IsArray(a->v) || a->v->child == NULL)
        return params_refuse(a, "must be a string or a list of items");
    if (params_take_each(a, take_any) < 0)
        return ERR_INVAL;
    conversation_merge_tools(&a->p->chat);
    return 0;
}
