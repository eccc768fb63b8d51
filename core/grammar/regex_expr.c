/* core/grammar/regex_expr.c - regular expressions with look-around as expressions (expr.h).
 *
 * The tree is built from its end to its beginning: each part is given the expression of what
 * follows it, so a look-ahead is an "and" with what follows. A look-behind asks for the character
 * before it, so what follows is one expression for each context: the beginning of the text, and
 * each cell of characters that \b and look-behinds tell apart.
 */
#include "core/grammar/regex_impl.h"

#include "core/base/err.h"
#include "core/base/mem.h"

#include <string.h>

#define MAX_TEXT 4096 /* bytes of an expression: recursion may be as deep */
#define MAX_TOLD 4    /* classes that contexts tell apart */
#define MAX_CONTEXTS (1 + (1 << MAX_TOLD))
#define MAX_UNFOLDED 64 /* counted iterations with look-around in or after them */
#define BEGINNING 0

struct contexts {
    uint32_t at[MAX_CONTEXTS]; /* an expression for each context */
};

struct build {
    const struct regex *re;
    struct expr_set *e;
    struct char_class *told[MAX_TOLD]; /* with \b: word and non-ASCII characters first */
    uint32_t n_told, n;                /* number of classes and of contexts */
    uint32_t any_in[MAX_CONTEXTS];     /* a character of the context's cell */
};

static struct grammar_builder *builder_of(const struct build *x)
{
    return x->re->r.b;
}

static bool has_failed(const struct build *x)
{
    return reader_has_failed(&x->re->r);
}

static void refuse_regex(struct build *x, const char *what)
{
    grammar_builder_fail(builder_of(x), ERR_UNSUPPORTED, "at character 1: %s", what);
}

static struct contexts everywhere(const struct build *x, uint32_t a)
{
    struct contexts all = {{0}};

    for (uint32_t i = 0; i < x->n; i++)
        all.at[i] = a;
    return all;
}

static bool is_everywhere(const struct build *x, const struct contexts *k)
{
    for (uint32_t i = 1; i < x->n; i++)
        if (k->at[i] != k->at[0])
            return false;
    return true;
}

static struct contexts either(const struct build *x, const struct contexts *a,
                              const struct contexts *b)
{
    struct contexts out = {{0}};

    for (uint32_t i = 0; i < x->n; i++)
        out.at[i] = expr_or(x->e, a->at[i], b->at[i]);
    return out;
}

/* ---- contexts ---- */

/* Collects the characters of a look-behind, and whether it accepts the beginning; false: it is not
 * one character. */
static bool behind_class(const struct regex *re, const struct regex_node *n, struct char_class *c,
                         bool *has_beginning)
{
    struct char_class one;

    switch ((enum regex_kind)n->kind) {
    case REGEX_BEGIN:
        *has_beginning = true;
        return true;
    case REGEX_CHAR:
    case REGEX_CLASS:
        char_class_clear(&one);
        regex_class_of(re, n, &one);
        char_class_merge(c, &one);
        return true;
    case REGEX_SEQUENCE:
        return n->first != REGEX_NOTHING && re->nodes[n->first].next == REGEX_NOTHING &&
               behind_class(re, &re->nodes[n->first], c, has_beginning);
    case REGEX_CHOICE:
        for (uint32_t i = n->first; i != REGEX_NOTHING; i = re->nodes[i].next)
            if (!behind_class(re, &re->nodes[i], c, has_beginning))
                return false;
        return true;
    default:
        return false;
    }
}

static bool is_same_node(const struct char_class *a, const struct char_class *b)
{
    return a->n == b->n && memcmp(a->at, b->at, a->n * sizeof(a->at[0])) == 0;
}

/* Returns the class's number among those that contexts tell apart; adds a new one. */
static uint32_t tell_class(struct build *x, const struct char_class *c)
{
    uint32_t i = 0;

    while (i < x->n_told && !is_same_node(x->told[i], c))
        i++;
    if (i < x->n_told)
        return i;
    if (i == MAX_TOLD) {
        refuse_regex(x, "its look-behinds name too many different characters");
        return 0;
    }
    x->told[i] = mem_alloc(sizeof(**x->told));
    if (x->told[i] == NULL) {
        grammar_builder_fail(builder_of(x), ERR_NOMEM, "out of memory");
        return 0;
    }
    x->n_told++;
    char_class_clear(x->told[i]);
    char_class_merge(x->told[i], c);
    return i;
}

