/* core/jinja/loop.c - for loops, and the `loop` variable of a loop's body.
 *
 * A loop pulls items one by one and looks one ahead only if the body asks for loop.nextitem or
 * loop.last. Only if it asks for the length of something without one are all remaining items taken
 * into a list, `ahead`. A filter condition runs in a frame of its own before the body sees an item.
 * A recursive loop is called as a function and prints into a value.
 */
#include "core/jinja/template_impl.h"

#include "core/base/err.h"

#include <string.h>

struct loop {
    struct render *r; /* for finding the length when the loop is printed */
    const struct node *node; /* for a recursive call */
    struct frame *frame;     /* frame around the loop */
    struct iter it;
    struct frame *test_frame; /* frame of the condition */
    struct value_list *ahead; /* items that were taken early to count them; NULL: none */
    uint32_t i_ahead;
    struct value current, before, after; /* the items around this one; after: VALUE_MISSING unless
                                          * peek() has read it */
    struct value changed;                /* arguments of the last loop.changed() */
    int64_t index0, length;              /* length: -1 until it is known */
    uint32_t depth0;
};

static struct loop *loop_of(struct value v)
{
    return (struct loop *)v.object;
}

/* Take the next item from the loop's source that the condition accepts. */
static bool pull(struct render *r, struct loop *l, struct value *item)
{
    if (l->ahead != NULL) {
        if (l->i_ahead == l->ahead->n)
            return false;
        *item = l->ahead->at[l->i_ahead++];
        return true;
    }
    while (template_iter_next(r, &l->it, item)) {
        if (l->node->c == NULL)
            return true;
        template_frame_fill(r, l->node->scope->test, l->test_frame);
        template_assign(r, l->node->d, *item, l->test_frame);
        if (r->rc == 0 && value_truth(template_eval(r, l->node->c, l->test_frame)) && r->rc == 0)
            return true;
    }
    return false;
}

static bool advance_loop(struct render *r, struct loop *l)
{
    struct value item = l->after;

    if (item.kind == VALUE_MISSING && !pull(r, l, &item))
        return false;
    l->after = (struct value){.kind = VALUE_MISSING};
    l->index0++;
    l->before = l->current;
    l->current = item;
    return true;
}

bool template_loop_next(struct render *r, struct value loop, struct value *item)
{
    struct loop *l = loop_of(loop);

    if (!advance_loop(r, l))
        return false;
    *item = value_tuple(r->pool);
    value_list_add(r->pool, *item, l->current);
    value_list_add(r->pool, *item, loop);
    return template_step(r, 1);
}

/* Peek at the item after this one; VALUE_MISSING at the end. */
static struct value peek(struct render *r, struct loop *l)
{
    if (l->after.kind == VALUE_MISSING && !pull(r, l, &l->after))
        l->after = (struct value){.kind = VALUE_MISSING};
    return l->after;
}

/* Return the loop's length; if the source has none, all items are taken to count them. */
static int64_t length(struct render *r, struct loop *l)
{
    struct value list, item;

    if (l->length >= 0)
        return l->length;
    if (l->node->c == NULL && l->it.of.kind != VALUE_GENERATOR) {
        l->length = template_length(r, l->it.of);
        return l->length;
    }
    list = value_list(r->pool);
    while (r->rc == 0 && pull(r, l, &item))
        value_list_add(r->pool, list, item);
    if (!template_step(r, 0))
        return 0;
    l->ahead = list.list;
    l->i_ahead = 0;
    l->length = list.list->n + l->index0 + 1 + (l->after.kind != VALUE_MISSING);
    return l->length;
}

static struct loop *new_loop(struct render *r, const struct node *node, struct frame *f,
                             struct value over, uint32_t depth0)
{
    struct loop *l = value_pool_alloc(r->pool, sizeof(*l));

    if (l == NULL || !template_iter(r, &l->it, over))
        return NULL;
    l->r = r;
    l->node = node;
    l->frame = f;
    l->after = l->changed = (struct value){.kind = VALUE_MISSING};
    l->index0 = -1;
    l->length = -1;
    l->depth0 = depth0;
    if (node->c != NULL)
        l->test_frame = template_frame(r, node->scope->test, f);
    return r->rc == 0 ? l : NULL;
}

static enum flow run_loop(struct render *r, struct loop *l)
{
    const struct node *node = l->node;
    const struct value self = {.kind = VALUE_LOOP, .object = (struct template_object *)l};
    struct frame *inside = template_frame(r, node->scope, l->frame), *other;
    bool none = true; /* no round has reached the end of the body, so `else` runs */

