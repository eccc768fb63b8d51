/* core/grammar/builder.c - makes pieces of nodes and joins them.
 *
 * Each piece ends in a JUMP whose `next` is NOWHERE until the piece is joined to another, so
 * joining is one assignment (Thompson's construction); finish.c removes the JUMPs. A small
 * repetition is unrolled into copies; a larger one becomes a rule with a count on the stack. After
 * an error builder_node() returns 0 and nothing is linked any more, so parsers need not check each
 * call.
 */
#include "core/grammar/builder.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/grammar/builder_impl.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Few copies of a piece are faster to follow than a count on the stack. */
#define UNROLL_NODES 24

int grammar_builder_create(struct grammar_builder **out, struct budget *budget)
{
    *out = mem_calloc(1, sizeof(**out));
    if (*out == NULL)
        return ERR_NOMEM;
    (*out)->budget = budget;
    return 0;
}

void grammar_builder_destroy(struct grammar_builder **builder)
{
    struct grammar_builder *b = builder != NULL ? *builder : NULL;

    if (b == NULL)
        return;
    for (uint32_t i = 0; i < b->n_rules; i++)
        mem_free(b->rules[i].name);
    mem_free(b->nodes);
    mem_free(b->rules);
    mem_free(b->repeats);
    mem_free(b);
    *builder = NULL;
}

int grammar_builder_error(const struct grammar_builder *b)
{
    return b->error;
}

void grammar_builder_fail(struct grammar_builder *b, int code, const char *format, ...)
{
    va_list args;

    if (b->error != 0)
        return;
    b->error = code;
    va_start(args, format);
    vsnprintf(b->sentence, sizeof(b->sentence), format, args);
    va_end(args);
}

const char *grammar_builder_sentence(const struct grammar_builder *b)
{
    return b->sentence;
}

void grammar_builder_retell(struct grammar_builder *b, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(b->sentence, sizeof(b->sentence), format, args);
    va_end(args);
}

int grammar_builder_spend(struct grammar_builder *b, uint64_t n)
{
    const int rc = budget_spend(b->budget, n);

    if (rc == ERR_LIMIT)
        grammar_builder_fail(b, rc, "it takes too many steps to compile");
    else if (rc < 0)
        grammar_builder_fail(b, rc, "canceled");
    return b->error;
}

struct budget *grammar_builder_budget(const struct grammar_builder *b)
{
    return b->budget;
}

/* ---- nodes ---- */

int builder_grow(struct grammar_builder *b, void **array, uint32_t n, uint32_t *cap, size_t bytes,
                 uint32_t max, const char *what)
{
    uint32_t more = *cap > 0 ? 2 * *cap : 64;
    void *bigger;

    if (b->error != 0)
        return b->error;
    if (n < *cap)
        return 0;
    if (n >= max) {
        grammar_builder_fail(b, ERR_LIMIT, "it is too large: more than %u %s", max, what);
        return ERR_LIMIT;
    }
    if (more > max)
        more = max;
    bigger = mem_realloc(*array, more * bytes);
    if (bigger == NULL) {
        grammar_builder_fail(b, ERR_NOMEM, "out of memory");
        return ERR_NOMEM;
    }
    *array = bigger;
    *cap = more;
    return 0;
}

uint32_t builder_node(struct grammar_builder *b, enum grammar_kind kind, uint32_t arg,
                      uint32_t next, uint32_t other)
{
    void *nodes = b->nodes;
    const int rc = builder_grow(b, &nodes, b->n_nodes, &b->cap_nodes, sizeof(*b->nodes),
                                BUILD_MAX_NODES, "nodes");

    b->nodes = nodes;
    if (rc < 0 || grammar_builder_spend(b, 1) < 0)
        return 0;
    b->nodes[b->n_nodes] = (struct grammar_node){
        .kind = (uint8_t)kind, .arg = arg, .next = next, .other = other};
    return b->n_nodes++;
}

