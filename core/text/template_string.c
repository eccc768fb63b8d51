/* core/text/template_string.c - string literals: what stands for what between the quotes. */
#include "core/text/template_private.h"

#include "core/base/err.h"
#include "core/text/unicode.h"

#include <string.h>

/* Up to `max` digits in the given base at s[*i]. Returns how many there were. */
static int read_digits(const char *s, size_t n, size_t *i, int base, int max, uint32_t *cp)
{
    int k = 0;

    *cp = 0;
    for (; k < max && *i < n; k++, (*i)++) {
        const char c = s[*i];
        const int digit = c >= '0' && c <= '9'   ? c - '0'
                          : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
                                                               : 99;

        if (digit >= base)
            break;
        *cp = *cp * (uint32_t)base + (uint32_t)digit;
    }
    return k;
}

/* \x41, \u00e9, \U0001F600: the letter is at s[*i]. */
static void put_numbered(struct lexer *lex, const char *s, size_t n, size_t *i, struct buf *out)
{
    const char letter = s[(*i)++];
    const int want = letter == 'x' ? 2 : letter == 'u' ? 4 : 8;
    uint32_t cp;

    if (read_digits(s, n, i, 16, want, &cp) < want)
        template_lex_fail(lex, lex->line, ERR_FORMAT, "a \\%c in a string needs %d digits", letter,
                          want);
    else if (cp > 0x10FFFF || (cp >= 0xD800 && cp <= 0xDFFF))
        template_lex_fail(lex, lex->line, ERR_FORMAT, "\\%c%0*x in a string is no character",
                          letter, want, cp);
    else
        unicode_put(out, cp);
}

/* Python escapes what is not ASCII before it undoes the escapes: a backslash before such a
 * character keeps it from being undone. */
static void put_escaped_other(const char *s, size_t n, size_t *i, struct buf *out)
{
    size_t len;
    const uint32_t cp = unicode_at(s + *i, n - *i, &len);

    if (cp < 0x80)
        buf_printf(out, "\\%c", (char)cp);
    else
        buf_printf(out, cp < 0x100 ? "\\x%02x" : cp < 0x10000 ? "\\u%04x" : "\\U%08x", cp);
    *i += len;
}

/* The escape whose character after the backslash is s[*i]. */
static void put_escape(struct lexer *lex, const char *s, size_t n, size_t *i, struct buf *out)
{
    static const char letters[] = "\\'\"abfnrtv";
    static const char meanings[] = "\\'\"\a\b\f\n\r\t\v";
    const char c = s[*i];
    const char *at = c != '\0' ? strchr(letters, c) : NULL;
    uint32_t cp;

    if (at != NULL) {
        buf_add_char(out, meanings[at - letters]);
        (*i)++;
    } else if (c == '\n') {
        (*i)++;
    } else if (c >= '0' && c <= '7') {
        read_digits(s, n, i, 8, 3, &cp);
        unicode_put(out, cp);
    } else if (c == 'x' || c == 'u' || c == 'U') {
        put_numbered(lex, s, n, i, out);
    } else if (c == 'N') {
        template_lex_fail(lex, lex->line, ERR_FORMAT, "\\N in a string is not supported");
    } else {
        put_escaped_other(s, n, i, out);
    }
}

struct value template_lex_string(struct lexer *lex, const char *s, size_t n)
{
    struct value v = value_null();
    struct buf out;

    if (memchr(s, '\\', n) == NULL)
        return value_borrow(s, n);
    buf_init(&out, 8 * n + 8);
    for (size_t i = 0; i < n && lex->rc == 0;) {
        if (s[i] != '\\' || i + 1 == n)
            buf_add_char(&out, s[i++]);
        else {
            i++;
            put_escape(lex, s, n, &i, &out);
        }
    }
    if (out.err < 0)
        template_lex_fail(lex, lex->line, out.err, "no memory for a string");
    else
        v = value_string(lex->pool, out.data, out.len);
    buf_release(&out);
    return v;
}
