/* core/grammar/regex_parse.c - reads a regular expression into a tree by recursive descent.
 *
 * Nodes and the ranges of classes are two arrays that double, so nodes refer to each other by
 * index. The parser also decides how the tree is compiled: look-around, \b, and anchors that are
 * not at the ends of an alternative outside parentheses set needs_expr. A plain group leaves no
 * node of its own. REGEX_MAX_NESTING bounds the recursion.
 */
#include "core/grammar/regex_impl.h"

#include "core/base/err.h"
#include "core/base/mem.h"

#include <string.h>

/* ---- the tree ---- */

static bool has_failed(const struct regex *re)
{
    return reader_has_failed(&re->r);
}

/* Doubles the array until it has room for `more` elements after the first n. */
static bool grow_nodes(struct regex *re, void **array, uint32_t n, uint32_t more, uint32_t *cap,
                       size_t bytes)
{
    uint32_t bigger_cap = *cap > 0 ? *cap : 16;
    void *bigger;

    if (n + more <= *cap)
        return true;
    while (bigger_cap < n + more)
        bigger_cap *= 2;
    bigger = mem_realloc(*array, bigger_cap * bytes);
    if (bigger == NULL) {
        grammar_builder_fail(re->r.b, ERR_NOMEM, "out of memory");
        return false;
    }
    *array = bigger;
    *cap = bigger_cap;
    return true;
}

/* Makes a node; returns its number, or REGEX_NOTHING after an error. */
static uint32_t make_regex_node(struct regex *re, enum regex_kind kind, uint32_t first,
                                uint32_t min, uint32_t max)
{
    void *nodes = re->nodes;

    if (has_failed(re) || grammar_builder_spend(re->r.b, 1) < 0)
        return REGEX_NOTHING;
    if (re->n_nodes >= REGEX_MAX_NODES) {
        reader_fail(&re->r, ERR_LIMIT, "the expression is too long");
        return REGEX_NOTHING;
    }
    if (!grow_nodes(re, &nodes, re->n_nodes, 1, &re->cap_nodes, sizeof(*re->nodes)))
        return REGEX_NOTHING;
    re->nodes = nodes;
    re->nodes[re->n_nodes] = (struct regex_node){
        .kind = (uint8_t)kind, .first = first, .next = REGEX_NOTHING, .min = min, .max = max};
    return re->n_nodes++;
}

static uint32_t make_class(struct regex *re, struct char_class *c)
{
    const uint32_t from = re->n_ranges;
    void *ranges = re->ranges;

    char_class_sort(c);
    grammar_builder_spend(re->r.b, 20 + c->n / 4);
    if (c->is_full)
        reader_fail(&re->r, ERR_LIMIT, "a character class has too many ranges");
    else if (c->n == 0)
        reader_fail(&re->r, ERR_INVAL, "a character class is empty");
    if (has_failed(re) ||
        !grow_nodes(re, &ranges, from, c->n, &re->cap_ranges, sizeof(*re->ranges)))
        return REGEX_NOTHING;
    re->ranges = ranges;
    memcpy(re->ranges + from, c->at, c->n * sizeof(c->at[0]));
    re->n_ranges += c->n;
    return make_regex_node(re, REGEX_CLASS, REGEX_NOTHING, from, c->n);
}

void regex_class_of(const struct regex *re, const struct regex_node *n, struct char_class *c)
{
    if (n->kind == REGEX_CHAR) {
        char_class_add(c, n->min, n->min);
        return;
    }
    memcpy(c->at, re->ranges + n->min, n->max * sizeof(c->at[0]));
    c->n = n->max;
}

/* ---- one character ---- */

static uint32_t read_regex_hex(struct reader *r, uint32_t n_digits)
{
    return reader_hex(r, n_digits, ERR_UNSUPPORTED, "surrogate code points are not supported");
}

