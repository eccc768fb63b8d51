/* config/endpoints.h - the address of a ZeroMQ socket as text: "tcp://127.0.0.1:5557",
 * "tcp://[::1]:0", or with a star for all of IPv4.
 *
 * Thread: any. Memory: none.
 */
#ifndef CONFIG_ENDPOINTS_H
#define CONFIG_ENDPOINTS_H

#include <stdint.h>

#define ENDPOINT_MAX_HOST 255

struct endpoint {
    char host[ENDPOINT_MAX_HOST + 1]; /* a name or address, IPv6 without brackets; "*": all IPv4
                                       * addresses */
    uint16_t port;                    /* 0: any free port */
};

/* Parse tcp://HOST:PORT. ERR_INVAL. */
int endpoint_parse(const char *text, struct endpoint *out);

#endif
