/* core/jinja/value_repr.c - Python's str() and repr(); see value.h.
 *
 * Strings get Python's choice of quotes and its escapes, floats the shortest digits that read back,
 * containers their elements' repr. The chain of containers being printed is a list on the stack: it
 * bounds the depth, and finds a namespace that contains itself, which is printed as <Namespace
 * {...}>.
 */
#include "core/jinja/template_impl.h"

#include "core/base/buf.h"
#include "core/base/err.h"
#include "core/base/unicode.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Write the shortest digits that read back as the same number. */
static int shortest(double f, char *digits, size_t size)
{
    for (int precision = 0; precision < 17; precision++) {
        snprintf(digits, size, "%.*e", precision, f);
        if (strtod(digits, NULL) == f)
            return precision;
    }
    return 16;
}

void value_repr_float(double f, struct buf *out)
{
    char text[40];
    int precision, exponent;

    if (isnan(f) || isinf(f)) {
        buf_add_str(out, isnan(f) ? "nan" : f < 0 ? "-inf" : "inf");
        return;
    }
    precision = shortest(f, text, sizeof(text));
    exponent = (int)strtol(strchr(text, 'e') + 1, NULL, 10);
    if (exponent < -4 || exponent >= 16) {
        buf_add_str(out, text); /* C's exponent has two digits at least, like Python's */
        return;
    }
    precision = precision > exponent ? precision - exponent : 0;
    buf_printf(out, "%.*f", precision, f);
    if (precision == 0)
        buf_add_str(out, ".0");
}

static void repr_char(uint32_t cp, char quote, const char *bytes, size_t len, struct buf *out)
{
    if (cp == (uint32_t)quote || cp == '\\')
        buf_printf(out, "\\%c", (char)cp);
    else if (cp == '\n')
        buf_add_str(out, "\\n");
    else if (cp == '\r')
        buf_add_str(out, "\\r");
    else if (cp == '\t')
        buf_add_str(out, "\\t");
    else if (unicode_is_printable(cp))
        buf_add(out, bytes, len);
    else if (cp < 0x100)
        buf_printf(out, "\\x%02x", cp);
    else if (cp < 0x10000)
        buf_printf(out, "\\u%04x", cp);
    else
        buf_printf(out, "\\U%08x", cp);
}

static void repr_string(struct value v, struct buf *out)
{
    const bool single = v.n > 0 && memchr(v.s, '\'', v.n) != NULL;
    const char quote = single && memchr(v.s, '"', v.n) == NULL ? '"' : '\'';
    size_t len;

    if ((v.flags & VALUE_SAFE) != 0)
        buf_add_str(out, "Markup(");
    buf_add_char(out, quote);
    for (size_t i = 0; i < v.n; i += len) {
        const uint32_t cp = unicode_at(v.s + i, v.n - i, &len);

        repr_char(cp, quote, v.s + i, len, out);
    }
    buf_add_char(out, quote);
    if ((v.flags & VALUE_SAFE) != 0)
        buf_add_char(out, ')');
}

struct nest { /* the containers around a value */
    const struct nest *up;
    const struct value_dict *namespace; /* or NULL: only a namespace can contain itself */
    int depth;
};

static int repr(struct value v, struct buf *out, const struct nest *up);

static int repr_list(struct value v, struct buf *out, const struct nest *in)
{
    const bool tuple = v.kind == VALUE_TUPLE;

    buf_add_char(out, tuple ? '(' : '[');
    for (uint32_t i = 0; i < v.list->n; i++) {
        if (i > 0)
            buf_add_str(out, ", ");
        if (repr(v.list->at[i], out, in) < 0)
            return out->err < 0 ? out->err : ERR_LIMIT;
    }
    if (tuple && v.list->n == 1)
        buf_add_char(out, ',');
    return buf_add_char(out, tuple ? ')' : ']');
}

static int repr_dict(const struct value_dict *d, struct buf *out, const struct nest *in)
{
    buf_add_char(out, '{');
    for (uint32_t i = 0; i < d->n; i++) {
        if (i > 0)
            buf_add_str(out, ", ");
        if (repr(d->at[i].key, out, in) < 0)
            return ERR_LIMIT;
        buf_add_str(out, ": ");
        if (repr(d->at[i].value, out, in) < 0)
            return ERR_LIMIT;
    }
    return buf_add_char(out, '}');
}

static int repr_view(struct value v, struct buf *out, const struct nest *in)
{
    static const char *const names[] = {"dict_keys([", "dict_values([", "dict_items(["};
    const struct value_dict *d = template_view_dict(v);
    const enum template_view what = template_view_kind(v);

    buf_add_str(out, names[what]);
    for (uint32_t i = 0; i < d->n; i++) {
        if (i > 0)
            buf_add_str(out, ", ");
        if (what == TEMPLATE_ITEMS)
            buf_add_char(out, '(');
        if (what != TEMPLATE_VALUES && repr(d->at[i].key, out, in) < 0)
            return ERR_LIMIT;
        if (what == TEMPLATE_ITEMS)
            buf_add_str(out, ", ");
        if (what != TEMPLATE_KEYS && repr(d->at[i].value, out, in) < 0)
            return ERR_LIMIT;
        if (what == TEMPLATE_ITEMS)
            buf_add_char(out, ')');
    }
    return buf_add_str(out, "])");
}

static int repr_namespace(struct value v, struct buf *out, const struct nest *in)
{
    for (const struct nest *up = in->up; up != NULL; up = up->up)
        if (up->namespace == v.dict)
            return buf_add_str(out, "<Namespace {...}>");
    buf_add_str(out, "<Namespace ");
    if (repr_dict(v.dict, out, in) < 0)
        return ERR_LIMIT;
    return buf_add_char(out, '>');
}

static int repr(struct value v, struct buf *out, const struct nest *up)
{
    const struct nest nest = {.up = up, .depth = up != NULL ? up->depth + 1 : 0,
                              .namespace = v.kind == VALUE_NAMESPACE ? v.dict : NULL};
    const struct nest *in = &nest;

    if (nest.depth > VALUE_MAX_DEPTH)
        return ERR_LIMIT;
    switch ((enum value_kind)v.kind) {
    case VALUE_UNDEFINED:
        return buf_add_str(out, "Undefined");
    case VALUE_NULL:
        return buf_add_str(out, "None");
    case VALUE_BOOL:
        return buf_add_str(out, v.i != 0 ? "True" : "False");
    case VALUE_INT:
        return buf_printf(out, "%" PRId64, v.i);
    case VALUE_FLOAT:
        value_repr_float(v.f, out);
        break;
    case VALUE_BIG:
        return buf_add(out, v.s, v.n);
    case VALUE_STRING:
        repr_string(v, out);
        break;
    case VALUE_LIST:
    case VALUE_TUPLE:
        return repr_list(v, out, in);
    case VALUE_DICT:
        return repr_dict(v.dict, out, in);
    case VALUE_NAMESPACE:
        return repr_namespace(v, out, in);
    case VALUE_VIEW:
        return repr_view(v, out, in);
    default:
        return template_repr_object(v, out);
    }
    return out->err;
}

int value_repr(struct value v, struct buf *out)
{
    return repr(v, out, NULL);
}

int value_str(struct value v, struct buf *out)
{
    if (v.kind == VALUE_STRING)
        return buf_add(out, v.s, v.n);
    if (v.kind == VALUE_UNDEFINED)
        return out->err;
    return repr(v, out, NULL);
}
