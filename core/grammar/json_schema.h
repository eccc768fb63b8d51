/* core/grammar/json_schema.h - JSON Schema as a grammar of JSON texts that validate.
 *
 * Draft 2020-12. What comes out always validates; where a schema allows more than is useful to
 * write, less is written:
 *   - members stand in the order of `properties`; optional ones may be left out;
 *   - members beyond `properties` come only where additionalProperties is true or a schema, or
 *     where there are no properties at all, and their keys have no escapes and some 64 characters
 *     at most;
 *   - all of prefixItems are written, and what comes behind them only where `items` is given;
 *   - a schema without `type` that has keywords of one type is of that type;
 *   - integers have up to 16 digits, and behind ',' and ':' one blank at most may stand.
 * Handled: type, enum, const, properties, required, additionalProperties, items, prefixItems,
 * minItems, maxItems, minLength, maxLength, pattern (regex.h), format (json_schema_string.c),
 * minimum, maximum, exclusiveMinimum, exclusiveMaximum, anyOf, oneOf where no text can match two
 * branches, allOf, $ref within the schema, $defs, definitions; annotations are passed over.
 * Everything else is refused, with the keyword and a JSON pointer to it.
 *
 * Thread: any. Memory: the grammar's; scratch in proportion to the schema.
 * Errors: ERR_UNSUPPORTED, ERR_INVAL, ERR_LIMIT, ERR_CANCELED, ERR_NOMEM with a sentence.
 */
#ifndef CORE_GRAMMAR_JSON_SCHEMA_H
#define CORE_GRAMMAR_JSON_SCHEMA_H

#include <stddef.h>

#include "core/base/json.h"

struct budget;
struct grammar;

/* The budget may be NULL: no limit. */
int schema_to_grammar(struct grammar **out, const cJSON *schema, struct budget *budget, char *err,
                      size_t err_len);

/* Any JSON object. */
int schema_any_object(struct grammar **out, char *err, size_t err_len);

#endif
