/* server/door.c - see door.h. */
#include "server/door.h"

#include "core/base/err.h"
#include "core/base/log.h"
#include "server/http.h"
#include "server/tls.h"

#include <gnutls/abstract.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Of MHD's memory for a connection half may hold the request's head; 16 KiB of it are ours to
 * allow, and what is between gets our 431 instead of MHD's page. */
#define POOL_BYTES ((size_t)64 << 10)

/* While a handshake waits for the client's next message, MHD holds its connection for readable and
 * wants to run without a pause, for as long as the client likes. What does come in is told by epoll
 * at once, so little is lost by a pause of a millisecond then. */
#define HANDSHAKE_PAUSE_MS 1

/* ---- the loop drives MHD ---- */

static void on_timer(uv_timer_t *timer)
{
    struct door *d = timer->data;

    d->is_due = true;
    http_kick(d->http);
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    struct door *d = poll->data;

    (void)status;
    (void)events;
    d->is_due = true;
    http_kick(d->http);
}

void door_run(struct door *d)
{
    if (!d->is_due || !d->is_started)
        return;
    d->is_due = false;
    MHD_run(d->daemon);
    d->has_run = true;
}

void door_remind(struct door *d)
{
    MHD_UNSIGNED_LONG_LONG ms = 0;

    if (d->is_due && d->is_started) /* a handler answered at once: MHD goes on in the next turn */
        uv_timer_start(&d->timer, on_timer, 0, 0);
    else if (d->has_run && MHD_get_timeout(d->daemon, &ms) == MHD_YES)
        uv_timer_start(&d->timer, on_timer,
                       ms == 0 && d->n_fresh > 0 ? HANDSHAKE_PAUSE_MS : ms, 0);
    else if (d->has_run)
        uv_timer_stop(&d->timer);
    d->has_run = false;
}

/* ---- life ---- */

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

/* MHD wants some way to a certificate. The sessions get theirs when they begin (tls_begin); one
 * for which that failed ends here. */
static int no_certificate(gnutls_session_t session, const gnutls_datum_t *authorities, int n,
                          const gnutls_pk_algorithm_t *algorithms, int n_algorithms,
                          gnutls_pcert_st **chain, unsigned int *n_chain, gnutls_privkey_t *key)
{
    (void)session, (void)authorities, (void)n, (void)algorithms, (void)n_algorithms;
    (void)chain, (void)n_chain, (void)key;
    return -1;
}

int door_open(struct door *d, const struct door_options *options, int fd,
              const struct listen_place *place, char *err, size_t err_len)
{
    const unsigned int flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG |
                               (options->tls != NULL ? MHD_USE_TLS : 0);
    const struct MHD_OptionItem secure[] = {
        {MHD_OPTION_HTTPS_CERT_CALLBACK, 0, (void *)no_certificate},
        {MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)TLS_PRIORITIES},
        {MHD_OPTION_END, 0, NULL},
    };

    *d = (struct door){.http = options->http, .loop = options->loop, .tls = options->tls};
    if (place != NULL)
        d->place = *place;
    d->daemon = MHD_start_daemon(
        flags, 0, NULL, NULL, options->access, d, MHD_OPTION_EXTERNAL_LOGGER, on_mhd_log, NULL,
        MHD_OPTION_LISTEN_SOCKET, (MHD_socket)fd, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned int)options->max_connections, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned int)options->idle_timeout_s, MHD_OPTION_CONNECTION_MEMORY_LIMIT, POOL_BYTES,
        MHD_OPTION_NOTIFY_COMPLETED, options->completed, d, MHD_OPTION_NOTIFY_CONNECTION,
        options->connection, d, MHD_OPTION_ARRAY,
        options->tls != NULL ? secure : &secure[2], MHD_OPTION_END);
    if (d->daemon != NULL)
        return 0;
    close(fd);
    listen_unlink(&d->place);
    snprintf(err, err_len, "the HTTP daemon cannot be started");
    return ERR_INTERNAL;
}

void door_start(struct door *d)
{
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(d->daemon, MHD_DAEMON_INFO_EPOLL_FD);

    uv_timer_init(d->loop, &d->timer);
    uv_poll_init(d->loop, &d->poll, info->epoll_fd);
    d->timer.data = d->poll.data = d;
    uv_poll_start(&d->poll, UV_READABLE, on_readable);
    d->is_started = true;
    d->is_due = true;
}

void door_close(struct door *d)
{
    if (d->daemon == NULL)
        return;
    if (d->is_started) { /* MHD refuses to stop with suspended connections: let it see them go */
        MHD_run(d->daemon);
        uv_close((uv_handle_t *)&d->poll, NULL);
        uv_close((uv_handle_t *)&d->timer, NULL);
    }
    MHD_stop_daemon(d->daemon);
    d->daemon = NULL;
    listen_unlink(&d->place);
}
