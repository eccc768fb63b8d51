/* server/api/stream_call.h - endpoints that continue to read a kept stream, or end it, in this
 * server's form, in llama-server's and in that of OpenAI's Responses.
 *
 * Thread: the loop's.
 * Memory: none beside the stream's own.
 */
#ifndef SERVER_API_STREAM_CALL_H
#define SERVER_API_STREAM_CALL_H

#include <stdbool.h>

/* Most bytes of the body of a look-up. */
#define STREAM_CALL_MAX_BODY ((size_t)256 << 10)

struct body_jobs;
struct http_call;
struct request_restorer;
struct server_options;
struct stream_store;

/* GET and DELETE /v1/streams/ID. streams NULL: none are kept; restorer NULL: there was no earlier
 * process. A stream that is still being restored is a 503. */
void stream_call_one(struct stream_store *streams, const struct request_restorer *restorer,
                     const struct server_options *server, struct http_call *call);
/* GET and DELETE /v1/stream?conv_id=…, and POST /v1/streams/lookup, as in llama-server. */
void stream_call_conversation(struct stream_store *streams,
                              const struct request_restorer *restorer,
                              const struct server_options *server, struct http_call *call);
void stream_call_look_up(struct stream_store *streams, const struct server_options *server,
                         struct body_jobs *jobs, struct http_call *call);
/* GET /v1/responses/ID?stream=true&starting_after=N */
void stream_call_response(struct stream_store *streams, const struct request_restorer *restorer,
                          const struct server_options *server,
                          struct http_call *call);
/* True: the response that the path names is still being restored, and the call was answered with a
 * 503. */
bool stream_call_is_restoring(const struct request_restorer *restorer,
                              const struct server_options *server, struct http_call *call);

#endif
