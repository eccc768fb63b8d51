/* server/http.c - MHD inside the loop, routing, limits; see http.h. */
#include "server/http.h"

#include "core/base/err.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "server/call.h"
#include "server/listen.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <unistd.h>

/* Of MHD's memory for a connection half may hold the request's head; 16 KiB of it are ours to
 * allow, and what is between gets our 431 instead of MHD's page. */
#define POOL_BYTES ((size_t)64 << 10)
/* A refused body is read to its end, so that the client gets to see the answer instead of a
 * reset, up to so many times the limit. */
#define DISCARD_FACTOR 4
/* So many bodies of full size may be in memory at the same time. */
#define MAX_BODIES 16
/* Descriptors for the model, logs, the loop's own and the thread pool's files. */
#define SPARE_FDS 64

struct http {
    struct http_options opt;
    uint16_t port;
    int listen_fd;
    struct MHD_Daemon *daemon;
    uv_poll_t poll;
    uv_timer_t timer;
    struct list calls;
    uint32_t n_owed, n_connections;
    bool is_inside, is_due; /* MHD_run() is on the stack; it has to run (again) */
    bool is_started, is_draining, is_stopping;
    uint64_t body_bytes; /* of all bodies that are being received */
};

void http_mark_due(struct http *h)
{
    h->is_due = true;
}

void http_forget_bytes(struct http *h, uint64_t n)
{
    h->body_bytes -= n;
}

uint16_t http_port(const struct http *h)
{
    return h->port;
}

uint32_t http_n_connections(const struct http *h)
{
    return h->n_connections;
}

uint32_t http_n_owed(const struct http *h)
{
    return h->n_owed;
}

/* ---- the loop drives MHD ---- */

static void on_timer(uv_timer_t *timer)
{
    struct http *h = timer->data;

    h->is_due = true;
    http_kick(h);
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    struct http *h = poll->data;

    (void)status;
    (void)events;
    h->is_due = true;
    http_kick(h);
}

static void set_timer(struct http *h)
{
    MHD_UNSIGNED_LONG_LONG ms = 0;

    if (MHD_get_timeout(h->daemon, &ms) == MHD_YES)
        uv_timer_start(&h->timer, on_timer, ms, 0);
    else
        uv_timer_stop(&h->timer);
}

void http_kick(struct http *h)
{
    if (h->is_inside || !h->is_due || h->is_stopping)
        return;
    h->is_inside = true;
    h->is_due = false;
    MHD_run(h->daemon);
    h->is_inside = false;
    set_timer(h);
    if (h->is_due) /* a handler answered at once: MHD goes on in the next turn */
        uv_timer_start(&h->timer, on_timer, 0, 0);
}

/* ---- one request ---- */

static void refuse(struct http_call *c, int status, const char *code, const char *message)
{
    struct api_error e;

    api_error_set(&e, status, NULL, code, "%s", message);
    c->is_discarding = true;
    http_call_reply_error(c, &e);
}

const struct http_route *http_route_of(const struct http_call *c)
{
    const struct http *h = c->http;

    return c->route < h->opt.n_routes ? &h->opt.routes[c->route] : NULL;
}

static bool find_route(struct http *h, struct http_call *c, const char *url)
{
    for (c->route = 0; c->route < h->opt.n_routes; c->route++) {
        const char *path = h->opt.routes[c->route].path;
        const size_t n = strlen(path);
        const bool takes_tail = path[n - 1] == '/';

        if (takes_tail ? strncmp(path, url, n) == 0 && url[n] != '\0' : strcmp(path, url) == 0) {
            snprintf(c->tail, sizeof(c->tail), "%s", url + n);
            return true;
        }
    }
    return false;
}

static bool method_fits(enum http_methods allowed, const char *method)
{
    if (allowed == HTTP_GET)
        return strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
    return strcmp(method, "POST") == 0;
}

/* Nothing, JSON, or what plain tools say when nobody told them. */
static bool is_json_type(const char *type)
{
    static const char *const fine[] = {"application/json", "text/plain"};

    if (type == NULL)
        return true;
    for (size_t i = 0; i < sizeof(fine) / sizeof(fine[0]); i++) {
        const size_t n = strlen(fine[i]);

        if (strncasecmp(type, fine[i], n) == 0 && strchr("; \t", type[n]) != NULL)
            return true;
    }
    return false;
}

static size_t header_bytes(const struct http_call *c)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(c->mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);

    return info != NULL ? info->header_size : 0;
}

