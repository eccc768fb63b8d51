/* server/http/connection.c - see connection.h.
 *
 * The states of one connection: the phase says which part of a request is under way, and
 * libmicrohttpd's callbacks (on_target, on_access, on_completed, on_notify) change it. The time
 * limit follows from phase and flags alone (timeout_of()), and is set again after each step. A
 * callback that has used up its time suspends the connection and puts it on the group's `woken`
 * list (is_put_off()), which continues it in the loop's next turn (promise P11).
 */
#include "server/http/connection.h"

#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/base/mem.h"
#include "server/http/answer.h"
#include "server/http/exchange.h"
#include "server/http/head_guard.h"
#include "server/http/proxy_headers.h"
#include "server/process/socket.h"
#include "server/http/tls.h"
#include "server/process/loop_guard.h"

#include <errno.h>
#include <fcntl.h>
#include <gnutls/gnutls.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

/* Bytes that a lingering connection discards in one turn of the loop. */
#define DISCARD_BYTES ((size_t)16 << 10)

static struct connection *connection_of(struct MHD_Connection *c)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

    return info != NULL ? info->socket_context : NULL;
}

/* ---- suspending and resuming ---- */

static bool is_shaking(const struct connection *cn)
{
    return cn->credentials != NULL && !(cn->has_finished[0] && cn->has_finished[1]);
}

static enum timeout_kind timeout_of(const struct connection *cn)
{
    if (cn->is_dropped)
        return TIMEOUT_NONE;
    switch (cn->phase) {
    case CONNECTION_HEAD:
        if (cn->is_suspended && !is_shaking(cn))
            return TIMEOUT_NONE;
        return cn->has_asked && cn->target == NULL ? TIMEOUT_IDLE : TIMEOUT_HEAD;
    case CONNECTION_BODY:
        return cn->is_suspended ? TIMEOUT_NONE : TIMEOUT_BODY;
    case CONNECTION_ANSWERING:
        return cn->is_sending ? TIMEOUT_READER : TIMEOUT_NONE;
    case CONNECTION_LINGERING:
        return TIMEOUT_LINGER;
    }
    return TIMEOUT_NONE;
}

/* Start the time limit of the present kind of waiting; a connection that still waits for the same
 * keeps its limit. */
static void set_time_limit(struct connection *cn)
{
    const enum timeout_kind kind = timeout_of(cn);

    if (kind == TIMEOUT_IDLE && cn->timeout.kind == TIMEOUT_HEAD)
        return; /* its next head has begun, and has the limit of heads (connections.c) */
    if (kind != cn->timeout.kind)
        cn->n_moved = 0;
    timeout_set(&cn->group->timeouts, &cn->timeout, kind);
}

static void watch_socket(struct connection *cn, uint32_t events)
{
    struct epoll_event e = {.events = events, .data.ptr = cn};
    const int how = cn->is_watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;

    cn->is_watched = epoll_ctl(cn->group->watch_fd, how, cn->fd, &e) == 0 || cn->is_watched;
}

static void unwatch_socket(struct connection *cn)
{
    if (cn->is_watched)
        epoll_ctl(cn->group->watch_fd, EPOLL_CTL_DEL, cn->fd, NULL);
    cn->is_watched = false;
}

static void suspend_connection(struct connection *cn)
{
    if (cn->is_suspended)
        return;
    cn->is_suspended = true;
    MHD_suspend_connection(cn->mhd);
}

static gnutls_session_t session_of(const struct connection *cn)
{
    return MHD_get_connection_info(cn->mhd, MHD_CONNECTION_INFO_GNUTLS_SESSION)->tls_session;
}

void connection_rest(struct connection *cn)
{
    list_unlink(&cn->shaking);
    if (!is_shaking(cn) || cn->is_dropped) {
        watch_socket(cn, EPOLLRDHUP | EPOLLET);
        return;
    }
    watch_socket(cn, EPOLLRDHUP | EPOLLONESHOT |
                  (gnutls_record_get_direction(session_of(cn)) == 0 ? EPOLLIN : EPOLLOUT));
    suspend_connection(cn);
}

/* Continue with this connection in the loop's next turn. */
static void put_connection_off(struct connection *cn)
{
    suspend_connection(cn);
    list_unlink(&cn->woken);
    list_push_back(&cn->group->woken, &cn->woken);
}

