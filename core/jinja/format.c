/* core/jinja/format.c - Python's two ways to put values into text: "%5d" % x and "{:5d}".format(x).
 *
 * Both are read left to right in one pass: plain text is copied and each conversion takes the next
 * value, or one by name. Numbers of the first way are translated into a specification of the
 * second, so that format_spec.c formats both. Width and precision have limits, so a short template
 * cannot ask for a huge text.
 */
#include "core/jinja/template_impl.h"

#include "core/base/err.h"
#include "core/base/unicode.h"

#include <string.h>

/* --- "%" --- */

struct percent { /* one conversion */
    bool left, plus, blank, other, zero; /* flags - + space # 0 */
    int64_t width, precision;            /* -1: none */
    char type;
    struct value v;
};

struct source { /* the values to format */
    struct value with;        /* a tuple, a dict or a single value */
    const struct args *named; /* the format filter's keywords; or NULL */
    uint32_t i;
};

static struct value next_value(struct render *r, struct source *from)
{
    if (from->with.kind == VALUE_TUPLE && from->i < from->with.list->n)
        return from->with.list->at[from->i++];
    if (from->with.kind != VALUE_TUPLE && from->i++ == 0)
        return from->with;
    return template_fail(r, "not enough arguments for format string");
}

static struct value named_value(struct render *r, struct source *from, struct value name)
{
    const struct value *v = NULL;

    from->i = 1; /* a mapping counts as used */
    if (from->named != NULL) {
        for (uint32_t i = 0; i < from->named->n_kw; i++)
            if (value_equal(from->named->kw[i].name, name) == 1)
                v = &from->named->kw[i].value;
    } else if (from->with.kind != VALUE_DICT) {
        return template_fail(r, "format requires a mapping");
    } else {
        v = value_dict_find(from->with, name);
    }
    return v != NULL ? *v : template_fail(r, "no value named '%.*s'", (int)name.n, name.s);
}

/* Read a number of the format; "*" takes it from the values. */
static int64_t read_number(struct render *r, struct value f, size_t *i, struct source *from)
{
    int64_t n = 0;

    if (*i < f.n && f.s[*i] == '*') {
        (*i)++;
        template_index(r, next_value(r, from), &n);
        return n;
    }
    for (; *i < f.n && f.s[*i] >= '0' && f.s[*i] <= '9'; (*i)++)
        n = n < 1000000 ? 10 * n + (f.s[*i] - '0') : n;
    return n;
}

static void read_flags(struct value f, size_t *i, struct percent *p)
{
    for (; *i < f.n; (*i)++) {
        switch (f.s[*i]) {
        case '-':
            p->left = true;
            break;
        case '+':
            p->plus = true;
            break;
        case ' ':
            p->blank = true;
            break;
        case '#':
            p->other = true;
            break;
        case '0':
            p->zero = true;
            break;
        default:
            return;
        }
    }
}

/* Read the flags, width, precision and type after "%". */
static bool read_percent(struct render *r, struct value f, size_t *i, struct source *from,
                         struct percent *p, bool *has_name)
{
    *p = (struct percent){.width = -1, .precision = -1};
    *has_name = false;
    if (*i < f.n && f.s[*i] == '(') {
        const char *end = memchr(f.s + *i, ')', f.n - *i);

        if (end == NULL) {
            template_fail(r, "incomplete format key");
            return false;
        }
        p->v = named_value(r, from, template_piece(f, *i + 1, (size_t)(end - f.s)));
        *has_name = true;
        *i = (size_t)(end - f.s) + 1;
    }
    read_flags(f, i, p);
    p->width = read_number(r, f, i, from);
    if (p->width < 0) {
        p->left = true;
        p->width = -p->width;
    }
    if (*i < f.n && f.s[*i] == '.') {
        (*i)++;
        p->precision = read_number(r, f, i, from);
        p->precision = p->precision < 0 ? 0 : p->precision;
    }
    while (*i < f.n && (f.s[*i] == 'l' || f.s[*i] == 'h' || f.s[*i] == 'L'))
        (*i)++;
    if (*i == f.n)
        template_fail(r, "incomplete format");
    p->type = *i < f.n ? f.s[(*i)++] : '\0';
    return r->rc == 0;
}

