/* core/grammar/constraint_places.c - lists the places of a grammar, and the bytes that can follow
 * its rules.
 *
 * Places are found by following every edge: a rule is entered once for each top of the stack that
 * it can have, and the node after a call becomes a place when the call is seen.
 */
#include "core/grammar/constraint_impl.h"

#include "core/base/err.h"
#include "core/base/mem.h"

#include <string.h>

#define MAX_PLACES (4 * GRAMMAR_MAX_NODES)

/* ---- the map ---- */

static uint32_t place_slot(const struct place_map *map, struct place_key key)
{
    const uint64_t hash = ((uint64_t)key.node << 32 | key.loop) * 0x9e3779b97f4a7c15u;
    uint32_t at = (uint32_t)(hash >> 32) & (map->cap - 1);

    while (map->slots[at].is_used &&
           (map->slots[at].key.node != key.node || map->slots[at].key.loop != key.loop))
        at = (at + 1) & (map->cap - 1);
    return at;
}

struct place_entry *places_find(const struct place_map *map, struct place_key key)
{
    struct place_entry *e = &map->slots[place_slot(map, key)];

    return e->is_used ? e : NULL;
}

static int grow_places(struct place_map *map)
{
    struct place_map bigger = {.n = map->n, .cap = map->cap > 0 ? 2 * map->cap : 256};

    bigger.slots = mem_calloc(bigger.cap, sizeof(*bigger.slots));
    if (bigger.slots == NULL)
        return ERR_NOMEM;
    for (uint32_t i = 0; i < map->cap; i++)
        if (map->slots[i].is_used)
            bigger.slots[place_slot(&bigger, map->slots[i].key)] = map->slots[i];
    mem_free(map->slots);
    *map = bigger;
    return 0;
}

void places_release(struct place_map *map)
{
    mem_free(map->slots);
    *map = (struct place_map){0};
}

/* ---- following every edge ---- */

struct tour {
    const struct grammar *g;
    struct place_map *map;
    struct place_key *todo;
    uint32_t n_todo, cap_todo;
    struct budget *budget;
    int rc;
};

static void push(struct tour *t, struct place_key key)
{
    if (t->n_todo == t->cap_todo) {
        const uint32_t cap = t->cap_todo > 0 ? 2 * t->cap_todo : 256;
        struct place_key *more = mem_realloc(t->todo, cap * sizeof(*more));

        if (more == NULL) {
            t->rc = ERR_NOMEM;
            return;
        }
        t->todo = more;
        t->cap_todo = cap;
    }
    t->todo[t->n_todo++] = key;
}

/* Adds a place to the map. is_target: a text can stop there, it is not only passed through. */
static void visit(struct tour *t, uint32_t node, uint32_t loop, bool is_target)
{
    const struct place_key key = {node, loop};
    struct place_entry *e;

    if (t->rc == 0)
        t->rc = budget_spend(t->budget, 1);
    if (t->rc == 0 && 4 * (t->map->n + 1) > 3 * t->map->cap)
        t->rc = t->map->n < MAX_PLACES ? grow_places(t->map) : ERR_LIMIT;
    if (t->rc != 0)
        return;
    e = &t->map->slots[place_slot(t->map, key)];
    if (!e->is_used) {
        *e = (struct place_entry){.key = key, .is_used = true};
        t->map->n++;
        push(t, key);
    }
    if (is_target && t->g->nodes[node].kind != GRAMMAR_REPEAT) /* the place is its LOOP */
        e->is_target = true;
}

static bool place_is_end(const struct tour *t, uint32_t node)
{
    return t->g->nodes[node].kind == GRAMMAR_END;
}

static void visit_repeat(struct tour *t, const struct grammar_node *n, uint32_t loop)
{
    const struct grammar_node *l = &t->g->nodes[n->other];
    const uint32_t body = t->g->repeats[l->arg].body;

    visit(t, t->g->rules[body].probe, body, true);
    visit(t, l->other, body, false);
    visit(t, l->next, loop, false);
}

static void visit_next(struct tour *t, struct place_key key)
{
    const struct grammar_node *n = &t->g->nodes[key.node];

    switch ((enum grammar_kind)n->kind) {
    case GRAMMAR_BYTE:
        if (!place_is_end(t, n->next))
            visit(t, n->next, key.loop, true);
        break;
    case GRAMMAR_SPLIT:
        visit(t, n->next, key.loop, false);
        visit(t, n->other, key.loop, false);
        break;
    case GRAMMAR_CALL:
        if (n->flags & GRAMMAR_IS_TAIL) {
            visit(t, n->other, key.loop, false);
        } else {
            visit(t, n->other, PLACE_NO_LOOP, false);
            visit(t, n->next, key.loop, true);
        }
        break;
    case GRAMMAR_REPEAT:
        visit_repeat(t, n, key.loop);
        break;
    case GRAMMAR_LOOP:
    case GRAMMAR_END:
    case GRAMMAR_JUMP:
        break;
    }
}