/* Reads the digits and the end of \u{...}. */
static uint32_t read_braced(struct reader *r)
{
    size_t n = 0;
    uint32_t value;

    while (r->at + n < r->n && r->text[r->at + n] != '}' && n < 7)
        n++;
    value = n > 0 ? read_regex_hex(r, (uint32_t)n) : 0;
    if (n == 0 || !reader_take(r, "}"))
        reader_fail(r, ERR_INVAL, "an escape has no closing '}'");
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
        return read_regex_hex(r, c == 'x' ? 2 : 4);
    }
    if (c >= '1' && c <= '9')
        reader_fail(r, ERR_UNSUPPORTED, "back-references are not supported");
    else if (simple == NULL && (r->at >= r->n || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')))
        reader_fail(r, ERR_UNSUPPORTED, "this escape is not supported");
    reader_pass(r);
    return simple != NULL ? (uint8_t)to[simple - from] : (uint8_t)c;
}

static uint32_t read_char(struct reader *r)
{
    return reader_char(r, "the expression ends too early, or is not valid UTF-8");
}

/* ---- classes ---- */

/* Reads the name of a class after a backslash (d, p{..} and the like) and adds the class; false:
 * there is none. */
static bool read_named(struct reader *r, struct char_class *c, bool wide)
{
    const char letter = reader_peek(r);

    if (letter == 'p' || letter == 'P') {
        reader_pass(r);
        regex_add_property(r, c, letter == 'P', wide);
        return true;
    }
    if (!regex_add_letter(c, letter, wide))
        return false;
    reader_pass(r);
    return true;
}

/* Reads a member of a class; false: it was a named class, which has been added. */
static bool read_member(struct reader *r, struct char_class *c, bool negated, uint32_t *out)
{
    if (!reader_take(r, "\\")) {
        *out = read_char(r);
        return true;
    }
    if (read_named(r, c, negated))
        return false;
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
            reader_fail(r, ERR_INVAL, "a character class has no closing ']'");
            return;
        }
        if (!read_member(r, c, negated, &from))
            continue;
        to = from;
        if (reader_peek(r) == '-' && r->at + 1 < r->n && r->text[r->at + 1] != ']') {
            reader_pass(r);
            if (!read_member(r, c, negated, &to) || to < from)
                reader_fail(r, ERR_INVAL, "the end of a range is below its start");
        }
        char_class_add(c, from, to);
    }
    reader_pass(r);
}

static uint32_t class(struct regex *re)
{
    const bool negated = reader_take(&re->r, "^");
    struct char_class c;

    char_class_clear(&c);
    read_members(&re->r, &c, negated);
    if (negated)
        char_class_negate(&c);
    return make_class(re, &c);
}

/* ---- atoms ---- */

static uint32_t alternatives(struct regex *re);

/* Passes the (?... of a group; returns its look-around (enum regex_look), or -1 for a plain
 * group. */
static int read_group_kind(struct regex *re)
{
    struct reader *r = &re->r;

    if (!reader_take(r, "?") || reader_take(r, ":"))
        return -1;
    if (reader_take(r, "="))
        return 0;
    if (reader_take(r, "!"))
        return LOOK_NOT;
    if (reader_take(r, "<="))
        return LOOK_BEHIND;
    if (reader_take(r, "<!"))
        return LOOK_BEHIND | LOOK_NOT;
    if (!reader_take(r, "P<") && !reader_take(r, "<")) {
        reader_fail(r, ERR_UNSUPPORTED, "this kind of group is not supported");
        return -1;
    }
    while (r->at < r->n && reader_peek(r) != '>')
        reader_pass(r);
    reader_pass(r);
    return -1;
}

static uint32_t group(struct regex *re)
{
    const int look = read_group_kind(re);
    uint32_t inside;

    if (++re->r.nesting > REGEX_MAX_NESTING)
        reader_fail(&re->r, ERR_LIMIT, "parentheses are nested too deeply");
    if (has_failed(re))
        return REGEX_NOTHING;
    inside = alternatives(re);
    re->r.nesting--;
    if (!reader_take(&re->r, ")"))
        reader_fail(&re->r, ERR_INVAL, "a parenthesis is not closed");
    if (look < 0)
        return inside;
    re->needs_expr = true;
    return make_regex_node(re, REGEX_LOOK, inside, (uint32_t)look, 0);
}

static uint32_t escape(struct regex *re)
{
    struct reader *r = &re->r;
    struct char_class c;

    char_class_clear(&c);
    if (read_named(r, &c, false))
        return make_class(re, &c);
    if (reader_peek(r) == 'b' || reader_peek(r) == 'B') {
        re->needs_expr = true;
        reader_pass(r);
        return make_regex_node(re, REGEX_WORD_EDGE, REGEX_NOTHING, r->text[r->at - 1] == 'B', 0);
    }
    if (reader_peek(r) == 'A' || reader_peek(r) == 'Z' || reader_peek(r) == 'z') {
        reader_fail(r, ERR_UNSUPPORTED, "this assertion is not supported");
        return REGEX_NOTHING;
    }
    return make_regex_node(re, REGEX_CHAR, REGEX_NOTHING, read_escape(r), 0);
}

static bool is_regex_char(char c, const char *list)
{
    return c != '\0' && strchr(list, c) != NULL;
}

static uint32_t dot(struct regex *re)
{
    struct char_class c;

    char_class_clear(&c);
    regex_dot(&c);
    return make_class(re, &c);
}

