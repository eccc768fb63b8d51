/* server/http/proxy_headers.c - see proxy_headers.h.
 *
 * Each header has a newer and an older name. A connection is trusted or not from its start, by its
 * peer's address; proxy_header() returns NULL on one that is not. IPv4 is compared as a mapped IPv6
 * address, which also covers dual-stack sockets.
 */
#include "server/http/proxy_headers.h"

#include "config/networks.h"
#include "server/http/exchange.h"

#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

static const char *const names[PROXY_N_HEADERS][2] = {
    [PROXY_OBJECTIVE] = {"x-llm-d-inference-objective", "x-gateway-inference-objective"},
    [PROXY_FAIRNESS_ID] = {"x-llm-d-inference-fairness-id", "x-gateway-inference-fairness-id"},
    [PROXY_TTFT_MS] = {"x-llm-d-slo-ttft-ms", "x-slo-ttft-ms"},
};

const char *proxy_header(const struct http_call *c, enum proxy_header h)
{
    const char *value = NULL;

    if (!c->is_trusted)
        return NULL;
    for (int i = 0; i < 2 && value == NULL; i++)
        value = http_request_field(&c->request, names[h][i]);
    return value;
}

const char *proxy_header_name(enum proxy_header h)
{
    return names[h][0];
}

const char *proxy_header_twice(const struct http_call *c)
{
    for (int h = 0; h < PROXY_N_HEADERS && c->is_trusted; h++)
        for (int i = 0; i < 2; i++)
            if (http_request_count(&c->request, names[h][i]) > 1)
                return names[h][i];
    return NULL;
}

/* Map an IPv4 address into IPv6; false: the address is neither. */
static bool map(const struct sockaddr_storage *from, struct in6_addr *out)
{
    if (from->ss_family == AF_INET6) {
        *out = ((const struct sockaddr_in6 *)from)->sin6_addr;
        return true;
    }
    if (from->ss_family != AF_INET)
        return false;
    *out = (struct in6_addr){0};
    out->s6_addr[10] = out->s6_addr[11] = 0xff;
    memcpy(&out->s6_addr[12], &((const struct sockaddr_in *)from)->sin_addr, 4);
    return true;
}

bool proxy_is_trusted(const char *trusted_proxies, int fd)
{
    struct sockaddr_storage from = {0};
    socklen_t n = sizeof(from);
    struct in6_addr address;

    if (trusted_proxies[0] == '\0' || getpeername(fd, (struct sockaddr *)&from, &n) < 0)
        return false;
    if (from.ss_family == AF_UNIX)
        return networks_have(trusted_proxies, NULL);
    return map(&from, &address) && networks_have(trusted_proxies, &address);
}
