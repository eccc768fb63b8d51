/* core/jinja/lexer.c - cuts the source of a template into tokens.
 *
 * Text outside of tags is data. A tag may remove blanks around it: "-" all of them, trim_blocks the
 * line end after a block, lstrip_blocks the blanks before it on its line; "+" prevents the last
 * two.
 */
#include "core/jinja/template_impl.h"

#include "core/base/err.h"
#include "core/base/unicode.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int template_lex_fail(struct lexer *lex, uint32_t line, int rc, const char *format, ...)
{
    va_list args;
    int n;

    if (lex->rc < 0)
        return lex->rc;
    lex->rc = rc;
    n = snprintf(lex->err, lex->err_len, "line %u: ", line);
    if (n < 0 || (size_t)n >= lex->err_len)
        return rc;
    va_start(args, format);
    vsnprintf(lex->err + n, lex->err_len - (size_t)n, format, args);
    va_end(args);
    template_trim_sentence(lex->err, lex->err_len);
    return rc;
}

int template_lex_init(struct lexer *lex, struct value_pool *pool, const char *source, size_t n,
                      char *err, size_t err_len)
{
    char *s = value_pool_text(pool, n + 1);
    size_t len = 0;

    *lex = (struct lexer){.pool = pool, .line = 1, .err = err, .err_len = err_len};
    lex->line_starting = true;
    lex->brackets = value_pool_text(pool, TEMPLATE_MAX_NESTING + 1);
    if (s == NULL || lex->brackets == NULL)
        return lex->rc = pool->err;
    for (size_t i = 0; i < n; i++) {
        if (source[i] == '\r' && i + 1 < n && source[i + 1] == '\n')
            continue;
        s[len++] = source[i] == '\r' ? '\n' : source[i];
    }
    if (len > 0 && s[len - 1] == '\n')
        len--;
    s[len] = '\0';
    lex->s = s;
    lex->n = len;
    return 0;
}

static void count_lines(struct lexer *lex, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++)
        lex->line += lex->s[i] == '\n';
}

/* Set the position to `to`; the text before it is read. */
static void read_to(struct lexer *lex, size_t to)
{
    count_lines(lex, lex->pos, to);
    if (to > lex->pos)
        lex->line_starting = lex->s[to - 1] == '\n';
    lex->pos = to;
}

static bool source_has(const struct lexer *lex, size_t pos, const char *text)
{
    const size_t n = strlen(text);

    return pos <= lex->n && lex->n - pos >= n && memcmp(lex->s + pos, text, n) == 0;
}

static size_t skip_spaces(const struct lexer *lex, size_t pos)
{
    size_t len;

    while (pos < lex->n && unicode_is_space(unicode_at(lex->s + pos, lex->n - pos, &len)))
        pos += len;
    return pos;
}

static size_t back_over_spaces(const struct lexer *lex, size_t from, size_t to)
{
    while (to > from) {
        const size_t len = unicode_last(lex->s + from, to - from);
        size_t got;

        if (!unicode_is_space(unicode_at(lex->s + to - len, len, &got)))
            break;
        to -= len;
    }
    return to;
}

/* Return the end of the data before a tag at `tag` with the sign `sign`. */
static size_t data_end(const struct lexer *lex, size_t tag, char sign, bool is_variable)
{
    size_t line = tag;

    if (sign == '-')
        return back_over_spaces(lex, lex->pos, tag);
    if (sign == '+' || is_variable)
        return tag;
    while (line > lex->pos && lex->s[line - 1] != '\n')
        line--;
    if (line == lex->pos && !lex->line_starting)
        return tag;
    return skip_spaces(lex, line) >= tag ? line : tag;
}

/* Return the position after the end of a block or comment at pos and the text that it removes; 0:
 * no end is here. */
static size_t tag_end(const struct lexer *lex, size_t pos, const char *end)
{
    if (pos >= lex->n)
        return 0;
    if (lex->s[pos] == '+' && source_has(lex, pos + 1, end))
        return pos + 3;
    if (lex->s[pos] == '-' && source_has(lex, pos + 1, end))
        return skip_spaces(lex, pos + 3);
    if (!source_has(lex, pos, end))
        return 0;
    return pos + 2 < lex->n && lex->s[pos + 2] == '\n' ? pos + 3 : pos + 2;
}

static char sign_at(const struct lexer *lex, size_t pos)
{
    return pos < lex->n && (lex->s[pos] == '-' || lex->s[pos] == '+') ? lex->s[pos] : '\0';
}

/* If "{% word", in any spacing, is at pos, return the position after the word and its blanks; else
 * 0. */
static size_t block_word(const struct lexer *lex, size_t pos, const char *word)
{
    pos += 2;
    pos += sign_at(lex, pos) != '\0';
    pos = skip_spaces(lex, pos);
    return source_has(lex, pos, word) ? skip_spaces(lex, pos + strlen(word)) : 0;
}

