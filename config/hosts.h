/* config/hosts.h - a list of host names as text: "api.example,*.example.org,[::1]", or "*" for
 * all of them.
 *
 * Thread: any. Memory: none.
 */
#ifndef CONFIG_HOSTS_H
#define CONFIG_HOSTS_H

#include <stdbool.h>
#include <stddef.h>

/* Is it "*", or names, IPv4 or bracketed IPv6 addresses with commas between, without ports and
 * blanks? A name may begin with "*." for whatever is below it. */
bool hosts_are_valid(const char *text);

/* Does a valid list name the host? Its first `n` bytes count: the port does not. */
bool hosts_have(const char *text, const char *host, size_t n);

/* Is it this machine from everywhere: localhost, a name below it, 127.0.0.0/8, [::1]? */
bool hosts_is_local(const char *host, size_t n);

/* Can only this machine reach what listens there: "" (no TCP), localhost, ::1 or 127.0.0.0/8? Other
 * names are open, whatever they resolve to. */
bool hosts_is_local_address(const char *address);

#endif
