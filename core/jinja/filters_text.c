/* core/jinja/filters_text.c - the filters of text.
 *
 * Text is assembled by struct text (template_impl.h) where pieces of the input are kept, so that
 * each byte keeps its origin, and by a plain buffer where all of it changes. Positions are in
 * characters, as in Python, and turned into bytes by a walk. Each filter spends steps for the
 * characters it looks at.
 */
#include "core/jinja/filters.h"

#include "core/base/err.h"
#include "core/base/unicode.h"

#include <math.h>
#include <string.h>

struct value filter_case(struct render *r, struct value v, int to)
{
    struct value out;
    struct buf b;

    template_text(r, &b);
    if (template_step(r, v.n / SCANNED_PER_STEP))
        unicode_change_case(v.s, v.n, (enum unicode_case)to, &b);
    out = template_take(r, &b);
    out.flags = template_flags_of(v);
    return out;
}

struct value filter_upper(struct render *r, struct value v, const struct value *a)
{
    (void)a;
    return filter_case(r, template_str(r, v), UNICODE_UPPER);
}

struct value filter_lower(struct render *r, struct value v, const struct value *a)
{
    (void)a;
    return filter_case(r, template_str(r, v), UNICODE_LOWER);
}

struct value filter_capitalize(struct render *r, struct value v, const struct value *a)
{
    (void)a;
    return filter_case(r, template_str(r, v), UNICODE_CAPITAL);
}

static bool begins_word(uint32_t cp)
{
    return cp == '-' || cp == '(' || cp == '{' || cp == '[' || cp == '<' || unicode_is_space(cp);
}

/* Unlike str.title(): only blanks, dashes and opening brackets separate words. */
struct value filter_title(struct render *r, struct value v, const struct value *a)
{
    size_t from = 0, len;
    struct buf b;

    (void)a;
    v = template_str(r, v);
    template_text(r, &b);
    template_step(r, v.n / SCANNED_PER_STEP);
    while (from < v.n && r->rc == 0) {
        const bool apart = begins_word(unicode_at(v.s + from, v.n - from, &len));
        const size_t first = len;
        size_t to = from + len;

        while (to < v.n && begins_word(unicode_at(v.s + to, v.n - to, &len)) == apart)
            to += len;
        unicode_change_case(v.s + from, first, UNICODE_UPPER, &b);
        unicode_change_case(v.s + from + first, to - from - first, UNICODE_LOWER, &b);
        from = to;
    }
    return template_take(r, &b);
}

struct value filter_string(struct render *r, struct value v, const struct value *a)
{
    (void)a;
    return template_str(r, v);
}

static bool in_set(struct render *r, struct value chars, const char *s, size_t len)
{
    template_step(r, 1 + chars.n / 64);
    return len <= chars.n && memmem(chars.s, chars.n, s, len) != NULL;
}

struct value filter_strip(struct render *r, struct value v, struct value chars, bool left,
                          bool right)
{
    const bool blanks = chars.kind == VALUE_MISSING || chars.kind == VALUE_NULL;
    size_t from = 0, to = v.n, len;

    if (!blanks && chars.kind != VALUE_STRING)
        return template_fail(r, "strip arg must be None or str");
    template_step(r, v.n / 256);
    while (left && from < to && r->rc == 0) {
        const uint32_t cp = unicode_at(v.s + from, to - from, &len);

        if (blanks ? !unicode_is_space(cp) : !in_set(r, chars, v.s + from, len))
            break;
        from += len;
    }
    while (right && to > from && r->rc == 0) {
        const size_t last = unicode_last(v.s + from, to - from);
        const uint32_t cp = unicode_at(v.s + to - last, last, &len);

        if (blanks ? !unicode_is_space(cp) : !in_set(r, chars, v.s + to - last, last))
            break;
        to -= last;
    }
    return template_piece(v, from, to);
}

struct value filter_trim(struct render *r, struct value v, const struct value *a)
{
    return filter_strip(r, template_str(r, v), a[0], true, true);
}

/* Replace an empty `old`: it matches before every character and at the end. */
static void replace_empty(struct render *r, struct value s, struct value by, int64_t count,
                          struct text *text)
{
    size_t len;

    for (size_t i = 0; i <= s.n && text->buf.err == 0; i += len) {
        if (count != 0)
            template_text_add(r, text, by);
        count -= count > 0;
        if (i == s.n)
            break;
        unicode_at(s.s + i, s.n - i, &len);
        template_text_add(r, text, template_piece(s, i, i + len));
    }
}

struct value filter_replace_text(struct render *r, struct value s, struct value old,
                                 struct value by, int64_t count)
{
    size_t from = 0;
    struct text text;

