/* server/http/http_request.h - the head of one request.
 *
 * A plain value: head_guard.h fills it for clients and local_call.h for the server's own calls, and
 * later code does not depend on which. Its contents have been checked: names are tokens, values
 * have no control characters but tabs, the target is valid (http_target.h), the body has one length
 * or is chunked.
 *
 * Zero is a request that was not read. A refused request has the parts that had been read by then,
 * and keeps_alive is false, because the start of the next request is not known.
 *
 * Thread: any.
 * Memory: none; the texts are borrowed from the reader of the head.
 */
#ifndef SERVER_HTTP_HTTP_REQUEST_H
#define SERVER_HTTP_HTTP_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/http/http_target.h"

#define HTTP_MAX_LINE ((size_t)8 << 10)  /* the least that RFC 9112, section 3, recommends */
#define HTTP_MAX_HEAD ((size_t)16 << 10) /* request line and fields */
#define HTTP_MAX_FIELDS 100              /* also the most fields of trailers */
#define HTTP_MAX_TRAILER ((size_t)4 << 10)

struct http_field {
    const char *name, *value; /* NUL-terminated */
};

struct http_request {
    const char *method;        /* case-sensitive; "" or NULL: none was read */
    struct http_target target; /* its path is NULL when none was read */
    bool is_http_10;
    bool keeps_alive; /* the client wants to keep the connection */
    bool expects_continue, has_bad_expectation;
    bool is_chunked; /* else the body has `length` bytes */
    uint64_t length;
    size_t n_fields;
    struct http_field fields[HTTP_MAX_FIELDS];
};

/* Return the method; "": none was read. */
const char *http_request_method(const struct http_request *r);
/* Return the value of the first field with that name (case-insensitive), or NULL; count the fields
 * with that name. */
const char *http_request_field(const struct http_request *r, const char *name);
uint32_t http_request_count(const struct http_request *r, const char *name);
/* True: the request has a body (a length of 0 means none). */
bool http_request_has_body(const struct http_request *r);

#endif
