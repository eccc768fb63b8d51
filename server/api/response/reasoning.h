/* server/api/response/reasoning.h - drops the thoughts of a chat's answer, or writes them into its
 * content.
 *
 * Thread: the loop's.
 * Memory: none of its own.
 */
#ifndef SERVER_API_RESPONSE_REASONING_H
#define SERVER_API_RESPONSE_REASONING_H

#include <stdbool.h>
#include <stddef.h>

struct choice;

/* After the parser has sorted more text, whose content had n bytes before: drops its thoughts, or
 * puts them in front of the new content, between marks; `is_over` ends an open one. */
void reasoning_place(struct choice *c, size_t n, bool is_over);

#endif
