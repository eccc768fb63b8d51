/* core/grammar/expr.c - makes expressions, as nodes that are shared.
 *
 * expr_node() looks a node up in a hash table and returns the number of an equal one. The
 * constructors bring a node into a normal form first: a THEN leans to the right, an OR or AND is a
 * list of members sorted by number without duplicates. Each different node becomes a state of the
 * automaton, so without the normal form an expression could have infinitely many states. After an
 * error all constructors return EXPR_NONE, so callers check once at the end.
 */
#include "core/grammar/expr_impl.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/base/unicode.h"

#include <string.h>

int expr_create(struct expr_set **out, struct grammar_builder *b, const struct char_class *alphabet)
{
    struct expr_set *e = *out = mem_calloc(1, sizeof(**out));

    if (e != NULL) {
        e->b = b;
        e->slots = mem_calloc(EXPR_SLOTS, sizeof(*e->slots));
        e->pool = mem_alloc(EXPR_MAX_RANGES * sizeof(*e->pool));
    }
    if (e == NULL || e->slots == NULL || e->pool == NULL) {
        expr_destroy(out);
        grammar_builder_fail(b, ERR_NOMEM, "out of memory");
        return ERR_NOMEM;
    }
    grammar_builder_spend(b, EXPR_SLOTS / 10);
    expr_node(e, (struct expr_node){.kind = KIND_NONE});
    expr_node(e, (struct expr_node){.kind = KIND_EMPTY, .has_empty = true});
    expr_node(e, (struct expr_node){.kind = KIND_NOT, .a = EXPR_NONE, .has_empty = true});
    expr_class(e, alphabet); /* the alphabet is class 0 */
    return grammar_builder_error(b);
}

void expr_destroy(struct expr_set **set)
{
    struct expr_set *e = set != NULL ? *set : NULL;

    if (e == NULL)
        return;
    mem_free(e->nodes);
    mem_free(e->slots);
    mem_free(e->pool);
    mem_free(e->ranges);
    mem_free(e->derived);
    mem_free(e);
    *set = NULL;
}

bool expr_has_failed(const struct expr_set *e)
{
    return grammar_builder_error(e->b) != 0;
}

/* ---- nodes ---- */

static bool is_same_expr(const struct expr_node *x, const struct expr_node *y)
{
    return x->kind == y->kind && x->a == y->a && x->b == y->b && x->max == y->max;
}

static bool grow_exprs(struct expr_set *e)
{
    const uint32_t cap = e->cap_nodes > 0 ? 2 * e->cap_nodes : 256;
    struct expr_node *nodes;

    if (e->n_nodes < e->cap_nodes)
        return true;
    if (cap > EXPR_MAX_NODES) {
        grammar_builder_fail(e->b, ERR_LIMIT, "its automaton is too large");
        return false;
    }
    nodes = mem_realloc(e->nodes, cap * sizeof(*nodes));
    if (nodes == NULL) {
        grammar_builder_fail(e->b, ERR_NOMEM, "out of memory");
        return false;
    }
    e->nodes = nodes;
    e->cap_nodes = cap;
    return true;
}

uint32_t expr_node(struct expr_set *e, struct expr_node node)
{
    uint64_t hash = ((uint64_t)node.kind << 56) ^ ((uint64_t)node.a << 28) ^ node.b;
    uint32_t at;

    hash = (hash ^ (uint64_t)node.max << 13) * 0x9e3779b97f4a7c15u;
    if (grammar_builder_spend(e->b, 3) < 0 || !grow_exprs(e))
        return EXPR_NONE;
    if (node.depth > EXPR_MAX_DEPTH) {
        grammar_builder_fail(e->b, ERR_LIMIT, "its automaton is too large");
        return EXPR_NONE;
    }
    for (at = (uint32_t)(hash >> 32) % EXPR_SLOTS; e->slots[at] != 0; at = (at + 1) % EXPR_SLOTS)
        if (is_same_expr(&e->nodes[e->slots[at] - 1], &node))
            return e->slots[at] - 1;
    e->nodes[e->n_nodes] = node;
    e->slots[at] = ++e->n_nodes;
    return e->n_nodes - 1;
}

static const struct expr_node *node_at(const struct expr_set *e, uint32_t n)
{
    return &e->nodes[n];
}

