/* config/endpoints.c - see endpoints.h.
 *
 * The last ':' ends the host, so that IPv6 addresses in brackets need no special case. The host's
 * characters are restricted to those of names and addresses, because the text is passed on to
 * ZeroMQ and shown in error sentences.
 */
#include "config/endpoints.h"

#include "core/base/err.h"

#include <stddef.h>
#include <string.h>

static int parse_port(const char *text, uint16_t *out)
{
    uint32_t port = 0;

    if (*text == '\0' || strlen(text) > 5)
        return ERR_INVAL;
    for (; *text != '\0'; text++) {
        if (*text < '0' || *text > '9')
            return ERR_INVAL;
        port = port * 10 + (uint32_t)(*text - '0');
    }
    *out = (uint16_t)port;
    return port <= UINT16_MAX ? 0 : ERR_INVAL;
}

/* Copy a host: letters, digits, dots and hyphens, or "*"; or, in brackets, the characters of an
 * IPv6 address. */
static int parse_host(const char *text, size_t n, char *out)
{
    const int is_ipv6 = n > 2 && text[0] == '[' && text[n - 1] == ']';
    const char *const allowed = is_ipv6 ? "0123456789abcdefABCDEF:."
                                        : "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                          "0123456789.-";

    if (is_ipv6) {
        text++;
        n -= 2;
    }
    if (n == 0 || n > ENDPOINT_MAX_HOST)
        return ERR_INVAL;
    memcpy(out, text, n);
    out[n] = '\0';
    return strspn(out, allowed) == n || strcmp(out, "*") == 0 ? 0 : ERR_INVAL;
}

int endpoint_parse(const char *text, struct endpoint *out)
{
    static const char scheme[] = "tcp://";
    const char *host = text + sizeof(scheme) - 1, *colon = strrchr(text, ':');

    *out = (struct endpoint){.port = 0};
    if (strncmp(text, scheme, sizeof(scheme) - 1) != 0 || colon <= host ||
        parse_port(colon + 1, &out->port) < 0)
        return ERR_INVAL;
    return parse_host(host, (size_t)(colon - host), out->host);
}