static uint32_t told_behind(struct build *x, const struct regex_node *n, bool *has_beginning)
{
    struct char_class c;

    char_class_clear(&c);
    *has_beginning = false;
    if (!behind_class(x->re, &x->re->nodes[n->first], &c, has_beginning)) {
        refuse_regex(x, "look-behind is only supported for one character");
        return 0;
    }
    char_class_sort(&c);
    return tell_class(x, &c);
}

/* Tells apart word characters and non-ASCII ones, which may be part of a word in one language
 * only. */
static void tell_words(struct build *x)
{
    struct char_class c;

    char_class_clear(&c);
    regex_word_class(&c);
    tell_class(x, &c);
    char_class_clear(&c);
    char_class_add(&c, 0x80, CHAR_LAST);
    tell_class(x, &c);
}

static void find_told(struct build *x)
{
    bool has_words = false, unused;

    for (uint32_t i = 0; i < x->re->n_nodes; i++)
        has_words = has_words || x->re->nodes[i].kind == REGEX_WORD_EDGE;
    if (has_words)
        tell_words(x);
    for (uint32_t i = 0; i < x->re->n_nodes && !has_failed(x); i++)
        if (x->re->nodes[i].kind == REGEX_LOOK && (x->re->nodes[i].min & LOOK_BEHIND))
            told_behind(x, &x->re->nodes[i], &unused);
    x->n = 1 + (1u << x->n_told);
}

/* True: the context's last character is in told[i]. */
static bool is_in(uint32_t context, uint32_t i)
{
    return context > 0 && (context - 1) >> i & 1;
}

/* Narrows the class to the characters that lead to this context. */
static void narrow(const struct build *x, uint32_t context, struct char_class *c)
{
    struct char_class not_these;

    for (uint32_t i = 0; i < x->n_told; i++) { /* removes the characters outside the cell */
        char_class_clear(&not_these);
        char_class_merge(&not_these, x->told[i]);
        if (is_in(context, i))
            char_class_negate(&not_these);
        char_class_negate(c);
        char_class_merge(c, &not_these);
        char_class_negate(c);
    }
    char_class_sort(c);
    grammar_builder_spend(builder_of(x), 50 + c->n);
}

static void find_cells(struct build *x)
{
    struct char_class c;

    for (uint32_t k = 1; k < x->n && !has_failed(x); k++) {
        char_class_clear(&c);
        char_class_add(&c, 0, CHAR_LAST);
        narrow(x, k, &c);
        x->any_in[k] = x->n == 2 ? expr_any(x->e) : expr_class(x->e, &c);
    }
}

/* ---- building ---- */

static struct contexts build_expr(struct build *x, const struct regex_node *n, struct contexts k);

/* Builds a character, followed by what follows in the context that it makes. */
static struct contexts build_class(struct build *x, const struct regex_node *n, struct contexts k)
{
    uint32_t out = EXPR_NONE;
    struct char_class c;

    k.at[BEGINNING] = k.at[1]; /* after a character it is never the beginning */
    if (is_everywhere(x, &k)) {
        char_class_clear(&c);
        regex_class_of(x->re, n, &c);
        return everywhere(x, expr_then(x->e, expr_class(x->e, &c), k.at[1]));
    }
    for (uint32_t i = 1; i < x->n && !has_failed(x); i++) {
        char_class_clear(&c);
        regex_class_of(x->re, n, &c);
        narrow(x, i, &c);
        out = expr_or(x->e, out, expr_then(x->e, expr_class(x->e, &c), k.at[i]));
    }
    return everywhere(x, out);
}

static bool has_assertions(const struct regex *re, const struct regex_node *n)
{
    if (n->kind >= REGEX_LOOK)
        return true;
    for (uint32_t i = n->first; i != REGEX_NOTHING; i = re->nodes[i].next)
        if (has_assertions(re, &re->nodes[i]))
            return true;
    return false;
}

static bool may_be_empty(const struct regex *re, const struct regex_node *n)
{
    bool any = false, all = true;

    if (n->kind == REGEX_CHAR || n->kind == REGEX_CLASS)
        return false;
    if (n->kind >= REGEX_LOOK || (n->kind == REGEX_REPEAT && n->min == 0))
        return true;
    for (uint32_t i = n->first; i != REGEX_NOTHING; i = re->nodes[i].next) {
        const bool one = may_be_empty(re, &re->nodes[i]);

        any = any || one;
        all = all && one;
    }
    return n->kind == REGEX_CHOICE ? any : all;
}

