/* core/base/hex.h - hexadecimal digits within other text (whole texts: gnutls_hex_decode2()).
 *
 * Thread: any.
 * Memory: none.
 */
#ifndef CORE_BASE_HEX_H
#define CORE_BASE_HEX_H

/* 0 to 15, or -1 for a character that is no hexadecimal digit. */
static inline int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

#endif
