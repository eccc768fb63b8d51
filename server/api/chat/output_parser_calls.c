/* server/api/chat/output_parser_calls.c - the text of tool calls as names and arguments. */
#include "server/api/chat/output_parser_impl.h"

#include "core/base/err.h"
#include "core/base/json.h"
#include "core/base/mem.h"
#include "server/api/params/field.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

struct slice {
    const char *p;
    size_t n;
};

static struct slice trim(struct slice s)
{
    while (s.n > 0 && strchr(" \t\r\n", s.p[0]) != NULL) {
        s.p++;
        s.n--;
    }
    while (s.n > 0 && strchr(" \t\r\n", s.p[s.n - 1]) != NULL)
        s.n--;
    return s;
}

/* Nine letters and digits behind "call_" as clients know it from OpenAI; Mistral's templates want
 * nothing but the nine. */
static void make_id(const struct output_parser *s, struct output_call *call)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                  "0123456789xy";
    unsigned char random[9] = {0};
    char text[10] = "";

    (void)!getrandom(random, sizeof(random), 0);
    for (size_t i = 0; i < sizeof(random); i++)
        text[i] = letters[random[i] % 64];
    snprintf(call->id, sizeof(call->id), s->style.syntax == OUTPUT_MISTRAL ? "%s" : "call_%s",
             text);
}

static char *copy(struct slice s)
{
    char *text = mem_alloc(s.n + 1);

    if (text == NULL)
        return NULL;
    memcpy(text, s.p, s.n);
    text[s.n] = '\0';
    return text;
}

static bool add_call(struct output_parser *s, struct slice name, struct slice arguments)
{
    struct output_call *call;

    if (s->calls == NULL)
        s->calls = mem_calloc(OUTPUT_MAX_CALLS, sizeof(*s->calls));
    if (s->calls == NULL || s->n_calls == OUTPUT_MAX_CALLS || name.n == 0)
        return false;
    call = &s->calls[s->n_calls];
    call->name = copy(name);
    call->arguments = copy(arguments);
    if (call->name == NULL || call->arguments == NULL) {
        s->err = ERR_NOMEM;
        mem_free(call->name);
        mem_free(call->arguments);
        *call = (struct output_call){{0}, NULL, NULL};
        return false;
    }
    make_id(s, call);
    s->n_calls++;
    return true;
}

static void forget_calls(struct output_parser *s, uint32_t from)
{
    for (uint32_t i = from; i < s->n_calls; i++) {
        mem_free(s->calls[i].name);
        mem_free(s->calls[i].arguments);
        s->calls[i] = (struct output_call){{0}, NULL, NULL};
    }
    s->n_calls = from;
}

/* The arguments as the model wrote them; a string that holds an object is that object. */
static struct slice arguments_of(const cJSON *v, struct slice raw, cJSON **inner)
{
    const char *why = NULL;

    *inner = NULL;
    if (!cJSON_IsString(v))
        return raw;
    if (json_parse(v->valuestring, strlen(v->valuestring), inner, &why) < 0)
        return (struct slice){NULL, 0};
    if (cJSON_IsObject(*inner))
        return (struct slice){v->valuestring, strlen(v->valuestring)};
    return (struct slice){NULL, 0};
}

/* One object with a name and arguments, whose text is `raw`. */
static bool add_object(struct output_parser *s, const cJSON *object, struct slice raw)
{
    const cJSON *name = field_find(object, "name");
    const char *key = field_find(object, "arguments") != NULL ? "arguments" : "parameters";
    const cJSON *arguments = field_find(object, key);
    struct slice text = {"{}", 2};
    cJSON *inner = NULL;
    bool done;

    if (!cJSON_IsObject(object) || !cJSON_IsString(name))
        return false;
    if (arguments != NULL && !cJSON_IsObject(arguments) && !cJSON_IsString(arguments))
        return false;
    if (arguments != NULL && !json_member_text(raw.p, raw.n, key, &text.p, &text.n))
        return false;
    if (arguments != NULL)
        text = arguments_of(arguments, text, &inner);
    done = text.p != NULL &&
           add_call(s, (struct slice){name->valuestring, strlen(name->valuestring)}, text);
    cJSON_Delete(inner);
    return done;
}