uint32_t builder_set(struct grammar_builder *b, const struct byte_set *set)
{
    uint64_t hash = 0;
    uint32_t at;

    for (int i = 0; i < 4; i++)
        hash = (hash ^ set->bits[i]) * 0x9e3779b97f4a7c15u ^ hash >> 29;
    for (at = (uint32_t)(hash >> 40) % BUILD_SET_SLOTS; b->slots[at] != 0;
         at = (at + 1) % BUILD_SET_SLOTS)
        if (memcmp(&b->sets[b->slots[at] - 1], set, sizeof(*set)) == 0)
            return b->slots[at] - 1;
    if (b->n_sets == BUILD_MAX_SETS) {
        grammar_builder_fail(b, ERR_LIMIT, "it is too large: more than %d sets of bytes",
                             BUILD_MAX_SETS);
        return 0;
    }
    b->sets[b->n_sets] = *set;
    b->slots[at] = b->n_sets + 1;
    return b->n_sets++;
}

struct grammar_piece builder_piece(struct grammar_builder *b, uint32_t from, uint32_t start,
                                   uint32_t end)
{
    return (struct grammar_piece){.from = from, .to = b->n_nodes, .start = start, .end = end};
}

static uint32_t open_end(struct grammar_builder *b)
{
    return builder_node(b, GRAMMAR_JUMP, 0, NOWHERE, 0);
}

static void lead(struct grammar_builder *b, uint32_t from, uint32_t to)
{
    if (b->error == 0)
        b->nodes[from].next = to;
}

/* ---- pieces ---- */

struct grammar_piece grammar_empty(struct grammar_builder *b)
{
    const uint32_t from = b->n_nodes;
    const uint32_t end = open_end(b);

    return builder_piece(b, from, end, end);
}

struct grammar_piece grammar_bytes(struct grammar_builder *b, const void *bytes, size_t n)
{
    const uint8_t *at = bytes;
    const uint32_t from = b->n_nodes;
    uint32_t end;

    for (size_t i = 0; i < n && b->error == 0; i++) {
        struct byte_set set = {{0}};

        byte_set_add(&set, at[i]);
        builder_node(b, GRAMMAR_BYTE, builder_set(b, &set), b->n_nodes + 1, 0);
    }
    end = open_end(b);
    return builder_piece(b, from, b->error == 0 ? from : end, end);
}

struct grammar_piece grammar_text(struct grammar_builder *b, const char *text)
{
    return grammar_bytes(b, text, strlen(text));
}

struct grammar_piece grammar_one_of(struct grammar_builder *b, const struct byte_set *set)
{
    const uint32_t from = b->n_nodes;
    const uint32_t start = builder_node(b, GRAMMAR_BYTE, builder_set(b, set), b->n_nodes + 1, 0);

    return builder_piece(b, from, start, open_end(b));
}

struct grammar_piece grammar_call(struct grammar_builder *b, uint32_t rule)
{
    const uint32_t from = b->n_nodes;
    const uint32_t start = builder_node(b, GRAMMAR_CALL, rule, b->n_nodes + 1, 0);
    const uint32_t end = open_end(b);

    return builder_piece(b, from, start, end);
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

struct grammar_piece grammar_then(struct grammar_builder *b, struct grammar_piece p,
                                  struct grammar_piece q)
{
    lead(b, p.end, q.start);
    return builder_piece(b, least(p.from, q.from), p.start, q.end);
}

struct grammar_piece grammar_or(struct grammar_builder *b, struct grammar_piece p,
                                struct grammar_piece q)
{
    const uint32_t split = builder_node(b, GRAMMAR_SPLIT, 0, p.start, q.start);
    const uint32_t end = open_end(b);

    lead(b, p.end, end);
    lead(b, q.end, end);
    return builder_piece(b, least(p.from, q.from), split, end);
}

/* ---- repetition ---- */

/* Appends a copy of the piece's nodes. The piece must not be joined yet, and neither is the
 * copy. */
static struct grammar_piece copy_piece(struct grammar_builder *b, const struct grammar_piece *p)
{
    const uint32_t from = b->n_nodes, shift = from - p->from;

