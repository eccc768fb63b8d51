/* server/admin/anthropic_pages.c - see anthropic_pages.h.
 *
 * The models are an array, so a page is a range of its indexes: after_id and before_id are looked
 * up by name, and `limit` gives the other end. The JSON objects of the models in the range are then
 * written in order.
 */
#include "server/admin/anthropic_pages.h"

#include "core/base/err.h"
#include "core/json/json.h"
#include "server/api/server_options.h"
#include "server/http/http_call.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define DEFAULT_LIMIT 20
#define MAX_LIMIT 1000

bool anthropic_pages_are_wanted(const struct http_call *call)
{
    return http_call_header(call, "anthropic-version") != NULL;
}

static void add_anthropic_model(struct buf *b, const struct server_model *m)
{
    const time_t when = (time_t)m->created;
    char text[32] = "";
    struct tm t;

    if (gmtime_r(&when, &t) != NULL)
        strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &t);
    buf_add_str(b, "{\"type\":\"model\",\"id\":");
    json_add_cstring(b, m->id);
    buf_add_str(b, ",\"display_name\":");
    json_add_cstring(b, m->id);
    buf_printf(b, ",\"created_at\":\"%s\",\"lifecycle\":\"active\",\"max_input_tokens\":%u,"
               "\"max_tokens\":%u}", text, m->max_context, m->max_context);
}

static void add_model_id(struct buf *b, const char *name, const struct server_model *m)
{
    buf_printf(b, ",\"%s\":", name);
    if (m != NULL)
        json_add_cstring(b, m->id);
    else
        buf_add_str(b, "null");
}

struct page { /* from models[first] to models[end - 1] */
    uint32_t first, end;
};

/* Return the index of the model with that id; n: there is none. */
static uint32_t model_place(const struct server_model *const *models, uint32_t n, const char *id)
{
    uint32_t i = 0;

    while (i < n && strcmp(models[i]->id, id) != 0)
        i++;
    return i;
}

static int refuse_id(const char *name, struct api_error *e)
{
    return api_error_set(e, 400, name, NULL, "'%s' must be the id of a served model", name);
}

/* Read the parameter `limit`, 1 to MAX_LIMIT; 0 with *e filled. */
static uint32_t read_limit(const struct http_call *call, struct api_error *e)
{
    const char *text = http_call_query(call, "limit");
    const unsigned long limit = text != NULL ? strtoul(text, NULL, 10) : DEFAULT_LIMIT;

    if (text == NULL || (text[strspn(text, "0123456789")] == '\0' && limit >= 1 &&
                         limit <= MAX_LIMIT))
        return (uint32_t)limit;
    api_error_set(e, 400, "limit", NULL, "'limit' must be from 1 to %d", MAX_LIMIT);
    return 0;
}

/* Read the range from the query. 0, or a negative ERR_* with *e filled. */
static int read_page(const struct http_call *call, const struct server_model *const *models,
                     uint32_t n, struct page *page, struct api_error *e)
{
    const char *after = http_call_query(call, "after_id");
    const char *before = http_call_query(call, "before_id");
    const uint32_t limit = read_limit(call, e);

    *page = (struct page){0, n};
    if (limit == 0)
        return ERR_INVAL;
    if (after != NULL && (page->first = model_place(models, n, after) + 1) > n)
        return refuse_id("after_id", e);
    if (before != NULL && (page->end = model_place(models, n, before)) == n)
        return refuse_id("before_id", e);
    if (page->end < page->first)
        page->end = page->first;
    if (page->end - page->first <= limit)
        return 0;
    if (before != NULL) /* the page has the models directly before before_id */
        page->first = page->end - limit;
    else
        page->end = page->first + limit;
    return 0;
}

void anthropic_pages_models(struct http_call *call, const struct server_model *const *models,
                            uint32_t n)
{
    const bool goes_back = http_call_query(call, "before_id") != NULL;
    bool has_more;
    struct page page = {0};
    struct api_error e;
    struct buf b;

    if (read_page(call, models, n, &page, &e) < 0) {
        http_call_reply_error(call, &e);
        return;
    }
    has_more = goes_back ? page.first > 0 : page.end < n;
    buf_init(&b, (size_t)64 << 10);
    buf_add_str(&b, "{\"data\":[");
    for (uint32_t i = page.first; i < page.end; i++) {
        if (i > page.first)
            buf_add_char(&b, ',');
        add_anthropic_model(&b, models[i]);
    }
    buf_printf(&b, "],\"has_more\":%s", has_more ? "true" : "false");
    add_model_id(&b, "first_id", page.first < page.end ? models[page.first] : NULL);
    add_model_id(&b, "last_id", page.first < page.end ? models[page.end - 1] : NULL);
    buf_add_char(&b, '}');
    http_call_reply_page(call, "application/json", &b);
}

void anthropic_pages_model(struct http_call *call, const struct server_model *m)
{
    struct buf b;

    buf_init(&b, 4096);
    add_anthropic_model(&b, m);
    http_call_reply_page(call, "application/json", &b);
}
