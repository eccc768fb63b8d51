/* server/http/limits.c - see limits.h.
 *
 * Connections from one address are counted by walking a bucket of a hash table with a random salt,
 * so that there is no counter that could become wrong. limits_make_room() is called before each
 * accept, and limits_ask() with the client's address after it. The number of slots is set once, at
 * the start, from RLIMIT_NOFILE, which is raised as far as the hard limit allows.
 */
#include "server/http/limits.h"

#include "server/http/connection.h"

#include <dirent.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <xxhash.h>

#define EXTRA_CONNECTIONS 256
#define AUTOMATIC_CONNECTIONS 1280 /* least number of connections with max_connections = 0 */
/* Least number of connections with which the server starts. */
#define MIN_CONNECTIONS 4
/* Assumed number of open descriptors when /proc cannot be read. */
#define OPEN_GUESS 32

void limits_init(struct limits *l, struct connections *group, uint32_t max,
                 uint32_t max_per_address)
{
    *l = (struct limits){.group = group, .max = max};
    l->max_per_address = max_per_address > 0 ? max_per_address : (max + 1) / 2;
    for (size_t i = 0; i < LIMITS_BUCKETS; i++)
        list_init(&l->buckets[i]);
    /* Without entropy (early in a boot) the table's address is the salt. */
    if (getrandom(&l->salt, sizeof(l->salt), GRND_NONBLOCK) < 0)
        l->salt = (uintptr_t)l;
}

/* ---- addresses ---- */

bool limits_address(const struct sockaddr_storage *from, struct in6_addr *out)
{
    const struct sockaddr_in *four = (const struct sockaddr_in *)from;
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)from;

    *out = (struct in6_addr){0};
    if (from->ss_family == AF_INET) {
        out->s6_addr[10] = out->s6_addr[11] = 0xff;
        memcpy(&out->s6_addr[12], &four->sin_addr, 4);
    } else if (from->ss_family == AF_INET6) {
        memcpy(out, &six->sin6_addr, sizeof(*out));
    } else {
        return false;
    }
    if (IN6_IS_ADDR_V4MAPPED(out))
        return out->s6_addr[12] != 127;
    if (IN6_IS_ADDR_LOOPBACK(out))
        return false;
    memset(&out->s6_addr[8], 0, 8);
    return true;
}

static struct list *address_bucket(struct limits *l, const struct in6_addr *address)
{
    return &l->buckets[XXH3_64bits_withSeed(address, sizeof(*address), l->salt) % LIMITS_BUCKETS];
}

static uint32_t n_of_address(struct limits *l, const struct in6_addr *address)
{
    uint32_t n = 0;

    list_each(it, address_bucket(l, address))
        n += IN6_ARE_ADDR_EQUAL(&list_entry(it, struct connection, by_address)->address, address);
    return n;
}

void limits_add(struct limits *l, struct connection *cn)
{
    list_push_back(address_bucket(l, &cn->address), &cn->by_address);
}

/* ---- slots ---- */

bool limits_are_full(const struct limits *l)
{
    return l->group->n >= l->max;
}

bool limits_make_room(struct limits *l)
{
    while (limits_are_full(l) && connections_evict(l->group))
        ; /* more than one, if clients came earlier when none could be closed */
    return l->group->n < l->max + LIMITS_RESERVED;
}

enum limits_verdict limits_ask(struct limits *l, const struct in6_addr *address)
{
    if (address != NULL && n_of_address(l, address) >= l->max_per_address)
        return LIMITS_TOO_MANY_OF_ADDRESS;
    return l->group->n < l->max ? LIMITS_PLACE : LIMITS_RESERVED_PLACE;
}

/* ---- descriptors ---- */

static uint32_t n_open(void)
{
    DIR *d = opendir("/proc/self/fd");
    uint32_t n = 0;

    if (d == NULL)
        return OPEN_GUESS;
    while (readdir(d) != NULL)
        n++;
    closedir(d);
    return n > 3 ? n - 3 : 0; /* without ".", "..", and the folder itself */
}

uint32_t limits_wanted(uint32_t setting, uint32_t n_outstanding)
{
    const uint32_t derived = n_outstanding + EXTRA_CONNECTIONS;

    if (setting > 0)
        return setting;
    return derived > AUTOMATIC_CONNECTIONS ? derived : AUTOMATIC_CONNECTIONS;
}

uint32_t limits_fit(uint32_t wanted, uint32_t n_other)
{
    const rlim_t others = (rlim_t)n_open() + n_other + LIMITS_RESERVED;
    const rlim_t needed = wanted + others;
    struct rlimit r;

    if (getrlimit(RLIMIT_NOFILE, &r) < 0)
        return wanted;
    if (r.rlim_cur < needed) {
        r.rlim_cur = r.rlim_max < needed ? r.rlim_max : needed;
        setrlimit(RLIMIT_NOFILE, &r);
        getrlimit(RLIMIT_NOFILE, &r);
    }
    if (r.rlim_cur >= needed)
        return wanted;
    return r.rlim_cur >= others + MIN_CONNECTIONS ? (uint32_t)(r.rlim_cur - others) : 0;
}
