/* core/jinja/exec.c - executes statements.
 *
 * template_exec() runs a list of statements and tells by its result whether a break or continue
 * left it. Everything prints into one buffer; a block whose output is a value (set, filter, call,
 * macro) remembers the length, runs, and cuts its own text off again, so that no second buffer is
 * needed. Frames, one for each scope, are in the render's pool.
 */
#include "core/jinja/template_impl.h"

#include "core/base/err.h"

#include <string.h>

struct frame *template_frame(struct render *r, const struct scope *scope, struct frame *up)
{
    struct frame *f =
        value_pool_alloc(r->pool, sizeof(*f) + scope->n_slots * sizeof(struct value));

    if (f == NULL) {
        template_step(r, 0);
        return NULL;
    }
    f->up = up;
    f->slots = (struct value *)(f + 1);
    template_frame_fill(r, scope, f);
    return f;
}

static struct value global_named(const struct render *r, struct value name)
{
    const struct value *v = value_dict_find(*r->globals, name);

    if (v == NULL)
        v = template_global(name);
    return v != NULL ? *v : (struct value){.kind = VALUE_MISSING};
}

/* Give the variables of a scope their first values. */
void template_frame_fill(struct render *r, const struct scope *scope, struct frame *f)
{
    for (uint32_t i = 0; i < scope->n_slots; i++)
        f->slots[i] = (struct value){.kind = VALUE_MISSING};
    for (uint32_t i = 0; i < scope->n_loads; i++) {
        const struct scope_load *load = &scope->loads[i];
        const struct frame *from = f;

        if (load->kind == LOAD_GLOBAL) {
            f->slots[load->slot] = global_named(r, load->name);
            continue;
        }
        for (uint32_t up = load->up; up > 0; up--)
            from = from->up;
        f->slots[load->slot] = from->slots[load->from];
    }
    template_step(r, scope->n_slots / 4);
}

static void assign_member(struct render *r, const struct node *target, struct value v,
                          const struct frame *f)
{
    for (uint32_t up = target->up; up > 0; up--)
        f = f->up;
    if (f->slots[target->slot].kind != VALUE_NAMESPACE) {
        template_fail(r, "cannot assign attribute on non-namespace object");
        return;
    }
    value_dict_put(r->pool, f->slots[target->slot], target->w, v);
}

static void unpack(struct render *r, const struct node *target, struct value v, struct frame *f)
{
    struct iter it;
    struct value item;
    uint32_t n = 0;

    if (v.kind == VALUE_UNDEFINED || !template_iterable(v)) {
        if (v.kind == VALUE_UNDEFINED && target->list.n == 0)
            return;
        template_fail(r, v.kind == VALUE_UNDEFINED
                             ? "not enough values to unpack"
                             : "cannot unpack a value of type '%s'", value_type_name(v));
        return;
    }
    if (!template_iter(r, &it, v))
        return;
    while (template_iter_next(r, &it, &item)) {
        if (n == target->list.n) {
            template_fail(r, "too many values to unpack (expected %u)", n);
            return;
        }
        template_assign(r, target->list.at[n++], item, f);
    }
    if (r->rc == 0 && n < target->list.n)
        template_fail(r, "not enough values to unpack (expected %u, got %u)", target->list.n, n);
}

void template_assign(struct render *r, const struct node *target, struct value v, struct frame *f)
{
    if (r->rc < 0)
        return;
    if (target->type == NODE_TUPLE) {
        if (template_push(r))
            unpack(r, target, v, f);
        template_pop(r);
        return;
    }
    if (target->type == NODE_NSREF) {
        assign_member(r, target, v, f);
        return;
    }
    for (uint32_t up = target->up; up > 0; up--)
        f = f->up;
    f->slots[target->slot] = v;
}

static void exec_output(struct render *r, const struct node *node, struct frame *f)
{
    for (uint32_t i = 0; i < node->list.n && r->rc == 0; i++) {
        const struct node *item = node->list.at[i];

        if (item->type == NODE_CONST && item->v.kind == VALUE_STRING) {
            template_print(r, item->v);
            continue;
        }
        r->line = item->line;
        {
            const struct value v = template_eval(r, item, f);

            if (r->rc == 0 && v.kind == VALUE_STRING)
                template_print(r, v);
            else if (r->rc == 0)
                template_put(r, v, r->out);
        }
    }
}

static enum flow exec_if(struct render *r, const struct node *node, struct frame *f)
{
    if (value_truth(template_eval(r, node->a, f)))
        return template_exec(r, &node->list, f);
    for (const struct node *other = node->b; other != NULL && r->rc == 0; other = other->c) {
        r->line = other->line;
        if (value_truth(template_eval(r, other->a, f)))
            return template_exec(r, &other->list, f);
    }
    return template_exec(r, &node->list2, f);
}