/* True: the running callback has used up its time, and this connection is put off. */
static bool is_put_off(struct connection *cn)
{
    if (!loop_guard_is_due(cn->group->opt.loop))
        return false;
    put_connection_off(cn);
    return true;
}

void connection_wake(void *connection)
{
    struct connection *cn = connection;

    if (cn->mhd != NULL && list_is_empty(&cn->woken))
        list_push_back(&cn->group->woken, &cn->woken);
}

/* When a client's FIN comes in the packet of its last bytes, libmicrohttpd reads the bytes and
 * waits for an event that its epoll set will not report again. A connection that is suspended and
 * resumed is read, so suspend it. */
static void suspend_ended(struct connection *cn)
{
    if (cn->has_ended && cn->phase != CONNECTION_ANSWERING)
        suspend_connection(cn);
}

void connection_resume(struct connection *cn)
{
    if (cn->call != NULL && cn->call->state == CALL_DEAD && !cn->is_dropped) {
        connection_close(cn);
        return;
    }
    suspend_ended(cn);
    if (!cn->is_suspended || (cn->call != NULL && cn->call->is_paused && !cn->is_dropped))
        return;
    cn->is_suspended = false;
    MHD_resume_connection(cn->mhd);
    daemon_ask(cn->daemon);
    set_time_limit(cn);
}

/* ---- the end ---- */

static void end_exchange(struct connection *cn)
{
    struct http_call *call = cn->call;

    cn->call = NULL;
    if (call != NULL)
        exchange_end(call);
}

static void connection_free(struct connection *cn)
{
    struct connections *group = cn->group;

    unwatch_socket(cn);
    end_exchange(cn);
    timeout_restart(&group->timeouts, &cn->timeout, TIMEOUT_NONE);
    list_unlink(&cn->link);
    list_unlink(&cn->woken);
    list_unlink(&cn->shaking);
    list_unlink(&cn->by_address);
    tls_end(cn->credentials);
    mem_free(cn->target);
    mem_free(cn);
    group->n--;
    group->opt.closed(group->opt.ud);
}

/* Shut the socket down: libmicrohttpd then reads the end of the stream and closes the
 * connection. */
void connection_close(struct connection *cn)
{
    if (cn->mhd == NULL) {
        unwatch_socket(cn);
        close(cn->fd);
        connection_free(cn);
        return;
    }
    if (!cn->is_dropped)
        shutdown(cn->fd, SHUT_RDWR);
    cn->is_dropped = true;
    if (cn->is_suspended)
        connection_resume(cn);
    set_time_limit(cn);
    daemon_ask(cn->daemon);
}

/* Write the answer without libmicrohttpd, which still reads the request, and linger. */
static void answer_now(struct connection *cn)
{
    answer_write_now(cn->mhd, cn->fd, cn->call);
    shutdown(cn->fd, SHUT_WR);
    cn->phase = CONNECTION_LINGERING;
    end_exchange(cn);
    set_time_limit(cn);
}

/* Create the exchange; NULL: no memory. */
static struct http_call *make_exchange(struct connection *cn, const struct http_request *request)
{
    cn->call = exchange_create(cn->group->opt.http, cn, connection_wake, request);
    if (cn->call != NULL)
        cn->call->is_trusted = cn->is_trusted;
    return cn->call;
}

void connection_fail(struct connection *cn, int status, const char *why)
{
    const struct http_request none = {0};

    if (cn->call == NULL && make_exchange(cn, &none) == NULL) {
        connection_close(cn);
        return;
    }
    if (cn->call->state == CALL_RECEIVING) /* in other states the handler's answer is sent */
        exchange_refuse(cn->call, status, NULL, why);
    answer_now(cn);
}

/* ---- the answer ---- */

/* Content reader for libmicrohttpd: return the next block. Called after all earlier ones have been
 * sent. */
static ssize_t read_answer(void *ud, uint64_t at, char *out, size_t max)
{
    struct connection *cn = ud;
    struct http_call *call = cn->call;
    size_t n;

    (void)at;
    if (cn->is_dropped || call->state == CALL_DEAD)
        return MHD_CONTENT_READER_END_WITH_ERROR;
    if (is_put_off(cn))
        return 0;
    if (call->state == CALL_STREAMING && call->room != NULL && call->out_pos == call->out.len)
        call->room(call->room_ud);
    n = exchange_read(call, out, max);
    cn->n_moved += n;
    cn->is_sending = n > 0;
    if (n == 0)
        call->blocked_us = 0;
    if (n == 0 && exchange_is_complete(call))
        return MHD_CONTENT_READER_END_OF_STREAM;
    if (n == 0)
        suspend_connection(cn);
    set_time_limit(cn);
    return (ssize_t)n;
}

