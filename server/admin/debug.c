/* server/admin/debug.c - see debug.h.
 *
 * The loop cannot read the engine's structures while a step runs. So a call asks the queue for a
 * snapshot, which the engine fills between two steps, and is put into a list with the number of the
 * snapshot that it waits for. On a later wake debug_take() renders the snapshot for all calls in
 * the list that came before it was begun. A call whose connection ended removes itself from the
 * list.
 */
#include "server/admin/debug.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "server/admin/debug_pages.h"
#include "server/api/engine_client.h"
#include "server/auth/tenants.h"
#include "server/http/http_call.h"

#include <string.h>

struct asker {
    struct list link;
    struct http_call *call;
    enum debug_page page;
    uint64_t number; /* number of the first snapshot that began after the call */
    bool wants_idle; /* 503 if no slot is idle */
    bool wants_hashes;
};

void debug_init(struct debug *g, struct engine_client *engine)
{
    g->engine = engine;
    list_init(&g->waiting);
}

static void forget_debug(struct asker *a)
{
    list_unlink(&a->link);
    mem_free(a);
}

static void on_debug_gone(void *ud)
{
    forget_debug(ud);
}

static void refuse_debug(struct http_call *call, int status, const char *message)
{
    struct api_error e;

    api_error_set(&e, status, NULL, NULL, "%s", message);
    http_call_reply_error(call, &e);
}

static bool is_set(struct http_call *call, const char *parameter)
{
    const char *value = http_call_query(call, parameter);

    return value != NULL && strcmp(value, "1") == 0;
}

void debug_ask(struct debug *g, struct http_call *call, enum debug_page page)
{
    struct asker *a;

    if (g->engine->queue == NULL || g->engine->is_draining) {
        refuse_debug(call, 503,
                     "the engine does not answer: the server is starting or shutting down");
        return;
    }
    a = mem_calloc(1, sizeof(*a));
    if (a == NULL) {
        refuse_debug(call, 500, "out of memory");
        return;
    }
    a->call = call;
    a->page = page;
    a->wants_idle = page == DEBUG_SLOTS && is_set(call, "fail_on_no_slot");
    a->wants_hashes = page == DEBUG_KV && is_set(call, "hashes");
    list_push_back(&g->waiting, &a->link);
    http_call_on_gone(call, on_debug_gone, a);
    a->number = queue_ask_snapshot(g->engine->queue);
}

/* ---- answering ---- */

static const char *tenant_name(void *ud, uint32_t tenant)
{
    return tenants_name(((struct engine_client *)ud)->shared->tenants, tenant);
}

static const char *request_name(void *ud, uint64_t id)
{
    return engine_client_request_id(ud, id);
}

static void render(const struct debug *g, const struct asker *a, const struct snapshot *s,
                   struct buf *out)
{
    const struct debug_names names = {tenant_name, request_name, g->engine};

    switch (a->page) {
    case DEBUG_REQUESTS:
        debug_render_requests(s, &names, out);
        break;
    case DEBUG_ITERATIONS:
        debug_render_iterations(s, out);
        break;
    case DEBUG_KV:
        debug_render_kv(s, &names, g->engine->model->block_tokens, g->engine->model->fetch,
                        a->wants_hashes, out);
        break;
    case DEBUG_SLOTS:
        debug_render_slots(s, g->engine->model->max_sequences, g->engine->model->max_context, out);
        break;
    }
}

static void answer_debug(const struct debug *g, struct asker *a, const struct snapshot *s)
{
    struct buf out;

    if (a->wants_idle && debug_n_running(s) >= g->engine->model->max_sequences) {
        refuse_debug(a->call, 503, "no slot available");
    } else {
        buf_init(&out, HTTP_MAX_REPLY);
        render(g, a, s, &out);
        http_call_reply_page(a->call, "application/json", &out);
    }
    forget_debug(a);
}

/* Even if all clients have disconnected, the snapshot must be released, or no other one would be
 * made. */
void debug_take(struct debug *g)
{
    const struct snapshot *s = NULL;
    uint64_t number = 0;

    if (g->engine->queue != NULL)
        s = queue_take_snapshot(g->engine->queue, &number);
    if (s == NULL)
        return;
    list_each(it, &g->waiting)
    {
        struct asker *a = list_entry(it, struct asker, link);

        if (a->number <= number)
            answer_debug(g, a, s);
    }
    queue_release_snapshot(g->engine->queue);
}

bool debug_is_idle(const struct debug *g)
{
    return list_is_empty(&g->waiting);
}

void debug_close(struct debug *g)
{
    list_each(it, &g->waiting)
    {
        struct asker *a = list_entry(it, struct asker, link);

        refuse_debug(a->call, 503, "the server is shutting down");
        forget_debug(a);
    }
}
