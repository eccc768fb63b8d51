/* core/grammar/grammar.c - questions about a finished grammar.
 *
 * grammar_first() searches within one rule: for a call it merges the callee's first bytes, which
 * finish.c has computed, instead of following it. grammar_needs() is a shortest-path search
 * backwards from all ENDs, level by level, in which a CALL or REPEAT costs one stack entry. With
 * its result the walk drops a reading that could not end within CONSTRAINT_MAX_DEPTH. Both run when
 * a grammar is compiled, on the compiling thread.
 */
#include "core/grammar/grammar.h"

#include "core/base/err.h"
#include "core/base/mem.h"

#include <string.h>

void grammar_destroy(struct grammar **grammar)
{
    struct grammar *g = grammar != NULL ? *grammar : NULL;

    if (g == NULL)
        return;
    mem_free(g->nodes);
    mem_free(g->sets);
    mem_free(g->rules);
    mem_free(g->repeats);
    mem_free(g);
    *grammar = NULL;
}

/* ---- first bytes ---- */

struct scan {
    const struct grammar *g;
    struct byte_set *first;
    uint8_t *seen;
    uint32_t *todo, n_todo; /* each node is added once at most */
};

static void look_at(struct scan *s, uint32_t node)
{
    if (s->seen[node])
        return;
    s->seen[node] = 1;
    s->todo[s->n_todo++] = node;
}

/* Adds the first bytes of a called rule. If the rule may be empty, the node after the call comes
 * next, too. */
static void look_at_call(struct scan *s, const struct grammar_node *n)
{
    const struct grammar_rule *rule = &s->g->rules[n->arg];

    byte_set_merge(s->first, &rule->first);
    if (rule->is_nullable)
        look_at(s, n->next);
}

static void look_at_loop(struct scan *s, const struct grammar_node *loop, bool may_end)
{
    byte_set_merge(s->first, &s->g->rules[s->g->repeats[loop->arg].body].first);
    if (may_end)
        look_at(s, loop->next);
}

static void look_behind(struct scan *s, const struct grammar_node *n, bool *nullable)
{
    const struct grammar_node *loop = &s->g->nodes[n->other];

    switch ((enum grammar_kind)n->kind) {
    case GRAMMAR_BYTE:
        byte_set_merge(s->first, &s->g->sets[n->arg]);
        break;
    case GRAMMAR_SPLIT:
        look_at(s, n->other);
        look_at(s, n->next);
        break;
    case GRAMMAR_CALL:
        look_at_call(s, n);
        break;
    case GRAMMAR_REPEAT:
        look_at_loop(s, loop, s->g->repeats[loop->arg].min == 0);
        break;
    case GRAMMAR_LOOP:
        look_at_loop(s, n, true);
        break;
    case GRAMMAR_END:
        *nullable = true;
        break;
    case GRAMMAR_JUMP:
        look_at(s, n->next);
        break;
    }
}

uint32_t grammar_first(const struct grammar *g, uint32_t node, struct byte_set *first,
                       bool *nullable, uint8_t *seen, uint32_t *todo)
{
    struct scan s = {.g = g, .first = first, .seen = seen, .todo = todo};

    look_at(&s, node);
    for (uint32_t i = 0; i < s.n_todo; i++)
        look_behind(&s, &g->nodes[todo[i]], nullable);
    for (uint32_t i = 0; i < s.n_todo; i++)
        seen[todo[i]] = 0;
    return s.n_todo;
}

/* ---- needs ---- */

/* A breadth-first search backwards along lists of predecessors: first all nodes that need nothing,
 * then those that need one entry, and so on. */
struct needs {
    const struct grammar *g;
    const struct byte_set *bytes;
    uint16_t *of;
    uint32_t *from;        /* [n_nodes + 1] index of a node's first predecessor */
    uint32_t *preds;       /* [3 * n_nodes] */
    uint32_t *now, *later; /* nodes to be looked at: [4 * n_nodes] each */
    uint32_t n_now, n_later;
};

/* Lists the 0 to 2 nodes on which a node's need depends. */
static uint32_t depends_on(const struct grammar *g, const struct grammar_node *n, uint32_t on[2])
{
    switch ((enum grammar_kind)n->kind) {
    case GRAMMAR_BYTE:
    case GRAMMAR_JUMP:
        on[0] = n->next;
        return 1;
    case GRAMMAR_SPLIT:
    case GRAMMAR_CALL:
        on[0] = n->next;
        on[1] = n->other;
        return 2;
    case GRAMMAR_REPEAT:
        on[0] = g->nodes[n->other].next;
        on[1] = g->nodes[n->other].other;
        return 2;
    case GRAMMAR_LOOP:
    case GRAMMAR_END:
        break;
    }
    return 0;
}

