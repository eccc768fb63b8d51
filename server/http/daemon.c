/* server/http/daemon.c - see daemon.h.
 *
 * The first daemon of a list is run next and then moved to the end, so that each gets its turn when
 * a callback's time is used up before all have run. A daemon is run when its epoll set is readable,
 * and before the loop sleeps while libmicrohttpd has work without an event (a timeout of 0 ms, a
 * new or resumed connection).
 */
#include "server/http/daemon.h"

#include "core/base/log.h"
#include "core/base/mem.h"
#include "server/process/loop_guard.h"

#include <gnutls/abstract.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How strictly libmicrohttpd reads RFC 9112: 1 refuses what two parties may read differently, and
 * accepts one empty line before a request, as the RFC requires. */
#define DISCIPLINE 1

/* ---- libmicrohttpd's log ---- */

/* Lines about refused requests begin with this text; they are counted and logged. A connection
 * whose first line is no request at all is closed without a line. Other lines report clients that
 * have disconnected and connections that this server has closed itself. */
__attribute__((format(printf, 2, 0))) static void on_log(void *ud, const char *format, va_list args)
{
    static const char refusal[] = "Error processing request";
    struct daemons *group = ud;
    char text[200], quoted[420];

    if (strncmp(format, refusal, sizeof(refusal) - 1) != 0)
        return;
    vsnprintf(text, sizeof(text), format, args);
    text[strcspn(text, "\n")] = '\0';
    ++*group->n_malformed;
    log_info("http", "event=malformed reason=%s", log_quote(quoted, sizeof(quoted), text));
}

static void on_panic(void *ud, const char *file, unsigned line, const char *reason)
{
    char quoted[420];

    (void)ud, (void)file;
    log_error("http", "event=libmicrohttpd_failed line=%u reason=%s", line,
              log_quote(quoted, sizeof(quoted), reason != NULL ? reason : ""));
    abort();
}

/* libmicrohttpd starts no TLS daemon without this callback, but GnuTLS never calls it: connection.c
 * gives each session the credentials in force. */
static int on_certificate(gnutls_session_t session, const gnutls_datum_t *authorities,
                          int n_authorities, const gnutls_pk_algorithm_t *algorithms,
                          int n_algorithms, gnutls_pcert_st **certificate, unsigned *n_certificates,
                          gnutls_privkey_t *key)
{
    (void)session, (void)authorities, (void)n_authorities, (void)algorithms, (void)n_algorithms;
    (void)certificate, (void)n_certificates, (void)key;
    return -1;
}

/* ---- runs ---- */

void daemon_ask(struct daemon *d)
{
    d->is_pending = true;
}

void daemon_run(struct daemon *d)
{
    MHD_run(d->mhd);
    d->is_pending = MHD_get_timeout64s(d->mhd) == 0;
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    LOOP_CALLBACK(poll->loop, "daemon.readable");

    (void)status, (void)events;
    daemon_run(poll->data);
}

/* Run the pending daemons from the front; those that were run move to the end. */
static void run_in_turn(struct daemons *group)
{
    struct list done;

    list_init(&done);
    while (!list_is_empty(&group->all) && !loop_guard_is_due(group->loop)) {
        struct daemon *d = list_entry(group->all.next, struct daemon, link);

        list_unlink(&d->link);
        list_push_back(&done, &d->link);
        if (d->is_pending)
            daemon_run(d);
    }
    list_move_back(&group->all, &done);
}

bool daemons_run_pending(struct daemons *group)
{
    run_in_turn(group);
    list_each(it, &group->all) if (list_entry(it, struct daemon, link)->is_pending) return true;
    return false;
}

/* ---- life ---- */

void daemons_start(struct daemons *group, uv_loop_t *loop, const struct daemon_callbacks *callbacks,
                   uint64_t *n_malformed)
{
    *group = (struct daemons){.loop = loop, .callbacks = *callbacks, .n_malformed = n_malformed};
    list_init(&group->all);
    MHD_set_panic_func(on_panic, NULL);
}

static struct MHD_Daemon *start_mhd(struct daemons *group, bool is_tls)
{
    const struct daemon_callbacks *k = &group->callbacks;
    const unsigned flags = MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_USE_NO_THREAD_SAFETY |
                           MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG |
                           (is_tls ? MHD_USE_TLS : 0);
    const struct MHD_OptionItem tls[] = {
        {MHD_OPTION_HTTPS_CERT_CALLBACK, 0, (void *)on_certificate},
        {MHD_OPTION_END, 0, NULL},
    };

    return MHD_start_daemon(
        flags, 0, NULL, NULL, k->access, k->ud,
        MHD_OPTION_EXTERNAL_LOGGER, on_log, group, /* first, because later options may already
                                                    * log */
        MHD_OPTION_URI_LOG_CALLBACK, k->target, k->ud,
        MHD_OPTION_NOTIFY_COMPLETED, k->completed, k->ud,
        MHD_OPTION_NOTIFY_CONNECTION, k->notify, k->ud,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)DAEMON_CONNECTIONS,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, DAEMON_POOL_BYTES,
        MHD_OPTION_CONNECTION_TIMEOUT, 0u,
        MHD_OPTION_CLIENT_DISCIPLINE_LVL, DISCIPLINE,
        MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1,
        MHD_OPTION_ARRAY, is_tls ? tls : tls + 1, MHD_OPTION_END);
}

static struct daemon *make_daemon(struct daemons *group, bool is_tls)
{
    const union MHD_DaemonInfo *info;
    struct daemon *d = mem_calloc(1, sizeof(*d));

    if (d == NULL)
        return NULL;
    d->mhd = start_mhd(group, is_tls);
    info = d->mhd != NULL ? MHD_get_daemon_info(d->mhd, MHD_DAEMON_INFO_EPOLL_FD) : NULL;
    if (info == NULL || uv_poll_init(group->loop, &d->poll, info->epoll_fd) != 0) {
        if (d->mhd != NULL)
            MHD_stop_daemon(d->mhd);
        mem_free(d);
        return NULL;
    }
    d->group = group;
    d->is_tls = is_tls;
    d->poll.data = d;
    list_init(&d->connections);
    list_push_back(&group->all, &d->link);
    uv_poll_start(&d->poll, UV_READABLE, on_readable);
    return d;
}

struct daemon *daemons_with_room(struct daemons *group, bool is_tls)
{
    list_each(it, &group->all)
    {
        struct daemon *d = list_entry(it, struct daemon, link);

        if (d->is_tls == is_tls && d->n_connections < DAEMON_CONNECTIONS)
            return d;
    }
    return make_daemon(group, is_tls);
}

bool daemon_add(struct daemon *d, int fd)
{
    const bool is_added = MHD_add_connection(d->mhd, fd, NULL, 0) == MHD_YES;

    daemon_ask(d);
    return is_added;
}

static void on_closed(uv_handle_t *handle)
{
    LOOP_CALLBACK(handle->loop, "daemon.closed");
    mem_free(handle->data);
}

void daemon_stop(struct daemon *d)
{
    list_unlink(&d->link);
    uv_close((uv_handle_t *)&d->poll, on_closed);
    MHD_stop_daemon(d->mhd);
    d->mhd = NULL;
}
