/* server/api/params/params_chat.c - the fields of chats, in the shape of /v1/chat/completions.
 *
 * Messages and calls go into struct conversation as they are read. `given` keeps the client's own
 * object beside the typed one, since chat templates read members that no API defines. The files of
 * the other chat formats build their messages with the helpers here, so the limit on messages and
 * the error without memory stand in one place.
 */
#include "server/api/params/params_impl.h"

#include "core/base/err.h"
#include "core/base/mem.h"

#include "server/api/params/field.h"

#include <string.h>

#define MAX_MESSAGES 16384

/* ---- messages ---- */

int params_add_message(const struct field_args *a, const char *role)
{
    if (a->p->chat.n_messages == MAX_MESSAGES)
        return params_refuse(a, "must hold at most %d messages", MAX_MESSAGES);
    return conversation_add_message(&a->p->chat, role) != NULL ? 0 : api_error_no_memory(a->e);
}

int params_add_text(const struct field_args *a, const char *text)
{
    return conversation_add_text(&a->p->chat, text) == 0 ? 0 : api_error_no_memory(a->e);
}

int params_add_call(const struct field_args *a, const struct tool_call *call)
{
    return conversation_add_call(&a->p->chat, call) == 0 ? 0 : api_error_no_memory(a->e);
}

/* Take a part's text, which stands in the member that is named like its type. */
static int take_part(const struct field_args *a, const struct field_path *p, const cJSON *part)
{
    const char *type, *text;

    if (!cJSON_IsObject(part))
        return field_refuse(p, "", "an object");
    type = field_need_text(p, part, "type");
    if (type == NULL)
        return ERR_INVAL;
    if (strcmp(type, "text") != 0 && strcmp(type, "refusal") != 0)
        return field_refuse(p, "type", "\"text\": this model takes no images, sound or files");
    text = field_need_text(p, part, type);
    if (text == NULL || params_add_text(a, text) < 0)
        return ERR_INVAL;
    return strcmp(type, "text") == 0 ? params_take_breakpoint(a, p, part)
                                     : params_refuse_breakpoint(a, p, part);
}

/* Only messages of the assistant and of a tool may lack a content. */
static int take_content(const struct field_args *a, const struct field_path *p,
                        const cJSON *message)
{
    const cJSON *content = field_find(message, "content");
    struct chat_message *m = conversation_last(&a->p->chat);
    int i = 0;

    if (cJSON_IsString(content))
        return params_add_text(a, content->valuestring);
    if (content == NULL && (strcmp(m->role, "assistant") == 0 || strcmp(m->role, "tool") == 0))
        return 0;
    if (!cJSON_IsArray(content))
        return field_refuse(p, "content", "a string or a list of parts");
    m->has_content = true;
    for (const cJSON *it = content->child; it != NULL; it = it->next) {
        const struct field_path part = field_path_in(p, "content", i++);

        if (take_part(a, &part, it) < 0)
            return ERR_INVAL;
    }
    return 0;
}

/* Take a call of a custom tool; the template sees it as a call of a function. */
static int take_custom_call(const struct field_args *a, const struct field_path *p,
                            const cJSON *call)
{
    const cJSON *custom = field_find(call, "custom");
    const struct field_path in = field_path_in(p, "custom", -1);
    struct tool_call out = {.id = field_text(call, "id")};

    if (!cJSON_IsObject(custom))
        return field_refuse(p, "custom", "an object");
    out.name = field_need_text(&in, custom, "name");
    return out.name != NULL ? params_add_custom_call(a, &in, custom, &out) : ERR_INVAL;
}

static int take_call(const struct field_args *a, const struct field_path *p, const cJSON *call)
{
    const cJSON *function = field_find(call, "function");
    const struct field_path in = field_path_in(p, "function", -1);
    struct tool_call out = {.given = call, .id = field_text(call, "id")};

    if (!cJSON_IsObject(call))
        return field_refuse(p, "", "an object");
    if (field_text(call, "type") != NULL && strcmp(field_text(call, "type"), "custom") == 0)
        return take_custom_call(a, p, call);
    if (!cJSON_IsObject(function))
        return field_refuse(p, "function", "an object");
    out.name = field_need_text(&in, function, "name");
    if (out.name == NULL)
        return ERR_INVAL;
    out.arguments = field_need_text(&in, function, "arguments");
    return out.arguments != NULL ? params_add_call(a, &out) : ERR_INVAL;
}

