/* server/models/model_pages.c - see model_pages.h.
 *
 * A load or an unload only sets flags in model_set.h, and is answered before it is done. The body
 * is parsed on the I/O thread: the route limits it to HTTP_SMALL_BODY. GET /debug/models writes the
 * state of each model that the settings still list.
 */
#include "server/models/model_pages.h"

#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/json/json.h"
#include "server/api/engine_client.h"
#include "server/http/http_call.h"
#include "server/models/model_router.h"

#include <inttypes.h>

/* ---- load and unload ---- */

/* Return the model's name in the body; the caller frees *body with cJSON_Delete(). */
static const char *read_model_name(struct http_call *call, cJSON **body, struct api_error *e)
{
    const cJSON *name;

    if (http_call_json(call, body, e) < 0)
        return NULL;
    name = cJSON_GetObjectItemCaseSensitive(*body, "model");
    if (cJSON_IsString(name))
        return name->valuestring;
    api_error_set(e, 400, "model", NULL, "'model' is required, and must be a string");
    return NULL;
}

static void act(struct model_set *s, struct http_call *call,
                int (*what)(struct model_set *s, struct served_model *h, struct api_error *e))
{
    struct served_model *h = NULL;
    struct api_error e = {0};
    cJSON *body = NULL;
    const char *name = read_model_name(call, &body, &e);
    struct buf b;

    if (name != NULL && (h = model_router_find(s->opt.models, s->opt.n, name)) == NULL)
        api_error_no_model(&e, name);
    cJSON_Delete(body);
    if (h == NULL || what(s, h, &e) < 0) {
        http_call_reply_error(call, &e);
        return;
    }
    buf_init(&b, 64);
    buf_add_str(&b, "{\"success\":true}");
    http_call_reply(call, 200, "application/json", &b);
}

void model_pages_load(struct model_set *s, struct http_call *call)
{
    act(s, call, model_set_load);
}

void model_pages_unload(struct model_set *s, struct http_call *call)
{
    act(s, call, model_set_unload);
}

/* ---- GET /debug/models ---- */

static double seconds(uint64_t us)
{
    return (double)us / 1e6;
}

static void add_times(struct buf *b, const struct model_set *s, const struct served_model *h)
{
    const struct model_life *l = &h->life;
    const uint64_t now = clock_us();

    if (l->state == MODEL_LOADING)
        buf_printf(b, ",\"loading_s\":%.3f,\"ready_in_ms\":%u", seconds(now - l->begin_us),
                   model_set_wait_ms(s, h));
    if (l->state == MODEL_READY)
        buf_printf(b, ",\"loaded_s\":%.3f,\"is_busy\":%s,\"is_held\":%s",
                   seconds(now - l->ready_us), served_model_is_idle(h) ? "false" : "true",
                   l->is_held ? "true" : "false");
    if (h->engine->used_us > 0)
        buf_printf(b, ",\"unused_s\":%.3f",
                   h->engine->n_jobs > 0 ? 0.0 : seconds(now - h->engine->used_us));
    if (l->idle_us != UINT64_MAX)
        buf_printf(b, ",\"idle_unload_s\":%.3f", seconds(l->idle_us));
}

static void add_model_entry(struct buf *b, const struct model_set *s, struct served_model *h)
{
    const struct model_life *l = &h->life;

    model_set_tell(h);
    buf_add_str(b, "{\"id\":");
    json_add_cstring(b, h->model.id);
    buf_printf(b,
               ",\"state\":\"%s\",\"bytes\":%" PRIu64 ",\"keep_loaded\":%s,\"calls\":%u,"
               "\"waiting\":%u,\"loads\":%" PRIu64 ",\"unloads\":%" PRIu64 ",\"failures\":%" PRIu64
               ",\"load_s\":%.3f",
               h->model.state, l->bytes, h->model.is_pinned || h->model.stays ? "true" : "false",
               h->engine->n_jobs, l->waits.n, l->n_loads, l->n_unloads, l->n_failures,
               seconds(l->load_us));
    add_times(b, s, h);
    if (h->model.failure != NULL) {
        buf_add_str(b, ",\"reason\":");
        json_add_cstring(b, h->model.failure);
    }
    buf_add_char(b, '}');
}

void model_pages_debug(struct model_set *s, struct http_call *call)
{
    const char *comma = "";
    struct buf b;

    buf_init(&b, (size_t)1 << 20);
    buf_printf(&b, "{\"memory_limit\":%" PRIu64 ",\"process_bytes\":%" PRIu64 ",\"models\":[",
               s->opt.memory.limit, s->opt.memory.base);
    for (uint32_t i = 0; i < s->opt.n; i++) {
        if (s->opt.models[i].life.is_gone)
            continue;
        buf_add_str(&b, comma);
        add_model_entry(&b, s, &s->opt.models[i]);
        comma = ",";
    }
    buf_add_str(&b, "]}");
    http_call_reply_page(call, "application/json", &b);
}
