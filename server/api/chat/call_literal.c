/* server/api/chat/call_literal.c - converts literals of Python, and JSON with other quotes, to
 * JSON.
 *
 * Recursive descent over a complete value, with JSON_MAX_DEPTH as limit, that writes JSON as it
 * reads; if the text turns out not to be a literal, the output is cut back to its beginning.
 * Numbers are copied digit by digit and checked with the JSON parser. One reader serves both
 * notations: a family only changes which quotes open a string, and allows bare keys.
 */
#include "server/api/chat/call_value.h"

#include "core/base/hex.h"

#include <string.h>
#include <unistr.h>

struct literal {
    const struct family *family; /* the family whose quotes are used; NULL: Python's */
    const char *text;
    size_t at, n;
    struct buf *out;
    unsigned depth;
};

static bool add_literal(struct literal *l);

static void skip_literal_blanks(struct literal *l)
{
    while (l->at < l->n && pattern_is_blank(l->text[l->at]))
        l->at++;
}

static bool take_char(struct literal *l, char c)
{
    skip_literal_blanks(l);
    if (l->at == l->n || l->text[l->at] != c)
        return false;
    l->at++;
    return true;
}

/* ---- strings ---- */

/* Reads a code point of n hexadecimal digits. False: there are fewer. */
static bool read_escape_hex(struct literal *l, size_t n, uint32_t *out)
{
    *out = 0;
    if (n > l->n - l->at)
        return false;
    for (size_t i = 0; i < n; i++) {
        const int digit = hex_digit(l->text[l->at++]);

        if (digit < 0)
            return false;
        *out = *out << 4 | (uint32_t)digit;
    }
    return true;
}

