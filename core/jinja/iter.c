/* core/jinja/iter.c - walking over values; ranges, dict views and generators.
 *
 * struct iter walks over any value that Python could: lists, dicts (their keys), strings
 * (characters), ranges, views, generators and loops, one item at a call and without a list of all
 * items. Ranges and views keep only bounds or a reference. A generator keeps its position in the
 * pool, so it can be walked once, by whichever loop comes first.
 */
#include "core/jinja/template_impl.h"

#include "core/base/err.h"
#include "core/base/unicode.h"

struct range {
    int64_t start, stop, step, n;
};

struct view {
    struct value_dict *dict;
    enum template_view what;
};

struct generator {
    struct value_list *list; /* or NULL: `pull` gives the items */
    uint32_t i;
    template_pull pull;
    void *state;
};

static struct value object(struct render *r, enum value_kind kind, void *p)
{
    struct value v = {.kind = (uint8_t)kind, .object = p};

    if (p == NULL) {
        template_step(r, 0);
        return value_null();
    }
    return v;
}

struct value template_new_view(struct render *r, struct value dict, enum template_view what)
{
    struct view *view = value_pool_alloc(r->pool, sizeof(*view));

    if (view != NULL)
        *view = (struct view){dict.dict, what};
    return object(r, VALUE_VIEW, view);
}

const struct value_dict *template_view_dict(struct value v)
{
    return ((const struct view *)v.object)->dict;
}

enum template_view template_view_kind(struct value v)
{
    return ((const struct view *)v.object)->what;
}

struct value template_new_range(struct render *r, int64_t start, int64_t stop, int64_t step)
{
    struct range *range = value_pool_alloc(r->pool, sizeof(*range));
    const __int128 span = step > 0 ? (__int128)stop - start : (__int128)start - stop;
    const __int128 by = step > 0 ? (__int128)step : -(__int128)step;

    if (range != NULL) {
        *range = (struct range){.start = start, .stop = stop, .step = step};
        range->n = span > 0 ? (int64_t)((span - 1) / by + 1) : 0;
    }
    return object(r, VALUE_RANGE, range);
}

int64_t template_range_length(struct value v)
{
    return ((const struct range *)v.object)->n;
}

int64_t template_range_at(struct value v, int64_t i)
{
    const struct range *range = (const struct range *)v.object;

    return range->start + i * range->step;
}

void template_range_bounds(struct value v, int64_t *start, int64_t *stop, int64_t *step)
{
    const struct range *range = (const struct range *)v.object;

    *start = range->start;
    *stop = range->stop;
    *step = range->step;
}

bool template_range_equal(struct value a, struct value b)
{
    const struct range *x = (const struct range *)a.object, *y = (const struct range *)b.object;

    return x->n == y->n &&
           (x->n == 0 || (x->start == y->start && (x->n == 1 || x->step == y->step)));
}

struct value template_new_generator(struct render *r, struct value list)
{
    struct generator *g = value_pool_alloc(r->pool, sizeof(*g));

    if (r->rc < 0)
        return value_null();
    if (g != NULL)
        *g = (struct generator){.list = list.list};
    return object(r, VALUE_GENERATOR, g);
}

struct value template_new_pull(struct render *r, template_pull pull, void *state)
{
    struct generator *g = value_pool_alloc(r->pool, sizeof(*g));

    if (g != NULL)
        *g = (struct generator){.pull = pull, .state = state};
    return object(r, VALUE_GENERATOR, g);
}

bool template_iterable(struct value v)
{
    switch ((enum value_kind)v.kind) {
    case VALUE_UNDEFINED:
    case VALUE_STRING:
    case VALUE_LIST:
    case VALUE_TUPLE:
    case VALUE_DICT:
    case VALUE_RANGE:
    case VALUE_VIEW:
    case VALUE_GENERATOR:
    case VALUE_LOOP:
        return true;
    default:
        return false;
    }
}

bool template_iter(struct render *r, struct iter *it, struct value v)
{
    *it = (struct iter){.of = v};
    if (!template_iterable(v))
        template_fail(r, "'%s' object is not iterable", value_type_name(v));
    return r->rc == 0;
}

static bool next_of_text(struct iter *it, struct value *item)
{
    size_t len;

    if (it->i >= it->of.n)
        return false;
    unicode_at(it->of.s + it->i, it->of.n - it->i, &len);
    *item = template_piece(it->of, it->i, it->i + len);
    item->flags &= VALUE_ORIGIN; /* single characters are not safe, even from a safe string */
    it->i += len;
    return true;
}

static bool next_of_view(struct render *r, const struct iter *it, struct value *item)
{
    const struct view *view = (const struct view *)it->of.object;
    const struct value_pair *pair = &view->dict->at[it->i];

    if (view->what != TEMPLATE_ITEMS) {
        *item = view->what == TEMPLATE_KEYS ? pair->key : pair->value;
        return true;
    }
    *item = value_tuple(r->pool);
    value_list_add(r->pool, *item, pair->key);
    value_list_add(r->pool, *item, pair->value);
    return template_step(r, 0);
}

static bool next_of_generator(struct render *r, struct generator *g, struct value *item)
{
    bool more = false;

    if (g->list != NULL) {
        if (g->i == g->list->n)
            return false;
        *item = g->list->at[g->i++];
        return true;
    }
    if (template_push(r))
        more = g->pull(r, g->state, item);
    template_pop(r);
    return more && r->rc == 0;
}

bool template_iter_next(struct render *r, struct iter *it, struct value *item)
{
    if (!template_step(r, 1))
        return false;
    switch ((enum value_kind)it->of.kind) {
    case VALUE_STRING:
        return next_of_text(it, item);
    case VALUE_LIST:
    case VALUE_TUPLE:
        if (it->i >= it->of.list->n)
            return false;
        *item = it->of.list->at[it->i++];
        return true;
    case VALUE_DICT:
        if (it->i >= it->of.dict->n)
            return false;
        *item = it->of.dict->at[it->i++].key;
        return true;
    case VALUE_RANGE:
        if ((int64_t)it->i >= template_range_length(it->of))
            return false;
        *item = value_int(template_range_at(it->of, (int64_t)it->i++));
        return true;
    case VALUE_VIEW:
        if (it->i >= template_view_dict(it->of)->n || !next_of_view(r, it, item))
            return false;
        it->i++;
        return true;
    case VALUE_GENERATOR:
        return next_of_generator(r, (struct generator *)it->of.object, item);
    case VALUE_LOOP:
        return template_loop_next(r, it->of, item);
    default:
        return false;
    }
}

struct value template_listed(struct render *r, struct value v)
{
    const struct value list = value_list(r->pool);
    struct value item;
    struct iter it;

    if (template_iter(r, &it, v))
        while (template_iter_next(r, &it, &item))
            value_list_add(r->pool, list, item);
    template_step(r, 0);
    return list;
}

struct value template_reversed(struct render *r, struct value v)
{
    const struct value list = template_listed(r, v), back = value_list(r->pool);

    for (uint32_t i = r->rc == 0 ? list.list->n : 0; i > 0; i--)
        value_list_add(r->pool, back, list.list->at[i - 1]);
    return back;
}
