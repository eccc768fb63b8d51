/* core/grammar/finish.c - turns the nodes of a builder into a checked grammar.
 *
 * The layout removes JUMPs and all nodes that no rule reaches, and makes the nodes of a rule
 * consecutive. Then a depth-first search follows the rules that a rule can begin with, on a stack
 * of its own; if it meets a rule that is still on its path, that is left recursion. First bytes and
 * nullability fall out of the same search.
 */
#include "core/grammar/builder.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/grammar/builder_impl.h"

#include <stdio.h>
#include <string.h>

/* ---- laying out ---- */

struct layout {
    struct grammar_builder *b;
    struct grammar *g;
    uint32_t *moved; /* [b->n_nodes] new index + 1 of a node, 0 = none yet */
    uint32_t *old;   /* [b->n_nodes] the old index of a new node */
};

/* Follows JUMPs to the first other node and lets each of them lead there directly: the first of n
 * alternatives ends in a chain of n JUMPs. */
static uint32_t behind_jumps(struct grammar_builder *b, uint32_t node)
{
    uint32_t to = node;

    while (b->nodes[to].kind == GRAMMAR_JUMP)
        to = b->nodes[to].next;
    while (b->nodes[node].kind == GRAMMAR_JUMP) {
        const uint32_t next = b->nodes[node].next;

        b->nodes[node].next = to;
        node = next;
    }
    return to;
}

static uint32_t node_place(struct layout *l, uint32_t node)
{
    node = behind_jumps(l->b, node);
    if (l->moved[node] == 0) {
        l->old[l->g->n_nodes] = node;
        l->moved[node] = ++l->g->n_nodes;
    }
    return l->moved[node] - 1;
}

/* Lays out all nodes that the rule's start reaches, in the order in which they are found: the list
 * of found nodes is also the queue of the search. */
static void lay_out_rule(struct layout *l, uint32_t rule)
{
    struct grammar *g = l->g;
    uint32_t at = g->n_nodes;

    g->rules[rule].start = node_place(l, l->b->rules[rule].start);
    g->rules[rule].is_free = l->b->rules[rule].is_free;
    for (; at < g->n_nodes && g->n_nodes <= GRAMMAR_MAX_NODES; at++) {
        struct grammar_node n = l->b->nodes[l->old[at]];

        n.rule = (uint16_t)rule;
        if (n.kind != GRAMMAR_END)
            n.next = node_place(l, n.next);
        if (n.kind == GRAMMAR_SPLIT || n.kind == GRAMMAR_REPEAT)
            n.other = node_place(l, n.other);
        g->nodes[at] = n;
    }
}

/* Points CALLs and LOOPs at the starts of their rules, which are all known now. */
static void link_calls(struct grammar *g)
{
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        struct grammar_node *n = &g->nodes[i];

        if (n->kind == GRAMMAR_CALL) {
            n->other = g->rules[n->arg].start;
            if (g->nodes[n->next].kind == GRAMMAR_END)
                n->flags |= GRAMMAR_IS_TAIL;
        } else if (n->kind == GRAMMAR_LOOP) {
            n->other = g->rules[g->repeats[n->arg].body].start;
        }
    }
}

static int lay_out(struct grammar_builder *b, struct grammar *g)
{
    struct layout l = {.b = b, .g = g};
    int rc = 0;

    l.moved = mem_calloc(b->n_nodes, sizeof(*l.moved));
    l.old = mem_calloc(b->n_nodes, sizeof(*l.old));
    if (l.moved == NULL || l.old == NULL) {
        rc = ERR_NOMEM;
    } else {
        for (uint32_t i = 0; i < g->n_rules && g->n_nodes <= GRAMMAR_MAX_NODES; i++)
            lay_out_rule(&l, i);
        if (g->n_nodes > GRAMMAR_MAX_NODES)
            rc = ERR_LIMIT;
        else
            link_calls(g);
    }
    mem_free(l.moved);
    mem_free(l.old);
    return rc;
}

/* Adds a probe for each rule that is repeated. Its count ends below GRAMMAR_NO_LIMIT. */
static void add_probes(struct grammar *g)
{
    const uint32_t n_repeats = g->n_repeats;

    g->first_probe = g->n_nodes;
    for (uint32_t i = 0; i < g->n_rules; i++)
        g->rules[i].probe = GRAMMAR_NO_LIMIT;
    for (uint32_t i = 0; i < n_repeats; i++) {
        struct grammar_rule *rule = &g->rules[g->repeats[i].body];

        if (rule->probe != GRAMMAR_NO_LIMIT)
            continue;
        rule->probe = g->n_nodes;
        g->nodes[g->n_nodes] = (struct grammar_node){.kind = GRAMMAR_LOOP,
                                                     .arg = g->n_repeats,
                                                     .next = g->n_nodes,
                                                     .other = rule->start};
        g->n_nodes++;
        g->repeats[g->n_repeats++] = (struct grammar_repeat){
            .min = 0, .max = GRAMMAR_NO_LIMIT - 1, .body = g->repeats[i].body};
    }
}

