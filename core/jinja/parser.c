/* core/jinja/parser.c - parses statements into nodes.
 *
 * Recursive descent over the lexer's tokens with one token of look-ahead. Each tag has a function
 * that reads its head, parses its body up to one of its end tags, and stores both in a node whose
 * fields the function's comment explains. Text and {{ }} in a row become one output node. Names are
 * resolved afterwards, in scope.c.
 */
#include "core/jinja/template_impl.h"

static struct node_list parse_body(struct parser *p, const char *const *ends);
static struct node *parse_statement(struct parser *p);

static void no_defaults(struct parser *p, struct node *node)
{
    if (node != NULL)
        node->c = template_node(p, NODE_TUPLE, node->line);
}

static struct node *store_name(struct parser *p, enum name_use use)
{
    const struct token t = template_expect(p, TOKEN_WORD);
    struct node *node = template_node(p, NODE_NAME, t.line);

    if (node == NULL)
        return NULL;
    if (value_is_text(t.v, "true") || value_is_text(t.v, "false") || value_is_text(t.v, "none") ||
        value_is_text(t.v, "True") || value_is_text(t.v, "False") || value_is_text(t.v, "None"))
        template_fail_at(p, t.line, "cannot assign to '%.*s'", (int)t.v.n, t.v.s);
    node->v = t.v;
    node->op = (uint8_t)use;
    return node;
}

static void make_target(struct parser *p, struct node *node, enum name_use use)
{
    if (node == NULL)
        return;
    if (node->type == NODE_NAME) {
        node->op = (uint8_t)use;
    } else if (node->type == NODE_TUPLE) {
        for (uint32_t i = 0; i < node->list.n; i++)
            make_target(p, node->list.at[i], use);
    } else if (node->type != NODE_NSREF) {
        template_fail_at(p, node->line, "cannot assign to an expression");
    }
}

static struct node *parse_target(struct parser *p, unsigned flags, enum name_use use)
{
    struct node *node = template_parse_tuple(p, TUPLE_SIMPLE | flags);

    make_target(p, node, use);
    return node;
}

/* {% set a = b %} (a: target, b: value) and {% set a | filter %}...{% endset %} (b: filter, list:
 * the body). */
static struct node *parse_set(struct parser *p)
{
    static const char *const ends[] = {"endset", NULL};
    struct node *node = template_node(p, NODE_SET, p->now.line), *target;

    template_advance(p);
    target = parse_target(p, TUPLE_NSREF, NAME_STORE);
    if (node == NULL)
        return NULL;
    node->a = target;
    if (template_accept(p, TOKEN_ASSIGN)) {
        node->b = template_parse_tuple(p, 0);
        return template_node_done(p, node);
    }
    node->type = NODE_SET_BLOCK;
    node->b = template_parse_filters(p, NULL, false);
    node->list = parse_body(p, ends);
    template_advance(p);
    return template_node_done(p, node);
}

/* {% for a in b if c %}list{% else %}list2{% endfor %} */
static struct node *parse_for(struct parser *p)
{
    static const char *const ends[] = {"endfor", "else", NULL}, *const last[] = {"endfor", NULL};
    struct node *node = template_node(p, NODE_FOR, p->now.line);
    const uint32_t n_loops = p->n_loops;

    template_advance(p);
    if (node == NULL)
        return NULL;
    node->a = parse_target(p, 0, NAME_STORE);
    template_expect_word(p, "in");
    node->b = template_parse_tuple(p, TUPLE_NO_COND);
    if (template_accept_word(p, "if"))
        node->c = template_parse_expression(p);
    node->recursive = template_accept_word(p, "recursive");
    p->n_loops = n_loops + 1;
    node->list = parse_body(p, ends);
    p->n_loops = n_loops;
    if (node->recursive) /* a recursive loop is called as a function: no break leaves it */
        p->n_loops = 0;
    if (template_accept_word(p, "else"))
        node->list2 = parse_body(p, last);
    p->n_loops = n_loops;
    template_advance(p);
    return template_node_done(p, node);
}

