/* server/api/formats/openai_responses_body.c - see openai_responses_body.h. */
#include "server/api/formats/openai_responses_body.h"

#include "core/base/err.h"
#include "server/api/params/field.h"

#include <stdio.h>
#include <string.h>

struct items { /* the input on its way */
    cJSON *out; /* the list of a chat's messages */
    cJSON *open; /* the assistant's message that calls and thoughts go into, or NULL */
    struct api_error *e;
    int i; /* of the item */
};

static int no_memory(struct api_error *e)
{
    return api_error_set(e, 500, NULL, NULL, "out of memory");
}

static int refuse(const struct items *t, const char *member, const char *what)
{
    char name[64];

    snprintf(name, sizeof(name), "input[%d].%s", t->i, member);
    return api_error_set(t->e, 400, name, NULL, "'%s' must be %s", name, what);
}

static const char *string_of(const cJSON *object, const char *member)
{
    const cJSON *v = field_find(object, member);

    return cJSON_IsString(v) ? v->valuestring : NULL;
}

static cJSON *add_message(cJSON *out, const char *role)
{
    cJSON *message = cJSON_CreateObject();

    cJSON_AddStringToObject(message, "role", role);
    return json_put(out, NULL, message);
}

/* ---- input ---- */

/* Texts of whatever kind as parts of a content. */
static int add_parts(struct items *t, cJSON *message, const cJSON *content, const char *member)
{
    cJSON *parts;

    if (cJSON_IsString(content)) {
        cJSON_AddStringToObject(message, "content", content->valuestring);
        return 0;
    }
    if (!cJSON_IsArray(content))
        return refuse(t, member, "a string or a list of parts");
    parts = cJSON_AddArrayToObject(message, "content");
    for (const cJSON *it = content->child; it != NULL; it = it->next) {
        const char *type = string_of(it, "type"), *text = string_of(it, "text");
        cJSON *part;

        if (type != NULL && strcmp(type, "refusal") == 0)
            text = string_of(it, "refusal");
        else if (type == NULL ||
                 (strcmp(type, "input_text") != 0 && strcmp(type, "output_text") != 0))
            return refuse(t, member, "text: this model takes no images, sound or files");
        if (text == NULL)
            return refuse(t, member, "parts with a text");
        part = cJSON_CreateObject();
        cJSON_AddStringToObject(part, "type", "text");
        cJSON_AddStringToObject(part, "text", text);
        json_put(parts, NULL, part);
    }
    return 0;
}

/* The assistant's message that is being put together. */
static cJSON *assistant(struct items *t)
{
    if (t->open == NULL)
        t->open = add_message(t->out, "assistant");
    return t->open;
}

static int add_said(struct items *t, const cJSON *item)
{
    static const char *const roles[] = {"user", "assistant", "system", "developer"};
    const char *role = string_of(item, "role");
    size_t i = 0;

    while (role != NULL && i < 4 && strcmp(roles[i], role) != 0)
        i++;
    if (role == NULL || i == 4)
        return refuse(t, "role", "user, assistant, system or developer");
    if (i == 1 && t->open != NULL && cJSON_GetObjectItem(t->open, "content") == NULL &&
        cJSON_GetObjectItem(t->open, "tool_calls") == NULL)
        return add_parts(t, t->open, field_find(item, "content"), "content"); /* after a thought */
    t->open = add_message(t->out, role);
    if (i != 1) {
        cJSON *message = t->open;

        t->open = NULL;
        return add_parts(t, message, field_find(item, "content"), "content");
    }
    return add_parts(t, t->open, field_find(item, "content"), "content");
}

static int add_call(struct items *t, const cJSON *item)
{
    const char *id = string_of(item, "call_id"), *name = string_of(item, "name");
    const char *arguments = string_of(item, "arguments");
    cJSON *calls, *call, *function;

    if (id == NULL || name == NULL || arguments == NULL)
        return refuse(t, id == NULL ? "call_id" : name == NULL ? "name" : "arguments", "a string");
    calls = cJSON_GetObjectItem(assistant(t), "tool_calls");
    if (calls == NULL)
        calls = cJSON_AddArrayToObject(t->open, "tool_calls");
    call = json_put(calls, NULL, cJSON_CreateObject());
    cJSON_AddStringToObject(call, "id", id);
    cJSON_AddStringToObject(call, "type", "function");
    function = cJSON_AddObjectToObject(call, "function");
    cJSON_AddStringToObject(function, "name", name);
    cJSON_AddStringToObject(function, "arguments", arguments);
    return 0;
}

