/* server/api/response/reasoning.h - where the thoughts of a chat's answer go.
 *
 * Thread: the loop's.
 * Memory: none of its own.
 */
#ifndef SERVER_API_RESPONSE_REASONING_H
#define SERVER_API_RESPONSE_REASONING_H

#include <stdbool.h>
#include <stddef.h>

struct choice;

/* The parser has sorted more of the text, whose content had n bytes before: drop its thoughts, or
 * put them in front of what was added to the content, between marks; `is_over` ends an open one. */
void reasoning_place(struct choice *c, size_t n, bool is_over);

#endif
