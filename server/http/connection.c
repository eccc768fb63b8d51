/* server/http/connection.c - see connection.h: what one connection does, step by step. */
#include "server/http/connection.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "server/http/exchange.h"
#include "server/http/proxy_headers.h"
#include "server/process/loop_guard.h"

/* Steps of one connection in one turn of the loop: a read of 64 KiB, a part of an answer. The end
 * of an answer is the last one if another request is there: a client that sends many at once waits
 * for others between them. */
#define MAX_STEPS 16
#define READ_BYTES ((size_t)64 << 10) /* of connections.scratch */
#define WIRE_MAX ((size_t)64 << 10)   /* a head, a block, and room to spare */

#define BULK ((uint64_t)64 << 10) /* bytes of a body that have moved */

#define CONTINUE "HTTP/1.1 100 Continue\r\n\r\n"

void connection_wake(void *connection)
{
    struct connection *cn = connection;

    if (cn->is_running || cn->phase == CONNECTION_CLOSED || !list_is_empty(&cn->woken))
        return;
    list_push_back(&cn->group->woken, &cn->woken);
}

/* ---- the end ---- */

static void on_closed(uv_handle_t *handle)
{
    LOOP_CALLBACK(handle->loop, "connection.closed");
    mem_free(handle->data);
}

static void end_exchange(struct connection *cn)
{
    struct http_call *call = cn->call;

    cn->call = NULL;
    if (call != NULL)
        exchange_end(call);
}

void connection_close(struct connection *cn)
{
    struct connections *group = cn->group;

    if (cn->phase == CONNECTION_CLOSED)
        return;
    cn->phase = CONNECTION_CLOSED;
    end_exchange(cn);
    timeout_restart(&group->timeouts, &cn->timeout, TIMEOUT_NONE);
    list_unlink(&cn->link);
    list_unlink(&cn->woken);
    list_unlink(&cn->by_address);
    http_parser_reset(&cn->parser);
    buf_release(&cn->in);
    buf_release(&cn->wire);
    uv_close((uv_handle_t *)&cn->poll, on_closed);
    transport_close(&cn->io);
    group->n--;
    group->opt.closed(group->opt.ud);
}

/* Our side is closed, and what the client still sends is thrown away: a socket that is closed with
 * bytes unread resets the connection, and takes the answer with it. */
static void linger(struct connection *cn)
{
    transport_end(&cn->io);
    cn->phase = CONNECTION_LINGERING;
    cn->is_readable = true;
    buf_release(&cn->in);
    cn->in_pos = 0;
    if (cn->has_ended)
        connection_close(cn);
}

/* ---- reading ---- */

static void refuse_now(struct connection *cn)
{
    cn->call->closes = true;
    cn->phase = CONNECTION_ANSWERING;
}

/* NULL: there was no memory, and the connection is closed. */
static struct http_call *make_exchange(struct connection *cn)
{
    struct http_request request;

    http_parser_get_request(&cn->parser, &request);
    cn->call = exchange_create(cn->group->opt.http, cn, connection_wake, &request);
    if (cn->call == NULL)
        connection_close(cn);
    else
        cn->call->is_trusted = cn->is_trusted;
    return cn->call;
}

void connection_fail(struct connection *cn, int status, const char *why)
{
    if (cn->call == NULL)
        make_exchange(cn);
    if (cn->call == NULL)
        return;
    exchange_refuse(cn->call, status, NULL, why);
    refuse_now(cn);
}

/* A head is complete. */
static void begin_exchange(struct connection *cn)
{
    struct http_call *call = make_exchange(cn);

    if (call == NULL)
        return;
    timeout_restart(&cn->group->timeouts, &cn->timeout, TIMEOUT_NONE);
    call->closes = call->closes || cn->is_reserved;
    head_check(call, cn->from, cn->is_reserved);
    if (head_must_answer_now(call))
        refuse_now(cn);
    else if (cn->parser.expects_continue && cn->parser.framing != HTTP_NO_BODY)
        buf_add_str(&cn->wire, CONTINUE);
}