static int add_output(struct items *t, const cJSON *item)
{
    const char *id = string_of(item, "call_id");
    cJSON *message;

    if (id == NULL)
        return refuse(t, "call_id", "a string");
    t->open = NULL;
    message = add_message(t->out, "tool");
    cJSON_AddStringToObject(message, "tool_call_id", id);
    return add_parts(t, message, field_find(item, "output"), "output");
}

/* A thought given back: its text, where the client has kept it. */
static int add_thought(struct items *t, const cJSON *item)
{
    const cJSON *content = field_find(item, "content");
    const char *text = cJSON_IsArray(content) ? string_of(content->child, "text") : NULL;

    t->open = NULL;
    if (text != NULL)
        cJSON_AddStringToObject(assistant(t), "reasoning_content", text);
    return 0;
}

static int add_item(struct items *t, const cJSON *item)
{
    const char *type = string_of(item, "type");

    if (!cJSON_IsObject(item))
        return refuse(t, "type", "that of an object");
    if (type == NULL || strcmp(type, "message") == 0)
        return add_said(t, item);
    if (strcmp(type, "function_call") == 0)
        return add_call(t, item);
    if (strcmp(type, "function_call_output") == 0)
        return add_output(t, item);
    if (strcmp(type, "reasoning") == 0)
        return add_thought(t, item);
    return refuse(t, "type", "message, function_call, function_call_output or reasoning");
}

static int add_input(cJSON *chat, const cJSON *body, struct api_error *e)
{
    const cJSON *input = field_find(body, "input");
    const char *instructions = string_of(body, "instructions");
    struct items t = {.out = cJSON_AddArrayToObject(chat, "messages"), .e = e};

    if (t.out == NULL)
        return no_memory(e);
    if (instructions != NULL)
        cJSON_AddStringToObject(add_message(t.out, "system"), "content", instructions);
    if (cJSON_IsString(input)) {
        cJSON_AddStringToObject(add_message(t.out, "user"), "content", input->valuestring);
        return 0;
    }
    if (!cJSON_IsArray(input) || input->child == NULL)
        return api_error_set(e, 400, "input", NULL, "'input' must be a string or a list of items");
    for (const cJSON *it = input->child; it != NULL; it = it->next, t.i++)
        if (add_item(&t, it) < 0)
            return ERR_INVAL;
    return 0;
}

/* ---- tools and formats ---- */

static int add_tools(cJSON *chat, const cJSON *tools, struct api_error *e)
{
    static const char *const members[] = {"name", "description", "parameters", "strict"};
    cJSON *out;

    if (tools == NULL)
        return 0;
    if (!cJSON_IsArray(tools))
        return api_error_set(e, 400, "tools", NULL, "'tools' must be a list");
    out = cJSON_AddArrayToObject(chat, "tools");
    for (const cJSON *it = tools->child; it != NULL; it = it->next) {
        const char *type = string_of(it, "type");
        cJSON *to, *function;

        if (type == NULL || strcmp(type, "function") != 0)
            return api_error_set(e, 400, "tools", NULL,
                                 "'tools' has one of type '%.60s', and only functions are known "
                                 "here", type != NULL ? type : "");
        to = json_put(out, NULL, cJSON_CreateObject());
        cJSON_AddStringToObject(to, "type", "function");
        function = cJSON_AddObjectToObject(to, "function");
        for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++)
            if (field_find(it, members[i]) != NULL)
                json_put(function, members[i], cJSON_Duplicate(field_find(it, members[i]), true));
    }
    return 0;
}

static void add_tool_choice(cJSON *chat, const cJSON *choice)
{
    const char *name = string_of(choice, "name"), *type = string_of(choice, "type");
    cJSON *to;

    if (choice == NULL)
        return;
    if (!cJSON_IsObject(choice)) {
        json_put(chat, "tool_choice", cJSON_Duplicate(choice, true));
        return;
    }
    to = cJSON_AddObjectToObject(chat, "tool_choice");
    cJSON_AddStringToObject(to, "type", type != NULL ? type : "");
    if (name != NULL)
        cJSON_AddStringToObject(cJSON_AddObjectToObject(to, "function"), "name", name);
}

