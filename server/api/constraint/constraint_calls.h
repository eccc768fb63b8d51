/* server/api/constraint/constraint_calls.h - tool calls in a model's own syntax as a
 * piece of a grammar.
 *
 * `calls` is an object:
 *   open, close   texts around each call, or around the list of them; "" where there is none
 *   may_be_bare   `open` may be missing
 *   is_list       one list of calls stands between them, else one call
 *   max           most calls, >= 1
 *   arguments     the name of the member that has a call's arguments
 *   tools         [{"name":…,"parameters":JSON Schema}], at least one
 *
 * A call is {"name":…,"<arguments>":…}, with white space where models have it; the arguments are
 * valid under the schema of the tool that is named.
 *
 * Thread: any. Memory, errors: the builder's; of a schema, those of core/grammar/json_schema.h.
 */
#ifndef SERVER_API_CONSTRAINT_CONSTRAINT_CALLS_H
#define SERVER_API_CONSTRAINT_CONSTRAINT_CALLS_H

#include "core/base/json.h"
#include "core/grammar/builder.h"

struct grammar_piece constraint_calls_piece(struct grammar_builder *b, const cJSON *calls);

#endif
