/* server/http/head_guard.h - refuses what libmicrohttpd accepts and RFC 9112 does not.
 *
 * libmicrohttpd (at MHD_OPTION_CLIENT_DISCIPLINE_LVL 1) refuses most malformed requests. The guard
 * checks every request again and refuses the rest, because a proxy and a server that tolerate
 * different faults disagree on where a request ends (request smuggling): - request lines of more
 * than HTTP_MAX_LINE bytes (414), heads of more than HTTP_MAX_HEAD bytes or
 *   HTTP_MAX_FIELDS fields (431), versions other than 1.0 and 1.1 (505), CONNECT (501);
 * - names of methods and fields that are no tokens, control characters in values (400);
 * - Content-Length twice, with Transfer-Encoding, or as anything but up to 19 digits (400);
 * - Transfer-Encoding twice, in HTTP/1.0, or as anything but `chunked` (400; 501 if unknown codings
 *   come before it);
 * - Host twice or not valid, and absent in HTTP/1.1; targets that are not valid (http_target.h);
 * - trailers of more than HTTP_MAX_TRAILER bytes or HTTP_MAX_FIELDS fields (431), or that frame.
 *
 * Thread: the loop's.
 * Memory: none; the filled-in texts belong to libmicrohttpd's connection and to `target`.
 */
#ifndef SERVER_HTTP_HEAD_GUARD_H
#define SERVER_HTTP_HEAD_GUARD_H

#include <microhttpd.h>

#include "server/http/http_request.h"

struct guard_verdict {
    int status; /* 0: no fault */
    const char *why; /* static */
};

/* Fill in a request whose head is complete. `target` is the target of the request line as it was
 * sent; it is changed in place, and must live as long as the request. A refused request has
 * keeps_alive false, and those of target, method and fields that could be read. */
struct guard_verdict head_guard_read(struct MHD_Connection *c, const char *method,
                                     const char *version, char *target, struct http_request *out);

/* Check the trailers of a request that is complete. */
struct guard_verdict head_guard_check_trailers(struct MHD_Connection *c);

#endif