static uint64_t content_length(const struct http_call *c)
{
    const char *text = http_call_header(c, "Content-Length");

    return text != NULL ? strtoull(text, NULL, 10) : 0;
}

/* Everything that can be said before the body has come. */
static void check_head(struct http *h, struct http_call *c, const char *url, const char *method)
{
    const bool found = find_route(h, c, url);
    const struct http_route *route = &h->opt.routes[found ? c->route : 0];

    if (header_bytes(c) > HTTP_MAX_HEADER) {
        refuse(c, 431, NULL, "the request's headers are too large");
    } else if (!found) {
        refuse(c, 404, NULL, "there is no such path");
    } else if (!method_fits(route->method, method)) {
        http_call_set_header(c, "Allow", route->method == HTTP_GET ? "GET, HEAD" : "POST");
        refuse(c, 405, NULL, "the method is not allowed here");
    } else if (content_length(c) > h->opt.max_body) {
        refuse(c, 413, NULL, "the request's body is too large");
    } else if (route->method == HTTP_POST && !is_json_type(http_call_header(c, "Content-Type"))) {
        refuse(c, 415, NULL, "the content type must be application/json");
    }
}

/* A refused client that waits for a "100 Continue", or means to send far too much, is told at
 * once; then the connection ends. */
static bool must_answer_now(const struct http *h, const struct http_call *c)
{
    return c->is_discarding && (http_call_header(c, "Expect") != NULL ||
                                content_length(c) / DISCARD_FACTOR > h->opt.max_body);
}

static enum MHD_Result begin(struct http *h, struct MHD_Connection *mhd, const char *url,
                             const char *method, void **slot)
{
    struct http_call *c = call_create(h, mhd);

    if (c == NULL)
        return MHD_NO;
    *slot = c;
    list_push_back(&h->calls, &c->link);
    buf_init(&c->body, h->opt.max_body);
    check_head(h, c, url, method);
    return must_answer_now(h, c) ? call_queue_response(c) : MHD_YES;
}

static enum MHD_Result receive(struct http *h, struct http_call *c, const char *bytes, size_t n)
{
    c->n_received += n;
    if (c->n_received / DISCARD_FACTOR > h->opt.max_body)
        return MHD_NO;
    if (c->is_discarding)
        return MHD_YES;
    if (h->body_bytes + n > MAX_BODIES * h->opt.max_body)
        refuse(c, 503, NULL, "too much is being uploaded at the moment");
    else if (buf_add(&c->body, bytes, n) < 0)
        refuse(c, c->body.err == ERR_LIMIT ? 413 : 503, NULL, "the request's body is too large");
    else
        h->body_bytes += n, c->n_kept += n;
    return MHD_YES;
}

static enum MHD_Result on_access(void *ud, struct MHD_Connection *mhd, const char *url,
                                 const char *method, const char *version, const char *bytes,
                                 size_t *n_bytes, void **slot)
{
    struct http *h = ud;
    struct http_call *c = *slot;
    enum MHD_Result rc;

    (void)version;
    if (c == NULL)
        return begin(h, mhd, url, method, slot);
    if (*n_bytes > 0) {
        rc = receive(h, c, bytes, *n_bytes);
        *n_bytes = 0;
        return rc;
    }
    if (c->state == CALL_RECEIVING) {
        c->state = CALL_WAITING;
        c->is_owed = true;
        h->n_owed++;
        h->opt.routes[c->route].handle(h->opt.ud, c);
    }
    if (c->state == CALL_DEAD)
        return MHD_NO;
    if (c->state != CALL_WAITING)
        return call_queue_response(c);
    call_suspend(c);
    return MHD_YES;
}

/* 499: the client went before there was an answer (nginx's number). */
static void on_completed(void *ud, struct MHD_Connection *mhd, void **slot,
                         enum MHD_RequestTerminationCode code)
{
    struct http *h = ud;
    struct http_call *c = *slot;

    (void)mhd;
    (void)code;
    if (c == NULL)
        return;
    *slot = NULL;
    if (c->gone != NULL)
        c->gone(c->gone_ud);
    h->opt.done(h->opt.ud, c->route, c->is_queued ? c->status : 499);
    http_forget_bytes(h, c->n_kept);
    h->n_owed -= c->is_owed;
    call_destroy(c);
}

static void on_connection(void *ud, struct MHD_Connection *mhd, void **slot,
                          enum MHD_ConnectionNotificationCode code)
{
    struct http *h = ud;

    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *info =
            MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);

        h->n_connections++;
        *slot = peer_open(h, h->opt.loop, info->connect_fd);
    } else {
        h->n_connections--;
        peer_close(*slot);
        *slot = NULL;
    }
}

