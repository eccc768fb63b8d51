/* server/call.c - one exchange: answers and streams. */
#include "server/call.h"

#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "server/access.h"
#include "server/keys.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

/* Copied out of a stream's backlog in one go at most; larger answers are cut into such blocks. */
#define STREAM_BLOCK ((size_t)16 << 10)
/* Bytes of a request id that is echoed. */
#define MAX_GIVEN_ID 128
/* A drained backlog larger than this is given back instead of kept for the next write. */
#define BACKLOG_KEEP ((size_t)64 << 10)

/* The client's X-Request-Id if it can be echoed safely, else one of our own. */
static void choose_id(struct http_call *c)
{
    const char *given = http_call_header(c, "X-Request-Id");
    unsigned char random[8] = {0};
    size_t n = 0;

    while (given != NULL && given[n] > 0x20 && given[n] < 0x7f)
        n++;
    if (n > 0 && n <= MAX_GIVEN_ID && given[n] == '\0') {
        memcpy(c->id, given, n + 1);
        return;
    }
    /* Early in a machine's life there may be no entropy: an id of zeros is no disaster. */
    if (getrandom(random, sizeof(random), GRND_NONBLOCK) < 0)
        memset(random, 0, sizeof(random));
    n = (size_t)snprintf(c->id, sizeof(c->id), "req-");
    for (size_t i = 0; i < sizeof(random); i++)
        n += (size_t)snprintf(c->id + n, sizeof(c->id) - n, "%02x", random[i]);
}

static struct peer *peer_of(struct MHD_Connection *mhd)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

    return info != NULL ? info->socket_context : NULL;
}

struct http_call *call_create(struct door *d, struct MHD_Connection *mhd, const char *method)
{
    struct http_call *c = mem_calloc(1, sizeof(*c));

    if (c == NULL)
        return NULL;
    c->http = d->http;
    c->door = d;
    c->mhd = mhd;
    c->is_head = strcmp(method, "HEAD") == 0;
    c->peer = peer_of(mhd);
    if (c->peer != NULL)
        c->peer->call = c;
    list_init(&c->link);
    buf_init(&c->out, HTTP_MAX_REPLY);
    choose_id(c);
    c->access = access_begin(c->id, method);
    return c;
}

void call_destroy(struct http_call *c)
{
    peer_forget_call(c->peer);
    list_unlink(&c->link);
    buf_release(&c->body);
    buf_release(&c->out);
    key_unref(c->key);
    mem_free(c);
}

static int socket_of(const struct http_call *c)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(c->mhd, MHD_CONNECTION_INFO_CONNECTION_FD);

    return info != NULL ? info->connect_fd : -1;
}

void call_suspend(struct http_call *c)
{
    MHD_suspend_connection(c->mhd);
    c->is_suspended = true;
}

void call_resume(struct http_call *c)
{
    if (!c->is_suspended) /* then MHD is at it anyway */
        return;
    c->is_suspended = false;
    MHD_resume_connection(c->mhd);
    c->door->is_due = true;
}

/* The shutdown makes MHD see an error even where it waits for room in the socket's buffer. */
static void kill_connection(struct http_call *c)
{
    c->state = CALL_DEAD;
    shutdown(socket_of(c), SHUT_RDWR);
    call_resume(c);
}

void call_lose(struct http_call *c)
{
    void (*gone)(void *ud) = c->gone;

    c->gone = NULL;
    kill_connection(c);
    if (gone != NULL)
        gone(c->gone_ud);
}

static ssize_t read_out(void *ud, uint64_t pos, char *buf, size_t max)
{
    struct http_call *c = ud;
    size_t n = c->out.len - c->out_pos;

    (void)pos;
    if (c->state == CALL_DEAD)
        return MHD_CONTENT_READER_END_WITH_ERROR;
    if (n == 0 && c->state == CALL_ENDED)
        return MHD_CONTENT_READER_END_OF_STREAM;
    if (n == 0) {
        call_suspend(c);
        return 0;
    }
    if (n > max)
        n = max;
    memcpy(buf, c->out.data + c->out_pos, n);
    c->out_pos += n;
    c->n_sent += n;
    if (c->out_pos == c->out.len) {
        c->out_pos = 0;
        c->blocked_us = 0;
        if (c->out.cap > BACKLOG_KEEP)
            buf_release(&c->out);
        else
            buf_clear(&c->out);
    }
    return (ssize_t)n;
}

