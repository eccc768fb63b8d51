/* server/receipts/digest.c - see digest.h. */
#include "server/receipts/digest.h"

#include "core/base/err.h"

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <stdio.h>

#define SHA256_BYTES 32

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "ids are hashed as they lie in memory");

int digest_bytes(const void *bytes, size_t n, char out[DIGEST_TEXT])
{
    uint8_t hash[SHA256_BYTES];
    int at;

    if (gnutls_hash_fast(GNUTLS_DIG_SHA256, n > 0 ? bytes : "", n, hash) < 0)
        return ERR_INTERNAL;
    at = snprintf(out, DIGEST_TEXT, "sha256:");
    for (int i = 0; i < SHA256_BYTES; i++)
        at += snprintf(out + at, (size_t)(DIGEST_TEXT - at), "%02x", hash[i]);
    return 0;
}

int digest_tokens(const int32_t *ids, size_t n, char out[DIGEST_TEXT])
{
    return digest_bytes(ids, n * sizeof(*ids), out);
}
