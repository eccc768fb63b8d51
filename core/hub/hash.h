/* core/hub/hash.h - the two hashes that name files in the Hub: SHA-256 of files in git's large file
 * storage, and git's SHA-1 of a blob ("blob SIZE", a NUL, and the bytes) for the rest.
 *
 * Thread: one owner.
 * Memory: a state of GnuTLS; hub_hash_finish() frees it.
 * Errors: ERR_INTERNAL: GnuTLS does not have the hash (as in FIPS mode).
 */
#ifndef CORE_HUB_HASH_H
#define CORE_HUB_HASH_H

#include <stddef.h>
#include <stdint.h>

#include "core/hub/hub_impl.h"

struct hub_hash {
    void *state;
    unsigned n_bytes; /* bytes of the result */
};

/* Begin a hash: SHA-256 if `expected` has 64 digits, git's SHA-1 if it has 40. size: bytes of the
 * whole file. */
int hub_hash_begin(struct hub_hash *h, const char *expected, uint64_t size);
void hub_hash_add(struct hub_hash *h, const void *bytes, size_t n);
/* Write the digits, in lower case, and free the state. `out` may be NULL. */
void hub_hash_finish(struct hub_hash *h, char out[HUB_HASH_TEXT]);

#endif
