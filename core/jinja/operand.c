/* core/jinja/operand.c - parses operands: names, literals, members, calls, filters, tests.
 *
 * The lowest level of the expression parser (parse_expr.c has the operators): a primary, then any
 * number of members, indices and calls, then filters and tests. Each step makes a node whose `a` is
 * what was parsed so far, so chains lean to the left.
 */
#include "core/jinja/template_impl.h"

/* Parse the arguments of a call, filter or test into its lists (list2: keywords); *b and **c. */
static void parse_arguments(struct parser *p, struct node *node)
{
    const uint32_t line = p->now.line;
    bool fits = true;

    template_expect(p, TOKEN_LPAREN);
    while (p->lex.rc == 0 && !template_is(p, TOKEN_RPAREN)) {
        if (template_accept(p, TOKEN_MUL)) {
            fits = node->b == NULL && node->c == NULL;
            node->b = template_parse_expression(p);
        } else if (template_accept(p, TOKEN_POW)) {
            fits = node->c == NULL;
            node->c = template_parse_expression(p);
        } else if (template_is(p, TOKEN_WORD) && p->next.type == TOKEN_ASSIGN) {
            struct node *keyword = template_node(p, NODE_KEYWORD, p->now.line);

            fits = node->c == NULL;
            if (keyword == NULL)
                return;
            keyword->v = p->now.v;
            template_advance(p);
            template_advance(p);
            keyword->a = template_parse_expression(p);
            template_node_add(p, &node->list2, template_node_done(p, keyword));
        } else {
            fits = node->b == NULL && node->c == NULL && node->list2.n == 0;
            template_node_add(p, &node->list, template_parse_expression(p));
        }
        if (!fits)
            template_fail_at(p, line, "invalid syntax in the arguments of a call");
        if (!template_is(p, TOKEN_RPAREN))
            template_expect(p, TOKEN_COMMA);
    }
    template_expect(p, TOKEN_RPAREN);
}

static struct node *parse_call(struct parser *p, struct node *callee)
{
    struct node *node = template_node(p, NODE_CALL, p->now.line);

    if (node == NULL)
        return NULL;
    node->a = callee;
    parse_arguments(p, node);
    return template_node_done(p, node);
}

/* Parse a word, or words with dots between. */
static struct value parse_dotted(struct parser *p)
{
    struct token t = template_expect(p, TOKEN_WORD);

    while (p->lex.rc == 0 && template_accept(p, TOKEN_DOT)) {
        const struct token more = template_expect(p, TOKEN_WORD);

        t.v = value_concat(p->pool, value_concat(p->pool, t.v, value_text(".")), more.v);
    }
    return t.v;
}

struct node *template_parse_filters(struct parser *p, struct node *node, bool at_name)
{
    while (p->lex.rc == 0 && (at_name || template_accept(p, TOKEN_PIPE))) {
        struct node *filter = template_node(p, NODE_FILTER, p->now.line);

        if (filter == NULL)
            return NULL;
        filter->a = node;
        filter->v = parse_dotted(p);
        if (template_is(p, TOKEN_LPAREN))
            parse_arguments(p, filter);
        node = template_node_done(p, filter);
        at_name = false;
    }
    return node;
}

/* True: the current token may begin a test's argument without parentheses. */
static bool begins_argument(struct parser *p)
{
    switch ((int)p->now.type) {
    case TOKEN_STRING:
    case TOKEN_INT:
    case TOKEN_FLOAT:
    case TOKEN_LBRACKET:
    case TOKEN_LBRACE:
        return true;
    case TOKEN_WORD:
        return !template_is_word(p, "else") && !template_is_word(p, "or") &&
               !template_is_word(p, "and");
    default:
        return false;
    }
}

static struct node *parse_test(struct parser *p, struct node *tested)
{
    struct node *node = template_node(p, NODE_TEST, p->now.line);
    bool negated;

