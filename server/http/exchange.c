/* server/http/exchange.c - see exchange.h and http.h. */
#include "server/http/exchange.h"

#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/base/hex.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/name_copy.h"
#include "server/http/access_log.h"
#include "server/process/loop_guard.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

/* A refused body is read to its end, so that the client gets to see the answer instead of a
 * reset, up to so many times the limit. */
#define DISCARD_FACTOR 4
/* Bytes of a request id that is echoed. */
#define MAX_GIVEN_ID 128
/* Random bytes of an id of our own. */
#define ID_BYTES 8
/* Most bytes of a body that its route receives piece by piece and has not taken. */
#define MAX_PIECE ((size_t)1 << 20)
/* A drained backlog larger than this is given back instead of kept for the next write. */
#define BACKLOG_KEEP ((size_t)64 << 10)
/* Pages that wait for their clients may take so much whatever else is in memory; small ones are
 * answered in any case, for they tell whether the process lives. */
#define FREE_PAGE_BYTES ((uint64_t)16 << 20)
#define SMALL_PAGE_BYTES ((size_t)16 << 10)

const struct http_route *exchange_route(const struct http_call *c)
{
    const struct http_options *o = &c->http->opt;

    return c->route < o->n_routes ? &o->routes[c->route] : NULL;
}

/* The next n bytes; the kernel is asked for those of many requests at once. Without entropy (early
 * in a boot) they are zeros, which does an id no harm. */
static const unsigned char *take_random(struct http_shared *h, size_t n)
{
    if (h->n_random < n) {
        if (getrandom(h->random, sizeof(h->random), GRND_NONBLOCK) < 0)
            memset(h->random, 0, sizeof(h->random));
        h->n_random = sizeof(h->random);
    }
    h->n_random -= n;
    return h->random + h->n_random;
}

/* The client's X-Request-Id if it can be echoed safely, else one of our own. */
static void choose_id(struct http_call *c)
{
    const char *given = http_call_header(c, "X-Request-Id");
    char digits[2 * ID_BYTES + 1];
    size_t n = 0;

    while (given != NULL && given[n] > 0x20 && given[n] < 0x7f)
        n++;
    if (n > 0 && n <= MAX_GIVEN_ID && given[n] == '\0') {
        memcpy(c->id, given, n + 1);
        return;
    }
    hex_write(digits, take_random(c->http, ID_BYTES), ID_BYTES);
    snprintf(c->id, sizeof(c->id), "req-%s", digits);
}

/* ?a=b&c=d as decoded pairs; a name without a value is none. */
static int read_query(struct http_call *c, const char *text)
{
    char *out = c->query = mem_alloc(strlen(text) + 2);

    if (out == NULL)
        return ERR_NOMEM;
    for (size_t n = 0; *text != '\0'; text += n + (text[n] == '&')) {
        char *equals;

        n = strcspn(text, "&");
        memcpy(out, text, n);
        out[n] = '\0';
        equals = strchr(out, '=');
        if (equals == NULL)
            continue;
        *equals++ = '\0';
        http_percent_decode(out, true);
        http_percent_decode(equals, true);
        memmove(out + strlen(out) + 1, equals, strlen(equals) + 1);
        out += strlen(out) + 1;
        out += strlen(out) + 1;
        c->n_query++;
    }
    return 0;
}

struct http_call *exchange_create(struct http_shared *h, void *client, void (*wake)(void *client),
                                  const struct http_request *request)
{
    const char *method = http_request_method(request), *path = request->target.path;
    const size_t n_tail = path != NULL ? strlen(path) : 0; /* at most */
    struct http_call *c = mem_calloc(1, sizeof(*c) + n_tail + 1);

    if (c == NULL)
        return NULL;
    c->http = h;
    c->wake = wake;
    c->client = client;
    c->request = *request;
    c->tail = (char *)(c + 1);
    c->route = h->opt.n_routes;
    c->is_head = strcmp(method, "HEAD") == 0;
    c->closes = !request->keeps_alive;
    buf_init(&c->body, h->opt.max_body);
    buf_init(&c->out, HTTP_MAX_REPLY);
    if (request->target.query != NULL && read_query(c, request->target.query) < 0) {
        mem_free(c);
        return NULL;
    }
    choose_id(c);
    c->access = access_begin(c->id, method[0] != '\0' ? method : "-");
    return c;
}