    if (!template_step(r, s.n / 64))
        return s;
    if (count == 0 || (old.n > 0 && (s.n == 0 || memmem(s.s, s.n, old.s, old.n) == NULL)))
        return s;
    template_text_begin(r, &text);
    if (old.n == 0) {
        replace_empty(r, s, by, count, &text);
        return template_text_end(r, &text);
    }
    while (count != 0) {
        const char *at = memmem(s.s + from, s.n - from, old.s, old.n);

        if (at == NULL)
            break;
        template_text_add(r, &text, template_piece(s, from, (size_t)(at - s.s)));
        template_text_add(r, &text, by);
        from = (size_t)(at - s.s) + old.n;
        count -= count > 0;
        if (text.buf.err < 0 || !template_step(r, 1))
            break;
    }
    template_text_add(r, &text, template_piece(s, from, s.n));
    return template_text_end(r, &text);
}

struct value filter_replace(struct render *r, struct value v, const struct value *a)
{
    int64_t count = -1;

    if (a[2].kind != VALUE_MISSING && a[2].kind != VALUE_NULL && !template_index(r, a[2], &count))
        return value_null();
    return filter_replace_text(r, template_plain(r, v), template_plain(r, a[0]),
                               template_plain(r, a[1]), count);
}

/* Put blanks, or `fill`, around s until it is `width` characters wide. left_share: 0 none on the
 * left, 1 as str.center() shares them, 2 all on the left. */
struct value filter_pad(struct render *r, struct value s, int64_t width, struct value fill,
                        int left_share)
{
    const int64_t n = (int64_t)unicode_count(s.s, s.n), all = width - n;
    const int64_t left = left_share == 0   ? 0
                         : left_share == 2 ? all
                                           : all / 2 + (all & width & 1);
    struct value out;
    struct buf b;

    if (fill.kind == VALUE_MISSING)
        fill = value_text(" ");
    if (fill.kind != VALUE_STRING || unicode_count(fill.s, fill.n) != 1)
        return template_fail(r, "the fill character must be exactly one character long");
    if (all <= 0)
        return s;
    if (!template_step(r, (uint64_t)all / 64))
        return s;
    template_text(r, &b);
    for (int64_t i = 0; i < left && b.err == 0; i++)
        buf_add(&b, fill.s, fill.n);
    buf_add(&b, s.s, s.n);
    for (int64_t i = left; i < all && b.err == 0; i++)
        buf_add(&b, fill.s, fill.n);
    out = template_take(r, &b);
    out.flags = s.flags & VALUE_SAFE; /* the fill may have another origin */
    return out;
}

struct value filter_center(struct render *r, struct value v, const struct value *a)
{
    int64_t width = 80;

    if (a[0].kind != VALUE_MISSING && !template_index(r, a[0], &width))
        return value_null();
    return filter_pad(r, template_str(r, v), width, (struct value){.kind = VALUE_MISSING}, 1);
}

struct value filter_split_lines(struct render *r, struct value s, bool keep_ends)
{
    const struct value lines = value_list(r->pool);
    size_t from = 0, len;

    template_step(r, s.n / SCANNED_PER_STEP);
    for (size_t i = 0; i < s.n && r->rc == 0;) {
        const uint32_t cp = unicode_at(s.s + i, s.n - i, &len);
        const size_t end = i;

        i += len;
        if (!unicode_is_line_end(cp))
            continue;
        if (cp == '\r' && i < s.n && s.s[i] == '\n')
            i++;
        value_list_add(r->pool, lines, template_piece(s, from, keep_ends ? i : end));
        from = i;
    }
    if (from < s.n)
        value_list_add(r->pool, lines, template_piece(s, from, s.n));
    return lines;
}

/* True: the value is a string, as most text filters require; else the render fails. */
static bool filter_is_text(struct render *r, struct value v)
{
    if (v.kind == VALUE_UNDEFINED)
        template_fail_undefined(r, v);
    else if (v.kind != VALUE_STRING)
        template_fail(r, "the filter needs a string, not '%s'", value_type_name(v));
    return r->rc == 0;
}

struct value filter_indent(struct render *r, struct value v, const struct value *a)
{
    struct value by = value_text("    "), lines;
    int64_t width = 4;
    struct text text;

