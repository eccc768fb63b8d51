/* core/grammar/regex.c - see regex.h. A parser by descent that builds as it reads. */
#include "core/grammar/regex.h"

#include "core/base/err.h"
#include "core/grammar/char_class.h"
#include "core/grammar/reader.h"

#include <stdio.h>
#include <string.h>

/* ---- classes by letter ---- */

struct letter_class {
    char letter;
    uint32_t n;
    struct char_range at[12];
};

/* Blanks of either language; what Python alone calls so is among them. */
#define BLANKS                                                                                     \
    {0x09, 0x0D}, {0x1C, 0x20}, {0x85, 0x85}, {0xA0, 0xA0}, {0x1680, 0x1680}, {0x180E, 0x180E},    \
        {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000},  \
        {0xFEFF, 0xFEFF}

/* What surely belongs to the class. */
static const struct letter_class sure[] = {
    {'d', 1, {{'0', '9'}}},
    {'w', 4, {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}},
    {'s', 2, {{0x09, 0x0D}, {0x20, 0x20}}},
};
/* What may belong to it. */
static const struct letter_class perhaps[] = {
    {'d', 2, {{'0', '9'}, {0x80, CHAR_LAST}}},
    {'w', 5, {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}, {0x80, CHAR_LAST}}},
    {'s', 12, {BLANKS}},
};

static void add_letter(struct char_class *c, const struct letter_class *list, char letter)
{
    for (int i = 0; i < 3; i++)
        for (uint32_t k = 0; list[i].letter == letter && k < list[i].n; k++)
            char_class_add(c, list[i].at[k].from, list[i].at[k].to);
}

/* The class behind \d, \D and so on. `wide`: it stands in a negated class, so that whatever may
 * belong to it has to be in it. False: the letter names no class. */
static bool add_class_letter(struct char_class *c, char letter, bool wide)
{
    const char lower = (char)(letter | 0x20);
    const bool negated = letter != lower;
    struct char_class one = {.n = 0};

    if (lower != 'd' && lower != 'w' && lower != 's')
        return false;
    add_letter(&one, wide != negated ? perhaps : sure, lower);
    if (negated)
        char_class_negate(&one);
    char_class_merge(c, &one);
    return true;
}

/* ---- one character ---- */

static uint32_t read_hex(struct reader *r, uint32_t n_digits)
{
    return reader_hex(r, n_digits, ERR_UNSUPPORTED, "halves of characters are not supported");
}

/* \u{...} */
static uint32_t read_braced(struct reader *r)
{
    size_t n = 0;
    uint32_t value;

    while (r->at + n < r->n && r->text[r->at + n] != '}' && n < 7)
        n++;
    value = n > 0 ? read_hex(r, (uint32_t)n) : 0;
    if (n == 0 || !reader_take(r, "}"))
        reader_fail(r, ERR_INVAL, "an escape that does not end");
    return value;
}

