/* server/api/constraint/constraint_calls.h - tool calls, as the model's family writes them, as a
 * piece of a grammar.
 *
 * `calls` is an object:
 *   family    the family's description (family.h)
 *   max       most calls, >= 1
 *   tools     [{"name":…,"parameters":JSON Schema}], at least one
 *   is_terse  at most one blank between the parts of a call, else 40; absent: false
 *   is_lazy   the calls end a text that has reached one of the family's marks; absent: false
 *   thinks    in a family with channels a thought may precede the call; absent: false
 *   answer    a JSON Schema: a text of it may take the place of the calls; or absent
 *
 * Each call is written by the first of the family's call patterns, with white space where the
 * pattern has it, and its arguments are valid under the schema of the named tool. Arguments that
 * stand one by one come in the order of `properties`, and other keys last, as in a JSON object;
 * $ref, allOf, anyOf and oneOf of the whole schema are followed. A mark of the family that is a
 * control token of the vocabulary is that token, not a text with its name (`trie`, NULL: there are
 * none); only the marks at which a lazy grammar begins may be either.
 *
 * Thread: any. Memory, errors: the builder's; of a schema, those of core/grammar/json_schema.h.
 */
#ifndef SERVER_API_CONSTRAINT_CONSTRAINT_CALLS_H
#define SERVER_API_CONSTRAINT_CONSTRAINT_CALLS_H

#include "core/grammar/builder.h"
#include "core/json/json.h"

struct token_trie;

struct grammar_piece constraint_calls_piece(struct grammar_builder *b, const cJSON *calls,
                                            const struct token_trie *trie);

#endif
