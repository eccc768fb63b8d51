/* core/jinja/value_json.c - Python's json.dumps(); see value.h.
 *
 * A recursive writer into the caller's buffer, with Python's separators, escapes and form of
 * floats. Sorted keys are merge-sorted in an array of pointers, which is stable and can fail where
 * keys have no order. Runs of text without an escape are copied at once.
 */
#include "core/jinja/value.h"

#include "core/base/buf.h"
#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/base/unicode.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

struct writer {
    const struct value_json *how;
    struct buf *out;
    struct value *culprit;
};

static void put_escape(struct buf *out, uint32_t cp)
{
    static const char letters[] = "\b\t\n\f\r\"\\";
    static const char names[] = "btnfr\"\\";
    const char *at = cp > 0 && cp < 0x80 ? strchr(letters, (int)cp) : NULL;

    if (at != NULL)
        buf_printf(out, "\\%c", names[at - letters]);
    else if (cp < 0x10000)
        buf_printf(out, "\\u%04x", cp);
    else
        buf_printf(out, "\\u%04x\\u%04x", 0xD800 + ((cp - 0x10000) >> 10),
                   0xDC00 + ((cp - 0x10000) & 0x3FF));
}

static void put_string(const struct writer *w, struct value v)
{
    size_t from = 0, len;

    buf_add_char(w->out, '"');
    for (size_t i = 0; i < v.n; i += len) {
        const uint32_t cp = unicode_at(v.s + i, v.n - i, &len);

        if (cp >= 0x20 && cp != '"' && cp != '\\' && (!w->how->ascii || cp < 0x7F))
            continue;
        buf_add(w->out, v.s + from, i - from);
        put_escape(w->out, cp);
        from = i + len;
    }
    buf_add(w->out, v.s + from, v.n - from);
    buf_add_char(w->out, '"');
}

static void put_float(struct buf *out, double f)
{
    if (isnan(f) || isinf(f))
        buf_add_str(out, isnan(f) ? "NaN" : f < 0 ? "-Infinity" : "Infinity");
    else
        value_repr_float(f, out);
}

/* Put a value that contains no others. 0, or ERR_INVAL: it has no JSON. */
static int put_scalar(const struct writer *w, struct value v)
{
    switch ((enum value_kind)v.kind) {
    case VALUE_NULL:
        return buf_add_str(w->out, "null");
    case VALUE_BOOL:
        return buf_add_str(w->out, v.i != 0 ? "true" : "false");
    case VALUE_INT:
        return buf_printf(w->out, "%" PRId64, v.i);
    case VALUE_FLOAT:
        put_float(w->out, v.f);
        break;
    case VALUE_BIG:
        return buf_add(w->out, v.s, v.n);
    case VALUE_STRING:
        put_string(w, v);
        break;
    default:
        *w->culprit = v;
        return ERR_INVAL;
    }
    return w->out->err;
}

static int put_key(const struct writer *w, struct value key)
{
    const bool quoted = key.kind != VALUE_STRING;
    int rc;

    if (quoted)
        buf_add_char(w->out, '"');
    rc = put_scalar(w, key);
    if (quoted)
        buf_add_char(w->out, '"');
    return rc;
}

static void put_line(const struct writer *w, int depth)
{
    if (w->how->indent.kind != VALUE_STRING)
        return;
    buf_add_char(w->out, '\n');
    for (int i = 0; i < depth; i++)
        buf_add(w->out, w->how->indent.s, w->how->indent.n);
}

static void write_json_text(const struct writer *w, struct value text)
{
    buf_add(w->out, text.s, text.n);
}

static int write_value(const struct writer *w, struct value v, int depth);

static int put_list(const struct writer *w, const struct value_list *list, int depth)
{
    if (list->n == 0)
        return buf_add_str(w->out, "[]");
    buf_add_char(w->out, '[');
    for (uint32_t i = 0; i < list->n; i++) {
        int rc;

        if (i > 0)
            write_json_text(w, w->how->item_separator);
        put_line(w, depth + 1);
        rc = write_value(w, list->at[i], depth + 1);
        if (rc < 0)
            return rc;
    }
    put_line(w, depth);
    return buf_add_char(w->out, ']');
}

static int put_pair(const struct writer *w, const struct value_pair *pair, bool first, int depth)
{
    int rc;

    if (!first)
        write_json_text(w, w->how->item_separator);
    put_line(w, depth + 1);
    rc = put_key(w, pair->key);
    if (rc < 0)
        return rc;
    write_json_text(w, w->how->key_separator);
    return write_value(w, pair->value, depth + 1);
}

/* Merge two sorted runs of `from` into `to`. ERR_INVAL where keys have no order. */
static int merge_keys(const struct value_pair **from, const struct value_pair **to, size_t lo,
                      size_t mid, size_t hi)
{
    size_t a = lo, b = mid;

    for (size_t i = lo; i < hi; i++) {
        uint64_t budget = VALUE_MAX_KEY;
        const int right = a < mid && b < hi
                              ? value_less(from[b]->key, from[a]->key, false, &budget)
                              : a >= mid;

        if (right < 0)
            return right;
        to[i] = right != 0 ? from[b++] : from[a++];
    }
    return 0;
}

static int sort_pairs(const struct value_pair **at, const struct value_pair **room, size_t n)
{
    for (size_t run = 1; run < n; run *= 2) {
        for (size_t lo = 0; lo < n; lo += 2 * run) {
            const size_t mid = lo + run < n ? lo + run : n;
            const size_t hi = lo + 2 * run < n ? lo + 2 * run : n;
            const int rc = merge_keys(at, room, lo, mid, hi);

            if (rc < 0)
                return rc;
        }
        memcpy(at, room, n * sizeof(*at));
    }
    return 0;
}

static int put_sorted(const struct writer *w, const struct value_dict *d, int depth)
{
    const struct value_pair **at = mem_calloc(2 * (size_t)d->n, sizeof(*at));
    int rc = at == NULL ? ERR_NOMEM : 0;

    for (uint32_t i = 0; rc == 0 && i < d->n; i++)
        at[i] = &d->at[i];
    if (rc == 0)
        rc = sort_pairs(at, at + d->n, d->n);
    if (rc == ERR_INVAL)
        *w->culprit = d->at[0].key;
    for (uint32_t i = 0; rc == 0 && i < d->n; i++)
        rc = put_pair(w, at[i], i == 0, depth);
    mem_free(at);
    return rc;
}

static int put_dict(const struct writer *w, const struct value_dict *d, int depth)
{
    int rc = 0;

    if (d->n == 0)
        return buf_add_str(w->out, "{}");
    buf_add_char(w->out, '{');
    if (w->how->sort_keys)
        rc = put_sorted(w, d, depth);
    for (uint32_t i = 0; !w->how->sort_keys && rc == 0 && i < d->n; i++)
        rc = put_pair(w, &d->at[i], i == 0, depth);
    if (rc < 0)
        return rc;
    put_line(w, depth);
    return buf_add_char(w->out, '}');
}

static int write_value(const struct writer *w, struct value v, int depth)
{
    if (depth > VALUE_MAX_DEPTH)
        return ERR_LIMIT;
    if (v.kind == VALUE_LIST || v.kind == VALUE_TUPLE)
        return put_list(w, v.list, depth);
    if (v.kind == VALUE_DICT)
        return put_dict(w, v.dict, depth);
    return put_scalar(w, v);
}

int value_to_json(struct value v, const struct value_json *how, struct buf *out,
                  struct value *culprit)
{
    const struct writer w = {.how = how, .out = out, .culprit = culprit};

    return write_value(&w, v, 0);
}
