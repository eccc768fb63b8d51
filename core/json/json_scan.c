/* core/json/json_scan.c - see json_scan.h.
 *
 * A state machine with one byte of input at a time; objects and lists are a stack of bits. Nothing
 * is buffered, so it follows a model's answer while that is generated, at any cut.
 * json_add_closed() runs a copy of the scanner over a cut text and remembers the last point where
 * the text can be closed.
 */
#include "core/json/json_scan.h"

#include <string.h>

enum state {
    AT_VALUE = 0,     /* a value must come */
    AT_VALUE_OR_END,  /* after [ */
    AT_NAME_OR_END,   /* after { */
    AT_NAME,          /* after a comma of an object */
    AT_COLON,
    AT_NEXT,          /* after a value: a comma, or the end of the container */
    IN_STRING,
    IN_ESCAPE,
    IN_UNIT,          /* in the digits of \uXXXX */
    AT_LOW_ESCAPE,    /* before the second half of a surrogate pair: its backslash */
    AT_LOW_U,         /* ... its u */
    IN_LITERAL,
    IN_MINUS,         /* in a number; it may end in IN_ZERO, IN_INTEGER, … */
    IN_ZERO,
    IN_INTEGER,
    IN_POINT,
    IN_FRACTION,
    IN_EXPONENT,
    IN_EXPONENT_SIGN,
    IN_EXPONENT_DIGITS,
    IS_BAD,
};

void json_scan_init(struct json_scan *s)
{
    memset(s, 0, sizeof(*s));
}

static bool is_scan_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_in_object(const struct json_scan *s)
{
    return s->depth > 0 && (s->objects[(s->depth - 1) / 8] >> (s->depth - 1) % 8 & 1) != 0;
}

static unsigned bad(struct json_scan *s)
{
    s->state = IS_BAD;
    return JSON_EVENT_BAD;
}

static unsigned go(struct json_scan *s, enum state state, unsigned events)
{
    s->state = (uint8_t)state;
    return events;
}

/* ---- objects and lists ---- */

static unsigned open_container(struct json_scan *s, bool is_object)
{
    const uint8_t bit = (uint8_t)(1 << s->depth % 8);

    if (s->depth == JSON_MAX_DEPTH)
        return bad(s);
    s->objects[s->depth / 8] &= (uint8_t)~bit;
    if (is_object)
        s->objects[s->depth / 8] |= bit;
    s->depth++;
    return go(s, is_object ? AT_NAME_OR_END : AT_VALUE_OR_END, JSON_EVENT_BEGIN);
}

static unsigned close_container(struct json_scan *s, char c)
{
    if (s->depth == 0 || is_in_object(s) != (c == '}'))
        return bad(s);
    s->depth--;
    return go(s, AT_NEXT, JSON_EVENT_END);
}

static unsigned begin_string(struct json_scan *s, bool is_name)
{
    s->is_name = is_name;
    s->high = 0;
    return go(s, IN_STRING, is_name ? JSON_EVENT_OPEN_NAME : JSON_EVENT_BEGIN);
}

static unsigned begin_value(struct json_scan *s, char c)
{
    if (c == '{' || c == '[')
        return open_container(s, c == '{');
    if (c == '"')
        return begin_string(s, false);
    if (c == 't' || c == 'f' || c == 'n') {
        s->literal = c;
        s->n_literal = 1;
        return go(s, IN_LITERAL, JSON_EVENT_BEGIN);
    }
    if (c == '-')
        return go(s, IN_MINUS, JSON_EVENT_BEGIN);
    if (is_digit(c))
        return go(s, c == '0' ? IN_ZERO : IN_INTEGER, JSON_EVENT_BEGIN);
    return bad(s);
}

static unsigned next_of_container(struct json_scan *s, char c)
{
    if (c == '}' || c == ']')
        return close_container(s, c);
    if (c != ',' || s->depth == 0)
        return bad(s);
    return go(s, is_in_object(s) ? AT_NAME : AT_VALUE, 0);
}

static unsigned between_values(struct json_scan *s, char c)
{
    if (is_scan_blank(c))
        return 0;
    switch (s->state) {
    case AT_VALUE_OR_END:
        return c == ']' ? close_container(s, c) : begin_value(s, c);
    case AT_NAME_OR_END:
        return c == '}' ? close_container(s, c) : c == '"' ? begin_string(s, true) : bad(s);
    case AT_NAME:
        return c == '"' ? begin_string(s, true) : bad(s);
    case AT_COLON:
        return c == ':' ? go(s, AT_VALUE, 0) : bad(s);
    case AT_NEXT:
        return next_of_container(s, c);
    default:
        return begin_value(s, c);
    }
}

/* ---- strings ---- */

