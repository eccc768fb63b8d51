/* core/base/unicode.c - see unicode.h.
 *
 * libunistring has the tables; this file adds the places where Python differs from Unicode's
 * properties (spaces, line ends, ideographs that are numbers) and case mapping of single characters
 * with the special cases of sigma. Walking never leaves the text: an invalid byte is one character,
 * U+FFFD.
 */
#include "core/base/unicode.h"

#include "core/base/buf.h"
#include "core/base/utf8.h"

#include <assert.h>
#include <unicase.h>
#include <unictype.h>

#define REPLACEMENT 0xFFFD
#define CAPITAL_SIGMA 0x3A3 /* the lower case of sigma depends on its place in a word */
#define FINAL_SIGMA 0x3C2
#define SMALL_SIGMA 0x3C3

uint32_t unicode_at(const char *s, size_t n, size_t *len)
{
    ucs4_t cp = (uint8_t)*s;
    const int got = cp < 0x80 ? 1 : u8_mbtoucr(&cp, (const uint8_t *)s, n);

    *len = got > 0 ? (size_t)got : 1;
    return got > 0 ? cp : REPLACEMENT;
}

size_t unicode_last(const char *s, size_t n)
{
    for (size_t back = 1; back <= 4 && back <= n; back++)
        if (utf8_len((const uint8_t *)s + n - back, back) == back)
            return back;
    return 1;
}

size_t unicode_count(const char *s, size_t n)
{
    size_t count = 0, len;

    for (size_t i = 0; i < n; i += len, count++)
        unicode_at(s + i, n - i, &len);
    return count;
}

size_t unicode_offset(const char *s, size_t n, size_t k)
{
    size_t i = 0, len;

    for (; i < n && k > 0; i += len, k--)
        unicode_at(s + i, n - i, &len);
    return i;
}

int unicode_put(struct buf *out, uint32_t cp)
{
    uint8_t b[4];
    const int n = u8_uctomb(b, cp, sizeof(b));

    assert(n > 0);
    return buf_add(out, b, (size_t)n);
}

bool unicode_is_space(uint32_t cp)
{
    if (cp < 0x80)
        return (cp >= 9 && cp <= 13) || (cp >= 28 && cp <= 32);
    return cp == 0x85 || cp == 0xA0 || cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200A) ||
           cp == 0x2028 || cp == 0x2029 || cp == 0x202F || cp == 0x205F || cp == 0x3000;
}

bool unicode_is_line_end(uint32_t cp)
{
    return (cp >= 10 && cp <= 13) || (cp >= 28 && cp <= 30) || cp == 0x85 || cp == 0x2028 ||
           cp == 0x2029;
}

static bool is_any(uint32_t cp, uint32_t mask)
{
    return uc_is_general_category_withtable(cp, mask);
}

bool unicode_is_printable(uint32_t cp)
{
    if (cp < 0x7F)
        return cp >= 0x20;
    return !is_any(cp, UC_CATEGORY_MASK_C | UC_CATEGORY_MASK_Z);
}

bool unicode_is_alpha(uint32_t cp)
{
    return is_any(cp, UC_CATEGORY_MASK_L);
}

bool unicode_is_decimal(uint32_t cp)
{
    return uc_decimal_value(cp) >= 0;
}

bool unicode_is_digit(uint32_t cp)
{
    return uc_digit_value(cp) >= 0;
}

/* Ideographs that are numbers in Unihan: Python counts them, libunistring does not. Sorted. */
static const uint32_t ideographs[] = {
    0x3405, 0x3483, 0x382A, 0x3B4D, 0x4E00, 0x4E03, 0x4E07, 0x4E09, 0x4E5D, 0x4E8C, 0x4E94,
    0x4E96, 0x4EBF, 0x4EC0, 0x4EDF, 0x4EE8, 0x4F0D, 0x4F70, 0x5104, 0x5146, 0x5169, 0x516B,
    0x516D, 0x5341, 0x5343, 0x5344, 0x5345, 0x534C, 0x53C1, 0x53C2, 0x53C3, 0x53C4, 0x56DB,
    0x58F1, 0x58F9, 0x5E7A, 0x5EFE, 0x5EFF, 0x5F0C, 0x5F0D, 0x5F0E, 0x5F10, 0x62FE, 0x634C,
    0x67D2, 0x6F06, 0x7396, 0x767E, 0x8086, 0x842C, 0x8CAE, 0x8CB3, 0x8D30, 0x9621, 0x9646,
    0x964C, 0x9678, 0x96F6, 0xF96B, 0xF973, 0xF978, 0xF9B2, 0xF9D1, 0xF9D3, 0xF9FD, 0x20001,
    0x20064, 0x200E2, 0x20121, 0x2092A, 0x20983, 0x2098C, 0x2099C, 0x20AEA, 0x20AFD, 0x20B19,
    0x22390, 0x22998, 0x23B1B, 0x2626D, 0x2F890,
};