/* True: the client has disconnected, and the answer still has to be computed, which is not done
 * then. A complete answer is sent nevertheless. */
static bool is_in_vain(const struct connection *cn)
{
    const struct http_call *call = cn->call;

    return call != NULL && (call->state == CALL_WAITING ||
                            (call->state == CALL_STREAMING && !call->is_head));
}

/* Send the bytes of the answer that exist, or suspend until its handler has begun it. False: the
 * connection is to be closed. */
static bool go_on_answering(struct connection *cn)
{
    struct http_call *call = cn->call;

    if (cn->has_ended && is_in_vain(cn))
        return false;
    switch (call->state) {
    case CALL_WAITING:
        suspend_connection(cn);
        return true;
    case CALL_REPLIED:
    case CALL_STREAMING:
    case CALL_ENDED:
        cn->is_sending = true;
        return answer_queue(cn->mhd, call, read_answer, cn) == 0;
    case CALL_RECEIVING:
    case CALL_DEAD:
        break;
    }
    return false;
}

/* ---- the request ---- */

/* Send a refusal without waiting for the body. */
static bool refuse_now(struct connection *cn)
{
    cn->call->closes = true;
    cn->phase = CONNECTION_ANSWERING;
    return go_on_answering(cn);
}

static bool begin_exchange(struct connection *cn, const char *method, const char *version)
{
    struct http_request request;
    const struct guard_verdict verdict =
        head_guard_read(cn->mhd, method, version, cn->target, &request);

    if (make_exchange(cn, &request) == NULL)
        return false;
    cn->phase = CONNECTION_BODY;
    cn->call->closes = cn->call->closes || cn->is_reserved;
    if (verdict.status != 0) {
        cn->group->opt.http->edge[HTTP_EDGE_MALFORMED]++;
        exchange_refuse(cn->call, verdict.status, NULL, verdict.why);
        return refuse_now(cn);
    }
    head_check(cn->call, cn->from, cn->is_reserved);
    return head_must_answer_now(cn->call) ? refuse_now(cn) : true;
}

/* True: more of the body is taken only after the route has resumed the client, or in the loop's
 * next turn. */
static bool is_body_delayed(struct connection *cn)
{
    if (cn->call->is_paused)
        suspend_connection(cn);
    else if (cn->call->has_more)
        put_connection_off(cn);
    return cn->is_suspended;
}

/* Take bytes of the body. libmicrohttpd passes the next chunk even to a connection that has just
 * been suspended, and passes bytes that were not taken again. A body that is far too large is
 * answered at once. */
static bool take_body(struct connection *cn, const char *bytes, size_t *n)
{
    const size_t given = *n;
    int rc;

    if (cn->is_suspended || is_put_off(cn))
        return true;
    rc = exchange_receive(cn->call, bytes, n);
    cn->n_moved += given - *n;
    if (rc < 0)
        answer_now(cn);
    else
        is_body_delayed(cn);
    return true;
}

/* Called when libmicrohttpd has passed the whole body. True: it is not decoded yet, or its route
 * has not taken it. */
static bool is_body_open(struct connection *cn)
{
    if (cn->is_suspended || cn->call->is_paused || is_put_off(cn))
        return true;
    exchange_finish_body(cn->call);
    return is_body_delayed(cn);
}

static bool end_request(struct connection *cn)
{
    const struct guard_verdict verdict = head_guard_check_trailers(cn->mhd);

    if (verdict.status != 0 && cn->call->state == CALL_RECEIVING) {
        cn->group->opt.http->edge[HTTP_EDGE_MALFORMED]++;
        cn->call->closes = true;
        exchange_refuse(cn->call, verdict.status, NULL, verdict.why);
    }
    cn->phase = CONNECTION_ANSWERING;
    cn->n_received = socket_n_received(cn->fd);
    exchange_dispatch(cn->call);
    return go_on_answering(cn);
}