static struct token data_token(const struct lexer *lex, size_t to)
{
    return (struct token){TOKEN_DATA, lex->line,
                          value_own(value_borrow(lex->s + lex->pos, to - lex->pos))};
}

/* Return the content of a raw block, which begins at `pos`, as one token of data. */
static struct token lex_raw(struct lexer *lex, size_t pos)
{
    const uint32_t line = lex->line;

    read_to(lex, pos);
    for (; pos < lex->n; pos++) {
        const size_t behind = source_has(lex, pos, "{%") ? block_word(lex, pos, "endraw") : 0;
        const size_t end = behind > 0 ? tag_end(lex, behind, "%}") : 0;

        if (end > 0) {
            const struct token t =
                data_token(lex, data_end(lex, pos, sign_at(lex, pos + 2), false));

            read_to(lex, end);
            return t;
        }
    }
    if (lex->pos < lex->n) /* at the end of the source nothing is missing */
        template_lex_fail(lex, line, ERR_FORMAT, "missing end of raw block");
    return (struct token){TOKEN_END, line, {0}};
}

static bool skip_comment(struct lexer *lex, size_t pos)
{
    const uint32_t line = lex->line;
    const size_t from = pos;

    for (; pos < lex->n; pos++) {
        const size_t end = tag_end(lex, pos, "#}");

        if (end > 0) {
            read_to(lex, end);
            return true;
        }
    }
    read_to(lex, pos);
    if (from < lex->n)
        template_lex_fail(lex, line, ERR_FORMAT, "missing end of comment");
    return false;
}

static size_t find_tag(const struct lexer *lex)
{
    for (size_t i = lex->pos; i + 1 < lex->n; i++)
        if (lex->s[i] == '{' &&
            (lex->s[i + 1] == '%' || lex->s[i + 1] == '{' || lex->s[i + 1] == '#'))
            return i;
    return lex->n;
}

/* Return the position of the content of "{% raw %}", else 0. The tag's end removes no line end. */
static size_t raw_content(const struct lexer *lex, size_t tag)
{
    const size_t pos = lex->s[tag + 1] == '%' ? block_word(lex, tag, "raw") : 0;

    if (pos == 0)
        return 0;
    if (source_has(lex, pos, "-%}"))
        return skip_spaces(lex, pos + 3);
    return source_has(lex, pos, "%}") ? pos + 2 : 0;
}

/* Begin the tag at `tag`; the data before it has been returned. */
static struct token begin_tag(struct lexer *lex, size_t tag)
{
    const bool is_variable = lex->s[tag + 1] == '{';
    size_t pos;

    read_to(lex, tag);
    pos = raw_content(lex, tag);
    if (pos > 0)
        return lex_raw(lex, pos);
    pos = tag + 2 + (sign_at(lex, tag + 2) != '\0');
    if (lex->s[tag + 1] == '#') {
        if (!skip_comment(lex, pos))
            return (struct token){TOKEN_END, lex->line, {0}};
        return data_token(lex, lex->pos);
    }
    read_to(lex, pos);
    lex->state = is_variable ? LEX_VARIABLE : LEX_BLOCK;
    return (struct token){
        is_variable ? TOKEN_VARIABLE_BEGIN : TOKEN_BLOCK_BEGIN, lex->line, {0}};
}

static struct token lex_data(struct lexer *lex)
{
    size_t tag = find_tag(lex);
    struct token t;

    if (lex->pos >= lex->n)
        return (struct token){TOKEN_END, lex->line, {0}};
    if (tag == lex->n) {
        t = data_token(lex, tag);
        read_to(lex, tag);
        return t;
    }
    t = data_token(lex, data_end(lex, tag, sign_at(lex, tag + 2), lex->s[tag + 1] == '{'));
    lex->pending = begin_tag(lex, tag);
    lex->has_pending = lex->rc == 0;
    return t;
}

static const struct {
    char text[3];
    enum token_type type;
} operators[] = { /* the longer ones first */
    {"//", TOKEN_FLOORDIV}, {"**", TOKEN_POW},     {"==", TOKEN_EQ},      {"!=", TOKEN_NE},
    {">=", TOKEN_GE},       {"<=", TOKEN_LE},      {"+", TOKEN_ADD},      {"-", TOKEN_SUB},
    {"/", TOKEN_DIV},       {"*", TOKEN_MUL},      {"%", TOKEN_MOD},      {"~", TOKEN_TILDE},
    {"[", TOKEN_LBRACKET},  {"]", TOKEN_RBRACKET}, {"(", TOKEN_LPAREN},   {")", TOKEN_RPAREN},
    {"{", TOKEN_LBRACE},    {"}", TOKEN_RBRACE},   {">", TOKEN_GT},       {"<", TOKEN_LT},
    {"=", TOKEN_ASSIGN},    {".", TOKEN_DOT},      {":", TOKEN_COLON},    {"|", TOKEN_PIPE},
    {",", TOKEN_COMMA},     {";", TOKEN_SEMICOLON},
};

