/* core/jinja/parse_expr.c - parses expressions, the loosest operator first.
 *
 * Recursive descent with one function for each level of Jinja's precedence, from the inline if down
 * to powers; operand.c parses the operands. Left-associative levels share parse_chain().
 */
#include "core/jinja/template_impl.h"

#include "core/base/err.h"

static struct node *parse_cond(struct parser *p);
static struct node *parse_or(struct parser *p);
static struct node *parse_unary(struct parser *p, bool with_filters);

struct node *template_parse_expression(struct parser *p)
{
    struct node *node = NULL;

    if (template_enter(p))
        node = parse_cond(p);
    template_leave(p);
    return node;
}

/* Parse b if a else c */
static struct node *parse_cond(struct parser *p)
{
    struct node *node = parse_or(p);

    while (p->lex.rc == 0 && template_accept_word(p, "if")) {
        struct node *cond = template_node(p, NODE_COND, p->now.line);

        if (cond == NULL)
            return NULL;
        cond->b = node;
        cond->a = parse_or(p);
        if (template_accept_word(p, "else"))
            cond->c = template_parse_expression(p);
        node = template_node_done(p, cond);
    }
    return node;
}

static struct node *parse_compare(struct parser *p);

static struct node *parse_not(struct parser *p)
{
    struct node *node = NULL;

    if (!template_is_word(p, "not"))
        return parse_compare(p);
    template_advance(p);
    if (template_enter(p))
        node = template_node_two(p, NODE_NOT, 0, parse_not(p), NULL);
    template_leave(p);
    return node;
}

static struct node *parse_and(struct parser *p)
{
    struct node *node = parse_not(p);

    while (template_accept_word(p, "and"))
        node = template_node_two(p, NODE_AND, 0, node, parse_not(p));
    return node;
}

static struct node *parse_or(struct parser *p)
{
    struct node *node = parse_and(p);

    while (template_accept_word(p, "or"))
        node = template_node_two(p, NODE_OR, 0, node, parse_and(p));
    return node;
}

/* Parse left-associative operators of one level. */
static struct node *parse_chain(struct parser *p, struct node *(*parse)(struct parser *p),
                                const enum token_type *ops, int n)
{
    struct node *node = parse(p);
    int i = 0;

    while (i < n) {
        for (i = 0; i < n; i++) {
            if (template_accept(p, ops[i])) {
                node = template_node_two(p, NODE_BINARY, (uint8_t)ops[i], node, parse(p));
                break;
            }
        }
    }
    return node;
}

static struct node *parse_signed(struct parser *p)
{
    return parse_unary(p, true);
}

static struct node *parse_power(struct parser *p)
{
    static const enum token_type ops[] = {TOKEN_POW};

    return parse_chain(p, parse_signed, ops, 1);
}

static struct node *parse_product(struct parser *p)
{
    static const enum token_type ops[] = {TOKEN_MUL, TOKEN_DIV, TOKEN_FLOORDIV, TOKEN_MOD};

    return parse_chain(p, parse_power, ops, 4);
}

/* Parse a ~ b ~ c into the list. */
static struct node *parse_concat(struct parser *p)
{
    struct node *first = parse_product(p), *node;

    if (!template_is(p, TOKEN_TILDE))
        return first;
    node = template_node(p, NODE_CONCAT, p->now.line);
    if (node == NULL)
        return NULL;
    template_node_add(p, &node->list, first);
    while (template_accept(p, TOKEN_TILDE))
        template_node_add(p, &node->list, parse_product(p));
    return template_node_done(p, node);
}

static struct node *parse_sum(struct parser *p)
{
    static const enum token_type ops[] = {TOKEN_ADD, TOKEN_SUB};

    return parse_chain(p, parse_concat, ops, 2);
}

/* Take a comparison operator, if there is one here; else 0. */
static int accept_comparison(struct parser *p)
{
    const int type = (int)p->now.type;

    if (type >= TOKEN_EQ && type <= TOKEN_LE) {
        template_advance(p);
        return type;
    }
    if (template_accept_word(p, "in"))
        return OPERAND_IN;
    if (template_is_word(p, "not") && p->next.type == TOKEN_WORD &&
        value_is_text(p->next.v, "in")) {
        template_advance(p);
        template_advance(p);
        return OPERAND_NOT_IN;
    }
    return 0;
}

/* Parse a < b <= c: a, and a list of operands with op and a. */
static struct node *parse_compare(struct parser *p)
{
    struct node *first = parse_sum(p), *node = NULL;
    int op;

    while ((op = accept_comparison(p)) != 0) {
        if (node == NULL) {
            node = template_node(p, NODE_COMPARE, p->now.line);
            if (node == NULL)
                return NULL;
            node->a = first;
        }
        template_node_add(p, &node->list,
                          template_node_two(p, NODE_OPERAND, (uint8_t)op, parse_sum(p), NULL));
    }
    return node != NULL ? template_node_done(p, node) : first;
}

static struct node *parse_unary(struct parser *p, bool with_filters)
{
    const enum token_type op = p->now.type;
    struct node *node = NULL;

    if (op != TOKEN_SUB && op != TOKEN_ADD) {
        node = template_parse_primary(p, false);
    } else {
        template_advance(p);
        if (template_enter(p))
            node = template_node_two(p, NODE_UNARY, (uint8_t)op, parse_unary(p, false), NULL);
        template_leave(p);
    }
    node = template_parse_postfix(p, node);
    return with_filters ? template_parse_suffixes(p, node) : node;
}

static bool is_tuple_end(const struct parser *p)
{
    return template_is(p, TOKEN_VARIABLE_END) || template_is(p, TOKEN_BLOCK_END) ||
           template_is(p, TOKEN_RPAREN);
}

static struct node *parse_tuple_item(struct parser *p, unsigned flags)
{
    if ((flags & TUPLE_SIMPLE) != 0)
        return template_parse_primary(p, (flags & TUPLE_NSREF) != 0);
    return (flags & TUPLE_NO_COND) != 0 ? parse_or(p) : template_parse_expression(p);
}

/* Parse one expression, or several with commas between as a tuple. */
static struct node *parse_tuple(struct parser *p, unsigned flags)
{
    struct node *tuple = template_node(p, NODE_TUPLE, p->now.line);
    bool is_tuple = false;

    while (tuple != NULL && p->lex.rc == 0) {
        if (tuple->list.n > 0)
            template_expect(p, TOKEN_COMMA);
        if (is_tuple_end(p))
            break;
        template_node_add(p, &tuple->list, parse_tuple_item(p, flags));
        if (!template_is(p, TOKEN_COMMA))
            break;
        is_tuple = true;
    }
    if (tuple == NULL || p->lex.rc < 0)
        return NULL;
    if (!is_tuple && tuple->list.n > 0)
        return tuple->list.at[0];
    if (!is_tuple && (flags & TUPLE_BRACKETS) == 0)
        template_fail_at(p, p->now.line, "expected an expression");
    return template_node_done(p, tuple);
}

struct node *template_parse_tuple(struct parser *p, unsigned flags)
{
    struct node *node = NULL;

    if (template_enter(p))
        node = parse_tuple(p, flags);
    template_leave(p);
    return node;
}
