/* core/jinja/scope.c - resolves names to variables.
 *
 * Jinja decides that before a template runs. Each loop, macro, call block, set block, filter block
 * and with has variables of its own; an if has not. A scope is looked at as a whole first: a name
 * that is read before it is set there, or set in only some branches of an if, begins with the value
 * from outside; a name that is only set begins with none. Only then do the scopes inside see which
 * names the outer one has. The same two passes are made here, because the odd cases follow from
 * them.
 */
#include "core/jinja/template_impl.h"

#include "core/base/err.h"
#include "core/base/mem.h"

#include <string.h>

struct symbol {
    uint8_t load; /* enum load_kind */
    bool known, stored;
    uint32_t up, from;
};

struct symbols { /* names of a scope at one point of the first pass */
    struct parser *p;
    struct symbols *parent;
    struct value names; /* dict: name to slot; shared by the copies for branches */
    struct symbol *at;  /* symbols by slot */
    uint32_t n;
};

static void symbols_init(struct symbols *s, struct parser *p, struct symbols *parent)
{
    *s = (struct symbols){.p = p, .parent = parent, .names = value_dict(p->pool)};
}

static void symbols_release(struct symbols *s)
{
    mem_free(s->at);
    s->at = NULL;
}

static bool out_of_memory(struct parser *p)
{
    if (p->pool->err < 0)
        template_lex_fail(&p->lex, 1, p->pool->err, "the template is too large");
    return p->lex.rc < 0;
}

/* Return the symbol in this scope, made if there is none; NULL without memory. */
static struct symbol *symbol_at(struct symbols *s, struct value name)
{
    const struct value *slot = value_dict_find(s->names, name);
    const uint32_t i = slot != NULL ? (uint32_t)slot->i : s->names.kind == VALUE_DICT
                                                              ? s->names.dict->n
                                                              : 0;

    if (slot == NULL)
        value_dict_put(s->p->pool, s->names, name, value_int(i));
    if (out_of_memory(s->p))
        return NULL;
    if (i >= s->n) {
        const uint32_t n = i + 8;
        struct symbol *at = mem_realloc(s->at, n * sizeof(*at));

        if (at == NULL) {
            template_lex_fail(&s->p->lex, 1, ERR_NOMEM, "no memory for a name");
            return NULL;
        }
        memset(at + s->n, 0, (n - s->n) * sizeof(*at));
        s->at = at;
        s->n = n;
    }
    return &s->at[i];
}

/* Find the variable of that name: scopes outwards and slot. */
static bool find_ref(const struct symbols *s, struct value name, uint32_t *up, uint32_t *slot)
{
    for (*up = 0; s != NULL; s = s->parent, (*up)++) {
        const struct value *found = value_dict_find(s->names, name);

        if (found != NULL && found->i < s->n && s->at[found->i].known) {
            *slot = (uint32_t)found->i;
            return true;
        }
    }
    return false;
}

static void load_name(struct symbols *s, struct value name)
{
    uint32_t up, slot;
    struct symbol *symbol;

    if (find_ref(s, name, &up, &slot))
        return;
    symbol = symbol_at(s, name);
    if (symbol != NULL)
        *symbol = (struct symbol){.load = LOAD_GLOBAL, .known = true, .stored = symbol->stored};
}

/* Let the symbol begin with the value of the outer scope's variable, if it has one. */
static bool alias(const struct symbols *s, struct value name, struct symbol *symbol)
{
    uint32_t up, slot;

    if (s->parent == NULL || !find_ref(s->parent, name, &up, &slot))
        return false;
    symbol->load = LOAD_OUTER;
    symbol->up = up + 1;
    symbol->from = slot;
    return true;
}

static void store_name(struct symbols *s, struct value name)
{
    struct symbol *symbol = symbol_at(s, name);

    if (symbol == NULL)
        return;
    symbol->stored = true;
    if (symbol->known)
        return;
    symbol->known = true;
    if (!alias(s, name, symbol))
        symbol->load = LOAD_MISSING;
}