static void balance(struct lexer *lex, char c)
{
    static const char opening[] = "([{", closing[] = ")]}";
    const char *open = strchr(opening, c);

    if (open != NULL) {
        if (lex->n_brackets > TEMPLATE_MAX_NESTING)
            template_lex_fail(lex, lex->line, ERR_LIMIT, "brackets are nested more than %d deep",
                              TEMPLATE_MAX_NESTING);
        else
            lex->brackets[lex->n_brackets++] = closing[open - opening];
    } else if (strchr(closing, c) != NULL) {
        if (lex->n_brackets == 0)
            template_lex_fail(lex, lex->line, ERR_FORMAT, "unexpected '%c'", c);
        else if (lex->brackets[--lex->n_brackets] != c)
            template_lex_fail(lex, lex->line, ERR_FORMAT, "unexpected '%c', expected '%c'", c,
                              lex->brackets[lex->n_brackets]);
    }
}

static struct token lex_operator(struct lexer *lex)
{
    size_t len;

    for (size_t i = 0; i < sizeof(operators) / sizeof(operators[0]); i++) {
        struct token t = {operators[i].type, lex->line, value_text(operators[i].text)};

        if (!source_has(lex, lex->pos, operators[i].text))
            continue;
        balance(lex, operators[i].text[0]);
        read_to(lex, lex->pos + t.v.n);
        if (lex->rc < 0)
            t.type = TOKEN_END;
        return t;
    }
    unicode_at(lex->s + lex->pos, lex->n - lex->pos, &len);
    template_lex_fail(lex, lex->line, ERR_FORMAT, "unexpected character '%.*s'", (int)len,
                      lex->s + lex->pos);
    return (struct token){TOKEN_END, lex->line, {0}};
}

static struct token lex_word(struct lexer *lex)
{
    size_t end = lex->pos, len;
    struct token t = {TOKEN_WORD, lex->line, {0}};

    while (end < lex->n && unicode_is_name(unicode_at(lex->s + end, lex->n - end, &len), false))
        end += len;
    t.v = value_borrow(lex->s + lex->pos, end - lex->pos);
    read_to(lex, end);
    return t;
}

static struct token lex_quoted(struct lexer *lex)
{
    const char quote = lex->s[lex->pos];
    struct token t = {TOKEN_STRING, lex->line, {0}};
    size_t end = lex->pos + 1;

    while (end < lex->n && lex->s[end] != quote)
        end += lex->s[end] == '\\' ? 2 : 1;
    if (end >= lex->n) {
        template_lex_fail(lex, lex->line, ERR_FORMAT, "a string is not closed");
        t.type = TOKEN_END;
        return t;
    }
    t.v = value_own(template_lex_string(lex, lex->s + lex->pos + 1, end - lex->pos - 1));
    read_to(lex, end + 1);
    if (lex->rc < 0)
        t.type = TOKEN_END;
    return t;
}

/* Return the position after the end of the open tag, if the end is here; else 0. */
static size_t open_tag_end(const struct lexer *lex)
{
    if (lex->n_brackets > 0)
        return 0;
    if (lex->state == LEX_BLOCK)
        return tag_end(lex, lex->pos, "%}");
    if (source_has(lex, lex->pos, "-}}"))
        return skip_spaces(lex, lex->pos + 3);
    return source_has(lex, lex->pos, "}}") ? lex->pos + 2 : 0;
}

static struct token lex_tag(struct lexer *lex)
{
    struct token t = {TOKEN_END, 0, {0}};
    size_t end, len;
    char c;

    end = open_tag_end(lex);
    if (end == 0) {
        read_to(lex, skip_spaces(lex, lex->pos));
        end = open_tag_end(lex);
    }
    t.line = lex->line;
    if (end > 0) {
        t.type = lex->state == LEX_BLOCK ? TOKEN_BLOCK_END : TOKEN_VARIABLE_END;
        lex->state = LEX_DATA;
        read_to(lex, end);
        return t;
    }
    if (lex->pos >= lex->n)
        return t;
    c = lex->s[lex->pos];
    if (c >= '0' && c <= '9') {
        t = template_lex_number(lex, &end);
        read_to(lex, end);
        return t;
    }
    if (c == '"' || c == '\'')
        return lex_quoted(lex);
    if (unicode_is_name(unicode_at(lex->s + lex->pos, lex->n - lex->pos, &len), true))
        return lex_word(lex);
    return lex_operator(lex);
}

struct token template_lex_next(struct lexer *lex)
{
    struct token t;

    do {
        if (lex->rc < 0)
            return (struct token){TOKEN_END, lex->line, {0}};
        if (lex->has_pending) {
            t = lex->pending;
            lex->has_pending = false;
        } else {
            t = lex->state == LEX_DATA ? lex_data(lex) : lex_tag(lex);
        }
    } while (t.type == TOKEN_DATA && t.v.n == 0);
    return t;
}
