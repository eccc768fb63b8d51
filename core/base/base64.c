/* core/base/base64.c - see base64.h.
 *
 * GnuTLS, which is linked for TLS anyway, does both directions; it allocates the result, which is
 * then copied into the buffer under the buffer's limit. An empty text is no input to it, so it is
 * handled first.
 */
#include "core/base/base64.h"

#include "core/base/err.h"

#include <gnutls/gnutls.h>
#include <stdint.h>

void base64_add(struct buf *out, const void *bytes, size_t n)
{
    const gnutls_datum_t in = {(unsigned char *)(uintptr_t)bytes, (unsigned)n};
    gnutls_datum_t text;

    if (gnutls_base64_encode2(&in, &text) < 0) {
        out->err = ERR_NOMEM;
        return;
    }
    buf_add(out, text.data, text.size);
    gnutls_free(text.data);
}

int base64_decode(struct buf *out, const char *text, size_t n)
{
    const gnutls_datum_t in = {(unsigned char *)(uintptr_t)text, (unsigned)n};
    gnutls_datum_t bytes;
    int rc;

    if (n == 0)
        return 0;
    rc = gnutls_base64_decode2(&in, &bytes);
    if (rc < 0)
        return rc == GNUTLS_E_MEMORY_ERROR ? ERR_NOMEM : ERR_FORMAT;
    rc = buf_add(out, bytes.data, bytes.size);
    gnutls_free(bytes.data);
    return rc;
}
