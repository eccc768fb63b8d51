/* core/jinja/call.c - calls of macros, methods and builtins, and the binding of arguments.
 *
 * A builtin's parameters are a string of names; template_bind() puts positional and keyword
 * arguments into an array in that order, with VALUE_MISSING for those not given, so that its
 * function reads them by index. A macro call makes a frame below the one where the macro was
 * defined, fills parameters and defaults, and returns what its body prints. template_call() counts
 * one level of depth.
 */
#include "core/jinja/template_impl.h"

#include "core/base/err.h"

#include <string.h>

struct macro {
    const struct node *node; /* NODE_MACRO or NODE_CALL_BLOCK */
    struct frame *frame;     /* frame of its definition */
};

struct method {
    struct value of;
    const struct template_builtin *builtin;
};

struct value template_new_macro(struct render *r, const struct node *node, struct frame *f)
{
    struct macro *m = value_pool_alloc(r->pool, sizeof(*m));
    struct value v = {.kind = VALUE_MACRO, .object = (struct template_object *)m};

    if (m == NULL) {
        template_step(r, 0);
        return value_null();
    }
    m->node = node;
    m->frame = f;
    return v;
}

static const struct macro *macro_of(struct value v)
{
    return (const struct macro *)v.object;
}

struct value template_macro_name(struct value v)
{
    const struct node *node = macro_of(v)->node;

    return node->type == NODE_MACRO ? node->v : value_null();
}

struct value template_new_method(struct render *r, struct value of,
                                 const struct template_builtin *builtin)
{
    struct method *m = value_pool_alloc(r->pool, sizeof(*m));
    struct value v = {.kind = VALUE_METHOD, .object = (struct template_object *)m};

    if (m == NULL) {
        template_step(r, 0);
        return value_null();
    }
    m->of = of;
    m->builtin = builtin;
    return v;
}

int template_repr_object(struct value v, struct buf *out)
{
    int64_t start, stop, step;
    struct value name;

    switch ((enum value_kind)v.kind) {
    case VALUE_RANGE:
        template_range_bounds(v, &start, &stop, &step);
        buf_printf(out, "range(%lld, %lld", (long long)start, (long long)stop);
        if (step != 1)
            buf_printf(out, ", %lld", (long long)step);
        return buf_add_char(out, ')');
    case VALUE_LOOP:
        return template_repr_loop(v, out);
    case VALUE_MACRO:
        name = template_macro_name(v);
        buf_add_str(out, "<Macro ");
        if (name.kind == VALUE_STRING)
            value_repr(name, out);
        else
            buf_add_str(out, "anonymous");
        return buf_add_char(out, '>');
    case VALUE_METHOD:
        return buf_printf(out, "<built-in method %s of %s object>",
                          ((const struct method *)v.object)->builtin->name,
                          value_type_name(((const struct method *)v.object)->of));
    case VALUE_FUNCTION:
        return buf_printf(out, "<function %s>", template_function_name(v));
    case VALUE_GENERATOR: /* has as many words as with a name and an address */
        return buf_add_str(out, "<generator object of a filter>");
    default:
        return buf_printf(out, "<%s object>", value_type_name(v));
    }
}

/* --- arguments by name --- */

/* Return the index of `name` among the words of params, or -1. */
static int param_index(const char *params, struct value name)
{
    int i = 0;

    for (const char *p = params; *p != '\0'; i++) {
        const size_t n = strcspn(p, " ");

        if (n == name.n && memcmp(p, name.s, n) == 0)
            return i;
        p += n + (p[n] == ' ');
    }
    return -1;
}

static uint32_t n_params(const char *params)
{
    uint32_t n = *params != '\0';

    for (const char *p = params; *p != '\0'; p++)
        n += *p == ' ';
    return n;
}

bool template_bind(struct render *r, const char *name, const char *params, uint8_t n_required,
                   const struct args *args, struct value *a)
{
    const uint32_t n = n_params(params);

    for (uint32_t i = 0; i < TEMPLATE_MAX_PARAMS; i++)
        a[i] = (struct value){.kind = VALUE_MISSING};
    if (args->n > n) {
        template_fail(r, "%s() takes at most %u arguments (%u given)", name, n, args->n);
        return false;
    }
    for (uint32_t i = 0; i < args->n; i++)
        a[i] = args->at[i];
    for (uint32_t i = 0; i < args->n_kw; i++) {
        const struct value key = args->kw[i].name;
        const int at = param_index(params, key);

        if (at < 0 || a[at].kind != VALUE_MISSING) {
            template_fail(r, at < 0 ? "%s() got an unexpected keyword argument '%.*s'"
                                       : "%s() got multiple values for argument '%.*s'",
                          name, (int)key.n, key.s);
            return false;
        }
        a[at] = args->kw[i].value;
    }
    for (uint32_t i = 0; i < n_required; i++) {
        if (a[i].kind == VALUE_MISSING) {
            template_fail(r, "%s() is missing a required argument", name);
            return false;
        }
    }
    return true;
}

struct value template_call_builtin(struct render *r, const struct template_builtin *b,
                                   struct value v, const struct args *args)
{
    struct value a[TEMPLATE_MAX_PARAMS];

    if (b->call_raw != NULL)
        return b->call_raw(r, v, args);
    if (!template_bind(r, b->name, b->params, b->n_required, args, a))
        return value_null();
    return b->call(r, v, a);
}

/* --- macros --- */

static const struct kwarg *keyword(const struct args *args, struct value name)
{
    for (uint32_t i = 0; i < args->n_kw; i++)
        if (value_equal(args->kw[i].name, name) == 1)
            return &args->kw[i];
    return NULL;
}

