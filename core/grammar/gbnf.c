/* core/grammar/gbnf.c - reads GBNF by recursive descent and makes pieces as it reads.
 *
 * Each function reads the construct that it is named after, from the reader's position; there is no
 * tree. A rule is made when its name is first mentioned and defined later, so rules may refer to
 * each other in any order; `root` is made before all others, because texts begin with the first
 * rule. The names are in a hash table whose collisions cost steps of the budget. GBNF_MAX_NESTING
 * bounds the recursion.
 */
#include "core/grammar/gbnf.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/grammar/builder.h"
#include "core/grammar/char_class.h"
#include "core/grammar/reader.h"

#include <stdio.h>
#include <string.h>

struct name {
    const char *text;
    size_t n;
    uint32_t rule;
};

struct rule_names {
    struct name *slots; /* [cap] open addressing by text */
    uint32_t n, cap;
};

/* Skips blanks and comments; `lines`: line ends as well, where a rule cannot end. */
static void skip(struct reader *r, bool lines)
{
    while (r->at < r->n) {
        const char c = r->text[r->at];

        if (c == '#') {
            while (r->at < r->n && r->text[r->at] != '\n' && r->text[r->at] != '\r')
                reader_pass(r);
        } else if (c == ' ' || c == '\t' || (lines && (c == '\n' || c == '\r'))) {
            reader_pass(r);
        } else {
            break;
        }
    }
}

/* ---- names ---- */

static bool is_rule_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           c == '-' || c == '_';
}

static uint32_t hash_name(const char *text, size_t n)
{
    uint32_t hash = 2166136261u;

    for (size_t i = 0; i < n; i++)
        hash = (hash ^ (uint8_t)text[i]) * 16777619u;
    return hash ^ hash >> 15;
}

static struct name *name_slot(struct reader *r, const char *text, size_t n)
{
    const uint32_t mask = r->names->cap - 1;
    struct name *slots = r->names->slots;
    uint32_t at = hash_name(text, n) & mask;

    grammar_builder_spend(r->b, 1 + n / 10);
    while (slots[at].text != NULL && (slots[at].n != n || memcmp(slots[at].text, text, n) != 0)) {
        grammar_builder_spend(r->b, 1); /* names that collide can be made on purpose */
        at = (at + 1) & mask;
    }
    return &slots[at];
}

/* Returns the rule of that name, which is made at its first mention. */
static uint32_t rule_named(struct reader *r, const char *text, size_t n)
{
    struct name *slot = name_slot(r, text, n);
    char quoted[80];

    if (slot->text != NULL)
        return slot->rule;
    if (2 * (r->names->n + 1) > r->names->cap) {
        reader_fail(r, ERR_LIMIT, "the grammar has too many rules");
        return 0;
    }
    snprintf(quoted, sizeof(quoted), "the rule '%.*s'", (int)(n < 60 ? n : 60), text);
    *slot = (struct name){.text = text, .n = n, .rule = grammar_rule(r->b, quoted)};
    r->names->n++;
    return slot->rule;
}

static size_t read_rule_name(struct reader *r, const char **text)
{
    *text = r->text + r->at;
    while (is_rule_char(reader_peek(r)))
        reader_pass(r);
    return (size_t)(r->text + r->at - *text);
}

/* True: "name ::=" stands here. */
static bool at_definition(struct reader *r)
{
    const size_t from = r->at;
    const char *text;
    bool found;

    found = read_rule_name(r, &text) > 0;
    skip(r, false);
    found = found && reader_take(r, "::=");
    r->at = from;
    return found;
}

/* ---- characters ---- */

static uint32_t read_gbnf_hex(struct reader *r, uint32_t n_digits)
{
    return reader_hex(r, n_digits, ERR_INVAL, "an escape does not stand for a character");
}

static uint32_t read_escape(struct reader *r)
{
    const char c = reader_peek(r);

    reader_pass(r);
    switch (c) {
    case 'n':
        return '\n';
    case 'r':
        return '\r';
    case 't':
        return '\t';
    case 'x':
        return read_gbnf_hex(r, 2);
    case 'u':
        return read_gbnf_hex(r, 4);
    case 'U':
        return read_gbnf_hex(r, 8);
    case '\\':
    case '"':
    case '[':
    case ']':
    case '-':
    case '^':
        return (uint8_t)c;
    default:
        reader_fail(r, ERR_INVAL, "an unknown escape");
        return 0;
    }
}

