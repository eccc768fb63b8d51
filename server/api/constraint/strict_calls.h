/* server/api/constraint/strict_calls.h - calls that the model decides on, held to their
 * tools' schemas.
 *
 * Where one of the tools is strict, the model may call but need not (tool_choice auto), and nothing
 * else constrains the text, a lazy grammar begins at the mark of a call: the name is that of a
 * tool, and the arguments are valid under its schema (a tool that is not strict: any object).
 * Models whose calls are more than JSON between two marks (output_style_call_form) are not held to
 * anything.
 *
 * Source: OpenAI's "strict" in function definitions.
 *
 * Thread: any. Memory: params->forced_schema holds what the constraint borrows.
 */
#ifndef SERVER_API_CONSTRAINT_STRICT_CALLS_H
#define SERVER_API_CONSTRAINT_STRICT_CALLS_H

#include "server/http/error.h"

struct output_style;
struct params;

/* The params of a chat were parsed. 0, or ERR_NOMEM with *e filled. */
int strict_calls_constrain(struct params *p, const struct output_style *style,
                           struct api_error *e);

#endif
