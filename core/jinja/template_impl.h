/* core/jinja/template_impl.h - types and functions that the files of the template engine share.
 *
 * lexer.c cuts the source into tokens, parser.c and parse_expr.c make nodes of them, scope.c
 * resolves each name to a variable, exec.c and eval.c interpret the nodes. The first failure of a
 * rendering is kept in the render (`rc`); a caller checks it after each call that returns a value.
 *
 * Thread: nodes are read-only while rendering; a render belongs to one call.
 * Memory: nodes live in the template's pool, everything else in the render's.
 */
#ifndef CORE_JINJA_TEMPLATE_IMPL_H
#define CORE_JINJA_TEMPLATE_IMPL_H

#include "core/base/budget.h"
#include "core/base/buf.h"
#include "core/base/spans.h"
#include "core/jinja/template.h"

/* --- tokens --- */

enum token_type {
    TOKEN_END = 0, /* the source has ended */
    TOKEN_DATA,
    TOKEN_VARIABLE_BEGIN,
    TOKEN_VARIABLE_END,
    TOKEN_BLOCK_BEGIN,
    TOKEN_BLOCK_END,
    TOKEN_WORD,
    TOKEN_STRING,
    TOKEN_INT,
    TOKEN_FLOAT,
    TOKEN_ADD,
    TOKEN_SUB,
    TOKEN_DIV,
    TOKEN_FLOORDIV,
    TOKEN_MUL,
    TOKEN_MOD,
    TOKEN_POW,
    TOKEN_TILDE,
    TOKEN_LBRACKET,
    TOKEN_RBRACKET,
    TOKEN_LPAREN,
    TOKEN_RPAREN,
    TOKEN_LBRACE,
    TOKEN_RBRACE,
    TOKEN_EQ,
    TOKEN_NE,
    TOKEN_GT,
    TOKEN_GE,
    TOKEN_LT,
    TOKEN_LE,
    TOKEN_ASSIGN,
    TOKEN_DOT,
    TOKEN_COLON,
    TOKEN_PIPE,
    TOKEN_COMMA,
    TOKEN_SEMICOLON,
};

struct token {
    enum token_type type;
    uint32_t line;
    struct value v; /* data, word, string, int, float; an operator's own text */
};

enum lex_state { LEX_DATA = 0, LEX_BLOCK, LEX_VARIABLE };

struct lexer {
    struct value_pool *pool;
    const char *s; /* the source, with \n as the only line end and without the last line end */
    size_t n, pos;
    uint32_t line;
    enum lex_state state;
    bool line_starting;  /* the last token ended with a line end */
    char *brackets;      /* stack of the closing brackets that must still come */
    uint32_t n_brackets;
    struct token pending; /* token of the tag after the data that was just returned */
    bool has_pending;
    int rc;
    char *err;
    size_t err_len;
};

/* Begin with a copy of the source in which all line ends are \n. */
int template_lex_init(struct lexer *lex, struct value_pool *pool, const char *source, size_t n,
                      char *err, size_t err_len);