static uint32_t read_char(struct reader *r)
{
    const uint32_t c = reader_char(r, "the grammar is not valid UTF-8");

    return c == '\\' ? read_escape(r) : c;
}

/* ---- elements of a rule ---- */

static struct grammar_piece alternatives(struct reader *r);

static struct grammar_piece literal(struct reader *r)
{
    const size_t from = r->at;
    struct grammar_piece p = grammar_empty(r->b);

    while (!reader_has_failed(r) && reader_peek(r) != '"') {
        struct char_range c;

        if (r->at >= r->n || reader_peek(r) == '\n') {
            r->at = from;
            reader_fail(r, ERR_INVAL, "a literal has no closing quote");
            break;
        }
        c.from = c.to = read_char(r);
        p = grammar_then(r->b, p, grammar_chars(r->b, &c, 1));
    }
    reader_pass(r);
    return p;
}

static struct grammar_piece class(struct reader *r)
{
    const bool negated = reader_take(r, "^");
    struct char_class c;

    char_class_clear(&c);
    while (!reader_has_failed(r) && reader_peek(r) != ']') {
        uint32_t from, to;

        if (r->at >= r->n || reader_peek(r) == '\n') {
            reader_fail(r, ERR_INVAL, "a character class has no closing ']'");
            break;
        }
        from = to = read_char(r);
        if (reader_peek(r) == '-' && r->at + 1 < r->n && r->text[r->at + 1] != ']') {
            reader_pass(r);
            to = read_char(r);
        }
        if (to < from)
            reader_fail(r, ERR_INVAL, "the end of a range is below its start");
        char_class_add(&c, from, to);
    }
    reader_pass(r);
    if (negated)
        char_class_negate(&c);
    else
        char_class_sort(&c);
    if (c.is_full)
        reader_fail(r, ERR_LIMIT, "a character class has too many ranges");
    else if (c.n == 0)
        reader_fail(r, ERR_INVAL, "a character class is empty");
    return grammar_chars(r->b, c.at, c.n);
}

static struct grammar_piece group(struct reader *r)
{
    struct grammar_piece p = {0};

    if (++r->nesting > GBNF_MAX_NESTING) {
        reader_fail(r, ERR_LIMIT, "parentheses are nested too deeply");
        return p;
    }
    skip(r, true);
    p = alternatives(r);
    r->nesting--;
    if (!reader_has_failed(r) && !reader_take(r, ")"))
        reader_fail(r, ERR_INVAL, "a parenthesis is not closed");
    return p;
}

static struct grammar_piece element(struct reader *r)
{
    static const struct char_range any = {0, CHAR_LAST};
    const char *text;
    size_t n;

    if (reader_take(r, "\""))
        return literal(r);
    if (reader_take(r, "["))
        return class(r);
    if (reader_take(r, "("))
        return group(r);
    if (reader_take(r, "."))
        return grammar_chars(r->b, &any, 1);
    n = read_rule_name(r, &text);
    if (n > 0)
        return grammar_call(r->b, rule_named(r, text, n));
    if (reader_peek(r) == '<' || reader_peek(r) == '!')
        reader_fail(r, ERR_UNSUPPORTED, "references to tokens are not supported");
    else
        reader_fail(r, ERR_INVAL, "expected a literal, a character class, a rule name or '('");
    return (struct grammar_piece){0};
}

/* ---- repetition ---- */

/* Reads the inside of {...}. */
static void read_counts(struct reader *r, uint32_t *min, uint32_t *max)
{
    bool any;

    skip(r, false);
    any = reader_count(r, min);
    *max = *min;
    skip(r, false);
    if (reader_take(r, ",")) {
        skip(r, false);
        *max = GRAMMAR_NO_LIMIT;
        any = true;
        if (reader_peek(r) != '}')
            any = reader_count(r, max);
        skip(r, false);
    }
    if (!any || !reader_take(r, "}"))
        reader_fail(r, ERR_INVAL, "a repetition must be {n}, {n,}, {,m} or {n,m}");
    else if (*max < *min)
        reader_fail(r, ERR_INVAL, "the maximum of a repetition is below its minimum");
}

