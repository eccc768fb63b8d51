/* server/http/local_call.c - see local_call.h.
 *
 * A local call builds the head as a client would send it, makes an exchange with itself as the
 * client's side, and feeds the body in one piece. When the handler has decided, the call is put on
 * `woken`, and a prepare handle finishes it before the loop sleeps. `done` is never called from
 * inside a handler.
 */
#include "server/http/local_call.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "server/http/exchange.h"
#include "server/http/head_check.h"
#include "server/http/proxy_headers.h"
#include "server/process/loop_guard.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- the answer ---- */

static void drop_texts(struct local_call *c)
{
    mem_free(c->texts);
    c->texts = NULL;
}

static void end_call(struct local_call *c)
{
    list_unlink(&c->link);
    list_unlink(&c->woken);
    exchange_end(c->call);
    c->call = NULL;
    drop_texts(c);
}

static const char *header_of(const struct http_call *call, const char *name)
{
    for (size_t i = 0; i < call->n_headers; i++)
        if (strcasecmp(call->headers[i].name, name) == 0)
            return call->headers[i].value;
    return NULL;
}

/* Pass the answer to the caller. The exchange ends first, so that its memory is free when the
 * caller starts the next call. */
static void finish_call(struct local_call *c)
{
    struct http_call *call = c->call;
    const char *retry = header_of(call, "Retry-After"),
               *should = header_of(call, "x-should-retry");
    struct local_reply reply = {
        .retry_after_s = retry != NULL ? (uint32_t)strtoul(retry, NULL, 10) : 0,
        .is_final = should != NULL && strcmp(should, "false") == 0};
    struct buf body = {0};

    if (call->state == CALL_REPLIED) {
        reply.status = call->status;
        call->has_head_sent = true;
        call->n_sent = call->out.len;
        body = call->out;
        call->out = (struct buf){.max = body.max};
    }
    end_call(c);
    reply.body = &body;
    c->done(c, &reply);
    buf_release(&body);
}

/* Called when the handler has written: the call is finished if the answer has ended or was aborted,
 * not while it still streams. */
static void on_local_wake(void *client)
{
    struct local_call *c = client;

    if (list_is_empty(&c->woken) && c->call != NULL && c->call->state != CALL_STREAMING)
        list_push_back(&c->group->woken, &c->woken);
}

static void on_sleepless(uv_idle_t *idle)
{
    (void)idle;
}

static void on_before_sleep(uv_prepare_t *handle)
{
    LOOP_CALLBACK(handle->loop, "local_calls.before_sleep");
    struct local_calls *group = handle->data;
    struct list woken;

    /* Callers may start other calls; if these are refused, their answers are passed in the next
     * turn. */
    list_init(&woken);
    list_move_back(&woken, &group->woken);
    while (!list_is_empty(&woken) && !loop_guard_is_due(handle->loop))
        finish_call(list_entry(woken.next, struct local_call, woken));
    list_move_front(&group->woken, &woken); /* the next turn begins with these */
    if (list_is_empty(&group->woken))
        uv_idle_stop(&group->sleepless);
    else
        uv_idle_start(&group->sleepless, on_sleepless);
}

/* ---- the request ---- */

/* Bytes of the request line without its path. */
#define LINE_AROUND_PATH (sizeof("POST  HTTP/1.1") - 1)

/* True: a header field may have that value. */
static bool is_field_value(const char *text)
{
    for (; *text != '\0'; text++)
        if (((unsigned char)*text < 0x20 && *text != '\t') || *text == 0x7f)
            return false;
    return true;
}