/* Builds an endless repetition with assertions inside. An iteration is followed by the repetition
 * itself, so that is a placeholder (expr_later). */
static struct contexts build_endless(struct build *x, const struct regex_node *inside,
                                     struct contexts k)
{
    struct contexts again = {{0}}, body;

    if (may_be_empty(x->re, inside)) {
        refuse_regex(x, "look-around in a repeated group that can be empty is not supported");
        return k;
    }
    for (uint32_t i = 0; i < x->n; i++)
        again.at[i] = expr_later(x->e, expr_has_empty(x->e, k.at[i]));
    body = build_expr(x, inside, again);
    for (uint32_t i = 0; i < x->n && !has_failed(x); i++)
        expr_say(x->e, again.at[i], expr_or(x->e, k.at[i], body.at[i]));
    return again;
}

/* Builds an endless repetition without assertions inside: only what follows depends on the
 * context. */
static struct contexts build_plain_endless(struct build *x, uint32_t inside, struct contexts k)
{
    const uint32_t some = expr_repeat(x->e, inside, 1, GRAMMAR_NO_LIMIT);
    uint32_t out = EXPR_NONE;

    for (uint32_t i = 1; i < x->n && !has_failed(x); i++) {
        const uint32_t ends = expr_then(x->e, EXPR_ALL, x->any_in[i]);

        out = expr_or(x->e, out, expr_then(x->e, expr_and(x->e, some, ends), k.at[i]));
    }
    for (uint32_t i = 0; i < x->n; i++)
        k.at[i] = expr_or(x->e, k.at[i], out);
    return k;
}

/* Builds n iterations in a row; the first `min` of them must be there. */
static struct contexts unfold(struct build *x, const struct regex_node *inside, uint32_t min,
                              uint32_t n, struct contexts last, const struct contexts *k)
{
    if (n > MAX_UNFOLDED)
        refuse_regex(x, "look-around within or after so many repetitions is not supported");
    for (uint32_t i = n; i-- > 0 && !has_failed(x);) {
        last = build_expr(x, inside, last);
        if (i >= min)
            last = either(x, &last, k);
    }
    return last;
}

static struct contexts build_repeat(struct build *x, const struct regex_node *n, struct contexts k)
{
    const struct regex_node *inside = &x->re->nodes[n->first];
    const bool asserts = has_assertions(x->re, inside);
    struct contexts rest;
    uint32_t plain;

    if (!asserts && (is_everywhere(x, &k) || n->max == GRAMMAR_NO_LIMIT)) {
        plain = build_expr(x, inside, everywhere(x, EXPR_EMPTY)).at[0];
        if (is_everywhere(x, &k))
            return everywhere(x,
                              expr_then(x->e, expr_repeat(x->e, plain, n->min, n->max), k.at[0]));
        rest = build_plain_endless(x, plain, k);
        return unfold(x, inside, n->min, n->min, rest, &k);
    }
    if (n->max != GRAMMAR_NO_LIMIT)
        return unfold(x, inside, n->min, n->max, k, &k);
    rest = build_endless(x, inside, k);
    return unfold(x, inside, n->min, n->min, rest, &k);
}

static struct contexts build_ahead(struct build *x, const struct regex_node *n, struct contexts k)
{
    struct contexts seen = build_expr(x, &x->re->nodes[n->first], everywhere(x, EXPR_ALL));

    for (uint32_t i = 0; i < x->n; i++)
        k.at[i] =
            expr_and(x->e, k.at[i], n->min & LOOK_NOT ? expr_not(x->e, seen.at[i]) : seen.at[i]);
    return k;
}

static struct contexts build_behind(struct build *x, const struct regex_node *n, struct contexts k)
{
    bool has_beginning;
    const uint32_t class = told_behind(x, n, &has_beginning);

    for (uint32_t i = 0; i < x->n; i++) {
        const bool is_there = i == BEGINNING ? has_beginning : is_in(i, class);

        if (is_there == ((n->min & LOOK_NOT) != 0))
            k.at[i] = EXPR_NONE;
    }
    return k;
}

