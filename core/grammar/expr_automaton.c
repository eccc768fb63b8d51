/* core/grammar/expr_automaton.c - explores the automaton of an expression and writes it as rules.
 *
 * A state is an expression; `nodes` is both the list of states and the queue of the search, which
 * derives each state by each atom. States that reach no accepting state are dead and get no rule.
 * The rule of a live state is a choice of classes of characters, each followed by a call of the
 * next state's rule; it is a tail call, so a text of any length needs no stack.
 */
#include "core/grammar/expr_impl.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/base/unicode.h"
#include "core/grammar/regex.h"

#include <string.h>

#define INLINE_RANGES 12 /* a class of more ranges becomes a rule of its own */
#define NO_STATE UINT32_MAX

struct automaton {
    struct expr_set *e;
    uint32_t *nodes;    /* the expression of each state */
    uint32_t *state_of; /* the state of an expression, or NO_STATE */
    uint32_t *next;     /* [n * n_atoms] the state after an atom, or NO_STATE */
    uint32_t *rules;
    bool *is_alive; /* true: the state reaches an accepting one */
    uint32_t n, cap;
};

static void automaton_release(struct automaton *a)
{
    mem_free(a->nodes);
    mem_free(a->state_of);
    mem_free(a->next);
    mem_free(a->rules);
    mem_free(a->is_alive);
}

static bool out_of_memory(struct expr_set *e)
{
    grammar_builder_fail(e->b, ERR_NOMEM, "out of memory");
    return false;
}

static bool grow_automaton(struct automaton *a)
{
    const uint32_t cap = a->cap > 0 ? 2 * a->cap : 64;
    uint32_t *nodes, *next;

    if (a->n < a->cap)
        return true;
    if (a->n >= EXPR_MAX_STATES) {
        grammar_builder_fail(a->e->b, ERR_LIMIT, "its automaton is too large");
        return false;
    }
    nodes = mem_realloc(a->nodes, cap * sizeof(*nodes));
    if (nodes != NULL)
        a->nodes = nodes;
    next = mem_realloc(a->next, (size_t)cap * a->e->n_atoms * sizeof(*next));
    if (next != NULL)
        a->next = next;
    if (nodes == NULL || next == NULL)
        return out_of_memory(a->e);
    a->cap = cap;
    return true;
}

static uint32_t state_of(struct automaton *a, uint32_t node)
{
    if (node == EXPR_NONE)
        return NO_STATE;
    if (a->state_of[node] != NO_STATE)
        return a->state_of[node];
    if (!grow_automaton(a))
        return NO_STATE;
    a->nodes[a->n] = node;
    a->state_of[node] = a->n;
    return a->n++;
}

static void explore(struct automaton *a, uint32_t start)
{
    struct expr_set *e = a->e;

    state_of(a, start);
    for (uint32_t i = 0; i < a->n && !expr_has_failed(e); i++)
        for (uint32_t k = 0; k < e->n_atoms && !expr_has_failed(e); k++) {
            const uint32_t to = state_of(a, expr_derive(e, a->nodes[i], k));

            if (!expr_has_failed(e))
                a->next[(size_t)i * e->n_atoms + k] = to;
        }
}

static bool leads_on(const struct automaton *a, uint32_t state)
{
    const uint32_t *next = a->next + (size_t)state * a->e->n_atoms;

    for (uint32_t k = 0; k < a->e->n_atoms; k++)
        if (next[k] != NO_STATE && a->is_alive[next[k]])
            return true;
    return false;
}

/* Most states were found before their successors, so going from the last to the first takes few
 * rounds. */
static void find_alive(struct automaton *a)
{
    bool more = true;

    while (more && !expr_has_failed(a->e)) {
        more = false;
        grammar_builder_spend(a->e->b, 1 + (uint64_t)a->n * a->e->n_atoms / 4);
        for (uint32_t i = a->n; i-- > 0;) {
            if (a->is_alive[i])
                continue;
            a->is_alive[i] = a->e->nodes[a->nodes[i]].has_empty || leads_on(a, i);
            more = more || a->is_alive[i];
        }
    }
}

static bool make_automaton(struct automaton *a, struct expr_set *e, uint32_t start)
{
    *a = (struct automaton){.e = e};
    if (!expr_seal(e))
        return false;
    a->state_of = mem_alloc(EXPR_MAX_NODES * sizeof(*a->state_of));
    a->is_alive = mem_calloc(EXPR_MAX_STATES, sizeof(*a->is_alive));
    a->rules = mem_calloc(EXPR_MAX_STATES, sizeof(*a->rules));
    if (a->state_of == NULL || a->is_alive == NULL || a->rules == NULL)
        return out_of_memory(e);
    memset(a->state_of, 0xFF, EXPR_MAX_NODES * sizeof(*a->state_of));
    grammar_builder_spend(e->b, EXPR_MAX_NODES / 20);
    explore(a, start);
    find_alive(a);
    return !expr_has_failed(e);
}