static void take_body(struct connection *cn, const char *bytes, size_t n)
{
    cn->n_moved += n;
    if (exchange_receive(cn->call, bytes, n) < 0)
        refuse_now(cn);
}

/* The body's next bytes are not wanted yet: they stay in the kernel. */
static bool is_paused(const struct connection *cn)
{
    return cn->phase == CONNECTION_READING && cn->call != NULL && cn->call->is_paused;
}

static void take_event(struct connection *cn, enum http_event e, const char *body, size_t n_body)
{
    switch (e) {
    case HTTP_MORE:
        break;
    case HTTP_HEAD:
        begin_exchange(cn);
        break;
    case HTTP_BODY:
        take_body(cn, body, n_body);
        break;
    case HTTP_END:
        cn->phase = CONNECTION_ANSWERING;
        exchange_dispatch(cn->call);
        break;
    case HTTP_BAD:
        cn->group->opt.http->edge[HTTP_EDGE_MALFORMED]++;
        connection_fail(cn, cn->parser.status, cn->parser.why);
        break;
    }
}

/* As many bytes as belong to the request under way; the first one that does not. */
static const char *feed(struct connection *cn, const char *at, const char *end)
{
    enum http_event e = HTTP_BODY;
    const char *body = NULL;
    size_t n_body = 0;

    while (cn->phase == CONNECTION_READING && e != HTTP_MORE && !cn->was_paused) {
        e = http_parser_next(&cn->parser, &at, end, &body, &n_body);
        take_event(cn, e, body, n_body);
        cn->was_paused = is_paused(cn);
    }
    return at;
}

/* What came behind a request waits for its answer, and a body's bytes for whoever has paused it. */
static void feed_kept(struct connection *cn)
{
    const char *bytes = cn->in.data != NULL ? cn->in.data : "";
    const char *end = bytes + cn->in.len;
    const char *at = feed(cn, bytes + cn->in_pos, end);

    if (cn->phase == CONNECTION_CLOSED)
        return;
    cn->in_pos = (size_t)(at - bytes);
    if (at == end) {
        buf_release(&cn->in);
        cn->in_pos = 0;
    }
}

static void feed_fresh(struct connection *cn, const char *bytes, size_t n)
{
    const char *end = bytes + n;
    const char *at = feed(cn, bytes, end);

    if (cn->phase == CONNECTION_CLOSED || at == end)
        return;
    if (buf_add(&cn->in, at, (size_t)(end - at)) < 0)
        connection_close(cn);
}

/* Does it go on? */
static bool read_some(struct connection *cn)
{
    const ssize_t n = transport_read(&cn->io, cn->group->scratch, READ_BYTES);

    /* Of a plain socket a short read was the last; TLS gives a record at a time. */
    cn->is_readable = n == (ssize_t)READ_BYTES || (n > 0 && cn->io.session != NULL);
    if (n == ERR_AGAIN)
        return false;
    if (n <= 0)
        connection_close(cn);
    else if (cn->phase == CONNECTION_READING)
        feed_fresh(cn, cn->group->scratch, (size_t)n);
    return cn->phase != CONNECTION_CLOSED;
}

/* ---- writing ---- */

static bool is_blocked(const struct connection *cn)
{
    return cn->wire_pos < cn->wire.len;
}

/* Has everything gone? */
static bool write_wire(struct connection *cn)
{
    while (is_blocked(cn)) {
        const ssize_t n = transport_write(&cn->io, cn->wire.data + cn->wire_pos,
                                          cn->wire.len - cn->wire_pos);

        if (n == ERR_AGAIN)
            return false;
        if (n < 0) {
            connection_close(cn);
            return false;
        }
        cn->wire_pos += (size_t)n;
        cn->n_moved += (size_t)n;
    }
    buf_clear(&cn->wire);
    cn->wire_pos = 0;
    return true;
}

