/* server/api/completion/completion.h - POST /v1/completions and its like, from the body to the last
 * byte. completion_impl.h has its states: the body is parsed (api_request.h), admitted
 * (admission.h) and posted (engine_client.h); events become choices (choice.h) and bytes
 * (response_writer.h). All requests of a call are posted, or none. A completion outlives its client
 * until the engine has sent the end of every choice.  Thread: the loop's. Memory: as for an API
 * call, and bounded by http.h's limits on what waits to be sent. */
#ifndef SERVER_API_COMPLETION_COMPLETION_H
#define SERVER_API_COMPLETION_COMPLETION_H

struct body_scan;
struct engine_client;
struct wire_format;
struct http_call;

/* The body of the call is complete: answer it, now or later. */
void completion_start(struct engine_client *engine, struct http_call *call,
                      const struct wire_format *wire_format, const struct body_scan *scan);

#endif
