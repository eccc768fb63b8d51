/* server/api/formats/responses_echo.c - the members of its request that a response repeats, and
 * warnings of fields without effect.
 *
 * They are rendered once, by the thread that parses the body, because the body's tree is gone when
 * the answer begins. openai_responses.c copies the text into every event that has the response.
 */
#include "server/api/response/response_writer.h"

#include "core/json/json.h"
#include "server/api/params/field.h"
#include "server/http/http_call.h"

#include <stdio.h>
#include <string.h>

/* True: the model sees tools of this type. */
static bool is_taken(const char *type)
{
    static const char *const taken[] = {"function", "custom", "namespace", "tool_search"};

    for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++)
        if (strcmp(taken[i], type) == 0)
            return true;
    return false;
}

/* Add a warning for each tool in the object's list `tools` that the model does not see; `where` is
 * the object's path. */
static void warn_of_tools(const cJSON *object, const char *where, struct buf *out)
{
    const cJSON *tools = field_find(object, "tools");
    unsigned i = 0;
    char text[200];

    for (const cJSON *it = tools != NULL ? tools->child : NULL; it != NULL; it = it->next, i++) {
        const char *type = field_text(it, "type");

        if (type == NULL || is_taken(type))
            continue;
        snprintf(text, sizeof(text),
                 "%stools[%u]: tools of the type '%.60s' are not supported: the model does not see "
                 "this tool",
                 where, i, type);
        buf_add_str(out, out->len > 0 ? "," : "");
        json_add_cstring(out, text);
    }
}

/* Clients send a verbosity unasked, so it only gets a warning. */
static void warn_of_verbosity(const cJSON *body, struct buf *out)
{
    const char *verbosity = field_text(field_find(body, "text"), "verbosity");
    char text[200];

    if (verbosity == NULL || strcmp(verbosity, "medium") == 0)
        return;
    snprintf(text, sizeof(text),
             "text.verbosity: '%.60s' has no effect, because chat templates have no verbosity: ask "
             "for it in the instructions",
             verbosity);
    buf_add_str(out, out->len > 0 ? "," : "");
    json_add_cstring(out, text);
}

/* ,"warnings":[…]: tools that the server would have to run itself are left out, not refused, since
 * many clients send them unasked. Nothing is added without warnings. */
static int add_warnings(const cJSON *body, struct buf *echo)
{
    const cJSON *input = field_find(body, "input");
    struct buf warnings;
    unsigned i = 0;
    char where[32];

    buf_init(&warnings, HTTP_MAX_REPLY);
    warn_of_tools(body, "", &warnings);
    for (const cJSON *it = input != NULL ? input->child : NULL; it != NULL; it = it->next, i++) {
        snprintf(where, sizeof(where), "input[%u].", i);
        warn_of_tools(it, where, &warnings);
    }
    warn_of_verbosity(body, &warnings);
    if (warnings.len > 0) {
        buf_add_str(echo, ",\"warnings\":[");
        buf_add(echo, warnings.data, warnings.len);
        buf_add_char(echo, ']');
    }
    if (warnings.err < 0)
        echo->err = warnings.err;
    buf_release(&warnings);
    return echo->err;
}

/* Append the members that a response repeats; the table has the values of those that the body
 * lacks. */
int responses_add_echo(const cJSON *body, struct buf *echo)
{
    static const char *const members[][2] = {
        {"instructions", "null"},
        {"max_tool_calls", "null"},
        {"metadata", "{}"},
        {"parallel_tool_calls", "true"},
        {"reasoning", "{\"effort\":null,\"summary\":null}"},
        {"text", "{\"format\":{\"type\":\"text\"}}"},
        {"tool_choice", "\"auto\""},
        {"tools", "[]"},
        {"truncation", "\"disabled\""},
        {"user", "null"},
    };

    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
        const cJSON *v = field_find(body, members[i][0]);

        buf_printf(echo, ",\"%s\":", members[i][0]);
        if (v != NULL)
            json_add_value(echo, v);
        else
            buf_add_str(echo, members[i][1]);
    }
    return add_warnings(body, echo);
}