static int hex_digit(char c)
{
    if (is_digit(c))
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* End a \uXXXX: a character, half of a pair, or one that strings may not have. */
static unsigned end_unit(struct json_scan *s)
{
    const bool is_high = (s->unit & 0xfc00) == 0xd800, is_low = (s->unit & 0xfc00) == 0xdc00;

    if (s->unit == 0 || is_low != (s->high != 0))
        return bad(s);
    s->high = is_high ? s->unit : 0;
    return go(s, is_high ? AT_LOW_ESCAPE : IN_STRING, 0);
}

static unsigned in_unit(struct json_scan *s, char c)
{
    const int digit = hex_digit(c);

    if (digit < 0)
        return bad(s);
    s->unit = (uint16_t)(s->unit << 4 | digit);
    return ++s->n_digits < 4 ? 0 : end_unit(s);
}

static unsigned begin_unit(struct json_scan *s)
{
    s->unit = 0;
    s->n_digits = 0;
    return go(s, IN_UNIT, 0);
}

static unsigned in_string(struct json_scan *s, char c)
{
    switch (s->state) {
    case IN_ESCAPE:
        if (c == 'u')
            return begin_unit(s);
        return c != '\0' && strchr("\"\\/bfnrt", c) != NULL ? go(s, IN_STRING, 0) : bad(s);
    case IN_UNIT:
        return in_unit(s, c);
    case AT_LOW_ESCAPE:
        return c == '\\' ? go(s, AT_LOW_U, 0) : bad(s);
    case AT_LOW_U:
        return c == 'u' ? begin_unit(s) : bad(s);
    default:
        break;
    }
    if (c == '\\')
        return go(s, IN_ESCAPE, 0);
    if (c == '"')
        return s->is_name ? go(s, AT_COLON, JSON_EVENT_CLOSE_NAME) : go(s, AT_NEXT, JSON_EVENT_END);
    return c != '\0' ? 0 : bad(s);
}

/* ---- literals and numbers ---- */

static unsigned in_literal(struct json_scan *s, char c)
{
    const char *word = s->literal == 't' ? "true" : s->literal == 'f' ? "false" : "null";

    if (c != word[s->n_literal])
        return bad(s);
    return word[++s->n_literal] == '\0' ? go(s, AT_NEXT, JSON_EVENT_END) : 0;
}

static unsigned end_number(struct json_scan *s, char c)
{
    s->state = AT_NEXT;
    return JSON_EVENT_ENDED | between_values(s, c);
}

static unsigned in_number(struct json_scan *s, char c)
{
    const bool is_e = c == 'e' || c == 'E';

    switch (s->state) {
    case IN_MINUS:
        return is_digit(c) ? go(s, c == '0' ? IN_ZERO : IN_INTEGER, 0) : bad(s);
    case IN_ZERO:
    case IN_INTEGER:
        if (is_digit(c))
            return s->state == IN_INTEGER ? 0 : bad(s);
        return c == '.' ? go(s, IN_POINT, 0) : is_e ? go(s, IN_EXPONENT, 0) : end_number(s, c);
    case IN_POINT:
        return is_digit(c) ? go(s, IN_FRACTION, 0) : bad(s);
    case IN_FRACTION:
        return is_digit(c) ? 0 : is_e ? go(s, IN_EXPONENT, 0) : end_number(s, c);
    case IN_EXPONENT:
        if (c == '+' || c == '-')
            return go(s, IN_EXPONENT_SIGN, 0);
        return is_digit(c) ? go(s, IN_EXPONENT_DIGITS, 0) : bad(s);
    case IN_EXPONENT_SIGN:
        return is_digit(c) ? go(s, IN_EXPONENT_DIGITS, 0) : bad(s);
    default:
        return is_digit(c) ? 0 : end_number(s, c);
    }
}

unsigned json_scan_byte(struct json_scan *s, char c)
{
    if (s->state == IS_BAD)
        return JSON_EVENT_BAD;
    if (s->state < IN_STRING)
        return between_values(s, c);
    if (s->state < IN_LITERAL)
        return in_string(s, c);
    return s->state == IN_LITERAL ? in_literal(s, c) : in_number(s, c);
}

bool json_scan_is_in_string(const struct json_scan *s)
{
    return s->state == IN_STRING;
}

/* ---- closing ---- */

struct cut {
    size_t n;             /* bytes that are kept */
    bool is_in_string;    /* a quote must be added after the kept bytes */
    struct json_scan at;  /* the state there: containers that are open */
};

/* Return the longest beginning of the text that can be closed. */
static struct cut longest_cut(const char *text, size_t n)
{
    struct cut cut = {0};
    struct json_scan s;

    json_scan_init(&s);
    for (size_t i = 0; i < n; i++) {
        const unsigned events = json_scan_byte(&s, text[i]);

        if (cut.n == 0 && (events & JSON_EVENT_BEGIN) != 0 && s.depth == 0)
            break; /* neither an object nor a list */
        if ((events & JSON_EVENT_BAD) != 0) {
            if ((events & JSON_EVENT_ENDED) != 0)
                cut.n = i;
            break;
        }
        if ((events & JSON_EVENT_ENDED) != 0)
            cut = (struct cut){i, false, cut.at};
        if ((events & JSON_EVENT_END) != 0 || s.state == AT_VALUE_OR_END ||
            s.state == AT_NAME_OR_END)
            cut = (struct cut){i + 1, false, s};
        else if (s.state == IN_STRING && !s.is_name)
            cut = (struct cut){i + 1, true, s};
    }
    return cut;
}

int json_add_closed(struct buf *out, const char *text, size_t n)
{
    struct cut cut = longest_cut(text, n);

    if (cut.n == 0)
        return buf_add_str(out, "{}");
    buf_add(out, text, cut.n);
    if (cut.is_in_string)
        buf_add_char(out, '"');
    for (; cut.at.depth > 0; cut.at.depth--)
        buf_add_char(out, is_in_object(&cut.at) ? '}' : ']');
    return out->err;
}
