/* core/jinja/escape.c - HTML and URLs: escaping, and removing tags.
 *
 * The results follow Python's markupsafe and urllib. An escaped string has VALUE_SAFE, so that it
 * is not escaped a second time when it is printed or joined with other text.
 */
#include "core/jinja/filters.h"

#include "core/base/unicode.h"

#include <string.h>

/* Return the entity of a character in HTML, or NULL if it has none. */
static const char *entity(char c)
{
    switch (c) {
    case '&':
        return "&amp;";
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '"':
        return "&#34;";
    case '\'':
        return "&#39;";
    default:
        return NULL;
    }
}

struct value template_escaped(struct render *r, struct value v)
{
    struct text text;
    size_t from = 0;

    v = template_str(r, v);
    if ((v.flags & VALUE_SAFE) != 0)
        return v;
    template_text_begin(r, &text);
    for (size_t i = 0; i < v.n; i++) {
        const char *instead = entity(v.s[i]);

        if (instead == NULL)
            continue;
        template_text_add(r, &text, template_piece(v, from, i));
        template_text_add(r, &text, value_text(instead));
        from = i + 1;
    }
    template_text_add(r, &text, template_piece(v, from, v.n));
    v = template_text_end(r, &text);
    v.flags |= VALUE_SAFE;
    return v;
}

struct value filter_safe(struct render *r, struct value v, const struct value *a)
{
    (void)a;
    v = template_str(r, v);
    v.flags |= VALUE_SAFE;
    return v;
}

struct value filter_escape(struct render *r, struct value v, const struct value *a)
{
    (void)a;
    return template_escaped(r, v);
}

struct value filter_forceescape(struct render *r, struct value v, const struct value *a)
{
    (void)a;
    return template_escaped(r, template_plain(r, v));
}

/* Copy the text without comments and tags. */
static void skip_markup(struct value v, struct buf *out)
{
    for (uint32_t i = 0; i < v.n;) {
        const char *rest = v.s + i, *end = NULL;

        if (v.n - i >= 4 && memcmp(rest, "<!--", 4) == 0) {
            end = memmem(rest + 4, v.n - i - 4, "-->", 3);
            end = end != NULL ? end + 3 : NULL;
        } else if (*rest == '<') {
            end = memchr(rest, '>', v.n - i);
            end = end != NULL ? end + 1 : NULL;
        }
        if (end != NULL)
            i += (uint32_t)(end - rest);
        else
            buf_add_char(out, v.s[i++]);
    }
}

static uint32_t entity_at(const char *s, size_t n, size_t *len)
{
    static const struct {
        const char *text;
        char means;
    } known[] = {{"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&#34;", '"'},
                 {"&#39;", '\''}, {"&quot;", '"'}};

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        *len = strlen(known[i].text);
        if (*len <= n && memcmp(s, known[i].text, *len) == 0)
            return (uint32_t)known[i].means;
    }
    return unicode_at(s, n, len);
}

struct value filter_striptags(struct render *r, struct value v, const struct value *a)
{
    struct buf bare, out;
    bool blank = false;
    size_t len;

    (void)a;
    v = template_plain(r, v);
    template_text(r, &bare);
    template_text(r, &out);
    skip_markup(v, &bare);
    for (size_t i = 0; i < bare.len; i += len) {
        const uint32_t raw = unicode_at(bare.data + i, bare.len - i, &len);

        if (unicode_is_space(raw)) {
            blank = out.len > 0;
            continue;
        }
        if (blank)
            buf_add_char(&out, ' ');
        blank = false;
        unicode_put(&out, entity_at(bare.data + i, bare.len - i, &len));
    }
    v = template_take(r, &out);
    template_take(r, &bare);
    return v;
}

static void put_quoted(struct value s, bool query, struct buf *out)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                "abcdefghijklmnopqrstuvwxyz0123456789_.-~";

    for (uint32_t i = 0; i < s.n; i++) {
        const char c = s.s[i];

        if ((c != '\0' && strchr(plain, c) != NULL) || (c == '/' && !query))
            buf_add_char(out, c);
        else if (c == ' ' && query)
            buf_add_char(out, '+');
        else
            buf_printf(out, "%%%02X", (unsigned)(uint8_t)c);
    }
}

static bool put_pair(struct render *r, struct value pair, bool first, struct buf *out)
{
    struct value list;

    if (pair.kind == VALUE_UNDEFINED || !template_iterable(pair))
        return template_fail(r, "urlencode() needs pairs").b;
    list = template_listed(r, pair);
    if (r->rc == 0 && list.list->n != 2)
        template_fail(r, "urlencode() needs pairs");
    if (r->rc < 0)
        return false;
    if (!first)
        buf_add_char(out, '&');
    put_quoted(template_str(r, list.list->at[0]), true, out);
    buf_add_char(out, '=');
    put_quoted(template_str(r, list.list->at[1]), true, out);
    return r->rc == 0;
}

struct value filter_urlencode(struct render *r, struct value v, const struct value *a)
{
    struct value item;
    bool first = true;
    struct iter it;
    struct buf b;

    (void)a;
    template_text(r, &b);
    if (v.kind == VALUE_STRING || !template_iterable(v)) {
        put_quoted(template_str(r, v), false, &b);
        return template_take(r, &b);
    }
    if (v.kind == VALUE_DICT)
        v = template_new_view(r, v, TEMPLATE_ITEMS);
    if (r->rc == 0 && template_iter(r, &it, v))
        while (template_iter_next(r, &it, &item) && put_pair(r, item, first, &b))
            first = false;
    return template_take(r, &b);
}

static bool is_attribute_name(struct value key)
{
    for (uint32_t i = 0; i < key.n; i++)
        if (strchr(" \t\n\r\f\v/>=", key.s[i]) != NULL && key.s[i] != '\0')
            return false;
    return true;
}

struct value filter_xmlattr(struct render *r, struct value v, const struct value *a)
{
    const bool space = a[0].kind == VALUE_MISSING || value_truth(a[0]);
    struct buf b;

    if (v.kind == VALUE_UNDEFINED)
        return template_fail_undefined(r, v);
    if (v.kind != VALUE_DICT)
        return template_fail(r, "'%s' object has no attribute 'items'", value_type_name(v));
    template_text(r, &b);
    for (uint32_t i = 0; i < v.dict->n && template_step(r, 1); i++) {
        const struct value_pair *pair = &v.dict->at[i];
        struct value text;

        if (pair->value.kind == VALUE_NULL || pair->value.kind == VALUE_UNDEFINED)
            continue;
        if (pair->key.kind != VALUE_STRING || !is_attribute_name(pair->key)) {
            template_fail(r, "Invalid character in attribute name");
            break;
        }
        if (b.len > 0 || space)
            buf_add_char(&b, ' ');
        text = template_escaped(r, pair->key);
        buf_add(&b, text.s, text.n);
        text = template_escaped(r, pair->value);
        buf_add_str(&b, "=\"");
        buf_add(&b, text.s, text.n);
        buf_add_char(&b, '"');
    }
    return template_take(r, &b);
}