    for (uint32_t i = p->from; i < p->to && b->error == 0; i++) {
        struct grammar_node n = b->nodes[i];
        uint32_t at;

        if (n.next != NOWHERE)
            n.next += shift;
        if (n.kind == GRAMMAR_SPLIT || n.kind == GRAMMAR_REPEAT)
            n.other += shift;
        at = builder_node(b, (enum grammar_kind)n.kind, n.arg, n.next, n.other);
        if (b->error == 0)
            b->nodes[at].flags = n.flags;
    }
    return builder_piece(b, from, p->start + shift, p->end + shift);
}

/* Makes p* or p+: a SPLIT leads to another pass or out of the loop. */
static struct grammar_piece loop(struct grammar_builder *b, struct grammar_piece p, bool once)
{
    const uint32_t head = builder_node(b, GRAMMAR_SPLIT, 0, p.start, b->n_nodes + 1);
    const uint32_t end = open_end(b);

    lead(b, p.end, head);
    return builder_piece(b, p.from, once ? p.start : head, end);
}

static struct grammar_piece maybe(struct grammar_builder *b, struct grammar_piece p)
{
    const uint32_t split = builder_node(b, GRAMMAR_SPLIT, 0, p.start, p.end);

    return builder_piece(b, p.from, split, p.end);
}

struct grammar_piece grammar_repeat_rule(struct grammar_builder *b, uint32_t rule, uint32_t min,
                                         uint32_t max)
{
    const uint32_t from = b->n_nodes;
    void *repeats = b->repeats;
    const int rc = builder_grow(b, &repeats, b->n_repeats, &b->cap_repeats, sizeof(*b->repeats),
                                GRAMMAR_MAX_NODES, "repetitions");
    uint32_t start, end;

    b->repeats = repeats;
    if (rc < 0)
        return grammar_empty(b);
    b->repeats[b->n_repeats] = (struct grammar_repeat){.min = min, .max = max, .body = rule};
    start = builder_node(b, GRAMMAR_REPEAT, rule, from + 2, from + 1);
    builder_node(b, GRAMMAR_LOOP, b->n_repeats++, from + 2, NOWHERE);
    end = open_end(b);
    return builder_piece(b, from, start, end);
}

/* Chains copies, with the piece itself as the last. Before each copy beyond `min` a SPLIT skips all
 * the rest, so that every count can be read in one way only. */
static struct grammar_piece unroll(struct grammar_builder *b, struct grammar_piece p, uint32_t min,
                                   uint32_t max)
{
    const bool endless = max == GRAMMAR_NO_LIMIT;
    const uint32_t n = endless ? min : max;
    const uint32_t end = open_end(b);
    uint32_t start = end, last = NOWHERE;

    for (uint32_t i = 1; i <= n && b->error == 0; i++) {
        const struct grammar_piece c = i < n ? copy_piece(b, &p) : endless ? loop(b, p, true) : p;
        const uint32_t entry = i > min ? builder_node(b, GRAMMAR_SPLIT, 0, c.start, end) : c.start;

        if (last == NOWHERE)
            start = entry;
        else
            lead(b, last, entry);
        last = c.end;
    }
    if (last != NOWHERE)
        lead(b, last, end);
    return builder_piece(b, p.from, start, end);
}

struct grammar_piece grammar_repeat(struct grammar_builder *b, struct grammar_piece p, uint32_t min,
                                    uint32_t max)
{
    const uint32_t n = max == GRAMMAR_NO_LIMIT ? min : max;
    uint32_t rule;

    if (b->error != 0)
        return p;
    assert(p.to == b->n_nodes);
    if (max == 0)
        return grammar_empty(b);
    if (min == 0 && max == 1)
        return maybe(b, p);
    if (max == GRAMMAR_NO_LIMIT && min <= 1)
        return loop(b, p, min == 1);
    if ((uint64_t)n * (p.to - p.from) <= UNROLL_NODES)
        return unroll(b, p, min, max);
    rule = grammar_rule(b, "");
    grammar_define(b, rule, p);
    return grammar_repeat_rule(b, rule, min, max);
}

/* ---- a choice of texts ---- */

static int compare_texts(const void *a, const void *b)
{
    const struct text_ref *x = a, *y = b;
    const int order = memcmp(x->bytes, y->bytes, x->n < y->n ? x->n : y->n);

    return order != 0 ? order : (x->n > y->n) - (x->n < y->n);
}

/* Adds a successor to a node of the trie of texts: a JUMP, which leads nowhere, to its only
 * successor, or to a SPLIT of several. */
static void branch(struct grammar_builder *b, uint32_t node, uint32_t to)
{
    const uint32_t before = b->nodes[node].next;

    lead(b, node, before == NOWHERE ? to : builder_node(b, GRAMMAR_SPLIT, 0, before, to));
}

/* Adds a byte after a node of the trie; returns the node that follows the byte. */
static uint32_t spell(struct grammar_builder *b, uint32_t node, uint8_t byte)
{
    struct byte_set set = {{0}};
    uint32_t next;

    byte_set_add(&set, byte);
    next = open_end(b);
    branch(b, node, builder_node(b, GRAMMAR_BYTE, builder_set(b, &set), next, 0));
    return next;
}

static size_t common(const struct text_ref *a, const struct text_ref *b)
{
    size_t n = 0;

    while (n < a->n && n < b->n && a->bytes[n] == b->bytes[n])
        n++;
    return n;
}

struct grammar_piece grammar_choice(struct grammar_builder *b, struct text_ref *texts, size_t n)
{
    const uint32_t from = b->n_nodes, start = open_end(b), end = open_end(b);
    uint32_t *path; /* the node after each byte of the latest text */
    size_t longest = 0;

