/* server/auth/secret.c - see secret.h. */
#include "server/auth/secret.h"

#include "core/base/err.h"

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <string.h>
#include <sys/random.h>

#define RANDOM_BYTES 32

/* Letters of six bits each, as in base64url; the last one holds what is left of the 256 bits. */
int secret_make(char text[SECRET_TEXT])
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    uint8_t random[RANDOM_BYTES + 1] = {0}; /* a zero behind, for the last letter */
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

/* All the bytes are looked at, whatever they are: `volatile` keeps the compiler from stopping. */
bool secret_is_equal(const struct secret_hash *a, const struct secret_hash *b)
{
    volatile uint8_t difference = 0;

    for (size_t i = 0; i < sizeof(a->bytes); i++)
        difference |= (uint8_t)(a->bytes[i] ^ b->bytes[i]);
    return difference == 0;
}

void secret_to_hex(const struct secret_hash *h, char out[SECRET_HEX])
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < sizeof(h->bytes); i++) {
        out[2 * i] = digits[h->bytes[i] >> 4];
        out[2 * i + 1] = digits[h->bytes[i] & 15];
    }
    out[2 * sizeof(h->bytes)] = '\0';
}

static int digit_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int secret_from_hex(struct secret_hash *out, const char *text)
{
    if (strlen(text) != 2 * sizeof(out->bytes))
        return ERR_INVAL;
    for (size_t i = 0; i < sizeof(out->bytes); i++) {
        const int high = digit_of(text[2 * i]), low = digit_of(text[2 * i + 1]);

        if (high < 0 || low < 0)
            return ERR_INVAL;
        out->bytes[i] = (uint8_t)(high << 4 | low);
    }
    return 0;
}