static bool go_on_with_request(struct connection *cn, const char *method, const char *version,
                               const char *bytes, size_t *n)
{
    switch (cn->phase) {
    case CONNECTION_HEAD:
        return is_put_off(cn) || begin_exchange(cn, method, version);
    case CONNECTION_BODY:
        if (*n > 0)
            return take_body(cn, bytes, n);
        return is_body_open(cn) || end_request(cn);
    case CONNECTION_ANSWERING:
        return go_on_answering(cn);
    case CONNECTION_LINGERING:
        break;
    }
    *n = 0;
    return bytes != NULL;
}

/* ---- libmicrohttpd's callbacks ---- */

/* Called when the request line is complete. */
static void *on_target(void *ud, const char *target, struct MHD_Connection *c)
{
    struct connection *cn = connection_of(c);

    (void)ud;
    if (cn == NULL || cn->phase != CONNECTION_HEAD)
        return cn;
    cn->target = mem_strdup(target);
    set_time_limit(cn);
    return cn;
}

/* Called when the head is complete, and when more of the body has come. MHD_NO closes the
 * connection without an answer. */
static enum MHD_Result on_access(void *ud, struct MHD_Connection *c, const char *url,
                                 const char *method, const char *version, const char *bytes,
                                 size_t *n, void **slot)
{
    struct connection *cn = *slot;
    bool goes_on;

    (void)ud, (void)c, (void)url;
    if (cn == NULL || cn->is_dropped || cn->target == NULL)
        return MHD_NO;
    goes_on = go_on_with_request(cn, method, version, bytes, n);
    set_time_limit(cn);
    return goes_on ? MHD_YES : MHD_NO;
}

/* Log the status of libmicrohttpd's own answer, if it has refused the body. */
static void note_refusal(struct connection *cn)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(cn->mhd, MHD_CONNECTION_INFO_HTTP_STATUS);

    if (info == NULL || cn->call == NULL || cn->call->has_head_sent)
        return;
    cn->call->status = (int)info->http_status;
    cn->call->has_head_sent = true;
}

/* Called when the answer was sent, the client disconnected, or libmicrohttpd refused the
 * request. */
static void on_completed(void *ud, struct MHD_Connection *c, void **slot,
                         enum MHD_RequestTerminationCode code)
{
    struct connection *cn = *slot;

    (void)ud, (void)c, (void)code;
    if (cn == NULL)
        return;
    *slot = NULL;
    note_refusal(cn);
    end_exchange(cn);
    mem_free(cn->target);
    cn->target = NULL;
    cn->has_asked = true;
    cn->idle_since_ms = clock_ms();
    cn->is_sending = false;
    if (cn->phase != CONNECTION_LINGERING)
        cn->phase = CONNECTION_HEAD;
    if (cn->has_ended)
        connection_wake(cn);
    set_time_limit(cn);
}

/* Called by GnuTLS for the Finished message of either side: it depends on the TLS version and on
 * resumption which one ends the handshake. */
static int on_finished(gnutls_session_t session, unsigned type, unsigned when, unsigned incoming,
                       const gnutls_datum_t *message)
{
    struct connection *cn = connection_of(gnutls_session_get_ptr(session));

    (void)type, (void)when, (void)message;
    if (cn != NULL)
        cn->has_finished[incoming != 0] = true;
    return 0;
}

/* Give the session the credentials in force now, which it keeps to its end. */
static bool begin_session(struct connection *cn, struct tls *tls)
{
    gnutls_session_t session = session_of(cn);

    cn->credentials = tls_begin(tls, session);
    gnutls_handshake_set_hook_function(session, GNUTLS_HANDSHAKE_FINISHED, GNUTLS_HOOK_POST,
                                       on_finished);
    connection_rest(cn);
    return cn->credentials != NULL;
}

