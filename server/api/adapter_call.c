/* server/api/adapter_call.c - see adapter_call.h.
 *
 * A load is a job that waits for adapter_set_load(). It ends in one of two ways: the file was read,
 * or the client has disconnected, which cancels the wait. While it waits it counts as a job of the
 * engine client (engine_client_begin_job()), so that the model is not unloaded. Unloading and
 * listing only touch tables and are answered at once.
 */
#include "server/api/adapter_call.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/json/json.h"
#include "core/model/adapter.h"
#include "server/adapters/adapter_set.h"
#include "server/api/engine_client.h"
#include "server/api/params/field.h"
#include "server/api/params/params.h"
#include "server/api/refusal.h"
#include "server/http/http_call.h"

#include <stdio.h>
#include <string.h>

#define MAX_REPLY ((size_t)8 << 20)

struct adapter_job { /* a load */
    struct adapter_wait wait;
    struct engine_client *engine;
    struct http_call *call;
    char name[ADAPTER_SET_MAX_NAME + 1], path[ADAPTER_SET_MAX_PATH];
    bool replaces;
    struct api_error error;
};

/* ---- bodies ---- */

static int take_adapter_text(const cJSON *body, const char *name, char *to, size_t size,
                             struct api_error *e)
{
    const char *text = field_text(body, name);

    if (text == NULL || text[0] == '\0' || strlen(text) >= size)
        return api_error_set(e, 400, name, NULL, "'%s' must be a string of 1 to %zu bytes", name,
                             size - 1);
    memcpy(to, text, strlen(text) + 1);
    return 0;
}

/* Return the adapter set of the call's model. NULL: it has none, and *e is filled. */
static struct adapter_set *set_of(struct engine_client *engine, struct api_error *e)
{
    if (engine->model->adapters == NULL)
        api_error_set(e, 501, NULL, NULL,
                      "the model '%.100s' takes no adapters: start the server with the setting "
                      "adapters or adapters_dir",
                      engine->model->id);
    return engine->model->adapters;
}

static void reply_text(struct http_call *call, const char *name, const char *what)
{
    struct buf out;

    buf_init(&out, 4096);
    buf_printf(&out, "Success: LoRA adapter '%s' %s successfully.", name, what);
    http_call_reply(call, 200, "text/plain; charset=utf-8", &out);
}

/* ---- loading ---- */

/* Answer the load, with j->error if it failed, and free the job. */
static void end_adapter_job(struct adapter_job *j)
{
    if (j->error.status != 0)
        refusal_reply_error(j->engine, j->call, &j->error);
    else
        reply_text(j->call, j->name, "added");
    engine_client_end_job(j->engine);
    mem_free(j);
}

static void on_read(struct adapter_wait *w)
{
    struct adapter_job *j = list_entry(w, struct adapter_job, wait);

    j->error = w->error;
    adapter_unref(&w->adapter); /* the set has a reference of its own */
    end_adapter_job(j);
}

static void on_adapter_client_gone(void *ud)
{
    struct adapter_job *j = ud;

    adapter_wait_cancel(&j->wait);
    engine_client_end_job(j->engine);
    mem_free(j);
}

static int read_load(struct adapter_job *j)
{
    const cJSON *inplace;
    cJSON *body = NULL;
    int rc = http_call_json(j->call, &body, &j->error);

    if (rc == 0)
        rc = take_adapter_text(body, "lora_name", j->name, sizeof(j->name), &j->error);
    if (rc == 0)
        rc = take_adapter_text(body, "lora_path", j->path, sizeof(j->path), &j->error);
    inplace = rc == 0 ? field_find(body, "load_inplace") : NULL;
    if (inplace != NULL)
        rc = field_bool(inplace, "load_inplace", &j->replaces, &j->error);
    cJSON_Delete(body);
    return rc;
}