bool expr_has_empty(const struct expr_set *e, uint32_t a)
{
    return !expr_has_failed(e) && node_at(e, a)->has_empty;
}

static uint16_t deeper(const struct expr_set *e, uint32_t a, uint32_t b)
{
    const uint16_t x = node_at(e, a)->depth, y = node_at(e, b)->depth;

    return (uint16_t)((x > y ? x : y) + 1);
}

/* ---- characters ---- */

static bool is_class(const struct expr_set *e, uint32_t i, const struct char_class *c)
{
    return e->classes[i].n == c->n &&
           memcmp(e->pool + e->classes[i].from, c->at, c->n * sizeof(c->at[0])) == 0;
}

uint32_t expr_class(struct expr_set *e, const struct char_class *c)
{
    uint32_t i = 0;

    if (expr_has_failed(e) || c->n == 0)
        return EXPR_NONE;
    while (i < e->n_classes && !is_class(e, i, c))
        i++;
    grammar_builder_spend(e->b, 1 + i);
    if (i == e->n_classes) {
        if (i == EXPR_MAX_CLASSES || c->is_full || c->n > EXPR_MAX_RANGES - e->n_pool ||
            e->is_sealed) {
            grammar_builder_fail(e->b, ERR_LIMIT, "it distinguishes too many characters");
            return EXPR_NONE;
        }
        e->classes[e->n_classes++] = (struct expr_class_ranges){e->n_pool, c->n};
        memcpy(e->pool + e->n_pool, c->at, c->n * sizeof(c->at[0]));
        e->n_pool += c->n;
    }
    return expr_node(e, (struct expr_node){.kind = KIND_CLASS, .a = i, .depth = 1});
}

uint32_t expr_any(struct expr_set *e)
{
    return expr_node(e, (struct expr_node){.kind = KIND_CLASS, .a = 0, .depth = 1});
}

uint32_t expr_text(struct expr_set *e, const char *text)
{
    const size_t n = strlen(text);
    uint32_t out = EXPR_EMPTY;
    size_t end = n;

    while (end > 0 && !expr_has_failed(e)) { /* from the end: the rest is a node */
        size_t from = end - 1, len;
        struct char_class one;
        uint32_t c;

        while (from > 0 && ((uint8_t)text[from] & 0xC0) == 0x80)
            from--;
        c = unicode_at(text + from, end - from, &len);
        char_class_clear(&one);
        char_class_add(&one, c, c);
        out = expr_then(e, expr_class(e, &one), out);
        end = from;
    }
    return out;
}

/* ---- texts ---- */

uint32_t expr_then(struct expr_set *e, uint32_t a, uint32_t b)
{
    struct expr_node made = {.kind = KIND_THEN, .a = a, .b = b};

    if (expr_has_failed(e) || a == EXPR_NONE || b == EXPR_NONE)
        return EXPR_NONE;
    if (a == EXPR_EMPTY || b == EXPR_EMPTY)
        return a == EXPR_EMPTY ? b : a;
    if (a == EXPR_ALL &&
        (b == EXPR_ALL || (node_at(e, b)->kind == KIND_THEN && node_at(e, b)->a == EXPR_ALL)))
        return b;
    if (node_at(e, a)->kind == KIND_THEN) {
        const uint32_t first = node_at(e, a)->a;

        return expr_then(e, first, expr_then(e, node_at(e, a)->b, b));
    }
    made.has_empty = node_at(e, a)->has_empty && node_at(e, b)->has_empty;
    made.depth = node_at(e, a)->has_empty ? deeper(e, a, b) : deeper(e, a, a);
    return expr_node(e, made);
}

/* ---- "or" and "and": members in the order of their numbers, each once ---- */

static uint32_t gather(const struct expr_set *e, uint8_t kind, uint32_t n, uint32_t *members,
                       uint32_t room)
{
    uint32_t count = 0;

    for (; node_at(e, n)->kind == kind && count < room; n = node_at(e, n)->b)
        members[count++] = node_at(e, n)->a;
    if (count < room)
        members[count++] = n;
    return count;
}

