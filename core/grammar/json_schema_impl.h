/* core/grammar/json_schema_impl.h - shared by the files of the schema compiler.
 *
 * json_schema.c walks a schema, json_schema_ref.c follows pointers into it, json_schema_known.c
 * finds schemas that were seen before and compares values, json_schema_merge.c makes one schema of
 * several; json_schema_values.c writes enums, json_schema_union.c unions, json_schema_unique.c
 * arrays of different values, json_schema_multiple.c multiples, json_schema_keys.c the members that
 * have no names, and the files named after types the rest. A schema that others refer to is a rule;
 * rules are written one after the other from a list, so the depth of the calls is that of the JSON
 * text.
 *
 * Thread: one owner. Memory: see json_schema.h.
 */
#ifndef CORE_GRAMMAR_JSON_SCHEMA_IMPL_H
#define CORE_GRAMMAR_JSON_SCHEMA_IMPL_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/buf.h"
#include "core/grammar/builder.h"
#include "core/json/json.h"

#define SCHEMA_MAX_RULES 8192
#define SCHEMA_MAX_DEPTH 200   /* nesting of schemas, merged ones included */
#define SCHEMA_MAX_MERGED 4096 /* schemas made of several */
#define SCHEMA_MAX_POINTER 160 /* bytes of a JSON pointer that are kept for errors */

struct expr_set;
struct schema_members;

enum schema_type {
    SCHEMA_NULL = 1u << 0,
    SCHEMA_BOOLEAN = 1u << 1,
    SCHEMA_INTEGER = 1u << 2,
    SCHEMA_NUMBER = 1u << 3, /* a number that is not an integer */
    SCHEMA_STRING = 1u << 4,
    SCHEMA_ARRAY = 1u << 5,
    SCHEMA_OBJECT = 1u << 6,
    SCHEMA_ANY = (1u << 7) - 1,
};

struct schema_rule { /* a schema that is referred to */
    const cJSON *schema;
    uint32_t rule;
    bool is_written;
    char pointer[SCHEMA_MAX_POINTER];
};

/* The rule and the merged schema of a schema, found by its address. */
struct schema_known {
    const cJSON *schema; /* NULL: an empty slot */
    uint32_t rule;       /* index + 1 in `rules`, 0 = none */
    const cJSON *merged; /* the result of schema_merge(), or NULL */
};
#define SCHEMA_KNOWN_SLOTS 32768 /* at most SCHEMA_MAX_RULES + SCHEMA_MAX_MERGED are used */

struct schema {
    struct grammar_builder *b;
    const cJSON *root;
    struct schema_rule *rules;
    uint32_t n_rules;
    cJSON **merged; /* [SCHEMA_MAX_MERGED] deleted by schema_end() */
    uint32_t n_merged;
    struct schema_known *known; /* [SCHEMA_KNOWN_SLOTS] open addressing */
    /* rules of any JSON, made at their first use; -1 before */
    int32_t character, value, plain;
    bool is_python;                       /* True, False and None stand for true, false and null */
    const struct schema_members *members; /* how the only object is written; NULL: as JSON */
};

struct schema_node { /* a schema within the root, and its place */
    const cJSON *schema;
    uint32_t depth;
    char pointer[SCHEMA_MAX_POINTER];
};

/* ---- json_schema.c ---- */

struct grammar_piece schema_write(struct schema *s, const struct schema_node *at);
struct grammar_piece schema_refuse(struct schema *s, const struct schema_node *at,
                                   const char *format, ...) __attribute__((format(printf, 3, 4)));
bool schema_has_failed(const struct schema *s);
/* Returns the types that a schema allows by its `type`, or all without it; a malformed `type` is
 * refused. */
unsigned schema_types(struct schema *s, const struct schema_node *at);
/* Returns the types that are written for a schema; without `type` its keywords decide. */
unsigned schema_written_types(struct schema *s, const struct schema_node *at);
/* Returns the value of a keyword that is a count, or `otherwise` if it is absent. */
uint32_t schema_count(struct schema *s, const struct schema_node *at, const char *keyword,
                      uint32_t otherwise);
/* Returns the rule of any JSON value, and of any character of a JSON string. */
uint32_t schema_value_rule(struct schema *s);
uint32_t schema_char_rule(struct schema *s);
struct grammar_piece schema_comma(struct schema *s);
struct grammar_piece schema_colon(struct schema *s);
const cJSON *schema_get(const cJSON *schema, const char *keyword);
/* Spends `n` steps of the budget; the builder fails when none are left. */
void schema_spend(struct schema *s, uint64_t n);
/* Counts the members or elements of a value, 0 for NULL. Takes time in proportion. */
uint64_t schema_size(const cJSON *v);
/* Returns the slot of the schema, which is made if there is none; the caller reads it or fills it
 * in. */
struct schema_known *schema_known(struct schema *s, const cJSON *schema);
/* True: the values are equal, numbers by their exact values. Spends steps for members and
 * elements. */
bool schema_equal(struct schema *s, const cJSON *a, const cJSON *b);
bool schema_is_annotation(const char *keyword);
bool schema_is_refused(const char *keyword);

/* Returns the spelling of null, true or false in JSON or, with is_python, in Python. */
const char *schema_word(const struct schema *s, const char *word);