static uint32_t atom(struct regex *re)
{
    struct reader *r = &re->r;

    if (reader_take(r, "("))
        return group(re);
    if (reader_take(r, "["))
        return class(re);
    if (reader_take(r, "."))
        return dot(re);
    if (reader_take(r, "\\"))
        return escape(re);
    if (reader_take(r, "^"))
        return make_regex_node(re, REGEX_BEGIN, REGEX_NOTHING, 0, 0);
    if (reader_take(r, "$"))
        return make_regex_node(re, REGEX_END, REGEX_NOTHING, 0, 0);
    if (is_regex_char(reader_peek(r), "*+?{"))
        reader_fail(r, ERR_INVAL, "there is nothing to repeat");
    return has_failed(re) ? REGEX_NOTHING
                          : make_regex_node(re, REGEX_CHAR, REGEX_NOTHING, read_char(r), 0);
}

/* ---- repetition ---- */

static void read_counts(struct reader *r, uint32_t *min, uint32_t *max)
{
    const bool has_min = reader_count(r, min);

    *max = *min;
    if (has_min && reader_take(r, ",") && !reader_count(r, max))
        *max = GRAMMAR_NO_LIMIT;
    if (!has_min || !reader_take(r, "}"))
        reader_fail(r, ERR_INVAL, "a repetition must be {n}, {n,} or {n,m}");
    else if (*max < *min)
        reader_fail(r, ERR_INVAL, "the maximum of a repetition is below its minimum");
}

static bool is_assertion(const struct regex *re, uint32_t n)
{
    return n != REGEX_NOTHING && re->nodes[n].kind >= REGEX_LOOK;
}

static uint32_t repeated(struct regex *re)
{
    const uint32_t inside = atom(re);
    uint32_t min = 0, max = GRAMMAR_NO_LIMIT;
    struct reader *r = &re->r;

    if (has_failed(re))
        return REGEX_NOTHING;
    if (is_assertion(re, inside) && is_regex_char(reader_peek(r), "*+?{"))
        reader_fail(r, ERR_UNSUPPORTED, "a repeated assertion is not supported");
    if (reader_take(r, "+"))
        min = 1;
    else if (reader_take(r, "?"))
        max = 1;
    else if (reader_take(r, "{"))
        read_counts(r, &min, &max);
    else if (!reader_take(r, "*"))
        return inside;
    if (reader_take(r, "+"))
        reader_fail(r, ERR_UNSUPPORTED, "possessive repetition is not supported");
    reader_take(r, "?");
    if (is_regex_char(reader_peek(r), "*+?{"))
        reader_fail(r, ERR_INVAL, "there is nothing to repeat");
    return make_regex_node(re, REGEX_REPEAT, inside, min, max);
}

/* ---- alternatives ---- */

static bool at_end(const struct reader *r)
{
    return r->at >= r->n || reader_peek(r) == '|' || reader_peek(r) == ')';
}

/* Sets needs_expr for anchors that pieces cannot express: all but those at the two ends of an
 * alternative outside parentheses. */
static void check_anchors(struct regex *re, uint32_t first)
{
    bool begins = re->r.nesting == 0, ended = false;

    for (uint32_t i = first; i != REGEX_NOTHING; i = re->nodes[i].next) {
        const uint8_t kind = re->nodes[i].kind;

        if ((kind == REGEX_BEGIN && !begins) || (kind == REGEX_END && re->r.nesting > 0) ||
            (kind != REGEX_END && ended))
            re->needs_expr = true;
        ended = ended || kind == REGEX_END;
        begins = begins && kind == REGEX_BEGIN;
    }
}

static uint32_t alternative(struct regex *re)
{
    uint32_t first = REGEX_NOTHING, last = REGEX_NOTHING, n;

    while (!has_failed(re) && !at_end(&re->r)) {
        n = repeated(re);
        if (has_failed(re))
            return REGEX_NOTHING;
        if (last == REGEX_NOTHING)
            first = n;
        else
            re->nodes[last].next = n;
        last = n;
    }
    check_anchors(re, first);
    return make_regex_node(re, REGEX_SEQUENCE, first, 0, 0);
}

static uint32_t alternatives(struct regex *re)
{
    const uint32_t first = alternative(re);
    uint32_t last = first;

    if (has_failed(re) || reader_peek(&re->r) != '|')
        return first;
    while (!has_failed(re) && reader_take(&re->r, "|")) {
        const uint32_t n = alternative(re);

        if (has_failed(re))
            return REGEX_NOTHING;
        re->nodes[last].next = n;
        last = n;
    }
    return make_regex_node(re, REGEX_CHOICE, first, 0, 0);
}

void regex_parse(struct regex *re, struct grammar_builder *b, const char *text, size_t n,
                 unsigned flags)
{
    uint32_t root;

    *re = (struct regex){.r = {.b = b, .text = text, .n = n, .flags = flags}};
    root = alternatives(re);
    if (!has_failed(re) && re->r.at < re->r.n)
        reader_fail(&re->r, ERR_INVAL, "a closing parenthesis has no opening one");
    if (!has_failed(re))
        re->root = &re->nodes[root];
}

void regex_release(struct regex *re)
{
    mem_free(re->nodes);
    mem_free(re->ranges);
}