static uint32_t declare(struct symbols *s, struct value name)
{
    struct symbol *symbol = symbol_at(s, name);

    if (symbol == NULL)
        return 0;
    *symbol = (struct symbol){.load = LOAD_PARAM, .known = true, .stored = true};
    return (uint32_t)(symbol - s->at);
}

/* --- first pass --- */

static void look_through(struct symbols *s, const struct node *node);

static void look_list(struct symbols *s, const struct node_list *list)
{
    for (uint32_t i = 0; i < list->n; i++)
        look_through(s, list->at[i]);
}

static bool copy_symbols(struct symbols *copy, const struct symbols *s)
{
    *copy = *s;
    copy->at = s->n > 0 ? mem_dup(s->at, s->n * sizeof(*s->at)) : NULL;
    if (s->n > 0 && copy->at == NULL) {
        template_lex_fail(&s->p->lex, 1, ERR_NOMEM, "no memory for names");
        return false;
    }
    return true;
}

/* Merge the symbols of a branch. A name that only branches have set keeps its value from before
 * where its branch is not taken. */
static void merge_branch(struct symbols *s, const struct symbols *before,
                         const struct symbols *branch)
{
    const struct value_dict *names = s->names.dict;

    for (uint32_t i = 0; i < names->n && i < branch->n; i++) {
        const struct symbol *from = &branch->at[i];
        struct symbol *symbol;

        if (!from->known)
            continue;
        symbol = symbol_at(s, names->at[i].key);
        if (symbol == NULL)
            return;
        *symbol = (struct symbol){.load = from->load, .known = true, .up = from->up,
                                  .from = from->from, .stored = symbol->stored || from->stored};
        if (from->stored && !(i < before->n && before->at[i].stored) &&
            !alias(s, names->at[i].key, symbol))
            symbol->load = LOAD_GLOBAL;
    }
}

static void look_if(struct symbols *s, const struct node *node, bool is_elif)
{
    struct symbols before, branch[3] = {{0}};

    look_through(s, node->a);
    if (!copy_symbols(&before, s))
        return;
    for (int i = 0; i < 3 && s->p->lex.rc == 0; i++) {
        if (!copy_symbols(&branch[i], &before))
            break;
        if (i == 0)
            look_list(&branch[i], &node->list);
        else if (i == 1 && !is_elif)
            for (const struct node *other = node->b; other != NULL; other = other->c)
                look_if(&branch[i], other, true);
        else if (i == 2 && !is_elif)
            look_list(&branch[i], &node->list2);
    }
    for (int i = 0; i < 3; i++) {
        if (s->p->lex.rc == 0)
            merge_branch(s, &before, &branch[i]);
        symbols_release(&branch[i]);
    }
    symbols_release(&before);
}

static void look_name(struct symbols *s, const struct node *node)
{
    if (node->op == NAME_LOAD)
        load_name(s, node->v);
    else if (node->op == NAME_STORE)
        store_name(s, node->v);
    else
        declare(s, node->v);
}

/* Look at the names of this scope; the insides of other scopes are skipped. */
static void look_through(struct symbols *s, const struct node *node)
{
    if (node == NULL || s->p->lex.rc < 0)
        return;
    switch ((enum node_type)node->type) {
    case NODE_NAME:
        look_name(s, node);
        return;
    case NODE_NSREF:
        load_name(s, node->v);
        return;
    case NODE_IF:
        look_if(s, node, false);
        return;
    case NODE_MACRO:
        store_name(s, node->v);
        return;
    case NODE_SET:
        look_through(s, node->b);
        look_through(s, node->a);
        return;
    case NODE_FOR:
        look_through(s, node->b);
        return;
    case NODE_CALL_BLOCK:
    case NODE_FILTER_BLOCK:
    case NODE_SET_BLOCK:
        look_through(s, node->a);
        return;
    case NODE_WITH:
        look_through(s, node->c);
        return;
    default:
        look_through(s, node->a);
        look_through(s, node->b);
        look_through(s, node->c);
        look_list(s, &node->list);
        look_list(s, &node->list2);
    }
}