/* Put a number by the equivalent specification of format(). */
static void format_number(struct render *r, const struct percent *p, char type, struct buf *out)
{
    struct buf b;

    buf_init(&b, 64);
    if (p->left)
        buf_add_char(&b, '<');
    else if (!p->zero)
        buf_add_char(&b, '>');
    if (p->plus || p->blank)
        buf_add_char(&b, p->plus ? '+' : ' ');
    if (p->other)
        buf_add_char(&b, '#');
    if (p->zero && !p->left)
        buf_add_char(&b, '0');
    if (p->width > 0)
        buf_printf(&b, "%lld", (long long)p->width);
    if (p->precision >= 0 && strchr("eEfFgG", type) != NULL)
        buf_printf(&b, ".%lld", (long long)p->precision);
    buf_add_char(&b, type);
    template_format_spec(r, p->v, b.data, b.len, out);
    buf_release(&b);
}

static void put_padded(struct render *r, struct value text, const struct percent *p,
                       struct text *out)
{
    int64_t n;

    if (p->precision >= 0)
        text = template_piece(text, 0, unicode_offset(text.s, text.n, (size_t)p->precision));
    n = (int64_t)unicode_count(text.s, text.n);
    for (; !p->left && n < p->width && out->buf.err == 0; n++)
        buf_add_char(&out->buf, ' ');
    template_text_add(r, out, text);
    for (; n < p->width && out->buf.err == 0; n++)
        buf_add_char(&out->buf, ' ');
}

static struct value repr_of(struct render *r, struct value v)
{
    struct buf b;

    template_text(r, &b);
    if (value_repr(v, &b) == ERR_LIMIT && b.err == 0)
        template_limit(r, "a value is nested too deep to be printed");
    return template_take(r, &b);
}

static void put_char(struct render *r, const struct percent *p, struct text *out)
{
    struct value text = p->v;
    struct buf b;

    if (value_is_int(p->v)) {
        const int64_t cp = value_as_int(p->v);

        if (cp < 0 || cp > 0x10FFFF || (cp >= 0xD800 && cp <= 0xDFFF)) {
            template_fail(r, "%%c arg not in range(0x110000)");
            return;
        }
        template_text(r, &b);
        unicode_put(&b, (uint32_t)cp);
        text = template_take(r, &b);
    } else if (text.kind != VALUE_STRING || unicode_count(text.s, text.n) != 1) {
        template_fail(r, "%%c requires int or char");
        return;
    }
    put_padded(r, text, p, out);
}

/* Put an integer; with a precision it gets leading zeros up to so many digits. */
static void put_int(struct render *r, struct percent *p, struct buf *out)
{
    const bool decimal = strchr("diu", p->type) != NULL;
    bool ok;

    if (decimal && p->v.kind == VALUE_FLOAT)
        p->v = template_to_int(r, p->v, 10, &ok);
    else if (p->v.kind == VALUE_BIG)
        template_fail_big(r);
    else if (!value_is_int(p->v))
        template_fail(r, "%%%c format: a%s number is required, not %s", p->type,
                      decimal ? " real" : "n integer", value_type_name(p->v));
    if (r->rc < 0)
        return;
    if (p->precision >= 0)
        template_fail(r, "%%.%lldd is not supported", (long long)p->precision);
    if (value_is_int(p->v))
        p->v = value_int(value_as_int(p->v));
    format_number(r, p, decimal ? 'd' : p->type, out);
}