    if (!filter_is_text(r, v))
        return value_null();
    if (a[0].kind == VALUE_STRING)
        by = a[0];
    else if (a[0].kind != VALUE_MISSING) {
        if (!template_index(r, a[0], &width))
            return value_null();
        by = template_binary(r, TOKEN_MUL, value_text(" "), value_int(width));
    }
    lines = filter_split_lines(r, value_concat(r->pool, v, value_text("\n")), false);
    if (!template_step(r, 0))
        return value_null();
    template_text_begin(r, &text);
    for (uint32_t i = 0; i < lines.list->n; i++) {
        const struct value line = lines.list->at[i];
        const bool blank = value_truth(a[2]);

        if (i > 0)
            template_text_add(r, &text, value_text("\n"));
        if (i == 0 ? value_truth(a[1]) : blank || line.n > 0)
            template_text_add(r, &text, by);
        template_text_add(r, &text, line);
    }
    lines = template_text_end(r, &text);
    lines.flags |= v.flags & VALUE_SAFE;
    return lines;
}

/* Return the text before its last blank, or all of it if it has none. */
static struct value without_last_word(struct value s)
{
    for (size_t i = s.n; i > 0; i--)
        if (s.s[i - 1] == ' ')
            return template_piece(s, 0, i - 1);
    return s;
}

struct value filter_truncate(struct render *r, struct value v, const struct value *a)
{
    struct value end = a[2].kind == VALUE_MISSING ? value_text("...") : a[2];
    int64_t length = 255, leeway = 5, n_end;

    if (a[0].kind != VALUE_MISSING && !template_index(r, a[0], &length))
        return value_null();
    if (a[3].kind != VALUE_MISSING && a[3].kind != VALUE_NULL && !template_index(r, a[3], &leeway))
        return value_null();
    n_end = template_length(r, end);
    if (length < n_end || leeway < 0)
        return template_fail(r, "truncate() needs a length of at least %lld and leeway >= 0",
                             (long long)n_end);
    if (template_length(r, v) - leeway <= length)
        return v;
    if (!filter_is_text(r, v))
        return value_null();
    v = template_piece(v, 0, unicode_offset(v.s, v.n, (size_t)(length - n_end)));
    if (!value_truth(a[1]))
        v = without_last_word(v);
    return template_binary(r, TOKEN_ADD, v, end);
}

struct value filter_wordcount(struct render *r, struct value v, const struct value *a)
{
    bool inside = false;
    int64_t n = 0;
    size_t len;

    (void)a;
    v = template_str(r, v);
    template_step(r, v.n / SCANNED_PER_STEP);
    for (size_t i = 0; i < v.n && r->rc == 0; i += len) {
        const uint32_t cp = unicode_at(v.s + i, v.n - i, &len);
        const bool word = cp == '_' || unicode_is_alnum(cp);

        n += word && !inside;
        inside = word;
    }
    return value_int(n);
}

struct value filter_wordwrap(struct render *r, struct value v, const struct value *a)
{
    const bool break_long = a[1].kind == VALUE_MISSING || value_truth(a[1]);
    const bool hyphens = a[3].kind == VALUE_MISSING || value_truth(a[3]);
    struct value newline = a[2].kind == VALUE_MISSING ? value_null() : a[2], lines;
    int64_t width = 79;
    struct buf b;

    if (newline.kind == VALUE_NULL)
        newline = value_text("\n");
    if (!filter_is_text(r, v) || !filter_is_text(r, newline))
        return value_null();
    lines = filter_split_lines(r, v, false);
    if (r->rc < 0 || lines.list->n == 0)
        return v;
    if (a[0].kind != VALUE_MISSING && !template_index(r, a[0], &width))
        return value_null();
    template_text(r, &b);
    for (uint32_t i = 0; r->rc == 0 && i < lines.list->n; i++) {
        if (i > 0)
            buf_add(&b, newline.s, newline.n);
        filter_wrap_line(r, lines.list->at[i], width, break_long, hyphens, newline, &b);
    }
    return template_take(r, &b);
}

struct value filter_filesizeformat(struct render *r, struct value v, const struct value *a)
{
    static const char units[] = "kMGTPEZY";
    const bool binary = value_truth(a[0]);
    const double base = binary ? 1024 : 1000;
    double bytes, unit;
    struct buf b;
    int i = 0;
    bool ok;

    v = template_to_float(r, v, &ok);
    if (!ok)
        return template_fail(r, "could not convert to float");
    bytes = v.f;
    template_text(r, &b);
    if (bytes == 1) {
        buf_add_str(&b, "1 Byte");
    } else if (bytes < base) {
        buf_printf(&b, "%.0f Bytes", trunc(bytes));
    } else {
        for (unit = base * base; i < 7 && bytes >= unit; i++)
            unit *= base;
        buf_printf(&b, "%.1f %c%sB", base * bytes / unit, binary && i == 0 ? 'K' : units[i],
                   binary ? "i" : "");
    }
    return template_take(r, &b);
}
