/* server/api/params/lark_pattern.c - see lark_pattern.h.
 *
 * The text is read twice: once to find where each rule begins, then from `start` on, where the
 * reader jumps to the beginning of each rule that is named, and back. The expression is written as
 * it is read, without a tree.
 */
#include "server/api/params/lark_pattern.h"

#include "core/base/err.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define MAX_RULES 200
#define MAX_DEPTH 100
#define MAX_READ ((size_t)1 << 24) /* bytes; a rule counts each time that it is named */

enum token_kind { LARK_END = 0, LARK_NAME, LARK_NUMBER, LARK_TEXT, LARK_REGEX, LARK_MARK };

struct token {
    enum token_kind kind;
    const char *at; /* a text or an expression without its quotes or slashes */
    size_t n;
    bool opens_line; /* it is the first token of its line */
};

struct rule {
    const char *name, *body;
    size_t n_name;
    bool is_open; /* the reader is inside of it */
};

struct lark {
    const char *at; /* the next byte to read, after `token` */
    struct token token;
    struct rule rules[MAX_RULES];
    uint32_t n_rules, depth;
    size_t n_read;
    struct buf *out;
    char *why;
    size_t size;
    int rc;
};

__attribute__((format(printf, 2, 3))) static void fail(struct lark *l, const char *format, ...)
{
    va_list args;

    if (l->rc < 0)
        return;
    l->rc = ERR_INVAL;
    l->token.kind = LARK_END;
    va_start(args, format);
    vsnprintf(l->why, l->size, format, args);
    va_end(args);
}

/* ---- tokens ---- */

/* Skip white space and comments. Returns whether a line end was among them. */
static bool skip_lark_blanks(struct lark *l)
{
    bool has_line_end = false;

    for (;; l->at++) {
        if (l->at[0] == '/' && l->at[1] == '/')
            l->at += strcspn(l->at, "\n");
        if (*l->at == '\0' || strchr(" \t\r\n", *l->at) == NULL)
            return has_line_end;
        has_line_end = has_line_end || *l->at == '\n';
    }
}

/* Read a text or an expression up to `end`; a text's flag i is refused. */
static void read_quoted(struct lark *l, char end, enum token_kind kind)
{
    const char *from = ++l->at;

    while (*l->at != '\0' && *l->at != end && *l->at != '\n')
        l->at += l->at[0] == '\\' && l->at[1] != '\0' ? 2 : 1;
    if (*l->at != end) {
        fail(l, "a %s is not closed: %.20s", kind == LARK_TEXT ? "string" : "regular expression",
             from);
        return;
    }
    l->token = (struct token){kind, from, (size_t)(l->at - from), l->token.opens_line};
    l->at++;
    if (kind == LARK_TEXT && *l->at == 'i')
        fail(l, "a string with the flag i is not supported: \"%.20s", from);
}

static void read_mark(struct lark *l)
{
    static const char *const marks[] = {"->", "..", ":", "|", "(", ")", "[", "]",
                                        "?",  "*",  "+", "~", "%", ".", ",", "!"};

    for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++)
        if (strncmp(l->at, marks[i], strlen(marks[i])) == 0) {
            l->token.kind = LARK_MARK;
            l->token.n = strlen(marks[i]);
            l->at += l->token.n;
            return;
        }
    fail(l, "this is not supported: %.20s", l->at);
}

static void read_word(struct lark *l)
{
    l->token.kind = isdigit((unsigned char)*l->at) ? LARK_NUMBER : LARK_NAME;
    while (isalnum((unsigned char)*l->at) || *l->at == '_')
        l->at++;
    l->token.n = (size_t)(l->at - l->token.at);
}

static void next_token(struct lark *l)
{
    const char *from = l->at;
    const bool has_line_end = skip_lark_blanks(l);
    const char c = *l->at;

    l->token = (struct token){.at = l->at, .opens_line = has_line_end};
    if (l->rc < 0 || c == '\0')
        return;
    if (c == '"' || c == '/')
        read_quoted(l, c, c == '"' ? LARK_TEXT : LARK_REGEX);
    else if (isalnum((unsigned char)c) || c == '_')
        read_word(l);
    else
        read_mark(l);
    l->n_read += (size_t)(l->at - from);
    if (l->n_read > MAX_READ)
        fail(l, "it is too large");
}

static bool token_is(const struct token *t, const char *text)
{
    return t->n == strlen(text) && memcmp(t->at, text, t->n) == 0;
}

static bool is_lark_mark(const struct lark *l, const char *mark)
{
    return l->token.kind == LARK_MARK && token_is(&l->token, mark);
}

static bool skip_mark(struct lark *l, const char *mark)
{
    const bool yes = is_lark_mark(l, mark);

    if (yes)
        next_token(l);
    return yes;
}