int places_list(struct place_map *map, const struct grammar *g, struct budget *budget)
{
    struct tour t = {.g = g, .map = map, .budget = budget};

    visit(&t, g->rules[0].start, PLACE_NO_LOOP, true);
    while (t.rc == 0 && t.n_todo > 0)
        visit_next(&t, t.todo[--t.n_todo]);
    mem_free(t.todo);
    return t.rc;
}

/* ---- bytes that follow ---- */

/* An edge: all bytes that can follow rule `from` can follow rule `to`, too; *_loop: follow the
 * rule's last iteration. */
struct passes_on {
    uint32_t from, to;
    bool from_loop, to_loop;
};

struct following {
    const struct grammar *g;
    struct byte_set *rule, *loop;
    struct passes_on *edges; /* [2 * n_nodes] */
    uint32_t n_edges;
    uint8_t *seen;
    uint32_t *todo;
    struct budget *budget;
};

/* Adds the bytes that can begin at node `next` of `rule` to those that may follow rule `to`
 * (to_loop: an iteration of it). If the rest of `rule` from `next` may be empty, what follows
 * `rule` may follow `to`, too. */
static void note_place(struct following *f, uint32_t rule, uint32_t next, uint32_t to, bool to_loop)
{
    bool nullable = false;

    budget_spend(f->budget, 1 + grammar_first(f->g, next, to_loop ? &f->loop[to] : &f->rule[to],
                                              &nullable, f->seen, f->todo));
    if (nullable)
        f->edges[f->n_edges++] = (struct passes_on){rule, to, false, to_loop};
}

/* Notes that the end of a body is followed by another iteration, or by what follows the last
 * one. */
static void note_body(struct following *f, uint32_t body)
{
    byte_set_merge(&f->rule[body], &f->g->rules[body].first);
    f->edges[f->n_edges++] = (struct passes_on){body, body, true, false};
}

static void note_all(struct following *f)
{
    const struct grammar *g = f->g;

    for (uint32_t i = 0; i < g->first_probe && budget_error(f->budget) == 0; i++) {
        const struct grammar_node *n = &g->nodes[i];

        if (n->kind == GRAMMAR_CALL) {
            note_place(f, n->rule, n->next, n->arg, false);
        } else if (n->kind == GRAMMAR_LOOP) {
            note_place(f, n->rule, n->next, g->repeats[n->arg].body, true);
            note_body(f, g->repeats[n->arg].body);
        }
    }
}

/* Propagates the sets along all edges until none changes. Few rounds suffice; after 64, any byte
 * may follow. */
static void hand_on(struct following *f)
{
    struct byte_set before, *to;
    bool changed = true;

    for (int round = 0; changed && round < 64; round++) {
        changed = false;
        if (budget_spend(f->budget, f->n_edges) < 0)
            return;
        for (uint32_t i = 0; i < f->n_edges; i++) {
            const struct passes_on *e = &f->edges[i];

            to = e->to_loop ? &f->loop[e->to] : &f->rule[e->to];
            before = *to;
            byte_set_merge(to, e->from_loop ? &f->loop[e->from] : &f->rule[e->from]);
            changed = changed || memcmp(&before, to, sizeof(before)) != 0;
        }
    }
    if (!changed)
        return;
    memset(f->rule, 0xFF, f->g->n_rules * sizeof(*f->rule));
    memset(f->loop, 0xFF, f->g->n_rules * sizeof(*f->loop));
}

int places_follow(const struct grammar *g, struct byte_set *behind_rule,
                  struct byte_set *behind_loop, struct budget *budget)
{
    struct following f = {.g = g, .rule = behind_rule, .loop = behind_loop, .budget = budget};
    int rc = ERR_NOMEM;

    f.edges = mem_calloc(2 * (size_t)g->n_nodes, sizeof(*f.edges));
    f.seen = mem_calloc(g->n_nodes, 1);
    f.todo = mem_calloc(g->n_nodes, sizeof(*f.todo));
    if (f.edges != NULL && f.seen != NULL && f.todo != NULL) {
        note_all(&f);
        hand_on(&f);
        rc = budget_error(budget);
    }
    mem_free(f.edges);
    mem_free(f.seen);
    mem_free(f.todo);
    return rc;
}