/* True: libmicrohttpd ended the connection, not its client or this server. */
static bool is_cut_off(const struct connection *cn)
{
    char byte;
    ssize_t n;

    if (cn->is_dropped || cn->group->is_stopping || is_shaking(cn))
        return false;
    n = recv(cn->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return n > 0 || (n < 0 && errno == EAGAIN);
}

/* Keep the connection open with a copy of its socket, because libmicrohttpd closes its socket after
 * this callback. */
static bool keep_socket(struct connection *cn)
{
    const int fd = fcntl(cn->fd, F_DUPFD_CLOEXEC, 0);

    if (fd < 0)
        return false;
    unwatch_socket(cn);
    shutdown(fd, SHUT_WR);
    cn->fd = fd;
    cn->mhd = NULL;
    cn->phase = CONNECTION_LINGERING;
    list_unlink(&cn->link);
    list_unlink(&cn->woken);
    list_unlink(&cn->shaking);
    list_push_back(&cn->group->lingering, &cn->link);
    watch_socket(cn, EPOLLIN | EPOLLRDHUP);
    set_time_limit(cn);
    return true;
}

static void end_connection(struct connection *cn)
{
    struct daemon *d = cn->daemon;

    d->n_connections--;
    if (is_shaking(cn))
        cn->group->opt.http->edge[HTTP_EDGE_HANDSHAKE]++;
    if (!is_cut_off(cn) || !keep_socket(cn))
        connection_free(cn);
}

static void on_notify(void *ud, struct MHD_Connection *c, void **slot,
                      enum MHD_ConnectionNotificationCode code)
{
    struct connections *group = ud;
    struct connection *cn = code == MHD_CONNECTION_NOTIFY_STARTED ? group->fresh : *slot;

    if (cn == NULL)
        return;
    if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
        *slot = NULL;
        end_connection(cn);
        return;
    }
    group->fresh = NULL;
    *slot = cn;
    cn->mhd = c;
}

const struct daemon_callbacks connection_callbacks = {
    .target = on_target,
    .access = on_access,
    .completed = on_completed,
    .notify = on_notify,
};

/* ---- between two runs of libmicrohttpd ---- */

static void discard_bytes(struct connection *cn)
{
    char bytes[DISCARD_BYTES];
    const ssize_t n = recv(cn->fd, bytes, sizeof(bytes), MSG_DONTWAIT);

    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        connection_close(cn);
}

/* The client has closed or half-closed its side. A complete answer is still sent. */
void connection_gone(struct connection *cn)
{
    if (cn->mhd == NULL) {
        discard_bytes(cn);
        return;
    }
    if (is_shaking(cn)) { /* GnuTLS reads the end of the stream in the handshake */
        list_unlink(&cn->shaking);
        list_push_back(&cn->group->shaking, &cn->shaking);
        connection_wake(cn);
        return;
    }
    cn->has_ended = true;
    if (is_in_vain(cn))
        connection_close(cn);
    else
        connection_wake(cn);
}

/* ---- the beginning ---- */

static struct connection *make_connection(struct connections *group, struct daemon *d, int fd)
{
    struct connection *cn = mem_calloc(1, sizeof(*cn));

    if (cn == NULL)
        return NULL;
    cn->group = group;
    cn->daemon = d;
    cn->fd = fd;
    list_init(&cn->woken);
    list_init(&cn->shaking);
    list_init(&cn->by_address);
    timeout_init(&cn->timeout);
    list_push_back(&d->connections, &cn->link);
    d->n_connections++;
    group->n++;
    return cn;
}

/* Pass the socket to libmicrohttpd, which calls on_notify() from daemon_add(), even if it fails
 * after that. */
static bool give_to_libmicrohttpd(struct connection *cn)
{
    struct connections *group = cn->group;

    group->fresh = cn;
    if (daemon_add(cn->daemon, cn->fd))
        return true;
    if (group->fresh == cn) {
        cn->daemon->n_connections--;
        connection_free(cn);
    }
    group->fresh = NULL;
    return false;
}

struct connection *connection_open(struct connections *group, int fd, struct tls *tls,
                                   enum head_origin from)
{
    struct daemon *d = daemons_with_room(&group->daemons, tls != NULL);
    struct connection *cn = d != NULL ? make_connection(group, d, fd) : NULL;

    if (cn == NULL) {
        close(fd);
        return NULL;
    }
    cn->from = from;
    cn->is_trusted = proxy_is_trusted(group->opt.http->opt.trusted_proxies, fd);
    if (!give_to_libmicrohttpd(cn))
        return NULL;
    watch_socket(cn, EPOLLRDHUP | EPOLLET);
    if (!cn->is_watched || (tls != NULL && !begin_session(cn, tls)))
        connection_close(cn);
    set_time_limit(cn);
    return cn;
}
