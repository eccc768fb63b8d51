/* server/http/http_parser.h - HTTP/1.1 requests from bytes (RFC 9110, RFC 9112), and nothing that
 * is not one.
 *
 * A push parser without I/O: the caller feeds bytes as they come and gets events. What it accepts
 * is the grammar of RFC 9112 without the tolerances that the RFC leaves to servers, because two
 * parties that tolerate differently disagree on where a request ends (request smuggling). The
 * events depend on the bytes alone, not on how they are cut, but for body bytes, which come in
 * pieces.
 *
 * Lines end with CRLF. An error is final: nothing after it is looked at. Refused are, with 400
 * where no other status is named:
 * - bare CR and LF, NUL and other control characters, folded lines, blanks before the colon;
 * - request lines of more than HTTP_MAX_LINE (414), heads of more than HTTP_MAX_HEAD bytes or
 *   HTTP_MAX_FIELDS fields (431), versions other than 1.0 and 1.1 (505), CONNECT (501);
 * - Content-Length twice, with Transfer-Encoding, or as anything but up to 19 digits;
 * - Transfer-Encoding twice, in HTTP/1.0, or as anything but `chunked` (501 when codings that
 *   are not known come before it);
 * - Host twice or not valid, and absent in HTTP/1.1; targets that are not valid (http_target.h);
 * - chunk sizes that are not 1 to 16 digits of a number below 2^63, and extensions that are not
 *   of   the grammar, longer than HTTP_MAX_EXTENSION bytes in one chunk, or than
 *   HTTP_MAX_EXTENSIONS in all; trailers of more than HTTP_MAX_TRAILER bytes (431), or that
 *   frame. One empty line before a request line is skipped.
 *
 * Thread: none of its own. Memory: the head, until http_parser_reset(); nothing before the first
 * byte.
 */
#ifndef SERVER_HTTP_HTTP_PARSER_H
#define SERVER_HTTP_HTTP_PARSER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/buf.h"
#include "server/http/http_request.h"

#define HTTP_MAX_EXTENSION 256
#define HTTP_MAX_EXTENSIONS ((size_t)4 << 10)

enum http_event {
    HTTP_MORE = 0, /* all bytes are used, more are needed */
    HTTP_HEAD,     /* the head is complete */
    HTTP_BODY,     /* bytes of the body */
    HTTP_END,      /* the request is complete; http_parser_reset() before the next */
    HTTP_BAD,      /* status and why say what is wrong; again at each further call */
};

enum http_framing {
    HTTP_NO_BODY = 0,
    HTTP_LENGTH,
    HTTP_CHUNKED,
};

struct http_parser_field {
    uint16_t name, value; /* offsets in the head, of NUL-terminated text */
};

struct http_parser { /* zero is one without a byte */
    /* The state; private. */
    int state, extension;
    bool has_cr, has_skipped_line;
    struct buf head;    /* its lines, each ended by NUL */
    struct buf trailer; /* the current line of trailers */
    size_t line;        /* where the head's current one begins */
    uint32_t n_digits, n_extension, n_extensions, n_trailers;
    size_t n_trailer_bytes;
    uint64_t left; /* of the body or the chunk */
    uint32_t n_fields;
    struct http_parser_field fields[HTTP_MAX_FIELDS];
    /* From HTTP_HEAD on. */
    size_t method; /* offset; case matters */
    struct http_target target;
    bool is_http_10;
    bool keeps_alive; /* as far as the client says */
    bool expects_continue, has_bad_expectation;
    enum http_framing framing;
    uint64_t length; /* with HTTP_LENGTH */
    /* From HTTP_BAD on. */
    int status;
    const char *why; /* static */
};

/* Take bytes from *at on, before `end`; *at is moved behind what was used. With HTTP_BODY *body and
 * *n_body are a part of these bytes, not empty. */
enum http_event http_parser_next(struct http_parser *p, const char **at, const char *end,
                                 const char **body, size_t *n_body);

/* Has a byte of a request come? */
bool http_parser_has_begun(const struct http_parser *p);

/* Ready for the next request; gives the head's memory back. */
void http_parser_reset(struct http_parser *p);

/* Valid from HTTP_HEAD until the reset. The method may be "" after HTTP_BAD. */
const char *http_parser_method(const struct http_parser *p);
/* The first field of a name, in any case, or NULL; and how many there are. */
const char *http_parser_field(const struct http_parser *p, const char *name);
uint32_t http_parser_count(const struct http_parser *p, const char *name);
/* The head as a value, whose texts are valid until the reset; of one that has failed or is not
 * complete, what there is. */
void http_parser_get_request(const struct http_parser *p, struct http_request *out);

#endif
