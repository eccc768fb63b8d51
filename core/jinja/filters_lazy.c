/* core/jinja/filters_lazy.c - filters that compute items only when they are asked for.
 *
 * jinja2's map, select and their like give Python generators, and templates can notice: an item
 * that is never read is never computed, and its error never occurs. So each is a state in the pool
 * with a pull function, called by the walk over it (iter.c), which gives one item or ends.
 */
#include "core/jinja/filters.h"

#include <string.h>

/* A generator that computes all items when the first is asked for, so that an error in the input
 * does not count if no item is. */
struct later {
    struct value (*compute)(struct render *r, struct value v, const struct value *a);
    struct value v, a[TEMPLATE_MAX_PARAMS];
    struct value_list *list; /* NULL until the first item is asked for */
    uint32_t i;
};

static bool pull_later(struct render *r, void *state, struct value *item)
{
    struct later *l = state;

    if (l->list == NULL) {
        const struct value list = l->compute(r, l->v, l->a);

        if (!template_step(r, 0))
            return false;
        l->list = list.list;
    }
    if (l->i == l->list->n)
        return false;
    *item = l->list->at[l->i++];
    return true;
}

struct value filter_later(struct render *r, struct value v, const struct value *a,
                          struct value (*compute)(struct render *r, struct value v,
                                                  const struct value *a))
{
    struct later *l = value_pool_alloc(r->pool, sizeof(*l));

    if (l == NULL)
        return value_int(template_step(r, 0));
    l->compute = compute;
    l->v = v;
    memcpy(l->a, a, sizeof(l->a));
    return template_new_pull(r, pull_later, l);
}

/* --- one item at a time --- */

struct lazy {
    struct iter it;
    struct args args;
    const struct template_builtin *builtin; /* map's filter or the test; NULL: none yet */
    struct value path;                      /* for map(attribute=...) and selectattr */
    struct value otherwise;
    bool keep;    /* keep the items that pass the test, or those that fail it */
    bool by_path; /* test a member of the item */
    bool begun;
};

/* Take the first argument as the name of `builtin`; the others are its arguments. */
static bool take_builtin(struct render *r, struct lazy *z,
                         const struct template_builtin *builtin, const char *kind)
{
    const struct value name = z->args.at[0];

    z->builtin = builtin;
    if (builtin == NULL)
        template_fail(r, "No %s named '%.*s'.", kind, (int)name.n,
                      name.kind == VALUE_STRING ? name.s : "");
    z->args.at++;
    z->args.n--;
    return r->rc == 0;
}

static bool begin_map(struct render *r, struct lazy *z)
{
    for (uint32_t i = 0; z->args.n == 0 && i < z->args.n_kw; i++)
        if (value_is_text(z->args.kw[i].name, "attribute"))
            z->by_path = true;
    for (uint32_t i = 0; z->by_path && i < z->args.n_kw; i++) {
        const struct kwarg *kw = &z->args.kw[i];

        if (value_is_text(kw->name, "attribute"))
            z->path = kw->value;
        else if (value_is_text(kw->name, "default"))
            z->otherwise = kw->value;
        else
            template_fail(r, "Unexpected keyword argument '%.*s'", (int)kw->name.n, kw->name.s);
    }
    if (!z->by_path && z->args.n == 0)
        template_fail(r, "map requires a filter argument");
    if (r->rc < 0 || z->by_path)
        return r->rc == 0;
    return take_builtin(r, z, template_filter(z->args.at[0]), "filter");
}

static bool pull_map(struct render *r, void *state, struct value *item)
{
    struct lazy *z = state;

    if (!template_iter_next(r, &z->it, item))
        return false;
    if (!z->begun && !begin_map(r, z))
        return false;
    z->begun = true;
    *item = z->by_path ? filter_member(r, *item, z->path, z->otherwise)
                       : template_call_builtin(r, z->builtin, *item, &z->args);
    return r->rc == 0;
}

static bool begin_select(struct render *r, struct lazy *z)
{
    if (z->by_path) {
        if (z->args.n == 0) {
            template_fail(r, "Missing parameter for attribute name");
            return false;
        }
        z->path = z->args.at[0];
        z->args.at++;
        z->args.n--;
    }
    if (z->args.n == 0)
        return true;
    return take_builtin(r, z, template_test(z->args.at[0]), "test");
}

static bool pull_select(struct render *r, void *state, struct value *item)
{
    struct lazy *z = state;

    while (template_iter_next(r, &z->it, item)) {
        struct value v = *item;

        if (!z->begun && !begin_select(r, z))
            return false;
        z->begun = true;
        if (z->by_path)
            v = filter_member(r, v, z->path, z->otherwise);
        if (r->rc == 0 && z->builtin != NULL)
            v = template_call_builtin(r, z->builtin, v, &z->args);
        if (r->rc < 0)
            return false;
        if (value_truth(v) == z->keep)
            return true;
    }
    return false;
}

/* A value that is not true (none, "") need not be a list. */
static struct value lazy(struct render *r, struct value v, const struct args *args,
                         template_pull pull, bool keep, bool by_path)
{
    struct lazy *z = value_pool_alloc(r->pool, sizeof(*z));

    if (!value_truth(v))
        return template_new_generator(r, value_list(r->pool));
    if (z == NULL)
        return value_int(template_step(r, 0));
    *z = (struct lazy){.it = {.of = v}, .args = *args, .path = {.kind = VALUE_MISSING},
                       .otherwise = {.kind = VALUE_MISSING}, .keep = keep, .by_path = by_path};
    if (!template_iterable(v))
        return template_fail(r, "'%s' object is not iterable", value_type_name(v));
    return template_new_pull(r, pull, z);
}

struct value filter_map(struct render *r, struct value v, const struct args *args)
{
    return lazy(r, v, args, pull_map, true, false);
}

struct value filter_select(struct render *r, struct value v, const struct args *args)
{
    return lazy(r, v, args, pull_select, true, false);
}

struct value filter_reject(struct render *r, struct value v, const struct args *args)
{
    return lazy(r, v, args, pull_select, false, false);
}

struct value filter_selectattr(struct render *r, struct value v, const struct args *args)
{
    return lazy(r, v, args, pull_select, true, true);
}

struct value filter_rejectattr(struct render *r, struct value v, const struct args *args)
{
    return lazy(r, v, args, pull_select, false, true);
}