static void put_percent(struct render *r, struct percent *p, struct text *out)
{
    switch (p->type) {
    case 's':
        put_padded(r, template_str(r, p->v), p, out);
        break;
    case 'r':
    case 'a':
        put_padded(r, repr_of(r, p->v), p, out);
        break;
    case 'c':
        put_char(r, p, out);
        break;
    case 'd':
    case 'i':
    case 'u':
    case 'x':
    case 'X':
    case 'o':
        put_int(r, p, &out->buf);
        break;
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
        if (!value_is_number(p->v)) {
            template_fail(r, "must be real number, not %s", value_type_name(p->v));
            break;
        }
        p->v = template_to_float(r, p->v, &(bool){true});
        if (r->rc < 0)
            break;
        format_number(r, p, p->type, &out->buf);
        break;
    default: /* the byte may be the first of a longer character */
        template_fail(r, "unsupported format character '%c'",
                      (uint8_t)p->type < 0x80 ? p->type : '?');
    }
}

/* True: a value was left over, which is an error. A single dict, list, range or undefined value is
 * allowed to be left over. */
static bool has_unused(const struct source *from)
{
    const struct value with = from->with;

    if (from->named != NULL)
        return false;
    if (with.kind == VALUE_TUPLE)
        return from->i < with.list->n && from->i != 1 + with.list->n;
    return from->i == 0 && with.kind != VALUE_DICT && with.kind != VALUE_LIST &&
           with.kind != VALUE_RANGE && with.kind != VALUE_UNDEFINED;
}

struct value template_percent(struct render *r, struct value f, struct value with,
                              const struct args *named)
{
    struct source from = {.with = with, .named = named};
    struct value out;
    struct text text;

    template_text_begin(r, &text);
    for (size_t i = 0; i < f.n && r->rc == 0;) {
        const char *at = memchr(f.s + i, '%', f.n - i);
        const size_t next = at != NULL ? (size_t)(at - f.s) : f.n;
        struct percent p;
        bool has_name;

        template_text_add(r, &text, template_piece(f, i, next));
        i = next + 1;
        if (at == NULL || !read_percent(r, f, &i, &from, &p, &has_name))
            break;
        if (p.type == '%') {
            template_text_add(r, &text, template_piece(f, i - 1, i));
            continue;
        }
        if (!has_name)
            p.v = next_value(r, &from);
        if ((f.flags & VALUE_SAFE) != 0 && p.v.kind == VALUE_STRING)
            p.v = template_escaped(r, p.v);
        if (template_step(r, p.width > 0 ? (uint64_t)p.width / 16 : 1))
            put_percent(r, &p, &text);
    }
    if (r->rc == 0 && has_unused(&from))
        template_fail(r, "not all arguments converted during string formatting");
    out = template_text_end(r, &text);
    out.flags |= f.flags & VALUE_SAFE;
    return out;
}

/* --- "{}" --- */

struct fields { /* says which argument comes next */
    const struct args *args;
    int64_t next; /* next argument of "{}"; -1 after "{0}" */
    bool automatic;
};

static struct value argument(struct render *r, struct fields *fields, struct value name)
{
    int64_t i = 0;

    for (uint32_t k = 0; k < name.n; k++) {
        if (name.s[k] < '0' || name.s[k] > '9') {
            for (k = 0; k < fields->args->n_kw; k++)
                if (value_equal(fields->args->kw[k].name, name) == 1)
                    return fields->args->kw[k].value;
            return template_fail(r, "no value named '%.*s'", (int)name.n, name.s);
        }
        i = i < 1000000 ? 10 * i + (name.s[k] - '0') : i;
    }
    if (name.n == 0 ? fields->next < 0 : fields->automatic)
        return template_fail(r, "cannot switch between numbered and automatic fields");
    if (name.n == 0) {
        fields->automatic = true;
        i = fields->next++;
    } else {
        fields->next = -1;
    }
    if (i >= fields->args->n)
        return template_fail(r, "Replacement index %lld out of range for positional args tuple",
                             (long long)i);
    return fields->args->at[i];
}

static struct value index_of(struct value text)
{
    int64_t i = 0;

    for (uint32_t k = 0; k < text.n; k++) {
        if (text.s[k] < '0' || text.s[k] > '9' || i > INT64_MAX / 20)
            return text;
        i = 10 * i + (text.s[k] - '0');
    }
    return text.n > 0 ? value_int(i) : text;
}

