/* core/base/base64.c - see base64.h. */
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