/* Blocks of an answer in one turn of the loop, so that a fast reader of a large one, or many of
 * them, do not hold up others. */
#define MAX_BLOCKS 2

/* Does it go on? *is_done: the answer is complete, and gone. */
static bool send_answer(struct connection *cn, bool *is_done)
{
    struct http_call *call = cn->call;

    for (int i = 0; i < MAX_BLOCKS && call->state != CALL_DEAD; i++) {
        if (!write_wire(cn))
            return false;
        if (call->out_pos == call->out.len)
            call->blocked_us = 0;
        *is_done = cn->is_last;
        if (*is_done || call->state == CALL_RECEIVING || call->state == CALL_WAITING)
            return *is_done;
        cn->is_last = exchange_fill(call, &cn->wire);
        if (cn->wire.err == 0 && cn->wire.len == 0 && !cn->is_last)
            return false;
        if (cn->wire.err < 0)
            call->state = CALL_DEAD;
    }
    if (call->state != CALL_DEAD)
        return true;
    connection_close(cn);
    return false;
}

static void end_answer(struct connection *cn)
{
    const bool closes = cn->call->closes;

    end_exchange(cn);
    timeout_restart(&cn->group->timeouts, &cn->timeout, TIMEOUT_NONE);
    cn->has_asked = true;
    cn->is_last = false;
    http_parser_reset(&cn->parser);
    buf_release(&cn->wire);
    cn->wire_pos = 0;
    if (closes) {
        linger(cn);
        return;
    }
    cn->phase = CONNECTION_READING;
    cn->is_readable = cn->has_ended || transport_has_more(&cn->io);
}

/* ---- steps ---- */

static bool shake_hands(struct connection *cn)
{
    const int rc = transport_handshake(&cn->io);

    if (rc == ERR_AGAIN)
        return false;
    if (rc < 0) {
        cn->group->opt.http->edge[HTTP_EDGE_HANDSHAKE]++;
        connection_close(cn);
        return false;
    }
    cn->phase = CONNECTION_READING;
    cn->is_readable = true;
    return true;
}

/* Steps that were taken; 0: it has to wait. */
static int step(struct connection *cn)
{
    bool is_done = false;

    switch (cn->phase) {
    case CONNECTION_HANDSHAKE:
        return shake_hands(cn);
    case CONNECTION_READING:
        if (!write_wire(cn) || is_paused(cn))
            return 0;
        if (cn->in_pos < cn->in.len || cn->was_paused) {
            cn->was_paused = false;
            feed_kept(cn);
            return 1;
        }
        return cn->is_readable && read_some(cn);
    case CONNECTION_ANSWERING:
        if (!send_answer(cn, &is_done))
            return 0;
        if (!is_done)
            return MAX_STEPS;
        end_answer(cn);
        return cn->in_pos < cn->in.len || cn->is_readable ? MAX_STEPS : 0;
    case CONNECTION_LINGERING:
        return cn->is_readable && read_some(cn);
    case CONNECTION_CLOSED:
        break;
    }
    return 0;
}

static enum timeout_kind timeout_of(const struct connection *cn)
{
    switch (cn->phase) {
    case CONNECTION_HANDSHAKE:
        return TIMEOUT_HEAD;
    case CONNECTION_READING:
        if (is_blocked(cn))
            return TIMEOUT_READER;
        if (is_paused(cn))
            return TIMEOUT_NONE;
        if (cn->call != NULL)
            return TIMEOUT_BODY;
        return cn->has_asked && !http_parser_has_begun(&cn->parser) ? TIMEOUT_IDLE : TIMEOUT_HEAD;
    case CONNECTION_ANSWERING:
        return is_blocked(cn) ? TIMEOUT_READER : TIMEOUT_NONE;
    case CONNECTION_LINGERING:
        return TIMEOUT_LINGER;
    case CONNECTION_CLOSED:
        break;
    }
    return TIMEOUT_NONE;
}