static bool is_param(const struct node *node, struct value name, uint32_t from)
{
    for (uint32_t i = from; i < node->list.n; i++)
        if (value_equal(node->list.at[i]->v, name) == 1)
            return true;
    return false;
}

/* Return the keywords that are not parameters of the macro, as a dict; without `caller` if the
 * macro reads it. */
static struct value other_keywords(struct render *r, const struct node *node,
                                   const struct args *args, bool own_caller)
{
    const struct value dict = value_dict(r->pool);

    for (uint32_t i = 0; i < args->n_kw; i++) {
        const struct kwarg *kw = &args->kw[i];

        if (is_param(node, kw->name, args->n) ||
            (own_caller && value_is_text(kw->name, "caller")))
            continue;
        value_dict_put(r->pool, dict, kw->name, kw->value);
    }
    return dict;
}

static struct value other_values(struct render *r, const struct node *node, const struct args *args)
{
    const struct value tuple = value_tuple(r->pool);

    for (uint32_t i = node->list.n; i < args->n; i++)
        value_list_add(r->pool, tuple, args->at[i]);
    return tuple;
}

static bool bind_special(struct render *r, const struct node *node, const struct args *args,
                         struct frame *f)
{
    const bool own_caller = node->takes_caller && !is_param(node, value_text("caller"), 0);
    const struct kwarg *caller = keyword(args, value_text("caller"));
    const struct value rest = other_keywords(r, node, args, own_caller);

    if (!template_step(r, 1))
        return false;
    if (own_caller)
        f->slots[node->scope->caller] = caller != NULL && caller->value.kind != VALUE_NULL
                                            ? caller->value
                                            : template_undefined_hint("No caller defined");
    if (node->takes_kwargs)
        f->slots[node->scope->kwargs] = rest;
    else if (rest.dict->n > 0)
        template_fail(r, "macro '%.*s' takes no keyword argument '%.*s'", (int)node->v.n,
                      node->v.n > 0 ? node->v.s : "", (int)rest.dict->at[0].key.n,
                      rest.dict->at[0].key.s);
    if (node->takes_varargs)
        f->slots[node->scope->varargs] = other_values(r, node, args);
    else if (args->n > node->list.n)
        template_fail(r, "macro '%.*s' takes not more than %u argument(s)", (int)node->v.n,
                      node->v.n > 0 ? node->v.s : "", node->list.n);
    return r->rc == 0;
}

/* Bind the call's arguments; parameters without one stay VALUE_MISSING. */
static void bind_given(const struct node *node, const struct args *args, struct frame *f)
{
    for (uint32_t i = 0; i < node->list.n; i++) {
        const struct kwarg *kw = i < args->n ? NULL : keyword(args, node->list.at[i]->v);
        struct value v = {.kind = VALUE_MISSING};

        if (i < args->n)
            v = args->at[i];
        else if (kw != NULL)
            v = kw->value;
        f->slots[node->list.at[i]->slot] = v;
    }
}

static struct value not_provided(struct render *r, struct value name)
{
    struct buf b;

    template_text(r, &b);
    buf_printf(&b, "parameter '%.*s' was not provided", (int)name.n, name.s);
    name = template_take(r, &b);
    name.kind = VALUE_UNDEFINED; /* the undefined value's text is the reason */
    return name;
}

static void bind_defaults(struct render *r, const struct node *node, struct frame *f)
{
    const uint32_t first = node->list.n - node->c->list.n;

    for (uint32_t i = 0; i < node->list.n && r->rc == 0; i++) {
        const struct node *param = node->list.at[i];

        if (f->slots[param->slot].kind != VALUE_MISSING)
            continue;
        f->slots[param->slot] = i >= first ? template_eval(r, node->c->list.at[i - first], f)
                                           : not_provided(r, param->v);
    }
}

static struct value call_macro(struct render *r, struct value callee, const struct args *args)
{
    const struct macro *m = macro_of(callee);
    const uint32_t line = r->line;
    struct frame *f = template_frame(r, m->node->scope, m->frame);
    struct value v;

    if (f == NULL)
        return value_null();
    bind_given(m->node, args, f);
    if (!bind_special(r, m->node, args, f))
        return value_null();
    bind_defaults(r, m->node, f);
    if (r->rc < 0)
        return value_null();
    v = template_capture(r, &m->node->list2, f);
    if (r->rc == 0)
        r->line = line;
    return v;
}

struct value template_call(struct render *r, struct value callee, const struct args *args)
{
    struct value v = value_null();

    if (!template_push(r)) {
        template_pop(r);
        return v;
    }
    switch ((enum value_kind)callee.kind) {
    case VALUE_MACRO:
        v = call_macro(r, callee, args);
        break;
    case VALUE_FUNCTION:
        v = template_call_function(r, callee, args);
        break;
    case VALUE_METHOD: {
        const struct method *m = (const struct method *)callee.object;

        v = template_call_builtin(r, m->builtin, m->of, args);
        break;
    }
    case VALUE_LOOP:
        v = template_loop_call(r, callee, args);
        break;
    case VALUE_JOINER:
        v = args->n == 0 && args->n_kw == 0 ? template_joiner_call(r, callee)
                                            : template_fail(r, "a joiner takes no arguments");
        break;
    case VALUE_UNDEFINED:
        v = template_fail_undefined(r, callee);
        break;
    default:
        v = template_fail(r, "'%s' object is not callable", value_type_name(callee));
    }
    template_pop(r);
    return v;
}
