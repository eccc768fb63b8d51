/* server/http/http.c - see http.h.
 *
 * struct http holds the parts (at most one TCP and one Unix listener, the connections, their
 * limits, local calls) and connects them: the end of a connection resumes listeners that pause
 * because no slot was free. Sockets that another process has opened replace those that would be
 * bound. At the end listeners close first, so that no client comes while connections are closed.
 */
#include "server/http/http.h"

#include "core/base/err.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "server/http/connection.h"
#include "server/http/exchange.h"
#include "server/http/limits.h"
#include "server/http/listener.h"
#include "server/http/local_call.h"

#include <stdio.h>

#define MAX_LISTENERS 2

struct http {
    struct http_shared shared;
    uint16_t port;
    struct listener listeners[MAX_LISTENERS]; /* [n_listeners] */
    size_t n_listeners;
    struct connections connections;
    struct limits limits;
    struct local_calls local;
    bool is_started, is_stopping;
};

/* ---- counts ---- */

uint16_t http_port(const struct http *h)
{
    return h->port;
}

uint32_t http_n_connections(const struct http *h)
{
    return h->connections.n;
}

uint32_t http_n_owed(const struct http *h)
{
    return h->shared.n_owed;
}

const uint64_t *http_edge_counts(const struct http *h)
{
    return h->shared.edge;
}

/* ---- life ---- */

static void on_closed(void *ud)
{
    struct http *h = ud;

    for (size_t i = 0; i < h->n_listeners && !h->is_stopping; i++)
        if (h->listeners[i].fd >= 0)
            listener_resume(&h->listeners[i]);
}

static void add_listener(struct http *h, int fd, const struct socket_file *file,
                         enum head_origin from)
{
    struct listener *l = &h->listeners[h->n_listeners++];

    *l = (struct listener){
        .http = &h->shared,
        .group = &h->connections,
        .limits = &h->limits,
        .tls = from == HEAD_UNIX ? NULL : h->shared.opt.tls,
        .from = from,
    };
    if (file != NULL)
        l->file = *file;
    listener_init(l, fd);
}

static int open_listeners(struct http *h, char *err, size_t err_len)
{
    const struct http_sockets inherited =
        h->shared.opt.inherited != NULL ? *h->shared.opt.inherited : HTTP_NO_SOCKETS;
    struct socket_file file;
    int fd, rc = 0;

    if (inherited.tcp >= 0) {
        fd = inherited.tcp;
        h->port = listen_port(fd);
        add_listener(h, fd, NULL, listen_is_loopback(fd) ? HEAD_LOOPBACK : HEAD_ANYWHERE);
    } else if (h->shared.opt.host[0] != '\0') {
        rc = listen_open(h->shared.opt.host, h->shared.opt.port, &fd, &h->port, err, err_len);
        if (rc == 0)
            add_listener(h, fd, NULL, listen_is_loopback(fd) ? HEAD_LOOPBACK : HEAD_ANYWHERE);
    }
    if (inherited.local >= 0) {
        add_listener(h, inherited.local, NULL, HEAD_UNIX);
    } else if (rc == 0 && h->shared.opt.unix_path[0] != '\0') {
        rc = listen_unix(h->shared.opt.unix_path, h->shared.opt.unix_mode, &fd, &file, err,
                         err_len);
        if (rc == 0)
            add_listener(h, fd, &file, HEAD_UNIX);
    }
    return rc;
}

static int set_limits(struct http *h, char *err, size_t err_len)
{
    const uint32_t n_daemons = 2 + h->shared.opt.max_connections / DAEMON_CONNECTIONS;
    const uint32_t n_other = h->shared.opt.n_other_fds + n_daemons * DAEMON_FDS;
    const uint32_t n = limits_fit(h->shared.opt.max_connections, n_other);

    if (n == 0) {
        snprintf(err, err_len, "too few file descriptors are allowed (ulimit -n): with those that "
                               "models and files need, none are left for connections");
        return ERR_LIMIT;
    }
    if (n < h->shared.opt.max_connections)
        log_warn("http", "event=connections_lowered wanted=%u now=%u reason=descriptors",
                 h->shared.opt.max_connections, n);
    limits_init(&h->limits, &h->connections, n, h->shared.opt.max_connections_per_address);
    return 0;
}

int http_create(struct http **out, const struct http_options *options, char *err, size_t err_len)
{
    struct http *h = mem_calloc(1, sizeof(*h));
    int rc;

    *out = NULL;
    if (h == NULL)
        return snprintf(err, err_len, "out of memory"), ERR_NOMEM;
    h->shared.opt = *options;
    const struct connections_options connections = {
        .http = &h->shared,
        .loop = options->loop,
        .header_timeout_s = options->header_timeout_s,
        .idle_timeout_s = options->idle_timeout_s,
        .min_rate = options->min_body_rate,
        .closed = on_closed,
        .ud = h,
    };
    snprintf(err, err_len, "out of memory");
    rc = connections_init(&h->connections, &connections);
    if (rc == 0)
        rc = open_listeners(h, err, err_len);
    if (rc == 0)
        rc = set_limits(h, err, err_len);
    if (rc < 0)
        http_destroy(&h);
    *out = h;
    return rc;
}

void http_start(struct http *h)
{
    const struct http_options *o = &h->shared.opt;

    h->is_started = true;
    connections_start(&h->connections);
    local_calls_start(&h->local, &h->shared);
    for (size_t i = 0; i < h->n_listeners; i++) {
        struct listener *l = &h->listeners[i];

        if (l->from == HEAD_UNIX && o->inherited != NULL && o->inherited->local >= 0 &&
            !o->keeps_files)
            socket_file_of(o->unix_path, &l->file);
        listener_start(l, o->loop);
    }
}

struct local_calls *http_local_calls(struct http *h)
{
    return &h->local;
}

void http_drain(struct http *h)
{
    h->shared.is_draining = true;
}

struct http_sockets http_listening(const struct http *h)
{
    struct http_sockets s = HTTP_NO_SOCKETS;

    for (size_t i = 0; i < h->n_listeners; i++)
        if (h->listeners[i].from == HEAD_UNIX)
            s.local = h->listeners[i].fd;
        else
            s.tcp = h->listeners[i].fd;
    return s;
}

void http_stop_listening(struct http *h)
{
    for (size_t i = 0; i < h->n_listeners; i++) {
        h->listeners[i].file = (struct socket_file){0};
        listener_close(&h->listeners[i]);
    }
}

bool http_close(struct http *h)
{
    for (size_t i = 0; i < h->n_listeners; i++)
        listener_close(&h->listeners[i]);
    return connections_close(&h->connections);
}

void http_stop(struct http *h)
{
    if (h->is_stopping)
        return;
    h->is_stopping = true;
    for (size_t i = 0; i < h->n_listeners; i++)
        listener_close(&h->listeners[i]);
    if (!h->is_started)
        return;
    connections_stop(&h->connections);
    local_calls_stop(&h->local);
}

void http_destroy(struct http **http)
{
    struct http *h = http != NULL ? *http : NULL;

    if (h == NULL)
        return;
    http_stop(h);
    connections_release(&h->connections);
    mem_free(h);
    *http = NULL;
}
