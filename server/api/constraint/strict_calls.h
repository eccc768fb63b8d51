/* server/api/constraint/strict_calls.h - enforces the schemas of tools on calls that the model
 * decides on.
 *
 * If one of the tools is strict, the model may call but need not (tool_choice auto), and nothing
 * else constrains the text, a lazy grammar begins at the mark of a call: the name is that of a
 * tool, and the arguments are valid under its schema (any object for a tool that is not strict).
 * The call is written as the model's family writes calls (constraint_calls.h).
 *
 * If the client requires a call (tool_choice required, or a function's name), the answer is calls
 * and nothing else, after a thought if there is one; if thoughts have no marks that are tokens but
 * stand in a channel, the grammar includes them. In an unknown family, and for functions whose
 * schemas cannot be enforced argument by argument, the calls are a list of JSON objects, as
 * params_force_call() has left it.
 *
 * If the client gives a format for the answer beside tools (response_format and the like), the
 * answer is either calls or a text of that format, and nothing else. If the model's family is
 * unknown, only the format is enforced.
 *
 * Source: OpenAI's "strict" in function definitions.
 *
 * Thread: any. Memory: params->forced_schema owns the values that the constraint borrows.
 */
#ifndef SERVER_API_CONSTRAINT_STRICT_CALLS_H
#define SERVER_API_CONSTRAINT_STRICT_CALLS_H

#include "server/http/error.h"

struct budget;
struct output_style;
struct params;

/* Checks that the regular expressions of a parsed chat's custom tools compile. 0, or ERR_* with *e
 * filled, which names the field of the first that does not. */
int strict_calls_check_patterns(const struct params *p, struct budget *budget, struct api_error *e);

/* Replaces the constraint of a parsed chat's params where tools require it. 0, or ERR_NOMEM with *e
 * filled. */
int strict_calls_constrain(struct params *p, const struct output_style *style, struct api_error *e);

#endif
