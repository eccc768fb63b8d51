/* core/jinja/template.c - see template.h. Creation and rendering as a whole, and functions of all
 * parts of the evaluator: failing, counting steps, building text.
 *
 * A rendering has one error: the first failure is stored in r->rc with its sentence, and later ones
 * are dropped. template_step() also turns errors of the pool and the output buffer into that one,
 * so other code need not check them. After an error the output is cut back to where it began.
 */
#include "core/jinja/template_impl.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/base/unicode.h"
#include "core/base/utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistr.h>

struct template {
    struct value_pool pool;
    struct node_list body;
    struct scope *scope;
};

static int check_source(const char *source, size_t n, char *err, size_t err_len)
{
    const uint8_t *broken;
    uint32_t line = 1;

    if (n > TEMPLATE_MAX_SOURCE) {
        snprintf(err, err_len, "line 1: the template has %zu bytes, more than %u", n,
                 TEMPLATE_MAX_SOURCE);
        return ERR_LIMIT;
    }
    broken = u8_check((const uint8_t *)source, n);
    if (broken == NULL)
        return 0;
    for (const char *s = source; s < (const char *)broken; s++)
        line += *s == '\n';
    snprintf(err, err_len, "line %u: the template is not UTF-8", line);
    return ERR_FORMAT;
}

static int parse_template(struct template *t, const char *source, size_t n, char *err,
                          size_t err_len)
{
    struct parser p = {.pool = &t->pool};

    if (template_lex_init(&p.lex, &t->pool, source, n, err, err_len) == 0) {
        t->body = template_parse(&p);
        if (p.lex.rc == 0)
            template_resolve(&p, t->body, &t->scope);
    }
    if (p.lex.rc == 0 && t->pool.err < 0)
        p.lex.rc = t->pool.err;
    if (p.lex.rc < 0 && err_len > 0 && err[0] == '\0')
        snprintf(err, err_len, "line 1: %s", err_text(p.lex.rc));
    return p.lex.rc;
}

int template_create(struct template **out, const char *source, size_t n, char *err, size_t err_len)
{
    struct template *t;
    int rc;

    *out = NULL;
    if (err_len > 0)
        err[0] = '\0';
    rc = check_source(source, n, err, err_len);
    if (rc < 0)
        return rc;
    t = mem_calloc(1, sizeof(*t));
    if (t == NULL) {
        snprintf(err, err_len, "line 1: %s", err_text(ERR_NOMEM));
        return ERR_NOMEM;
    }
    value_pool_init(&t->pool, TEMPLATE_MAX_MEMORY);
    rc = parse_template(t, source, n, err, err_len);
    if (rc < 0)
        template_destroy(&t);
    *out = t;
    return rc;
}

void template_destroy(struct template **t)
{
    if (t == NULL || *t == NULL)
        return;
    value_pool_release(&(*t)->pool);
    mem_free(*t);
    *t = NULL;
}

static void take_options(struct render *r, const struct template_options *options)
{
    if (options != NULL)
        r->options = *options;
    if (r->options.max_depth == 0)
        r->options.max_depth = TEMPLATE_MAX_DEPTH;
    r->own_budget.steps_left = BUDGET_REQUEST_STEPS;
    r->budget = r->options.budget != NULL ? r->options.budget : &r->own_budget;
}

int template_render(const struct template *t, struct value_pool *pool, const struct value *globals,
                    const struct template_options *options, struct buf *out, char *err,
                    size_t err_len)
{
    const size_t before = out->len;
    struct render r = {.pool = pool, .globals = globals, .out = out, .line = 1, .err = err,
                       .err_len = err_len};
    struct frame *f;

    take_options(&r, options);
    pool->tracks = r.options.own != NULL;
    if (err_len > 0)
        err[0] = '\0';
    f = template_frame(&r, t->scope, NULL);
    if (f != NULL)
        template_exec(&r, &t->body, f);
    template_all_text(&r, 0);
    template_step(&r, 0); /* takes over an error of the pool or the output */
    if (r.rc < 0 && out->data != NULL) {
        out->len = before;
        out->data[before] = '\0';
        out->err = 0;
    }
    if (r.rc < 0 && r.options.own != NULL)
        spans_cut(r.options.own, before);
    return r.rc;
}

void template_trim_sentence(char *err, size_t err_len)
{
    size_t n = err_len > 0 ? strlen(err) : 0, back = 1;

    if (n + 1 < err_len || n == 0) /* not cut off */
        return;
    while (back < 4 && back < n && ((uint8_t)err[n - back] & 0xC0) == 0x80)
        back++;
    if (utf8_len((const uint8_t *)err + n - back, back) != back)
        err[n - back] = '\0';
}

struct value template_fail(struct render *r, const char *format, ...)
{
    va_list args;
    int n;

