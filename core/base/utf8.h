/* core/base/utf8.h - the length of a character in UTF-8 text, as libunistring determines it.
 *
 * Well-formed is defined by table 3-7 of the Unicode standard: no overlong forms, no surrogates,
 * nothing past U+10FFFF.
 *
 * Thread: any.
 * Memory: none.
 */
#ifndef CORE_BASE_UTF8_H
#define CORE_BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>
#include <unistr.h>

/* Return the bytes of the well-formed character at s, 0 if there is none; n >= 1. */
static inline size_t utf8_len(const uint8_t *s, size_t n)
{
    const int len = s[0] < 0x80 ? 1 : u8_mblen(s, n);

    return len > 0 ? (size_t)len : 0;
}

#endif
