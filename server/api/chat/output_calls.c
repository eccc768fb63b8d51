/* server/api/chat/output_calls.c - the list of an answer's tool calls.
 *
 * The array has room for OUTPUT_MAX_CALLS from the first call on, so pointers to a call stay valid
 * while it grows. Each new call also becomes a piece, which keeps its place among the texts. Whole
 * objects are parsed with cJSON for their name, but their arguments are cut out of the model's
 * text, so the client gets the digits and spaces that were written.
 */
#include "server/api/chat/output_parser_impl.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/json/json.h"
#include "server/api/params/field.h"
#include "server/http/http_call.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

/* Makes a call's id: "call_" and nine letters and digits, as clients know it from OpenAI; Mistral's
 * templates want only the nine. It follows from the answer's id, so that a process that resumes the
 * answer makes the same one. */
static void make_id(const struct output_parser *s, struct output_call *call)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                  "0123456789xy";
    const uint32_t n = s->n_calls;
    uint64_t bits = XXH3_64bits_withSeed(&n, sizeof(n), s->call_seed);
    char text[10] = "";

    for (size_t i = 0; i < 9; i++, bits >>= 6)
        text[i] = letters[bits % 64];
    snprintf(call->id, sizeof(call->id), s->style.family->has_short_ids ? "%s" : "call_%s", text);
}

static char *copy_name(const char *text, size_t n)
{
    char *to = mem_alloc(n + 1);

    if (to == NULL)
        return NULL;
    memcpy(to, text, n);
    to[n] = '\0';
    return to;
}

static struct output_call *no_memory(struct output_parser *s)
{
    s->err = ERR_NOMEM;
    return NULL;
}

struct output_call *output_calls_begin(struct output_parser *s, const char *name, size_t n)
{
    struct output_call *call;

    if (n == 0 || s->n_calls == OUTPUT_MAX_CALLS)
        return NULL;
    if (s->calls == NULL)
        s->calls = mem_calloc(OUTPUT_MAX_CALLS, sizeof(*s->calls));
    if (s->calls == NULL)
        return no_memory(s);
    call = &s->calls[s->n_calls];
    *call = (struct output_call){.name = copy_name(name, n)};
    if (call->name == NULL)
        return no_memory(s);
    call->traits = call_tools_traits(s->tools, call->name);
    buf_init(&call->arguments, HTTP_MAX_REPLY / 4);
    make_id(s, call);
    if (output_pieces_add(s, OUTPUT_CALL, s->n_calls) == NULL) {
        mem_free(call->name);
        return no_memory(s);
    }
    s->n_calls++;
    return call;
}

struct output_call *output_calls_begin_literal(struct output_parser *s, const char *text, size_t n)
{
    const char *why = NULL;
    struct output_call *call = NULL;
    cJSON *name = NULL;
    const int rc = json_parse(text, n, &name, &why);

    if (rc == ERR_NOMEM)
        return no_memory(s);
    if (rc == 0 && cJSON_IsString(name) &&
        output_reader_takes(s, name->valuestring, strlen(name->valuestring)))
        call = output_calls_begin(s, name->valuestring, strlen(name->valuestring));
    cJSON_Delete(name);
    return call;
}

/* ---- whole objects ---- */

/* True: this JSON text is an object. */
static bool is_object(struct output_parser *s, const char *text)
{
    const char *why = NULL;
    cJSON *json = NULL;
    const int rc = json_parse(text, strlen(text), &json, &why);
    const bool yes = cJSON_IsObject(json);

    if (rc == ERR_NOMEM)
        s->err = rc;
    cJSON_Delete(json);
    return yes;
}

/* Finds the member with the arguments, and the function's name; NULL: there are no arguments. */
static const cJSON *find_members(const struct output_parser *s, const cJSON *object,
                                 const char **name)
{
    const char *const *members = s->style.family->members;
    const cJSON *v = NULL;

    if (members[0] == NULL) { /* {"NAME": arguments} */
        *name = cJSON_IsObject(object) && object->child != NULL ? object->child->string : NULL;
        return *name != NULL ? object->child : NULL;
    }
    *name = cJSON_GetStringValue(field_find(object, members[0]));
    for (size_t i = 1; i < 3 && v == NULL; i++)
        v = members[i] != NULL ? field_find(object, members[i]) : NULL;
    return v;
}