/* ---- as rules ---- */

/* Writes the characters that lead from one state to another. */
static struct grammar_piece way(struct automaton *a, uint32_t from, uint32_t to, bool is_json)
{
    const uint32_t *next = a->next + (size_t)from * a->e->n_atoms;
    const struct expr_set *e = a->e;
    struct char_class c;
    struct grammar_piece p;
    uint32_t rule;

    char_class_clear(&c);
    for (uint32_t i = 0; i < e->n_ranges; i++)
        if (next[e->ranges[i].atom] == to)
            char_class_add(&c, e->ranges[i].from, e->ranges[i].to);
    char_class_sort(&c);
    grammar_builder_spend(e->b, 1 + e->n_ranges / 4 + 4 * c.n);
    if (c.is_full)
        grammar_builder_fail(e->b, ERR_LIMIT, "a character class has too many ranges");
    rule = c.n > INLINE_RANGES ? grammar_rule(e->b, "") : 0;
    p = is_json ? grammar_json_char(e->b, &c) : grammar_chars(e->b, c.at, c.n);
    if (c.n <= INLINE_RANGES || expr_has_failed(e))
        return p;
    grammar_define(e->b, rule, p);
    return grammar_call(e->b, rule);
}

/* True: k is the first atom that leads to its state. */
static bool is_first(const uint32_t *next, uint32_t k)
{
    for (uint32_t i = 0; i < k; i++)
        if (next[i] == next[k])
            return false;
    return true;
}

static void write_state(struct automaton *a, uint32_t state, bool is_json)
{
    const uint32_t *next = a->next + (size_t)state * a->e->n_atoms;
    struct grammar_builder *b = a->e->b;
    bool any = a->e->nodes[a->nodes[state]].has_empty;
    struct grammar_piece p = any ? grammar_empty(b) : (struct grammar_piece){0}, q;

    for (uint32_t k = 0; k < a->e->n_atoms && !expr_has_failed(a->e); k++) {
        grammar_builder_spend(b, 1 + k / 8);
        if (next[k] == NO_STATE || !a->is_alive[next[k]] || !is_first(next, k))
            continue;
        q = way(a, state, next[k], is_json);
        if (a->nodes[next[k]] != EXPR_EMPTY)
            q = grammar_then(b, q, grammar_call(b, a->rules[next[k]]));
        p = any ? grammar_or(b, p, q) : q;
        any = true;
    }
    grammar_define(b, a->rules[state], p);
}

static void write_states(struct automaton *a, bool is_json)
{
    for (uint32_t i = 0; i < a->n && !expr_has_failed(a->e); i++)
        if (a->is_alive[i])
            a->rules[i] = grammar_rule(a->e->b, "");
    for (uint32_t i = 0; i < a->n && !expr_has_failed(a->e); i++)
        if (a->is_alive[i])
            write_state(a, i, is_json);
}

bool expr_piece_or_none(struct expr_set *e, uint32_t start, bool is_json, struct grammar_piece *out)
{
    struct automaton a;
    bool any;

    *out = (struct grammar_piece){0};
    any = make_automaton(&a, e, start) && a.n > 0 && a.is_alive[0];
    if (any)
        write_states(&a, is_json);
    any = any && !expr_has_failed(e);
    if (any)
        *out = grammar_call(e->b, a.rules[0]);
    automaton_release(&a);
    return any;
}

struct grammar_piece expr_piece(struct expr_set *e, uint32_t start, bool is_json)
{
    struct grammar_piece p;

    if (!expr_piece_or_none(e, start, is_json, &p))
        grammar_builder_fail(e->b, ERR_INVAL, "no text matches");
    return p;
}

bool expr_is_none(struct expr_set *e, uint32_t start)
{
    struct automaton a;
    bool none;

    none = !make_automaton(&a, e, start) || a.n == 0 || !a.is_alive[0];
    automaton_release(&a);
    return none;
}

bool expr_matches(struct expr_set *e, uint32_t a, const char *text)
{
    size_t n = strlen(text), len;

    if (!expr_seal(e))
        return false;
    for (; n > 0 && !expr_has_failed(e); text += len, n -= len) {
        const uint32_t atom = expr_atom_of(e, unicode_at(text, n, &len));

        a = atom != UINT32_MAX ? expr_derive(e, a, atom) : EXPR_NONE;
    }
    return !expr_has_failed(e) && e->nodes[a].has_empty;
}