    template_advance(p);
    negated = template_accept_word(p, "not");
    if (node == NULL)
        return NULL;
    node->a = tested;
    node->v = parse_dotted(p);
    if (template_is(p, TOKEN_LPAREN)) {
        parse_arguments(p, node);
    } else if (begins_argument(p)) {
        if (template_is_word(p, "is"))
            template_fail_at(p, p->now.line, "tests cannot be chained with 'is'");
        template_node_add(p, &node->list,
                          template_parse_postfix(p, template_parse_primary(p, false)));
    }
    node = template_node_done(p, node);
    return negated ? template_node_two(p, NODE_NOT, 0, node, NULL) : node;
}

/* Parse everything that may follow a value, filters and tests included. */
struct node *template_parse_suffixes(struct parser *p, struct node *node)
{
    while (p->lex.rc == 0) {
        if (template_is(p, TOKEN_PIPE))
            node = template_parse_filters(p, node, false);
        else if (template_is_word(p, "is"))
            node = parse_test(p, node);
        else if (template_is(p, TOKEN_LPAREN))
            node = parse_call(p, node);
        else
            break;
    }
    return node;
}

/* Parse one index or slice inside [ ]: a:b:c */
static struct node *parse_index(struct parser *p)
{
    struct node *node = template_node(p, NODE_SLICE, p->now.line), *first = NULL;

    if (node == NULL)
        return NULL;
    if (!template_is(p, TOKEN_COLON))
        first = template_parse_expression(p);
    if (!template_accept(p, TOKEN_COLON))
        return first;
    node->a = first;
    if (!template_is(p, TOKEN_COLON) && !template_is(p, TOKEN_RBRACKET) &&
        !template_is(p, TOKEN_COMMA))
        node->b = template_parse_expression(p);
    if (template_accept(p, TOKEN_COLON) && !template_is(p, TOKEN_RBRACKET) &&
        !template_is(p, TOKEN_COMMA))
        node->c = template_parse_expression(p);
    return template_node_done(p, node);
}

/* Parse the inside of [ ]: several with commas make a tuple, which may not contain slices. */
static struct node *parse_subscript(struct parser *p)
{
    struct node *first = NULL, *tuple = NULL;
    uint32_t n = 0;

    while (p->lex.rc == 0 && !template_is(p, TOKEN_RBRACKET)) {
        struct node *node;

        if (n > 0)
            template_expect(p, TOKEN_COMMA);
        node = parse_index(p);
        if (n++ == 0) {
            first = node;
            continue;
        }
        if (n == 2) {
            tuple = template_node(p, NODE_TUPLE, p->now.line);
            if (tuple == NULL)
                return NULL;
            template_node_add(p, &tuple->list, first);
        }
        template_node_add(p, &tuple->list, node);
    }
    for (uint32_t i = 0; tuple != NULL && i < tuple->list.n; i++)
        if (tuple->list.at[i]->type == NODE_SLICE)
            template_fail_at(p, p->now.line, "a slice cannot be one of several indices");
    template_expect(p, TOKEN_RBRACKET);
    if (n == 0)
        return template_node(p, NODE_TUPLE, p->now.line);
    return tuple != NULL ? template_node_done(p, tuple) : first;
}

/* Parse .name (v), .0 and [index] (b) */
static struct node *parse_member(struct parser *p, struct node *of)
{
    struct node *node = template_node(p, NODE_ATTR, p->now.line);

    if (node == NULL)
        return NULL;
    node->a = of;
    if (template_accept(p, TOKEN_LBRACKET)) {
        node->type = NODE_ITEM;
        node->b = parse_subscript(p);
        return template_node_done(p, node);
    }
    template_advance(p);
    node->v = p->now.v;
    if (template_is(p, TOKEN_INT)) {
        node->type = NODE_ITEM;
        node->b = template_node(p, NODE_CONST, p->now.line);
        if (node->b != NULL)
            node->b->v = p->now.v;
    } else if (!template_is(p, TOKEN_WORD)) {
        template_fail_at(p, p->now.line, "expected a name or number after '.'");
    }
    template_advance(p);
    return template_node_done(p, node);
}

