/* server/http/cors.h - cross-origin resource sharing: web pages of the allowed origins may call the
 * server. Every answer to an allowed origin has the headers, errors too, because a page could not
 * read the error without them. Cookies are never used: a page sends an API key.
 *
 * Thread: the loop's.
 * Memory: none.
 */
#ifndef SERVER_HTTP_CORS_H
#define SERVER_HTTP_CORS_H

#include <stdbool.h>

struct http_call;

/* True: the call is a preflight, by which a browser asks if it may send the real request. */
bool cors_is_preflight(const struct http_call *call, const char *method);

/* Add the headers of every answer; `origins` is a checked list (config/origins.h). */
void cors_add_headers(const char *origins, struct http_call *call);

/* Answer a preflight: 204, with the permissions if the origin is allowed, without them if not. */
void cors_answer(const char *origins, struct http_call *call);

#endif
