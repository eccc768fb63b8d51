/* server/api/response/digest.c - computes the digests of receipts.
 *
 * GnuTLS computes the hash. Token ids are hashed as they lie in memory, which the static assertion
 * limits to little-endian machines, so that a digest is the same on every machine that builds.
 */
#include "server/api/response/digest.h"

#include "core/base/err.h"
#include "core/base/hex.h"

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <string.h>

#define SHA256_BYTES 32

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "ids are hashed as they lie in memory");

int digest_bytes(const void *bytes, size_t n, char out[DIGEST_TEXT])
{
    static const char name[] = "sha256:";
    uint8_t hash[SHA256_BYTES];

    _Static_assert(sizeof(name) + 2 * SHA256_BYTES <= DIGEST_TEXT, "the digits have room");

    if (gnutls_hash_fast(GNUTLS_DIG_SHA256, n > 0 ? bytes : "", n, hash) < 0)
        return ERR_INTERNAL;
    memcpy(out, name, sizeof(name));
    hex_write(out + sizeof(name) - 1, hash, SHA256_BYTES);
    return 0;
}

int digest_tokens(const int32_t *ids, size_t n, char out[DIGEST_TEXT])
{
    return digest_bytes(ids, n * sizeof(*ids), out);
}
