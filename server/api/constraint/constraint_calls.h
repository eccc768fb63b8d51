/* server/api/constraint/constraint_calls.h - tool calls, as the model's family writes them, as a
 * piece of a grammar.
 *
 * `calls` is an object:
 *   family    the family's description (family.h)
 *   max       most calls, >= 1
 *   tools     [{"name":…,"parameters":JSON Schema}], at least one
 *   is_terse  one blank at most between the parts of a call, else 40; absent: false
 *   is_lazy   the calls are the end of a text that has come to one of the family's marks; absent:
 *             false
 *   thinks    of a family with channels: a thought may stand before the call; absent: false
 *   answer    a JSON Schema: a text of it may stand in place of the calls; or absent
 *
 * Each call is written by the first of the family's call patterns, with white space where the
 * pattern has it, and its arguments are valid under the schema of the tool that is named. Where
 * arguments stand one by one, they come in the order of `properties`, and keys beyond those last,
 * as in a JSON object; $ref, allOf, anyOf and oneOf of the whole are followed. A mark of the family
 * that is a control token of the vocabulary is that token, and no text that has its name in it
 * (`trie`, NULL: there are none); only the marks at which a lazy grammar begins may be either.
 *
 * Thread: any. Memory, errors: the builder's; of a schema, those of core/grammar/json_schema.h.
 */
#ifndef SERVER_API_CONSTRAINT_CONSTRAINT_CALLS_H
#define SERVER_API_CONSTRAINT_CONSTRAINT_CALLS_H

#include "core/base/json.h"
#include "core/grammar/builder.h"

struct token_trie;

struct grammar_piece constraint_calls_piece(struct grammar_builder *b, const cJSON *calls,
                                            const struct token_trie *trie);

#endif
