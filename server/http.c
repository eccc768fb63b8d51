/* server/http.c - routing, limits, what MHD calls back; see http.h. */
#include "server/http.h"

#include "core/base/err.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "server/access.h"
#include "server/call.h"
#include "server/cors.h"
#include "server/listen.h"
#include "server/tls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>

/* A refused body is read to its end, so that the client gets to see the answer instead of a
 * reset, up to so many times the limit. */
#define DISCARD_FACTOR 4
/* So many bodies of full size may be in memory at the same time. */
#define MAX_BODIES 16
/* Descriptors for the model, logs, the loop's own and the thread pool's files. */
#define SPARE_FDS 64

#define MAX_DOORS 2

struct http {
    struct http_options opt;
    uint16_t port;
    struct door doors[MAX_DOORS]; /* [n_doors] */
    size_t n_doors;
    struct list calls;
    uint32_t n_owed, n_connections;
    bool is_inside; /* MHD_run() is on the stack */
    bool is_draining, is_stopping;
    uint64_t body_bytes; /* of all bodies that are being received */
};

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

/* What a door's handlers do may concern another door that has had its turn: its timer wakes it. */
void http_kick(struct http *h)
{
    if (h->is_inside || h->is_stopping)
        return;
    h->is_inside = true;
    for (size_t i = 0; i < h->n_doors; i++)
        door_run(&h->doors[i]);
    h->is_inside = false;
    for (size_t i = 0; i < h->n_doors; i++)
        door_remind(&h->doors[i]);
}

/* ---- connections ---- */

static struct gnutls_session_int *session_of(struct MHD_Connection *mhd)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_GNUTLS_SESSION);

    return info != NULL ? info->tls_session : NULL;
}

/* A session begins. */
static void secure(struct door *d, struct peer *p, struct MHD_Connection *mhd)
{
    p->credentials = tls_begin(d->tls, session_of(mhd));
    p->is_fresh = true;
    d->n_fresh++;
}

/* It has asked something, or ends. */
static void forget_fresh(struct door *d, struct peer *p)
{
    if (p == NULL || !p->is_fresh)
        return;
    p->is_fresh = false;
    d->n_fresh--;
}

static void on_connection(void *ud, struct MHD_Connection *mhd, void **slot,
                          enum MHD_ConnectionNotificationCode code)
{
    struct door *d = ud;
    struct http *h = d->http;

    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *info =
            MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
        struct peer *peer = peer_open(h, h->opt.loop, info->connect_fd);