/* An object, or a list of them. */
static bool add_json(struct output_parser *s, struct slice body)
{
    const char *why = NULL;
    cJSON *json = NULL;
    bool fine;
    size_t i = 0;

    body = trim(body);
    if (json_parse(body.p, body.n, &json, &why) < 0)
        return false;
    fine = cJSON_IsArray(json) ? json->child != NULL : add_object(s, json, body);
    for (const cJSON *it = cJSON_IsArray(json) ? json->child : NULL; fine && it != NULL;
         it = it->next) {
        struct slice raw = {NULL, 0};

        fine = json_element_text(body.p, body.n, i++, &raw.p, &raw.n) && add_object(s, it, raw);
    }
    cJSON_Delete(json);
    return fine;
}

/* Up to `mark`, which is passed over; false when it is not there. */
static bool cut_at(struct slice *rest, const char *mark, struct slice *before)
{
    const size_t n = strlen(mark);

    for (size_t i = 0; i + n <= rest->n; i++)
        if (memcmp(rest->p + i, mark, n) == 0) {
            *before = (struct slice){rest->p, i};
            *rest = (struct slice){rest->p + i + n, rest->n - i - n};
            return true;
        }
    return false;
}

/* <｜tool▁call▁begin｜>function<｜tool▁sep｜>NAME\n```json\n{…}\n```<｜tool▁call▁end｜>, repeated */
static bool add_deepseek(struct output_parser *s, struct slice body)
{
    struct slice skipped, name, fence, arguments;
    uint32_t n = 0;

    while (cut_at(&body, "<｜tool▁sep｜>", &skipped)) {
        const char *why = NULL;
        cJSON *json = NULL;
        bool fine;

        if (!cut_at(&body, "\n", &name) || !cut_at(&body, "```json", &fence) ||
            !cut_at(&body, "```", &arguments))
            return false;
        arguments = trim(arguments);
        fine = json_parse(arguments.p, arguments.n, &json, &why) == 0 && cJSON_IsObject(json);
        cJSON_Delete(json);
        if (!fine || !add_call(s, trim(name), arguments))
            return false;
        n++;
    }
    return n > 0;
}

/* An object that is the arguments of the recipient. */
static bool add_arguments(struct output_parser *s, struct slice body)
{
    const char *why = NULL;
    cJSON *json = NULL;
    bool fine;

    body = trim(body);
    fine = json_parse(body.p, body.n, &json, &why) == 0 && cJSON_IsObject(json);
    cJSON_Delete(json);
    return fine && add_call(s, (struct slice){s->recipient, strlen(s->recipient)}, body);
}

/* Objects, with semicolons between them. */
static bool add_llama3(struct output_parser *s, struct slice body)
{
    struct slice one;

    while (cut_at(&body, "};", &one)) {
        one.n++; /* the brace belongs to it */
        if (!add_json(s, one))
            return false;
    }
    return add_json(s, body);
}

bool output_parser_add_calls(struct output_parser *s, const char *text, size_t n)
{
    const uint32_t before = s->n_calls;
    const struct slice body = {text, n};
    bool fine = false;

    switch (s->style.syntax) {
    case OUTPUT_HERMES:
    case OUTPUT_MISTRAL:
    case OUTPUT_GRANITE:
    case OUTPUT_FORCED:
        fine = add_json(s, body);
        break;
    case OUTPUT_LLAMA3: /* a semicolon may also stand in a string: then it is one object */
        fine = add_json(s, body);
        if (!fine) {
            forget_calls(s, before);
            fine = add_llama3(s, body);
        }
        break;
    case OUTPUT_DEEPSEEK:
        fine = add_deepseek(s, body);
        break;
    case OUTPUT_HARMONY:
    case OUTPUT_FORCED_NAMED:
        fine = add_arguments(s, body);
        break;
    }
    if (!fine)
        forget_calls(s, before);
    return fine;
}