static uint32_t rebuild(struct expr_set *e, uint8_t kind, const uint32_t *members, uint32_t n)
{
    uint32_t out = members[n - 1];

    for (uint32_t i = n - 1; i-- > 0 && !expr_has_failed(e);) {
        const bool x = node_at(e, members[i])->has_empty, y = node_at(e, out)->has_empty;

        out = expr_node(e, (struct expr_node){.kind = kind,
                                              .a = members[i],
                                              .b = out,
                                              .has_empty = kind == KIND_OR ? x || y : x && y,
                                              .depth = deeper(e, members[i], out)});
    }
    return out;
}

static uint32_t join_exprs(struct expr_set *e, uint8_t kind, uint32_t a, uint32_t b)
{
    uint32_t x[EXPR_MAX_MEMBERS], y[EXPR_MAX_MEMBERS], all[2 * EXPR_MAX_MEMBERS], n = 0;
    const uint32_t n_x = gather(e, kind, a, x, EXPR_MAX_MEMBERS);
    const uint32_t n_y = gather(e, kind, b, y, EXPR_MAX_MEMBERS);

    if (n_x == EXPR_MAX_MEMBERS || n_y == EXPR_MAX_MEMBERS) {
        grammar_builder_fail(e->b, ERR_LIMIT, "its automaton is too large");
        return EXPR_NONE;
    }
    grammar_builder_spend(e->b, n_x + n_y);
    for (uint32_t i = 0, k = 0; i < n_x || k < n_y;) {
        const uint32_t next = k == n_y || (i < n_x && x[i] <= y[k]) ? x[i++] : y[k++];

        if (n == 0 || all[n - 1] != next)
            all[n++] = next;
    }
    return rebuild(e, kind, all, n);
}

uint32_t expr_or(struct expr_set *e, uint32_t a, uint32_t b)
{
    if (expr_has_failed(e))
        return EXPR_NONE;
    if (a == b || b == EXPR_NONE || a == EXPR_ALL)
        return a;
    if (a == EXPR_NONE || b == EXPR_ALL)
        return b;
    return join_exprs(e, KIND_OR, a, b);
}

uint32_t expr_and(struct expr_set *e, uint32_t a, uint32_t b)
{
    if (expr_has_failed(e) || a == EXPR_NONE || b == EXPR_NONE)
        return EXPR_NONE;
    if (a == b || b == EXPR_ALL)
        return a;
    if (a == EXPR_ALL)
        return b;
    if (a == EXPR_EMPTY || b == EXPR_EMPTY)
        return node_at(e, a)->has_empty && node_at(e, b)->has_empty ? EXPR_EMPTY : EXPR_NONE;
    return join_exprs(e, KIND_AND, a, b);
}

uint32_t expr_not(struct expr_set *e, uint32_t a)
{
    if (expr_has_failed(e))
        return EXPR_NONE;
    if (node_at(e, a)->kind == KIND_NOT)
        return node_at(e, a)->a;
    return expr_node(e, (struct expr_node){.kind = KIND_NOT,
                                           .a = a,
                                           .has_empty = !node_at(e, a)->has_empty,
                                           .depth = deeper(e, a, a)});
}

uint32_t expr_repeat(struct expr_set *e, uint32_t a, uint32_t min, uint32_t max)
{
    if (expr_has_failed(e))
        return EXPR_NONE;
    if (max == 0 || a == EXPR_EMPTY || (a == EXPR_NONE && min == 0))
        return EXPR_EMPTY;
    if (a == EXPR_NONE || (min == 1 && max == 1))
        return a;
    if (node_at(e, a)->has_empty)
        min = 0;
    if (min == 0 && max == GRAMMAR_NO_LIMIT && a == expr_any(e))
        return EXPR_ALL;
    return expr_node(e, (struct expr_node){.kind = KIND_REPEAT,
                                           .a = a,
                                           .b = min,
                                           .max = max,
                                           .has_empty = min == 0,
                                           .depth = deeper(e, a, a)});
}

uint32_t expr_later(struct expr_set *e, bool has_empty_text)
{
    /* the node's own number in `b` makes it different from all others */
    return expr_node(
        e, (struct expr_node){.kind = KIND_LATER, .b = e->n_nodes, .has_empty = has_empty_text});
}

void expr_say(struct expr_set *e, uint32_t later, uint32_t a)
{
    if (!expr_has_failed(e))
        e->nodes[later].a = a; /* no lookup finds a LATER by its contents */
}
