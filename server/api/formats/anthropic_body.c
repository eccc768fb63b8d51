/* server/api/formats/anthropic_body.c - see anthropic_body.h. */
#include "server/api/formats/anthropic_body.h"

#include "core/base/err.h"
#include "server/api/params/field.h"

#include <stdio.h>
#include <string.h>

struct turn { /* one message on its way */
    cJSON *out; /* the list of a chat's messages */
    struct api_error *e;
    int i; /* of the message */
};

static int no_memory(struct api_error *e)
{
    return api_error_set(e, 500, NULL, NULL, "out of memory");
}

/* "'messages[3].content[1].type' must be …"; block < 0: of the message. */
static int refuse(const struct turn *t, int block, const char *member, const char *what)
{
    char name[64];

    if (block < 0)
        snprintf(name, sizeof(name), "messages[%d].%s", t->i, member);
    else
        snprintf(name, sizeof(name), "messages[%d].content[%d].%s", t->i, block, member);
    return api_error_set(t->e, 400, name, NULL, "'%s' must be %s", name, what);
}

static const char *string_of(const cJSON *object, const char *member)
{
    const cJSON *v = field_find(object, member);

    return cJSON_IsString(v) ? v->valuestring : NULL;
}

/* ---- texts ---- */

/* The text of blocks, one below the other; `what` names the member that they are in. */
static cJSON *text_parts(const cJSON *blocks, struct api_error *e, const char *what)
{
    cJSON *parts = cJSON_CreateArray();

    for (const cJSON *it = blocks->child; it != NULL; it = it->next) {
        const char *type = string_of(it, "type"), *text = string_of(it, "text");
        cJSON *part;

        if (type == NULL || strcmp(type, "text") != 0 || text == NULL) {
            api_error_set(e, 400, what, NULL, "'%s' must be a string or a list of text blocks",
                          what);
            cJSON_Delete(parts);
            return NULL;
        }
        part = cJSON_CreateObject();
        cJSON_AddStringToObject(part, "type", "text");
        cJSON_AddStringToObject(part, "text", text);
        json_put(parts, NULL, part);
    }
    return parts;
}

/* A string or blocks of text as a chat's content. NULL with *e filled. */
static cJSON *content_of(const cJSON *v, struct api_error *e, const char *what)
{
    if (cJSON_IsString(v))
        return cJSON_CreateString(v->valuestring);
    if (cJSON_IsArray(v))
        return text_parts(v, e, what);
    api_error_set(e, 400, what, NULL, "'%s' must be a string or a list of text blocks", what);
    return NULL;
}

static cJSON *add_message(cJSON *out, const char *role)
{
    cJSON *message = cJSON_CreateObject();

    cJSON_AddStringToObject(message, "role", role);
    return json_put(out, NULL, message);
}

static int add_system(cJSON *out, const cJSON *system, struct api_error *e)
{
    cJSON *content;

    if (system == NULL)
        return 0;
    content = content_of(system, e, "system");
    if (content == NULL)
        return ERR_INVAL;
    json_put(add_message(out, "system"), "content", content);
    return 0;
}

/* ---- blocks ---- */

/* The message of the turn that the next block goes into. */
static cJSON *open_message(struct turn *t, cJSON **open, const char *role)
{
    if (*open == NULL)
        *open = add_message(t->out, role);
    return *open;
}

static int add_text(struct turn *t, cJSON *message, const cJSON *block, int k)
{
    const char *text = string_of(block, "text");
    cJSON *parts = cJSON_GetObjectItemCaseSensitive(message, "content"), *part;

    if (text == NULL)
        return refuse(t, k, "text", "a string");
    if (parts == NULL)
        parts = cJSON_AddArrayToObject(message, "content");
    part = cJSON_CreateObject();
    cJSON_AddStringToObject(part, "type", "text");
    cJSON_AddStringToObject(part, "text", text);
    json_put(parts, NULL, part);
    return 0;
}

static int add_tool_use(struct turn *t, cJSON *message, const cJSON *block, int k)
{
    const cJSON *input = field_find(block, "input");
    const char *id = string_of(block, "id"), *name = string_of(block, "name");
    cJSON *calls = cJSON_GetObjectItemCaseSensitive(message, "tool_calls"), *call, *function;
    char *arguments;

    if (id == NULL || name == NULL)
        return refuse(t, k, id == NULL ? "id" : "name", "a string");
    if (!cJSON_IsObject(input))
        return refuse(t, k, "input", "an object");
    arguments = cJSON_PrintUnformatted(input);
    if (arguments == NULL)
        return no_memory(t->e);
    if (calls == NULL)
        calls = cJSON_AddArrayToObject(message, "tool_calls");
    call = json_put(calls, NULL, cJSON_CreateObject());
    cJSON_AddStringToObject(call, "id", id);
    cJSON_AddStringToObject(call, "type", "function");
    function = cJSON_AddObjectToObject(call, "function");
    cJSON_AddStringToObject(function, "name", name);
    cJSON_AddStringToObject(function, "arguments", arguments);
    cJSON_free(arguments);
    return 0;
}

