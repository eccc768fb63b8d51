/* core/jinja/attr.c - members, items, slices and lengths of values; undefined values.
 *
 * x.name and x[key] try the same two things, member and item, in opposite order, as jinja2 does. A
 * lookup that finds nothing is not an error: it gives an undefined value that carries the name it
 * lacks in its own fields, without allocation, so that the sentence can be made only when a
 * template uses the value in a way that fails.
 */
#include "core/jinja/template_impl.h"

#include "core/base/err.h"
#include "core/base/unicode.h"

#include <stdio.h>
#include <string.h>

/* The meaning of `s` in an undefined value; from UNDEFINED_MEMBER on the kind of the value that
 * lacks the member is added. */
enum { UNDEFINED_HINT = 0, UNDEFINED_NAME, UNDEFINED_MEMBER };

static struct value undefined(uint8_t what, struct value name)
{
    return (struct value){.kind = VALUE_UNDEFINED, .flags = what, .n = name.n, .s = name.s};
}

struct value template_undefined_name(struct value name)
{
    return undefined(UNDEFINED_NAME, name);
}

struct value template_undefined_hint(const char *hint)
{
    return undefined(UNDEFINED_HINT, value_text(hint));
}

static const char *object_name(struct value v)
{
    switch ((enum value_kind)v.kind) {
    case VALUE_NULL:
        return "None";
    case VALUE_NAMESPACE:
        return "jinja2.utils.Namespace object";
    case VALUE_LOOP:
        return "jinja2.runtime.LoopContext object";
    case VALUE_MACRO:
        return "jinja2.runtime.Macro object";
    case VALUE_BOOL:
        return "bool object";
    case VALUE_INT:
    case VALUE_BIG:
        return "int object";
    case VALUE_FLOAT:
        return "float object";
    case VALUE_STRING:
        return "str object";
    case VALUE_LIST:
        return "list object";
    case VALUE_TUPLE:
        return "tuple object";
    case VALUE_DICT:
        return "dict object";
    default:
        return "object";
    }
}

/* Return the undefined value for a member or element that is missing. */
static struct value lacking(struct render *r, struct value v, struct value name)
{
    struct value text;
    struct buf b;

    if (name.kind == VALUE_STRING)
        return undefined((uint8_t)(UNDEFINED_MEMBER + v.kind), name);
    template_text(r, &b);
    buf_printf(&b, "%s has no element ", object_name(v));
    if (value_repr(name, &b) == ERR_LIMIT && b.err == 0)
        buf_add_str(&b, "?");
    text = template_take(r, &b);
    return undefined(UNDEFINED_HINT, text);
}

struct value template_fail_undefined(struct render *r, struct value v)
{
    const struct value of = {.kind = (uint8_t)(v.flags - UNDEFINED_MEMBER)};

    if (v.flags == UNDEFINED_HINT)
        return template_fail(r, "%.*s", (int)v.n, v.s);
    if (v.flags == UNDEFINED_NAME)
        return template_fail(r, "'%.*s' is undefined", (int)v.n, v.s);
    return template_fail(r, "'%s' has no attribute '%.*s'", object_name(of), (int)v.n, v.s);
}

static struct value number_attr(struct value v, struct value name, bool *found)
{
    const bool is_float = v.kind == VALUE_FLOAT;

    *found = true;
    if (value_is_text(name, "real"))
        return value_is_int(v) ? value_int(v.i) : v;
    if (value_is_text(name, "imag"))
        return is_float ? value_float(0) : value_int(0);
    if (!is_float && value_is_text(name, "numerator"))
        return value_is_int(v) ? value_int(v.i) : v;
    if (!is_float && value_is_text(name, "denominator"))
        return value_int(1);
    *found = false;
    return v;
}

static struct value range_attr(struct value v, struct value name, bool *found)
{
    int64_t start, stop, step;

    template_range_bounds(v, &start, &stop, &step);
    *found = true;
    if (value_is_text(name, "start"))
        return value_int(start);
    if (value_is_text(name, "stop"))
        return value_int(stop);
    if (value_is_text(name, "step"))
        return value_int(step);
    *found = false;
    return v;
}

/* Python's getattr() for members that are not methods. */
static struct value data_attr(struct render *r, struct value v, struct value name, bool *found)
{
    const struct value *member;

