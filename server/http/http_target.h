/* server/http/http_target.h - the request-target of RFC 9112, section 3.2, hosts, and percent
 * encoding.
 *
 * Thread: any. Memory: none; results point into the caller's text, which is changed in place.
 */
#ifndef SERVER_HTTP_HTTP_TARGET_H
#define SERVER_HTTP_HTTP_TARGET_H

#include <stdbool.h>
#include <stddef.h>

struct http_target {
    const char *path;  /* decoded, begins with a slash; "*" for the whole server */
    const char *query; /* as it was sent, or NULL */
    const char *host;  /* host with port, of an absolute target, else of the Host field; NULL:
                        * none */
};

/* Split the target of a request line, in place: origin-form, absolute-form of http and https, and
 * the asterisk for OPTIONS. Refused are fragments, bytes outside the printable ASCII, incomplete
 * percent encodings, and %00. 0 or ERR_INVAL. */
int http_target_parse(struct http_target *out, char *text, const char *method);

/* True: the text is a host as in the Host field: a name, an IPv4 or a bracketed IPv6 address, with
 * or without a port. */
bool http_host_is_valid(const char *text);
/* Count the bytes of the host before its port. */
size_t http_host_name_length(const char *host);

/* Decode %xx, and + as a blank where `is_query`, in place. The text must have been checked. */
void http_percent_decode(char *text, bool is_query);

#endif
