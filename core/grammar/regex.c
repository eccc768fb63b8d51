/* core/grammar/regex.c - writes the tree of a regular expression as pieces.
 *
 * A tree without look-around, \b and inner anchors maps node by node onto pieces. Any other tree
 * becomes an expression (regex_expr.c) and then an automaton, which costs far more steps, so only
 * trees that need it take this path. With REGEX_SEARCH an alternative outside parentheses gets any
 * text where it has no anchor. With REGEX_JSON each character is written as its JSON spelling.
 */
#include "core/grammar/regex.h"

#include "core/base/err.h"
#include "core/grammar/regex_impl.h"

#include <stdio.h>
#include <string.h>
#include <unistr.h>

/* ---- spelling ---- */

static struct grammar_piece escape_piece(struct grammar_builder *b, uint32_t c)
{
    static const char plain[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
    const char *at = c != 0 ? strchr(plain, (int)c) : NULL;
    char text[8];

    if (at != NULL)
        snprintf(text, sizeof(text), "\\%c", letters[at - plain]);
    else
        snprintf(text, sizeof(text), "\\u%04x", (unsigned)c);
    return grammar_text(b, text);
}

/* Writes a character of the class as it is, or escaped where JSON requires it. */
struct grammar_piece grammar_json_char(struct grammar_builder *b, struct char_class *c)
{
    struct grammar_piece p = {0}, q;
    struct char_class plain;
    bool any;

    char_class_clear(&plain);
    char_class_merge(&plain, c);
    char_class_remove(&plain, 0, 0x1F);
    char_class_remove(&plain, '"', '"');
    char_class_remove(&plain, '\\', '\\');
    any = plain.n > 0;
    if (any)
        p = grammar_chars(b, plain.at, plain.n);
    for (uint32_t i = 1; i <= '\\'; i = i == 0x1F ? '"' : i == '"' ? '\\' : i + 1) {
        if (!char_class_has(c, i))
            continue;
        q = escape_piece(b, i);
        p = any ? grammar_or(b, p, q) : q;
        any = true;
    }
    if (!any)
        grammar_builder_fail(b, ERR_INVAL, "a character class is empty");
    return p;
}

static struct grammar_piece char_piece(const struct regex *re, uint32_t character)
{
    uint8_t bytes[4];
    const int n = u8_uctomb(bytes, character, sizeof(bytes));

    if ((re->r.flags & REGEX_JSON) && (character < 0x20 || character == '"' || character == '\\')) {
        if (character == 0)
            grammar_builder_fail(re->r.b, ERR_INVAL, "a character class is empty");
        return escape_piece(re->r.b, character);
    }
    return grammar_bytes(re->r.b, bytes, n > 0 ? (size_t)n : 0);
}

static struct grammar_piece class_piece(const struct regex *re, const struct regex_node *n)
{
    struct char_class c;

    char_class_clear(&c);
    regex_class_of(re, n, &c);
    if (re->r.flags & REGEX_JSON)
        return grammar_json_char(re->r.b, &c);
    return grammar_chars(re->r.b, c.at, c.n);
}

/* ---- the tree ---- */

static struct grammar_piece write(const struct regex *re, const struct regex_node *n);

/* Writes any text, of any length. */
static struct grammar_piece anything(const struct regex *re)
{
    struct grammar_builder *b = re->r.b;
    struct char_class all;
    struct grammar_piece p;

