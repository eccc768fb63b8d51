/* server/auth/secret.h - secrets of API keys: random bits, stored as hashes only.
 *
 * A key is a prefix and 256 random bits as letters. Because it cannot be guessed, a single SHA-256
 * suffices; slow hashes are for passwords that people choose. Hashes are compared in a time that
 * does not depend on where they differ.
 *
 * Thread: any.
 * Memory: none.
 */
#ifndef SERVER_AUTH_SECRET_H
#define SERVER_AUTH_SECRET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SECRET_MAX 256 /* bytes of a key that a client presents */
#define SECRET_TEXT 47 /* "qk-", 43 letters, NUL */
#define SECRET_HEX 65  /* a hash in hexadecimal digits, NUL */

struct secret_hash {
    uint8_t bytes[32];
};

/* Make a new key. ERR_IO: the system has no random numbers. */
int secret_make(char text[SECRET_TEXT]);

/* Hash a key's text. ERR_INTERNAL: the library has failed, and no key is valid. */
int secret_hash(const char *text, size_t n, struct secret_hash *out);

bool secret_is_equal(const struct secret_hash *a, const struct secret_hash *b);

void secret_to_hex(const struct secret_hash *h, char out[SECRET_HEX]);
/* Read 64 digits, in either case; ERR_INVAL for anything else. */
int secret_from_hex(struct secret_hash *out, const char *text);

#endif