    for (size_t i = 0; i < n; i++)
        longest = texts[i].n > longest ? texts[i].n : longest;
    if (longest >= BUILD_MAX_NODES)
        grammar_builder_fail(b, ERR_LIMIT, "it is too large: one of its strings has %zu bytes",
                             longest);
    path = b->error == 0 ? mem_calloc(longest + 1, sizeof(*path)) : NULL;
    if (path == NULL) {
        grammar_builder_fail(b, ERR_NOMEM, "out of memory");
        return builder_piece(b, from, start, end);
    }
    qsort(texts, n, sizeof(*texts), compare_texts);
    grammar_builder_spend(b, 10 * n); /* steps for the sort */
    path[0] = start;
    for (size_t i = 0; i < n && b->error == 0; i++) {
        size_t k = i > 0 ? common(&texts[i - 1], &texts[i]) : 0;

        grammar_builder_spend(b, 1 + k / 10);
        for (; k < texts[i].n; k++)
            path[k + 1] = spell(b, path[k], (uint8_t)texts[i].bytes[k]);
        branch(b, path[texts[i].n], end);
    }
    mem_free(path);
    return builder_piece(b, from, start, end);
}

/* ---- rules ---- */

uint32_t grammar_rule(struct grammar_builder *b, const char *name)
{
    void *rules = b->rules;
    char *own;
    const int rc = builder_grow(b, &rules, b->n_rules, &b->cap_rules, sizeof(*b->rules),
                                GRAMMAR_MAX_RULES, "rules");

    b->rules = rules;
    own = rc == 0 ? mem_strdup(name) : NULL;
    if (own == NULL) {
        grammar_builder_fail(b, ERR_NOMEM, "out of memory");
        return 0;
    }
    b->rules[b->n_rules] = (struct built_rule){.name = own, .start = NOWHERE};
    return b->n_rules++;
}

void grammar_define(struct grammar_builder *b, uint32_t rule, struct grammar_piece p)
{
    const uint32_t end = builder_node(b, GRAMMAR_END, 0, 0, 0);

    if (b->error != 0)
        return;
    lead(b, p.end, end);
    b->rules[rule].start = p.start;
}

bool grammar_is_defined(const struct grammar_builder *b, uint32_t rule)
{
    return b->error == 0 && b->rules[rule].start != NOWHERE;
}