/* Appends a code point; two halves of a surrogate pair may follow each other, as in JSON. */
static bool add_code(struct literal *l, uint32_t code)
{
    uint8_t bytes[4];
    uint32_t low = 0;

    if (code >= 0xd800 && code < 0xdc00 && l->n - l->at >= 6 && l->text[l->at] == '\\' &&
        l->text[l->at + 1] == 'u') {
        l->at += 2;
        if (!read_escape_hex(l, 4, &low) || low < 0xdc00 || low > 0xdfff)
            return false;
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    if (code == 0 || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
        return false;
    call_value_add_chars(l->out, (const char *)bytes, (size_t)u8_uctomb(bytes, code, 4));
    return true;
}

/* Appends the character that an escape stands for; *l is after the backslash. */
static bool add_escape(struct literal *l)
{
    static const char from[] = "abfnrtv\\'\"/", to[] = "\a\b\f\n\r\t\v\\'\"/";
    const char c = l->text[l->at++];
    const char *at = strchr(from, c);
    uint32_t code;

    if (c == 'x' || c == 'u' || c == 'U')
        return read_escape_hex(l, c == 'x' ? 2 : c == 'u' ? 4 : 8, &code) && add_code(l, code);
    if (c == '\n')
        return true; /* the string continues on the next line */
    if (c == '\0' || at == NULL) {
        call_value_add_chars(l->out, "\\", 1);
        l->at--;
        return true;
    }
    call_value_add_chars(l->out, to + (at - from), 1);
    return true;
}

static bool add_python_string(struct literal *l)
{
    const char quote = l->text[l->at++];

    buf_add_char(l->out, '"');
    while (l->at < l->n && l->text[l->at] != quote) {
        const size_t from = l->at;

        while (l->at < l->n && l->text[l->at] != quote && l->text[l->at] != '\\')
            l->at++;
        call_value_add_chars(l->out, l->text + from, l->at - from);
        if (l->at < l->n && l->text[l->at] == '\\' && (++l->at == l->n || !add_escape(l)))
            return false;
    }
    buf_add_char(l->out, '"');
    return l->at++ < l->n;
}

static bool add_quoted_string(struct literal *l)
{
    const size_t n_open = strlen(l->family->quotes[0]), n_close = strlen(l->family->quotes[1]);
    const char *from = l->text + l->at + n_open;
    const char *end = memmem(from, l->n - l->at - n_open, l->family->quotes[1], n_close);

    if (end == NULL)
        return false;
    call_value_add_string(l->out, from, (size_t)(end - from));
    l->at = (size_t)(end - l->text) + n_close;
    return true;
}

static bool is_string(const struct literal *l)
{
    const size_t n = l->family != NULL ? strlen(l->family->quotes[0]) : 1, left = l->n - l->at;

    if (l->family != NULL && left >= n && memcmp(l->text + l->at, l->family->quotes[0], n) == 0)
        return true;
    if (l->family != NULL)
        return left > 0 && l->text[l->at] == '"';
    return left > 0 && (l->text[l->at] == '"' || l->text[l->at] == '\'');
}

static bool add_string(struct literal *l)
{
    return l->family != NULL && l->text[l->at] != '"' ? add_quoted_string(l)
                                                      : add_python_string(l);
}

/* ---- words and numbers ---- */

/* Copies a number of Python that JSON has too, without a plus sign and underscores, and with digits
 * around its point. */
static bool add_literal_number(struct literal *l, const char *text, size_t n)
{
    size_t i = 0, digits;

    if (n > 0 && text[0] == '-')
        buf_add_char(l->out, '-');
    i += n > 0 && (text[0] == '-' || text[0] == '+');
    digits = i;
    if (i < n && text[i] == '.')
        buf_add_char(l->out, '0');
    for (; i < n; i++) {
        const char c = text[i], next = i + 1 < n ? text[i + 1] : '\0';

        if (c == '_')
            continue;
        if (strchr("0123456789.eE+-", c) == NULL || c == '\0')
            return false;
        buf_add_char(l->out, c);
        if (c == '.' && (next < '0' || next > '9'))
            buf_add_char(l->out, '0');
    }
    return i > digits && (text[digits] == '.' || (text[digits] >= '0' && text[digits] <= '9'));
}

static bool add_word(struct literal *l)
{
    static const char *const words[][2] = {{"True", "true"},   {"true", "true"}, {"False", "false"},
                                           {"false", "false"}, {"None", "null"}, {"null", "null"}};
    const size_t from = l->at;
    const char *text = l->text + from, *why = NULL;
    cJSON *json = NULL;
    size_t n, begin = l->out->len;

    while (l->at < l->n && strchr(",)]}: \t\r\n", l->text[l->at]) == NULL)
        l->at++;
    n = l->at - from;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strlen(words[i][0]) == n && memcmp(words[i][0], text, n) == 0) {
            buf_add_str(l->out, words[i][1]);
            return true;
        }
    if (!add_literal_number(l, text, n) || l->out->err < 0 ||
        json_parse(l->out->data + begin, l->out->len - begin, &json, &why) < 0)
        return false;
    cJSON_Delete(json);
    return true;
}

/* ---- lists and objects ---- */

static bool add_literal_list(struct literal *l, char close)
{
    bool is_first = true;

    l->at++;
    buf_add_char(l->out, '[');
    while (!take_char(l, close)) {
        if (!is_first && !take_char(l, ','))
            return false;
        if (!is_first && take_char(l, close))
            break; /* a comma after the last item */
        if (!is_first)
            buf_add_str(l->out, ", ");
        if (!add_literal(l))
            return false;
        is_first = false;
    }
    buf_add_char(l->out, ']');
    return true;
}

/* Appends a key: a string or, in a family's notation, the bytes before the colon. */
static bool add_key(struct literal *l)
{
    const size_t from = l->at;

    if (is_string(l))
        return add_string(l);
    if (l->family == NULL)
        return false;
    while (l->at < l->n && l->text[l->at] != ':')
        l->at++;
    call_value_add_string(l->out, l->text + from, l->at - from);
    return l->at > from;
}

static bool add_object(struct literal *l)
{
    bool is_first = true;

    l->at++;
    buf_add_char(l->out, '{');
    while (!take_char(l, '}')) {
        if (!is_first && !take_char(l, ','))
            return false;
        if (!is_first && take_char(l, '}'))
            break;
        if (!is_first)
            buf_add_str(l->out, ", ");
        skip_literal_blanks(l);
        if (!add_key(l) || !take_char(l, ':'))
            return false;
        buf_add_str(l->out, ": ");
        if (!add_literal(l))
            return false;
        is_first = false;
    }
    buf_add_char(l->out, '}');
    return true;
}

static bool add_literal(struct literal *l)
{
    bool done;

    skip_literal_blanks(l);
    if (l->at == l->n || ++l->depth > JSON_MAX_DEPTH)
        return false;
    if (is_string(l))
        done = add_string(l);
    else if (l->text[l->at] == '[')
        done = add_literal_list(l, ']');
    else if (l->text[l->at] == '(' && l->family == NULL)
        done = add_literal_list(l, ')');
    else if (l->text[l->at] == '{')
        done = add_object(l);
    else
        done = add_word(l);
    l->depth--;
    return done;
}

/* Converts the string literal out->data[from..) to a value of another type, if its text is one. */
static void retype_string(struct buf *out, size_t from, unsigned types)
{
    const char *why = NULL;
    cJSON *json = NULL;

    if (json_parse(out->data + from, out->len - from, &json, &why) < 0)
        return;
    out->len = from;
    call_value_add_text(out, json->valuestring, strlen(json->valuestring), types);
    cJSON_Delete(json);
}

void call_value_add_typed(struct buf *out, const struct family *f, const char *text, size_t n,
                          unsigned types)
{
    const size_t from = out->len;

    while (n > 0 && pattern_is_blank(text[n - 1]))
        n--;
    if (!call_value_add_literal(out, f, text, n)) {
        call_value_add_text(out, text, n, ARGUMENT_STRING);
    } else if (out->err == 0 && out->data[from] == '"') {
        if ((types & ARGUMENT_STRING) == 0)
            retype_string(out, from, types);
    } else if (out->err == 0 && types == ARGUMENT_STRING) {
        out->len = from;
        call_value_add_text(out, text, n, types);
    }
}

bool call_value_add_literal(struct buf *out, const struct family *f, const char *text, size_t n)
{
    struct literal l = {.family = f, .text = text, .n = n, .out = out};
    const size_t from = out->len;

    if (add_literal(&l)) {
        skip_literal_blanks(&l);
        if (l.at == n)
            return true;
    }
    if (out->err == 0)
        out->len = from;
    return false;
}
