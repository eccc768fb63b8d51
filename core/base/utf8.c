/* core/base/utf8.c - see utf8.h. The ranges are those of table 3-7 of the Unicode standard. */
#include "core/base/utf8.h"

/* Bytes in a character that begins with this one; 0: none does. */
static size_t length_by_lead(uint8_t lead)
{
    if (lead < 0x80)
        return 1;
    if (lead < 0xC2 || lead > 0xF4)
        return 0;
    return lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}

/* The second byte is what excludes overlong forms, surrogates and numbers past U+10FFFF. */
static bool second_fits(uint8_t lead, uint8_t second)
{
    const uint8_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    const uint8_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;

    return second >= low && second <= high;
}

enum utf8_state utf8_check(const uint8_t *s, size_t n)
{
    const size_t len = length_by_lead(s[0]);

    if (len == 0 || n > len || (n > 1 && !second_fits(s[0], s[1])))
        return UTF8_BROKEN;
    for (size_t i = 2; i < n; i++) {
        if ((s[i] & 0xC0) != 0x80)
            return UTF8_BROKEN;
    }
    return n == len ? UTF8_WHOLE : UTF8_PARTIAL;
}

size_t utf8_len(const uint8_t *s, size_t n)
{
    const size_t len = length_by_lead(s[0]);

    if (len == 0 || len > n || utf8_check(s, len) != UTF8_WHOLE)
        return 0;
    return len;
}
