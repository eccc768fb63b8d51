/* config/hosts.h - a list of host names as text: "api.example,*.example.org,[::1]", or "*" for
 * all of them.
 *
 * Thread: any. Memory: none.
 */
#ifndef CONFIG_HOSTS_H
#define CONFIG_HOSTS_H

#include <stdbool.h>
#include <stddef.h>

/* True: the text is "*", or names, IPv4 or bracketed IPv6 addresses with commas between, without
 * ports and blanks. A name may begin with "*." and then matches all names below it. */
bool hosts_are_valid(const char *text);

/* True: a valid list matches the host, host[0..n) without a port. */
bool hosts_have(const char *text, const char *host, size_t n);

/* True: the name always means this machine: localhost, a name below it, 127.0.0.0/8, [::1]. */
bool hosts_is_local(const char *host, size_t n);

/* True: only this machine can reach a listener at the address: "" (no TCP), localhost, ::1 or
 * 127.0.0.0/8. Other names count as open, whatever they resolve to. */
bool hosts_is_local_address(const char *address);

#endif