    *found = false;
    switch ((enum value_kind)v.kind) {
    case VALUE_NAMESPACE:
        member = value_dict_find(v, name);
        *found = member != NULL;
        return member != NULL ? *member : v;
    case VALUE_LOOP:
        return template_loop_attr(r, v, name, found);
    case VALUE_CYCLER:
        return template_cycler_attr(r, v, name, found);
    case VALUE_BOOL:
    case VALUE_INT:
    case VALUE_FLOAT:
    case VALUE_BIG:
        return number_attr(v, name, found);
    case VALUE_RANGE:
        return range_attr(v, name, found);
    case VALUE_MACRO:
        *found = value_is_text(name, "name");
        return template_macro_name(v);
    case VALUE_TUPLE: /* tuples of groupby have names */
        if ((v.flags & TEMPLATE_GROUP) != 0) {
            *found = value_is_text(name, "grouper") || value_is_text(name, "list");
            return v.list->at[value_is_text(name, "list") ? 1 : 0];
        }
        return v;
    default:
        return v;
    }
}

/* Like Python's getattr(). *found is also true for a member that exists but may not be used: the
 * result is undefined. */
static struct value attr(struct render *r, struct value v, struct value name, bool *found)
{
    const struct value got = data_attr(r, v, name, found);
    const struct template_builtin *method;

    if (*found || v.kind == VALUE_NAMESPACE)
        return got;
    method = template_method(v, name, found);
    if (method != NULL)
        return template_new_method(r, v, method);
    return lacking(r, v, name);
}

static struct value list_item(const struct value_list *list, int64_t i, bool *found)
{
    if (i < 0)
        i += list->n;
    *found = i >= 0 && i < list->n;
    return *found ? list->at[i] : value_null();
}

static struct value text_item(struct render *r, struct value s, int64_t i, bool *found)
{
    size_t at, len;

    template_step(r, s.n / 64);
    if (i < 0)
        i += (int64_t)unicode_count(s.s, s.n);
    at = i >= 0 ? unicode_offset(s.s, s.n, (size_t)i) : s.n;
    *found = at < s.n;
    if (!*found)
        return value_null();
    unicode_at(s.s + at, s.n - at, &len);
    return template_piece(s, at, at + len);
}

static struct value range_item(struct value v, int64_t i, bool *found)
{
    const int64_t n = template_range_length(v);

    if (i < 0)
        i += n;
    *found = i >= 0 && i < n;
    return *found ? value_int(template_range_at(v, i)) : value_null();
}

/* Return v[key]; *found is false if there is no such item, or no items at all. */
static struct value item(struct render *r, struct value v, struct value key, bool *found)
{
    const struct value *member;

    *found = false;
    if (v.kind == VALUE_DICT) {
        template_step(r, key.kind == VALUE_STRING ? key.n / 256 : 0); /* the key is hashed */
        member = value_dict_find(v, key);
        *found = member != NULL;
        return member != NULL ? *member : v;
    }
    if (!value_is_int(key))
        return v;
    if (v.kind == VALUE_LIST || v.kind == VALUE_TUPLE)
        return list_item(v.list, value_as_int(key), found);
    if (v.kind == VALUE_STRING)
        return text_item(r, v, value_as_int(key), found);
    if (v.kind == VALUE_RANGE)
        return range_item(v, value_as_int(key), found);
    return v;
}

/* Return x.name: a member, else an item of that name. */
struct value template_getattr(struct render *r, struct value v, struct value name)
{
    bool found, there;
    struct value got, other;

    if (v.kind == VALUE_UNDEFINED) /* names like __this__ are not there */
        return name.n >= 2 && memcmp(name.s, "__", 2) == 0 ? lacking(r, v, name)
                                                           : template_fail_undefined(r, v);
    got = attr(r, v, name, &found);
    if (found)
        return got;
    other = item(r, v, name, &there);
    return there ? other : lacking(r, v, name);
}

/* Return x[key]: an item, else a member of that name. */
struct value template_getitem(struct render *r, struct value v, struct value key)
{
    bool found;
    struct value got;

    if (v.kind == VALUE_UNDEFINED)
        return template_fail_undefined(r, v);
    got = item(r, v, key, &found);
    if (!found && key.kind == VALUE_STRING)
        got = attr(r, v, key, &found);
    return found ? got : lacking(r, v, key);
}

bool template_index(struct render *r, struct value v, int64_t *i)
{
    *i = 0;
    if (v.kind == VALUE_UNDEFINED)
        template_fail_undefined(r, v);
    else if (v.kind == VALUE_BIG)
        template_fail_big(r);
    else if (!value_is_int(v))
        template_fail(r, "'%s' object cannot be interpreted as an integer", value_type_name(v));
    else
        *i = value_as_int(v);
    return r->rc == 0;
}

struct bounds { /* a slice as `n` items from `start` */
    int64_t start, stop, step, n;
};

static int64_t clip(int64_t i, int64_t n, int64_t low, int64_t high)
{
    if (i < 0)
        i = i < -n ? low : i + n;
    return i < low ? low : i > high ? high : i;
}