static void need_mark(struct lark *l, const char *mark)
{
    if (!skip_mark(l, mark))
        fail(l, "'%s' is missing before: %.20s", mark, l->token.at);
}

/* ---- rules ---- */

/* Skip NAME: or NAME.PRIORITY: and return true, with the cursor after the colon; else leave the
 * cursor where it was. */
static bool skip_head(struct lark *l)
{
    const char *at = l->at;
    const struct token name = l->token;

    if (name.kind != LARK_NAME)
        return false;
    next_token(l);
    if (skip_mark(l, ".") && l->token.kind == LARK_NUMBER)
        next_token(l);
    if (is_lark_mark(l, ":"))
        return true;
    l->at = at;
    l->token = name;
    return false;
}

/* True: the token begins another rule or a directive. */
static bool begins_statement(struct lark *l)
{
    const char *at = l->at;
    const struct token token = l->token;
    const bool is_head = skip_head(l);

    l->at = at;
    l->token = token;
    return is_head || token.kind == LARK_END || is_lark_mark(l, "%") ||
           (token.opens_line && (is_lark_mark(l, "?") || is_lark_mark(l, "!")));
}

/* Skip `%import common.NAME`, or a list of names between parentheses: add_common() knows them
 * all. */
static void skip_import(struct lark *l)
{
    const bool is_import = token_is(&l->token, "import");

    if (!is_import) {
        fail(l, "%%%.*s is not supported", (int)l->token.n, l->token.at);
        return;
    }
    next_token(l);
    if (!token_is(&l->token, "common"))
        fail(l, "only names of 'common' can be imported");
    while (l->token.kind != LARK_END && !begins_statement(l)) {
        if (is_lark_mark(l, "->"))
            fail(l, "an import with another name is not supported");
        next_token(l);
    }
}

static void find_rule(struct lark *l)
{
    struct token name;

    if (!skip_mark(l, "?"))
        (void)skip_mark(l, "!");
    name = l->token;
    if (!skip_head(l)) {
        fail(l, "expected a rule (NAME: …) before: %.20s", name.at);
        return;
    }
    if (l->n_rules == MAX_RULES) {
        fail(l, "it has more than %d rules", MAX_RULES);
        return;
    }
    l->rules[l->n_rules++] = (struct rule){name.at, l->at, name.n, false};
    do
        next_token(l);
    while (!begins_statement(l));
}

static void find_rules(struct lark *l)
{
    next_token(l);
    while (l->token.kind != LARK_END && l->rc == 0) {
        if (skip_mark(l, "%"))
            skip_import(l);
        else
            find_rule(l);
    }
}

static struct rule *rule_named(struct lark *l, const char *name, size_t n)
{
    for (uint32_t i = 0; i < l->n_rules; i++)
        if (l->rules[i].n_name == n && memcmp(l->rules[i].name, name, n) == 0)
            return &l->rules[i];
    return NULL;
}

/* ---- the expression ---- */

static void add_choices(struct lark *l);

/* Escape the characters that are special in a regular expression. Lark's own escapes mean the same
 * there and stay, but an escaped quote needs no backslash. */
static void add_lark_text(struct lark *l, const struct token *t)
{
    for (size_t i = 0; i < t->n; i++) {
        const char c = t->at[i];

        if (c == '\\' && i + 1 < t->n) {
            buf_printf(l->out, t->at[i + 1] == '"' ? "%c" : "\\%c", t->at[i + 1]);
            i++;
            continue;
        }
        if (strchr(".^$|()[]{}*+?\\", c) != NULL)
            buf_add_char(l->out, '\\');
        buf_add_char(l->out, c);
    }
}

/* Copy an expression; with the flag s its dots match line ends, too. */
static void add_regex(struct lark *l, const struct token *t)
{
    const size_t n_flags = strspn(l->at, "abcdefghijklmnopqrstuvwxyz");
    const bool dot_is_all = memchr(l->at, 's', n_flags) != NULL;
    bool in_class = false;

    if (strspn(l->at, "su") < n_flags)
        fail(l, "a regular expression with the flags %.*s is not supported", (int)n_flags, l->at);
    l->at += n_flags;
    for (size_t i = 0; i < t->n; i++) {
        const char c = t->at[i];

        if (c == '\\' && i + 1 < t->n) {
            buf_printf(l->out, t->at[i + 1] == '/' ? "%c" : "\\%c", t->at[i + 1]);
            i++;
            continue;
        }
        in_class = c == '[' || (in_class && c != ']');
        if (c == '.' && dot_is_all && !in_class)
            buf_add_str(l->out, "(?:.|\\n|\\r)");
        else
            buf_add_char(l->out, c);
    }
}

