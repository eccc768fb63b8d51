/* core/grammar/expr_derive.c - atoms of the alphabet, and derivatives of expressions.
 *
 * expr_seal() cuts the alphabet at the bounds of all classes; characters that are in the same
 * classes share an atom, so derivatives are computed per atom and not per character. The derivative
 * of an expression by an atom (Brzozowski) matches what is left of its texts after such a
 * character. Derivatives are cached by node and atom in an open-addressing table, which is full at
 * half its size.
 */
#include "core/grammar/expr_impl.h"

#include "core/base/err.h"
#include "core/base/mem.h"

#include <stdlib.h>
#include <string.h>

/* ---- atoms ---- */

static int compare_bounds(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

static bool class_has(const struct expr_set *e, uint32_t class, uint32_t character)
{
    const struct char_range *at = e->pool + e->classes[class].from;
    uint32_t from = 0, to = e->classes[class].n;

    while (from < to) {
        const uint32_t mid = (from + to) / 2;

        if (at[mid].to < character)
            from = mid + 1;
        else
            to = mid;
    }
    return from < e->classes[class].n && at[from].from <= character;
}

/* Returns the atom of all characters that are in the same classes as this one. */
static uint32_t atom_like(struct expr_set *e, uint32_t character)
{
    uint64_t in[EXPR_MAX_CLASSES / 64] = {0};
    uint32_t i = 0;

    for (uint32_t k = 0; k < e->n_classes; k++)
        if (class_has(e, k, character))
            in[k / 64] |= (uint64_t)1 << k % 64;
    while (i < e->n_atoms && memcmp(e->atoms[i], in, sizeof(in)) != 0)
        i++;
    if (i == EXPR_MAX_ATOMS) {
        grammar_builder_fail(e->b, ERR_LIMIT, "it distinguishes too many characters");
        return 0;
    }
    if (i == e->n_atoms)
        memcpy(e->atoms[e->n_atoms++], in, sizeof(in));
    return i;
}

static void add_derived_range(struct expr_set *e, uint32_t from, uint32_t to)
{
    const uint32_t n = e->n_ranges;
    uint32_t atom;

    if (!class_has(e, 0, from)) /* not in the alphabet */
        return;
    atom = atom_like(e, from);
    if (n > 0 && e->ranges[n - 1].atom == atom && e->ranges[n - 1].to + 1 == from)
        e->ranges[n - 1].to = to;
    else
        e->ranges[e->n_ranges++] = (struct expr_range){from, to, atom};
}

bool expr_seal(struct expr_set *e)
{
    const uint32_t n = 2 * e->n_pool;
    uint32_t *bounds;

    if (e->is_sealed || expr_has_failed(e))
        return !expr_has_failed(e);
    e->is_sealed = true;
    e->derived = mem_calloc(2 * EXPR_MAX_DERIVED, sizeof(*e->derived));
    e->ranges = mem_alloc((n + 1) * sizeof(*e->ranges));
    bounds = mem_alloc((n + 1) * sizeof(*bounds));
    if (bounds == NULL || e->ranges == NULL || e->derived == NULL)
        grammar_builder_fail(e->b, ERR_NOMEM, "out of memory");
    else
        for (uint32_t i = 0; i < e->n_pool; i++) {
            bounds[2 * i] = e->pool[i].from;
            bounds[2 * i + 1] = e->pool[i].to + 1;
        }
    grammar_builder_spend(e->b, 30000 + (uint64_t)n * (10 + e->n_classes));
    if (!expr_has_failed(e)) {
        qsort(bounds, n, sizeof(*bounds), compare_bounds);
        for (uint32_t i = 0; i + 1 < n && !expr_has_failed(e); i++)
            if (bounds[i] < bounds[i + 1])
                add_derived_range(e, bounds[i], bounds[i + 1] - 1);
    }
    mem_free(bounds);
    return !expr_has_failed(e);
}

uint32_t expr_atom_of(const struct expr_set *e, uint32_t character)
{
    uint32_t from = 0, to = e->n_ranges;

    while (from < to) {
        const uint32_t mid = (from + to) / 2;

        if (e->ranges[mid].to < character)
            from = mid + 1;
        else
            to = mid;
    }
    return from < e->n_ranges && e->ranges[from].from <= character ? e->ranges[from].atom
                                                                   : UINT32_MAX;
}

/* ---- derivatives ---- */

static struct expr_derived *derived_slot(struct expr_set *e, uint32_t n, uint32_t atom)
{
    const uint64_t hash = (((uint64_t)n << 9) ^ atom) * 0x9e3779b97f4a7c15u;
    uint32_t at = (uint32_t)(hash >> 32) % (2 * EXPR_MAX_DERIVED);

    while (e->derived[at].node != 0 && (e->derived[at].node != n || e->derived[at].atom != atom))
        at = (at + 1) % (2 * EXPR_MAX_DERIVED);
    return &e->derived[at];
}

static uint32_t derive_then(struct expr_set *e, struct expr_node x, uint32_t atom)
{
    uint32_t out = expr_then(e, expr_derive(e, x.a, atom), x.b);

    if (!expr_has_failed(e) && e->nodes[x.a].has_empty)
        out = expr_or(e, out, expr_derive(e, x.b, atom));
    return out;
}

static uint32_t derive_members(struct expr_set *e, struct expr_node x, uint32_t atom)
{
    const bool is_or = x.kind == KIND_OR;
    uint32_t out = is_or ? EXPR_NONE : EXPR_ALL;

    for (;; x = e->nodes[x.b]) {
        const uint32_t one = expr_derive(e, x.a, atom);

        out = is_or ? expr_or(e, out, one) : expr_and(e, out, one);
        if (expr_has_failed(e) || e->nodes[x.b].kind != x.kind)
            break;
    }
    if (expr_has_failed(e))
        return EXPR_NONE;
    return is_or ? expr_or(e, out, expr_derive(e, x.b, atom))
                 : expr_and(e, out, expr_derive(e, x.b, atom));
}

static uint32_t derive(struct expr_set *e, struct expr_node x, uint32_t atom)
{
    uint32_t rest;

    switch ((enum expr_kind)x.kind) {
    case KIND_CLASS:
        return e->atoms[atom][x.a / 64] >> x.a % 64 & 1 ? EXPR_EMPTY : EXPR_NONE;
    case KIND_THEN:
        return derive_then(e, x, atom);
    case KIND_OR:
    case KIND_AND:
        return derive_members(e, x, atom);
    case KIND_NOT:
        return expr_not(e, expr_derive(e, x.a, atom));
    case KIND_REPEAT:
        rest = expr_repeat(e, x.a, x.b > 0 ? x.b - 1 : 0,
                           x.max == GRAMMAR_NO_LIMIT ? x.max : x.max - 1);
        return expr_then(e, expr_derive(e, x.a, atom), rest);
    case KIND_LATER:
        return expr_derive(e, x.a, atom);
    case KIND_NONE:
    case KIND_EMPTY:
        break;
    }
    return EXPR_NONE;
}

uint32_t expr_derive(struct expr_set *e, uint32_t n, uint32_t atom)
{
    struct expr_derived *slot;
    uint32_t out;

    if (grammar_builder_spend(e->b, 4) < 0 || n == EXPR_NONE || n == EXPR_EMPTY)
        return EXPR_NONE;
    if (n == EXPR_ALL)
        return n;
    slot = derived_slot(e, n, atom);
    if (slot->node == n)
        return slot->is;
    out = derive(e, e->nodes[n], atom);
    if (e->n_derived++ == EXPR_MAX_DERIVED)
        grammar_builder_fail(e->b, ERR_LIMIT, "its automaton is too large");
    if (expr_has_failed(e))
        return EXPR_NONE;
    *derived_slot(e, n, atom) = (struct expr_derived){n, atom, out};
    return out;
}
