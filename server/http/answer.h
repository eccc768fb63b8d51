/* server/http/answer.h - passes an exchange's answer to libmicrohttpd.
 *
 * libmicrohttpd sends a whole answer of at most ANSWER_SMALL bytes from the exchange's own buffer,
 * with its head in one packet. It asks a content reader for the blocks of a larger one, and of a
 * stream, so that the reader knows how much the client has taken. It adds Date, the framing
 * (Content-Length or chunks) and, where the client cannot keep the connection, Connection: close.
 *
 * Thread: the loop's.
 * Memory: libmicrohttpd's response, which borrows the exchange's buffer: the exchange must live
 *         until its request is completed (MHD_OPTION_NOTIFY_COMPLETED).
 */
#ifndef SERVER_HTTP_ANSWER_H
#define SERVER_HTTP_ANSWER_H

#include <microhttpd.h>
#include <stddef.h>

struct http_call;

#define ANSWER_SMALL ((size_t)16 << 10)

/* Queue the answer of an exchange that is CALL_REPLIED, CALL_STREAMING or CALL_ENDED; `read` is
 * called with `ud` for its blocks. 0, or ERR_NOMEM. */
int answer_queue(struct MHD_Connection *c, struct http_call *call, MHD_ContentReaderCallback read,
                 void *ud);

/* Write a whole answer (CALL_REPLIED) straight to the client, while libmicrohttpd still reads the
 * request and cannot send one: 408 to a client that is too slow, 413 to one that sends too much.
 * The caller shuts down the connection's sending side. Bytes that the socket does not take at once
 * are lost. */
void answer_write_now(struct MHD_Connection *c, int fd, struct http_call *call);

#endif
