/* server/http/http.h - HTTP/1.1, plain or over TLS, inside the server's libuv loop.
 *
 * libmicrohttpd reads requests and writes answers (daemon.h). A request that RFC 9112 does not
 * allow is refused and its connection closed: by libmicrohttpd, with its own error text, or by
 * head_guard.h.
 *
 * A client counts as gone after a reset, or the end of its sending side (EPOLLRDHUP). Half-closed
 * and closed look the same to a server that has not yet sent anything. Clients that half-close but
 * still want their answer hardly exist, and computing for a client that has disconnected would take
 * time from the others: so a FIN after the request means gone. Answers that are complete at once
 * (health, metrics, errors) are sent nevertheless.
 *
 * Connections have slots. When all are taken, a new client gets the slot of the connection that has
 * been idle for longest, else of the oldest one whose head is incomplete, else of one whose body
 * comes too slowly, else of the one whose client has read nothing for longest. If none of these
 * exists, a few reserved slots answer the routes with one of the `reserved_flags`, and give 503 to
 * all others.
 *
 * Thread: the loop's. Written bytes are sent before the loop sleeps again.
 * Memory: per connection HTTP_CONNECTION_BYTES; with a request 7 KiB and a body of at most
 *         max_body, its decoder (body_decoder.h), and the unsent answer: one reply, or a stream's
 *         backlog, which ends the stream once it exceeds HTTP_MAX_BACKLOG, and 16 KiB while a
 *         larger answer is sent. GnuTLS takes some 40 KiB more for a TLS connection.
 */
#ifndef SERVER_HTTP_HTTP_H
#define SERVER_HTTP_HTTP_H

#include "server/http/http_shared.h"

/* libmicrohttpd's memory for a head and bytes to be sent, and the memory of struct connection. */
#define HTTP_CONNECTION_BYTES ((size_t)33 << 10)

struct http;
struct local_calls;

/* Bind and listen. On failure `err` has a sentence. */
int http_create(struct http **out, const struct http_options *options, char *err, size_t err_len);
uint16_t http_port(const struct http *h); /* the TCP port; 0 = no TCP */

/* Start and stop serving on the loop. http_stop() ends every connection, answered or not; the loop
 * must run once more before http_destroy(). */
void http_start(struct http *h);
void http_drain(struct http *h); /* from now on each answer is its connection's last */
/* Stop accepting, because another process has the listening sockets too and accepts the new
 * clients. The files of Unix sockets stay. */
void http_stop_listening(struct http *h);
/* Called before http_stop(), because there may be thousands of connections: stop accepting, and
 * close connections until the callback's 5 ms are used up (loop_guard.h). False: some are left,
 * call it again. */
bool http_close(struct http *h);
void http_stop(struct http *h);
void http_destroy(struct http **h);

/* Return the group for calls of the server itself; valid from http_start() to http_stop(). */
struct local_calls *http_local_calls(struct http *h);

struct http_sockets http_listening(const struct http *h); /* borrowed */
uint32_t http_n_connections(const struct http *h);
uint32_t http_n_owed(const struct http *h); /* complete requests whose answers are not complete */
const uint64_t *http_edge_counts(const struct http *h); /* [HTTP_EDGE_COUNT] */

#endif