/* Its body and what of its answer has not gone. */
static void hold(struct http_call *c)
{
    const uint64_t now = c->n_kept + c->out.cap;

    http_hold(c->http, (int64_t)(now - c->n_held), false);
    c->n_held = now;
}

static void drop_owner(struct http_call *c)
{
    if (c->owner != NULL)
        c->release_owner(c->owner);
    c->owner = NULL;
}

/* Once at most; the handler may not touch the call any more. */
static void tell_gone(struct http_call *c)
{
    void (*gone)(void *ud) = c->gone;

    c->gone = NULL;
    c->room = NULL;
    c->received = NULL;
    if (gone != NULL)
        gone(c->gone_ud);
}

/* 499: the client went before there was an answer (nginx's number). */
void exchange_end(struct http_call *c)
{
    const struct http_options *o = &c->http->opt;
    const int status = c->has_head_sent ? c->status : 499;

    tell_gone(c);
    o->done(o->ud, c->route, status);
    access_end(c->access, c->route < o->n_routes ? o->routes[c->route].path : "other", status,
               c->n_sent);
    if (c->is_owed)
        c->http->n_owed--;
    buf_release(&c->body);
    buf_release(&c->out);
    c->n_kept = 0;
    hold(c);
    c->http->n_page_bytes -= c->n_page;
    drop_owner(c);
    mem_free(c->query);
    mem_free(c);
}

/* ---- the request ---- */

void exchange_refuse(struct http_call *c, int status, const char *code, const char *message)
{
    struct api_error e;

    tell_gone(c); /* a handler that had begun to receive the body */
    api_error_set(&e, status, NULL, code, "%s", message);
    c->is_discarding = true;
    http_call_reply_error(c, &e);
}

uint64_t exchange_max_body(const struct http_call *c)
{
    const struct http_route *route = exchange_route(c);
    const uint64_t max = c->http->opt.max_body;

    if (route == NULL || !http_call_is(c, HTTP_POST))
        return max;
    if (route->receive != NULL)
        return c->http->opt.max_upload;
    return route->max_body > 0 && route->max_body < max ? route->max_body : max;
}

/* The body that may still come is discarded. */
void exchange_refuse_body(struct http_call *c)
{
    char why[100];

    snprintf(why, sizeof(why), "the request's body is too large: this path takes %" PRIu64 " bytes",
             exchange_max_body(c));
    exchange_refuse(c, 413, NULL, why);
}

static void hand_on(struct http_call *c, const struct http_route *route)
{
    const struct http_options *o = &c->http->opt;

    if (c->n_received > o->max_upload)
        exchange_refuse_body(c);
    else
        route->receive(o->ud, c);
    c->is_discarding = c->state != CALL_RECEIVING;
}

/* What GET brings is read and forgotten. */
int exchange_receive(struct http_call *c, const char *bytes, size_t n)
{
    const uint64_t max = exchange_max_body(c);
    const struct http_route *route = exchange_route(c);

    c->n_received += n;
    if (c->n_received / DISCARD_FACTOR > max) {
        if (!c->is_discarding)
            exchange_refuse_body(c);
        return ERR_LIMIT;
    }
    if (c->is_discarding || c->state != CALL_RECEIVING ||
        (route != NULL && (route->methods & HTTP_GET) != 0 && !http_call_is(c, HTTP_POST)))
        return 0;
    if (!http_hold(c->http, (int64_t)n, true)) {
        exchange_refuse(c, 429, "request_memory",
                        "the memory for requests (request_memory) is in use");
        return 0;
    }
    c->n_kept += n;
    c->n_held += n;
    if (route != NULL && route->receive != NULL)
        c->body.max = MAX_PIECE;
    else
        c->body.max = max;
    if (buf_add(&c->body, bytes, n) < 0 && c->body.err == ERR_LIMIT)
        exchange_refuse_body(c);
    else if (c->body.err < 0)
        exchange_refuse(c, 503, NULL, "there is no memory for the request's body");
    else if (route != NULL && route->receive != NULL)
        hand_on(c, route);
    return 0;
}

void exchange_dispatch(struct http_call *c)
{
    const struct http_options *o = &c->http->opt;

    if (c->state != CALL_RECEIVING)
        return;
    c->state = CALL_WAITING;
    c->is_owed = true;
    c->http->n_owed++;
    c->arrival_us = clock_us();
    LOOP_PART(o->loop, o->routes[c->route].path);
    o->routes[c->route].handle(o->ud, c);
}

