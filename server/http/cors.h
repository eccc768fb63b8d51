/* server/http/cors.h - which web pages may call: the headers of cross-origin resource sharing.
 *
 * Every answer to an allowed origin carries the headers, errors too, else a page could not read
 * why it was refused. Cookies are never involved: a page that may call sends a key of its own.
 *
 * Thread: the loop's.
 * Memory: none.
 */
#ifndef SERVER_HTTP_CORS_H
#define SERVER_HTTP_CORS_H

#include <stdbool.h>

struct http_call;

/* A browser's question whether it may send the real request? */
bool cors_is_preflight(const struct http_call *call, const char *method);

/* Add what belongs on each answer; `origins` is a checked list (config/origins.h). */
void cors_add_headers(const char *origins, struct http_call *call);

/* Answer a preflight: 204, with the permissions for an allowed origin and without for others. */
void cors_answer(const char *origins, struct http_call *call);

#endif
