/* core/jinja/node.c - functions that all files of the parser use: making nodes, and the current
 * token.
 *
 * Nodes are allocated in the template's pool and never freed one by one. Each records the height of
 * the tree below it, so that the evaluator's recursion is bounded when the template is loaded.
 * After the first error the parser only sees TOKEN_END, so its loops end without checks of their
 * own.
 */
#include "core/jinja/template_impl.h"

#include "core/base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Make a node. Without memory it returns NULL with the error noted, and the parser sees only
 * TOKEN_END from then on. */
struct node *template_node(struct parser *p, enum node_type type, uint32_t line)
{
    struct node *node = value_pool_alloc(p->pool, sizeof(*node));

    if (node == NULL) {
        template_lex_fail(&p->lex, line, p->pool->err, "the template is too large");
        p->now.type = p->next.type = TOKEN_END;
        return NULL;
    }
    node->type = (uint8_t)type;
    node->line = line;
    return node;
}

void template_node_add(struct parser *p, struct node_list *list, struct node *child)
{
    if (child == NULL || p->lex.rc < 0)
        return;
    if (list->n == list->cap) {
        const uint32_t cap = list->cap == 0 ? 4 : 2 * list->cap;
        struct node **at = value_pool_alloc(p->pool, cap * sizeof(*at));

        if (at == NULL) {
            template_lex_fail(&p->lex, child->line, p->pool->err, "the template is too large");
            return;
        }
        if (list->n > 0)
            memcpy(at, list->at, list->n * sizeof(*at));
        list->at = at;
        list->cap = cap;
    }
    list->at[list->n++] = child;
}

static uint16_t higher(uint16_t height, const struct node *child)
{
    return child != NULL && child->height >= height ? (uint16_t)(child->height + 1) : height;
}

struct node *template_node_done(struct parser *p, struct node *node)
{
    if (node == NULL || p->lex.rc < 0)
        return NULL;
    node->height = higher(node->height, node->a);
    node->height = higher(node->height, node->b);
    node->height = higher(node->height, node->c);
    for (uint32_t i = 0; i < node->list.n; i++)
        node->height = higher(node->height, node->list.at[i]);
    for (uint32_t i = 0; i < node->list2.n; i++)
        node->height = higher(node->height, node->list2.at[i]);
    if (node->height > TEMPLATE_MAX_HEIGHT)
        template_lex_fail(&p->lex, node->line, ERR_LIMIT, "an expression is too long");
    return node;
}

struct node *template_node_two(struct parser *p, enum node_type type, uint8_t op, struct node *a,
                               struct node *b)
{
    struct node *node = template_node(p, type, a != NULL ? a->line : p->now.line);

    if (node == NULL)
        return NULL;
    node->op = op;
    node->a = a;
    node->b = b;
    return template_node_done(p, node);
}

void template_fail_at(struct parser *p, uint32_t line, const char *format, ...)
{
    char text[160];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    template_trim_sentence(text, sizeof(text));
    template_lex_fail(&p->lex, line, ERR_FORMAT, "%s", text);
    p->now.type = p->next.type = TOKEN_END; /* so that every loop of the parser ends */
}

bool template_enter(struct parser *p)
{
    if (++p->depth <= TEMPLATE_MAX_NESTING)
        return true;
    template_lex_fail(&p->lex, p->now.line, ERR_LIMIT, "nested more than %d deep",
                      TEMPLATE_MAX_NESTING);
    p->now.type = p->next.type = TOKEN_END;
    return false;
}

void template_leave(struct parser *p)
{
    p->depth--;
}

void template_advance(struct parser *p)
{
    p->now = p->next;
    p->next = template_lex_next(&p->lex);
    if (p->lex.rc < 0)
        p->now.type = p->next.type = TOKEN_END;
}

bool template_is(const struct parser *p, enum token_type type)
{
    return p->now.type == type;
}

bool template_is_word(const struct parser *p, const char *word)
{
    return p->now.type == TOKEN_WORD && value_is_text(p->now.v, word);
}

bool template_accept(struct parser *p, enum token_type type)
{
    if (p->now.type != type)
        return false;
    template_advance(p);
    return true;
}

bool template_accept_word(struct parser *p, const char *word)
{
    if (!template_is_word(p, word))
        return false;
    template_advance(p);
    return true;
}

static const char *token_name(enum token_type type)
{
    static const char *const names[] = {
        [TOKEN_END] = "the end of the template", [TOKEN_DATA] = "text",
        [TOKEN_VARIABLE_BEGIN] = "'{{'", [TOKEN_VARIABLE_END] = "'}}'",
        [TOKEN_BLOCK_BEGIN] = "'{%'", [TOKEN_BLOCK_END] = "'%}'", [TOKEN_WORD] = "a name",
        [TOKEN_STRING] = "a string", [TOKEN_INT] = "an integer", [TOKEN_FLOAT] = "a number",
        [TOKEN_LPAREN] = "'('", [TOKEN_RPAREN] = "')'", [TOKEN_LBRACKET] = "'['",
        [TOKEN_RBRACKET] = "']'", [TOKEN_RBRACE] = "'}'", [TOKEN_COMMA] = "','",
        [TOKEN_COLON] = "':'", [TOKEN_ASSIGN] = "'='",
    };

    return type < sizeof(names) / sizeof(names[0]) && names[type] != NULL ? names[type]
                                                                          : "an operator";
}

struct token template_expect(struct parser *p, enum token_type type)
{
    const struct token t = p->now;

    if (t.type == type)
        template_advance(p);
    else if (t.type == TOKEN_WORD)
        template_fail_at(p, t.line, "expected %s, found '%.*s'", token_name(type), (int)t.v.n,
                         t.v.s);
    else
        template_fail_at(p, t.line, "expected %s, found %s", token_name(type), token_name(t.type));
    return t;
}

void template_expect_word(struct parser *p, const char *word)
{
    if (!template_accept_word(p, word))
        template_fail_at(p, p->now.line, "expected '%s'", word);
}