bool template_all_text(struct render *r, uint32_t before)
{
    if (r->rc == 0 && r->n_not_text > before)
        template_fail(r, "a block gives a value that is not text");
    return r->rc == 0;
}

/* Run the body, remove the text that it printed from the output and return it. *flow: how the body
 * ended (break, continue). */
static struct value capture(struct render *r, const struct node_list *body, struct frame *f,
                            enum flow *flow)
{
    const uint32_t n_not_text = r->n_not_text;
    const size_t before = r->out->len;
    struct value v = value_text("");

    *flow = template_exec(r, body, f);
    if (!template_step(r, (r->out->len - before) / 64))
        return v;
    if (*flow != FLOW_NEXT)
        r->n_not_text = n_not_text;
    else if (!template_all_text(r, n_not_text))
        return v;
    v = template_unprint(r, before);
    return *flow == FLOW_NEXT ? v : value_text("");
}

struct value template_capture(struct render *r, const struct node_list *body, struct frame *f)
{
    enum flow flow;

    return capture(r, body, f, &flow);
}

/* Print a block's value, which must be a string, unlike that of {{ }}. */
static void write_text_node(struct render *r, struct value v)
{
    if (r->rc == 0 && v.kind != VALUE_STRING)
        r->n_not_text++;
    else if (r->rc == 0)
        template_print(r, v);
}

/* {% set x %} and {% filter f %}: the text of the body, filtered, is assigned or printed. */
static enum flow exec_captured(struct render *r, const struct node *node, struct frame *f)
{
    const bool is_set = node->type == NODE_SET_BLOCK;
    const struct node *filter = is_set ? node->b : node->a;
    struct frame *inside = template_frame(r, node->scope, f);
    enum flow flow;
    struct value v;

    if (inside == NULL)
        return FLOW_NEXT;
    v = capture(r, &node->list, inside, &flow);
    if (flow != FLOW_NEXT)
        return flow;
    if (filter != NULL)
        v = template_eval_filter(r, filter, v, inside);
    if (is_set)
        template_assign(r, node->a, v, f);
    else
        write_text_node(r, v);
    return FLOW_NEXT;
}

static enum flow exec_with(struct render *r, const struct node *node, struct frame *f)
{
    struct frame *inside = template_frame(r, node->scope, f);

    for (uint32_t i = 0; inside != NULL && i < node->list.n && r->rc == 0; i++)
        template_assign(r, node->list.at[i], template_eval(r, node->c->list.at[i], f), inside);
    return inside != NULL ? template_exec(r, &node->list2, inside) : FLOW_NEXT;
}

static void exec_call_block(struct render *r, const struct node *node, struct frame *f)
{
    const struct value caller = template_new_macro(r, node, f);
    struct args args = {0};
    struct value v;

    if (node->a == NULL) { /* a generation block */
        v = template_call(r, caller, &args);
    } else {
        const struct value callee = template_eval(r, node->a->a, f);

        if (r->rc < 0 || !template_eval_args(r, node->a, f, &args))
            return;
        /* eval_keywords() has left room for one more */
        args.kw[args.n_kw++] = (struct kwarg){value_text("caller"), caller};
        v = template_call(r, callee, &args);
    }
    write_text_node(r, v);
}

static enum flow exec_one(struct render *r, const struct node *node, struct frame *f)
{
    switch ((enum node_type)node->type) {
    case NODE_OUTPUT:
        exec_output(r, node, f);
        break;
    case NODE_IF:
        return exec_if(r, node, f);
    case NODE_FOR:
        return template_exec_for(r, node, f);
    case NODE_SET: {
        const struct value v = template_eval(r, node->b, f);

        template_assign(r, node->a, v, f);
        break;
    }
    case NODE_SET_BLOCK:
    case NODE_FILTER_BLOCK:
        return exec_captured(r, node, f);
    case NODE_WITH:
        return exec_with(r, node, f);
    case NODE_MACRO:
        template_assign(r, node->a, template_new_macro(r, node, f), f);
        break;
    case NODE_CALL_BLOCK:
        exec_call_block(r, node, f);
        break;
    case NODE_BREAK:
        return FLOW_BREAK;
    case NODE_CONTINUE:
        return FLOW_CONTINUE;
    default:
        template_fail(r, "not a statement");
    }
    return FLOW_NEXT;
}

enum flow template_exec(struct render *r, const struct node_list *body, struct frame *f)
{
    enum flow flow = FLOW_NEXT;

    if (!template_push(r))
        return FLOW_NEXT;
    for (uint32_t i = 0; i < body->n && flow == FLOW_NEXT; i++) {
        r->line = body->at[i]->line;
        flow = exec_one(r, body->at[i], f);
        if (!template_step(r, 1))
            break;
    }
    template_pop(r);
    return flow;
}