static uint32_t read_escape(struct reader *r)
{
    static const char from[] = "nrtfv0", to[] = "\n\r\t\f\v";
    const char c = reader_peek(r);
    const char *simple = c != '\0' ? strchr(from, c) : NULL;

    if (c == 'x' || c == 'u') {
        reader_pass(r);
        if (c == 'u' && reader_take(r, "{"))
            return read_braced(r);
        return read_hex(r, c == 'x' ? 2 : 4);
    }
    if (c >= '1' && c <= '9')
        reader_fail(r, ERR_UNSUPPORTED, "back-references are not supported");
    else if (c == 'p' || c == 'P')
        reader_fail(r, ERR_UNSUPPORTED, "\\p is not supported");
    else if (simple == NULL &&
             (r->at >= r->n || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')))
        reader_fail(r, ERR_UNSUPPORTED, "this escape is not supported");
    reader_pass(r);
    return simple != NULL ? (uint8_t)to[simple - from] : (uint8_t)c;
}

static uint32_t read_char(struct reader *r)
{
    return reader_char(r, "the expression ends too early, or is no UTF-8");
}

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

/* Characters as they are, and those that JSON wants escaped. */
struct grammar_piece grammar_json_char(struct grammar_builder *b, struct char_class *c)
{
    struct char_class plain = *c;
    struct grammar_piece p = {0}, q;
    bool any;

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
        grammar_builder_fail(b, ERR_INVAL, "a class of characters is empty");
    return p;
}

static struct grammar_piece class_piece(struct reader *r, struct char_class *c)
{
    char_class_sort(c);
    if (c->is_full)
        reader_fail(r, ERR_LIMIT, "a class of too many characters");
    else if (c->n == 0)
        reader_fail(r, ERR_INVAL, "a class without characters");
    if (r->flags & REGEX_JSON)
        return grammar_json_char(r->b, c);
    return grammar_chars(r->b, c->at, c->n);
}

static struct grammar_piece char_piece(struct reader *r, uint32_t character)
{
    struct char_class c = {.n = 0};

    char_class_add(&c, character, character);
    return class_piece(r, &c);
}

/* ---- what is repeated ---- */

static struct grammar_piece alternatives(struct reader *r);

/* A member of a class; false when it was a class of its own, which has been added. */
static bool read_member(struct reader *r, struct char_class *c, bool negated, uint32_t *out)
{
    if (!reader_take(r, "\\")) {
        *out = read_char(r);
        return true;
    }
    if (add_class_letter(c, reader_peek(r), negated)) {
        reader_pass(r);
        return false;
    }
    if (reader_take(r, "b"))
        *out = '\b';
    else if (reader_take(r, "-"))
        *out = '-';
    else
        *out = read_escape(r);
    return true;
}

static void read_members(struct reader *r, struct char_class *c, bool negated)
{
    while (!reader_has_failed(r) && reader_peek(r) != ']') {
        uint32_t from, to;

        if (r->at >= r->n) {
            reader_fail(r, ERR_INVAL, "a class that does not end");
            return;
        }
        if (!read_member(r, c, negated, &from))
            continue;
        to = from;
        if (reader_peek(r) == '-' && r->at + 1 < r->n && r->text[r->at + 1] != ']') {
            reader_pass(r);
            if (!read_member(r, c, negated, &to) || to < from)
                reader_fail(r, ERR_INVAL, "a range that ends before it begins");
        }
        char_class_add(c, from, to);
    }
    reader_pass(r);
}

static struct grammar_piece class(struct reader *r)
{
    struct char_class c = {.n = 0};
    const bool negated = reader_take(r, "^");

    read_members(r, &c, negated);
    if (negated)
        char_class_negate(&c);
    return class_piece(r, &c);
}

/* Past the (?...) that says what kind of group it is. */
static void read_group_kind(struct reader *r)
{
    if (!reader_take(r, "?") || reader_take(r, ":"))
        return;
    if (reader_take(r, "=") || reader_take(r, "!") || reader_take(r, "<=") ||
        reader_take(r, "<!")) {
        reader_fail(r, ERR_UNSUPPORTED, "look-around is not supported");
        return;
    }
    if (!reader_take(r, "P<") && !reader_take(r, "<")) {
        reader_fail(r, ERR_UNSUPPORTED, "this kind of group is not supported");
        return;
    }
    while (r->at < r->n && reader_peek(r) != '>')
        reader_pass(r);
    reader_pass(r);
}

static struct grammar_piece group(struct reader *r)
{
    struct grammar_piece p = {0};

    read_group_kind(r);
    if (++r->nesting > REGEX_MAX_NESTING)
        reader_fail(r, ERR_LIMIT, "parentheses are nested too deeply");
    if (reader_has_failed(r))
        return p;
    p = alternatives(r);
    r->nesting--;
    if (!reader_take(r, ")"))
        reader_fail(r, ERR_INVAL, "a parenthesis that is not closed");
    return p;
}

static bool is_one_of(char c, const char *list)
{
    return c != '\0' && strchr(list, c) != NULL;
}

static struct grammar_piece escape(struct reader *r)
{
    struct char_class c = {.n = 0};

    if (add_class_letter(&c, reader_peek(r), false)) {
        reader_pass(r);
        return class_piece(r, &c);
    }
    if (is_one_of(reader_peek(r), "bBAZz")) {
        reader_fail(r, ERR_UNSUPPORTED, "this assertion is not supported");
        return (struct grammar_piece){0};
    }
    return char_piece(r, read_escape(r));
}

static struct grammar_piece dot(struct reader *r)
{
    static const struct char_range line_ends[] = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};
    struct char_class c = {.n = 0};

    for (int i = 0; i < 3; i++)
        char_class_add(&c, line_ends[i].from, line_ends[i].to);
    char_class_negate(&c);
    return class_piece(r, &c);
}

static struct grammar_piece atom(struct reader *r)
{
    if (reader_take(r, "("))
        return group(r);
    if (reader_take(r, "["))
        return class(r);
    if (reader_take(r, "."))
        return dot(r);
    if (reader_take(r, "\\"))
        return escape(r);
    if (is_one_of(reader_peek(r), "*+?{"))
        reader_fail(r, ERR_INVAL, "there is nothing to repeat");
    if (reader_peek(r) == '^' || reader_peek(r) == '$')
        reader_fail(r, ERR_UNSUPPORTED, "an anchor inside an expression is not supported");
    if (reader_has_failed(r))
        return grammar_empty(r->b);
    return char_piece(r, read_char(r));
}

/* ---- repetition ---- */

static void read_counts(struct reader *r, uint32_t *min, uint32_t *max)
{
    const bool has_min = reader_count(r, min);

    *max = *min;
    if (has_min && reader_take(r, ",") && !reader_count(r, max))
        *max = GRAMMAR_NO_LIMIT;
    if (!has_min || !reader_take(r, "}"))
        reader_fail(r, ERR_INVAL, "a repetition that is not {n}, {n,} or {n,m}");
    else if (*max < *min)
        reader_fail(r, ERR_INVAL, "a repetition whose most is below its least");
}

static struct grammar_piece repeated(struct reader *r)
{
    struct grammar_piece p = atom(r);
    uint32_t min = 0, max = GRAMMAR_NO_LIMIT;

    if (reader_has_failed(r))
        return p;
    if (reader_take(r, "+"))
        min = 1;
    else if (reader_take(r, "?"))
        max = 1;
    else if (reader_take(r, "{"))
        read_counts(r, &min, &max);
    else if (!reader_take(r, "*"))
        return p;
    if (reader_take(r, "+"))
        reader_fail(r, ERR_UNSUPPORTED, "possessive repetition is not supported");
    reader_take(r, "?");
    if (is_one_of(reader_peek(r), "*+?{"))
        reader_fail(r, ERR_INVAL, "there is nothing to repeat");
    return grammar_repeat(r->b, p, min, max);
}

static bool at_end(const struct reader *r)
{
    return r->at >= r->n || reader_peek(r) == '|' || reader_peek(r) == ')';
}

/* ---- alternatives and anchors ---- */

/* Any text at all. */
static struct grammar_piece anything(struct reader *r)
{
    struct char_class all = {.n = 0};

    char_class_add(&all, r->flags & REGEX_JSON ? 1 : 0, CHAR_LAST);
    return grammar_repeat(r->b, class_piece(r, &all), 0, GRAMMAR_NO_LIMIT);
}

static bool may_be_anchored(const struct reader *r)
{
    return r->nesting == 0;
}

/* Anchors count at the outermost level; without them anything may stand before and behind. */
static struct grammar_piece alternative(struct reader *r)
{
    const bool searches = may_be_anchored(r) && (r->flags & REGEX_SEARCH) != 0;
    struct grammar_piece p = grammar_empty(r->b);
    bool begins = false, ends = false;

    while (may_be_anchored(r) && reader_take(r, "^"))
        begins = true;
    if (searches && !begins)
        p = grammar_then(r->b, p, anything(r));
    while (!reader_has_failed(r) && !at_end(r) && !ends) {
        if (may_be_anchored(r) && reader_take(r, "$"))
            ends = true;
        else
            p = grammar_then(r->b, p, repeated(r));
    }
    if (ends && !at_end(r))
        reader_fail(r, ERR_UNSUPPORTED, "an anchor inside an expression is not supported");
    if (searches && !ends)
        p = grammar_then(r->b, p, anything(r));
    return p;
}

static struct grammar_piece alternatives(struct reader *r)
{
    struct grammar_piece p = alternative(r);

    while (!reader_has_failed(r) && reader_take(r, "|"))
        p = grammar_or(r->b, p, alternative(r));
    return p;
}

struct grammar_piece grammar_regex(struct grammar_builder *b, const char *text, size_t n,
                                   unsigned flags)
{
    struct reader r = {.b = b, .text = text, .n = n, .flags = flags};
    struct grammar_piece p = alternatives(&r);

    if (!reader_has_failed(&r) && r.at < r.n)
        reader_fail(&r, ERR_INVAL, "a parenthesis that was not opened");
    return p;
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