    if (r->rc < 0)
        return value_null();
    r->rc = ERR_INVAL;
    n = snprintf(r->err, r->err_len, "line %u: ", r->line);
    if (n < 0 || (size_t)n >= r->err_len)
        return value_null();
    va_start(args, format);
    vsnprintf(r->err + n, r->err_len - (size_t)n, format, args);
    va_end(args);
    template_trim_sentence(r->err, r->err_len);
    return value_null();
}

struct value template_limit(struct render *r, const char *what)
{
    template_fail(r, "%s", what);
    if (r->rc == ERR_INVAL)
        r->rc = ERR_LIMIT;
    return value_null();
}

static void note_error(struct render *r, int err, const char *what)
{
    if (r->rc < 0)
        return;
    template_fail(r, "%s", err == ERR_NOMEM ? "out of memory" : what);
    r->rc = err;
}

bool template_step(struct render *r, uint64_t n)
{
    int rc;

    if (r->rc < 0)
        return false;
    rc = budget_spend(r->budget, n < UINT64_MAX / TEMPLATE_STEP ? n * TEMPLATE_STEP : UINT64_MAX);
    if (r->pool->err < 0)
        note_error(r, r->pool->err, "the template needs too much memory");
    else if (r->out->err < 0)
        note_error(r, r->out->err, "the output of the template is too large");
    else if (r->options.own != NULL && r->options.own->err < 0)
        note_error(r, r->options.own->err, "the output of the template has too many parts");
    else if (rc < 0)
        note_error(r, rc, rc == ERR_LIMIT ? "the template takes too many steps" : "canceled");
    return r->rc == 0;
}

bool template_push(struct render *r)
{
    if (r->depth >= r->options.max_depth) {
        template_limit(r, "calls and loops are nested too deep");
        return false;
    }
    r->depth++;
    return template_step(r, 1);
}

void template_pop(struct render *r)
{
    r->depth--;
}

void template_text(struct render *r, struct buf *b)
{
    buf_init(b, r->pool->max);
}

struct value template_take(struct render *r, struct buf *b)
{
    struct value v = value_text("");

    if (b->err < 0)
        note_error(r, b->err, "the template needs too much memory");
    else if (r->rc == 0 && template_step(r, b->len / 64))
        v = value_string(r->pool, b->data != NULL ? b->data : "", b->len);
    buf_release(b);
    return v;
}

void template_text_begin(struct render *r, struct text *t)
{
    *t = (struct text){0};
    template_text(r, &t->buf);
}

void template_text_add(struct render *r, struct text *t, struct value s)
{
    if (s.kind != VALUE_STRING || buf_add(&t->buf, s.s, s.n) < 0)
        return;
    if (r->pool->tracks)
        value_spans(r->pool, s, t->buf.len - s.n, &t->own);
}

struct value template_text_end(struct render *r, struct text *t)
{
    struct value v = value_text("");

    if (t->buf.err < 0 || t->own.err < 0)
        note_error(r, t->buf.err < 0 ? t->buf.err : t->own.err,
                   "the template needs too much memory");
    else if (r->rc == 0 && template_step(r, t->buf.len / 64))
        v = value_cut(r->pool, t->buf.data != NULL ? t->buf.data : "", 0, t->buf.len, &t->own);
    buf_release(&t->buf);
    spans_release(&t->own);
    return v;
}

void template_print(struct render *r, struct value s)
{
    const size_t at = r->out->len;

    if (buf_add(r->out, s.s, s.n) == 0 && r->options.own != NULL && (s.flags & VALUE_ORIGIN) != 0)
        value_spans(r->pool, s, at, r->options.own);
}

struct value template_unprint(struct render *r, size_t before)
{
    static const struct spans none;
    const struct spans *own = r->options.own != NULL ? r->options.own : &none;
    struct value v;

    if (r->out->len == before)
        return value_text("");
    v = value_cut(r->pool, r->out->data, before, r->out->len, own);
    if (r->options.own != NULL)
        spans_cut(r->options.own, before);
    r->out->len = before;
    r->out->data[before] = '\0';
    return v;
}

uint8_t template_flags_of(struct value s)
{
    return s.flags & (uint8_t)(VALUE_SAFE | VALUE_OWN);
}

struct value template_piece(struct value s, size_t from, size_t to)
{
    s.s += from;
    s.n = (uint32_t)(to - from);
    return s;
}

void template_put(struct render *r, struct value v, struct buf *out)
{
    const int rc = value_str(v, out);

    if (rc == ERR_LIMIT && out->err == 0)
        template_limit(r, "a value is nested too deep to be printed");
}

struct value template_str(struct render *r, struct value v)
{
    struct buf b;

    if (v.kind == VALUE_STRING)
        return v;
    if (v.kind == VALUE_UNDEFINED)
        return value_text("");
    template_text(r, &b);
    template_put(r, v, &b);
    return template_take(r, &b);
}

struct value template_plain(struct render *r, struct value v)
{
    v = template_str(r, v);
    v.flags &= VALUE_ORIGIN;
    return v;
}
