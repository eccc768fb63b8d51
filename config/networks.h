/* config/networks.h - a list of addresses and networks as text: "10.0.0.0/8,fd00::/8,::1,unix", or
 * "*" for all of them; "unix" is the Unix socket.
 *
 * Thread: any. Memory: none.
 */
#ifndef CONFIG_NETWORKS_H
#define CONFIG_NETWORKS_H

#include <netinet/in.h>
#include <stdbool.h>

/* True: the text is "*", or IPv4 or IPv6 addresses, each perhaps with /BITS, and "unix", with
 * commas between. Blanks around them are skipped, and the bits of an address after its network's
 * must be 0. */
bool networks_are_valid(const char *text);

/* True: a valid list contains the address. IPv4 is mapped into IPv6; NULL means the Unix socket. */
bool networks_have(const char *text, const struct in6_addr *address);

#endif
