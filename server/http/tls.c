/* server/http/tls.c - see tls.h.
 *
 * A certificate with its key is a reference-counted set of GnuTLS credentials: struct tls holds the
 * newest, each session the one with which it began. tls_reload() loads the new files completely
 * before it replaces the old set. Only the I/O thread touches the counts.
 */
#include "server/http/tls.h"

#include "core/base/err.h"
#include "core/base/mem.h"

#include <gnutls/gnutls.h>
#include <stdint.h>
#include <stdio.h>

/* GnuTLS's defaults, limited to TLS 1.2 and 1.3. */
#define TLS_PRIORITIES "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"

struct tls_credentials {
    gnutls_certificate_credentials_t gnutls;
    uint32_t n_refs; /* references: one of struct tls while these are the newest, and one of each
                      * session */
};

struct tls {
    char *certificate, *key; /* paths */
    gnutls_priority_t priorities;
    struct tls_credentials *now;
};

static void unref(struct tls_credentials *c)
{
    if (c == NULL || --c->n_refs > 0)
        return;
    gnutls_certificate_free_credentials(c->gnutls);
    mem_free(c);
}

static struct tls_credentials *make_credentials(void)
{
    struct tls_credentials *c = mem_calloc(1, sizeof(*c));

    if (c == NULL)
        return NULL;
    if (gnutls_certificate_allocate_credentials(&c->gnutls) < 0) {
        mem_free(c);
        return NULL;
    }
    c->n_refs = 1;
    return c;
}

int tls_reload(struct tls *t, char *err, size_t err_len)
{
    struct tls_credentials *c = make_credentials();
    int rc;

    if (c == NULL)
        return snprintf(err, err_len, "out of memory"), ERR_NOMEM;
    rc = gnutls_certificate_set_x509_key_file(c->gnutls, t->certificate, t->key,
                                              GNUTLS_X509_FMT_PEM);
    if (rc < 0) {
        snprintf(err, err_len, "cannot use the certificate '%s' with the key '%s': %s",
                 t->certificate, t->key, gnutls_strerror(rc));
        unref(c);
        return ERR_INVAL;
    }
    unref(t->now);
    t->now = c;
    return 0;
}

int tls_open(struct tls **out, const char *certificate, const char *key, char *err, size_t err_len)
{
    struct tls *t = mem_calloc(1, sizeof(*t));
    int rc = ERR_NOMEM;

    *out = NULL;
    snprintf(err, err_len, "out of memory");
    if (t == NULL)
        return ERR_NOMEM;
    t->certificate = mem_strdup(certificate);
    t->key = mem_strdup(key);
    if (t->certificate != NULL && t->key != NULL &&
        gnutls_priority_init(&t->priorities, TLS_PRIORITIES, NULL) == GNUTLS_E_SUCCESS)
        rc = tls_reload(t, err, err_len);
    if (rc < 0)
        tls_close(&t);
    *out = t;
    return rc;
}

void tls_close(struct tls **tls)
{
    struct tls *t = tls != NULL ? *tls : NULL;

    if (t == NULL)
        return;
    unref(t->now);
    if (t->priorities != NULL)
        gnutls_priority_deinit(t->priorities);
    mem_free(t->certificate);
    mem_free(t->key);
    mem_free(t);
    *tls = NULL;
}

struct tls_credentials *tls_begin(struct tls *t, gnutls_session_t session)
{
    if (gnutls_priority_set(session, t->priorities) < 0 ||
        gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, t->now->gnutls) < 0)
        return NULL;
    t->now->n_refs++;
    return t->now;
}

void tls_end(struct tls_credentials *c)
{
    unref(c);
}
