/* server/http/limits.h - how many connections there may be: in all, from one address, and in
 * reserve.
 *
 * Thread: the loop's.
 * Memory: none; connections are linked into buckets by their addresses.
 */
#ifndef SERVER_HTTP_LIMITS_H
#define SERVER_HTTP_LIMITS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "core/base/list.h"

/* Slots beyond all others, for health checks and metrics while everything is taken. */
#define LIMITS_RESERVED 16
#define LIMITS_BUCKETS 256

struct connection;
struct connections;

enum limits_verdict { LIMITS_PLACE = 0, LIMITS_RESERVED_PLACE, LIMITS_TOO_MANY_OF_ADDRESS };

struct limits {
    struct connections *group;
    uint32_t max, max_per_address;
    uint64_t salt; /* random: clients cannot choose addresses that share a bucket */
    struct list buckets[LIMITS_BUCKETS];
};

void limits_init(struct limits *l, struct connections *group, uint32_t max,
                 uint32_t max_per_address);

/* The address under which connections are counted: IPv4 mapped into IPv6, of IPv6 the first 64
 * bits. False: it is not counted, since it is loopback or a Unix socket, where proxies come
 * from. */
bool limits_address(const struct sockaddr_storage *from, struct in6_addr *out);

/* Whether all slots but the reserved ones are taken. */
bool limits_are_full(const struct limits *l);
/* Whether there is a slot for one more client, if need be after closing another connection. If not,
 * the client should wait in the kernel: the newest connections will soon have been heard. */
bool limits_make_room(struct limits *l);
/* The slot that a client gets. `address` NULL: not counted. */
enum limits_verdict limits_ask(struct limits *l, const struct in6_addr *address);
/* Count a connection whose address is filled in. */
void limits_add(struct limits *l, struct connection *cn);

/* The setting max_connections; 0 means the requests that may run and wait, and some clients that
 * only ask. */
uint32_t limits_wanted(uint32_t setting, uint32_t n_outstanding);

/* How many of `wanted` connections the process has descriptors for: the limit is raised as far as
 * allowed, and descriptors that are open now and `n_other` more are subtracted. */
uint32_t limits_fit(uint32_t wanted, uint32_t n_other);

#endif
