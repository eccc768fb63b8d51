/* server/http/head_check.h - the checks of a request's head, before its body has come.
 *
 * In this order: fields that the server reads must not occur twice (400); the host must be one that
 * is answered here, against DNS rebinding (403); a web page's origin must be the request's own host
 * or have been allowed, against cross-site requests (403); then path, method, keys, and the body's
 * content type: JSON, or no body. A page may send a form or a plain text to another site without a
 * preflight, so those are refused even without an Origin; a route that takes any type (Ollama's,
 * for curl -d) takes them only from a request without Origin, Sec-Fetch-Site and Referer, the
 * headers by which a browser's request can be recognized.
 *
 * Thread: the loop's.
 * Memory: none.
 */
#ifndef SERVER_HTTP_HEAD_CHECK_H
#define SERVER_HTTP_HEAD_CHECK_H

#include <stdbool.h>

struct http_call;

enum head_origin { /* the socket on which a request came */
    HEAD_ANYWHERE = 0, /* TCP beyond loopback */
    HEAD_LOOPBACK,     /* TCP, when the server listens on loopback only */
    HEAD_UNIX,
};

/* Find the route and check the head. If a check fails, the call has been answered. `is_reserved`:
 * only routes with a reserved flag are allowed. */
void head_check(struct http_call *c, enum head_origin from, bool is_reserved);

/* Find the first route that matches the path; false: none does. */
bool head_find_route(struct http_call *c);

/* True: a refusal must be sent before the end of the body, because the client waits for 100
 * (Continue) or announces a body that is far too large. */
bool head_must_answer_now(const struct http_call *c);

#endif