static struct MHD_Response *make_response(struct http_call *c)
{
    size_t n = 0;
    char *bytes;
    struct MHD_Response *r;

    if (c->state != CALL_REPLIED)
        return MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, STREAM_BLOCK, read_out, c, NULL);
    bytes = buf_detach(&c->out, &n);
    c->n_sent = c->is_head ? 0 : n;
    r = MHD_create_response_from_buffer_with_free_callback(n, bytes, mem_free);
    if (r == NULL)
        mem_free(bytes);
    return r;
}

enum MHD_Result call_queue_response(struct http_call *c)
{
    struct MHD_Response *r = make_response(c);
    enum MHD_Result rc;

    if (r == NULL)
        return MHD_NO;
    c->is_queued = true;
    if (c->type[0] != '\0')
        MHD_add_response_header(r, "Content-Type", c->type);
    MHD_add_response_header(r, "X-Request-Id", c->id);
    if (http_is_draining(c->http))
        MHD_add_response_header(r, "Connection", "close");
    for (size_t i = 0; i < c->n_headers; i++)
        MHD_add_response_header(r, c->headers[i].name, c->headers[i].value);
    rc = MHD_queue_response(c->mhd, (unsigned int)c->status, r);
    MHD_destroy_response(r);
    return rc;
}

/* ---- for the handlers; see http.h ---- */

const char *http_call_id(const struct http_call *c)
{
    return c->id;
}

const char *http_call_header(const struct http_call *c, const char *name)
{
    return MHD_lookup_connection_value(c->mhd, MHD_HEADER_KIND, name);
}

const char *http_call_query(const struct http_call *c, const char *name)
{
    return MHD_lookup_connection_value(c->mhd, MHD_GET_ARGUMENT_KIND, name);
}

const char *http_call_tail(const struct http_call *c)
{
    return c->tail;
}

void http_call_set_key(struct http_call *c, struct key *key)
{
    key_unref(c->key);
    c->key = key_ref(key);
    if (key != NULL)
        access_set_key(c->access, key->spec.name);
}

struct key *http_call_key(const struct http_call *c)
{
    return c->key;
}

struct access *http_call_access(const struct http_call *c)
{
    return c->access;
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

    http_forget_bytes(c->http, c->n_kept);
    c->n_kept = 0;
    buf_init(&c->body, body.max);
    return body;
}

void http_call_set_header(struct http_call *c, const char *name, const char *value)
{
    if (c->n_headers == CALL_MAX_HEADERS)
        return;
    snprintf(c->headers[c->n_headers].name, sizeof(c->headers[0].name), "%s", name);
    snprintf(c->headers[c->n_headers].value, sizeof(c->headers[0].value), "%s", value);
    c->n_headers++;
}

void http_call_on_gone(struct http_call *c, void (*gone)(void *ud), void *ud)
{
    c->gone = gone;
    c->gone_ud = ud;
}

void http_call_reply(struct http_call *c, int status, const char *type, struct buf *body)
{
    c->gone = NULL;
    if (body->err < 0) {
        log_error("http", "event=reply_too_large id=%s err=%s", c->id, err_name(body->err));
        buf_release(body);
        kill_connection(c);
        return;
    }
    buf_release(&c->out);
    c->out = *body;
    *body = (struct buf){.max = body->max};
    c->status = status;
    snprintf(c->type, sizeof(c->type), "%s", type);
    c->state = CALL_REPLIED;
    call_resume(c);
}

void http_call_reply_error(struct http_call *c, const struct api_error *e)
{
    const struct http_route *route = http_route_of(c);
    struct buf body;

    buf_init(&body, HTTP_MAX_REPLY);
    if (route != NULL && route->render_error != NULL)
        route->render_error(e, &body);
    else
        api_error_render(e, &body);
    http_call_reply(c, e->status, "application/json", &body);
}

void http_call_stream(struct http_call *c, const char *type)
{
    c->status = 200;
    snprintf(c->type, sizeof(c->type), "%s", type);
    c->state = CALL_STREAMING;
    call_resume(c);
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
    if (c->blocked_us == 0)
        c->blocked_us = clock_us();
    call_resume(c);
    return 0;
}

void http_call_end(struct http_call *c)
{
    c->gone = NULL;
    c->state = CALL_ENDED;
    call_resume(c);
}

void http_call_abort(struct http_call *c)
{
    c->gone = NULL;
    kill_connection(c);
}
