/* server/api/constraint/strict_calls.h - calls that the model decides on, held to their
 * tools' schemas.
 *
 * Where one of the tools is strict, the model may call but need not (tool_choice auto), and nothing
 * else constrains the text, a lazy grammar begins at the mark of a call: the name is that of a
 * tool, and the arguments are valid under its schema (a tool that is not strict: any object). It is
 * written as the model's family writes calls (constraint_calls.h).
 *
 * Where the client insists on a call (tool_choice required, or a function's name), the answer is
 * calls and nothing else, behind a thought if there is one: where thoughts have no marks that are
 * tokens but stand in a channel, the grammar has them. Of a family that is not known, and of
 * functions whose schemas cannot be held to argument by argument, they are a list of JSON objects,
 * as params_force_call() has left it.
 *
 * Where the client gives a format for the answer beside tools (response_format and the like), the
 * answer is either calls or a text of that format, and nothing else. Of a model whose family is not
 * known only the format holds.
 *
 * Source: OpenAI's "strict" in function definitions.
 *
 * Thread: any. Memory: params->forced_schema holds what the constraint borrows.
 */
#ifndef SERVER_API_CONSTRAINT_STRICT_CALLS_H
#define SERVER_API_CONSTRAINT_STRICT_CALLS_H

#include "server/http/error.h"

struct budget;
struct output_style;
struct params;

/* The params of a chat were parsed: do the regular expressions of its custom tools compile? 0, or
 * ERR_* with *e filled, which names the field of the first one that does not. */
int strict_calls_check_patterns(const struct params *p, struct budget *budget, struct api_error *e);

/* The params of a chat were parsed. 0, or ERR_NOMEM with *e filled. */
int strict_calls_constrain(struct params *p, const struct output_style *style, struct api_error *e);

#endif
