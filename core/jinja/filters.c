/* core/jinja/filters.c - the table of filters, and the filters of single values.
 *
 * Macros of filters.h list every filter with its parameters, once for declarations and once for
 * this table, which is searched in order when a template is parsed; a node then points to its
 * filter. A filter gets its input and its bound arguments and returns a new value; it never changes
 * the input.
 */
#include "core/jinja/filters.h"

#include "core/base/err.h"
#include "core/base/unicode.h"

#include <math.h>
#include <string.h>

#define BOUND(name, params, n) {#name, filter_##name, params, n, NULL},
#define RAW(name) {#name, NULL, NULL, 0, filter_##name},

static const struct template_builtin filters[] = {
    TEXT_FILTERS(BOUND) LIST_FILTERS(BOUND) RAW_FILTERS(RAW)
    {"count", filter_length, "", 0, NULL},
    {"d", filter_default, "default_value boolean", 0, NULL},
    {"e", filter_escape, "", 0, NULL},
};

const struct template_builtin *template_filter(struct value name)
{
    for (size_t i = 0; i < sizeof(filters) / sizeof(filters[0]); i++)
        if (value_is_text(name, filters[i].name))
            return &filters[i];
    return NULL;
}

static bool given(struct value v)
{
    return v.kind != VALUE_MISSING && v.kind != VALUE_NULL;
}

/* --- paths --- */

static bool is_number_text(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (s[i] < '0' || s[i] > '9')
            return false;
    return n > 0 && n < 18;
}

static struct value part_key(const char *s, size_t n)
{
    int64_t i = 0;

    if (!is_number_text(s, n))
        return value_borrow(s, n);
    for (size_t k = 0; k < n; k++)
        i = 10 * i + (s[k] - '0');
    return value_int(i);
}

static struct value member(struct render *r, struct value v, struct value key,
                           struct value otherwise)
{
    v = template_getitem(r, v, key);
    return v.kind == VALUE_UNDEFINED && given(otherwise) && r->rc == 0 ? otherwise : v;
}

struct value filter_member(struct render *r, struct value v, struct value path,
                           struct value otherwise)
{
    size_t from = 0;

    if (path.kind == VALUE_MISSING || path.kind == VALUE_NULL)
        return v;
    if (path.kind != VALUE_STRING)
        return member(r, v, path, otherwise);
    for (size_t i = 0; i <= path.n && r->rc == 0; i++) {
        if (i < path.n && path.s[i] != '.')
            continue;
        v = member(r, v, part_key(path.s + from, i - from), otherwise);
        from = i + 1;
    }
    return v;
}

struct value filter_fold(struct render *r, struct value v)
{
    return v.kind == VALUE_STRING ? filter_case(r, v, UNICODE_LOWER) : v;
}

/* --- single values --- */

struct value filter_abs(struct render *r, struct value v, const struct value *a)
{
    (void)a;
    if (v.kind == VALUE_UNDEFINED || !value_is_number(v))
        return template_fail(r, "bad operand type for abs(): '%s'", value_type_name(v));
    if (v.kind == VALUE_FLOAT)
        return value_float(fabs(v.f));
    if (v.kind == VALUE_BIG)
        return v.s[0] == '-' ? template_unary(r, TOKEN_SUB, v) : v;
    return v.i < 0 ? template_unary(r, TOKEN_SUB, v) : value_int(v.i);
}

/* Looks for members only, not for items. */
struct value filter_attr(struct render *r, struct value v, const struct value *a)
{
    struct value got;

    if (v.kind == VALUE_UNDEFINED)
        return template_fail_undefined(r, v);
    if (a[0].kind != VALUE_STRING)
        return template_fail(r, "attr() needs a name");
    if (v.kind == VALUE_DICT) { /* items do not hide members here */
        struct value empty = value_dict(r->pool);

        if (!template_step(r, 0))
            return value_null();
        got = template_getattr(r, empty, a[0]);
        return got.kind == VALUE_METHOD ? template_getattr(r, v, a[0]) : got;
    }
    return template_getattr(r, v, a[0]);
}

struct value filter_default(struct render *r, struct value v, const struct value *a)
{
    (void)r;
    if (v.kind != VALUE_UNDEFINED && !(value_truth(a[1]) && !value_truth(v)))
        return v;
    return a[0].kind == VALUE_MISSING ? value_text("") : a[0];
}

struct value filter_float(struct render *r, struct value v, const struct value *a)
{
    bool ok;
    const struct value f = template_to_float(r, v, &ok);

    if (ok)
        return f;
    return a[0].kind == VALUE_MISSING ? value_float(0) : a[0];
}

struct value filter_int(struct render *r, struct value v, const struct value *a)
{
    struct value i, f;
    int64_t base = 10;
    bool ok;

    if (a[1].kind != VALUE_MISSING && v.kind == VALUE_STRING && !template_index(r, a[1], &base))
        return value_null();
    i = template_to_int(r, v, base, &ok);
    if (ok || r->rc < 0)
        return i;
    f = template_to_float(r, v, &ok);
    ok = ok && !isinf(f.f); /* jinja before 3.1.5 fails for "inf" */
    if (ok)
        i = template_to_int(r, f, 10, &ok);
    if (ok)
        return i;
    return a[0].kind == VALUE_MISSING ? value_int(0) : a[0];
}