/* The target of a loop: its names are parameters of the scope. */
static void look_target(struct symbols *s, const struct node *node)
{
    if (node == NULL || s->p->lex.rc < 0)
        return;
    if (node->type == NODE_NAME)
        declare(s, node->v);
    for (uint32_t i = 0; i < node->list.n; i++)
        look_target(s, node->list.at[i]);
}

/* --- the special names of macros --- */

enum special { SPECIAL_CALLER = 0, SPECIAL_KWARGS, SPECIAL_VARARGS, SPECIAL_COUNT };
static const char *const specials[] = {"caller", "kwargs", "varargs"};

enum sighting { NOT_SEEN = 0, SEEN_READ, SEEN_SET };

static void search(const struct node *node, enum sighting seen[SPECIAL_COUNT]);

static void search_list(const struct node_list *list, enum sighting seen[SPECIAL_COUNT])
{
    for (uint32_t i = 0; i < list->n; i++)
        search(list->at[i], seen);
}

/* Find special names that are read anywhere inside before anything is set under that name. */
static void search(const struct node *node, enum sighting seen[SPECIAL_COUNT])
{
    if (node == NULL)
        return;
    if (node->type == NODE_NAME) {
        for (int i = 0; i < SPECIAL_COUNT; i++)
            if (seen[i] == NOT_SEEN && value_is_text(node->v, specials[i]))
                seen[i] = node->op == NAME_LOAD ? SEEN_READ : SEEN_SET;
        return;
    }
    if (node->type == NODE_IF) {
        search(node->a, seen);
        search_list(&node->list, seen);
        for (const struct node *other = node->b; other != NULL; other = other->c) {
            search(other->a, seen);
            search_list(&other->list, seen);
        }
        search_list(&node->list2, seen);
        return;
    }
    if (node->type != NODE_MACRO)
        search(node->a, seen);
    search(node->b, seen);
    search_list(&node->list, seen);
    search(node->c, seen);
    search_list(&node->list2, seen);
}

/* --- second pass --- */

struct context { /* position of the second pass */
    struct symbols *s;
    bool soft;    /* in a branch: an unknown filter fails only when it is used */
    bool in_loop; /* `loop` may not be set here */
};

static void settle_names(const struct context *at, struct node *node);

static void settle_list(const struct context *at, const struct node_list *list)
{
    for (uint32_t i = 0; i < list->n; i++)
        settle_names(at, list->at[i]);
}

/* Make the scope in the evaluator's form. */
static struct scope *finish_scope(const struct symbols *s)
{
    struct parser *p = s->p;
    const uint32_t n = s->names.kind == VALUE_DICT ? s->names.dict->n : 0;
    struct scope *scope = value_pool_alloc(p->pool, sizeof(*scope));

    if (scope != NULL)
        scope->loads = value_pool_alloc(p->pool, n * sizeof(*scope->loads));
    if (out_of_memory(p))
        return NULL;
    scope->n_slots = n;
    for (uint32_t i = 0; i < n && i < s->n; i++) {
        const struct symbol *symbol = &s->at[i];

        if (!symbol->known || symbol->load == LOAD_PARAM || symbol->load == LOAD_MISSING)
            continue;
        scope->loads[scope->n_loads++] =
            (struct scope_load){.kind = symbol->load, .slot = i, .up = symbol->up,
                                .from = symbol->from, .name = s->names.dict->at[i].key};
    }
    return scope;
}

