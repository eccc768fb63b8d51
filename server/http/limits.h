/* server/http/limits.h - how many connections there may be: in all, from one address, and reserved
 * ones.
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

/* Beside all others: slots for health checks and metrics while everything is taken. */
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

/* The address whose connections are counted together: IPv4 mapped into IPv6, of IPv6 the first 64
 * bits. False: it is not counted, being loopback's or a Unix socket's, where proxies come from. */
bool limits_address(const struct sockaddr_storage *from, struct in6_addr *out);

/* Are all slots taken, but for the reserved ones? */
bool limits_are_full(const struct limits *l);
/* Is there a slot for one more, if need be by closing another connection? Else it should wait in
 * the kernel: soon those that have just come will have been heard. */
bool limits_make_room(struct limits *l);
/* Which slot it gets. `address` NULL: not counted. */
enum limits_verdict limits_ask(struct limits *l, const struct in6_addr *address);
/* It has come; its address is filled in. */
void limits_add(struct limits *l, struct connection *cn);

/* The setting max_connections, whose 0 stands for the requests that may run and wait, and some that
 * only ask. */
uint32_t limits_wanted(uint32_t setting, uint32_t n_outstanding);

/* How many connections the process has descriptors for: those of `wanted` for which the limit
 * suffices, once raised as far as allowed, beside what is open now and `n_other` more. */
uint32_t limits_fit(uint32_t wanted, uint32_t n_other);

#endif
