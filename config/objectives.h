/* config/objectives.h - a gateway's names for classes of requests, as text, with the priority of
 * each: "premium=high,batch=low".
 *
 * Thread: any. Memory: none.
 */
#ifndef CONFIG_OBJECTIVES_H
#define CONFIG_OBJECTIVES_H

#include <stdbool.h>
#include <stddef.h>

#define OBJECTIVES_MAX_NAME 127

/* True: the list is valid: names of visible characters without '=' and ',', at most
 * OBJECTIVES_MAX_NAME long, each with =low, =normal, =high or =critical, with commas between. "" is
 * an empty list. */
bool objectives_are_valid(const char *text);

/* Find a name in a valid list, and copy its priority's word to out[size]; false: the list does not
 * have it. */
bool objectives_find(const char *text, const char *name, char *out, size_t size);

#endif