static bool slice_bounds(struct render *r, int64_t n, struct value start, struct value stop,
                         struct value step, struct bounds *b)
{
    int64_t from, to, by = 1;

    if (step.kind != VALUE_NULL && !template_index(r, step, &by))
        return false;
    if (by == 0) {
        template_fail(r, "slice step cannot be zero");
        return false;
    }
    if (by < -n - 1) /* a step over everything gives the same and cannot overflow */
        by = -n - 1;
    from = by > 0 ? 0 : n - 1;
    to = by > 0 ? n : -1;
    if (start.kind != VALUE_NULL) {
        if (!template_index(r, start, &from))
            return false;
        from = by > 0 ? clip(from, n, 0, n) : clip(from, n, -1, n - 1);
    }
    if (stop.kind != VALUE_NULL) {
        if (!template_index(r, stop, &to))
            return false;
        to = by > 0 ? clip(to, n, 0, n) : clip(to, n, -1, n - 1);
    }
    b->start = from;
    b->stop = to;
    b->step = by;
    b->n = by > 0 ? (to > from ? (to - from - 1) / by + 1 : 0)
                  : (from > to ? (from - to - 1) / -by + 1 : 0);
    return true;
}

static struct value slice_list(struct render *r, struct value v, const struct bounds *b)
{
    const struct value out = v.kind == VALUE_TUPLE ? value_tuple(r->pool) : value_list(r->pool);

    template_step(r, (uint64_t)b->n);
    for (int64_t i = 0; i < b->n && r->rc == 0; i++)
        value_list_add(r->pool, out, v.list->at[b->start + i * b->step]);
    return out;
}

/* Offsets of characters are only listed when the step is not one. */
static struct value slice_text(struct render *r, struct value v, const struct bounds *b, int64_t n)
{
    size_t from, to, len, k = 0;
    struct value out;
    uint32_t *at;
    struct buf text;

    if (b->n == 0)
        return template_piece(v, 0, 0);
    if (b->step == 1) {
        from = unicode_offset(v.s, v.n, (size_t)b->start);
        to = from + unicode_offset(v.s + from, v.n - from, (size_t)b->n);
        return template_piece(v, from, to);
    }
    at = value_pool_alloc(r->pool, (size_t)n * sizeof(*at));
    if (!template_step(r, (uint64_t)n / 8))
        return value_null();
    for (size_t i = 0; i < v.n; i += len) {
        unicode_at(v.s + i, v.n - i, &len);
        at[k++] = (uint32_t)i;
    }
    template_text(r, &text);
    for (int64_t i = 0; i < b->n; i++) {
        from = at[b->start + i * b->step];
        unicode_at(v.s + from, v.n - from, &len);
        buf_add(&text, v.s + from, len);
    }
    out = template_take(r, &text);
    out.flags = template_flags_of(v);
    return out;
}

struct value template_slice(struct render *r, struct value v, struct value start, struct value stop,
                            struct value step)
{
    struct bounds b;
    int64_t n, from, to, by;

    if (v.kind == VALUE_UNDEFINED)
        return template_fail_undefined(r, v);
    if (v.kind != VALUE_LIST && v.kind != VALUE_TUPLE && v.kind != VALUE_STRING &&
        v.kind != VALUE_RANGE)
        return template_fail(r, v.kind == VALUE_DICT ? "unhashable type: 'slice'"
                                                     : "'%s' object is not subscriptable",
                             value_type_name(v));
    n = template_length(r, v);
    if (!slice_bounds(r, n, start, stop, step, &b))
        return value_null();
    if (v.kind == VALUE_STRING)
        return slice_text(r, v, &b, n);
    if (v.kind != VALUE_RANGE)
        return slice_list(r, v, &b);
    template_range_bounds(v, &from, &to, &by);
    return template_new_range(r, from + b.start * by, from + b.stop * by,
                              b.step * by);
}

int64_t template_length(struct render *r, struct value v)
{
    bool found;

    switch ((enum value_kind)v.kind) {
    case VALUE_UNDEFINED:
        return 0;
    case VALUE_STRING:
        template_step(r, v.n / 64);
        return (int64_t)unicode_count(v.s, v.n);
    case VALUE_LIST:
    case VALUE_TUPLE:
        return v.list->n;
    case VALUE_DICT:
        return v.dict->n;
    case VALUE_VIEW:
        return template_view_dict(v)->n;
    case VALUE_RANGE:
        return template_range_length(v);
    case VALUE_LOOP:
        return template_loop_attr(r, v, value_text("length"), &found).i;
    default:
        template_fail(r, "object of type '%s' has no len()", value_type_name(v));
        return 0;
    }
}