/* Take function_call, OpenAI's older form: one call, without an id. */
static int take_function_call(const struct field_args *a, const struct field_path *p,
                              const cJSON *function)
{
    const struct field_path in = field_path_in(p, "function_call", -1);
    struct tool_call out = {0};

    if (function == NULL)
        return 0;
    if (!cJSON_IsObject(function))
        return field_refuse(p, "function_call", "an object");
    out.name = field_need_text(&in, function, "name");
    if (out.name == NULL)
        return ERR_INVAL;
    out.arguments = field_need_text(&in, function, "arguments");
    return out.arguments != NULL ? params_add_call(a, &out) : ERR_INVAL;
}

static int take_calls(const struct field_args *a, const struct field_path *p, const cJSON *calls)
{
    int i = 0;

    if (calls != NULL && !cJSON_IsArray(calls))
        return field_refuse(p, "tool_calls", "a list");
    for (const cJSON *it = calls != NULL ? calls->child : NULL; it != NULL; it = it->next) {
        const struct field_path call = field_path_in(p, "tool_calls", i++);

        if (take_call(a, &call, it) < 0)
            return ERR_INVAL;
    }
    return 0;
}

/* Find the message's role among the known ones. NULL: it was refused. */
static const char *find_role(const struct field_path *p, const cJSON *message)
{
    static const char *const roles[] = {"system", "developer", "user", "assistant", "tool"};
    const char *role = field_need_text(p, message, "role");

    for (size_t i = 0; role != NULL && i < sizeof(roles) / sizeof(roles[0]); i++)
        if (strcmp(roles[i], role) == 0)
            return roles[i];
    if (role != NULL && strcmp(role, "function") == 0) /* OpenAI's older name of tool */
        return "tool";
    if (role != NULL)
        field_refuse(p, "role", "system, developer, user, assistant or tool");
    return NULL;
}

static int take_message(const struct field_args *a, const struct field_path *p,
                        const cJSON *message)
{
    const bool has_new_name = field_find(message, "reasoning_content") == NULL;
    const char *name = has_new_name ? "reasoning" : "reasoning_content";
    const cJSON *reasoning = field_find(message, name);
    const char *role;
    struct chat_message *m;

    if (!cJSON_IsObject(message))
        return field_refuse(p, "", "an object");
    role = find_role(p, message);
    if (params_refuse_breakpoint(a, p, message) < 0)
        return ERR_INVAL;
    if (role == NULL || params_add_message(a, role) < 0)
        return ERR_INVAL;
    if (take_calls(a, p, field_find(message, "tool_calls")) < 0 ||
        take_function_call(a, p, field_find(message, "function_call")) < 0)
        return ERR_INVAL;
    if (reasoning != NULL && !cJSON_IsString(reasoning))
        return field_refuse(p, name, "a string");
    m = conversation_last(&a->p->chat);
    m->given = message;
    m->reasoning = cJSON_GetStringValue(reasoning);
    m->tool_call_id = field_text(message, "tool_call_id");
    return take_content(a, p, message);
}

int params_parse_messages(const struct field_args *a)
{
    a->p->has_messages = true;
    if (!cJSON_IsArray(a->v) || a->v->child == NULL)
        return params_refuse(a, "must be a list of messages");
    return params_take_each(a, take_message);
}

/* ---- the template ---- */

const char *params_taken_kwarg(const cJSON *object)
{
    static const char *const taken[] = {"messages",     "tools",     "add_generation_prompt",
                                        "bos_token",    "eos_token", "tokenize",
                                        "chat_template"};

    for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++)
        if (cJSON_GetObjectItemCaseSensitive(object, taken[i]) != NULL)
            return taken[i];
    return NULL;
}

int params_parse_chat_template_kwargs(const struct field_args *a)
{
    const char *taken = params_taken_kwarg(a->v);

    if (!cJSON_IsObject(a->v))
        return params_refuse(a, "must be an object");
    if (taken != NULL)
        return params_refuse(a, "may not set '%s'", taken);
    a->p->template_kwargs = a->v;
    return 0;
}