/* ---- the answer ---- */

/* What was handed on need not be kept. */
static void forget_out(struct http_call *c)
{
    if (c->out_pos < c->out.len)
        return;
    c->out_pos = 0;
    if (c->out.cap > BACKLOG_KEEP)
        buf_release(&c->out);
    else
        buf_clear(&c->out);
    hold(c);
}

size_t exchange_read(struct http_call *c, char *out, size_t max)
{
    const size_t left = c->out.len - c->out_pos, n = left < max ? left : max;

    if (n == 0)
        return 0;
    memcpy(out, c->out.data + c->out_pos, n);
    c->out_pos += n;
    c->n_sent += n;
    forget_out(c);
    return n;
}

bool exchange_is_complete(const struct http_call *c)
{
    return c->state != CALL_STREAMING && c->out_pos == c->out.len;
}

/* Nothing is freed here: the handler may still be running. */
static void kill_client(struct http_call *c)
{
    c->state = CALL_DEAD;
    c->wake(c->client);
}

/* ---- for the handlers; see http.h ---- */

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
    drop_owner(c);
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

struct buf http_call_take_body(struct http_call *c)
{
    struct buf body = c->body;

    c->n_kept = 0;
    hold(c);
    buf_init(&c->body, body.max);
    return body;
}

void http_call_give_body(struct http_call *c, struct buf *body)
{
    buf_release(&c->body);
    c->body = *body;
    buf_init(body, c->body.max);
    c->n_kept = c->body.len;
    hold(c);
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
    else /* half of one could say something else */
        log_error("http", "event=header_left_out header=%s", name);
}

void http_call_render_errors(struct http_call *c,
                             void (*render)(const struct api_error *e, struct buf *out))
{
    c->render_error = render;
}

void http_call_on_gone(struct http_call *c, void (*gone)(void *ud), void *ud)
{
    c->gone = gone;
    c->gone_ud = ud;
}

void http_call_reply(struct http_call *c, int status, const char *type, struct buf *body)
{
    char id[280];

    c->gone = NULL;
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
    hold(c);
    *body = (struct buf){.max = body->max};
    c->status = status;
    snprintf(c->type, sizeof(c->type), "%s", type);
    c->state = CALL_REPLIED;
    c->wake(c->client);
}

void http_call_reply_error(struct http_call *c, const struct api_error *e)
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
    http_call_reply(c, e->status, "application/json", &body);
}

void http_call_reply_page(struct http_call *c, const char *type, struct buf *body)
{
    struct http_shared *h = c->http;
    /* Requests keep three times what pages take. */
    const int64_t n = (int64_t)(3 * h->n_page_bytes + body->cap);
    struct api_error e;

    if (body->err == 0 && body->len > SMALL_PAGE_BYTES &&
        h->n_page_bytes + body->cap > FREE_PAGE_BYTES) {
        if (!http_hold(h, n, true)) {
            buf_release(body);
            api_error_set(&e, 429, NULL, "request_memory",
                          "too many pages wait for clients that do not read them; a quarter of "
                          "request_memory is theirs: ask again later");
            http_call_reply_error(c, &e);
            return;
        }
        http_hold(h, -n, false); /* the answer itself is counted */
    }
    c->n_page = body->cap;
    h->n_page_bytes += c->n_page;
    http_call_reply(c, 200, type, body);
}

void http_call_stream(struct http_call *c, const char *type)
{
    c->status = 200;
    snprintf(c->type, sizeof(c->type), "%s", type);
    c->state = CALL_STREAMING;
    c->wake(c->client);
}

int http_call_write(struct http_call *c, const void *bytes, size_t n)
{
    if (c->out.len - c->out_pos > HTTP_MAX_BACKLOG)
        return ERR_LIMIT;
    if (c->out_pos > BACKLOG_KEEP) {
        buf_consume(&c->out, c->out_pos);
        c->out_pos = 0;
    }
    if (buf_add(&c->out, bytes, n) < 0)
        return c->out.err;
    hold(c);
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
    c->gone = NULL;
    c->room = NULL;
    c->state = CALL_ENDED;
    c->wake(c->client);
}

void http_call_abort(struct http_call *c)
{
    c->gone = NULL;
    c->room = NULL;
    kill_client(c);
}
