/* core/grammar/reader.c - a cursor over the text of a notation.
 *
 * Lines are not counted while a parser reads: reader_fail() counts the line ends before `at` when
 * it writes the error. Characters are decoded by libunistring, which refuses malformed UTF-8 and
 * surrogates, so a grammar can only spell well-formed text.
 */
#include "core/grammar/reader.h"

#include "core/base/err.h"
#include "core/base/hex.h"
#include "core/grammar/builder.h"
#include "core/grammar/char_class.h"

#include <string.h>
#include <unistr.h>

bool reader_fail(struct reader *r, int code, const char *what)
{
    uint32_t line = 1;

    for (size_t i = 0; i < r->at && i < r->n; i++)
        line += r->text[i] == '\n';
    if (r->has_lines)
        grammar_builder_fail(r->b, code, "line %u: %s", line, what);
    else
        grammar_builder_fail(r->b, code, "at character %zu: %s", r->at + 1, what);
    return false;
}

bool reader_has_failed(const struct reader *r)
{
    return grammar_builder_error(r->b) != 0;
}

char reader_peek(const struct reader *r)
{
    return r->at < r->n ? r->text[r->at] : '\0';
}

void reader_pass(struct reader *r)
{
    if (r->at < r->n)
        r->at++;
}

bool reader_take(struct reader *r, const char *what)
{
    const size_t n = strlen(what);

    if (r->n - r->at < n || memcmp(r->text + r->at, what, n) != 0)
        return false;
    r->at += n;
    return true;
}

uint32_t reader_char(struct reader *r, const char *what)
{
    const uint8_t *s = (const uint8_t *)r->text + r->at;
    ucs4_t c = 0;
    const int len = r->at < r->n ? u8_mbtoucr(&c, s, r->n - r->at) : 0;

    if (len <= 0) {
        reader_fail(r, ERR_INVAL, what);
        return 0;
    }
    r->at += (size_t)len;
    return c;
}

uint32_t reader_hex(struct reader *r, uint32_t n, int code, const char *what)
{
    uint32_t value = 0;

    for (uint32_t i = 0; i < n; i++, reader_pass(r)) {
        const int digit = hex_digit(reader_peek(r));

        if (digit < 0) {
            reader_fail(r, ERR_INVAL, "an escape has too few hexadecimal digits");
            return 0;
        }
        value = value << 4 | (uint32_t)digit;
    }
    if (value > CHAR_LAST || (value >= 0xD800 && value <= 0xDFFF))
        reader_fail(r, code, what);
    return value;
}

bool reader_count(struct reader *r, uint32_t *n)
{
    const size_t from = r->at;

    for (*n = 0; reader_peek(r) >= '0' && reader_peek(r) <= '9'; r->at++) {
        *n = *n * 10 + (uint32_t)(reader_peek(r) - '0');
        if (*n > GRAMMAR_MAX_REPEAT)
            return reader_fail(r, ERR_LIMIT, "a repetition count is too large");
    }
    return r->at > from;
}
