/* server/http/http_shared.h - the options and counts that the parts of the HTTP server share.
 *
 * Thread: the loop's.
 * Memory: none; the options' pointers are borrowed.
 */
#ifndef SERVER_HTTP_HTTP_SHARED_H
#define SERVER_HTTP_HTTP_SHARED_H

#include <uv.h>

#include "server/process/handover.h"
#include "server/http/http_call.h"

struct tls;

/* Clients and requests that are refused before a route sees them: XX(NAME, label) */
#define HTTP_EDGE(XX)                                                                              \
    XX(MALFORMED, "malformed")             /* not a request of RFC 9112 */                         \
    XX(HOST, "host")                       /* 403: not one of allowed_hosts */                     \
    XX(ORIGIN, "origin")                   /* 403: a page of another origin */                     \
    XX(HANDSHAKE, "handshake")             /* a TLS handshake that failed */                       \
    XX(HEADER_TIMEOUT, "header_timeout")   /* no head in time */                                   \
    XX(BODY_TIMEOUT, "body_timeout")       /* 408: slower than min_body_rate */                    \
    XX(READER_TIMEOUT, "reader_timeout")   /* an answer is read more slowly than min_body_rate */  \
    XX(ADDRESS, "address")                 /* too many connections from one address */             \
    XX(FULL, "full")                       /* 503 or closed: no slot */                            \
    XX(DESCRIPTORS, "descriptors")         /* no free descriptor */                                \
    XX(EVICTED_IDLE, "evicted_idle")       /* closed to make room */                               \
    XX(EVICTED_HEAD, "evicted_head")                                                               \
    XX(EVICTED_BODY, "evicted_body")                                                               \
    XX(EVICTED_READER, "evicted_reader")
enum http_edge {
#define XX(name, label) HTTP_EDGE_##name,
    HTTP_EDGE(XX)
#undef XX
        HTTP_EDGE_COUNT
};

struct http_options {
    uv_loop_t *loop;
    const char *host; /* "" = no TCP */
    uint16_t port;
    struct tls *tls;       /* TLS of the TCP socket; NULL = plain */
    const struct http_sockets *inherited; /* open listening sockets to use instead of binding new
                                           * ones; owned by struct http from then on; NULL = none */
    bool keeps_files; /* the files of inherited sockets are not removed at the end */
    const char *unix_path; /* a Unix socket beside TCP or instead; "" = none */
    unsigned unix_mode;    /* its permissions */
    size_t max_body;
    uint64_t max_upload; /* most bytes of a body that its route receives in pieces */
    uint32_t max_connections; /* over all sockets; lowered if the process has too few descriptors */
    uint32_t max_connections_per_address; /* 0 = half of max_connections; not for loopback and the
                                           * Unix socket */
    uint32_t n_other_fds;   /* descriptors that the process may open later */
    uint32_t header_timeout_s; /* time limit of a head, TLS handshake included */
    uint32_t idle_timeout_s;   /* time limit between two requests, and for a client that reads
                                * nothing */
    uint32_t min_body_rate;    /* bytes per second, of bodies and of readers; 0 = any */
    const char *allowed_hosts; /* checked (config/hosts.h); "" = as http.h says for loopback */
    const char *tenant_header; /* may occur once in a request; "" = none */
    const char *trusted_proxies; /* checked; "" = none (proxy_headers.h) */
    const struct http_route *routes; /* [n_routes], borrowed */
    size_t n_routes;
    const char *cors_origins; /* checked; "" = no web page may call (cors.h) */
    unsigned reserved_flags;  /* flags of routes that are answered when all slots are taken */
    void *ud;                 /* first argument of the handlers and of the callbacks below */
    /* Called when bodies and unsent answers take so many bytes more (or less, if negative). False:
     * there is no room, which is returned only with may_refuse. NULL: not counted. */
    bool (*hold)(void *ud, int64_t bytes, bool may_refuse);
    /* Decide by the head whether the call may continue. Negative: it may not, and a refusal has
     * been sent as the answer. */
    int (*admit)(void *ud, struct http_call *call, unsigned flags);
    /* Answer a path that no route takes; is_known: routes take it with other methods. False,
     * without an answer: the general 404 or 405 follows. NULL: always. */
    bool (*refuse_path)(void *ud, struct http_call *call, bool is_known);
    /* Called when an exchange is over; route n_routes: an unknown path. */
    void (*done)(void *ud, size_t route, int status);
};

struct http_shared {
    struct http_options opt;
    uint32_t n_owed;  /* complete requests whose answers are not complete */
    bool is_draining; /* each answer is its connection's last */
    uint64_t n_page_bytes; /* bytes of pages that their clients have not read to the end */
    uint64_t edge[HTTP_EDGE_COUNT];
    unsigned char random[256]; /* for request ids, from the kernel; [n_random] are unused */
    size_t n_random;
};

/* Calls http_options.hold. */
static inline bool http_hold(struct http_shared *h, int64_t bytes, bool may_refuse)
{
    return bytes == 0 || h->opt.hold == NULL || h->opt.hold(h->opt.ud, bytes, may_refuse);
}

#endif
