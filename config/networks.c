/* config/networks.c - see networks.h.
 *
 * Every address is an IPv6 one, IPv4 mapped into ::ffff:0:0/96, so that there is one comparison:
 * masked bytes of both must be equal. The list stays text and is walked for each request with proxy
 * headers. Bits after the network's mask are refused, since they usually are a mistake in the mask.
 */
#include "config/networks.h"

#include <arpa/inet.h>
#include <stdint.h>
#include <string.h>

struct network {
    bool is_unix;
    struct in6_addr address;
    uint32_t n_bits; /* leading bits that must match */
};

static uint8_t mask_of(uint32_t n_bits, uint32_t i)
{
    const uint32_t at = 8 * i;

    return n_bits >= at + 8 ? 0xff : n_bits <= at ? 0 : (uint8_t)(0xff00u >> (n_bits - at));
}

/* Read "/BITS", at most `most`, or nothing, which means `most`. */
static bool read_bits(const char *text, uint32_t most, uint32_t *out)
{
    uint32_t n = 0;

    *out = most;
    if (*text == '\0')
        return true;
    if (*text != '/' || text[1] == '\0' || strlen(text) > 4)
        return false;
    for (text++; *text != '\0'; text++) {
        if (*text < '0' || *text > '9')
            return false;
        n = n * 10 + (uint32_t)(*text - '0');
    }
    *out = n;
    return n <= most;
}

static bool read_address(char *text, struct network *out)
{
    const size_t n = strcspn(text, "/");
    const bool is_4 = memchr(text, ':', n) == NULL;
    char bits[8] = "";
    struct in_addr four;

    if (strlen(text + n) >= sizeof(bits))
        return false;
    memcpy(bits, text + n, strlen(text + n) + 1);
    text[n] = '\0';
    if (!read_bits(bits, is_4 ? 32 : 128, &out->n_bits))
        return false;
    if (!is_4)
        return inet_pton(AF_INET6, text, &out->address) == 1;
    if (inet_pton(AF_INET, text, &four) != 1)
        return false;
    out->address.s6_addr[10] = out->address.s6_addr[11] = 0xff;
    memcpy(&out->address.s6_addr[12], &four, sizeof(four));
    out->n_bits += 96;
    return true;
}

static bool has_only_its_bits(const struct network *n)
{
    for (uint32_t i = 0; i < 16; i++)
        if ((n->address.s6_addr[i] & ~mask_of(n->n_bits, i)) != 0)
            return false;
    return true;
}

/* Read the next item at *text and move *text past it; false: the item is invalid. */
static bool next_network(const char **text, struct network *out)
{
    char item[64];
    const char *from = *text + strspn(*text, " \t");
    size_t n = strcspn(from, ",");

    *text = from + n + (from[n] == ',');
    while (n > 0 && (from[n - 1] == ' ' || from[n - 1] == '\t'))
        n--;
    *out = (struct network){0};
    if (n == 0 || n >= sizeof(item))
        return false;
    memcpy(item, from, n);
    item[n] = '\0';
    out->is_unix = strcmp(item, "unix") == 0;
    return out->is_unix || (read_address(item, out) && has_only_its_bits(out));
}

bool networks_are_valid(const char *text)
{
    struct network n;

    if (strcmp(text, "*") == 0)
        return true;
    if (*text == '\0' || text[strlen(text) - 1] == ',')
        return false;
    while (*text != '\0')
        if (!next_network(&text, &n))
            return false;
    return true;
}

static bool is_in(const struct network *n, const struct in6_addr *address)
{
    for (uint32_t i = 0; i < 16; i++)
        if (((address->s6_addr[i] ^ n->address.s6_addr[i]) & mask_of(n->n_bits, i)) != 0)
            return false;
    return true;
}

bool networks_have(const char *text, const struct in6_addr *address)
{
    struct network n;

    if (strcmp(text, "*") == 0)
        return true;
    while (*text != '\0' && next_network(&text, &n))
        if (address == NULL ? n.is_unix : !n.is_unix && is_in(&n, address))
            return true;
    return false;
}
