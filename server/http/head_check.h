/* server/http/head_check.h - the checks of a request's head, before its body has come.
 *
 * In this order: fields that are read must not stand twice (400); the host must be one that is
 * answered here, against DNS rebinding (403); a web page's origin must be the request's own host or
 * have been allowed, against cross-site requests (403); then path, method, keys, and what the
 * body is said to be: JSON, or nothing at all. A page may send a form or a plain text elsewhere
 * without asking the server first, so those are refused even where no Origin gives the page away;
 * a route that takes any type (Ollama's, for curl -d) takes them only from a request without any of
 * the headers by which browsers do, Origin, Sec-Fetch-Site and Referer.
 *
 * Thread: the loop's.
 * Memory: none.
 */
#ifndef SERVER_HTTP_HEAD_CHECK_H
#define SERVER_HTTP_HEAD_CHECK_H

#include <stdbool.h>

struct http_call;

enum head_origin { /* by which socket a request came */
    HEAD_ANYWHERE = 0, /* TCP beyond loopback */
    HEAD_LOOPBACK,     /* TCP, where nothing listens beyond loopback */
    HEAD_UNIX,
};

/* Finds the route, and answers what is refused; `is_reserved`: only routes with a reserved flag. */
void head_check(struct http_call *c, enum head_origin from, bool is_reserved);

/* The first route that takes its path; false: there is none. */
bool head_find_route(struct http_call *c);

/* A refusal that must not wait for the end of the body: the client waits for 100 (Continue), or
 * means to send far too much. */
bool head_must_answer_now(const struct http_call *c);

#endif
