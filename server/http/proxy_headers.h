/* server/http/proxy_headers.h - what a gateway says of a request in headers: the names of llm-d's
 * endpoint picker, and their older ones of the Gateway API inference extension.
 *
 * They are believed only on connections from `trusted_proxies` (config/networks.h); on others they
 * are as good as not there. Each may stand once.
 *
 * Thread: the loop's.
 * Memory: none.
 */
#ifndef SERVER_HTTP_PROXY_HEADERS_H
#define SERVER_HTTP_PROXY_HEADERS_H

#include <stdbool.h>

struct http_call;

enum proxy_header {
    PROXY_OBJECTIVE = 0, /* the class of the request */
    PROXY_FAIRNESS_ID,   /* whose it is */
    PROXY_TTFT_MS,       /* until when it wants its first token */
    PROXY_N_HEADERS,
};

/* Its value; NULL: there is none, or none that is believed. The newer name is asked first. */
const char *proxy_header(const struct http_call *c, enum proxy_header h);
/* The newer name. */
const char *proxy_header_name(enum proxy_header h);

/* The name of one that stands more than once and would be believed, or NULL. */
const char *proxy_header_twice(const struct http_call *c);

/* Does a connection come from one of them? `fd` is its socket. */
bool proxy_is_trusted(const char *trusted_proxies, int fd);

#endif