static int add_thinking(struct turn *t, cJSON *message, const cJSON *block, int k)
{
    const char *text = string_of(block, "thinking");

    if (text == NULL)
        return refuse(t, k, "thinking", "a string");
    cJSON_DeleteItemFromObjectCaseSensitive(message, "reasoning_content");
    cJSON_AddStringToObject(message, "reasoning_content", text);
    return 0;
}

static int add_tool_result(struct turn *t, const cJSON *block, int k)
{
    const cJSON *content = field_find(block, "content");
    const char *id = string_of(block, "tool_use_id");
    cJSON *message, *text;
    char what[48];

    if (id == NULL)
        return refuse(t, k, "tool_use_id", "a string");
    snprintf(what, sizeof(what), "messages[%d].content[%d].content", t->i, k);
    text = content == NULL ? cJSON_CreateString("") : content_of(content, t->e, what);
    if (text == NULL)
        return ERR_INVAL;
    message = add_message(t->out, "tool");
    cJSON_AddStringToObject(message, "tool_call_id", id);
    json_put(message, "content", text);
    return 0;
}

static int add_block(struct turn *t, cJSON **open, const char *role, const cJSON *block, int k)
{
    const char *type = string_of(block, "type");
    const bool is_user = strcmp(role, "user") == 0;

    if (type == NULL)
        return refuse(t, k, "type", "a string");
    if (strcmp(type, "text") == 0)
        return add_text(t, open_message(t, open, role), block, k);
    if (is_user && strcmp(type, "tool_result") == 0) {
        *open = NULL; /* what follows is a message of its own */
        return add_tool_result(t, block, k);
    }
    if (!is_user && strcmp(type, "tool_use") == 0)
        return add_tool_use(t, open_message(t, open, role), block, k);
    if (!is_user && strcmp(type, "thinking") == 0)
        return add_thinking(t, open_message(t, open, role), block, k);
    if (!is_user && strcmp(type, "redacted_thinking") == 0)
        return 0;
    return refuse(t, k, "type", is_user ? "text or tool_result: this model takes nothing else"
                                        : "text, thinking or tool_use");
}

static int add_turn(struct turn *t, const cJSON *message)
{
    const char *role = string_of(message, "role");
    const cJSON *content = field_find(message, "content");
    cJSON *open = NULL;
    int k = 0;

    if (role == NULL || (strcmp(role, "user") != 0 && strcmp(role, "assistant") != 0))
        return refuse(t, -1, "role", "user or assistant");
    if (cJSON_IsString(content)) {
        cJSON_AddStringToObject(add_message(t->out, role), "content", content->valuestring);
        return 0;
    }
    if (!cJSON_IsArray(content))
        return refuse(t, -1, "content", "a string or a list of blocks");
    for (const cJSON *it = content->child; it != NULL; it = it->next, k++)
        if (add_block(t, &open, role, it, k) < 0)
            return ERR_INVAL;
    return 0;
}

static int add_messages(cJSON *chat, const cJSON *body, struct api_error *e)
{
    const cJSON *messages = field_find(body, "messages");
    struct turn t = {.out = cJSON_AddArrayToObject(chat, "messages"), .e = e};

    if (t.out == NULL)
        return no_memory(e);
    if (!cJSON_IsArray(messages) || messages->child == NULL)
        return api_error_set(e, 400, "messages", NULL, "'messages' must be a list of messages");
    if (add_system(t.out, field_find(body, "system"), e) < 0)
        return ERR_INVAL;
    for (const cJSON *it = messages->child; it != NULL; it = it->next, t.i++)
        if (add_turn(&t, it) < 0)
            return ERR_INVAL;
    return 0;
}

/* ---- tools ---- */

static int add_tool(cJSON *out, const cJSON *tool, int i, struct api_error *e)
{
    const char *type = string_of(tool, "type"), *name = string_of(tool, "name");
    const char *description = string_of(tool, "description");
    const cJSON *schema = field_find(tool, "input_schema");
    cJSON *to, *function;
    char what[48];

    snprintf(what, sizeof(what), "tools[%d]", i);
    if (type != NULL && strcmp(type, "custom") != 0)
        return api_error_set(e, 400, what, NULL, "'%s' is a tool of type '%.60s', and only custom "
                             "tools are known here", what, type);
    if (name == NULL || !cJSON_IsObject(schema))
        return api_error_set(e, 400, what, NULL, "'%s' must have a name and an input_schema", what);
    to = json_put(out, NULL, cJSON_CreateObject());
    cJSON_AddStringToObject(to, "type", "function");
    function = cJSON_AddObjectToObject(to, "function");
    cJSON_AddStringToObject(function, "name", name);
    if (description != NULL)
        cJSON_AddStringToObject(function, "description", description);
    json_put(function, "parameters", cJSON_Duplicate(schema, true));
    return 0;
}