/* {"type":"json_schema","name":…,"schema":…} -> {"type":"json_schema","json_schema":{…}} */
static int add_format(cJSON *chat, const cJSON *text, struct api_error *e)
{
    const cJSON *format = field_find(text, "format");
    const char *type = string_of(format, "type");
    cJSON *to, *schema;

    if (format == NULL)
        return 0;
    if (type == NULL)
        return api_error_set(e, 400, "text.format.type", NULL,
                             "'text.format.type' must be text, json_object or json_schema");
    to = cJSON_AddObjectToObject(chat, "response_format");
    cJSON_AddStringToObject(to, "type", type);
    if (strcmp(type, "json_schema") != 0)
        return 0;
    schema = cJSON_AddObjectToObject(to, "json_schema");
    for (const cJSON *it = format->child; it != NULL; it = it->next)
        if (strcmp(it->string, "type") != 0)
            json_put(schema, it->string, cJSON_Duplicate(it, true));
    return 0;
}

/* ---- the rest ---- */

static int refuse_memory(const cJSON *body, struct api_error *e)
{
    static const char *const names[] = {"previous_response_id", "conversation", "prompt"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (field_find(body, names[i]) != NULL)
            return api_error_set(e, 400, names[i], NULL,
                                 "'%s' is not supported: nothing is kept between requests",
                                 names[i]);
    if (cJSON_IsTrue(field_find(body, "background")))
        return api_error_set(e, 400, "background", NULL, "'background' is not supported");
    if (field_find(body, "n") != NULL)
        return api_error_set(e, 400, "n", NULL, "'n' does not exist here: there is one response");
    return 0;
}

static bool is_translated(const char *name)
{
    static const char *const names[] = {
        "input",    "instructions", "tools",   "tool_choice",  "text",     "reasoning",
        "metadata", "store",        "include", "service_tier", "truncation", "max_output_tokens",
        "background", "max_tool_calls", "stream_options", "safety_identifier", "prompt_cache_key"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

static int build(cJSON *chat, const cJSON *body, struct api_error *e)
{
    const char *effort = string_of(field_find(body, "reasoning"), "effort");
    const cJSON *most = field_find(body, "max_output_tokens");
    uint32_t n = 0;

    if (refuse_memory(body, e) < 0 ||
        (most != NULL && field_uint(most, "max_output_tokens", 1, INT32_MAX, &n, e) < 0))
        return ERR_INVAL;
    for (const cJSON *it = body->child; it != NULL; it = it->next)
        if (!is_translated(it->string) &&
            json_put(chat, it->string, cJSON_Duplicate(it, true)) == NULL)
            return no_memory(e);
    if (most != NULL)
        json_put(chat, "max_completion_tokens", cJSON_Duplicate(most, true));
    if (effort != NULL)
        cJSON_AddStringToObject(chat, "reasoning_effort", effort);
    add_tool_choice(chat, field_find(body, "tool_choice"));
    if (add_input(chat, body, e) < 0 || add_tools(chat, field_find(body, "tools"), e) < 0)
        return ERR_INVAL;
    return add_format(chat, field_find(body, "text"), e);
}

/* Members that a response repeats, with what stands for those that were not given. */
static int add_echo(const cJSON *body, struct buf *echo)
{
    static const char *const members[][2] = {
        {"instructions", "null"},   {"max_output_tokens", "null"}, {"max_tool_calls", "null"},
        {"metadata", "{}"},         {"parallel_tool_calls", "true"},
        {"reasoning", "{\"effort\":null,\"summary\":null}"},
        {"temperature", "1"},       {"text", "{\"format\":{\"type\":\"text\"}}"},
        {"tool_choice", "\"auto\""}, {"tools", "[]"},              {"top_p", "1"},
        {"truncation", "\"disabled\""}, {"user", "null"},
    };

    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
        const cJSON *v = field_find(body, members[i][0]);
        char *text = v != NULL ? cJSON_PrintUnformatted(v) : NULL;

        if (v != NULL && text == NULL)
            return ERR_NOMEM;
        buf_printf(echo, ",\"%s\":", members[i][0]);
        buf_add_str(echo, text != NULL ? text : members[i][1]);
        cJSON_free(text);
    }
    return echo->err;
}

int responses_to_chat(cJSON *body, struct buf *echo, struct api_error *e)
{
    cJSON *chat, *child;
    int rc;

    if (!cJSON_IsObject(body))
        return api_error_set(e, 400, NULL, NULL, "the body must be a JSON object");
    json_watch();
    chat = cJSON_CreateObject();
    if (chat == NULL || add_echo(body, echo) < 0) {
        cJSON_Delete(chat);
        return no_memory(e);
    }
    rc = build(chat, body, e);
    if (json_is_incomplete()) /* nothing above asks after every item that it makes */
        rc = no_memory(e);
    child = body->child; /* the tree's root stays, its members change places */
    if (rc == 0) {
        body->child = chat->child;
        chat->child = child;
    }
    cJSON_Delete(chat);
    return rc;
}