static bool is_number_ideograph(uint32_t cp)
{
    size_t low = 0, high = sizeof(ideographs) / sizeof(ideographs[0]);

    while (low < high) {
        const size_t mid = (low + high) / 2;

        if (ideographs[mid] == cp)
            return true;
        if (ideographs[mid] < cp)
            low = mid + 1;
        else
            high = mid;
    }
    return false;
}

bool unicode_is_numeric(uint32_t cp)
{
    return uc_numeric_value(cp).denominator != 0 || is_number_ideograph(cp);
}

bool unicode_is_alnum(uint32_t cp)
{
    return unicode_is_alpha(cp) || unicode_is_digit(cp) || unicode_is_numeric(cp);
}

bool unicode_is_upper(uint32_t cp)
{
    return uc_is_property_uppercase(cp);
}

bool unicode_is_lower(uint32_t cp)
{
    return uc_is_property_lowercase(cp);
}

bool unicode_is_title(uint32_t cp)
{
    return is_any(cp, UC_CATEGORY_MASK_Lt);
}

int unicode_decimal_value(uint32_t cp)
{
    return uc_decimal_value(cp);
}

bool unicode_is_white(uint32_t cp)
{
    return uc_is_property_white_space(cp);
}

bool unicode_is_word(uint32_t cp)
{
    return uc_is_property_alphabetic(cp) || uc_is_property_join_control(cp) ||
           uc_is_general_category_withtable(cp, UC_CATEGORY_MASK_M | UC_CATEGORY_MASK_Nd |
                                                    UC_CATEGORY_MASK_Pc);
}

bool unicode_is_name(uint32_t cp, bool first)
{
    if (cp == '_')
        return true;
    return first ? uc_is_property_xid_start(cp) : uc_is_property_xid_continue(cp);
}

/* Append one character in upper, lower or title case: up to three characters, so that the room
 * suffices and the library allocates nothing. */
static int put_case(struct buf *out, const char *s, size_t len, enum unicode_case to)
{
    uint8_t room[32];
    size_t n = sizeof(room);
    const uint8_t *from = (const uint8_t *)s;

    if ((uint8_t)s[0] < 0x80) {
        const char c = s[0];

        if (to == UNICODE_LOWER || to == UNICODE_FOLD)
            return buf_add_char(out, c >= 'A' && c <= 'Z' ? (char)(c + 32) : c);
        return buf_add_char(out, c >= 'a' && c <= 'z' ? (char)(c - 32) : c);
    }
    if (utf8_len(from, len) != len) /* not a character: nothing to change */
        return buf_add(out, s, len);
    if (to == UNICODE_UPPER)
        from = u8_toupper(from, len, NULL, NULL, room, &n);
    else if (to == UNICODE_LOWER)
        from = u8_tolower(from, len, NULL, NULL, room, &n);
    else if (to == UNICODE_FOLD)
        from = u8_casefold(from, len, NULL, NULL, room, &n);
    else
        from = u8_totitle(from, len, NULL, NULL, room, &n);
    return from == room ? buf_add(out, room, n) : buf_add(out, s, len);
}

/* True: the sigma at s[i] is the last letter of a word: some letter is before it and none after it,
 * not counting apostrophes and the like. */
static bool is_final_sigma(const char *s, size_t n, size_t i)
{
    size_t len, j = i;
    uint32_t cp = 0;

    while (j > 0) {
        len = unicode_last(s, j);
        cp = unicode_at(s + j - len, len, &len);
        if (!uc_is_property_case_ignorable(cp))
            break;
        j -= len;
    }
    if (j == 0 || !uc_is_property_cased(cp))
        return false;
    for (j = i + 2; j < n; j += len) {
        cp = unicode_at(s + j, n - j, &len);
        if (!uc_is_property_case_ignorable(cp))
            return !uc_is_property_cased(cp);
    }
    return true;
}

int unicode_change_case(const char *s, size_t n, enum unicode_case to, struct buf *out)
{
    bool in_word = false;
    size_t len;

    for (size_t i = 0; i < n; i += len) {
        const uint32_t cp = unicode_at(s + i, n - i, &len);
        enum unicode_case here = to;

        if (to == UNICODE_CAPITAL)
            here = i == 0 ? UNICODE_TITLE : UNICODE_LOWER;
        else if (to == UNICODE_SWAP)
            here = unicode_is_upper(cp) ? UNICODE_LOWER : UNICODE_UPPER;
        else if (to == UNICODE_TITLE) {
            here = in_word ? UNICODE_LOWER : UNICODE_TITLE;
            in_word = uc_is_property_cased(cp);
        }
        if (to == UNICODE_SWAP && !unicode_is_upper(cp) && !unicode_is_lower(cp))
            buf_add(out, s + i, len);
        else if (here == UNICODE_LOWER && cp == CAPITAL_SIGMA)
            unicode_put(out, is_final_sigma(s, n, i) ? FINAL_SIGMA : SMALL_SIGMA);
        else
            put_case(out, s + i, len, here);
    }
    return out->err;
}