static void settle_name(const struct context *at, struct node *node)
{
    struct parser *p = at->s->p;

    if (node->op == NAME_STORE && at->in_loop && value_is_text(node->v, "loop"))
        template_fail_at(p, node->line, "cannot assign to 'loop' inside of a loop");
    if (!find_ref(at->s, node->v, &node->up, &node->slot))
        template_fail_at(p, node->line, "the name '%.*s' cannot be used here", (int)node->v.n,
                         node->v.s);
}

static struct node *clone_target(struct parser *p, const struct node *node)
{
    struct node *copy = template_node(p, (enum node_type)node->type, node->line);

    if (copy == NULL)
        return NULL;
    *copy = *node;
    copy->list = (struct node_list){0};
    for (uint32_t i = 0; i < node->list.n; i++)
        template_node_add(p, &copy->list, clone_target(p, node->list.at[i]));
    return copy;
}

static void settle_test(const struct context *at, struct node *node)
{
    struct symbols s;
    struct context inside = {.s = &s, .in_loop = true};

    if (node->c == NULL)
        return;
    symbols_init(&s, at->s->p, at->s);
    node->d = clone_target(at->s->p, node->a);
    look_target(&s, node->d);
    look_through(&s, node->c);
    settle_names(&inside, node->d);
    settle_names(&inside, node->c);
    if (node->scope != NULL)
        node->scope->test = finish_scope(&s);
    symbols_release(&s);
}

static void settle_for(const struct context *at, struct node *node)
{
    struct symbols s, other;
    struct context inside = {.s = &s, .in_loop = true};
    uint32_t loop;

    settle_names(at, node->b);
    symbols_init(&s, at->s->p, at->s);
    loop = declare(&s, value_text("loop"));
    look_target(&s, node->a);
    look_list(&s, &node->list);
    settle_names(&inside, node->a);
    settle_list(&inside, &node->list);
    node->scope = finish_scope(&s);
    symbols_release(&s);
    if (node->scope == NULL)
        return;
    node->scope->loop = loop;
    settle_test(at, node);
    symbols_init(&other, at->s->p, at->s);
    inside.s = &other;
    look_list(&other, &node->list2);
    settle_list(&inside, &node->list2);
    node->scope->other = finish_scope(&other);
    symbols_release(&other);
}

static bool has_param(const struct node *node, const char *name)
{
    for (uint32_t i = 0; i < node->list.n; i++)
        if (value_is_text(node->list.at[i]->v, name))
            return true;
    return false;
}

/* Check that "caller" as a parameter has a default, because not every call gives one. */
static void check_caller(struct parser *p, const struct node *node)
{
    const uint32_t first = node->list.n - node->c->list.n;

    for (uint32_t i = 0; i < first; i++)
        if (value_is_text(node->list.at[i]->v, "caller"))
            template_fail_at(p, node->line, "the parameter 'caller' needs a default");
}

static void settle_callable(const struct context *at, struct node *node)
{
    enum sighting seen[SPECIAL_COUNT] = {NOT_SEEN};
    struct symbols s;
    const struct context inside = {.s = &s, .in_loop = at->in_loop};
    uint32_t slots[SPECIAL_COUNT] = {0};

    symbols_init(&s, at->s->p, at->s);
    look_list(&s, &node->list);
    search_list(&node->list2, seen);
    for (int i = 0; i < SPECIAL_COUNT; i++)
        if (seen[i] == SEEN_READ && !has_param(node, specials[i]))
            slots[i] = declare(&s, value_text(specials[i]));
    if (seen[SPECIAL_CALLER] == SEEN_READ && node->list.n >= node->c->list.n)
        check_caller(at->s->p, node);
    look_through(&s, node->c);
    look_list(&s, &node->list2);
    settle_list(&inside, &node->list);
    settle_names(&inside, node->c);
    settle_list(&inside, &node->list2);
    node->scope = finish_scope(&s);
    symbols_release(&s);
    if (node->scope == NULL)
        return;
    node->takes_caller = seen[SPECIAL_CALLER] == SEEN_READ;
    node->takes_kwargs = seen[SPECIAL_KWARGS] == SEEN_READ && !has_param(node, "kwargs");
    node->takes_varargs = seen[SPECIAL_VARARGS] == SEEN_READ && !has_param(node, "varargs");
    node->scope->caller = slots[SPECIAL_CALLER];
    node->scope->kwargs = slots[SPECIAL_KWARGS];
    node->scope->varargs = slots[SPECIAL_VARARGS];
}