static struct value round_towards(struct render *r, struct value v, int64_t digits, bool up)
{
    const struct value unit =
        template_binary(r, TOKEN_POW, value_int(10), value_int(digits));
    struct value scaled = r->rc == 0 ? template_binary(r, TOKEN_MUL, v, unit) : unit;

    if (r->rc < 0)
        return unit;
    if (scaled.kind == VALUE_FLOAT) {
        bool ok;

        scaled = value_float(up ? ceil(scaled.f) : floor(scaled.f));
        if (isnan(scaled.f))
            return template_fail(r, "cannot convert float NaN to integer");
        scaled = template_to_int(r, scaled, 10, &ok);
    }
    return r->rc == 0 ? template_binary(r, TOKEN_DIV, scaled, unit) : unit;
}

struct value filter_round(struct render *r, struct value v, const struct value *a)
{
    const struct value method = a[1].kind == VALUE_MISSING ? value_text("common") : a[1];
    int64_t digits = 0;

    if (!value_is_text(method, "common") && !value_is_text(method, "ceil") &&
        !value_is_text(method, "floor"))
        return template_fail(r, "method must be common, ceil or floor");
    if (v.kind == VALUE_UNDEFINED)
        return value_is_text(method, "common")
                   ? template_fail(r, "type Undefined doesn't define __round__ method")
                   : template_fail_undefined(r, v);
    if (value_is_text(method, "common") && a[0].kind == VALUE_NULL && value_is_number(v))
        return template_to_int(r, template_round(r, v, 0), 10, &(bool){true});
    if (a[0].kind != VALUE_MISSING && !template_index(r, a[0], &digits))
        return value_null();
    if (!value_is_number(v))
        return template_fail(r, "type %s doesn't define __round__ method", value_type_name(v));
    if (value_is_text(method, "common"))
        return template_round(r, v, digits);
    return round_towards(r, v, digits, value_is_text(method, "ceil"));
}

struct value filter_length(struct render *r, struct value v, const struct value *a)
{
    (void)a;
    return value_int(template_length(r, v));
}

struct value filter_pprint(struct render *r, struct value v, const struct value *a)
{
    struct buf b;

    (void)a;
    template_text(r, &b);
    if (value_repr(v, &b) == ERR_LIMIT && b.err == 0)
        template_limit(r, "a value is nested too deep to be printed");
    if (b.len > 79 && (v.kind == VALUE_LIST || v.kind == VALUE_TUPLE || v.kind == VALUE_DICT ||
                       v.kind == VALUE_STRING))
        template_fail(r, "pprint of more than one line is not supported");
    return template_take(r, &b);
}

struct value filter_random(struct render *r, struct value v, const struct args *args)
{
    (void)v;
    (void)args;
    return template_fail(r, "the filter 'random' is not supported");
}

struct value filter_urlize(struct render *r, struct value v, const struct args *args)
{
    (void)v;
    (void)args;
    return template_fail(r, "the filter 'urlize' is not supported");
}

struct value filter_format(struct render *r, struct value v, const struct args *args)
{
    const struct value format = template_str(r, v), tuple = value_tuple(r->pool);

    if (args->n > 0 && args->n_kw > 0)
        return template_fail(r, "can't handle positional and keyword arguments at the same time");
    for (uint32_t i = 0; i < args->n; i++)
        value_list_add(r->pool, tuple, args->at[i]);
    if (!template_step(r, 1))
        return value_null();
    return template_percent(r, format, tuple, args->n_kw > 0 ? args : NULL);
}

static struct value or_null(struct value v)
{
    return v.kind == VALUE_MISSING ? value_null() : v;
}

struct value filter_tojson(struct render *r, struct value v, const struct value *a)
{
    struct value_json how = {.item_separator = value_text(", "), .key_separator = value_text(": "),
                             .indent = or_null(a[1]), .ascii = value_truth(a[0]),
                             .sort_keys = value_truth(a[3])};
    struct value culprit = value_null();
    struct buf b;
    int64_t n;
    int rc;

    if (how.indent.kind != VALUE_NULL)
        how.item_separator = value_text(",");
    if (how.indent.kind != VALUE_NULL && how.indent.kind != VALUE_STRING) {
        if (!template_index(r, how.indent, &n))
            return value_null();
        how.indent = template_binary(r, TOKEN_MUL, value_text(" "), value_int(n));
    }
    if (given(a[2])) {
        const struct value list = template_listed(r, a[2]);

        if (r->rc < 0 || list.list->n != 2 || list.list->at[0].kind != VALUE_STRING ||
            list.list->at[1].kind != VALUE_STRING)
            return template_fail(r, "separators must be two strings");
        how.item_separator = list.list->at[0];
        how.key_separator = list.list->at[1];
    }
    if (v.kind == VALUE_GENERATOR)
        v = template_listed(r, v);
    template_text(r, &b);
    rc = r->rc == 0 ? value_to_json(v, &how, &b, &culprit) : 0;
    if (rc == ERR_INVAL)
        template_fail(r, "Object of type %s is not JSON serializable", value_type_name(culprit));
    else if (rc == ERR_LIMIT && b.err == 0)
        template_limit(r, "a value is nested too deep for JSON");
    return template_take(r, &b);
}