int params_set_effort(const struct field_args *a, const char *field, const char *effort)
{
    static const char *const words[] = {"none", "minimal", "low", "medium", "high", "xhigh", "max"};

    for (size_t i = 0; effort != NULL && i < sizeof(words) / sizeof(words[0]); i++)
        if (strcmp(effort, words[i]) == 0) {
            a->p->reasoning_effort = words[i];
            return 0;
        }
    return api_error_set(a->e, 400, field, NULL,
                         "'%s' must be none, minimal, low, medium, high, xhigh or max", field);
}

int params_parse_reasoning_effort(const struct field_args *a)
{
    return params_set_effort(a, a->name, cJSON_GetStringValue(a->v));
}

int params_parse_enable_thinking(const struct field_args *a)
{
    bool wanted = true;

    if (field_bool(a->v, a->name, &wanted, a->e) < 0)
        return ERR_INVAL;
    a->p->thinking = wanted ? THINKING_ON : THINKING_OFF;
    return 0;
}

/* ---- the rest ---- */

int params_parse_chat_logprobs(const struct field_args *a)
{
    bool wanted = false;

    if (field_bool(a->v, a->name, &wanted, a->e) < 0)
        return ERR_INVAL;
    if (wanted && a->p->sampling.n_top < 0)
        a->p->sampling.n_top = 0;
    return 0;
}

int params_parse_top_logprobs(const struct field_args *a)
{
    uint32_t n = 0;

    if (params_top_count(a, &n) < 0)
        return ERR_INVAL;
    if (a->p->sampling.n_top < 0 && a->p->form != PARAMS_RESPONSES)
        return params_refuse(a, "is only allowed with 'logprobs': true");
    if (a->p->sampling.n_top < 0 && n == 0)
        return 0;
    a->p->sampling.n_top = (int32_t)n;
    return 0;
}

/* vLLM's field: these tokens, and no others, are told beside each token, whatever top_logprobs
 * says. */
int params_parse_logprob_token_ids(const struct field_args *a)
{
    int32_t ids[SAMPLING_MAX_TOP];
    uint32_t n = 0;

    if (field_ids(a->v, a->name, a->limits->n_vocab, SAMPLING_MAX_TOP, ids, &n, a->e) < 0)
        return ERR_INVAL;
    if (n == 0)
        return 0;
    if (a->p->sampling.n_top < 0)
        return params_refuse(a, "is only allowed with 'logprobs': true");
    a->p->top_ids = mem_dup(ids, n * sizeof(*ids));
    if (a->p->top_ids == NULL)
        return api_error_no_memory(a->e);
    a->p->sampling.top_ids = a->p->top_ids;
    a->p->sampling.n_top_ids = n;
    a->p->sampling.n_top = (int32_t)n;
    return 0;
}

static int check_continued(const struct params *p, struct api_error *e)
{
    const struct chat_message *last = conversation_last(&p->chat);

    if (strcmp(last->role, "assistant") == 0 && last->has_content && last->n_calls == 0)
        return 0;
    return api_error_set(e, 400, "continue_final_message", NULL,
                         "'continue_final_message' requires a last message of the role assistant, "
                         "with content and without tool calls");
}

int params_check_chat(const struct params *p, struct api_error *e)
{
    const char *messages = (p->form & (PARAMS_RESPONSES | PARAMS_DECIDE)) != 0 ? "input"
                           : p->form == PARAMS_SYSTEMONE                       ? "state"
                                                                               : "messages";

    if (!p->has_messages || p->chat.n_messages == 0)
        return api_error_set(e, 400, messages, NULL, "'%s' is required", messages);
    if (p->chat.n_tools == 0 &&
        (p->tool_choice == TOOL_CHOICE_REQUIRED || p->tool_choice == TOOL_CHOICE_NAMED))
        return api_error_set(e, 400, "tool_choice", NULL,
                             "'tool_choice' is only allowed with 'tools'");
    if (p->tool_choice == TOOL_CHOICE_NAMED && conversation_tool(&p->chat, p->tool_name) == NULL)
        return api_error_set(e, 400, "tool_choice", NULL,
                             "'tool_choice' names '%.100s', which is not one of the tools (a tool "
                             "with defer_loading is, once it was found)",
                             p->tool_name);
    return p->continue_final_message ? check_continued(p, e) : 0;
}
