/* core/grammar/json_schema_keys.h - the keys of an object, by patternProperties and propertyNames.
 *
 * Keys that are made here have no escapes. A schema with neither keyword has no schema_keys: NULL
 * is allowed everywhere.
 *
 * Thread: one owner.
 * Memory: in proportion to the patterns; schemas are borrowed.
 * Errors: the builder's.
 */
#ifndef CORE_GRAMMAR_JSON_SCHEMA_KEYS_H
#define CORE_GRAMMAR_JSON_SCHEMA_KEYS_H

#include "core/grammar/json_schema_impl.h"

struct schema_keys;

/* Reads both keywords of a schema. NULL: it has neither, or there is an error. */
struct schema_keys *schema_keys_create(struct schema *s, const struct schema_node *at);
void schema_keys_destroy(struct schema_keys **k);

/* Announces a name; all names must be announced before the first call of schema_keys_settle(). */
void schema_keys_name(struct schema *s, struct schema_keys *k, const char *name);
/* Returns the schema of a named member: its own and those of all patterns that match; without any,
 * `otherwise`. Each may be NULL. A name that is not allowed has the schema false. */
const cJSON *schema_keys_settle(struct schema *s, const struct schema_node *at,
                                struct schema_keys *k, const char *name, const cJSON *own,
                                const cJSON *otherwise);
/* Makes *rule: a member whose key is none of the names. `additional`: the schema of keys that match
 * no pattern, or NULL. False: there is no such member, or an error. */
bool schema_keys_others(struct schema *s, const struct schema_node *at, struct schema_keys *k,
                        const char *const *names, uint32_t n, const cJSON *additional,
                        uint32_t *rule);

#endif
