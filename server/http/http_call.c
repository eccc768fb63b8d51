/* server/http/http_call.c - see http_call.h.
 *
 * Thin functions over struct http_call (exchange.h). A handler's decisions change `state` and wake
 * the client's side; nothing is sent or freed here, since the handler may still be running. Buffers
 * move instead of being copied: a reply takes the caller's, take_body() gives the request's away.
 * Each change of them is counted again (exchange_hold_memory()).
 */
#include "server/http/http_call.h"

#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/base/log.h"
#include "core/base/name_copy.h"
#include "core/json/json.h"
#include "server/http/access_log.h"
#include "server/http/exchange.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* Bytes of pages that may always wait for their clients, however much memory is in use. Small pages
 * are never refused, because they show that the process is alive. Borrowed bytes count as 0. */
#define FREE_PAGE_BYTES ((uint64_t)16 << 20)
#define SMALL_PAGE_BYTES ((size_t)16 << 10)

/* ---- the request ---- */

bool http_call_is_local(const struct http_call *c)
{
    return c->is_local;
}

const void *http_call_context(const struct http_call *c)
{
    return c->context;
}

const char *http_call_path(const struct http_call *c)
{
    return c->request.target.path;
}

const char *http_call_id(const struct http_call *c)
{
    return c->id;
}

const char *http_call_header(const struct http_call *c, const char *name)
{
    return http_request_field(&c->request, name);
}

const char *http_call_query(const struct http_call *c, const char *name)
{
    const char *at = c->query;

    for (size_t i = 0; i < c->n_query; i++) {
        const char *value = at + strlen(at) + 1;

        if (strcmp(at, name) == 0)
            return value;
        at = value + strlen(value) + 1;
    }
    return NULL;
}

bool http_call_is(const struct http_call *c, enum http_methods method)
{
    const char *name = http_request_method(&c->request);

    return method == (strcmp(name, "POST") == 0     ? HTTP_POST
                      : strcmp(name, "DELETE") == 0 ? HTTP_DELETE
                                                    : HTTP_GET);
}

const void *http_call_arg(const struct http_call *c)
{
    return exchange_route(c)->arg;
}

const char *http_call_tail(const struct http_call *c)
{
    return c->tail;
}

void http_call_set_owner(struct http_call *c, void *owner, void (*release)(void *owner),
                         const char *name)
{
    exchange_drop_owner(c);
    c->owner = owner;
    c->release_owner = release;
    access_set_key(c->access, name);
}

void *http_call_owner(const struct http_call *c)
{
    return c->owner;
}

struct access *http_call_access(const struct http_call *c)
{
    return c->access;
}

uint64_t http_call_arrival_us(const struct http_call *c)
{
    return c->arrival_us;
}

uint64_t http_call_blocked_since(const struct http_call *c)
{
    return c->blocked_us;
}

const struct buf *http_call_body(const struct http_call *c)
{
    return &c->body;
}

int http_call_json(const struct http_call *c, cJSON **out, struct api_error *e)
{
    const struct http_route *route = exchange_route(c);
    const char *why = NULL;
    int rc;

    assert(route != NULL && route->max_body > 0 && route->max_body <= HTTP_SMALL_BODY);
    (void)route;
    rc = json_parse(c->body.data != NULL ? c->body.data : "", c->body.len, out, &why);
    if (rc == ERR_NOMEM)
        return api_error_no_memory(e);
    return rc == 0 ? 0
                   : api_error_set(e, 400, NULL, NULL, "the body is not valid JSON: %.100s", why);
}

struct buf http_call_take_body(struct http_call *c)
{
    struct buf body = c->body;

    c->n_kept = 0;
    exchange_hold_memory(c);
    buf_init(&c->body, body.max);
    return body;
}

void http_call_give_body(struct http_call *c, struct buf *body)
{
    buf_release(&c->body);
    c->body = *body;
    buf_init(body, c->body.max);
    c->n_kept = c->body.len;
    exchange_hold_memory(c);
}

void http_call_pause(struct http_call *c)
{
    c->is_paused = true;
}

void http_call_resume(struct http_call *c)
{
    c->is_paused = false;
    c->wake(c->client);
}

void http_call_set_received(struct http_call *c, void *received)
{
    c->received = received;
}

void *http_call_received(const struct http_call *c)
{
    return c->received;
}

void http_call_set_header(struct http_call *c, const char *name, const char *value)
{
    struct call_header *h = c->n_headers < CALL_MAX_HEADERS ? &c->headers[c->n_headers] : NULL;

    if (h != NULL && name_copy(h->name, sizeof(h->name), name) == 0 &&
        name_copy(h->value, sizeof(h->value), value) == 0)
        c->n_headers++;
    else /* a cut header could mean something else */
        log_error("http", "event=header_left_out header=%s", name);
}