/* Return the next token; TOKEN_END at the end and after an error (lex->rc). */
struct token template_lex_next(struct lexer *lex);
/* Note the first error, as "line N: ...". Returns `rc`. */
int template_lex_fail(struct lexer *lex, uint32_t line, int rc, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* literal.c: return the number that begins here; *behind: where it ends. */
struct token template_lex_number(struct lexer *lex, size_t *behind);
/* Return the value of a string literal; s[0..n) is the source between its quotes. */
struct value template_lex_string(struct lexer *lex, const char *s, size_t n);

/* --- nodes --- */

enum node_type {
    NODE_CONST = 0,
    NODE_NAME,
    NODE_NSREF, /* namespace.member as the target of a set */
    NODE_TUPLE,
    NODE_LIST,
    NODE_DICT,
    NODE_COND,
    NODE_AND,
    NODE_OR,
    NODE_NOT,
    NODE_COMPARE,
    NODE_OPERAND,
    NODE_BINARY,
    NODE_UNARY,
    NODE_CONCAT,
    NODE_FILTER,
    NODE_TEST,
    NODE_CALL,
    NODE_KEYWORD,
    NODE_ATTR,
    NODE_ITEM,
    NODE_SLICE,
    NODE_OUTPUT,
    NODE_FOR,
    NODE_IF,
    NODE_MACRO,
    NODE_CALL_BLOCK,
    NODE_FILTER_BLOCK,
    NODE_SET,
    NODE_SET_BLOCK,
    NODE_WITH,
    NODE_BREAK,
    NODE_CONTINUE,
};

enum name_use { NAME_LOAD = 0, NAME_STORE, NAME_PARAM };

enum operand { OPERAND_IN = 100, OPERAND_NOT_IN }; /* besides the comparing tokens */

struct node;
struct node_list {
    struct node **at;
    uint32_t n, cap;
};

struct scope;
struct node { /* the function that makes a node explains a, b, c and the lists */
    uint8_t type; /* enum node_type */
    uint8_t op;   /* a token, an operand, a name_use */
    uint16_t height;
    uint32_t line;
    struct node *a, *b, *c;
    struct node_list list, list2;
    struct value v; /* constant or name */
    uint32_t up, slot; /* for names: scopes outwards, slot there */
    struct scope *scope;
    const struct template_builtin *builtin; /* for filters and tests; NULL: no such name */
    bool recursive, takes_caller, takes_kwargs, takes_varargs;
    struct value w; /* NSREF: the member */
    struct node *d; /* FOR: the target once more, for the condition */
};

/* How a variable gets its value when its scope is entered. */
enum load_kind { LOAD_NONE = 0, LOAD_PARAM, LOAD_GLOBAL, LOAD_OUTER, LOAD_MISSING };

struct scope_load {
    uint8_t kind; /* enum load_kind */
    uint32_t slot;
    uint32_t up, from; /* LOAD_OUTER: scopes outwards, slot there */
    struct value name; /* LOAD_GLOBAL: the name */
};

struct scope {
    uint32_t n_slots;
    uint32_t n_loads;
    struct scope_load *loads;
    uint32_t loop, caller, kwargs, varargs; /* slots of the special names */
    struct scope *other, *test;             /* for loops: else branch, condition */
};

struct parser {
    struct lexer lex;
    struct token now, next;
    struct value_pool *pool;
    uint32_t depth, n_loops; /* loops around this place that break may leave */
};

/* node.c */
struct node *template_node(struct parser *p, enum node_type type, uint32_t line);
void template_node_add(struct parser *p, struct node_list *list, struct node *child);
/* Set a node's height, once its children are in place. Returns the node. */
struct node *template_node_done(struct parser *p, struct node *node);
/* Make a node of a and b. */
struct node *template_node_two(struct parser *p, enum node_type type, uint8_t op, struct node *a,
                               struct node *b);
/* Move on to the next token. */
void template_advance(struct parser *p);
bool template_is(const struct parser *p, enum token_type type);
bool template_is_word(const struct parser *p, const char *word);
bool template_accept(struct parser *p, enum token_type type);
bool template_accept_word(struct parser *p, const char *word);
struct token template_expect(struct parser *p, enum token_type type);
void template_expect_word(struct parser *p, const char *word);
void template_fail_at(struct parser *p, uint32_t line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool template_enter(struct parser *p); /* one level deeper; false: too deep, noted */
void template_leave(struct parser *p);

/* parser.c */
struct node_list template_parse(struct parser *p);

/* parse_expr.c */
enum tuple_flags {
    TUPLE_SIMPLE = 1u << 0,   /* names and literals only: the target of an assignment */
    TUPLE_NO_COND = 1u << 1,  /* no inline if */
    TUPLE_BRACKETS = 1u << 2, /* the tuple is in parentheses, so it may be empty */
    TUPLE_NSREF = 1u << 3,    /* namespace.member is allowed */
};
struct node *template_parse_tuple(struct parser *p, unsigned flags);
struct node *template_parse_expression(struct parser *p);

/* operand.c */
struct node *template_parse_primary(struct parser *p, bool with_nsref);
struct node *template_parse_postfix(struct parser *p, struct node *node); /* members, calls */
struct node *template_parse_suffixes(struct parser *p, struct node *node); /* filters, tests */
/* Parse filters one after the other onto `node`, which may be NULL (a filter block). */
struct node *template_parse_filters(struct parser *p, struct node *node, bool at_name);

/* scope.c: fill in scopes, slots of names, builtins. Fails through the lexer's error. */
int template_resolve(struct parser *p, struct node_list body, struct scope **root);

/* --- rendering --- */

struct frame { /* the variables of one scope */
    struct frame *up;
    struct value *slots;
};

struct render {
    struct value_pool *pool;
    const struct value *globals;
    struct template_options options;
    struct buf *out;
    struct budget own_budget; /* used if the options have no budget */
    struct budget *budget;
    uint32_t depth, line;
    uint32_t n_not_text; /* values that blocks gave instead of text, in the text being captured */
    int rc;
    char *err;
    size_t err_len;
};

struct kwarg {
    struct value name, value;
};
struct args {
    struct value *at;
    struct kwarg *kw;
    uint32_t n, n_kw;
};

#define TEMPLATE_MAX_PARAMS 6 /* most parameters of a builtin */

/* A filter, a test or a method. With `params` the function gets its arguments bound to these names,
 * in order, VALUE_MISSING if not given; without `params` it gets them unbound. */
struct template_builtin {
    const char *name;
    struct value (*call)(struct render *r, struct value v, const struct value *a);
    const char *params; /* "old new count" */
    uint8_t n_required;
    struct value (*call_raw)(struct render *r, struct value v, const struct args *args);
};

const struct template_builtin *template_filter(struct value name);
const struct template_builtin *template_test(struct value name);
struct value template_call_builtin(struct render *r, const struct template_builtin *b,
                                   struct value v, const struct args *args);
/* Put arguments into a[] by name. */
bool template_bind(struct render *r, const char *name, const char *params, uint8_t n_required,
                   const struct args *args, struct value *a);

/* template.c. Cuts a sentence that did not fit after its last whole character. */
void template_trim_sentence(char *err, size_t err_len);
/* Store the first failure; returns a value for the caller to return. */
struct value template_fail(struct render *r, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
struct value template_limit(struct render *r, const char *what);
/* Characters that are looked at one by one, for a step; plain copying and searching is 64 bytes. */
#define SCANNED_PER_STEP 16
/* Spend n more steps; false when there are none left, or something has failed. */
bool template_step(struct render *r, uint64_t n);
bool template_push(struct render *r); /* one level deeper */
void template_pop(struct render *r);
/* Begin a buffer for text that becomes a value; end it by template_take(). */
void template_text(struct render *r, struct buf *b);
struct value template_take(struct render *r, struct buf *b);
/* Text that is put together from strings and keeps the origin of each byte; end it by
 * template_text_end(). */
struct text {
    struct buf buf;
    struct spans own;
};
void template_text_begin(struct render *r, struct text *t);
void template_text_add(struct render *r, struct text *t, struct value string);
struct value template_text_end(struct render *r, struct text *t);
/* Print the string. template_unprint() removes the text printed from offset `before` on and returns
 * it as a string. */
void template_print(struct render *r, struct value string);
struct value template_unprint(struct render *r, size_t before);
/* Return the flags of a string made only of s's bytes, in another order or case. */
uint8_t template_flags_of(struct value s);
/* Return bytes from .. to - 1 of a string, with its flags. */
struct value template_piece(struct value s, size_t from, size_t to);
/* Append str(v). */
void template_put(struct render *r, struct value v, struct buf *out);
struct value template_str(struct render *r, struct value v); /* v as a string; safe stays safe */
struct value template_plain(struct render *r, struct value v); /* str(v): not safe */

/* exec.c */
enum flow { FLOW_NEXT = 0, FLOW_BREAK, FLOW_CONTINUE };
struct frame *template_frame(struct render *r, const struct scope *scope, struct frame *up);
void template_frame_fill(struct render *r, const struct scope *scope, struct frame *f);
enum flow template_exec(struct render *r, const struct node_list *body, struct frame *f);
/* True: all blocks gave text since n_not_text was `before`; else the render fails. Called when a
 * captured text is put together, so that a value that is not text does not fail if a break left the
 * capture before. */
bool template_all_text(struct render *r, uint32_t before);
/* Run the statements and return the text that they print as a string. */
struct value template_capture(struct render *r, const struct node_list *body, struct frame *f);
void template_assign(struct render *r, const struct node *target, struct value v, struct frame *f);

/* loop.c */
enum flow template_exec_for(struct render *r, const struct node *node, struct frame *f);
struct value template_loop_attr(struct render *r, struct value loop, struct value name,
                                bool *found);
/* Take the next item of `loop`, as (item, loop), when a template walks over the loop itself. False:
 * there is none. */
bool template_loop_next(struct render *r, struct value loop, struct value *item);
int template_repr_loop(struct value v, struct buf *out);
struct value template_loop_call(struct render *r, struct value loop, const struct args *args);
struct value template_loop_cycle(struct render *r, struct value loop, const struct args *args);
struct value template_loop_changed(struct render *r, struct value loop, const struct args *args);

/* eval.c */
struct value template_eval(struct render *r, const struct node *node, struct frame *f);
bool template_eval_args(struct render *r, const struct node *node, struct frame *f,
                        struct args *args);
struct value template_eval_filter(struct render *r, const struct node *node, struct value v,
                                  struct frame *f);

/* ops.c */
struct value template_binary(struct render *r, enum token_type op, struct value a, struct value b);
struct value template_unary(struct render *r, enum token_type op, struct value a);
bool template_compare(struct render *r, int op, struct value a, struct value b);
bool template_contains(struct render *r, struct value seq, struct value item);
bool template_equal(struct render *r, struct value a, struct value b);
bool template_less(struct render *r, struct value a, struct value b, enum token_type op);

/* attr.c */
struct value template_getattr(struct render *r, struct value v, struct value name);
struct value template_getitem(struct render *r, struct value v, struct value key);
struct value template_slice(struct render *r, struct value v, struct value start, struct value stop,
                            struct value step);
/* Return the undefined value that fails as "'name' is undefined". */
struct value template_undefined_name(struct value name);
struct value template_undefined_hint(const char *hint); /* a literal */
struct value template_fail_undefined(struct render *r, struct value undefined);
struct value template_fail_big(struct render *r); /* an integer does not fit into 64 bits */
int64_t template_length(struct render *r, struct value v); /* len(v) */
/* Set *i to an index or a count, an int or bool; any other value fails. */
bool template_index(struct render *r, struct value v, int64_t *i);

/* iter.c */
struct iter {
    struct value of;
    uint64_t i;
};
bool template_iter(struct render *r, struct iter *it, struct value v);
bool template_iterable(struct value v);
bool template_iter_next(struct render *r, struct iter *it, struct value *item);
struct value template_listed(struct render *r, struct value v); /* list(v) */
struct value template_reversed(struct render *r, struct value v);

enum template_view { TEMPLATE_KEYS = 0, TEMPLATE_VALUES, TEMPLATE_ITEMS };
struct value template_new_view(struct render *r, struct value dict, enum template_view what);
const struct value_dict *template_view_dict(struct value v);
enum template_view template_view_kind(struct value v);

struct value template_new_range(struct render *r, int64_t start, int64_t stop, int64_t step);
int64_t template_range_length(struct value v);
int64_t template_range_at(struct value v, int64_t i);
void template_range_bounds(struct value v, int64_t *start, int64_t *stop, int64_t *step);
bool template_range_equal(struct value a, struct value b);

/* Return a generator over the items of a list, or one that computes each item when it is asked
 * for. */
struct value template_new_generator(struct render *r, struct value list);
typedef bool (*template_pull)(struct render *r, void *state, struct value *item);
struct value template_new_pull(struct render *r, template_pull pull, void *state);

struct template_object; /* structs of different kinds of objects share no first members */
struct value template_call(struct render *r, struct value callee, const struct args *args);
struct value template_new_macro(struct render *r, const struct node *node, struct frame *f);
struct value template_macro_name(struct value v);
struct value template_new_method(struct render *r, struct value of,
                                 const struct template_builtin *method);
int template_repr_object(struct value v, struct buf *out);

/* globals.c */
const struct value *template_global(struct value name);
struct value template_call_function(struct render *r, struct value v, const struct args *args);
const char *template_function_name(struct value v);
struct value template_cycler_attr(struct render *r, struct value v, struct value name, bool *found);
struct value template_cycler_next(struct value v, bool reset); /* reset: back to the first */
struct value template_joiner_call(struct render *r, struct value v);

/* methods.c: return the method of that name, or NULL; *exists: Python has it, even if a template
 * may not use it. */
const struct template_builtin *template_method(struct value v, struct value name, bool *exists);

/* format.c: "%d" % x, and "{}".format(x) */
struct value template_percent(struct render *r, struct value format, struct value with,
                              const struct args *named);
struct value template_format(struct render *r, struct value format, const struct args *args);
/* format_spec.c: one value by a format specification, as format(v, spec). */
void template_format_spec(struct render *r, struct value v, const char *spec, size_t n,
                          struct buf *out);

/* number.c */
struct value template_to_int(struct render *r, struct value v, int64_t base, bool *ok);
struct value template_to_float(struct render *r, struct value v, bool *ok);
struct value template_round(struct render *r, struct value v, int64_t digits);

/* escape.c */
struct value template_escaped(struct render *r, struct value v); /* str(v), escaped if not safe */

/* sort.c: stable; compares the items' `key`. */
struct sort_item {
    struct value key, item;
};
bool template_sort(struct render *r, struct sort_item *at, uint32_t n, bool reverse);

#endif