static uint16_t node_behind(uint16_t inside, uint16_t after)
{
    if (inside == GRAMMAR_HOPELESS || after == GRAMMAR_HOPELESS)
        return GRAMMAR_HOPELESS;
    return inside + 1 > after ? (uint16_t)(inside + 1) : after;
}

static bool has_any(const struct byte_set *a, const struct byte_set *b)
{
    return ((a->bits[0] & b->bits[0]) | (a->bits[1] & b->bits[1]) | (a->bits[2] & b->bits[2]) |
            (a->bits[3] & b->bits[3])) != 0;
}

static uint16_t need_of(const struct needs *s, const struct grammar_node *n)
{
    const struct grammar *g = s->g;
    const struct grammar_node *loop = &g->nodes[n->other];

    switch ((enum grammar_kind)n->kind) {
    case GRAMMAR_BYTE:
        return has_any(&g->sets[n->arg], s->bytes) ? s->of[n->next] : GRAMMAR_HOPELESS;
    case GRAMMAR_SPLIT:
        return s->of[n->next] < s->of[n->other] ? s->of[n->next] : s->of[n->other];
    case GRAMMAR_CALL:
        if (n->flags & GRAMMAR_IS_TAIL)
            return s->of[n->other];
        return node_behind(s->of[n->other], s->of[n->next]);
    case GRAMMAR_REPEAT:
        if (g->repeats[loop->arg].min == 0) /* the count takes an entry even without iterations */
            return node_behind(0, s->of[loop->next]);
        return node_behind(s->of[loop->other], s->of[loop->next]);
    case GRAMMAR_JUMP:
        return s->of[n->next];
    case GRAMMAR_LOOP: /* a LOOP is only reached through its REPEAT */
    case GRAMMAR_END:
        break;
    }
    return 0;
}

static void find_predecessors(struct needs *s)
{
    const uint32_t n = s->g->n_nodes;
    uint32_t on[2], n_edges;

    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = depends_on(s->g, &s->g->nodes[i], on); k-- > 0;)
            s->from[on[k] + 1]++;
    for (uint32_t i = 0; i < n; i++)
        s->from[i + 1] += s->from[i];
    n_edges = s->from[n];
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = depends_on(s->g, &s->g->nodes[i], on); k-- > 0;)
            s->preds[--s->from[on[k] + 1]] = i;
    /* Filling has moved each node's end down to its beginning. */
    memmove(s->from, s->from + 1, n * sizeof(*s->from));
    s->from[n] = n_edges;
}

static void look_at_predecessors(struct needs *s, uint32_t node, uint16_t level)
{
    for (uint32_t i = s->from[node]; i < s->from[node + 1]; i++) {
        const uint32_t p = s->preds[i];
        const uint16_t need = need_of(s, &s->g->nodes[p]);

        if (need >= s->of[p])
            continue;
        s->of[p] = need;
        if (need == level)
            s->now[s->n_now++] = p;
        else
            s->later[s->n_later++] = p;
    }
}

static void find_needs(struct needs *s)
{
    for (uint32_t i = 0; i < s->g->n_nodes; i++) {
        const uint8_t kind = s->g->nodes[i].kind;

        s->of[i] = GRAMMAR_HOPELESS;
        if (kind != GRAMMAR_END && kind != GRAMMAR_LOOP)
            continue;
        s->of[i] = 0;
        s->now[s->n_now++] = i;
    }
    for (uint16_t level = 0; s->n_now > 0 && level + 1 < GRAMMAR_HOPELESS; level++) {
        uint32_t *const swap = s->now;

        while (s->n_now > 0) {
            const uint32_t node = s->now[--s->n_now];

            if (s->of[node] == level)
                look_at_predecessors(s, node, level);
            else if (s->of[node] > level)
                s->later[s->n_later++] = node;
        }
        s->now = s->later;
        s->n_now = s->n_later;
        s->later = swap;
        s->n_later = 0;
    }
}

int grammar_needs(const struct grammar *g, const struct byte_set *bytes, uint16_t *needs)
{
    const size_t n = g->n_nodes;
    struct needs s = {.g = g, .bytes = bytes, .of = needs};
    uint32_t *const work = mem_calloc(12 * n + 2, sizeof(*work));

    if (work == NULL)
        return ERR_NOMEM;
    s.from = work;
    s.preds = work + n + 2;
    s.now = s.preds + 2 * n;
    s.later = s.now + 4 * n;
    find_predecessors(&s);
    find_needs(&s);
    mem_free(work);
    return 0;
}