/* MHD's own complaints are about single connections: nobody has to act on them. */
static void on_mhd_log(void *ud, const char *format, va_list args)
{
    char text[200], quoted[240];

    (void)ud;
    if (!log_is_on(LOG_DEBUG))
        return;
    vsnprintf(text, sizeof(text), format, args);
    text[strcspn(text, "\n")] = '\0';
    log_debug("http", "event=mhd text=%s", log_quote(quoted, sizeof(quoted), text));
}

/* ---- life ---- */

/* Each connection is a descriptor. Raise the soft limit as far as needed and allowed. */
static uint32_t fit_connections(uint32_t wanted)
{
    struct rlimit r;

    if (getrlimit(RLIMIT_NOFILE, &r) < 0)
        return wanted;
    if (r.rlim_cur < (rlim_t)wanted + SPARE_FDS) {
        r.rlim_cur = r.rlim_max < (rlim_t)wanted + SPARE_FDS ? r.rlim_max : wanted + SPARE_FDS;
        setrlimit(RLIMIT_NOFILE, &r);
        getrlimit(RLIMIT_NOFILE, &r);
    }
    if (r.rlim_cur >= (rlim_t)wanted + SPARE_FDS)
        return wanted;
    return r.rlim_cur > 2 * SPARE_FDS ? (uint32_t)r.rlim_cur - SPARE_FDS : SPARE_FDS;
}

static int start_daemon(struct http *h)
{
    const unsigned int flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG;

    h->daemon = MHD_start_daemon(
        flags, 0, NULL, NULL, on_access, h, MHD_OPTION_EXTERNAL_LOGGER, on_mhd_log, NULL,
        MHD_OPTION_LISTEN_SOCKET, (MHD_socket)h->listen_fd, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned int)h->opt.max_connections, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned int)h->opt.idle_timeout_s, MHD_OPTION_CONNECTION_MEMORY_LIMIT, POOL_BYTES,
        MHD_OPTION_NOTIFY_COMPLETED, on_completed, h, MHD_OPTION_NOTIFY_CONNECTION, on_connection,
        h, MHD_OPTION_END);
    return h->daemon != NULL ? 0 : ERR_INTERNAL;
}

int http_create(struct http **out, const struct http_options *options, char *err, size_t err_len)
{
    struct http *h = mem_calloc(1, sizeof(*h));
    int rc;

    *out = NULL;
    if (h == NULL)
        return snprintf(err, err_len, "out of memory"), ERR_NOMEM;
    h->opt = *options;
    h->opt.max_connections = fit_connections(options->max_connections);
    list_init(&h->calls);
    rc = listen_open(options->host, options->port, &h->listen_fd, &h->port, err, err_len);
    if (rc < 0)
        goto fail;
    rc = start_daemon(h);
    if (rc < 0) {
        snprintf(err, err_len, "the HTTP daemon cannot be started");
        close(h->listen_fd);
        goto fail;
    }
    *out = h;
    return 0;
fail:
    mem_free(h);
    return rc;
}

void http_start(struct http *h)
{
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(h->daemon, MHD_DAEMON_INFO_EPOLL_FD);

    uv_timer_init(h->opt.loop, &h->timer);
    uv_poll_init(h->opt.loop, &h->poll, info->epoll_fd);
    h->timer.data = h->poll.data = h;
    uv_poll_start(&h->poll, UV_READABLE, on_readable);
    h->is_started = true;
    h->is_due = true;
    http_kick(h);
}

void http_drain(struct http *h)
{
    h->is_draining = true;
}

bool http_is_draining(const struct http *h)
{
    return h->is_draining;
}

void http_stop(struct http *h)
{
    if (h->daemon == NULL)
        return;
    h->is_stopping = true;
    list_each(it, &h->calls) call_lose(list_entry(it, struct http_call, link));
    if (h->is_started) { /* MHD refuses to stop with suspended connections: let it see them resumed
                          */
        MHD_run(h->daemon);
        uv_close((uv_handle_t *)&h->poll, NULL);
        uv_close((uv_handle_t *)&h->timer, NULL);
    }
    MHD_stop_daemon(h->daemon);
    h->daemon = NULL;
}

void http_destroy(struct http **http)
{
    struct http *h = http != NULL ? *http : NULL;

    if (h == NULL)
        return;
    http_stop(h);
    mem_free(h);
    *http = NULL;
}