static int add_tools(cJSON *chat, const cJSON *tools, struct api_error *e)
{
    cJSON *out;
    int i = 0;

    if (tools == NULL)
        return 0;
    if (!cJSON_IsArray(tools))
        return api_error_set(e, 400, "tools", NULL, "'tools' must be a list");
    out = cJSON_AddArrayToObject(chat, "tools");
    for (const cJSON *it = tools->child; it != NULL; it = it->next)
        if (add_tool(out, it, i++, e) < 0)
            return ERR_INVAL;
    return 0;
}

static int add_tool_choice(cJSON *chat, const cJSON *choice, struct api_error *e)
{
    static const char *const words[][2] = {{"auto", "auto"}, {"any", "required"}, {"none", "none"}};
    const char *type = string_of(choice, "type"), *name = string_of(choice, "name");
    cJSON *to;

    if (choice == NULL)
        return 0;
    if (cJSON_IsTrue(field_find(choice, "disable_parallel_tool_use")))
        cJSON_AddFalseToObject(chat, "parallel_tool_calls");
    for (size_t i = 0; type != NULL && i < 3; i++)
        if (strcmp(type, words[i][0]) == 0) {
            cJSON_AddStringToObject(chat, "tool_choice", words[i][1]);
            return 0;
        }
    if (type == NULL || strcmp(type, "tool") != 0 || name == NULL)
        return api_error_set(e, 400, "tool_choice", NULL,
                             "'tool_choice' must have the type auto, any, none, or tool with a "
                             "name");
    to = cJSON_AddObjectToObject(chat, "tool_choice");
    cJSON_AddStringToObject(to, "type", "function");
    cJSON_AddStringToObject(cJSON_AddObjectToObject(to, "function"), "name", name);
    return 0;
}

/* ---- the rest ---- */

static int add_thinking_switch(cJSON *chat, const cJSON *thinking, struct api_error *e)
{
    const char *type = string_of(thinking, "type");
    cJSON *kwargs;

    if (thinking == NULL)
        return 0;
    if (type == NULL || (strcmp(type, "enabled") != 0 && strcmp(type, "disabled") != 0 &&
                         strcmp(type, "adaptive") != 0))
        return api_error_set(e, 400, "thinking.type", NULL,
                             "'thinking.type' must be enabled, adaptive or disabled");
    kwargs = cJSON_GetObjectItemCaseSensitive(chat, "chat_template_kwargs");
    if (kwargs == NULL)
        kwargs = cJSON_AddObjectToObject(chat, "chat_template_kwargs");
    if (cJSON_IsObject(kwargs) && !cJSON_HasObjectItem(kwargs, "enable_thinking"))
        cJSON_AddBoolToObject(kwargs, "enable_thinking", strcmp(type, "disabled") != 0);
    return 0;
}

/* What has the same name and meaning in both shapes. */
static bool is_translated(const char *name)
{
    static const char *const names[] = {"messages",      "system",  "tools",    "tool_choice",
                                        "stop_sequences", "thinking", "metadata", "service_tier"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

static int copy_others(cJSON *chat, const cJSON *body)
{
    for (const cJSON *it = body->child; it != NULL; it = it->next)
        if (!is_translated(it->string) &&
            json_put(chat, it->string, cJSON_Duplicate(it, true)) == NULL)
            return ERR_NOMEM;
    return 0;
}

static int build(cJSON *chat, const cJSON *body, struct api_error *e)
{
    const cJSON *stop = field_find(body, "stop_sequences");

    if (copy_others(chat, body) < 0)
        return no_memory(e);
    if (field_find(body, "n") != NULL)
        return api_error_set(e, 400, "n", NULL, "'n' does not exist here: a message is one answer");
    if (stop != NULL && !cJSON_IsArray(stop))
        return api_error_set(e, 400, "stop_sequences", NULL, "'stop_sequences' must be a list");
    if (stop != NULL)
        json_put(chat, "stop", cJSON_Duplicate(stop, true));
    if (add_messages(chat, body, e) < 0 || add_tools(chat, field_find(body, "tools"), e) < 0 ||
        add_tool_choice(chat, field_find(body, "tool_choice"), e) < 0)
        return ERR_INVAL;
    return add_thinking_switch(chat, field_find(body, "thinking"), e);
}

int messages_to_counted_chat(cJSON *body, struct buf *echo, struct api_error *e)
{
    cJSON *chat, *child;
    int rc;

    (void)echo;
    json_watch();
    chat = cJSON_CreateObject();
    if (chat == NULL)
        return no_memory(e);
    rc = cJSON_IsObject(body)
             ? build(chat, body, e)
             : api_error_set(e, 400, NULL, NULL, "the body must be a JSON object");
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

int messages_to_chat(cJSON *body, struct buf *echo, struct api_error *e)
{
    if (cJSON_IsObject(body) && field_find(body, "max_tokens") == NULL)
        return api_error_set(e, 400, "max_tokens", NULL, "'max_tokens' is required");
    return messages_to_counted_chat(body, echo, e);
}