/* Begin to load. ERR_AGAIN: the file is being read, and on_read() follows. */
static int begin_load(struct adapter_job *j, bool (*is_taken)(void *ud, const char *name), void *ud)
{
    struct adapter_set *set = set_of(j->engine, &j->error);
    struct adapter_source what = {.name = j->name, .path = j->path};

    if (set == NULL || read_load(j) < 0)
        return ERR_INVAL;
    if (is_taken(ud, j->name))
        return api_error_set(&j->error, 400, "lora_name", NULL, "'%s' is the name of a model",
                             j->name);
    what.replaces = j->replaces;
    http_call_on_gone(j->call, on_adapter_client_gone, j);
    return adapter_set_load(set, &what, &j->wait, &j->error);
}

void adapter_call_load(struct engine_client *engine, struct http_call *call,
                       bool (*is_taken)(void *ud, const char *name), void *ud)
{
    struct adapter_job *j = mem_calloc(1, sizeof(*j));
    struct api_error none;

    if (j == NULL) {
        api_error_no_memory(&none);
        http_call_reply_error(call, &none);
        return;
    }
    j->wait.done = on_read;
    j->engine = engine;
    j->call = call;
    engine_client_begin_job(engine);
    if (begin_load(j, is_taken, ud) != ERR_AGAIN)
        end_adapter_job(j);
}

void adapter_call_unload(struct engine_client *engine, struct http_call *call)
{
    char name[ADAPTER_SET_MAX_NAME + 1];
    struct adapter_set *set;
    struct api_error e = {0};
    cJSON *body = NULL;

    set = set_of(engine, &e);
    if (set == NULL || http_call_json(call, &body, &e) < 0 ||
        take_adapter_text(body, "lora_name", name, sizeof(name), &e) < 0 ||
        adapter_set_unload(set, name, &e) < 0)
        http_call_reply_error(call, &e);
    else
        reply_text(call, name, "removed");
    cJSON_Delete(body);
}

/* ---- the list ---- */

static void add_adapter_item(struct buf *out, const struct adapter_info *a)
{
    buf_printf(out, "{\"id\":%u,\"name\":", a->id);
    json_add_cstring(out, a->name);
    buf_add_str(out, ",\"path\":");
    json_add_cstring(out, a->path);
    buf_printf(out, ",\"scale\":%.9g,\"rank\":%u,\"bytes\":%llu,\"loaded\":%s}", (double)a->scale,
               a->rank, (unsigned long long)a->bytes, a->is_resident ? "true" : "false");
}

static void reply_list(struct engine_client *engine, struct http_call *call)
{
    struct adapter_info a;
    struct buf out;

    buf_init(&out, MAX_REPLY);
    buf_add_char(&out, '[');
    for (uint32_t from = 0; adapter_set_next(engine->model->adapters, from, &a); from = a.id + 1) {
        if (out.len > 1)
            buf_add_char(&out, ',');
        add_adapter_item(&out, &a);
    }
    buf_add_char(&out, ']');
    http_call_reply_page(call, "application/json", &out);
}

/* Set the scales of the body's list; adapters that are not in it get the scale 0. */
static int apply(struct adapter_set *set, const cJSON *body, struct api_error *e)
{
    struct adapter_choice choice = {.name = ""};
    const cJSON *item;
    int i = 0;

    if (!cJSON_IsArray(body))
        return api_error_set(e, 400, NULL, NULL,
                             "the body must be a list of objects with id and scale");
    cJSON_ArrayForEach(item, body)
    {
        const struct field_path p = field_path("", i++, e);
        const int rc = params_take_adapter_item(set, &p, item, &choice);

        if (rc < 0)
            return rc;
    }
    return adapter_set_apply(set, &choice, e);
}

void adapter_call_list(struct engine_client *engine, struct http_call *call)
{
    struct api_error e = {0};
    struct adapter_set *set;
    cJSON *body = NULL;
    struct buf out;

    if (!http_call_is(call, HTTP_POST)) {
        reply_list(engine, call);
        return;
    }
    set = set_of(engine, &e);
    if (set == NULL || http_call_json(call, &body, &e) < 0 || apply(set, body, &e) < 0) {
        http_call_reply_error(call, &e);
    } else {
        buf_init(&out, 4096);
        buf_add_str(&out, "{\"success\":true}");
        http_call_reply_page(call, "application/json", &out);
    }
    cJSON_Delete(body);
}