/* {% if a %}list{% elif %}...{% else %}list2{% endif %}; b: the first elif, whose c is the next. */
static struct node *parse_if(struct parser *p)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    static const char *const last[] = {"endif", NULL};
    struct node *first = template_node(p, NODE_IF, p->now.line), *node = first;

    template_advance(p);
    while (node != NULL && p->lex.rc == 0) {
        node->a = template_parse_tuple(p, TUPLE_NO_COND);
        node->list = parse_body(p, ends);
        if (template_is_word(p, "elif")) {
            struct node *other = template_node(p, NODE_IF, p->now.line);

            if (node == first)
                node->b = other;
            else
                node->c = other;
            node = other;
            template_advance(p);
            continue;
        }
        if (template_accept_word(p, "else"))
            first->list2 = parse_body(p, last);
        break;
    }
    template_advance(p);
    /* Branches after one another are not nested: their heights do not add up. */
    for (node = first; node != NULL && p->lex.rc == 0; node = node == first ? node->b : node->c) {
        struct node alone = *node;

        alone.b = alone.c = NULL;
        template_node_done(p, &alone);
        first->height = alone.height > first->height ? alone.height : first->height;
    }
    return first;
}

/* {% with a = 1, b = 2 %}: list: the targets, c: the values, list2: the body. */
static struct node *parse_with(struct parser *p)
{
    static const char *const ends[] = {"endwith", NULL};
    struct node *node = template_node(p, NODE_WITH, p->now.line);

    no_defaults(p, node);
    template_advance(p);
    if (node == NULL || node->c == NULL)
        return NULL;
    while (!template_is(p, TOKEN_BLOCK_END) && p->lex.rc == 0) {
        if (node->list.n > 0)
            template_expect(p, TOKEN_COMMA);
        template_node_add(p, &node->list, parse_target(p, 0, NAME_PARAM));
        template_expect(p, TOKEN_ASSIGN);
        template_node_add(p, &node->c->list, template_parse_expression(p));
    }
    node->c = template_node_done(p, node->c);
    node->list2 = parse_body(p, ends);
    template_advance(p);
    return template_node_done(p, node);
}

/* Parse (a, b=1): the names into `list`, the defaults of the last ones into c. */
static void parse_signature(struct parser *p, struct node *node)
{
    template_expect(p, TOKEN_LPAREN);
    while (!template_is(p, TOKEN_RPAREN) && p->lex.rc == 0) {
        if (node->list.n > 0)
            template_expect(p, TOKEN_COMMA);
        template_node_add(p, &node->list, store_name(p, NAME_PARAM));
        if (template_accept(p, TOKEN_ASSIGN))
            template_node_add(p, &node->c->list, template_parse_expression(p));
        else if (node->c->list.n > 0)
            template_fail_at(p, p->now.line,
                             "a parameter without a default follows one that has a default");
    }
    template_expect(p, TOKEN_RPAREN);
}

/* Parse the body of a macro or call block, which no break may leave. */
static struct node *parse_callable(struct parser *p, struct node *node, const char *const *ends)
{
    const uint32_t n_loops = p->n_loops;

    p->n_loops = 0;
    node->c = template_node_done(p, node->c);
    node->list2 = parse_body(p, ends);
    p->n_loops = n_loops;
    template_advance(p);
    return template_node_done(p, node);
}

/* {% macro v(list=c) %}list2{% endmacro %}; a: the name as a target. */
static struct node *parse_macro(struct parser *p)
{
    static const char *const ends[] = {"endmacro", NULL};
    struct node *node = template_node(p, NODE_MACRO, p->now.line);

    no_defaults(p, node);
    template_advance(p);
    if (node == NULL || node->c == NULL)
        return NULL;
    node->a = store_name(p, NAME_STORE);
    if (node->a == NULL)
        return NULL;
    node->v = node->a->v;
    parse_signature(p, node);
    return parse_callable(p, node, ends);
}

/* {% call(list=c) a %}list2{% endcall %} */
static struct node *parse_call(struct parser *p)
{
    static const char *const ends[] = {"endcall", NULL};
    struct node *node = template_node(p, NODE_CALL_BLOCK, p->now.line);

    no_defaults(p, node);
    template_advance(p);
    if (node == NULL || node->c == NULL)
        return NULL;
    if (template_is(p, TOKEN_LPAREN))
        parse_signature(p, node);
    node->a = template_parse_expression(p);
    if (node->a != NULL && node->a->type != NODE_CALL)
        template_fail_at(p, node->line, "expected a call");
    return parse_callable(p, node, ends);
}

/* {% generation %}: a call block whose caller only calls it. */
static struct node *parse_generation(struct parser *p)
{
    static const char *const ends[] = {"endgeneration", NULL};
    struct node *node = template_node(p, NODE_CALL_BLOCK, p->now.line);

    no_defaults(p, node);
    template_advance(p);
    return node != NULL && node->c != NULL ? parse_callable(p, node, ends) : NULL;
}

/* {% filter a %}list{% endfilter %} */
static struct node *parse_filter(struct parser *p)
{
    static const char *const ends[] = {"endfilter", NULL};
    struct node *node = template_node(p, NODE_FILTER_BLOCK, p->now.line);