/* Settle a set or filter block, or with: `body` and `filter` are inside, as are the targets of
 * with. */
static void settle_block(const struct context *at, struct node *node,
                         const struct node_list *targets, const struct node_list *body,
                         struct node *filter)
{
    struct symbols s;
    const struct context inside = {.s = &s, .in_loop = at->in_loop};

    symbols_init(&s, at->s->p, at->s);
    if (targets != NULL)
        look_list(&s, targets);
    look_list(&s, body);
    look_through(&s, filter);
    if (targets != NULL)
        settle_list(&inside, targets);
    settle_list(&inside, body);
    settle_names(&inside, filter);
    node->scope = finish_scope(&s);
    symbols_release(&s);
}

static void settle_if(const struct context *at, const struct node *node)
{
    const struct context inside = {.s = at->s, .soft = true, .in_loop = at->in_loop};

    settle_names(&inside, node->a);
    settle_list(&inside, &node->list);
    for (const struct node *other = node->b; other != NULL; other = other->c) {
        settle_names(&inside, other->a);
        settle_list(&inside, &other->list);
    }
    settle_list(&inside, &node->list2);
}

static void settle_children(const struct context *at, struct node *node)
{
    struct context inside = *at;

    inside.soft = at->soft || node->type == NODE_COND;
    settle_names(&inside, node->a);
    settle_names(&inside, node->b);
    settle_names(&inside, node->c);
    settle_list(&inside, &node->list);
    settle_list(&inside, &node->list2);
}

static void settle_builtin(const struct context *at, struct node *node)
{
    const bool is_filter = node->type == NODE_FILTER;

    node->builtin = is_filter ? template_filter(node->v) : template_test(node->v);
    if (node->builtin == NULL && !at->soft)
        template_fail_at(at->s->p, node->line, "no %s named '%.*s'", is_filter ? "filter" : "test",
                         (int)node->v.n, node->v.s);
    settle_children(at, node);
}

static void settle_names(const struct context *at, struct node *node)
{
    if (node == NULL || at->s->p->lex.rc < 0)
        return;
    switch ((enum node_type)node->type) {
    case NODE_NAME:
    case NODE_NSREF:
        settle_name(at, node);
        return;
    case NODE_FILTER:
    case NODE_TEST:
        settle_builtin(at, node);
        return;
    case NODE_IF:
        settle_if(at, node);
        return;
    case NODE_FOR:
        settle_for(at, node);
        return;
    case NODE_MACRO:
        if (!find_ref(at->s, node->v, &node->a->up, &node->a->slot))
            return;
        settle_callable(at, node);
        return;
    case NODE_CALL_BLOCK:
        settle_names(at, node->a);
        settle_callable(at, node);
        return;
    case NODE_SET_BLOCK:
        settle_names(at, node->a);
        settle_block(at, node, NULL, &node->list, node->b);
        return;
    case NODE_FILTER_BLOCK:
        settle_block(at, node, NULL, &node->list, node->a);
        return;
    case NODE_WITH:
        settle_names(at, node->c);
        settle_block(at, node, &node->list, &node->list2, NULL);
        return;
    default:
        settle_children(at, node);
    }
}

int template_resolve(struct parser *p, struct node_list body, struct scope **root)
{
    struct symbols s;
    const struct context at = {.s = &s};

    symbols_init(&s, p, NULL);
    look_list(&s, &body);
    settle_list(&at, &body);
    *root = finish_scope(&s);
    symbols_release(&s);
    return p->lex.rc;
}
