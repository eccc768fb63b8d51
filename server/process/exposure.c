/* server/process/exposure.c - see exposure.h. */
#include "server/process/exposure.h"

#include <arpa/inet.h>
#include <string.h>

bool exposure_is_local(const char *host)
{
    struct in6_addr v6;
    struct in_addr v4;

    if (host[0] == '\0' || strcmp(host, "localhost") == 0)
        return true;
    if (inet_pton(AF_INET, host, &v4) == 1)
        return (ntohl(v4.s_addr) >> 24) == 127;
    if (inet_pton(AF_INET6, host, &v6) != 1)
        return false;
    return IN6_IS_ADDR_LOOPBACK(&v6) || (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == 127);
}
