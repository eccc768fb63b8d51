/* server/api/params/params_chat.c - the fields that only POST /v1/chat/completions has. */
#include "server/api/params/params_impl.h"

#include "core/base/err.h"
#include "server/api/params/field.h"

#include <stdio.h>
#include <string.h>

#define MAX_MESSAGES 16384
#define MAX_TOOLS 1024

/* ---- messages ---- */

struct place { /* where in the body: "messages[3].tool_calls[0].function" */
    const struct field_args *a;
    char path[48];
};

static struct place place_in(const struct place *p, const char *member, int i)
{
    struct place in = {.a = p->a};

    snprintf(in.path, sizeof(in.path), i < 0 ? "%.24s.%s" : "%.24s.%s[%d]", p->path, member, i);
    return in;
}

/* `what` completes the sentence "'messages[3].role' must be …". */
static int refuse(const struct place *p, const char *member, const char *what)
{
    char name[64];

    snprintf(name, sizeof(name), member[0] != '\0' ? "%.40s.%.20s" : "%.40s", p->path, member);
    return api_error_set(p->a->e, 400, name, NULL, "'%s' must be %s", name, what);
}

static int want_string(const struct place *p, const cJSON *object, const char *member)
{
    return cJSON_IsString(field_find(object, member)) ? 0 : refuse(p, member, "a string");
}

static int check_part(const struct place *p, const cJSON *part)
{
    const cJSON *type = field_find(part, "type");

    if (!cJSON_IsObject(part))
        return refuse(p, "", "an object");
    if (!cJSON_IsString(type))
        return refuse(p, "type", "a string");
    if (strcmp(type->valuestring, "text") == 0)
        return want_string(p, part, "text");
    if (strcmp(type->valuestring, "refusal") == 0)
        return want_string(p, part, "refusal");
    return refuse(p, "type", "\"text\": this model takes no images, sound or files");
}

static int check_content(const struct place *p, const cJSON *message, bool may_lack)
{
    const cJSON *content = field_find(message, "content");
    int i = 0;

    if (content == NULL)
        return may_lack ? 0 : refuse(p, "content", "a string or a list of parts");
    if (cJSON_IsString(content))
        return 0;
    if (!cJSON_IsArray(content))
        return refuse(p, "content", "a string or a list of parts");
    for (const cJSON *it = content->child; it != NULL; it = it->next, i++) {
        const struct place part = place_in(p, "content", i);

        if (check_part(&part, it) < 0)
            return ERR_INVAL;
    }
    return 0;
}

static int check_tool_call(const struct place *p, const cJSON *call)
{
    const cJSON *function = field_find(call, "function");
    const struct place in = place_in(p, "function", -1);

    if (!cJSON_IsObject(call))
        return refuse(p, "", "an object");
    if (!cJSON_IsObject(function))
        return refuse(p, "function", "an object");
    if (want_string(&in, function, "name") < 0)
        return ERR_INVAL;
    return want_string(&in, function, "arguments");
}

static int check_tool_calls(const struct place *p, const cJSON *calls)
{
    int i = 0;

    if (!cJSON_IsArray(calls))
        return refuse(p, "tool_calls", "a list");
    for (const cJSON *it = calls->child; it != NULL; it = it->next, i++) {
        const struct place call = place_in(p, "tool_calls", i);

        if (check_tool_call(&call, it) < 0)
            return ERR_INVAL;
    }
    return 0;
}

static int check_message(const struct place *p, const cJSON *message)
{
    static const char *const roles[] = {"system", "developer", "user", "assistant", "tool"};
    const cJSON *role = field_find(message, "role");
    const cJSON *calls = field_find(message, "tool_calls");
    const cJSON *thought = field_find(message, "reasoning_content");
    size_t i = 0;

    if (!cJSON_IsObject(message))
        return refuse(p, "", "an object");
    if (!cJSON_IsString(role))
        return refuse(p, "role", "a string");
    while (i < sizeof(roles) / sizeof(roles[0]) && strcmp(roles[i], role->valuestring) != 0)
        i++;
    if (i == sizeof(roles) / sizeof(roles[0]))
        return refuse(p, "role", "system, developer, user, assistant or tool");
    if (calls != NULL && check_tool_calls(p, calls) < 0)
        return ERR_INVAL;
    if (thought != NULL && !cJSON_IsString(thought))
        return refuse(p, "reasoning_content", "a string");
    return check_content(p, message, strcmp(roles[i], "assistant") == 0);
}