/* Finds the arguments as the model wrote them; a string that holds an object counts as that
 * object. */
static bool find_arguments(struct output_parser *s, const cJSON *v, const char *text, size_t n,
                           const char **arguments, size_t *len)
{
    *arguments = "{}";
    *len = 2;
    if (v == NULL)
        return true;
    if (cJSON_IsObject(v))
        return json_member_text(text, n, v->string, arguments, len);
    if (!cJSON_IsString(v) || !is_object(s, v->valuestring))
        return false;
    *arguments = v->valuestring;
    *len = strlen(v->valuestring);
    return true;
}

static bool add_whole(struct output_parser *s, const char *name, const char *arguments, size_t n)
{
    struct output_call *call = output_calls_begin(s, name, strlen(name));

    if (call == NULL)
        return false;
    buf_add(&call->arguments, arguments, n);
    call->is_over = call->is_whole = true;
    return true;
}

/* Finds the inner object of a call in the form that clients send back, {"id": …, "type":
 * "function", "function": {"name": …, "arguments": …}}: models write it because templates print
 * it. */
static const cJSON *find_inner(const struct output_parser *s, const cJSON *json,
                               const char **object, size_t *n)
{
    static const char function[] = "function";
    const char *const *members = s->style.family->members;
    const cJSON *inner = cJSON_GetObjectItemCaseSensitive(json, function);

    if (members[0] == NULL || !cJSON_IsObject(inner) || field_find(json, members[0]) != NULL)
        return json;
    return json_member_text(*object, *n, function, object, n) ? inner : json;
}

bool output_calls_add(struct output_parser *s, const char *object, size_t n)
{
    const char *why = NULL, *arguments = NULL, *name = NULL;
    const cJSON *call, *v;
    cJSON *json = NULL;
    size_t len = 0;
    bool done;

    if (json_parse(object, n, &json, &why) == ERR_NOMEM)
        s->err = ERR_NOMEM;
    call = find_inner(s, json, &object, &n);
    v = find_members(s, call, &name);
    done = name != NULL && output_reader_takes(s, name, strlen(name)) &&
           find_arguments(s, v, object, n, &arguments, &len) && add_whole(s, name, arguments, len);
    cJSON_Delete(json);
    return done;
}

/* ---- the list ---- */

void output_calls_release(struct output_parser *s)
{
    for (uint32_t i = 0; i < s->n_calls; i++) {
        mem_free(s->calls[i].name);
        buf_release(&s->calls[i].arguments);
    }
    mem_free(s->calls);
}

bool output_parser_calls_are_whole(const struct output_parser *s)
{
    for (uint32_t i = 0; i < s->n_calls; i++)
        if (!s->calls[i].is_whole)
            return false;
    return true;
}

void output_call_add_object(const struct output_call *call, struct buf *out)
{
    const struct buf *text = &call->arguments;

    if (call->is_whole)
        buf_add(out, text->data, text->len);
    else
        json_add_closed(out, text->data != NULL ? text->data : "", text->len);
}

void output_call_add_input(const struct output_call *call, struct buf *out)
{
    const char *why = NULL, *text;
    cJSON *json = NULL;
    struct buf closed;
    int rc;

    buf_init(&closed, HTTP_MAX_REPLY);
    output_call_add_object(call, &closed);
    rc = closed.err < 0 ? closed.err : json_parse(closed.data, closed.len, &json, &why);
    text = field_text(json, "input");
    if (text != NULL)
        buf_add_str(out, text);
    else if (call->is_whole)
        buf_add(out, call->arguments.data, call->arguments.len);
    if (rc < 0 && rc != ERR_INVAL && rc != ERR_LIMIT)
        out->err = rc;
    cJSON_Delete(json);
    buf_release(&closed);
}
