/* server/api/completion.h - POST /v1/completions and its like, from the body to the last byte.
 *
 * parse_job.h makes requests of the body; then all of them are posted or none. Events come back
 * through the engine client until every choice has ended; a completion outlives its client until
 * then, because the engine still owes its ends.
 *
 * Thread: the loop's.
 * Memory: as for a parse job, and bounded by http.h's limits on what waits to be sent.
 */
#ifndef SERVER_API_COMPLETION_H
#define SERVER_API_COMPLETION_H

struct engine_client;
struct wire_format;
struct http_call;

/* The body of the call is complete: answer it, now or later. */
void completion_start(struct engine_client *d, struct http_call *call,
                      const struct wire_format *wire_format);

#endif