int params_parse_messages(const struct field_args *a)
{
    int i = 0;

    if (!cJSON_IsArray(a->v) || a->v->child == NULL)
        return api_error_set(a->e, 400, a->name, NULL, "'messages' must be a list of messages");
    for (const cJSON *it = a->v->child; it != NULL; it = it->next, i++) {
        struct place p = {.a = a};

        snprintf(p.path, sizeof(p.path), "messages[%d]", i);
        if (i == MAX_MESSAGES)
            return api_error_set(a->e, 400, a->name, NULL,
                                 "'messages' must hold at most %d messages", MAX_MESSAGES);
        if (check_message(&p, it) < 0)
            return ERR_INVAL;
    }
    a->p->messages = a->v;
    return 0;
}

/* ---- tools ---- */

static int check_name(const struct place *p, const cJSON *name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789_-.";
    size_t n;

    if (!cJSON_IsString(name))
        return refuse(p, "name", "a string");
    n = strlen(name->valuestring);
    if (n == 0 || n > PARAMS_MAX_TOOL_NAME || strspn(name->valuestring, letters) != n)
        return refuse(p, "name", "1 to 128 letters, digits, underscores, dots and dashes");
    return 0;
}

static int check_tool(const struct place *p, const cJSON *tool)
{
    const cJSON *type = field_find(tool, "type"), *function = field_find(tool, "function");
    const struct place in = place_in(p, "function", -1);
    const cJSON *parameters;

    if (!cJSON_IsObject(tool))
        return refuse(p, "", "an object");
    if (!cJSON_IsString(type) || strcmp(type->valuestring, "function") != 0)
        return refuse(p, "type", "\"function\"");
    if (!cJSON_IsObject(function))
        return refuse(p, "function", "an object");
    if (check_name(&in, field_find(function, "name")) < 0)
        return ERR_INVAL;
    parameters = field_find(function, "parameters");
    if (parameters != NULL && !cJSON_IsObject(parameters))
        return refuse(&in, "parameters", "a JSON schema");
    return 0;
}

static const cJSON *tool_named(const cJSON *tools, const char *name)
{
    for (const cJSON *it = tools != NULL ? tools->child : NULL; it != NULL; it = it->next)
        if (strcmp(field_find(field_find(it, "function"), "name")->valuestring, name) == 0)
            return it;
    return NULL;
}

int params_parse_tools(const struct field_args *a)
{
    int i = 0;

    if (!cJSON_IsArray(a->v))
        return api_error_set(a->e, 400, a->name, NULL, "'tools' must be a list");
    for (const cJSON *it = a->v->child; it != NULL; it = it->next, i++) {
        struct place p = {.a = a};

        snprintf(p.path, sizeof(p.path), "tools[%d]", i);
        if (i == MAX_TOOLS)
            return api_error_set(a->e, 400, a->name, NULL, "'tools' must hold at most %d tools",
                                 MAX_TOOLS);
        if (check_tool(&p, it) < 0)
            return ERR_INVAL;
    }
    a->p->tools = a->v->child != NULL ? a->v : NULL;
    return 0;
}

static int choose_named(const struct field_args *a)
{
    const cJSON *type = field_find(a->v, "type");
    const cJSON *name = field_find(field_find(a->v, "function"), "name");

    if (!cJSON_IsString(type) || strcmp(type->valuestring, "function") != 0)
        return api_error_set(a->e, 400, "tool_choice.type", NULL,
                             "'tool_choice.type' must be \"function\"");
    if (!cJSON_IsString(name) || strlen(name->valuestring) > PARAMS_MAX_TOOL_NAME)
        return api_error_set(a->e, 400, "tool_choice.function.name", NULL,
                             "'tool_choice.function.name' must be the name of a tool");
    a->p->tool_choice = TOOL_CHOICE_NAMED;
    snprintf(a->p->tool_name, sizeof(a->p->tool_name), "%s", name->valuestring);
    return 0;
}

int params_parse_tool_choice(const struct field_args *a)
{
    static const char *const words[] = {"auto", "none", "required"};

    if (cJSON_IsObject(a->v))
        return choose_named(a);
    for (int i = 0; cJSON_IsString(a->v) && i < 3; i++)
        if (strcmp(a->v->valuestring, words[i]) == 0) {
            a->p->tool_choice = (enum tool_choice)i;
            return 0;
        }
    return api_error_set(a->e, 400, a->name, NULL,
                         "'tool_choice' must be auto, none, required or name a function");
}

