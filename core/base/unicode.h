/* core/base/unicode.h - code points in UTF-8 text: walking, classes and case, as Python sees them.
 *
 * Text is walked without trust: a byte that begins no well-formed character counts as one character
 * (U+FFFD), so no position ever lies outside the text.
 *
 * Thread: any.
 * Memory: none of its own; results are appended to a buf.
 * Errors: the buf's (sticky).
 */
#ifndef CORE_BASE_UNICODE_H
#define CORE_BASE_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;

/* Return the character at s (n >= 1); *len gets its bytes. */
uint32_t unicode_at(const char *s, size_t n, size_t *len);
/* Return the bytes of the character that ends right before s + n; n >= 1. */
size_t unicode_last(const char *s, size_t n);
size_t unicode_count(const char *s, size_t n);
/* Return the offset of the byte at which character number `k` begins; n if there are fewer. */
size_t unicode_offset(const char *s, size_t n, size_t k);
/* Append a character; cp is at most U+10FFFF and not a surrogate. */
int unicode_put(struct buf *out, uint32_t cp);

/* Python's str.isspace() and the like, for one character. */
bool unicode_is_space(uint32_t cp);
bool unicode_is_line_end(uint32_t cp); /* true: Python's str.splitlines() splits here */
bool unicode_is_printable(uint32_t cp);
bool unicode_is_alpha(uint32_t cp);
bool unicode_is_decimal(uint32_t cp);
bool unicode_is_digit(uint32_t cp);
bool unicode_is_numeric(uint32_t cp);
bool unicode_is_alnum(uint32_t cp);
bool unicode_is_upper(uint32_t cp);
bool unicode_is_lower(uint32_t cp);
bool unicode_is_title(uint32_t cp);
int unicode_decimal_value(uint32_t cp); /* 0..9, or -1 */
/* \s and \w of regular expressions (Unicode's annex C of UTS 18). */
bool unicode_is_white(uint32_t cp);
bool unicode_is_word(uint32_t cp);
/* True: the character may begin an identifier (first), or continue one. */
bool unicode_is_name(uint32_t cp, bool first);

enum unicode_case {
    UNICODE_UPPER = 0,
    UNICODE_LOWER,
    UNICODE_CAPITAL, /* the first character in title case, the rest in lower case */
    UNICODE_TITLE,   /* each run of letters like UNICODE_CAPITAL */
    UNICODE_SWAP,
    UNICODE_FOLD, /* for comparing without case */
};
int unicode_change_case(const char *s, size_t n, enum unicode_case to, struct buf *out);

#endif
