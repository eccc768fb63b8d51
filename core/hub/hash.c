/* core/hub/hash.c - see hash.h.
 *
 * The number of expected digits chooses the hash. git hashes a blob with a header of its size in
 * front, which is fed at the start, so both kinds are then fed the file's bytes alone.
 */
#include "core/hub/hash.h"

#include "core/base/err.h"

#include <gnutls/crypto.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

int hub_hash_begin(struct hub_hash *h, const char *expected, uint64_t size)
{
    const bool is_git = strlen(expected) == 40;
    const gnutls_digest_algorithm_t kind = is_git ? GNUTLS_DIG_SHA1 : GNUTLS_DIG_SHA256;
    gnutls_hash_hd_t state;
    char head[40];
    int n;

    *h = (struct hub_hash){0};
    if (gnutls_hash_init(&state, kind) < 0)
        return ERR_INTERNAL;
    h->state = state;
    h->n_bytes = gnutls_hash_get_len(kind);
    n = snprintf(head, sizeof(head), "blob %" PRIu64, size);
    if (is_git)
        hub_hash_add(h, head, (size_t)n + 1); /* includes its NUL */
    return 0;
}

void hub_hash_add(struct hub_hash *h, const void *bytes, size_t n)
{
    (void)gnutls_hash(h->state, bytes, n);
}

void hub_hash_finish(struct hub_hash *h, char out[HUB_HASH_TEXT])
{
    static const char digits[] = "0123456789abcdef";
    unsigned char result[64];

    if (h->state != NULL)
        gnutls_hash_deinit(h->state, result);
    for (unsigned i = 0; out != NULL && i < h->n_bytes; i++) {
        out[2 * i] = digits[result[i] >> 4];
        out[2 * i + 1] = digits[result[i] & 15];
    }
    if (out != NULL)
        out[2 * h->n_bytes] = '\0';
    *h = (struct hub_hash){0};
}