/* ---- first bytes of rules ---- */

enum progress { RULE_UNKNOWN = 0, RULE_OPEN, RULE_KNOWN };

struct opening { /* a rule on the path of the search */
    uint32_t rule;
    uint32_t n_todo; /* index of its first entry in `todo` */
};

struct firsts {
    struct grammar *g;
    uint8_t *progress; /* [n_rules] */
    uint8_t *seen;     /* [n_nodes] */
    uint32_t *todo;    /* [2 * n_nodes] */
    uint32_t n_todo;
    struct opening *open; /* [n_rules] the path: each rule was met in the one before */
    uint32_t n_open;
};

static void enter_rule(struct firsts *f, uint32_t rule)
{
    f->progress[rule] = RULE_OPEN;
    f->open[f->n_open++] = (struct opening){.rule = rule, .n_todo = f->n_todo};
    f->todo[f->n_todo++] = f->g->rules[rule].start;
}

static void follow_firsts(struct firsts *f, uint32_t node)
{
    if (!f->seen[node])
        f->todo[f->n_todo++] = node;
}

/* Merges the first bytes of a callee or body, which are known, and passes it if it may be empty. */
static void go_over(struct firsts *f, struct grammar_rule *into, const struct grammar_node *n)
{
    struct grammar *g = f->g;

    if (n->kind == GRAMMAR_CALL) {
        byte_set_merge(&into->first, &g->rules[n->arg].first);
        if (g->rules[n->arg].is_nullable)
            follow_firsts(f, n->next);
    } else {
        struct grammar_repeat *repeat = &g->repeats[g->nodes[n->other].arg];

        byte_set_merge(&into->first, &g->rules[repeat->body].first);
        if (g->rules[repeat->body].is_nullable)
            repeat->min = 0;
        if (repeat->min == 0)
            follow_firsts(f, g->nodes[n->other].next);
    }
}

/* Visits a node of the rule that was opened last. 0, or ERR_INVAL: left recursion. */
static int look_at_node(struct firsts *f, uint32_t node)
{
    struct grammar_rule *rule = &f->g->rules[f->open[f->n_open - 1].rule];
    const struct grammar_node *n = &f->g->nodes[node];
    uint32_t callee;

    if (n->kind == GRAMMAR_CALL || n->kind == GRAMMAR_REPEAT) {
        callee = n->arg; /* a REPEAT names its body here too */
        if (f->progress[callee] == RULE_OPEN)
            return ERR_INVAL;
        if (f->progress[callee] == RULE_UNKNOWN) {
            f->todo[f->n_todo++] = node; /* visited again once the callee is known */
            enter_rule(f, callee);
            return 0;
        }
    }
    if (f->seen[node])
        return 0;
    f->seen[node] = 1;
    if (n->kind == GRAMMAR_BYTE) {
        byte_set_merge(&rule->first, &f->g->sets[n->arg]);
    } else if (n->kind == GRAMMAR_SPLIT) {
        follow_firsts(f, n->other);
        follow_firsts(f, n->next);
    } else if (n->kind == GRAMMAR_END) {
        rule->is_nullable = true;
    } else {
        go_over(f, rule, n);
    }
    return 0;
}

static int find_first(struct firsts *f, uint32_t rule)
{
    int rc = 0;

    enter_rule(f, rule);
    while (rc == 0 && f->n_open > 0) {
        const struct opening *top = &f->open[f->n_open - 1];

        if (f->n_todo > top->n_todo) {
            rc = look_at_node(f, f->todo[--f->n_todo]);
        } else {
            f->progress[top->rule] = RULE_KNOWN;
            f->n_open--;
        }
    }
    return rc;
}