int params_parse_parallel_tool_calls(const struct field_args *a)
{
    return field_bool(a->v, a->name, &a->p->parallel_tool_calls, a->e);
}

/* ---- the template ---- */

int params_parse_add_generation_prompt(const struct field_args *a)
{
    return field_bool(a->v, a->name, &a->p->add_generation_prompt, a->e);
}

int params_parse_continue_final_message(const struct field_args *a)
{
    return field_bool(a->v, a->name, &a->p->continue_final_message, a->e);
}

/* The names that the server itself gives a meaning cannot be taken. */
int params_parse_chat_template_kwargs(const struct field_args *a)
{
    static const char *const taken[] = {"messages", "tools", "add_generation_prompt", "bos_token",
                                        "eos_token", "tokenize", "chat_template"};

    if (!cJSON_IsObject(a->v))
        return api_error_set(a->e, 400, a->name, NULL, "'chat_template_kwargs' must be an object");
    for (const cJSON *it = a->v->child; it != NULL; it = it->next)
        for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++)
            if (strcmp(it->string, taken[i]) == 0)
                return api_error_set(a->e, 400, a->name, NULL,
                                     "'chat_template_kwargs' may not set '%s'", taken[i]);
    a->p->template_kwargs = a->v;
    return 0;
}

int params_parse_reasoning_effort(const struct field_args *a)
{
    static const char *const words[] = {"none", "minimal", "low", "medium", "high", "xhigh"};

    for (size_t i = 0; cJSON_IsString(a->v) && i < sizeof(words) / sizeof(words[0]); i++)
        if (strcmp(a->v->valuestring, words[i]) == 0) {
            snprintf(a->p->reasoning_effort, sizeof(a->p->reasoning_effort), "%s", words[i]);
            return 0;
        }
    return api_error_set(a->e, 400, a->name, NULL,
                         "'reasoning_effort' must be none, minimal, low, medium, high or xhigh");
}

/* ---- the rest ---- */

/* The newer name of max_tokens; it stands after it in the table and so wins. */
int params_parse_max_completion_tokens(const struct field_args *a)
{
    return field_uint(a->v, a->name, 0, INT32_MAX, &a->p->max_tokens, a->e);
}

int params_parse_chat_logprobs(const struct field_args *a)
{
    bool wanted = false;

    if (field_bool(a->v, a->name, &wanted, a->e) < 0)
        return ERR_INVAL;
    a->p->sampling.n_top = wanted ? 0 : -1;
    return 0;
}

int params_parse_top_logprobs(const struct field_args *a)
{
    uint32_t n = 0;

    if (field_uint(a->v, a->name, 0, PARAMS_MAX_LOGPROBS, &n, a->e) < 0)
        return ERR_INVAL;
    if (a->p->sampling.n_top < 0)
        return api_error_set(a->e, 400, a->name, NULL,
                             "'top_logprobs' is only allowed with 'logprobs': true");
    a->p->sampling.n_top = (int32_t)n;
    return 0;
}

static const cJSON *last_of(const cJSON *list)
{
    const cJSON *last = list->child;

    while (last->next != NULL)
        last = last->next;
    return last;
}

static int check_continued(const struct params *p, struct api_error *e)
{
    const cJSON *last = last_of(p->messages);

    if (strcmp(field_find(last, "role")->valuestring, "assistant") != 0 ||
        field_find(last, "content") == NULL || field_find(last, "tool_calls") != NULL)
        return api_error_set(e, 400, "continue_final_message", NULL,
                             "'continue_final_message' wants a last message of the assistant, with "
                             "content and without tool calls");
    return 0;
}

int params_check_chat(const struct params *p, struct api_error *e)
{
    if (p->messages == NULL)
        return api_error_set(e, 400, "messages", NULL, "'messages' is required");
    if (p->tools == NULL &&
        (p->tool_choice == TOOL_CHOICE_REQUIRED || p->tool_choice == TOOL_CHOICE_NAMED))
        return api_error_set(e, 400, "tool_choice", NULL, "'tool_choice' wants 'tools'");
    if (p->tool_choice == TOOL_CHOICE_NAMED && tool_named(p->tools, p->tool_name) == NULL)
        return api_error_set(e, 400, "tool_choice", NULL,
                             "'tool_choice' names '%.100s', which is none of the tools",
                             p->tool_name);
    return p->continue_final_message ? check_continued(p, e) : 0;
}
