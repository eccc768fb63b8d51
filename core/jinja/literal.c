/* core/jinja/literal.c - number and string literals of a template.
 *
 * Called by the lexer at the first character of a literal. Numbers follow Python: underscores
 * between digits, prefixes 0x, 0o and 0b, and no leading zeros. Strings have Python's escapes,
 * decoded into a new string in the pool; one without a backslash is used in place.
 */
#include "core/jinja/template_impl.h"

#include "core/base/err.h"
#include "core/base/unicode.h"

#include <stdlib.h>
#include <string.h>

/* --- numbers --- */

/* Skip digits with single "_" between them. Returns the position after them, or `pos`. */
static size_t digits(const struct lexer *lex, size_t pos, const char *set, bool may_begin_low)
{
    const size_t from = pos;

    while (pos < lex->n) {
        const size_t at = pos + (lex->s[pos] == '_' && (pos > from || may_begin_low));

        if (at >= lex->n || lex->s[at] == '\0' || strchr(set, lex->s[at]) == NULL)
            break;
        pos = at + 1;
    }
    return pos;
}

static bool is_sign(const struct lexer *lex, size_t pos)
{
    return pos < lex->n && (lex->s[pos] == '-' || lex->s[pos] == '+');
}

static const char decimal[] = "0123456789";

/* Return the position after a float, which needs a fraction or an exponent; 0: it is not a
 * float. */
static size_t float_end(const struct lexer *lex)
{
    size_t pos = digits(lex, lex->pos, decimal, false), more;
    bool real = false;

    if (lex->pos > 0 && lex->s[lex->pos - 1] == '.')
        return 0;
    if (pos < lex->n && lex->s[pos] == '.') {
        more = digits(lex, pos + 1, decimal, false);
        real = more > pos + 1;
        if (real)
            pos = more;
    }
    if (pos < lex->n && (lex->s[pos] | 32) == 'e') {
        const size_t sign = pos + 1 + (is_sign(lex, pos + 1));

        more = digits(lex, sign, decimal, false);
        if (more > sign) {
            real = true;
            pos = more;
        }
    }
    return real ? pos : 0;
}

static size_t int_end(const struct lexer *lex, int *base)
{
    static const struct {
        char mark;
        int base;
        const char *set;
    } kinds[] = {{'b', 2, "01"}, {'o', 8, "01234567"}, {'x', 16, "0123456789abcdefABCDEF"}};
    const size_t pos = lex->pos;

    *base = 10;
    if (lex->s[pos] != '0')
        return digits(lex, pos, decimal, false);
    for (int i = 0; i < 3; i++) {
        const size_t end = digits(lex, pos + 2, kinds[i].set, true);

        if (pos + 1 < lex->n && (lex->s[pos + 1] | 32) == kinds[i].mark && end > pos + 2) {
            *base = kinds[i].base;
            return end;
        }
    }
    return digits(lex, pos, "0", false);
}

struct token template_lex_number(struct lexer *lex, size_t *behind)
{
    struct token t = {TOKEN_FLOAT, lex->line, {0}};
    size_t end = float_end(lex), n = 0;
    char text[64];
    int base = 10;

    if (end == 0) {
        t.type = TOKEN_INT;
        end = int_end(lex, &base);
    }
    for (size_t i = lex->pos + (base != 10 ? 2 : 0); i < end; i++) {
        if (lex->s[i] == '_')
            continue;
        if (n + 1 == sizeof(text)) {
            *behind = lex->pos;
            template_lex_fail(lex, lex->line, ERR_FORMAT, "a number has too many digits");
            return (struct token){TOKEN_END, lex->line, {0}};
        }
        text[n++] = lex->s[i];
    }
    text[n] = '\0';
    if (t.type == TOKEN_FLOAT) {
        t.v = value_float(strtod(text, NULL));
    } else {
        const unsigned long long i = strtoull(text, NULL, base);

        if (i > INT64_MAX) {
            template_lex_fail(lex, lex->line, ERR_FORMAT, "an integer needs more than 64 bits");
            t.type = TOKEN_END;
        }
        t.v = value_int((int64_t)i);
    }
    *behind = end;
    return t;
}

/* --- strings --- */

/* Read up to `max` digits in the given base at s[*i]. Returns how many there were. */
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

/* Decode \x41, \u00e9, \U0001F600: the letter is at s[*i]. */
static void put_numbered(struct lexer *lex, const char *s, size_t n, size_t *i, struct buf *out)
{
    const char letter = s[(*i)++];
    const int want = letter == 'x' ? 2 : letter == 'u' ? 4 : 8;
    uint32_t cp;

    if (read_digits(s, n, i, 16, want, &cp) < want)
        template_lex_fail(lex, lex->line, ERR_FORMAT, "a \\%c in a string needs %d digits", letter,
                          want);
    else if (cp > 0x10FFFF || (cp >= 0xD800 && cp <= 0xDFFF))
        template_lex_fail(lex, lex->line, ERR_FORMAT,
                          "\\%c%0*x in a string is not a valid character", letter, want, cp);
    else
        unicode_put(out, cp);
}

/* Put a character beyond ASCII after a backslash: Python escapes such characters before it decodes
 * escapes, so the backslash stays. */
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

/* Decode the escape whose character after the backslash is s[*i]. */
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