static int find_firsts(struct grammar_builder *b, struct grammar *g)
{
    struct firsts f = {.g = g};
    int rc = ERR_NOMEM;

    f.progress = mem_calloc(g->n_rules, 1);
    f.seen = mem_calloc(g->n_nodes, 1);
    f.todo = mem_calloc(3 * (size_t)g->n_nodes + g->n_rules, sizeof(*f.todo));
    f.open = mem_calloc(g->n_rules, sizeof(*f.open));
    if (f.progress != NULL && f.seen != NULL && f.todo != NULL && f.open != NULL) {
        rc = 0;
        for (uint32_t i = 0; rc == 0 && i < g->n_rules; i++)
            if (f.progress[i] == RULE_UNKNOWN)
                rc = find_first(&f, i);
    }
    for (uint32_t i = 0; rc == 0 && i < g->n_repeats; i++)
        if (g->rules[g->repeats[i].body].is_nullable) /* iterations of a body that may be empty need
                                                       * not be written */
            g->repeats[i].min = 0;
    if (rc == ERR_INVAL)
        grammar_builder_fail(
            b, ERR_INVAL, "%s is left-recursive: it refers to itself before it matches a character",
            b->rules[f.open[f.n_open - 1].rule].name);
    mem_free(f.progress);
    mem_free(f.seen);
    mem_free(f.todo);
    mem_free(f.open);
    return rc;
}

/* ---- finishing ---- */

static int check_rules(struct grammar_builder *b)
{
    for (uint32_t i = 0; i < b->n_rules && b->error == 0; i++)
        if (b->rules[i].start == NOWHERE)
            grammar_builder_fail(b, ERR_INVAL, "%.100s is not defined", b->rules[i].name);
    if (b->error == 0 && b->n_rules == 0)
        grammar_builder_fail(b, ERR_INVAL, "the grammar has no rule");
    return b->error;
}

/* Checks that a text other than the empty one matches. */
static int check_texts(struct grammar_builder *b, const struct grammar *g)
{
    static const struct byte_set all = {{UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX}};
    uint16_t *needs = mem_calloc(g->n_nodes, sizeof(*needs));
    const struct byte_set *first = &g->rules[0].first;
    const int rc = needs != NULL ? grammar_needs(g, &all, needs) : ERR_NOMEM;

    if (rc < 0)
        grammar_builder_fail(b, rc, "out of memory");
    else if (needs[g->rules[0].start] == GRAMMAR_HOPELESS)
        grammar_builder_fail(b, ERR_INVAL, "no text of finite length matches");
    else if ((first->bits[0] | first->bits[1] | first->bits[2] | first->bits[3]) == 0)
        grammar_builder_fail(b, ERR_INVAL, "only the empty text matches");
    mem_free(needs);
    return b->error;
}

static struct grammar *allocate_grammar(const struct grammar_builder *b)
{
    struct grammar *g = mem_calloc(1, sizeof(*g));

    if (g == NULL)
        return NULL;
    g->n_sets = b->n_sets;
    g->n_rules = b->n_rules;
    g->n_repeats = b->n_repeats;
    g->nodes = mem_calloc((size_t)b->n_nodes + b->n_repeats, sizeof(*g->nodes));
    g->rules = mem_calloc(b->n_rules, sizeof(*g->rules));
    g->sets = mem_dup(b->sets, (b->n_sets > 0 ? b->n_sets : 1) * sizeof(*g->sets));
    g->repeats = mem_calloc(2 * (size_t)b->n_repeats + 1, sizeof(*g->repeats));
    if (g->nodes == NULL || g->sets == NULL || g->rules == NULL || g->repeats == NULL)
        grammar_destroy(&g);
    else if (b->n_repeats > 0)
        memcpy(g->repeats, b->repeats, b->n_repeats * sizeof(*g->repeats));
    return g;
}

static int make_grammar(struct grammar_builder *b, struct grammar **out)
{
    struct grammar *g;
    int rc = check_rules(b);

    if (rc < 0)
        return rc;
    rc = grammar_builder_spend(b, 8 * (uint64_t)b->n_nodes); /* each node is visited so often */
    if (rc < 0)
        return rc;
    g = allocate_grammar(b);
    rc = g != NULL ? lay_out(b, g) : ERR_NOMEM;
    if (rc == 0) {
        add_probes(g);
        rc = find_firsts(b, g);
    }
    if (rc == 0)
        rc = check_texts(b, g);
    if (rc == ERR_LIMIT)
        grammar_builder_fail(b, rc, "it is too large: more than %u nodes", GRAMMAR_MAX_NODES);
    if (rc == ERR_NOMEM)
        grammar_builder_fail(b, rc, "out of memory");
    if (rc < 0)
        grammar_destroy(&g);
    *out = g;
    return rc;
}

int grammar_builder_finish(struct grammar_builder *b, struct grammar **out, char *err,
                           size_t err_len)
{
    *out = NULL;
    if (b->error == 0)
        make_grammar(b, out);
    if (b->error != 0)
        snprintf(err, err_len, "%s", b->sentence);
    return b->error;
}
