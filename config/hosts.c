/* config/hosts.c - see hosts.h.
 *
 * The list stays text and is walked for each request that has a Host header: it is short, and
 * comparing it needs no memory. The check guards against DNS rebinding, so comparisons are exact
 * except for case, a final dot and an explicit "*." for names below.
 */
#include "config/hosts.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

static bool is_host_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("-._", c) != NULL);
}

/* Parse an IPv6 address in brackets. */
static bool is_address_6(const char *text, size_t n, struct in6_addr *address)
{
    char copy[INET6_ADDRSTRLEN];

    if (n < 4 || n - 2 >= sizeof(copy) || text[0] != '[' || text[n - 1] != ']')
        return false;
    memcpy(copy, text + 1, n - 2);
    copy[n - 2] = '\0';
    return inet_pton(AF_INET6, copy, address) == 1;
}

static bool is_host(const char *text, size_t n)
{
    struct in6_addr address;

    if (n > 2 && text[0] == '*' && text[1] == '.')
        text += 2, n -= 2;
    if (n > 0 && text[0] == '[')
        return is_address_6(text, n, &address);
    for (size_t i = 0; i < n; i++)
        if (!is_host_char(text[i]))
            return false;
    return n > 0;
}

bool hosts_are_valid(const char *text)
{
    if (strcmp(text, "*") == 0)
        return true;
    for (;;) {
        const size_t n = strcspn(text, ",");

        if (!is_host(text, n))
            return false;
        if (text[n] == '\0')
            return true;
        text += n + 1;
    }
}

/* True: the entry matches the host. "*.example.org" matches names that end in ".example.org". */
static bool host_fits(const char *entry, size_t n_entry, const char *host, size_t n)
{
    if (n_entry > 1 && entry[0] == '*') {
        entry++, n_entry--;
        return n > n_entry && strncasecmp(host + n - n_entry, entry, n_entry) == 0;
    }
    return n == n_entry && strncasecmp(host, entry, n) == 0;
}

/* Return the length of a name without its final dot, which only makes the name absolute. */
static size_t without_dot(const char *host, size_t n)
{
    return n > 1 && host[n - 1] == '.' ? n - 1 : n;
}

bool hosts_have(const char *text, const char *host, size_t n)
{
    if (strcmp(text, "*") == 0)
        return true;
    n = without_dot(host, n);
    while (*text != '\0') {
        const size_t n_entry = strcspn(text, ",");

        if (host_fits(text, n_entry, host, n))
            return true;
        text += n_entry + (text[n_entry] == ',');
    }
    return false;
}

bool hosts_is_local(const char *host, size_t n)
{
    struct in6_addr address_6;
    struct in_addr address;
    char copy[INET_ADDRSTRLEN];

    n = without_dot(host, n);
    if (host_fits("localhost", 9, host, n) || host_fits("*.localhost", 11, host, n))
        return true;
    if (is_address_6(host, n, &address_6))
        return IN6_IS_ADDR_LOOPBACK(&address_6);
    if (n >= sizeof(copy))
        return false;
    memcpy(copy, host, n);
    copy[n] = '\0';
    return inet_pton(AF_INET, copy, &address) == 1 && ntohl(address.s_addr) >> 24 == 127;
}

bool hosts_is_local_address(const char *address)
{
    struct in6_addr v6;
    struct in_addr v4;

    if (address[0] == '\0' || strcmp(address, "localhost") == 0)
        return true;
    if (inet_pton(AF_INET, address, &v4) == 1)
        return (ntohl(v4.s_addr) >> 24) == 127;
    if (inet_pton(AF_INET6, address, &v6) != 1)
        return false;
    return IN6_IS_ADDR_LOOPBACK(&v6) || (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == 127);
}
