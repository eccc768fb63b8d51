/* server/http/limits.h - limits the connections: in all, from one address, and reserved ones.
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

/* Slots in addition to max_connections, for health checks and metrics while all others are
 * taken. */
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

/* Compute the address under which a connection is counted: IPv4 mapped into IPv6, of IPv6 the first
 * 64 bits. False: it is not counted, because it is from loopback or a Unix socket, as those of
 * proxies are. */
bool limits_address(const struct sockaddr_storage *from, struct in6_addr *out);

/* True: all slots but the reserved ones are taken. */
bool limits_are_full(const struct limits *l);
/* True: there is a slot for one more client, perhaps because another connection was closed. False:
 * the client should wait in the kernel's backlog, because the newest connections will soon have
 * sent their requests. */
bool limits_make_room(struct limits *l);
/* Decide which kind of slot a client gets. `address` NULL: not counted. */
enum limits_verdict limits_ask(struct limits *l, const struct in6_addr *address);
/* Count a connection whose address is filled in. */
void limits_add(struct limits *l, struct connection *cn);

/* Return the wanted number of connections: the setting max_connections; if that is 0, as many as
 * requests may run and wait, and some more for other routes. */
uint32_t limits_wanted(uint32_t setting, uint32_t n_outstanding);

/* Return how many of `wanted` connections the process has descriptors for. RLIMIT_NOFILE is raised
 * as far as allowed; descriptors that are open now and `n_other` more are subtracted. */
uint32_t limits_fit(uint32_t wanted, uint32_t n_other);

#endif