void http_call_render_errors(struct http_call *c,
                             void (*render)(const struct api_error *e, struct buf *out))
{
    c->render_error = render;
}

void http_call_on_gone(struct http_call *c, void (*gone)(void *ud), void *ud)
{
    assert(!c->is_out_of_hands);
    c->gone = gone;
    c->gone_ud = ud;
}

/* ---- the answer ---- */

/* Tell the client's side to close; nothing is freed here, because the handler may still be
 * running. */
static void kill_client(struct http_call *c)
{
    c->state = CALL_DEAD;
    c->wake(c->client);
}

void http_call_reply(struct http_call *c, int status, const char *type, struct buf *body)
{
    exchange_take_from_handler(c);
    exchange_answer(c, status, type, body);
}

void exchange_answer(struct http_call *c, int status, const char *type, struct buf *body)
{
    char id[280];

    assert(c->state == CALL_RECEIVING || c->state == CALL_WAITING);
    c->is_paused = false;
    if (body->err < 0) {
        log_error("http", "event=reply_too_large id=%s err=%s", log_quote(id, sizeof(id), c->id),
                  err_name(body->err));
        buf_release(body);
        kill_client(c);
        return;
    }
    buf_release(&c->out);
    c->out = *body;
    exchange_hold_memory(c);
    *body = (struct buf){.max = body->max};
    c->status = status;
    snprintf(c->type, sizeof(c->type), "%s", type);
    c->state = CALL_REPLIED;
    c->wake(c->client);
}

void http_call_reply_error(struct http_call *c, const struct api_error *e)
{
    exchange_take_from_handler(c);
    exchange_answer_error(c, e);
}

void exchange_answer_error(struct http_call *c, const struct api_error *e)
{
    const struct http_route *route = exchange_route(c);
    struct buf body;

    buf_init(&body, HTTP_MAX_REPLY);
    if (c->render_error != NULL)
        c->render_error(e, &body);
    else if (route != NULL && route->render_error != NULL)
        route->render_error(e, &body);
    else
        api_error_render(e, &body);
    exchange_answer(c, e->status, "application/json", &body);
}

void http_call_reply_page(struct http_call *c, const char *type, struct buf *body)
{
    struct http_shared *h = c->http;
    /* Pages get a quarter of request_memory: three times their bytes must stay free. */
    const int64_t n = (int64_t)(3 * h->n_page_bytes + body->cap);
    struct api_error e;

    if (body->err == 0 && body->cap > SMALL_PAGE_BYTES &&
        h->n_page_bytes + body->cap > FREE_PAGE_BYTES) {
        if (!http_hold(h, n, true)) {
            buf_release(body);
            api_error_set(&e, 429, NULL, "request_memory",
                          "too many pages wait for clients that do not read them (they may use a "
                          "quarter of request_memory): try again later");
            http_call_reply_error(c, &e);
            return;
        }
        http_hold(h, -n, false); /* the answer's memory is counted by exchange_hold_memory() from
                                  * now on */
    }
    c->n_page = body->cap;
    h->n_page_bytes += c->n_page;
    http_call_reply(c, 200, type, body);
}

void http_call_stream(struct http_call *c, const char *type)
{
    assert(c->state == CALL_WAITING && !c->is_out_of_hands);
    c->status = 200;
    snprintf(c->type, sizeof(c->type), "%s", type);
    c->state = CALL_STREAMING;
    c->wake(c->client);
}

int http_call_write(struct http_call *c, const void *bytes, size_t n)
{
    assert(c->state == CALL_STREAMING && !c->is_out_of_hands);
    if (c->out.len - c->out_pos > HTTP_MAX_BACKLOG)
        return ERR_LIMIT;
    if (c->out_pos > EXCHANGE_KEEPS) {
        buf_consume(&c->out, c->out_pos);
        c->out_pos = 0;
    }
    if (buf_add(&c->out, bytes, n) < 0)
        return c->out.err;
    exchange_hold_memory(c);
    if (c->blocked_us == 0)
        c->blocked_us = clock_us();
    c->wake(c->client);
    return 0;
}

size_t http_call_n_waiting(const struct http_call *c)
{
    return c->out.len - c->out_pos;
}

void http_call_on_room(struct http_call *c, void (*room)(void *ud), void *ud)
{
    c->room = room;
    c->room_ud = ud;
}

void http_call_end(struct http_call *c)
{
    assert(c->state == CALL_STREAMING);
    exchange_take_from_handler(c);
    c->state = CALL_ENDED;
    c->wake(c->client);
}

void http_call_abort(struct http_call *c)
{
    exchange_take_from_handler(c);
    kill_client(c);
}