    while (inside != NULL && r->rc == 0 && advance_loop(r, l)) {
        enum flow flow;

        r->line = node->line;
        template_frame_fill(r, node->scope, inside);
        inside->slots[node->scope->loop] = self;
        template_assign(r, node->a, l->current, inside);
        flow = template_exec(r, &node->list, inside);
        if (flow == FLOW_BREAK)
            break;
        none = none && flow == FLOW_CONTINUE;
    }
    if (!none || node->list2.n == 0 || r->rc < 0)
        return FLOW_NEXT;
    other = template_frame(r, node->scope->other, l->frame);
    return other != NULL ? template_exec(r, &node->list2, other) : FLOW_NEXT;
}

enum flow template_exec_for(struct render *r, const struct node *node, struct frame *f)
{
    const struct value over = template_eval(r, node->b, f);
    struct loop *l = r->rc == 0 ? new_loop(r, node, f, over, 0) : NULL;

    if (l == NULL) {
        template_step(r, 0);
        return FLOW_NEXT;
    }
    return run_loop(r, l);
}

/* loop(items): run the body again, one level deeper, and return its text. */
struct value template_loop_call(struct render *r, struct value loop, const struct args *args)
{
    const struct loop *outer = loop_of(loop);
    const uint32_t n_not_text = r->n_not_text;
    const size_t before = r->out->len;
    struct loop *l;

    if (args->n != 1 || args->n_kw > 0)
        return template_fail(r, "loop() takes one argument");
    if (!outer->node->recursive)
        return template_fail(
            r, "the loop must have the 'recursive' marker to be called recursively");
    if (template_push(r)) {
        l = new_loop(r, outer->node, outer->frame, args->at[0], outer->depth0 + 1);
        if (l != NULL)
            run_loop(r, l);
    }
    template_pop(r);
    if (!template_step(r, (r->out->len - before) / 64) || !template_all_text(r, n_not_text))
        return value_text("");
    return template_unprint(r, before);
}

int template_repr_loop(struct value v, struct buf *out)
{
    struct loop *l = loop_of(v);
    const int64_t n = length(l->r, l);

    return buf_printf(out, "<LoopContext %lld/%lld>", (long long)l->index0 + 1, (long long)n);
}

struct value template_loop_attr(struct render *r, struct value loop, struct value name, bool *found)
{
    struct loop *l = loop_of(loop);
    struct value v;

    *found = true;
    if (value_is_text(name, "index"))
        return value_int(l->index0 + 1);
    if (value_is_text(name, "index0"))
        return value_int(l->index0);
    if (value_is_text(name, "first"))
        return value_bool(l->index0 == 0);
    if (value_is_text(name, "last"))
        return value_bool(peek(r, l).kind == VALUE_MISSING);
    if (value_is_text(name, "length"))
        return value_int(length(r, l));
    if (value_is_text(name, "revindex"))
        return value_int(length(r, l) - l->index0);
    if (value_is_text(name, "revindex0"))
        return value_int(length(r, l) - l->index0 - 1);
    if (value_is_text(name, "depth"))
        return value_int(l->depth0 + 1);
    if (value_is_text(name, "depth0"))
        return value_int(l->depth0);
    if (value_is_text(name, "previtem"))
        return l->index0 == 0 ? template_undefined_hint("there is no previous item") : l->before;
    if (value_is_text(name, "nextitem")) {
        v = peek(r, l);
        return v.kind == VALUE_MISSING ? template_undefined_hint("there is no next item") : v;
    }
    *found = false;
    return value_null();
}

struct value template_loop_cycle(struct render *r, struct value loop, const struct args *args)
{
    if (args->n == 0 || args->n_kw > 0)
        return template_fail(r, "no items for cycling given");
    return args->at[loop_of(loop)->index0 % args->n];
}

struct value template_loop_changed(struct render *r, struct value loop, const struct args *args)
{
    struct loop *l = loop_of(loop);
    const struct value now = value_tuple(r->pool);

    if (args->n_kw > 0)
        return template_fail(r, "changed() takes no keyword arguments");
    for (uint32_t i = 0; i < args->n; i++)
        value_list_add(r->pool, now, args->at[i]);
    if (!template_step(r, args->n))
        return value_null();
    if (l->changed.kind != VALUE_MISSING && template_equal(r, l->changed, now))
        return value_bool(false);
    l->changed = now;
    return value_bool(true);
}
