/* server/http/cors.h - cross-origin resource sharing: which web pages may call the server.
 *
 * Every answer to an allowed origin carries the headers, errors too, else a page could not read why
 * it was refused. Cookies are never involved: a page that may call sends a key of its own.
 *
 * Thread: the loop's.
 * Memory: none.
 */
#ifndef SERVER_HTTP_CORS_H
#define SERVER_HTTP_CORS_H

#include <stdbool.h>

struct http_call;

/* Whether it is a preflight, by which a browser asks if it may send the real request. */
bool cors_is_preflight(const struct http_call *call, const char *method);

/* Add the headers of every answer; `origins` is a checked list (config/origins.h). */
void cors_add_headers(const char *origins, struct http_call *call);

/* Answer a preflight: 204, with the permissions for an allowed origin and without for others. */
void cors_answer(const char *origins, struct http_call *call);

#endif