/* Copy the request's texts into one allocation that lasts as long as the call. */
static int copy_texts(struct local_call *c, const struct local_request *r, size_t n_path,
                      size_t n_id)
{
    const size_t n_tenant = strlen(r->tenant) + 1;

    if (n_path - 1 + LINE_AROUND_PATH > HTTP_MAX_LINE || n_path + n_id + n_tenant > HTTP_MAX_HEAD)
        return ERR_INVAL;
    c->texts = mem_alloc(n_path + n_id + n_tenant);
    if (c->texts == NULL)
        return ERR_NOMEM;
    memcpy(c->texts, r->path, n_path);
    memcpy(c->texts + n_path, r->id, n_id);
    memcpy(c->texts + n_path + n_id, r->tenant, n_tenant);
    return 0;
}

static int make_local_request(struct local_call *c, const struct local_request *r,
                              struct http_request *out)
{
    const size_t n_path = strlen(r->path) + 1, n_id = strlen(r->id) + 1;
    int rc;

    if (r->path[0] != '/' || !is_field_value(r->id) || !is_field_value(r->tenant))
        return ERR_INVAL;
    rc = copy_texts(c, r, n_path, n_id);
    if (rc < 0)
        return rc;
    *out = (struct http_request){.method = "POST", .keeps_alive = true, .n_fields = 1};
    out->fields[0] = (struct http_field){.name = "X-Request-Id", .value = c->texts + n_path};
    if (r->tenant[0] != '\0')
        out->fields[out->n_fields++] =
            (struct http_field){.name = proxy_header_name(PROXY_FAIRNESS_ID),
                                .value = c->texts + n_path + n_id};
    rc = http_target_parse(&out->target, c->texts, out->method);
    out->target.host = "localhost";
    return rc;
}

/* Admit and dispatch the call; its body is counted as that of any client. */
static void dispatch_call(struct http_call *call, const struct local_request *r)
{
    const struct http_options *o = &call->http->opt;
    size_t n = r->body->len;

    if (r->owner != NULL)
        http_call_set_owner(call, r->owner, r->release_owner, r->owner_name);
    if (o->admit(o->ud, call, o->routes[call->route].flags) < 0)
        return;
    exchange_receive(call, r->body->data, &n);
    exchange_dispatch(call);
}

int local_call_start(struct local_call *c, struct local_calls *group,
                     const struct local_request *r)
{
    struct http_request request;
    int rc;

    c->group = group;
    c->call = NULL;
    c->texts = NULL;
    list_init(&c->link);
    list_init(&c->woken);
    rc = make_local_request(c, r, &request);
    if (rc == 0) {
        c->call = exchange_create(group->http, c, on_local_wake, &request);
        rc = c->call != NULL ? 0 : ERR_NOMEM;
    }
    if (rc == 0 && !head_find_route(c->call))
        rc = ERR_NOENT;
    if (rc == 0) {
        c->call->is_trusted = c->call->is_local = true;
        c->call->context = r->context;
        list_push_back(&group->all, &c->link);
        dispatch_call(c->call, r);
    } else if (c->call != NULL) {
        end_call(c);
    } else {
        drop_texts(c);
    }
    return rc;
}

void local_call_cancel(struct local_call *c)
{
    if (c->call != NULL)
        end_call(c);
}

/* ---- all calls ---- */

/* The init and start functions of both handles cannot fail. */
void local_calls_start(struct local_calls *group, struct http_shared *http)
{
    *group = (struct local_calls){.http = http};
    list_init(&group->all);
    list_init(&group->woken);
    uv_prepare_init(http->opt.loop, &group->before_sleep);
    uv_idle_init(http->opt.loop, &group->sleepless);
    group->before_sleep.data = group->sleepless.data = group;
    uv_prepare_start(&group->before_sleep, on_before_sleep);
    group->is_open = true;
}

void local_calls_stop(struct local_calls *group)
{
    if (!group->is_open)
        return;
    while (!list_is_empty(&group->all))
        end_call(list_entry(group->all.next, struct local_call, link));
    uv_close((uv_handle_t *)&group->before_sleep, NULL);
    uv_close((uv_handle_t *)&group->sleepless, NULL);
    group->is_open = false;
}