        h->n_connections++;
        if (peer != NULL && d->tls != NULL)
            secure(d, peer, mhd);
        *slot = peer;
    } else {
        h->n_connections--;
        forget_fresh(d, *slot);
        peer_close(*slot);
        *slot = NULL;
    }
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
    const bool has_cors = h->opt.cors_origins[0] != '\0';

    if (has_cors)
        cors_add_headers(h->opt.cors_origins, c);
    if (header_bytes(c) > HTTP_MAX_HEADER) {
        refuse(c, 431, NULL, "the request's headers are too large");
    } else if (has_cors && cors_is_preflight(c, method)) { /* the path is the request's matter */
        cors_answer(h->opt.cors_origins, c);
        c->is_discarding = true;
    } else if (!found) {
        refuse(c, 404, NULL, "there is no such path");
    } else if (!method_fits(route->method, method)) {
        http_call_set_header(c, "Allow", route->method == HTTP_GET ? "GET, HEAD" : "POST");
        refuse(c, 405, NULL, "the method is not allowed here");
    } else if (h->opt.admit(h->opt.ud, c, route->flags) < 0) {
        c->is_discarding = true;
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

static enum MHD_Result begin(struct door *d, struct MHD_Connection *mhd, const char *url,
                             const char *method, void **slot)
{
    struct http *h = d->http;
    struct http_call *c = call_create(d, mhd, method);

    if (c == NULL)
        return MHD_NO;
    *slot = c;
    forget_fresh(d, c->peer);
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
    struct door *d = ud;
    struct http *h = d->http;
    struct http_call *c = *slot;
    enum MHD_Result rc;

    (void)version;
    if (c == NULL)
        return begin(d, mhd, url, method, slot);
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
    struct http *h = ((struct door *)ud)->http;
    struct http_call *c = *slot;
    int status;

    (void)mhd;
    (void)code;
    if (c == NULL)
        return;
    *slot = NULL;
    if (c->gone != NULL)
        c->gone(c->gone_ud);
    status = c->is_queued ? c->status : 499;
    h->opt.done(h->opt.ud, c->route, status);
    access_end(c->access, c->route < h->opt.n_routes ? h->opt.routes[c->route].path : "other",
               status, c->n_sent);
    http_forget_bytes(h, c->n_kept);
    h->n_owed -= c->is_owed;
    call_destroy(c);
}

/* ---- life ---- */

/* Each connection is a descriptor. Raise the soft limit as far as needed and allowed; the result
 * is what each of the doors may have. */
static uint32_t fit_connections(uint32_t wanted, uint32_t n_doors)
{
    const rlim_t needed = (rlim_t)wanted * n_doors + SPARE_FDS;
    struct rlimit r;

    if (getrlimit(RLIMIT_NOFILE, &r) < 0)
        return wanted;
    if (r.rlim_cur < needed) {
        r.rlim_cur = r.rlim_max < needed ? r.rlim_max : needed;
        setrlimit(RLIMIT_NOFILE, &r);
        getrlimit(RLIMIT_NOFILE, &r);
    }
    if (r.rlim_cur >= needed)
        return wanted;
    return (r.rlim_cur > 2 * SPARE_FDS ? (uint32_t)r.rlim_cur - SPARE_FDS : SPARE_FDS) / n_doors;
}

static int add_door(struct http *h, int fd, const struct listen_place *place, struct tls *tls,
                    char *err, size_t err_len)
{
    const struct door_options options = {
        .http = h,
        .loop = h->opt.loop,
        .max_connections = h->opt.max_connections,
        .idle_timeout_s = h->opt.idle_timeout_s,
        .tls = tls,
        .access = on_access,
        .completed = on_completed,
        .connection = on_connection,
    };
    const int rc = door_open(&h->doors[h->n_doors], &options, fd, place, err, err_len);

    h->n_doors += rc == 0;
    return rc;
}

static int open_doors(struct http *h, char *err, size_t err_len)
{
    struct listen_place place;
    int fd, rc = 0;

    if (h->opt.host[0] != '\0') {
        rc = listen_open(h->opt.host, h->opt.port, &fd, &h->port, err, err_len);
        if (rc == 0)
            rc = add_door(h, fd, NULL, h->opt.tls, err, err_len);
    }
    if (rc == 0 && h->opt.unix_path[0] != '\0') {
        rc = listen_unix(h->opt.unix_path, h->opt.unix_mode, &fd, &place, err, err_len);
        if (rc == 0)
            rc = add_door(h, fd, &place, NULL, err, err_len);
    }
    return rc;
}

int http_create(struct http **out, const struct http_options *options, char *err, size_t err_len)
{
    struct http *h = mem_calloc(1, sizeof(*h));
    const bool has_both = options->host[0] != '\0' && options->unix_path[0] != '\0';
    int rc;

    *out = NULL;
    if (h == NULL)
        return snprintf(err, err_len, "out of memory"), ERR_NOMEM;
    h->opt = *options;
    h->opt.max_connections = fit_connections(options->max_connections, has_both ? 2 : 1);
    list_init(&h->calls);
    rc = open_doors(h, err, err_len);
    if (rc < 0)
        http_destroy(&h);
    *out = h;
    return rc;
}

void http_start(struct http *h)
{
    for (size_t i = 0; i < h->n_doors; i++)
        door_start(&h->doors[i]);
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
    h->is_stopping = true;
    list_each(it, &h->calls) call_lose(list_entry(it, struct http_call, link));
    for (size_t i = 0; i < h->n_doors; i++)
        door_close(&h->doors[i]);
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
