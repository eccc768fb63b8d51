/* tests/tools/render.c - renders chat templates for the tests that compare with Python's jinja2.
 *
 * Reads one JSON object a line: {"template": "...", "globals": {...}, "now": seconds}, or with
 * "chat" in place of the globals: a body for /v1/chat/completions. Prints one line for each:
 * {"text": "...", "code": "OK", "own": [[from, to], ...]}, where own are the bytes that the
 * template wrote, or {"error": "...", "code": "INVAL"}. For a chat "globals" are the variables that
 * the template was given, and "caps" what it was found to take.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "core/base/buf.h"
#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/base/spans.h"
#include "core/jinja/template.h"
#include "core/json/json.h"
#include "core/json/json_number.h"
#include "server/api/chat/chat_caps.h"
#include "server/api/params/params.h"

#define MAX_OUTPUT (64u << 20)

static struct value from_json(struct value_pool *pool, const cJSON *json)
{
    struct value v;

    if (cJSON_IsBool(json))
        return value_bool(cJSON_IsTrue(json));
    if (json_number_literal(json) != NULL)
        return value_number(pool, json_number_literal(json));
    if (cJSON_IsNumber(json)) {
        const double f = json->valuedouble;

        return f == (double)(int64_t)f ? value_int((int64_t)f) : value_float(f);
    }
    if (cJSON_IsString(json))
        return value_string(pool, json->valuestring, strlen(json->valuestring));
    if (cJSON_IsArray(json)) {
        v = value_list(pool);
        for (const cJSON *it = json->child; it != NULL; it = it->next)
            value_list_add(pool, v, from_json(pool, it));
        return v;
    }
    if (cJSON_IsObject(json)) {
        v = value_dict(pool);
        for (const cJSON *it = json->child; it != NULL; it = it->next)
            value_dict_set(pool, v, it->string, from_json(pool, it));
        return v;
    }
    return value_null();
}

struct reply {
    struct value_pool pool; /* of the values below */
    struct value dict;
    struct buf out;
    struct spans own;
    char err[512];
};

static void add_caps(struct reply *r, const struct chat_caps *caps)
{
    const struct value dict = value_dict(&r->pool);

    value_dict_set(&r->pool, dict, "knows_system", value_bool(caps->knows_system));
    value_dict_set(&r->pool, dict, "late_system", value_bool(caps->late_system));
    value_dict_set(&r->pool, dict, "knows_developer", value_bool(caps->knows_developer));
    value_dict_set(&r->pool, dict, "typed_content", value_bool(caps->typed_content));
    value_dict_set(&r->pool, dict, "string_arguments", value_bool(caps->string_arguments));
    value_dict_set(&r->pool, dict, "null_content", value_bool(caps->null_content));
    value_dict_set(&r->pool, dict, "full_tools", value_bool(caps->full_tools));
    value_dict_set(&r->pool, dict, "no_tools_unset", value_bool(caps->no_tools_unset));
    value_dict_set(&r->pool, dict, "refuses_none", value_bool(caps->refuses_none));
    value_dict_set(&r->pool, dict, "prints_tools", value_bool(caps->prints_tools));
    value_dict_set(&r->pool, dict, "prints_calls", value_bool(caps->prints_calls));
    value_dict_set(&r->pool, r->dict, "caps", dict);
}

/* The variables that the server makes of a chat; `body` must live as long as they do. */
static int chat_globals(struct reply *r, const struct template *t, const char *source,
                        const cJSON *body, struct params *p, struct value *globals)
{
    static const struct chat_tokens tokens = {{"<s>", 3}, {"</s>", 4}};
    const struct params_limits limits = {.model = "m", .n_vocab = 300, .n_embd = 8};
    struct api_error e = {0};
    struct chat_caps caps;
    int rc = chat_caps_probe(&caps, t, source, &tokens);

    if (rc == 0)
        rc = params_parse(p, PARAMS_CHAT, body, &limits, &e);
    if (rc < 0) {
        snprintf(r->err, sizeof(r->err), "%s", e.message);
        return rc;
    }
    add_caps(r, &caps);
    *globals = chat_values(&r->pool, p, &tokens, &caps);
    value_dict_set(&r->pool, r->dict, "globals", *globals);
    return 0;
}

