/* server/http/transport.h - the bytes of one connection: a socket, plain or under TLS.
 *
 * Nothing blocks: what has to wait is ERR_AGAIN, and needs_write tells a handshake's direction.
 *
 * Thread: the loop's.
 * Memory: GnuTLS's session, some 40 KiB; none when plain.
 * Errors: ERR_IO ends the connection.
 */
#ifndef SERVER_HTTP_TRANSPORT_H
#define SERVER_HTTP_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct gnutls_session_int;
struct tls;
struct tls_credentials;

struct transport {
    int fd; /* owned */
    struct gnutls_session_int *session; /* NULL = plain */
    struct tls_credentials *credentials;
    bool needs_write; /* what AGAIN waits for, during the handshake */
};

/* Takes the socket on success. `tls` NULL = plain. ERR_NOMEM. */
int transport_open(struct transport *t, int fd, struct tls *tls);
void transport_close(struct transport *t);

int transport_handshake(struct transport *t); /* 0, ERR_AGAIN, ERR_IO; 0 when plain */
ssize_t transport_read(struct transport *t, void *buf, size_t n); /* 0: the client has ended */
/* After ERR_AGAIN the next call must have the same bytes. */
ssize_t transport_write(struct transport *t, const void *bytes, size_t n);
bool transport_has_more(const struct transport *t); /* bytes that no poll would tell of */
/* Nothing more will be written: the client sees a proper end. */
void transport_end(struct transport *t);

#endif
