/* core/grammar/json_schema_keys.h - the keys of an object: what patternProperties and propertyNames
 * say of them.
 *
 * Keys that are made here have no escapes. Without both keywords there are no schema_keys: NULL is
 * allowed everywhere.
 *
 * Thread: one owner.
 * Memory: in proportion to the patterns; schemas are borrowed.
 * Errors: the builder's.
 */
#ifndef CORE_GRAMMAR_JSON_SCHEMA_KEYS_H
#define CORE_GRAMMAR_JSON_SCHEMA_KEYS_H

#include "core/grammar/json_schema_impl.h"

struct schema_keys;

/* NULL: the schema has neither keyword, or an error. */
struct schema_keys *schema_keys_create(struct schema *s, const struct schema_node *at);
void schema_keys_destroy(struct schema_keys **k);

/* A name that will be asked for; all of them come before the first question. */
void schema_keys_name(struct schema *s, struct schema_keys *k, const char *name);
/* The schema of a member with a name: its own and those of all patterns that match; without any,
 * `otherwise`. Each may be NULL. False, the schema, for a name that is not allowed. */
const cJSON *schema_keys_settle(struct schema *s, const struct schema_node *at,
                                struct schema_keys *k, const char *name, const cJSON *own,
                                const cJSON *otherwise);
/* *rule: a member whose key is none of the names. `additional`: the schema of those that match no
 * pattern, or NULL. False: there is no such member, or an error. */
bool schema_keys_others(struct schema *s, const struct schema_node *at, struct schema_keys *k,
                        const char *const *names, uint32_t n, const cJSON *additional,
                        uint32_t *rule);

#endif
