/* core/grammar/json_schema.h - JSON Schema as a grammar of JSON texts that validate.
 *
 * The compiler reads draft 2020-12, and the older drafts and OpenAPI where they differ. Every text
 * of the grammar validates; where a schema allows more than is useful to write, the grammar allows
 * less:
 *   - members stand in the order of `properties`; optional ones may be left out;
 *   - members beyond `properties` come last, and only where additionalProperties is true or a
 *     schema, where a pattern matches their key, or where there are neither properties nor
 *     patterns; their keys have no escapes, and some 64 characters at most where there are no
 *     patterns;
 *   - all items of a tuple are written, and more items only where their schema is given;
 *   - a schema without `type` that has keywords of one type is of that type;
 *   - integers have up to 19 digits, numbers with bounds no exponent, and at most one blank may
 *     follow ',' and ':';
 *   - numbers with a bound have 15 digits, or 11 before the point and 6 after it, and more where
 *     the bounds leave no others or a whole number's bound has more: up to 36. Bounds are compared
 *     exactly, digit by digit (core/json/json_number.h).
 *
 * These keywords are enforced, beside type, enum, const, properties, required,
 * additionalProperties, items, anyOf, allOf, $ref within the schema, $defs, definitions, minItems,
 * maxItems, minLength, maxLength, minimum, maximum, exclusiveMinimum and exclusiveMaximum:
 *
 *   - pattern: the expressions of regex.h; beside lengths and a format as well.
 *
 *   - format: date, time, date-time, duration, uuid, email, ipv4, ipv6, hostname, uri. Any other is
 *     an annotation, and so is each of them beside enum or const.
 *
 *   - oneOf: as anyOf; the grammar does not check that only one branch matches.
 *
 *   - patternProperties, propertyNames: up to 6 patterns; a key that several match has a value of
 *     all their schemas. propertyNames may have type, enum, const, pattern, format and lengths.
 *
 *   - minProperties, maxProperties: a minimum up to the number of properties, and one more where
 *     others may stand.
 *
 *   - prefixItems: or a list in `items` (draft 4 to 7), with additionalItems for the items after
 *     them.
 *
 *   - uniqueItems: of items that are listed (enum, const, booleans, null), up to 16 values;
 *     otherwise refused, for a grammar does not remember what it wrote.
 *
 *   - exclusiveMinimum, exclusiveMaximum: numbers, or as in draft 4 and OpenAPI 3.0 truth values
 *     that make minimum and maximum exclusive.
 *
 *   - multipleOf: by the decimal digits, as they are written: 0.07 is a multiple of 0.01. Up to 33
 *     digits, 20 of them after the point. Of large steps 2,000 multiples are written.
 *
 *   - nullable: null as well, unless the values are listed.
 *
 *   - enum, const: the values that type, lengths, pattern and bounds allow, their numbers as they
 *     were written: 1.0 is 1.0, and 9007199254740993 is not 9007199254740992.
 *
 * A keyword that no draft defines as an assertion is an annotation and ignored (2020-12, 6.5).
 * Assertions that the compiler cannot enforce are refused, with the keyword and a JSON pointer to
 * it: not, if (with then or else), contains, dependentRequired, dependentSchemas, dependencies,
 * unevaluatedProperties, unevaluatedItems, $dynamicRef, $recursiveRef and draft 3's; one that is
 * true of every value (not: false, unevaluatedItems: true) is ignored.
 *
 * Thread: any. Memory: the grammar's; scratch in proportion to the schema.
 * Errors: ERR_UNSUPPORTED, ERR_INVAL, ERR_LIMIT, ERR_CANCELED, ERR_NOMEM with a sentence.
 */
#ifndef CORE_GRAMMAR_JSON_SCHEMA_H
#define CORE_GRAMMAR_JSON_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>

#include "core/grammar/builder.h"
#include "core/json/json.h"

/* Compiles a schema; `budget` may be NULL: no limit. */
int schema_to_grammar(struct grammar **out, const cJSON *schema, struct budget *budget, char *err,
                      size_t err_len);

/* Writes the schema as a piece of a larger grammar; errors are the builder's. */
struct grammar_piece grammar_schema(struct grammar_builder *b, const cJSON *schema);

/* ---- values that are not written as JSON; json_schema_text.c ---- */

struct schema_text {    /* a string without quotes and escapes */
    const char *end;    /* the text that ends it, which the string cannot have */
    const char *others; /* a regular expression (regex.h): texts that its reader takes for a value
                         * of another type, which the string cannot be; NULL: none */
};

/* Writes the strings of `schema`, which is part of `root` (for $ref), to *out. False: there are
 * none, or the builder has failed. */
bool grammar_schema_text(struct grammar_builder *b, const cJSON *root, const cJSON *schema,
                         const struct schema_text *how, struct grammar_piece *out);

/* Writes all values, or all but strings, as JSON or, with is_python, as literals of Python. */
struct grammar_piece grammar_schema_within(struct grammar_builder *b, const cJSON *root,
                                           const cJSON *schema, bool has_strings, bool is_python);

/* ---- objects whose members stand one by one, not as JSON; json_schema_object.c ---- */

struct expr_set;

struct schema_key {       /* the key of a member */
    const char *name;     /* NULL: any key of the expression `keys` of the set */
    struct expr_set *set; /* NULL if there is a name */
    uint32_t keys;
};

struct schema_members { /* how members are written */
    void *ud;
    /* Writes a member with the key; `schema` is merged of all schemas that apply to it. */
    struct grammar_piece (*member)(void *ud, const struct schema_key *key, const cJSON *schema);
    struct grammar_piece (*comma)(void *ud); /* separates two members */
    const char *keys; /* a regular expression (regex.h) for keys that `properties` does not name */
    const cJSON *names; /* strings that no such key may be */
};

/* Writes the objects that the schema allows, without braces; members are composed as in JSON (see
 * above). Objects that are listed (enum, const) are refused: ERR_UNSUPPORTED. */
struct grammar_piece grammar_schema_members(struct grammar_builder *b, const cJSON *root,
                                            const struct schema_members *how);
/* Writes the key's text; each call makes a new piece. */
struct grammar_piece grammar_schema_key(struct grammar_builder *b, const struct schema_key *key);

#endif