struct node *template_parse_postfix(struct parser *p, struct node *node)
{
    while (p->lex.rc == 0) {
        if (template_is(p, TOKEN_DOT) || template_is(p, TOKEN_LBRACKET))
            node = parse_member(p, node);
        else if (template_is(p, TOKEN_LPAREN))
            node = parse_call(p, node);
        else
            break;
    }
    return node;
}

static struct node *constant(struct parser *p, struct value v)
{
    struct node *node = template_node(p, NODE_CONST, p->now.line);

    if (node != NULL)
        node->v = v;
    template_advance(p);
    return node;
}

static struct node *parse_name(struct parser *p, bool with_nsref)
{
    struct node *node;

    if (template_is_word(p, "true") || template_is_word(p, "True"))
        return constant(p, value_bool(true));
    if (template_is_word(p, "false") || template_is_word(p, "False"))
        return constant(p, value_bool(false));
    if (template_is_word(p, "none") || template_is_word(p, "None"))
        return constant(p, value_null());
    node = constant(p, p->now.v);
    if (node == NULL)
        return NULL;
    node->type = NODE_NAME;
    node->op = NAME_LOAD;
    if (with_nsref && template_accept(p, TOKEN_DOT)) {
        node->type = NODE_NSREF;
        node->w = template_expect(p, TOKEN_WORD).v;
    }
    return node;
}

static struct node *parse_strings(struct parser *p)
{
    struct value v = p->now.v;
    struct node *node = constant(p, v);

    while (p->lex.rc == 0 && template_is(p, TOKEN_STRING)) {
        v = value_concat(p->pool, v, p->now.v);
        template_advance(p);
    }
    if (node != NULL)
        node->v = v;
    return node;
}

static struct node *parse_list(struct parser *p)
{
    struct node *node = template_node(p, NODE_LIST, p->now.line);

    template_advance(p);
    while (node != NULL && p->lex.rc == 0 && !template_is(p, TOKEN_RBRACKET)) {
        template_node_add(p, &node->list, template_parse_expression(p));
        if (!template_is(p, TOKEN_RBRACKET))
            template_expect(p, TOKEN_COMMA);
    }
    template_expect(p, TOKEN_RBRACKET);
    return template_node_done(p, node);
}

/* Parse a dict into list: key, value, key, value ... */
static struct node *parse_dict(struct parser *p)
{
    struct node *node = template_node(p, NODE_DICT, p->now.line);

    template_advance(p);
    while (node != NULL && p->lex.rc == 0 && !template_is(p, TOKEN_RBRACE)) {
        template_node_add(p, &node->list, template_parse_expression(p));
        template_expect(p, TOKEN_COLON);
        template_node_add(p, &node->list, template_parse_expression(p));
        if (!template_is(p, TOKEN_RBRACE))
            template_expect(p, TOKEN_COMMA);
    }
    template_expect(p, TOKEN_RBRACE);
    return template_node_done(p, node);
}

struct node *template_parse_primary(struct parser *p, bool with_nsref)
{
    struct node *node;

    switch ((int)p->now.type) {
    case TOKEN_WORD:
        return parse_name(p, with_nsref);
    case TOKEN_STRING:
        return parse_strings(p);
    case TOKEN_INT:
    case TOKEN_FLOAT:
        return constant(p, p->now.v);
    case TOKEN_LPAREN:
        template_advance(p);
        node = template_parse_tuple(p, TUPLE_BRACKETS);
        template_expect(p, TOKEN_RPAREN);
        return node;
    case TOKEN_LBRACKET:
        return parse_list(p);
    case TOKEN_LBRACE:
        return parse_dict(p);
    default:
        if (p->now.v.kind == VALUE_STRING)
            template_fail_at(p, p->now.line, "unexpected '%.*s'", (int)p->now.v.n, p->now.v.s);
        else
            template_fail_at(p, p->now.line, "expected an expression");
        return NULL;
    }
}
