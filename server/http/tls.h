/* server/http/tls.h - the certificate and key of TLS connections.
 *
 * Each session gets the credentials that are in force when it begins, and keeps them: a reload does
 * not change open connections. TLS 1.2 and 1.3 only.
 *
 * Thread: the loop's.
 * Memory: credentials live until the last session that began with them has ended.
 * Errors: a sentence that names the file.
 */
#ifndef SERVER_HTTP_TLS_H
#define SERVER_HTTP_TLS_H

#include <stddef.h>

struct gnutls_session_int; /* gnutls_session_t is a pointer to it; GnuTLS's header is not included
                            * because it defines too many names */
struct tls;
struct tls_credentials;

/* Read a certificate (with its chain) and its key from PEM files. */
int tls_open(struct tls **out, const char *certificate, const char *key, char *err, size_t err_len);
void tls_close(struct tls **tls);

/* Read certificate and key again; on failure nothing changes. */
int tls_reload(struct tls *t, char *err, size_t err_len);

/* Called when a session begins: set its versions and ciphers, and the credentials in force, to
 * which it holds a reference until tls_end(). NULL: it failed. */
struct tls_credentials *tls_begin(struct tls *t, struct gnutls_session_int *session);
void tls_end(struct tls_credentials *c); /* NULL is allowed */

#endif