    template_advance(p);
    if (node == NULL)
        return NULL;
    node->a = template_parse_filters(p, NULL, true);
    node->list = parse_body(p, ends);
    template_advance(p);
    return template_node_done(p, node);
}

static struct node *parse_print(struct parser *p)
{
    struct node *node = template_node(p, NODE_OUTPUT, p->now.line);

    template_advance(p);
    while (node != NULL && !template_is(p, TOKEN_BLOCK_END) && p->lex.rc == 0) {
        if (node->list.n > 0)
            template_expect(p, TOKEN_COMMA);
        template_node_add(p, &node->list, template_parse_expression(p));
    }
    return template_node_done(p, node);
}

static struct node *parse_jump(struct parser *p)
{
    const bool is_break = template_is_word(p, "break");
    struct node *node =
        template_node(p, is_break ? NODE_BREAK : NODE_CONTINUE, p->now.line);

    if (p->n_loops == 0)
        template_fail_at(p, p->now.line, "%s outside of a loop", is_break ? "break" : "continue");
    template_advance(p);
    return node;
}

static struct node *parse_left_out(struct parser *p)
{
    template_fail_at(p, p->now.line, "{%% %.*s %%} is not supported", (int)p->now.v.n, p->now.v.s);
    return NULL;
}

static struct node *parse_statement(struct parser *p)
{
    static const struct {
        const char *word;
        struct node *(*parse)(struct parser *p);
    } statements[] = {
        {"set", parse_set},          {"for", parse_for},
        {"if", parse_if},            {"macro", parse_macro},
        {"with", parse_with},        {"call", parse_call},
        {"filter", parse_filter},    {"print", parse_print},
        {"break", parse_jump},       {"continue", parse_jump},
        {"include", parse_left_out}, {"generation", parse_generation},
        {"import", parse_left_out},  {"from", parse_left_out},
        {"extends", parse_left_out}, {"block", parse_left_out},
        {"autoescape", parse_left_out},
    };
    const struct token t = p->now;

    if (t.type != TOKEN_WORD) {
        template_fail_at(p, t.line, "expected the name of a tag");
        return NULL;
    }
    for (size_t i = 0; i < sizeof(statements) / sizeof(statements[0]); i++)
        if (value_is_text(t.v, statements[i].word))
            return statements[i].parse(p);
    template_fail_at(p, t.line, "unknown tag '%.*s'", (int)t.v.n, t.v.s);
    return NULL;
}

/* Parse text and {{ ... }} in a row into one node. */
static struct node *parse_output(struct parser *p)
{
    struct node *node = template_node(p, NODE_OUTPUT, p->now.line);

    while (node != NULL && p->lex.rc == 0) {
        if (template_is(p, TOKEN_DATA)) {
            struct node *data = template_node(p, NODE_CONST, p->now.line);

            if (data != NULL)
                data->v = p->now.v;
            template_node_add(p, &node->list, data);
            template_advance(p);
        } else if (template_accept(p, TOKEN_VARIABLE_BEGIN)) {
            template_node_add(p, &node->list, template_parse_tuple(p, 0));
            template_expect(p, TOKEN_VARIABLE_END);
        } else {
            break;
        }
    }
    return template_node_done(p, node);
}

static bool is_end_tag(const struct parser *p, const char *const *ends)
{
    for (; ends != NULL && *ends != NULL; ends++)
        if (template_is_word(p, *ends))
            return true;
    return false;
}

/* Parse statements up to one of `ends`, whose word is then the current token; NULL: to the end. */
static struct node_list parse_until(struct parser *p, const char *const *ends)
{
    struct node_list body = {0};

    while (p->lex.rc == 0 && !template_is(p, TOKEN_END)) {
        if (!template_is(p, TOKEN_BLOCK_BEGIN)) {
            template_node_add(p, &body, parse_output(p));
            continue;
        }
        template_advance(p);
        if (is_end_tag(p, ends))
            return body;
        template_node_add(p, &body, parse_statement(p));
        template_expect(p, TOKEN_BLOCK_END);
    }
    if (ends != NULL)
        template_fail_at(p, p->now.line, "the template ends before {%% %s %%}", ends[0]);
    return body;
}

static struct node_list parse_body(struct parser *p, const char *const *ends)
{
    struct node_list body = {0};

    template_accept(p, TOKEN_COLON);
    template_expect(p, TOKEN_BLOCK_END);
    if (template_enter(p))
        body = parse_until(p, ends);
    template_leave(p);
    return body;
}

struct node_list template_parse(struct parser *p)
{
    template_advance(p);
    template_advance(p);
    return parse_until(p, NULL);
}
