/* server/listen.h - the listening socket.
 *
 * Thread: any.
 * Memory: none.
 */
#ifndef SERVER_LISTEN_H
#define SERVER_LISTEN_H

#include <stddef.h>
#include <stdint.h>

/* Bind a name or address (IPv4 or IPv6) and a port (0: any free one) and listen, non-blocking.
 * *bound is the port it became. ERR_IO with a sentence: "cannot listen on 127.0.0.1:80: …". */
int listen_open(const char *host, uint16_t port, int *fd, uint16_t *bound, char *err,
                size_t err_len);

#endif