/* Allocates the lists of rules and merged schemas, and the table of known schemas; `root` is what
 * $ref points into. */
int schema_begin(struct schema *s, struct grammar_builder *b, const cJSON *root);
void schema_end(struct schema *s);
/* Writes the schema and all that it refers to as rules; the piece calls the first one. */
struct grammar_piece schema_rules(struct schema *s, const cJSON *schema);

/* ---- the others ---- */

/* Returns a node for `schema`, which is member `keyword` of `at`, or member `name` of that one
 * unless `name` is NULL. */
struct schema_node schema_in(const struct schema_node *at, const cJSON *schema, const char *keyword,
                             const char *name);
/* Keeps a new value, which schema_end() deletes; `made` may be NULL: out of memory. NULL with an
 * error. */
cJSON *schema_keep(struct schema *s, const struct schema_node *at, cJSON *made /* takes */);
/* Returns the schema to which $ref points, or NULL with an error. */
const cJSON *schema_target(struct schema *s, const struct schema_node *at);

/* Returns one schema with all that the schema says, $ref and allOf resolved; NULL with an error. */
const cJSON *schema_merge(struct schema *s, const struct schema_node *at);
/* Merges `schema` and `also`, both of which apply; NULL with an error. */
const cJSON *schema_merge_two(struct schema *s, const struct schema_node *at, const cJSON *schema,
                              const cJSON *also);
/* True: exclusiveMinimum or exclusiveMaximum is a boolean, as in draft 4 and OpenAPI 3.0. */
bool schema_has_old_bounds(const cJSON *schema);
/* Returns the keyword that the member is in 2020-12: "exclusiveMinimum" for a minimum beside
 * exclusiveMinimum: true, NULL for the latter. */
const char *schema_bound_name(const cJSON *schema, const cJSON *member);
/* True: merging left a schema without types or values. */
bool schema_is_impossible(const cJSON *merged);
/* Writes the branches in `list`, which is an anyOf or a oneOf. */
struct grammar_piece schema_union(struct schema *s, const struct schema_node *at, const cJSON *list,
                                  const char *keyword);
/* Merges a branch of the union `keyword` with the keywords beside the union, which are `base`:
 * schema_without() of the keyword. False: the branch contradicts them. */
bool schema_branch(struct schema *s, const struct schema_node *at, const char *keyword, uint32_t n,
                   const cJSON *branch, const cJSON *base, struct schema_node *in);
const cJSON *schema_without(struct schema *s, const struct schema_node *at, const char *keyword);
struct grammar_piece schema_object(struct schema *s, const struct schema_node *at);
struct grammar_piece schema_array(struct schema *s, const struct schema_node *at);
struct grammar_piece schema_string(struct schema *s, const struct schema_node *at);
/* True: the schema's `format` is one that is enforced. */
bool schema_has_known_format(const cJSON *schema);
/* Returns the expression of the strings that pattern, format and lengths allow. */
uint32_t schema_string_expr(struct schema *s, const struct schema_node *at, struct expr_set *e);
/* Returns the expression of the strings of enum and const; EXPR_NONE: there are none. */
uint32_t schema_listed_strings(struct schema *s, const struct schema_node *at, struct expr_set *e);
/* Adds a JSON pointer and the keyword to the error of an expression. */
void schema_point(struct schema *s, const struct schema_node *at, const char *keyword);
struct grammar_piece schema_any_string(struct schema *s, uint32_t min, uint32_t max);
/* Writes the schema's integers, or all its numbers. */
struct grammar_piece schema_number(struct schema *s, const struct schema_node *at, bool integers);
struct grammar_piece schema_any_number(struct schema *s);

/* ---- json_schema_values.c ---- */

/* Writes the values of enum and const that the other keywords allow. */
struct grammar_piece schema_values(struct schema *s, const struct schema_node *at);

/* Sets *v to the next value of enum or const, or to the first if *v is NULL; false: there is
 * none. */
bool schema_next_value(struct schema *s, const struct schema_node *at, const cJSON **v);
/* Returns the value as JSON, for the caller to free; NULL with an error. */
char *schema_value_text(struct schema *s, const cJSON *v);

/* ---- json_schema_unique.c ---- */

/* Writes an array of min to max items of the schema, no two of them equal. */
struct grammar_piece schema_unique(struct schema *s, const struct schema_node *at,
                                   const cJSON *items, uint32_t min, uint32_t max);

#define SCHEMA_MAX_DIGITS 36 /* digits of a written number; ten times it fits 128 bits */
#define SCHEMA_DIGITS_ROOM (SCHEMA_MAX_DIGITS + 4)

__int128 schema_power_of_ten(uint32_t n);
/* Writes the digits of v, which is not negative, with leading zeros up to `least` digits. Returns
 * how many there are. */
uint32_t schema_print_digits(char out[static SCHEMA_DIGITS_ROOM], __int128 v, uint32_t least);

/* ---- json_schema_multiple.c ---- */

struct schema_multiples { /* modulus * 10^zeros, from low to high, in units of 10^-decimals */
    __int128 low, high;
    __int128 modulus;
    uint32_t zeros, decimals; /* one of them is 0 */
};
/* Writes the multiples; false: there are none. */
bool schema_multiples(struct schema *s, const struct schema_multiples *m,
                      struct grammar_piece *out);

#endif
