/* tests/tools/render.c - renders chat templates for the tests that compare with Python's jinja2.
 *
 * Reads one JSON object a line: {"template": "...", "globals": {...}, "now": seconds}. Prints one
 * line for each: {"text": "...", "code": "OK"}, or {"error": "...", "code": "INVAL"}.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "core/base/buf.h"
#include "core/base/err.h"
#include "core/jinja/template.h"

#define MAX_OUTPUT (64u << 20)

static struct value from_json(struct value_pool *pool, const cJSON *json)
{
    struct value v;

    if (cJSON_IsBool(json))
        return value_bool(cJSON_IsTrue(json));
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

static int render(const cJSON *job, struct value_pool *pool, struct buf *out, char *err,
                  size_t err_len)
{
    const cJSON *source = cJSON_GetObjectItem(job, "template");
    const cJSON *now = cJSON_GetObjectItem(job, "now");
    const struct template_options options = {
        .now = now != NULL ? (int64_t)now->valuedouble : 0,
    };
    const cJSON *given = cJSON_GetObjectItem(job, "globals");
    const struct value globals = given != NULL ? from_json(pool, given) : value_dict(pool);
    struct template *t;
    int rc;

    rc = template_create(&t, source->valuestring, strlen(source->valuestring), err, err_len);
    if (rc == 0)
        rc = template_render(t, pool, &globals, &options, out, err, err_len);
    template_destroy(&t);
    return rc;
}

/* Any text is a JSON string: it may hold NULs. */
static void print_reply(struct value_pool *pool, int rc, const char *text, size_t n)
{
    const struct value_json how = {.item_separator = value_text(", "),
                                   .key_separator = value_text(": ")};
    const struct value reply = value_dict(pool);
    struct value culprit;
    struct buf line;

    value_dict_set(pool, reply, rc == 0 ? "text" : "error", value_borrow(text, n));
    value_dict_set(pool, reply, "code", value_text(rc == 0 ? "OK" : err_name(rc)));
    buf_init(&line, SIZE_MAX / 4);
    value_to_json(reply, &how, &line, &culprit);
    puts(line.data);
    fflush(stdout);
    buf_release(&line);
}

static void answer(const cJSON *job)
{
    struct value_pool pool, reply_pool;
    struct buf out;
    char err[512];
    int rc;

    value_pool_init(&pool, VALUE_POOL_MAX);
    buf_init(&out, MAX_OUTPUT);
    rc = render(job, &pool, &out, err, sizeof(err));
    value_pool_init(&reply_pool, 1 << 20);
    print_reply(&reply_pool, rc, rc == 0 ? out.data : err, rc == 0 ? out.len : strlen(err));
    value_pool_release(&reply_pool);
    buf_release(&out);
    value_pool_release(&pool);
}

int main(void)
{
    char *line = NULL;
    size_t cap = 0;

    while (getline(&line, &cap, stdin) > 0) {
        cJSON *job = cJSON_Parse(line);

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
