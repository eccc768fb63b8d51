/* core/base/hex.h - hexadecimal digits within other text (whole texts: gnutls_hex_decode2()).
 *
 * Thread: any.
 * Memory: none.
 */
#ifndef CORE_BASE_HEX_H
#define CORE_BASE_HEX_H

#include <stddef.h>

/* Return 0 to 15, or -1 for a character that is not a hexadecimal digit. */
static inline int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Write 2 * n digits in lower case, and a NUL after them. */
static inline void hex_write(char *out, const unsigned char *bytes, size_t n)
{
    for (size_t i = 0; i < 2 * n; i++)
        out[i] = "0123456789abcdef"[bytes[i / 2] >> (i % 2 == 0 ? 4 : 0) & 0xf];
    out[2 * n] = '\0';
}

#endif
