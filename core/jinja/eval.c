/* core/jinja/eval.c - evaluates expressions.
 *
 * A recursive walk over the nodes of an expression that the parser has made. Each node costs a step
 * of the budget and a level of depth, which bound time and stack. After an error the functions
 * return some value and r->rc is set; the caller that must not continue checks it. Names are read
 * by scope and slot, without any search.
 */
#include "core/jinja/template_impl.h"

#include "core/base/err.h"

#include <string.h>

static struct value eval_name(const struct node *node, const struct frame *f)
{
    for (uint32_t up = node->up; up > 0; up--)
        f = f->up;
    if (f->slots[node->slot].kind == VALUE_MISSING)
        return template_undefined_name(node->v);
    return f->slots[node->slot];
}

static struct value eval_list(struct render *r, const struct node *node, struct frame *f)
{
    const struct value list =
        node->type == NODE_TUPLE ? value_tuple(r->pool) : value_list(r->pool);

    for (uint32_t i = 0; i < node->list.n; i++) {
        const struct value v = template_eval(r, node->list.at[i], f);

        if (r->rc < 0)
            return v;
        value_list_add(r->pool, list, v);
    }
    return list;
}

static struct value eval_dict(struct render *r, const struct node *node, struct frame *f)
{
    const struct value dict = value_dict(r->pool);

    for (uint32_t i = 0; i + 1 < node->list.n; i += 2) {
        const struct value key = template_eval(r, node->list.at[i], f);
        const struct value v = r->rc == 0 ? template_eval(r, node->list.at[i + 1], f) : key;

        if (r->rc < 0)
            return v;
        if (value_dict_put(r->pool, dict, key, v) < 0)
            return template_fail(r, "unhashable type: '%s'", value_type_name(key));
    }
    return dict;
}

static struct value eval_cond(struct render *r, const struct node *node, struct frame *f)
{
    const bool yes = value_truth(template_eval(r, node->a, f));

    if (r->rc < 0)
        return value_null();
    if (yes)
        return template_eval(r, node->b, f);
    if (node->c != NULL)
        return template_eval(r, node->c, f);
    return template_undefined_hint("the inline if-expression evaluated to false and no else "
                                   "section was defined.");
}

/* Evaluate `and` or `or`, whose value is the operand that decides. */
static struct value eval_logic(struct render *r, const struct node *node, struct frame *f)
{
    const struct value a = template_eval(r, node->a, f);

    if (r->rc < 0 || value_truth(a) == (node->type == NODE_OR))
        return a;
    return template_eval(r, node->b, f);
}

static struct value eval_compare(struct render *r, const struct node *node, struct frame *f)
{
    struct value a = template_eval(r, node->a, f);

    for (uint32_t i = 0; i < node->list.n && r->rc == 0; i++) {
        const struct node *operand = node->list.at[i];
        const struct value b = template_eval(r, operand->a, f);

        if (r->rc < 0 || !template_compare(r, operand->op, a, b))
            return value_bool(false);
        a = b;
    }
    return value_bool(true);
}

static struct value eval_concat(struct render *r, const struct node *node, struct frame *f)
{
    struct value all = value_text("");

    for (uint32_t i = 0; i < node->list.n; i++) {
        struct value v = template_eval(r, node->list.at[i], f);

        if (r->rc == 0)
            v = template_plain(r, v);
        if (!template_step(r, v.n / 64))
            return value_null();
        all = i == 0 ? v : value_concat(r->pool, all, v);
    }
    return all;
}

static struct value eval_binary(struct render *r, const struct node *node, struct frame *f)
{
    const struct value a = template_eval(r, node->a, f);
    const struct value b = r->rc == 0 ? template_eval(r, node->b, f) : a;

    return r->rc == 0 ? template_binary(r, (enum token_type)node->op, a, b) : a;
}

static struct value eval_or_missing(struct render *r, const struct node *node, struct frame *f)
{
    return node != NULL && r->rc == 0 ? template_eval(r, node, f) : value_null();
}

static struct value eval_item(struct render *r, const struct node *node, struct frame *f)
{
    const struct value of = template_eval(r, node->a, f);
    const struct node *index = node->b;
    struct value a, b, c;

    if (r->rc < 0)
        return of;
    if (index->type != NODE_SLICE) {
        a = template_eval(r, index, f);
        return r->rc == 0 ? template_getitem(r, of, a) : a;
    }
    a = eval_or_missing(r, index->a, f);
    b = eval_or_missing(r, index->b, f);
    c = eval_or_missing(r, index->c, f);
    return r->rc == 0 ? template_slice(r, of, a, b, c) : a;
}

/* Add the values of *values to the arguments. */
static void add_values(struct render *r, const struct node *node, struct frame *f,
                       struct value list)
{
    struct value v = template_eval(r, node, f);
    struct iter it;

    if (r->rc == 0 && template_iter(r, &it, v))
        while (template_iter_next(r, &it, &v))
            value_list_add(r->pool, list, v);
}

static bool has_keyword(const struct args *args, struct value name)
{
    for (uint32_t i = 0; i < args->n_kw; i++)
        if (value_equal(args->kw[i].name, name) == 1)
            return true;
    return false;
}

/* Evaluate the keyword arguments of the call and those of its **mapping into args->kw, which has
 * room for one more: `caller`, which a call block adds. */
static bool eval_keywords(struct render *r, const struct node *node, struct frame *f,
                          struct args *args)
{
    const struct value more =
        node->c != NULL ? template_eval(r, node->c, f) : (struct value){.kind = VALUE_MISSING};
    const uint32_t n_more = more.kind == VALUE_DICT ? more.dict->n : 0;

