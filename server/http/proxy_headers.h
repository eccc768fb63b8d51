/* server/http/proxy_headers.h - headers by which a gateway describes a request: the names of
 * llm-d's endpoint picker, and the older ones of the Gateway API inference extension.
 *
 * They are believed only on connections from `trusted_proxies` (config/networks.h) and ignored on
 * others. Each may occur once.
 *
 * Thread: the loop's.
 * Memory: none.
 */
#ifndef SERVER_HTTP_PROXY_HEADERS_H
#define SERVER_HTTP_PROXY_HEADERS_H

#include <stdbool.h>

struct http_call;

enum proxy_header {
    PROXY_OBJECTIVE = 0, /* name of the request's class */
    PROXY_FAIRNESS_ID,   /* the tenant of the request */
    PROXY_TTFT_MS,       /* the deadline of its first token */
    PROXY_N_HEADERS,
};

/* Return the header's value; NULL: absent, or not believed. The newer name comes first. */
const char *proxy_header(const struct http_call *c, enum proxy_header h);
/* The newer name of the header. */
const char *proxy_header_name(enum proxy_header h);

/* Return the name of a believed header that occurs more than once, or NULL. */
const char *proxy_header_twice(const struct http_call *c);

/* True: the peer of the socket `fd` is one of trusted_proxies. */
bool proxy_is_trusted(const char *trusted_proxies, int fd);

#endif