/* Append the expression of a name that Lark itself defines. false: there is no such name. */
static bool add_common(struct lark *l, const struct token *name)
{
    static const char *const common[][2] = {
        {"LF", "\\n"},
        {"CR", "\\r"},
        {"NEWLINE", "(?:\\r?\\n)+"},
        {"WS", "[ \\t\\f\\r\\n]+"},
        {"WS_INLINE", "[ \\t]+"},
        {"DIGIT", "[0-9]"},
        {"HEXDIGIT", "[0-9a-fA-F]"},
        {"INT", "[0-9]+"},
        {"SIGNED_INT", "[+-]?[0-9]+"},
        {"LCASE_LETTER", "[a-z]"},
        {"UCASE_LETTER", "[A-Z]"},
        {"LETTER", "[a-zA-Z]"},
        {"WORD", "[a-zA-Z]+"},
        {"CNAME", "[_a-zA-Z][_a-zA-Z0-9]*"},
    };

    for (size_t i = 0; i < sizeof(common) / sizeof(common[0]); i++)
        if (token_is(name, common[i][0])) {
            buf_printf(l->out, "(?:%s)", common[i][1]);
            return true;
        }
    return false;
}

static void add_rule(struct lark *l, struct rule *r)
{
    const char *at = l->at;

    if (r->is_open) {
        fail(l, "the rule '%.*s' contains itself, which is not supported", (int)r->n_name, r->name);
        return;
    }
    r->is_open = true;
    l->at = r->body;
    next_token(l);
    add_choices(l);
    if (!begins_statement(l))
        fail(l, "this is not supported: %.20s", l->token.at);
    r->is_open = false;
    l->at = at;
}

static void add_rule_name(struct lark *l, const struct token *name)
{
    struct rule *r = rule_named(l, name->at, name->n);

    if (r != NULL)
        add_rule(l, r);
    else if (!add_common(l, name))
        fail(l, "the rule '%.*s' is not defined", (int)name->n, name->at);
}

/* Append one part of a sequence without its repetition; the next token is then the one after it. */
static void add_atom(struct lark *l)
{
    const struct token t = l->token;

    if (skip_mark(l, "(")) {
        add_choices(l);
        need_mark(l, ")");
        return;
    }
    buf_add_str(l->out, "(?:");
    if (skip_mark(l, "[")) {
        add_choices(l);
        need_mark(l, "]");
        buf_add_str(l->out, "?)");
        return;
    }
    if (t.kind == LARK_NAME)
        add_rule_name(l, &t);
    else if (t.kind == LARK_TEXT)
        add_lark_text(l, &t);
    else
        add_regex(l, &t);
    buf_add_char(l->out, ')');
    next_token(l);
}

static void add_repeat_number(struct lark *l)
{
    if (l->token.kind != LARK_NUMBER)
        fail(l, "a number is missing before: %.20s", l->token.at);
    buf_add(l->out, l->token.at, l->token.n);
    next_token(l);
}

/* Append the repetition of the part before it. */
static void add_times(struct lark *l)
{
    if (begins_statement(l))
        return;
    if (is_lark_mark(l, "?") || is_lark_mark(l, "*") || is_lark_mark(l, "+")) {
        buf_add_char(l->out, *l->token.at);
        next_token(l);
    } else if (skip_mark(l, "~")) {
        buf_add_char(l->out, '{');
        add_repeat_number(l);
        if (skip_mark(l, "..")) {
            buf_add_char(l->out, ',');
            add_repeat_number(l);
        }
        buf_add_char(l->out, '}');
    }
}

static bool begins_atom(struct lark *l)
{
    const enum token_kind kind = l->token.kind;

    return kind == LARK_TEXT || kind == LARK_REGEX || is_lark_mark(l, "(") ||
           is_lark_mark(l, "[") || (kind == LARK_NAME && !begins_statement(l));
}

static void add_sequence(struct lark *l)
{
    while (l->rc == 0 && begins_atom(l)) {
        add_atom(l);
        add_times(l);
    }
    if (skip_mark(l, "->")) /* an alias names a node of a tree that is not built */
        next_token(l);
}

static void add_choices(struct lark *l)
{
    if (l->out->err < 0 || ++l->depth > MAX_DEPTH) {
        fail(l, "it is too large");
        return;
    }
    buf_add_str(l->out, "(?:");
    add_sequence(l);
    while (l->rc == 0 && skip_mark(l, "|")) {
        buf_add_char(l->out, '|');
        add_sequence(l);
    }
    buf_add_char(l->out, ')');
    l->depth--;
}

int lark_pattern(const char *grammar, struct buf *out, char *why, size_t size)
{
    struct lark l = {.at = grammar, .out = out, .why = why, .size = size};
    const struct token start = {.kind = LARK_NAME, .at = "start", .n = strlen("start")};

    find_rules(&l);
    if (l.rc == 0)
        add_rule_name(&l, &start);
    if (l.rc == 0 && (out->err < 0 || out->len >= LARK_MAX_PATTERN))
        fail(&l, "it is too large");
    return out->err == ERR_NOMEM ? ERR_NOMEM : l.rc;
}