    if (r->rc == 0 && node->c != NULL && more.kind != VALUE_DICT)
        template_fail(r, "the argument after ** must be a mapping, not %s", value_type_name(more));
    if (r->rc < 0)
        return false;
    args->kw = value_pool_alloc(r->pool, (node->list2.n + n_more + 1) * sizeof(*args->kw));
    if (args->kw == NULL)
        return template_step(r, 0);
    for (uint32_t i = 0; i < node->list2.n && r->rc == 0; i++) {
        const struct node *keyword = node->list2.at[i];

        if (has_keyword(args, keyword->v))
            template_fail(r, "keyword argument repeated: %.*s", (int)keyword->v.n, keyword->v.s);
        args->kw[args->n_kw++] = (struct kwarg){keyword->v, template_eval(r, keyword->a, f)};
    }
    for (uint32_t i = 0; i < n_more && r->rc == 0; i++) {
        const struct value_pair *pair = &more.dict->at[i];

        if (pair->key.kind != VALUE_STRING || has_keyword(args, pair->key))
            template_fail(r, "keywords must be strings, each given once");
        args->kw[args->n_kw++] = (struct kwarg){pair->key, pair->value};
    }
    return r->rc == 0;
}

bool template_eval_args(struct render *r, const struct node *node, struct frame *f,
                        struct args *args)
{
    *args = (struct args){0};
    if (node->b != NULL) {
        const struct value list = value_list(r->pool);

        for (uint32_t i = 0; i < node->list.n && r->rc == 0; i++)
            value_list_add(r->pool, list, template_eval(r, node->list.at[i], f));
        if (r->rc == 0)
            add_values(r, node->b, f, list);
        if (!template_step(r, 0))
            return false;
        args->at = list.list->at;
        args->n = list.list->n;
    } else if (node->list.n > 0) {
        args->at = value_pool_alloc(r->pool, node->list.n * sizeof(*args->at));
        if (args->at == NULL)
            return template_step(r, 0);
        for (uint32_t i = 0; i < node->list.n && r->rc == 0; i++)
            args->at[args->n++] = template_eval(r, node->list.at[i], f);
    }
    return r->rc == 0 && eval_keywords(r, node, f, args);
}

static struct value eval_call(struct render *r, const struct node *node, struct frame *f)
{
    const struct value callee = template_eval(r, node->a, f);
    struct args args;
    struct value v;

    if (r->rc < 0 || !template_eval_args(r, node, f, &args))
        return callee;
    r->line = node->line;
    v = template_call(r, callee, &args);
    r->line = node->line;
    return v;
}

/* Call a filter or test whose input is evaluated already. */
static struct value eval_builtin(struct render *r, const struct node *node, struct value v,
                                 struct frame *f)
{
    const bool bare = node->list.n == 0 && node->list2.n == 0 && node->b == NULL && node->c == NULL;
    struct args args = {0};

    if (node->builtin == NULL)
        return template_fail(r, "no %s named '%.*s'", node->type == NODE_TEST ? "test" : "filter",
                             (int)node->v.n, node->v.s);
    if (!bare && !template_eval_args(r, node, f, &args))
        return value_null();
    r->line = node->line;
    return template_call_builtin(r, node->builtin, v, &args);
}

/* Evaluate the filters of a block; the innermost input is the text that the block has printed. */
struct value template_eval_filter(struct render *r, const struct node *node, struct value v,
                                  struct frame *f)
{
    if (!template_push(r)) {
        template_pop(r);
        return value_null();
    }
    if (node->a != NULL && node->a->type == NODE_FILTER)
        v = template_eval_filter(r, node->a, v, f);
    template_pop(r);
    return r->rc == 0 ? eval_builtin(r, node, v, f) : value_null();
}

static struct value eval_filter(struct render *r, const struct node *node, struct frame *f)
{
    const struct value v = template_eval(r, node->a, f);

    return r->rc == 0 ? eval_builtin(r, node, v, f) : v;
}

static struct value eval(struct render *r, const struct node *node, struct frame *f)
{
    struct value v;

    switch ((enum node_type)node->type) {
    case NODE_CONST:
        return node->v;
    case NODE_NAME:
        return eval_name(node, f);
    case NODE_TUPLE:
    case NODE_LIST:
        return eval_list(r, node, f);
    case NODE_DICT:
        return eval_dict(r, node, f);
    case NODE_COND:
        return eval_cond(r, node, f);
    case NODE_AND:
    case NODE_OR:
        return eval_logic(r, node, f);
    case NODE_NOT:
        return value_bool(!value_truth(template_eval(r, node->a, f)));
    case NODE_COMPARE:
        return eval_compare(r, node, f);
    case NODE_BINARY:
        return eval_binary(r, node, f);
    case NODE_UNARY:
        v = template_eval(r, node->a, f);
        return r->rc == 0 ? template_unary(r, (enum token_type)node->op, v) : v;
    case NODE_CONCAT:
        return eval_concat(r, node, f);
    case NODE_FILTER:
    case NODE_TEST:
        return eval_filter(r, node, f);
    case NODE_CALL:
        return eval_call(r, node, f);
    case NODE_ATTR:
        v = template_eval(r, node->a, f);
        return r->rc == 0 ? template_getattr(r, v, node->v) : v;
    case NODE_ITEM:
        return eval_item(r, node, f);
    default:
        return template_fail(r, "not an expression");
    }
}

struct value template_eval(struct render *r, const struct node *node, struct frame *f)
{
    struct value v = value_null();

    if (template_push(r))
        v = eval(r, node, f);
    template_pop(r);
    return v;
}