/* Return the value of name.member[index]. */
static struct value field_value(struct render *r, struct fields *fields, struct value path)
{
    size_t i = 0, from;
    struct value v;

    while (i < path.n && path.s[i] != '.' && path.s[i] != '[')
        i++;
    v = argument(r, fields, template_piece(path, 0, i));
    while (i < path.n && r->rc == 0) {
        const bool bracket = path.s[i++] == '[';

        from = i;
        while (i < path.n && (bracket ? path.s[i] != ']' : path.s[i] != '.' && path.s[i] != '['))
            i++;
        if (i == from || (bracket && i == path.n))
            return template_fail(r, "Empty attribute in format string");
        v = bracket ? template_getitem(r, v, index_of(template_piece(path, from, i)))
                    : template_getattr(r, v, template_piece(path, from, i));
        i += bracket;
        if (bracket && i < path.n && path.s[i] != '.' && path.s[i] != '[')
            return template_fail(r, "Only '.' or '[' may follow ']' in format field specifier");
    }
    return v;
}

/* Put the field inside { }: path!conversion:specification. The specification may contain fields
 * itself. */
static void put_field(struct render *r, struct fields *fields, struct value field,
                      struct text *out)
{
    size_t i = 0, depth = 0;
    struct value v, spec = value_text("");
    char conversion = '\0';

    while (i < field.n && (depth > 0 || (field.s[i] != '!' && field.s[i] != ':'))) {
        depth += field.s[i] == '[';
        depth -= field.s[i] == ']' && depth > 0;
        i++;
    }
    v = field_value(r, fields, template_piece(field, 0, i));
    if (i < field.n && field.s[i] == '!') {
        conversion = i + 1 < field.n ? field.s[i + 1] : '\0';
        i += 2;
        if (i < field.n && field.s[i] != ':')
            template_fail(r, "expected ':' after conversion specifier");
    }
    if (i < field.n)
        spec = template_piece(field, i + 1, field.n);
    if (r->rc < 0)
        return;
    if (conversion == 'r' || conversion == 'a')
        v = repr_of(r, v);
    else if (conversion == 's')
        v = template_str(r, v);
    else if (conversion != '\0' || i > field.n)
        template_fail(r, "unknown conversion specifier");
    if (spec.n > 0 && memchr(spec.s, '{', spec.n) != NULL)
        template_fail(r, "fields inside of a format specification are not supported");
    if (r->rc == 0 && spec.n == 0 && v.kind == VALUE_STRING)
        template_text_add(r, out, v);
    else if (r->rc == 0)
        template_format_spec(r, v, spec.s, spec.n, &out->buf);
}

/* Return the index of the "}" that ends the field which begins at i; f.n: there is none. */
static size_t field_end(struct value f, size_t i)
{
    for (size_t depth = 1; i < f.n; i++) {
        depth += f.s[i] == '{';
        if (f.s[i] == '}' && --depth == 0)
            break;
    }
    return i;
}

struct value template_format(struct render *r, struct value f, const struct args *args)
{
    struct fields fields = {.args = args};
    struct value out;
    struct text text;

    template_text_begin(r, &text);
    for (size_t i = 0; i < f.n && template_step(r, 1); i++) {
        const char c = f.s[i];
        size_t end;

        if (c != '{' && c != '}') {
            template_text_add(r, &text, template_piece(f, i, i + 1));
            continue;
        }
        if (i + 1 < f.n && f.s[i + 1] == c) {
            template_text_add(r, &text, template_piece(f, i, i + 1));
            i++;
            continue;
        }
        end = c == '{' ? field_end(f, i + 1) : f.n;
        if (end == f.n) {
            template_fail(r, "Single '%c' encountered in format string", c);
            break;
        }
        put_field(r, &fields, template_piece(f, i + 1, end), &text);
        i = end;
    }
    out = template_text_end(r, &text);
    out.flags |= f.flags & VALUE_SAFE;
    return out;
}