static int render(const cJSON *job, struct reply *r)
{
    const char *source = cJSON_GetObjectItem(job, "template")->valuestring;
    const cJSON *now = cJSON_GetObjectItem(job, "now"), *chat = cJSON_GetObjectItem(job, "chat");
    const cJSON *given = cJSON_GetObjectItem(job, "globals");
    const struct template_options options = {.now = now != NULL ? (int64_t)now->valuedouble : 0,
                                             .own = &r->own};
    struct value globals = given != NULL ? from_json(&r->pool, given) : value_dict(&r->pool);
    struct params p = {0};
    struct template *t;
    int rc = template_create(&t, source, strlen(source), r->err, sizeof(r->err));

    if (rc == 0 && chat != NULL)
        rc = chat_globals(r, t, source, chat, &p, &globals);
    if (rc == 0)
        rc = template_render(t, &r->pool, &globals, &options, &r->out, r->err, sizeof(r->err));
    params_release(&p);
    template_destroy(&t);
    return rc;
}

static void add_own(struct reply *r)
{
    const struct value list = value_list(&r->pool);

    for (size_t i = 0; i < r->own.n; i++) {
        const struct value span = value_list(&r->pool);

        value_list_add(&r->pool, span, value_int((int64_t)r->own.at[i].from));
        value_list_add(&r->pool, span, value_int((int64_t)r->own.at[i].to));
        value_list_add(&r->pool, list, span);
    }
    value_dict_set(&r->pool, r->dict, "own", list);
}

/* Any text is a JSON string: it may hold NULs. */
static void print_reply(struct reply *r, int rc)
{
    const struct value_json how = {.item_separator = value_text(", "),
                                   .key_separator = value_text(": ")};
    const char *text = rc == 0 ? r->out.data != NULL ? r->out.data : "" : r->err;
    struct value culprit;
    struct buf line;

    r->pool.err = 0; /* the failure that is told about may be the pool's */
    r->pool.max = SIZE_MAX / 4;
    value_dict_set(&r->pool, r->dict, rc == 0 ? "text" : "error",
                   value_borrow(text, rc == 0 ? r->out.len : strlen(text)));
    value_dict_set(&r->pool, r->dict, "code", value_text(rc == 0 ? "OK" : err_name(rc)));
    if (rc == 0)
        add_own(r);
    buf_init(&line, SIZE_MAX / 4);
    value_to_json(r->dict, &how, &line, &culprit);
    puts(line.data);
    fflush(stdout);
    buf_release(&line);
}

static void answer(const cJSON *job)
{
    struct reply r = {.err = ""};
    int rc;

    value_pool_init(&r.pool, VALUE_POOL_MAX);
    buf_init(&r.out, MAX_OUTPUT);
    r.dict = value_dict(&r.pool);
    rc = render(job, &r);
    print_reply(&r, rc);
    value_pool_release(&r.pool);
    buf_release(&r.out);
    spans_release(&r.own);
}

/* Numbers are kept as json_parse() keeps them, but members may be deeper and more: jobs are larger
 * than bodies. Aborts without memory. */
static cJSON *read_job(const char *line)
{
    const size_t n = strlen(line);
    char *copy = mem_dup(line, n + 1);
    cJSON *job;

    json_number_blank_long(copy, n);
    job = cJSON_Parse(copy);
    if (job != NULL && json_number_keep(job, line, n) < 0)
        abort();
    mem_free(copy);
    return job;
}

int main(void)
{
    char *line = NULL;
    size_t cap = 0;

    while (getline(&line, &cap, stdin) > 0) {
        cJSON *job = read_job(line);

        if (!cJSON_IsString(cJSON_GetObjectItem(job, "template"))) {
            fprintf(stderr, "render: not a job: %.80s\n", line);
            return 1;
        }
        answer(job);
        cJSON_Delete(job);
    }
    free(line);
    return 0;
}