static int events_of(const struct connection *cn)
{
    const int writable = is_blocked(cn) ? UV_WRITABLE : 0;

    switch (cn->phase) {
    case CONNECTION_HANDSHAKE:
        return cn->io.needs_write ? UV_WRITABLE : UV_READABLE;
    case CONNECTION_READING:
        if (is_paused(cn))
            return writable | (cn->has_ended ? 0 : UV_DISCONNECT);
        return UV_READABLE | writable;
    case CONNECTION_ANSWERING: /* epoll reports an end that was seen again and again */
        return writable | (cn->has_ended ? 0 : UV_DISCONNECT);
    case CONNECTION_LINGERING:
        return UV_READABLE;
    case CONNECTION_CLOSED:
        break;
    }
    return 0;
}

static void on_poll(uv_poll_t *poll, int status, int events);

/* What has to happen for it to go on, and by when. */
static void settle(struct connection *cn)
{
    const enum timeout_kind kind = timeout_of(cn);
    const int events = events_of(cn);

    if (kind != cn->timeout.kind)
        cn->n_moved = 0;
    timeout_set(&cn->group->timeouts, &cn->timeout, kind);
    if (events == cn->events)
        return;
    cn->events = events;
    if (events == 0)
        uv_poll_stop(&cn->poll);
    else
        uv_poll_start(&cn->poll, events, on_poll);
}

void connection_run(struct connection *cn)
{
    int n = 0, more = 1;

    cn->is_running = true;
    while (n < MAX_STEPS && more > 0) {
        more = step(cn);
        n += more;
    }
    cn->is_running = false;
    if (cn->phase == CONNECTION_CLOSED)
        return;
    if (n >= MAX_STEPS)
        connection_wake(cn);
    settle(cn);
}

/* Is the client's end a reason not to go on? Not where the answer is complete: a client that only
 * half-closed may have it. */
static bool is_gone(struct connection *cn, int events)
{
    if ((cn->phase != CONNECTION_ANSWERING && !is_paused(cn)) || (events & UV_DISCONNECT) == 0)
        return false;
    cn->has_ended = true;
    return cn->call->state == CALL_WAITING || cn->call->state == CALL_STREAMING;
}

/* It moves a large body: such connections share what a turn of the loop has for those that are
 * woken, so that a thousand of them do not come before a short request. */
static bool is_bulk(const struct connection *cn)
{
    return cn->call != NULL && (cn->call->n_sent > BULK || cn->call->n_received > BULK);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    LOOP_CALLBACK(poll->loop, "connection.poll");
    struct connection *cn = poll->data;

    if (status < 0 || is_gone(cn, events)) {
        connection_close(cn);
        return;
    }
    cn->is_readable = cn->is_readable || (events & (UV_READABLE | UV_DISCONNECT)) != 0;
    if (is_bulk(cn))
        connection_wake(cn);
    else
        connection_run(cn);
}

/* ---- the beginning ---- */

struct connection *connection_open(struct connections *group, int fd, struct tls *tls,
                                   enum head_origin from)
{
    struct connection *cn = mem_calloc(1, sizeof(*cn));

    if (cn == NULL)
        return NULL;
    if (uv_poll_init(group->opt.loop, &cn->poll, fd) != 0) {
        mem_free(cn);
        return NULL;
    }
    cn->poll.data = cn;
    if (transport_open(&cn->io, fd, tls) < 0) {
        uv_close((uv_handle_t *)&cn->poll, on_closed);
        return NULL;
    }
    cn->group = group;
    cn->from = from;
    cn->is_trusted = proxy_is_trusted(group->opt.http->opt.trusted_proxies, fd);
    cn->phase = tls != NULL ? CONNECTION_HANDSHAKE : CONNECTION_READING;
    buf_init(&cn->in, READ_BYTES);
    buf_init(&cn->wire, WIRE_MAX);
    list_init(&cn->woken);
    list_init(&cn->by_address);
    timeout_init(&cn->timeout);
    list_push_back(&group->all, &cn->link);
    group->n++;
    settle(cn);
    return cn;
}