    char_class_clear(&all);
    char_class_add(&all, re->r.flags & REGEX_JSON ? 1 : 0, CHAR_LAST);
    p = re->r.flags & REGEX_JSON ? grammar_json_char(b, &all) : grammar_chars(b, all.at, all.n);
    return grammar_repeat(b, p, 0, GRAMMAR_NO_LIMIT);
}

/* is_top: the sequence is not in parentheses; a search allows any text where it has no anchor. */
static struct grammar_piece sequence(const struct regex *re, const struct regex_node *n,
                                     bool is_top)
{
    const bool searches = is_top && (re->r.flags & REGEX_SEARCH) != 0;
    struct grammar_piece p = grammar_empty(re->r.b);
    bool begins = false, ends = false;

    if (searches && n->first != REGEX_NOTHING)
        begins = re->nodes[n->first].kind == REGEX_BEGIN;
    if (searches && !begins)
        p = grammar_then(re->r.b, p, anything(re));
    for (uint32_t i = n->first; i != REGEX_NOTHING && !reader_has_failed(&re->r);
         i = re->nodes[i].next) {
        ends = ends || re->nodes[i].kind == REGEX_END;
        if (re->nodes[i].kind != REGEX_BEGIN && re->nodes[i].kind != REGEX_END)
            p = grammar_then(re->r.b, p, write(re, &re->nodes[i]));
    }
    if (searches && !ends)
        p = grammar_then(re->r.b, p, anything(re));
    return p;
}

static struct grammar_piece choice(const struct regex *re, const struct regex_node *n, bool is_top)
{
    struct grammar_piece p = sequence(re, &re->nodes[n->first], is_top);

    for (uint32_t i = re->nodes[n->first].next; i != REGEX_NOTHING && !reader_has_failed(&re->r);
         i = re->nodes[i].next)
        p = grammar_or(re->r.b, p, sequence(re, &re->nodes[i], is_top));
    return p;
}

static struct grammar_piece write(const struct regex *re, const struct regex_node *n)
{
    struct grammar_piece p;

    switch ((enum regex_kind)n->kind) {
    case REGEX_SEQUENCE:
        return sequence(re, n, false);
    case REGEX_CHOICE:
        return choice(re, n, false);
    case REGEX_CHAR:
        return char_piece(re, n->min);
    case REGEX_CLASS:
        return class_piece(re, n);
    case REGEX_REPEAT:
        p = write(re, &re->nodes[n->first]);
        return grammar_repeat(re->r.b, p, n->min, n->max);
    case REGEX_LOOK:
    case REGEX_BEGIN:
    case REGEX_END:
    case REGEX_WORD_EDGE:
        break;
    }
    return grammar_empty(re->r.b); /* not reached: these trees become expressions */
}

static struct grammar_piece by_expression(struct regex *re)
{
    struct expr_set *e = NULL;
    struct grammar_piece p = {0};

    if (regex_alphabet(&e, re->r.b, re->r.flags) == 0)
        p = expr_piece(e, regex_expr(re, e), (re->r.flags & REGEX_JSON) != 0);
    expr_destroy(&e);
    return p;
}

struct grammar_piece grammar_regex(struct grammar_builder *b, const char *text, size_t n,
                                   unsigned flags)
{
    struct grammar_piece p = {0};
    struct regex re;

    regex_parse(&re, b, text, n, flags);
    if (!reader_has_failed(&re.r) && re.needs_expr)
        p = by_expression(&re);
    else if (!reader_has_failed(&re.r))
        p = re.root->kind == REGEX_CHOICE ? choice(&re, re.root, true)
                                          : sequence(&re, re.root, true);
    regex_release(&re);
    return p;
}

uint32_t grammar_regex_expr(struct expr_set *e, struct grammar_builder *b, const char *text,
                            size_t n, unsigned flags)
{
    uint32_t out = EXPR_NONE;
    struct regex re;

    regex_parse(&re, b, text, n, flags);
    if (!reader_has_failed(&re.r))
        out = regex_expr(&re, e);
    regex_release(&re);
    return out;
}

int grammar_from_regex(struct grammar **out, const char *text, size_t n, struct budget *budget,
                       char *err, size_t err_len)
{
    struct grammar_builder *b;
    int rc = grammar_builder_create(&b, budget);
    uint32_t rule;

    *out = NULL;
    if (rc < 0) {
        snprintf(err, err_len, "out of memory");
        return rc;
    }
    rule = grammar_rule(b, "the expression");
    grammar_define(b, rule, grammar_regex(b, text, n, 0));
    rc = grammar_builder_finish(b, out, err, err_len);
    grammar_builder_destroy(&b);
    return rc;
}
