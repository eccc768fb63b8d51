/* server/auth/secret.c - see secret.h.
 *
 * Random bytes come from getrandom(), SHA-256 and hexadecimal from GnuTLS, which the server needs
 * for TLS anyway. The random bytes are overwritten after use, so that the secret stays only in the
 * text that is printed.
 */
#include "server/auth/secret.h"

#include "core/base/err.h"

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <string.h>
#include <sys/random.h>

#define RANDOM_BYTES 32

/* Letters of six bits each, as in base64url; the last one has the rest of the 256 bits. */
int secret_make(char text[SECRET_TEXT])
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    uint8_t random[RANDOM_BYTES + 1] = {0}; /* one zero more, for the last letter */
    size_t n = 3;

    if (getrandom(random, RANDOM_BYTES, 0) != RANDOM_BYTES)
        return ERR_IO;
    memcpy(text, "qk-", n);
    for (size_t bit = 0; bit < RANDOM_BYTES * 8; bit += 6) {
        const unsigned pair = (unsigned)random[bit / 8] << 8 | random[bit / 8 + 1];

        text[n++] = letters[pair >> (10 - bit % 8) & 63];
    }
    text[n] = '\0';
    gnutls_memset(random, 0, sizeof(random));
    return 0;
}

int secret_hash(const char *text, size_t n, struct secret_hash *out)
{
    return gnutls_hash_fast(GNUTLS_DIG_SHA256, text, n, out->bytes) == 0 ? 0 : ERR_INTERNAL;
}

/* Compare all bytes, even after a difference: `volatile` prevents the compiler from stopping
 * early. */
bool secret_is_equal(const struct secret_hash *a, const struct secret_hash *b)
{
    volatile uint8_t difference = 0;

    for (size_t i = 0; i < sizeof(a->bytes); i++)
        difference |= (uint8_t)(a->bytes[i] ^ b->bytes[i]);
    return difference == 0;
}

void secret_to_hex(const struct secret_hash *h, char out[SECRET_HEX])
{
    const gnutls_datum_t bytes = {(uint8_t *)h->bytes, sizeof(h->bytes)};
    size_t n = SECRET_HEX;

    gnutls_hex_encode(&bytes, out, &n);
}

int secret_from_hex(struct secret_hash *out, const char *text)
{
    const gnutls_datum_t hex = {(uint8_t *)text, (unsigned)strlen(text)};
    size_t n = sizeof(out->bytes);

    return hex.size == 2 * n && gnutls_hex_decode(&hex, out->bytes, &n) == 0 ? 0 : ERR_INVAL;
}
