/* server/api/response/digest.h - the digests in receipts: SHA-256, as "sha256:" and 64 digits; for
 * a file the same digits as sha256sum's.
 *
 * Thread: any. Memory: none.
 * Errors: ERR_INTERNAL: GnuTLS does not have the hash.
 */
#ifndef SERVER_API_RESPONSE_DIGEST_H
#define SERVER_API_RESPONSE_DIGEST_H

#include <stddef.h>
#include <stdint.h>

#define DIGEST_TEXT 72 /* bytes, with the NUL */

int digest_bytes(const void *bytes, size_t n, char out[DIGEST_TEXT]);
/* Computes the digest of ids as little-endian 32-bit numbers. */
int digest_tokens(const int32_t *ids, size_t n, char out[DIGEST_TEXT]);

#endif