/* Builds \b, or \B with wants_none. Neither matches beside a character that only one language
 * counts as part of a word. */
static struct contexts build_edge(struct build *x, bool wants_none, struct contexts k)
{
    struct expr_set *e = x->e;
    const uint32_t word = expr_then(e, expr_class(e, x->told[0]), EXPR_ALL);
    const uint32_t foreign = expr_then(e, expr_class(e, x->told[1]), EXPR_ALL);

    for (uint32_t i = 0; i < x->n; i++) {
        const bool before = is_in(i, 0), wants_word = before == wants_none;

        if (is_in(i, 1))
            k.at[i] = EXPR_NONE;
        k.at[i] = expr_and(e, k.at[i], wants_word ? word : expr_not(e, expr_or(e, word, foreign)));
    }
    return k;
}

static struct contexts build_list(struct build *x, uint32_t first, struct contexts k)
{
    if (first == REGEX_NOTHING || has_failed(x))
        return k;
    return build_expr(x, &x->re->nodes[first], build_list(x, x->re->nodes[first].next, k));
}

static struct contexts build_choice(struct build *x, const struct regex_node *n, struct contexts k)
{
    struct contexts out = everywhere(x, EXPR_NONE), one;

    for (uint32_t i = n->first; i != REGEX_NOTHING && !has_failed(x); i = x->re->nodes[i].next) {
        one = build_expr(x, &x->re->nodes[i], k);
        out = either(x, &out, &one);
    }
    return out;
}

static struct contexts build_expr(struct build *x, const struct regex_node *n, struct contexts k)
{
    if (has_failed(x))
        return k;
    switch ((enum regex_kind)n->kind) {
    case REGEX_SEQUENCE:
        return build_list(x, n->first, k);
    case REGEX_CHOICE:
        return build_choice(x, n, k);
    case REGEX_CHAR:
    case REGEX_CLASS:
        return build_class(x, n, k);
    case REGEX_REPEAT:
        return build_repeat(x, n, k);
    case REGEX_LOOK:
        return n->min & LOOK_BEHIND ? build_behind(x, n, k) : build_ahead(x, n, k);
    case REGEX_WORD_EDGE:
        return build_edge(x, n->min != 0, k);
    case REGEX_BEGIN:
        for (uint32_t i = 1; i < x->n; i++)
            k.at[i] = EXPR_NONE;
        return k;
    case REGEX_END:
        for (uint32_t i = 0; i < x->n; i++)
            k.at[i] = expr_and(x->e, k.at[i], EXPR_EMPTY);
        return k;
    }
    return k;
}

/* Returns the texts in which a match begins anywhere. */
static uint32_t anywhere(struct build *x, const struct contexts *k)
{
    uint32_t out = k->at[BEGINNING];

    if (is_everywhere(x, k))
        return expr_then(x->e, EXPR_ALL, out);
    for (uint32_t i = 1; i < x->n && !has_failed(x); i++)
        out =
            expr_or(x->e, out, expr_then(x->e, EXPR_ALL, expr_then(x->e, x->any_in[i], k->at[i])));
    return out;
}

uint32_t regex_expr(struct regex *re, struct expr_set *e)
{
    const bool searches = (re->r.flags & REGEX_SEARCH) != 0;
    struct build x = {.re = re, .e = e};
    uint32_t out = EXPR_NONE;
    struct contexts k;

    if (re->r.n > MAX_TEXT)
        grammar_builder_fail(re->r.b, ERR_LIMIT, "at character %d: the expression is too long",
                             MAX_TEXT);
    find_told(&x);
    find_cells(&x);
    if (!has_failed(&x)) {
        k = build_expr(&x, re->root, everywhere(&x, searches ? EXPR_ALL : EXPR_EMPTY));
        out = searches ? anywhere(&x, &k) : k.at[BEGINNING];
    }
    for (uint32_t i = 0; i < x.n_told; i++)
        mem_free(x.told[i]);
    return has_failed(&x) ? EXPR_NONE : out;
}

int regex_alphabet(struct expr_set **out, struct grammar_builder *b, unsigned flags)
{
    struct char_class all;

    char_class_clear(&all);
    char_class_add(&all, flags & REGEX_JSON ? 1 : 0, 0xD7FF);
    char_class_add(&all, 0xE000, CHAR_LAST);
    return expr_create(out, b, &all);
}
