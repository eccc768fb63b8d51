/* server/http/transport.c - see transport.h. */
#include "server/http/transport.h"

#include "core/base/err.h"
#include "server/http/tls.h"

#include <errno.h>
#include <gnutls/gnutls.h>
#include <sys/socket.h>
#include <unistd.h>

int transport_open(struct transport *t, int fd, struct tls *tls)
{
    *t = (struct transport){.fd = fd};
    if (tls == NULL)
        return 0;
    if (gnutls_init(&t->session, GNUTLS_SERVER | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL) < 0)
        return ERR_NOMEM;
    t->credentials = tls_begin(tls, t->session);
    if (t->credentials == NULL) {
        gnutls_deinit(t->session);
        return ERR_NOMEM;
    }
    gnutls_transport_set_int(t->session, fd);
    gnutls_handshake_set_timeout(t->session, 0); /* the connection has its own */
    return 0;
}

void transport_close(struct transport *t)
{
    if (t->session != NULL)
        gnutls_deinit(t->session);
    tls_end(t->credentials);
    close(t->fd);
    *t = (struct transport){.fd = -1};
}

int transport_handshake(struct transport *t)
{
    int rc = 0;

    if (t->session == NULL)
        return 0;
    rc = gnutls_handshake(t->session);
    t->needs_write = gnutls_record_get_direction(t->session) == 1;
    if (rc == GNUTLS_E_AGAIN || rc == GNUTLS_E_INTERRUPTED || rc == GNUTLS_E_WARNING_ALERT_RECEIVED)
        return ERR_AGAIN;
    if (rc == GNUTLS_E_SUCCESS)
        return 0;
    gnutls_alert_send_appropriate(t->session, rc);
    return ERR_IO;
}

static ssize_t of_errno(void)
{
    return errno == EAGAIN || errno == EINTR ? ERR_AGAIN : ERR_IO;
}

/* A TCP end without a TLS close_notify counts as the end, too. */
static ssize_t of_gnutls(ssize_t n)
{
    switch (n) {
    case GNUTLS_E_AGAIN:
    case GNUTLS_E_INTERRUPTED:
    case GNUTLS_E_WARNING_ALERT_RECEIVED:
        return ERR_AGAIN;
    case GNUTLS_E_PREMATURE_TERMINATION:
        return 0;
    default:
        return n >= 0 ? n : ERR_IO;
    }
}

ssize_t transport_read(struct transport *t, void *buf, size_t n)
{
    ssize_t got;

    if (t->session != NULL)
        return of_gnutls(gnutls_record_recv(t->session, buf, n));
    got = recv(t->fd, buf, n, 0);
    return got >= 0 ? got : of_errno();
}

ssize_t transport_write(struct transport *t, const void *bytes, size_t n)
{
    ssize_t sent;

    if (t->session != NULL) {
        sent = of_gnutls(gnutls_record_send(t->session, bytes, n));
        return sent != 0 ? sent : ERR_IO;
    }
    sent = send(t->fd, bytes, n, MSG_NOSIGNAL);
    return sent >= 0 ? sent : of_errno();
}

bool transport_has_more(const struct transport *t)
{
    return t->session != NULL && gnutls_record_check_pending(t->session) > 0;
}

void transport_end(struct transport *t)
{
    if (t->session != NULL)
        gnutls_bye(t->session, GNUTLS_SHUT_WR);
    shutdown(t->fd, SHUT_WR);
}