/* Reads the repetition marks after a piece; each repeats all before it. */
static struct grammar_piece repeated(struct reader *r, struct grammar_piece p)
{
    uint32_t min, max;

    while (!reader_has_failed(r)) {
        min = 0;
        max = GRAMMAR_NO_LIMIT;
        if (reader_take(r, "+"))
            min = 1;
        else if (reader_take(r, "?"))
            max = 1;
        else if (reader_take(r, "{"))
            read_counts(r, &min, &max);
        else if (!reader_take(r, "*"))
            break;
        p = grammar_repeat(r->b, p, min, max);
        skip(r, r->nesting > 0);
    }
    return p;
}

static bool at_end_of_sequence(struct reader *r)
{
    const char c = reader_peek(r);

    return r->at >= r->n || c == '|' || c == ')' || c == '\n' || c == '\r';
}

static struct grammar_piece sequence(struct reader *r)
{
    struct grammar_piece p = grammar_empty(r->b);

    while (!reader_has_failed(r) && !at_end_of_sequence(r)) {
        struct grammar_piece q = element(r);

        skip(r, r->nesting > 0);
        q = repeated(r, q);
        p = grammar_then(r->b, p, q);
    }
    return p;
}

/* True: another alternative follows, perhaps on the next line. Skips its bar. */
static bool next_alternative(struct reader *r)
{
    const size_t from = r->at;

    skip(r, true);
    if (reader_take(r, "|")) {
        skip(r, true);
        return true;
    }
    r->at = from;
    return false;
}

static struct grammar_piece alternatives(struct reader *r)
{
    struct grammar_piece p = sequence(r);

    while (!reader_has_failed(r) && next_alternative(r))
        p = grammar_or(r->b, p, sequence(r));
    return p;
}

/* ---- rules ---- */

static void definition(struct reader *r)
{
    const char *text;
    size_t n;
    uint32_t rule;

    if (!at_definition(r)) {
        reader_fail(r, ERR_INVAL, "expected a rule: name ::= ...");
        return;
    }
    n = read_rule_name(r, &text);
    rule = rule_named(r, text, n);
    if (grammar_is_defined(r->b, rule)) {
        reader_fail(r, ERR_INVAL, "a rule is defined twice");
        return;
    }
    skip(r, false);
    reader_take(r, "::=");
    skip(r, true);
    grammar_define(r->b, rule, alternatives(r)); /* `rule` exists before those it mentions */
    if (!reader_has_failed(r) && reader_peek(r) == ')')
        reader_fail(r, ERR_INVAL, "a closing parenthesis has no opening one");
}

/* Reads all rules; returns `root`, which is made first. */
static uint32_t read_grammar(struct reader *r)
{
    const uint32_t root = rule_named(r, "root", 4);

    skip(r, true);
    if (r->at == r->n)
        reader_fail(r, ERR_INVAL, "the grammar has no rule");
    while (!reader_has_failed(r) && r->at < r->n) {
        definition(r);
        skip(r, true);
    }
    return root;
}

/* Reads the text's rules into a builder; returns the root. */
static uint32_t read_rules(struct grammar_builder *b, const char *text, size_t n)
{
    struct rule_names names = {.cap = 4 * GRAMMAR_MAX_RULES};
    struct reader r = {.b = b, .text = text, .n = n, .has_lines = true, .names = &names};
    uint32_t root = 0;

    names.slots = mem_calloc(names.cap, sizeof(*names.slots));
    if (names.slots == NULL)
        grammar_builder_fail(b, ERR_NOMEM, "out of memory");
    else
        root = read_grammar(&r);
    mem_free(names.slots);
    return root;
}

struct grammar_piece grammar_gbnf(struct grammar_builder *b, const char *text, size_t n)
{
    const uint32_t root = read_rules(b, text, n);

    return grammar_call(b, root);
}

int grammar_from_gbnf(struct grammar **out, const char *text, size_t n, struct budget *budget,
                      char *err, size_t err_len)
{
    struct grammar_builder *b;
    int rc = grammar_builder_create(&b, budget);

    *out = NULL;
    snprintf(err, err_len, "out of memory");
    if (rc < 0)
        return rc;
    read_rules(b, text, n);
    rc = grammar_builder_finish(b, out, err, err_len);
    grammar_builder_destroy(&b);
    return rc;
}
