/* server/api/completion.h - POST /v1/completions and its like, from the body to the last byte.
 *
 * parse (api_call.h) -> admit (admission.h) -> submit (engine_client.h) -> collect (choice.h) ->
 * write (response_writer.h). All requests of a call are posted, or none. Events come back through
 * the engine client until every choice has ended; a completion outlives its client until then,
 * because the engine still owes its ends.
 *
 * Thread: the loop's.
 * Memory: as for an API call, and bounded by http.h's limits on what waits to be sent.
 */
#ifndef SERVER_API_COMPLETION_H
#define SERVER_API_COMPLETION_H

struct body_scan;
struct engine_client;
struct wire_format;
struct http_call;

/* The body of the call is complete: answer it, now or later. */
void completion_start(struct engine_client *engine, struct http_call *call,
                      const struct wire_format *wire_format, const struct body_scan *scan);

#endif
